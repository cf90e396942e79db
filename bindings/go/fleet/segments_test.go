package fleet

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	dpb "github.com/libdpb/libdpb/bindings/go"
)

// The keys of segments. Visitors of node 2 never request the last one.
var keys = []uint64{3, 1 << 60, 77}

func segmented(node uint16) dpb.Config {
	config := config(node)
	config.MaxSegments, config.ExpectedUsers, config.ContributionsPerUser = 8, 1000, 2
	return config
}

// look makes a decision in each of these segments for each person. In each segment another arm has reward 1.
func look(bandit *dpb.Bandit, people uint64, keys ...uint64) {
	for user := range people {
		for i, key := range keys {
			d := must(bandit.SelectFor(dpb.Request{Segment: key, User: user/2 + 1 + uint64(i)<<32}))
			reward := 0.0
			if int(d.Arm) == i%3 {
				reward = 1
			}
			check(bandit.Update(d.Ticket, reward))
		}
	}
}

// rewardsOf returns the number of rewards in all releases that a bandit knows, for each arm of each segment. It returns
// nil if the bandit does not have all segments.
func rewardsOf(bandit *dpb.Bandit) (all []float64) {
	for _, key := range keys {
		arms, err := bandit.Segment(key)
		if errors.Is(err, dpb.ErrInvalidRequest) {
			return nil
		}
		for _, arm := range must(arms, err) {
			all = append(all, arm.EffectivePulls)
		}
	}
	return all
}

func same(x, y []float64) bool {
	if len(x) != len(y) || len(x) == 0 {
		return false
	}
	for i := range x {
		if math.Abs(x[i]-y[i]) > 1e-6*x[i] {
			return false
		}
	}
	return true
}

// Nodes with segments know the same about each segment, each reward once. A reward reaches the node that decided.
func TestNodesWithSegmentsAgree(t *testing.T) {
	server := startRedis(t)
	join := func(number uint16) running {
		return run(t, server.address, Options{Config: segmented(number), Interval: interval})
	}
	a, b := join(1), join(2)
	look(a.Bandit, 2000, keys...)
	look(b.Bandit, 1000, keys[:2]...)
	check(b.Bandit.Cancel(must(b.Bandit.SelectFor(dpb.Request{Segment: keys[2], User: 1})).Ticket))
	agreed := func(nodes ...running) func() bool {
		return func() bool {
			var sum []float64
			for _, node := range []running{a, b} {
				// A node's own snapshot has only its own releases.
				own := must(dpb.Restore(must(node.Bandit.Snapshot(nil))))
				for i, x := range rewardsOf(own) {
					if sum == nil {
						sum = make([]float64, 3*len(keys))
					}
					sum[i] += x
				}
				own.Close()
			}
			for _, node := range nodes {
				if !same(rewardsOf(node.Bandit), sum) {
					return false
				}
			}
			return true
		}
	}
	eventually(t, "both know the same", agreed(a, b))
	if known := rewardsOf(b.Bandit); known[6]+known[7]+known[8] < 500 {
		t.Error("b does not know the segment that only a has used:", known)
	}

	before := b.Metrics().Received
	ticket := must(b.Bandit.SelectFor(dpb.Request{Segment: keys[0], User: 1 << 40})).Ticket
	eventually(t, "a accepts the reward", func() bool { return a.Update(ticket, 1) == nil })
	eventually(t, "b receives the reward", func() bool { return b.Metrics().Received == before+1 })
	if err := b.Bandit.Update(ticket, 1); !errors.Is(err, dpb.ErrDuplicate) {
		t.Error(err)
	}

	// A plain bandit of the same name is incompatible.
	plain := config(3)
	plain.ContributionsPerUser = 2
	c := run(t, server.address, Options{Config: plain, Interval: interval})
	eventually(t, "they refuse each other", func() bool {
		return a.Metrics().Incompatible == 1 && c.Metrics().Incompatible == 2
	})
}

// A period is in the store before the next exchange.
func TestPeriodsAreKept(t *testing.T) {
	server := startRedis(t)
	store := storeAt(server.address)
	defer store.Close()
	ctx := context.Background()
	node := run(t, server.address, Options{Config: segmented(1), Interval: time.Hour})
	eventually(t, "the first exchange", func() bool { return node.Metrics().Exchanges == 1 })
	look(node.Bandit, 2000, keys...)
	check(node.NextPeriod())
	spent := must(node.Bandit.EpsilonSpent(0))
	eventually(t, "the store knows", func() bool {
		bandit := must(dpb.Restore(must(store.List(ctx, 1))[0].Bytes))
		defer bandit.Close()
		return must(bandit.EpsilonSpent(0)) > spent // restoring begins one more period
	})
	if spent < 1.9 {
		t.Error(spent)
	}
}

