package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
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

// running is a server that runs in this process.
type running struct {
	visitors, operator string // addresses
	stop               context.CancelFunc
	ended              chan error
	output             *bufio.Scanner
}

func start(t *testing.T, snapshot string) *running {
	in, out := io.Pipe()
	stop, cancel := context.WithCancel(context.Background())
	r := &running{stop: cancel, ended: make(chan error, 1), output: bufio.NewScanner(in)}
	go func() {
		err := run(stop, options{
			snapshot: snapshot, snapshotEvery: time.Millisecond, placements: 2, users: 1000, period: time.Hour,
		}, out)
		out.Close()
		r.ended <- err
	}()
	for _, address := range []*string{&r.visitors, &r.operator} {
		if !r.output.Scan() {
			t.Fatal("the server stopped: ", <-r.ended)
		}
		_, rest, _ := strings.Cut(r.output.Text(), "http://")
		host, _, _ := strings.Cut(rest, "/")
		*address = "http://" + host
	}
	t.Cleanup(cancel)
	return r
}

// visitor has its own connections.
type visitor struct {
	client *http.Client
	t      *testing.T
}

func newVisitor(t *testing.T) visitor {
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return visitor{&http.Client{Transport: transport}, t}
}

// get returns the status and the whole body, or an error if the server has ended.
func (v visitor) get(url string) (int, string, error) {
	response, err := v.client.Get(url)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, string(body), err
}

// read gets JSON, which must exist.
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

// Budgets run out, and then other ads are shown; in the end there are ads of the server's own. A budget is known as well as
// the released click rate of its ad, which is that of a quarter of 667 clicks or more: it is off by a factor of 2 with
// probability below 1e-8.
func TestBudgets(t *testing.T) {
	const euros = 400
	if _, err := newShop(options{budget: euros, policy: dpb.PolicySE}); err == nil {
		t.Error("a policy that does not play for values")
	}
	shop, err := newShop(options{budget: euros, window: span{ticks: 1}})
	if err != nil {
		t.Fatal(err)
	}
	defer shop.close()
	pages, random := shop.visitors(), rand.New(rand.NewPCG(3, 4))
	get := func(url string, into any) {
		w := httptest.NewRecorder()
		pages.ServeHTTP(w, httptest.NewRequest(http.MethodGet, url, nil))
		if into != nil {
			if err := json.Unmarshal(w.Body.Bytes(), into); err != nil {
				t.Fatal(w.Body.String(), err)
			}
		}
	}
	earned, own := make([]float64, len(pays)), 0
	for range 50_000 {
		var ad struct {
			ClickURL string `json:"click_url"`
			Arm      *uint32
		}
		get("/ad", &ad)
		if ad.Arm == nil {
			own++
		} else if random.Float64() < 0.5 {
			earned[*ad.Arm] += pays[*ad.Arm]
			get(ad.ClickURL, nil)
		}
	}
	var report struct {
		Arms []struct{ Pays, Left float64 }
	}
	get("/report", &report)
	for arm, ad := range report.Arms {
		if ad.Pays != pays[arm] || ad.Left < 0 || ad.Left > euros {
			t.Errorf("%d: %+v", arm, ad)
		}
		if ad.Left == 0 && (earned[arm] < euros/2 || earned[arm] > euros*2) {
			t.Errorf("%d earned %.2f", arm, earned[arm])
		}
	}
	if own == 0 || report.Arms[2].Left > 0 || report.Arms[9].Left > 0 {
		t.Errorf("%d ads of our own: %+v", own, report.Arms)
	}
	for _, o := range []options{{budget: -1}, {budget: 1, context: true}, {budget: 1, memory: &span{ticks: 9}}} {
		o.window = span{ticks: 10}
		if o.check(nil) == nil {
			t.Errorf("%+v", o)
		}
	}
}

