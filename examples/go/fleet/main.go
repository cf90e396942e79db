// Ad servers that learn together which ads are clicked, with differential privacy for the clicks. Install
// redis-server, run `make go` in the top directory of the checkout, and then:
//
//	cd examples/go/fleet
//	go run . --demo 4
//
// This starts a Redis of its own, four servers and their visitors, and prints the address of each server. A server's
// live page shows what it knows, and what each server has released. If you stop a server and start it again, or stop
// Redis, the other servers continue.
//
// To start each process yourself:
//
//	go run . --redis localhost:6379 --node 1 --port 8081
//	go run . --redis localhost:6379 --node 2 --port 8082
//	go run . --visit http://127.0.0.1:8081,http://127.0.0.1:8082
//
// Without --node a server takes the lowest number that is free. If a server was killed, the others wait for it for 30
// seconds. To tell them that server 2 has ended:
//
//	go run . --redis localhost:6379 leave 2
//
// GET /ad chooses a creative. GET /click/<ticket> reports a click to any server, which forwards it to the server that
// decided. GET /readyz reports whether the server can forward clicks. GET /metrics and the live page have released
// values only, and /privacy and /privacy.json say what is guaranteed.
//
// The environment variables REDIS_USERNAME and REDIS_PASSWORD set the user and the password. --tls connects with TLS.
// Tickets and clicks travel through Redis, so use both in everything but a demonstration: see
// docs/privacy/store.md. With --fleet-key-file FILE one server releases what all servers collect, with one
// noise, and clicks are sealed while they travel.
//
// This server has no protection against malicious visitors. examples/go/adserver has.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"html/template"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	dpb "github.com/libdpb/libdpb/bindings/go"
	"github.com/libdpb/libdpb/bindings/go/fleet"
	dpbprometheus "github.com/libdpb/libdpb/bindings/go/prometheus"
	fleetprometheus "github.com/libdpb/libdpb/bindings/go/prometheus/fleet"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/redis/go-redis/v9"
)

// The creatives, and the rates at which the visitors of --visit click them.
var creatives = []struct {
	Name string
	rate float64
}{{"mountain bike", .05}, {"espresso machine", .04}, {"rain jacket", .10}, {"chess lessons", .03}, {"garden hose", .05}}

// The bandit's name in Redis and on the page of metrics. The C++ ad servers have other creatives, so their bandit has
// another name: ads.
const name = "go-ads"

