package fleet

import (
	"bytes"
	"cmp"
	"context"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	dpb "github.com/libdpb/libdpb/bindings/go"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
)

const interval, delay = 100 * time.Millisecond, 200 * time.Millisecond

// A test fails if something that must happen takes longer than this. It is no limit on performance.
const testTimeout = 2 * time.Minute

func TestMain(m *testing.M) {
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

func keyed(node uint16) dpb.Config {
	config := config(node)
	config.FleetKey = &[32]byte{1}
	return config
}

// running is a node whose Sync runs.
type running struct {
	*Node
	end func() error // hands over, and returns Sync's error
}

// join makes a node with short times, unless options have others.
func join(t *testing.T, store Store, options Options) *Node {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	options.Store, options.Logger = store, cmp.Or(options.Logger, slog.New(slog.DiscardHandler))
	options.Interval, options.Delay = cmp.Or(options.Interval, interval), cmp.Or(options.Delay, delay)
	node, err := Join(ctx, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { node.Close() })
	return node
}

func run(t *testing.T, address string, options Options) running {
	t.Helper()
	store := storeAt(address)
	t.Cleanup(func() { store.Close() })
	return runOn(t, store, options)
}

func runOn(t *testing.T, store Store, options Options) running {
	t.Helper()
	node := join(t, store, options)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- node.Sync(ctx) }()
	return running{node, sync.OnceValue(func() error { cancel(); return <-done })}
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

// agree reports whether each node knows all releases of these nodes, each reward once, and whether all nodes have the
// same means, to the last bit. The result stays true only while no node plays.
func agree(nodes []running) bool {
	var snapshots [][]byte
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

// known returns the number of rewards in all releases that a node knows.
func known(node running) (rewards float64) {
	for _, arm := range must(node.Bandit.Arms()) {
		rewards += arm.EffectivePulls
	}
	return rewards
}

// learn makes all nodes play until the first knows this many more rewards.
func learn(t *testing.T, nodes []running, more float64) {
	t.Helper()
	goal := known(nodes[0]) + more
	eventually(t, "the fleet learns", func() bool {
		for _, node := range nodes {
			play(node.Bandit, 20)
		}
		return known(nodes[0]) >= goal
	})
}

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

func (l *lines) has(what string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.text.String(), what)
}

func (l *lines) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }
