// Makes one bandit of many servers: in C++ with this file, in Go with the package bindings/go/fleet, whose README.md says
// more. Each server has its own handle, of any policy that can merge, with or without segments. All servers learn from
// what all have released, through a shared Redis. This file needs hiredis: apt-get install libhiredis-dev.
//
// A background thread regularly puts this node's snapshot into Redis and merges the snapshots that are news. No decision
// waits for this thread or for Redis. Without Redis, a node learns by itself.
//
// With dpb_config.expected_users each node counts people by itself. The fleet learns up to n times as much from a
// person who reaches n nodes, and that person loses up to n times epsilon. So always send a person to the same node.
//
// A bandit is a hash in Redis, "dpb:{NAME}". A node is a field of it, such as "7": 20 digits of version, then the
// snapshot. The hash "dpb:{NAME}:versions" has the versions that are news for other nodes.
//
// A node holds its number by a lease. The hash "dpb:{NAME}:numbers" has a record of each number: its incarnation, a random
// life, and when the lease ends. Redis checks the life whenever a node writes or reads what belongs to its number. So a
// process that has hung cannot take what belongs to the process that has its number now.
//
// A reward for another node's decision travels in the stream of that node, "dpb:{NAME}:rewards:7". It may arrive twice,
// and counts once because of its ticket.
//
// While rewards cannot travel, a missing reward does not mean reward 0. So a node cancels its open decisions
// (dpb_cancel_all) during an outage. To detect one, each node makes rounds at fixed times: it beats, then receives. A beat
// renews the lease and is counted in "dpb:{NAME}:alive"; Redis tells the node which others do not beat. A node is in an outage if its own rounds fail, or if another node does not beat. A node that has not
// beaten for 30 delays is gone: its number is free, and all others cancel once what is open.
//
// With a fleet key another node continues with the open decisions of a node that ends. The nodes that are alive offer
// numbers that a state may be addressed to (dpb_receiver), in the hash "dpb:{NAME}:offers". The node that ends leaves its
// state, sealed, in the list "dpb:{NAME}:states:7" of such a node. That node keeps the bandit as a ward: it decides nothing,
// gets the rewards in the stream of its number, contributes, and ends with its last open decision.
//
// With a fleet key, one node leads: it releases what all nodes collect, with one noise. The leader holds a lease: a key
// in Redis with its node number and its generation (dpb_lead). A node that finds no lease tries to take it. The other
// nodes contribute their open sums to that generation, through a stream of its own. A node sends each contribution
// once, so what is lost on the way is lost. Rewards travel sealed, in messages of one length. Their number shows, and
// is NOT private: with Options::send_rate the node sends messages at fixed times, whether rewards wait or not.
//
// Anyone may read snapshots and contributions. Rewards that are not sealed are NOT private: anyone who reads the
// streams learns who clicked. Anyone who can write to Redis can spoil what is learned, but cannot break the privacy
// guarantee. So give Redis a password and, across machines, TLS. hiredis supports TLS from version 1 on, but
// this file does not use it: connect to a TLS tunnel on this machine.
#ifndef FLEET_HPP
#define FLEET_HPP

#include "serve.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cinttypes>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/time.h>
#include <unistd.h>

#include <hiredis/hiredis.h>

namespace fleet {

using serve::Clock;
using namespace std::chrono_literals;

// Redis must reply to a node that joins within JOIN_TIMEOUT. The timeout of later exchanges is at most MAX_TIMEOUT.
inline constexpr std::chrono::nanoseconds JOIN_TIMEOUT = 5s, MAX_TIMEOUT = 1s;
// Both numbers in a version have this many digits, so that comparing versions as texts is exact.
inline constexpr std::size_t VERSION_DIGITS = 10;
// The maximum number of rewards in this node's queue to Redis, and in a node's stream in Redis. A stream expires after
// REWARDS_TTL seconds without a new reward. The limits of streams are those of bindings/go/fleet/redis.go.
inline constexpr std::size_t MAX_REWARDS = 100'000;
inline constexpr std::string_view MAX_REWARDS_IN_STREAM = "100000", REWARDS_TTL = "3600";
// The same limits for the stream of contributions to a leader.
inline constexpr std::string_view MAX_CONTRIBUTIONS = "10000", CONTRIBUTIONS_TTL = "60";
// A lease lasts for this many exchanges, and at least MIN_LEASE.
inline constexpr int EXCHANGES_IN_LEASE = 3;
inline constexpr std::chrono::milliseconds MIN_LEASE = 3s;
// A node that contributes and has released nothing new puts a snapshot at each of so many exchanges.
inline constexpr int EXCHANGES_UNTIL_PUT = 12;
// Nodes up to this number take the lead at once, others only if they find no leader at two exchanges.
inline constexpr std::uint16_t FIRST_LEADERS = 8;
// A leader that ends waits two intervals for contributions that are on the way, but no longer than MAX_DRAIN. Then it
// waits another interval for its heir to lead, at least MIN_HEIR, because a busy heir may be late.
inline constexpr std::chrono::nanoseconds MAX_DRAIN = 10s, MIN_HEIR = 3s, MAX_HEIR = 5s;
// It ends without an heir only if for this time no other node was alive: the beats of a busy node may be late.
inline constexpr std::chrono::nanoseconds MIN_ALONE = 2s;
// A node offers this many receivers of states. A node that ends waits so long for one, and for states that were on the way
// to it. The maximum number of rewards that a node keeps for a state that may come. Without a window a ward ends after the
// last time.
inline constexpr std::size_t OFFERED = 4, MAX_UNKNOWN = 10'000;
inline constexpr std::chrono::nanoseconds MAX_SEARCH = 5s, MAX_WARD = 1h;
// The maximum number of messages in one send or read, and of snapshots in one read.
inline constexpr std::size_t BATCH = 1000, SNAPSHOTS_AT_ONCE = 64;
// A node beats so often in a delay. A node is gone if it does not beat for so many delays. If its rounds fail for the last
// number of delays, it is not ready: the rest of the time is the balancer's, to send it no more clicks.
inline constexpr int BEATS_IN_DELAY = 8, DELAYS_UNTIL_GONE = 30, DELAYS_UNTIL_UNREADY = 10;
// Without Options::delay, nodes beat by this one.
inline constexpr std::chrono::milliseconds USUAL_DELAY = 1s;
// The size of a reward in a sealed message: the ticket and the bits of the reward, in big-endian order. The maximum
// number of rewards in such a message. Both are those of bindings/go/fleet/rewards.go.
inline constexpr std::size_t SEALED_REWARD = 8 + 8, MAX_SLOTS = 1 << 16;

// The scripts of Redis, which bindings/go/fleet/redis.go must contain exactly. Each begins with this one. KEYS[1] is the hash
// of numbers, and ARGV begins with the member: node, incarnation and life. A member holds its number if the record has its
// life or an older incarnation, which is what a replica that lags brings back.
inline const std::string MINE = R"(
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
end)";

// Gives a number to a life. KEYS: the numbers, the nodes that live, the counts, the snapshots. ARGV: the number, 0 for the
// lowest whose lease is over; 0; the life; the duration of the lease in milliseconds. Returns the number and its
// incarnation.
inline const std::string TAKE = MINE + R"(
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
return {tonumber(number), incarnation})";

// Stores a snapshot unless the field has the same or a newer version. KEYS: the numbers, the snapshots, their versions, the
// counts. ARGV: the member, the version, the snapshot, and 1 if the other nodes need it.
inline const std::string PUT = MINE + R"(
if not mine() then return 0 end
local held = redis.call('HGET', KEYS[2], ARGV[1])
held = held and held:match('^' .. ('%d'):rep(20))
if held and held >= ARGV[4] then return 0 end
redis.call('HSET', KEYS[2], ARGV[1], ARGV[4] .. ARGV[5])
if ARGV[6] == '1' then
  redis.call('HSET', KEYS[3], ARGV[1], ARGV[4])
  redis.call('HINCRBY', KEYS[4], 'puts', 1)
end
return 1)";

// Renews a number's lease. KEYS: the numbers, the nodes that live, the counts, the states for the node. ARGV: the member, the
// duration of the lease, the beats up to which a node is late and up to which it is gone, and 1 to list the numbers that
// are held. Returns nothing if the number has another life; otherwise the counts, the nodes that it has removed, the other
// late nodes with their beats, and the numbers that are held.
inline const std::string BEAT = MINE + R"(
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
  tonumber(counts[2] or 0), redis.call('LLEN', KEYS[4]), gone, late, numbers})";

// Ends a number's lease. KEYS: those of BEAT. ARGV: the member; life 0 stands for every life, which has then no access any
// more.
inline const std::string LEAVE = MINE + R"(
if ARGV[3] ~= '0' then
  if not mine() then return 0 end
  hold(ARGV[1], ARGV[2], ARGV[3], 0)
  return redis.call('ZREM', KEYS[2], ARGV[1])
end
local before = (redis.call('HGET', KEYS[1], ARGV[1]) or ''):match('^%d+')
if not before then return 0 end
hold(ARGV[1], before + 1, 0, 0)
redis.call('ZREM', KEYS[2], ARGV[1])
return redis.call('HINCRBY', KEYS[3], 'breaks', 1))";

// Deletes the messages with these ids from a node's stream, and reads the next ones. KEYS: the numbers, the stream. ARGV:
// the member, the largest number of messages, and the ids. Returns nothing if the number has another life.
inline const std::string RECEIVE = MINE + R"(
if not mine() then return false end
if #ARGV > 4 then redis.call('XDEL', KEYS[2], unpack(ARGV, 5)) end
return redis.call('XRANGE', KEYS[2], '-', '+', 'COUNT', ARGV[4]))";

// Adds a contribution to a stream. KEYS: the numbers, the stream. ARGV: the member, the largest number of contributions, the
// time in seconds after which the stream expires, and the contribution.
inline const std::string CONTRIBUTE = MINE + R"(
if not mine() then return 0 end
redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[4], '*', 'contribution', ARGV[6])
return redis.call('EXPIRE', KEYS[2], ARGV[5]))";

// Adds receivers of states. KEYS: the numbers, the offers. ARGV: the member, 1 to withdraw all, and the receivers. Returns the
// receivers that nobody has taken, or nothing if the number has another life.
inline const std::string OFFER = MINE + R"(
if not mine() then return false end
local incarnation, open = (redis.call('HGET', KEYS[2], ARGV[1]) or ''):match('^(%d+)(.*)$')
if incarnation ~= ARGV[2] then open = '' end
for i = 5, #ARGV do open = open .. ' ' .. ARGV[i] end
if ARGV[4] == '1' then
  redis.call('HDEL', KEYS[2], ARGV[1])
else
  redis.call('HSET', KEYS[2], ARGV[1], ARGV[2] .. open)
end
return open)";

// Takes a receiver. KEYS: the numbers, the nodes that live, the offers. ARGV: a number, 0 for any node that lives, and a
// random number. Returns the node and the receiver; 0 in place of the receiver if all are taken, and in place of the node if
// nobody offers any.
inline constexpr std::string_view HOST = R"(
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
return {busy, '0'})";

// Leaves a state for a node. KEYS: the numbers, the nodes that live, the states for that node. ARGV: the member, the duration
// of the lease in milliseconds, the receiver, the state.
inline const std::string ENTRUST = MINE + R"(
if mine() then
  hold(ARGV[1], ARGV[2], ARGV[3], now() + ARGV[4])
  redis.call('ZREM', KEYS[2], ARGV[1])
end
local head = table.concat({ARGV[5], ARGV[1], ARGV[2], string.format('%.0f', now())}, ' ')
redis.call('RPUSH', KEYS[3], head .. ' ' .. ARGV[6])
return redis.call('PEXPIRE', KEYS[3], ARGV[4]))";

