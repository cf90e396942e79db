/*
 * libdpb for C++17 and later: a header-only, move-only wrapper over dpb.h.
 *
 *     dpb::Config config(10, 1.0);                // 10 arms, epsilon = 1
 *     config.horizon = 1'000'000;                 // the fields of dpb_config
 *     auto bandit = dpb::Bandit::se(config);      // throws dpb::Error
 *     dpb::Decision d = bandit.select();
 *     bandit.update(d.ticket, clicked ? 1.0 : 0.0);
 *
 * Two roads: select, update, cancel throw dpb::Error; try_select, try_update, try_cancel are
 * noexcept and return the dpb_status; so do all other classes here, and their try_new returns an
 * optional. Under -fno-exceptions (in all of a program, or in none of it) the first road ends the
 * program where it would throw. Objects may be used from any number of threads at once, but moving
 * and destroying them must happen alone. A moved-from object answers DPB_NULL.
 *
 * Besides Bandit and Request: Budget (what several bandits may cost together), Stopping (stopping rules), Counter (private running sums), Shuffler with
 * shuffle_plan and shuffle_encode (the shuffle model), ldp_encode (the local model).
 *
 * What each call means is said in dpb.h, at the C function of the same name.
 */
#ifndef DPB_HPP
#define DPB_HPP

#include <dpb.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace dpb {

using Decision = dpb_decision;
using Report = dpb_report;
using Arm = dpb_arm;
using Diagnostics = dpb_diagnostics;
/// The confidence interval of dpb_compare for the difference of two arms' means.
struct Interval {
  double low;
  double high;
};
/// One entry of a sparse row.
using Feature = dpb_feature;
/// The predicted mean reward of a row and its standard deviation (dpb_predict).
struct Prediction {
  double mean;
  double deviation;
};
/// The index, below d, of a category, and of the combination of two (dpb_feature_hash, dpb_feature_cross).
[[nodiscard]] inline std::uint32_t feature_hash(const char *field, const char *value, std::uint32_t d) noexcept {
  return dpb_feature_hash(field, value, d);
}
[[nodiscard]] inline std::uint32_t feature_cross(std::uint32_t a, std::uint32_t b, std::uint32_t d) noexcept {
  return dpb_feature_cross(a, b, d);
}
/// The plan on which encoders, shuffler and server of one batch agree; made by shuffle_plan.
using ShuffleParams = dpb_shuffle_params;

/// The version of the linked library, "0.1.0".
[[nodiscard]] inline std::string_view version() noexcept { return dpb_version(); }
/// The version of the linked library's C interface: major << 16 | minor.
[[nodiscard]] inline std::uint32_t abi_version() noexcept { return dpb_abi_version(); }
/// The node that issued a ticket.
[[nodiscard]] inline std::uint16_t ticket_node(std::uint64_t ticket) noexcept { return dpb_ticket_node(ticket); }

/// The names of all policies, for Bandit(name, config): "dp-imed" and others.
[[nodiscard]] inline std::vector<std::string_view> policies() {
  std::vector<std::string_view> names;
  while (const char *name = dpb_policy_at(names.size())) {
    names.emplace_back(name);
  }
  return names;
}

/// The number of the policy of this name, as in Config::base and Report::policy; 0 if there is none.
[[nodiscard]] inline std::uint32_t policy_number(const char *name) noexcept { return dpb_policy_number(name); }

/// A refused call: its status, and a message for people that names the arguments. The message may contain a refused
/// reward, so show it to the operator only.
class Error : public std::runtime_error {
public:
  Error(dpb_status why, const std::string &message) : std::runtime_error(message), status_(why) {}
  [[nodiscard]] dpb_status status() const noexcept { return status_; }

private:
  dpb_status status_;
};

/// dpb_config with its defaults. A test_seed and a budget must live until the constructor has returned.
struct Config : dpb_config {
  Config(std::uint32_t arm_count, double privacy) noexcept : dpb_config() {
    dpb_config_init(this, arm_count, privacy);
  }
};

/// One request (dpb_request): its fields, and arms to choose from.
///
///     dpb::Request request;
///     request.segment = placement;
///     request.user = user_hash;
///     dpb::Decision d = bandit.select(request.among(eligible));
struct Request : dpb_request {
  Request() noexcept : dpb_request{} { dpb_request_init(this); }
  /// Only these live arms may be chosen (public information): a vector, an array, a span. Kept by reference: they must
  /// outlive the request. An empty set is refused with DPB_INVALID_REQUEST.
  template <class Arms> Request &among(const Arms &arms) noexcept { return among(std::data(arms), std::size(arms)); }
  /// For a request within one expression: bandit.select(dpb::Request().among({1, 2})).
  Request &among(std::initializer_list<std::uint32_t> arms) noexcept { return among(arms.begin(), arms.size()); }
  Request &among(const std::uint32_t *arms, std::size_t n) noexcept {
    static const std::uint32_t none = 0;
    eligible = arms == nullptr ? &none : arms; // an empty set is not all arms, although its data may be NULL
    eligible_len = n;
    return *this;
  }
  /// Rows of features, one after the other: floats. Kept by reference.
  template <class Floats> Request &with_features(const Floats &rows) noexcept {
    features = std::data(rows);
    features_len = std::size(rows);
    return *this;
  }
  /// The same rows by their entries that are not 0, and where each row ends. Kept by reference.
  template <class Entries, class Ends> Request &with_sparse(const Entries &entries, const Ends &ends) noexcept {
    sparse = std::data(entries);
    features_len = std::size(entries);
    sparse_ends = std::data(ends);
    sparse_ends_len = std::size(ends);
    return *this;
  }
};
static_assert(sizeof(Request) == sizeof(dpb_request), "an array of them is one of dpb_request");

/// dpb_stopping_config. A test_seed must live until the constructor has returned.
struct StoppingConfig : dpb_stopping_config {
  StoppingConfig(double sample_range, double relative_error, double failure, double privacy) noexcept
      : dpb_stopping_config() {
    dpb_stopping_config_init(this, sample_range, privacy);
    alpha = relative_error;
    beta = failure;
  }
};

