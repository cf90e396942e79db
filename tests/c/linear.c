/* Decisions by features. */
#include "check.h"

enum { ARMS = 5, D = 4, ROUNDS = 30000 };

static dpb_config config_of(uint32_t model, double epsilon) {
  dpb_config config = seeded(ARMS, epsilon);
  config.features = D;
  config.feature_model = model;
  config.feature_norm = 2;
  return config;
}

static double coin(void) {
  static uint64_t state = 7;
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (double)(state >> 11) / 9007199254740992.0;
}

/* Each visitor is of one of two kinds, shown by feature 0 or 1. Each arm is liked by one kind. */
static double play(dpb_bandit *bandit, uint32_t rounds, int sparse) {
  const float kinds[2][D] = {{1, 0, 0, 0}, {0, 1, 0, 0}};
  uint32_t t, liked = 0;
  for (t = 0; t < rounds; t++) {
    uint32_t kind = coin() < .5, one = 1;
    dpb_feature entry = {0, 1};
    dpb_request r;
    dpb_decision d;
    dpb_request_init(&r);
    if (sparse) {
      entry.index = kind;
      r.sparse = &entry;
      r.sparse_ends = &one;
    } else {
      r.features = kinds[kind];
    }
    STATUS(dpb_select_for(bandit, &r, &d), DPB_OK);
    liked += d.arm % 2 == kind;
    STATUS(dpb_update(bandit, d.ticket, coin() < (d.arm % 2 == kind ? .4 : .1)), DPB_OK);
  }
  return (double)liked / rounds;
}

static void a_model_for_each_arm(void) {
  int sparse;
  for (sparse = 0; sparse < 2; sparse++) {
    dpb_config config = config_of(DPB_MODEL_PER_ARM, 4);
    dpb_bandit *bandit = NULL;
    const float row[D] = {1, 0, 0, 0};
    dpb_request r;
    dpb_report report;
    double mean[ARMS], deviation[ARMS], spent = 9;
    int arm, known = 0;
    STATUS(dpb_new(&config, &bandit, NULL), DPB_OK);
    CHECK(strcmp(dpb_policy_name(bandit), "dp-linear") == 0);
    play(bandit, ROUNDS, sparse);
    CHECK(play(bandit, ROUNDS, sparse) > .9);
    dpb_request_init(&r);
    r.features = row;
    STATUS(dpb_predict(bandit, &r, mean, deviation), DPB_OK);
    for (arm = 0; arm < ARMS; arm++) {
      const double off = mean[arm] - (arm % 2 == 0 ? .4 : .1);
      CHECK(deviation[arm] > 0 && off < 4 * deviation[arm] && off > -4 * deviation[arm]);
      known += mean[arm] > .35 && deviation[arm] < .03;
    }
    CHECK(known > 0); /* a liked arm; one is enough to know */
    report.struct_size = sizeof report;
    STATUS(dpb_report_read(bandit, &report), DPB_OK);
    CHECK(report.policy == DPB_POLICY_LINEAR && report.features == D && report.feature_model == DPB_MODEL_PER_ARM);
    CHECK(report.arms_active == ARMS && report.failures == 0 && report.phase > 5 && report.is_private == 0);
    STATUS(dpb_epsilon_spent(bandit, 0, &spent), DPB_OK);
    CHECK(spent == 4);
    dpb_free(bandit);
  }
}

/* One model for all arms: rows describe arms, and feature 0 makes an arm liked. The model predicts a new arm from its
 * row. */
