package main

import (
	"fmt"
	"slices"
	"sync/atomic"

	dpb "github.com/libdpb/libdpb/bindings/go"
)

// rotation lets the ads of the placements come and go: after every so many of their decisions the oldest ad retires,
// and a new one takes its place in every placement. It begins with what all placements together release of it. When
// an ad comes or goes depends on the number of decisions, which is public, and never on clicks.
type rotation struct {
	bandit *dpb.Bandit
	every  uint64 // 0: never
	live   atomic.Pointer[[]uint32]
}

func newRotation(bandit *dpb.Bandit, every uint64) (*rotation, error) {
	r := &rotation{bandit: bandit, every: every}
	arms, err := bandit.Arms()
	if err != nil {
		return nil, err
	}
	r.store(arms)
	return r, nil
}

// store publishes which arms are live.
func (r *rotation) store(arms []dpb.Arm) {
	var live []uint32
	for arm, state := range arms {
		if state.Active {
			live = append(live, uint32(arm))
		}
	}
	r.live.Store(&live)
}

// eligible returns a list of all live arms.
func (r *rotation) eligible() []uint32 { return slices.Clone(*r.live.Load()) }

// turn makes the next change if it is due. Only one goroutine may call it. An arm's number is its id, so in a fleet a
// new ad is the same at all nodes.
func (r *rotation) turn() error {
	if r == nil || r.every == 0 {
		return nil
	}
	report, err := r.bandit.Report()
	if err != nil {
		return err
	}
	arms, err := r.bandit.Arms()
	if err != nil || uint64(len(arms)-len(creatives)) >= report.Decisions/r.every {
		return err
	}
	if _, err := r.bandit.AddArm(uint64(len(arms))); err != nil {
		return err
	}
	oldest := slices.IndexFunc(arms, func(arm dpb.Arm) bool { return arm.Active })
	arms = append(arms, dpb.Arm{Active: true})
	arms[oldest].Active = false
	r.store(arms) // first, so that a request which meets the retired arm finds the others here
	return r.bandit.RetireArm(uint32(oldest))
}

// creative returns the ad of an arm. Those after the first ten have come by rotation.
func creative(arm uint32) string {
	name, turn := creatives[arm%uint32(len(creatives))], arm/uint32(len(creatives))
	if turn == 0 {
		return name
	}
	return fmt.Sprintf("%s %d", name, turn+1)
}
