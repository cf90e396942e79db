// Package fleet makes several processes learn as one bandit. Each process has its own bandit, and learns from what all
// of them have released, through a store that they share. A decision never waits for the store, and processes continue
// to decide while the store is unavailable.
//
//	redis := fleet.NewRedis(&redis.UniversalOptions{Addrs: []string{"localhost:6379"}}, "ads")
//	config.Node = 0 // the lowest number that is free; or 1 to 65535, a different number for each process of the fleet
//	node, err := fleet.Join(ctx, fleet.Options{Store: redis, Config: config})
//	go node.Sync(ctx) // hands over when ctx is done
//	decision, err := node.Bandit.Select()
//	err = node.Update(decision.Ticket, 1) // for a ticket of any node
//
// With Config.FleetKey, one node releases what all nodes collect, with one noise, and rewards that travel between nodes
// are sealed. Their number is NOT private unless Options.SendRate is set.
//
// docs/privacy/store.md of the source describes what a person who can read or write the store can do.
package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	dpb "github.com/libdpb/libdpb/bindings/go"
)

// ErrReplaced means that another process has this node's number: the number's lease was over, or somebody has called
// [Leave]. The fleet does not learn from what this process still decides, so end it.
var ErrReplaced = errors.New("fleet: another process has this node's number")

// Store runs the commands of nodes. [Redis] is one.
type Store interface {
	// Name returns the bandit's name in the store.
	Name() string
	// Run runs a command, atomically, and returns its reply. It must return when ctx is done. Two goroutines call it at
	// once. Return every error as it is, whatever the reason and whether the command has run or not: the node repeats
	// it.
	Run(ctx context.Context, command dpb.Command) ([]byte, error)
}

// Options are the options of a node. All nodes of a fleet have the same ones, but for Config.Node, Snapshot and Logger.
// A zero selects the default.
type Options struct {
	Store Store
	// Policy must be a policy that can merge. 0 selects the recommended policy.
	Policy dpb.Policy
	// Config has the number of this process in Node, from 1 to 65535, which no other process has; or 0, for the lowest
	// number that is free.
	Config dpb.Config
	// Interval is the longest time between two exchanges with the store. Default 5 s.
	Interval time.Duration
	// Delay is the longest time that a reward may take to the node that decided. If rewards take longer, the node
	// cancels decisions: see README.md. A node that does not beat for 30 delays is gone, and its number is free.
	// Default 1 s. If it is negative, a balancer brings each reward to the node that decided: Delay is then 1 s, and
	// nothing is cancelled.
	Delay time.Duration
	// Tick is the duration of a tick of [dpb.ClockCaller]. The node sets the bandit's clock, to the time since 1970: do
	// not call Advance. Default 1 ms.
	Tick time.Duration
	// Settle is how long a snapshot must have been in the store before the bandit learns on its strength, with
	// Config.ExpectedUsers. It must be longer than a failover of the store goes back. Default 15 s.
	Settle time.Duration
	// ClickDelay is the number of ticks of Config.RewardWindow within which most rewards come: an outage cancels no
	// decision that was made longer before it. Default Config.RewardWindow.
	ClickDelay uint64
	// SendRate needs Config.FleetKey. With 0 rewards travel at once, and the store shows how many do and when, which is
	// NOT private. Otherwise each round sends a message of one length to each other node, with space for so many
	// rewards a second. A reward that finds no space is lost.
	SendRate int
	// Snapshot is nil, or a snapshot of this number from a file of this host. The node continues from it if it counts
	// more periods than the store's. It needs a Config.Node that is not 0.
	Snapshot []byte
	// Logger logs outages, incompatible nodes, and new errors of the store. Default slog.Default().
	Logger *slog.Logger
}