// Removes a state. KEYS: the numbers, the states for the member. ARGV: the member, the duration of the lease in milliseconds.
// Returns nothing if there is none; otherwise the receiver, the number, its incarnation or 0 if another process has the
// number, the age of the state, and the state.
inline const std::string ADOPT = MINE + R"(
local state = mine() and redis.call('LPOP', KEYS[2])
if not state then return {} end
local receiver, number, incarnation, since, bytes = state:match('^(%d+) (%d+) (%d+) (%d+) (.*)$')
local holder, held = (redis.call('HGET', KEYS[1], number) or ''):match('^%d+') or incarnation, 0
if holder == incarnation and number ~= ARGV[1] then
  held = incarnation + 1
  hold(number, held, receiver, now() + ARGV[4])
end
return {receiver, number, held, now() - since, bytes})";

// Renews the lease of a number. KEYS: the numbers. ARGV: the member, the duration in milliseconds.
inline const std::string KEEP = MINE + R"(
if not mine() then return 0 end
hold(ARGV[1], ARGV[2], ARGV[3], now() + ARGV[4])
return 1)";

// Extends the leader's lease if its value is still the caller's. KEYS: the lease. ARGV: its value, and the time in
// milliseconds that it lasts from now on; 0 ends it.
inline constexpr std::string_view RENEW = R"(
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2]))";

using serve::Key, serve::read_key, serve::remove_line_end;

struct Options {
  std::string redis; // HOST:PORT, or a socket's path; empty: no fleet
  std::string bandit = "ads";
  std::uint16_t node = 0; // no other process of the fleet may have this number; 0: the lowest that is free
  bool is_numbered = false; // --node was given
  std::string user;                    // of Redis' access control list; empty: the default one
  std::filesystem::path password_file; // its first line is the password of that user; empty: no password
  std::filesystem::path key_file;      // empty: each node adds its own noise
  std::chrono::milliseconds merge_every = 5s;
  // It is an outage if rewards take longer than this to reach another node; 0: never check for outages.
  std::chrono::milliseconds delay = USUAL_DELAY;
  // With a fleet key: at fixed times the node sends each other node a message of one length, with space for
  // at least this many rewards a second. A reward that finds no space is lost. 0: it sends each reward at once, so that
  // Redis shows how many travel.
  std::uint32_t send_rate = 0;

  // Returns whether it is one of these options. Throws serve::UsageError if its value is not valid.
  bool take(std::string_view name, std::string_view value) {
    const bool plain = std::all_of(value.begin(), value.end(), [](unsigned char c) {
      return std::isalnum(c) || c == '_' || c == '-' || c == '.'; // no characters that need escapes
    });
    if (name == "--redis") {
      redis = value;
      if (value.find('/') == value.npos && !port(value)) {
        throw serve::UsageError(name, "HOST:PORT or a socket's path", value);
      }
    } else if (name == "--bandit") {
      bandit = value;
      if (!plain || value.empty()) {
        throw serve::UsageError(name, "letters, digits, and any of _-.", value);
      }
    } else if (name == "--node") {
      node = value == "auto" ? 0 : serve::number<std::uint16_t>(name, value, 1);
      is_numbered = true;
    } else if (name == "--redis-user") {
      user = value;
      if (value.empty()) {
        throw serve::UsageError(name, "the name of a user", value);
      }
    } else if (name == "--redis-password-file") {
      password_file = serve::file(name, value);
    } else if (name == "--merge-every") {
      merge_every = std::chrono::milliseconds(serve::number<std::uint32_t>(name, value, 1));
    } else if (name == "--delay") {
      delay = std::chrono::milliseconds(serve::number<std::uint32_t>(name, value));
    } else if (name == "--send-rate") {
      send_rate = serve::number<std::uint32_t>(name, value, 1);
    } else {
      return false;
    }
    return true;
  }

  std::optional<Key> key() const { return key_file.empty() ? std::nullopt : std::optional(read_key(key_file)); }

  // The delay by which nodes beat.
  std::chrono::milliseconds beat_delay() const { return delay > 0ms ? delay : USUAL_DELAY; }

  // The number of rewards in each message with --send-rate; otherwise 0.
  std::size_t slots() const {
    const auto one = 1000 * BEATS_IN_DELAY; // a second, if the delay is in milliseconds
    return static_cast<std::size_t>((std::uint64_t(send_rate) * beat_delay().count() + one - 1) / one);
  }

  // Throws serve::UsageError if an option needs another one.
  void check() const {
    if (redis.empty() == is_numbered) {
      throw serve::UsageError("--redis and --node need each other");
    }
    if (redis.empty() && !password_file.empty()) {
      throw serve::UsageError("--redis-password-file needs --redis");
    }
    if (!user.empty() && password_file.empty()) {
      throw serve::UsageError("--redis-user needs --redis-password-file");
    }
    if (send_rate > 0 && key_file.empty()) {
      throw serve::UsageError("--send-rate needs --fleet-key-file");
    }
    if (slots() > MAX_SLOTS) {
      throw serve::UsageError("--send-rate is too large for this --delay");
    }
  }

  static std::optional<std::uint16_t> port(std::string_view address) {
    const std::size_t colon = address.rfind(':');
    return colon == address.npos || colon == 0 ? std::nullopt : serve::parse<std::uint16_t>(address.substr(colon + 1));
  }

  static constexpr const char *USAGE =
      "  --redis ADDRESS    learn together with the servers that share this Redis; HOST:PORT or a socket's path\n"
      "  --node N           number of this server among them, 1 to 32767; each server has its own. auto: the lowest\n"
      "                     that is free\n"
      "  --bandit NAME      name of the bandit that they share; default ads\n"
      "  --merge-every MS   interval of exchanges in milliseconds; default 5000\n"
      "  --delay MS         longest time, in milliseconds, that a click at another server may take; while clicks take\n"
      "                     longer, decisions are cancelled; default 1000; 0 if all clicks come to the server that\n"
      "                     showed the ad: then the servers do not check\n"
      "  --send-rate N      with --fleet-key-file: send each other server a message of one length eight times in a\n"
      "                     --delay, with space for at least N clicks a second, so that Redis does not show how many\n"
      "                     travel. A click that finds no space is lost. Default: send each click at once\n"
      "  --redis-user NAME  with a password: the user of Redis' access control list; without it, the default user\n"
      "  --redis-password-file FILE  the first line is the password of Redis\n"
      "                     With --redis and --fleet-key-file, which is then the same for all servers, one server\n"
      "                     releases what all collect, with one noise, and clicks travel sealed\n";
};

// The snapshot of a node, as Redis has it.
struct Field {
  std::uint16_t node;
  std::uint64_t version; // the incarnation, and 32 bits of a count; 0: the field does not begin with a version
  std::string snapshot;
};
using Fields = std::vector<Field>;

// A process that holds a number.
struct Member {
  std::uint16_t node = 0;
  std::uint32_t incarnation = 0; // how many processes have had this number, this one included
  std::uint64_t life = 0;        // random; 0: the number is not taken yet
};

// Another process has this node's number.
struct Replaced : std::runtime_error {
  Replaced() : std::runtime_error("redis: another process has this node's number") {}
};

// The last process with this node's number has put a snapshot since `begin` has read the last one: call `begin` again.
struct Raced : std::runtime_error {
  Raced() : std::runtime_error("redis: the last process with this node's number has just put a snapshot") {}
};

// What a node learns from a beat: counts, the nodes that are gone by it, the numbers that are held, and the late nodes with
// their beats.
struct Pulse {
  std::uint64_t beats = 0, nodes = 0, numbers = 0, breaks = 0, puts = 0, states = 0;
  std::vector<std::uint16_t> gone, held;
  std::map<std::uint16_t, std::uint64_t> late;
};

// The state of a node that has ended. Its member has no life if another process has its number.
struct State {
  Member member;
  std::uint64_t receiver = 0;
  std::chrono::milliseconds age{};
  std::string bytes;
};

// A message in a stream of rewards: a reward or, with a fleet key, sealed rewards.
struct Message {
  std::uint16_t to;
  std::uint64_t ticket;
  double reward;
  std::string sealed{}; // in place of a ticket and a reward
};
using OnMessage = std::function<void(const Message &)>;

// A reward that waits to be sent.
struct Reward {
  std::uint64_t ticket;
  double reward;
};

// The rewards of one message: one or, with Options::send_rate, those that came in one round.
struct Batch {
  std::vector<Reward> rewards;
  Clock::time_point since;
};

// The rewards that wait to be sent. What becomes of a reward must not depend on other rewards, because otherwise one
// reward would decide what is learned from others.
//
// With slots (Options::send_rate), a reward travels in the message of the round in which it came, whoever else waits, and
// however long sending takes. A round makes one message for each number that is held, with at most so many rewards; more
// are lost. So one more reward in a round costs at most one other. If messages were filled from a queue, one more reward
// would delay all that come after it until the queue is empty.
class Outbox {
public:
  // A round begins now, and takes this time. 0 slots: a message has one reward, and is sent at once.
  Outbox(std::size_t slots, Clock::duration every, Clock::time_point now) : slots_(slots), every_(every), began_(now) {}

  // Adds a reward. Returns false if there is no space, and the reward is lost.
  bool add(std::uint16_t to, const Reward &reward, Clock::time_point now) {
    if (slots_ == 0) {
      if (count_ >= MAX_REWARDS) {
        return false;
      }
      messages_[to].push_back({{reward}, now});
    } else {
      auto &next = next_[to];
      if (next.count(reward.ticket) > 0) {
        return true; // the node would refuse it
      }
      if (next.size() >= slots_) {
        return false;
      }
      next[reward.ticket] = reward.reward;
    }
    ++count_;
    return true;
  }

  // Ends the rounds that are over. Drops what waits for numbers that nobody holds, and what has waited longer than this
  // time. So how many messages wait for a node depends on time and on numbers alone. Returns the number of rewards that it
  // has dropped.
  std::size_t rounds(const std::set<std::uint16_t> &held, Clock::time_point now, Clock::duration longest) {
    std::size_t lost = 0;
    if (slots_ == 0) {
      return lost;
    }
    for (began_ = std::max(began_, now - longest - every_); now - began_ >= every_; began_ += every_) {
      lost += end(held, began_ + every_);
    }
    for (const auto &[node, count] : waiting()) {
      const std::uint16_t to = node; // a lambda cannot capture a name of a structured binding
      const auto &queue = messages_[to];
      const auto is_kept = [&](const Batch &batch) { return held.count(to) > 0 && now - batch.since <= longest; };
      lost += remove(to, static_cast<std::size_t>(std::find_if(queue.begin(), queue.end(), is_kept) - queue.begin()));
    }
    return lost;
  }

  // Ends this round: makes a message for each number that is held, whether there are rewards or not.
  std::size_t end(const std::set<std::uint16_t> &held, Clock::time_point now) {
    for (const std::uint16_t to : held) {
      Batch message{{}, now};
      for (const auto &[ticket, reward] : next_[to]) {
        message.rewards.push_back({ticket, reward});
      }
      messages_[to].push_back(std::move(message));
      next_.erase(to);
    }
    std::size_t lost = 0;
    for (const auto &[to, rewards] : std::exchange(next_, {})) {
      lost += rewards.size();
    }
    count_ -= lost;
    return lost;
  }

  // The nodes for which messages wait, and how many.
  std::map<std::uint16_t, std::size_t> waiting() const {
    std::map<std::uint16_t, std::size_t> waiting;
    for (const auto &[to, messages] : messages_) {
      waiting[to] = messages.size();
    }
    return waiting;
  }

  // The first messages for a node.
  std::vector<Batch> first(std::uint16_t to, std::size_t most) const {
    const auto &queue = messages_.at(to);
    return {queue.begin(), queue.begin() + std::min(most, queue.size())};
  }

