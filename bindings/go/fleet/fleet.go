// Package fleet makes several processes learn as one bandit. Each process has its own handle, and learns from what all
// of them have released, through a store that they share. The store holds snapshots, which may be published. A decision
// never waits for the store, and processes continue to decide while the store is unavailable.
//
//	redis := fleet.NewRedis(&redis.UniversalOptions{Addrs: []string{"localhost:6379"}}, "ads")
//	config.Node = 7 // 1 to 65535, a different number for each process of the fleet; or 0: the lowest that is free
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
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	dpb "github.com/libdpb/libdpb/bindings/go"
)

// ErrReplaced means that another process has this node's number: it has joined with this number, or the number's lease
// was over and was given to it. The fleet does not learn from what this process still decides, so end it.
var ErrReplaced = errors.New("fleet: another process has this node's number")

// Snapshot is a node's released state, as the store keeps it.
type Snapshot struct {
	Node    uint16
	Version uint64 // the incarnation in the upper half, a count in the lower half; 0 if the store's value has none
	Bytes   []byte
}

// Member is a process that holds a number.
type Member struct {
	Node        uint16
	Incarnation uint32 // how many processes have had this number, this one included
	Life        uint64 // a random number, different for each process; not 0
}

// Store is what the nodes of a fleet share. Each method is atomic. A method that gets a [Member] returns [ErrReplaced],
// or false, and changes nothing, if the number's record has another life of the same incarnation, or a later one. So a
// process that has hung cannot take what belongs to the process that has its number now.
//
// A store can forget. Stores replicate asynchronously, so a failover or a lost file can bring back an earlier state, of
// everything that the store keeps, at any time. The nodes need no more than that:
//   - The store gives what it was given, or nothing: the seal of a fleet key detects other bytes.
//   - Counts (beats, breaks, puts) increase while nothing is forgotten.
//
// After an earlier state came back, nothing counts twice: bandits refuse old snapshots, repeated rewards and repeated
// contributions, each for a reason of its own, and a process accepts one state for each of its receivers. Rewards,
// contributions and states that were forgotten are lost. Two processes can hold one number until their next call, in which
// one of them gets ErrReplaced. Two nodes can lead until their next exchange: then there are two noises.
type Store interface {
	// Take gives a number to a life, for the duration of the lease. Number 0 stands for the lowest number that nobody
	// holds: the lease of the last holder is over. Another number is taken from its holder. Take counts the node as alive.
	Take(ctx context.Context, node uint16, life uint64, lease time.Duration) (Member, error)
	// Put stores a snapshot, unless the store has one of the same node with the same or a greater version. If it is
	// news, Versions lists the version from then on, and the count of puts increases.
	Put(ctx context.Context, member Member, snapshot Snapshot, news bool) (kept bool, err error)
	// Versions returns the version of each node's last news.
	Versions(ctx context.Context) (map[uint16]uint64, error)
	// List returns the snapshots of these nodes. It returns invalid values unchanged.
	List(ctx context.Context, nodes ...uint16) ([]Snapshot, error)
	// Numbers returns all numbers that a process ever had.
	Numbers(ctx context.Context) ([]uint16, error)
	// Beat renews the lease of a number, and tells which other nodes do not.
	Beat(ctx context.Context, member Member, beat Beat) (Pulse, error)
	// Leave ends the lease of a number, and the node no longer counts as alive. If the life is 0, the node is not asked:
	// its life is replaced, and the count of breaks increases.
	Leave(ctx context.Context, member Member) error
}

// Beat is what a node asks for when it beats: [Store].
type Beat struct {
	Lease time.Duration // from now on
	// Nodes whose last beat is at most Late are returned. Nodes whose last beat is at most Gone no longer count as alive:
	// they are returned for the last time. Beats are numbered from 1; 0 names none.
	Late, Gone uint64
	Held       bool // also return the numbers that a process holds, of nodes that are alive and of nodes that have ended
}

// Pulse is the reply to a [Beat].
type Pulse struct {
	Beats   uint64            // the number of this beat
	Nodes   uint64            // how many nodes are alive, this one included
	Numbers uint64            // how many numbers a process ever had
	States  uint64            // how many states were left for this node
	Breaks  uint64            // how often a node was gone, or beat again after it was gone
	Puts    uint64            // how often a node has put news
	Gone    []uint16          // nodes that are gone by this beat
	Late    map[uint16]uint64 // the late nodes, with their last beats
	Held    []uint16          // with Beat.Held: the numbers that a process holds
}

