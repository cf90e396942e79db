package dpb

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

// The operators' page of TestMetrics. tests/metrics.rs checks that C++ writes the same page.
const operatorPage = `# HELP dpb_up 1, or 0 for a handle that is closed.
# TYPE dpb_up gauge
dpb_up{bandit="baseline"} 1
dpb_up{bandit="closed"} 0
dpb_up{bandit="front \"page\"\n\\"} 1
dpb_up{bandit="slots"} 1
# HELP dpb_info 1, with the policy and the version of the library.
# TYPE dpb_info gauge
dpb_info{bandit="baseline",policy="nonprivate-ucb1",version="VERSION"} 1
dpb_info{bandit="front \"page\"\n\\",policy="dp-se",version="VERSION"} 1
dpb_info{bandit="slots",policy="dp-imed",version="VERSION"} 1
# HELP dpb_decisions_total Decisions made.
# TYPE dpb_decisions_total counter
dpb_decisions_total{bandit="baseline"} 0
dpb_decisions_total{bandit="front \"page\"\n\\"} 2
dpb_decisions_total{bandit="slots"} 3
# HELP dpb_answered_total Decisions whose reward took effect or whose reward window is over.
# TYPE dpb_answered_total counter
dpb_answered_total{bandit="baseline"} 0
dpb_answered_total{bandit="front \"page\"\n\\"} 1
dpb_answered_total{bandit="slots"} 1
# HELP dpb_cancelled_total Decisions that were cancelled.
# TYPE dpb_cancelled_total counter
dpb_cancelled_total{bandit="baseline"} 0
dpb_cancelled_total{bandit="front \"page\"\n\\"} 1
dpb_cancelled_total{bandit="slots"} 1
# HELP dpb_expired_total Decisions that a full pending table or a restart dropped.
# TYPE dpb_expired_total counter
dpb_expired_total{bandit="baseline"} 0
dpb_expired_total{bandit="front \"page\"\n\\"} 0
dpb_expired_total{bandit="slots"} 0
# HELP dpb_changes_total Releases that contradicted the arm's earlier releases.
# TYPE dpb_changes_total counter
dpb_changes_total{bandit="baseline"} 0
dpb_changes_total{bandit="front \"page\"\n\\"} 0
dpb_changes_total{bandit="slots"} 0
# HELP dpb_pending Decisions that are open.
# TYPE dpb_pending gauge
dpb_pending{bandit="baseline"} 0
dpb_pending{bandit="front \"page\"\n\\"} 0
dpb_pending{bandit="slots"} 1
# HELP dpb_phase The policy's epoch, phase or interval.
# TYPE dpb_phase gauge
dpb_phase{bandit="baseline"} 0
dpb_phase{bandit="front \"page\"\n\\"} 1
dpb_phase{bandit="slots"} 0
# HELP dpb_arms_active Arms that are neither eliminated nor retired.
# TYPE dpb_arms_active gauge
dpb_arms_active{bandit="baseline"} 2
dpb_arms_active{bandit="front \"page\"\n\\"} 2
dpb_arms_active{bandit="slots"} 2
# HELP dpb_epsilon_spent Upper bound of the privacy loss so far, at dpb_delta_spent.
# TYPE dpb_epsilon_spent gauge
dpb_epsilon_spent{bandit="baseline"} +Inf
dpb_epsilon_spent{bandit="front \"page\"\n\\"} 0.5
dpb_epsilon_spent{bandit="slots"} 0.25
# HELP dpb_delta_spent Delta at which dpb_epsilon_spent holds; 0 if the policy is pure.
# TYPE dpb_delta_spent gauge
dpb_delta_spent{bandit="baseline"} 0
dpb_delta_spent{bandit="front \"page\"\n\\"} 0
dpb_delta_spent{bandit="slots"} 0
# HELP dpb_private 1, or 0 for baselines and under a test seed.
# TYPE dpb_private gauge
dpb_private{bandit="baseline"} 0
dpb_private{bandit="front \"page\"\n\\"} 1
dpb_private{bandit="slots"} 1
# HELP dpb_segments Segments in use; 0 for a handle without segments.
# TYPE dpb_segments gauge
dpb_segments{bandit="baseline"} 0
dpb_segments{bandit="front \"page\"\n\\"} 0
dpb_segments{bandit="slots"} 2
# HELP dpb_arm_mean Released mean reward; NaN before the first release.
# TYPE dpb_arm_mean gauge
dpb_arm_mean{bandit="baseline",arm="0"} NaN
dpb_arm_mean{bandit="baseline",arm="1"} NaN
dpb_arm_mean{bandit="front \"page\"\n\\",arm="0"} NaN
dpb_arm_mean{bandit="front \"page\"\n\\",arm="1"} NaN
dpb_arm_mean{bandit="slots",arm="0"} 0.1
dpb_arm_mean{bandit="slots",arm="1"} 0.1
# HELP dpb_arm_width Half-width of the mean's confidence interval.
# TYPE dpb_arm_width gauge
dpb_arm_width{bandit="baseline",arm="0"} NaN
dpb_arm_width{bandit="baseline",arm="1"} NaN
dpb_arm_width{bandit="front \"page\"\n\\",arm="0"} NaN
dpb_arm_width{bandit="front \"page\"\n\\",arm="1"} NaN
dpb_arm_width{bandit="slots",arm="0"} NaN
dpb_arm_width{bandit="slots",arm="1"} NaN
# HELP dpb_arm_pulls Decisions that were not cancelled and did not expire.
# TYPE dpb_arm_pulls gauge
dpb_arm_pulls{bandit="baseline",arm="0"} 0
dpb_arm_pulls{bandit="baseline",arm="1"} 0
dpb_arm_pulls{bandit="front \"page\"\n\\",arm="0"} 1
dpb_arm_pulls{bandit="front \"page\"\n\\",arm="1"} 0
dpb_arm_pulls{bandit="slots",arm="0"} 2
dpb_arm_pulls{bandit="slots",arm="1"} 0
# HELP dpb_arm_effective_pulls Rewards in the released mean, discounted with forget_after.
# TYPE dpb_arm_effective_pulls gauge
dpb_arm_effective_pulls{bandit="baseline",arm="0"} 0
dpb_arm_effective_pulls{bandit="baseline",arm="1"} 0
dpb_arm_effective_pulls{bandit="front \"page\"\n\\",arm="0"} 0
dpb_arm_effective_pulls{bandit="front \"page\"\n\\",arm="1"} 0
dpb_arm_effective_pulls{bandit="slots",arm="0"} 0
dpb_arm_effective_pulls{bandit="slots",arm="1"} 0
# HELP dpb_arm_active 1, or 0 if the arm is eliminated or retired.
# TYPE dpb_arm_active gauge
dpb_arm_active{bandit="baseline",arm="0"} 1
dpb_arm_active{bandit="baseline",arm="1"} 1
dpb_arm_active{bandit="front \"page\"\n\\",arm="0"} 1
dpb_arm_active{bandit="front \"page\"\n\\",arm="1"} 1
dpb_arm_active{bandit="slots",arm="0"} 1
dpb_arm_active{bandit="slots",arm="1"} 1
# HELP dpb_duplicates_total Updates and cancellations of a ticket that had one already. NOT private.
# TYPE dpb_duplicates_total counter
dpb_duplicates_total{bandit="baseline"} 0
dpb_duplicates_total{bandit="front \"page\"\n\\"} 1
dpb_duplicates_total{bandit="slots"} 1
# HELP dpb_late_total Updates and cancellations of an expired ticket. NOT private.
# TYPE dpb_late_total counter
dpb_late_total{bandit="baseline"} 0
dpb_late_total{bandit="front \"page\"\n\\"} 0
dpb_late_total{bandit="slots"} 0
# HELP dpb_rejected_total Rewards that were refused. NOT private.
# TYPE dpb_rejected_total counter
dpb_rejected_total{bandit="baseline"} 0
dpb_rejected_total{bandit="front \"page\"\n\\"} 1
dpb_rejected_total{bandit="slots"} 0
# HELP dpb_unknown_total Tickets that the handle never issued. NOT private.
# TYPE dpb_unknown_total counter
dpb_unknown_total{bandit="baseline"} 0
dpb_unknown_total{bandit="front \"page\"\n\\"} 0
dpb_unknown_total{bandit="slots"} 0
`

