// Code that the servers in this directory share: HTTP on a few threads with Boost.Beast (apt-get install libboost-dev),
// deadlines, a limit on connections, snapshots in a file, options.
#ifndef SERVE_HPP
#define SERVE_HPP

#include <dpb_fleet.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio.hpp> // after <utility>, which Boost 1.74 does not include
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>

namespace serve {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::ip::tcp;
using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;
using namespace std::string_view_literals;

// The time that a visitor may take to send a request, to begin the next one, and to receive a response.
inline constexpr auto TIMEOUT = 10s;
// The maximum number of connections. For a new one, the server closes those that have been idle for longest.
inline constexpr std::size_t MAX_CONNECTIONS = 2000;
// The number of connections that it closes at once.
inline constexpr std::size_t CLOSED_AT_ONCE = 16;
// The maximum size of a snapshot in bytes, enough for 600,000 placements.
inline constexpr std::uintmax_t MAX_SNAPSHOT = 256 << 20;
// The maximum size of a request's header in bytes, and of all extensions of its chunks.
inline constexpr std::size_t MAX_HEAD = 16 << 10;
// The time for which a server that ends waits for the requests that it has begun.
inline constexpr auto GRACE = 1s;

// Parses a text that is one number and nothing else: no plus sign, no space.
template <class Number, class... Base> std::optional<Number> parse(std::string_view text, Base... base) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base...);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

// The length of a window or of forget_after, in decisions or in milliseconds.
struct Span {
  std::uint64_t ticks;
  bool is_time;
};

// The fault of a command line. The message names the option and the value.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;

  UsageError(std::string_view option, const std::string &must, std::string_view value)
      : UsageError(std::string(option) + " must be " + must + ", got \"" + std::string(value) + '"') {}
};

// The value of an option that is a number in this range.
template <class Number>
Number number(std::string_view option, std::string_view value, Number least = 0,
              Number most = std::numeric_limits<Number>::max()) {
  if (const auto number = parse<Number>(value); number && *number >= least && *number <= most) {
    return *number;
  }
  throw UsageError(option, "a number from " + std::to_string(least) + " to " + std::to_string(most), value);
}

// The value of an option that is 1000 (decisions), or 500ms, 30s, 30m, 2h (a time). All servers have the same syntax.
inline Span span(std::string_view option, std::string_view text) {
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  const auto number = parse<std::uint64_t>(text.substr(0, digits));
  const std::string_view unit = text.substr(digits);
  const std::uint64_t ticks = unit.empty() || unit == "ms" ? 1
                              : unit == "s"                ? 1000
                              : unit == "m"                ? 60'000
                              : unit == "h"                ? 3'600'000
                                                           : 0;
  if (!number || ticks == 0 || *number > std::numeric_limits<std::uint64_t>::max() / ticks) {
    throw UsageError(option, "a number of decisions, or a time such as 500ms, 30s, 30m or 2h", text);
  }
  return {*number * ticks, !unit.empty()};
}

// As `span`, for a window.
inline Span window(std::string_view option, std::string_view text) {
  const Span window = span(option, text);
  if (window.ticks == 0 || window.ticks > std::numeric_limits<std::uint32_t>::max()) {
    throw UsageError(option, "at least 1, and 1193h or 4294967295 decisions at most", text);
  }
  return window;
}

// The time of day, for dpb_advance, because it continues over restarts.
inline std::uint64_t milliseconds() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

// The interval at which the server sets a bandit's clock, also without traffic.
inline constexpr auto TICK = 1s;

// Sets a bandit's clock. If the bandit refuses the time, it goes on with the last one, and stderr has each change of the
// status.
inline void set_clock(dpb::Bandit &bandit, std::uint64_t now) {
  static std::mutex lock;
  static std::unordered_map<const dpb_bandit *, dpb_status> refused;
  static std::atomic<bool> any = false; // whether there is one in `refused`
  const dpb_status status = bandit.try_advance(now);
  if (status == DPB_OK && !any) {
    return;
  }
  const std::lock_guard alone(lock);
  const auto found = refused.try_emplace(bandit.get(), DPB_OK).first;
  if (std::exchange(found->second, status) != status) {
    std::fprintf(stderr, "the clock %s: %s\n", status == DPB_OK ? "goes on" : "stands still", dpb_status_name(status));
  }
  if (status == DPB_OK) {
    refused.erase(found);
  }
  any = !refused.empty();
}

