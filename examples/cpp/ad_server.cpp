// An ad server that learns which ad is clicked without giving away who clicked: dpb.hpp with
// Boost.Beast and hiredis (apt-get install libboost-dev libhiredis-dev), which serve.hpp and
// fleet.hpp have. After `cargo build --release`:
//
//   c++ -std=c++20 -O2 examples/cpp/ad_server.cpp -I include -I bindings/cpp target/release/libdpb.a
//       -lhiredis -lgcc_s -lutil -lrt -lpthread -lm -ldl -lc -o ad_server
//   ./ad_server --port 8080
//
// GET /ad picks a creative, GET /click/<ticket> reports the click, GET /report shows what is
// released and nothing else, GET /healthz whether it can serve, / is a live page. A real server would also check who asks.
//
// With --placements N, GET /ads?placement=17&slots=3&user=9f3c51a277d0e846 picks one for each slot of a placement,
// from a bandit that learns for each placement and no more from a person than was promised.
//
// What became of a click is for the operator alone: whoever reports one, in time, twice, late or
// made up, gets the same empty answer. With --operator-port the operator, and nobody from another
// machine, reads the counts of refused clicks at GET /diagnostics.
//
// With --window 30m a click counts in the half hour after its ad, whatever the traffic: the server then tells the bandits
// the time, at each ad and once a second. Never at a click: time must not depend on rewards. Not with --redis yet.
//
// With --snapshot FILE what was learned survives the server, and kill -9: see serve::save.
//
// With --redis ADDRESS --node N many servers, these and those in Go, are one bandit: see fleet.hpp.
// A click may come to any of them: the first four digits of its ticket are the number of the one that has shown the ad, and
// 0x8000 more for an ad of a placement. Placements are another bandit in Redis. Send a person always to the same server: each of n servers
// would learn from one who reaches all of them, who would lose n times as much.
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
using serve::Page, serve::Request, serve::success;

static constexpr std::array<const char *, 10> CREATIVES = {
    "mountain bike", "espresso machine", "rain jacket", "chess lessons", "garden hose",
    "night train",   "reading lamp",     "bread knife", "wool socks",    "folding kayak"};

// Half the time between changes, as is the rule: the best ad of the day changes after 100'000 visitors.
static constexpr std::uint64_t MEMORY = 50'000;
// The same where it is a time, in milliseconds: half a day.
static constexpr std::uint64_t HALF_A_DAY = 12 * 3'600'000;

// Decisions that an ad waits for its click: not clicked while so many later ones were shown, no click.
static constexpr std::uint32_t WINDOW = 1000;

// With a bandit for each thread: decisions of one between two times that it tells the others what it has released.
static constexpr std::uint64_t TELL_EVERY = 1000;

static constexpr unsigned MOST_THREADS = 64;

// Numbers of the placements' nodes are a server's own and this; those of the other bandits are lower.
static constexpr std::uint16_t PLACEMENTS_FROM = 0x8000;

// Slots of a person in a period that are learned from.
static constexpr std::uint32_t CONTRIBUTIONS = 12;

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
  serve::Span window;               // too
  std::string name;                 // on pages of metrics
  std::optional<dpb::Bandit> segmented; // has a segment for each placement, for all threads; none: there are no placements
  std::uint32_t placements = 0;

  // Tells a bandit the time, where windows are times.
  void tick(dpb::Bandit &bandit) const {
    if (window.is_time) {
      bandit.advance(serve::milliseconds());
    }
  }

  void tick() {
    for (dpb::Bandit &bandit : bandits) {
      tick(bandit);
    }
    if (segmented) {
      tick(*segmented);
    }
  }

  // What a report says of them.
  std::string clock() const {
    return ",\"clock\":\"" + std::string(window.is_time ? "milliseconds" : "decisions") +
           "\",\"window\":" + std::to_string(window.ticks) + ",\"memory\":" + std::to_string(memory);
  }

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

  bool of_placement(std::uint64_t ticket) const { return segmented && dpb_ticket_node(ticket) >= PLACEMENTS_FROM; }

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

