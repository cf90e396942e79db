// An ad server that learns which ad is clicked without giving away who clicked: dpb.hpp with
// Boost.Beast (apt-get install libboost-dev). After `cargo build --release`:
//
//   c++ -std=c++20 -O2 examples/cpp/ad_server.cpp -I include -I bindings/cpp target/release/libdpb.a
//       -lgcc_s -lutil -lrt -lpthread -lm -ldl -lc -o ad_server
//   ./ad_server --port 8080
//
// GET /ad picks a creative, GET /click/<ticket> reports the click, GET /report shows what is
// released and nothing else, / is a live page. A real server would also check who asks.
//
// What became of a click is for the operator alone: whoever reports one, in time, twice, late or
// made up, gets the same empty answer. With --operator-port the operator, and nobody from another
// machine, reads the counts of refused clicks at GET /diagnostics.
//
// With --snapshot FILE what was learned survives the server, and kill -9: see save.
//
// A day of visitors, with a change at noon: cargo run --release --example ad_server -- --visit
// http://127.0.0.1:8080
#include <dpb.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include <unistd.h>

#include <boost/asio.hpp> // after <utility>, which Boost 1.74 forgets
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::ip::tcp;
using namespace std::chrono_literals;
using namespace std::string_view_literals;

static constexpr std::array<const char *, 10> CREATIVES = {
    "mountain bike", "espresso machine", "rain jacket", "chess lessons", "garden hose",
    "night train",   "reading lamp",     "bread knife", "wool socks",    "folding kayak"};

// Half the time between changes, as is the rule: the best ad of the day changes after 100'000 visitors.
static constexpr std::uint64_t MEMORY = 50'000;

// How long a visitor may take to send a request, or to begin the next one, and to take an answer.
static constexpr auto PATIENCE = 10s;
// Connections at a time; more wait until some are closed.
static constexpr int MAX_CONNECTIONS = 2000;
// Bytes of a request. None has a body.
static constexpr std::size_t MAX_REQUEST = 16 << 10;

// The page of all three servers, seen from where the compiler is started. It is where Go can embed it: nowhere
// above its source.
asm(R"(.pushsection .rodata
page: .incbin "examples/go/adserver/page.html"
page_end: .popsection)");
extern const char PAGE[] asm("page");
extern const char PAGE_END[] asm("page_end");

// The pages.

struct Shop {
  dpb::Bandit bandit;
  std::uint64_t memory; // the bandit's
};

using Page = http::response<http::string_body>;
using Routes = Page (*)(Shop &, std::string_view path);

// JSON has no NaN (nothing released yet) and no infinity (a baseline's privacy loss).
static std::string number(double x) {
  char text[32];
  std::snprintf(text, sizeof text, "%.17g", x);
  return std::isfinite(x) ? text : "null";
}

static std::string quoted(std::string_view text) { return "\"" + std::string(text) + "\""; } // ours need no escapes

static const char *truth(bool x) { return x ? "true" : "false"; }

static Page page(http::status status, const char *content_type, std::string body) {
  Page page(status, 11);
  page.set(http::field::content_type, content_type);
  page.body() = std::move(body);
  return page;
}

static Page success(std::string json) { return page(http::status::ok, "application/json", std::move(json)); }

static Page failure(http::status status, const char *error, const char *message) {
  return page(status, "application/json", "{\"error\":" + quoted(error) + ",\"message\":" + quoted(message) + "}");
}

static Page show(dpb::Bandit &bandit) {
  const dpb::Decision decision = bandit.select();
  char ticket[17];
  std::snprintf(ticket, sizeof ticket, "%016llx", static_cast<unsigned long long>(decision.ticket));
  return success("{\"arm\":" + std::to_string(decision.arm) + ",\"creative\":" + quoted(CREATIVES[decision.arm]) +
                 ",\"click_url\":\"/click/" + ticket + "\",\"propensity\":" + number(decision.propensity) + "}");
}

// A whole text that is one number and nothing else: no sign, no space.
template <class Number> static std::optional<Number> parse(std::string_view text, int base) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

// Always the same answer: whether a ticket was clicked already is nobody's business.
static Page click(dpb::Bandit &bandit, std::string_view text) {
  if (const auto ticket = parse<std::uint64_t>(text, 16); ticket && text.size() == 16) {
    (void)bandit.try_update(*ticket, 1.0); // refused, it is in the operator's counts
  }
  return Page(http::status::no_content, 11);
}

