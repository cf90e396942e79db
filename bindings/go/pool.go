package dpb

/*
#cgo noescape dpb_new_pool
#cgo nocallback dpb_new_pool
#cgo noescape dpb_pool_free
#cgo nocallback dpb_pool_free
#cgo noescape dpb_pool_segment
#cgo nocallback dpb_pool_segment
#cgo noescape dpb_pool_select
#cgo nocallback dpb_pool_select
#cgo noescape dpb_pool_select_among
#cgo nocallback dpb_pool_select_among
#cgo noescape dpb_pool_select_many
#cgo nocallback dpb_pool_select_many
#cgo noescape dpb_pool_select_for
#cgo nocallback dpb_pool_select_for
#cgo noescape dpb_pool_select_among_for
#cgo nocallback dpb_pool_select_among_for
#cgo noescape dpb_pool_next_period
#cgo nocallback dpb_pool_next_period
#cgo noescape dpb_pool_update
#cgo nocallback dpb_pool_update
#cgo noescape dpb_pool_cancel
#cgo nocallback dpb_pool_cancel
#cgo noescape dpb_pool_cancel_all
#cgo nocallback dpb_pool_cancel_all
#cgo noescape dpb_pool_set_prior
#cgo nocallback dpb_pool_set_prior
#cgo noescape dpb_pool_arms_read
#cgo nocallback dpb_pool_arms_read
#cgo noescape dpb_pool_report_read
#cgo nocallback dpb_pool_report_read
#cgo noescape dpb_pool_diagnostics_read
#cgo nocallback dpb_pool_diagnostics_read
#cgo noescape dpb_pool_snapshot
#cgo nocallback dpb_pool_snapshot
#cgo noescape dpb_pool_merge_with
#cgo nocallback dpb_pool_merge_with
#cgo noescape dpb_pool_restore
#cgo nocallback dpb_pool_restore
#cgo noescape dpb_pool_restore_as
#cgo nocallback dpb_pool_restore_as
#include <dpb.h>
*/
import "C"

import (
	"fmt"
	"runtime"
	"slices"
	"unsafe"
)

// Pool is a bandit for each of thousands of segments (placements, countries, hours), in one object: they lend each
// other what they know. The privacy loss is one for all segments together, however many there are. Which segment a
// request is in must be public. Close it when done, as a [Bandit].
type Pool struct {
	handle[*C.dpb_pool]
}

// PoolReport is what may be published of a pool: released values and public counts. With an AnswerWindow as in [Report].
type PoolReport struct {
	Segments     uint32  // in use
	MaxSegments  uint32  // that there may be
	Arms         uint32  // of each segment
	Pending      uint32  // decisions whose end is open
	Decisions    uint64  // handed out
	Answered     uint64  // whose answer took effect
	Cancelled    uint64  // taken back
	Expired      uint64  // pushed out of the pending table unanswered
	EpsilonSpent float64 // privacy loss of one user so far at DeltaSpent
	DeltaSpent   float64 // the configuration's Delta
	IsPrivate    bool    // false under a TestSeed
	Releases     uint64  // batches released
}

// NewPool makes a pool of at most so many segments of config.Arms arms each. AnswerWindow, PendingCapacity and Memory
// count the decisions of all segments together.
func NewPool(config Config, maxSegments uint32) (*Pool, error) {
	var pinner runtime.Pinner
	defer pinner.Unpin()
	given, done, err := config.c(&pinner)
	if err != nil {
		return nil, err
	}
	defer done()
	var c *C.dpb_pool
	var failure C.dpb_error
	status := C.dpb_new_pool(given, C.uint32_t(maxSegments), &c, &failure)
	return ownPool(c, status, &failure, config.bytes()+config.cells(maxSegments))
}

// RestorePool makes a pool that goes on from a snapshot, as [Restore] does for a bandit; segments keep their numbers.
func RestorePool(snapshot []byte) (*Pool, error) {
	var c *C.dpb_pool
	var failure C.dpb_error
	status := C.dpb_pool_restore((*C.uint8_t)(unsafe.SliceData(snapshot)), C.size_t(len(snapshot)), &c, &failure)
	return ownPool(c, status, &failure, restoredBytes(snapshot))
}

// RestorePoolAs is [RestorePool] with another configuration, as [RestorePolicy] is [Restore], and any maxSegments that its
// segments fit into: so a full pool grows.
func RestorePoolAs(config Config, maxSegments uint32, snapshot []byte) (*Pool, error) {
	var pinner runtime.Pinner
	defer pinner.Unpin()
	given, done, err := config.c(&pinner)
	if err != nil {
		return nil, err
	}
	defer done()
	var c *C.dpb_pool
	var failure C.dpb_error
	buf, n := (*C.uint8_t)(unsafe.SliceData(snapshot)), C.size_t(len(snapshot))
	status := C.dpb_pool_restore_as(given, C.uint32_t(maxSegments), buf, n, &c, &failure)
	return ownPool(c, status, &failure, config.bytes()+config.cells(maxSegments))
}

