// Makes one bandit of many servers, in C++ by this file and in Go by the package bindings/go/fleet: each has a handle
// of its own, any that can merge, with segments or without, and all learn from what all have released, through a Redis that they share (hiredis: apt-get install
// libhiredis-dev). A thread of its own puts this node's snapshot and merges the others' every so often, and that of whom
// it hears that he has put. No decision waits for it, or for Redis, without which a node learns by itself.
//
// With dpb_config.expected_users a node counts people for itself: one who reaches n nodes is learned from, and loses, up to
// n times as much. Send a person always to the same node.
//
// A bandit is a hash, "dpb:{NAME}", a node its field, "7": 20 digits of version, then the snapshot. A version is the
// node's life, then a count: one who begins under a number replaces whoever has it. An answer to another node's
// decision goes by that one's stream, "dpb:{NAME}:answers:7", perhaps twice, and counts once by its ticket.
//
// Where answers cannot travel for a while, silence is no answer: what is open is cancelled (dpb_cancel_all). Each node sends
// itself beats by the way of answers, behind those that wait. As long as they come back in time, it tells the others so, by
// the channel of the hash. A node whose own beats are late, or that hears nothing of another one, is in an outage. It waits
// for the other no longer when that has said that it ends, or after 30 delays and a window.
//
// With a fleet key one node leads: it releases what all collect, with one noise. The leader holds a lease, a key with its
// number and its generation (dpb_lead). Whoever finds no lease tries to take it. The others contribute their open sums
// to that generation, by a stream of its own, each once: what is lost on the way is lost. Answers are sealed.
//
// Snapshots and contributions may be read by anybody, answers that are not sealed may not: who reads the streams reads who
// clicked. Who can write to Redis can spoil what is learned, not what is promised to anybody. So it has a password and, across machines, TLS: hiredis has
// that from version 1 on, and before connects to a tunnel on this machine.
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
#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
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

// How long Redis may take to answer a node that begins, and at most one that has begun.
inline constexpr std::chrono::nanoseconds FIRST_PATIENCE = 5s, PATIENCE = 1s;
// Of a version, of any: so versions compare as texts, exactly.
inline constexpr std::size_t DIGITS = 20;
// Answers that wait for a node in Redis, and here for Redis; and how many seconds they wait there for one that takes
// none. As bindings/go/fleet/redis.go has them.
inline constexpr std::size_t MOST_ANSWERS = 100'000;
inline constexpr std::string_view MOST_THERE = "100000", LONGEST_WAIT = "3600";
// The same for contributions to a leader. A lease lasts so many exchanges, and no less than so long.
inline constexpr std::string_view MOST_CONTRIBUTIONS = "10000", CONTRIBUTION_WAITS = "60";
inline constexpr int EXCHANGES_IN_LEASE = 3;
inline constexpr std::chrono::milliseconds SHORTEST_LEASE = 3s;
// Answers that are sent or taken at once.
inline constexpr std::size_t MANY = 1000;

// KEYS the hash, ARGV the node, the version, the snapshot. To the letter that of bindings/go/fleet/redis.go.
inline constexpr std::string_view PUT = R"(
local held = redis.call('HGET', KEYS[1], ARGV[1])
held = held and held:match('^' .. ('%d'):rep(20))
if held and held >= ARGV[2] then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2] .. ARGV[3])
redis.call('PUBLISH', KEYS[1], ARGV[1])
return 1)";

// KEYS the lease, ARGV its value and its milliseconds from now on; with 0 it ends. Only for who holds it.
inline constexpr std::string_view RENEW = R"(
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2]))";

// What the nodes of a fleet with one noise share: nobody else may have it.
using Key = std::array<std::uint8_t, 32>;

// Reads a key: 32 bytes, or 64 hexadecimal digits on a line.
inline Key read_key(const std::filesystem::path &file) {
  const auto refuse = [&](const char *why) -> std::runtime_error { return std::runtime_error(file.string() + ": " + why); };
  std::ifstream open(file, std::ios::binary);
  if (!open) {
    throw refuse("cannot be read");
  }
  constexpr auto OTHERS = std::filesystem::perms::group_all | std::filesystem::perms::others_all;
  if ((std::filesystem::status(file).permissions() & OTHERS) != std::filesystem::perms::none) {
    throw refuse("other users can read it: chmod 600");
  }
  std::string text(2 * sizeof(Key) + 2, '\0');
  open.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(open.gcount()));
  if (text.size() == 2 * sizeof(Key) + 1 && text.back() == '\n') {
    text.pop_back();
  }
  const bool digits =
      text.size() == 2 * sizeof(Key) && text.find_first_not_of("0123456789abcdefABCDEF") == text.npos;
  if (!digits && text.size() != sizeof(Key)) {
    throw refuse("no fleet key: 32 bytes, or 64 hexadecimal digits");
  }
  Key key;
  for (std::size_t i = 0; i < key.size(); ++i) {
    key[i] = digits ? *serve::parse<std::uint8_t>(text.substr(2 * i, 2), 16) : static_cast<std::uint8_t>(text[i]);
  }
  return key;
}

struct Options {
  std::string redis; // HOST:PORT, or a socket's path; empty: none
  std::string bandit = "ads";
  std::uint16_t node = 0;
  std::filesystem::path password_file; // empty: none
  std::filesystem::path key_file;      // empty: each node adds its own noise
  std::chrono::milliseconds merge_every = 5s;
  std::chrono::milliseconds delay = 1s; // answers that take longer are an outage; 0: none is

