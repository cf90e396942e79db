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
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	dpb "github.com/libdpb/libdpb/bindings/go"
)

// Options.Delay, long enough for a busy machine. In short mode TestMain makes it shorter.
var delay = 300 * time.Millisecond

// lines is a log that a test can read.
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

// runWithWindow runs a node with a reward window: the number of decisions that visit makes in two delays, or five
// delays with a clock of time.
func runWithWindow(t *testing.T, address string, number uint16, clock dpb.Clock, log *lines) running {
	config := config(number)
	config.Clock, config.RewardWindow, config.RewardBits = clock, uint32(2*delay.Milliseconds()), 0
	if clock == dpb.ClockCaller {
		config.RewardWindow = uint32(5 * delay.Milliseconds())
	}
	return run(t, address, Options{
		Config: config, Interval: interval, Delay: delay, Logger: slog.New(slog.NewTextHandler(log, nil)),
	})
}

// visit makes a decision at each node each millisecond, so that a window is longer than two delays. Half of the
// decisions get a click, which arrives at a random node. A clock of time counts milliseconds.
func visit(t *testing.T, nodes []running, until func() bool) {
	t.Helper()
	for timeout := after(testTimeout); !until(); {
		if timeout() {
			t.Fatal("timeout")
		}
		for _, node := range nodes {
			_ = node.Bandit.Advance(uint64(time.Now().UnixMilli())) // ErrUnsupported with ClockDecisions
			ticket := must(node.Bandit.Select()).Ticket
			if rand.N(2) == 0 {
				_ = nodes[rand.N(len(nodes))].Update(ticket, 1)
			}
		}
		time.Sleep(time.Millisecond)
	}
}

func after(d time.Duration) func() bool {
	end := time.Now().Add(d)
	return func() bool { return time.Now().After(end) }
}

// rate returns the mean of all releases that a node knows, and the number of rewards in them.
func rate(node running) (mean, rewards float64) {
	for _, arm := range must(node.Bandit.Arms()) {
		if arm.EffectivePulls > 0 {
			rewards += arm.EffectivePulls
			mean += arm.Mean * arm.EffectivePulls
		}
	}
	return mean / rewards, rewards
}

// Redis hangs, dies or is slow for far longer than a window. The nodes do not learn from the silence of that time,
// the log and the metrics report the outage, and afterwards all nodes learn again. The released mean is a half within
// .07: six deviations of 2000 clicks and six of the noise.
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
					nodes = append(nodes, runWithWindow(t, server.address, number+1, clock, &log))
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
				noticed := all(func(m Metrics) bool { return m.Outages > 0 })
				if !noticed() || log.count("rewards do not arrive in time") < 4 {
					t.Error("no node reports the outage")
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
				if log.count("rewards arrive in time again") < 4 {
					t.Error("the log does not report the end of the outage")
				}
			})
		}
	}
}

// A node is cut off. The other node waits for rewards that it may hold, and learns again when the node is gone, or
// has left. A node that is alone receives all rewards itself.
func TestOneNodeIsCutOff(t *testing.T) {
	if testing.Short() {
		t.Skip("waits until a node is gone")
	}
	server := startRedis(t)
	network := startProxy(t, server.address)
	var log lines
	one := runWithWindow(t, server.address, 1, dpb.ClockDecisions, &log)
	two := runWithWindow(t, network.address, 2, dpb.ClockDecisions, &log)
	nodes := []running{one, two}
	known := func() bool { return one.Metrics().Nodes == 1 }
	visit(t, nodes, known)
	network.sever(true)
	visit(t, nodes, func() bool { return one.Metrics().Outage && two.Metrics().Outage })
	began := time.Now()
	visit(t, nodes, func() bool { return !one.Metrics().Outage })
	if gone := time.Since(began); gone < 20*delay || log.count("a node is gone") != 1 {
		t.Error(gone, log.count("a node is gone"))
	}
	if !two.Metrics().Outage {
		t.Error("the node that is cut off learns from silence")
	}
	network.heal()
	visit(t, nodes, func() bool { return known() && !two.Metrics().Outage })
	if err := two.end(); !planned(err) { // it notifies that it leaves
		t.Error(err)
	}
	visit(t, nodes[:1], after(5*delay))
	if one.Metrics().Outage {
		t.Error("it waits for a node that has left")
	}
	server.kill()
	visit(t, nodes[:1], after(5*delay))
	if one.Metrics().Outage {
		t.Error("it waits for rewards, but there is no other node")
	}
}

