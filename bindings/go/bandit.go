package dpb

/*
#cgo CFLAGS: -I${SRCDIR}
#include <dpb.h>

// Go cannot call through a C function pointer.
typedef dpb_status (*constructor)(const dpb_config *, dpb_bandit **, dpb_error *);
static dpb_status construct(constructor f, const dpb_config *config, dpb_bandit **out, dpb_error *error) {
  return f(config, out, error);
}
*/
import "C"

import (
	"fmt"
	"runtime"
	"unsafe"
)

// Bandit chooses an arm for each decision and learns from rewards.
//
// Close it when done. The garbage collector does not see its C memory. It frees a bandit that is not closed, but only
// once such bandits take about 64 MiB.
type Bandit struct {
	handle[*C.dpb_bandit]
	node *FleetNode // whose bandit it is, or nil
}

// Decision is an arm that a [Bandit] chose.
type Decision struct {
	Ticket     uint64  // identifies this decision in Update and Cancel; a string in JSON, because JavaScript rounds such numbers
	Propensity float64 // the probability of this arm given all releases so far; NaN if it would reveal rewards, and with Features but without Exploration
	Arm        uint32  // from 0; or NoArm, and then the ticket is 0
	Phase      uint32  // the policy's count of epochs, phases or intervals
}

// NoArm is in place of the arm of a [Decision]: [Request.Abstain] is set, and no arm is to be played.
const NoArm = C.DPB_NO_ARM

// Decision and dpb_decision must have the same size, because C writes into Go's slices. Otherwise one of these arrays
// has a negative length, which does not compile.
var (
	_ [unsafe.Sizeof(Decision{}) - C.sizeof_dpb_decision]struct{}
	_ [C.sizeof_dpb_decision - unsafe.Sizeof(Decision{})]struct{}
)

// New makes the bandit that the library recommends for this configuration: dp-linear if [Config.Features] is set,
// otherwise DP-IMED, with one bandit for each segment if [Config.MaxSegments] is set.
func New(c Config) (*Bandit, error) { return newBandit(C.constructor(C.dpb_new), c) }

func newBandit(constructor C.constructor, config Config) (*Bandit, error) {
	return config.bandit(func(given *C.dpb_config, out **C.dpb_bandit, failure *C.dpb_error) C.dpb_status {
		return C.construct(constructor, given, out, failure)
	})
}

// bandit makes a bandit with this configuration.
func (config Config) bandit(make func(*C.dpb_config, **C.dpb_bandit, *C.dpb_error) C.dpb_status) (*Bandit, error) {
	var pinner runtime.Pinner
	defer pinner.Unpin()
	given, done, err := config.c(&pinner)
	if err != nil {
		return nil, err
	}
	defer done()
	var c *C.dpb_bandit
	var failure C.dpb_error
	status := make(given, &c, &failure)
	return ownBandit(c, status, &failure, config.bytes())
}

func ownBandit(c *C.dpb_bandit, status C.dpb_status, failure *C.dpb_error, bytes int64) (*Bandit, error) {
	if status != C.DPB_OK {
		return nil, explain(status, failure)
	}
	b := new(Bandit)
	b.own(c, func(c *C.dpb_bandit) { C.dpb_free(c) }, bytes)
	return b, nil
}

// Close waits for running calls and frees the C object. Later calls return ErrClosed. Closing again does nothing, and so
// does closing the bandit of a [FleetNode]. Close always returns nil; the error is for io.Closer.
func (b *Bandit) Close() error {
	if b.node != nil {
		return nil
	}
	return b.handle.Close()
}

// explained makes a call that says why it is refused.
func (b *Bandit) explained(call func(*C.dpb_bandit, *C.dpb_error) C.dpb_status) error {
	return b.do(func(c *C.dpb_bandit) error {
		var failure C.dpb_error
		return explain(call(c, &failure), &failure)
	})
}

// Select chooses an arm. It returns ErrUnsupported if [Config.ExpectedUsers], [Config.MaxSegments] or [Config.Features]
// is set: call [Bandit.SelectFor] then. It returns ErrNotReady for a bandit that is restored from one with ExpectedUsers,
// before [Bandit.Stored].
func (b *Bandit) Select() (Decision, error) {
	c, err := b.enter()
	if err != nil {
		return Decision{}, err
	}
	defer b.leave()
	var d Decision
	err = check(C.dpb_select(c, (*C.dpb_decision)(unsafe.Pointer(&d))))
	return d, err
}

