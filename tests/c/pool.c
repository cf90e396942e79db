/* A bandit for each of many segments, in one handle. */
#include "check.h"

#include <stdlib.h>

enum { ARMS = 4, MOST = 3 };

static dpb_pool_report report(const dpb_pool *pool) {
  dpb_pool_report r;
  r.struct_size = sizeof r;
  STATUS(dpb_pool_report_read(pool, &r), DPB_OK);
  CHECK(r.decisions == r.answered + r.cancelled + r.expired + r.pending && r.arms == ARMS);
  return r;
}

static void one_arm(const dpb_pool *pool, uint32_t segment, uint32_t arm, dpb_arm *out) {
  dpb_arm arms[ARMS];
  size_t n = 0;
  STATUS(dpb_pool_arms_read(pool, segment, arms, ARMS, &n), DPB_OK);
  CHECK(n == ARMS && arms[arm].active == 1 && isnan(arms[arm].width) && arms[arm].mean > 0 && arms[arm].mean < 1);
  *out = arms[arm];
}

/* Nothing that is refused makes or changes anything. */
static void bad_input(void) {
  dpb_config config = seeded(ARMS, 1);
  dpb_pool *pool = NULL;
  dpb_error error;
  dpb_decision d = {99, 99, 99, 99}, many[3] = {{99, 99, 99, 99}, {99, 99, 99, 99}, {99, 99, 99, 99}};
  dpb_pool_report before, after;
  dpb_diagnostics refused;
  dpb_arm arms[ARMS];
  dpb_status each[2];
  const uint32_t segments[3] = {0, 1, 0}, none[2] = {0, 3}, some[2] = {1, 3}, wrong[2] = {1, ARMS};
  uint64_t tickets[2];
  double rewards[2] = {1, 0};
  uint32_t segment = 77;
  size_t n = 77, done = 77;

  STATUS(dpb_new_pool(NULL, MOST, &pool, &error), DPB_NULL);
  STATUS(dpb_new_pool(&config, MOST, NULL, &error), DPB_NULL);
  STATUS(dpb_new_pool(&config, 0, &pool, &error), DPB_INVALID_CONFIG);
  CHECK(strcmp(error.message, "max_segments must be at least 1, and 2^27 cells at most, got 0") == 0);
  STATUS(dpb_new_pool(&config, 1u << 30, &pool, NULL), DPB_INVALID_CONFIG);
  config.min_propensity = .1;
  STATUS(dpb_new_pool(&config, MOST, &pool, &error), DPB_UNSUPPORTED);
  config.min_propensity = 0;
  config.epsilon = -1;
  STATUS(dpb_new_pool(&config, MOST, &pool, &error), DPB_INVALID_CONFIG);
  CHECK(strcmp(error.message, "epsilon must be finite and > 0, got -1") == 0);
  config.epsilon = 1;
  config.struct_size += 8;
  STATUS(dpb_new_pool(&config, MOST, &pool, &error), DPB_NEWER_VERSION);
  config.struct_size -= 8;
  CHECK(pool == NULL);
  STATUS(dpb_new_pool(&config, MOST, &pool, &error), DPB_OK);

  STATUS(dpb_pool_select(pool, 0, &d), DPB_INVALID_CONFIG);
  STATUS(dpb_pool_arms_read(pool, 0, arms, ARMS, &n), DPB_INVALID_CONFIG);
  STATUS(dpb_pool_segment(NULL, 5, &segment), DPB_NULL);
  STATUS(dpb_pool_segment(pool, 5, NULL), DPB_NULL);
  CHECK(segment == 77 && n == 77 && d.ticket == 99 && report(pool).segments == 0);
  STATUS(dpb_pool_segment(pool, 5, &segment), DPB_OK);
  CHECK(segment == 0);
  STATUS(dpb_pool_segment(pool, 0, &segment), DPB_OK);
  CHECK(segment == 1);
  STATUS(dpb_pool_segment(pool, UINT64_MAX, &segment), DPB_OK);
  STATUS(dpb_pool_segment(pool, 5, &segment), DPB_OK);
  CHECK(segment == 0);
  STATUS(dpb_pool_segment(pool, 6, &segment), DPB_FULL);
  CHECK(segment == 0 && strcmp(dpb_status_name(DPB_FULL), "DPB_FULL") == 0);

  before = report(pool);
  CHECK(before.segments == MOST && before.max_segments == MOST && before.decisions == 0);
  STATUS(dpb_pool_select(NULL, 0, &d), DPB_NULL);
  STATUS(dpb_pool_select(pool, 0, NULL), DPB_NULL);
  STATUS(dpb_pool_select(pool, MOST, &d), DPB_INVALID_CONFIG);
  STATUS(dpb_pool_select_among(NULL, 0, some, 2, &d), DPB_NULL);
  STATUS(dpb_pool_select_among(pool, 0, NULL, 2, &d), DPB_NULL);
  STATUS(dpb_pool_select_among(pool, 0, some, 2, NULL), DPB_NULL);
  STATUS(dpb_pool_select_among(pool, 0, NULL, 0, &d), DPB_INVALID_CONFIG);
  STATUS(dpb_pool_select_among(pool, 0, wrong, 2, &d), DPB_INVALID_CONFIG);
  STATUS(dpb_pool_select_among(pool, MOST, some, 2, &d), DPB_INVALID_CONFIG);
  STATUS(dpb_pool_select_many(NULL, segments, many, 3), DPB_NULL);
  STATUS(dpb_pool_select_many(pool, NULL, many, 3), DPB_NULL);
  STATUS(dpb_pool_select_many(pool, segments, NULL, 3), DPB_NULL);
  STATUS(dpb_pool_select_many(pool, none, many, 2), DPB_INVALID_CONFIG);
  STATUS(dpb_pool_select_many(pool, NULL, NULL, 0), DPB_OK);
  CHECK(d.ticket == 99 && many[0].ticket == 99);
  after = report(pool);
  CHECK(memcmp(&before, &after, sizeof before) == 0);

  STATUS(dpb_pool_select_many(pool, segments, many, 3), DPB_OK);
  STATUS(dpb_pool_select_among(pool, 2, some, 2, &d), DPB_OK);
  CHECK(d.arm == 1 || d.arm == 3);
  STATUS(dpb_pool_update(pool, many[0].ticket, 2), DPB_INVALID_REWARD);
  STATUS(dpb_pool_update(pool, many[0].ticket, 1), DPB_OK);
  STATUS(dpb_pool_update(pool, many[0].ticket, 1), DPB_DUPLICATE);
  STATUS(dpb_pool_cancel(pool, many[0].ticket), DPB_DUPLICATE);
  STATUS(dpb_pool_cancel(pool, many[0].ticket ^ 1), DPB_UNKNOWN_TICKET);
  STATUS(dpb_pool_update(NULL, many[1].ticket, 1), DPB_NULL);
  STATUS(dpb_pool_cancel(NULL, many[1].ticket), DPB_NULL);
  STATUS(dpb_pool_cancel_all(NULL), DPB_NULL);
  STATUS(dpb_pool_cancel(pool, many[1].ticket), DPB_OK);
  tickets[0] = many[1].ticket;
  tickets[1] = many[2].ticket;
  STATUS(dpb_pool_update_many(pool, NULL, rewards, 2, NULL, &done), DPB_NULL);
  STATUS(dpb_pool_update_many(pool, tickets, NULL, 2, NULL, &done), DPB_NULL);
  STATUS(dpb_pool_update_many(pool, tickets, rewards, 2, NULL, NULL), DPB_NULL);
  STATUS(dpb_pool_update_many(NULL, tickets, rewards, 2, NULL, &done), DPB_NULL);
  CHECK(done == 77);
  STATUS(dpb_pool_update_many(pool, tickets, rewards, 2, each, &done), DPB_DUPLICATE);
  CHECK(done == 1 && each[0] == DPB_DUPLICATE && each[1] == DPB_OK);
  after = report(pool);
  CHECK(after.decisions == 4 && after.answered == 2 && after.cancelled == 1 && after.pending == 1);

  refused.struct_size = sizeof refused;
  STATUS(dpb_pool_diagnostics_read(NULL, &refused), DPB_NULL);
  STATUS(dpb_pool_diagnostics_read(pool, NULL), DPB_NULL);
  STATUS(dpb_pool_diagnostics_read(pool, &refused), DPB_OK);
  CHECK(refused.duplicates == 3 && refused.rejected == 1 && refused.unknown == 1 && refused.late == 0);
  STATUS(dpb_pool_report_read(NULL, &after), DPB_NULL);
  STATUS(dpb_pool_report_read(pool, NULL), DPB_NULL);
  STATUS(dpb_pool_arms_read(NULL, 0, arms, ARMS, &n), DPB_NULL);
  STATUS(dpb_pool_arms_read(pool, 0, NULL, ARMS, &n), DPB_NULL);
  STATUS(dpb_pool_arms_read(pool, 0, arms, ARMS, NULL), DPB_NULL);
  STATUS(dpb_pool_arms_read(pool, MOST, arms, ARMS, &n), DPB_INVALID_CONFIG);
  CHECK(n == 77);
  arms[0].pulls = 99;
  STATUS(dpb_pool_arms_read(pool, 0, arms, ARMS - 1, &n), DPB_BUFFER_TOO_SMALL);
  CHECK(n == ARMS && arms[0].pulls == 99);

  STATUS(dpb_pool_cancel_all(pool), DPB_OK); /* what is open, which is one */
  after = report(pool);
  CHECK(after.decisions == 4 && after.answered == 2 && after.cancelled == 2 && after.pending == 0);
  STATUS(dpb_pool_update(pool, d.ticket, 1), DPB_DUPLICATE);
  dpb_pool_free(pool);
  dpb_pool_free(NULL);
}

