// dpb.hpp under -fno-exceptions -fno-rtti: the try_ functions cover all calls, and allocate nothing where dpb.h says so.
// With an argument it calls a function that would throw, which ends in abort().
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
  dpb::Request request;
  CHECK(bandit->select(request.among(array)).arm != 1);
  CHECK(bandit->select(request.among(one)).arm == 1);
  CHECK(bandit->select(request.among(vector)).arm == 2);
  CHECK(bandit->select(dpb::Request().among({0, 1})).arm != 2);
#if __cplusplus >= 202002L
  CHECK(bandit->select(request.among(std::span(array, 1))).arm == 0);
#endif
  dpb::Decision decision = {};
  request.among(array, 2);
  CHECK(bandit->try_select(request, &decision) == DPB_OK && bandit->try_update(decision.ticket, 1.0) == DPB_OK);
  dpb::Decision slots[2] = {};
  request.slots = 2;
  CHECK(bandit->try_select(request, slots) == DPB_OK && slots[0].arm + slots[1].arm == 2);
  CHECK(bandit->try_cancel(slots[0].ticket) == DPB_OK && bandit->try_cancel(slots[1].ticket) == DPB_OK);
  CHECK(bandit->try_check(request) == DPB_OK);
  double mean = 0.0;
  std::size_t predictions = 7;
  CHECK(bandit->try_predict(request, &mean, nullptr, 1, predictions) == DPB_UNSUPPORTED && predictions == 7);
  request.slots = 3;
  CHECK(bandit->try_select(request, slots) == DPB_INVALID_REQUEST);
  CHECK(bandit->try_select(decision) == DPB_OK && bandit->try_cancel(decision.ticket) == DPB_OK);

  dpb::Report report = {};
  CHECK(bandit->try_report(report) == DPB_OK && report.answered == 1 && report.cancelled == 3);
  CHECK(bandit->try_cancel_all() == DPB_OK && bandit->try_report(report) == DPB_OK && report.pending == 0);
  dpb::Diagnostics counts = {};
  CHECK(bandit->try_update(decision.ticket, 1.0) == DPB_DUPLICATE);
  CHECK(bandit->try_diagnostics(counts) == DPB_OK && counts.duplicates == 1);
  dpb::Arm arms[4];
  std::size_t n = 0;
  CHECK(bandit->try_arms(arms, 2, n) == DPB_BUFFER_TOO_SMALL && n == 3 && bandit->try_arms(arms, 4, n) == DPB_OK);
  double epsilon = -1.0;
  CHECK(bandit->try_epsilon_spent(0.0, epsilon) == DPB_OK && epsilon == report.epsilon_spent);
  CHECK(bandit->try_epsilon_spent(-1.0, epsilon) == DPB_INVALID_CONFIG);
  std::uint32_t arm = 9;
  CHECK(bandit->try_best_arm(arm) == DPB_UNSUPPORTED && arm == 9);
  dpb::Interval difference = {7.0, 7.0};
  CHECK(bandit->try_compare(0, 0, 0.9, difference) == DPB_INVALID_CONFIG && difference.low == 7.0);
  CHECK(bandit->try_lift(9, 0.9, difference) == DPB_INVALID_REQUEST && difference.low == 7.0);
  CHECK(bandit->try_add_arm(0, arm, &error) == DPB_OK && arm == 3 && bandit->try_retire_arm(7) == DPB_INVALID_REQUEST);
  dpb::ShuffleParams params = {};
  CHECK(bandit->try_shuffle_params(1, params) == DPB_UNSUPPORTED);
  CHECK(allocations == before);
}

static void segments() {
  dpb_error error = {};
  dpb::Config config(3, 1.0);
  config.max_segments = 1;
  std::optional<dpb::Bandit> bandit = dpb::Bandit::try_new(config);
  const int before = allocations;
  dpb::Request requests[2];
  requests[0].segment = requests[1].segment = 7;
  dpb::Decision decisions[2] = {};
  std::size_t done = 0;
  CHECK(bandit && bandit->try_select_many(requests, 2, decisions, done) == DPB_OK && done == 2);
  CHECK(bandit->try_cancel(decisions[0].ticket) == DPB_OK && bandit->try_update(decisions[1].ticket, 1.0) == DPB_OK);
  CHECK(bandit->select(requests[0].among({2})).arm == 2);
  requests[1].segment = 8;
  CHECK(bandit->try_select(requests[1], decisions) == DPB_FULL);
  dpb::Report report = {};
  CHECK(bandit->try_report(report) == DPB_OK && report.answered == 1 && report.pending == 1 && report.segments == 1);
  dpb::Arm arms[3];
  std::size_t n = 0;
  CHECK(bandit->try_segment(7, arms, 3, n) == DPB_OK && n == 3 && bandit->try_segment(8, arms, 3, n) == DPB_INVALID_REQUEST);
  CHECK(allocations == before);
  std::vector<std::uint8_t> bytes;
  CHECK(bandit->try_snapshot(bytes) == DPB_OK && dpb::Bandit::try_restore(bytes.data(), bytes.size()));
  CHECK(bandit->try_stored(bytes.data(), bytes.size()) == DPB_OK);
  config.max_segments = 5;
  std::optional<dpb::Bandit> larger = dpb::Bandit::try_restore("dp-imed", config, bytes.data(), bytes.size());
  CHECK(larger && larger->try_select(requests[1], decisions) == DPB_OK);
  CHECK(bandit->try_merge(bytes.data(), bytes.size(), &error) == DPB_OK && bandit->try_merge(nullptr, 0) == DPB_CORRUPT);
  config.epsilon = 2.0;
  CHECK(!dpb::Bandit::try_restore("dp-imed", config, bytes.data(), bytes.size(), &error) && error.message[0] == 'e');
}

static void combining() {
  const std::uint8_t key[32] = {};
  dpb_error error = {};
  dpb::Config config(3, 1.0);
  config.fleet_key = key;
  std::optional<dpb::Bandit> leader = dpb::Bandit::try_new(config), other = dpb::Bandit::try_new(config);
  std::uint64_t generation = 0;
  std::vector<std::uint8_t> bytes, opened;
  CHECK(leader && other && leader->try_lead(generation) == DPB_OK && generation != 0);
  CHECK(other->try_contribution(generation, bytes) == DPB_OK && bytes.empty()); // from here on it releases nothing itself
  dpb::Decision decision = {};
  CHECK(other->try_select(decision) == DPB_OK && other->try_update(decision.ticket, 1.0) == DPB_OK);
  CHECK(other->try_contribution(generation, bytes) == DPB_OK && !bytes.empty());
  CHECK(leader->try_combine(bytes.data(), bytes.size()) == DPB_OK);
  CHECK(leader->try_combine(bytes.data(), bytes.size(), &error) == DPB_DUPLICATE && error.status == DPB_DUPLICATE);
  CHECK(leader->try_seal(key, 3, bytes) == DPB_OK && other->try_open(bytes.data(), bytes.size(), opened) == DPB_OK);
  CHECK(opened == std::vector<std::uint8_t>(3));
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
  bool is_private = false;
  CHECK(rule->try_is_private(is_private) == DPB_OK && is_private);
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
  segments();
  combining();
  others();
  return 0;
}
