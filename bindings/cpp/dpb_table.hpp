/*
 * Published tables, over dpb.hpp: programs elsewhere decide by one, in any language.
 *
 *     dpb::Publication button{"button", {"blue", "red"}, {}, until, grace};
 *     std::string json = dpb::publish(bandit, button);
 *
 * docs/tables.md says what programs do with it.
 */
#ifndef DPB_TABLE_HPP
#define DPB_TABLE_HPP

#include <dpb.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace dpb {

/// What a table is published for.
struct Publication {
  std::string name;
  /// The name of each arm; empty: their numbers.
  std::vector<std::string> arms;
  /// What to decide for in each context. "", the default, says nothing if it is not here.
  std::map<std::string, Request> contexts;
  /// The planned end of the version, in milliseconds since 1970, a hint for caches; 0: none is published.
  std::int64_t until;
  /// For how many ticks more the version before it may be recorded.
  std::uint64_t grace;
};

namespace detail {

/// Text as JSON.
[[nodiscard]] inline std::string quoted(const std::string &text) {
  std::string all = "\"";
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < ' ') {
      char escape[7];
      std::snprintf(escape, sizeof escape, "\\u00%02x", static_cast<unsigned char>(c));
      all += escape;
    } else {
      all += c == '"' || c == '\\' ? std::string{'\\', c} : std::string{c};
    }
  }
  return all + '"';
}

[[nodiscard]] inline std::string joined(const std::vector<std::string> &texts) {
  std::string all;
  for (const std::string &text : texts) {
    all += (all.empty() ? "" : ", ") + text;
  }
  return all;
}

[[nodiscard]] inline std::string digits(std::uint64_t number) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(number));
  return text;
}

} // namespace detail

/// Begins a version of a bandit's table (dpb_table_begin), and returns the table as JSON. Publish one every few minutes: a
/// visitor keeps an arm so long. Throws for another number of names than arms, for a context with a newline, and as
/// Bandit::weights and Bandit::table_begin; then no version has begun.
[[nodiscard]] inline std::string publish(Bandit &bandit, const Publication &publication) {
  std::map<std::string, Request> contexts = publication.contexts;
  contexts.insert({"", Request()});
  std::size_t arms = 0;
  std::vector<std::string> names, all;
  for (const auto &[context, request] : contexts) {
    if (context.find('\n') != std::string::npos) {
      throw Error(DPB_INVALID_CONFIG, "a context must have no newline");
    }
    std::vector<std::string> weights;
    for (const std::uint64_t weight : bandit.weights(request)) {
      weights.push_back(std::to_string(weight));
    }
    arms = weights.size();
    all.push_back(detail::quoted(context) + ": [" + detail::joined(weights) + "]");
  }
  for (std::size_t arm = 0; publication.arms.empty() && arm < arms; ++arm) {
    names.push_back(detail::quoted(std::to_string(arm)));
  }
  for (const std::string &name : publication.arms) {
    names.push_back(detail::quoted(name));
  }
  if (names.size() != arms) {
    throw Error(DPB_INVALID_CONFIG,
                "arms must have " + std::to_string(arms) + " names, got " + std::to_string(names.size()));
  }
  std::random_device random;
  std::string salt;
  for (int half = 0; half < 2; ++half) {
    salt += detail::digits(std::uint64_t{random()} << 32 | random());
  }
  std::string rest = "\"salt\": \"" + salt + "\", ";
  if (publication.until != 0) {
    rest += "\"until\": " + std::to_string(publication.until) + ", ";
  }
  rest += "\"arms\": [" + detail::joined(names) + "], \"contexts\": {" + detail::joined(all) + "}, \"policy\": \"";
  rest += std::string(bandit.policy_name()) + "\", \"is_private\": " + (bandit.report().is_private ? "true}" : "false}");
  return "{\"dpb_table\": 1, \"name\": " + detail::quoted(publication.name) + ", \"version\": \"" +
         detail::digits(bandit.table_begin(publication.grace)) + "\", " + rest;
}

} // namespace dpb

#endif
