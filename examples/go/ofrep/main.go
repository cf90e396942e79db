// A server of feature flags that learns which value earns the most, with differential privacy for the rewards. It speaks
// OFREP 0.3.0, OpenFeature's protocol for remote evaluation, so programs in any language use it by OpenFeature's own
// providers, without libdpb. Run `make go` in the top directory of the checkout, and then:
//
//	cd examples/go
//	go run ./ofrep -port 8080 -flag button=blue,red,green
//
// POST /ofrep/v1/evaluate/flags/button decides a flag, and records that it is shown. POST /ofrep/v1/evaluate/flags
// decides all flags and records none. OFREP has no message for rewards, so POST /dpb/v1/track takes them, and what pages
// show. GET /dpb/v1/table/button is the table, for programs that decide by themselves: docs/tables.md says how. GET / is a
// page that does so. GET /report and /metrics have released values only, and /privacy says what is guaranteed.
//
// Put a proxy in front for TLS, authentication and limits.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"examples/keep"
	"examples/web"

	"github.com/libdpb/libdpb/bindings/go/fleet"
)

type options struct {
	port      int
	flags     map[string]definition
	life      time.Duration // of a version
	window    time.Duration // a reward must come within this time
	forget    time.Duration // 0: never
	origin    string        // of pages that may use the server; "": only its own
	capacity  uint          // the most decisions in a window
	directory string        // of snapshots; "": none
	keyFile   string        // see keep.Suspend; "": a restart loses what is open
	every     time.Duration // between snapshots
}

func main() {
	o := options{flags: map[string]definition{}}
	flag.IntVar(&o.port, "port", 8080, "serve at this `PORT` of 127.0.0.1; 0: any")
	flag.Func("flag", "a flag `NAME=VALUE,VALUE`: its values are text; may be repeated", o.addFlag)
	flag.Func("flags", "read flags from this JSON `FILE`; examples/README.md shows one", o.readFlags)
	flag.DurationVar(&o.life, "life", 5*time.Minute, "a version of the tables lives so long, and a visitor keeps a value")
	flag.DurationVar(&o.window, "window", 30*time.Minute, "a reward must come within this time")
	flag.DurationVar(&o.forget, "forget", 0, "forget what is older; about half the time between changes (default never)")
	flag.StringVar(&o.origin, "origin", "", "pages of this `ORIGIN` may use the server too, such as https://shop.example")
	flag.UintVar(&o.capacity, "capacity", 1<<18, "the most decisions of a flag in a window")
	flag.StringVar(&o.directory, "keep", "", "continue from the snapshots in this `DIRECTORY`, and write them to it")
	flag.StringVar(&o.keyFile, "key-file", "", "with -keep: a restart loses nothing, because the server leaves its open "+
		"decisions, sealed, to the next one: `FILE` has 32 secret random bytes or 64 hexadecimal digits")
	flag.DurationVar(&o.every, "snapshot-every", 10*time.Second, "write snapshots so often, and at the end")
	flag.Parse()
	web.Main(o.check(flag.Args()), func(stop context.Context, out io.Writer) error { return run(stop, o, out) })
}

// check returns an error if there are other arguments, or if an option does not fit.
func (o options) check(rest []string) error {
	switch {
	case len(rest) > 0:
		return fmt.Errorf("there is no option %s", rest[0])
	case len(o.flags) == 0:
		return errors.New("-flag or -flags must name a flag")
	case o.window < time.Millisecond || o.window.Milliseconds() >= 1<<32:
		return errors.New("-window must be at least 1ms, and at most 1193h")
	case o.life < 4*time.Millisecond || o.life > o.window:
		return errors.New("-life must be at least 4ms, and at most -window")
	case o.capacity == 0 || o.capacity > 1<<24:
		return errors.New("-capacity must be from 1 to 16777216")
	case o.every <= 0:
		return errors.New("-snapshot-every must be above 0")
	case o.keyFile != "" && o.directory == "":
		return errors.New("-key-file needs -keep")
	}
	return nil
}

// run serves until it is stopped. It prints its address to out.
func run(stop context.Context, o options, out io.Writer) (err error) {
	var key *[32]byte
	if o.keyFile != "" {
		if key, err = fleet.ReadKey(o.keyFile); err != nil {
			return err
		}
	}
	s, err := newServer(o, key)
	if err != nil {
		return err
	}
	defer s.close()
	listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", o.port))
	if err != nil {
		return err
	}
	if err := errors.Join(s.publish(), s.save()); err != nil {
		listener.Close()
		return err
	}
	pages := web.NewServer(s.pages())
	defer web.Finish([]*http.Server{pages})
	ended := make(chan error, 1)
	go func() { ended <- pages.Serve(listener) }()
	fmt.Fprintf(out, "listening on http://%s\n", listener.Addr())

	versions, ticks, saves := time.NewTicker(o.life), time.NewTicker(time.Second), time.NewTicker(o.every)
	for {
		select {
		case <-versions.C:
			if err := s.publish(); err != nil {
				slog.Warn("the earlier tables stay", "err", err)
			}
		case <-ticks.C: // so that windows also end without traffic
			s.tick()
		case <-saves.C:
			if err := s.save(); err != nil {
				slog.Warn("the snapshots are not saved", "err", err)
			}
		case err := <-ended:
			return errors.Join(err, s.save())
		case <-stop.Done():
			web.Finish([]*http.Server{pages})
			if err := s.save(); err != nil {
				return err
			}
			if key != nil {
				for _, d := range s.flags {
					err = errors.Join(err, keep.Suspend(d.Bandit, d.file))
				}
			}
			fmt.Fprintln(out, "stopped")
			return err
		}
	}
}
