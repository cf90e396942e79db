/*
 * Learns which of five ads is clicked most, with differential privacy for each click. After
 * `cargo build --release`:
 *
 *   cc examples/c/quickstart.c -I include target/release/libdpb.a \
 *      -lgcc_s -lutil -lrt -lpthread -lm -ldl -lc -o quickstart
 */
#include <dpb.h>
#include <stdio.h>
#include <stdlib.h>

#define ADS 5
static const double CLICK_RATE[ADS] = {0.10, 0.20, 0.30, 0.40, 0.70}; /* unknown to the bandit */

static void check(dpb_status status) {
  if (status != DPB_OK) {
    fprintf(stderr, "%s\n", dpb_status_name(status));
    exit(1);
  }
}

int main(void) {
  dpb_config config;
  dpb_config_init(&config, ADS, 1.0); /* epsilon = 1 */
  config.reward_window = 1000;        /* no click within 1000 decisions: reward 0 */

  dpb_bandit *bandit;
  dpb_error error;
  if (dpb_new(&config, &bandit, &error) != DPB_OK) {
    fprintf(stderr, "%s\n", error.message);
    return 1;
  }

  for (int visitor = 0; visitor < 100000; visitor++) {
    dpb_decision decision;
    check(dpb_select(bandit, &decision));
    if (rand() < CLICK_RATE[decision.arm] * RAND_MAX) {
      check(dpb_update(bandit, decision.ticket, 1)); /* a click, now or later */
    }
  }

  dpb_arm arms[ADS];
  size_t n;
  check(dpb_arms_read(bandit, arms, ADS, &n));
  for (size_t i = 0; i < n; i++) {
    printf("ad %zu: shown %6llu times, click rate %.3f +- %.3f\n", i, (unsigned long long)arms[i].pulls,
           arms[i].mean, arms[i].width);
  }
  double epsilon;
  check(dpb_epsilon_spent(bandit, 0.0, &epsilon));
  printf("privacy loss of one reward: %g\n", epsilon);
  dpb_free(bandit);
  return 0;
}