/* Arm 2 is the best in every segment, and clicks are counted from a number that all can work out. */
static void play(dpb_pool *pool, uint32_t segments, uint64_t *coins, uint32_t decisions) {
  uint32_t t;
  for (t = 0; t < decisions; t++) {
    dpb_decision d;
    STATUS(dpb_pool_select(pool, t % segments, &d), DPB_OK);
    *coins = *coins * 6364136223846793005u + 1442695040888963407u;
    STATUS(dpb_pool_update(pool, d.ticket, (double)(*coins >> 40) < (d.arm == 2 ? .4 : .1) * (1 << 24)), DPB_OK);
  }
}

/* What public data say is there at once, in every segment. */
static void a_prior(void) {
  dpb_config config = seeded(ARMS, 1);
  dpb_pool *pool;
  dpb_arm before, after;
  uint32_t segment;
  STATUS(dpb_new_pool(&config, MOST, &pool, NULL), DPB_OK);
  STATUS(dpb_pool_segment(pool, 70, &segment), DPB_OK);
  one_arm(pool, segment, 1, &before);
  STATUS(dpb_pool_set_prior(NULL, 1, .5, 100), DPB_NULL);
  STATUS(dpb_pool_set_prior(pool, ARMS, .5, 100), DPB_INVALID_CONFIG);
  STATUS(dpb_pool_set_prior(pool, 1, 1.5, 100), DPB_INVALID_CONFIG);
  STATUS(dpb_pool_set_prior(pool, 1, NAN, 100), DPB_INVALID_CONFIG);
  STATUS(dpb_pool_set_prior(pool, 1, .5, 0), DPB_INVALID_CONFIG);
  STATUS(dpb_pool_set_prior(pool, 1, .5, 1e9), DPB_INVALID_CONFIG);
  one_arm(pool, segment, 1, &after);
  CHECK(memcmp(&before, &after, sizeof before) == 0);
  STATUS(dpb_pool_set_prior(pool, 1, .5, 1000), DPB_OK);
  one_arm(pool, segment, 1, &after);
  CHECK(after.mean > 2 * before.mean && after.mean < .6 && after.effective_pulls == 0);
  CHECK(report(pool).epsilon_spent == 0);
  dpb_pool_free(pool);
}

