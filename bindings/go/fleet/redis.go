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
	// A stream keeps at least this many rewards. More rewards push out the oldest.
	maxRewards = 100_000
	// A stream expires if no reward is added for this long: it contains raw rewards, which have no use after a
	// restart of their node.
	rewardLifetime = time.Hour
	// Receive waits this long for messages, and so Sync can take this long to stop.
	receiveWait = 250 * time.Millisecond
	// All versions have this many digits, so that Redis compares them exactly, as texts.
	versionDigits = 20
	// A stream keeps at least this many contributions. More contributions push out the oldest.
	maxContributions = 10_000
	// A stream of contributions expires if none is added for this long.
	contributionLifetime = time.Minute
)

// renew changes the end of a lease. KEYS is the lease. ARGV is the leader that must hold it, and the new duration in
// milliseconds.
var renew = redis.NewScript(`
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])`)

// put writes a snapshot. KEYS is the hash. ARGV is the node, the version and the snapshot. A field has 20 digits of
// version, and then the snapshot. The script overwrites a field without a version.
var put = redis.NewScript(`
local held = redis.call('HGET', KEYS[1], ARGV[1])
held = held and held:match('^' .. ('%d'):rep(20))
if held and held >= ARGV[2] then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2] .. ARGV[3])
redis.call('PUBLISH', KEYS[1], ARGV[1])
return 1`)

// Redis is a [Store], a [RewardQueue] and a [ContributionQueue] on a Redis or Valkey server or cluster.
type Redis struct {
	client redis.UniversalClient
	hash   string
}

// NewRedis returns the store of the bandit with this name. Different bandits need different names. NewRedis does not
// connect: the first command does. Set Password and TLSConfig in the options to protect the connection. Call Close when
// done.
func NewRedis(options *redis.UniversalOptions, name string) *Redis {
	own := *options
	own.ContextTimeoutEnabled = true // no command may wait for a server that does not respond
	own.MaxRetries = -1              // Sync retries itself
	return &Redis{redis.NewUniversalClient(&own), "dpb:{" + name + "}"}
}

// Close closes all connections.
func (r *Redis) Close() error { return r.client.Close() }

// Put implements [Store] with one script, so that comparing and writing are atomic.
func (r *Redis) Put(ctx context.Context, s Snapshot) (bool, error) {
	version := fmt.Sprintf("%0*d", versionDigits, s.Version)
	return put.Run(ctx, r.client, []string{r.hash}, field(s.Node), version, s.Bytes).Bool()
}

// List implements [Store] with HGETALL or HMGET.
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
		values, err := r.client.HMGet(ctx, r.hash, names...).Result()
		if err != nil {
			return nil, err
		}
		for i, value := range values {
			if text, ok := value.(string); ok {
				fields[names[i]] = text
			}
		}
	}
	found := make([]Snapshot, 0, len(fields))
	for name, value := range fields {
		node, err := strconv.ParseUint(name, 10, 16)
		if err != nil {
			continue // not a field of a node
		}
		s := Snapshot{Node: uint16(node), Bytes: []byte(value)}
		if len(value) >= versionDigits {
			if version, err := strconv.ParseUint(value[:versionDigits], 10, 64); err == nil {
				s.Version, s.Bytes = version, s.Bytes[versionDigits:]
			}
		}
		found = append(found, s)
	}
	return found, nil
}

// Notify implements [Store] with PUBLISH.
func (r *Redis) Notify(ctx context.Context, notification Notification) error {
	return r.client.Publish(ctx, r.hash, field(notification.Node)+suffixes[notification.Event]).Err()
}

// suffixes follow a node's number in the messages on the channel. The script put publishes the messages of Put.
var suffixes = map[Event]string{Put: "", Heartbeat: " heartbeat", Leave: " leaves"}

// Watch implements [Store] with SUBSCRIBE.
func (r *Redis) Watch(ctx context.Context) (<-chan Notification, func(), error) {
	subscription := r.client.Subscribe(ctx, r.hash)
	stop := sync.OnceFunc(func() { subscription.Close() })
	wait := time.Minute
	if deadline, ok := ctx.Deadline(); ok {
		wait = time.Until(deadline)
	}
	if _, err := subscription.ReceiveTimeout(ctx, max(wait, 1)); err != nil {
		stop()
		return nil, nil, err
	}
	notifications := make(chan Notification, 1024)
	go func() {
		defer close(notifications)
		defer stop()
		for {
			message, err := subscription.ReceiveMessage(context.Background())
			if err != nil {
				return
			}
			number, _, _ := strings.Cut(message.Payload, " ")
			node, err := strconv.ParseUint(number, 10, 16)
			for event, suffix := range suffixes {
				if err == nil && suffix == message.Payload[len(number):] {
					select {
					case notifications <- Notification{uint16(node), event}:
					default: // the next exchange reads all snapshots
					}
				}
			}
		}
	}()
	return notifications, stop, nil
}

