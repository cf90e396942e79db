package fleet

import (
	"bufio"
	"context"
	"errors"
	"log/slog"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	dpb "github.com/libdpb/libdpb/bindings/go"
	"github.com/redis/go-redis/v9"
)

// The store keeps the newest snapshot of each node, in whatever order snapshots arrive.
func TestPutsInAnyOrder(t *testing.T) {
	server := startRedis(t)
	store, client := storeAt(server.address), server.client()
	defer store.Close()
	defer client.Close()
	ctx := context.Background()
	put := func(node uint16, version uint64, bytes string) bool {
		return must(store.Put(ctx, Member{node, 1, 1}, Snapshot{node, version, []byte(bytes)}, true))
	}
	has := func(node uint16, version uint64, bytes string) {
		t.Helper()
		all := must(store.List(ctx, node))
		if len(all) != 1 || all[0].Node != node || all[0].Version != version || string(all[0].Bytes) != bytes {
			t.Error(all)
		}
	}
	// Above 2^53 a double cannot represent every version.
	for _, version := range []uint64{1, 9, 10, 1 << 53, 1<<53 + 1, 1<<63 + 1, 1<<64 - 1} {
		if !put(1, version, "new") || put(1, version, "replayed") || put(1, version-1, "older") {
			t.Error(version)
		}
		has(1, version, "new")
	}
	var all sync.WaitGroup
	for _, version := range rand.Perm(200) {
		all.Add(1)
		go func() {
			defer all.Done()
			put(2, uint64(version), string(rune('a'+version%26)))
		}()
	}
	all.Wait()
	has(2, 199, string(rune('a'+199%26)))
	if all := must(store.Versions(ctx)); len(all) != 2 || all[1] != 1<<64-1 || all[2] != 199 {
		t.Error(all)
	}
	// A field without a version is overwritten. A field that is not a node's number is ignored.
	check(client.HSet(ctx, store.snapshots(), "3", "~~~~~~~~~~~~~~~~~~~~~~", "65536", "x", "a", "x", "", "x").Err())
	if !put(3, 1, "mine") {
		t.Error("not overwritten")
	}
	has(3, 1, "mine")
	if all := must(store.List(ctx, 4)); len(all) != 0 {
		t.Error(all)
	}
}

// An attacker who can write to the store replays old snapshots as new ones and under other numbers, and writes
// nonsense.
func TestReplays(t *testing.T) {
	server := startRedis(t)
	a, b := runAt(t, server.address, 1, interval), runAt(t, server.address, 2, interval)
	play(b.Bandit, 500)
	old := must(b.Bandit.Snapshot(nil))
	play(b.Bandit, 3000)
	eventually(t, "both know the same", func() bool { return agree([]running{a, b}) })
	b.end()
	last := must(storeAt(server.address).List(context.Background(), 2))[0].Bytes
	attacker := storeAt(server.address)
	defer attacker.Close()
	ctx := context.Background()
	for round := range uint64(3) {
		for node, bytes := range map[uint16][]byte{2: old, 3: old, 4: last, 5: last[1:], 6: nil} {
			if !must(attacker.Put(ctx, Member{node, 1 << 31, 1}, Snapshot{node, 1<<60 + round, bytes}, true)) {
				t.Error(node)
			}
		}
		seen := a.Metrics().Exchanges
		eventually(t, "two more exchanges", func() bool { return a.Metrics().Exchanges >= seen+2 })
		if m := a.Metrics(); !agree([]running{a}, last) || m.Incompatible != 2 || m.Released != 5 || len(m.Refusals) != 2 {
			t.Errorf("%+v", m)
		}
	}
}