static void one_model(void) {
  dpb_config config = config_of(DPB_MODEL_SHARED, 4);
  dpb_bandit *bandit = NULL;
  float rows[(ARMS + 1) * D];
  dpb_request r;
  dpb_decision d[3];
  double mean[ARMS + 1];
  uint32_t t, i, arm, best = 0;
  const uint32_t some[3] = {4, 1, 4};
  memset(rows, 0, sizeof rows);
  for (i = 0; i < ARMS; i++) rows[i * D] = (float)i / ARMS, rows[i * D + 1] = 1;
  STATUS(dpb_new_linear(&config, &bandit, NULL), DPB_OK);
  dpb_request_init(&r);
  r.features = rows;
  for (t = 0; t < ROUNDS; t++) {
    STATUS(dpb_select_for(bandit, &r, d), DPB_OK);
    best += t >= ROUNDS / 2 && d[0].arm == ARMS - 1;
    STATUS(dpb_update(bandit, d[0].ticket, coin() < .05 + .5 * d[0].arm / ARMS), DPB_OK);
  }
  CHECK(best > .8 * ROUNDS / 2);
  r.slots = 3;
  STATUS(dpb_select_for(bandit, &r, d), DPB_OK);
  CHECK(d[0].arm != d[1].arm && d[0].arm != d[2].arm && d[1].arm != d[2].arm);
  for (i = 0; i < 3; i++) STATUS(dpb_update(bandit, d[i].ticket, 0), DPB_OK);
  r.slots = 1;
  STATUS(dpb_add_arm(bandit, 0, &arm, NULL), DPB_OK);
  CHECK(arm == ARMS);
  rows[ARMS * D] = 1.2f, rows[ARMS * D + 1] = 1;
  STATUS(dpb_predict(bandit, &r, mean, NULL), DPB_OK);
  CHECK(mean[ARMS] > mean[ARMS - 1] && mean[ARMS - 1] > mean[0]);
  STATUS(dpb_retire_arm(bandit, 0), DPB_OK);
  rows[0] = NAN; /* invalid, and not read */
  STATUS(dpb_predict(bandit, &r, mean, NULL), DPB_OK);
  CHECK(isnan(mean[0]) && mean[1] > 0);
  for (t = 0; t < 100; t++) {
    STATUS(dpb_select_for(bandit, &r, d), DPB_OK);
    CHECK(d[0].arm != 0);
    STATUS(dpb_cancel(bandit, d[0].ticket), DPB_OK);
  }
  /* A row for each eligible arm, in that order. */
  r.eligible = some;
  r.eligible_len = 3;
  r.features = rows + D;
  r.features_len = 3 * D;
  STATUS(dpb_select_for(bandit, &r, d), DPB_OK);
  CHECK(d[0].arm == 4 || d[0].arm == 1);
  dpb_free(bandit);
}

