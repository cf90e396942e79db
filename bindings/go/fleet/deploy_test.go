package fleet

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	dpb "github.com/libdpb/libdpb/bindings/go"
)

const deployInterval = 200 * time.Millisecond

// deploy is a fleet whose processes are replaced under traffic, and a model that counts every reward.
type deploy struct {
	t      *testing.T
	memory *memory

	mu      sync.Mutex
	serving []*process
	open    []decision // decisions without a reward
	count   uint64     // of decisions
}

type decision struct {
	ticket uint64
	by     *process
}

// process is a node whose Sync runs.
type process struct {
	*Node
	stop      func()
	ended     chan error
	decisions uint64
	rewards   uint64     // of its decisions
	first     dpb.Report // a process continues its number's counts
}

// answered returns how many of this process's decisions had a reward that took effect.
func (p *process) answered() uint64 { return must(p.Bandit.Report()).Answered - p.first.Answered }

func (d *deploy) start() *process {
	node, err := Join(context.Background(), Options{
		Store: d.memory, Rewards: d.memory, Contributions: d.memory, Config: keyed(0, 1), Interval: deployInterval,
	})
	if err != nil {
		d.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	p := &process{Node: node, stop: stop, ended: make(chan error, 1), first: must(node.Bandit.Report())}
	go func() { p.ended <- node.Sync(ctx) }()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.serving = append(d.serving, p)
	return p
}

// end takes a process out of the balancer, and then ends it.
func (d *deploy) end(p *process) {
	d.mu.Lock()
	d.serving = slices.DeleteFunc(d.serving, func(other *process) bool { return other == p })
	d.mu.Unlock()
	p.stop()
	if err := <-p.ended; err != nil {
		d.t.Error(err)
	}
}

// visit makes a decision at a random node, and reports rewards of some decisions at other random nodes, one of them twice.
func (d *deploy) visit() {
	d.mu.Lock()
	defer d.mu.Unlock()
	any := func() *process { return d.serving[rand.N(len(d.serving))] }
	p := any()
	d.open = append(d.open, decision{must(p.Bandit.Select()).Ticket, p})
	p.decisions++
	d.count++
	for range 2 {
		if len(d.open) > 500 {
			if i := rand.N(len(d.open)); d.reward(d.open[i], any) {
				d.open[i] = d.open[len(d.open)-1]
				d.open = d.open[:len(d.open)-1]
			}
		}
	}
}

// reward reports a reward, once or twice. It is not accepted by a node that does not know the number yet.
func (d *deploy) reward(decision decision, any func() *process) (accepted bool) {
	for range 1 + rand.N(2) {
		accepted = any().Update(decision.ticket, 1) == nil || accepted
	}
	if accepted {
		decision.by.rewards++
	}
	return accepted
}

func (d *deploy) decisions() (decisions uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.count
}

// collected returns how many rewards this bandit has in open batches, and their sum, with noise. It takes them out, for a
// bandit of the fleet with this configuration that has nothing else.
func collected(bandit *dpb.Bandit, config dpb.Config) (rewards, sum float64) {
	config.RewardWindow, config.Clock = 0, dpb.ClockDecisions
	counter := must(dpb.New(config))
	defer counter.Close()
	contribution := must(bandit.Contribution(must(counter.Lead())))
	if contribution != nil {
		check(counter.Combine(contribution))
	}
	for arm := range uint32(3) {
		own := 0.0 // a batch is released with all that is in it
		for must(counter.Arms())[arm].EffectivePulls == 0 {
			ticket := must(counter.SelectFor(dpb.Request{Eligible: []uint32{arm}})).Ticket
			check(counter.Update(ticket, 1))
			own++
		}
		released := must(counter.Arms())[arm]
		rewards += released.EffectivePulls - own
		sum += released.EffectivePulls*released.Mean - own
	}
	return rewards, sum
}

// All processes of a fleet are replaced, one after the other, while visitors come. Each reward counts once, and none is
// lost: not the leader's batches, nor what was on the way to it, nor the rewards of decisions that were open in a process
// when it ended. Other processes continue with these, and they end too.
func TestRollingDeploy(t *testing.T) {
	size := 50
	if testing.Short() {
		size = 8
	}
	d := &deploy{t: t, memory: newMemory()}
	d.memory.slowAfter = 2 * deployInterval
	var all []*process
	for range size {
		all = append(all, d.start())
	}
	visitors, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		for {
			select {
			case <-visitors:
				return
			default:
				for range 10 {
					d.visit()
				}
				time.Sleep(time.Millisecond)
			}
		}
	}()
	moved, most := 0, uint16(0)
	for _, old := range slices.Clone(all) {
		new := d.start()
		most = max(most, new.Number())
		all = append(all, new)
		goal := d.decisions() + 300
		eventually(t, "visitors come", func() bool { return d.decisions() >= goal })
		d.end(old)
		if _, err := old.Bandit.Report(); errors.Is(err, dpb.ErrHalted) {
			moved++
		} else if report := must(old.Bandit.Report()); report.Pending > 0 {
			t.Errorf("its open decisions are lost: %+v", report)
		}
	}
	close(visitors)
	<-gone
	for _, decision := range d.open { // the last rewards
		eventually(t, "it is accepted", func() bool {
			return d.reward(decision, func() *process { return d.serving[rand.N(len(d.serving))] })
		})
	}
	for _, p := range d.serving {
		eventually(t, "its rewards have arrived", func() bool { return must(p.Bandit.Report()).Pending == 0 })
		if answered := p.answered(); answered != p.rewards || answered != p.decisions {
			t.Errorf("%d decisions, %d rewards, of which %d took effect", p.decisions, p.rewards, answered)
		}
		eventually(t, "its wards have ended", func() bool { return p.Metrics().Wards == 0 })
	}
	for len(d.serving) > 1 {
		d.end(d.serving[0])
	}
	last := d.serving[0]
	eventually(t, "it leads", func() bool { return last.Metrics().Leads })
	seen := last.Metrics().Exchanges
	eventually(t, "it has combined all", func() bool { return last.Metrics().Exchanges > seen+1 })
	d.end(last)
	var decisions, rewards uint64
	for _, p := range all {
		decisions, rewards = decisions+p.decisions, rewards+p.rewards
	}
	released := known(running{Node: last.Node})
	open, _ := collected(last.Bandit, keyed(99, 1))
	t.Logf("%d decisions, %d states moved; of %d rewards %v are released, and %v are in open batches; numbers up to %d",
		decisions, moved, rewards, released, open, most)
	counted, slow := released+open, d.memory.slow // on a machine that stood still for two intervals
	if math.Abs(counted-float64(rewards)) > 1e-3 && (slow == 0 || counted > float64(rewards)) {
		t.Errorf("%v count of %d, and %d contributions were late", counted, rewards, slow)
	}
	if decisions != rewards || released < 1000 || moved < size/2 || int(most) > 2*size+1 {
		t.Error(decisions, rewards, released, moved, most)
	}
	for _, p := range all {
		p.Bandit.Close()
	}
}
