package fleet

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	dpb "github.com/libdpb/libdpb/bindings/go"
)

// Options.Delay: long for a machine with other things to do, and in a short test for one with few.
var delay = 300 * time.Millisecond

// lines is a log that a test reads.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) count(what string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), what)
}

// waiting is a node whose decisions wait for as many later ones as come in two delays, or for five delays.
func waiting(t *testing.T, address string, number uint16, clock dpb.Clock, log *lines) running {
	config := config(number)
	config.Clock, config.RewardWindow, config.RewardBits = clock, uint32(2*delay.Milliseconds()), 0
	if clock == dpb.ClockCaller {
		config.RewardWindow = uint32(5 * delay.Milliseconds())
	}
	return run(t, address, Options{
		Config: config, Interval: interval, Delay: delay, Logger: slog.New(slog.NewTextHandler(log, nil)),
	})
}

// visit has visitors come to all nodes, a decision a millisecond at each, so that a window is longer than two delays. Every
// other decision is clicked, at a random node. The clock, where it is ours, counts milliseconds.
func visit(t *testing.T, nodes []running, until func() bool) {
	t.Helper()
	for end := after(patience); !until(); {
		if end() {
			t.Fatal("never")
		}
		for _, node := range nodes {
			_ = node.Bandit.Advance(uint64(time.Now().UnixMilli())) // of no use to a clock of decisions
			ticket := must(node.Bandit.Select()).Ticket
			if rand.N(2) == 0 {
				_ = nodes[rand.N(len(nodes))].Answer(ticket, 1)
			}
		}
		time.Sleep(time.Millisecond)
	}
}

func after(d time.Duration) func() bool {
	end := time.Now().Add(d)
	return func() bool { return time.Now().After(end) }
}

// rate of all that a node has released of its own, and of how many.
func rate(node running) (mean, rewards float64) {
	for _, arm := range must(node.Bandit.Arms()) {
		if arm.EffectivePulls > 0 {
			rewards += arm.EffectivePulls
			mean += arm.Mean * arm.EffectivePulls
		}
	}
	return mean / rewards, rewards
}

// Redis hangs, dies, or is slow, for far longer than a window: no silence of that time is learned, the log and the
// metrics say so, and afterwards all learn again. What is released is a half, within six deviations of 2000 clicks and
// as many of the noise: .07.
func TestOutageTeachesNothing(t *testing.T) {
	faults := map[string]func(*server) (heal func()){
		"hangs": func(s *server) func() {
			check(s.process.Process.Signal(syscall.SIGSTOP))
			return func() { check(s.process.Process.Signal(syscall.SIGCONT)) }
		},
		"dies": func(s *server) func() {
			s.kill()
			return s.start
		},
		"is slow": func(s *server) func() {
			end, ended := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(ended)
				for {
					check(s.process.Process.Signal(syscall.SIGSTOP))
					stopped := after(5 * delay)
					for !stopped() {
						time.Sleep(time.Millisecond)
					}
					check(s.process.Process.Signal(syscall.SIGCONT))
					select {
					case <-end:
						return
					case <-time.After(delay / 20):
					}
				}
			}()
			return func() { close(end); <-ended }
		},
	}
	length := 30 * delay
	if testing.Short() {
		delete(faults, "dies")
		delete(faults, "is slow")
		length = 15 * delay
	}
	for name, fault := range faults {
		for clock, counts := range map[dpb.Clock]string{dpb.ClockDecisions: "decisions", dpb.ClockCaller: "time"} {
			t.Run(name+", "+counts, func(t *testing.T) {
				server := startRedis(t)
				var log lines
				var nodes []running
				for number := range uint16(4) {
					nodes = append(nodes, waiting(t, server.address, number+1, clock, &log))
				}
				all := func(is func(Metrics) bool) func() bool {
					return func() bool {
						for _, node := range nodes {
							if !is(node.Metrics()) {
								return false
							}
						}
						return true
					}
				}
				met := func(m Metrics) bool { return m.Nodes == 3 && m.Exchanges > 2 }
				visit(t, nodes, all(met))
				released := func() bool { _, n := rate(nodes[0]); return n > 500 }
				visit(t, nodes, released)
				heal := fault(server)
				visit(t, nodes, after(length))
				if !all(func(m Metrics) bool { return m.Outages > 0 })() || log.count("do not travel") < 4 {
					t.Error("nobody has noticed")
				}
				heal()
				visit(t, nodes, all(func(m Metrics) bool { return !m.Outage }))
				_, before := rate(nodes[0])
				visit(t, nodes, func() bool { _, n := rate(nodes[0]); return n > before+1000 })
				for _, node := range nodes {
					if mean, n := rate(node); math.Abs(mean-.5) > .07 || n < before+500 {
						t.Errorf("%v of %v, %v before; %+v", mean, n, before, node.Metrics())
					}
				}
				if log.count("travel again") < 4 {
					t.Error("the log does not say that it is over")
				}
			})
		}
	}
}

