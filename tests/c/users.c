/* Users: the library learns from at most the configured number of rewards of each user, and statuses do not reveal
 * which. */
#include "check.h"

/* Makes one decision of a user and reports its reward. Returns 1 if the library learned from it, which a baseline
 * shows. */
static int learned(dpb_bandit *bandit, uint64_t user) {
  static double before = 0;
  dpb_decision d = {0, 0, 9, 9};
  dpb_arm arms[2];
  double now;
  size_t n;
  int more;
  STATUS(dpb_select_for(bandit, request(1, 0, user, NULL, 0), &d), DPB_OK);
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
  CHECK(config.expected_users == 0);
  config.expected_users = 1000;
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
  config.expected_users = 1000;
  STATUS(dpb_new(&config, &bandit, NULL), DPB_OK);
  for (period = 1; period <= 3; period++) {
    for (user = 0; user < 100; user++) {
      dpb_decision d = {0, 0, 9, 9};
      STATUS(dpb_select_for(bandit, request(1, 0, user, NULL, 0), &d), DPB_OK);
      STATUS(dpb_update(bandit, d.ticket, 1), DPB_OK);
    }
    STATUS(dpb_epsilon_spent(bandit, 0, &spent), DPB_OK);
    CHECK(spent > .999 * period && spent <= period);
    STATUS(dpb_next_period(bandit), DPB_OK);
  }
  dpb_free(bandit);
}

static size_t written(const dpb_bandit *bandit, uint8_t *bytes, size_t cap) {
  size_t n = 0;
  STATUS(dpb_snapshot(bandit, bytes, cap, &n, NULL), DPB_OK);
  return n;
}

/* Takes a snapshot, and says that it is stored. */
static size_t saved(dpb_bandit *bandit, uint8_t *bytes, size_t cap) {
  size_t n = written(bandit, bytes, cap);
  STATUS(dpb_stored(bandit, bytes, n, NULL), DPB_OK);
  return n;
}

/* What dpb_stored refuses: then a restored handle still decides nothing. */
static void not_its_own(dpb_bandit *bandit, const uint8_t *bytes, size_t n, uint64_t segment) {
  uint8_t other[2048];
  dpb_config config = seeded(2, 1);
  dpb_bandit *another = NULL;
  dpb_decision d;
  dpb_error error;
  size_t length;
  STATUS(dpb_stored(NULL, bytes, n, &error), DPB_NULL);
  STATUS(dpb_stored(bandit, NULL, n, &error), DPB_NULL);
  CHECK(strcmp(error.message, "snapshot is NULL") == 0);
  STATUS(dpb_stored(bandit, NULL, 0, NULL), DPB_CORRUPT);
  STATUS(dpb_stored(bandit, bytes, n - 1, &error), DPB_CORRUPT);
  STATUS(dpb_stored(bandit, bytes, n, &error), DPB_INVALID_CONFIG);
  CHECK(strncmp(error.message, "snapshot must be of this very handle", 36) == 0);
  STATUS(dpb_new(&config, &another, NULL), DPB_OK);
  length = written(another, other, sizeof other);
  STATUS(dpb_stored(bandit, other, length, &error), DPB_INVALID_CONFIG);
  STATUS(dpb_stored(another, other, length, NULL), DPB_OK);
  dpb_free(another);
  length = written(bandit, other, sizeof other); /* whose write fails */
  STATUS(dpb_select_for(bandit, request(1, segment, 1, NULL, 0), &d), DPB_NOT_READY);
}

/* A program that is killed right after the first stored snapshot of each generation, and restored from it, learns from the
   same user in every generation. dpb_epsilon_spent reports that. With segments too. */