  // Removes the first messages for a node. Returns the number of their rewards.
  std::size_t remove(std::uint16_t to, std::size_t messages) {
    auto &queue = messages_[to];
    const std::size_t before = count_;
    for (; messages > 0; --messages) {
      count_ -= queue.front().rewards.size();
      queue.pop_front();
    }
    if (queue.empty()) {
      messages_.erase(to);
    }
    return before - count_;
  }

  std::size_t count() const { return count_; }

private:
  const std::size_t slots_;
  const Clock::duration every_;
  Clock::time_point began_; // this round
  std::map<std::uint16_t, std::map<std::uint64_t, double>> next_; // with slots: the rewards of this round
  std::map<std::uint16_t, std::deque<Batch>> messages_;           // the oldest first
  std::size_t count_ = 0;                                         // of rewards in both
};

// A connection to Redis. After it throws, drop it: a reply to an earlier command may still arrive.
class Connection {
public:
  struct Free {
    void operator()(redisContext *context) const { redisFree(context); }
    void operator()(redisReply *reply) const { freeReplyObject(reply); }
  };
  using Reply = std::unique_ptr<redisReply, Free>;

  explicit Connection(const Options &options) : address_(options.redis), user_(options.user) {
    if (std::ifstream file(options.password_file); !options.password_file.empty()) {
      std::getline(file, password_);
      remove_line_end(password_);
      if (password_.empty()) {
        throw std::runtime_error(options.password_file.string() + ": no password");
      }
    }
  }

  Reply call(const std::vector<std::string_view> &words, Clock::time_point deadline) {
    send(words, deadline);
    return receive(deadline);
  }

  // send and receive together are redisCommandArgv, but with a deadline for the whole command. hiredis's timeout is for
  // each read, so a reply that arrives byte by byte could take any time.
  void send(const std::vector<std::string_view> &words, Clock::time_point deadline) {
    if (!context_) {
      connect(deadline);
    }
    std::vector<const char *> begins;
    std::vector<std::size_t> sizes;
    for (const std::string_view word : words) {
      begins.push_back(word.data());
      sizes.push_back(word.size());
    }
    redisContext *context = context_.get();
    check(redisAppendCommandArgv(context, static_cast<int>(words.size()), begins.data(), sizes.data()));
    for (int sent = 0; sent == 0;) {
      check(redisSetTimeout(context, remaining(deadline)));
      check(redisBufferWrite(context, &sent));
    }
  }

  Reply receive(Clock::time_point deadline) {
    for (;;) {
      void *whole = nullptr;
      check(redisGetReplyFromReader(context_.get(), &whole));
      if (Reply reply{static_cast<redisReply *>(whole)}) {
        if (reply->type == REDIS_REPLY_ERROR) {
          throw std::runtime_error("redis: " + std::string(text(*reply)));
        }
        return reply;
      }
      check(redisSetTimeout(context_.get(), remaining(deadline)));
      check(redisBufferRead(context_.get()));
    }
  }

  void drop() { context_.reset(); }

  static std::string_view text(const redisReply &reply) {
    return reply.str != nullptr ? std::string_view(reply.str, reply.len) : std::string_view();
  }

private:
  static constexpr const char *LATE = "redis: no reply in time";

  void connect(Clock::time_point deadline) {
    const bool socket = address_.find('/') != address_.npos;
    const std::string host = address_.substr(0, address_.rfind(':'));
    context_.reset(socket ? redisConnectUnixWithTimeout(address_.c_str(), remaining(deadline))
                          : redisConnectWithTimeout(host.c_str(), *Options::port(address_), remaining(deadline)));
    check(context_ ? REDIS_OK : REDIS_ERR);
    check(context_->err);
    if (!user_.empty()) {
      call({"AUTH", user_, password_}, deadline);
    } else if (!password_.empty()) {
      call({"AUTH", password_}, deadline);
    }
    call({"PING"}, deadline); // without its password Redis calls a script a protocol error, and this NOAUTH
  }

  void check(int status) const {
    if (status != REDIS_OK) {
      const bool late = context_ && context_->err == REDIS_ERR_IO && errno == EAGAIN;
      throw std::runtime_error(late ? LATE : "redis: " + (context_ ? std::string(context_->errstr) : "no memory"));
    }
  }

  static timeval remaining(Clock::time_point deadline) {
    const auto time = std::chrono::duration_cast<std::chrono::microseconds>(deadline - Clock::now());
    if (time <= 0us) { // hiredis has no timeout if it is 0
      throw std::runtime_error(LATE);
    }
    return {static_cast<time_t>(time / 1s), static_cast<suseconds_t>((time % 1s).count())};
  }

  const std::string address_, user_;
  std::string password_;
  std::unique_ptr<redisContext, Free> context_;
};

// The bandit's hashes and streams in Redis. Only one thread may use it at a time. After it throws, drop its connection,
// except for Replaced.
class Store {
public:
  explicit Store(const Options &options) : key_("dpb:{" + options.bandit + "}"), redis_(options) {
    std::signal(SIGPIPE, SIG_IGN); // hiredis writes to sockets that the other side has closed
  }

  // Gives this process a number until the lease is over: this one, or for 0 the lowest that nobody holds.
  Member take(std::uint16_t node, std::chrono::milliseconds lease, Clock::time_point deadline) {
    std::random_device random;
    const std::uint64_t life = (std::uint64_t(random()) << 32 | random()) | 1;
    const Reply reply =
        eval(TAKE, {numbers(), alive(), counts(), key_},
             {std::to_string(node), "0", std::to_string(life), std::to_string(lease.count())}, deadline);
    const long long number = at(*reply, 0).integer, incarnation = at(*reply, 1).integer;
    if (number <= 0) {
      throw std::runtime_error("redis: no number is free");
    }
    if (incarnation > UINT32_MAX) {
      throw std::runtime_error("redis: node " + std::to_string(number) + " has no incarnation left: delete its field of " +
                               key_);
    }
    return {static_cast<std::uint16_t>(number), static_cast<std::uint32_t>(incarnation), life};
  }

  // Stores a member's snapshot. Returns false, and changes nothing, if Redis has the same or a newer version, or if the
  // number has another life.
  bool put(const Member &member, std::uint64_t version, std::string_view snapshot, bool is_news,
           Clock::time_point deadline) {
    std::array<char, 2 * VERSION_DIGITS + 1> digits = {};
    std::snprintf(digits.data(), digits.size(), "%010" PRIu64 "%010" PRIu64, version >> 32, version & UINT32_MAX);
    auto arguments = words(member);
    arguments.insert(arguments.end(), {digits.data(), std::string(snapshot), is_news ? "1" : "0"});
    return eval(PUT, {numbers(), key_, versions_key(), counts()}, arguments, deadline)->integer == 1;
  }

  // The versions that are news, by node.
  std::map<std::uint16_t, std::uint64_t> versions(Clock::time_point deadline) {
    const Reply all = redis_.call({"HGETALL", versions_key()}, deadline);
    std::map<std::uint16_t, std::uint64_t> versions;
    for (std::size_t i = 0; i + 1 < all->elements; i += 2) {
      const auto node = serve::parse<std::uint16_t>(word(*all, i));
      if (const auto version = parse_version(word(*all, i + 1)); node && version) {
        versions[*node] = *version;
      }
    }
    return versions;
  }