// One node is cut off: the others wait for what it may have, and learn again when it is gone for long, or ends. With one
// that is alone, all answers are its own.
func TestOneIsCutOff(t *testing.T) {
	if testing.Short() {
		t.Skip("waits until a node is gone")
	}
	server := startRedis(t)
	network := startProxy(t, server.address)
	var log lines
	one, two := waiting(t, server.address, 1, dpb.ClockDecisions, &log), waiting(t, network.address, 2, dpb.ClockDecisions, &log)
	nodes := []running{one, two}
	known := func() bool {
		one.mu.Lock()
		defer one.mu.Unlock()
		return len(one.answers.peers) == 1
	}
	// Who knows nobody waits for nobody.
	visit(t, nodes, func() bool {
		two.mu.Lock()
		defer two.mu.Unlock()
		return len(two.answers.peers) == 1
	})
	visit(t, nodes, known)
	network.sever(true)
	visit(t, nodes, func() bool { return one.Metrics().Outage && two.Metrics().Outage })
	began := time.Now()
	visit(t, nodes, func() bool { return !one.Metrics().Outage })
	if gone := time.Since(began); gone < 20*delay || log.count("a node is gone") != 1 {
		t.Error(gone, log.count("a node is gone"))
	}
	if !two.Metrics().Outage {
		t.Error("the one that is cut off trusts silence")
	}
	network.heal()
	visit(t, nodes, func() bool { return known() && !two.Metrics().Outage })
	if err := two.end(); !errors.Is(err, context.Canceled) { // it says that it ends
		t.Error(err)
	}
	visit(t, nodes[:1], after(5*delay))
	if one.Metrics().Outage {
		t.Error("waits for one that has ended")
	}
	server.kill()
	visit(t, nodes[:1], after(5*delay))
	if one.Metrics().Outage {
		t.Error("waits for answers of nobody")
	}
}

// Answers wait in a queue with an end; what it does not take is counted, and said.
func TestQueueIsFull(t *testing.T) {
	server := startRedis(t)
	a, b := runAt(t, server.address, 1, interval), runAt(t, server.address, 2, interval)
	eventually(t, "they have met", func() bool { return a.Metrics().Nodes == 1 })
	ticket := must(b.Bandit.Select()).Ticket
	server.kill()
	for range mostAnswers + 1 {
		if a.Answer(ticket, 1) != nil {
			break
		}
	}
	if err := a.Answer(ticket, 1); !errors.Is(err, ErrUnsent) {
		t.Error(err)
	}
	if m := a.Metrics(); m.Unsent != 2 || len(a.answers.outbox) > mostAnswers {
		t.Errorf("%+v", m)
	}
}

// stuck is a post that sends nothing until the test allows it.
type stuck struct {
	Post
	once             sync.Once
	sending, allowed chan struct{}
}

func (s *stuck) Send(_ context.Context, messages []Message) error {
	if slices.ContainsFunc(messages, func(m Message) bool { return m.Beat == 0 }) {
		s.once.Do(func() { close(s.sending) })
		<-s.allowed
	}
	return nil
}

