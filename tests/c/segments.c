/* A segmented bandit: many segments in one handle. */
#include "check.h"

enum { ARMS = 4, MOST = 3 };

static dpb_config config_of(uint32_t max_segments) {
  dpb_config config = seeded(ARMS, 1);
  config.max_segments = max_segments;
  return config;
}

static dpb_report report(const dpb_bandit *bandit) {
  dpb_report r;
  r.struct_size = sizeof r;
  STATUS(dpb_report_read(bandit, &r), DPB_OK);
  CHECK(r.decisions == r.answered + r.cancelled + r.expired + r.pending && r.arms_active == ARMS);
  CHECK(r.policy == DPB_POLICY_IMED && strcmp(dpb_policy_name(bandit), "dp-imed") == 0);
  return r;
}

static void one_arm(const dpb_bandit *bandit, uint64_t segment, uint32_t arm, dpb_arm *out) {
  dpb_arm arms[ARMS];
  size_t n = 0;
  STATUS(dpb_segment_read(bandit, segment, arms, ARMS, &n), DPB_OK);
  CHECK(n == ARMS && arms[arm].active == 1 && isnan(arms[arm].width) && arms[arm].mean > 0 && arms[arm].mean < 1);
  *out = arms[arm];
}

/* The first request with a key creates its segment. */
static void begin(dpb_bandit *bandit, uint64_t segment) {
  dpb_decision d;
  STATUS(dpb_select_for(bandit, request(1, segment, 0, NULL, 0), &d), DPB_OK);
  STATUS(dpb_cancel(bandit, d.ticket), DPB_OK);
}

