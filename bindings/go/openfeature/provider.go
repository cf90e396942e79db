// Package dpbfeature is a provider for OpenFeature: an evaluation of a flag is a decision of a bandit, the flag's value is
// the arm, and Track reports the reward.
package dpbfeature

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"reflect"
	"strconv"
	"sync"

	"github.com/libdpb/libdpb/bindings/go"
	"github.com/open-feature/go-sdk/openfeature"
)

// Flag is a flag that a bandit decides.
type Flag struct {
	// Bandit decides the flag. It has one arm for each of Values, and stays yours to close.
	Bandit *dpb.Bandit
	// Values holds what the flag can be, arm by arm: all bool, all string, all float64, all int64, or anything for objects.
	Values []any
	// Variants names the values. nil = their text.
	Variants []string
	// Event is the tracking event that reports the reward. "" = the flag's key.
	Event string
	// Request makes a request from the evaluation context, such as its segment or features, or its user by [User]. Do not
	// set Slots. nil = a request that says nothing.
	Request func(openfeature.FlattenedContext) dpb.Request
	// Keep is the number of decisions for which a visitor, known by the targeting key, keeps a decision: the same value and
	// the same ticket. Choose at most [dpb.Config.RewardWindow]. 0 = each evaluation is a decision. In a test
	// [dpb.Config.Sticky] keeps the value in addition, for ever and in all processes.
	//
	// A decision does not end with its reward: otherwise the number of decisions would show who clicked.
	Keep int
}

// These are in the metadata of an evaluation.
const (
	Ticket     = "ticket"     // the decision's ticket, as text; the attribute of a tracking event that names the decision
	Propensity = "propensity" // the probability of this arm, for off-policy evaluation
	Arm        = "arm"        // the number of the value
)

// User returns a function for [Flag.Request], for a bandit with [dpb.Config.ExpectedUsers]: the user of a request is a hash
// of the targeting key, keyed by this secret. Use one secret in all processes. All visitors without a targeting key are one
// user.
func User(secret []byte) func(openfeature.FlattenedContext) dpb.Request {
	return func(flat openfeature.FlattenedContext) dpb.Request {
		visitor, _ := flat[openfeature.TargetingKey].(string)
		if visitor == "" {
			return dpb.Request{}
		}
		hash := hmac.New(sha256.New, secret)
		hash.Write([]byte(visitor))
		return dpb.Request{User: binary.LittleEndian.Uint64(hash.Sum(nil))}
	}
}

// Provider is a provider for OpenFeature. Any number of goroutines may use it.
type Provider struct {
	flags  map[string]*flag
	events map[string]*flag
}

type flag struct {
	Flag
	mu      sync.Mutex
	visitor map[string]dpb.Decision
	order   []string // the visitors of the last Keep decisions, as a ring
	next    int
}

var (
	_ openfeature.FeatureProvider = (*Provider)(nil)
	_ openfeature.Tracker         = (*Provider)(nil)
)

// NewProvider makes a provider of these flags, by their keys. It returns an error, which names the flag, for a flag
// without a bandit, for values that are not as many as the arms or of several types, and for events of two flags.
func NewProvider(flags map[string]Flag) (*Provider, error) {
	p := &Provider{map[string]*flag{}, map[string]*flag{}}
	for key, given := range flags {
		if given.Bandit == nil {
			return nil, fmt.Errorf("flag %q: no bandit", key)
		}
		arms, err := given.Bandit.Arms()
		if err != nil {
			return nil, fmt.Errorf("flag %q: %w", key, err)
		}
		if len(given.Values) != len(arms) || (given.Variants != nil && len(given.Variants) != len(arms)) {
			return nil, fmt.Errorf("flag %q: %d arms, %d values, %d variants", key, len(arms), len(given.Values), len(given.Variants))
		}
		for _, value := range given.Values {
			if reflect.TypeOf(value) != reflect.TypeOf(given.Values[0]) {
				return nil, fmt.Errorf("flag %q: values of types %T and %T", key, given.Values[0], value)
			}
		}
		if given.Event == "" {
			given.Event = key
		}
		if p.events[given.Event] != nil {
			return nil, fmt.Errorf("flag %q: another flag has the event %q", key, given.Event)
		}
		one := &flag{Flag: given, visitor: map[string]dpb.Decision{}, order: make([]string, max(given.Keep, 0))}
		p.flags[key], p.events[given.Event] = one, one
	}
	return p, nil
}

// Metadata returns the provider's name.
func (p *Provider) Metadata() openfeature.Metadata { return openfeature.Metadata{Name: "libdpb"} }

// Hooks returns none.
func (p *Provider) Hooks() []openfeature.Hook { return nil }