// A node is killed again and again, and continues from its field. Everything that it has put counts once, and nothing
// else.
func TestNodeIsKilled(t *testing.T) {
	kills := 25
	if testing.Short() {
		kills = 4
	}
	server := startRedis(t)
	store := storeAt(server.address)
	defer store.Close()
	watcher := runAt(t, server.address, 1, interval)
	play(watcher.Bandit, 500)
	var before dpb.Report
	rewards := 0.0
	for range kills {
		process := exec.Command(os.Args[0])
		process.Env = append(os.Environ(), "DPB_TEST_NODE="+server.address)
		lines := bufio.NewReader(must(process.StdoutPipe()))
		process.Stderr = os.Stderr
		check(process.Start())
		if line, err := lines.ReadString('\n'); err != nil {
			t.Fatal(line, err)
		}
		eventually(t, "it has put again", func() bool {
			return must(store.List(context.Background(), 7))[0].Version&0xffffffff > 3
		})
		time.Sleep(rand.N(50 * time.Millisecond))
		process.Process.Kill()
		process.Wait()

		kept := must(store.List(context.Background(), 7))[0]
		eventually(t, "the other knows what was put", func() bool { return agree([]running{watcher}, kept.Bytes) })
		bandit := must(dpb.Restore(kept.Bytes))
		report, now := must(bandit.Report()), 0.0
		for _, arm := range must(bandit.Arms()) {
			now += arm.EffectivePulls
		}
		bandit.Close()
		if report.Answered < before.Answered || now < rewards || now > float64(report.Answered) {
			t.Errorf("%v rewards released, %v before; %+v, before %+v", now, rewards, report, before)
		}
		before, rewards = report, now
	}
	if before.Answered < 1000 {
		t.Error(before)
	}
}

// Nodes decide while Redis is down. It restarts empty, and then has all releases of the running nodes again.
func TestRedisIsKilled(t *testing.T) {
	server := startRedis(t)
	nodes := []running{runAt(t, server.address, 1, interval), runAt(t, server.address, 2, interval)}
	for round := range 2 {
		eventually(t, "both know the same", func() bool { return agree(nodes) })
		server.kill()
		for _, node := range nodes {
			failed := node.Metrics().Errors
			eventually(t, "it learns by itself, and Sync retries", func() bool {
				play(node.Bandit, 300)
				return !agree(nodes) && node.Metrics().Errors >= failed+3
			})
		}
		server.start()
		nodes = append(nodes, runAt(t, server.address, uint16(round+3), interval))
	}
	eventually(t, "all know the same", func() bool { return agree(nodes) })
}

// A replica that lags takes over. Nodes forget nothing, and put again.
func TestReplicaIsStale(t *testing.T) {
	server := startRedis(t)
	nodes := []running{runAt(t, server.address, 1, interval), runAt(t, server.address, 2, interval)}
	play(nodes[0].Bandit, 200)
	eventually(t, "both know the same", func() bool { return agree(nodes) })
	client := server.client()
	defer client.Close()
	ctx := context.Background()
	hash := nodes[0].store.(*Redis).snapshots()
	stale := must(client.HGetAll(ctx, hash).Result())
	play(nodes[0].Bandit, 3000)
	eventually(t, "both know more", func() bool { return agree(nodes) })
	check(client.HSet(ctx, hash, stale).Err())
	if !agree(nodes) {
		t.Error("forgotten")
	}
	joined := runAt(t, server.address, 3, interval)
	eventually(t, "the new node knows it too", func() bool { return agree(append(nodes, joined)) })
}

// Several processes join under one number, at once or later: one of them stays. The others continue to decide, and no
// reward counts twice.
func TestProcessesHaveOneNumber(t *testing.T) {
	server := startRedis(t)
	watcher := runAt(t, server.address, 1, interval)
	ended := make(chan error, 5)
	nodes := make(chan *Node, 5)
	store := storeAt(server.address)
	defer store.Close()
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	var alive atomic.Int32
	for number := range 5 {
		all.Add(1)
		go func() {
			defer all.Done()
			if number == 4 {
				time.Sleep(2 * interval)
			}
			node, err := Join(ctx, Options{Store: store, Config: config(2), Interval: interval})
			if err != nil {
				ended <- err
				return
			}
			play(node.Bandit, 1000)
			alive.Add(1)
			err = node.Sync(ctx)
			alive.Add(-1)
			if errors.Is(err, ErrReplaced) {
				play(node.Bandit, 1000)
				node.Bandit.Close()
			} else {
				nodes <- node
			}
			ended <- err
		}()
	}
	for range 4 {
		if err := <-ended; !errors.Is(err, ErrReplaced) {
			t.Error(err)
		}
	}
	eventually(t, "one is left", func() bool { return alive.Load() == 1 })
	cancel()
	if err := <-ended; !planned(err) {
		t.Error(err)
	}
	all.Wait()
	(<-nodes).Bandit.Close()
	// They are all incarnations of one node: the last snapshot counts.
	kept := must(store.List(context.Background(), 2))[0]
	eventually(t, "the other knows what was put last", func() bool { return agree([]running{watcher}, kept.Bytes) })
}

