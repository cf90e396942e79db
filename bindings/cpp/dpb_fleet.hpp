/*
 * Fleets: processes that learn as one bandit, through a Redis or Valkey that they share. A node of one, over dpb.hpp:
 *
 *     dpb::Config config(10, 1.0);
 *     dpb::fleet::Node node(dpb::fleet::Hiredis("localhost:6379"), "ads", config); // has joined
 *     dpb::Decision ad = node.bandit().select();
 *     node.update(ad.ticket, 1.0);   // at any node
 *     node.leave();                  // others continue
 *
 * Link with -lhiredis and -pthread. Compile with exceptions. Nodes in all languages can share a fleet.
 * docs/operating/fleets.md says what an operator must know.
 *
 * The library decides what a node does. This file runs it: two threads ask for commands, run their scripts in Redis,
 * and pass the replies. No decision and no update waits for them. The library repeats whatever fails.
 *
 * Anyone who reads Redis can read snapshots and, without a fleet key, rewards. So give Redis a password. Across
 * machines also use TLS: Hiredis::tls, or connect to a TLS tunnel on this machine.
 */
#ifndef DPB_FLEET_HPP
#define DPB_FLEET_HPP

#include <dpb_metrics.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#if __has_include(<hiredis/hiredis.h>)
#include <hiredis/hiredis.h>
#include <sys/time.h>
#endif
#if __has_include(<hiredis/hiredis_ssl.h>)
#include <hiredis/hiredis_ssl.h>
#endif

namespace dpb::fleet {

using Milliseconds = std::chrono::milliseconds;

/// Runs a command for the store, and returns the reply of its script. Throws if it fails, or has not ended after
/// timeout_ms. Both threads of a node call it: one for the commands of kind DPB_COMMAND_ROUND, and one for all others.
using Store = std::function<std::string(const Command &)>;

/// The secret key for dpb_config.fleet_key, which all nodes of a fleet share.
using Key = std::array<std::uint8_t, 32>;

namespace detail {

/// Removes the end of a line, which is "\n" or "\r\n".
inline void remove_line_end(std::string &line) {
  for (const char end : {'\n', '\r'}) {
    if (!line.empty() && line.back() == end) {
      line.pop_back();
    }
  }
}

} // namespace detail

/// Reads a key from a file: 32 bytes, or 64 hexadecimal digits on a line. Throws if the file has something else, or if
/// other users can read it.
[[nodiscard]] inline Key read_key(const std::filesystem::path &file) {
  const auto refusal = [&](const char *why) { return std::runtime_error(file.string() + ": " + why); };
  std::ifstream open(file, std::ios::binary);
  if (!open) {
    throw refusal("cannot be read");
  }
  constexpr auto others = std::filesystem::perms::group_all | std::filesystem::perms::others_all;
  if ((std::filesystem::status(file).permissions() & others) != std::filesystem::perms::none) {
    throw refusal("other users can read it: chmod 600");
  }
  Key key = {};
  std::string text(2 * key.size() + 3, '\0');
  open.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(open.gcount()));
  if (text.size() != key.size()) {
    detail::remove_line_end(text);
  }
  const bool is_hex =
      text.size() == 2 * key.size() && text.find_first_not_of("0123456789abcdefABCDEF") == text.npos;
  if (!is_hex && text.size() != key.size()) {
    throw refusal("not a fleet key: must be 32 bytes, or 64 hexadecimal digits");
  }
  for (std::size_t i = 0; i < key.size(); ++i) {
    const auto digits = [&] { return std::strtoul(text.substr(2 * i, 2).c_str(), nullptr, 16); };
    key[i] = static_cast<std::uint8_t>(is_hex ? digits() : static_cast<unsigned char>(text[i]));
  }
  return key;
}

#if __has_include(<hiredis/hiredis.h>)

/// A client of Redis or Valkey, as a Store: a connection for each thread of a node, made when it is needed and again
/// after every error. Copies share the connections. In a cluster it asks the server that has the fleet's keys.
class Hiredis {
public:
  /// What is done with a new connection at first. Returns REDIS_OK, or the error is in the context.
  using Secure = std::function<int(redisContext *)>;

