// dpb.hpp under -fno-exceptions -fno-rtti: the try_ road does it all, and allocates nothing where dpb.h
// says so. With an argument: the other road, which has no way out but abort().
#include <dpb.hpp>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <new>
#if __cplusplus >= 202002L
#include <span>
#endif

static int allocations = 0;
void *operator new(std::size_t size) {
  ++allocations;
  void *memory = std::malloc(size);
  return memory != nullptr ? memory : (std::abort(), nullptr);
}
void operator delete(void *memory) noexcept { std::free(memory); }
void operator delete(void *memory, std::size_t) noexcept { std::free(memory); }

#define CHECK(condition)                                                                           \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                         \
      std::exit(1);                                                                                \
    }                                                                                              \
  } while (false)

static void bandits() {
  dpb_error error = {};
  CHECK(!dpb::Bandit::try_new(dpb::Config(3, -1.0), &error));
  CHECK(error.status == DPB_INVALID_CONFIG && std::string_view(error.message).find("epsilon") == 0);
  CHECK(!dpb::Bandit::try_new("dp-none", dpb::Config(3, 1.0)));
  CHECK(!dpb::Bandit::try_new(nullptr, dpb::Config(3, 1.0), &error) && error.status == DPB_NULL);
  CHECK(dpb::Bandit::try_new(dpb::Config(3, 1.0))->policy_name() == dpb_policy_name(dpb::Bandit(dpb::Config(3, 1.0)).get()));
  std::optional<dpb::Bandit> bandit = dpb::Bandit::try_new("dp-imed", dpb::Config(3, 1.0), &error);
  CHECK(bandit && bandit->policy_name() == "dp-imed");

  const std::uint32_t array[] = {0, 2};
  const std::array<std::uint32_t, 1> one = {1};
  const std::vector<std::uint32_t> vector = {2};
  const int before = allocations;
  CHECK(bandit->select_among(array).arm != 1);
  CHECK(bandit->select_among(one).arm == 1);
  CHECK(bandit->select_among(vector).arm == 2);
  CHECK(bandit->select_among({0, 1}).arm != 2);
#if __cplusplus >= 202002L
  CHECK(bandit->select_among(std::span(array, 1)).arm == 0);
#endif
  dpb::Decision decision = {};
  CHECK(bandit->try_select_among(array, 2, decision) == DPB_OK && bandit->try_update(decision.ticket, 1.0) == DPB_OK);
  dpb::Decision slate[2] = {};
  CHECK(bandit->try_select_slate(array, 2, 2, slate) == DPB_OK && slate[0].arm + slate[1].arm == 2);
  CHECK(bandit->try_cancel(slate[0].ticket) == DPB_OK && bandit->try_cancel(slate[1].ticket) == DPB_OK);
  CHECK(bandit->try_select_slate(nullptr, 0, 4, slate) == DPB_INVALID_CONFIG);
  CHECK(bandit->try_select(decision) == DPB_OK && bandit->try_cancel(decision.ticket) == DPB_OK);

  dpb::Report report = {};
  CHECK(bandit->try_report(report) == DPB_OK && report.answered == 1 && report.cancelled == 3);
  dpb::Diagnostics counts = {};
  CHECK(bandit->try_update(decision.ticket, 1.0) == DPB_DUPLICATE);
  CHECK(bandit->try_diagnostics(counts) == DPB_OK && counts.duplicates == 1);
  dpb::Arm arms[4];
  std::size_t n = 0;
  CHECK(bandit->try_arms(arms, 2, n) == DPB_BUFFER_TOO_SMALL && n == 3 && bandit->try_arms(arms, 4, n) == DPB_OK);
  double epsilon = -1.0;
  CHECK(bandit->try_privacy(0.0, epsilon) == DPB_OK && epsilon == report.epsilon_spent);
  CHECK(bandit->try_privacy(-1.0, epsilon) == DPB_INVALID_CONFIG);
  std::uint32_t arm = 9;
  CHECK(bandit->try_best_arm(arm) == DPB_NOT_READY && arm == 9);
  dpb::Interval difference = {7.0, 7.0};
  CHECK(bandit->try_compare(0, 0, 0.9, difference) == DPB_INVALID_CONFIG && difference.low == 7.0);
  CHECK(bandit->try_add_arm(arm, &error) == DPB_OK && arm == 3 && bandit->try_retire_arm(7) == DPB_INVALID_CONFIG);
  dpb::ShuffleParams params = {};
  CHECK(bandit->try_shuffle_params(1, params) == DPB_UNSUPPORTED);
  CHECK(allocations == before);
}