// together makes the first two calls of List return at the same time.
type together struct {
	Store
	calls atomic.Int32
	both  sync.WaitGroup
}

func (s *together) List(ctx context.Context, nodes ...uint16) ([]Snapshot, error) {
	all, err := s.Store.List(ctx, nodes...)
	if s.calls.Add(1) <= 2 {
		s.both.Done()
		s.both.Wait()
	}
	return all, err
}

// Two processes with one number find no snapshot. The younger of them keeps the number.
func TestTwoJoinAtOnce(t *testing.T) {
	for range 10 {
		memory := newMemory()
		store := &together{Store: memory}
		store.both.Add(2)
		nodes := make(chan *Node)
		for range 2 {
			go func() {
				node, err := Join(context.Background(), Options{Store: store, Config: config(2)})
				if err != nil && !errors.Is(err, ErrReplaced) {
					t.Error(err)
				}
				nodes <- node
			}()
		}
		last := 0
		for _, node := range []*Node{<-nodes, <-nodes} {
			if node != nil {
				err := node.put(context.Background())
				if younger := node.member.Incarnation == 2; younger != (err == nil) {
					t.Error(node.member, err)
				} else if younger {
					last++
				}
				node.Bandit.Close()
			}
		}
		if last != 1 {
			t.Error(last)
		}
	}
}

// proxy is a network between a node and Redis that a test can cut: connections close, or carry nothing.
type proxy struct {
	address string
	mu      sync.Mutex
	cut     bool
	silent  bool
	open    []net.Conn
	changed chan struct{} // closed when the network is healed
}

func startProxy(t *testing.T, to string) *proxy {
	directory := must(os.MkdirTemp("", "dpb"))
	p := &proxy{address: filepath.Join(directory, "proxy"), changed: make(chan struct{})}
	listener := must(net.Listen("unix", p.address))
	t.Cleanup(func() {
		listener.Close()
		p.sever(false)
		p.heal()
		os.RemoveAll(directory)
	})
	go func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			p.mu.Lock()
			refused := p.cut && !p.silent
			p.open = append(p.open, from)
			p.mu.Unlock()
			server, err := net.Dial("unix", to)
			if refused || err != nil {
				from.Close()
				continue
			}
			go p.carry(from, server)
			go p.carry(server, from)
		}
	}()
	return p
}

