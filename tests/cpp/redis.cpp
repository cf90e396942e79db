// Two nodes on a Redis or Valkey at ADDRESS, or on a cluster that has a server there: clicks on the ads of one arrive at the
// other, and its open decisions when it leaves. With CERTIFICATE over TLS. Exits with 0 if that is so.
#include <dpb_fleet.hpp>

#if __has_include(<hiredis/hiredis_ssl.h>)
#include <hiredis/hiredis_ssl.h>
#endif

static void eventually(const char *what, const std::function<bool()> &is) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(5);
  while (!is()) {
    if (std::chrono::steady_clock::now() > end) {
      throw std::runtime_error(std::string("never: ") + what);
    }
    std::this_thread::sleep_for(dpb::fleet::Milliseconds(5));
  }
}

static void run(const char *const *arguments) {
  const std::string address = arguments[1];
  dpb::fleet::Hiredis::Secure secure;
#if __has_include(<hiredis/hiredis_ssl.h>)
  if (const char *certificate = arguments[2]) {
    redisInitOpenSSL();
    redisSSLContextError error = REDIS_SSL_CTX_NONE;
    const std::shared_ptr<redisSSLContext> tls(
        redisCreateSSLContext(certificate, nullptr, nullptr, nullptr, nullptr, &error), redisFreeSSLContext);
    secure = [tls](redisContext *connection) { return redisInitiateSSLWithContext(connection, tls.get()); };
  }
#endif
  dpb::Config config(3, 1.0);
  config.reward_window = 1000;
  const std::array<std::uint8_t, 32> key = {1};
  config.fleet_key = key.data();
  const auto join = [&] {
    return std::make_unique<dpb::fleet::Node>(dpb::fleet::Hiredis(address, "", "", secure), "ads", config);
  };
  const auto one = join();
  auto two = join();
  eventually("they have met", [&] { return one->report().nodes == 2 && two->report().nodes == 2; });
  for (std::uint64_t clicks = 1; clicks <= 100; ++clicks) {
    one->update(two->bandit().select().ticket, 1.0);
  }
  eventually("clicks arrive", [&] { return two->diagnostics().received == 100; });
  const std::uint64_t open = two->bandit().select().ticket;
  if (!two->leave()) {
    throw std::runtime_error("it has not handed over");
  }
  two.reset();
  one->update(open, 1.0);
  eventually("its open decision is here", [&] { return one->diagnostics().received == 1; });
}

int main(int, char **arguments) {
  try {
    run(arguments);
  } catch (const std::exception &error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
