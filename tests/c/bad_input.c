/* Invalid input: every invalid call returns its status and changes nothing. */
#include "check.h"

/* All readable state of a handle, to check that a refused call changed nothing. */
typedef struct state {
  dpb_report report;
  dpb_arm arms[8];
  size_t n;
} state;

static state read_state(const dpb_bandit *bandit) {
  state s;
  memset(&s, 0, sizeof s);
  s.report.struct_size = sizeof s.report;
  STATUS(dpb_report_read(bandit, &s.report), DPB_OK);
  STATUS(dpb_arms_read(bandit, s.arms, 8, &s.n), DPB_OK);
  return s;
}

static int same(const state *a, const state *b) { return memcmp(a, b, sizeof *a) == 0; }

static void refused(constructor *make, const char *field, dpb_config config, dpb_status expected) {
  dpb_bandit *untouched = (dpb_bandit *)(void *)&config;
  dpb_bandit *bandit = untouched;
  dpb_error error;
  memset(&error, 'x', sizeof error);
  STATUS(make(&config, &bandit, &error), expected);
  CHECK(bandit == untouched);
  CHECK(error.status == expected);
  CHECK(memchr(error.message, 0, sizeof error.message) != NULL);
  if (strstr(error.message, field) == NULL) {
    failures++;
    fprintf(stderr, "'%s' does not name %s\n", error.message, field);
  }
  STATUS(make(&config, &bandit, NULL), expected); /* NULL error is allowed */
}

/* A field that the policy does not use must have its default, so that no setting is without effect. */
static void unused_fields(void) {
  dpb_config c;
  dpb_bandit *bandit = NULL;
  dpb_error error;
#define UNUSED(make, field, value, why)                                       \
  c = seeded(5, 1);                                                           \
  c.field = value;                                                            \
  STATUS(make(&c, &bandit, &error), DPB_INVALID_CONFIG);                      \
  CHECK(strcmp(error.message, why) == 0)
  UNUSED(dpb_new_imed, interval_exponent, -3, "interval_exponent must be 1.1: dp-imed does not use it, got -3");
  UNUSED(dpb_new_imed, batch, 7, "batch must be 0: dp-imed does not use it, got 7");
  UNUSED(dpb_new_se, delta, .1, "delta must be 0: dp-se does not use it, got 0.1");
  UNUSED(dpb_new_tsallis, beta, .1, "beta must be 0: tsallis does not use it, got 0.1");
  UNUSED(dpb_new_imed, feature_model, DPB_MODEL_PER_ARM,
         "feature_model must be DPB_MODEL_SHARED: dp-imed does not use it, got DPB_MODEL_PER_ARM");
  UNUSED(dpb_new_imed, flags, DPB_RIGOROUS_INDEX,
         "flags must not have DPB_RIGOROUS_INDEX: dp-imed does not use it, got DPB_RIGOROUS_INDEX");
  UNUSED(dpb_new_med, flags, DPB_LEARN_CLIP,
         "flags must not have DPB_LEARN_CLIP: dp-med does not use it, got DPB_LEARN_CLIP");
  UNUSED(dpb_new, flags, DPB_LEARN_CLIP, "reward_bits must be 24 with a learned clip, got 20");
  UNUSED(dpb_new_ldp_ucb, flags, DPB_CLAMP_REWARDS,
         "flags must not have DPB_CLAMP_REWARDS: a reward is a bit that a device made private, got DPB_CLAMP_REWARDS");
  UNUSED(dpb_new, reserved, 1, "reserved must be 0, got 1");
  c = seeded(5, 1);
  c.max_segments = 3;
  c.beta = .1;
  STATUS(dpb_new(&c, &bandit, &error), DPB_INVALID_CONFIG);
  CHECK(strcmp(error.message, "beta must be 0 with max_segments, where it has no use, got 0.1") == 0);
  CHECK(bandit == NULL);
#undef UNUSED
}

