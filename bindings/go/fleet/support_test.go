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

// How long a test waits for what must come: never how long it may take.
const patience = 2 * time.Minute

func TestMain(m *testing.M) {
	if address := os.Getenv("DPB_TEST_NODE"); address != "" {
		child(address)
	}
	flag.Parse()
	if testing.Short() {
		delay = 100 * time.Millisecond
	}
	logging.Disable() // what the client says of servers that are not there
	os.Exit(m.Run())
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func check(err error) { must(0, err) }

// server is a redis-server of the test's own, that keeps nothing when it ends.
type server struct {
	address string
	process *exec.Cmd
}

func startRedis(t *testing.T) *server {
	t.Parallel()
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("skipped: redis-server not found")
	}
	directory := must(os.MkdirTemp("", "dpb")) // a socket's path is short
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
	for end := time.Now().Add(patience); client.Ping(context.Background()).Err() != nil; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			panic("redis-server does not answer")
		}
	}
}

func (s *server) kill() {
	s.process.Process.Kill()
	s.process.Wait()
}

func (s *server) client() *redis.Client { return redis.NewClient(&redis.Options{Addr: s.address}) }

func storeAt(address string) *Redis {
	// Without timeouts of the client's: what ends a command is its context.
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
	kill func() // end, without a word to the store
}

func runAt(t *testing.T, address string, number uint16, interval time.Duration) running {
	t.Helper()
	return run(t, address, Options{Config: config(number), Interval: interval})
}

func run(t *testing.T, address string, options Options) running {
	t.Helper()
	store := storeAt(address)
	options.Store = store
	if options.Post == nil {
		options.Post = store
	}
	if options.Relay == nil {
		options.Relay = store
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
		if err := end(); err != nil && !errors.Is(err, context.Canceled) {
			t.Log(err)
		}
	})
	return running{node, end, func() { store.Close(); end() }}
}

// play decides and answers so often.
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

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("never: " + what)
		}
	}
}

// released are the rewards in a snapshot's releases, of each arm.
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

// agree: all know what all have released, and those that have ended, and each reward once. That holds for good only
// when nobody plays. Means are in each other's intervals, not the same: how a node weighs what it has released itself,
// and what others have, of which it keeps twelve pairs an arm, is not the same.
func agree(nodes []running, ended ...[]byte) bool {
	snapshots := slices.Clone(ended)
	for _, node := range nodes {
		snapshots = append(snapshots, must(node.Bandit.Snapshot(nil)))
	}
	close := func(x, y, within float64) bool { return math.Abs(x-y) <= within || math.IsNaN(x) && math.IsNaN(y) }
	rewards := released(snapshots...)
	first := must(nodes[0].Bandit.Arms())
	for _, node := range nodes {
		for i, arm := range must(node.Bandit.Arms()) {
			if !close(arm.EffectivePulls, rewards[i], 1e-6*rewards[i]) || !close(arm.Mean, first[i].Mean, arm.Width) {
				return false
			}
		}
	}
	return true
}

// child is a node in a process of its own that plays until it is killed.
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
