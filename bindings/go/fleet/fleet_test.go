package fleet

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	dpb "github.com/libdpb/libdpb/bindings/go"
	"github.com/redis/go-redis/v9"
)

// One node of three leads. All know the same, each reward once. A reward reaches the node that decided. Nodes that
// leave, the leader first, lose nothing: another one continues with their open decisions.
func TestNodesLearnTogether(t *testing.T) {
	server := startRedis(t)
	var nodes []running
	for range 3 {
		nodes = append(nodes, run(t, server.address, Options{Config: keyed(0)}))
	}
	if nodes[0].Number() != 1 || nodes[1].Number() != 2 || nodes[2].Number() != 3 {
		t.Error("not the lowest numbers")
	}
	for _, node := range nodes {
		eventually(t, "they have met", func() bool { return node.Metrics().Nodes == 3 && node.Metrics().Leader > 0 })
	}
	learn(t, nodes, 1000)
	eventually(t, "all know the same", func() bool { return agree(nodes) })
	leads := func(node running) bool { return node.Metrics().Leads }
	eventually(t, "one leads", func() bool {
		last := slices.IndexFunc(nodes, leads)
		return last >= 0 && !slices.ContainsFunc(nodes[last+1:], leads)
	})

	ticket := must(nodes[1].Bandit.Select()).Ticket
	check(nodes[0].Update(ticket, 1))
	check(nodes[2].Update(ticket, 1))
	eventually(t, "one counts, and one is refused", func() bool {
		m := nodes[1].Metrics()
		return m.Received == 1 && m.Refused == 1
	})
	if err := nodes[1].Bandit.Update(ticket, 1); !errors.Is(err, dpb.ErrDuplicate) {
		t.Error(err)
	}
	eventually(t, "its reply comes", func() bool { return nodes[0].Metrics().Sent == 1 })
	m := nodes[0].Metrics()
	if m.Waiting != 0 || m.Unsent != 0 || m.Exchanges == 0 || m.Contributions == 0 && !m.Leads {
		t.Errorf("%+v", m)
	}
	if err := nodes[0].Update(9<<48|1, 1); !errors.Is(err, dpb.ErrUnknownTicket) {
		t.Error("a node that never was:", err)
	}

	for len(nodes) > 1 {
		leaving := max(slices.IndexFunc(nodes, leads), 0)
		open := must(nodes[leaving].Bandit.Select()).Ticket
		if err := nodes[leaving].end(); err != nil {
			t.Error(err)
		}
		left := nodes[leaving]
		if _, err := left.Bandit.Select(); !errors.Is(err, dpb.ErrHalted) {
			t.Error("it decides after the end:", err)
		}
		if left.Ready() || left.Metrics().State != dpb.NodeLeft {
			t.Errorf("%+v", left.Metrics())
		}
		nodes = slices.Delete(nodes, leaving, leaving+1)
		draining := func() (count, received uint64) {
			for _, node := range nodes {
				m := node.Metrics()
				count, received = count+uint64(m.Draining), received+m.Received
			}
			return count, received
		}
		eventually(t, "another node continues", func() bool { count, _ := draining(); return count == 1 })
		_, before := draining()
		check(nodes[0].Update(open, 1))
		eventually(t, "its reward counts", func() bool { _, now := draining(); return now == before+1 })
		eventually(t, "nothing is open", func() bool { count, _ := draining(); return count == 0 })
	}
	learn(t, nodes, 100)
}

