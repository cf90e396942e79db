package main

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"

	"examples/web"

	dpb "github.com/libdpb/libdpb/bindings/go"
	dpbprometheus "github.com/libdpb/libdpb/bindings/go/prometheus"
)

//go:embed page.html
var page []byte

const maxBody = 64 << 10

func (s *server) pages() http.Handler {
	pages, bandits := http.NewServeMux(), map[string]*dpb.Bandit{}
	for name, d := range s.flags {
		bandits[name] = d.Bandit
	}
	pages.HandleFunc("POST /ofrep/v1/evaluate/flags/{key}", s.evaluate)
	pages.HandleFunc("POST /ofrep/v1/evaluate/flags", s.evaluateAll)
	pages.HandleFunc("GET /dpb/v1/table/{key}", s.table)
	pages.HandleFunc("POST /dpb/v1/track", s.track)
	pages.HandleFunc("GET /report", s.report)
	pages.Handle("GET /metrics", web.Metrics(dpbprometheus.NewCollector(bandits)))
	pages.HandleFunc("GET /privacy", web.Privacy(bandits))
	pages.HandleFunc("GET /privacy.json", web.PrivacyList(bandits))
	pages.HandleFunc("GET /healthz", s.health)
	pages.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Write(page) // ignore errors of closed connections
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		if !r.ProtoAtLeast(1, 1) { // net/http ignores its Transfer-Encoding, so the end of the request is unknown
			w.Header().Set("Connection", "close")
		}
		if s.origin != "" {
			w.Header().Set("Access-Control-Allow-Origin", s.origin)
			w.Header().Set("Access-Control-Expose-Headers", "ETag")
			if r.Method == http.MethodOptions { // a browser asks before it sends JSON
				w.Header().Set("Access-Control-Allow-Headers", "Content-Type, If-None-Match")
				w.WriteHeader(http.StatusNoContent)
				return
			}
		}
		pages.ServeHTTP(w, r)
	})
}

// failure is an error of OFREP.
type failure struct {
	Key     string `json:"key,omitempty"`
	Code    string `json:"errorCode"`
	Details string `json:"errorDetails"`
}

// evaluation is the value of a flag, as OFREP has it.
type evaluation struct {
	Key      string          `json:"key"`
	Value    json.RawMessage `json:"value,omitempty"` // none: the program's default
	Reason   string          `json:"reason"`
	Variant  string          `json:"variant"`
	Metadata *metadata       `json:"metadata,omitempty"`
}

// metadata names a decision. OpenFeature has it as flagMetadata.
type metadata struct {
	Version    dpb.Hex `json:"version"`
	ID         dpb.Hex `json:"id"`
	Context    string  `json:"context"`
	Arm        uint32  `json:"arm"`
	Propensity float64 `json:"propensity"`
}

func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(body) // ignore errors of closed connections
}

// read reads the JSON of a request. If it returns false, it has responded.
func read(w http.ResponseWriter, r *http.Request, key string, into any) bool {
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	var long *http.MaxBytesError
	var kind *json.UnmarshalTypeError
	switch {
	case err == nil:
		return true
	case errors.As(err, &long):
		reply(w, http.StatusRequestEntityTooLarge, failure{key, "GENERAL", fmt.Sprintf("at most %d bytes", maxBody)})
	case errors.As(err, &kind):
		reply(w, http.StatusBadRequest, failure{key, "INVALID_CONTEXT", err.Error()})
	default:
		reply(w, http.StatusBadRequest, failure{key, "PARSE_ERROR", err.Error()})
	}
	return false
}

// attributes reads the evaluation context of a request, and whose it is. If it returns false, it has responded.
func attributes(w http.ResponseWriter, r *http.Request, key string) (unit string, context map[string]any, ok bool) {
	var request struct{ Context map[string]any }
	if !read(w, r, key, &request) {
		return "", nil, false
	}
	given := request.Context["targetingKey"]
	unit, is := given.(string)
	switch {
	case given == nil, is && unit == "":
		reply(w, http.StatusBadRequest, failure{key, "TARGETING_KEY_MISSING", "who is it? The context has no targetingKey"})
	case !is, strings.Contains(unit, "\n"):
		reply(w, http.StatusBadRequest, failure{key, "INVALID_CONTEXT", "targetingKey must be text without a newline"})
	default:
		return unit, request.Context, true
	}
	return "", nil, false
}

// decide decides a flag by its table, for a visitor with these attributes.
func (d *decider) decide(unit string, attributes map[string]any) (evaluation, error) {
	context := ""
	if given := attributes[d.Attribute]; given != nil {
		context = fmt.Sprint(given)
	}
	if _, is := d.requests[context]; !is {
		context = ""
	}
	made, err := d.current.Load().Decide(unit, context)
	if err != nil {
		return evaluation{}, err
	}
	return evaluation{d.name, d.Values[made.Arm], "SPLIT", made.Name, &metadata{
		Version: made.Version, ID: made.ID, Context: context, Arm: made.Arm, Propensity: made.Propensity,
	}}, nil
}