func (p *proxy) carry(from, to net.Conn) {
	defer from.Close()
	defer to.Close()
	buffer := make([]byte, 1<<16)
	for {
		n, err := from.Read(buffer)
		p.mu.Lock()
		healed, silent := p.changed, p.cut && p.silent
		p.mu.Unlock()
		if silent {
			<-healed // what was on the way is lost
			return
		}
		if err != nil {
			return
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

func (p *proxy) sever(silent bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut, p.silent = true, silent
	if !silent {
		for _, connection := range p.open {
			connection.Close()
		}
		p.open = nil
	}
}

func (p *proxy) heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = false
	close(p.changed)
	p.changed = make(chan struct{})
}

// A node is cut off, with an error or silently. All nodes continue to decide. When each has put and listed once after
// the network is healed, they know the same.
func TestPartition(t *testing.T) {
	server := startRedis(t)
	network := startProxy(t, server.address)
	nodes := []running{
		runAt(t, server.address, 1, interval), runAt(t, server.address, 2, interval),
		runAt(t, network.address, 3, interval),
	}
	for _, silent := range []bool{false, true, false, true} {
		eventually(t, "all know the same", func() bool { return agree(nodes) })
		network.sever(silent)
		failed := nodes[2].Metrics().Errors
		eventually(t, "they know different releases", func() bool {
			for _, node := range nodes {
				play(node.Bandit, 300)
			}
			return !alike(nodes[0], nodes[2]) && nodes[2].Metrics().Errors >= failed+3
		})
		eventually(t, "the nodes that are not cut off know the same", func() bool { return alike(nodes[0], nodes[1]) })
		if alike(nodes[0], nodes[2]) {
			t.Error("the network was not cut")
		}
		network.heal()
		// Twice, because the first exchange may have begun before another node had put.
		for range 2 {
			var since [3]uint64
			for i, node := range nodes {
				since[i] = node.Metrics().Exchanges
			}
			for i, node := range nodes {
				eventually(t, "another exchange", func() bool { return node.Metrics().Exchanges >= since[i]+2 })
			}
		}
		if !agree(nodes) {
			t.Error("they do not agree after the network is healed")
		}
	}
}

// alike reports whether these two nodes know the same.
func alike(a, b running) bool {
	one, two := must(a.Bandit.Arms()), must(b.Bandit.Arms())
	for i := range one {
		if math.Abs(one[i].EffectivePulls-two[i].EffectivePulls) > 1e-6*one[i].EffectivePulls {
			return false
		}
	}
	return true
}

// A reward that is reported to any node counts once, at the node that decided.
func TestRewardsReachTheirNode(t *testing.T) {
	server := startRedis(t)
	a, b := runAt(t, server.address, 1, interval), runAt(t, server.address, 2, interval)
	client := server.client()
	defer client.Close()
	ctx := context.Background()
	eventually(t, "they have met", func() bool { return a.Metrics().Nodes == 1 && b.Metrics().Nodes == 1 })
	store := a.rewards.(*Redis)
	var tickets []uint64
	for range 100 {
		d := must(b.Bandit.Select())
		check(a.Update(d.Ticket, 1))
		if d.Ticket%3 == 0 {
			_ = b.Update(d.Ticket, 1) // its own reward, which takes effect unless the forwarded one was faster
		}
		tickets = append(tickets, d.Ticket)
	}
	for range 2 {
		for _, ticket := range tickets {
			check(a.Update(ticket, 1)) // a repeat
			check(store.Send(ctx, []Message{
				{To: 1, Ticket: ticket, Reward: 1},         // sent to the wrong node
				{To: 2, Ticket: ticket ^ 1<<20, Reward: 1}, // an invented ticket
			}))
		}
	}
	check(client.XAdd(ctx, &redis.XAddArgs{Stream: store.stream(2), Values: []any{"ticket", "x", "nonsense", 1}}).Err())
	empty := func() bool {
		return must(client.XLen(ctx, store.stream(1)).Result())+must(client.XLen(ctx, store.stream(2)).Result()) == 0
	}
	sent := func() bool { return a.Metrics().Sent == 300 }
	eventually(t, "all rewards are sent", sent)
	eventually(t, "all rewards are received", empty)
	here, there := must(a.Bandit.Report()), must(b.Bandit.Report())
	if here.Answered != 0 || there.Answered != 100 || there.Pending != 0 {
		t.Errorf("%+v %+v", here, there)
	}
	// A reward for a node that was never seen creates no stream.
	if err := a.Update(999<<48, 1); !errors.Is(err, dpb.ErrUnknownTicket) {
		t.Error(err)
	}
	if keys := must(client.Keys(ctx, "*").Result()); len(keys) != 7 { // five of the store, and two streams
		t.Error(keys)
	}
}

// Rewards may arrive while a node leaves: each is sent, or lost with the node.
func TestUpdatesWhileANodeLeaves(t *testing.T) {
	server := startRedis(t)
	one, two := runAt(t, server.address, 1, interval), runAt(t, server.address, 2, interval)
	eventually(t, "they know each other", func() bool { return one.Metrics().Nodes == 1 && two.Metrics().Nodes == 1 })
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				check(two.Update(must(one.Bandit.Select()).Ticket, 1))
				time.Sleep(time.Microsecond) // so that the queue can empty
			}
		}
	}()
	eventually(t, "rewards travel", func() bool { return one.Metrics().Received > 0 })
	if err := two.end(); !planned(err) {
		t.Fatal(err)
	}
	close(stop)
	<-stopped
}

