package fleet

import (
	"context"
	"errors"
	"maps"
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
	// The size of a reward in a sealed message: the ticket and the bits of the reward, in big-endian order.
	sealedReward = 8 + 8
	// The maximum number of rewards in a sealed message.
	maxSlots = 1 << 16
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

// waiting is a reward that waits to be sent.
type waiting struct {
	Message
	since time.Time
}

// forwarding is the state of sending rewards and of checking for outages. Node.mu guards it.
type forwarding struct {
	outbox map[uint16][]waiting // by node
	queued int                  // the number of rewards in the outbox
	wake   chan struct{}        // the outbox is not empty, and rewards are sent at once
	ticks  uint64               // the bandit's clock at the last check

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
		outbox: map[uint16][]waiting{}, wake: make(chan struct{}, 1), ticks: now.ticks, returned: now, connected: now.at,
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
	if f.queued >= maxRewards {
		n.metrics.Unsent++
		return ErrQueueFull
	}
	f.outbox[to] = append(f.outbox[to], waiting{Message{To: to, Ticket: ticket, Reward: reward}, time.Now()})
	f.queued++
	n.wake()
	return nil
}

// wake makes sendRewards send the rewards that wait, unless it sends at a fixed rate. Node.mu is locked.
func (n *Node) wake() {
	if n.slots > 0 || n.forwarding.queued == 0 {
		return
	}
	select {
	case n.forwarding.wake <- struct{}{}:
	default:
	}
}

// sendRewards sends the rewards that wait, and heartbeats at fixed times, until ctx is done.
func (n *Node) sendRewards(ctx context.Context) {
	ticker := time.NewTicker(max(n.delay/heartbeatsPerDelay, 1))
	defer ticker.Stop()
	for failures := 0; ; {
		due := false
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			due = true
		case <-n.forwarding.wake:
		}
		limited, cancel := context.WithTimeout(ctx, n.delay)
		sent, err := n.send(limited, due)
		cancel()
		if err != nil {
			failures++
			n.rewardsFailed(ctx, err, failures)
		} else if sent {
			failures = 0
		}
	}
}

// send sends rewards that wait and, if due, a heartbeat. It reports whether it sent anything. After an error it sends
// the same rewards again: a reward counts once, because of its ticket. Heartbeats depend on the time alone, never on how
// many rewards wait, because an outage cancels decisions and so must not depend on rewards.
func (n *Node) send(ctx context.Context, due bool) (sent bool, err error) {
	n.mu.Lock()
	f := &n.forwarding
	now := instant{time.Now(), f.ticks}
	batches := n.batches(now.at, due)
	inTime := due && now.at.Sub(f.returned.at) <= n.delay
	var heartbeat []Message
	if due && (f.awaited == nil || now.at.Sub(f.awaited.at) > n.delay) {
		f.heartbeats++
		f.awaited = &now
		heartbeat = []Message{{To: n.number, Heartbeat: f.heartbeats}}
	}
	n.mu.Unlock()
	var messages []Message
	for i := 0; i < len(batches) && err == nil; i++ {
		var message Message
		message, err = n.seal(batches[i])
		messages = append(messages, message)
	}
	messages = append(messages, heartbeat...)
	if len(messages) > 0 && err == nil {
		err = n.rewards.Send(ctx, messages)
	}
	if err == nil && inTime {
		err = n.store.Notify(ctx, Notification{n.number, Heartbeat})
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for i := 0; i < len(batches) && err == nil; i++ {
		n.remove(batches[i].to, len(batches[i].rewards), &n.metrics.Sent)
	}
	n.wake()
	return len(messages) > 0, err
}

// batch holds the rewards of one message.
type batch struct {
	to      uint16
	rewards []waiting
}

// batches returns the rewards to send now. Each reward is a message of its own.
//
// With Options.SendRate there are none unless a heartbeat is due, and then there is one message for each node whose
// heartbeats arrive, whether rewards wait for it or not. So the messages depend on heartbeats alone. Rewards for a node
// that sends no heartbeats are lost after the time in which it is gone. Node.mu is locked.
func (n *Node) batches(now time.Time, due bool) (batches []batch) {
	f := &n.forwarding
	if n.slots == 0 {
		for to, queue := range f.outbox {
			for i := range queue[:min(len(queue), batchSize-len(batches))] {
				batches = append(batches, batch{to, queue[i : i+1]})
			}
		}
		return batches
	}
	if !due {
		return nil
	}
	gone := func(at time.Time) bool { return now.Sub(at) > delaysUntilGone*n.delay }
	for to, queue := range f.outbox {
		if gone(f.peers[to].at) {
			late := slices.IndexFunc(queue, func(w waiting) bool { return !gone(w.since) })
			n.remove(to, late, &n.metrics.Unsent)
		}
	}
	for _, to := range slices.Sorted(maps.Keys(f.peers)) {
		if queue := f.outbox[to]; !gone(f.peers[to].at) {
			batches = append(batches, batch{to, queue[:min(len(queue), n.slots)]})
		}
	}
	return batches
}

// remove removes the first rewards for a node from the outbox, all if count is negative, and counts them. Node.mu is
// locked.
func (n *Node) remove(to uint16, count int, counted *uint64) {
	f := &n.forwarding
	if count < 0 {
		count = len(f.outbox[to])
	}
	f.queued -= count
	*counted += uint64(count)
	if f.outbox[to] = f.outbox[to][count:]; len(f.outbox[to]) == 0 {
		delete(f.outbox, to)
	}
}

// leave sends the rewards that still wait, and notifies the other nodes that this node has stopped. With
// Options.SendRate it sends as at a heartbeat, and what still waits then is lost.
func (n *Node) leave(ctx context.Context) error {
	waits := func() bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		return n.rewards != nil && n.slots == 0 && n.forwarding.queued > 0
	}
	for last := n.slots > 0; last || waits(); last = false {
		if _, err := n.send(ctx, last); err != nil {
			return err
		}
	}
	return n.store.Notify(ctx, Notification{n.number, Leave})
}

// receiveRewards receives rewards and this node's heartbeats until ctx is done. The bandit refuses a repeated reward by
// its ticket.
func (n *Node) receiveRewards(ctx context.Context) {
	take := func(m Message) {
		if m.Heartbeat != 0 {
			n.count(func(*Metrics) {
				// A heartbeat of an earlier incarnation has another number.
				if f := &n.forwarding; m.Heartbeat == f.heartbeats && f.awaited != nil {
					f.returned, f.awaited = *f.awaited, nil
				}
			})
			return
		}
		received, refused := uint64(0), uint64(0)
		rewards, err := n.open(m)
		if err != nil {
			refused++
		}
		for _, reward := range rewards {
			if n.Bandit.Update(reward.Ticket, reward.Reward) == nil {
				received++
			} else {
				refused++
			}
		}
		n.count(func(m *Metrics) { m.Received += received; m.Refused += refused })
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
	n.count(func(m *Metrics) { m.RewardErrors++ })
	n.failed(err, failures)
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
