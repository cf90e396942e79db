/* States that move: a handle is suspended, and another one continues with all that it knew. */
#include "check.h"

static const uint8_t KEY[32] = {7, 8, 9}, OTHER_KEY[32] = {7, 8, 10};

static dpb_config keyed(void) {
  dpb_config config;
  dpb_config_init(&config, 3, 1);
  config.fleet_key = KEY;
  config.reward_window = 50;
  return config;
}

/* The state of a handle, which the caller frees. The handle ends. */
static unsigned char *state_of(dpb_bandit *bandit, uint64_t receiver, size_t *len) {
  unsigned char *bytes;
  STATUS(dpb_suspend(bandit, receiver, NULL, 0, len, NULL), DPB_BUFFER_TOO_SMALL);
  bytes = (unsigned char *)malloc(*len);
  CHECK(bytes != NULL);
  STATUS(dpb_suspend(bandit, receiver, bytes, *len, len, NULL), DPB_OK);
  return bytes;
}

static dpb_report report(const dpb_bandit *bandit) {
  dpb_report read;
  read.struct_size = sizeof read;
  STATUS(dpb_report_read(bandit, &read), DPB_OK);
  return read;
}

/* Tickets and waiting rewards go on; an answered ticket stays answered, and a cancelled one cancelled. */
static void tickets_go_on(void) {
  dpb_config config = keyed();
  dpb_bandit *old, *next = NULL;
  dpb_decision open, answered, cancelled, d;
  dpb_report before, after;
  unsigned char *state;
  size_t len, i;
  STATUS(dpb_new(&config, &old, NULL), DPB_OK);
  for (i = 0; i < 3000; i++) {
    STATUS(dpb_select(old, &d), DPB_OK);
    STATUS(dpb_update(old, d.ticket, d.arm == 1 ? .9 : .3), DPB_OK);
  }
  STATUS(dpb_select(old, &open), DPB_OK);
  STATUS(dpb_select(old, &answered), DPB_OK);
  STATUS(dpb_select(old, &cancelled), DPB_OK);
  STATUS(dpb_update(old, answered.ticket, 1), DPB_OK);
  STATUS(dpb_cancel(old, cancelled.ticket), DPB_OK);
  before = report(old);
  state = state_of(old, 0, &len);

  /* The old handle does nothing more. */
  STATUS(dpb_select(old, &d), DPB_HALTED);
  STATUS(dpb_update(old, open.ticket, 1), DPB_HALTED);
  STATUS(dpb_suspend(old, 0, NULL, 0, &len, NULL), DPB_HALTED);
  STATUS(dpb_claimed(old), DPB_HALTED);
  dpb_free(old);

  STATUS(dpb_resume(NULL, &config, state, len, &next, NULL), DPB_OK);
  STATUS(dpb_select(next, &d), DPB_NOT_READY);
  STATUS(dpb_update(next, open.ticket, 1), DPB_NOT_READY);
  STATUS(dpb_snapshot(next, NULL, 0, &len, NULL), DPB_NOT_READY);
  STATUS(dpb_suspend(next, 0, NULL, 0, &len, NULL), DPB_NOT_READY);
  after = report(next);
  CHECK(after.decisions == before.decisions && after.answered == before.answered);
  CHECK(after.cancelled == before.cancelled && after.pending == before.pending && after.phase == before.phase);
  STATUS(dpb_claimed(next), DPB_OK);
  STATUS(dpb_claimed(next), DPB_OK);
  STATUS(dpb_update(next, answered.ticket, 1), DPB_DUPLICATE);
  STATUS(dpb_update(next, cancelled.ticket, 1), DPB_DUPLICATE);
  STATUS(dpb_update(next, open.ticket, 1), DPB_OK);
  STATUS(dpb_update(next, open.ticket, 1), DPB_DUPLICATE);
  STATUS(dpb_select(next, &d), DPB_OK);
  CHECK(d.ticket != open.ticket && d.ticket != answered.ticket && d.ticket != cancelled.ticket);
  dpb_free(next);
  free(state);
}

