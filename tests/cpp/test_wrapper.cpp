// Tests dpb.hpp: ownership, functions that throw and functions that return a status, batches, reading, refusals. Exits with
// 0 if all checks hold.
#include <dpb.hpp>

#include <array>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <set>
#if __cplusplus >= 202002L
#include <span>
#endif
#include <thread>
#include <type_traits>
#include <utility>

static int checks = 0;
#define CHECK(condition)                                                                           \
  do {                                                                                             \
    ++checks;                                                                                      \
    if (!(condition)) {                                                                            \
      std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                         \
      std::exit(1);                                                                                \
    }                                                                                              \
  } while (false)

template <class Call> static dpb::Error refusal(Call call) {
  try {
    call();
  } catch (const dpb::Error &error) {
    return error;
  }
  return dpb::Error(DPB_OK, "nothing was thrown");
}

static_assert(!std::is_copy_constructible_v<dpb::Bandit> && !std::is_copy_assignable_v<dpb::Bandit>);
static_assert(std::is_nothrow_move_constructible_v<dpb::Bandit> && std::is_nothrow_move_assignable_v<dpb::Bandit>);
static_assert(noexcept(std::declval<dpb::Bandit &>().try_update(0, 0.0)));
static_assert(noexcept(std::declval<dpb::Bandit &>().try_cancel(0)));
static_assert(noexcept(std::declval<dpb::Bandit &>().try_select(std::declval<dpb::Decision &>())));
template <class T>
constexpr bool moves_only = !std::is_copy_constructible_v<T> && !std::is_copy_assignable_v<T> &&
                            std::is_nothrow_move_constructible_v<T> && std::is_nothrow_move_assignable_v<T> &&
                            sizeof(T) == sizeof(void *);
static_assert(moves_only<dpb::Stopping> && moves_only<dpb::Counter> && moves_only<dpb::Shuffler>);
static_assert(noexcept(std::declval<dpb::Bandit &>().try_select(std::declval<const dpb::Request &>(), nullptr)));
static_assert(noexcept(std::declval<dpb::Stopping &>().try_push(0.0, std::declval<bool &>())));
static_assert(noexcept(std::declval<dpb::Counter &>().try_add(0.0)));
static_assert(noexcept(std::declval<dpb::Shuffler &>().try_push(nullptr, 0)));
static_assert(noexcept(std::declval<dpb::Bandit &>().try_combine(nullptr, 0)));
static_assert(noexcept(std::declval<dpb::Bandit &>().try_submit_shuffled(0, 0, nullptr, 0)));
using Memory = std::vector<std::uint8_t>;
static_assert(noexcept(std::declval<dpb::Bandit &>().try_snapshot(std::declval<Memory &>())));
static_assert(noexcept(std::declval<dpb::Bandit &>().try_seal(nullptr, 0, std::declval<Memory &>())));
static_assert(sizeof(dpb::Config) == sizeof(dpb_config) && sizeof(dpb::Bandit) == sizeof(void *));

static void construction() {
  dpb::Config config(3, 0.5);
  CHECK(config.struct_size == sizeof(dpb_config) && config.arms == 3 && config.epsilon == 0.5);
  CHECK(config.reward_max == 1.0 && config.pending_capacity == 4096 && config.test_seed == nullptr);
  CHECK(dpb::Bandit(config).policy_name() != "");
  CHECK(dpb::Bandit::se(config).policy_name() == "dp-se");
  CHECK(dpb::Bandit::se(config).report().is_private == 1);
  CHECK(dpb::Bandit::nonprivate_ucb1(config).report().is_private == 0);

  const dpb::Error error = refusal([] { (void)dpb::Bandit::se(dpb::Config(3, -1.0)); });
  CHECK(error.status() == DPB_INVALID_CONFIG);
  CHECK(std::string(error.what()) == "epsilon must be finite and > 0, got -1");
  config.struct_size += 8;
  CHECK(refusal([&] { (void)dpb::Bandit(config); }).status() == DPB_NEWER_VERSION);
}

static void by_name() {
  const std::vector<std::string_view> names = dpb::policies();
  CHECK(names.size() > 20 && names[0] == dpb_policy_at(0));
  CHECK(dpb::Bandit("dp-med", dpb::Config(3, 1.0)).policy_name() == "dp-med");
  CHECK(dpb::policy_number("dp-med") == DPB_POLICY_MED && dpb::policy_number("dp-none") == 0);
  CHECK(std::string(refusal([] { (void)dpb::Bandit("dp-none", dpb::Config(3, 1.0)); }).what()) ==
        "name must be the name of a policy, got \"dp-none\"");
}

// Messages name the function, the field and the value; the reward only if it is invalid.
static void messages() {
  dpb::Bandit bandit("dp-imed", dpb::Config(3, 1.0));
  const auto says = [](auto call) { return std::string(refusal(call).what()); };
  const std::uint64_t ticket = bandit.select().ticket;
  const std::string number = std::to_string(ticket);
  CHECK(says([&] { bandit.update(ticket, 1.25); }) ==
        "dpb_update(ticket = " + number + ", reward = 1.25): DPB_INVALID_REWARD");
  CHECK(says([&] { bandit.update(ticket, std::nan("")); }).find("reward = nan)") != std::string::npos);
  bandit.update(ticket, 0.75);
  CHECK(says([&] { bandit.update(ticket, 0.75); }).find("0.75") == std::string::npos);
  CHECK(says([&] { bandit.cancel(ticket); }) == "dpb_cancel(ticket = " + number + "): DPB_DUPLICATE");
  CHECK(says([&] { (void)bandit.select(dpb::Request().among({1, 9})); }) ==
        "dpb_select_for(slots = 1, segment = 0, eligible = {1, 9}): DPB_INVALID_REQUEST: eligible must be below 3, got 9");
  CHECK(says([&] { bandit.check(dpb::Request().among({1, 9})); }) ==
        "dpb_request_check(slots = 1, segment = 0, eligible = {1, 9}): DPB_INVALID_REQUEST: "
        "eligible must be below 3, got 9");
  bandit.check(dpb::Request().among({1, 2}));
  dpb::Request several;
  several.slots = 4;
  CHECK(says([&] { (void)bandit.select(several); }).find("slots must be 1: call select_slots") != std::string::npos);
  several.slots = 0xffffffff; // far more than there is memory for
  CHECK(says([&] { (void)bandit.select_slots(several); }).find("slots must be at most 3, ") != std::string::npos);
  dpb_error error = {};
  CHECK(bandit.try_check(several, &error) == DPB_INVALID_REQUEST && error.status == DPB_INVALID_REQUEST);
  CHECK(bandit.report().decisions == 1);
  const std::vector<std::uint32_t> many(100, 7);
  CHECK(says([&] { (void)bandit.select(dpb::Request().among(many)); }).find("7, ...}") != std::string::npos);
  CHECK(says([&] { bandit.retire_arm(7); }) == "dpb_retire_arm(arm = 7): DPB_INVALID_REQUEST");
  CHECK(says([&] { (void)bandit.epsilon_spent(1.5); }) == "dpb_epsilon_spent(delta = 1.5): DPB_INVALID_CONFIG");
  CHECK(says([&] { (void)bandit.epsilon_spent(-0.1); }) == "dpb_epsilon_spent(delta = -0.1): DPB_INVALID_CONFIG");
  CHECK(says([&] { (void)bandit.shuffle_params(4); }) == "dpb_shuffle_params_read(phase = 4): DPB_UNSUPPORTED");
  CHECK(says([&] { bandit.update_many({ticket, 5}, {1.0}); }) ==
        "dpb_update_many(tickets = 2, rewards = 1): DPB_INVALID_CONFIG");
  CHECK(says([&] { dpb::Counter(dpb::CounterKind::hybrid, 1.0).add(-2.0); }) ==
        "dpb_counter_add(value = -2): DPB_INVALID_REWARD");
  CHECK(says([] { (void)dpb::Counter(dpb::CounterKind::hybrid, -1.0); }).find("got -1") != std::string::npos);
  CHECK(says([] { (void)dpb::ldp_encode(1.0, 2.0); }) == "dpb_ldp_encode(reward = 2): DPB_INVALID_REWARD");
  CHECK(says([] { (void)dpb::ldp_encode(41.0, 1.0); }) == "dpb_ldp_encode(epsilon = 41): DPB_INVALID_CONFIG");
}

static void ownership() {
  dpb::Bandit first = dpb::Bandit::se(dpb::Config(2, 1.0));
  dpb_bandit *handle = first.get();
  dpb::Bandit second = std::move(first);
  CHECK(first.get() == nullptr && second.get() == handle);
  CHECK(refusal([&] { (void)first.select(); }).status() == DPB_NULL);
  CHECK(refusal([&] { (void)first.arms(); }).status() == DPB_NULL);
  CHECK(first.policy_name() == "");
  second = dpb::Bandit::nonprivate_ucb1(dpb::Config(2, 1.0)); // frees the first handle
  CHECK(second.policy_name() != "dp-se");
}

