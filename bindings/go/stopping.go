package dpb

/*
#include <dpb.h>

// Go cannot call through a C function pointer.
typedef dpb_status (*stopping_constructor)(const dpb_stopping_config *, dpb_stopping **, dpb_error *);
static dpb_status construct_stopping(stopping_constructor f, const dpb_stopping_config *config, dpb_stopping **out,
                                     dpb_error *error) {
  return f(config, out, error);
}
*/
import "C"

import "runtime"

// Stopping is a stopping rule: it takes samples until it knows their mean within a factor of 1 +- Alpha. Close it when
// done.
type Stopping struct {
	handle[*C.dpb_stopping]
}

// StoppingConfig configures a stopping rule. There are no defaults.
type StoppingConfig struct {
	Range    float64   // samples are in [-Range, Range]; > 0, at most 1e290
	Alpha    float64   // the relative error, in (0, 1)
	Beta     float64   // the failure probability, in (0, 1)
	Epsilon  float64   // privacy parameter for one sample, > 0; NewNAS ignores it
	TestSeed *[32]byte // makes the rule reproducible and NOT private; nil uses the operating system's entropy
}

// NewNAS makes NAS, a baseline WITHOUT privacy.
func NewNAS(c StoppingConfig) (*Stopping, error) {
	return newStopping(C.stopping_constructor(C.dpb_new_nas), c)
}

// NewDPNAS makes DP-NAS: pure epsilon-DP.
func NewDPNAS(c StoppingConfig) (*Stopping, error) {
	return newStopping(C.stopping_constructor(C.dpb_new_dp_nas), c)
}

// NewDPExpNAS makes DP-exponential-NAS, which checks its threshold at powers of two only: pure epsilon-DP.
func NewDPExpNAS(c StoppingConfig) (*Stopping, error) {
	return newStopping(C.stopping_constructor(C.dpb_new_dp_exp_nas), c)
}

func newStopping(constructor C.stopping_constructor, config StoppingConfig) (*Stopping, error) {
	var pinner runtime.Pinner
	defer pinner.Unpin()
	var c *C.dpb_stopping
	var failure C.dpb_error
	var given C.dpb_stopping_config
	C.dpb_stopping_config_init_sized(&given, C.sizeof_dpb_stopping_config, C.double(config.Range), C.double(config.Epsilon))
	given.alpha = C.double(config.Alpha)
	given.beta = C.double(config.Beta)
	given.test_seed = pinBytes(&pinner, config.TestSeed)
	status := C.construct_stopping(constructor, &given, &c, &failure)
	if status != C.DPB_OK {
		return nil, explain(status, &failure)
	}
	s := new(Stopping)
	s.own(c, func(c *C.dpb_stopping) { C.dpb_stopping_free(c) }, 0)
	return s, nil
}

// Push takes a sample and reports whether the rule halts with it. Later calls return ErrHalted. It returns
// ErrInvalidReward for a sample out of range.
func (s *Stopping) Push(sample float64) (halted bool, err error) {
	c, err := s.enter()
	if err != nil {
		return false, err
	}
	defer s.leave()
	var answer C.uint32_t
	err = check(C.dpb_stopping_push(c, C.double(sample), &answer))
	return answer != 0, err
}

// Mean returns the released mean, or ErrNotReady until the rule has halted.
func (s *Stopping) Mean() (float64, error) {
	c, err := s.enter()
	if err != nil {
		return 0, err
	}
	defer s.leave()
	var mean C.double
	err = check(C.dpb_stopping_mean(c, &mean))
	return float64(mean), err
}

// IsPrivate reports whether the rule is private: false for NAS and with a TestSeed.
func (s *Stopping) IsPrivate() (bool, error) {
	c, err := s.enter()
	if err != nil {
		return false, err
	}
	defer s.leave()
	var answer C.uint32_t
	err = check(C.dpb_stopping_is_private(c, &answer))
	return answer != 0, err
}
