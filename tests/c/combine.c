/* A fleet with one noise: contributions to a leader, and sealed messages. */
#include "check.h"

static const uint8_t KEY[32] = {4, 5, 6}, OTHER_KEY[32] = {4, 5, 7};

static dpb_bandit *made(const uint8_t *key) {
  dpb_config config = seeded(3, 1);
  dpb_bandit *bandit = NULL;
  config.fleet_key = key;
  STATUS(dpb_new(&config, &bandit, NULL), DPB_OK);
  return bandit;
}

static void learn(dpb_bandit *bandit, unsigned decisions) {
  while (decisions-- > 0) {
    dpb_decision d;
    STATUS(dpb_select(bandit, &d), DPB_OK);
    STATUS(dpb_update(bandit, d.ticket, d.arm == 1 ? .9 : .3), DPB_OK);
  }
}

/* The number of rewards in all releases that a handle knows. */
static double released(const dpb_bandit *bandit) {
  dpb_arm arms[3];
  size_t n;
  STATUS(dpb_arms_read(bandit, arms, 3, &n), DPB_OK);
  return arms[0].effective_pulls + arms[1].effective_pulls + arms[2].effective_pulls;
}

static dpb_report report(const dpb_bandit *bandit) {
  dpb_report read;
  read.struct_size = sizeof read;
  STATUS(dpb_report_read(bandit, &read), DPB_OK);
  return read;
}

/* A contribution, which the caller frees. */
static unsigned char *contribution_of(dpb_bandit *bandit, uint64_t generation, size_t *len) {
  unsigned char *bytes;
  STATUS(dpb_contribution(bandit, generation, NULL, 0, len, NULL), DPB_BUFFER_TOO_SMALL);
  bytes = (unsigned char *)malloc(*len);
  CHECK(bytes != NULL);
  STATUS(dpb_contribution(bandit, generation, bytes, *len, len, NULL), DPB_OK);
  return bytes;
}

static void merge(dpb_bandit *into, const dpb_bandit *from) {
  size_t len;
  unsigned char *bytes = snapshot_of(from, &len);
  STATUS(dpb_merge(into, bytes, len, NULL), DPB_OK);
  free(bytes);
}

/* The leader releases what all collect. The rewards in releases are those that were contributed, up to an open batch. */
static void one_handle_releases(void) {
  dpb_bandit *leader = made(KEY), *other = made(KEY), *own;
  uint64_t generation = 0, again = 0;
  unsigned char *bytes, small[100];
  size_t len = 1, left = 1, round;
  STATUS(dpb_lead(leader, &generation, NULL), DPB_OK);
  STATUS(dpb_lead(leader, &again, NULL), DPB_OK);
  CHECK(generation != 0 && again == generation);
  STATUS(dpb_contribution(other, generation, NULL, 0, &len, NULL), DPB_OK);
  CHECK(len == 0);
  for (round = 1; round <= 20; round++) {
    learn(other, 100);
    learn(leader, 10);
    bytes = contribution_of(other, generation, &len);
    STATUS(dpb_contribution(other, generation, NULL, 0, &left, NULL), DPB_OK);
    CHECK(left == 0);
    STATUS(dpb_combine(leader, bytes, len, NULL), DPB_OK);
    STATUS(dpb_combine(leader, bytes, len, NULL), DPB_DUPLICATE);
    free(bytes);
    merge(other, leader);
    CHECK(released(other) == released(leader) && released(leader) <= (double)round * 110);
  }
  CHECK(released(leader) > 1100);
  CHECK(report(leader).contributions == 20 && report(leader).contributions_lost == 0);
  CHECK(report(other).contributions == 0 && report(other).contributions_lost == 0);
  bytes = snapshot_of(other, &len);
  STATUS(dpb_restore(bytes, len, &own, NULL), DPB_OK);
  free(bytes);
  CHECK(released(own) == 0); /* a snapshot contains what the handle has released itself */
  dpb_free(own);

  /* A buffer that is too small takes nothing out. */
  learn(other, 1);
  memset(small, 0xa5, sizeof small);
  STATUS(dpb_contribution(other, generation, small, sizeof small, &len, NULL), DPB_BUFFER_TOO_SMALL);
  CHECK(len > sizeof small && small[0] == 0xa5);
  left = len;
  bytes = contribution_of(other, generation, &len);
  CHECK(len == left);
  /* One is lost: the next one shows it. The lost one comes too late then. */
  learn(other, 50);
  {
    size_t next_len;
    unsigned char *next = contribution_of(other, generation, &next_len);
    STATUS(dpb_combine(leader, next, next_len, NULL), DPB_OK);
    CHECK(report(leader).contributions == 21 && report(leader).contributions_lost == 1);
    STATUS(dpb_combine(leader, bytes, len, NULL), DPB_DUPLICATE);
    free(next);
  }
  CHECK(report(leader).contributions == 21);
  free(bytes);
  dpb_free(leader);
  dpb_free(other);
}