  // The fields of these nodes.
  Fields list(const std::vector<std::uint16_t> &nodes, Clock::time_point deadline) {
    std::vector<std::string> names;
    for (const std::uint16_t node : nodes) {
      names.push_back(std::to_string(node));
    }
    std::vector<std::string_view> words{"HMGET", key_};
    words.insert(words.end(), names.begin(), names.end());
    Fields fields;
    if (nodes.empty()) {
      return fields;
    }
    const Reply some = redis_.call(words, deadline);
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      if (const redisReply &found = at(*some, i); found.type == REDIS_REPLY_STRING) {
        std::string_view value = Connection::text(found);
        const auto version = parse_version(value.substr(0, 2 * VERSION_DIGITS));
        value.remove_prefix(version ? 2 * VERSION_DIGITS : 0);
        fields.push_back({nodes[i], version.value_or(0), std::string(value)});
      }
    }
    return fields;
  }

  // All numbers that a process ever had.
  std::set<std::uint16_t> all_numbers(Clock::time_point deadline) {
    const Reply names = redis_.call({"HKEYS", numbers()}, deadline);
    std::set<std::uint16_t> all;
    for (std::size_t i = 0; i < names->elements; ++i) {
      if (const auto node = serve::parse<std::uint16_t>(word(*names, i))) {
        all.insert(*node);
      }
    }
    return all;
  }

  // Renews a member's lease. Nodes whose last beat is at most `late` are returned; those whose last beat is at most `gone` are
  // removed. With `held` the numbers that are held are returned too. Throws Replaced if the number has another life.
  Pulse beat(const Member &member, std::chrono::milliseconds lease, std::uint64_t late, std::uint64_t gone, bool held,
             Clock::time_point deadline) {
    auto arguments = words(member);
    arguments.insert(arguments.end(), {std::to_string(lease.count()), std::to_string(late), std::to_string(gone),
                                       held ? "1" : "0"});
    const Reply reply = eval(BEAT, {numbers(), alive(), counts(), states(member.node)}, arguments, deadline);
    if (reply->elements == 0) {
      throw Replaced();
    }
    Pulse pulse;
    std::size_t i = 0;
    for (std::uint64_t *count : {&pulse.beats, &pulse.nodes, &pulse.numbers, &pulse.breaks, &pulse.puts, &pulse.states}) {
      *count = static_cast<std::uint64_t>(at(*reply, i++).integer);
    }
    for (const auto &[numbers, place] : {std::pair(&pulse.gone, 6), std::pair(&pulse.held, 8)}) {
      for (std::size_t j = 0; j < at(*reply, place).elements; ++j) {
        numbers->push_back(serve::parse<std::uint16_t>(word(at(*reply, place), j)).value_or(0));
      }
    }
    for (std::size_t j = 0; j + 1 < at(*reply, 7).elements; j += 2) {
      const auto node = serve::parse<std::uint16_t>(word(at(*reply, 7), j));
      if (const auto beats = serve::parse<std::uint64_t>(word(at(*reply, 7), j + 1)); node && beats) {
        pulse.late[*node] = *beats;
      }
    }
    return pulse;
  }

  // Ends a member's lease.
  void leave(const Member &member, Clock::time_point deadline) {
    eval(LEAVE, {numbers(), alive(), counts()}, words(member), deadline);
  }

  // Adds receivers, or withdraws all. Returns those that nobody has taken. Throws Replaced if the number has another life.
  std::set<std::uint64_t> offer(const Member &member, const std::vector<std::uint64_t> &receivers, bool withdraw,
                                Clock::time_point deadline) {
    auto arguments = words(member);
    arguments.push_back(withdraw ? "1" : "0");
    std::transform(receivers.begin(), receivers.end(), std::back_inserter(arguments),
                   [](std::uint64_t receiver) { return std::to_string(receiver); });
    const Reply reply = eval(OFFER, {numbers(), offers()}, arguments, deadline);
    if (reply->type != REDIS_REPLY_STRING) {
      throw Replaced();
    }
    std::set<std::uint64_t> open;
    for (std::string_view text = Connection::text(*reply); !text.empty();) {
      const std::size_t space = std::min(text.find(' '), text.size());
      if (const auto receiver = serve::parse<std::uint64_t>(text.substr(0, space))) {
        open.insert(*receiver);
      }
      text.remove_prefix(std::min(space + 1, text.size()));
    }
    return open;
  }

  // Takes a receiver of this node, or for 0 of any node that is alive. Returns the node and no receiver if all are taken, and
  // no node if nobody offers any.
  std::pair<std::uint16_t, std::uint64_t> host(std::uint16_t number, Clock::time_point deadline) {
    const Reply reply = eval(HOST, {numbers(), alive(), offers()},
                             {std::to_string(number), std::to_string(std::random_device()())}, deadline);
    return {serve::parse<std::uint16_t>(word(*reply, 0)).value_or(0),
            serve::parse<std::uint64_t>(word(*reply, 1)).value_or(0)};
  }

  // Leaves a member's state for a node to adopt, at most for the duration of the lease.
  void entrust(const Member &member, std::uint16_t node, std::uint64_t receiver, std::string_view state,
               std::chrono::milliseconds lease, Clock::time_point deadline) {
    auto arguments = words(member);
    arguments.insert(arguments.end(), {std::to_string(lease.count()), std::to_string(receiver), std::string(state)});
    eval(ENTRUST, {numbers(), alive(), states(node)}, arguments, deadline);
  }

  // Removes a state from those that were left for a member.
  std::optional<State> adopt(const Member &member, std::chrono::milliseconds lease, Clock::time_point deadline) {
    auto arguments = words(member);
    arguments.push_back(std::to_string(lease.count()));
    const Reply reply = eval(ADOPT, {numbers(), states(member.node)}, arguments, deadline);
    if (reply->elements != 5) {
      return std::nullopt;
    }
    State state;
    state.receiver = serve::parse<std::uint64_t>(word(*reply, 0)).value_or(0);
    state.member.node = serve::parse<std::uint16_t>(word(*reply, 1)).value_or(0);
    if (const auto incarnation = at(*reply, 2).integer; incarnation > 0) {
      state.member.incarnation = static_cast<std::uint32_t>(incarnation);
      state.member.life = state.receiver;
    }
    state.age = std::chrono::milliseconds(at(*reply, 3).integer);
    state.bytes = word(*reply, 4);
    return state;
  }

  // Renews the lease of a number. Throws Replaced if the number has another life.
  void keep(const Member &member, std::chrono::milliseconds lease, Clock::time_point deadline) {
    auto arguments = words(member);
    arguments.push_back(std::to_string(lease.count()));
    if (eval(KEEP, {numbers()}, arguments, deadline)->integer == 0) {
      throw Replaced();
    }
  }

  // The key in Redis for the lease of the nodes that share the fleet key with this id. Each fleet key has its own
  // leader, so that all nodes continue to learn while the fleet changes its key.
  std::string lease(std::uint64_t key_id) const {
    std::array<char, 17> id = {};
    std::snprintf(id.data(), id.size(), "%016" PRIx64, key_id);
    return key_ + ":leader:" + id.data();
  }

  // The value of the lease, a node number and a generation; empty if no node leads.
  std::string leader(std::string_view lease, Clock::time_point deadline) {
    return std::string(Connection::text(*redis_.call({"GET", lease}, deadline)));
  }

  // Takes the lease for this time. Returns false if a node holds it.
  bool lead(std::string_view lease, std::string_view leader, std::chrono::milliseconds time,
            Clock::time_point deadline) {
    const std::string milliseconds = std::to_string(time.count());
    return Connection::text(*redis_.call({"SET", lease, leader, "NX", "PX", milliseconds}, deadline)) == "OK";
  }

  // Makes the lease last for this time from now on. Returns false if this leader does not hold it any more.
  bool renew(std::string_view lease, std::string_view leader, std::chrono::milliseconds time,
             Clock::time_point deadline) {
    return redis_.call({"EVAL", RENEW, "1", lease, leader, std::to_string(time.count())}, deadline)->integer == 1;
  }

  // Sends a member's contribution to the leader of this generation. If it throws, the contribution may still arrive.
  void contribute(const Member &member, std::uint64_t generation, std::string_view sums, Clock::time_point deadline) {
    auto arguments = words(member);
    arguments.insert(arguments.end(),
                     {std::string(MAX_CONTRIBUTIONS), std::string(CONTRIBUTIONS_TTL), std::string(sums)});
    if (eval(CONTRIBUTE, {numbers(), contributions(generation)}, arguments, deadline)->integer == 0) {
      throw Replaced();
    }
  }

  // Passes the contributions to this generation to `combine`, and then deletes them. May pass a contribution again. Only
  // the leader of this generation reads its stream.
  template <class Combine> void collect(std::uint64_t generation, Clock::time_point deadline, Combine combine) {
    const std::string stream = contributions(generation);
    for (;;) {
      const Reply messages = redis_.call({"XRANGE", stream, "-", "+", "COUNT", std::to_string(BATCH)}, deadline);
      std::vector<std::string_view> done{"XDEL", stream};
      for (std::size_t i = 0; i < messages->elements; ++i) {
        combine(value(at(at(*messages, i), 1), "contribution"));
        done.push_back(word(at(*messages, i), 0));
      }
      if (messages->elements == 0) {
        return;
      }
      redis_.call(done, deadline);
    }
  }

  // Sends each message to its node, in this order. If it throws, some may have been sent.
  void send(const std::vector<Message> &messages, Clock::time_point deadline) {
    std::set<std::string> streams;
    for (const Message &message : messages) {
      const auto stream = streams.insert(stream_of(message.to)).first;
      const std::string ticket = std::to_string(message.ticket), reward = text(message.reward);
      std::vector<std::string_view> words{"XADD", *stream, "MAXLEN", MAX_REWARDS_IN_STREAM, "*"};
      if (message.sealed.empty()) {
        words.insert(words.end(), {"ticket", ticket, "reward", reward});
      } else {
        words.insert(words.end(), {"sealed", message.sealed});
      }
      redis_.send(words, deadline);
    }
    for (const std::string &stream : streams) {
      redis_.send({"EXPIRE", stream, REWARDS_TTL}, deadline);
    }
    for (std::size_t i = 0; i < messages.size() + streams.size(); ++i) {
      redis_.receive(deadline);
    }
  }

  // Parses two numbers with a space between them.
  template <class One, class Other>
  static std::pair<std::optional<One>, std::optional<Other>> numbers(std::string_view text) {
    const std::size_t space = std::min(text.find(' '), text.size());
    return {serve::parse<One>(text.substr(0, space)),
            serve::parse<Other>(text.substr(std::min(space + 1, text.size())))};
  }

  // Parsing the text gives the same number.
  static std::string text(double reward) {
    char digits[32];
    std::snprintf(digits, sizeof digits, "%.17g", reward);
    return digits;
  }

  // Passes the messages in a member's stream to `on_message`, and deletes them. May pass a message again. Throws Replaced
  // if the number has another life.
  void receive(const Member &member, Clock::time_point deadline, const OnMessage &on_message) {
    for (std::vector<std::string> done;;) {
      auto arguments = words(member);
      arguments.push_back(std::to_string(BATCH));
      arguments.insert(arguments.end(), done.begin(), done.end());
      done.clear();
      const Reply messages = eval(RECEIVE, {numbers(), stream_of(member.node)}, arguments, deadline);
      if (messages->type != REDIS_REPLY_ARRAY) {
        throw Replaced();
      }
      if (messages->elements == 0) {
        return;
      }
      for (std::size_t i = 0; i < messages->elements; ++i) {
        const redisReply &fields = at(at(*messages, i), 1);
        const auto ticket = serve::parse<std::uint64_t>(value(fields, "ticket"));
        if (const auto reward = serve::parse<double>(value(fields, "reward")); ticket && reward) {
          on_message(Message{member.node, *ticket, *reward});
        } else if (const std::string_view sealed = value(fields, "sealed"); !sealed.empty()) {
          on_message(Message{member.node, 0, 0, std::string(sealed)});
        }
        done.emplace_back(word(at(*messages, i), 0));
      }
    }
  }

  void drop() { redis_.drop(); }

private:
  using Reply = Connection::Reply;

  // Runs a script.
  Reply eval(std::string_view script, const std::vector<std::string> &keys, const std::vector<std::string> &arguments,
             Clock::time_point deadline) {
    const std::string count = std::to_string(keys.size());
    std::vector<std::string_view> words{"EVAL", script, count};
    words.insert(words.end(), keys.begin(), keys.end());
    words.insert(words.end(), arguments.begin(), arguments.end());
    return redis_.call(words, deadline);
  }

  static std::vector<std::string> words(const Member &member) {
    return {std::to_string(member.node), std::to_string(member.incarnation), std::to_string(member.life)};
  }

  static std::optional<std::uint64_t> parse_version(std::string_view text) {
    const auto incarnation = serve::parse<std::uint32_t>(text.substr(0, VERSION_DIGITS));
    const auto count = serve::parse<std::uint32_t>(text.substr(std::min(VERSION_DIGITS, text.size())));
    const bool is_version = text.size() == 2 * VERSION_DIGITS && incarnation && count;
    return is_version ? std::optional(std::uint64_t(*incarnation) << 32 | *count) : std::nullopt;
  }

  std::string versions_key() const { return key_ + ":versions"; }
  std::string numbers() const { return key_ + ":numbers"; }
  std::string alive() const { return key_ + ":alive"; }
  std::string counts() const { return key_ + ":counts"; }
  std::string offers() const { return key_ + ":offers"; }
  std::string states(std::uint16_t node) const { return key_ + ":states:" + std::to_string(node); }
  std::string contributions(std::uint64_t generation) const {
    return key_ + ":contributions:" + std::to_string(generation);
  }
  std::string stream_of(std::uint16_t node) const { return key_ + ":rewards:" + std::to_string(node); }

  // An element of a reply, or an empty reply if there is none.
  static const redisReply &at(const redisReply &reply, std::size_t i) {
    static const redisReply EMPTY = {};
    return i < reply.elements ? *reply.element[i] : EMPTY;
  }

  static std::string_view word(const redisReply &reply, std::size_t i) { return Connection::text(at(reply, i)); }

  static std::string_view value(const redisReply &words, std::string_view name) {
    for (std::size_t i = 0; i + 1 < words.elements; i += 2) {
      if (word(words, i) == name) {
        return word(words, i + 1);
      }
    }
    return {};
  }

  const std::string key_;
  Connection redis_;
};

// What a process begins with: its number, the snapshot that the number has, and the configuration of its bandit.
struct Start {
  Member member;
  std::optional<Field> field;
  dpb::Config config{2, 1}; // without pointers

  std::uint64_t version() const { return field ? field->version : 0; }
};

// A lease of a number lasts for this long after a beat.
inline std::chrono::milliseconds lease_of_number(const Options &options) {
  return DELAYS_UNTIL_GONE * options.beat_delay();
}

// Reads what this process begins with. With --node auto it takes the lowest number. Another number is taken by Node: a
// process that cannot continue must not replace one that runs.
inline Start begin(const Options &options, Store &store) {
  const Clock::time_point deadline = Clock::now() + JOIN_TIMEOUT;
  Start start;
  start.member.node = options.node;
  if (options.node == 0) {
    start.member = store.take(0, lease_of_number(options), deadline);
  }
  for (Field &field : store.list({start.member.node}, deadline)) {
    start.field = std::move(field);
  }
  return start;
}

// Returns the bandit restored from this number's snapshot if that has more decisions than `local`, and otherwise
// `local`, which is new or restored from a file. A file can be older or newer than the snapshot.
inline dpb::Bandit resume(dpb::Bandit local, const dpb::Config &config, Start &start) {
  start.config = config;
  start.config.test_seed = start.config.fleet_key = nullptr;
  start.config.budget = nullptr; // a ward's rewards are in the budget of the process that has ended
  start.config.budget_periods = 0;
  if (const auto &field = start.field) {
    const auto *bytes = reinterpret_cast<const std::uint8_t *>(field->snapshot.data());
    dpb_error error = {};
    const char *policy = dpb_policy_name(local.get());
    auto stored = dpb::Bandit::try_restore(policy, config, bytes, field->snapshot.size(), &error);
    if (!stored) {
      throw std::runtime_error("redis: node " + std::to_string(field->node) + ": " + error.message);
    }
    if (stored->report().decisions > local.report().decisions) {
      return std::move(*stored);
    }
  }
  return local;
}

