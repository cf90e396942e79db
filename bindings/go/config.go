package dpb

// #cgo noescape dpb_config_init_sized
// #cgo nocallback dpb_config_init_sized
// #include <dpb.h>
import "C"

import "runtime"

// Clock is the unit of [Config.RewardWindow] and [Config.ForgetAfter].
type Clock uint32

const (
	ClockDecisions Clock = C.DPB_CLOCK_DECISIONS // a tick is a decision
	ClockCaller    Clock = C.DPB_CLOCK_CALLER    // a tick is one unit of the time that you pass to [Bandit.Advance]
)

// Config configures a bandit. Start from [NewConfig]: the zero value is not valid.
type Config struct {
	// Arms is the number of arms, 2 to 2^24. Some policies accept fewer: see dpb.h.
	Arms uint32
	// Epsilon is the privacy parameter, > 0. For any two values of one reward, the probability of anything the adversary
	// sees differs by a factor of at most e^Epsilon. Baselines without privacy ignore it.
	Epsilon float64
	// Delta is in [0, 1), and 0 for a policy that is pure. With Delta > 0, the guarantee is
	// P[M(D) in S] <= e^Epsilon P[M(D') in S] + Delta: see docs/privacy.md.
	Delta float64
	// Beta is the failure probability of confidence intervals, in [0, 1). 0 means 1/Horizon.
	Beta float64
	// Horizon is the number of decisions. 0 means that it is unknown.
	Horizon uint64
	// RewardMin is the lower end of the range of rewards, default 0.
	RewardMin float64
	// RewardMax is the upper end of the range of rewards, default 1.
	RewardMax float64
	// RewardBits, 0 to 24, default 20, is the precision of rewards: the bandit rounds them to 2^-RewardBits of the range.
	// With 0, every reward is RewardMin or RewardMax.
	RewardBits uint32
	// ContributionsPerUser is the maximum number of rewards (with MaxSlots: of requests) of one user, >= 1, default 1. The
	// noise is that of Epsilon divided by it. With ExpectedUsers the bandit enforces the maximum in each period; otherwise
	// the caller must.
	ContributionsPerUser uint32
	// PendingCapacity is the number of decisions that can be open, 1 to 2^24, default 4096. Without RewardWindow, and with
	// ClockCaller, the oldest open decision expires if a new one needs its place. With ClockCaller, set it to the largest
	// number of decisions in a window.
	PendingCapacity uint32
	// RewardWindow is the time between a decision and the moment its reward takes effect, in ticks of Clock; with
	// ClockDecisions at most 2^24. A decision without a reward by then has the reward RewardMin, and a later reward is
	// ErrExpired. With 0, update or cancel every decision at a time that does not depend on its reward.
	RewardWindow uint32
	// ClampRewards moves a reward that is out of range to the nearer end. Otherwise it is ErrInvalidReward.
	ClampRewards bool
	// RigorousIndex widens the index of DP-UCB-INT by the noise, as a proof of its regret needs.
	RigorousIndex bool
	// ShufflePrinted makes SDP-AE and VB-SDP-AE use the paper's formula for the noise instead of the exact calibration.
	ShufflePrinted bool
	// TestSeed makes the bandit reproducible and NOT private. With nil it uses the operating system's entropy.
	TestSeed *[32]byte
	// IntervalExponent is v of DP-UCB-INT, in (1, 1.5], default 1.1.
	IntervalExponent float64
	// Batch is m of SDP-AE, tau of DP-Lap and Tsallis, and the shortest interval of DP-UCB-INT, in decisions of one arm. 0
	// lets the policy choose.
	Batch uint32
	// Base is the policy that NewLap makes private.
	Base Policy
	// Node is the number of this process in a fleet. From 1 to 65535 it is the [TicketNode] of the bandit's tickets. A
	// larger number is hashed to 16 bits. 0 means random.
	Node uint64
	// ForgetAfter is the age in ticks of Clock, 1024 to 2^40, at which DP-IMED, DP-MED and dp-linear drop a release. Set it
	// to about half the time between changes of the best arm. 0 means never.
	ForgetAfter uint64
	// Exploration is f in [0, 1]: DP-IMED, DP-KLUCB, DP-MED and dp-linear choose each of K eligible arms with a
	// probability of at least f/K, for off-policy evaluation. It costs f times the mean gap for each decision.
	Exploration float64
	// MaxSlots sets the unit that Epsilon protects, for requests of several slots. 0: one reward, so a request of m slots
	// loses up to m Epsilon. S, up to 2^24: one request of at most S slots with all its rewards.
	MaxSlots uint32
	// MaxClicks is the maximum number of rewards of a request other than RewardMin that count, at most MaxSlots. It needs
	// RewardWindow. 0 means that all count.
	MaxClicks uint32
	// ExpectedUsers is the number of people that you expect in a period, up to 2^28. The bandit then learns from at most
	// ContributionsPerUser decisions of each person in a period ([Bandit.NextPeriod]), so Epsilon holds for a person in a
	// period. It needs 1.5 bytes for each at ContributionsPerUser = 1. 0 means that the bandit does not count users.
	ExpectedUsers uint64
	// BudgetPeriods, with ExpectedUsers, is the maximum number of periods, restarts included. Budget is charged for all of
	// them. 0 means any number, which a Budget does not accept.
	BudgetPeriods uint32
	// MaxSegments makes a segmented bandit: one bandit for each of at most this many segments, with evidence shared between
	// them, for New and NewIMED. Epsilon holds for all segments together. 0 means no segments.
	MaxSegments uint32
	// Features is the number d of features of a row, up to 256, for New and NewLinear. 0 means no features.
	Features uint32
	// ModelPerArm makes dp-linear learn a model for each arm, from one row for each request. Otherwise it learns one model,
	// from a row for each arm.
	ModelPerArm bool
	// FeatureNorm is C, default 1: the largest |x|_1 of a row (|x|_2 with Delta > 0). dp-linear scales larger rows down to
	// it. Choose it without looking at rewards. It is 3 for three one-hot fields.
	FeatureNorm float64
	// Clock is the unit of RewardWindow and ForgetAfter: decisions (the default), or the time that you pass to
	// [Bandit.Advance].
	Clock Clock
	// Budget is charged when the bandit is made. With ExpectedUsers it needs BudgetPeriods. nil means no budget.
	Budget *Budget `json:"-"`
	// FleetKey is 32 secret random bytes, the same for all bandits of a fleet. Then one bandit can release what all collect,
	// with one noise: see [Bandit.Lead]. Do not print it. For New, NewIMED, NewKLUCB, NewMED and NewLinear; nil means none.
	FleetKey *[32]byte `json:"-"`
}

