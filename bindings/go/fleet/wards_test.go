package fleet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"testing"
	"time"

	dpb "github.com/libdpb/libdpb/bindings/go"
)

// wards is a fleet in which a test makes each step. Node 1 leads.
type wards struct {
	t      *testing.T
	memory *memory
	nodes  []*Node
	change func(*Options)
	log    lines
}

var errKilled = errors.New("killed")

func newWards(t *testing.T, count int, change func(*Options)) *wards {
	w := &wards{t: t, memory: newMemory(), change: change}
	for number := range count {
		w.join(uint16(number + 1))
	}
	w.exchange()
	return w
}

func (w *wards) join(number uint16) *Node {
	options := Options{
		Store: w.memory, Rewards: w.memory, Contributions: w.memory, Config: keyed(number, 1), Interval: time.Hour,
		Logger: slog.New(slog.NewTextHandler(&w.log, nil)),
	}
	options.Config.Epsilon = 1e4 // so that sums show
	if w.change != nil {
		w.change(&options)
	}
	node := must(Join(context.Background(), options))
	w.t.Cleanup(func() { node.Bandit.Close() })
	w.nodes = append(w.nodes, node)
	return node
}

// exchange makes all nodes send, beat, receive, adopt and exchange, twice: the leader then knows what came in the first turn.
func (w *wards) exchange() {
	w.t.Helper()
	for range 2 {
		for _, node := range w.nodes {
			check(node.send(context.Background()))
			err, rewardErr := node.round(context.Background())
			for _, err := range []error{err, rewardErr, node.adopt(context.Background()), node.exchange(context.Background())} {
				if err != nil {
					w.t.Error(node.Number(), err)
				}
			}
		}
	}
}

// end ends a node as Sync does, and returns the node that continues with its decisions.
func (w *wards) end(node *Node) *Node {
	w.t.Helper()
	w.leave(node)
	if err := endNow(node); err != nil {
		w.t.Error(err)
	}
	w.exchange()
	var host *Node
	for _, other := range w.nodes {
		if other.Metrics().Wards > 0 {
			host = other
		}
	}
	return host
}

func (w *wards) leave(node *Node) {
	for i, other := range w.nodes {
		if other == node {
			w.nodes = append(w.nodes[:i:i], w.nodes[i+1:]...)
		}
	}
}

func endNow(node *Node) error {
	ctx := context.Background()
	node.ending = true
	return errors.Join(node.updateWards(ctx), node.share(ctx), node.put(ctx), node.sendAll(ctx), node.handOver(ctx))
}

// decide makes decisions, and returns their tickets.
func decide(node *Node, count int) (tickets []uint64) {
	for range count {
		tickets = append(tickets, must(node.Bandit.Select()).Ticket)
	}
	return tickets
}

// click reports each reward to all nodes.
func (w *wards) click(tickets []uint64) {
	for _, ticket := range tickets {
		for _, node := range w.nodes {
			_ = node.Update(ticket, 1)
		}
	}
}

// pass lets the ticks of a window pass at each node.
func (w *wards) pass(ticks int) {
	for _, node := range w.nodes {
		for range ticks {
			check(node.Bandit.Cancel(decide(node, 1)[0]))
		}
	}
}

// count returns how many rewards the leader has released and collected, and their sum.
func (w *wards) count() (rewards, sum float64) {
	w.exchange()
	rewards, sum = collected(w.nodes[0].Bandit, w.nodes[0].config)
	for _, arm := range must(w.nodes[0].Bandit.Arms()) {
		if arm.EffectivePulls > 0 {
			rewards, sum = rewards+arm.EffectivePulls, sum+arm.EffectivePulls*arm.Mean
		}
	}
	return rewards, sum
}

