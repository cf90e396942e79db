/* A second Rust library in the program: panics of libdpb become statuses, and the other library handles its own panics as
   it does alone. Prints how. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
#define main ours
#include "panic.c"
#undef main

#ifdef __cplusplus
extern "C"
#endif
int neighbour_panics(void);

int main(void) {
  int status;
  pid_t child = fork();
  if (child == 0) _exit(neighbour_panics() ? 0 : 1);
  if (waitpid(child, &status, 0) != child) return 1;
  puts(WIFEXITED(status) && WEXITSTATUS(status) == 0          ? "contained"
       : WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT ? "aborted"
                                                            : "lost");
  fflush(stdout);
  return ours();
}
