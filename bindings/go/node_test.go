package dpb

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// items are a reply of the store.
func items(all ...string) (reply []byte) {
	for _, item := range all {
		reply = fmt.Appendf(reply, "%d:%s", len(item), item)
	}
	return reply
}

func succeeds(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// joined is a node with number 7 whose store has no other nodes.
func joined(t *testing.T) *FleetNode {
	t.Helper()
	none, zero := strings.Repeat("0", 20), "0"
	node := must[*FleetNode](t)(NewFleetNode(0, NewConfig(3, 1), NodeOptions{Name: "ads", Delay: 8e7}))
	t.Cleanup(func() { node.Close() })
	for node.Bandit() == nil {
		time.Sleep(time.Millisecond)
		for _, lane := range []Lane{LaneRounds, LaneExchanges} {
			command := must[Command](t)(node.Next(lane))
			var reply []byte
			switch command.Kind {
			case CommandWait, CommandLog:
				continue
			case CommandTake:
				reply = items("ok", "7", "1", none, "")
			case CommandRound:
				reply = items("ok", "1", zero, "1", "1", zero, zero, zero, zero, none, zero, "1", zero, zero, zero, zero)
			case CommandPut:
				reply = items("ok", string(command.Args[3]))
			case CommandNews:
				reply = items("ok", zero, zero)
			default:
				t.Fatalf("%+v", command)
			}
			succeeds(t, node.Reply(command.ID, reply))
		}
	}
	return node
}

// The bandit is the node's, and ends with it only.
func TestNodeHasABandit(t *testing.T) {
	node := joined(t)
	bandit := node.Bandit()
	if report := must[NodeReport](t)(node.Report()); report.State != NodeServing || report.Number != 7 || report.Incarnation != 1 {
		t.Errorf("%+v", report)
	}
	succeeds(t, bandit.Close())
	ticket := must[Decision](t)(bandit.Select()).Ticket
	if TicketNode(ticket) != 7 || bandit != node.Bandit() {
		t.Error(ticket)
	}
	succeeds(t, node.Update(ticket, 1))
	for ticket, want := range map[uint64]error{ticket: ErrDuplicate, 9<<48 | 1: ErrUnknownTicket} {
		if err := node.Update(ticket, 1); !errors.Is(err, want) {
			t.Error(err)
		}
	}
	if err := bandit.Stored(must[[]byte](t)(bandit.Snapshot(nil))); !errors.Is(err, ErrUnsupported) {
		t.Error(err)
	}
	if err := node.NextPeriod(); !errors.Is(err, ErrUnsupported) {
		t.Error(err)
	}
	if d := must[NodeDiagnostics](t)(node.Diagnostics()); d != (NodeDiagnostics{}) {
		t.Errorf("%+v", d)
	}
	succeeds(t, node.Close())
	succeeds(t, node.Close())
	_, err := bandit.Select()
	_, nextErr := node.Next(LaneRounds)
	for _, err := range []error{err, nextErr, node.Update(ticket, 1), node.Leave()} {
		if !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
	}
	if node.Bandit() != bandit {
		t.Error("another bandit")
	}
	// The bandit keeps its node.
	bandit = joined(t).Bandit()
	for range 3 {
		runtime.GC()
		must[Decision](t)(bandit.Select())
	}
}

// A command is a copy, with empty arguments too. A failure is logged once, and the command comes again.
func TestNodeNamesCommands(t *testing.T) {
	node := must[*FleetNode](t)(NewFleetNode(PolicyMED, NewConfig(3, 1), NodeOptions{Name: "ä*", Interval: 1e8, Delay: 8e7}))
	defer node.Close()
	take := must[Command](t)(node.Next(LaneExchanges))
	keys, args := slices.Clone(take.Keys), len(take.Args)
	if take.Kind != CommandTake || take.ID == 0 || take.Timeout != 1e9 || len(take.SHA1) != 40 || args != 5 ||
		!strings.Contains(take.Script, "KEYS[1]") || string(take.Args[0]) != "0" || take.Args[4] == nil || len(take.Args[4]) != 0 {
		t.Errorf("%+v", take)
	}
	if wait := must[Command](t)(node.Next(LaneExchanges)); wait.Kind != CommandWait || wait.Wait != 1e7 || wait.Keys != nil || wait.Args != nil {
		t.Errorf("%+v", wait)
	}
	for range 2 {
		succeeds(t, node.Failed(take.ID, errors.New("the store is\x00 away")))
	}
	if log := must[Command](t)(node.Next(LaneRounds)); log.Kind != CommandLog || !strings.HasSuffix(log.Text, "the store is") {
		t.Errorf("%+v", log)
	}
	runtime.GC()
	if !slices.Equal(take.Keys, keys) || keys[0] != "dpb:{ä*}:records" {
		t.Error(take.Keys)
	}
	if node.Bandit() != nil || must[NodeReport](t)(node.Report()).LastError != "the store is" || must[NodeDiagnostics](t)(node.Diagnostics()).Failures != 1 {
		t.Errorf("%+v", must[NodeReport](t)(node.Report()))
	}
	if err := node.Update(1<<48, 1); !errors.Is(err, ErrUnknownTicket) {
		t.Error(err)
	}
	if err := node.NextPeriod(); !errors.Is(err, ErrNotReady) {
		t.Error(err)
	}
	if _, err := node.Next(2); !errors.Is(err, ErrInvalidConfig) {
		t.Error(err)
	}
	succeeds(t, node.Leave())
	if _, err := node.Next(LaneExchanges); !errors.Is(err, ErrHalted) {
		t.Error(err)
	}
	if report := must[NodeReport](t)(node.Report()); report.State != NodeLeft {
		t.Errorf("%+v", report)
	}
	leave := must[Command](t)(NodeGone("ads", 7))
	if leave.Kind != CommandLeave || leave.Keys[0] != "dpb:{ads}:records" || string(leave.Args[0]) != "7" {
		t.Errorf("%+v", leave)
	}
	for _, name := range []string{"", "{", "a\x00b"} {
		_, err := NodeGone(name, 7)
		_, newErr := NewFleetNode(0, NewConfig(3, 1), NodeOptions{Name: name})
		if !errors.Is(err, ErrInvalidConfig) || !errors.Is(newErr, ErrInvalidConfig) {
			t.Errorf("%q: %v, %v", name, err, newErr)
		}
	}
	if _, err := NodeGone("ads", 0); !errors.Is(err, ErrInvalidConfig) {
		t.Error(err)
	}
}
