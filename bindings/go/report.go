package dpb

/*
#cgo noescape dpb_report_read
#cgo nocallback dpb_report_read
#cgo noescape dpb_diagnostics_read
#cgo nocallback dpb_diagnostics_read
#cgo noescape dpb_arms_read
#cgo nocallback dpb_arms_read
#cgo noescape dpb_best_arm
#cgo nocallback dpb_best_arm
#cgo noescape dpb_compare
#cgo nocallback dpb_compare
#cgo noescape dpb_epsilon_spent
#cgo nocallback dpb_epsilon_spent
#cgo noescape dpb_policy_name
#cgo nocallback dpb_policy_name
#cgo noescape dpb_ticket_node
#cgo nocallback dpb_ticket_node
#cgo noescape dpb_version
#cgo nocallback dpb_version
#cgo noescape dpb_abi_version
#cgo nocallback dpb_abi_version
#include <dpb.h>
*/
import "C"

import "unsafe"

// Report is the state of a bandit that may be published: released values and public counts.
//
// With a RewardWindow a reward is a click, so Answered counts decisions whose window is over, and Pending those
// whose window is not, with a reward or without.
type Report struct {
	Policy       Policy  // PolicySE and the like
	Phase        uint32  // the policy's epoch, phase or interval; releases where it has batches
	ArmsActive   uint32  // arms still in the race
	Pending      uint32  // decisions whose end is open
	Decisions    uint64  // handed out
	Answered     uint64  // whose answer took effect
	Cancelled    uint64  // taken back
	Expired      uint64  // pushed out of the pending table unanswered
	EpsilonSpent float64 // privacy loss of one user so far at DeltaSpent; infinite for baselines
	DeltaSpent   float64 // 0 where the policy is pure
	IsPrivate    bool    // false for baselines and under a TestSeed
	// ChangesDetected counts the releases that contradicted their arm's past, and ended it (Config.ForgetAfter).
	ChangesDetected uint64
	Segments        uint32 // in use, with [Config.MaxSegments]
	MaxSegments     uint32 // the configuration's
	Failures        uint64 // with [Config.Features]: how often a model could not be updated, so that the last one stayed
	Features        uint32 // the configuration's
	ModelPerArm     bool   // the configuration's
}

// Arm is the state of one arm that may be published.
type Arm struct {
	Mean   float64 // as released; NaN before the first release
	Width  float64 // half-width of its confidence interval; NaN before the first release
	Pulls  uint64  // decisions that were not cancelled and did not expire
	Active bool    // still in the race
	// EffectivePulls is the number of rewards behind the mean; with Config.ForgetAfter each counts by its weight.
	EffectivePulls float64
}

// Diagnostics counts refused calls. NOT private: for the operator only.
type Diagnostics struct {
	Duplicates uint64 // to a ticket that had an answer
	Late       uint64 // to a ticket whose time was over
	Rejected   uint64 // rewards refused
	Unknown    uint64 // tickets never issued
	Oversized  uint64 // decisions whose row of features was larger than [Config.FeatureNorm]
}

// Report reads the public state. All of it is released already: reading costs no privacy.
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
	return Report{
		Policy:       Policy(r.policy),
		Phase:        uint32(r.phase),
		ArmsActive:   uint32(r.arms_active),
		Pending:      uint32(r.pending),
		Decisions:    uint64(r.decisions),
		Answered:     uint64(r.answered),
		Cancelled:    uint64(r.cancelled),
		Expired:      uint64(r.expired),
		EpsilonSpent: float64(r.epsilon_spent),
		DeltaSpent:   float64(r.delta_spent),
		IsPrivate:    r.is_private != 0,

		ChangesDetected: uint64(r.changes_detected),
		Segments:        uint32(r.segments),
		MaxSegments:     uint32(r.max_segments),
		Failures:        uint64(r.failures),
		Features:        uint32(r.features),
		ModelPerArm:     r.feature_model != 0,
	}, nil
}

// Arms reads all arms. Released values only. With [Config.MaxSegments] they are those of all segments together: see
// [Bandit.Segment].
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

func readArms(read func(out *C.dpb_arm, n C.size_t, needed *C.size_t) C.dpb_status) ([]Arm, error) {
	var n C.size_t
	var arms []C.dpb_arm
	status := read(nil, 0, &n)
	for status == C.DPB_BUFFER_TOO_SMALL {
		arms = make([]C.dpb_arm, n)
		status = read(unsafe.SliceData(arms), n, &n)
	}
	if err := check(status); err != nil {
		return nil, err
	}
	return armsOf(arms[:n]), nil
}

func armsOf(read []C.dpb_arm) []Arm {
	arms := make([]Arm, len(read))
	for i := range arms {
		a := &read[i]
		arms[i] = Arm{
			Mean: float64(a.mean), Width: float64(a.width), Pulls: uint64(a.pulls), Active: a.active != 0,
			EffectivePulls: float64(a.effective_pulls),
		}
	}
	return arms
}

// BestArm returns the arm that the policy decided for, or ErrNotReady until it has.
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

// Compare returns a confidence interval for arm i's mean minus arm j's, in the caller's units. With a probability of
// at least confidence, in (0, 1), all intervals that this bandit ever returns for these two arms contain the true
// difference, however often you ask. If low is above 0, arm i is better. It costs no privacy. ErrNotReady until both
// arms have a release; ErrUnsupported for policies that keep no releases, and with a ForgetAfter. See dpb_compare.
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

// EpsilonSpent returns an upper bound of the privacy loss of one user so far at this delta in [0, 1).
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

// Diagnostics reads counts of refused calls: the only read that is NOT private.
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

func diagnosticsOf(d *C.dpb_diagnostics) Diagnostics {
	return Diagnostics{
		Duplicates: uint64(d.duplicates),
		Late:       uint64(d.late),
		Rejected:   uint64(d.rejected),
		Unknown:    uint64(d.unknown),
		Oversized:  uint64(d.oversized),
	}
}

// TicketNode returns the node that issued a ticket: its top 16 bits.
func TicketNode(ticket uint64) uint16 { return uint16(C.dpb_ticket_node(C.uint64_t(ticket))) }

// Version returns the version of the library.
func Version() string { return C.GoString(C.dpb_version()) }

// ABIVersion returns the version of the library's C interface: major << 16 | minor.
func ABIVersion() uint32 { return uint32(C.dpb_abi_version()) }
