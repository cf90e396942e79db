// Package fleet makes one bandit of many processes: each has a handle of its own, and all learn from what all have
// released, through a store that they share. The store holds snapshots, which are safe to publish; nothing of it is
// on the way of a decision, which goes on while the store is away.
//
//	redis := fleet.NewRedis(&redis.UniversalOptions{Addrs: []string{"localhost:6379"}}, "ads")
//	config.Node = 7 // 1 to 65535: no other process of the fleet has this one
//	node, err := fleet.Join(ctx, fleet.Options{Store: redis, Post: redis, Config: config})
//	go node.Sync(ctx)
//	decision, err := node.Bandit.Select()
//	err = node.Answer(ticket, reward) // of whichever node
//
// With Config.FleetKey and Options.Relay one node releases what all collect, with one noise, and rewards travel sealed.
//
// README.md says what whoever reads or writes the store can do.
package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	dpb "github.com/libdpb/libdpb/bindings/go"
)

// ErrReplaced: another process has begun under this node's number since. What this one still decides is lost to the
// fleet: end it.
var ErrReplaced = errors.New("fleet: another process has this node's number")

// Snapshot is what a node has released, as the store keeps it.
type Snapshot struct {
	Node    uint16
	Version uint64
	Bytes   []byte
}

// Store keeps the newest snapshot of every node, also of those that have ended.
type Store interface {
	// Put keeps a snapshot, unless the store has one of this node of the same or a greater version.
	Put(ctx context.Context, snapshot Snapshot) (kept bool, err error)
	// List returns the snapshots of these nodes, or of all. What cannot be read as one comes as it is.
	List(ctx context.Context, nodes ...uint16) ([]Snapshot, error)
	// Watch begins to say what nodes do, as hints: some may be missing. Whoever puts after Watch has returned
	// is heard. The channel is closed when the store is lost, or by stop, which must be called; ctx is for the
	// beginning alone.
	Watch(ctx context.Context) (hints <-chan Hint, stop func(), err error)
	// Say gives a hint to all who watch. Put gives its own.
	Say(ctx context.Context, hint Hint) error
}

// Hint is what a node does.
type Hint struct {
	Node  uint16
	Event Event
}

// Event of a node.
type Event int

const (
	Put   Event = iota // it has put a snapshot
	Beats              // answers that come to it travel: its own beats come back in time
	Ends               // it sends no more answers
)

// Post carries answers to the node that has decided. Unlike snapshots they are NOT private.
type Post interface {
	// Send sends these in this order. What failed may have been sent.
	Send(ctx context.Context, messages []Message) error
	// Receive gives all that has come for this node, perhaps again what came before, then forgets it.
	// It waits a moment for some, not longer.
	Receive(ctx context.Context, node uint16, take func(Message)) error
}

// Message is an answer, or a beat from a node to itself.
type Message struct {
	To     uint16
	Ticket uint64
	Reward float64
	Beat   uint64 // its number; 0: this is an answer
	Sealed []byte // with a fleet key: the ticket and the reward, which are 0 then
}

// Options are a node's.
type Options struct {
	Store    Store
	Post     Post          // nil: only this node's own answers are taken
	Relay    Relay         // for a fleet with one noise, with Config.FleetKey; without a key it is not used
	Policy   dpb.Policy    // one that can merge; 0: the recommended one
	Config   dpb.Config    // of all nodes the same but for Node, which is from 1 to 65535; with segments, too
	Interval time.Duration // between two exchanges; 0: 5 s
	Tick     time.Duration // a tick of dpb.ClockCaller, which you tell the bandit by Advance; 0: 1 ms
	// A bandit that you have made with Config, for example from a file; nil: Join makes one. If the store's snapshot of
	// this node has more decisions, the node goes on from that, and Join closes this one. After an error it is yours.
	Bandit *dpb.Bandit
	// Answers by Post take at most so long; 0: 1 s; negative: never check. While they take longer, decisions are cancelled
	// that wait an RewardWindow for theirs: see README.md.
	Delay  time.Duration
	Logger *slog.Logger // of outages and strangers; nil: slog.Default()
}