// Writes it to stderr if a bandit's clock has leapt since the last call: the machine's clock may be wrong. One thread
// calls this at each tick.
inline void log_leaps(const dpb::Bandit &bandit) {
  static std::unordered_map<const dpb_bandit *, std::uint64_t> logged;
  dpb::Report report;
  if (bandit.try_report(report) == DPB_OK && std::exchange(logged[bandit.get()], report.clock_leaps) < report.clock_leaps) {
    std::fputs("the clock leapt: the time continues from what it shows\n", stderr);
  }
}

// pending_capacity for a window of time: 580 decisions a second for half an hour.
inline constexpr std::uint32_t PENDING = 1 << 20;

// Sets the window of a configuration. reward_window and forget_after are then both times, or both decisions.
inline void set_window(dpb::Config &config, Span window) {
  config.reward_window = static_cast<std::uint32_t>(window.ticks);
  if (window.is_time) {
    config.clock = DPB_CLOCK_CALLER;
    config.pending_capacity = PENDING;
  }
}

// The pages.

using Page = http::response<http::string_body>;

inline Page page(http::status status, const char *content_type, std::string body) {
  Page page(status, 11);
  page.set(http::field::content_type, content_type);
  page.body() = std::move(body);
  return page;
}

inline Page success(std::string json) { return page(http::status::ok, "application/json", std::move(json)); }

inline Page metrics(std::string text) {
  return page(http::status::ok, "text/plain; version=0.0.4; charset=utf-8", std::move(text));
}

// What these bandits guarantee: a text for each, or a list in JSON.
inline Page privacy(const std::vector<const dpb::Bandit *> &bandits, bool as_json) {
  std::string said;
  for (const dpb::Bandit *bandit : bandits) {
    said += as_json ? (said.empty() ? "[" : ",") + bandit->statement() : bandit->statement_text() + '\n';
  }
  return as_json ? success(said + ']') : page(http::status::ok, "text/plain; charset=utf-8", said);
}

// For texts that need no escapes.
inline Page failure(http::status status, const std::string &error, const std::string &message) {
  return page(status, "application/json", R"({"error":")" + error + R"(","message":")" + message + "\"}");
}

inline Page health() { return page(http::status::ok, "text/plain", "ok\n"); }

inline Page nothing() { return Page(http::status::no_content, 11); }

struct Request {
  std::string_view rest;   // the part of the path after the route's path
  std::string_view query;  // the part after the question mark
  const std::string &body; // no longer than the route allows
  Clock::time_point begun; // the time at which its header was read
};

// The first value with this name in a query, undecoded; nullopt if there is none.
inline std::optional<std::string_view> parameter(std::string_view query, std::string_view name) {
  for (std::string_view rest = query; !rest.empty();) {
    const std::string_view pair = rest.substr(0, rest.find('&'));
    rest.remove_prefix(std::min(rest.size(), pair.size() + 1));
    if (const std::size_t equals = pair.find('='); pair.substr(0, equals) == name) {
      return equals == pair.npos ? ""sv : pair.substr(equals + 1);
    }
  }
  return std::nullopt;
}

// A page: it handles one method and path. If the handler throws, the response is 500.
struct Route {
  http::verb method;
  std::string_view path; // the whole path without a query, or a prefix that ends in /
  std::function<Page(const Request &)> handle;
  std::size_t max_body = 0; // bytes; a longer body is refused unread

  bool matches(std::string_view target) const {
    return path.size() > 1 && path.back() == '/' ? target.substr(0, path.size()) == path : target == path;
  }
};

// The routes of one port.
using Site = std::vector<Route>;

// The route for a request, chosen before its body is read, or the reason why there is none.
struct Found {
  const Route *route;
  std::optional<Page> refusal;
};

inline Found find(const Site &site, http::verb method, std::string_view path) {
  const auto route = std::find_if(site.begin(), site.end(), [&](const Route &each) { return each.matches(path); });
  const http::verb allowed = route != site.end() ? route->method : http::verb::get;
  if (method != allowed) {
    const std::string name(http::to_string(allowed));
    Page page = failure(http::status::method_not_allowed, "method_not_allowed", "only " + name + " is served");
    page.set(http::field::allow, name);
    return {nullptr, std::move(page)};
  }
  if (route == site.end()) {
    std::string pages;
    for (const Route &each : site) {
      pages += (pages.empty() ? "" : ", ") + std::string(each.path);
    }
    return {nullptr, failure(http::status::not_found, "no_such_page", "try " + pages)};
  }
  return {&*route, std::nullopt};
}

