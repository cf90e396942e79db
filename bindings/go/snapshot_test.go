package dpb

import (
	"errors"
	"strings"
	"testing"
)

func TestSnapshot(t *testing.T) {
	b := must[*Bandit](t)(New(NewConfig(3, 1)))
	defer b.Close()
	for range 1000 {
		d := must[Decision](t)(b.Select())
		if err := b.Update(d.Ticket, float64(d.Arm%2)); err != nil {
			t.Fatal(err)
		}
	}
	bytes := must[[]byte](t)(b.Snapshot([]byte("before")))
	if string(bytes[:9]) != "beforedpb" {
		t.Fatal(bytes)
	}
	next := must[*Bandit](t)(Restore(bytes[6:]))
	defer next.Close()
	report, arms := must[Report](t)(next.Report()), must[[]Arm](t)(next.Arms())
	if report.Answered != 1000 || !report.IsPrivate || arms[1].Mean != must[[]Arm](t)(b.Arms())[1].Mean {
		t.Error(report, arms)
	}
	for _, wrong := range [][]byte{nil, bytes, bytes[6 : len(bytes)-1]} {
		if _, err := Restore(wrong); !errors.Is(err, ErrCorrupt) {
			t.Error(err)
		}
	}
	u := must[*Bandit](t)(NewNonprivateUCB1(NewConfig(3, 1)))
	defer u.Close()
	if same, err := u.Snapshot(bytes); !errors.Is(err, ErrUnsupported) || len(same) != len(bytes) ||
		!strings.Contains(err.Error(), "its sums are raw") {
		t.Error(err)
	}
	config, imed := NewConfig(3, 1), must[Policy](t)(ParsePolicy("dp-imed"))
	must[*Bandit](t)(RestorePolicy(imed, config, bytes[6:])).Close()
	config.ForgetAfter = 5000 // retuned
	must[*Bandit](t)(RestorePolicy(imed, config, bytes[6:])).Close()
	config.Epsilon = 2
	const says = "Epsilon must be 1, as in the snapshot, got 2"
	if _, err := RestorePolicy(imed, config, bytes[6:]); !errors.Is(err, ErrInvalidConfig) || !strings.Contains(err.Error(), says) {
		t.Error(err)
	}
	if _, err := RestorePolicy(imed, config, nil); !errors.Is(err, ErrCorrupt) {
		t.Error(err)
	}
}

func TestMerge(t *testing.T) {
	a, b := must[*Bandit](t)(New(NewConfig(3, 1))), must[*Bandit](t)(New(NewConfig(3, 1)))
	defer a.Close()
	defer b.Close()
	if one, two := must[uint32](t)(a.AddArm(0)), must[uint32](t)(a.AddArm(900)); one != 3 || two != 4 {
		t.Error(one, two)
	}
	if one, again := must[uint32](t)(b.AddArm(900)), must[uint32](t)(b.AddArm(900)); one != 3 || again != 3 {
		t.Error(one, again)
	}
	for range 1000 {
		d := must[Decision](t)(a.Select())
		if err := a.Update(d.Ticket, float64(d.Arm%2)); err != nil {
			t.Fatal(err)
		}
	}
	snapshot := must[[]byte](t)(a.Snapshot(nil))
	for range 2 {
		if err := b.Merge(snapshot); err != nil {
			t.Fatal(err)
		}
	}
	ours, theirs := must[[]Arm](t)(b.Arms()), must[[]Arm](t)(a.Arms())
	if ours[1].EffectivePulls != theirs[1].EffectivePulls || ours[3].EffectivePulls != theirs[4].EffectivePulls ||
		ours[1].EffectivePulls == 0 {
		t.Error(ours, theirs)
	}
	if err := b.Merge(snapshot[1:]); !errors.Is(err, ErrCorrupt) {
		t.Error(err)
	}
	if _, err := b.AddArm(2); !errors.Is(err, ErrInvalidConfig) {
		t.Error(err)
	}
	other := must[*Bandit](t)(New(NewConfig(3, .5)))
	defer other.Close()
	if err := other.Merge(snapshot); err == nil || !strings.Contains(err.Error(), "Epsilon must be") {
		t.Error(err)
	}
}