// Wakes a thread that waits for a socket.
class Wakeup {
public:
  Wakeup() : socket_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (socket_ < 0) {
      throw std::system_error(errno, std::generic_category(), "eventfd");
    }
  }
  ~Wakeup() { ::close(socket_); }
  Wakeup(const Wakeup &) = delete;
  Wakeup &operator=(const Wakeup &) = delete;

  void signal() const { (void)::eventfd_write(socket_, 1); }
  void clear() const {
    eventfd_t count;
    (void)::eventfd_read(socket_, &count);
  }
  int socket() const { return socket_; }

private:
  const int socket_;
};

// This process's node of the fleet. It exchanges snapshots and rewards on a background thread until it is destroyed.
class Node {
public:
  // Takes the number, and merges the snapshots of all other nodes before it returns. Throws Raced, or if Redis does not reply,
  // if the policy cannot merge, or if another process takes the same number at this moment. `start` is what
  // `resume` may have restored the bandit from. `window` is the bandit's reward_window; if it is 0, decisions wait for
  // their rewards for ever, and the node does not check for outages. The store and the bandit must outlive the node.
  Node(const Options &options, Store &store, dpb::Bandit &bandit, const Start &start, serve::Span window)
      : options_(options), store_(store), bandit_(bandit), window_(window), config_(start.config), member_(start.member) {
    config_.fleet_key = key_ ? key_->data() : nullptr;
    const Clock::time_point deadline = Clock::now() + JOIN_TIMEOUT;
    returned_.ticks = ticks_ = ticks();
    bandit_.merge(bandit_.snapshot()); // changes nothing, but throws now if the policy cannot merge
    if (member_.life == 0) {
      member_ = store_.take(member_.node, lease_of_number(options_), deadline);
      const Fields now = store_.list({member_.node}, deadline);
      if ((now.empty() ? 0 : now.front().version) != start.version()) {
        throw Raced(); // it has no access any more, so it does this once
      }
    }
    version_ = std::uint64_t(member_.incarnation) << 32;
    if (!put(deadline)) {
      throw Replaced();
    }
    beat(deadline);
    cancel_ = false;
    merge(deadline);
    lead_or_contribute(deadline); // from now on this node contributes, and releases nothing
    offer(deadline);
    sender_thread_ = std::thread([this] { send_all_rounds(); });
    thread_ = std::thread([this] { run(); });
    if (options_.delay > 0ms && window_.ticks > 0) {
      outage_thread_ = std::thread([this] { check_outage(); });
    }
  }

  // Hands over what this node has collected: it contributes its open sums. The leader of a fleet with one noise does so
  // after two intervals, at most ten seconds, in which the others find another leader. Then it puts a last snapshot, and sends
  // the rewards in the queue. With a fleet key another node that is alive continues with the open decisions, and this node's
  // bandit has ended (DPB_HALTED). Otherwise the lease of its number ends. Decide nothing meanwhile.
  ~Node() {
    {
      const std::lock_guard alone(lock_);
      stopping_ = true;
    }
    wakeup_.signal();
    end_.notify_all();
    thread_.join();
    if (outage_thread_.joinable()) {
      outage_thread_.join();
    }
  }

  Node(const Node &) = delete;
  Node &operator=(const Node &) = delete;

  std::uint16_t number() const { return member_.node; }

  // Whether another process has this node's number. The fleet does not learn from what this process still decides, so
  // end it.
  bool is_replaced() const {
    const std::lock_guard alone(lock_);
    return is_replaced_;
  }

  // Whether this node can forward clicks: its rounds have ended well within the last ten delays. Tell your balancer, which
  // should send clicks to nodes that are ready only, and must obey within twenty delays: after that, the other nodes learn
  // from the silence of clicks that this node cannot forward. With a delay of 0 the node forwards nothing.
  bool is_ready() const {
    const std::lock_guard alone(lock_);
    return !is_replaced_ &&
           (options_.delay == 0ms || Clock::now() - returned_.at <= DELAYS_UNTIL_UNREADY * options_.delay);
  }

  // Reports the reward of a decision of any node. A reward for this node's own decision counts at
  // once. A reward for another node's decision goes to a queue, which a background thread sends. If the queue already
  // has MAX_REWARDS, or with Options::send_rate if the next message to that node is full, the reward is lost, and counted
  // in rewards_unsent_total. This node's bandit refuses a ticket of an
  // unknown node, so that invented tickets create no streams. Never waits for Redis.
  void update(std::uint64_t ticket, double reward) {
    const std::uint16_t to = dpb_ticket_node(ticket);
    std::unique_lock alone(lock_);
    if (to == member_.node || numbers_.count(to) == 0) {
      alone.unlock();
      (void)count(member_.node, ticket, reward);
    } else {
      end_rounds();
      const bool has_space = outbox_.add(to, {ticket, reward}, Clock::now());
      unsent_ += !has_space;
      sends_.notify_one();
    }
  }

  // Makes the background thread put a snapshot at once. Call this after each dpb::Bandit::next_period: the bandit learns
  // from nobody until the store has it, because a process that continues from an older snapshot would not count the period.
  void put_soon() {
    {
      const std::lock_guard alone(lock_);
      put_soon_ = true;
    }
    wakeup_.signal();
  }

  // A page for Prometheus of several nodes, with the metrics of the Go package. Show it to operators only: the counts
  // of rewards are NOT private.
  static std::string metrics(const std::vector<const Node *> &nodes) {
    std::string page;
    const auto family = [&](const std::string &name, const char *kind, const char *help, auto value) {
      const std::string metric = "dpb_fleet_" + name;
      page += "# HELP " + metric + " " + help + "\n# TYPE " + metric + " " + kind + '\n';
      for (const Node *node : nodes) {
        const std::lock_guard alone(node->lock_);
        page += metric + "{bandit=\"" + node->options_.bandit + "\"} " + std::to_string(value(*node)) + '\n';
      }
    };
    if (nodes.empty()) {
      return page;
    }
    family("age_seconds", "gauge", "Seconds since the last successful exchange.",
           [](const Node &n) { return std::chrono::duration<double>(Clock::now() - n.last_).count(); });
    family("exchanges_total", "counter", "Successful exchanges.", [](const Node &n) { return n.exchanges_; });
    family("errors_total", "counter", "Errors of the connection to Redis.", [](const Node &n) { return n.errors_; });
    family("nodes", "gauge", "Other nodes that are alive.",
           [](const Node &n) { return n.nodes_ == 0 ? 0 : n.nodes_ - 1; });
    family("released_nodes", "gauge", "Other nodes from which this node has read a snapshot, also nodes that have left.",
           [](const Node &n) { return n.merged_.size(); });
    family("incompatible_nodes", "gauge", "Other nodes whose newest snapshot was refused.", [](const Node &n) {
      return std::count_if(n.merged_.begin(), n.merged_.end(), [](const auto &each) { return !each.second.is_compatible; });
    });
    family("outage", "gauge", "1 while rewards cannot travel between nodes, so that decisions are cancelled.",
           [](const Node &n) { return int(n.outage_); });
    family("outages_total", "counter", "Outages: periods in which rewards could not travel between nodes.",
           [](const Node &n) { return n.outages_; });
    family("rewards_sent_total", "counter", "Rewards sent to other nodes. NOT private.",
           [](const Node &n) { return n.sent_; });
    family("rewards_waiting", "gauge", "Rewards in the queue to other nodes. NOT private.",
           [](const Node &n) { return n.outbox_.count(); });
    family("rewards_unsent_total", "counter",
           "Rewards lost because the queue or a message was full, or because their node is gone. NOT private.",
           [](const Node &n) { return n.unsent_; });
    family("rewards_received_total", "counter", "Rewards from other nodes that took effect. NOT private.",
           [](const Node &n) { return n.received_; });
    family("rewards_refused_total", "counter", "Rewards from other nodes that were refused. NOT private.",
           [](const Node &n) { return n.refused_; });
    family("leads", "gauge", "1 while this node leads: it releases what all nodes contribute.",
           [](const Node &n) { return int(n.leads_); });
    family("wards", "gauge", "Nodes that have ended, with whose open decisions this node continues.",
           [](const Node &n) { return n.wards_.size(); });
    family("contributions_total", "counter", "Contributions sent to leaders.",
           [](const Node &n) { return n.contributions_; });
    family("contributions_lost_total", "counter", "Contributions that an error may have lost.",
           [](const Node &n) { return n.contributions_lost_; });
    return page;
  }

private:
  // The background thread. After an error it counts the error and tries again later. It logs an error that repeats only
  // once.
  void run() {
    std::set<std::string> logged;
    int failures = 0;
    auto next = Clock::now() + pause(0);
    for (Event event; !(event = wait(next)).stop;) {
      const Clock::time_point now = Clock::now();
      bool has_failed = false;
      const auto attempt = [&](const auto &work) {
        try {
          work();
        } catch (const std::exception &error) {
          has_failed = true;
          store_.drop();
          if (logged.insert(error.what()).second) {
            std::fprintf(stderr, "%s\n", error.what());
          }
          const bool is_replaced = dynamic_cast<const Replaced *>(&error) != nullptr;
          if (is_replaced) {
            (void)bandit_.try_cancel_all(); // the clicks go to the new process
          }
          const std::lock_guard alone(lock_);
          is_replaced_ = is_replaced_ || is_replaced;
          ++errors_;
        }
      };
      if (event.round_due) {
        round_at_ = now + beat_interval();
        attempt([&] { round(now, now + timeout_of_round()); });
      }
      if (!has_failed && (event.put_soon || event.news || event.states) && !event.exchange_due) {
        attempt([&] {
          const Clock::time_point deadline = Clock::now() + timeout();
          if (event.put_soon && !put(deadline)) {
            throw Replaced();
          }
          if (event.states) {
            adopt(deadline);
          }
          merge(deadline);
        });
      }
      if (event.exchange_due) {
        has_failed = false;
        attempt([&] { exchange(Clock::now() + timeout()); });
        const std::lock_guard alone(lock_);
        if (has_failed) {
          next = Clock::now() + pause(++failures);
        } else {
          logged.clear();
          ++exchanges_;
          last_ = Clock::now();
          next = last_ + pause(failures = 0);
        }
      }
    }
    const auto last = [&](const auto &work) {
      try {
        work(Clock::now() + std::max<std::chrono::nanoseconds>(timeout(), MAX_TIMEOUT));
      } catch (const std::exception &error) {
        std::fprintf(stderr, "%s\n", error.what());
        store_.drop();
      }
    };
    resign(last);
    last([&](Clock::time_point deadline) { update_wards(deadline); });
    last([&](Clock::time_point deadline) { lead_or_contribute(deadline); });
    last([&](Clock::time_point deadline) { put(deadline); });
    {
      const std::lock_guard alone(lock_);
      sending_ends_ = true; // update is not called any more
      if (slots_ > 0) {
        unsent_ += outbox_.end(alive_, Clock::now());
      }
    }
    sends_.notify_one();
    sender_thread_.join();
    last([&](Clock::time_point deadline) { send(deadline); }); // what still waits then is lost
    hand_over(last);
  }

  struct Event {
    bool stop, exchange_due, round_due, news, put_soon, states;
  };

  // Waits until there is something to do, and returns what.
  Event wait(Clock::time_point next) {
    pollfd socket = {wakeup_.socket(), POLLIN, 0};
    const auto time = std::chrono::ceil<std::chrono::milliseconds>(std::min(next, round_at_) - Clock::now());
    ::poll(&socket, 1, static_cast<int>(std::clamp<std::int64_t>(time.count(), 0, 1000)));
    wakeup_.clear();
    const std::lock_guard alone(lock_);
    const Clock::time_point now = Clock::now();
    return {stopping_, now >= next, now >= round_at_, std::exchange(has_news_, false), std::exchange(put_soon_, false),
            std::exchange(has_states_, false)};
  }

