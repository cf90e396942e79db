package main

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"strings"
	"time"

	dpb "github.com/libdpb/libdpb/bindings/go"
)

// span is the length of a window or of ForgetAfter, in decisions or in milliseconds.
type span struct {
	ticks  uint64
	isTime bool
}

// With a window of time, ForgetAfter is half a day in milliseconds, and PendingCapacity is enough for 580 decisions a
// second for half an hour.
const (
	halfADay = 12 * 3600 * 1000
	pending  = 1 << 20
)

// Set parses 1000 (decisions), or 500ms, 30s, 30m, 2h (a time). All servers have the same syntax.
func (s *span) Set(text string) error {
	number := strings.TrimRight(text, "msh")
	scale, ok := map[string]uint64{"": 1, "ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000}[text[len(number):]]
	ticks, err := strconv.ParseUint(number, 10, 64)
	if !ok || err != nil || ticks > math.MaxUint64/scale {
		return errors.New("must be a number of decisions, or a time such as 500ms, 30s, 30m or 2h")
	}
	*s = span{ticks * scale, len(number) < len(text)}
	return nil
}

func (s span) String() string { return fmt.Sprint(s.ticks) }

// clock is the unit of the bandits' RewardWindow and ForgetAfter.
func (s span) clock() string {
	if s.isTime {
		return "milliseconds"
	}
	return "decisions"
}

// configure sets this window.
func (s span) configure(config *dpb.Config) {
	config.RewardWindow = uint32(s.ticks)
	if s.isTime {
		config.Clock, config.PendingCapacity = dpb.ClockCaller, pending
	}
}

// tick sets a bandit's clock if windows are times: at each ad and once a second, so that windows also end without
// traffic. It is never called at a click, because time must not depend on rewards. In a fleet the node sets the clock.
func (s adServer) tick(m member) {
	if s.window.isTime && m.Bandit != nil && m.node == nil {
		m.advance(uint64(time.Now().UnixMilli()))
	}
}

func (s adServer) tickAll() {
	for _, m := range s.members() {
		s.tick(m)
		m.logLeaps()
	}
}

// logLeaps logs it if the clock has leapt: the machine's clock may be wrong.
func (m member) logLeaps() {
	if m.Bandit == nil {
		return
	}
	if report, err := m.Report(); err == nil && m.leaps.Swap(report.ClockLeaps) < report.ClockLeaps {
		slog.Warn("the clock leapt: the time continues from what it shows", "bandit", m.name, "leaps", report.ClockLeaps)
	}
}

// advance sets the bandit's clock. If the bandit refuses the time, it goes on with the last one, and the log has each
// change of the reason.
func (m member) advance(now uint64) {
	reason := ""
	if err := m.Advance(now); err != nil {
		reason = err.Error()
	}
	if m.refused.Load() == reason || m.refused.Swap(reason) == reason {
		return
	}
	if reason == "" {
		slog.Warn("the clock goes on", "bandit", m.name)
	} else {
		slog.Error("the clock stands still", "bandit", m.name, "err", reason)
	}
}