// Caches an expensive page, with a copy for each number that a request may name. Each copy is renewed at most once in
// `every`.
class Copies {
public:
  explicit Copies(std::chrono::milliseconds every) : every_(every) {}

  template <class Make> Page get(std::uint64_t number, Make make) {
    const std::lock_guard alone(lock_); // requests wait while the page is made
    const Clock::time_point now = Clock::now();
    if (copies_.size() > MAX_COPIES) {
      copies_.clear();
    }
    const auto found = copies_.find(number);
    if (found != copies_.end() && now < found->second.first + every_) {
      return found->second.second;
    }
    return copies_.insert_or_assign(number, std::pair(now, make())).first->second.second;
  }

private:
  static constexpr std::size_t MAX_COPIES = 1000;
  const std::chrono::milliseconds every_;
  std::mutex lock_;
  std::unordered_map<std::uint64_t, std::pair<Clock::time_point, Page>> copies_;
};

// The server: one coroutine for each connection, on a few threads.

struct Connection : beast::tcp_stream {
  using beast::tcp_stream::tcp_stream;
  bool is_busy = false; // from the header of a request to the end of its response
};

// The connections of a port, in the order of their last requests.
class Crowd {
public:
  using Place = std::list<std::weak_ptr<Connection>>::iterator;

  Place enter(const std::shared_ptr<Connection> &connection) {
    const std::lock_guard alone(lock_);
    return places_.insert(places_.end(), connection);
  }

  void mark_active(Place place) {
    const std::lock_guard alone(lock_);
    places_.splice(places_.end(), places_, place);
  }

  void leave(Place place) {
    const std::lock_guard alone(lock_);
    places_.erase(place);
    left_.notify_all();
  }

  // Closes the idle connections, and lets the others finish one response until then.
  void finish(Clock::time_point deadline) {
    std::unique_lock alone(lock_);
    ends_ = true;
    for (const auto &place : places_) {
      if (const auto connection = place.lock()) {
        asio::post(connection->get_executor(), [connection] {
          if (!connection->is_busy) {
            connection->close();
          }
        });
      }
    }
    left_.wait_until(alone, deadline, [&] { return places_.empty(); });
  }

  bool ends() const { return ends_; }

  // Reports whether another connection is possible. If not, it closes idle ones.
  bool can_accept() {
    const std::lock_guard alone(lock_);
    const bool full = places_.size() >= MAX_CONNECTIONS;
    for (auto place = places_.begin(); full && place != std::next(places_.begin(), CLOSED_AT_ONCE); ++place) {
      if (const auto idle = place->lock()) {
        asio::post(idle->get_executor(), [idle] { idle->close(); });
      }
    }
    return !full;
  }

private:
  std::mutex lock_;
  std::condition_variable left_;
  std::atomic<bool> ends_ = false;
  std::list<std::weak_ptr<Connection>> places_;
};

// The path and query of a request. A client may send an absolute URL, as to a proxy (RFC 9112, 3.2.2).
inline std::string_view origin_form(std::string_view target) {
  for (const std::string_view scheme : {"http://"sv, "https://"sv}) {
    if (beast::iequals({target.data(), std::min(target.size(), scheme.size())}, {scheme.data(), scheme.size()})) {
      const std::string_view rest = target.substr(scheme.size());
      return rest.substr(std::min(rest.size(), rest.find_first_of("/?")));
    }
  }
  return target;
}

// The refusal of what Beast's parser accepts, although a proxy may see another request in it.
template <class Fields> beast::error_code check_request(const http::request_header<Fields> &request) {
  if (request.version() != 10 && request.version() != 11) {
    return http::error::bad_version;
  }
  const std::size_t hosts = request.count(http::field::host);
  if (hosts > 1 || (hosts == 0 && request.version() == 11)) { // RFC 9112, 3.2
    return http::error::bad_field;
  }
  // RFC 9112, 6.1: after any other coding, and in HTTP/1.0, the end of the body is unknown.
  if (const std::size_t codings = request.count(http::field::transfer_encoding);
      codings > 1 || (codings == 1 && (request.version() == 10 ||
                                       !beast::iequals(request[http::field::transfer_encoding], "chunked")))) {
    return http::error::bad_transfer_encoding;
  }
  const std::string_view target = origin_form({request.target().data(), request.target().size()});
  const bool is_other = request.method() == http::verb::options || request.method() == http::verb::connect;
  if (!is_other && !target.empty() && target.front() != '/' && target.front() != '?') {
    return http::error::bad_target;
  }
  return {};
}