/* A contribution is for one generation: not for another leader, not for the same one after a restart. */
static void other_generations_refuse(void) {
  dpb_config config = seeded(3, 1);
  dpb_bandit *leader = made(KEY), *second = made(KEY), *other = made(KEY), *restored = NULL;
  uint64_t generation, next;
  unsigned char *bytes, *snapshot;
  dpb_error error;
  size_t len, snapshot_len;
  STATUS(dpb_lead(leader, &generation, NULL), DPB_OK);
  learn(other, 50);
  bytes = contribution_of(other, generation, &len);
  STATUS(dpb_combine(second, bytes, len, &error), DPB_EXPIRED); /* it does not lead */
  STATUS(dpb_lead(second, &next, NULL), DPB_OK);
  CHECK(next != generation);
  STATUS(dpb_combine(second, bytes, len, &error), DPB_EXPIRED);
  CHECK(error.status == DPB_EXPIRED && error.message[0] != 0);
  snapshot = snapshot_of(leader, &snapshot_len);
  config.fleet_key = KEY;
  STATUS(dpb_restore_as("dp-imed", &config, snapshot, snapshot_len, &restored, NULL), DPB_OK);
  STATUS(dpb_combine(restored, bytes, len, NULL), DPB_EXPIRED);
  STATUS(dpb_lead(restored, &next, NULL), DPB_OK);
  CHECK(next != generation);
  STATUS(dpb_combine(restored, bytes, len, NULL), DPB_EXPIRED);
  CHECK(report(restored).contributions == 0 && report(second).contributions == 0);
  STATUS(dpb_set_handles(second, 3, NULL), DPB_OK);
  STATUS(dpb_combine(leader, bytes, len, NULL), DPB_OK);
  /* A leader that contributes to another one leads no longer. */
  STATUS(dpb_contribution(leader, next, NULL, 0, &snapshot_len, NULL), DPB_OK);
  STATUS(dpb_combine(leader, bytes, len, NULL), DPB_EXPIRED);
  free(bytes);
  /* A restored handle has no key but that of its configuration. */
  dpb_free(restored);
  free(snapshot);
  snapshot = snapshot_of(leader, &snapshot_len);
  STATUS(dpb_restore(snapshot, snapshot_len, &restored, NULL), DPB_OK);
  STATUS(dpb_lead(restored, &next, NULL), DPB_UNSUPPORTED);
  STATUS(dpb_set_handles(restored, 3, NULL), DPB_UNSUPPORTED);
  free(snapshot);
  dpb_free(restored);
  dpb_free(leader);
  dpb_free(second);
  dpb_free(other);
}

/* Every altered byte, every shorter length and every other purpose is DPB_CORRUPT, and changes nothing. */
static void bytes_of_others_are_corrupt(void) {
  dpb_bandit *leader = made(KEY), *other = made(KEY), *stranger = made(OTHER_KEY);
  uint64_t generation;
  unsigned char *bytes, sealed[DPB_SEAL_BYTES + 4], message[4];
  size_t len, i;
  STATUS(dpb_lead(leader, &generation, NULL), DPB_OK);
  learn(other, 50);
  learn(stranger, 50);
  bytes = contribution_of(stranger, generation, &len);
  STATUS(dpb_combine(leader, bytes, len, NULL), DPB_CORRUPT);
  free(bytes);
  bytes = contribution_of(other, generation, &len);
  for (i = 0; i < len; i++) {
    bytes[i] ^= 1;
    STATUS(dpb_combine(leader, bytes, len, NULL), DPB_CORRUPT);
    bytes[i] ^= 1;
    STATUS(dpb_combine(leader, bytes, i, NULL), DPB_CORRUPT);
  }
  bytes[3] = 9;
  STATUS(dpb_combine(leader, bytes, len, NULL), DPB_NEWER_VERSION);
  bytes[3] = 1;
  STATUS(dpb_open(leader, bytes, len, NULL, 0, &i, NULL), DPB_CORRUPT); /* it is no message */
  STATUS(dpb_seal(other, (const uint8_t *)"abcd", 4, sealed, sizeof sealed, &i, NULL), DPB_OK);
  STATUS(dpb_combine(leader, sealed, sizeof sealed, NULL), DPB_CORRUPT); /* and no contribution */
  STATUS(dpb_open(stranger, sealed, sizeof sealed, message, sizeof message, &i, NULL), DPB_CORRUPT);
  for (i = 0; i < sizeof sealed; i++) {
    size_t written = 7;
    sealed[i] ^= 0x80;
    STATUS(dpb_open(leader, sealed, sizeof sealed, message, sizeof message, &written, NULL),
           i == 3 ? DPB_NEWER_VERSION : DPB_CORRUPT);
    sealed[i] ^= 0x80;
    STATUS(dpb_open(leader, sealed, i, message, sizeof message, &written, NULL), DPB_CORRUPT);
    CHECK(written == 7);
  }
  CHECK(report(leader).contributions == 0 && report(leader).contributions_lost == 0);
  STATUS(dpb_combine(leader, bytes, len, NULL), DPB_OK);
  CHECK(report(leader).contributions == 1);
  free(bytes);
  dpb_free(leader);
  dpb_free(other);
  dpb_free(stranger);
}