enum class CounterKind : dpb_counter_kind {
  logarithmic = DPB_COUNTER_LOGARITHMIC,
  binary = DPB_COUNTER_BINARY,
  hybrid = DPB_COUNTER_HYBRID,
};

/// dpb_counter_config. A test_seed must live until the constructor has returned.
struct CounterConfig : dpb_counter_config {
  CounterConfig(CounterKind which, double privacy) noexcept : dpb_counter_config() {
    dpb_counter_config_init(this, static_cast<dpb_counter_kind>(which), privacy);
  }
};

namespace detail {

/// Owns one C object; what `destroy` is given only once.
template <class T, void (*destroy)(T *)> struct Destroy {
  void operator()(T *object) const noexcept { destroy(object); }
};
template <class T, void (*destroy)(T *)> using Handle = std::unique_ptr<T, Destroy<T, destroy>>;

[[noreturn]] inline void fail(dpb_status status, const std::string &message) {
#if defined(__cpp_exceptions)
  throw Error(status, message);
#else
  (void)status;
  std::fprintf(stderr, "dpb: %s\n", message.c_str());
  std::abort();
#endif
}

/// As many digits as a number needs to be read back, and no more.
template <class Number> [[nodiscard]] std::string text(Number number) {
  if constexpr (std::is_floating_point_v<Number>) {
    char digits[32] = {};
    for (int precision = 6; precision <= 17; ++precision) {
      std::snprintf(digits, sizeof digits, "%.*g", precision, number);
      if (std::strtod(digits, nullptr) == number) {
        break;
      }
    }
    return digits;
  } else {
    return std::to_string(number);
  }
}
inline std::string text(const std::string &list) { return list; }
/// "{1, 2, 3}", or the beginning of it.
inline std::string list(const std::uint32_t *numbers, std::size_t n) {
  constexpr std::size_t shown = 16;
  std::string all = "{";
  for (std::size_t i = 0; i < n && i < shown; ++i) {
    all += (i == 0 ? "" : ", ") + text(numbers[i]);
  }
  return all + (n > shown ? ", ...}" : "}");
}

/// "dpb_retire_arm(arm = 7): DPB_INVALID_CONFIG", the arguments as (name, value) pairs.
inline void name_arguments(std::string &) {}
template <class Value, class... More>
void name_arguments(std::string &message, const char *name, const Value &value, const More &...more) {
  message += (message.back() == '(' ? "" : ", ") + std::string(name) + " = " + text(value);
  name_arguments(message, more...);
}
template <class... Arguments>
void check(dpb_status status, const char *function, const Arguments &...arguments) {
  if (status != DPB_OK) {
    std::string message = function;
    if constexpr (sizeof...(arguments) > 0) {
      message += '(';
      name_arguments(message, arguments...);
      message += ')';
    }
    fail(status, message + ": " + dpb_status_name(status));
  }
}
/// Names a reward only where it is what is wrong.
inline void check_reward(dpb_status status, const char *function, const char *name, double reward) {
  status == DPB_INVALID_REWARD ? check(status, function, name, reward) : check(status, function);
}

/// Runs a call that says by its argument why it was refused.
template <class Call> void insist(Call call) {
  dpb_error error = {};
  if (call(&error) != DPB_OK) {
    fail(error.status, error.message);
  }
}

/// Runs a dpb_new_...(arguments..., &out, &error): the handle, or none and why.
template <class Handle, class Constructor, class... Arguments>
[[nodiscard]] Handle make(dpb_error &error, Constructor constructor, Arguments... arguments) noexcept {
  typename Handle::pointer object = nullptr;
  return Handle(constructor(arguments..., &object, &error) == DPB_OK ? object : nullptr);
}
template <class Handle, class... Arguments> [[nodiscard]] Handle construct(Arguments... arguments) {
  dpb_error error = {};
  Handle handle = make<Handle>(error, arguments...);
  if (!handle) {
    fail(error.status, error.message);
  }
  return handle;
}
/// The same for try_new: `error` may be nullptr.
template <class Handle, class... Arguments>
[[nodiscard]] Handle try_construct(dpb_error *error, Arguments... arguments) noexcept {
  dpb_error ignored = {};
  return make<Handle>(error != nullptr ? *error : ignored, arguments...);
}

/// What a call(buffer, capacity, &length) writes, in a vector of its size.
template <class Item, class Call> [[nodiscard]] dpb_status fill(std::vector<Item> &out, Call call) {
  std::size_t size = 0;
  dpb_status status = call(static_cast<Item *>(nullptr), std::size_t{0}, &size);
  while (status == DPB_BUFFER_TOO_SMALL) {
    out.resize(size);
    status = call(out.data(), out.size(), &size);
  }
  out.resize(status == DPB_OK ? size : 0);
  return status;
}

} // namespace detail

/// dpb_budget: the most that handles may together cost one user. Config::budget = budget.get() charges the new handle.
class Budget {
public:
  explicit Budget(double epsilon, double delta = 0.0)
      : handle_(detail::construct<Handle>(dpb_new_budget, epsilon, delta)) {}
  [[nodiscard]] static std::optional<Budget> try_new(double epsilon, double delta = 0.0,
                                                     dpb_error *error = nullptr) noexcept {
    Handle handle = detail::try_construct<Handle>(error, dpb_new_budget, epsilon, delta);
    return handle ? std::optional<Budget>(Budget(std::move(handle))) : std::nullopt;
  }

  /// The loss charged so far, as an epsilon at this delta.
  [[nodiscard]] double spent(double delta = 0.0) const {
    double epsilon = 0.0;
    detail::check(try_spent(delta, epsilon), "dpb_budget_spent", "delta", delta);
    return epsilon;
  }
  [[nodiscard]] dpb_status try_spent(double delta, double &epsilon) const noexcept {
    return dpb_budget_spent(get(), delta, &epsilon);
  }
  /// The largest epsilon of a pure handle that still fits.
  [[nodiscard]] double remaining() const {
    double epsilon = 0.0;
    detail::check(try_remaining(epsilon), "dpb_budget_remaining");
    return epsilon;
  }
  [[nodiscard]] dpb_status try_remaining(double &epsilon) const noexcept {
    return dpb_budget_remaining(get(), &epsilon);
  }
  /// The C handle, still owned by this object; NULL after a move.
  [[nodiscard]] dpb_budget *get() const noexcept { return handle_.get(); }

private:
  using Handle = detail::Handle<dpb_budget, dpb_budget_free>;
  explicit Budget(Handle handle) noexcept : handle_(std::move(handle)) {}
  Handle handle_;
};

