/* Budgets: a constructor charges them, or fails if too little is left. */
#include "check.h"

static double spent(const dpb_budget *budget, double delta) {
  double epsilon = -7;
  STATUS(dpb_budget_spent(budget, delta, &epsilon), DPB_OK);
  return epsilon;
}

static dpb_config private_one(uint32_t arms, double epsilon) {
  dpb_config config = seeded(arms, epsilon);
  config.test_seed = NULL;
  return config;
}

static double remaining(const dpb_budget *budget) {
  double epsilon = -7;
  STATUS(dpb_budget_remaining(budget, &epsilon), DPB_OK);
  return epsilon;
}

static void refusals(void) {
  dpb_budget *budget = NULL;
  dpb_error error;
  double x = 7;
  STATUS(dpb_new_budget(1, 0, NULL, &error), DPB_NULL);
  STATUS(dpb_new_budget(0, 0, &budget, &error), DPB_INVALID_CONFIG);
  CHECK(strcmp(error.message, "epsilon must be finite and > 0, got 0") == 0);
  STATUS(dpb_new_budget(INFINITY, 0, &budget, NULL), DPB_INVALID_CONFIG);
  STATUS(dpb_new_budget(1, 1, &budget, &error), DPB_INVALID_CONFIG);
  CHECK(strcmp(error.message, "delta must be in [0, 1), got 1") == 0 && budget == NULL);
  STATUS(dpb_new_budget(1, 0, &budget, NULL), DPB_OK);
  STATUS(dpb_budget_spent(NULL, 0, &x), DPB_NULL);
  STATUS(dpb_budget_spent(budget, 0, NULL), DPB_NULL);
  STATUS(dpb_budget_spent(budget, -1, &x), DPB_INVALID_CONFIG);
  STATUS(dpb_budget_remaining(NULL, &x), DPB_NULL);
  STATUS(dpb_budget_remaining(budget, NULL), DPB_NULL);
  CHECK(x == 7 && spent(budget, 0) == 0 && remaining(budget) == 1);
  dpb_budget_free(budget);
  dpb_budget_free(NULL);
}

/* Ten handles at epsilon 0.1 use up a budget of 1, so an eleventh is refused. The handles work on after
 * dpb_budget_free. */
static void ten(void) {
  dpb_config config = private_one(3, 0.1);
  dpb_bandit *bandits[11];
  dpb_budget *budget;
  dpb_decision d;
  dpb_error error;
  int i;
  STATUS(dpb_new_budget(1, 0, &budget, NULL), DPB_OK);
  config.budget = budget;
  for (i = 0; i < 10; i++) STATUS(dpb_new(&config, &bandits[i], &error), DPB_OK);
  CHECK(fabs(spent(budget, 0) - 1) < 1e-12 && remaining(budget) < 1e-12);
  bandits[10] = NULL;
  STATUS(dpb_new(&config, &bandits[10], &error), DPB_OVER_BUDGET);
  CHECK(bandits[10] == NULL && error.status == DPB_OVER_BUDGET);
  CHECK(strstr(error.message, "the budget of epsilon 1 at delta 0 would be overspent: 1.1") == error.message);
  CHECK(fabs(spent(budget, 0) - 1) < 1e-12);
  dpb_free(bandits[0]); /* the budget gets nothing back */
  STATUS(dpb_new(&config, &bandits[10], NULL), DPB_OVER_BUDGET);
  dpb_budget_free(budget);
  for (i = 1; i < 10; i++) {
    STATUS(dpb_select(bandits[i], &d), DPB_OK);
    STATUS(dpb_update(bandits[i], d.ticket, 1), DPB_OK);
    dpb_free(bandits[i]);
  }
}