// NextPeriod begins a new period. The bandit learns again from [Config.ContributionsPerUser] decisions of every user, and
// the privacy loss of a person who comes in every period grows by that of one period. Rewards still count for the period
// of their decision.
//
// Write a [Bandit.Snapshot] right after this call, and call [Bandit.Stored]. Until then the bandit serves, but learns from
// nobody. (A policy without snapshots learns at once.)
//
// It returns ErrUnsupported if [Config.ExpectedUsers] is 0. It returns ErrOverBudget if all [Config.BudgetPeriods] have
// begun; the last one then continues.
func (b *Bandit) NextPeriod() error {
	return b.do(func(c *C.dpb_bandit) error { return check(C.dpb_next_period(c)) })
}

// AddArm adds an arm and returns its number. Numbers are never used again.
//
// Id is 0 for an arm that only this bandit has. Otherwise it identifies the arm in all bandits of a fleet, for example
// the ad's number in a catalogue or a hash of its name. It must be at least [Config.Arms], because the arms of the
// configuration have their numbers as ids. If a live arm has this id, AddArm changes nothing and returns its number.
//
// It returns ErrInvalidConfig for too many arms or an id that is too small, ErrInvalidRequest for the id of a retired
// arm, and ErrUnsupported for a policy whose set of arms is fixed.
func (b *Bandit) AddArm(id uint64) (uint32, error) {
	var arm C.uint32_t
	err := b.explained(func(c *C.dpb_bandit, failure *C.dpb_error) C.dpb_status {
		return C.dpb_add_arm(c, C.uint64_t(id), &arm, failure)
	})
	return uint32(arm), err
}

// SetPrior gives an arm a prior from public data, such as last season's: the mean, between [Config.RewardMin] and
// [Config.RewardMax], and the strength, 1 to 2^24, which is the number of real rewards that you consider equally
// informative. The bandit learns faster with a good prior, and drops a wrong one once releases contradict it. A later
// call replaces the prior.
//
// A prior costs no privacy if it is made from public data. A prior that is made from private sums reveals them without
// noise.
//
// It returns ErrUnsupported for a policy that cannot start from public data: see docs/reference/policies.md.
func (b *Bandit) SetPrior(arm uint32, mean, strength float64) error {
	return b.explained(func(c *C.dpb_bandit, failure *C.dpb_error) C.dpb_status {
		return C.dpb_set_prior(c, C.uint32_t(arm), C.double(mean), C.double(strength), failure)
	})
}

// RetireArm removes an arm: the bandit never chooses it again, but still accepts the rewards of its open decisions. It
// returns ErrInvalidRequest for an arm that does not exist, that is retired, or that is the last one, and ErrUnsupported
// for a policy whose set of arms is fixed.
func (b *Bandit) RetireArm(arm uint32) error {
	return b.do(func(c *C.dpb_bandit) error { return check(C.dpb_retire_arm(c, C.uint32_t(arm))) })
}

// Update reports the reward of a decision, between [Config.RewardMin] and [Config.RewardMax]. A ticket accepts one
// reward.
//
// It returns ErrInvalidReward for a reward that is out of range, ErrUnknownTicket, ErrDuplicate, or ErrExpired. After
// ErrInvalidReward the ticket stays open, so report a valid reward: without [Config.RewardWindow] the ticket otherwise
// expires, and public counts show that. [Config.ClampRewards] avoids this error for rewards out of range.
//
// The error reveals whether a ticket had a reward already. Give a visitor the same reply whatever it is.
func (b *Bandit) Update(ticket uint64, reward float64) error {
	c, err := b.enter()
	if err != nil {
		return err
	}
	defer b.leave()
	return check(C.dpb_update(c, C.uint64_t(ticket), C.double(reward)))
}

// UpdatePart reports a part of the reward of a decision: with [Config.Parts] a ticket accepts each part once, in any order,
// until its window is over. The value is in the part's own unit, of any sign. Update reports part 0.
//
// It returns the errors of Update, where ErrDuplicate says that the ticket has this part; ErrInvalidReward for a value
// more than 15 times the declared range from 0 (counted as so much with [Config.ClampRewards]); and ErrInvalidConfig for a
// part that does not exist.
func (b *Bandit) UpdatePart(ticket uint64, part uint32, value float64) error {
	c, err := b.enter()
	if err != nil {
		return err
	}
	defer b.leave()
	return check(C.dpb_update_part(c, C.uint64_t(ticket), C.uint32_t(part), C.double(value)))
}