static void configs(constructor *make, int is_private) {
  static const double bad_epsilon[] = {0, -1, NAN, INFINITY, -INFINITY, 1e300, 1e-300};
  dpb_config c;
  size_t i;
  for (i = 0; is_private && i < sizeof bad_epsilon / sizeof *bad_epsilon; i++) {
    refused(make, "epsilon", seeded(5, bad_epsilon[i]), DPB_INVALID_CONFIG);
  }
  refused(make, "arms", seeded(0, 1), DPB_INVALID_CONFIG);
  refused(make, "arms", seeded(1, 1), DPB_INVALID_CONFIG);
  refused(make, "arms", seeded((1u << 24) + 1, 1), DPB_INVALID_CONFIG);
#define REFUSE(field, value)                                                  \
  c = seeded(5, 1);                                                           \
  c.field = value;                                                            \
  refused(make, #field, c, DPB_INVALID_CONFIG)
  REFUSE(delta, -0.1);
  REFUSE(delta, 1);
  REFUSE(delta, NAN);
  REFUSE(beta, -0.1);
  REFUSE(beta, 1);
  REFUSE(beta, NAN);
  REFUSE(reward_min, NAN);
  REFUSE(reward_min, -INFINITY);
  REFUSE(reward_max, 0);
  REFUSE(reward_max, -1);
  REFUSE(reward_max, INFINITY);
  REFUSE(reward_bits, 25);
  REFUSE(contributions_per_user, 0);
  REFUSE(pending_capacity, 0);
  REFUSE(pending_capacity, (1u << 24) + 1);
  REFUSE(reward_window, (1u << 24) + 1);
  REFUSE(flags, 1u << 31);
  REFUSE(struct_size, 0);
  REFUSE(struct_size, 8);
  c = seeded(5, 1);
  c.struct_size = sizeof(dpb_config) + 8;
  refused(make, "newer", c, DPB_NEWER_VERSION);
}

static void nulls(dpb_bandit *bandit, constructor *make) {
  dpb_config config = seeded(5, 1);
  dpb_bandit *out = NULL;
  dpb_error error;
  dpb_decision d;
  dpb_report report;
  dpb_diagnostics diagnostics;
  dpb_arm arm;
  uint32_t best;
  size_t n = 77;
  double epsilon;
  uint64_t ticket = 0;
  double reward = 0;
  report.struct_size = sizeof report;
  diagnostics.struct_size = sizeof diagnostics;

  STATUS(make(NULL, &out, &error), DPB_NULL);
  CHECK(error.status == DPB_NULL);
  STATUS(make(&config, NULL, &error), DPB_NULL);
  STATUS(make(NULL, NULL, NULL), DPB_NULL);
  dpb_config_init(NULL, 5, 1);
  dpb_free(NULL);
  STATUS(dpb_select(NULL, &d), DPB_NULL);
  STATUS(dpb_select(bandit, NULL), DPB_NULL);
  STATUS(dpb_update(NULL, 0, 0), DPB_NULL);
  STATUS(dpb_cancel(NULL, 0), DPB_NULL);
  STATUS(dpb_cancel_all(NULL), DPB_NULL);
  STATUS(dpb_select_many(NULL, NULL, 1, &d, &n), DPB_NULL);
  STATUS(dpb_select_many(bandit, NULL, 1, NULL, &n), DPB_NULL);
  STATUS(dpb_select_many(bandit, NULL, 1, &d, NULL), DPB_NULL);
  STATUS(dpb_update_many(NULL, &ticket, &reward, 1, NULL, &n), DPB_NULL);
  STATUS(dpb_update_many(bandit, NULL, &reward, 1, NULL, &n), DPB_NULL);
  STATUS(dpb_update_many(bandit, &ticket, NULL, 1, NULL, &n), DPB_NULL);
  STATUS(dpb_update_many(bandit, &ticket, &reward, 1, NULL, NULL), DPB_NULL);
  CHECK(n == 77);
  STATUS(dpb_report_read(NULL, &report), DPB_NULL);
  STATUS(dpb_report_read(bandit, NULL), DPB_NULL);
  STATUS(dpb_diagnostics_read(NULL, &diagnostics), DPB_NULL);
  STATUS(dpb_diagnostics_read(bandit, NULL), DPB_NULL);
  STATUS(dpb_arms_read(NULL, &arm, 1, &n), DPB_NULL);
  STATUS(dpb_arms_read(bandit, NULL, 1, &n), DPB_NULL);
  STATUS(dpb_arms_read(bandit, &arm, 1, NULL), DPB_NULL);
  STATUS(dpb_best_arm(NULL, &best), DPB_NULL);
  STATUS(dpb_best_arm(bandit, NULL), DPB_NULL);
  STATUS(dpb_epsilon_spent(NULL, 0, &epsilon), DPB_NULL);
  STATUS(dpb_epsilon_spent(bandit, 0, NULL), DPB_NULL);
  STATUS(dpb_epsilon_spent(bandit, -1, &epsilon), DPB_INVALID_CONFIG);
  STATUS(dpb_epsilon_spent(bandit, NAN, &epsilon), DPB_INVALID_CONFIG);
  CHECK(strcmp(dpb_policy_name(NULL), "") == 0);

  /* an empty slice is valid, NULL or not */
  STATUS(dpb_select_many(bandit, NULL, 0, NULL, &n), DPB_OK);
  CHECK(n == 0);
  n = 77;
  STATUS(dpb_update_many(bandit, NULL, NULL, 0, NULL, &n), DPB_OK);
  CHECK(n == 0);
  STATUS(dpb_arms_read(bandit, NULL, 0, &n), DPB_BUFFER_TOO_SMALL);
  CHECK(n == 5);

  report.struct_size = 0;
  STATUS(dpb_report_read(bandit, &report), DPB_INVALID_CONFIG);
  report.struct_size = sizeof report + 8;
  STATUS(dpb_report_read(bandit, &report), DPB_NEWER_VERSION);
  diagnostics.struct_size = 0;
  STATUS(dpb_diagnostics_read(bandit, &diagnostics), DPB_INVALID_CONFIG);
}

static void rewards_and_tickets(dpb_bandit *bandit, dpb_bandit *other) {
  static const double bad_reward[] = {NAN, INFINITY, -INFINITY, -0.1, 1.1, 1e300, -1e-300};
  dpb_decision d, foreign;
  state before, after;
  dpb_diagnostics counts;
  size_t i, done;
  uint64_t tickets[3];
  double rewards[3] = {1, 2, 1};
  dpb_status each[3];

  STATUS(dpb_select(bandit, &d), DPB_OK);
  STATUS(dpb_select(other, &foreign), DPB_OK);
  CHECK(d.arm < 5 && d.propensity > 0 && d.propensity <= 1);
  before = read_state(bandit);
  for (i = 0; i < sizeof bad_reward / sizeof *bad_reward; i++) {
    STATUS(dpb_update(bandit, d.ticket, bad_reward[i]), DPB_INVALID_REWARD);
  }
  STATUS(dpb_update(bandit, foreign.ticket, 1), DPB_UNKNOWN_TICKET);
  STATUS(dpb_cancel(bandit, foreign.ticket), DPB_UNKNOWN_TICKET);
  STATUS(dpb_update(bandit, d.ticket ^ ((uint64_t)1 << 63), 1), DPB_UNKNOWN_TICKET);
  after = read_state(bandit);
  CHECK(same(&before, &after));

  STATUS(dpb_update(bandit, d.ticket, 1), DPB_OK);
  before = read_state(bandit);
  CHECK(before.report.answered == 1 && before.report.pending == 0);
  STATUS(dpb_update(bandit, d.ticket, 1), DPB_DUPLICATE);
  STATUS(dpb_update(bandit, d.ticket, 0), DPB_DUPLICATE);
  STATUS(dpb_cancel(bandit, d.ticket), DPB_DUPLICATE);
  after = read_state(bandit);
  CHECK(same(&before, &after));

  STATUS(dpb_select(bandit, &d), DPB_OK);
  STATUS(dpb_cancel(bandit, d.ticket), DPB_OK);
  before = read_state(bandit);
  CHECK(before.report.cancelled == 1);
  STATUS(dpb_cancel(bandit, d.ticket), DPB_DUPLICATE);
  STATUS(dpb_update(bandit, d.ticket, 1), DPB_DUPLICATE);
  after = read_state(bandit);
  CHECK(same(&before, &after));

  counts.struct_size = sizeof counts;
  STATUS(dpb_diagnostics_read(bandit, &counts), DPB_OK);
  CHECK(counts.struct_size == sizeof counts && counts.duplicates == 5 && counts.unknown == 3 && counts.rejected == 7 && counts.late == 0);

  for (i = 0; i < 2; i++) {
    STATUS(dpb_select(bandit, &d), DPB_OK);
    tickets[i] = d.ticket;
  }
  tickets[2] = tickets[0];
  STATUS(dpb_update_many(bandit, tickets, rewards, 3, each, &done), DPB_INVALID_REWARD);
  CHECK(done == 1 && each[0] == DPB_OK && each[1] == DPB_INVALID_REWARD && each[2] == DPB_DUPLICATE);
  STATUS(dpb_update(bandit, tickets[1], 0), DPB_OK);

  before = read_state(bandit);
  STATUS(dpb_cancel_all(bandit), DPB_OK); /* nothing is open */
  after = read_state(bandit);
  CHECK(same(&before, &after));
  for (i = 0; i < 2; i++) {
    STATUS(dpb_select(bandit, &d), DPB_OK);
    tickets[i] = d.ticket;
  }
  STATUS(dpb_cancel_all(bandit), DPB_OK);
  after = read_state(bandit);
  CHECK(after.report.cancelled == before.report.cancelled + 2 && after.report.pending == 0);
  STATUS(dpb_update(bandit, tickets[0], 1), DPB_DUPLICATE);
  STATUS(dpb_cancel(bandit, tickets[1]), DPB_DUPLICATE);
}

static void late(constructor *make) {
  dpb_config config = seeded(5, 1);
  dpb_bandit *bandit;
  dpb_decision d[6];
  dpb_report report;
  size_t done;
  report.struct_size = sizeof report;

  config.pending_capacity = 3; /* rounded up to 4 */
  STATUS(make(&config, &bandit, NULL), DPB_OK);
  STATUS(dpb_select_many(bandit, NULL, 6, d, &done), DPB_OK);
  CHECK(done == 6);
  STATUS(dpb_update(bandit, d[1].ticket, 1), DPB_EXPIRED);
  STATUS(dpb_cancel(bandit, d[0].ticket), DPB_EXPIRED);
  STATUS(dpb_update(bandit, d[2].ticket, 1), DPB_OK);
  STATUS(dpb_report_read(bandit, &report), DPB_OK);
  CHECK(report.expired == 2 && report.pending == 3 && report.answered == 1);
  dpb_free(bandit);

  config.pending_capacity = 4096;
  config.reward_window = 3;
  STATUS(make(&config, &bandit, NULL), DPB_OK);
  STATUS(dpb_select_many(bandit, NULL, 4, d, &done), DPB_OK);
  STATUS(dpb_update(bandit, d[0].ticket, 1), DPB_EXPIRED);
  STATUS(dpb_update(bandit, d[1].ticket, 1), DPB_OK);
  STATUS(dpb_update(bandit, d[1].ticket, 1), DPB_DUPLICATE);
  STATUS(dpb_report_read(bandit, &report), DPB_OK);
  CHECK(report.answered == 1 && report.pending == 3); /* a decision counts when its window ends */
  dpb_free(bandit);
}

static void clamped(constructor *make) {
  dpb_config config = seeded(5, 1);
  dpb_bandit *bandit;
  dpb_decision d;
  config.flags = DPB_CLAMP_REWARDS;
  config.reward_min = -2;
  STATUS(make(&config, &bandit, NULL), DPB_OK);
  STATUS(dpb_select(bandit, &d), DPB_OK);
  STATUS(dpb_update(bandit, d.ticket, NAN), DPB_INVALID_REWARD);
  STATUS(dpb_update(bandit, d.ticket, INFINITY), DPB_INVALID_REWARD);
  STATUS(dpb_update(bandit, d.ticket, 1e300), DPB_OK);
  dpb_free(bandit);
}

/* Tickets contain the node, the same in each handle: a name up to 65535 as it is, a longer one as a number of 16 bits. */
static void nodes(void) {
  static const uint64_t names[] = {1, 258, 65535, 65536, UINT64_MAX};
  size_t i;
  for (i = 0; i < sizeof names / sizeof *names; i++) {
    dpb_config config = seeded(5, 1);
    uint16_t node[2];
    int twin;
    config.node = names[i];
    for (twin = 0; twin < 2; twin++) {
      dpb_bandit *bandit;
      dpb_decision d;
      STATUS(dpb_new(&config, &bandit, NULL), DPB_OK);
      STATUS(dpb_select(bandit, &d), DPB_OK);
      node[twin] = dpb_ticket_node(d.ticket);
      CHECK(node[twin] == d.ticket >> 48);
      dpb_free(bandit);
    }
    CHECK(node[0] == node[1] && (names[i] > 65535 || node[0] == names[i]));
  }
}

static void table(constructor *make, int is_private) {
  dpb_config config = seeded(5, 1);
  dpb_bandit *bandit, *other;
  state s;
  STATUS(make(&config, &bandit, NULL), DPB_OK);
  STATUS(make(&config, &other, NULL), DPB_OK);
  configs(make, is_private);
  nulls(bandit, make);
  rewards_and_tickets(bandit, other);
  late(make);
  clamped(make);
  s = read_state(bandit);
  CHECK(s.report.is_private == 0); /* a test seed is not private */
  CHECK(s.report.struct_size == sizeof(dpb_report));
  dpb_free(bandit);
  dpb_free(other);
  config.test_seed = NULL;
  STATUS(make(&config, &bandit, NULL), DPB_OK);
  s = read_state(bandit);
  CHECK((int)s.report.is_private == is_private);
  CHECK(is_private ? s.report.epsilon_spent == 0 : isinf(s.report.epsilon_spent));
  dpb_free(bandit);
}

int main(void) {
  CHECK(dpb_abi_version() == 1); /* 0 << 16 | 1 */
  CHECK(dpb_abi_version() == DPB_ABI_VERSION && strcmp(dpb_version(), DPB_VERSION_STRING) == 0);
  CHECK(strcmp(dpb_status_name(DPB_OK), "DPB_OK") == 0);
  CHECK(strcmp(dpb_status_name(DPB_POISONED), "DPB_POISONED") == 0);
  CHECK(strcmp(dpb_status_name(-7), "unknown status") == 0);
  nodes();
  unused_fields();
  table(dpb_new, 1);
  table(dpb_new_se, 1);
  table(dpb_new_nonprivate_ucb1, 0);
  return failures != 0;
}