// front is a restored bandit after two decisions, one with a reward and one cancelled, and one refusal of each kind.
func front(t *testing.T) *Bandit {
	fresh := must[*Bandit](t)(NewSE(NewConfig(2, 0.5)))
	defer fresh.Close()
	b := must[*Bandit](t)(Restore(must[[]byte](t)(fresh.Snapshot(nil))))
	t.Cleanup(func() { b.Close() })
	shown, hidden := must[Decision](t)(b.Select()), must[Decision](t)(b.Select())
	if err := errors.Join(b.Update(shown.Ticket, 1), b.Cancel(hidden.Ticket)); err != nil {
		t.Fatal(err)
	}
	refused(t, b.Update(shown.Ticket, 1), ErrDuplicate)
	refused(t, b.Update(shown.Ticket, 7), ErrInvalidReward)
	return b
}

// slots is a restored bandit with segments after three decisions: one with two updates, one cancelled, one open.
func slots(t *testing.T) *Bandit {
	fresh := segmented(t, NewConfig(2, 0.25), 2)
	p := must[*Bandit](t)(Restore(must[[]byte](t)(fresh.Snapshot(nil))))
	t.Cleanup(func() { p.Close() })
	shown := make([]Decision, 3)
	first := []uint32{0}
	must[int](t)(p.SelectMany([]Request{{Eligible: first}, {Segment: 1, Eligible: first}, {Eligible: first}}, shown))
	if err := errors.Join(p.Update(shown[0].Ticket, 1), p.Cancel(shown[1].Ticket)); err != nil {
		t.Fatal(err)
	}
	refused(t, p.Update(shown[0].Ticket, 1), ErrDuplicate)
	return p
}