// RewardQueue carries rewards to the nodes that decided. Unlike snapshots, rewards are NOT private, and neither is
// their number: see Options.SendRate.
type RewardQueue interface {
	// Send sends messages in this order. If it returns an error, some may have been sent.
	Send(ctx context.Context, messages []Message) error
	// Receive passes all messages for this member's node to take, and then deletes them. It can pass a message more than
	// once. It returns ErrReplaced, and passes and deletes nothing, as the methods of [Store] do.
	Receive(ctx context.Context, member Member, take func(Message)) error
}

// Message is a reward or, with a fleet key, sealed rewards.
type Message struct {
	To     uint16
	Ticket uint64
	Reward float64
	Sealed []byte // sealed tickets and rewards; otherwise nil
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
	// Config must be the same at all nodes, including the segments, except for Node. Node is the number of this process,
	// from 1 to 65535, which no other process has; or 0, for the lowest number that is free.
	Config dpb.Config
	// Interval is the time between two exchanges with the store. The default, for 0, is 5 s.
	Interval time.Duration
	// Tick is the duration of a tick of dpb.ClockCaller, the unit that you pass to the bandit's Advance. The default,
	// for 0, is 1 ms.
	Tick time.Duration
	// Bandit is a bandit that you made with Config, for example from a file. If it is nil, Join makes one. If the
	// store's snapshot of this node has more decisions, the node continues from that snapshot, and Join closes this
	// bandit. If Join returns an error, you still own the bandit. It needs a Config.Node that is not 0.
	Bandit *dpb.Bandit
	// Delay is the longest time that a reward may take through Rewards. If rewards take longer, the node cancels
	// decisions that wait a RewardWindow for their rewards: see README.md. A node that does not beat for 30 delays is gone,
	// and its number is free. The default, for 0, is 1 s. If Delay is negative, it is 1 s, and the node does not cancel.
	Delay time.Duration
	// SendRate needs Config.FleetKey. If it is 0, the node sends each reward at once: the store then shows how many
	// rewards travel and when, which is NOT private. Otherwise the node sends a message of one length to each other node
	// at fixed times, eight times in a Delay, whether rewards wait or not. The messages have space for at least SendRate
	// rewards a second to each node. A reward travels in the next message. If that is full, it is lost, and one reward
	// decides about another: choose a rate at which this does not happen (README.md has a table), and watch
	// Metrics.Unsent.
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
	member        Member
	interval      time.Duration
	delay         time.Duration
	slots         int // rewards in each message, with Options.SendRate; otherwise 0
	config        dpb.Config
	routed        bool          // Options.Delay is negative
	window        uint64        // reward window in ticks; 0: none, or this node does not check for outages
	tick          time.Duration // 0: a tick is a decision
	started       time.Time
	putNow        chan struct{} // Sync must put a snapshot without waiting for the next exchange
	news          chan struct{} // Sync must merge: a node has put news
	states        chan struct{} // Sync must adopt: a node that has ended has left its state
	log           *slog.Logger

	// The goroutine of Sync uses these fields alone.
	version    uint64 // of the last snapshot that was put
	bytes      []byte
	releases   uint32               // that the last news had
	exchanges  int                  // so far
	unputs     int                  // exchanges since the last put
	merged     map[uint16]uint64    // version of the last snapshot of each node that was merged
	handles    uint32               // the number of nodes that the bandit knows of
	lease      Leader               // this node as the leader; zero: it does not lead
	leaderless bool                 // the last exchange found no leader
	ending     bool                 // this node does not lead any more
	leading    Leader               // of the last exchange
	receivers  map[uint64]time.Time // numbers that this node offers for states; when each was taken

	mu           sync.Mutex
	lastExchange time.Time        // when the last successful exchange ended
	refused      map[uint16]error // nodes whose newest snapshot was refused, and why
	metrics      Metrics
	forwarding   forwarding
	wards        []*ward
	unknown      []Message // rewards whose tickets this node's bandit does not know
	logged       sync.Map  // errors that logOnce has logged
}

