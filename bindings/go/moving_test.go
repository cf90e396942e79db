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

// A resumed handle is charged the difference to the charge of the suspended one.
func TestResumedHandlesAreChargedTheDifference(t *testing.T) {
	periods := func(number uint32, budget *Budget) Config {
		config := NewConfig(3, 2)
		config.FleetKey, config.ExpectedUsers, config.BudgetPeriods, config.Budget = &[32]byte{7}, 100, number, budget
		return config
	}
	spent := func(budget *Budget) float64 { return must[float64](t)(budget.Spent(0)) }
	budget := must[*Budget](t)(NewBudget(3, 0))
	defer budget.Close()
	bandit := must[*Bandit](t)(New(periods(1, budget)))
	defer bandit.Close()
	snapshot := must[[]byte](t)(bandit.Snapshot(nil))
	state := must[[]byte](t)(bandit.Suspend(0, nil))
	if _, err := Resume(periods(50, budget), state); !errors.Is(err, ErrOverBudget) || spent(budget) != 2 {
		t.Fatal(err)
	}
	next := must[*Bandit](t)(Resume(periods(1, budget), state))
	defer next.Close()
	if spent(budget) != 2 {
		t.Error(spent(budget))
	}

	// Another process restores a snapshot, and then moves the handle.
	another := must[*Budget](t)(NewBudget(5, 0))
	defer another.Close()
	restored := must[*Bandit](t)(RestorePolicy(PolicyIMED, periods(2, another), snapshot))
	defer restored.Close()
	moved := must[*Bandit](t)(Resume(periods(2, another), must[[]byte](t)(restored.Suspend(0, nil))))
	defer moved.Close()
	if spent(another) != 4 {
		t.Error(spent(another))
	}
}
