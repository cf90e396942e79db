// An ad server that learns which ads are clicked, with differential privacy for the clicks. It uses dpb.hpp,
// Boost.Beast (in serve.hpp) and hiredis (in dpb_fleet.hpp): apt-get install libboost-dev libhiredis-dev.
// After `cargo build --release`:
//
//   c++ -std=c++20 -O2 examples/cpp/ad_server.cpp -I include -I bindings/cpp target/release/libdpb.a
//       -lhiredis -lgcc_s -lutil -lrt -lpthread -lm -ldl -lc -o ad_server
//   ./ad_server --port 8080
//
// hiredis 1.0 or newer (Debian 13) also needs -lhiredis_ssl -lssl -lcrypto: the server then has TLS.
//
// GET /ad chooses a creative, GET /click/<ticket> reports a click, GET /report returns released values only, GET
// /healthz reports whether the server can decide, and / is a live page. A production server would also authenticate its
// callers.
//
// With --placements N, GET /ads?placement=17&slots=3&user=9f3c51a277d0e846 chooses a creative for each slot of a
// placement. A segmented bandit learns for each placement, with user-level privacy in each period.
//
// A click always gets the same empty response, whether it is in time, duplicate, late or forged, because the status
// reveals rewards. With --operator-port, GET /diagnostics returns the counts of refused clicks, to the same machine
// only.
//
// With --sales an ad earns by parts: a click, what the visitor buys, and what comes back. The shop's own program reports
// purchases and returns, in euros, on the operator's port: GET /bought/<ticket>?euros=39.90, and /returned/... What comes
// after the window does not count.
//
// With --window 30m a click counts if it comes within half an hour after its ad. The server sets the bandits' clock at
// each ad and once a second, but never at a click, because time must not depend on rewards.
//
// With --snapshot FILE the server continues after a restart with what it has learned, also after kill -9: see
// serve::save. With --fleet-key-file FILE too a restart loses nothing, and tickets stay valid: see serve::suspend.
//
// With --redis ADDRESS --node N (or auto) many servers in C++ and Go learn together: see dpb_fleet.hpp. Any server accepts
// any click: the first four digits of the ticket are the number of the server that decided, plus 0x8000 for an ad of a
// placement. The placements are a second bandit in Redis. With --fleet-key-file FILE one server releases what all collect. Send
// each person to one server: a person who reaches n servers loses up to n times epsilon.
//
// With --threads N each thread has its own bandit, for machines on which one lock is too slow. The bandits merge each
// other's releases, as in examples/c/cores.c. Any thread accepts any click, because the ticket names the bandit.
//
// To simulate a day of visitors with a change at noon, run
// cargo run --release --example ad_server -- --visit http://127.0.0.1:8080
#include "serve.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace http = serve::http;
namespace fleet = dpb::fleet;
using serve::Page, serve::Request, serve::success;

static constexpr std::array<const char *, 10> CREATIVES = {
    "mountain bike", "espresso machine", "rain jacket", "chess lessons", "garden hose",
    "night train",   "reading lamp",     "bread knife", "wool socks",    "folding kayak"};

// forget_after: half the time between changes. The best ad of the simulated day changes after 100'000 visitors.
static constexpr std::uint64_t FORGET_AFTER = 50'000;
// forget_after in milliseconds, for windows of time: half a day.
static constexpr std::uint64_t HALF_A_DAY = 12 * 3'600'000;

// reward_window in decisions: an ad without a click after this many later decisions has reward 0.
static constexpr std::uint32_t WINDOW = 1000;

// With a bandit for each thread: the number of decisions of a thread after which the others merge its releases.
static constexpr std::uint64_t MERGE_EVERY = 1000;

static constexpr unsigned MAX_THREADS = 64;

// The node of a placements' bandit is the server's number plus this. Nodes of the other bandits are smaller.
static constexpr std::uint16_t PLACEMENTS_FROM = 0x8000;

// contributions_per_user: the bandit learns from at most this many slots of a person in a period.
static constexpr std::uint32_t CONTRIBUTIONS = 12;

// The page of all three servers, as a path from the directory in which the compiler runs. Go can embed files only from
// its source's directory, so the page is there.
asm(R"(.pushsection .rodata
page: .incbin "examples/go/adserver/page.html"
page_end: .popsection)");
extern const char PAGE[] asm("page");
extern const char PAGE_END[] asm("page_end");

// The pages.

