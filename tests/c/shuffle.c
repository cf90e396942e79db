/* The shuffle and local models: every invalid call returns its status and changes nothing. */
#include "check.h"

static const double EPSILON = 1, DELTA = 1e-6;

static dpb_shuffle_params planned(uint32_t users) {
  dpb_shuffle_params params;
  memset(&params, 0, sizeof params);
  STATUS(dpb_shuffle_plan(EPSILON, DELTA, users, 0, &params, NULL), DPB_OK);
  return params;
}

/* A plan that the server has altered: device and shuffler refuse it, and write nothing. */
static void refuse(dpb_shuffle_params plan) {
  dpb_shuffler *s = NULL;
  uint8_t bits[2048];
  size_t len = 77;
  bits[0] = 9;
  STATUS(dpb_shuffle_encode(&plan, 1, bits, sizeof bits, &len), DPB_INVALID_CONFIG);
  STATUS(dpb_new_shuffler(&plan, &s, NULL), DPB_INVALID_CONFIG);
  CHECK(bits[0] == 9 && len == 77 && s == NULL);
}

static void claims(void) {
  const dpb_shuffle_params honest = planned(20);
  dpb_shuffle_params plan = honest;
  plan.coin_numerator = 1; /* no noise at all */
  refuse(plan);
  plan = honest;
  plan.coin_numerator -= plan.coin_numerator / 8;
  refuse(plan);
  plan = honest;
  plan.coins_per_user--;
  refuse(plan);
  plan = honest;
  plan.users = 1; /* a shuffler would close the batch with the coins of one user */
  refuse(plan);
  plan = honest;
  plan.epsilon = 0.99;
  refuse(plan);
  plan = honest;
  plan.delta = 0.99e-6;
  refuse(plan);
  plan = honest;
  plan.epsilon = NAN;
  refuse(plan);
  plan.epsilon = -1;
  refuse(plan);
  plan.epsilon = 101;
  refuse(plan);
  plan = honest;
  plan.delta = NAN;
  refuse(plan);
  plan.delta = 1;
  refuse(plan);
  plan = honest;
  plan.coins_per_user = (1u << 20) + 1;
  refuse(plan);
}

static void plans(void) {
  dpb_shuffle_params params = planned(1), printed = params;
  dpb_error error;
  CHECK(params.struct_size == 32 && sizeof params == 32 && params.users == 1);
  CHECK(params.coins_per_user == 80 && params.coin_numerator <= 1u << 31);
  CHECK(params.epsilon == EPSILON && params.delta == DELTA);
  STATUS(dpb_shuffle_plan(EPSILON, DELTA, 1, DPB_SHUFFLE_PRINTED, &printed, NULL), DPB_OK);
  CHECK(printed.coins_per_user == 1393);
  STATUS(dpb_shuffle_plan(EPSILON, DELTA, 1, 0, NULL, NULL), DPB_NULL);
  STATUS(dpb_shuffle_plan(0, DELTA, 1, 0, &printed, NULL), DPB_INVALID_CONFIG);
  STATUS(dpb_shuffle_plan(NAN, DELTA, 1, 0, &printed, NULL), DPB_INVALID_CONFIG);
  STATUS(dpb_shuffle_plan(INFINITY, DELTA, 1, 0, &printed, NULL), DPB_INVALID_CONFIG);
  STATUS(dpb_shuffle_plan(1e300, DELTA, 1, 0, &printed, NULL), DPB_INVALID_CONFIG);
  STATUS(dpb_shuffle_plan(EPSILON, 0, 1, 0, &printed, NULL), DPB_INVALID_CONFIG);
  STATUS(dpb_shuffle_plan(EPSILON, 1, 1, 0, &printed, NULL), DPB_INVALID_CONFIG);
  STATUS(dpb_shuffle_plan(EPSILON, NAN, 1, 0, &printed, NULL), DPB_INVALID_CONFIG);
  STATUS(dpb_shuffle_plan(EPSILON, DELTA, 0, 0, &printed, NULL), DPB_INVALID_CONFIG);
  STATUS(dpb_shuffle_plan(EPSILON, DELTA, 1, 64, &printed, NULL), DPB_INVALID_CONFIG);
  STATUS(dpb_shuffle_plan(EPSILON, DELTA, 1, 64, &printed, &error), DPB_INVALID_CONFIG);
  CHECK(error.status == DPB_INVALID_CONFIG && strncmp(error.message, "flags must be ", 14) == 0);
  CHECK(strstr(error.message, "got 64") != NULL);
  STATUS(dpb_shuffle_plan(EPSILON, DELTA, 1, 0, NULL, &error), DPB_NULL);
  CHECK(error.status == DPB_NULL && strcmp(error.message, "out is NULL") == 0);
  CHECK(printed.coins_per_user == 1393);
}

