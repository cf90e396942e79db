package dpb

// #include <dpb.h>
import "C"

import (
	"unsafe"
)

// Weights returns the probability of each arm, by its number, in the next decision of a request, as integers that sum to
// 2^32: what a [Table] has. They are functions of releases, so they cost no privacy. An arm that the decision cannot have,
// such as a retired one, has 0. Weights changes and counts nothing.
//
// It returns ErrUnsupported for a policy that plans single decisions: [NewMED] and [NewLinear] make bandits with weights.
// Its other errors are those of [Bandit.SelectFor].
func (b *Bandit) Weights(request Request) ([]uint64, error) {
	c, err := b.enter()
	if err != nil {
		return nil, err
	}
	defer b.leave()
	if err := request.checkRows(); err != nil {
		return nil, err
	}
	var n C.size_t
	var failure C.dpb_error
	var weights []uint64
	read := func(room C.size_t) C.dpb_status {
		return request.weights(c, (*C.uint64_t)(unsafe.SliceData(weights)), room, &n, &failure)
	}
	status := read(0)
	for status == C.DPB_BUFFER_TOO_SMALL {
		weights = make([]uint64, n)
		status = read(n)
	}
	if status != C.DPB_OK {
		return nil, explain(status, &failure)
	}
	return weights[:n], nil
}

// BeginTable begins a version of this bandit's table and returns its number, which no other version of this bandit has,
// whatever restarts. Publish it with the [Bandit.Weights] of each request that programs elsewhere decide, for example by
// [Bandit.Publish]. The version before it closes after grace more ticks of the bandit's clock, and all earlier ones at
// once: [Bandit.Record] then refuses their decisions.
//
// When you call it must not depend on rewards, but by releases. No snapshot has the versions: after a restart publish the
// table anew. A state that moves ([Bandit.Suspend]) has them. BeginTable returns ErrUnsupported if [Config.TableCapacity]
// is 0, and for a policy that takes no eligible arms.
func (b *Bandit) BeginTable(grace uint64) (uint64, error) {
	var version C.uint64_t
	err := b.explained(func(c *C.dpb_bandit, failure *C.dpb_error) C.dpb_status {
		return C.dpb_table_begin(c, C.uint64_t(grace), &version, failure)
	})
	return uint64(version), err
}

// Record records a decision that was made elsewhere by a version of this bandit's table: it becomes an open decision like
// any other, with a ticket and a window of its own. The request says what was decided for, and its one eligible arm is the
// arm that was shown. A repeat of an id returns the same decision and changes nothing, until that decision ends. The
// propensity is NaN, because the table has it. Record allocates nothing.
//
// Record each decision that was shown, and no other, soon after it was shown, whether a reward comes or not. Which ones
// you record must not depend on rewards.
//
// It returns ErrExpired for a version that is closed, or not of this life of this bandit; ErrDuplicate if the decision of
// the id has ended, was cancelled or expired; ErrFull if the ids of [Config.TableCapacity] decisions must be kept; and the
// errors of [Bandit.SelectFor].
func (b *Bandit) Record(version, id uint64, request Request) (Decision, error) {
	c, err := b.enter()
	if err != nil {
		return Decision{}, err
	}
	defer b.leave()
	if err := request.checkRows(); err != nil {
		return Decision{}, err
	}
	var d Decision
	status := request.record(c, C.uint64_t(version), C.uint64_t(id), (*C.dpb_decision)(unsafe.Pointer(&d)))
	return d, check(status)
}

// Find returns the decision of an id that was recorded, for a reward that names the id: pass its ticket to
// [Bandit.Update]. It opens nothing, and finds the decision until that ends, also when its version is closed. A reward may
// come before the record of its decision: keep it until then.
//
// It returns ErrUnknownTicket for an id that is not recorded, ErrDuplicate if its decision has ended, and ErrExpired for an
// unknown id of a version that is closed, or not of this life of this bandit.
func (b *Bandit) Find(version, id uint64) (Decision, error) {
	c, err := b.enter()
	if err != nil {
		return Decision{}, err
	}
	defer b.leave()
	var d Decision
	err = check(C.dpb_find(c, C.uint64_t(version), C.uint64_t(id), (*C.dpb_decision)(unsafe.Pointer(&d))))
	return d, err
}
