package dpbprometheus

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	dpb "github.com/libdpb/libdpb/bindings/go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// restored returns a bandit that continues from a snapshot of a new one.
func restored(t *testing.T, fresh *dpb.Bandit, err error) *dpb.Bandit {
	t.Helper()
	defer must(fresh, err).Close()
	b := must(dpb.Restore(must(fresh.Snapshot(nil))))
	t.Cleanup(func() { b.Close() })
	return b
}

// bandits returns the bandits of tests/cpp/metrics.cpp, after the same calls.
func bandits(t *testing.T) map[string]*dpb.Bandit {
	t.Helper()
	fresh, err := dpb.NewSE(dpb.NewConfig(2, 0.5))
	front := restored(t, fresh, err)
	shown, hidden := must(front.Select()), must(front.Select())
	config := dpb.NewConfig(2, 0.25)
	config.MaxSegments = 2
	fresh, err = dpb.New(config)
	slots := restored(t, fresh, err)
	decisions, first := make([]dpb.Decision, 3), []uint32{0}
	must(slots.SelectMany([]dpb.Request{{Eligible: first}, {Segment: 1, Eligible: first}, {Eligible: first}}, decisions))
	baseline, closed := must(dpb.NewNonprivateUCB1(dpb.NewConfig(2, 1))), must(dpb.New(dpb.NewConfig(2, 1)))
	t.Cleanup(func() { baseline.Close() })
	closed.Close()
	if err := errors.Join(front.Update(shown.Ticket, 1), front.Cancel(hidden.Ticket),
		slots.Update(decisions[0].Ticket, 1), slots.Cancel(decisions[1].Ticket)); err != nil {
		t.Fatal(err)
	}
	_, _ = front.Update(shown.Ticket, 1), front.Update(shown.Ticket, 7)
	_ = slots.Update(decisions[0].Ticket, 1)
	fresh, err = dpb.NewTT(dpb.NewConfig(2, 1))
	test := restored(t, fresh, err)
	config = dpb.NewConfig(2, 1)
	config.Features = 2
	fresh, err = dpb.NewLinear(config)
	features := restored(t, fresh, err)
	config.ModelPerArm = true
	fresh, err = dpb.NewLinear(config)
	models := restored(t, fresh, err)
	return map[string]*dpb.Bandit{"front \"page\"\n\\": front, "baseline": baseline, "closed": closed, "slots": slots, "test": test,
		"features": features, "models": models}
}

// lines returns the sorted lines of a page.
func lines(families []*dto.MetricFamily) []string {
	var page bytes.Buffer
	for _, family := range families {
		for _, metric := range family.Metric {
			slices.SortFunc(metric.Label, func(a, b *dto.LabelPair) int { return cmp.Compare(a.GetName(), b.GetName()) })
		}
		must(expfmt.MetricFamilyToText(&page, family))
	}
	all := strings.Split(page.String(), "\n")
	slices.Sort(all)
	return all
}

func parsed(page io.Reader) (families []*dto.MetricFamily) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	for _, family := range must(parser.TextToMetricFamilies(page)) {
		families = append(families, family)
	}
	return families
}

// A collector has the metrics of the page that C++ writes, to the last digit.
func TestCollectorsHaveThePagesOfCPP(t *testing.T) {
	named := bandits(t)
	operators := strings.ReplaceAll(string(must(os.ReadFile("../../../tests/cpp/metrics.txt"))), "VERSION", dpb.Version())
	public, _, _ := strings.Cut(operators, "# HELP dpb_duplicates")
	if strings.Contains(public, "NOT private") {
		t.Error("a count that is not private")
	}
	for _, each := range []struct {
		collector *Collector
		page      string
	}{{NewCollector(named), public}, {NewOperatorCollector(named), operators}} {
		registry := prometheus.NewPedanticRegistry()
		registry.MustRegister(each.collector)
		collected := lines(must(registry.Gather()))
		if want := lines(parsed(strings.NewReader(each.page))); !slices.Equal(collected, want) || len(collected) < 90 {
			t.Errorf("collected\n%s\nexpected\n%s", strings.Join(collected, "\n"), strings.Join(want, "\n"))
		}
		if wrong := must(testutil.CollectAndLint(each.collector)); len(wrong) > 0 {
			t.Error(wrong)
		}
	}
}

// The lift is on the page from the first release of each arm on.
func TestLift(t *testing.T) {
	bandit := must(dpb.NewSE(dpb.NewConfig(2, 1)))
	defer bandit.Close()
	names := []string{"dpb_lift_low", "dpb_lift_high"}
	collector := NewCollector(map[string]*dpb.Bandit{"ads": bandit})
	if n := testutil.CollectAndCount(collector, names...); n != 0 {
		t.Errorf("%d ends before the first decision", n)
	}
	for t := range 20_000 {
		decision := must(bandit.Select())
		reward := 0.0
		if decision.Arm == 0 && t%3 == 0 {
			reward = 1
		}
		if err := bandit.Update(decision.Ticket, reward); err != nil {
			panic(err)
		}
	}
	low, high, err := bandit.Lift(dpb.NoArm, 0.95)
	expected := fmt.Sprintf(`# HELP dpb_lift_low Lower end of a 95%% interval for what decisions gain over even play: 0.1 is 10%% more.
# TYPE dpb_lift_low gauge
dpb_lift_low{bandit="ads"} %v
# HELP dpb_lift_high Upper end of that interval.
# TYPE dpb_lift_high gauge
dpb_lift_high{bandit="ads"} %v
`, low, high)
	if err := errors.Join(err, testutil.CollectAndCompare(collector, strings.NewReader(expected), names...)); err != nil {
		t.Error(err)
	}
}

// No registry accepts both collectors, and a name that is no text is made one.
func TestRegistries(t *testing.T) {
	b := must(dpb.New(dpb.NewConfig(2, 1)))
	defer b.Close()
	named := map[string]*dpb.Bandit{"\xff": b}
	registry := prometheus.NewRegistry()
	registry.MustRegister(NewCollector(named))
	if registry.Register(NewOperatorCollector(named)) == nil {
		t.Error("one registry has both")
	}
	if up := lines(must(registry.Gather())); !slices.Contains(up, "dpb_up{bandit=\"\uFFFD\"} 1") {
		t.Error(up)
	}
}
