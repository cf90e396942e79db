package dpb

import (
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"
)

func ofTables(t testing.TB, make func(Config) (*Bandit, error)) *Bandit {
	t.Helper()
	config := NewConfig(4, 1)
	config.TableCapacity = 4
	b := must[*Bandit](t)(make(config))
	t.Cleanup(func() { b.Close() })
	return b
}

func TestWeights(t *testing.T) {
	b := ofTables(t, NewMED)
	refused(t, b.RetireArm(3), nil)
	weights := must[[]uint64](t)(b.Weights(Request{Eligible: []uint32{0, 2}}))
	if len(weights) != 4 || weights[0] != 1<<31 || weights[1] != 0 || weights[2] != 1<<31 || weights[3] != 0 {
		t.Error(weights)
	}
	_, err := b.Weights(Request{Eligible: []uint32{4}})
	refused(t, err, ErrInvalidRequest)
	_, err = ofTables(t, NewIMED).Weights(Request{})
	refused(t, err, ErrUnsupported)
	if !strings.Contains(err.Error(), "dp-med") {
		t.Error(err)
	}
}

func TestRecordedDecisions(t *testing.T) {
	b := ofTables(t, NewMED)
	shown := func(arm uint32) Request { return Request{Eligible: []uint32{arm}} }
	_, err := b.Record(1, 1, shown(0))
	refused(t, err, ErrExpired)
	version := must[uint64](t)(b.BeginTable(0))
	_, err = b.Record(version, 1, Request{})
	refused(t, err, ErrInvalidRequest)
	_, err = b.Find(version, 1)
	refused(t, err, ErrUnknownTicket)
	d := must[Decision](t)(b.Record(version, 1, shown(2)))
	if d.Arm != 2 || !math.IsNaN(d.Propensity) {
		t.Error(d)
	}
	for _, again := range []Decision{must[Decision](t)(b.Record(version, 1, shown(3))), must[Decision](t)(b.Find(version, 1))} {
		if again.Ticket != d.Ticket || again.Arm != 2 {
			t.Error(again)
		}
	}
	refused(t, b.Update(d.Ticket, 1), nil)
	_, err = b.Record(version, 1, shown(2))
	refused(t, err, ErrDuplicate)
	for id := range uint64(3) {
		must[Decision](t)(b.Record(version, 10+id, shown(0)))
	}
	_, err = b.Record(version, 20, shown(0))
	refused(t, err, ErrFull)
	next := must[uint64](t)(b.BeginTable(0))
	_, err = b.Record(version, 20, shown(0))
	refused(t, err, ErrExpired)
	must[Decision](t)(b.Find(version, 10))
	must[Decision](t)(b.Record(next, 1, shown(0)))
	_, err = ofTables(t, NewTsallis).BeginTable(0)
	refused(t, err, ErrUnsupported)
}

func TestPublishedTable(t *testing.T) {
	b := ofTables(t, NewMED)
	published := must[*Table](t)(b.Publish(Publication{
		Name: "button", Arms: []string{"blue", "red", "green", "old"}, Contexts: map[string]Request{"phone": {Eligible: []uint32{1}}},
	}))
	text := must[[]byte](t)(json.Marshal(published))
	var table Table
	refused(t, json.Unmarshal(text, &table), nil)
	d := must[Elsewhere](t)(table.Decide("visitor", "phone"))
	if d.Name != "red" || d.Arm != 1 || d.Propensity != 1 || d.Version != published.Version {
		t.Error(d)
	}
	if again := must[Elsewhere](t)(published.Decide("visitor", "phone")); again != d {
		t.Error(again)
	}
	if unknown := must[Elsewhere](t)(table.Decide("visitor", "tablet")); unknown != must[Elsewhere](t)(table.Decide("visitor", "")) {
		t.Error(unknown)
	}
	recorded := must[Decision](t)(b.Record(uint64(d.Version), uint64(d.ID), Request{Eligible: []uint32{d.Arm}}))
	refused(t, b.Update(recorded.Ticket, 1), nil)
	for _, unit := range []string{"", "a\nb"} {
		_, err := table.Decide(unit, "")
		refused(t, err, ErrInvalidRequest)
	}
	// A bad table changes nothing.
	for _, bad := range [][2]string{
		{`4294967296,`, `4294967295,`},
		{`"old"`, `"old","new"`},
		{`"":`, `"x":`},
		{`"salt":"`, `"salt":"\n`},
		{`{`, `{"x":"` + strings.Repeat("x", 1<<20) + `",`},
		{`}`, ``},
	} {
		refused(t, table.UnmarshalJSON([]byte(strings.Replace(string(text), bad[0], bad[1], 1))), ErrCorrupt)
	}
	refused(t, table.UnmarshalJSON([]byte(strings.Replace(string(text), `"dpb_table":1`, `"dpb_table":2`, 1))), ErrNewerVersion)
	if again := must[Elsewhere](t)(table.Decide("visitor", "phone")); again != d {
		t.Error(again)
	}
	_, err := b.Publish(Publication{Arms: []string{"blue"}})
	refused(t, err, ErrInvalidConfig)
	_, err = b.Publish(Publication{Contexts: map[string]Request{"a": {Eligible: []uint32{9}}}})
	refused(t, err, ErrInvalidRequest)
}

// Go decides as all other languages.
func TestDecideAsInAllLanguages(t *testing.T) {
	text, err := os.ReadFile("../../tests/data/decide.json")
	if err != nil {
		t.Skip("the module is alone: ", err)
	}
	var vectors []struct {
		Table     Table
		Decisions []struct {
			Unit, Context string
			Arm           uint32
			ID            Hex
		}
	}
	refused(t, json.Unmarshal(text, &vectors), nil)
	many := 0
	for _, vector := range vectors {
		for _, meant := range vector.Decisions {
			made := must[Elsewhere](t)(vector.Table.Decide(meant.Unit, meant.Context))
			if made.Arm != meant.Arm || made.ID != meant.ID {
				t.Errorf("%+v, not %+v", made, meant)
			}
			many++
		}
	}
	if many != 200 {
		t.Error(many)
	}
}
