/*
 * Pages of metrics for Prometheus, over dpb.hpp: of any number of bandits, for the public or for operators.
 *
 *     std::string page = dpb::metrics({{"front page", &bandit}});
 *
 * docs/operating/monitoring.md lists the metrics.
 */
#ifndef DPB_METRICS_HPP
#define DPB_METRICS_HPP

#include <dpb.hpp>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace dpb {

/// Bandits and their names on a page of metrics. Names are in UTF-8, and no two are the same.
using NamedBandits = std::vector<std::pair<std::string, const Bandit *>>;

namespace detail {

/// A label's value.
[[nodiscard]] inline std::string escaped(const std::string &text) {
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

/// A number with a decimal point, whatever the program's locale is.
[[nodiscard]] inline std::string number(double x) {
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
template <class Integer, std::enable_if_t<std::is_integral_v<Integer>, int> = 0>
[[nodiscard]] std::string number(Integer x) {
  return std::to_string(x);
}

/// A page of metrics: each family once, with all of its lines together, as the format requires.
class Metrics {
public:
  explicit Metrics(const NamedBandits &bandits) {
    for (const auto &[name, bandit] : bandits) {
      Measured m;
      m.label = "bandit=\"" + escaped(name) + '"';
      const auto read = [handle = bandit->get()](auto... room) { return dpb_arms_read(handle, room...); };
      const dpb_status status = fill(m.arms, read);
      m.up = status == DPB_OK && bandit->try_report(m.report) == DPB_OK &&
             bandit->try_diagnostics(m.diagnostics) == DPB_OK;
      m.policy = bandit->policy_name();
      m.is_test = m.up && bandit->try_verdict(m.verdict) == DPB_OK;
      m.has_lift = m.up && m.arms.size() <= most_arms && bandit->try_lift(no_arm, 0.95, m.lift) == DPB_OK;
      m.read_weights(*bandit);
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
    // begin generated report
    of_report("phase", "gauge", "The policy's epoch, phase or interval.", &Report::phase);
    of_report("arms_active", "gauge", "Arms that are neither eliminated nor retired.", &Report::arms_active);
    of_report("pending", "gauge", "Decisions that are open.", &Report::pending);
    of_report("decisions_total", "counter", "Decisions made.", &Report::decisions);
    of_report("answered_total", "counter", "Decisions whose reward took effect or whose reward window is over.", &Report::answered);
    of_report("cancelled_total", "counter", "Decisions that were cancelled.", &Report::cancelled);
    of_report("expired_total", "counter", "Decisions that a full pending table or a restart dropped.", &Report::expired);
    of_report("epsilon_spent", "gauge", "Upper bound of the privacy loss so far, at dpb_delta_spent.", &Report::epsilon_spent);
    of_report("delta_spent", "gauge", "Delta at which dpb_epsilon_spent holds; 0 if the policy is pure.", &Report::delta_spent);
    of_report("private", "gauge", "1, or 0 for baselines and under a test seed.", &Report::is_private);
    of_report("changes_total", "counter", "Releases that contradicted the arm's earlier releases.", &Report::changes_detected);
    of_report("segments", "gauge", "Segments in use; 0 for a handle without segments.", &Report::segments);
    of_report("failures_total", "counter", "Updates of a model that failed, so that the last model stayed.", &Report::failures);
    of_report("contributions_total", "counter", "Contributions of other handles that were added.", &Report::contributions);
    of_report("contributions_lost_total", "counter", "Contributions that were missed, or not used in full.", &Report::contributions_lost);
    of_report("duty", "gauge", "0: releases its own batches; 1: contributes and releases nothing; 2: leads.", &Report::duty);
    of_report("clock_leaps_total", "counter", "Leaps of the caller's clock.", &Report::clock_leaps);
    of_report("stopped", "gauge", "1 if the policy has decided for an arm, or 0.", &Report::stopped);
    of_report("clip", "gauge", "The learned clip of rewards; 0 before it is known.", &Report::clip);
    of_report("epsilon_limit", "gauge", "The most that dpb_epsilon_spent can become; +Inf if nothing limits it.", &Report::epsilon_limit);
    of_report("epsilon_left", "gauge", "dpb_epsilon_limit minus dpb_epsilon_spent; 0 for baselines.", &Report::epsilon_left);
    // end generated report
    of_warnings("warning", "1 for a sign that the handle cannot learn, or 0.", &Measured::report,
                {{"clock_stopped", DPB_WARN_CLOCK_STOPPED},
                 {"expiring", DPB_WARN_EXPIRING},
                 {"unlearned", DPB_WARN_UNLEARNED},
                 {"unmerged", DPB_WARN_UNMERGED},
                 {"unreleased", DPB_WARN_UNRELEASED}});
    // begin generated arms
    of_arms("mean", "Released mean reward; NaN before the first release.", &Arm::mean);
    of_arms("width", "Half-width of the mean's confidence interval.", &Arm::width);
    of_arms("pulls", "Decisions that were not cancelled and did not expire.", &Arm::pulls);
    of_arms("active", "1, or 0 if the arm is eliminated or retired.", &Arm::active);
    of_arms("effective_pulls", "Rewards in the released mean, discounted with forget_after.", &Arm::effective_pulls);
    // end generated arms
    // begin generated verdicts
    of_verdicts("verdict_state", "0: the test goes on; 1: won; 2: good enough; 3: ended without a claim.", &Verdict::state);
    of_verdicts("verdict_leader", "Arm that the test has decided for, or that leads.", &Verdict::leader);
    of_verdicts("verdict_rewards", "Rewards in the releases since the test began.", &Verdict::rewards);
    of_verdicts("verdict_low", "Lower end of an interval for the leader's mean minus another arm's; NaN before releases.", &Verdict::low);
    of_verdicts("verdict_high", "Upper end of that interval.", &Verdict::high);
    of_verdicts("verdict_mismatch", "1 if arms do not get their shares, so that the test says nothing, or 0.", &Verdict::mismatch);
    // end generated verdicts
    of_lift("lift_low", "Lower end of a 95% interval for what decisions gain over even play: 0.1 is 10% more.", &Interval::low);
    of_lift("lift_high", "Upper end of that interval.", &Interval::high);
    of_weights("feature_weight", "Change of the logit of the mean reward for one unit of the feature.", &Weight::mean);
    of_weights("feature_weight_deviation", "Standard deviation of that weight.", &Weight::deviation);
    if (operators) {
      // begin generated diagnostics
      of_refusals("duplicates_total", "Updates and cancellations of a ticket that had one already. NOT private.", &Diagnostics::duplicates);
      of_refusals("late_total", "Updates and cancellations of an expired ticket. NOT private.", &Diagnostics::late);
      of_refusals("rejected_total", "Rewards that were refused. NOT private.", &Diagnostics::rejected);
      of_refusals("unknown_total", "Tickets that the handle never issued. NOT private.", &Diagnostics::unknown);
      of_refusals("oversized_total", "Decisions whose row of features was scaled down, because it was far larger than the first ones.", &Diagnostics::oversized);
      // end generated diagnostics
      of_warnings("reward_warning", "1 for a sign, in rewards, that the handle cannot learn, or 0. NOT private.",
                  &Measured::diagnostics, {{"all_smallest", DPB_WARN_ALL_SMALLEST}, {"all_largest", DPB_WARN_ALL_LARGEST}});
    }
    return std::move(page_);
  }

private:
  static constexpr std::size_t most_arms = 100;     // a lift takes a millisecond for each
  static constexpr std::size_t most_weights = 1000; // lines of each metric

  struct Weight {
    std::string labels;
    double mean, deviation;
  };
  struct Measured {
    /// Those of the model that all arms share, with an empty arm, or of each arm that is not retired.
    void read_weights(const Bandit &bandit) {
      const bool is_shared = report.feature_model == DPB_MODEL_SHARED;
      const std::size_t weights = report.features + std::size_t{1};
      if (!up || report.features == 0 || weights * (is_shared ? 1 : arms.size()) > most_weights) {
        return;
      }
      std::vector<double> mean(weights), deviation(weights);
      for (std::uint32_t arm = 0; arm < arms.size(); ++arm) {
        std::size_t n = 0;
        if (bandit.try_feature_weights(arm, mean.data(), deviation.data(), weights, n) != DPB_OK) {
          continue;
        }
        for (std::size_t i = 0; i < n; ++i) {
          const std::string feature = i + 1 == n ? "intercept" : std::to_string(i);
          const std::string of = is_shared ? "" : std::to_string(arm);
          features.push_back({",arm=\"" + of + "\",feature=\"" + feature + '"', mean[i], deviation[i]});
        }
        if (is_shared) {
          return;
        }
      }
    }

    std::string label;
    bool up = false;
    std::string policy;
    Report report = {};
    std::vector<Arm> arms;
    Diagnostics diagnostics = {};
    bool is_test = false;
    Verdict verdict = {};
    bool has_lift = false;
    Interval lift = {};
    std::vector<Weight> features;
  };

  void head(const char *name, const char *kind, const char *help) {
    page_ += std::string("# HELP dpb_") + name + ' ' + help + "\n# TYPE dpb_" + name + ' ' + kind + '\n';
  }
  void line(const char *name, const std::string &labels, const std::string &value) {
    page_ += std::string("dpb_") + name + '{' + labels + "} " + value + '\n';
  }
  /// Writes one line for each bandit that is up.
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
  /// Writes one line for each bandit of which this is true, and a head if there is any.
  template <class Part, class Value, class Struct>
  void of_some(const char *name, const char *help, bool Measured::*is, Part Measured::*part, Value Struct::*field) {
    bool has_head = false;
    for (const Measured &m : all_) {
      if (m.*is) {
        if (!std::exchange(has_head, true)) {
          head(name, "gauge", help);
        }
        line(name, m.label, number(m.*part.*field));
      }
    }
  }
  /// Writes one line for each test of arms.
  template <class Value, class Struct> void of_verdicts(const char *name, const char *help, Value Struct::*field) {
    of_some(name, help, &Measured::is_test, &Measured::verdict, field);
  }
  void of_lift(const char *name, const char *help, double Interval::*end) {
    of_some(name, help, &Measured::has_lift, &Measured::lift, end);
  }
  void of_weights(const char *name, const char *help, double Weight::*value) {
    bool has_head = false;
    for (const Measured &m : all_) {
      for (const Weight &weight : m.features) {
        if (!std::exchange(has_head, true)) {
          head(name, "gauge", help);
        }
        line(name, m.label + weight.labels, number(weight.*value));
      }
    }
  }
  template <class Value, class Struct> void of_refusals(const char *name, const char *help, Value Struct::*field) {
    family(name, "counter", help, &Measured::diagnostics, field);
  }

  /// Writes one line for each warning of each bandit that is up.
  template <class Part>
  void of_warnings(const char *name, const char *help, Part Measured::*part,
                   std::initializer_list<std::pair<const char *, std::uint32_t>> warnings) {
    head(name, "gauge", help);
    for (const Measured &m : all_) {
      for (const auto &[warning, bit] : warnings) {
        if (m.up) {
          line(name, m.label + ",warning=\"" + warning + '"', ((m.*part).warnings & bit) != 0 ? "1" : "0");
        }
      }
    }
  }

  std::vector<Measured> all_;
  std::string page_;
};

} // namespace detail

/// The public metrics of these bandits in Prometheus' text format, each with its name as the label "bandit". For a
/// segmented bandit, the arms are those of all segments together. All values are released or public, so you may show the
/// page to anyone. A bandit that is poisoned or moved from has only dpb_up, with value 0. Throws only std::bad_alloc.
[[nodiscard]] inline std::string metrics(const NamedBandits &bandits) {
  return detail::Metrics(bandits).page(false);
}

/// The metrics of metrics() and the counts of refused calls (Diagnostics), which are NOT private: a duplicate reveals a
/// click. Show the page to operators only.
[[nodiscard]] inline std::string operator_metrics(const NamedBandits &bandits) {
  return detail::Metrics(bandits).page(true);
}

} // namespace dpb

#endif // DPB_METRICS_HPP
