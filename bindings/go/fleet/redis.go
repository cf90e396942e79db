package fleet

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// Answers that wait for a node, at least; more push out the oldest.
	mostAnswers = 100_000
	// They are raw rewards, and nobody's after a restart: gone with a node that takes none for so long.
	longestWait = time.Hour
	// How long Receive waits, and so the end of Sync.
	moment = 250 * time.Millisecond
	// Digits of a version, of any: so versions compare as texts, exactly.
	digits = 20
	// Contributions that wait for a leader, at least; more push out the oldest. They are gone after this time.
	mostContributions = 10_000
	contributionWaits = time.Minute
)

// renew: KEYS the lease, ARGV the leader who may hold it, and the milliseconds that it lasts from now on.
var renew = redis.NewScript(`
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])`)

// put: KEYS the hash, ARGV the node, the version, the snapshot. A field is 20 digits of version, then the snapshot.
// What is no such field is nobody's version.
var put = redis.NewScript(`
local held = redis.call('HGET', KEYS[1], ARGV[1])
held = held and held:match('^' .. ('%d'):rep(20))
if held and held >= ARGV[2] then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2] .. ARGV[3])
redis.call('PUBLISH', KEYS[1], ARGV[1])
return 1`)

// Redis is a [Store], a [Post] and a [Relay] on a Redis or Valkey server, or a cluster of them.
type Redis struct {
	client redis.UniversalClient
	hash   string
}

// NewRedis is for the bandit of this name: nodes of other bandits have other names. It connects when it is used.
// What comes and goes over it is as safe as the options make it: Password and TLSConfig.
func NewRedis(options *redis.UniversalOptions, name string) *Redis {
	own := *options
	own.ContextTimeoutEnabled = true // a lost server answers no command, and none may wait for it
	own.MaxRetries = -1              // Sync tries again
	return &Redis{redis.NewUniversalClient(&own), "dpb:{" + name + "}"}
}

// Close ends all connections.
func (r *Redis) Close() error { return r.client.Close() }

// Put is one script, so nothing comes between its comparison and its writing.
func (r *Redis) Put(ctx context.Context, s Snapshot) (bool, error) {
	version := fmt.Sprintf("%0*d", digits, s.Version)
	return put.Run(ctx, r.client, []string{r.hash}, field(s.Node), version, s.Bytes).Bool()
}

// List is HGETALL or HMGET.
func (r *Redis) List(ctx context.Context, nodes ...uint16) ([]Snapshot, error) {
	fields := map[string]string{}
	if len(nodes) == 0 {
		all, err := r.client.HGetAll(ctx, r.hash).Result()
		if err != nil {
			return nil, err
		}
		fields = all
	} else {
		names := make([]string, len(nodes))
		for i, node := range nodes {
			names[i] = field(node)
		}
		some, err := r.client.HMGet(ctx, r.hash, names...).Result()
		if err != nil {
			return nil, err
		}
		for i, value := range some {
			if text, is := value.(string); is {
				fields[names[i]] = text
			}
		}
	}
	found := make([]Snapshot, 0, len(fields))
	for name, value := range fields {
		node, err := strconv.ParseUint(name, 10, 16)
		if err != nil {
			continue // not ours
		}
		s := Snapshot{Node: uint16(node), Bytes: []byte(value)}
		if len(value) >= digits {
			if version, err := strconv.ParseUint(value[:digits], 10, 64); err == nil {
				s.Version, s.Bytes = version, s.Bytes[digits:]
			}
		}
		found = append(found, s)
	}
	return found, nil
}

// Say is PUBLISH.
func (r *Redis) Say(ctx context.Context, hint Hint) error {
	return r.client.Publish(ctx, r.hash, field(hint.Node)+said[hint.Event]).Err()
}

// What stands after a node's number on the channel. The script publishes what is for Put.
var said = map[Event]string{Put: "", Beats: " beats", Ends: " ends"}

// Watch is SUBSCRIBE.
func (r *Redis) Watch(ctx context.Context) (<-chan Hint, func(), error) {
	subscription := r.client.Subscribe(ctx, r.hash)
	end := sync.OnceFunc(func() { subscription.Close() })
	wait := time.Minute
	if deadline, is := ctx.Deadline(); is {
		wait = time.Until(deadline)
	}
	if _, err := subscription.ReceiveTimeout(ctx, max(wait, 1)); err != nil {
		end()
		return nil, nil, err
	}
	hints := make(chan Hint, 1024)
	go func() {
		defer close(hints)
		defer end()
		for {
			message, err := subscription.ReceiveMessage(context.Background())
			if err != nil {
				return
			}
			number, _, _ := strings.Cut(message.Payload, " ")
			node, err := strconv.ParseUint(number, 10, 16)
			for event, what := range said {
				if err == nil && what == message.Payload[len(number):] {
					select {
					case hints <- Hint{uint16(node), event}:
					default: // the next exchange finds it
					}
				}
			}
		}
	}()
	return hints, end, nil
}

