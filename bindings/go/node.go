package dpb

/*
#include <dpb.h>
*/
import "C"

import (
	"cmp"
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync"
	"time"
	"unsafe"
)

// FleetNode is a node of a fleet: many processes that learn as one bandit, through a store that they share. It has no
// socket and no goroutine: in each of its two lanes, ask for the next command, run it with a client of the store, and
// pass the reply. The package fleet does that for Redis and Valkey.
//
// Any number of goroutines may use a node at once. Close it when done.
type FleetNode struct {
	handle[*C.dpb_node]
	began time.Time
	mu    sync.Mutex
	owned *Bandit // nil until it has joined
}

// NodeOptions are the options of a [FleetNode]. All nodes of a fleet have the same ones, but for Snapshot. A zero
// selects the default. Durations are whole milliseconds.
type NodeOptions struct {
	// Name is the bandit's name in the store: 1 to 200 bytes, without { and }.
	Name string
	// Interval is the longest time between two exchanges: how old the knowledge of other nodes may be. Default 5 s.
	Interval time.Duration
	// Delay is the longest time that a reward may take to the node that decided. If rewards take longer, the node
	// cancels decisions. A node beats eight times in it, is not ready after 10 of them without a reply, and its number
	// is free after 30. Default 1 s.
	Delay time.Duration
	// Routed says that a balancer brings each reward to the node that decided, so silence counts whatever the fleet
	// does.
	Routed bool
	// Tick is the duration of a tick of [ClockCaller]. Default 1 ms.
	Tick time.Duration
	// Settle is how long a snapshot must have been in the store before the bandit learns on its strength, with
	// [Config.ExpectedUsers]. It must be longer than a failover of the store goes back. Default 15 s.
	Settle time.Duration
	// Queue is the largest number of rewards that wait here for the store. Default 100,000.
	Queue uint32
	// SendRate needs [Config.FleetKey]. With 0 rewards travel at once, and the store shows how many do and when, which
	// is NOT private. Otherwise each round sends a message of one length to each other node, with space for so many
	// rewards a second. A reward that finds no space is lost.
	SendRate uint32
	// ClickDelay is the number of ticks of [Config.RewardWindow] within which most rewards come: an outage cancels no
	// decision that was made longer before it. Default RewardWindow.
	ClickDelay uint64
	// Snapshot is nil, or a snapshot of the same number from a file of this host. The node continues from it if it
	// counts more periods than the store's. It needs [Config.Node].
	Snapshot []byte
}

// Lane is one of the two lanes of a [FleetNode]. Each needs a goroutine of its own, so that a slow exchange delays no
// beat.
type Lane uint32

const (
	LaneRounds    Lane = C.DPB_LANE_ROUNDS    // beats and rewards
	LaneExchanges Lane = C.DPB_LANE_EXCHANGES // everything else
)

// CommandKind is the kind of a [Command].
type CommandKind uint32

const (
	CommandWait       CommandKind = C.DPB_COMMAND_WAIT       // wait for Command.Wait, and ask again
	CommandLog        CommandKind = C.DPB_COMMAND_LOG        // write Command.Text to the log, and ask again
	CommandTake       CommandKind = C.DPB_COMMAND_TAKE       // for the store, as all others: give a number to a process
	CommandRound      CommandKind = C.DPB_COMMAND_ROUND      // beat, send and receive rewards
	CommandPut        CommandKind = C.DPB_COMMAND_PUT        // store a snapshot
	CommandNews       CommandKind = C.DPB_COMMAND_NEWS       // read other nodes' new snapshots
	CommandLead       CommandKind = C.DPB_COMMAND_LEAD       // read, take, renew or end the lease of the leader
	CommandContribute CommandKind = C.DPB_COMMAND_CONTRIBUTE // send sums to the leader
	CommandCollect    CommandKind = C.DPB_COMMAND_COLLECT    // read what others have sent to this leader
	CommandKeep       CommandKind = C.DPB_COMMAND_KEEP       // read rewards for the bandit of a node that has ended
	CommandOffer      CommandKind = C.DPB_COMMAND_OFFER      // offer to continue with bandits of nodes that end
	CommandHost       CommandKind = C.DPB_COMMAND_HOST       // seek a node that continues with this one's bandit
	CommandEntrust    CommandKind = C.DPB_COMMAND_ENTRUST    // leave a state to that node
	CommandAdopt      CommandKind = C.DPB_COMMAND_ADOPT      // take a state that another node has left
	CommandLeave      CommandKind = C.DPB_COMMAND_LEAVE      // end a number's lease
)