// decide returns the visitor's decision, or a new one.
func (f *flag) decide(visitor string, request dpb.Request) (dpb.Decision, error) {
	if f.Keep <= 0 || visitor == "" {
		return f.Bandit.SelectFor(request)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if kept, is := f.visitor[visitor]; is {
		return kept, nil
	}
	decision, err := f.Bandit.SelectFor(request)
	if err == nil {
		delete(f.visitor, f.order[f.next])
		f.visitor[visitor], f.order[f.next] = decision, visitor
		f.next = (f.next + 1) % len(f.order)
	}
	return decision, err
}

// evaluate returns the value of a flag, or the default value with the error.
func evaluate[T any](p *Provider, key string, otherwise T, flat openfeature.FlattenedContext) (T, openfeature.ProviderResolutionDetail) {
	fail := func(err openfeature.ResolutionError) (T, openfeature.ProviderResolutionDetail) {
		return otherwise, openfeature.ProviderResolutionDetail{ResolutionError: err, Reason: openfeature.ErrorReason}
	}
	f := p.flags[key]
	if f == nil {
		return fail(openfeature.NewFlagNotFoundResolutionError(fmt.Sprintf("no flag %q", key)))
	}
	if _, is := f.Values[0].(T); !is {
		return fail(openfeature.NewTypeMismatchResolutionError(fmt.Sprintf("flag %q is of type %T", key, f.Values[0])))
	}
	var request dpb.Request
	if f.Request != nil {
		request = f.Request(maps.Clone(flat))
	}
	visitor, _ := flat[openfeature.TargetingKey].(string)
	decision, err := f.decide(visitor, request)
	if err != nil {
		if refusal := f.Bandit.CheckRequest(request); refusal != nil {
			err = refusal // it names the field
		}
		return fail(openfeature.NewGeneralResolutionError(err.Error()))
	}
	if int(decision.Arm) >= len(f.Values) { // an arm that was added later
		_ = f.Bandit.Cancel(decision.Ticket)
		return fail(openfeature.NewGeneralResolutionError(fmt.Sprintf("flag %q: arm %d has no value", key, decision.Arm)))
	}
	value := f.Values[decision.Arm].(T)
	variant := fmt.Sprint(value)
	if f.Variants != nil {
		variant = f.Variants[decision.Arm]
	}
	return value, openfeature.ProviderResolutionDetail{
		Reason:  openfeature.SplitReason,
		Variant: variant,
		FlagMetadata: openfeature.FlagMetadata{
			Ticket:     strconv.FormatUint(decision.Ticket, 10),
			Propensity: decision.Propensity,
			Arm:        int64(decision.Arm),
		},
	}
}

// BooleanEvaluation decides a flag of type bool.
func (p *Provider) BooleanEvaluation(_ context.Context, key string, otherwise bool, flat openfeature.FlattenedContext) openfeature.BoolResolutionDetail {
	value, detail := evaluate(p, key, otherwise, flat)
	return openfeature.BoolResolutionDetail{Value: value, ProviderResolutionDetail: detail}
}

// StringEvaluation decides a flag of type string.
func (p *Provider) StringEvaluation(_ context.Context, key string, otherwise string, flat openfeature.FlattenedContext) openfeature.StringResolutionDetail {
	value, detail := evaluate(p, key, otherwise, flat)
	return openfeature.StringResolutionDetail{Value: value, ProviderResolutionDetail: detail}
}

// FloatEvaluation decides a flag of type float64.
func (p *Provider) FloatEvaluation(_ context.Context, key string, otherwise float64, flat openfeature.FlattenedContext) openfeature.FloatResolutionDetail {
	value, detail := evaluate(p, key, otherwise, flat)
	return openfeature.FloatResolutionDetail{Value: value, ProviderResolutionDetail: detail}
}

// IntEvaluation decides a flag of type int64.
func (p *Provider) IntEvaluation(_ context.Context, key string, otherwise int64, flat openfeature.FlattenedContext) openfeature.IntResolutionDetail {
	value, detail := evaluate(p, key, otherwise, flat)
	return openfeature.IntResolutionDetail{Value: value, ProviderResolutionDetail: detail}
}

// ObjectEvaluation decides a flag of any type.
func (p *Provider) ObjectEvaluation(_ context.Context, key string, otherwise any, flat openfeature.FlattenedContext) openfeature.InterfaceResolutionDetail {
	value, detail := evaluate(p, key, otherwise, flat)
	return openfeature.InterfaceResolutionDetail{Value: value, ProviderResolutionDetail: detail}
}

// Track reports a reward: the event's value, for the decision that its attribute [Ticket] names, as text; without it, for
// the decision that the context's targeting key keeps. It ignores other events, and rewards that the bandit refuses, such
// as a second one: what a visitor sees must not depend on that. [dpb.Bandit.Diagnostics] counts refusals.
func (p *Provider) Track(_ context.Context, event string, visitor openfeature.EvaluationContext, details openfeature.TrackingEventDetails) {
	f := p.events[event]
	if f == nil {
		return
	}
	if text, is := details.Attribute(Ticket).(string); is {
		if ticket, err := strconv.ParseUint(text, 10, 64); err == nil {
			_ = f.Bandit.Update(ticket, details.Value())
		}
		return
	}
	f.mu.Lock()
	kept, is := f.visitor[visitor.TargetingKey()]
	f.mu.Unlock()
	if is {
		_ = f.Bandit.Update(kept.Ticket, details.Value())
	}
}