  /// address: "HOST:PORT", or the path of a socket, which has a slash. Of a cluster: some of its servers, with commas
  /// between them; after an error it asks the next one. password: empty for none. user: of the access control list;
  /// empty for the default one. secure: such as `tls`.
  explicit Hiredis(const std::string &address, const std::string &password = "", const std::string &user = "",
                   const Secure &secure = nullptr)
      : lanes_(std::make_shared<std::array<Connection, 2>>()) {
    std::vector<std::string> addresses;
    for (std::size_t begin = 0, end = 0; end != address.npos; begin = end + 1) {
      end = address.find(',', begin);
      const std::string one = address.substr(begin, end == address.npos ? end : end - begin);
      if (one.find('/') == one.npos && port(one) == 0) {
        throw std::invalid_argument("redis: an address must be HOST:PORT or a socket's path, got \"" + one + '"');
      }
      addresses.push_back(one);
    }
    for (Connection &connection : *lanes_) {
      connection.addresses = addresses;
      connection.password = password;
      connection.user = user;
      connection.secure = secure;
    }
  }

#if __has_include(<hiredis/hiredis_ssl.h>)
  /// TLS, for `secure`: hiredis 1.0 or newer, and -lhiredis_ssl -lssl -lcrypto. Files have the PEM format. authorities:
  /// who signs the certificates of servers; hiredis need not compare their names, so take one that signs no others.
  /// certificate, key: this process' own, if Redis asks for one. server: the name to ask for (SNI). Throws if it cannot
  /// read them.
  [[nodiscard]] static Secure tls(const std::string &authorities, const std::string &certificate = "",
                                  const std::string &key = "", const std::string &server = "") {
    const auto given = [](const std::string &text) { return text.empty() ? nullptr : text.c_str(); };
    redisInitOpenSSL();
    redisSSLContextError error = REDIS_SSL_CTX_NONE;
    const std::shared_ptr<redisSSLContext> context(
        redisCreateSSLContext(given(authorities), nullptr, given(certificate), given(key), given(server), &error),
        [](redisSSLContext *made) { redisFreeSSLContext(made); });
    if (!context) {
      throw std::runtime_error(std::string("redis: ") + redisSSLContextGetError(error));
    }
    return [context](redisContext *connection) { return redisInitiateSSLWithContext(connection, context.get()); };
  }
#endif

  /// The first line of a file, for `password`. Throws if it is empty.
  [[nodiscard]] static std::string read_password(const std::filesystem::path &file) {
    std::ifstream open(file);
    std::string password;
    std::getline(open, password);
    detail::remove_line_end(password);
    return password.empty() ? throw std::runtime_error(file.string() + ": no password") : password;
  }

  std::string operator()(const Command &command) const {
    Connection &connection = (*lanes_)[command.kind == DPB_COMMAND_ROUND ? 0 : 1];
    try {
      return connection.run(command);
    } catch (...) {
      connection.context.reset(); // a reply to this command may still arrive
      throw;
    }
  }

private:
  using Clock = std::chrono::steady_clock;
  struct Free {
    void operator()(redisContext *context) const { redisFree(context); }
    void operator()(redisReply *reply) const { freeReplyObject(reply); }
  };
  using Reply = std::unique_ptr<redisReply, Free>;

  static unsigned long port(const std::string &address) {
    const std::size_t colon = address.rfind(':');
    const std::string digits = colon == address.npos || colon == 0 ? "" : address.substr(colon + 1);
    const bool is_number = !digits.empty() && digits.find_first_not_of("0123456789") == digits.npos;
    const unsigned long number = is_number && digits.size() <= 5 ? std::stoul(digits) : 0;
    return number <= 65535 ? number : 0;
  }

  struct Connection {
    std::vector<std::string> addresses;
    std::size_t next = 0; // of the addresses
    std::string password, user;
    Secure secure;
    std::unique_ptr<redisContext, Free> context;

