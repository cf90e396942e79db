/* Threads on one handle: every ticket gets one reward or one cancellation, whichever thread tries. */
#define _POSIX_C_SOURCE 200809L
#include "check.h"
#include <pthread.h>

enum { THREADS = 4, EACH = 64, ALL = THREADS * EACH, ROUNDS = 60, ARMS = 10 };

typedef struct {
  dpb_bandit *bandit;
  pthread_barrier_t barrier;
  uint64_t tickets[ALL];
  unsigned char ended[THREADS][ALL]; /* by this thread, with DPB_OK */
  unsigned long answered, cancelled; /* by thread 0, at the barrier */
} table;

typedef struct {
  table *table;
  unsigned number;
} seat;

static void all_arrive(table *table) {
  const int status = pthread_barrier_wait(&table->barrier);
  CHECK(status == 0 || status == PTHREAD_BARRIER_SERIAL_THREAD);
}

/* Tries to end every ticket of the round, the next thread's first. Half of the threads cancel every other ticket. */
static void end_all(table *table, unsigned me) {
  unsigned i;
  for (i = 0; i < ALL; i++) {
    const unsigned at = (i + (me + 1) * EACH) % ALL;
    const int cancels = (me & 1) && (at & 1);
    const dpb_status status = cancels ? dpb_cancel(table->bandit, table->tickets[at])
                                      : dpb_update(table->bandit, table->tickets[at], at % 3 == 0);
    CHECK(status == DPB_OK || status == DPB_DUPLICATE);
    table->ended[me][at] = (unsigned char)(status == DPB_OK ? 1 + cancels : 0);
  }
}

static void *sit(void *argument) {
  const seat *seat = argument;
  table *table = seat->table;
  unsigned round, i, t;
  for (round = 0; round < ROUNDS; round++) {
    for (i = 0; i < EACH; i++) {
      dpb_decision decision;
      STATUS(dpb_select(table->bandit, &decision), DPB_OK);
      table->tickets[seat->number * EACH + i] = decision.ticket;
    }
    all_arrive(table);
    end_all(table, seat->number);
    all_arrive(table);
    for (i = 0; seat->number == 0 && i < ALL; i++) {
      unsigned ends = 0;
      for (t = 0; t < THREADS; t++) {
        ends += table->ended[t][i] > 0;
        table->answered += table->ended[t][i] == 1;
        table->cancelled += table->ended[t][i] == 2;
      }
      CHECK(ends == 1);
    }
    all_arrive(table);
  }
  return NULL;
}

/* Calls all reading functions until the decisions are over. */
static void *look(void *argument) {
  dpb_bandit *bandit = argument;
  static unsigned char bytes[1 << 16];
  dpb_report report;
  dpb_diagnostics diagnostics;
  do {
    dpb_arm arms[2 * ARMS];
    double epsilon;
    size_t n;
    report.struct_size = sizeof report;
    STATUS(dpb_report_read(bandit, &report), DPB_OK);
    CHECK(report.decisions == report.answered + report.cancelled + report.expired + report.pending);
    STATUS(dpb_arms_read(bandit, arms, 2 * ARMS, &n), DPB_OK);
    CHECK(n == ARMS);
    STATUS(dpb_epsilon_spent(bandit, 0, &epsilon), DPB_OK);
    STATUS(dpb_snapshot(bandit, bytes, sizeof bytes, &n, NULL), DPB_OK);
    diagnostics.struct_size = sizeof diagnostics;
    STATUS(dpb_diagnostics_read(bandit, &diagnostics), DPB_OK);
  } while (report.decisions < (uint64_t)ROUNDS * ALL);
  return NULL;
}

static void exactly_once(constructor *make) {
  static table shared;
  dpb_config config = seeded(ARMS, 1);
  dpb_report report;
  pthread_t threads[THREADS], reader;
  seat seats[THREADS];
  unsigned t;
  config.pending_capacity = 2 * ALL;
  config.forget_after = 0;
  memset(&shared, 0, sizeof shared);
  STATUS(make(&config, &shared.bandit, NULL), DPB_OK);
  CHECK(pthread_barrier_init(&shared.barrier, NULL, THREADS) == 0);
  CHECK(pthread_create(&reader, NULL, look, shared.bandit) == 0);
  for (t = 0; t < THREADS; t++) {
    seats[t].table = &shared;
    seats[t].number = t;
    CHECK(pthread_create(&threads[t], NULL, sit, &seats[t]) == 0);
  }
  for (t = 0; t < THREADS; t++) CHECK(pthread_join(threads[t], NULL) == 0);
  CHECK(pthread_join(reader, NULL) == 0);
  report.struct_size = sizeof report;
  STATUS(dpb_report_read(shared.bandit, &report), DPB_OK);
  CHECK(report.decisions == (uint64_t)ROUNDS * ALL && report.pending == 0 && report.expired == 0);
  CHECK(report.answered == shared.answered && report.cancelled == shared.cancelled);
  CHECK(shared.answered > 0 && shared.cancelled > 0);
  CHECK(pthread_barrier_destroy(&shared.barrier) == 0);
  dpb_free(shared.bandit);
}

int main(void) {
  exactly_once(dpb_new_se);
  exactly_once(dpb_new_imed);
  exactly_once(dpb_new_med);
  return failures != 0;
}
