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

// ContributionQueue is what a fleet with one noise needs besides a [Store]: a lease for its leader, a queue of
// contributions to the leader, and the states of nodes that end.
type ContributionQueue interface {
	WardQueue
	// Leader returns the holder of the lease for the fleet key with this id. held is false if there is no lease. If the
	// lease is unreadable, held is true, and Node and Generation are 0.
	Leader(ctx context.Context, key uint64) (leader Leader, held bool, err error)
	// Lead takes the lease for this duration, unless the lease is held already.
	Lead(ctx context.Context, leader Leader, lease time.Duration) (taken bool, err error)
	// Renew makes the lease end after this duration, if this leader holds it. With 0 the lease ends at once.
	Renew(ctx context.Context, leader Leader, lease time.Duration) (held bool, err error)
	// Contribute sends a member's contribution to the leader of this generation once. If it returns an error, the
	// contribution may have been sent. It returns ErrReplaced as the methods of [Store] do.
	Contribute(ctx context.Context, member Member, generation uint64, contribution []byte) error
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
	// A node that contributes and has released nothing new puts a snapshot at each of so many exchanges.
	exchangesUntilPut = 12
	// Nodes up to this number take the lead at once, others only if they find no leader at two exchanges. So few nodes
	// ever release, and the others have few snapshots to read.
	firstLeaders = 8
	// A leader that ends waits two intervals for contributions that are on the way, but no longer than maxDrain. Then it
	// waits another interval for its heir to lead, at least minHeir, because a busy heir may be late.
	maxDrain = 10 * time.Second
	// It ends without an heir only if for minAlone no other node was alive: the beats of a busy node may be late.
	minHeir  = 3 * time.Second
	maxHeir  = 5 * time.Second
	minAlone = 2 * time.Second
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
	if !leads && leader.Node == n.member.Node {
		leader.Generation = 0 // held before a restart
	}
	if n.leading = leader; leader.Generation != 0 && !leads {
		n.lease = Leader{}
	}
	n.count(func(m *Metrics) { m.Leads = leads })
	if leader.Generation == 0 {
		return nil
	}
	for _, w := range n.allWards(0) {
		if err := n.contribute(ctx, w.bandit); errors.Is(err, dpb.ErrPoisoned) {
			n.lose(w, err)
		} else if err != nil {
			return err
		}
	}
	if leads {
		return n.contributions.Collect(ctx, leader.Generation, n.combine)
	}
	return n.contribute(ctx, n.Bandit)
}

// contribute takes the open sums out of a bandit, this node's or a ward's, for the leader.
func (n *Node) contribute(ctx context.Context, bandit *dpb.Bandit) error {
	contribution, err := bandit.Contribution(n.leading.Generation)
	if err != nil || contribution == nil {
		return err
	}
	if n.leading == n.lease {
		n.combine(contribution)
		return nil
	}
	// If this fails, the contribution may have arrived, so it is not sent again.
	err = n.contributions.Contribute(ctx, n.member, n.leading.Generation, contribution)
	n.count(func(m *Metrics) {
		if err == nil {
			m.Contributions++
		} else {
			m.ContributionsLost++
		}
	})
	return err
}

// leader returns the holder of the lease. If there is none, this node takes the lease, or returns nobody.
func (n *Node) leader(ctx context.Context) (Leader, error) {
	lease := max(intervalsInLease*n.interval, minLease)
	if (n.lease != Leader{}) {
		if held, err := n.contributions.Renew(ctx, n.lease, lease); held || err != nil {
			return n.lease, err
		}
	}
	leader, held, err := n.contributions.Leader(ctx, n.key)
	if held || err != nil {
		n.leaderless = false
		return leader, err
	}
	if wait := n.member.Node > firstLeaders && n.releases == 0 && !n.leaderless; wait || n.ending {
		n.leaderless = true
		return Leader{}, nil
	}
	generation, err := n.Bandit.Lead()
	if err != nil {
		return Leader{}, err
	}
	n.lease = Leader{n.key, n.member.Node, generation} // set it first: the reply to the next command can be lost
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

// resign ends this node's lease, if it leads, and combines what still comes to it until another node leads. When it
// shares after that, it contributes all that it has collected to its heir. A node that is alone keeps its sums.
func (n *Node) resign(ctx context.Context) (err error) {
	n.ending = true
	if n.lease == (Leader{}) {
		return nil
	}
	led := n.lease
	n.lease = Leader{}
	n.count(func(m *Metrics) { m.Leads = false })
	began, alone, drain := time.Now(), time.Now(), min(2*n.interval, maxDrain)
	most := drain + min(max(n.interval, minHeir), maxHeir)
	for resigned, heir := false, (Leader{}); ; time.Sleep(drain / 40) { // an error may be over at the next try
		passed := time.Since(began)
		err = n.atTheEnd(ctx, func(ctx context.Context) (err error) {
			if !resigned {
				_, err = n.contributions.Renew(ctx, led, 0)
				resigned = err == nil
			}
			if err == nil {
				err = n.contributions.Collect(ctx, led.Generation, n.combine)
			}
			if err == nil && passed > drain {
				heir, err = n.leader(ctx)
			}
			return err
		})
		if n.Metrics().Nodes > 0 {
			alone = time.Now()
		}
		isAlone := time.Since(alone) > minAlone && resigned
		if isAlone || heir.Generation != 0 || passed > most {
			return err
		}
	}
}

// atTheEnd does some of a hand-over within its time limit, which is longer than that of an exchange: there is no next one.
func (n *Node) atTheEnd(ctx context.Context, work func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, max(n.timeout(), time.Second))
	defer cancel()
	return work(ctx)
}

// logOnce logs each message with each error once.
func (n *Node) logOnce(message string, err error) {
	if _, logged := n.logged.LoadOrStore(message+err.Error(), true); !logged {
		n.log.Error(message, "node", n.member.Node, "error", err)
	}
}

// seal makes a message of a batch. With a fleet key it seals the rewards. Every sealed message of this node has the
// same length: otherwise the length would tell a reward's value, or how many rewards there are. Zeros take the place of
// those that are missing. 0 is no ticket, because a node's number is in its tickets.
func (n *Node) seal(b batch) (Message, error) {
	if n.contributions == nil {
		return b.rewards[0], nil
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
