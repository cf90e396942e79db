package dpb

import (
	"math"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

func segmented(t testing.TB, config Config, maxSegments uint32) *Bandit {
	t.Helper()
	config.MaxSegments = maxSegments
	b := must[*Bandit](t)(New(config))
	t.Cleanup(func() { b.Close() })
	return b
}

// Several slots, new and retired arms, and exact propensities work as without segments.
func TestSegmentsDoWhatABanditDoes(t *testing.T) {
	config := NewConfig(4, 1)
	config.Exploration = 0.2
	b := segmented(t, config, 2)
	shown := make([]Decision, 3)
	refused(t, b.SelectSlots(Request{Slots: 3, Segment: 70}, shown), nil)
	if shown[0].Arm == shown[1].Arm || shown[0].Arm == shown[2].Arm || shown[1].Arm == shown[2].Arm {
		t.Error(shown)
	}
	if d := must[Decision](t)(b.SelectFor(Request{Segment: 70})); d.Propensity < 0.05 || d.Propensity > 1 {
		t.Error(d)
	}
	if arm := must[uint32](t)(b.AddArm(4711)); arm != 4 {
		t.Error(arm)
	}
	refused(t, b.RetireArm(0), nil)
	refused(t, b.RetireArm(0), ErrInvalidRequest)
}

func TestSegments(t *testing.T) {
	config := NewConfig(4, 1)
	config.MaxSegments = 2
	_, err := NewMED(config)
	refused(t, err, ErrInvalidConfig)
	if !strings.Contains(err.Error(), "MaxSegments must be 0") {
		t.Error(err)
	}

	b := segmented(t, NewConfig(4, 1), 2)
	_, err = b.Select()
	refused(t, err, ErrUnsupported)
	_, err = b.SelectFor(Request{Segment: 70, Eligible: []uint32{4}})
	refused(t, err, ErrInvalidRequest)
	refused(t, b.SelectSlots(Request{Slots: 5, Segment: 70}, make([]Decision, 5)), ErrInvalidRequest)
	_, err = b.Segment(70)
	refused(t, err, ErrInvalidRequest)
	decisions := make([]Decision, 3)
	done, err := b.SelectMany([]Request{{Segment: 70}, {Segment: math.MaxUint64}, {Segment: 71}}, decisions)
	refused(t, err, ErrFull)
	if done != 2 || decisions[2] != (Decision{}) {
		t.Error(done, decisions)
	}
	refused(t, b.Cancel(decisions[0].Ticket), nil)
	refused(t, b.Cancel(decisions[1].Ticket), nil)
	must[int](t)(b.SelectMany([]Request{{Segment: 70}, {Segment: math.MaxUint64}, {Segment: 70}}, decisions))
	if d := must[Decision](t)(b.SelectFor(Request{Segment: math.MaxUint64, Eligible: []uint32{3}})); d.Arm != 3 || d.Propensity != 1 {
		t.Errorf("%+v", d)
	}
	refused(t, b.Update(decisions[0].Ticket, 1), nil)
	refused(t, b.Update(decisions[0].Ticket, 1), ErrDuplicate)
	refused(t, b.Cancel(decisions[1].Ticket), nil)
	want := Report{
		Policy: PolicyIMED, ArmsActive: 4, Pending: 2, Decisions: 6, Answered: 1, Cancelled: 3, IsPrivate: true,
		Segments: 2, MaxSegments: 2, EpsilonLimit: 1, EpsilonLeft: 1,
	}
	if report := must[Report](t)(b.Report()); report != want {
		t.Errorf("%+v", report)
	}
	arms := must[[]Arm](t)(b.Segment(math.MaxUint64))
	if a := arms[3]; len(arms) != 4 || a.Pulls != 1 || !a.Active || !math.IsNaN(a.Width) || a.Mean <= 0 || a.EffectivePulls != 0 {
		t.Errorf("%+v", arms)
	}
	if all := must[[]Arm](t)(b.Arms()); len(all) != 4 || all[3].Pulls < 1 {
		t.Errorf("%+v", all)
	}
}

// Each user contributes one reward in a period, in whatever segments.
func TestSegmentsWithUsers(t *testing.T) {
	config := NewConfig(4, 1)
	config.ExpectedUsers = 1000
	b := segmented(t, config, 2)
	play := func() Report {
		for user := range uint64(500) {
			request := Request{Segment: user % 2, User: user}
			if user%3 == 0 {
				request.Eligible = []uint32{0, 1}
			}
			d, err := b.SelectFor(request)
			if err != nil || b.Update(d.Ticket, 1) != nil {
				t.Fatal(err)
			}
		}
		return must[Report](t)(b.Report())
	}
	first, second := play(), play()
	if first.Phase < 2 || second.Phase != first.Phase {
		t.Error(first, second)
	}
	if err := b.NextPeriod(); err != nil {
		t.Fatal(err)
	}
	if err := b.Stored(must[[]byte](t)(b.Snapshot(nil))); err != nil {
		t.Fatal(err)
	}
	if third := play(); third.Phase <= second.Phase || third.EpsilonSpent != 2*second.EpsilonSpent {
		t.Error(second, third)
	}
	_, err := b.SelectFor(Request{Segment: 2, User: 1})
	refused(t, err, ErrFull)
	plain := segmented(t, NewConfig(4, 1), 1)
	_, err = plain.SelectFor(Request{User: 1})
	refused(t, err, ErrUnsupported)
	refused(t, plain.NextPeriod(), ErrUnsupported)
}

func TestSegmentsSnapshot(t *testing.T) {
	b := segmented(t, NewConfig(4, 1), 2)
	for i := range 1000 {
		d := must[Decision](t)(b.SelectFor(Request{Segment: 8 + uint64(i%2)}))
		if err := b.Update(d.Ticket, float64(d.Arm%2)); err != nil {
			t.Fatal(err)
		}
	}
	bytes := must[[]byte](t)(b.Snapshot([]byte("before")))
	if string(bytes[:9]) != "beforedpb" {
		t.Fatal(bytes)
	}
	next := must[*Bandit](t)(Restore(bytes[6:]))
	defer next.Close()
	if report := must[Report](t)(next.Report()); report.Answered != 1000 || report.EpsilonSpent != 1 || report.Segments != 2 {
		t.Errorf("%+v", report)
	}
	if must[[]Arm](t)(next.Segment(8))[1].Pulls != must[[]Arm](t)(b.Segment(8))[1].Pulls {
		t.Error("another segment")
	}
	config := NewConfig(4, 1)
	config.MaxSegments = 3
	larger := must[*Bandit](t)(RestorePolicy(PolicyIMED, config, bytes[6:]))
	defer larger.Close()
	must[Decision](t)(larger.SelectFor(Request{Segment: 7}))
	config.Epsilon = 2
	_, err := RestorePolicy(PolicyIMED, config, bytes[6:])
	refused(t, err, ErrInvalidConfig)
	if !strings.Contains(err.Error(), "Epsilon must be 1, as in the snapshot, got 2") {
		t.Error(err)
	}
	for _, wrong := range [][]byte{nil, bytes, bytes[6 : len(bytes)-1]} {
		_, err := Restore(wrong)
		refused(t, err, ErrCorrupt)
	}
}

// The first request with a key begins the segment with the releases of other bandits. A snapshot does not contain them.
func TestSegmentsMerge(t *testing.T) {
	there, here := segmented(t, NewConfig(4, 1), 2), segmented(t, NewConfig(4, 1), 1)
	for i := range 1000 {
		d := must[Decision](t)(there.SelectFor(Request{Segment: 8 + uint64(i%2)}))
		if err := there.Update(d.Ticket, float64(d.Arm%2)); err != nil {
			t.Fatal(err)
		}
	}
	snapshot := must[[]byte](t)(there.Snapshot(nil))
	for range 2 {
		if err := here.Merge(snapshot); err != nil {
			t.Fatal(err)
		}
	}
	must[Decision](t)(here.SelectFor(Request{Segment: 9}))
	ours, theirs := must[[]Arm](t)(here.Segment(9)), must[[]Arm](t)(there.Segment(9))
	if ours[1].EffectivePulls != theirs[1].EffectivePulls || ours[1].EffectivePulls == 0 {
		t.Error(ours, theirs)
	}
	alone := must[*Bandit](t)(Restore(must[[]byte](t)(here.Snapshot(nil))))
	defer alone.Close()
	if arms := must[[]Arm](t)(alone.Segment(9)); arms[1].EffectivePulls != 0 {
		t.Error(arms)
	}
	refused(t, here.Merge(snapshot[1:]), ErrCorrupt)
	other := segmented(t, NewConfig(4, 2), 1)
	if err := other.Merge(snapshot); err == nil || !strings.Contains(err.Error(), "Epsilon must be") {
		t.Error(err)
	}
}

func TestSegmentsAllocateNothing(t *testing.T) {
	b := segmented(t, NewConfig(4, 1), 1000)
	key := uint64(0)
	requests, decisions, tickets := make([]Request, 300), make([]Decision, 300), make([]uint64, 300)
	rewards, each, some := make([]float64, 300), make([]error, 300), []uint32{1, 2}
	if n := testing.AllocsPerRun(200, func() {
		key++
		for range 20 {
			d, err := b.SelectFor(Request{Segment: key})
			if err != nil || b.Update(d.Ticket, 0.5) != nil {
				t.Error(err)
			}
		}
		if d, err := b.SelectFor(Request{Segment: key, Eligible: some}); err != nil || b.Cancel(d.Ticket) != nil {
			t.Error(err)
		}
		for i := range requests {
			requests[i].Segment = uint64(i) % key
		}
		if _, err := b.SelectMany(requests, decisions); err != nil {
			t.Error(err)
		}
		for i, d := range decisions {
			tickets[i] = d.Ticket
		}
		if done, err := b.UpdateMany(tickets, rewards, each); done != 300 || err != nil {
			t.Error(done, err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Many goroutines begin segments, decide and report rewards while others read and one closes the bandit.
func TestSegmentsInManyGoroutines(t *testing.T) {
	for range 5 {
		p := segmented(t, NewConfig(4, 1), 64)
		var crowd sync.WaitGroup
		var answered atomic.Int64
		use := func(call func(t int) error) {
			crowd.Add(1)
			go func() {
				defer crowd.Done()
				for i := 0; ; i++ {
					switch err := call(i); err {
					case nil, ErrExpired: // a goroutine may sleep while the others make 4096 decisions
					case ErrClosed:
						return
					default:
						t.Error(err)
						return
					}
				}
			}()
		}
		for range 6 {
			use(func(i int) error {
				d, err := p.SelectFor(Request{Segment: uint64(i*7) % 64})
				if err == nil {
					err = p.Update(d.Ticket, float64(i%2))
				}
				answered.Add(1)
				return err
			})
		}
		use(func(int) error {
			r, err := p.Report()
			if r.Decisions != r.Answered+r.Cancelled+r.Expired+uint64(r.Pending) {
				t.Errorf("%+v", r)
			}
			return err
		})
		use(func(int) error { _, err := p.Snapshot(nil); return err })
		for answered.Load() < 2000 {
			runtime.Gosched()
		}
		p.Close()
		crowd.Wait()
	}
}