/* What one segment has learned the next one begins with. */
static void segments_learn_from_each_other(void) {
  dpb_config config = seeded(ARMS, 1);
  dpb_pool *pool;
  dpb_arm good, bad;
  uint64_t coins = 1;
  uint32_t segment, t, best = 0;
  STATUS(dpb_new_pool(&config, MOST, &pool, NULL), DPB_OK);
  STATUS(dpb_pool_segment(pool, 70, &segment), DPB_OK);
  STATUS(dpb_pool_segment(pool, 71, &segment), DPB_OK);
  play(pool, 2, &coins, 20000);
  STATUS(dpb_pool_segment(pool, 72, &segment), DPB_OK);
  one_arm(pool, segment, 2, &good);
  one_arm(pool, segment, 1, &bad);
  CHECK(good.mean > bad.mean + .1 && good.pulls == 0 && good.effective_pulls == 0);
  for (t = 0; t < 1000; t++) {
    dpb_decision d;
    STATUS(dpb_pool_select(pool, segment, &d), DPB_OK);
    STATUS(dpb_pool_cancel(pool, d.ticket), DPB_OK);
    best += d.arm == 2;
  }
  CHECK(best > 500);
  one_arm(pool, 0, 2, &good);
  CHECK(fabs(good.mean - .4) < .1 && good.effective_pulls > 1000 && good.pulls > 5000);
  CHECK(report(pool).epsilon_spent == 1 && report(pool).delta_spent == 0 && report(pool).is_private == 0);
  CHECK(report(pool).releases > 10);
  dpb_pool_free(pool);
}