// Join takes a number, makes this node's bandit, and merges what all other nodes have released. If the store has a
// snapshot of this number, the node continues from it and needs nothing else. An older process with the same number gets
// [ErrReplaced].
//
// If the store fails, Join returns its error: try again, or use a number that no node ever had. Join returns
// ErrInvalidConfig or ErrCorrupt if the store's value for this number is not a snapshot of this configuration.
func Join(ctx context.Context, options Options) (*Node, error) {
	if options.Config.Node > 0xffff {
		return nil, fmt.Errorf("%w: node must be at most 65535, got %d", dpb.ErrInvalidConfig, options.Config.Node)
	}
	if options.Config.Node == 0 && options.Bandit != nil {
		return nil, fmt.Errorf("%w: node must not be 0 with Bandit", dpb.ErrInvalidConfig)
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
	n := &Node{
		store:         options.Store,
		rewards:       options.Rewards,
		contributions: options.Contributions,
		interval:      options.Interval,
		delay:         options.Delay,
		putNow:        make(chan struct{}, 1),
		news:          make(chan struct{}, 1),
		states:        make(chan struct{}, 1),
		config:        options.Config,
		receivers:     map[uint64]time.Time{},
		log:           options.Logger,
		merged:        map[uint16]uint64{},
		started:       time.Now(),
		lastExchange:  time.Now(),
		refused:       map[uint16]error{},
	}
	if n.interval <= 0 {
		n.interval = 5 * time.Second
	}
	if options.Config.Clock == dpb.ClockCaller {
		n.tick = cmp.Or(options.Tick, time.Millisecond)
	}
	if n.rewards != nil && n.delay >= 0 {
		n.window = uint64(options.Config.RewardWindow)
	}
	n.routed = n.delay < 0
	if n.delay <= 0 {
		n.delay = time.Second
	}
	if n.log == nil {
		n.log = slog.Default()
	}
	slots := math.Ceil(float64(options.SendRate) * n.delay.Seconds() / beatsPerDelay)
	if slots > maxSlots {
		return nil, fmt.Errorf("%w: SendRate must be at most %.0f with this Delay, got %d",
			dpb.ErrInvalidConfig, maxSlots*beatsPerDelay/n.delay.Seconds(), options.SendRate)
	}
	n.slots = int(slots)
	err := n.takeNumber(ctx, options)
	if err == nil {
		err = n.begin(ctx)
	}
	if given := options.Bandit; err == nil {
		if given != nil && n.Bandit != given {
			given.Close()
		}
		return n, nil
	} else if n.Bandit != nil && n.Bandit != given {
		n.Bandit.Close()
	}
	if n.member.Life != 0 {
		_ = n.store.Leave(ctx, n.member) // otherwise the lease ends by itself
	}
	return nil, err
}

// takeNumber takes the number and makes the bandit. If the number is given, the bandit comes first: a process that cannot
// continue must not replace one that runs.
func (n *Node) takeNumber(ctx context.Context, options Options) (err error) {
	lease := delaysUntilGone * n.delay
	take := func() error {
		n.member, err = n.store.Take(ctx, uint16(options.Config.Node), rand.Uint64()|1, lease)
		return err
	}
	if options.Config.Node == 0 {
		if err := take(); err != nil {
			return err
		}
		options.Config.Node = uint64(n.member.Node)
	}
	for {
		own, err := n.store.List(ctx, uint16(options.Config.Node))
		if err != nil {
			return err
		}
		own = append(own, Snapshot{})
		if n.Bandit != nil && own[0].Version == n.version {
			break
		} else if n.Bandit != nil && n.Bandit != options.Bandit { // the last holder has put another one
			n.Bandit.Close()
		}
		n.version = own[0].Version
		if n.Bandit, err = openBandit(options, own[0].Bytes); err == nil {
			if n.bytes, err = n.Bandit.Snapshot(n.bytes[:0]); err == nil {
				err = n.Bandit.Merge(n.bytes) // changes nothing, but fails here if the policy cannot merge
			}
		}
		if err != nil {
			return fmt.Errorf("node %d: %w", options.Config.Node, err)
		}
		if n.member.Life != 0 {
			break
		}
		if err := take(); err != nil {
			return err
		}
	}
	n.version = uint64(n.member.Incarnation) << 32
	return nil
}

// begin puts the first snapshot, and merges what the others have released.
func (n *Node) begin(ctx context.Context) (err error) {
	report, err := n.Bandit.Report()
	if err != nil {
		return err
	}
	n.key = report.FleetKeyID
	if err = n.put(ctx); err == nil {
		err = n.startForwarding(ctx)
	}
	if err == nil {
		err = n.merge(ctx)
	}
	if err == nil {
		err = n.share(ctx) // from now on this node contributes, and releases nothing
	}
	if err == nil {
		err = n.offer(ctx)
	}
	return err
}

// Number returns this node's number.
func (n *Node) Number() uint16 { return n.member.Node }

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

// NextPeriod begins a period ([dpb.Bandit.NextPeriod]) and makes Sync put a snapshot at once. The bandit learns from nobody
// until the store has it, because a process that continues from an older snapshot would not count this period.
func (n *Node) NextPeriod() error {
	err := n.Bandit.NextPeriod()
	notify(n.putNow)
	return err
}

func notify(channel chan struct{}) {
	select {
	case channel <- struct{}{}:
	default: // it was notified already
	}
}

// Sync exchanges snapshots with the store at each interval: it puts what this node has released and merges what the
// others have released. It also sends and receives rewards. [Node.Metrics] reports errors of the store, the log has the
// first one after a success, and Sync tries again within an interval. So all nodes that reach the store know the same
// within two intervals. If the store loses its contents, only the releases of nodes that have left are lost.
//
// When ctx is done, Sync hands over what this node has collected, and returns nil, or the store's error: it contributes
// its open sums, and the leader of a fleet with one noise does so after two intervals, at most ten seconds, in which the
// others find another leader. Then, with a fleet key and Options.Rewards, another node that is alive continues with its
// open decisions, whose rewards still count, and Bandit has ended: its methods return [dpb.ErrHalted]. Decide nothing
// after ctx is done. Sync also returns with [ErrReplaced], and with the
// bandit's own error if the bandit is closed or poisoned.
func (n *Node) Sync(ctx context.Context) error {
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 2)
	var workers sync.WaitGroup
	for _, work := range []func(){
		func() { n.beats(running, ended) }, func() { n.sends(running, ended) }, func() { n.checkOutage(running) },
	} {
		workers.Add(1)
		go func() {
			defer workers.Done()
			work()
		}()
	}
	defer func() {
		for _, w := range n.allWards(0) {
			n.drop(w)
		}
	}()
	defer workers.Wait()
	defer stop()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for failures := 0; ; {
		var err error
		select {
		case <-ctx.Done():
			err := n.resign(running)
			stop()
			workers.Wait() // rewards that come from now on wait for the node that continues with their decisions
			last := context.WithoutCancel(ctx)
			return errors.Join(err, n.atTheEnd(last, n.updateWards), n.atTheEnd(last, n.share), n.atTheEnd(last, n.put),
				n.atTheEnd(last, n.sendAll), n.handOver(last))
		case err = <-ended:
		case <-timer.C:
			if err = n.exchange(running); err == nil {
				failures = 0
				timer.Reset(pause(n.interval, 0))
			}
		case <-n.putNow:
			err = n.limited(running, n.put)
		case <-n.news:
			err = n.limited(running, n.merge)
		case <-n.states:
			if err = n.limited(running, n.adopt); err == nil {
				err = n.limited(running, n.merge)
			}
		}
		switch {
		case err == nil:
		case errors.Is(err, ErrReplaced):
			return errors.Join(err, n.Bandit.CancelAll()) // the clicks go to the new process
		case errors.Is(err, dpb.ErrClosed), errors.Is(err, dpb.ErrPoisoned):
			return err
		default:
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
		n.log.Warn("fleet: the store fails, and this node tries again", "node", n.member.Node, "error", err)
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

// limited does some of an exchange's work within its time limit.
func (n *Node) limited(ctx context.Context, work func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, n.timeout())
	defer cancel()
	return work(ctx)
}

// exchange shares, then puts, then merges.
func (n *Node) exchange(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, n.timeout())
	defer cancel()
	for _, work := range []func(context.Context) error{n.updateWards, n.share, n.endWards} {
		if err := work(ctx); err != nil {
			return err
		}
	}
	if n.exchanges++; n.exchanges%exchangesUntilPut == 0 {
		if err := n.offer(ctx); err != nil {
			return err
		}
	}
	if due, err := n.putIsDue(); err != nil {
		return err
	} else if due {
		if err := n.put(ctx); err != nil {
			return err
		}
	}
	if err := n.merge(ctx); err != nil {
		return err
	}
	n.count(func(m *Metrics) { m.Exchanges++; n.lastExchange = time.Now() })
	return nil
}

// putIsDue reports whether this exchange must put a snapshot. Nodes that release nothing only put what a process that
// continues from it needs, and so seldom.
func (n *Node) putIsDue() (bool, error) {
	report, err := n.Bandit.Report()
	n.unputs++
	return n.contributions == nil || report.Duty != dpb.DutyContributes || report.Phase != n.releases ||
		n.unputs >= exchangesUntilPut, err
}

// put writes this node's newest snapshot to the store. Each version is put once only, so the store's own snapshot of
// this process is always older, even if the reply to an earlier put was lost. If the store refuses the snapshot,
// another process has replaced this one. It is news for the others if it has new releases. Without a fleet key, and for
// that of a leader, it always is: so the others count this node as active.
func (n *Node) put(ctx context.Context) error {
	report, err := n.Bandit.Report()
	if err != nil {
		return err
	}
	if n.bytes, err = n.Bandit.Snapshot(n.bytes[:0]); err != nil {
		return err
	}
	for _, w := range n.allWards(0) {
		_ = w.bandit.Merge(n.bytes)
	}
	n.version++
	news := n.contributions == nil || report.Duty == dpb.DutyLeads || report.Phase != n.releases
	kept, err := n.store.Put(ctx, n.member, Snapshot{n.member.Node, n.version, n.bytes}, news)
	if err == nil && !kept {
		err = ErrReplaced
	}
	if err == nil {
		n.releases, n.unputs = report.Phase, 0
		err = n.Bandit.Stored(n.bytes)
	}
	return err
}

// merge reads and merges the snapshots that are news, and takes over how many nodes are alive.
func (n *Node) merge(ctx context.Context) error {
	if n.contributions != nil {
		n.mu.Lock()
		handles := uint32(n.forwarding.nodes)
		n.mu.Unlock()
		if handles != n.handles {
			if err := n.Bandit.SetHandles(handles); err != nil {
				return err
			}
			n.handles = handles
		}
	}
	versions, err := n.store.Versions(ctx)
	if err != nil {
		return err
	}
	var nodes []uint16
	for node, version := range versions {
		if known, found := n.merged[node]; node != n.member.Node && (!found || known != version) {
			nodes = append(nodes, node)
		}
	}
	slices.Sort(nodes)
	for some := range slices.Chunk(nodes, snapshotsAtOnce) {
		snapshots, err := n.store.List(ctx, some...)
		if err != nil {
			return err
		}
		for _, snapshot := range snapshots {
			if err := n.mergeOne(snapshot, versions[snapshot.Node]); err != nil {
				return err
			}
		}
	}
	return nil
}

// mergeOne merges a snapshot. A snapshot that is refused does not keep the node from merging others.
func (n *Node) mergeOne(snapshot Snapshot, version uint64) error {
	err := n.Bandit.Merge(snapshot.Bytes)
	if errors.Is(err, dpb.ErrClosed) || errors.Is(err, dpb.ErrPoisoned) {
		return err
	}
	for _, w := range n.allWards(0) {
		_ = w.bandit.Merge(snapshot.Bytes)
	}
	n.merged[snapshot.Node] = version
	n.mu.Lock()
	before := n.refused[snapshot.Node]
	if err == nil {
		delete(n.refused, snapshot.Node)
	} else {
		n.refused[snapshot.Node] = fmt.Errorf("node %d: %w", snapshot.Node, err)
	}
	n.metrics.Released = len(n.merged)
	n.mu.Unlock()
	switch {
	case errors.Is(err, dpb.ErrFull):
		n.logOnce("fleet: more nodes have released than a bandit can merge: set FleetKey, and number nodes by lease", err)
	case err != nil && before == nil: // log each incompatible node once
		n.log.Error("fleet: a node with this bandit's name is incompatible: it and this node ignore each other",
			"node", n.member.Node, "other", snapshot.Node, "error", err)
	}
	return nil
}

func (n *Node) count(change func(*Metrics)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	change(&n.metrics)
}