struct Shop {
  std::vector<dpb::Bandit> bandits; // one, or one for each thread: nodes 1, 2, ... In a fleet they are the nodes'
  std::uint64_t memory;             // their forget_after
  serve::Span window;               // their reward_window
  bool in_fleet;                    // then the nodes set the clock
  std::string name;                 // on pages of metrics
  std::optional<dpb::Bandit> segmented; // has a segment for each placement, for all threads
  std::uint32_t placements = 0;

  // Sets a bandit's clock if windows are times.
  void tick(dpb::Bandit &bandit) const {
    if (window.is_time && !in_fleet) {
      serve::set_clock(bandit, serve::milliseconds());
    }
  }

  void tick() {
    for (dpb::Bandit &bandit : bandits) {
      tick(bandit);
      serve::log_leaps(bandit);
    }
    if (segmented) {
      tick(*segmented);
      serve::log_leaps(*segmented);
    }
  }

  // Fields of a report that all bandits share.
  std::string clock() const {
    return ",\"clock\":\"" + std::string(window.is_time ? "milliseconds" : "decisions") +
           "\",\"window\":" + std::to_string(window.ticks) + ",\"memory\":" + std::to_string(memory);
  }

  // The bandit of this thread.
  dpb::Bandit &own() {
    static std::atomic<std::size_t> threads = 0;
    thread_local const std::size_t thread = threads++;
    return bandits[thread % bandits.size()];
  }

  // The bandit that issued the ticket. If there is none, any bandit refuses the ticket.
  dpb::Bandit &of(std::uint64_t ticket) {
    return bandits[(dpb_ticket_node(ticket) + bandits.size() - 1) % bandits.size()];
  }

  bool of_placement(std::uint64_t ticket) const { return segmented && dpb_ticket_node(ticket) >= PLACEMENTS_FROM; }

  // Merges the releases of this bandit into the others. A snapshot does not contain what the bandit has merged.
  void merge_into_others(const dpb::Bandit &own) {
    const std::vector<std::uint8_t> released = own.snapshot();
    for (dpb::Bandit &other : bandits) {
      if (&other != &own) {
        other.merge(released);
      }
    }
  }

  dpb::NamedBandits named() const {
    dpb::NamedBandits named;
    for (const dpb::Bandit &bandit : bandits) {
      const std::string number = std::to_string(named.size() + 1);
      named.emplace_back(bandits.size() == 1 ? name : name + '-' + number, &bandit);
    }
    if (segmented) {
      named.emplace_back(name + "-placements", &*segmented);
    }
    return named;
  }
};

// JSON has no NaN (nothing released yet) and no infinity (a baseline's privacy loss).
static std::string number(double x) {
  char text[32];
  std::snprintf(text, sizeof text, "%.17g", x);
  return std::isfinite(x) ? text : "null";
}

// For texts without characters that JSON escapes.
static std::string quoted(std::string_view text) { return "\"" + std::string(text) + "\""; }

static const char *truth(bool x) { return x ? "true" : "false"; }

static std::string ad(const dpb::Decision &decision) {
  char ticket[17];
  std::snprintf(ticket, sizeof ticket, "%016llx", static_cast<unsigned long long>(decision.ticket));
  return "{\"arm\":" + std::to_string(decision.arm) + ",\"creative\":" + quoted(CREATIVES[decision.arm]) +
         ",\"click_url\":\"/click/" + ticket + "\",\"propensity\":" + number(decision.propensity) + "}";
}

static Page show(Shop &shop) {
  dpb::Bandit &bandit = shop.own();
  shop.tick(bandit);
  const dpb::Decision decision = bandit.select();
  if (thread_local std::uint64_t decisions = 0; shop.bandits.size() > 1 && ++decisions % MERGE_EVERY == 0) {
    shop.merge_into_others(bandit);
  }
  return success(ad(decision));
}

// The placement that a request names.
static std::optional<std::uint32_t> placement(const Shop &shop, const Request &request) {
  const auto placement = serve::parse<std::uint32_t>(serve::parameter(request.query, "placement").value_or(""));
  return placement && *placement < shop.placements ? placement : std::nullopt;
}

static Page bad(const char *what, const std::string &message) {
  return serve::failure(http::status::bad_request, std::string("bad_") + what, message);
}

static Page bad_placement(const Shop &shop) {
  return bad("placement", "placement=P, 0 to " + std::to_string(shop.placements - 1));
}

// The user that a request names. All visitors without a hash are one user: the bandit learns from them as from one
// person.
static std::optional<std::uint64_t> parse_user(const Request &request) {
  const auto text = serve::parameter(request.query, "user");
  const auto user = serve::parse<std::uint64_t>(text.value_or("0"), 16);
  return !text || text->size() == 16 ? user : std::nullopt;
}

