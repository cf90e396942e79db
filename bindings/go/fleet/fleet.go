// Package fleet makes several processes learn as one bandit. Each process has its own handle, and learns from what all
// of them have released, through a store that they share. The store holds snapshots, which may be published. A decision
// never waits for the store, and processes continue to decide while the store is unavailable.
//
//	redis := fleet.NewRedis(&redis.UniversalOptions{Addrs: []string{"localhost:6379"}}, "ads")
//	config.Node = 7 // 1 to 65535, a different number for each process of the fleet
//	node, err := fleet.Join(ctx, fleet.Options{Store: redis, Rewards: redis, Config: config})
//	go node.Sync(ctx)
//	decision, err := node.Bandit.Select()
//	err = node.Update(ticket, reward) // for a ticket of any node
//
// With Config.FleetKey and Options.Contributions, one node releases what all nodes collect, with one noise, and rewards
// that travel between nodes are sealed. Their number is NOT private unless Options.SendRate is set.
//
// README.md describes what a person who can read or write the store can do.
package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	dpb "github.com/libdpb/libdpb/bindings/go"
)

// ErrReplaced means that another process has joined under this node's number. The fleet does not learn from what this
// process still decides, so stop it.
var ErrReplaced = errors.New("fleet: another process has this node's number")

// Snapshot is a node's released state, as the store keeps it.
type Snapshot struct {
	Node    uint16
	Version uint64 // 0 if the store's value has no valid version
	Bytes   []byte
}

// Store keeps the newest snapshot of every node, including nodes that have left.
type Store interface {
	// Put stores a snapshot, unless the store has one of the same node with the same or a greater version.
	Put(ctx context.Context, snapshot Snapshot) (kept bool, err error)
	// List returns the snapshots of these nodes, or of all nodes if there are no arguments. It returns invalid
	// values unchanged.
	List(ctx context.Context, nodes ...uint16) ([]Snapshot, error)
	// Watch subscribes to notifications. It covers everything that is published after it has returned, but
	// notifications can be lost. The channel closes when the connection to the store is lost or when the caller
	// calls stop. The caller must call stop. ctx limits the subscribing only, not the subscription.
	Watch(ctx context.Context) (notifications <-chan Notification, stop func(), err error)
	// Notify publishes a notification to all watchers. Put publishes its own.
	Notify(ctx context.Context, notification Notification) error
}

// Notification is an event of a node.
type Notification struct {
	Node  uint16
	Event Event
}

// Event is the kind of a [Notification].
type Event int

const (
	Put       Event = iota // the node has put a snapshot
	Heartbeat              // rewards reach the node: its heartbeats to itself return in time
	Leave                  // the node has stopped, and sends no more rewards
)

// RewardQueue carries rewards to the nodes that decided. Unlike snapshots, rewards are NOT private, and neither is
// their number: see Options.SendRate.
type RewardQueue interface {
	// Send sends messages in this order. If it returns an error, some may have been sent.
	Send(ctx context.Context, messages []Message) error
	// Receive passes all messages for this node to take, and then deletes them. It can pass a message more than
	// once. If there are no messages, it waits a short time for some.
	Receive(ctx context.Context, node uint16, take func(Message)) error
}

// Message is a reward, a heartbeat from a node to itself or, with a fleet key, sealed rewards.
type Message struct {
	To        uint16
	Ticket    uint64
	Reward    float64
	Heartbeat uint64 // the heartbeat's number; otherwise 0
	Sealed    []byte // sealed tickets and rewards; otherwise nil
}

