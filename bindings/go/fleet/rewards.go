package fleet

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	dpb "github.com/libdpb/libdpb/bindings/go"
)

// ErrQueueFull means that too many rewards wait for the store, or for the next message to a node. This reward is lost.
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

// batch holds the rewards of one message: one reward or, with Options.SendRate, those that came in one round.
type batch struct {
	to      uint16
	rewards []Message
	since   time.Time
}

// outbox holds the rewards that wait to be sent. What becomes of a reward must not depend on other rewards, because
// otherwise one reward would decide what is learned from others.
//
// With slots (Options.SendRate), a reward travels in the message of the round in which it came, whoever else waits, and
// however long sending takes. A round makes one message for each number that is held, with at most so many rewards; more
// are lost. So one more reward in a round costs at most one other. If messages were filled from a queue, one more reward
// would delay all that come after it until the queue is empty.
type outbox struct {
	slots    int                           // rewards in each message; 0: one, which is sent at once
	every    time.Duration                 // the duration of a round
	began    time.Time                     // when this round began
	next     map[uint16]map[uint64]float64 // with slots, for each node: the rewards of this round, by ticket
	messages map[uint16][]batch            // for each node, the oldest first
	count    int                           // rewards in both
}

func newOutbox(slots int, every time.Duration, now time.Time) outbox {
	next, messages := map[uint16]map[uint64]float64{}, map[uint16][]batch{}
	return outbox{slots: slots, every: every, began: now, next: next, messages: messages}
}

// add adds a reward. It returns false if there is no space, and the reward is lost.
func (o *outbox) add(reward Message, now time.Time) bool {
	to := reward.To
	switch _, repeated := o.next[to][reward.Ticket]; {
	case repeated: // the node would refuse it
		return true
	case o.slots > 0 && len(o.next[to]) >= o.slots, o.slots == 0 && o.count >= maxRewards:
		return false
	case o.slots == 0:
		o.messages[to] = append(o.messages[to], batch{to, []Message{reward}, now})
	case o.next[to] == nil:
		o.next[to] = map[uint64]float64{reward.Ticket: reward.Reward}
	default:
		o.next[to][reward.Ticket] = reward.Reward
	}
	o.count++
	return true
}

// rounds ends the rounds that are over. It drops what waits for numbers that nobody holds, and what has waited longer than
// this time. So how many messages wait for a node depends on time and on numbers alone. It returns the number of rewards
// that it has dropped.
func (o *outbox) rounds(held []uint16, now time.Time, longest time.Duration) (lost uint64) {
	if o.slots == 0 {
		return 0
	}
	if oldest := now.Add(-longest - o.every); o.began.Before(oldest) {
		o.began = oldest
	}
	for ; now.Sub(o.began) >= o.every; o.began = o.began.Add(o.every) {
		lost += o.end(held, o.began.Add(o.every))
	}
	for to, messages := range o.messages {
		late := slices.IndexFunc(messages, func(b batch) bool { return now.Sub(b.since) <= longest })
		if late < 0 || !slices.Contains(held, to) {
			late = len(messages)
		}
		lost += o.remove(to, late)
	}
	return lost
}

// end ends this round: it makes a message for each number that is held, whether there are rewards or not.
func (o *outbox) end(held []uint16, now time.Time) (lost uint64) {
	for _, to := range held {
		message := batch{to: to, since: now}
		for ticket, reward := range o.next[to] {
			message.rewards = append(message.rewards, Message{To: to, Ticket: ticket, Reward: reward})
		}
		o.messages[to] = append(o.messages[to], message)
		delete(o.next, to)
	}
	for _, rewards := range o.next {
		lost += uint64(len(rewards))
	}
	o.count -= int(lost)
	clear(o.next)
	return lost
}

// waiting returns the nodes for which messages wait.
func (o *outbox) waiting() []uint16 { return slices.Sorted(maps.Keys(o.messages)) }

// remove removes the first messages for a node, and returns the number of their rewards.
func (o *outbox) remove(to uint16, messages int) (rewards uint64) {
	for _, message := range o.messages[to][:messages] {
		rewards += uint64(len(message.rewards))
	}
	o.count -= int(rewards)
	if o.messages[to] = o.messages[to][messages:]; len(o.messages[to]) == 0 {
		delete(o.messages, to)
	}
	return rewards
}

// forwarding is the state of sending rewards and of checking for outages. Node.mu guards it.
type forwarding struct {
	outbox outbox
	wake   chan struct{} // the outbox is not empty, and rewards are sent at once
	ticks  uint64        // the bandit's clock at the last check

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
		outbox: newOutbox(n.slots, max(n.delay/beatsPerDelay, 1), now.at), wake: make(chan struct{}, 1), ticks: now.ticks, returned: now,
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
// without Options.Rewards. It returns [ErrQueueFull] if 100,000 rewards wait already or, with Options.SendRate, if the next
// message to that node is full. Like every error of a reward, these are NOT private: do not show them to visitors.
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
	n.endRounds()
	if !n.forwarding.outbox.add(Message{To: to, Ticket: ticket, Reward: reward}, time.Now()) {
		n.metrics.Unsent++
		return ErrQueueFull
	}
	if n.slots == 0 {
		notify(n.forwarding.wake)
	}
	return nil
}

