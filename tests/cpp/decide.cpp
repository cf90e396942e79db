// Decides what tests/data/decide.json says, line by line: salt, context, unit, arm, id and weights.
#include "../c/check.h"
#include <cinttypes>
#include <dpb.hpp>
#include <dpb_table.hpp>
#include <fstream>
#include <sstream>

int main(int, char **arguments) {
  std::ifstream lines(arguments[1], std::ios::binary);
  std::string line;
  int decided = 0;
  while (std::getline(lines, line)) {
    std::vector<std::string> parts;
    for (std::size_t from = 0, to = 0; to != std::string::npos; from = to + 1) {
      to = line.find('\t', from);
      parts.push_back(line.substr(from, to - from));
    }
    std::vector<std::uint64_t> weights;
    std::istringstream numbers(parts[5]);
    for (std::string number; std::getline(numbers, number, ',');) {
      weights.push_back(std::stoull(number));
    }
    const dpb::Elsewhere made = dpb::decide(weights, parts[0], parts[1], parts[2]);
    dpb_elsewhere in_c;
    STATUS(dpb_decide(weights.data(), weights.size(), parts[0].c_str(), parts[1].c_str(), parts[2].c_str(), &in_c, nullptr),
           DPB_OK);
    CHECK(made.arm == std::stoul(parts[3]) && made.id == std::stoull(parts[4], nullptr, 16));
    CHECK(in_c.arm == made.arm && in_c.id == made.id && in_c.propensity == made.propensity);
    CHECK(made.propensity == static_cast<double>(weights[made.arm]) / 4294967296.0);
    ++decided;
  }
  CHECK(decided == 200);

  const std::vector<std::uint64_t> all = {1ull << 32};
  dpb::Elsewhere out;
  dpb_error error;
  CHECK(dpb::try_decide({1, 2}, "salt", "", "unit", out) == DPB_INVALID_CONFIG);
  CHECK(dpb::try_decide(all, "salt", "", "", out, &error) == DPB_INVALID_REQUEST && error.status == DPB_INVALID_REQUEST);
  CHECK(dpb::try_decide(all, "salt", "a\nb", "unit", out) == DPB_INVALID_REQUEST);
  CHECK(dpb::try_decide(all, "salt", "", std::string("a\0b", 3), out, &error) == DPB_INVALID_REQUEST);
  CHECK(strstr(error.message, "NUL") != nullptr);
  dpb_elsewhere in_c;
  STATUS(dpb_decide(all.data(), 1, "salt", nullptr, "unit", &in_c, &error), DPB_OK);
  STATUS(dpb_decide(nullptr, 0, "salt", "", "unit", &in_c, &error), DPB_INVALID_CONFIG);

  // Recorded decisions.
  dpb::Config config(4, 1.0);
  config.table_capacity = 2;
  dpb::Bandit bandit = dpb::Bandit::med(config);
  const std::vector<std::uint64_t> weights = bandit.weights(dpb::Request().among({2}));
  CHECK(weights == std::vector<std::uint64_t>({0, 0, 1ull << 32, 0}) && bandit.weights().size() == 4);
  const std::uint64_t version = bandit.table_begin(0);
  const dpb::Decision first = bandit.record(version, 7, dpb::Request().among({2}));
  CHECK(std::isnan(first.propensity) && first.arm == 2);
  CHECK(bandit.record(version, 7, dpb::Request().among({1})).ticket == first.ticket);
  CHECK(bandit.find(version, 7).ticket == first.ticket);
  bandit.update(first.ticket, 1.0);
  dpb::Decision none;
  CHECK(bandit.try_record(version, 7, dpb::Request().among({2}), none) == DPB_DUPLICATE);
  CHECK(bandit.try_find(version, 8, none) == DPB_UNKNOWN_TICKET);
  CHECK(bandit.try_find(version + 1, 8, none) == DPB_EXPIRED);
  CHECK(bandit.try_record(version, 8, dpb::Request(), none) == DPB_INVALID_REQUEST);
  bandit.record(version, 8, dpb::Request().among({0}));
  CHECK(bandit.try_record(version, 9, dpb::Request().among({0}), none) == DPB_FULL);
  std::size_t n = 0;
  CHECK(dpb::Bandit(dpb::Config(2, 1.0)).try_weights({}, nullptr, 0, n, &error) == DPB_UNSUPPORTED);
  CHECK(strstr(error.message, "dp-med") != nullptr);
  std::uint64_t begun = 0;
  CHECK(dpb::Bandit(dpb::Config(2, 1.0)).try_table_begin(0, begun) == DPB_UNSUPPORTED);

  // A published table.
  const std::vector<std::uint32_t> one = {1};
  dpb::Config two(2, 1.0);
  two.table_capacity = 2;
  dpb::Bandit publisher = dpb::Bandit::med(two);
  dpb::Publication flag{"a \"flag\"", {"caf\xc3\xa9", "\\\t"}, {{"phone", dpb::Request().among(one)}}, 1764347400000, 0};
  const std::string table = dpb::publish(publisher, flag);
  const std::string before = "{\"dpb_table\": 1, \"name\": \"a \\\"flag\\\"\", \"version\": \"";
  const std::string after = "\", \"until\": 1764347400000, \"arms\": [\"caf\xc3\xa9\", \"\\\\\\u0009\"], \"contexts\": "
                            "{\"\": [2147483648, 2147483648], \"phone\": [0, 4294967296]}, \"policy\": \"dp-med\", "
                            "\"is_private\": true}";
  const std::size_t salt = before.size() + 16 + strlen("\", \"salt\": \"");
  CHECK(table.substr(0, before.size()) == before && table.substr(salt + 32) == after);
  const dpb::Elsewhere made = dpb::decide({0, 1ull << 32}, table.substr(salt, 32), "phone", "ana");
  const std::uint64_t published = std::stoull(table.substr(before.size(), 16), nullptr, 16);
  CHECK(publisher.record(published, made.id, dpb::Request().among(one)).arm == 1);
  flag.until = 0;
  flag.arms.clear();
  const std::string next = dpb::publish(publisher, flag);
  CHECK(next.find("\", \"arms\": [\"0\", \"1\"]") == salt + 32 && next.substr(salt, 32) != table.substr(salt, 32));
  for (const dpb::Publication &wrong : {dpb::Publication{"x", {"one"}, {}, 0, 0}, dpb::Publication{"x", {}, {{"a\nb", {}}}, 0, 0}}) {
    try {
      (void)dpb::publish(publisher, wrong);
      CHECK(false);
    } catch (const dpb::Error &refusal) {
      CHECK(refusal.status() == DPB_INVALID_CONFIG);
    }
  }
  CHECK(publisher.table_begin(0) == published + 2); // a refusal begins no version
  return failures > 0;
}