// Only what is released.
static Page report(const Shop &shop) {
  const dpb::Report report = shop.bandit.report();
  const std::vector<dpb::Arm> read = shop.bandit.arms();
  std::string arms;
  for (std::size_t i = 0; i < read.size(); ++i) {
    arms += std::string(i > 0 ? "," : "") + "{\"creative\":" + quoted(CREATIVES[i]) +
            ",\"mean\":" + number(read[i].mean) + ",\"width\":" + number(read[i].width) +
            ",\"effective_pulls\":" + number(read[i].effective_pulls) + ",\"pulls\":" + std::to_string(read[i].pulls) + ",\"active\":" + truth(read[i].active) + "}";
  }
  return success("{\"policy\":" + quoted(shop.bandit.policy_name()) + ",\"is_private\":" + truth(report.is_private) +
                 ",\"epsilon_spent\":" + number(report.epsilon_spent) +
                 ",\"delta_spent\":" + number(report.delta_spent) + ",\"memory\":" + std::to_string(shop.memory) +
                 ",\"changes_detected\":" + std::to_string(report.changes_detected) + ",\"phase\":" + std::to_string(report.phase) +
                 ",\"decisions\":" + std::to_string(report.decisions) +
                 ",\"pending\":" + std::to_string(report.pending) + ",\"arms\":[" + arms + "]}");
}

static Page metrics(std::string text) {
  return page(http::status::ok, "text/plain; version=0.0.4; charset=utf-8", std::move(text));
}

static Page visitors(Shop &shop, std::string_view path) {
  constexpr std::string_view CLICK = "/click/";
  if (path == "/") {
    return page(http::status::ok, "text/html; charset=utf-8", std::string(PAGE, PAGE_END));
  }
  if (path == "/ad") {
    return show(shop.bandit);
  }
  if (path == "/report") {
    return report(shop);
  }
  if (path == "/metrics") {
    return metrics(dpb::metrics({{"ads", &shop.bandit}}));
  }
  if (path.substr(0, CLICK.size()) == CLICK) {
    return click(shop.bandit, path.substr(CLICK.size()));
  }
  return failure(http::status::not_found, "no_such_page", "try /, /ad, /report");
}

// NOT private: a repeated click is a click.
static Page operators(Shop &shop, std::string_view path) {
  if (path == "/metrics") {
    return metrics(dpb::operator_metrics({{"ads", &shop.bandit}}));
  }
  if (path != "/diagnostics") {
    return failure(http::status::not_found, "no_such_page", "try /diagnostics");
  }
  const dpb::Diagnostics counts = shop.bandit.diagnostics();
  return success("{\"duplicates\":" + std::to_string(counts.duplicates) + ",\"late\":" + std::to_string(counts.late) +
                 ",\"rejected\":" + std::to_string(counts.rejected) +
                 ",\"unknown\":" + std::to_string(counts.unknown) + "}");
}

static Page answer(Shop &shop, Routes routes, http::verb method, std::string_view path, bool has_body) try {
  if (method != http::verb::get) {
    Page page = failure(http::status::method_not_allowed, "method_not_allowed", "only GET is served");
    page.set(http::field::allow, "GET");
    return page;
  }
  if (has_body) {
    return failure(http::status::payload_too_large, "body_refused", "no request has a body here");
  }
  return routes(shop, path.substr(0, path.find('?')));
} catch (const dpb::Error &) {
  return failure(http::status::internal_server_error, "internal", "the request failed");
}

// The server: one coroutine for each connection, on a few threads.

// Answers one request after the other. Every failure, the visitor's or the network's, ends it by an
// exception that nobody catches. `place` is held until then.
static asio::awaitable<void> converse(tcp::socket socket, Shop &shop, Routes routes,
                                      [[maybe_unused]] std::shared_ptr<void> place) {
  beast::tcp_stream stream(std::move(socket));
  beast::flat_buffer buffer(MAX_REQUEST);
  for (bool another = true; another;) {
    http::request_parser<http::empty_body> parser;
    parser.header_limit(MAX_REQUEST);
    parser.body_limit(std::numeric_limits<std::uint64_t>::max()); // it is not read, whatever its length
    stream.expires_after(PATIENCE);
    co_await http::async_read_header(stream, buffer, parser, asio::use_awaitable);

    const auto &request = parser.get();
    const bool has_body = !parser.is_done();
    Page page = answer(shop, routes, request.method(), {request.target().data(), request.target().size()}, has_body);
    page.set(http::field::cache_control, "no-store"); // a cached ad would repeat its ticket
    page.keep_alive(request.keep_alive() && !has_body);
    page.prepare_payload();
    another = page.keep_alive();
    stream.expires_after(PATIENCE);
    if (request.method() == http::verb::head) { // told of a body that does not come
      http::response_serializer<http::string_body> head(page);
      co_await http::async_write_header(stream, head, asio::use_awaitable);
    } else {
      co_await http::async_write(stream, page, asio::use_awaitable);
    }
  }
  beast::error_code error;
  stream.socket().shutdown(tcp::socket::shutdown_send, error);
}

