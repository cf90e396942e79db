/*
 * split_clients that learns: dpb_split chooses a variant for each request, and dpb_reward reports its reward.
 *
 * Each worker has its own handle, made after the fork. A reward may come to any worker. For each worker, all workers
 * share a table of its open tickets. The worker that receives a reward removes the ticket from the table, and stores
 * the ticket and the reward for the owner. The owner collects them before its next decision or within a tick. So a
 * ticket counts once. A ticket that is not in a table (duplicate, late, of an earlier process, forged) does not count.
 * The store has a place for every open ticket, so no reward decides whether another one is lost.
 *
 * The other workers merge the releases of a worker within some ticks, so all learn from all visitors. A new process
 * continues with the origin of its predecessor, so that the releases of both count once.
 *
 * At a reload the old worker hands its whole state over (dpb_suspend), addressed to a number that the new one drew, so
 * that nothing is lost and its tickets stay valid. Until then, some ticks at most, the new worker decides without
 * learning. If the old worker was killed, the new one continues from its releases.
 */
#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include <dpb.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#define WORKERS 256 /* at most; memory of unused places is never touched */
#define WINDOW 65536
#define TICK 100 /* ms */
#define MERGES 4 /* snapshots that a worker merges in a tick, at most */
#define WAIT 50  /* ticks for which a worker waits for its predecessor's state */

/* The shared memory of one worker. All but the pointers is read and written under the zone's lock only, which nginx
   takes from a worker that dies with it. */
typedef struct {
  ngx_pid_t owner;   /* the process that has this place, 0 before the first */
  ngx_pid_t heir;    /* the process that waits for the owner's state */
  uint64_t receiver; /* its number for the state; 0 if none waits */
  size_t left;       /* length of the state that was left to the owner; 0 for none */
  uint8_t *state;
  uint64_t decisions; /* since the table was empty */
  uint64_t *open;    /* tickets of the last most_open decisions, in a ring; 0 after a reward */
  size_t waiting;    /* number of rewards that wait for the owner */
  uint64_t *tickets; /* an array for all open decisions */
  double *rewards;   /* likewise */
  size_t released;   /* length of the snapshot that the next process restores and others merge; 0 for none */
  uint8_t *snapshot;
  uint64_t edition;  /* of the snapshot */
  ngx_uint_t joined; /* number of other places that were merged */
  dpb_report report; /* public state at the last tick */
  dpb_arm *arms;
} place_t;

/* The shared memory of all workers. */
typedef struct {
  uint8_t key[32]; /* seals states; drawn once, and in this memory only */
  place_t places[WORKERS];
} table_t;

/* Another worker's place, as one worker knows it. */
typedef struct {
  uint64_t edition; /* of the last snapshot that was read */
  int joined;
} peer_t;

typedef struct {
  ngx_str_t name; /* of the variable */
  ngx_array_t variants;
  const char *policy;
  dpb_config config;
  ngx_int_t variant, ticket; /* the variables */
  ngx_shm_zone_t *zone;
  size_t state_size; /* at most */
  /* Each worker has its own copy of the rest. */
  dpb_bandit *bandit;
  place_t *own;
  ngx_uint_t waits;  /* the number of ticks for which it still waits for its predecessor's state */
  dpb_status clock;  /* of the last dpb_advance */
  peer_t peers[WORKERS];
  ngx_uint_t turn;   /* the next place to read */
  uint8_t *snapshot; /* the snapshot that was read */
} split_t;

/* What a location does. */
typedef struct {
  split_t *split; /* of dpb_reward */
  ngx_http_complex_value_t ticket, reward;
  uint32_t form; /* of dpb_statement */
} location_t;

extern ngx_module_t ngx_http_dpb_module;

/* The workers' shared tables. ------------------------------------------------------------------------------ */

static ngx_shmtx_t *mutex(split_t *split) { return &((ngx_slab_pool_t *)split->zone->shm.addr)->mutex; }

static table_t *table(split_t *split) { return ((ngx_slab_pool_t *)split->zone->shm.addr)->data; }

static place_t *places(split_t *split) { return table(split)->places; }

/* The maximum number of open decisions: the window or, with a window of time, `pending`. */
static size_t most_open(split_t *split) {
  return split->config.clock == DPB_CLOCK_CALLER ? split->config.pending_capacity : split->config.reward_window;
}

/* The size of a snapshot: some 250 bytes, and at most 210 for each arm, as dpb.h says. */
static size_t snapshot_size(split_t *split) { return 512 + 256 * split->config.arms; }

static size_t place_size(split_t *split) {
  return sizeof(place_t) + most_open(split) * (2 * sizeof(uint64_t) + sizeof(double)) +
         split->config.arms * sizeof(dpb_arm) + snapshot_size(split) + split->state_size;
}

