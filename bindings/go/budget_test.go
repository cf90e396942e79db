package dpb

import (
	"encoding/json"
	"math"
	"runtime"
	"strings"
	"testing"
)

func TestOtherSystemsAreCharged(t *testing.T) {
	budget := must[*Budget](t)(NewBudget(1, 0))
	if err := budget.Charge(0.75, 0); err != nil {
		t.Error(err)
	}
	refused(t, budget.Charge(0.5, 0), ErrOverBudget)
	refused(t, budget.Charge(math.NaN(), 0), ErrInvalidConfig)
	if left := must[float64](t)(budget.Remaining()); left != 0.25 {
		t.Errorf("%v left", left)
	}
}

func TestBandit_Statement(t *testing.T) {
	b := must[*Bandit](t)(New(NewConfig(3, 0.5)))
	defer b.Close()
	var all struct {
		Deployment struct {
			Loss struct {
				Parameters struct{ Epsilon, Delta *float64 } `json:"privacy_parameters"`
			} `json:"privacy_loss"`
		}
	}
	if err := json.Unmarshal([]byte(must[string](t)(b.Statement())), &all); err != nil {
		t.Fatal(err)
	}
	if p := all.Deployment.Loss.Parameters; *p.Epsilon != 0.5 || *p.Delta != 0 {
		t.Error(*p.Epsilon, *p.Delta)
	}
	if page := must[string](t)(b.StatementText()); !strings.Contains(page, "Not protected: ") {
		t.Error(page)
	}
}

func TestBudgetIsShared(t *testing.T) {
	_, err := NewBudget(0, 0)
	refused(t, err, ErrInvalidConfig)
	budget := must[*Budget](t)(NewBudget(1, 0))
	config := func(epsilon float64) Config {
		c := NewConfig(3, epsilon)
		c.Budget = budget
		return c
	}
	b := must[*Bandit](t)(New(config(0.5)))
	defer b.Close()
	if spent, left := must[float64](t)(budget.Spent(0)), must[float64](t)(budget.Remaining()); spent != 0.5 || left != 0.5 {
		t.Errorf("%v spent, %v left", spent, left)
	}
	_, err = NewPolicy(PolicySE, config(0.6))
	refused(t, err, ErrOverBudget)
	if !strings.Contains(err.Error(), "epsilon 1 at delta 0 would be overspent: 1.1") {
		t.Error(err)
	}
	_, err = NewNonprivateUCB1(config(0.1))
	refused(t, err, ErrOverBudget)
	// In a new process, a restored bandit is charged for all restarts together.
	snapshot := must[[]byte](t)(b.Snapshot(nil))
	must[*Bandit](t)(RestorePolicy(PolicyIMED, config(0.5), snapshot)).Close()
	_, err = RestorePolicy(PolicyIMED, config(0.5), snapshot)
	refused(t, err, ErrOverBudget)
	must[*Bandit](t)(Restore(snapshot)).Close()
	if spent := must[float64](t)(budget.Spent(1e-9)); spent != 1 {
		t.Errorf("%v spent", spent)
	}
	seeded := config(0.1)
	seeded.TestSeed = &[32]byte{1}
	_, err = New(seeded)
	refused(t, err, ErrOverBudget)
	if !strings.Contains(err.Error(), "TestSeed") {
		t.Error(err)
	}
	_, err = budget.Spent(math.NaN())
	refused(t, err, ErrInvalidConfig)
	if err := budget.Close(); err != nil {
		t.Error(err)
	}
	_, err = New(config(0.1))
	refused(t, err, ErrClosed)
	_, err = budget.Remaining()
	refused(t, err, ErrClosed)
	must[Decision](t)(b.Select()) // lives on
}

// With ExpectedUsers the budget is charged for a number of periods, restarts included.
func TestBudgetOfPeriods(t *testing.T) {
	c := NewConfig(2, 0.5)
	c.Budget, c.ExpectedUsers = must[*Budget](t)(NewBudget(1, 0)), 100
	_, err := New(c)
	refused(t, err, ErrInvalidConfig)
	c.BudgetPeriods = 2
	b := must[*Bandit](t)(New(c))
	defer b.Close()
	snapshot := must[[]byte](t)(b.Snapshot(nil))
	next := must[*Bandit](t)(Restore(snapshot))
	defer next.Close()
	_, err = next.SelectFor(Request{User: 1})
	refused(t, err, ErrNotReady)
	refused(t, next.Stored(snapshot), ErrInvalidConfig)
	refused(t, next.Stored(snapshot[1:]), ErrCorrupt)
	snapshot = must[[]byte](t)(next.Snapshot(nil))
	err = next.CheckRequest(Request{User: 1})
	if refused(t, err, ErrNotReady); !strings.HasSuffix(err.Error(), "and then call Bandit.Stored") || !strings.Contains(err.Error(), "Config.ExpectedUsers") {
		t.Error(err)
	}
	if err := next.Stored(snapshot); err != nil {
		t.Fatal(err)
	}
	must[Decision](t)(next.SelectFor(Request{User: 1}))
	refused(t, next.NextPeriod(), ErrOverBudget)
	_, err = Restore(snapshot)
	refused(t, err, ErrOverBudget)
	if spent := must[float64](t)(c.Budget.Spent(0)); spent != 1 {
		t.Errorf("%v spent", spent)
	}
}

// The garbage collector does not free a budget while a constructor reads it, even if only the configuration refers to it.
func TestBudgetIsKept(t *testing.T) {
	c := NewConfig(2, 1e-4)
	c.Budget = must[*Budget](t)(NewBudget(1, 0))
	for range 50 {
		runtime.GC()
		must[*Bandit](t)(New(c)).Close()
	}
	if spent := must[float64](t)(c.Budget.Spent(0)); math.Abs(spent-0.005) > 1e-9 {
		t.Errorf("%v spent", spent)
	}
}
