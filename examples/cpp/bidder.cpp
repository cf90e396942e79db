// A bidder that rotates creatives and learns which are clicked, with differential privacy for the clicks. It implements
// a subset of OpenRTB 2.6 with dpb.hpp and serve.hpp. Install Debian's nlohmann-json3-dev, libsodium-dev and
// libboost-dev. After `cargo build --release`:
//
//   c++ -std=c++20 -O2 examples/cpp/bidder.cpp -I include -I bindings/cpp target/release/libdpb.a
//       -lsodium -lgcc_s -lutil -lrt -lpthread -lm -ldl -lc -o bidder
//   ./bidder --port 8080 --url https://bidder.example
//
// POST /bid takes a bid request. The response has a bid for each ad slot that some creative fits, or is 204 if there is
// none. Each bid has three notices: nurl (GET /win/<token>), burl (/imp/<token>) and the click in its markup
// (/click/<token>). Authenticate exchanges in front of the bidder.
//
// With --context the bidder decides by features of the request (device, country, hour, site category, placement) and of
// the creative. One model learns for all creatives: see find_features.
//
// With --values the bidder does not maximise clicks but what they are worth: a creative's value for a click, times its
// rate. These values come from the catalogue, so they are public.
//
// A notice always gets the same empty response, whether it is in time, duplicate, late or forged, because the status
// reveals clicks. With --operator-port, GET /metrics at that port has the counts of notices, for the same machine only.
// /metrics of the other port has values that you may publish, and /privacy and /privacy.json say what is guaranteed.
//
// Most bids are not won, and an ad that was not shown has no reward. If the impression of a bid has not come after
// --shown-within later bids, or after that time, the bidder cancels the decision, whether or not a click has come. So
// neither the cancellation nor any public count depends on clicks. A click may arrive before its impression. A bid
// without a click after --clicked-within later bids, or after that time, has reward 0. The bidder sets the bandit's
// clock at each bid and once a second, never at a notice, because time must not depend on clicks.
//
// With --snapshot FILE the bidder continues after a restart with what it has learned. With --fleet-key-file FILE too it
// ends by cancelling the bids that were not shown, and clicks on the others count after the restart.
#include "serve.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <filesystem>
#include <functional>
#include <iterator>
#include <mutex>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>
#include <sodium.h>

namespace http = serve::http;
using nlohmann::json;
using serve::Clock, serve::Page, serve::Request;
using namespace std::chrono_literals;

struct Creative {
  const char *name;
  int width, height;
  const char *category, *advertiser;
  double price; // for a thousand impressions, in USD
  double click; // what a click is worth to the advertiser, in USD
};

static constexpr std::array<Creative, 10> CREATIVES = {{
    {"mountain bike", 300, 250, "IAB17", "bikes.example", 1.20, 0.20},
    {"espresso machine", 300, 250, "IAB8", "coffee.example", 0.90, 0.60},
    {"rain jacket", 300, 250, "IAB18", "outdoors.example", 0.80, 0.30},
    {"chess lessons", 300, 250, "IAB9", "chess.example", 0.40, 2.00},
    {"garden hose", 728, 90, "IAB10", "garden.example", 0.70, 0.50},
    {"night train", 728, 90, "IAB20", "trains.example", 1.10, 1.50},
    {"reading lamp", 728, 90, "IAB10", "lamps.example", 0.60, 0.40},
    {"bread knife", 320, 50, "IAB8", "kitchen.example", 0.30, 0.20},
    {"wool socks", 320, 50, "IAB18", "outdoors.example", 0.50, 0.25},
    {"folding kayak", 320, 50, "IAB17", "outdoors.example", 0.75, 1.20},
}};

// The maximum size of a bid request in bytes, and the maximum number of bids in a response.
static constexpr std::size_t MAX_BID_REQUEST = 64 << 10;
static constexpr std::size_t MAX_BIDS = 16;
// The part of an exchange's time limit that the network takes.
static constexpr std::chrono::duration<double, std::milli> TRAVEL = 5ms;

enum Notice { WIN, IMPRESSION, CLICK };
static constexpr std::array NOTICES = {"win", "impression", "click"};
static constexpr std::array PATHS = {"/win/", "/imp/", "/click/"};
enum Fate { BELIEVED, DUPLICATE, LATE, FORGED };
static constexpr std::array FATES = {"believed", "duplicate", "late", "forged"};

// A token contains the subject of a notice, and proves that the bidder made it.