/* Lays out the tables once. A reload keeps them. New memory is all zeros. */
static ngx_int_t init_zone(ngx_shm_zone_t *zone, void *former) {
  split_t *split = zone->data;
  ngx_slab_pool_t *pool = (ngx_slab_pool_t *)zone->shm.addr;
  size_t i, open = most_open(split);
  place_t *place;
  u_char *next;
  if (former) return NGX_OK;
  pool->data = ngx_slab_alloc(pool, sizeof(table_t) + WORKERS * place_size(split));
  if (pool->data == NULL || getentropy(table(split)->key, sizeof table(split)->key) != 0) return NGX_ERROR;
  place = places(split);
  next = (u_char *)(place + WORKERS);
  for (i = 0; i < WORKERS; i++, place++) {
    place->open = (uint64_t *)next;
    place->tickets = place->open + open;
    place->rewards = (double *)(place->tickets + open);
    place->arms = (dpb_arm *)(place->rewards + open);
    place->snapshot = (uint8_t *)(place->arms + split->config.arms);
    place->state = place->snapshot + snapshot_size(split);
    next = place->state + split->state_size;
    next += -(uintptr_t)next % sizeof(uint64_t);
  }
  return NGX_OK;
}

/* Returns whether this process has its place. After a reload its successor gets it, while this process completes its last
   requests, and the successor waits for it. Requests in the meantime get variants, but no worker learns from them. */
static int is_ours(split_t *split) { return split->own && split->own->owner == ngx_pid && split->waits == 0; }

/* Reports the stored rewards to the handle. */
static void collect(split_t *split) {
  place_t *own = split->own;
  dpb_status status;
  size_t done;
  if (own->waiting == 0) return;
  status = dpb_update_many(split->bandit, own->tickets, own->rewards, own->waiting, NULL, &done);
  (void)status; /* a poisoned handle accepts no rewards, now or later */
  ngx_explicit_memzero(own->tickets, own->waiting * sizeof(uint64_t));
  ngx_explicit_memzero(own->rewards, own->waiting * sizeof(double));
  own->waiting = 0;
}

/* Reports the stored rewards to the handle, and then sets its clock, so that windows of time end. The module calls this
   before each decision and at each tick, but never at a reward, because time must not depend on rewards. If the handle
   refuses the time, it goes on with the last one, and the log has each change of the status. */
static void collect_and_advance(split_t *split) {
  ngx_time_t *now = ngx_timeofday();
  dpb_status status;
  collect(split);
  if (split->config.clock != DPB_CLOCK_CALLER) return;
  status = dpb_advance(split->bandit, (uint64_t)now->sec * 1000 + now->msec);
  if (status == split->clock) return;
  split->clock = status;
  if (status == DPB_OK) {
    ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0, "dpb_split $%V: the clock goes on", &split->name);
  } else {
    ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, 0, "dpb_split $%V: the clock stands still: %s", &split->name,
                  dpb_status_name(status));
  }
}

/* Stores a reward for the worker that issued its ticket. The store is large enough, because a ticket is in the table
   once, and the owner collects rewards before it adds a ticket. */
static void store_reward(split_t *split, uint64_t ticket, double reward) {
  size_t i, node = dpb_ticket_node(ticket), open = most_open(split);
  place_t *place;
  if (node == 0 || node > WORKERS) return;
  place = places(split) + node - 1;
  ngx_shmtx_lock(mutex(split));
  for (i = 0; place->owner && i < open; i++) {
    if (place->open[i] != ticket) continue;
    place->open[i] = 0;
    place->tickets[place->waiting] = ticket;
    place->rewards[place->waiting] = reward;
    ngx_memory_barrier(); /* if the process is killed here, the table is consistent */
    place->waiting++;
    break;
  }
  ngx_shmtx_unlock(mutex(split));
}

/* A worker's process. -------------------------------------------------------------------------------------- */

static ngx_event_t ticker;
static ngx_connection_t nowhere = {.fd = (ngx_socket_t)-1}; /* nginx's debug log reads it for each timer */

/* Copies the next new snapshot of another worker, in turn, and returns its length, or 0 if there is none. */
static size_t copy_next(split_t *split, peer_t **peer) {
  size_t i, n = 0;
  ngx_shmtx_lock(mutex(split));
  for (i = 0; is_ours(split) && i < WORKERS && n == 0; i++) {
    place_t *place = places(split) + split->turn;
    *peer = split->peers + split->turn;
    split->turn = (split->turn + 1) % WORKERS;
    if (place == split->own || place->released == 0 || place->edition == (*peer)->edition) continue;
    (*peer)->edition = place->edition;
    n = place->released;
    ngx_memcpy(split->snapshot, place->snapshot, n);
  }
  ngx_shmtx_unlock(mutex(split));
  return n;
}

/* Merges the releases of others, without holding the lock. Returns whether it merged any. Policies that cannot merge,
   and snapshots from before a reload that changed an option, change nothing. */
static int merge(split_t *split) {
  int i, has_learned = 0;
  peer_t *peer;
  size_t n;
  for (i = 0; i < MERGES && (n = copy_next(split, &peer)) > 0; i++) {
    if (dpb_merge(split->bandit, split->snapshot, n, NULL) != DPB_OK) continue;
    peer->joined = has_learned = 1;
  }
  return has_learned;
}

/* Writes a snapshot for the others and the next process. */
static void save(split_t *split) {
  place_t *own = split->own;
  size_t n;
  own->released = 0; /* if the process is killed here, there is no partial snapshot */
  own->edition++;
  ngx_memory_barrier();
  if (dpb_snapshot(split->bandit, own->snapshot, snapshot_size(split), &n, NULL) == DPB_OK) own->released = n;
}

