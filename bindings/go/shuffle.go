package dpb

/*
#cgo noescape dpb_shuffle_plan
#cgo nocallback dpb_shuffle_plan
#cgo noescape dpb_shuffle_encode
#cgo nocallback dpb_shuffle_encode
#cgo noescape dpb_new_shuffler
#cgo nocallback dpb_new_shuffler
#cgo noescape dpb_shuffler_push
#cgo nocallback dpb_shuffler_push
#cgo noescape dpb_shuffler_take
#cgo nocallback dpb_shuffler_take
#cgo noescape dpb_shuffler_free
#cgo nocallback dpb_shuffler_free
#cgo noescape dpb_shuffle_params_read
#cgo nocallback dpb_shuffle_params_read
#cgo noescape dpb_submit_shuffled
#cgo nocallback dpb_submit_shuffled
#include <dpb.h>
*/
import "C"

import (
	"slices"
	"unsafe"
)

// ShuffleParams is the plan on which encoders, shuffler and server of one batch agree. It is public: make it by
// [ShufflePlan] wherever you need it, or send it. A message has 1 + CoinsPerUser bytes, a batch Users times as many.
// Device and shuffler refuse a plan whose noise does not keep its claim.
type ShuffleParams struct {
	Users         uint32  // messages in a batch
	CoinsPerUser  uint32  // coins that each user sends beside its own bit
	CoinNumerator uint32  // a coin is 1 with probability CoinNumerator / 2^32
	Epsilon       float64 // the claim: a batch is (Epsilon, Delta)-DP
	Delta         float64 // ... likewise
}

func (p ShuffleParams) c() C.dpb_shuffle_params {
	return C.dpb_shuffle_params{
		struct_size:    C.sizeof_dpb_shuffle_params,
		users:          C.uint32_t(p.Users),
		coins_per_user: C.uint32_t(p.CoinsPerUser),
		coin_numerator: C.uint32_t(p.CoinNumerator),
		epsilon:        C.double(p.Epsilon),
		delta:          C.double(p.Delta),
	}
}

func shuffleParams(c *C.dpb_shuffle_params) ShuffleParams {
	return ShuffleParams{
		Users:         uint32(c.users),
		CoinsPerUser:  uint32(c.coins_per_user),
		CoinNumerator: uint32(c.coin_numerator),
		Epsilon:       float64(c.epsilon),
		Delta:         float64(c.delta),
	}
}

// ShufflePlan returns the number of coins that the users of a batch must add so that its count of ones is (epsilon,
// delta)-DP. printed takes the paper's formula instead of the exact calibration.
func ShufflePlan(epsilon, delta float64, users uint32, printed bool) (ShuffleParams, error) {
	var flags C.uint32_t
	if printed {
		flags = C.DPB_SHUFFLE_PRINTED
	}
	var c C.dpb_shuffle_params
	var failure C.dpb_error
	status := C.dpb_shuffle_plan(C.double(epsilon), C.double(delta), C.uint32_t(users), flags, &c, &failure)
	if status != C.DPB_OK {
		return ShuffleParams{}, explain(status, &failure)
	}
	return shuffleParams(&c), nil
}

// ShuffleEncode, on the user's device, appends the message of one reward in [0, 1] to bits, which may be nil. Send
// the message to the shuffler only, once.
func ShuffleEncode(bits []byte, params ShuffleParams, reward float64) ([]byte, error) {
	c := params.c()
	for {
		var n C.size_t // stays 0 unless the call succeeds or wants more room
		room := bits[len(bits):cap(bits)]
		status := C.dpb_shuffle_encode(&c, C.double(reward), (*C.uint8_t)(unsafe.SliceData(room)), C.size_t(len(room)), &n)
		if status != C.DPB_BUFFER_TOO_SMALL {
			return bits[:len(bits)+int(n)], check(status)
		}
		bits = slices.Grow(bits, int(n))
	}
}

// Shuffler keeps the messages of one batch until all have arrived, then hands out their bits in uniformly random
// order, once, and nothing else. Close it when done.
type Shuffler struct {
	handle[*C.dpb_shuffler]
}

// NewShuffler makes a shuffler for batches of this plan, one after another.
func NewShuffler(params ShuffleParams) (*Shuffler, error) {
	config := params.c()
	var c *C.dpb_shuffler
	var failure C.dpb_error
	if status := C.dpb_new_shuffler(&config, &c, &failure); status != C.DPB_OK {
		return nil, explain(status, &failure)
	}
	s := new(Shuffler)
	s.own(c, func(c *C.dpb_shuffler) { C.dpb_shuffler_free(c) }, 0)
	return s, nil
}

// Push adds one user's message; ErrExpired while a complete batch waits to be taken.
func (s *Shuffler) Push(bits []byte) error {
	c, err := s.enter()
	if err != nil {
		return err
	}
	defer s.leave()
	return check(C.dpb_shuffler_push(c, (*C.uint8_t)(unsafe.SliceData(bits)), C.size_t(len(bits))))
}

// Take appends the complete batch to bits, which may be nil, and starts the next one empty; ErrNotReady
// until the batch is complete.
func (s *Shuffler) Take(bits []byte) ([]byte, error) {
	c, err := s.enter()
	if err != nil {
		return bits, err
	}
	defer s.leave()
	for {
		var n C.size_t // as above
		room := bits[len(bits):cap(bits)]
		status := C.dpb_shuffler_take(c, (*C.uint8_t)(unsafe.SliceData(room)), C.size_t(len(room)), &n)
		if status != C.DPB_BUFFER_TOO_SMALL {
			return bits[:len(bits)+int(n)], check(status)
		}
		bits = slices.Grow(bits, int(n))
	}
}

// ShuffleParams returns the plan of this phase's batches, for devices and shufflers. Phases count from 1; a decision
// has its phase.
func (b *Bandit) ShuffleParams(phase uint32) (ShuffleParams, error) {
	c, err := b.enter()
	if err != nil {
		return ShuffleParams{}, err
	}
	defer b.leave()
	var params C.dpb_shuffle_params
	if err := check(C.dpb_shuffle_params_read(c, C.uint32_t(phase), &params)); err != nil {
		return ShuffleParams{}, err
	}
	return shuffleParams(&params), nil
}

// SubmitShuffled takes one arm's shuffled batch of the open phase, once.
func (b *Bandit) SubmitShuffled(phase, arm uint32, bits []byte) error {
	c, err := b.enter()
	if err != nil {
		return err
	}
	defer b.leave()
	return check(C.dpb_submit_shuffled(c, C.uint32_t(phase), C.uint32_t(arm),
		(*C.uint8_t)(unsafe.SliceData(bits)), C.size_t(len(bits))))
}
