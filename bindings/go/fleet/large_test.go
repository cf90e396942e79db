package fleet

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	dpb "github.com/libdpb/libdpb/bindings/go"
	"github.com/redis/go-redis/v9"
)

// manyArms is a configuration of a hundred ads.
func manyArms() dpb.Config {
	config := dpb.NewConfig(100, 1)
	config.FleetKey, config.PendingCapacity = &[32]byte{1}, 64
	return config
}

// joinMany joins nodes whose exchanges a test makes.
func joinMany(t *testing.T, count int, store interface {
	Store
	RewardQueue
	ContributionQueue
}) (nodes []*Node) {
	for range count {
		node, err := Join(context.Background(), Options{
			Store: store, Rewards: store, Contributions: store, Config: manyArms(), Interval: time.Hour, Delay: time.Hour,
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { node.Bandit.Close() })
		nodes = append(nodes, node)
	}
	return nodes
}

func playMany(bandit *dpb.Bandit, decisions int) {
	for range decisions {
		d := must(bandit.Select())
		check(bandit.Update(d.Ticket, map[bool]float64{true: 1}[d.Arm%10 == d.Arm && d.Ticket%3 == 0]))
	}
}

// exchangeAll makes each node beat and exchange, and returns what an exchange of each took.
func exchangeAll(nodes []*Node) (times []time.Duration) {
	ctx := context.Background()
	for _, node := range nodes {
		check(node.beat(ctx))
		began := time.Now()
		check(node.exchange(ctx))
		times = append(times, time.Since(began))
	}
	return times
}

func released100(node *Node) (rewards float64) {
	for _, arm := range must(node.Bandit.Arms()) {
		rewards += arm.EffectivePulls
	}
	return rewards
}

// A thousand nodes learn as one bandit. What a node reads and writes at an exchange is at most twice the leader's
// snapshot, however many nodes there are. Only the leader has more: it reads all contributions.
func TestLargeThousandNodes(t *testing.T) {
	if testing.Short() {
		t.Skip("a large fleet")
	}
	for _, count := range []int{10, 100, 1000} {
		memory := newMemory()
		nodes := joinMany(t, count, memory)
		var most uint64
		reported := 0
		for round := range 30 {
			for i, node := range nodes {
				if node.Number() != uint16(i+1) {
					t.Fatal(i, node.Number())
				}
				playMany(node.Bandit, 20)
				reported += 20
				check(node.beat(context.Background()))
				read, written := memory.read.Load(), memory.written.Load()
				check(node.exchange(context.Background()))
				if i > 0 {
					most = max(most, memory.read.Load()-read+memory.written.Load()-written)
				} else if round == 29 {
					t.Logf("%d nodes: the leader reads %d bytes, and writes %d",
						count, memory.read.Load()-read, memory.written.Load()-written)
				}
			}
		}
		exchangeAll(nodes) // the leader combines what the last round has contributed
		exchangeAll(nodes)
		snapshot := len(must(nodes[0].Bandit.Snapshot(nil)))
		t.Logf("%d nodes: a node reads and writes at most %d bytes, and the leader's snapshot has %d", count, most, snapshot)
		if most > 2*uint64(snapshot) {
			t.Error(count, most, snapshot)
		}
		all := released100(nodes[0])
		if all > float64(reported) || all < float64(reported)/10 {
			t.Error(count, all, reported)
		}
		for i, node := range nodes {
			report := must(node.Bandit.Report())
			if m := node.Metrics(); m.Nodes != count-1 || m.Released > 1 || m.Leads != (i == 0) ||
				(report.Phase > 0) != (i == 0) || node.handles != uint32(count) {
				t.Errorf("%d of %d: %+v %+v", i, count, m, report)
			}
			if known := released100(node); known != all {
				t.Error(i, known, all)
			}
		}
	}
}

// The same with a real server: what an exchange and a beat take there.
func TestLargeTraffic(t *testing.T) {
	if testing.Short() {
		t.Skip("a large fleet")
	}
	server := startRedis(t)
	client := server.client()
	defer client.Close()
	ctx := context.Background()
	info := func(name string) float64 {
		text := regexp.MustCompile(name + `:([0-9.]+)`).FindStringSubmatch(must(client.Info(ctx).Result()))
		return must(strconv.ParseFloat(text[1], 64))
	}
	used := func() float64 { return info("used_cpu_sys") + info("used_cpu_user") }
	for _, count := range []int{10, 100, 1000} {
		options := redis.UniversalOptions{Addrs: []string{server.address}, ReadTimeout: -1, WriteTimeout: -1}
		store := NewRedis(&options, fmt.Sprint("of", count))
		t.Cleanup(func() { store.Close() })
		nodes := joinMany(t, count, store)
		var times []time.Duration
		var leads time.Duration
		const rounds = 5
		for range 3 {
			for _, node := range nodes {
				playMany(node.Bandit, 20)
			}
			exchangeAll(nodes)
		}
		in, out, cpu := info("total_net_input_bytes"), info("total_net_output_bytes"), used()
		for range rounds {
			for _, node := range nodes {
				playMany(node.Bandit, 20)
			}
			took := exchangeAll(nodes)
			leads = max(leads, took[0])
			times = append(times, took[1:]...)
		}
		n := float64(rounds * count)
		in, out, cpu = (info("total_net_input_bytes")-in)/n, (info("total_net_output_bytes")-out)/n, (used()-cpu)/n
		began, before := time.Now(), used()
		for range rounds {
			for _, node := range nodes {
				if err, rewardErr := node.round(ctx); err != nil || rewardErr != nil {
					t.Fatal(err, rewardErr)
				}
			}
		}
		beat, round := (used()-before)/n, time.Since(began)/time.Duration(n)
		slices.Sort(times)
		t.Logf("%d nodes, each exchange: %.0f bytes to the server, %.0f from it, %.0f us of its processor, %v (median); "+
			"each round %.0f us of its processor, %v; the leader's exchange %v; its snapshot %d bytes", count, in, out, 1e6*cpu, times[len(times)/2],
			1e6*beat, round, leads, len(must(nodes[0].Bandit.Snapshot(nil))))
	}
}

// 200 nodes whose Sync runs, on a real server. The leader and others are killed.
func TestLargeFleetOnRedis(t *testing.T) {
	if testing.Short() {
		t.Skip("a large fleet")
	}
	server := startRedis(t)
	join := func() running {
		return run(t, server.address, Options{Config: keyed(0, 1), Interval: 2 * time.Second, Delay: 2 * time.Second})
	}
	var nodes []running
	for range 200 {
		nodes = append(nodes, join())
	}
	eventually(t, "all are alive", func() bool {
		return !slices.ContainsFunc(nodes, func(node running) bool { return node.Metrics().Nodes != 199 })
	})
	reported := learn(t, nodes, 5000)
	settle(t, nodes)
	leader := oneLeads(t, nodes)
	for range 3 { // the leader's lease ends, and another node leads
		nodes[leader].kill()
		nodes = slices.Delete(nodes, leader, leader+1)
		leader = (leader + 50) % len(nodes)
	}
	reported += learn(t, nodes, 2000)
	leader = oneLeads(t, nodes)
	if all := known(nodes[leader]); all > reported {
		t.Error(all, "of", reported)
	}
	if number := nodes[leader].Number(); number > firstLeaders {
		t.Error("node", number, "leads")
	}
	// An end that is planned leaves a number, and the next process has it.
	number := nodes[100].Number()
	if err := nodes[100].end(); err != nil {
		t.Error(err)
	}
	if next := join(); next.Number() != number {
		t.Error(next.Number(), number)
	}
}
