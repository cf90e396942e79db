/* Decisions by features. */
#include "check.h"

enum { ARMS = 5, D = 4, ROUNDS = 30000 };

static dpb_config config_of(uint32_t model, double epsilon) {
  dpb_config config = seeded(ARMS, epsilon);
  config.features = D;
  config.feature_model = model;
  return config;
}

static double coin(void) {
  static uint64_t state = 7;
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (double)(state >> 11) / 9007199254740992.0;
}

/* Sets rows of n numbers in all. */
static void dense(dpb_request *request, const float *rows, size_t n) {
  request->features = rows;
  request->features_len = n;
}

/* Reads the predicted means of a request. */
static void predict(const dpb_bandit *bandit, const dpb_request *request, double *mean, size_t arms) {
  size_t n = 99;
  STATUS(dpb_predict(bandit, request, mean, NULL, arms, &n), DPB_OK);
  CHECK(n == arms);
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
      r.features_len = r.sparse_ends_len = 1;
    } else {
      dense(&r, kinds[kind], D);
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
    size_t n;
    STATUS(dpb_new(&config, &bandit, NULL), DPB_OK);
    CHECK(strcmp(dpb_policy_name(bandit), "dp-linear") == 0);
    play(bandit, ROUNDS, sparse);
    CHECK(play(bandit, ROUNDS, sparse) > .9);
    dpb_request_init(&r);
    dense(&r, row, D);
    STATUS(dpb_predict(bandit, &r, mean, deviation, ARMS, &n), DPB_OK);
    CHECK(n == ARMS);
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
  dense(&r, rows, ARMS * D);
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
  STATUS(dpb_select_for(bandit, &r, d), DPB_INVALID_REQUEST); /* a row is missing */
  rows[ARMS * D] = 1.2f, rows[ARMS * D + 1] = 1;
  dense(&r, rows, sizeof rows / sizeof *rows);
  predict(bandit, &r, mean, ARMS + 1);
  CHECK(mean[ARMS] > mean[ARMS - 1] && mean[ARMS - 1] > mean[0]);
  STATUS(dpb_retire_arm(bandit, 0), DPB_OK);
  rows[0] = NAN; /* invalid, and not read */
  predict(bandit, &r, mean, ARMS + 1);
  CHECK(isnan(mean[0]) && mean[1] > 0);
  for (t = 0; t < 100; t++) {
    STATUS(dpb_select_for(bandit, &r, d), DPB_OK);
    CHECK(d[0].arm != 0);
    STATUS(dpb_cancel(bandit, d[0].ticket), DPB_OK);
  }
  /* A row for each eligible arm, in that order. */
  r.eligible = some;
  r.eligible_len = 3;
  dense(&r, rows + D, 3 * D);
  STATUS(dpb_select_for(bandit, &r, d), DPB_OK);
  CHECK(d[0].arm == 4 || d[0].arm == 1);
  dpb_free(bandit);
}

/* Predictions never exceed cap, and both arrays may be NULL. Too small a cap is the price of a length: the features are
   not looked at. */
