package fleet

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	dpb "github.com/libdpb/libdpb/bindings/go"
)

// stores are the store in memory and one on a real server, which must have one contract.
func stores(t *testing.T) map[string]interface {
	Store
	RewardQueue
	ContributionQueue
} {
	server := startRedis(t)
	store := storeAt(server.address)
	t.Cleanup(func() { store.Close() })
	return map[string]interface {
		Store
		RewardQueue
		ContributionQueue
	}{"memory": newMemory(), "redis": store}
}

// A number is held by one life. Its lease ends if nobody renews it.
func TestNumbersByLease(t *testing.T) {
	ctx := context.Background()
	for name, store := range stores(t) {
		take := func(node uint16, life uint64, lease time.Duration) Member {
			return must(store.Take(ctx, node, life, lease))
		}
		is := func(member Member, node uint16, incarnation uint32) {
			t.Helper()
			if member.Node != node || member.Incarnation != incarnation {
				t.Errorf("%s: %+v, want %d and %d", name, member, node, incarnation)
			}
		}
		a, b, c := take(0, 1<<64-1, time.Hour), take(0, 2, time.Hour), take(7, 3, time.Hour)
		is(a, 1, 1)
		is(b, 2, 1)
		is(c, 7, 1)
		check(store.Leave(ctx, a))
		d := take(0, 4, time.Millisecond)
		is(d, 1, 2)
		eventually(t, "the lease ends", func() bool {
			return must(store.Beat(ctx, b, Beat{Lease: time.Hour})).Nodes > 0 && take(0, 5, time.Hour).Node == 1
		})
		numbers := must(store.Numbers(ctx))
		slices.Sort(numbers)
		if want := []uint16{1, 2, 7}; !slices.Equal(numbers, want) && !slices.Equal(numbers, []uint16{1, 2, 3, 7}) {
			t.Error(name, numbers)
		}
		// The last life has no access any more.
		refused := func(member Member) {
			t.Helper()
			if kept := must(store.Put(ctx, member, Snapshot{member.Node, 1 << 60, nil}, true)); kept {
				t.Error(name, "put")
			}
			check(store.Send(ctx, []Message{{To: member.Node, Ticket: 1}}))
			_, err := store.Beat(ctx, member, Beat{Lease: time.Hour})
			for i, err := range []error{
				err, store.Receive(ctx, member, func(Message) { t.Error(name, "received") }),
				store.Contribute(ctx, member, 9, []byte("sums")),
			} {
				if !errors.Is(err, ErrReplaced) {
					t.Error(name, i, err)
				}
			}
			check(store.Leave(ctx, member))
		}
		refused(a)
		refused(d)
		received := 0
		check(store.Receive(ctx, Member{1, 3, 5}, func(Message) { received++ }))
		if received != 2 { // nobody has deleted them
			t.Error(name, received)
		}
		// A process takes a number that is held.
		e := take(2, 6, time.Hour)
		is(e, 2, 2)
		refused(b)
		// The incarnation is above that of the snapshot, also if the record was lost.
		if !must(store.Put(ctx, e, Snapshot{2, 9<<32 | 5, []byte("x")}, true)) {
			t.Error(name, "not put")
		}
		is(take(2, 8, time.Hour), 2, 10)
		// A process of a later incarnation than the record's holds the number: the record came back from earlier.
		must(store.Beat(ctx, Member{2, 11, 9}, Beat{Lease: time.Hour}))
		refused(Member{2, 10, 8})
		// An operator ends a life.
		before := must(store.Beat(ctx, c, Beat{Lease: time.Hour})).Breaks
		check(Leave(ctx, store, 7))
		refused(c)
		if after := must(store.Beat(ctx, Member{2, 11, 9}, Beat{Lease: time.Hour})); after.Breaks != before+1 {
			t.Error(name, before, after)
		}
		check(Leave(ctx, store, 1000)) // nobody ever had it
	}
}

