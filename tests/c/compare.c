/* Confidence intervals for the difference of two arms' means. */
#include "check.h"

static void refusals(void) {
  dpb_config config = seeded(3, 1);
  dpb_bandit *bandit, *other;
  dpb_decision d;
  uint32_t arm;
  double low = 7, high = 7;

  STATUS(dpb_new(&config, &bandit, NULL), DPB_OK);
  STATUS(dpb_compare(NULL, 0, 1, .9, &low, &high), DPB_NULL);
  STATUS(dpb_compare(bandit, 0, 1, .9, NULL, &high), DPB_NULL);
  STATUS(dpb_compare(bandit, 0, 1, .9, &low, NULL), DPB_NULL);
  STATUS(dpb_compare(bandit, 0, 1, .9, &low, &high), DPB_NOT_READY);
  for (arm = 0; arm < 2; arm++) {
    STATUS(dpb_select_for(bandit, request(1, 0, 0, &arm, 1), &d), DPB_OK); /* the arm's first batch, at epsilon 1 */
    STATUS(dpb_update(bandit, d.ticket, 1), DPB_OK);
  }
  STATUS(dpb_compare(bandit, 0, 2, .9, &low, &high), DPB_NOT_READY); /* only one of the two arms has a release */
  STATUS(dpb_compare(bandit, 2, 0, .9, &low, &high), DPB_NOT_READY);
  STATUS(dpb_compare(bandit, 1, 1, .9, &low, &high), DPB_INVALID_CONFIG);
  STATUS(dpb_compare(bandit, 0, 3, .9, &low, &high), DPB_INVALID_REQUEST);
  STATUS(dpb_compare(bandit, 3, 0, .9, &low, &high), DPB_INVALID_REQUEST);
  STATUS(dpb_compare(bandit, 0, 1, 0, &low, &high), DPB_INVALID_CONFIG);
  STATUS(dpb_compare(bandit, 0, 1, 1, &low, &high), DPB_INVALID_CONFIG);
  STATUS(dpb_compare(bandit, 0, 1, NAN, &low, &high), DPB_INVALID_CONFIG);
  CHECK(low == 7 && high == 7);
  STATUS(dpb_compare(bandit, 0, 1, .9, &low, &high), DPB_OK);
  CHECK(-1 <= low && low < 0 && 0 < high && high <= 1); /* one reward is hardly any evidence */
  low = high = 7;
  STATUS(dpb_lift(NULL, 0, .9, &low, &high), DPB_NULL);
  STATUS(dpb_lift(bandit, 0, .9, NULL, &high), DPB_NULL);
  STATUS(dpb_lift(bandit, 0, .9, &low, NULL), DPB_NULL);
  STATUS(dpb_lift(bandit, DPB_NO_ARM, .9, &low, &high), DPB_NOT_READY); /* an arm has no release */
  STATUS(dpb_lift(bandit, 2, .9, &low, &high), DPB_NOT_READY);
  STATUS(dpb_lift(bandit, 3, .9, &low, &high), DPB_INVALID_REQUEST);
  STATUS(dpb_lift(bandit, 0, 1, &low, &high), DPB_INVALID_CONFIG);
  STATUS(dpb_lift(bandit, 0, NAN, &low, &high), DPB_INVALID_CONFIG);
  CHECK(low == 7 && high == 7);
  STATUS(dpb_lift(bandit, 0, .9, &low, &high), DPB_OK);
  CHECK(low == -1 && high > 1); /* and nothing is known of the control */
  STATUS(dpb_retire_arm(bandit, 1), DPB_OK);
  STATUS(dpb_compare(bandit, 0, 1, .9, &low, &high), DPB_INVALID_REQUEST);
  dpb_free(bandit);

  STATUS(dpb_new_tsallis(&config, &other, NULL), DPB_OK);
  STATUS(dpb_compare(other, 0, 1, .9, &low, &high), DPB_UNSUPPORTED);
  STATUS(dpb_compare(other, 0, 3, .9, &low, &high), DPB_INVALID_REQUEST);
  STATUS(dpb_select(other, &d), DPB_OK);
  STATUS(dpb_lift(other, 0, .9, &low, &high), DPB_UNSUPPORTED);
  dpb_free(other);
  config.forget_after = 4096;
  STATUS(dpb_new(&config, &other, NULL), DPB_OK);
  STATUS(dpb_compare(other, 0, 1, .9, &low, &high), DPB_UNSUPPORTED);
  dpb_free(other);
}

/* Rewards of -1 and 3, with probability one fourth and one half: means 0 and 1. Returns how many decisions pass until
 * the interval shows which arm is better. */
static long known(constructor *construct, double exploration) {
  dpb_config config = seeded(2, 1);
  dpb_bandit *bandit;
  dpb_decision d;
  uint32_t coins = 1;
  double low = 0, high = 0;
  long n;

  config.reward_min = -1;
  config.reward_max = 3;
  config.exploration = exploration;
  STATUS(construct(&config, &bandit, NULL), DPB_OK);
  for (n = 0; n < 50000 && low <= 0; n++) {
    dpb_status status;
    STATUS(dpb_select(bandit, &d), DPB_OK);
    coins = coins * 1664525 + 1013904223;
    STATUS(dpb_update(bandit, d.ticket, (coins >> 24) < (d.arm ? 128u : 64u) ? 3 : -1), DPB_OK);
    if (n % 64 == 0) {
      status = dpb_compare(bandit, 1, 0, .95, &low, &high);
      CHECK(status == DPB_OK || (status == DPB_NOT_READY && low == 0));
      CHECK(low < 1 && (high > 1 || status != DPB_OK) && high <= 4);
    }
  }
  dpb_free(bandit);
  return n;
}

int main(void) {
  refusals();
  CHECK(known(dpb_new_imed, 0.2) < 10000);
  CHECK(known(dpb_new_med, 0.2) < 20000);
  CHECK(known(dpb_new_se, 0) < 40000);
  return failures != 0;
}