func ownPool(c *C.dpb_pool, status C.dpb_status, failure *C.dpb_error, bytes int64) (*Pool, error) {
	if status != C.DPB_OK {
		return nil, explain(status, failure)
	}
	p := new(Pool)
	p.own(c, func(c *C.dpb_pool) { C.dpb_pool_free(c) }, bytes)
	return p, nil
}

// Segment returns the number of the segment that is called so: the next one for a new key. Keys are public. ErrFull for a
// new one where there are as many as there may be.
func (p *Pool) Segment(key uint64) (uint32, error) {
	c, err := p.enter()
	if err != nil {
		return 0, err
	}
	defer p.leave()
	var segment C.uint32_t
	err = check(C.dpb_pool_segment(c, C.uint64_t(key), &segment))
	return uint32(segment), err
}

// Select asks which arm to play in this segment. The propensity is NaN.
func (p *Pool) Select(segment uint32) (Decision, error) {
	c, err := p.enter()
	if err != nil {
		return Decision{}, err
	}
	defer p.leave()
	var d Decision
	err = check(C.dpb_pool_select(c, C.uint32_t(segment), (*C.dpb_decision)(unsafe.Pointer(&d))))
	return d, err
}

// SelectAmong asks which of these arms: only they may be shown for this request (public information).
func (p *Pool) SelectAmong(segment uint32, arms []uint32) (Decision, error) {
	c, err := p.enter()
	if err != nil {
		return Decision{}, err
	}
	defer p.leave()
	var d Decision
	some, out := (*C.uint32_t)(unsafe.SliceData(arms)), (*C.dpb_decision)(unsafe.Pointer(&d))
	err = check(C.dpb_pool_select_among(c, C.uint32_t(segment), some, C.size_t(len(arms)), out))
	return d, err
}

// SelectMany fills decisions[i] for segments[i] under one lock: all of them, or with an error none.
func (p *Pool) SelectMany(segments []uint32, decisions []Decision) error {
	if len(segments) != len(decisions) {
		return fmt.Errorf("%w: %d segments, %d decisions", ErrInvalidConfig, len(segments), len(decisions))
	}
	c, err := p.enter()
	if err != nil {
		return err
	}
	defer p.leave()
	in, out := (*C.uint32_t)(unsafe.SliceData(segments)), (*C.dpb_decision)(unsafe.Pointer(unsafe.SliceData(decisions)))
	return check(C.dpb_pool_select_many(c, in, out, C.size_t(len(segments))))
}

// SelectFor asks which arm to play in this segment for this user: as [Bandit.SelectFor], whichever the segments. The
// several slots of a page are as many decisions.
func (p *Pool) SelectFor(segment uint32, user uint64) (Decision, error) {
	c, err := p.enter()
	if err != nil {
		return Decision{}, err
	}
	defer p.leave()
	var d Decision
	out := (*C.dpb_decision)(unsafe.Pointer(&d))
	err = check(C.dpb_pool_select_for(c, C.uint32_t(segment), C.uint64_t(user), out))
	return d, err
}

// SelectAmongFor is SelectAmong for this user.
func (p *Pool) SelectAmongFor(segment uint32, user uint64, arms []uint32) (Decision, error) {
	c, err := p.enter()
	if err != nil {
		return Decision{}, err
	}
	defer p.leave()
	var d Decision
	some, out := (*C.uint32_t)(unsafe.SliceData(arms)), (*C.dpb_decision)(unsafe.Pointer(&d))
	err = check(C.dpb_pool_select_among_for(c, C.uint32_t(segment), C.uint64_t(user), some, C.size_t(len(arms)), out))
	return d, err
}

// NextPeriod begins a new period for all segments: as [Bandit.NextPeriod].
func (p *Pool) NextPeriod() error {
	c, err := p.enter()
	if err != nil {
		return err
	}
	defer p.leave()
	return check(C.dpb_pool_next_period(c))
}

// Update says what came of a decision, whichever its segment: as [Bandit.Update].
func (p *Pool) Update(ticket uint64, reward float64) error {
	c, err := p.enter()
	if err != nil {
		return err
	}
	defer p.leave()
	return check(C.dpb_pool_update(c, C.uint64_t(ticket), C.double(reward)))
}

// UpdateMany answers many tickets: as [Bandit.UpdateMany].
func (p *Pool) UpdateMany(tickets []uint64, rewards []float64, each []error) (int, error) {
	c, err := p.enter()
	if err != nil {
		return 0, err
	}
	defer p.leave()
	return answerMany(c, tickets, rewards, each)
}

// Cancel takes a decision back: as [Bandit.Cancel].
func (p *Pool) Cancel(ticket uint64) error {
	c, err := p.enter()
	if err != nil {
		return err
	}
	defer p.leave()
	return check(C.dpb_pool_cancel(c, C.uint64_t(ticket)))
}

