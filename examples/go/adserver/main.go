// An ad server that learns which ad is clicked without giving away who clicked: libdpb with
// net/http. After `make go` at the top of the checkout:
//
//	cd examples/go/adserver
//	go run . --port 8080
//
// GET /ad picks a creative, GET /click/<ticket> reports the click, GET /report shows what is
// released and nothing else, / is a small page. A real server would also check who asks.
//
// What became of a click is for the operator alone: whoever reports one, in time, twice, late or
// made up, gets the same empty answer. With --operator-port the operator, and nobody from another
// machine, reads the counts of refused clicks at GET /diagnostics.
//
// With --snapshot FILE what was learned survives the server, and kill -9: see save.
//
// A day of visitors, with a change at noon: cargo run --release --example ad_server -- --visit
// http://127.0.0.1:8080
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	dpb "github.com/libdpb/libdpb/bindings/go"
)

const (
	// Half the time between changes, as is the rule: the best ad of the day changes after 100,000 visitors.
	usualMemory = 50_000
	// How long a visitor may take to send a request, to begin the next one, and to take an answer.
	patience = 10 * time.Second
	// How long those who are being answered may take when the server ends.
	grace = time.Second
	// Connections at a time; more wait until some are closed.
	maxConnections = 2000
	// Bytes of a request. None has a body.
	maxRequest = 16 << 10
)

var creatives = []string{
	"mountain bike", "espresso machine", "rain jacket", "chess lessons", "garden hose",
	"night train", "reading lamp", "bread knife", "wool socks", "folding kayak",
}

const page = `<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Private ads</title>
<h1>Private ads</h1>
<p><button onclick="more()">Show me an ad</button> <a id="ad"></a></p>
<pre id="report"></pre>
<script>
const by = id => document.getElementById(id);
async function more() {
  const ad = await (await fetch("/ad")).json();
  by("ad").textContent = ad.creative; by("ad").href = ad.click_url;
}
async function refresh() {
  by("report").textContent = JSON.stringify(await (await fetch("/report")).json(), null, 2);
  setTimeout(refresh, 1000);
}
refresh();
</script></html>
`

func main() {
	port := portFlag("port", "`N`; 0: any free one", 0)
	operatorPort := portFlag("operator-port", "serve the counts of refused clicks on port `N`, to this machine", -1)
	policy := dpb.Policy(0)
	flag.Func("policy", "`NAME`; the recommended one unless given; of "+fmt.Sprint(dpb.Policies()), func(name string) error {
		return policy.UnmarshalText([]byte(name))
	})
	var memory *uint64
	says := fmt.Sprintf("forget what `N` decisions ago was learned, 0: never (default %d where the policy can)", usualMemory)
	flag.Func("memory", says, func(text string) error {
		number, err := strconv.ParseUint(text, 10, 64)
		memory = &number
		return err
	})
	snapshot := flag.String("snapshot", "", "go on from this `FILE` if it is there, and write what is released to it")
	every := 10 * time.Second
	flag.Func("snapshot-every", "so often, every `MS` milliseconds, and at the end (default 10000)", func(text string) error {
		number, err := strconv.ParseUint(text, 10, 32)
		every = time.Duration(number) * time.Millisecond
		if err == nil && number == 0 {
			err = errors.New("must be at least 1")
		}
		return err
	})
	flag.Parse()
	if flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(*port, *operatorPort, policy, memory, *snapshot, every); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func portFlag(name, usage string, unset int) *int {
	port := unset
	flag.Func(name, usage, func(text string) error {
		number, err := strconv.ParseUint(text, 10, 16)
		port = int(number)
		return err
	})
	return &port
}

// newShop has the memory that was asked for; else the usual one, or none where that is refused. What is in the
// file comes before a fresh start, and what is wrong with the file ends it.
func newShop(policy dpb.Policy, memory *uint64, file string) (adServer, error) {
	config := dpb.NewConfig(uint32(len(creatives)), 1) // epsilon = 1
	config.Horizon = 200_000
	config.RewardBits = 0      // a click or none
	config.ClampRewards = true // a refused reward would leave its ticket open, for all to see
	config.AnswerWindow = 1000 // an ad not clicked while 1000 later ones were shown: no click
	construct := dpb.New       // the recommended one
	if policy != 0 {
		construct = func(config dpb.Config) (*dpb.Bandit, error) { return dpb.NewPolicy(policy, config) }
	}
	config.Memory = usualMemory
	if memory != nil {
		config.Memory = *memory
	}
	bandit, err := construct(config)
	if err != nil && memory == nil {
		config.Memory = 0
		bandit, err = construct(config)
	}
	if err != nil || file == "" {
		return adServer{bandit, config.Memory}, err
	}
	kept, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return adServer{bandit, config.Memory}, nil
	}
	if err == nil {
		policy, _ = dpb.ParsePolicy(bandit.PolicyName())
		bandit.Close()
		bandit, err = dpb.RestorePolicy(policy, config, kept)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", file, err)
	}
	return adServer{bandit, config.Memory}, err
}

