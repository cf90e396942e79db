/* Requests with values and costs, and that may get no arm: what is played, and refusals. */
#include "check.h"

static const dpb_request *worth(const uint32_t *eligible, size_t eligible_len, const double *values, size_t n) {
  static dpb_request said;
  said = *request(1, 0, 0, eligible, eligible_len);
  said.values = values;
  said.values_len = n;
  return &said;
}

static const dpb_request *costing(const double *costs, size_t n, uint32_t abstain) {
  static dpb_request said;
  said = *request(1, 0, 0, NULL, 0);
  said.costs = costs;
  said.costs_len = n;
  said.abstain = abstain;
  return &said;
}

/* A router's two models answer 9 of 10 requests well, and 5 of 10, at a tenth of the price. */
static void costs(void) {
  static const double prices[] = {0.5, 0.05}, dear[] = {0.95, 0.6}, huge[] = {0, 1048577};
  dpb_config config = seeded(2, 1);
  dpb_bandit *bandit = NULL;
  dpb_report report;
  dpb_request said;
  dpb_decision d;
  int i, played[2] = {0, 0}, none = 0;
  dpb_request_init(&said);
  CHECK(said.costs == NULL && said.costs_len == 0 && said.abstain == 0);
  STATUS(dpb_new(&config, &bandit, NULL), DPB_OK);
  refused_for(bandit, costing(NULL, 2, 0), DPB_INVALID_REQUEST, "costs_len must be 0 where costs is NULL, got 2");
  refused_for(bandit, costing(prices, 1, 0), DPB_INVALID_REQUEST, "costs_len must be 2, the number of arms, got 1");
  refused_for(bandit, costing(huge, 2, 0), DPB_INVALID_REQUEST,
              "costs must be finite, and at most 2^20 times the largest value times config.reward_max, got 1048577");
  refused_for(bandit, costing(prices, 2, 2), DPB_INVALID_REQUEST, "abstain must be 0 or 1, got 2");
  said = *costing(prices, 2, 1);
  said.slots = 2;
  refused_for(bandit, &said, DPB_INVALID_REQUEST, "slots must be 1 in a request with abstain, got 2");
  for (i = 0; i < 20000; i++) {
    STATUS(dpb_select_for(bandit, costing(prices, 2, 0), &d), DPB_OK);
    played[d.arm]++;
    STATUS(dpb_update(bandit, d.ticket, i % 10 < (d.arm == 0 ? 9 : 5)), DPB_OK);
  }
  CHECK(played[1] > 19000 && played[0] > 0); /* .5 - .05 is more than .9 - .5 */
  for (i = 0; i < 20000; i++) {
    STATUS(dpb_select_for(bandit, costing(dear, 2, 1), &d), DPB_OK);
    if (d.arm == DPB_NO_ARM) {
      CHECK(d.ticket == 0);
      none++;
    } else {
      STATUS(dpb_update(bandit, d.ticket, i % 10 < (d.arm == 0 ? 9 : 5)), DPB_OK);
    }
  }
  CHECK(none > 19000);
  STATUS(dpb_update(bandit, 0, 1), DPB_UNKNOWN_TICKET);
  memset(&report, 0, sizeof report);
  report.struct_size = sizeof report;
  STATUS(dpb_report_read(bandit, &report), DPB_OK);
  CHECK(report.decisions == 40000 && report.cancelled == (uint64_t)none && report.pending == 0);
  dpb_free(bandit);
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
  costs();
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
              "eligible must not name an arm twice in a request with values or costs, got 1");
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