// Rewards for a node that has left are bounded in number and time. Sending them while Redis is down is an error.
func TestStreamsAreBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("sends many rewards")
	}
	server := startRedis(t)
	store, client := storeAt(server.address), server.client()
	defer store.Close()
	defer client.Close()
	ctx := context.Background()
	var senders sync.WaitGroup
	for range 8 {
		senders.Add(1)
		go func() {
			defer senders.Done()
			for range maxRewards / 8 * 11 / 10 / 50 {
				check(store.Send(ctx, slices.Repeat([]Message{{To: 9, Ticket: 9 << 48, Reward: 1}}, 50)))
			}
		}()
	}
	senders.Wait()
	stream := store.stream(9)
	if n := must(client.XLen(ctx, stream).Result()); n != maxRewards {
		t.Error(n)
	}
	if left := must(client.TTL(ctx, stream).Result()); left <= 0 || left > rewardLifetime {
		t.Error(left)
	}
	server.kill()
	if err := store.Send(ctx, []Message{{To: 9, Ticket: 9 << 48}}); err == nil {
		t.Error("no error without a server")
	}
}

// An attacker who can write to the store can keep a node out, as README.md says, but cannot stop decisions or make a
// call wait for ever.
func TestServiceIsDenied(t *testing.T) {
	server := startRedis(t)
	attacker := storeAt(server.address)
	defer attacker.Close()
	ctx := context.Background()
	store := storeAt(server.address)
	defer store.Close()
	node := must(Join(ctx, Options{Store: store, Config: config(2), Interval: interval}))
	defer node.Bandit.Close()
	done := make(chan error, 1)
	go func() { done <- node.Sync(ctx) }()
	must(attacker.Put(ctx, Member{2, 1<<32 - 1, 1}, Snapshot{2, 1<<64 - 1, must(node.Bandit.Snapshot(nil))}, true))
	seen := node.Metrics().Exchanges
	if err := <-done; !errors.Is(err, ErrReplaced) {
		t.Error(err)
	}
	if now := node.Metrics().Exchanges; now > seen+1 {
		t.Error(now, seen)
	}
	incompatible := config(4)
	incompatible.Epsilon = 2
	other := must(dpb.New(incompatible))
	defer other.Close()
	for number, bytes := range map[uint16][]byte{2: nil, 3: []byte("nonsense"), 4: must(other.Snapshot(nil))} {
		if number > 2 {
			must(attacker.Put(ctx, Member{number, 1, 1}, Snapshot{number, 1, bytes}, true))
		}
		_, err := Join(ctx, Options{Store: attacker, Config: config(number)})
		want := map[uint16]error{2: err, 3: dpb.ErrCorrupt, 4: dpb.ErrInvalidConfig}[number]
		if !errors.Is(err, want) || number == 2 && !strings.Contains(err.Error(), "delete its field") {
			t.Error(number, err)
		}
	}
}

// The permissions in README.md for a Redis user suffice, without and with a fleet key, and do not cover another bandit.
func TestPermissions(t *testing.T) {
	for _, key := range []bool{false, true} {
		t.Run(map[bool]string{false: "no key", true: "key"}[key], func(t *testing.T) { permissionsSuffice(t, key) })
	}
}

