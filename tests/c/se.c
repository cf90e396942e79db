/* DP-SE and DP-TT through the C interface: the paper's schedule, elimination, reports, each reward once. */
#include "check.h"

/* Plays with a constant reward an arm (no reward noise) and returns the regret. */
static double play(dpb_bandit *bandit, const double *means, uint64_t rounds) {
  double regret = 0;
  uint64_t t;
  for (t = 0; t < rounds; t++) {
    dpb_decision d;
    STATUS(dpb_select(bandit, &d), DPB_OK);
    regret += means[0] - means[d.arm];
    STATUS(dpb_update(bandit, d.ticket, means[d.arm]), DPB_OK);
  }
  return regret;
}

/* SS19, Algorithm 3, line 8 with K = 5, T = 5e7: pulls of each arm in epoch 1. */
static void schedule(double epsilon, uint64_t pulls) {
  static const double means[] = {.75, .625, .5, .375, .25};
  dpb_config config = seeded(5, epsilon);
  dpb_bandit *bandit;
  dpb_report report;
  dpb_arm arms[5];
  size_t n, i;
  uint32_t best;
  double epsilon_spent;
  report.struct_size = sizeof report;
  config.horizon = 50000000;
  STATUS(dpb_new_se(&config, &bandit, NULL), DPB_OK);
  CHECK(strcmp(dpb_policy_name(bandit), "dp-se") == 0);

  play(bandit, means, 5 * pulls - 1);
  STATUS(dpb_report_read(bandit, &report), DPB_OK);
  CHECK(report.phase == 1 && report.arms_active == 5 && report.epsilon_spent == 0);
  STATUS(dpb_arms_read(bandit, arms, 5, &n), DPB_OK);
  for (i = 0; i < n; i++) CHECK(isnan(arms[i].mean) && isnan(arms[i].width));

  play(bandit, means, 1);
  STATUS(dpb_report_read(bandit, &report), DPB_OK);
  CHECK(report.phase == 2 && report.arms_active < 5);
  CHECK(report.epsilon_spent > epsilon * 0.999999 && report.epsilon_spent <= epsilon);
  STATUS(dpb_epsilon_spent(bandit, 0, &epsilon_spent), DPB_OK);
  CHECK(epsilon_spent == report.epsilon_spent);
  STATUS(dpb_arms_read(bandit, arms, 5, &n), DPB_OK);
  for (i = 0; i < n; i++) {
    CHECK(arms[i].pulls == pulls);
    CHECK(fabs(arms[i].mean - means[i]) < arms[i].width);
    CHECK(arms[i].mean != means[i]); /* the noise changes each mean */
  }
  STATUS(dpb_best_arm(bandit, &best), DPB_NOT_READY);
  dpb_free(bandit);
}

/* Plays until the test has decided for this arm. */
static void until_it_wins(dpb_bandit *bandit, const double *means, uint32_t arm) {
  uint32_t best = 99;
  int decisions;
  STATUS(dpb_best_arm(bandit, &best), DPB_NOT_READY);
  for (decisions = 0; decisions < 50000 && dpb_best_arm(bandit, &best) == DPB_NOT_READY; decisions++) play(bandit, means, 1);
  CHECK(best == arm);
}

/* An A/B test stops, says so, and goes on with the winner, after a restart too. If another arm retires, the winner stays.
   If the winner retires, or an arm is added, a new test begins. */
static void winner(void) {
  static const double means[] = {.75, .625, .5, .375, .25, .75};
  dpb_config config = seeded(5, 1);
  dpb_bandit *bandit, *next;
  dpb_decision d;
  dpb_report report;
  uint8_t bytes[4096];
  size_t length;
  uint32_t best = 9, added;
  uint64_t decisions;
  dpb_error error;
  report.struct_size = sizeof report;
  config.beta = .01;
  STATUS(dpb_new_tt(&config, &bandit, NULL), DPB_OK);
  CHECK(strcmp(dpb_policy_name(bandit), "dp-tt") == 0);
  STATUS(dpb_report_read(bandit, &report), DPB_OK);
  CHECK(report.policy == DPB_POLICY_TT && report.stopped == 0 && report.best_arm == 0);
  for (decisions = 0; dpb_best_arm(bandit, &best) == DPB_NOT_READY && decisions < 20000; decisions++) play(bandit, means, 1);
  CHECK(best == 0 && decisions > 250 && decisions < 5000);
  STATUS(dpb_snapshot(bandit, bytes, sizeof bytes, &length, NULL), DPB_OK);
  dpb_free(bandit);
  STATUS(dpb_restore(bytes, length, &next, NULL), DPB_OK);
  STATUS(dpb_report_read(next, &report), DPB_OK);
  CHECK(report.stopped == 1 && report.best_arm == 0 && report.arms_active == 1);
  STATUS(dpb_select(next, &d), DPB_OK);
  CHECK(d.arm == 0);
  STATUS(dpb_cancel(next, d.ticket), DPB_OK);

  STATUS(dpb_retire_arm(next, 4), DPB_OK);
  STATUS(dpb_best_arm(next, &best), DPB_OK);
  CHECK(best == 0);
  STATUS(dpb_retire_arm(next, 0), DPB_OK);
  STATUS(dpb_report_read(next, &report), DPB_OK);
  CHECK(report.stopped == 0 && report.arms_active >= 2);
  until_it_wins(next, means, 1);
  STATUS(dpb_add_arm(next, 0, &added, NULL), DPB_OK);
  CHECK(added == 5);
  until_it_wins(next, means, 5);
  STATUS(dpb_retire_arm(next, 0), DPB_INVALID_REQUEST);
  STATUS(dpb_retire_arm(next, 1), DPB_OK);
  STATUS(dpb_retire_arm(next, 2), DPB_OK);
  STATUS(dpb_retire_arm(next, 5), DPB_OK);
  STATUS(dpb_best_arm(next, &best), DPB_OK);
  CHECK(best == 3);
  STATUS(dpb_retire_arm(next, 3), DPB_INVALID_REQUEST); /* the last one */
  dpb_free(next);

  /* The confidence of a decision does not change. */
  config.beta = .2;
  STATUS(dpb_restore_as("dp-tt", &config, bytes, length, &next, &error), DPB_INVALID_CONFIG);
  CHECK(strncmp(error.message, "beta must be 0.01, as in the snapshot", 37) == 0);
  config.beta = .01;
  config.horizon = 1000000;
  STATUS(dpb_restore_as("dp-tt", &config, bytes, length, &next, &error), DPB_OK);
  STATUS(dpb_best_arm(next, &best), DPB_OK);
  CHECK(best == 0);
  dpb_free(next);
}

int main(void) {
  schedule(0.25, 2743);
  schedule(0.5, 2743);
  schedule(1, 2743);
  schedule(0.1, 3317);
  winner();
  return failures != 0;
}