// Cancel marks a decision as not played, for example because the ad was never shown. The reason and the time must not
// depend on the reward. With [Config.RewardWindow] it also discards a reward that waits. It returns ErrUnknownTicket,
// ErrDuplicate or ErrExpired for a ticket that is not open.
func (b *Bandit) Cancel(ticket uint64) error {
	return b.do(func(c *C.dpb_bandit) error { return check(C.dpb_cancel(c, C.uint64_t(ticket))) })
}

// Advance sets the time of a bandit with [ClockCaller]. Rewards whose [Config.RewardWindow] is over take effect, and
// older evidence is discounted ([Config.ForgetAfter]).
//
// Now is in a unit of your choice. Use the same unit after restarts, and a clock that continues over them, such as the
// time of day in milliseconds. A time that is not later than the last one changes nothing.
//
// A decision gets the time of the last call, so call Advance before the first decision and then before each decision or
// by a timer. Time is public: never call Advance because of a reward. It returns ErrUnsupported with [ClockDecisions].
func (b *Bandit) Advance(now uint64) error {
	return b.do(func(c *C.dpb_bandit) error { return check(C.dpb_advance(c, C.uint64_t(now))) })
}

// Skip lets ticks of the bandit's clock pass without decisions: rewards whose [Config.RewardWindow] is over take effect.
// It is for a bandit that decides nothing more: its windows would never end otherwise. Where a tick is a decision, a
// skipped one counts as a decision that was cancelled at once. Ticks must not depend on rewards.
func (b *Bandit) Skip(ticks uint64) error {
	return b.do(func(c *C.dpb_bandit) error { return check(C.dpb_skip(c, C.uint64_t(ticks))) })
}

// CancelAll cancels every open decision, also one whose reward waits for its window. Use it if an outage kept rewards
// from arriving: call it during the outage at least once in each [Config.RewardWindow], and once after it.
//
// The reason and the time must not depend on rewards. Never call CancelAll because of the values of rewards or because
// of their number.
func (b *Bandit) CancelAll() error {
	return b.do(func(c *C.dpb_bandit) error { return check(C.dpb_cancel_all(c)) })
}

// UpdateMany reports the rewards of many decisions. It tries every ticket, even after an error. Each is nil, or receives
// the error or nil of each ticket. UpdateMany returns the number of rewards that were accepted and the first error. It
// returns ErrInvalidConfig if the lengths differ.
func (b *Bandit) UpdateMany(tickets []uint64, rewards []float64, each []error) (int, error) {
	c, err := b.enter()
	if err != nil {
		return 0, err
	}
	defer b.leave()
	if len(tickets) != len(rewards) || (each != nil && len(each) != len(tickets)) {
		return 0, fmt.Errorf("%w: %d tickets, %d rewards, %d errors", ErrInvalidConfig, len(tickets), len(rewards), len(each))
	}
	if each == nil {
		return updateMany(c, tickets, rewards, nil)
	}
	// 256 at a time, so that the statuses fit on the stack.
	accepted, refusal := 0, error(nil)
	var statuses [256]C.dpb_status
	for len(tickets) > 0 {
		n := min(len(tickets), len(statuses))
		for i := range statuses[:n] {
			statuses[i] = C.DPB_POISONED // for tickets that C does not reach
		}
		done, err := updateMany(c, tickets[:n], rewards[:n], &statuses[0])
		for i, status := range statuses[:n] {
			each[i] = check(status)
		}
		if refusal == nil {
			refusal = err
		}
		accepted += done
		tickets, rewards, each = tickets[n:], rewards[n:], each[n:]
	}
	return accepted, refusal
}

func updateMany(c *C.dpb_bandit, tickets []uint64, rewards []float64, each *C.dpb_status) (int, error) {
	var done C.size_t
	t, r, n := (*C.uint64_t)(unsafe.SliceData(tickets)), (*C.double)(unsafe.SliceData(rewards)), C.size_t(len(tickets))
	err := check(C.dpb_update_many(c, t, r, n, each, &done))
	return int(done), err
}
