// Package dpbprometheus collects the metrics of bandits for the Prometheus client library. Their names are those of
// [dpb.WriteMetrics]:
//
//	registry := prometheus.NewRegistry()
//	registry.MustRegister(dpbprometheus.NewCollector(map[string]*dpb.Bandit{"ads": bandit}))
//	http.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
//
// There are two collectors, for two registries and two pages: one with public metrics, and one for operators, which also
// has metrics that are NOT private. A registry refuses both together, because the operators' collector has all metrics of
// the other.
package dpbprometheus

import (
	"maps"
	"strconv"
	"strings"

	dpb "github.com/libdpb/libdpb/bindings/go"
	"github.com/prometheus/client_golang/prometheus"
)

// Collector reads bandits at each scrape. It is a [prometheus.Collector].
type Collector struct {
	bandits  map[string]*dpb.Bandit
	operator bool
}

// NewCollector returns a collector of the public metrics of these bandits. The key of each bandit is its label "bandit".
// For a segmented bandit, the arms are those of all segments together. A bandit that is closed or poisoned has only
// dpb_up, with value 0.
func NewCollector(bandits map[string]*dpb.Bandit) *Collector { return newCollector(bandits, false) }

// NewOperatorCollector returns a collector of the metrics of [NewCollector] and of the counts of refused calls
// ([dpb.Diagnostics]), which are NOT private: a duplicate reveals a click. Show them to operators only.
func NewOperatorCollector(bandits map[string]*dpb.Bandit) *Collector {
	return newCollector(bandits, true)
}

func newCollector(bandits map[string]*dpb.Bandit, operator bool) *Collector {
	named := map[string]*dpb.Bandit{}
	for name, bandit := range maps.All(bandits) {
		named[strings.ToValidUTF8(name, "\uFFFD")] = bandit
	}
	return &Collector{named, operator}
}

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("dpb_"+name, help, append([]string{"bandit"}, labels...), nil)
}

// metric is a metric that is read from a T.
type metric[T any] struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*T) float64
}

func count[T any](name, help string, value func(*T) uint64) metric[T] {
	return metric[T]{describe(name+"_total", help), prometheus.CounterValue, func(of *T) float64 { return float64(value(of)) }}
}

func gauge[T any](name, help string, value func(*T) float64, labels ...string) metric[T] {
	return metric[T]{describe(name, help, labels...), prometheus.GaugeValue, value}
}

func one(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

var (
	up   = describe("up", "1, or 0 for a handle that is closed.")
	info = describe("info", "1, with the policy and the version of the library.", "policy", "version")

	reports = []metric[dpb.Report]{
		count("decisions", "Decisions made.", func(r *dpb.Report) uint64 { return r.Decisions }),
		count("answered", "Decisions whose reward took effect or whose reward window is over.", func(r *dpb.Report) uint64 { return r.Answered }),
		count("cancelled", "Decisions that were cancelled.", func(r *dpb.Report) uint64 { return r.Cancelled }),
		count("expired", "Decisions that a full pending table or a restart dropped.", func(r *dpb.Report) uint64 { return r.Expired }),
		count("changes", "Releases that contradicted the arm's earlier releases.", func(r *dpb.Report) uint64 { return r.ChangesDetected }),
		gauge("pending", "Decisions that are open.", func(r *dpb.Report) float64 { return float64(r.Pending) }),
		gauge("phase", "The policy's epoch, phase or interval.", func(r *dpb.Report) float64 { return float64(r.Phase) }),
		gauge("arms_active", "Arms that are neither eliminated nor retired.", func(r *dpb.Report) float64 { return float64(r.ArmsActive) }),
		gauge("epsilon_spent", "Upper bound of the privacy loss so far, at dpb_delta_spent.", func(r *dpb.Report) float64 { return r.EpsilonSpent }),
		gauge("delta_spent", "Delta at which dpb_epsilon_spent holds; 0 if the policy is pure.", func(r *dpb.Report) float64 { return r.DeltaSpent }),
		gauge("private", "1, or 0 for baselines and under a test seed.", func(r *dpb.Report) float64 { return one(r.IsPrivate) }),
		gauge("segments", "Segments in use; 0 for a handle without segments.", func(r *dpb.Report) float64 { return float64(r.Segments) }),
	}
	arms = []metric[dpb.Arm]{
		gauge("arm_mean", "Released mean reward; NaN before the first release.", func(a *dpb.Arm) float64 { return a.Mean }, "arm"),
		gauge("arm_width", "Half-width of the mean's confidence interval.", func(a *dpb.Arm) float64 { return a.Width }, "arm"),
		gauge("arm_pulls", "Decisions that were not cancelled and did not expire.", func(a *dpb.Arm) float64 { return float64(a.Pulls) }, "arm"),
		gauge("arm_effective_pulls", "Rewards in the released mean, discounted with forget_after.", func(a *dpb.Arm) float64 { return a.EffectivePulls }, "arm"),
		gauge("arm_active", "1, or 0 if the arm is eliminated or retired.", func(a *dpb.Arm) float64 { return one(a.Active) }, "arm"),
	}
	diagnostics = []metric[dpb.Diagnostics]{
		count("duplicates", "Updates and cancellations of a ticket that had one already. NOT private.", func(d *dpb.Diagnostics) uint64 { return d.Duplicates }),
		count("late", "Updates and cancellations of an expired ticket. NOT private.", func(d *dpb.Diagnostics) uint64 { return d.Late }),
		count("rejected", "Rewards that were refused. NOT private.", func(d *dpb.Diagnostics) uint64 { return d.Rejected }),
		count("unknown", "Tickets that the handle never issued. NOT private.", func(d *dpb.Diagnostics) uint64 { return d.Unknown }),
	}
)

func descriptions[T any](to chan<- *prometheus.Desc, metrics []metric[T]) {
	for _, metric := range metrics {
		to <- metric.desc
	}
}

func collect[T any](to chan<- prometheus.Metric, metrics []metric[T], of *T, labels ...string) {
	for _, metric := range metrics {
		to <- prometheus.MustNewConstMetric(metric.desc, metric.kind, metric.value(of), labels...)
	}
}

// Describe implements [prometheus.Collector].
func (c *Collector) Describe(to chan<- *prometheus.Desc) {
	to <- up
	to <- info
	descriptions(to, reports)
	descriptions(to, arms)
	if c.operator {
		descriptions(to, diagnostics)
	}
}

// Collect implements [prometheus.Collector]. Any number of goroutines may call it.
func (c *Collector) Collect(to chan<- prometheus.Metric) {
	for name, bandit := range c.bandits {
		report, err := bandit.Report()
		read, wrong := bandit.Arms()
		refused, broken := bandit.Diagnostics()
		well := err == nil && wrong == nil && broken == nil
		to <- prometheus.MustNewConstMetric(up, prometheus.GaugeValue, one(well), name)
		if !well {
			continue
		}
		to <- prometheus.MustNewConstMetric(info, prometheus.GaugeValue, 1, name, bandit.PolicyName(), dpb.Version())
		collect(to, reports, &report, name)
		for arm := range read {
			collect(to, arms, &read[arm], name, strconv.Itoa(arm))
		}
		if c.operator {
			collect(to, diagnostics, &refused, name)
		}
	}
}