static void encoder(void) {
  dpb_shuffle_params params = planned(20), bad;
  uint8_t bits[8] = {9, 9, 9, 9, 9, 9, 9, 9};
  size_t len = 77;
  int i, ones = 0;
  STATUS(dpb_shuffle_encode(NULL, 1, bits, 8, &len), DPB_NULL);
  STATUS(dpb_shuffle_encode(&params, 1, NULL, 8, &len), DPB_NULL);
  STATUS(dpb_shuffle_encode(&params, 1, bits, 8, NULL), DPB_NULL);
  STATUS(dpb_shuffle_encode(&params, NAN, bits, 8, &len), DPB_INVALID_REWARD);
  STATUS(dpb_shuffle_encode(&params, INFINITY, bits, 8, &len), DPB_INVALID_REWARD);
  STATUS(dpb_shuffle_encode(&params, -0.1, bits, 8, &len), DPB_INVALID_REWARD);
  STATUS(dpb_shuffle_encode(&params, 1.1, bits, 8, &len), DPB_INVALID_REWARD);
#define BAD(field, value, status)                                             \
  bad = params;                                                               \
  bad.field = (value);                                                        \
  STATUS(dpb_shuffle_encode(&bad, 1, bits, 8, &len), status)
  BAD(struct_size, 0, DPB_INVALID_CONFIG);
  BAD(struct_size, 100, DPB_NEWER_VERSION);
  BAD(users, 0, DPB_INVALID_CONFIG);
  BAD(coins_per_user, 0, DPB_INVALID_CONFIG);
  BAD(coin_numerator, 0, DPB_INVALID_CONFIG);
  BAD(coin_numerator, UINT32_MAX, DPB_INVALID_CONFIG);
#undef BAD
  CHECK(len == 77 && bits[0] == 9);
  CHECK(params.coins_per_user == 4);
  STATUS(dpb_shuffle_encode(&params, 1, bits, 4, &len), DPB_BUFFER_TOO_SMALL);
  CHECK(len == 5 && bits[0] == 9);
  len = 0;
  STATUS(dpb_shuffle_encode(&params, 1, NULL, 0, &len), DPB_BUFFER_TOO_SMALL);
  CHECK(len == 5);
  for (i = 0; i < 64; i++) {
    STATUS(dpb_shuffle_encode(&params, 1, bits, 8, &len), DPB_OK);
    CHECK(len == 5 && bits[0] == 1 && bits[5] == 9);
    CHECK(bits[1] <= 1 && bits[2] <= 1 && bits[3] <= 1 && bits[4] <= 1);
    ones += bits[1];
  }
  CHECK(ones > 0 && ones < 64); /* fair coins: fails with probability 2^-63 */
}