  // Is it one of these, with a value that it can have?
  bool take(std::string_view name, std::string_view value) {
    const auto number = serve::parse<std::uint32_t>(value);
    const bool plain = std::all_of(value.begin(), value.end(), [](unsigned char c) {
      return std::isalnum(c) || c == '_' || c == '-' || c == '.'; // needs no escapes
    });
    if (name == "--redis" && (value.find('/') != value.npos || port(value))) {
      redis = value;
    } else if (name == "--bandit" && plain && !value.empty()) {
      bandit = value;
    } else if (name == "--node" && number && *number > 0 && *number <= 0xffff) {
      node = static_cast<std::uint16_t>(*number);
    } else if (name == "--redis-password-file" && !value.empty()) {
      password_file = value;
    } else if (name == "--fleet-key-file" && !value.empty()) {
      key_file = value;
    } else if (name == "--merge-every" && number && *number > 0) {
      merge_every = std::chrono::milliseconds(*number);
    } else if (name == "--delay" && number) {
      delay = std::chrono::milliseconds(*number);
    } else {
      return false;
    }
    return true;
  }

  std::optional<Key> key() const { return key_file.empty() ? std::nullopt : std::optional(read_key(key_file)); }

  // All or none.
  bool agree() const { return redis.empty() == (node == 0) && ((password_file.empty() && key_file.empty()) || !redis.empty()); }

  static std::optional<std::uint16_t> port(std::string_view address) {
    const std::size_t colon = address.rfind(':');
    return colon == address.npos || colon == 0 ? std::nullopt : serve::parse<std::uint16_t>(address.substr(colon + 1));
  }

  static constexpr const char *USAGE =
      "  --redis ADDRESS    learn with the servers that share this Redis; HOST:PORT or a socket's path\n"
      "  --node N           this server's number among them, 1 to 32767, no other's\n"
      "  --bandit NAME      theirs; default ads\n"
      "  --merge-every MS   exchange what is released so often, in milliseconds; default 5000\n"
      "  --delay MS         a click at another server takes at most so long; while it takes longer, decisions are\n"
      "                     cancelled; default 1000; 0: clicks come to the server that has shown the ad\n"
      "  --redis-password-file FILE  its first line\n"
      "  --fleet-key-file FILE  one server releases what all collect, with one noise, and clicks travel sealed: 32\n"
      "                     secret random bytes or 64 hexadecimal digits, the same for all, that no other user can read\n";
};

// What a node has put.
struct Field {
  std::uint16_t node;
  std::uint64_t version; // 0: what the field holds is none of ours
  std::string snapshot;
};
using Fields = std::vector<Field>;

// Or a beat to oneself, with a number in place of the ticket.
struct Answer {
  std::uint64_t ticket;
  double reward;
  bool is_beat = false;
  std::string sealed{}; // both in place of them, with a fleet key
};
using Take = std::function<void(const Answer &)>;

// What a node says on the channel after its number, where it does not say that it has put.
inline constexpr std::string_view BEATS = " beats", ENDS = " ends";

// A connection to Redis. After what it throws it must be dropped: who knows what it would answer next.
class Connection {
public:
  struct Free {
    void operator()(redisContext *context) const { redisFree(context); }
    void operator()(redisReply *reply) const { freeReplyObject(reply); }
  };
  using Reply = std::unique_ptr<redisReply, Free>;

  explicit Connection(const Options &options) : address_(options.redis) {
    if (std::ifstream file(options.password_file); !options.password_file.empty()) {
      if (!std::getline(file, password_) || password_.empty()) {
        throw std::runtime_error(options.password_file.string() + ": no password");
      }
    }
  }

  Reply ask(const std::vector<std::string_view> &words, Clock::time_point until) {
    send(words, until);
    return receive(until);
  }

  // Send and receive are redisCommandArgv, but all of it by `until`, also where bytes come one by one.
  void send(const std::vector<std::string_view> &words, Clock::time_point until) {
    if (!context_) {
      connect(until);
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
      check(redisSetTimeout(context, left(until)));
      check(redisBufferWrite(context, &sent));
    }
  }

  Reply receive(Clock::time_point until) {
    for (;;) {
      if (Reply reply = next()) {
        return reply;
      }
      check(redisSetTimeout(context_.get(), left(until)));
      read();
    }
  }

  // Takes what has come, if the socket has something: it waits else.
  void read() { check(redisBufferRead(context_.get())); }

  // Of what was read, a whole reply. Nothing: there is none yet.
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
  static constexpr const char *LATE = "redis: no answer in time";

  void connect(Clock::time_point until) {
    const bool socket = address_.find('/') != address_.npos;
    const std::string host = address_.substr(0, address_.rfind(':'));
    context_.reset(socket ? redisConnectUnixWithTimeout(address_.c_str(), left(until))
                          : redisConnectWithTimeout(host.c_str(), *Options::port(address_), left(until)));
    check(context_ ? REDIS_OK : REDIS_ERR);
    check(context_->err);
    if (!password_.empty()) {
      ask({"AUTH", password_}, until);
    }
  }

  void check(int status) const {
    if (status != REDIS_OK) {
      const bool late = context_ && context_->err == REDIS_ERR_IO && errno == EAGAIN;
      throw std::runtime_error(late ? LATE : "redis: " + (context_ ? std::string(context_->errstr) : "no memory"));
    }
  }

