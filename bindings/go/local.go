package dpb

// #cgo noescape dpb_ldp_encode
// #cgo nocallback dpb_ldp_encode
// #include <dpb.h>
import "C"

// LDPEncode, on the user's device, encodes a reward in [0, 1] into one bit that is epsilon-DP for whoever reads it.
// The server passes it to Update of NewLDPUCB or NewLDPKLUCB: 1 as RewardMax, 0 as RewardMin. Encode a reward once:
// a second bit of it is a second loss of epsilon.
func LDPEncode(epsilon, reward float64) (uint8, error) {
	var bit C.uint8_t
	err := check(C.dpb_ldp_encode(C.double(epsilon), C.double(reward), &bit))
	return uint8(bit), err
}