/* A handle with segments and one without are not of one fleet. */
static void another_configuration_is_named(void) {
  dpb_config config = seeded(3, 1);
  dpb_bandit *leader, *other = made(KEY);
  dpb_error error;
  uint64_t generation;
  unsigned char *bytes;
  size_t len;
  config.fleet_key = KEY;
  config.max_segments = 4;
  STATUS(dpb_new(&config, &leader, NULL), DPB_OK);
  STATUS(dpb_lead(leader, &generation, NULL), DPB_OK);
  learn(other, 50);
  bytes = contribution_of(other, generation, &len);
  STATUS(dpb_combine(leader, bytes, len, &error), DPB_INVALID_CONFIG);
  CHECK(strstr(error.message, "max_segments") != NULL);
  CHECK(report(leader).contributions == 0 && report(leader).contributions_lost == 0);
  free(bytes);
  dpb_free(leader);
  dpb_free(other);
}

static void messages_are_sealed(void) {
  dpb_bandit *a = made(KEY), *b = made(KEY);
  uint8_t text[] = "7 1", sealed[2][sizeof text + DPB_SEAL_BYTES], opened[sizeof text];
  size_t len = 0, i;
  STATUS(dpb_seal(a, text, sizeof text, NULL, 0, &len, NULL), DPB_BUFFER_TOO_SMALL);
  CHECK(len == sizeof sealed[0]);
  for (i = 0; i < 2; i++) STATUS(dpb_seal(a, text, sizeof text, sealed[i], sizeof sealed[i], &len, NULL), DPB_OK);
  CHECK(memcmp(sealed[0], sealed[1], len) != 0); /* the same message, sealed twice */
  for (i = 0; i + sizeof text <= len; i++) CHECK(memcmp(sealed[0] + i, text, sizeof text) != 0);
  memset(opened, 0, sizeof opened);
  STATUS(dpb_open(b, sealed[0], len, opened, sizeof opened - 1, &i, NULL), DPB_BUFFER_TOO_SMALL);
  CHECK(i == sizeof text && opened[0] == 0);
  for (i = 0; i < 2; i++) { /* again too */
    size_t length;
    STATUS(dpb_open(b, sealed[0], len, opened, sizeof opened, &length, NULL), DPB_OK);
    CHECK(length == sizeof text && memcmp(opened, text, length) == 0);
  }
  STATUS(dpb_seal(a, NULL, 0, sealed[0], sizeof sealed[0], &len, NULL), DPB_OK);
  CHECK(len == DPB_SEAL_BYTES);
  STATUS(dpb_open(b, sealed[0], len, NULL, 0, &len, NULL), DPB_OK);
  CHECK(len == 0);
  dpb_free(a);
  dpb_free(b);
}

