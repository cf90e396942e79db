package dpb

// #include <dpb.h>
import "C"

import (
	"fmt"
	"runtime"
)

// Clock is the unit of [Config.RewardWindow] and [Config.ForgetAfter].
type Clock uint32

const (
	ClockDecisions Clock = C.DPB_CLOCK_DECISIONS // a tick is a decision
	ClockCaller    Clock = C.DPB_CLOCK_CALLER    // a tick is one unit of the time that you pass to [Bandit.Advance]
)

// bytes estimates the memory of a bandit with this configuration: its pending table, arms, segments and counters of
// users.
func (config Config) bytes() int64 {
	ring := 8 * int64(config.PendingCapacity)
	switch {
	case config.RewardWindow > 0 && config.Clock == ClockCaller:
		ring = 20 * int64(config.PendingCapacity)
	case config.RewardWindow > 0:
		ring = 12 * int64(max(config.PendingCapacity, config.RewardWindow))
	}
	cells := 80 * int64(config.MaxSegments) * int64(config.Arms)
	return ring + 300*int64(config.Arms) + cells + 2*int64(min(config.ExpectedUsers, 1<<29))
}

// restoredBytes estimates the memory of a bandit that is restored from this snapshot, with a pending table of default
// size.
func restoredBytes(snapshot []byte) int64 { return 1<<20 + 16*int64(len(snapshot)) }

// pinBook keeps a codebook in place, and returns its address and the number of its rows.
func pinBook(pinner *runtime.Pinner, book []float32, features uint32) (*C.float, C.uint32_t, error) {
	if len(book) == 0 {
		return nil, 0, nil
	}
	if features == 0 || len(book)%int(features) != 0 {
		return nil, 0, fmt.Errorf("%w: Codebook must have a multiple of %d numbers, got %d", ErrInvalidConfig, features, len(book))
	}
	pinner.Pin(&book[0])
	return (*C.float)(&book[0]), C.uint32_t(len(book) / int(features)), nil
}

// pinBytes returns a pointer to a seed or a key for a C struct. C may see a Go pointer inside Go memory only if it is pinned.
func pinBytes(pinner *runtime.Pinner, bytes *[32]byte) *C.uint8_t {
	if bytes == nil {
		return nil
	}
	pinner.Pin(bytes)
	return (*C.uint8_t)(&bytes[0])
}
