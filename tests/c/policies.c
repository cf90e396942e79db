/* Policies by name: all names, invalid names, and the policies' own constructors (the test makes table.h from the header). */
#include "check.h"

typedef struct {
  constructor *make;
  const char *name;
  uint32_t number;
} named;

static const named table[] = {
#include "table.h"
};

/* A configuration that every policy accepts, with an exception for features and delta below. */
static dpb_config enough(void) {
  dpb_config config = seeded(3, 0.5);
  config.horizon = 1000000;
  config.base = DPB_POLICY_NONPRIVATE_EXP3;
  return config;
}

static void is(const dpb_bandit *bandit, const char *name, uint32_t number) {
  dpb_report report;
  report.struct_size = sizeof report;
  CHECK(strcmp(dpb_policy_name(bandit), name) == 0);
  STATUS(dpb_report_read(bandit, &report), DPB_OK);
  CHECK(report.policy == number);
}

/* Sets features if the policy requires them. */
static void give_features(dpb_config *config, const char *name, constructor *make) {
  if (make == dpb_new_linear || (make == NULL && strcmp(name, "dp-linear") == 0)) config->features = 2;
}

/* Makes the handle, with the numbers that the policy uses. */
static dpb_bandit *made(const char *name, constructor *make) {
  dpb_config config = enough();
  dpb_bandit *bandit = NULL;
  dpb_error error;
  dpb_status status;
  give_features(&config, name, make);
  do {
    status = make ? make(&config, &bandit, &error) : dpb_new_policy(name, &config, &bandit, &error);
  } while (status == DPB_INVALID_CONFIG && fits(&config, &error));
  STATUS(status, DPB_OK);
  return bandit;
}

static void refused(const char *name, const char *shown) {
  dpb_config config = enough();
  dpb_bandit *bandit = NULL;
  dpb_error error;
  STATUS(dpb_new_policy(name, &config, &bandit, &error), DPB_INVALID_CONFIG);
  CHECK(bandit == NULL && error.status == DPB_INVALID_CONFIG);
  CHECK(strstr(error.message, "name must be the name of a policy, got \"") == error.message);
  CHECK(strstr(error.message, shown) != NULL);
}

int main(void) {
  dpb_config config = enough();
  dpb_bandit *bandit = NULL;
  dpb_error error;
  char name[5000];
  size_t i, count, found;

  for (count = 0; dpb_policy_at(count) != NULL; count++) {
    bandit = made(dpb_policy_at(count), NULL);
    CHECK(dpb_policy_number(dpb_policy_at(count)) != 0);
    is(bandit, dpb_policy_at(count), dpb_policy_number(dpb_policy_at(count)));
    dpb_free(bandit);
    for (i = 0; i < count; i++) CHECK(strcmp(dpb_policy_at(i), dpb_policy_at(count)) != 0);
  }
  CHECK(count >= sizeof table / sizeof *table && dpb_policy_at(count + 1) == NULL && dpb_policy_at(SIZE_MAX) == NULL);

  for (i = 0; i < sizeof table / sizeof *table; i++) {
    bandit = made(NULL, table[i].make);
    is(bandit, table[i].name, table[i].number);
    dpb_free(bandit);
    for (found = 0; strcmp(dpb_policy_at(found), table[i].name) != 0; found++) {}
    bandit = made(dpb_policy_at(found), NULL);
    is(bandit, table[i].name, table[i].number);
    dpb_free(bandit);
  }

  CHECK(dpb_policy_number("dp-none") == 0 && dpb_policy_number("") == 0 && dpb_policy_number(NULL) == 0);
  refused("", "got \"\"");
  refused("dp-none", "got \"dp-none\"");
  refused("DP-IMED", "got \"DP-IMED\"");
  refused("dp-imed ", "got \"dp-imed \"");
  refused("\xff\n\"", "\\n");
  memset(name, 'x', sizeof name);
  name[sizeof name - 1] = '\0';
  refused(name, "xxxx\"");

  bandit = NULL;
  STATUS(dpb_new_policy(NULL, &config, &bandit, &error), DPB_NULL);
  CHECK(error.status == DPB_NULL && strcmp(error.message, "name is NULL") == 0);
  STATUS(dpb_new_policy("dp-imed", NULL, &bandit, &error), DPB_NULL);
  CHECK(error.status == DPB_NULL && strcmp(error.message, "config is NULL") == 0);
  STATUS(dpb_new_policy("dp-imed", &config, NULL, &error), DPB_NULL);
  CHECK(error.status == DPB_NULL && strcmp(error.message, "out is NULL") == 0);
  config.base = 0;
  config.epsilon = -1;
  STATUS(dpb_new_policy("dp-imed", &config, &bandit, &error), DPB_INVALID_CONFIG);
  CHECK(bandit == NULL && strcmp(error.message, "epsilon must be finite and > 0, got -1") == 0);
  return failures != 0;
}
