/* Two threads on one handle make a given number of decisions (by default few), with several slots in a request, users,
 * the caller's clock, and periods. Checks that all counts are exact, and that memory does not grow.
 * soak [plain|segments|linear DECISIONS] */
#define _POSIX_C_SOURCE 200809L
#include "check.h"
#include <pthread.h>
#include <stdatomic.h>

enum { THREADS = 2, ARMS = 8, D = 4, SLOTS = 3, SEGMENTS = 10000, USERS = 1000000, WAITING = 64 };

typedef struct {
  dpb_bandit *bandit;
  int segments, features;
  uint64_t decisions; /* of each thread */
  atomic_uint_fast64_t now;
} world;

typedef struct {
  world *world;
  uint64_t random, decided, updated, cancelled, repeated, late;
} player;

static uint64_t bits(player *player) { /* xorshift64 */
  player->random ^= player->random << 13;
  player->random ^= player->random >> 7;
  return player->random ^= player->random << 17;
}

/* Counts a decision that expired meanwhile, because this thread was suspended while the other one went on. */
static int is(player *player, dpb_status status, dpb_status expected) {
  player->late += status == DPB_EXPIRED;
  CHECK(status == expected || status == DPB_EXPIRED);
  return status == expected;
}

/* Ends a decision: a third get no update, so that the window ends; a sixteenth of the others are cancelled, and the
 * rest get a reward. One decision in eight gets a second reward, which is refused. */
static void end(player *player, uint64_t ticket, uint32_t arm) {
  dpb_bandit *bandit = player->world->bandit;
  const uint64_t coins = bits(player);
  if (coins % 3 == 0) return;
  if (coins >> 4 & 15) {
    player->updated += is(player, dpb_update(bandit, ticket, (coins >> 8) % 64 < arm + 1), DPB_OK);
  } else {
    player->cancelled += is(player, dpb_cancel(bandit, ticket), DPB_OK);
  }
  if (coins >> 20 & 7) return;
  player->repeated += is(player, dpb_update(bandit, ticket, 1), DPB_DUPLICATE);
}

static void *play(void *argument) {
  player *player = argument;
  world *world = player->world;
  dpb_decision waiting[WAITING]; /* updated after this many more decisions */
  uint64_t i = 0, next_tick = 1000;
  while (player->decided < world->decisions) {
    const uint64_t coins = bits(player);
    float rows[ARMS * D];
    dpb_decision decisions[SLOTS];
    dpb_request request;
    uint32_t slot, entry;
    dpb_request_init(&request);
    request.slots = (uint32_t)(1 + coins % SLOTS);
    request.user = 1 + (coins >> 8) % USERS;
    if (world->segments) request.segment = (coins >> 32) % SEGMENTS;
    if (world->features) {
      for (entry = 0; entry < ARMS * D; entry++) rows[entry] = (float)(coins >> entry & 1);
      request.features = rows;
      request.features_len = ARMS * D;
    }
    STATUS(dpb_select_for(world->bandit, &request, decisions), DPB_OK);
    for (slot = 0; slot < request.slots; slot++, i++) {
      if (i >= WAITING) end(player, waiting[i % WAITING].ticket, waiting[i % WAITING].arm);
      waiting[i % WAITING] = decisions[slot];
    }
    player->decided += request.slots;
    if (player->decided >= next_tick) {
      STATUS(dpb_advance(world->bandit, ++world->now), DPB_OK);
      next_tick += 1000;
    }
    /* A new period after as many requests as there are users. */
    if (player->decided / 4000000 != (player->decided - request.slots) / 4000000) {
      uint8_t *bytes;
      size_t length, stored;
      STATUS(dpb_next_period(world->bandit), DPB_OK);
      STATUS(dpb_snapshot(world->bandit, NULL, 0, &length, NULL), DPB_BUFFER_TOO_SMALL);
      bytes = malloc(length *= 2); /* it may grow */
      STATUS(dpb_snapshot(world->bandit, bytes, length, &stored, NULL), DPB_OK);
      STATUS(dpb_stored(world->bandit, bytes, stored, NULL), DPB_OK);
      free(bytes);
    }
    if (failures > 0) break;
  }
  return NULL;
}

static long resident_kb(void) {
  long pages = 0, resident = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  if (file == NULL) return 0;
  CHECK(fscanf(file, "%ld %ld", &pages, &resident) == 2);
  fclose(file);
  return resident * 4;
}

static dpb_report report_of(const dpb_bandit *bandit) {
  dpb_report report;
  report.struct_size = sizeof report;
  STATUS(dpb_report_read(bandit, &report), DPB_OK);
  return report;
}

static void soak(const char *kind, uint64_t decisions) {
  static world world;
  dpb_config config;
  dpb_error error;
  dpb_report report;
  dpb_diagnostics diagnostics;
  player players[THREADS];
  uint64_t decided = 0, updated = 0, cancelled = 0, repeated = 0, late = 0;
  long early = 0;
  int part;
  unsigned t;
  dpb_config_init(&config, ARMS, 1);
  config.max_slots = SLOTS;
  config.expected_users = USERS;
  config.clock = DPB_CLOCK_CALLER;
  config.reward_window = 50;
  config.pending_capacity = 1 << 18;
  world.segments = strcmp(kind, "segments") == 0;
  world.features = strcmp(kind, "linear") == 0;
  world.now = 1;
  if (world.segments) config.max_segments = SEGMENTS;
  if (world.features) {
    config.features = D;
  }
  STATUS(dpb_new(&config, &world.bandit, &error), DPB_OK);
  memset(players, 0, sizeof players);
  for (t = 0; t < THREADS; t++) {
    players[t].world = &world;
    players[t].random = 88172645463325252u + t;
  }
  for (part = 1; part <= 10; part++) {
    pthread_t threads[THREADS];
    world.decisions = decisions / THREADS / 10 * (uint64_t)part;
    for (t = 0; t < THREADS; t++) CHECK(pthread_create(&threads[t], NULL, play, &players[t]) == 0);
    for (t = 0; t < THREADS; t++) CHECK(pthread_join(threads[t], NULL) == 0);
    if (part == 2) early = resident_kb();
  }
  CHECK(resident_kb() <= early + 256);
  for (t = 0; t < THREADS; t++) {
    decided += players[t].decided;
    updated += players[t].updated;
    cancelled += players[t].cancelled;
    repeated += players[t].repeated;
    late += players[t].late;
  }
  STATUS(dpb_advance(world.bandit, world.now + 1000), DPB_OK);
  report = report_of(world.bandit);
  diagnostics.struct_size = sizeof diagnostics;
  STATUS(dpb_diagnostics_read(world.bandit, &diagnostics), DPB_OK);
  CHECK(report.decisions == decided && report.pending == 0 && report.expired == 0);
  CHECK(report.cancelled == cancelled && report.answered == decided - cancelled);
  CHECK(diagnostics.duplicates == repeated && diagnostics.late == late && diagnostics.unknown == 0);
  printf("%s: %llu decisions, %llu updated, %llu cancelled, %llu repeated, %llu late, %u releases, %ld KiB at a fifth, %ld at the end\n",
         kind, (unsigned long long)decided, (unsigned long long)updated, (unsigned long long)cancelled,
         (unsigned long long)repeated,
         (unsigned long long)late, report.phase, early, resident_kb());
  dpb_free(world.bandit);
}

int main(int argc, char **argv) {
  if (argc == 3) {
    soak(argv[1], strtoull(argv[2], NULL, 10));
  } else {
    soak("plain", 400000);
    soak("segments", 400000);
    soak("linear", 400000);
  }
  return failures != 0;
}