static void it_goes_on(void) {
  dpb_config config = seeded(ARMS, 1);
  dpb_pool *pool, *next = NULL, *other = NULL;
  dpb_decision open;
  dpb_error error;
  dpb_arm before, after;
  dpb_bandit *bandit = NULL;
  unsigned char *bytes, small[8];
  size_t len = 0, again = 7;
  uint64_t coins = 2;
  uint32_t segment;
  STATUS(dpb_new_pool(&config, MOST, &pool, NULL), DPB_OK);
  for (segment = 0; segment < MOST; segment++) {
    uint32_t number;
    STATUS(dpb_pool_segment(pool, 100 - segment, &number), DPB_OK);
  }
  play(pool, MOST, &coins, 10000);
  STATUS(dpb_pool_select(pool, 1, &open), DPB_OK);
  STATUS(dpb_pool_snapshot(NULL, NULL, 0, &len), DPB_NULL);
  STATUS(dpb_pool_snapshot(pool, NULL, 0, NULL), DPB_NULL);
  STATUS(dpb_pool_snapshot(pool, NULL, 1, &len), DPB_NULL);
  STATUS(dpb_pool_snapshot(pool, NULL, 0, &len), DPB_BUFFER_TOO_SMALL);
  memset(small, 0xa5, sizeof small);
  STATUS(dpb_pool_snapshot(pool, small, sizeof small, &again), DPB_BUFFER_TOO_SMALL);
  CHECK(len == again && small[0] == 0xa5);
  /* as dpb.h has it, to a tenth */
  CHECK(fabs((double)len / (250 + 32 * ARMS + (40 * ARMS + 16) * MOST) - 1) < .1);
  bytes = (unsigned char *)malloc(len);
  CHECK(bytes != NULL);
  STATUS(dpb_pool_snapshot(pool, bytes, len, &again), DPB_OK);

  STATUS(dpb_pool_restore(bytes, len, &next, &error), DPB_OK);
  STATUS(dpb_pool_update(next, open.ticket, 1), DPB_UNKNOWN_TICKET);
  STATUS(dpb_pool_segment(next, 98, &segment), DPB_OK);
  CHECK(segment == 2 && report(next).decisions == 10001 && report(next).expired == 1 && report(next).is_private == 0);
  one_arm(pool, 2, 2, &before);
  one_arm(next, 2, 2, &after);
  CHECK(before.pulls == after.pulls && before.effective_pulls == after.effective_pulls);
  CHECK(fabs(before.mean - after.mean) < .02);
  STATUS(dpb_pool_segment(next, 97, &segment), DPB_FULL);
  dpb_pool_free(next);

  /* A larger one, of the same configuration. */
  STATUS(dpb_pool_restore_as(&config, MOST + 5, bytes, len, &next, &error), DPB_OK);
  STATUS(dpb_pool_segment(next, 97, &segment), DPB_OK);
  CHECK(segment == MOST && report(next).max_segments == MOST + 5);
  dpb_pool_free(next);
  STATUS(dpb_pool_restore_as(&config, MOST - 1, bytes, len, &other, &error), DPB_INVALID_CONFIG);
  CHECK(strcmp(error.message, "max_segments must be at least 3, as in the snapshot, got 2") == 0);
  config.epsilon = 2;
  STATUS(dpb_pool_restore_as(&config, MOST, bytes, len, &other, &error), DPB_INVALID_CONFIG);
  CHECK(strcmp(error.message, "epsilon must be 1, as in the snapshot, got 2") == 0);
  config.epsilon = 1;
  STATUS(dpb_pool_restore_as(NULL, MOST, bytes, len, &other, &error), DPB_NULL);
  STATUS(dpb_pool_restore_as(&config, MOST, NULL, len, &other, &error), DPB_NULL);
  STATUS(dpb_pool_restore_as(&config, MOST, bytes, len, NULL, &error), DPB_NULL);
  STATUS(dpb_pool_restore(NULL, len, &other, &error), DPB_NULL);
  STATUS(dpb_pool_restore(bytes, len, NULL, &error), DPB_NULL);
  STATUS(dpb_pool_restore(NULL, 0, &other, NULL), DPB_CORRUPT);
  STATUS(dpb_pool_restore(bytes, len - 1, &other, &error), DPB_CORRUPT);
  STATUS(dpb_restore(bytes, len, &bandit, &error), DPB_CORRUPT); /* another thing */
  CHECK(bandit == NULL);
  bytes[len / 2] ^= 1;
  STATUS(dpb_pool_restore(bytes, len, &other, &error), DPB_CORRUPT);
  CHECK(other == NULL);
  free(bytes);
  dpb_pool_free(pool);
}