// evaluate decides a flag, and records the decision: OFREP's server-side providers ask when they show the value.
func (s *server) evaluate(w http.ResponseWriter, r *http.Request) {
	key := r.PathValue("key")
	d := s.flags[key]
	if d == nil {
		reply(w, http.StatusNotFound, failure{key, "FLAG_NOT_FOUND", "no such flag"})
		return
	}
	unit, attributes, ok := attributes(w, r, key)
	if !ok {
		return
	}
	made, err := d.decide(unit, attributes)
	if err == nil {
		err = s.record(d, made.Metadata.Version, made.Metadata.ID, made.Metadata.Context, made.Metadata.Arm)
	}
	// A repeat after the decision has ended is the same decision, whatever its reward.
	if err != nil && !errors.Is(err, dpb.ErrDuplicate) {
		made = d.fail(err)
	}
	reply(w, http.StatusOK, made)
}

// evaluateAll decides all flags. It records none, because a page shows few of them, and reports those.
func (s *server) evaluateAll(w http.ResponseWriter, r *http.Request) {
	unit, attributes, ok := attributes(w, r, "")
	if !ok {
		return
	}
	all := make([]evaluation, 0, len(s.flags))
	for _, name := range slices.Sorted(maps.Keys(s.flags)) {
		made, err := s.flags[name].decide(unit, attributes)
		if err != nil {
			made = s.flags[name].fail(err)
		}
		all = append(all, made)
	}
	body, err := json.Marshal(map[string]any{"flags": all})
	if err != nil {
		reply(w, http.StatusInternalServerError, failure{"", "GENERAL", err.Error()})
		return
	}
	send(w, r, body, tag(body))
}

// table serves a flag's table.
func (s *server) table(w http.ResponseWriter, r *http.Request) {
	d := s.flags[r.PathValue("key")]
	if d == nil {
		reply(w, http.StatusNotFound, failure{r.PathValue("key"), "FLAG_NOT_FOUND", "no such flag"})
		return
	}
	now := d.current.Load()
	w.Header().Set("Cache-Control", fmt.Sprintf("max-age=%d", int(s.life.Seconds()/4)))
	send(w, r, now.body, now.tag)
}

// send sends JSON with its ETag, or says that the client has it.
func send(w http.ResponseWriter, r *http.Request, body []byte, tag string) {
	w.Header().Set("ETag", tag)
	for _, has := range strings.Split(r.Header.Get("If-None-Match"), ",") {
		if has = strings.TrimSpace(has); has == "*" || strings.TrimPrefix(has, "W/") == tag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write(body) // ignore errors of closed connections
}

// track takes what was shown, and rewards. The response is always the same, because statuses reveal rewards.
func (s *server) track(w http.ResponseWriter, r *http.Request) {
	var message struct {
		Shown []struct {
			Flag    string
			Version dpb.Hex
			Context string
			ID      dpb.Hex
			Arm     uint32
		}
		Events []struct {
			ID    dpb.Hex
			Value *float64
		}
	}
	if !read(w, r, "", &message) {
		return
	}
	for _, event := range message.Events {
		if event.Value == nil {
			reply(w, http.StatusBadRequest, failure{"", "PARSE_ERROR", "an event without a value"})
			return
		}
	}
	for _, shown := range message.Shown {
		if d := s.flags[shown.Flag]; d != nil {
			_ = s.record(d, shown.Version, shown.ID, shown.Context, shown.Arm)
		}
	}
	for _, event := range message.Events {
		s.reward(event.ID, *event.Value)
	}
	w.WriteHeader(http.StatusNoContent)
}

// report returns released values only.
func (s *server) report(w http.ResponseWriter, _ *http.Request) {
	type released struct {
		Variants  []string   `json:"variants"`
		Attribute string     `json:"attribute,omitempty"`
		Report    dpb.Report `json:"report"`
		Arms      []dpb.Arm  `json:"arms"`
	}
	all := map[string]released{}
	for name, d := range s.flags {
		report, err := d.Report()
		arms, failed := d.Arms()
		if err = errors.Join(err, failed); err != nil {
			reply(w, http.StatusInternalServerError, failure{name, "GENERAL", err.Error()})
			return
		}
		all[name] = released{d.Variants, d.Attribute, report, arms}
	}
	reply(w, http.StatusOK, all)
}

// health reports whether the server can decide. A bandit that is poisoned after an internal failure cannot.
func (s *server) health(w http.ResponseWriter, _ *http.Request) {
	for name, d := range s.flags {
		if _, err := d.Diagnostics(); err != nil {
			reply(w, http.StatusInternalServerError, failure{name, "GENERAL", err.Error()})
			return
		}
	}
	fmt.Fprintln(w, "ok")
}