    std::string run(const Command &command) {
      const auto deadline = Clock::now() + std::min(Milliseconds(command.timeout_ms), PATIENCE);
      if (!context) {
        connect(addresses[next++ % addresses.size()], deadline);
      }
      const std::string count = std::to_string(command.keys_len);
      std::vector<std::string_view> words{"EVALSHA", command.sha1, count};
      for (const auto &[first, n] : {std::pair(command.keys, command.keys_len), {command.args, command.args_len}}) {
        std::for_each(first, first + n, [&](const dpb_bytes &word) {
          words.emplace_back(reinterpret_cast<const char *>(word.bytes), word.len);
        });
      }
      bool is_moving = false; // the cluster moves the keys to this server
      const auto send = [&] {
        if (is_moving) {
          insist(*ask({"ASKING"}, deadline));
        }
        return ask(words, deadline);
      };
      Reply reply = send();
      // All keys of a fleet are on one server, so the connection stays there.
      for (int hops = 0; hops < 5 && (is_error(*reply, "MOVED ") || is_error(*reply, "ASK ")); ++hops) {
        is_moving = is_error(*reply, "ASK ");
        connect(std::string(text(*reply).substr(text(*reply).rfind(' ') + 1)), deadline);
        reply = send();
      }
      if (is_error(*reply, "NOSCRIPT ")) {
        words[0] = "EVAL";
        words[1] = command.script;
        reply = send();
      }
      insist(*reply);
      return std::string(text(*reply));
    }

    void connect(const std::string &to, Clock::time_point deadline) {
      const bool is_socket = to.find('/') != to.npos;
      const std::string host = to.substr(0, to.rfind(':'));
      context.reset(is_socket ? redisConnectUnixWithTimeout(to.c_str(), left(deadline))
                              : redisConnectWithTimeout(host.c_str(), static_cast<int>(port(to)), left(deadline)));
      check(context && context->err == 0 ? REDIS_OK : REDIS_ERR);
      if (secure) {
        check(redisSetTimeout(context.get(), left(deadline)));
        check(secure(context.get()));
      }
      if (!password.empty()) {
        std::vector<std::string_view> words{"AUTH", user, password};
        if (user.empty()) {
          words.erase(words.begin() + 1);
        }
        insist(*ask(words, deadline));
      }
      insist(*ask({"PING"}, deadline)); // without its password Redis calls a script a protocol error, and this NOAUTH
    }

    /// redisCommandArgv with a deadline for the whole command. The timeout of hiredis is for each read, so a reply that
    /// arrives byte by byte could take any time.
    Reply ask(const std::vector<std::string_view> &words, Clock::time_point deadline) {
      std::vector<const char *> begins;
      std::vector<std::size_t> sizes;
      for (const std::string_view word : words) {
        begins.push_back(word.data());
        sizes.push_back(word.size());
      }
      check(redisAppendCommandArgv(context.get(), static_cast<int>(words.size()), begins.data(), sizes.data()));
      for (int is_sent = 0; is_sent == 0;) {
        check(redisSetTimeout(context.get(), left(deadline)));
        check(redisBufferWrite(context.get(), &is_sent));
      }
      for (void *whole = nullptr;;) {
        check(redisGetReplyFromReader(context.get(), &whole));
        if (whole != nullptr) {
          return Reply(static_cast<redisReply *>(whole));
        }
        check(redisSetTimeout(context.get(), left(deadline)));
        check(redisBufferRead(context.get()));
      }
    }

    static std::string_view text(const redisReply &reply) {
      return reply.str != nullptr ? std::string_view(reply.str, reply.len) : std::string_view();
    }

    static bool is_error(const redisReply &reply, std::string_view code) {
      return reply.type == REDIS_REPLY_ERROR && text(reply).substr(0, code.size()) == code;
    }

    static void insist(const redisReply &reply) {
      if (reply.type != REDIS_REPLY_STRING && reply.type != REDIS_REPLY_STATUS) {
        throw std::runtime_error(reply.type == REDIS_REPLY_ERROR ? "redis: " + std::string(text(reply))
                                                                 : "redis: a reply of another type");
      }
    }

    void check(int status) const {
      if (status != REDIS_OK) {
        const bool is_late = context && context->err == REDIS_ERR_IO && errno == EAGAIN;
        throw std::runtime_error(is_late ? LATE : "redis: " + (context ? std::string(context->errstr) : "no memory"));
      }
    }

    static timeval left(Clock::time_point deadline) {
      const auto time = std::chrono::duration_cast<std::chrono::microseconds>(deadline - Clock::now()).count();
      if (time <= 0) { // hiredis has no timeout if it is 0
        throw std::runtime_error(LATE);
      }
      return {static_cast<time_t>(time / 1'000'000), static_cast<suseconds_t>(time % 1'000'000)};
    }