// Options are the options of a node.
type Options struct {
	Store Store
	// Rewards carries rewards to the nodes that decided. If it is nil, the node accepts only rewards for its own
	// decisions.
	Rewards RewardQueue
	// Contributions is required with Config.FleetKey: it makes one node release for all. Without a key it is not
	// used.
	Contributions ContributionQueue
	// Policy must be a policy that can merge. 0 selects the recommended policy.
	Policy dpb.Policy
	// Config must be the same at all nodes, including the segments, except for Node, which is from 1 to 65535.
	Config dpb.Config
	// Interval is the time between two exchanges with the store. The default, for 0, is 5 s.
	Interval time.Duration
	// Tick is the duration of a tick of dpb.ClockCaller, the unit that you pass to the bandit's Advance. The default,
	// for 0, is 1 ms.
	Tick time.Duration
	// Bandit is a bandit that you made with Config, for example from a file. If it is nil, Join makes one. If the
	// store's snapshot of this node has more decisions, the node continues from that snapshot, and Join closes this
	// bandit. If Join returns an error, you still own the bandit.
	Bandit *dpb.Bandit
	// Delay is the longest time that a reward may take through Rewards. If rewards take longer, the node cancels
	// decisions that wait a RewardWindow for their rewards: see README.md. The default, for 0, is 1 s. If Delay is
	// negative, the node never checks.
	Delay time.Duration
	// SendRate needs Config.FleetKey. If it is 0, the node sends each reward at once: the store then shows how many
	// rewards travel and when, which is NOT private. Otherwise the node sends a message of one length to each other node
	// at fixed times, eight times in a Delay, whether rewards wait or not. The messages have space for at least SendRate
	// rewards a second to each node. More rewards wait: choose at least twice the rate of your peak, and watch
	// Metrics.Waiting. All nodes of the fleet need heartbeats: in C++ a delay above 0.
	SendRate int
	// Logger logs outages, incompatible nodes, and the first error of the store after a success. If it is nil, the node
	// uses slog.Default().
	Logger *slog.Logger
}

// Node is the membership of one process in a fleet.
type Node struct {
	Bandit *dpb.Bandit // close it after Sync has returned

	store         Store
	rewards       RewardQueue       // nil: this node accepts only rewards for its own decisions
	contributions ContributionQueue // nil without a fleet key
	key           uint64            // the fleet key's id
	number        uint16
	interval      time.Duration
	delay         time.Duration
	slots         int // rewards in each message, with Options.SendRate; otherwise 0
	checksOutages bool
	window        uint64        // reward window in ticks; 0: none
	tick          time.Duration // 0: a tick is a decision
	started       time.Time
	putNow        chan struct{} // Sync must put a snapshot without waiting for the next exchange
	log           *slog.Logger

	// The goroutine of Sync uses these fields alone.
	version uint64 // of the last snapshot that was put: the incarnation in the upper half, a count in the lower half
	bytes   []byte
	puts    <-chan uint16 // nodes that have notified of a put; nil: this node does not watch
	unwatch func()
	merged  map[uint16]uint64 // hash of the last snapshot of each node that was merged
	lease   Leader            // this node as the leader; zero: it does not lead

	mu           sync.Mutex
	lastExchange time.Time        // when the last successful exchange ended
	nodes        map[uint16]error // nodes that were seen, and why their newest snapshot was refused
	metrics      Metrics
	forwarding   forwarding
	logged       sync.Map // errors that logOnce has logged
}

var seed = maphash.MakeSeed()

// Join makes this node's bandit and merges what all other nodes have released. If the store has a snapshot of this
// node, the node continues from it and needs nothing else. An older process with the same number gets [ErrReplaced].
//
// If the store fails, Join returns its error: try again, or use a number that no node ever had. Join returns
// ErrInvalidConfig or ErrCorrupt if the store's value for this number is not a snapshot of this configuration.
func Join(ctx context.Context, options Options) (*Node, error) {
	if options.Config.Node == 0 || options.Config.Node > 0xffff {
		return nil, fmt.Errorf("%w: node must be from 1 to 65535, got %d", dpb.ErrInvalidConfig, options.Config.Node)
	}
	if options.Config.FleetKey == nil {
		options.Contributions = nil
	} else if options.Contributions == nil {
		return nil, fmt.Errorf("%w: with FleetKey, a node needs Contributions", dpb.ErrInvalidConfig)
	}
	if options.SendRate < 0 || options.SendRate > 0 && (options.Config.FleetKey == nil || options.Rewards == nil) {
		return nil, fmt.Errorf("%w: SendRate must be 0, or positive with FleetKey and Rewards, got %d",
			dpb.ErrInvalidConfig, options.SendRate)
	}
	var node *Node
	err := ErrReplaced
	// Another process with this number can put its snapshot first, and this one must then continue from that snapshot.
	// This does not repeat often, unless somebody writes to the field again and again.
	for tries := 0; errors.Is(err, ErrReplaced) && tries < 10; tries++ {
		node, err = join(ctx, options)
	}
	return node, err
}

