package fleetprometheus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	dpb "github.com/libdpb/libdpb/bindings/go"
	"github.com/libdpb/libdpb/bindings/go/fleet"
	dpbprometheus "github.com/libdpb/libdpb/bindings/go/prometheus"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// empty is a store without other nodes, which a node can join.
type empty struct{}

func (empty) Name() string { return "ads" }

func (empty) Run(_ context.Context, command dpb.Command) (reply []byte, err error) {
	none := strings.Repeat("0", 20)
	items, known := map[dpb.CommandKind][]string{
		dpb.CommandTake:  {"ok", "7", "1", none, ""},
		dpb.CommandRound: {"ok", "1", "0", "1", "1", "0", "0", "0", "0", none, "0", "1", "0", "0", "0", "0"},
		dpb.CommandPut:   {"ok", string(command.Args[3])},
		dpb.CommandNews:  {"ok", "0", "0"},
	}[command.Kind]
	if !known {
		return nil, errors.New("empty")
	}
	for _, item := range items {
		reply = fmt.Appendf(reply, "%d:%s", len(item), item)
	}
	return reply, nil
}

// One registry has the metrics of a node and of its bandit. Only the operators' registry has metrics that are not
// private.
func TestCollectors(t *testing.T) {
	node, err := fleet.Join(context.Background(), fleet.Options{Store: empty{}, Config: dpb.NewConfig(2, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer node.Close()
	nodes, bandits := map[string]*fleet.Node{"ads": node}, map[string]*dpb.Bandit{"ads": node.Bandit}
	for private, collectors := range map[bool][]prometheus.Collector{
		false: {NewCollector(nodes), dpbprometheus.NewCollector(bandits)},
		true:  {NewOperatorCollector(nodes), dpbprometheus.NewOperatorCollector(bandits)},
	} {
		registry := prometheus.NewPedanticRegistry()
		registry.MustRegister(collectors...)
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, family := range families {
			if name, ok := strings.CutPrefix(family.GetName(), "dpb_fleet_"); ok {
				names = append(names, name)
			}
			if strings.Contains(family.GetHelp(), "NOT private") && !private {
				t.Error(family.GetName(), "is public")
			}
		}
		expected := []string{
			"age_seconds", "contributions_total", "draining", "exchanges_total",
			"incompatible_nodes", "leads", "learns", "nodes", "outage", "outages_total", "ready", "released_nodes",
		}
		if private {
			expected = append(expected, "failures_total", "rewards_received_total", "rewards_refused_total",
				"rewards_sent_total", "rewards_unsent_total", "rewards_waiting")
			slices.Sort(expected)
		}
		if !slices.Equal(names, expected) || len(families) < 18+len(expected) {
			t.Error(names, len(families))
		}
		if wrong, err := testutil.CollectAndLint(collectors[0]); err != nil || len(wrong) > 0 {
			t.Error(err, wrong)
		}
	}
}