// Command is what to do next in a lane. It does not refer to memory of the library.
type Command struct {
	Kind    CommandKind
	ID      uint64        // for [FleetNode.Reply] and [FleetNode.Failed]
	Wait    time.Duration // of CommandWait
	Timeout time.Duration // after this time the node has given the command up, and ignores its reply
	Text    string        // of CommandLog
	Script  string        // a script in Lua for Redis or Valkey
	SHA1    string        // its name for EVALSHA
	Keys    []string      // all have one hash tag, so a cluster has them on one server
	Args    [][]byte
}

// NodeState is what a [FleetNode] is doing.
type NodeState uint32

const (
	NodeTaking    NodeState = C.DPB_NODE_TAKING    // takes its number
	NodeStoring   NodeState = C.DPB_NODE_STORING   // stores its first snapshot, and reads those of others
	NodeServing   NodeState = C.DPB_NODE_SERVING   // has joined
	NodeResigning NodeState = C.DPB_NODE_RESIGNING // leaves: collects what is on its way to it as the leader
	NodeMoving    NodeState = C.DPB_NODE_MOVING    // leaves: passes on its rewards and its state
	NodeLeft      NodeState = C.DPB_NODE_LEFT      // has left
	NodeReplaced  NodeState = C.DPB_NODE_REPLACED  // another process has its number
	NodeFailed    NodeState = C.DPB_NODE_FAILED    // could not continue from the snapshot of its number
)

// milliseconds returns a duration as C has it: 0, or at least 1. What is too large or negative is the largest number,
// which C refuses.
func milliseconds(d time.Duration) C.uint32_t {
	if ms := (d + time.Millisecond - 1) / time.Millisecond; d >= 0 && ms < math.MaxUint32 {
		return C.uint32_t(ms)
	}
	return math.MaxUint32
}

// NewFleetNode makes a node. It begins to join with its first [FleetNode.Next], and has joined when [FleetNode.Bandit]
// is not nil.
//
// Policy must be a policy that can merge; 0 is the one that [New] takes. The configuration is the same at all nodes,
// but for [Config.Node]: the number of this process, 1 to 65535, which no other process has; or 0, for the lowest that
// is free. With a [Config.FleetKey] one node releases for all, rewards are sealed, and states move.
//
// It returns ErrInvalidConfig, ErrUnsupported (a policy that cannot merge), ErrEntropy or ErrNoMemory. What only the
// bandit finds wrong in the configuration ends the node: [NodeFailed].
func NewFleetNode(policy Policy, config Config, options NodeOptions) (*FleetNode, error) {
	name, err := nameOf(options.Name)
	if err != nil {
		return nil, err
	}
	var pinner runtime.Pinner
	defer pinner.Unpin()
	given, done, err := config.c(&pinner)
	if err != nil {
		return nil, err
	}
	defer done()
	snapshot := unsafe.SliceData(options.Snapshot)
	pinner.Pin(name)
	if snapshot != nil {
		pinner.Pin(snapshot)
	}
	var chosen C.dpb_node_options
	C.dpb_node_options_init_sized(&chosen, C.sizeof_dpb_node_options, nil)
	chosen.name, chosen.snapshot, chosen.snapshot_len = name, (*C.uint8_t)(snapshot), C.size_t(len(options.Snapshot))
	if options.Routed {
		chosen.flags = C.DPB_NODE_ROUTED
	}
	chosen.interval_ms = cmp.Or(milliseconds(options.Interval), chosen.interval_ms)
	chosen.delay_ms = cmp.Or(milliseconds(options.Delay), chosen.delay_ms)
	chosen.tick_ms = cmp.Or(milliseconds(options.Tick), chosen.tick_ms)
	chosen.settle_ms = cmp.Or(milliseconds(options.Settle), chosen.settle_ms)
	chosen.queue = cmp.Or(C.uint32_t(options.Queue), chosen.queue)
	chosen.send_rate, chosen.click_delay = C.uint32_t(options.SendRate), C.uint64_t(options.ClickDelay)
	var policyName *C.char
	if policy != 0 {
		policyName = cString(policy.String())
	}
	var c *C.dpb_node
	var failure C.dpb_error
	if status := C.dpb_node_new(policyName, given, &chosen, &c, &failure); status != C.DPB_OK {
		return nil, explain(status, &failure)
	}
	n := &FleetNode{began: time.Now()}
	n.own(c, func(c *C.dpb_node) { C.dpb_node_free(c) }, config.bytes())
	return n, nil
}

