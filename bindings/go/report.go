package dpb

// #include <dpb.h>
import "C"

import (
	"fmt"
	"slices"
	"strings"
	"unsafe"
)

// Duty is what a bandit does with the rewards that it collects.
type Duty uint32

const (
	DutyAlone       Duty = C.DPB_DUTY_ALONE       // releases its own full batches
	DutyContributes Duty = C.DPB_DUTY_CONTRIBUTES // contributes since its last [Bandit.Contribution], and releases nothing
	DutyLeads       Duty = C.DPB_DUTY_LEADS       // releases full batches with what others contribute
)

var dutyNames = [...]string{DutyAlone: "alone", DutyContributes: "contributes", DutyLeads: "leads"}

// String returns "alone", "contributes" or "leads".
func (d Duty) String() string { return named(dutyNames[:], "duty", uint32(d)) }

// MarshalText returns the name.
func (d Duty) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads the name.
func (d *Duty) UnmarshalText(name []byte) error {
	return numbered(dutyNames[:], "duty", name, (*uint32)(d))
}

// TestState says whether a test of arms has ended, and with which claim.
type TestState uint32

const (
	TestRunning   TestState = C.DPB_TEST_RUNNING   // goes on
	TestWon       TestState = C.DPB_TEST_WON       // the leader is the best arm, with probability 1 - Beta
	TestTied      TestState = C.DPB_TEST_TIED      // no arm is better than the leader by Tolerance or more, with probability 1 - Beta
	TestUndecided TestState = C.DPB_TEST_UNDECIDED // PlannedEnd rewards have come, and nothing is claimed
)

var testStateNames = [...]string{TestRunning: "running", TestWon: "won", TestTied: "tied", TestUndecided: "undecided"}

// String returns "running", "won", "tied" or "undecided".
func (s TestState) String() string { return named(testStateNames[:], "test state", uint32(s)) }

// MarshalText returns the name.
func (s TestState) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads the name.
func (s *TestState) UnmarshalText(name []byte) error {
	return numbered(testStateNames[:], "test state", name, (*uint32)(s))
}

// named returns the name of a number of this kind.
func named(names []string, kind string, number uint32) string {
	if int(number) < len(names) {
		return names[number]
	}
	return fmt.Sprintf("%s %d", kind, number)
}

// numbered stores the number of this kind that has this name.
func numbered(names []string, kind string, name []byte, number *uint32) error {
	found := slices.Index(names, string(name))
	if found < 0 {
		return fmt.Errorf("dpb: no %s is called %q", kind, name)
	}
	*number = uint32(found)
	return nil
}

// Warnings are signs that a bandit cannot learn because of how it is called, as bits. docs/operating/monitoring.md says
// what to do.
type Warnings uint32

// These are in [Report.Warnings].
const (
	// WarnClockStopped: with ClockCaller, [Bandit.Advance] has not been called for 1024 decisions, or has not moved the time
	// for as many decisions as may be open, at least 1024.
	WarnClockStopped Warnings = C.DPB_WARN_CLOCK_STOPPED
	// WarnExpiring: most of the last 1024 decisions expired. Without RewardWindow they were neither updated nor cancelled;
	// with ClockCaller, PendingCapacity is too small.
	WarnExpiring Warnings = C.DPB_WARN_EXPIRING
	// WarnUnlearned: with ExpectedUsers, fewer than one in 100 of the last 1024 decisions are learned from. Requests name no
	// User or the same few, [Bandit.NextPeriod] is not called, or no [Bandit.Stored] follows it.
	WarnUnlearned Warnings = C.DPB_WARN_UNLEARNED
	// WarnUnmerged: the bandit contributes, and has merged no snapshot in its last 65,536 decisions. See [Bandit.Alone].
	WarnUnmerged Warnings = C.DPB_WARN_UNMERGED
	// WarnUnreleased: 16,384 rewards or more took effect, and nothing was released. Epsilon is too small for the traffic:
	// the first batch of an arm has at least 1/Epsilon rewards.
	WarnUnreleased Warnings = C.DPB_WARN_UNRELEASED
)

// These are in [Diagnostics.Warnings], because they depend on rewards.
const (
	// WarnAllSmallest: all of the last 65,535 rewards that took effect are RewardMin. No reward arrives.
	WarnAllSmallest Warnings = C.DPB_WARN_ALL_SMALLEST
	// WarnAllLargest: all of the last 1024 rewards that took effect are RewardMax; or all of 32 or more since the bandit was
	// made, if at most one in four decisions has a reward. Only clicks are updated, or something else than clicks.
	WarnAllLargest Warnings = C.DPB_WARN_ALL_LARGEST
)