// Chooses a different creative for each slot of a placement. Each slot is a decision among the creatives that the
// request does not show yet.
static Page show_slots(Shop &shop, const Request &request) {
  const auto segment = placement(shop, request);
  if (!segment) {
    return bad_placement(shop);
  }
  const auto slots = serve::parse<std::uint32_t>(serve::parameter(request.query, "slots").value_or(""));
  if (!slots || *slots < 1 || *slots > CREATIVES.size()) {
    return bad("slots", "slots=N, 1 to " + std::to_string(CREATIVES.size()));
  }
  const auto user = parse_user(request);
  if (!user) {
    return bad("user", "user=HASH, 16 hexadecimal digits, or none");
  }
  std::vector<std::uint32_t> left(CREATIVES.size());
  std::iota(left.begin(), left.end(), 0);
  dpb::Request one;
  one.segment = *segment;
  one.user = *user;
  std::string ads;
  shop.tick(*shop.segmented);
  for (std::uint32_t slot = 0; slot < *slots; ++slot) {
    const dpb::Decision decision = shop.segmented->select(one.among(left));
    left.erase(std::find(left.begin(), left.end(), decision.arm));
    ads += (slot > 0 ? "," : "") + ad(decision);
  }
  return success("{\"placement\":" + std::to_string(*segment) + ",\"ads\":[" + ads + "]}");
}

// This server's nodes in its fleets: one for its bandit, one for the placements' bandit. Both are empty without a
// fleet.
struct Nodes {
  std::optional<fleet::Node> bandit, segmented;

  std::vector<const fleet::Node *> all() const {
    std::vector<const fleet::Node *> all;
    for (const auto *node : {&bandit, &segmented}) {
      if (*node) {
        all.push_back(&**node);
      }
    }
    return all;
  }

  // Hands over to the other servers, at once for both.
  void leave() {
    std::thread other([this] { segmented ? (void)segmented->leave() : (void)0; });
    bandit ? (void)bandit->leave() : (void)0;
    other.join();
  }
};

// Always the same response, because the status reveals whether the ticket was clicked already. Without parts, part 0 is
// the reward.
static Page earn(Shop &shop, Nodes &nodes, std::string_view text, std::uint32_t part, double value) {
  if (const auto ticket = serve::parse<std::uint64_t>(text, 16); ticket && text.size() == 16) {
    const bool of_placement = shop.of_placement(*ticket);
    if (auto &node = of_placement ? nodes.segmented : nodes.bandit) {
      (void)node->try_update_part(*ticket, part, value); // the operator's counts have the refusals
    } else {
      dpb::Bandit &bandit = of_placement ? *shop.segmented : shop.of(*ticket);
      (void)bandit.try_update_part(*ticket, part, value);
    }
  }
  return serve::nothing();
}

// The released values of one placement; there are none before its first request. Counts and losses are of all
// placements.
static Page report_placement(Shop &shop, std::uint32_t segment) {
  const dpb::Report report = shop.segmented->report();
  std::vector<dpb::Arm> read(CREATIVES.size());
  std::size_t n = 0;
  if (shop.segmented->try_segment(segment, read.data(), read.size(), n) == DPB_INVALID_REQUEST) {
    std::for_each(read.begin(), read.end(), [](dpb::Arm &arm) { arm.mean = NAN; });
  }
  std::string arms;
  for (std::size_t i = 0; i < read.size(); ++i) {
    arms += std::string(i > 0 ? "," : "") + "{\"creative\":" + quoted(CREATIVES[i]) +
            ",\"mean\":" + number(read[i].mean) + ",\"effective_pulls\":" + number(read[i].effective_pulls) +
            ",\"pulls\":" + std::to_string(read[i].pulls) + "}";
  }
  return success("{\"placement\":" + std::to_string(segment) + ",\"is_private\":" + truth(report.is_private) +
                 ",\"epsilon_spent\":" + number(report.epsilon_spent) +
                 ",\"delta_spent\":" + number(report.delta_spent) + shop.clock() +
                 ",\"releases\":" + std::to_string(report.phase) +
                 ",\"decisions\":" + std::to_string(report.decisions) +
                 ",\"pending\":" + std::to_string(report.pending) + ",\"arms\":[" + arms + "]}");
}

