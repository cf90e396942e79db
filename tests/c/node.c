/* Three nodes of a fleet on rows in memory: they join, exchange rewards and releases, and one leaves; and bad input. The
   time is this program's own. */
#include "check.h"

#define ROWS 4096
#define TEXT "dpb:{ads}:records"

typedef struct {
  uint8_t *key, *value;
  size_t key_len, len;
} row;

static row rows[ROWS];
static int broken; /* callbacks fail */

static uint8_t *copied(const uint8_t *bytes, size_t len) {
  uint8_t *copy = (uint8_t *)malloc(len + 1);
  if (len > 0) memcpy(copy, bytes, len);
  return copy;
}

/* The row with this key; or a free one, with no key. */
static row *found(const uint8_t *key, size_t key_len) {
  size_t i;
  row *unused = NULL;
  for (i = 0; i < ROWS; i++) {
    if (rows[i].key == NULL) unused = unused ? unused : &rows[i];
    else if (rows[i].key_len == key_len && memcmp(rows[i].key, key, key_len) == 0) return &rows[i];
  }
  if (unused == NULL) exit(9);
  return unused;
}

static int32_t get(void *host, const uint8_t *key, size_t key_len, const uint8_t **value, size_t *len) {
  row *at = found(key, key_len);
  CHECK(host == rows);
  *value = at->key ? at->value : NULL;
  *len = at->len;
  return broken;
}

static int32_t remove_row(void *host, const uint8_t *key, size_t key_len) {
  row *at = found(key, key_len);
  CHECK(host == rows);
  free(at->key);
  free(at->value);
  memset(at, 0, sizeof *at);
  return broken;
}

static int32_t put(void *host, const uint8_t *key, size_t key_len, const uint8_t *value, size_t len) {
  row *at;
  remove_row(host, key, key_len);
  at = found(key, key_len);
  at->key = copied(key, key_len);
  at->key_len = key_len;
  at->value = copied(value, len);
  at->len = len;
  return broken;
}

static int32_t list(void *host, const uint8_t *prefix, size_t prefix_len, dpb_each_row each, void *visit) {
  size_t i;
  CHECK(host == rows);
  for (i = 0; i < ROWS; i++)
    if (rows[i].key && rows[i].key_len >= prefix_len && memcmp(rows[i].key, prefix, prefix_len) == 0)
      each(visit, rows[i].key, rows[i].key_len, rows[i].value, rows[i].len);
  return broken;
}

static const dpb_rows store = {rows, get, put, remove_row, list};
static uint64_t now = 1;

/* Runs what is due in a lane. Returns the status of the last dpb_node_next. */
static dpb_status lane(dpb_node *node, uint32_t at) {
  static uint8_t reply[1 << 20];
  for (;;) {
    dpb_command command;
    dpb_error error;
    dpb_status status;
    size_t len = 0;
    command.struct_size = sizeof command;
    status = dpb_node_next(node, at, now, &command, &error);
    if (status != DPB_OK || command.kind == DPB_COMMAND_WAIT) return status;
    if (command.kind == DPB_COMMAND_LOG) {
      CHECK(command.text != NULL && command.script == NULL);
      continue;
    }
    CHECK(strlen(command.sha1) == 40 && strlen(command.script) > 1000 && command.timeout_ms > 0);
    CHECK(command.keys_len > 0 && command.args_len >= 3);
    CHECK(command.keys[0].len == strlen(TEXT) && memcmp(command.keys[0].bytes, TEXT, strlen(TEXT)) == 0);
    status = dpb_store_run(&store, &command, 1000000 + now, reply, sizeof reply, &len);
    if (status != DPB_OK) STATUS(dpb_node_failed(node, command.id, now, "the rows are broken"), DPB_OK);
    else STATUS(dpb_node_reply(node, command.id, now, reply, len), DPB_OK);
  }
}

/* Lets time pass. */
static void pass(dpb_node **nodes, int n, int milliseconds) {
  int i;
  for (; milliseconds > 0; milliseconds -= 25, now += 25)
    for (i = 0; i < n; i++) {
      if (nodes[i] == NULL) continue;
      (void)lane(nodes[i], DPB_LANE_ROUNDS);
      (void)lane(nodes[i], DPB_LANE_EXCHANGES);
    }
}

static dpb_node_report report(dpb_node *node) {
  dpb_node_report read;
  read.struct_size = sizeof read;
  STATUS(dpb_node_report_read(node, now, &read), DPB_OK);
  return read;
}

