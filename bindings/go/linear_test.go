package dpb

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"
)

// There are two kinds of visitors, and each likes one ad.
// Features that are private too: the codebook, refusals, and what no report shows.
func TestPrivateFeatures(t *testing.T) {
	book := must[[]float32](t)(Codebook(nil, 2, 4))
	if fmt.Sprint(book) != "[1 0 -1 0 0 1 0 -1]" {
		t.Fatal(book)
	}
	if means := must[[]float32](t)(Codebook([]float32{1, 0, 0, 1, 1, 1}, 2, 2)); len(means) != 4 {
		t.Fatal(means)
	}
	for _, wrong := range []struct {
		rows          []float32
		features, len uint32
	}{{nil, 2, 3}, {nil, 0, 0}, {book, 2, 5}, {book[1:], 2, 1}, {book, 2, 0}} {
		_, err := Codebook(wrong.rows, wrong.features, wrong.len)
		refused(t, err, ErrInvalidConfig)
	}
	c := NewConfig(3, 2)
	c.Features, c.ModelPerArm, c.PrivateFeatures, c.RewardWindow = 2, true, true, 10
	for _, wrong := range [][]float32{nil, book[1:]} {
		c.Codebook = wrong
		_, err := New(c)
		refused(t, err, ErrInvalidConfig)
	}
	c.Codebook = book
	b := must[*Bandit](t)(New(c))
	defer b.Close()
	for i := range 2000 {
		d := must[Decision](t)(b.SelectFor(Request{Features: []float32{float32(i%2) - 0.5, 0}}))
		if !math.IsNaN(d.Propensity) {
			t.Fatal(d)
		}
		if err := b.Update(d.Ticket, float64(d.Arm/2)); err != nil {
			t.Fatal(err)
		}
	}
	report := must[Report](t)(b.Report())
	arms := must[[]Arm](t)(b.Arms())
	if report.Answered != 1990 || report.Cancelled != 0 || arms[0].Pulls != 0 || arms[2].EffectivePulls <= 0 {
		t.Fatal(report, arms)
	}
}