// An ad whose buyers send all back earns less than one that is clicked as often and sells for less. In 300 runs the better
// one was shown at least 25,156 times, with a standard deviation of 361, and the other one at most 976 times.
func TestSales(t *testing.T) {
	shop, err := newShop(options{sales: true, window: span{ticks: 100}, memory: &span{}})
	if err != nil {
		t.Fatal(err)
	}
	defer shop.close()
	visitors, operator, random := shop.visitors(), shop.operator(), rand.New(rand.NewPCG(5, 6))
	get := func(pages http.Handler, url string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		pages.ServeHTTP(w, httptest.NewRequest(http.MethodGet, url, nil))
		return w
	}
	times := make([]int, len(creatives))
	for range 30_000 {
		var ad struct {
			ClickURL string `json:"click_url"`
			Arm      uint32
		}
		if err := json.Unmarshal(get(visitors, "/ad").Body.Bytes(), &ad); err != nil {
			t.Fatal(err)
		}
		times[ad.Arm]++
		ticket := strings.TrimPrefix(ad.ClickURL, "/click/")
		if random.Float64() < 0.2 {
			get(visitors, ad.ClickURL)
			switch {
			case ad.Arm == 3 && random.Float64() < 0.5:
				get(operator, "/bought/"+ticket+"?euros=60")
				get(operator, "/returned/"+ticket+"?euros=60")
			case ad.Arm == 7 && random.Float64() < 0.5:
				get(operator, "/bought/"+ticket+"?euros=40")
			}
		}
	}
	if times[7] < 15_000 || times[3] > 5_000 {
		t.Errorf("%v", times)
	}
	for _, wrong := range []string{"/bought/0?euros=-1", "/bought/0", "/returned/0?euros=NaN", "/returned/0?euros=inf"} {
		if status := get(operator, wrong).Code; status != http.StatusBadRequest {
			t.Errorf("%s: %d", wrong, status)
		}
	}
	for _, o := range []options{{sales: true, operatorPort: -1}, {sales: true, budget: 1}} {
		o.window = span{ticks: 10}
		if o.check(nil) == nil {
			t.Errorf("%+v", o)
		}
	}
}

