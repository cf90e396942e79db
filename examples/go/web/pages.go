package web

import (
	"io"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"

	dpb "github.com/libdpb/libdpb/bindings/go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Privacy says what each bandit guarantees, by name, as text.
func Privacy(bandits map[string]*dpb.Bandit) http.HandlerFunc {
	return privacy(bandits, (*dpb.Bandit).StatementText, "text/plain; charset=utf-8", "", "\n", "")
}

// PrivacyList is the same as a list in JSON.
func PrivacyList(bandits map[string]*dpb.Bandit) http.HandlerFunc {
	return privacy(bandits, (*dpb.Bandit).Statement, "application/json", "[", ",", "]")
}

func privacy(bandits map[string]*dpb.Bandit, state func(*dpb.Bandit) (string, error), kind, begin, between, end string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		var said []string
		for _, name := range slices.Sorted(maps.Keys(bandits)) {
			text, err := state(bandits[name])
			if err != nil {
				slog.Error("no statement", "bandit", name, "err", err)
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			said = append(said, text)
		}
		w.Header().Set("Content-Type", kind)
		io.WriteString(w, begin+strings.Join(said, between)+end) // ignore errors of closed connections
	}
}

// Metrics returns a page for Prometheus.
func Metrics(collectors ...prometheus.Collector) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors...)
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
}