/* A refused call changes nothing and creates no segment. */
static void bad_input(void) {
  dpb_config config = config_of(1u << 30);
  dpb_bandit *bandit = NULL;
  dpb_error error;
  dpb_decision d = {99, 99, 99, 99}, many[3] = {{99, 99, 99, 99}, {99, 99, 99, 99}, {99, 99, 99, 99}};
  dpb_report before, after;
  dpb_request requests[3];
  dpb_diagnostics refused;
  dpb_arm arms[ARMS];
  dpb_status each[2];
  const uint32_t some[2] = {1, 3}, wrong[2] = {1, ARMS};
  uint64_t tickets[2];
  double rewards[2] = {1, 0}, low = 9, high = 9;
  uint32_t arm = 77;
  size_t n = 77, done = 77, i;

  STATUS(dpb_new(&config, &bandit, &error), DPB_INVALID_CONFIG);
  CHECK(strncmp(error.message, "max_segments must be 2^27 arms in all segments at most, got ", 60) == 0);
  config.max_segments = MOST;
  STATUS(dpb_new_med(&config, &bandit, &error), DPB_INVALID_CONFIG);
  CHECK(strcmp(error.message, "max_segments must be 0: dp-med does not use it, got 3") == 0);
  config.epsilon = -1;
  STATUS(dpb_new(&config, &bandit, &error), DPB_INVALID_CONFIG);
  CHECK(strcmp(error.message, "epsilon must be finite and > 0, got -1") == 0);
  config.epsilon = 1;
  CHECK(bandit == NULL);
  STATUS(dpb_new_policy("dp-imed", &config, &bandit, &error), DPB_OK);

  before = report(bandit);
  CHECK(before.segments == 0 && before.max_segments == MOST && before.decisions == 0);
  STATUS(dpb_select(bandit, &d), DPB_UNSUPPORTED);
  STATUS(dpb_select_for(bandit, NULL, &d), DPB_NULL);
  STATUS(dpb_select_for(bandit, request(1, 5, 0, NULL, 0), NULL), DPB_NULL);
  STATUS(dpb_select_for(NULL, request(1, 5, 0, NULL, 0), &d), DPB_NULL);
  refused_for(bandit, request(0, 5, 0, NULL, 0), DPB_INVALID_REQUEST, "slots must be at least 1, got 0");
  refused_for(bandit, request(ARMS + 1, 5, 0, NULL, 0), DPB_INVALID_REQUEST,
             "slots must be at most 4, the number of eligible arms, got 5");
  refused_for(bandit, request(1, 5, 7, NULL, 0), DPB_UNSUPPORTED,
             "this configuration does not support user 7: config.expected_users is 0");
  refused_for(bandit, request(1, 5, 0, NULL, 2), DPB_INVALID_REQUEST,
             "eligible_len must be 0 where eligible is NULL, got 2");
  refused_for(bandit, request(1, 5, 0, some, 0), DPB_INVALID_REQUEST, "eligible_len must be at least 1, got 0");
  refused_for(bandit, request(1, 5, 0, wrong, 2), DPB_INVALID_REQUEST, "eligible must be below 4, got 4");
  STATUS(dpb_select_many(bandit, NULL, 1, many, &done), DPB_UNSUPPORTED);
  CHECK(done == 0);
  STATUS(dpb_segment_read(bandit, 5, arms, ARMS, &n), DPB_INVALID_REQUEST);
  STATUS(dpb_add_arm(bandit, 1, &arm, &error), DPB_INVALID_CONFIG);
  STATUS(dpb_retire_arm(bandit, ARMS), DPB_INVALID_REQUEST);
  STATUS(dpb_compare(bandit, 0, 1, .9, &low, &high), DPB_NOT_READY);
  STATUS(dpb_best_arm(bandit, &arm), DPB_UNSUPPORTED);
  CHECK(n == 77 && arm == 77 && d.ticket == 99 && low == 9);
  after = report(bandit);
  CHECK(memcmp(&before, &after, sizeof before) == 0);

  begin(bandit, 5);
  begin(bandit, 0);
  begin(bandit, UINT64_MAX);
  begin(bandit, 5);
  refused_for(bandit, request(1, 6, 0, NULL, 0), DPB_FULL, "segment 6 is new, and all of config.max_segments = 3 are in use");
  CHECK(d.ticket == 99 && strcmp(dpb_status_name(DPB_FULL), "DPB_FULL") == 0 && report(bandit).segments == MOST);

  for (i = 0; i < 3; i++) requests[i] = *request(1, i == 1 ? 6 : 5, 0, NULL, 0);
  STATUS(dpb_select_many(NULL, requests, 3, many, &done), DPB_NULL);
  STATUS(dpb_select_many(bandit, requests, 3, NULL, &done), DPB_NULL);
  STATUS(dpb_select_many(bandit, requests, 3, many, NULL), DPB_NULL);
  CHECK(done == 0 && many[0].ticket == 99);
  STATUS(dpb_select_many(bandit, requests, 3, many, &done), DPB_FULL); /* the second needs a new segment */
  CHECK(done == 1 && many[0].ticket != 99 && many[1].ticket == 99);
  STATUS(dpb_cancel(bandit, many[0].ticket), DPB_OK);
  requests[1].segment = 0;
  requests[2].struct_size += 8;
  STATUS(dpb_select_many(bandit, requests, 3, many, &done), DPB_INVALID_REQUEST);
  CHECK(done == 2 && many[2].ticket == 99);
  STATUS(dpb_cancel(bandit, many[0].ticket), DPB_OK);
  STATUS(dpb_cancel(bandit, many[1].ticket), DPB_OK);
  requests[2].struct_size -= 8;
  STATUS(dpb_select_many(bandit, requests, 3, many, &done), DPB_OK);
  CHECK(done == 3);
  STATUS(dpb_select_for(bandit, request(1, UINT64_MAX, 0, some, 2), &d), DPB_OK);
  CHECK((d.arm == 1 || d.arm == 3) && d.propensity == 1);
  STATUS(dpb_update(bandit, many[0].ticket, 2), DPB_INVALID_REWARD);
  STATUS(dpb_update(bandit, many[0].ticket, 1), DPB_OK);
  STATUS(dpb_update(bandit, many[0].ticket, 1), DPB_DUPLICATE);
  STATUS(dpb_cancel(bandit, many[0].ticket), DPB_DUPLICATE);
  STATUS(dpb_cancel(bandit, many[0].ticket ^ 1), DPB_UNKNOWN_TICKET);
  STATUS(dpb_cancel(bandit, many[1].ticket), DPB_OK);
  tickets[0] = many[1].ticket;
  tickets[1] = many[2].ticket;
  STATUS(dpb_update_many(bandit, tickets, rewards, 2, each, &done), DPB_DUPLICATE);
  CHECK(done == 1 && each[0] == DPB_DUPLICATE && each[1] == DPB_OK);
  after = report(bandit);
  CHECK(after.decisions == 11 && after.answered == 2 && after.cancelled == 8 && after.pending == 1);

  refused.struct_size = sizeof refused;
  STATUS(dpb_diagnostics_read(bandit, &refused), DPB_OK);
  CHECK(refused.duplicates == 3 && refused.rejected == 1 && refused.unknown == 1 && refused.late == 0);
  STATUS(dpb_segment_read(NULL, 5, arms, ARMS, &n), DPB_NULL);
  STATUS(dpb_segment_read(bandit, 5, NULL, ARMS, &n), DPB_NULL);
  STATUS(dpb_segment_read(bandit, 5, arms, ARMS, NULL), DPB_NULL);
  STATUS(dpb_segment_read(bandit, 6, arms, ARMS, &n), DPB_INVALID_REQUEST);
  CHECK(n == 77);
  arms[0].pulls = 99;
  STATUS(dpb_segment_read(bandit, 5, arms, ARMS - 1, &n), DPB_BUFFER_TOO_SMALL);
  CHECK(n == ARMS && arms[0].pulls == 99);
  dpb_free(bandit);

  /* A handle without segments refuses keys. */
  config = seeded(ARMS, 1);
  STATUS(dpb_new(&config, &bandit, NULL), DPB_OK);
  STATUS(dpb_select_for(bandit, request(1, 5, 0, NULL, 0), &d), DPB_UNSUPPORTED);
  STATUS(dpb_segment_read(bandit, 5, arms, ARMS, &n), DPB_UNSUPPORTED);
  dpb_free(bandit);
}

