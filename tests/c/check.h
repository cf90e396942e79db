/* The tool of all test programs: CHECK counts failures and prints where they are. Compiles as C and as C++. */
#ifndef CHECK_H
#define CHECK_H
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "dpb.h"

static int failures = 0;

#define CHECK(condition)                                                      \
  do {                                                                        \
    if (!(condition)) {                                                       \
      failures++;                                                             \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);         \
    }                                                                         \
  } while (0)

#define STATUS(call, expected)                                                \
  do {                                                                        \
    dpb_status got_ = (call);                                                 \
    if (got_ != (expected)) {                                                 \
      failures++;                                                             \
      fprintf(stderr, "%s:%d: %s gave %s, not %s\n", __FILE__, __LINE__,      \
              #call, dpb_status_name(got_), #expected);                       \
    }                                                                         \
  } while (0)

typedef dpb_status constructor(const dpb_config *, dpb_bandit **, dpb_error *);

static const uint8_t SEED[32] = {1, 2, 3};

static inline dpb_config seeded(uint32_t arms, double epsilon) {
  dpb_config config;
  dpb_config_init(&config, arms, epsilon);
  config.test_seed = SEED;
  config.horizon = 100000;
  return config;
}

/* After a constructor refused this: gives a number that the policy does not use its default, or the delta that it needs.
   Returns whether it did. */
static inline int fits(dpb_config *config, const dpb_error *error) {
  if (strncmp(error->message, "delta must not be 0", 19) == 0) config->delta = 1e-6;
  else if (strstr(error->message, " does not use it") == NULL) return 0;
  else if (strncmp(error->message, "delta ", 6) == 0) config->delta = 0;
  else if (strncmp(error->message, "base ", 5) == 0) config->base = 0;
  else if (strncmp(error->message, "batch ", 6) == 0) config->batch = 0;
  else return 0;
  return 1;
}

/* A request with these values; valid until the next call. */
static inline const dpb_request *request(uint32_t slots, uint64_t segment, uint64_t user, const uint32_t *eligible,
                                         size_t eligible_len) {
  static dpb_request said;
  dpb_request_init(&said);
  said.slots = slots;
  said.segment = segment;
  said.user = user;
  said.eligible = eligible;
  said.eligible_len = eligible_len;
  return &said;
}

/* Checks that dpb_select_for refuses a request of one slot, and that dpb_request_check says why. */
static inline void refused_for(dpb_bandit *bandit, const dpb_request *request, dpb_status status, const char *why) {
  dpb_decision d = {99, 99, 99, 99};
  dpb_error error = {99, {0}};
  STATUS(dpb_select_for(bandit, request, &d), status);
  CHECK(d.ticket == 99);
  STATUS(dpb_request_check(bandit, request, &error), status);
  CHECK(error.status == status);
  if (strcmp(error.message, why) != 0) {
    failures++;
    fprintf(stderr, "\"%s\" is not \"%s\"\n", error.message, why);
  }
  STATUS(dpb_request_check(bandit, request, NULL), status);
}

/* A snapshot, which the caller frees. */
static inline unsigned char *snapshot_of(const dpb_bandit *bandit, size_t *len) {
  unsigned char *bytes;
  STATUS(dpb_snapshot(bandit, NULL, 0, len, NULL), DPB_BUFFER_TOO_SMALL);
  bytes = (unsigned char *)malloc(*len);
  CHECK(bytes != NULL);
  STATUS(dpb_snapshot(bandit, bytes, *len, len, NULL), DPB_OK);
  return bytes;
}

/* A counter's configuration; valid until the next call. */
static inline const dpb_counter_config *counting(dpb_counter_kind kind, double epsilon, uint64_t horizon,
                                                 const uint8_t *seed) {
  static dpb_counter_config config;
  dpb_counter_config_init(&config, kind, epsilon);
  config.horizon = horizon;
  config.test_seed = seed;
  return &config;
}

#endif
