/* A conversation goes on: the next turn of a session asks for what the last one left behind. Whether and after how long
 * depends on how the turn ended (a tool call comes back by machine, an answer by a human) and on how many turns there
 * were; each such case has a curve of its own that leans on the one of its stop reason. */
#include <stdlib.h>

#include "base/map.h"
#include "base/number.h"
#include "demand/forecaster.h"
#include "demand/span.h"
#include "demand/tally.h"
#include "demand/waiting.h"
#include "prefix/row.h"

/* How the turn ended, as far as it matters. UNENDED: it has not, or nobody said so. */
enum ending { ENDING_HUMAN = 0, ENDING_TOOL, ENDING_BROKEN, ENDING_UNENDED, ENDINGS };
enum { TURN_GROUPS = 4, CURVES = ENDINGS * TURN_GROUPS + ENDINGS };

#define POOL_STRENGTH 8. /* waits that a stop reason's curve counts for against one of its turn groups */

struct continuation {
  struct waiting_room *room;     /* two waits a session, from its ask and from its end; note is the turn */
  struct tally matches[ENDINGS]; /* that a next turn asked for the node that was waiting for it */
  uint32_t nodes_max;
};

static enum ending ending_of(enum stop_reason stop) {
  switch (stop) {
  case STOP_END_TURN:
  case STOP_LENGTH:
  case STOP_SEQUENCE:
    return ENDING_HUMAN;
  case STOP_TOOL_CALL:
    return ENDING_TOOL;
  case STOP_ABORTED:
  case STOP_ERROR:
    return ENDING_BROKEN;
  case STOP_NONE:
    break;
  }
  return ENDING_UNENDED;
}

static uint16_t curve_of(enum ending ending, uint32_t turn) {
  uint32_t group = turn <= 1 ? 0 : turn == 2 ? 1 : turn <= 5 ? 2 : 3;
  return (uint16_t)((uint32_t)ending * TURN_GROUPS + group);
}

static uint16_t pool_of(uint32_t curve) {
  return (uint16_t)(ENDINGS * TURN_GROUPS + curve / TURN_GROUPS);
}

/* The wait that began with the session's last ask goes on beside the one that began with its end: that a turn ends says
 * nothing of whether the next one comes. */
static uint64_t name_unended(uint64_t session) {
  return map_key_of(session).hi | 1;
}

static void continuation_destroy(void *state) {
  struct continuation *it = state;
  if (!it) return;
  waiting_room_destroy(&it->room);
  free(it);
}

static enum status continuation_create(const struct demand_config *config, void **ret_state) {
  /* Share that ever comes, median and spread before anything is known: humans 20 to 200 s, agents' tools seconds. */
  static const double prior[ENDINGS][3] = {{.75, 90, 1.6}, {.98, 9, 1.5}, {.5, 30, 1.6}, {.7, 90, 1.7}};
  uint16_t pools[CURVES];
  for (uint32_t i = 0; i < CURVES; i++) pools[i] = i < ENDINGS * TURN_GROUPS ? pool_of(i) : CURVES;
  struct continuation *it = calloc(1, sizeof *it);
  if (!it) return STATUS_NO_MEMORY;
  it->nodes_max = config->nodes_max;
  enum status status = waiting_room_create(2 * config->sessions_max, config->nodes_max, CURVES, pools, &it->room);
  if (status != STATUS_OK) {
    free(it);
    return status;
  }
  for (uint32_t i = 0; i < ENDINGS; i++) {
    waiting_curve_init(waiting_room_curve(it->room, ENDINGS * TURN_GROUPS + i), prior[i][0], prior[i][1], prior[i][2],
                       6);
  }
  *ret_state = it;
  return STATUS_OK;
}

static void continuation_update(void *state, uint64_t now_us) {
  waiting_advance(((struct continuation *)state)->room, now_us);
}