/* Publishes releases for the status, the others and the next process. Means include merged releases, but a snapshot
   does not. If only merged releases changed, the snapshot stays: otherwise two workers would exchange snapshots for
   ever. */
static void publish(split_t *split, int has_learned) {
  place_t *own = split->own;
  uint64_t before = own->report.decisions + own->report.answered; /* a window of time can end without a decision */
  size_t i, n;
  uint64_t leaps = own->report.clock_leaps;
  own->report.struct_size = sizeof own->report;
  if (dpb_report_read(split->bandit, &own->report) != DPB_OK) return;
  if (own->report.clock_leaps > leaps) {
    ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0, "dpb_split $%V: the clock leapt: the time continues from what it shows",
                  &split->name);
  }
  int is_news = own->report.decisions + own->report.answered != before || own->released == 0;
  if (!is_news && !has_learned) return;
  if (dpb_arms_read(split->bandit, own->arms, split->config.arms, &n) != DPB_OK) return;
  for (own->joined = i = 0; i < WORKERS; i++) own->joined += split->peers[i].joined;
  if (!is_news) return;
  save(split);
}

/* Makes a handle that continues from the place's releases, or a new one. Returns whether it continues. The caller holds
   the lock. */
static int make(split_t *split) {
  place_t *own = split->own;
  dpb_error error;
  dpb_free(split->bandit);
  split->bandit = NULL;
  if (own->released) {
    if (dpb_restore_as(split->policy, &split->config, own->snapshot, own->released, &split->bandit, &error) == DPB_OK) {
      return 1;
    }
    ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0, "dpb_split $%V starts afresh: %s", &split->name, error.message);
  }
  if (dpb_new_policy(split->policy, &split->config, &split->bandit, &error) != DPB_OK) {
    ngx_log_error(NGX_LOG_ALERT, ngx_cycle->log, 0, "dpb_split $%V does not learn: %s", &split->name, error.message);
  }
  return 0;
}

/* Takes the worker's place, without the tickets of the previous process, and continues from its releases. */
static void take_place(split_t *split) {
  place_t *own = split->own;
  own->owner = ngx_pid;
  own->heir = own->receiver = split->waits = 0;
  own->waiting = own->joined = own->decisions = 0;
  ngx_explicit_memzero(own->state, own->left);
  own->left = 0;
  ngx_memzero(own->open, most_open(split) * sizeof(uint64_t));
  ngx_memzero(&own->report, sizeof own->report);
  if (make(split)) {
    save(split); /* before the first decision, so that the next process knows of this one */
  } else {
    own->released = 0;
  }
}

/* Leaves the state to the successor, and keeps a handle for the last requests. A successor that is killed with it cannot
   be replaced: its number was in its memory only. */
static void hand_over(split_t *split) {
  place_t *own = split->own;
  size_t n;
  collect(split);
  save(split);
  if (dpb_suspend(split->bandit, own->receiver, own->state, split->state_size, &n, NULL) == DPB_OK) own->left = n;
  own->receiver = 0;
  ngx_memory_barrier(); /* if the process is killed before, the place is still its own */
  own->owner = own->heir;
  make(split);
}

/* Continues from the state that the predecessor has left. */
static void inherit(split_t *split) {
  place_t *own = split->own;
  dpb_bandit *next;
  dpb_error error;
  if (own->left == 0 ||
      dpb_resume(split->policy, &split->config, own->state, own->left, &next, &error) != DPB_OK) {
    ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0, "dpb_split $%V: what was open is lost: %s", &split->name,
                  own->left ? error.message : "the state has no place");
    take_place(split);
    return;
  }
  dpb_free(split->bandit); /* and with it the number that the state was addressed to */
  split->bandit = next;
  split->waits = 0;
  ngx_explicit_memzero(own->state, own->left);
  own->left = 0;
  own->joined = 0;
  save(split);
  ngx_log_error(NGX_LOG_INFO, ngx_cycle->log, 0, "dpb_split $%V: worker %ui continues", &split->name, ngx_worker);
}

/* Moves a state if there is one to move. Each worker calls this first when it has the lock. */
static void settle(split_t *split) {
  place_t *own = split->own;
  if (own->owner == ngx_pid) {
    if (split->waits) inherit(split);
    if (own->receiver && split->bandit) hand_over(split);
  } else if (split->waits && own->heir == ngx_pid && (split->waits == 1 || kill(own->owner, 0) != 0)) {
    take_place(split); /* the predecessor was killed, or hangs */
  }
}

/* Waits for the state of the process that has the worker's place, or takes the place of one that has ended. */
static void begin(split_t *split) {
  place_t *own = split->own = places(split) + ngx_worker;
  split->config.node = ngx_worker + 1; /* a ticket names its worker */
  split->config.fleet_key = table(split)->key;
  ngx_shmtx_lock(mutex(split));
  if (own->owner && own->owner != ngx_pid && kill(own->owner, 0) == 0) {
    make(split); /* for visitors in the meantime */
    own->receiver = 0;
    if (split->bandit && dpb_receiver(split->bandit, &own->receiver, NULL) == DPB_OK) {
      own->heir = ngx_pid;
      split->waits = WAIT;
    }
  }
  if (split->waits == 0) take_place(split);
  ngx_shmtx_unlock(mutex(split));
}

