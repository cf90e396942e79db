package dpb

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// sharing makes a bandit of the fleet with this key.
func sharing(t *testing.T, key byte) *Bandit {
	config := NewConfig(3, 1)
	config.FleetKey = &[32]byte{key}
	b := must[*Bandit](t)(New(config))
	t.Cleanup(func() { b.Close() })
	return b
}

func learn(t *testing.T, b *Bandit, decisions int) {
	for range decisions {
		d := must[Decision](t)(b.Select())
		if err := b.Update(d.Ticket, float64(d.Arm%2)); err != nil {
			t.Fatal(err)
		}
	}
}

func effective(t *testing.T, b *Bandit) (pulls float64) {
	for _, arm := range must[[]Arm](t)(b.Arms()) {
		pulls += arm.EffectivePulls
	}
	return pulls
}

func expect(t *testing.T, err, expected error) {
	t.Helper()
	if !errors.Is(err, expected) {
		t.Errorf("%v, not %v", err, expected)
	}
}

func TestCombine(t *testing.T) {
	leader, other := sharing(t, 1), sharing(t, 1)
	generation := must[uint64](t)(leader.Lead())
	if again := must[uint64](t)(leader.Lead()); again != generation || generation == 0 {
		t.Error(generation, again)
	}
	if nothing := must[[]byte](t)(other.Contribution(generation)); nothing != nil {
		t.Error(nothing)
	}
	const rounds, each = 20, 100
	var contributions [][]byte
	for range rounds {
		learn(t, other, each)
		contribution := must[[]byte](t)(other.Contribution(generation))
		contributions = append(contributions, contribution)
		if err := leader.Combine(contribution); err != nil {
			t.Fatal(err)
		}
		if err := other.Merge(must[[]byte](t)(leader.Snapshot(nil))); err != nil {
			t.Fatal(err)
		}
	}
	if own := must[*Bandit](t)(Restore(must[[]byte](t)(other.Snapshot(nil)))); effective(t, own) != 0 {
		t.Error("a contributor has released")
	}
	if here, there := effective(t, leader), effective(t, other); here != there || here > rounds*each || here < rounds*each/2 {
		t.Error(here, there)
	}
	for _, contribution := range contributions {
		expect(t, leader.Combine(contribution), ErrDuplicate)
	}
	r := must[Report](t)(leader.Report())
	if r.Contributions != rounds || r.ContributionsLost != 0 || r.FleetKeyID == 0 {
		t.Errorf("%+v", r)
	}
	// A gap in the numbers is a loss.
	learn(t, other, each)
	must[[]byte](t)(other.Contribution(generation))
	learn(t, other, each)
	last := must[[]byte](t)(other.Contribution(generation))
	altered := bytes.Clone(last)
	altered[len(altered)/2] ^= 1
	expect(t, leader.Combine(altered), ErrCorrupt)
	expect(t, leader.Combine(nil), ErrCorrupt)
	if err := leader.Combine(last); err != nil {
		t.Error(err)
	}
	if r := must[Report](t)(leader.Report()); r.Contributions != rounds+1 || r.ContributionsLost != 1 {
		t.Errorf("%+v", r)
	}
	must[uint64](t)(other.Lead())
	expect(t, other.Combine(last), ErrExpired)
	stranger := sharing(t, 2)
	must[uint64](t)(stranger.Lead())
	expect(t, stranger.Combine(last), ErrCorrupt)
	_, err := leader.Contribution(generation)
	expect(t, err, ErrInvalidConfig)
}

func TestSealing(t *testing.T) {
	one, other, stranger := sharing(t, 1), sharing(t, 1), sharing(t, 2)
	for _, message := range []string{"", "a click", strings.Repeat("long", 10_000)} {
		sealed := must[[]byte](t)(one.Seal([]byte(message)))
		if opened := must[[]byte](t)(other.Open(sealed)); string(opened) != message {
			t.Error(message, opened)
		}
		if message != "" && bytes.Contains(sealed, []byte(message)) {
			t.Error("not sealed")
		}
		for _, wrong := range [][]byte{nil, sealed[1:], append(bytes.Clone(sealed), 0)} {
			_, err := other.Open(wrong)
			expect(t, err, ErrCorrupt)
		}
		_, err := stranger.Open(sealed)
		expect(t, err, ErrCorrupt)
	}
}