  static timeval left(Clock::time_point until) {
    const auto time = std::chrono::duration_cast<std::chrono::microseconds>(until - Clock::now());
    if (time <= 0us) { // which would be for ever
      throw std::runtime_error(LATE);
    }
    return {static_cast<time_t>(time / 1s), static_cast<suseconds_t>((time % 1s).count())};
  }

  const std::string address_;
  std::string password_;
  std::unique_ptr<redisContext, Free> context_;
};

// The bandit's hash and streams. One thread at a time. After what it throws, drop its connections.
class Store {
public:
  explicit Store(const Options &options)
      : key_("dpb:{" + options.bandit + "}"), commands_(options), hints_(options), answers_(options) {
    std::signal(SIGPIPE, SIG_IGN); // hiredis writes to what the other side has closed
  }

  // Keeps this, unless it has the same or a greater version.
  bool put(std::uint16_t node, std::uint64_t version, std::string_view snapshot, Clock::time_point until) {
    char digits[DIGITS + 1];
    std::snprintf(digits, sizeof digits, "%020llu", static_cast<unsigned long long>(version));
    return commands_.ask({"EVAL", PUT, "1", key_, std::to_string(node), digits, snapshot}, until)->integer == 1;
  }

  Fields list(Clock::time_point until) {
    const Reply all = commands_.ask({"HGETALL", key_}, until);
    Fields fields;
    for (std::size_t i = 0; i + 1 < all->elements; i += 2) {
      if (const auto node = serve::parse<std::uint16_t>(Connection::text(*all->element[i]))) { // else not ours
        fields.push_back(field(*node, *all->element[i + 1]));
      }
    }
    return fields;
  }

  // What these have put.
  Fields list(const std::set<std::uint16_t> &nodes, Clock::time_point until) {
    std::vector<std::string> names;
    for (const std::uint16_t node : nodes) {
      names.push_back(std::to_string(node));
    }
    std::vector<std::string_view> words{"HMGET", key_};
    words.insert(words.end(), names.begin(), names.end());
    const Reply some = commands_.ask(words, until);
    Fields fields;
    for (auto node = nodes.begin(); node != nodes.end(); ++node) {
      const std::size_t i = std::distance(nodes.begin(), node);
      if (i < some->elements && some->element[i]->type == REDIS_REPLY_STRING) { // else it is gone again
        fields.push_back(field(*node, *some->element[i]));
      }
    }
    return fields;
  }

  // Whoever puts from here on is heard. Done again, it says whether the connection is still alive, and forgets what was
  // heard before.
  void watch(Clock::time_point until) {
    hints_.send({"SUBSCRIBE", key_}, until);
    while (word(*hints_.receive(until), 0) != "subscribe") {
    }
  }

  // Has something when there are hints. -1: it does not watch.
  int watched() const { return hints_.socket(); }

  struct Heard {
    std::set<std::uint16_t> put, beat, ended;
  };

  // Who has put, beats or has ended: reads what has come.
  Heard hints() {
    Heard heard;
    hints_.read();
    while (const Reply hint = hints_.next()) {
      const std::string_view said = word(*hint, 2);
      const std::size_t space = std::min(said.find(' '), said.size());
      if (const auto node = serve::parse<std::uint16_t>(said.substr(0, space))) {
        const std::string_view what = said.substr(space);
        (what == BEATS ? heard.beat : what == ENDS ? heard.ended : heard.put).insert(*node);
      }
    }
    return heard;
  }

  // To all who watch.
  void say(std::uint16_t node, std::string_view what, Clock::time_point until) {
    commands_.ask({"PUBLISH", key_, std::to_string(node).append(what)}, until);
  }

  // The lease of the leader of the nodes that share the key with this id. So nodes with a new key and those with the old
  // one learn all the while.
  std::string lease(std::uint64_t key_id) const {
    std::array<char, 17> id = {};
    std::snprintf(id.data(), id.size(), "%016" PRIx64, key_id);
    return key_ + ":leader:" + id.data();
  }

  // Who leads, as it stands in the lease; empty: nobody.
  std::string leader(std::string_view lease, Clock::time_point until) {
    return std::string(Connection::text(*commands_.ask({"GET", lease}, until)));
  }

  // Takes the lease, if nobody holds it.
  bool lead(std::string_view lease, std::string_view leader, std::chrono::milliseconds time, Clock::time_point until) {
    const std::string milliseconds = std::to_string(time.count());
    return Connection::text(*commands_.ask({"SET", lease, leader, "NX", "PX", milliseconds}, until)) == "OK";
  }

  // Is the lease still this leader's? It then lasts so long from now on.
  bool renew(std::string_view lease, std::string_view leader, std::chrono::milliseconds time, Clock::time_point until) {
    return commands_.ask({"EVAL", RENEW, "1", lease, leader, std::to_string(time.count())}, until)->integer == 1;
  }

  void contribute(std::uint64_t generation, std::string_view sums, Clock::time_point until) {
    const std::string stream = contributions(generation);
    commands_.send({"XADD", stream, "MAXLEN", "~", MOST_CONTRIBUTIONS, "*", "contribution", sums}, until);
    commands_.ask({"EXPIRE", stream, CONTRIBUTION_WAITS}, until); // the reply to the first
    commands_.receive(until);
  }

