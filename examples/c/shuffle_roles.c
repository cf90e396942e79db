/*
 * The shuffle model as three processes. Only the first one sees rewards. Only the second one can link bits to users.
 *
 *      server --- "show ad a, for batch (phase, a)" ---> devices
 *      devices -- a message of encoded bits -----------> shuffler
 *      shuffler - a complete batch, permuted ----------> server
 *
 * Pipes replace the network here. In production, encrypt the link from the devices to the shuffler. Have the shuffler
 * run by a party that the users trust not to share data with the server. Every fiftieth message is lost. The server
 * then shows ads to further users until the batch is complete.
 *
 *      cc -Iinclude examples/c/shuffle_roles.c -Ltarget/release -ldpb -o shuffle_roles
 */
#define _POSIX_C_SOURCE 200809L
#include "dpb.h"
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ARMS = 4, BEST = 2, USERS = 50, LOST = 50, MAX_BATCH = 4096, MAX_MESSAGE = 256 };
static const double epsilon = 1.0, delta = 1e-6;

/* The batch that a message belongs to. Routing needs nothing else. */
typedef struct { uint32_t phase, arm; } label;

static void die(const char *what) {
  fprintf(stderr, "shuffle_roles: %s\n", what);
  exit(1);
}

static void check(dpb_status status) {
  if (status != DPB_OK) die(dpb_status_name(status));
}

static void send_all(int to, const void *data, size_t size) {
  const char *from = data;
  while (size > 0) {
    ssize_t sent = write(to, from, size);
    if (sent <= 0) die("write failed");
    from += sent;
    size -= (size_t)sent;
  }
}

/* Returns 0 at the end of the stream. */
static int receive_all(int from, void *data, size_t size) {
  char *to = data;
  while (size > 0) {
    ssize_t got = read(from, to, size);
    if (got < 0) die("read failed");
    if (got == 0) return 0;
    to += got;
    size -= (size_t)got;
  }
  return 1;
}

/* Each role computes the parameters, so the devices do not have to trust those of the server. */
static dpb_shuffle_params plan(void) {
  dpb_shuffle_params params;
  check(dpb_shuffle_plan(epsilon, delta, USERS, 0, &params, NULL));
  if (params.users * (1 + params.coins_per_user) > MAX_BATCH || 1 + params.coins_per_user > MAX_MESSAGE) {
    die("the plan is too large");
  }
  return params;
}

/* Role 1: all the users' devices. Only this role has rewards. */
static void devices(int from_server, int to_shuffler) {
  static const double click_rates[ARMS] = {0.2, 0.3, 0.8, 0.4};
  dpb_shuffle_params params = plan();
  uint8_t bits[MAX_MESSAGE];
  size_t len;
  label batch;
  int users = 0;
  srand(1);
  while (receive_all(from_server, &batch, sizeof batch)) {
    double clicked = rand() < click_rates[batch.arm] * RAND_MAX;
    check(dpb_shuffle_encode(&params, clicked, bits, sizeof bits, &len));
    if (++users % LOST == 0) continue; /* no network today */
    send_all(to_shuffler, &batch, sizeof batch);
    send_all(to_shuffler, bits, len);
  }
}

/* Role 2: one batch of each arm at a time. A message for a batch that was sent is too late. */
static void shuffler(int from_devices, int to_server) {
  dpb_shuffle_params params = plan();
  dpb_shuffler *shufflers[ARMS];
  uint32_t open[ARMS]; /* the phase of the open batch */
  uint8_t bits[MAX_MESSAGE], shuffled[MAX_BATCH];
  size_t len;
  label batch;
  for (int arm = 0; arm < ARMS; arm++) {
    check(dpb_new_shuffler(&params, &shufflers[arm], NULL));
    open[arm] = 1;
  }
  while (receive_all(from_devices, &batch, sizeof batch)) {
    if (!receive_all(from_devices, bits, 1 + params.coins_per_user)) die("half a message");
    if (batch.arm >= ARMS || batch.phase != open[batch.arm]) continue;
    check(dpb_shuffler_push(shufflers[batch.arm], bits, 1 + params.coins_per_user));
    dpb_status status = dpb_shuffler_take(shufflers[batch.arm], shuffled, sizeof shuffled, &len);
    if (status == DPB_NOT_READY) continue;
    check(status);
    open[batch.arm]++;
    send_all(to_server, &batch, sizeof batch);
    send_all(to_server, shuffled, len);
  }
  for (int arm = 0; arm < ARMS; arm++) dpb_shuffler_free(shufflers[arm]);
}

