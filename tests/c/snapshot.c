/* Snapshots, and handles that continue from them. */
#include "check.h"

int main(void) {
  dpb_config config = seeded(4, 1);
  dpb_bandit *bandit, *next = NULL, *other = NULL;
  dpb_decision open;
  dpb_report report;
  dpb_error error;
  dpb_arm before[4], after[4];
  unsigned char *bytes, small[8];
  size_t n, t, len = 0, again = 0;
  report.struct_size = sizeof report;
  config.forget_after = 100000;
  STATUS(dpb_new(&config, &bandit, NULL), DPB_OK);
  for (t = 0; t < 10000; t++) {
    dpb_decision d;
    STATUS(dpb_select(bandit, &d), DPB_OK);
    STATUS(dpb_update(bandit, d.ticket, d.arm == 2 ? .9 : .3), DPB_OK);
  }
  STATUS(dpb_select(bandit, &open), DPB_OK);
  STATUS(dpb_snapshot(NULL, NULL, 0, &len, NULL), DPB_NULL);
  STATUS(dpb_snapshot(bandit, NULL, 0, NULL, NULL), DPB_NULL);
  STATUS(dpb_snapshot(bandit, NULL, 1, &len, NULL), DPB_NULL);
  STATUS(dpb_snapshot(bandit, NULL, 0, &len, NULL), DPB_BUFFER_TOO_SMALL);
  memset(small, 0xa5, sizeof small);
  STATUS(dpb_snapshot(bandit, small, sizeof small, &again, NULL), DPB_BUFFER_TOO_SMALL);
  CHECK(len == again && len > 100 && small[0] == 0xa5);
  bytes = (unsigned char *)malloc(len);
  CHECK(bytes != NULL);
  STATUS(dpb_snapshot(bandit, bytes, len, &again, NULL), DPB_OK);
  CHECK(len == again);
  STATUS(dpb_restore_as(NULL, &config, bytes, len, &other, &error), DPB_OK); /* the policy that dpb_new takes */
  dpb_free(other);
  other = NULL;
  STATUS(dpb_restore(bytes, len, &next, &error), DPB_OK);
  STATUS(dpb_update(next, open.ticket, 1), DPB_UNKNOWN_TICKET);
  STATUS(dpb_report_read(next, &report), DPB_OK);
  CHECK(report.decisions == 10001 && report.answered == 10000 && report.expired == 1 && report.is_private == 0);
  STATUS(dpb_arms_read(bandit, before, 4, &n), DPB_OK);
  STATUS(dpb_arms_read(next, after, 4, &n), DPB_OK);
  for (t = 0; t < 4; t++) {
    CHECK(before[t].mean == after[t].mean && before[t].effective_pulls == after[t].effective_pulls);
    CHECK(after[t].pulls == before[t].pulls - (t == open.arm));
  }
  STATUS(dpb_restore(NULL, len, &other, &error), DPB_NULL);
  STATUS(dpb_restore(bytes, len, NULL, &error), DPB_NULL);
  STATUS(dpb_restore(bytes, len - 1, &other, &error), DPB_CORRUPT);
  CHECK(strcmp(error.message, "the data is truncated or altered") == 0 && error.status == DPB_CORRUPT);
  STATUS(dpb_restore(bytes, 0, &other, NULL), DPB_CORRUPT);
  STATUS(dpb_restore(NULL, 0, &other, NULL), DPB_CORRUPT);
  bytes[len / 2] ^= 1;
  STATUS(dpb_restore(bytes, len, &other, &error), DPB_CORRUPT);
  bytes[3] = 3;
  STATUS(dpb_restore(bytes, len, &other, &error), DPB_NEWER_VERSION);
  CHECK(other == NULL);
  dpb_free(next);
  dpb_free(bandit);
  STATUS(dpb_new_tsallis(&config, &bandit, &error), DPB_INVALID_CONFIG); /* this policy cannot forget */
  config.forget_after = 0;
  STATUS(dpb_new_tsallis(&config, &bandit, NULL), DPB_OK);
  STATUS(dpb_snapshot(bandit, bytes, len, &again, NULL), DPB_OK);
  STATUS(dpb_restore_as("tsallis", &config, bytes, again, &next, &error), DPB_OK);
  dpb_free(next);
  STATUS(dpb_restore_as("dp-imed", &config, bytes, again, &other, &error), DPB_INVALID_CONFIG);
  CHECK(strcmp(error.message, "policy must be tsallis, as in the snapshot, got dp-imed") == 0);
  STATUS(dpb_restore_as(NULL, &config, bytes, again, &other, &error), DPB_INVALID_CONFIG);
  CHECK(strcmp(error.message, "policy must be tsallis, as in the snapshot, got dp-imed") == 0);
  config.epsilon = 2;
  STATUS(dpb_restore_as("tsallis", &config, bytes, again, &other, &error), DPB_INVALID_CONFIG);
  CHECK(strcmp(error.message, "epsilon must be 1, as in the snapshot, got 2") == 0);
  STATUS(dpb_restore_as("tsallis", &config, bytes, again - 1, &other, &error), DPB_CORRUPT);
  STATUS(dpb_restore_as("none", &config, bytes, again, &other, &error), DPB_INVALID_CONFIG);
  STATUS(dpb_restore_as("tsallis", NULL, bytes, again, &other, &error), DPB_NULL);
  STATUS(dpb_restore_as("tsallis", &config, NULL, again, &other, &error), DPB_NULL);
  STATUS(dpb_restore_as("tsallis", &config, bytes, again, NULL, &error), DPB_NULL);
  CHECK(other == NULL);
  STATUS(dpb_snapshot(bandit, small, sizeof small, &again, &error), DPB_BUFFER_TOO_SMALL);
  CHECK(error.status == DPB_BUFFER_TOO_SMALL && strstr(error.message, "too small") != NULL);
  STATUS(dpb_snapshot(NULL, bytes, len, &again, &error), DPB_NULL);
  CHECK(error.status == DPB_NULL && error.message[0] != 0);
  dpb_free(bandit);
  STATUS(dpb_new_ucb(&config, &bandit, NULL), DPB_OK);
  again = 7;
  STATUS(dpb_snapshot(bandit, bytes, len, &again, &error), DPB_UNSUPPORTED);
  CHECK(again == 7 && error.status == DPB_UNSUPPORTED);
  CHECK(strstr(error.message, "a snapshot: its next releases need partial sums that are raw") != NULL);
  dpb_free(bandit);
  free(bytes);
  return failures != 0;
}
