package fleet

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// A stream keeps this many rewards. One more pushes out the oldest, and no other.
	maxRewards = 100_000
	// A stream expires if no reward is added for this long: it contains raw rewards, which have no use after a
	// restart of their node.
	rewardLifetime = time.Hour
	// Both numbers in a version have this many digits, so that Redis compares versions exactly, as texts.
	versionDigits = 10
	// A stream keeps at least this many contributions. More contributions push out the oldest.
	maxContributions = 10_000
	// A stream of contributions expires if none is added for this long.
	contributionLifetime = time.Minute
)

// renew changes the end of the leader's lease. KEYS is the lease. ARGV is the leader that must hold it, and the new
// duration in milliseconds.
var renew = redis.NewScript(`
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])`)

// mine begins the scripts of a member. KEYS[1] is the hash of numbers, and ARGV the member's node, incarnation and life.
// A number's record is its incarnation, its life, and the time at which its lease ends. The member holds its number if
// the record has its life or an older incarnation, which is what a replica that lags brings back.
const mine = `
local function mine()
  local incarnation, life = (redis.call('HGET', KEYS[1], ARGV[1]) or ''):match('^(%d+) (%d+) ')
  incarnation = tonumber(incarnation)
  return not incarnation or incarnation < tonumber(ARGV[2]) or incarnation == tonumber(ARGV[2]) and life == ARGV[3]
end
local function now()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
local function hold(number, incarnation, life, till)
  redis.call('HSET', KEYS[1], number, string.format('%.0f %s %.0f', incarnation, life, till))
end`

// take gives a number to a life. KEYS are the numbers, the nodes that live, the counts, and the snapshots. ARGV is the
// number, 0 for the lowest whose lease is over; 0; the life; and the duration of the lease in milliseconds. It returns
// the number and its incarnation.
var take = redis.NewScript(mine + `
local number = ARGV[1]
if number == '0' then
  local held, all, time = {}, redis.call('HGETALL', KEYS[1]), now()
  for i = 1, #all, 2 do held[all[i]] = tonumber(all[i + 1]:match(' (%d+)$') or 0) > time end
  number = 1
  while held[tostring(number)] do number = number + 1 end
  if number > 65535 then return {0, 0} end
end
local before = (redis.call('HGET', KEYS[1], number) or ''):match('^%d+') or 0
local put = (redis.call('HGET', KEYS[4], number) or ''):match('^' .. ('%d'):rep(10)) or 0
local incarnation = math.max(before, put) + 1
hold(number, incarnation, ARGV[3], now() + ARGV[4])
redis.call('ZADD', KEYS[2], redis.call('HINCRBY', KEYS[3], 'beats', 1), number)
return {tonumber(number), incarnation}`)

// put writes a snapshot. KEYS are the numbers, the snapshots, their versions, and the counts. ARGV is the member, the
// version, the snapshot, and 1 if the other nodes need it. A field of the snapshots has 20 digits of version, and then
// the snapshot. The script overwrites a field without a version.
var put = redis.NewScript(mine + `
if not mine() then return 0 end
local held = redis.call('HGET', KEYS[2], ARGV[1])
held = held and held:match('^' .. ('%d'):rep(20))
if held and held >= ARGV[4] then return 0 end
redis.call('HSET', KEYS[2], ARGV[1], ARGV[4] .. ARGV[5])
if ARGV[6] == '1' then
  redis.call('HSET', KEYS[3], ARGV[1], ARGV[4])
  redis.call('HINCRBY', KEYS[4], 'puts', 1)
end
return 1`)