// is checks how many rewards count, and how many of them are clicks.
func (w *wards) is(rewards, clicks int) {
	w.t.Helper()
	counted, sum := w.count()
	if math.Abs(counted-float64(rewards)) > 1e-3 || math.Abs(sum-float64(clicks)) > .1 {
		w.t.Errorf("%v rewards and %v clicks count, and not %d and %d", counted, sum, rewards, clicks)
	}
}

// Each reward of a decision that was open in a node that has ended counts once: those that had come, those that come, and
// none that comes twice or too late.
func TestWardLearns(t *testing.T) {
	const window = 1000
	for what, change := range map[string]func(*Options){
		"no window": nil,
		"decisions": func(o *Options) { o.Config.RewardWindow = window },
		"time":      func(o *Options) { o.Config.RewardWindow, o.Config.Clock = window, dpb.ClockCaller },
	} {
		t.Run(what, func(t *testing.T) {
			w := newWards(t, 3, change)
			tickets := decide(w.nodes[1], 60)
			w.click(tickets[:20])
			host := w.end(w.nodes[1])
			if host == nil {
				t.Fatal("nobody continues")
			}
			w.click(tickets[10:40])
			w.exchange()
			w.click(tickets[30:40])
			if change == nil {
				w.click(tickets[40:])
				w.is(60, 60)
			} else {
				w.click(tickets[40:50]) // in time, and read when the window is over
				if what == "time" {
					host.started = host.started.Add(-window * time.Millisecond) // so much time passes
				} else {
					w.pass(window)
				}
				w.exchange()
				w.click(tickets[50:]) // too late
				w.is(60, 50)
			}
			if host.Metrics().Wards != 0 {
				t.Errorf("the ward has not ended: %+v", host.Metrics())
			}
			if next := w.join(0); next.Number() != 2 {
				t.Error("its number is", next.Number())
			}
		})
	}
}

// A ward moves on if its host ends, and ends with the last node.
func TestWardMovesOn(t *testing.T) {
	w := newWards(t, 6, nil)
	tickets := decide(w.nodes[5], 50)
	open := decide(w.nodes[4], 30)
	node := w.nodes[5]
	for moves := 0; len(w.nodes) > 2; moves++ {
		w.click(tickets[10*moves : 10*moves+5])
		if node = w.end(node); node == nil {
			t.Fatal("nobody continues")
		}
		w.click(tickets[10*moves+5 : 10*moves+10])
		w.exchange()
		if node == w.nodes[0] { // the leader stays
			node = w.nodes[1]
		}
	}
	w.click(tickets)
	w.click(open)
	w.is(80, 80)
	alone := newWards(t, 1, nil)
	decide(alone.nodes[0], 5)
	check(endNow(alone.nodes[0]))
	if report := must(alone.nodes[0].Bandit.Report()); report.Pending != 5 || len(alone.memory.states) > 0 {
		t.Errorf("%+v", report)
	}
	if next := alone.join(0); next.Number() != 1 {
		t.Error(next.Number())
	}
}

// A process that takes the number of a ward gets the ward, and loses no reward that came to it before. Its end leaves both.
func TestWardGoesToItsNumber(t *testing.T) {
	w := newWards(t, 3, nil)
	tickets := decide(w.nodes[2], 40)
	if w.end(w.nodes[2]) == nil {
		t.Fatal("nobody continues")
	}
	w.click(tickets[:5])
	next := w.join(3)
	w.click(tickets[5:10])
	check(next.receive(context.Background()))
	w.exchange()
	if next.Metrics().Wards != 1 || w.nodes[0].Metrics().Wards+w.nodes[1].Metrics().Wards != 0 {
		t.Errorf("%+v", next.Metrics())
	}
	w.click(tickets[10:20])
	w.exchange()
	more := decide(next, 40)
	host := w.end(next)
	if host == nil || host.Metrics().Wards != 2 {
		t.Errorf("%+v", host)
	}
	w.click(tickets[20:30])
	w.click(more)
	w.exchange()
	third := w.join(3)
	w.exchange()
	if third.Metrics().Wards != 1 { // the other one has nothing open
		t.Errorf("%+v", third.Metrics())
	}
	w.click(tickets[10:]) // the first ten came before it had the ward
	w.is(80, 80)
}

