// The same program as examples/fleet, in C++: ADDRESSES KEY-FILE [AUTHORITIES [CERTIFICATE]]. With these
// files it uses TLS; that of its certificate has the key too.
#include <dpb_fleet.hpp>

#include <iostream>

static void run(const std::vector<std::string> &arguments) {
  dpb::fleet::Hiredis::Secure secure;
#if __has_include(<hiredis/hiredis_ssl.h>)
  if (arguments.size() > 2) {
    const std::string own = arguments.size() > 3 ? arguments[3] : "";
    secure = dpb::fleet::Hiredis::tls(arguments[2], own, own, "redis");
  }
#endif
  const dpb::fleet::Key key = dpb::fleet::read_key(arguments[1]);
  dpb::Config config(10, 1.0);
  config.reward_bits = 0;
  config.reward_window = 1000;
  config.forget_after = 50'000;
  config.fleet_key = key.data();
  const auto given = [](const char *name) { return std::getenv(name) != nullptr ? std::getenv(name) : ""; };
  const dpb::fleet::Hiredis store(arguments[0], given("REDIS_PASSWORD"), given("REDIS_USER"), secure);
  const auto number = [](auto count) { return static_cast<unsigned long long>(count); };
  dpb::fleet::Node node(store, "ads", config);
  std::cout << "joined" << std::endl;
  for (std::string word; std::cin >> word;) {
    char line[200];
    std::uint64_t ticket = 0;
    if (word == "ad") {
      const dpb::Decision ad = node.bandit().select();
      std::snprintf(line, sizeof line, "ad %u ticket %016llx", ad.arm, static_cast<unsigned long long>(ad.ticket));
    } else if (word == "click" && std::cin >> std::hex >> ticket) {
      node.update(ticket, 1.0);
      std::snprintf(line, sizeof line, "thanks");
    } else {
      const dpb::NodeReport report = node.report();
      const dpb::NodeDiagnostics clicks = node.diagnostics();
      std::snprintf(line, sizeof line, "node %u of %u leader %u incompatible %u outages %llu received %llu refused %llu failures %llu",
                    report.number, report.nodes, report.leader, report.incompatible, number(report.outages),
                    number(clicks.received), number(clicks.refused), number(clicks.failures));
    }
    std::cout << line << std::endl;
  }
}

int main(int count, char **arguments) {
  try {
    run({arguments + 1, arguments + count});
  } catch (const std::exception &error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