// away is a store that refuses to keep anything, while it is away.
type away struct {
	*memory
	is bool
}

func (a *away) Put(ctx context.Context, member Member, s Snapshot, news bool) (bool, error) {
	if a.is {
		return false, errors.New("away")
	}
	return a.memory.Put(ctx, member, s, news)
}

// A period is learned from when the store has it, not when its snapshot was made.
func TestPeriodsAreStored(t *testing.T) {
	ctx, store := context.Background(), &away{memory: newMemory()}
	node := must(Join(ctx, Options{Store: store, Config: segmented(1)}))
	defer node.Bandit.Close()
	heard := func() bool {
		before := must(node.Bandit.Report()).Phase
		look(node.Bandit, 2000, keys...)
		return must(node.Bandit.Report()).Phase > before
	}
	if !heard() || heard() {
		t.Error("the first period")
	}
	store.is = true
	check(node.NextPeriod())
	if node.put(ctx) == nil || heard() {
		t.Error("a period that is not stored")
	}
	store.is = false
	check(node.put(ctx))
	if !heard() {
		t.Error("the second period")
	}
	// The next process counts it too.
	next := must(Join(ctx, Options{Store: store, Config: segmented(1)}))
	defer next.Bandit.Close()
	if spent := must(next.Bandit.EpsilonSpent(0)); spent < 2.9 {
		t.Error(spent)
	}
}

// A node continues from a bandit that was restored from a file, unless the store has a newer snapshot.
func TestFileOrStore(t *testing.T) {
	server := startRedis(t)
	store := storeAt(server.address)
	defer store.Close()
	ctx := context.Background()
	join := func(bandit *dpb.Bandit) *Node {
		return must(Join(ctx, Options{Store: store, Config: segmented(1), Bandit: bandit}))
	}
	restored := func(bytes []byte) *dpb.Bandit { return must(dpb.RestorePolicy(dpb.PolicyIMED, segmented(1), bytes)) }
	decisions := func(node *Node) uint64 { return must(node.Bandit.Report()).Decisions }

	given := must(dpb.New(segmented(1)))
	node := join(given)
	if node.Bandit != given {
		t.Error("the node has another bandit")
	}
	look(node.Bandit, 100, keys...)
	old := must(node.Bandit.Snapshot(nil))
	look(node.Bandit, 100, keys...)
	new := must(node.Bandit.Snapshot(nil))
	node.Bandit.Close()

	node = join(restored(new))
	if n := decisions(node); n != 600 {
		t.Error("from the file:", n)
	}
	node.Bandit.Close()
	given = restored(old)
	node = join(given)
	if n := decisions(node); n != 600 {
		t.Error("from the store:", n)
	}
	if _, err := given.Report(); !errors.Is(err, dpb.ErrClosed) {
		t.Error("not closed:", err)
	}
	node.Bandit.Close()
}

// Nodes that decide by features make the same predictions.
func TestNodesWithFeaturesAgree(t *testing.T) {
	server := startRedis(t)
	join := func(number uint16) running {
		config := config(number)
		config.Features, config.FeatureNorm, config.ModelPerArm = 2, 1, true
		return run(t, server.address, Options{Config: config, Interval: interval})
	}
	a, b := join(1), join(2)
	rows := [][]float32{{1, 0}, {0, 1}}
	for i := range 6000 {
		node := []running{a, b}[i/2%2]
		d := must(node.Bandit.SelectFor(dpb.Request{Features: rows[i%2]}))
		reward := 0.0
		if int(d.Arm) == i%2 {
			reward = 1
		}
		check(node.Bandit.Update(d.Ticket, reward))
	}
	eventually(t, "both predict the same", func() bool {
		for _, row := range rows {
			x := must(a.Bandit.Predict(dpb.Request{Features: row}))
			y := must(b.Bandit.Predict(dpb.Request{Features: row}))
			for i := range x {
				if !(math.Abs(x[i].Mean-y[i].Mean) < 1e-6) {
					return false
				}
			}
		}
		return true
	})
	if m := a.Metrics(); m.Released != 1 || m.Incompatible != 0 {
		t.Errorf("%+v", m)
	}
}
