// A node in Go that joins the bandit of the C++ ad servers. It executes each line of its input, and prints one line for
// each.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
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
	node := must(fleet.Join(ctx, fleet.Options{
		Store: store, Config: config, Interval: 100 * time.Millisecond, Delay: 100 * time.Millisecond,
	}))
	go node.Sync(ctx)
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); fmt.Println() {
		words := strings.Fields(lines.Text())
		number := func(base int) uint64 { return must(strconv.ParseUint(words[1], base, 64)) }
		switch words[0] {
		case "play": // this many decisions
			for range number(10) {
				decision := must(node.Bandit.Select())
				must(0, node.Bandit.Update(decision.Ticket, 0))
			}
		case "known": // rewards in all releases, for each arm
			for _, arm := range must(node.Bandit.Arms()) {
				fmt.Print(arm.EffectivePulls, " ")
			}
		case "errors":
			fmt.Print(node.Metrics().Failures)
		case "clock":
			fmt.Print(time.Now().Unix())
		case "decide":
			fmt.Printf("%016x", must(node.Bandit.Select()).Ticket)
		case "update": // a reward for a ticket of any node
			for node.Update(number(16), 1) != nil { // fails until that node is known
			}
		case "rewards": // counted in all; forwarded and counted; forwarded and refused
			m := node.Metrics()
			fmt.Print(must(node.Bandit.Report()).Answered, " ", m.Received, " ", m.Refused)
		}
	}
}