/* Arm 2 is the best in every segment. Clicks come from a generator with a fixed seed. */
static void play(dpb_bandit *bandit, uint32_t segments, uint64_t *coins, uint32_t decisions) {
  uint32_t t;
  for (t = 0; t < decisions; t++) {
    dpb_decision d;
    STATUS(dpb_select_for(bandit, request(1, 70 + t % segments, 0, NULL, 0), &d), DPB_OK);
    *coins = *coins * 6364136223846793005u + 1442695040888963407u;
    STATUS(dpb_update(bandit, d.ticket, (double)(*coins >> 40) < (d.arm == 2 ? .4 : .1) * (1 << 24)), DPB_OK);
  }
}

/* A prior from public data takes effect in every segment at once. */
static void a_prior(void) {
  dpb_config config = config_of(MOST);
  dpb_bandit *bandit;
  dpb_arm before, after;
  dpb_error error;
  STATUS(dpb_new(&config, &bandit, NULL), DPB_OK);
  begin(bandit, 70);
  one_arm(bandit, 70, 1, &before);
  STATUS(dpb_set_prior(NULL, 1, .5, 100, NULL), DPB_NULL);
  STATUS(dpb_set_prior(bandit, ARMS, .5, 100, &error), DPB_INVALID_REQUEST);
  CHECK(strcmp(error.message, "arm must be below 4, got 4") == 0);
  STATUS(dpb_set_prior(bandit, 1, 1.5, 100, NULL), DPB_INVALID_CONFIG);
  STATUS(dpb_set_prior(bandit, 1, NAN, 100, NULL), DPB_INVALID_CONFIG);
  STATUS(dpb_set_prior(bandit, 1, .5, 0, NULL), DPB_INVALID_CONFIG);
  STATUS(dpb_set_prior(bandit, 1, .5, 1e9, NULL), DPB_INVALID_CONFIG);
  one_arm(bandit, 70, 1, &after);
  CHECK(memcmp(&before, &after, sizeof before) == 0);
  STATUS(dpb_set_prior(bandit, 1, .5, 1000, NULL), DPB_OK);
  one_arm(bandit, 70, 1, &after);
  CHECK(after.mean > 2 * before.mean && after.mean < .6 && after.effective_pulls == 0);
  CHECK(report(bandit).epsilon_spent == 0);
  dpb_free(bandit);
}

