package dpb

import (
	"errors"
	"testing"
)

func TestStatesMove(t *testing.T) {
	config := NewConfig(3, 1)
	config.RewardWindow, config.FleetKey = 50, &[32]byte{7}
	old := must[*Bandit](t)(New(config))
	defer old.Close()
	keeper := must[*Bandit](t)(New(config))
	defer keeper.Close()
	d := must[Decision](t)(old.Select())
	receiver := must[uint64](t)(keeper.Receiver())
	state := must[[]byte](t)(old.Suspend(receiver, nil))
	if _, err := old.Select(); !errors.Is(err, ErrHalted) {
		t.Fatal(err)
	}
	next := must[*Bandit](t)(Resume(config, state))
	defer next.Close()
	if err := next.Update(d.Ticket, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := Resume(config, state); !errors.Is(err, ErrExpired) {
		t.Fatal(err)
	}

	// It decides nothing more, and its window ends.
	if err := next.Skip(51); err != nil {
		t.Fatal(err)
	}
	if r := must[Report](t)(next.Report()); r.Pending != 0 || r.Answered != 1 {
		t.Errorf("%+v", r)
	}

	// At rest: held until it is claimed.
	resting := must[[]byte](t)(next.Suspend(0, nil))
	last := must[*Bandit](t)(Resume(config, resting))
	defer last.Close()
	if _, err := last.Select(); !errors.Is(err, ErrNotReady) {
		t.Fatal(err)
	}
	if err := last.Claimed(); err != nil {
		t.Fatal(err)
	}
	if err := last.Update(d.Ticket, 1); !errors.Is(err, ErrExpired) {
		t.Fatal(err)
	}
	if _, err := Resume(config, resting[1:]); !errors.Is(err, ErrCorrupt) {
		t.Fatal(err)
	}
	config.FleetKey = nil
	if _, err := Resume(config, resting); !errors.Is(err, ErrUnsupported) {
		t.Fatal(err)
	}
}
