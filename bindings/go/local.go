package dpb

// #include <dpb.h>
import "C"

// LDPEncode encodes a reward in [0, 1] as one bit, on the user's device. The bit is epsilon-DP, whoever sees it. The
// server passes it to [Bandit.Update] of NewLDPUCB or NewLDPKLUCB: 1 as RewardMax, 0 as RewardMin.
//
// Encode each reward once: a second bit loses another epsilon. LDPEncode returns ErrInvalidReward for a reward out of
// range, and ErrInvalidConfig for an epsilon out of range.
func LDPEncode(epsilon, reward float64) (uint8, error) {
	var bit C.uint8_t
	err := check(C.dpb_ldp_encode(C.double(epsilon), C.double(reward), &bit))
	return uint8(bit), err
}
