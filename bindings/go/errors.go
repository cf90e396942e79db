package dpb

// #cgo noescape dpb_status_name
// #cgo nocallback dpb_status_name
// #include <dpb.h>
import "C"

import (
	"errors"
	"fmt"
)

// Why a call was refused. A refused call has changed nothing.
var (
	// ErrClosed: the object was closed.
	ErrClosed = errors.New("dpb: closed")
	// ErrNull: a required pointer is NULL; not to be seen from Go.
	ErrNull = errors.New("dpb: null pointer")
	// ErrInvalidConfig: a configuration or argument out of its range; the message names the field and the value.
	ErrInvalidConfig = errors.New("dpb: invalid configuration")
	// ErrInvalidRequest: an arm that does not exist or is retired, no arm at all, or a number of slots out of range.
	ErrInvalidRequest = errors.New("dpb: invalid request")
	// ErrInvalidReward: a reward that is not finite, or outside the declared range, or off a binary grid. The ticket stays open.
	ErrInvalidReward = errors.New("dpb: invalid reward")
	// ErrUnknownTicket: a ticket that was never issued, or not by this bandit.
	ErrUnknownTicket = errors.New("dpb: unknown ticket")
	// ErrDuplicate: a ticket that was answered or cancelled already; a shuffled batch that has come already.
	ErrDuplicate = errors.New("dpb: duplicate")
	// ErrExpired: a ticket whose reward window is over, or that was pushed out of the pending table; a
	// shuffled batch whose phase is over, a message to a complete batch.
	ErrExpired = errors.New("dpb: expired")
	// ErrNotReady: there is no result yet; or a restored handle that counts Users has no snapshot of its own yet.
	ErrNotReady = errors.New("dpb: no result yet")
	// ErrHalted: the stopping rule has halted, the counter is full.
	ErrHalted = errors.New("dpb: halted")
	// ErrBufferTooSmall: not to be seen from Go, where buffers grow.
	ErrBufferTooSmall = errors.New("dpb: buffer too small")
	// ErrCorrupt: the bytes are truncated or altered.
	ErrCorrupt = errors.New("dpb: corrupt data")
	// ErrNewerVersion: a structure or snapshot from a newer library.
	ErrNewerVersion = errors.New("dpb: made by a newer library")
	// ErrEntropy: the operating system gave no randomness, so nothing private is possible.
	ErrEntropy = errors.New("dpb: no randomness from the operating system")
	// ErrUnsupported: this policy cannot do what was asked.
	ErrUnsupported = errors.New("dpb: unsupported")
	// ErrPoisoned: an earlier call failed half-way; the object is closed for ever, because going on could break the privacy accounting.
	// So is every object in a forked child.
	ErrPoisoned = errors.New("dpb: poisoned by an internal failure")
	// ErrNoMemory: there is no memory for this; nothing has changed.
	ErrNoMemory = errors.New("dpb: no memory")
	// ErrFull: the bandit has MaxSegments segments, and the request names a new one.
	ErrFull = errors.New("dpb: full")
	// ErrOverBudget: the Budget has too little left for this bandit; nothing was charged.
	ErrOverBudget = errors.New("dpb: over budget")
)

// The one table from status to error.
var statuses = [...]error{
	C.DPB_OK:               nil,
	C.DPB_NULL:             ErrNull,
	C.DPB_INVALID_CONFIG:   ErrInvalidConfig,
	C.DPB_INVALID_REWARD:   ErrInvalidReward,
	C.DPB_UNKNOWN_TICKET:   ErrUnknownTicket,
	C.DPB_DUPLICATE:        ErrDuplicate,
	C.DPB_EXPIRED:          ErrExpired,
	C.DPB_NOT_READY:        ErrNotReady,
	C.DPB_HALTED:           ErrHalted,
	C.DPB_BUFFER_TOO_SMALL: ErrBufferTooSmall,
	C.DPB_CORRUPT:          ErrCorrupt,
	C.DPB_NEWER_VERSION:    ErrNewerVersion,
	C.DPB_ENTROPY:          ErrEntropy,
	C.DPB_UNSUPPORTED:      ErrUnsupported,
	C.DPB_POISONED:         ErrPoisoned,
	C.DPB_NO_MEMORY:        ErrNoMemory,
	C.DPB_FULL:             ErrFull,
	C.DPB_OVER_BUDGET:      ErrOverBudget,
	C.DPB_INVALID_REQUEST:  ErrInvalidRequest,
}

// check turns a status into its error; a status of a newer library into one with its number.
func check(status C.dpb_status) error {
	if status == C.DPB_OK {
		return nil
	}
	if status > 0 && int(status) < len(statuses) && statuses[status] != nil {
		return statuses[status]
	}
	return fmt.Errorf("dpb: unknown status %d", int32(status))
}

// statusName is for the tests, which cannot use cgo.
func statusName(status int32) string { return C.GoString(C.dpb_status_name(C.dpb_status(status))) }

// explain is check for constructors, with the message that names the field and the value.
func explain(status C.dpb_status, failure *C.dpb_error) error {
	return fmt.Errorf("%w: %s", check(status), C.GoString(&failure.message[0]))
}
