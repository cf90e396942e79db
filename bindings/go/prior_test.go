package dpb

import (
	"math"
	"testing"
)

func TestPriors(t *testing.T) {
	b := must[*Bandit](t)(New(NewConfig(3, 1)))
	defer b.Close()
	p := segmented(t, NewConfig(3, 1), 1)
	must[Decision](t)(p.SelectFor(Request{Segment: 7}))
	before := must[[]Arm](t)(p.Segment(7))[1].Mean
	for _, set := range []func(uint32, float64, float64) error{b.SetPrior, p.SetPrior} {
		refused(t, set(1, 0.5, 1000), nil)
		refused(t, set(9, 0.5, 1000), ErrInvalidRequest)
		refused(t, set(1, math.NaN(), 1000), ErrInvalidConfig)
		refused(t, set(1, 1.5, 1000), ErrInvalidConfig)
		refused(t, set(1, 0.5, 0), ErrInvalidConfig)
	}
	if after := must[[]Arm](t)(p.Segment(7))[1].Mean; after < 2*before {
		t.Error(before, after)
	}
	if !math.IsNaN(must[[]Arm](t)(b.Arms())[1].Mean) {
		t.Error("it is read")
	}
	tsallis := must[*Bandit](t)(NewTsallis(NewConfig(3, 1)))
	defer tsallis.Close()
	refused(t, tsallis.SetPrior(1, 0.5, 10), ErrUnsupported)
}
