package fleet

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	dpb "github.com/libdpb/libdpb/bindings/go"
	"github.com/redis/go-redis/v9"
)

func keyed(node uint16, key byte) dpb.Config {
	config := config(node)
	config.FleetKey = &[32]byte{key}
	return config
}

// runKeyed runs nodes with one key, and waits until one of them leads.
func runKeyed(t *testing.T, address string, count uint16, options Options) []running {
	var nodes []running
	for number := range count {
		options.Config, options.Interval = keyed(number+1, 1), interval
		nodes = append(nodes, run(t, address, options))
	}
	oneLeads(t, nodes)
	return nodes
}

// oneLeads waits until one node leads, and all nodes have read its lease. It returns the leader's index.
func oneLeads(t *testing.T, nodes []running) (leader int) {
	t.Helper()
	store := storeAt(nodes[0].store.(*Redis).client.(*redis.Client).Options().Addr)
	defer store.Close()
	eventually(t, "one node leads", func() bool {
		held, _, err := store.Leader(context.Background(), nodes[0].key)
		leader = slices.IndexFunc(nodes, func(node running) bool { return node.number == held.Node })
		return err == nil && leader >= 0 && nodes[leader].Metrics().Leads
	})
	seen := exchanges(nodes)
	eventually(t, "all have read the lease", func() bool {
		for i, now := range exchanges(nodes) {
			if now < seen[i]+2 {
				return false
			}
		}
		return true
	})
	return leader
}

func exchanges(nodes []running) (counts []uint64) {
	for _, node := range nodes {
		counts = append(counts, node.Metrics().Exchanges)
	}
	return counts
}

// learn makes all nodes play until the first knows this many more rewards. It returns the number of reported rewards.
func learn(t *testing.T, nodes []running, more float64) (reported float64) {
	t.Helper()
	goal := known(nodes[0]) + more
	eventually(t, "the fleet learns", func() bool {
		for _, node := range nodes {
			play(node.Bandit, 20)
			reported += 20
		}
		return known(nodes[0]) >= goal
	})
	return reported
}

func known(node running) (rewards float64) {
	for _, arm := range must(node.Bandit.Arms()) {
		rewards += arm.EffectivePulls
	}
	return rewards
}

func sum(values []float64) (total float64) {
	for _, value := range values {
		total += value
	}
	return total
}

// settle waits until one node leads and all nodes know the same.
func settle(t *testing.T, nodes []running, left ...[]byte) {
	t.Helper()
	oneLeads(t, nodes)
	eventually(t, "all nodes know the same", func() bool { return agree(nodes, left...) })
}

func TestOnlyTheLeaderReleases(t *testing.T) {
	server := startRedis(t)
	nodes := runKeyed(t, server.address, 4, Options{})
	reported := learn(t, nodes, 5000)
	settle(t, nodes)
	leader := oneLeads(t, nodes)
	for i, node := range nodes {
		own, metrics := sum(released(must(node.Bandit.Snapshot(nil)))), node.Metrics()
		leads := i == leader
		if (own > 0) != leads || metrics.Leads != leads || (metrics.Contributions > 0) == leads ||
			metrics.ContributionsLost != 0 {
			t.Errorf("node %d, leader %d: %v released, %+v", i, leader, own, metrics)
		}
	}
	if report := must(nodes[leader].Bandit.Report()); report.Contributions < 3 || report.ContributionsLost != 0 {
		t.Errorf("%+v", report)
	}
	// An open batch of the leader may have three times as many rewards as were released.
	if all := known(nodes[0]); all > reported || all < reported/5 {
		t.Error(all, "of", reported)
	}
}

func TestLeadersAreKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("long: leases must end")
	}
	server := startRedis(t)
	nodes := runKeyed(t, server.address, 4, Options{})
	reported := learn(t, nodes, 2000)
	for range 2 {
		leader := oneLeads(t, nodes)
		began := time.Now()
		nodes[leader].kill()
		nodes = slices.Delete(nodes, leader, leader+1)
		reported += learn(t, nodes, 1000)
		t.Log("learned again after", time.Since(began))
	}
	reported += learn(t, nodes, 1000)
	oneLeads(t, nodes)
	store := storeAt(server.address)
	defer store.Close()
	eventually(t, "the survivors know all releases", func() bool {
		var all [][]byte
		for _, snapshot := range must(store.List(context.Background())) {
			all = append(all, snapshot.Bytes)
		}
		rewards := sum(released(all...))
		return math.Abs(rewards-known(nodes[0])) < 1e-3 && math.Abs(rewards-known(nodes[1])) < 1e-3
	})
	if all := known(nodes[0]); all > reported {
		t.Error(all, "of", reported)
	}
}

// A leader that leaves gives up its lease.
func TestLeaderLeaves(t *testing.T) {
	server := startRedis(t)
	nodes := runKeyed(t, server.address, 2, Options{})
	leader := oneLeads(t, nodes)
	if err := nodes[leader].end(); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	store := storeAt(server.address)
	defer store.Close()
	lease, held, err := store.Leader(context.Background(), nodes[0].key)
	if err != nil || held && lease.Node == nodes[leader].number {
		t.Error(lease, err)
	}
	nodes = slices.Delete(nodes, leader, leader+1)
	oneLeads(t, nodes)
	learn(t, nodes, 100)
}

// recorder records the contributions that nodes send.
type recorder struct {
	*Redis
	mu  sync.Mutex
	all []string
}

