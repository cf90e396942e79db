package fleet

import (
	"bufio"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Metrics say how a node is joined to its fleet.
type Metrics struct {
	Age       time.Duration // since the last exchange that succeeded: how old what it knows of others may be
	Exchanges uint64        // that succeeded
	Errors    uint64        // of exchanges
	Outages   uint64        // times in which answers could not travel, and decisions were cancelled
	Outage    bool          // now
	LastError error         // of an exchange or of the post
	Leads     bool          // this node leads: it releases what all contribute

	Contributions     uint64 // sent to leaders
	ContributionsLost uint64 // because of an error

	Nodes     int     // others of which a snapshot was seen
	Strangers int     // ... whose newest one was refused
	Refusals  []error // ... and why

	// What came and went by post is NOT private: an answer is a click. So are errors that only answers cause.
	Sent       uint64 // to other nodes
	Unsent     uint64 // because too many waited
	Received   uint64 // and counted
	Refused    uint64 // received again, late or of no ticket of ours
	PostErrors uint64
}

// Metrics as of now. Any goroutine.
func (n *Node) Metrics() Metrics {
	n.mu.Lock()
	defer n.mu.Unlock()
	m := n.metrics
	m.Age = time.Since(n.last)
	m.Nodes = len(n.nodes)
	for _, node := range slices.Sorted(maps.Keys(n.nodes)) {
		if err := n.nodes[node]; err != nil {
			m.Strangers++
			m.Refusals = append(m.Refusals, err)
		}
	}
	return m
}

// WriteMetrics writes what may be published of these nodes in Prometheus' text format, each under the label
// bandit="its name", to stand on one page with those of [dpb.WriteMetrics].
func WriteMetrics(w io.Writer, nodes map[string]*Node) error { return writeMetrics(w, nodes, false) }

// WriteOperatorMetrics writes the same and what came and went by post, which is NOT private.
func WriteOperatorMetrics(w io.Writer, nodes map[string]*Node) error {
	return writeMetrics(w, nodes, true)
}

var escapes = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)

func one(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

func writeMetrics(w io.Writer, nodes map[string]*Node, operator bool) error {
	page := bufio.NewWriter(w)
	var labels []string
	var all []Metrics
	for _, name := range slices.Sorted(maps.Keys(nodes)) {
		labels = append(labels, `{bandit="`+escapes.Replace(strings.ToValidUTF8(name, "\uFFFD"))+`"} `)
		all = append(all, nodes[name].Metrics())
	}
	family := func(name, kind, help string, value func(*Metrics) float64) {
		page.WriteString("# HELP dpb_fleet_" + name + " " + help + "\n# TYPE dpb_fleet_" + name + " " + kind + "\n")
		for i := range all {
			page.WriteString("dpb_fleet_" + name + labels[i] + strconv.FormatFloat(value(&all[i]), 'g', -1, 64) + "\n")
		}
	}
	family("age_seconds", "gauge", "Since the last exchange that succeeded.",
		func(m *Metrics) float64 { return m.Age.Seconds() })
	family("exchanges_total", "counter", "Exchanges that succeeded.", func(m *Metrics) float64 { return float64(m.Exchanges) })
	family("errors_total", "counter", "Errors of exchanges.", func(m *Metrics) float64 { return float64(m.Errors) })
	family("outage", "gauge", "1 while answers cannot travel, and decisions are cancelled.",
		func(m *Metrics) float64 { return one(m.Outage) })
	family("outages_total", "counter", "Times in which answers could not travel.",
		func(m *Metrics) float64 { return float64(m.Outages) })
	family("nodes", "gauge", "Other nodes of which a snapshot was seen.", func(m *Metrics) float64 { return float64(m.Nodes) })
	family("strangers", "gauge", "Other nodes whose newest snapshot was refused.",
		func(m *Metrics) float64 { return float64(m.Strangers) })
	family("leads", "gauge", "1 while this node leads: it releases what all contribute.",
		func(m *Metrics) float64 { return one(m.Leads) })
	family("contributions_total", "counter", "Contributions sent to leaders.",
		func(m *Metrics) float64 { return float64(m.Contributions) })
	family("contributions_lost_total", "counter", "Contributions lost to an error.",
		func(m *Metrics) float64 { return float64(m.ContributionsLost) })
	if operator {
		family("answers_sent_total", "counter", "Answers sent to other nodes. NOT private.",
			func(m *Metrics) float64 { return float64(m.Sent) })
		family("answers_unsent_total", "counter", "Answers lost because too many waited. NOT private.",
			func(m *Metrics) float64 { return float64(m.Unsent) })
		family("answers_received_total", "counter", "Answers from other nodes that counted. NOT private.",
			func(m *Metrics) float64 { return float64(m.Received) })
		family("answers_refused_total", "counter", "Answers from other nodes that did not. NOT private.",
			func(m *Metrics) float64 { return float64(m.Refused) })
		family("post_errors_total", "counter", "Errors of sending and receiving answers. NOT private.",
			func(m *Metrics) float64 { return float64(m.PostErrors) })
	}
	return page.Flush()
}
