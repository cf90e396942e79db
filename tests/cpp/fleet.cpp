// Tests dpb::Node and dpb_fleet.hpp on a store in this process: a map of rows, which runs commands by dpb_store_run.
// Exits with 0 if all checks hold.
#include <dpb_fleet.hpp>

#include <map>
#include <type_traits>

#define CHECK(condition)                                                                           \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                         \
      std::exit(1);                                                                                \
    }                                                                                              \
  } while (false)

static_assert(!std::is_copy_constructible_v<dpb::Node> && std::is_nothrow_move_constructible_v<dpb::Node>);
static_assert(noexcept(std::declval<dpb::Node &>().try_update(0, 0.0)));

namespace {

std::uint64_t milliseconds() {
  const auto time = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::duration_cast<dpb::fleet::Milliseconds>(time).count());
}

// The rows of all fleets. While it is away, every command fails.
struct Rows {
  using Map = std::map<std::string, std::string>;
  std::mutex lock;
  std::atomic<bool> is_away = false;
  Map map;

  static std::string text(const std::uint8_t *bytes, std::size_t len) {
    return {reinterpret_cast<const char *>(bytes), len};
  }
  static Map &rows(void *host) { return *static_cast<Map *>(host); }

  std::string run(const dpb::Command &command) {
    const std::lock_guard alone(lock);
    if (is_away) {
      throw std::runtime_error("the store is away");
    }
    Map changed = map; // a transaction
    dpb::Rows callbacks = {};
    callbacks.host = &changed;
    callbacks.get = [](void *host, const std::uint8_t *key, std::size_t len, const std::uint8_t **value,
                       std::size_t *size) {
      const auto found = rows(host).find(text(key, len));
      const bool is_there = found != rows(host).end();
      *value = is_there ? reinterpret_cast<const std::uint8_t *>(found->second.data()) : nullptr;
      *size = is_there ? found->second.size() : 0;
      return std::int32_t(0);
    };
    callbacks.put = [](void *host, const std::uint8_t *key, std::size_t len, const std::uint8_t *value,
                       std::size_t size) {
      rows(host)[text(key, len)] = text(value, size);
      return std::int32_t(0);
    };
    callbacks.remove = [](void *host, const std::uint8_t *key, std::size_t len) {
      rows(host).erase(text(key, len));
      return std::int32_t(0);
    };
    callbacks.list = [](void *host, const std::uint8_t *key, std::size_t len, dpb_each_row each, void *to) {
      const std::string prefix = text(key, len);
      const auto is_below = [&](const auto &row) { return row.first.compare(0, len, prefix) == 0; };
      for (auto row = rows(host).lower_bound(prefix); row != rows(host).end() && is_below(*row); ++row) {
        const auto bytes = [](const std::string &of) { return reinterpret_cast<const std::uint8_t *>(of.data()); };
        each(to, bytes(row->first), row->first.size(), bytes(row->second), row->second.size());
      }
      return std::int32_t(0);
    };
    std::vector<std::uint8_t> reply(1 << 20);
    std::size_t len = 0;
    CHECK(dpb::try_store_run(callbacks, command, milliseconds(), reply.data(), reply.size(), len) == DPB_OK);
    map = std::move(changed);
    return text(reply.data(), len);
  }
};

Rows rows;

dpb::fleet::Options options() {
  dpb::fleet::Options options;
  options.delay_ms = 400;
  options.interval_ms = 100;
  options.log = [](const std::string &) {};
  return options;
}

std::unique_ptr<dpb::fleet::Node> join(const char *name, const dpb::Config &config,
                                       dpb::fleet::Options with = options()) {
  const auto store = [](const dpb::Command &command) { return rows.run(command); };
  return std::make_unique<dpb::fleet::Node>(store, name, config, std::move(with));
}

template <class Is> void eventually(const char *what, Is is) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!is()) {
    if (std::chrono::steady_clock::now() > end) {
      std::fprintf(stderr, "never: %s\n", what);
      std::exit(1);
    }
    std::this_thread::sleep_for(dpb::fleet::Milliseconds(2));
  }
}

template <class Call> std::string refusal(Call call) {
  try {
    call();
  } catch (const std::runtime_error &error) {
    return error.what();
  }
  return "nothing was thrown";
}