// Node is the membership of one process in a fleet.
type Node struct {
	Bandit *dpb.Bandit // lives until Close

	core    *dpb.FleetNode
	store   Store
	log     *slog.Logger
	number  uint16
	tick    time.Duration // 0: a tick is a decision
	began   time.Time
	running context.Context
	kill    context.CancelFunc
	joined  chan struct{} // closed when the bandit decides
	ended   chan struct{} // closed when both lanes have ended
	errs    [2]error      // of the lanes
}

// Join takes a number, makes this node's bandit, and merges what all other nodes have released. If the store has a
// snapshot of this number, the node continues from it. From then on the node beats, so call [Node.Sync] or
// [Node.Close].
//
// While the store fails, or another process has the number, Join tries again until ctx is done: the log says why, and
// so does the error. Join returns an error at once if the options are wrong, or the store's snapshot of this number is
// not of this configuration.
func Join(ctx context.Context, options Options) (*Node, error) {
	if options.Store == nil {
		return nil, fmt.Errorf("%w: Store must not be nil", dpb.ErrInvalidConfig)
	}
	if options.SendRate < 0 || options.SendRate > 1<<31-1 {
		return nil, fmt.Errorf("%w: SendRate must be from 0 to 2147483647, got %d", dpb.ErrInvalidConfig, options.SendRate)
	}
	core, err := dpb.NewFleetNode(options.Policy, options.Config, dpb.NodeOptions{
		Name: options.Store.Name(), Interval: options.Interval, Delay: max(options.Delay, 0), Routed: options.Delay < 0,
		Tick: options.Tick, Settle: options.Settle, ClickDelay: options.ClickDelay, SendRate: uint32(options.SendRate),
		Snapshot: options.Snapshot,
	})
	if err != nil {
		return nil, err
	}
	n := &Node{
		core: core, store: options.Store, log: cmp.Or(options.Logger, slog.Default()), began: time.Now(),
		joined: make(chan struct{}), ended: make(chan struct{}),
	}
	n.running, n.kill = context.WithCancel(context.WithoutCancel(ctx))
	if options.Config.Clock == dpb.ClockCaller {
		n.tick = cmp.Or(options.Tick, time.Millisecond)
	}
	go n.run()
	select {
	case <-n.joined:
		n.Bandit = core.Bandit()
		return n, nil
	case <-n.ended:
		return nil, errors.Join(n.reason(), n.Close())
	case <-ctx.Done():
		err := fmt.Errorf("fleet: not joined: %w: %s", context.Cause(ctx), n.Metrics().LastError)
		_ = core.Leave()
		go func() {
			<-n.ended
			n.Close()
		}()
		return nil, err
	}
}

// run runs both lanes until the node has ended.
func (n *Node) run() {
	var lanes sync.WaitGroup
	for _, lane := range []dpb.Lane{dpb.LaneRounds, dpb.LaneExchanges} {
		lanes.Add(1)
		go func() {
			defer lanes.Done()
			n.errs[lane] = n.runLane(lane)
		}()
	}
	lanes.Wait()
	close(n.ended)
}

func (n *Node) runLane(lane dpb.Lane) error {
	for n.running.Err() == nil {
		now := time.Now()
		command, err := n.core.Next(lane)
		if errors.Is(err, dpb.ErrHalted) {
			return nil
		}
		if err != nil {
			return err
		}
		if bandit := n.core.Bandit(); bandit != nil {
			if n.tick > 0 { // after Next, which cancels decisions first if this process stood still
				_ = bandit.Advance(uint64(n.began.Add(now.Sub(n.began)).UnixNano() / int64(n.tick)))
			}
			if lane == dpb.LaneExchanges && n.number == 0 {
				n.number = uint16(n.report().Number)
				close(n.joined)
			}
		}
		switch command.Kind {
		case dpb.CommandWait:
			select {
			case <-time.After(command.Wait):
			case <-n.running.Done():
			}
		case dpb.CommandLog:
			report, level := n.report(), slog.LevelWarn
			if report.State == dpb.NodeLeft { // as planned
				level = slog.LevelInfo
			}
			n.log.Log(n.running, level, "fleet: "+command.Text, "bandit", n.store.Name(), "node", report.Number)
		default:
			ctx, cancel := context.WithTimeout(n.running, command.Timeout)
			reply, err := n.store.Run(ctx, command)
			cancel()
			if err == nil {
				err = n.core.Reply(command.ID, reply)
			} else {
				err = n.core.Failed(command.ID, err)
			}
			if err != nil {
				return err
			}
		}
	}
	return dpb.ErrClosed
}

