/* Users: no more of them is learned than was promised, and who answers sees no difference. */
#include "check.h"

/* One decision of a user and its answer; 1 if it was learned from, as a baseline tells. */
static int learned(dpb_bandit *bandit, uint64_t user) {
  static double before = 0;
  dpb_decision d = {0, 0, 9, 9};
  dpb_arm arms[2];
  double now;
  size_t n;
  int more;
  STATUS(dpb_select_for(bandit, user, &d), DPB_OK);
  CHECK(d.arm < 2 && d.propensity == 1);
  STATUS(dpb_update(bandit, d.ticket, 1), DPB_OK);
  STATUS(dpb_update(bandit, d.ticket, 1), DPB_DUPLICATE);
  STATUS(dpb_cancel(bandit, d.ticket), DPB_DUPLICATE);
  STATUS(dpb_arms_read(bandit, arms, 2, &n), DPB_OK);
  now = arms[0].effective_pulls + arms[1].effective_pulls;
  more = now > before;
  before = now;
  return more;
}

static void counts(void) {
  dpb_config config = seeded(2, 1);
  dpb_bandit *bandit = NULL;
  dpb_report report;
  int i;
  CHECK(config.users == 0);
  config.users = 1000;
  config.contributions_per_user = 3;
  STATUS(dpb_new_nonprivate_ucb1(&config, &bandit, NULL), DPB_OK);
  for (i = 0; i < 10; i++) {
    CHECK(learned(bandit, 5) == (i < 3));
  }
  CHECK(learned(bandit, UINT64_MAX) && learned(bandit, 0));
  STATUS(dpb_next_period(bandit), DPB_OK);
  CHECK(learned(bandit, 5) && learned(bandit, 5) && learned(bandit, 5) && !learned(bandit, 5));
  report.struct_size = sizeof report;
  STATUS(dpb_report_read(bandit, &report), DPB_OK);
  CHECK(report.decisions == 16 && report.answered == 16 && report.pending == 0);
  dpb_free(bandit);
}

static void adds_up(void) {
  dpb_config config = seeded(2, 1);
  dpb_bandit *bandit = NULL;
  double spent = -1;
  int period;
  uint64_t user;
  config.users = 1000;
  STATUS(dpb_new(&config, &bandit, NULL), DPB_OK);
  for (period = 1; period <= 3; period++) {
    for (user = 0; user < 100; user++) {
      dpb_decision d = {0, 0, 9, 9};
      STATUS(dpb_select_for(bandit, user, &d), DPB_OK);
      STATUS(dpb_update(bandit, d.ticket, 1), DPB_OK);
    }
    STATUS(dpb_privacy(bandit, 0, &spent), DPB_OK);
    CHECK(spent > .999 * period && spent <= period);
    STATUS(dpb_next_period(bandit), DPB_OK);
  }
  dpb_free(bandit);
}

/* Into a buffer that is large enough, or not: what was not written was not taken. */
static size_t saved(const dpb_bandit *bandit, uint8_t *bytes, size_t cap) {
  size_t n = 0;
  STATUS(dpb_snapshot(bandit, bytes, cap, &n), DPB_OK);
  return n;
}

/* Killed right after the first snapshot of each life, and restored from it: one person is heard in every life, and dpb_privacy
   says so. What asks for a length, or has too little room, is no snapshot. */
static void lives(void) {
  enum { LIVES = 20 };
  dpb_config config = seeded(2, 1);
  dpb_bandit *bandit = NULL;
  dpb_decision d = {77, 0, 9, 9};
  uint8_t bytes[1024];
  size_t n, len;
  double spent = 0, known = 0;
  int life;
  config.users = 1000;
  STATUS(dpb_new(&config, &bandit, NULL), DPB_OK);
  STATUS(dpb_next_period(bandit), DPB_OK);
  n = saved(bandit, bytes, sizeof bytes);
  for (life = 0; life < LIVES; life++) {
    dpb_arm arms[2];
    uint64_t user;
    dpb_free(bandit);
    STATUS(dpb_restore(bytes, n, &bandit, NULL), DPB_OK);
    d.ticket = 77;
    STATUS(dpb_select_for(bandit, 1, &d), DPB_NOT_READY);
    STATUS(dpb_snapshot(bandit, NULL, 0, &len), DPB_BUFFER_TOO_SMALL);
    STATUS(dpb_select_for(bandit, 1, &d), DPB_NOT_READY);
    STATUS(dpb_snapshot(bandit, bytes, len - 1, &len), DPB_BUFFER_TOO_SMALL);
    STATUS(dpb_select_for(bandit, 1, &d), DPB_NOT_READY);
    CHECK(d.ticket == 77);
    n = saved(bandit, bytes, len);
    for (user = 0; user < 200; user++) {
      STATUS(dpb_select_for(bandit, user, &d), DPB_OK);
      STATUS(dpb_update(bandit, d.ticket, 1), DPB_OK);
    }
    STATUS(dpb_arms_read(bandit, arms, 2, &len), DPB_OK);
    CHECK(arms[0].effective_pulls + arms[1].effective_pulls > 20);
    known = arms[0].effective_pulls + arms[1].effective_pulls;
  }
  STATUS(dpb_privacy(bandit, 0, &spent), DPB_OK);
  CHECK(spent >= LIVES + 1);
  /* A period that is not in the snapshot is served, and nobody is heard in it. */
  STATUS(dpb_next_period(bandit), DPB_OK);
  {
    dpb_arm arms[2];
    uint64_t user;
    for (user = 0; user < 2000; user++) {
      STATUS(dpb_select_for(bandit, user, &d), DPB_OK);
      STATUS(dpb_update(bandit, d.ticket, 1), DPB_OK);
    }
    STATUS(dpb_arms_read(bandit, arms, 2, &len), DPB_OK);
    CHECK(arms[0].effective_pulls + arms[1].effective_pulls == known);
    n = saved(bandit, bytes, sizeof bytes);
    for (user = 0; user < 2000; user++) {
      STATUS(dpb_select_for(bandit, user, &d), DPB_OK);
      STATUS(dpb_update(bandit, d.ticket, 1), DPB_OK);
    }
    STATUS(dpb_arms_read(bandit, arms, 2, &len), DPB_OK);
    CHECK(arms[0].effective_pulls + arms[1].effective_pulls > known);
  }
  dpb_free(bandit);
}

