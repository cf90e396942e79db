package fleet

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// tcpServer is a redis-server at a port of its own.
type tcpServer struct {
	*redis.Client
	port string
}

// freePort returns a port that is free now. It may be taken later.
func freePort() string {
	listener := must(net.Listen("tcp", "127.0.0.1:0"))
	defer listener.Close()
	return strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)
}

// A server ends when its replica has all that it has, and its sentinel promotes the replica: the fleet follows. (The
// simulator sees replicas that lag.)
func TestSentinel(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("skipped: redis-server not found")
	}
	ctx := context.Background()
	with := func(more ...string) func(string) []string {
		return func(port string) []string {
			return append([]string{"--port", port, "--repl-diskless-sync-delay", "0"}, more...)
		}
	}
	server := startServer(t, with())
	replica := startServer(t, with("--replicaof", "127.0.0.1", server.port))
	replicates := func(what string) func() bool {
		return func() bool { return strings.Contains(must(replica.Info(ctx, "replication").Result()), what) }
	}
	eventually(t, "the replica follows", replicates("master_link_status:up"))
	sentinel := startServer(t, func(port string) []string {
		file := filepath.Join(t.TempDir(), "sentinel")
		check(os.WriteFile(file, fmt.Appendf(nil, "sentinel monitor ads 127.0.0.1 %s 1\n"+
			"sentinel down-after-milliseconds ads 500\n"+
			// On a busy machine it may believe that the replica is down too. Then it tries again after twice the next time.
			"sentinel failover-timeout ads 2000\n", server.port), 0o600))
		return []string{file, "--sentinel", "--port", port}
	})
	eventually(t, "the sentinel knows both", func() bool {
		return len(must(sentinel.Do(ctx, "SENTINEL", "REPLICAS", "ads").Slice())) == 1
	})
	var nodes []running
	for number := range uint16(2) {
		options := redis.UniversalOptions{Addrs: []string{"127.0.0.1:" + sentinel.port}, MasterName: "ads"}
		store := NewRedis(&options, "test")
		t.Cleanup(func() { store.Close() })
		nodes = append(nodes, runOn(t, store, Options{Config: keyed(number + 1), Delay: time.Second}))
	}
	eventually(t, "they have met", func() bool { return nodes[0].Metrics().Nodes+nodes[1].Metrics().Nodes == 4 })
	learn(t, nodes, 500)
	server.Do(ctx, "SHUTDOWN", "NOSAVE")
	check(nodes[0].Update(must(nodes[1].Bandit.Select()).Ticket, 1))
	eventually(t, "the replica takes over", replicates("role:master"))
	eventually(t, "a reward arrives", func() bool { return nodes[1].Metrics().Received == 1 })
	learn(t, nodes, 500)
}

// startServer starts a redis-server with these options. It tries again if a port was taken.
func startServer(t *testing.T, options func(port string) []string) tcpServer {
	directory := must(os.MkdirTemp("", "dpb"))
	t.Cleanup(func() { os.RemoveAll(directory) })
	for end := time.Now().Add(testTimeout); time.Now().Before(end); {
		s := tcpServer{port: freePort()}
		process := exec.Command("redis-server", append(options(s.port), "--bind", "127.0.0.1", "--dir", directory,
			"--save", "", "--logfile", directory+"/log")...)
		check(process.Start())
		ended := make(chan struct{})
		go func() { process.Wait(); close(ended) }()
		s.Client = redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + s.port})
		own := fmt.Sprintf("process_id:%d\r", process.Process.Pid) // another one may have the port
		for running := true; running && time.Now().Before(end); time.Sleep(time.Millisecond) {
			if strings.Contains(s.Info(context.Background(), "server").Val(), own) {
				t.Cleanup(func() { s.Close(); process.Process.Kill(); <-ended })
				return s
			}
			select {
			case <-ended: // a port was taken
				running = false
			default:
			}
		}
		s.Close()
		process.Process.Kill()
		<-ended
	}
	t.Fatal("no redis-server starts")
	return tcpServer{}
}