// Node is one process's part in a fleet.
type Node struct {
	Bandit *dpb.Bandit // Close it after Sync has returned

	store    Store
	post     Post
	relay    Relay  // nil without a fleet key
	key      uint64 // the fleet key's id
	number   uint16
	interval time.Duration
	delay    time.Duration
	judges   bool          // are there outages?
	window   uint64        // ticks that a decision waits for its answer
	tick     time.Duration // 0: a decision
	began    time.Time
	soon     chan struct{} // something is to be put at once
	log      *slog.Logger

	// Of Sync alone.
	version uint64 // of the snapshot that was put last: its life, then a count
	bytes   []byte
	hints   <-chan uint16 // nodes that have put; nil: not watching
	unwatch func()
	merged  map[uint16]uint64 // a hash of what was merged last
	lease   Leader            // this node as the leader; zero: it contributes, or has no key

	mu      sync.Mutex
	last    time.Time // of the last exchange that succeeded
	nodes   map[uint16]error
	metrics Metrics
	answers answers
	logged  sync.Map // errors that logOnce has logged
}

var seed = maphash.MakeSeed()

// Join makes this node's bandit and has it know what all others have released. A node that has been there before goes
// on from its own snapshot in the store: that is all that it needs. Its number is then its own: an older process that
// still has it gets [ErrReplaced].
//
// An error of the store is one: try again, or begin under a number that no node ever had. ErrInvalidConfig or
// ErrCorrupt where the store has something else under this number.
func Join(ctx context.Context, options Options) (*Node, error) {
	if options.Config.Node == 0 || options.Config.Node > 0xffff {
		return nil, fmt.Errorf("%w: node must be from 1 to 65535, got %d", dpb.ErrInvalidConfig, options.Config.Node)
	}
	if options.Config.FleetKey == nil {
		options.Relay = nil
	} else if options.Relay == nil {
		return nil, fmt.Errorf("%w: with FleetKey, a node needs a Relay", dpb.ErrInvalidConfig)
	}
	var node *Node
	err := ErrReplaced
	// Another may be faster, and has put the snapshot to go on from then. It does not stay so, unless somebody plays.
	for tries := 0; errors.Is(err, ErrReplaced) && tries < 10; tries++ {
		node, err = join(ctx, options)
	}
	return node, err
}

func join(ctx context.Context, options Options) (*Node, error) {
	n := &Node{
		store:    options.Store,
		post:     options.Post,
		relay:    options.Relay,
		number:   uint16(options.Config.Node),
		interval: options.Interval,
		delay:    options.Delay,
		judges:   options.Delay >= 0,
		soon:     make(chan struct{}, 1),
		window:   uint64(options.Config.RewardWindow),
		log:      options.Logger,
		merged:   map[uint16]uint64{},
		began:    time.Now(),
		last:     time.Now(),
		nodes:    map[uint16]error{},
	}
	if n.interval <= 0 {
		n.interval = 5 * time.Second
	}
	if options.Config.Clock == dpb.ClockCaller {
		n.tick = cmp.Or(options.Tick, time.Millisecond)
	}
	if n.delay <= 0 {
		n.delay = time.Second
	}
	if n.log == nil {
		n.log = slog.Default()
	}
	all, err := n.store.List(ctx)
	if err != nil {
		return nil, err
	}
	for _, snapshot := range all {
		if snapshot.Node == n.number {
			n.version, n.bytes = snapshot.Version, snapshot.Bytes
		}
	}
	if n.Bandit, err = begin(options, n.bytes); err != nil {
		return nil, fmt.Errorf("node %d: %w", n.number, err)
	}
	if report, err := n.Bandit.Report(); err == nil {
		n.key = report.FleetKeyID
	}
	n.version = (n.version>>32 + 1) << 32 // a new life, which no other process has
	if n.bytes, err = n.Bandit.Snapshot(nil); err == nil {
		err = n.Bandit.Merge(n.bytes) // changes nothing; a policy that cannot says so now
	}
	if err == nil {
		err = n.put(ctx)
	}
	if err == nil {
		err = n.merge(all)
	}
	if err == nil {
		err = n.prepare()
	}
	if given := options.Bandit; err != nil {
		if n.Bandit != given {
			n.Bandit.Close()
		}
		return nil, err
	} else if given != nil && n.Bandit != given {
		given.Close()
	}
	return n, nil
}

