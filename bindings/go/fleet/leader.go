package fleet

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	dpb "github.com/libdpb/libdpb/bindings/go"
)

// ContributionQueue is what a fleet with one noise needs besides a [Store]: a lease for its leader, and a queue of
// contributions to the leader.
type ContributionQueue interface {
	// Leader returns the holder of the lease for the fleet key with this id. held is false if there is no lease. If the
	// lease is unreadable, held is true, and Node and Generation are 0.
	Leader(ctx context.Context, key uint64) (leader Leader, held bool, err error)
	// Lead takes the lease for this duration, unless the lease is held already.
	Lead(ctx context.Context, leader Leader, lease time.Duration) (taken bool, err error)
	// Renew makes the lease end after this duration, if this leader holds it. With 0 the lease ends at once.
	Renew(ctx context.Context, leader Leader, lease time.Duration) (held bool, err error)
	// Contribute sends a contribution to the leader of this generation once. If it returns an error, the contribution
	// may have been sent.
	Contribute(ctx context.Context, generation uint64, contribution []byte) error
	// Collect passes all contributions to this generation to combine, and then deletes them. It can pass a contribution
	// more than once.
	Collect(ctx context.Context, generation uint64, combine func(contribution []byte)) error
}

// Leader is a node that leads, and its generation ([dpb.Bandit.Lead]). Each fleet key has a leader and a lease of its
// own, so nodes with a new key and nodes with the old key learn at the same time.
type Leader struct {
	Key        uint64 // the fleet key's id: FleetKeyID of [dpb.Report]
	Node       uint16
	Generation uint64
}

const (
	// A lease lasts this many intervals, and at least minLease.
	intervalsInLease = 3
	minLease         = 3 * time.Second
)

// share takes the lease if no other node holds it. As the leader it combines the contributions that have arrived.
// Otherwise it contributes to the leader. It takes the sums out of the bandit only after it has read the lease, so they
// stay in the bandit while the store is unavailable.
func (n *Node) share(ctx context.Context) error {
	if n.contributions == nil {
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
		return n.contributions.Collect(ctx, leader.Generation, n.combine)
	case leader.Generation == 0 || leader.Node == n.number: // unreadable, or held by this node before its restart
		return nil
	}
	n.lease = Leader{}
	contribution, err := n.Bandit.Contribution(leader.Generation)
	if err != nil || contribution == nil {
		return err
	}
	// If this fails, the contribution may have arrived, so it is not sent again.
	err = n.contributions.Contribute(ctx, leader.Generation, contribution)
	n.count(func(m *Metrics) {
		if err == nil {
			m.Contributions++
		} else {
			m.ContributionsLost++
		}
	})
	return err
}

// leader returns the holder of the lease. If there is no lease, this node takes it.
func (n *Node) leader(ctx context.Context) (Leader, error) {
	lease := max(intervalsInLease*n.interval, minLease)
	if (n.lease != Leader{}) {
		if held, err := n.contributions.Renew(ctx, n.lease, lease); held || err != nil {
			return n.lease, err
		}
	}
	leader, held, err := n.contributions.Leader(ctx, n.key)
	if held || err != nil {
		return leader, err
	}
	generation, err := n.Bandit.Lead()
	if err != nil {
		return Leader{}, err
	}
	n.lease = Leader{n.key, n.number, generation} // set it first: the reply to the next command can be lost
	if taken, err := n.contributions.Lead(ctx, n.lease, lease); taken || err != nil {
		return n.lease, err
	}
	leader, _, err = n.contributions.Leader(ctx, n.key)
	return leader, err
}

// combine adds a contribution to the bandit's sums. A repeated contribution is not an error. The log has the first
// refused contribution for each reason.
func (n *Node) combine(contribution []byte) {
	err := n.Bandit.Combine(contribution)
	if err == nil || errors.Is(err, dpb.ErrDuplicate) {
		return
	}
	n.logOnce("fleet: a contribution is refused and lost", err)
}

// resign ends this node's lease, so that another node can lead at once.
func (n *Node) resign(ctx context.Context) error {
	if (n.lease == Leader{}) {
		return nil
	}
	_, err := n.contributions.Renew(ctx, n.lease, 0)
	return err
}

// logOnce logs each message with each error once.
func (n *Node) logOnce(message string, err error) {
	if _, logged := n.logged.LoadOrStore(message+err.Error(), true); !logged {
		n.log.Error(message, "node", n.number, "error", err)
	}
}

// seal makes a message of a batch. With a fleet key it seals the rewards. Every sealed message of this node has the
// same length: otherwise the length would tell a reward's value, or how many rewards there are. Zeros take the place of
// those that are missing. 0 is no ticket, because a node's number is in its tickets.
func (n *Node) seal(b batch) (Message, error) {
	if n.contributions == nil {
		return b.rewards[0].Message, nil
	}
	text := make([]byte, max(n.slots, 1)*sealedReward)
	for i, reward := range b.rewards {
		binary.BigEndian.PutUint64(text[i*sealedReward:], reward.Ticket)
		binary.BigEndian.PutUint64(text[i*sealedReward+8:], math.Float64bits(reward.Reward))
	}
	sealed, err := n.Bandit.Seal(text)
	return Message{To: b.to, Sealed: sealed}, err
}

// open returns the rewards in a message. With a fleet key, it refuses messages that are not sealed with that key.
func (n *Node) open(m Message) (rewards []Message, err error) {
	if n.contributions == nil && m.Sealed == nil {
		return []Message{m}, nil
	}
	text, err := n.Bandit.Open(m.Sealed)
	if err == nil && len(text)%sealedReward != 0 {
		err = fmt.Errorf("%w: %d bytes", dpb.ErrCorrupt, len(text))
	}
	if err != nil {
		n.logOnce("fleet: rewards that are not sealed with this node's fleet key are ignored", err)
		return nil, err
	}
	for ; len(text) > 0; text = text[sealedReward:] {
		if ticket := binary.BigEndian.Uint64(text); ticket != 0 {
			reward := math.Float64frombits(binary.BigEndian.Uint64(text[8:]))
			rewards = append(rewards, Message{To: m.To, Ticket: ticket, Reward: reward})
		}
	}
	return rewards, nil
}
