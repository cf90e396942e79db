package dpbfeature

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/libdpb/libdpb/bindings/go"
	"github.com/open-feature/go-sdk/openfeature"
)

func bandit(t *testing.T, change func(*dpb.Config)) *dpb.Bandit {
	t.Helper()
	config := dpb.NewConfig(3, 1)
	if change != nil {
		change(&config)
	}
	b, err := dpb.New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

// client serves these flags by the client of the SDK.
func client(t *testing.T, flags map[string]Flag) *openfeature.Client {
	t.Helper()
	provider, err := NewProvider(flags)
	if err != nil {
		t.Fatal(err)
	}
	if err := openfeature.SetNamedProviderAndWait(t.Name(), provider); err != nil {
		t.Fatal(err)
	}
	return openfeature.NewClient(t.Name())
}

var colours = []any{"red", "green", "blue"}

func TestItLearnsByTheClient(t *testing.T) {
	b := bandit(t, nil)
	c, ctx := client(t, map[string]Flag{"colour": {Bandit: b, Values: colours}}), context.Background()
	visitor := openfeature.NewTargetlessEvaluationContext(nil)
	counts := map[string]int{}
	for range 20_000 {
		found, err := c.StringValueDetails(ctx, "colour", "grey", visitor)
		if err != nil {
			t.Fatal(err)
		}
		counts[found.Value]++
		reward := 0.0
		if found.Value == "green" {
			reward = 1
		}
		ticket, err := found.FlagMetadata.GetString(Ticket)
		propensity, wrong := found.FlagMetadata.GetFloat(Propensity)
		arm, odd := found.FlagMetadata.GetInt(Arm)
		if err != nil || wrong != nil || odd != nil || propensity <= 0 || colours[arm] != found.Value || found.Variant != found.Value || found.Reason != openfeature.SplitReason {
			t.Fatal(found)
		}
		c.Track(ctx, "colour", visitor, openfeature.NewTrackingEventDetails(reward).Add(Ticket, ticket))
	}
	report, err := b.Report()
	if err != nil || report.Answered != 20_000 || counts["green"] < 19_000 { // a worse arm gets some 100 pulls
		t.Fatal(err, report.Answered, counts)
	}
}

func TestEveryTypeAndEveryError(t *testing.T) {
	type page struct{ Title string }
	b := func() *dpb.Bandit { return bandit(t, nil) }
	c, ctx := client(t, map[string]Flag{
		"bool":   {Bandit: b(), Values: []any{true, true, true}, Variants: []string{"a", "b", "c"}},
		"int":    {Bandit: b(), Values: []any{int64(7), int64(7), int64(7)}},
		"float":  {Bandit: b(), Values: []any{0.5, 0.5, 0.5}},
		"object": {Bandit: b(), Values: []any{page{"x"}, page{"x"}, page{"x"}}},
		"users":  {Bandit: bandit(t, func(c *dpb.Config) { c.ExpectedUsers = 10 }), Values: colours, Request: func(openfeature.FlattenedContext) dpb.Request { return dpb.Request{Segment: 1} }},
	}), context.Background()
	none := openfeature.EvaluationContext{}
	truth, err := c.BooleanValueDetails(ctx, "bool", false, none)
	if err != nil || !truth.Value || truth.Variant < "a" || truth.Variant > "c" {
		t.Error(truth, err)
	}
	if seven, err := c.IntValue(ctx, "int", 0, none); err != nil || seven != 7 {
		t.Error(seven, err)
	}
	if half, err := c.FloatValue(ctx, "float", 0, none); err != nil || half != 0.5 {
		t.Error(half, err)
	}
	if object, err := c.ObjectValue(ctx, "object", nil, none); err != nil || object != (page{"x"}) {
		t.Error(object, err)
	}
	for key, code := range map[string]openfeature.ErrorCode{"none": openfeature.FlagNotFoundCode, "bool": openfeature.TypeMismatchCode, "users": openfeature.GeneralCode} {
		found, err := c.StringValueDetails(ctx, key, "grey", none)
		if err == nil || found.Value != "grey" || found.ErrorCode != code {
			t.Error(key, found, err)
		}
	}
}

func TestWrongFlagsAreRefused(t *testing.T) {
	closed := bandit(t, nil)
	closed.Close()
	b := bandit(t, nil)
	for name, flags := range map[string]map[string]Flag{
		"no bandit": {"x": {Values: colours}},
		"closed":    {"x": {Bandit: closed, Values: colours}},
		"values":    {"x": {Bandit: b, Values: colours[:2]}},
		"variants":  {"x": {Bandit: b, Values: colours, Variants: []string{"a"}}},
		"types":     {"x": {Bandit: b, Values: []any{"a", "b", 3}}},
		"events":    {"x": {Bandit: b, Values: colours, Event: "e"}, "y": {Bandit: b, Values: colours, Event: "e"}},
	} {
		if _, err := NewProvider(flags); err == nil {
			t.Error(name)
		}
	}
}

// A visitor keeps a decision for as many decisions of others, and its reward does not end it.
func TestVisitorsKeepADecision(t *testing.T) {
	b := bandit(t, func(c *dpb.Config) { c.RewardWindow = 4 })
	c, ctx := client(t, map[string]Flag{"colour": {Bandit: b, Values: colours, Event: "click", Keep: 4}}), context.Background()
	decide := func(visitor string) string {
		found, err := c.StringValueDetails(ctx, "colour", "grey", openfeature.NewEvaluationContext(visitor, nil))
		if err != nil {
			t.Fatal(err)
		}
		return found.FlagMetadata[Ticket].(string)
	}
	first := decide("anna")
	c.Track(ctx, "click", openfeature.NewEvaluationContext("anna", nil), openfeature.NewTrackingEventDetails(1))
	c.Track(ctx, "click", openfeature.NewEvaluationContext("nobody", nil), openfeature.NewTrackingEventDetails(1))
	c.Track(ctx, "other", openfeature.NewEvaluationContext("anna", nil), openfeature.NewTrackingEventDetails(1))
	for i := range 3 {
		decide(fmt.Sprint(i))
		if decide("anna") != first {
			t.Fatal("a new decision within the window")
		}
	}
	if report, err := b.Report(); err != nil || report.Decisions != 4 {
		t.Fatal(report, err)
	}
	decide("3")
	if decide("anna") == first {
		t.Fatal("the same decision after its window")
	}
	if d, err := b.Diagnostics(); err != nil || d.Unknown+d.Duplicates != 0 {
		t.Fatal(d, err)
	}
}

// In a test of arms a visitor has one value, in every process, and counts once.
func TestAStickyTest(t *testing.T) {
	seen := map[string]string{}
	for range 2 {
		config := dpb.NewConfig(3, 1)
		config.Sticky, config.ExpectedUsers = 7, 1000
		b, err := dpb.NewTT(config)
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		flags := map[string]Flag{"colour": {Bandit: b, Values: colours, Request: User([]byte("secret"))}}
		c, ctx := client(t, flags), context.Background()
		decide := func(visitor openfeature.EvaluationContext) string {
			found, err := c.StringValueDetails(ctx, "colour", "grey", visitor)
			if err != nil {
				t.Fatal(err)
			}
			ticket := openfeature.NewTrackingEventDetails(1).Add(Ticket, found.FlagMetadata[Ticket])
			c.Track(ctx, "colour", visitor, ticket)
			return found.Value
		}
		for i := range 300 {
			name := fmt.Sprint(i % 100)
			value := decide(openfeature.NewEvaluationContext(name, nil))
			if before, is := seen[name]; is && before != value {
				t.Fatal(name, before, value)
			}
			seen[name] = value
		}
		if nobody := openfeature.NewTargetlessEvaluationContext(nil); decide(nobody) != decide(nobody) {
			t.Fatal("visitors without a key are one user")
		}
		// A hundred people are too few for three batches of fifty, however often they come.
		if said, err := b.Verdict(); err != nil || said.Rewards != 0 || said.State != dpb.TestRunning {
			t.Fatal(said, err)
		}
	}
	shown := map[string]bool{}
	for _, value := range seen {
		shown[value] = true
	}
	if len(shown) != 3 {
		t.Fatal(shown)
	}
}

func TestGoroutines(t *testing.T) {
	b := bandit(t, func(c *dpb.Config) { c.PendingCapacity = 1 << 16 })
	c, ctx := client(t, map[string]Flag{"colour": {Bandit: b, Values: colours, Keep: 50}}), context.Background()
	var group sync.WaitGroup
	for worker := range 8 {
		group.Add(1)
		go func() {
			defer group.Done()
			for i := range 500 {
				visitor := openfeature.NewEvaluationContext(fmt.Sprint(worker*i%90), map[string]any{"page": i})
				if _, err := c.StringValue(ctx, "colour", "grey", visitor); err != nil {
					t.Error(err)
				}
				c.Track(ctx, "colour", visitor, openfeature.NewTrackingEventDetails(1))
			}
		}()
	}
	group.Wait()
}