// The response to a malformed request; nullopt if the connection is lost.
inline std::optional<Page> refusal_of(beast::error_code error) {
  if (error == http::error::header_limit || error == http::error::buffer_overflow) {
    return failure(http::status::request_header_fields_too_large, "long_head", "the request's head is too long");
  }
  if (error.category() == beast::error_code(http::error::bad_method).category() &&
      error != http::error::end_of_stream && error != http::error::partial_message) {
    return failure(http::status::bad_request, "bad_request", "not a request of HTTP/1.1");
  }
  return std::nullopt;
}

// Handles the requests of a connection, one after the other. A failure of the visitor or the network throws.
inline asio::awaitable<void> serve_connection(std::shared_ptr<Connection> connection, const Site &site,
                                      std::shared_ptr<Crowd> crowd, Crowd::Place place) {
  const std::shared_ptr<void> leaves(nullptr, [&](void *) { crowd->leave(place); });
  beast::tcp_stream &stream = *connection;
  beast::flat_buffer buffer(MAX_HEAD);
  for (bool another = true; another;) {
    http::request_parser<http::string_body> parser;
    parser.header_limit(MAX_HEAD);
    parser.body_limit(std::numeric_limits<std::uint64_t>::max()); // the body is not read yet
    stream.expires_after(TIMEOUT);
    std::size_t extensions = 0;
    auto limit_extensions = [&](std::uint64_t, auto text, beast::error_code &error) {
      extensions += text.size();
      error = extensions > MAX_HEAD ? http::error::header_limit : beast::error_code();
    };
    parser.on_chunk_header(limit_extensions);
    beast::error_code malformed;
    co_await http::async_read_header(stream, buffer, parser, asio::redirect_error(asio::use_awaitable, malformed));
    connection->is_busy = true;
    const auto &request = parser.get();
    if (!malformed) {
      malformed = check_request(request);
    }
    if (malformed) {
      if (auto refusal = refusal_of(malformed)) {
        refusal->keep_alive(false);
        refusal->prepare_payload();
        co_await http::async_write(stream, *refusal, asio::use_awaitable);
      }
      break;
    }
    crowd->mark_active(place);

    const Clock::time_point begun = Clock::now();
    const std::string_view target = origin_form({request.target().data(), request.target().size()});
    const std::string_view named = target.substr(0, target.find('?'));
    const std::string_view query = target.substr(std::min(target.size(), named.size() + 1));
    const std::string_view path = named.empty() ? "/"sv : named;
    auto [route, refusal] = find(site, request.method(), path);
    const std::uint64_t declared = parser.content_length().value_or(0); // 0 for a chunked body
    if (route != nullptr && route->max_body > 0 && !parser.is_done() && declared <= route->max_body) {
      if (const auto coding = request.find(http::field::content_encoding);
          coding != request.end() && !beast::iequals(coding->value(), "identity")) {
        refusal = failure(http::status::unsupported_media_type, "encoded_body", "the body must not be compressed");
        refusal->set(http::field::accept_encoding, "identity");
      } else {
        if (request.version() == 11 && beast::iequals(request[http::field::expect], "100-continue")) {
          const http::response<http::empty_body> proceed(http::status::continue_, 11);
          co_await http::async_write(stream, proceed, asio::use_awaitable);
        }
        parser.body_limit(route->max_body);
        beast::error_code error;
        co_await http::async_read(stream, buffer, parser, asio::redirect_error(asio::use_awaitable, error));
        if (error && error != http::error::body_limit && !(refusal = refusal_of(error))) {
          throw beast::system_error(error);
        }
      }
    }
    const bool whole = parser.is_done();
    if (route != nullptr && !whole && !refusal) {
      refusal = failure(http::status::payload_too_large, "body_refused", "this page does not accept such a body");
    }
    Page page;
    try {
      page = refusal ? std::move(*refusal)
                     : route->handle({path.substr(route->path.size()), query, request.body(), begun});
    } catch (const std::exception &) {
      page = failure(http::status::internal_server_error, "internal", "the request failed");
    }
    page.set(http::field::cache_control, "no-store"); // a cached ad would repeat its ticket
    page.version(request.version());
    // A connection of HTTP/1.0 ends, because its proxies may pass on a Connection that they do not understand.
    page.keep_alive(request.keep_alive() && request.version() == 11 && whole && !crowd->ends());
    if (page.result() != http::status::no_content) { // 204 has no body
      page.prepare_payload();
    }
    another = page.keep_alive();
    stream.expires_after(TIMEOUT);
    if (request.method() == http::verb::head) { // only the header of the response
      http::response_serializer<http::string_body> head(page);
      co_await http::async_write_header(stream, head, asio::use_awaitable);
    } else {
      co_await http::async_write(stream, page, asio::use_awaitable);
    }
    connection->is_busy = false;
    another = another && !crowd->ends();
  }
  beast::error_code error;
  stream.socket().shutdown(tcp::socket::shutdown_send, error);
}

