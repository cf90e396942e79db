package prebid

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"examples/prebid/analytics"
	"examples/prebid/hookstage"
	"examples/prebid/openrtb_ext"

	dpb "github.com/libdpb/libdpb/bindings/go"
)

func build(t *testing.T, config string) *Module {
	t.Helper()
	made, err := Builder(json.RawMessage(config), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(made.(analytics.Module).Shutdown)
	return made.(*Module)
}

func request(imps ...openrtb_ext.Imp) *openrtb_ext.RequestWrapper {
	return &openrtb_ext.RequestWrapper{BidRequest: &openrtb_ext.BidRequest{ID: "1", Imp: imps}}
}

// auction does what the server does at this stage: it calls the hook, applies its mutations, and reads the
// integration that events will carry.
func auction(t *testing.T, hook hookstage.ProcessedAuctionRequest, r *openrtb_ext.RequestWrapper) (integration string, err error) {
	payload := hookstage.ProcessedAuctionRequestPayload{Request: r}
	result, err := hook.HandleProcessedAuctionHook(context.Background(), hookstage.ModuleInvocationContext{Endpoint: "/openrtb2/auction"}, payload)
	if err != nil || result.Reject {
		t.Fatal(result, err)
	}
	for _, mutation := range result.ChangeSet.Mutations() {
		if payload, err = mutation.Apply(payload); err != nil {
			return "", err
		}
	}
	ext, _ := payload.Request.GetRequestExt()
	if prebid := ext.GetPrebid(); prebid != nil {
		integration = prebid.Integration
	}
	return integration, nil
}

// event simulates a browser's call of /event.
func event(kind analytics.EventType, integration string) *analytics.NotificationEvent {
	return &analytics.NotificationEvent{Request: &analytics.EventRequest{Type: kind, BidID: "b", AccountID: "a", Integration: integration}}
}

// TestLearns runs many auctions at once. Of four floors the second earns most: 0.5 * 0.8 = 0.4 for each request,
// against 0.25, 0.19 and 0.1. The event of each ad comes twice. In 400 runs, at least 3851 of the last 4000 requests
// got this floor.
func TestLearns(t *testing.T) {
	m := build(t, `{"floors": [0.25, 0.5, 0.75, 1], "epsilon": 4, "reward_window": 200}`)
	seen := map[float64]float64{0.25: 1, 0.5: 0.8, 0.75: 0.25, 1: 0.1}
	var lock sync.Mutex
	late := map[float64]int{}
	var crowd sync.WaitGroup
	for number := range uint64(4) {
		crowd.Add(1)
		go func() {
			defer crowd.Done()
			random := rand.New(rand.NewPCG(7, number))
			for i := range 4000 {
				r := request(openrtb_ext.Imp{ID: "1"})
				integration, err := auction(t, m, r)
				if err != nil {
					t.Error(err)
					return
				}
				floor := r.Imp[0].BidFloor
				if random.Float64() < seen[floor] {
					for _, kind := range []analytics.EventType{analytics.Win, analytics.Imp, analytics.Imp} {
						m.LogNotificationEventObject(event(kind, integration))
					}
				}
				if i >= 3000 {
					lock.Lock()
					late[floor]++
					lock.Unlock()
				}
			}
		}()
	}
	crowd.Wait()
	if late[0.5] < 2000 {
		t.Error(late)
	}
	arms, err := m.bandit.Arms()
	if err != nil || arms[1].Mean < 0.7 || arms[1].Mean > 0.9 {
		t.Error(arms, err)
	}
}

func TestFloors(t *testing.T) {
	m := build(t, `{"floors": [0.25, 0.5, 1], "reward_window": 100}`)
	decisions := uint64(0)
	for _, test := range []struct {
		imps []openrtb_ext.Imp
		from float64 // the lower bound of the new floor; 0: it does not change
	}{
		{[]openrtb_ext.Imp{{}}, 0.25},
		{[]openrtb_ext.Imp{{BidFloor: 0.5}}, 0.5},
		{[]openrtb_ext.Imp{{BidFloor: 0.1}, {BidFloor: 0.7, BidFloorCur: "USD"}}, 1},
		{[]openrtb_ext.Imp{{BidFloor: 1.5}}, 0},
		{[]openrtb_ext.Imp{{BidFloor: 0.1, BidFloorCur: "EUR"}}, 0},
		{nil, 0},
	} {
		for range 20 {
			r := request(append([]openrtb_ext.Imp(nil), test.imps...)...)
			integration, err := auction(t, m, r)
			if err != nil || (integration == "") != (test.from == 0) {
				t.Fatal(test, integration, err)
			}
			for i, imp := range r.Imp {
				if test.from == 0 && imp != test.imps[i] || imp.BidFloor < test.from || imp.BidFloor != r.Imp[0].BidFloor {
					t.Error(test, r.Imp)
				}
			}
			if test.from > 0 {
				decisions++
			}
		}
	}
	if report, err := m.bandit.Report(); err != nil || report.Decisions != decisions {
		t.Error(report, err)
	}
}

// An event counts once, and only with an unchanged token. The publisher's own integration stays in front.
func TestEvents(t *testing.T) {
	m := build(t, `{"floors": [0.5, 1], "reward_window": 100}`)
	r := request(openrtb_ext.Imp{})
	ext, _ := r.GetRequestExt()
	ext.SetPrebid(&openrtb_ext.ExtRequestPrebid{Integration: "pbjs-9"})
	good, err := auction(t, m, r)
	if err != nil || !strings.HasPrefix(good, "pbjs-9_") || len(good) > integrationLength {
		t.Fatal(good, err)
	}
	for _, char := range good {
		if !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_", char) {
			t.Errorf("%q has %q, which the server refuses", good, char)
		}
	}
	m.LogNotificationEventObject(nil)
	m.LogNotificationEventObject(&analytics.NotificationEvent{})
	m.LogNotificationEventObject(event(analytics.Win, good))
	other := build(t, `{"floors": [0.5, 1], "reward_window": 100}`)
	foreign, _ := auction(t, other, request(openrtb_ext.Imp{}))
	for _, bad := range []string{"", "pbjs-9", foreign, good[:len(good)-1], good + "A", strings.Repeat("_", 64), strings.Repeat("é", 32)} {
		m.LogNotificationEventObject(event(analytics.Imp, bad))
	}
	at := len(good) - tokenLength + 1
	for i := at; i < len(good); i++ { // any other ticket or seal
		flipped := []byte(good)
		flipped[i] = map[bool]byte{true: 'B', false: 'A'}[flipped[i] == 'A']
		if _, ok := m.open(string(flipped)); ok && i < len(good)-1 { // the last digit has unused bits
			t.Errorf("%s is taken for %s", flipped, good)
		}
	}
	if counts, err := m.bandit.Diagnostics(); counts != (dpb.Diagnostics{}) || err != nil {
		t.Errorf("refused for another reason than the seal: %+v %v", counts, err)
	}
	m.LogNotificationEventObject(event(analytics.Imp, good))
	m.LogNotificationEventObject(event(analytics.Imp, good))
	if counts, err := m.bandit.Diagnostics(); counts != (dpb.Diagnostics{Duplicates: 1}) || err != nil {
		t.Errorf("%+v %v", counts, err)
	}
}

