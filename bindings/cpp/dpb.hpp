/*
 * libdpb for C++17 and later: a header-only, move-only wrapper over dpb.h.
 *
 *     dpb::Config config(10, 1.0);    // 10 arms, epsilon = 1
 *     config.reward_window = 1000;    // the fields of dpb_config: no click within 1000 decisions is reward 0
 *     dpb::Bandit bandit(config);     // the recommended policy; throws dpb::Error
 *     dpb::Decision d = bandit.select();
 *     if (clicked) bandit.update(d.ticket, 1.0);
 *
 * Epsilon: for any two values of one reward, the probability of anything the adversary sees differs by a
 * factor of at most e^epsilon.
 *
 * Errors. Each function that can fail exists twice: select, update, cancel and others throw dpb::Error;
 * try_select, try_update, try_cancel and others are noexcept and return the dpb_status. Each class has a try_new,
 * which returns an optional. Compile all of a program with -fno-exceptions, or none of it: with it, the first
 * kind aborts instead of throwing.
 *
 * Arrays. A function that reads an array takes a dpb::Span: pass a vector, an array, a std::span or a braced list.
 *
 * Threads. Any number of threads may use an object at once, but no other thread may use it while it is moved
 * or destroyed. A call on a moved-from object is DPB_NULL.
 *
 * Besides Bandit and Request there are Budget (privacy budgets that bandits share), Node (one process of a fleet),
 * Counter (private running sums), Stopping (stopping rules), Shuffler with shuffle_plan and shuffle_encode (the
 * shuffle model), and ldp_encode (the local model).
 *
 * dpb_fleet.hpp runs a Node with a client of Redis. dpb_metrics.hpp writes a page of metrics of bandits. dpb_table.hpp
 * publishes tables by which programs elsewhere decide.
 *
 * dpb.h documents each call in full, with units, ranges and statuses, at the C function of the same name.
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
/// In place of the arm of a decision: dpb_request.abstain is set, and no arm is to be played.
inline constexpr std::uint32_t no_arm = DPB_NO_ARM;
using Report = dpb_report;
using Arm = dpb_arm;
using Diagnostics = dpb_diagnostics;
using Verdict = dpb_verdict;
/// A confidence interval (dpb_compare, dpb_lift).
struct Interval {
  double low;
  double high;
};
/// One entry of a sparse row of features.
using Feature = dpb_feature;
/// An estimate and its standard deviation: of a row's mean reward, in the units of rewards (dpb_predict); of the weight of
/// a feature, in logits (dpb_feature_weights).
struct Prediction {
  double mean;
  double deviation;
};
/// The index of a category, below d, for one-hot features (dpb_feature_hash).
[[nodiscard]] inline std::uint32_t feature_hash(const char *field, const char *value, std::uint32_t d) noexcept {
  return dpb_feature_hash(field, value, d);
}
/// The same, without exceptions, for text that may contain a NUL: DPB_INVALID_REQUEST, because text of C ends there, and the
/// category would have the index of another one.
[[nodiscard]] inline dpb_status try_feature_hash(const std::string &field, const std::string &value, std::uint32_t d,
                                                 std::uint32_t &index) noexcept {
  if (field.find('\0') != std::string::npos || value.find('\0') != std::string::npos) {
    return DPB_INVALID_REQUEST;
  }
  index = dpb_feature_hash(field.c_str(), value.c_str(), d);
  return DPB_OK;
}
/// The index of a pair of categories, below d (dpb_feature_cross).
[[nodiscard]] inline std::uint32_t feature_cross(std::uint32_t a, std::uint32_t b, std::uint32_t d) noexcept {
  return dpb_feature_cross(a, b, d);
}
/// A decision that was made by a table. Bandit::record takes it.
using Elsewhere = dpb_elsewhere;
/// The parameters that the encoders, the shuffler and the server of one batch share. shuffle_plan makes them.
using ShuffleParams = dpb_shuffle_params;

/// The version of the linked library, "0.1.0".
[[nodiscard]] inline std::string_view version() noexcept { return dpb_version(); }
/// The version of the linked library's C interface: major << 16 | minor.
[[nodiscard]] inline std::uint32_t abi_version() noexcept { return dpb_abi_version(); }
/// The node that issued a ticket: see dpb_config.node.
[[nodiscard]] inline std::uint16_t ticket_node(std::uint64_t ticket) noexcept { return dpb_ticket_node(ticket); }

/// The names of all policies, such as "dp-imed", for Bandit(name, config).
[[nodiscard]] inline std::vector<std::string_view> policies() {
  std::vector<std::string_view> names;
  while (const char *name = dpb_policy_at(names.size())) {
    names.emplace_back(name);
  }
  return names;
}

/// The number of the policy with this name, for Config::base and Report::policy, or 0 if there is none.
[[nodiscard]] inline std::uint32_t policy_number(const char *name) noexcept { return dpb_policy_number(name); }

/// A view of an array that a function reads: of a vector, an array, a std::span, or a braced list. It does not own the
/// array.
template <class T> class Span {
  template <class Array>
  using IfArray = std::enable_if_t<std::is_convertible_v<decltype(std::data(std::declval<const Array &>())), const T *>>;

public:
  constexpr Span() noexcept = default;
  constexpr Span(const T *first, std::size_t n) noexcept : first_(first), n_(n) {}
  constexpr Span(std::initializer_list<T> list) noexcept : Span(list.begin(), list.size()) {}
  template <class Array, class = IfArray<Array>>
  constexpr Span(const Array &array) noexcept : first_(std::data(array)), n_(std::size(array)) {}
  [[nodiscard]] constexpr const T *data() const noexcept { return first_; }
  [[nodiscard]] constexpr std::size_t size() const noexcept { return n_; }

private:
  const T *first_ = nullptr;
  std::size_t n_ = 0;
};
using Bytes = Span<std::uint8_t>;

/// A call that failed: its status, and a message that names the arguments. Do not publish the message: it contains the
/// reward that was refused.
class Error : public std::runtime_error {
public:
  Error(dpb_status why, const std::string &message) : std::runtime_error(message), status_(why) {}
  [[nodiscard]] dpb_status status() const noexcept { return status_; }

private:
  dpb_status status_;
};

/// dpb_config with its defaults. A test_seed, a fleet_key and a budget must live until the constructor has read them.
struct Config : dpb_config {
  Config(std::uint32_t arm_count, double privacy) noexcept : dpb_config() {
    dpb_config_init(this, arm_count, privacy);
  }
};

/// A request for one or more decisions (dpb_request). All of it is public: do not compute anything in it from rewards.
///
///     dpb::Request request;
///     request.segment = placement;
///     request.user = user_hash;
///     dpb::Decision d = bandit.select(request.among(eligible));
///
/// Bandit::check says why a request is refused.
struct Request : dpb_request {
  Request() noexcept : dpb_request{} { dpb_request_init(this); }
  // begin generated request
  /// Sets dpb_request.eligible, from a vector, an array or a span, which must outlive the request and may be empty.
  template <class Array> Request &among(const Array &list) noexcept {
    return among(std::data(list), std::size(list));
  }
  /// The same for a request that lives within one expression.
  Request &among(std::initializer_list<std::uint32_t> list) noexcept { return among(list.begin(), list.size()); }
  Request &among(const std::uint32_t *list, std::size_t n) noexcept {
    static const std::uint32_t none = 0;
    eligible = list == nullptr ? &none : list; // a list without elements may be at NULL, which is the default
    eligible_len = n;
    return *this;
  }
  /// Sets dpb_request.values, from a vector, an array or a span, which must outlive the request and may be empty.
  template <class Array> Request &worth(const Array &list) noexcept {
    return worth(std::data(list), std::size(list));
  }
  /// The same for a request that lives within one expression.
  Request &worth(std::initializer_list<double> list) noexcept { return worth(list.begin(), list.size()); }
  Request &worth(const double *list, std::size_t n) noexcept {
    static const double none = 0;
    values = list == nullptr ? &none : list; // a list without elements may be at NULL, which is the default
    values_len = n;
    return *this;
  }
  /// Sets dpb_request.costs, from a vector, an array or a span, which must outlive the request and may be empty.
  template <class Array> Request &with_costs(const Array &list) noexcept {
    return with_costs(std::data(list), std::size(list));
  }
  /// The same for a request that lives within one expression.
  Request &with_costs(std::initializer_list<double> list) noexcept { return with_costs(list.begin(), list.size()); }
  Request &with_costs(const double *list, std::size_t n) noexcept {
    static const double none = 0;
    costs = list == nullptr ? &none : list; // a list without elements may be at NULL, which is the default
    costs_len = n;
    return *this;
  }
  /// Sets dpb_request.examined, from a vector, an array or a span, which must outlive the request and may be empty.
  template <class Array> Request &with_examined(const Array &list) noexcept {
    return with_examined(std::data(list), std::size(list));
  }
  /// The same for a request that lives within one expression.
  Request &with_examined(std::initializer_list<double> list) noexcept { return with_examined(list.begin(), list.size()); }
  Request &with_examined(const double *list, std::size_t n) noexcept {
    static const double none = 0;
    examined = list == nullptr ? &none : list; // a list without elements may be at NULL, which is the default
    examined_len = n;
    return *this;
  }
  // end generated request
  /// Sets rows of features: floats, one row after the other. The request refers to `rows`, which must outlive it.
  template <class Floats> Request &with_features(const Floats &rows) noexcept {
    features = std::data(rows);
    features_len = std::size(rows);
    return *this;
  }
  /// Sets rows by their entries that are not 0, and for each row the number of entries up to its end. The request refers
  /// to both, which must outlive it.
  template <class Entries, class Ends> Request &with_sparse(const Entries &entries, const Ends &ends) noexcept {
    sparse = std::data(entries);
    features_len = std::size(entries);
    sparse_ends = std::data(ends);
    sparse_ends_len = std::size(ends);
    return *this;
  }
};
static_assert(sizeof(Request) == sizeof(dpb_request), "an array of Request is an array of dpb_request");

/// dpb_stopping_config: samples in [-sample_range, sample_range], the relative error and the failure probability, both in
/// (0, 1), and epsilon for one sample. A test_seed must live until the constructor has read it.
struct StoppingConfig : dpb_stopping_config {
  StoppingConfig(double sample_range, double relative_error, double failure, double privacy) noexcept
      : dpb_stopping_config() {
    dpb_stopping_config_init(this, sample_range, privacy);
    alpha = relative_error;
    beta = failure;
  }
};

/// When a counter releases.
enum class CounterKind : dpb_counter_kind {
  logarithmic = DPB_COUNTER_LOGARITHMIC, ///< When the number of values is a power of two: the least noise.
  binary = DPB_COUNTER_BINARY,           ///< At every value, up to a horizon.
  hybrid = DPB_COUNTER_HYBRID,           ///< At every value, without a horizon.
};

/// dpb_counter_config. A test_seed must live until the constructor has read it.
struct CounterConfig : dpb_counter_config {
  CounterConfig(CounterKind which, double privacy) noexcept : dpb_counter_config() {
    dpb_counter_config_init(this, static_cast<dpb_counter_kind>(which), privacy);
  }
};

namespace detail {

/// Owns one C object and destroys it once.
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

/// The shortest text that reads back as the same number.
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
/// "{1, 2, 3}"; for a long list, its beginning.
inline std::string list(const std::uint32_t *numbers, std::size_t n) {
  constexpr std::size_t shown = 16;
  std::string all = "{";
  for (std::size_t i = 0; i < n && i < shown; ++i) {
    all += (i == 0 ? "" : ", ") + text(numbers[i]);
  }
  return all + (n > shown ? ", ...}" : "}");
}

/// Appends arguments, given as names and values, to a message such as
/// "dpb_retire_arm(arm = 7): DPB_INVALID_REQUEST".
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
/// Puts the reward into the message only if the reward is the reason.
inline void check_reward(dpb_status status, const char *function, const char *name, double reward) {
  status == DPB_INVALID_REWARD ? check(status, function, name, reward) : check(status, function);
}

inline void check_update(dpb_status status, const char *function, std::uint64_t ticket, double reward) {
  if (status == DPB_INVALID_REWARD) {
    check(status, function, "ticket", ticket, "reward", reward);
  }
  check(status, function, "ticket", ticket);
}

inline void check_part(dpb_status status, const char *function, std::uint64_t ticket, std::uint32_t part,
                       double value) {
  if (status == DPB_INVALID_REWARD) {
    check(status, function, "ticket", ticket, "part", part, "value", value);
  }
  check(status, function, "ticket", ticket, "part", part);
}

/// Runs a call that explains a failure by a dpb_error.
template <class Call> void insist(Call call) {
  dpb_error error = {};
  if (call(&error) != DPB_OK) {
    fail(error.status, error.message);
  }
}

/// Resizes a vector. Returns false if there is not enough memory.
template <class Item> [[nodiscard]] bool resize(std::vector<Item> &out, std::size_t size) noexcept {
#if defined(__cpp_exceptions)
  try {
    out.resize(size);
  } catch (...) {
    return false;
  }
#else
  out.resize(size);
#endif
  return true;
}

/// Runs a dpb_new_...(arguments..., &out, &error). Returns the handle, or none with the reason in `error`.
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
/// construct for try_new: `error` may be nullptr.
template <class Handle, class... Arguments>
[[nodiscard]] Handle try_construct(dpb_error *error, Arguments... arguments) noexcept {
  dpb_error ignored = {};
  return make<Handle>(error != nullptr ? *error : ignored, arguments...);
}

/// Runs a function(handle, &answer) whose answer is 0 or 1.
template <class Function, class Handle>
[[nodiscard]] dpb_status answer(Function function, Handle handle, bool &out) noexcept {
  std::uint32_t one = 0;
  const dpb_status status = function(handle, &one);
  if (status == DPB_OK) {
    out = one != 0;
  }
  return status;
}

/// Stores what a call(buffer, capacity, &length) writes in a vector, which gets the needed size.
template <class Item, class Call> [[nodiscard]] dpb_status fill(std::vector<Item> &out, Call call) noexcept {
  out.clear();
  std::size_t size = 0;
  dpb_status status = call(static_cast<Item *>(nullptr), std::size_t{0}, &size);
  while (status == DPB_BUFFER_TOO_SMALL && (status = resize(out, size) ? DPB_OK : DPB_NO_MEMORY) == DPB_OK) {
    status = call(out.data(), out.size(), &size);
  }
  return resize(out, status == DPB_OK ? size : 0) ? status : DPB_NO_MEMORY;
}

/// The same for a function(arguments..., buffer, capacity, &length, error) that writes bytes.
template <class Function, class... Arguments>
[[nodiscard]] dpb_status fill_bytes(std::vector<std::uint8_t> &out, dpb_error *error, Function function,
                                    Arguments... arguments) noexcept {
  const dpb_status status = fill(out, [&](auto... room) { return function(arguments..., room..., error); });
  if (status == DPB_NO_MEMORY && error != nullptr) {
    *error = {DPB_NO_MEMORY, "not enough memory"};
  }
  return status;
}
/// Returns the bytes, or fails.
template <class... Call> [[nodiscard]] std::vector<std::uint8_t> bytes(Call... call) {
  std::vector<std::uint8_t> made;
  insist([&](dpb_error *error) { return fill_bytes(made, error, call...); });
  return made;
}

} // namespace detail

/// dpb_budget: limits the privacy loss of several bandits together. Set Config::budget = budget.get(): the constructor
/// then charges the budget for all that the bandit can ever lose, or fails with DPB_OVER_BUDGET. Charges are final.
class Budget {
public:
  /// A budget of epsilon > 0 at delta in [0, 1). With delta = 0 it accepts pure policies only.
  explicit Budget(double epsilon, double delta = 0.0)
      : handle_(detail::construct<Handle>(dpb_new_budget, epsilon, delta)) {}
  [[nodiscard]] static std::optional<Budget> try_new(double epsilon, double delta = 0.0,
                                                     dpb_error *error = nullptr) noexcept {
    Handle handle = detail::try_construct<Handle>(error, dpb_new_budget, epsilon, delta);
    return handle ? std::optional<Budget>(Budget(std::move(handle))) : std::nullopt;
  }

  /// Charges what another system releases about the same people (dpb_budget_charge), before the release.
  void charge(double epsilon, double delta = 0.0) {
    detail::insist([&](dpb_error *error) { return try_charge(epsilon, delta, error); });
  }
  [[nodiscard]] dpb_status try_charge(double epsilon, double delta = 0.0, dpb_error *error = nullptr) noexcept {
    return dpb_budget_charge(get(), epsilon, delta, error);
  }
  /// An upper bound of the epsilon that all charged bandits lose together, at this delta in [0, 1).
  [[nodiscard]] double spent(double delta = 0.0) const {
    double epsilon = 0.0;
    detail::check(try_spent(delta, epsilon), "dpb_budget_spent", "delta", delta);
    return epsilon;
  }
  [[nodiscard]] dpb_status try_spent(double delta, double &epsilon) const noexcept {
    return dpb_budget_spent(get(), delta, &epsilon);
  }
  /// The largest epsilon of a pure bandit that the budget still accepts, or 0.
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

/// Decides by the weights of a table, as every other program does that has the table (dpb_decide): the unit, such as a
/// visitor, gets the same arm while the table is the same.
[[nodiscard]] inline dpb_status try_decide(Span<std::uint64_t> weights, const std::string &salt,
                                           const std::string &context, const std::string &unit, Elsewhere &out,
                                           dpb_error *error = nullptr) noexcept {
  for (const std::string *text : {&salt, &context, &unit}) {
    if (text->find('\0') != std::string::npos) { // text of C ends there
      if (error != nullptr) {
        *error = {DPB_INVALID_REQUEST, "salt, context and unit must have no NUL"};
      }
      return DPB_INVALID_REQUEST;
    }
  }
  return dpb_decide(weights.data(), weights.size(), salt.c_str(), context.c_str(), unit.c_str(), &out, error);
}
/// The same. Throws for weights that do not sum to 2^32, for an empty unit, and for a newline or a NUL.
[[nodiscard]] inline Elsewhere decide(Span<std::uint64_t> weights, const std::string &salt, const std::string &context,
                                      const std::string &unit) {
  Elsewhere decision = {};
  detail::insist([&](dpb_error *error) { return try_decide(weights, salt, context, unit, decision, error); });
  return decision;
}

/// dpb_bandit: chooses an arm for each decision and learns from rewards.
class Bandit {
public:
  /// A bandit with the policy that the library recommends for this configuration (dpb_new).
  explicit Bandit(const Config &c) : Bandit(dpb_new, c) {}
  /// A bandit with the policy of this name, one of policies(): for services that read it from a configuration file.
  Bandit(const std::string &policy, const Config &c)
      : handle_(detail::construct<Handle>(dpb_new_policy, policy.c_str(), &c)) {}
  /// The same without exceptions: nullopt on failure, with the reason in `error` unless that is nullptr.
  [[nodiscard]] static std::optional<Bandit> try_new(const Config &c, dpb_error *error = nullptr) noexcept {
    return owner(detail::try_construct<Handle>(error, dpb_new, &c));
  }
  [[nodiscard]] static std::optional<Bandit> try_new(const char *policy, const Config &c,
                                                     dpb_error *error = nullptr) noexcept {
    return owner(detail::try_construct<Handle>(error, dpb_new_policy, policy, &c));
  }

  /// A bandit that continues from a snapshot, with the snapshot's configuration and fresh entropy (dpb_restore). With
  /// config.expected_users, selecting is DPB_NOT_READY until a snapshot of the new bandit is stored().
  [[nodiscard]] static Bandit restore(Bytes snapshot) {
    return Bandit(detail::construct<Handle>(dpb_restore, snapshot.data(), snapshot.size()));
  }
  [[nodiscard]] static std::optional<Bandit> try_restore(const std::uint8_t *snapshot, std::size_t len,
                                                         dpb_error *error = nullptr) noexcept {
    return owner(detail::try_construct<Handle>(error, dpb_restore, snapshot, len));
  }
  /// restore with another configuration (dpb_restore_as). The policy and the fields that determine the meaning of releases
  /// must be those of the snapshot; all others are taken from `c`.
  [[nodiscard]] static Bandit restore(const std::string &policy, const Config &c, Bytes snapshot) {
    return Bandit(
        detail::construct<Handle>(dpb_restore_as, policy.c_str(), &c, snapshot.data(), snapshot.size()));
  }
  /// The same with the policy that dpb_new takes.
  [[nodiscard]] static Bandit restore(const Config &c, Bytes snapshot) {
    return Bandit(
        detail::construct<Handle>(dpb_restore_as, static_cast<const char *>(nullptr), &c, snapshot.data(), snapshot.size()));
  }
  /// With nullptr the policy is that of dpb_new.
  [[nodiscard]] static std::optional<Bandit> try_restore(const char *policy, const Config &c,
                                                         const std::uint8_t *snapshot, std::size_t len,
                                                         dpb_error *error = nullptr) noexcept {
    return owner(detail::try_construct<Handle>(error, dpb_restore_as, policy, &c, snapshot, len));
  }

  // One constructor for each dpb_new_<policy>; dpb.h states the guarantee and the limits of each.
  // begin generated constructors
  [[nodiscard]] static Bandit imed(const Config &c) { return Bandit(dpb_new_imed, c); }
  [[nodiscard]] static Bandit med(const Config &c) { return Bandit(dpb_new_med, c); }
  [[nodiscard]] static Bandit tt(const Config &c) { return Bandit(dpb_new_tt, c); }
  [[nodiscard]] static Bandit linear(const Config &c) { return Bandit(dpb_new_linear, c); }
  [[nodiscard]] static Bandit se(const Config &c) { return Bandit(dpb_new_se, c); }
  [[nodiscard]] static Bandit ucb_bound(const Config &c) { return Bandit(dpb_new_ucb_bound, c); }
  [[nodiscard]] static Bandit ucb(const Config &c) { return Bandit(dpb_new_ucb, c); }
  [[nodiscard]] static Bandit ucb_int(const Config &c) { return Bandit(dpb_new_ucb_int, c); }
  [[nodiscard]] static Bandit private_ucb(const Config &c) { return Bandit(dpb_new_private_ucb, c); }
  [[nodiscard]] static Bandit lap(const Config &c) { return Bandit(dpb_new_lap, c); }
  [[nodiscard]] static Bandit exp3_lap(const Config &c) { return Bandit(dpb_new_exp3_lap, c); }
  [[nodiscard]] static Bandit exp3_tau(const Config &c) { return Bandit(dpb_new_exp3_tau, c); }
  [[nodiscard]] static Bandit tsallis(const Config &c) { return Bandit(dpb_new_tsallis, c); }
  [[nodiscard]] static Bandit nonprivate_ucb1(const Config &c) { return Bandit(dpb_new_nonprivate_ucb1, c); }
  [[nodiscard]] static Bandit nonprivate_klucb(const Config &c) { return Bandit(dpb_new_nonprivate_klucb, c); }
  [[nodiscard]] static Bandit nonprivate_imed(const Config &c) { return Bandit(dpb_new_nonprivate_imed, c); }
  [[nodiscard]] static Bandit nonprivate_se(const Config &c) { return Bandit(dpb_new_nonprivate_se, c); }
  [[nodiscard]] static Bandit nonprivate_exp3(const Config &c) { return Bandit(dpb_new_nonprivate_exp3, c); }
  [[nodiscard]] static Bandit sdp_ae(const Config &c) { return Bandit(dpb_new_sdp_ae, c); }
  [[nodiscard]] static Bandit vb_sdp_ae(const Config &c) { return Bandit(dpb_new_vb_sdp_ae, c); }
  [[nodiscard]] static Bandit ldp_ucb(const Config &c) { return Bandit(dpb_new_ldp_ucb, c); }
  [[nodiscard]] static Bandit ldp_klucb(const Config &c) { return Bandit(dpb_new_ldp_klucb, c); }
  // end generated constructors

  // Functions that throw dpb::Error.
  /// Chooses an arm (dpb_select).
  [[nodiscard]] Decision select() {
    Decision decision;
    detail::check(try_select(decision), "dpb_select");
    return decision;
  }
  /// Chooses an arm for a request of one slot (dpb_select_for). Allocates nothing.
  [[nodiscard]] Decision select(const Request &request) {
    if (request.slots != 1) {
      refuse(DPB_INVALID_REQUEST, "dpb_select_for", request, "slots must be 1: call select_slots");
    }
    Decision decision;
    refuse(try_select(request, &decision), "dpb_select_for", request);
    return decision;
  }
  /// Chooses a different arm for each slot of a request, and returns one decision for each.
  [[nodiscard]] std::vector<Decision> select_slots(const Request &request) {
    refuse(try_check(request), "dpb_select_for", request); // before there is an array for so many slots
    std::vector<Decision> decisions(request.slots);
    refuse(try_select(request, decisions.data()), "dpb_select_for", request);
    return decisions;
  }
  /// Throws if the request would be refused now, with a message that names the field and the value (dpb_request_check).
  /// Changes and counts nothing.
  void check(const Request &request) const { refuse(try_check(request), "dpb_request_check", request); }
  /// Begins a new period: the bandit learns from every user again (dpb_next_period), once a snapshot of it is stored().
  void next_period() { detail::check(try_next_period(), "dpb_next_period"); }
  /// Sets the time of the caller's clock (config.clock = DPB_CLOCK_CALLER), in any unit. Rewards whose window is over take
  /// effect. Time must not depend on rewards: see dpb_advance.
  void advance(std::uint64_t now) { detail::check(try_advance(now), "dpb_advance"); }
  /// Lets ticks pass without decisions, in a bandit that decides nothing more (dpb_skip). They must not depend on rewards.
  void skip(std::uint64_t ticks) { detail::check(try_skip(ticks), "dpb_skip"); }
  /// Reports the reward of a decision, in [reward_min, reward_max] (dpb_update). After DPB_INVALID_REWARD the ticket stays
  /// open: report a valid reward. The status reveals whether a ticket had a reward already, so give a visitor the same
  /// reply whatever it is.
  void update(std::uint64_t ticket, double reward) {
    detail::check_update(try_update(ticket, reward), "dpb_update", ticket, reward);
  }
  /// Reports a part of the reward of a decision, with config.parts (dpb_update_part): each part once, in its own unit.
  void update_part(std::uint64_t ticket, std::uint32_t part, double value) {
    detail::check_part(try_update_part(ticket, part, value), "dpb_update_part", ticket, part, value);
  }
  /// Marks a decision as not played, for a reason and at a time that do not depend on the reward (dpb_cancel).
  void cancel(std::uint64_t ticket) { detail::check(try_cancel(ticket), "dpb_cancel", "ticket", ticket); }
  /// Cancels all open decisions, after an outage that kept rewards from arriving (dpb_cancel_all).
  void cancel_all() { detail::check(try_cancel_all(), "dpb_cancel_all"); }
  /// Makes n decisions of one slot each, from all live arms (dpb_select_many).
  void select_many(Decision *out, std::size_t n) { select_many(nullptr, n, out); }
  [[nodiscard]] std::vector<Decision> select_many(std::size_t n) {
    std::vector<Decision> decisions(n);
    select_many(decisions.data(), n);
    return decisions;
  }
  /// Decides n requests under one lock. out: an array for the decisions of all slots. Throws if one fails, after deciding
  /// those before it; try_select_many returns their number.
  void select_many(const Request *requests, std::size_t n, Decision *out) {
    std::size_t done = 0;
    detail::check(try_select_many(requests, n, out, done), "dpb_select_many", "n", n, "done", done);
  }
  [[nodiscard]] std::vector<Decision> select_many(Span<Request> requests) {
    std::size_t slots = 0;
    for (std::size_t i = 0; i < requests.size(); ++i) {
      slots += requests.data()[i].slots;
    }
    std::vector<Decision> decisions(slots);
    select_many(requests.data(), requests.size(), decisions.data());
    return decisions;
  }
  /// Reports n rewards under one lock. It tries every ticket and then throws the first error; try_update_many returns the
  /// number of rewards that were accepted and the status of each.
  void update_many(const std::uint64_t *tickets, const double *rewards, std::size_t n) {
    std::size_t done = 0;
    const dpb_status status = try_update_many(tickets, rewards, n, nullptr, done);
    detail::check(status, "dpb_update_many", "n", n, "done", done);
  }
  void update_many(Span<std::uint64_t> tickets, Span<double> rewards) {
    if (tickets.size() != rewards.size()) {
      detail::check(DPB_INVALID_CONFIG, "dpb_update_many", "tickets", tickets.size(), "rewards", rewards.size());
    }
    update_many(tickets.data(), rewards.data(), tickets.size());
  }

  // Functions that return a status. They write their outputs on success only, except as dpb.h says.
  [[nodiscard]] dpb_status try_select(Decision &out) noexcept { return dpb_select(get(), &out); }
  /// out: an array of request.slots decisions.
  [[nodiscard]] dpb_status try_select(const Request &request, Decision *out) noexcept {
    return dpb_select_for(get(), &request, out);
  }
  [[nodiscard]] dpb_status try_next_period() noexcept { return dpb_next_period(get()); }
  [[nodiscard]] dpb_status try_advance(std::uint64_t now) noexcept { return dpb_advance(get(), now); }
  [[nodiscard]] dpb_status try_skip(std::uint64_t ticks) noexcept { return dpb_skip(get(), ticks); }
  [[nodiscard]] dpb_status try_update(std::uint64_t ticket, double reward) noexcept {
    return dpb_update(get(), ticket, reward);
  }
  [[nodiscard]] dpb_status try_update_part(std::uint64_t ticket, std::uint32_t part, double value) noexcept {
    return dpb_update_part(get(), ticket, part, value);
  }
  /// Why try_select would refuse a request now: `error` names the field and the value (dpb_request_check).
  [[nodiscard]] dpb_status try_check(const Request &request, dpb_error *error = nullptr) const noexcept {
    return dpb_request_check(get(), &request, error);
  }
  [[nodiscard]] dpb_status try_cancel(std::uint64_t ticket) noexcept { return dpb_cancel(get(), ticket); }
  [[nodiscard]] dpb_status try_cancel_all() noexcept { return dpb_cancel_all(get()); }
  /// requests: n requests, or nullptr for n requests of one slot. done: receives the number of requests decided.
  [[nodiscard]] dpb_status try_select_many(const Request *requests, std::size_t n, Decision *out,
                                           std::size_t &done) noexcept {
    return dpb_select_many(get(), requests, n, out, &done);
  }
  /// each: nullptr, or an array of n statuses. done: receives the number of rewards accepted.
  [[nodiscard]] dpb_status try_update_many(const std::uint64_t *tickets, const double *rewards, std::size_t n,
                                           dpb_status *each, std::size_t &done) noexcept {
    return dpb_update_many(get(), tickets, rewards, n, each, &done);
  }

  /// Adds an arm and returns its number (dpb_add_arm). Numbers are never used again. id: 0, or the id that identifies the
  /// arm in all handles of a fleet.
  [[nodiscard]] std::uint32_t add_arm(std::uint64_t id = 0) {
    std::uint32_t arm = 0;
    detail::insist([&](dpb_error *error) { return try_add_arm(id, arm, error); });
    return arm;
  }
  [[nodiscard]] dpb_status try_add_arm(std::uint64_t id, std::uint32_t &arm, dpb_error *error = nullptr) noexcept {
    return dpb_add_arm(get(), id, &arm, error);
  }
  /// Gives an arm a prior from public data (dpb_set_prior). strength: 1 to 2^24, the number of real rewards that you
  /// consider equally informative.
  void set_prior(std::uint32_t arm, double mean, double strength) {
    detail::insist([&](dpb_error *error) { return try_set_prior(arm, mean, strength, error); });
  }
  [[nodiscard]] dpb_status try_set_prior(std::uint32_t arm, double mean, double strength,
                                         dpb_error *error = nullptr) noexcept {
    return dpb_set_prior(get(), arm, mean, strength, error);
  }
  /// Removes an arm: it is never chosen again. Rewards of its open decisions are still accepted (dpb_retire_arm).
  void retire_arm(std::uint32_t arm) { detail::check(try_retire_arm(arm), "dpb_retire_arm", "arm", arm); }
  [[nodiscard]] dpb_status try_retire_arm(std::uint32_t arm) noexcept { return dpb_retire_arm(get(), arm); }

  // The server of the shuffle model (sdp_ae, vb_sdp_ae).
  /// The parameters for the devices and shufflers of this phase's batches. Phases count from 1.
  [[nodiscard]] ShuffleParams shuffle_params(std::uint32_t phase) const {
    ShuffleParams params = {};
    detail::check(try_shuffle_params(phase, params), "dpb_shuffle_params_read", "phase", phase);
    return params;
  }
  [[nodiscard]] dpb_status try_shuffle_params(std::uint32_t phase, ShuffleParams &out) const noexcept {
    return dpb_shuffle_params_read(get(), phase, &out);
  }
  /// Reports one arm's shuffled batch of the open phase. Each arm has one batch in a phase.
  void submit_shuffled(std::uint32_t phase, std::uint32_t arm, Bytes bits) {
    const dpb_status status = try_submit_shuffled(phase, arm, bits.data(), bits.size());
    detail::check(status, "dpb_submit_shuffled", "phase", phase, "arm", arm, "len", bits.size());
  }
  [[nodiscard]] dpb_status try_submit_shuffled(std::uint32_t phase, std::uint32_t arm, const std::uint8_t *bits,
                                               std::size_t len) noexcept {
    return dpb_submit_shuffled(get(), phase, arm, bits, len);
  }

  // Reading costs no privacy, because all of it is released already. diagnostics is the exception.
  /// The public counts and the privacy loss so far (dpb_report_read).
  [[nodiscard]] Report report() const {
    Report read = {};
    detail::check(try_report(read), "dpb_report_read");
    return read;
  }
  [[nodiscard]] dpb_status try_report(Report &out) const noexcept {
    out.struct_size = sizeof out;
    return dpb_report_read(get(), &out);
  }
  /// The public state of all arms, by number (dpb_arms_read).
  [[nodiscard]] std::vector<Arm> arms() const {
    std::vector<Arm> read;
    detail::check(detail::fill(read, [this](auto... room) { return dpb_arms_read(get(), room...); }), "dpb_arms_read");
    return read;
  }
  /// out: an array of cap arms. n: receives the number of arms, also with DPB_BUFFER_TOO_SMALL.
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
  /// The releases and the public state as bytes (dpb_snapshot). You may publish them if segments' keys and the second
  /// moments of features may be public.
  [[nodiscard]] std::vector<std::uint8_t> snapshot() const { return detail::bytes(dpb_snapshot, get()); }
  [[nodiscard]] dpb_status try_snapshot(std::vector<std::uint8_t> &bytes, dpb_error *error = nullptr) const noexcept {
    return detail::fill_bytes(bytes, error, dpb_snapshot, get());
  }
  /// Says that a snapshot of this very handle is stored: from now on a restart finds it or a later one (dpb_stored). Call it
  /// after the write is durable. With config.expected_users the library learns only in periods that are stored.
  void stored(Bytes snapshot) {
    detail::insist([&](dpb_error *error) { return try_stored(snapshot.data(), snapshot.size(), error); });
  }
  [[nodiscard]] dpb_status try_stored(const std::uint8_t *snapshot, std::size_t len,
                                      dpb_error *error = nullptr) noexcept {
    return dpb_stored(get(), snapshot, len, error);
  }
  /// Adds the releases of another handle, from its snapshot (dpb_merge). Order and repetition do not matter.
  void merge(Bytes snapshot) {
    detail::insist([&](dpb_error *error) { return try_merge(snapshot.data(), snapshot.size(), error); });
  }
  [[nodiscard]] dpb_status try_merge(const std::uint8_t *snapshot, std::size_t len,
                                     dpb_error *error = nullptr) noexcept {
    return dpb_merge(get(), snapshot, len, error);
  }

  // States that move (config.fleet_key).
  /// Ends this handle, and returns its whole state, sealed, for one other handle to continue from (dpb_suspend). `to` is a
  /// receiver() of the process that resumes, or 0 for a state at rest. One handle at most may continue from a state.
  [[nodiscard]] std::vector<std::uint8_t> suspend(std::uint64_t to) { return detail::bytes(dpb_suspend, get(), to); }
  [[nodiscard]] dpb_status try_suspend(std::uint64_t to, std::vector<std::uint8_t> &bytes,
                                       dpb_error *error = nullptr) noexcept {
    return detail::fill_bytes(bytes, error, dpb_suspend, get(), to);
  }
  /// A bandit that continues from a state, with all that the suspended one knew (dpb_resume). A state at rest is held:
  /// every call but report() is DPB_NOT_READY until claimed().
  [[nodiscard]] static Bandit resume(const Config &c, Bytes state) {
    return Bandit(
        detail::construct<Handle>(dpb_resume, static_cast<const char *>(nullptr), &c, state.data(), state.size()));
  }
  [[nodiscard]] static std::optional<Bandit> try_resume(const Config &c, const std::uint8_t *state, std::size_t len,
                                                        dpb_error *error = nullptr) noexcept {
    return owner(
        detail::try_construct<Handle>(error, dpb_resume, static_cast<const char *>(nullptr), &c, state, len));
  }
  /// Ends the hold of a bandit that continues from a state at rest, once no other can (dpb_claimed).
  void claimed() { detail::check(try_claimed(), "dpb_claimed"); }
  [[nodiscard]] dpb_status try_claimed() noexcept { return dpb_claimed(get()); }
  /// A number that one state may be addressed to, and be resumed in this process, while this handle exists (dpb_receiver).
  [[nodiscard]] std::uint64_t receiver() {
    std::uint64_t number = 0;
    detail::insist([&](dpb_error *error) { return try_receiver(number, error); });
    return number;
  }
  [[nodiscard]] dpb_status try_receiver(std::uint64_t &number, dpb_error *error = nullptr) noexcept {
    return dpb_receiver(get(), &number, error);
  }

  // A fleet with one noise (config.fleet_key).
  /// Makes this handle the leader, which releases what the others contribute, and returns its generation (dpb_lead). A
  /// handle that leads already keeps its generation.
  [[nodiscard]] std::uint64_t lead() {
    std::uint64_t generation = 0;
    detail::insist([&](dpb_error *error) { return try_lead(generation, error); });
    return generation;
  }
  [[nodiscard]] dpb_status try_lead(std::uint64_t &generation, dpb_error *error = nullptr) noexcept {
    return dpb_lead(get(), &generation, error);
  }
  /// Ends contributing and leading: the handle releases its own batches again (dpb_alone). Report::duty shows which it
  /// does.
  void alone() {
    detail::insist([&](dpb_error *error) { return try_alone(error); });
  }
  [[nodiscard]] dpb_status try_alone(dpb_error *error = nullptr) noexcept { return dpb_alone(get(), error); }
  /// Sets how many handles share the work of this fleet, this one included (dpb_set_handles). 0: the handle counts those
  /// whose snapshots it merged lately.
  void set_handles(std::uint32_t handles) {
    detail::insist([&](dpb_error *error) { return try_set_handles(handles, error); });
  }
  [[nodiscard]] dpb_status try_set_handles(std::uint32_t handles, dpb_error *error = nullptr) noexcept {
    return dpb_set_handles(get(), handles, error);
  }
  /// Takes the sums of all open batches out of this handle, sealed for the leader of this generation (dpb_contribution);
  /// empty if there are none. Send them once, and to that leader only.
  [[nodiscard]] std::vector<std::uint8_t> contribution(std::uint64_t generation) {
    return detail::bytes(dpb_contribution, get(), generation);
  }
  [[nodiscard]] dpb_status try_contribution(std::uint64_t generation, std::vector<std::uint8_t> &bytes,
                                            dpb_error *error = nullptr) noexcept {
    return detail::fill_bytes(bytes, error, dpb_contribution, get(), generation);
  }
  /// Adds a contribution to the open batches of this handle, which leads (dpb_combine). Drop what is DPB_DUPLICATE or
  /// DPB_EXPIRED.
  void combine(Bytes contribution) {
    detail::insist([&](dpb_error *error) { return try_combine(contribution.data(), contribution.size(), error); });
  }
  [[nodiscard]] dpb_status try_combine(const std::uint8_t *contribution, std::size_t len,
                                       dpb_error *error = nullptr) noexcept {
    return dpb_combine(get(), contribution, len, error);
  }
  /// Seals a message for the handles of the fleet, such as a click that came to the wrong one (dpb_seal).
  [[nodiscard]] std::vector<std::uint8_t> seal(Bytes message) const {
    return detail::bytes(dpb_seal, get(), message.data(), message.size());
  }
  [[nodiscard]] dpb_status try_seal(const std::uint8_t *message, std::size_t len, std::vector<std::uint8_t> &sealed,
                                    dpb_error *error = nullptr) const noexcept {
    return detail::fill_bytes(sealed, error, dpb_seal, get(), message, len);
  }
  /// Opens a message that seal made at a handle with the same key (dpb_open).
  [[nodiscard]] std::vector<std::uint8_t> open(Bytes sealed) const {
    return detail::bytes(dpb_open, get(), sealed.data(), sealed.size());
  }
  [[nodiscard]] dpb_status try_open(const std::uint8_t *sealed, std::size_t len, std::vector<std::uint8_t> &message,
                                    dpb_error *error = nullptr) const noexcept {
    return detail::fill_bytes(message, error, dpb_open, get(), sealed, len);
  }
  /// The arm that the policy has identified as the best, if it has. DPB_UNSUPPORTED for a policy that never does.
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
  /// What the test of dp-tt says (dpb_verdict_read).
  [[nodiscard]] Verdict verdict() const {
    Verdict read = {};
    detail::check(try_verdict(read), "dpb_verdict_read");
    return read;
  }
  /// A verdict in words (dpb_verdict_text).
  [[nodiscard]] static dpb_status try_verdict_text(const Verdict &verdict, std::vector<std::uint8_t> &out,
                                                   dpb_error *error = nullptr) noexcept {
    return detail::fill_bytes(out, error, dpb_verdict_text, &verdict);
  }
  [[nodiscard]] static std::string verdict_text(const Verdict &verdict) {
    const std::vector<std::uint8_t> bytes = detail::bytes(dpb_verdict_text, &verdict);
    return {bytes.begin(), bytes.end()};
  }
  [[nodiscard]] dpb_status try_verdict(Verdict &out) const noexcept {
    out.struct_size = sizeof out;
    return dpb_verdict_read(get(), &out);
  }
  /// What this bandit guarantees, as JSON in the fields of the registry of deployments, or as a page for a privacy
  /// officer (dpb_statement). All of it is public.
  [[nodiscard]] std::string statement() const { return stated(DPB_STATEMENT_JSON); }
  [[nodiscard]] std::string statement_text() const { return stated(DPB_STATEMENT_PROSE); }
  [[nodiscard]] dpb_status try_statement(std::uint32_t form, std::vector<std::uint8_t> &out,
                                         dpb_error *error = nullptr) const noexcept {
    return detail::fill_bytes(out, error, dpb_statement, get(), form);
  }
  /// A confidence interval for the mean of arm i minus the mean of arm j that holds at all times (dpb_compare); nullopt
  /// until both arms have a release. confidence: in (0, 1).
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
  /// What the policy has gained, as a confidence interval that holds at all times (dpb_lift): 0.12 is 12% better than the
  /// control, an arm or no_arm for an even draw; nullopt until each of its arms has a release. confidence: in (0, 1).
  [[nodiscard]] std::optional<Interval> lift(std::uint32_t control, double confidence) const {
    Interval ends = {};
    const dpb_status status = try_lift(control, confidence, ends);
    if (status == DPB_NOT_READY) {
      return std::nullopt;
    }
    detail::check(status, "dpb_lift", "control", control, "confidence", confidence);
    return ends;
  }
  [[nodiscard]] dpb_status try_lift(std::uint32_t control, double confidence, Interval &out) const noexcept {
    return dpb_lift(get(), control, confidence, &out.low, &out.high);
  }
  /// Estimates the mean reward of each eligible arm of a request, or of every arm by its number (dpb_predict).
  [[nodiscard]] std::vector<Prediction> predict(const Request &request) const {
    std::vector<double> means, deviations;
    const dpb_status status = detail::fill(means, [&](double *mean, std::size_t cap, std::size_t *n) {
      return detail::resize(deviations, cap) ? try_predict(request, mean, deviations.data(), cap, *n) : DPB_NO_MEMORY;
    });
    refuse(status, "dpb_predict", request);
    std::vector<Prediction> predictions;
    for (std::size_t i = 0; i < means.size(); ++i) {
      predictions.push_back({means[i], deviations[i]});
    }
    return predictions;
  }
  /// mean, deviation: arrays of cap numbers, or nullptr. n: receives how many there are, also with
  /// DPB_BUFFER_TOO_SMALL.
  [[nodiscard]] dpb_status try_predict(const Request &request, double *mean, double *deviation, std::size_t cap,
                                       std::size_t &n) const noexcept {
    return dpb_predict(get(), &request, mean, deviation, cap, &n);
  }
  /// Reads the probability of each arm in the next decision of a request, as integers that sum to 2^32, for a table by
  /// which programs decide elsewhere (dpb_weights).
  [[nodiscard]] std::vector<std::uint64_t> weights(const Request &request = {}) const {
    std::vector<std::uint64_t> read;
    detail::insist([&](dpb_error *error) {
      return detail::fill(read, [&](std::uint64_t *out, std::size_t cap, std::size_t *n) {
        return try_weights(request, out, cap, *n, error);
      });
    });
    return read;
  }
  /// out: an array of cap numbers. n: receives how many there are, also with DPB_BUFFER_TOO_SMALL.
  [[nodiscard]] dpb_status try_weights(const Request &request, std::uint64_t *out, std::size_t cap, std::size_t &n,
                                       dpb_error *error = nullptr) const noexcept {
    return dpb_weights(get(), &request, out, cap, &n, error);
  }
  /// Begins a version of this bandit's table. The one before it closes after grace more ticks (dpb_table_begin).
  [[nodiscard]] std::uint64_t table_begin(std::uint64_t grace) {
    std::uint64_t version = 0;
    detail::insist([&](dpb_error *error) { return try_table_begin(grace, version, error); });
    return version;
  }
  [[nodiscard]] dpb_status try_table_begin(std::uint64_t grace, std::uint64_t &version,
                                           dpb_error *error = nullptr) noexcept {
    return dpb_table_begin(get(), grace, &version, error);
  }
  /// Records a decision that was made elsewhere, once whatever is repeated; the one eligible arm of the request is the arm
  /// that was shown (dpb_record). Which ones you record must not depend on rewards.
  Decision record(std::uint64_t version, std::uint64_t id, const Request &request) {
    Decision decision;
    detail::check(try_record(version, id, request, decision), "dpb_record", "version", version, "id", id, "eligible",
                  detail::list(request.eligible, request.eligible_len));
    return decision;
  }
  [[nodiscard]] dpb_status try_record(std::uint64_t version, std::uint64_t id, const Request &request,
                                      Decision &out) noexcept {
    return dpb_record(get(), version, id, &request, &out);
  }
  /// Finds the decision of an id that was recorded, for a reward that names the id (dpb_find).
  [[nodiscard]] Decision find(std::uint64_t version, std::uint64_t id) {
    Decision decision;
    detail::check(try_find(version, id, decision), "dpb_find", "version", version, "id", id);
    return decision;
  }
  [[nodiscard]] dpb_status try_find(std::uint64_t version, std::uint64_t id, Decision &out) noexcept {
    return dpb_find(get(), version, id, &out);
  }
  /// The weight of each feature in an arm's model, in logits for one unit of the feature, with its deviation; then the
  /// intercept (dpb_feature_weights).
  [[nodiscard]] std::vector<Prediction> feature_weights(std::uint32_t arm) const {
    std::vector<double> means, deviations;
    const dpb_status status = detail::fill(means, [&](double *mean, std::size_t cap, std::size_t *n) {
      return detail::resize(deviations, cap) ? try_feature_weights(arm, mean, deviations.data(), cap, *n) : DPB_NO_MEMORY;
    });
    detail::check(status, "dpb_feature_weights", "arm", arm);
    std::vector<Prediction> weights;
    for (std::size_t i = 0; i < means.size(); ++i) {
      weights.push_back({means[i], deviations[i]});
    }
    return weights;
  }
  /// mean, deviation: arrays of cap numbers, or nullptr. n: receives how many there are, also with
  /// DPB_BUFFER_TOO_SMALL.
  [[nodiscard]] dpb_status try_feature_weights(std::uint32_t arm, double *mean, double *deviation, std::size_t cap,
                                               std::size_t &n) const noexcept {
    return dpb_feature_weights(get(), arm, mean, deviation, cap, &n);
  }
  /// An upper bound of the privacy loss so far, at this delta in [0, 1) (dpb_epsilon_spent).
  [[nodiscard]] double epsilon_spent(double delta = 0.0) const {
    double epsilon = 0.0;
    detail::check(try_epsilon_spent(delta, epsilon), "dpb_epsilon_spent", "delta", delta);
    return epsilon;
  }
  [[nodiscard]] dpb_status try_epsilon_spent(double delta, double &epsilon) const noexcept {
    return dpb_epsilon_spent(get(), delta, &epsilon);
  }
  /// The policy's name, such as "dp-imed"; "" after a move.
  [[nodiscard]] std::string_view policy_name() const noexcept { return dpb_policy_name(get()); }
  /// The counts of refused calls. They are NOT private: a duplicate reveals a click. Show them to operators only.
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
  [[nodiscard]] std::string stated(std::uint32_t form) const {
    const std::vector<std::uint8_t> bytes = detail::bytes(dpb_statement, get(), form);
    return {bytes.begin(), bytes.end()};
  }
  friend class Node;
  using Handle = detail::Handle<dpb_bandit, dpb_free>;
  using Constructor = dpb_status(const dpb_config *, dpb_bandit **, dpb_error *);
  Bandit(Constructor *constructor, const Config &c)
      : handle_(detail::construct<Handle>(constructor, &c)) {}
  explicit Bandit(Handle &&handle) noexcept : handle_(std::move(handle)) {}
  static std::optional<Bandit> owner(Handle handle) noexcept {
    return handle ? std::optional(Bandit(std::move(handle))) : std::nullopt;
  }
  /// Throws if a request failed. The message names the request's fields, and says why: `why`, or else what
  /// dpb_request_check says.
  void refuse(dpb_status status, const char *function, const Request &request, const char *why = nullptr) const {
    if (status != DPB_OK) {
      dpb_error error = {};
      if (why == nullptr && try_check(request, &error) == status) {
        why = error.message;
      }
      std::string message = std::string(function) + '(';
      detail::name_arguments(message, "slots", request.slots, "segment", request.segment, "eligible",
                             detail::list(request.eligible, request.eligible_len));
      message += std::string("): ") + dpb_status_name(status);
      detail::fail(status, why == nullptr ? message : message + ": " + why);
    }
  }

  Handle handle_;
};

// A fleet: processes that learn as one bandit, through a store that they share. dpb_fleet.hpp has the threads and a
// client of Redis.

using Command = dpb_command;
using NodeReport = dpb_node_report;
using NodeDiagnostics = dpb_node_diagnostics;
/// The callbacks of a host's database, for store_run.
using Rows = dpb_rows;

/// dpb_node_options with its defaults. The name and a snapshot must live until the constructor of the node has read
/// them.
struct NodeOptions : dpb_node_options {
  explicit NodeOptions(const char *bandit) noexcept : dpb_node_options() { dpb_node_options_init(this, bandit); }
};

/// The two lanes of a node. Each has at most one command in flight.
enum class Lane : std::uint32_t { rounds = DPB_LANE_ROUNDS, exchanges = DPB_LANE_EXCHANGES };

/// dpb_node: a node of a fleet, whose commands the caller runs with its own client. Times are milliseconds of a clock
/// that never goes back.
class Node {
public:
  /// A node whose bandit has the policy that dpb_new takes. config.node: its number; 0: the lowest that is free.
  Node(const Config &c, const NodeOptions &options) : Node(nullptr, c, options) {}
  /// With nullptr the policy is that of dpb_new.
  Node(const char *policy, const Config &c, const NodeOptions &options)
      : handle_(detail::construct<Handle>(dpb_node_new, policy, &c, &options)) {}
  [[nodiscard]] static std::optional<Node> try_new(const char *policy, const Config &c, const NodeOptions &options,
                                                   dpb_error *error = nullptr) noexcept {
    Handle handle = detail::try_construct<Handle>(error, dpb_node_new, policy, &c, &options);
    return handle ? std::optional<Node>(Node(std::move(handle))) : std::nullopt;
  }

  /// The node's bandit, once it has joined. The node owns it: destroy what this returns before the node, and report
  /// rewards to the node.
  [[nodiscard]] std::optional<Bandit> bandit() const noexcept {
    dpb_bandit *own = dpb_node_bandit(get());
    return own != nullptr ? std::optional(Bandit(Bandit::Handle(own))) : std::nullopt; // dpb_free leaves it alone
  }
  /// What to do next in a lane (dpb_node_next); nullopt when the node has ended.
  [[nodiscard]] std::optional<Command> next(Lane lane, std::uint64_t now_ms) {
    Command command = {};
    dpb_error error = {};
    const dpb_status status = try_next(lane, now_ms, command, &error);
    if (status == DPB_HALTED) {
      return std::nullopt;
    }
    if (status != DPB_OK) {
      detail::fail(status, error.message);
    }
    return command;
  }
  [[nodiscard]] dpb_status try_next(Lane lane, std::uint64_t now_ms, Command &out,
                                    dpb_error *error = nullptr) noexcept {
    out.struct_size = sizeof out;
    return dpb_node_next(get(), static_cast<std::uint32_t>(lane), now_ms, &out, error);
  }
  /// Passes the reply to a command.
  void reply(std::uint64_t id, std::uint64_t now_ms, std::string_view bytes) {
    detail::check(try_reply(id, now_ms, bytes), "dpb_node_reply");
  }
  [[nodiscard]] dpb_status try_reply(std::uint64_t id, std::uint64_t now_ms, std::string_view bytes) noexcept {
    return dpb_node_reply(get(), id, now_ms, reinterpret_cast<const std::uint8_t *>(bytes.data()), bytes.size());
  }
  /// Says that a command has failed, or perhaps has: the node repeats it. why: for the log; may be nullptr.
  void failed(std::uint64_t id, std::uint64_t now_ms, const char *why) {
    detail::check(try_failed(id, now_ms, why), "dpb_node_failed");
  }
  [[nodiscard]] dpb_status try_failed(std::uint64_t id, std::uint64_t now_ms, const char *why) noexcept {
    return dpb_node_failed(get(), id, now_ms, why);
  }
  /// Reports the reward of a decision of any node. Never waits for the store.
  void update(std::uint64_t ticket, double reward) {
    detail::check_update(try_update(ticket, reward), "dpb_node_update", ticket, reward);
  }
  [[nodiscard]] dpb_status try_update(std::uint64_t ticket, double reward) noexcept {
    return dpb_node_update(get(), ticket, reward);
  }
  /// The same for a part of a reward, with config.parts (dpb_node_update_part).
  void update_part(std::uint64_t ticket, std::uint32_t part, double value) {
    detail::check_part(try_update_part(ticket, part, value), "dpb_node_update_part", ticket, part, value);
  }
  [[nodiscard]] dpb_status try_update_part(std::uint64_t ticket, std::uint32_t part, double value) noexcept {
    return dpb_node_update_part(get(), ticket, part, value);
  }
  /// Begins a period, and stores a snapshot at once.
  void next_period() { detail::check(try_next_period(), "dpb_node_next_period"); }
  [[nodiscard]] dpb_status try_next_period() noexcept { return dpb_node_next_period(get()); }
  /// Begins to hand over. Decide nothing after it, and call next in both lanes until the node has ended.
  void leave(std::uint64_t now_ms) { detail::check(try_leave(now_ms), "dpb_node_leave"); }
  [[nodiscard]] dpb_status try_leave(std::uint64_t now_ms) noexcept { return dpb_node_leave(get(), now_ms); }
  /// What anybody may know of the node.
  [[nodiscard]] NodeReport report(std::uint64_t now_ms) const {
    NodeReport read = {};
    detail::check(try_report(now_ms, read), "dpb_node_report_read");
    return read;
  }
  [[nodiscard]] dpb_status try_report(std::uint64_t now_ms, NodeReport &out) const noexcept {
    out.struct_size = sizeof out;
    return dpb_node_report_read(get(), now_ms, &out);
  }
  /// Counts of rewards that travel. They are NOT private: show them to operators only.
  [[nodiscard]] NodeDiagnostics diagnostics() const {
    NodeDiagnostics read = {};
    detail::check(try_diagnostics(read), "dpb_node_diagnostics_read");
    return read;
  }
  [[nodiscard]] dpb_status try_diagnostics(NodeDiagnostics &out) const noexcept {
    out.struct_size = sizeof out;
    return dpb_node_diagnostics_read(get(), &out);
  }

  /// The C handle, still owned by this object; NULL after a move.
  [[nodiscard]] dpb_node *get() const noexcept { return handle_.get(); }

private:
  using Handle = detail::Handle<dpb_node, dpb_node_free>;
  explicit Node(Handle &&handle) noexcept : handle_(std::move(handle)) {}

  Handle handle_;
};

/// Writes the command that ends the lease of a number whose process has died (dpb_node_gone). It is valid until this
/// thread's next call.
[[nodiscard]] inline dpb_status try_node_gone(const char *name, std::uint16_t number, Command &out) noexcept {
  out.struct_size = sizeof out;
  return dpb_node_gone(name, number, &out);
}
/// Runs a command on rows of the host's database, in its transaction (dpb_store_run). buf: an array of cap bytes. len:
/// receives the reply's length, also with DPB_BUFFER_TOO_SMALL.
[[nodiscard]] inline dpb_status try_store_run(const Rows &rows, const Command &command, std::uint64_t now_ms,
                                              std::uint8_t *buf, std::size_t cap, std::size_t &len) noexcept {
  return dpb_store_run(&rows, &command, now_ms, buf, cap, &len);
}

/// dpb_stopping: a stopping rule. It takes samples until it knows their mean within a factor of 1 +- alpha.
class Stopping {
public:
  /// NAS, a baseline WITHOUT privacy.
  [[nodiscard]] static Stopping nas(const StoppingConfig &c) { return Stopping(dpb_new_nas, c); }
  [[nodiscard]] static Stopping dp_nas(const StoppingConfig &c) { return Stopping(dpb_new_dp_nas, c); }
  [[nodiscard]] static Stopping dp_exp_nas(const StoppingConfig &c) { return Stopping(dpb_new_dp_exp_nas, c); }
  /// A rule without exceptions, by its C function: try_new(dpb_new_dp_nas, config).
  using Constructor = dpb_status(const dpb_stopping_config *, dpb_stopping **, dpb_error *);
  [[nodiscard]] static std::optional<Stopping> try_new(Constructor *rule, const StoppingConfig &c,
                                                       dpb_error *error = nullptr) noexcept {
    Handle handle = detail::try_construct<Handle>(error, rule, &c);
    return handle ? std::optional(Stopping(std::move(handle))) : std::nullopt;
  }

  /// Takes a sample in [-range, range]. Returns true if the rule halts with it.
  [[nodiscard]] bool push(double sample) {
    bool halted = false;
    detail::check_reward(try_push(sample, halted), "dpb_stopping_push", "sample", sample);
    return halted;
  }
  [[nodiscard]] dpb_status try_push(double sample, bool &halted) noexcept {
    const auto push = [sample](dpb_stopping *rule, std::uint32_t *out) { return dpb_stopping_push(rule, sample, out); };
    return detail::answer(push, get(), halted);
  }
  /// The released mean; nullopt until the rule has halted.
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
  /// False for nas and with a test seed.
  [[nodiscard]] bool is_private() const {
    bool answer = false;
    detail::check(try_is_private(answer), "dpb_stopping_is_private");
    return answer;
  }
  [[nodiscard]] dpb_status try_is_private(bool &out) const noexcept {
    return detail::answer(dpb_stopping_is_private, get(), out);
  }

  /// The C handle, still owned by this object; NULL after a move.
  [[nodiscard]] dpb_stopping *get() const noexcept { return handle_.get(); }

private:
  using Handle = detail::Handle<dpb_stopping, dpb_stopping_free>;
  Stopping(Constructor *rule, const StoppingConfig &c) : handle_(detail::construct<Handle>(rule, &c)) {}
  explicit Stopping(Handle &&handle) noexcept : handle_(std::move(handle)) {}

  Handle handle_;
};

/// dpb_counter: a private running sum of values in [0, 1], pure epsilon-DP for one value.
class Counter {
public:
  explicit Counter(const CounterConfig &c) : handle_(detail::construct<Handle>(dpb_new_counter, &c)) {}
  /// A counter with this configuration. horizon: the maximum number of values of a binary counter, 1 to 2^37.
  Counter(CounterKind kind, double epsilon, std::uint64_t horizon = 0) : Counter(config(kind, epsilon, horizon)) {}

  [[nodiscard]] static std::optional<Counter> try_new(const CounterConfig &c, dpb_error *error = nullptr) noexcept {
    Handle handle = detail::try_construct<Handle>(error, dpb_new_counter, &c);
    return handle ? std::optional(Counter(std::move(handle))) : std::nullopt;
  }

  /// Adds a value in [0, 1].
  void add(double value) { detail::check_reward(try_add(value), "dpb_counter_add", "value", value); }
  [[nodiscard]] dpb_status try_add(double value) noexcept { return dpb_counter_add(get(), value); }
  /// The released sum. It changes only by add.
  [[nodiscard]] double read() const {
    double sum = 0.0;
    detail::check(try_read(sum), "dpb_counter_read");
    return sum;
  }
  [[nodiscard]] dpb_status try_read(double &sum) const noexcept { return dpb_counter_read(get(), &sum); }
  /// False with a test seed.
  [[nodiscard]] bool is_private() const {
    bool answer = false;
    detail::check(try_is_private(answer), "dpb_counter_is_private");
    return answer;
  }
  [[nodiscard]] dpb_status try_is_private(bool &out) const noexcept {
    return detail::answer(dpb_counter_is_private, get(), out);
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

/// The parameters of batches of `users` messages that are (epsilon, delta)-DP (dpb_shuffle_plan). flags: 0, or
/// DPB_SHUFFLE_PRINTED for the paper's formula.
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

/// Encodes one reward in [0, 1] on the user's device. Send the message to the shuffler only, and once.
[[nodiscard]] inline std::vector<std::uint8_t> shuffle_encode(const ShuffleParams &params, double reward) {
  std::vector<std::uint8_t> bits;
  const auto encode = [&](auto... room) { return dpb_shuffle_encode(&params, reward, room...); };
  detail::check_reward(detail::fill(bits, encode), "dpb_shuffle_encode", "reward", reward);
  return bits;
}
/// bits: an array of cap bytes. len: receives the message's length, also with DPB_BUFFER_TOO_SMALL.
[[nodiscard]] inline dpb_status try_shuffle_encode(const ShuffleParams &params, double reward, std::uint8_t *bits,
                                                   std::size_t cap, std::size_t &len) noexcept {
  return dpb_shuffle_encode(&params, reward, bits, cap, &len);
}

/// dpb_shuffler: collects the messages of a batch and, when the batch is complete, returns their bits in random order,
/// once.
class Shuffler {
public:
  explicit Shuffler(const ShuffleParams &params) : handle_(detail::construct<Handle>(dpb_new_shuffler, &params)) {}
  [[nodiscard]] static std::optional<Shuffler> try_new(const ShuffleParams &params,
                                                       dpb_error *error = nullptr) noexcept {
    Handle handle = detail::try_construct<Handle>(error, dpb_new_shuffler, &params);
    return handle ? std::optional(Shuffler(std::move(handle))) : std::nullopt;
  }

  /// Adds one user's message. DPB_EXPIRED while a complete batch waits for take.
  void push(Bytes bits) {
    detail::check(try_push(bits.data(), bits.size()), "dpb_shuffler_push", "len", bits.size());
  }
  /// Returns the batch and starts the next one; nullopt until the batch is complete.
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
  /// out: an array of cap bytes. len: receives the batch's length, also with DPB_BUFFER_TOO_SMALL.
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

/// Encodes a reward in [0, 1] as one bit on the user's device, for ldp_ucb and ldp_klucb (the local model). The bit is
/// epsilon-DP, whoever sees it. Encode each reward once.
[[nodiscard]] inline dpb_status try_ldp_encode(double epsilon, double reward, std::uint8_t &bit) noexcept {
  return dpb_ldp_encode(epsilon, reward, &bit);
}
/// try_ldp_encode with exceptions.
[[nodiscard]] inline std::uint8_t ldp_encode(double epsilon, double reward) {
  std::uint8_t bit = 0;
  const dpb_status status = try_ldp_encode(epsilon, reward, bit);
  if (status == DPB_INVALID_REWARD) {
    detail::check(status, "dpb_ldp_encode", "reward", reward);
  }
  detail::check(status, "dpb_ldp_encode", "epsilon", epsilon);
  return bit;
}

/// Makes a codebook for dpb_config.codebook: len means of public rows, one after another (dpb_codebook). Without rows, the 2
/// features signed unit vectors.
[[nodiscard]] inline dpb_status try_codebook(const std::vector<float> &rows, std::uint32_t features, std::uint32_t len,
                                             std::vector<float> &book, dpb_error *error = nullptr) noexcept {
  const std::size_t n = features == 0 ? 0 : rows.size() / features;
  const bool fits = len <= 65536 && features <= 256; // what does not is refused before it is written
  std::vector<float> made;
  if (!detail::resize(made, fits ? std::size_t{len} * features + 1 : 1)) {
    return DPB_NO_MEMORY;
  }
  const dpb_status status = dpb_codebook(rows.data(), n, features, len, made.data(), error);
  if (status == DPB_OK) {
    made.pop_back();
    book.swap(made);
  }
  return status;
}
/// try_codebook with exceptions.
[[nodiscard]] inline std::vector<float> codebook(const std::vector<float> &rows, std::uint32_t features,
                                                 std::uint32_t len) {
  std::vector<float> book;
  detail::insist([&](dpb_error *error) { return try_codebook(rows, features, len, book, error); });
  return book;
}

} // namespace dpb

#endif // DPB_HPP
