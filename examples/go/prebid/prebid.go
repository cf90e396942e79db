// Package prebid is a module for Prebid Server that learns which price floor earns most, with differential privacy for
// what each visitor saw.
//
// At the stage processed-auction-request it chooses one of the configured floors for the request. Floors below the
// publisher's own are not eligible. The reward is 1 if the winner's ad was seen (event imp), and otherwise 0. The value of
// a reward is the income that the floor guarantees: the floor. High floors earn much and rarely, low ones little and often.
// So the noise does not grow with the highest floor, and floors that differ by request would be other values.
//
// An ad that was not seen causes no event. So the reward is 0 after RewardWindow later decisions without an event.
// The ticket of a decision is in ext.prebid.integration, with a seal. The server writes that field
// into the URL of every event, so the module needs no table.
//
// Prebid Server compiles its modules into the server:
//
//  1. Put this package below modules/.
//  2. Replace the imports of examples/prebid by those of github.com/prebid/prebid-server/v3.
//  3. Return Builder(...) in modules/builder.go.
//  4. Pass the same Module to analytics/build, which delivers the events.
//  5. Enable events in the accounts.
package prebid

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"examples/prebid/analytics"
	"examples/prebid/hookstage"
	"examples/prebid/openrtb_ext"

	dpb "github.com/libdpb/libdpb/bindings/go"
)

// Config is the module's JSON in the host's configuration.
type Config struct {
	Floors       []float64  `json:"floors"` // ascending, for a thousand impressions
	Currency     string     `json:"currency"`
	Epsilon      float64    `json:"epsilon"`
	Policy       dpb.Policy `json:"policy"`
	RewardWindow uint32     `json:"reward_window"` // requests: as many as in ten minutes
	Memory       uint64     `json:"memory"`        // ForgetAfter in requests; 0: never
}

// Module handles all requests and events, many at a time.
type Module struct {
	bandit   *dpb.Bandit
	floors   []float64
	currency string
	key      [32]byte // of the seals; the process makes it, like the tickets
}

var (
	_ hookstage.ProcessedAuctionRequest = (*Module)(nil)
	_ analytics.Module                  = (*Module)(nil)
)

// Builder makes the module as Prebid Server does it.
func Builder(config json.RawMessage, _ any) (any, error) {
	c := Config{Currency: "USD", Epsilon: 1, Policy: dpb.PolicyIMED, RewardWindow: 100_000}
	if err := json.Unmarshal(config, &c); err != nil {
		return nil, err
	}
	return New(c)
}

// New makes the module. Call Shutdown when done.
func New(c Config) (*Module, error) {
	if len(c.Floors) < 2 || !slices.IsSorted(c.Floors) || c.Floors[0] <= 0 {
		return nil, errors.New("floors: two at least, rising, above 0")
	}
	config := dpb.NewConfig(uint32(len(c.Floors)), c.Epsilon)
	config.RewardBits = 0 // seen or not
	config.RewardWindow = c.RewardWindow
	config.ForgetAfter = c.Memory
	bandit, err := dpb.NewPolicy(c.Policy, config)
	if err != nil {
		return nil, err
	}
	if err := bandit.CheckRequest(dpb.Request{Values: c.Floors}); err != nil {
		bandit.Close()
		return nil, fmt.Errorf("policy: %w", err)
	}
	m := &Module{bandit: bandit, floors: c.Floors, currency: c.Currency}
	rand.Read(m.key[:])
	return m, nil
}

// Shutdown frees the bandit. Requests that are still running get no floor.
func (m *Module) Shutdown() { m.bandit.Close() }

