/* A program that has set another rounding mode, or made invalid operations signals, sees what any other program sees. */
#define _GNU_SOURCE
#include <fenv.h>
#include "check.h"

enum { DECISIONS = 3000 };

typedef struct {
  double loss;
  uint32_t arms[DECISIONS], coins[2];
} seen;

/* Everything that a seeded handle of this policy shows. */
static void see(const char *name, seen *all) {
  dpb_config config = seeded(4, 0.5);
  dpb_bandit *bandit = NULL;
  dpb_shuffle_params params;
  dpb_status status;
  dpb_error error;
  int i;
  memset(all, 0, sizeof *all);
  config.horizon = 1000000;
  config.base = DPB_POLICY_NONPRIVATE_EXP3;
  do {
    status = dpb_new_policy(name, &config, &bandit, &error);
  } while (status == DPB_INVALID_CONFIG && fits(&config, &error));
  STATUS(status, DPB_OK);
  for (i = 0; i < DECISIONS; i++) {
    dpb_decision decision;
    status = dpb_select(bandit, &decision);
    if (status != DPB_OK) break; /* a policy of the shuffle model waits for its batch */
    all->arms[i] = decision.arm;
    STATUS(dpb_update(bandit, decision.ticket, i % 3 == 0), DPB_OK);
  }
  STATUS(dpb_epsilon_spent(bandit, 1e-6, &all->loss), DPB_OK);
  dpb_free(bandit);
  STATUS(dpb_shuffle_plan(1, 1e-6, 1000, 0, &params, NULL), DPB_OK);
  all->coins[0] = params.coins_per_user;
  all->coins[1] = params.coin_numerator;
}

int main(void) {
  static const int modes[] = {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
  static seen expected, now;
  const char *name;
  size_t policy;
  int mode;
  for (policy = 0; (name = dpb_policy_at(policy)) != NULL; policy++) {
    if (strcmp(name, "dp-linear") == 0) continue; /* its requests have features */
    see(name, &expected);
    for (mode = 0; mode < 4; mode++) {
      CHECK(fesetround(modes[mode]) == 0);
#ifdef __GLIBC__
      feenableexcept(FE_INVALID | FE_DIVBYZERO | FE_OVERFLOW);
#endif
      see(name, &now);
#ifdef __GLIBC__
      CHECK(fedisableexcept(FE_ALL_EXCEPT) == (FE_INVALID | FE_DIVBYZERO | FE_OVERFLOW));
#endif
      CHECK(fegetround() == modes[mode]);
      CHECK(fesetround(FE_TONEAREST) == 0);
      if (expected.loss != now.loss || memcmp(expected.arms, now.arms, sizeof now.arms) != 0 ||
          memcmp(expected.coins, now.coins, sizeof now.coins) != 0) {
        failures++;
        fprintf(stderr, "%s is another policy in rounding mode %d\n", name, mode);
      }
    }
  }
  CHECK(policy > 20);
  return failures != 0;
}
