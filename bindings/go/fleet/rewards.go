package fleet

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	dpb "github.com/libdpb/libdpb/bindings/go"
)

// ErrQueueFull means that too many rewards wait for the store. This reward is lost.
var ErrQueueFull = errors.New("fleet: too many rewards wait for the store")

const (
	// The maximum number of messages that are sent or received at once.
	batchSize = 1000
	// A node sends this many heartbeats in a delay.
	heartbeatsPerDelay = 8
	// A node is gone if no heartbeat of it arrives for this many delays.
	delaysUntilGone = 30
)

// instant is a point in time, by the wall clock and in ticks of the bandit's clock.
type instant struct {
	at    time.Time
	ticks uint64
}

// olderThan reports whether the time from i to now is longer than this delay and longer than this number of ticks.
func (i instant) olderThan(delay time.Duration, ticks uint64, now instant) bool {
	return now.at.Sub(i.at) > delay && now.ticks-i.ticks > ticks
}

// now reads the bandit's clock.
func (n *Node) now() (instant, error) {
	now := instant{at: time.Now()}
	if n.tick > 0 {
		now.ticks = uint64(now.at.Sub(n.started) / n.tick)
		return now, nil
	}
	report, err := n.Bandit.Report()
	now.ticks = report.Decisions
	return now, err
}

// forwarding is the state of sending rewards and of checking for outages. Node.mu guards it.
type forwarding struct {
	outbox []Message     // rewards that wait to be sent
	wake   chan struct{} // the outbox is not empty
	ticks  uint64        // the bandit's clock at the last check

	heartbeats uint64             // number of the last heartbeat from this node to itself
	awaited    *instant           // when that heartbeat was sent; nil: it has returned
	returned   instant            // when the last heartbeat that has returned was sent
	connected  time.Time          // heartbeats have returned in time since then
	peers      map[uint16]instant // when the last heartbeat of each other node arrived
	outage     bool
}

func (n *Node) startForwarding() error {
	now, err := n.now()
	n.forwarding = forwarding{
		wake: make(chan struct{}, 1), ticks: now.ticks, returned: now, connected: now.at,
		heartbeats: rand.Uint64() >> 1, peers: map[uint16]instant{},
	}
	return err
}

// Update reports the reward of a decision of any node. If this node decided, its bandit gets the reward at once.
// Otherwise the reward waits in a queue, and Sync sends it in the background: Update never waits for the store. It
// can be called by any goroutine.
//
// Update returns [dpb.ErrUnknownTicket] if the ticket is of a node that this node has not seen, or of any other node
// without Options.Rewards. It returns [ErrQueueFull] if 100,000 rewards wait already. Like every error of a reward,
// these are NOT private: do not show them to visitors.
func (n *Node) Update(ticket uint64, reward float64) error {
	to := dpb.TicketNode(ticket)
	if to == n.number {
		return n.Bandit.Update(ticket, reward)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, seen := n.nodes[to]; n.rewards == nil || !seen {
		return dpb.ErrUnknownTicket // an invented ticket must not create a stream in the store
	}
	f := &n.forwarding
	if len(f.outbox) >= maxRewards {
		n.metrics.Unsent++
		return ErrQueueFull
	}
	f.outbox = append(f.outbox, Message{To: to, Ticket: ticket, Reward: reward})
	select {
	case f.wake <- struct{}{}:
	default:
	}
	return nil
}

// sendRewards sends the rewards that wait, and heartbeats at fixed times, until ctx is done.
func (n *Node) sendRewards(ctx context.Context) {
	ticker := time.NewTicker(max(n.delay/heartbeatsPerDelay, 1))
	defer ticker.Stop()
	for failures := 0; ; {
		heartbeat := false
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			heartbeat = true
		case <-n.forwarding.wake:
		}
		limited, cancel := context.WithTimeout(ctx, n.delay)
		err := n.send(limited, heartbeat)
		cancel()
		if err == nil {
			failures = 0
		} else {
			failures++
			n.rewardsFailed(ctx, err, failures)
		}
	}
}

// send sends up to batchSize of the rewards that wait. After an error it sends them again: a reward counts once,
// because of its ticket. Heartbeats depend on the time alone, never on how many rewards wait, because an outage
// cancels decisions and so must not depend on rewards.
func (n *Node) send(ctx context.Context, heartbeat bool) error {
	n.mu.Lock()
	f := &n.forwarding
	now := instant{time.Now(), f.ticks}
	messages := slices.Clone(f.outbox[:min(len(f.outbox), batchSize)])
	count := len(messages)
	inTime := now.at.Sub(f.returned.at) <= n.delay
	if heartbeat && (f.awaited == nil || now.at.Sub(f.awaited.at) > n.delay) {
		f.heartbeats++
		f.awaited = &now
		messages = append(messages, Message{To: n.number, Heartbeat: f.heartbeats})
	}
	n.mu.Unlock()
	var err error
	for i := 0; i < len(messages) && n.contributions != nil && err == nil; i++ {
		if messages[i].Heartbeat == 0 {
			messages[i], err = n.seal(messages[i])
		}
	}
	if len(messages) > 0 && err == nil {
		err = n.rewards.Send(ctx, messages)
	}
	if err == nil && heartbeat && inTime {
		err = n.store.Notify(ctx, Notification{n.number, Heartbeat})
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if err == nil {
		f.outbox = f.outbox[count:]
		n.metrics.Sent += uint64(count)
	}
	if len(f.outbox) > 0 {
		select {
		case f.wake <- struct{}{}:
		default:
		}
	}
	return err
}

// leave sends the rewards that still wait, and notifies the other nodes that this node has stopped.
func (n *Node) leave(ctx context.Context) error {
	waiting := func() bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		return n.rewards != nil && len(n.forwarding.outbox) > 0
	}
	for waiting() {
		if err := n.send(ctx, false); err != nil {
			return err
		}
	}
	return n.store.Notify(ctx, Notification{n.number, Leave})
}