/* The same in a pool. */
static void lives_of_a_pool(void) {
  enum { LIVES = 20 };
  dpb_config config = seeded(2, 1);
  dpb_pool *pool = NULL;
  dpb_pool_report report;
  dpb_decision d;
  uint8_t bytes[2048];
  uint32_t segment;
  size_t n, len;
  int life;
  config.users = 1000;
  report.struct_size = sizeof report;
  STATUS(dpb_new_pool(&config, 1, &pool, NULL), DPB_OK);
  STATUS(dpb_pool_segment(pool, 7, &segment), DPB_OK);
  STATUS(dpb_pool_next_period(pool), DPB_OK);
  STATUS(dpb_pool_snapshot(pool, bytes, sizeof bytes, &n), DPB_OK);
  for (life = 0; life < LIVES; life++) {
    uint64_t user;
    dpb_pool_free(pool);
    STATUS(dpb_pool_restore_as(&config, 1, bytes, n, &pool, NULL), DPB_OK);
    STATUS(dpb_pool_select_for(pool, 0, 1, &d), DPB_NOT_READY);
    STATUS(dpb_pool_select_among_for(pool, 0, 1, &segment, 1, &d), DPB_NOT_READY);
    STATUS(dpb_pool_snapshot(pool, NULL, 0, &len), DPB_BUFFER_TOO_SMALL);
    STATUS(dpb_pool_select_for(pool, 0, 1, &d), DPB_NOT_READY);
    STATUS(dpb_pool_snapshot(pool, bytes, sizeof bytes, &n), DPB_OK);
    for (user = 0; user < 200; user++) {
      STATUS(dpb_pool_select_for(pool, 0, user, &d), DPB_OK);
      STATUS(dpb_pool_update(pool, d.ticket, 1), DPB_OK);
    }
  }
  STATUS(dpb_pool_report_read(pool, &report), DPB_OK);
  CHECK(report.epsilon_spent >= LIVES + 1 && report.releases > 0);
  dpb_pool_free(pool);
}

