package dpb

/*
#include "dpb.h"
*/
import "C"

import (
	"slices"
	"unsafe"
)

// Snapshot appends the bandit's releases and public state to bytes, which may be nil. You may publish them if
// segments' keys and the second moments of features may be public. [Restore] needs nothing else. They contain no raw sum
// and no pending reward, so a restored bandit does not have the open decisions.
//
// It returns ErrUnsupported, with the reason, for a policy whose state is not all released.
func (b *Bandit) Snapshot(bytes []byte) ([]byte, error) {
	c, err := b.enter()
	if err != nil {
		return bytes, err
	}
	defer b.leave()
	return appendTo(bytes, func(buf *C.uint8_t, room C.size_t, n *C.size_t, failure *C.dpb_error) C.dpb_status {
		return C.dpb_snapshot(c, buf, room, n, failure)
	})
}

// appendTo appends what write writes to bytes, which grow until it fits.
func appendTo(bytes []byte, write func(*C.uint8_t, C.size_t, *C.size_t, *C.dpb_error) C.dpb_status) ([]byte, error) {
	for {
		var n C.size_t
		var failure C.dpb_error
		room := bytes[len(bytes):cap(bytes)]
		status := write((*C.uint8_t)(unsafe.SliceData(room)), C.size_t(len(room)), &n, &failure)
		switch status {
		case C.DPB_OK:
			return bytes[:len(bytes)+int(n)], nil
		case C.DPB_BUFFER_TOO_SMALL:
			bytes = slices.Grow(bytes, int(n))
		default:
			return bytes, explain(status, &failure)
		}
	}
}

// Stored says that a [Bandit.Snapshot] of this very bandit is stored: from now on, whatever happens, a restart finds it or a
// later one. Call it after each write that is durable: for a file after Sync, a rename, and Sync of the directory.
//
// With [Config.ExpectedUsers] the bandit learns only in periods that a stored snapshot counts: a restored bandit decides
// nothing before (ErrNotReady), and after [Bandit.NextPeriod] it decides and learns from nobody. A new bandit needs no
// snapshot in its first period. Without ExpectedUsers nothing changes. If your program stores nothing, so that a restart
// makes another bandit with a guarantee of its own, pass a snapshot that you drop.
//
// It returns ErrInvalidConfig for a snapshot of another bandit, also of the one that this bandit was restored from or
// resumed after. Then nothing has changed.
func (b *Bandit) Stored(snapshot []byte) error {
	return b.explained(func(c *C.dpb_bandit, failure *C.dpb_error) C.dpb_status {
		return C.dpb_stored(c, (*C.uint8_t)(unsafe.SliceData(snapshot)), C.size_t(len(snapshot)), failure)
	})
}

// Merge adds the releases of another bandit, from its [Bandit.Snapshot]. In a fleet, each bandit regularly merges the
// newest snapshot of every other. Order and repetition do not matter, and an older snapshot changes nothing. The
// guarantee holds for the whole fleet, because each reward is in one batch of one bandit.
//
// Arms match by id ([Bandit.AddArm]) and segments by key. A segment that only others have does not count towards
// [Config.MaxSegments]; the first request with its key begins it with their releases. A snapshot does not contain what
// its bandit has merged, so merge the others' snapshots again after [Restore].
//
// It returns ErrUnsupported for a policy that cannot merge (docs/reference/policies.md), and ErrInvalidConfig, which names
// the field, for a bandit whose configuration must not differ but does.
func (b *Bandit) Merge(snapshot []byte) error {
	return b.explained(func(c *C.dpb_bandit, failure *C.dpb_error) C.dpb_status {
		return C.dpb_merge(c, (*C.uint8_t)(unsafe.SliceData(snapshot)), C.size_t(len(snapshot)), failure)
	})
}

// Restore makes a bandit that continues from a snapshot, with the snapshot's configuration and fresh entropy. Tickets of
// decisions that were open are ErrUnknownTicket. The guarantee holds for all restarts together, however old the snapshot
// is. Restore returns ErrCorrupt for bytes that are not a snapshot, and ErrOverBudget if all [Config.BudgetPeriods] have
// begun.
//
// With [Config.ExpectedUsers] a new period begins, and selecting returns ErrNotReady until [Bandit.Stored]. Write a snapshot
// of the new bandit to the file that the next restart reads, call Stored, and then serve.
func Restore(snapshot []byte) (*Bandit, error) {
	var c *C.dpb_bandit
	var failure C.dpb_error
	status := C.dpb_restore((*C.uint8_t)(unsafe.SliceData(snapshot)), C.size_t(len(snapshot)), &c, &failure)
	return ownBandit(c, status, &failure, restoredBytes(snapshot))
}

// RestorePolicy is [Restore] with another configuration. Policy 0 is the one that [New] takes for it. The policy and the fields that determine the meaning of releases,
// such as Arms and Epsilon, must be those of the snapshot: otherwise it returns ErrInvalidConfig, which names the field.
// All other fields, such as RewardWindow, are taken from config. dpb_restore_as in dpb.h lists both kinds. It does not use
// TestSeed, and charges [Config.Budget] as for a new bandit.
func RestorePolicy(policy Policy, config Config, snapshot []byte) (*Bandit, error) {
	var name *C.char
	if policy != 0 {
		name = (*C.char)(unsafe.Pointer(unsafe.SliceData(append([]byte(policy.String()), 0))))
	}
	buf, n := (*C.uint8_t)(unsafe.SliceData(snapshot)), C.size_t(len(snapshot))
	return config.bandit(func(given *C.dpb_config, out **C.dpb_bandit, failure *C.dpb_error) C.dpb_status {
		return C.dpb_restore_as(name, given, buf, n, out, failure)
	})
}
