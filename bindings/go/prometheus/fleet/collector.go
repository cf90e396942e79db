// Package fleetprometheus collects the metrics of a fleet's nodes for the Prometheus client library. A registry can
// have these collectors and those of the nodes' bandits: see dpbprometheus.
package fleetprometheus

import (
	dpb "github.com/libdpb/libdpb/bindings/go"
	"github.com/libdpb/libdpb/bindings/go/fleet"
	"github.com/libdpb/libdpb/bindings/go/prometheus/internal/metric"
	"github.com/prometheus/client_golang/prometheus"
)

// Collector reads nodes at each scrape. It is a [prometheus.Collector].
type Collector struct {
	nodes    map[string]*fleet.Node
	operator bool
}

// NewCollector returns a collector of the public metrics of these nodes. The key of each node is its label "bandit".
func NewCollector(nodes map[string]*fleet.Node) *Collector {
	return &Collector{metric.Names(nodes), false}
}

// NewOperatorCollector returns a collector of the metrics of [NewCollector] and of the counts of rewards that nodes
// sent and received, which are NOT private: a reward is a click. Show them to operators only.
func NewOperatorCollector(nodes map[string]*fleet.Node) *Collector {
	return &Collector{metric.Names(nodes), true}
}

var (
	public = []metric.Metric[dpb.NodeReport]{
		// begin generated node_report
		metric.Gauge("fleet_ready", "1 if a balancer may send this node requests.", func(of *dpb.NodeReport) float64 { return metric.One(of.Ready) }),
		metric.Gauge("fleet_outage", "1 while rewards cannot travel between nodes, so that decisions are cancelled.", func(of *dpb.NodeReport) float64 { return metric.One(of.Outage) }),
		metric.Count("fleet_outages", "Outages: periods in which rewards could not travel between nodes.", func(of *dpb.NodeReport) uint64 { return uint64(of.Outages) }),
		metric.Gauge("fleet_learns", "1 if this node may learn from people: the store has kept a snapshot that counts this period.", func(of *dpb.NodeReport) float64 { return metric.One(of.Learns) }),
		metric.Gauge("fleet_leads", "1 while this node leads: it releases what all nodes contribute.", func(of *dpb.NodeReport) float64 { return metric.One(of.Leads) }),
		metric.Gauge("fleet_nodes", "Nodes that are alive, this one included.", func(of *dpb.NodeReport) float64 { return float64(of.Nodes) }),
		metric.Gauge("fleet_released_nodes", "Other nodes from which this node has read a snapshot, also nodes that have left.", func(of *dpb.NodeReport) float64 { return float64(of.Released) }),
		metric.Gauge("fleet_incompatible_nodes", "Other nodes whose newest snapshot was refused.", func(of *dpb.NodeReport) float64 { return float64(of.Incompatible) }),
		metric.Gauge("fleet_draining", "Nodes that have ended, with whose open decisions this node continues.", func(of *dpb.NodeReport) float64 { return float64(of.Draining) }),
		metric.Count("fleet_exchanges", "Successful exchanges.", func(of *dpb.NodeReport) uint64 { return of.Exchanges }),
		metric.Gauge("fleet_age_seconds", "Seconds since the last successful exchange.", func(of *dpb.NodeReport) float64 { return of.Age.Seconds() }),
		metric.Count("fleet_contributions", "Contributions to leaders that the store has accepted.", func(of *dpb.NodeReport) uint64 { return of.Contributions }),
		// end generated node_report
	}
	rewards = []metric.Metric[dpb.NodeDiagnostics]{
		// begin generated rewards
		metric.Gauge("fleet_rewards_waiting", "Rewards in the queue to other nodes. NOT private.", func(of *dpb.NodeDiagnostics) float64 { return float64(of.Waiting) }),
		metric.Count("fleet_rewards_sent", "Rewards sent to other nodes. NOT private.", func(of *dpb.NodeDiagnostics) uint64 { return of.Sent }),
		metric.Count("fleet_rewards_unsent", "Rewards lost because the queue or a message was full. NOT private.", func(of *dpb.NodeDiagnostics) uint64 { return of.Unsent }),
		metric.Count("fleet_rewards_received", "Rewards from other nodes that took effect. NOT private.", func(of *dpb.NodeDiagnostics) uint64 { return of.Received }),
		metric.Count("fleet_rewards_refused", "Rewards from other nodes that were refused. NOT private.", func(of *dpb.NodeDiagnostics) uint64 { return of.Refused }),
		metric.Count("fleet_failures", "Commands to the store that failed. NOT private: some fail only if there are rewards.", func(of *dpb.NodeDiagnostics) uint64 { return of.Failures }),
		// end generated rewards
	}
)

// Describe implements [prometheus.Collector].
func (c *Collector) Describe(to chan<- *prometheus.Desc) {
	metric.Descriptions(to, public)
	if c.operator {
		metric.Descriptions(to, rewards)
	}
}

// Collect implements [prometheus.Collector]. Any number of goroutines may call it.
func (c *Collector) Collect(to chan<- prometheus.Metric) {
	for name, node := range c.nodes {
		metrics := node.Metrics()
		metric.Collect(to, public, &metrics.NodeReport, name)
		if c.operator {
			metric.Collect(to, rewards, &metrics.NodeDiagnostics, name)
		}
	}
}