// Beats tell who does not beat, who is gone, and who has come back.
func TestBeats(t *testing.T) {
	ctx := context.Background()
	for name, store := range stores(t) {
		a, b := must(store.Take(ctx, 0, 1, time.Hour)), must(store.Take(ctx, 0, 2, time.Hour))
		beat := func(member Member, late, gone uint64, held bool) Pulse {
			return must(store.Beat(ctx, member, Beat{Lease: time.Hour, Late: late, Gone: gone, Held: held}))
		}
		first := beat(b, 0, 0, false)
		second := beat(a, first.Beats-1, 0, false)
		if second.Beats != first.Beats+1 || second.Nodes != 2 || second.Numbers != 2 || len(second.Late) != 0 {
			t.Error(name, first, second)
		}
		if late := beat(a, first.Beats, 0, false).Late; len(late) != 1 || late[2] != first.Beats {
			t.Error(name, late)
		}
		held := beat(a, 0, 0, true).Held
		if slices.Sort(held); !slices.Equal(held, []uint16{1, 2}) {
			t.Error(name, held)
		}
		third := beat(a, first.Beats, first.Beats, false)
		if !slices.Equal(third.Gone, []uint16{2}) || third.Nodes != 1 || len(third.Late) != 0 ||
			third.Breaks != second.Breaks+1 {
			t.Error(name, third)
		}
		if again := beat(a, first.Beats, first.Beats, false); len(again.Gone) != 0 || again.Breaks != third.Breaks {
			t.Error(name, again)
		}
		if back := beat(b, 0, 0, false); back.Nodes != 2 || back.Breaks != third.Breaks+1 {
			t.Error(name, back)
		}
		if !must(store.Put(ctx, a, Snapshot{1, 1<<32 | 1, []byte("x")}, false)) ||
			!must(store.Put(ctx, b, Snapshot{2, 1<<32 | 1, []byte("y")}, true)) {
			t.Error(name, "not put")
		}
		if news := beat(a, 0, 0, false); news.Puts != first.Puts+1 {
			t.Error(name, news)
		}
		if versions := must(store.Versions(ctx)); len(versions) != 1 || versions[2] != 1<<32|1 {
			t.Error(name, versions)
		}
	}
}

// Nodes without a number take the lowest that is free, and continue from its snapshot.
func TestLowestNumberIsTaken(t *testing.T) {
	server := startRedis(t)
	join := func() running { return runAt(t, server.address, 0, interval) }
	a, b, c := join(), join(), join()
	for i, node := range []running{a, b, c} {
		if int(node.Number()) != i+1 || int(dpb.TicketNode(must(node.Bandit.Select()).Ticket)) != i+1 {
			t.Error(i, node.Number())
		}
	}
	play(b.Bandit, 1000)
	if err := b.end(); !planned(err) {
		t.Error(err)
	}
	b = join()
	if report := must(b.Bandit.Report()); b.Number() != 2 || report.Decisions != 1001 {
		t.Error(b.Number(), report)
	}
	d := join()
	if d.Number() != 4 {
		t.Error(d.Number())
	}
	if _, err := Join(context.Background(), Options{Store: newMemory(), Bandit: a.Bandit, Config: config(0)}); !errors.Is(err, dpb.ErrInvalidConfig) {
		t.Error(err)
	}
}

// A node that is killed costs the others thirty delays, and not a window of sixty. What was open then is cancelled. If an
// operator says that it has ended, it costs them nothing more.
func TestNodeIsDead(t *testing.T) {
	for _, told := range []bool{false, true} {
		t.Run(map[bool]string{false: "silent", true: "told"}[told], func(t *testing.T) {
			if testing.Short() && !told {
				t.Skip("waits until a node is gone")
			}
			server := startRedis(t)
			var log lines
			var nodes []running
			for number := range uint16(3) {
				config := config(number + 1)
				config.RewardWindow, config.RewardBits = uint32(60*delay.Milliseconds()), 0
				nodes = append(nodes, run(t, server.address, Options{
					Config: config, Interval: interval, Delay: delay, Logger: slog.New(slog.NewTextHandler(&log, nil)),
				}))
			}
			dead, alive := nodes[2], nodes[:2]
			visit(t, nodes, func() bool { return alive[0].Metrics().Nodes == 2 && alive[1].Metrics().Nodes == 2 })
			visit(t, nodes, after(delay))
			var before [2]dpb.Report
			for i, node := range alive {
				before[i] = must(node.Bandit.Report())
			}
			dead.kill()
			if told {
				store := storeAt(server.address)
				defer store.Close()
				check(Leave(context.Background(), store, 3))
			}
			visit(t, alive, func() bool {
				return alive[0].Metrics().Nodes == 1 && alive[1].Metrics().Nodes == 1 &&
					!alive[0].Metrics().Outage && !alive[1].Metrics().Outage && log.count("cancels its open decisions once")+
					log.count("rewards arrive in time again") >= 2
			})
			for i, node := range alive {
				now := must(node.Bandit.Report())
				if now.Cancelled < before[i].Cancelled+uint64(before[i].Pending)-now.Answered+before[i].Answered {
					t.Errorf("what was open is not cancelled: %+v, before %+v", now, before[i])
				}
				if passed := now.Decisions - before[i].Decisions; passed >= uint64(60*delay.Milliseconds()) {
					t.Errorf("it has waited for a window: %d decisions", passed)
				}
				if told != (node.Metrics().Outages == 0) && told {
					t.Error("an outage, although the node's end was told")
				}
			}
			if gone := log.count("a node is gone"); gone != map[bool]int{false: 1, true: 0}[told] {
				t.Error(gone)
			}
			visit(t, alive, after(delay)) // both have noticed it
			cancelled := must(alive[0].Bandit.Report()).Cancelled
			visit(t, alive, after(5*delay))
			if now := must(alive[0].Bandit.Report()).Cancelled; now != cancelled {
				t.Error("it cancels again", now, cancelled)
			}
		})
	}
}