// Released values only: those of the first bandit after all merges, and the counts of all bandits.
static Page report_all(Shop &shop) {
  dpb::Bandit &first = shop.bandits.front();
  for (std::size_t other = 1; other < shop.bandits.size(); ++other) {
    first.merge(shop.bandits[other].snapshot());
  }
  dpb::Report report = first.report();
  std::vector<dpb::Arm> read = first.arms();
  for (std::size_t other = 1; other < shop.bandits.size(); ++other) {
    const dpb::Report more = shop.bandits[other].report();
    report.decisions += more.decisions;
    report.pending += more.pending;
    report.epsilon_spent = std::max(report.epsilon_spent, more.epsilon_spent); // one reward is in one bandit
    const std::vector<dpb::Arm> arms = shop.bandits[other].arms();
    for (std::size_t i = 0; i < read.size(); ++i) {
      read[i].pulls += arms[i].pulls;
    }
  }
  std::string arms;
  for (std::size_t i = 0; i < read.size(); ++i) {
    arms += std::string(i > 0 ? "," : "") + "{\"creative\":" + quoted(CREATIVES[i]) +
            ",\"mean\":" + number(read[i].mean) + ",\"width\":" + number(read[i].width) +
            ",\"effective_pulls\":" + number(read[i].effective_pulls) +
            ",\"pulls\":" + std::to_string(read[i].pulls) + ",\"active\":" + truth(read[i].active) + "}";
  }
  dpb::Verdict verdict = {};
  dpb::Interval lift = {};
  const bool is_test = first.try_verdict(verdict) == DPB_OK;
  const bool has_lift = first.try_lift(dpb::no_arm, 0.95, lift) == DPB_OK; // over even play
  return success("{\"policy\":" + quoted(first.policy_name()) + ",\"is_private\":" + truth(report.is_private) +
                 ",\"epsilon_spent\":" + number(report.epsilon_spent) +
                 ",\"delta_spent\":" + number(report.delta_spent) + shop.clock() +
                 ",\"changes_detected\":" + std::to_string(report.changes_detected) +
                 ",\"phase\":" + std::to_string(report.phase) +
                 ",\"winner\":" + (report.stopped == 1 ? std::to_string(report.best_arm) : "null") +
                 ",\"verdict\":" + (is_test ? ::quoted(dpb::Bandit::verdict_text(verdict)) : "null") +
                 ",\"lift\":" + (has_lift ? "[" + number(lift.low) + "," + number(lift.high) + "]" : "null") +
                 ",\"decisions\":" + std::to_string(report.decisions) +
                 ",\"pending\":" + std::to_string(report.pending) + ",\"arms\":[" + arms + "]}");
}

static Page report(Shop &shop, serve::Copies &copies, const Request &request) {
  if (!shop.segmented || !serve::parameter(request.query, "placement")) {
    return copies.get(shop.placements, [&] { return report_all(shop); });
  }
  const auto segment = placement(shop, request);
  return segment ? copies.get(*segment, [&] { return report_placement(shop, *segment); }) : bad_placement(shop);
}

// What the server guarantees: the copies for threads have one configuration and one guarantee.
static Page privacy(const Shop &shop, bool as_json) {
  std::vector<const dpb::Bandit *> all = {&shop.bandits.front()};
  if (shop.segmented) {
    all.push_back(&*shop.segmented);
  }
  return serve::privacy(all, as_json);
}

// Reports whether the server can decide. A handle that is poisoned after an internal failure cannot.
static Page health(const Shop &shop) {
  for (const dpb::Bandit &bandit : shop.bandits) {
    (void)bandit.diagnostics();
  }
  if (shop.segmented) {
    (void)shop.segmented->diagnostics();
  }
  return serve::health();
}

// Whether this server can forward clicks too. A server whose number another process has must end: /healthz is then 503.
static Page ready(const Shop &shop, const Nodes &nodes) {
  const std::vector<const fleet::Node *> all = nodes.all();
  const bool is_ready = std::all_of(all.begin(), all.end(), [](const auto *node) { return node->report().ready == 1; });
  return is_ready ? health(shop)
                  : serve::page(http::status::service_unavailable, "text/plain", "clicks cannot be forwarded\n");
}

static Page health(const Shop &shop, const Nodes &nodes) {
  const std::vector<const fleet::Node *> all = nodes.all();
  const bool is_replaced = std::any_of(all.begin(), all.end(), [](const auto *node) { return node->is_replaced(); });
  return is_replaced ? serve::page(http::status::service_unavailable, "text/plain", "another process has its number\n")
                     : health(shop);
}

// NOT private: a duplicate reveals a click.
static Page diagnostics(const Shop &shop) {
  dpb::Diagnostics counts = {};
  const auto add = [&](const dpb::Diagnostics &more) {
    counts.duplicates += more.duplicates;
    counts.late += more.late;
    counts.rejected += more.rejected;
    counts.unknown += more.unknown;
  };
  for (const dpb::Bandit &bandit : shop.bandits) {
    add(bandit.diagnostics());
  }
  if (shop.segmented) {
    add(shop.segmented->diagnostics());
  }
  return success("{\"duplicates\":" + std::to_string(counts.duplicates) + ",\"late\":" + std::to_string(counts.late) +
                 ",\"rejected\":" + std::to_string(counts.rejected) +
                 ",\"unknown\":" + std::to_string(counts.unknown) + "}");
}

