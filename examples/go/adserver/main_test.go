package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	dpb "github.com/libdpb/libdpb/bindings/go"
)

// A server that runs in this process.
type running struct {
	visitors, operator string // addresses
	stop               context.CancelFunc
	ended              chan error
	said               *bufio.Scanner
}

func start(t *testing.T, snapshot string) *running {
	said, out := io.Pipe()
	stop, cancel := context.WithCancel(context.Background())
	r := &running{stop: cancel, ended: make(chan error, 1), said: bufio.NewScanner(said)}
	go func() {
		err := run(stop, options{snapshot: snapshot, snapshotEvery: time.Millisecond}, out)
		out.Close()
		r.ended <- err
	}()
	for _, address := range []*string{&r.visitors, &r.operator} {
		if !r.said.Scan() {
			t.Fatal("it ends: ", <-r.ended)
		}
		_, rest, _ := strings.Cut(r.said.Text(), "http://")
		host, _, _ := strings.Cut(rest, "/")
		*address = "http://" + host
	}
	t.Cleanup(cancel)
	return r
}

// A visitor with connections of its own.
type visitor struct {
	client *http.Client
	t      *testing.T
}

func newVisitor(t *testing.T) visitor {
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return visitor{&http.Client{Transport: transport}, t}
}

// get returns the status and the whole body; an error where there is no server any more.
func (v visitor) get(url string) (int, string, error) {
	answer, err := v.client.Get(url)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(body), err
}

// read is get of JSON that must be there.
func (v visitor) read(url string, into any) {
	v.t.Helper()
	status, body, err := v.get(url)
	if err == nil && status == http.StatusOK {
		err = json.Unmarshal([]byte(body), into)
	}
	if err != nil || status != http.StatusOK {
		v.t.Errorf("%s: %d %s %v", url, status, body, err)
	}
}

type shown struct {
	ClickURL string `json:"click_url"`
	Arm      uint32
}

