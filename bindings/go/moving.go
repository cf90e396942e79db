package dpb

/*
#include "dpb.h"
*/
import "C"

import (
	"time"
	"unsafe"
)

// StateLifetime is how old a state at rest may be when [Resume] continues from it, by the clock of the system.
const StateLifetime = C.DPB_STATE_LIFETIME * time.Second

// Suspend ends the bandit, and appends its whole state to bytes, which may be nil, sealed by [Config.FleetKey], for one
// other bandit to continue from ([Resume]): open batches, open decisions with the rewards that wait, counters of users.
// So a restart loses nothing, and the tickets of the old process are valid in the new one. Every later call is ErrHalted,
// except for Close. If Suspend fails, the bandit has not ended.
//
// One bandit at most may continue from a state. If two do, a reward that was open in it loses its epsilon twice. receiver
// is a number of a [Bandit.Receiver] in the process that resumes, which accepts one state for it; or 0 for a state at
// rest, for example in a file: see [Bandit.Claimed]. When a bandit is suspended must not depend on rewards.
//
// It returns ErrUnsupported without [Config.FleetKey].
func (b *Bandit) Suspend(receiver uint64, bytes []byte) ([]byte, error) {
	c, err := b.enter()
	if err != nil {
		return bytes, err
	}
	defer b.leave()
	return appendTo(bytes, func(buf *C.uint8_t, room C.size_t, n *C.size_t, failure *C.dpb_error) C.dpb_status {
		return C.dpb_suspend(c, C.uint64_t(receiver), buf, room, n, failure)
	})
}

// Resume continues from a state of [Bandit.Suspend], as if that bandit had never ended. A state at rest is held: until
// [Bandit.Claimed] every call but Report and Close is ErrNotReady.
//
// The policy is that of the state. config needs the FleetKey. With policies that merge, Beta, Horizon, ForgetAfter,
// Exploration, ClampRewards and BudgetPeriods may differ from the suspended bandit's; with the others no field but Budget. Merge the
// others' newest snapshots again. A contributor goes on contributing, and a leader is alone until it leads anew.
//
// It returns ErrCorrupt for bytes that the key did not seal as a state, ErrExpired for a receiver that is not of this
// process or has had its state and for a state at rest older than [StateLifetime] or from more than a minute in the future,
// ErrOverBudget if the budget is too small for what exceeds its charge for the suspended bandit, and ErrInvalidConfig for a
// field that must not differ but does.
func Resume(config Config, state []byte) (*Bandit, error) {
	return config.bandit(func(given *C.dpb_config, out **C.dpb_bandit, failure *C.dpb_error) C.dpb_status {
		return C.dpb_resume(nil, given, (*C.uint8_t)(unsafe.SliceData(state)), C.size_t(len(state)), out, failure)
	})
}

// Claimed ends the hold of a bandit that [Resume] made from a state at rest. Call it when it is certain that no other
// bandit continues from that state, now or later. With a file: rename it to a name that no other process uses, sync the
// directory, read it, resume, claim, delete it. Never resume from a file that you did not rename yourself, and keep states
// out of backups.
func (b *Bandit) Claimed() error {
	return b.do(func(c *C.dpb_bandit) error { return check(C.dpb_claimed(c)) })
}

// Receiver draws a number that one state may be addressed to ([Bandit.Suspend]), and be resumed in this process, while
// this bandit exists. It is kept in memory only, so that no state is accepted twice, whoever replays it.
func (b *Bandit) Receiver() (uint64, error) {
	var receiver C.uint64_t
	err := b.explained(func(c *C.dpb_bandit, failure *C.dpb_error) C.dpb_status {
		return C.dpb_receiver(c, &receiver, failure)
	})
	return uint64(receiver), err
}