/* A new segment starts from what the other segments have learned. */
static void segments_learn_from_each_other(void) {
  dpb_config config = config_of(MOST);
  dpb_bandit *bandit;
  dpb_arm good, bad, all[ARMS], here[2];
  uint64_t coins = 1;
  uint32_t t, best = 0;
  size_t n;
  STATUS(dpb_new(&config, &bandit, NULL), DPB_OK);
  play(bandit, 2, &coins, 20000);
  begin(bandit, 72);
  one_arm(bandit, 72, 2, &good);
  one_arm(bandit, 72, 1, &bad);
  CHECK(good.mean > bad.mean + .1 && good.pulls == 0 && good.effective_pulls == 0);
  for (t = 0; t < 1000; t++) {
    dpb_decision d;
    STATUS(dpb_select_for(bandit, request(1, 72, 0, NULL, 0), &d), DPB_OK);
    STATUS(dpb_cancel(bandit, d.ticket), DPB_OK);
    best += d.arm == 2;
  }
  CHECK(best > 500);
  one_arm(bandit, 70, 2, &good);
  CHECK(fabs(good.mean - .4) < .1 && good.effective_pulls > 1000 && good.pulls > 5000);
  CHECK(report(bandit).epsilon_spent == 1 && report(bandit).delta_spent == 0 && report(bandit).is_private == 0);
  CHECK(report(bandit).phase > 10);
  /* All segments together have the sum of the pulls. They have more rewards than the segments' own batches, because
   * some batches belong to several segments. */
  STATUS(dpb_arms_read(bandit, all, ARMS, &n), DPB_OK);
  one_arm(bandit, 70, 2, &here[0]);
  one_arm(bandit, 71, 2, &here[1]);
  CHECK(n == ARMS && all[2].pulls == here[0].pulls + here[1].pulls && isnan(all[2].width) && all[2].active == 1);
  CHECK(all[2].effective_pulls >= here[0].effective_pulls + here[1].effective_pulls && fabs(all[2].mean - .4) < .1);
  dpb_free(bandit);
}

