package fleet

import (
	"context"
	"errors"
	"slices"
	"time"

	dpb "github.com/libdpb/libdpb/bindings/go"
)

// ErrQueueFull means that too many rewards wait for the store. This reward is lost.
var ErrQueueFull = errors.New("fleet: too many rewards wait for the store")

const (
	// The maximum number of messages that are sent or received at once.
	batchSize = 1000
	// A node beats so often in a delay.
	beatsPerDelay = 8
	// A node is gone if it does not beat for this many delays. If its beats fail for the second number of delays, it is
	// not ready: the rest of the time is the balancer's, to send it no more clicks.
	delaysUntilGone, delaysUntilUnready = 30, 10
	// The maximum number of snapshots that are read at once.
	snapshotsAtOnce = 64
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

	returned instant            // when the last round began that has ended well
	rounds   []round            // the rounds that ended well without a pause, the oldest first
	late     map[uint16]instant // nodes whose beats are late, and when they last beat
	alive    []uint16           // the other numbers that a process holds, with Options.SendRate
	nodes    uint64             // the number of nodes that are alive, with this one
	numbers  map[uint16]bool    // numbers that a process ever had
	breaks   uint64             // the count of breaks that was seen last
	puts     uint64             // the count of puts that was seen last
	cancel   bool               // decisions that are open now must be cancelled once
	outage   bool
}

// round is a beat of this node: at this time all nodes together had beaten so often.
type round struct {
	instant
	beats uint64
}

// beatsBefore returns how often all nodes had beaten before this long ago; 0 if that is not known.
func (f *forwarding) beatsBefore(ago time.Duration, now time.Time) (beats uint64) {
	for _, round := range f.rounds {
		if now.Sub(round.at) > ago {
			beats = round.beats
		}
	}
	return beats
}

// startForwarding beats for the first time.
func (n *Node) startForwarding(ctx context.Context) error {
	now, err := n.now()
	n.forwarding = forwarding{
		outbox: map[uint16][]waiting{}, wake: make(chan struct{}, 1), ticks: now.ticks, returned: now,
		numbers: map[uint16]bool{},
	}
	if err == nil {
		err = n.beat(ctx)
	}
	n.forwarding.cancel = false
	return err
}