// cString returns a text as C has it, in Go's memory.
func cString(text string) *C.char {
	return (*C.char)(unsafe.Pointer(unsafe.SliceData(append([]byte(text), 0))))
}

// nameOf returns a bandit's name as C has it, which ends with NUL.
func nameOf(name string) (*C.char, error) {
	if strings.Contains(name, "\x00") {
		return nil, fmt.Errorf("%w: name must not contain NUL", ErrInvalidConfig)
	}
	return cString(name), nil
}

// now returns the time on a clock that never goes back.
func (n *FleetNode) now() C.uint64_t { return C.uint64_t(time.Since(n.began).Milliseconds()) }

// Bandit returns the node's bandit, for decisions and reports; nil until the node has joined. It ends with the node,
// and its Close does nothing. The node does what concerns the fleet: call [FleetNode.Update] and [FleetNode.NextPeriod]
// in place of the bandit's, and not Merge, Lead, Alone, SetHandles, Contribution, Combine, Suspend or Stored. With
// [ClockCaller] call Advance only after a [FleetNode.Next] of that time.
func (n *FleetNode) Bandit() *Bandit {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.owned == nil {
		_ = n.do(func(c *C.dpb_node) error {
			if bandit := C.dpb_node_bandit(c); bandit != nil {
				n.owned = &Bandit{node: n}
				n.owned.c, n.owned.free = bandit, func(*C.dpb_bandit) {}
			}
			return nil
		})
	}
	return n.owned
}

// Close frees the node and its bandit, after calls on them that run. It does not leave: see [FleetNode.Leave]. It
// always returns nil.
func (n *FleetNode) Close() error {
	if bandit := n.Bandit(); bandit != nil {
		bandit.handle.Close()
	}
	return n.handle.Close()
}

// Next says what to do next in a lane. There is at most one command in flight in a lane: before its reply or its
// timeout the next is [CommandWait]. It returns ErrHalted when the node has ended: see [NodeReport.State].
func (n *FleetNode) Next(lane Lane) (command Command, err error) {
	err = n.do(func(c *C.dpb_node) error {
		var failure C.dpb_error
		next := C.dpb_command{struct_size: C.sizeof_dpb_command}
		if status := C.dpb_node_next(c, C.uint32_t(lane), n.now(), &next, &failure); status != C.DPB_OK {
			return explain(status, &failure)
		}
		command = copyCommand(&next)
		return nil
	})
	return command, err
}

// copyCommand copies a command from the library's memory.
func copyCommand(c *C.dpb_command) Command {
	command := Command{
		Kind: CommandKind(c.kind), ID: uint64(c.id), Wait: time.Duration(c.wait_ms) * time.Millisecond,
		Timeout: time.Duration(c.timeout_ms) * time.Millisecond,
		Text:    C.GoString(c.text), Script: C.GoString(c.script), SHA1: C.GoString(c.sha1),
	}
	// An address in C may be one that Go must not have on its stack, if there are no bytes at it.
	copied := func(of *C.dpb_bytes) []byte {
		if of.len == 0 {
			return []byte{}
		}
		return C.GoBytes(unsafe.Pointer(of.bytes), C.int(of.len))
	}
	keys, args := unsafe.Slice(c.keys, c.keys_len), unsafe.Slice(c.args, c.args_len)
	for i := range keys {
		command.Keys = append(command.Keys, string(copied(&keys[i])))
	}
	for i := range args {
		command.Args = append(command.Args, copied(&args[i]))
	}
	return command
}