    static constexpr Milliseconds PATIENCE{5000}; // a process that ends waits for a command in flight
    static constexpr const char *LATE = "redis: no reply in time";
  };

  std::shared_ptr<std::array<Connection, 2>> lanes_;
};

#endif

/// The options of a node: dpb_node_options, except for its name, and those of this file.
struct Options : NodeOptions {
  Options() noexcept : NodeOptions(nullptr) {}
  /// The policy's name; empty: the one that dpb_new takes.
  std::string policy;
  /// With DPB_CLOCK_CALLER: the time for dpb_advance, in ticks of tick_ms. The node sets the bandit's clock by it
  /// several times in each delay_ms. Do not call dpb_advance yourself: a process that stood still must cancel first.
  std::function<std::uint64_t()> clock = [] {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    return static_cast<std::uint64_t>(std::chrono::duration_cast<Milliseconds>(now).count());
  };
  /// Receives what the operator may want to know, from the node's threads.
  std::function<void(const std::string &)> log = [](const std::string &text) {
    std::fprintf(stderr, "fleet: %s\n", text.c_str());
  };
  /// The constructor fails if the store does not answer within this time.
  Milliseconds patience{5000};
};

/// A node of a fleet: a dpb::Node, and two threads that run its commands.
class Node {
public:
  /// Joins. A number that a killed process had is free after 30 delays: until then the constructor waits. Throws
  /// dpb::Error if an argument is refused, and std::runtime_error if the store does not answer, or has a snapshot of
  /// another bandit. config.node: the number of this process; 0: the lowest that is free.
  Node(Store store, const std::string &name, const Config &config, Options options = {})
      : name_(name), options_(std::move(options)), store_(std::move(store)),
        has_clock_(config.clock == DPB_CLOCK_CALLER), node_(make(config)) {
    threads_[0] = std::thread([this] { run(Lane::rounds); });
    threads_[1] = std::thread([this] { run(Lane::exchanges); });
    std::unique_lock alone(lock_);
    const auto has_joined = [&] { return running_ < 2 || (is_timed_ && (bandit_ = node_.bandit())); };
    const auto has_answer = [&] { return has_joined() || has_answered_; };
    if (changed_.wait_for(alone, options_.patience, has_answer)) {
      changed_.wait_for(alone, options_.patience + 40 * Milliseconds(options_.delay_ms), has_joined);
    }
    if (!bandit_) {
      const std::string why = report().last_error;
      alone.unlock();
      end();
      throw std::runtime_error(why.empty() ? "the node could not join" : why);
    }
  }

  /// Leaves, unless it was tried.
  ~Node() {
    if (!leaves_) {
      (void)leave();
    }
    end();
  }
  Node(const Node &) = delete;
  Node &operator=(const Node &) = delete;

  /// The node's bandit. Report rewards to the node, begin periods by it, and leave the clock to it.
  [[nodiscard]] Bandit &bandit() noexcept { return *bandit_; }
  /// The node without threads.
  [[nodiscard]] const dpb::Node &core() const noexcept { return node_; }
  /// The name of the fleet's bandit.
  [[nodiscard]] const std::string &name() const noexcept { return name_; }

  /// Reports the reward of a decision of any node (dpb_node_update). Never waits for the store.
  void update(std::uint64_t ticket, double reward) { node_.update(ticket, reward); }
  [[nodiscard]] dpb_status try_update(std::uint64_t ticket, double reward) noexcept {
    return node_.try_update(ticket, reward);
  }
  /// The same for a part of a reward, with config.parts (dpb_node_update_part).
  void update_part(std::uint64_t ticket, std::uint32_t part, double value) { node_.update_part(ticket, part, value); }
  [[nodiscard]] dpb_status try_update_part(std::uint64_t ticket, std::uint32_t part, double value) noexcept {
    return node_.try_update_part(ticket, part, value);
  }
  /// Begins a period, and stores a snapshot at once. Until the store has kept it for settle_ms, the bandit learns
  /// nothing.
  void next_period() { node_.next_period(); }

