package dpb

import (
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

func counter(t testing.TB, kind CounterKind, horizon uint64, seed *[32]byte) *Counter {
	t.Helper()
	c := must[*Counter](t)(NewCounter(CounterConfig{Kind: kind, Epsilon: 1, Horizon: horizon, TestSeed: seed}))
	t.Cleanup(func() { c.Close() })
	return c
}

func TestCounter(t *testing.T) {
	read := func(c *Counter) float64 { return must[float64](t)(c.Read()) }
	seed := &[32]byte{7}
	c, twin := counter(t, CounterHybrid, 0, seed), counter(t, CounterHybrid, 0, seed)
	if read(c) != 0 {
		t.Error("released before the first value")
	}
	if must[bool](t)(c.IsPrivate()) || !must[bool](t)(counter(t, CounterHybrid, 0, nil).IsPrivate()) {
		t.Error("private under a test seed, or not without")
	}
	for range 1000 {
		for _, c := range []*Counter{c, twin} {
			if err := c.Add(0.5); err != nil {
				t.Fatal(err)
			}
		}
		if read(c) != read(c) || read(c) != read(twin) {
			t.Fatal(read(c), read(twin))
		}
	}
	sum := read(c)
	if sum == 500 || math.Abs(sum-500) > 300 {
		t.Error(sum)
	}
	for _, bad := range []float64{-0.1, 1.1, math.NaN()} {
		refused(t, c.Add(bad), ErrInvalidReward)
	}
	if read(c) != sum {
		t.Error("a refused value changed the sum")
	}

	for field, make := range map[string]func() (*Counter, error){
		"Epsilon must be": func() (*Counter, error) { return NewCounter(CounterConfig{Kind: CounterHybrid, Epsilon: -1}) },
		"Horizon must be": func() (*Counter, error) { return NewCounter(CounterConfig{Kind: CounterBinary, Epsilon: 1}) },
		"Kind must be":    func() (*Counter, error) { return NewCounter(CounterConfig{Kind: 9, Epsilon: 1}) },
	} {
		c, err := make()
		refused(t, err, ErrInvalidConfig)
		if c != nil || !strings.Contains(err.Error(), field) {
			t.Errorf("want %q, got %q", field, err)
		}
	}
}

// The noise of the first release is Laplace(1/epsilon), whose mean size is 1. It is out of bounds with a probability below
// e^-20.
func TestCounterNoise(t *testing.T) {
	noise := 0.0
	for range 400 {
		c := counter(t, CounterLogarithmic, 0, nil)
		if err := c.Add(1); err != nil {
			t.Fatal(err)
		}
		noise += math.Abs(must[float64](t)(c.Read()) - 1)
	}
	if noise < 280 || noise > 560 {
		t.Error(noise)
	}
}

// Each value counts once, whichever goroutine adds it.
func TestCounterShared(t *testing.T) {
	c := counter(t, CounterBinary, 4000, nil)
	var crowd sync.WaitGroup
	var taken atomic.Int64
	for range 4 {
		crowd.Add(1)
		go func() {
			defer crowd.Done()
			for range 1100 {
				switch err := c.Add(1); err {
				case nil:
					taken.Add(1)
				case ErrHalted:
				default:
					t.Error(err)
				}
			}
		}()
	}
	crowd.Wait()
	if taken.Load() != 4000 {
		t.Errorf("%d values taken", taken.Load())
	}
	refused(t, c.Add(1), ErrHalted)
}