// Update reports the reward of a decision of any node. If this node decided, its bandit gets the reward at once.
// Otherwise the reward waits in a queue, and Sync sends it in the background: Update never waits for the store. It
// can be called by any goroutine.
//
// Update returns [dpb.ErrUnknownTicket] if the ticket has a number that no process ever had, or that of any other node
// without Options.Rewards. It returns [ErrQueueFull] if 100,000 rewards wait already. Like every error of a reward,
// these are NOT private: do not show them to visitors.
func (n *Node) Update(ticket uint64, reward float64) error {
	to := dpb.TicketNode(ticket)
	if to == n.member.Node {
		return n.reward(to, ticket, reward)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.rewards == nil || !n.forwarding.numbers[to] {
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

// beats makes rounds at fixed times, until ctx is done, and sends rewards in between. A round sends the rewards that
// wait, then beats, then receives: when it has ended well, the rewards that waited at its beginning have arrived, and so
// have those that others had sent. Rounds depend on the time alone, never on how many rewards wait, because an outage
// cancels decisions and so must not depend on rewards.
func (n *Node) beats(ctx context.Context, ended chan<- error) {
	ticker := time.NewTicker(max(n.delay/beatsPerDelay, 1))
	defer ticker.Stop()
	var failures, rewardFailures int
	for {
		due := false
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			due = true
		case <-n.forwarding.wake:
			if failures+rewardFailures > 0 {
				continue // the next round tries again, however many rewards come
			}
		}
		err, rewardErr := n.round(ctx, due)
		if ctx.Err() != nil {
			return
		}
		switch {
		case errors.Is(err, ErrReplaced), errors.Is(rewardErr, ErrReplaced),
			errors.Is(err, dpb.ErrClosed), errors.Is(err, dpb.ErrPoisoned):
			ended <- errors.Join(err, rewardErr)
			return
		case err != nil:
			failures++
			n.count(func(m *Metrics) { m.Errors++ })
			n.failed(err, failures)
		case rewardErr != nil:
			// Whether an error occurs can depend on whether there are rewards, so the count is for operators only.
			rewardFailures++
			n.count(func(m *Metrics) { m.RewardErrors++ })
			n.failed(rewardErr, rewardFailures)
		case due:
			failures, rewardFailures = 0, 0
		}
	}
}

// round sends rewards and, if due, beats and receives. The second error is of the reward queue.
func (n *Node) round(ctx context.Context, due bool) (err, rewardErr error) {
	limited := func(work func(context.Context) error) error {
		limited, cancel := context.WithTimeout(ctx, n.delay)
		defer cancel()
		return work(limited)
	}
	began, err := n.now()
	if err != nil {
		return err, nil
	}
	send := func(ctx context.Context) error { _, err := n.send(ctx, due); return err }
	if rewardErr = limited(send); rewardErr != nil || !due {
		return nil, rewardErr
	}
	if err = limited(n.beat); err != nil {
		return err, nil
	}
	if rewardErr = limited(n.receive); rewardErr == nil {
		n.count(func(*Metrics) { n.forwarding.returned = began })
	}
	return nil, rewardErr
}

// beat renews the lease of this node's number, and learns which other nodes do not beat.
func (n *Node) beat(ctx context.Context) error {
	n.mu.Lock()
	f := &n.forwarding
	began := instant{time.Now(), f.ticks}
	if last := len(f.rounds) - 1; last >= 0 && began.at.Sub(f.rounds[last].at) > n.delay {
		f.rounds = nil // after a pause this node must not call others late by a time in which it did not beat itself
	}
	beat := Beat{
		Lease: delaysUntilGone * n.delay,
		Late:  f.beatsBefore(n.delay, began.at),
		Gone:  f.beatsBefore(delaysUntilGone*n.delay, began.at),
		Held:  n.slots > 0,
	}
	known := uint64(len(f.numbers))
	n.mu.Unlock()
	pulse, err := n.store.Beat(ctx, n.member, beat)
	var numbers []uint16
	if err == nil && pulse.Numbers != known {
		numbers, err = n.store.Numbers(ctx)
	}
	if err != nil {
		return err
	}
	for _, node := range pulse.Gone {
		n.log.Warn("fleet: a node is gone: its number is free", "node", n.member.Node, "gone", node)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, number := range numbers {
		f.numbers[number] = true
	}
	if last := len(f.rounds) - 1; last >= 0 && pulse.Beats <= f.rounds[last].beats {
		f.rounds = nil // the store has forgotten some
	}
	f.rounds = append(f.rounds, round{began, pulse.Beats})
	for len(f.rounds) > 1 && began.at.Sub(f.rounds[1].at) > delaysUntilGone*n.delay {
		f.rounds = f.rounds[1:]
	}
	f.late = map[uint16]instant{}
	for node, beats := range pulse.Late {
		if node != n.member.Node {
			at := slices.IndexFunc(f.rounds, func(r round) bool { return r.beats >= beats })
			f.late[node] = f.rounds[at].instant
		}
	}
	f.alive = slices.DeleteFunc(pulse.Held, func(node uint16) bool { return node == n.member.Node })
	slices.Sort(f.alive)
	f.nodes = pulse.Nodes
	if pulse.Breaks != f.breaks {
		f.breaks, f.cancel = pulse.Breaks, true
	}
	if pulse.Puts != f.puts {
		f.puts = pulse.Puts
		notify(n.news)
	}
	if pulse.States > 0 {
		notify(n.states)
	}
	return nil
}

// Ready reports whether this node can forward clicks: its rounds have ended well within the last ten delays. Tell your
// balancer, which should send clicks to nodes that are ready only, and must obey within twenty delays: after that, the
// other nodes learn from the silence of clicks that this node cannot forward. Without Options.Rewards it is always true.
func (n *Node) Ready() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.rewards == nil || time.Since(n.forwarding.returned.at) <= delaysUntilUnready*n.delay
}

// send sends the rewards that wait. It reports whether it sent anything. After an error it sends the same rewards again
// at the next round: a reward counts once, because of its ticket.
func (n *Node) send(ctx context.Context, due bool) (sent bool, err error) {
	if n.rewards == nil {
		return false, nil
	}
	n.mu.Lock()
	batches := n.batches(time.Now(), due)
	n.mu.Unlock()
	var messages []Message
	for i := 0; i < len(batches) && err == nil; i++ {
		var message Message
		message, err = n.seal(batches[i])
		messages = append(messages, message)
	}
	if len(messages) > 0 && err == nil {
		err = n.rewards.Send(ctx, messages)
	}
	if err != nil {
		return false, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, batch := range batches {
		n.remove(batch.to, len(batch.rewards), &n.metrics.Sent)
	}
	n.wake()
	return len(messages) > 0, nil
}

// batch holds the rewards of one message.
type batch struct {
	to      uint16
	rewards []waiting
}

// batches returns the rewards to send now. Each reward is a message of its own.
//
// With Options.SendRate there are none unless a round is due, and then there is one message for each number that is held,
// whether rewards wait for it or not. So the messages depend on beats alone. Rewards for other numbers are lost after the
// time in which a node is gone. Node.mu is locked.
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
	for to, queue := range f.outbox {
		if !slices.Contains(f.alive, to) {
			late := slices.IndexFunc(queue, func(w waiting) bool { return now.Sub(w.since) <= delaysUntilGone*n.delay })
			n.remove(to, late, &n.metrics.Unsent)
		}
	}
	for _, to := range f.alive {
		batches = append(batches, batch{to, f.outbox[to][:min(len(f.outbox[to]), n.slots)]})
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

// sendAll sends the rewards that still wait. With Options.SendRate it sends as in a round, and what still waits then is
// lost.
func (n *Node) sendAll(ctx context.Context) error {
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
	return nil
}

// Leave tells the other nodes that the process with this number has ended without saying so. They do not wait until it is
// gone. If it has not ended, it gets [ErrReplaced].
func Leave(ctx context.Context, store Store, number uint16) error {
	return store.Leave(ctx, Member{Node: number})
}

// receive receives rewards.
func (n *Node) receive(ctx context.Context) error {
	if n.rewards == nil {
		return nil
	}
	return n.receiveFor(ctx, n.member)
}

// receiveFor receives the rewards for a member's number. A bandit refuses a repeated reward by its ticket.
func (n *Node) receiveFor(ctx context.Context, member Member) error {
	return n.rewards.Receive(ctx, member, func(m Message) {
		received, refused := uint64(0), uint64(0)
		rewards, err := n.open(m) // of the seal
		if err != nil {
			refused++
		}
		for _, reward := range rewards {
			if n.reward(member.Node, reward.Ticket, reward.Reward) == nil {
				received++
			} else {
				refused++
			}
		}
		n.count(func(m *Metrics) { m.Received += received; m.Refused += refused })
	})
}

// checkOutage cancels all open decisions as long as rewards cannot travel, and once more afterwards; and once after a node
// was gone or came back. It depends on beats alone, which nodes make whether there are rewards or not.
func (n *Node) checkOutage(ctx context.Context) {
	if n.window == 0 {
		return // without a window, silence has no effect; or this node does not check
	}
	ticker := time.NewTicker(max(n.delay/beatsPerDelay, 1))
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
		before, once := f.outage, f.cancel
		f.outage, f.cancel = late, false
		if late && !before {
			n.metrics.Outages++
		}
		n.metrics.Outage = late
		n.mu.Unlock()
		switch {
		case late && !before:
			n.log.Warn("fleet: rewards do not arrive in time: this node cancels open decisions until they do",
				"node", n.member.Node, "from", from)
		case before && !late:
			n.log.Warn("fleet: rewards arrive in time again: this node learns from its decisions again",
				"node", n.member.Node)
		case once && !late:
			n.log.Warn("fleet: a node was gone, or has come back: this node cancels its open decisions once",
				"node", n.member.Node)
		}
		if late || before || once {
			for _, w := range n.allWards(0) {
				_ = w.bandit.CancelAll()
			}
			if err := n.Bandit.CancelAll(); err != nil {
				return
			}
		}
	}
}

// isLate reports whether rewards do not arrive in time, and from which node: 0 means from all nodes. Node.mu is locked.
func (n *Node) isLate(now instant) (bool, uint16) {
	f := &n.forwarding
	if f.nodes <= 1 {
		return false, 0 // without other nodes, no rewards travel
	}
	if f.returned.olderThan(n.delay, n.window/8, now) {
		return true, 0
	}
	for node, last := range f.late {
		if last.olderThan(n.delay, n.window/8, now) {
			return true, node
		}
	}
	return false, 0
}
