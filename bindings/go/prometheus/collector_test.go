package dpbprometheus

import (
	"bytes"
	"cmp"
	"io"
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

// bandits returns a plain bandit, one with segments, and a closed one. Some have made decisions and refused calls.
func bandits(t *testing.T) map[string]*dpb.Bandit {
	t.Helper()
	config := dpb.NewConfig(3, 1)
	plain := must(dpb.New(config))
	config.MaxSegments = 4
	segmented, closed := must(dpb.New(config)), must(dpb.New(config))
	t.Cleanup(func() {
		plain.Close()
		segmented.Close()
	})
	for i := range 2000 {
		d := must(plain.Select())
		_ = plain.Update(d.Ticket, float64(i%2))
		d = must(segmented.SelectFor(dpb.Request{Segment: uint64(i % 3)}))
		_ = segmented.Update(d.Ticket, 1)
		_ = segmented.Update(d.Ticket, 1)
	}
	closed.Close()
	return map[string]*dpb.Bandit{"ads": plain, "front \"page\"\\\n\xff": segmented, "closed": closed}
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

// A collector has the same metrics as the page, to the last digit.
func TestCollectorsAreThePages(t *testing.T) {
	named := bandits(t)
	for _, each := range []struct {
		collector *Collector
		write     func(io.Writer, map[string]*dpb.Bandit) error
	}{{NewCollector(named), dpb.WriteMetrics}, {NewOperatorCollector(named), dpb.WriteOperatorMetrics}} {
		registry := prometheus.NewPedanticRegistry()
		registry.MustRegister(each.collector)
		var page bytes.Buffer
		if err := each.write(&page, named); err != nil {
			t.Fatal(err)
		}
		parser := expfmt.NewTextParser(model.UTF8Validation)
		var written []*dto.MetricFamily
		for _, family := range must(parser.TextToMetricFamilies(&page)) {
			written = append(written, family)
		}
		collected := lines(must(registry.Gather()))
		if want := lines(written); !slices.Equal(collected, want) || len(collected) < 90 {
			t.Errorf("collected\n%s\nwritten\n%s", strings.Join(collected, "\n"), strings.Join(want, "\n"))
		}
		if wrong := must(testutil.CollectAndLint(each.collector)); len(wrong) > 0 {
			t.Error(wrong)
		}
	}
}

// Only the operators' collector has metrics that are not private, and no registry accepts both collectors.
func TestOperatorsMetricsAreApart(t *testing.T) {
	named := bandits(t)
	registry := prometheus.NewRegistry()
	registry.MustRegister(NewCollector(named))
	for _, family := range must(registry.Gather()) {
		if strings.Contains(family.GetHelp(), "NOT private") || slices.Contains([]string{"dpb_duplicates_total", "dpb_late_total", "dpb_rejected_total", "dpb_unknown_total"}, family.GetName()) {
			t.Error(family.GetName(), "is public")
		}
	}
	if registry.Register(NewOperatorCollector(named)) == nil {
		t.Error("one registry has both")
	}
}