// Many requests at once: ads, slots of placements, clicks, duplicate clicks, forged clicks, reports, metrics, and
// snapshots every millisecond. There are fewer decisions than the reward window, so each refused click has one
// possible reason. Then the server is stopped under load. The snapshots contain every request that got a response.
func TestLoad(t *testing.T) {
	file := filepath.Join(t.TempDir(), "snapshot")
	server := start(t, file)
	var decisions, slots, twice, forged atomic.Uint64
	var crowd sync.WaitGroup
	for number := range uint64(8) {
		crowd.Add(1)
		go func() {
			defer crowd.Done()
			random, v := rand.New(rand.NewPCG(1, number)), newVisitor(t)
			for range 60 {
				var page struct{ Ads []shown }
				if n := random.Uint64N(3); n > 0 {
					query := fmt.Sprintf("placement=%d&slots=%d&user=%016x", n%2, n, number)
					v.read(server.visitors+"/ads?"+query, &page)
					slots.Add(n)
				} else {
					page.Ads = make([]shown, 1)
					v.read(server.visitors+"/ad", &page.Ads[0])
					decisions.Add(1)
				}
				for _, ad := range page.Ads {
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
	var report, placements struct{ Decisions uint64 }
	var counts dpb.Diagnostics
	v := newVisitor(t)
	v.read(server.visitors+"/report", &report)
	v.read(server.visitors+"/report?placement=1", &placements)
	v.read(server.operator+"/diagnostics", &counts)
	want := dpb.Diagnostics{Duplicates: twice.Load(), Unknown: forged.Load()}
	if report.Decisions != decisions.Load() || report.Decisions >= 1000 || counts != want || twice.Load() == 0 {
		t.Errorf("%d decisions, %+v; but %d, %+v", report.Decisions, counts, decisions.Load(), want)
	}
	if placements.Decisions != slots.Load() || placements.Decisions >= 1000 {
		t.Errorf("%d decisions for slots, but %d", placements.Decisions, slots.Load())
	}

	// A request that arrives while the server stops gets a whole response or none. One request never completes.
	slow, err := net.Dial("tcp", strings.TrimPrefix(server.visitors, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	fmt.Fprint(slow, "GET /ad HTTP/1.1\r\n")
	var requested atomic.Uint64
	for range 4 {
		crowd.Add(1)
		go func() {
			defer crowd.Done()
			for v := newVisitor(t); ; {
				requested.Add(3)
				status, body, err := v.get(server.visitors + "/ads?placement=0&slots=3")
				if err != nil {
					return
				}
				if status != 200 || !strings.HasSuffix(body, "}\n") {
					t.Errorf("%d %s", status, body)
				}
				if slots.Add(3) > 3000 {
					server.stop()
				}
			}
		}()
	}
	if !server.output.Scan() || server.output.Text() != "stopped" {
		t.Errorf("it prints %q", server.output.Text())
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
	if err != nil || last.Decisions != decisions.Load() {
		t.Errorf("%d decisions are saved, %d were made: %v", last.Decisions, decisions.Load(), err)
	}
	if kept, err = os.ReadFile(file + ".placements"); err != nil {
		t.Fatal(err)
	}
	learned, err := dpb.Restore(kept)
	if err != nil {
		t.Fatal(err)
	}
	defer learned.Close()
	lastOfSlots, err := learned.Report()
	kepts, most := lastOfSlots.Decisions, placements.Decisions+requested.Load()
	if err != nil || kepts < slots.Load() || kepts > most {
		t.Errorf("%d slots are saved, %d were served, %d were requested: %v", kepts, slots.Load(), most, err)
	}
}

// click expects the same response for every click.
func (v visitor) click(url string) {
	if status, body, err := v.get(url); status != http.StatusNoContent || body != "" || err != nil {
		v.t.Errorf("%s: %d %q %v", url, status, body, err)
	}
}

// get returns the status and the body of a page.
func get(pages http.Handler, path string) (int, string) {
	response := httptest.NewRecorder()
	pages.ServeHTTP(response, httptest.NewRequest(http.MethodGet, path, nil))
	return response.Code, response.Body.String()
}

// No request shows a creative twice, and a refused request changes nothing.
func TestSlots(t *testing.T) {
	ads, err := newShop(options{placements: 3, users: 1000})
	if err != nil {
		t.Fatal(err)
	}
	defer ads.close()
	for wrong, queries := range map[string][]string{
		"bad_placement": {
			"", "slots=1", "placement=3&slots=1", "placement=-1&slots=1", "placement=4294967296&slots=1",
		},
		"bad_slots": {
			"placement=0", "placement=0&slots=", "placement=0&slots=0", "placement=0&slots=-1", "placement=0&slots=11",
			"placement=0&slots=1e1", "placement=0&slots=%201",
		},
		"bad_user": {
			"placement=0&slots=1&user=", "placement=0&slots=1&user=xyz", "placement=0&slots=1&user=123",
			"placement=0&slots=1&user=0123456789abcdef0", "placement=0&slots=1&user=+123456789abcdef",
		},
	} {
		for _, query := range queries {
			var refusal struct{ Error string }
			status, body := get(ads.visitors(), "/ads?"+query)
			if err := json.Unmarshal([]byte(body), &refusal); err != nil || status != 400 || refusal.Error != wrong {
				t.Errorf("%q: %d %s", query, status, body)
			}
		}
	}
	if report, err := ads.segmented.Report(); err != nil || report.Decisions != 0 {
		t.Errorf("refused, and yet %d decisions: %v", report.Decisions, err)
	}
	tickets := map[string]bool{}
	for slots := 1; slots <= len(creatives); slots++ {
		arms := map[uint32]bool{}
		for _, ad := range ads.slots(t, 2, slots, uint64(slots)) {
			arms[ad.Arm] = true
			tickets[ad.ClickURL] = true
			get(ads.visitors(), ad.ClickURL)
		}
		if len(arms) != slots {
			t.Errorf("%d creatives in %d slots", len(arms), slots)
		}
	}
	counts, err := ads.segmented.Diagnostics()
	if len(tickets) != 55 || counts != (dpb.Diagnostics{}) || err != nil {
		t.Errorf("%d tickets, %+v %v", len(tickets), counts, err)
	}
	none, err := newShop(options{})
	if err != nil {
		t.Fatal(err)
	}
	defer none.close()
	if status, body := get(none.visitors(), "/ads?placement=0&slots=1"); status != 404 {
		t.Errorf("no placements: %d %s", status, body)
	}
}

// slots requests ads for slots.
func (s adServer) slots(t *testing.T, placement, slots int, user uint64) []shown {
	t.Helper()
	var page struct{ Ads []shown }
	status, body := get(s.visitors(), fmt.Sprintf("/ads?placement=%d&slots=%d&user=%016x", placement, slots, user))
	if err := json.Unmarshal([]byte(body), &page); err != nil || status != 200 || len(page.Ads) != slots {
		t.Fatalf("%d %s: %v", status, body, err)
	}
	return page.Ads
}

// The bandit learns from 12 rewards of one person in a period, whatever that person does. Any batch has more. In the
// next period it learns from 12 more.
// The first line of a file is the password, however the line ends.
func TestPasswordFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "password")
	for text, password := range map[string]string{
		"open sesame": "open sesame", "open sesame\n": "open sesame", "open sesame\r\n": "open sesame",
		" a\t\r\nb\n": " a\t", "": "", "\n": "", "\r\n": "",
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		options, err := fleetOptions{redis: "localhost:1", user: "ads", passwordFile: name}.connect()
		if (err != nil) != (password == "") || err == nil && (options.Password != password || options.Username != "ads") {
			t.Errorf("%q: %v, %v", text, options, err)
		}
	}
	if err := (fleetOptions{redis: "localhost:1", node: 1, bandit: "ads", user: "ads"}).check(); err == nil {
		t.Error("a user without a password")
	}
}

// If a bandit refuses the time, the server goes on, and the log has each change once. So it has each leap of the clock.
func TestRefusedTime(t *testing.T) {
	ads, err := newShop(options{window: span{1000, true}})
	if err != nil {
		t.Fatal(err)
	}
	defer ads.close()
	var log bytes.Buffer
	defer slog.SetDefault(slog.Default())
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	decides := func(times int) {
		for range times {
			if status, body := get(ads.visitors(), "/ad"); status != http.StatusOK {
				t.Fatal(status, body)
			}
			ads.tickAll()
		}
	}
	decides(3)
	accepts := ads.bandit
	refuses, err := dpb.New(dpb.NewConfig(uint32(len(creatives)), 1)) // its clock counts decisions
	if err != nil {
		t.Fatal(err)
	}
	defer refuses.Close()
	ads.bandit.Bandit = refuses
	decides(3)
	if lines := strings.Split(log.String(), "\n"); len(lines) != 2 ||
		!strings.Contains(lines[0], "the clock stands still") || !strings.Contains(lines[0], dpb.ErrUnsupported.Error()) {
		t.Error(log.String())
	}
	ads.bandit = accepts
	decides(3)
	if lines := strings.Split(log.String(), "\n"); len(lines) != 3 || !strings.Contains(lines[1], "the clock goes on") {
		t.Error(log.String())
	}
	const year = 365 * 24 * 3600 * 1000
	ads.bandit.advance(uint64(time.Now().UnixMilli() + year))
	decides(3) // at the right time again
	if lines := strings.Split(log.String(), "\n"); len(lines) != 4 || !strings.Contains(lines[2], "the clock leapt") {
		t.Error(log.String())
	}
}

func TestOnePerson(t *testing.T) {
	shop := func() (adServer, func() uint64) {
		ads, err := newShop(options{placements: 2, users: 1000})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(ads.close)
		return ads, func() uint64 {
			report, err := ads.segmented.Report()
			if err != nil {
				t.Fatal(err)
			}
			return uint64(report.Phase)
		}
	}
	const person = 0x9f3c51a277d0e846
	ads, releases := shop()
	visit := func(person func(visit uint64) uint64) {
		for visit := range uint64(500) {
			for _, ad := range ads.slots(t, int(visit%2), len(creatives), person(visit)) {
				get(ads.visitors(), ad.ClickURL)
			}
		}
	}
	visit(func(uint64) uint64 { return person })
	if n := releases(); n != 0 {
		t.Errorf("%d releases of one person", n)
	}
	visit(func(visit uint64) uint64 { return visit })
	if releases() == 0 {
		t.Error("no release of 500 people")
	}

	ads, releases = shop()
	stop, err := ads.keep(options{snapshotEvery: time.Hour, period: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); releases() == 0 && time.Now().Before(end); {
		ads.slots(t, 0, len(creatives), person)
	}
	if err := stop(); err != nil || releases() == 0 {
		t.Errorf("%d releases of many periods: %v", releases(), err)
	}
}

// Visitors cannot read pages that reveal clicks or facts about this machine.
func TestOperatorsPages(t *testing.T) {
	ads, err := newShop(options{})
	if err != nil {
		t.Fatal(err)
	}
	defer ads.close()
	for _, path := range []string{
		"/diagnostics", "/debug/pprof/", "/debug/pprof/heap", "/debug/pprof/trace?seconds=0.01",
	} {
		if status, body := get(ads.operator(), path); status != 200 {
			t.Errorf("operator %s: %d %s", path, status, body)
		}
		if status, body := get(ads.visitors(), path); status != 404 {
			t.Errorf("visitors %s: %d %s", path, status, body)
		}
	}
	_, public := get(ads.visitors(), "/metrics")
	_, all := get(ads.operator(), "/metrics")
	if strings.Contains(public, "dpb_duplicates_total") || !strings.Contains(all, "dpb_duplicates_total") {
		t.Errorf("visitors read\n%s\nthe operator\n%s", public, all)
	}
}

// The page of all placements shows the ad with the largest released mean in each. Here it differs between placements.
func TestLeaders(t *testing.T) {
	ads, err := newShop(options{placements: 3, users: 100_000})
	if err != nil {
		t.Fatal(err)
	}
	defer ads.close()
	type rows []struct {
		Leader *int
		Means  []*float64
		Pulls  uint64
	}
	read := func() rows {
		var page struct {
			Placements int
			Ads        []struct{ Creative string }
			Rows       rows
		}
		status, body := get(ads.visitors(), "/placements")
		err := json.Unmarshal([]byte(body), &page)
		if err != nil || status != 200 || page.Placements != 3 || len(page.Rows) != 3 ||
			len(page.Ads) != len(creatives) {
			t.Fatalf("%d %s: %v", status, body, err)
		}
		return page.Rows
	}
	for _, row := range read() {
		if row.Leader != nil || row.Pulls != 0 || row.Means[0] != nil {
			t.Error("before the first request:", row)
		}
	}
	liked := []uint32{1, 7}
	leads := func() bool {
		all := read()
		for placement, arm := range liked {
			if leader := all[placement].Leader; leader == nil || uint32(*leader) != arm {
				return false
			}
		}
		return all[2].Leader == nil
	}
	for user := uint64(1); !leads(); {
		if user > 100_000 {
			t.Fatal("the leaders are not found:", read())
		}
		for range 100 {
			for placement, arm := range liked {
				for _, ad := range ads.slots(t, placement, 3, user) {
					if ad.Arm == arm {
						get(ads.visitors(), ad.ClickURL)
					}
				}
			}
			user++
		}
	}
	none, err := newShop(options{})
	if err != nil {
		t.Fatal(err)
	}
	defer none.close()
	if status, _ := get(none.visitors(), "/placements"); status != 404 {
		t.Error("no placements:", status)
	}
}

// With a rotation, the oldest ad retires and a new one comes in every placement, also after a restart; requests go on.
func TestRotation(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ads")
	o := options{placements: 2, users: 1000, rotate: 300, snapshot: file}
	user := uint64(0)
	for first := range uint32(2) {
		ads, err := newShop(o)
		if err != nil {
			t.Fatal(err)
		}
		if err := ads.save(o); err != nil { // a restored bandit that counts users serves after it
			t.Fatal(err)
		}
		if live := ads.rotation.eligible(); live[0] != first || len(live) != len(creatives) {
			t.Fatal(live)
		}
		for range 50 {
			for placement := range 2 {
				user++
				if shown := ads.slots(t, placement, 3, user); len(shown) != 3 {
					t.Fatal(shown)
				}
			}
		}
		full := ads.rotation.eligible()
		for range 3 { // one is due
			if err := ads.rotation.turn(); err != nil {
				t.Fatal(err)
			}
		}
		// A request that began before the change.
		if shown, err := ads.fill(0, user, 10, full); err != nil || len(shown) != 9 {
			t.Error(shown, err)
		}
		seen := map[uint32]bool{}
		for range 4 {
			user++
			for _, ad := range ads.slots(t, 0, len(creatives), user) {
				seen[ad.Arm] = true
			}
		}
		newest := uint32(len(creatives)) + first
		if len(seen) != len(creatives) || seen[first] || !seen[newest] {
			t.Error(seen)
		}
		var page struct {
			Rotate uint64
			Ads    []struct {
				Creative string
				Active   bool
			}
		}
		_, body := get(ads.visitors(), "/placements")
		err = json.Unmarshal([]byte(body), &page)
		if err != nil || page.Rotate != 300 || page.Ads[first].Active || !page.Ads[newest].Active ||
			page.Ads[10].Creative != "mountain bike 2" {
			t.Errorf("%s: %v", body, err)
		}
		if err := ads.save(o); err != nil {
			t.Fatal(err)
		}
		ads.close()
	}
}

// In a fleet a server deletes a state that it finds, and no other file.
func TestAFleetDeletesOnlyStates(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ads")
	config := dpb.NewConfig(2, 1)
	states, others := []string{".state", ".state.new", ".state.opened"}, []string{".state.backup", ".statement-2026.pdf", ".states"}
	for _, more := range append(states, others...) {
		if err := os.WriteFile(file+more, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	bandit, err := dpb.New(config)
	if err != nil {
		t.Fatal(err)
	}
	defer bandit.Close()
	if _, err := resume(bandit, options{fleet: fleetOptions{redis: "redis"}}, config, file); err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(file + "*")
	if err != nil || len(left) != len(others) {
		t.Error(left, err)
	}
}