struct Subject {
  std::uint64_t ticket;
  std::uint32_t creative;
};

// Each process makes a new key, because tickets of another process or of an earlier run are unknown here. So each
// process needs its own --url. The token also covers the kind of notice: a visitor, who sees the click's token, cannot
// forge an impression.
//
// libsodium's crypto_auth (HMAC-SHA512-256) has no options to get wrong: one call makes the proof, and one checks it in
// constant time.
class Tokens {
public:
  // With a key, all processes that have it make the same tokens.
  explicit Tokens(const std::optional<serve::Key> &key) {
    static_assert(sizeof(serve::Key) == crypto_auth_KEYBYTES && crypto_auth_BYTES == crypto_auth_KEYBYTES);
    constexpr std::string_view PURPOSE = "tokens of the bidder's notices";
    if (key) {
      crypto_auth(key_.data(), reinterpret_cast<const unsigned char *>(PURPOSE.data()), PURPOSE.size(), key->data());
    } else {
      crypto_auth_keygen(key_.data());
    }
  }

  std::string seal(Notice notice, const Subject &subject) const {
    Bytes bytes = {};
    std::memcpy(bytes.data(), &subject.ticket, 8);
    std::memcpy(bytes.data() + 8, &subject.creative, 4);
    bytes[BODY - 1] = static_cast<unsigned char>(notice);
    crypto_auth(bytes.data() + BODY, bytes.data(), BODY, key_.data());
    std::string text(sodium_base64_ENCODED_LEN(SIZE, sodium_base64_VARIANT_URLSAFE_NO_PADDING), '\0');
    sodium_bin2base64(text.data(), text.size(), bytes.data(), SIZE, sodium_base64_VARIANT_URLSAFE_NO_PADDING);
    text.pop_back(); // the NUL
    return text;
  }

  // nullopt if the token was not made for this kind of notice.
  std::optional<Subject> open(Notice notice, std::string_view text) const {
    Bytes bytes = {};
    std::size_t length = 0;
    if (sodium_base642bin(bytes.data(), SIZE, text.data(), text.size(), nullptr, &length, nullptr,
                          sodium_base64_VARIANT_URLSAFE_NO_PADDING) != 0 ||
        length != SIZE || bytes[BODY - 1] != notice ||
        crypto_auth_verify(bytes.data() + BODY, bytes.data(), BODY, key_.data()) != 0) {
      return std::nullopt;
    }
    Subject subject = {};
    std::memcpy(&subject.ticket, bytes.data(), 8);
    std::memcpy(&subject.creative, bytes.data() + 8, 4);
    return subject;
  }

private:
  static constexpr std::size_t BODY = 8 + 4 + 1, SIZE = BODY + crypto_auth_BYTES; // no padding: 45 = 3 * 15
  using Bytes = std::array<unsigned char, SIZE>;
  std::array<unsigned char, crypto_auth_KEYBYTES> key_;
};

// The most recent bids and their notices.
class Bids {
public:
  Bids(dpb::Bandit bandit, serve::Span shown_within) : bandit_(std::move(bandit)), shown_within_(shown_within) {
    tick();
  }

  // Cancels the bids whose time for an impression is over, and then ends the windows whose time for a click is over. In
  // this order, the bandit does not learn from an ad that was not shown, even after the machine was suspended.
  void tick() {
    const std::lock_guard alone(lock_);
    advance();
    serve::log_leaps(bandit_);
  }

  // Cancels the bid whose time for an impression ends with this one, by the number of bids or by the clock.
  dpb::Decision make(const dpb::Request &request) {
    const std::lock_guard alone(lock_); // bids are here in the bandit's order
    advance();
    const dpb::Decision decision = bandit_.select(request);
    open_.try_emplace(decision.ticket);
    order_.emplace_back(time_, decision.ticket);
    if (order_.size() > (shown_within_.is_time ? serve::PENDING : shown_within_.ticks)) {
      end_first();
    }
    return decision;
  }

  // Cancels a bid that was never sent.
  void cancel_unsent(std::uint64_t ticket) {
    const std::lock_guard alone(lock_);
    end(ticket);
  }

  // Records the notice of a win or an impression.
  Fate record(Notice notice, std::uint64_t ticket) {
    const std::lock_guard alone(lock_);
    const auto bid = open_.find(ticket);
    if (bid == open_.end()) {
      return LATE;
    }
    const bool again = std::exchange(bid->second[notice], true);
    return again ? DUPLICATE : BELIEVED;
  }

