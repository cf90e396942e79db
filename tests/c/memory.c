/* If memory runs out, a call returns a status and changes nothing. POSIX, with /proc. */
#include "check.h"

#include <sys/resource.h>
#include <unistd.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

static constructor *const CONSTRUCTORS[] = {
    dpb_new,
    /* begin generated constructors */
    dpb_new_imed,
    dpb_new_med,
    dpb_new_tt,
    dpb_new_linear,
    dpb_new_se,
    dpb_new_ucb_bound,
    dpb_new_ucb,
    dpb_new_ucb_int,
    dpb_new_private_ucb,
    dpb_new_lap,
    dpb_new_exp3_lap,
    dpb_new_exp3_tau,
    dpb_new_tsallis,
    dpb_new_nonprivate_ucb1,
    dpb_new_nonprivate_klucb,
    dpb_new_nonprivate_imed,
    dpb_new_nonprivate_se,
    dpb_new_nonprivate_exp3,
    dpb_new_sdp_ae,
    dpb_new_vb_sdp_ae,
    dpb_new_ldp_ucb,
    dpb_new_ldp_klucb,
    /* end generated constructors */
};

/* A configuration that every constructor accepts, except that some need a delta. */
static dpb_config any(uint32_t arms) {
  dpb_config config = seeded(arms, 1);
  config.base = DPB_POLICY_NONPRIVATE_EXP3;
  return config;
}

/* Limits the address space to the present size plus this many MiB. */
static void room(size_t more) {
  struct rlimit limit;
  unsigned long pages = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  CHECK(file != NULL && fscanf(file, "%lu", &pages) == 1);
  if (file != NULL) fclose(file);
  CHECK(getrlimit(RLIMIT_AS, &limit) == 0);
  limit.rlim_cur = more == (size_t)-1 ? limit.rlim_max : pages * (unsigned long)sysconf(_SC_PAGESIZE) + (more << 20);
  CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
}