static void both_roads() {
  dpb::Bandit bandit = dpb::Bandit::se(dpb::Config(4, 1.0));
  const dpb::Decision a = bandit.select();
  CHECK(a.arm < 4 && a.propensity > 0.0 && a.propensity <= 1.0);
  bandit.update(a.ticket, 1.0);
  const dpb::Error duplicate = refusal([&] { bandit.update(a.ticket, 1.0); });
  CHECK(duplicate.status() == DPB_DUPLICATE);
  CHECK(std::string(duplicate.what()) == "dpb_update(ticket = " + std::to_string(a.ticket) + "): DPB_DUPLICATE");

  dpb::Decision b = {};
  CHECK(bandit.try_select(b) == DPB_OK);
  for (const double bad : {-0.1, 1.1, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    CHECK(bandit.try_update(b.ticket, bad) == DPB_INVALID_REWARD);
  }
  CHECK(bandit.try_update(b.ticket, 0.25) == DPB_OK);
  CHECK(bandit.try_update(b.ticket, 0.25) == DPB_DUPLICATE);
  CHECK(bandit.try_cancel(~b.ticket) == DPB_UNKNOWN_TICKET);
  bandit.cancel(bandit.select().ticket);
  (void)bandit.select();
  bandit.cancel_all();
  bandit.skip(3); // nothing without a window

  const dpb::Report report = bandit.report();
  CHECK(report.decisions == 4 && report.answered == 2 && report.cancelled == 2 && report.pending == 0);
  const dpb::Diagnostics seen = bandit.diagnostics();
  CHECK(seen.duplicates == 2 && seen.rejected == 4 && seen.unknown == 1 && seen.late == 0);
}

static void windows_of_time() {
  dpb::Config config(4, 1.0);
  config.clock = DPB_CLOCK_CALLER;
  config.reward_window = 1800000;
  dpb::Bandit bandit(config);
  bandit.advance(1000);
  const dpb::Decision decision = bandit.select();
  CHECK(bandit.try_advance(1000 + 1799999) == DPB_OK && bandit.report().pending == 1);
  bandit.update(decision.ticket, 1.0);
  bandit.advance(1000 + 1800000);
  CHECK(bandit.report().answered == 1 && bandit.try_update(decision.ticket, 1.0) == DPB_EXPIRED);
  dpb::Bandit plain(dpb::Config(4, 1.0));
  CHECK(refusal([&] { plain.advance(5); }).status() == DPB_UNSUPPORTED);
}

static void batches() {
  dpb::Bandit bandit = dpb::Bandit::se(dpb::Config(4, 1.0));
  const std::vector<dpb::Decision> decisions = bandit.select_many(100);
  std::vector<std::uint64_t> tickets;
  for (const dpb::Decision &decision : decisions) {
    tickets.push_back(decision.ticket);
  }
  CHECK(refusal([&] { bandit.update_many(tickets, std::vector<double>(99)); }).status() == DPB_INVALID_CONFIG);
  CHECK(bandit.report().answered == 0);
  const std::vector<double> rewards(100, 0.5);
  bandit.update(tickets[7], 0.5);
  std::vector<dpb_status> each(100, -1);
  std::size_t done = 0;
  CHECK(bandit.try_update_many(tickets.data(), rewards.data(), 100, each.data(), done) == DPB_DUPLICATE);
  CHECK(done == 99);
  for (std::size_t i = 0; i < 100; ++i) {
    CHECK(each[i] == (i == 7 ? DPB_DUPLICATE : DPB_OK));
  }
  CHECK(refusal([&] { bandit.update_many(tickets, rewards); }).status() == DPB_DUPLICATE);
  CHECK(bandit.report().answered == 100);
  CHECK(bandit.select_many(0).empty());
  // Requests of several slots, one of which is refused: the requests before it get decisions.
  std::vector<dpb::Request> requests(3);
  requests[1].among({2});
  CHECK(refusal([&] { (void)bandit.select_many(requests); }).status() == DPB_UNSUPPORTED);
  dpb::Bandit flexible(dpb::Config(4, 1.0));
  requests[0].slots = 2;
  std::vector<dpb::Decision> slots = flexible.select_many(requests);
  CHECK(slots.size() == 4 && slots[0].arm != slots[1].arm && flexible.report().decisions == 4);
  requests[1].slots = 9;
  slots.assign(12, dpb::Decision{});
  CHECK(flexible.try_select_many(requests.data(), 3, slots.data(), done) == DPB_INVALID_REQUEST && done == 1);
  CHECK(flexible.report().decisions == 6 && slots[2].ticket == 0);
  bandit.update_many({}, {});
}

// A reward in parts, and what names them in errors.
static void parts() {
  dpb::Config config(3, 1.0);
  config.reward_window = 10;
  config.parts = 2;
  config.part_weights[0] = 0.1;
  config.part_weights[1] = -0.5;
  dpb::Bandit bandit(config);
  const std::uint64_t ticket = bandit.select().ticket;
  bandit.update_part(ticket, 1, 1.0);
  bandit.update(ticket, 1.0);
  CHECK(bandit.try_update_part(ticket, 0, 1.0) == DPB_DUPLICATE);
  CHECK(refusal([&] { bandit.update_part(ticket, 2, 1.0); }).status() == DPB_INVALID_CONFIG);
  CHECK(refusal([&] { bandit.update_part(1, 1, 99.0); }).what() ==
        std::string("dpb_update_part(ticket = 1, part = 1, value = 99): DPB_INVALID_REWARD"));
}

// Functions that read arrays take arrays of any kind.
static void arrays() {
  dpb::Bandit bandit(dpb::Config(3, 1.0));
  const std::vector<dpb::Decision> decisions = bandit.select_many(5);
  const std::uint64_t tickets[] = {decisions[0].ticket, decisions[1].ticket};
  const std::array<double, 2> rewards = {1.0, 0.5};
  bandit.update_many(tickets, rewards);
  bandit.update_many({decisions[2].ticket}, std::vector<double>{0.0});
#if __cplusplus >= 202002L
  bandit.update_many(std::span(&decisions[3].ticket, 1), std::span(rewards).first(1));
  const std::vector<std::uint8_t> bytes = bandit.snapshot();
  const std::span<const std::uint8_t> span(bytes);
  CHECK(dpb::Bandit::restore(span).report().answered == 4);
  bandit.merge(span);
#endif
  CHECK(bandit.report().pending == (__cplusplus >= 202002L ? 1U : 2U) && bandit.try_cancel_all() == DPB_OK);
  CHECK(bandit.report().pending == 0);
}

static void arms_come_and_go() {
  dpb::Bandit bandit = dpb::Bandit::imed(dpb::Config(3, 1.0));
  CHECK(bandit.select(dpb::Request().among({1})).arm == 1);
  CHECK(bandit.add_arm() == 3 && bandit.arms().size() == 4);
  bandit.retire_arm(0);
  CHECK(refusal([&] { bandit.retire_arm(0); }).status() == DPB_INVALID_REQUEST);
  CHECK(refusal([&] { (void)bandit.select(dpb::Request().among({0})); }).status() == DPB_INVALID_REQUEST);
  const std::vector<std::uint32_t> none;
  CHECK(refusal([&] { (void)bandit.select(dpb::Request().among(none)); }).status() == DPB_INVALID_REQUEST);
  CHECK(bandit.select(dpb::Request().among({3})).arm == 3 && bandit.arms()[0].active == 0);
  dpb::Bandit fixed = dpb::Bandit::se(dpb::Config(3, 1.0));
  CHECK(refusal([&] { (void)fixed.add_arm(); }).status() == DPB_UNSUPPORTED);
}

// What a reward is worth differs from request to request.
static void values() {
  dpb::Bandit bandit(dpb::Config(3, 1.0));
  const std::vector<double> bids = {1.0, 0.0, 0.0}, none;
  for (int i = 0; i < 50; ++i) {
    CHECK(bandit.select(dpb::Request().worth(bids)).arm == 0);
    CHECK(bandit.select(dpb::Request().among({2, 1}).worth({0.0, 0.5})).arm == 1);
  }
  CHECK(refusal([&] { (void)bandit.select(dpb::Request().worth(none)); }).what() ==
        std::string("dpb_select_for(slots = 1, segment = 0, eligible = {}): DPB_INVALID_REQUEST: "
                    "values_len must be 3, the number of arms, got 0"));
  CHECK(refusal([&] { (void)bandit.select(dpb::Request().among({1}).worth({-1.0})); }).what() ==
        std::string("dpb_select_for(slots = 1, segment = 0, eligible = {1}): DPB_INVALID_REQUEST: "
                    "values must be finite and at least 0, got -1"));
  CHECK(refusal([&] { (void)dpb::Bandit::tt(dpb::Config(3, 1.0)).select(dpb::Request().worth(bids)); }).status() ==
        DPB_UNSUPPORTED);
}

// To play an arm costs something, and a request may get none.
static void costs() {
  dpb::Bandit bandit(dpb::Config(2, 4.0));
  const std::vector<double> prices = {0.8, 0.1};
  int cheap = 0;
  for (int i = 0; i < 4000; ++i) {
    const dpb::Decision answer = bandit.select(dpb::Request().with_costs(prices));
    cheap += answer.arm == 1 ? 1 : 0;
    bandit.update(answer.ticket, answer.arm == 0 || i % 2 == 0 ? 1.0 : 0.0);
  }
  CHECK(cheap > 3000 && cheap < 4000);
  dpb::Request request;
  request.abstain = 1;
  int none = 0;
  for (int i = 0; i < 400; ++i) {
    const dpb::Decision answer = bandit.select(request.with_costs({1.5, 1.5}));
    CHECK(answer.arm != dpb::no_arm || answer.ticket == 0);
    none += answer.arm == dpb::no_arm ? 1 : 0;
  }
  CHECK(none == 400);
  CHECK(refusal([&] { (void)bandit.select(dpb::Request().with_costs({1.0})); }).what() ==
        std::string("dpb_select_for(slots = 1, segment = 0, eligible = {}): DPB_INVALID_REQUEST: "
                    "costs_len must be 2, the number of arms, got 1"));
}

// Visitors examine some slots more often than others.
static void positions() {
  dpb::Bandit bandit(dpb::Config(3, 4.0));
  const std::vector<double> chances = {0.5, 1.0}, none;
  dpb::Request request;
  request.slots = 2;
  int ordered = 0;
  for (int i = 0; i < 4000; ++i) {
    const auto shown = bandit.select_slots(request.with_examined(chances));
    ordered += shown[1].arm == 2 ? 1 : 0;
    for (const auto &decision : shown) {
      bandit.update(decision.ticket, decision.arm == 2 && i % (&decision == &shown[1] ? 2 : 4) == 0 ? 1.0 : 0.0);
    }
  }
  CHECK(ordered > 3000);
  CHECK(bandit.select(dpb::Request().with_examined({0.5})).arm < 3);
  CHECK(refusal([&] { (void)bandit.select(dpb::Request().with_examined(none)); }).what() ==
        std::string("dpb_select_for(slots = 1, segment = 0, eligible = {}): DPB_INVALID_REQUEST: "
                    "examined_len must be 1, the number of slots, got 0"));
}

// Each user counts once a period. Other requests get decisions that the library does not learn from.
static void users() {
  dpb::Config config(3, 1.0);
  config.expected_users = 1000;
  dpb::Bandit bandit(config);
  const std::vector<std::uint32_t> all{0, 1, 2}, one{1};
  const auto of = [](std::uint64_t user, std::uint64_t segment = 0) {
    dpb::Request request;
    request.user = user;
    request.segment = segment;
    return request;
  };
  const auto play = [&](std::uint64_t people) {
    for (std::uint64_t user = 0; user < people; user++) {
      bandit.update(bandit.select(user % 2 ? of(user) : of(user).among(all)).ticket, 1.0);
    }
    double known = 0;
    for (const dpb::Arm &arm : bandit.arms()) {
      known += arm.effective_pulls;
    }
    return known;
  };
  const double known = play(200);
  CHECK(known > 20 && play(200) == known && bandit.report().answered == 400);
  const double spent = bandit.epsilon_spent();
  bandit.next_period();
  CHECK(play(1000) == known);
  bandit.stored(bandit.snapshot());
  // More rewards than the open batches of three arms can hold.
  CHECK(play(1000) > known && bandit.epsilon_spent() == 2 * spent);
  // A restored handle decides once it is stored.
  const auto before = bandit.snapshot();
  dpb::Bandit next = dpb::Bandit::restore(before);
  const auto early = refusal([&] { (void)next.select(of(1)); });
  CHECK(early.status() == DPB_NOT_READY && std::string(early.what()).find("call dpb_stored") != std::string::npos);
  const auto wrong = refusal([&] { next.stored(before); });
  CHECK(wrong.status() == DPB_INVALID_CONFIG && std::string(wrong.what()).find("snapshot must be of this very") == 0);
  CHECK(next.try_stored(before.data(), before.size() - 1) == DPB_CORRUPT);
  const auto after = next.snapshot();
  CHECK(refusal([&] { (void)next.select(of(1)); }).status() == DPB_NOT_READY);
  CHECK(next.try_stored(after.data(), after.size()) == DPB_OK);
  CHECK(next.select(of(1)).arm < 3 && next.epsilon_spent() == 3 * spent);
  CHECK(bandit.select(of(1).among(one)).arm == 1);
  CHECK(refusal([&] { (void)bandit.select(); }).status() == DPB_UNSUPPORTED);
  const auto says = [](auto call) { return std::string(refusal(call).what()); };
  CHECK(says([&] { (void)bandit.select(of(1).among({1, 9})); }).find("{1, 9}): DPB_INVALID_REQUEST") != std::string::npos);
  dpb::Bandit plain(dpb::Config(3, 1.0));
  CHECK(refusal([&] { (void)plain.select(of(1)); }).status() == DPB_UNSUPPORTED);
  CHECK(says([&] { plain.next_period(); }) == "dpb_next_period: DPB_UNSUPPORTED");

  // The same with segments: the limit applies to all of them together.
  config.max_segments = 2;
  dpb::Bandit segmented(config);
  const auto play_all = [&] {
    for (std::uint64_t user = 0; user < 500; user++) {
      const dpb::Request request = of(user, user % 2);
      segmented.update(segmented.select(user % 3 ? request : dpb::Request(request).among(all)).ticket, 1.0);
    }
    return segmented.report();
  };
  const dpb::Report first = play_all(), second = play_all();
  CHECK(first.phase > 2 && second.phase == first.phase && second.answered == 1000);
  segmented.next_period();
  segmented.stored(segmented.snapshot());
  const dpb::Report third = play_all();
  CHECK(third.phase > second.phase && third.epsilon_spent == 2 * second.epsilon_spent);
  CHECK(segmented.select(of(1, 1).among(one)).arm == 1);
  CHECK(refusal([&] { (void)segmented.select(); }).status() == DPB_UNSUPPORTED);
  CHECK(says([&] { (void)segmented.select(of(1, 2)); }) ==
        "dpb_select_for(slots = 1, segment = 2, eligible = {}): DPB_FULL: "
        "segment 2 is new, and all of config.max_segments = 2 are in use");
}

static void priors() {
  dpb::Bandit bandit(dpb::Config(3, 1.0));
  bandit.set_prior(1, 0.05, 100);
  CHECK(bandit.try_set_prior(1, 0.05, 0.0) == DPB_INVALID_CONFIG && std::isnan(bandit.arms()[1].mean));
  CHECK(std::string(refusal([&] { bandit.set_prior(1, 1.5, 7.0); }).what()).find("mean must be") == 0);
  CHECK(dpb::Bandit::se(dpb::Config(3, 1.0)).try_set_prior(1, 0.05, 100) == DPB_UNSUPPORTED);
  dpb::Config config(3, 1.0);
  config.max_segments = 2;
  dpb::Bandit segmented(config);
  dpb::Request request;
  request.segment = 7;
  (void)segmented.select(request);
  const double before = segmented.segment(7)[1].mean;
  segmented.set_prior(1, 0.5, 1000);
  CHECK(segmented.segment(7)[1].mean > 2 * before);
  CHECK(std::string(refusal([&] { segmented.set_prior(3, 0.5, 7.0); }).what()) == "arm must be below 3, got 3");
}

static void handles_learn_from_each_other() {
  dpb::Bandit a(dpb::Config(3, 1.0)), b(dpb::Config(3, 1.0));
  CHECK(a.add_arm() == 3 && a.add_arm(900) == 4 && b.add_arm(900) == 3 && b.add_arm(900) == 3);
  for (int i = 0; i < 1000; i++) {
    const dpb::Decision d = a.select();
    a.update(d.ticket, d.arm == 1);
  }
  const auto snapshot = a.snapshot();
  b.merge(snapshot);
  CHECK(b.try_merge(snapshot.data(), snapshot.size()) == DPB_OK);
  CHECK(b.arms()[1].effective_pulls == a.arms()[1].effective_pulls && b.arms()[1].effective_pulls > 0);
  CHECK(b.arms()[3].effective_pulls == a.arms()[4].effective_pulls);
  CHECK(refusal([&] { b.merge({1, 2, 3}); }).status() == DPB_CORRUPT);
  CHECK(refusal([&] { (void)b.add_arm(2); }).status() == DPB_INVALID_CONFIG);
  dpb::Bandit other(dpb::Config(3, 0.5));
  CHECK(std::string(refusal([&] { other.merge(snapshot); }).what()).find("epsilon must be") != std::string::npos);
}

// A handle ends, and another one continues with its tickets.
static void states_move() {
  const std::vector<std::uint8_t> key(32, 7);
  dpb::Config config(3, 1.0);
  config.fleet_key = key.data();
  dpb::Bandit old(config), keeper(config);
  const dpb::Decision d = old.select();
  const std::vector<std::uint8_t> state = old.suspend(keeper.receiver());
  CHECK(refusal([&] { (void)old.select(); }).status() == DPB_HALTED);
  dpb::Bandit next = dpb::Bandit::resume(config, state);
  CHECK(refusal([&] { (void)dpb::Bandit::resume(config, state); }).status() == DPB_EXPIRED);
  CHECK(!dpb::Bandit::try_resume(config, state.data(), 9));
  next.update(d.ticket, 1);
  dpb::Bandit last = dpb::Bandit::resume(config, next.suspend(0));
  CHECK(refusal([&] { (void)last.select(); }).status() == DPB_NOT_READY);
  last.claimed();
  CHECK(refusal([&] { last.update(d.ticket, 1); }).status() == DPB_DUPLICATE && next.try_claimed() == DPB_HALTED);
  std::vector<std::uint8_t> bytes;
  std::uint64_t number = 0;
  CHECK(last.try_receiver(number) == DPB_OK && last.try_suspend(number, bytes) == DPB_OK && !bytes.empty());
  config.fleet_key = nullptr;
  dpb::Bandit none(config);
  CHECK(refusal([&] { (void)none.suspend(0); }).status() == DPB_UNSUPPORTED);
}

// One handle releases what two collect.
static void handles_combine() {
  const std::vector<std::uint8_t> key(32, 7);
  dpb::Config config(3, 1.0);
  config.fleet_key = key.data();
  dpb::Bandit leader(config), other(config);
  config.fleet_key = nullptr;
  dpb::Bandit none(config);
  const auto rewards = [](const dpb::Bandit &bandit) {
    double sum = 0.0;
    for (const dpb::Arm &arm : bandit.arms()) {
      sum += arm.effective_pulls;
    }
    return sum;
  };
  const std::uint64_t generation = leader.lead();
  CHECK(generation != 0 && leader.lead() == generation && other.contribution(generation).empty());
  std::vector<std::uint8_t> last;
  for (int round = 0; round < 10; round++) {
    for (int i = 0; i < 100; i++) {
      const dpb::Decision d = other.select();
      other.update(d.ticket, d.arm == 1);
    }
    last = other.contribution(generation);
    CHECK(!last.empty() && other.contribution(generation).empty() && rewards(dpb::Bandit::restore(other.snapshot())) == 0);
    leader.combine(last);
    other.merge(leader.snapshot());
  }
  CHECK(rewards(leader) > 0 && rewards(leader) <= 1000 && rewards(other) == rewards(leader));
  CHECK(leader.report().contributions == 10 && leader.report().contributions_lost == 0 && other.report().contributions == 0);

  CHECK(leader.report().duty == DPB_DUTY_LEADS && other.report().duty == DPB_DUTY_CONTRIBUTES);
  CHECK(leader.report().generation == generation && other.report().generation == generation);
  other.alone();
  CHECK(other.report().duty == DPB_DUTY_ALONE && other.report().generation == 0 && other.report().warnings == 0);
  CHECK(other.try_alone() == DPB_OK && none.try_alone() == DPB_UNSUPPORTED);
  CHECK(refusal([&] { none.alone(); }).status() == DPB_UNSUPPORTED);
  other.set_handles(3);
  CHECK(other.try_set_handles(0) == DPB_OK && none.try_set_handles(3) == DPB_UNSUPPORTED);
  CHECK(refusal([&] { none.set_handles(3); }).status() == DPB_UNSUPPORTED);

  CHECK(refusal([&] { leader.combine(last); }).status() == DPB_DUPLICATE);
  CHECK(leader.try_combine(last.data(), last.size()) == DPB_DUPLICATE && leader.try_combine(nullptr, 0) == DPB_CORRUPT);
  CHECK(other.lead() != generation && refusal([&] { other.combine(last); }).status() == DPB_EXPIRED);
  CHECK(refusal([&] { (void)leader.contribution(generation); }).status() == DPB_INVALID_CONFIG);
  CHECK(std::string(refusal([&] { (void)none.lead(); }).what()).find("fleet_key") != std::string::npos);
  CHECK(none.try_contribution(generation, last) == DPB_UNSUPPORTED && last.empty());

  const std::vector<std::uint8_t> message = {1, 2, 3};
  std::vector<std::uint8_t> sealed = leader.seal(message);
  CHECK(sealed.size() == message.size() + DPB_SEAL_BYTES && other.open(sealed) == message);
  CHECK(other.open(leader.seal({})).empty());
  sealed.back() ^= 1;
  CHECK(refusal([&] { (void)other.open(sealed); }).status() == DPB_CORRUPT);
  CHECK(none.try_open(sealed.data(), sealed.size(), last) == DPB_UNSUPPORTED);
  CHECK(refusal([&] { (void)none.seal(message); }).status() == DPB_UNSUPPORTED);
}

// Two handles use up a budget, so a third is refused.
static void budgets() {
  dpb::Budget budget(1.0);
  dpb::Config config(3, 0.5);
  config.budget = budget.get();
  dpb::Bandit first(config);
  CHECK(budget.spent() == 0.5 && budget.spent(1e-6) == 0.5 && budget.remaining() == 0.5);
  const dpb::Bandit second = dpb::Bandit::restore("dp-imed", config, first.snapshot());
  const dpb::Error error = refusal([&] { (void)dpb::Bandit::se(config); });
  CHECK(error.status() == DPB_OVER_BUDGET && std::string(error.what()).find("overspent: 1.5") != std::string::npos);
  CHECK(budget.spent() == 1.0 && budget.remaining() == 0.0);
  CHECK(refusal([&] { (void)budget.spent(1.0); }).status() == DPB_INVALID_CONFIG);
  CHECK(std::string(refusal([] { (void)dpb::Budget(-1.0); }).what()) == "epsilon must be finite and > 0, got -1");
  const dpb::Budget moved = std::move(budget);
  CHECK(moved.spent() == 1.0 && refusal([&] { (void)budget.remaining(); }).status() == DPB_NULL);
  // With users a budget covers a number of periods.
  dpb::Budget other(1.0);
  other.charge(0.75);
  CHECK(other.spent() == 0.75 && other.try_charge(0.5) == DPB_OVER_BUDGET && other.remaining() == 0.25);
  CHECK(refusal([&] { other.charge(-1.0); }).status() == DPB_INVALID_CONFIG);
  dpb::Budget four(4.0);
  config.budget = four.get();
  config.expected_users = 100;
  CHECK(refusal([&] { (void)dpb::Bandit(config); }).status() == DPB_INVALID_CONFIG && four.spent() == 0);
  config.budget_periods = 2;
  dpb::Bandit counting(config);
  CHECK(four.spent() == 1.0);
  counting.next_period();
  CHECK(refusal([&] { counting.next_period(); }).status() == DPB_OVER_BUDGET);
  (void)first.select();
}

// An A/B test, deterministic because of its seed, that stops and says so.
static void winner() {
  const std::uint8_t seed[32] = {8};
  dpb::Config config(3, 1.0);
  config.beta = 0.01;
  config.test_seed = seed;
  dpb::Bandit bandit = dpb::Bandit::tt(config);
  CHECK(!bandit.best_arm() && bandit.report().stopped == 0);
  for (int i = 0; i < 20'000 && !bandit.best_arm(); ++i) {
    const dpb::Decision d = bandit.select();
    bandit.update(d.ticket, d.arm == 1 ? 1.0 : 0.0);
  }
  CHECK(bandit.best_arm() == 1u && bandit.report().stopped == 1 && bandit.report().best_arm == 1);
  CHECK(bandit.select().arm == 1 && bandit.arms()[0].active == 0);
}

// An easy problem, deterministic because of its seed, until the policy has decided.
static void reading() {
  const std::uint8_t seed[32] = {7};
  dpb::Config config(3, 10.0);
  config.horizon = 1'000'000;
  config.test_seed = seed;
  dpb::Bandit bandit = dpb::Bandit::se(config);
  CHECK(!bandit.best_arm() && !bandit.compare(1, 0, 0.95) && !bandit.lift(dpb::no_arm, 0.95));
  CHECK(bandit.arms().size() == 3 && std::isnan(bandit.arms()[0].mean) && bandit.arms()[0].active == 1);
  CHECK(bandit.epsilon_spent() == 0.0);
  for (int i = 0; i < 200'000 && !bandit.best_arm(); ++i) {
    const dpb::Decision d = bandit.select();
    bandit.update(d.ticket, d.arm == 1 ? 1.0 : 0.0);
  }
  CHECK(bandit.best_arm() == 1u);
  const std::vector<dpb::Arm> arms = bandit.arms();
  CHECK(std::fabs(arms[1].mean - 1.0) <= arms[1].width && std::fabs(arms[0].mean) <= arms[0].width);
  CHECK(arms[1].active == 1 && arms[0].active == 0);
  CHECK(bandit.epsilon_spent() > 0.0 && bandit.epsilon_spent(1e-6) <= 10.0);
  CHECK(refusal([&] { (void)bandit.epsilon_spent(-1.0); }).status() == DPB_INVALID_CONFIG);
  const std::optional<dpb::Interval> better = bandit.compare(1, 0, 0.95);
  CHECK(better && better->low > 0.0 && better->low < 1.0 && better->high == 1.0);
  const std::optional<dpb::Interval> gain = bandit.lift(0, 0.95);
  CHECK(gain && gain->low > 0.0 && std::isinf(gain->high));
  CHECK(std::string(refusal([&] { (void)bandit.lift(7, 0.95); }).what()) ==
        "dpb_lift(control = 7, confidence = 0.95): DPB_INVALID_REQUEST");
  CHECK(std::string(refusal([&] { (void)bandit.compare(1, 1, 0.95); }).what()) ==
        "dpb_compare(i = 1, j = 1, confidence = 0.95): DPB_INVALID_CONFIG");
  CHECK(bandit.report().is_private == 0); // because of the test_seed
}

// Forgetting: when the other arm becomes better, the policy follows.
static void memory() {
  dpb::Config config(2, 1.0);
  config.forget_after = 10'000;
  config.exploration = 0.1;
  static const std::uint8_t seed[32] = {7};
  config.test_seed = seed;
  dpb::Bandit bandit = dpb::Bandit::med(config);
  const auto play = [&bandit](double zero, double one) {
    int ones = 0;
    for (int t = 0; t < 20'000; t++) {
      const dpb::Decision d = bandit.select();
      CHECK(d.propensity >= 0.05);
      ones += t >= 10'000 && d.arm == 1;
      bandit.update(d.ticket, d.arm == 1 ? one : zero);
    }
    return ones;
  };
  CHECK(play(0.2, 0.8) > 8'500);
  CHECK(bandit.report().changes_detected == 0 && bandit.arms()[1].effective_pulls <= 10'000.0);
  CHECK(play(0.8, 0.2) < 1'500);
  CHECK(bandit.report().changes_detected > 0 && bandit.arms()[0].effective_pulls > 3'000.0);
}

// A request of several slots, of which one click counts.
static void slates() {
  dpb::Config config(5, 1.0);
  config.reward_window = 6;
  config.max_slots = 3;
  config.max_clicks = 1;
  dpb::Bandit bandit = dpb::Bandit::imed(config);
  const std::vector<std::uint32_t> eligible = {4, 1, 4, 2}, none;
  const auto wanting = [](std::uint32_t slots) {
    dpb::Request request;
    request.slots = slots;
    return request;
  };
  for (int t = 0; t < 100; t++) {
    std::set<std::uint32_t> shown;
    for (const dpb::Decision &d : bandit.select_slots(wanting(3).among(eligible))) {
      shown.insert(d.arm);
      bandit.update(d.ticket, 1.0);
    }
    CHECK((shown == std::set<std::uint32_t>{1, 2, 4}));
  }
  CHECK(bandit.statement().find("\"privacy_loss\":{") != std::string::npos);
  CHECK(bandit.statement_text().find("Not protected: ") != std::string::npos);
  std::vector<std::uint8_t> stated;
  CHECK(bandit.try_statement(2, stated) == DPB_INVALID_CONFIG && stated.empty());
  CHECK(bandit.report().decisions == 300 && bandit.report().epsilon_spent <= 1.0 && bandit.report().epsilon_spent > 0.99);
  CHECK(bandit.select_slots(wanting(2)).size() == 2 && bandit.select(wanting(1).among({3})).arm == 3);
  CHECK(refusal([&] { (void)bandit.select_slots(wanting(2).among({1, 1})); }).what() ==
        std::string("dpb_select_for(slots = 2, segment = 0, eligible = {1, 1}): DPB_INVALID_REQUEST: "
                    "slots must be at most 1, the number of eligible arms, got 2"));
  CHECK(refusal([&] { (void)bandit.select_slots(wanting(4)); }).status() == DPB_INVALID_REQUEST);
  CHECK(refusal([&] { (void)bandit.select_slots(wanting(0)); }).status() == DPB_INVALID_REQUEST);
  CHECK(refusal([&] { (void)bandit.select_slots(wanting(1).among(none)); }).status() == DPB_INVALID_REQUEST);
  CHECK(refusal([&] { (void)bandit.select(wanting(2)); }).status() == DPB_INVALID_REQUEST); // needs select_slots
  dpb::Bandit fixed = dpb::Bandit::se(dpb::Config(3, 1.0));
  CHECK(refusal([&] { (void)fixed.select_slots(wanting(2)); }).status() == DPB_UNSUPPORTED);
}

static void snapshots() {
  dpb::Bandit bandit{dpb::Config(3, 1.0)};
  for (int t = 0; t < 1000; t++) {
    const dpb::Decision d = bandit.select();
    bandit.update(d.ticket, d.arm == 1 ? 1.0 : 0.0);
  }
  std::vector<std::uint8_t> bytes = bandit.snapshot();
  const dpb::Bandit next = dpb::Bandit::restore(bytes);
  CHECK(next.report().answered == 1000 && next.arms()[1].mean == bandit.arms()[1].mean);
  CHECK(dpb::Bandit::try_restore(bytes.data(), bytes.size()));
  bytes.pop_back();
  dpb_error error = {};
  CHECK(!dpb::Bandit::try_restore(bytes.data(), bytes.size(), &error) && error.status == DPB_CORRUPT);
  CHECK(refusal([&] { (void)dpb::Bandit::restore(bytes); }).status() == DPB_CORRUPT);
  CHECK(refusal([&] { (void)dpb::Bandit::restore({}); }).status() == DPB_CORRUPT);
  const dpb::Bandit raw = dpb::Bandit::nonprivate_ucb1(dpb::Config(3, 1.0));
  CHECK(raw.try_snapshot(bytes, &error) == DPB_UNSUPPORTED && bytes.empty());
  CHECK(refusal([&] { (void)raw.snapshot(); }).what() == std::string(error.message) && error.message[0] != '\0');
  dpb::Config config(3, 1.0);
  bytes = bandit.snapshot();
  CHECK(dpb::Bandit::restore("dp-imed", config, bytes).report().answered == 1000);
  config.forget_after = 5000; // another value than in the snapshot
  CHECK(dpb::Bandit::restore("dp-imed", config, bytes).report().answered == 1000);
  config.epsilon = 2;
  CHECK(refusal([&] { (void)dpb::Bandit::restore("dp-imed", config, bytes); }).what() ==
        std::string("epsilon must be 1, as in the snapshot, got 2"));
  CHECK(!dpb::Bandit::try_restore("dp-med", config, bytes.data(), bytes.size(), &error));
  CHECK(error.message == std::string("policy must be dp-imed, as in the snapshot, got dp-med"));
}

static void threads() {
  dpb::Config config(5, 1.0);
  config.pending_capacity = 1 << 15; // so that a suspended thread does not lose its ticket
  dpb::Bandit bandit = dpb::Bandit::se(config);
  std::atomic<int> refused{0};
  std::vector<std::thread> crowd;
  for (int t = 0; t < 4; ++t) {
    crowd.emplace_back([&] {
      for (int i = 0; i < 5000; ++i) {
        dpb::Decision d = {};
        refused += bandit.try_select(d) != DPB_OK || bandit.try_update(d.ticket, 0.5) != DPB_OK;
      }
    });
  }
  for (std::thread &thread : crowd) {
    thread.join();
  }
  CHECK(refused == 0 && bandit.report().answered == 20'000);
}

static void versions() {
  CHECK(dpb::version() == dpb_version() && dpb::abi_version() == dpb_abi_version());
  dpb::Config config(2, 1.0);
  config.node = 54'321;
  CHECK(dpb::ticket_node(dpb::Bandit(config).select().ticket) == 54'321);
}

static void stopping() {
  const dpb::StoppingConfig config(1.0, 0.5, 0.1, 1.0);
  const dpb::Error error = refusal([] { (void)dpb::Stopping::dp_nas(dpb::StoppingConfig(1.0, 1.5, 0.1, 1.0)); });
  CHECK(error.status() == DPB_INVALID_CONFIG && std::string(error.what()).find("alpha") == 0);
  CHECK(refusal([] { (void)dpb::Stopping::nas(dpb::StoppingConfig(-1.0, 0.5, 0.1, 1.0)); }).status() == DPB_INVALID_CONFIG);

  for (const bool is_private : {false, true, true}) {
    dpb::Stopping rule = is_private ? dpb::Stopping::dp_nas(config) : dpb::Stopping::nas(config);
    CHECK(refusal([&] { (void)rule.push(1.5); }).status() == DPB_INVALID_REWARD);
    CHECK(refusal([&] { (void)rule.push(std::nan("")); }).status() == DPB_INVALID_REWARD);
    CHECK(!rule.mean() && rule.is_private() == is_private);
    int samples = 1;
    while (!rule.push(1.0)) {
      CHECK(!rule.mean() && ++samples < 1'000'000);
    }
    // The noise is within alpha except with probability beta, here far within. It is 0 with probability 10^-7.
    CHECK(is_private ? *rule.mean() != 1.0 && std::fabs(*rule.mean() - 1.0) < 0.5 : *rule.mean() == 1.0);
    CHECK(*rule.mean() == *rule.mean());
    bool halted = false;
    CHECK(refusal([&] { (void)rule.push(1.0); }).status() == DPB_HALTED);
    CHECK(rule.try_push(1.0, halted) == DPB_HALTED && !halted); // the output is not written
    const dpb::Stopping moved = std::move(rule);
    CHECK(refusal([&] { (void)rule.push(1.0); }).status() == DPB_NULL);
    CHECK(refusal([&] { (void)rule.mean(); }).status() == DPB_NULL && moved.mean());
  }
  dpb::StoppingConfig seeded = config;
  const std::uint8_t seed[32] = {1};
  seeded.test_seed = seed;
  CHECK(!dpb::Stopping::dp_nas(seeded).is_private());
  // This rule tests only at powers of two.
  dpb::Stopping rare = dpb::Stopping::dp_exp_nas(config);
  int samples = 1;
  while (!rare.push(-1.0)) {
    CHECK(++samples < 1'000'000);
  }
  CHECK((samples & (samples - 1)) == 0 && *rare.mean() < 0.0);
}

static void counters() {
  using dpb::CounterKind;
  const dpb::Error error = refusal([] { (void)dpb::Counter(CounterKind::hybrid, 0.0); });
  CHECK(error.status() == DPB_INVALID_CONFIG && std::string(error.what()).find("epsilon") == 0);
  CHECK(refusal([] { (void)dpb::Counter(CounterKind::binary, 1.0); }).status() == DPB_INVALID_CONFIG); // no horizon
  CHECK(refusal([] { (void)dpb::Counter(CounterKind(9), 1.0); }).status() == DPB_INVALID_CONFIG);

  const std::uint8_t seed[32] = {7};
  dpb::CounterConfig seeded(CounterKind::hybrid, 1.0);
  seeded.test_seed = seed;
  dpb::Counter counter(seeded), twin(seeded);
  CHECK(counter.read() == 0.0);
  CHECK(!counter.is_private() && dpb::Counter(CounterKind::hybrid, 1.0).is_private());
  for (int i = 0; i < 1000; ++i) {
    counter.add(0.5);
    twin.add(0.5);
    CHECK(counter.read() == counter.read() && counter.read() == twin.read());
  }
  CHECK(counter.read() != 500.0 && std::fabs(counter.read() - 500.0) < 300.0);
  const double before = counter.read();
  for (const double bad : {-0.1, 1.1, std::numeric_limits<double>::quiet_NaN()}) {
    CHECK(counter.try_add(bad) == DPB_INVALID_REWARD && counter.read() == before);
  }
  CHECK(refusal([&] { counter.add(2.0); }).status() == DPB_INVALID_REWARD);
  const dpb::Counter moved = std::move(counter);
  CHECK(refusal([&] { counter.add(1.0); }).status() == DPB_NULL && moved.read() == before);
  CHECK(refusal([&] { (void)counter.read(); }).status() == DPB_NULL);

  // The first release carries Laplace(1/epsilon), of mean size 1: outside by chance with less than e^-20.
  double noise = 0.0;
  for (int i = 0; i < 400; ++i) {
    dpb::Counter fresh(CounterKind::logarithmic, 1.0);
    fresh.add(1.0);
    noise += std::fabs(fresh.read() - 1.0);
  }
  CHECK(noise > 280.0 && noise < 560.0);

  // Each value counts once, whichever thread adds it.
  dpb::Counter shared(CounterKind::binary, 1.0, 4000);
  std::atomic<int> taken{0};
  std::vector<std::thread> crowd;
  for (int t = 0; t < 4; ++t) {
    crowd.emplace_back([&] {
      for (int i = 0; i < 1100; ++i) {
        taken += shared.try_add(1.0) == DPB_OK;
      }
    });
  }
  for (std::thread &thread : crowd) {
    thread.join();
  }
  CHECK(taken == 4000 && shared.try_add(1.0) == DPB_HALTED);
}

static std::size_t ones(const std::vector<std::uint8_t> &bits) {
  std::size_t count = 0;
  for (const std::uint8_t bit : bits) {
    CHECK(bit <= 1);
    count += bit;
  }
  return count;
}

// The device's and the shuffler's functions.
static void shuffle_roles() {
  const dpb::Error error = refusal([] { (void)dpb::shuffle_plan(-1.5, 1e-6, 50); });
  CHECK(error.status() == DPB_INVALID_CONFIG && std::string(error.what()).find("epsilon must ") == 0);
  CHECK(std::string(error.what()).find("got -1.5") != std::string::npos);
  CHECK(refusal([] { (void)dpb::shuffle_plan(1.0, 0.0, 50); }).status() == DPB_INVALID_CONFIG);
  CHECK(refusal([] { (void)dpb::shuffle_plan(1.0, 1e-6, 0); }).status() == DPB_INVALID_CONFIG);
  CHECK(refusal([] { (void)dpb::shuffle_plan(1.0, 1e-6, 50, 1); }).status() == DPB_INVALID_CONFIG);
  const dpb::ShuffleParams plan = dpb::shuffle_plan(1.0, 1e-6, 50);
  CHECK(plan.users == 50 && plan.coins_per_user >= 1);
  CHECK(dpb::shuffle_plan(1.0, 1e-6, 50, DPB_SHUFFLE_PRINTED).coins_per_user > plan.coins_per_user);

  CHECK(refusal([&] { (void)dpb::shuffle_encode(plan, 1.5); }).status() == DPB_INVALID_REWARD);
  CHECK(refusal([&] { (void)dpb::shuffle_encode(plan, std::nan("")); }).status() == DPB_INVALID_REWARD);
  // A plan with less noise than it claims is refused by device and shuffler.
  for (const auto spoil : {+[](dpb::ShuffleParams &p) { p.coins_per_user = 0; },
                           +[](dpb::ShuffleParams &p) { p.coin_numerator = 1; },
                           +[](dpb::ShuffleParams &p) { p.coin_numerator -= p.coin_numerator / 8; },
                           +[](dpb::ShuffleParams &p) { p.users = 1; },
                           +[](dpb::ShuffleParams &p) { p.epsilon = 0.9; },
                           +[](dpb::ShuffleParams &p) { p.delta = 0.9e-6; }}) {
    dpb::ShuffleParams spoilt = plan;
    spoil(spoilt);
    CHECK(refusal([&] { (void)dpb::shuffle_encode(spoilt, 1.0); }).status() == DPB_INVALID_CONFIG);
    CHECK(refusal([&] { (void)dpb::Shuffler(spoilt); }).status() == DPB_INVALID_CONFIG);
  }
  std::uint8_t room[1] = {9};
  std::size_t len = 0;
  CHECK(dpb::try_shuffle_encode(plan, 1.0, room, 1, len) == DPB_BUFFER_TOO_SMALL);
  CHECK(len == 1 + plan.coins_per_user && room[0] == 9);

  dpb::Shuffler shuffler(plan);
  CHECK(refusal([&] { shuffler.push({1}); }).status() == DPB_INVALID_CONFIG);
  CHECK(refusal([&] { shuffler.push({}); }).status() == DPB_INVALID_CONFIG);
  CHECK(refusal([&] { shuffler.push(std::vector<std::uint8_t>(len, 2)); }).status() == DPB_INVALID_CONFIG);
  std::vector<std::uint8_t> sent;
  std::size_t coins = 0;
  for (std::uint32_t user = 0; user < plan.users; ++user) {
    CHECK(!shuffler.take());
    const std::vector<std::uint8_t> message = dpb::shuffle_encode(plan, user < 25 ? 1.0 : 0.0);
    CHECK(message.size() == len && message[0] == (user < 25)); // the reward's bit, then the coins
    coins += ones(message) - message[0];
    shuffler.push(message);
    sent.insert(sent.end(), message.begin(), message.end());
  }
  // The coins alone hide a user: some are 1 and some are 0, except with probability below 2^-60.
  CHECK(coins > 0 && coins < 50 * std::size_t{plan.coins_per_user});
  CHECK(refusal([&] { shuffler.push(std::vector<std::uint8_t>(len)); }).status() == DPB_EXPIRED);
  std::size_t needed = 0;
  CHECK(shuffler.try_take(room, 1, needed) == DPB_BUFFER_TOO_SMALL && needed == sent.size());
  const std::vector<std::uint8_t> batch = shuffler.take().value();
  CHECK(batch.size() == sent.size() && ones(batch) == ones(sent) && batch != sent);
  CHECK(!shuffler.take()); // only once
  shuffler.push(std::vector<std::uint8_t>(len));
  const dpb::Shuffler moved = std::move(shuffler);
  CHECK(refusal([&] { shuffler.push({}); }).status() == DPB_NULL);
  CHECK(refusal([&] { (void)shuffler.take(); }).status() == DPB_NULL && moved.get() != nullptr);

  // The shuffler accepts as many messages as the batch holds, from any number of threads.
  dpb::Shuffler shared(plan);
  std::atomic<std::uint32_t> taken{0};
  std::vector<std::thread> crowd;
  for (int t = 0; t < 4; ++t) {
    crowd.emplace_back([&] {
      const std::vector<std::uint8_t> message(len);
      for (int i = 0; i < 40; ++i) {
        taken += shared.try_push(message.data(), message.size()) == DPB_OK;
      }
    });
  }
  for (std::thread &thread : crowd) {
    thread.join();
  }
  CHECK(taken == plan.users && shared.take()->size() == sent.size());
}

// The server accepts each arm's batch once, in the open phase. Arm 1 always pays, and wins.
static void shuffled_batches() {
  dpb::Config config(2, 1.0);
  config.delta = 1e-6;
  config.horizon = 1'000'000;
  config.batch = 20; // too few to decide in one phase
  dpb::Bandit bandit = dpb::Bandit::sdp_ae(config);
  const auto batch = [&](std::uint32_t phase, double reward) {
    const dpb::ShuffleParams plan = bandit.shuffle_params(phase);
    dpb::Shuffler shuffler(plan);
    for (std::uint32_t user = 0; user < plan.users; ++user) {
      shuffler.push(dpb::shuffle_encode(plan, reward));
    }
    return shuffler.take().value();
  };
  const auto refused = [&](std::uint32_t phase, std::uint32_t arm, const std::vector<std::uint8_t> &bits) {
    return refusal([&] { bandit.submit_shuffled(phase, arm, bits); }).status();
  };
  CHECK(bandit.select().phase == 1);
  const std::vector<std::uint8_t> bits = batch(1, 0.0);
  CHECK(refused(1, 2, bits) == DPB_INVALID_CONFIG && refused(1, 0, {}) == DPB_INVALID_CONFIG);
  CHECK(refused(2, 0, bits) == DPB_NOT_READY && refused(0, 0, bits) == DPB_EXPIRED);
  CHECK(refused(1, 0, std::vector<std::uint8_t>(bits.size(), 2)) == DPB_INVALID_CONFIG);
  bandit.submit_shuffled(1, 0, bits);
  CHECK(refused(1, 0, bits) == DPB_DUPLICATE);
  bandit.submit_shuffled(1, 1, batch(1, 1.0));
  CHECK(refused(1, 1, bits) == DPB_EXPIRED);
  for (std::uint32_t phase = 2; phase < 1000 && !bandit.best_arm(); ++phase) {
    CHECK(bandit.select().phase == phase);
    bandit.submit_shuffled(phase, 0, batch(phase, 0.0));
    bandit.submit_shuffled(phase, 1, batch(phase, 1.0));
  }
  CHECK(bandit.best_arm() == 1u);
  CHECK(refused(1, 0, bits) == DPB_EXPIRED);

  config.batch = 0;
  dpb::Bandit simulation = dpb::Bandit::vb_sdp_ae(config);
  simulation.update(simulation.select().ticket, 1.0); // rewards reported by update, not in shuffled batches
  const std::size_t size = std::size_t{simulation.shuffle_params(1).users} * (simulation.shuffle_params(1).coins_per_user + 1);
  CHECK(refusal([&] { simulation.submit_shuffled(1, 0, std::vector<std::uint8_t>(size)); }).status() == DPB_UNSUPPORTED);
  dpb::Bandit plain = dpb::Bandit::se(dpb::Config(2, 1.0));
  CHECK(plain.try_submit_shuffled(1, 0, bits.data(), bits.size()) == DPB_UNSUPPORTED);
  CHECK(refusal([&] { (void)plain.shuffle_params(1); }).status() == DPB_UNSUPPORTED);
}

static void local() {
  for (const double bad : {0.0, 41.0, std::numeric_limits<double>::quiet_NaN()}) {
    CHECK(refusal([&] { (void)dpb::ldp_encode(bad, 1.0); }).status() == DPB_INVALID_CONFIG);
  }
  for (const double bad : {-0.1, 1.1, std::numeric_limits<double>::quiet_NaN()}) {
    CHECK(refusal([&] { (void)dpb::ldp_encode(1.0, bad); }).status() == DPB_INVALID_REWARD);
  }
  std::uint8_t untouched = 9;
  CHECK(dpb::try_ldp_encode(1.0, 2.0, untouched) == DPB_INVALID_REWARD && untouched == 9);
  // A one stays one with probability e/(1 + e) = 0.731; the rate of 4,000 is out by 0.06 with probability 2e-17.
  int stayed = 0;
  for (int i = 0; i < 4000; ++i) {
    stayed += dpb::ldp_encode(1.0, 1.0);
  }
  CHECK(std::fabs(stayed / 4000.0 - std::exp(1.0) / (1.0 + std::exp(1.0))) < 0.06);

  dpb::Bandit bandit = dpb::Bandit::ldp_ucb(dpb::Config(2, 1.0));
  const dpb::Decision decision = bandit.select();
  CHECK(bandit.try_update(decision.ticket, 0.5) == DPB_INVALID_REWARD); // a raw reward
  bandit.update(decision.ticket, dpb::ldp_encode(1.0, 0.5));
}

// A lift by features needs exploration.
static void lift_by_features() {
  for (const double exploration : {0.0, 0.2}) {
    const std::uint8_t seed[32] = {9};
    dpb::Config config(3, 4.0);
    config.features = 1;
    config.feature_model = DPB_MODEL_PER_ARM;
    config.exploration = exploration;
    config.test_seed = seed;
    dpb::Bandit bandit = dpb::Bandit::linear(config);
    const std::vector<float> row = {1.0F};
    for (int t = 0; t < 20'000; ++t) {
      const dpb::Decision decision = bandit.select(dpb::Request().with_features(row));
      bandit.update(decision.ticket, decision.arm == 1 ? 1.0 : 0.0);
    }
    if (exploration > 0.0) {
      const std::optional<dpb::Interval> gain = bandit.lift(dpb::no_arm, 0.95);
      CHECK(gain && gain->low > 0.5 && gain->low < 2.0 && gain->high > 2.0); // 1 in place of 1/3
    } else {
      CHECK(refusal([&] { (void)bandit.lift(dpb::no_arm, 0.95); }).status() == DPB_UNSUPPORTED);
    }
  }
}

// Features: requests with rows, predictions for them, and categories as indices.
static void features() {
  dpb::Config config(3, 1.0);
  config.features = 2;
  config.feature_model = DPB_MODEL_PER_ARM;
  dpb::Bandit bandit = dpb::Bandit::linear(config);
  const std::vector<float> row = {1.0F, 0.0F};
  for (int t = 0; t < 2000; ++t) {
    const dpb::Decision decision = bandit.select(dpb::Request().with_features(row));
    bandit.update(decision.ticket, decision.arm == 1 ? 1.0 : 0.0);
  }
  const std::vector<dpb::Prediction> believed = bandit.predict(dpb::Request().with_features(row).among({0, 1, 2}));
  CHECK(believed.size() == 3 && believed[1].mean > believed[0].mean && believed[1].mean > believed[2].mean);
  const std::vector<dpb::Prediction> all = bandit.predict(dpb::Request().with_features(row));
  CHECK(all.size() == 3 && all[1].mean == believed[1].mean && all[1].deviation == believed[1].deviation);
  double mean[3] = {7.0, 7.0, 7.0};
  std::size_t n = 0;
  CHECK(bandit.try_predict(dpb::Request().with_features(row), mean, nullptr, 2, n) == DPB_BUFFER_TOO_SMALL && n == 3);
  CHECK(mean[0] == 7.0 && bandit.try_predict(dpb::Request().with_features(row), mean, nullptr, 3, n) == DPB_OK);
  CHECK(mean[1] == believed[1].mean);
  const std::vector<dpb::Prediction> weights = bandit.feature_weights(1);
  CHECK(weights.size() == 3 && weights[0].mean > 0.0 && weights[0].deviation > 0.0);
  CHECK(bandit.try_feature_weights(1, mean, nullptr, 2, n) == DPB_BUFFER_TOO_SMALL && n == 3);
  CHECK(bandit.try_feature_weights(1, mean, nullptr, 3, n) == DPB_OK && mean[0] == weights[0].mean);
  CHECK(std::string(refusal([&] { (void)bandit.feature_weights(7); }).what()) ==
        "dpb_feature_weights(arm = 7): DPB_INVALID_REQUEST");
  const std::vector<float> half = {1.0F};
  CHECK(std::string(refusal([&] { (void)bandit.predict(dpb::Request().with_features(half)); }).what())
            .find("features_len must be 2 for this request, got 1") != std::string::npos);
  CHECK(refusal([&] { (void)bandit.select(dpb::Request()); }).status() == DPB_INVALID_REQUEST);
  CHECK(refusal([&] { (void)bandit.select(); }).status() == DPB_UNSUPPORTED);
  std::uint32_t index = 7;
  CHECK(dpb::try_feature_hash("device", "phone", 1000, index) == DPB_OK && index == 627);
  index = 7;
  CHECK(dpb::try_feature_hash("device", std::string("pho\0ne", 6), 1000, index) == DPB_INVALID_REQUEST && index == 7);
  CHECK(dpb::try_feature_hash(std::string("\0", 1), "phone", 1000, index) == DPB_INVALID_REQUEST && index == 7);
  std::vector<float> book;
  CHECK(dpb::try_codebook({1, 0, 0, 1, 1, 1}, 2, 2, book) == DPB_OK && book.size() == 4);
  CHECK(dpb::try_codebook({1, 0}, 2, 9, book) == DPB_INVALID_CONFIG && book.size() == 4);
  book = dpb::codebook({}, 2, 4);
  CHECK(book.size() == 8 && book[0] == 1.0F && book[7] == -1.0F);
  CHECK(refusal([&] { (void)dpb::codebook({}, 2, 3); }).status() == DPB_INVALID_CONFIG);
  dpb::Config hidden(3, 2.0);
  hidden.features = 2;
  hidden.flags = DPB_PRIVATE_FEATURES;
  hidden.reward_window = 5;
  hidden.codebook = book.data();
  hidden.codebook_len = 4;
  dpb::Bandit closed(hidden);
  const std::vector<float> three = {1, 0, 0, 1, 1, 1};
  closed.update(closed.select(dpb::Request().with_features(three)).ticket, 1.0);
  CHECK(closed.report().decisions == 1 && closed.arms()[0].pulls == 0);
  CHECK(dpb::feature_hash("device", "phone", 64) < 64 && dpb::feature_cross(1, 2, 64) < 64);
}

static void segments() {
  const auto says = [](auto call) { return std::string(refusal(call).what()); };
  dpb::Config config(4, 1.0);
  config.max_segments = 2;
  dpb::Bandit bandit(config);
  const auto in = [](std::uint64_t segment) {
    dpb::Request request;
    request.segment = segment;
    return request;
  };
  CHECK(says([&] { (void)dpb::Bandit::med(config); }).find("max_segments must be 0") == 0);
  CHECK(says([&] { (void)bandit.segment(70); }) == "dpb_segment_read(segment = 70): DPB_INVALID_REQUEST");
  CHECK(says([&] { (void)bandit.select(in(70).among({1, 9})); }) ==
        "dpb_select_for(slots = 1, segment = 70, eligible = {1, 9}): DPB_INVALID_REQUEST: eligible must be below 4, got 9");
  CHECK(bandit.report().decisions == 0 && bandit.report().segments == 0 && bandit.report().max_segments == 2);

  {
    // Several slots, and added and retired arms.
    dpb::Bandit able(config);
    dpb::Request three = in(70);
    three.slots = 3;
    const std::vector<dpb::Decision> shown = able.select_slots(three);
    CHECK(shown.size() == 3 && shown[0].arm != shown[1].arm && shown[0].propensity == 1.0);
    const std::uint32_t added = able.add_arm(4711);
    CHECK(added == 4 && able.select(in(70).among({added})).arm == added);
    able.retire_arm(added);
    CHECK(refusal([&] { (void)able.select(in(70).among({added})); }).status() == DPB_INVALID_REQUEST);
  }

  CHECK(bandit.select(in(71).among({3})).arm == 3);
  CHECK(bandit.select(in(71).among(std::vector<std::uint32_t>{2})).arm == 2);
  const std::vector<dpb::Decision> some = bandit.select_many({in(70), in(71), in(70)});
  CHECK(says([&] { (void)bandit.select(in(72)); }).find("DPB_FULL") != std::string::npos);
  bandit.update(some[0].ticket, 1.0);
  bandit.cancel(some[1].ticket);
  bandit.update_many({some[2].ticket}, {1.0});
  const dpb::Report report = bandit.report();
  CHECK(report.decisions == 5 && report.answered == 2 && report.cancelled == 1 && report.pending == 2);
  CHECK(report.is_private == 1 && report.arms_active == 4 && report.epsilon_spent == 0.0 && report.segments == 2);
  const std::vector<dpb::Arm> arms = bandit.segment(71);
  CHECK(arms.size() == 4 && arms[3].pulls >= 1 && std::isnan(arms[3].width) && arms[3].mean > 0.0);
  CHECK(bandit.arms().size() == 4 && bandit.arms()[3].pulls >= arms[3].pulls);

  const std::vector<std::uint8_t> bytes = bandit.snapshot();
  CHECK(dpb::Bandit::restore(bytes).report().segments == 2);
  config.max_segments = 3;
  dpb::Bandit larger = dpb::Bandit::restore("dp-imed", config, bytes);
  larger.cancel(larger.select(in(72)).ticket);
  CHECK(larger.report().segments == 3 && larger.report().expired == 2);
  config.max_segments = 1;
  CHECK(says([&] { (void)dpb::Bandit::restore("dp-imed", config, bytes); }) ==
        "max_segments must be at least 2, as in the snapshot, got 1");

  // A merged release takes effect in a segment when a request first has its key.
  dpb::Bandit other(config);
  do {
    other.update(other.select(in(71).among({0})).ticket, 1.0);
  } while (other.segment(71)[0].effective_pulls == 0.0);
  const std::vector<std::uint8_t> told = other.snapshot();
  larger.merge(told);
  CHECK(larger.try_merge(told.data(), told.size()) == DPB_OK);
  CHECK(larger.segment(71)[0].effective_pulls == other.segment(71)[0].effective_pulls && larger.report().segments == 3);
  CHECK(refusal([&] { larger.merge({1, 2, 3}); }).status() == DPB_CORRUPT);
  CHECK(refusal([&] { larger.merge(dpb::Bandit(dpb::Config(4, 1.0)).snapshot()); }).status() == DPB_INVALID_CONFIG);
  config.epsilon = 0.5;
  dpb::Bandit stranger(config);
  CHECK(says([&] { stranger.merge(told); }).find("epsilon must be") == 0);

  // Many threads on one handle: each ends its own decisions.
  config.pending_capacity = 1 << 15; // as in threads()
  config.max_segments = 64;
  dpb::Bandit shared(config);
  std::vector<std::thread> threads;
  for (std::uint32_t number = 0; number < 4; ++number) {
    threads.emplace_back([&shared, &in, number] {
      for (std::uint32_t t = 0; t < 2000; ++t) {
        shared.update(shared.select(in((t * 7 + number) % 64)).ticket, t % 3 == 0);
      }
    });
  }
  for (std::thread &thread : threads) {
    thread.join();
  }
  CHECK(shared.report().answered == 8000 && shared.report().segments == 64);
}

int main() {
  versions();
  stopping();
  counters();
  segments();
  features();
  lift_by_features();
  shuffle_roles();
  shuffled_batches();
  local();
  construction();
  by_name();
  messages();
  ownership();
  both_roads();
  windows_of_time();
  batches();
  parts();
  arrays();
  arms_come_and_go();
  values();
  costs();
  positions();
  users();
  priors();
  handles_learn_from_each_other();
  states_move();
  handles_combine();
  budgets();
  winner();
  reading();
  memory();
  slates();
  snapshots();
  threads();
  std::printf("%d checks held\n", checks);
}
