// Makes one bandit of many servers: in C++ with this file, in Go with the package bindings/go/fleet. Each server has
// its own handle, of any policy that can merge, with or without segments. All servers learn from what all have
// released, through a shared Redis. This file needs hiredis: apt-get install libhiredis-dev.
//
// A background thread regularly puts this node's snapshot into Redis and merges the snapshots of the others. It merges
// a node's snapshot at once when Redis notifies it that the node has put one. No decision waits for this thread or for
// Redis. Without Redis, a node learns by itself.
//
// With dpb_config.expected_users each node counts people by itself. The fleet learns up to n times as much from a
// person who reaches n nodes, and that person loses up to n times epsilon. So always send a person to the same node.
//
// A bandit is a hash in Redis, "dpb:{NAME}". A node is a field of it, such as "7": 20 digits of version, then the
// snapshot. A version contains the incarnation of the node number, then a count. Each process that takes a number
// begins a new incarnation, and so replaces the process that had the number before. A reward for another node's
// decision travels in the stream of that node, "dpb:{NAME}:rewards:7". It may arrive twice, and counts once because of
// its ticket.
//
// While rewards cannot travel, a missing reward does not mean reward 0. So a node cancels its open decisions
// (dpb_cancel_all) during an outage. To detect one, each node regularly sends itself heartbeats through its own stream,
// behind the rewards that wait there. As long as they return in time, the node publishes a heartbeat to the other nodes
// on the channel of the hash. A node is in an outage if its own heartbeats are late, or if it receives no heartbeat
// from another node. It stops waiting for another node when that node publishes that it leaves, or after 30 delays and
// a window.
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
// Every version has this many digits, so that comparing versions as texts is exact.
inline constexpr std::size_t VERSION_DIGITS = 20;
// The maximum number of rewards in this node's queue to Redis, and in a node's stream in Redis. A stream expires after
// REWARDS_TTL seconds without a new reward. The limits of streams are those of bindings/go/fleet/redis.go.
inline constexpr std::size_t MAX_REWARDS = 100'000;
inline constexpr std::string_view MAX_REWARDS_IN_STREAM = "100000", REWARDS_TTL = "3600";
// The same limits for the stream of contributions to a leader.
inline constexpr std::string_view MAX_CONTRIBUTIONS = "10000", CONTRIBUTIONS_TTL = "60";
// A lease lasts for this many exchanges, and at least MIN_LEASE.
inline constexpr int EXCHANGES_IN_LEASE = 3;
inline constexpr std::chrono::milliseconds MIN_LEASE = 3s;
// The maximum number of messages in one send or read.
inline constexpr std::size_t BATCH = 1000;
// A node sends this many heartbeats in a delay. A node is gone if no heartbeat of it comes for this many delays.
inline constexpr int HEARTBEATS_IN_DELAY = 8, DELAYS_UNTIL_GONE = 30;
// The size of a reward in a sealed message: the ticket and the bits of the reward, in big-endian order. The maximum
// number of rewards in such a message. Both are those of bindings/go/fleet/rewards.go.
inline constexpr std::size_t SEALED_REWARD = 8 + 8, MAX_SLOTS = 1 << 16;

// Stores a snapshot unless the field has the same or a newer version. KEYS: the hash. ARGV: the node, the version, the
// snapshot. bindings/go/fleet/redis.go must contain exactly the same script.
inline constexpr std::string_view PUT = R"(
local held = redis.call('HGET', KEYS[1], ARGV[1])
held = held and held:match('^' .. ('%d'):rep(20))
if held and held >= ARGV[2] then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2] .. ARGV[3])
redis.call('PUBLISH', KEYS[1], ARGV[1])
return 1)";

// Extends a lease if its value is still the caller's. KEYS: the lease. ARGV: its value, and the time in milliseconds
// that it lasts from now on; 0 ends it.
inline constexpr std::string_view RENEW = R"(
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2]))";

// The secret key that the nodes of a fleet with one noise share.
using Key = std::array<std::uint8_t, 32>;

// Removes the end of a line, which is "\n" or "\r\n".
inline void remove_line_end(std::string &line) {
  for (const char end : {'\n', '\r'}) {
    if (!line.empty() && line.back() == end) {
      line.pop_back();
    }
  }
}

// Reads a key from a file: 32 bytes, or 64 hexadecimal digits on a line. Throws if the file has something else, or if
// other users can read it.
inline Key read_key(const std::filesystem::path &file) {
  const auto refusal = [&](const char *why) { return std::runtime_error(file.string() + ": " + why); };
  std::ifstream open(file, std::ios::binary);
  if (!open) {
    throw refusal("cannot be read");
  }
  constexpr auto OTHERS = std::filesystem::perms::group_all | std::filesystem::perms::others_all;
  if ((std::filesystem::status(file).permissions() & OTHERS) != std::filesystem::perms::none) {
    throw refusal("other users can read it: chmod 600");
  }
  std::string text(2 * sizeof(Key) + 3, '\0');
  open.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(open.gcount()));
  if (text.size() != sizeof(Key)) {
    remove_line_end(text);
  }
  const bool digits =
      text.size() == 2 * sizeof(Key) && text.find_first_not_of("0123456789abcdefABCDEF") == text.npos;
  if (!digits && text.size() != sizeof(Key)) {
    throw refusal("not a fleet key: must be 32 bytes, or 64 hexadecimal digits");
  }
  Key key;
  for (std::size_t i = 0; i < key.size(); ++i) {
    key[i] = digits ? *serve::parse<std::uint8_t>(text.substr(2 * i, 2), 16) : static_cast<std::uint8_t>(text[i]);
  }
  return key;
}

