package dpb

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math"
	"reflect"
	"strings"
	"testing"
)

// Every policy accepts this configuration, except for Delta, which some need and some refuse.
func anyPolicy(t *testing.T, policy Policy) *Bandit {
	config := NewConfig(3, 1)
	config.Horizon = 1000
	if policy == PolicyLap {
		config.Base = PolicyNonprivateEXP3
	}
	if policy == PolicyLinear {
		config.Features = 2
	}
	b, err := NewPolicy(policy, config)
	if err != nil {
		config.Delta = 1e-6
		b = must[*Bandit](t)(NewPolicy(policy, config))
	}
	t.Cleanup(func() { b.Close() })
	return b
}

func TestPolicies(t *testing.T) {
	all := Policies()
	if len(all) < 21 {
		t.Error(all)
	}
	for _, policy := range all {
		b := anyPolicy(t, policy)
		if report := must[Report](t)(b.Report()); report.Policy != policy || b.PolicyName() != policy.String() {
			t.Errorf("%v is %v, %q", policy, report.Policy, b.PolicyName())
		}
		if again := must[Policy](t)(ParsePolicy(policy.String())); again != policy {
			t.Errorf("%v is %v", policy, again)
		}
	}
	if PolicyIMED.String() != "dp-imed" || Policy(99).String() != "policy 99" {
		t.Error(PolicyIMED, Policy(99))
	}
	for _, name := range []string{"", "dp-none", "policy 99", "dp-imed\x00"} {
		_, err := ParsePolicy(name)
		refused(t, err, ErrInvalidConfig)
	}
	_, err := NewPolicy(Policy(99), NewConfig(3, 1))
	refused(t, err, ErrInvalidConfig)
	if !strings.Contains(err.Error(), `"policy 99"`) {
		t.Error(err)
	}
	all[0] = 0
	if Policies()[0] == 0 {
		t.Error("the table is everybody's")
	}
}

// A service reads a policy from its configuration file and from its command line.
func TestPolicyAsText(t *testing.T) {
	var service struct{ Policy Policy }
	if err := json.Unmarshal([]byte(`{"Policy":"dp-med"}`), &service); err != nil || service.Policy != PolicyMED {
		t.Error(err, service)
	}
	refused(t, json.Unmarshal([]byte(`{"Policy":"dp-none"}`), &service), ErrInvalidConfig)
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.TextVar(&service.Policy, "policy", PolicyIMED, "")
	if err := flags.Parse([]string{"-policy", "dp-med"}); err != nil || service.Policy != PolicyMED {
		t.Error(err, service)
	}
	if err := flags.Parse([]string{"-policy", "dp-none"}); err == nil || service.Policy != PolicyMED {
		t.Error(err, service)
	}
}

// Means are NaN before the first release and a baseline's privacy loss is infinite. JSON has neither.
func TestJSONAndLogs(t *testing.T) {
	b := anyPolicy(t, PolicyNonprivateUCB1)
	report, arms := must[Report](t)(b.Report()), must[[]Arm](t)(b.Arms())
	decision := must[Decision](t)(anyPolicy(t, PolicyEXP3Tau).Select())
	if !math.IsInf(report.EpsilonSpent, 1) || !math.IsNaN(arms[0].Mean) || !math.IsNaN(decision.Propensity) {
		t.Fatal(report, arms, decision)
	}
	released := Arm{Mean: 0.25, Width: 0.5, Pulls: 7, Active: true, EffectivePulls: 3.5}
	for value, want := range map[any]string{
		report:           `{"Policy":"nonprivate-ucb1","Phase":0,"ArmsActive":3,"Pending":0,"Decisions":0,"Answered":0,"Cancelled":0,"Expired":0,"EpsilonSpent":null,"DeltaSpent":0,"IsPrivate":false,"ChangesDetected":0,"Segments":0,"MaxSegments":0,"Failures":0,"Features":0,"ModelPerArm":false,"Contributions":0,"ContributionsLost":0,"FleetKeyID":"0","Duty":"alone","Warnings":"","Generation":"0","ClockLeaps":0,"Stopped":false,"BestArm":0,"Clip":0,"EpsilonLimit":null,"EpsilonLeft":0}`,
		arms[0]:          `{"Mean":null,"Width":null,"Pulls":0,"Active":true,"EffectivePulls":0}`,
		released:         `{"Mean":0.25,"Width":0.5,"Pulls":7,"Active":true,"EffectivePulls":3.5}`,
		decision:         `{"Ticket":"` + jsonOf(t, decision.Ticket) + `","Propensity":null,"Arm":` + jsonOf(t, decision.Arm) + `,"Phase":` + jsonOf(t, decision.Phase) + `}`,
		Decision{Arm: 1}: `{"Ticket":"0","Propensity":0,"Arm":1,"Phase":0}`,
		Diagnostics{}:    `{"Duplicates":0,"Late":0,"Rejected":0,"Unknown":0,"Oversized":0,"Warnings":""}`,
	} {
		if !sameJSON(t, jsonOf(t, value), want) {
			t.Errorf("%s, want %s", jsonOf(t, value), want)
		}
	}
	if list := jsonOf(t, arms); strings.Count(list, `"Mean":null`) != 3 {
		t.Error(list)
	}

	var log bytes.Buffer
	logger := slog.New(slog.NewJSONHandler(&log, nil))
	logger.Info("", "report", report, "arm", arms[0], "decision", decision, "arms", arms)
	for _, want := range []string{
		`"policy":"nonprivate-ucb1"`, `"epsilon_spent":null`, `"arm":{"mean":null,"width":null,"pulls":0,"active":true,"effective_pulls":0}`,
		`"propensity":null`, `"arms":[{"`,
	} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("%s is not in %s", want, log.String())
		}
	}
	if strings.Contains(log.String(), "ERROR") {
		t.Error(log.String())
	}
}

