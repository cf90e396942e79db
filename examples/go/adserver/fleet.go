package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	dpb "github.com/libdpb/libdpb/bindings/go"
	"github.com/libdpb/libdpb/bindings/go/fleet"
	"github.com/redis/go-redis/v9"
)

const (
	// A ticket's first four digits are its node: the server's number, plus this for the ticket of a placement.
	placementsFrom = 0x8000
	// The time within which Redis must answer when the server starts.
	joinTimeout = 5 * time.Second
)

// fleetOptions are the options for learning with other servers. The C++ servers have the same ones.
type fleetOptions struct {
	redis        string // HOST:PORT or a socket's path; "": no fleet
	node         uint16 // this server's number, 1 to 32767; 0 without a fleet, or with auto
	auto         bool   // the server takes the lowest number that is free
	bandit       string // the fleet's name
	user         string // of Redis' access control list; "": the default one
	passwordFile string // of that user; "": none
	caFile       string // who signs Redis' certificate; "": no TLS
	certFile     string // this server's own certificate, and its key; "": none
	keyFile      string // "": each server adds its own noise; see also leavesState
	mergeEvery   time.Duration
	delay        time.Duration // negative: a router sends each click to the server that decided
	clickDelay   span          // see fleet.Options.ClickDelay
	sendRate     uint64        // see fleet.Options.SendRate
}

func (o *fleetOptions) register() {
	*o = fleetOptions{bandit: "ads", mergeEvery: 5 * time.Second, delay: time.Second}
	flag.StringVar(&o.redis, "redis", "",
		"learn with other servers through Redis at this `ADDRESS`: HOST:PORT or a socket's path")
	usage := "this server's own number `N` among them, 1 to 32767; auto: the lowest that is free"
	flag.Func("node", usage, func(text string) error {
		if o.auto = text == "auto"; o.auto {
			o.node = 0
			return nil
		}
		number, err := strconv.ParseUint(text, 10, 16)
		if err == nil && (number == 0 || number >= placementsFrom) {
			err = errors.New("must be from 1 to 32767")
		}
		o.node = uint16(number)
		return err
	})
	flag.StringVar(&o.bandit, "bandit", o.bandit, "`NAME` of the bandit that they share")
	flag.StringVar(&o.passwordFile, "redis-password-file", "", "`FILE` whose first line is the password of Redis")
	flag.StringVar(&o.user, "redis-user", "",
		"with a password: the user `NAME` of Redis' access control list (default: the default user)")
	flag.StringVar(&o.caFile, "redis-ca-file", "",
		"use TLS: `FILE` has the certificates of those who sign that of Redis (PEM)")
	flag.StringVar(&o.certFile, "redis-certificate-file", "",
		"with -redis-ca-file: `FILE` has this server's own certificate and its key, if Redis asks for one (PEM)")
	flag.StringVar(&o.keyFile, "fleet-key-file", "", "with -snapshot: a restart loses nothing, because the server "+
		"leaves its open decisions and batches, sealed, to the next one; with -redis: one server releases what all "+
		"servers collect, with one noise, and clicks are sealed while they travel: `FILE` has 32 secret random bytes "+
		"or 64 hexadecimal digits, the same for all servers, that no other user can read")
	flag.Func("merge-every", "exchange releases every `MS` milliseconds (default 5000)", func(text string) error {
		number, err := parsePositive(text)
		o.mergeEvery = time.Duration(number) * time.Millisecond
		return err
	})
	usage = "forwarding a click to its server takes at most `MS` milliseconds (default 1000); if it takes longer, " +
		"open decisions are cancelled; 0: a router sends each click to its server"
	flag.Func("delay", usage, func(text string) error {
		number, err := strconv.ParseUint(text, 10, 32)
		o.delay = time.Duration(number) * time.Millisecond
		if number == 0 {
			o.delay = -1
		}
		return err
	})
	flag.Var(&o.clickDelay, "click-delay", "most clicks come within this `SPAN` after their ad: if clicks cannot travel "+
		"for a while, no decision that was made longer before is cancelled; 0: the -window, whose kind it has (default 0)")
	usage = "with -fleet-key-file: send each other server a message of one length eight times in a -delay, with space " +
		"for at least `N` clicks a second, so that Redis does not show how many travel; a click that finds no space is " +
		"lost (default: send each click at once)"
	flag.Func("send-rate", usage, func(text string) (err error) {
		o.sendRate, err = parsePositive(text)
		return err
	})
}

// check returns an error if an option needs another one.
func (o fleetOptions) check() error {
	switch {
	case (o.redis == "") != (o.node == 0 && !o.auto):
		return errors.New("-redis and -node need each other")
	case o.redis == "" && o.passwordFile != "":
		return errors.New("-redis-password-file needs -redis")
	case o.redis == "" && o.caFile != "":
		return errors.New("-redis-ca-file needs -redis")
	case o.certFile != "" && o.caFile == "":
		return errors.New("-redis-certificate-file needs -redis-ca-file")
	case o.user != "" && o.passwordFile == "":
		return errors.New("-redis-user needs -redis-password-file")
	case o.bandit == "":
		return errors.New("-bandit must be a name")
	case o.sendRate > 0 && o.keyFile == "":
		return errors.New("-send-rate needs -fleet-key-file")
	}
	return nil
}

// number is this server's node, 0 if it takes the lowest. Without a fleet any number works.
func (o fleetOptions) number() uint16 {
	if o.auto {
		return 0
	}
	return max(o.node, 1)
}

func (o fleetOptions) name() string { return cmp.Or(o.bandit, "ads") }