static bool path_has(const struct forest_path *path, uint32_t node) {
  for (uint32_t i = path->n_nodes; i-- > 0;) {
    if (path->nodes[i] == node) return true;
  }
  return false;
}

/* The session has asked again: for a later turn, or for the same one anew. */
static void end_wait(struct continuation *it, uint64_t name, uint32_t turn, const struct forest_path *path) {
  const struct wait *wait = waiting_named(it->room, name);
  if (!wait) return;
  if (turn <= wait->note) {
    waiting_drop(it->room, name);
    return;
  }
  if (wait->node) tally_add(&it->matches[wait->curve / TURN_GROUPS], path_has(path, wait->node));
  waiting_came(it->room, name);
}

static void continuation_observe(void *state, const struct forest *forest, const struct ask *ask,
                                 const struct forest_path *path) {
  struct continuation *it = state;
  (void)forest;
  if (!ask->session) return;
  end_wait(it, ask->session, ask->turn, path);
  end_wait(it, name_unended(ask->session), ask->turn, path);
  if (path->end == FOREST_NONE) return;
  waiting_begin(it->room, name_unended(ask->session), path->end, curve_of(ENDING_UNENDED, ask->turn), ask->turn,
                ask->at_us, true);
}

static void continuation_outcome(void *state, const struct forest *forest, const struct demand_turn *turn) {
  struct continuation *it = state;
  if (!turn->session) return;
  const struct wait *wait = waiting_named(it->room, name_unended(turn->session));
  if (wait && wait->note > turn->turn) return; /* the next turn did not wait for the end of this one */
  uint32_t node = turn->next != FOREST_NONE ? turn->next : wait ? wait->node : FOREST_NONE;
  if (!forest_at(forest, node)) return;
  enum ending ending = turn->stop == STOP_NONE ? ENDING_HUMAN : ending_of(turn->stop);
  waiting_begin(it->room, turn->session, node, curve_of(ending, turn->turn), turn->turn, turn->at_us, true);
}

static void continuation_forget(void *state, uint32_t node) {
  waiting_forget(((struct continuation *)state)->room, node);
}

/* What the node waits for: its own wait, or, where one session alone ever passed, that session's: its next turn passes
 * here too. */
static const struct wait *wait_of(const struct continuation *it, const struct forest *forest, uint32_t node) {
  const struct wait *wait = waiting_at(it->room, node);
  const struct forest_node *row = forest_at(forest, node);
  bool is_of_one = row->session_bits && (row->session_bits & (row->session_bits - 1)) == 0;
  if (wait || !is_of_one) return wait;
  wait = waiting_named(it->room, row->pass_session);
  return wait ? wait : waiting_named(it->room, name_unended(row->pass_session));
}

static bool continuation_forecast(const void *state, const struct forest *forest, uint32_t node, uint64_t now_us,
                                  const double *horizons_s, uint32_t n, struct forecaster_view *ret) {
  const struct continuation *it = state;
  const struct wait *wait = wait_of(it, forest, node);
  if (!wait) return false;
  waiting_within(waiting_room_see(it->room, wait->curve), waiting_room_see(it->room, pool_of(wait->curve)),
                 POOL_STRENGTH, span_s(wait->since_us, now_us), horizons_s, n, ret->p_within);
  double match = tally_share(&it->matches[wait->curve / TURN_GROUPS], 9, 1);
  for (uint32_t i = 0; i < n; i++) ret->p_within[i] *= match;
  ret->asks = ret->p_within[n - 1];
  return true;
}

/* Half as long again as it has waited: the curve is even over log time. */
static uint64_t continuation_due(const void *state, const struct forest *forest, uint32_t node, uint64_t now_us) {
  const struct continuation *it = state;
  const struct wait *wait = wait_of(it, forest, node);
  if (!wait) return UINT64_MAX;
  double step_s = number_clamp(span_s(wait->since_us, now_us) / 2, 5, 86400, 86400);
  return now_us + (uint64_t)(step_s * 1e6);
}