  // The time after which an exchange fails.
  std::chrono::nanoseconds timeout() const { return std::min(interval() / 2, MAX_TIMEOUT); }

  // The time until the next exchange: half of the interval to the whole interval, at random, so that nodes do not
  // exchange at the same moments. After failures the interval is 1/32 of the configured one, and doubles up to half of
  // it. With the timeout of the failed exchange, that is at most one interval.
  std::chrono::nanoseconds pause(int failures) {
    const auto most = interval() / (failures > 0 ? 1 << std::max(6 - failures, 1) : 1);
    std::uniform_int_distribution<std::int64_t> more(0, most.count() / 2);
    return most / 2 + std::chrono::nanoseconds(more(jitter_));
  }

  std::chrono::nanoseconds interval() const { return options_.merge_every; }
  std::chrono::nanoseconds beat_interval() const {
    return std::chrono::nanoseconds(options_.beat_delay()) / BEATS_IN_DELAY;
  }
  std::chrono::nanoseconds timeout_of_round() const { return std::min<std::chrono::nanoseconds>(options_.beat_delay(), MAX_TIMEOUT); }

  // With a fleet key: takes the lease if no node holds it. The leader then combines the contributions of the other
  // nodes, and the other nodes contribute to the leader. A node takes its open sums out of its bandit only after it has
  // read the lease, so the sums stay in the bandit while Redis is away.
  void lead_or_contribute(Clock::time_point deadline) {
    if (options_.key_file.empty()) {
      return;
    }
    std::string leader = leader_;
    if (leader.empty() || !store_.renew(lease_, leader, lease_time(), deadline)) {
      leader = store_.leader(lease_, deadline);
      const bool waits = member_.node > FIRST_LEADERS && releases_ == 0 && !is_leaderless_;
      is_leaderless_ = leader.empty();
      if (leader.empty() && !waits && !is_ending_) {
        leader_ = std::to_string(member_.node) + ' ' + std::to_string(bandit_.lead());
        leader = store_.lead(lease_, leader_, lease_time(), deadline) ? leader_ : store_.leader(lease_, deadline);
      }
    }
    const auto [node, generation] = Store::numbers<std::uint16_t, std::uint64_t>(leader);
    const bool leads = !leader_.empty() && leader == leader_;
    {
      const std::lock_guard alone(lock_);
      leads_ = leads;
    }
    const bool is_known = node && generation && (leads || *node != member_.node); // an earlier incarnation does not lead
    generation_ = is_known ? *generation : 0;
    if (!leads && is_known) {
      leader_.clear();
    }
    if (!is_known) {
      return;
    }
    for (const auto &ward : wards()) {
      unless_failed(*ward, [&] { contribute(ward->bandit, deadline); });
    }
    if (leads) {
      store_.collect(*generation, deadline, [this](std::string_view sums) { combine(sums); });
    } else {
      contribute(bandit_, deadline);
    }
  }

  // Ends this node's lease, if it leads, and combines what still comes to it until another node leads. When it contributes
  // after that, its heir gets all that it has collected. A node that is alone keeps its sums.
  template <class Last> void resign(const Last &last) {
    is_ending_ = true;
    const std::string leader = std::exchange(leader_, "");
    const auto led = Store::numbers<std::uint16_t, std::uint64_t>(leader).second;
    {
      const std::lock_guard alone(lock_);
      leads_ = false;
    }
    const auto began = Clock::now();
    auto alone = began;
    const auto drain = std::min<std::chrono::nanoseconds>(2 * interval(), MAX_DRAIN);
    const auto most = drain + std::clamp<std::chrono::nanoseconds>(interval(), MIN_HEIR, MAX_HEIR);
    for (bool has_resigned = false, has_heir = false; led; std::this_thread::sleep_for(drain / 40)) {
      const auto passed = Clock::now() - began;
      last([&](Clock::time_point deadline) { // an error may be over at the next try
        if (!has_resigned) {
          store_.renew(lease_, leader, 0ms, deadline);
          has_resigned = true;
        }
        if (const Clock::time_point now = Clock::now(); now >= round_at_) { // rewards still come
          round_at_ = now + beat_interval();
          round(now, deadline);
        }
        store_.collect(*led, deadline, [this](std::string_view sums) { combine(sums); });
        has_heir = passed > drain && !store_.leader(lease_, deadline).empty();
      });
      if (nodes_ > 1) {
        alone = Clock::now();
      }
      const bool is_alone = Clock::now() - alone > MIN_ALONE && has_resigned;
      if (is_alone || has_heir || passed > most) {
        return;
      }
    }
  }

  // A bandit of a node that has ended. It decides nothing: it gets the rewards of the decisions that are open, contributes, and
  // ends with the last of them. Nodes that end leave such a bandit to others.
  struct Ward {
    dpb::Bandit bandit;
    Member member;
    bool holds;              // it has its number; otherwise another process has, which must get it
    Clock::time_point since; // when it came, or lost its number
    std::uint64_t ticks;     // of this node's clock, that have passed for it
  };

  // Whether this node's state can move. With a delay of 0, clicks come to the server that showed the ad, and to none after its
  // end.
  bool moves() const { return key_ && options_.delay > 0ms; }

  // A ward holds its number for this long after each exchange.
  std::chrono::milliseconds lease_of_ward() const {
    return std::max(lease_of_number(options_), EXCHANGES_IN_LEASE * options_.merge_every);
  }

  // The wards with this number, or all for 0.
  std::vector<std::shared_ptr<Ward>> wards(std::uint16_t number = 0) const {
    const std::lock_guard alone(lock_);
    std::vector<std::shared_ptr<Ward>> some;
    std::copy_if(wards_.begin(), wards_.end(), std::back_inserter(some),
                 [&](const auto &ward) { return number == 0 || ward->member.node == number; });
    return some;
  }

  // Reports a reward for a decision with this number: of this node, or of one that has ended.
  dpb_status count(std::uint16_t number, std::uint64_t ticket, double reward) {
    const bool is_own = number == member_.node;
    dpb_status status = is_own ? bandit_.try_update(ticket, reward) : DPB_UNKNOWN_TICKET;
    for (const auto &ward : wards(number)) {
      if (status == DPB_UNKNOWN_TICKET) {
        const dpb_status other = ward->bandit.try_update(ticket, reward);
        status = other == DPB_HALTED ? status : other;
      }
    }
    if (is_own && status == DPB_UNKNOWN_TICKET && moves() && Clock::now() - started_ < lease_of_number(options_)) {
      const std::lock_guard alone(lock_); // perhaps of the last process with this number, whose state comes soon
      if (unknown_.size() < MAX_UNKNOWN) {
        unknown_.push_back({number, ticket, reward});
      }
    }
    return status;
  }

  // Keeps some receivers open. A receiver whose state has not come within a lease is given up.
  void offer(Clock::time_point deadline) {
    if (!moves()) {
      return;
    }
    std::vector<std::uint64_t> fresh;
    const auto is_open = [](const auto &receiver) { return !receiver.second; };
    for (auto open = std::count_if(receivers_.begin(), receivers_.end(), is_open); open < int(OFFERED); ++open) {
      std::uint64_t receiver = 0;
      if (bandit_.try_receiver(receiver) != DPB_OK) {
        break;
      }
      receivers_[receiver] = std::nullopt;
      fresh.push_back(receiver);
    }
    const std::set<std::uint64_t> open = store_.offer(member_, fresh, false, deadline);
    for (auto next = receivers_.begin(); next != receivers_.end();) {
      const auto receiver = next++;
      if (receiver->second && Clock::now() - *receiver->second > lease_of_ward()) {
        receivers_.erase(receiver);
      } else if (!receiver->second && open.count(receiver->first) == 0) {
        receiver->second = Clock::now();
      }
    }
  }

  // Continues from the states that were left for this node. It does so when it knows a leader, because a ward contributes from
  // the beginning: what it released itself nobody would learn.
  void adopt(Clock::time_point deadline) {
    if (!moves() || generation_ == 0) {
      return;
    }
    while (const auto state = store_.adopt(member_, lease_of_ward(), deadline)) {
      make_ward(*state, deadline);
    }
    offer(deadline);
  }

  void make_ward(const State &state, Clock::time_point deadline) {
    receivers_.erase(state.receiver);
    config_.node = state.member.node;
    dpb_error error = {};
    auto bandit = dpb::Bandit::try_resume(config_, reinterpret_cast<const std::uint8_t *>(state.bytes.data()),
                                          state.bytes.size(), &error);
    if (!bandit) {
      std::fprintf(stderr, "redis: the state of node %u, which has ended, is refused, and what was open in it is lost: %s\n",
                   unsigned(state.member.node), error.message);
      if (state.member.life != 0) {
        store_.leave(state.member, deadline);
      }
      return;
    }
    const auto now = ticks();
    auto ward = std::make_shared<Ward>(Ward{std::move(*bandit), state.member, state.member.life != 0, Clock::now(), now});
    if (const auto others = wards(ward->member.node); ward->member.node == member_.node) {
      ward->member = member_;
    } else if (!ward->holds && !others.empty()) { // of a process that had got this number from the other ward's
      ward->member = others.front()->member;
      ward->holds = others.front()->holds;
    }
    if (state.age > DELAYS_UNTIL_UNREADY * options_.delay) { // longer than clicks may be on their way
      ward->bandit.cancel_all();
    } else if (window_.is_time) {
      ward->ticks -= std::min<std::uint64_t>(now, static_cast<std::uint64_t>(state.age.count()));
    }
    std::vector<Message> unknown;
    {
      const std::lock_guard alone(lock_);
      wards_.push_back(ward);
      unknown = unknown_;
      merged_.clear(); // a ward learns from the others' newest snapshots too
    }
    for (const Message &reward : unknown) {
      if (reward.to == ward->member.node) {
        (void)ward->bandit.try_update(reward.ticket, reward.reward);
      }
    }
    contribute(ward->bandit, deadline);
  }

  // Reads the rewards of wards, and then lets time pass for them. If another process has got a ward's number, that process
  // gets the ward. If it takes none, what is open is cancelled.
  void update_wards(Clock::time_point deadline) {
    for (const auto &ward : wards()) {
      const auto now = ticks();
      if (ward->holds) {
        try {
          store_.keep(ward->member, lease_of_ward(), deadline);
          store_.receive(ward->member, deadline, on_message_);
        } catch (const Replaced &) {
          ward->holds = false;
          ward->since = Clock::now();
        }
      }
      if (ward->holds || ward->member.node == member_.node) {
        unless_failed(*ward, [&] { ward->bandit.skip(now - std::exchange(ward->ticks, now)); });
      } else if (const auto [node, receiver] = store_.host(ward->member.node, deadline); receiver != 0) {
        entrust(ward->bandit, ward->member, node, receiver, deadline);
        drop(*ward);
      } else if (Clock::now() - ward->since > lease_of_number(options_)) {
        ward->bandit.cancel_all();
      }
    }
  }

  // Ends the wards in which nothing is open any more. What they had collected is contributed.
  void end_wards(Clock::time_point deadline) {
    for (const auto &ward : wards()) {
      const bool is_old = window_.ticks == 0 && Clock::now() - ward->since > MAX_WARD;
      if ((ward->bandit.report().pending > 0 && !is_old) || generation_ == 0) {
        continue;
      }
      drop(*ward);
      const auto others = wards(ward->member.node);
      if (ward->holds && others.empty()) {
        store_.leave(ward->member, deadline);
      }
    }
  }

  // Does some work, and forgets a ward whose bandit has failed.
  template <class Work> void unless_failed(const Ward &ward, const Work &work) {
    try {
      work();
    } catch (const dpb::Error &error) {
      std::fprintf(stderr, "redis: what was open in a node that has ended is lost: %s\n", error.what());
      drop(ward);
    }
  }

