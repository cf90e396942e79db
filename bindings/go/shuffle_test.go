package dpb

import (
	"bytes"
	"encoding/json"
	"math"
	"sync"
	"sync/atomic"
	"testing"
)

func TestShufflePlan(t *testing.T) {
	plan := must[ShuffleParams](t)(ShufflePlan(1, 1e-6, 50, false))
	if plan.Users != 50 || plan.CoinsPerUser < 1 || plan.Epsilon != 1 || plan.Delta != 1e-6 {
		t.Errorf("%+v", plan)
	}
	if printed := must[ShuffleParams](t)(ShufflePlan(1, 1e-6, 50, true)); printed.CoinsPerUser <= plan.CoinsPerUser {
		t.Errorf("%+v", printed)
	}
	for _, bad := range []struct {
		epsilon, delta float64
		users          uint32
	}{{0, 1e-6, 50}, {math.NaN(), 1e-6, 50}, {1, 0, 50}, {1, 1, 50}, {1, 1e-6, 0}} {
		_, err := ShufflePlan(bad.epsilon, bad.delta, bad.users, false)
		refused(t, err, ErrInvalidConfig)
	}
	// Parameters can be sent.
	var received ShuffleParams
	if err := json.Unmarshal(must[[]byte](t)(json.Marshal(plan)), &received); err != nil || received != plan {
		t.Errorf("%+v: %v", received, err)
	}
}

// The device and the shuffler.
func TestShuffleRoles(t *testing.T) {
	plan := must[ShuffleParams](t)(ShufflePlan(1, 1e-6, 50, false))
	size := 1 + int(plan.CoinsPerUser)
	for _, bad := range []float64{-0.1, 1.1, math.NaN()} {
		bits, err := ShuffleEncode([]byte{9}, plan, bad)
		refused(t, err, ErrInvalidReward)
		if !bytes.Equal(bits, []byte{9}) {
			t.Error(bits)
		}
	}
	// Devices and shufflers refuse parameters whose noise is too small for their epsilon.
	for name, spoil := range map[string]func(*ShuffleParams){
		"no coins":      func(p *ShuffleParams) { p.CoinsPerUser = 0 },
		"coins of zero": func(p *ShuffleParams) { p.CoinNumerator = 1 },
		"an eighth off": func(p *ShuffleParams) { p.CoinNumerator -= p.CoinNumerator / 8 },
		"one user":      func(p *ShuffleParams) { p.Users = 1 },
		"less epsilon":  func(p *ShuffleParams) { p.Epsilon = 0.9 },
		"less delta":    func(p *ShuffleParams) { p.Delta = 0.9e-6 },
	} {
		t.Run(name, func(t *testing.T) {
			spoilt := plan
			spoil(&spoilt)
			_, err := ShuffleEncode(nil, spoilt, 1)
			refused(t, err, ErrInvalidConfig)
			_, err = NewShuffler(spoilt)
			refused(t, err, ErrInvalidConfig)
		})
	}

	s := must[*Shuffler](t)(NewShuffler(plan))
	defer s.Close()
	for _, bad := range [][]byte{nil, {1}, make([]byte, size+1), bytes.Repeat([]byte{2}, size)} {
		refused(t, s.Push(bad), ErrInvalidConfig)
	}
	var sent []byte
	honest := 25
	for user := range 50 {
		_, err := s.Take(nil)
		refused(t, err, ErrNotReady)
		reward := byte(0)
		if user < honest {
			reward = 1
		}
		message := must[[]byte](t)(ShuffleEncode(nil, plan, float64(reward)))
		if len(message) != size || message[0] != reward { // its own bit, then its coins
			t.Fatal(message)
		}
		if err := s.Push(message); err != nil {
			t.Fatal(err)
		}
		sent = append(sent, message...)
	}
	ones := func(bits []byte) int { return bytes.Count(bits, []byte{1}) }
	// The coins hide a user. All are equal with a probability below 2^-60.
	if coins := ones(sent) - honest; coins == 0 || coins == 50*(size-1) {
		t.Errorf("%d coins", coins)
	}
	refused(t, s.Push(sent[:size]), ErrExpired)
	batch := must[[]byte](t)(s.Take([]byte{7, 7}))
	if !bytes.HasPrefix(batch, []byte{7, 7}) {
		t.Fatal("it does not append")
	}
	batch = batch[2:]
	if len(batch) != len(sent) || ones(batch) != ones(sent) || bytes.Equal(batch, sent) {
		t.Error("not a permutation")
	}
	_, err := s.Take(nil) // once
	refused(t, err, ErrNotReady)
	if err := s.Push(sent[:size]); err != nil {
		t.Error(err)
	}
}