static void lengths(void) {
  uint32_t model;
  for (model = 0; model < 2; model++) {
    dpb_config config = config_of(model, 1);
    dpb_bandit *bandit = NULL;
    dpb_request r;
    float rows[ARMS * D];
    double mean[ARMS + 1], deviation[ARMS + 1];
    const uint32_t some[2] = {4, 1};
    size_t n, cap, all;
    memset(rows, 0, sizeof rows);
    STATUS(dpb_new(&config, &bandit, NULL), DPB_OK);
    for (all = ARMS; all > 0; all = all == ARMS ? 2 : 0) {
      dpb_request_init(&r);
      if (all == 2) r.eligible = some, r.eligible_len = 2;
      dense(&r, rows, (model == DPB_MODEL_PER_ARM ? 1 : all) * D);
      for (cap = 0; cap <= all + 1; cap++) {
        for (n = 0; n <= ARMS; n++) mean[n] = deviation[n] = 9;
        rows[0] = cap < all ? NAN : 1;
        STATUS(dpb_predict(bandit, &r, mean, deviation, cap, &n), cap < all ? DPB_BUFFER_TOO_SMALL : DPB_OK);
        CHECK(n == all);
        for (n = 0; n <= ARMS; n++) CHECK((mean[n] != 9) == (cap >= all && n < all));
        for (n = 0; n <= ARMS; n++) CHECK((deviation[n] != 9) == (cap >= all && n < all));
      }
      STATUS(dpb_predict(bandit, &r, NULL, NULL, all, &n), DPB_OK);
      CHECK(n == all);
      STATUS(dpb_predict(bandit, &r, mean, deviation, all, NULL), DPB_NULL);
      rows[0] = NAN;
      STATUS(dpb_predict(bandit, &r, mean, deviation, all, &n), DPB_INVALID_REQUEST);
    }
    dpb_free(bandit);
  }
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
  size_t n = 99;
  memset(rows, 0, sizeof rows);
  for (i = 0; i < ARMS; i++) entries[i].index = i % D, entries[i].value = 1, ends[i] = i + 1;

  config.feature_model = 2;
  STATUS(dpb_new(&config, &bandit, &error), DPB_INVALID_CONFIG);
  CHECK(strncmp(error.message, "feature_model must be", 21) == 0);
  config.feature_model = 0;
  config.delta = 1e-6;
  STATUS(dpb_new(&config, &bandit, &error), DPB_INVALID_CONFIG);
  CHECK(strncmp(error.message, "delta must be", 13) == 0);
  config.delta = 0;
  config.features = 257;
  STATUS(dpb_new(&config, &bandit, &error), DPB_INVALID_CONFIG);
  CHECK(strcmp(error.message, "features must be at most 256, got 257") == 0);
  config.features = 0;
  STATUS(dpb_new_linear(&config, &bandit, &error), DPB_INVALID_CONFIG);
  config.features = D;
  STATUS(dpb_new_imed(&config, &bandit, &error), DPB_INVALID_CONFIG);
  CHECK(strcmp(error.message, "features must be 0: dp-imed does not use it, got 4") == 0);
  config.max_segments = 2;
  STATUS(dpb_new(&config, &bandit, &error), DPB_INVALID_CONFIG);
  config.max_segments = 0;
  CHECK(bandit == NULL);

  STATUS(dpb_new(&config, &bandit, NULL), DPB_OK);
  before.struct_size = after.struct_size = sizeof before;
  STATUS(dpb_report_read(bandit, &before), DPB_OK);
  dpb_request_init(&r);
  STATUS(dpb_select(bandit, &d), DPB_UNSUPPORTED);
  refused_for(bandit, &r, DPB_INVALID_REQUEST, "features must be set: config.features is not 0, got NULL");
  r.features_len = 1;
  refused_for(bandit, &r, DPB_INVALID_REQUEST, "features_len must be 0 where features and sparse are NULL, got 1");
  dense(&r, rows, ARMS * D);
  for (i = 0; i < 3; i++) {
    rows[7] = bad[i];
    STATUS(dpb_select_for(bandit, &r, &d), DPB_INVALID_REQUEST);
    STATUS(dpb_predict(bandit, &r, &mean, NULL, ARMS, &n), DPB_INVALID_REQUEST);
  }
  rows[7] = NAN;
  refused_for(bandit, &r, DPB_INVALID_REQUEST, "features must be finite, got NaN");
  rows[7] = 0;
  r.features_len = ARMS * D - 1;
  refused_for(bandit, &r, DPB_INVALID_REQUEST, "features_len must be 20 for this request, got 19");
  r.features_len = 0; /* no length */
  refused_for(bandit, &r, DPB_INVALID_REQUEST, "features_len must be 20 for this request, got 0");
  r.features_len = ARMS * D;
  r.sparse_ends_len = ARMS;
  refused_for(bandit, &r, DPB_INVALID_REQUEST, "sparse_ends_len must be 0 where sparse_ends is NULL, got 5");
  r.sparse_ends_len = 0;
  r.sparse = entries;
  refused_for(bandit, &r, DPB_INVALID_REQUEST, "sparse_ends must be set where sparse is, got NULL");
  r.sparse_ends = ends;
  r.sparse_ends_len = ARMS;
  refused_for(bandit, &r, DPB_INVALID_REQUEST,
          "sparse_ends_len must be 0, and sparse_ends NULL, where features is set, got 5");
  r.features = NULL;
  refused_for(bandit, &r, DPB_INVALID_REQUEST, "features_len must be 5 for this request, got 20");
  r.features_len = ARMS;
  r.sparse_ends_len = 0;
  refused_for(bandit, &r, DPB_INVALID_REQUEST, "sparse_ends_len must be 5 for this request, got 0");
  r.sparse_ends_len = ARMS - 1;
  refused_for(bandit, &r, DPB_INVALID_REQUEST, "sparse_ends_len must be 5 for this request, got 4");
  r.sparse_ends_len = ARMS;
  r.sparse = NULL;
  refused_for(bandit, &r, DPB_INVALID_REQUEST, "features_len must be 0 where features and sparse are NULL, got 5");
  r.sparse = entries;
  entries[2].index = D;
  refused_for(bandit, &r, DPB_INVALID_REQUEST, "sparse must have an index below config.features = 4, got 4");
  entries[2].index = 1;
  entries[2].value = NAN;
  refused_for(bandit, &r, DPB_INVALID_REQUEST, "sparse must be finite, got NaN");
  entries[2].value = 1;
  ends[1] = 4; /* row 2 would end before row 1 */
  refused_for(bandit, &r, DPB_INVALID_REQUEST, "sparse_ends must not be below the 4 before, got 3");
  ends[1] = 2;
  ends[ARMS - 1] = 6; /* beyond the entries */
  refused_for(bandit, &r, DPB_INVALID_REQUEST, "features_len must be 6 for this request, got 5");
  ends[ARMS - 1] = 5;
  r.slots = ARMS + 1;
  refused_for(bandit, &r, DPB_INVALID_REQUEST, "slots must be at most 5, the number of eligible arms, got 6");
  r.slots = 1;
  r.segment = 1;
  refused_for(bandit, &r, DPB_UNSUPPORTED, "this configuration does not support segment 1: config.max_segments is 0");
  r.segment = 0;
  r.user = 1;
  refused_for(bandit, &r, DPB_UNSUPPORTED, "this configuration does not support user 1: config.expected_users is 0");
  r.user = 0;
  STATUS(dpb_set_prior(bandit, 0, .1, 10, &error), DPB_UNSUPPORTED);
  STATUS(dpb_request_check(bandit, NULL, &error), DPB_NULL);
  CHECK(d.ticket == 99 && mean == 9 && n == 99);
  STATUS(dpb_request_check(bandit, &r, &error), DPB_OK);
  STATUS(dpb_report_read(bandit, &after), DPB_OK);
  CHECK(memcmp(&before, &after, sizeof before) == 0);
  STATUS(dpb_select_for(bandit, &r, &d), DPB_OK);
  /* Rows of zeros have no entries. */
  for (i = 0; i < ARMS; i++) ends[i] = 0;
  r.sparse = NULL;
  r.features_len = 0;
  STATUS(dpb_select_for(bandit, &r, &d), DPB_OK);

  config.features = 0;
  STATUS(dpb_new(&config, &plain, NULL), DPB_OK);
  refused_for(plain, &r, DPB_UNSUPPORTED, "this configuration does not support features: config.features is 0");
  STATUS(dpb_predict(plain, &r, &mean, NULL, 0, &n), DPB_UNSUPPORTED);
  r.sparse_ends = NULL;
  r.sparse_ends_len = 0;
  STATUS(dpb_predict(plain, &r, &mean, NULL, 0, &n), DPB_UNSUPPORTED);
  STATUS(dpb_feature_weights(plain, 0, &mean, NULL, 0, &n), DPB_UNSUPPORTED);
  CHECK(n == 99);
  dpb_free(plain);
  dpb_free(bandit);
}