  // Gives `take` what was contributed to this generation, and forgets it.
  template <class Combine> void collect(std::uint64_t generation, Clock::time_point until, Combine take) {
    const std::string stream = contributions(generation);
    for (std::size_t some = MANY; some == MANY;) {
      const Reply reply = commands_.ask({"XREAD", "COUNT", std::to_string(MANY), "STREAMS", stream, "0"}, until);
      const redisReply &messages = at(at(*reply, 0), 1);
      std::vector<std::string_view> done{"XDEL", stream};
      some = messages.elements;
      for (std::size_t i = 0; i < some; ++i) {
        take(value(at(at(messages, i), 1), "contribution"));
        done.push_back(word(at(messages, i), 0));
      }
      if (some > 0) {
        commands_.ask(done, until);
      }
    }
  }

  // To the nodes that have decided; a beat to this one.
  void send(const std::vector<Answer> &answers, std::uint16_t self, Clock::time_point until) {
    std::set<std::string> streams;
    for (const Answer &answer : answers) {
      if (answer.is_beat) {
        const auto stream = streams.insert(stream_of(self)).first;
        commands_.send({"XADD", *stream, "MAXLEN", "~", MOST_THERE, "*", "beat", std::to_string(answer.ticket)}, until);
        continue;
      }
      const auto stream = streams.insert(stream_of(dpb_ticket_node(answer.ticket))).first;
      const std::string ticket = std::to_string(answer.ticket), reward = text(answer.reward);
      std::vector<std::string_view> words{"XADD", *stream, "MAXLEN", "~", MOST_THERE, "*"};
      if (answer.sealed.empty()) {
        words.insert(words.end(), {"ticket", ticket, "reward", reward});
      } else {
        words.insert(words.end(), {"sealed", answer.sealed});
      }
      commands_.send(words, until);
    }
    for (const std::string &stream : streams) {
      commands_.send({"EXPIRE", stream, LONGEST_WAIT}, until);
    }
    for (std::size_t i = 0; i < answers.size() + streams.size(); ++i) {
      commands_.receive(until);
    }
  }

  // Two numbers with a space between them.
  template <class One, class Other>
  static std::pair<std::optional<One>, std::optional<Other>> numbers(std::string_view text) {
    const std::size_t space = std::min(text.find(' '), text.size());
    return {serve::parse<One>(text.substr(0, space)),
            serve::parse<Other>(text.substr(std::min(space + 1, text.size())))};
  }

  // Reads back as the same number.
  static std::string text(double reward) {
    char digits[32];
    std::snprintf(digits, sizeof digits, "%.17g", reward);
    return digits;
  }

  // Gives `take` all answers that have come to this node, perhaps again what came before, forgets them, and waits for
  // more: over a new connection, since nobody knows whether an old one that waits is still alive.
  void await(std::uint16_t node, Clock::time_point until, const Take &take) {
    answers_.drop();
    const std::string stream = stream_of(node);
    forget(stream, answers_.ask({"XREAD", "COUNT", std::to_string(MANY), "STREAMS", stream, "0"}, until), until, take);
  }

  // Has something when there are answers. -1: it does not wait for any.
  int awaited() const { return answers_.socket(); }

  // The same for those that have come then.
  void receive(std::uint16_t node, Clock::time_point until, const Take &take) {
    answers_.read();
    if (const Reply reply = answers_.next()) { // all of it
      forget(stream_of(node), reply, until, take);
    }
  }

  void drop() {
    commands_.drop();
    hints_.drop();
    answers_.drop();
  }

private:
  using Reply = Connection::Reply;

  static Field field(std::uint16_t node, const redisReply &reply) {
    std::string_view value = Connection::text(reply);
    const auto version = serve::parse<std::uint64_t>(value.substr(0, DIGITS));
    value.remove_prefix(version && value.size() >= DIGITS ? DIGITS : 0);
    return {node, version.value_or(0), std::string(value)};
  }

  // A reply is of one stream, that of its name and its messages; each of its number and its names and values.
  void forget(const std::string &stream, const Reply &reply, Clock::time_point until, const Take &take) {
    const redisReply &messages = at(at(*reply, 0), 1);
    std::vector<std::string_view> done{"XDEL", stream};
    for (std::size_t i = 0; i < messages.elements; ++i) {
      const redisReply &words = at(at(messages, i), 1);
      const auto ticket = serve::parse<std::uint64_t>(value(words, "ticket"));
      if (const auto reward = serve::parse<double>(value(words, "reward")); ticket && reward) {
        take(Answer{*ticket, *reward});
      } else if (const auto beat = serve::parse<std::uint64_t>(value(words, "beat"))) {
        take(Answer{*beat, 0, true});
      } else if (const std::string_view sealed = value(words, "sealed"); !sealed.empty()) {
        take(Answer{0, 0, false, std::string(sealed)});
      }
      done.push_back(word(at(messages, i), 0));
    }
    if (messages.elements > 0) {
      commands_.ask(done, until);
    }
    answers_.send({"XREAD", "COUNT", std::to_string(MANY), "BLOCK", "0", "STREAMS", stream, "0"}, until);
  }

  std::string contributions(std::uint64_t generation) const {
    return key_ + ":contributions:" + std::to_string(generation);
  }
  std::string stream_of(std::uint16_t node) const { return key_ + ":answers:" + std::to_string(node); }

  // Where there is none, an empty one.
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
  Connection commands_, hints_, answers_;
};