// Many goroutines push as many messages as the batch holds, and one goroutine takes it.
func TestShufflerShared(t *testing.T) {
	plan := must[ShuffleParams](t)(ShufflePlan(1, 1e-6, 50, false))
	s := must[*Shuffler](t)(NewShuffler(plan))
	defer s.Close()
	message := make([]byte, 1+plan.CoinsPerUser)
	var crowd sync.WaitGroup
	var pushed, taken atomic.Int64
	for range 4 {
		crowd.Add(1)
		go func() {
			defer crowd.Done()
			for range 40 {
				if s.Push(message) == nil {
					pushed.Add(1)
				}
			}
		}()
	}
	crowd.Wait()
	for range 4 {
		crowd.Add(1)
		go func() {
			defer crowd.Done()
			if batch, err := s.Take(nil); err == nil && len(batch) == 50*len(message) {
				taken.Add(1)
			}
		}()
	}
	crowd.Wait()
	if pushed.Load() != 50 || taken.Load() != 1 {
		t.Errorf("%d pushed, %d taken", pushed.Load(), taken.Load())
	}
}

// The server accepts each arm's batch once, in the open phase. Arm 1 always has reward 1, and wins.
func TestSubmitShuffled(t *testing.T) {
	config := NewConfig(2, 1)
	config.Delta, config.Horizon, config.Batch = 1e-6, 1_000_000, 20 // too few to decide in one phase
	b := must[*Bandit](t)(NewSDPAE(config))
	defer b.Close()
	batch := func(phase uint32, reward float64) []byte {
		plan := must[ShuffleParams](t)(b.ShuffleParams(phase))
		s := must[*Shuffler](t)(NewShuffler(plan))
		defer s.Close()
		for range plan.Users {
			if err := s.Push(must[[]byte](t)(ShuffleEncode(nil, plan, reward))); err != nil {
				t.Fatal(err)
			}
		}
		return must[[]byte](t)(s.Take(nil))
	}
	submit := func(phase, arm uint32, bits []byte) {
		t.Helper()
		if err := b.SubmitShuffled(phase, arm, bits); err != nil {
			t.Fatal(err)
		}
	}
	if d := must[Decision](t)(b.Select()); d.Phase != 1 {
		t.Errorf("%+v", d)
	}
	bits := batch(1, 0)
	refused(t, b.SubmitShuffled(1, 2, bits), ErrInvalidConfig)
	refused(t, b.SubmitShuffled(1, 0, nil), ErrInvalidConfig)
	refused(t, b.SubmitShuffled(1, 0, bytes.Repeat([]byte{2}, len(bits))), ErrInvalidConfig)
	refused(t, b.SubmitShuffled(2, 0, bits), ErrNotReady)
	refused(t, b.SubmitShuffled(0, 0, bits), ErrExpired)
	submit(1, 0, bits)
	refused(t, b.SubmitShuffled(1, 0, bits), ErrDuplicate)
	submit(1, 1, batch(1, 1))
	refused(t, b.SubmitShuffled(1, 1, bits), ErrExpired)
	for phase := uint32(2); phase < 1000; phase++ {
		if _, err := b.BestArm(); err == nil {
			break
		}
		submit(phase, 0, batch(phase, 0))
		submit(phase, 1, batch(phase, 1))
	}
	if best := must[uint32](t)(b.BestArm()); best != 1 {
		t.Errorf("best arm %d", best)
	}

	config.Batch = 0
	simulation := must[*Bandit](t)(NewVBSDPAE(config))
	defer simulation.Close()
	plan := must[ShuffleParams](t)(simulation.ShuffleParams(1))
	if err := simulation.Update(must[Decision](t)(simulation.Select()).Ticket, 1); err != nil {
		t.Fatal(err)
	}
	refused(t, simulation.SubmitShuffled(1, 0, make([]byte, plan.Users*(1+plan.CoinsPerUser))), ErrUnsupported)
	plain := bandit(t, 2)
	refused(t, plain.SubmitShuffled(1, 0, bits), ErrUnsupported)
	_, err := plain.ShuffleParams(1)
	refused(t, err, ErrUnsupported)
}

func TestLDPEncode(t *testing.T) {
	for _, bad := range []float64{0, -1, 41, math.NaN()} {
		_, err := LDPEncode(bad, 1)
		refused(t, err, ErrInvalidConfig)
	}
	for _, bad := range []float64{-0.1, 1.1, math.NaN()} {
		_, err := LDPEncode(1, bad)
		refused(t, err, ErrInvalidReward)
	}
	// A 1 stays 1 with probability e/(1 + e) = 0.731. The mean of 4,000 differs by 0.06 with probability 2e-17.
	stayed := 0
	for range 4000 {
		stayed += int(must[uint8](t)(LDPEncode(1, 1)))
	}
	if share := float64(stayed) / 4000; math.Abs(share-math.E/(1+math.E)) > 0.06 {
		t.Error(share)
	}
	b := must[*Bandit](t)(NewLDPUCB(NewConfig(2, 1)))
	defer b.Close()
	d := must[Decision](t)(b.Select())
	refused(t, b.Update(d.Ticket, 0.5), ErrInvalidReward) // raw
	if err := b.Update(d.Ticket, float64(must[uint8](t)(LDPEncode(1, 0.5)))); err != nil {
		t.Error(err)
	}
}