/// dpb_bandit: chooses arms, and learns from rewards.
class Bandit {
public:
  /// The recommended policy for this configuration (dpb_new).
  explicit Bandit(const Config &c) : Bandit(dpb_new, c) {}
  /// The policy of this name, one of policies(): for services that choose it in their configuration.
  Bandit(const std::string &policy, const Config &c)
      : handle_(detail::construct<Handle>(dpb_new_policy, policy.c_str(), &c)) {}
  /// The same without exceptions: nothing if the library refuses, and error, unless NULL, says why.
  [[nodiscard]] static std::optional<Bandit> try_new(const Config &c, dpb_error *error = nullptr) noexcept {
    return owner(detail::try_construct<Handle>(error, dpb_new, &c));
  }
  [[nodiscard]] static std::optional<Bandit> try_new(const char *policy, const Config &c,
                                                     dpb_error *error = nullptr) noexcept {
    return owner(detail::try_construct<Handle>(error, dpb_new_policy, policy, &c));
  }

  /// Continues from a snapshot: its configuration, what was released, fresh entropy (dpb_restore). With config.expected_users it
  /// decides nothing (DPB_NOT_READY) until a snapshot of it was taken: write that one to a file before you serve.
  [[nodiscard]] static Bandit restore(const std::vector<std::uint8_t> &snapshot) {
    return Bandit(detail::construct<Handle>(dpb_restore, snapshot.data(), snapshot.size()));
  }
  [[nodiscard]] static std::optional<Bandit> try_restore(const std::uint8_t *snapshot, std::size_t len,
                                                         dpb_error *error = nullptr) noexcept {
    return owner(detail::try_construct<Handle>(error, dpb_restore, snapshot, len));
  }
  /// The same with another configuration (dpb_restore_as lists what must not differ).
  [[nodiscard]] static Bandit restore(const std::string &policy, const Config &c,
                                      const std::vector<std::uint8_t> &snapshot) {
    return Bandit(
        detail::construct<Handle>(dpb_restore_as, policy.c_str(), &c, snapshot.data(), snapshot.size()));
  }
  [[nodiscard]] static std::optional<Bandit> try_restore(const char *policy, const Config &c,
                                                         const std::uint8_t *snapshot, std::size_t len,
                                                         dpb_error *error = nullptr) noexcept {
    return owner(detail::try_construct<Handle>(error, dpb_restore_as, policy, &c, snapshot, len));
  }

  // One line for each dpb_new_<policy>.
  [[nodiscard]] static Bandit se(const Config &c) { return Bandit(dpb_new_se, c); }
  [[nodiscard]] static Bandit imed(const Config &c) { return Bandit(dpb_new_imed, c); }
  [[nodiscard]] static Bandit klucb(const Config &c) { return Bandit(dpb_new_klucb, c); }
  [[nodiscard]] static Bandit linear(const Config &c) { return Bandit(dpb_new_linear, c); }
  [[nodiscard]] static Bandit med(const Config &c) { return Bandit(dpb_new_med, c); }
  [[nodiscard]] static Bandit ts(const Config &c) { return Bandit(dpb_new_ts, c); }
  [[nodiscard]] static Bandit ucb(const Config &c) { return Bandit(dpb_new_ucb, c); }
  [[nodiscard]] static Bandit ucb_bound(const Config &c) { return Bandit(dpb_new_ucb_bound, c); }
  [[nodiscard]] static Bandit ucb_int(const Config &c) { return Bandit(dpb_new_ucb_int, c); }
  [[nodiscard]] static Bandit private_ucb(const Config &c) { return Bandit(dpb_new_private_ucb, c); }
  [[nodiscard]] static Bandit lap(const Config &c) { return Bandit(dpb_new_lap, c); }
  [[nodiscard]] static Bandit exp3_lap(const Config &c) { return Bandit(dpb_new_exp3_lap, c); }
  [[nodiscard]] static Bandit exp3_tau(const Config &c) { return Bandit(dpb_new_exp3_tau, c); }
  [[nodiscard]] static Bandit tsallis(const Config &c) { return Bandit(dpb_new_tsallis, c); }
  [[nodiscard]] static Bandit sdp_ae(const Config &c) { return Bandit(dpb_new_sdp_ae, c); }
  [[nodiscard]] static Bandit vb_sdp_ae(const Config &c) { return Bandit(dpb_new_vb_sdp_ae, c); }
  [[nodiscard]] static Bandit ldp_ucb(const Config &c) { return Bandit(dpb_new_ldp_ucb, c); }
  [[nodiscard]] static Bandit ldp_klucb(const Config &c) { return Bandit(dpb_new_ldp_klucb, c); }
  [[nodiscard]] static Bandit nonprivate_ucb1(const Config &c) { return Bandit(dpb_new_nonprivate_ucb1, c); }
  [[nodiscard]] static Bandit nonprivate_klucb(const Config &c) { return Bandit(dpb_new_nonprivate_klucb, c); }
  [[nodiscard]] static Bandit nonprivate_imed(const Config &c) { return Bandit(dpb_new_nonprivate_imed, c); }
  [[nodiscard]] static Bandit nonprivate_se(const Config &c) { return Bandit(dpb_new_nonprivate_se, c); }
  [[nodiscard]] static Bandit nonprivate_exp3(const Config &c) { return Bandit(dpb_new_nonprivate_exp3, c); }

