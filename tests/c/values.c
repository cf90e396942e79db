/* Requests with values: what is played, and refusals. */
#include "check.h"

static const dpb_request *worth(const uint32_t *eligible, size_t eligible_len, const double *values, size_t n) {
  static dpb_request said;
  said = *request(1, 0, 0, eligible, eligible_len);
  said.values = values;
  said.values_len = n;
  return &said;
}

int main(void) {
  static const double bids[] = {1, 10, 1, 0}, bad[] = {1, -1, 1, 1}, none[] = {0, 0, 0, 0};
  static const uint32_t some[] = {3, 1}, twice[] = {1, 1};
  dpb_config config = seeded(4, 1);
  dpb_bandit *bandit = NULL;
  dpb_request many[2];
  dpb_decision d[4];
  uint64_t pulls[4] = {0, 0, 0, 0};
  size_t done = 0;
  int i;
  dpb_request_init(&many[0]);
  CHECK(many[0].values == NULL && many[0].values_len == 0);
  STATUS(dpb_new(&config, &bandit, NULL), DPB_OK);
  memset(d, 'x', sizeof d);
  refused_for(bandit, worth(NULL, 0, NULL, 4), DPB_INVALID_REQUEST, "values_len must be 0 where values is NULL, got 4");
  refused_for(bandit, worth(NULL, 0, bids, 3), DPB_INVALID_REQUEST, "values_len must be 4, the number of arms, got 3");
  refused_for(bandit, worth(NULL, 0, bids, 0), DPB_INVALID_REQUEST, "values_len must be 4, the number of arms, got 0");
  refused_for(bandit, worth(some, 2, bids, 4), DPB_INVALID_REQUEST,
              "values_len must be 2, the number of eligible arms, got 4");
  refused_for(bandit, worth(NULL, 0, bad, 4), DPB_INVALID_REQUEST, "values must be finite and at least 0, got -1");
  refused_for(bandit, worth(NULL, 0, none, 4), DPB_INVALID_REQUEST,
              "slots must be at most 0, the number of eligible arms of positive value, got 1");
  refused_for(bandit, worth(twice, 2, bids, 2), DPB_INVALID_REQUEST,
              "eligible must not name an arm twice in a request with values, got 1");
  STATUS(dpb_select_for(bandit, worth(NULL, 0, bad, 4), d), DPB_INVALID_REQUEST);
  for (i = 0; i < (int)sizeof d; i++) CHECK(((char *)d)[i] == 'x');
  for (i = 0; i < 20000; i++) { /* the second arm has a third of the others' rate, and is worth ten times as much */
    STATUS(dpb_select_for(bandit, worth(NULL, 0, bids, 4), d), DPB_OK);
    pulls[d[0].arm]++;
    STATUS(dpb_update(bandit, d[0].ticket, i % (d[0].arm == 1 ? 30 : 10) == 0), DPB_OK);
  }
  CHECK(pulls[1] > 15000 && pulls[0] > 0 && pulls[2] > 0 && pulls[3] == 0);
  many[1] = *worth(some, 2, bids, 2); /* arm 3 for 1, arm 1 for 10 */
  many[0] = *worth(some, 1, none + 1, 1);
  STATUS(dpb_select_many(bandit, many, 2, d, &done), DPB_INVALID_REQUEST);
  CHECK(done == 0);
  many[0] = many[1];
  STATUS(dpb_select_many(bandit, many, 2, d, &done), DPB_OK);
  CHECK(done == 2 && (d[1].arm == 1 || d[1].arm == 3));
  dpb_free(bandit);
  STATUS(dpb_new_tt(&config, &bandit, NULL), DPB_OK);
  refused_for(bandit, worth(NULL, 0, bids, 4), DPB_UNSUPPORTED,
              "this policy does not support values: it maximises rewards");
  dpb_free(bandit);
  config.reward_min = 1;
  config.reward_max = 2;
  STATUS(dpb_new(&config, &bandit, NULL), DPB_OK);
  refused_for(bandit, worth(NULL, 0, bids, 4), DPB_UNSUPPORTED,
              "this configuration does not support values: config.reward_min is not 0");
  dpb_free(bandit);
  return failures != 0;
}