// A process whose number another one has gets ErrReplaced, and decides no more. A number that a process has is given to
// no other one.
func TestNodeIsReplaced(t *testing.T) {
	server := startRedis(t)
	store := storeAt(server.address)
	defer store.Close()
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	old := run(t, server.address, Options{Config: config(4)})
	joined := make(chan running)
	var log lines
	go func() { joined <- run(t, server.address, Options{Config: config(4), Logger: log.logger()}) }()
	client := server.client()
	defer client.Close()
	eventually(t, "the next one asks", func() bool {
		clients := must(client.ClientList(ctx).Result())
		return strings.Count(clients, "cmd=evalsha")+strings.Count(clients, "cmd=eval ") >= 3
	})
	select {
	case <-joined:
		t.Error("two processes have one number")
	case <-old.ended:
		t.Error(old.Sync(ctx))
	default:
	}
	check(Leave(ctx, store, 4))
	next := <-joined
	if err := old.Sync(ctx); !errors.Is(err, ErrReplaced) {
		t.Error(err)
	}
	if m := old.Metrics(); m.Ready || m.State != dpb.NodeReplaced || next.Number() != 4 {
		t.Errorf("%+v", m)
	}
	if report := must(old.Bandit.Report()); report.Pending != 0 {
		t.Errorf("%+v", report)
	}
	if err := Leave(ctx, store, 0); !errors.Is(err, dpb.ErrInvalidConfig) {
		t.Error(err)
	}
}

// On the caller's clock the node lets time pass: windows end although nobody calls Advance.
func TestTimePasses(t *testing.T) {
	server := startRedis(t)
	timed := config(1)
	timed.Clock, timed.RewardWindow = dpb.ClockCaller, 30_000
	node := run(t, server.address, Options{Config: timed, Tick: 10 * time.Microsecond})
	must(node.Bandit.Select())
	eventually(t, "its window is over", func() bool { return must(node.Bandit.Report()).Pending == 0 })
	before := uint64(time.Now().UnixMicro() / 10)
	eventually(t, "it is the time since 1970", func() bool {
		_ = node.Bandit.Advance(before) // changes nothing once the node has set a later time
		return must(node.Bandit.Report()).ClockLeaps == 0
	})
}

// A node continues from a snapshot in a file, unless the store's counts more.
func TestSnapshotInAFile(t *testing.T) {
	server := startRedis(t)
	client := server.client()
	defer client.Close()
	node := run(t, server.address, Options{Config: config(1)})
	decisions := func() uint64 { return must(node.Bandit.Report()).Decisions }
	play(node.Bandit, 100)
	old := must(node.Bandit.Snapshot(nil))
	play(node.Bandit, 100)
	newer := must(node.Bandit.Snapshot(nil))
	check(node.end()) // the store has the newer one
	for _, snapshot := range [][]byte{old, newer} {
		node = run(t, server.address, Options{Config: config(1), Snapshot: snapshot})
		if decisions() != 200 {
			t.Error(decisions())
		}
		check(node.end())
		check(client.FlushAll(context.Background()).Err())
	}
	if _, err := Join(context.Background(), Options{Store: node.store, Config: config(0), Snapshot: old}); err == nil {
		t.Error("a snapshot of no number")
	}
}

// With a send rate each node sends to each other in each round, whether rewards wait or not, and rewards arrive.
func TestSendRate(t *testing.T) {
	server := startRedis(t)
	a := run(t, server.address, Options{Config: keyed(1), SendRate: 100})
	b := run(t, server.address, Options{Config: keyed(2), SendRate: 100})
	check(a.Update(must(b.Bandit.Select()).Ticket, 1))
	check(b.Update(must(a.Bandit.Select()).Ticket, 1))
	eventually(t, "they arrive", func() bool { return a.Metrics().Received == 1 && b.Metrics().Received == 1 })
	if m := a.Metrics(); m.Refused != 0 || m.Unsent != 0 {
		t.Errorf("%+v", m)
	}
}

