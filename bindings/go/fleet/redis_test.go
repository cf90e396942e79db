package fleet

import (
	"context"
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