// Accepts connections and passes them to the pool.
inline asio::awaitable<void> accept(tcp::acceptor &acceptor, asio::thread_pool &pool, const Site &site,
                                    std::shared_ptr<Crowd> crowd) {
  asio::steady_timer pause(acceptor.get_executor());
  for (;;) {
    const auto strand = asio::make_strand(pool);
    beast::error_code error;
    tcp::socket socket = co_await acceptor.async_accept(strand, asio::redirect_error(asio::use_awaitable, error));
    if (error) { // probably too many open files: wait until some are closed
      pause.expires_after(50ms);
      co_await pause.async_wait(asio::use_awaitable);
      continue;
    }
    while (!crowd->can_accept()) {
      pause.expires_after(1ms);
      co_await pause.async_wait(asio::use_awaitable);
    }
    // The connection counts from here on, because its coroutine may start after many more have been accepted.
    const auto connection = std::make_shared<Connection>(std::move(socket));
    const Crowd::Place place = crowd->enter(connection);
    asio::co_spawn(strand, serve_connection(connection, site, crowd, place), asio::detached);
  }
}

// The key (dpb_config.fleet_key) that seals states, and that the nodes of a fleet with one noise share.
using dpb::fleet::Key, dpb::fleet::read_key;

// The snapshots.

// Throws what the system says of a file, unless `well`.
inline void check_io(bool well, const std::filesystem::path &file) {
  if (!well) {
    throw std::system_error(errno, std::generic_category(), file.string());
  }
}

using File = std::unique_ptr<std::FILE, int (*)(std::FILE *)>;

// Opens a file that is the server's own: a regular file with one link, because a file that has another link is still there
// when the server has removed it. Null if there is none and the flags do not create it.
inline File open_own(const std::filesystem::path &file, int flags, const char *mode) {
  const int descriptor = ::open(file.c_str(), flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666); // a FIFO would wait
  if (descriptor < 0 && errno == ENOENT && !(flags & O_CREAT)) {
    return {nullptr, std::fclose};
  }
  check_io(descriptor >= 0 || errno == ELOOP, file);
  struct stat status = {};
  File open(descriptor < 0 ? nullptr : ::fdopen(descriptor, mode), std::fclose);
  if (!open || ::fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode) || status.st_nlink != 1) {
    throw std::runtime_error(file.string() + ": must be a regular file with one link");
  }
  return open;
}

// The path of a server's file, without symbolic links. The server takes it once, at its start. A rename or removal of a link
// would leave the file that the link leads to, and another server would continue from the same state.
inline std::filesystem::path own(const std::filesystem::path &file) {
  if (std::filesystem::symlink_status(file).type() == std::filesystem::file_type::not_found) {
    std::error_code failed;
    const std::filesystem::path place = std::filesystem::canonical(std::filesystem::absolute(file).parent_path(), failed);
    if (failed) {
      throw std::filesystem::filesystem_error("no directory", file, failed);
    }
    return place / file.filename();
  }
  const std::filesystem::path known = std::filesystem::canonical(file); // throws for a link to nothing
  open_own(known, O_RDONLY, "rb");
  return known;
}

// Makes the renames and removals of files in this one's directory durable.
inline void sync_directory(const std::filesystem::path &file) {
  const std::filesystem::path place = std::filesystem::absolute(file).parent_path();
  const File directory(std::fopen(place.c_str(), "r"), std::fclose);
  check_io(directory && ::fsync(::fileno(directory.get())) == 0, place);
}

