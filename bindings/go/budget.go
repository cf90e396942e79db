package dpb

// #include <dpb.h>
import "C"

// Budget limits the privacy loss of all bandits that one person's rewards reach. A constructor charges [Config.Budget]
// for all that the bandit can ever lose, or returns [ErrOverBudget]. Charges are final. dpb.h, at dpb_new_budget, states
// how they add up, and when you may choose a bandit by what others have published.
//
// Close it when done. Its bandits stay usable.
type Budget struct {
	handle[*C.dpb_budget]
}

// NewBudget makes a budget of epsilon > 0 at delta in [0, 1). With delta = 0 it accepts pure policies only. It returns
// ErrInvalidConfig if an argument is out of range.
func NewBudget(epsilon, delta float64) (*Budget, error) {
	var c *C.dpb_budget
	var failure C.dpb_error
	if status := C.dpb_new_budget(C.double(epsilon), C.double(delta), &c, &failure); status != C.DPB_OK {
		return nil, explainArguments(status, &failure)
	}
	b := new(Budget)
	b.own(c, func(c *C.dpb_budget) { C.dpb_budget_free(c) }, 0)
	return b, nil
}

// Charge charges what another system releases about the same people, with (epsilon, delta)-DP for one person; delta 0 is
// pure. Charge before the release. It returns ErrOverBudget, and then changes nothing, or ErrInvalidConfig.
func (b *Budget) Charge(epsilon, delta float64) error {
	c, err := b.enter()
	if err != nil {
		return err
	}
	defer b.leave()
	var failure C.dpb_error
	if status := C.dpb_budget_charge(c, C.double(epsilon), C.double(delta), &failure); status != C.DPB_OK {
		return explainArguments(status, &failure)
	}
	return nil
}

// Spent returns an upper bound of the epsilon that all charged bandits lose together, at this delta in [0, 1). It is
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

// Remaining returns the largest epsilon of a pure bandit that the budget still accepts, or 0 if it accepts none.
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
