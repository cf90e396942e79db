package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/pprof"
	"strconv"

	dpb "github.com/libdpb/libdpb/bindings/go"
)

// The page of all three servers.
//
//go:embed page.html
var page string

func (s adServer) visitors() http.Handler {
	pages := http.NewServeMux()
	pages.HandleFunc("/ad", s.show)
	if s.pool != nil {
		pages.HandleFunc("/ads", s.showSlots)
	}
	pages.HandleFunc("/click/{ticket...}", s.click)
	pages.HandleFunc("/report", s.report)
	pages.HandleFunc("/metrics", s.metrics(dpb.WriteMetrics))
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
	pages.HandleFunc("/metrics", s.metrics(dpb.WriteOperatorMetrics))
	pages.HandleFunc("/debug/pprof/", pprof.Index)
	pages.HandleFunc("/debug/pprof/profile", pprof.Profile)
	pages.HandleFunc("/debug/pprof/trace", pprof.Trace)
	pages.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		refuse(w, http.StatusNotFound, "no_such_page", "try /diagnostics, /metrics, /debug/pprof/")
	})
	return guard(pages)
}

func (s adServer) show(w http.ResponseWriter, _ *http.Request) {
	decision, err := s.bandit.Select()
	if err != nil {
		fail(w, err)
		return
	}
	reply(w, http.StatusOK, ad(decision))
}

func ad(decision dpb.Decision) map[string]any {
	return map[string]any{
		"arm":        decision.Arm,
		"creative":   creatives[decision.Arm],
		"click_url":  fmt.Sprintf("/click/%016x", decision.Ticket),
		"propensity": number(decision.Propensity),
	}
}

// click always gives the same answer: whether a ticket was clicked already is nobody's business.
func (s adServer) click(w http.ResponseWriter, r *http.Request) {
	text := r.PathValue("ticket")
	if ticket, err := strconv.ParseUint(text, 16, 64); err == nil && len(text) == 16 {
		update := s.bandit.Update
		if s.pool != nil && dpb.TicketNode(ticket) == poolNode {
			update = s.pool.Update
		}
		_ = update(ticket, 1) // refused, it is in the operator's counts
	}
	w.WriteHeader(http.StatusNoContent)
}

// report shows only what is released.
func (s adServer) report(w http.ResponseWriter, r *http.Request) {
	if s.pool != nil && r.URL.Query().Has("placement") {
		s.reportPlacement(w, r)
		return
	}
	report, err := s.bandit.Report()
	if err != nil {
		fail(w, err)
		return
	}
	read, err := s.bandit.Arms()
	if err != nil {
		fail(w, err)
		return
	}
	arms := make([]map[string]any, len(read))
	for i, arm := range read {
		arms[i] = map[string]any{
			"creative": creatives[i], "mean": number(arm.Mean), "width": number(arm.Width),
			"effective_pulls": arm.EffectivePulls, "pulls": arm.Pulls, "active": arm.Active,
		}
	}
	reply(w, http.StatusOK, map[string]any{
		"policy": s.bandit.PolicyName(), "is_private": report.IsPrivate,
		"epsilon_spent": number(report.EpsilonSpent), "delta_spent": report.DeltaSpent,
		"memory": s.memory, "changes_detected": report.ChangesDetected,
		"phase": report.Phase, "decisions": report.Decisions, "pending": report.Pending, "arms": arms,
	})
}

// diagnostics is NOT private: a repeated click is a click.
func (s adServer) diagnostics(w http.ResponseWriter, _ *http.Request) {
	counts, err := s.bandit.Diagnostics()
	var more dpb.Diagnostics
	if err == nil && s.pool != nil {
		more, err = s.pool.Diagnostics()
	}
	if err != nil {
		fail(w, err)
		return
	}
	reply(w, http.StatusOK, map[string]any{
		"duplicates": counts.Duplicates + more.Duplicates, "late": counts.Late + more.Late,
		"rejected": counts.Rejected + more.Rejected, "unknown": counts.Unknown + more.Unknown,
	})
}

// metrics is a page for Prometheus.
func (s adServer) metrics(
	write func(io.Writer, map[string]*dpb.Bandit, ...map[string]*dpb.Pool) error,
) http.HandlerFunc {
	pools := map[string]*dpb.Pool{}
	if s.pool != nil {
		pools["placements"] = s.pool
	}
	return func(w http.ResponseWriter, _ *http.Request) {
		var page bytes.Buffer
		if err := write(&page, map[string]*dpb.Bandit{"ads": s.bandit}, pools); err != nil {
			fail(w, err)
			return
		}
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		w.Header().Set("Content-Length", strconv.Itoa(page.Len()))
		page.WriteTo(w) // a scraper who left does not stop the shop
	}
}

// number: JSON has no NaN (nothing released yet) and no infinity (a baseline's privacy loss).
func number(x float64) any {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return nil
	}
	return x
}

// fail: the bandit itself is broken.
func fail(w http.ResponseWriter, err error) {
	slog.Error("no answer", "err", err)
	refuse(w, http.StatusInternalServerError, "internal", err.Error())
}

func refuse(w http.ResponseWriter, status int, name, message string) {
	reply(w, status, map[string]any{"error": name, "message": message})
}

func reply(w http.ResponseWriter, status int, body map[string]any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(body) // a visitor who left does not stop the shop
}
