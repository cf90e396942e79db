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
// A day of visitors, with a change at noon: cargo run --release --example ad_server -- --visit
// http://127.0.0.1:8080
#include "fleet.hpp"
#include "serve.hpp"

#include <array>
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

// The page of all three servers, seen from where the compiler is started. It is where Go can embed it: nowhere
// above its source.
asm(R"(.pushsection .rodata
page: .incbin "examples/go/adserver/page.html"
page_end: .popsection)");
extern const char PAGE[] asm("page");
extern const char PAGE_END[] asm("page_end");

// The pages.

struct Shop {
  dpb::Bandit bandit;
  std::uint64_t memory; // the bandit's
  std::string name;     // on pages of metrics
};

// JSON has no NaN (nothing released yet) and no infinity (a baseline's privacy loss).
static std::string number(double x) {
  char text[32];
  std::snprintf(text, sizeof text, "%.17g", x);
  return std::isfinite(x) ? text : "null";
}

static std::string quoted(std::string_view text) { return "\"" + std::string(text) + "\""; } // ours need no escapes

static const char *truth(bool x) { return x ? "true" : "false"; }

static Page show(dpb::Bandit &bandit) {
  const dpb::Decision decision = bandit.select();
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
      (void)shop.bandit.try_update(*ticket, 1.0); // refused, it is in the operator's counts
    }
  }
  return serve::nothing();
}

// Only what is released.
static Page report(const Shop &shop) {
  const dpb::Report report = shop.bandit.report();
  const std::vector<dpb::Arm> read = shop.bandit.arms();
  std::string arms;
  for (std::size_t i = 0; i < read.size(); ++i) {
    arms += std::string(i > 0 ? "," : "") + "{\"creative\":" + quoted(CREATIVES[i]) +
            ",\"mean\":" + number(read[i].mean) + ",\"width\":" + number(read[i].width) +
            ",\"effective_pulls\":" + number(read[i].effective_pulls) + ",\"pulls\":" + std::to_string(read[i].pulls) + ",\"active\":" + truth(read[i].active) + "}";
  }
  return success("{\"policy\":" + quoted(shop.bandit.policy_name()) + ",\"is_private\":" + truth(report.is_private) +
                 ",\"epsilon_spent\":" + number(report.epsilon_spent) +
                 ",\"delta_spent\":" + number(report.delta_spent) + ",\"memory\":" + std::to_string(shop.memory) +
                 ",\"changes_detected\":" + std::to_string(report.changes_detected) + ",\"phase\":" + std::to_string(report.phase) +
                 ",\"decisions\":" + std::to_string(report.decisions) +
                 ",\"pending\":" + std::to_string(report.pending) + ",\"arms\":[" + arms + "]}");
}

// NOT private: a repeated click is a click.
static Page diagnostics(const dpb::Bandit &bandit) {
  const dpb::Diagnostics counts = bandit.diagnostics();
  return success("{\"duplicates\":" + std::to_string(counts.duplicates) + ",\"late\":" + std::to_string(counts.late) +
                 ",\"rejected\":" + std::to_string(counts.rejected) +
                 ",\"unknown\":" + std::to_string(counts.unknown) + "}");
}

static serve::Site visitors(Shop &shop, std::optional<fleet::Node> &node) {
  const auto get = http::verb::get;
  return {{get, "/", [](auto &) { return serve::page(http::status::ok, "text/html; charset=utf-8", std::string(PAGE, PAGE_END)); }},
          {get, "/ad", [&](auto &) { return show(shop.bandit); }},
          {get, "/report", [&](auto &) { return report(shop); }},
          {get, "/metrics", [&](auto &) { return serve::metrics(dpb::metrics({{shop.name, &shop.bandit}})); }},
          {get, "/click/", [&](const Request &request) { return click(shop, node, request.rest); }}};
}

static serve::Site operators(Shop &shop, const std::optional<fleet::Node> &node) {
  const auto get = http::verb::get;
  const auto metrics = [&](auto &) {
    return serve::metrics(dpb::operator_metrics({{shop.name, &shop.bandit}}) + (node ? node->metrics() : ""));
  };
  return {{get, "/diagnostics", [&](auto &) { return diagnostics(shop.bandit); }},
          {get, "/metrics", metrics}};
}

struct Options : serve::Options {
  std::optional<std::uint64_t> memory;
  fleet::Options fleet;
};

static std::optional<Options> parse_options(int argc, char **argv) {
  Options options;
  const bool well = serve::read_options(argc, argv, [&](std::string_view name, const char *value) {
    if (name == "--memory") {
      options.memory = serve::parse<std::uint64_t>(value);
      return options.memory.has_value();
    }
    return options.take(name, value) || options.fleet.take(name, value);
  });
  return well && options.fleet.agree() ? std::optional(options) : std::nullopt;
}

// With the memory that was asked for; else with the usual one, or without where that is refused.
static Shop make(const Options &options, const fleet::Fields &fields) {
  dpb::Config config(CREATIVES.size(), 1.0); // epsilon = 1
  config.horizon = 200'000;
  config.reward_bits = 0;            // a click or none
  config.flags |= DPB_CLAMP_REWARDS; // a refused reward would leave its ticket open, for all to see
  config.node = options.fleet.node;
  config.answer_window = 1000;       // an ad not clicked while 1000 later ones were shown: no click
  const auto shop = [&](std::uint64_t memory) {
    config.memory = memory;
    return Shop{options.policy ? dpb::Bandit(*options.policy, config) : dpb::Bandit(config), memory,
                options.fleet.bandit};
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
  made.bandit = serve::go_on(std::move(made.bandit), config, options.snapshot);
  made.bandit = fleet::go_on(std::move(made.bandit), config, fields);
  return made;
}

int main(int argc, char **argv) try {
  const std::optional<Options> options = parse_options(argc, argv);
  if (!options) {
    const std::string more = "  --memory N         forget what N decisions ago was learned, 0: never; default 50000\n"
                             "                     where the policy can\n";
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
    node.emplace(options->fleet, *store, shop.bandit, fields);
  }
  server.run(shop.bandit, visitors(shop, node), operators(shop, node), "/diagnostics");
  return 0;
} catch (const std::exception &error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