// CancelAll cancels every open decision: as [Bandit.CancelAll].
func (p *Pool) CancelAll() error {
	c, err := p.enter()
	if err != nil {
		return err
	}
	defer p.leave()
	return check(C.dpb_pool_cancel_all(c))
}

// SetPrior says what public data say of an arm, whatever the segment: as [Bandit.SetPrior], but that Arms shows it.
func (p *Pool) SetPrior(arm uint32, mean, strength float64) error {
	c, err := p.enter()
	if err != nil {
		return err
	}
	defer p.leave()
	return check(C.dpb_pool_set_prior(c, C.uint32_t(arm), C.double(mean), C.double(strength)))
}

// Arms reads all arms of a segment. Mean is what the pool believes of an arm there, from all segments' releases; Width
// is NaN, and EffectivePulls counts the rewards behind the segment's own releases.
func (p *Pool) Arms(segment uint32) ([]Arm, error) {
	c, err := p.enter()
	if err != nil {
		return nil, err
	}
	defer p.leave()
	var n C.size_t
	var read []C.dpb_arm
	status := C.dpb_pool_arms_read(c, C.uint32_t(segment), nil, 0, &n)
	if status == C.DPB_BUFFER_TOO_SMALL {
		read = make([]C.dpb_arm, n)
		status = C.dpb_pool_arms_read(c, C.uint32_t(segment), unsafe.SliceData(read), n, &n)
	}
	if err := check(status); err != nil {
		return nil, err
	}
	return armsOf(read), nil
}

// Report reads the public state of the whole pool. All of it is released already: reading costs no privacy.
func (p *Pool) Report() (PoolReport, error) {
	c, err := p.enter()
	if err != nil {
		return PoolReport{}, err
	}
	defer p.leave()
	r := C.dpb_pool_report{struct_size: C.sizeof_dpb_pool_report}
	if err := check(C.dpb_pool_report_read(c, &r)); err != nil {
		return PoolReport{}, err
	}
	return PoolReport{
		Segments:     uint32(r.segments),
		MaxSegments:  uint32(r.max_segments),
		Arms:         uint32(r.arms),
		Pending:      uint32(r.pending),
		Decisions:    uint64(r.decisions),
		Answered:     uint64(r.answered),
		Cancelled:    uint64(r.cancelled),
		Expired:      uint64(r.expired),
		EpsilonSpent: float64(r.epsilon_spent),
		DeltaSpent:   float64(r.delta_spent),
		IsPrivate:    r.is_private != 0,
		Releases:     uint64(r.releases),
	}, nil
}

// Diagnostics reads counts of refused calls: the only read that is NOT private.
func (p *Pool) Diagnostics() (Diagnostics, error) {
	c, err := p.enter()
	if err != nil {
		return Diagnostics{}, err
	}
	defer p.leave()
	d := C.dpb_diagnostics{struct_size: C.sizeof_dpb_diagnostics}
	if err := check(C.dpb_pool_diagnostics_read(c, &d)); err != nil {
		return Diagnostics{}, err
	}
	return diagnosticsOf(&d), nil
}

// Snapshot appends what the pool has released and what is public of it to bytes (which may be nil): safe to log and to
// publish, and all that [RestorePool] needs.
func (p *Pool) Snapshot(bytes []byte) ([]byte, error) {
	c, err := p.enter()
	if err != nil {
		return bytes, err
	}
	defer p.leave()
	for {
		var n C.size_t
		room := bytes[len(bytes):cap(bytes)]
		status := C.dpb_pool_snapshot(c, (*C.uint8_t)(unsafe.SliceData(room)), C.size_t(len(room)), &n)
		switch status {
		case C.DPB_OK:
			return bytes[:len(bytes)+int(n)], nil
		case C.DPB_BUFFER_TOO_SMALL:
			bytes = slices.Grow(bytes, int(n))
		default:
			return bytes, check(status)
		}
	}
}

// Merge learns from what another pool has released: from its [Pool.Snapshot], made here or on another machine. Each of
// a fleet merges the newest snapshots of all others every so often: in any order, again and again, and an older one
// changes nothing. Segments are joined by their keys: one that others know takes no room here until [Pool.Segment] is
// asked for it, and begins then with what they have released. A snapshot holds what its own pool has released, not what
// that has merged: after [RestorePool] merge the others' again. ErrInvalidConfig names what must not differ.
func (p *Pool) Merge(snapshot []byte) error {
	c, err := p.enter()
	if err != nil {
		return err
	}
	defer p.leave()
	var failure C.dpb_error
	status := C.dpb_pool_merge_with(c, (*C.uint8_t)(unsafe.SliceData(snapshot)), C.size_t(len(snapshot)), &failure)
	if status != C.DPB_OK {
		return explain(status, &failure)
	}
	return nil
}
