// Package fleetprometheus collects the metrics of a fleet's nodes for the Prometheus client library. A registry can
// have these collectors and those of the nodes' bandits: see dpbprometheus.
package fleetprometheus

import (
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
	public = []metric.Metric[fleet.Metrics]{
		metric.Gauge("fleet_age_seconds", "Seconds since the last successful exchange.",
			func(m *fleet.Metrics) float64 { return m.Age.Seconds() }),
		metric.Count("fleet_exchanges", "Successful exchanges.",
			func(m *fleet.Metrics) uint64 { return m.Exchanges }),
		metric.Gauge("fleet_outage", "1 while rewards cannot travel between nodes, so that decisions are cancelled.",
			func(m *fleet.Metrics) float64 { return metric.One(m.Outage) }),
		metric.Count("fleet_outages", "Outages: periods in which rewards could not travel between nodes.",
			func(m *fleet.Metrics) uint64 { return m.Outages }),
		metric.Gauge("fleet_nodes", "Other nodes that are alive.",
			func(m *fleet.Metrics) float64 { return float64(max(m.Nodes, 1) - 1) }),
		metric.Gauge("fleet_released_nodes", "Other nodes from which this node has read a snapshot, also nodes that have left.",
			func(m *fleet.Metrics) float64 { return float64(m.Released) }),
		metric.Gauge("fleet_incompatible_nodes", "Other nodes whose newest snapshot was refused.",
			func(m *fleet.Metrics) float64 { return float64(m.Incompatible) }),
		metric.Gauge("fleet_leads", "1 while this node leads: it releases what all nodes contribute.",
			func(m *fleet.Metrics) float64 { return metric.One(m.Leads) }),
		metric.Gauge("fleet_learns", "1 if this node may learn from people: the store has kept a snapshot that counts this period.",
			func(m *fleet.Metrics) float64 { return metric.One(m.Learns) }),
		metric.Gauge("fleet_ready", "1 if a balancer may send this node requests.",
			func(m *fleet.Metrics) float64 { return metric.One(m.Ready) }),
		metric.Gauge("fleet_draining", "Nodes that have ended, with whose open decisions this node continues.",
			func(m *fleet.Metrics) float64 { return float64(m.Draining) }),
		metric.Count("fleet_contributions", "Contributions sent to leaders.",
			func(m *fleet.Metrics) uint64 { return m.Contributions }),
	}
	rewards = []metric.Metric[fleet.Metrics]{
		metric.Count("fleet_failures", "Commands to the store that failed. NOT private: some fail only if there are rewards.",
			func(m *fleet.Metrics) uint64 { return m.Failures }),
		metric.Count("fleet_rewards_sent", "Rewards sent to other nodes. NOT private.",
			func(m *fleet.Metrics) uint64 { return m.Sent }),
		metric.Gauge("fleet_rewards_waiting", "Rewards in the queue to other nodes. NOT private.",
			func(m *fleet.Metrics) float64 { return float64(m.Waiting) }),
		metric.Count("fleet_rewards_unsent", "Rewards lost because the queue or a message was full. NOT private.",
			func(m *fleet.Metrics) uint64 { return m.Unsent }),
		metric.Count("fleet_rewards_received", "Rewards from other nodes that took effect. NOT private.",
			func(m *fleet.Metrics) uint64 { return m.Received }),
		metric.Count("fleet_rewards_refused", "Rewards from other nodes that were refused. NOT private.",
			func(m *fleet.Metrics) uint64 { return m.Refused }),
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
		metric.Collect(to, public, &metrics, name)
		if c.operator {
			metric.Collect(to, rewards, &metrics, name)
		}
	}
}