// The queue of rewards is bounded. A reward that finds it full is counted, and Update returns an error.
func TestQueueIsFull(t *testing.T) {
	server := startRedis(t)
	a, b := runAt(t, server.address, 1, interval), runAt(t, server.address, 2, interval)
	eventually(t, "they have met", func() bool { return a.Metrics().Nodes == 1 })
	ticket := must(b.Bandit.Select()).Ticket
	server.kill()
	for range maxRewards + 1 {
		if a.Update(ticket, 1) != nil {
			break
		}
	}
	if err := a.Update(ticket, 1); !errors.Is(err, ErrQueueFull) {
		t.Error(err)
	}
	if m := a.Metrics(); m.Unsent != 2 || m.Waiting != maxRewards {
		t.Errorf("%+v", m)
	}
}

// stuck is a queue that does not send rewards until the test allows it.
type stuck struct {
	RewardQueue
	once             sync.Once
	sending, allowed chan struct{}
}

func (s *stuck) Send(context.Context, []Message) error {
	s.once.Do(func() { close(s.sending) })
	<-s.allowed
	return nil
}

// Update accepts a reward while the queue is sending: it does not wait for the store.
func TestUpdateDoesNotWaitForTheStore(t *testing.T) {
	server := startRedis(t)
	store := storeAt(server.address)
	t.Cleanup(func() { store.Close() })
	queue := &stuck{RewardQueue: store, sending: make(chan struct{}), allowed: make(chan struct{})}
	node := run(t, server.address, Options{Rewards: queue, Config: config(1), Interval: interval})
	defer close(queue.allowed)
	other := runAt(t, server.address, 2, interval)
	eventually(t, "they have met", func() bool { return node.Metrics().Nodes == 1 })
	ticket := must(other.Bandit.Select()).Ticket
	check(node.Update(ticket, 1))
	<-queue.sending
	for range 1000 {
		check(node.Update(ticket, 1))
	}
}

// counter counts beats.
type counter struct {
	*memory
	beats atomic.Int64
}

func (c *counter) Beat(ctx context.Context, member Member, beat Beat) (Pulse, error) {
	c.beats.Add(1)
	return c.memory.Beat(ctx, member, beat)
}

// unsent is a queue that fails to send, or does not end to before the test does.
type unsent struct {
	*counter
	hangs bool
	end   chan struct{}
	calls atomic.Int64
}

func (u *unsent) Send(context.Context, []Message) error {
	if u.calls.Add(1); u.hangs {
		<-u.end
	}
	return errors.New("WRONGTYPE")
}

// An outage must not depend on rewards. A node beats, and its rounds end well, also while a reward waits that cannot be
// sent.
func TestBeatsDoNotDependOnRewards(t *testing.T) {
	for _, hangs := range []bool{false, true} {
		store := &unsent{counter: &counter{memory: newMemory()}, hangs: hangs, end: make(chan struct{})}
		must(store.Take(context.Background(), 100, 1, time.Hour))
		node := run(t, "", Options{
			Store: store, Rewards: store, Contributions: store, Config: config(1), Interval: time.Hour,
			Delay: 80 * time.Millisecond, Logger: slog.New(slog.DiscardHandler),
		})
		check(node.Update(100<<48|7, 1))
		eventually(t, "it tries to send", func() bool { return store.calls.Load() >= 3 || hangs && store.calls.Load() == 1 })
		began, beats := time.Now(), store.beats.Load()
		eventually(t, "it beats", func() bool { return store.beats.Load() > beats+20 })
		eventually(t, "a round ends well", func() bool {
			node.mu.Lock()
			defer node.mu.Unlock()
			return node.forwarding.returned.at.After(began)
		})
		if m := node.Metrics(); m.Waiting != 1 || m.Sent != 0 || m.Errors != 0 {
			t.Errorf("%+v", m)
		}
		close(store.end)
	}
}

