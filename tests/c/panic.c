/* A panic inside the library comes out as a status, and closes the handle for ever. */
#include "check.h"

#include <sys/wait.h>
#include <unistd.h>

#ifdef __cplusplus
extern "C"
#endif
dpb_status dpb_test_panic(dpb_bandit *); /* in builds with the feature test-hooks only */

int main(void) {
  dpb_config config = seeded(5, 1);
  dpb_bandit *bandit, *other;
  dpb_decision d;
  dpb_report report;
  pid_t child;
  int status;
  memset(&report, 0, sizeof report);
  STATUS(dpb_new_se(&config, &bandit, NULL), DPB_OK);
  STATUS(dpb_new_se(&config, &other, NULL), DPB_OK);
  STATUS(dpb_select(bandit, &d), DPB_OK);
  STATUS(dpb_test_panic(bandit), DPB_POISONED);
  STATUS(dpb_select(bandit, &d), DPB_POISONED);
  STATUS(dpb_update(bandit, d.ticket, 1), DPB_POISONED);
  STATUS(dpb_cancel(bandit, d.ticket), DPB_POISONED);
  STATUS(dpb_report_read(bandit, &report), DPB_POISONED);
  dpb_free(bandit);
  STATUS(dpb_select(other, &d), DPB_OK); /* only that handle */

  /* a forked child must not draw its parent's noise again */
  child = fork();
  if (child == 0) {
    STATUS(dpb_update(other, d.ticket, 1), DPB_POISONED);
    STATUS(dpb_select(other, &d), DPB_POISONED);
    STATUS(dpb_new_se(&config, &bandit, NULL), DPB_OK); /* its own handles are fine */
    STATUS(dpb_select(bandit, &d), DPB_OK);
    dpb_free(bandit);
    _exit(failures != 0);
  }
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
  STATUS(dpb_update(other, d.ticket, 1), DPB_OK); /* the parent goes on */
  dpb_free(other);
  return failures != 0;
}