var warningNames = [...]string{"clock_stopped", "expiring", "unlearned", "unmerged", "all_smallest", "all_largest", "unreleased"}

// String returns the names, such as "clock_stopped expiring"; "" for none.
func (w Warnings) String() string {
	var names []string
	for bit, name := range warningNames {
		if w&(1<<bit) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, " ")
}

// MarshalText returns the names.
func (w Warnings) MarshalText() ([]byte, error) { return []byte(w.String()), nil }

// UnmarshalText reads the names.
func (w *Warnings) UnmarshalText(names []byte) error {
	var found Warnings
	for _, name := range strings.Fields(string(names)) {
		bit := slices.Index(warningNames[:], name)
		if bit < 0 {
			return fmt.Errorf("dpb: no warning is called %q", name)
		}
		found |= 1 << bit
	}
	*w = found
	return nil
}

// Report reads the public state. Reading costs no privacy.
func (b *Bandit) Report() (Report, error) {
	c, err := b.enter()
	if err != nil {
		return Report{}, err
	}
	defer b.leave()
	r := C.dpb_report{struct_size: C.sizeof_dpb_report}
	if err := check(C.dpb_report_read(c, &r)); err != nil {
		return Report{}, err
	}
	return reportOf(&r), nil
}

// Arms reads the public state of all arms, by number. Reading costs no privacy. For a segmented bandit, Mean is the
// estimate for an average segment and Width is NaN: see [Bandit.Segment].
func (b *Bandit) Arms() ([]Arm, error) {
	c, err := b.enter()
	if err != nil {
		return nil, err
	}
	defer b.leave()
	return readArms(func(out *C.dpb_arm, n C.size_t, needed *C.size_t) C.dpb_status {
		return C.dpb_arms_read(c, out, n, needed)
	})
}

func readArms(call func(out *C.dpb_arm, n C.size_t, needed *C.size_t) C.dpb_status) ([]Arm, error) {
	var n C.size_t
	var arms []C.dpb_arm
	status := call(nil, 0, &n)
	for status == C.DPB_BUFFER_TOO_SMALL {
		arms = make([]C.dpb_arm, n)
		status = call(unsafe.SliceData(arms), n, &n)
	}
	if err := check(status); err != nil {
		return nil, err
	}
	read := make([]Arm, n)
	for i := range read {
		read[i] = armOf(&arms[i])
	}
	return read, nil
}

// BestArm returns the arm that the policy has identified as the best, or ErrNotReady until one
// arm is left. It returns ErrUnsupported for a policy that never identifies one.
func (b *Bandit) BestArm() (uint32, error) {
	c, err := b.enter()
	if err != nil {
		return 0, err
	}
	defer b.leave()
	var arm C.uint32_t
	err = check(C.dpb_best_arm(c, &arm))
	return uint32(arm), err
}

// Compare returns a confidence interval for the mean of arm i minus the mean of arm j, in the units of rewards. With
// probability at least confidence, in (0, 1), all intervals that this bandit ever returns for these two arms contain the
// true difference, no matter how often you read and when you stop. If low is above 0, arm i is better. Reading costs no
// privacy.
//
// It returns ErrNotReady until both arms have a release, ErrInvalidRequest for an arm that does not exist or is retired,
// ErrInvalidConfig for i = j or a confidence out of range, and ErrUnsupported with [Config.ForgetAfter] and for a policy
// that has no such interval.
func (b *Bandit) Compare(i, j uint32, confidence float64) (low, high float64, err error) {
	c, err := b.enter()
	if err != nil {
		return 0, 0, err
	}
	defer b.leave()
	var from, to C.double
	err = check(C.dpb_compare(c, C.uint32_t(i), C.uint32_t(j), C.double(confidence), &from, &to))
	return float64(from), float64(to), err
}

// Lift returns what the policy has gained, as a confidence interval: the mean reward of the decisions so far, divided by
// that of a control, minus 1. (0.12, 0.19) says 12% to 19% better. The control is an arm, or [NoArm], an even draw of all
// arms that are not retired. With probability at least confidence, in (0, 1), all intervals that this bandit ever returns
// contain the truth. It takes the mean of each arm for constant. Reading costs no privacy.
//
// high is infinite if the control's mean may be 0. It returns ErrNotReady until each arm of the control has a release,
// ErrInvalidRequest for a control that does not exist or is retired, ErrInvalidConfig for a confidence out of range, and
// ErrUnsupported where [Bandit.Compare] does, with [Config.MaxSegments], and with a [Config.RewardMin] below 0.
//
// With [Config.Features] it needs [Config.Exploration], and compares samples of the policy's own decisions and of even draws
// for the same requests of one slot; the control is then NoArm.
func (b *Bandit) Lift(control uint32, confidence float64) (low, high float64, err error) {
	c, err := b.enter()
	if err != nil {
		return 0, 0, err
	}
	defer b.leave()
	var from, to C.double
	err = check(C.dpb_lift(c, C.uint32_t(control), C.double(confidence), &from, &to))
	return float64(from), float64(to), err
}