// begin makes the bandit, or goes on from whichever knows more: the one that was given or the node's own snapshot.
func begin(options Options, snapshot []byte) (*dpb.Bandit, error) {
	policy, config, given := options.Policy, options.Config, options.Bandit
	if snapshot == nil {
		switch {
		case given != nil:
			return given, nil
		case policy == 0:
			return dpb.New(config)
		}
		return dpb.NewPolicy(policy, config)
	}
	if given != nil {
		policy, _ = dpb.ParsePolicy(given.PolicyName())
	} else if policy == 0 {
		free := config
		free.Budget, free.BudgetPeriods = nil, 0 // this one is asked for its name, and costs nobody anything
		bandit, err := dpb.New(free)
		if err != nil {
			return nil, err
		}
		policy, _ = dpb.ParsePolicy(bandit.PolicyName())
		bandit.Close()
	}
	there, err := dpb.RestorePolicy(policy, config, snapshot)
	if err != nil || given == nil {
		return there, err
	}
	before, err := there.Report()
	here, wrong := given.Report()
	if err = errors.Join(err, wrong); err != nil || before.Decisions <= here.Decisions {
		there.Close()
		return given, err
	}
	return there, nil
}

// NextPeriod begins a period ([dpb.Bandit.NextPeriod]) and has Sync put a snapshot at once, because who goes on from an
// older one would forget this period.
func (n *Node) NextPeriod() error {
	err := n.Bandit.NextPeriod()
	select {
	case n.soon <- struct{}{}:
	default:
	}
	return err
}

// Sync puts what this node has released and merges what the others have, again and again, and takes the answers that
// were given to others. An error of the store is said by [Node.Metrics] and tried again within the interval; so all
// nodes that reach the store know the same within one. Nothing is lost with the store's contents but what nodes had
// released that have ended.
//
// It returns when ctx is done, having put once more; with [ErrReplaced]; or with the bandit's own error: it is closed.
func (n *Node) Sync(ctx context.Context) error {
	here, end := context.WithCancel(ctx)
	var answers sync.WaitGroup
	if n.post != nil {
		for _, work := range []func(context.Context){n.receive, n.deliver, n.judge} {
			answers.Add(1)
			go func() {
				defer answers.Done()
				work(here)
			}()
		}
	}
	defer answers.Wait()
	defer end()
	defer n.ignore()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for failures := 0; ; {
		var err error
		select {
		case <-ctx.Done():
			end()
			answers.Wait()
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), n.patience())
			defer cancel()
			return errors.Join(ctx.Err(), n.share(last), n.resign(last), n.put(last), n.finish(last))
		case <-timer.C:
			if err = n.exchange(ctx); err == nil {
				failures = 0
				timer.Reset(pause(n.interval, 0))
			}
		case <-n.soon:
			once, cancel := context.WithTimeout(ctx, n.patience())
			err = n.put(once)
			cancel()
		case node, on := <-n.hints:
			if on {
				err = n.hear(ctx, node)
			} else {
				n.ignore() // the next exchange asks again
			}
		}
		switch {
		case err == nil:
		case errors.Is(err, ErrReplaced), errors.Is(err, dpb.ErrClosed), errors.Is(err, dpb.ErrPoisoned):
			return err
		default:
			n.ignore() // nobody knows what was not heard
			failures++
			timer.Reset(pause(n.interval, failures))
			n.count(func(m *Metrics) { m.Errors++; m.LastError = err })
		}
	}
}

