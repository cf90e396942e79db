package dpb

import (
	"errors"
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
	if same, err := u.Snapshot(bytes); !errors.Is(err, ErrUnsupported) || len(same) != len(bytes) {
		t.Error(err)
	}
}