static void bad_input(void) {
  dpb_config config = config_of(DPB_MODEL_SHARED, 1);
  dpb_bandit *bandit = NULL, *plain = NULL;
  dpb_error error;
  dpb_request r;
  dpb_decision d = {99, 99, 99, 99};
  dpb_report before, after;
  float rows[ARMS * D];
  dpb_feature entries[ARMS];
  uint32_t ends[ARMS], i;
  const float bad[3] = {NAN, INFINITY, -INFINITY};
  double mean = 9;
  memset(rows, 0, sizeof rows);
  for (i = 0; i < ARMS; i++) entries[i].index = i % D, entries[i].value = 1, ends[i] = i + 1;

  config.feature_model = 2;
  STATUS(dpb_new(&config, &bandit, &error), DPB_INVALID_CONFIG);
  CHECK(strncmp(error.message, "feature_model must be", 21) == 0);
  config.feature_model = 0;
  config.feature_norm = 0;
  STATUS(dpb_new(&config, &bandit, &error), DPB_INVALID_CONFIG);
  CHECK(strncmp(error.message, "feature_norm must be", 20) == 0);
  config.feature_norm = NAN;
  STATUS(dpb_new(&config, &bandit, &error), DPB_INVALID_CONFIG);
  config.feature_norm = 1;
  config.features = 257;
  STATUS(dpb_new(&config, &bandit, &error), DPB_INVALID_CONFIG);
  CHECK(strcmp(error.message, "features must be at most 256, got 257") == 0);
  config.features = 0;
  STATUS(dpb_new_linear(&config, &bandit, &error), DPB_INVALID_CONFIG);
  config.features = D;
  STATUS(dpb_new_imed(&config, &bandit, &error), DPB_INVALID_CONFIG);
  CHECK(strcmp(error.message, "features must be 0: only dp-linear has features, got 4") == 0);
  config.max_segments = 2;
  STATUS(dpb_new(&config, &bandit, &error), DPB_INVALID_CONFIG);
  config.max_segments = 0;
  CHECK(bandit == NULL);

  STATUS(dpb_new(&config, &bandit, NULL), DPB_OK);
  before.struct_size = after.struct_size = sizeof before;
  STATUS(dpb_report_read(bandit, &before), DPB_OK);
  dpb_request_init(&r);
  STATUS(dpb_select(bandit, &d), DPB_UNSUPPORTED);
  STATUS(dpb_select_for(bandit, &r, &d), DPB_INVALID_REQUEST); /* no features */
  r.features = rows;
  for (i = 0; i < 3; i++) {
    rows[7] = bad[i];
    STATUS(dpb_select_for(bandit, &r, &d), DPB_INVALID_REQUEST);
    STATUS(dpb_predict(bandit, &r, &mean, NULL), DPB_INVALID_REQUEST);
  }
  rows[7] = 0;
  r.features_len = ARMS * D - 1;
  STATUS(dpb_select_for(bandit, &r, &d), DPB_INVALID_REQUEST);
  r.features_len = 0;
  r.sparse = entries;
  STATUS(dpb_select_for(bandit, &r, &d), DPB_INVALID_REQUEST); /* both, and no ends */
  r.sparse_ends = ends;
  STATUS(dpb_select_for(bandit, &r, &d), DPB_INVALID_REQUEST); /* both */
  r.features = NULL;
  entries[2].index = D;
  STATUS(dpb_select_for(bandit, &r, &d), DPB_INVALID_REQUEST);
  entries[2].index = 1;
  entries[2].value = NAN;
  STATUS(dpb_select_for(bandit, &r, &d), DPB_INVALID_REQUEST);
  entries[2].value = 1;
  ends[1] = 4; /* row 2 would end before row 1 */
  STATUS(dpb_select_for(bandit, &r, &d), DPB_INVALID_REQUEST);
  ends[1] = 2;
  r.sparse_ends_len = ARMS - 1;
  STATUS(dpb_select_for(bandit, &r, &d), DPB_INVALID_REQUEST);
  r.sparse_ends_len = 0;
  r.slots = ARMS + 1;
  STATUS(dpb_select_for(bandit, &r, &d), DPB_INVALID_REQUEST);
  r.slots = 1;
  r.segment = 1;
  STATUS(dpb_select_for(bandit, &r, &d), DPB_UNSUPPORTED);
  r.segment = 0;
  r.user = 1;
  STATUS(dpb_select_for(bandit, &r, &d), DPB_UNSUPPORTED);
  r.user = 0;
  STATUS(dpb_set_prior(bandit, 0, .1, 10, &error), DPB_UNSUPPORTED);
  CHECK(d.ticket == 99 && mean == 9);
  STATUS(dpb_report_read(bandit, &after), DPB_OK);
  CHECK(memcmp(&before, &after, sizeof before) == 0);
  STATUS(dpb_select_for(bandit, &r, &d), DPB_OK);

  config.features = 0;
  STATUS(dpb_new(&config, &plain, NULL), DPB_OK);
  STATUS(dpb_select_for(plain, &r, &d), DPB_UNSUPPORTED);
  STATUS(dpb_predict(plain, &r, &mean, NULL), DPB_UNSUPPORTED);
  r.sparse = NULL;
  r.sparse_ends = NULL;
  STATUS(dpb_predict(plain, &r, &mean, NULL), DPB_UNSUPPORTED);
  dpb_free(plain);
  dpb_free(bandit);
}