// Redis without its password is NOAUTH, also if the first command is a script, whose arguments Redis calls a protocol error
// then.
func TestNoPassword(t *testing.T) {
	server := startRedis(t)
	client := server.client()
	defer client.Close()
	check(client.Do(context.Background(), "CONFIG", "SET", "requirepass", "secret").Err())
	for _, number := range []uint16{0, 7} {
		for password, want := range map[string]string{"": "NOAUTH", "wrong": "WRONGPASS"} {
			connected := 0
			store := NewRedis(&redis.UniversalOptions{
				Addrs: []string{server.address}, Password: password,
				OnConnect: func(context.Context, *redis.Conn) error { connected++; return nil },
			}, "test")
			_, err := Join(context.Background(), Options{Store: store, Config: config(number)})
			if err == nil || !strings.Contains(err.Error(), want) || connected != 0 {
				t.Error(number, err, connected)
			}
			store.Close()
		}
	}
}

func permissionsSuffice(t *testing.T, key bool) {
	server := startRedis(t)
	client := server.client()
	defer client.Close()
	ctx := context.Background()
	text := string(must(os.ReadFile("README.md")))
	_, line, _ := strings.Cut(text, "\nuser ads on >PASSWORD ")
	line, _, _ = strings.Cut(line, "\n")
	if key {
		_, more, _ := strings.Cut(text, "With a fleet key also allow `")
		more, _, _ = strings.Cut(more, "`")
		line += " " + more
	}
	permissions := strings.Fields(strings.ReplaceAll(line, "{ads}", "{test}"))
	rule := append([]any{"ACL", "SETUSER", "test", "on", ">secret"}, anys(permissions)...)
	check(client.Do(ctx, rule...).Err())
	check(client.Do(ctx, "ACL", "SETUSER", "default", "off").Err())
	var log lines
	join := func(number uint16) (*Node, *Redis) {
		options := redis.UniversalOptions{Addrs: []string{server.address}, Username: "test", Password: "secret"}
		store := NewRedis(&options, "test")
		configured := config(number)
		if key {
			configured = keyed(number, 1)
		}
		return must(Join(ctx, Options{
			Store: store, Rewards: store, Contributions: store, Config: configured, Interval: interval,
			Logger: slog.New(slog.NewTextHandler(&log, nil)),
		})), store
	}
	var nodes [2]*Node
	here, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	for i := range nodes {
		node, store := join(uint16(i + 1))
		nodes[i] = node
		all.Add(1)
		go func() {
			defer all.Done()
			if err := node.Sync(here); err != nil {
				log.Write([]byte(err.Error()))
			}
			node.Bandit.Close()
			store.Close()
		}()
	}
	eventually(t, "they have met", func() bool { return nodes[0].Metrics().Nodes == 1 })
	if key { // another node continues with an open decision, and ends
		third, store := join(3)
		defer store.Close()
		defer third.Bandit.Close()
		ticket := must(third.Bandit.Select()).Ticket
		check(third.share(ctx))
		check(third.handOver(ctx))
		wards := func() int { return nodes[0].Metrics().Wards + nodes[1].Metrics().Wards }
		eventually(t, "another node continues", func() bool { return wards() == 1 })
		// If the other node continues, this one may not have heard of the number yet.
		eventually(t, "the reward is taken", func() bool { return nodes[0].Update(ticket, 1) == nil })
		eventually(t, "nothing is open", func() bool { return wards() == 0 })
	}
	check(nodes[0].Update(must(nodes[1].Bandit.Select()).Ticket, 1))
	eventually(t, "a forwarded reward", func() bool { return nodes[1].Metrics().Received > 0 })
	cancel()
	all.Wait()
	if log.count("NOPERM") != 0 || log.count("can't run") != 0 {
		t.Error(log.text.String())
	}
	if err := storeAt(server.address).client.Ping(ctx).Err(); err == nil {
		t.Error("connected without a password")
	}
	// The user has no access to another bandit's keys.
	options := redis.UniversalOptions{Addrs: []string{server.address}, Username: "test", Password: "secret"}
	other := NewRedis(&options, "other")
	defer other.Close()
	if _, err := other.List(ctx, 1); err == nil || !strings.Contains(err.Error(), "NOPERM") {
		t.Error(err)
	}
}

func anys(words []string) []any {
	all := make([]any, len(words))
	for i, word := range words {
		all[i] = word
	}
	return all
}
