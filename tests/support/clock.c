/*
 * Preloaded into a program, this makes its wall clock jump. If DPB_CLOCK names a file, the clock is ahead by the seconds
 * in it. Otherwise it jumps four times a second: ten days back, ten days forward, or back to the true time.
 * CLOCK_MONOTONIC, which measures durations, is unchanged.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static time_t ahead(void) {
  const char *name = getenv("DPB_CLOCK");
  char text[32] = "";
  struct timespec steady;
  if (name) {
    int file = open(name, O_RDONLY);
    ssize_t length = file < 0 ? 0 : read(file, text, sizeof text - 1);
    if (file >= 0) close(file);
    return length > 0 ? atol(text) : 0;
  }
  (void)syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &steady);
  return ((steady.tv_sec * 4 + steady.tv_nsec / 250000000) % 3 - 1) * 864000;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  int status = (int)syscall(SYS_clock_gettime, clock, now);
  if (status == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += ahead();
  return status;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
  struct timespec jumped;
  (void)zone;
  (void)clock_gettime(CLOCK_REALTIME, &jumped);
  now->tv_sec = jumped.tv_sec;
  now->tv_usec = jumped.tv_nsec / 1000;
  return 0;
}

time_t time(time_t *now) {
  struct timespec jumped;
  (void)clock_gettime(CLOCK_REALTIME, &jumped);
  if (now) *now = jumped.tv_sec;
  return jumped.tv_sec;
}