/* The library scales down a row that is too large, and counts it. */
static void large_rows(void) {
  dpb_config config = config_of(DPB_MODEL_PER_ARM, 1);
  dpb_bandit *bandit = NULL;
  float row[D] = {100, 0, 0, 0};
  dpb_diagnostics told;
  dpb_request r;
  dpb_decision d;
  int t;
  STATUS(dpb_new(&config, &bandit, NULL), DPB_OK);
  dpb_request_init(&r);
  r.features = row;
  for (t = 0; t < 3000; t++) {
    row[0] = t % 3 == 0 ? 3e38f : (float)(t % 5);
    STATUS(dpb_select_for(bandit, &r, &d), DPB_OK);
    STATUS(dpb_update(bandit, d.ticket, t % 2), DPB_OK);
  }
  told.struct_size = sizeof told;
  STATUS(dpb_diagnostics_read(bandit, &told), DPB_OK);
  CHECK(told.oversized > 1000 && told.oversized < 3000);
  dpb_free(bandit);
}

/* Snapshots, a restored handle, and handles that merge its releases. */
static void lives(void) {
  dpb_config config = config_of(DPB_MODEL_PER_ARM, 4);
  dpb_bandit *bandit = NULL, *next = NULL, *peer = NULL;
  const float row[D] = {0, 1, 0, 0};
  dpb_request r;
  double here[ARMS], there[ARMS];
  unsigned char *bytes;
  size_t len = 0, i;
  dpb_error error;
  STATUS(dpb_new(&config, &bandit, NULL), DPB_OK);
  play(bandit, ROUNDS, 0);
  bytes = snapshot_of(bandit, &len);
  STATUS(dpb_restore(bytes, len, &next, NULL), DPB_OK);
  STATUS(dpb_new(&config, &peer, NULL), DPB_OK);
  STATUS(dpb_merge(peer, bytes, len, NULL), DPB_OK);
  dpb_request_init(&r);
  r.features = row;
  STATUS(dpb_predict(bandit, &r, here, NULL), DPB_OK);
  STATUS(dpb_predict(next, &r, there, NULL), DPB_OK);
  for (i = 0; i < ARMS; i++) CHECK(fabs(here[i] - there[i]) < .02);
  STATUS(dpb_predict(peer, &r, there, NULL), DPB_OK);
  for (i = 0; i < ARMS; i++) CHECK(fabs(here[i] - there[i]) < .02);
  CHECK(play(next, ROUNDS / 10, 1) > .85 && play(peer, ROUNDS / 10, 1) > .85);
  dpb_free(next);
  next = NULL;
  config.features = D - 1;
  STATUS(dpb_restore_as("dp-linear", &config, bytes, len, &next, &error), DPB_INVALID_CONFIG);
  CHECK(strcmp(error.message, "features must be 4, as in the snapshot, got 3") == 0);
  config.features = D;
  config.exploration = .1;
  config.pending_capacity = 64;
  STATUS(dpb_restore_as("dp-linear", &config, bytes, len, &next, NULL), DPB_OK);
  for (i = 0; i < len; i++) {
    dpb_bandit *none = NULL;
    bytes[i] ^= 1;
    CHECK(dpb_restore(bytes, len, &none, NULL) != DPB_OK && none == NULL);
    bytes[i] ^= 1;
  }
  free(bytes);
  dpb_free(bandit);
  dpb_free(next);
  dpb_free(peer);
}

/* As zlib.crc32(b"device=phone") % 1000 and zlib.crc32(struct.pack("<II", 3, 5)) % 1000 in Python. */
static void hashes(void) {
  CHECK(dpb_feature_hash("device", "phone", 1000) == 627 && dpb_feature_hash("device", "phone", 0) == 0);
  CHECK(dpb_feature_hash(NULL, NULL, 0xffffffff) == 2322244508u && dpb_feature_cross(3, 5, 1000) == 584);
  CHECK(dpb_feature_cross(3, 5, 0) == 0);
}

int main(void) {
  a_model_for_each_arm();
  one_model();
  bad_input();
  large_rows();
  lives();
  hashes();
  return failures != 0;
}