func TestWithoutFleetKey(t *testing.T) {
	b := must[*Bandit](t)(New(NewConfig(3, 1)))
	_, lead := b.Lead()
	_, contribution := b.Contribution(1)
	_, seal := b.Seal(nil)
	_, open := b.Open(nil)
	for _, err := range []error{lead, contribution, seal, open, b.Combine([]byte("x"))} {
		expect(t, err, ErrUnsupported)
	}
	b.Close()
	_, lead = b.Lead()
	_, contribution = b.Contribution(1)
	_, seal = b.Seal(nil)
	_, open = b.Open(nil)
	for _, err := range []error{lead, contribution, seal, open, b.Combine(nil)} {
		expect(t, err, ErrClosed)
	}
}

func TestFleetKeyIsNotPrinted(t *testing.T) {
	config := NewConfig(3, 1)
	config.FleetKey = &[32]byte{201, 202, 203}
	for _, format := range []string{"%v", "%+v", "%#v"} {
		if text := fmt.Sprintf(format, config); strings.Contains(text, "202") || strings.Contains(text, "0xca") {
			t.Error(text)
		}
	}
}

// A bandit that contributed or led can be alone again, and its report says what it does.
func TestDuty(t *testing.T) {
	c := NewConfig(3, 1)
	plain := must[*Bandit](t)(New(c))
	defer plain.Close()
	refused(t, plain.Alone(), ErrUnsupported)
	refused(t, plain.SetHandles(2), ErrUnsupported)
	c.FleetKey = &[32]byte{1}
	b := must[*Bandit](t)(New(c))
	defer b.Close()
	is := func(duty Duty, generation uint64) {
		t.Helper()
		if r := must[Report](t)(b.Report()); r.Duty != duty || r.Generation != generation || r.Warnings != 0 {
			t.Errorf("%+v, want %v and %v", r, duty, generation)
		}
	}
	is(DutyAlone, 0)
	generation := must[uint64](t)(b.Lead())
	is(DutyLeads, generation)
	if err := b.SetHandles(3); err != nil {
		t.Error(err)
	}
	must[[]byte](t)(b.Contribution(77))
	is(DutyContributes, 77)
	for range 2 {
		if err := b.Alone(); err != nil {
			t.Error(err)
		}
		is(DutyAlone, 0)
	}
	if names := fmt.Sprint(DutyAlone, DutyContributes, DutyLeads, Duty(9)); names != "alone contributes leads duty 9" {
		t.Error(names)
	}
}

// The user of each request is forgotten: nearly nothing is learned from, and the report says so.
func TestWarnings(t *testing.T) {
	c := NewConfig(3, 1)
	c.ExpectedUsers = 1000
	b := must[*Bandit](t)(New(c))
	defer b.Close()
	for range 1025 {
		d := must[Decision](t)(b.SelectFor(Request{}))
		if err := b.Update(d.Ticket, 1); err != nil {
			t.Fatal(err)
		}
	}
	if r := must[Report](t)(b.Report()); r.Warnings != WarnUnlearned || r.Warnings.String() != "unlearned" {
		t.Errorf("%+v", r)
	}
	if d := must[Diagnostics](t)(b.Diagnostics()); d.Warnings != 0 {
		t.Errorf("%+v", d) // one reward took effect
	}
	all := WarnClockStopped | WarnExpiring | WarnUnlearned | WarnUnmerged | WarnAllSmallest | WarnAllLargest | WarnUnreleased
	if all.String() != "clock_stopped expiring unlearned unmerged all_smallest all_largest unreleased" || Warnings(0).String() != "" {
		t.Error(all)
	}
}