struct Options {
  std::string redis; // HOST:PORT, or a socket's path; empty: no fleet
  std::string bandit = "ads";
  std::uint16_t node = 0;              // no other process of the fleet may have this number; 0: no fleet
  std::filesystem::path password_file; // its first line is the password of Redis; empty: no password
  std::filesystem::path key_file;      // empty: each node adds its own noise
  std::chrono::milliseconds merge_every = 5s;
  // It is an outage if rewards take longer than this to reach another node; 0: never check for outages.
  std::chrono::milliseconds delay = 1s;
  // With a fleet key and a delay: at fixed times the node sends each other node a message of one length, with space for
  // at least this many rewards a second. 0: it sends each reward at once, so that Redis shows how many travel.
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
      node = serve::number<std::uint16_t>(name, value, 1);
    } else if (name == "--redis-password-file") {
      password_file = serve::file(name, value);
    } else if (name == "--fleet-key-file") {
      key_file = serve::file(name, value);
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

  // The number of rewards in each message with --send-rate; otherwise 0.
  std::size_t slots() const {
    const auto one = 1000 * HEARTBEATS_IN_DELAY; // a second, if the delay is in milliseconds
    return static_cast<std::size_t>((std::uint64_t(send_rate) * delay.count() + one - 1) / one);
  }

  // Throws serve::UsageError if an option needs another one.
  void check() const {
    if (redis.empty() != (node == 0)) {
      throw serve::UsageError("--redis and --node need each other");
    }
    if (redis.empty() && !(password_file.empty() && key_file.empty())) {
      throw serve::UsageError("--redis-password-file and --fleet-key-file need --redis");
    }
    if (send_rate > 0 && (key_file.empty() || delay == 0ms)) {
      throw serve::UsageError("--send-rate needs --fleet-key-file, and a --delay above 0");
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
      "  --node N           number of this server among them, 1 to 32767; each server has its own\n"
      "  --bandit NAME      name of the bandit that they share; default ads\n"
      "  --merge-every MS   interval of exchanges in milliseconds; default 5000\n"
      "  --delay MS         longest time, in milliseconds, that a click at another server may take; while clicks take\n"
      "                     longer, decisions are cancelled; default 1000; 0 if all clicks come to the server that\n"
      "                     showed the ad: then the servers do not check\n"
      "  --send-rate N      with --fleet-key-file: send each other server a message of one length eight times in a\n"
      "                     --delay, with space for at least N clicks a second, so that Redis does not show how many\n"
      "                     travel; all servers need a --delay. Default: send each click at once\n"
      "  --redis-password-file FILE  the first line is the password of Redis\n"
      "  --fleet-key-file FILE  one server releases what all collect, with one noise, and clicks travel sealed. The\n"
      "                     file has 32 secret random bytes or 64 hexadecimal digits, the same for all servers, and\n"
      "                     no other user may be able to read it\n";
};

// A field of the hash: the snapshot that a node has put.
struct Field {
  std::uint16_t node;
  std::uint64_t version; // 0: the field does not begin with a version
  std::string snapshot;
};
using Fields = std::vector<Field>;

// A message in a stream of rewards: a reward, a heartbeat from a node to itself or, with a fleet key, sealed rewards.
struct Message {
  std::uint16_t to;
  std::uint64_t ticket; // of a heartbeat: its number
  double reward;
  bool is_heartbeat = false;
  std::string sealed{}; // in place of a ticket and a reward
};
using OnMessage = std::function<void(const Message &)>;

// The text after a node's number in a notification. In a notification that the node has put a snapshot it is empty.
inline constexpr std::string_view HEARTBEAT = " heartbeat", LEAVE = " leaves";

// A connection to Redis. After it throws, drop it: a reply to an earlier command may still arrive.
class Connection {
public:
  struct Free {
    void operator()(redisContext *context) const { redisFree(context); }
    void operator()(redisReply *reply) const { freeReplyObject(reply); }
  };
  using Reply = std::unique_ptr<redisReply, Free>;

  explicit Connection(const Options &options) : address_(options.redis) {
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
      if (Reply reply = next()) {
        return reply;
      }
      check(redisSetTimeout(context_.get(), remaining(deadline)));
      read();
    }
  }

  // Reads what has arrived. Blocks if the socket has nothing.
  void read() { check(redisBufferRead(context_.get())); }

  // Returns the next complete reply of the data read so far, or null if there is none yet.
  Reply next() {
    void *whole = nullptr;
    check(redisGetReplyFromReader(context_.get(), &whole));
    Reply reply(static_cast<redisReply *>(whole));
    if (reply && reply->type == REDIS_REPLY_ERROR) {
      throw std::runtime_error("redis: " + std::string(text(*reply)));
    }
    return reply;
  }

  int socket() const { return context_ ? context_->fd : -1; }
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
    if (!password_.empty()) {
      call({"AUTH", password_}, deadline);
    }
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

  const std::string address_;
  std::string password_;
  std::unique_ptr<redisContext, Free> context_;
};

// The bandit's hash and streams in Redis. Only one thread may use it at a time. After it throws, drop its connections.
class Store {
public:
  explicit Store(const Options &options)
      : key_("dpb:{" + options.bandit + "}"), commands_(options), notifications_(options), rewards_(options) {
    std::signal(SIGPIPE, SIG_IGN); // hiredis writes to sockets that the other side has closed
  }

  // Stores this node's snapshot. Returns false, and changes nothing, if Redis has the same or a newer version.
  bool put(std::uint16_t node, std::uint64_t version, std::string_view snapshot, Clock::time_point deadline) {
    char digits[VERSION_DIGITS + 1];
    std::snprintf(digits, sizeof digits, "%020llu", static_cast<unsigned long long>(version));
    return commands_.call({"EVAL", PUT, "1", key_, std::to_string(node), digits, snapshot}, deadline)->integer == 1;
  }

  // The fields of all nodes.
  Fields list(Clock::time_point deadline) {
    const Reply all = commands_.call({"HGETALL", key_}, deadline);
    Fields fields;
    for (std::size_t i = 0; i + 1 < all->elements; i += 2) {
      if (const auto node = serve::parse<std::uint16_t>(Connection::text(*all->element[i]))) { // ignore other fields
        fields.push_back(field(*node, *all->element[i + 1]));
      }
    }
    return fields;
  }

  // The fields of these nodes.
  Fields list(const std::set<std::uint16_t> &nodes, Clock::time_point deadline) {
    std::vector<std::string> names;
    for (const std::uint16_t node : nodes) {
      names.push_back(std::to_string(node));
    }
    std::vector<std::string_view> words{"HMGET", key_};
    words.insert(words.end(), names.begin(), names.end());
    const Reply some = commands_.call(words, deadline);
    Fields fields;
    for (auto node = nodes.begin(); node != nodes.end(); ++node) {
      const std::size_t i = std::distance(nodes.begin(), node);
      if (i < some->elements && some->element[i]->type == REDIS_REPLY_STRING) { // otherwise it was deleted
        fields.push_back(field(*node, *some->element[i]));
      }
    }
    return fields;
  }

  // Subscribes to notifications of all later puts. A repeated call throws if the connection is dead. It discards the
  // notifications that have arrived: list the fields after it.
  void watch(Clock::time_point deadline) {
    notifications_.send({"SUBSCRIBE", key_}, deadline);
    while (word(*notifications_.receive(deadline), 0) != "subscribe") {
    }
  }

  // The socket that becomes readable when there are notifications; -1 if not subscribed.
  int watch_socket() const { return notifications_.socket(); }

  struct Notifications {
    std::set<std::uint16_t> put, heartbeat, left;
  };

  // Reads the notifications that have arrived: the nodes that have put, that have sent a heartbeat, and that leave.
  Notifications notifications() {
    Notifications notified;
    notifications_.read();
    while (const Reply notification = notifications_.next()) {
      const std::string_view text = word(*notification, 2);
      const std::size_t space = std::min(text.find(' '), text.size());
      if (const auto node = serve::parse<std::uint16_t>(text.substr(0, space))) {
        const std::string_view event = text.substr(space);
        (event == HEARTBEAT ? notified.heartbeat : event == LEAVE ? notified.left : notified.put).insert(*node);
      }
    }
    return notified;
  }

  // Publishes an event of this node, HEARTBEAT or LEAVE, to all nodes that watch.
  void notify(std::uint16_t node, std::string_view event, Clock::time_point deadline) {
    commands_.call({"PUBLISH", key_, std::to_string(node).append(event)}, deadline);
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
    return std::string(Connection::text(*commands_.call({"GET", lease}, deadline)));
  }

  // Takes the lease for this time. Returns false if a node holds it.
  bool lead(std::string_view lease, std::string_view leader, std::chrono::milliseconds time,
            Clock::time_point deadline) {
    const std::string milliseconds = std::to_string(time.count());
    return Connection::text(*commands_.call({"SET", lease, leader, "NX", "PX", milliseconds}, deadline)) == "OK";
  }

  // Makes the lease last for this time from now on. Returns false if this leader does not hold it any more.
  bool renew(std::string_view lease, std::string_view leader, std::chrono::milliseconds time,
             Clock::time_point deadline) {
    return commands_.call({"EVAL", RENEW, "1", lease, leader, std::to_string(time.count())}, deadline)->integer == 1;
  }

  // Sends a contribution to the leader of this generation. If it throws, the contribution may still arrive.
  void contribute(std::uint64_t generation, std::string_view sums, Clock::time_point deadline) {
    const std::string stream = contributions(generation);
    commands_.send({"XADD", stream, "MAXLEN", "~", MAX_CONTRIBUTIONS, "*", "contribution", sums}, deadline);
    commands_.call({"EXPIRE", stream, CONTRIBUTIONS_TTL}, deadline); // returns the reply to XADD
    commands_.receive(deadline);
  }

  // Passes the contributions to this generation to `combine`, and then deletes them. May pass a contribution again.
  template <class Combine> void collect(std::uint64_t generation, Clock::time_point deadline, Combine combine) {
    const std::string stream = contributions(generation);
    for (std::size_t count = BATCH; count == BATCH;) {
      const Reply reply = commands_.call({"XREAD", "COUNT", std::to_string(BATCH), "STREAMS", stream, "0"}, deadline);
      const redisReply &messages = at(at(*reply, 0), 1);
      std::vector<std::string_view> done{"XDEL", stream};
      count = messages.elements;
      for (std::size_t i = 0; i < count; ++i) {
        combine(value(at(at(messages, i), 1), "contribution"));
        done.push_back(word(at(messages, i), 0));
      }
      if (count > 0) {
        commands_.call(done, deadline);
      }
    }
  }

  // Sends each message to its node, in this order. If it throws, some may have been sent.
  void send(const std::vector<Message> &messages, Clock::time_point deadline) {
    std::set<std::string> streams;
    for (const Message &message : messages) {
      const auto stream = streams.insert(stream_of(message.to)).first;
      const std::string ticket = std::to_string(message.ticket), reward = text(message.reward);
      std::vector<std::string_view> words{"XADD", *stream, "MAXLEN", "~", MAX_REWARDS_IN_STREAM, "*"};
      if (message.is_heartbeat) {
        words.insert(words.end(), {"heartbeat", ticket});
      } else if (message.sealed.empty()) {
        words.insert(words.end(), {"ticket", ticket, "reward", reward});
      } else {
        words.insert(words.end(), {"sealed", message.sealed});
      }
      commands_.send(words, deadline);
    }
    for (const std::string &stream : streams) {
      commands_.send({"EXPIRE", stream, REWARDS_TTL}, deadline);
    }
    for (std::size_t i = 0; i < messages.size() + streams.size(); ++i) {
      commands_.receive(deadline);
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

  // Passes the messages in this node's stream to `on_message`, deletes them, and begins to wait for more. May pass a
  // message again. It uses a new connection, because a connection that waits does not notice that it is dead.
  void listen(std::uint16_t node, Clock::time_point deadline, const OnMessage &on_message) {
    rewards_.drop();
    const std::string stream = stream_of(node);
    const Reply reply = rewards_.call({"XREAD", "COUNT", std::to_string(BATCH), "STREAMS", stream, "0"}, deadline);
    handle(node, reply, deadline, on_message);
  }

  // The socket that becomes readable when there are messages; -1 if listen was not called.
  int rewards_socket() const { return rewards_.socket(); }

  // Handles messages like listen, but those that arrived while it waited.
  void receive(std::uint16_t node, Clock::time_point deadline, const OnMessage &on_message) {
    rewards_.read();
    if (const Reply reply = rewards_.next()) { // null: only a part of it has arrived
      handle(node, reply, deadline, on_message);
    }
  }

  void drop() {
    commands_.drop();
    notifications_.drop();
    rewards_.drop();
  }

private:
  using Reply = Connection::Reply;

  static Field field(std::uint16_t node, const redisReply &reply) {
    std::string_view value = Connection::text(reply);
    const auto version = serve::parse<std::uint64_t>(value.substr(0, VERSION_DIGITS));
    value.remove_prefix(version && value.size() >= VERSION_DIGITS ? VERSION_DIGITS : 0);
    return {node, version.value_or(0), std::string(value)};
  }

  // Handles a reply to XREAD of one stream: the stream's name, and its messages. Each message is an id, and names and
  // values. Passes the messages to `on_message`, deletes them, and begins to wait for more.
  void handle(std::uint16_t node, const Reply &reply, Clock::time_point deadline, const OnMessage &on_message) {
    const std::string stream = stream_of(node);
    const redisReply &messages = at(at(*reply, 0), 1);
    std::vector<std::string_view> done{"XDEL", stream};
    for (std::size_t i = 0; i < messages.elements; ++i) {
      const redisReply &words = at(at(messages, i), 1);
      const auto ticket = serve::parse<std::uint64_t>(value(words, "ticket"));
      if (const auto reward = serve::parse<double>(value(words, "reward")); ticket && reward) {
        on_message(Message{node, *ticket, *reward});
      } else if (const auto heartbeat = serve::parse<std::uint64_t>(value(words, "heartbeat"))) {
        on_message(Message{node, *heartbeat, 0, true});
      } else if (const std::string_view sealed = value(words, "sealed"); !sealed.empty()) {
        on_message(Message{node, 0, 0, false, std::string(sealed)});
      }
      done.push_back(word(at(messages, i), 0));
    }
    if (messages.elements > 0) {
      commands_.call(done, deadline);
    }
    rewards_.send({"XREAD", "COUNT", std::to_string(BATCH), "BLOCK", "0", "STREAMS", stream, "0"}, deadline);
  }

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
  Connection commands_, notifications_, rewards_;
};

// Returns the bandit restored from this node's own field if that has more decisions than `local`, and otherwise
// `local`, which is new or restored from a file. A file can be older or newer than the field.
inline dpb::Bandit resume(dpb::Bandit local, const dpb::Config &config, const Fields &fields) {
  for (const Field &field : fields) {
    if (field.node == config.node) {
      const auto *bytes = reinterpret_cast<const std::uint8_t *>(field.snapshot.data());
      dpb_error error = {};
      const char *policy = dpb_policy_name(local.get());
      auto stored = dpb::Bandit::try_restore(policy, config, bytes, field.snapshot.size(), &error);
      if (!stored) {
        throw std::runtime_error("redis: node " + std::to_string(field.node) + ": " + error.message);
      }
      if (stored->report().decisions > local.report().decisions) {
        return std::move(*stored);
      }
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
  // Merges the snapshots of all other nodes before it returns. Throws if Redis does not reply, if the policy cannot
  // merge, or if another process takes the same number at this moment. `fields` is the list from which `resume` may
  // have restored the bandit. `window` is the bandit's reward_window; if it is 0, decisions wait for their rewards for
  // ever, and the node does not check for outages. The store and the bandit must outlive the node.
  Node(const Options &options, Store &store, dpb::Bandit &bandit, const Fields &fields, serve::Span window)
      : options_(options), store_(store), bandit_(bandit), window_(window) {
    for (const Field &field : fields) {
      version_ = field.node == options_.node ? field.version : version_;
    }
    version_ = ((version_ >> 32) + 1) << 32;
    returned_.ticks = ticks_ = ticks();
    bandit_.merge(bandit_.snapshot()); // changes nothing, but throws now if the policy cannot merge
    exchange(Clock::now() + JOIN_TIMEOUT);
    thread_ = std::thread([this] { run(); });
    if (options_.delay > 0ms && window_.ticks > 0) {
      outage_thread_ = std::thread([this] { check_outage(); });
    }
  }

  // Puts a last snapshot, sends the rewards in the queue, and publishes that the node leaves.
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

  // Reports the reward of a decision of any node. A reward for this node's own decision counts at
  // once. A reward for another node's decision goes to a queue, which the background thread sends. If the queue already
  // has MAX_REWARDS, the reward is lost, and counted in rewards_unsent_total. This node's bandit refuses a ticket of an
  // unknown node, so that invented tickets create no streams. Never waits for Redis.
  void update(std::uint64_t ticket, double reward) {
    const std::uint16_t to = dpb_ticket_node(ticket);
    std::unique_lock alone(lock_);
    if (merged_.count(to) == 0) {
      alone.unlock();
      (void)bandit_.try_update(ticket, reward);
    } else if (queued_ < MAX_REWARDS) {
      outbox_[to].push_back({ticket, reward, Clock::now()});
      ++queued_;
      wake();
    } else {
      ++unsent_;
    }
  }

  // Makes the background thread put a snapshot at once. Call this after each dpb::Bandit::next_period: a process that
  // continues from an older snapshot would not count the new period.
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
    family("nodes", "gauge", "Other nodes from which this node has read a snapshot.",
           [](const Node &n) { return n.merged_.size(); });
    family("incompatible_nodes", "gauge", "Other nodes whose newest snapshot was refused.", [](const Node &n) {
      return std::count_if(n.merged_.begin(), n.merged_.end(), [](const auto &each) { return !each.second; });
    });
    family("outage", "gauge", "1 while rewards cannot travel between nodes, so that decisions are cancelled.",
           [](const Node &n) { return int(n.outage_); });
    family("outages_total", "counter", "Outages: periods in which rewards could not travel between nodes.",
           [](const Node &n) { return n.outages_; });
    family("rewards_sent_total", "counter", "Rewards sent to other nodes. NOT private.",
           [](const Node &n) { return n.sent_; });
    family("rewards_waiting", "gauge", "Rewards in the queue to other nodes. NOT private.",
           [](const Node &n) { return n.queued_; });
    family("rewards_unsent_total", "counter",
           "Rewards lost because the queue was full or their node is gone. NOT private.",
           [](const Node &n) { return n.unsent_; });
    family("rewards_received_total", "counter", "Rewards from other nodes that took effect. NOT private.",
           [](const Node &n) { return n.received_; });
    family("rewards_refused_total", "counter", "Rewards from other nodes that were refused. NOT private.",
           [](const Node &n) { return n.refused_; });
    family("leads", "gauge", "1 while this node leads: it releases what all nodes contribute.",
           [](const Node &n) { return int(n.leads_); });
    family("contributions_total", "counter", "Contributions sent to leaders.",
           [](const Node &n) { return n.contributions_; });
    family("contributions_lost_total", "counter", "Contributions that an error may have lost.",
           [](const Node &n) { return n.contributions_lost_; });
    return page;
  }

private:
  static constexpr const char *REPLACED = "redis: another process has this node's number";

  // The background thread. After an error it counts the error and tries again later. It logs an error that repeats only
  // once.
  void run() {
    std::string logged;
    int failures = 0;
    auto next = Clock::now() + pause(0);
    for (Event event; !(event = wait(next)).stop;) {
      std::string failure;
      try {
        const Clock::time_point now = Clock::now(), deadline = now + timeout();
        heartbeat_at_ = event.heartbeat_due ? now + heartbeat_interval() : heartbeat_at_;
        if (event.exchange_due) {
          exchange(deadline, event.heartbeat_due);
        } else if (failures == 0) {
          if (event.notifications) {
            merge_from(deadline);
          }
          if (event.rewards) {
            store_.receive(options_.node, deadline, on_message_);
          }
          if (event.put_soon) {
            put(deadline);
          }
          send(deadline, event.heartbeat_due);
        }
      } catch (const std::exception &error) {
        failure = error.what();
        store_.drop();
        unreturned_.reset();
      }
      if (!failure.empty() && failure != logged) {
        std::fprintf(stderr, "%s\n", failure.c_str());
      }
      const std::lock_guard alone(lock_);
      if (!failure.empty()) {
        logged = failure;
        ++errors_;
        next = Clock::now() + pause(++failures);
      } else if (event.exchange_due) {
        logged.clear();
        ++exchanges_;
        last_ = Clock::now();
        next = last_ + pause(failures = 0);
      }
    }
    try {
      const Clock::time_point deadline = Clock::now() + timeout();
      lead_or_contribute(deadline);
      put(deadline);
      if (!leader_.empty()) { // end the lease, so that another node can lead at once
        store_.renew(lease_, leader_, 0ms, deadline);
      }
      if (slots_ > 0) { // as at a heartbeat; what still waits then is lost
        send(deadline, true);
      }
      while (slots_ == 0 && queued_ > 0) { // update is not called any more
        send(deadline);
      }
      store_.notify(options_.node, LEAVE, deadline);
    } catch (const std::exception &error) {
      std::fprintf(stderr, "%s\n", error.what());
    }
  }

  struct Event {
    bool stop, exchange_due, heartbeat_due, notifications, rewards, put_soon;
  };

  // Waits until there is something to do, and returns what, except whether rewards are in the queue.
  Event wait(Clock::time_point next) {
    pollfd sockets[] = {
        {wakeup_.socket(), POLLIN, 0}, {store_.watch_socket(), POLLIN, 0}, {store_.rewards_socket(), POLLIN, 0}};
    const auto first = options_.delay > 0ms ? std::min(next, heartbeat_at_) : next;
    const auto time = std::chrono::ceil<std::chrono::milliseconds>(first - Clock::now());
    ::poll(sockets, std::size(sockets), static_cast<int>(std::clamp<std::int64_t>(time.count(), 0, 1000)));
    wakeup_.clear();
    const std::lock_guard alone(lock_);
    const Clock::time_point now = Clock::now();
    const bool heartbeat_due = options_.delay > 0ms && now >= heartbeat_at_;
    return {stopping_, now >= next, heartbeat_due, sockets[1].revents != 0, sockets[2].revents != 0,
            std::exchange(put_soon_, false)};
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
  std::chrono::nanoseconds heartbeat_interval() const {
    return std::chrono::nanoseconds(options_.delay) / HEARTBEATS_IN_DELAY;
  }

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
      if (leader.empty()) {
        leader_ = std::to_string(options_.node) + ' ' + std::to_string(bandit_.lead());
        leader = store_.lead(lease_, leader_, lease_time(), deadline) ? leader_ : store_.leader(lease_, deadline);
      }
    }
    const auto [node, generation] = Store::numbers<std::uint16_t, std::uint64_t>(leader);
    const bool leads = !leader_.empty() && leader == leader_;
    {
      const std::lock_guard alone(lock_);
      leads_ = leads;
    }
    if (leads) {
      store_.collect(*generation, deadline, [this](std::string_view sums) { combine(sums); });
    } else if (node && generation && *node != options_.node) { // an earlier incarnation does not lead
      contribute(*generation, deadline);
    }
  }

  std::chrono::milliseconds lease_time() const {
    return std::max(EXCHANGES_IN_LEASE * options_.merge_every, MIN_LEASE);
  }

  // Sends the open sums once. After an error they are lost: the contribution may have arrived, so it is not sent again.
  void contribute(std::uint64_t generation, Clock::time_point deadline) {
    leader_.clear();
    const std::vector<std::uint8_t> sums = bandit_.contribution(generation);
    if (sums.empty()) {
      return;
    }
    try {
      store_.contribute(generation, {reinterpret_cast<const char *>(sums.data()), sums.size()}, deadline);
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

  // A reward that waits to be sent, and since when.
  struct Reward {
    std::uint64_t ticket;
    double reward;
    Clock::time_point since;
  };

  // The rewards of one message.
  struct Batch {
    std::uint16_t to;
    std::vector<Reward> rewards;
  };

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
  Message message_of(const Batch &batch) const {
    if (options_.key_file.empty()) {
      return {batch.to, batch.rewards[0].ticket, batch.rewards[0].reward};
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
    return {batch.to, 0, 0, false, {sealed.begin(), sealed.end()}};
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

  // Subscribes, then puts, then lists. In this order no put is missed: a put comes before another node's list, or
  // that node is notified of it.
  void exchange(Clock::time_point deadline, bool heartbeat_due = false) {
    store_.watch(deadline);
    lead_or_contribute(deadline);
    const bool is_newest = put(deadline);
    merge(store_.list(deadline));
    send(deadline, heartbeat_due);
    if (!is_newest) {
      // A replaced process still learns from the others, but the rewards in the stream are the new process's.
      throw std::runtime_error(REPLACED);
    }
    store_.listen(options_.node, deadline, on_message_);
  }

  // Sends rewards that wait for other nodes and, if due, a heartbeat. After an error it sends the same rewards again
  // later; each counts once because of its ticket. Heartbeats depend on the time only, never on how many rewards wait,
  // because an outage must not depend on rewards.
  void send(Clock::time_point deadline, bool due = false) {
    std::unique_lock alone(lock_);
    const Clock::time_point now = Clock::now();
    const std::vector<Batch> batches = take(now, due);
    const bool heartbeats_return = now - returned_.at <= options_.delay;
    std::optional<Message> heartbeat;
    if (due && (!unreturned_ || now - unreturned_->at > options_.delay)) {
      heartbeat = Message{options_.node, ++heartbeat_number_, 0, true};
      unreturned_ = Moment{now, ticks_};
    }
    alone.unlock();
    std::vector<Message> messages;
    std::transform(batches.begin(), batches.end(), std::back_inserter(messages),
                   [this](const Batch &batch) { return message_of(batch); });
    if (heartbeat) {
      messages.push_back(*heartbeat);
    }
    store_.send(messages, deadline);
    if (due && heartbeats_return) {
      store_.notify(options_.node, HEARTBEAT, deadline);
    }
    alone.lock();
    for (const Batch &batch : batches) {
      remove(batch.to, batch.rewards.size());
      sent_ += batch.rewards.size();
    }
    wake();
  }

  // The rewards to send now. Each reward is a message of its own, up to 1000 at once.
  //
  // With --send-rate there are none unless a heartbeat is due, and then there is one message for each node whose
  // heartbeats come, whether rewards wait for it or not. So the messages depend on heartbeats only. Rewards for a node
  // that sends no heartbeats are lost after the time in which it is gone. lock_ is locked.
  std::vector<Batch> take(Clock::time_point now, bool due) {
    std::vector<Batch> batches;
    if (slots_ == 0) {
      for (const auto &[node, queue] : outbox_) {
        for (auto reward = queue.begin(); reward != queue.end() && batches.size() < BATCH; ++reward) {
          batches.push_back({node, {*reward}});
        }
      }
      return batches;
    }
    if (!due) {
      return batches;
    }
    const auto is_gone = [&](Clock::time_point at) { return now - at > DELAYS_UNTIL_GONE * options_.delay; };
    for (auto next = outbox_.begin(); next != outbox_.end();) {
      const auto &[node, queue] = *next++; // `remove` may erase it
      const auto peer = peers_.find(node);
      if (peer == peers_.end() || is_gone(peer->second.at)) {
        const auto kept =
            std::find_if(queue.begin(), queue.end(), [&](const Reward &reward) { return !is_gone(reward.since); });
        const auto late = static_cast<std::size_t>(kept - queue.begin());
        unsent_ += late;
        remove(node, late);
      }
    }
    for (const auto &[node, last] : peers_) {
      if (!is_gone(last.at)) {
        const auto queue = outbox_.find(node);
        batches.push_back({node, {}});
        if (queue != outbox_.end()) {
          const auto first = queue->second.begin();
          batches.back().rewards.assign(first, first + std::min(queue->second.size(), slots_));
        }
      }
    }
    return batches;
  }

  // Removes the first rewards for a node from the queue. lock_ is locked.
  void remove(std::uint16_t node, std::size_t count) {
    if (const auto found = outbox_.find(node); found != outbox_.end()) {
      found->second.erase(found->second.begin(), found->second.begin() + count);
      queued_ -= count;
      if (found->second.empty()) {
        outbox_.erase(found);
      }
    }
  }

  // Makes the background thread send the rewards that wait, unless it sends at a fixed rate. lock_ is locked.
  void wake() const {
    if (slots_ == 0 && queued_ > 0) {
      wakeup_.signal();
    }
  }

  // Merges the snapshots of the nodes that have notified of a put, and records the other notifications. Heartbeats of
  // incompatible nodes do not count.
  void merge_from(Clock::time_point deadline) {
    Store::Notifications notified = store_.notifications();
    {
      const std::lock_guard alone(lock_);
      for (const std::uint16_t node : notified.heartbeat) {
        if (const auto known = merged_.find(node); known != merged_.end() && known->second) { // compatible
          peers_[node] = {Clock::now(), ticks_};
        }
      }
      for (const std::uint16_t node : notified.left) {
        peers_.erase(node);
      }
    }
    notified.put.erase(options_.node);
    if (!notified.put.empty()) {
      merge(store_.list(notified.put, deadline));
    }
  }

  // The thread that cancels open decisions while rewards cannot travel, and once more afterwards. It decides by
  // heartbeats only, which nodes send whether there are rewards or not.
  void check_outage() try {
    std::unique_lock alone(lock_);
    while (!end_.wait_for(alone, heartbeat_interval(), [this] { return stopping_; })) {
      alone.unlock();
      const std::uint64_t now = ticks();
      alone.lock();
      ticks_ = now;
      const std::string reason = outage_reason(Clock::now());
      if (reason.empty() && !outage_) {
        continue;
      }
      if (outage_ == reason.empty()) { // the outage begins or ends
        std::fprintf(stderr, "%s\n", outage_ ? "redis: rewards travel again: the bandit learns again" : reason.c_str());
        outages_ += !outage_;
        outage_ = !outage_;
      }
      alone.unlock();
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

  // The reason why rewards do not travel, for the log; empty if they travel. Stops waiting for nodes that are gone. A
  // heartbeat is late only if it is older than both the delay and an eighth of the window, so that a short pause does
  // not cost a long window.
  std::string outage_reason(Clock::time_point now) {
    const auto is_older = [&](const Moment &moment, Clock::duration delay, std::uint64_t ticks) {
      return now - moment.at > delay && ticks_ - moment.ticks > ticks;
    };
    const bool cut_off = is_older(returned_, options_.delay, window_.ticks / 8);
    if (cut_off) {
      connected_since_ = now;
    }
    std::string source; // a node from which rewards do not arrive
    for (auto peer = peers_.begin(); peer != peers_.end();) {
      const Moment since{std::max(peer->second.at, connected_since_), peer->second.ticks};
      if (is_older(since, DELAYS_UNTIL_GONE * options_.delay, window_.ticks)) {
        std::fprintf(stderr, "redis: node %u is gone: this node does not wait for its rewards any more\n",
                     unsigned(peer->first));
        peer = peers_.erase(peer);
        continue;
      }
      if (source.empty() && is_older(peer->second, options_.delay, window_.ticks / 8)) {
        source = "from node " + std::to_string(peer->first) + ' ';
      }
      ++peer;
    }
    const bool alone = peers_.empty(); // no other node can have rewards for this one
    if (alone || (!cut_off && source.empty())) {
      return "";
    }
    return "redis: rewards " + (cut_off ? "" : source) + "do not travel: open decisions are cancelled until they do";
  }

  // Puts the newest snapshot. Returns false if a newer incarnation of this node number has put one. All versions of
  // this incarnation in the store are older snapshots of this node, also after a reply was lost, so they never prevent
  // the put. (If two processes take one number at once, both want the same incarnation, and only one gets it.)
  bool put(Clock::time_point deadline) {
    const std::vector<std::uint8_t> bytes = bandit_.snapshot();
    ++version_;
    return store_.put(options_.node, version_, {reinterpret_cast<const char *>(bytes.data()), bytes.size()}, deadline);
  }

  // Merges the snapshots that are new. A snapshot that is refused does not prevent the others from being merged.
  void merge(const Fields &fields) {
    for (const Field &field : fields) {
      const std::size_t hash = std::hash<std::string>()(field.snapshot);
      if (const auto known = merged_.find(field.node);
          field.node == options_.node || (known != merged_.end() && known->second == hash)) {
        continue;
      }
      const auto *bytes = reinterpret_cast<const std::uint8_t *>(field.snapshot.data());
      dpb_error error = {};
      const bool is_compatible = bandit_.try_merge(bytes, field.snapshot.size(), &error) == DPB_OK;
      const std::lock_guard alone(lock_);
      const auto [known, is_new] = merged_.try_emplace(field.node);
      if (!is_compatible && (is_new || known->second)) { // logged once
        std::fprintf(stderr, "redis: node %u of %s is incompatible: it and this node ignore each other: %s\n",
                     unsigned(field.node), options_.bandit.c_str(), error.message);
      }
      known->second = is_compatible ? std::optional(hash) : std::nullopt;
    }
  }

  const Options options_;
  Store &store_;
  dpb::Bandit &bandit_;
  const serve::Span window_;
  const std::size_t slots_ = options_.slots(); // rewards in each message, with --send-rate; otherwise 0
  const std::string lease_ = store_.lease(bandit_.report().fleet_key_id);
  std::uint64_t version_ = 0; // of the snapshot that was put last
  std::minstd_rand jitter_{std::random_device()()};
  std::string leader_;                       // the value of the lease if this node leads; otherwise empty
  dpb_status refused_contribution_ = DPB_OK; // status of the refusal that was logged last
  bool has_logged_unopened_ = false;         // that rewards with another seal are ignored

  // A time, and the ticks of the bandit's clock at that time.
  struct Moment {
    Clock::time_point at;
    std::uint64_t ticks;
  };
  // The number of the last heartbeat. It begins at random, so that heartbeats of an earlier incarnation have others.
  std::uint64_t heartbeat_number_ = std::uint64_t(std::random_device()()) << 32;
  std::optional<Moment> unreturned_; // when the last heartbeat was sent, if it has not returned yet
  Clock::time_point heartbeat_at_ = Clock::now();

  const OnMessage on_message_ = [this](const Message &message) {
    if (message.is_heartbeat) {
      const std::lock_guard alone(lock_);
      if (message.ticket == heartbeat_number_ && unreturned_) { // otherwise it is of an earlier incarnation, or too old
        returned_ = *unreturned_;
        unreturned_.reset();
      }
      return;
    }
    const auto rewards = rewards_of(message);
    std::uint64_t received = 0, refused = rewards ? 0 : 1;
    for (const auto &[ticket, reward] : rewards.value_or(std::vector<std::pair<std::uint64_t, double>>())) {
      ++(bandit_.try_update(ticket, reward) == DPB_OK ? received : refused);
    }
    const std::lock_guard alone(lock_);
    received_ += received;
    refused_ += refused;
  };
  Wakeup wakeup_;

  mutable std::mutex lock_; // protects everything below; only the background thread changes merged_
  bool stopping_ = false, put_soon_ = false, leads_ = false;
  Clock::time_point last_ = Clock::now(); // time of the last successful exchange
  std::condition_variable end_;
  std::uint64_t ticks_ = 0;                          // the bandit's clock, as check_outage read it last
  Moment returned_{Clock::now(), 0};                 // when the last heartbeat that returned was sent
  std::map<std::uint16_t, Moment> peers_;            // when the last heartbeat of each other node was received
  Clock::time_point connected_since_ = Clock::now(); // since this time this node's heartbeats return
  bool outage_ = false;
  std::uint64_t outages_ = 0;
  std::uint64_t contributions_ = 0, contributions_lost_ = 0;
  std::uint64_t exchanges_ = 0, errors_ = 0, sent_ = 0, unsent_ = 0, received_ = 0, refused_ = 0;
  // Rewards to send, by node, and their number. Only the background thread removes them.
  std::map<std::uint16_t, std::deque<Reward>> outbox_;
  std::size_t queued_ = 0;
  // For each other node, a hash of the snapshot that was merged last; nullopt if its snapshot was refused.
  std::map<std::uint16_t, std::optional<std::size_t>> merged_;

  std::thread thread_, outage_thread_;
};

} // namespace fleet

#endif