func main() {
	address := flag.String("redis", "localhost:6379", "`ADDRESS` of Redis")
	secure := flag.Bool("tls", false, "connect to Redis with TLS")
	number := flag.Uint("node", 0, "serve as node `N`, 1 to 65535; 0: the lowest that is free")
	port := flag.Uint("port", 0, "on this `PORT`; 0: any free one")
	keyFile := flag.String("fleet-key-file", "", "one server releases what all servers collect, with one noise: "+
		"`FILE` has 32 secret random bytes or 64 hexadecimal digits, the same for all servers")
	interval := flag.Duration("interval", time.Second, "between two exchanges")
	visit := flag.String("visit", "", "visit these `URLS`, with commas between")
	demo := flag.Int("demo", 0, "start Redis, `N` servers and their visitors")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	options := redis.UniversalOptions{
		Addrs: []string{*address}, Username: os.Getenv("REDIS_USERNAME"), Password: os.Getenv("REDIS_PASSWORD"),
	}
	if *secure {
		options.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	switch {
	case flag.Arg(0) == "leave" && flag.NArg() == 2:
		err = leave(ctx, &options, flag.Arg(1))
	case flag.NArg() > 0:
		fmt.Fprintln(os.Stderr, "there is no option", flag.Arg(0))
		flag.Usage()
		os.Exit(2)
	case *demo > 0:
		err = demonstrate(ctx, *demo, *interval)
	case *visit != "":
		visitors(ctx, strings.Split(*visit, ","))
	default:
		var key *[32]byte
		if *keyFile != "" {
			key, err = fleet.ReadKey(*keyFile)
		}
		if err == nil {
			err = serve(ctx, &options, key, *number, *port, *interval)
		}
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// leave tells the other servers that this one has ended.
func leave(ctx context.Context, options *redis.UniversalOptions, text string) error {
	number, err := strconv.ParseUint(text, 10, 16)
	if err != nil || number == 0 {
		return fmt.Errorf("leave: must be a number from 1 to 65535, got %s", text)
	}
	store := fleet.NewRedis(options, name)
	defer store.Close()
	return fleet.Leave(ctx, store, uint16(number))
}

type server struct {
	node  *fleet.Node
	redis redis.UniversalClient
}

func serve(
	ctx context.Context, options *redis.UniversalOptions, key *[32]byte, number, port uint, interval time.Duration,
) error {
	config := dpb.NewConfig(uint32(len(creatives)), 1) // epsilon = 1, for the whole fleet
	config.RewardBits = 0                              // a click or none
	config.ClampRewards = true
	config.RewardWindow = 200 // no click within the next 200 ads of this server: reward 0
	config.Node = uint64(number)
	config.FleetKey = key
	store := fleet.NewRedis(options, name)
	defer store.Close()
	node, err := fleet.Join(ctx, fleet.Options{Store: store, Config: config, Interval: interval})
	if err != nil {
		return err
	}
	defer node.Close()
	listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return err
	}
	s := server{node, redis.NewUniversalClient(options)}
	defer s.redis.Close()
	registry := prometheus.NewRegistry()
	registry.MustRegister(dpbprometheus.NewCollector(map[string]*dpb.Bandit{name: s.node.Bandit}),
		fleetprometheus.NewCollector(map[string]*fleet.Node{name: s.node}))
	pages := http.NewServeMux()
	pages.HandleFunc("/ad", s.show)
	pages.HandleFunc("/click/", s.click)
	pages.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	pages.HandleFunc("/privacy", stated(s.node.Bandit.StatementText, "text/plain; charset=utf-8"))
	pages.HandleFunc("/privacy.json", stated(s.node.Bandit.Statement, "application/json"))
	pages.HandleFunc("/readyz", s.ready)
	pages.HandleFunc("/{$}", s.page)
	web := &http.Server{Handler: onlyGet(pages), ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan error, 2)
	running, stop := context.WithCancel(context.Background())
	defer stop()
	go func() { ended <- node.Sync(running) }()
	go func() { ended <- web.Serve(listener) }()
	fmt.Printf("node %d: http://%s\n", node.Number(), listener.Addr())
	select {
	case <-ctx.Done(): // first complete the responses, then hand over what this node has collected
		last, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if web.Shutdown(last) != nil {
			web.Close()
		}
		<-ended
		stop()
		return <-ended
	case err = <-ended: // another process has this node's number, or an error of the web server
	}
	stop()
	web.Close()
	<-ended
	return err
}

// onlyGet refuses other methods. The pattern "GET /ad" would also match HEAD, which shows nobody an ad.
func onlyGet(pages http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			w.Header().Set("Allow", http.MethodGet)
			http.Error(w, "only GET is served", http.StatusMethodNotAllowed)
			return
		}
		pages.ServeHTTP(w, r)
	})
}

func (s server) show(w http.ResponseWriter, _ *http.Request) {
	decision, err := s.node.Bandit.Select()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	json.NewEncoder(w).Encode(map[string]any{
		"arm": decision.Arm, "creative": creatives[decision.Arm].Name,
		"click_url": fmt.Sprintf("/click/%016x", decision.Ticket),
	})
}

func (s server) ready(w http.ResponseWriter, _ *http.Request) {
	if !s.node.Ready() {
		http.Error(w, "clicks cannot be forwarded", http.StatusServiceUnavailable)
	}
}

// stated says what the server guarantees.
func stated(state func() (string, error), kind string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		text, err := state()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", kind)
		io.WriteString(w, text)
	}
}

// click always gives the same response, because the status reveals whether the ticket was clicked already.
func (s server) click(w http.ResponseWriter, r *http.Request) {
	text := strings.TrimPrefix(r.URL.EscapedPath(), "/click/")
	if ticket, err := strconv.ParseUint(text, 16, 64); err == nil && len(text) == 16 {
		_ = s.node.Update(ticket, 1) // the operator's counts have refused and lost clicks
	}
	w.WriteHeader(http.StatusNoContent)
}