static dpb_node_diagnostics diagnostics(dpb_node *node) {
  dpb_node_diagnostics read;
  read.struct_size = sizeof read;
  STATUS(dpb_node_diagnostics_read(node, &read), DPB_OK);
  return read;
}

/* What tests/fuzz (`nodes::rare`) does not see. */
static void bad_input(const dpb_config *config, dpb_node *node) {
  dpb_node_options options;
  dpb_config other = *config;
  dpb_command command;
  dpb_error error;
  dpb_node *made = NULL;
  uint8_t reply[100];
  size_t len = 77;
  dpb_node_options_init(&options, "ads");
  STATUS(dpb_node_new(NULL, config, NULL, &made, &error), DPB_NULL);
  STATUS(dpb_node_new(NULL, config, &options, NULL, &error), DPB_NULL);
  STATUS(dpb_node_new("dp-se", config, &options, &made, &error), DPB_UNSUPPORTED);
  CHECK(strstr(error.message, "does not support") != NULL);
  other.epsilon = -1;
  STATUS(dpb_node_new(NULL, &other, &options, &made, &error), DPB_INVALID_CONFIG);
  CHECK(strstr(error.message, "epsilon") != NULL);
  other = *config;
  other.node = 65536;
  STATUS(dpb_node_new(NULL, &other, &options, &made, &error), DPB_INVALID_CONFIG);
  CHECK(strstr(error.message, "node must be") != NULL);
#define REFUSED(field, value)                                                        \
  do {                                                                               \
    dpb_node_options wrong = options;                                                \
    wrong.field = value;                                                             \
    STATUS(dpb_node_new(NULL, config, &wrong, &made, &error), DPB_INVALID_CONFIG);   \
    CHECK(strstr(error.message, #field) != NULL);                                    \
  } while (0)
  REFUSED(name, NULL);
  REFUSED(name, "");
  REFUSED(name, "a{b");
  REFUSED(flags, 2);
  REFUSED(interval_ms, 0);
  REFUSED(delay_ms, 0);
  REFUSED(tick_ms, 0);
  REFUSED(settle_ms, 4000000);
  REFUSED(queue, 0);
  REFUSED(send_rate, 4000000000u);
  REFUSED(snapshot_len, 7);
  REFUSED(snapshot, reply); /* the number is the store's to give */
  REFUSED(struct_size, 12);
  CHECK(made == NULL);

  command.struct_size = sizeof command;
  STATUS(dpb_node_next(node, 0, now, NULL, &error), DPB_NULL);
  STATUS(dpb_node_next(node, 2, now, &command, &error), DPB_INVALID_CONFIG);
  CHECK(strstr(error.message, "lane must be DPB_LANE_ROUNDS") != NULL);
  command.struct_size = 4;
  STATUS(dpb_node_next(node, 0, now, &command, &error), DPB_INVALID_CONFIG);
  command.struct_size = sizeof command;
  STATUS(dpb_node_reply(NULL, 1, now, reply, 1), DPB_NULL);
  STATUS(dpb_node_reply(node, 1u << 30, now, reply, 0), DPB_OK); /* of no command */
  STATUS(dpb_node_failed(node, 1u << 30, now, NULL), DPB_OK);
  STATUS(dpb_node_update(node, (uint64_t)999 << 48, 1), DPB_UNKNOWN_TICKET); /* of a node that never was */
  CHECK(dpb_node_bandit(NULL) == NULL);
  dpb_node_free(NULL);

  STATUS(dpb_node_gone("ads", 1, NULL), DPB_NULL);
  STATUS(dpb_node_gone("}", 1, &command), DPB_INVALID_CONFIG);
  STATUS(dpb_node_gone("ads", 999, &command), DPB_OK);
  CHECK(command.kind == DPB_COMMAND_LEAVE);
  STATUS(dpb_store_run(&store, NULL, 1, reply, 100, &len), DPB_NULL);
  STATUS(dpb_store_run(&store, &command, 1, NULL, 100, &len), DPB_NULL);
  STATUS(dpb_store_run(&store, &command, 1, reply, 100, NULL), DPB_NULL);
  {
    dpb_rows lacking = store;
    lacking.list = NULL;
    STATUS(dpb_store_run(&lacking, &command, 1, reply, 100, &len), DPB_NULL);
  }
  CHECK(len == 77);
  STATUS(dpb_store_run(&store, &command, 1, reply, 1, &len), DPB_BUFFER_TOO_SMALL);
  CHECK(len == 4);
  STATUS(dpb_store_run(&store, &command, 1, reply, 4, &len), DPB_OK);
  CHECK(memcmp(reply, "2:ok", 4) == 0);
  broken = 1;
  STATUS(dpb_store_run(&store, &command, 1, reply, 100, &len), DPB_NOT_READY);
  broken = 0;
  command.keys_len = 0;
  STATUS(dpb_store_run(&store, &command, 1, reply, 100, &len), DPB_NOT_READY);
  command.kind = DPB_COMMAND_WAIT;
  STATUS(dpb_store_run(&store, &command, 1, reply, 100, &len), DPB_INVALID_CONFIG);
  command.kind = DPB_COMMAND_LEAVE + 1;
  STATUS(dpb_store_run(&store, &command, 1, reply, 100, &len), DPB_INVALID_CONFIG);
}

int main(void) {
  static const uint8_t KEY[32] = {7};
  dpb_config config;
  dpb_node_options options;
  dpb_node *nodes[3];
  dpb_decision decision, last;
  dpb_command command;
  dpb_error error;
  uint8_t *snapshot;
  size_t len;
  int i, t, leaders = 0;
  dpb_config_init(&config, 3, 1);
  config.reward_window = 400;
  config.fleet_key = KEY;
  config.parts = 2; /* a click, and what is taken back */
  config.part_weights[0] = 1;
  config.part_weights[1] = -1;
  dpb_node_options_init(&options, "ads");
  for (i = 0; i < 3; i++) {
    STATUS(dpb_node_new(NULL, &config, &options, &nodes[i], &error), DPB_OK);
    CHECK(dpb_node_bandit(nodes[i]) == NULL && report(nodes[i]).state == DPB_NODE_TAKING);
    STATUS(dpb_node_update(nodes[i], 1, 1), DPB_UNKNOWN_TICKET);
    STATUS(dpb_node_update_part(nodes[i], 1, 1, 1), DPB_UNKNOWN_TICKET);
    STATUS(dpb_node_next_period(nodes[i]), DPB_NOT_READY);
  }
  pass(nodes, 3, 1000);
  bad_input(&config, nodes[0]);
  pass(nodes, 3, 19000);
  for (i = 0; i < 3; i++) {
    dpb_node_report of = report(nodes[i]);
    CHECK(of.state == DPB_NODE_SERVING && of.number == (uint32_t)i + 1 && of.incarnation == 1);
    CHECK(of.ready == 1 && of.outage == 0 && of.learns == 1 && of.nodes == 3);
    CHECK(of.released == 1 - of.leads); /* that of the leader */
    CHECK(of.leader == report(nodes[0]).leader && of.exchanges > 2 && of.age_ms < 6000);
    CHECK(of.last_error[0] == 0);
    leaders += (int)of.leads;
  }
  CHECK(leaders == 1);

  /* Every second reward comes to another node, and so does every second of what is taken back, in any order. */
  for (t = 0; t < 12000; t++) {
    dpb_node *decides = nodes[t % 3], *hears = nodes[(t + t / 3 % 2) % 3];
    STATUS(dpb_select(dpb_node_bandit(decides), &decision), DPB_OK);
    CHECK(dpb_ticket_node(decision.ticket) == t % 3 + 1);
    if (t % 4 == 0) STATUS(dpb_node_update_part(nodes[(t + t / 4 % 2) % 3], decision.ticket, 1, .25), DPB_OK);
    if (decision.arm == 1 || t % 5 == 0) STATUS(dpb_node_update(hears, decision.ticket, 1), DPB_OK);
    if (t % 10 == 0) pass(nodes, 3, 25);
  }
  pass(nodes, 3, 20000);
  for (i = 0; i < 3; i++) {
    dpb_node_diagnostics of = diagnostics(nodes[i]);
    CHECK(of.sent > 100 && of.received > 100 && of.waiting == 0 && of.unsent == 0 && of.refused == 0);
    CHECK(report(nodes[i]).contributions > 3 || report(nodes[i]).leads);
  }

  /* The node's own bandit: nobody else frees it, and nobody says what is stored. */
  dpb_free(dpb_node_bandit(nodes[0]));
  snapshot = snapshot_of(dpb_node_bandit(nodes[0]), &len);
  STATUS(dpb_stored(dpb_node_bandit(nodes[0]), snapshot, len, &error), DPB_UNSUPPORTED);
  CHECK(strstr(error.message, "dpb_stored") != NULL);
  free(snapshot);

  /* A store that fails for a while is asked again. */
  broken = 1;
  pass(nodes, 3, 1000);
  CHECK(strcmp(report(nodes[1]).last_error, "the rows are broken") == 0 && diagnostics(nodes[1]).failures > 0);
  broken = 0;
  pass(nodes, 3, 6000);
  CHECK(report(nodes[1]).ready == 1);

  /* A node leaves: another one continues with its open decisions, and their rewards count. */
  STATUS(dpb_select(dpb_node_bandit(nodes[2]), &last), DPB_OK);
  STATUS(dpb_node_leave(nodes[2], now), DPB_OK);
  pass(nodes, 3, 25000);
  CHECK(report(nodes[2]).state == DPB_NODE_LEFT);
  command.struct_size = sizeof command;
  STATUS(dpb_node_next(nodes[2], DPB_LANE_ROUNDS, now, &command, &error), DPB_HALTED);
  STATUS(dpb_node_next(nodes[2], DPB_LANE_EXCHANGES, now, &command, NULL), DPB_HALTED);
  STATUS(dpb_select(dpb_node_bandit(nodes[2]), &decision), DPB_HALTED);
  dpb_node_free(nodes[2]);
  nodes[2] = NULL;
  CHECK(report(nodes[0]).draining + report(nodes[1]).draining == 1 && report(nodes[0]).nodes == 2);
  {
    uint64_t received = diagnostics(nodes[0]).received + diagnostics(nodes[1]).received;
    STATUS(dpb_node_update(nodes[0], last.ticket, 1), DPB_OK);
    STATUS(dpb_node_update_part(nodes[0], last.ticket, 1, .25), DPB_OK);
    STATUS(dpb_node_update_part(nodes[0], last.ticket, 8, 1), DPB_INVALID_CONFIG);
    pass(nodes, 2, 6000);
    CHECK(diagnostics(nodes[0]).received + diagnostics(nodes[1]).received == received + 2);
  }

  /* A supervisor says that a process has died: the node that has its number is replaced. */
  {
    uint8_t reply[100];
    STATUS(dpb_node_gone("ads", 2, &command), DPB_OK);
    STATUS(dpb_store_run(&store, &command, 1000000 + now, reply, sizeof reply, &len), DPB_OK);
    pass(nodes, 2, 3000);
    CHECK(report(nodes[1]).state == DPB_NODE_REPLACED && report(nodes[1]).ready == 0);
    CHECK(report(nodes[1]).last_error[0] != 0);
    CHECK(report(nodes[0]).state == DPB_NODE_SERVING && report(nodes[0]).nodes == 1);
  }
  /* A snapshot from a file of this host: of another number, and of its own, which is as new as the store's. */
  {
    dpb_node_options own = options;
    dpb_config first = config;
    dpb_node *from_file[1];
    own.snapshot = snapshot = snapshot_of(dpb_node_bandit(nodes[0]), &len);
    own.snapshot_len = len;
    first.node = 7;
    STATUS(dpb_node_new(NULL, &first, &own, from_file, &error), DPB_OK);
    pass(from_file, 1, 500);
    CHECK(report(from_file[0]).state == DPB_NODE_FAILED && report(from_file[0]).last_error[0] != 0);
    dpb_node_free(from_file[0]);
    STATUS(dpb_node_leave(nodes[0], now), DPB_OK);
    pass(nodes, 1, 15000);
    dpb_node_free(nodes[0]);
    first.node = 1;
    STATUS(dpb_node_new(NULL, &first, &own, nodes, &error), DPB_OK);
    pass(nodes, 1, 1000);
    CHECK(report(nodes[0]).state == DPB_NODE_SERVING && report(nodes[0]).incarnation == 2);
    free(snapshot);
  }

  /* A node that leaves ends, whatever the store does: at once without a number, otherwise within 25 s. */
  dpb_node_free(nodes[1]);
  STATUS(dpb_node_new(NULL, &config, &options, &nodes[1], &error), DPB_OK);
  broken = 1;
  pass(nodes, 2, 1000);
  STATUS(dpb_node_leave(nodes[1], now), DPB_OK);
  STATUS(dpb_node_leave(nodes[0], now), DPB_OK);
  pass(nodes, 2, 200);
  CHECK(report(nodes[1]).state == DPB_NODE_LEFT && report(nodes[0]).state != DPB_NODE_LEFT);
  pass(nodes, 2, 24900);
  CHECK(report(nodes[0]).state == DPB_NODE_LEFT && strstr(report(nodes[0]).last_error, "is lost") != NULL);
  dpb_node_free(nodes[0]);
  dpb_node_free(nodes[1]);
  for (i = 0; i < ROWS; i++) {
    free(rows[i].key);
    free(rows[i].value);
  }
  return failures != 0;
}