// Reply passes the reply to a command. A reply to a command that the node has given up changes nothing.
func (n *FleetNode) Reply(id uint64, reply []byte) error {
	bytes, length := (*C.uint8_t)(unsafe.SliceData(reply)), C.size_t(len(reply))
	return n.do(func(c *C.dpb_node) error { return check(C.dpb_node_reply(c, C.uint64_t(id), n.now(), bytes, length)) })
}

// Failed says that a command has failed, or perhaps has, whatever the reason. The node repeats it later.
func (n *FleetNode) Failed(id uint64, why error) error {
	text := cString(why.Error())
	return n.do(func(c *C.dpb_node) error { return check(C.dpb_node_failed(c, C.uint64_t(id), n.now(), text)) })
}

// Update reports the reward of a decision of any node. If another node has decided, the reward waits for the next
// round. Update never waits for the store.
//
// It returns the errors of [Bandit.Update]; ErrUnknownTicket for the ticket of a node that never was, and before this
// node has joined; and ErrFull if too many rewards wait. It returns nil for another node's ticket, of which nothing is
// known here. The error is NOT private: give a visitor the same reply whatever it is.
func (n *FleetNode) Update(ticket uint64, reward float64) error {
	c, err := n.enter()
	if err != nil {
		return err
	}
	defer n.leave()
	return check(C.dpb_node_update(c, C.uint64_t(ticket), C.double(reward)))
}

// UpdatePart is Update for a part of a reward, as in [Bandit.UpdatePart]. A part that does not exist is ErrInvalidConfig, for
// another node's ticket only if it is above 7.
func (n *FleetNode) UpdatePart(ticket uint64, part uint32, value float64) error {
	c, err := n.enter()
	if err != nil {
		return err
	}
	defer n.leave()
	return check(C.dpb_node_update_part(c, C.uint64_t(ticket), C.uint32_t(part), C.double(value)))
}

// NextPeriod begins a period ([Bandit.NextPeriod]), and stores a snapshot at once. The bandit learns from nobody until
// the store has had that for [NodeOptions.Settle], because a process that continues from an older one would not count
// this period. It returns ErrNotReady before the node has joined.
func (n *FleetNode) NextPeriod() error {
	return n.do(func(c *C.dpb_node) error { return check(C.dpb_node_next_period(c)) })
}

// Leave begins to leave. Decide nothing after it, and call [FleetNode.Next] in both lanes until it returns ErrHalted.
// So others release what the node has collected, and with a [Config.FleetKey] another node continues with its open
// decisions.
func (n *FleetNode) Leave() error {
	return n.do(func(c *C.dpb_node) error { return check(C.dpb_node_leave(c, n.now())) })
}

// Report returns what anybody may know of the node.
func (n *FleetNode) Report() (report NodeReport, err error) {
	err = n.do(func(c *C.dpb_node) error {
		r := C.dpb_node_report{struct_size: C.sizeof_dpb_node_report}
		if err := check(C.dpb_node_report_read(c, n.now(), &r)); err != nil {
			return err
		}
		report = nodeReportOf(&r)
		return nil
	})
	return report, err
}

// Diagnostics returns counts that are NOT private, because a reward is a click. Show them to operators only.
func (n *FleetNode) Diagnostics() (diagnostics NodeDiagnostics, err error) {
	err = n.do(func(c *C.dpb_node) error {
		d := C.dpb_node_diagnostics{struct_size: C.sizeof_dpb_node_diagnostics}
		if err := check(C.dpb_node_diagnostics_read(c, &d)); err != nil {
			return err
		}
		diagnostics = nodeDiagnosticsOf(&d)
		return nil
	})
	return diagnostics, err
}

// NodeGone returns the command that ends the lease of a number whose process has died, so that the others need not wait
// for 30 delays. Any process may run it. If a process has the number, it is replaced.
func NodeGone(name string, number uint16) (Command, error) {
	text, err := nameOf(name)
	if err != nil {
		return Command{}, err
	}
	runtime.LockOSThread() // the command's memory is the thread's
	defer runtime.UnlockOSThread()
	c := C.dpb_command{struct_size: C.sizeof_dpb_command}
	if err := check(C.dpb_node_gone(text, C.uint16_t(number), &c)); err != nil {
		return Command{}, err
	}
	return copyCommand(&c), nil
}