// A bandit that is `here`, or goes on from this node's own field where that knows more: the disk may be new, or old.
inline dpb::Bandit go_on(dpb::Bandit here, const dpb::Config &config, const Fields &fields) {
  for (const Field &field : fields) {
    if (field.node == config.node) {
      const auto *bytes = reinterpret_cast<const std::uint8_t *>(field.snapshot.data());
      dpb_error error = {};
      auto there = dpb::Bandit::try_restore(dpb_policy_name(here.get()), config, bytes, field.snapshot.size(), &error);
      if (!there) {
        throw std::runtime_error("redis: node " + std::to_string(field.node) + ": " + error.message);
      }
      if (there->report().decisions > here.report().decisions) {
        return std::move(*there);
      }
    }
  }
  return here;
}

// Wakes a thread that waits for a socket.
class Bell {
public:
  Bell() : socket_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (socket_ < 0) {
      throw std::system_error(errno, std::generic_category(), "eventfd");
    }
  }
  ~Bell() { ::close(socket_); }
  Bell(const Bell &) = delete;
  Bell &operator=(const Bell &) = delete;

  void ring() const { (void)::eventfd_write(socket_, 1); }
  void stop() const {
    eventfd_t rung;
    (void)::eventfd_read(socket_, &rung);
  }
  int socket() const { return socket_; }

private:
  const int socket_;
};

// This server's part, while it lives.
class Node {
public:
  // Knows what all others have put when it is made. `fields` are those that the bandit may have gone on from.
  // Decisions wait `window` for their answers; 0: for ever, so that no outage harms them.
  Node(const Options &options, Store &store, dpb::Bandit &bandit, const Fields &fields, serve::Span window)
      : options_(options), store_(store), bandit_(bandit), window_(window) {
    for (const Field &field : fields) {
      version_ = field.node == options_.node ? field.version : version_;
    }
    version_ = ((version_ >> 32) + 1) << 32;
    own_.ticks = ticks_ = ticks();
    bandit_.merge(bandit_.snapshot()); // changes nothing; a policy that cannot says so now
    exchange(Clock::now() + FIRST_PATIENCE);
    thread_ = std::thread([this] { work(); });
    if (options_.delay > 0ms && window_.ticks > 0) {
      judge_ = std::thread([this] { judge(); });
    }
  }

  // Puts once more.
  ~Node() {
    {
      const std::lock_guard alone(lock_);
      ended_ = true;
    }
    bell_.ring();
    end_.notify_all();
    thread_.join();
    if (judge_.joinable()) {
      judge_.join();
    }
  }

  Node(const Node &) = delete;
  Node &operator=(const Node &) = delete;

  // An answer to whichever node's decision: now, or by post, later. One of a node that nobody has seen is refused here.
  void answer(Answer answer) {
    const std::uint16_t to = dpb_ticket_node(answer.ticket);
    std::unique_lock alone(lock_);
    if (merged_.count(to) == 0) {
      alone.unlock();
      (void)bandit_.try_update(answer.ticket, answer.reward);
    } else if (outbox_.size() < MOST_ANSWERS) {
      outbox_.push_back(answer);
      bell_.ring();
    } else {
      ++unsent_;
    }
  }

  // A period of people has begun: what is put now knows of it, and who goes on from an older snapshot would forget it.
  void put_soon() {
    {
      const std::lock_guard alone(lock_);
      soon_ = true;
    }
    bell_.ring();
  }

  // Of several, for Prometheus, as the Go package has them. For the operator: what came and went by post is NOT private.
  static std::string metrics(const std::vector<const Node *> &nodes) {
    std::string page;
    const auto family = [&](const std::string &name, const char *kind, const char *help, auto value) {
      page += "# HELP dpb_fleet_" + name + " " + help + "\n# TYPE dpb_fleet_" + name + " " + kind + '\n';
      for (const Node *node : nodes) {
        const std::lock_guard alone(node->lock_);
        page += "dpb_fleet_" + name + "{bandit=\"" + node->options_.bandit + "\"} " + std::to_string(value(*node)) + '\n';
      }
    };
    if (nodes.empty()) {
      return page;
    }
    family("age_seconds", "gauge", "Since the last exchange that succeeded.",
           [](const Node &n) { return std::chrono::duration<double>(Clock::now() - n.last_).count(); });
    family("exchanges_total", "counter", "Exchanges that succeeded.", [](const Node &n) { return n.exchanges_; });
    family("errors_total", "counter", "Errors of the store.", [](const Node &n) { return n.errors_; });
    family("nodes", "gauge", "Other nodes of which a snapshot was seen.", [](const Node &n) { return n.merged_.size(); });
    family("strangers", "gauge", "Other nodes whose newest snapshot was refused.", [](const Node &n) {
      return std::count_if(n.merged_.begin(), n.merged_.end(), [](const auto &each) { return !each.second; });
    });
    family("outage", "gauge", "1 while answers cannot travel, and decisions are cancelled.",
           [](const Node &n) { return int(n.outage_); });
    family("outages_total", "counter", "Times in which answers could not travel.",
           [](const Node &n) { return n.outages_; });
    family("answers_sent_total", "counter", "Answers sent to other nodes. NOT private.",
           [](const Node &n) { return n.sent_; });
    family("answers_unsent_total", "counter", "Answers lost to an error. NOT private.",
           [](const Node &n) { return n.unsent_; });
    family("answers_received_total", "counter", "Answers from other nodes that counted. NOT private.",
           [](const Node &n) { return n.received_; });
    family("answers_refused_total", "counter", "Answers from other nodes that did not. NOT private.",
           [](const Node &n) { return n.refused_; });
    family("leads", "gauge", "1 while this node leads: it releases what all contribute.",
           [](const Node &n) { return int(n.leads_); });
    family("contributions_total", "counter", "Contributions sent to leaders.",
           [](const Node &n) { return n.contributions_; });
    family("contributions_lost_total", "counter", "Contributions lost to an error.",
           [](const Node &n) { return n.contributions_lost_; });
    return page;
  }

private:
  static constexpr const char *REPLACED = "redis: another process has this node's number";