/* A state takes along which periods of users are stored. */
static void periods_move(void) {
  dpb_config config = keyed();
  dpb_bandit *bandit = NULL, *next = NULL;
  unsigned char bytes[2048], *state;
  dpb_decision d;
  size_t n, len;
  config.expected_users = 100;
  STATUS(dpb_new(&config, &bandit, NULL), DPB_OK);
  STATUS(dpb_snapshot(bandit, bytes, sizeof bytes, &n, NULL), DPB_OK);
  dpb_free(bandit);
  STATUS(dpb_restore_as("dp-imed", &config, bytes, n, &bandit, NULL), DPB_OK);
  STATUS(dpb_snapshot(bandit, bytes, sizeof bytes, &n, NULL), DPB_OK);
  state = state_of(bandit, 0, &len);
  STATUS(dpb_stored(bandit, bytes, n, NULL), DPB_HALTED);
  STATUS(dpb_resume(NULL, &config, state, len, &next, NULL), DPB_OK);
  STATUS(dpb_stored(next, bytes, n, NULL), DPB_NOT_READY); /* held */
  STATUS(dpb_claimed(next), DPB_OK);
  STATUS(dpb_select_for(next, request(1, 0, 1, NULL, 0), &d), DPB_NOT_READY);
  STATUS(dpb_stored(next, bytes, n, NULL), DPB_INVALID_CONFIG); /* of the suspended handle */
  STATUS(dpb_snapshot(next, bytes, sizeof bytes, &n, NULL), DPB_OK);
  STATUS(dpb_stored(next, bytes, n, NULL), DPB_OK);
  STATUS(dpb_select_for(next, request(1, 0, 1, NULL, 0), &d), DPB_OK);
  free(state);
  dpb_free(bandit);
  state = state_of(next, 0, &len);
  STATUS(dpb_resume(NULL, &config, state, len, &bandit, NULL), DPB_OK);
  STATUS(dpb_claimed(bandit), DPB_OK);
  STATUS(dpb_select_for(bandit, request(1, 0, 2, NULL, 0), &d), DPB_OK); /* stored before the move */
  free(state);
  dpb_free(bandit);
  dpb_free(next);
}

/* A receiver accepts one state, in this process, while its handle exists. */
static void one_state_for_a_receiver(void) {
  dpb_config config = keyed();
  dpb_bandit *keeper, *old, *second, *next = NULL, *other = NULL;
  unsigned char *state, *late;
  uint64_t receiver = 0, unused = 0;
  size_t len, late_len;
  dpb_decision d;
  STATUS(dpb_new(&config, &keeper, NULL), DPB_OK);
  STATUS(dpb_new(&config, &old, NULL), DPB_OK);
  STATUS(dpb_new(&config, &second, NULL), DPB_OK);
  STATUS(dpb_receiver(keeper, &receiver, NULL), DPB_OK);
  STATUS(dpb_receiver(keeper, &unused, NULL), DPB_OK);
  CHECK(receiver != 0 && receiver != unused);
  STATUS(dpb_select(old, &d), DPB_OK);
  state = state_of(old, receiver, &len);
  STATUS(dpb_resume("dp-imed", &config, state, len, &next, NULL), DPB_OK);
  STATUS(dpb_update(next, d.ticket, 1), DPB_OK);
  STATUS(dpb_resume("dp-imed", &config, state, len, &other, NULL), DPB_EXPIRED);
  late = state_of(second, unused, &late_len);
  dpb_free(keeper);
  STATUS(dpb_resume(NULL, &config, late, late_len, &other, NULL), DPB_EXPIRED);
  CHECK(other == NULL);
  dpb_free(next);
  dpb_free(old);
  dpb_free(second);
  free(state);
  free(late);
}

