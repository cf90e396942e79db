package fleet

import (
	"maps"
	"slices"
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
