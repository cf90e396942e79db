package dpb

import (
	"math"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

func pool(t testing.TB, maxSegments uint32) *Pool {
	t.Helper()
	p := must[*Pool](t)(NewPool(NewConfig(4, 1), maxSegments))
	t.Cleanup(func() { p.Close() })
	return p
}

func TestPool(t *testing.T) {
	_, err := NewPool(NewConfig(4, 1), 0)
	refused(t, err, ErrInvalidConfig)
	if !strings.Contains(err.Error(), "max_segments must be at least 1") {
		t.Error(err)
	}
	config := NewConfig(4, 1)
	config.MinPropensity = 0.1
	_, err = NewPool(config, 2)
	refused(t, err, ErrUnsupported)

	p := pool(t, 2)
	for i, key := range []uint64{70, math.MaxUint64, 70} {
		if segment := must[uint32](t)(p.Segment(key)); segment != uint32(i%2) {
			t.Errorf("segment %d for key %d", segment, key)
		}
	}
	_, err = p.Segment(71)
	refused(t, err, ErrFull)
	_, err = p.Select(2)
	refused(t, err, ErrInvalidConfig)
	_, err = p.SelectAmong(0, []uint32{4})
	refused(t, err, ErrInvalidConfig)
	_, err = p.SelectAmong(0, nil)
	refused(t, err, ErrInvalidConfig)
	_, err = p.Arms(2)
	refused(t, err, ErrInvalidConfig)
	var decisions [3]Decision
	refused(t, p.SelectMany([]uint32{0, 2, 1}, decisions[:]), ErrInvalidConfig)
	refused(t, p.SelectMany([]uint32{0}, decisions[:]), ErrInvalidConfig)
	if decisions[0] != (Decision{}) {
		t.Error(decisions)
	}
	if err := p.SelectMany([]uint32{0, 1, 0}, decisions[:]); err != nil {
		t.Fatal(err)
	}
	if d := must[Decision](t)(p.SelectAmong(1, []uint32{3})); d.Arm != 3 || !math.IsNaN(d.Propensity) {
		t.Errorf("%+v", d)
	}
	refused(t, p.Update(decisions[0].Ticket, 2), ErrInvalidReward)
	refused(t, p.Update(decisions[0].Ticket, 1), nil)
	refused(t, p.Update(decisions[0].Ticket, 1), ErrDuplicate)
	refused(t, p.Cancel(decisions[1].Ticket), nil)
	refused(t, p.Cancel(5), ErrUnknownTicket)
	each := make([]error, 2)
	done, err := p.UpdateMany([]uint64{decisions[1].Ticket, decisions[2].Ticket}, []float64{1, 0}, each)
	if done != 1 || err != ErrDuplicate || each[0] != ErrDuplicate || each[1] != nil {
		t.Error(done, err, each)
	}
	_, err = p.UpdateMany(make([]uint64, 2), nil, nil)
	refused(t, err, ErrInvalidConfig)
	want := PoolReport{Segments: 2, MaxSegments: 2, Arms: 4, Pending: 1, Decisions: 4, Answered: 2, Cancelled: 1, IsPrivate: true}
	if report := must[PoolReport](t)(p.Report()); report != want {
		t.Errorf("%+v", report)
	}
	if d := must[Diagnostics](t)(p.Diagnostics()); d != (Diagnostics{Duplicates: 2, Rejected: 1, Unknown: 1}) {
		t.Errorf("%+v", d)
	}
	arms := must[[]Arm](t)(p.Arms(1))
	if a := arms[3]; len(arms) != 4 || a.Pulls != 1 || !a.Active || !math.IsNaN(a.Width) || a.Mean <= 0 || a.EffectivePulls != 0 {
		t.Errorf("%+v", arms)
	}
}

// Everybody once a period, whichever the segments.
func TestPoolUsers(t *testing.T) {
	config := NewConfig(4, 1)
	config.Users = 1000
	p := must[*Pool](t)(NewPool(config, 2))
	defer p.Close()
	must[uint32](t)(p.Segment(8))
	must[uint32](t)(p.Segment(9))
	play := func() PoolReport {
		for user := range uint64(500) {
			d, err := p.SelectFor(uint32(user%2), user)
			if user%3 == 0 {
				d, err = p.SelectAmongFor(uint32(user%2), user, []uint32{0, 1})
			}
			if err != nil || p.Update(d.Ticket, 1) != nil {
				t.Fatal(err)
			}
		}
		return must[PoolReport](t)(p.Report())
	}
	first, second := play(), play()
	if first.Releases < 2 || second.Releases != first.Releases {
		t.Error(first, second)
	}
	if err := p.NextPeriod(); err != nil {
		t.Fatal(err)
	}
	if third := play(); third.Releases <= second.Releases || third.EpsilonSpent != 2*second.EpsilonSpent {
		t.Error(second, third)
	}
	_, err := p.Select(0)
	refused(t, err, ErrUnsupported)
	_, err = p.SelectFor(2, 1)
	refused(t, err, ErrInvalidConfig)
	_, err = p.SelectAmongFor(0, 1, nil)
	refused(t, err, ErrInvalidConfig)
	plain := pool(t, 1)
	must[uint32](t)(plain.Segment(1))
	_, err = plain.SelectFor(0, 1)
	refused(t, err, ErrUnsupported)
	refused(t, plain.NextPeriod(), ErrUnsupported)
}

func TestPoolSnapshot(t *testing.T) {
	p := pool(t, 2)
	must[uint32](t)(p.Segment(9))
	must[uint32](t)(p.Segment(8))
	for range 1000 {
		d := must[Decision](t)(p.Select(1))
		if err := p.Update(d.Ticket, float64(d.Arm%2)); err != nil {
			t.Fatal(err)
		}
	}
	bytes := must[[]byte](t)(p.Snapshot([]byte("before")))
	if string(bytes[:9]) != "beforedpb" {
		t.Fatal(bytes)
	}
	next := must[*Pool](t)(RestorePool(bytes[6:]))
	defer next.Close()
	if report := must[PoolReport](t)(next.Report()); report.Answered != 1000 || report.EpsilonSpent != 1 {
		t.Errorf("%+v", report)
	}
	if must[uint32](t)(next.Segment(8)) != 1 || must[[]Arm](t)(next.Arms(1))[1].Pulls != must[[]Arm](t)(p.Arms(1))[1].Pulls {
		t.Error("another segment")
	}
	larger := must[*Pool](t)(RestorePoolAs(NewConfig(4, 1), 3, bytes[6:]))
	defer larger.Close()
	if must[uint32](t)(larger.Segment(7)) != 2 {
		t.Error("it has not grown")
	}
	_, err := RestorePoolAs(NewConfig(4, 2), 3, bytes[6:])
	refused(t, err, ErrInvalidConfig)
	if !strings.Contains(err.Error(), "epsilon must be 1, as in the snapshot, got 2") {
		t.Error(err)
	}
	for _, wrong := range [][]byte{nil, bytes, bytes[6 : len(bytes)-1]} {
		_, err := RestorePool(wrong)
		refused(t, err, ErrCorrupt)
	}
	_, err = Restore(bytes[6:])
	refused(t, err, ErrCorrupt)
}

// What others know of a segment is there once it is asked for, and told to nobody.
func TestPoolMerge(t *testing.T) {
	there, here := pool(t, 2), pool(t, 1)
	must[uint32](t)(there.Segment(8))
	must[uint32](t)(there.Segment(9))
	for i := range 1000 {
		d := must[Decision](t)(there.Select(uint32(i % 2)))
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
	must[uint32](t)(here.Segment(9))
	ours, theirs := must[[]Arm](t)(here.Arms(0)), must[[]Arm](t)(there.Arms(1))
	if ours[1].EffectivePulls != theirs[1].EffectivePulls || ours[1].EffectivePulls == 0 {
		t.Error(ours, theirs)
	}
	alone := must[*Pool](t)(RestorePool(must[[]byte](t)(here.Snapshot(nil))))
	defer alone.Close()
	if arms := must[[]Arm](t)(alone.Arms(0)); arms[1].EffectivePulls != 0 {
		t.Error(arms)
	}
	refused(t, here.Merge(snapshot[1:]), ErrCorrupt)
	other := must[*Pool](t)(NewPool(NewConfig(4, 2), 1))
	defer other.Close()
	if err := other.Merge(snapshot); err == nil || !strings.Contains(err.Error(), "epsilon must be") {
		t.Error(err)
	}
}

func TestPoolAllocatesNothing(t *testing.T) {
	p := pool(t, 1000)
	key := uint64(0)
	segments, decisions, tickets := make([]uint32, 300), make([]Decision, 300), make([]uint64, 300)
	rewards, each, some := make([]float64, 300), make([]error, 300), []uint32{1, 2}
	if n := testing.AllocsPerRun(200, func() {
		key++
		segment, err := p.Segment(key)
		if err != nil {
			t.Error(err)
		}
		for range 20 {
			d, err := p.Select(segment)
			if err != nil || p.Update(d.Ticket, 0.5) != nil {
				t.Error(err)
			}
		}
		if d, err := p.SelectAmong(segment, some); err != nil || p.Cancel(d.Ticket) != nil {
			t.Error(err)
		}
		for i := range segments {
			segments[i] = uint32(i) % uint32(key)
		}
		if err := p.SelectMany(segments, decisions); err != nil {
			t.Error(err)
		}
		for i, d := range decisions {
			tickets[i] = d.Ticket
		}
		if done, err := p.UpdateMany(tickets, rewards, each); done != 300 || err != nil {
			t.Error(done, err)
		}
		if _, err := p.UpdateMany(tickets, rewards, nil); err != ErrDuplicate {
			t.Error(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Many goroutines name segments, ask and answer, while others read, and it is closed under their hands.
func TestPoolInManyHands(t *testing.T) {
	for range 5 {
		p := pool(t, 64)
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
				segment, err := p.Segment(uint64(i*7) % 64)
				if err != nil {
					return err
				}
				d, err := p.Select(segment)
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