// dying is a store that a process reaches only for so many calls: then it is killed.
type dying struct {
	*memory
	calls int
	names *[]string
}

func (d *dying) dies(name string) bool {
	if d.names != nil {
		*d.names = append(*d.names, name)
	}
	d.calls--
	return d.calls < 0
}

func (d *dying) Offer(ctx context.Context, m Member, receivers []uint64, withdraw bool) ([]uint64, error) {
	if d.dies("Offer") {
		return nil, errKilled
	}
	return d.memory.Offer(ctx, m, receivers, withdraw)
}

func (d *dying) Host(ctx context.Context, number uint16) (uint16, uint64, error) {
	if d.dies("Host") {
		return 0, 0, errKilled
	}
	return d.memory.Host(ctx, number)
}

func (d *dying) Entrust(ctx context.Context, m Member, node uint16, receiver uint64, state []byte, lease time.Duration) error {
	if d.dies("Entrust") {
		return errKilled
	}
	return d.memory.Entrust(ctx, m, node, receiver, state, lease)
}

func (d *dying) Adopt(ctx context.Context, m Member, lease time.Duration) (*State, error) {
	if d.dies("Adopt") {
		return nil, errKilled
	}
	return d.memory.Adopt(ctx, m, lease)
}

func (d *dying) Hold(ctx context.Context, m Member, lease time.Duration) error {
	if d.dies("Hold") {
		return errKilled
	}
	return d.memory.Hold(ctx, m, lease)
}

func (d *dying) Contribute(ctx context.Context, m Member, generation uint64, contribution []byte) error {
	if d.dies("Contribute") {
		return errKilled
	}
	return d.memory.Contribute(ctx, m, generation, contribution)
}

func (d *dying) Leave(ctx context.Context, m Member) error {
	if d.dies("Leave") {
		return errKilled
	}
	return d.memory.Leave(ctx, m)
}

// A process that ends, and a process that continues with its decisions, are killed before each of their calls to the store.
// No reward counts twice, and if nobody is killed none is lost.
func TestWardsOfKilledProcesses(t *testing.T) {
	for _, killsHost := range []bool{false, true} {
		steps := 0
		for calls := 0; calls <= steps; calls++ {
			w := newWards(t, 3, nil)
			old, host := w.nodes[1], w.nodes[2]
			w.memory.offers[1] = offers{incarnation: 1} // so that node 3 continues
			tickets := decide(old, 40)
			w.click(tickets[:10])
			var names []string
			victim := old
			if killsHost {
				victim = host
			}
			killer := &dying{w.memory, calls, &names}
			if steps == 0 {
				killer.calls = math.MaxInt
			}
			w.leave(old)
			if !killsHost {
				victim.store, victim.contributions = killer, killer
			}
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			old.ending = true
			for _, work := range []func(context.Context) error{old.updateWards, old.share, old.put, old.sendAll} {
				_ = work(ctx)
			}
			if killer.calls < 0 && !killsHost {
				cancel() // nothing more happens in it
			}
			_ = old.handOver(ctx)
			cancel()
			w.leave(host)
			if killsHost {
				victim.store, victim.contributions = killer, killer
			}
			for range 3 {
				w.click(tickets[10:20])
				_ = host.beat(context.Background())
				if !killsHost || killer.calls >= 0 {
					if err := host.adopt(context.Background()); err == nil {
						_ = host.exchange(context.Background())
					}
				}
			}
			w.click(tickets[20:])
			for range 3 {
				for _, node := range w.nodes {
					_ = node.send(context.Background())
					_, _ = node.round(context.Background())
				}
				if !killsHost || killer.calls >= 0 {
					_ = host.exchange(context.Background())
				}
			}
			if !killsHost {
				w.nodes = append(w.nodes, host)
			}
			counted, clicks := w.count()
			if counted > 40+1e-3 || math.Abs(counted-clicks) > .1 {
				t.Errorf("killed before call %d, %v: %v of 40 count, and %v clicks", calls, names, counted, clicks)
			}
			if steps == 0 {
				if math.Abs(counted-40) > 1e-3 {
					t.Errorf("nobody is killed, and %v of 40 count", counted)
				}
				steps, calls = len(names), -1
				t.Log("the steps: ", names)
			} else {
				t.Log(fmt.Sprint("killed before call ", calls, ": ", counted, " count"))
			}
		}
	}
}

