// dpb.hpp checks itself: ownership, both roads, batches, reading, refusals. Exits 0 when all held.
#include <dpb.hpp>

#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
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
  CHECK(refusal([&] { (void)dpb::Bandit(config); }).status() == DPB_VERSION);
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
  CHECK(std::string(duplicate.what()) == "dpb_update: DPB_DUPLICATE");

  dpb::Decision b = {};
  CHECK(bandit.try_select(b) == DPB_OK);
  for (const double bad : {-0.1, 1.1, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    CHECK(bandit.try_update(b.ticket, bad) == DPB_INVALID_REWARD);
  }
  CHECK(bandit.try_update(b.ticket, 0.25) == DPB_OK);
  CHECK(bandit.try_update(b.ticket, 0.25) == DPB_DUPLICATE);
  CHECK(bandit.try_cancel(~b.ticket) == DPB_UNKNOWN_TICKET);
  bandit.cancel(bandit.select().ticket);

  const dpb::Report report = bandit.report();
  CHECK(report.decisions == 3 && report.answered == 2 && report.cancelled == 1 && report.pending == 0);
  const dpb::Diagnostics seen = bandit.diagnostics();
  CHECK(seen.duplicates == 2 && seen.rejected == 4 && seen.unknown == 1 && seen.late == 0);
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
  bandit.update_many({}, {});
}

// An easy problem, deterministic by its seed, until the policy has decided.
static void reading() {
  const std::uint8_t seed[32] = {7};
  dpb::Config config(3, 10.0);
  config.horizon = 1'000'000;
  config.test_seed = seed;
  dpb::Bandit bandit = dpb::Bandit::se(config);
  CHECK(!bandit.best_arm());
  CHECK(bandit.arms().size() == 3 && std::isnan(bandit.arms()[0].mean) && bandit.arms()[0].active == 1);
  CHECK(bandit.privacy() == 0.0);
  for (int i = 0; i < 200'000 && !bandit.best_arm(); ++i) {
    const dpb::Decision d = bandit.select();
    bandit.update(d.ticket, d.arm == 1 ? 1.0 : 0.0);
  }
  CHECK(bandit.best_arm() == 1u);
  const std::vector<dpb::Arm> arms = bandit.arms();
  CHECK(std::fabs(arms[1].mean - 1.0) <= arms[1].width && std::fabs(arms[0].mean) <= arms[0].width);
  CHECK(arms[1].active == 1 && arms[0].active == 0);
  CHECK(bandit.privacy() > 0.0 && bandit.privacy(1e-6) <= 10.0);
  CHECK(refusal([&] { (void)bandit.privacy(-1.0); }).status() == DPB_INVALID_CONFIG);
  CHECK(bandit.report().is_private == 0); // a test_seed
}

static void threads() {
  dpb::Config config(5, 1.0);
  config.pending_capacity = 1 << 15; // a sleeping thread must not lose its ticket to the others
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

int main() {
  construction();
  ownership();
  both_roads();
  batches();
  reading();
  threads();
  std::printf("%d checks held\n", checks);
}