// Writes a file. At any time, even after a crash, it holds all of these bytes or all of the previous ones.
inline void write(const std::filesystem::path &file, const std::vector<std::uint8_t> &bytes) {
  const std::string beside = file.string() + ".new"; // a rename does not cross file systems
  std::filesystem::remove(beside);
  const File open = open_own(beside, O_WRONLY | O_CREAT | O_EXCL, "wb");
  check_io(std::fwrite(bytes.data(), 1, bytes.size(), open.get()) == bytes.size(), beside);
  check_io(std::fflush(open.get()) == 0 && ::fsync(::fileno(open.get())) == 0, beside); // before the rename
  check_io(std::rename(beside.c_str(), file.c_str()) == 0, file);
  sync_directory(file);
}

// Writes a snapshot and says that it is stored. In a fleet the node says so, once Redis has the snapshot.
inline void save(dpb::Bandit &bandit, const std::filesystem::path &file, bool in_fleet = false) {
  const std::vector<std::uint8_t> snapshot = bandit.snapshot();
  write(file, snapshot);
  if (!in_fleet) {
    bandit.stored(snapshot);
  }
}

// The contents of the file; nullopt if it does not exist.
inline std::optional<std::vector<std::uint8_t>> load(const std::filesystem::path &file) {
  const File open = open_own(file, O_RDONLY, "rb");
  if (!open) {
    return std::nullopt;
  }
  const std::uintmax_t size = std::filesystem::file_size(file);
  if (size > MAX_SNAPSHOT) {
    throw std::runtime_error(file.string() + ": " + std::to_string(size) + " bytes are not a snapshot of this server");
  }
  std::vector<std::uint8_t> bytes(size);
  if (std::fread(bytes.data(), 1, bytes.size(), open.get()) != bytes.size()) {
    throw std::runtime_error(file.string() + ": cannot be read");
  }
  return bytes;
}

// Locks a server's snapshot file, because a second server with the same file would overwrite it. The lock is on a
// separate file, because each rename replaces the snapshot's file. The server never removes the lock file, because that
// would be a race. The system releases the lock when the process ends.
class Lock {
public:
  explicit Lock(const std::filesystem::path &snapshot) {
    if (snapshot.empty()) {
      return;
    }
    const std::string beside = snapshot.string() + ".lock";
    file_ = open_own(beside, O_WRONLY | O_CREAT | O_APPEND, "a");
    if (::flock(::fileno(file_.get()), LOCK_EX | LOCK_NB) != 0) {
      throw std::runtime_error(snapshot.string() + ": another server has it (" + beside + " is locked)");
    }
  }

private:
  File file_{nullptr, std::fclose};
};

// Restores an object from a file by a function like try_restore; nullopt if the file does not exist. Throws if the file
// is not valid.
template <class Restore> auto restored(const std::filesystem::path &file, Restore restore) {
  using Restored = decltype(restore(std::declval<const std::uint8_t *>(), std::size_t(), std::declval<dpb_error *>()));
  const auto bytes = file.empty() ? std::nullopt : load(file);
  if (!bytes) {
    return Restored();
  }
  dpb_error error = {};
  Restored restored = restore(bytes->data(), bytes->size(), &error);
  if (!restored) {
    throw std::runtime_error(file.string() + ": " + error.message);
  }
  return restored;
}

// Ends the bandit, and leaves its whole state beside its snapshot for the next process: see
// docs/operating/restarts.md, "What the example servers do".
inline void suspend(dpb::Bandit &bandit, const std::filesystem::path &snapshot) {
  write(snapshot.string() + ".state", bandit.suspend(0));
}

// Removes what killed processes have left of a state, and nobody may open.
inline void remove_leftovers(const std::string &state) {
  std::filesystem::remove(state + ".new");
  std::filesystem::remove(state + ".opened");
  sync_directory(state);
}

