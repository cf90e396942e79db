/* Every policy of the central model through its own constructor: decisions, name and number, learning, the reported
   loss, and the error that names a missing field. */
#include "check.h"

static void plays(constructor *make, const char *name, uint32_t number, double loss) {
  static const double means[] = {.1, .9, .2};
  dpb_config config = seeded(3, 2);
  dpb_bandit *bandit;
  dpb_report report;
  dpb_arm arms[3];
  double epsilon = -1;
  size_t n, t;
  report.struct_size = sizeof report;
  if (make == dpb_new_ucb_int) config.delta = 1e-5;
  STATUS(make(&config, &bandit, NULL), DPB_OK);
  CHECK(strcmp(dpb_policy_name(bandit), name) == 0);
  for (t = 0; t < 20000; t++) {
    dpb_decision d;
    STATUS(dpb_select(bandit, &d), DPB_OK);
    CHECK(d.arm < 3 && d.propensity == 1);
    if (t % 10 == 9) STATUS(dpb_cancel(bandit, d.ticket), DPB_OK);
    else STATUS(dpb_update(bandit, d.ticket, means[d.arm]), DPB_OK);
  }
  STATUS(dpb_report_read(bandit, &report), DPB_OK);
  CHECK(report.policy == number && report.decisions == 20000 && report.answered == 18000);
  STATUS(dpb_epsilon_spent(bandit, 1e-5, &epsilon), DPB_OK);
  CHECK(epsilon > 0 && epsilon <= loss * 1.0000001);
  CHECK(epsilon == report.epsilon_spent);
  STATUS(dpb_arms_read(bandit, arms, 3, &n), DPB_OK);
  CHECK(arms[1].pulls > arms[0].pulls && arms[1].pulls > arms[2].pulls);
  CHECK(arms[1].active == 1 && fabs(arms[1].mean - .9) <= arms[1].width);
  dpb_free(bandit);
}

#define REFUSE(make, field, value)                                            \
  do {                                                                        \
    dpb_config config = seeded(3, 1);                                         \
    dpb_bandit *bandit = NULL;                                                \
    dpb_error error;                                                          \
    if (make == dpb_new_ucb_int) config.delta = 1e-5;                         \
    config.field = (value);                                                   \
    STATUS(make(&config, &bandit, &error), DPB_INVALID_CONFIG);               \
    CHECK(bandit == NULL && strstr(error.message, #field) == error.message);  \
  } while (0)

int main(void) {
  double none = (double)INFINITY;
  plays(dpb_new_nonprivate_ucb1, "nonprivate-ucb1", DPB_POLICY_NONPRIVATE_UCB1, none);
  plays(dpb_new_nonprivate_klucb, "nonprivate-klucb", DPB_POLICY_NONPRIVATE_KLUCB, none);
  plays(dpb_new_nonprivate_imed, "nonprivate-imed", DPB_POLICY_NONPRIVATE_IMED, none);
  plays(dpb_new_nonprivate_se, "nonprivate-se", DPB_POLICY_NONPRIVATE_SE, none);
  plays(dpb_new_ucb_bound, "dp-ucb-bound", DPB_POLICY_UCB_BOUND, 2);
  plays(dpb_new_ucb, "dp-ucb", DPB_POLICY_UCB, 2);
  plays(dpb_new_ucb_int, "dp-ucb-int", DPB_POLICY_UCB_INT, 2);
  plays(dpb_new_private_ucb, "private-ucb", DPB_POLICY_PRIVATE_UCB, 2);

  REFUSE(dpb_new_ucb_bound, epsilon, 0);
  REFUSE(dpb_new_ucb, epsilon, -1);
  REFUSE(dpb_new_ucb_int, epsilon, (double)NAN);
  REFUSE(dpb_new_private_ucb, epsilon, (double)INFINITY);
  REFUSE(dpb_new_ucb_bound, epsilon, 1e-300);
  REFUSE(dpb_new_ucb_int, epsilon, 1e-300);
  REFUSE(dpb_new_ucb_int, delta, 0);
  REFUSE(dpb_new_ucb_int, interval_exponent, 1);
  REFUSE(dpb_new_ucb_int, interval_exponent, 1.6);
  REFUSE(dpb_new_ucb_int, interval_exponent, (double)NAN);
  REFUSE(dpb_new_private_ucb, horizon, 0);
  REFUSE(dpb_new_private_ucb, horizon, UINT64_MAX);
  REFUSE(dpb_new_nonprivate_se, horizon, 0);
  return failures != 0;
}
