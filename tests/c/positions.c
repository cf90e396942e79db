/* Requests whose slots visitors do not always examine: the order of the arms, and refusals. */
#include "check.h"

static const dpb_request *seen(uint32_t slots, const double *examined, size_t n) {
  static dpb_request said;
  said = *request(slots, 0, 0, NULL, 0);
  said.examined = examined;
  said.examined_len = n;
  return &said;
}

int main(void) {
  static const double chances[] = {0.25, 1, 0.5}, bad[] = {1, 0, 1}, more[] = {1, 1.5, 1};
  dpb_config config = seeded(4, 3);
  dpb_bandit *bandit = NULL;
  dpb_request first;
  dpb_decision d[3];
  dpb_arm arms[4];
  size_t n = 0;
  int i, slot, ordered = 0, every[] = {12, 3, 6}; /* one click in so many, for arm 0, in each slot */
  dpb_request_init(&first);
  CHECK(first.examined == NULL && first.examined_len == 0);
  STATUS(dpb_new(&config, &bandit, NULL), DPB_OK);
  memset(d, 'x', sizeof d);
  refused_for(bandit, seen(3, NULL, 3), DPB_INVALID_REQUEST, "examined_len must be 0 where examined is NULL, got 3");
  refused_for(bandit, seen(2, chances, 3), DPB_INVALID_REQUEST, "examined_len must be 2, the number of slots, got 3");
  refused_for(bandit, seen(3, bad, 3), DPB_INVALID_REQUEST, "examined must be in [2^-16, 1], got 0");
  refused_for(bandit, seen(3, more, 3), DPB_INVALID_REQUEST, "examined must be in [2^-16, 1], got 1.5");
  STATUS(dpb_select_for(bandit, seen(3, bad, 3), d), DPB_INVALID_REQUEST);
  for (i = 0; i < (int)sizeof d; i++) CHECK(((char *)d)[i] == 'x');
  for (i = 0; i < 20000; i++) { /* arm 0 has a rate of a third, the others have a quarter of it */
    STATUS(dpb_select_for(bandit, seen(3, chances, 3), d), DPB_OK);
    ordered += d[1].arm == 0;
    for (slot = 0; slot < 3; slot++)
      STATUS(dpb_update(bandit, d[slot].ticket, i % (every[slot] * (d[slot].arm == 0 ? 1 : 4)) == 0), DPB_OK);
  }
  CHECK(ordered > 17000);
  STATUS(dpb_arms_read(bandit, arms, 4, &n), DPB_OK);
  CHECK(n == 4 && arms[0].mean > 0.3 && arms[0].mean < 0.37 && arms[0].effective_pulls < (double)arms[0].pulls);
  for (i = 1; i < 4; i++) CHECK(arms[i].mean > 0.06 && arms[i].mean < 0.11);
  dpb_free(bandit);
  STATUS(dpb_new_med(&config, &bandit, NULL), DPB_OK);
  refused_for(bandit, seen(3, chances, 3), DPB_UNSUPPORTED,
              "this policy does not support examined: it counts rewards, not examinations");
  dpb_free(bandit);
  config.reward_min = -1;
  STATUS(dpb_new(&config, &bandit, NULL), DPB_OK);
  refused_for(bandit, seen(3, chances, 3), DPB_UNSUPPORTED,
              "this configuration does not support examined: config.reward_min is not 0");
  dpb_free(bandit);
  return failures != 0;
}
