package fleet

import (
	"maps"
	"slices"
	"time"
)

// Metrics are a node's counts since it joined, and its current state.
type Metrics struct {
	// Age is the time since the last successful exchange: what this node knows of others is at most this old.
	Age       time.Duration
	Exchanges uint64 // successful exchanges
	Errors    uint64 // exchanges and other commands to the store that failed
	Outages   uint64 // outages: rewards could not travel, and this node cancelled its decisions
	Outage    bool   // whether there is an outage now
	LastError error  // the last error of an exchange or of the reward queue
	Leads     bool   // whether this node leads: it releases what all nodes contribute

	Wards int // nodes that have ended, with whose open decisions this node continues

	Contributions     uint64 // contributions sent to leaders
	ContributionsLost uint64 // contributions lost to an error

	Nodes        int     // other nodes that are alive
	Released     int     // other nodes of which this node has read a snapshot, also nodes that have left
	Incompatible int     // those of them whose newest snapshot this node refused
	Refusals     []error // the reason for each of these

	// The following counts of rewards are NOT private, because a reward is a click. The count of errors is NOT private
	// either, because some errors occur only if there are rewards.
	Sent         uint64 // rewards sent to other nodes
	Waiting      int    // rewards in the queue, which wait to be sent
	Unsent       uint64 // rewards lost because the queue or, with Options.SendRate, a message was full, or their node gone
	Received     uint64 // rewards from other nodes that took effect
	Refused      uint64 // rewards from other nodes that were repeated, late, or without a ticket of this node
	RewardErrors uint64 // errors of the reward queue
}

// Metrics returns the current metrics. It can be called by any goroutine.
func (n *Node) Metrics() Metrics {
	n.mu.Lock()
	defer n.mu.Unlock()
	m := n.metrics
	m.Age = time.Since(n.lastExchange)
	m.Nodes, m.Waiting = max(int(n.forwarding.nodes), 1)-1, n.forwarding.outbox.count
	m.Wards = len(n.wards)
	for _, node := range slices.Sorted(maps.Keys(n.refused)) {
		m.Incompatible++
		m.Refusals = append(m.Refusals, n.refused[node])
	}
	return m
}