  // Calls that throw dpb::Error.
  [[nodiscard]] Decision select() {
    Decision decision;
    detail::check(try_select(decision), "dpb_select");
    return decision;
  }
  /// Decides a request of one slot (dpb_select_for). Allocates nothing.
  [[nodiscard]] Decision select(const Request &request) {
    Decision decision;
    refuse(request.slots == 1 ? try_select(request, &decision) : DPB_INVALID_REQUEST, "dpb_select_for", request);
    return decision;
  }
  /// Decides a request of any number of slots: a decision for each, with different arms.
  [[nodiscard]] std::vector<Decision> select_slots(const Request &request) {
    std::vector<Decision> decisions(request.slots == 0 ? 1 : request.slots);
    refuse(try_select(request, decisions.data()), "dpb_select_for", request);
    return decisions;
  }
  /// Begins a new period (dpb_next_period). Write a snapshot right after it: if an older one exists, nobody is learned
  /// from until then.
  void next_period() { detail::check(try_next_period(), "dpb_next_period"); }
  /// Tells the time on the caller's clock (config.clock = DPB_CLOCK_CALLER): rewards whose window is over take effect. Time
  /// must not depend on rewards: see dpb_advance.
  void advance(std::uint64_t now) { detail::check(try_advance(now), "dpb_advance"); }
  /// Reports the reward of a decision. The status reveals whether the ticket had a reward before: give a visitor the same
  /// reply whatever it is. After DPB_INVALID_REWARD report a valid reward: see dpb_update.
  void update(std::uint64_t ticket, double reward) {
    const dpb_status status = try_update(ticket, reward);
    if (status == DPB_INVALID_REWARD) {
      detail::check(status, "dpb_update", "ticket", ticket, "reward", reward);
    }
    detail::check(status, "dpb_update", "ticket", ticket);
  }
  void cancel(std::uint64_t ticket) { detail::check(try_cancel(ticket), "dpb_cancel", "ticket", ticket); }
  /// Cancels all open decisions, for an outage in which rewards could not arrive: see dpb_cancel_all.
  void cancel_all() { detail::check(dpb_cancel_all(get()), "dpb_cancel_all"); }
  /// n decisions of default requests (dpb_select_many).
  void select_many(Decision *out, std::size_t n) { select_many(nullptr, n, out); }
  [[nodiscard]] std::vector<Decision> select_many(std::size_t n) {
    std::vector<Decision> decisions(n);
    select_many(decisions.data(), n);
    return decisions;
  }
  /// n requests under one lock; out receives the decisions of all their slots. Throws if one is refused: those before it
  /// are decided, and try_select_many says how many.
  void select_many(const Request *requests, std::size_t n, Decision *out) {
    std::size_t done = 0;
    detail::check(try_select_many(requests, n, out, done), "dpb_select_many", "n", n, "done", done);
  }
  [[nodiscard]] std::vector<Decision> select_many(const std::vector<Request> &requests) {
    std::size_t slots = 0;
    for (const Request &request : requests) {
      slots += request.slots;
    }
    std::vector<Decision> decisions(slots);
    select_many(requests.data(), requests.size(), decisions.data());
    return decisions;
  }
  /// Throws the first refusal, after every reward was tried; try_update_many says which and how many.
  void update_many(const std::uint64_t *tickets, const double *rewards, std::size_t n) {
    std::size_t done = 0;
    const dpb_status status = try_update_many(tickets, rewards, n, nullptr, done);
    detail::check(status, "dpb_update_many", "n", n, "done", done);
  }
  void update_many(const std::vector<std::uint64_t> &tickets, const std::vector<double> &rewards) {
    if (tickets.size() != rewards.size()) {
      detail::check(DPB_INVALID_CONFIG, "dpb_update_many", "tickets", tickets.size(), "rewards", rewards.size());
    }
    update_many(tickets.data(), rewards.data(), tickets.size());
  }

  // Calls without exceptions: outputs are written as dpb.h says.
  [[nodiscard]] dpb_status try_select(Decision &out) noexcept { return dpb_select(get(), &out); }
  /// out: receives request.slots decisions.
  [[nodiscard]] dpb_status try_select(const Request &request, Decision *out) noexcept {
    return dpb_select_for(get(), &request, out);
  }
  [[nodiscard]] dpb_status try_next_period() noexcept { return dpb_next_period(get()); }
  [[nodiscard]] dpb_status try_advance(std::uint64_t now) noexcept { return dpb_advance(get(), now); }
  [[nodiscard]] dpb_status try_update(std::uint64_t ticket, double reward) noexcept {
    return dpb_update(get(), ticket, reward);
  }
  [[nodiscard]] dpb_status try_cancel(std::uint64_t ticket) noexcept { return dpb_cancel(get(), ticket); }
  /// requests: nullptr for n default ones. done: receives how many were decided.
  [[nodiscard]] dpb_status try_select_many(const Request *requests, std::size_t n, Decision *out,
                                           std::size_t &done) noexcept {
    return dpb_select_many(get(), requests, n, out, &done);
  }
  /// each: nullptr, or receives n statuses.
  [[nodiscard]] dpb_status try_update_many(const std::uint64_t *tickets, const double *rewards, std::size_t n,
                                           dpb_status *each, std::size_t &done) noexcept {
    return dpb_update_many(get(), tickets, rewards, n, each, &done);
  }

  // Arms come and go; numbers are never used again.
  /// Adds an arm. id: 0, or the id that names it in all handles of a fleet (dpb_add_arm).
  [[nodiscard]] std::uint32_t add_arm(std::uint64_t id = 0) {
    std::uint32_t arm = 0;
    detail::insist([&](dpb_error *error) { return try_add_arm(id, arm, error); });
    return arm;
  }
  [[nodiscard]] dpb_status try_add_arm(std::uint64_t id, std::uint32_t &arm, dpb_error *error = nullptr) noexcept {
    return dpb_add_arm(get(), id, &arm, error);
  }
  /// States what public data say of an arm: strength rewards with this mean (dpb_set_prior).
  void set_prior(std::uint32_t arm, double mean, double strength) {
    detail::insist([&](dpb_error *error) { return try_set_prior(arm, mean, strength, error); });
  }
  [[nodiscard]] dpb_status try_set_prior(std::uint32_t arm, double mean, double strength,
                                         dpb_error *error = nullptr) noexcept {
    return dpb_set_prior(get(), arm, mean, strength, error);
  }
  void retire_arm(std::uint32_t arm) { detail::check(try_retire_arm(arm), "dpb_retire_arm", "arm", arm); }
  [[nodiscard]] dpb_status try_retire_arm(std::uint32_t arm) noexcept { return dpb_retire_arm(get(), arm); }