/* A constructor that fails charges nothing. A restored handle charges what all its generations may lose together. */
static void lives(void) {
  dpb_config config = private_one(3, 1);
  dpb_bandit *bandit, *next, *none = NULL;
  dpb_budget *budget;
  uint8_t bytes[1024];
  size_t n;
  STATUS(dpb_new_budget(2.5, 1e-6, &budget, NULL), DPB_OK);
  config.budget = budget;
  config.arms = 1;
  STATUS(dpb_new(&config, &none, NULL), DPB_INVALID_CONFIG);
  config.arms = 3;
  STATUS(dpb_new_nonprivate_ucb1(&config, &none, NULL), DPB_OVER_BUDGET);
  STATUS(dpb_new_exp3_tau(&config, &none, NULL), DPB_INVALID_CONFIG); /* a delta is required */
  CHECK(none == NULL && spent(budget, 0) == 0);
  STATUS(dpb_new(&config, &bandit, NULL), DPB_OK);
  CHECK(spent(budget, 0) == 1 && spent(budget, 1e-6) == 1 && remaining(budget) == 1.5);
  STATUS(dpb_snapshot(bandit, bytes, sizeof bytes, &n, NULL), DPB_OK);
  STATUS(dpb_restore(bytes, n, &next, NULL), DPB_OK);
  CHECK(spent(budget, 0) == 1);
  dpb_free(next);
  config.epsilon = 0.5;
  STATUS(dpb_restore_as("dp-imed", &config, bytes, n, &none, NULL), DPB_INVALID_CONFIG);
  CHECK(none == NULL && spent(budget, 0) == 1);
  config.epsilon = 1;
  config.beta = 0.1; /* another value than in the snapshot */
  STATUS(dpb_restore_as("dp-imed", &config, bytes, n, &next, NULL), DPB_OK);
  CHECK(spent(budget, 0) == 2);
  STATUS(dpb_restore_as("dp-imed", &config, bytes, n, &none, NULL), DPB_OVER_BUDGET);
  CHECK(none == NULL && spent(budget, 0) == 2);
  config.struct_size = (uint32_t)((char *)&config.budget - (char *)&config); /* without the field */
  STATUS(dpb_new(&config, &none, NULL), DPB_INVALID_CONFIG);
  CHECK(none == NULL && spent(budget, 0) == 2);
  dpb_free(next);
  dpb_free(bandit);
  dpb_budget_free(budget);
}

/* A budget refuses a test_seed, because a seeded handle is not private. */
static void seeds(void) {
  dpb_config config = seeded(3, 1);
  dpb_bandit *bandit = NULL, *none = NULL;
  dpb_bandit *pool = NULL;
  dpb_budget *budget;
  dpb_error error;
  uint8_t bytes[1024];
  size_t n;
  STATUS(dpb_new_budget(9, 1e-6, &budget, NULL), DPB_OK);
  STATUS(dpb_new(&config, &bandit, NULL), DPB_OK);
  STATUS(dpb_snapshot(bandit, bytes, sizeof bytes, &n, NULL), DPB_OK);
  config.budget = budget;
  STATUS(dpb_new(&config, &none, &error), DPB_OVER_BUDGET);
  CHECK(strstr(error.message, "test_seed") != NULL);
  config.max_segments = 3;
  STATUS(dpb_new(&config, &pool, NULL), DPB_OVER_BUDGET);
  config.max_segments = 0;
  config.test_seed = NULL;
  STATUS(dpb_restore_as("dp-imed", &config, bytes, n, &none, NULL), DPB_OVER_BUDGET);
  CHECK(none == NULL && pool == NULL && spent(budget, 0) == 0);
  dpb_free(bandit);
  dpb_budget_free(budget);
}