// Everything at once: ads, pages of ads, clicks, clicks that come twice, clicks that are made up, reports,
// metrics, and snapshots every millisecond. Fewer decisions than the answer window has, so that each refused
// click has one possible reason. Then it is stopped under load: whatever was answered is in the snapshot.
func TestLoad(t *testing.T) {
	file := filepath.Join(t.TempDir(), "snapshot")
	server := start(t, file)
	var decisions, twice, forged atomic.Uint64
	var crowd sync.WaitGroup
	for number := range uint64(8) {
		crowd.Add(1)
		go func() {
			defer crowd.Done()
			random, v := rand.New(rand.NewPCG(1, number)), newVisitor(t)
			for range 60 {
				var page struct{ Ads []shown }
				if slots := random.IntN(3); slots > 0 {
					v.read(fmt.Sprintf("%s/ads?slots=%d", server.visitors, slots), &page)
				} else {
					page.Ads = make([]shown, 1)
					v.read(server.visitors+"/ad", &page.Ads[0])
				}
				for _, ad := range page.Ads {
					decisions.Add(1)
					clicks := random.IntN(3)
					for range clicks {
						v.click(server.visitors + ad.ClickURL)
					}
					if clicks == 2 {
						twice.Add(1)
					}
				}
				switch random.IntN(8) {
				case 0:
					v.click(fmt.Sprintf("%s/click/%016x", server.visitors, random.Uint64()))
					forged.Add(1)
				case 1:
					v.read(server.visitors+"/report", &struct{}{})
				case 2:
					if status, body, err := v.get(server.operator + "/metrics"); status != 200 || err != nil {
						t.Errorf("%d %s %v", status, body, err)
					}
				}
			}
		}()
	}
	crowd.Wait()
	var report struct{ Decisions uint64 }
	var counts dpb.Diagnostics
	v := newVisitor(t)
	v.read(server.visitors+"/report", &report)
	v.read(server.operator+"/diagnostics", &counts)
	want := dpb.Diagnostics{Duplicates: twice.Load(), Unknown: forged.Load()}
	if report.Decisions != decisions.Load() || report.Decisions >= 1000 || counts != want || twice.Load() == 0 {
		t.Errorf("%d decisions, %+v; but %d, %+v", report.Decisions, counts, decisions.Load(), want)
	}

	// Visitors who come while it ends are answered whole or not at all. One never finishes to ask.
	slow, err := net.Dial("tcp", strings.TrimPrefix(server.visitors, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	fmt.Fprint(slow, "GET /ad HTTP/1.1\r\n")
	var asked atomic.Uint64
	for range 4 {
		crowd.Add(1)
		go func() {
			defer crowd.Done()
			for v := newVisitor(t); ; {
				asked.Add(3)
				status, body, err := v.get(server.visitors + "/ads?slots=3")
				if err != nil {
					return
				}
				if status != 200 || !strings.HasSuffix(body, "}\n") {
					t.Errorf("%d %s", status, body)
				}
				if decisions.Add(3) > 3000 {
					server.stop()
				}
			}
		}()
	}
	if !server.said.Scan() || server.said.Text() != "stopped" {
		t.Errorf("it says %q", server.said.Text())
	}
	if err := <-server.ended; err != nil {
		t.Error(err)
	}
	crowd.Wait()
	kept, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	bandit, err := dpb.Restore(kept)
	if err != nil {
		t.Fatal(err)
	}
	defer bandit.Close()
	last, err := bandit.Report()
	if most := report.Decisions + asked.Load(); err != nil || last.Decisions < decisions.Load() || last.Decisions > most {
		t.Errorf("%d decisions are kept, %d were answered, %d asked for: %v", last.Decisions, decisions.Load(), most, err)
	}
}

// click: whatever comes of it, the answer is the same.
func (v visitor) click(url string) {
	if status, body, err := v.get(url); status != http.StatusNoContent || body != "" || err != nil {
		v.t.Errorf("%s: %d %q %v", url, status, body, err)
	}
}

func answer(pages http.Handler, path string) (int, string) {
	answer := httptest.NewRecorder()
	pages.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
	return answer.Code, answer.Body.String()
}

func TestSlots(t *testing.T) {
	ads, err := newShop(options{})
	if err != nil {
		t.Fatal(err)
	}
	defer ads.bandit.Close()
	for _, slots := range []string{"", "0", "-1", "65", "3x", "1e1", "4294967297", " 1"} {
		if status, body := answer(ads.visitors(), "/ads?slots="+strings.ReplaceAll(slots, " ", "%20")); status != 400 {
			t.Errorf("%q: %d %s", slots, status, body)
		}
	}
	if report, err := ads.bandit.Report(); err != nil || report.Decisions != 0 {
		t.Errorf("refused, and yet %d decisions: %v", report.Decisions, err)
	}
	var page struct{ Ads []shown }
	status, body := answer(ads.visitors(), "/ads?slots=64")
	if err := json.Unmarshal([]byte(body), &page); err != nil || status != 200 {
		t.Fatalf("%d %s: %v", status, body, err)
	}
	tickets := map[string]bool{}
	for _, ad := range page.Ads {
		tickets[ad.ClickURL] = true
		answer(ads.visitors(), ad.ClickURL)
	}
	counts, err := ads.bandit.Diagnostics()
	if len(page.Ads) != 64 || len(tickets) != 64 || counts != (dpb.Diagnostics{}) || err != nil {
		t.Errorf("%d ads, %d tickets, %+v %v", len(page.Ads), len(tickets), counts, err)
	}
}

// What tells of clicks, or of this machine, is not for visitors.
func TestOperatorsPages(t *testing.T) {
	ads, err := newShop(options{})
	if err != nil {
		t.Fatal(err)
	}
	defer ads.bandit.Close()
	for _, path := range []string{"/diagnostics", "/debug/pprof/", "/debug/pprof/heap", "/debug/pprof/trace?seconds=0.01"} {
		if status, body := answer(ads.operator(), path); status != 200 {
			t.Errorf("operator %s: %d %s", path, status, body)
		}
		if status, body := answer(ads.visitors(), path); status != 404 {
			t.Errorf("visitors %s: %d %s", path, status, body)
		}
	}
	_, public := answer(ads.visitors(), "/metrics")
	_, all := answer(ads.operator(), "/metrics")
	if strings.Contains(public, "dpb_duplicates_total") || !strings.Contains(all, "dpb_duplicates_total") {
		t.Errorf("visitors read\n%s\nthe operator\n%s", public, all)
	}
}