  // The shuffle model's server (sdp_ae, vb_sdp_ae).
  /// The plan of this phase's batches, for devices and shufflers; phases count from 1.
  [[nodiscard]] ShuffleParams shuffle_params(std::uint32_t phase) const {
    ShuffleParams params = {};
    detail::check(try_shuffle_params(phase, params), "dpb_shuffle_params_read", "phase", phase);
    return params;
  }
  [[nodiscard]] dpb_status try_shuffle_params(std::uint32_t phase, ShuffleParams &out) const noexcept {
    return dpb_shuffle_params_read(get(), phase, &out);
  }
  /// One arm's shuffled batch of the open phase, once.
  void submit_shuffled(std::uint32_t phase, std::uint32_t arm, const std::vector<std::uint8_t> &bits) {
    const dpb_status status = try_submit_shuffled(phase, arm, bits.data(), bits.size());
    detail::check(status, "dpb_submit_shuffled", "phase", phase, "arm", arm, "len", bits.size());
  }
  [[nodiscard]] dpb_status try_submit_shuffled(std::uint32_t phase, std::uint32_t arm, const std::uint8_t *bits,
                                               std::size_t len) noexcept {
    return dpb_submit_shuffled(get(), phase, arm, bits, len);
  }

  // Reading: all but diagnostics is released already and costs no privacy.
  [[nodiscard]] Report report() const {
    Report read = {};
    detail::check(try_report(read), "dpb_report_read");
    return read;
  }
  [[nodiscard]] dpb_status try_report(Report &out) const noexcept {
    out.struct_size = sizeof out;
    return dpb_report_read(get(), &out);
  }
  [[nodiscard]] std::vector<Arm> arms() const {
    std::vector<Arm> read;
    detail::check(detail::fill(read, [this](auto... room) { return dpb_arms_read(get(), room...); }), "dpb_arms_read");
    return read;
  }
  /// out: receives up to cap arms. n: receives the number of arms, also with DPB_BUFFER_TOO_SMALL.
  [[nodiscard]] dpb_status try_arms(Arm *out, std::size_t cap, std::size_t &n) const noexcept {
    return dpb_arms_read(get(), out, cap, &n);
  }
  /// The arms of a segment, by its key (dpb_segment_read).
  [[nodiscard]] std::vector<Arm> segment(std::uint64_t key) const {
    std::vector<Arm> read;
    const dpb_status status =
        detail::fill(read, [this, key](auto... room) { return dpb_segment_read(get(), key, room...); });
    detail::check(status, "dpb_segment_read", "segment", key);
    return read;
  }
  [[nodiscard]] dpb_status try_segment(std::uint64_t key, Arm *out, std::size_t cap, std::size_t &n) const noexcept {
    return dpb_segment_read(get(), key, out, cap, &n);
  }
  /// What was released and what is public, as bytes that you may log and publish (dpb_snapshot).
  [[nodiscard]] std::vector<std::uint8_t> snapshot() const {
    std::vector<std::uint8_t> bytes;
    detail::insist([&](dpb_error *error) { return try_snapshot(bytes, error); });
    return bytes;
  }
  [[nodiscard]] dpb_status try_snapshot(std::vector<std::uint8_t> &bytes, dpb_error *error = nullptr) const {
    return detail::fill(bytes, [this, error](std::uint8_t *out, std::size_t cap, std::size_t *len) {
      return dpb_snapshot(get(), out, cap, len, error);
    });
  }
  /// Learns from what another handle has released, by its snapshot (dpb_merge): in any order, as often as you like.
  void merge(const std::vector<std::uint8_t> &snapshot) {
    detail::insist([&](dpb_error *error) { return try_merge(snapshot.data(), snapshot.size(), error); });
  }
  [[nodiscard]] dpb_status try_merge(const std::uint8_t *snapshot, std::size_t len,
                                     dpb_error *error = nullptr) noexcept {
    return dpb_merge(get(), snapshot, len, error);
  }
  /// The arm that the policy decided for, once it has.
  [[nodiscard]] std::optional<std::uint32_t> best_arm() const {
    std::uint32_t arm = 0;
    const dpb_status status = try_best_arm(arm);
    if (status == DPB_NOT_READY) {
      return std::nullopt;
    }
    detail::check(status, "dpb_best_arm");
    return arm;
  }
  [[nodiscard]] dpb_status try_best_arm(std::uint32_t &arm) const noexcept { return dpb_best_arm(get(), &arm); }
  /// A confidence interval for arm i's mean minus arm j's, valid at all times (dpb_compare); needs a release of both.
  [[nodiscard]] std::optional<Interval> compare(std::uint32_t i, std::uint32_t j, double confidence) const {
    Interval ends = {};
    const dpb_status status = try_compare(i, j, confidence, ends);
    if (status == DPB_NOT_READY) {
      return std::nullopt;
    }
    detail::check(status, "dpb_compare", "i", i, "j", j, "confidence", confidence);
    return ends;
  }
  [[nodiscard]] dpb_status try_compare(std::uint32_t i, std::uint32_t j, double confidence,
                                       Interval &out) const noexcept {
    return dpb_compare(get(), i, j, confidence, &out.low, &out.high);
  }
  /// The prediction for each eligible arm of the request (dpb_predict).
  [[nodiscard]] std::vector<Prediction> predict(const Request &request) const {
    const std::size_t n = request.eligible_len;
    std::vector<double> means(n), deviations(n);
    refuse(n > 0 ? try_predict(request, means.data(), deviations.data()) : DPB_INVALID_REQUEST, "dpb_predict", request);
    std::vector<Prediction> predictions;
    for (std::size_t i = 0; i < n; ++i) {
      predictions.push_back({means[i], deviations[i]});
    }
    return predictions;
  }
  /// mean, deviation: each receives a number for each arm, or is nullptr.
  [[nodiscard]] dpb_status try_predict(const Request &request, double *mean, double *deviation) const noexcept {
    return dpb_predict(get(), &request, mean, deviation);
  }
  /// The privacy loss of one user so far at this delta.
  [[nodiscard]] double epsilon_spent(double delta = 0.0) const {
    double epsilon = 0.0;
    detail::check(try_epsilon_spent(delta, epsilon), "dpb_epsilon_spent", "delta", delta);
    return epsilon;
  }
  [[nodiscard]] dpb_status try_epsilon_spent(double delta, double &epsilon) const noexcept {
    return dpb_epsilon_spent(get(), delta, &epsilon);
  }
  [[nodiscard]] std::string_view policy_name() const noexcept { return dpb_policy_name(get()); }
  /// NOT private: for the operator only.
  [[nodiscard]] Diagnostics diagnostics() const {
    Diagnostics read = {};
    detail::check(try_diagnostics(read), "dpb_diagnostics_read");
    return read;
  }
  [[nodiscard]] dpb_status try_diagnostics(Diagnostics &out) const noexcept {
    out.struct_size = sizeof out;
    return dpb_diagnostics_read(get(), &out);
  }