// Within which an exchange succeeds or has failed.
func (n *Node) patience() time.Duration { return n.interval / 2 }

// pause is how long to wait before the next exchange. After failures it doubles from 1/32 of the interval to half of
// it: together with what the exchange before took, no more than one interval. Nodes do not keep step.
func pause(interval time.Duration, failures int) time.Duration {
	if failures > 0 {
		interval >>= max(6-failures, 1)
	}
	return interval/2 + rand.N(interval/2+1)
}

// exchange watches, then shares, then puts, then lists. Of two nodes one puts before the other lists, or else is heard by the other.
func (n *Node) exchange(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, n.patience())
	defer cancel()
	if n.hints == nil {
		hints, stop, err := n.store.Watch(ctx)
		if err != nil {
			return err
		}
		puts := make(chan uint16, 1024)
		n.hints, n.unwatch = puts, stop
		go n.listen(hints, puts)
	}
	if err := n.share(ctx); err != nil {
		return err
	}
	if err := n.put(ctx); err != nil {
		return err
	}
	all, err := n.store.List(ctx)
	if err != nil {
		return err
	}
	if err := n.merge(all); err != nil {
		return err
	}
	n.count(func(m *Metrics) { m.Exchanges++; n.last = time.Now() })
	return nil
}

// hear merges what this node, and all of whom a hint waits, have put.
func (n *Node) hear(ctx context.Context, node uint16) error {
	nodes := []uint16{node}
	for range len(n.hints) {
		nodes = append(nodes, <-n.hints)
	}
	slices.Sort(nodes)
	nodes = slices.DeleteFunc(slices.Compact(nodes), func(node uint16) bool { return node == n.number })
	if len(nodes) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, n.patience())
	defer cancel()
	some, err := n.store.List(ctx, nodes...)
	if err != nil {
		return err
	}
	return n.merge(some)
}

func (n *Node) ignore() {
	if n.hints != nil {
		n.unwatch()
		n.hints = nil
	}
}

// put: the store has our newest snapshot then, or that of one who has replaced us: no version is put twice, so what it
// may have of ours is older, also when its answer was lost.
func (n *Node) put(ctx context.Context) error {
	var err error
	if n.bytes, err = n.Bandit.Snapshot(n.bytes[:0]); err != nil {
		return err
	}
	n.version++
	kept, err := n.store.Put(ctx, Snapshot{n.number, n.version, n.bytes})
	if err == nil && !kept {
		err = ErrReplaced
	}
	return err
}

// merge takes what is news. What is refused does not keep the others out.
func (n *Node) merge(some []Snapshot) error {
	for _, snapshot := range some {
		hash := maphash.Bytes(seed, snapshot.Bytes)
		if known, found := n.merged[snapshot.Node]; snapshot.Node == n.number || found && known == hash {
			continue
		}
		err := n.Bandit.Merge(snapshot.Bytes)
		if errors.Is(err, dpb.ErrClosed) || errors.Is(err, dpb.ErrPoisoned) {
			return err
		}
		if err == nil {
			n.merged[snapshot.Node] = hash
		} else {
			err = fmt.Errorf("node %d: %w", snapshot.Node, err)
		}
		n.mu.Lock()
		before, seen := n.nodes[snapshot.Node]
		n.nodes[snapshot.Node] = err
		n.mu.Unlock()
		if err != nil && (!seen || before == nil) { // said once
			n.log.Error("fleet: a stranger has this bandit's name: it and this node ignore each other", "node", n.number, "error", err)
		}
	}
	return nil
}

func (n *Node) count(change func(*Metrics)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	change(&n.metrics)
}
