package dpb

// #include <dpb.h>
import "C"

import "runtime"

// Counter releases a private running sum of values in [0, 1]. For any two values of one summand, the probability of
// anything the adversary sees differs by a factor of at most e^epsilon. Close it when done.
type Counter struct {
	handle[*C.dpb_counter]
}

// CounterKind determines when a counter releases.
type CounterKind uint32

const (
	CounterLogarithmic CounterKind = C.DPB_COUNTER_LOGARITHMIC // when the number of values is a power of two: the least noise
	CounterBinary      CounterKind = C.DPB_COUNTER_BINARY      // at every value, up to a horizon
	CounterHybrid      CounterKind = C.DPB_COUNTER_HYBRID      // at every value, without a horizon
)

// CounterConfig configures a counter.
type CounterConfig struct {
	Kind     CounterKind
	Epsilon  float64   // privacy parameter for one value, > 0
	Horizon  uint64    // the maximum number of values of a binary counter, 1 to 2^37; the others ignore it
	TestSeed *[32]byte // makes the counter reproducible and NOT private; nil uses the operating system's entropy
}

// NewCounter makes a counter. It returns ErrInvalidConfig if a field is out of range.
func NewCounter(config CounterConfig) (*Counter, error) {
	var pinner runtime.Pinner
	defer pinner.Unpin()
	var c *C.dpb_counter
	var failure C.dpb_error
	var given C.dpb_counter_config
	kind, epsilon := C.dpb_counter_kind(config.Kind), C.double(config.Epsilon)
	C.dpb_counter_config_init_sized(&given, C.sizeof_dpb_counter_config, kind, epsilon)
	given.horizon = C.uint64_t(config.Horizon)
	given.test_seed = pinBytes(&pinner, config.TestSeed)
	if status := C.dpb_new_counter(&given, &c, &failure); status != C.DPB_OK {
		return nil, explain(status, &failure)
	}
	counter := new(Counter)
	counter.own(c, func(c *C.dpb_counter) { C.dpb_counter_free(c) }, 0)
	return counter, nil
}

// Add adds a value in [0, 1]. It returns ErrInvalidReward for any other value, and ErrHalted if the counter has as many
// values as it can take: [CounterConfig.Horizon] for a binary one, 2^37 for the others.
func (counter *Counter) Add(value float64) error {
	c, err := counter.enter()
	if err != nil {
		return err
	}
	defer counter.leave()
	return check(C.dpb_counter_add(c, C.double(value)))
}

// Read returns the released sum, or 0 before the first release. It has noise, so it can be negative. The number changes only
// by Add. Reading costs no privacy.
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

// IsPrivate reports whether the counter is private: false with a TestSeed.
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