func TestFeatures(t *testing.T) {
	c := NewConfig(4, 4)
	c.Features, c.ModelPerArm, c.Exploration, c.TestSeed = 3, true, 0.1, new([32]byte)
	b := must[*Bandit](t)(New(c))
	defer b.Close()
	coins, kinds := rand.New(rand.NewPCG(1, 2)), [][]float32{{1, 0, 0}, {0, 1, 0}}
	play := func(rounds int, sparse bool) float64 {
		liked := 0
		for range rounds {
			kind := coins.IntN(2)
			request := Request{Features: kinds[kind]}
			if sparse {
				request = Request{Sparse: []Feature{{uint32(kind), 1}}, SparseEnds: []uint32{1}}
			}
			d, err := b.SelectFor(request)
			if err != nil {
				t.Fatal(err)
			}
			rate := 0.1
			if int(d.Arm)%2 == kind {
				rate, liked = 0.4, liked+1
			}
			reward := 0.0
			if coins.Float64() < rate {
				reward = 1
			}
			if err := b.Update(d.Ticket, reward); err != nil {
				t.Fatal(err)
			}
		}
		return float64(liked) / float64(rounds)
	}
	play(20_000, false)
	if share := play(5000, true); share < 0.9 {
		t.Errorf("%v of them liked it", share)
	}
	if low, high, err := b.Lift(NoArm, 0.95); err != nil || low <= 0 || high > 3 {
		t.Errorf("lift %v..%v %v", low, high, err)
	}
	weights := must[[]Prediction](t)(b.FeatureWeights(0))
	if len(weights) != 4 || weights[0].Mean-weights[1].Mean < 2*weights[0].Deviation || weights[0].Deviation <= 0 {
		t.Errorf("%v", weights)
	}
	_, noArm := b.FeatureWeights(4)
	refused(t, noArm, ErrInvalidRequest)
	if err := b.RetireArm(3); err != nil {
		t.Fatal(err)
	}
	said := must[[]Prediction](t)(b.Predict(Request{Features: kinds[0]}))
	if len(said) != 4 || !math.IsNaN(said[3].Mean) {
		t.Fatalf("%v", said)
	}
	for arm, rate := range []float64{0.4, 0.1, 0.4} {
		if math.Abs(said[arm].Mean-rate) > 4*said[arm].Deviation {
			t.Errorf("arm %d: %v", arm, said[arm])
		}
	}
	// Of two arms that are equally good, the policy may play only one.
	best := max(said[0].Mean, said[2].Mean)
	if !(best > 0.35 && best > said[1].Mean && min(said[0].Deviation, said[2].Deviation) < 0.03) {
		t.Errorf("%v", said)
	}
	some := must[[]Prediction](t)(b.Predict(Request{Features: kinds[0], Eligible: []uint32{1, 0}}))
	if len(some) != 2 || some[0] != said[1] || some[1] != said[0] || !(some[0].Deviation > 0) {
		t.Errorf("%v, not %v", some, said)
	}
	report := must[Report](t)(b.Report())
	if report.Policy != PolicyLinear || report.Features != 3 || !report.ModelPerArm || report.Failures != 0 {
		t.Errorf("%+v", report)
	}
	request := Request{Features: kinds[0], Eligible: []uint32{0, 1}}
	var decisions [1]Decision
	if n := testing.AllocsPerRun(100, func() { _ = b.SelectSlots(request, decisions[:]) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// One model for all arms, with a row for each arm: many requests at a time, and requests that are refused.
func TestRows(t *testing.T) {
	c := NewConfig(3, 1)
	c.Features = 2
	b := must[*Bandit](t)(NewLinear(c))
	_, _, withoutExploration := b.Lift(NoArm, 0.95)
	refused(t, withoutExploration, ErrUnsupported)
	defer b.Close()
	rows := []float32{1, 0, 0, 1, 1, 1}
	requests := []Request{
		{Features: rows},
		{Features: rows[:4], Eligible: []uint32{2, 0}},
		{Features: rows, Slots: 3},
		{Sparse: []Feature{{0, 1}, {1, 1}}, SparseEnds: []uint32{1, 2, 2}},
	}
	decisions := make([]Decision, 6)
	if n, err := b.SelectMany(requests, decisions); n != 4 || err != nil {
		t.Fatal(n, err)
	}
	if d := decisions; d[1].Arm == 1 || d[2].Arm+d[3].Arm+d[4].Arm != 3 {
		t.Errorf("%v", d)
	}
	nan := float32(math.NaN())
	for _, request := range []Request{
		{}, {Features: []float32{}}, {Features: rows[:5]}, {Features: rows[:4]}, {Features: []float32{1, 0, 0, nan, 1, 1}},
		{Features: rows, Eligible: []uint32{1}}, {Features: rows, Eligible: []uint32{}}, {Features: rows, Slots: 4},
		{Sparse: []Feature{{0, 1}}}, {Sparse: []Feature{{0, 1}}, SparseEnds: []uint32{}},
		{Sparse: []Feature{{0, 1}}, SparseEnds: []uint32{0, 0, 2}}, {Sparse: []Feature{{2, 1}}, SparseEnds: []uint32{0, 0, 1}},
		{Sparse: []Feature{{0, 1}}, SparseEnds: []uint32{1}}, {Features: rows, SparseEnds: []uint32{0, 0, 0}},
	} {
		_, err := b.SelectFor(request)
		if request.Slots > 1 {
			err = b.SelectSlots(request, make([]Decision, request.Slots))
		}
		refused(t, err, ErrInvalidRequest)
		_, err = b.Predict(request)
		if request.Slots == 0 {
			refused(t, err, ErrInvalidRequest)
		}
		_, err = b.SelectMany([]Request{request}, make([]Decision, request.slots()))
		refused(t, err, ErrInvalidRequest)
	}
	_, err := b.Select()
	refused(t, err, ErrUnsupported)
	if report := must[Report](t)(b.Report()); report.Decisions != 6 {
		t.Errorf("%+v", report)
	}
}

// Another goroutine adds arms while predictions are read: C never writes more predictions than there is memory for, and all
// that it writes are returned. A request has a row for each arm, so it is refused if their number is another one by then.
func TestPredictWhileArmsAreAdded(t *testing.T) {
	const most = 200
	c := NewConfig(2, 1)
	c.Features = 1
	b := must[*Bandit](t)(New(c))
	defer b.Close()
	var tries, added atomic.Uint32
	added.Store(2)
	done := make(chan error)
	go func() {
		for added.Load() < most {
			// An arm for each try, at some time during it.
			for seen := tries.Load(); tries.Load() == seen; {
				runtime.Gosched()
			}
			if _, err := b.AddArm(0); err != nil {
				done <- err
				return
			}
			added.Add(1)
		}
		done <- nil
	}()
	rows, read := make([]float32, 2*most), 0
	for running := true; running; {
		n := int(added.Load() + tries.Add(1)%2) // sometimes a row for an arm that there will be
		predictions, err := b.Predict(Request{Features: rows[:n]})
		if err == nil {
			read++
			if len(predictions) != n || predictions[n-1].Deviation == 0 {
				t.Fatalf("%d predictions for %d rows", len(predictions), n)
			}
		} else {
			refused(t, err, ErrInvalidRequest)
		}
		select {
		case err := <-done:
			running = false
			if err != nil {
				t.Error(err)
			}
		default:
		}
	}
	if predictions := must[[]Prediction](t)(b.Predict(Request{Features: rows[:most]})); len(predictions) != most || read == 0 {
		t.Error(len(predictions), read)
	}
}

// A message names Go's fields and values.
func TestMessagesNameFields(t *testing.T) {
	c := NewConfig(3, 1)
	c.Features, c.ModelPerArm = 2, true
	b := must[*Bandit](t)(New(c))
	defer b.Close()
	snapshot := must[[]byte](t)(b.Snapshot(nil))
	c.ModelPerArm = false
	_, shared := RestorePolicy(PolicyLinear, c, snapshot)
	c.ModelPerArm, c.MaxSegments = true, 5
	_, both := New(c)
	rows := []float32{1, 0}
	for _, that := range []struct {
		err  error
		want string
	}{
		{shared, "dpb: invalid configuration: ModelPerArm must be true, as in the snapshot, got false"},
		{both, "dpb: invalid configuration: MaxSegments must be 0: dp-linear does not use it, got 5"},
		{b.CheckRequest(Request{}), "dpb: invalid request: Features must be set: Config.Features is not 0, got nil"},
		{b.CheckRequest(Request{Features: rows[:1]}), "dpb: invalid request: len(Features) must be 2 for this request, got 1"},
		{b.CheckRequest(Request{Features: rows, Eligible: []uint32{4}}), "dpb: invalid request: Eligible must be below 3, got 4"},
		{b.CheckRequest(Request{Features: rows, Eligible: []uint32{}}), "dpb: invalid request: len(Eligible) must be at least 1, got 0"},
		{b.CheckRequest(Request{Features: rows, Slots: 4}), "dpb: invalid request: Slots must be at most 3, the number of eligible arms, got 4"},
		{b.CheckRequest(Request{Features: rows, User: 9}), "dpb: unsupported: this configuration does not support user 9: Config.ExpectedUsers is 0"},
	} {
		if that.err == nil || that.err.Error() != that.want {
			t.Errorf("%v, want %s", that.err, that.want)
		}
	}
	if err := b.CheckRequest(Request{Features: rows, Slots: 3}); err != nil {
		t.Error(err)
	}
	if report := must[Report](t)(b.Report()); report.Decisions != 0 {
		t.Errorf("%+v", report)
	}
}

func TestHashes(t *testing.T) {
	phone, nothing := must[uint32](t)(FeatureHash("device", "phone", 1000)), must[uint32](t)(FeatureHash("", "", 0))
	if phone != 627 || nothing != 0 || FeatureCross(3, 5, 1000) != 584 {
		t.Error(phone, nothing, FeatureCross(3, 5, 1000))
	}
	for _, text := range [][2]string{{"device", "pho\x00ne"}, {"\x00", "phone"}} {
		if index, err := FeatureHash(text[0], text[1], 1000); index != 0 || !errors.Is(err, ErrInvalidRequest) {
			t.Error(index, err)
		}
	}
}