func (o fleetOptions) connect() (options *redis.UniversalOptions, err error) {
	options = &redis.UniversalOptions{Addrs: []string{o.redis}, Username: o.user}
	if options.TLSConfig, err = o.tls(); err != nil || o.passwordFile == "" {
		return options, err
	}
	text, err := os.ReadFile(o.passwordFile)
	if err != nil {
		return nil, err
	}
	line, _, _ := strings.Cut(string(text), "\n")
	options.Password = strings.TrimSuffix(line, "\r")
	if options.Password == "" {
		return nil, fmt.Errorf("%s: no password", o.passwordFile)
	}
	return options, nil
}

// tls reads the certificates; nil without TLS.
func (o fleetOptions) tls() (*tls.Config, error) {
	if o.caFile == "" {
		return nil, nil
	}
	text, err := os.ReadFile(o.caFile)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
	if !config.RootCAs.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s: no certificates", o.caFile)
	}
	if o.certFile != "" {
		own, err := tls.LoadX509KeyPair(o.certFile, o.certFile)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", o.certFile, err)
		}
		config.Certificates = []tls.Certificate{own}
	}
	return config, nil
}

// key reads the fleet key, if there is one.
func (o fleetOptions) key() (*[32]byte, error) {
	if o.keyFile == "" {
		return nil, nil
	}
	return fleet.ReadKey(o.keyFile)
}

// member is a bandit and, in a fleet, its node.
type member struct {
	*dpb.Bandit
	name    string      // on pages of metrics, and in Redis
	node    *fleet.Node // nil without a fleet
	store   *fleet.Redis
	refused *atomic.Value  // why the bandit refused the last time, a string; "": it did not
	leaps   *atomic.Uint64 // of the clock that the log has
}

// join adds a bandit to a fleet. The snapshot is the one that it comes from, or nil. It takes ownership of the bandit, also
// on failure.
func (o fleetOptions) join(bandit *dpb.Bandit, name string, config dpb.Config, snapshot []byte) (m member, err error) {
	m = member{Bandit: bandit, name: name, refused: new(atomic.Value), leaps: new(atomic.Uint64)}
	m.refused.Store("")
	if o.redis == "" {
		return m, nil
	}
	defer bandit.Close() // the node makes its own
	connect, err := o.connect()
	if err != nil {
		return m, err
	}
	if err := answers(connect); err != nil {
		return m, fmt.Errorf("redis: %w", err)
	}
	m.store = fleet.NewRedis(connect, name)
	options := fleet.Options{
		Store: m.store, Config: config, Interval: o.mergeEvery, Delay: o.delay, ClickDelay: o.clickDelay.ticks,
		SendRate: int(o.sendRate), Snapshot: snapshot,
	}
	if config.Node == 0 {
		options.Snapshot = nil // it is of no number
	}
	// A server that was killed has its number for 30 delays.
	ctx, cancel := context.WithTimeout(context.Background(), joinTimeout+40*max(o.delay, time.Second))
	defer cancel()
	if options.Policy, err = dpb.ParsePolicy(bandit.PolicyName()); err == nil {
		m.node, err = fleet.Join(ctx, options)
	}
	if err != nil {
		m.store.Close()
		return m, fmt.Errorf("redis: %w", err)
	}
	m.Bandit = m.node.Bandit
	if m.node.Number() >= placementsFrom && config.Node == 0 {
		m.close()
		return m, fmt.Errorf("redis: number %d is too large: at most 32767 servers", m.node.Number())
	}
	return m, nil
}

// answers returns an error if Redis does not answer, or not to this user.
func answers(options *redis.UniversalOptions) error {
	ctx, cancel := context.WithTimeout(context.Background(), joinTimeout)
	defer cancel()
	client := redis.NewUniversalClient(options)
	defer client.Close()
	return client.Ping(ctx).Err()
}

// ready reports whether the nodes of this server can forward clicks.
func (s adServer) ready() bool {
	for _, node := range s.nodes() {
		if !node.Ready() {
			return false
		}
	}
	return true
}

func (m member) close() {
	if m.node == nil {
		m.Bandit.Close()
		return
	}
	m.node.Close()
	m.store.Close()
}

// updatePart reports a part of a reward to the node that issued the ticket. Without parts, part 0 is the reward.
func (m member) updatePart(ticket uint64, part uint32, value float64) error {
	if m.node != nil {
		return m.node.UpdatePart(ticket, part, value)
	}
	return m.UpdatePart(ticket, part, value)
}

func (m member) nextPeriod() error {
	if m.node != nil {
		return m.node.NextPeriod()
	}
	return m.NextPeriod()
}

// members returns all bandits.
func (s adServer) members() []member {
	if s.segmented.Bandit == nil {
		return []member{s.bandit}
	}
	return []member{s.bandit, s.segmented}
}

// bandits returns the bandits, by name.
func (s adServer) bandits() map[string]*dpb.Bandit {
	named := map[string]*dpb.Bandit{}
	for _, m := range s.members() {
		named[m.name] = m.Bandit
	}
	return named
}

// nodes returns the nodes of the fleet, by name.
func (s adServer) nodes() map[string]*fleet.Node {
	nodes := map[string]*fleet.Node{}
	for _, m := range s.members() {
		if m.node != nil {
			nodes[m.name] = m.node
		}
	}
	return nodes
}

// sync exchanges releases until it is stopped, and then once more. If a node ends earlier, this server is no longer
// in the fleet, and sync returns the reason.
func (s adServer) sync(ended chan<- error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	nodes := s.nodes()
	for name, node := range nodes {
		go func() {
			err := node.Sync(ctx)
			switch {
			case ctx.Err() == nil:
				ended <- fmt.Errorf("%s: %w", name, err)
			case err != nil:
				slog.Warn("the node has not left as planned", "bandit", name, "err", err)
			}
			done <- struct{}{}
		}()
	}
	return func() {
		cancel()
		for range nodes {
			<-done
		}
	}
}
