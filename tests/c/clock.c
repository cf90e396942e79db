/* The caller's clock: a window is a span of time, and it ends without traffic too. */
#include "check.h"

enum { HALF_AN_HOUR = 1800000 };
static const uint64_t EPOCH = 1790000000000u;

static dpb_config of_time(void) {
  dpb_config config = seeded(3, 1);
  CHECK(config.clock == DPB_CLOCK_DECISIONS);
  config.clock = DPB_CLOCK_CALLER;
  config.reward_window = HALF_AN_HOUR;
  config.pending_capacity = 64;
  return config;
}

static dpb_report read_report(const dpb_bandit *bandit) {
  dpb_report report;
  report.struct_size = sizeof report;
  STATUS(dpb_report_read(bandit, &report), DPB_OK);
  return report;
}

static void ends_at_night(uint32_t max_segments) {
  dpb_config config = of_time();
  dpb_bandit *bandit = NULL, *next = NULL;
  dpb_decision d[3];
  unsigned char *bytes;
  size_t len;
  int i;
  config.max_segments = max_segments;
  STATUS(dpb_new(&config, &bandit, NULL), DPB_OK);
  STATUS(dpb_advance(bandit, EPOCH), DPB_OK);
  for (i = 0; i < 3; i++) {
    STATUS(dpb_select_for(bandit, request(1, 0, 0, NULL, 0), &d[i]), DPB_OK);
  }
  STATUS(dpb_update(bandit, d[0].ticket, 1), DPB_OK);
  STATUS(dpb_update(bandit, d[0].ticket, 1), DPB_DUPLICATE);
  STATUS(dpb_cancel(bandit, d[2].ticket), DPB_OK);
  STATUS(dpb_advance(bandit, EPOCH + HALF_AN_HOUR - 1), DPB_OK);
  CHECK(read_report(bandit).pending == 2 && read_report(bandit).answered == 0);
  STATUS(dpb_advance(bandit, EPOCH), DPB_OK); /* a slightly earlier time changes nothing */
  CHECK(read_report(bandit).pending == 2 && read_report(bandit).clock_leaps == 0);
  STATUS(dpb_advance(bandit, EPOCH + HALF_AN_HOUR), DPB_OK);
  CHECK(read_report(bandit).pending == 0 && read_report(bandit).answered == 2 && read_report(bandit).cancelled == 1);
  for (i = 0; i < 3; i++) {
    STATUS(dpb_update(bandit, d[i].ticket, 1), DPB_EXPIRED);
  }
  /* A restored handle's time goes on from the snapshot. */
  bytes = snapshot_of(bandit, &len);
  STATUS(dpb_restore(bytes, len, &next, NULL), DPB_OK);
  STATUS(dpb_advance(next, EPOCH), DPB_OK);
  STATUS(dpb_select_for(next, request(1, 0, 0, NULL, 0), &d[0]), DPB_OK);
  STATUS(dpb_advance(next, EPOCH + 2 * HALF_AN_HOUR - 1), DPB_OK);
  CHECK(read_report(next).pending == 1);
  STATUS(dpb_advance(next, UINT64_MAX), DPB_OK);
  CHECK(read_report(next).pending == 0);
  free(bytes);
  dpb_free(bandit);
  dpb_free(next);
}

/* A decision that the ring can no longer hold expires, whether its reward has come or not. */
static void is_pushed_out(void) {
  dpb_config config = of_time();
  dpb_bandit *bandit = NULL;
  dpb_decision d, first = {0, 0, 9, 9};
  int i;
  config.reward_window = UINT32_MAX;
  STATUS(dpb_new(&config, &bandit, NULL), DPB_OK);
  STATUS(dpb_select(bandit, &first), DPB_OK);
  STATUS(dpb_update(bandit, first.ticket, 1), DPB_OK);
  for (i = 0; i < 65; i++) {
    STATUS(dpb_select(bandit, &d), DPB_OK);
  }
  CHECK(read_report(bandit).expired == 2 && read_report(bandit).pending == 64 && read_report(bandit).answered == 0);
  STATUS(dpb_update(bandit, first.ticket, 1), DPB_EXPIRED);
  dpb_free(bandit);
}

/* A clock that was a year behind, and is set right. */
static void leaps(void) {
  const uint64_t year = 365 * 48 * (uint64_t)HALF_AN_HOUR;
  dpb_config config = of_time();
  dpb_bandit *bandit = NULL;
  dpb_decision d;
  STATUS(dpb_new(&config, &bandit, NULL), DPB_OK);
  STATUS(dpb_advance(bandit, EPOCH), DPB_OK);
  STATUS(dpb_select(bandit, &d), DPB_OK);
  STATUS(dpb_advance(bandit, EPOCH - year), DPB_OK);
  CHECK(read_report(bandit).clock_leaps == 1 && read_report(bandit).pending == 1);
  STATUS(dpb_advance(bandit, EPOCH - year + HALF_AN_HOUR), DPB_OK);
  CHECK(read_report(bandit).clock_leaps == 1 && read_report(bandit).pending == 0);
  dpb_free(bandit);
}

/* A handle that decides nothing more: its windows end on both clocks. */
static void is_skipped(uint32_t clock) {
  dpb_config config = of_time();
  dpb_bandit *bandit = NULL;
  dpb_decision d;
  config.clock = clock;
  config.reward_window = 5;
  STATUS(dpb_new(&config, &bandit, NULL), DPB_OK);
  STATUS(dpb_select(bandit, &d), DPB_OK);
  STATUS(dpb_update(bandit, d.ticket, 1), DPB_OK);
  STATUS(dpb_skip(bandit, 4), DPB_OK);
  CHECK(read_report(bandit).pending == 1);
  STATUS(dpb_skip(bandit, 1), DPB_OK);
  CHECK(read_report(bandit).pending == 0 && read_report(bandit).answered == 1);
  STATUS(dpb_skip(bandit, UINT64_MAX), DPB_OK);
  CHECK(read_report(bandit).cancelled == (clock == DPB_CLOCK_DECISIONS ? 10 : 0));
  STATUS(dpb_update(bandit, d.ticket, 1), DPB_EXPIRED);
  STATUS(dpb_skip(NULL, 1), DPB_NULL);
  dpb_free(bandit);
}

static void is_refused(void) {
  dpb_config config = of_time();
  dpb_bandit *bandit = NULL;
  dpb_error error;
  config.clock = 2;
  STATUS(dpb_new(&config, &bandit, &error), DPB_INVALID_CONFIG);
  CHECK(strcmp(error.message, "clock must be 0 (decisions) or 1 (caller), got 2") == 0);
  config.clock = DPB_CLOCK_DECISIONS;
  config.reward_window = (1 << 24) + 1;
  STATUS(dpb_new(&config, &bandit, &error), DPB_INVALID_CONFIG);
  CHECK(strncmp(error.message, "reward_window must be at most 2^24", 34) == 0);
  config.reward_window = 5;
  STATUS(dpb_new(&config, &bandit, &error), DPB_OK);
  STATUS(dpb_advance(bandit, EPOCH), DPB_UNSUPPORTED);
  STATUS(dpb_advance(NULL, EPOCH), DPB_NULL);
  dpb_free(bandit);
}

int main(void) {
  is_skipped(DPB_CLOCK_DECISIONS);
  is_skipped(DPB_CLOCK_CALLER);
  ends_at_night(0);
  ends_at_night(5);
  is_pushed_out();
  leaps();
  is_refused();
  return failures != 0;
}