// Send implements [RewardQueue] with XADD to the nodes' streams.
func (r *Redis) Send(ctx context.Context, messages []Message) error {
	_, err := r.client.Pipelined(ctx, func(pipeline redis.Pipeliner) error {
		streams := map[string]bool{}
		for _, m := range messages {
			values := []any{"ticket", m.Ticket, "reward", m.Reward}
			if m.Heartbeat != 0 {
				values = []any{"heartbeat", m.Heartbeat}
			} else if m.Sealed != nil {
				values = []any{"sealed", m.Sealed}
			}
			stream := r.stream(m.To)
			streams[stream] = true
			pipeline.XAdd(ctx, &redis.XAddArgs{Stream: stream, MaxLen: maxRewards, Approx: true, Values: values})
		}
		for stream := range streams {
			pipeline.Expire(ctx, stream, rewardLifetime)
		}
		return nil
	})
	return err
}

// Receive implements [RewardQueue]: it drains the node's stream.
func (r *Redis) Receive(ctx context.Context, node uint16, take func(Message)) error {
	_, err := r.drain(ctx, r.stream(node), receiveWait, func(text func(string) string) {
		ticket, ticketErr := strconv.ParseUint(text("ticket"), 10, 64)
		reward, rewardErr := strconv.ParseFloat(text("reward"), 64)
		if ticketErr == nil && rewardErr == nil {
			take(Message{To: node, Ticket: ticket, Reward: reward})
		} else if heartbeat, err := strconv.ParseUint(text("heartbeat"), 10, 64); err == nil {
			take(Message{To: node, Heartbeat: heartbeat})
		} else if sealed := text("sealed"); sealed != "" {
			take(Message{To: node, Sealed: []byte(sealed)})
		}
	})
	return err
}

// drain passes up to batchSize messages of a stream to take, and then deletes them. It returns their number. Each
// message is a function from the name of a field to its text. drain uses XREAD from the stream's beginning, and XDEL:
// a stream has one reader, so deleting a message acknowledges it.
func (r *Redis) drain(
	ctx context.Context, stream string, wait time.Duration, take func(message func(field string) string),
) (int, error) {
	arguments := redis.XReadArgs{Streams: []string{stream, "0"}, Count: batchSize, Block: wait}
	read, err := r.client.XRead(ctx, &arguments).Result()
	if errors.Is(err, redis.Nil) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	var ids []string
	for _, message := range read[0].Messages {
		ids = append(ids, message.ID)
		take(func(field string) string { text, _ := message.Values[field].(string); return text })
	}
	return len(ids), r.client.XDel(ctx, stream, ids...).Err()
}

// Leader implements [ContributionQueue] with GET.
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
	node, nodeErr := strconv.ParseUint(number, 10, 16)
	if parsed, err := strconv.ParseUint(generation, 10, 64); nodeErr == nil && err == nil {
		leader.Node, leader.Generation = uint16(node), parsed
	}
	return leader, true, nil
}

// Lead implements [ContributionQueue] with SET NX PX.
func (r *Redis) Lead(ctx context.Context, leader Leader, lease time.Duration) (bool, error) {
	return r.client.SetNX(ctx, r.lease(leader), leader.text(), lease).Result()
}

// Renew implements [ContributionQueue] with one script, so that comparing and writing are atomic.
func (r *Redis) Renew(ctx context.Context, leader Leader, lease time.Duration) (bool, error) {
	return renew.Run(ctx, r.client, []string{r.lease(leader)}, leader.text(), lease.Milliseconds()).Bool()
}

// Contribute implements [ContributionQueue] with XADD to the generation's stream.
func (r *Redis) Contribute(ctx context.Context, generation uint64, contribution []byte) error {
	stream := r.contributions(generation)
	_, err := r.client.Pipelined(ctx, func(pipeline redis.Pipeliner) error {
		values := []any{"contribution", contribution}
		pipeline.XAdd(ctx, &redis.XAddArgs{Stream: stream, MaxLen: maxContributions, Approx: true, Values: values})
		pipeline.Expire(ctx, stream, contributionLifetime)
		return nil
	})
	return err
}

// Collect implements [ContributionQueue]: it drains the generation's stream.
func (r *Redis) Collect(ctx context.Context, generation uint64, combine func([]byte)) error {
	for count := batchSize; count == batchSize; {
		var err error
		count, err = r.drain(ctx, r.contributions(generation), -1, func(text func(string) string) {
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

func (r *Redis) stream(node uint16) string { return r.hash + ":rewards:" + field(node) }

func field(node uint16) string { return strconv.Itoa(int(node)) }
