// An ad server that learns which ad is clicked without giving away who clicked: libdpb with
// net/http. After `cargo build --release`, with /src/libdpb as the checkout:
//
//	cd examples/go/adserver
//	export CGO_LDFLAGS="/src/libdpb/target/release/libdpb.a -lgcc_s -lutil -lrt -lpthread -lm -ldl -lc"
//	go run . --port 8080
//
// GET /ad picks a creative, GET /click/<ticket> reports the click, GET /report shows what is
// released and nothing else, / is a small page. A real server would also check who asks.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"math"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	dpb "github.com/libdpb/libdpb/bindings/go"
)

var creatives = []string{
	"mountain bike", "espresso machine", "rain jacket", "chess lessons", "garden hose",
	"night train", "reading lamp", "bread knife", "wool socks", "folding kayak",
}

const page = `<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Private ads</title>
<h1>Private ads</h1>
<p><button onclick="more()">Show me an ad</button> <a id="ad"></a></p>
<pre id="report"></pre>
<script>
const by = id => document.getElementById(id);
async function more() {
  const ad = await (await fetch("/ad")).json();
  by("ad").textContent = ad.creative; by("ad").href = ad.click_url;
}
async function refresh() {
  by("report").textContent = JSON.stringify(await (await fetch("/report")).json(), null, 2);
  setTimeout(refresh, 1000);
}
refresh();
</script></html>
`

func main() {
	port := flag.Int("port", 0, "port to listen on; 0: any free one")
	flag.Parse()
	if err := serve(*port); err != nil {
		log.Fatal(err)
	}
}

func serve(port int) error {
	config := dpb.NewConfig(uint32(len(creatives)), 1) // epsilon = 1
	config.Horizon = 100_000
	config.RewardBits = 0      // a click or none
	config.AnswerWindow = 1000 // an ad not clicked while 1000 later ones were shown: no click
	bandit, err := dpb.New(config)
	if err != nil {
		return err
	}
	defer bandit.Close()

	ads := adServer{bandit}
	routes := http.NewServeMux()
	routes.HandleFunc("/ad", ads.show)
	routes.HandleFunc("/click/{ticket...}", ads.click)
	routes.HandleFunc("/report", ads.report)
	routes.HandleFunc("/{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprint(w, page)
	})
	routes.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		refuse(w, http.StatusNotFound, "no_such_page", "try /, /ad, /report")
	})

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return err
	}
	server := &http.Server{Handler: getOnly(routes), ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan error, 1)
	go func() {
		<-ctx.Done()
		patience, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		ended <- server.Shutdown(patience)
	}()
	fmt.Printf("listening on http://%s\n", listener.Addr())
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	fmt.Println("stopped")
	return <-ended
}

// getOnly also keeps HEAD out, which net/http would take for GET: it would play an ad that nobody sees.
func getOnly(routes http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			w.Header().Set("Allow", http.MethodGet)
			refuse(w, http.StatusMethodNotAllowed, "method_not_allowed", "only GET is served")
			return
		}
		routes.ServeHTTP(w, r)
	})
}

// One bandit serves all goroutines.
type adServer struct{ bandit *dpb.Bandit }

func (s adServer) show(w http.ResponseWriter, _ *http.Request) {
	decision, err := s.bandit.Select()
	if err != nil {
		fail(w, err)
		return
	}
	reply(w, http.StatusOK, map[string]any{
		"arm":        decision.Arm,
		"creative":   creatives[decision.Arm],
		"click_url":  fmt.Sprintf("/click/%016x", decision.Ticket),
		"propensity": number(decision.Propensity),
	})
}

func (s adServer) click(w http.ResponseWriter, r *http.Request) {
	text := r.PathValue("ticket")
	ticket, err := strconv.ParseUint(text, 16, 64)
	if err != nil || len(text) != 16 {
		refuse(w, http.StatusBadRequest, "malformed_ticket", "a ticket is 16 hexadecimal digits")
		return
	}
	if err := s.bandit.Update(ticket, 1); err != nil {
		fail(w, err)
		return
	}
	reply(w, http.StatusOK, map[string]any{"clicked": true})
}

// report shows only what is released. Diagnostics is not: a duplicate click is a click.
func (s adServer) report(w http.ResponseWriter, _ *http.Request) {
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
			"pulls": arm.Pulls, "active": arm.Active,
		}
	}
	reply(w, http.StatusOK, map[string]any{
		"policy": s.bandit.PolicyName(), "is_private": report.IsPrivate,
		"epsilon_spent": number(report.EpsilonSpent), "delta_spent": report.DeltaSpent,
		"phase": report.Phase, "decisions": report.Decisions, "arms": arms,
	})
}

// number: JSON has no NaN (nothing released yet) and no infinity (a baseline's privacy loss).
func number(x float64) any {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return nil
	}
	return x
}

func fail(w http.ResponseWriter, err error) {
	switch {
	case errors.Is(err, dpb.ErrUnknownTicket):
		refuse(w, http.StatusNotFound, "unknown_ticket", err.Error())
	case errors.Is(err, dpb.ErrDuplicate):
		refuse(w, http.StatusConflict, "duplicate_click", err.Error())
	case errors.Is(err, dpb.ErrExpired):
		refuse(w, http.StatusGone, "expired_ticket", err.Error())
	default:
		refuse(w, http.StatusInternalServerError, "internal", err.Error())
	}
}

func refuse(w http.ResponseWriter, status int, name, message string) {
	reply(w, status, map[string]any{"error": name, "message": message})
}

func reply(w http.ResponseWriter, status int, body map[string]any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store") // a cached ad would repeat its ticket
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(body) // a visitor who left does not stop the shop
}