/* Silence is no click: with a window every decision has its answer, and the last ones' is open. */
static void a_window(void) {
  dpb_config config = seeded(ARMS, 1);
  dpb_pool *pool;
  dpb_decision d;
  uint32_t segment, t;
  uint64_t first = 0;
  config.answer_window = 10;
  config.memory = 2000;
  STATUS(dpb_new_pool(&config, MOST, &pool, NULL), DPB_OK);
  STATUS(dpb_pool_segment(pool, 1, &segment), DPB_OK);
  STATUS(dpb_pool_segment(pool, 2, &segment), DPB_OK);
  for (t = 0; t < 5000; t++) {
    STATUS(dpb_pool_select(pool, t % 2, &d), DPB_OK);
    if (t == 0) first = d.ticket;
  }
  CHECK(report(pool).answered == 4990 && report(pool).pending == 10);
  STATUS(dpb_pool_update(pool, first, 1), DPB_EXPIRED);
  STATUS(dpb_pool_update(pool, d.ticket, 1), DPB_OK);
  CHECK(report(pool).answered == 4990);
  dpb_pool_free(pool);
}

static unsigned char *bytes_of(const dpb_pool *pool, size_t *len) {
  unsigned char *bytes;
  STATUS(dpb_pool_snapshot(pool, NULL, 0, len), DPB_BUFFER_TOO_SMALL);
  bytes = (unsigned char *)malloc(*len);
  CHECK(bytes != NULL);
  STATUS(dpb_pool_snapshot(pool, bytes, *len, len), DPB_OK);
  return bytes;
}

