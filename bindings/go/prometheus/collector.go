// Package dpbprometheus collects the metrics of bandits for the Prometheus client library:
//
//	registry := prometheus.NewRegistry()
//	registry.MustRegister(dpbprometheus.NewCollector(map[string]*dpb.Bandit{"ads": bandit}))
//	http.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
//
// There are two collectors, for two registries and two pages: one with public metrics, and one for operators, which also
// has metrics that are NOT private. A registry refuses both together, because the operators' collector has all metrics of
// the other. The package fleetprometheus collects those of a fleet's nodes.
package dpbprometheus

import (
	"strconv"

	dpb "github.com/libdpb/libdpb/bindings/go"
	"github.com/libdpb/libdpb/bindings/go/prometheus/internal/metric"
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
func NewCollector(bandits map[string]*dpb.Bandit) *Collector {
	return &Collector{metric.Names(bandits), false}
}

// NewOperatorCollector returns a collector of the metrics of [NewCollector], and of the counts of refused calls and the
// warnings from rewards ([dpb.Diagnostics]), which are NOT private: a duplicate reveals a click. Show them to operators
// only.
func NewOperatorCollector(bandits map[string]*dpb.Bandit) *Collector {
	return &Collector{metric.Names(bandits), true}
}

var (
	up   = metric.Describe("up", "1, or 0 for a handle that is closed.")
	info = metric.Describe("info", "1, with the policy and the version of the library.", "policy", "version")

	reports = []metric.Metric[dpb.Report]{
		metric.Count("decisions", "Decisions made.", func(r *dpb.Report) uint64 { return r.Decisions }),
		metric.Count("answered", "Decisions whose reward took effect or whose reward window is over.", func(r *dpb.Report) uint64 { return r.Answered }),
		metric.Count("cancelled", "Decisions that were cancelled.", func(r *dpb.Report) uint64 { return r.Cancelled }),
		metric.Count("expired", "Decisions that a full pending table or a restart dropped.", func(r *dpb.Report) uint64 { return r.Expired }),
		metric.Count("changes", "Releases that contradicted the arm's earlier releases.", func(r *dpb.Report) uint64 { return r.ChangesDetected }),
		metric.Gauge("pending", "Decisions that are open.", func(r *dpb.Report) float64 { return float64(r.Pending) }),
		metric.Gauge("phase", "The policy's epoch, phase or interval.", func(r *dpb.Report) float64 { return float64(r.Phase) }),
		metric.Gauge("arms_active", "Arms that are neither eliminated nor retired.", func(r *dpb.Report) float64 { return float64(r.ArmsActive) }),
		metric.Gauge("stopped", "1 if the policy has decided for an arm, or 0.", func(r *dpb.Report) float64 { return metric.One(r.Stopped) }),
		metric.Gauge("epsilon_spent", "Upper bound of the privacy loss so far, at dpb_delta_spent.", func(r *dpb.Report) float64 { return r.EpsilonSpent }),
		metric.Gauge("delta_spent", "Delta at which dpb_epsilon_spent holds; 0 if the policy is pure.", func(r *dpb.Report) float64 { return r.DeltaSpent }),
		metric.Gauge("private", "1, or 0 for baselines and under a test seed.", func(r *dpb.Report) float64 { return metric.One(r.IsPrivate) }),
		metric.Gauge("segments", "Segments in use; 0 for a handle without segments.", func(r *dpb.Report) float64 { return float64(r.Segments) }),
		metric.Count("failures", "Updates of a model that failed, so that the last model stayed.", func(r *dpb.Report) uint64 { return r.Failures }),
		metric.Gauge("duty", "0: releases its own batches; 1: contributes and releases nothing; 2: leads.", func(r *dpb.Report) float64 { return float64(r.Duty) }),
		metric.Count("contributions", "Contributions of other handles that were added.", func(r *dpb.Report) uint64 { return r.Contributions }),
		metric.Count("contributions_lost", "Contributions that were missed, or not used in full.", func(r *dpb.Report) uint64 { return r.ContributionsLost }),
		metric.Count("clock_leaps", "Leaps of the caller's clock.", func(r *dpb.Report) uint64 { return r.ClockLeaps }),
	}
	arms = []metric.Metric[dpb.Arm]{
		metric.Gauge("arm_mean", "Released mean reward; NaN before the first release.", func(a *dpb.Arm) float64 { return a.Mean }, "arm"),
		metric.Gauge("arm_width", "Half-width of the mean's confidence interval.", func(a *dpb.Arm) float64 { return a.Width }, "arm"),
		metric.Gauge("arm_pulls", "Decisions that were not cancelled and did not expire.", func(a *dpb.Arm) float64 { return float64(a.Pulls) }, "arm"),
		metric.Gauge("arm_effective_pulls", "Rewards in the released mean, discounted with forget_after.", func(a *dpb.Arm) float64 { return a.EffectivePulls }, "arm"),
		metric.Gauge("arm_active", "1, or 0 if the arm is eliminated or retired.", func(a *dpb.Arm) float64 { return metric.One(a.Active) }, "arm"),
	}
	diagnostics = []metric.Metric[dpb.Diagnostics]{
		metric.Count("duplicates", "Updates and cancellations of a ticket that had one already. NOT private.", func(d *dpb.Diagnostics) uint64 { return d.Duplicates }),
		metric.Count("late", "Updates and cancellations of an expired ticket. NOT private.", func(d *dpb.Diagnostics) uint64 { return d.Late }),
		metric.Count("rejected", "Rewards that were refused. NOT private.", func(d *dpb.Diagnostics) uint64 { return d.Rejected }),
		metric.Count("unknown", "Tickets that the handle never issued. NOT private.", func(d *dpb.Diagnostics) uint64 { return d.Unknown }),
		metric.Count("oversized", "Decisions whose row of features was scaled down to feature_norm.", func(d *dpb.Diagnostics) uint64 { return d.Oversized }),
	}
	warning       = metric.Describe("warning", "1 for a sign that the handle cannot learn, or 0.", "warning")
	rewardWarning = metric.Describe("reward_warning", "1 for a sign, in rewards, that the handle cannot learn, or 0. NOT private.", "warning")
)

// Describe implements [prometheus.Collector].
func (c *Collector) Describe(to chan<- *prometheus.Desc) {
	to <- up
	to <- info
	metric.Descriptions(to, reports)
	metric.Descriptions(to, arms)
	to <- warning
	if c.operator {
		metric.Descriptions(to, diagnostics)
		to <- rewardWarning
	}
}

// Collect implements [prometheus.Collector]. Any number of goroutines may call it.
func (c *Collector) Collect(to chan<- prometheus.Metric) {
	for name, bandit := range c.bandits {
		report, err := bandit.Report()
		read, wrong := bandit.Arms()
		refused, broken := bandit.Diagnostics()
		well := err == nil && wrong == nil && broken == nil
		to <- prometheus.MustNewConstMetric(up, prometheus.GaugeValue, metric.One(well), name)
		if !well {
			continue
		}
		to <- prometheus.MustNewConstMetric(info, prometheus.GaugeValue, 1, name, bandit.PolicyName(), dpb.Version())
		metric.Collect(to, reports, &report, name)
		warn := func(desc *prometheus.Desc, all dpb.Warnings, kinds ...dpb.Warnings) {
			for _, kind := range kinds {
				to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, metric.One(all&kind != 0), name, kind.String())
			}
		}
		warn(warning, report.Warnings, dpb.WarnClockStopped, dpb.WarnExpiring, dpb.WarnUnlearned, dpb.WarnUnmerged, dpb.WarnUnreleased)
		for arm := range read {
			metric.Collect(to, arms, &read[arm], name, strconv.Itoa(arm))
		}
		if c.operator {
			metric.Collect(to, diagnostics, &refused, name)
			warn(rewardWarning, refused.Warnings, dpb.WarnAllSmallest, dpb.WarnAllLargest)
		}
	}
}
