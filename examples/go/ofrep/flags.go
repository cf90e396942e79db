package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"examples/keep"

	dpb "github.com/libdpb/libdpb/bindings/go"
)

// definition is a flag, as the file of -flags has it by its name.
type definition struct {
	Values   []json.RawMessage `json:"values"`   // all of one type
	Variants []string          `json:"variants"` // their names; nil: their text
	Epsilon  float64           `json:"epsilon"`  // for each reward; 0: 1
	// Visitors differ by this attribute of the evaluation context, which is one of Contexts, or anything else. NEVER
	// COMPUTE IT FROM REWARDS. None: all visitors are alike.
	Attribute string   `json:"attribute"`
	Contexts  []string `json:"contexts"`
}

const (
	explored  = 0.05    // of decisions by contexts
	mostEarly = 100_000 // rewards that wait for the report of their decision, in each life of a version
)

// Flags' names are parts of URLs and of files.
var named = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]*$`)

func (o options) addFlag(text string) error {
	name, values, ok := strings.Cut(text, "=")
	if !ok {
		return errors.New("must be NAME=VALUE,VALUE")
	}
	var d definition
	for _, value := range strings.Split(values, ",") {
		quoted, _ := json.Marshal(value)
		d.Values = append(d.Values, quoted)
	}
	return o.add(name, d)
}

func (o options) readFlags(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	decoder := json.NewDecoder(strings.NewReader(string(text)))
	decoder.DisallowUnknownFields()
	var read map[string]definition
	if err := decoder.Decode(&read); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	for name, d := range read {
		if err := o.add(name, d); err != nil {
			return err
		}
	}
	return nil
}

// add adds a flag, with its variants.
func (o options) add(name string, d definition) error {
	refuse := func(what string, given ...any) error {
		return fmt.Errorf("flag %q: %s", name, fmt.Sprintf(what, given...))
	}
	if _, twice := o.flags[name]; twice || !named.MatchString(name) {
		return refuse("must be a new name of letters, digits, dots, - and _")
	}
	if len(d.Contexts) > 0 && d.Attribute == "" {
		return refuse("contexts need an attribute")
	}
	for _, context := range d.Contexts {
		if context == "" || strings.Contains(context, "\n") {
			return refuse("context %q is empty or has a newline", context)
		}
	}
	kinds := map[string]bool{}
	given := d.Variants != nil
	for i, value := range d.Values {
		var read any
		if err := json.Unmarshal(value, &read); err != nil || read == nil {
			return refuse("value %d is none", i)
		}
		kinds[fmt.Sprintf("%T", read)] = true
		if !given {
			d.Variants = append(d.Variants, fmt.Sprint(read))
		}
	}
	if len(kinds) > 1 || len(d.Variants) != len(d.Values) {
		return refuse("its values must be of one type, and have a variant each")
	}
	o.flags[name] = d
	return nil
}

// decider is a flag with its bandit.
type decider struct {
	definition
	*dpb.Bandit
	name     string
	file     string                 // of its snapshots; "": none
	unlock   func()                 // its files
	requests map[string]dpb.Request // what to decide for, by context
	current  atomic.Pointer[published]
	refused  string // why its clock stood still the last time; "": it did not
}

// published is a version of a flag's table.
type published struct {
	*dpb.Table
	body []byte      // JSON
	tag  string      // an ETag
	said atomic.Bool // whether the log says why it cannot be decided by
}

// fail logs why a flag cannot be decided, once for each version.
func (d *decider) fail(err error) evaluation {
	if !d.current.Load().said.Swap(true) {
		slog.Error("the flag cannot be decided", "flag", d.name, "err", err)
	}
	return evaluation{Key: d.name, Reason: "DEFAULT", Variant: "default"}
}

// server has all flags.
type server struct {
	flags    map[string]*decider
	life     time.Duration
	origin   string // of pages that may use the server; "": only its own
	versions uint64 // how many versions an id of an open decision may be of

	mu sync.Mutex // of records and rewards
	// Rewards that came before the report of their decision, by its id. They are kept for one to two lives of a version,
	// and by then their version is closed. None leaves earlier, so that at the limit one reward more pushes out one other,
	// and decides about no third one.
	young, old map[dpb.Hex]float64
}

func newServer(o options, key *[32]byte) (*server, error) {
	s := &server{
		flags: map[string]*decider{}, life: o.life, origin: o.origin, versions: uint64(o.window/o.life) + 3,
		young: map[dpb.Hex]float64{},
	}
	for name, definition := range o.flags {
		d, err := newDecider(o, key, name, definition)
		if err != nil {
			s.close()
			return nil, fmt.Errorf("flag %q: %w", name, err)
		}
		s.flags[name] = d
	}
	return s, nil
}

// newDecider makes a flag's bandit, which continues from its files if there are any.
func newDecider(o options, key *[32]byte, name string, definition definition) (*decider, error) {
	d := &decider{definition: definition, name: name, requests: map[string]dpb.Request{"": {}}}
	config, policy := dpb.NewConfig(uint32(len(d.Values)), 1), dpb.PolicyMED
	if d.Epsilon != 0 {
		config.Epsilon = d.Epsilon
	}
	config.ClampRewards = true // a refused reward would leave its ticket open, and public counts would show that
	config.Clock, config.RewardWindow = dpb.ClockCaller, uint32(o.window.Milliseconds())
	config.ForgetAfter = uint64(o.forget.Milliseconds())
	config.PendingCapacity, config.TableCapacity = uint32(o.capacity), uint32(o.capacity)
	config.FleetKey = key
	if n := len(d.Contexts); n > 0 { // a model for each arm, whose features say which context it is
		policy = dpb.PolicyLinear
		config.Features, config.ModelPerArm, config.Exploration = uint32(n), true, explored
		d.requests[""] = dpb.Request{Features: make([]float32, n)}
		for i, context := range d.Contexts {
			row := make([]float32, n)
			row[i] = 1
			d.requests[context] = dpb.Request{Features: row}
		}
	}
	if o.directory != "" {
		file, err := keep.Own(filepath.Join(o.directory, name))
		if err != nil {
			return nil, err
		}
		d.file = file
	}
	unlock, err := keep.Lock(d.file)
	if err != nil {
		return nil, err
	}
	d.unlock = unlock
	if d.Bandit, err = d.make(policy, config); err != nil {
		unlock()
		return nil, err
	}
	return d, nil
}

func (d *decider) make(policy dpb.Policy, config dpb.Config) (bandit *dpb.Bandit, err error) {
	kept, err := keep.Load(d.file)
	switch {
	case err != nil:
		return nil, err
	case kept == nil:
		bandit, err = dpb.NewPolicy(policy, config)
	default:
		bandit, err = dpb.RestorePolicy(policy, config, kept)
	}
	if err != nil || d.file == "" {
		return bandit, err
	}
	return keep.Resume(bandit, config, d.file)
}

func (s *server) close() {
	for _, d := range s.flags {
		d.Close()
		d.unlock()
	}
}

// tick sets the clock of a flag's bandit. It is never called at a reward, because time must not depend on rewards. If
// the bandit refuses the time, it goes on with the last one.
func (d *decider) tick() error { return d.Advance(uint64(time.Now().UnixMilli())) }

func (s *server) tick() {
	for _, d := range s.flags {
		reason := ""
		if err := d.tick(); err != nil {
			reason = err.Error()
		}
		if d.refused != reason {
			slog.Warn("the clock stands still, or goes on again", "flag", d.name, "err", reason)
			d.refused = reason
		}
	}
}

// publish begins a version of each table. If it fails, the earlier ones stay.
func (s *server) publish() (err error) {
	for _, d := range s.flags {
		_ = d.tick()
		err = errors.Join(err, d.publish(s.life))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.young, s.old = map[dpb.Hex]float64{}, s.young
	return err
}

func (d *decider) publish(life time.Duration) error {
	table, err := d.Publish(dpb.Publication{
		Name: d.name, Arms: d.Variants, Contexts: d.requests,
		Until: time.Now().Add(life), Grace: uint64(life.Milliseconds() / 4),
	})
	if err != nil {
		return fmt.Errorf("flag %q: %w", d.name, err)
	}
	body, err := json.Marshal(table)
	d.current.Store(&published{Table: table, body: body, tag: tag(body)})
	return err
}

func (s *server) save() (err error) {
	for _, d := range s.flags {
		if d.file == "" {
			continue
		}
		written, failed := keep.Save(d.Bandit, d.file)
		if failed == nil {
			failed = d.Stored(written)
		}
		err = errors.Join(err, failed)
	}
	return err
}

// record records a decision that is shown, and gives it the reward that has overtaken it. A repeat changes nothing.
func (s *server) record(d *decider, version, id dpb.Hex, context string, arm uint32) error {
	request, is := d.requests[context]
	if !is {
		return fmt.Errorf("%w: no context %q", dpb.ErrInvalidRequest, context)
	}
	request.Eligible = []uint32{arm}
	_ = d.tick()
	s.mu.Lock()
	defer s.mu.Unlock()
	decision, err := d.Record(uint64(version), uint64(id), request)
	for _, early := range []map[dpb.Hex]float64{s.old, s.young} {
		if value, is := early[id]; is && err == nil {
			_ = d.Update(decision.Ticket, value) // a repeat changes nothing
		}
	}
	return err
}

// reward gives a decision its reward. An id says neither its flag nor its version. But versions have successive numbers,
// and two decisions have one id only by chance, because it is a hash of 64 bits.
func (s *server) reward(id dpb.Hex, value float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	isOpen := false
	for _, d := range s.flags {
		newest := uint64(d.current.Load().Version)
		for back := range s.versions {
			decision, err := d.Find(newest-back, uint64(id))
			switch {
			case err == nil:
				_ = d.Update(decision.Ticket, value)
				return
			case errors.Is(err, dpb.ErrDuplicate):
				return
			case errors.Is(err, dpb.ErrUnknownTicket): // a version that is open: the report may come
				isOpen = true
			}
		}
	}
	if _, twice := s.young[id]; isOpen && !twice && len(s.young) < mostEarly {
		s.young[id] = value
	}
}

// tag is the ETag of a body.
func tag(body []byte) string {
	hash := sha256.Sum256(body)
	return `"` + hex.EncodeToString(hash[:16]) + `"`
}