// HandleProcessedAuctionHook requests a mutation of the floors. The mutation makes the decision, because the server
// does not apply the mutation of a hook that is too slow.
func (m *Module) HandleProcessedAuctionHook(
	_ context.Context,
	_ hookstage.ModuleInvocationContext,
	payload hookstage.ProcessedAuctionRequestPayload,
) (result hookstage.HookResult[hookstage.ProcessedAuctionRequestPayload], err error) {
	if payload.Request != nil && payload.Request.BidRequest != nil {
		result.ChangeSet.AddMutation(m.setFloor, hookstage.MutationUpdate, "bidrequest", "imp", "bidfloor")
	}
	return result, nil
}

// setFloor sets all floors of the request or none. After an error the auction continues as if there were no module.
func (m *Module) setFloor(payload hookstage.ProcessedAuctionRequestPayload) (hookstage.ProcessedAuctionRequestPayload, error) {
	eligible := m.eligible(payload.Request.GetImp())
	if len(eligible) == 0 {
		return payload, nil
	}
	ext, err := payload.Request.GetRequestExt()
	if err != nil {
		return payload, err
	}
	prebid := ext.GetPrebid()
	if prebid == nil {
		prebid = &openrtb_ext.ExtRequestPrebid{}
	}
	if len(prebid.Integration)+tokenLength > integrationLength {
		return payload, fmt.Errorf("integration %q is too long: a ticket does not fit", prebid.Integration)
	}
	values := make([]float64, len(eligible))
	for i, arm := range eligible {
		values[i] = m.floors[arm]
	}
	decision, err := m.bandit.SelectFor(dpb.Request{Eligible: eligible, Values: values})
	if err != nil {
		return payload, err
	}
	for _, imp := range payload.Request.GetImp() {
		imp.BidFloor, imp.BidFloorCur = m.floors[decision.Arm], m.currency
	}
	prebid.Integration += m.seal(decision)
	ext.SetPrebid(prebid)
	return payload, nil
}

// eligible returns the floors that are not below any floor of the publisher: none if one is in another currency.
func (m *Module) eligible(imps []*openrtb_ext.ImpWrapper) []uint32 {
	least := 0.0
	for _, imp := range imps {
		currency := imp.BidFloorCur
		if currency == "" {
			currency = "USD"
		}
		if imp.BidFloor > 0 && currency != m.currency {
			return nil
		}
		least = max(least, imp.BidFloor)
	}
	var eligible []uint32
	for arm, floor := range m.floors {
		if floor >= least && len(imps) > 0 {
			eligible = append(eligible, uint32(arm))
		}
	}
	return eligible
}

// LogNotificationEventObject receives the event of an ad that was seen. It returns nothing, so a sender of events
// does not learn their status.
func (m *Module) LogNotificationEventObject(event *analytics.NotificationEvent) {
	if event == nil || event.Request == nil || event.Request.Type != analytics.Imp {
		return
	}
	if ticket, ok := m.open(event.Request.Integration); ok {
		_ = m.bandit.Update(ticket, 1) // the operator's counts have refused rewards
	}
}

// A token follows the publisher's own integration. It has the ticket and a seal, so that a sender of events cannot invent
// tickets, which the operator's counts would show.
const (
	sealed            = 8 // bytes under the seal
	tokenLength       = 1 + (sealed+8)*8/6 + 1
	integrationLength = 64
)

func (m *Module) seal(decision dpb.Decision) string {
	token := binary.BigEndian.AppendUint64(nil, decision.Ticket)
	return "_" + base64.RawURLEncoding.EncodeToString(append(token, m.sealOf(token)...))
}

func (m *Module) sealOf(token []byte) []byte {
	mac := hmac.New(sha256.New, m.key[:])
	mac.Write(token)
	return mac.Sum(nil)[:8]
}

func (m *Module) open(integration string) (ticket uint64, ok bool) {
	if len(integration) < tokenLength {
		return 0, false
	}
	token, err := base64.RawURLEncoding.DecodeString(integration[len(integration)-tokenLength+1:])
	if err != nil || !hmac.Equal(token[sealed:], m.sealOf(token[:sealed])) {
		return 0, false
	}
	return binary.BigEndian.Uint64(token), true
}