/* A pool that has merged knows what another knows of a segment, once it is asked for it, and tells it to nobody. */
static void it_merges(void) {
  dpb_config config = seeded(ARMS, 1);
  dpb_pool *there, *here, *last;
  dpb_error error;
  dpb_arm arm, theirs;
  dpb_pool_report before, after;
  unsigned char *bytes, *own;
  size_t len = 0, n = 0;
  uint64_t coins = 3;
  uint32_t segment, round;
  STATUS(dpb_new_pool(&config, MOST, &there, NULL), DPB_OK);
  STATUS(dpb_pool_segment(there, 40, &segment), DPB_OK);
  STATUS(dpb_pool_segment(there, 41, &segment), DPB_OK);
  play(there, 2, &coins, 10000);
  one_arm(there, 1, 2, &theirs);
  bytes = bytes_of(there, &len);
  STATUS(dpb_new_pool(&config, 1, &here, NULL), DPB_OK);

  before = report(here);
  STATUS(dpb_pool_merge(NULL, bytes, len), DPB_NULL);
  STATUS(dpb_pool_merge_with(NULL, bytes, len, &error), DPB_NULL);
  CHECK(strcmp(error.message, "the handle is NULL") == 0);
  STATUS(dpb_pool_merge_with(here, NULL, len, &error), DPB_NULL);
  CHECK(strcmp(error.message, "snapshot is NULL") == 0);
  STATUS(dpb_pool_merge(here, NULL, 0), DPB_CORRUPT);
  STATUS(dpb_pool_merge_with(here, bytes, len - 1, &error), DPB_CORRUPT);
  bytes[len / 2] ^= 1;
  STATUS(dpb_pool_merge(here, bytes, len), DPB_CORRUPT);
  bytes[len / 2] ^= 1;
  config.epsilon = 2;
  STATUS(dpb_new_pool(&config, 1, &last, NULL), DPB_OK);
  STATUS(dpb_pool_merge_with(last, bytes, len, &error), DPB_INVALID_CONFIG);
  CHECK(strcmp(error.message, "epsilon must be 1, as in the snapshot, got 2") == 0);
  dpb_pool_free(last);
  after = report(here);
  CHECK(memcmp(&before, &after, sizeof before) == 0);

  for (round = 0; round < 3; round++) {
    STATUS(dpb_pool_merge_with(here, bytes, len, &error), DPB_OK);
    STATUS(dpb_pool_merge(there, bytes, len), DPB_OK); /* its own */
    CHECK(report(here).segments == (round > 0) && report(here).decisions == 0 && report(here).epsilon_spent == 1);
    STATUS(dpb_pool_segment(here, 41, &segment), DPB_OK);
    one_arm(here, segment, 2, &arm);
    CHECK(segment == 0 && arm.pulls == 0 && arm.effective_pulls == theirs.effective_pulls && arm.effective_pulls > 500);
    CHECK(fabs(arm.mean - theirs.mean) < .02);
    one_arm(there, 1, 2, &arm);
    CHECK(memcmp(&arm, &theirs, sizeof arm) == 0);
  }
  STATUS(dpb_pool_segment(here, 40, &segment), DPB_FULL);
  own = bytes_of(here, &n);
  STATUS(dpb_pool_restore(own, n, &last, NULL), DPB_OK);
  one_arm(last, 0, 2, &arm);
  CHECK(arm.effective_pulls == 0);
  dpb_pool_free(last);
  dpb_pool_free(here);
  dpb_pool_free(there);
  free(own);
  free(bytes);
}

int main(void) {
  bad_input();
  a_prior();
  segments_learn_from_each_other();
  it_goes_on();
  a_window();
  it_merges();
  return failures != 0;
}