func (r *recorder) Contribute(ctx context.Context, generation uint64, contribution []byte) error {
	r.mu.Lock()
	r.all = append(r.all, string(contribution))
	r.mu.Unlock()
	return r.Redis.Contribute(ctx, generation, contribution)
}

func TestReplaysChangeNothing(t *testing.T) {
	server := startRedis(t)
	store := storeAt(server.address)
	t.Cleanup(func() { store.Close() })
	recorder := &recorder{Redis: store}
	nodes := runKeyed(t, server.address, 3, Options{Contributions: recorder})
	learn(t, nodes, 2000)
	settle(t, nodes)
	replay := func() {
		leader := nodes[oneLeads(t, nodes)]
		generation := must(leader.Bandit.Lead())
		arms, contributions := must(leader.Bandit.Arms()), must(leader.Bandit.Report()).Contributions
		recorder.mu.Lock()
		old := slices.Clone(recorder.all)
		recorder.mu.Unlock()
		for _, contribution := range old {
			check(store.Contribute(context.Background(), generation, []byte(contribution)))
		}
		eventually(t, "the leader reads its stream", func() bool {
			return must(store.client.XLen(context.Background(), store.contributions(generation)).Result()) == 0
		})
		if report := must(leader.Bandit.Report()); len(old) == 0 || report.Contributions != contributions {
			t.Errorf("%v replayed: %v, then %+v", len(old), contributions, report)
		}
		if now := must(leader.Bandit.Arms()); !slices.Equal(now, arms) {
			t.Error(now, arms)
		}
	}
	replay()
	leader := oneLeads(t, nodes) // then replay to another generation
	nodes[leader].end()
	nodes = slices.Delete(nodes, leader, leader+1)
	replay()
}

func TestClicksAreSealed(t *testing.T) {
	server := startRedis(t)
	store := storeAt(server.address)
	t.Cleanup(func() { store.Close() })
	ctx, stop := context.WithCancel(context.Background())
	var log lines
	decides := must(Join(ctx, Options{
		Store: store, Rewards: store, Contributions: store, Config: keyed(1, 1), Interval: interval,
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
	}))
	forwards := run(t, server.address, Options{Config: keyed(2, 1), Interval: interval})
	ticket := must(decides.Bandit.Select()).Ticket
	eventually(t, "they have met", func() bool { return forwards.Metrics().Nodes == 1 })
	check(forwards.Update(ticket, 0.625))
	var sent []redis.XMessage
	eventually(t, "the click is sent", func() bool {
		sent = must(store.client.XRange(ctx, store.stream(1), "-", "+").Result())
		return len(sent) == 1
	})
	sealed, _ := sent[0].Values["sealed"].(string)
	if len(sent[0].Values) != 1 || sealed == "" {
		t.Error(sent)
	}
	opened := string(must(decides.Bandit.Open([]byte(sealed))))
	if !strings.HasSuffix(opened, " 0.625") || strings.Contains(sealed, opened[:4]) {
		t.Errorf("%q", opened)
	}
	// Without the key, anyone who can write to the store can send these.
	other := must(decides.Bandit.Select()).Ticket
	check(store.Send(ctx, []Message{
		{To: 1, Ticket: other, Reward: 1}, {To: 1, Sealed: []byte("forged")}, {To: 1, Sealed: []byte(sealed)},
	}))
	done := make(chan error, 1)
	go func() { done <- decides.Sync(ctx) }()
	eventually(t, "all have arrived", func() bool { m := decides.Metrics(); return m.Received+m.Refused == 4 })
	if m := decides.Metrics(); m.Received != 1 || log.count("not sealed") != 1 {
		t.Errorf("%+v", m)
	}
	if err := decides.Bandit.Update(ticket, 1); !errors.Is(err, dpb.ErrDuplicate) {
		t.Error(err)
	}
	check(decides.Bandit.Update(other, 1)) // the message without a seal had no effect
	stop()
	<-done
	decides.Bandit.Close()
}

// Each key has a leader, and all nodes learn from the releases of both. A contribution that is sealed with another
// key is refused.
func TestAnotherKey(t *testing.T) {
	server := startRedis(t)
	var log lines
	nodes := runKeyed(t, server.address, 2, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	other := run(t, server.address, Options{Config: keyed(9, 2), Interval: interval})
	eventually(t, "the node with the other key leads too", func() bool { return other.Metrics().Leads })
	leader := nodes[oneLeads(t, nodes)]
	all := append(slices.Clone(nodes), other)
	reported := learn(t, all, 2000)
	settle(t, all)
	own := sum(released(must(other.Bandit.Snapshot(nil))))
	if total := known(other); own == 0 || total <= own || total > reported {
		t.Error(own, total, reported)
	}
	if log.count("a contribution is refused") != 0 {
		t.Error(log.text.String())
	}
	for range 3 {
		sealed := must(other.Bandit.Seal([]byte("sums")))
		check(leader.contributions.Contribute(context.Background(), leader.lease.Generation, sealed))
	}
	eventually(t, "it is refused, once in the log", func() bool { return log.count("a contribution is refused") == 1 })
}

func TestKeyNeedsContributions(t *testing.T) {
	_, err := Join(context.Background(), Options{Config: keyed(1, 1)})
	if !errors.Is(err, dpb.ErrInvalidConfig) || !strings.Contains(err.Error(), "Contributions") {
		t.Error(err)
	}
}
