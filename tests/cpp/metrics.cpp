// Writes the page of metrics.txt, in a locale whose numbers have commas, if there is one. With the argument "public" it writes the public page, and with "played" the operators' page after some decisions.
#include <dpb_metrics.hpp>

#include <clocale>
#include <cstdio>
#include <string>

int main(int argc, char **argv) {
  const std::string which = argc > 1 ? argv[1] : "";
  std::setlocale(LC_ALL, "de_DE.UTF-8");
  dpb::Bandit front = dpb::Bandit::restore(dpb::Bandit::se(dpb::Config(2, 0.5)).snapshot());
  const dpb::Decision shown = front.select();
  const dpb::Decision hidden = front.select();
  front.update(shown.ticket, 1.0);
  front.cancel(hidden.ticket);
  (void)front.try_update(shown.ticket, 1.0);
  (void)front.try_update(shown.ticket, 7.0);
  dpb::Bandit closed(dpb::Config(2, 1.0));
  const dpb::Bandit moved = std::move(closed);
  const dpb::Bandit baseline = dpb::Bandit::nonprivate_ucb1(dpb::Config(2, 1.0));
  dpb::Config rows(2, 1.0);
  rows.features = 2;
  const dpb::Bandit features = dpb::Bandit::restore(dpb::Bandit::linear(rows).snapshot());
  rows.feature_model = DPB_MODEL_PER_ARM;
  const dpb::Bandit models = dpb::Bandit::restore(dpb::Bandit::linear(rows).snapshot());
  dpb::Config config(2, 0.25);
  config.max_segments = 2;
  dpb::Bandit slots = dpb::Bandit::restore(dpb::Bandit(config).snapshot());
  std::vector<dpb::Request> requests(3);
  requests[1].segment = 1;
  const std::uint32_t first[] = {0};
  for (dpb::Request &request : requests) {
    request.among(first);
  }
  const std::vector<dpb::Decision> decisions = slots.select_many(requests);
  slots.update(decisions[0].ticket, 1.0);
  slots.cancel(decisions[1].ticket);
  (void)slots.try_update(decisions[0].ticket, 1.0);
  const dpb::Bandit test = dpb::Bandit::restore(dpb::Bandit::tt(dpb::Config(2, 1.0)).snapshot());
  const dpb::NamedBandits bandits = {{"baseline", &baseline},
                                     {"closed", &closed},
                                     {"features", &features},
                                     {"front \"page\"\n\\", &front},
                                     {"models", &models},
                                     {"slots", &slots},
                                     {"test", &test}};
  for (int t = 0; which == "played" && t < 20000; ++t) {
    const dpb::Decision decision = front.select();
    front.update(decision.ticket, decision.arm == 0 && t % 3 == 0 ? 1.0 : 0.0);
  }
  std::fputs((which == "public" ? dpb::metrics(bandits) : dpb::operator_metrics(bandits)).c_str(), stdout);
}