// A cluster of three servers keeps all keys of a bandit on one of them, which has a replica. A fleet that knows only another
// one learns with one noise, and forwards rewards: also when the replica has taken over, and when the cluster has moved the
// keys. It moves the decisions of a node that ends.
func TestCluster(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("skipped: redis-server not found")
	}
	ctx := context.Background()
	var servers []tcpServer
	var buses []string
	for i := range 4 {
		var bus string
		server := startServer(t, func(port string) []string {
			bus = freePort()
			return []string{"--port", port, "--cluster-enabled", "yes", "--cluster-port", bus,
				"--cluster-node-timeout", "2000", "--repl-diskless-sync-delay", "0"}
		})
		servers, buses = append(servers, server), append(buses, bus)
		if i == 3 {
			break
		}
		check(server.Do(ctx, "CLUSTER", "ADDSLOTSRANGE", i*16384/3, (i+1)*16384/3-1).Err())
		check(server.Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", i+1).Err())
	}
	for _, server := range servers {
		for i, other := range servers {
			check(server.Do(ctx, "CLUSTER", "MEET", "127.0.0.1", other.port, buses[i]).Err())
		}
	}
	for _, server := range servers {
		eventually(t, "the cluster works", func() bool {
			info := must(server.ClusterInfo(ctx).Result())
			return strings.Contains(info, "cluster_state:ok") && strings.Contains(info, "cluster_known_nodes:4")
		})
	}
	keys := func() (counts []int64) {
		for _, server := range servers[:3] {
			counts = append(counts, must(server.DBSize(ctx).Result()))
		}
		return counts
	}
	slot := must(servers[0].ClusterKeySlot(ctx, "dpb:{test}").Result())
	owner, other, replica := servers[slot*3/16384], servers[(slot*3/16384+1)%3], servers[3]
	id := func(server tcpServer) string { return must(server.Do(ctx, "CLUSTER", "MYID").Text()) }
	check(replica.ClusterReplicate(ctx, id(owner)).Err())
	for _, server := range servers {
		eventually(t, "all know the replica", func() bool {
			return len(must(server.Do(ctx, "CLUSTER", "REPLICAS", id(owner)).Slice())) == 1
		})
	}
	var nodes []running
	for number := range uint16(2) {
		store := NewRedis(&redis.UniversalOptions{Addrs: []string{"127.0.0.1:" + other.port}, IsClusterMode: true}, "test")
		t.Cleanup(func() { store.Close() })
		nodes = append(nodes, runOn(t, store, Options{Config: keyed(number + 1), Delay: time.Second}))
	}
	eventually(t, "they have met", func() bool {
		one, two := nodes[0].Metrics(), nodes[1].Metrics()
		return one.Nodes == 2 && two.Nodes == 2 && one.Leader > 0 && one.Leader == two.Leader
	})
	learn(t, nodes, 500)
	forward := func(rewards uint64, during func()) {
		check(nodes[0].Update(must(nodes[1].Bandit.Select()).Ticket, 1))
		during()
		eventually(t, fmt.Sprint("forwarded reward ", rewards), func() bool { return nodes[1].Metrics().Received == rewards })
	}
	forward(1, func() {})
	if counts := keys(); counts[slot*3/16384] == 0 || counts[0]*counts[1]+counts[1]*counts[2]+counts[0]*counts[2] != 0 {
		t.Error(counts)
	}
	eventually(t, "the replica follows", func() bool {
		return strings.Contains(must(replica.Info(ctx, "replication").Result()), "master_link_status:up")
	})
	owner.Do(ctx, "SHUTDOWN", "NOSAVE")
	forward(2, func() {})
	check(other.Do(ctx, "CLUSTER", "SETSLOT", slot, "IMPORTING", id(replica)).Err())
	check(replica.Do(ctx, "CLUSTER", "SETSLOT", slot, "MIGRATING", id(other)).Err())
	for _, key := range must(replica.ClusterGetKeysInSlot(ctx, int(slot), 100).Result()) {
		check(replica.Migrate(ctx, "127.0.0.1", other.port, key, 0, testTimeout).Err())
	}
	// A client has come by an ASK redirection. (Its script runs only if all its keys exist.)
	isAsked := func() bool {
		return strings.Contains(must(other.Info(ctx, "commandstats").Result()), "cmdstat_asking:")
	}
	if isAsked() {
		t.Error("asked before the keys move")
	}
	forward(3, func() {
		eventually(t, "a client follows to where the keys are", isAsked)
		for _, server := range []tcpServer{other, replica} {
			check(server.Do(ctx, "CLUSTER", "SETSLOT", slot, "NODE", id(other)).Err())
		}
	})
	open := must(nodes[1].Bandit.Select()).Ticket
	check(nodes[1].end())
	eventually(t, "the other node continues", func() bool { return nodes[0].Metrics().Draining == 1 })
	check(nodes[0].Update(open, 1))
	eventually(t, "nothing is open", func() bool { return nodes[0].Metrics().Draining == 0 })
	// A client of one server only is told where the keys are.
	single := storeAt("127.0.0.1:" + replica.port)
	defer single.Close()
	if err := Leave(ctx, single, 1); err == nil || !strings.Contains(err.Error(), "MOVED") {
		t.Error(err)
	}
}
