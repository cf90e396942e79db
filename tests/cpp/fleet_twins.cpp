// Twins: two worlds differ in one reward that travels. What becomes of the others must be the same. Exits with 0 if it is.
// bindings/go/fleet/leader_test.go has the same test.
#include "../../examples/cpp/fleet.hpp"

namespace {

struct Arrival {
  std::uint16_t to;
  std::uint64_t ticket;
  int round;
};

// In which round each ticket is sent, and how many messages each round sends to each node.
struct Sent {
  std::map<std::uint64_t, int> when;
  std::vector<std::map<std::uint16_t, std::size_t>> messages;
};

const std::set<std::uint16_t> HELD{100, 101, 102};

// What is sent of these rewards, and when. The store fails in some of the rounds.
Sent travel(std::size_t slots, int rounds, const std::vector<Arrival> &arrivals) {
  const auto began = fleet::Clock::now();
  fleet::Outbox outbox(slots, std::chrono::seconds(1), began);
  Sent sent;
  for (int round = 0; round < rounds; ++round) {
    const auto now = began + std::chrono::seconds(round);
    for (const Arrival &arrival : arrivals) {
      if (arrival.round == round) {
        outbox.add(arrival.to, {arrival.ticket, 1}, now);
      }
    }
    outbox.rounds(HELD, now + std::chrono::seconds(1), std::chrono::hours(1));
    sent.messages.push_back(outbox.waiting());
    if (round % 20 >= 12 && round < rounds - 1) {
      continue;
    }
    for (const auto &[to, count] : outbox.waiting()) {
      for (const fleet::Batch &batch : outbox.first(to, count)) {
        for (const fleet::Reward &reward : batch.rewards) {
          sent.when.emplace(reward.ticket, round);
        }
      }
      outbox.remove(to, count);
    }
  }
  return sent;
}

// How many rewards, except one, are sent in other rounds in two worlds, or in one of them only.
std::size_t others(const Sent &one, const Sent &other, std::uint64_t except) {
  std::set<std::uint64_t> differ;
  for (const auto &[a, b] : {std::pair(&one, &other), std::pair(&other, &one)}) {
    for (const auto &[ticket, round] : a->when) {
      const auto found = b->when.find(ticket);
      if (ticket != except && (found == b->when.end() || found->second != round)) {
        differ.insert(ticket);
      }
    }
  }
  return differ.size();
}

int failures = 0;

void expect(bool holds, const char *what, std::size_t value) {
  if (!holds) {
    std::printf("%s: %zu\n", what, value);
    ++failures;
  }
}

// Every other reward is sent in the same round, also after the store has failed for a while. If more rewards come in a round
// than a message holds, one reward decides about one other in each round in which it differs, however many rounds are full.
void one_reward_does_not_decide_about_others() {
  const std::size_t slots = 4;
  const int rounds = 60;
  for (const bool full : {false, true}) {
    std::minstd_rand random(1);
    std::vector<Arrival> arrivals;
    for (int round = 0; round < rounds; ++round) {
      for (const std::uint16_t to : HELD) {
        for (std::size_t count = random() % slots + (full ? slots : 0); count > 0; --count) {
          arrivals.push_back({to, std::uint64_t(to) << 48 | (arrivals.size() + 1), round});
        }
      }
    }
    const Sent all = travel(slots, rounds, arrivals);
    for (std::size_t unit = 0; unit < 100; unit += 7) {
      auto without = arrivals, later = arrivals;
      without.erase(without.begin() + static_cast<std::ptrdiff_t>(unit));
      later[unit].round += 13;
      std::size_t most = 1;
      for (const auto *twin : {&without, &later}) {
        const Sent other = travel(slots, rounds, *twin);
        expect(all.messages == other.messages, "the messages tell that one reward differs", unit);
        const std::size_t differ = others(all, other, arrivals[unit].ticket);
        expect(differ <= (full ? most : 0), full ? "others differ in full rounds" : "others differ", differ);
        most = 2;
      }
    }
  }
}

// Messages that cannot be sent are dropped after a time, whether there are rewards in them or not.
void old_messages_are_dropped() {
  const auto began = fleet::Clock::now();
  for (std::uint64_t rewards = 0; rewards < 3; ++rewards) {
    fleet::Outbox outbox(2, std::chrono::seconds(1), began);
    const std::chrono::seconds longest(9);
    std::size_t lost = 0;
    auto now = began;
    for (int round = 0; round < 20; ++round) {
      for (std::uint64_t ticket = 1; ticket <= rewards; ++ticket) {
        outbox.add(100, {ticket, 1}, began);
        outbox.add(100, {ticket, 1}, began); // a repeat takes no place
      }
      now += std::chrono::seconds(1);
      lost += outbox.rounds({100, 101}, now, longest);
    }
    const std::map<std::uint16_t, std::size_t> ten{{100, 10}, {101, 10}}, nine{{100, 9}, {101, 9}}, one{{100, 10}};
    expect(outbox.waiting() == ten && lost == 10 * rewards && outbox.count() == 10 * rewards, "lost", lost);
    lost = outbox.rounds({100, 101}, now + std::chrono::milliseconds(3500), longest); // nobody ends the rounds in time
    expect(outbox.waiting() == nine && lost == 4 * rewards, "lost in three rounds", lost);
    lost = outbox.rounds({100}, now + std::chrono::hours(1), longest);
    expect(outbox.waiting() == one && lost == 6 * rewards && outbox.count() == 0, "lost at the end", lost);
  }
}

// Without slots each reward is a message of its own, and the queue has a limit.
void rewards_are_sent_one_by_one() {
  fleet::Outbox outbox(0, std::chrono::seconds(1), fleet::Clock::now());
  for (std::size_t i = 0; i < fleet::MAX_REWARDS; ++i) {
    expect(outbox.add(100, {i + 1, 1}, {}), "refused", i);
  }
  expect(!outbox.add(100, {7, 1}, {}), "accepted", outbox.count());
  expect(outbox.rounds({}, fleet::Clock::now(), {}) == 0 && outbox.first(100, 3).size() == 3, "dropped", outbox.count());
  expect(outbox.remove(100, 3) == 3 && outbox.add(101, {7, 1}, {}), "no space", outbox.count());
}

} // namespace

int main() {
  one_reward_does_not_decide_about_others();
  old_messages_are_dropped();
  rewards_are_sent_one_by_one();
  return failures == 0 ? 0 : 1;
}
