package dpb

/*
#cgo noescape dpb_snapshot
#cgo nocallback dpb_snapshot
#cgo noescape dpb_restore
#cgo nocallback dpb_restore
#include "dpb.h"
*/
import "C"

import (
	"slices"
	"unsafe"
)

// Snapshot appends what the bandit has released and what is public of it to bytes (which may be nil): safe
// to log and to publish, and all that [Restore] needs. ErrUnsupported for policies whose state is not all
// released.
func (b *Bandit) Snapshot(bytes []byte) ([]byte, error) {
	c, err := b.enter()
	if err != nil {
		return bytes, err
	}
	defer b.leave()
	for {
		var n C.size_t
		room := bytes[len(bytes):cap(bytes)]
		status := C.dpb_snapshot(c, (*C.uint8_t)(unsafe.SliceData(room)), C.size_t(len(room)), &n)
		if status != C.DPB_BUFFER_TOO_SMALL {
			if err := check(status); err != nil {
				return bytes, err
			}
			return bytes[:len(bytes)+int(n)], nil
		}
		bytes = slices.Grow(bytes, int(n))
	}
}

// Restore makes a bandit that goes on from a snapshot: the configuration that is in it, what was released,
// fresh entropy. Decisions that were in flight have expired. The guarantee is one for all lives together,
// however old the snapshot is. ErrCorrupt for other bytes.
func Restore(snapshot []byte) (*Bandit, error) {
	if len(snapshot) == 0 {
		snapshot = []byte{0} // not NULL, and no snapshot either
	}
	var c *C.dpb_bandit
	var failure C.dpb_error
	status := C.dpb_restore((*C.uint8_t)(unsafe.SliceData(snapshot)), C.size_t(len(snapshot)), &c, &failure)
	return ownBandit(c, status, &failure)
}