static ngx_array_t *splits_of(volatile ngx_cycle_t *cycle) {
  static ngx_array_t none;
  ngx_array_t *splits = ngx_http_cycle_get_module_main_conf(cycle, ngx_http_dpb_module);
  return splits ? splits : &none;
}

static void tick(ngx_event_t *event) {
  ngx_array_t *splits = splits_of(ngx_cycle);
  split_t **split = splits->elts;
  ngx_uint_t i;
  int has_learned;
  for (i = 0; i < splits->nelts; i++) {
    ngx_shmtx_lock(mutex(split[i]));
    settle(split[i]);
    if (split[i]->waits > 1) split[i]->waits--;
    ngx_shmtx_unlock(mutex(split[i]));
    has_learned = merge(split[i]);
    ngx_shmtx_lock(mutex(split[i]));
    if (is_ours(split[i])) {
      collect_and_advance(split[i]);
      publish(split[i], has_learned);
    }
    ngx_shmtx_unlock(mutex(split[i]));
  }
  ngx_add_timer(event, TICK);
}

static ngx_int_t init_module(ngx_cycle_t *cycle) {
  ngx_core_conf_t *core = (ngx_core_conf_t *)ngx_get_conf(cycle->conf_ctx, ngx_core_module);
  if (splits_of(cycle)->nelts == 0 || core->worker_processes <= WORKERS) return NGX_OK;
  ngx_log_error(NGX_LOG_EMERG, cycle->log, 0, "dpb_split is for at most %d workers", WORKERS);
  return NGX_ERROR;
}

static ngx_int_t init_process(ngx_cycle_t *cycle) {
  ngx_array_t *splits = splits_of(cycle);
  ngx_uint_t i;
  if (splits->nelts == 0 || (ngx_process != NGX_PROCESS_WORKER && ngx_process != NGX_PROCESS_SINGLE)) return NGX_OK;
  for (i = 0; i < splits->nelts; i++) begin(((split_t **)splits->elts)[i]);
  ticker.handler = tick;
  ticker.data = &nowhere;
  ticker.log = cycle->log;
  ticker.cancelable = 1; /* a worker that ends does not wait for it */
  ngx_add_timer(&ticker, 0);
  return NGX_OK;
}

static void exit_process(ngx_cycle_t *cycle) {
  ngx_array_t *splits = splits_of(cycle);
  split_t **split = splits->elts;
  ngx_uint_t i;
  for (i = 0; i < splits->nelts; i++) {
    if (split[i]->own) { /* a worker */
      ngx_shmtx_lock(mutex(split[i]));
      settle(split[i]);
      ngx_shmtx_unlock(mutex(split[i]));
    }
    dpb_free(split[i]->bandit);
  }
}

/* Requests. ------------------------------------------------------------------------------------------------ */

/* Returns whether a visitor sees the page, or has clicked: not for HEAD, OPTIONS and the like, which programs send. A
   subrequest is GET, whatever the request is. */
static int is_visit(ngx_http_request_t *r) { return (r->main->method & (NGX_HTTP_GET | NGX_HTTP_POST)) != 0; }

static void set_variable(ngx_http_request_t *r, ngx_int_t index, u_char *data, size_t length) {
  ngx_http_variable_value_t *value = &r->variables[index];
  ngx_memzero(value, sizeof *value);
  value->data = data;
  value->len = length;
  value->valid = 1;
}

/* nginx reads one of the variables: both get their values for this request. */
static ngx_int_t choose(ngx_http_request_t *r, ngx_http_variable_value_t *value, uintptr_t data) {
  split_t *split = (split_t *)data;
  u_char *ticket = ngx_pnalloc(r->pool, 16);
  dpb_decision chosen = {0}; /* the first variant */
  size_t length = 0;         /* of the ticket */
  ngx_str_t *variant;
  dpb_status status;
  if (ticket == NULL) return NGX_ERROR;
  if (is_visit(r)) {
    /* One critical section: a ticket accepts a reward exactly while it is in the table. */
    ngx_shmtx_lock(mutex(split));
    settle(split);
    if (is_ours(split)) collect_and_advance(split);
    status = dpb_select(split->bandit, &chosen);
    if (status == DPB_OK && is_ours(split)) {
      split->own->open[split->own->decisions++ % most_open(split)] = chosen.ticket;
    }
    ngx_shmtx_unlock(mutex(split));
    if (status == DPB_OK) {
      length = ngx_sprintf(ticket, "%016xL", chosen.ticket) - ticket;
    } else { /* show the page, without learning from it */
      ngx_log_error(NGX_LOG_ERR, r->connection->log, 0, "dpb_split $%V: %s", &split->name, dpb_status_name(status));
    }
  }
  variant = (ngx_str_t *)split->variants.elts + chosen.arm;
  set_variable(r, split->variant, variant->data, variant->len);
  set_variable(r, split->ticket, ticket, length);
  return NGX_OK;
}