  void drop(const Ward &ward) {
    const std::lock_guard alone(lock_);
    wards_.erase(std::find_if(wards_.begin(), wards_.end(), [&](const auto &other) { return other.get() == &ward; }));
  }

  // Ends a bandit, and leaves its state for a node.
  void entrust(dpb::Bandit &bandit, const Member &member, std::uint16_t node, std::uint64_t receiver,
               Clock::time_point deadline) {
    const std::vector<std::uint8_t> state = bandit.suspend(receiver);
    const std::string_view bytes{reinterpret_cast<const char *>(state.data()), state.size()};
    for (;; std::this_thread::sleep_for(beat_interval() / 4)) { // a state that comes twice is refused
      try {
        store_.entrust(member, node, receiver, bytes, lease_of_ward(), deadline);
        return;
      } catch (const std::exception &) {
        store_.drop();
        if (Clock::now() >= deadline) {
          throw;
        }
      }
    }
  }

  // Moves this node's state and those of its wards to a node that is alive, and ends the leases of numbers that it leaves
  // nobody. What is open in a state that nobody takes is lost.
  template <class Last> void hand_over(const Last &last) {
    bool can_move = false;
    if (moves()) {
      last([&](Clock::time_point deadline) {
        for (const std::uint64_t receiver : store_.offer(member_, {}, true, deadline)) {
          receivers_.erase(receiver);
        }
        can_move = true;
      });
    }
    const auto began = Clock::now();
    for (bool waits = can_move; waits && !receivers_.empty() && generation_ != 0 && Clock::now() - began < MAX_SEARCH / 2;) {
      waits = false;
      last([&](Clock::time_point deadline) {
        if (const auto state = store_.adopt(member_, lease_of_ward(), deadline)) {
          make_ward(*state, deadline);
        } else {
          std::this_thread::sleep_for(beat_interval() / 4);
        }
        waits = true;
      });
    }
    std::uint16_t host = 0;
    std::set<std::uint16_t> moved;
    const auto move = [&](dpb::Bandit &bandit, const Member &member, bool holds) {
      bool has_moved = false;
      last([&](Clock::time_point) {
        std::uint64_t receiver = 0;
        if (can_move && (bandit.report().pending > 0 || generation_ == 0)) { // nobody took the open sums either
          std::tie(host, receiver) = find_host(host, Clock::now() + MAX_SEARCH + MAX_TIMEOUT);
        }
        if (receiver != 0) {
          entrust(bandit, member, host, receiver, Clock::now() + MAX_SEARCH);
          moved.insert(member.node);
          has_moved = true;
        }
      });
      if (!has_moved && holds && moved.count(member.node) == 0) {
        last([&](Clock::time_point deadline) { store_.leave(member, deadline); });
      }
    };
    for (const auto &ward : wards()) {
      move(ward->bandit, ward->member, ward->holds);
      drop(*ward);
    }
    move(bandit_, member_, true);
  }

  // Takes a receiver, if possible of this node. Waits while all are taken.
  std::pair<std::uint16_t, std::uint64_t> find_host(std::uint16_t preferred, Clock::time_point deadline) {
    for (const auto began = Clock::now();; std::this_thread::sleep_for(beat_interval() / 4)) {
      auto found = store_.host(preferred, deadline);
      if (found.second == 0 && preferred != 0) {
        preferred = 0;
        found = store_.host(0, deadline);
      }
      if (found.second != 0 || found.first == 0 || Clock::now() - began > MAX_SEARCH) {
        return found;
      }
    }
  }

  std::chrono::milliseconds lease_time() const {
    return std::max(EXCHANGES_IN_LEASE * options_.merge_every, MIN_LEASE);
  }

  // Sends the open sums of a bandit, this node's or a ward's, once. After an error they are lost: the contribution may have
  // arrived, so it is not sent again. A leader combines those of its wards.
  void contribute(dpb::Bandit &bandit, Clock::time_point deadline) {
    const std::vector<std::uint8_t> bytes = bandit.contribution(generation_);
    const std::string_view sums{reinterpret_cast<const char *>(bytes.data()), bytes.size()};
    if (sums.empty()) {
      return;
    }
    if (!leader_.empty()) {
      combine(sums);
      return;
    }
    try {
      store_.contribute(member_, generation_, sums, deadline);
    } catch (...) {
      const std::lock_guard alone(lock_);
      ++contributions_lost_;
      throw;
    }
    const std::lock_guard alone(lock_);
    ++contributions_;
  }

  // Adds a contribution. A repeated contribution is not an error. Logs a refusal unless it has the status of the one
  // that was logged last.
  void combine(std::string_view sums) {
    dpb_error error = {};
    const dpb_status status =
        bandit_.try_combine(reinterpret_cast<const std::uint8_t *>(sums.data()), sums.size(), &error);
    if (status != DPB_OK && status != DPB_DUPLICATE && status != refused_contribution_) {
      std::fprintf(stderr, "redis: a contribution to this node under the name %s is refused, and is lost: %s\n",
                   options_.bandit.c_str(), error.message);
      refused_contribution_ = status;
    }
  }

  static void put_number(std::vector<std::uint8_t> &bytes, std::uint64_t number) {
    for (int shift = 56; shift >= 0; shift -= 8) {
      bytes.push_back(static_cast<std::uint8_t>(number >> shift));
    }
  }

  static std::uint64_t number_at(const std::uint8_t *bytes) {
    return std::accumulate(bytes, bytes + 8, std::uint64_t(0), [](auto sum, auto byte) { return sum << 8 | byte; });
  }

  // Makes a message of a batch. With a fleet key it seals the rewards. Every sealed message of this node has the same
  // length: otherwise the length would tell a reward's value, or how many rewards there are. Zeros take the place of
  // those that are missing. 0 is no ticket, because a node's number is in its tickets.
  Message message_of(std::uint16_t to, const Batch &batch) const {
    if (options_.key_file.empty()) {
      return {to, batch.rewards[0].ticket, batch.rewards[0].reward};
    }
    std::vector<std::uint8_t> bytes;
    for (const Reward &reward : batch.rewards) {
      std::uint64_t bits;
      std::memcpy(&bits, &reward.reward, sizeof bits);
      put_number(bytes, reward.ticket);
      put_number(bytes, bits);
    }
    bytes.resize(std::max<std::size_t>(slots_, 1) * SEALED_REWARD);
    const std::vector<std::uint8_t> sealed = bandit_.seal(bytes);
    return {to, 0, 0, {sealed.begin(), sealed.end()}};
  }

  // The tickets and rewards in a message that this node received. With a fleet key, returns nullopt unless the message
  // was sealed with it.
  std::optional<std::vector<std::pair<std::uint64_t, double>>> rewards_of(const Message &message) {
    if (options_.key_file.empty() && message.sealed.empty()) {
      return {{{message.ticket, message.reward}}};
    }
    std::vector<std::uint8_t> bytes;
    const auto *sealed = reinterpret_cast<const std::uint8_t *>(message.sealed.data());
    if (bandit_.try_open(sealed, message.sealed.size(), bytes) != DPB_OK || bytes.size() % SEALED_REWARD != 0) {
      if (!std::exchange(has_logged_unopened_, true)) {
        std::fprintf(stderr, "redis: rewards under the name %s that are not sealed with this fleet key are ignored\n",
                     options_.bandit.c_str());
      }
      return std::nullopt;
    }
    std::vector<std::pair<std::uint64_t, double>> rewards;
    for (std::size_t i = 0; i < bytes.size(); i += SEALED_REWARD) {
      const std::uint64_t ticket = number_at(&bytes[i]), bits = number_at(&bytes[i + 8]);
      double reward;
      std::memcpy(&reward, &bits, sizeof reward);
      if (ticket != 0) {
        rewards.emplace_back(ticket, reward);
      }
    }
    return rewards;
  }

  // Cares for wards, shares, then puts, then merges. Nodes that release nothing only put what a process that continues from it needs, and
  // so seldom.
  void exchange(Clock::time_point deadline) {
    update_wards(deadline);
    lead_or_contribute(deadline);
    end_wards(deadline);
    if (++exchanges_until_offer_ == EXCHANGES_UNTIL_PUT) {
      exchanges_until_offer_ = 0;
      offer(deadline);
    }
    const dpb::Report report = bandit_.report();
    ++unputs_;
    if (options_.key_file.empty() || report.duty != DPB_DUTY_CONTRIBUTES || report.phase != releases_ ||
        unputs_ >= EXCHANGES_UNTIL_PUT) {
      if (!put(deadline)) {
        throw Replaced(); // or somebody has put a huge version
      }
    }
    merge(deadline);
  }

  // Beats and receives: when that has ended well, the rewards that others had sent before it began have arrived. Another
  // thread sends. So neither beats nor the end of a round depend on whether rewards wait here, how many, or whether they
  // can be sent: an outage cancels decisions, and so must not depend on rewards.
  void round(Clock::time_point now, Clock::time_point deadline) {
    std::unique_lock alone(lock_);
    const Moment began{now, ticks_};
    alone.unlock();
    beat(deadline);
    store_.receive(member_, deadline, on_message_);
    alone.lock();
    returned_ = began;
    is_replaced_ = false;
  }

  // How often all nodes had beaten before this long ago; 0 if that is not known.
  std::uint64_t beats_before(Clock::duration ago, Clock::time_point now) const {
    std::uint64_t beats = 0;
    for (const Round &round : rounds_) {
      beats = now - round.at > ago ? round.beats : beats;
    }
    return beats;
  }

  // Renews the lease of this node's number, and learns which other nodes do not beat.
  void beat(Clock::time_point deadline) {
    std::unique_lock alone(lock_);
    const Clock::time_point now = Clock::now();
    const std::chrono::milliseconds delay = options_.beat_delay(), until_gone = lease_of_number(options_);
    if (!rounds_.empty() && now - rounds_.back().at > delay) {
      rounds_.clear(); // after a pause this node must not call others late by a time in which it did not beat itself
    }
    const std::uint64_t late = beats_before(delay, now), gone = beats_before(until_gone, now), ticks = ticks_;
    const std::size_t known = numbers_.size();
    alone.unlock();
    const Pulse pulse = store_.beat(member_, until_gone, late, gone, slots_ > 0, deadline);
    std::set<std::uint16_t> numbers;
    if (pulse.numbers != known) {
      numbers = store_.all_numbers(deadline);
    }
    for (const std::uint16_t node : pulse.gone) {
      std::fprintf(stderr, "redis: node %u is gone: its number is free\n", unsigned(node));
    }
    alone.lock();
    if (pulse.numbers != known) {
      numbers_ = std::move(numbers);
    }
    if (!rounds_.empty() && pulse.beats <= rounds_.back().beats) {
      rounds_.clear(); // Redis has forgotten some
    }
    rounds_.push_back({{now, ticks}, pulse.beats});
    while (rounds_.size() > 1 && now - rounds_[1].at > until_gone) {
      rounds_.pop_front();
    }
    late_.clear();
    for (const auto &[node, beats] : pulse.late) {
      if (const auto count = beats; node != member_.node) {
        late_[node] = *std::find_if(rounds_.begin(), rounds_.end(), [&](const Round &r) { return r.beats >= count; });
      }
    }
    alive_ = {pulse.held.begin(), pulse.held.end()};
    alive_.erase(member_.node);
    nodes_ = pulse.nodes;
    cancel_ = cancel_ || pulse.breaks != breaks_;
    breaks_ = pulse.breaks;
    has_news_ = has_news_ || pulse.puts != puts_;
    puts_ = pulse.puts;
    has_states_ = has_states_ || pulse.states > 0;
    if (has_news_ || has_states_) {
      wakeup_.signal();
    }
  }