static void lives(uint32_t max_segments) {
  enum { LIVES = 20 };
  dpb_config config = seeded(2, 1);
  dpb_bandit *bandit = NULL;
  dpb_decision d = {77, 0, 9, 9};
  uint8_t bytes[2048];
  uint64_t segment = max_segments > 0 ? 7 : 0;
  size_t n = 0, len;
  double spent = 0, known = 0;
  int life;
  config.expected_users = 1000;
  config.max_segments = max_segments;
  STATUS(dpb_new(&config, &bandit, NULL), DPB_OK);
  STATUS(dpb_next_period(bandit), DPB_OK);
  n = written(bandit, bytes, sizeof bytes);
  for (life = 0; life < LIVES; life++) {
    dpb_arm arms[2];
    uint64_t user;
    dpb_free(bandit);
    STATUS(dpb_restore(bytes, n, &bandit, NULL), DPB_OK);
    d.ticket = 77;
    refused_for(bandit, request(1, segment, 1, NULL, 0), DPB_NOT_READY,
               "config.expected_users is set, and no snapshot of the restored handle is stored: store one, and then call dpb_stored");
    not_its_own(bandit, bytes, n, segment);
    CHECK(d.ticket == 77);
    n = saved(bandit, bytes, sizeof bytes);
    for (user = 0; user < 200; user++) {
      STATUS(dpb_select_for(bandit, request(1, segment, user, NULL, 0), &d), DPB_OK);
      STATUS(dpb_update(bandit, d.ticket, 1), DPB_OK);
    }
    STATUS(dpb_arms_read(bandit, arms, 2, &len), DPB_OK);
    CHECK(arms[0].effective_pulls + arms[1].effective_pulls > 20);
    known = arms[0].effective_pulls + arms[1].effective_pulls;
  }
  STATUS(dpb_epsilon_spent(bandit, 0, &spent), DPB_OK);
  CHECK(spent >= LIVES + 1);
  /* A period that is not stored decides as before and learns from no user, whatever was stored before. */
  STATUS(dpb_next_period(bandit), DPB_OK);
  STATUS(dpb_stored(bandit, bytes, n, NULL), DPB_OK);
  (void)written(bandit, bytes, sizeof bytes);
  {
    dpb_arm arms[2];
    uint64_t user;
    for (user = 0; user < 2000; user++) {
      STATUS(dpb_select_for(bandit, request(1, segment, user, NULL, 0), &d), DPB_OK);
      STATUS(dpb_update(bandit, d.ticket, 1), DPB_OK);
    }
    STATUS(dpb_arms_read(bandit, arms, 2, &len), DPB_OK);
    CHECK(arms[0].effective_pulls + arms[1].effective_pulls == known);
    n = saved(bandit, bytes, sizeof bytes);
    for (user = 0; user < 2000; user++) {
      STATUS(dpb_select_for(bandit, request(1, segment, user, NULL, 0), &d), DPB_OK);
      STATUS(dpb_update(bandit, d.ticket, 1), DPB_OK);
    }
    STATUS(dpb_arms_read(bandit, arms, 2, &len), DPB_OK);
    CHECK(arms[0].effective_pulls + arms[1].effective_pulls > known);
  }
  dpb_free(bandit);
}

/* The limit applies to all segments together: the library learns from three rewards of user 5. A batch then fills with
 * other users' rewards. */
static void in_segments(void) {
  const uint32_t one[] = {1}, outside[] = {0, 7};
  dpb_config config = seeded(2, 1);
  dpb_bandit *bandit = NULL, *plain = NULL;
  dpb_decision d = {77, 0, 9, 9};
  dpb_report report;
  size_t done = 5;
  uint64_t user;
  int round;
  config.max_segments = 2;
  STATUS(dpb_new(&config, &plain, NULL), DPB_OK);
  STATUS(dpb_select_for(plain, request(1, 7, 1, NULL, 0), &d), DPB_UNSUPPORTED);
  STATUS(dpb_next_period(plain), DPB_UNSUPPORTED);
  report.struct_size = sizeof report;
  STATUS(dpb_report_read(plain, &report), DPB_OK);
  CHECK(report.segments == 0); /* a refused request creates no segment */
  config.expected_users = 1000;
  config.contributions_per_user = 3;
  STATUS(dpb_new(&config, &bandit, NULL), DPB_OK);
  STATUS(dpb_select(bandit, &d), DPB_UNSUPPORTED);
  STATUS(dpb_select_many(bandit, NULL, 1, &d, &done), DPB_UNSUPPORTED);
  CHECK(done == 0);
  STATUS(dpb_select_for(bandit, request(1, 0, 1, outside, 2), &d), DPB_INVALID_REQUEST);
  STATUS(dpb_select_for(bandit, request(1, 0, 1, one, 0), &d), DPB_INVALID_REQUEST);
  STATUS(dpb_select_for(bandit, request(2, 0, 1, NULL, 0), &d), DPB_INVALID_REQUEST);
  STATUS(dpb_select_for(bandit, request(0, 0, 1, NULL, 0), &d), DPB_INVALID_REQUEST);
  STATUS(dpb_next_period(NULL), DPB_NULL);
  CHECK(d.ticket == 77 && d.arm == 9);
  for (round = 0; round < 2; round++) {
    for (user = 0; user < 2000; user++) {
      STATUS(dpb_select_for(bandit, request(1, user % 2, 5, NULL, 0), &d), DPB_OK);
      STATUS(dpb_update(bandit, d.ticket, 1), DPB_OK);
      STATUS(dpb_update(bandit, d.ticket, 1), DPB_DUPLICATE);
    }
    STATUS(dpb_report_read(bandit, &report), DPB_OK);
    CHECK(report.answered == 2000u * (round + 1) && report.phase == 0);
  }
  for (user = 0; user < 900; user++) {
    STATUS(dpb_select_for(bandit, request(1, user % 2, user, one, 1), &d), DPB_OK);
    CHECK(d.arm == 1);
    STATUS(dpb_update(bandit, d.ticket, 1), DPB_OK);
  }
  STATUS(dpb_report_read(bandit, &report), DPB_OK);
  CHECK(report.phase > 0 && report.epsilon_spent > .999 && report.epsilon_spent <= 1);
  STATUS(dpb_next_period(bandit), DPB_OK);
  STATUS(dpb_report_read(bandit, &report), DPB_OK);
  CHECK(report.epsilon_spent > 1.999 && report.epsilon_spent <= 2);
  dpb_free(bandit);
  dpb_free(plain);
}