int main(void) {
  size_t i, more, n, refused = 0, made = 0;
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 1 << 17); /* freed memory goes back to the system, so that only room() grants memory */
#endif
  for (i = 0; i < sizeof CONSTRUCTORS / sizeof *CONSTRUCTORS; i++) {
    dpb_config config = any(1u << 18); /* as many arms as most policies accept */
    dpb_status status = DPB_NO_MEMORY;
    for (more = 1; more <= 4096 && status == DPB_NO_MEMORY; more *= 2) {
      dpb_bandit *bandit = NULL;
      dpb_error error;
      room(more);
      do {
        status = CONSTRUCTORS[i](&config, &bandit, &error);
      } while (status == DPB_INVALID_CONFIG && fits(&config, &error));
      if (status == DPB_NO_MEMORY) {
        CHECK(bandit == NULL && error.status == DPB_NO_MEMORY && strstr(error.message, "memory") != NULL);
        refused++;
      } else if (status == DPB_OK) {
        made++;
        dpb_free(bandit);
      }
    }
    CHECK(status == DPB_OK || status == DPB_INVALID_CONFIG); /* too many arms for some policies */
  }
  CHECK(made >= 15 && refused >= made);

  { /* the largest sizes of everything: a handle or a status, with little memory and with more */
    dpb_bandit *bandit = NULL;
    dpb_error refusal;
    size_t what, some = 0;
    for (more = 24; more <= 96; more *= 4) {
      for (i = 0; i < sizeof CONSTRUCTORS / sizeof *CONSTRUCTORS; i++) {
        for (what = 0; what < 5; what++) {
          dpb_config config = any(what == 0 ? 1u << 24 : 2);
          dpb_status status;
          if (what == 1) config.pending_capacity = 1u << 24;
          if (what == 2) config.reward_window = 1u << 24;
          if (what == 3) config.horizon = (uint64_t)1 << 62;
          if (what == 4) config.batch = UINT32_MAX;
          room(more);
          do {
            status = CONSTRUCTORS[i](&config, &bandit, &refusal);
          } while (status == DPB_INVALID_CONFIG && fits(&config, &refusal));
          CHECK(status == DPB_OK || status == DPB_NO_MEMORY || status == DPB_INVALID_CONFIG);
          CHECK(what == 0 || what > 2 || status != DPB_OK); /* a ring of 2^24 */
          if (status == DPB_OK) {
            dpb_free(bandit);
            some++;
          }
        }
      }
    }
    CHECK(some > 40);
  }

  { /* the other handles */
    dpb_shuffle_params plan;
    dpb_shuffler *shuffler = NULL;
    dpb_counter *counter = NULL;
    dpb_bandit *pool = NULL;
    dpb_config config = seeded(20, 1);
    dpb_error error;
    uint8_t none;
    dpb_decision d;
    room(64);
    config.max_segments = 1000000;
    STATUS(dpb_new(&config, &pool, &error), DPB_NO_MEMORY);
    CHECK(pool == NULL && error.status == DPB_NO_MEMORY);
    config.max_segments = 10000;
    STATUS(dpb_new(&config, &pool, &error), DPB_OK);
    room(0); /* memory for all segments is reserved already */
    for (i = 0; i < 10000; i++) {
      STATUS(dpb_select_for(pool, request(1, 77 * i, 0, NULL, 0), &d), DPB_OK);
    }
    n = 7;
    STATUS(dpb_snapshot(pool, &none, 1 << 30, &n, NULL), DPB_NO_MEMORY); /* nothing is written */
    CHECK(n == 7);
    STATUS(dpb_snapshot(pool, NULL, 0, &n, NULL), DPB_BUFFER_TOO_SMALL); /* asking for the size takes no memory */
    CHECK(n > 8000000);
    STATUS(dpb_select_for(pool, request(1, 5, 0, NULL, 0), &d), DPB_FULL);
    dpb_free(pool);
    room(64);
    STATUS(dpb_shuffle_plan(1, 1e-6, 1u << 27, 0, &plan, NULL), DPB_OK);
    STATUS(dpb_new_shuffler(&plan, &shuffler, NULL), DPB_NO_MEMORY);
    CHECK(shuffler == NULL);
    for (i = 0; i < 3; i++) { /* their memory does not grow with the horizon */
      STATUS(dpb_new_counter(counting((dpb_counter_kind)i, 1, (uint64_t)1 << 37, SEED), &counter, NULL), DPB_OK);
      dpb_counter_free(counter);
    }
  }

  { /* restoring a handle with less memory */
    static uint8_t bytes[4096];
    dpb_config config = seeded(2, 1);
    dpb_bandit *bandit, *restored = NULL;
    dpb_error error;
    config.pending_capacity = 1u << 23;
    room((size_t)-1);
    STATUS(dpb_new(&config, &bandit, NULL), DPB_OK);
    STATUS(dpb_snapshot(bandit, bytes, sizeof bytes, &n, NULL), DPB_OK);
    dpb_free(bandit);
    room(32);
    STATUS(dpb_restore(bytes, n, &restored, &error), DPB_NO_MEMORY);
    CHECK(restored == NULL && error.status == DPB_NO_MEMORY);
    room((size_t)-1);
    STATUS(dpb_restore(bytes, n, &restored, &error), DPB_OK);
    dpb_free(restored);
  }

  { /* adding an arm */
    dpb_config config = seeded(1u << 20, 1);
    dpb_bandit *bandit;
    dpb_report before, after;
    dpb_error error;
    uint32_t arm = 7;
    uint8_t none;
    room((size_t)-1);
    STATUS(dpb_new(&config, &bandit, NULL), DPB_OK);
    before.struct_size = sizeof before;
    after.struct_size = sizeof after;
    STATUS(dpb_report_read(bandit, &before), DPB_OK);
    room(4);
    n = 7;
    STATUS(dpb_snapshot(bandit, &none, 1 << 30, &n, NULL), DPB_NO_MEMORY);
    CHECK(n == 7);
    STATUS(dpb_snapshot(bandit, NULL, 0, &n, NULL), DPB_BUFFER_TOO_SMALL);
    CHECK(n > 1 << 23);
    for (more = 4; more <= 256; more *= 2) {
      room(more);
      if (dpb_add_arm(bandit, 0, &arm, &error) != DPB_NO_MEMORY) break;
      CHECK(error.status == DPB_NO_MEMORY && arm == 7);
      STATUS(dpb_report_read(bandit, &after), DPB_OK);
      CHECK(memcmp(&before, &after, sizeof before) == 0);
      STATUS(dpb_arms_read(bandit, NULL, 0, &n), DPB_BUFFER_TOO_SMALL);
      CHECK(n == 1u << 20);
    }
    CHECK(more > 4);
    room((size_t)-1);
    if (arm == 7) STATUS(dpb_add_arm(bandit, 0, &arm, NULL), DPB_OK);
    CHECK(arm == 1u << 20);
    dpb_free(bandit);
  }
  return failures != 0;
}