static void shuffler(void) {
  dpb_shuffle_params params = planned(20), bad = params;
  dpb_shuffler *s = NULL;
  dpb_error error;
  uint8_t bits[5] = {1, 0, 0, 0, 0}, out[100];
  size_t len = 77;
  int i, ones = 0;
  STATUS(dpb_new_shuffler(NULL, &s, NULL), DPB_NULL);
  STATUS(dpb_new_shuffler(&params, NULL, NULL), DPB_NULL);
  bad.users = 0;
  STATUS(dpb_new_shuffler(&bad, &s, NULL), DPB_INVALID_CONFIG);
  STATUS(dpb_new_shuffler(&bad, &s, &error), DPB_INVALID_CONFIG);
  CHECK(error.status == DPB_INVALID_CONFIG && strstr(error.message, "got ") != NULL && s == NULL);
  CHECK(s == NULL);
  STATUS(dpb_new_shuffler(&params, &s, NULL), DPB_OK);
  STATUS(dpb_shuffler_push(NULL, bits, 5), DPB_NULL);
  STATUS(dpb_shuffler_push(s, NULL, 5), DPB_NULL);
  STATUS(dpb_shuffler_push(s, NULL, 0), DPB_INVALID_CONFIG);
  STATUS(dpb_shuffler_push(s, bits, 4), DPB_INVALID_CONFIG);
  bits[4] = 2;
  STATUS(dpb_shuffler_push(s, bits, 5), DPB_INVALID_CONFIG);
  bits[4] = 0;
  memset(out, 9, sizeof out);
  for (i = 0; i < 20; i++) {
    STATUS(dpb_shuffler_take(s, out, sizeof out, &len), DPB_NOT_READY);
    STATUS(dpb_shuffler_push(s, bits, 5), DPB_OK);
  }
  CHECK(len == 77 && out[0] == 9);
  STATUS(dpb_shuffler_push(s, bits, 5), DPB_EXPIRED);
  STATUS(dpb_shuffler_take(NULL, out, sizeof out, &len), DPB_NULL);
  STATUS(dpb_shuffler_take(s, NULL, sizeof out, &len), DPB_NULL);
  STATUS(dpb_shuffler_take(s, out, sizeof out, NULL), DPB_NULL);
  STATUS(dpb_shuffler_take(s, out, 99, &len), DPB_BUFFER_TOO_SMALL);
  CHECK(len == 100 && out[0] == 9);
  STATUS(dpb_shuffler_take(s, out, sizeof out, &len), DPB_OK);
  for (i = 0; i < 100; i++) ones += out[i];
  CHECK(len == 100 && ones == 20);
  STATUS(dpb_shuffler_take(s, out, sizeof out, &len), DPB_NOT_READY);
  dpb_shuffler_free(s);
  dpb_shuffler_free(NULL);
}