static void it_goes_on(void) {
  dpb_config config = config_of(MOST);
  dpb_bandit *bandit, *next = NULL, *other = NULL;
  dpb_decision open;
  dpb_error error;
  dpb_arm before, after;
  unsigned char *bytes, small[8];
  size_t len = 0, again = 7;
  uint64_t coins = 2;
  STATUS(dpb_new(&config, &bandit, NULL), DPB_OK);
  play(bandit, MOST, &coins, 10000);
  STATUS(dpb_select_for(bandit, request(1, 71, 0, NULL, 0), &open), DPB_OK);
  STATUS(dpb_snapshot(NULL, NULL, 0, &len, NULL), DPB_NULL);
  STATUS(dpb_snapshot(bandit, NULL, 0, NULL, NULL), DPB_NULL);
  STATUS(dpb_snapshot(bandit, NULL, 1, &len, NULL), DPB_NULL);
  STATUS(dpb_snapshot(bandit, NULL, 0, &len, NULL), DPB_BUFFER_TOO_SMALL);
  memset(small, 0xa5, sizeof small);
  STATUS(dpb_snapshot(bandit, small, sizeof small, &again, NULL), DPB_BUFFER_TOO_SMALL);
  CHECK(len == again && small[0] == 0xa5);
  /* the size that dpb.h states, within a tenth */
  CHECK(fabs((double)len / (320 + 66 * ARMS + (40 * ARMS + 16) * MOST) - 1) < .1);
  bytes = (unsigned char *)malloc(len);
  CHECK(bytes != NULL);
  STATUS(dpb_snapshot(bandit, bytes, len, &again, NULL), DPB_OK);

  STATUS(dpb_restore(bytes, len, &next, &error), DPB_OK);
  STATUS(dpb_update(next, open.ticket, 1), DPB_UNKNOWN_TICKET);
  CHECK(report(next).segments == MOST && report(next).decisions == 10001 && report(next).expired == 1 && report(next).is_private == 0);
  one_arm(bandit, 72, 2, &before);
  one_arm(next, 72, 2, &after);
  CHECK(before.pulls == after.pulls && before.effective_pulls == after.effective_pulls);
  CHECK(fabs(before.mean - after.mean) < .02);
  STATUS(dpb_select_for(next, request(1, 97, 0, NULL, 0), &open), DPB_FULL);
  dpb_free(next);

  /* A snapshot can be restored with more segments and the same other settings. */
  config.max_segments = MOST + 5;
  STATUS(dpb_restore_as("dp-imed", &config, bytes, len, &next, &error), DPB_OK);
  begin(next, 97);
  CHECK(report(next).segments == MOST + 1 && report(next).max_segments == MOST + 5);
  dpb_free(next);
  config.max_segments = MOST - 1;
  STATUS(dpb_restore_as("dp-imed", &config, bytes, len, &other, &error), DPB_INVALID_CONFIG);
  CHECK(strcmp(error.message, "max_segments must be at least 3, as in the snapshot, got 2") == 0);
  config.max_segments = 0;
  STATUS(dpb_restore_as("dp-imed", &config, bytes, len, &other, &error), DPB_INVALID_CONFIG);
  CHECK(strcmp(error.message, "max_segments must be at least 1: the snapshot has segments, got 0") == 0);
  config.max_segments = MOST;
  STATUS(dpb_restore_as("dp-med", &config, bytes, len, &other, &error), DPB_INVALID_CONFIG);
  config.epsilon = 2;
  STATUS(dpb_restore_as("dp-imed", &config, bytes, len, &other, &error), DPB_INVALID_CONFIG);
  CHECK(strcmp(error.message, "epsilon must be 1, as in the snapshot, got 2") == 0);
  config.epsilon = 1;
  STATUS(dpb_restore_as("dp-imed", NULL, bytes, len, &other, &error), DPB_NULL);
  STATUS(dpb_restore_as("dp-imed", &config, NULL, len, &other, &error), DPB_NULL);
  STATUS(dpb_restore_as("dp-imed", &config, bytes, len, NULL, &error), DPB_NULL);
  STATUS(dpb_restore(NULL, len, &other, &error), DPB_NULL);
  STATUS(dpb_restore(bytes, len, NULL, &error), DPB_NULL);
  STATUS(dpb_restore(NULL, 0, &other, NULL), DPB_CORRUPT);
  STATUS(dpb_restore(bytes, len - 1, &other, &error), DPB_CORRUPT);
  bytes[4] ^= 2; /* another kind */
  STATUS(dpb_restore(bytes, len, &other, &error), DPB_CORRUPT);
  bytes[4] ^= 2;
  bytes[len / 2] ^= 1;
  STATUS(dpb_restore(bytes, len, &other, &error), DPB_CORRUPT);
  CHECK(other == NULL);
  free(bytes);
  dpb_free(bandit);
}