// A store that gives a state to two nodes, or twice, or again after a failover. One of them continues.
func TestStatesAreAcceptedOnce(t *testing.T) {
	w := newWards(t, 4, nil)
	tickets := decide(w.nodes[1], 30)
	w.click(tickets[:10])
	old := w.nodes[1]
	w.leave(old)
	check(endNow(old))
	if held := w.memory.numbers[2]; !held.until.After(time.Now()) {
		t.Error("its number is free before anybody continues")
	}
	w.memory.keep()
	for node, states := range w.memory.states {
		for _, other := range w.nodes {
			if other.Number() != node {
				w.memory.states[other.Number()] = append(w.memory.states[other.Number()], states...)
			}
		}
		w.memory.states[node] = append(states, states...)
		break
	}
	w.exchange()
	w.click(tickets[10:20])
	w.exchange()
	w.memory.failOver(0)
	w.exchange()
	w.click(tickets)
	w.is(30, 30)
	if w.log.count("is refused") == 0 {
		t.Error("no state was refused")
	}
}

// An outage cancels what is open in wards too. A state that nobody could adopt for long is cancelled.
func TestWardsAreCancelled(t *testing.T) {
	window := func(o *Options) { o.Config.RewardWindow = 1000 }
	w := newWards(t, 3, window)
	tickets := decide(w.nodes[1], 30)
	w.click(tickets[:10])
	old := w.nodes[1]
	w.leave(old)
	check(endNow(old))
	for _, states := range w.memory.states {
		states[0].since = states[0].since.Add(-(delaysUntilUnready + 1) * old.delay)
	}
	w.exchange()
	w.click(tickets)
	w.pass(1001)
	w.is(0, 0)

	w = newWards(t, 3, window)
	tickets = decide(w.nodes[1], 30)
	host := w.end(w.nodes[1])
	host.forwarding.cancel = true
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { host.checkOutage(ctx); close(done) }()
	eventually(t, "it cancels", func() bool { return must(host.wards[0].bandit.Report()).Pending == 0 })
	stop()
	<-done
	w.click(tickets)
	w.pass(1001)
	w.is(0, 0)
}

