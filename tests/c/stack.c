/* The stack that a thread needs: every policy, segments and features, from the constructor to a merge. */
#define _GNU_SOURCE
#include <pthread.h>
#include "check.h"

enum { STACK = 1 << 20, STATED = 64 << 10 }; /* dpb.h states the second */
static unsigned char stack[STACK] __attribute__((aligned(4096)));

static dpb_config with(uint32_t max_segments, uint32_t features) {
  static const uint8_t key[32] = {7};
  dpb_config config;
  dpb_config_init(&config, 20, 0.5);
  config.horizon = 100000;
  config.base = DPB_POLICY_NONPRIVATE_EXP3;
  config.max_segments = max_segments;
  config.features = features;
  config.feature_model = features > 0 ? DPB_MODEL_PER_ARM : 0;
  if (max_segments + features > 0) config.fleet_key = key;
  return config;
}

static void use(const char *name, dpb_config config) {
  static uint8_t bytes[1 << 22];
  static float row[64];
  dpb_bandit *bandit, *other, *restored;
  dpb_request request;
  dpb_report report;
  dpb_arm arms[20];
  dpb_decision d;
  dpb_error error;
  size_t len, n, t;
  if (dpb_new_policy(name, &config, &bandit, &error) != DPB_OK) {
    config.delta = 1e-5;
    if (dpb_new_policy(name, &config, &bandit, &error) != DPB_OK) return; /* it has features only */
  }
  STATUS(dpb_new_policy(name, &config, &other, &error), DPB_OK);
  dpb_request_init(&request);
  request.features = config.features > 0 ? row : NULL;
  request.features_len = config.features;
  for (t = 0; t < 3000; t++) {
    request.segment = config.max_segments > 0 ? t % 5 : 0;
    row[t % 64] = (float)(t % 7) / 64;
    STATUS(dpb_select_for(bandit, &request, &d), DPB_OK);
    STATUS(dpb_update(bandit, d.ticket, t % 3 == 0), DPB_OK);
  }
  report.struct_size = sizeof report;
  STATUS(dpb_report_read(bandit, &report), DPB_OK);
  STATUS(dpb_arms_read(bandit, arms, 20, &n), DPB_OK);
  request.segment = (uint64_t)1 << 60;
  request.slots = 99;
  CHECK(dpb_request_check(bandit, &request, &error) != DPB_OK);
  if (dpb_snapshot(bandit, bytes, sizeof bytes, &len, NULL) == DPB_OK) {
    STATUS(dpb_restore_as(name, &config, bytes, len, &restored, &error), DPB_OK);
    dpb_free(restored);
    n = dpb_merge(other, bytes, len, &error);
    CHECK(n == DPB_OK || n == DPB_UNSUPPORTED);
  }
  if (config.fleet_key != NULL) {
    uint64_t generation;
    STATUS(dpb_lead(other, &generation, &error), DPB_OK);
    STATUS(dpb_contribution(bandit, generation, bytes, sizeof bytes, &len, &error), DPB_OK);
    if (len > 0) STATUS(dpb_combine(other, bytes, len, &error), DPB_OK); /* empty if all batches have just closed */
  }
  dpb_free(bandit);
  dpb_free(other);
}

static void *all(void *unused) {
  uint32_t i;
  for (i = 0; dpb_policy_at(i) != NULL; i++) use(dpb_policy_at(i), with(0, 0));
  use("dp-imed", with(8, 0));
  use("dp-linear", with(0, 64));
  return unused;
}

int main(void) {
  pthread_attr_t attributes;
  pthread_t thread;
  size_t unused = 0;
  memset(stack, 0xa5, STACK);
  CHECK(pthread_attr_init(&attributes) == 0 && pthread_attr_setstack(&attributes, stack, STACK) == 0);
  CHECK(pthread_create(&thread, &attributes, all, NULL) == 0 && pthread_join(thread, NULL) == 0);
  while (unused < STACK && stack[unused] == 0xa5) unused++;
  printf("a thread used %d bytes of stack\n", (int)(STACK - unused));
  CHECK(STACK - unused <= STATED);
  return failures != 0;
}