// Continues from the state that the last process has left; nullopt if there is none, or if it is refused. A state is
// opened once: only by the process that has renamed it, and only under that new name, which no other process uses, because
// this one has the lock. So one bandit at most continues from it, wherever processes are killed.
inline std::optional<dpb::Bandit> take_state(std::string_view policy, const dpb::Config &config,
                                             const std::filesystem::path &snapshot) {
  const std::string state = snapshot.string() + ".state";
  const std::string taken = state + ".opened";
  remove_leftovers(state);
  if (!open_own(state, O_RDONLY, "rb")) {
    return std::nullopt;
  }
  check_io(std::rename(state.c_str(), taken.c_str()) == 0, state);
  sync_directory(state);
  std::optional<dpb::Bandit> next;
  try {
    next = restored(taken, [&](auto... bytes) { return dpb::Bandit::try_resume(config, bytes...); });
    if (next->policy_name() != policy) {
      throw std::runtime_error(taken + ": policy must be " + std::string(policy));
    }
    const auto away = std::filesystem::file_time_type::clock::now() - std::filesystem::last_write_time(taken);
    next->claimed();
    // Rewards that came meanwhile are lost, and must not count as none.
    if (config.clock == DPB_CLOCK_CALLER && away > std::chrono::milliseconds(config.reward_window / 8)) {
      next->cancel_all();
      std::fprintf(stderr, "%s: open decisions are cancelled, because the server was away for too long\n", state.c_str());
    }
  } catch (const std::runtime_error &why) {
    next.reset(); // an unclaimed one decides nothing
    std::fprintf(stderr, "what was open is lost: %s\n", why.what());
  }
  std::filesystem::remove(taken);
  return next;
}

// Makes a bandit continue from the state that the last process has left or, if there is none, from its snapshot. A snapshot
// that cannot be restored throws before a state is touched.
inline dpb::Bandit resume(dpb::Bandit fresh, const dpb::Config &config, const std::filesystem::path &file) {
  if (file.empty()) {
    return fresh;
  }
  if (auto stored = restored(file, [&](auto... snapshot) {
        return dpb::Bandit::try_restore(dpb_policy_name(fresh.get()), config, snapshot...);
      })) {
    fresh = std::move(*stored);
  }
  auto next = take_state(fresh.policy_name(), config, file);
  return next ? std::move(*next) : std::move(fresh);
}

// The snapshot that a node of a fleet may continue from. It continues from no state, because the clicks of the meantime have
// gone elsewhere.
inline std::vector<std::uint8_t> load_for_fleet(const std::filesystem::path &file) {
  if (file.empty()) {
    return {};
  }
  std::filesystem::remove(file.string() + ".state");
  remove_leftovers(file.string() + ".state");
  return load(file).value_or(std::vector<std::uint8_t>());
}

// A task that runs regularly in the background.
struct Chore {
  std::chrono::milliseconds every;
  std::function<void()> work;
};
using Chores = std::vector<Chore>;

// Reports an error on stderr; the task runs again at its next time.
inline asio::awaitable<void> repeat(Chore chore) {
  for (asio::steady_timer pause(co_await asio::this_coro::executor);;) {
    pause.expires_after(chore.every);
    co_await pause.async_wait(asio::use_awaitable);
    try {
      chore.work();
    } catch (const std::exception &error) {
      std::fprintf(stderr, "%s\n", error.what());
    }
  }
}

// The value of an option that is a file's name.
inline std::filesystem::path file(std::string_view option, std::string_view value) {
  if (value.empty()) {
    throw UsageError(option, "a file", value);
  }
  return value;
}

// The options of all servers.
struct Options {
  std::uint16_t port = 0;
  std::optional<std::uint16_t> operator_port;
  std::optional<std::string> policy;
  std::filesystem::path snapshot; // empty: none
  std::filesystem::path key_file; // empty: none
  std::chrono::milliseconds snapshot_every = 10s;
  std::chrono::milliseconds report_every = 1s;
  unsigned threads = std::max(2U, std::thread::hardware_concurrency());

  // Returns whether it is one of these options. Throws UsageError if its value is not valid.
  bool take(std::string_view name, std::string_view value) {
    if (name == "--port") {
      port = number<std::uint16_t>(name, value);
    } else if (name == "--operator-port") {
      operator_port = number<std::uint16_t>(name, value);
    } else if (name == "--policy") {
      policy = value;
      if (dpb::policy_number(policy->c_str()) == 0) {
        throw UsageError(name, "one of the policies below", value);
      }
    } else if (name == "--snapshot") {
      snapshot = own(file(name, value));
    } else if (name == "--fleet-key-file") {
      key_file = file(name, value);
    } else if (name == "--snapshot-every") {
      snapshot_every = std::chrono::milliseconds(number<std::uint32_t>(name, value, 1));
    } else if (name == "--report-every") {
      report_every = std::chrono::milliseconds(number<std::uint32_t>(name, value));
    } else {
      return false;
    }
    return true;
  }

  std::optional<Key> key() const { return key_file.empty() ? std::nullopt : std::optional(read_key(key_file)); }
};