// A visitor's answer is taken while the post is sending: nobody waits for the store.
func TestAnswersDoNotWaitForThePost(t *testing.T) {
	server := startRedis(t)
	store := storeAt(server.address)
	t.Cleanup(func() { store.Close() })
	post := &stuck{Post: store, sending: make(chan struct{}), allowed: make(chan struct{})}
	node := run(t, server.address, Options{Post: post, Config: config(1), Interval: interval})
	defer close(post.allowed)
	other := runAt(t, server.address, 2, interval)
	eventually(t, "they have met", func() bool { return node.Metrics().Nodes == 1 })
	ticket := must(other.Bandit.Select()).Ticket
	check(node.Answer(ticket, 1))
	<-post.sending
	for range 1000 {
		check(node.Answer(ticket, 1))
	}
}

// heard counts what a node sends itself and tells the others.
type heard struct {
	Store
	beats, said int
}

func (h *heard) Say(_ context.Context, hint Hint) error {
	if hint.Event == Beats {
		h.said++
	}
	return nil
}

func (h *heard) Send(_ context.Context, messages []Message) error {
	for _, m := range messages {
		if m.Beat != 0 {
			h.beats++
		}
	}
	return nil
}

func (h *heard) Receive(context.Context, uint16, func(Message)) error { return nil }

// An outage must not depend on rewards: a node beats, and tells the others, however many rewards wait, also where the
// queue was full.
func TestBeatsDoNotDependOnRewards(t *testing.T) {
	server := startRedis(t)
	for i, waiting := range []int{0, 1, many, many + 1, mostAnswers, mostAnswers + 1} {
		store := storeAt(server.address)
		t.Cleanup(func() { store.Close() })
		post := &heard{Store: store}
		options := Options{Store: post, Post: post, Config: config(uint16(i + 1)), Interval: interval, Delay: time.Hour}
		node := must(Join(context.Background(), options))
		t.Cleanup(func() { node.Bandit.Close() })
		node.nodes[100] = nil // was seen
		for range waiting {
			_ = node.Answer(100<<48|7, 1) // the last one may find the queue full
		}
		check(node.send(context.Background(), true))
		if post.beats != 1 || post.said != 1 {
			t.Errorf("%d rewards wait: %d beats, %d heard", waiting, post.beats, post.said)
		}
	}
}

// failing is a post that cannot forget.
type failing struct{ Post }

func (f failing) Receive(ctx context.Context, node uint16, take func(Message)) error {
	return errors.Join(f.Post.Receive(ctx, node, take), errors.New("not forgotten"))
}

// An error that may come only where answers have come is nobody's but the operator's.
func TestErrorsOfThePostAreTheOperators(t *testing.T) {
	server := startRedis(t)
	store := storeAt(server.address)
	t.Cleanup(func() { store.Close() })
	node := run(t, server.address, Options{Post: failing{store}, Config: config(1), Interval: interval})
	eventually(t, "errors, and exchanges", func() bool { m := node.Metrics(); return m.PostErrors > 2 && m.Exchanges > 2 })
	if m := node.Metrics(); m.Errors != 0 {
		t.Errorf("%+v", m)
	}
}

// Two bandits under one name: each says so once.
func TestStrangersAreNamed(t *testing.T) {
	server := startRedis(t)
	other := config(2)
	other.Epsilon = 2
	var log lines
	options := Options{Interval: interval, Logger: slog.New(slog.NewTextHandler(&log, nil))}
	var nodes []running
	for _, config := range []Options{{Config: config(1)}, {Config: other}} {
		options.Config = config.Config
		nodes = append(nodes, run(t, server.address, options))
	}
	for _, node := range nodes {
		seen := node.Metrics().Exchanges
		eventually(t, "more exchanges", func() bool { play(node.Bandit, 10); return node.Metrics().Exchanges > seen+3 })
		if m := node.Metrics(); m.Strangers != 1 {
			t.Errorf("%+v", m)
		}
	}
	if n := log.count("a stranger has this bandit's name"); n != 2 || log.count("epsilon must be") != 2 {
		t.Error(log.text.String())
	}
}
