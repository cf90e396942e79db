/* A test with a control and a tolerance, through C: what it says while it goes on and when it has ended. */
#include "check.h"

static dpb_verdict verdict_of(const dpb_bandit *bandit) {
  dpb_verdict verdict;
  memset(&verdict, 0, sizeof verdict);
  verdict.struct_size = sizeof verdict;
  CHECK(dpb_verdict_read(bandit, &verdict) == DPB_OK);
  return verdict;
}

int main(void) {
  const double rates[3] = {0.1, 0.5, 0.49};
  uint8_t seed[32] = {7}, text[300];
  uint32_t state = 12345, arms[3] = {0, 0, 0};
  size_t n = 0, i;
  dpb_config config;
  dpb_bandit *bandit = NULL, *other = NULL;
  dpb_verdict verdict;
  dpb_decision ad;
  dpb_config_init(&config, 3, 1.0);
  CHECK(dpb_new(&config, &other, NULL) == DPB_OK);
  memset(&verdict, 0, sizeof verdict);
  verdict.struct_size = sizeof verdict;
  CHECK(dpb_verdict_read(other, &verdict) == DPB_UNSUPPORTED);
  config.test_seed = seed;
  config.tolerance = 0.05;
  config.control_share = 0.5;
  CHECK(dpb_new_tt(&config, &bandit, NULL) == DPB_OK);
  verdict = verdict_of(bandit);
  CHECK(verdict.state == DPB_TEST_RUNNING && verdict.arms == 3 && verdict.confidence == 0.95 && isnan(verdict.low));
  for (i = 0; i < 100000 && verdict.state == DPB_TEST_RUNNING; ++i) {
    CHECK(dpb_select(bandit, &ad) == DPB_OK);
    CHECK(fabs(ad.propensity - (ad.arm == 0 ? 0.5 : 0.25)) < 1e-9 || verdict.rewards > 0);
    state = state * 1664525u + 1013904223u;
    CHECK(dpb_update(bandit, ad.ticket, state / 4294967296.0 < rates[ad.arm] ? 1.0 : 0.0) == DPB_OK);
    ++arms[ad.arm];
    if (i % 64 == 0) verdict = verdict_of(bandit);
  }
  CHECK(verdict.state == DPB_TEST_TIED && verdict.leader != 0 && verdict.other == 0 && verdict.winners == 1);
  CHECK(verdict.low > 0.2 && verdict.low < 0.4 && verdict.high > verdict.low && verdict.more == 0.0 && !verdict.mismatch);
  CHECK(arms[0] > arms[1] && verdict.rewards > 1000 && verdict.rewards <= i);
  CHECK(dpb_verdict_text(&verdict, NULL, 0, &n, NULL) == DPB_BUFFER_TOO_SMALL && n < sizeof text);
  CHECK(dpb_verdict_text(&verdict, text, sizeof text, &n, NULL) == DPB_OK);
  CHECK(memcmp(text, "Arm ", 4) == 0 && text[n - 1] == '.');
  printf("%.*s\n", (int)n, (const char *)text);
  dpb_free(bandit);
  bandit = NULL;
  config.winners = 3;
  CHECK(dpb_new_tt(&config, &bandit, NULL) == DPB_INVALID_CONFIG && bandit == NULL);
  config.winners = 2;
  CHECK(dpb_new_tt(&config, &bandit, NULL) == DPB_OK);
  verdict = verdict_of(bandit);
  CHECK(verdict.state == DPB_TEST_RUNNING && verdict.winners == 2);
  dpb_free(bandit);
  dpb_free(other);
  return failures != 0;
}
