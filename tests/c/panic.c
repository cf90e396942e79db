/* A panic inside the library becomes a status and poisons the handle. */
#include "check.h"

#ifdef __cplusplus
extern "C"
#endif
dpb_status dpb_test_panic(dpb_bandit *); /* in the package tests/hooked only */

int main(void) {
  dpb_config config = seeded(5, 1);
  dpb_bandit *bandit, *other;
  dpb_decision d;
  dpb_report report;
  report.struct_size = sizeof report;
  STATUS(dpb_new_se(&config, &bandit, NULL), DPB_OK);
  STATUS(dpb_new_se(&config, &other, NULL), DPB_OK);
  STATUS(dpb_select(bandit, &d), DPB_OK);
  STATUS(dpb_test_panic(bandit), DPB_POISONED);
  STATUS(dpb_select(bandit, &d), DPB_POISONED);
  STATUS(dpb_update(bandit, d.ticket, 1), DPB_POISONED);
  STATUS(dpb_cancel(bandit, d.ticket), DPB_POISONED);
  STATUS(dpb_report_read(bandit, &report), DPB_POISONED);
  dpb_free(bandit);
  STATUS(dpb_select(other, &d), DPB_OK); /* only the handle that panicked is poisoned */

  STATUS(dpb_update(other, d.ticket, 1), DPB_OK);
  dpb_free(other);
  return failures != 0;
}