void a_node_without_threads() {
  dpb_error error = {};
  const dpb::NodeOptions named("ads");
  CHECK(named.interval_ms == 5000 && named.delay_ms == 1000);
  CHECK(!dpb::Node::try_new(nullptr, dpb::Config(2, 1.0), dpb::NodeOptions("a{b"), &error));
  CHECK(error.status == DPB_INVALID_CONFIG && std::string_view(error.message).find("name") == 0);
  CHECK(refusal([] { dpb::Node(dpb::Config(2, -1.0), dpb::NodeOptions("ads")); }).find("epsilon") == 0);
  std::optional<dpb::Node> node = dpb::Node::try_new("dp-imed", dpb::Config(2, 1.0), named);
  dpb::Command command = {};
  CHECK(node && !node->bandit() && node->try_update(1, 1.0) == DPB_UNKNOWN_TICKET);
  CHECK(node->next(dpb::Lane::rounds, 1)->kind == DPB_COMMAND_WAIT && node->report(1).state == DPB_NODE_TAKING);
  CHECK(node->try_next(dpb::Lane::exchanges, 1, command) == DPB_OK && command.kind == DPB_COMMAND_TAKE);
  CHECK(std::string_view(command.sha1).size() == 40 && command.keys_len > 0);
  node->failed(command.id, 2, "no luck");
  CHECK(std::string_view(node->report(2).last_error) == "no luck" && node->diagnostics().failures == 1);
  node->leave(3);
  dpb::Node moved = std::move(*node);
  CHECK(node->try_leave(4) == DPB_NULL && !node->bandit());
  for (std::uint64_t now = 4; const auto next = moved.next(dpb::Lane::exchanges, now); now += 100) {
    CHECK(now < 60'000); // it ends, although no command succeeds
  }
  CHECK(moved.report(60'000).state == DPB_NODE_LEFT);
}

void rewards_reach_the_node_that_decided() {
  const dpb::Config config(3, 1.0);
  auto one = join("ads", config), two = join("ads", config);
  CHECK(one->report().number == 1 && two->report().number == 2 && one->report().ready == 1);
  eventually("they have met", [&] { return one->report().nodes == 2 && two->report().nodes == 2; });
  const dpb::Decision ad = one->bandit().select();
  two->update(ad.ticket, 1.0);
  two->update(ad.ticket, 1.0);
  eventually("it counts once", [&] { return one->diagnostics().received == 1 && one->diagnostics().refused == 1; });
  CHECK(one->bandit().try_update(ad.ticket, 1.0) == DPB_DUPLICATE);
  rows.is_away = true;
  two->update(one->bandit().select().ticket, 1.0);
  eventually("they try again", [&] { return one->diagnostics().failures >= 3 && two->diagnostics().failures >= 3; });
  eventually("they are not ready", [&] { return one->report().ready == 0 && two->report().ready == 0; });
  CHECK(std::string_view(one->report().last_error) == "the store is away" && two->diagnostics().waiting == 1);
  rows.is_away = false;
  eventually("the next counts too", [&] { return one->diagnostics().received == 2; });
  const std::string page = dpb::fleet::metrics({one.get(), two.get()});
  CHECK(page.find("\ndpb_fleet_nodes{bandit=\"ads\"} 2\n") != page.npos);
  CHECK(page.find("\ndpb_fleet_rewards_received_total{bandit=\"ads\"} 2\n") != page.npos);

  CHECK(two->leave() && two->report().state == DPB_NODE_LEFT && !two->is_replaced());
  two = join("ads", config);
  CHECK(two->report().number == 2 && two->report().incarnation == 2);
  dpb::Command gone = {};
  CHECK(dpb::try_node_gone("ads", 2, gone) == DPB_OK && gone.kind == DPB_COMMAND_LEAVE);
  rows.run(gone);
  eventually("its number is another's", [&] { return two->is_replaced(); });
  CHECK(two->bandit().try_update(ad.ticket, 1.0) == DPB_HALTED || two->report().ready == 0);
  CHECK(!two->leave());
}

// With a fleet key the other node continues with what is open.
void a_state_moves() {
  const dpb::fleet::Key key = {7};
  dpb::Config config(3, 1.0);
  config.fleet_key = key.data();
  auto one = join("sealed", config), two = join("sealed", config);
  eventually("one leads", [&] { return one->report().leads + two->report().leads == 1; });
  const dpb::Decision ad = two->bandit().select();
  CHECK(two->leave());
  eventually("one continues", [&] { return one->report().draining == 1; });
  one->update(ad.ticket, 1.0);
  eventually("it counts", [&] { return one->diagnostics().received == 1; });
  eventually("the bandit ends", [&] { return one->report().draining == 0; });
}

// The node sets the caller's clock.
void time_passes() {
  std::atomic<std::uint64_t> time = 1'000'000;
  dpb::Config config(3, 1.0);
  config.clock = DPB_CLOCK_CALLER;
  config.reward_window = 100;
  dpb::fleet::Options with = options();
  with.clock = [&] { return time.load(); };
  auto node = join("timed", config, with);
  (void)node->bandit().select();
  CHECK(node->bandit().report().answered == 0);
  time += 101;
  eventually("the window is over", [&] { return node->bandit().report().answered == 1; });
}

void a_node_that_cannot_join_says_why() {
  dpb::fleet::Options brief = options();
  brief.patience = dpb::fleet::Milliseconds(200);
  rows.is_away = true;
  CHECK(refusal([&] { join("ads", dpb::Config(3, 1.0), brief); }) == "the store is away");
  rows.is_away = false;
  dpb::Config other(3, 2.0);
  other.node = 1;
  join("foreign", dpb::Config(3, 1.0))->leave();
  const std::string why = refusal([&] { join("foreign", other); });
  CHECK(why.find("epsilon") != why.npos);
  CHECK(refusal([&] { (void)dpb::fleet::read_key("/nowhere/at/all"); }).find("cannot be read") != std::string::npos);
}

} // namespace

int main() {
  a_node_without_threads();
  rewards_reach_the_node_that_decided();
  a_state_moves();
  time_passes();
  a_node_that_cannot_join_says_why();
}