static void pools() {
  dpb_error error = {};
  CHECK(!dpb::Pool::try_new(dpb::Config(3, 1.0), 0, &error) && std::string_view(error.message).find("max_segments") == 0);
  std::optional<dpb::Pool> pool = dpb::Pool::try_new(dpb::Config(3, 1.0), 1);
  const int before = allocations;
  std::uint32_t segment = 9;
  CHECK(pool && pool->try_segment(7, segment) == DPB_OK && segment == 0 && pool->try_segment(8, segment) == DPB_FULL);
  dpb::Decision decisions[2] = {};
  const std::uint32_t both[] = {0, 0};
  CHECK(pool->try_select_many(both, decisions, 2) == DPB_OK && pool->try_cancel(decisions[0].ticket) == DPB_OK);
  CHECK(pool->try_update(decisions[1].ticket, 1.0) == DPB_OK && pool->try_select(0, decisions[0]) == DPB_OK);
  CHECK(pool->try_select(1, decisions[0]) == DPB_INVALID_CONFIG && pool->select_among(0, {2}).arm == 2);
  dpb::PoolReport report = {};
  CHECK(pool->try_report(report) == DPB_OK && report.answered == 1 && report.pending == 2);
  CHECK(allocations == before);
  std::vector<std::uint8_t> bytes;
  CHECK(pool->try_snapshot(bytes) == DPB_OK && dpb::Pool::try_restore(bytes.data(), bytes.size()));
  CHECK(dpb::Pool::try_restore(dpb::Config(3, 1.0), 5, bytes.data(), bytes.size())->try_segment(8, segment) == DPB_OK);
  CHECK(pool->try_merge(bytes.data(), bytes.size(), &error) == DPB_OK && pool->try_merge(nullptr, 0) == DPB_CORRUPT);
  CHECK(!dpb::Pool::try_restore(dpb::Config(3, 2.0), 5, bytes.data(), bytes.size(), &error) && error.message[0] == 'e');
}

static void others() {
  dpb_error error = {};
  CHECK(dpb::Counter::try_new(dpb::CounterConfig(dpb::CounterKind::hybrid, 1.0)));
  CHECK(!dpb::Counter::try_new(dpb::CounterConfig(dpb::CounterKind::binary, 1.0), &error));
  CHECK(std::string_view(error.message).find("horizon") == 0);
  const std::optional<dpb::Budget> budget = dpb::Budget::try_new(1.0, 1e-6);
  double left = 7.0;
  CHECK(budget && budget->try_remaining(left) == DPB_OK && left == 1.0);
  CHECK(budget->try_spent(2.0, left) == DPB_INVALID_CONFIG && left == 1.0);
  CHECK(!dpb::Budget::try_new(1.0, 1.0, &error) && std::string_view(error.message).find("delta") == 0);
  const dpb::StoppingConfig config(1.0, 0.5, 0.1, 1.0);
  std::optional<dpb::Stopping> rule = dpb::Stopping::try_new(dpb_new_dp_nas, config);
  double mean = 7.0;
  CHECK(rule && rule->try_mean(mean) == DPB_NOT_READY && mean == 7.0);
  CHECK(!dpb::Stopping::try_new(dpb_new_nas, dpb::StoppingConfig(-1.0, 0.5, 0.1, 1.0), &error));
  CHECK(std::string_view(error.message).find("range") == 0);
  dpb::ShuffleParams plan = {};
  CHECK(dpb::try_shuffle_plan(1.0, 1e-6, 0, 0, plan, &error) == DPB_INVALID_CONFIG && error.message[0] == 'u');
  CHECK(dpb::try_shuffle_plan(1.0, 1e-6, 50, 0, plan) == DPB_OK && dpb::Shuffler::try_new(plan));
  plan.users = 0;
  CHECK(!dpb::Shuffler::try_new(plan, &error) && error.status == DPB_INVALID_CONFIG);
}

int main(int argc, char **) {
  if (argc > 1) {
    dpb::Bandit(dpb::Config(2, 1.0)).cancel(7);
    return 0;
  }
  bandits();
  pools();
  others();
  return 0;
}
