// An ad server that learns which ad is clicked without giving away who clicked: dpb.hpp with
// Boost.Beast and hiredis (apt-get install libboost-dev libhiredis-dev), which serve.hpp and
// fleet.hpp have. After `cargo build --release`:
//
//   c++ -std=c++20 -O2 examples/cpp/ad_server.cpp -I include -I bindings/cpp target/release/libdpb.a
//       -lhiredis -lgcc_s -lutil -lrt -lpthread -lm -ldl -lc -o ad_server
//   ./ad_server --port 8080
//
// GET /ad picks a creative, GET /click/<ticket> reports the click, GET /report shows what is
// released and nothing else, / is a live page. A real server would also check who asks.
//
// What became of a click is for the operator alone: whoever reports one, in time, twice, late or
// made up, gets the same empty answer. With --operator-port the operator, and nobody from another
// machine, reads the counts of refused clicks at GET /diagnostics.
//
// With --snapshot FILE what was learned survives the server, and kill -9: see serve::save.
//
// With --redis ADDRESS --node N many servers, these and those in Go, are one bandit: see fleet.hpp.
// A click may come to any of them: the first four digits of its ticket are the number of the one that has shown the ad.
//
// With --threads N each thread has a bandit of its own, where one lock is not enough: they tell each other what they
// have released, as in examples/c/cores.c. A click may come to any thread: its ticket says whose it is.
//
// A day of visitors, with a change at noon: cargo run --release --example ad_server -- --visit
// http://127.0.0.1:8080
#include "fleet.hpp"
#include "serve.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace http = serve::http;
using serve::Page, serve::Request, serve::success;

static constexpr std::array<const char *, 10> CREATIVES = {
    "mountain bike", "espresso machine", "rain jacket", "chess lessons", "garden hose",
    "night train",   "reading lamp",     "bread knife", "wool socks",    "folding kayak"};

// Half the time between changes, as is the rule: the best ad of the day changes after 100'000 visitors.
static constexpr std::uint64_t MEMORY = 50'000;

// With a bandit for each thread: decisions of one between two times that it tells the others what it has released.
static constexpr std::uint64_t TELL_EVERY = 1000;

static constexpr unsigned MOST_THREADS = 64;

// The page of all three servers, seen from where the compiler is started. It is where Go can embed it: nowhere
// above its source.
asm(R"(.pushsection .rodata
page: .incbin "examples/go/adserver/page.html"
page_end: .popsection)");
extern const char PAGE[] asm("page");
extern const char PAGE_END[] asm("page_end");

// The pages.

struct Shop {
  std::vector<dpb::Bandit> bandits; // one, or one for each thread: nodes 1, 2, ...
  std::uint64_t memory;             // theirs
  std::string name;                 // on pages of metrics

  // This thread's.
  dpb::Bandit &own() {
    static std::atomic<std::size_t> threads = 0;
    thread_local const std::size_t thread = threads++;
    return bandits[thread % bandits.size()];
  }

  // That of the thread that has decided; where there is none it is refused by any.
  dpb::Bandit &of(std::uint64_t ticket) {
    return bandits[(dpb_ticket_node(ticket) + bandits.size() - 1) % bandits.size()];
  }

  // Tells the others what this one has released, not what it was told.
  void tell(const dpb::Bandit &own) {
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
    return named;
  }
};

// JSON has no NaN (nothing released yet) and no infinity (a baseline's privacy loss).
static std::string number(double x) {
  char text[32];
  std::snprintf(text, sizeof text, "%.17g", x);
  return std::isfinite(x) ? text : "null";
}

static std::string quoted(std::string_view text) { return "\"" + std::string(text) + "\""; } // ours need no escapes

static const char *truth(bool x) { return x ? "true" : "false"; }

static Page show(Shop &shop) {
  dpb::Bandit &bandit = shop.own();
  const dpb::Decision decision = bandit.select();
  if (thread_local std::uint64_t decisions = 0; shop.bandits.size() > 1 && ++decisions % TELL_EVERY == 0) {
    shop.tell(bandit);
  }
  char ticket[17];
  std::snprintf(ticket, sizeof ticket, "%016llx", static_cast<unsigned long long>(decision.ticket));
  return success("{\"arm\":" + std::to_string(decision.arm) + ",\"creative\":" + quoted(CREATIVES[decision.arm]) +
                 ",\"click_url\":\"/click/" + ticket + "\",\"propensity\":" + number(decision.propensity) + "}");
}

// Always the same answer: whether a ticket was clicked already is nobody's business.
static Page click(Shop &shop, std::optional<fleet::Node> &node, std::string_view text) {
  if (const auto ticket = serve::parse<std::uint64_t>(text, 16); ticket && text.size() == 16) {
    if (node) {
      node->answer({*ticket, 1.0});
    } else {
      (void)shop.of(*ticket).try_update(*ticket, 1.0); // refused, it is in the operator's counts
    }
  }
  return serve::nothing();
}

// Only what is released: what the first knows when all have told it, and counts of all.
static Page report(Shop &shop) {
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
            ",\"effective_pulls\":" + number(read[i].effective_pulls) + ",\"pulls\":" + std::to_string(read[i].pulls) + ",\"active\":" + truth(read[i].active) + "}";
  }
  return success("{\"policy\":" + quoted(first.policy_name()) + ",\"is_private\":" + truth(report.is_private) +
                 ",\"epsilon_spent\":" + number(report.epsilon_spent) +
                 ",\"delta_spent\":" + number(report.delta_spent) + ",\"memory\":" + std::to_string(shop.memory) +
                 ",\"changes_detected\":" + std::to_string(report.changes_detected) + ",\"phase\":" + std::to_string(report.phase) +
                 ",\"decisions\":" + std::to_string(report.decisions) +
                 ",\"pending\":" + std::to_string(report.pending) + ",\"arms\":[" + arms + "]}");
}

