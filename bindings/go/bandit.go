package dpb

/*
#cgo CFLAGS: -I${SRCDIR}
#cgo noescape construct
#cgo nocallback construct
#cgo noescape dpb_free
#cgo nocallback dpb_free
#cgo noescape dpb_select
#cgo nocallback dpb_select
#cgo noescape dpb_update
#cgo nocallback dpb_update
#cgo noescape dpb_cancel
#cgo nocallback dpb_cancel
#cgo noescape dpb_advance
#cgo nocallback dpb_advance
#cgo noescape dpb_cancel_all
#cgo nocallback dpb_cancel_all
#cgo noescape dpb_update_many
#cgo nocallback dpb_update_many
#cgo noescape dpb_next_period
#cgo nocallback dpb_next_period
#cgo noescape dpb_add_arm
#cgo nocallback dpb_add_arm
#cgo noescape dpb_set_prior
#cgo nocallback dpb_set_prior
#cgo noescape dpb_retire_arm
#cgo nocallback dpb_retire_arm
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

// Bandit chooses arms and learns from rewards.
//
// Close it when done. Its memory belongs to C, which the garbage collector does not see: bandits that nobody closes
// are freed some time later, when they take tens of megabytes.
type Bandit struct {
	handle[*C.dpb_bandit]
}

// Decision says which arm to play.
type Decision struct {
	Ticket     uint64  // names this decision in Update and Cancel
	Propensity float64 // the arm's probability given everything released so far
	Arm        uint32  // 0-based
	Phase      uint32  // the policy's own count of epochs, phases or intervals
}

// A Decision is a dpb_decision, so that C writes into Go's slices: neither array may be negative.
var (
	_ [unsafe.Sizeof(Decision{}) - C.sizeof_dpb_decision]struct{}
	_ [C.sizeof_dpb_decision - unsafe.Sizeof(Decision{})]struct{}
)

// One constructor for each dpb_new_<policy>; what each promises is said in dpb.h.

// New makes a bandit with the recommended policy for this configuration.
func New(c Config) (*Bandit, error) { return newBandit(C.constructor(C.dpb_new), c) }

// NewSE makes DP-SE, private successive elimination: pure epsilon-DP.
func NewSE(c Config) (*Bandit, error) { return newBandit(C.constructor(C.dpb_new_se), c) }

// NewIMED makes DP-IMED, the recommended policy: pure epsilon-DP, or (epsilon, delta)-DP with Delta > 0.
func NewIMED(c Config) (*Bandit, error) { return newBandit(C.constructor(C.dpb_new_imed), c) }

// NewKLUCB makes DP-KLUCB: pure epsilon-DP.
func NewKLUCB(c Config) (*Bandit, error) { return newBandit(C.constructor(C.dpb_new_klucb), c) }

// NewMED makes DP-MED, which learns as NewIMED does and has exact propensities: pure epsilon-DP, or (epsilon,
// delta)-DP with Delta > 0.
func NewMED(c Config) (*Bandit, error) { return newBandit(C.constructor(C.dpb_new_med), c) }

// NewTS makes Lazy-DP-TS, Thompson sampling: pure epsilon-DP, or (epsilon, delta)-DP with Delta > 0.
func NewTS(c Config) (*Bandit, error) { return newBandit(C.constructor(C.dpb_new_ts), c) }

// NewLinear makes dp-linear, which decides by features ([Config.Features]): pure epsilon-DP, or (epsilon, delta)-DP with
// Delta > 0. A feature must not be made of rewards.
func NewLinear(c Config) (*Bandit, error) { return newBandit(C.constructor(C.dpb_new_linear), c) }

// NewUCB makes DP-UCB: pure epsilon-DP, a noise for each reward.
func NewUCB(c Config) (*Bandit, error) { return newBandit(C.constructor(C.dpb_new_ucb), c) }

// NewUCBBound makes DP-UCB-BOUND: pure epsilon-DP, an index widened by the noise.
func NewUCBBound(c Config) (*Bandit, error) { return newBandit(C.constructor(C.dpb_new_ucb_bound), c) }

// NewUCBInt makes DP-UCB-INT: (epsilon, delta)-DP, Delta > 0.
func NewUCBInt(c Config) (*Bandit, error) { return newBandit(C.constructor(C.dpb_new_ucb_int), c) }

// NewPrivateUCB makes Private-UCB on binary-tree sums: pure epsilon-DP. Needs Horizon.
func NewPrivateUCB(c Config) (*Bandit, error) {
	return newBandit(C.constructor(C.dpb_new_private_ucb), c)
}

// NewLap makes DP-Lap: the policy with the number Base, made private on its gains: pure epsilon-DP. Needs Horizon.
func NewLap(c Config) (*Bandit, error) {
	return newBandit(C.constructor(C.dpb_new_lap), c)
}

// NewEXP3Lap makes DP-EXP3-Lap, for adversarial rewards: pure epsilon-DP. Needs Horizon.
func NewEXP3Lap(c Config) (*Bandit, error) {
	return newBandit(C.constructor(C.dpb_new_exp3_lap), c)
}

// NewEXP3Tau makes EXP3_tau, for adversarial rewards: (epsilon, delta)-DP. Needs Horizon and Delta > 0; propensities are NaN.
func NewEXP3Tau(c Config) (*Bandit, error) {
	return newBandit(C.constructor(C.dpb_new_exp3_tau), c)
}

// NewTsallis makes batched Tsallis-INF, recommended for adversarial rewards: pure epsilon-DP.
func NewTsallis(c Config) (*Bandit, error) {
	return newBandit(C.constructor(C.dpb_new_tsallis), c)
}

// NewSDPAE makes SDP-AE: (epsilon, delta)-DP in the shuffle model.
func NewSDPAE(c Config) (*Bandit, error) {
	return newBandit(C.constructor(C.dpb_new_sdp_ae), c)
}

// NewVBSDPAE makes VB-SDP-AE: (epsilon, delta)-DP in the shuffle model, with growing batches.
func NewVBSDPAE(c Config) (*Bandit, error) {
	return newBandit(C.constructor(C.dpb_new_vb_sdp_ae), c)
}

// NewLDPUCB makes LDP-UCB on bits privatised on the users' devices: epsilon-DP in the local model.
func NewLDPUCB(c Config) (*Bandit, error) {
	return newBandit(C.constructor(C.dpb_new_ldp_ucb), c)
}

// NewLDPKLUCB makes LDP KL-UCB on bits privatised on the users' devices: epsilon-DP in the local model.
func NewLDPKLUCB(c Config) (*Bandit, error) {
	return newBandit(C.constructor(C.dpb_new_ldp_klucb), c)
}

// NewNonprivateUCB1 makes UCB1, a baseline WITHOUT privacy.
func NewNonprivateUCB1(c Config) (*Bandit, error) {
	return newBandit(C.constructor(C.dpb_new_nonprivate_ucb1), c)
}

// NewNonprivateKLUCB makes KL-UCB, a baseline WITHOUT privacy.
func NewNonprivateKLUCB(c Config) (*Bandit, error) {
	return newBandit(C.constructor(C.dpb_new_nonprivate_klucb), c)
}

// NewNonprivateIMED makes IMED, a baseline WITHOUT privacy.
func NewNonprivateIMED(c Config) (*Bandit, error) {
	return newBandit(C.constructor(C.dpb_new_nonprivate_imed), c)
}

// NewNonprivateSE makes successive elimination, a baseline WITHOUT privacy. Needs Horizon or Beta.
func NewNonprivateSE(c Config) (*Bandit, error) {
	return newBandit(C.constructor(C.dpb_new_nonprivate_se), c)
}

// NewNonprivateEXP3 makes EXP3, a baseline WITHOUT privacy. Needs Horizon.
func NewNonprivateEXP3(c Config) (*Bandit, error) {
	return newBandit(C.constructor(C.dpb_new_nonprivate_exp3), c)
}

func newBandit(constructor C.constructor, config Config) (*Bandit, error) {
	var pinner runtime.Pinner
	defer pinner.Unpin()
	given, done, err := config.c(&pinner)
	if err != nil {
		return nil, err
	}
	defer done()
	var c *C.dpb_bandit
	var failure C.dpb_error
	status := C.construct(constructor, given, &c, &failure)
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

// Select chooses an arm.
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

// NextPeriod begins a new period, such as a day: the bandit may again learn from [Config.ContributionsPerUser]
// decisions of every user, and the loss grows by one period. Write a snapshot right after it: if a snapshot was
// taken before, the bandit learns from nobody until then. ErrOverBudget if all of [Config.BudgetPeriods] have begun,
// and the last one continues.
func (b *Bandit) NextPeriod() error {
	c, err := b.enter()
	if err != nil {
		return err
	}
	defer b.leave()
	return check(C.dpb_next_period(c))
}

// AddArm adds an arm and returns its number; numbers are never used again. Id is 0, or the id that names the arm in
// all bandits of a fleet: an ad's own number or a hash of its name, at least [Config.Arms]. If there is a live arm
// with this id, AddArm returns its number.
func (b *Bandit) AddArm(id uint64) (uint32, error) {
	c, err := b.enter()
	if err != nil {
		return 0, err
	}
	defer b.leave()
	var arm C.uint32_t
	var failure C.dpb_error
	if status := C.dpb_add_arm(c, C.uint64_t(id), &arm, &failure); status != C.DPB_OK {
		return 0, explain(status, &failure)
	}
	return uint32(arm), nil
}

// SetPrior states what public data, such as last season's rates, say of an arm: strength rewards (1 to 2^24) with
// this mean. Learning starts from it. A prior made from public data costs no privacy; one made from private sums
// would reveal them without noise. A wrong prior costs little, because releases that contradict it end it.
// ErrUnsupported unless the policy is IMED, KLUCB, MED, or Linear with a model for each arm.
func (b *Bandit) SetPrior(arm uint32, mean, strength float64) error {
	c, err := b.enter()
	if err != nil {
		return err
	}
	defer b.leave()
	var failure C.dpb_error
	if status := C.dpb_set_prior(c, C.uint32_t(arm), C.double(mean), C.double(strength), &failure); status != C.DPB_OK {
		return explain(status, &failure)
	}
	return nil
}

// RetireArm ends an arm: it is never played again. Rewards of its open decisions are accepted.
func (b *Bandit) RetireArm(arm uint32) error {
	c, err := b.enter()
	if err != nil {
		return err
	}
	defer b.leave()
	return check(C.dpb_retire_arm(c, C.uint32_t(arm)))
}

// Update reports the reward of a decision, at most once. After ErrInvalidReward report a valid reward; with
// ClampRewards a reward out of range is not refused. Without a RewardWindow an open decision expires in the end, and
// public counts show it. The error reveals whether the ticket had a reward before: give a visitor the same reply
// whatever it is.
func (b *Bandit) Update(ticket uint64, reward float64) error {
	c, err := b.enter()
	if err != nil {
		return err
	}
	defer b.leave()
	return check(C.dpb_update(c, C.uint64_t(ticket), C.double(reward)))
}

// Cancel ends a decision that was not played, for example because the ad was never shown. Reason and time must not
// depend on the reward.
func (b *Bandit) Cancel(ticket uint64) error {
	c, err := b.enter()
	if err != nil {
		return err
	}
	defer b.leave()
	return check(C.dpb_cancel(c, C.uint64_t(ticket)))
}

// Advance tells the time, with [ClockCaller]: rewards whose RewardWindow is over take effect, and releases age. Now
// is in any unit, the same in all restarts; a value that is not later than the last changes nothing. A decision is
// stamped with the last value, so call Advance before each decision and by a timer. Time is public, and must not
// depend on rewards. ErrUnsupported with [ClockDecisions].
func (b *Bandit) Advance(now uint64) error {
	c, err := b.enter()
	if err != nil {
		return err
	}
	defer b.leave()
	return check(C.dpb_advance(c, C.uint64_t(now)))
}

// CancelAll cancels every open decision, also those whose reward has arrived and waits for its window. Use it in an
// outage in which rewards could not arrive: at least once in each RewardWindow during the outage, and once after it.
// Reason and time must not depend on rewards: never call it because of their values or their number.
func (b *Bandit) CancelAll() error {
	c, err := b.enter()
	if err != nil {
		return err
	}
	defer b.leave()
	return check(C.dpb_cancel_all(c))
}

// UpdateMany reports many rewards. Every reward is tried, even if earlier ones are refused. each is nil, or receives
// the error (or nil) of every reward. Returns the number of accepted rewards, and the first refusal.
func (b *Bandit) UpdateMany(tickets []uint64, rewards []float64, each []error) (int, error) {
	c, err := b.enter()
	if err != nil {
		return 0, err
	}
	defer b.leave()
	if len(tickets) != len(rewards) || (each != nil && len(each) != len(tickets)) {
		return 0, fmt.Errorf("%w: %d tickets, %d rewards, each for %d", ErrInvalidConfig, len(tickets), len(rewards), len(each))
	}
	if each == nil {
		return updateMany(c, tickets, rewards, nil)
	}
	// In pieces, so that the statuses fit on the stack.
	accepted, refusal := 0, error(nil)
	var statuses [256]C.dpb_status
	for len(tickets) > 0 {
		n := min(len(tickets), len(statuses))
		for i := range statuses[:n] {
			statuses[i] = C.DPB_POISONED // stays where C stops before it has tried
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
