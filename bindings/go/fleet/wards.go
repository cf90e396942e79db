package fleet

import (
	"context"
	"errors"
	"slices"
	"time"

	dpb "github.com/libdpb/libdpb/bindings/go"
)

// WardQueue moves the states of nodes that end to nodes that are alive: [dpb.Bandit.Suspend]. A state is addressed to a
// number that a running process drew, and that process accepts one state for it. So however often a store gives a state,
// or an earlier one after a failover, one process at most continues from it.
type WardQueue interface {
	// Offer adds receivers to those that states may be addressed to. It returns the receivers of this member that nobody
	// has taken. With withdraw it removes them all.
	Offer(ctx context.Context, member Member, receivers []uint64, withdraw bool) (open []uint64, err error)
	// Host takes a receiver of the node with this number; 0 stands for any node that is alive. It returns the node and no
	// receiver if all of its receivers are taken, and 0 if nobody offers any.
	Host(ctx context.Context, number uint16) (node uint16, receiver uint64, err error)
	// Entrust leaves a member's state for this node to adopt, at most for the duration of the lease. The member no longer
	// counts as alive, and nobody else gets its number meanwhile.
	Entrust(ctx context.Context, member Member, node uint16, receiver uint64, state []byte, lease time.Duration) error
	// Adopt removes a state from those that were left for a member, and returns it, or nil if there is none. If the record
	// of the state's number has the state's incarnation, it gets the next one, the receiver as its life, and a lease.
	// Otherwise another process has the number: [State.Member] has no life then.
	Adopt(ctx context.Context, member Member, lease time.Duration) (*State, error)
	// Hold renews the lease of a number.
	Hold(ctx context.Context, member Member, lease time.Duration) error
}

// State is the state of a node that has ended.
type State struct {
	Member   Member
	Receiver uint64
	Age      time.Duration // since it was left, by the store's clock
	Bytes    []byte
}

const (
	// A node offers this many receivers.
	offered = 4
	// A node that ends waits so long for a receiver, and for states that were on the way to it.
	maxSearch = 5 * time.Second
	// The maximum number of rewards that a node keeps for a state that may come.
	maxUnknown = 10_000
)

// ward is a bandit of a node that has ended. It decides nothing: it gets the rewards of the decisions that are open,
// contributes, and ends with the last of them. Nodes that end leave such a bandit to others.
type ward struct {
	bandit *dpb.Bandit
	member Member
	holds  bool      // it has its number; otherwise another process has, which must get it
	since  time.Time // when it came, or lost its number
	ticks  uint64    // of this node's clock, that have passed for it
}

// moves reports whether this node's state can move. If a balancer brings each reward to the node that decided, rewards come
// to nobody after its end.
func (n *Node) moves() bool { return n.contributions != nil && n.rewards != nil && !n.routed }

// wardLease is the time for which a ward holds its number: this node renews the lease at each exchange.
func (n *Node) wardLease() time.Duration {
	return max(delaysUntilGone*n.delay, intervalsInLease*n.interval)
}

// allWards returns the wards with this number, or all for 0.
func (n *Node) allWards(number uint16) (wards []*ward) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, w := range n.wards {
		if number == 0 || w.member.Node == number {
			wards = append(wards, w)
		}
	}
	return wards
}

// reward reports a reward for a decision with this number: of this node, or of one that has ended.
func (n *Node) reward(number uint16, ticket uint64, reward float64) (err error) {
	own := number == n.member.Node
	if err = dpb.ErrUnknownTicket; own {
		err = n.Bandit.Update(ticket, reward)
	}
	for _, w := range n.allWards(number) {
		if !errors.Is(err, dpb.ErrUnknownTicket) {
			break
		}
		if other := w.bandit.Update(ticket, reward); !hasEnded(other) {
			err = other
		}
	}
	if own && errors.Is(err, dpb.ErrUnknownTicket) && n.moves() && time.Since(n.started) < delaysUntilGone*n.delay {
		n.mu.Lock() // perhaps of the last process with this number, whose state comes soon
		defer n.mu.Unlock()
		if len(n.unknown) < maxUnknown {
			n.unknown = append(n.unknown, Message{To: number, Ticket: ticket, Reward: reward})
		}
	}
	return err
}