/* The response is always the same, whatever the method and whether the reward counts. */
static ngx_int_t handle_reward(ngx_http_request_t *r) {
  location_t *conf = ngx_http_get_module_loc_conf(r, ngx_http_dpb_module);
  ngx_int_t ticket, millionths = 1000000, result = ngx_http_discard_request_body(r);
  ngx_str_t text;
  if (result != NGX_OK) return result;
  if (ngx_http_complex_value(r, &conf->ticket, &text) != NGX_OK) return NGX_HTTP_INTERNAL_SERVER_ERROR;
  ticket = text.len == 16 ? ngx_hextoi(text.data, text.len) : NGX_ERROR;
  if (conf->reward.value.data) {
    if (ngx_http_complex_value(r, &conf->reward, &text) != NGX_OK) return NGX_HTTP_INTERNAL_SERVER_ERROR;
    millionths = ngx_atofp(text.data, text.len, 6);
  }
  if (!is_visit(r)) return NGX_HTTP_NO_CONTENT;
  if (ticket > 0 && millionths >= 0 && millionths <= 1000000) store_reward(conf->split, ticket, millionths / 1e6);
  return NGX_HTTP_NO_CONTENT;
}

/* Writes a number of JSON, or null if it is not finite. */
static u_char *put(u_char *out, const char *before, double x) {
  char digits[32] = "null";
  if (isfinite(x)) snprintf(digits, sizeof digits, "%.15g", x);
  return ngx_sprintf(out, "%s%s", before, digits);
}

/* Writes the public state of a worker. */
static u_char *put_place(u_char *out, place_t *place, ngx_uint_t arms) {
  ngx_uint_t i;
  dpb_arm *arm = place->arms;
  out = put(out, "{\"decisions\":", (double)place->report.decisions);
  out = put(out, ",\"epsilon_spent\":", place->report.epsilon_spent);
  out = put(out, ",\"is_private\":", place->report.is_private);
  out = put(out, ",\"joined\":", (double)place->joined);
  out = ngx_sprintf(out, ",\"arms\":[");
  for (i = 0; i < arms; i++, arm++) {
    out = put(out, i ? ",{\"mean\":" : "{\"mean\":", arm->mean);
    out = put(out, ",\"width\":", arm->width);
    out = put(out, ",\"pulls\":", (double)arm->pulls);
    out = put(out, ",\"effective_pulls\":", arm->effective_pulls);
    *out++ = '}';
  }
  return ngx_sprintf(out, "]}");
}

/* Sends a page that anybody may read. */
static ngx_int_t respond(ngx_http_request_t *r, const char *type, ngx_buf_t *page) {
  ngx_chain_t chain = {.buf = page, .next = NULL};
  ngx_int_t result;
  page->last_buf = r == r->main;
  page->last_in_chain = 1;
  r->headers_out.content_type.data = (u_char *)type;
  r->headers_out.content_type.len = strlen(type);
  r->headers_out.status = NGX_HTTP_OK;
  r->headers_out.content_length_n = page->last - page->pos;
  result = ngx_http_send_header(r);
  if (result == NGX_ERROR || result > NGX_OK || r->header_only) return result;
  return ngx_http_output_filter(r, &chain);
}

/* {"variant":[a worker, ...], ...} */
static ngx_int_t handle_status(ngx_http_request_t *r) {
  ngx_core_conf_t *core = (ngx_core_conf_t *)ngx_get_conf(ngx_cycle->conf_ctx, ngx_core_module);
  ngx_array_t *splits = splits_of(ngx_cycle);
  split_t **split = splits->elts;
  ngx_int_t worker, result = ngx_http_discard_request_body(r);
  ngx_buf_t *page;
  ngx_uint_t i;
  size_t size = 2;
  if (result != NGX_OK) return result;
  for (i = 0; i < splits->nelts; i++) {
    size += split[i]->name.len + 8 + core->worker_processes * (160 + split[i]->config.arms * 160);
  }
  page = ngx_create_temp_buf(r->pool, size);
  if (page == NULL) return NGX_HTTP_INTERNAL_SERVER_ERROR;
  *page->last++ = '{';
  for (i = 0; i < splits->nelts; i++) {
    page->last = ngx_sprintf(page->last, "%s\"%V\":", i ? "," : "", &split[i]->name);
    for (worker = 0; worker < core->worker_processes; worker++) {
      *page->last++ = worker ? ',' : '[';
      ngx_shmtx_lock(mutex(split[i]));
      page->last = put_place(page->last, places(split[i]) + worker, split[i]->config.arms);
      ngx_shmtx_unlock(mutex(split[i]));
    }
    *page->last++ = ']';
  }
  *page->last++ = '}';
  return respond(r, "application/json", page);
}

/* Writes what this worker's handle guarantees into the request's memory. */
static dpb_status state(ngx_http_request_t *r, split_t *split, uint32_t form, ngx_str_t *text) {
  dpb_status status = dpb_statement(split->bandit, form, NULL, 0, &text->len, NULL);
  while (status == DPB_BUFFER_TOO_SMALL) { /* the length may change between two calls */
    text->data = ngx_pnalloc(r->pool, text->len);
    if (text->data == NULL) return DPB_NO_MEMORY;
    status = dpb_statement(split->bandit, form, text->data, text->len, &text->len, NULL);
  }
  return status;
}

