// A node in Go that joins the bandit of the C++ ad servers: plays as often as each line of its input says, then writes
// what it knows of each arm.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	dpb "github.com/libdpb/libdpb/bindings/go"
	"github.com/libdpb/libdpb/bindings/go/fleet"
	"github.com/redis/go-redis/v9"
)

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func main() {
	store := fleet.NewRedis(&redis.UniversalOptions{Addrs: []string{os.Args[1]}}, "ads")
	config := dpb.NewConfig(10, 1)
	config.Node, config.RewardBits = 9, 0
	ctx := context.Background()
	node := must(fleet.Join(ctx, fleet.Options{Store: store, Config: config, Interval: 100 * time.Millisecond}))
	go node.Sync(ctx)
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		for range must(strconv.Atoi(lines.Text())) {
			decision := must(node.Bandit.Select())
			must(0, node.Bandit.Update(decision.Ticket, 0))
		}
		for _, arm := range must(node.Bandit.Arms()) {
			fmt.Print(arm.EffectivePulls, " ")
		}
		fmt.Println()
	}
}