  // The bandit counts refused clicks. The bidder does not count accepted ones: that would be a sum of rewards.
  void clicked(std::uint64_t ticket) { (void)bandit_.try_update(ticket, 1.0); }

  // Ends the bandit, and leaves its state to the next process. That process does not know which bids were shown, so this
  // one cancels those that were not.
  void suspend(const std::filesystem::path &snapshot) {
    const std::lock_guard alone(lock_);
    while (!order_.empty()) {
      end_first();
    }
    serve::suspend(bandit_, snapshot);
  }

  void save(const std::filesystem::path &snapshot) { serve::save(bandit_, snapshot); }
  const dpb::Bandit &bandit() const { return bandit_; }

private:
  void advance() {
    if (!shown_within_.is_time) {
      return;
    }
    const std::uint64_t now = serve::milliseconds();
    time_ += std::max(now, last_) - last_; // it goes on if the machine's clock is set back
    last_ = now;
    while (!order_.empty() && time_ - order_.front().first >= shown_within_.ticks) {
      end_first();
    }
    serve::set_clock(bandit_, now);
  }

  void end_first() {
    end(order_.front().second);
    order_.pop_front();
  }

  void end(std::uint64_t ticket) {
    const auto bid = open_.find(ticket);
    if (bid == open_.end()) {
      return; // cancelled already
    }
    if (!bid->second[IMPRESSION]) {
      (void)bandit_.try_cancel(ticket); // with its click if there is one: see dpb_cancel
    }
    open_.erase(bid);
  }

  dpb::Bandit bandit_;
  const serve::Span shown_within_;
  std::mutex lock_;
  std::uint64_t last_ = serve::milliseconds(), time_ = 0; // the machine's clock, and the time that has passed on it
  std::deque<std::pair<std::uint64_t, std::uint64_t>> order_; // time and ticket of each recent bid
  std::unordered_map<std::uint64_t, std::array<bool, 2>> open_; // their notices
};

// The subset of OpenRTB: banners in USD. The table in bidder.md has each field that it reads. A field that is
// null is absent; another type than OpenRTB specifies throws Invalid.

struct Invalid : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Parses a text of JSON without repeated keys: of two values, a filter before this server may have read the other one.
static json parse(const std::string &text) {
  std::vector<std::set<std::string, std::less<>>> keys; // of the objects that are open
  bool repeated = false;
  json value = json::parse(text, [&](int, json::parse_event_t event, json &key) {
    if (event == json::parse_event_t::object_start) {
      keys.emplace_back();
    } else if (event == json::parse_event_t::object_end) {
      keys.pop_back();
    } else if (event == json::parse_event_t::key) {
      repeated |= !keys.back().insert(key.get<std::string>()).second;
    }
    return true;
  });
  if (repeated) {
    throw Invalid("a repeated key");
  }
  return value;
}