// beat renews a number's lease. KEYS are the numbers, the nodes that live, the counts, and the states for the node. ARGV is
// the member, the duration of the lease in milliseconds, the beats up to which a node is late and up to which it is gone,
// and 1 to list the numbers that are held. It returns nothing if the number has another life; otherwise the counts, the
// nodes that it has removed, the other late nodes with their beats, and the numbers that are held.
var beat = redis.NewScript(mine + `
if not mine() then return {} end
hold(ARGV[1], ARGV[2], ARGV[3], now() + ARGV[4])
local beats = redis.call('HINCRBY', KEYS[3], 'beats', 1)
local breaks = redis.call('ZADD', KEYS[2], beats, ARGV[1])
local gone = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', ARGV[6])
if #gone > 0 then breaks = breaks + redis.call('ZREM', KEYS[2], unpack(gone)) end
if breaks > 0 then redis.call('HINCRBY', KEYS[3], 'breaks', 1) end
local late = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', ARGV[5], 'WITHSCORES')
local counts = redis.call('HMGET', KEYS[3], 'breaks', 'puts')
local numbers, time = {}, now()
if ARGV[7] == '1' then
  local all = redis.call('HGETALL', KEYS[1])
  for i = 1, #all, 2 do
    if tonumber(all[i + 1]:match(' (%d+)$') or 0) > time then table.insert(numbers, all[i]) end
  end
end
return {beats, redis.call('ZCARD', KEYS[2]), redis.call('HLEN', KEYS[1]), tonumber(counts[1] or 0),
  tonumber(counts[2] or 0), redis.call('LLEN', KEYS[4]), gone, late, numbers}`)

// leave ends a number's lease. KEYS are those of beat. ARGV is the member; life 0 stands for every life, which has then
// no access any more.
var leave = redis.NewScript(mine + `
if ARGV[3] ~= '0' then
  if not mine() then return 0 end
  hold(ARGV[1], ARGV[2], ARGV[3], 0)
  return redis.call('ZREM', KEYS[2], ARGV[1])
end
local before = (redis.call('HGET', KEYS[1], ARGV[1]) or ''):match('^%d+')
if not before then return 0 end
hold(ARGV[1], before + 1, 0, 0)
redis.call('ZREM', KEYS[2], ARGV[1])
return redis.call('HINCRBY', KEYS[3], 'breaks', 1)`)

// receive deletes the messages with these ids from a node's stream, and reads the next ones. KEYS are the numbers and
// the stream. ARGV is the member, the largest number of messages, and the ids. It returns nothing if the number has
// another life.
var receive = redis.NewScript(mine + `
if not mine() then return false end
if #ARGV > 4 then redis.call('XDEL', KEYS[2], unpack(ARGV, 5)) end
return redis.call('XRANGE', KEYS[2], '-', '+', 'COUNT', ARGV[4])`)

// contribute adds a contribution to a stream. KEYS are the numbers and the stream. ARGV is the member, the largest
// number of contributions, the time in seconds after which the stream expires, and the contribution.
var contribute = redis.NewScript(mine + `
if not mine() then return 0 end
redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[4], '*', 'contribution', ARGV[6])
return redis.call('EXPIRE', KEYS[2], ARGV[5])`)

// offer adds receivers of states. KEYS are the numbers and the offers. ARGV is the member, 1 to withdraw all, and the
// receivers. The field of a number in the offers has the incarnation, and the receivers that nobody has taken. It returns
// them, or nothing if the number has another life.
var offer = redis.NewScript(mine + `
if not mine() then return false end
local incarnation, open = (redis.call('HGET', KEYS[2], ARGV[1]) or ''):match('^(%d+)(.*)$')
if incarnation ~= ARGV[2] then open = '' end
for i = 5, #ARGV do open = open .. ' ' .. ARGV[i] end
if ARGV[4] == '1' then
  redis.call('HDEL', KEYS[2], ARGV[1])
else
  redis.call('HSET', KEYS[2], ARGV[1], ARGV[2] .. open)
end
return open`)

// host takes a receiver. KEYS are the numbers, the nodes that live, and the offers. ARGV is a number, 0 for any node that
// lives, and a random number. It returns the node and the receiver; 0 in place of the receiver if all are taken, and in
// place of the node if nobody offers any.
var host = redis.NewScript(`
local nodes, busy = ARGV[1] ~= '0' and {ARGV[1]} or redis.call('ZRANGE', KEYS[2], 0, -1), '0'
for i = 1, #nodes do
  local node = nodes[(ARGV[2] + i) % #nodes + 1]
  local incarnation, open = (redis.call('HGET', KEYS[3], node) or ''):match('^(%d+)(.*)$')
  local holder = (redis.call('HGET', KEYS[1], node) or ''):match('^%d+')
  if incarnation and incarnation == holder and redis.call('ZSCORE', KEYS[2], node) then
    local receiver, others = open:match('^ (%d+)(.*)$')
    if receiver then
      redis.call('HSET', KEYS[3], node, incarnation .. others)
      return {node, receiver}
    end
    busy = node
  end
end
return {busy, '0'}`)