  /// The C handle, still owned by this object; NULL after a move.
  [[nodiscard]] dpb_bandit *get() const noexcept { return handle_.get(); }

private:
  using Handle = detail::Handle<dpb_bandit, dpb_free>;
  using Constructor = dpb_status(const dpb_config *, dpb_bandit **, dpb_error *);
  Bandit(Constructor *constructor, const Config &c)
      : handle_(detail::construct<Handle>(constructor, &c)) {}
  explicit Bandit(Handle &&handle) noexcept : handle_(std::move(handle)) {}
  static std::optional<Bandit> owner(Handle handle) noexcept {
    return handle ? std::optional(Bandit(std::move(handle))) : std::nullopt;
  }
  /// Throws if a request was refused, and names it.
  static void refuse(dpb_status status, const char *function, const Request &request) {
    if (status != DPB_OK) {
      detail::check(status, function, "slots", request.slots, "segment", request.segment, "eligible",
                    detail::list(request.eligible, request.eligible_len));
    }
  }

  Handle handle_;
};

/// Bandits and the names that they have on a page of metrics: in UTF-8, no two the same.
using NamedBandits = std::vector<std::pair<std::string, const Bandit *>>;

namespace detail {

/// A page of metrics: each family once, all of its lines together, as the format demands.
class Metrics {
public:
  explicit Metrics(const NamedBandits &bandits) {
    for (const auto &[name, bandit] : bandits) {
      Measured m;
      m.label = "bandit=\"" + escaped(name) + '"';
      std::size_t n = 0;
      dpb_status status = bandit->try_arms(nullptr, 0, n);
      while (status == DPB_BUFFER_TOO_SMALL) {
        m.arms.resize(n);
        status = bandit->try_arms(m.arms.data(), m.arms.size(), n);
      }
      m.up = status == DPB_OK && bandit->try_report(m.report) == DPB_OK &&
             bandit->try_diagnostics(m.diagnostics) == DPB_OK;
      m.policy = bandit->policy_name();
      all_.push_back(std::move(m));
    }
  }

  [[nodiscard]] std::string page(bool operators) && {
    head("up", "gauge", "1, or 0 for a handle that is closed.");
    for (const Measured &m : all_) {
      line("up", m.label, m.up ? "1" : "0");
    }
    head("info", "gauge", "1, with the policy and the version of the library.");
    for (const Measured &m : all_) {
      if (m.up) {
        line("info", m.label + ",policy=\"" + m.policy + "\",version=\"" + dpb_version() + '"', "1");
      }
    }
    of_report("decisions_total", "counter", "Decisions handed out.", &Report::decisions);
    of_report("answered_total", "counter", "Decisions whose answer took effect, or whose window is over.",
              &Report::answered);
    of_report("cancelled_total", "counter", "Decisions taken back.", &Report::cancelled);
    of_report("expired_total", "counter", "Decisions pushed out of the pending table unanswered.", &Report::expired);
    of_report("changes_total", "counter", "Releases that contradicted their arm's past.", &Report::changes_detected);
    of_report("pending", "gauge", "Decisions whose end is open.", &Report::pending);
    of_report("phase", "gauge", "The policy's epoch, phase or interval.", &Report::phase);
    of_report("arms_active", "gauge", "Arms still in the race.", &Report::arms_active);
    of_report("epsilon_spent", "gauge", "Privacy loss of one user so far, an upper bound at dpb_delta_spent.",
              &Report::epsilon_spent);
    of_report("delta_spent", "gauge", "0 where the policy is pure.", &Report::delta_spent);
    of_report("private", "gauge", "1, or 0 for baselines and under a test seed.", &Report::is_private);
    of_report("segments", "gauge", "Segments in use; 0 for a handle without segments.", &Report::segments);
    of_arms("mean", "As released; NaN before the first release.", &Arm::mean);
    of_arms("width", "Half-width of the mean's confidence interval.", &Arm::width);
    of_arms("pulls", "Decisions that were not cancelled and did not expire.", &Arm::pulls);
    of_arms("effective_pulls", "Rewards behind the mean, each by its power.", &Arm::effective_pulls);
    of_arms("active", "1 while the arm is in the race.", &Arm::active);
    if (operators) {
      of_refusals("duplicates_total", "Answers to a ticket that had one. NOT private.", &Diagnostics::duplicates);
      of_refusals("late_total", "Answers to a ticket whose time was over. NOT private.", &Diagnostics::late);
      of_refusals("rejected_total", "Rewards that were refused. NOT private.", &Diagnostics::rejected);
      of_refusals("unknown_total", "Tickets that the handle never issued. NOT private.", &Diagnostics::unknown);
    }
    return std::move(page_);
  }

private:
  struct Measured {
    std::string label;
    bool up = false;
    std::string policy;
    Report report = {};
    std::vector<Arm> arms;
    Diagnostics diagnostics = {};
  };

  static std::string escaped(const std::string &text) {
    std::string all;
    for (const char c : text) {
      if (c == '\n') {
        all += "\\n";
      } else {
        all += c == '"' || c == '\\' ? std::string{'\\', c} : std::string{c};
      }
    }
    return all;
  }

