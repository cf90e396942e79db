/* Requests with several slots: decisions, refusals, and the end of a request. */
#include "check.h"

static int distinct(const dpb_decision *d, size_t m) {
  size_t i, j;
  for (i = 0; i < m; i++) {
    for (j = 0; j < i; j++) {
      if (d[i].arm == d[j].arm || d[i].ticket == d[j].ticket) return 0;
    }
  }
  return 1;
}

static void shows(constructor *make) {
  static const uint32_t some[] = {4, 1, 4, 2}, outside[] = {0, 7};
  dpb_config config = seeded(6, 1);
  dpb_bandit *bandit;
  dpb_decision d[8];
  dpb_report report;
  dpb_arm arms[6];
  size_t n;
  int i, j;
  CHECK(config.max_slots == 0 && config.max_clicks == 0);
  config.max_slots = 3;
  STATUS(make(&config, &bandit, NULL), DPB_OK);
  memset(d, 'x', sizeof d);
  STATUS(dpb_select_for(NULL, request(2, 0, 0, NULL, 0), d), DPB_NULL);
  STATUS(dpb_select_for(bandit, request(2, 0, 0, NULL, 0), NULL), DPB_NULL);
  STATUS(dpb_select_for(bandit, request(2, 0, 0, NULL, 4), d), DPB_INVALID_REQUEST);
  STATUS(dpb_select_for(bandit, request(1, 0, 0, some, 0), d), DPB_INVALID_REQUEST);
  STATUS(dpb_select_for(bandit, request(3, 0, 0, some, 3), d), DPB_INVALID_REQUEST); /* only two different arms */
  STATUS(dpb_select_for(bandit, request(0, 0, 0, some, 4), d), DPB_INVALID_REQUEST);
  STATUS(dpb_select_for(bandit, request(1, 0, 0, outside, 2), d), DPB_INVALID_REQUEST);
  STATUS(dpb_select_for(bandit, request(4, 0, 0, NULL, 0), d), DPB_INVALID_REQUEST); /* more than config.max_slots */
  STATUS(dpb_select_for(bandit, request(UINT32_MAX, 0, 0, NULL, 0), d), DPB_INVALID_REQUEST);
  for (i = 0; i < (int)sizeof d; i++) CHECK(((char *)d)[i] == 'x');
  for (i = 0; i < 2000; i++) {
    size_t m = 1 + (size_t)i % 3;
    if (i % 2) {
      STATUS(dpb_select_for(bandit, request((uint32_t)m, 0, 0, some, 4), d), DPB_OK);
      for (j = 0; j < (int)m; j++) CHECK(d[j].arm == 1 || d[j].arm == 2 || d[j].arm == 4);
    } else {
      STATUS(dpb_select_for(bandit, request((uint32_t)m, 0, 0, NULL, 0), d), DPB_OK);
    }
    CHECK(distinct(d, m));
    for (j = 0; j < (int)m; j++) {
      CHECK(d[j].propensity > 0 && d[j].propensity <= 1);
      STATUS(dpb_update(bandit, d[j].ticket, d[j].arm >= 4), DPB_OK);
    }
  }
  report.struct_size = sizeof report;
  STATUS(dpb_report_read(bandit, &report), DPB_OK);
  CHECK(report.decisions == 3999 && report.answered == 3999 && report.epsilon_spent <= 1 && report.epsilon_spent > .99);
  STATUS(dpb_arms_read(bandit, arms, 6, &n), DPB_OK);
  CHECK(arms[4].pulls > 1000 && arms[5].pulls > 500);
  dpb_free(bandit);
}

int main(void) {
  dpb_config config = seeded(5, 1);
  dpb_bandit *bandit = NULL;
  dpb_decision d[4], e[4];
  dpb_error error;
  double epsilon;
  int i;
  shows(dpb_new_imed);
  STATUS(dpb_new_med(&config, &bandit, NULL), DPB_OK);
  refused_for(bandit, request(2, 0, 0, NULL, 0), DPB_UNSUPPORTED,
             "this policy does not support slots 2: it has one slot for each request");
  dpb_free(bandit);
  bandit = NULL;

  config.max_slots = 4;
  STATUS(dpb_new_med(&config, &bandit, &error), DPB_INVALID_CONFIG);
  CHECK(strcmp(error.message, "max_slots must be 0: dp-med does not use it, got 4") == 0);
  config.max_clicks = 5;
  STATUS(dpb_new(&config, &bandit, &error), DPB_INVALID_CONFIG);
  CHECK(strcmp(error.message, "max_clicks must be at most max_slots, got 5") == 0);
  config.max_clicks = 1;
  STATUS(dpb_new(&config, &bandit, &error), DPB_INVALID_CONFIG);
  CHECK(strncmp(error.message, "max_clicks must be 0 without a reward_window, ", 46) == 0 && bandit == NULL);

  /* One click of a request counts, and all decisions of a request end with the window of its first one. */
  config.reward_window = 6;
  STATUS(dpb_new(&config, &bandit, NULL), DPB_OK);
  for (i = 0; i < 100; i++) {
    STATUS(dpb_select_for(bandit, request(4, 0, 0, NULL, 0), d), DPB_OK);
    STATUS(dpb_update(bandit, d[0].ticket, 1), DPB_OK);
    STATUS(dpb_update(bandit, d[3].ticket, 1), DPB_OK);
    STATUS(dpb_update(bandit, d[3].ticket, 0), DPB_DUPLICATE);
    STATUS(dpb_select_for(bandit, request(2, 0, 0, NULL, 0), e), DPB_OK); /* six so far: the first is not over */
    STATUS(dpb_update(bandit, d[1].ticket, 1), DPB_OK);
    STATUS(dpb_select(bandit, e), DPB_OK); /* now it is over, and so is the whole request */
    STATUS(dpb_update(bandit, d[1].ticket, 1), DPB_EXPIRED);
    STATUS(dpb_update(bandit, d[2].ticket, 1), DPB_EXPIRED);
    STATUS(dpb_update(bandit, d[3].ticket, 1), DPB_EXPIRED);
    /* Only the decision that was drawn first is past a window of its own. */
    CHECK((dpb_cancel(bandit, d[0].ticket) == DPB_EXPIRED) + (dpb_cancel(bandit, d[1].ticket) == DPB_EXPIRED) +
              (dpb_cancel(bandit, d[2].ticket) == DPB_EXPIRED) + (dpb_cancel(bandit, d[3].ticket) == DPB_EXPIRED) == 1);
  }
  STATUS(dpb_epsilon_spent(bandit, 0, &epsilon), DPB_OK);
  CHECK(epsilon > .999 && epsilon <= 1);
  dpb_free(bandit);
  return failures != 0;
}