// save: whatever happens, and whenever, the file holds the whole of this snapshot or of the one before.
func save(bandit *dpb.Bandit, file string) error {
	written, err := bandit.Snapshot(nil)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	beside, err := os.Create(file + ".new") // a rename does not cross file systems
	if err != nil {
		return err
	}
	_, err = beside.Write(written)
	err = errors.Join(err, beside.Sync(), beside.Close()) // before the name points there
	if err == nil {
		err = os.Rename(file+".new", file)
	}
	if err != nil {
		return err
	}
	directory, err := os.Open(filepath.Dir(file))
	if err != nil {
		return err
	}
	defer directory.Close()
	return directory.Sync() // now the name lasts, too
}

// keep saves now, and again and again until it is stopped, and then once more. An error of the first or the last
// time is one; between them it is said, and the next time may do.
func keep(bandit *dpb.Bandit, file string, every time.Duration) (stop func() error, err error) {
	if file == "" {
		return func() error { return nil }, nil
	}
	if err := save(bandit, file); err != nil {
		return nil, err
	}
	done, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for tick := time.NewTicker(every); ; {
			select {
			case <-tick.C:
				if err := save(bandit, file); err != nil {
					fmt.Fprintln(os.Stderr, err)
				}
			case <-done:
				return
			}
		}
	}()
	return func() error {
		close(done)
		<-stopped
		return save(bandit, file)
	}, nil
}

func run(port, operatorPort int, policy dpb.Policy, memory *uint64, snapshot string, every time.Duration) error {
	ads, err := newShop(policy, memory, snapshot)
	if err != nil {
		return err
	}
	defer ads.bandit.Close()

	stop, forget := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer forget()
	var servers []*http.Server
	ended := make(chan error, 2)
	open := func(port int, pages http.Handler, says string) error {
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			return err
		}
		server := newServer(pages)
		servers = append(servers, server)
		go func() { ended <- server.Serve(listener) }()
		fmt.Printf(says+"\n", listener.Addr())
		return nil
	}
	if err := open(port, ads.visitors(), "listening on http://%s"); err != nil {
		return err
	}
	if operatorPort >= 0 {
		says := "the operator's counts, not private: http://%s/diagnostics"
		if err := open(operatorPort, ads.operator(), says); err != nil {
			return err
		}
	}
	keeper, err := keep(ads.bandit, snapshot, every)
	if err != nil {
		return err
	}
	select {
	case <-stop.Done():
	case err := <-ended:
		return err
	}
	for _, server := range servers {
		finish(server)
	}
	if err := keeper(); err != nil {
		return err
	}
	fmt.Println("stopped")
	return nil
}

// newServer withstands slow visitors and many.
func newServer(pages http.Handler) *http.Server {
	places := make(chan struct{}, maxConnections)
	return &http.Server{
		Handler:           pages,
		ReadHeaderTimeout: patience,
		ReadTimeout:       patience,
		WriteTimeout:      patience,
		IdleTimeout:       patience,
		MaxHeaderBytes:    maxRequest,
		ConnState: func(_ net.Conn, state http.ConnState) {
			switch state {
			case http.StateNew:
				places <- struct{}{} // the server waits for this before it accepts the next
			case http.StateClosed:
				<-places
			}
		},
	}
}

// finish lets those finish who are being answered.
func finish(server *http.Server) {
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	if server.Shutdown(ctx) != nil {
		server.Close() // half a request is none
	}
}

// guard lets in what has a page: GET without a body. HEAD too would play an ad that nobody sees.
func guard(pages http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store") // a cached ad would repeat its ticket
		if r.ContentLength != 0 {
			w.Header().Set("Connection", "close") // nobody reads it
		}
		switch {
		case r.Method != http.MethodGet:
			w.Header().Set("Allow", http.MethodGet)
			refuse(w, http.StatusMethodNotAllowed, "method_not_allowed", "only GET is served")
		case r.ContentLength != 0:
			refuse(w, http.StatusRequestEntityTooLarge, "body_refused", "no request has a body here")
		default:
			pages.ServeHTTP(w, r)
		}
	})
}