// A hook whose mutation is not applied, or cannot be applied, makes no decision.
func TestNothingIsDecidedInVain(t *testing.T) {
	m := build(t, `{"floors": [0.5, 1], "reward_window": 100}`)
	r := request(openrtb_ext.Imp{})
	payload := hookstage.ProcessedAuctionRequestPayload{Request: r}
	for _, payload := range []hookstage.ProcessedAuctionRequestPayload{payload, {}, {Request: &openrtb_ext.RequestWrapper{}}} {
		if _, err := m.HandleProcessedAuctionHook(context.Background(), hookstage.ModuleInvocationContext{}, payload); err != nil {
			t.Error(err)
		}
	}
	ext, _ := r.GetRequestExt()
	ext.SetPrebid(&openrtb_ext.ExtRequestPrebid{Integration: strings.Repeat("x", 50)})
	if _, err := auction(t, m, r); err == nil || r.Imp[0].BidFloor != 0 {
		t.Error("a ticket does not fit, and yet", r.Imp, err)
	}
	if report, err := m.bandit.Report(); report.Decisions != 0 || err != nil {
		t.Error(report, err)
	}
	m.Shutdown()
	r = request(openrtb_ext.Imp{})
	if _, err := auction(t, m, r); err == nil || r.Imp[0].BidFloor != 0 {
		t.Error("it is closed, and yet", r.Imp, err)
	}
	m.LogNotificationEventObject(event(analytics.Imp, "x"))
}

func TestConfig(t *testing.T) {
	for _, config := range []string{
		`{`, `{}`, `{"floors": [1]}`, `{"floors": [1, 0.5]}`, `{"floors": [0, 1]}`, `{"floors": [1, 2], "policy": "none"}`,
		`{"floors": [1, 2], "epsilon": -1}`, `{"floors": [1, 2], "policy": "dp-tt"}`,
	} {
		if made, err := Builder(json.RawMessage(config), nil); err == nil {
			t.Error(config, fmt.Sprint(made))
		}
	}
	if name := build(t, `{"floors": [1, 2], "policy": "dp-med"}`).bandit.PolicyName(); name != "dp-med" {
		t.Error(name)
	}
}