static serve::Site visitors(Shop &shop, serve::Copies &copies, Nodes &nodes) {
  const auto get = http::verb::get;
  const auto page = [](auto &) {
    return serve::page(http::status::ok, "text/html; charset=utf-8", std::string(PAGE, PAGE_END));
  };
  serve::Site site = {
      {get, "/", page},
      {get, "/ad", [&](auto &) { return show(shop); }},
      {get, "/report", [&](const Request &request) { return report(shop, copies, request); }},
      {get, "/privacy", [&](auto &) { return privacy(shop, false); }},
      {get, "/privacy.json", [&](auto &) { return privacy(shop, true); }},
      {get, "/healthz", [&](auto &) { return health(shop, nodes); }},
      {get, "/readyz", [&](auto &) { return ready(shop, nodes); }},
      {get, "/metrics", [&](auto &) { return serve::metrics(dpb::metrics(shop.named())); }},
      {get, "/click/", [&](const Request &request) { return earn(shop, nodes, request.rest, 0, 1.0); }}};
  if (shop.segmented) {
    site.push_back({get, "/ads", [&](const Request &request) { return show_slots(shop, request); }});
  }
  return site;
}

// A purchase, or a return.
static Page sold(Shop &shop, Nodes &nodes, const Request &request, std::uint32_t part) {
  const std::string text(serve::parameter(request.query, "euros").value_or(""));
  char *end = nullptr;
  const double euros = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0' || !std::isfinite(euros) || euros < 0) {
    return serve::failure(http::status::bad_request, "bad_euros", "euros must be a number of euros");
  }
  return earn(shop, nodes, request.rest, part, euros);
}

static serve::Site operators(Shop &shop, Nodes &nodes, bool sales) {
  const auto get = http::verb::get;
  const auto metrics = [&](auto &) {
    return serve::metrics(dpb::operator_metrics(shop.named()) + fleet::metrics(nodes.all()));
  };
  serve::Site site = {{get, "/diagnostics", [&](auto &) { return diagnostics(shop); }},
                      {get, "/metrics", metrics}};
  if (sales) {
    site.push_back({get, "/bought/", [&](const Request &request) { return sold(shop, nodes, request, 1); }});
    site.push_back({get, "/returned/", [&](const Request &request) { return sold(shop, nodes, request, 2); }});
  }
  return site;
}

// The options of a fleet.
struct FleetOptions {
  std::string redis; // HOST:PORT, or a socket's path; empty: no fleet
  std::string bandit = "ads";
  std::uint16_t node = 0; // no other process of the fleet may have this number; 0: the lowest that is free
  bool is_numbered = false; // --node was given
  std::string user; // of Redis' access control list; empty: the default one
  std::filesystem::path password_file; // its first line is the password of that user; empty: no password
  std::filesystem::path ca_file; // who signs Redis' certificate; empty: no TLS
  std::filesystem::path certificate_file; // this server's own, with its key; empty: none
  serve::Span click_delay = {0, false};
  fleet::Options more;
  static constexpr std::uint32_t HOUR = 3'600'000;