static std::string quoted(std::string_view text) { return "\"" + std::string(text) + "\""; } // ours need no escapes

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
  if (thread_local std::uint64_t decisions = 0; shop.bandits.size() > 1 && ++decisions % TELL_EVERY == 0) {
    shop.tell(bandit);
  }
  return success(ad(decision));
}

// Which one a request is for.
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

// Nobody knows who has no hash, so all of these are one person: no more is learned from them than from one.
static std::optional<std::uint64_t> parse_user(const Request &request) {
  const auto text = serve::parameter(request.query, "user");
  const auto user = serve::parse<std::uint64_t>(text.value_or("0"), 16);
  return !text || text->size() == 16 ? user : std::nullopt;
}

// A creative for each slot of a placement, no two the same: each is a decision among those that the request does not
// show yet.
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

// This server's places in a fleet: that of its bandit and that of its placements'. Nothing: it is in none.
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
};

// Always the same answer: whether a ticket was clicked already is nobody's business.
static Page click(Shop &shop, Nodes &nodes, std::string_view text) {
  if (const auto ticket = serve::parse<std::uint64_t>(text, 16); ticket && text.size() == 16) {
    const bool of_placement = shop.of_placement(*ticket);
    if (auto &node = of_placement ? nodes.segmented : nodes.bandit) {
      node->answer({*ticket, 1.0});
    } else {
      dpb::Bandit &bandit = of_placement ? *shop.segmented : shop.of(*ticket);
      (void)bandit.try_update(*ticket, 1.0); // refused, it is in the operator's counts
    }
  }
  return serve::nothing();
}

// What is released of one placement: nothing before the first request for it. Counts and losses are of all.
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

// Only what is released: what the first knows when all have told it, and counts of all.
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
            ",\"effective_pulls\":" + number(read[i].effective_pulls) + ",\"pulls\":" + std::to_string(read[i].pulls) + ",\"active\":" + truth(read[i].active) + "}";
  }
  return success("{\"policy\":" + quoted(first.policy_name()) + ",\"is_private\":" + truth(report.is_private) +
                 ",\"epsilon_spent\":" + number(report.epsilon_spent) +
                 ",\"delta_spent\":" + number(report.delta_spent) + shop.clock() +
                 ",\"changes_detected\":" + std::to_string(report.changes_detected) + ",\"phase\":" + std::to_string(report.phase) +
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

// Can it serve? A handle that is closed after an internal failure cannot.
static Page health(const Shop &shop) {
  for (const dpb::Bandit &bandit : shop.bandits) {
    (void)bandit.diagnostics();
  }
  if (shop.segmented) {
    (void)shop.segmented->diagnostics();
  }
  return serve::health();
}

// NOT private: a repeated click is a click.
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
  serve::Site site = {
      {get, "/", [](auto &) { return serve::page(http::status::ok, "text/html; charset=utf-8", std::string(PAGE, PAGE_END)); }},
      {get, "/ad", [&](auto &) { return show(shop); }},
      {get, "/report", [&](const Request &request) { return report(shop, copies, request); }},
      {get, "/healthz", [&](auto &) { return health(shop); }},
      {get, "/metrics", [&](auto &) { return serve::metrics(dpb::metrics(shop.named())); }},
      {get, "/click/", [&](const Request &request) { return click(shop, nodes, request.rest); }}};
  if (shop.segmented) {
    site.push_back({get, "/ads", [&](const Request &request) { return show_slots(shop, request); }});
  }
  return site;
}

static serve::Site operators(Shop &shop, const Nodes &nodes) {
  const auto get = http::verb::get;
  const auto metrics = [&](auto &) {
    return serve::metrics(dpb::operator_metrics(shop.named()) + fleet::Node::metrics(nodes.all()));
  };
  return {{get, "/diagnostics", [&](auto &) { return diagnostics(shop); }},
          {get, "/metrics", metrics}};
}

