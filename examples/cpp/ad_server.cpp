// An ad server that learns which ad is clicked without giving away who clicked: dpb.hpp with
// cpp-httplib (apt-get install libcpp-httplib-dev). After `cargo build --release`:
//
//   c++ -std=c++17 -O2 examples/cpp/ad_server.cpp -I include -I bindings/cpp target/release/libdpb.a
//       $(pkg-config --cflags --libs cpp-httplib) -lgcc_s -lutil -lrt -lpthread -lm -ldl -lc -o ad_server
//   ./ad_server --port 8080
//
// GET /ad picks a creative, GET /click/<ticket> reports the click, GET /report shows what is
// released and nothing else, / is a small page. A real server would also check who asks.
#include <dpb.hpp>
#include <httplib.h>

#include <array>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <pthread.h>
#include <thread>

static constexpr std::array<const char *, 10> CREATIVES = {
    "mountain bike", "espresso machine", "rain jacket", "chess lessons", "garden hose",
    "night train",   "reading lamp",     "bread knife", "wool socks",    "folding kayak"};

static const char *const PAGE = R"html(<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Private ads</title>
<h1>Private ads</h1>
<p><button onclick="more()">Show me an ad</button> <a id="ad"></a></p>
<pre id="report"></pre>
<script>
const by = id => document.getElementById(id);
async function more() {
  const ad = await (await fetch("/ad")).json();
  by("ad").textContent = ad.creative; by("ad").href = ad.click_url;
}
async function refresh() {
  by("report").textContent = JSON.stringify(await (await fetch("/report")).json(), null, 2);
  setTimeout(refresh, 1000);
}
refresh();
</script></html>
)html";

// JSON has no NaN (nothing released yet) and no infinity (a baseline's privacy loss).
static std::string number(double x) {
  char text[32];
  std::snprintf(text, sizeof text, "%.17g", x);
  return std::isfinite(x) ? text : "null";
}

static std::string quoted(std::string_view text) { return "\"" + std::string(text) + "\""; } // ours need no escapes

static const char *truth(bool x) { return x ? "true" : "false"; }

static void reply(httplib::Response &response, int status, const std::string &json) {
  response.status = status;
  response.set_header("Cache-Control", "no-store"); // a cached ad would repeat its ticket
  response.set_content(json, "application/json");
}

static void refuse(httplib::Response &response, int status, const char *error, const char *message) {
  reply(response, status, "{\"error\":" + quoted(error) + ",\"message\":" + quoted(message) + "}");
}

static void show(dpb::Bandit &bandit, httplib::Response &response) {
  const dpb::Decision decision = bandit.select();
  char ticket[17];
  std::snprintf(ticket, sizeof ticket, "%016llx", static_cast<unsigned long long>(decision.ticket));
  reply(response, 200,
        "{\"arm\":" + std::to_string(decision.arm) + ",\"creative\":" + quoted(CREATIVES[decision.arm]) +
            ",\"click_url\":\"/click/" + ticket + "\",\"propensity\":" + number(decision.propensity) + "}");
}

static void click(dpb::Bandit &bandit, const std::string &ticket, httplib::Response &response) {
  const bool hexadecimal = ticket.find_first_not_of("0123456789abcdefABCDEF") == std::string::npos;
  if (ticket.size() != 16 || !hexadecimal) {
    return refuse(response, 400, "malformed_ticket", "a ticket is 16 hexadecimal digits");
  }
  switch (bandit.try_update(std::stoull(ticket, nullptr, 16), 1.0)) {
  case DPB_OK:
    return reply(response, 200, "{\"clicked\":true}");
  case DPB_UNKNOWN_TICKET:
    return refuse(response, 404, "unknown_ticket", "this ticket was never issued here");
  case DPB_DUPLICATE:
    return refuse(response, 409, "duplicate_click", "this click was reported already");
  case DPB_EXPIRED:
    return refuse(response, 410, "expired_ticket", "this ticket's time is over");
  default:
    return refuse(response, 500, "internal", "the click could not be taken");
  }
}