  // The thread that sends rewards: at once, or with Options::send_rate at the times of rounds. After an error it tries again
  // at the time of the next round, however many rewards come. It logs an error that repeats only once.
  void send_all_rounds() {
    std::set<std::string> logged;
    bool is_failing = false;
    auto next = Clock::now() + beat_interval();
    std::unique_lock alone(lock_);
    for (;;) {
      const auto is_awake = [&] { return sending_ends_ || (slots_ == 0 && !is_failing && outbox_.count() > 0); };
      sends_.wait_until(alone, next, is_awake);
      if (sending_ends_) {
        return;
      }
      alone.unlock();
      const Clock::time_point now = Clock::now();
      next = now >= next ? now + beat_interval() : next;
      try {
        send(now + timeout_of_round());
        is_failing = false;
        logged.clear();
      } catch (const std::exception &error) {
        is_failing = true;
        if (logged.insert(error.what()).second) {
          std::fprintf(stderr, "%s\n", error.what());
        }
      }
      alone.lock();
      errors_ += is_failing;
    }
  }

  // Ends the rounds of the outbox that are over. lock_ is locked.
  void end_rounds() { unsent_ += outbox_.rounds(alive_, Clock::now(), lease_of_number(options_)); }

  // Sends the rewards that wait, with --send-rate those of the rounds that are over. After an error it sends the same
  // rewards again later; each counts once because of its ticket. A node whose stream is broken keeps only its own rewards
  // waiting. Throws the first error.
  void send(Clock::time_point deadline) {
    std::map<std::uint16_t, std::size_t> waiting;
    {
      const std::lock_guard alone(lock_);
      end_rounds();
      waiting = outbox_.waiting();
    }
    std::exception_ptr failed;
    for (auto [to, count] : waiting) {
      try {
        while (count > 0) {
          std::vector<Batch> batches;
          {
            const std::lock_guard alone(lock_);
            batches = outbox_.first(to, std::min(count, BATCH));
          }
          std::vector<Message> messages;
          for (const Batch &batch : batches) {
            messages.push_back(message_of(to, batch));
          }
          sender_.send(messages, deadline);
          const std::lock_guard alone(lock_);
          sent_ += outbox_.remove(to, batches.size());
          count -= batches.size();
        }
      } catch (const std::exception &) {
        sender_.drop();
        failed = failed ? failed : std::current_exception();
      }
    }
    if (failed) {
      std::rethrow_exception(failed);
    }
  }

  // The thread that cancels open decisions while rewards cannot travel, and once more afterwards; and once after a node was
  // gone or came back. It decides by beats only, which nodes make whether there are rewards or not.
  void check_outage() try {
    std::unique_lock alone(lock_);
    while (!end_.wait_for(alone, beat_interval(), [this] { return stopping_; })) {
      alone.unlock();
      const std::uint64_t now = ticks();
      alone.lock();
      ticks_ = now;
      const std::string reason = outage_reason(Clock::now());
      const bool once = std::exchange(cancel_, false);
      if (reason.empty() && !outage_ && !once) {
        continue;
      }
      if (outage_ == reason.empty()) { // the outage begins or ends
        std::fprintf(stderr, "%s\n", outage_ ? "redis: rewards travel again: the bandit learns again" : reason.c_str());
        outages_ += !outage_;
        outage_ = !outage_;
      } else if (once && !outage_) {
        std::fprintf(stderr, "redis: a node was gone, or has come back: open decisions are cancelled once\n");
      }
      alone.unlock();
      for (const auto &ward : wards()) {
        (void)ward->bandit.try_cancel_all();
      }
      bandit_.cancel_all();
      alone.lock();
    }
  } catch (const std::exception &error) { // the handle is poisoned
    std::fprintf(stderr, "%s\n", error.what());
  }

  // The clock that the window counts: milliseconds, or decisions.
  std::uint64_t ticks() const {
    const auto since = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now().time_since_epoch());
    return window_.is_time ? std::uint64_t(since.count()) : bandit_.report().decisions;
  }

  // The reason why rewards do not travel, for the log; empty if they travel. A beat is late only if it is older than both
  // the delay and an eighth of the window, so that a short pause does not cost a long window.
  std::string outage_reason(Clock::time_point now) const {
    const auto is_late = [&](const Moment &moment) {
      return now - moment.at > options_.delay && ticks_ - moment.ticks > window_.ticks / 8;
    };
    if (nodes_ <= 1) { // no other node can have rewards for this one
      return "";
    }
    if (is_late(returned_)) {
      return "redis: rewards do not travel: open decisions are cancelled until they do";
    }
    for (const auto &[node, last] : late_) {
      if (is_late(last)) {
        return "redis: rewards from node " + std::to_string(node) +
               " do not travel: open decisions are cancelled until they do";
      }
    }
    return "";
  }

  // Puts the newest snapshot. Returns false if a newer incarnation of this node number has put one. All versions of
  // this incarnation in the store are older snapshots of this node, also after a reply was lost, so they never prevent
  // the put. It is news for the others if it has new releases. Without a fleet key, and for that of a leader, it always
  // is: so the others count this node as active.
  bool put(Clock::time_point deadline) {
    const dpb::Report report = bandit_.report();
    const std::vector<std::uint8_t> bytes = bandit_.snapshot();
    const bool is_news = options_.key_file.empty() || report.duty == DPB_DUTY_LEADS || report.phase != releases_;
    for (const auto &ward : wards()) {
      (void)ward->bandit.try_merge(bytes.data(), bytes.size());
    }
    ++version_;
    const std::string_view text{reinterpret_cast<const char *>(bytes.data()), bytes.size()};
    const bool is_kept = store_.put(member_, version_, text, is_news, deadline);
    if (is_kept) {
      bandit_.stored(bytes);
      releases_ = report.phase;
      unputs_ = 0;
    }
    return is_kept;
  }

  // Reads and merges the snapshots that are news, and takes over how many nodes are alive.
  void merge(Clock::time_point deadline) {
    if (!options_.key_file.empty() && std::exchange(handles_, nodes_) != nodes_) {
      bandit_.set_handles(static_cast<std::uint32_t>(handles_));
    }
    const std::map<std::uint16_t, std::uint64_t> versions = store_.versions(deadline);
    std::vector<std::uint16_t> nodes;
    for (const auto &[node, version] : versions) {
      const auto known = merged_.find(node);
      if (node != member_.node && (known == merged_.end() || known->second.version != version)) {
        nodes.push_back(node);
      }
    }
    for (std::size_t i = 0; i < nodes.size(); i += SNAPSHOTS_AT_ONCE) {
      const auto first = nodes.begin() + i;
      const std::vector<std::uint16_t> some(first, first + std::min(SNAPSHOTS_AT_ONCE, nodes.size() - i));
      for (const Field &field : store_.list(some, deadline)) {
        merge_one(field, versions.at(field.node));
      }
    }
  }

  // Merges a snapshot. A snapshot that is refused does not prevent the others from being merged.
  void merge_one(const Field &field, std::uint64_t version) {
    const auto *bytes = reinterpret_cast<const std::uint8_t *>(field.snapshot.data());
    dpb_error error = {};
    for (const auto &ward : wards()) {
      (void)ward->bandit.try_merge(bytes, field.snapshot.size());
    }
    const dpb_status status = bandit_.try_merge(bytes, field.snapshot.size(), &error);
    const std::lock_guard alone(lock_);
    Merged &known = merged_[field.node];
    if (status != DPB_OK && known.is_compatible) { // logged once
      const char *what = status == DPB_FULL ? "is one more than a bandit can merge" : "is incompatible";
      std::fprintf(stderr, "redis: node %u of %s %s: it and this node ignore each other: %s\n", unsigned(field.node),
                   options_.bandit.c_str(), what, error.message);
    }
    known = {version, status == DPB_OK};
  }

  const Options options_;
  Store &store_;
  Store sender_{options_}; // for the thread that sends rewards
  dpb::Bandit &bandit_;
  const serve::Span window_;
  const std::optional<Key> key_ = options_.key();
  dpb::Config config_; // of the bandit, and of wards except for the node
  const std::size_t slots_ = options_.slots(); // rewards in each message, with --send-rate; otherwise 0
  const std::string lease_ = store_.lease(bandit_.report().fleet_key_id);
  Member member_;
  std::uint64_t version_ = 0;  // of the snapshot that was put last
  std::uint32_t releases_ = 0; // that the snapshot had that was put last
  int unputs_ = 0;             // exchanges since that
  std::uint64_t generation_ = 0;   // of the leader at the last exchange; 0: none
  int exchanges_until_offer_ = 0;
  std::map<std::uint64_t, std::optional<Clock::time_point>> receivers_; // that this node offers; when each was taken
  std::uint64_t handles_ = 0;  // the number of nodes that the bandit knows of
  std::minstd_rand jitter_{std::random_device()()};
  std::string leader_;                       // the value of the lease if this node leads; otherwise empty
  bool is_leaderless_ = false;               // the last exchange found no leader
  bool is_ending_ = false;                   // this node does not lead any more
  dpb_status refused_contribution_ = DPB_OK; // status of the refusal that was logged last
  bool has_logged_unopened_ = false;         // that rewards with another seal are ignored

  // A time, and the ticks of the bandit's clock at that time.
  struct Moment {
    Clock::time_point at;
    std::uint64_t ticks;
  };
  // A beat of this node: at this time all nodes together had beaten so often.
  struct Round : Moment {
    std::uint64_t beats;
  };
  // What was merged last of another node.
  struct Merged {
    std::uint64_t version = 0;
    bool is_compatible = true;
  };
  Clock::time_point round_at_ = Clock::now();

  const OnMessage on_message_ = [this](const Message &message) {
    const auto rewards = rewards_of(message);
    std::uint64_t received = 0, refused = rewards ? 0 : 1;
    for (const auto &[ticket, reward] : rewards.value_or(std::vector<std::pair<std::uint64_t, double>>())) {
      ++(count(message.to, ticket, reward) == DPB_OK ? received : refused);
    }
    const std::lock_guard alone(lock_);
    received_ += received;
    refused_ += refused;
  };
  Wakeup wakeup_;

  mutable std::mutex lock_; // protects everything below; only the background thread changes merged_
  std::vector<std::shared_ptr<Ward>> wards_;
  std::vector<Message> unknown_; // rewards whose tickets this node's bandit does not know
  bool stopping_ = false, put_soon_ = false, has_news_ = false, has_states_ = false, leads_ = false, is_replaced_ = false;
  const Clock::time_point started_ = Clock::now();
  Clock::time_point last_ = Clock::now(); // time of the last successful exchange
  std::condition_variable end_;
  std::uint64_t ticks_ = 0;                          // the bandit's clock, as check_outage read it last
  Moment returned_{Clock::now(), 0};                 // when the last round began that has ended well
  std::deque<Round> rounds_;                         // the beats without a pause, the oldest first
  std::map<std::uint16_t, Moment> late_;             // nodes whose beats are late, and when they last beat
  std::set<std::uint16_t> alive_;                    // the other numbers that are held, with --send-rate
  std::set<std::uint16_t> numbers_;                  // numbers that a process ever had
  std::uint64_t nodes_ = 0;                          // the number of nodes that are alive, with this one
  std::uint64_t breaks_ = 0, puts_ = 0;              // the counts that were seen last
  bool cancel_ = false;                              // decisions that are open now must be cancelled once
  bool outage_ = false;
  std::uint64_t outages_ = 0;
  std::uint64_t contributions_ = 0, contributions_lost_ = 0;
  std::uint64_t exchanges_ = 0, errors_ = 0, sent_ = 0, unsent_ = 0, received_ = 0, refused_ = 0;
  Outbox outbox_{slots_, beat_interval(), Clock::now()}; // only the thread that sends removes some
  std::condition_variable sends_;
  bool sending_ends_ = false;
  std::map<std::uint16_t, Merged> merged_; // of other nodes

  std::thread thread_, outage_thread_, sender_thread_;
};

} // namespace fleet

#endif