struct Options : serve::Options {
  serve::Span window = {WINDOW, false};
  std::optional<serve::Span> memory;
  unsigned bandits = 1; // as many as threads, or one
  std::uint32_t placements = 0;
  std::uint32_t users = 100'000; // expected in a period
  std::chrono::seconds period = std::chrono::hours(24);
  fleet::Options fleet;

  // That of the placements.
  fleet::Options segmented_fleet() const {
    fleet::Options segmented = fleet;
    segmented.bandit += "-placements";
    segmented.node += PLACEMENTS_FROM;
    return segmented;
  }

  std::filesystem::path segmented_snapshot() const { return snapshot.empty() ? "" : snapshot.string() + ".placements"; }
};

static std::optional<Options> parse_options(int argc, char **argv) {
  Options options;
  const bool well = serve::read_options(argc, argv, [&](std::string_view name, const char *value) {
    if (name == "--memory") {
      options.memory = serve::parse_span(value);
      return options.memory.has_value();
    }
    if (name == "--window") {
      const auto window = serve::parse_span(value);
      options.window = window.value_or(options.window);
      return window && window->ticks > 0 && window->ticks <= UINT32_MAX;
    }
    if (name == "--threads") {
      const auto threads = serve::parse<unsigned>(value);
      options.bandits = options.threads = threads.value_or(0);
      return options.threads > 0 && options.threads <= MOST_THREADS;
    }
    const auto number = serve::parse<std::uint32_t>(value);
    if (name == "--placements" && number) {
      options.placements = *number;
    } else if (name == "--users" && number && *number > 0) {
      options.users = *number;
    } else if (name == "--period" && number && *number > 0) {
      options.period = std::chrono::seconds(*number);
    } else {
      return options.take(name, value) || options.fleet.take(name, value);
    }
    return true;
  });
  // What lasts, here or in Redis, is one bandit's.
  const bool alone = options.bandits == 1 || (options.fleet.redis.empty() && options.snapshot.empty());
  const bool numbered = options.fleet.node < PLACEMENTS_FROM;
  // One clock counts both.
  const bool same = !options.memory || options.memory->ticks == 0 || options.memory->is_time == options.window.is_time;
  return well && alone && numbered && same && options.fleet.agree() ? std::optional(options) : std::nullopt;
}

// A segment for each placement: its key is the placement's number. Its epsilon is for all of a person's answers in a
// period, at this server. What the file holds begins a new one: nobody knows who came in the last. Fewer placements than
// there were are refused: segments of those that are gone would take the room of others, also where these have not begun
// theirs.
static dpb::Bandit make_segmented(const Options &options, dpb::Config config, const fleet::Fields &fields) {
  config.node += PLACEMENTS_FROM;
  config.expected_users = options.users;
  config.contributions_per_user = CONTRIBUTIONS;
  config.max_segments = options.placements;
  const std::filesystem::path file = options.segmented_snapshot();
  const auto check = [&](const std::string &where, const std::optional<dpb::Bandit> &there) {
    if (const std::uint32_t before = there ? there->report().max_segments : 0; before > options.placements) {
      throw std::runtime_error(where + ": placements must be at least " + std::to_string(before) +
                               ", as in the snapshot, got " + std::to_string(options.placements));
    }
  };
  check(file.string(), serve::restored(file, [](auto... snapshot) { return dpb::Bandit::try_restore(snapshot...); }));
  for (const fleet::Field &field : fields) {
    if (field.node == config.node) {
      check("redis", dpb::Bandit::try_restore(reinterpret_cast<const std::uint8_t *>(field.snapshot.data()),
                                              field.snapshot.size()));
    }
  }
  return fleet::go_on(serve::go_on(dpb::Bandit(config), config, file), config, fields);
}

