/* A handle that cannot learn because of how it is called says so: each mistake of docs/operating/monitoring.md, and the
 * same service without it. */
#include "check.h"

enum { LONG = 1 << 16 };

static dpb_report read_report(const dpb_bandit *bandit) {
  dpb_report read;
  read.struct_size = sizeof read;
  STATUS(dpb_report_read(bandit, &read), DPB_OK);
  return read;
}

static uint32_t warnings(const dpb_bandit *bandit) {
  return read_report(bandit).warnings;
}

static uint32_t operator_warnings(const dpb_bandit *bandit) {
  dpb_diagnostics read;
  read.struct_size = sizeof read;
  STATUS(dpb_diagnostics_read(bandit, &read), DPB_OK);
  return read.warnings;
}

static dpb_bandit *made(const dpb_config *config) {
  dpb_bandit *bandit = NULL;
  STATUS(dpb_new(config, &bandit, NULL), DPB_OK);
  CHECK(warnings(bandit) == 0 && operator_warnings(bandit) == 0);
  return bandit;
}

/* Makes a decision. Its reward is 1, 0, or none. */
enum reward { CLICK, NO_CLICK, SILENCE };
static void decide(dpb_bandit *bandit, uint64_t user, enum reward reward) {
  dpb_decision d;
  STATUS(dpb_select_for(bandit, request(1, 0, user, NULL, 0), &d), DPB_OK);
  if (reward != SILENCE) STATUS(dpb_update(bandit, d.ticket, reward == CLICK), DPB_OK);
}

/* expected_users, and the requests do not name their users. */
static void one_user(void) {
  dpb_config config = seeded(3, 1);
  dpb_bandit *bandit;
  uint8_t bytes[2048];
  size_t n;
  uint64_t i;
  config.expected_users = 2000;
  config.contributions_per_user = 3;
  bandit = made(&config);
  for (i = 0; i < 1024; i++) decide(bandit, 0, i % 8 == 0 ? CLICK : NO_CLICK);
  CHECK(warnings(bandit) == 0);
  for (; i < 1025; i++) decide(bandit, 0, NO_CLICK);
  CHECK(warnings(bandit) == DPB_WARN_UNLEARNED);
  for (i = 0; i < 2048; i++) decide(bandit, i, NO_CLICK); /* mended */
  CHECK(warnings(bandit) == 0);
  /* The period never ends, so that all users have used up their decisions. */
  for (i = 0; i < 4 * 2048; i++) decide(bandit, i % 2048, NO_CLICK);
  CHECK(warnings(bandit) == DPB_WARN_UNLEARNED);
  STATUS(dpb_next_period(bandit), DPB_OK);
  for (i = 0; i < 2048; i++) decide(bandit, i, NO_CLICK);
  CHECK(warnings(bandit) == DPB_WARN_UNLEARNED); /* the period is not stored */
  STATUS(dpb_snapshot(bandit, bytes, sizeof bytes, &n, NULL), DPB_OK);
  STATUS(dpb_stored(bandit, bytes, n, NULL), DPB_OK);
  for (i = 0; i < 2048; i++) decide(bandit, i, NO_CLICK);
  CHECK(warnings(bandit) == 0);
  dpb_free(bandit);
}

/* Only clicks are reported: all other decisions expire, or with a window are silence. */
static void only_clicks(uint32_t window) {
  dpb_config config = seeded(3, 1);
  dpb_bandit *bandit;
  int i;
  config.pending_capacity = 256;
  config.reward_window = window;
  bandit = made(&config);
  for (i = 0; i < 30000; i++) decide(bandit, 0, i % 20 == 0 ? CLICK : SILENCE);
  CHECK(warnings(bandit) == (window == 0 ? DPB_WARN_EXPIRING : 0));
  CHECK(operator_warnings(bandit) == (window == 0 ? DPB_WARN_ALL_LARGEST : 0));
  for (i = 0; i < 3000; i++) decide(bandit, 0, i % 20 == 0 ? CLICK : NO_CLICK); /* mended */
  CHECK(warnings(bandit) == 0 && operator_warnings(bandit) == 0);
  dpb_free(bandit);
}

/* The same is seen after 32 clicks, if they are all that the handle ever got. */
static void few_clicks(int share, uint32_t seen) {
  dpb_config config = seeded(3, 1);
  dpb_bandit *bandit;
  int i;
  bandit = made(&config);
  for (i = 1; i < 32 * share; i++) decide(bandit, 0, i % share == 0 ? CLICK : SILENCE);
  CHECK(operator_warnings(bandit) == 0);
  for (; i <= 32 * share; i++) decide(bandit, 0, i % share == 0 ? CLICK : SILENCE);
  CHECK(operator_warnings(bandit) == seen && warnings(bandit) == 0);
  decide(bandit, 0, NO_CLICK);
  for (i = 0; i < 40; i++) decide(bandit, 0, CLICK);
  CHECK(operator_warnings(bandit) == 0);
  dpb_free(bandit);
}

/* The first batch of an arm has a million rewards. */
static void tiny_epsilon(void) {
  dpb_config config = seeded(3, 1e-6);
  dpb_bandit *bandit = made(&config);
  int i;
  for (i = 0; i < 16383; i++) decide(bandit, 0, i % 8 == 0 ? CLICK : NO_CLICK);
  CHECK(warnings(bandit) == 0);
  decide(bandit, 0, NO_CLICK);
  CHECK(warnings(bandit) == DPB_WARN_UNRELEASED && operator_warnings(bandit) == 0);
  CHECK(read_report(bandit).phase == 0);
  dpb_free(bandit);
}