// Passes each option and its value to `take`, and each that has no value to `flag`. Throws UsageError if neither knows one.
template <class Take, class Flag = bool (*)(std::string_view)>
void read_options(int argc, char **argv, Take take, Flag flag = [](std::string_view) { return false; }) {
  for (int i = 1; i < argc; i += 2) {
    if (flag(argv[i])) {
      --i;
    } else if (!take(argv[i], i + 1 < argc ? argv[i + 1] : "")) {
      throw UsageError(std::string("there is no option ") + argv[i]);
    }
  }
}

inline void print_usage(const UsageError &fault, const char *program, const char *more) {
  std::fprintf(stderr,
               "%s\n\nusage: %s [--option VALUE]...\n"
               "  --port N           port for visitors; default 0: any free port\n"
               "  --operator-port N  port for the counts of refused clicks, for this machine only\n"
               "  --policy NAME      one of the policies below; default: the recommended one\n"
               "  --snapshot FILE    continue from this file if it exists, and write snapshots to it\n"
               "  --snapshot-every MS  interval of snapshots in milliseconds; default 10000\n"
               "  --fleet-key-file FILE  with --snapshot: a restart loses nothing, because the server leaves its open\n"
               "                     decisions and batches, sealed, to the next one. The file has 32 secret random bytes\n"
               "                     or 64 hexadecimal digits, and no other user may be able to read it\n"
               "  --report-every MS  least time between two reports in milliseconds; default 1000\n%spolicies:",
               fault.what(), program, more);
  for (const std::string_view name : dpb::policies()) {
    std::fprintf(stderr, " %s", name.data());
  }
  std::fprintf(stderr, "\n");
}

// The constructor opens the ports, so that pages can contain the address.
class Server {
public:
  explicit Server(const Options &options)
      : options_(options), lock_(options.snapshot), visitors_(listen(options.port)) {
    if (options.operator_port) {
      operators_ = listen(*options.operator_port);
    }
  }

  std::string address() const { return address(visitors_); }

  // Serves until SIGINT or SIGTERM. `operators_page` is the path that it prints for the operator. With --snapshot it
  // calls `save` before it serves, regularly, and at the end.
  void run(const Site &visitors, const Site &operators, const char *operators_page, const std::function<void()> &save,
           Chores chores = {}) {
    asio::signal_set signals(accept_context_, SIGINT, SIGTERM);
    signals.async_wait([&](auto, int) { accept_context_.stop(); });
    // Save before serving: a restored bandit has begun a new period, which the next restart must know.
    if (!options_.snapshot.empty()) {
      save();
      chores.push_back({options_.snapshot_every, save});
    }
    std::printf("listening on %s\n", address().c_str());
    const auto crowd = std::make_shared<Crowd>(), operators_crowd = std::make_shared<Crowd>();
    asio::co_spawn(accept_context_, accept(visitors_, pool_, visitors, crowd), asio::detached);
    if (operators_) {
      std::printf("the operator's counts, not private: %s%s\n", address(*operators_).c_str(), operators_page);
      asio::co_spawn(accept_context_, accept(*operators_, pool_, operators, operators_crowd), asio::detached);
    }
    std::fflush(stdout);
    for (const auto strand = asio::make_strand(pool_); const Chore &chore : chores) { // one at a time
      asio::co_spawn(strand, repeat(chore), asio::detached);
    }
    accept_context_.run();
    visitors_.close();
    const Clock::time_point deadline = Clock::now() + GRACE;
    crowd->finish(deadline);
    operators_crowd->finish(deadline);
    pool_.stop();
    pool_.join();
    if (!options_.snapshot.empty()) {
      save();
    }
    std::printf("stopped\n");
  }

private:
  tcp::acceptor listen(std::uint16_t port) try {
    return tcp::acceptor(accept_context_, tcp::endpoint(asio::ip::address_v4::loopback(), port));
  } catch (const boost::system::system_error &error) {
    throw std::runtime_error("127.0.0.1:" + std::to_string(port) + ": " + error.code().message());
  }

  static std::string address(const tcp::acceptor &acceptor) {
    return "http://127.0.0.1:" + std::to_string(acceptor.local_endpoint().port());
  }

  Options options_;
  Lock lock_;
  asio::thread_pool pool_{options_.threads};
  asio::io_context accept_context_; // runs outside the pool, where new connections would wait for all other work
  tcp::acceptor visitors_;
  std::optional<tcp::acceptor> operators_;
};

} // namespace serve

#endif
