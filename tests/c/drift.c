/* Means that change: forget_after, the outputs, and exploration. */
#include "check.h"

/* Makes decisions for two arms with these means; returns how often arm 1 was chosen. */
static unsigned play(dpb_bandit *bandit, unsigned decisions, double zero, double one, double floor) {
  unsigned t, ones = 0;
  for (t = 0; t < decisions; t++) {
    dpb_decision d;
    STATUS(dpb_select(bandit, &d), DPB_OK);
    CHECK(d.propensity >= floor && d.propensity <= 1);
    ones += d.arm;
    STATUS(dpb_update(bandit, d.ticket, d.arm ? one : zero), DPB_OK);
  }
  return ones;
}

static void follows(constructor *make, const char *name, uint32_t number) {
  dpb_config config = seeded(2, 1);
  dpb_bandit *bandit;
  dpb_report report;
  dpb_arm arms[2];
  size_t n;
  CHECK(config.forget_after == 0 && config.exploration == 0);
  config.forget_after = 10000;
  config.exploration = .1;
  STATUS(make(&config, &bandit, NULL), DPB_OK);
  report.struct_size = sizeof report;
  STATUS(dpb_report_read(bandit, &report), DPB_OK);
  CHECK(report.policy == number && strcmp(dpb_policy_name(bandit), name) == 0);
  STATUS(dpb_arms_read(bandit, arms, 2, &n), DPB_OK);
  CHECK(arms[0].effective_pulls == 0 && arms[0].spare[0] == 0);
  CHECK(play(bandit, 20000, .2, .8, .05) > 18000);
  STATUS(dpb_report_read(bandit, &report), DPB_OK);
  CHECK(report.changes_detected == 0);
  STATUS(dpb_arms_read(bandit, arms, 2, &n), DPB_OK);
  CHECK(arms[1].effective_pulls > 3000 && arms[1].effective_pulls <= 10000 && arms[1].pulls > 18000);
  (void)play(bandit, 10000, .8, .2, .05); /* now arm 0 is best */
  CHECK(play(bandit, 10000, .8, .2, .05) < 1500);
  STATUS(dpb_report_read(bandit, &report), DPB_OK);
  CHECK(report.changes_detected > 0);
  STATUS(dpb_arms_read(bandit, arms, 2, &n), DPB_OK);
  CHECK(fabs(arms[0].mean - .8) < .1 && arms[0].effective_pulls > 3000);
  dpb_free(bandit);
}

int main(void) {
  dpb_config config = seeded(2, 1);
  dpb_bandit *bandit = NULL;
  dpb_error error;
  follows(dpb_new_imed, "dp-imed", DPB_POLICY_IMED);
  follows(dpb_new_med, "dp-med", DPB_POLICY_MED);
  config.forget_after = 1023;
  STATUS(dpb_new(&config, &bandit, &error), DPB_INVALID_CONFIG);
  CHECK(strcmp(error.message, "forget_after must be 0 or in 1024 .. 2^40, got 1023") == 0);
  config.forget_after = 10000;
  STATUS(dpb_new_se(&config, &bandit, &error), DPB_INVALID_CONFIG);
  CHECK(strcmp(error.message, "forget_after must be 0: dp-se does not use it, got 10000") == 0);
  config.forget_after = 0;
  config.exploration = (double)NAN;
  STATUS(dpb_new(&config, &bandit, &error), DPB_INVALID_CONFIG);
  CHECK(strcmp(error.message, "exploration must be in [0, 1], got NaN") == 0 && bandit == NULL);
  return failures != 0;
}