  /// Hands over what this node has collected and, with a fleet key, its open decisions. Decide nothing meanwhile.
  /// Returns whether all was handed over within this time. The library needs 25 s at most, with its default options.
  bool leave(Milliseconds within = Milliseconds(25'000)) {
    node_.leave(now());
    std::unique_lock alone(lock_);
    leaves_ = true;
    changed_.wait_for(alone, within, [this] { return running_ == 0; });
    return state() == DPB_NODE_LEFT;
  }

  /// What anybody may know of the node: DPB_NODE_..., and whether a balancer may send it requests.
  [[nodiscard]] NodeReport report() const { return node_.report(now()); }
  /// Counts of rewards that travel. They are NOT private: show them to operators only.
  [[nodiscard]] NodeDiagnostics diagnostics() const { return node_.diagnostics(); }
  /// Whether the fleet has gone on without this node: another process has its number. End the process then.
  [[nodiscard]] bool is_replaced() const noexcept { return state() == DPB_NODE_REPLACED; }

private:
  static std::uint64_t now() noexcept {
    const auto time = std::chrono::steady_clock::now().time_since_epoch();
    return static_cast<std::uint64_t>(std::chrono::duration_cast<Milliseconds>(time).count());
  }

  dpb::Node make(const Config &config) {
    options_.name = name_.c_str();
    return {options_.policy.empty() ? nullptr : options_.policy.c_str(), config, options_};
  }

  std::uint32_t state() const noexcept {
    NodeReport read = {};
    return node_.try_report(now(), read) == DPB_OK ? read.state : static_cast<std::uint32_t>(DPB_NODE_FAILED);
  }

  /// Ends the threads.
  void end() {
    {
      const std::lock_guard alone(lock_);
      stops_ = true;
    }
    changed_.notify_all();
    std::for_each(threads_.begin(), threads_.end(), [](std::thread &thread) { thread.join(); });
  }

  /// A thread: one lane of the node.
  void run(Lane lane) {
    sigset_t pipe; // a client writes to sockets that the other side has closed
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe, nullptr);
    try {
      while (step(lane)) {
      }
    } catch (const std::exception &error) { // the node is poisoned
      options_.log(error.what());
    }
    const std::lock_guard alone(lock_);
    --running_;
    changed_.notify_all();
  }

  /// Runs the next command of a lane. Returns false when the node has ended.
  bool step(Lane lane) {
    const std::uint64_t ticks = has_clock_ && lane == Lane::rounds ? options_.clock() : 0;
    const auto command = node_.next(lane, now()); // it sees a time that is not before these ticks
    if (!command) {
      return false;
    }
    if (has_clock_ && lane == Lane::rounds) {
      advance(ticks);
    }
    if (command->kind == DPB_COMMAND_LOG) {
      options_.log(command->text);
    } else if (command->kind != DPB_COMMAND_WAIT) {
      answer(*command);
    }
    std::unique_lock alone(lock_);
    changed_.notify_all();
    return !changed_.wait_for(alone, Milliseconds(command->wait_ms), [this] { return stops_; });
  }

  void answer(const Command &command) {
    std::string reply;
    try {
      reply = store_(command);
    } catch (const std::exception &error) {
      return node_.failed(command.id, now(), error.what());
    }
    node_.reply(command.id, now(), reply);
    const std::lock_guard alone(lock_);
    has_answered_ = true;
  }

  /// Sets the bandit's clock. If the bandit refuses the time, its clock stands still until it takes one.
  void advance(std::uint64_t ticks) {
    auto bandit = node_.bandit();
    if (!bandit) {
      return;
    }
    const dpb_status status = bandit->try_advance(ticks);
    if (status != DPB_HALTED && std::exchange(clock_, status) != status) { // halted: it has left
      options_.log(std::string("the clock ") + (status == DPB_OK ? "goes on" : "stands still: ") +
                   (status == DPB_OK ? "" : dpb_status_name(status)));
    }
    const std::lock_guard alone(lock_);
    is_timed_ = true;
  }

  const std::string name_;
  Options options_;
  const Store store_;
  const bool has_clock_;
  dpb_status clock_ = DPB_OK; // of the last time that the bandit's clock was set
  dpb::Node node_;
  std::optional<Bandit> bandit_; // destroyed before the node
  std::mutex lock_;              // protects the following
  std::condition_variable changed_;
  int running_ = 2; // threads
  bool is_timed_ = !has_clock_; // the bandit has a time
  bool has_answered_ = false, leaves_ = false, stops_ = false;
  std::array<std::thread, 2> threads_;
};