// entrust leaves a state for a node. KEYS are the numbers, the nodes that live, and the states for that node. ARGV is the
// member, the duration of the lease in milliseconds, the receiver, and the state.
var entrust = redis.NewScript(mine + `
if mine() then
  hold(ARGV[1], ARGV[2], ARGV[3], now() + ARGV[4])
  redis.call('ZREM', KEYS[2], ARGV[1])
end
local head = table.concat({ARGV[5], ARGV[1], ARGV[2], string.format('%.0f', now())}, ' ')
redis.call('RPUSH', KEYS[3], head .. ' ' .. ARGV[6])
return redis.call('PEXPIRE', KEYS[3], ARGV[4])`)

// adopt removes a state. KEYS are the numbers and the states for the member. ARGV is the member, and the duration of the
// lease in milliseconds. It returns nothing if there is none, and otherwise the receiver; the number; its incarnation, or 0
// if another process has the number; the age of the state; and the state.
var adopt = redis.NewScript(mine + `
local state = mine() and redis.call('LPOP', KEYS[2])
if not state then return {} end
local receiver, number, incarnation, since, bytes = state:match('^(%d+) (%d+) (%d+) (%d+) (.*)$')
local holder, held = (redis.call('HGET', KEYS[1], number) or ''):match('^%d+') or incarnation, 0
if holder == incarnation and number ~= ARGV[1] then
  held = incarnation + 1
  hold(number, held, receiver, now() + ARGV[4])
end
return {receiver, number, held, now() - since, bytes}`)

// keep renews the lease of a number. KEYS is the numbers. ARGV is the member, and the duration in milliseconds.
var keep = redis.NewScript(mine + `
if not mine() then return 0 end
hold(ARGV[1], ARGV[2], ARGV[3], now() + ARGV[4])
return 1`)

// Redis is a [Store], a [RewardQueue] and a [ContributionQueue] on a Redis or Valkey server or cluster.
type Redis struct {
	client redis.UniversalClient
	name   string
}

// NewRedis returns the store of the bandit with this name. Different bandits need different names. NewRedis does not
// connect: the first command does. Set Password and TLSConfig in the options to protect the connection, and Username for a
// user of Redis' access control list. With the address of one node of a cluster, set IsClusterMode. Call Close when done.
func NewRedis(options *redis.UniversalOptions, name string) *Redis {
	own := *options
	own.ContextTimeoutEnabled = true // no command may wait for a server that does not respond
	own.MaxRetries = -1              // Sync retries itself
	own.OnConnect = func(ctx context.Context, connection *redis.Conn) error {
		// Without its password Redis calls a script a protocol error, and this NOAUTH.
		if err := connection.Ping(ctx).Err(); err != nil || options.OnConnect == nil {
			return err
		}
		return options.OnConnect(ctx, connection)
	}
	return &Redis{redis.NewUniversalClient(&own), "dpb:{" + name + "}"}
}

// Close closes all connections.
func (r *Redis) Close() error { return r.client.Close() }

// The keys of the store. All have the hash tag of the bandit's name, so that a cluster keeps them on one server.
func (r *Redis) snapshots() string      { return r.name }
func (r *Redis) versions() string       { return r.name + ":versions" }
func (r *Redis) numbers() string        { return r.name + ":numbers" }
func (r *Redis) alive() string          { return r.name + ":alive" }
func (r *Redis) counts() string         { return r.name + ":counts" }
func (r *Redis) lease(l Leader) string  { return fmt.Sprintf("%s:leader:%016x", r.name, l.Key) }
func (r *Redis) offers() string         { return r.name + ":offers" }
func (r *Redis) states(n uint16) string { return r.name + ":states:" + field(n) }
func (r *Redis) stream(n uint16) string { return r.name + ":rewards:" + field(n) }
func (r *Redis) sums(g uint64) string   { return fmt.Sprintf("%s:contributions:%d", r.name, g) }
func (l Leader) text() string           { return fmt.Sprintf("%d %d", l.Node, l.Generation) }
func field(node uint16) string          { return strconv.Itoa(int(node)) }
func (m Member) arguments() []any       { return []any{m.Node, m.Incarnation, m.Life} }
func (m Member) with(more ...any) []any { return append(m.arguments(), more...) }
func versionText(version uint64) string {
	return fmt.Sprintf("%0*d%0*d", versionDigits, version>>32, versionDigits, version&0xffffffff)
}