static size_t continuation_bytes(const void *state) {
  const struct continuation *it = state;
  return sizeof *it + waiting_room_bytes(it->room);
}

static bool continuation_save(const void *state, const struct forest *forest, bool (*row)(void *ctx, const char *text),
                              void *ctx) {
  const struct continuation *it = state;
  struct row line;
  for (uint32_t i = 0; i < CURVES; i++) {
    row_begin(&line, "curve");
    row_put(&line, i);
    waiting_curve_put(&line, waiting_room_see(it->room, i));
    if (!row(ctx, line.text)) return false;
  }
  row_begin(&line, "matches");
  for (uint32_t i = 0; i < ENDINGS; i++) {
    row_put_double(&line, it->matches[i].yes);
    row_put_double(&line, it->matches[i].no);
  }
  if (!row(ctx, line.text)) return false;
  for (const struct wait *wait = waiting_next(it->room, NULL); wait; wait = waiting_next(it->room, wait)) {
    if (!forest_at(forest, wait->node)) continue;
    row_begin(&line, "wait");
    row_put(&line, wait->name);
    row_put_key(&line, forest_end_key(forest, wait->node));
    row_put(&line, wait->curve);
    row_put(&line, wait->note);
    row_put(&line, wait->since_us);
    if (!row(ctx, line.text)) return false;
  }
  return true;
}

static enum status load_curve(struct continuation *it, const char *text) {
  uint64_t i;
  struct waiting_curve curve;
  if (!row_take(&text, CURVES - 1, &i) || !waiting_curve_take(&text, &curve) || !row_is_over(text)) {
    return STATUS_INVALID;
  }
  *waiting_room_curve(it->room, (uint32_t)i) = curve;
  return STATUS_OK;
}

static enum status load_matches(struct continuation *it, const char *text) {
  struct tally matches[ENDINGS];
  for (uint32_t i = 0; i < ENDINGS; i++) {
    if (!row_take_amount(&text, TALLY_MAX, &matches[i].yes) || !row_take_amount(&text, TALLY_MAX, &matches[i].no))
      return STATUS_INVALID;
  }
  if (!row_is_over(text)) return STATUS_INVALID;
  for (uint32_t i = 0; i < ENDINGS; i++) it->matches[i] = matches[i];
  return STATUS_OK;
}

static enum status load_wait(struct continuation *it, const struct forest *forest, const char *text) {
  uint64_t name, curve, since_us;
  uint32_t turn;
  block_key end;
  if (!row_take(&text, UINT64_MAX, &name) || !row_take_key(&text, &end) ||
      !row_take(&text, ENDINGS * TURN_GROUPS - 1, &curve) || !row_take_u32(&text, &turn) ||
      !row_take(&text, UINT64_MAX / 4, &since_us) || !row_is_over(text) || name == 0) {
    return STATUS_INVALID;
  }
  uint32_t node = forest_ending_in(forest, end);
  if (node != FOREST_NONE && node <= it->nodes_max) {
    waiting_begin(it->room, name, node, (uint16_t)curve, turn, since_us, false);
  }
  return STATUS_OK;
}

static enum status continuation_load(void *state, const struct forest *forest, const char *text) {
  if (row_take_word(&text, "curve")) return load_curve(state, text);
  if (row_take_word(&text, "matches")) return load_matches(state, text);
  if (row_take_word(&text, "wait")) return load_wait(state, forest, text);
  return STATUS_INVALID;
}

const struct forecaster_ops forecaster_continuation = {
    .name = "continuation",
    .prior_weight = 4,
    .create = continuation_create,
    .destroy = continuation_destroy,
    .observe = continuation_observe,
    .outcome = continuation_outcome,
    .forget = continuation_forget,
    .update = continuation_update,
    .forecast = continuation_forecast,
    .due = continuation_due,
    .bytes = continuation_bytes,
    .save = continuation_save,
    .load = continuation_load,
};
