// Package fleetprometheus collects the metrics of a fleet's nodes for the Prometheus client library, for the same
// registries as those of the nodes' bandits: see dpbprometheus.
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

// NewCollector returns a collector of what may be published of these nodes. The key of each node is its label "bandit".
func NewCollector(nodes map[string]*fleet.Node) *Collector {
	return &Collector{metric.Names(nodes), false}
}

// NewOperatorCollector returns a collector of the metrics of [NewCollector] and of the counts of rewards that came and
// went, which are NOT private: a reward is a click. Show them to operators only.
func NewOperatorCollector(nodes map[string]*fleet.Node) *Collector {
	return &Collector{metric.Names(nodes), true}
}

var (
	public = []metric.Metric[fleet.Metrics]{
		metric.Gauge("fleet_age_seconds", "Since the last exchange that succeeded.", func(m *fleet.Metrics) float64 { return m.Age.Seconds() }),
		metric.Count("fleet_exchanges", "Exchanges that succeeded.", func(m *fleet.Metrics) uint64 { return m.Exchanges }),
		metric.Count("fleet_errors", "Errors of exchanges.", func(m *fleet.Metrics) uint64 { return m.Errors }),
		metric.Gauge("fleet_outage", "1 while answers cannot travel, and decisions are cancelled.", func(m *fleet.Metrics) float64 { return metric.One(m.Outage) }),
		metric.Count("fleet_outages", "Times in which answers could not travel.", func(m *fleet.Metrics) uint64 { return m.Outages }),
		metric.Gauge("fleet_nodes", "Other nodes of which a snapshot was seen.", func(m *fleet.Metrics) float64 { return float64(m.Nodes) }),
		metric.Gauge("fleet_strangers", "Other nodes whose newest snapshot was refused.", func(m *fleet.Metrics) float64 { return float64(m.Strangers) }),
		metric.Gauge("fleet_leads", "1 while this node leads: it releases what all contribute.", func(m *fleet.Metrics) float64 { return metric.One(m.Leads) }),
		metric.Count("fleet_contributions", "Contributions sent to leaders.", func(m *fleet.Metrics) uint64 { return m.Contributions }),
		metric.Count("fleet_contributions_lost", "Contributions lost to an error.", func(m *fleet.Metrics) uint64 { return m.ContributionsLost }),
	}
	answers = []metric.Metric[fleet.Metrics]{
		metric.Count("fleet_answers_sent", "Answers sent to other nodes. NOT private.", func(m *fleet.Metrics) uint64 { return m.Sent }),
		metric.Count("fleet_answers_unsent", "Answers lost because too many waited. NOT private.", func(m *fleet.Metrics) uint64 { return m.Unsent }),
		metric.Count("fleet_answers_received", "Answers from other nodes that counted. NOT private.", func(m *fleet.Metrics) uint64 { return m.Received }),
		metric.Count("fleet_answers_refused", "Answers from other nodes that did not. NOT private.", func(m *fleet.Metrics) uint64 { return m.Refused }),
		metric.Count("fleet_post_errors", "Errors of sending and receiving answers. NOT private.", func(m *fleet.Metrics) uint64 { return m.PostErrors }),
	}
)

// Describe implements [prometheus.Collector].
func (c *Collector) Describe(to chan<- *prometheus.Desc) {
	metric.Descriptions(to, public)
	if c.operator {
		metric.Descriptions(to, answers)
	}
}

// Collect implements [prometheus.Collector]. Any number of goroutines may call it.
func (c *Collector) Collect(to chan<- prometheus.Metric) {
	for name, node := range c.nodes {
		metrics := node.Metrics()
		metric.Collect(to, public, &metrics, name)
		if c.operator {
			metric.Collect(to, answers, &metrics, name)
		}
	}
}