func TestMetrics(t *testing.T) {
	closed, baseline := bandit(t, 2), must[*Bandit](t)(NewNonprivateUCB1(NewConfig(2, 1)))
	closed.Close()
	defer baseline.Close()
	bandits := map[string]*Bandit{"front \"page\"\n\\": front(t), "baseline": baseline, "closed": closed, "slots": slots(t)}
	var page bytes.Buffer
	if err := WriteOperatorMetrics(&page, bandits); err != nil {
		t.Fatal(err)
	}
	expected := strings.Replace(operatorPage, "VERSION", Version(), 3)
	if page.String() != expected {
		t.Errorf("got\n%s", page.String())
	}
	// The public page is the beginning of the operators' page, without the counts of refusals.
	public := expected[:strings.Index(expected, "# HELP dpb_duplicates")]
	page.Reset()
	if err := WriteMetrics(&page, bandits); err != nil || page.String() != public {
		t.Errorf("%v, got\n%s", err, page.String())
	}
	if strings.Contains(public, "NOT private") {
		t.Error("a count that is not private")
	}
}

// full is a writer that always fails.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("full") }

func TestMetricsNowhere(t *testing.T) {
	if err := WriteMetrics(full{}, map[string]*Bandit{"x": bandit(t, 2)}); err == nil || err.Error() != "full" {
		t.Error(err)
	}
	var page bytes.Buffer
	if err := WriteMetrics(&page, map[string]*Bandit{"\xff": bandit(t, 2)}); err != nil ||
		!strings.Contains(page.String(), "dpb_up{bandit=\"\uFFFD\"} 1\n") {
		t.Error(page.String())
	}
}
