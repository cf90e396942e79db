package dpb

// #cgo noescape dpb_config_init_sized
// #cgo nocallback dpb_config_init_sized
// #include <dpb.h>
import "C"

import "runtime"

// Clock says what Config.RewardWindow and Config.ForgetAfter count.
type Clock uint32

const (
	ClockDecisions Clock = C.DPB_CLOCK_DECISIONS // a tick is a decision
	ClockCaller    Clock = C.DPB_CLOCK_CALLER    // a tick is what [Bandit.Advance] says, in a unit of your own
)

// Config describes a bandit. Start from [NewConfig]: the zero value is not valid.
type Config struct {
	Arms                 uint32    // K, 2 to 2^24
	Epsilon              float64   // privacy loss of one user, > 0; ignored by non-private baselines
	Delta                float64   // in [0, 1); 0 where the policy is pure
	Beta                 float64   // failure probability in [0, 1); 0 = 1/Horizon
	Horizon              uint64    // T in decisions; 0 = unknown
	RewardMin            float64   // the declared range of rewards
	RewardMax            float64   // ... its upper end
	RewardBits           uint32    // rewards are rounded to 2^-RewardBits of the range; 0 = exactly RewardMin or RewardMax
	ContributionsPerUser uint32    // how many rewards one user may be behind (with MaxSlots: how many requests), >= 1
	PendingCapacity      uint32    // decisions in flight; with ClockCaller what has no place expires, so take a window's most
	RewardWindow         uint32    // W > 0 = silence means RewardMin, answers take effect W ticks of the Clock later
	ClampRewards         bool      // move rewards into the range instead of refusing them
	RigorousIndex        bool      // DP-UCB-INT: an index widened by the noise, as a proof needs
	ShufflePrinted       bool      // SDP-AE and VB-SDP-AE: the noise as printed in the paper
	TestSeed             *[32]byte // nil = operating system entropy; else reproducible and NOT private
	IntervalExponent     float64   // DP-UCB-INT: v in (1, 1.5]
	Batch                uint32    // SDP-AE: m; DP-Lap: tau; 0 = the policy's own choice
	Base                 Policy    // NewLap: which policy it makes private
	Node                 uint64    // below 65536 the TicketNode of its tickets, larger ones are mixed; 0 = random
	ForgetAfter          uint64    // DP-IMED, DP-MED: M ticks of the Clock, then a release is forgotten; 0 = never
	Exploration          float64   // f: DP-IMED, DP-KLUCB, DP-MED, DP-TS play every arm with a chance of f/K at least
	MaxSlots             uint32    // what Epsilon is for: 0 = one answer; S = one request with all its answers, S at most
	MaxClicks            uint32    // c = at most c clicks of a request count; 0 = any; needs an RewardWindow
	ExpectedUsers        uint64    // people expected in a period: of each at most ContributionsPerUser rewards are learned; 0 = not counted
	BudgetPeriods        uint32    // with ExpectedUsers: periods that there may be in all lives, for all of which the Budget is charged; 0 = any number
	MaxSegments          uint32    // 0 = a plain bandit; S > 0 = one for each of at most S segments, that lend each other what they know: New, NewIMED
	Features             uint32    // d: decisions by so many features of each request: New, NewLinear; 0 = none
	ModelPerArm          bool      // a model for each arm, and one row a request; else one model, and a row for each arm
	FeatureNorm          float64   // C: the largest |x|_1 of a row (|x|_2 with Delta > 0) that counts in full
	Clock                Clock     // what RewardWindow and ForgetAfter count: decisions, or the time that Advance is told
	Budget               *Budget   `json:"-"` // what the bandit is charged to when it is made, with ExpectedUsers for BudgetPeriods; nil = nothing
}

// NewConfig returns the library's defaults for this number of arms and this privacy loss. Constructors check it.
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

// c fills the C struct. The seed stays where it is, pinned until the constructor has read it; so does the budget, until
// done is called.
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
	c.test_seed = pinSeed(pinner, config.TestSeed)
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

// bytes is about what a bandit takes that is made so: its ring of decisions, its arms, all of its
// segments, and who came.
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

// restoredBytes is the same of what goes on from a snapshot, with the usual ring.
func restoredBytes(snapshot []byte) int64 { return 1<<20 + 16*int64(len(snapshot)) }

// pinSeed pins a Go seed, because C may see a Go pointer inside Go memory only if it is pinned.
func pinSeed(pinner *runtime.Pinner, seed *[32]byte) *C.uint8_t {
	if seed == nil {
		return nil
	}
	pinner.Pin(seed)
	return (*C.uint8_t)(&seed[0])
}