// One bandit serves all goroutines.
type adServer struct {
	bandit *dpb.Bandit
	memory uint64 // the bandit's
}

func (s adServer) visitors() http.Handler {
	pages := http.NewServeMux()
	pages.HandleFunc("/ad", s.show)
	pages.HandleFunc("/click/{ticket...}", s.click)
	pages.HandleFunc("/report", s.report)
	pages.HandleFunc("/metrics", s.metrics(dpb.WriteMetrics))
	pages.HandleFunc("/{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprint(w, page)
	})
	pages.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		refuse(w, http.StatusNotFound, "no_such_page", "try /, /ad, /report")
	})
	return guard(pages)
}

func (s adServer) operator() http.Handler {
	pages := http.NewServeMux()
	pages.HandleFunc("/diagnostics", s.diagnostics)
	pages.HandleFunc("/metrics", s.metrics(dpb.WriteOperatorMetrics))
	pages.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		refuse(w, http.StatusNotFound, "no_such_page", "try /diagnostics")
	})
	return guard(pages)
}

func (s adServer) show(w http.ResponseWriter, _ *http.Request) {
	decision, err := s.bandit.Select()
	if err != nil {
		fail(w, err)
		return
	}
	reply(w, http.StatusOK, map[string]any{
		"arm":        decision.Arm,
		"creative":   creatives[decision.Arm],
		"click_url":  fmt.Sprintf("/click/%016x", decision.Ticket),
		"propensity": number(decision.Propensity),
	})
}

// click always gives the same answer: whether a ticket was clicked already is nobody's business.
func (s adServer) click(w http.ResponseWriter, r *http.Request) {
	text := r.PathValue("ticket")
	if ticket, err := strconv.ParseUint(text, 16, 64); err == nil && len(text) == 16 {
		_ = s.bandit.Update(ticket, 1) // refused, it is in the operator's counts
	}
	w.WriteHeader(http.StatusNoContent)
}

// report shows only what is released.
func (s adServer) report(w http.ResponseWriter, _ *http.Request) {
	report, err := s.bandit.Report()
	if err != nil {
		fail(w, err)
		return
	}
	read, err := s.bandit.Arms()
	if err != nil {
		fail(w, err)
		return
	}
	arms := make([]map[string]any, len(read))
	for i, arm := range read {
		arms[i] = map[string]any{
			"creative": creatives[i], "mean": number(arm.Mean), "width": number(arm.Width),
			"effective_pulls": arm.EffectivePulls, "pulls": arm.Pulls, "active": arm.Active,
		}
	}
	reply(w, http.StatusOK, map[string]any{
		"policy": s.bandit.PolicyName(), "is_private": report.IsPrivate,
		"epsilon_spent": number(report.EpsilonSpent), "delta_spent": report.DeltaSpent,
		"memory": s.memory, "changes_detected": report.ChangesDetected,
		"phase": report.Phase, "decisions": report.Decisions, "pending": report.Pending, "arms": arms,
	})
}

// diagnostics is NOT private: a repeated click is a click.
func (s adServer) diagnostics(w http.ResponseWriter, _ *http.Request) {
	counts, err := s.bandit.Diagnostics()
	if err != nil {
		fail(w, err)
		return
	}
	reply(w, http.StatusOK, map[string]any{
		"duplicates": counts.Duplicates, "late": counts.Late, "rejected": counts.Rejected, "unknown": counts.Unknown,
	})
}

// metrics is a page for Prometheus.
func (s adServer) metrics(write func(io.Writer, map[string]*dpb.Bandit) error) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		var page bytes.Buffer
		if err := write(&page, map[string]*dpb.Bandit{"ads": s.bandit}); err != nil {
			fail(w, err)
			return
		}
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		w.Header().Set("Content-Length", strconv.Itoa(page.Len()))
		page.WriteTo(w) // a scraper who left does not stop the shop
	}
}

// number: JSON has no NaN (nothing released yet) and no infinity (a baseline's privacy loss).
func number(x float64) any {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return nil
	}
	return x
}

// fail: the bandit itself is broken.
func fail(w http.ResponseWriter, err error) {
	refuse(w, http.StatusInternalServerError, "internal", err.Error())
}

func refuse(w http.ResponseWriter, status int, name, message string) {
	reply(w, status, map[string]any{"error": name, "message": message})
}

func reply(w http.ResponseWriter, status int, body map[string]any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(body) // a visitor who left does not stop the shop
}