// With the memory that was asked for; else with the usual one, or without where that is refused.
static Shop make(const Options &options, const fleet::Fields &fields, const fleet::Fields &segmented_fields) {
  dpb::Config config(CREATIVES.size(), 1.0); // epsilon = 1
  config.horizon = 200'000;
  config.reward_bits = 0;            // a click or none
  config.flags |= DPB_CLAMP_REWARDS; // a refused reward would leave its ticket open, for all to see
  serve::set_window(config, options.window);
  const unsigned first_node = options.fleet.redis.empty() ? 1 : options.fleet.node;
  const auto shop = [&](std::uint64_t memory) {
    config.forget_after = memory;
    Shop shop{{}, memory, options.window, options.fleet.bandit, {}, options.placements};
    for (unsigned number = 1; number <= options.bandits; ++number) {
      config.node = first_node + number - 1;
      shop.bandits.push_back(options.policy ? dpb::Bandit(*options.policy, config) : dpb::Bandit(config));
    }
    return shop;
  };
  const auto fresh = [&] {
    try {
      return shop(options.memory ? options.memory->ticks : options.window.is_time ? HALF_A_DAY : MEMORY);
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
  if (options.placements > 0) {
    config.node = first_node;
    made.segmented = make_segmented(options, config, segmented_fields);
  }
  made.tick();
  return made;
}

int main(int argc, char **argv) try {
  const std::optional<Options> options = parse_options(argc, argv);
  if (!options) {
    const std::string more = "  --window SPAN      no click for so long is none; default 1000. A SPAN is a number of\n"
                             "                     decisions, or a time: 500ms, 30s, 30m, 2h\n"
                             "  --memory SPAN      forget what was learned so long ago, 0: never; default 50000\n"
                             "                     where the policy can. As --window: a time if that is one, then 12h\n"
                             "  --placements N     serve /ads for placements 0 to N-1; default 0: no such page\n"
                             "  --users N          of whom so many people are expected in a period; default 100000.\n"
                             "                     A person who reaches several servers loses epsilon at each\n"
                             "  --period SECONDS   of this length; default 86400\n"
                             "  --threads N        a bandit for each of N threads, joined by what they release, and nowhere\n"
                             "                     else: without --snapshot and --redis\n";
    serve::print_usage("ad_server", (more + fleet::Options::USAGE).c_str());
    return 2;
  }
  serve::Server server(*options);
  const fleet::Options segmented = options->segmented_fleet();
  std::optional<fleet::Store> store, segmented_store;
  fleet::Fields fields, segmented_fields;
  if (!options->fleet.redis.empty()) {
    fields = store.emplace(options->fleet).list(serve::Clock::now() + fleet::FIRST_PATIENCE);
  }
  if (store && options->placements > 0) {
    segmented_fields = segmented_store.emplace(segmented).list(serve::Clock::now() + fleet::FIRST_PATIENCE);
  }
  Shop shop = make(*options, fields, segmented_fields); // for all threads
  Nodes nodes;
  if (store) {
    nodes.bandit.emplace(options->fleet, *store, shop.bandits.front(), fields, options->window);
  }
  if (segmented_store) {
    nodes.segmented.emplace(segmented, *segmented_store, *shop.segmented, segmented_fields, options->window);
  }
  const auto save = [&] {
    serve::save(shop.bandits.front(), options->snapshot);
    if (shop.segmented) {
      serve::save(*shop.segmented, options->segmented_snapshot());
    }
  };
  serve::Copies copies(options->report_every);
  serve::Chores chores;
  if (shop.window.is_time) {
    chores.push_back({serve::TICK, [&] { shop.tick(); }});
  }
  if (shop.segmented) { // a snapshot is to know of each period at once, or a restart would forget what that has spent
    chores.push_back({options->period, [&] {
                        shop.segmented->next_period();
                        if (nodes.segmented) {
                          nodes.segmented->put_soon();
                        }
                        if (!options->snapshot.empty()) {
                          save();
                        }
                      }});
  }
  server.run(visitors(shop, copies, nodes), operators(shop, nodes), "/diagnostics", save, chores);
  return 0;
} catch (const std::exception &error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
