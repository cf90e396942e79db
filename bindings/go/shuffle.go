package dpb

// #include <dpb.h>
import "C"

import (
	"slices"
	"unsafe"
)

// ShuffleParams holds the parameters that the encoders, the shuffler and the server of one batch share. They are public:
// make them with [ShufflePlan] in each place, or send them. A message has 1 + CoinsPerUser bytes, and a batch has Users
// messages. Devices and shufflers refuse parameters whose noise is too small for (Epsilon, Delta).
type ShuffleParams struct {
	Users         uint32  // messages in a batch
	CoinsPerUser  uint32  // random bits that each user sends besides its own bit
	CoinNumerator uint32  // a coin is 1 with probability CoinNumerator / 2^32
	Epsilon       float64 // a batch is (Epsilon, Delta)-DP
	Delta         float64 // see Epsilon
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

// ShufflePlan computes the random bits that the users of a batch must add so that its number of ones is
// (epsilon, delta)-DP. With printed it uses the paper's formula instead of the exact calibration. It returns
// ErrInvalidConfig if an argument is out of range.
func ShufflePlan(epsilon, delta float64, users uint32, printed bool) (ShuffleParams, error) {
	var flags C.uint32_t
	if printed {
		flags = C.DPB_SHUFFLE_PRINTED
	}
	var c C.dpb_shuffle_params
	var failure C.dpb_error
	status := C.dpb_shuffle_plan(C.double(epsilon), C.double(delta), C.uint32_t(users), flags, &c, &failure)
	if status != C.DPB_OK {
		return ShuffleParams{}, explainArguments(status, &failure)
	}
	return shuffleParams(&c), nil
}

// ShuffleEncode encodes one reward in [0, 1] on the user's device and appends the message to bits, which may be nil.
// Send the message to the shuffler only, and once. It returns ErrInvalidReward for a reward out of range.
func ShuffleEncode(bits []byte, params ShuffleParams, reward float64) ([]byte, error) {
	c := params.c()
	for {
		var n C.size_t // stays 0 unless the call succeeds or needs a larger buffer
		room := bits[len(bits):cap(bits)]
		status := C.dpb_shuffle_encode(&c, C.double(reward), (*C.uint8_t)(unsafe.SliceData(room)), C.size_t(len(room)), &n)
		if status != C.DPB_BUFFER_TOO_SMALL {
			return bits[:len(bits)+int(n)], check(status)
		}
		bits = slices.Grow(bits, int(n))
	}
}

// Shuffler collects the messages of one batch. When the batch is complete, it returns the bits in uniformly random order,
// once, and nothing else. Close it when done.
type Shuffler struct {
	handle[*C.dpb_shuffler]
}

// NewShuffler makes a shuffler for consecutive batches with these parameters.
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

// Push adds one user's message. It returns ErrExpired while a complete batch waits for Take.
func (s *Shuffler) Push(bits []byte) error {
	return s.do(func(c *C.dpb_shuffler) error {
		return check(C.dpb_shuffler_push(c, (*C.uint8_t)(unsafe.SliceData(bits)), C.size_t(len(bits))))
	})
}

// Take appends the complete batch to bits, which may be nil, and starts the next batch. It returns ErrNotReady until the
// batch is complete.
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

// ShuffleParams returns the parameters for the devices and shufflers of this phase's batches. Phases count from 1:
// pass [Decision.Phase].
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

// SubmitShuffled reports one arm's shuffled batch of the open phase. It returns ErrDuplicate for a second batch of the
// same arm and phase, and ErrExpired for a phase that is over.
func (b *Bandit) SubmitShuffled(phase, arm uint32, bits []byte) error {
	c, err := b.enter()
	if err != nil {
		return err
	}
	defer b.leave()
	return check(C.dpb_submit_shuffled(c, C.uint32_t(phase), C.uint32_t(arm),
		(*C.uint8_t)(unsafe.SliceData(bits)), C.size_t(len(bits))))
}