/* NULLs, a handle without a key, a policy that cannot have one. */
static void refusals(void) {
  dpb_bandit *keyed = made(KEY), *plain = made(NULL), *none = NULL;
  dpb_config config = seeded(3, 1);
  uint64_t generation = 7, led;
  uint8_t bytes[400] = {0};
  size_t len = 7;
  dpb_error error;
  STATUS(dpb_lead(NULL, &generation, &error), DPB_NULL);
  STATUS(dpb_lead(keyed, NULL, &error), DPB_NULL);
  CHECK(error.status == DPB_NULL && strstr(error.message, "generation") != NULL);
  STATUS(dpb_contribution(NULL, 7, bytes, sizeof bytes, &len, NULL), DPB_NULL);
  STATUS(dpb_contribution(keyed, 7, NULL, 1, &len, NULL), DPB_NULL);
  STATUS(dpb_contribution(keyed, 7, bytes, sizeof bytes, NULL, NULL), DPB_NULL);
  STATUS(dpb_combine(NULL, bytes, sizeof bytes, NULL), DPB_NULL);
  STATUS(dpb_combine(keyed, NULL, 1, NULL), DPB_NULL);
  STATUS(dpb_combine(keyed, NULL, 0, NULL), DPB_CORRUPT);
  STATUS(dpb_seal(NULL, bytes, 1, bytes, sizeof bytes, &len, NULL), DPB_NULL);
  STATUS(dpb_seal(keyed, NULL, 1, bytes, sizeof bytes, &len, NULL), DPB_NULL);
  STATUS(dpb_seal(keyed, bytes, 1, NULL, 1, &len, NULL), DPB_NULL);
  STATUS(dpb_seal(keyed, bytes, 1, bytes, sizeof bytes, NULL, NULL), DPB_NULL);
  STATUS(dpb_open(NULL, bytes, 60, bytes, sizeof bytes, &len, NULL), DPB_NULL);
  STATUS(dpb_open(keyed, NULL, 60, bytes, sizeof bytes, &len, NULL), DPB_NULL);
  STATUS(dpb_open(keyed, bytes, 60, NULL, 1, &len, NULL), DPB_NULL);
  STATUS(dpb_open(keyed, bytes, 60, bytes, sizeof bytes, NULL, NULL), DPB_NULL);
  STATUS(dpb_open(keyed, NULL, 0, NULL, 0, &len, NULL), DPB_CORRUPT);
  CHECK(generation == 7 && len == 7);

  STATUS(dpb_contribution(keyed, 0, bytes, sizeof bytes, &len, &error), DPB_INVALID_CONFIG);
  CHECK(strstr(error.message, "generation") == error.message);
  STATUS(dpb_lead(keyed, &led, NULL), DPB_OK);
  STATUS(dpb_contribution(keyed, led, bytes, sizeof bytes, &len, NULL), DPB_INVALID_CONFIG);

  STATUS(dpb_lead(plain, &generation, &error), DPB_UNSUPPORTED);
  CHECK(strstr(error.message, "fleet_key") != NULL);
  STATUS(dpb_contribution(plain, led, bytes, sizeof bytes, &len, NULL), DPB_UNSUPPORTED);
  STATUS(dpb_combine(plain, bytes, sizeof bytes, NULL), DPB_UNSUPPORTED);
  STATUS(dpb_seal(plain, bytes, 1, bytes, sizeof bytes, &len, NULL), DPB_UNSUPPORTED);
  STATUS(dpb_open(plain, bytes, 60, bytes, sizeof bytes, &len, NULL), DPB_UNSUPPORTED);
  CHECK(generation == 7 && len == 7);

  config.fleet_key = KEY;
  STATUS(dpb_new_se(&config, &none, &error), DPB_OK); /* the key seals states that move */
  STATUS(dpb_lead(none, &generation, &error), DPB_UNSUPPORTED);
  STATUS(dpb_contribution(none, 9, bytes, sizeof bytes, &len, &error), DPB_UNSUPPORTED);
  CHECK(generation == 7);
  dpb_free(none);
  dpb_free(keyed);
  dpb_free(plain);

  /* Handles with another epsilon do not combine. */
  keyed = made(KEY);
  STATUS(dpb_lead(keyed, &led, NULL), DPB_OK);
  config.epsilon = .5;
  STATUS(dpb_new(&config, &plain, NULL), DPB_OK);
  learn(plain, 1);
  STATUS(dpb_contribution(plain, led, bytes, sizeof bytes, &len, NULL), DPB_OK);
  STATUS(dpb_combine(keyed, bytes, len, &error), DPB_INVALID_CONFIG);
  CHECK(strstr(error.message, "epsilon must be") == error.message);
  CHECK(report(keyed).contributions == 0);
  dpb_free(keyed);
  dpb_free(plain);
}

int main(void) {
  one_handle_releases();
  other_generations_refuse();
  bytes_of_others_are_corrupt();
  another_configuration_is_named();
  messages_are_sealed();
  refusals();
  return failures != 0;
}