// A browser, which reads each number as a float64, returns the same ticket. A number is read too.
func TestJSONHas64Bits(t *testing.T) {
	const large = 8887983085728856867
	decision := Decision{Ticket: large, Propensity: math.NaN(), Arm: 1, Phase: 2}
	request := Request{Slots: 3, Segment: large, User: large + 2, Eligible: []uint32{4}}
	report := Report{Policy: PolicySE, EpsilonSpent: math.Inf(1), Decisions: 5, FleetKeyID: large, Duty: DutyLeads, Warnings: WarnExpiring | WarnUnmerged, Generation: large}
	arm := Arm{Mean: math.NaN(), Width: math.NaN(), Pulls: 3}
	for _, value := range []any{decision, request, report, arm} {
		var browser map[string]any
		if err := json.Unmarshal([]byte(jsonOf(t, value)), &browser); err != nil {
			t.Fatal(err)
		}
		again := reflect.New(reflect.TypeOf(value))
		if err := json.Unmarshal([]byte(jsonOf(t, browser)), again.Interface()); err != nil {
			t.Error(err)
		}
		if got, want := again.Elem().Interface(), value; fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	for text, want := range map[string]Decision{
		`{"Ticket":8887983085728856867,"Propensity":0.5}`: {Ticket: large, Propensity: 0.5},
		`{"ticket":"18446744073709551615","Arm":7}`:       {Ticket: math.MaxUint64, Arm: 7},
		`{"Ticket":null}`: {},
		`{}`:              {},
	} {
		var d Decision
		if err := json.Unmarshal([]byte(text), &d); err != nil || d != want {
			t.Errorf("%s: %+v, %v", text, d, err)
		}
	}
	for _, text := range []string{`"x"`, `""`, `-1`, `1.5`, `8.887983085728857e18`, `"18446744073709551616"`, `true`, `[1]`, `"null"`} {
		if err := json.Unmarshal([]byte(`{"Ticket":`+text+`}`), new(Decision)); err == nil {
			t.Errorf("the ticket %s is accepted", text)
		}
	}
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("", "decision", decision, "report", report)
	for _, want := range []string{`"ticket":"8887983085728856867"`, `"fleet_key_id":"8887983085728856867"`} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("%s is not in %s", want, log.String())
		}
	}
}

// The log has every field.
func TestLogsAreWhole(t *testing.T) {
	for _, value := range []slog.LogValuer{Report{}, Arm{}, Decision{}} {
		if fields := reflect.TypeOf(value).NumField(); len(value.LogValue().Group()) != fields {
			t.Errorf("%T has %d fields, its log has %d", value, fields, len(value.LogValue().Group()))
		}
	}
}

func jsonOf(t *testing.T, value any) string {
	t.Helper()
	return string(must[[]byte](t)(json.Marshal(value)))
}

func sameJSON(t *testing.T, a, b string) bool {
	t.Helper()
	var x, y any
	return json.Unmarshal([]byte(a), &x) == nil && json.Unmarshal([]byte(b), &y) == nil && reflect.DeepEqual(x, y)
}

// A test says what it found, in numbers and in words.
func TestVerdict(t *testing.T) {
	config := NewConfig(2, 4)
	config.Tolerance, config.ControlShare, config.TestSeed = 0.1, 0.5, new([32]byte)
	b := must[*Bandit](t)(NewTT(config))
	defer b.Close()
	begun := must[Verdict](t)(b.Verdict())
	if begun.State != TestRunning || !math.IsNaN(begun.Low) || begun.String() != "The test goes on after 0 rewards. Arm 0 leads." {
		t.Errorf("%+v", begun)
	}
	said := begun
	for said.State == TestRunning {
		d := must[Decision](t)(b.Select())
		if err := b.Update(d.Ticket, float64(d.Arm)); err != nil {
			t.Fatal(err)
		}
		said = must[Verdict](t)(b.Verdict())
	}
	if said.State != TestWon || said.Leader != 1 || said.Other != 0 || said.Low < 0.5 || said.High > 1 || said.Mismatch {
		t.Errorf("%+v", said)
	}
	if text := said.String(); !strings.HasPrefix(text, "Arm 1 is the best of 2, after ") || !strings.HasSuffix(text, " (95%).") {
		t.Error(text)
	}
	for state, name := range map[TestState]string{TestRunning: "running", TestWon: "won", TestTied: "tied", TestUndecided: "undecided"} {
		var read TestState
		if text := must[[]byte](t)(state.MarshalText()); string(text) != name || read.UnmarshalText(text) != nil || read != state {
			t.Error(state, read)
		}
	}
	if _, err := must[*Bandit](t)(New(NewConfig(2, 1))).Verdict(); !errors.Is(err, ErrUnsupported) {
		t.Error(err)
	}
}