// receiveRewards receives rewards and this node's heartbeats until ctx is done. The bandit refuses a repeated reward by
// its ticket.
func (n *Node) receiveRewards(ctx context.Context) {
	take := func(m Message) {
		var err error
		if m.Heartbeat == 0 {
			if m, err = n.open(m); err == nil {
				err = n.Bandit.Update(m.Ticket, m.Reward)
			}
		}
		n.count(func(metrics *Metrics) {
			f := &n.forwarding
			switch {
			case m.Heartbeat != 0:
				// A heartbeat of an earlier incarnation has another number.
				if m.Heartbeat == f.heartbeats && f.awaited != nil {
					f.returned, f.awaited = *f.awaited, nil
				}
			case err == nil:
				metrics.Received++
			default:
				metrics.Refused++
			}
		})
	}
	for failures := 0; ctx.Err() == nil; {
		limited, cancel := context.WithTimeout(ctx, n.interval+time.Second)
		err := n.rewards.Receive(limited, n.number, take)
		cancel()
		if err == nil || ctx.Err() != nil {
			failures = 0
			continue
		}
		failures++
		n.rewardsFailed(ctx, err, failures)
	}
}

// rewardsFailed counts an error of the reward queue, and waits before the next try. Whether an error occurs can
// depend on whether there are rewards, so the count is for operators only.
func (n *Node) rewardsFailed(ctx context.Context, err error, failures int) {
	if ctx.Err() != nil {
		return
	}
	n.count(func(m *Metrics) { m.RewardErrors++; m.LastError = err })
	select {
	case <-ctx.Done():
	case <-time.After(pause(n.interval, failures)):
	}
}

// readNotifications passes nodes that have put to Sync, and records heartbeats. It ignores heartbeats of unknown and
// incompatible nodes.
func (n *Node) readNotifications(notifications <-chan Notification, puts chan<- uint16) {
	defer close(puts)
	for notification := range notifications {
		if notification.Event == Put {
			select {
			case puts <- notification.Node:
			default: // the next exchange reads all snapshots
			}
			continue
		}
		n.count(func(*Metrics) {
			f := &n.forwarding
			if err, seen := n.nodes[notification.Node]; notification.Event == Heartbeat && seen && err == nil {
				f.peers[notification.Node] = instant{time.Now(), f.ticks}
			} else if notification.Event == Leave {
				delete(f.peers, notification.Node)
			}
		})
	}
}

// checkOutage cancels all open decisions as long as rewards cannot travel, and once more afterwards. It depends on
// heartbeats alone, which are sent whether there are rewards or not.
func (n *Node) checkOutage(ctx context.Context) {
	if n.window == 0 || !n.checksOutages {
		return // without a window, silence has no effect; or Options.Delay disables the check
	}
	ticker := time.NewTicker(max(n.delay/heartbeatsPerDelay, 1))
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now, err := n.now()
		if err != nil {
			return // Sync returns the error
		}
		n.mu.Lock()
		f := &n.forwarding
		f.ticks = now.ticks
		late, from := n.isLate(now)
		before := f.outage
		f.outage = late
		if late && !before {
			n.metrics.Outages++
		}
		n.metrics.Outage = late
		n.mu.Unlock()
		switch {
		case late && !before:
			n.log.Warn("fleet: rewards do not arrive in time: this node cancels open decisions until they do",
				"node", n.number, "from", from)
		case before && !late:
			n.log.Warn("fleet: rewards arrive in time again: this node learns from its decisions again",
				"node", n.number)
		}
		if late || before {
			if err := n.Bandit.CancelAll(); err != nil {
				return
			}
		}
	}
}

// isLate reports whether rewards do not arrive in time, and from which node: 0 means from all nodes. Node.mu is locked.
func (n *Node) isLate(now instant) (bool, uint16) {
	f := &n.forwarding
	cutOff := f.returned.olderThan(n.delay, n.window/8, now)
	if cutOff {
		f.connected = now.at
	}
	late, from := cutOff, uint16(0)
	for node, last := range f.peers {
		since := last
		if f.connected.After(since.at) {
			since.at = f.connected // while this node was cut off, it could not receive heartbeats
		}
		if since.olderThan(delaysUntilGone*n.delay, n.window, now) {
			delete(f.peers, node)
			n.log.Warn("fleet: a node is gone: this node no longer waits for its rewards",
				"node", n.number, "gone", node)
		} else if !late && last.olderThan(n.delay, n.window/8, now) {
			late, from = true, node
		}
	}
	return late && len(f.peers) > 0, from // without other nodes, no rewards travel
}