  /// Whatever the program's locale says of decimal points.
  static std::string number(double x) {
    if (x != x) {
      return "NaN";
    }
    if (x - x != 0) {
      return x > 0 ? "+Inf" : "-Inf";
    }
    std::string digits = text(x);
    const std::size_t point = digits.find_first_not_of("-+0123456789e");
    if (point != std::string::npos) {
      const std::size_t after = digits.find_first_of("0123456789", point);
      digits.replace(point, after - point, ".");
    }
    return digits;
  }
  template <class Integer, std::enable_if_t<std::is_integral_v<Integer>, int> = 0> static std::string number(Integer x) {
    return std::to_string(x);
  }

  void head(const char *name, const char *kind, const char *help) {
    page_ += std::string("# HELP dpb_") + name + ' ' + help + "\n# TYPE dpb_" + name + ' ' + kind + '\n';
  }
  void line(const char *name, const std::string &labels, const std::string &value) {
    page_ += std::string("dpb_") + name + '{' + labels + "} " + value + '\n';
  }
  /// One line for each handle that is up.
  template <class Part, class Value, class Struct>
  void family(const char *name, const char *kind, const char *help, Part Measured::*part, Value Struct::*field) {
    head(name, kind, help);
    for (const Measured &m : all_) {
      if (m.up) {
        line(name, m.label, number(m.*part.*field));
      }
    }
  }
  template <class Value, class Struct>
  void of_report(const char *name, const char *kind, const char *help, Value Struct::*field) {
    family(name, kind, help, &Measured::report, field);
  }
  template <class Value, class Struct> void of_arms(const char *name, const char *help, Value Struct::*field) {
    const std::string full = std::string("arm_") + name;
    head(full.c_str(), "gauge", help);
    for (const Measured &m : all_) {
      for (std::size_t arm = 0; m.up && arm < m.arms.size(); ++arm) {
        line(full.c_str(), m.label + ",arm=\"" + std::to_string(arm) + '"', number(m.arms[arm].*field));
      }
    }
  }
  template <class Value, class Struct> void of_refusals(const char *name, const char *help, Value Struct::*field) {
    family(name, "counter", help, &Measured::diagnostics, field);
  }

  std::vector<Measured> all_;
  std::string page_;
};

} // namespace detail

/// What may be published of these bandits, in Prometheus' text format, each under the label bandit="its name"; of
/// one with segments, the arms of all segments together. All of it is released or public, so you may show the page to
/// anyone. A handle that is closed or was moved from shows as dpb_up 0 and nothing else. Throws only std::bad_alloc.
[[nodiscard]] inline std::string metrics(const NamedBandits &bandits) {
  return detail::Metrics(bandits).page(false);
}

/// The same and the counts of refused calls (Diagnostics), which are NOT private: a duplicate reveals a click. For a
/// page that only the operator sees.
[[nodiscard]] inline std::string operator_metrics(const NamedBandits &bandits) {
  return detail::Metrics(bandits).page(true);
}

/// dpb_stopping: takes samples until their mean is known to a factor of 1 +- alpha.
class Stopping {
public:
  /// WITHOUT privacy.
  [[nodiscard]] static Stopping nas(const StoppingConfig &c) { return Stopping(dpb_new_nas, c); }
  [[nodiscard]] static Stopping dp_nas(const StoppingConfig &c) { return Stopping(dpb_new_dp_nas, c); }
  [[nodiscard]] static Stopping dp_exp_nas(const StoppingConfig &c) { return Stopping(dpb_new_dp_exp_nas, c); }
  /// One of them without exceptions, by its C function: try_new(dpb_new_dp_nas, config).
  using Constructor = dpb_status(const dpb_stopping_config *, dpb_stopping **, dpb_error *);
  [[nodiscard]] static std::optional<Stopping> try_new(Constructor *rule, const StoppingConfig &c,
                                                       dpb_error *error = nullptr) noexcept {
    Handle handle = detail::try_construct<Handle>(error, rule, &c);
    return handle ? std::optional(Stopping(std::move(handle))) : std::nullopt;
  }

  /// Adds a sample; true if the rule halts with it.
  [[nodiscard]] bool push(double sample) {
    bool halted = false;
    detail::check_reward(try_push(sample, halted), "dpb_stopping_push", "sample", sample);
    return halted;
  }
  [[nodiscard]] dpb_status try_push(double sample, bool &halted) noexcept {
    std::uint32_t answer = 0;
    const dpb_status status = dpb_stopping_push(get(), sample, &answer);
    if (status == DPB_OK) {
      halted = answer != 0;
    }
    return status;
  }
  /// The released mean, once the rule has halted.
  [[nodiscard]] std::optional<double> mean() const {
    double released = 0.0;
    const dpb_status status = try_mean(released);
    if (status == DPB_NOT_READY) {
      return std::nullopt;
    }
    detail::check(status, "dpb_stopping_mean");
    return released;
  }
  [[nodiscard]] dpb_status try_mean(double &out) const noexcept { return dpb_stopping_mean(get(), &out); }
  /// False for nas, and with a test seed.
  [[nodiscard]] bool is_private() const {
    std::uint32_t answer = 0;
    detail::check(dpb_stopping_is_private(get(), &answer), "dpb_stopping_is_private");
    return answer != 0;
  }

  /// The C handle, still owned by this object; NULL after a move.
  [[nodiscard]] dpb_stopping *get() const noexcept { return handle_.get(); }

private:
  using Handle = detail::Handle<dpb_stopping, dpb_stopping_free>;
  Stopping(Constructor *rule, const StoppingConfig &c) : handle_(detail::construct<Handle>(rule, &c)) {}
  explicit Stopping(Handle &&handle) noexcept : handle_(std::move(handle)) {}

  Handle handle_;
};

/// dpb_counter: a private running sum of values in [0, 1].
class Counter {
public:
  explicit Counter(const CounterConfig &c) : handle_(detail::construct<Handle>(dpb_new_counter, &c)) {}
  /// A counter that needs no more than these. horizon: the most values of a binary counter.
  Counter(CounterKind kind, double epsilon, std::uint64_t horizon = 0) : Counter(config(kind, epsilon, horizon)) {}

