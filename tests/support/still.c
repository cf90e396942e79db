/* Preloaded into a program, this stops its CLOCK_MONOTONIC, decades from now: no deadline passes on a slow machine. */
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *now) {
  if (clock != CLOCK_MONOTONIC) return (int)syscall(SYS_clock_gettime, clock, now);
  *now = (struct timespec){.tv_sec = 1000000000};
  return 0;
}