  // Returns whether it is one of these options. Throws serve::UsageError if its value is not valid.
  bool take(std::string_view name, std::string_view value) {
    const bool is_plain = std::all_of(value.begin(), value.end(), [](unsigned char c) {
      return std::isalnum(c) || c == '_' || c == '-' || c == '.'; // no characters that need escapes
    });
    if (name == "--redis") {
      redis = value;
      try {
        (void)fleet::Hiredis(redis);
      } catch (const std::invalid_argument &) {
        throw serve::UsageError(name, "HOST:PORT or a socket's path", value);
      }
    } else if (name == "--bandit") {
      bandit = value;
      if (!is_plain || value.empty()) {
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
    } else if (name == "--redis-ca-file") {
      ca_file = serve::file(name, value);
    } else if (name == "--redis-certificate-file") {
      certificate_file = serve::file(name, value);
    } else if (name == "--merge-every") {
      more.interval_ms = serve::number<std::uint32_t>(name, value, 100, HOUR);
    } else if (name == "--delay") {
      const bool is_routed = value == "0";
      more.flags = is_routed ? DPB_NODE_ROUTED : 0;
      more.delay_ms = is_routed ? fleet::Options().delay_ms : serve::number<std::uint32_t>(name, value, 80, HOUR);
    } else if (name == "--click-delay") {
      click_delay = serve::span(name, value);
      more.click_delay = click_delay.ticks;
    } else if (name == "--send-rate") {
      more.send_rate = serve::number<std::uint32_t>(name, value, 1);
    } else {
      return false;
    }
    return true;
  }

  // Throws serve::UsageError if an option needs another one.
  void check(bool has_key, serve::Span window) const {
    if (click_delay.ticks > 0 && click_delay.is_time != window.is_time) {
      throw serve::UsageError("--window and --click-delay must both be times, or both be numbers of decisions");
    }
    if (redis.empty() == is_numbered) {
      throw serve::UsageError("--redis and --node need each other");
    }
    if (redis.empty() && !password_file.empty()) {
      throw serve::UsageError("--redis-password-file needs --redis");
    }
    if (redis.empty() && !ca_file.empty()) {
      throw serve::UsageError("--redis-ca-file needs --redis");
    }
    if (ca_file.empty() && !certificate_file.empty()) {
      throw serve::UsageError("--redis-certificate-file needs --redis-ca-file");
    }
    if (!user.empty() && password_file.empty()) {
      throw serve::UsageError("--redis-user needs --redis-password-file");
    }
    if (more.send_rate > 0 && !has_key) {
      throw serve::UsageError("--send-rate needs --fleet-key-file");
    }
    if (node >= PLACEMENTS_FROM) {
      throw serve::UsageError("--node", "at most 32767", std::to_string(node));
    }
  }

  fleet::Hiredis store() const {
    const std::string password = password_file.empty() ? "" : fleet::Hiredis::read_password(password_file);
    return fleet::Hiredis(redis, password, user, ca_file.empty() ? nullptr : tls());
  }

  fleet::Hiredis::Secure tls() const {
#if __has_include(<hiredis/hiredis_ssl.h>)
    return fleet::Hiredis::tls(ca_file, certificate_file, certificate_file);
#else
    throw std::runtime_error("--redis-ca-file: built without TLS, which hiredis has from version 1.0 on");
#endif
  }

  static constexpr const char *USAGE =
      "  --redis ADDRESS    learn together with the servers that share this Redis; HOST:PORT or a socket's path\n"
      "  --node N           number of this server among them, 1 to 32767; each server has its own. auto: the lowest\n"
      "                     that is free\n"
      "  --bandit NAME      name of the bandit that they share; default ads\n"
      "  --merge-every MS   interval of exchanges in milliseconds; default 5000, at least 100\n"
      "  --delay MS         longest time, in milliseconds, that a click at another server may take; while clicks take\n"
      "                     longer, decisions are cancelled; default 1000, at least 80; 0 if all clicks come to the\n"
      "                     server that showed the ad: then the servers do not check\n"
      "  --click-delay SPAN most clicks come within this time after their ad: if clicks cannot travel for a while, no\n"
      "                     decision that was made longer before is cancelled; default 0: the --window, whose kind\n"
      "                     it has\n"
      "  --send-rate N      with --fleet-key-file: send each other server a message of one length eight times in a\n"
      "                     --delay, with space for at least N clicks a second, so that Redis does not show how many\n"
      "                     travel. A click that finds no space is lost. Default: send each click at once\n"
      "  --redis-user NAME  with a password: the user of Redis' access control list; without it, the default user\n"
      "  --redis-password-file FILE  the first line is the password of Redis\n"
      "  --redis-ca-file FILE  use TLS: the certificates of those who sign that of Redis (PEM); names are not\n"
      "                     compared, so take an authority that signs for no others\n"
      "  --redis-certificate-file FILE  with --redis-ca-file: the server's own certificate and its key, if Redis\n"
      "                     asks for one (PEM)\n"
      "                     With --redis and --fleet-key-file, which is then the same for all servers, one server\n"
      "                     releases what all collect, with one noise, and clicks travel sealed\n";
};

// With --sales, the earnings of a click, of a euro bought, and of a euro returned. A visitor who spends 95 euros or more
// earns an ad as much as an ad can earn.
constexpr double EARNINGS[] = {0.05, 0.01, -0.01};

struct Options : serve::Options {
  serve::Span window = {WINDOW, false};
  std::optional<serve::Span> memory;
  bool sales = false;
  unsigned bandits = 1; // as many as threads, or one
  std::uint32_t placements = 0;
  std::uint32_t users = 100'000; // expected in a period
  std::chrono::seconds period = std::chrono::hours(24);
  FleetOptions fleet;