/* The statements of all variables, in the order of the configuration: [a statement, ...], or a text for each. */
static ngx_int_t handle_statement(ngx_http_request_t *r) {
  location_t *conf = ngx_http_get_module_loc_conf(r, ngx_http_dpb_module);
  ngx_array_t *splits = splits_of(ngx_cycle);
  split_t **split = splits->elts;
  int is_json = conf->form == DPB_STATEMENT_JSON;
  ngx_int_t result = ngx_http_discard_request_body(r);
  ngx_str_t *text = ngx_palloc(r->pool, splits->nelts * sizeof *text);
  dpb_status status;
  ngx_buf_t *page;
  ngx_uint_t i;
  size_t size = 2;
  if (result != NGX_OK) return result;
  if (text == NULL) return NGX_HTTP_INTERNAL_SERVER_ERROR;
  for (i = 0; i < splits->nelts; i++) {
    status = state(r, split[i], conf->form, &text[i]);
    if (status != DPB_OK) {
      ngx_log_error(NGX_LOG_ERR, r->connection->log, 0, "dpb_split $%V: no statement: %s", &split[i]->name,
                    dpb_status_name(status));
      return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    size += text[i].len + 1;
  }
  page = ngx_create_temp_buf(r->pool, size);
  if (page == NULL) return NGX_HTTP_INTERNAL_SERVER_ERROR;
  if (is_json) *page->last++ = '[';
  for (i = 0; i < splits->nelts; i++) {
    if (i > 0) *page->last++ = is_json ? ',' : '\n';
    page->last = ngx_cpymem(page->last, text[i].data, text[i].len);
  }
  if (is_json) *page->last++ = ']';
  return respond(r, is_json ? "application/json" : "text/plain; charset=utf-8", page);
}

/* Configuration. ------------------------------------------------------------------------------------------- */

static void *create_main(ngx_conf_t *cf) { return ngx_array_create(cf->pool, 1, sizeof(split_t *)); }

static void *create_location(ngx_conf_t *cf) { return ngx_pcalloc(cf->pool, sizeof(location_t)); }

static ngx_int_t add_variable(ngx_conf_t *cf, split_t *split, ngx_str_t *name) {
  ngx_http_variable_t *variable = ngx_http_add_variable(cf, name, 0);
  if (variable == NULL) return NGX_ERROR;
  variable->get_handler = choose;
  variable->data = (uintptr_t)split;
  return ngx_http_get_variable_index(cf, name);
}

static char *refuse(ngx_conf_t *cf, const char *why, void *what) {
  ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "%s \"%V\"", why, what);
  return NGX_CONF_ERROR;
}

/* Parses NAME=SPAN: a number of decisions, or a time with a unit (500ms, 30s, 30m, 2h), in milliseconds. */
static int parse_span(ngx_str_t *text, const char *name, uint64_t *ticks, int *is_time) {
  static const struct {
    const char *unit;
    double ms;
  } units[] = {{"", 1}, {"ms", 1}, {"s", 1e3}, {"m", 6e4}, {"h", 3.6e6}};
  size_t i, length = strlen(name);
  char *digits, *end;
  double x;
  if (ngx_strncmp(text->data, name, length) != 0) return 0;
  digits = (char *)text->data + length;
  x = strtod(digits, &end);
  if (end == digits || !(x >= 0 && x == floor(x))) return 0;
  for (i = 0; i < sizeof units / sizeof *units; i++) {
    if (strcmp(end, units[i].unit) == 0 && x * units[i].ms < 0x1p53) {
      *ticks = (uint64_t)(x * units[i].ms);
      *is_time = i > 0;
      return 1;
    }
  }
  return 0;
}

/* Parses NAME=VALUE into the field of dpb_config: a double, or an unsigned integer of 4 or 8 bytes. */
static int parse_option(ngx_str_t *text, dpb_config *config) {
#define OPTION(name, field, real) {name "=", offsetof(dpb_config, field), sizeof config->field, real}
  static const struct {
    const char *name;
    size_t offset, size;
    int real;
  } options[] = {OPTION("epsilon", epsilon, 1),          OPTION("delta", delta, 1),
                 OPTION("horizon", horizon, 0),          OPTION("pending", pending_capacity, 0),
                 OPTION("contributions", contributions_per_user, 0),
                 OPTION("floor", exploration, 1)};
  size_t i, length;
  for (i = 0; i < sizeof options / sizeof *options; i++) {
    length = strlen(options[i].name);
    if (ngx_strncmp(text->data, options[i].name, length) != 0) continue;
    char *field = (char *)config + options[i].offset, *end, *digits = (char *)text->data + length;
    double x = strtod(digits, &end);
    if (end == digits || *end != '\0') return 0;
    if (options[i].real) {
      *(double *)field = x;
    } else if (!(x >= 0 && x < (options[i].size == 4 ? 0x1p32 : 0x1p53) && x == floor(x))) {
      return 0;
    } else if (options[i].size == 4) {
      *(uint32_t *)field = (uint32_t)x;
    } else {
      *(uint64_t *)field = (uint64_t)x;
    }
    return 1;
  }
  return 0;
}