// parseVersion parses the text of a version.
func parseVersion(text string) (version uint64, valid bool) {
	if len(text) != 2*versionDigits {
		return 0, false
	}
	incarnation, err := strconv.ParseUint(text[:versionDigits], 10, 32)
	count, countErr := strconv.ParseUint(text[versionDigits:], 10, 32)
	return incarnation<<32 | count, err == nil && countErr == nil
}

// Take implements [Store] with one script.
func (r *Redis) Take(ctx context.Context, node uint16, life uint64, lease time.Duration) (Member, error) {
	keys := []string{r.numbers(), r.alive(), r.counts(), r.snapshots()}
	taken, err := take.Run(ctx, r.client, keys, node, 0, life, lease.Milliseconds()).Int64Slice()
	switch {
	case err != nil:
		return Member{}, err
	case len(taken) != 2 || taken[0] == 0:
		return Member{}, errors.New("fleet: no number is free")
	case taken[1] > 1<<32-1:
		return Member{}, fmt.Errorf("fleet: node %d has no incarnation left: delete its field of %s", taken[0], r.snapshots())
	}
	return Member{uint16(taken[0]), uint32(taken[1]), life}, nil
}

// Put implements [Store] with one script, so that comparing and writing are atomic.
func (r *Redis) Put(ctx context.Context, m Member, s Snapshot, news bool) (bool, error) {
	keys := []string{r.numbers(), r.snapshots(), r.versions(), r.counts()}
	return put.Run(ctx, r.client, keys, m.with(versionText(s.Version), s.Bytes, news)...).Bool()
}

// Versions implements [Store] with HGETALL.
func (r *Redis) Versions(ctx context.Context) (map[uint16]uint64, error) {
	all, err := r.client.HGetAll(ctx, r.versions()).Result()
	if err != nil {
		return nil, err
	}
	versions := make(map[uint16]uint64, len(all))
	for name, text := range all {
		node, err := strconv.ParseUint(name, 10, 16)
		if version, valid := parseVersion(text); valid && err == nil {
			versions[uint16(node)] = version
		}
	}
	return versions, nil
}

// List implements [Store] with HMGET.
func (r *Redis) List(ctx context.Context, nodes ...uint16) (found []Snapshot, err error) {
	if len(nodes) == 0 {
		return nil, nil
	}
	names := make([]string, len(nodes))
	for i, node := range nodes {
		names[i] = field(node)
	}
	values, err := r.client.HMGet(ctx, r.snapshots(), names...).Result()
	for i, value := range values {
		if text, ok := value.(string); ok {
			s := Snapshot{Node: nodes[i], Bytes: []byte(text)}
			if version, valid := parseVersion(text[:min(2*versionDigits, len(text))]); valid {
				s.Version, s.Bytes = version, s.Bytes[2*versionDigits:]
			}
			found = append(found, s)
		}
	}
	return found, err
}

// Numbers implements [Store] with HKEYS.
func (r *Redis) Numbers(ctx context.Context) (numbers []uint16, err error) {
	names, err := r.client.HKeys(ctx, r.numbers()).Result()
	for _, name := range names {
		if node, err := strconv.ParseUint(name, 10, 16); err == nil {
			numbers = append(numbers, uint16(node))
		}
	}
	return numbers, err
}

