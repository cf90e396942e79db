package dpb

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var (
	_ io.Closer = (*Bandit)(nil)
	_ io.Closer = (*Stopping)(nil)
	_ io.Closer = (*Counter)(nil)
	_ io.Closer = (*Shuffler)(nil)
)

func must[T any](t testing.TB) func(T, error) T {
	return func(value T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

func refused(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("got %v, want %v", err, want)
	}
}

func bandit(t testing.TB, arms uint32) *Bandit {
	t.Helper()
	b := must[*Bandit](t)(NewSE(NewConfig(arms, 1)))
	t.Cleanup(func() { b.Close() })
	return b
}

func TestConstructors(t *testing.T) {
	for _, c := range []struct {
		name    string
		make    func(Config) (*Bandit, error)
		private bool
		needs   string
	}{
		// begin generated constructors
		{"dp-imed", NewIMED, true, ""},
		{"dp-med", NewMED, true, ""},
		{"dp-tt", NewTT, true, ""},
		{"dp-linear", NewLinear, true, "features"},
		{"dp-se", NewSE, true, ""},
		{"dp-ucb-bound", NewUCBBound, true, ""},
		{"dp-ucb", NewUCB, true, ""},
		{"dp-ucb-int", NewUCBInt, true, "delta"},
		{"private-ucb", NewPrivateUCB, true, "horizon"},
		{"dp-lap", NewLap, true, "horizon base"},
		{"dp-exp3-lap", NewEXP3Lap, true, "horizon"},
		{"exp3-tau", NewEXP3Tau, true, "horizon delta"},
		{"tsallis", NewTsallis, true, ""},
		{"nonprivate-ucb1", NewNonprivateUCB1, false, ""},
		{"nonprivate-klucb", NewNonprivateKLUCB, false, ""},
		{"nonprivate-imed", NewNonprivateIMED, false, ""},
		{"nonprivate-se", NewNonprivateSE, false, "horizon|beta"},
		{"nonprivate-exp3", NewNonprivateEXP3, false, "horizon"},
		{"sdp-ae", NewSDPAE, true, "horizon delta"},
		{"vb-sdp-ae", NewVBSDPAE, true, "horizon delta"},
		{"ldp-ucb", NewLDPUCB, true, ""},
		{"ldp-klucb", NewLDPKLUCB, true, ""},
		// end generated constructors
	} {
		config, name := NewConfig(3, 1), c.name
		for need := range strings.FieldsSeq(c.needs) {
			switch need {
			case "delta":
				config.Delta = 1e-6
			case "base":
				config.Base = PolicyNonprivateUCB1
			case "features":
				config.Features = 2
			default: // horizon, or another one instead of it
				config.Horizon = 1000
			}
		}
		b := must[*Bandit](t)(c.make(config))
		if b.PolicyName() != name {
			t.Errorf("%s calls itself %s", name, b.PolicyName())
		}
		if r := must[Report](t)(b.Report()); r.IsPrivate != c.private || r.ArmsActive != 3 {
			t.Errorf("%s: %+v", name, r)
		}
		b.Close()
	}
	b := must[*Bandit](t)(New(NewConfig(3, 1)))
	defer b.Close()
	if b.PolicyName() == "" || Version() == "" || ABIVersion() == 0 {
		t.Error("no name")
	}
}

func TestConfigIsChecked(t *testing.T) {
	for message, spoil := range map[string]func(*Config){
		"Epsilon must be finite and > 0, got -1":         func(c *Config) { c.Epsilon = -1 },
		"Arms must be in 2 .. 2^24, got 1":               func(c *Config) { c.Arms = 1 },
		"Delta must be in [0, 1), got NaN":               func(c *Config) { c.Delta = math.NaN() },
		"Beta must be in [0, 1), got 1":                  func(c *Config) { c.Beta = 1 },
		"ContributionsPerUser must be at least 1, got 0": func(c *Config) { c.ContributionsPerUser = 0 },
		"PendingCapacity must be":                        func(c *Config) { c.PendingCapacity = 0 },
		"RewardWindow must be":                           func(c *Config) { c.RewardWindow = 1<<24 + 1 },
		"RewardBits must be":                             func(c *Config) { c.RewardBits = 99 },
		"RewardMax must be above RewardMin":              func(c *Config) { c.RewardMin, c.RewardMax = 2, 1 },
	} {
		c := NewConfig(4, 1)
		spoil(&c)
		b, err := NewSE(c)
		refused(t, err, ErrInvalidConfig)
		if b != nil || !strings.Contains(err.Error(), message) {
			t.Errorf("want %q, got %q", message, err)
		}
	}
}

func TestNode(t *testing.T) {
	c := NewConfig(2, 1)
	c.Node = 54321
	b := must[*Bandit](t)(New(c))
	defer b.Close()
	if d := must[Decision](t)(b.Select()); TicketNode(d.Ticket) != 54321 {
		t.Errorf("%x", d.Ticket)
	}
}

func TestRewardRange(t *testing.T) {
	c := NewConfig(2, 1)
	c.RewardMin, c.RewardMax, c.ClampRewards = -10, 10, true
	b := must[*Bandit](t)(NewSE(c))
	defer b.Close()
	d := must[Decision](t)(b.Select())
	refused(t, b.Update(d.Ticket, math.Inf(1)), ErrInvalidReward)
	if err := b.Update(d.Ticket, 1e9); err != nil {
		t.Error(err)
	}
}

func TestTickets(t *testing.T) {
	b := bandit(t, 4)
	d := must[Decision](t)(b.Select())
	if d.Arm >= 4 || d.Propensity <= 0 || d.Propensity > 1 || TicketNode(d.Ticket) != uint16(d.Ticket>>48) {
		t.Fatalf("%+v", d)
	}
	for _, bad := range []float64{-0.1, 1.1, math.NaN(), math.Inf(-1)} {
		refused(t, b.Update(d.Ticket, bad), ErrInvalidReward)
	}
	if err := b.Update(d.Ticket, 0.5); err != nil {
		t.Fatal(err)
	}
	refused(t, b.Update(d.Ticket, 0.5), ErrDuplicate)
	refused(t, b.Cancel(d.Ticket), ErrDuplicate)
	refused(t, b.Update(^d.Ticket, 0.5), ErrUnknownTicket)
	if err := b.Cancel(must[Decision](t)(b.Select()).Ticket); err != nil {
		t.Fatal(err)
	}
	must[Decision](t)(b.Select())
	refused(t, b.CancelAll(), nil)
	r := must[Report](t)(b.Report())
	if r.Decisions != 3 || r.Answered != 1 || r.Cancelled != 2 || r.Pending != 0 || r.Expired != 0 {
		t.Errorf("%+v", r)
	}
	if d := must[Diagnostics](t)(b.Diagnostics()); d != (Diagnostics{Duplicates: 2, Rejected: 4, Unknown: 1}) {
		t.Errorf("%+v", d)
	}
}

func TestClock(t *testing.T) {
	c := NewConfig(3, 1)
	if c.Clock != ClockDecisions {
		t.Error(c.Clock)
	}
	c.Clock, c.RewardWindow = ClockCaller, 30*60*1000
	b := must[*Bandit](t)(New(c))
	defer b.Close()
	start := uint64(time.Now().UnixMilli())
	refused(t, b.Advance(start), nil)
	clicked, silent := must[Decision](t)(b.Select()), must[Decision](t)(b.Select())
	refused(t, b.Update(clicked.Ticket, 1), nil)
	refused(t, b.Advance(start+30*60*1000-1), nil)
	refused(t, b.Advance(0), nil) // earlier
	if r := must[Report](t)(b.Report()); r.Pending != 2 || r.Answered != 0 {
		t.Errorf("%+v", r)
	}
	refused(t, b.Advance(start+30*60*1000), nil)
	if r := must[Report](t)(b.Report()); r.Pending != 0 || r.Answered != 2 {
		t.Errorf("%+v", r)
	}
	refused(t, b.Update(silent.Ticket, 1), ErrExpired)
	refused(t, bandit(t, 3).Advance(start), ErrUnsupported)
}

func TestSilence(t *testing.T) {
	c := NewConfig(2, 1)
	c.RewardWindow, c.RewardBits = 8, 0
	b := must[*Bandit](t)(NewSE(c))
	defer b.Close()
	first := must[Decision](t)(b.Select())
	for range 8 {
		must[Decision](t)(b.Select())
	}
	refused(t, b.Update(first.Ticket, 1), ErrExpired)
	if r := must[Report](t)(b.Report()); r.Answered != 1 || r.Pending != 8 {
		t.Errorf("%+v", r)
	}
}

func TestParts(t *testing.T) {
	c := NewConfig(3, 1)
	c.RewardWindow, c.Parts, c.PartWeights = 10, 2, [8]float64{0.1, -0.5}
	b := must[*Bandit](t)(NewIMED(c))
	defer b.Close()
	d := must[Decision](t)(b.Select())
	refused(t, b.UpdatePart(d.Ticket, 1, 1), nil)
	refused(t, b.Update(d.Ticket, 1), nil)
	refused(t, b.UpdatePart(d.Ticket, 0, 1), ErrDuplicate)
	refused(t, b.UpdatePart(d.Ticket, 2, 1), ErrInvalidConfig)
	refused(t, b.UpdatePart(d.Ticket, 1, 31), ErrInvalidReward)
	if n := testing.AllocsPerRun(100, func() { _ = b.UpdatePart(d.Ticket, 0, 1) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	c.PartWeights[5] = 1
	_, err := NewIMED(c)
	refused(t, err, ErrInvalidConfig)
	if want := "PartWeights must be 0 behind those of the 2 parts, got [0.1, -0.5, 0, 0, 0, 1]"; !strings.Contains(err.Error(), want) {
		t.Error(err)
	}
}

func TestBatches(t *testing.T) {
	const n = 1000 // more than UpdateMany's piece
	b := bandit(t, 4)
	decisions := make([]Decision, n)
	if done := must[int](t)(b.SelectMany(nil, decisions)); done != n {
		t.Fatal(done)
	}
	tickets, rewards, each := make([]uint64, n), make([]float64, n), make([]error, n)
	for i, d := range decisions {
		tickets[i], rewards[i] = d.Ticket, 0.5
	}
	rewards[300] = 7
	if err := b.Update(tickets[700], 0.5); err != nil {
		t.Fatal(err)
	}
	_, err := b.UpdateMany(tickets, rewards[1:], nil)
	refused(t, err, ErrInvalidConfig)
	_, err = b.UpdateMany(tickets, rewards, each[1:])
	refused(t, err, ErrInvalidConfig)

	done, err := b.UpdateMany(tickets, rewards, each)
	refused(t, err, ErrInvalidReward) // the first refusal
	if done != n-2 {
		t.Errorf("%d accepted", done)
	}
	want := map[int]error{300: ErrInvalidReward, 700: ErrDuplicate}
	for i, err := range each {
		if err != want[i] {
			t.Errorf("answer %d: %v", i, err)
		}
	}
	done, err = b.UpdateMany(tickets[299:302], []float64{0.5, 0.5, 0.5}, nil)
	refused(t, err, ErrDuplicate)
	if done != 1 || must[Report](t)(b.Report()).Answered != n {
		t.Errorf("%d accepted", done)
	}
	must[int](t)(b.SelectMany(nil, nil))
	must[int](t)(b.SelectMany([]Request{}, nil))
	// More than 64 requests, and one that is refused: SelectMany decides those before it.
	flexible := must[*Bandit](t)(NewIMED(NewConfig(4, 1)))
	defer flexible.Close()
	requests := make([]Request, 150)
	requests[70] = Request{Slots: 2, Eligible: []uint32{1, 3}}
	decisions = make([]Decision, 151)
	if done := must[int](t)(flexible.SelectMany(requests, decisions)); done != 150 {
		t.Error(done)
	}
	if pair := decisions[70].Arm + decisions[71].Arm; pair != 4 || decisions[150].Ticket == 0 {
		t.Errorf("%+v", decisions)
	}
	_, err = flexible.SelectMany(requests, decisions[1:])
	refused(t, err, ErrInvalidRequest)
	requests[100].Eligible = []uint32{9}
	done, err = flexible.SelectMany(requests, decisions)
	refused(t, err, ErrInvalidRequest)
	if done != 100 || must[Report](t)(flexible.Report()).Decisions != 151+101 {
		t.Error(done)
	}
	must[int](t)(b.UpdateMany(nil, nil, nil))
	must[int](t)(b.UpdateMany(nil, nil, []error{}))
}

func TestArmsComeAndGo(t *testing.T) {
	b := must[*Bandit](t)(NewIMED(NewConfig(3, 1)))
	defer b.Close()
	some := []uint32{1}
	if d := must[Decision](t)(b.SelectFor(Request{Eligible: some})); d.Arm != 1 {
		t.Errorf("%+v", d)
	}
	if arm := must[uint32](t)(b.AddArm(0)); arm != 3 || len(must[[]Arm](t)(b.Arms())) != 4 {
		t.Error(arm)
	}
	if err := b.RetireArm(0); err != nil {
		t.Fatal(err)
	}
	refused(t, b.RetireArm(0), ErrInvalidRequest)
	for _, bad := range [][]uint32{{}, {0}, {99}} {
		_, err := b.SelectFor(Request{Eligible: bad})
		refused(t, err, ErrInvalidRequest)
	}
	if n := testing.AllocsPerRun(100, func() { _, _ = b.SelectFor(Request{Eligible: some}) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	fixed := bandit(t, 3)
	_, err := fixed.AddArm(0)
	refused(t, err, ErrUnsupported)
}

func TestValuesAllocateNothing(t *testing.T) {
	b := must[*Bandit](t)(NewIMED(NewConfig(4, 1)))
	defer b.Close()
	pair := Request{Eligible: []uint32{2, 3}, Values: []float64{0, 5}}
	if n := testing.AllocsPerRun(100, func() { _, _ = b.SelectFor(pair) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestValues(t *testing.T) {
	b := must[*Bandit](t)(NewIMED(NewConfig(4, 1)))
	defer b.Close()
	bids := []float64{1, 10, 1, 0}
	played := make([]int, 4)
	for i := range 5000 { // the second arm has a third of the others' rate, and is worth ten times as much
		d := must[Decision](t)(b.SelectFor(Request{Values: bids}))
		played[d.Arm]++
		every := map[bool]int{true: 30, false: 10}[d.Arm == 1]
		if err := b.Update(d.Ticket, map[bool]float64{true: 1}[i%every == 0]); err != nil {
			t.Fatal(err)
		}
	}
	if played[1] < 3000 || played[3] != 0 {
		t.Error(played)
	}
	pair := Request{Eligible: []uint32{2, 3}, Values: []float64{0, 5}}
	if d := must[Decision](t)(b.SelectFor(pair)); d.Arm != 3 {
		t.Errorf("%+v", d)
	}
	decisions := make([]Decision, 3)
	if done := must[int](t)(b.SelectMany([]Request{pair, {Slots: 2, Values: bids}}, decisions)); done != 2 || decisions[0].Arm != 3 {
		t.Errorf("%d: %+v", done, decisions)
	}
	for _, wrong := range []struct {
		request Request
		why     string
	}{
		{Request{Values: []float64{}}, "dpb: invalid request: len(Values) must be 4, the number of arms, got 0"},
		{Request{Values: bids[:2]}, "dpb: invalid request: len(Values) must be 4, the number of arms, got 2"},
		{Request{Values: []float64{1, math.NaN(), 1, 1}}, "dpb: invalid request: Values must be finite and at least 0, got NaN"},
		{Request{Eligible: []uint32{1, 1}, Values: bids[:2]}, "dpb: invalid request: Eligible must not name an arm twice in a request with values or costs, got 1"},
	} {
		_, err := b.SelectFor(wrong.request)
		refused(t, err, ErrInvalidRequest)
		if err := b.CheckRequest(wrong.request); err == nil || err.Error() != wrong.why {
			t.Errorf("%v", err)
		}
	}
	tt := must[*Bandit](t)(NewTT(NewConfig(4, 1)))
	defer tt.Close()
	_, err := tt.SelectFor(Request{Values: bids})
	refused(t, err, ErrUnsupported)
}

func TestCosts(t *testing.T) {
	b := must[*Bandit](t)(NewIMED(NewConfig(2, 4)))
	defer b.Close()
	cheap, prices := 0, []float64{0.8, 0.1}
	for i := range 4000 {
		d := must[Decision](t)(b.SelectFor(Request{Costs: prices}))
		reward := 1.0
		if d.Arm == 1 {
			cheap++
			reward = float64(i % 2)
		}
		if err := b.Update(d.Ticket, reward); err != nil {
			t.Fatal(err)
		}
	}
	if cheap < 3000 || cheap == 4000 {
		t.Error(cheap)
	}
	dear := Request{Costs: []float64{1.5, 1.5}, Abstain: true}
	decisions := make([]Decision, 200)
	requests := slices.Repeat([]Request{dear}, len(decisions))
	if done := must[int](t)(b.SelectMany(requests, decisions)); done != len(decisions) {
		t.Error(done)
	}
	for _, d := range append(decisions, must[Decision](t)(b.SelectFor(dear))) {
		if d.Arm != NoArm || d.Ticket != 0 || d.Propensity != 1 && !math.IsNaN(d.Propensity) {
			t.Fatalf("%+v", d)
		}
	}
	err := b.CheckRequest(Request{Costs: prices[:1]})
	if why := "dpb: invalid request: len(Costs) must be 2, the number of arms, got 1"; err == nil || err.Error() != why {
		t.Error(err)
	}
	refused(t, b.CheckRequest(Request{Slots: 2, Abstain: true}), ErrInvalidRequest)
}

func TestExamined(t *testing.T) {
	b := must[*Bandit](t)(NewIMED(NewConfig(4, 3)))
	defer b.Close()
	request := Request{Slots: 3, Examined: []float64{0.25, 1, 0.5}}
	every := []int{12, 3, 6}
	shown, ordered := make([]Decision, 3), 0
	for i := range 8000 { // arm 0 has a rate of a third, the others have a quarter of it
		if err := b.SelectSlots(request, shown); err != nil {
			t.Fatal(err)
		}
		if shown[1].Arm == 0 {
			ordered++
		}
		for slot, d := range shown {
			n := every[slot]
			if d.Arm != 0 {
				n *= 4
			}
			if err := b.Update(d.Ticket, map[bool]float64{true: 1}[i%n == 0]); err != nil {
				t.Fatal(err)
			}
		}
	}
	arms := must[[]Arm](t)(b.Arms())
	if ordered < 6500 || arms[0].Mean < 0.29 || arms[0].Mean > 0.38 {
		t.Error(ordered, arms)
	}
	if n := testing.AllocsPerRun(100, func() { _ = b.SelectSlots(request, shown) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if done := must[int](t)(b.SelectMany([]Request{request, {Examined: []float64{0.5}}}, make([]Decision, 4))); done != 2 {
		t.Error(done)
	}
	for _, wrong := range []struct {
		request Request
		why     string
	}{
		{Request{Examined: []float64{}}, "dpb: invalid request: len(Examined) must be 1, the number of slots, got 0"},
		{Request{Examined: []float64{0}}, "dpb: invalid request: Examined must be in [2^-16, 1], got 0"},
	} {
		_, err := b.SelectFor(wrong.request)
		refused(t, err, ErrInvalidRequest)
		if err := b.CheckRequest(wrong.request); err == nil || err.Error() != wrong.why {
			t.Errorf("%v", err)
		}
	}
	tt := must[*Bandit](t)(NewTT(NewConfig(4, 1)))
	defer tt.Close()
	_, err := tt.SelectFor(Request{Examined: []float64{0.5}})
	refused(t, err, ErrUnsupported)
}

func TestSlots(t *testing.T) {
	c := NewConfig(5, 1)
	c.RewardWindow, c.MaxSlots, c.MaxClicks = 6, 3, 1
	b := must[*Bandit](t)(NewIMED(c))
	defer b.Close()
	slate, request := make([]Decision, 3), Request{Slots: 3, Eligible: []uint32{4, 1, 4, 2}}
	for range 100 {
		if err := b.SelectSlots(request, slate); err != nil {
			t.Fatal(err)
		}
		shown := map[uint32]bool{}
		for _, d := range slate {
			shown[d.Arm] = true
			if err := b.Update(d.Ticket, 1); err != nil {
				t.Fatal(err)
			}
		}
		if !shown[1] || !shown[2] || !shown[4] {
			t.Fatalf("%+v", slate)
		}
	}
	if r := must[Report](t)(b.Report()); r.Decisions != 300 || r.EpsilonSpent < 0.99 || r.EpsilonSpent > 1 {
		t.Errorf("%+v", r)
	}
	if err := b.SelectSlots(Request{Slots: 2}, slate[:2]); err != nil { // of all arms
		t.Fatal(err)
	}
	refused(t, b.SelectSlots(Request{Slots: 3, Eligible: []uint32{}}, slate), ErrInvalidRequest)
	refused(t, b.SelectSlots(Request{Slots: 3, Eligible: []uint32{1, 1, 2}}, slate), ErrInvalidRequest)
	refused(t, b.SelectSlots(Request{Slots: 4}, make([]Decision, 4)), ErrInvalidRequest)
	refused(t, b.SelectSlots(Request{Slots: 2}, slate), ErrInvalidRequest)
	refused(t, b.SelectSlots(Request{}, nil), ErrInvalidRequest)
	if n := testing.AllocsPerRun(100, func() { _ = b.SelectSlots(request, slate) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	refused(t, bandit(t, 3).SelectSlots(Request{Slots: 3}, slate), ErrUnsupported)
	c.RewardWindow = 0
	_, err := NewIMED(c)
	refused(t, err, ErrInvalidConfig)
}

// An A/B test stops and says so. If another arm retires, the winner stays; if the winner retires, a new test begins.
func TestWinner(t *testing.T) {
	c := NewConfig(3, 1)
	c.Beta, c.TestSeed = 0.01, &[32]byte{8}
	b := must[*Bandit](t)(NewTT(c))
	defer b.Close()
	play := func(rewards [3]float64) uint32 {
		_, err := b.BestArm()
		refused(t, err, ErrNotReady)
		for range 20_000 {
			if best, err := b.BestArm(); err == nil {
				return best
			}
			d := must[Decision](t)(b.Select())
			if err := b.Update(d.Ticket, rewards[d.Arm]); err != nil {
				t.Fatal(err)
			}
		}
		return 99
	}
	play([3]float64{0, 1, 0})
	report, best := must[Report](t)(b.Report()), must[uint32](t)(b.BestArm())
	if best != 1 || !report.Stopped || report.BestArm != 1 || must[Decision](t)(b.Select()).Arm != 1 {
		t.Errorf("%d %+v", best, report)
	}
	retire := func(arm uint32, want error) { refused(t, b.RetireArm(arm), want) }
	snapshot := must[[]byte](t)(b.Snapshot(nil))
	retire(1, nil)
	if best := play([3]float64{1, 0, 0}); best != 0 {
		t.Error(best)
	}
	retire(2, nil)
	if best := must[uint32](t)(b.BestArm()); best != 0 {
		t.Error(best)
	}
	retire(0, ErrInvalidRequest)
	c.Beta = 0.2
	_, err := RestorePolicy(PolicyTT, c, snapshot)
	refused(t, err, ErrInvalidConfig)
}

func TestReading(t *testing.T) {
	c := NewConfig(3, 10)
	c.Horizon, c.TestSeed = 1_000_000, &[32]byte{7}
	b := must[*Bandit](t)(NewSE(c))
	defer b.Close()
	_, err := b.BestArm()
	refused(t, err, ErrNotReady)
	_, _, err = b.Compare(0, 1, 0.95)
	refused(t, err, ErrNotReady)
	if arms := must[[]Arm](t)(b.Arms()); len(arms) != 3 || !math.IsNaN(arms[0].Mean) || !arms[0].Active {
		t.Errorf("%+v", arms)
	}
	if must[float64](t)(b.EpsilonSpent(0)) != 0 {
		t.Error("spent before the first release")
	}
	for range 200_000 {
		if _, err := b.BestArm(); err == nil {
			break
		}
		d := must[Decision](t)(b.Select())
		reward := 0.0
		if d.Arm == 1 {
			reward = 1
		}
		if err := b.Update(d.Ticket, reward); err != nil {
			t.Fatal(err)
		}
	}
	if best := must[uint32](t)(b.BestArm()); best != 1 {
		t.Errorf("best arm %d", best)
	}
	arms := must[[]Arm](t)(b.Arms())
	if math.Abs(arms[1].Mean-1) > arms[1].Width || !arms[1].Active || arms[0].Active || arms[1].Pulls == 0 {
		t.Errorf("%+v", arms)
	}
	if epsilon := must[float64](t)(b.EpsilonSpent(1e-6)); epsilon <= 0 || epsilon > 10 {
		t.Errorf("epsilon %v", epsilon)
	}
	_, err = b.EpsilonSpent(-1)
	refused(t, err, ErrInvalidConfig)
	if low, high, err := b.Compare(1, 0, 0.95); err != nil || low <= 0 || low >= 1 || high != 1 {
		t.Errorf("%v..%v %v", low, high, err)
	}
	if low, high, err := b.Lift(0, 0.95); err != nil || low <= 0 || !math.IsInf(high, 1) {
		t.Errorf("%v..%v %v", low, high, err)
	}
	_, _, err = b.Lift(3, 0.95)
	refused(t, err, ErrInvalidRequest)
	_, _, err = b.Compare(1, 1, 0.95)
	refused(t, err, ErrInvalidConfig)
	_, _, err = b.Compare(1, 3, 0.95)
	refused(t, err, ErrInvalidRequest)
	if r := must[Report](t)(b.Report()); r.IsPrivate || r.EpsilonSpent <= 0 || r.ArmsActive != 1 {
		t.Errorf("%+v", r)
	}
}

// The other arm becomes the better one: ForgetAfter makes the bandit drop its evidence.
func TestForgetAfter(t *testing.T) {
	c := NewConfig(2, 1)
	c.ForgetAfter, c.Exploration, c.TestSeed = 10_000, 0.1, new([32]byte)
	b := must[*Bandit](t)(NewIMED(c))
	defer b.Close()
	play := func(means [2]float64) (ones uint32) {
		for i := range 20_000 {
			d := must[Decision](t)(b.Select())
			if d.Propensity < 0.05 {
				t.Fatalf("%+v", d)
			}
			if i >= 10_000 {
				ones += d.Arm
			}
			if err := b.Update(d.Ticket, means[d.Arm]); err != nil {
				t.Fatal(err)
			}
		}
		return ones
	}
	if ones := play([2]float64{0.2, 0.8}); ones < 8_500 || must[Report](t)(b.Report()).ChangesDetected != 0 {
		t.Error(ones)
	}
	if ones := play([2]float64{0.8, 0.2}); ones > 1_500 || must[Report](t)(b.Report()).ChangesDetected == 0 {
		t.Error(ones)
	}
	if arms := must[[]Arm](t)(b.Arms()); arms[0].EffectivePulls < 3_000 || arms[0].EffectivePulls > 10_000 {
		t.Errorf("%+v", arms)
	}
}

// Each user contributes one reward in a period. The bandit serves further requests and does not learn from them.
func TestUsers(t *testing.T) {
	c := NewConfig(3, 1)
	c.ExpectedUsers = 1000
	b := must[*Bandit](t)(New(c))
	defer b.Close()
	play := func(users uint64) (known float64) {
		for user := range users {
			request := Request{User: user}
			if user%2 == 0 {
				request.Eligible = []uint32{0, 1, 2}
			}
			d := must[Decision](t)(b.SelectFor(request))
			if err := b.Update(d.Ticket, 1); err != nil {
				t.Fatal(err)
			}
		}
		for _, arm := range must[[]Arm](t)(b.Arms()) {
			known += arm.EffectivePulls
		}
		return known
	}
	known := play(200)
	if again := play(200); known < 20 || again != known {
		t.Error(known, again)
	}
	spent := must[float64](t)(b.EpsilonSpent(0))
	if err := b.NextPeriod(); err != nil {
		t.Fatal(err)
	}
	if err := b.Stored(must[[]byte](t)(b.Snapshot(nil))); err != nil {
		t.Fatal(err)
	}
	// More rewards than the open batches of three arms can hold.
	if more, twice := play(1000), must[float64](t)(b.EpsilonSpent(0)); more <= known || twice != 2*spent {
		t.Error(more, twice)
	}
	_, err := b.Select()
	refused(t, err, ErrUnsupported)
	_, err = b.SelectMany(nil, make([]Decision, 1))
	refused(t, err, ErrUnsupported)
	_, err = b.SelectFor(Request{User: 1, Eligible: []uint32{9}})
	refused(t, err, ErrInvalidRequest)
	plain := must[*Bandit](t)(New(NewConfig(3, 1)))
	defer plain.Close()
	_, err = plain.SelectFor(Request{User: 1})
	refused(t, err, ErrUnsupported)
	refused(t, plain.NextPeriod(), ErrUnsupported)
}

// The whole seed reaches the library, whether Go keeps it on the stack or on the heap, while the garbage collector runs.
func TestSeedsReproduce(t *testing.T) {
	means := func(last byte) float64 {
		seed := new([32]byte)
		seed[31] = last
		c := NewConfig(2, 1)
		c.Horizon, c.TestSeed = 100_000, seed
		b := must[*Bandit](t)(NewSE(c))
		defer b.Close()
		for {
			d := must[Decision](t)(b.Select())
			if err := b.Update(d.Ticket, 0.5); err != nil {
				t.Fatal(err)
			}
			if mean := must[[]Arm](t)(b.Arms())[0].Mean; !math.IsNaN(mean) {
				return mean
			}
		}
	}
	if a, again, other := means(1), means(1), means(2); a != again || a == other {
		t.Error(a, again, other)
	}
}

func TestEveryStatusHasAnError(t *testing.T) {
	for n := range int32(1000) {
		known := statusName(n) != "unknown status"
		if listed := n == 0 || int(n) < len(statuses) && statuses[n] != nil; known != listed {
			t.Errorf("status %d: known to the library %v, listed here %v", n, known, listed)
		}
	}
	for err, message := range map[error]string{
		check(999): "dpb: unknown status 999",
		check(-1):  "dpb: unknown status -1",
	} {
		if err.Error() != message {
			t.Errorf("%q is not %q", err, message)
		}
	}
}

func TestNothingAllocates(t *testing.T) {
	b := bandit(t, 5)
	counter := counter(t, CounterHybrid, 0, nil)
	stopping := must[*Stopping](t)(NewDPNAS(StoppingConfig{Range: 1, Alpha: 0.5, Beta: 0.1, Epsilon: 1}))
	defer stopping.Close()
	plan := must[ShuffleParams](t)(ShufflePlan(1, 1e-6, 4, false))
	shuffler := must[*Shuffler](t)(NewShuffler(plan))
	defer shuffler.Close()
	message, batch := make([]byte, 0, 1+plan.CoinsPerUser), make([]byte, 0, 4*(1+plan.CoinsPerUser))
	decisions, tickets := make([]Decision, 300), make([]uint64, 300)
	rewards, each := make([]float64, 300), make([]error, 300)
	for name, body := range map[string]func(){
		"select, update": func() {
			d, err := b.Select()
			if err == nil {
				err = b.Update(d.Ticket, 0.5)
			}
			if err != nil {
				t.Error(err)
			}
		},
		"select, cancel": func() {
			d, _ := b.Select()
			if err := b.Cancel(d.Ticket); err != nil {
				t.Error(err)
			}
		},
		"select, cancel all": func() {
			_, _ = b.Select()
			if err := b.CancelAll(); err != nil {
				t.Error(err)
			}
		},
		"advance": func() {
			if err := b.Advance(1); err != ErrUnsupported {
				t.Error(err)
			}
		},
		"refusals": func() {
			if b.Update(0, 0.5) == nil || b.Cancel(1) == nil {
				t.Error("accepted")
			}
		},
		"stopping": func() {
			if _, err := stopping.Push(0); err != nil {
				t.Error(err)
			}
			if _, err := stopping.Mean(); err != ErrNotReady {
				t.Error(err)
			}
		},
		"counter": func() {
			if err := counter.Add(1); err != nil {
				t.Error(err)
			}
			if _, err := counter.Read(); err != nil {
				t.Error(err)
			}
		},
		"shuffler": func() {
			for range plan.Users {
				bits, err := ShuffleEncode(message, plan, 0.5)
				if err != nil {
					t.Error(err)
				}
				if err := shuffler.Push(bits); err != nil {
					t.Error(err)
				}
			}
			if _, err := shuffler.Take(batch); err != nil {
				t.Error(err)
			}
		},
		"local": func() {
			if _, err := LDPEncode(1, 0.5); err != nil {
				t.Error(err)
			}
		},
		"batches": func() {
			if _, err := b.SelectMany(nil, decisions); err != nil {
				t.Error(err)
			}
			for i, d := range decisions {
				tickets[i] = d.Ticket
			}
			if done, err := b.UpdateMany(tickets, rewards, each); done != 300 || err != nil {
				t.Error(done, err)
			}
			if _, err := b.UpdateMany(tickets, rewards, nil); err != ErrDuplicate {
				t.Error(err)
			}
		},
	} {
		if n := testing.AllocsPerRun(200, body); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func TestClose(t *testing.T) {
	b := must[*Bandit](t)(NewSE(NewConfig(2, 1)))
	d := must[Decision](t)(b.Select())
	for range 3 {
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Update(d.Ticket, 1); err != ErrClosed {
		t.Error(err)
	}
	if b.PolicyName() != "" {
		t.Error("a closed bandit has a name")
	}
}

// Every method that can fail returns ErrClosed after Close, whatever its arguments are.
func TestEveryMethodAfterClose(t *testing.T) {
	plan := must[ShuffleParams](t)(ShufflePlan(1, 1e-6, 10, false))
	for _, object := range []io.Closer{
		must[*Bandit](t)(New(NewConfig(2, 1))),
		must[*Stopping](t)(NewNAS(StoppingConfig{Range: 1, Alpha: 0.5, Beta: 0.1})),
		must[*Counter](t)(NewCounter(CounterConfig{Kind: CounterHybrid, Epsilon: 1})),
		must[*Shuffler](t)(NewShuffler(plan)),
	} {
		object.Close()
		value, checked := reflect.ValueOf(object), 0
		for i := range value.NumMethod() {
			name, method := value.Type().Method(i).Name, value.Method(i)
			outs := method.Type().NumOut()
			if name == "Close" || method.Type().Out(outs-1) != reflect.TypeFor[error]() {
				continue
			}
			var zeros []reflect.Value
			for p := range method.Type().NumIn() {
				zeros = append(zeros, reflect.Zero(method.Type().In(p)))
			}
			if err := method.Call(zeros)[outs-1].Interface(); err != ErrClosed {
				t.Errorf("%T.%s after Close: %v", object, name, err)
			}
			checked++
		}
		if checked < 2 {
			t.Errorf("%T: %d methods", object, checked)
		}
	}
}

// Many goroutines use one bandit while another closes it.
func TestCloseWhileInUse(t *testing.T) {
	for range 20 {
		b := must[*Bandit](t)(NewSE(NewConfig(3, 1)))
		var crowd sync.WaitGroup
		var answered atomic.Int64
		for range 8 {
			crowd.Add(1)
			go func() {
				defer crowd.Done()
				for {
					d, err := b.Select()
					if err == nil {
						err = b.Update(d.Ticket, 1)
					}
					if err == ErrClosed {
						return
					}
					// A goroutine may sleep while the others make 4096 decisions.
					if err != nil && err != ErrExpired {
						t.Error(err)
						return
					}
					answered.Add(1)
				}
			}()
		}
		for range 2 {
			crowd.Add(1)
			go func() {
				defer crowd.Done()
				for answered.Load() < 1000 {
					runtime.Gosched()
				}
				b.Close()
			}()
		}
		crowd.Wait()
	}
}

// Many goroutines use each other object while another closes it.
func TestCloseOthersWhileInUse(t *testing.T) {
	plan := must[ShuffleParams](t)(ShufflePlan(1, 1e-6, 10, false))
	message := make([]byte, 1+plan.CoinsPerUser)
	for range 20 {
		stopping := must[*Stopping](t)(NewNAS(StoppingConfig{Range: 1, Alpha: 0.5, Beta: 0.1}))
		counter := must[*Counter](t)(NewCounter(CounterConfig{Kind: CounterHybrid, Epsilon: 1}))
		shuffler := must[*Shuffler](t)(NewShuffler(plan))
		var crowd sync.WaitGroup
		var calls atomic.Int64
		for _, use := range []func() error{
			func() error { _, err := stopping.Push(0); return err },
			func() error { _, err := stopping.Mean(); return err },
			func() error { return counter.Add(1) },
			func() error { _, err := counter.Read(); return err },
			func() error { return shuffler.Push(message) },
			func() error { _, err := shuffler.Take(nil); return err },
		} {
			crowd.Add(1)
			go func() {
				defer crowd.Done()
				for {
					switch err := use(); err {
					case nil, ErrNotReady, ErrExpired:
						calls.Add(1)
					case ErrClosed:
						return
					default:
						t.Error(err)
						return
					}
				}
			}()
		}
		for calls.Load() < 1000 {
			runtime.Gosched()
		}
		for _, object := range []io.Closer{stopping, counter, shuffler} {
			object.Close()
		}
		crowd.Wait()
	}
}

// The garbage collector frees an object that is not closed, once. It does not free a closed one again.
func TestCleanup(t *testing.T) {
	var forgotten, closed atomic.Int64
	func() {
		for range 10 {
			h := new(handle[*int])
			h.own(new(int), func(*int) { forgotten.Add(1) }, 0)
			g := new(handle[*int])
			g.own(new(int), func(*int) { closed.Add(1) }, 0)
			g.Close()
		}
	}()
	for deadline := time.Now().Add(10 * time.Second); forgotten.Load() < 10 && time.Now().Before(deadline); {
		runtime.GC()
		time.Sleep(time.Millisecond)
	}
	if forgotten.Load() != 10 || closed.Load() != 10 {
		t.Errorf("%d forgotten of 10 and %d closed of 10 were freed", forgotten.Load(), closed.Load())
	}
}

// Thousands of bandits are not closed, some with segments, 2 GB in all. The garbage collector sees a few bytes of each, and
// frees them before they take much memory.
func TestForgottenHandlesAreFreed(t *testing.T) {
	held := func() int64 {
		foreign.mu.Lock()
		defer foreign.mu.Unlock()
		return foreign.held
	}
	resident := func() (kilobytes int) {
		status, err := os.ReadFile("/proc/self/status")
		if err != nil {
			t.Skip("no /proc")
		}
		_, rest, _ := strings.Cut(string(status), "VmRSS:")
		fmt.Sscan(rest, &kilobytes)
		return kilobytes
	}
	most, before := 0, resident()
	for i := range 3000 {
		config := NewConfig(2, 1)
		config.PendingCapacity = 1 << 16
		if i%100 == 0 {
			config.MaxSegments = 1000
		}
		must[*Bandit](t)(New(config))
		if i%50 == 0 {
			most = max(most, resident()-before)
		}
	}
	if before == 0 || most > 400<<10 { // memory of an earlier run may be used again, so `most` may be 0
		t.Errorf("%d kB were held", most)
	}
	for end := time.Now().Add(time.Minute); held() > 1<<16 && time.Now().Before(end); {
		runtime.GC() // until the last of them is gone
	}
	kept := must[*Bandit](t)(New(NewConfig(2, 1)))
	with := held()
	kept.Close()
	kept.Close()
	if freed := with - held(); freed != NewConfig(2, 1).bytes() {
		t.Errorf("closed, and %d bytes less", freed)
	}
}

// The garbage collector runs all the time and may free a bandit as soon as its last call is over.
func TestCollectorAtWork(t *testing.T) {
	for range 200 {
		b := must[*Bandit](t)(NewSE(NewConfig(2, 1)))
		ticket := must[Decision](t)(b.Select()).Ticket
		runtime.GC()
		if err := b.Update(ticket, 1); err != nil {
			t.Fatal(err)
		}
	}
}

// Measures a call into C that returns a constant.
func BenchmarkBareCall(b *testing.B) {
	for b.Loop() {
		ABIVersion()
	}
}

// Measures what a method costs in addition to its C function: cgo and the lock.
func BenchmarkCrossing(b *testing.B) {
	bandit := bandit(b, 10)
	for b.Loop() {
		if _, err := bandit.enter(); err != nil {
			b.Fatal(err)
		}
		TicketNode(7)
		bandit.leave()
	}
}

func BenchmarkSelectUpdate(b *testing.B) {
	bandit := bandit(b, 10)
	b.ReportAllocs()
	for b.Loop() {
		d, _ := bandit.Select()
		if err := bandit.Update(d.Ticket, 0.5); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSelect(b *testing.B) {
	bandit := bandit(b, 10)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := bandit.Select(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSelectMany64(b *testing.B) {
	bandit := bandit(b, 10)
	var decisions [64]Decision
	b.ReportAllocs()
	for b.Loop() {
		if _, err := bandit.SelectMany(nil, decisions[:]); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/64, "ns/decision")
}
