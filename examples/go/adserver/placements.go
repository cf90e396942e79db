package main

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"examples/keep"

	dpb "github.com/libdpb/libdpb/bindings/go"
)

// The bandit learns from at most this many slots of a person in a period.
const contributions = 12

// The number of placements on their page.
const mostRows = 50

// newSegmented makes the bandit with a segment for each placement; the key is the placement's number. Epsilon is for
// all rewards of a person in a period, at this server. If there are files, the bandit continues from them. If it
// continues from a snapshot, it begins a new period, because a snapshot does not contain the counts of people.
func newSegmented(o options, config dpb.Config) (member, error) {
	config.Node += placementsFrom
	config.ExpectedUsers = o.users
	config.ContributionsPerUser = contributions
	config.MaxSegments = o.placements
	config.Features, config.ModelPerArm = 0, false // not with segments
	kept, err := keep.Load(o.segmentedSnapshot())
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
	if err == nil {
		b, err = resume(b, o, config, o.segmentedSnapshot())
	}
	if err != nil {
		return member{}, err
	}
	return o.fleet.join(b, o.fleet.name()+"-placements", config, kept)
}

// checkPlacements refuses fewer placements than in the snapshot, because the segments of removed placements would count
// towards MaxSegments.
func checkPlacements(config dpb.Config, kept []byte) error {
	before, err := dpb.Restore(kept)
	if err != nil {
		return err
	}
	defer before.Close()
	report, err := before.Report()
	if err == nil && report.MaxSegments > config.MaxSegments && config.MaxSegments > 0 {
		err = fmt.Errorf("placements must be at least %d, as in the snapshot, got %d",
			report.MaxSegments, config.MaxSegments)
	}
	return err
}

// showSlots chooses a different creative for each slot of a placement. Each slot is a decision among the creatives
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
	s.tick(s.segmented)
	ads, err := s.fill(placement, user, slots, s.rotation.eligible())
	if err != nil {
		fail(w, err)
		return
	}
	reply(w, http.StatusOK, map[string]any{"placement": placement, "ads": ads})
}

// fill chooses ads for these slots among the arms that are left.
func (s adServer) fill(placement uint32, user, slots uint64, left []uint32) (ads []map[string]any, err error) {
	for uint64(len(ads)) < slots && len(left) > 0 {
		decision, err := s.segmented.SelectFor(dpb.Request{Segment: uint64(placement), User: user, Eligible: left})
		if errors.Is(err, dpb.ErrInvalidRequest) && !slices.Contains(s.rotation.eligible(), left[0]) {
			left = left[1:] // the oldest ad has retired since the request began
			continue
		}
		if err != nil {
			return nil, err
		}
		ads = append(ads, ad(decision))
		left = slices.DeleteFunc(left, func(arm uint32) bool { return arm == decision.Arm })
	}
	return ads, nil
}

// placement returns the placement that a request names. It refuses the request if there is none.
func (s adServer) placement(w http.ResponseWriter, r *http.Request) (url.Values, uint32, bool) {
	query := r.URL.Query()
	number, err := strconv.ParseUint(query.Get("placement"), 10, 32)
	if err != nil || number >= uint64(s.placements) {
		refuse(w, http.StatusBadRequest, "bad_placement", fmt.Sprintf("placement=P, 0 to %d", s.placements-1))
		return nil, 0, false
	}
	return query, uint32(number), true
}

// parseUser returns the user that a request names. All visitors without a hash are one user: the bandit learns from
// them as from one person.
func parseUser(query url.Values) (uint64, bool) {
	if !query.Has("user") {
		return 0, true
	}
	text := query.Get("user")
	user, err := strconv.ParseUint(text, 16, 64)
	return user, err == nil && len(text) == 16
}

// readPlacement reads the arms of a placement. Before its first request nothing is released.
func (s adServer) readPlacement(placement uint32) ([]dpb.Arm, error) {
	arms, err := s.segmented.Segment(uint64(placement))
	if errors.Is(err, dpb.ErrInvalidRequest) {
		arms, err = s.segmented.Arms()
		for i, arm := range arms {
			arms[i] = dpb.Arm{Mean: math.NaN(), Active: arm.Active}
		}
	}
	return arms, err
}

// reportPlacements returns the released means of the first placements, and the live ad with the largest mean in each.
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
			if arm.Active && arm.Mean > largest { // false if it is NaN
				leader, largest = i, arm.Mean
			}
		}
		rows[placement] = map[string]any{"placement": placement, "leader": leader, "means": means, "pulls": pulls}
	}
	arms, err := s.segmented.Arms() // last, so that it has all arms of the rows
	if err != nil {
		return nil, err
	}
	ads := make([]map[string]any, len(arms))
	for i, arm := range arms {
		ads[i] = map[string]any{"creative": creative(uint32(i)), "active": arm.Active}
	}
	return map[string]any{"placements": s.placements, "rotate": s.rotation.every, "ads": ads, "rows": rows}, nil
}

// reportPlacement returns the released values of one placement: none before its first request. Counts and losses are of
// all placements.
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
			"creative": creative(uint32(i)), "mean": number(arm.Mean), "active": arm.Active,
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
