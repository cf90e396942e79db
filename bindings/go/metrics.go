package dpb

import (
	"bufio"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// WriteMetrics writes the public metrics of these bandits in Prometheus' text format. The key of each bandit is its label
// "bandit". For a segmented bandit, the arms are those of all segments together. All values are released or public, so
// you may show the page to anyone.
//
// A bandit that is closed or poisoned has only dpb_up, with value 0. The error is from w.
func WriteMetrics(w io.Writer, bandits map[string]*Bandit) error {
	return writeMetrics(w, bandits, false)
}

// WriteOperatorMetrics writes the metrics of [WriteMetrics] and the counts of refused calls ([Diagnostics]), which are
// NOT private: a duplicate reveals a click. Show the page to operators only.
func WriteOperatorMetrics(w io.Writer, bandits map[string]*Bandit) error {
	return writeMetrics(w, bandits, true)
}

// measured holds the numbers of one bandit.
type measured struct {
	label       string // bandit="name"
	up          bool
	policy      string
	report      Report
	arms        []Arm
	diagnostics Diagnostics
}

func measure(name string, b *Bandit) measured {
	m := measured{label: `bandit="` + escape(name) + `"`, policy: b.PolicyName()}
	var err [3]error
	m.report, err[0] = b.Report()
	m.arms, err[1] = b.Arms()
	m.diagnostics, err[2] = b.Diagnostics()
	m.up = err == [3]error{}
	return m
}

// escapes quotes the value of a label as the format requires.
var escapes = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)

func escape(text string) string { return escapes.Replace(strings.ToValidUTF8(text, "\uFFFD")) }

// metrics writes each family of metrics once, with all of its lines together, as the format requires.
type metrics struct {
	*bufio.Writer
	bandits []measured
}

func (m metrics) head(name, kind, help string) {
	m.WriteString("# HELP dpb_" + name + " " + help + "\n# TYPE dpb_" + name + " " + kind + "\n")
}

func (m metrics) line(name, labels string, value float64) {
	m.WriteString("dpb_" + name + "{" + labels + "} " + strconv.FormatFloat(value, 'g', -1, 64) + "\n")
}

func (m metrics) gauge(name, help string, value func(*measured) float64) {
	m.head(name, "gauge", help)
	for i := range m.bandits {
		if b := &m.bandits[i]; b.up {
			m.line(name, b.label, value(b))
		}
	}
}

func (m metrics) count(name, help string, value func(*measured) uint64) {
	m.head(name+"_total", "counter", help)
	for i := range m.bandits {
		if b := &m.bandits[i]; b.up {
			m.WriteString("dpb_" + name + "_total{" + b.label + "} " + strconv.FormatUint(value(b), 10) + "\n")
		}
	}
}

func (m metrics) arm(name, help string, value func(*Arm) float64) {
	m.head("arm_"+name, "gauge", help)
	for i := range m.bandits {
		if b := &m.bandits[i]; b.up {
			for arm := range b.arms {
				m.line("arm_"+name, b.label+`,arm="`+strconv.Itoa(arm)+`"`, value(&b.arms[arm]))
			}
		}
	}
}

func one(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

func writeMetrics(w io.Writer, bandits map[string]*Bandit, operator bool) error {
	m := metrics{Writer: bufio.NewWriter(w)}
	for _, name := range slices.Sorted(maps.Keys(bandits)) {
		m.bandits = append(m.bandits, measure(name, bandits[name]))
	}
	m.head("up", "gauge", "1, or 0 for a handle that is closed.")
	for _, each := range m.bandits {
		m.line("up", each.label, one(each.up))
	}
	m.head("info", "gauge", "1, with the policy and the version of the library.")
	for _, b := range m.bandits {
		if b.up {
			m.line("info", b.label+`,policy="`+b.policy+`",version="`+Version()+`"`, 1)
		}
	}
	m.count("decisions", "Decisions made.", func(b *measured) uint64 { return b.report.Decisions })
	m.count("answered", "Decisions whose reward took effect or whose reward window is over.",
		func(b *measured) uint64 { return b.report.Answered })
	m.count("cancelled", "Decisions that were cancelled.", func(b *measured) uint64 { return b.report.Cancelled })
	m.count("expired", "Decisions that a full pending table or a restart dropped.",
		func(b *measured) uint64 { return b.report.Expired })
	m.count("changes", "Releases that contradicted the arm's earlier releases.",
		func(b *measured) uint64 { return b.report.ChangesDetected })
	m.gauge("pending", "Decisions that are open.",
		func(b *measured) float64 { return float64(b.report.Pending) })
	m.gauge("phase", "The policy's epoch, phase or interval.",
		func(b *measured) float64 { return float64(b.report.Phase) })
	m.gauge("arms_active", "Arms that are neither eliminated nor retired.",
		func(b *measured) float64 { return float64(b.report.ArmsActive) })
	m.gauge("epsilon_spent", "Upper bound of the privacy loss so far, at dpb_delta_spent.",
		func(b *measured) float64 { return b.report.EpsilonSpent })
	m.gauge("delta_spent", "Delta at which dpb_epsilon_spent holds; 0 if the policy is pure.",
		func(b *measured) float64 { return b.report.DeltaSpent })
	m.gauge("private", "1, or 0 for baselines and under a test seed.",
		func(b *measured) float64 { return one(b.report.IsPrivate) })
	m.gauge("segments", "Segments in use; 0 for a handle without segments.",
		func(b *measured) float64 { return float64(b.report.Segments) })
	m.arm("mean", "Released mean reward; NaN before the first release.", func(a *Arm) float64 { return a.Mean })
	m.arm("width", "Half-width of the mean's confidence interval.", func(a *Arm) float64 { return a.Width })
	m.arm("pulls", "Decisions that were not cancelled and did not expire.",
		func(a *Arm) float64 { return float64(a.Pulls) })
	m.arm("effective_pulls", "Rewards in the released mean, discounted with forget_after.",
		func(a *Arm) float64 { return a.EffectivePulls })
	m.arm("active", "1, or 0 if the arm is eliminated or retired.", func(a *Arm) float64 { return one(a.Active) })
	if operator {
		m.count("duplicates", "Updates and cancellations of a ticket that had one already. NOT private.",
			func(b *measured) uint64 { return b.diagnostics.Duplicates })
		m.count("late", "Updates and cancellations of an expired ticket. NOT private.",
			func(b *measured) uint64 { return b.diagnostics.Late })
		m.count("rejected", "Rewards that were refused. NOT private.",
			func(b *measured) uint64 { return b.diagnostics.Rejected })
		m.count("unknown", "Tickets that the handle never issued. NOT private.",
			func(b *measured) uint64 { return b.diagnostics.Unknown })
	}
	return m.Flush()
}