/* Without an update a decision has reward 0 when its window ends; the last ones are still open. */
static void a_window(void) {
  dpb_config config = config_of(MOST);
  dpb_bandit *bandit;
  dpb_decision d;
  uint32_t t;
  uint64_t first = 0;
  config.reward_window = 10;
  config.forget_after = 2000;
  STATUS(dpb_new(&config, &bandit, NULL), DPB_OK);
  for (t = 0; t < 5000; t++) {
    STATUS(dpb_select_for(bandit, request(1, t % 2, 0, NULL, 0), &d), DPB_OK);
    if (t == 0) first = d.ticket;
  }
  CHECK(report(bandit).answered == 4990 && report(bandit).pending == 10);
  STATUS(dpb_update(bandit, first, 1), DPB_EXPIRED);
  STATUS(dpb_update(bandit, d.ticket, 1), DPB_OK);
  CHECK(report(bandit).answered == 4990);
  dpb_free(bandit);
}

/* A handle that has merged knows a segment of another handle as soon as a request names it. Its own snapshot does not
 * pass that on. */
static void it_merges(void) {
  dpb_config config = config_of(MOST);
  dpb_bandit *there, *here, *last;
  dpb_error error;
  dpb_arm arm, theirs;
  dpb_decision d;
  dpb_report before, after;
  unsigned char *bytes, *own;
  size_t len = 0, n = 0;
  uint64_t coins = 3;
  uint32_t round;
  STATUS(dpb_new(&config, &there, NULL), DPB_OK);
  play(there, 2, &coins, 10000);
  bytes = snapshot_of(there, &len);
  STATUS(dpb_merge(there, bytes, len, NULL), DPB_OK); /* a merge recomputes the model; repeating it changes nothing */
  one_arm(there, 71, 2, &theirs);
  config.max_segments = 1;
  STATUS(dpb_new(&config, &here, NULL), DPB_OK);

  before = report(here);
  STATUS(dpb_merge(NULL, bytes, len, NULL), DPB_NULL);
  STATUS(dpb_merge(NULL, bytes, len, &error), DPB_NULL);
  CHECK(strcmp(error.message, "the handle is NULL") == 0);
  STATUS(dpb_merge(here, NULL, len, &error), DPB_NULL);
  CHECK(strcmp(error.message, "snapshot is NULL") == 0);
  STATUS(dpb_merge(here, NULL, 0, NULL), DPB_CORRUPT);
  STATUS(dpb_merge(here, bytes, len - 1, &error), DPB_CORRUPT);
  bytes[len / 2] ^= 1;
  STATUS(dpb_merge(here, bytes, len, NULL), DPB_CORRUPT);
  bytes[len / 2] ^= 1;
  config.epsilon = 2;
  STATUS(dpb_new(&config, &last, NULL), DPB_OK);
  STATUS(dpb_merge(last, bytes, len, &error), DPB_INVALID_CONFIG);
  CHECK(strcmp(error.message, "epsilon must be 1, as in the snapshot, got 2") == 0);
  dpb_free(last);
  after = report(here);
  CHECK(memcmp(&before, &after, sizeof before) == 0);

  for (round = 0; round < 3; round++) {
    STATUS(dpb_merge(here, bytes, len, &error), DPB_OK);
    STATUS(dpb_merge(there, bytes, len, NULL), DPB_OK); /* its own releases */
    CHECK(report(here).segments == (round > 0) && report(here).decisions == round && report(here).epsilon_spent == 1);
    begin(here, 71);
    one_arm(here, 71, 2, &arm);
    CHECK(arm.pulls == 0 && arm.effective_pulls == theirs.effective_pulls && arm.effective_pulls > 500);
    CHECK(fabs(arm.mean - theirs.mean) < .02);
    one_arm(there, 71, 2, &arm);
    CHECK(memcmp(&arm, &theirs, sizeof arm) == 0);
  }
  STATUS(dpb_select_for(here, request(1, 70, 0, NULL, 0), &d), DPB_FULL);
  own = snapshot_of(here, &n);
  STATUS(dpb_restore(own, n, &last, NULL), DPB_OK);
  one_arm(last, 71, 2, &arm);
  CHECK(arm.effective_pulls == 0);
  dpb_free(last);
  dpb_free(here);
  dpb_free(there);
  free(own);
  free(bytes);
}