// Beat implements [Store] with one script.
func (r *Redis) Beat(ctx context.Context, m Member, b Beat) (p Pulse, err error) {
	keys := []string{r.numbers(), r.alive(), r.counts(), r.states(m.Node)}
	reply, err := beat.Run(ctx, r.client, keys, m.with(b.Lease.Milliseconds(), b.Late, b.Gone, b.Held)...).Slice()
	if err != nil {
		return p, err
	}
	if len(reply) == 0 {
		return p, ErrReplaced
	}
	if len(reply) != 9 {
		return p, fmt.Errorf("fleet: a reply of %d values", len(reply))
	}
	for i, to := range []*uint64{&p.Beats, &p.Nodes, &p.Numbers, &p.Breaks, &p.Puts, &p.States} {
		value, _ := reply[i].(int64)
		*to = uint64(value)
	}
	texts := func(reply any) (texts []string) {
		values, _ := reply.([]any)
		for _, value := range values {
			text, _ := value.(string)
			texts = append(texts, text)
		}
		return texts
	}
	for at, to := range map[int]*[]uint16{6: &p.Gone, 8: &p.Held} {
		for _, name := range texts(reply[at]) {
			if node, err := strconv.ParseUint(name, 10, 16); err == nil {
				*to = append(*to, uint16(node))
			}
		}
	}
	p.Late = map[uint16]uint64{}
	late := texts(reply[7])
	for i := 0; i+1 < len(late); i += 2 {
		node, err := strconv.ParseUint(late[i], 10, 16)
		if beats, beatsErr := strconv.ParseUint(late[i+1], 10, 64); err == nil && beatsErr == nil {
			p.Late[uint16(node)] = beats
		}
	}
	return p, nil
}

// Leave implements [Store] with one script.
func (r *Redis) Leave(ctx context.Context, m Member) error {
	return leave.Run(ctx, r.client, []string{r.numbers(), r.alive(), r.counts()}, m.arguments()...).Err()
}

// Send implements [RewardQueue] with XADD to the nodes' streams.
func (r *Redis) Send(ctx context.Context, messages []Message) error {
	_, err := r.client.Pipelined(ctx, func(pipeline redis.Pipeliner) error {
		streams := map[string]bool{}
		for _, m := range messages {
			values := []any{"ticket", m.Ticket, "reward", m.Reward}
			if m.Sealed != nil {
				values = []any{"sealed", m.Sealed}
			}
			stream := r.stream(m.To)
			streams[stream] = true
			pipeline.XAdd(ctx, &redis.XAddArgs{Stream: stream, MaxLen: maxRewards, Values: values})
		}
		for stream := range streams {
			pipeline.Expire(ctx, stream, rewardLifetime)
		}
		return nil
	})
	return err
}

// Receive implements [RewardQueue]: it drains the node's stream, with a script that checks the member.
func (r *Redis) Receive(ctx context.Context, m Member, take func(Message)) error {
	arguments := m.with(batchSize)
	for {
		reply, err := receive.Run(ctx, r.client, []string{r.numbers(), r.stream(m.Node)}, arguments...).Slice()
		if errors.Is(err, redis.Nil) {
			return ErrReplaced
		}
		if err != nil || len(reply) == 0 {
			return err
		}
		arguments = m.with(batchSize)
		for _, message := range reply {
			id, text := parseMessage(message)
			arguments = append(arguments, id)
			ticket, ticketErr := strconv.ParseUint(text("ticket"), 10, 64)
			reward, rewardErr := strconv.ParseFloat(text("reward"), 64)
			if ticketErr == nil && rewardErr == nil {
				take(Message{To: m.Node, Ticket: ticket, Reward: reward})
			} else if sealed := text("sealed"); sealed != "" {
				take(Message{To: m.Node, Sealed: []byte(sealed)})
			}
		}
	}
}