// reason returns why the node has ended; nil if it has left.
func (n *Node) reason() error {
	report, err := n.core.Report()
	switch {
	case errors.Join(n.errs[:]...) != nil:
		return errors.Join(n.errs[:]...)
	case err == nil && report.State == dpb.NodeReplaced:
		return ErrReplaced
	case err == nil && report.State == dpb.NodeFailed:
		return fmt.Errorf("fleet: node %d: %s", report.Number, report.LastError)
	}
	return err
}

// Sync waits until ctx is done, and then hands over what this node has collected, which takes 25 s at most. The fleet
// releases it, and with a fleet key another node continues with the decisions that are open, whose rewards still count.
// Decide nothing after ctx is done. Sync returns nil then. It returns earlier with [ErrReplaced], or with the bandit's
// own error if that cannot continue.
func (n *Node) Sync(ctx context.Context) error {
	select {
	case <-ctx.Done():
		if err := n.core.Leave(); err != nil {
			return err
		}
		<-n.ended
	case <-n.ended:
	}
	return n.reason()
}

// Close frees the node and its bandit. Before [Node.Sync] has returned it is as if the process were killed: the node
// hands nothing over. It always returns nil.
func (n *Node) Close() error {
	n.kill()
	<-n.ended
	return n.core.Close()
}

// Number returns this node's number.
func (n *Node) Number() uint16 { return n.number }

// Update reports the reward of a decision of any node. If another node has decided, the reward waits for the next
// round. Update never waits for the store.
//
// It returns the errors of [dpb.Bandit.Update]; ErrUnknownTicket for a node that never was; and ErrFull if too many
// rewards wait. The error is NOT private: give a visitor the same reply whatever it is.
func (n *Node) Update(ticket uint64, reward float64) error { return n.core.Update(ticket, reward) }

// UpdatePart is Update for a part of a reward, as in [dpb.Bandit.UpdatePart].
func (n *Node) UpdatePart(ticket uint64, part uint32, value float64) error {
	return n.core.UpdatePart(ticket, part, value)
}

// NextPeriod begins a period ([dpb.Bandit.NextPeriod]), and stores a snapshot at once. The bandit learns from nobody
// until the store has had that for Options.Settle, because a process that continues from an older one would not count
// this period.
func (n *Node) NextPeriod() error { return n.core.NextPeriod() }

// Ready reports whether a balancer may send this node requests. It is false while the node's rounds have failed for ten
// delays, and when it leaves.
func (n *Node) Ready() bool { return n.report().Ready }

// Metrics are a node's state, and counts since it joined. NodeReport is public. NodeDiagnostics is NOT private, because
// a reward is a click.
type Metrics struct {
	dpb.NodeReport
	dpb.NodeDiagnostics
}

// Metrics returns the current metrics: zeros after Close.
func (n *Node) Metrics() Metrics {
	diagnostics, _ := n.core.Diagnostics()
	return Metrics{n.report(), diagnostics}
}

func (n *Node) report() dpb.NodeReport {
	report, _ := n.core.Report()
	return report
}

// Leave ends the lease of a number whose process has died, so that the others need not wait for 30 delays. If a process
// has the number, it gets [ErrReplaced].
func Leave(ctx context.Context, store Store, number uint16) error {
	command, err := dpb.NodeGone(store.Name(), number)
	if err == nil {
		_, err = store.Run(ctx, command)
	}
	return err
}
