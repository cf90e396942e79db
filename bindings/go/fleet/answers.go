package fleet

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	dpb "github.com/libdpb/libdpb/bindings/go"
)

// ErrUnsent: too many answers wait for the store. This one is lost.
var ErrUnsent = errors.New("fleet: too many answers wait for the store")

const (
	// Messages that are sent at once.
	many = 1000
	// A node beats so often in a delay, and is gone when nothing was heard of it for so many.
	beatsInDelay, delaysUntilGone = 8, 30
)

// seen says when something was: the time, and the ticks of the bandit's clock.
type seen struct {
	at    time.Time
	ticks uint64
}

// older: by more than these?
func (s seen) older(now seen, delay time.Duration, ticks uint64) bool {
	return now.at.Sub(s.at) > delay && now.ticks-s.ticks > ticks
}

// now reads the bandit's clock.
func (n *Node) now() (seen, error) {
	now := seen{at: time.Now()}
	if n.tick > 0 {
		now.ticks = uint64(now.at.Sub(n.began) / n.tick)
		return now, nil
	}
	report, err := n.Bandit.Report()
	now.ticks = report.Decisions
	return now, err
}

// answers is what a node knows of those that travel. Under Node.mu.
type answers struct {
	outbox []Message
	wake   chan struct{} // something is in it
	ticks  uint64        // not long ago

	beats     uint64          // the number of the last beat to ourselves
	awaited   *seen           // when it was sent; nil: it is back
	own       seen            // when the last one was sent that came back
	connected time.Time       // since then they come back
	peers     map[uint16]seen // the last beat of each other that was heard
	outage    bool
}

func (n *Node) prepare() error {
	now, err := n.now()
	n.answers = answers{
		wake: make(chan struct{}, 1), ticks: now.ticks, own: now, connected: now.at,
		beats: rand.Uint64() >> 1, peers: map[uint16]seen{},
	}
	return err
}

// Answer gives an answer to the node that has decided: to this one's bandit at once, or by post, in the background:
// it never waits for the store. [dpb.ErrUnknownTicket] where no such node was seen, which is nobody's but the caller's
// business; [ErrUnsent] where 100,000 wait already.
func (n *Node) Answer(ticket uint64, reward float64) error {
	to := dpb.TicketNode(ticket)
	if to == n.number {
		return n.Bandit.Update(ticket, reward)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, seen := n.nodes[to]; n.post == nil || !seen {
		return dpb.ErrUnknownTicket // who makes up tickets makes no streams
	}
	a := &n.answers
	if len(a.outbox) >= mostAnswers {
		n.metrics.Unsent++
		return ErrUnsent
	}
	a.outbox = append(a.outbox, Message{To: to, Ticket: ticket, Reward: reward})
	select {
	case a.wake <- struct{}{}:
	default:
	}
	return nil
}

// deliver sends what waits, and beats.
func (n *Node) deliver(ctx context.Context) {
	ticker := time.NewTicker(max(n.delay/beatsInDelay, 1))
	defer ticker.Stop()
	for failures := 0; ; {
		beat := false
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			beat = true
		case <-n.answers.wake:
		}
		once, cancel := context.WithTimeout(ctx, n.delay)
		err := n.send(once, beat)
		cancel()
		if err == nil {
			failures = 0
		} else {
			failures++
			n.failed(ctx, err, failures)
		}
	}
}

