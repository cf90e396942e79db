package fleet

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// The bandit's name, and what keys and arguments have, are bytes.
func TestNamesAreBytes(t *testing.T) {
	server := startRedis(t)
	name := "ä \"b\"\n\r\n$3 \t*"
	for range 2 { // the second continues from the first one's snapshot, which has every byte
		store := NewRedis(&redis.UniversalOptions{Addrs: []string{server.address}}, name)
		t.Cleanup(func() { store.Close() })
		node := runOn(t, store, Options{Config: keyed(1)})
		learn(t, []running{node}, 1000)
		check(node.end())
	}
	client := server.client()
	defer client.Close()
	keys := must(client.Keys(context.Background(), "*").Result())
	for _, key := range keys {
		if !strings.HasPrefix(key, "dpb:{"+name+"}:") {
			t.Errorf("%q", key)
		}
	}
	if len(keys) < 4 {
		t.Error(keys)
	}
}

// The permissions in README.md for a Redis user suffice for all that nodes do, and do not cover another bandit.
func TestPermissions(t *testing.T) {
	server := startRedis(t)
	client := server.client()
	defer client.Close()
	ctx := context.Background()
	_, line, _ := strings.Cut(string(must(os.ReadFile("README.md"))), "\nuser ads on >PASSWORD ")
	line, _, _ = strings.Cut(line, "\n")
	rule := []any{"ACL", "SETUSER", "test", "on", ">secret"}
	for _, word := range strings.Fields(strings.ReplaceAll(line, "{ads}", "{test}")) {
		rule = append(rule, word)
	}
	check(client.Do(ctx, rule...).Err())
	check(client.Do(ctx, "ACL", "SETUSER", "default", "off").Err())
	as := func(name string) *Redis {
		options := redis.UniversalOptions{Addrs: []string{server.address}, Username: "test", Password: "secret"}
		store := NewRedis(&options, name)
		t.Cleanup(func() { store.Close() })
		return store
	}
	var nodes []running
	for number := range uint16(3) {
		nodes = append(nodes, runOn(t, as("test"), Options{Config: keyed(number + 1)}))
	}
	eventually(t, "they have met", func() bool { return nodes[0].Metrics().Nodes == 3 && nodes[0].Metrics().Leader > 0 })
	learn(t, nodes, 500)
	check(nodes[0].Update(must(nodes[1].Bandit.Select()).Ticket, 1))
	eventually(t, "a reward arrives", func() bool { return nodes[1].Metrics().Received > 0 })
	must(nodes[2].Bandit.Select())
	check(nodes[2].end()) // another node continues
	eventually(t, "a state moves", func() bool { return nodes[0].Metrics().Draining+nodes[1].Metrics().Draining == 1 })
	check(Leave(ctx, as("test"), 2))
	for _, node := range nodes {
		if m := node.Metrics(); strings.Contains(m.LastError, "NOPERM") || strings.Contains(m.LastError, "can't run") {
			t.Error(m.LastError)
		}
	}
	limited, cancel := context.WithTimeout(ctx, 10*interval)
	defer cancel()
	_, err := Join(limited, Options{Store: as("other"), Config: config(1)})
	if err == nil || !strings.Contains(err.Error(), "NOPERM") {
		t.Error(err)
	}
	nobody := storeAt(server.address)
	defer nobody.Close()
	if err := nobody.client.Ping(ctx).Err(); err == nil {
		t.Error("connected without a password")
	}
}

// Redis without its password is NOAUTH, also if the first command is a script, whose arguments Redis calls a protocol
// error then.
func TestNoPassword(t *testing.T) {
	server := startRedis(t)
	client := server.client()
	defer client.Close()
	check(client.Do(context.Background(), "CONFIG", "SET", "requirepass", "secret").Err())
	for password, want := range map[string]string{"": "NOAUTH", "wrong": "WRONGPASS"} {
		store := NewRedis(&redis.UniversalOptions{
			Addrs: []string{server.address}, Password: password,
			OnConnect: func(context.Context, *redis.Conn) error { t.Error("connected"); return nil },
		}, "test")
		ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
		if err := Leave(ctx, store, 7); err == nil || !strings.Contains(err.Error(), want) {
			t.Error(err)
		}
		cancel()
		store.Close()
	}
}