// Send is XADD to the nodes' streams.
func (r *Redis) Send(ctx context.Context, messages []Message) error {
	_, err := r.client.Pipelined(ctx, func(to redis.Pipeliner) error {
		streams := map[string]bool{}
		for _, m := range messages {
			values := []any{"ticket", m.Ticket, "reward", m.Reward}
			if m.Beat != 0 {
				values = []any{"beat", m.Beat}
			} else if m.Sealed != nil {
				values = []any{"sealed", m.Sealed}
			}
			stream := r.stream(m.To)
			streams[stream] = true
			to.XAdd(ctx, &redis.XAddArgs{Stream: stream, MaxLen: mostAnswers, Approx: true, Values: values})
		}
		for stream := range streams {
			to.Expire(ctx, stream, longestWait)
		}
		return nil
	})
	return err
}

// Receive drains the node's stream.
func (r *Redis) Receive(ctx context.Context, node uint16, take func(Message)) error {
	_, err := r.drain(ctx, r.stream(node), moment, func(text func(string) string) {
		ticket, wrong := strconv.ParseUint(text("ticket"), 10, 64)
		reward, wrongToo := strconv.ParseFloat(text("reward"), 64)
		if wrong == nil && wrongToo == nil {
			take(Message{To: node, Ticket: ticket, Reward: reward})
		} else if beat, err := strconv.ParseUint(text("beat"), 10, 64); err == nil {
			take(Message{To: node, Beat: beat})
		} else if sealed := text("sealed"); sealed != "" {
			take(Message{To: node, Sealed: []byte(sealed)})
		}
	})
	return err
}

// drain passes up to many messages of a stream to take, as functions from a field to its text, and then deletes them. It
// is XREAD from the stream's beginning, and XDEL: a stream has one reader, so what is deleted is acknowledged.
func (r *Redis) drain(ctx context.Context, stream string, wait time.Duration, take func(func(string) string)) (int, error) {
	read, err := r.client.XRead(ctx, &redis.XReadArgs{Streams: []string{stream, "0"}, Count: many, Block: wait}).Result()
	if errors.Is(err, redis.Nil) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	var done []string
	for _, message := range read[0].Messages {
		done = append(done, message.ID)
		take(func(field string) string { text, _ := message.Values[field].(string); return text })
	}
	return len(done), r.client.XDel(ctx, stream, done...).Err()
}

// Leader is GET.
func (r *Redis) Leader(ctx context.Context, key uint64) (leader Leader, held bool, err error) {
	leader.Key = key
	text, err := r.client.Get(ctx, r.lease(leader)).Result()
	if errors.Is(err, redis.Nil) {
		return leader, false, nil
	}
	if err != nil {
		return leader, false, err
	}
	number, generation, _ := strings.Cut(text, " ")
	node, wrong := strconv.ParseUint(number, 10, 16)
	if of, wrongToo := strconv.ParseUint(generation, 10, 64); wrong == nil && wrongToo == nil {
		leader.Node, leader.Generation = uint16(node), of
	}
	return leader, true, nil
}

// Lead is SET NX PX.
func (r *Redis) Lead(ctx context.Context, leader Leader, lease time.Duration) (bool, error) {
	return r.client.SetNX(ctx, r.lease(leader), leader.text(), lease).Result()
}

// Renew is one script, so nothing comes between its comparison and its writing.
func (r *Redis) Renew(ctx context.Context, leader Leader, lease time.Duration) (bool, error) {
	return renew.Run(ctx, r.client, []string{r.lease(leader)}, leader.text(), lease.Milliseconds()).Bool()
}

// Contribute is XADD to the generation's stream.
func (r *Redis) Contribute(ctx context.Context, generation uint64, contribution []byte) error {
	stream := r.contributions(generation)
	_, err := r.client.Pipelined(ctx, func(to redis.Pipeliner) error {
		values := []any{"contribution", contribution}
		to.XAdd(ctx, &redis.XAddArgs{Stream: stream, MaxLen: mostContributions, Approx: true, Values: values})
		to.Expire(ctx, stream, contributionWaits)
		return nil
	})
	return err
}

// Collect drains the generation's stream.
func (r *Redis) Collect(ctx context.Context, generation uint64, combine func([]byte)) error {
	for some := many; some == many; {
		var err error
		some, err = r.drain(ctx, r.contributions(generation), -1, func(text func(string) string) {
			combine([]byte(text("contribution")))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (l Leader) text() string { return fmt.Sprintf("%d %d", l.Node, l.Generation) }

func (r *Redis) lease(l Leader) string { return fmt.Sprintf("%s:leader:%016x", r.hash, l.Key) }

func (r *Redis) contributions(generation uint64) string {
	return fmt.Sprintf("%s:contributions:%d", r.hash, generation)
}

func (r *Redis) stream(node uint16) string { return r.hash + ":answers:" + field(node) }

func field(node uint16) string { return strconv.Itoa(int(node)) }