// Only what is released. diagnostics() is not: a duplicate click is a click.
static void report(const dpb::Bandit &bandit, httplib::Response &response) {
  const dpb::Report report = bandit.report();
  const std::vector<dpb::Arm> read = bandit.arms();
  std::string arms;
  for (std::size_t i = 0; i < read.size(); ++i) {
    arms += std::string(i > 0 ? "," : "") + "{\"creative\":" + quoted(CREATIVES[i]) +
            ",\"mean\":" + number(read[i].mean) + ",\"width\":" + number(read[i].width) +
            ",\"pulls\":" + std::to_string(read[i].pulls) + ",\"active\":" + truth(read[i].active) + "}";
  }
  reply(response, 200,
        "{\"policy\":" + quoted(bandit.policy_name()) + ",\"is_private\":" + truth(report.is_private) +
            ",\"epsilon_spent\":" + number(report.epsilon_spent) + ",\"delta_spent\":" + number(report.delta_spent) +
            ",\"phase\":" + std::to_string(report.phase) + ",\"decisions\":" + std::to_string(report.decisions) +
            ",\"arms\":[" + arms + "]}");
}

static int serve(int port) {
  // Blocked before any thread exists, so that only the thread below sees them.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);

  dpb::Config config(CREATIVES.size(), 1.0); // epsilon = 1
  config.horizon = 100'000;
  config.reward_bits = 0;      // a click or none
  config.answer_window = 1000; // an ad not clicked while 1000 later ones were shown: no click
  dpb::Bandit bandit(config);  // one for all threads

  httplib::Server server;
  server.Get("/", [](const auto &, auto &response) { response.set_content(PAGE, "text/html; charset=utf-8"); });
  server.Get("/ad", [&](const auto &, auto &response) { show(bandit, response); });
  server.Get("/click/(.*)", [&](const auto &request, auto &response) { click(bandit, request.matches[1], response); });
  server.Get("/report", [&](const auto &, auto &response) { report(bandit, response); });
  // The library would answer HEAD as GET, and play an ad that nobody sees.
  server.set_pre_routing_handler([](const auto &request, auto &response) {
    if (request.method != "HEAD") {
      return httplib::Server::HandlerResponse::Unhandled;
    }
    response.status = 405;
    return httplib::Server::HandlerResponse::Handled;
  });
  server.set_error_handler([](const auto &request, auto &response) {
    if (request.method != "GET") {
      response.set_header("Allow", "GET");
      refuse(response, 405, "method_not_allowed", "only GET is served");
    } else if (response.body.empty()) {
      refuse(response, response.status, "no_such_page", "try /, /ad, /report");
    }
  });
  server.set_exception_handler([](const auto &, auto &response, std::exception_ptr) {
    refuse(response, 500, "internal", "the request failed");
  });

  if (port == 0) {
    port = server.bind_to_any_port("127.0.0.1");
  } else if (!server.bind_to_port("127.0.0.1", port)) {
    port = -1;
  }
  if (port < 0) {
    std::fprintf(stderr, "cannot listen on 127.0.0.1\n");
    return 1;
  }
  std::printf("listening on http://127.0.0.1:%d\n", port);
  std::fflush(stdout);
  std::thread([&] {
    int received = 0;
    sigwait(&signals, &received);
    while (!server.is_running()) {
      std::this_thread::yield(); // stop() before that does nothing
    }
    server.stop();
  }).detach();
  server.listen_after_bind();
  std::printf("stopped\n");
  return 0;
}

int main(int argc, char **argv) {
  const std::string option = argc == 3 ? argv[1] : "";
  if (argc != 1 && option != "--port") {
    std::fprintf(stderr, "usage: ad_server [--port N]   (default 0: any free one)\n");
    return 2;
  }
  try {
    return serve(argc == 3 ? std::stoi(argv[2]) : 0);
  } catch (const std::exception &error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