static void server(void) {
  unsigned char *saved;
  dpb_error error;
  dpb_config config = seeded(3, EPSILON);
  dpb_bandit *bandit = NULL, *central = NULL;
  dpb_shuffle_params params;
  uint8_t bits[4096] = {0};
  size_t len;
  STATUS(dpb_new_sdp_ae(&config, &bandit, NULL), DPB_INVALID_CONFIG); /* no delta */
  config.delta = DELTA;
  STATUS(dpb_new_vb_sdp_ae(&config, &bandit, NULL), DPB_OK);
  CHECK(strcmp(dpb_policy_name(bandit), "vb-sdp-ae") == 0);
  STATUS(dpb_shuffle_params_read(bandit, 5, &params), DPB_OK);
  CHECK(params.users == 32);
  dpb_free(bandit);
  STATUS(dpb_new_sdp_ae(&config, &bandit, NULL), DPB_OK);
  config.delta = 0;
  STATUS(dpb_new_se(&config, &central, NULL), DPB_OK);
  config.delta = DELTA;
  STATUS(dpb_shuffle_params_read(NULL, 1, &params), DPB_NULL);
  STATUS(dpb_shuffle_params_read(bandit, 1, NULL), DPB_NULL);
  STATUS(dpb_shuffle_params_read(central, 1, &params), DPB_UNSUPPORTED);
  STATUS(dpb_shuffle_params_read(bandit, 1, &params), DPB_OK);
  CHECK(params.users == 80 && params.coins_per_user == 1); /* 4 sigma^2, sigma^2 = 80/4 */
  len = (size_t)params.users * (1 + params.coins_per_user);
  STATUS(dpb_submit_shuffled(NULL, 1, 0, bits, len), DPB_NULL);
  STATUS(dpb_submit_shuffled(bandit, 1, 0, NULL, len), DPB_NULL);
  STATUS(dpb_submit_shuffled(bandit, 1, 0, NULL, 0), DPB_INVALID_CONFIG);
  STATUS(dpb_submit_shuffled(bandit, 1, 0, bits, len - 1), DPB_INVALID_CONFIG);
  STATUS(dpb_submit_shuffled(bandit, 1, 3, bits, len), DPB_INVALID_CONFIG);
  STATUS(dpb_submit_shuffled(bandit, 0, 0, bits, len), DPB_EXPIRED);
  STATUS(dpb_submit_shuffled(bandit, 2, 0, bits, len), DPB_NOT_READY);
  STATUS(dpb_submit_shuffled(central, 1, 0, bits, len), DPB_UNSUPPORTED);
  STATUS(dpb_submit_shuffled(bandit, 1, 0, bits, len), DPB_OK);
  STATUS(dpb_submit_shuffled(bandit, 1, 0, bits, len), DPB_DUPLICATE);
  dpb_free(bandit);
  config.flags = DPB_SHUFFLE_PRINTED;
  STATUS(dpb_new_sdp_ae(&config, &bandit, NULL), DPB_OK);
  STATUS(dpb_shuffle_params_read(bandit, 1, &params), DPB_OK);
  CHECK(params.users == 4 * 349); /* ceil(1393/4) */
  saved = snapshot_of(bandit, &len);
  dpb_free(bandit);
  config.flags = 0;
  STATUS(dpb_restore_as("sdp-ae", &config, saved, len, &bandit, &error), DPB_INVALID_CONFIG);
  CHECK(strcmp(error.message,
               "flags must have DPB_SHUFFLE_PRINTED, as in the snapshot, got no DPB_SHUFFLE_PRINTED") == 0);
  free(saved);
  dpb_free(central);
}

static void local(constructor *make, const char *name) {
  dpb_config config = seeded(2, EPSILON);
  dpb_bandit *bandit = NULL;
  dpb_decision decision;
  uint8_t bit = 9;
  int i, ones = 0;
  STATUS(dpb_ldp_encode(EPSILON, 1, NULL), DPB_NULL);
  STATUS(dpb_ldp_encode(0, 1, &bit), DPB_INVALID_CONFIG);
  STATUS(dpb_ldp_encode(NAN, 1, &bit), DPB_INVALID_CONFIG);
  STATUS(dpb_ldp_encode(1e300, 1, &bit), DPB_INVALID_CONFIG);
  STATUS(dpb_ldp_encode(EPSILON, NAN, &bit), DPB_INVALID_REWARD);
  STATUS(dpb_ldp_encode(EPSILON, 1.5, &bit), DPB_INVALID_REWARD);
  CHECK(bit == 9);
  STATUS(make(&config, &bandit, NULL), DPB_OK);
  CHECK(strcmp(dpb_policy_name(bandit), name) == 0);
  for (i = 0; i < 200; i++) {
    STATUS(dpb_select(bandit, &decision), DPB_OK);
    STATUS(dpb_update(bandit, decision.ticket, 0.5), DPB_INVALID_REWARD);
    STATUS(dpb_ldp_encode(EPSILON, 1, &bit), DPB_OK);
    CHECK(bit <= 1);
    ones += bit;
    STATUS(dpb_update(bandit, decision.ticket, bit), DPB_OK);
  }
  CHECK(ones > 90 && ones < 199); /* 146 expected, deviation 6.3: nine and eight of them */
  dpb_free(bandit);
  config.reward_window = 1;
  STATUS(make(&config, &bandit, NULL), DPB_INVALID_CONFIG);
}

int main(void) {
  plans();
  claims();
  encoder();
  shuffler();
  server();
  local(dpb_new_ldp_ucb, "ldp-ucb");
  local(dpb_new_ldp_klucb, "ldp-klucb");
  return failures != 0;
}
