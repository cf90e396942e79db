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

const (
	mostArms    = 100  // of a lift, which takes a millisecond for each
	mostWeights = 1000 // lines of each metric
)

type lift struct{ low, high float64 }

var (
	up   = metric.Describe("up", "1, or 0 for a handle that is closed.")
	info = metric.Describe("info", "1, with the policy and the version of the library.", "policy", "version")

	reports = []metric.Metric[dpb.Report]{
		// begin generated report
		metric.Gauge("phase", "The policy's epoch, phase or interval.", func(of *dpb.Report) float64 { return float64(of.Phase) }),
		metric.Gauge("arms_active", "Arms that are neither eliminated nor retired.", func(of *dpb.Report) float64 { return float64(of.ArmsActive) }),
		metric.Gauge("pending", "Decisions that are open.", func(of *dpb.Report) float64 { return float64(of.Pending) }),
		metric.Count("decisions", "Decisions made.", func(of *dpb.Report) uint64 { return of.Decisions }),
		metric.Count("answered", "Decisions whose reward took effect or whose reward window is over.", func(of *dpb.Report) uint64 { return of.Answered }),
		metric.Count("cancelled", "Decisions that were cancelled.", func(of *dpb.Report) uint64 { return of.Cancelled }),
		metric.Count("expired", "Decisions that a full pending table or a restart dropped.", func(of *dpb.Report) uint64 { return of.Expired }),
		metric.Gauge("epsilon_spent", "Upper bound of the privacy loss so far, at dpb_delta_spent.", func(of *dpb.Report) float64 { return of.EpsilonSpent }),
		metric.Gauge("delta_spent", "Delta at which dpb_epsilon_spent holds; 0 if the policy is pure.", func(of *dpb.Report) float64 { return of.DeltaSpent }),
		metric.Gauge("private", "1, or 0 for baselines and under a test seed.", func(of *dpb.Report) float64 { return metric.One(of.IsPrivate) }),
		metric.Count("changes", "Releases that contradicted the arm's earlier releases.", func(of *dpb.Report) uint64 { return of.ChangesDetected }),
		metric.Gauge("segments", "Segments in use; 0 for a handle without segments.", func(of *dpb.Report) float64 { return float64(of.Segments) }),
		metric.Count("failures", "Updates of a model that failed, so that the last model stayed.", func(of *dpb.Report) uint64 { return of.Failures }),
		metric.Count("contributions", "Contributions of other handles that were added.", func(of *dpb.Report) uint64 { return of.Contributions }),
		metric.Count("contributions_lost", "Contributions that were missed, or not used in full.", func(of *dpb.Report) uint64 { return of.ContributionsLost }),
		metric.Gauge("duty", "0: releases its own batches; 1: contributes and releases nothing; 2: leads.", func(of *dpb.Report) float64 { return float64(of.Duty) }),
		metric.Count("clock_leaps", "Leaps of the caller's clock.", func(of *dpb.Report) uint64 { return of.ClockLeaps }),
		metric.Gauge("stopped", "1 if the policy has decided for an arm, or 0.", func(of *dpb.Report) float64 { return metric.One(of.Stopped) }),
		metric.Gauge("clip", "The learned clip of rewards; 0 before it is known.", func(of *dpb.Report) float64 { return of.Clip }),
		metric.Gauge("epsilon_limit", "The most that dpb_epsilon_spent can become; +Inf if nothing limits it.", func(of *dpb.Report) float64 { return of.EpsilonLimit }),
		metric.Gauge("epsilon_left", "dpb_epsilon_limit minus dpb_epsilon_spent; 0 for baselines.", func(of *dpb.Report) float64 { return of.EpsilonLeft }),
		// end generated report
	}
	arms = []metric.Metric[dpb.Arm]{
		// begin generated arms
		metric.Gauge("arm_mean", "Released mean reward; NaN before the first release.", func(of *dpb.Arm) float64 { return of.Mean }, "arm"),
		metric.Gauge("arm_width", "Half-width of the mean's confidence interval.", func(of *dpb.Arm) float64 { return of.Width }, "arm"),
		metric.Gauge("arm_pulls", "Decisions that were not cancelled and did not expire.", func(of *dpb.Arm) float64 { return float64(of.Pulls) }, "arm"),
		metric.Gauge("arm_active", "1, or 0 if the arm is eliminated or retired.", func(of *dpb.Arm) float64 { return metric.One(of.Active) }, "arm"),
		metric.Gauge("arm_effective_pulls", "Rewards in the released mean, discounted with forget_after.", func(of *dpb.Arm) float64 { return of.EffectivePulls }, "arm"),
		// end generated arms
	}
	verdicts = []metric.Metric[dpb.Verdict]{
		// begin generated verdicts
		metric.Gauge("verdict_state", "0: the test goes on; 1: won; 2: good enough; 3: ended without a claim.", func(of *dpb.Verdict) float64 { return float64(of.State) }),
		metric.Gauge("verdict_leader", "Arm that the test has decided for, or that leads.", func(of *dpb.Verdict) float64 { return float64(of.Leader) }),
		metric.Gauge("verdict_rewards", "Rewards in the releases since the test began.", func(of *dpb.Verdict) float64 { return float64(of.Rewards) }),
		metric.Gauge("verdict_low", "Lower end of an interval for the leader's mean minus another arm's; NaN before releases.", func(of *dpb.Verdict) float64 { return of.Low }),
		metric.Gauge("verdict_high", "Upper end of that interval.", func(of *dpb.Verdict) float64 { return of.High }),
		metric.Gauge("verdict_mismatch", "1 if arms do not get their shares, so that the test says nothing, or 0.", func(of *dpb.Verdict) float64 { return metric.One(of.Mismatch) }),
		// end generated verdicts
	}
	diagnostics = []metric.Metric[dpb.Diagnostics]{
		// begin generated diagnostics
		metric.Count("duplicates", "Updates and cancellations of a ticket that had one already. NOT private.", func(of *dpb.Diagnostics) uint64 { return of.Duplicates }),
		metric.Count("late", "Updates and cancellations of an expired ticket. NOT private.", func(of *dpb.Diagnostics) uint64 { return of.Late }),
		metric.Count("rejected", "Rewards that were refused. NOT private.", func(of *dpb.Diagnostics) uint64 { return of.Rejected }),
		metric.Count("unknown", "Tickets that the handle never issued. NOT private.", func(of *dpb.Diagnostics) uint64 { return of.Unknown }),
		metric.Count("oversized", "Decisions whose row of features was scaled down, because it was far larger than the first ones.", func(of *dpb.Diagnostics) uint64 { return of.Oversized }),
		// end generated diagnostics
	}
	lifts = []metric.Metric[lift]{
		metric.Gauge("lift_low", "Lower end of a 95% interval for what decisions gain over even play: 0.1 is 10% more.", func(of *lift) float64 { return of.low }),
		metric.Gauge("lift_high", "Upper end of that interval.", func(of *lift) float64 { return of.high }),
	}
	weights = []metric.Metric[dpb.Prediction]{
		metric.Gauge("feature_weight", "Change of the logit of the mean reward for one unit of the feature.", func(of *dpb.Prediction) float64 { return of.Mean }, "arm", "feature"),
		metric.Gauge("feature_weight_deviation", "Standard deviation of that weight.", func(of *dpb.Prediction) float64 { return of.Deviation }, "arm", "feature"),
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
	metric.Descriptions(to, verdicts)
	metric.Descriptions(to, lifts)
	metric.Descriptions(to, weights)
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
		if verdict, err := bandit.Verdict(); err == nil { // a test of arms
			metric.Collect(to, verdicts, &verdict, name)
		}
		if len(read) <= mostArms {
			if low, high, err := bandit.Lift(dpb.NoArm, 0.95); err == nil {
				metric.Collect(to, lifts, &lift{low, high}, name)
			}
		}
		collectWeights(to, bandit, &report, len(read), name)
		if c.operator {
			metric.Collect(to, diagnostics, &refused, name)
			warn(rewardWarning, refused.Warnings, dpb.WarnAllSmallest, dpb.WarnAllLargest)
		}
	}
}

// collectWeights reads the weights of the model that all arms share, with an empty arm, or of each arm that is not retired.
func collectWeights(to chan<- prometheus.Metric, bandit *dpb.Bandit, report *dpb.Report, arms int, name string) {
	shared, models := !report.ModelPerArm, arms
	if shared {
		models = 1
	}
	if report.Features == 0 || models*(int(report.Features)+1) > mostWeights {
		return
	}
	for arm := range arms {
		read, err := bandit.FeatureWeights(uint32(arm))
		if err != nil {
			continue
		}
		of := strconv.Itoa(arm)
		if shared {
			of = ""
		}
		for i := range read {
			feature := "intercept"
			if i+1 < len(read) {
				feature = strconv.Itoa(i)
			}
			metric.Collect(to, weights, &read[i], name, of, feature)
		}
		if shared {
			return
		}
	}
}
