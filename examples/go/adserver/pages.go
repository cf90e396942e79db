package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/http/pprof"
	"strconv"
	"strings"
	"sync"
	"time"

	"examples/web"

	dpb "github.com/libdpb/libdpb/bindings/go"
	dpbprometheus "github.com/libdpb/libdpb/bindings/go/prometheus"
	fleetprometheus "github.com/libdpb/libdpb/bindings/go/prometheus/fleet"
)

// page is the page of all three servers.
//
//go:embed page.html
var page string

func (s adServer) visitors() http.Handler {
	pages := http.NewServeMux()
	pages.HandleFunc("/ad", s.show)
	if s.placements > 0 {
		pages.HandleFunc("/ads", s.showSlots)
		pages.HandleFunc("/placements", s.copy(uint64(s.placements)+1, s.reportPlacements))
	}
	pages.HandleFunc("/click/", s.click)
	pages.HandleFunc("/report", s.report)
	pages.HandleFunc("/privacy", web.Privacy(s.bandits()))
	pages.HandleFunc("/privacy.json", web.PrivacyList(s.bandits()))
	pages.HandleFunc("/healthz", s.health)
	pages.HandleFunc("/readyz", func(w http.ResponseWriter, r *http.Request) {
		if !s.ready() {
			http.Error(w, "clicks cannot be forwarded", http.StatusServiceUnavailable)
			return
		}
		s.health(w, r)
	})
	pages.Handle("/metrics", web.Metrics(dpbprometheus.NewCollector(s.bandits())))
	pages.HandleFunc("/{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprint(w, page)
	})
	pages.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		refuse(w, http.StatusNotFound, "no_such_page", "try /, /ad, /report")
	})
	return guard(pages)
}

func (s adServer) operator() http.Handler {
	pages := http.NewServeMux()
	pages.HandleFunc("/diagnostics", s.diagnostics)
	if s.sales {
		pages.HandleFunc("/bought/", s.sold(bought))
		pages.HandleFunc("/returned/", s.sold(returned))
	}
	pages.Handle("/metrics", web.Metrics(
		dpbprometheus.NewOperatorCollector(s.bandits()), fleetprometheus.NewOperatorCollector(s.nodes())))
	pages.HandleFunc("/debug/pprof/", pprof.Index)
	pages.HandleFunc("/debug/pprof/profile", pprof.Profile)
	pages.HandleFunc("/debug/pprof/trace", pprof.Trace)
	pages.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		refuse(w, http.StatusNotFound, "no_such_page", "try /diagnostics, /metrics, /debug/pprof/")
	})
	return guard(pages)
}

func (s adServer) show(w http.ResponseWriter, r *http.Request) {
	s.tick(s.bandit)
	var request dpb.Request
	if s.context {
		request = contextOf(r, time.Now())
	}
	if s.payouts.budget > 0 {
		now, err := s.payouts.offers(s.bandit.Bandit)
		if err != nil {
			fail(w, err)
			return
		}
		if request = now.request; len(request.Eligible) == 0 {
			reply(w, http.StatusOK, map[string]any{"arm": nil, "creative": "an ad of our own", "click_url": "/", "propensity": 1})
			return
		}
	}
	decision, err := s.bandit.SelectFor(request)
	if err != nil {
		fail(w, err)
		return
	}
	reply(w, http.StatusOK, ad(decision))
}

func ad(decision dpb.Decision) map[string]any {
	return map[string]any{
		"arm":        decision.Arm,
		"creative":   creative(decision.Arm),
		"click_url":  fmt.Sprintf("/click/%016x", decision.Ticket),
		"propensity": number(decision.Propensity),
	}
}

// click always gives the same response, because the status reveals whether the ticket was clicked already. As in the
// other servers, a ticket is 16 plain digits, and a percent-encoded one is none.
func (s adServer) click(w http.ResponseWriter, r *http.Request) {
	text := strings.TrimPrefix(r.URL.EscapedPath(), "/click/")
	if ticket, err := strconv.ParseUint(text, 16, 64); err == nil && len(text) == 16 {
		_ = s.of(ticket).updatePart(ticket, clicked, 1) // the operator's counts have refused clicks
	}
	w.WriteHeader(http.StatusNoContent)
}

// of returns whose ticket this is.
func (s adServer) of(ticket uint64) member {
	if s.placements > 0 && dpb.TicketNode(ticket) >= placementsFrom {
		return s.segmented
	}
	return s.bandit
}

// report returns released values only.
func (s adServer) report(w http.ResponseWriter, r *http.Request) {
	number, build := uint64(s.placements), s.reportAll
	if s.placements > 0 && r.URL.Query().Has("placement") {
		_, placement, ok := s.placement(w, r)
		if !ok {
			return
		}
		number, build = uint64(placement), func() (any, error) { return s.reportPlacement(placement) }
	}
	s.copy(number, build)(w, r)
}

