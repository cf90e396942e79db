/*
 * One handle for each thread, for programs in which one lock is too slow. A reward may come to any thread, because its
 * ticket names the handle. First each handle adds its own noise, and regularly merges the releases of the others. Then
 * the first handle leads: the others contribute their open sums to it, and there is one noise for all.
 *
 *   cc examples/c/cores.c $(pkg-config --cflags --libs dpb-static) -lpthread -o cores && ./cores 2 5000000
 */
#include <dpb.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define ARMS 10
#define MOST 64          /* threads */
#define EVERY 1000       /* decisions of a thread between two exchanges */
#define SNAPSHOT 1 << 14 /* bytes: the comment of dpb_snapshot has the size for each arm */
#define CONTRIBUTION 1 << 10 /* bytes: the comment of dpb_contribution has the size for each arm */

static dpb_bandit *handles[MOST];
static long requests;     /* of each thread */
static unsigned threads, many; /* handles: as many as threads, or one */
static uint64_t leader; /* the generation of the first handle, or 0 if no handle leads */

static void check(dpb_status status, const char *what) {
  if (status == DPB_OK) return;
  fprintf(stderr, "%s: %s\n", what, dpb_status_name(status));
  exit(1);
}

/* Merges the releases of one handle into another. */
static void merge_into(unsigned from, unsigned to) {
  uint8_t snapshot[SNAPSHOT];
  size_t len;
  check(dpb_snapshot(handles[from], snapshot, sizeof snapshot, &len, NULL), "snapshot");
  check(dpb_merge(handles[to], snapshot, len, NULL), "merge");
}

/* Exchanges releases with the other handles. */
static void exchange(unsigned own) {
  uint8_t sums[CONTRIBUTION];
  size_t len;
  unsigned other;
  if (leader != 0 && own > 0) { /* the leader may release with what is contributed now */
    check(dpb_contribution(handles[own], leader, sums, sizeof sums, &len, NULL), "contribution");
    if (len > 0) check(dpb_combine(handles[0], sums, len, NULL), "combine");
    merge_into(0, own);
  }
  for (other = 0; other < many; other++) {
    if (other != own) merge_into(own, other);
  }
}

/* The click rates of the ads are 5% down to 0.5%. Returns the difference between the best ad's and this ad's. */
static double loss(uint32_t arm) { return .005 * arm; }

typedef struct {
  unsigned number;
  double regret;
} worker;

static void *serve(void *argument) {
  worker *self = (worker *)argument;
  unsigned own = self->number % many;
  uint64_t coins = 0x9e3779b97f4a7c15u * (self->number + 1);
  double regret = 0;
  dpb_status status;
  long n;
  for (n = 1; n <= requests; n++) {
    dpb_decision ad;
    check(dpb_select(handles[own], &ad), "select");
    coins = coins * 6364136223846793005u + 1442695040888963407u;
    regret += loss(ad.arm);
    /* Any thread can report the reward, because its ticket names the handle. On a busy machine it may come too late. */
    status = dpb_update(handles[dpb_ticket_node(ad.ticket) - 1], ad.ticket,
                        (double)(coins >> 11) < (.05 - loss(ad.arm)) * 9007199254740992.);
    if (status != DPB_EXPIRED) check(status, "update");
    if (many > 1 && n % EVERY == 0) exchange(own);
  }
  self->regret = regret;
  return NULL;
}

/* The key of this run: no process needs it later. */
static const uint8_t *fleet_key(void) {
  static uint8_t key[32];
  FILE *random = fopen("/dev/urandom", "rb");
  if (random == NULL || fread(key, 1, sizeof key, random) != sizeof key) exit(1);
  fclose(random);
  return key;
}

/* Prints the decisions a second of all threads, and the regret. */
static void play(unsigned number_of_handles, int leads) {
  pthread_t running[MOST];
  worker workers[MOST];
  struct timespec start, end;
  double seconds, regret = 0;
  dpb_config config;
  unsigned i;
  many = number_of_handles;
  leader = 0;
  dpb_config_init(&config, ARMS, 1.0);
  if (leads) config.fleet_key = fleet_key();
  for (i = 0; i < many; i++) {
    config.node = i + 1;
    check(dpb_new(&config, &handles[i], NULL), "new");
  }
  if (leads) check(dpb_lead(handles[0], &leader, NULL), "lead");
  for (i = 0; i < many; i++) exchange(i); /* from now on only the leader releases */
  clock_gettime(CLOCK_MONOTONIC, &start);
  for (i = 0; i < threads; i++) {
    workers[i].number = i;
    if (pthread_create(&running[i], NULL, serve, &workers[i]) != 0) exit(1);
  }
  for (i = 0; i < threads; i++) {
    pthread_join(running[i], NULL);
    regret += workers[i].regret;
  }
  clock_gettime(CLOCK_MONOTONIC, &end);
  seconds = (double)(end.tv_sec - start.tv_sec) + 1e-9 * (double)(end.tv_nsec - start.tv_nsec);
  printf("%u threads, %u handles%s: %.1f million decisions a second, %.0f clicks lost of %.0f that chance would lose\n",
         threads, many, leads ? ", one leads" : "", 1e-6 * (double)(threads * requests) / seconds, regret,
         .005 * (ARMS - 1) / 2 * (double)(threads * requests));
  for (i = 0; i < many; i++) {
    dpb_report report;
    report.struct_size = sizeof report;
    check(dpb_report_read(handles[i], &report), "report");
    if (report.answered + report.expired != report.decisions) exit(1);
    dpb_free(handles[i]);
  }
}

int main(int count, char **arguments) {
  unsigned most = count > 1 ? (unsigned)atoi(arguments[1]) : 2;
  long decisions = count > 2 ? atol(arguments[2]) : 2000000;
  if (most < 1 || most > MOST || decisions < most) return 2;
  threads = 1;
  requests = decisions;
  play(1, 0);
  threads = most;
  requests = decisions / most;
  play(1, 0);
  play(most, 0);
  play(most, 1);
  return 0;
}