// send sends up to 1000 of the rewards that wait. What fails is sent again, and counts once by its ticket. Beats depend
// on the time alone, never on how many rewards wait, because an outage must not depend on rewards.
func (n *Node) send(ctx context.Context, beat bool) error {
	n.mu.Lock()
	a := &n.answers
	now := seen{time.Now(), a.ticks}
	some := slices.Clone(a.outbox[:min(len(a.outbox), many)])
	count := len(some)
	well := now.at.Sub(a.own.at) <= n.delay
	if beat && (a.awaited == nil || now.at.Sub(a.awaited.at) > n.delay) {
		a.beats++
		a.awaited = &now
		some = append(some, Message{To: n.number, Beat: a.beats})
	}
	n.mu.Unlock()
	var err error
	for i := 0; i < len(some) && n.relay != nil && err == nil; i++ {
		if some[i].Beat == 0 {
			some[i], err = n.seal(some[i])
		}
	}
	if len(some) > 0 && err == nil {
		err = n.post.Send(ctx, some)
	}
	if err == nil && beat && well {
		err = n.store.Say(ctx, Hint{n.number, Beats})
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if err == nil {
		a.outbox = a.outbox[count:]
		n.metrics.Sent += uint64(count)
	}
	if len(a.outbox) > 0 {
		select {
		case a.wake <- struct{}{}:
		default:
		}
	}
	return err
}

// finish sends what still waits, and says that there will be no more.
func (n *Node) finish(ctx context.Context) error {
	for n.post != nil && len(n.answers.outbox) > 0 {
		if err := n.send(ctx, false); err != nil {
			return err
		}
	}
	return n.store.Say(ctx, Hint{n.number, Ends})
}

// receive takes answers from the post. One that comes twice is refused by its ticket.
func (n *Node) receive(ctx context.Context) {
	take := func(m Message) {
		var err error
		if m.Beat == 0 {
			if m, err = n.open(m); err == nil {
				err = n.Bandit.Update(m.Ticket, m.Reward)
			}
		}
		n.count(func(metrics *Metrics) {
			a := &n.answers
			switch {
			case m.Beat != 0: // one of an earlier life has another number
				if m.Beat == a.beats && a.awaited != nil {
					a.own, a.awaited = *a.awaited, nil
				}
			case err == nil:
				metrics.Received++
			default:
				metrics.Refused++
			}
		})
	}
	for failures := 0; ctx.Err() == nil; {
		once, cancel := context.WithTimeout(ctx, n.interval+time.Second)
		err := n.post.Receive(once, n.number, take)
		cancel()
		if err == nil || ctx.Err() != nil {
			failures = 0
			continue
		}
		failures++
		n.failed(ctx, err, failures)
	}
}

// failed counts an error of the post, and waits before the next try. Whether there is one may depend on whether there
// are answers: the count is the operator's.
func (n *Node) failed(ctx context.Context, err error, failures int) {
	if ctx.Err() != nil {
		return
	}
	n.count(func(m *Metrics) { m.PostErrors++; m.LastError = err })
	select {
	case <-ctx.Done():
	case <-time.After(pause(n.interval, failures)):
	}
}

// listen tells Sync who has put, and remembers who beats. Beats of strangers are nothing to us.
func (n *Node) listen(hints <-chan Hint, puts chan<- uint16) {
	defer close(puts)
	for hint := range hints {
		if hint.Event == Put {
			select {
			case puts <- hint.Node:
			default: // the next exchange finds it
			}
			continue
		}
		n.count(func(*Metrics) {
			a := &n.answers
			if err, met := n.nodes[hint.Node]; hint.Event == Beats && met && err == nil {
				a.peers[hint.Node] = seen{time.Now(), a.ticks}
			} else if hint.Event == Ends {
				delete(a.peers, hint.Node)
			}
		})
	}
}

// judge cancels what is open for as long as answers cannot travel, and once more. Whether they can it asks beats alone,
// which go whether there are answers or not.
func (n *Node) judge(ctx context.Context) {
	if n.window == 0 || !n.judges {
		return // silence is no answer, or never for want of a way
	}
	ticker := time.NewTicker(max(n.delay/beatsInDelay, 1))
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now, err := n.now()
		if err != nil {
			return // Sync says why
		}
		n.mu.Lock()
		a := &n.answers
		a.ticks = now.ticks
		late, who := n.late(now)
		was := a.outage
		a.outage = late
		if late && !was {
			n.metrics.Outages++
		}
		n.metrics.Outage = late
		n.mu.Unlock()
		switch {
		case late && !was:
			n.log.Warn("fleet: answers do not travel: open decisions are cancelled until they do", "node", n.number, "from", who)
		case was && !late:
			n.log.Warn("fleet: answers travel again: decisions are learned from", "node", n.number)
		}
		if late || was {
			if err := n.Bandit.CancelAll(); err != nil {
				return
			}
		}
	}
}

// late: do answers not travel, and from which node? 0: from all.
func (n *Node) late(now seen) (bool, uint16) {
	a := &n.answers
	cutOff := a.own.older(now, n.delay, n.window/8)
	if cutOff {
		a.connected = now.at
	}
	late, who := cutOff, uint16(0)
	for node, last := range a.peers {
		since := last
		if a.connected.After(since.at) {
			since.at = a.connected
		}
		if since.older(now, delaysUntilGone*n.delay, n.window) {
			delete(a.peers, node)
			n.log.Warn("fleet: a node is gone: its answers are waited for no longer", "node", n.number, "gone", node)
		} else if !late && last.older(now, n.delay, n.window/8) {
			late, who = true, node
		}
	}
	return late && len(a.peers) > 0, who // without others nobody has answers for us
}
