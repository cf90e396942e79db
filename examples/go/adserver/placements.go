package main

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	dpb "github.com/libdpb/libdpb/bindings/go"
)

const (
	// Whose a ticket is: its first four digits.
	banditNode, poolNode = 1, 0xffff
	// Slots of a person in a period that are learned from.
	contributions = 12
)

// newPool has a segment for each placement, of the same number. Its epsilon is for all of a person's answers in a
// period. What the file holds comes before a fresh start, and begins a new period: nobody knows who came in the last.
func newPool(o options, config dpb.Config) (*dpb.Pool, error) {
	config.Node = poolNode
	config.Users = o.users
	config.ContributionsPerUser = contributions
	kept, err := load(o.poolSnapshot())
	var pool *dpb.Pool
	switch {
	case err != nil:
	case kept == nil:
		pool, err = dpb.NewPool(config, o.placements)
	default:
		if pool, err = dpb.RestorePoolAs(config, o.placements, kept); err != nil {
			err = fmt.Errorf("%s: %w", o.poolSnapshot(), err)
		}
	}
	for placement := uint32(0); err == nil && placement < o.placements; placement++ {
		_, err = pool.Segment(uint64(placement))
	}
	return pool, err
}

// showSlots picks a creative for each slot of a placement, no two the same: each is a decision of the pool among those
// that the request does not show yet.
func (s adServer) showSlots(w http.ResponseWriter, r *http.Request) {
	query, placement, ok := s.placement(w, r)
	if !ok {
		return
	}
	slots, err := strconv.ParseUint(query.Get("slots"), 10, 32)
	if err != nil || slots < 1 || slots > uint64(len(creatives)) {
		refuse(w, http.StatusBadRequest, "bad_slots", fmt.Sprintf("slots=N, 1 to %d", len(creatives)))
		return
	}
	user, ok := parseUser(query)
	if !ok {
		refuse(w, http.StatusBadRequest, "bad_user", "user=HASH, 16 hexadecimal digits, or none")
		return
	}
	left := make([]uint32, len(creatives))
	for arm := range left {
		left[arm] = uint32(arm)
	}
	ads := make([]map[string]any, slots)
	for slot := range ads {
		decision, err := s.pool.SelectAmongFor(placement, user, left)
		if err != nil {
			fail(w, err)
			return
		}
		ads[slot] = ad(decision)
		left = slices.DeleteFunc(left, func(arm uint32) bool { return arm == decision.Arm })
	}
	reply(w, http.StatusOK, map[string]any{"placement": placement, "ads": ads})
}

// placement reads which one a request is for; where there is none such, it is refused.
func (s adServer) placement(w http.ResponseWriter, r *http.Request) (url.Values, uint32, bool) {
	query := r.URL.Query()
	number, err := strconv.ParseUint(query.Get("placement"), 10, 32)
	if err != nil || number >= uint64(s.placements) {
		refuse(w, http.StatusBadRequest, "bad_placement", fmt.Sprintf("placement=P, 0 to %d", s.placements-1))
		return nil, 0, false
	}
	return query, uint32(number), true
}

// parseUser: nobody knows who has no hash, so all of these are one person. No more is learned from them than from one.
func parseUser(query url.Values) (uint64, bool) {
	if !query.Has("user") {
		return 0, true
	}
	text := query.Get("user")
	user, err := strconv.ParseUint(text, 16, 64)
	return user, err == nil && len(text) == 16
}

// reportPlacement shows what is released of one placement. Counts and losses are the pool's.
func (s adServer) reportPlacement(placement uint32) (any, error) {
	report, err := s.pool.Report()
	if err != nil {
		return nil, err
	}
	read, err := s.pool.Arms(placement)
	if err != nil {
		return nil, err
	}
	arms := make([]map[string]any, len(read))
	for i, arm := range read {
		arms[i] = map[string]any{
			"creative": creatives[i], "mean": number(arm.Mean),
			"effective_pulls": arm.EffectivePulls, "pulls": arm.Pulls,
		}
	}
	return map[string]any{
		"placement": placement, "is_private": report.IsPrivate,
		"epsilon_spent": number(report.EpsilonSpent), "delta_spent": report.DeltaSpent,
		"memory": s.memory, "releases": report.Releases,
		"decisions": report.Decisions, "pending": report.Pending, "arms": arms,
	}, nil
}
