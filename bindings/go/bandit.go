package dpb

/*
#cgo CFLAGS: -I${SRCDIR}/../../include
#cgo noescape construct
#cgo nocallback construct
#cgo noescape dpb_free
#cgo nocallback dpb_free
#cgo noescape dpb_select
#cgo nocallback dpb_select
#cgo noescape dpb_update
#cgo nocallback dpb_update
#cgo noescape dpb_cancel
#cgo nocallback dpb_cancel
#cgo noescape dpb_select_many
#cgo nocallback dpb_select_many
#cgo noescape dpb_update_many
#cgo nocallback dpb_update_many
#include <dpb.h>

// Go cannot call through a C function pointer.
typedef dpb_status (*constructor)(const dpb_config *, dpb_bandit **, dpb_error *);
static dpb_status construct(constructor f, const dpb_config *config, dpb_bandit **out, dpb_error *error) {
  return f(config, out, error);
}
*/
import "C"

import (
	"fmt"
	"runtime"
	"unsafe"
)

// Bandit asks which arm to play and hears what came of it. Close it when done.
type Bandit struct {
	handle[*C.dpb_bandit]
}

// Decision is one answer to "which arm?".
type Decision struct {
	Ticket     uint64  // names this decision in Update and Cancel
	Propensity float64 // the arm's probability given everything released so far
	Arm        uint32  // 0-based
	Phase      uint32  // the policy's own count of epochs, phases or intervals
}

// A Decision is a dpb_decision, so that C writes into Go's slices: neither array may be negative.
var (
	_ [unsafe.Sizeof(Decision{}) - C.sizeof_dpb_decision]struct{}
	_ [C.sizeof_dpb_decision - unsafe.Sizeof(Decision{})]struct{}
)

// New makes the bandit that the library recommends for this configuration.
func New(c Config) (*Bandit, error) { return newBandit(C.constructor(C.dpb_new), c) }

// NewSE makes DP-SE, private successive elimination: pure epsilon-DP.
func NewSE(c Config) (*Bandit, error) { return newBandit(C.constructor(C.dpb_new_se), c) }

// NewNonprivateUCB1 makes UCB1, a baseline WITHOUT privacy.
func NewNonprivateUCB1(c Config) (*Bandit, error) {
	return newBandit(C.constructor(C.dpb_new_nonprivate_ucb1), c)
}

func newBandit(constructor C.constructor, config Config) (*Bandit, error) {
	var pinner runtime.Pinner
	defer pinner.Unpin()
	var c *C.dpb_bandit
	var failure C.dpb_error
	if status := C.construct(constructor, config.c(&pinner), &c, &failure); status != C.DPB_OK {
		return nil, explain(status, &failure)
	}
	b := new(Bandit)
	b.own(c, func(c *C.dpb_bandit) { C.dpb_free(c) })
	return b, nil
}

// Select asks which arm to play.
func (b *Bandit) Select() (Decision, error) {
	c, err := b.enter()
	if err != nil {
		return Decision{}, err
	}
	defer b.leave()
	var d Decision
	err = check(C.dpb_select(c, (*C.dpb_decision)(unsafe.Pointer(&d))))
	return d, err
}

// Update says what came of a decision, at most once.
func (b *Bandit) Update(ticket uint64, reward float64) error {
	c, err := b.enter()
	if err != nil {
		return err
	}
	defer b.leave()
	return check(C.dpb_update(c, C.uint64_t(ticket), C.double(reward)))
}

// Cancel takes a decision back: the ad was never shown. At a time that does not depend on the reward.
func (b *Bandit) Cancel(ticket uint64) error {
	c, err := b.enter()
	if err != nil {
		return err
	}
	defer b.leave()
	return check(C.dpb_cancel(c, C.uint64_t(ticket)))
}

// SelectMany fills decisions under one lock and returns how many were written.
func (b *Bandit) SelectMany(decisions []Decision) (int, error) {
	c, err := b.enter()
	if err != nil {
		return 0, err
	}
	defer b.leave()
	var done C.size_t
	out := (*C.dpb_decision)(unsafe.Pointer(unsafe.SliceData(decisions)))
	err = check(C.dpb_select_many(c, out, C.size_t(len(decisions)), &done))
	return int(done), err
}

// UpdateMany answers many tickets. Every answer is tried, whatever became of those before it.
// each is nil, or receives the error (or nil) of every answer. Returns how many were accepted, and
// the first refusal.
func (b *Bandit) UpdateMany(tickets []uint64, rewards []float64, each []error) (int, error) {
	if len(tickets) != len(rewards) || (each != nil && len(each) != len(tickets)) {
		return 0, fmt.Errorf("%w: %d tickets, %d rewards, each for %d", ErrInvalidConfig, len(tickets), len(rewards), len(each))
	}
	c, err := b.enter()
	if err != nil {
		return 0, err
	}
	defer b.leave()
	if each == nil {
		return updateMany(c, tickets, rewards, nil)
	}
	// In pieces, so that the statuses fit on the stack.
	accepted, refusal := 0, error(nil)
	var statuses [256]C.dpb_status
	for len(tickets) > 0 {
		n := min(len(tickets), len(statuses))
		for i := range statuses[:n] {
			statuses[i] = C.DPB_POISONED // stays where C stops before it has tried
		}
		done, err := updateMany(c, tickets[:n], rewards[:n], &statuses[0])
		for i, status := range statuses[:n] {
			each[i] = check(status)
		}
		if refusal == nil {
			refusal = err
		}
		accepted += done
		tickets, rewards, each = tickets[n:], rewards[n:], each[n:]
	}
	return accepted, refusal
}

func updateMany(c *C.dpb_bandit, tickets []uint64, rewards []float64, each *C.dpb_status) (int, error) {
	var done C.size_t
	status := C.dpb_update_many(c, (*C.uint64_t)(unsafe.SliceData(tickets)),
		(*C.double)(unsafe.SliceData(rewards)), C.size_t(len(tickets)), each, &done)
	return int(done), check(status)
}