  [[nodiscard]] static std::optional<Counter> try_new(const CounterConfig &c, dpb_error *error = nullptr) noexcept {
    Handle handle = detail::try_construct<Handle>(error, dpb_new_counter, &c);
    return handle ? std::optional(Counter(std::move(handle))) : std::nullopt;
  }

  void add(double value) { detail::check_reward(try_add(value), "dpb_counter_add", "value", value); }
  [[nodiscard]] dpb_status try_add(double value) noexcept { return dpb_counter_add(get(), value); }
  /// The released sum: the same number until the next add.
  [[nodiscard]] double read() const {
    double sum = 0.0;
    detail::check(try_read(sum), "dpb_counter_read");
    return sum;
  }
  [[nodiscard]] dpb_status try_read(double &sum) const noexcept { return dpb_counter_read(get(), &sum); }
  /// False with a test seed.
  [[nodiscard]] bool is_private() const {
    std::uint32_t answer = 0;
    detail::check(dpb_counter_is_private(get(), &answer), "dpb_counter_is_private");
    return answer != 0;
  }

  /// The C handle, still owned by this object; NULL after a move.
  [[nodiscard]] dpb_counter *get() const noexcept { return handle_.get(); }

private:
  using Handle = detail::Handle<dpb_counter, dpb_counter_free>;
  static CounterConfig config(CounterKind kind, double epsilon, std::uint64_t horizon) noexcept {
    CounterConfig c(kind, epsilon);
    c.horizon = horizon;
    return c;
  }
  explicit Counter(Handle &&handle) noexcept : handle_(std::move(handle)) {}

  Handle handle_;
};

// The shuffle model: a device encodes, a shuffler permutes, Bandit::submit_shuffled receives.

/// flags: 0 or DPB_SHUFFLE_PRINTED.
[[nodiscard]] inline ShuffleParams shuffle_plan(double epsilon, double delta, std::uint32_t users,
                                                std::uint32_t flags = 0) {
  ShuffleParams params = {};
  detail::insist([&](dpb_error *error) { return dpb_shuffle_plan(epsilon, delta, users, flags, &params, error); });
  return params;
}
[[nodiscard]] inline dpb_status try_shuffle_plan(double epsilon, double delta, std::uint32_t users,
                                                 std::uint32_t flags, ShuffleParams &out,
                                                 dpb_error *error = nullptr) noexcept {
  return dpb_shuffle_plan(epsilon, delta, users, flags, &out, error);
}

/// The message of one reward in [0, 1]. Send it to the shuffler only, once.
[[nodiscard]] inline std::vector<std::uint8_t> shuffle_encode(const ShuffleParams &params, double reward) {
  std::vector<std::uint8_t> bits;
  const auto encode = [&](auto... room) { return dpb_shuffle_encode(&params, reward, room...); };
  detail::check_reward(detail::fill(bits, encode), "dpb_shuffle_encode", "reward", reward);
  return bits;
}
/// bits: receives up to cap bytes. len: receives the message's length, also with DPB_BUFFER_TOO_SMALL.
[[nodiscard]] inline dpb_status try_shuffle_encode(const ShuffleParams &params, double reward, std::uint8_t *bits,
                                                   std::size_t cap, std::size_t &len) noexcept {
  return dpb_shuffle_encode(&params, reward, bits, cap, &len);
}

/// dpb_shuffler: keeps a batch's messages until all have arrived, then hands out their bits in random order, once.
class Shuffler {
public:
  explicit Shuffler(const ShuffleParams &params) : handle_(detail::construct<Handle>(dpb_new_shuffler, &params)) {}
  [[nodiscard]] static std::optional<Shuffler> try_new(const ShuffleParams &params,
                                                       dpb_error *error = nullptr) noexcept {
    Handle handle = detail::try_construct<Handle>(error, dpb_new_shuffler, &params);
    return handle ? std::optional(Shuffler(std::move(handle))) : std::nullopt;
  }

  /// One user's message; DPB_EXPIRED while a complete batch waits to be taken.
  void push(const std::vector<std::uint8_t> &bits) {
    detail::check(try_push(bits.data(), bits.size()), "dpb_shuffler_push", "len", bits.size());
  }
  /// The batch, once it is complete; the next one starts empty.
  [[nodiscard]] std::optional<std::vector<std::uint8_t>> take() {
    std::vector<std::uint8_t> bits;
    const dpb_status status =
        detail::fill(bits, [&](auto... room) { return dpb_shuffler_take(get(), room...); });
    if (status == DPB_NOT_READY) {
      return std::nullopt;
    }
    detail::check(status, "dpb_shuffler_take");
    return bits;
  }

  [[nodiscard]] dpb_status try_push(const std::uint8_t *bits, std::size_t len) noexcept {
    return dpb_shuffler_push(get(), bits, len);
  }
  /// out: receives up to cap bytes. len: receives the batch's length, also with DPB_BUFFER_TOO_SMALL.
  [[nodiscard]] dpb_status try_take(std::uint8_t *out, std::size_t cap, std::size_t &len) noexcept {
    return dpb_shuffler_take(get(), out, cap, &len);
  }

  /// The C handle, still owned by this object; NULL after a move.
  [[nodiscard]] dpb_shuffler *get() const noexcept { return handle_.get(); }

private:
  using Handle = detail::Handle<dpb_shuffler, dpb_shuffler_free>;
  explicit Shuffler(Handle &&handle) noexcept : handle_(std::move(handle)) {}

  Handle handle_;
};

/// The local model: one bit of a reward in [0, 1], epsilon-DP for whoever reads it, for ldp_ucb and ldp_klucb.
[[nodiscard]] inline dpb_status try_ldp_encode(double epsilon, double reward, std::uint8_t &bit) noexcept {
  return dpb_ldp_encode(epsilon, reward, &bit);
}
[[nodiscard]] inline std::uint8_t ldp_encode(double epsilon, double reward) {
  std::uint8_t bit = 0;
  const dpb_status status = try_ldp_encode(epsilon, reward, bit);
  if (status == DPB_INVALID_REWARD) {
    detail::check(status, "dpb_ldp_encode", "reward", reward);
  }
  detail::check(status, "dpb_ldp_encode", "epsilon", epsilon);
  return bit;
}

} // namespace dpb

#endif // DPB_HPP
