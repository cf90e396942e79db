package dpb

/*
#cgo noescape dpb_snapshot
#cgo nocallback dpb_snapshot
#cgo noescape dpb_merge
#cgo nocallback dpb_merge
#cgo noescape dpb_restore
#cgo nocallback dpb_restore
#cgo noescape dpb_restore_as
#cgo nocallback dpb_restore_as
#include "dpb.h"
*/
import "C"

import (
	"runtime"
	"slices"
	"unsafe"
)

// Snapshot appends to bytes (which may be nil) what the bandit has released, and what is public. You may log and
// publish it; [Restore] needs nothing else. ErrUnsupported, with the reason, for policies whose state is not all
// released.
func (b *Bandit) Snapshot(bytes []byte) ([]byte, error) {
	c, err := b.enter()
	if err != nil {
		return bytes, err
	}
	defer b.leave()
	for {
		var n C.size_t
		var failure C.dpb_error
		room := bytes[len(bytes):cap(bytes)]
		status := C.dpb_snapshot(c, (*C.uint8_t)(unsafe.SliceData(room)), C.size_t(len(room)), &n, &failure)
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

// Merge learns from what another bandit has released: from its [Bandit.Snapshot], made here or on another machine.
// Each bandit of a fleet merges the newest snapshots of all others every few seconds, in any order. A repeated or
// older snapshot changes nothing. Arms are joined by their ids ([Bandit.AddArm]), segments by their keys: a segment
// that only others know takes no memory here until a request has its key, and then starts from their releases. A
// snapshot contains what its own bandit has released, not what that bandit has merged: after [Restore] merge the
// others' again. ErrUnsupported by policies other than IMED, KLUCB, MED and Linear; ErrInvalidConfig names what must
// not differ.
func (b *Bandit) Merge(snapshot []byte) error {
	c, err := b.enter()
	if err != nil {
		return err
	}
	defer b.leave()
	var failure C.dpb_error
	status := C.dpb_merge(c, (*C.uint8_t)(unsafe.SliceData(snapshot)), C.size_t(len(snapshot)), &failure)
	if status != C.DPB_OK {
		return explain(status, &failure)
	}
	return nil
}

// Restore makes a bandit from a snapshot: with the configuration in it, what was released, and fresh entropy.
// Decisions that were open have expired. The guarantee holds for all restarts together, however old the snapshot is.
// ErrCorrupt for other bytes. With [Config.ExpectedUsers] a period begins, and selecting is ErrNotReady until a
// [Bandit.Snapshot] of the new bandit is taken: write that one to the file that a restart reads, then serve.
func Restore(snapshot []byte) (*Bandit, error) {
	var c *C.dpb_bandit
	var failure C.dpb_error
	status := C.dpb_restore((*C.uint8_t)(unsafe.SliceData(snapshot)), C.size_t(len(snapshot)), &c, &failure)
	return ownBandit(c, status, &failure, restoredBytes(snapshot))
}

// RestorePolicy is [Restore] with another configuration. What says how released numbers are read must be as in the
// snapshot, or ErrInvalidConfig names the field; the rest is taken from config. dpb_restore_as in dpb.h lists both.
// The seed is not used.
func RestorePolicy(policy Policy, config Config, snapshot []byte) (*Bandit, error) {
	var pinner runtime.Pinner
	defer pinner.Unpin()
	given, done, err := config.c(&pinner)
	if err != nil {
		return nil, err
	}
	defer done()
	name := append([]byte(policy.String()), 0)
	var c *C.dpb_bandit
	var failure C.dpb_error
	buf, n := (*C.uint8_t)(unsafe.SliceData(snapshot)), C.size_t(len(snapshot))
	status := C.dpb_restore_as((*C.char)(unsafe.Pointer(&name[0])), given, buf, n, &c, &failure)
	return ownBandit(c, status, &failure, config.bytes())
}