static void bad_input(void) {
  dpb_config config = keyed(), wrong;
  dpb_bandit *bandit, *plain, *out = NULL;
  unsigned char *state, small[64];
  dpb_error error;
  dpb_decision d;
  size_t len, i;
  STATUS(dpb_new(&config, &bandit, NULL), DPB_OK);
  STATUS(dpb_suspend(NULL, 0, NULL, 0, &len, NULL), DPB_NULL);
  STATUS(dpb_suspend(bandit, 0, NULL, 0, NULL, &error), DPB_NULL);
  STATUS(dpb_suspend(bandit, 0, NULL, 1, &len, &error), DPB_NULL);
  STATUS(dpb_suspend(bandit, 0, small, sizeof small, &len, &error), DPB_BUFFER_TOO_SMALL);
  STATUS(dpb_receiver(bandit, NULL, &error), DPB_NULL);
  STATUS(dpb_claimed(NULL), DPB_NULL);
  STATUS(dpb_select(bandit, &d), DPB_OK); /* it has not ended */
  state = state_of(bandit, 0, &len);
  STATUS(dpb_resume(NULL, NULL, state, len, &out, &error), DPB_NULL);
  STATUS(dpb_resume(NULL, &config, NULL, len, &out, &error), DPB_NULL);
  STATUS(dpb_resume(NULL, &config, state, len, NULL, &error), DPB_NULL);
  STATUS(dpb_resume("dp-se", &config, state, len, &out, &error), DPB_INVALID_CONFIG);
  STATUS(dpb_resume(NULL, &config, state, len - 1, &out, &error), DPB_CORRUPT);
  for (i = 0; i < len; i += 97) {
    state[i] ^= 1;
    STATUS(dpb_resume(NULL, &config, state, len, &out, &error), i == 3 ? DPB_NEWER_VERSION : DPB_CORRUPT);
    state[i] ^= 1;
  }
  wrong = config;
  wrong.fleet_key = OTHER_KEY;
  STATUS(dpb_resume(NULL, &wrong, state, len, &out, &error), DPB_CORRUPT);
  wrong = config;
  wrong.reward_window = 60;
  STATUS(dpb_resume(NULL, &wrong, state, len, &out, &error), DPB_INVALID_CONFIG);
  CHECK(strstr(error.message, "reward_window") != NULL);
  wrong = config;
  wrong.fleet_key = NULL;
  STATUS(dpb_resume(NULL, &wrong, state, len, &out, &error), DPB_UNSUPPORTED);
  STATUS(dpb_new(&wrong, &plain, NULL), DPB_OK);
  STATUS(dpb_suspend(plain, 0, NULL, 0, &len, &error), DPB_UNSUPPORTED);
  CHECK(out == NULL);
  dpb_free(plain);
  dpb_free(bandit);
  free(state);
}

/* The budget is charged once for a handle and those that continue from its state. */
static void one_charge(void) {
  dpb_config config = keyed();
  dpb_bandit *old, *next = NULL;
  dpb_budget *budget, *fresh;
  unsigned char *state;
  double spent = 0;
  size_t len;
  STATUS(dpb_new_budget(1, 0, &budget, NULL), DPB_OK);
  STATUS(dpb_new_budget(1, 0, &fresh, NULL), DPB_OK);
  config.budget = budget;
  STATUS(dpb_new(&config, &old, NULL), DPB_OK);
  state = state_of(old, 0, &len);
  STATUS(dpb_resume(NULL, &config, state, len, &next, NULL), DPB_OK);
  STATUS(dpb_budget_spent(budget, 0, &spent), DPB_OK);
  CHECK(spent == 1);
  dpb_free(next);
  config.budget = fresh; /* of another process */
  STATUS(dpb_resume(NULL, &config, state, len, &next, NULL), DPB_OK);
  STATUS(dpb_budget_spent(fresh, 0, &spent), DPB_OK);
  CHECK(spent == 1);
  dpb_free(next);
  dpb_free(old);
  dpb_budget_free(budget);
  dpb_budget_free(fresh);
  free(state);
}

int main(void) {
  tickets_go_on();
  periods_move();
  one_state_for_a_receiver();
  bad_input();
  one_charge();
  return failures != 0;
}