// NewConfig returns the library's defaults for this number of arms and this epsilon. It checks nothing: constructors do.
func NewConfig(arms uint32, epsilon float64) Config {
	var c C.dpb_config
	C.dpb_config_init_sized(&c, C.sizeof_dpb_config, C.uint32_t(arms), C.double(epsilon))
	return Config{
		Arms:                 arms,
		Epsilon:              epsilon,
		Delta:                float64(c.delta),
		Beta:                 float64(c.beta),
		Horizon:              uint64(c.horizon),
		RewardMin:            float64(c.reward_min),
		RewardMax:            float64(c.reward_max),
		RewardBits:           uint32(c.reward_bits),
		ContributionsPerUser: uint32(c.contributions_per_user),
		PendingCapacity:      uint32(c.pending_capacity),
		RewardWindow:         uint32(c.reward_window),
		IntervalExponent:     float64(c.interval_exponent),
		Batch:                uint32(c.batch),
		Base:                 Policy(c.base),
		Node:                 uint64(c.node),
		ForgetAfter:          uint64(c.forget_after),
		Exploration:          float64(c.exploration),
		MaxSlots:             uint32(c.max_slots),
		MaxClicks:            uint32(c.max_clicks),
		ExpectedUsers:        uint64(c.expected_users),
		BudgetPeriods:        uint32(c.budget_periods),
		MaxSegments:          uint32(c.max_segments),
		FeatureNorm:          float64(c.feature_norm),
		Clock:                Clock(c.clock),
	}
}

// c fills the C struct. The pinner keeps the seed and the key in place until the constructor has read them. The budget stays open
// until done is called.
func (config Config) c(pinner *runtime.Pinner) (c *C.dpb_config, done func(), err error) {
	c, done = new(C.dpb_config), func() {}
	C.dpb_config_init_sized(c, C.sizeof_dpb_config, C.uint32_t(config.Arms), C.double(config.Epsilon))
	c.delta = C.double(config.Delta)
	c.beta = C.double(config.Beta)
	c.horizon = C.uint64_t(config.Horizon)
	c.reward_min = C.double(config.RewardMin)
	c.reward_max = C.double(config.RewardMax)
	c.reward_bits = C.uint32_t(config.RewardBits)
	c.contributions_per_user = C.uint32_t(config.ContributionsPerUser)
	c.pending_capacity = C.uint32_t(config.PendingCapacity)
	c.reward_window = C.uint32_t(config.RewardWindow)
	if config.ClampRewards {
		c.flags |= C.DPB_CLAMP_REWARDS
	}
	if config.RigorousIndex {
		c.flags |= C.DPB_RIGOROUS_INDEX
	}
	if config.ShufflePrinted {
		c.flags |= C.DPB_SHUFFLE_PRINTED
	}
	c.test_seed = pinBytes(pinner, config.TestSeed)
	c.fleet_key = pinBytes(pinner, config.FleetKey)
	c.interval_exponent = C.double(config.IntervalExponent)
	c.batch = C.uint32_t(config.Batch)
	c.base = C.uint32_t(config.Base)
	c.node = C.uint64_t(config.Node)
	c.forget_after = C.uint64_t(config.ForgetAfter)
	c.exploration = C.double(config.Exploration)
	c.max_slots = C.uint32_t(config.MaxSlots)
	c.max_clicks = C.uint32_t(config.MaxClicks)
	c.expected_users = C.uint64_t(config.ExpectedUsers)
	c.budget_periods = C.uint32_t(config.BudgetPeriods)
	c.max_segments = C.uint32_t(config.MaxSegments)
	c.features = C.uint32_t(config.Features)
	c.feature_model = C.DPB_MODEL_SHARED
	if config.ModelPerArm {
		c.feature_model = C.DPB_MODEL_PER_ARM
	}
	c.feature_norm = C.double(config.FeatureNorm)
	c.clock = C.uint32_t(config.Clock)
	if config.Budget != nil {
		done = config.Budget.leave
		c.budget, err = config.Budget.enter()
	}
	return c, done, err
}

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

// pinBytes returns a pointer to a seed or a key for a C struct. C may see a Go pointer inside Go memory only if it is pinned.
func pinBytes(pinner *runtime.Pinner, bytes *[32]byte) *C.uint8_t {
	if bytes == nil {
		return nil
	}
	pinner.Pin(bytes)
	return (*C.uint8_t)(&bytes[0])
}