// parseMessage returns the id of a message in a stream, and a function from the names of its fields to their texts.
func parseMessage(message any) (id string, text func(field string) string) {
	parts, _ := message.([]any)
	if len(parts) != 2 {
		parts = []any{"", nil}
	}
	id, _ = parts[0].(string)
	fields, _ := parts[1].([]any)
	return id, func(name string) string {
		for i := 0; i+1 < len(fields); i += 2 {
			if fields[i] == name {
				text, _ := fields[i+1].(string)
				return text
			}
		}
		return ""
	}
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

// Contribute implements [ContributionQueue] with one script, which checks the member.
func (r *Redis) Contribute(ctx context.Context, m Member, generation uint64, contribution []byte) error {
	arguments := m.with(maxContributions, int(contributionLifetime.Seconds()), contribution)
	sent, err := contribute.Run(ctx, r.client, []string{r.numbers(), r.sums(generation)}, arguments...).Bool()
	if err == nil && !sent {
		err = ErrReplaced
	}
	return err
}

// Collect implements [ContributionQueue] with XRANGE, and XDEL: a stream has one reader, so deleting a contribution
// acknowledges it.
func (r *Redis) Collect(ctx context.Context, generation uint64, combine func([]byte)) error {
	for {
		messages, err := r.client.XRangeN(ctx, r.sums(generation), "-", "+", batchSize).Result()
		if err != nil || len(messages) == 0 {
			return err
		}
		var ids []string
		for _, message := range messages {
			ids = append(ids, message.ID)
			text, _ := message.Values["contribution"].(string)
			combine([]byte(text))
		}
		if err := r.client.XDel(ctx, r.sums(generation), ids...).Err(); err != nil {
			return err
		}
	}
}

// Offer implements [WardQueue] with one script.
func (r *Redis) Offer(ctx context.Context, m Member, receivers []uint64, withdraw bool) (open []uint64, err error) {
	arguments := m.with(withdraw)
	for _, receiver := range receivers {
		arguments = append(arguments, receiver)
	}
	text, err := offer.Run(ctx, r.client, []string{r.numbers(), r.offers()}, arguments...).Text()
	if errors.Is(err, redis.Nil) {
		err = ErrReplaced
	}
	for _, word := range strings.Fields(text) {
		if receiver, err := strconv.ParseUint(word, 10, 64); err == nil {
			open = append(open, receiver)
		}
	}
	return open, err
}

// Host implements [WardQueue] with one script.
func (r *Redis) Host(ctx context.Context, number uint16) (node uint16, receiver uint64, err error) {
	keys := []string{r.numbers(), r.alive(), r.offers()}
	words, err := host.Run(ctx, r.client, keys, number, rand.Uint32()).StringSlice()
	if err != nil || len(words) != 2 {
		return 0, 0, err
	}
	parsed, err := strconv.ParseUint(words[0], 10, 16)
	if err == nil {
		receiver, err = strconv.ParseUint(words[1], 10, 64)
	}
	return uint16(parsed), receiver, err
}

// Entrust implements [WardQueue] with one script.
func (r *Redis) Entrust(
	ctx context.Context, m Member, node uint16, receiver uint64, state []byte, lease time.Duration,
) error {
	keys := []string{r.numbers(), r.alive(), r.states(node)}
	return entrust.Run(ctx, r.client, keys, m.with(lease.Milliseconds(), receiver, state)...).Err()
}

// Adopt implements [WardQueue] with one script.
func (r *Redis) Adopt(ctx context.Context, m Member, lease time.Duration) (*State, error) {
	keys := []string{r.numbers(), r.states(m.Node)}
	reply, err := adopt.Run(ctx, r.client, keys, m.with(lease.Milliseconds())...).Slice()
	if err != nil || len(reply) != 5 {
		return nil, err
	}
	text, _ := reply[0].(string)
	number, _ := reply[1].(string)
	incarnation, _ := reply[2].(int64)
	age, _ := reply[3].(int64)
	bytes, _ := reply[4].(string)
	state := &State{Bytes: []byte(bytes), Age: time.Duration(age) * time.Millisecond}
	receiver, err := strconv.ParseUint(text, 10, 64)
	node, nodeErr := strconv.ParseUint(number, 10, 16)
	state.Receiver, state.Member.Node = receiver, uint16(node)
	if incarnation > 0 {
		state.Member.Incarnation, state.Member.Life = uint32(incarnation), receiver
	}
	return state, errors.Join(err, nodeErr)
}

// Hold implements [WardQueue] with one script.
func (r *Redis) Hold(ctx context.Context, m Member, lease time.Duration) error {
	held, err := keep.Run(ctx, r.client, []string{r.numbers()}, m.with(lease.Milliseconds())...).Bool()
	if err == nil && !held {
		err = ErrReplaced
	}
	return err
}