var page = template.Must(template.New("").Funcs(template.FuncMap{
	"percent": func(mean float64) string { return fmt.Sprintf("%.1f %%", 100*mean) },
}).Parse(`<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta http-equiv="refresh" content="1"><title>A fleet</title>
<style>
body { color-scheme: light dark; font: 15px/1.4 system-ui, sans-serif; margin: 1rem }
h1 { font-size: 1.4rem }
div { overflow-x: auto }
td, th { padding: .3em .4em; text-align: right; vertical-align: top }
td { white-space: nowrap }
th { font-weight: normal }
th:first-child { padding-left: 0; text-align: left }
small { display: block; opacity: .7 }
@media (max-width: 30rem) { table { font-size: .8rem } }
</style>
<h1>What this node knows, and what each has released</h1>
<p>The click rate of each ad, and of how many shown ads</p>
<div><table><tr><th><th>this node knows{{range .Nodes}}<th>node {{.}}{{end}}</tr>
{{range .Rows}}<tr><th>{{.Name}}{{range .Arms}}<td>{{if .EffectivePulls}}{{percent .Mean}}` +
	`<small>of {{printf "%.0f" .EffectivePulls}}</small>{{else}}–{{end}}{{end}}</tr>
{{end}}</table></div>
<p>{{printf "%.1f" .Metrics.Age.Seconds}} s since the last exchange; exchanges: {{.Metrics.Exchanges}}` +
	`{{with .RedisError}}; Redis: {{.}}{{end}}</p></html>
`))

type row struct {
	Name string
	Arms []dpb.Arm
}

// page shows released values only: those that this node knows, and those in Redis.
func (s server) page(w http.ResponseWriter, r *http.Request) {
	known, err := s.node.Bandit.Arms()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	columns, nodes := [][]dpb.Arm{known}, []string{}
	ctx, cancel := context.WithTimeout(r.Context(), time.Second)
	defer cancel()
	snapshots, redisErr := s.redis.HGetAll(ctx, "dpb:{"+name+"}:snapshots").Result()
	for _, node := range slices.Sorted(maps.Keys(snapshots)) {
		bandit, err := dpb.Restore([]byte(snapshots[node]))
		if err != nil {
			continue // an incompatible node
		}
		if arms, err := bandit.Arms(); err == nil && len(arms) == len(creatives) {
			columns, nodes = append(columns, arms), append(nodes, node)
		}
		bandit.Close()
	}
	rows := make([]row, len(creatives))
	for i := range rows {
		rows[i].Name = creatives[i].Name
		for _, column := range columns {
			rows[i].Arms = append(rows[i].Arms, column[i])
		}
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	page.Execute(w, map[string]any{"Rows": rows, "Nodes": nodes, "Metrics": s.node.Metrics(), "RedisError": redisErr})
}

// visitors request ads from one server after the other, and report clicks to random servers.
func visitors(ctx context.Context, urls []string) {
	get := func(url string) []byte {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return nil
		}
		reply, err := http.DefaultClient.Do(request)
		if err != nil {
			return nil
		}
		defer reply.Body.Close()
		body, _ := io.ReadAll(reply.Body)
		return body
	}
	for i := 0; ctx.Err() == nil; i++ {
		var ad struct {
			Arm   int
			Click string `json:"click_url"`
		}
		if json.Unmarshal(get(urls[i%len(urls)]+"/ad"), &ad) != nil {
			time.Sleep(10 * time.Millisecond) // the server does not respond
		} else if rand.Float64() < creatives[ad.Arm].rate {
			get(urls[rand.N(len(urls))] + ad.Click)
		}
		time.Sleep(200 * time.Microsecond)
	}
}

func demonstrate(ctx context.Context, nodes int, interval time.Duration) error {
	directory, err := os.MkdirTemp("", "fleet")
	if err != nil {
		return err
	}
	defer os.RemoveAll(directory)
	socket := filepath.Join(directory, "redis") // other users cannot connect to it
	store := exec.Command("redis-server", "--port", "0", "--unixsocket", socket, "--unixsocketperm", "700",
		"--save", "", "--dir", directory)
	store.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C must not end it before the nodes have left
	if err := store.Start(); err != nil {
		return err
	}
	defer end(store)
	for range 500 {
		if _, err := os.Stat(socket); err == nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	var urls []string
	for number := range nodes {
		node := exec.Command(os.Args[0], "--redis", socket, "--node", strconv.Itoa(number+1),
			"--interval", interval.String())
		node.Stderr = os.Stderr
		output, err := node.StdoutPipe()
		if err != nil {
			return err
		}
		if err := node.Start(); err != nil {
			return err
		}
		defer end(node)
		line, err := bufio.NewReader(output).ReadString('\n')
		if err != nil {
			return fmt.Errorf("node %d has ended", number+1)
		}
		fmt.Print(line)
		urls = append(urls, line[strings.Index(line, "http"):len(line)-1])
	}
	visitors(ctx, urls)
	return nil
}

func end(process *exec.Cmd) {
	process.Process.Signal(syscall.SIGTERM)
	process.Wait()
}
