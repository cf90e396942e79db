package main

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	dpb "github.com/libdpb/libdpb/bindings/go"
)

// Slots of a person in a period that are learned from.
const contributions = 12

// Placements on the page that shows them all.
const mostRows = 50

// newSegmented makes the bandit with a segment for each placement: the key is the placement's number. Its epsilon is for
// all of a person's answers in a period, at this server. What the file holds comes before a fresh start, and begins a new
// period: nobody knows who came in the last.
func newSegmented(o options, config dpb.Config) (member, error) {
	config.Node += placementsFrom
	config.ExpectedUsers = o.users
	config.ContributionsPerUser = contributions
	config.MaxSegments = o.placements
	config.Features, config.ModelPerArm = 0, false // segments have no models
	kept, err := load(o.segmentedSnapshot())
	if err != nil {
		return member{}, err
	}
	var b *dpb.Bandit
	if kept == nil {
		b, err = dpb.New(config)
	} else if err = checkPlacements(config, kept); err == nil {
		b, err = dpb.RestorePolicy(dpb.PolicyIMED, config, kept)
	}
	if err != nil && kept != nil {
		err = fmt.Errorf("%s: %w", o.segmentedSnapshot(), err)
	}
	if err != nil {
		return member{}, err
	}
	return o.fleet.join(b, o.fleet.name()+"-placements", config)
}

// checkPlacements refuses fewer placements than there were: segments of those that are gone would take the room of
// others, also where these have not begun theirs.
func checkPlacements(config dpb.Config, kept []byte) error {
	before, err := dpb.Restore(kept)
	if err != nil {
		return err
	}
	defer before.Close()
	report, err := before.Report()
	if err == nil && report.MaxSegments > config.MaxSegments && config.MaxSegments > 0 {
		err = fmt.Errorf("placements must be at least %d, as in the snapshot, got %d", report.MaxSegments, config.MaxSegments)
	}
	return err
}

// showSlots picks a creative for each slot of a placement, no two the same: each is a decision among those that the request
// does not show yet.
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
	if err := s.tick(s.segmented.Bandit); err != nil {
		fail(w, err)
		return
	}
	ads := make([]map[string]any, slots)
	for slot := range ads {
		decision, err := s.segmented.SelectFor(dpb.Request{Segment: uint64(placement), User: user, Eligible: left})
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

// readPlacement: where nobody has come yet, nothing is released.
func (s adServer) readPlacement(placement uint32) ([]dpb.Arm, error) {
	arms, err := s.segmented.Segment(uint64(placement))
	if errors.Is(err, dpb.ErrInvalidRequest) {
		return slices.Repeat([]dpb.Arm{{Mean: math.NaN()}}, len(creatives)), nil
	}
	return arms, err
}

// reportPlacements shows the released means of the first placements, and which ad leads in each: the one with the largest.
func (s adServer) reportPlacements() (any, error) {
	rows := make([]map[string]any, min(s.placements, mostRows))
	for placement := range rows {
		arms, err := s.readPlacement(uint32(placement))
		if err != nil {
			return nil, err
		}
		var leader any
		largest, pulls, means := math.Inf(-1), uint64(0), make([]any, len(arms))
		for i, arm := range arms {
			means[i] = number(arm.Mean)
			pulls += arm.Pulls
			if arm.Mean > largest { // not where it is NaN
				leader, largest = i, arm.Mean
			}
		}
		rows[placement] = map[string]any{"placement": placement, "leader": leader, "means": means, "pulls": pulls}
	}
	return map[string]any{"placements": s.placements, "creatives": creatives, "rows": rows}, nil
}

// reportPlacement shows what is released of one placement: nothing before the first request for it. Counts and losses are
// of all.
func (s adServer) reportPlacement(placement uint32) (any, error) {
	report, err := s.segmented.Report()
	if err != nil {
		return nil, err
	}
	read, err := s.readPlacement(placement)
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
		"clock": s.window.clock(), "window": s.window.ticks, "memory": s.memory, "releases": report.Phase,
		"decisions": report.Decisions, "pending": report.Pending, "arms": arms,
	}, nil
}