static char *parse_variant(ngx_conf_t *cf, ngx_command_t *command, void *conf) {
  split_t *split = cf->ctx;
  ngx_str_t *word = cf->args->elts, *variant = split->variants.elts;
  ngx_uint_t i;
  if (cf->args->nelts != 1) return refuse(cf, "more than one word after", word);
  for (i = 0; i < split->variants.nelts; i++, variant++) {
    if (word->len == variant->len && ngx_memcmp(word->data, variant->data, word->len) == 0) {
      return refuse(cf, "duplicate variant", word);
    }
  }
  variant = ngx_array_push(&split->variants);
  if (variant == NULL) return NGX_CONF_ERROR;
  *variant = *word;
  return NGX_CONF_OK;
}

/* The zone's name contains all variants, so that a reload that changes them begins with a new zone. */
static char *add_zone(ngx_conf_t *cf, split_t *split) {
  ngx_str_t name, *variant = split->variants.elts;
  ngx_uint_t i;
  size_t size = sizeof(table_t) + WORKERS * place_size(split);
  name.len = split->name.len + 5;
  for (i = 0; i < split->variants.nelts; i++) name.len += variant[i].len + 1;
  name.data = ngx_pnalloc(cf->pool, name.len);
  if (name.data == NULL) return NGX_CONF_ERROR;
  u_char *end = ngx_sprintf(name.data, "dpb $%V", &split->name);
  for (i = 0; i < split->variants.nelts; i++) end = ngx_sprintf(end, "%Z%V", variant + i);
  /* The slab allocator also needs some pages, and 24 bytes for each page. */
  size += size / 100 + 16 * ngx_pagesize;
  split->zone = ngx_shared_memory_add(cf, &name, size, &ngx_http_dpb_module);
  if (split->zone == NULL) return NGX_CONF_ERROR;
  split->zone->init = init_zone;
  split->zone->data = split;
  return NGX_CONF_OK;
}

/* dpb_split $variant epsilon=1 [OPTION=VALUE ...] { blue; green; } */
static char *parse_split(ngx_conf_t *cf, ngx_command_t *command, void *conf) {
  ngx_str_t *word = cf->args->elts, ticket;
  split_t *split = ngx_pcalloc(cf->pool, sizeof *split), **listed = ngx_array_push(conf);
  ngx_conf_t outer = *cf;
  dpb_bandit *bandit;
  dpb_error error;
  dpb_status status;
  char *result;
  ngx_uint_t i;
  if (split == NULL || listed == NULL) return NGX_CONF_ERROR;
  *listed = split;
  if (word[1].len < 2 || word[1].data[0] != '$') return refuse(cf, "invalid variable name", &word[1]);
  split->name.data = word[1].data + 1;
  split->name.len = word[1].len - 1;
  dpb_config_init(&split->config, 0, 0);
  split->config.pending_capacity = 16384;
  uint64_t window = 1000, memory = 0;
  int in_time = 0, ages = 0;
  for (i = 2; i < cf->args->nelts; i++) {
    if (ngx_strncmp(word[i].data, "policy=", 7) == 0) {
      split->policy = (char *)word[i].data + 7;
    } else if (!parse_span(&word[i], "window=", &window, &in_time) &&
               !parse_span(&word[i], "memory=", &memory, &ages) && !parse_option(&word[i], &split->config)) {
      return refuse(cf, "invalid option", &word[i]);
    }
  }

  if (ngx_array_init(&split->variants, cf->pool, 4, sizeof(ngx_str_t)) != NGX_OK) return NGX_CONF_ERROR;
  cf->ctx = split;
  cf->handler = parse_variant;
  result = ngx_conf_parse(cf, NULL);
  *cf = outer;
  if (result != NGX_CONF_OK) return result;

  split->config.arms = split->variants.nelts;
  if (window == 0 || window > (in_time ? UINT32_MAX : WINDOW)) {
    return refuse(cf, "window must be 1 .. 65536, or a time up to 1193h, for", &word[1]);
  }
  if (memory && in_time != ages) return refuse(cf, "window and memory must both be times, or neither, for", &word[1]);
  if (split->config.pending_capacity == 0 || split->config.pending_capacity > WINDOW) {
    return refuse(cf, "pending must be 1 .. 65536 for", &word[1]);
  }
  split->config.reward_window = (uint32_t)window;
  split->config.forget_after = memory;
  split->config.clock = in_time ? DPB_CLOCK_CALLER : DPB_CLOCK_DECISIONS;
  static const uint8_t some_key[32]; /* of this handle only */
  split->config.fleet_key = some_key;
  /* Check the configuration with a handle now. The handles that decide are made after the fork. */
  status = split->policy ? dpb_new_policy(split->policy, &split->config, &bandit, &error)
                         : dpb_new(&split->config, &bandit, &error);
  if (status != DPB_OK) {
    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "dpb_split: %s", error.message);
    return NGX_CONF_ERROR;
  }
  split->policy = dpb_policy_name(bandit); /* a static string of the library */
  status = dpb_suspend(bandit, 0, NULL, 0, &split->state_size, NULL);
  dpb_free(bandit);
  if (status != DPB_BUFFER_TOO_SMALL) return refuse(cf, "no state of", &word[1]);
  /* What it may grow by: see dpb.h. */
  split->state_size += 4096 + 512 * split->config.arms + 32 * most_open(split);

  split->snapshot = ngx_palloc(cf->pool, snapshot_size(split));
  if (split->snapshot == NULL) return NGX_CONF_ERROR;
  ticket.len = split->name.len + 7;
  ticket.data = ngx_pnalloc(cf->pool, ticket.len);
  if (ticket.data == NULL) return NGX_CONF_ERROR;
  ngx_sprintf(ticket.data, "%V_ticket", &split->name);
  split->variant = add_variable(cf, split, &split->name);
  split->ticket = add_variable(cf, split, &ticket);
  if (split->variant == NGX_ERROR || split->ticket == NGX_ERROR) return NGX_CONF_ERROR;
  return add_zone(cf, split);
}