// offer keeps some receivers open. A receiver whose state has not come within a lease is given up.
func (n *Node) offer(ctx context.Context) error {
	if !n.moves() {
		return nil
	}
	var fresh []uint64
	open := 0
	for _, taken := range n.receivers {
		if taken.IsZero() {
			open++
		}
	}
	for ; open < offered; open++ {
		receiver, err := n.Bandit.Receiver()
		if errors.Is(err, dpb.ErrFull) {
			break
		} else if err != nil {
			return err
		}
		n.receivers[receiver] = time.Time{}
		fresh = append(fresh, receiver)
	}
	still, err := n.contributions.Offer(ctx, n.member, fresh, false)
	if err != nil {
		return err
	}
	for receiver, taken := range n.receivers {
		if !slices.Contains(still, receiver) && taken.IsZero() {
			n.receivers[receiver] = time.Now()
		} else if !taken.IsZero() && time.Since(taken) > n.wardLease() {
			delete(n.receivers, receiver)
		}
	}
	return nil
}

// adopt continues from the states that were left for this node. It does so when it knows a leader, because a ward
// contributes from the beginning: what it released itself nobody would learn.
func (n *Node) adopt(ctx context.Context) error {
	if !n.moves() || n.leading.Generation == 0 {
		return nil
	}
	for {
		state, err := n.contributions.Adopt(ctx, n.member, n.wardLease())
		if err != nil {
			return err
		}
		if state == nil {
			return n.offer(ctx)
		}
		delete(n.receivers, state.Receiver)
		if err := n.take(ctx, state); err != nil {
			return err
		}
	}
}

// take makes a ward of a state.
func (n *Node) take(ctx context.Context, state *State) error {
	now, err := n.now()
	if err != nil {
		return err
	}
	config := n.config
	config.Node = uint64(state.Member.Node)
	config.Budget, config.BudgetPeriods = nil, 0 // the ended node's budget has the loss of its rewards
	w := &ward{member: state.Member, holds: state.Member.Life != 0, since: now.at, ticks: now.ticks}
	if wards := n.allWards(w.member.Node); w.member.Node == n.member.Node {
		w.member = n.member
	} else if !w.holds && len(wards) > 0 { // a process that ended after it had got this number from the other ward's
		w.member, w.holds = wards[0].member, wards[0].holds
	}
	w.bandit, err = dpb.Resume(config, state.Bytes)
	if err != nil {
		n.logOnce("fleet: the state of a node that has ended is refused, and what was open in it is lost", err)
		if w.holds {
			return n.store.Leave(ctx, w.member)
		}
		return nil
	}
	if state.Age > delaysUntilUnready*n.delay { // longer than clicks may be on their way
		err = w.bandit.CancelAll()
	} else if n.tick > 0 {
		w.ticks -= min(w.ticks, uint64(state.Age/n.tick))
	}
	n.mu.Lock()
	n.wards = append(n.wards, w)
	unknown := n.unknown
	n.mu.Unlock()
	for _, reward := range unknown {
		if reward.To == w.member.Node {
			_ = w.bandit.Update(reward.Ticket, reward.Reward)
		}
	}
	clear(n.merged) // a ward learns from the others' newest snapshots too
	return errors.Join(err, n.contribute(ctx, w.bandit))
}

