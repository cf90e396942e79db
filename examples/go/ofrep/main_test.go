package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	dpb "github.com/libdpb/libdpb/bindings/go"
)

const flagsFile = `{
	"button": {"values": ["blue", "red", "green"]},
	"limit": {"values": [10, 20], "variants": ["low", "high"], "epsilon": 0.5},
	"offer": {"values": [{"price": 9}, {"price": 12}], "variants": ["cheap", "dear"],
	          "attribute": "device", "contexts": ["phone", "desktop"]}
}`

func must[T any](t testing.TB) func(T, error) T {
	return func(value T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

// newOptions are those of the flags above, with versions that end when the test says so.
func newOptions(t testing.TB) options {
	file := filepath.Join(t.TempDir(), "flags.json")
	if err := os.WriteFile(file, []byte(flagsFile), 0o600); err != nil {
		t.Fatal(err)
	}
	o := options{flags: map[string]definition{}, life: time.Hour, window: time.Hour, capacity: 1000, every: time.Hour}
	if err := errors.Join(o.readFlags(file), o.check(nil)); err != nil {
		t.Fatal(err)
	}
	return o
}

func begin(t testing.TB, o options) (*server, http.Handler) {
	t.Helper()
	s := must[*server](t)(newServer(o, nil))
	t.Cleanup(s.close)
	if err := s.publish(); err != nil {
		t.Fatal(err)
	}
	return s, s.pages()
}

func ask(pages http.Handler, method, path, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	pages.ServeHTTP(w, r)
	return w
}

const (
	evaluate = "/ofrep/v1/evaluate/flags"
	tracking = "/dpb/v1/track"
)

func visitor(key string) string {
	return fmt.Sprintf(`{"context": {"targetingKey": %q, "device": "phone", "cart": {"items": [1, 2]}}}`, key)
}

func parse[T any](t testing.TB, w *httptest.ResponseRecorder) (read T) {
	t.Helper()
	if err := json.Unmarshal(w.Body.Bytes(), &read); err != nil || w.Code != http.StatusOK {
		t.Fatalf("%d %s: %v", w.Code, w.Body, err)
	}
	return read
}

// opened counts the decisions that a flag has recorded.
func (d *decider) opened(t testing.TB) uint64 {
	return must[dpb.Report](t)(d.Report()).Decisions
}

func TestAnEvaluationIsTheTablesDecisionAndIsRecorded(t *testing.T) {
	s, pages := begin(t, newOptions(t))
	for name, d := range s.flags {
		context := map[string]string{"offer": "phone"}[name]
		for visit := range 20 {
			key := fmt.Sprint("visitor ", visit/2) // each comes twice
			made := parse[evaluation](t, ask(pages, http.MethodPost, evaluate+"/"+name, visitor(key)))
			meant := must[dpb.Elsewhere](t)(d.current.Load().Decide(key, context))
			want := metadata{meant.Version, meant.ID, context, meant.Arm, meant.Propensity}
			if made.Key != name || made.Reason != "SPLIT" || made.Variant != d.Variants[meant.Arm] || *made.Metadata != want ||
				must[string](t)(compact(made.Value)) != must[string](t)(compact(d.Values[meant.Arm])) {
				t.Errorf("%+v %+v, want %+v", made, made.Metadata, want)
			}
		}
		if n := d.opened(t); n != 10 {
			t.Errorf("%s: %d recorded", name, n)
		}
	}
}

func compact(value json.RawMessage) (string, error) {
	var out bytes.Buffer
	err := json.Compact(&out, value)
	return out.String(), err
}

func TestErrorsAreThoseOfTheProtocol(t *testing.T) {
	s, pages := begin(t, newOptions(t))
	long := fmt.Sprintf(`{"context": {"targetingKey": "%s"}}`, strings.Repeat("x", maxBody))
	for _, c := range []struct {
		method, path, body string
		status             int
		code               string
	}{
		{"POST", evaluate + "/none", visitor("x"), 404, "FLAG_NOT_FOUND"},
		{"POST", evaluate + "/button", "", 400, "PARSE_ERROR"},
		{"POST", evaluate + "/button", "{", 400, "PARSE_ERROR"},
		{"POST", evaluate + "/button", `{} {}`, 400, "PARSE_ERROR"},
		{"POST", evaluate + "/button", `{}`, 400, "TARGETING_KEY_MISSING"},
		{"POST", evaluate + "/button", `{"context": null}`, 400, "TARGETING_KEY_MISSING"},
		{"POST", evaluate + "/button", visitor(""), 400, "TARGETING_KEY_MISSING"},
		{"POST", evaluate + "/button", `{"context": "x"}`, 400, "INVALID_CONTEXT"},
		{"POST", evaluate + "/button", `{"context": {"targetingKey": 7}}`, 400, "INVALID_CONTEXT"},
		{"POST", evaluate + "/button", visitor("a\nb"), 400, "INVALID_CONTEXT"},
		{"POST", evaluate + "/button", long, 413, "GENERAL"},
		{"POST", evaluate, `{}`, 400, "TARGETING_KEY_MISSING"},
		{"POST", evaluate, "no JSON", 400, "PARSE_ERROR"},
		{"POST", tracking, "no JSON", 400, "PARSE_ERROR"},
		{"POST", tracking, `{"events": [{"id": "12", "value": 1}]}`, 400, "PARSE_ERROR"},
		{"POST", tracking, `{"events": [{"id": "0123456789abcdef"}]}`, 400, "PARSE_ERROR"},
		{"POST", tracking, strings.Repeat(" ", maxBody) + "{}", 413, "GENERAL"},
		{"GET", "/dpb/v1/table/none", "", 404, "FLAG_NOT_FOUND"},
		{"GET", evaluate + "/button", "", 405, ""},
		{"GET", tracking, "", 405, ""},
		{"POST", "/report", "", 405, ""},
		{"GET", "/elsewhere", "", 404, ""},
	} {
		w := ask(pages, c.method, c.path, c.body)
		var said failure
		_ = json.Unmarshal(w.Body.Bytes(), &said)
		if w.Code != c.status || said.Code != c.code || (c.code != "" && said.Details == "") {
			t.Errorf("%s %.80s: %d %s", c.path, c.body, w.Code, w.Body)
		}
	}
	for name, d := range s.flags {
		if n := d.opened(t); n != 0 {
			t.Errorf("%s: %d recorded", name, n)
		}
	}
}

func TestBulkDecidesAllAndRecordsNone(t *testing.T) {
	s, pages := begin(t, newOptions(t))
	w := ask(pages, http.MethodPost, evaluate, visitor("x"))
	all := parse[struct{ Flags []evaluation }](t, w).Flags
	if len(all) != 3 || all[0].Key != "button" || all[1].Key != "limit" || all[2].Key != "offer" {
		t.Fatalf("%+v", all)
	}
	for _, made := range all {
		if s.flags[made.Key].opened(t) != 0 {
			t.Error(made.Key, "is recorded")
		}
		alone := parse[evaluation](t, ask(pages, http.MethodPost, evaluate+"/"+made.Key, visitor("x")))
		if string(alone.Value) != string(made.Value) || *alone.Metadata != *made.Metadata {
			t.Errorf("%+v, alone %+v", made, alone)
		}
	}
	tag := w.Header().Get("ETag")
	for _, has := range []string{tag, `"other", W/` + tag, "*"} {
		if w := ask(pages, http.MethodPost, evaluate, visitor("x"), "If-None-Match", has); w.Code != 304 || w.Body.Len() > 0 {
			t.Errorf("%s: %d %s", has, w.Code, w.Body)
		}
	}
	others := 0
	for n := range 20 {
		if ask(pages, http.MethodPost, evaluate, visitor(fmt.Sprint(n)), "If-None-Match", tag).Code == 200 {
			others++
		}
	}
	if err := s.publish(); err != nil || others != 20 { // their ids differ
		t.Error(others, err)
	}
	if w := ask(pages, http.MethodPost, evaluate, visitor("x"), "If-None-Match", tag); w.Code != 200 {
		t.Errorf("the next version: %d", w.Code)
	}
}

func TestTablesAreServedWithTheirTags(t *testing.T) {
	s, pages := begin(t, newOptions(t))
	w := ask(pages, http.MethodGet, "/dpb/v1/table/offer", "")
	table := parse[dpb.Table](t, w)
	tag := w.Header().Get("ETag")
	age := w.Header().Get("Cache-Control")
	if len(table.Contexts) != 3 || age != "max-age=900" || table.Until < time.Now().UnixMilli() {
		t.Errorf("%v %+v", w.Header(), table)
	}
	if w := ask(pages, http.MethodGet, "/dpb/v1/table/offer", "", "If-None-Match", tag); w.Code != 304 {
		t.Error(w.Code)
	}
	if err := s.publish(); err != nil {
		t.Fatal(err)
	}
	next := ask(pages, http.MethodGet, "/dpb/v1/table/offer", "", "If-None-Match", tag)
	if version := parse[dpb.Table](t, next).Version; version != table.Version+1 { // rewards rely on it
		t.Errorf("%x, %x", table.Version, version)
	}
}

// isRewarded reports whether a recorded decision has its reward: another one is then refused.
func (d *decider) isRewarded(t testing.TB, version, id dpb.Hex) bool {
	t.Helper()
	found := must[dpb.Decision](t)(d.Find(uint64(version), uint64(id)))
	return errors.Is(d.Update(found.Ticket, 0), dpb.ErrDuplicate)
}

func TestRewardsFindTheirDecisions(t *testing.T) {
	s, pages := begin(t, newOptions(t))
	d := s.flags["offer"]
	send := func(body string) {
		t.Helper()
		if w := ask(pages, http.MethodPost, tracking, body); w.Code != 204 || w.Body.Len() > 0 {
			t.Errorf("%s: %d %s", body, w.Code, w.Body)
		}
	}
	shown := func(made dpb.Elsewhere) string {
		return fmt.Sprintf(`{"shown": [{"flag": "offer", "version": "%v", "context": "desktop", "id": "%v", "arm": %d}]}`,
			made.Version, made.ID, made.Arm)
	}
	click := func(made dpb.Elsewhere) string { return fmt.Sprintf(`{"events": [{"id": "%v", "value": 1}]}`, made.ID) }
	decide := func(unit string) dpb.Elsewhere {
		return must[dpb.Elsewhere](t)(d.current.Load().Decide(unit, "desktop"))
	}

	first := decide("first")
	send(shown(first))
	send(click(first))
	send(click(first))
	send(shown(first))
	if n := d.opened(t); n != 1 || !d.isRewarded(t, first.Version, first.ID) {
		t.Error("reported, then rewarded:", n)
	}

	early := decide("early")
	send(click(early))
	send(shown(early))
	if !d.isRewarded(t, early.Version, early.ID) {
		t.Error("a reward that overtakes its report is lost")
	}
	silent := decide("silent")
	send(shown(silent))
	if d.isRewarded(t, silent.Version, silent.ID) {
		t.Error("a reward of nobody")
	}

	// A version stays open while the next one begins, and its decisions find their rewards also when it is closed.
	late, lateEarly := decide("late"), decide("late and early")
	send(click(lateEarly))
	send(shown(late))
	if err := s.publish(); err != nil {
		t.Fatal(err)
	}
	send(shown(lateEarly))
	if err := s.publish(); err != nil {
		t.Fatal(err)
	}
	send(click(late))
	for _, made := range []dpb.Elsewhere{late, lateEarly} {
		if !d.isRewarded(t, made.Version, made.ID) {
			t.Error(made.ID, "has no reward")
		}
	}
	opened := d.opened(t)
	send(shown(decideBy(t, first.Version, "too late")))

	// Nothing else opens decisions, and a reward without a report is not kept for ever.
	for _, body := range []string{
		`{}`, `{"shown": [], "events": []}`,
		`{"shown": [{"flag": "none", "version": "0000000000000001", "id": "0000000000000001"}]}`,
		strings.Replace(shown(decide("no arm")), `"arm": `, `"arm": 7`, 1),
		strings.Replace(shown(decide("no context")), "desktop", "fridge", 1),
		`{"events": [{"id": "0123456789abcdef", "value": 1e300}]}`,
	} {
		send(body)
	}
	if d.opened(t) != opened || len(s.young) != 1 {
		t.Error(d.opened(t), opened, s.young)
	}
	for range 2 {
		if err := s.publish(); err != nil {
			t.Fatal(err)
		}
	}
	if len(s.young)+len(s.old) > 0 {
		t.Error(s.young, s.old)
	}
}

// At the limit a reward pushes out one other. If the place of one that has found its decision were free again, it would
// decide about more.
func TestALimitOfEarlyRewardsCountsTheirArrivals(t *testing.T) {
	s, pages := begin(t, newOptions(t))
	d := s.flags["button"]
	made := []dpb.Elsewhere{must[dpb.Elsewhere](t)(d.current.Load().Decide("a", "")), must[dpb.Elsewhere](t)(d.current.Load().Decide("b", ""))}
	for other := range dpb.Hex(mostEarly - 1) {
		s.young[other] = 1
	}
	for _, of := range made {
		ask(pages, http.MethodPost, tracking, fmt.Sprintf(`{"events": [{"id": "%v", "value": 1}]}`, of.ID))
		ask(pages, http.MethodPost, tracking, fmt.Sprintf(`{"shown": [{"flag": "button", "version": "%v", "id": "%v", "arm": %d}]}`,
			of.Version, of.ID, of.Arm))
	}
	if !d.isRewarded(t, made[0].Version, made[0].ID) || d.isRewarded(t, made[1].Version, made[1].ID) {
		t.Error("the second reward has the place of the first")
	}
}

func decideBy(t testing.TB, version dpb.Hex, unit string) dpb.Elsewhere {
	even := map[string][]uint64{"": {1 << 31, 1 << 31}}
	table := dpb.Table{Version: version, Salt: "salt", Arms: []string{"a", "b"}, Contexts: even}
	return must[dpb.Elsewhere](t)(table.Decide(unit, ""))
}

// The status of a record must not show: it reveals rewards.
func TestARepeatIsTheSameWhenItsDecisionHasEnded(t *testing.T) {
	o := newOptions(t)
	o.window, o.life = 2*time.Millisecond, time.Hour
	s, pages := begin(t, o)
	before := ask(pages, http.MethodPost, evaluate+"/button", visitor("x")).Body.String()
	time.Sleep(20 * time.Millisecond)
	s.tick()
	made := parse[evaluation](t, ask(pages, http.MethodPost, evaluate+"/button", visitor("x")))
	_, err := s.flags["button"].Find(uint64(made.Metadata.Version), uint64(made.Metadata.ID))
	if !errors.Is(err, dpb.ErrDuplicate) {
		t.Error(err)
	}
	if after := ask(pages, http.MethodPost, evaluate+"/button", visitor("x")).Body.String(); after != before {
		t.Error(before, after)
	}
}

func TestAHandleThatCannotDecideLeavesItToTheProgram(t *testing.T) {
	o := newOptions(t)
	o.capacity = 4
	s, pages := begin(t, o)
	for n := range 10 {
		made := parse[evaluation](t, ask(pages, http.MethodPost, evaluate+"/button", visitor(fmt.Sprint(n))))
		if (made.Value == nil) != (n >= 4) || (made.Value == nil) != (made.Reason == "DEFAULT") {
			t.Errorf("%d: %+v", n, made)
		}
	}
	if n := s.flags["button"].opened(t); n != 4 {
		t.Error(n)
	}
	s.flags["limit"].Close()
	w := ask(pages, http.MethodPost, evaluate+"/limit", visitor("x"))
	if made := parse[evaluation](t, w); made.Value != nil || made.Metadata != nil || strings.Contains(w.Body.String(), "value") {
		t.Error(w.Body)
	}
	if w := ask(pages, http.MethodGet, "/healthz", ""); w.Code != 500 {
		t.Error(w.Code)
	}
}

func TestPagesOfAnotherOriginMayUseItIfTheOptionsSaySo(t *testing.T) {
	for _, origin := range []string{"", "https://shop.example"} {
		o := newOptions(t)
		o.origin = origin
		_, pages := begin(t, o)
		before := ask(pages, http.MethodOptions, evaluate, "", "Origin", "https://shop.example")
		after := ask(pages, http.MethodPost, evaluate, visitor("x"), "Origin", "https://shop.example")
		for _, w := range []*httptest.ResponseRecorder{before, after} {
			if got := w.Header().Get("Access-Control-Allow-Origin"); got != origin {
				t.Errorf("%q: %q", origin, got)
			}
		}
		headers := before.Header().Get("Access-Control-Allow-Headers")
		if (before.Code == 204) != (origin != "") || (headers != "") != (origin != "") || after.Code != 200 {
			t.Error(origin, before.Code, headers, after.Code)
		}
	}
}

func TestPagesOfTheOperator(t *testing.T) {
	_, pages := begin(t, newOptions(t))
	for path, has := range map[string]string{
		"/": "navigator.sendBeacon", "/report": `"offer"`, "/metrics": `dpb_decisions_total{bandit="button"}`,
		"/privacy": "epsilon", "/privacy.json": `"epsilon`, "/healthz": "ok",
	} {
		if w := ask(pages, http.MethodGet, path, ""); w.Code != 200 || !strings.Contains(w.Body.String(), has) {
			t.Errorf("%s: %d %.300s", path, w.Code, w.Body)
		}
	}
}

// Visitors with phones like one price, and those with desktops the other one. In the end the table shows each mostly what
// they like. In 43 runs all shares were at their maximum, 97.5%, and 75% is enough here.
func TestItLearns(t *testing.T) {
	o := newOptions(t)
	o.life, o.window, o.capacity = 4*time.Millisecond, 4*time.Millisecond, 1<<14
	s, pages := begin(t, o)
	coins := rand.New(rand.NewPCG(1, 2))
	d := s.flags["offer"]
	for range 40 {
		for range 200 {
			context := coins.IntN(2)
			made := must[dpb.Elsewhere](t)(d.current.Load().Decide(fmt.Sprint(coins.Uint64()), d.Contexts[context]))
			rate := 0.1
			if int(made.Arm) == context {
				rate = 0.6
			}
			events := ""
			if coins.Float64() < rate {
				events = fmt.Sprintf(`, "events": [{"id": "%v", "value": 1}]`, made.ID)
			}
			body := fmt.Sprintf(`{"shown": [{"flag": "offer", "version": "%v", "context": %q, "id": "%v", "arm": %d}]%s}`,
				made.Version, d.Contexts[context], made.ID, made.Arm, events)
			ask(pages, http.MethodPost, tracking, body)
		}
		time.Sleep(5 * time.Millisecond)
		if err := s.publish(); err != nil {
			t.Fatal(err)
		}
	}
	weights := d.current.Load().Contexts
	t.Log(weights, d.opened(t))
	for context, name := range d.Contexts {
		if weights[name][context] < 3<<30 {
			t.Errorf("%s: %v", name, weights[name])
		}
	}
}

// start runs a server until its function stop is called.
func start(t *testing.T, o options) (address string, stop func()) {
	t.Helper()
	in, out := io.Pipe()
	until, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- run(until, o, out) }()
	line := make([]byte, 100)
	n, err := in.Read(line)
	if err != nil {
		t.Fatal(err, <-ended)
	}
	go io.Copy(io.Discard, in)
	_, address, _ = strings.Cut(strings.TrimSpace(string(line[:n])), "listening on ")
	return address, func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

func post(t *testing.T, url, body string, into any) {
	t.Helper()
	response := must[*http.Response](t)(http.Post(url, "application/json", strings.NewReader(body)))
	defer response.Body.Close()
	if text := must[[]byte](t)(io.ReadAll(response.Body)); into != nil {
		if err := json.Unmarshal(text, into); err != nil {
			t.Fatal(err, string(text))
		}
	}
}

func TestARestartLosesNothingWithAKey(t *testing.T) {
	for _, hasKey := range []bool{true, false} {
		o := newOptions(t)
		o.directory = t.TempDir()
		if hasKey {
			o.keyFile = filepath.Join(t.TempDir(), "key")
			if err := os.WriteFile(o.keyFile, bytes.Repeat([]byte("k"), 32), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		address, stop := start(t, o)
		var made evaluation
		post(t, address+evaluate+"/button", visitor("x"), &made)
		stop()
		if _, err := os.Stat(filepath.Join(o.directory, "button.state")); hasKey != (err == nil) {
			t.Error(err)
		}

		// The same steps as run, with the bandits at hand.
		var key *[32]byte
		if hasKey {
			key = new([32]byte)
			copy(key[:], bytes.Repeat([]byte("k"), 32))
		}
		next := must[*server](t)(newServer(o, key))
		if err := next.publish(); err != nil {
			t.Fatal(err)
		}
		ask(next.pages(), http.MethodPost, tracking, fmt.Sprintf(`{"events": [{"id": "%v", "value": 1}]}`, made.Metadata.ID))
		d := next.flags["button"]
		if n := d.opened(t); n != 1 {
			t.Error(n, "decisions after a restart")
		}
		if hasKey {
			if !d.isRewarded(t, made.Metadata.Version, made.Metadata.ID) {
				t.Error("the reward is lost")
			}
		} else if _, err := d.Find(uint64(made.Metadata.Version), uint64(made.Metadata.ID)); !errors.Is(err, dpb.ErrExpired) {
			t.Error(err)
		}
		// A second server must not have the same files.
		if _, err := newServer(o, key); err == nil {
			t.Error("two servers have one snapshot")
		}
		next.close()
	}
}

func TestDefinitionsAndOptionsAreChecked(t *testing.T) {
	for _, text := range []string{
		``, `[]`, `{"a": {}}`, `{"a": {"values": [1]}}`, `{"a": {"values": [1, "x"]}}`, `{"a": {"values": [1, null]}}`,
		`{"a/b": {"values": [1, 2]}}`, `{"../a": {"values": [1, 2]}}`, `{"a": {"values": [1, 2], "variants": ["x"]}}`,
		`{"a": {"values": [1, 2], "contexts": ["x"]}}`, `{"a": {"values": [1, 2], "attribute": "x", "contexts": [""]}}`,
		`{"a": {"values": [1, 2], "epsilon": -1}}`, `{"a": {"values": [1, 2], "epsillon": 1}}`,
	} {
		o := newOptions(t)
		o.flags = map[string]definition{}
		file := filepath.Join(t.TempDir(), "flags.json")
		err := errors.Join(os.WriteFile(file, []byte(text), 0o600), o.readFlags(file))
		if err == nil {
			_, err = newServer(o, nil)
		}
		if err == nil {
			t.Error(text)
		}
	}
	o := newOptions(t)
	if err := o.addFlag("button=a,b"); err == nil {
		t.Error("two flags of one name")
	}
	if err := o.addFlag("text=a,b"); err != nil || string(o.flags["text"].Values[1]) != `"b"` || o.flags["text"].Variants[1] != "b" {
		t.Error(err, o.flags["text"])
	}
	for _, change := range []func(*options){
		func(o *options) { o.flags = nil }, func(o *options) { o.life = o.window + 1 }, func(o *options) { o.life = 0 },
		func(o *options) { o.window = 2000 * time.Hour }, func(o *options) { o.capacity = 0 }, func(o *options) { o.every = 0 },
		func(o *options) { o.keyFile = "key" },
	} {
		o := newOptions(t)
		change(&o)
		if o.check(nil) == nil {
			t.Errorf("%+v", o)
		}
	}
	if newOptions(t).check([]string{"more"}) == nil {
		t.Error("other arguments")
	}
}
