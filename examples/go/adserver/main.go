// An ad server that learns which ad is clicked without giving away who clicked: libdpb with
// net/http. After `make go` at the top of the checkout:
//
//	cd examples/go
//	go run ./adserver --port 8080
//
// GET /ad picks a creative, GET /click/<ticket> reports the click, GET /report and, for Prometheus, /metrics
// show what is released and nothing else, GET /healthz whether it can serve, / is a live page. A real server would also
// check who asks.
//
// With --placements N, GET /ads?placement=17&slots=3&user=9f3c51a277d0e846 picks one for each slot of a
// placement, from a bandit that learns for each placement and no more from a person than was promised. GET /placements,
// and the live page, show which ad leads in which placement.
//
// What became of a click is for the operator alone: whoever reports one, in time, twice, late or
// made up, gets the same empty answer. With --operator-port the operator, and nobody from another
// machine, reads the counts of refused clicks at GET /diagnostics and /metrics, and profiles the server at
// /debug/pprof/.
//
// With --context GET /ad chooses by the visitor's device, language and part of the day: see context.go.
//
// With --window 30m a click counts in the half hour after its ad, whatever the traffic: see tick.
//
// With --snapshot FILE what was learned survives the server, and kill -9: see save.
//
// With --redis ADDRESS --node N many servers, these and those in C++, are one bandit, and their placements are another: see
// fleet.go. A click may come to any of them. Send a person always to the same server: each of n servers would learn from one
// who reaches all of them, who would lose n times as much.
//
// A day of visitors, with a change at noon: cargo run --release --example ad_server -- --visit
// http://127.0.0.1:8080
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	dpb "github.com/libdpb/libdpb/bindings/go"
)

type options struct {
	port          int
	operatorPort  int        // none if negative
	policy        dpb.Policy // 0: the recommended one
	context       bool       // see contextOf
	window        span
	memory        *span  // nil: the usual one, where the policy can
	snapshot      string // a file; "": none
	snapshotEvery time.Duration
	reportEvery   time.Duration
	placements    uint32 // 0: none
	users         uint64 // expected in a period
	period        time.Duration
	fleet         fleetOptions
}

func (o options) segmentedSnapshot() string {
	if o.snapshot == "" {
		return ""
	}
	return o.snapshot + ".placements"
}

func main() {
	o := options{operatorPort: -1, window: usualWindow, snapshotEvery: 10 * time.Second, reportEvery: time.Second, users: 100_000, period: 24 * time.Hour}
	flag.Func("port", "`N`; 0, the default: any free one", func(text string) (err error) {
		o.port, err = parsePort(text)
		return err
	})
	flag.Func("operator-port", "serve the counts of refused clicks on port `N`, to this machine", func(text string) (err error) {
		o.operatorPort, err = parsePort(text)
		return err
	})
	flag.Func("policy", "`NAME`; the recommended one unless given; of "+fmt.Sprint(dpb.Policies()), func(name string) error {
		return o.policy.UnmarshalText([]byte(name))
	})
	flag.BoolVar(&o.context, "context", false, "choose ads by the visitor's device, language and part of the day (dp-linear); forgets nothing unless -memory is given")
	flag.Var(&o.window, "window", "no click for a `SPAN` is none: a number of decisions, or a time such as 500ms, 30s, 30m, 2h")
	says := fmt.Sprintf("forget what was learned a `SPAN` ago, 0: never (default %d where the policy can); as -window: a time if that is one, then by default 12h", usualMemory)
	flag.Func("memory", says, func(text string) error {
		o.memory = new(span)
		return o.memory.Set(text)
	})
	flag.StringVar(&o.snapshot, "snapshot", "", "go on from this `FILE` if it is there, and write what is released to it")
	flag.Func("snapshot-every", "so often, every `MS` milliseconds, and at the end (default 10000)", func(text string) error {
		number, err := parsePositive(text)
		o.snapshotEvery = time.Duration(number) * time.Millisecond
		return err
	})
	flag.Func("report-every", "make a new report no more often than every `MS` milliseconds (default 1000)", func(text string) error {
		number, err := strconv.ParseUint(text, 10, 32)
		o.reportEvery = time.Duration(number) * time.Millisecond
		return err
	})
	flag.Func("placements", "serve /ads for placements 0 to `N`-1 (default 0: no such page)", func(text string) error {
		number, err := strconv.ParseUint(text, 10, 32)
		o.placements = uint32(number)
		return err
	})
	flag.Func("users", "of whom `N` people are expected in a period (default 100000), at this server: a person who reaches several loses epsilon at each", func(text string) error {
		number, err := parsePositive(text)
		o.users = number
		return err
	})
	flag.Func("period", "of so many `SECONDS` (default 86400)", func(text string) error {
		number, err := parsePositive(text)
		o.period = time.Duration(number) * time.Second
		return err
	})
	o.fleet.register()
	flag.Parse()
	otherwise := o.memory != nil && o.memory.ticks > 0 && o.memory.isTime != o.window.isTime // one clock counts both
	if flag.NArg() > 0 || otherwise || !o.fleet.agree() || o.window.ticks == 0 || o.window.ticks > math.MaxUint32 {
		flag.Usage()
		os.Exit(2)
	}
	// No line is written for a click, and no path of a request: that would be a second record of who clicked.
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, nil)))
	stop, forget := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer forget()
	if err := run(stop, o, os.Stdout); err != nil {
		slog.Error("ended", "err", err)
		os.Exit(1)
	}
}

func parsePort(text string) (int, error) {
	port, err := strconv.ParseUint(text, 10, 16)
	return int(port), err
}

func parsePositive(text string) (uint64, error) {
	number, err := strconv.ParseUint(text, 10, 32)
	if err == nil && number == 0 {
		err = errors.New("must be at least 1")
	}
	return number, err
}

// run serves until it is told to stop. Where it listens it says on out.
func run(stop context.Context, o options, out io.Writer) error {
	unlock, err := lock(o.snapshot)
	if err != nil {
		return err
	}
	defer unlock()
	ads, err := newShop(o)
	if err != nil {
		return err
	}
	defer ads.close()

	var servers []*http.Server
	ended := make(chan error, 4)
	var begin []func()
	open := func(port int, pages http.Handler, says string) error {
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			return err
		}
		server := newServer(pages)
		servers = append(servers, server)
		begin = append(begin, func() {
			go func() { ended <- server.Serve(listener) }()
			fmt.Fprintf(out, says+"\n", listener.Addr())
		})
		return nil
	}
	defer func() { finish(servers) }()
	if err := open(o.port, ads.visitors(), "listening on http://%s"); err != nil {
		return err
	}
	if o.operatorPort >= 0 {
		says := "the operator's counts, not private: http://%s/diagnostics"
		if err := open(o.operatorPort, ads.operator(), says); err != nil {
			return err
		}
	}
	// Before anybody is served: what was restored has begun a period, which must not be forgotten.
	keeper, err := ads.keep(o)
	if err != nil {
		return err
	}
	defer ads.sync(ended)()
	for _, begin := range begin {
		begin()
	}
	ads.log("serving")
	select {
	case <-stop.Done():
	case err := <-ended:
		return errors.Join(err, keeper())
	}
	finish(servers)
	if err := keeper(); err != nil {
		return err
	}
	ads.log("stopped")
	fmt.Fprintln(out, "stopped")
	return nil
}
