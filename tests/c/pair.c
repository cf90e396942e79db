/* Prints the nanoseconds of a select and its update: the least of many rounds. Timing.java does the same. */
#define _POSIX_C_SOURCE 199309L
#include <dpb.h>
#include <stdio.h>
#include <time.h>

enum { ROUNDS = 200, PAIRS = 20000 };

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

int main(void) {
  dpb_config config;
  dpb_bandit *bandit;
  dpb_decision decision;
  double least = 1e18;
  int round, i;

  dpb_config_init(&config, 10, 1.0);
  if (dpb_new(&config, &bandit, NULL) != DPB_OK)
    return 1;
  for (round = 0; round < ROUNDS; round++) {
    double begun = now(), taken;
    for (i = 0; i < PAIRS; i++)
      if (dpb_select(bandit, &decision) != DPB_OK || dpb_update(bandit, decision.ticket, i & 1) != DPB_OK)
        return 1;
    taken = (now() - begun) / PAIRS;
    least = taken < least ? taken : least;
  }
  printf("%.1f\n", least);
  dpb_free(bandit);
  return 0;
}
