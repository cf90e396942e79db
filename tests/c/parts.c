/* Rewards in parts: all orders of reports, with repeats, give the same bits, those of one reward that is the sum. */
#include "check.h"

enum { DECISIONS = 2000, WINDOW = 100, PARTS = 3 };
static const double WEIGHTS[PARTS] = {0.125, 0.25, -0.25}; /* a click, what was bought, what came back */
static const int ORDERS[6][PARTS] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};

static dpb_config of_parts(void) {
  dpb_config config = seeded(4, 1);
  int i;
  CHECK(config.parts == 0 && config.part_weights[0] == 0 && config.part_weights[7] == 0);
  config.reward_window = WINDOW;
  config.reward_min = -1;
  config.parts = PARTS;
  for (i = 0; i < PARTS; i++) {
    config.part_weights[i] = WEIGHTS[i];
  }
  return config;
}

/* The means of arms after some decisions. order: of reports, or -1 for whole rewards. */
static void play(int order, dpb_arm *arms) {
  dpb_config config = of_parts();
  dpb_bandit *bandit = NULL;
  size_t n;
  int i, j;
  if (order < 0) {
    config.parts = 0;
    memset(config.part_weights, 0, sizeof config.part_weights);
  }
  STATUS(dpb_new(&config, &bandit, NULL), DPB_OK);
  for (i = 0; i < DECISIONS; i++) {
    /* Which parts come, and how much, in sixteenths: all sums are exact, and some leave the range. */
    const int came = i % 8;
    const double value[PARTS] = {(i % 5) / 16.0, (i % 91) / 16.0, (i % 77) / 16.0};
    double sum = 0;
    dpb_decision d;
    STATUS(dpb_select(bandit, &d), DPB_OK);
    for (j = 0; j < PARTS; j++) {
      sum += came >> j & 1 ? WEIGHTS[j] * value[j] : 0;
    }
    for (j = 0; j < PARTS && order >= 0; j++) {
      const int part = ORDERS[order][j];
      if (came >> part & 1) {
        STATUS(dpb_update_part(bandit, d.ticket, (uint32_t)part, value[part]), DPB_OK);
        STATUS(dpb_update_part(bandit, d.ticket, (uint32_t)part, value[part]), DPB_DUPLICATE);
      }
    }
    if (order < 0) {
      STATUS(dpb_update(bandit, d.ticket, sum < -1 ? -1 : sum > 1 ? 1 : sum), DPB_OK);
    }
  }
  STATUS(dpb_arms_read(bandit, arms, 4, &n), DPB_OK);
  dpb_free(bandit);
}

static void every_order_is_the_sum(void) {
  dpb_arm whole[4], parts[4];
  int order, i;
  play(-1, whole);
  for (order = 0; order < 6; order++) {
    play(order, parts);
    for (i = 0; i < 4; i++) {
      CHECK(!memcmp(&whole[i].mean, &parts[i].mean, sizeof whole[i].mean) && whole[i].pulls == parts[i].pulls);
    }
  }
}

static void refusals(void) {
  dpb_config config = of_parts();
  dpb_bandit *bandit = NULL;
  dpb_error error;
  dpb_decision d;
  STATUS(dpb_new(&config, &bandit, NULL), DPB_OK);
  STATUS(dpb_select(bandit, &d), DPB_OK);
  STATUS(dpb_update_part(NULL, d.ticket, 0, 1), DPB_NULL);
  STATUS(dpb_update_part(bandit, d.ticket, PARTS, 1), DPB_INVALID_CONFIG);
  STATUS(dpb_update_part(bandit, d.ticket, UINT32_MAX, 1), DPB_INVALID_CONFIG);
  STATUS(dpb_update_part(bandit, d.ticket, 1, NAN), DPB_INVALID_REWARD);
  STATUS(dpb_update_part(bandit, d.ticket, 1, 121), DPB_INVALID_REWARD); /* the range is 2, and 15 of it are 120 */
  STATUS(dpb_update_part(bandit, d.ticket, 1, 120), DPB_OK);
  STATUS(dpb_update(bandit, d.ticket, 1), DPB_OK); /* part 0 */
  STATUS(dpb_update_part(bandit, d.ticket, 0, 1), DPB_DUPLICATE);
  STATUS(dpb_cancel(bandit, d.ticket), DPB_OK);
  STATUS(dpb_update_part(bandit, d.ticket, 2, 1), DPB_DUPLICATE);
  dpb_free(bandit);

  config.part_weights[1] = 0;
  STATUS(dpb_new(&config, &bandit, &error), DPB_INVALID_CONFIG);
  CHECK(!strcmp(error.message, "part_weights must be finite and not 0, as shares of the range too, got [0.125, 0, -0.25]"));
}

int main(void) {
  every_order_is_the_sum();
  refusals();
  return 0;
}
