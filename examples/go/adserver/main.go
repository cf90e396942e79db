// An ad server that learns which ads are clicked, with differential privacy for the clicks. It uses libdpb and
// net/http. Run `make go` in the top directory of the checkout, and then:
//
//	cd examples/go
//	go run ./adserver --port 8080
//
// GET /ad chooses a creative, and GET /click/<ticket> reports a click. GET /report and, for Prometheus, /metrics
// return released values only. GET /healthz reports whether the server can decide, /readyz whether it can
// also forward clicks, and / is a live page. A production
// server would also authenticate its callers.
//
// With --placements N, GET /ads?placement=17&slots=3&user=9f3c51a277d0e846 chooses a creative for each slot of a
// placement. A segmented bandit learns for each placement, with user-level privacy in each period. GET /placements
// and the live page show the best ad of each placement. With --rotate 20000 ads come and go there: see rotation.
//
// A click always gets the same empty response, whether it is in time, duplicate, late or forged, because the status
// reveals rewards. With --operator-port, GET /diagnostics and /metrics return the counts of refused clicks and
// /debug/pprof/ has profiles, to the same machine only.
//
// With --context GET /ad chooses by the visitor's device, language and part of the day: see context.go.
//
// With --budget 20 each ad pays for clicks until its 20 euros are spent, and the server plays for money: see payouts.go.
//
// With --sales ads earn by clicks, purchases and returns: see sales.go.
//
// With --window 30m a click counts if it comes within half an hour after its ad: see tick.
//
// With --snapshot FILE the server continues after a restart with what it has learned, also after kill -9: see save. With
// --fleet-key-file FILE too a restart loses nothing, and tickets stay valid: see suspend.
//
// With --redis ADDRESS --node N many servers in Go and C++ learn together: see fleet.go. Any server accepts any
// click. The placements are a second bandit in Redis. With --fleet-key-file FILE one server releases what all servers
// collect. With --send-rate N Redis does not show how many clicks travel. Send each person to one server: a person who
// reaches n servers loses up to n times epsilon.
//
// To simulate a day of visitors with a change at noon, run
// cargo run --release --example ad_server -- --visit http://127.0.0.1:8080
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"strconv"
	"time"

	"examples/keep"
	"examples/web"

	dpb "github.com/libdpb/libdpb/bindings/go"
)

type options struct {
	port          int
	operatorPort  int        // none if negative
	policy        dpb.Policy // 0: the recommended one
	context       bool       // see contextOf
	budget        float64    // see payouts; 0: none
	sales         bool       // see configureSales
	window        span
	memory        *span  // nil: the default, if the policy supports it
	snapshot      string // a file; "": none
	snapshotEvery time.Duration
	reportEvery   time.Duration
	placements    uint32 // 0: none
	rotate        uint64 // see rotation; 0: never
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
	o := options{
		operatorPort: -1, window: usualWindow, snapshotEvery: 10 * time.Second, reportEvery: time.Second,
		users: 100_000, period: 24 * time.Hour,
	}
	flag.Func("port", "port `N` for visitors (default 0: any free port)", func(text string) (err error) {
		o.port, err = parsePort(text)
		return err
	})
	usage := "port `N` for the counts of refused clicks, for this machine only"
	flag.Func("operator-port", usage, func(text string) (err error) {
		o.operatorPort, err = parsePort(text)
		return err
	})
	policies := "policy `NAME` (default: the recommended one), one of " + fmt.Sprint(dpb.Policies())
	flag.Func("policy", policies, func(name string) error {
		return o.policy.UnmarshalText([]byte(name))
	})
	flag.BoolVar(&o.context, "context", false, "choose ads by the visitor's device, language and part of the day "+
		"(dp-linear); without -memory, never forget")
	flag.Float64Var(&o.budget, "budget", 0, "each ad pays for clicks, and has this budget in `EUROS`; without -memory, "+
		"never forget (default 0: no payouts)")
	flag.BoolVar(&o.sales, "sales", false, "ads earn by clicks, purchases and returns, which the operator's port takes")
	flag.Var(&o.window, "window", "a click counts within this `SPAN` after its ad: a number of decisions, or a time "+
		"such as 500ms, 30s, 30m, 2h")
	usage = fmt.Sprintf("forget releases of the age `SPAN`; 0: never (default %d, or 12h if -window is a time, if "+
		"the policy supports it); both must be of the same kind", usualMemory)
	flag.Func("memory", usage, func(text string) error {
		o.memory = new(span)
		return o.memory.Set(text)
	})
	flag.StringVar(&o.snapshot, "snapshot", "", "continue from this `FILE` if it exists, and write snapshots to it")
	usage = "write a snapshot every `MS` milliseconds, and at the end (default 10000)"
	flag.Func("snapshot-every", usage, func(text string) error {
		number, err := parsePositive(text)
		o.snapshotEvery = time.Duration(number) * time.Millisecond
		return err
	})
	usage = "make a new report no more often than every `MS` milliseconds (default 1000)"
	flag.Func("report-every", usage, func(text string) error {
		number, err := strconv.ParseUint(text, 10, 32)
		o.reportEvery = time.Duration(number) * time.Millisecond
		return err
	})
	flag.Func("placements", "serve /ads for placements 0 to `N`-1 (default 0: no such page)", func(text string) error {
		number, err := strconv.ParseUint(text, 10, 32)
		o.placements = uint32(number)
		return err
	})
	usage = "after every `N` ads of placements, retire the oldest ad there and add a new one (default 0: never)"
	flag.Func("rotate", usage, func(text string) error {
		number, err := strconv.ParseUint(text, 10, 32)
		o.rotate = number
		return err
	})
	usage = "number `N` of people expected in a period, with -placements (default 100000); a person who reaches " +
		"several servers loses epsilon at each"
	flag.Func("users", usage, func(text string) error {
		number, err := parsePositive(text)
		o.users = number
		return err
	})
	flag.Func("period", "length of a period in `SECONDS` (default 86400)", func(text string) error {
		number, err := parsePositive(text)
		o.period = time.Duration(number) * time.Second
		return err
	})
	o.fleet.register()
	flag.Parse()
	web.Main(o.check(flag.Args()), func(stop context.Context, out io.Writer) error { return run(stop, o, out) })
}