// A node that cannot reach the store is not ready.
func TestReady(t *testing.T) {
	server := startRedis(t)
	options := Options{Config: config(1), Interval: interval, Delay: 50 * time.Millisecond}
	node := run(t, server.address, options)
	eventually(t, "it is ready", node.Ready)
	server.kill()
	eventually(t, "it is not ready", func() bool { return !node.Ready() })
	server.start()
	eventually(t, "it is ready again", node.Ready)
	options.Config = config(2)
	options.Store = storeAt(server.address)
	routed := must(Join(context.Background(), options)) // without Rewards, by Join itself
	routed.delay = 0
	if !routed.Ready() {
		t.Error("it forwards nothing, and so is ready")
	}
	routed.Bandit.Close()
	options.Store.(*Redis).Close()
}

// A life that another one has replaced cancels what is open and ends.
func TestReplacedNodeCancels(t *testing.T) {
	memory := newMemory()
	config := config(1)
	config.RewardWindow = 1000
	node := must(Join(context.Background(), Options{Store: memory, Rewards: memory, Config: config, Interval: time.Hour}))
	defer node.Bandit.Close()
	done := make(chan error, 1)
	go func() { done <- node.Sync(context.Background()) }()
	must(node.Bandit.Select())
	must(memory.Take(context.Background(), 1, 77, time.Hour))
	if err := <-done; !errors.Is(err, ErrReplaced) {
		t.Error(err)
	}
	if report := must(node.Bandit.Report()); report.Cancelled != 1 || report.Pending != 0 {
		t.Errorf("%+v", report)
	}
}

// Again and again the store goes back to an earlier state. No reward counts twice, no two processes keep one number, and
// afterwards all know the same.
func TestStoreGoesBack(t *testing.T) {
	memory := newMemory()
	join := func(number uint16) running {
		return run(t, "", Options{
			Store: memory, Rewards: memory, Contributions: memory, Config: keyed(number, 1), Interval: 50 * time.Millisecond,
		})
	}
	nodes := []running{join(1), join(2), join(3)}
	reported := 0.0
	for round := range 20 {
		memory.keep()
		for range 20 {
			for _, node := range nodes {
				play(node.Bandit, 5)
				reported += 5
				ticket := must(node.Bandit.Select()).Ticket
				_ = nodes[round%3].Update(ticket, 1)
				_ = nodes[(round+1)%3].Update(ticket, 1)
				reported++
			}
			time.Sleep(time.Millisecond)
		}
		memory.failOver(round * 2 / 3)
	}
	seen := exchanges(nodes)
	eventually(t, "all exchange", func() bool {
		for i, now := range exchanges(nodes) {
			if now < seen[i]+5 {
				return false
			}
		}
		return true
	})
	eventually(t, "all know the same", func() bool { return alike(nodes[0], nodes[1]) && alike(nodes[1], nodes[2]) })
	if all := known(nodes[0]); all > reported || all < 100 {
		t.Error(all, "of", reported)
	}
	// The store forgets who has number 4, and gives it again.
	memory.keep()
	first := join(0)
	memory.failOver(20)
	second := join(0)
	if first.Number() != 4 || second.Number() != 4 {
		t.Error(first.Number(), second.Number())
	}
	var err error
	eventually(t, "the first life ends", func() bool {
		_, err = memory.Beat(context.Background(), first.member, Beat{Lease: time.Hour})
		return errors.Is(err, ErrReplaced)
	})
	if _, err := memory.Beat(context.Background(), second.member, Beat{Lease: time.Hour}); err != nil {
		t.Error(err)
	}
}