func join(ctx context.Context, options Options) (*Node, error) {
	n := &Node{
		store:         options.Store,
		rewards:       options.Rewards,
		contributions: options.Contributions,
		number:        uint16(options.Config.Node),
		interval:      options.Interval,
		delay:         options.Delay,
		checksOutages: options.Delay >= 0,
		putNow:        make(chan struct{}, 1),
		window:        uint64(options.Config.RewardWindow),
		log:           options.Logger,
		merged:        map[uint16]uint64{},
		started:       time.Now(),
		lastExchange:  time.Now(),
		nodes:         map[uint16]error{},
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
	slots := math.Ceil(float64(options.SendRate) * n.delay.Seconds() / heartbeatsPerDelay)
	if slots > maxSlots {
		return nil, fmt.Errorf("%w: SendRate must be at most %.0f with this Delay, got %d",
			dpb.ErrInvalidConfig, maxSlots*heartbeatsPerDelay/n.delay.Seconds(), options.SendRate)
	}
	n.slots = int(slots)
	all, err := n.store.List(ctx)
	if err != nil {
		return nil, err
	}
	for _, snapshot := range all {
		if snapshot.Node == n.number {
			n.version, n.bytes = snapshot.Version, snapshot.Bytes
		}
	}
	if n.Bandit, err = openBandit(options, n.bytes); err != nil {
		return nil, fmt.Errorf("node %d: %w", n.number, err)
	}
	if report, err := n.Bandit.Report(); err == nil {
		n.key = report.FleetKeyID
	}
	n.version = (n.version>>32 + 1) << 32 // the next incarnation, which no other process can also put
	if n.bytes, err = n.Bandit.Snapshot(nil); err == nil {
		err = n.Bandit.Merge(n.bytes) // changes nothing, but fails here if the policy cannot merge
	}
	if err == nil {
		err = n.put(ctx)
	}
	if err == nil {
		err = n.merge(all)
	}
	if err == nil {
		err = n.startForwarding()
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

// openBandit makes a bandit. If there is a given bandit or a snapshot of this node, it continues from the one with more
// decisions.
func openBandit(options Options, snapshot []byte) (*dpb.Bandit, error) {
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
		unbudgeted := config // this bandit only gives its policy's name, so it must not charge the budget
		unbudgeted.Budget, unbudgeted.BudgetPeriods = nil, 0
		bandit, err := dpb.New(unbudgeted)
		if err != nil {
			return nil, err
		}
		policy, _ = dpb.ParsePolicy(bandit.PolicyName())
		bandit.Close()
	}
	stored, err := dpb.RestorePolicy(policy, config, snapshot)
	if err != nil || given == nil {
		return stored, err
	}
	storedReport, err := stored.Report()
	givenReport, givenErr := given.Report()
	if err = errors.Join(err, givenErr); err != nil || storedReport.Decisions <= givenReport.Decisions {
		stored.Close()
		return given, err
	}
	return stored, nil
}

// NextPeriod begins a period ([dpb.Bandit.NextPeriod]) and makes Sync put a snapshot at once. A process that continues
// from an older snapshot would not count this period.
func (n *Node) NextPeriod() error {
	err := n.Bandit.NextPeriod()
	select {
	case n.putNow <- struct{}{}:
	default:
	}
	return err
}

// Sync exchanges snapshots with the store at each interval: it puts what this node has released and merges what the
// others have released. It also sends and receives rewards. [Node.Metrics] reports errors of the store, the log has the
// first one after a success, and Sync tries again within an interval. So all nodes that reach the store know the same
// within one interval. If the store loses its contents, only the releases of nodes that have left are lost.
//
// When ctx is done, Sync puts a last snapshot, and returns nil, or the store's error. It also returns with
// [ErrReplaced], and with the bandit's own error if the bandit is closed or poisoned.
func (n *Node) Sync(ctx context.Context) error {
	running, stop := context.WithCancel(ctx)
	var workers sync.WaitGroup
	if n.rewards != nil {
		for _, work := range []func(context.Context){n.receiveRewards, n.sendRewards, n.checkOutage} {
			workers.Add(1)
			go func() {
				defer workers.Done()
				work(running)
			}()
		}
	}
	defer workers.Wait()
	defer stop()
	defer n.stopWatching()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for failures := 0; ; {
		var err error
		select {
		case <-ctx.Done():
			stop()
			workers.Wait()
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), n.timeout())
			defer cancel()
			return errors.Join(n.share(last), n.resign(last), n.put(last), n.leave(last))
		case <-timer.C:
			if err = n.exchange(ctx); err == nil {
				failures = 0
				timer.Reset(pause(n.interval, 0))
			}
		case <-n.putNow:
			limited, cancel := context.WithTimeout(ctx, n.timeout())
			err = n.put(limited)
			cancel()
		case node, open := <-n.puts:
			if open {
				err = n.mergeFrom(ctx, node)
			} else {
				n.stopWatching() // the next exchange watches again
			}
		}
		switch {
		case err == nil, ctx.Err() != nil: // the end may interrupt an exchange
		case errors.Is(err, ErrReplaced), errors.Is(err, dpb.ErrClosed), errors.Is(err, dpb.ErrPoisoned):
			return err
		default:
			n.stopWatching() // notifications may be lost: watch again
			failures++
			timer.Reset(pause(n.interval, failures))
			n.count(func(m *Metrics) { m.Errors++ })
			n.failed(err, failures)
		}
	}
}