// NOT private: a repeated click is a click.
static Page diagnostics(const Shop &shop) {
  dpb::Diagnostics counts = {};
  for (const dpb::Bandit &bandit : shop.bandits) {
    const dpb::Diagnostics more = bandit.diagnostics();
    counts.duplicates += more.duplicates;
    counts.late += more.late;
    counts.rejected += more.rejected;
    counts.unknown += more.unknown;
  }
  return success("{\"duplicates\":" + std::to_string(counts.duplicates) + ",\"late\":" + std::to_string(counts.late) +
                 ",\"rejected\":" + std::to_string(counts.rejected) +
                 ",\"unknown\":" + std::to_string(counts.unknown) + "}");
}

static serve::Site visitors(Shop &shop, std::optional<fleet::Node> &node) {
  const auto get = http::verb::get;
  return {{get, "/", [](auto &) { return serve::page(http::status::ok, "text/html; charset=utf-8", std::string(PAGE, PAGE_END)); }},
          {get, "/ad", [&](auto &) { return show(shop); }},
          {get, "/report", [&](auto &) { return report(shop); }},
          {get, "/metrics", [&](auto &) { return serve::metrics(dpb::metrics(shop.named())); }},
          {get, "/click/", [&](const Request &request) { return click(shop, node, request.rest); }}};
}

static serve::Site operators(Shop &shop, const std::optional<fleet::Node> &node) {
  const auto get = http::verb::get;
  const auto metrics = [&](auto &) {
    return serve::metrics(dpb::operator_metrics(shop.named()) + (node ? node->metrics() : ""));
  };
  return {{get, "/diagnostics", [&](auto &) { return diagnostics(shop); }},
          {get, "/metrics", metrics}};
}

struct Options : serve::Options {
  std::optional<std::uint64_t> memory;
  unsigned bandits = 1; // as many as threads, or one
  fleet::Options fleet;
};

static std::optional<Options> parse_options(int argc, char **argv) {
  Options options;
  const bool well = serve::read_options(argc, argv, [&](std::string_view name, const char *value) {
    if (name == "--memory") {
      options.memory = serve::parse<std::uint64_t>(value);
      return options.memory.has_value();
    }
    if (name == "--threads") {
      const auto threads = serve::parse<unsigned>(value);
      options.bandits = options.threads = threads.value_or(0);
      return options.threads > 0 && options.threads <= MOST_THREADS;
    }
    return options.take(name, value) || options.fleet.take(name, value);
  });
  // What lasts, here or in Redis, is one bandit's.
  const bool alone = options.bandits == 1 || (options.fleet.redis.empty() && options.snapshot.empty());
  return well && alone && options.fleet.agree() ? std::optional(options) : std::nullopt;
}

// With the memory that was asked for; else with the usual one, or without where that is refused.
static Shop make(const Options &options, const fleet::Fields &fields) {
  dpb::Config config(CREATIVES.size(), 1.0); // epsilon = 1
  config.horizon = 200'000;
  config.reward_bits = 0;            // a click or none
  config.flags |= DPB_CLAMP_REWARDS; // a refused reward would leave its ticket open, for all to see
  config.answer_window = 1000;       // an ad not clicked while 1000 later ones were shown: no click
  const auto shop = [&](std::uint64_t memory) {
    config.memory = memory;
    Shop shop{{}, memory, options.fleet.bandit};
    for (unsigned number = 1; number <= options.bandits; ++number) {
      config.node = options.bandits > 1 ? number : options.fleet.node;
      shop.bandits.push_back(options.policy ? dpb::Bandit(*options.policy, config) : dpb::Bandit(config));
    }
    return shop;
  };
  const auto fresh = [&] {
    try {
      return shop(options.memory.value_or(MEMORY));
    } catch (const dpb::Error &) {
      if (options.memory) {
        throw;
      }
      return shop(0);
    }
  };
  Shop made = fresh();
  dpb::Bandit &first = made.bandits.front();
  first = serve::go_on(std::move(first), config, options.snapshot);
  first = fleet::go_on(std::move(first), config, fields);
  if (options.bandits > 1) {
    made.tell(first); // changes nothing; policies that cannot say so now
  }
  return made;
}

int main(int argc, char **argv) try {
  const std::optional<Options> options = parse_options(argc, argv);
  if (!options) {
    const std::string more = "  --memory N         forget what N decisions ago was learned, 0: never; default 50000\n"
                             "                     where the policy can\n"
                             "  --threads N        a bandit for each of N threads, joined by what they release, and nowhere\n"
                             "                     else: without --snapshot and --redis\n";
    serve::print_usage("ad_server", (more + fleet::Options::USAGE).c_str());
    return 2;
  }
  serve::Server server(*options);
  std::optional<fleet::Store> store;
  fleet::Fields fields;
  if (!options->fleet.redis.empty()) {
    fields = store.emplace(options->fleet).list(serve::Clock::now() + fleet::FIRST_PATIENCE);
  }
  Shop shop = make(*options, fields); // for all threads
  std::optional<fleet::Node> node;
  if (store) {
    node.emplace(options->fleet, *store, shop.bandits.front(), fields);
  }
  server.run(shop.bandits.front(), visitors(shop, node), operators(shop, node), "/diagnostics");
  return 0;
} catch (const std::exception &error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
