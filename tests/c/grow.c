/* Structs that begin with their size, from callers that are older or newer than the library. Each has a block of exactly
   its size, so that valgrind detects accesses beyond it. */
#include "check.h"

static dpb_bandit *bandit;

/* Fills a struct of this size; and a call that takes the struct. */
typedef void filler(void *block, uint32_t size);
typedef dpb_status call(void *block);

static void fill_config(void *block, uint32_t size) {
  dpb_config_init_sized((dpb_config *)block, size, 5, 1);
}

static dpb_status make_bandit(void *block) {
  dpb_bandit *made = NULL;
  dpb_error error;
  dpb_status status = dpb_new((dpb_config *)block, &made, &error);
  CHECK((status == DPB_OK) == (made != NULL));
  CHECK(status != DPB_INVALID_CONFIG || strstr(error.message, "struct_size must be ") == error.message);
  dpb_free(made);
  return status;
}

static void fill_stopping(void *block, uint32_t size) {
  dpb_stopping_config whole;
  dpb_stopping_config_init(&whole, 2, 1);
  CHECK(whole.struct_size == sizeof whole && whole.range == 2 && whole.epsilon == 1);
  CHECK(whole.alpha == 0 && whole.beta == 0 && whole.test_seed == NULL);
  whole.alpha = whole.beta = 0.5;
  dpb_stopping_config_init_sized((dpb_stopping_config *)block, size, 9, 9);
  memcpy(block, &whole, size < sizeof whole ? size : sizeof whole);
}

static dpb_status make_stopping(void *block) {
  dpb_stopping *made = NULL;
  dpb_status status = dpb_new_dp_nas((dpb_stopping_config *)block, &made, NULL);
  dpb_stopping_free(made);
  return status;
}

static void fill_counter(void *block, uint32_t size) {
  dpb_counter_config_init_sized((dpb_counter_config *)block, size, DPB_COUNTER_HYBRID, 1);
}

static dpb_status make_counter(void *block) {
  dpb_counter *made = NULL;
  dpb_status status = dpb_new_counter((dpb_counter_config *)block, &made, NULL);
  dpb_counter_free(made);
  return status;
}

static void fill_nothing(void *block, uint32_t size) { memset(block, 0xa5, size); }
static dpb_status read_report(void *block) { return dpb_report_read(bandit, (dpb_report *)block); }
static dpb_status read_diagnostics(void *block) { return dpb_diagnostics_read(bandit, (dpb_diagnostics *)block); }

static void fill_request(void *block, uint32_t size) { dpb_request_init_sized((dpb_request *)block, size); }

/* Maps the status of an invalid request to that of an invalid struct_size. */
static dpb_status decide(void *block) {
  dpb_decision d;
  dpb_status status = dpb_select_for(bandit, (dpb_request *)block, &d);
  return status == DPB_INVALID_REQUEST ? DPB_INVALID_CONFIG : status;
}

/* whole: the size in this library's header, the only one until a later version adds a field. */
static void sizes(filler *fill, call *use, size_t whole) {
  size_t size;
  for (size = 0; size <= whole + 24; size++) {
    uint32_t said = (uint32_t)size;
    char *block = (char *)malloc(size < 4 ? 4 : size);
    CHECK(block != NULL);
    memset(block, 0xa5, size);
    fill(block, said);
    memcpy(block, &said, sizeof said);
    STATUS(use(block), size > whole ? DPB_NEWER_VERSION : size < whole ? DPB_INVALID_CONFIG : DPB_OK);
    CHECK(memcmp(block, &said, sizeof said) == 0);
    free(block);
  }
}

/* The header's own functions pass the size of its structs. */
static void of_this_header(void) {
  dpb_config config;
  dpb_stopping_config stopping;
  dpb_counter_config counter;
  dpb_request asked;
  memset(&config, 0, sizeof config);
  dpb_config_init(&config, 7, 2);
  CHECK(config.struct_size == sizeof config && config.arms == 7 && config.reward_max == 1);
  dpb_stopping_config_init(&stopping, 2, 1);
  CHECK(stopping.struct_size == sizeof stopping && stopping.range == 2);
  dpb_request_init(&asked);
  CHECK(asked.struct_size == sizeof asked && asked.slots == 1 && asked.eligible == NULL);
  dpb_request_init(NULL);
  dpb_counter_config_init(&counter, DPB_COUNTER_BINARY, 1);
  CHECK(counter.struct_size == sizeof counter && counter.horizon == 0);
  dpb_config_init(NULL, 7, 2);
  dpb_stopping_config_init(NULL, 2, 1);
  dpb_counter_config_init(NULL, 0, 1);
  dpb_config_init_sized(NULL, 1000, 7, 2);
}

int main(void) {
  dpb_config config = seeded(3, 1);
  const double nothing[4] = {0, 0, 0, 0};
  dpb_arm arms[3];
  size_t n, i;
  STATUS(dpb_new(&config, &bandit, NULL), DPB_OK);
  sizes(fill_config, make_bandit, sizeof(dpb_config));
  sizes(fill_stopping, make_stopping, sizeof(dpb_stopping_config));
  sizes(fill_counter, make_counter, sizeof(dpb_counter_config));
  sizes(fill_nothing, read_report, sizeof(dpb_report));
  sizes(fill_nothing, read_diagnostics, sizeof(dpb_diagnostics));
  sizes(fill_request, decide, sizeof(dpb_request));
  of_this_header();

  /* dpb_arm has a fixed size, and its unused fields are 0. */
  memset(arms, 0xa5, sizeof arms);
  STATUS(dpb_arms_read(bandit, arms, 3, &n), DPB_OK);
  for (i = 0; i < n; i++) {
    CHECK(arms[i].active == 1 && arms[i].reserved == 0);
    CHECK(memcmp(arms[i].spare, nothing, sizeof arms[i].spare) == 0);
  }
  dpb_free(bandit);
  return failures != 0;
}