/* With exploration a lift is known after some releases, and without it is refused. */
static void lift(void) {
  int explores;
  for (explores = 0; explores < 2; explores++) {
    dpb_config config = config_of(DPB_MODEL_PER_ARM, 4);
    dpb_bandit *bandit = NULL;
    double low = 9, high = 9;
    config.exploration = explores ? .1 : 0;
    STATUS(dpb_new(&config, &bandit, NULL), DPB_OK);
    play(bandit, 2 * ROUNDS, 0);
    STATUS(dpb_lift(bandit, DPB_NO_ARM, .95, &low, &high), explores ? DPB_OK : DPB_UNSUPPORTED);
    CHECK(explores ? low > .2 && high < 2 : low == 9 && high == 9);
    STATUS(dpb_lift(bandit, 0, .95, &low, &high), DPB_UNSUPPORTED);
    dpb_free(bandit);
  }
}

/* Arms are liked by one kind of visitors each, and their weights say so. */
static void weights(void) {
  dpb_config config = config_of(DPB_MODEL_PER_ARM, 4);
  dpb_bandit *bandit = NULL;
  double mean[D + 1] = {9}, deviation[D + 1] = {9};
  size_t n = 99;
  uint32_t arm;
  STATUS(dpb_new(&config, &bandit, NULL), DPB_OK);
  STATUS(dpb_feature_weights(bandit, 0, mean, deviation, D, &n), DPB_BUFFER_TOO_SMALL);
  CHECK(n == D + 1 && mean[0] == 9 && deviation[0] == 9);
  play(bandit, ROUNDS, 0);
  for (arm = 0; arm < 2; arm++) {
    STATUS(dpb_feature_weights(bandit, arm, mean, deviation, D + 1, &n), DPB_OK);
    CHECK(n == D + 1 && deviation[0] > 0 && mean[arm] > 0 && mean[1 - arm] < 0); /* this kind likes it, and that does not */
  }
  STATUS(dpb_feature_weights(bandit, 0, NULL, NULL, D + 1, &n), DPB_OK);
  n = 99;
  STATUS(dpb_feature_weights(bandit, ARMS, mean, deviation, D + 1, &n), DPB_INVALID_REQUEST);
  STATUS(dpb_feature_weights(bandit, 0, mean, deviation, D + 1, NULL), DPB_NULL);
  CHECK(n == 99);
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
  dense(&r, row, D);
  for (t = 0; t < 3000; t++) {
    row[0] = t >= 100 && t % 3 == 0 ? 3e38f : (float)(t % 5); /* the first rows have the unit */
    STATUS(dpb_select_for(bandit, &r, &d), DPB_OK);
    STATUS(dpb_update(bandit, d.ticket, t % 2), DPB_OK);
  }
  told.struct_size = sizeof told;
  STATUS(dpb_diagnostics_read(bandit, &told), DPB_OK);
  CHECK(told.oversized == 966);
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
  dense(&r, row, D);
  predict(bandit, &r, here, ARMS);
  predict(next, &r, there, ARMS);
  for (i = 0; i < ARMS; i++) CHECK(fabs(here[i] - there[i]) < .02);
  predict(peer, &r, there, ARMS);
  for (i = 0; i < ARMS; i++) CHECK(fabs(here[i] - there[i]) < .02);
  CHECK(play(next, ROUNDS / 10, 1) > .85 && play(peer, ROUNDS / 10, 1) > .85);
  dpb_free(next);
  next = NULL;
  config.features = D - 1;
  STATUS(dpb_restore_as("dp-linear", &config, bytes, len, &next, &error), DPB_INVALID_CONFIG);
  CHECK(strcmp(error.message, "features must be 4, as in the snapshot, got 3") == 0);
  config.features = D;
  config.feature_model = DPB_MODEL_SHARED;
  STATUS(dpb_restore_as("dp-linear", &config, bytes, len, &next, &error), DPB_INVALID_CONFIG);
  CHECK(strcmp(error.message,
               "feature_model must be DPB_MODEL_PER_ARM, as in the snapshot, got DPB_MODEL_SHARED") == 0);
  config.feature_model = DPB_MODEL_PER_ARM;
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

/* Features that are private too: the codebook, what is refused by name, and what no report shows. */
static void private_features(void) {
  static const float rows[] = {0.1f, 1, 0, 1.1f, -1, 0, 0, 0.9f};
  float book[8] = {7, 7, 7, 7, 7, 7, 7, 7};
  dpb_error error;
  CHECK(dpb_codebook(rows, 4, 2, 3, book, &error) == DPB_OK && book[6] == 7);
  CHECK(dpb_codebook(NULL, 0, 2, 4, book, &error) == DPB_OK && book[0] == 1 && book[2] == -1 && book[7] == -1);
  CHECK(dpb_codebook(rows, 4, 2, 5, book, &error) == DPB_INVALID_CONFIG && strstr(error.message, "len must be"));
  CHECK(dpb_codebook(NULL, 4, 2, 3, book, &error) == DPB_NULL && dpb_codebook(rows, 4, 2, 3, NULL, NULL) == DPB_NULL);
  CHECK(dpb_codebook(rows, (size_t)-1, 2, 3, book, &error) == DPB_INVALID_CONFIG && strstr(error.message, "n must be"));
  dpb_config config;
  dpb_config_init(&config, 3, 2.0);
  config.features = 2;
  config.feature_model = DPB_MODEL_PER_ARM;
  config.flags = DPB_PRIVATE_FEATURES;
  config.reward_window = 10;
  config.codebook = book;
  config.codebook_len = 4;
  dpb_bandit *bandit = NULL;
  dpb_config bad = config;
#define REFUSED(change, text)                                                                                          \
  do {                                                                                                                 \
    bad = config;                                                                                                      \
    change;                                                                                                            \
    CHECK(dpb_new(&bad, &bandit, &error) == DPB_INVALID_CONFIG && bandit == NULL && strstr(error.message, text));      \
  } while (0)
  REFUSED(bad.codebook = NULL, "codebook must be set with DPB_PRIVATE_FEATURES");
  REFUSED(bad.codebook_len = 0, "codebook");
  REFUSED(bad.codebook_len = 70000, "codebook_len must be at most 65536");
  REFUSED(bad.reward_window = 0, "reward_window must be above 0");
  REFUSED(bad.delta = 1e-6, "delta must be 0");
  REFUSED(bad.max_slots = 2, "max_slots must be 0");
  REFUSED(bad.expected_users = 10, "expected_users must be 0");
  REFUSED(bad.flags = 0, "codebook_len must be 0");
  REFUSED(bad.features = 0, "");
#undef REFUSED
  CHECK(dpb_new(&config, &bandit, &error) == DPB_OK);
  uint64_t first = 0;
  for (int i = 0; i < 5000; i++) {
    const float row[2] = {i % 2 ? 1.0f : -1.0f, 0.5f};
    dpb_request request;
    dpb_request_init(&request);
    request.features = row;
    request.features_len = 2;
    dpb_decision decision;
    CHECK(dpb_select_for(bandit, &request, &decision) == DPB_OK && isnan(decision.propensity));
    first = i == 0 ? decision.ticket : first;
    if (i % 7 == 0) {
      CHECK(dpb_cancel(bandit, decision.ticket) == DPB_OK);
    } else {
      CHECK(dpb_update(bandit, decision.ticket, (int)decision.arm == i % 2) == DPB_OK);
    }
  }
  CHECK(dpb_cancel(bandit, first) == DPB_EXPIRED);
  const float nan[2] = {NAN, 0};
  dpb_request request;
  dpb_request_init(&request);
  request.features = nan;
  request.features_len = 2;
  dpb_decision decision;
  CHECK(dpb_select_for(bandit, &request, &decision) == DPB_INVALID_REQUEST);
  request.features = book;
  request.slots = 2;
  dpb_decision two[2];
  CHECK(dpb_select_for(bandit, &request, two) == DPB_UNSUPPORTED);
  dpb_report report;
  report.struct_size = sizeof report;
  CHECK(dpb_report_read(bandit, &report) == DPB_OK && report.phase > 3 && report.is_private == 1);
  CHECK(report.decisions == 5000 && report.answered == 4990 && report.cancelled == 0 && report.expired == 0);
  dpb_arm arms[3];
  size_t n = 0;
  CHECK(dpb_arms_read(bandit, arms, 3, &n) == DPB_OK && n == 3 && arms[0].pulls == 0 && arms[0].effective_pulls > 0);
  double mean[3];
  request.slots = 1;
  CHECK(dpb_predict(bandit, &request, mean, NULL, 3, &n) == DPB_OK && mean[1] > mean[0]); /* book[0] is (1, 0) */
  dpb_free(bandit);
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
  lengths();
  bad_input();
  lift();
  weights();
  large_rows();
  lives();
  private_features();
  hashes();
  return failures != 0;
}