// The stream of a node is broken. Rewards for others travel, and those for this node do when it is mended.
func TestABrokenStreamHoldsUpNoOthers(t *testing.T) {
	server := startRedis(t)
	client := server.client()
	defer client.Close()
	var nodes []running
	for number := range uint16(3) {
		nodes = append(nodes, runAt(t, server.address, number+1, interval))
	}
	eventually(t, "they have met", func() bool {
		return !slices.ContainsFunc(nodes, func(n running) bool { return n.Metrics().Nodes != 2 })
	})
	stream := nodes[0].rewards.(*Redis).stream(2)
	check(client.Set(context.Background(), stream, "broken", 0).Err())
	for range batchSize + 1 {
		check(nodes[0].Update(must(nodes[1].Bandit.Select()).Ticket, 1))
		check(nodes[0].Update(must(nodes[2].Bandit.Select()).Ticket, 1))
	}
	eventually(t, "the others have arrived", func() bool { return nodes[2].Metrics().Received == batchSize+1 })
	if m := nodes[0].Metrics(); m.Waiting != batchSize+1 {
		t.Errorf("%+v", m)
	}
	check(client.Del(context.Background(), stream).Err())
	eventually(t, "all have arrived", func() bool { return nodes[1].Metrics().Received == batchSize+1 })
}

// failing is a queue that cannot delete messages.
type failing struct{ broken }

func (f *failing) Receive(context.Context, Member, func(Message)) error {
	return errors.New("not deleted")
}

// Errors of the reward queue, which can depend on rewards, are not in the public count of errors.
func TestErrorsOfTheRewardQueueAreForOperators(t *testing.T) {
	store := &failing{broken{memory: newMemory()}}
	node := must(Join(context.Background(), Options{Store: store, Rewards: store, Config: config(1), Interval: interval}))
	defer node.Bandit.Close()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- node.Sync(ctx) }()
	eventually(t, "errors, and exchanges", func() bool {
		m := node.Metrics()
		return m.RewardErrors > 2 && m.Exchanges > 2
	})
	cancel()
	if err := <-done; err != nil || node.Metrics().Errors != 0 {
		t.Errorf("%v, %+v", err, node.Metrics())
	}
}

// Two different bandits have one name: each node logs the other once.
func TestIncompatibleNodesAreLogged(t *testing.T) {
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
		if m := node.Metrics(); m.Incompatible != 1 {
			t.Errorf("%+v", m)
		}
	}
	if n := log.count("is incompatible"); n != 2 || log.count("Epsilon must be") != 2 {
		t.Error(log.text.String())
	}
}

// broken is a store and a queue that fail on demand.
type broken struct {
	*memory
	fails          atomic.Bool
	puts, receipts atomic.Int64 // that worked
}

func (b *broken) try(worked *atomic.Int64) error {
	if b.fails.Load() {
		return errors.New("READONLY You can't write against a read only replica.")
	}
	worked.Add(1)
	return nil
}

func (b *broken) Put(context.Context, Member, Snapshot, bool) (bool, error) {
	return true, b.try(&b.puts)
}

func (b *broken) Receive(context.Context, Member, func(Message)) error {
	return b.try(&b.receipts)
}

// The log has the reason for which the store fails: once for exchanges and once for rewards, until each has worked again. A planned end is no error.
func TestErrorsOfTheStoreAreLogged(t *testing.T) {
	t.Parallel()
	var log lines
	store := &broken{memory: newMemory()}
	node := must(Join(context.Background(), Options{
		Store: store, Rewards: store, Config: config(1), Interval: 10 * time.Millisecond, Delay: 10 * time.Millisecond,
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
	}))
	defer node.Bandit.Close()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- node.Sync(ctx) }()
	for fault := 1; fault <= 3; fault++ {
		for _, worked := range []*atomic.Int64{&store.puts, &store.receipts} {
			before := worked.Load()
			eventually(t, "it works", func() bool { return worked.Load() > before+2 })
		}
		store.fails.Store(true)
		logged := func() bool { return log.count("the store fails") == 2*fault && log.count("READONLY") == 2*fault }
		eventually(t, "the errors are in the log", logged)
		seen := node.Metrics()
		eventually(t, "more errors", func() bool {
			m := node.Metrics()
			return m.Errors > seen.Errors+10 && m.RewardErrors > seen.RewardErrors+10
		})
		if !logged() {
			t.Error(log.text.String())
		}
		store.fails.Store(false)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if log.count("the store fails") != 6 {
		t.Error(log.text.String())
	}
}