// Takes connections and hands them to the pool.
static asio::awaitable<void> serve(tcp::acceptor acceptor, asio::thread_pool &pool, Shop &shop,
                                   Routes routes) {
  const auto place = std::make_shared<char>(); // each connection has a copy
  asio::steady_timer pause(acceptor.get_executor());
  for (;;) {
    beast::error_code error = asio::error::no_descriptors;
    if (place.use_count() <= MAX_CONNECTIONS) {
      const auto strand = asio::make_strand(pool);
      tcp::socket socket = co_await acceptor.async_accept(strand, asio::redirect_error(asio::use_awaitable, error));
      if (!error) {
        asio::co_spawn(strand, converse(std::move(socket), shop, routes, place), asio::detached);
      }
    }
    if (error) { // most likely too many connections for us or for the system: until some are closed
      pause.expires_after(50ms);
      co_await pause.async_wait(asio::use_awaitable);
    }
  }
}

// The snapshots.

// Whatever happens, and whenever, the file holds the whole of this snapshot or of the one before.
static void save(const dpb::Bandit &bandit, const std::filesystem::path &file) {
  const auto done = [&](bool well) {
    if (!well) {
      throw std::system_error(errno, std::generic_category(), file.string());
    }
  };
  const std::vector<std::uint8_t> bytes = bandit.snapshot();
  const std::filesystem::path place = std::filesystem::absolute(file).parent_path(); // to be synced as well
  const std::string beside = file.string() + ".new"; // a rename does not cross file systems
  const std::unique_ptr<std::FILE, int (*)(std::FILE *)> open(std::fopen(beside.c_str(), "wb"), std::fclose);
  done(open && std::fwrite(bytes.data(), 1, bytes.size(), open.get()) == bytes.size());
  done(std::fflush(open.get()) == 0 && ::fsync(::fileno(open.get())) == 0); // before the name points there
  done(std::rename(beside.c_str(), file.c_str()) == 0);
  const std::unique_ptr<std::FILE, int (*)(std::FILE *)> directory(std::fopen(place.c_str(), "r"), std::fclose);
  done(directory && ::fsync(::fileno(directory.get())) == 0); // now the name lasts, too
}

// What the file holds; nothing where there is none.
static std::optional<std::vector<std::uint8_t>> load(const std::filesystem::path &file) {
  if (!std::filesystem::exists(file)) {
    return std::nullopt;
  }
  std::ifstream open(file, std::ios::binary);
  std::vector<std::uint8_t> bytes{std::istreambuf_iterator<char>(open), {}};
  if (!open) {
    throw std::runtime_error(file.string() + ": cannot be read");
  }
  return bytes;
}

struct Options {
  std::uint16_t port = 0;
  std::optional<std::uint16_t> operator_port;
  std::optional<std::string> policy;
  std::optional<std::uint64_t> memory;
  std::filesystem::path snapshot; // empty: none
  std::chrono::milliseconds snapshot_every = 10s;
};

static std::optional<Options> parse_options(int argc, char **argv) {
  Options options;
  for (int i = 1; i < argc; i += 2) {
    const char *const value = i + 1 < argc ? argv[i + 1] : "";
    const auto port = parse<std::uint16_t>(value, 10);
    if (argv[i] == "--port"sv && port) {
      options.port = *port;
    } else if (argv[i] == "--operator-port"sv && port) {
      options.operator_port = port;
    } else if (argv[i] == "--policy"sv && dpb::policy_number(value) != 0) {
      options.policy = value;
    } else if (const auto memory = parse<std::uint64_t>(value, 10); argv[i] == "--memory"sv && memory) {
      options.memory = memory;
    } else if (argv[i] == "--snapshot"sv && *value != '\0') {
      options.snapshot = value;
    } else if (const auto ms = parse<std::uint32_t>(value, 10); argv[i] == "--snapshot-every"sv && ms && *ms > 0) {
      options.snapshot_every = std::chrono::milliseconds(*ms);
    } else {
      return std::nullopt;
    }
  }
  return options;
}

