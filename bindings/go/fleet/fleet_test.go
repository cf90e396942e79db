package fleet

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	dpb "github.com/libdpb/libdpb/bindings/go"
)

func TestNodesAgree(t *testing.T) {
	server := startRedis(t)
	var nodes []running
	for number := range uint16(3) {
		node := runAt(t, server.address, number+1, interval)
		play(node.Bandit, 1000*(int(number)+1))
		nodes = append(nodes, node)
	}
	eventually(t, "all know the same", func() bool { return agree(nodes) })
	for _, node := range nodes {
		if m := node.Metrics(); m.Released != 2 || m.Incompatible != 0 {
			t.Errorf("%+v", m)
		}
	}
	// A node that leaves puts its last snapshot, and its releases still count.
	play(nodes[2].Bandit, 5000)
	last := must(nodes[2].Bandit.Snapshot(nil))
	if err := nodes[2].end(); !planned(err) {
		t.Error(err)
	}
	eventually(t, "the others know the releases of the node that left", func() bool { return agree(nodes[:2], last) })
	store := storeAt(server.address)
	defer store.Close()
	joined := must(Join(context.Background(), Options{Store: store, Config: config(5)}))
	defer joined.Bandit.Close()
	if !agree([]running{nodes[0], {Node: joined}}, last, must(nodes[1].Bandit.Snapshot(nil))) {
		t.Error("the new node does not know what the others know")
	}
	nodes[2] = runAt(t, server.address, 4, interval)
	eventually(t, "all know the releases of the node that left", func() bool { return agree(nodes, last) })
}

// A node with an interval of an hour merges the snapshots of which its beats tell.
func TestBeatsTellOfNews(t *testing.T) {
	server := startRedis(t)
	a := runAt(t, server.address, 1, time.Hour)
	eventually(t, "the first exchange", func() bool { return a.Metrics().Exchanges == 1 })
	b := runAt(t, server.address, 2, interval)
	play(b.Bandit, 1000)
	eventually(t, "both know the same", func() bool { return agree([]running{a, b}) })
	if m := a.Metrics(); m.Exchanges != 1 {
		t.Errorf("%+v", m)
	}
	if err := a.end(); err != nil {
		t.Error(err)
	}
}

func TestRetryIsWithinTheInterval(t *testing.T) {
	n := Node{interval: time.Second}
	for failures := range 100 {
		for range 1000 {
			wait := pause(n.interval, failures)
			if failures > 0 {
				wait += n.timeout()
			}
			if wait > n.interval || wait < n.interval/64 {
				t.Fatal(failures, wait)
			}
		}
	}
}

func TestInvalidJoin(t *testing.T) {
	server := startRedis(t)
	store := storeAt(server.address)
	defer store.Close()
	ctx := context.Background()
	join := func(policy dpb.Policy, config dpb.Config) error {
		node, err := Join(ctx, Options{Store: store, Policy: policy, Config: config})
		if err == nil {
			node.Bandit.Close()
		}
		return err
	}
	wide, other := config(1), config(1)
	wide.Node, other.Epsilon = 1<<16, 2
	for _, wrong := range []dpb.Config{wide} {
		err := join(0, wrong)
		if !errors.Is(err, dpb.ErrInvalidConfig) || !strings.Contains(err.Error(), "node must be") {
			t.Error(err)
		}
	}
	if err := join(dpb.PolicySE, config(1)); !errors.Is(err, dpb.ErrUnsupported) {
		t.Error(err)
	}
	if all := must(store.Numbers(ctx)); len(all) != 0 {
		t.Error("a node that could not join has put", all)
	}
	check(join(dpb.PolicyMED, config(1)))
	check(join(dpb.PolicyMED, config(1)))
	for policy, wrong := range map[dpb.Policy]dpb.Config{dpb.PolicyMED: other, 0: config(1)} {
		if err := join(policy, wrong); !errors.Is(err, dpb.ErrInvalidConfig) {
			t.Error(err)
		}
	}
	server.kill()
	if err := join(dpb.PolicyMED, config(1)); err == nil {
		t.Error("joined without a store")
	}
}