// endRounds ends the rounds of the outbox that are over. Node.mu is locked.
func (n *Node) endRounds() {
	f := &n.forwarding
	n.metrics.Unsent += f.outbox.rounds(f.alive, time.Now(), delaysUntilGone*n.delay)
}

// beats makes rounds at fixed times, until ctx is done. A round beats, then receives: when it has ended well, the rewards
// that others had sent before it began have arrived. Another goroutine sends. So neither beats nor the end of a round
// depend on whether rewards wait here, how many, or whether they can be sent: an outage cancels decisions, and so must
// not depend on rewards.
func (n *Node) beats(ctx context.Context, ended chan<- error) {
	ticker := time.NewTicker(max(n.delay/beatsPerDelay, 1))
	defer ticker.Stop()
	var failures, rewardFailures int
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		err, rewardErr := n.round(ctx)
		if ctx.Err() != nil {
			return
		}
		switch {
		case hasFailed(err), hasFailed(rewardErr):
			ended <- errors.Join(err, rewardErr)
			return
		case err != nil:
			failures++
			n.count(func(m *Metrics) { m.Errors++ })
			n.failed(err, failures)
		case rewardErr != nil:
			rewardFailures++
			n.rewardsFailed(rewardErr, rewardFailures)
		default:
			failures, rewardFailures = 0, 0
		}
	}
}

// sends sends the rewards that wait, until ctx is done: at once, or with Options.SendRate at the times of rounds. After an
// error it tries again at the time of the next round, however many rewards come.
func (n *Node) sends(ctx context.Context, ended chan<- error) {
	ticker := time.NewTicker(max(n.delay/beatsPerDelay, 1))
	defer ticker.Stop()
	for failures := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-n.forwarding.wake:
			if failures > 0 {
				continue
			}
		}
		switch err := n.inDelay(ctx, n.send); {
		case ctx.Err() != nil:
			return
		case hasFailed(err):
			ended <- err
			return
		case err != nil:
			failures++
			n.rewardsFailed(err, failures)
		default:
			failures = 0
		}
	}
}

// hasFailed reports whether an error ends Sync.
func hasFailed(err error) bool {
	return errors.Is(err, ErrReplaced) || errors.Is(err, dpb.ErrClosed) || errors.Is(err, dpb.ErrPoisoned)
}

// rewardsFailed records an error of the reward queue. Whether an error occurs can depend on whether there are rewards, so
// the count is for operators only.
func (n *Node) rewardsFailed(err error, failures int) {
	n.count(func(m *Metrics) { m.RewardErrors++ })
	n.failed(err, failures)
}

// inDelay does some work within a delay.
func (n *Node) inDelay(ctx context.Context, work func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, n.delay)
	defer cancel()
	return work(ctx)
}

// round beats and receives. The second error is of the reward queue.
func (n *Node) round(ctx context.Context) (err, rewardErr error) {
	began, err := n.now()
	if err == nil {
		err = n.inDelay(ctx, n.beat)
	}
	if err != nil {
		return err, nil
	}
	if rewardErr = n.inDelay(ctx, n.receive); rewardErr == nil {
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
// other nodes learn from the silence of clicks that this node cannot forward. Whether rewards can be sent does not matter
// here, because readiness is public: operators watch Metrics.RewardErrors. Without Options.Rewards it is always true.
func (n *Node) Ready() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.rewards == nil || time.Since(n.forwarding.returned.at) <= delaysUntilUnready*n.delay
}

// send sends the rewards that wait, with Options.SendRate those of the rounds that are over. After an error it sends the
// same rewards again at the next round: a reward counts once, because of its ticket. A node whose stream is broken keeps
// only its own rewards waiting.
func (n *Node) send(ctx context.Context) (failed error) {
	if n.rewards == nil {
		return nil
	}
	box := &n.forwarding.outbox
	n.mu.Lock()
	n.endRounds()
	nodes := box.waiting()
	n.mu.Unlock()
	for _, to := range nodes {
		n.mu.Lock()
		waiting := box.messages[to] // only this goroutine removes some
		n.mu.Unlock()
		for some := range slices.Chunk(waiting, batchSize) {
			messages := make([]Message, len(some))
			var err error
			for i := 0; i < len(some) && err == nil; i++ {
				messages[i], err = n.seal(some[i])
			}
			if err == nil {
				err = n.rewards.Send(ctx, messages)
			}
			if err != nil {
				failed = errors.Join(failed, err)
				break
			}
			n.mu.Lock()
			n.metrics.Sent += box.remove(to, len(some))
			n.mu.Unlock()
		}
	}
	return failed
}

// sendAll sends the rewards that still wait. With Options.SendRate it ends the round, and what still waits then is lost.
func (n *Node) sendAll(ctx context.Context) error {
	n.mu.Lock()
	if f := &n.forwarding; n.slots > 0 {
		n.metrics.Unsent += f.outbox.end(f.alive, time.Now())
	}
	n.mu.Unlock()
	for {
		if err := n.send(ctx); err != nil || n.slots > 0 || n.Metrics().Waiting == 0 {
			return err
		}
	}
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
