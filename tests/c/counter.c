/* Running sums through the C interface: statuses, stable reads, refusals, errors within their bounds. */
#include "check.h"

static dpb_counter *make(dpb_counter_kind kind, double epsilon, uint64_t horizon) {
  dpb_counter *counter = NULL;
  STATUS(dpb_new_counter(counting(kind, epsilon, horizon, SEED), &counter, NULL), DPB_OK);
  return counter;
}

static void sums(dpb_counter_kind kind) {
  dpb_counter *counter = make(kind, 4, 1000);
  double sum = -1, again = -2;
  uint32_t t;
  STATUS(dpb_counter_read(counter, &sum), DPB_OK);
  CHECK(sum == 0);
  for (t = 1; t <= 512; t++) {
    STATUS(dpb_counter_add(counter, t % 2 ? 0.75 : 0.25), DPB_OK);
    STATUS(dpb_counter_read(counter, &sum), DPB_OK);
    STATUS(dpb_counter_read(counter, &again), DPB_OK);
    CHECK(sum == again);
  }
  CHECK(fabs(sum - 256) < 60 && sum != 256); /* at most 10 noises of scale 10/4 each */
  STATUS(dpb_counter_add(counter, 1.5), DPB_INVALID_REWARD);
  STATUS(dpb_counter_add(counter, -0.1), DPB_INVALID_REWARD);
  STATUS(dpb_counter_add(counter, (double)NAN), DPB_INVALID_REWARD);
  STATUS(dpb_counter_add(counter, (double)INFINITY), DPB_INVALID_REWARD);
  STATUS(dpb_counter_read(counter, &again), DPB_OK);
  CHECK(sum == again);
  STATUS(dpb_counter_read(counter, NULL), DPB_NULL);
  dpb_counter_free(counter);
}

static void refuses(dpb_counter_kind kind, double epsilon, uint64_t horizon, const char *field) {
  dpb_counter *counter = NULL;
  dpb_error error;
  STATUS(dpb_new_counter(counting(kind, epsilon, horizon, NULL), &counter, &error), DPB_INVALID_CONFIG);
  CHECK(counter == NULL && error.status == DPB_INVALID_CONFIG);
  CHECK(strncmp(error.message, field, strlen(field)) == 0 && strstr(error.message, "got ") != NULL);
}

/* The same counter from a configuration struct. */
static void by_configuration(void) {
  dpb_counter_config config;
  dpb_counter *counter = NULL, *twin = make(DPB_COUNTER_BINARY, 1, 8);
  dpb_error error;
  double sum, other;
  dpb_counter_config_init(&config, DPB_COUNTER_BINARY, 1);
  CHECK(config.struct_size == sizeof config && config.horizon == 0 && config.test_seed == NULL);
  STATUS(dpb_new_counter(&config, &counter, &error), DPB_INVALID_CONFIG);
  CHECK(counter == NULL && strstr(error.message, "horizon") == error.message);
  STATUS(dpb_new_counter(NULL, &counter, &error), DPB_NULL);
  CHECK(error.status == DPB_NULL && strcmp(error.message, "config is NULL") == 0);
  STATUS(dpb_new_counter(&config, NULL, &error), DPB_NULL);
  config.horizon = 8;
  config.test_seed = SEED;
  STATUS(dpb_new_counter(&config, &counter, NULL), DPB_OK);
  STATUS(dpb_counter_add(counter, 1), DPB_OK);
  STATUS(dpb_counter_add(twin, 1), DPB_OK);
  STATUS(dpb_counter_read(counter, &sum), DPB_OK);
  STATUS(dpb_counter_read(twin, &other), DPB_OK);
  CHECK(sum == other);
  dpb_counter_free(counter);
  dpb_counter_free(twin);
}

int main(void) {
  dpb_counter *counter;
  double sum;
  uint32_t is_private = 7;
  dpb_counter_kind kind;
  for (kind = DPB_COUNTER_LOGARITHMIC; kind <= DPB_COUNTER_HYBRID; kind++) {
    sums(kind);
    refuses(kind, 0, 10, "epsilon");
    refuses(kind, -1, 10, "epsilon");
    refuses(kind, (double)NAN, 10, "epsilon");
    refuses(kind, (double)INFINITY, 10, "epsilon");
    refuses(kind, 1e-300, 10, "epsilon");
  }
  refuses(DPB_COUNTER_BINARY, 1, 0, "horizon");
  refuses(DPB_COUNTER_BINARY, 1, UINT64_MAX, "horizon");
  refuses(3, 1, 10, "kind");
  by_configuration();

  counter = make(DPB_COUNTER_BINARY, 1, 2);
  STATUS(dpb_counter_add(counter, 1), DPB_OK);
  STATUS(dpb_counter_add(counter, 1), DPB_OK);
  STATUS(dpb_counter_add(counter, 1), DPB_HALTED);
  STATUS(dpb_counter_is_private(counter, NULL), DPB_NULL);
  STATUS(dpb_counter_is_private(NULL, &is_private), DPB_NULL);
  CHECK(is_private == 7);
  STATUS(dpb_counter_is_private(counter, &is_private), DPB_OK);
  CHECK(is_private == 0); /* because of the test seed */
  dpb_counter_free(counter);
  STATUS(dpb_new_counter(counting(DPB_COUNTER_HYBRID, 1, 0, NULL), &counter, NULL), DPB_OK);
  STATUS(dpb_counter_is_private(counter, &is_private), DPB_OK);
  CHECK(is_private == 1);
  dpb_counter_free(counter);

  STATUS(dpb_new_counter(counting(DPB_COUNTER_HYBRID, 1, 0, NULL), NULL, NULL), DPB_NULL);
  STATUS(dpb_counter_add(NULL, 1), DPB_NULL);
  STATUS(dpb_counter_read(NULL, &sum), DPB_NULL);
  dpb_counter_free(NULL);
  return failures != 0;
}