  // What goes wrong is said once, counted, and tried again.
  void work() {
    std::string said;
    int failures = 0;
    auto next = Clock::now() + pause(0);
    for (Event event; !(event = wait(next)).end;) {
      std::string wrong;
      try {
        const Clock::time_point now = Clock::now(), until = now + patience();
        beat_at_ = event.beat ? now + beat_every() : beat_at_;
        if (event.due) {
          exchange(until, event.beat);
        } else if (failures == 0) {
          if (event.hints) {
            hear(until);
          }
          if (event.answers) {
            store_.receive(options_.node, until, take_);
          }
          if (event.soon) {
            put(until);
          }
          send(until, event.beat);
        }
      } catch (const std::exception &error) {
        wrong = error.what();
        store_.drop();
        awaited_.reset();
      }
      if (!wrong.empty() && wrong != said) {
        std::fprintf(stderr, "%s\n", wrong.c_str());
      }
      const std::lock_guard alone(lock_);
      if (!wrong.empty()) {
        said = wrong;
        ++errors_;
        next = Clock::now() + pause(++failures);
      } else if (event.due) {
        said.clear();
        ++exchanges_;
        last_ = Clock::now();
        next = last_ + pause(failures = 0);
      }
    }
    try {
      const Clock::time_point until = Clock::now() + patience();
      share(until);
      put(until);
      if (!leader_.empty()) { // another one can lead at once
        store_.renew(lease_, leader_, 0ms, until);
      }
      while (!outbox_.empty()) { // nobody answers any more
        send(until);
      }
      store_.say(options_.node, ENDS, until);
    } catch (const std::exception &error) {
      std::fprintf(stderr, "%s\n", error.what());
    }
  }

  struct Event {
    bool end, due, beat, hints, answers, soon;
  };