// The field of this name; nullptr if there is none.
static const json *field(const json &object, const char *name) {
  if (!object.is_object()) {
    throw Invalid("no object");
  }
  const auto found = object.find(name);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

static std::string text(const json &object, const char *name, const char *otherwise = "") {
  const json *found = field(object, name);
  if (found != nullptr && !found->is_string()) {
    throw Invalid("no string");
  }
  return found == nullptr ? otherwise : found->get<std::string>();
}

static std::string required_text(const json &object, const char *name) {
  std::string found = text(object, name);
  return found.empty() ? throw Invalid("a string is missing") : found;
}

static double real(const json &object, const char *name) {
  const json *found = field(object, name);
  if (found != nullptr && !found->is_number()) {
    throw Invalid("no number");
  }
  return found == nullptr ? 0.0 : found->get<double>();
}

// A whole number of at most 32 bits. 300.0 is one.
static std::int32_t whole(const json &value) {
  const double number = value.is_number() ? value.get<double>() : throw Invalid("no number");
  if (!(number >= INT32_MIN && number <= INT32_MAX && number == std::trunc(number))) {
    throw Invalid("no integer");
  }
  return static_cast<std::int32_t>(number);
}

static std::int32_t integer(const json &object, const char *name, std::int32_t otherwise = 0) {
  const json *found = field(object, name);
  return found == nullptr ? otherwise : whole(*found);
}

// The list with this name, or an empty list if there is none.
static const json &list(const json &object, const char *name) {
  static const json none = json::array();
  const json *found = field(object, name);
  if (found != nullptr && !found->is_array()) {
    throw Invalid("no list");
  }
  return found == nullptr ? none : *found;
}

static std::vector<std::string> texts(const json &object, const char *name) {
  std::vector<std::string> texts;
  for (const json &item : list(object, name)) {
    texts.push_back(item.is_string() ? item.get<std::string>() : throw Invalid("no string"));
  }
  return texts;
}

static std::vector<std::int32_t> integers(const json &object, const char *name) {
  std::vector<std::int32_t> integers;
  for (const json &item : list(object, name)) {
    integers.push_back(whole(item));
  }
  return integers;
}

// The object with this name, or an empty object if there is none.
static const json &part(const json &object, const char *name) {
  static const json none = json::object();
  const json *found = field(object, name);
  if (found != nullptr && !found->is_object()) {
    throw Invalid("no object");
  }
  return found == nullptr ? none : *found;
}

// Whether the function holds for an item of the list.
template <class List, class Function> bool any(const List &list, Function function) {
  return std::any_of(list.begin(), list.end(), function);
}

// Whether two texts differ in the case of their letters at most.
static bool are_same(std::string_view a, std::string_view b) {
  return boost::beast::iequals({a.data(), a.size()}, {b.data(), b.size()});
}

static bool names(const std::vector<std::string> &list, std::string_view text) {
  return any(list, [&](const std::string &item) { return are_same(item, text); });
}

// Whether a domain, in any case and with or without the root's dot, is the advertiser's or one above it.
static bool has_domain(std::string_view advertiser, std::string_view domain) {
  domain = domain.substr(0, domain.size() - (domain.size() > 1 && domain.back() == '.'));
  if (domain.empty() || domain.size() > advertiser.size()) {
    return false;
  }
  const std::size_t rest = advertiser.size() - domain.size();
  return are_same(advertiser.substr(rest), domain) && (rest == 0 || advertiser[rest - 1] == '.');
}

// Whether a language, such as en or en-GB, is that of the creatives.
static bool is_english(std::string_view language) {
  return are_same(language.substr(0, language.find('-')), "en");
}

// The categories of the creatives are of this taxonomy, the IAB's Content Category Taxonomy 1.0. It is the default of
// every `cattax`.
static constexpr std::int32_t TAXONOMY = 1;

// The creatives that the whole request allows.
static std::vector<std::uint32_t> allowed(const json &request) {
  const std::vector<std::string> blocked = texts(request, "bcat"), only = texts(request, "acat"),
                                 advertisers = texts(request, "badv"), currencies = texts(request, "cur"),
                                 seats = texts(request, "wseat");
  std::vector<std::string> languages = texts(request, "wlang");
  for (std::string &language : texts(request, "wlangb")) {
    languages.push_back(std::move(language));
  }
  // The categories of another taxonomy could be any of ours.
  const bool is_foreign = integer(request, "cattax", TAXONOMY) != TAXONOMY && !(blocked.empty() && only.empty());
  const bool is_test = integer(request, "test") != 0; // there is nothing to learn from it
  const bool is_outdoor = part(request, "dooh").is_object() && field(request, "dooh") != nullptr; // nobody clicks
  if (is_foreign || is_test || is_outdoor || !seats.empty() || !(currencies.empty() || names(currencies, "USD")) ||
      !(languages.empty() || any(languages, is_english))) {
    return {};
  }
  std::vector<std::uint32_t> creatives;
  for (std::uint32_t i = 0; i < CREATIVES.size(); ++i) {
    const Creative &creative = CREATIVES[i];
    if (!names(blocked, creative.category) && (only.empty() || names(only, creative.category)) &&
        !any(advertisers, [&](std::string_view domain) { return has_domain(creative.advertiser, domain); })) {
      creatives.push_back(i);
    }
  }
  return creatives;
}

struct Size {
  std::int32_t width, height;
};

static Size size(const json &object) { return {integer(object, "w"), integer(object, "h")}; }

// The sizes of a banner, or none if it does not take the markup: a text with a link, in HTML.
static std::vector<Size> sizes(const json &banner) {
  std::vector<Size> sizes = {size(banner)};
  for (const json &format : list(banner, "format")) {
    sizes.push_back(size(format));
  }
  const std::vector<std::string> types = texts(banner, "mimes");
  const std::vector<std::int32_t> kinds = integers(banner, "btype"), attributes = integers(banner, "battr");
  constexpr std::int32_t XHTML_TEXT = 1, TEXT_ONLY = 12;
  const bool takes = (types.empty() || names(types, "text/html")) &&
                     std::find(kinds.begin(), kinds.end(), XHTML_TEXT) == kinds.end() &&
                     std::find(attributes.begin(), attributes.end(), TEXT_ONLY) == attributes.end();
  return takes ? sizes : std::vector<Size>();
}

// A slot and the creatives that fit it.
struct Slot {
  std::string id;
  std::vector<std::uint32_t> eligible; // creatives
  std::vector<double> values;          // with --values: what a click on each is worth
  // With --context: the features of all these creatives, one row after the other, and the index at which each row ends.
  std::vector<dpb::Feature> features;
  std::vector<std::uint32_t> ends;

  dpb::Request request() const {
    dpb::Request request = dpb::Request().among(eligible);
    if (!values.empty()) {
      request.worth(values);
    }
    return ends.empty() ? request : request.with_sparse(features, ends);
  }
};

// The number of indices to which features are hashed. The row of a creative has ROW features, each of value 1.
static constexpr std::uint32_t FEATURES = 128;
static constexpr std::uint32_t ROW = 6;

// What the request says about the visitor and the place.
struct Context {
  std::int32_t device;
  std::string country, part_of_day, category;
};

// Also without --context, so that the same requests are valid.
static Context find_context(const json &request) {
  const json &device = part(request, "device"), &geo = part(device, "geo");
  const json &app = part(request, "app"), &site = part(request, "site"),
             &place = field(request, "app") == nullptr ? site : app;
  const std::int32_t offset = integer(geo, "utcoffset");
  if (offset < -24 * 60 || offset > 24 * 60) {
    throw Invalid("no offset");
  }
  const auto now = std::chrono::system_clock::now().time_since_epoch(); // UTC
  const auto minutes = std::chrono::duration_cast<std::chrono::minutes>(now).count() + offset;
  const bool is_foreign = integer(place, "cattax", TAXONOMY) != TAXONOMY;
  const std::vector<std::string> categories = texts(place, "cat");
  return {integer(device, "devicetype"), text(geo, "country"),
          std::to_string(minutes / 360 % 4), // the quarter of the day, in the device's local time
          is_foreign || categories.empty() ? "" : categories.front()};
}

// The features of each eligible creative. NEVER COMPUTE A FEATURE FROM REWARDS: not from the clicks of this visitor,
// the click rate of this creative or placement, a score that a model learned from clicks, or a segment of visitors that
// was made from clicks. Each of these releases clicks without noise, which epsilon does not cover. All features here
// come from the request, the clock and the catalogue. They are not protected; clicks are.
//
// The model distinguishes creatives by their rows. A feature that is the same for all creatives is therefore paired
// with the creative or its category. With the category, a new creative begins with the estimate for its category.
static void find_features(Slot &slot, const Context &context, const std::string &placement) {
  const auto hash = [](const char *field, const std::string &value) {
    std::uint32_t index = 0;
    const bool known = dpb::try_feature_hash(field, value, UINT32_MAX, index) == DPB_OK; // JSON may contain a NUL
    return known ? index : dpb::feature_hash(field, "", UINT32_MAX);
  };
  const std::uint32_t type = hash("device", std::to_string(context.device));
  const std::array<std::uint32_t, ROW - 2> others = {
      hash("country", context.country),
      hash("hour", context.part_of_day),
      hash("site", context.category),
      hash("placement", placement),
  };
  for (const std::uint32_t arm : slot.eligible) {
    const std::uint32_t creative = hash("creative", CREATIVES[arm].name);
    const std::uint32_t category = hash("category", CREATIVES[arm].category);
    slot.features.push_back({creative % FEATURES, 1.0F});
    slot.features.push_back({dpb::feature_cross(creative, type, FEATURES), 1.0F});
    for (const std::uint32_t other : others) {
      slot.features.push_back({dpb::feature_cross(category, other, FEATURES), 1.0F});
    }
    slot.ends.push_back(static_cast<std::uint32_t>(slot.features.size()));
  }
}

// What a request is decided by, besides itself.
struct Terms {
  bool has_features, has_values, is_secure; // is_secure: all URLs of a bid are https
};

// The slots that some creative fits. The choice depends on the request only, which does not depend on clicks.
static std::vector<Slot> find_slots(const json &request, const Terms &terms) {
  const std::vector<std::uint32_t> creatives = allowed(request);
  const Context context = find_context(request);
  std::vector<Slot> slots;
  std::set<std::string> ids;
  for (const json &imp : list(request, "imp")) {
    Slot slot{required_text(imp, "id"), {}, {}, {}, {}};
    if (!ids.insert(slot.id).second) {
      throw Invalid("a repeated slot");
    }
    const double floor = real(imp, "bidfloor");
    const std::string currency = text(imp, "bidfloorcur", "USD"), placement = text(imp, "tagid");
    const bool needs_secure = integer(imp, "secure") != 0;
    const bool needs_deal = integer(part(imp, "pmp"), "private_auction") != 0; // there are no deals
    const std::vector<Size> fit = sizes(part(imp, "banner"));
    if ((terms.is_secure || !needs_secure) && !needs_deal && are_same(currency, "USD")) {
      std::copy_if(creatives.begin(), creatives.end(), std::back_inserter(slot.eligible), [&](std::uint32_t i) {
        return CREATIVES[i].price >= floor && any(fit, [&](const Size &size) {
                 return size.width == CREATIVES[i].width && size.height == CREATIVES[i].height;
               });
      });
    }
    if (!slot.eligible.empty() && slots.size() < MAX_BIDS) {
      for (std::size_t i = 0; terms.has_values && i < slot.eligible.size(); ++i) {
        slot.values.push_back(CREATIVES[slot.eligible[i]].click);
      }
      if (terms.has_features) {
        find_features(slot, context, placement);
      }
      slots.push_back(std::move(slot));
    }
  }
  if (ids.empty()) {
    throw Invalid("no slots");
  }
  return slots;
}

// The pages.

class Bidder {
public:
  Bidder(dpb::Bandit bandit, serve::Span shown_within, bool has_values, Tokens tokens, std::string url)
      : terms_{bandit.report().features > 0, has_values, are_same(url.substr(0, 8), "https://")},
        bids_(std::move(bandit), shown_within), tokens_(std::move(tokens)), url_(std::move(url)) {}

  const dpb::Bandit &bandit() const { return bids_.bandit(); }
  void tick() { bids_.tick(); }
  void save(const std::filesystem::path &snapshot) { bids_.save(snapshot); }
  void suspend(const std::filesystem::path &snapshot) { bids_.suspend(snapshot); }

  serve::Site visitors() {
    const auto get = http::verb::get;
    const auto handler = [this](Notice notice) {
      return [this, notice](const Request &request) { return handle_notice(notice, request.rest); };
    };
    return {{http::verb::post, "/bid", [this](const Request &request) { return bid(request); }, MAX_BID_REQUEST},
            {get, PATHS[WIN], handler(WIN)},
            {get, PATHS[IMPRESSION], handler(IMPRESSION)},
            {get, PATHS[CLICK], handler(CLICK)},
            {get, "/healthz",
             [this](auto &) {
               (void)bandit().diagnostics(); // throws if the handle is poisoned
               return serve::health();
             }},
            {get, "/privacy", [this](auto &) { return serve::privacy({&bandit()}, false); }},
            {get, "/privacy.json", [this](auto &) { return serve::privacy({&bandit()}, true); }},
            {get, "/metrics", [this](auto &) { return serve::metrics(dpb::metrics({{"creatives", &bandit()}})); }}};
  }

  serve::Site operators() {
    return {{http::verb::get, "/metrics", [this](auto &) { return serve::metrics(counts()); }}};
  }

private:
  enum Response { BID, NO_FIT, TOO_LATE, REFUSED };
  static constexpr std::array RESPONSES = {"bid", "no_fit", "too_late", "refused"};

  Page bid(const Request &http_request) try {
    const json request = parse(http_request.body);
    const std::string id = required_text(request, "id");
    const std::int32_t limit = integer(request, "tmax"); // milliseconds; 0: none
    if (limit < 0) {
      throw Invalid("no time");
    }
    const std::vector<Slot> slots = find_slots(request, terms_);
    if (slots.empty()) {
      return no_bid(NO_FIT);
    }
    std::vector<std::uint64_t> tickets;
    json bids = json::array();
    for (const Slot &slot : slots) {
      const dpb::Decision decision = bids_.make(slot.request());
      tickets.push_back(decision.ticket);
      bids.push_back(offer(slot.id, {decision.ticket, decision.arm}));
    }
    const json response = {{"id", id}, {"cur", "USD"}, {"seatbid", json::array({{{"bid", std::move(bids)}}})}};
    Page page = serve::success(response.dump());
    if (limit > 0 && Clock::now() - http_request.begun + TRAVEL >= std::chrono::duration<double, std::milli>(limit)) {
      for (const std::uint64_t ticket : tickets) {
        bids_.cancel_unsent(ticket);
      }
      return no_bid(TOO_LATE);
    }
    ++responses_[BID];
    return page;
  } catch (const json::exception &) {
    return refuse();
  } catch (const Invalid &) {
    return refuse();
  }

  Page refuse() {
    ++responses_[REFUSED];
    return serve::failure(http::status::bad_request, "bad_request", "not a bid request of OpenRTB 2.6");
  }

  json offer(const std::string &slot, const Subject &subject) const {
    const Creative &creative = CREATIVES[subject.creative];
    const auto url = [&](Notice notice) { return url_ + PATHS[notice] + tokens_.seal(notice, subject); };
    return {{"id", std::to_string(subject.ticket)},
            {"impid", slot},
            {"price", creative.price},
            {"nurl", url(WIN)},
            {"burl", url(IMPRESSION)},
            {"adm", "<a href=\"" + url(CLICK) + "\">" + creative.name + "</a>"},
            {"mtype", 1}, // a banner
            {"w", creative.width},
            {"h", creative.height},
            {"crid", std::to_string(subject.creative)},
            {"cat", json::array({creative.category})},
            {"adomain", json::array({creative.advertiser})}};
  }

  Page no_bid(Response why) {
    ++responses_[why];
    return serve::nothing();
  }

  // Handles a notice. The response is always the same, because the status of a notice reveals clicks.
  Page handle_notice(Notice notice, std::string_view token) {
    if (const auto subject = tokens_.open(notice, token)) {
      if (notice == CLICK) {
        bids_.clicked(subject->ticket);
      } else {
        const Fate fate = bids_.record(notice, subject->ticket);
        ++notices_[notice][fate];
        impressions_[subject->creative] += notice == IMPRESSION && fate == BELIEVED;
      }
    } else {
      ++notices_[notice][FORGED];
    }
    return serve::nothing();
  }

  // NOT private: a duplicate reveals a click. The page does not have the number of accepted clicks.
  std::string counts() const {
    std::string page = dpb::operator_metrics({{"creatives", &bandit()}});
    const auto line = [&](const std::string &name, const std::atomic<std::uint64_t> &count) {
      page += name + "\"} " + std::to_string(count) + '\n';
    };
    page += "# HELP bidder_responses_total Bid requests, by the kind of response.\n"
            "# TYPE bidder_responses_total counter\n";
    for (const Response response : {BID, NO_FIT, TOO_LATE, REFUSED}) {
      line(std::string("bidder_responses_total{response=\"") + RESPONSES[response], responses_[response]);
    }
    page += "# HELP bidder_notices_total Notices, by what became of them; clicks that are duplicate or late are in "
            "dpb_duplicates_total and dpb_late_total.\n"
            "# TYPE bidder_notices_total counter\n";
    for (const Notice notice : {WIN, IMPRESSION, CLICK}) {
      for (const Fate fate : {BELIEVED, DUPLICATE, LATE, FORGED}) {
        if (notice != CLICK || fate == FORGED) {
          line(std::string("bidder_notices_total{notice=\"") + NOTICES[notice] + "\",fate=\"" + FATES[fate],
               notices_[notice][fate]);
        }
      }
    }
    page += "# HELP bidder_impressions_total Impressions that were believed, by creative.\n"
            "# TYPE bidder_impressions_total counter\n";
    for (std::size_t i = 0; i < CREATIVES.size(); ++i) {
      line(std::string("bidder_impressions_total{creative=\"") + CREATIVES[i].name, impressions_[i]);
    }
    return page;
  }

  const Terms terms_;
  Bids bids_;
  const Tokens tokens_;
  const std::string url_; // of this server, as exchanges and visitors reach it
  std::array<std::atomic<std::uint64_t>, RESPONSES.size()> responses_ = {};
  std::array<std::array<std::atomic<std::uint64_t>, FATES.size()>, NOTICES.size()> notices_ = {};
  std::array<std::atomic<std::uint64_t>, CREATIVES.size()> impressions_ = {};
};

struct Options : serve::Options {
  std::string url; // empty: the address of this server's port
  double epsilon = 1.0;
  bool context = false, values = false;
  serve::Span shown_within = {10'000, false}, clicked_within = {100'000, false};
};

static Options parse_options(int argc, char **argv) {
  Options options;
  std::vector<char *> arguments(argv, argv + argc);
  options.context = std::erase(arguments, std::string_view("--context")) > 0; // all others have an argument
  options.values = std::erase(arguments, std::string_view("--values")) > 0;
  const auto take = [&](std::string_view name, std::string_view value) {
    if (name == "--url") {
      options.url = value;
    } else if (name == "--epsilon") {
      const auto epsilon = serve::parse<double>(value);
      if (!epsilon) {
        throw serve::UsageError(name, "a number", value);
      }
      options.epsilon = *epsilon;
    } else if (name == "--shown-within") {
      options.shown_within = serve::window(name, value);
    } else if (name == "--clicked-within") {
      options.clicked_within = serve::window(name, value);
    } else {
      return options.take(name, value);
    }
    return true;
  };
  serve::read_options(static_cast<int>(arguments.size()), arguments.data(), take);
  // A bid that was not shown must be cancelled before its window for a click is over.
  if (options.shown_within.is_time != options.clicked_within.is_time ||
      options.shown_within.ticks >= options.clicked_within.ticks) {
    throw serve::UsageError("--clicked-within must be longer than --shown-within, and of the same kind");
  }
  if (!options.key_file.empty() && options.snapshot.empty()) {
    throw serve::UsageError("--fleet-key-file needs --snapshot");
  }
  return options;
}

static dpb::Bandit make(const Options &options, const std::optional<serve::Key> &key) {
  dpb::Config config(CREATIVES.size(), options.epsilon);
  config.fleet_key = key ? key->data() : nullptr;
  config.horizon = 1'000'000;
  if (options.context) {
    config.features = FEATURES;
  }
  config.reward_bits = 0;            // a click or none
  config.flags |= DPB_CLAMP_REWARDS; // a refused reward would leave its ticket open, and public counts would show that
  serve::set_window(config, options.clicked_within);
  dpb::Bandit bandit = options.policy ? dpb::Bandit(*options.policy, config) : dpb::Bandit(config);
  dpb::Decision none;
  if (bandit.try_select(dpb::Request().among({}), &none) == DPB_UNSUPPORTED) { // otherwise DPB_INVALID_REQUEST
    throw std::runtime_error(std::string(bandit.policy_name()) + " cannot choose among the creatives that fit");
  }
  const double none_worth = 0; // no creative with a value is DPB_INVALID_REQUEST, unless features are missing too
  if (options.values && bandit.try_select(dpb::Request().among({0}).worth(&none_worth, 1), &none) == DPB_UNSUPPORTED) {
    throw std::runtime_error(std::string(bandit.policy_name()) + " cannot play for what clicks are worth");
  }
  return serve::resume(std::move(bandit), config, options.snapshot);
}

int main(int argc, char **argv) try {
  const Options options = parse_options(argc, argv);
  if (sodium_init() < 0) {
    throw std::runtime_error("libsodium: no randomness");
  }
  const std::optional<serve::Key> key = options.key();
  serve::Server server(options);
  Bidder bidder(make(options, key), options.shown_within, options.values, Tokens(key),
                options.url.empty() ? server.address() : options.url);
  server.run(bidder.visitors(), bidder.operators(), "/metrics",
             [&] { bidder.save(options.snapshot); }, {{serve::TICK, [&] { bidder.tick(); }}});
  if (key) {
    bidder.suspend(options.snapshot);
  }
  return 0;
} catch (const serve::UsageError &error) {
  serve::print_usage(
      error, "bidder",
      "  --url URL          URL at which exchanges and visitors reach this server\n"
      "  --epsilon E        privacy parameter for one click; default 1\n"
      "  --context          decide by device, country, hour, site and placement\n"
      "  --values           play for what clicks are worth, not for clicks\n"
      "  --shown-within SPAN    cancel a bid that is not shown within this time; default 10000.\n"
      "                     A SPAN is a number of bids, or a time: 500ms, 30s, 30m, 2h\n"
      "  --clicked-within SPAN  a click counts within this time; default 100000. It must be\n"
      "                     longer than --shown-within, and of the same kind\n");
  return 2;
} catch (const std::exception &error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