// check returns an error if there are other arguments, or if an option needs another one.
func (o options) check(rest []string) error {
	switch {
	case len(rest) > 0:
		return fmt.Errorf("there is no option %s", rest[0])
	case o.window.ticks == 0 || o.window.ticks > math.MaxUint32:
		return errors.New("-window must be at least 1, and 1193h or 4294967295 decisions at most")
	case !(o.budget >= 0) || math.IsInf(o.budget, 0):
		return errors.New("-budget must be a number of euros")
	case o.budget > 0 && o.context:
		return errors.New("-budget needs the click rate of each ad, which there is not with -context")
	case o.sales && o.operatorPort < 0:
		return errors.New("-sales needs -operator-port, which takes purchases and returns")
	case o.budget > 0 && o.sales:
		return errors.New("-budget needs the click rate of each ad, which there is not with -sales")
	case o.budget > 0 && o.memory != nil && o.memory.ticks > 0:
		return errors.New("-budget counts all clicks, so it does not combine with -memory")
	case o.memory != nil && o.memory.ticks > 0 && o.memory.isTime != o.window.isTime:
		return errors.New("-window and -memory must both be times, or both be numbers of decisions")
	case o.fleet.clickDelay.ticks > 0 && o.fleet.clickDelay.isTime != o.window.isTime:
		return errors.New("-window and -click-delay must both be times, or both be numbers of decisions")
	}
	if o.leavesState() && o.snapshot == "" {
		return errors.New("-fleet-key-file needs -snapshot or -redis")
	}
	if o.fleet.auto && o.snapshot != "" {
		return errors.New("-node auto continues from Redis, and so takes no -snapshot")
	}
	return o.fleet.check()
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

// run serves until it is stopped. It prints its addresses to out.
func run(stop context.Context, o options, out io.Writer) error {
	var err error
	if o.snapshot, err = keep.Own(o.snapshot); err != nil {
		return err
	}
	unlock, err := keep.Lock(o.snapshot)
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
	open := func(port int, pages http.Handler, format string) error {
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			return err
		}
		server := web.NewServer(pages)
		servers = append(servers, server)
		begin = append(begin, func() {
			go func() { ended <- server.Serve(listener) }()
			fmt.Fprintf(out, format+"\n", listener.Addr())
		})
		return nil
	}
	defer func() { web.Finish(servers) }()
	if err := open(o.port, ads.visitors(), "listening on http://%s"); err != nil {
		return err
	}
	if o.operatorPort >= 0 {
		format := "the operator's counts, not private: http://%s/diagnostics"
		if err := open(o.operatorPort, ads.operator(), format); err != nil {
			return err
		}
	}
	// Save before serving: a restored bandit has begun a new period, which the next restart must know.
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
	web.Finish(servers)
	if err := keeper(); err != nil {
		return err
	}
	ads.log("stopped")
	if err := ads.suspend(o); err != nil {
		return err
	}
	fmt.Fprintln(out, "stopped")
	return nil
}