// The contract of a WardQueue, in memory and on a real server.
func TestWardQueue(t *testing.T) {
	ctx := context.Background()
	for name, store := range stores(t) {
		t.Log(name)
		take := func(node uint16, life uint64) Member { return must(store.Take(ctx, node, life, time.Hour)) }
		host := func(number, node uint16, receivers ...uint64) (receiver uint64) {
			t.Helper()
			got, receiver, err := store.Host(ctx, number)
			if err != nil || got != node || receiver != 0 != (len(receivers) > 0) ||
				len(receivers) > 0 && !slices.Contains(receivers, receiver) {
				t.Error(name, got, receiver, err, "want", node, receivers)
			}
			return receiver
		}
		open := func(member Member, withdraw bool, add []uint64, want ...uint64) {
			t.Helper()
			got := must(store.Offer(ctx, member, add, withdraw))
			if slices.Sort(got); !slices.Equal(got, want) {
				t.Error(name, got, want)
			}
		}
		none := func(member Member) {
			t.Helper()
			if state := must(store.Adopt(ctx, member, time.Hour)); state != nil {
				t.Error(name, state)
			}
		}
		states := func(member Member, want uint64) {
			t.Helper()
			if got := must(store.Beat(ctx, member, Beat{Lease: time.Hour})).States; got != want {
				t.Error(name, got, want)
			}
		}
		a, b, c := take(1, 11), take(2, 22), take(3, 33)
		host(0, 0)
		open(a, false, []uint64{5, 1<<64 - 1}, 5, 1<<64-1)
		open(a, false, []uint64{7}, 5, 7, 1<<64-1)
		host(2, 0)
		first := host(0, 1, 5, 7, 1<<64-1)
		second := host(1, 1, 5, 7, 1<<64-1)
		third := host(0, 1, 5, 7, 1<<64-1)
		if first == second || second == third || first == third {
			t.Error(name, first, second, third)
		}
		host(0, 1) // all are taken
		open(a, false, []uint64{8}, 8)
		open(a, true, nil, 8)
		host(0, 0)
		open(a, false, []uint64{9}, 9)
		a = take(1, 12) // another process, which has not drawn 9
		host(0, 0)
		open(a, false, []uint64{10}, 10)
		none(a)
		states(a, 0)

		// A state arrives as it was, with its number, which nobody gets meanwhile. The ended process has no access then.
		bytes := []byte("a state \x00\n\xff 1 2")
		check(store.Entrust(ctx, b, 1, 10, bytes, time.Hour))
		states(a, 1)
		none(c)
		if next := take(0, 44); next.Node != 4 {
			t.Error(name, next)
		}
		state := must(store.Adopt(ctx, a, time.Hour))
		if string(state.Bytes) != string(bytes) || state.Receiver != 10 || state.Age < 0 || state.Age > time.Hour ||
			state.Member != (Member{2, b.Incarnation + 1, 10}) {
			t.Errorf("%s: %+v", name, state)
		}
		none(a)
		if err := store.Hold(ctx, b, time.Hour); !errors.Is(err, ErrReplaced) {
			t.Error(name, err)
		}
		check(store.Hold(ctx, state.Member, time.Hour))
		check(store.Send(ctx, []Message{{To: 2, Ticket: 7, Reward: 1}}))
		received := 0
		check(store.Receive(ctx, state.Member, func(Message) { received++ }))
		if received != 1 {
			t.Error(name, received)
		}
		if next := take(0, 55); next.Node != 5 {
			t.Error(name, next)
		}

		// Another process gets the number: the state of the ward has none, and goes to that process.
		b = take(2, 23)
		if err := store.Hold(ctx, state.Member, time.Hour); !errors.Is(err, ErrReplaced) {
			t.Error(name, err)
		}
		check(store.Entrust(ctx, state.Member, 2, 66, bytes, time.Hour))
		if state := must(store.Adopt(ctx, b, time.Hour)); state.Member != (Member{Node: 2}) {
			t.Errorf("%s: %+v", name, state)
		}
		check(store.Hold(ctx, b, time.Hour))
		check(store.Entrust(ctx, c, 1, 77, bytes, time.Hour))
		c = take(3, 34)
		if state := must(store.Adopt(ctx, a, time.Hour)); state.Member != (Member{Node: 3}) {
			t.Errorf("%s: %+v", name, state)
		}
		check(store.Hold(ctx, c, time.Hour))

		// A process that has been replaced offers and adopts nothing.
		check(store.Entrust(ctx, c, 1, 88, bytes, time.Hour))
		old := a
		a = take(1, 13)
		none(old)
		if _, err := store.Offer(ctx, old, nil, false); !errors.Is(err, ErrReplaced) {
			t.Error(name, err)
		}
		if state := must(store.Adopt(ctx, a, time.Hour)); state == nil || state.Member.Life != 88 {
			t.Errorf("%s: %+v", name, state)
		}
	}
}