// updateWards reads the rewards of wards, and then lets time pass for them. If another process has got a ward's number, that
// process gets the ward.
func (n *Node) updateWards(ctx context.Context) error {
	for _, w := range n.allWards(0) {
		now, err := n.now()
		if err != nil {
			return err
		}
		if w.holds {
			if err = n.contributions.Hold(ctx, w.member, n.wardLease()); err == nil {
				err = n.receiveFor(ctx, w.member)
			}
			if errors.Is(err, ErrReplaced) {
				w.holds, w.since = false, now.at
			} else if err != nil {
				return err
			}
		}
		if !w.holds && w.member.Node != n.member.Node {
			err = n.passOn(ctx, w, now)
		} else if failed := w.bandit.Skip(now.ticks - w.ticks); failed == nil {
			w.ticks = now.ticks
		} else {
			n.lose(w, failed)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// hasEnded reports whether a bandit returned this error because it has moved or is closed.
func hasEnded(err error) bool { return errors.Is(err, dpb.ErrHalted) || errors.Is(err, dpb.ErrClosed) }

// drop forgets a ward.
func (n *Node) drop(w *ward) {
	n.mu.Lock()
	n.wards = slices.DeleteFunc(n.wards, func(other *ward) bool { return other == w })
	n.mu.Unlock()
	w.bandit.Close()
}

// lose forgets a ward that has failed.
func (n *Node) lose(w *ward, err error) {
	n.logOnce("fleet: what was open in a node that has ended is lost", err)
	n.drop(w)
}

// passOn moves a ward to the process that has its number. If that process takes none, what is open is cancelled.
func (n *Node) passOn(ctx context.Context, w *ward, now instant) error {
	node, receiver, err := n.contributions.Host(ctx, w.member.Node)
	if err != nil {
		return err
	}
	if receiver == 0 {
		if now.at.Sub(w.since) > delaysUntilGone*n.delay {
			return w.bandit.CancelAll()
		}
		return nil
	}
	err = n.entrust(ctx, w.bandit, w.member, node, receiver)
	n.drop(w)
	return err
}

// endWards ends the wards in which nothing is open any more. What they had collected is contributed.
func (n *Node) endWards(ctx context.Context) error {
	for _, w := range n.allWards(0) {
		report, err := w.bandit.Report()
		if err != nil {
			n.lose(w, err)
			continue
		}
		tooOld := n.config.RewardWindow == 0 && time.Since(w.since) > rewardLifetime
		if report.Pending > 0 && !tooOld || n.leading.Generation == 0 {
			continue
		}
		n.drop(w)
		shared := slices.ContainsFunc(n.allWards(0), func(other *ward) bool { return other.member == w.member })
		if w.holds && !shared {
			if err := n.store.Leave(ctx, w.member); err != nil {
				return err
			}
		}
	}
	return nil
}

// entrust ends a bandit, and leaves its state for a node.
func (n *Node) entrust(ctx context.Context, bandit *dpb.Bandit, member Member, node uint16, receiver uint64) error {
	state, err := bandit.Suspend(receiver, nil)
	for err == nil { // a state that comes twice is refused
		err = n.contributions.Entrust(ctx, member, node, receiver, state, n.wardLease())
		if err == nil || ctx.Err() != nil {
			break
		}
		time.Sleep(n.delay / 40)
	}
	return err
}

// handOver moves this node's state and those of its wards to a node that is alive, and ends the leases of numbers that it
// leaves nobody. What is open in a state that nobody takes is lost.
func (n *Node) handOver(ctx context.Context) error {
	if !n.moves() {
		return n.store.Leave(ctx, n.member)
	}
	ctx, cancel := context.WithTimeout(ctx, max(n.timeout(), time.Second)+maxSearch)
	defer cancel()
	open, err := n.contributions.Offer(ctx, n.member, nil, true)
	if err != nil {
		return errors.Join(err, n.store.Leave(ctx, n.member))
	}
	for _, receiver := range open {
		delete(n.receivers, receiver)
	}
	for began := time.Now(); len(n.receivers) > 0 && n.leading.Generation != 0 && time.Since(began) < maxSearch/2; {
		state, failed := n.contributions.Adopt(ctx, n.member, n.wardLease())
		if failed == nil && state != nil {
			delete(n.receivers, state.Receiver)
			failed = n.take(ctx, state)
		} else if failed == nil {
			time.Sleep(n.delay / 40)
		}
		if failed != nil {
			err = errors.Join(err, failed)
			break
		}
	}
	host := uint16(0)
	last := append(n.allWards(0), &ward{bandit: n.Bandit, member: n.member, holds: true})
	for i, w := range last {
		report, failed := w.bandit.Report()
		if failed == nil && (report.Pending > 0 || n.leading.Generation == 0) { // nobody took the open sums either
			var receiver uint64
			if host, receiver, failed = n.findHost(ctx, host); failed == nil && receiver != 0 {
				if failed = n.entrust(ctx, w.bandit, w.member, host, receiver); failed == nil {
					continue
				}
			}
		}
		shared := slices.ContainsFunc(last[:i], func(other *ward) bool { return other.member == w.member })
		if w.holds && !shared {
			failed = errors.Join(failed, n.store.Leave(ctx, w.member))
		}
		err = errors.Join(err, failed)
	}
	return err
}

// findHost takes a receiver, if possible of this node. It waits while all receivers are taken.
func (n *Node) findHost(ctx context.Context, preferred uint16) (node uint16, receiver uint64, err error) {
	for began := time.Now(); ; time.Sleep(n.delay / 40) {
		if node, receiver, err = n.contributions.Host(ctx, preferred); err == nil && receiver == 0 && preferred != 0 {
			preferred = 0
			node, receiver, err = n.contributions.Host(ctx, 0)
		}
		if err != nil || receiver != 0 || node == 0 || time.Since(began) > maxSearch || ctx.Err() != nil {
			return node, receiver, err
		}
	}
}
