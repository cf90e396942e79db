package fleetprometheus

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	dpb "github.com/libdpb/libdpb/bindings/go"
	"github.com/libdpb/libdpb/bindings/go/fleet"
	dpbprometheus "github.com/libdpb/libdpb/bindings/go/prometheus"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// empty is a store without other nodes.
type empty struct{}

func (empty) Take(_ context.Context, node uint16, life uint64, _ time.Duration) (fleet.Member, error) {
	return fleet.Member{Node: node, Incarnation: 1, Life: life}, nil
}
func (empty) Put(context.Context, fleet.Member, fleet.Snapshot, bool) (bool, error) { return true, nil }
func (empty) Versions(context.Context) (map[uint16]uint64, error)                   { return nil, nil }
func (empty) List(context.Context, ...uint16) ([]fleet.Snapshot, error)             { return nil, nil }
func (empty) Numbers(context.Context) ([]uint16, error)                             { return nil, nil }
func (empty) Beat(context.Context, fleet.Member, fleet.Beat) (fleet.Pulse, error) {
	return fleet.Pulse{Beats: 1, Nodes: 1, Numbers: 1}, nil
}
func (empty) Leave(context.Context, fleet.Member) error { return nil }

// One registry has the metrics of a node and of its bandit. Only the operators' registry has metrics that are not
// private.
func TestCollectors(t *testing.T) {
	config := dpb.NewConfig(2, 1)
	config.Node = 7
	node, err := fleet.Join(context.Background(), fleet.Options{Store: empty{}, Config: config})
	if err != nil {
		t.Fatal(err)
	}
	defer node.Bandit.Close()
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
			"age_seconds", "contributions_lost_total", "contributions_total", "errors_total", "exchanges_total",
			"incompatible_nodes", "leads", "nodes", "outage", "outages_total", "released_nodes", "wards",
		}
		if private {
			expected = append(expected, "reward_errors_total", "rewards_received_total", "rewards_refused_total",
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