static char *handle_with(ngx_conf_t *cf, ngx_http_handler_pt handler) {
  ngx_http_core_loc_conf_t *location = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);
  if (location->handler == handler) return "is duplicate";
  location->handler = handler;
  return NGX_CONF_OK;
}

static char *parse_status(ngx_conf_t *cf, ngx_command_t *command, void *conf) { return handle_with(cf, handle_status); }

/* dpb_statement [json]; */
static char *parse_statement(ngx_conf_t *cf, ngx_command_t *command, void *conf) {
  ngx_str_t *word = cf->args->elts;
  ngx_array_t *splits = ngx_http_conf_get_module_main_conf(cf, ngx_http_dpb_module);
  int is_json = cf->args->nelts > 1;
  if (splits->nelts == 0) return refuse(cf, "no dpb_split above", word);
  if (is_json && (word[1].len != 4 || ngx_strncmp(word[1].data, "json", 4) != 0)) {
    return refuse(cf, "invalid form", &word[1]);
  }
  ((location_t *)conf)->form = is_json ? DPB_STATEMENT_JSON : DPB_STATEMENT_PROSE;
  return handle_with(cf, handle_statement);
}

static ngx_int_t compile(ngx_conf_t *cf, ngx_str_t *text, ngx_http_complex_value_t *value) {
  ngx_http_compile_complex_value_t compiler = {.cf = cf, .value = text, .complex_value = value};
  return ngx_http_compile_complex_value(&compiler);
}

/* dpb_reward $variant TICKET [REWARD]; the last two may have variables. */
static char *parse_reward(ngx_conf_t *cf, ngx_command_t *command, void *conf) {
  location_t *reward = conf;
  ngx_array_t *splits = ngx_http_conf_get_module_main_conf(cf, ngx_http_dpb_module);
  split_t **split = splits->elts;
  ngx_str_t *word = cf->args->elts;
  ngx_uint_t i;
  if (reward->split) return "is duplicate";
  for (i = 0; i < splits->nelts; i++) {
    ngx_str_t *name = &split[i]->name;
    if (word[1].len != name->len + 1 || ngx_strncmp(word[1].data + 1, name->data, name->len) != 0) continue;
    reward->split = split[i];
  }
  if (reward->split == NULL) return refuse(cf, "no dpb_split above has the variable", &word[1]);
  if (compile(cf, &word[2], &reward->ticket) != NGX_OK) return NGX_CONF_ERROR;
  if (cf->args->nelts > 3 && compile(cf, &word[3], &reward->reward) != NGX_OK) return NGX_CONF_ERROR;
  return handle_with(cf, handle_reward);
}

/* What nginx sees. ---------------------------------------------------------------------------------------- */

static ngx_command_t commands[] = {
    {ngx_string("dpb_split"), NGX_HTTP_MAIN_CONF | NGX_CONF_BLOCK | NGX_CONF_1MORE, parse_split,
     NGX_HTTP_MAIN_CONF_OFFSET, 0, NULL},
    {ngx_string("dpb_reward"), NGX_HTTP_LOC_CONF | NGX_CONF_TAKE23, parse_reward, NGX_HTTP_LOC_CONF_OFFSET, 0, NULL},
    {ngx_string("dpb_status"), NGX_HTTP_LOC_CONF | NGX_CONF_NOARGS, parse_status, NGX_HTTP_LOC_CONF_OFFSET, 0, NULL},
    {ngx_string("dpb_statement"), NGX_HTTP_LOC_CONF | NGX_CONF_NOARGS | NGX_CONF_TAKE1, parse_statement,
     NGX_HTTP_LOC_CONF_OFFSET, 0, NULL},
    ngx_null_command};

static ngx_http_module_t context = {NULL, NULL, create_main, NULL, NULL, NULL, create_location, NULL};

ngx_module_t ngx_http_dpb_module = {
    NGX_MODULE_V1, &context, commands, NGX_HTTP_MODULE, NULL, init_module, init_process, NULL, NULL, exit_process,
    NULL, NGX_MODULE_V1_PADDING};
