package dpb

/*
#cgo noescape dpb_new_budget
#cgo nocallback dpb_new_budget
#cgo noescape dpb_budget_spent
#cgo nocallback dpb_budget_spent
#cgo noescape dpb_budget_remaining
#cgo nocallback dpb_budget_remaining
#cgo noescape dpb_budget_free
#cgo nocallback dpb_budget_free
#include <dpb.h>
*/
import "C"

// Budget is the most that bandits may together cost one user. A bandit whose [Config] names it is charged when it is
// made, with all that it can cost, or refused with [ErrOverBudget]. Charges are final. dpb.h says at dpb_new_budget
// how they add up, and when you may choose bandits by what others have published. Close it when done: the bandits
// stay valid.
type Budget struct {
	handle[*C.dpb_budget]
}

// NewBudget makes a budget of epsilon at delta. With delta = 0 it is for pure policies only.
func NewBudget(epsilon, delta float64) (*Budget, error) {
	var c *C.dpb_budget
	var failure C.dpb_error
	if status := C.dpb_new_budget(C.double(epsilon), C.double(delta), &c, &failure); status != C.DPB_OK {
		return nil, explain(status, &failure)
	}
	b := new(Budget)
	b.own(c, func(c *C.dpb_budget) { C.dpb_budget_free(c) }, 0)
	return b, nil
}

// Spent returns what the bandits charged so far may cost one user together at this delta in [0, 1): an upper bound,
// infinite if delta is too small for them.
func (b *Budget) Spent(delta float64) (float64, error) {
	c, err := b.enter()
	if err != nil {
		return 0, err
	}
	defer b.leave()
	var epsilon C.double
	err = check(C.dpb_budget_spent(c, C.double(delta), &epsilon))
	return float64(epsilon), err
}

// Remaining returns the largest epsilon of a pure bandit that still fits, 0 if none does.
func (b *Budget) Remaining() (float64, error) {
	c, err := b.enter()
	if err != nil {
		return 0, err
	}
	defer b.leave()
	var epsilon C.double
	err = check(C.dpb_budget_remaining(c, &epsilon))
	return float64(epsilon), err
}
