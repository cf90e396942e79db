/* Stopping rules through the C interface: statuses, the released mean, refusals. */
#include "check.h"

typedef dpb_status rule(const dpb_stopping_config *, dpb_stopping **, dpb_error *);

static dpb_stopping_config good(void) {
  dpb_stopping_config config;
  dpb_stopping_config_init(&config, 2, 1);
  config.alpha = 0.25;
  config.beta = 0.05;
  config.test_seed = SEED;
  return config;
}

static void halts(rule *make) {
  dpb_stopping_config config = good();
  dpb_stopping *stopping;
  double mean = -9;
  uint32_t halted = 0, samples = 0;
  STATUS(make(&config, &stopping, NULL), DPB_OK);
  STATUS(dpb_stopping_mean(stopping, &mean), DPB_NOT_READY);
  CHECK(mean == -9);
  while (!halted && samples < 1000000) {
    if (samples % 100 == 0) {
      halted = 7;
      STATUS(dpb_stopping_push(stopping, 2.5, &halted), DPB_INVALID_REWARD);
      STATUS(dpb_stopping_push(stopping, (double)NAN, &halted), DPB_INVALID_REWARD);
      STATUS(dpb_stopping_push(stopping, -(double)INFINITY, &halted), DPB_INVALID_REWARD);
      CHECK(halted == 7);
      STATUS(dpb_stopping_mean(stopping, &mean), DPB_NOT_READY);
    }
    STATUS(dpb_stopping_push(stopping, samples % 4 ? 2 : -1, &halted), DPB_OK); /* mean 5/4 */
    samples++;
  }
  CHECK(halted == 1);
  STATUS(dpb_stopping_mean(stopping, &mean), DPB_OK);
  CHECK(fabs(mean - 1.25) <= 0.25 * 1.25);
  STATUS(dpb_stopping_push(stopping, 1, &halted), DPB_HALTED);
  STATUS(dpb_stopping_mean(stopping, NULL), DPB_NULL);
  STATUS(dpb_stopping_push(stopping, 1, NULL), DPB_NULL);
  dpb_stopping_free(stopping);
}

static void says_whether_it_is_private(rule *make) {
  dpb_stopping_config config = good();
  dpb_stopping *stopping;
  uint32_t is_private = 7;
  STATUS(make(&config, &stopping, NULL), DPB_OK);
  STATUS(dpb_stopping_is_private(stopping, NULL), DPB_NULL);
  STATUS(dpb_stopping_is_private(NULL, &is_private), DPB_NULL);
  CHECK(is_private == 7);
  STATUS(dpb_stopping_is_private(stopping, &is_private), DPB_OK);
  CHECK(is_private == 0); /* because of the test seed */
  dpb_stopping_free(stopping);
  config.test_seed = NULL;
  STATUS(make(&config, &stopping, NULL), DPB_OK);
  STATUS(dpb_stopping_is_private(stopping, &is_private), DPB_OK);
  CHECK(is_private == (make != dpb_new_nas));
  dpb_stopping_free(stopping);
}

#define REFUSE(field, value, expected)                                        \
  do {                                                                        \
    dpb_stopping_config config = good();                                      \
    dpb_stopping *stopping = NULL;                                            \
    dpb_error error;                                                          \
    config.field = (value);                                                   \
    STATUS(make(&config, &stopping, &error), expected);                       \
    CHECK(stopping == NULL && error.status == (expected));                    \
    CHECK((expected) == DPB_NEWER_VERSION || strstr(error.message, #field) == error.message); \
  } while (0)

static void refuses(rule *make) {
  dpb_stopping_config config = good();
  dpb_stopping *stopping = NULL;
  REFUSE(range, 0, DPB_INVALID_CONFIG);
  REFUSE(range, -1, DPB_INVALID_CONFIG);
  REFUSE(range, (double)INFINITY, DPB_INVALID_CONFIG);
  REFUSE(alpha, 0, DPB_INVALID_CONFIG);
  REFUSE(alpha, 1, DPB_INVALID_CONFIG);
  REFUSE(alpha, (double)NAN, DPB_INVALID_CONFIG);
  REFUSE(beta, 0, DPB_INVALID_CONFIG);
  REFUSE(beta, 1, DPB_INVALID_CONFIG);
  REFUSE(struct_size, sizeof config - 8, DPB_INVALID_CONFIG);
  REFUSE(struct_size, sizeof config + 8, DPB_NEWER_VERSION);
  if (make != dpb_new_nas) {
    REFUSE(epsilon, 0, DPB_INVALID_CONFIG);
    REFUSE(epsilon, (double)NAN, DPB_INVALID_CONFIG);
  }
  STATUS(make(NULL, &stopping, NULL), DPB_NULL);
  STATUS(make(&config, NULL, NULL), DPB_NULL);
}

int main(void) {
  static rule *const rules[] = {dpb_new_nas, dpb_new_dp_nas, dpb_new_dp_exp_nas};
  uint32_t halted;
  double mean;
  size_t i;
  for (i = 0; i < 3; i++) {
    halts(rules[i]);
    says_whether_it_is_private(rules[i]);
    refuses(rules[i]);
  }
  STATUS(dpb_stopping_push(NULL, 1, &halted), DPB_NULL);
  STATUS(dpb_stopping_mean(NULL, &mean), DPB_NULL);
  dpb_stopping_free(NULL);
  return failures != 0;
}