/* With users a budget covers a number of periods, in all generations together. */
static void periods(void) {
  dpb_config config = private_one(3, 1);
  dpb_bandit *bandit = NULL, *none = NULL;
  dpb_budget *budget;
  dpb_error error;
  uint8_t bytes[1024];
  size_t n;
  CHECK(config.budget_periods == 0 && config.max_segments == 0);
  STATUS(dpb_new_budget(7, 0, &budget, NULL), DPB_OK);
  config.budget = budget;
  config.budget_periods = 3;
  STATUS(dpb_new(&config, &none, &error), DPB_INVALID_CONFIG);
  CHECK(strcmp(error.message, "budget_periods must be 0 without expected_users, got 3") == 0);
  config.expected_users = 100;
  config.budget_periods = 0;
  STATUS(dpb_new(&config, &none, &error), DPB_INVALID_CONFIG);
  CHECK(strstr(error.message, "budget_periods must be at least 1 with expected_users and a budget") == error.message);
  config.budget_periods = 8;
  STATUS(dpb_new(&config, &none, &error), DPB_OVER_BUDGET);
  config.budget_periods = 3;
  CHECK(spent(budget, 0) == 0);
  STATUS(dpb_new(&config, &bandit, NULL), DPB_OK);
  CHECK(spent(budget, 0) == 3 && remaining(budget) == 4);
  STATUS(dpb_next_period(bandit), DPB_OK);
  STATUS(dpb_snapshot(bandit, bytes, sizeof bytes, &n, NULL), DPB_OK);
  dpb_free(bandit);
  STATUS(dpb_restore(bytes, n, &bandit, NULL), DPB_OK); /* the third generation */
  CHECK(spent(budget, 0) == 3);
  STATUS(dpb_next_period(bandit), DPB_OVER_BUDGET);
  STATUS(dpb_snapshot(bandit, bytes, sizeof bytes, &n, NULL), DPB_OK);
  STATUS(dpb_next_period(bandit), DPB_OVER_BUDGET);
  STATUS(dpb_restore(bytes, n, &none, &error), DPB_OVER_BUDGET);
  CHECK(strstr(error.message, "budget_periods is 3") == error.message && none == NULL);
  config.budget_periods = 4; /* another number, so all periods are charged */
  STATUS(dpb_restore_as("dp-imed", &config, bytes, n, &none, &error), DPB_OK);
  CHECK(spent(budget, 0) == 7);
  dpb_free(none);
  dpb_free(bandit);
  dpb_budget_free(budget);
}

static unsigned char *state_of(dpb_bandit *bandit, size_t *len) {
  unsigned char *bytes;
  STATUS(dpb_suspend(bandit, 0, NULL, 0, len, NULL), DPB_BUFFER_TOO_SMALL);
  bytes = (unsigned char *)malloc(*len);
  CHECK(bytes != NULL);
  STATUS(dpb_suspend(bandit, 0, bytes, *len, len, NULL), DPB_OK);
  dpb_free(bandit);
  return bytes;
}

/* A resumed handle is charged the difference to the charge of the suspended one. */
static void moves(void) {
  static const uint8_t KEY[32] = {7, 8, 9};
  dpb_config config = private_one(3, 2);
  dpb_bandit *bandit = NULL, *none = NULL;
  dpb_budget *budget, *next;
  dpb_error error;
  unsigned char *state;
  uint8_t bytes[1024];
  size_t n, len;
  STATUS(dpb_new_budget(3, 0, &budget, NULL), DPB_OK);
  config.budget = budget;
  config.fleet_key = KEY;
  config.expected_users = 100;
  config.budget_periods = 1;
  STATUS(dpb_new(&config, &bandit, NULL), DPB_OK);
  STATUS(dpb_snapshot(bandit, bytes, sizeof bytes, &n, NULL), DPB_OK);
  state = state_of(bandit, &len);
  config.budget_periods = 50;
  STATUS(dpb_resume(NULL, &config, state, len, &none, &error), DPB_OVER_BUDGET);
  CHECK(none == NULL && spent(budget, 0) == 2);
  CHECK(strcmp(error.message, "the budget of epsilon 3 at delta 0 would be overspent: 100") == 0);
  config.budget_periods = 1;
  STATUS(dpb_resume(NULL, &config, state, len, &bandit, NULL), DPB_OK);
  CHECK(spent(budget, 0) == 2);
  dpb_free(bandit);
  free(state);

  /* The process restores a snapshot, and then moves the handle. */
  STATUS(dpb_new_budget(5, 0, &next, NULL), DPB_OK);
  config.budget = next;
  config.budget_periods = 2;
  STATUS(dpb_restore_as("dp-imed", &config, bytes, n, &bandit, NULL), DPB_OK);
  state = state_of(bandit, &len);
  STATUS(dpb_resume(NULL, &config, state, len, &bandit, NULL), DPB_OK);
  CHECK(spent(next, 0) == 4);
  dpb_free(bandit);
  free(state);
  dpb_budget_free(next);
  dpb_budget_free(budget);
}

int main(void) {
  seeds();
  moves();
  periods();
  refusals();
  ten();
  lives();
  return failures != 0;
}