static tcp::acceptor listen(asio::io_context &context, std::uint16_t port) try {
  return tcp::acceptor(context, tcp::endpoint(asio::ip::address_v4::loopback(), port));
} catch (const boost::system::system_error &error) {
  throw std::runtime_error("127.0.0.1:" + std::to_string(port) + ": " + error.code().message());
}

// With the memory that was asked for; else with the usual one, or without where that is refused. What is in
// the file comes before a fresh start, and what is wrong with the file ends it.
static Shop make(const Options &options) {
  dpb::Config config(CREATIVES.size(), 1.0); // epsilon = 1
  config.horizon = 200'000;
  config.reward_bits = 0;            // a click or none
  config.flags |= DPB_CLAMP_REWARDS; // a refused reward would leave its ticket open, for all to see
  config.answer_window = 1000;       // an ad not clicked while 1000 later ones were shown: no click
  const auto shop = [&](std::uint64_t memory) {
    config.memory = memory;
    return Shop{options.policy ? dpb::Bandit(*options.policy, config) : dpb::Bandit(config), memory};
  };
  const auto fresh = [&] {
    try {
      return shop(options.memory.value_or(MEMORY));
    } catch (const dpb::Error &) {
      if (options.memory) {
        throw;
      }
      return shop(0);
    }
  };
  Shop made = fresh();
  if (const auto bytes = options.snapshot.empty() ? std::nullopt : load(options.snapshot)) {
    dpb_error error = {};
    auto restored =
        dpb::Bandit::try_restore(dpb_policy_name(made.bandit.get()), config, bytes->data(), bytes->size(), &error);
    if (!restored) {
      throw std::runtime_error(options.snapshot.string() + ": " + error.message);
    }
    made.bandit = std::move(*restored);
  }
  return made;
}

// Saves again and again. What goes wrong is said, and the next time may do.
static asio::awaitable<void> keep(const dpb::Bandit &bandit, const Options &options) {
  for (asio::steady_timer pause(co_await asio::this_coro::executor);;) {
    pause.expires_after(options.snapshot_every);
    co_await pause.async_wait(asio::use_awaitable);
    try {
      save(bandit, options.snapshot);
    } catch (const std::exception &error) {
      std::fprintf(stderr, "%s\n", error.what());
    }
  }
}

static void run(const Options &options) {
  Shop shop = make(options); // for all threads

  asio::thread_pool pool(std::max(2U, std::thread::hardware_concurrency()));
  asio::io_context door; // on this thread alone: in the pool's queue newcomers would wait behind everybody
  asio::signal_set signals(door, SIGINT, SIGTERM);
  signals.async_wait([&](auto, int) { door.stop(); });
  const auto open = [&](std::uint16_t port, Routes routes) {
    tcp::acceptor acceptor = listen(door, port);
    const unsigned bound = acceptor.local_endpoint().port();
    asio::co_spawn(door, serve(std::move(acceptor), pool, shop, routes), asio::detached);
    return bound;
  };
  std::printf("listening on http://127.0.0.1:%u\n", open(options.port, visitors));
  if (options.operator_port) {
    std::printf("the operator's counts, not private: http://127.0.0.1:%u/diagnostics\n",
                open(*options.operator_port, operators));
  }
  std::fflush(stdout);
  if (!options.snapshot.empty()) {
    save(shop.bandit, options.snapshot);
    asio::co_spawn(pool, keep(shop.bandit, options), asio::detached);
  }
  door.run();
  pool.stop();
  pool.join();
  if (!options.snapshot.empty()) {
    save(shop.bandit, options.snapshot);
  }
  std::printf("stopped\n");
}

int main(int argc, char **argv) try {
  const std::optional<Options> options = parse_options(argc, argv);
  if (!options) {
    std::fprintf(stderr, "usage: ad_server [--port N] [--operator-port N] [--policy NAME] [--memory N]\n"
                         "                 [--snapshot FILE] [--snapshot-every MS]\n"
                         "  --port N           default 0: any free one\n"
                         "  --operator-port N  serve the counts of refused clicks there, to this machine\n"
                         "  --policy NAME      default: the recommended one\n"
                         "  --memory N         forget what N decisions ago was learned, 0: never; default 50000\n"
                         "                     where the policy can\n"
                         "  --snapshot FILE    go on from this file if it is there, and write what is released to it\n"
                         "  --snapshot-every MS  so often, in milliseconds, and at the end; default 10000\npolicies:");
    for (const std::string_view name : dpb::policies()) {
      std::fprintf(stderr, " %s", name.data());
    }
    std::fprintf(stderr, "\n");
    return 2;
  }
  run(*options);
  return 0;
} catch (const std::exception &error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
