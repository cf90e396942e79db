/* Eligible arms for each request, and new and retired arms. */
#include "check.h"

int main(void) {
  static const uint32_t some[] = {4, 1, 4}, outside[] = {0, 5}, third[] = {3};
  dpb_config config = seeded(5, 1);
  dpb_bandit *bandit, *fixed;
  dpb_decision d;
  dpb_error error;
  dpb_arm arms[8];
  uint32_t arm = 77;
  size_t n;
  int i;

  STATUS(dpb_new(&config, &bandit, NULL), DPB_OK);
  STATUS(dpb_new_se(&config, &fixed, NULL), DPB_OK);
  STATUS(dpb_select_for(NULL, request(1, 0, 0, some, 3), &d), DPB_NULL);
  STATUS(dpb_select_for(bandit, request(1, 0, 0, NULL, 3), &d), DPB_INVALID_REQUEST);
  STATUS(dpb_select_for(bandit, request(1, 0, 0, some, 3), NULL), DPB_NULL);
  STATUS(dpb_select_for(bandit, request(1, 0, 0, some, 0), &d), DPB_INVALID_REQUEST);
  STATUS(dpb_select_for(bandit, request(1, 0, 0, outside, 2), &d), DPB_INVALID_REQUEST);
  STATUS(dpb_select_for(fixed, request(1, 0, 0, some, 3), &d), DPB_UNSUPPORTED);
  STATUS(dpb_add_arm(NULL, 0, &arm, &error), DPB_NULL);
  STATUS(dpb_add_arm(bandit, 0, NULL, NULL), DPB_NULL);
  STATUS(dpb_add_arm(fixed, 0, &arm, &error), DPB_UNSUPPORTED);
  CHECK(error.status == DPB_UNSUPPORTED && arm == 77);
  STATUS(dpb_retire_arm(NULL, 0), DPB_NULL);
  STATUS(dpb_retire_arm(bandit, 5), DPB_INVALID_REQUEST);
  STATUS(dpb_retire_arm(fixed, 0), DPB_UNSUPPORTED);

  STATUS(dpb_set_prior(NULL, 1, .5, 100, NULL), DPB_NULL);
  STATUS(dpb_set_prior(bandit, 5, .5, 100, NULL), DPB_INVALID_REQUEST);
  STATUS(dpb_set_prior(bandit, 1, -.5, 100, NULL), DPB_INVALID_CONFIG);
  STATUS(dpb_set_prior(bandit, 1, NAN, 100, NULL), DPB_INVALID_CONFIG);
  STATUS(dpb_set_prior(bandit, 1, .5, NAN, NULL), DPB_INVALID_CONFIG);
  STATUS(dpb_set_prior(bandit, 1, .5, 1e9, NULL), DPB_INVALID_CONFIG);
  STATUS(dpb_set_prior(fixed, 1, .5, 100, NULL), DPB_UNSUPPORTED);
  STATUS(dpb_set_prior(bandit, 1, .2, 100, NULL), DPB_OK); /* it never pays, so the handle soon learns better */
  STATUS(dpb_arms_read(bandit, arms, 8, &n), DPB_OK);
  CHECK(isnan(arms[1].mean) && arms[1].effective_pulls == 0);

  for (i = 0; i < 1000; i++) {
    STATUS(dpb_select_for(bandit, request(1, 0, 0, some, 3), &d), DPB_OK);
    CHECK(d.arm == 1 || d.arm == 4);
    STATUS(dpb_update(bandit, d.ticket, d.arm == 4), DPB_OK);
  }
  STATUS(dpb_arms_read(bandit, arms, 8, &n), DPB_OK);
  CHECK(n == 5 && arms[4].pulls > 900 && arms[0].pulls == 0);

  STATUS(dpb_add_arm(bandit, 0, &arm, &error), DPB_OK);
  CHECK(arm == 5);
  STATUS(dpb_select_for(bandit, request(1, 0, 0, third, 1), &d), DPB_OK);
  STATUS(dpb_retire_arm(bandit, 3), DPB_OK);
  STATUS(dpb_retire_arm(bandit, 3), DPB_INVALID_REQUEST);
  STATUS(dpb_update(bandit, d.ticket, 1), DPB_OK); /* the open decision of a retired arm */
  STATUS(dpb_select_for(bandit, request(1, 0, 0, third, 1), &d), DPB_INVALID_REQUEST);
  STATUS(dpb_arms_read(bandit, arms, 5, &n), DPB_BUFFER_TOO_SMALL);
  CHECK(n == 6);
  STATUS(dpb_arms_read(bandit, arms, 8, &n), DPB_OK);
  CHECK(n == 6 && arms[3].active == 0 && arms[5].active == 1);
  STATUS(dpb_add_arm(bandit, 0, &arm, NULL), DPB_OK);
  CHECK(arm == 6); /* ids are never reused */
  for (arm = 0; arm < 6; arm++) {
    if (arm != 3) STATUS(dpb_retire_arm(bandit, arm), DPB_OK);
  }
  STATUS(dpb_retire_arm(bandit, 6), DPB_INVALID_REQUEST); /* the last arm cannot be retired */
  STATUS(dpb_select(bandit, &d), DPB_OK);
  CHECK(d.arm == 6);
  dpb_free(bandit);
  dpb_free(fixed);
  return failures != 0;
}
