/* Handles that merge each other's releases. */
#include "check.h"

static double rewards(const dpb_bandit *bandit, unsigned arm) {
  dpb_arm arms[6];
  size_t n;
  STATUS(dpb_arms_read(bandit, arms, 6, &n), DPB_OK);
  CHECK(arm < n);
  return arms[arm].effective_pulls;
}

int main(void) {
  dpb_config config = seeded(3, 1);
  dpb_bandit *a, *b, *se;
  dpb_error error;
  unsigned char *of_a, *of_b;
  size_t len_a, len_b, t;
  uint32_t arm;
  STATUS(dpb_new(&config, &a, NULL), DPB_OK);
  config.node = 7;
  config.pending_capacity = 64;
  STATUS(dpb_new(&config, &b, NULL), DPB_OK);
  STATUS(dpb_add_arm(a, 2, &arm, &error), DPB_INVALID_CONFIG);
  CHECK(strstr(error.message, "id must not be below config.arms = 3") != NULL);
  STATUS(dpb_add_arm(NULL, 2, &arm, &error), DPB_NULL);
  STATUS(dpb_add_arm(a, 900, NULL, &error), DPB_NULL);
  STATUS(dpb_add_arm(a, 900, &arm, NULL), DPB_OK);
  CHECK(arm == 3);
  STATUS(dpb_add_arm(b, 0, &arm, NULL), DPB_OK);
  STATUS(dpb_add_arm(b, 900, &arm, NULL), DPB_OK);
  CHECK(arm == 4);
  STATUS(dpb_add_arm(b, 900, &arm, NULL), DPB_OK);
  CHECK(arm == 4);
  for (t = 0; t < 2000; t++) {
    dpb_decision d;
    STATUS(dpb_select(a, &d), DPB_OK);
    STATUS(dpb_update(a, d.ticket, d.arm == 1 ? .9 : .3), DPB_OK);
  }
  of_a = snapshot_of(a, &len_a);
  of_b = snapshot_of(b, &len_b);
  STATUS(dpb_merge(NULL, of_a, len_a, NULL), DPB_NULL);
  STATUS(dpb_merge(b, NULL, len_a, &error), DPB_NULL);
  STATUS(dpb_merge(b, of_a, len_a - 1, NULL), DPB_CORRUPT);
  STATUS(dpb_merge(b, NULL, 0, NULL), DPB_CORRUPT);
  CHECK(rewards(b, 1) == 0);
  for (t = 0; t < 3; t++) {
    STATUS(dpb_merge(b, of_a, len_a, NULL), DPB_OK);
    STATUS(dpb_merge(a, of_b, len_b, &error), DPB_OK);
    STATUS(dpb_merge(a, of_a, len_a, NULL), DPB_OK); /* its own releases change nothing */
  }
  CHECK(rewards(b, 1) == rewards(a, 1) && rewards(b, 1) > 100);
  CHECK(rewards(b, 4) == rewards(a, 3) && rewards(b, 4) > 0 && rewards(b, 3) == 0);
  config.epsilon = .25;
  STATUS(dpb_new_se(&config, &se, NULL), DPB_OK);
  STATUS(dpb_merge(se, of_a, len_a, &error), DPB_INVALID_CONFIG);
  CHECK(strstr(error.message, "policy must be dp-imed") != NULL);
  dpb_free(se);
  STATUS(dpb_new(&config, &se, NULL), DPB_OK);
  STATUS(dpb_merge(se, of_a, len_a, &error), DPB_INVALID_CONFIG);
  CHECK(strstr(error.message, "epsilon must be") != NULL);
  dpb_free(se);
  dpb_free(a);
  dpb_free(b);
  free(of_a);
  free(of_b);
  return failures != 0;
}
