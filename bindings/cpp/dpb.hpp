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
 * noexcept and return the dpb_status. Objects may be used from any number of threads at once, but
 * moving and destroying them must happen alone. A moved-from object answers DPB_NULL.
 *
 * What each call means is said in dpb.h, at the C function of the same name.
 */
#ifndef DPB_HPP
#define DPB_HPP

#include <dpb.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace dpb {

using Decision = dpb_decision;
using Report = dpb_report;
using Arm = dpb_arm;
using Diagnostics = dpb_diagnostics;

/// A refused call: its status, and a message for people.
class Error : public std::runtime_error {
public:
  Error(dpb_status status, const std::string &message) : std::runtime_error(message), status_(status) {}
  [[nodiscard]] dpb_status status() const noexcept { return status_; }

private:
  dpb_status status_;
};

/// dpb_config with its defaults. A test_seed must outlive the constructor that reads it, no more.
struct Config : dpb_config {
  Config(std::uint32_t arms, double epsilon) noexcept : dpb_config() { dpb_config_init(this, arms, epsilon); }
};

namespace detail {

/// Owns one C object; what `destroy` is given only once.
template <class T, void (*destroy)(T *)> struct Destroy {
  void operator()(T *object) const noexcept { destroy(object); }
};
template <class T, void (*destroy)(T *)> using Handle = std::unique_ptr<T, Destroy<T, destroy>>;

inline void check(dpb_status status, const char *function) {
  if (status != DPB_OK) {
    throw Error(status, std::string(function) + ": " + dpb_status_name(status));
  }
}

/// Runs a dpb_new_...(arguments..., &out, &error): the handle, or an Error with its message.
template <class Handle, class Constructor, class... Arguments>
[[nodiscard]] Handle construct(Constructor constructor, Arguments... arguments) {
  typename Handle::pointer object = nullptr;
  dpb_error error = {};
  const dpb_status status = constructor(arguments..., &object, &error);
  if (status != DPB_OK) {
    throw Error(status, error.message);
  }
  return Handle(object);
}

} // namespace detail

/// dpb_bandit: asks which arm, hears what came of it.
class Bandit {
public:
  /// The policy that we recommend for this configuration (dpb_new).
  explicit Bandit(const Config &c) : Bandit(dpb_new, c) {}

  // One line for each dpb_new_<policy>.
  [[nodiscard]] static Bandit se(const Config &c) { return Bandit(dpb_new_se, c); }
  [[nodiscard]] static Bandit nonprivate_ucb1(const Config &c) { return Bandit(dpb_new_nonprivate_ucb1, c); }

  // The throwing road.
  [[nodiscard]] Decision select() {
    Decision decision;
    detail::check(try_select(decision), "dpb_select");
    return decision;
  }
  void update(std::uint64_t ticket, double reward) { detail::check(try_update(ticket, reward), "dpb_update"); }
  void cancel(std::uint64_t ticket) { detail::check(try_cancel(ticket), "dpb_cancel"); }
  void select_many(Decision *out, std::size_t n) {
    std::size_t done = 0;
    detail::check(try_select_many(out, n, done), "dpb_select_many");
  }
  [[nodiscard]] std::vector<Decision> select_many(std::size_t n) {
    std::vector<Decision> decisions(n);
    select_many(decisions.data(), n);
    return decisions;
  }
  /// Throws the first refusal, after every answer was tried; try_update_many tells which and how many.
  void update_many(const std::uint64_t *tickets, const double *rewards, std::size_t n) {
    std::size_t done = 0;
    detail::check(try_update_many(tickets, rewards, n, nullptr, done), "dpb_update_many");
  }
  void update_many(const std::vector<std::uint64_t> &tickets, const std::vector<double> &rewards) {
    if (tickets.size() != rewards.size()) {
      throw Error(DPB_INVALID_CONFIG, "dpb_update_many: " + std::to_string(tickets.size()) + " tickets, " +
                                          std::to_string(rewards.size()) + " rewards");
    }
    update_many(tickets.data(), rewards.data(), tickets.size());
  }

  // The road without exceptions: outputs are written only as dpb.h says.
  [[nodiscard]] dpb_status try_select(Decision &out) noexcept { return dpb_select(get(), &out); }
  [[nodiscard]] dpb_status try_update(std::uint64_t ticket, double reward) noexcept {
    return dpb_update(get(), ticket, reward);
  }
  [[nodiscard]] dpb_status try_cancel(std::uint64_t ticket) noexcept { return dpb_cancel(get(), ticket); }
  [[nodiscard]] dpb_status try_select_many(Decision *out, std::size_t n, std::size_t &done) noexcept {
    return dpb_select_many(get(), out, n, &done);
  }
  /// each: nullptr, or room for n statuses.
  [[nodiscard]] dpb_status try_update_many(const std::uint64_t *tickets, const double *rewards, std::size_t n,
                                           dpb_status *each, std::size_t &done) noexcept {
    return dpb_update_many(get(), tickets, rewards, n, each, &done);
  }

  // Reading: all but diagnostics is released already and costs no privacy.
  [[nodiscard]] Report report() const {
    Report report = {};
    detail::check(dpb_report_read(get(), &report), "dpb_report_read");
    return report;
  }
  [[nodiscard]] std::vector<Arm> arms() const {
    std::vector<Arm> arms;
    std::size_t n = 0;
    dpb_status status = dpb_arms_read(get(), nullptr, 0, &n);
    while (status == DPB_BUFFER_TOO_SMALL) {
      arms.resize(n);
      status = dpb_arms_read(get(), arms.data(), arms.size(), &n);
    }
    detail::check(status, "dpb_arms_read");
    arms.resize(n);
    return arms;
  }
  /// The arm that the policy decided for, once it has.
  [[nodiscard]] std::optional<std::uint32_t> best_arm() const {
    std::uint32_t arm = 0;
    const dpb_status status = dpb_best_arm(get(), &arm);
    if (status == DPB_NOT_READY) {
      return std::nullopt;
    }
    detail::check(status, "dpb_best_arm");
    return arm;
  }
  /// The privacy loss of one user so far at this delta.
  [[nodiscard]] double privacy(double delta = 0.0) const {
    double epsilon = 0.0;
    detail::check(dpb_privacy(get(), delta, &epsilon), "dpb_privacy");
    return epsilon;
  }
  [[nodiscard]] std::string_view policy_name() const noexcept { return dpb_policy_name(get()); }
  /// NOT private: for the operator's own eyes.
  [[nodiscard]] Diagnostics diagnostics() const {
    Diagnostics diagnostics = {};
    detail::check(dpb_diagnostics_read(get(), &diagnostics), "dpb_diagnostics_read");
    return diagnostics;
  }

  /// The C handle, still owned by this object; NULL after a move.
  [[nodiscard]] dpb_bandit *get() const noexcept { return handle_.get(); }

private:
  using Handle = detail::Handle<dpb_bandit, dpb_free>;
  using Constructor = dpb_status(const dpb_config *, dpb_bandit **, dpb_error *);
  Bandit(Constructor *constructor, const Config &config) : handle_(detail::construct<Handle>(constructor, &config)) {}

  Handle handle_;
};

} // namespace dpb

#endif // DPB_HPP