static void refuses(void) {
  const uint32_t all[] = {0, 1}, outside[] = {0, 7};
  dpb_config config = seeded(2, 1);
  dpb_bandit *plain = NULL, *bandit = NULL, *none = NULL;
  dpb_decision d = {77, 0, 9, 9};
  dpb_error error;
  size_t done = 5;
  STATUS(dpb_new(&config, &plain, NULL), DPB_OK);
  config.expected_users = 10;
  STATUS(dpb_new(&config, &bandit, NULL), DPB_OK);
  STATUS(dpb_select_for(NULL, request(1, 0, 1, NULL, 0), &d), DPB_NULL);
  STATUS(dpb_select_for(bandit, request(1, 0, 1, NULL, 0), NULL), DPB_NULL);
  STATUS(dpb_select_for(bandit, NULL, &d), DPB_NULL);
  STATUS(dpb_select_for(bandit, request(1, 0, 1, NULL, 2), &d), DPB_INVALID_REQUEST);
  STATUS(dpb_next_period(NULL), DPB_NULL);
  STATUS(dpb_select_for(plain, request(1, 0, 1, NULL, 0), &d), DPB_UNSUPPORTED);
  STATUS(dpb_select_for(plain, request(1, 0, 1, all, 2), &d), DPB_UNSUPPORTED);
  STATUS(dpb_next_period(plain), DPB_UNSUPPORTED);
  STATUS(dpb_select(bandit, &d), DPB_UNSUPPORTED);
  STATUS(dpb_select_many(bandit, NULL, 1, &d, &done), DPB_UNSUPPORTED);
  STATUS(dpb_select_for(bandit, request(1, 0, 1, outside, 2), &d), DPB_INVALID_REQUEST);
  STATUS(dpb_select_for(bandit, request(1, 0, 1, all, 0), &d), DPB_INVALID_REQUEST);
  STATUS(dpb_select_for(bandit, request(1, 3, 1, NULL, 0), &d), DPB_UNSUPPORTED);
  refused_for(bandit, request(2, 0, 1, NULL, 0), DPB_INVALID_REQUEST,
             "slots must be at most 1, because config.expected_users is set and config.max_slots is 0, got 2");
  CHECK(d.ticket == 77 && d.arm == 9 && done == 0);
  STATUS(dpb_select_for(bandit, request(1, 0, 1, all + 1, 1), &d), DPB_OK);
  CHECK(d.arm == 1);
  config.expected_users = ((uint64_t)1 << 28) + 1;
  STATUS(dpb_new(&config, &none, &error), DPB_INVALID_CONFIG);
  CHECK(strcmp(error.message, "expected_users must be at most 2^28, got 268435457") == 0);
  config.expected_users = 10;
  STATUS(dpb_new_ldp_ucb(&config, &none, &error), DPB_INVALID_CONFIG);
  CHECK(strncmp(error.message, "expected_users must be 0", 24) == 0 && none == NULL);
  dpb_free(plain);
  dpb_free(bandit);
}

/* With max_slots a request of a user counts once: the library learns from all its slots, or from none. */
static void in_slots(void) {
  dpb_config config = seeded(2, 30000); /* almost no noise: a batch is one reward */
  dpb_bandit *bandit = NULL;
  dpb_decision d[2];
  dpb_arm arms[2];
  size_t n;
  int time, slot;
  config.expected_users = 1000;
  config.max_slots = 2;
  STATUS(dpb_new(&config, &bandit, NULL), DPB_OK);
  for (time = 0; time < 2; time++) {
    STATUS(dpb_select_for(bandit, request(2, 0, 7, NULL, 0), d), DPB_OK);
    CHECK(d[0].arm != d[1].arm);
    for (slot = 0; slot < 2; slot++) STATUS(dpb_update(bandit, d[slot].ticket, 1), DPB_OK);
    STATUS(dpb_arms_read(bandit, arms, 2, &n), DPB_OK);
    CHECK(arms[0].effective_pulls == 1 && arms[1].effective_pulls == 1 && arms[0].pulls == (uint64_t)time + 1);
  }
  STATUS(dpb_select_for(bandit, request(3, 0, 7, NULL, 0), d), DPB_INVALID_REQUEST);
  dpb_free(bandit);
}

int main(void) {
  counts();
  in_slots();
  adds_up();
  lives(0);
  lives(1);
  in_segments();
  refuses();
  return failures != 0;
}
