/* A child process must not draw its parent's noise again: in it, every call on the parent's handles is DPB_POISONED,
   whichever function made the child. Linux. */
#define _GNU_SOURCE
#include "check.h"

#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static dpb_bandit *bandit;
static dpb_bandit *pool;
static dpb_budget *budget;
static dpb_counter *counter;
static dpb_stopping *stopping;
static dpb_shuffler *shuffler;
static uint64_t ticket;
static uint8_t shot[1000];
static size_t shot_len;

/* Calls all functions on the parent's handles; each must return `expected`. A new handle works in any process. */
static int use(dpb_status expected) {
  dpb_config config = seeded(5, 1);
  dpb_bandit *own;
  dpb_decision d;
  dpb_report report;
  dpb_arm arm;
  uint32_t halted, best;
  uint8_t bits[64];
  double x;
  size_t n;
  dpb_status late = expected == DPB_OK ? DPB_NOT_READY : expected;
  report.struct_size = sizeof report;
  memset(bits, 0, sizeof bits);
  STATUS(dpb_select(bandit, &d), expected);
  STATUS(dpb_select_many(bandit, NULL, 1, &d, &n), expected);
  STATUS(dpb_update(bandit, ticket, 1), expected);
  if (expected == DPB_POISONED) STATUS(dpb_cancel(bandit, ticket), DPB_POISONED);
  STATUS(dpb_report_read(bandit, &report), expected);
  if (expected == DPB_POISONED) STATUS(dpb_arms_read(bandit, &arm, 1, &n), DPB_POISONED);
  STATUS(dpb_best_arm(bandit, &best), late == DPB_POISONED ? late : DPB_UNSUPPORTED);
  STATUS(dpb_epsilon_spent(bandit, 0, &x), expected);
  STATUS(dpb_select_for(pool, request(1, 7, 0, NULL, 0), &d), expected);
  STATUS(dpb_snapshot(pool, NULL, 0, &n, NULL), expected == DPB_OK ? DPB_BUFFER_TOO_SMALL : expected);
  STATUS(dpb_merge(pool, shot, shot_len, NULL), expected);
  STATUS(dpb_compare(bandit, 0, 1, .5, &x, &x), late);
  STATUS(dpb_lift(bandit, DPB_NO_ARM, .5, &x, &x), late);
  STATUS(dpb_budget_spent(budget, 0, &x), expected);
  STATUS(dpb_budget_remaining(budget, &x), expected);
  STATUS(dpb_counter_add(counter, 1), expected);
  STATUS(dpb_counter_read(counter, &x), expected);
  STATUS(dpb_stopping_push(stopping, 1, &halted), expected);
  STATUS(dpb_stopping_mean(stopping, &x), late);
  STATUS(dpb_shuffler_push(shuffler, bits, 21), expected);
  STATUS(dpb_shuffler_take(shuffler, bits, sizeof bits, &n), late);
  config.budget = budget;
  config.test_seed = NULL; /* a budget refuses a test_seed */
  own = NULL;
  STATUS(dpb_new_se(&config, &own, NULL), expected); /* a child that could charge it would spend the budget twice */
  dpb_free(own);
  config = seeded(5, 1);
  STATUS(dpb_new_se(&config, &own, NULL), DPB_OK);
  STATUS(dpb_select(own, &d), DPB_OK);
  dpb_free(own);
  return failures != 0;
}

static void in_child(pid_t child) {
  int status;
  if (child == 0) _exit(use(DPB_POISONED));
  CHECK(child > 0);
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(void) {
  dpb_config config = seeded(5, 1);
  dpb_stopping_config rule;
  dpb_shuffle_params plan;
  dpb_decision d;
  dpb_stopping_config_init(&rule, 1, 1);
  rule.alpha = rule.beta = 0.1;
  STATUS(dpb_new(&config, &bandit, NULL), DPB_OK);
  config.max_segments = 2;
  STATUS(dpb_new(&config, &pool, NULL), DPB_OK);
  STATUS(dpb_snapshot(pool, shot, sizeof shot, &shot_len, NULL), DPB_OK);
  STATUS(dpb_new_budget(1, 0, &budget, NULL), DPB_OK);
  STATUS(dpb_new_counter(counting(DPB_COUNTER_HYBRID, 1, 0, NULL), &counter, NULL), DPB_OK);
  STATUS(dpb_new_dp_nas(&rule, &stopping, NULL), DPB_OK);
  STATUS(dpb_shuffle_plan(1, 1e-6, 4, 0, &plan, NULL), DPB_OK);
  CHECK(plan.coins_per_user == 20);
  STATUS(dpb_new_shuffler(&plan, &shuffler, NULL), DPB_OK);
  STATUS(dpb_select(bandit, &d), DPB_OK);
  ticket = d.ticket;

  in_child(fork());
#if defined(__GLIBC__) && (__GLIBC__ > 2 || __GLIBC_MINOR__ >= 34)
  in_child(_Fork()); /* runs no handlers of pthread_atfork */
#endif
  in_child((pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL)); /* runs none either */

  use(DPB_OK); /* the parent's handles still work */
  dpb_free(bandit);
  dpb_free(pool);
  dpb_budget_free(budget);
  dpb_counter_free(counter);
  dpb_stopping_free(stopping);
  dpb_shuffler_free(shuffler);
  return failures != 0;
}
