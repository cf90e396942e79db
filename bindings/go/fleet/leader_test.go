package fleet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"math/rand/v2"
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
		leader = slices.IndexFunc(nodes, func(node running) bool { return node.Number() == held.Node })
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
	lost := uint64(0) // only by an error, such as a timeout on a busy machine
	for i, node := range nodes {
		own, metrics := sum(released(must(node.Bandit.Snapshot(nil)))), node.Metrics()
		leads := i == leader
		if (own > 0) != leads || metrics.Leads != leads || (metrics.Contributions > 0) == leads ||
			metrics.ContributionsLost > metrics.Errors {
			t.Errorf("node %d, leader %d: %v released, %+v", i, leader, own, metrics)
		}
		lost += metrics.ContributionsLost
	}
	if report := must(nodes[leader].Bandit.Report()); report.Contributions < 3 || report.ContributionsLost > lost {
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
		numbers := slices.Collect(maps.Keys(must(store.Versions(context.Background()))))
		for _, snapshot := range must(store.List(context.Background(), numbers...)) {
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
	ended := nodes[leader].end()
	store := storeAt(server.address)
	defer store.Close()
	lease, held, err := store.Leader(context.Background(), nodes[0].key)
	if !planned(ended) || err != nil || ended == nil && held && lease.Node == nodes[leader].Number() {
		t.Error(ended, lease, err)
	}
	nodes = slices.Delete(nodes, leader, leader+1)
	oneLeads(t, nodes)
	learn(t, nodes, 100)
}

// recorder records the contributions that have arrived.
type recorder struct {
	*Redis
	mu  sync.Mutex
	all []string
}

func (r *recorder) Contribute(ctx context.Context, member Member, generation uint64, contribution []byte) error {
	err := r.Redis.Contribute(ctx, member, generation, contribution)
	if err == nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.all = append(r.all, string(contribution))
	}
	return err
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
			check(store.Contribute(context.Background(), Member{9, 1, 1}, generation, []byte(contribution)))
		}
		eventually(t, "the leader reads its stream", func() bool {
			return must(store.client.XLen(context.Background(), store.sums(generation)).Result()) == 0
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
	if len(opened) != sealedReward || strings.Contains(sealed, opened[:4]) {
		t.Errorf("%q", opened)
	}
	reward := []Message{{To: 1, Ticket: ticket, Reward: 0.625}}
	if rewards := must(decides.open(Message{To: 1, Sealed: []byte(sealed)})); !slices.EqualFunc(rewards, reward, equal) {
		t.Error(rewards)
	}
	// Without the key, anyone who can write to the store can send these.
	other := must(decides.Bandit.Select()).Ticket
	short := must(decides.Bandit.Seal(make([]byte, sealedReward-1)))
	check(store.Send(ctx, []Message{
		{To: 1, Ticket: other, Reward: 1}, {To: 1, Sealed: []byte("forged")}, {To: 1, Sealed: []byte(sealed)},
		{To: 1, Sealed: short},
	}))
	done := make(chan error, 1)
	go func() { done <- decides.Sync(ctx) }()
	eventually(t, "all have arrived", func() bool { m := decides.Metrics(); return m.Received+m.Refused == 5 })
	if m := decides.Metrics(); m.Received != 1 || log.count("not sealed") != 2 { // for each reason
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

// equal compares two rewards, which may be NaN.
func equal(a, b Message) bool {
	return a.To == b.To && a.Ticket == b.Ticket && math.Float64bits(a.Reward) == math.Float64bits(b.Reward)
}

// The length of a sealed message tells neither the rewards in it nor their number.
func TestSealedMessagesHaveOneLength(t *testing.T) {
	server := startRedis(t)
	store := storeAt(server.address)
	defer store.Close()
	for node, rate := range map[uint16]int{1: 0, 2: 1, 3: 100} {
		n := must(Join(context.Background(), Options{
			Store: store, Rewards: store, Contributions: store, Config: keyed(node, 1), SendRate: rate,
		}))
		defer n.Bandit.Close()
		lengths := map[int]bool{}
		try := func(rewards ...Message) {
			sealed := must(n.seal(batch{to: 7, rewards: rewards}))
			lengths[len(sealed.Sealed)] = true
			if opened := must(n.open(sealed)); sealed.To != 7 || !slices.EqualFunc(opened, rewards, equal) {
				t.Error(opened, rewards)
			}
		}
		var all []Message
		for _, ticket := range []uint64{1, 9, 1 << 48, 1<<64 - 1} {
			for _, reward := range []float64{0, 1, .5, .3, -1, 1e-300, math.Pi, math.Inf(-1), math.NaN()} {
				all = append(all, Message{To: 7, Ticket: ticket, Reward: reward})
				try(all[len(all)-1])
			}
		}
		if n.slots != map[int]int{0: 0, 1: 1, 100: 13}[rate] { // a hundred in eight messages
			t.Error(n.slots)
		}
		for count := range n.slots + 1 {
			try(all[:count]...)
		}
		if len(lengths) != 1 {
			t.Errorf("with rate %d: %v", rate, lengths)
		}
	}
}

// sends records what a node sends: the messages, and in which call each reward was sent first.
type sends struct {
	*memory
	open  func(Message) ([]Message, error)
	fails bool
	kinds []string
	when  map[uint64]int // by ticket
	round int
}

func (s *sends) Send(_ context.Context, messages []Message) error {
	if s.fails {
		return errors.New("it fails")
	}
	kinds := ""
	for _, m := range messages {
		kinds += fmt.Sprintf("to %d: ticket %d, reward %v, %d sealed bytes; ", m.To, m.Ticket, m.Reward, len(m.Sealed))
		for _, reward := range must(s.open(m)) {
			if _, sent := s.when[reward.Ticket]; !sent {
				s.when[reward.Ticket] = s.round
			}
		}
	}
	s.kinds = append(s.kinds, kinds)
	return nil
}

// atAFixedRate joins a node with so many places in each message. The numbers 100 to 102 are held, and 103 is not.
func atAFixedRate(t *testing.T, slots int) (*Node, *sends) {
	ctx, s := context.Background(), &sends{memory: newMemory(), when: map[uint64]int{}}
	for _, number := range []uint16{100, 101, 102, 103} {
		must(s.Take(ctx, number, 1, time.Hour))
	}
	check(s.Leave(ctx, Member{103, 1, 1}))
	n := must(Join(ctx, Options{
		Store: s, Rewards: s, Contributions: s, Config: keyed(7, 1), Delay: 8 * time.Hour, SendRate: 1,
	}))
	t.Cleanup(func() { n.Bandit.Close() })
	n.slots, n.forwarding.outbox.slots = slots, slots // and not 3,600
	s.open = n.open
	return n, s
}

// endRound makes the present round be over now.
func endRound(n *Node) {
	n.forwarding.outbox.began = time.Now().Add(-n.forwarding.outbox.every)
}

// With SendRate, what a node sends does not depend on rewards: with none, with more than fit, and with some for nodes
// that have left.
func TestWhatIsSentAtAFixedRateDoesNotDependOnRewards(t *testing.T) {
	var first []string
	for world := range uint16(4) {
		ctx := context.Background()
		n, sends := atAFixedRate(t, 3)
		reward := func(count int, of ...uint64) {
			for ticket := range uint64(count) {
				for _, node := range of {
					if err := n.Update(node<<48|ticket+1, 1); err != nil && !errors.Is(err, ErrQueueFull) {
						t.Error(err)
					}
				}
			}
		}
		if world == 1 {
			reward(1, 100)
			reward(1, 100) // a repeat takes no place
		} else if world == 2 {
			reward(7, 100, 101, 102, 103)
		} else if world == 3 {
			reward(500, 103)
		}
		for range 4 {
			if check(n.send(ctx)); len(sends.kinds)%3 != 0 || len(n.forwarding.wake) > 0 {
				t.Error("it sends between two rounds")
			}
			endRound(n)
			check(n.send(ctx))
		}
		m := n.Metrics()
		got := [3]int{int(m.Sent), m.Waiting, int(m.Unsent)}
		if want := [][3]int{{}, {1}, {9, 0, 19}, {0, 0, 500}}[world]; got != want {
			t.Errorf("world %d: %v, want %v", world, got, want)
		}
		reward(2, 100)
		check(n.sendAll(ctx))
		if first == nil {
			first = sends.kinds
		}
		if len(first) != 15 || !strings.Contains(first[0], "sealed bytes") || !slices.Equal(sends.kinds, first) {
			t.Errorf("world %d: %q, in the first %q", world, sends.kinds, first)
		}
	}
}

// arrival is a reward, and the round in which it comes.
type arrival struct {
	ticket uint64
	round  int
}

// travel returns what a node sends of these rewards, and when. The store fails in some of the rounds.
func travel(t *testing.T, slots, rounds int, arrivals []arrival) *sends {
	n, sends := atAFixedRate(t, slots)
	for sends.round = range rounds {
		for _, arrival := range arrivals {
			if arrival.round == sends.round {
				_ = n.Update(arrival.ticket, 1)
			}
		}
		sends.fails = sends.round%20 >= 12 && sends.round < rounds-1
		endRound(n)
		_ = n.send(context.Background())
	}
	return sends
}

// others returns the rewards, except one, that are sent in other rounds in two worlds, or in one of them only.
func others(t *testing.T, one, other *sends, except uint64) (differ []uint64) {
	if !slices.Equal(one.kinds, other.kinds) {
		t.Error("the messages tell that one reward differs")
	}
	for _, world := range []map[uint64]int{one.when, other.when} {
		for ticket := range world {
			here, inOne := one.when[ticket]
			there, inOther := other.when[ticket]
			if (here != there || inOne != inOther) && ticket != except && !slices.Contains(differ, ticket) {
				differ = append(differ, ticket)
			}
		}
	}
	return differ
}

// Twins: two worlds differ in one reward, which does not come in the second, or comes later. Every other reward is sent in
// the same round, also after the store has failed for a while. If more rewards come in a round than a message holds, one
// reward decides about one other in each round in which it differs, however many rounds are full.
func TestOneRewardDoesNotDecideAboutOthers(t *testing.T) {
	const slots, rounds = 4, 60
	for _, full := range []bool{false, true} {
		random := rand.New(rand.NewPCG(1, 2))
		var arrivals []arrival
		for round := range rounds {
			for node := uint64(100); node < 103; node++ {
				count := random.IntN(slots) // the unit has a place in each round
				if full {
					count = slots + random.IntN(slots)
				}
				for range count {
					arrivals = append(arrivals, arrival{node<<48 | uint64(len(arrivals)+1), round})
				}
			}
		}
		for unit := 0; unit < 100; unit += 7 {
			all := travel(t, slots, rounds, arrivals)
			without := slices.Delete(slices.Clone(arrivals), unit, unit+1)
			later := slices.Clone(arrivals)
			later[unit].round += 13
			for i, twin := range [][]arrival{without, later} {
				limit := 0
				if full {
					limit = i + 1
				}
				if differ := others(t, all, travel(t, slots, rounds, twin), arrivals[unit].ticket); len(differ) > limit {
					t.Errorf("full %v, unit %d: %d others differ", full, unit, len(differ))
				}
			}
		}
	}
}

// Messages that cannot be sent are dropped after a time, whether there are rewards in them or not.
func TestOldMessagesAreDropped(t *testing.T) {
	began, held := time.Now(), []uint16{100, 101}
	for rewards := range uint64(3) {
		box, lost, now := newOutbox(2, time.Second, began), uint64(0), began
		for range 20 {
			for ticket := range rewards {
				box.add(Message{To: 100, Ticket: ticket + 1}, began)
			}
			now = now.Add(time.Second)
			lost += box.rounds(held, now, 9*time.Second)
		}
		if len(box.messages[100]) != 10 || len(box.messages[101]) != 10 || lost != 10*rewards || box.count != int(10*rewards) {
			t.Error(len(box.messages[100]), lost, box.count)
		}
		lost = box.rounds(held, now.Add(3500*time.Millisecond), 9*time.Second) // nobody ends the rounds in time
		if len(box.messages[100]) != 9 || lost != 4*rewards || !box.began.Equal(now.Add(3*time.Second)) {
			t.Error(len(box.messages[100]), lost, box.began.Sub(now))
		}
		lost = box.rounds(held[:1], now.Add(time.Hour), 9*time.Second)
		if len(box.messages[100]) != 10 || len(box.messages[101]) != 0 || lost != 6*rewards || box.count != 0 {
			t.Error(len(box.messages[100]), lost, box.count)
		}
	}
}

// Rewards reach their node at a fixed rate too.
func TestRewardsTravelAtAFixedRate(t *testing.T) {
	server := startRedis(t)
	var nodes []running
	for number := range uint16(3) { // with timeouts that suffice on a busy machine
		options := Options{Config: keyed(number+1, 1), SendRate: 200, Interval: 20 * time.Second, Delay: 4 * time.Second}
		nodes = append(nodes, run(t, server.address, options))
	}
	eventually(t, "they have met", func() bool {
		return !slices.ContainsFunc(nodes, func(n running) bool { return n.Metrics().Nodes != 2 })
	})
	for range 100 {
		for i, node := range nodes {
			check(nodes[(i+1)%3].Update(must(node.Bandit.Select()).Ticket, 1))
		}
	}
	eventually(t, "all rewards have arrived", func() bool {
		return !slices.ContainsFunc(nodes, func(n running) bool {
			m := n.Metrics()
			return m.Received != 100 || m.Sent != 100
		})
	})
	for _, node := range nodes {
		if m := node.Metrics(); m.Waiting != 0 || m.Unsent != 0 || must(node.Bandit.Report()).Answered != 100 {
			t.Errorf("%+v", m)
		}
	}
	// A node sends what waits before it leaves.
	check(nodes[0].Update(must(nodes[1].Bandit.Select()).Ticket, 1))
	if err := nodes[0].end(); err != nil {
		t.Error(err)
	}
	eventually(t, "the last reward has arrived", func() bool { return nodes[1].Metrics().Received == 101 })
}

func TestInvalidSendRate(t *testing.T) {
	server := startRedis(t)
	store := storeAt(server.address)
	defer store.Close()
	for _, wrong := range []Options{
		{Config: keyed(1, 1), Rewards: store, SendRate: -1},
		{Config: config(1), Rewards: store, SendRate: 1},
		{Config: keyed(1, 1), SendRate: 1},
		{Config: keyed(1, 1), Rewards: store, SendRate: maxSlots*beatsPerDelay + 1},
	} {
		wrong.Store, wrong.Contributions = store, store
		_, err := Join(context.Background(), wrong)
		if !errors.Is(err, dpb.ErrInvalidConfig) || !strings.Contains(err.Error(), "SendRate") {
			t.Error(err)
		}
	}
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
	generation := must(leader.Bandit.Report()).Generation
	for range 3 {
		sealed := must(other.Bandit.Seal([]byte("sums")))
		check(leader.contributions.Contribute(context.Background(), other.member, generation, sealed))
	}
	eventually(t, "it is refused, once in the log", func() bool { return log.count("a contribution is refused") == 1 })
}

func TestKeyNeedsContributions(t *testing.T) {
	_, err := Join(context.Background(), Options{Config: keyed(1, 1)})
	if !errors.Is(err, dpb.ErrInvalidConfig) || !strings.Contains(err.Error(), "Contributions") {
		t.Error(err)
	}
}