/* Slots of a request get different arms; arms are added and retired by their ids; exploration has exact propensities;
 * arms are compared. */
static void all_that_a_bandit_does(void) {
  dpb_config config = config_of(MOST);
  dpb_bandit *bandit, *other;
  dpb_decision d[3];
  double low = 9, high = 9, inverse = 0;
  unsigned char *bytes;
  uint32_t arm = 77, t, n = 0, known = 0;
  uint64_t coins = 5;
  size_t len = 0, i;

  config.exploration = .3;
  STATUS(dpb_new(&config, &bandit, NULL), DPB_OK);
  for (t = 0; t < 20000; t++) {
    STATUS(dpb_select_for(bandit, request(1, t % MOST, 0, NULL, 0), d), DPB_OK);
    /* .3/4, and .7 more for the arm that the policy chooses */
    CHECK(fabs(d->propensity - .075) < 1e-12 || fabs(d->propensity - .775) < 1e-12);
    if (d->arm == 2) inverse += 1 / d->propensity;
    coins = coins * 6364136223846793005u + 1442695040888963407u;
    STATUS(dpb_update(bandit, d->ticket, (coins >> 33) % 10 < (d->arm == 2 ? 5 : 1)), DPB_OK);
    known += dpb_compare(bandit, 2, 0, .9, &low, &high) == DPB_OK;
    if (known == 1) CHECK(-1 <= low && low <= high && high <= 1);
    if (known > 0 && t < 15000) t += 499;
  }
  CHECK(known > 0);
  n = (uint32_t)report(bandit).decisions;
  CHECK(fabs(inverse / n - 1) < .5);

  for (t = 0; t < 100; t++) {
    STATUS(dpb_select_for(bandit, request(3, 1, 0, NULL, 0), d), DPB_OK);
    CHECK(d[0].arm != d[1].arm && d[0].arm != d[2].arm && d[1].arm != d[2].arm);
    for (i = 0; i < 3; i++) {
      CHECK(d[i].propensity > 0 && d[i].propensity <= 1);
      STATUS(dpb_update(bandit, d[i].ticket, 0), DPB_OK);
    }
  }

  STATUS(dpb_add_arm(bandit, 4711, &arm, NULL), DPB_OK);
  CHECK(arm == ARMS);
  STATUS(dpb_select_for(bandit, request(1, 1, 0, &arm, 1), d), DPB_OK);
  STATUS(dpb_update(bandit, d->ticket, 1), DPB_OK);
  bytes = snapshot_of(bandit, &len);
  STATUS(dpb_new(&config, &other, NULL), DPB_OK);
  STATUS(dpb_add_arm(other, 42, &arm, NULL), DPB_OK);
  STATUS(dpb_add_arm(other, 4711, &arm, NULL), DPB_OK);
  CHECK(arm == ARMS + 1);
  STATUS(dpb_merge(other, bytes, len, NULL), DPB_OK); /* arms are matched by their ids */
  STATUS(dpb_retire_arm(other, arm), DPB_OK);
  STATUS(dpb_retire_arm(other, arm), DPB_INVALID_REQUEST);
  STATUS(dpb_select_for(other, request(1, 1, 0, &arm, 1), d), DPB_INVALID_REQUEST);
  for (t = 0; t < 100; t++) {
    STATUS(dpb_select_for(other, request(1, t % 2, 0, NULL, 0), d), DPB_OK);
    CHECK(d->arm != arm);
  }
  dpb_free(other);
  dpb_free(bandit);
  free(bytes);
}

int main(void) {
  all_that_a_bandit_does();
  bad_input();
  a_prior();
  segments_learn_from_each_other();
  it_goes_on();
  a_window();
  it_merges();
  return failures != 0;
}