// EpsilonSpent returns an upper bound of the privacy loss so far, at this delta in [0, 1). It is infinite for baselines,
// and if delta is too small for the policy. With [Config.ExpectedUsers] it is the loss of a person who came in every
// period.
func (b *Bandit) EpsilonSpent(delta float64) (float64, error) {
	c, err := b.enter()
	if err != nil {
		return 0, err
	}
	defer b.leave()
	var epsilon C.double
	err = check(C.dpb_epsilon_spent(c, C.double(delta), &epsilon))
	return float64(epsilon), err
}

// PolicyName returns a name such as "dp-se"; "" after Close.
func (b *Bandit) PolicyName() string {
	c, err := b.enter()
	if err != nil {
		return ""
	}
	defer b.leave()
	return C.GoString(C.dpb_policy_name(c))
}

// Verdict reads what the test of [NewTT] says. While the test goes on it takes some milliseconds.
func (b *Bandit) Verdict() (Verdict, error) {
	c, err := b.enter()
	if err != nil {
		return Verdict{}, err
	}
	defer b.leave()
	v := C.dpb_verdict{struct_size: C.sizeof_dpb_verdict}
	if err := check(C.dpb_verdict_read(c, &v)); err != nil {
		return Verdict{}, err
	}
	return verdictOf(&v), nil
}

// String says the verdict in words, such as "Arm 1 is the best of 3, after 35210 rewards. Its mean minus that of arm 0 is
// 0.0042 to 0.0160 (95%)."
func (v Verdict) String() string {
	c := C.dpb_verdict{
		struct_size: C.sizeof_dpb_verdict, state: C.uint32_t(v.State), leader: C.uint32_t(v.Leader),
		other: C.uint32_t(v.Other), rewards: C.uint64_t(v.Rewards), low: C.double(v.Low), high: C.double(v.High),
		more: C.double(v.More), arms: C.uint32_t(v.Arms), winners: C.uint32_t(v.Winners),
		confidence: C.double(v.Confidence),
	}
	if v.Mismatch {
		c.mismatch = 1
	}
	var buf [512]C.uint8_t
	var n C.size_t
	if check(C.dpb_verdict_text(&c, &buf[0], C.size_t(len(buf)), &n, nil)) != nil {
		return v.State.String()
	}
	return string(C.GoBytes(unsafe.Pointer(&buf[0]), C.int(n)))
}

// Statement says what the bandit guarantees, as JSON in the fields of the public registry of deployments of differential
// privacy; StatementText says it on a page for a privacy officer. All of it is public.
func (b *Bandit) Statement() (string, error) { return b.statement(C.DPB_STATEMENT_JSON) }

// StatementText is [Bandit.Statement] in prose.
func (b *Bandit) StatementText() (string, error) { return b.statement(C.DPB_STATEMENT_PROSE) }

func (b *Bandit) statement(form C.uint32_t) (string, error) {
	c, err := b.enter()
	if err != nil {
		return "", err
	}
	defer b.leave()
	text, err := appendTo(nil, func(buf *C.uint8_t, room C.size_t, n *C.size_t, failure *C.dpb_error) C.dpb_status {
		return C.dpb_statement(c, form, buf, room, n, failure)
	})
	return string(text), err
}

// Diagnostics reads the counts of refused calls. It is the only read that is NOT private.
func (b *Bandit) Diagnostics() (Diagnostics, error) {
	c, err := b.enter()
	if err != nil {
		return Diagnostics{}, err
	}
	defer b.leave()
	d := C.dpb_diagnostics{struct_size: C.sizeof_dpb_diagnostics}
	if err := check(C.dpb_diagnostics_read(c, &d)); err != nil {
		return Diagnostics{}, err
	}
	return diagnosticsOf(&d), nil
}

// TicketNode returns the node that issued a ticket, which is its top 16 bits: see [Config.Node].
func TicketNode(ticket uint64) uint16 { return uint16(C.dpb_ticket_node(C.uint64_t(ticket))) }

// Version returns the version of the linked library, such as "0.1.0".
func Version() string { return C.GoString(C.dpb_version()) }

// ABIVersion returns the version of the linked library's C interface: major << 16 | minor.
func ABIVersion() uint32 { return uint32(C.dpb_abi_version()) }