  // Until there is something to do; what, but for what is to be sent.
  Event wait(Clock::time_point next) {
    pollfd sockets[] = {{bell_.socket(), POLLIN, 0}, {store_.watched(), POLLIN, 0}, {store_.awaited(), POLLIN, 0}};
    const auto first = options_.delay > 0ms ? std::min(next, beat_at_) : next;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(first - Clock::now());
    ::poll(sockets, std::size(sockets), static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 1000)));
    bell_.stop();
    const std::lock_guard alone(lock_);
    const Clock::time_point now = Clock::now();
    const bool beat = options_.delay > 0ms && now >= beat_at_;
    return {ended_, now >= next, beat, sockets[1].revents != 0, sockets[2].revents != 0, std::exchange(soon_, false)};
  }

  // Within which an exchange has succeeded or failed.
  std::chrono::nanoseconds patience() const { return std::min(interval() / 2, PATIENCE); }

  // Until the next exchange. After failures it doubles from 1/32 of the interval to half of it: with what the exchange
  // before took, no more than one interval. Nodes do not keep step.
  std::chrono::nanoseconds pause(int failures) {
    const auto most = interval() / (failures > 0 ? 1 << std::max(6 - failures, 1) : 1);
    std::uniform_int_distribution<std::int64_t> more(0, most.count() / 2);
    return most / 2 + std::chrono::nanoseconds(more(jitter_));
  }

  std::chrono::nanoseconds interval() const { return options_.merge_every; }
  std::chrono::nanoseconds beat_every() const { return std::chrono::nanoseconds(options_.delay) / BEATS_IN_DELAY; }

  // With a fleet key: leads, if nobody else does, and adds what was contributed; or contributes. It has read the lease
  // just before it takes its sums out, so they stay here while Redis is away.
  void share(Clock::time_point until) {
    if (options_.key_file.empty()) {
      return;
    }
    std::string leader = leader_;
    if (leader.empty() || !store_.renew(lease_, leader, lease_time(), until)) {
      leader = store_.leader(lease_, until);
      if (leader.empty()) {
        leader_ = std::to_string(options_.node) + ' ' + std::to_string(bandit_.lead());
        leader = store_.lead(lease_, leader_, lease_time(), until) ? leader_ : store_.leader(lease_, until);
      }
    }
    const auto [node, generation] = Store::numbers<std::uint16_t, std::uint64_t>(leader);
    const bool leads = !leader_.empty() && leader == leader_;
    {
      const std::lock_guard alone(lock_);
      leads_ = leads;
    }
    if (leads) {
      store_.collect(*generation, until, [this](std::string_view sums) { combine(sums); });
    } else if (node && generation && *node != options_.node) { // an earlier life of this node leads no longer
      contribute(*generation, until);
    }
  }

  std::chrono::milliseconds lease_time() const {
    return std::max(EXCHANGES_IN_LEASE * options_.merge_every, SHORTEST_LEASE);
  }

  // A contribution that failed may have arrived. So it is not sent again: it is lost.
  void contribute(std::uint64_t generation, Clock::time_point until) {
    leader_.clear();
    const std::vector<std::uint8_t> sums = bandit_.contribution(generation);
    if (sums.empty()) {
      return;
    }
    try {
      store_.contribute(generation, {reinterpret_cast<const char *>(sums.data()), sums.size()}, until);
    } catch (...) {
      const std::lock_guard alone(lock_);
      ++contributions_lost_;
      throw;
    }
    const std::lock_guard alone(lock_);
    ++contributions_;
  }

  // What was added before is no news. Else what is refused is said once.
  void combine(std::string_view sums) {
    dpb_error error = {};
    const dpb_status status =
        bandit_.try_combine(reinterpret_cast<const std::uint8_t *>(sums.data()), sums.size(), &error);
    if (status != DPB_OK && status != DPB_DUPLICATE && status != refused_contribution_) {
      std::fprintf(stderr, "redis: a contribution to this node under the name %s is lost: %s\n",
                   options_.bandit.c_str(), error.message);
      refused_contribution_ = status;
    }
  }

  // An answer to another node's decision, as it travels with a fleet key.
  std::string sealed(const Answer &answer) const {
    const std::string text = std::to_string(answer.ticket) + ' ' + Store::text(answer.reward);
    const std::vector<std::uint8_t> sealed = bandit_.seal({text.begin(), text.end()});
    return {sealed.begin(), sealed.end()};
  }

  // What came to this node: with a fleet key only what was sealed with it.
  std::optional<Answer> opened(const Answer &answer) {
    if (options_.key_file.empty() && answer.sealed.empty()) {
      return answer;
    }
    std::vector<std::uint8_t> text;
    const auto *bytes = reinterpret_cast<const std::uint8_t *>(answer.sealed.data());
    if (bandit_.try_open(bytes, answer.sealed.size(), text) != DPB_OK) {
      if (!std::exchange(unopened_, true)) {
        std::fprintf(stderr, "redis: answers under the name %s that another fleet key or none has sealed are ignored\n",
                     options_.bandit.c_str());
      }
      return std::nullopt;
    }
    const auto [ticket, reward] =
        Store::numbers<std::uint64_t, double>({reinterpret_cast<const char *>(text.data()), text.size()});
    return ticket && reward ? std::optional(Answer{*ticket, *reward}) : std::nullopt;
  }

  // Watches, then puts, then lists. Of two nodes one puts before the other lists, or else is heard by the other.
  void exchange(Clock::time_point until, bool beat = false) {
    store_.watch(until);
    share(until);
    const bool ours = put(until);
    merge(store_.list(until));
    send(until, beat);
    if (!ours) {
      throw std::runtime_error(REPLACED); // it learns from the others all the same; answers are the other's
    }
    store_.await(options_.node, until, take_);
  }

  // Sends up to 1000 of the rewards that wait for other nodes. What fails is sent again, and counts once by its ticket.
  // Beats depend on the time alone, never on how many rewards wait, because an outage must not depend on rewards.
  void send(Clock::time_point until, bool beat = false) {
    std::unique_lock alone(lock_);
    std::vector<Answer> some(outbox_.begin(), outbox_.begin() + std::min(outbox_.size(), MANY));
    const std::size_t count = some.size();
    const Clock::time_point now = Clock::now();
    const bool well = now - own_.at <= options_.delay;
    if (beat && (!awaited_ || now - awaited_->at > options_.delay)) {
      some.push_back({++beats_, 0, true});
      awaited_ = Seen{now, ticks_};
    }
    alone.unlock();
    for (Answer &answer : some) {
      answer.sealed = options_.key_file.empty() || answer.is_beat ? "" : sealed(answer);
    }
    store_.send(some, options_.node, until);
    if (beat && well) {
      store_.say(options_.node, BEATS, until);
    }
    alone.lock();
    outbox_.erase(outbox_.begin(), outbox_.begin() + count);
    sent_ += count;
    if (!outbox_.empty()) {
      bell_.ring();
    }
  }

  // Merges what those have put of whom a hint has come.
  void hear(Clock::time_point until) {
    Store::Heard heard = store_.hints();
    {
      const std::lock_guard alone(lock_);
      for (const std::uint16_t node : heard.beat) {
        if (const auto known = merged_.find(node); known != merged_.end() && known->second) { // no stranger
          peers_[node] = {Clock::now(), ticks_};
        }
      }
      for (const std::uint16_t node : heard.ended) {
        peers_.erase(node);
      }
    }
    heard.put.erase(options_.node);
    if (!heard.put.empty()) {
      merge(store_.list(heard.put, until));
    }
  }

  // Cancels what is open for as long as answers cannot travel, and once more. Whether they can is asked of beats alone,
  // which go whether there are answers or not.
  void judge() try {
    std::unique_lock alone(lock_);
    while (!end_.wait_for(alone, beat_every(), [this] { return ended_; })) {
      alone.unlock();
      const std::uint64_t now = ticks();
      alone.lock();
      ticks_ = now;
      const std::string why = late(Clock::now());
      if (why.empty() && !outage_) {
        continue;
      }
      if (outage_ == why.empty()) { // it begins or ends
        std::fprintf(stderr, "%s\n", outage_ ? "redis: answers travel again: decisions are learned from" : why.c_str());
        outages_ += !outage_;
        outage_ = !outage_;
      }
      alone.unlock();
      bandit_.cancel_all();
      alone.lock();
    }
  } catch (const std::exception &error) { // no handle any more
    std::fprintf(stderr, "%s\n", error.what());
  }

  // What the window counts: milliseconds, or decisions.
  std::uint64_t ticks() const {
    const auto since = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now().time_since_epoch());
    return window_.is_time ? std::uint64_t(since.count()) : bandit_.report().decisions;
  }

  // Why answers do not travel; empty: they do.
  std::string late(Clock::time_point now) {
    const auto is = [&](const Seen &seen, Clock::duration delay, std::uint64_t ticks) {
      return now - seen.at > delay && ticks_ - seen.ticks > ticks;
    };
    const bool cut_off = is(own_, options_.delay, window_.ticks / 8);
    if (cut_off) {
      connected_ = now;
    }
    std::string who;
    for (auto peer = peers_.begin(); peer != peers_.end();) {
      const Seen since{std::max(peer->second.at, connected_), peer->second.ticks};
      if (is(since, DELAYS_UNTIL_GONE * options_.delay, window_.ticks)) {
        std::fprintf(stderr, "redis: node %u is gone: its answers are waited for no longer\n", unsigned(peer->first));
        peer = peers_.erase(peer);
        continue;
      }
      if (who.empty() && is(peer->second, options_.delay, window_.ticks / 8)) {
        who = "from node " + std::to_string(peer->first) + ' ';
      }
      ++peer;
    }
    const bool alone = peers_.empty(); // nobody has answers for us
    return alone || (!cut_off && who.empty())
               ? ""
               : "redis: answers " + (cut_off ? "" : who) + "do not travel: open decisions are cancelled until they do";
  }

  // Does the store have our newest snapshot then? Every version of this life that it may have is an older one of ours,
  // also when its answer was lost. (Two processes that begin at once under one number want the same: one gets it.)
  bool put(Clock::time_point until) {
    const std::vector<std::uint8_t> bytes = bandit_.snapshot();
    ++version_;
    return store_.put(options_.node, version_, {reinterpret_cast<const char *>(bytes.data()), bytes.size()}, until);
  }

  // What is news. What is refused does not keep the others out.
  void merge(const Fields &fields) {
    for (const Field &field : fields) {
      const std::size_t hash = std::hash<std::string>()(field.snapshot);
      if (const auto known = merged_.find(field.node);
          field.node == options_.node || (known != merged_.end() && known->second == hash)) {
        continue;
      }
      const auto *bytes = reinterpret_cast<const std::uint8_t *>(field.snapshot.data());
      dpb_error error = {};
      const bool well = bandit_.try_merge(bytes, field.snapshot.size(), &error) == DPB_OK;
      const std::lock_guard alone(lock_);
      const auto [known, is_new] = merged_.try_emplace(field.node);
      if (!well && (is_new || known->second)) { // said once
        std::fprintf(stderr, "redis: node %u is a stranger under the name %s: it and this node ignore each other: %s\n",
                     unsigned(field.node), options_.bandit.c_str(), error.message);
      }
      known->second = well ? std::optional(hash) : std::nullopt;
    }
  }

  const Options options_;
  Store &store_;
  dpb::Bandit &bandit_;
  const serve::Span window_;
  const std::string lease_ = store_.lease(bandit_.report().fleet_key_id);
  std::uint64_t version_ = 0; // of what was put last
  std::minstd_rand jitter_{std::random_device()()};
  std::string leader_;                       // what the lease is when this node leads; empty: it contributes, or has no key
  dpb_status refused_contribution_ = DPB_OK; // that was said last
  bool unopened_ = false;                    // that was said

  // The time, and the ticks of the bandit's clock.
  struct Seen {
    Clock::time_point at;
    std::uint64_t ticks;
  };
  static constexpr int BEATS_IN_DELAY = 8, DELAYS_UNTIL_GONE = 30;
  std::uint64_t beats_ = std::uint64_t(std::random_device()()) << 32; // the number of the last one
  std::optional<Seen> awaited_;                                       // it was sent then, and is not back yet
  Clock::time_point beat_at_ = Clock::now();

  const Take take_ = [this](const Answer &answer) {
    if (answer.is_beat) { // one of an earlier life has another number
      const std::lock_guard alone(lock_);
      if (answer.ticket == beats_ && awaited_) {
        own_ = *awaited_;
        awaited_.reset();
      }
      return;
    }
    const std::optional<Answer> ours = opened(answer);
    const bool counts = ours && bandit_.try_update(ours->ticket, ours->reward) == DPB_OK;
    const std::lock_guard alone(lock_);
    ++(counts ? received_ : refused_);
  };
  Bell bell_;

  mutable std::mutex lock_; // of what follows; only the thread changes merged_
  bool ended_ = false, soon_ = false, leads_ = false;
  Clock::time_point last_ = Clock::now();
  std::condition_variable end_;
  std::uint64_t ticks_ = 0;                  // not long ago
  Seen own_{Clock::now(), 0};                // the last beat of ours that came back was sent then
  std::map<std::uint16_t, Seen> peers_;      // the last beat of each other that was heard
  Clock::time_point connected_ = Clock::now(); // since then beats of ours come back
  bool outage_ = false;
  std::uint64_t outages_ = 0;
  std::uint64_t contributions_ = 0, contributions_lost_ = 0;
  std::uint64_t exchanges_ = 0, errors_ = 0, sent_ = 0, unsent_ = 0, received_ = 0, refused_ = 0;
  std::deque<Answer> outbox_; // only the thread takes from it
  std::map<std::uint16_t, std::optional<std::size_t>> merged_; // of each other node: a hash; nothing: refused

  std::thread thread_, judge_;
};

} // namespace fleet

#endif