/* Whichever the segments: three rewards of user 5 are learned from, and a batch is full when as many others came. */
static void in_pools(void) {
  const uint32_t one[] = {1}, outside[] = {0, 7};
  dpb_config config = seeded(2, 1);
  dpb_pool *pool = NULL, *plain = NULL;
  dpb_decision d = {77, 0, 9, 9};
  dpb_pool_report report;
  uint32_t segment = 9;
  uint64_t user;
  int round;
  STATUS(dpb_new_pool(&config, 2, &plain, NULL), DPB_OK);
  STATUS(dpb_pool_segment(plain, 7, &segment), DPB_OK);
  STATUS(dpb_pool_select_for(plain, segment, 1, &d), DPB_UNSUPPORTED);
  STATUS(dpb_pool_select_among_for(plain, segment, 1, one, 1, &d), DPB_UNSUPPORTED);
  STATUS(dpb_pool_next_period(plain), DPB_UNSUPPORTED);
  config.users = 1000;
  config.contributions_per_user = 3;
  STATUS(dpb_new_pool(&config, 2, &pool, NULL), DPB_OK);
  STATUS(dpb_pool_segment(pool, 7, &segment), DPB_OK);
  STATUS(dpb_pool_segment(pool, 8, &segment), DPB_OK);
  STATUS(dpb_pool_select(pool, 0, &d), DPB_UNSUPPORTED);
  STATUS(dpb_pool_select_among(pool, 0, one, 1, &d), DPB_UNSUPPORTED);
  STATUS(dpb_pool_select_many(pool, one, &d, 1), DPB_UNSUPPORTED);
  STATUS(dpb_pool_select_for(NULL, 0, 1, &d), DPB_NULL);
  STATUS(dpb_pool_select_for(pool, 0, 1, NULL), DPB_NULL);
  STATUS(dpb_pool_select_for(pool, 2, 1, &d), DPB_INVALID_CONFIG);
  STATUS(dpb_pool_select_among_for(NULL, 0, 1, one, 1, &d), DPB_NULL);
  STATUS(dpb_pool_select_among_for(pool, 0, 1, NULL, 1, &d), DPB_NULL);
  STATUS(dpb_pool_select_among_for(pool, 0, 1, one, 1, NULL), DPB_NULL);
  STATUS(dpb_pool_select_among_for(pool, 0, 1, NULL, 0, &d), DPB_INVALID_CONFIG);
  STATUS(dpb_pool_select_among_for(pool, 0, 1, outside, 2, &d), DPB_INVALID_CONFIG);
  STATUS(dpb_pool_next_period(NULL), DPB_NULL);
  CHECK(d.ticket == 77 && d.arm == 9);
  report.struct_size = sizeof report;
  for (round = 0; round < 2; round++) {
    for (user = 0; user < 2000; user++) {
      STATUS(dpb_pool_select_for(pool, user % 2, 5, &d), DPB_OK);
      STATUS(dpb_pool_update(pool, d.ticket, 1), DPB_OK);
      STATUS(dpb_pool_update(pool, d.ticket, 1), DPB_DUPLICATE);
    }
    STATUS(dpb_pool_report_read(pool, &report), DPB_OK);
    CHECK(report.answered == 2000u * (round + 1) && report.releases == 0);
  }
  for (user = 0; user < 900; user++) {
    STATUS(dpb_pool_select_among_for(pool, user % 2, user, one, 1, &d), DPB_OK);
    CHECK(d.arm == 1);
    STATUS(dpb_pool_update(pool, d.ticket, 1), DPB_OK);
  }
  STATUS(dpb_pool_report_read(pool, &report), DPB_OK);
  CHECK(report.releases > 0 && report.epsilon_spent > .999 && report.epsilon_spent <= 1);
  STATUS(dpb_pool_next_period(pool), DPB_OK);
  STATUS(dpb_pool_report_read(pool, &report), DPB_OK);
  CHECK(report.epsilon_spent > 1.999 && report.epsilon_spent <= 2);
  dpb_pool_free(pool);
  dpb_pool_free(plain);
}

static void refuses(void) {
  const uint32_t all[] = {0, 1}, outside[] = {0, 7};
  dpb_config config = seeded(2, 1);
  dpb_bandit *plain = NULL, *bandit = NULL, *none = NULL;
  dpb_decision d = {77, 0, 9, 9};
  dpb_error error;
  size_t done = 5;
  STATUS(dpb_new(&config, &plain, NULL), DPB_OK);
  config.users = 10;
  STATUS(dpb_new(&config, &bandit, NULL), DPB_OK);
  STATUS(dpb_select_for(NULL, 1, &d), DPB_NULL);
  STATUS(dpb_select_for(bandit, 1, NULL), DPB_NULL);
  STATUS(dpb_select_among_for(bandit, 1, NULL, 2, &d), DPB_NULL);
  STATUS(dpb_next_period(NULL), DPB_NULL);
  STATUS(dpb_select_for(plain, 1, &d), DPB_UNSUPPORTED);
  STATUS(dpb_select_among_for(plain, 1, all, 2, &d), DPB_UNSUPPORTED);
  STATUS(dpb_next_period(plain), DPB_UNSUPPORTED);
  STATUS(dpb_select(bandit, &d), DPB_UNSUPPORTED);
  STATUS(dpb_select_among(bandit, all, 2, &d), DPB_UNSUPPORTED);
  STATUS(dpb_select_many(bandit, &d, 1, &done), DPB_UNSUPPORTED);
  STATUS(dpb_select_among_for(bandit, 1, outside, 2, &d), DPB_INVALID_CONFIG);
  STATUS(dpb_select_among_for(bandit, 1, NULL, 0, &d), DPB_INVALID_CONFIG);
  CHECK(d.ticket == 77 && d.arm == 9 && done == 5);
  STATUS(dpb_select_among_for(bandit, 1, all + 1, 1, &d), DPB_OK);
  CHECK(d.arm == 1);
  config.users = ((uint64_t)1 << 28) + 1;
  STATUS(dpb_new(&config, &none, &error), DPB_INVALID_CONFIG);
  CHECK(strcmp(error.message, "users must be at most 2^28, got 268435457") == 0);
  config.users = 10;
  STATUS(dpb_new_ldp_ucb(&config, &none, &error), DPB_INVALID_CONFIG);
  CHECK(strncmp(error.message, "users must be 0", 15) == 0 && none == NULL);
  dpb_free(plain);
  dpb_free(bandit);
}

int main(void) {
  counts();
  adds_up();
  lives();
  lives_of_a_pool();
  in_pools();
  refuses();
  return failures != 0;
}
