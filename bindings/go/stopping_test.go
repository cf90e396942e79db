package dpb

import (
	"math"
	"strings"
	"testing"
)

func TestStopping(t *testing.T) {
	config := StoppingConfig{Range: 1, Alpha: 0.5, Beta: 0.1, Epsilon: 1}
	halt := func(s *Stopping, sample float64) (samples int) {
		for {
			samples++
			if must[bool](t)(s.Push(sample)) {
				return samples
			}
			_, err := s.Mean()
			refused(t, err, ErrNotReady)
			if samples > 1_000_000 {
				t.Fatal("it never halts")
			}
		}
	}
	for name, make := range map[string]func(StoppingConfig) (*Stopping, error){
		"nas": NewNAS, "dp-nas": NewDPNAS, "dp-exp-nas": NewDPExpNAS,
	} {
		s := must[*Stopping](t)(make(config))
		if private := must[bool](t)(s.IsPrivate()); private != (name != "nas") {
			t.Errorf("%s: private is %t", name, private)
		}
		seeded := config
		seeded.TestSeed = &[32]byte{1}
		if s := must[*Stopping](t)(make(seeded)); must[bool](t)(s.IsPrivate()) {
			t.Errorf("%s: private under a test seed", name)
		}
		_, err := s.Mean()
		refused(t, err, ErrNotReady)
		for _, bad := range []float64{1.5, -1.5, math.NaN(), math.Inf(1)} {
			_, err := s.Push(bad)
			refused(t, err, ErrInvalidReward)
		}
		samples := halt(s, -1)
		if name == "dp-exp-nas" && samples&(samples-1) != 0 {
			t.Errorf("%s asked at %d", name, samples)
		}
		// Far from Alpha but with probability Beta or much less; without noise by chance once in 10^7.
		mean := must[float64](t)(s.Mean())
		if exact := mean == -1; exact != (name == "nas") || math.Abs(mean+1) > 0.5 || must[float64](t)(s.Mean()) != mean {
			t.Errorf("%s released %v", name, mean)
		}
		halted, err := s.Push(-1)
		refused(t, err, ErrHalted)
		if halted {
			t.Error("halts twice")
		}
		s.Close()
	}
	for field, spoil := range map[string]func(*StoppingConfig){
		"Range must be":   func(c *StoppingConfig) { c.Range = -1 },
		"Alpha must be":   func(c *StoppingConfig) { c.Alpha = 1 },
		"Beta must be":    func(c *StoppingConfig) { c.Beta = math.NaN() },
		"Epsilon must be": func(c *StoppingConfig) { c.Epsilon = 0 },
	} {
		spoilt := config
		spoil(&spoilt)
		s, err := NewDPNAS(spoilt)
		refused(t, err, ErrInvalidConfig)
		if s != nil || !strings.Contains(err.Error(), field) {
			t.Errorf("want %q, got %q", field, err)
		}
	}
	config.TestSeed = &[32]byte{7}
	release := func() float64 {
		s := must[*Stopping](t)(NewDPNAS(config))
		defer s.Close()
		halt(s, 1)
		return must[float64](t)(s.Mean())
	}
	if a, again := release(), release(); a != again {
		t.Error(a, again)
	}
}