// failed records an error of the store, and logs the first one after a success.
func (n *Node) failed(err error, failures int) {
	n.count(func(m *Metrics) { m.LastError = err })
	if failures == 1 {
		n.log.Warn("fleet: the store fails, and this node tries again", "node", n.number, "error", err)
	}
}

// timeout is the time limit of one exchange.
func (n *Node) timeout() time.Duration { return n.interval / 2 }

// pause returns the time to wait before the next exchange. After failures it doubles from 1/32 of the interval to half
// of it. Together with the timeout of the failed exchange, that is at most one interval. A random part keeps nodes from
// exchanging at the same time.
func pause(interval time.Duration, failures int) time.Duration {
	if failures > 0 {
		interval >>= max(6-failures, 1)
	}
	return interval/2 + rand.N(interval/2+1)
}

// exchange watches, then shares, then puts, then lists. In this order any two nodes learn of each other: either one
// puts before the other lists, or the other already watches and is notified of the put.
func (n *Node) exchange(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, n.timeout())
	defer cancel()
	if n.puts == nil {
		notifications, stop, err := n.store.Watch(ctx)
		if err != nil {
			return err
		}
		puts := make(chan uint16, 1024)
		n.puts, n.unwatch = puts, stop
		go n.readNotifications(notifications, puts)
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
	n.count(func(m *Metrics) { m.Exchanges++; n.lastExchange = time.Now() })
	return nil
}

// mergeFrom merges the snapshots of the given node and of all other nodes whose put notifications wait.
func (n *Node) mergeFrom(ctx context.Context, node uint16) error {
	nodes := []uint16{node}
	for range len(n.puts) {
		nodes = append(nodes, <-n.puts)
	}
	slices.Sort(nodes)
	nodes = slices.DeleteFunc(slices.Compact(nodes), func(node uint16) bool { return node == n.number })
	if len(nodes) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, n.timeout())
	defer cancel()
	snapshots, err := n.store.List(ctx, nodes...)
	if err != nil {
		return err
	}
	return n.merge(snapshots)
}

func (n *Node) stopWatching() {
	if n.puts != nil {
		n.unwatch()
		n.puts = nil
	}
}

// put writes this node's newest snapshot to the store. Each version is put once only, so the store's own snapshot of
// this process is always older, even if the reply to an earlier put was lost. If the store refuses the snapshot,
// another process has replaced this one.
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

// merge merges the snapshots that have changed. A snapshot that is refused does not keep it from merging the others.
func (n *Node) merge(snapshots []Snapshot) error {
	for _, snapshot := range snapshots {
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
		if err != nil && (!seen || before == nil) { // log each incompatible node once
			n.log.Error("fleet: a node with this bandit's name is incompatible: it and this node ignore each other",
				"node", n.number, "error", err)
		}
	}
	return nil
}

func (n *Node) count(change func(*Metrics)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	change(&n.metrics)
}