/// A page of metrics for Prometheus of several nodes, each with its bandit's name as the label "bandit". The counts of
/// rewards are NOT private: show it to operators only.
[[nodiscard]] inline std::string metrics(const std::vector<const Node *> &nodes) {
  std::string page;
  std::vector<std::pair<NodeReport, NodeDiagnostics>> read;
  for (const Node *node : nodes) {
    read.emplace_back(node->report(), node->diagnostics());
  }
  const auto family = [&](const std::string &name, const char *kind, const char *help, const auto &value) {
    const std::string metric = "dpb_" + name;
    page += "# HELP " + metric + ' ' + help + "\n# TYPE " + metric + ' ' + kind + '\n';
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      page += metric + "{bandit=\"" + dpb::detail::escaped(nodes[i]->name()) + "\"} " +
              dpb::detail::number(value(read[i].first, read[i].second)) + '\n';
    }
  };
  const auto of_report = [&](const char *name, const char *kind, const char *help, auto NodeReport::*field,
                             double scale = 1) {
    family(name, kind, help, [&](const NodeReport &report, auto &) { return static_cast<double>(report.*field) * scale; });
  };
  const auto of_rewards = [&](const char *name, const char *kind, const char *help, auto NodeDiagnostics::*field) {
    family(name, kind, help, [&](auto &, const NodeDiagnostics &counts) { return counts.*field; });
  };
  if (nodes.empty()) {
    return page;
  }
  // begin generated node_report
  of_report("fleet_ready", "gauge", "1 if a balancer may send this node requests.", &NodeReport::ready);
  of_report("fleet_outage", "gauge", "1 while rewards cannot travel between nodes, so that decisions are cancelled.", &NodeReport::outage);
  of_report("fleet_outages_total", "counter", "Outages: periods in which rewards could not travel between nodes.", &NodeReport::outages);
  of_report("fleet_learns", "gauge", "1 if this node may learn from people: the store has kept a snapshot that counts this period.", &NodeReport::learns);
  of_report("fleet_leads", "gauge", "1 while this node leads: it releases what all nodes contribute.", &NodeReport::leads);
  of_report("fleet_nodes", "gauge", "Nodes that are alive, this one included.", &NodeReport::nodes);
  of_report("fleet_released_nodes", "gauge", "Other nodes from which this node has read a snapshot, also nodes that have left.", &NodeReport::released);
  of_report("fleet_incompatible_nodes", "gauge", "Other nodes whose newest snapshot was refused.", &NodeReport::incompatible);
  of_report("fleet_draining", "gauge", "Nodes that have ended, with whose open decisions this node continues.", &NodeReport::draining);
  of_report("fleet_exchanges_total", "counter", "Successful exchanges.", &NodeReport::exchanges);
  of_report("fleet_age_seconds", "gauge", "Seconds since the last successful exchange.", &NodeReport::age_ms, 1e-3);
  of_report("fleet_contributions_total", "counter", "Contributions to leaders that the store has accepted.", &NodeReport::contributions);
  // end generated node_report
  // begin generated rewards
  of_rewards("fleet_rewards_waiting", "gauge", "Rewards in the queue to other nodes. NOT private.", &NodeDiagnostics::waiting);
  of_rewards("fleet_rewards_sent_total", "counter", "Rewards sent to other nodes. NOT private.", &NodeDiagnostics::sent);
  of_rewards("fleet_rewards_unsent_total", "counter", "Rewards lost because the queue or a message was full. NOT private.", &NodeDiagnostics::unsent);
  of_rewards("fleet_rewards_received_total", "counter", "Rewards from other nodes that took effect. NOT private.", &NodeDiagnostics::received);
  of_rewards("fleet_rewards_refused_total", "counter", "Rewards from other nodes that were refused. NOT private.", &NodeDiagnostics::refused);
  of_rewards("fleet_failures_total", "counter", "Commands to the store that failed. NOT private: some fail only if there are rewards.", &NodeDiagnostics::failures);
  // end generated rewards
  return page;
}

} // namespace dpb::fleet

#endif // DPB_FLEET_HPP