  // Whether the server leaves its state to the next one. In a fleet it hands over what it can to the other servers.
  bool leaves_state() const { return !key_file.empty() && fleet.redis.empty(); }

  // The file for the snapshots of the placements' bandit; empty: none.
  std::filesystem::path segmented_snapshot() const { return snapshot.empty() ? "" : snapshot.string() + ".placements"; }
};

static Options parse_options(int argc, char **argv) {
  Options options;
  serve::read_options(argc, argv, [&](std::string_view name, std::string_view value) {
    if (name == "--memory") {
      options.memory = serve::span(name, value);
    } else if (name == "--window") {
      options.window = serve::window(name, value);
    } else if (name == "--threads") {
      options.bandits = options.threads = serve::number(name, value, 1U, MAX_THREADS);
    } else if (name == "--placements") {
      options.placements = serve::number<std::uint32_t>(name, value);
    } else if (name == "--users") {
      options.users = serve::number<std::uint32_t>(name, value, 1);
    } else if (name == "--period") {
      options.period = std::chrono::seconds(serve::number<std::uint32_t>(name, value, 1));
    } else {
      return options.take(name, value) || options.fleet.take(name, value);
    }
    return true;
  }, [&](std::string_view name) { return name == "--sales" && (options.sales = true); });
  if (options.sales && !options.operator_port) {
    throw serve::UsageError("--sales needs --operator-port, which takes purchases and returns");
  }
  options.fleet.check(!options.key_file.empty(), options.window);
  if (options.leaves_state() && options.snapshot.empty()) {
    throw serve::UsageError("--fleet-key-file needs --snapshot or --redis");
  }
  if (options.bandits > 1 && !(options.fleet.redis.empty() && options.snapshot.empty())) {
    throw serve::UsageError("--threads: several bandits cannot share a file (--snapshot) or a node (--redis)");
  }
  if (options.fleet.is_numbered && options.fleet.node == 0 && !options.snapshot.empty()) {
    throw serve::UsageError("--node auto continues from Redis, and so takes no --snapshot");
  }
  // One clock counts both.
  if (options.memory && options.memory->ticks > 0 && options.memory->is_time != options.window.is_time) {
    throw serve::UsageError("--window and --memory must both be times, or both be numbers of decisions");
  }
  return options;
}

// The configuration of a bandit with a segment for each placement; the key is the placement's number. Epsilon is for all
// rewards of a person in a period, at this server. A bandit that is restored from a snapshot begins a new period, because
// a snapshot does not contain the counts of people.
static dpb::Config segmented(const Options &options, dpb::Config config) {
  config.node += PLACEMENTS_FROM;
  config.expected_users = options.users;
  config.contributions_per_user = CONTRIBUTIONS;
  config.max_segments = options.placements;
  return config;
}

// Fewer placements than in the snapshot are refused: segments of removed placements would count towards max_segments.
static dpb::Bandit make_segmented(const Options &options, const dpb::Config &config) {
  const std::filesystem::path file = options.segmented_snapshot();
  const auto there = serve::restored(file, [](auto... snapshot) { return dpb::Bandit::try_restore(snapshot...); });
  if (const std::uint32_t before = there ? there->report().max_segments : 0; before > options.placements) {
    throw std::runtime_error(file.string() + ": placements must be at least " + std::to_string(before) +
                             ", as in the snapshot, got " + std::to_string(options.placements));
  }
  return serve::resume(dpb::Bandit(config), config, file);
}

// Joins the fleet of the bandit with this name. Returns the node's bandit.
static dpb::Bandit join(std::optional<fleet::Node> &node, const Options &options, const std::string &name,
                        const std::string &policy, const dpb::Config &config, const std::filesystem::path &file) {
  const std::vector<std::uint8_t> snapshot = serve::load_for_fleet(file);
  fleet::Options more = options.fleet.more;
  more.policy = policy;
  more.snapshot = snapshot.empty() ? nullptr : snapshot.data();
  more.snapshot_len = snapshot.size();
  node.emplace(options.fleet.store(), name, config, std::move(more));
  return std::move(*node->core().bandit());
}

// Makes the server's bandits with the forget_after of the options; without one, with the default, or with none if the
// policy does not support it.
static Shop make(const Options &options, Nodes &nodes) {
  dpb::Config config(CREATIVES.size(), 1.0); // epsilon = 1
  config.horizon = 200'000;
  config.reward_bits = 0;            // a click or none
  config.flags |= DPB_CLAMP_REWARDS; // a refused reward would leave its ticket open, and public counts would show that
  if (options.sales) {
    config.reward_bits = 20;
    config.parts = std::size(EARNINGS);
    std::copy(std::begin(EARNINGS), std::end(EARNINGS), config.part_weights);
  }
  serve::set_window(config, options.window);
  const std::optional<serve::Key> key = options.key();
  config.fleet_key = key ? key->data() : nullptr;
  const bool in_fleet = !options.fleet.redis.empty();
  const auto shop = [&](std::uint64_t memory) {
    config.forget_after = memory;
    Shop shop{{}, memory, options.window, in_fleet, options.fleet.bandit, {}, options.placements};
    for (config.node = 1; config.node <= options.bandits; ++config.node) {
      shop.bandits.push_back(options.policy ? dpb::Bandit(*options.policy, config) : dpb::Bandit(config));
    }
    return shop;
  };
  const auto fresh = [&] {
    try {
      return shop(options.memory ? options.memory->ticks : options.window.is_time ? HALF_A_DAY : FORGET_AFTER);
    } catch (const dpb::Error &) {
      if (options.memory) {
        throw;
      }
      return shop(0);
    }
  };
  Shop made = fresh();
  dpb::Bandit &first = made.bandits.front();
  config.node = in_fleet ? options.fleet.node : 1;
  if (in_fleet) {
    first = join(nodes.bandit, options, made.name, std::string(first.policy_name()), config, options.snapshot);
    config.node = nodes.bandit->report().number;
    if (config.node >= PLACEMENTS_FROM) {
      throw std::runtime_error("redis: number " + std::to_string(config.node) + " is above 32767");
    }
  } else {
    first = serve::resume(std::move(first), config, options.snapshot);
  }
  if (options.bandits > 1) {
    made.merge_into_others(first); // changes nothing, but fails now for policies that cannot merge
  }
  if (options.placements > 0) {
    const dpb::Config placements = segmented(options, config);
    made.segmented = in_fleet ? join(nodes.segmented, options, made.name + "-placements", "", placements,
                                     options.segmented_snapshot())
                              : make_segmented(options, placements);
  }
  made.tick();
  return made;
}

int main(int argc, char **argv) try {
  const Options options = parse_options(argc, argv);
  serve::Server server(options);
  Nodes nodes;
  Shop shop = make(options, nodes); // for all threads; destroyed before the nodes
  const auto save = [&] {
    serve::save(shop.bandits.front(), options.snapshot, nodes.bandit.has_value());
    if (shop.segmented) {
      serve::save(*shop.segmented, options.segmented_snapshot(), nodes.segmented.has_value());
    }
  };
  serve::Copies copies(options.report_every);
  serve::Chores chores;
  if (shop.window.is_time) {
    chores.push_back({serve::TICK, [&] { shop.tick(); }});
  }
  if (shop.segmented) { // write a snapshot at once in each period, so that a restart cannot miss a period
    chores.push_back({options.period, [&] {
                        nodes.segmented ? nodes.segmented->next_period() : shop.segmented->next_period();
                        if (!options.snapshot.empty()) {
                          save();
                        } else if (!nodes.segmented) { // nothing is kept, so a restart makes another bandit
                          shop.segmented->stored(shop.segmented->snapshot());
                        }
                      }});
  }
  server.run(visitors(shop, copies, nodes), operators(shop, nodes, options.sales), "/diagnostics", save, chores);
  nodes.leave();
  if (options.leaves_state()) {
    serve::suspend(shop.bandits.front(), options.snapshot);
    if (shop.segmented) {
      serve::suspend(*shop.segmented, options.segmented_snapshot());
    }
  }
  return 0;
} catch (const serve::UsageError &error) {
  const std::string more =
      "  --window SPAN      a click counts within this time after its ad; default 1000. A SPAN is a\n"
      "                     number of decisions, or a time: 500ms, 30s, 30m, 2h\n"
      "  --memory SPAN      forget releases of this age; 0: never. Default 50000, or 12h if --window\n"
      "                     is a time, if the policy supports it. Both must be of the same kind\n"
      "  --sales            ads earn by clicks, purchases and returns, which the operator's port takes\n"
      "  --placements N     serve /ads for placements 0 to N-1; default 0: no such page\n"
      "  --users N          people expected in a period, with --placements; default 100000. A\n"
      "                     person who reaches several servers loses epsilon at each\n"
      "  --period SECONDS   length of a period; default 86400\n"
      "  --threads N        N threads, each with its own bandit, that merge each other's releases;\n"
      "                     not with --snapshot or --redis\n";
  serve::print_usage(error, "ad_server", (more + FleetOptions::USAGE).c_str());
  return 2;
} catch (const std::exception &error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
