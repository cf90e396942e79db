package fleet

import (
	"context"
	"errors"
	"flag"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	dpb "github.com/libdpb/libdpb/bindings/go"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
)

const interval = 100 * time.Millisecond

// A test fails if something that must happen takes longer than this. It is no limit on performance.
const testTimeout = 2 * time.Minute

func TestMain(m *testing.M) {
	if address := os.Getenv("DPB_TEST_NODE"); address != "" {
		child(address)
	}
	flag.Parse()
	if testing.Short() {
		delay = 100 * time.Millisecond
	}
	logging.Disable() // otherwise the client logs servers that the tests have stopped
	os.Exit(m.Run())
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func check(err error) { must(0, err) }

// server is a redis-server of one test. It loses its contents when it stops.
type server struct {
	address string
	process *exec.Cmd
}

func startRedis(t *testing.T) *server {
	t.Parallel()
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("skipped: redis-server not found")
	}
	directory := must(os.MkdirTemp("", "dpb")) // the path of a socket must be short
	t.Cleanup(func() { os.RemoveAll(directory) })
	s := &server{address: filepath.Join(directory, "redis")}
	s.start()
	t.Cleanup(s.kill)
	return s
}

func (s *server) start() {
	directory := filepath.Dir(s.address)
	s.process = exec.Command("redis-server", "--port", "0", "--unixsocket", s.address, "--dir", directory,
		"--save", "", "--appendonly", "no", "--logfile", filepath.Join(directory, "log"))
	check(s.process.Start())
	client := s.client()
	defer client.Close()
	ctx, end := context.Background(), time.Now().Add(testTimeout)
	for ; client.Ping(ctx).Err() != nil; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			panic("redis-server does not respond")
		}
	}
}

func (s *server) kill() {
	s.process.Process.Kill()
	s.process.Wait()
}

func (s *server) client() *redis.Client { return redis.NewClient(&redis.Options{Addr: s.address}) }

func storeAt(address string) *Redis {
	// Without the client's timeouts: only the context limits a command.
	return NewRedis(&redis.UniversalOptions{Addrs: []string{address}, ReadTimeout: -1, WriteTimeout: -1}, "test")
}

func config(node uint16) dpb.Config {
	config := dpb.NewConfig(3, 1)
	config.Node = uint64(node)
	return config
}

// running is a node whose Sync runs.
type running struct {
	*Node
	end  func() error
	kill func() // like end, but closes the store first
}

func runAt(t *testing.T, address string, number uint16, interval time.Duration) running {
	t.Helper()
	return run(t, address, Options{Config: config(number), Interval: interval})
}

func run(t *testing.T, address string, options Options) running {
	t.Helper()
	store := storeAt(address)
	if options.Store == nil { // otherwise there is no server
		options.Store = store
	}
	if options.Rewards == nil {
		options.Rewards = store
	}
	if options.Contributions == nil {
		options.Contributions = store
	}
	node, err := Join(context.Background(), options)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- node.Sync(ctx) }()
	end := sync.OnceValue(func() error {
		cancel()
		err := <-done
		node.Bandit.Close()
		store.Close()
		return err
	})
	t.Cleanup(func() {
		if err := end(); !planned(err) {
			t.Log(err)
		}
	})
	return running{node, end, func() { store.Close(); end() }}
}

// planned reports whether a node has ended as planned: an interval is so short that on a busy machine its last commands
// may be too late.
func planned(err error) bool {
	return !errors.Is(err, context.Canceled) && !errors.Is(err, ErrReplaced) && !errors.Is(err, dpb.ErrClosed)
}

// play makes this many decisions, and reports their rewards.
func play(bandit *dpb.Bandit, decisions int) {
	for range decisions {
		d := must(bandit.Select())
		reward := 0.0
		if rand.Float64() < .7-.2*float64(d.Arm) {
			reward = 1
		}
		check(bandit.Update(d.Ticket, reward))
	}
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(testTimeout); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("this never happens: " + what)
		}
	}
}

// released returns the number of rewards in the snapshots' releases, for each arm.
func released(snapshots ...[]byte) []float64 {
	rewards := make([]float64, 3)
	for _, snapshot := range snapshots {
		bandit := must(dpb.Restore(snapshot))
		for i, arm := range must(bandit.Arms()) {
			rewards[i] += arm.EffectivePulls
		}
		bandit.Close()
	}
	return rewards
}

// agree reports whether each node knows all releases of these nodes and of these snapshots of nodes that have left,
// each reward once, and whether all nodes have the same means, to the last bit. The result stays true only while no node
// plays.
func agree(nodes []running, left ...[]byte) bool {
	snapshots := slices.Clone(left)
	for _, node := range nodes {
		snapshots = append(snapshots, must(node.Bandit.Snapshot(nil)))
	}
	equal := func(x, y float64) bool { return x == y || math.IsNaN(x) && math.IsNaN(y) }
	rewards := released(snapshots...)
	first := must(nodes[0].Bandit.Arms())
	for _, node := range nodes {
		for i, arm := range must(node.Bandit.Arms()) {
			if math.Abs(arm.EffectivePulls-rewards[i]) > 1e-6*rewards[i] || !equal(arm.Mean, first[i].Mean) {
				return false
			}
		}
	}
	return true
}

// child runs a node that plays until the process is killed.
func child(address string) {
	store := storeAt(address)
	node := must(Join(context.Background(), Options{Store: store, Config: config(7), Interval: interval / 5}))
	go node.Sync(context.Background())
	os.Stdout.WriteString("joined\n")
	for {
		play(node.Bandit, 100)
		time.Sleep(time.Millisecond)
	}
}
