package fleet

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	dpb "github.com/libdpb/libdpb/bindings/go"
)

// Relay is what a fleet with one noise needs beside a [Store]: a lease for its leader, and a way for contributions to it.
type Relay interface {
	// Leader returns who holds the lease of the fleet's key with this id, if anybody does. Of what cannot be read, Node and
	// Generation are 0.
	Leader(ctx context.Context, key uint64) (leader Leader, held bool, err error)
	// Lead takes the lease for this time, unless somebody holds it.
	Lead(ctx context.Context, leader Leader, lease time.Duration) (taken bool, err error)
	// Renew makes the lease last for this time from now on, if this leader holds it. With 0 it ends.
	Renew(ctx context.Context, leader Leader, lease time.Duration) (held bool, err error)
	// Contribute sends a contribution to the leader of this generation, once. What failed may have been sent.
	Contribute(ctx context.Context, generation uint64, contribution []byte) error
	// Collect passes everything that was contributed to this generation to combine, perhaps again what it passed before,
	// and then deletes it.
	Collect(ctx context.Context, generation uint64, combine func(contribution []byte)) error
}

// Leader is a node that leads, and its generation ([dpb.Bandit.Lead]). Each key has a leader and a lease of its own, so nodes
// with a new key and those with the old one learn all the while. Key is its id ([dpb.Report]).
type Leader struct {
	Key        uint64
	Node       uint16
	Generation uint64
}

const (
	// A lease lasts this many intervals, and at least this long.
	exchangesInLease = 3
	shortestLease    = 3 * time.Second
)

// share leads if nobody else does, and combines what was contributed; or contributes to the leader. It takes the sums out
// of the bandit only after it has read the lease, so they stay while the store is away.
func (n *Node) share(ctx context.Context) error {
	if n.relay == nil {
		return nil
	}
	leader, err := n.leader(ctx)
	if err != nil {
		return err
	}
	leads := n.lease != Leader{} && leader == n.lease
	n.count(func(m *Metrics) { m.Leads = leads })
	switch {
	case leads:
		return n.relay.Collect(ctx, leader.Generation, n.combine)
	case leader.Generation == 0 || leader.Node == n.number: // unreadable, or held by this node before its restart
		return nil
	}
	n.lease = Leader{}
	contribution, err := n.Bandit.Contribution(leader.Generation)
	if err != nil || contribution == nil {
		return err
	}
	// If this fails, the contribution may have arrived. So it is not sent again.
	err = n.relay.Contribute(ctx, leader.Generation, contribution)
	n.count(func(m *Metrics) {
		if err == nil {
			m.Contributions++
		} else {
			m.ContributionsLost++
		}
	})
	return err
}

// leader returns who holds the lease. If nobody does, this node takes it.
func (n *Node) leader(ctx context.Context) (Leader, error) {
	lease := max(exchangesInLease*n.interval, shortestLease)
	if (n.lease != Leader{}) {
		if held, err := n.relay.Renew(ctx, n.lease, lease); held || err != nil {
			return n.lease, err
		}
	}
	leader, held, err := n.relay.Leader(ctx, n.key)
	if held || err != nil {
		return leader, err
	}
	generation, err := n.Bandit.Lead()
	if err != nil {
		return Leader{}, err
	}
	n.lease = Leader{n.key, n.number, generation} // also if the reply to the next command is lost
	if taken, err := n.relay.Lead(ctx, n.lease, lease); taken || err != nil {
		return n.lease, err
	}
	leader, _, err = n.relay.Leader(ctx, n.key)
	return leader, err
}

// combine adds a contribution. A repeat is no error. The log has the first contribution that is refused for each reason.
func (n *Node) combine(contribution []byte) {
	err := n.Bandit.Combine(contribution)
	if err == nil || errors.Is(err, dpb.ErrDuplicate) {
		return
	}
	n.logOnce("fleet: a contribution is refused, and lost", err)
}

// resign ends this node's lease, so that another node can lead at once.
func (n *Node) resign(ctx context.Context) error {
	if (n.lease == Leader{}) {
		return nil
	}
	_, err := n.relay.Renew(ctx, n.lease, 0)
	return err
}

// logOnce logs each of these errors once.
func (n *Node) logOnce(message string, err error) {
	if _, logged := n.logged.LoadOrStore(message+err.Error(), true); !logged {
		n.log.Error(message, "node", n.number, "error", err)
	}
}

// seal seals a reward that travels to the node that decided.
func (n *Node) seal(m Message) (Message, error) {
	sealed, err := n.Bandit.Seal(fmt.Appendf(nil, "%d %.17g", m.Ticket, m.Reward))
	return Message{To: m.To, Sealed: sealed}, err
}

// open opens a reward. With a fleet key only a reward that was sealed with it counts.
func (n *Node) open(m Message) (Message, error) {
	if n.relay == nil && m.Sealed == nil {
		return m, nil
	}
	text, err := n.Bandit.Open(m.Sealed)
	if err != nil {
		n.logOnce("fleet: rewards that are not sealed with this node's fleet key are ignored", err)
		return m, err
	}
	ticket, reward, _ := strings.Cut(string(text), " ")
	m.Ticket, err = strconv.ParseUint(ticket, 10, 64)
	if err == nil {
		m.Reward, err = strconv.ParseFloat(reward, 64)
	}
	return m, err
}