/* No click arrives. */
static void silence(void) {
  dpb_config config = seeded(3, 1);
  dpb_bandit *bandit;
  int i;
  config.reward_window = 100;
  bandit = made(&config);
  for (i = 0; i < LONG + 98; i++) decide(bandit, 0, SILENCE);
  CHECK(operator_warnings(bandit) == 0);
  for (; i < LONG + 100; i++) decide(bandit, 0, SILENCE);
  CHECK(operator_warnings(bandit) == DPB_WARN_ALL_SMALLEST && warnings(bandit) == 0);
  for (i = 0; i < 101; i++) decide(bandit, 0, CLICK);
  CHECK(operator_warnings(bandit) == 0);
  dpb_free(bandit);
}

/* The caller's clock stands still: with a window all decisions expire. */
static void no_clock(uint32_t window) {
  dpb_config config = seeded(3, 1);
  dpb_bandit *bandit;
  uint64_t now = 0;
  int i;
  config.clock = DPB_CLOCK_CALLER;
  config.reward_window = window;
  config.forget_after = 1024;
  bandit = made(&config);
  STATUS(dpb_advance(bandit, 5), DPB_OK);
  for (i = 0; i < 4095; i++) decide(bandit, 0, NO_CLICK);
  STATUS(dpb_advance(bandit, 5), DPB_OK); /* it does not move */
  CHECK(warnings(bandit) == 0);
  for (; i < 4096; i++) decide(bandit, 0, NO_CLICK);
  CHECK(warnings(bandit) == DPB_WARN_CLOCK_STOPPED);
  for (; i < 10000; i++) decide(bandit, 0, NO_CLICK);
  CHECK(warnings(bandit) == (DPB_WARN_CLOCK_STOPPED | (window > 0 ? DPB_WARN_EXPIRING : 0)));
  for (i = 0; i < 10000; i++) {
    STATUS(dpb_advance(bandit, ++now * 1000), DPB_OK);
    decide(bandit, 0, NO_CLICK);
  }
  CHECK(warnings(bandit) == 0);
  dpb_free(bandit);
}

/* The caller's clock was never set: that is seen as soon as in a handle with a small capacity. */
static void clock_never_set(uint32_t window) {
  dpb_config config = seeded(3, 1);
  dpb_bandit *bandit;
  int i;
  config.clock = DPB_CLOCK_CALLER;
  config.reward_window = window;
  config.pending_capacity = 1 << 18;
  bandit = made(&config);
  for (i = 0; i < 1023; i++) decide(bandit, 0, NO_CLICK);
  CHECK(warnings(bandit) == 0);
  decide(bandit, 0, NO_CLICK);
  CHECK(warnings(bandit) == DPB_WARN_CLOCK_STOPPED);
  STATUS(dpb_advance(bandit, 5), DPB_OK);
  for (i = 0; i < 5000; i++) decide(bandit, 0, NO_CLICK);
  CHECK(warnings(bandit) == 0);
  dpb_free(bandit);
}

/* It contributes to a generation that nobody leads. dpb_alone ends that. */
static void to_nobody(void) {
  static const uint8_t key[32] = {1, 2, 3};
  dpb_config config = seeded(3, 1);
  dpb_bandit *bandit, *other;
  unsigned char *bytes;
  size_t len;
  uint32_t phase;
  dpb_status status;
  int i;
  config.fleet_key = key;
  bandit = made(&config);
  other = made(&config);
  CHECK(read_report(bandit).duty == DPB_DUTY_ALONE && read_report(bandit).generation == 0);
  STATUS(dpb_alone(bandit, NULL), DPB_OK); /* it is */
  for (i = 0; i < LONG; i++) decide(bandit, 0, i % 8 == 0 ? CLICK : NO_CLICK);
  status = dpb_contribution(bandit, 12345, NULL, 0, &len, NULL);
  CHECK(status == DPB_OK || status == DPB_BUFFER_TOO_SMALL); /* nothing may be open */
  CHECK(read_report(bandit).duty == DPB_DUTY_CONTRIBUTES && read_report(bandit).generation == 12345);
  phase = read_report(bandit).phase;
  for (i = 0; i < LONG - 1; i++) decide(bandit, 0, i % 8 == 0 ? CLICK : NO_CLICK);
  CHECK(warnings(bandit) == 0);
  decide(bandit, 0, CLICK);
  CHECK(warnings(bandit) == DPB_WARN_UNMERGED && read_report(bandit).phase == phase);
  bytes = snapshot_of(other, &len);
  STATUS(dpb_merge(bandit, bytes, len, NULL), DPB_OK);
  free(bytes);
  CHECK(warnings(bandit) == 0);
  for (i = 0; i < LONG; i++) decide(bandit, 0, i % 8 == 0 ? CLICK : NO_CLICK);
  CHECK(warnings(bandit) == DPB_WARN_UNMERGED && read_report(bandit).phase == phase);
  STATUS(dpb_alone(bandit, NULL), DPB_OK);
  CHECK(warnings(bandit) == 0 && read_report(bandit).duty == DPB_DUTY_ALONE && read_report(bandit).generation == 0);
  for (i = 0; i < 1000; i++) decide(bandit, 0, i % 8 == 0 ? CLICK : NO_CLICK);
  CHECK(read_report(bandit).phase > phase); /* what it has collected since is released */
  STATUS(dpb_alone(NULL, NULL), DPB_NULL);
  dpb_free(bandit);
  dpb_free(other);
}

int main(void) {
  one_user();
  only_clicks(0);
  only_clicks(100);
  few_clicks(4, DPB_WARN_ALL_LARGEST);
  few_clicks(20, DPB_WARN_ALL_LARGEST);
  few_clicks(3, 0);
  tiny_epsilon();
  silence();
  no_clock(0);
  no_clock(1000);
  clock_never_set(0);
  clock_never_set(1000);
  to_nobody();
  return failures != 0;
}