// While Redis is away, nodes cancel what is open, unless a balancer brings each reward to its node.
func TestOutage(t *testing.T) {
	server := startRedis(t)
	var log lines
	a := run(t, server.address, Options{Config: windowedAt(1), Logger: log.logger()})
	b := run(t, server.address, Options{Config: windowedAt(2)})
	routed := run(t, server.address, Options{Config: windowedAt(3), Delay: -1})
	eventually(t, "they have met", func() bool { return a.Metrics().Nodes == 3 && b.Metrics().Nodes == 3 })
	server.kill()
	eventually(t, "an outage", func() bool {
		must(a.Bandit.Select())
		must(routed.Bandit.Select())
		return a.Metrics().Outage && must(a.Bandit.Report()).Cancelled > 0
	})
	eventually(t, "it is not ready", func() bool { return !a.Ready() })
	if m := routed.Metrics(); m.Outage || must(routed.Bandit.Report()).Cancelled > 0 {
		t.Errorf("%+v", m)
	}
	server.start()
	eventually(t, "it is over", func() bool { return !a.Metrics().Outage && a.Ready() && a.Metrics().Outages >= 1 })
	if !log.has("do not arrive in time") || !log.has("node=1") {
		t.Error(log.text.String())
	}
}

func windowedAt(node uint16) dpb.Config {
	config := config(node)
	config.RewardWindow = 1000
	return config
}

func TestInvalidJoin(t *testing.T) {
	server := startRedis(t)
	store := storeAt(server.address)
	defer store.Close()
	ctx := context.Background()
	wide, none := config(1), config(1)
	wide.Node, none.Arms = 1<<16, 0
	nowhere := func(name string) Store { return NewRedis(&redis.UniversalOptions{}, name) }
	for _, wrong := range []struct {
		options Options
		err     error
		says    string
	}{
		{Options{Config: config(1)}, dpb.ErrInvalidConfig, "Store must"},
		{Options{Store: nowhere("{}"), Config: config(1)}, dpb.ErrInvalidConfig, "ame must"},
		{Options{Store: nowhere("a\x00"), Config: config(1)}, dpb.ErrInvalidConfig, "ame must"},
		{Options{Store: store, Config: wide}, dpb.ErrInvalidConfig, "Node must be"},
		{Options{Store: store, Config: none}, dpb.ErrInvalidConfig, "Arms must"},
		{Options{Store: store, Config: config(1), SendRate: -1}, dpb.ErrInvalidConfig, "SendRate must"},
		{Options{Store: store, Config: config(1), Interval: -1}, dpb.ErrInvalidConfig, "Interval in milliseconds must"},
		{Options{Store: store, Config: config(1), Delay: time.Microsecond}, dpb.ErrInvalidConfig, "Delay in milliseconds must"},
		{Options{Store: store, Config: config(1), Policy: dpb.PolicySE}, dpb.ErrUnsupported, ""},
	} {
		if _, err := Join(ctx, wrong.options); !errors.Is(err, wrong.err) || !strings.Contains(err.Error(), wrong.says) {
			t.Error(wrong.says, err)
		}
	}
	client := server.client()
	defer client.Close()
	if keys := must(client.Keys(ctx, "*").Result()); len(keys) != 0 {
		t.Error("a node that could not join has put", keys)
	}
	// The snapshot of the number is another bandit's, or none.
	check(run(t, server.address, Options{Config: config(1)}).end())
	other := config(1)
	other.Epsilon = 2
	_, err := Join(ctx, Options{Store: store, Config: other})
	if err == nil || !strings.Contains(err.Error(), "epsilon must be 1") {
		t.Error(err)
	}
	check(client.HSet(ctx, "dpb:{test}:snapshots", "1", "nonsense").Err())
	if _, err := Join(ctx, Options{Store: store, Config: config(1)}); err == nil {
		t.Error("continues from nonsense")
	}
	server.kill()
	var log lines
	limited, cancel := context.WithCancelCause(ctx)
	go func() {
		eventually(t, "the log says why", func() bool { return log.has("the store fails") })
		cancel(errors.New("enough"))
	}()
	_, err = Join(limited, Options{Store: store, Config: config(2), Logger: log.logger()})
	if err == nil || !strings.Contains(err.Error(), "enough") || !strings.Contains(err.Error(), "connect") {
		t.Error(err)
	}
}
