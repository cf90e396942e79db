package fleet

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	dpb "github.com/libdpb/libdpb/bindings/go"
	"github.com/redis/go-redis/v9"
)

// proxy is a network between a node and Redis that a test can cut: connections close, or carry nothing, or lose
// replies.
type proxy struct {
	address string
	mu      sync.Mutex
	cut     bool
	silent  bool
	lossy   bool // one reply in eight is lost, and its connection closes
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
			go p.carry(from, server, false)
			go p.carry(server, from, true)
		}
	}()
	return p
}

func (p *proxy) carry(from, to net.Conn, replies bool) {
	defer from.Close()
	defer to.Close()
	buffer := make([]byte, 1<<16)
	for {
		n, err := from.Read(buffer)
		p.mu.Lock()
		healed, silent, lossy := p.changed, p.cut && p.silent, p.lossy
		p.mu.Unlock()
		if silent {
			<-healed // what was on the way is lost
			return
		}
		if err != nil || replies && lossy && rand.N(8) == 0 {
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
	p.cut, p.lossy = false, false
	close(p.changed)
	p.changed = make(chan struct{})
}

// Whatever happens to Redis, nodes decide, and once it is over they know the same, each reward once. A reward that is
// reported meanwhile arrives.
func TestRedisFails(t *testing.T) {
	ctx := context.Background()
	do := func(t *testing.T, s *server, words ...any) {
		client := s.client()
		defer client.Close()
		check(client.Do(ctx, words...).Err())
	}
	for name, fault := range map[string]struct {
		says        string // the error in the report; "": none
		forgets     bool   // Redis is empty afterwards, so what was open then is cancelled
		begin, heal func(*testing.T, *server, *proxy)
	}{
		"READONLY": {"READONLY", false,
			func(t *testing.T, s *server, _ *proxy) { do(t, s, "REPLICAOF", "127.0.0.1", "1") },
			func(t *testing.T, s *server, _ *proxy) { do(t, s, "REPLICAOF", "NO", "ONE") }},
		"OOM": {"OOM", false,
			func(t *testing.T, s *server, _ *proxy) { do(t, s, "CONFIG", "SET", "maxmemory", "1") },
			func(t *testing.T, s *server, _ *proxy) { do(t, s, "CONFIG", "SET", "maxmemory", "0") }},
		"a foreign key": {"WRONGTYPE", false,
			func(t *testing.T, s *server, _ *proxy) { do(t, s, "SET", "dpb:{test}:records", "x") },
			func(t *testing.T, s *server, _ *proxy) { do(t, s, "DEL", "dpb:{test}:records") }},
		"SCRIPT FLUSH": {"", false, func(t *testing.T, s *server, _ *proxy) { do(t, s, "SCRIPT", "FLUSH") }, nil},
		"FLUSHALL":     {"", true, func(t *testing.T, s *server, _ *proxy) { do(t, s, "FLUSHALL") }, nil},
		"hangs": {"no reply", false,
			func(_ *testing.T, s *server, _ *proxy) { check(s.process.Process.Signal(syscall.SIGSTOP)) },
			func(_ *testing.T, s *server, _ *proxy) { check(s.process.Process.Signal(syscall.SIGCONT)) }},
		"dies": {"EOF", true,
			func(_ *testing.T, s *server, _ *proxy) { s.kill() },
			func(_ *testing.T, s *server, _ *proxy) { s.start() }},
		"is cut off": {"EOF", false,
			func(_ *testing.T, _ *server, p *proxy) { p.sever(false) },
			func(_ *testing.T, _ *server, p *proxy) { p.heal() }},
		"is cut off silently": {"no reply", false,
			func(_ *testing.T, _ *server, p *proxy) { p.sever(true) },
			func(_ *testing.T, _ *server, p *proxy) { p.heal() }},
	} {
		t.Run(name, func(t *testing.T) {
			server := startRedis(t)
			network := startProxy(t, server.address)
			nodes := []running{
				run(t, network.address, Options{Config: keyed(1)}), run(t, server.address, Options{Config: keyed(2)}),
			}
			learn(t, nodes, 500)
			ticket := must(nodes[1].Bandit.Select()).Ticket
			eventually(t, "they know each other", func() bool { return nodes[0].Update(ticket, 1) == nil })
			eventually(t, "a reward arrives", func() bool { return nodes[1].Metrics().Received == 1 })
			before := nodes[0].Metrics()
			fault.begin(t, server, network)
			if fault.says != "" {
				eventually(t, "it says why", func() bool {
					m := nodes[0].Metrics()
					return strings.Contains(m.LastError, fault.says) && m.Failures >= before.Failures+3
				})
			}
			check(nodes[0].Update(must(nodes[1].Bandit.Select()).Ticket, 1))
			for _, node := range nodes {
				play(node.Bandit, 100)
			}
			if fault.heal != nil {
				fault.heal(t, server, network)
			}
			eventually(t, "exchanges", func() bool { return nodes[0].Metrics().Exchanges >= before.Exchanges+4 })
			eventually(t, "the reward arrives", func() bool {
				m := nodes[1].Metrics()
				return m.Received == 2 || fault.forgets && m.Refused == 1
			})
			learn(t, nodes, 500)
			eventually(t, "all know the same", func() bool { return agree(nodes) })
		})
	}
}

// Replies are lost after their commands have run. All that was reported counts, and once.
func TestRepliesAreLost(t *testing.T) {
	server := startRedis(t)
	network := startProxy(t, server.address)
	precise := func(node uint16) dpb.Config {
		config := keyed(node)
		config.Epsilon = 1e4 // a batch is small, so that few rewards stay in one
		return config
	}
	var nodes []running
	for number := range uint16(2) {
		nodes = append(nodes, run(t, network.address, Options{Config: precise(number + 1)}))
	}
	eventually(t, "they have met", func() bool { return nodes[0].Metrics().Nodes+nodes[1].Metrics().Nodes == 4 })
	network.mu.Lock()
	network.lossy = true
	network.mu.Unlock()
	reported := 0.0
	for until := nodes[0].Metrics().Failures + 20; nodes[0].Metrics().Failures < until; {
		before := nodes[1].Metrics().Exchanges
		for i, node := range nodes {
			play(node.Bandit, 10)
			check(nodes[1-i].Update(must(node.Bandit.Select()).Ticket, 1))
			reported += 11
		}
		eventually(t, "an exchange", func() bool { return nodes[1].Metrics().Exchanges > before })
	}
	network.heal()
	settled := func() bool { return agree(nodes) && known(nodes[0]) > .9*reported }
	eventually(t, "what was reported counts", func() bool {
		// The last batches are full some time.
		return settled() || func() bool { play(nodes[0].Bandit, 1); reported++; return false }()
	})
	var received uint64
	for _, node := range nodes {
		m := node.Metrics()
		received += m.Received
		if m.Refused != 0 || m.Unsent != 0 {
			t.Errorf("%+v", m)
		}
	}
	answered := float64(must(nodes[0].Bandit.Report()).Answered + must(nodes[1].Bandit.Report()).Answered)
	if answered != reported || known(nodes[0]) > reported+1e-6 || received == 0 {
		t.Error(answered, known(nodes[0]), reported, received)
	}
}

// The bandit's name, and what keys and arguments have, are bytes.
func TestNamesAreBytes(t *testing.T) {
	server := startRedis(t)
	name := "ä \"b\"\n\r\n$3 \t*"
	for range 2 { // the second continues from the first one's snapshot, which has every byte
		store := NewRedis(&redis.UniversalOptions{Addrs: []string{server.address}}, name)
		t.Cleanup(func() { store.Close() })
		node := runOn(t, store, Options{Config: keyed(1)})
		learn(t, []running{node}, 1000)
		check(node.end())
	}
	client := server.client()
	defer client.Close()
	keys := must(client.Keys(context.Background(), "*").Result())
	for _, key := range keys {
		if !strings.HasPrefix(key, "dpb:{"+name+"}:") {
			t.Errorf("%q", key)
		}
	}
	if len(keys) < 4 {
		t.Error(keys)
	}
}

// The permissions in README.md for a Redis user suffice for all that nodes do, and do not cover another bandit.
func TestPermissions(t *testing.T) {
	server := startRedis(t)
	client := server.client()
	defer client.Close()
	ctx := context.Background()
	_, line, _ := strings.Cut(string(must(os.ReadFile("README.md"))), "\nuser ads on >PASSWORD ")
	line, _, _ = strings.Cut(line, "\n")
	rule := []any{"ACL", "SETUSER", "test", "on", ">secret"}
	for _, word := range strings.Fields(strings.ReplaceAll(line, "{ads}", "{test}")) {
		rule = append(rule, word)
	}
	check(client.Do(ctx, rule...).Err())
	check(client.Do(ctx, "ACL", "SETUSER", "default", "off").Err())
	as := func(name string) *Redis {
		options := redis.UniversalOptions{Addrs: []string{server.address}, Username: "test", Password: "secret"}
		store := NewRedis(&options, name)
		t.Cleanup(func() { store.Close() })
		return store
	}
	var nodes []running
	for number := range uint16(3) {
		nodes = append(nodes, runOn(t, as("test"), Options{Config: keyed(number + 1)}))
	}
	eventually(t, "they have met", func() bool { return nodes[0].Metrics().Nodes == 3 && nodes[0].Metrics().Leader > 0 })
	learn(t, nodes, 500)
	check(nodes[0].Update(must(nodes[1].Bandit.Select()).Ticket, 1))
	eventually(t, "a reward arrives", func() bool { return nodes[1].Metrics().Received > 0 })
	must(nodes[2].Bandit.Select())
	check(nodes[2].end()) // another node continues
	eventually(t, "a state moves", func() bool { return nodes[0].Metrics().Draining+nodes[1].Metrics().Draining == 1 })
	check(Leave(ctx, as("test"), 2))
	for _, node := range nodes {
		if m := node.Metrics(); strings.Contains(m.LastError, "NOPERM") || strings.Contains(m.LastError, "can't run") {
			t.Error(m.LastError)
		}
	}
	limited, cancel := context.WithTimeout(ctx, 10*interval)
	defer cancel()
	_, err := Join(limited, Options{Store: as("other"), Config: config(1)})
	if err == nil || !strings.Contains(err.Error(), "NOPERM") {
		t.Error(err)
	}
	nobody := storeAt(server.address)
	defer nobody.Close()
	if err := nobody.client.Ping(ctx).Err(); err == nil {
		t.Error("connected without a password")
	}
}

// Redis without its password is NOAUTH, also if the first command is a script, whose arguments Redis calls a protocol
// error then.
func TestNoPassword(t *testing.T) {
	server := startRedis(t)
	client := server.client()
	defer client.Close()
	check(client.Do(context.Background(), "CONFIG", "SET", "requirepass", "secret").Err())
	for password, want := range map[string]string{"": "NOAUTH", "wrong": "WRONGPASS"} {
		store := NewRedis(&redis.UniversalOptions{
			Addrs: []string{server.address}, Password: password,
			OnConnect: func(context.Context, *redis.Conn) error { t.Error("connected"); return nil },
		}, "test")
		ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
		if err := Leave(ctx, store, 7); err == nil || !strings.Contains(err.Error(), want) {
			t.Error(err)
		}
		cancel()
		store.Close()
	}
}

// A fleet over TLS. Without the server's certificate nobody connects.
func TestTLS(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"redis-server", "openssl"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip("skipped: " + tool + " not found")
		}
	}
	directory := t.TempDir()
	key, certificate := filepath.Join(directory, "key"), filepath.Join(directory, "certificate")
	check(exec.Command("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=redis",
		"-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate).Run())
	authorities := x509.NewCertPool()
	authorities.AppendCertsFromPEM(must(os.ReadFile(certificate)))
	s := startServer(t, func(port string) []string {
		return []string{"--port", "0", "--tls-port", port, "--tls-cert-file", certificate, "--tls-key-file", key,
			"--tls-ca-cert-file", certificate, "--tls-auth-clients", "no"}
	}, &tls.Config{RootCAs: authorities})
	var nodes []running
	for number := range uint16(2) {
		options := redis.UniversalOptions{Addrs: []string{"127.0.0.1:" + s.port}, TLSConfig: &tls.Config{RootCAs: authorities}}
		store := NewRedis(&options, "test")
		t.Cleanup(func() { store.Close() })
		nodes = append(nodes, runOn(t, store, Options{Config: keyed(number + 1)}))
	}
	eventually(t, "they have met", func() bool { return nodes[0].Metrics().Nodes == 2 && nodes[1].Metrics().Nodes == 2 })
	learn(t, nodes, 500)
	check(nodes[0].Update(must(nodes[1].Bandit.Select()).Ticket, 1))
	eventually(t, "a reward arrives", func() bool { return nodes[1].Metrics().Received == 1 })
	for _, config := range []*tls.Config{nil, {}} {
		stranger := NewRedis(&redis.UniversalOptions{Addrs: []string{"127.0.0.1:" + s.port}, TLSConfig: config}, "test")
		if err := Leave(context.Background(), stranger, 1); err == nil {
			t.Error("connected without the certificate")
		}
		stranger.Close()
	}
}
