package dpb

/*
#cgo noescape dpb_counter_config_init_sized
#cgo nocallback dpb_counter_config_init_sized
#cgo noescape dpb_new_counter
#cgo nocallback dpb_new_counter
#cgo noescape dpb_counter_add
#cgo nocallback dpb_counter_add
#cgo noescape dpb_counter_read
#cgo nocallback dpb_counter_read
#cgo noescape dpb_counter_is_private
#cgo nocallback dpb_counter_is_private
#cgo noescape dpb_counter_free
#cgo nocallback dpb_counter_free
#include <dpb.h>
*/
import "C"

import "runtime"

// Counter is a private running sum of values in [0, 1]: pure epsilon-DP. Close it when done.
type Counter struct {
	handle[*C.dpb_counter]
}

// CounterKind says when a counter releases.
type CounterKind uint32

const (
	CounterLogarithmic CounterKind = C.DPB_COUNTER_LOGARITHMIC // when the number of values is a power of two
	CounterBinary      CounterKind = C.DPB_COUNTER_BINARY      // at every value, up to a horizon
	CounterHybrid      CounterKind = C.DPB_COUNTER_HYBRID      // at every value, without a horizon
)

// CounterConfig describes a counter.
type CounterConfig struct {
	Kind     CounterKind
	Epsilon  float64   // privacy loss of one value, > 0
	Horizon  uint64    // the most values of a binary counter; ignored by the others
	TestSeed *[32]byte // nil = operating system entropy; else reproducible and NOT private
}

// NewCounter makes a counter.
func NewCounter(config CounterConfig) (*Counter, error) {
	var pinner runtime.Pinner
	defer pinner.Unpin()
	var c *C.dpb_counter
	var failure C.dpb_error
	var given C.dpb_counter_config
	kind, epsilon := C.dpb_counter_kind(config.Kind), C.double(config.Epsilon)
	C.dpb_counter_config_init_sized(&given, C.sizeof_dpb_counter_config, kind, epsilon)
	given.horizon = C.uint64_t(config.Horizon)
	given.test_seed = pinSeed(&pinner, config.TestSeed)
	if status := C.dpb_new_counter(&given, &c, &failure); status != C.DPB_OK {
		return nil, explain(status, &failure)
	}
	counter := new(Counter)
	counter.own(c, func(c *C.dpb_counter) { C.dpb_counter_free(c) }, 0)
	return counter, nil
}

// Add adds a value in [0, 1]; ErrHalted when a binary counter has its horizon of values.
func (counter *Counter) Add(value float64) error {
	c, err := counter.enter()
	if err != nil {
		return err
	}
	defer counter.leave()
	return check(C.dpb_counter_add(c, C.double(value)))
}

// Read returns the released sum, 0 before the first release: the same number until the next Add.
func (counter *Counter) Read() (float64, error) {
	c, err := counter.enter()
	if err != nil {
		return 0, err
	}
	defer counter.leave()
	var sum C.double
	err = check(C.dpb_counter_read(c, &sum))
	return float64(sum), err
}

// IsPrivate is false under a test seed.
func (counter *Counter) IsPrivate() (bool, error) {
	c, err := counter.enter()
	if err != nil {
		return false, err
	}
	defer counter.leave()
	var answer C.uint32_t
	err = check(C.dpb_counter_is_private(c, &answer))
	return answer != 0, err
}