/* Role 3: the server sees labels and shuffled bits only. */
static void server(int to_devices, int from_shuffler) {
  dpb_shuffle_params params = plan();
  size_t len = (size_t)params.users * (1 + params.coins_per_user);
  uint8_t bits[MAX_BATCH];
  dpb_config config;
  dpb_error error;
  dpb_bandit *bandit;
  dpb_report report;
  uint32_t best, phase = 0, requested = 0, wanted = 0;
  label batch;
  dpb_config_init(&config, ARMS, epsilon);
  config.delta = delta;
  config.horizon = 1000000;
  config.batch = USERS;
  if (dpb_new_sdp_ae(&config, &bandit, &error) != DPB_OK) die(error.message);
  report.struct_size = sizeof report;
  while (dpb_best_arm(bandit, &best) == DPB_NOT_READY) {
    struct pollfd arrival = {from_shuffler, POLLIN, 0};
    check(dpb_report_read(bandit, &report));
    if (report.phase != phase) {
      phase = report.phase;
      requested = 0;
      wanted = USERS * report.arms_active;
    }
    if (requested < wanted) {
      dpb_decision decision;
      check(dpb_select(bandit, &decision));
      batch.phase = decision.phase;
      batch.arm = decision.arm;
      send_all(to_devices, &batch, sizeof batch);
      requested++;
    } else if (poll(&arrival, 1, 10) > 0) {
      if (!receive_all(from_shuffler, &batch, sizeof batch) || !receive_all(from_shuffler, bits, len)) {
        die("the shuffler is gone");
      }
      check(dpb_submit_shuffled(bandit, batch.phase, batch.arm, bits, len));
      /* A second submission would count the same rewards twice. */
      dpb_status again = dpb_submit_shuffled(bandit, batch.phase, batch.arm, bits, len);
      if (again != DPB_DUPLICATE && again != DPB_EXPIRED) die("a batch was taken twice");
    } else {
      wanted += report.arms_active; /* some users were lost: ask others */
    }
  }
  check(dpb_report_read(bandit, &report));
  if (best != BEST) die("found the wrong arm");
  if (report.answered != 0) die("the server saw a reward");
  if (report.epsilon_spent > epsilon || report.delta_spent > delta) die("spent more than it had");
  printf("arm %u after %llu users and %u phases, at epsilon %g and delta %g\n", (unsigned)best,
         (unsigned long long)report.decisions, (unsigned)phase, report.epsilon_spent, report.delta_spent);
  dpb_free(bandit);
}

int main(void) {
  int requests[2], messages[2], batches[2], status, failed = 0;
  uint8_t rest[MAX_BATCH];
  if (pipe(requests) || pipe(messages) || pipe(batches)) die("no pipes");
  /* Handles do not survive fork(): each process makes its own. */
  pid_t first = fork();
  if (first < 0) die("no process");
  if (first == 0) {
    close(requests[1]), close(messages[0]), close(batches[0]), close(batches[1]);
    devices(requests[0], messages[1]);
    return 0;
  }
  pid_t second = fork();
  if (second < 0) die("no process");
  if (second == 0) {
    close(requests[0]), close(requests[1]), close(messages[1]), close(batches[0]);
    shuffler(messages[0], batches[1]);
    return 0;
  }
  close(requests[0]), close(messages[0]), close(messages[1]), close(batches[1]);
  server(requests[1], batches[0]);
  close(requests[1]); /* the devices end, then the shuffler */
  while (read(batches[0], rest, sizeof rest) > 0) {}
  for (int i = 0; i < 2; i++) failed |= wait(&status) < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0;
  if (failed) die("another role failed");
  return 0;
}
