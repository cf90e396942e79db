package dpb

// #include <dpb.h>
import "C"

import "unsafe"

// Lead makes this bandit the leader of its fleet: the bandit that releases what the others contribute. A fleet with one
// leader has one noise, and learns nearly as fast as one bandit. It needs [Config.FleetKey].
//
// The generation is a random number that is not 0, and public. The others pass it to [Bandit.Contribution] and send the
// result to the leader, for [Bandit.Combine]. Releases spread as in every fleet, by [Bandit.Merge]. A bandit that leads
// already keeps its generation; a restored bandit does not lead. If several bandits lead, no reward is released twice.
func (b *Bandit) Lead() (generation uint64, err error) {
	var own C.uint64_t
	err = b.explained(func(c *C.dpb_bandit, failure *C.dpb_error) C.dpb_status {
		return C.dpb_lead(c, &own, failure)
	})
	return uint64(own), err
}

// Alone ends contributing and leading: the bandit releases its own full batches again, as before its first call of
// [Bandit.Contribution] or [Bandit.Lead]. Its open sums stay, and what was contributed to it with them. Contributions to
// the generation that it led are ErrExpired from now on, so combine first what has arrived. A bandit that is alone
// already ([Report.Duty]) does not change. When you call Alone must not depend on rewards. It returns ErrUnsupported
// without [Config.FleetKey].
func (b *Bandit) Alone() error {
	return b.explained(func(c *C.dpb_bandit, failure *C.dpb_error) C.dpb_status {
		return C.dpb_alone(c, failure)
	})
}

// SetHandles sets how many bandits share the work of this fleet, this one included, from the next batch on. Each takes its
// part of a batch, so with this number a bandit need not merge the snapshots of bandits that release nothing. 0, as at
// first and after a restore: it counts those whose snapshots it merged lately. The number must not depend on rewards. It
// returns ErrUnsupported without [Config.FleetKey].
func (b *Bandit) SetHandles(handles uint32) error {
	return b.explained(func(c *C.dpb_bandit, failure *C.dpb_error) C.dpb_status {
		return C.dpb_set_handles(c, C.uint32_t(handles), failure)
	})
}

// Contribution takes the sums of all open batches out of this bandit for good, and returns them sealed, for the leader of
// this generation; nil if there is nothing to contribute. From the first call on, this bandit releases nothing itself,
// whether that generation exists or not, until it leads or is [Bandit.Alone] again; [Report.Duty] shows it. Send the bytes
// once, and to that leader only: what is lost on the way is in no release. Without the key nobody can read or alter them,
// and their length depends on public counts alone. When you take and send them must not depend on rewards.
//
// It returns ErrUnsupported without [Config.FleetKey], and ErrInvalidConfig for generation 0 or this bandit's own.
func (b *Bandit) Contribution(generation uint64) ([]byte, error) {
	c, err := b.enter()
	if err != nil {
		return nil, err
	}
	defer b.leave()
	return appendTo(nil, func(buf *C.uint8_t, room C.size_t, n *C.size_t, failure *C.dpb_error) C.dpb_status {
		return C.dpb_contribution(c, C.uint64_t(generation), buf, room, n, failure)
	})
}

// Combine adds a contribution to the open batches of this bandit, which leads, and releases those that are full, each
// with one noise. A contribution is added once, whatever is repeated, reordered or replayed.
//
// It returns ErrCorrupt for bytes that were not sealed as a contribution with this bandit's key, ErrExpired for a
// contribution to another generation, ErrDuplicate if it, or a later one of its sender, was added, and ErrInvalidConfig,
// which names the field, for a bandit whose configuration must not differ but does. Drop the contribution then.
func (b *Bandit) Combine(contribution []byte) error {
	return b.explained(func(c *C.dpb_bandit, failure *C.dpb_error) C.dpb_status {
		return C.dpb_combine(c, (*C.uint8_t)(unsafe.SliceData(contribution)), C.size_t(len(contribution)), failure)
	})
}

// Seal seals a message for the bandits of the fleet, such as a click that came to another node than its decision.
// Whoever carries it sees that it is sent and its length, so give all messages one length. They cannot alter it, but can
// repeat it. It needs [Config.FleetKey].
func (b *Bandit) Seal(message []byte) ([]byte, error) {
	c, err := b.enter()
	if err != nil {
		return nil, err
	}
	defer b.leave()
	given, length := (*C.uint8_t)(unsafe.SliceData(message)), C.size_t(len(message))
	sealed := make([]byte, 0, len(message)+C.DPB_SEAL_BYTES)
	return appendTo(sealed, func(buf *C.uint8_t, room C.size_t, n *C.size_t, failure *C.dpb_error) C.dpb_status {
		return C.dpb_seal(c, given, length, buf, room, n, failure)
	})
}

// Open opens a message that a bandit with the same [Config.FleetKey] has sealed. It returns ErrCorrupt for other bytes.
func (b *Bandit) Open(sealed []byte) ([]byte, error) {
	c, err := b.enter()
	if err != nil {
		return nil, err
	}
	defer b.leave()
	given, length := (*C.uint8_t)(unsafe.SliceData(sealed)), C.size_t(len(sealed))
	message := make([]byte, 0, len(sealed))
	return appendTo(message, func(buf *C.uint8_t, room C.size_t, n *C.size_t, failure *C.dpb_error) C.dpb_status {
		return C.dpb_open(c, given, length, buf, room, n, failure)
	})
}