// copy serves a cached page.
func (s adServer) copy(number uint64, build func() (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		page, err := s.reports.get(number, build)
		if err != nil {
			fail(w, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Write(page) // ignore errors of closed connections
	}
}

func (s adServer) reportAll() (any, error) {
	report, err := s.bandit.Report()
	if err != nil {
		return nil, err
	}
	read, err := s.bandit.Arms()
	if err != nil {
		return nil, err
	}
	var left []float64
	if s.payouts.budget > 0 {
		now, err := s.payouts.offers(s.bandit.Bandit)
		if err != nil {
			return nil, err
		}
		left = now.left
	}
	arms := make([]map[string]any, len(read))
	for i, arm := range read {
		arms[i] = map[string]any{
			"creative": creatives[i], "mean": number(arm.Mean), "width": number(arm.Width),
			"effective_pulls": arm.EffectivePulls, "pulls": arm.Pulls, "active": arm.Active,
		}
		if left != nil {
			arms[i]["pays"], arms[i]["left"] = pays[i], left[i]
		}
	}
	var winner any // null: the policy has not decided, or never does
	if report.Stopped {
		winner = report.BestArm
	}
	var verdict, lift any // null: the policy tests no arms; has no lift over even play, or not yet
	if read, err := s.bandit.Verdict(); err == nil {
		verdict = read.String()
	}
	if low, high, err := s.bandit.Lift(dpb.NoArm, 0.95); err == nil {
		lift = []any{number(low), number(high)}
	}
	page := map[string]any{
		"policy": s.bandit.PolicyName(), "winner": winner, "verdict": verdict, "lift": lift, "is_private": report.IsPrivate,
		"epsilon_spent": number(report.EpsilonSpent), "delta_spent": report.DeltaSpent,
		"clock": s.window.clock(), "window": s.window.ticks, "memory": s.memory,
		"changes_detected": report.ChangesDetected, "phase": report.Phase,
		"decisions": report.Decisions, "pending": report.Pending,
		"arms": arms, "placements": s.placements,
	}
	if s.context {
		if page["features"], err = weights(s.bandit.Bandit, read); err != nil {
			return nil, err
		}
	}
	return page, nil
}

// health reports whether the server can decide. A bandit that is poisoned after an internal failure cannot.
func (s adServer) health(w http.ResponseWriter, _ *http.Request) {
	if _, err := s.counts(); err != nil {
		fail(w, err)
		return
	}
	fmt.Fprintln(w, "ok")
}

// copies caches an expensive page, with a copy for each number that a request may name. Each copy is renewed at most
// once in every.
type copies struct {
	mu    sync.Mutex
	every time.Duration
	made  map[uint64]made
}

type made struct {
	at   time.Time
	page []byte
}

const maxCopies = 1000

func newCopies(every time.Duration) *copies { return &copies{every: every, made: map[uint64]made{}} }

// get returns the copy of a page, and makes it first if necessary. Other requests wait while it is made.
func (c *copies) get(number uint64, build func() (any, error)) ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if last, ok := c.made[number]; ok && now.Before(last.at.Add(c.every)) {
		return last.page, nil
	}
	value, err := build()
	if err != nil {
		return nil, err
	}
	page, err := json.Marshal(value)
	page = append(page, '\n')
	if err != nil {
		return nil, err
	}
	if len(c.made) >= maxCopies {
		clear(c.made)
	}
	c.made[number] = made{now, page}
	return page, nil
}

// diagnostics is NOT private: a duplicate reveals a click.
func (s adServer) diagnostics(w http.ResponseWriter, _ *http.Request) {
	counts, err := s.counts()
	if err != nil {
		fail(w, err)
		return
	}
	reply(w, http.StatusOK, map[string]any{
		"duplicates": counts.Duplicates, "late": counts.Late, "rejected": counts.Rejected, "unknown": counts.Unknown,
	})
}

func (s adServer) counts() (dpb.Diagnostics, error) {
	var counts dpb.Diagnostics
	for _, m := range s.members() {
		more, err := m.Diagnostics()
		if err != nil {
			return counts, err
		}
		counts.Duplicates += more.Duplicates
		counts.Late += more.Late
		counts.Rejected += more.Rejected
		counts.Unknown += more.Unknown
	}
	return counts, nil
}

// number returns nil for NaN (nothing released yet) and infinity (a baseline's privacy loss), which JSON does not have.
func number(x float64) any {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return nil
	}
	return x
}

// fail responds to a request that the bandit cannot decide because it is closed or poisoned.
func fail(w http.ResponseWriter, err error) {
	slog.Error("no decision", "err", err)
	refuse(w, http.StatusInternalServerError, "internal", err.Error())
}

func refuse(w http.ResponseWriter, status int, name, message string) {
	reply(w, status, map[string]any{"error": name, "message": message})
}

func reply(w http.ResponseWriter, status int, body map[string]any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(body) // ignore errors of closed connections
}
