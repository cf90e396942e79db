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
	config.Memory = 5000
	const says = "memory must be 0, as in the snapshot, got 5000"
	if _, err := RestorePolicy(imed, config, bytes[6:]); !errors.Is(err, ErrInvalidConfig) || !strings.Contains(err.Error(), says) {
		t.Error(err)
	}
	if _, err := RestorePolicy(imed, config, nil); !errors.Is(err, ErrCorrupt) {
		t.Error(err)
	}
}
