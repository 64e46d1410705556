/* From nodes whose time has come or whose state has changed to preparations: what is missing of their paths becomes
 * items of one selection under the budgets of the next slot; what is chosen becomes tasks. Nodes nobody pointed at are
 * never looked at. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/board.h"
#include "select/selector.h"

enum {
  NODES_A_TICK = 128,
  ITEMS_MAX = 512,
  PATH_NODES_MAX = 256,
  EARLY_WAKE_US = 5000000,
  CROWDED_WAKE_US = 1000000,
  NO_ROOM_WAKE_US = 10000000,
  PROMOTED_REST_US = 60000000
};

/* Least probability of an ask that a preparation is begun for (PREDICTOR section 6). */
static const double probability_min = .3;
/* A slot of the plan: work beyond it is decided later, with newer knowledge. */
static const double slot_s = 8;
struct item {
  uint32_t node, from, to; /* tokens */
  int32_t parent;          /* item, SELECTOR_NO_PARENT */
  struct worth worth;
  bool is_due;  /* a node that was looked at for its own sake */
  bool is_paid; /* some task covers it */
};

struct choosing {
  struct plan *plan;
  struct item items[ITEMS_MAX];
  uint32_t n;
  uint32_t *index; /* [notes]: node → item + 1; zeroed again after use */
};

/* Work that lies before anything new: seconds of what the executor has and of what waits for it. */
static double queued_seconds(struct plan *plan) {
  double seconds = 0;
  for (uint32_t i = 0; i < plan->n_flights + plan->n_launches; i++) {
    uint64_t id = i < plan->n_flights ? plan->flights[i] : plan->launches[i - plan->n_flights];
    const struct task_record *record = taskbook_find(plan->taskbook, id);
    if (!record) continue;
    double left = record->task.cost_seconds - record->task.spent_seconds;
    if (left > 0) seconds += left;
  }
  return seconds;
}

/* Engine time is shared with requests: idle seconds become clock seconds. */
static double clock_seconds(const struct plan *plan, double engine_s) {
  return engine_s / number_clamp(plan->load.idle_share, .1, 1, 1);
}

/* Everything lies somewhere, but part of it only on SSD: brought to RAM when it will be asked soon and there is room.
 */
static void node_promote(struct plan *plan, uint32_t node, uint32_t n_blocks) {
  uint32_t slow = 0;
  for (uint32_t i = 0; i < n_blocks; i++) slow += presence_tier(plan->presence, plan->keys[i]) == TIER_SSD;
  uint64_t bytes = (uint64_t)slow * plan->config.block_tokens * plan->config.bytes_per_token;
  uint64_t used = board_tier_bytes(plan, TIER_RAM);
  if (!slow || plan->n_promotions == PROMOTIONS_MAX || used + bytes > plan->config.budget.ram_bytes) return;
  struct forecast forecast;
  demand_forecast(plan->demand, plan->forest, node, plan->now_us, plan->config.horizons_s, 1, &forecast);
  double saved_s =
      cost_restore_seconds(plan->cost, TIER_SSD, bytes) - cost_restore_seconds(plan->cost, TIER_RAM, bytes);
  if (forecast.p_within[0] < probability_min || saved_s <= 0) return;
  const struct forest_node *at = forest_at(plan->forest, node);
  plan->promotions[plan->n_promotions++] =
      (struct action){.kind = ACTION_PROMOTE,
                      .tier = TIER_RAM,
                      .tenant = at->tenant,
                      .material = at->pass_material,
                      .tokens = forest_tokens(plan->forest, node),
                      .value = forecast.p_within[0] * saved_s * board_saved_second_usd(plan)};
  plan->notes[node].rest_until_us = plan->now_us + PROMOTED_REST_US;
}

static uint32_t item_add(struct choosing *choosing, uint32_t node, uint32_t from, int32_t parent) {
  uint32_t place = choosing->n++;
  choosing->items[place] =
      (struct item){.node = node, .from = from, .to = forest_tokens(choosing->plan->forest, node), .parent = parent};
  choosing->index[node] = place + 1;
  return place;
}

/* Adds the absent part of the node's path, from the root down. */
static void node_add(struct choosing *choosing, uint32_t node, uint32_t matched_tokens, double queued_s) {
  struct plan *plan = choosing->plan;
  uint32_t path[PATH_NODES_MAX], n = 0;
  for (uint32_t up = node; up != FOREST_NONE && forest_tokens(plan->forest, up) > matched_tokens;
       up = forest_at(plan->forest, up)->parent) {
    if (n == PATH_NODES_MAX) return;
    path[n++] = up;
  }
  if (!n || choosing->n + n > ITEMS_MAX) {
    observe_wake(plan, node, plan->now_us + CROWDED_WAKE_US);
    return;
  }
  double work_s = queued_s;
  int32_t parent = SELECTOR_NO_PARENT;
  for (uint32_t i = n; i-- > 0;) {
    uint32_t depth = forest_at(plan->forest, path[i])->depth_blocks * plan->config.block_tokens;
    uint32_t from = depth > matched_tokens ? depth : matched_tokens, place = choosing->index[path[i]];
    bool is_new = !place;
    place = is_new ? item_add(choosing, path[i], from, parent) : place - 1;
    struct item *item = &choosing->items[place];
    work_s += cost_prefill_segment_seconds(plan->cost, item->to - item->from, item->from);
    if (is_new) worth_of_node(plan, path[i], item->from, item->to, clock_seconds(plan, work_s), &item->worth);
    parent = (int32_t)place;
  }
  struct item *item = &choosing->items[parent];
  item->is_due = true;
  uint32_t tokens = plan->notes[node].tokens;
  if (tokens > item->to && tokens < item->to + plan->config.block_tokens) item->to = tokens;
}

/* Whether there is a reason to expect exactly this prefix again: a conversation that goes on here, a document, a head,
 * a branching, a whole prompt that came back, or somebody's word. The end of some prompt is none. */
static bool node_has_reason(const struct forest_node *at, const struct note *note) {
  return note->session || at->documents || at->heads || at->n_children >= 2 || at->repeats || at->pins;
}

static void node_consider(struct choosing *choosing, uint32_t node, double queued_s) {
  struct plan *plan = choosing->plan;
  const struct forest_node *at = forest_at(plan->forest, node);
  if (!at) return;
  struct note *note = &plan->notes[node];
  if (note->rest_until_us > plan->now_us) {
    observe_wake(plan, node, note->rest_until_us);
    return;
  }
  const struct task_record *open = taskbook_find(plan->taskbook, note->task);
  bool is_begun = open && (open->task.state != TASK_PLANNED || open->booked_seconds > 0);
  bool may_prepare =
      (at->may_prepare || at->last_us == 0) && !note->is_unwanted && note->has_tokens && at->pass_material;
  if (is_begun || !may_prepare || !node_has_reason(at, note)) return;
  uint32_t n = board_prefix(plan, node);
  if (!n || map_get(plan->task_ends, plan->keys[n - 1], NULL)) return;
  uint32_t matched = presence_match(plan->presence, plan->keys, n, TIER_SSD);
  if (matched == n) {
    node_promote(plan, node, n);
    return;
  }
  node_add(choosing, node, matched * plan->config.block_tokens, queued_s);
}

static void nodes_gather(struct choosing *choosing) {
  struct plan *plan = choosing->plan;
  double queued_s = queued_seconds(plan);
  uint32_t node, looked = 0;
  double due_us;
  while (looked++ < NODES_A_TICK && heap_peek(plan->wakes, &node, &due_us) && due_us <= (double)plan->now_us) {
    heap_remove(plan->wakes, node);
    node_consider(choosing, node, queued_s);
  }
  looked = 0;
  while (looked++ < NODES_A_TICK && demand_pop_due(plan->demand, plan->forest, plan->now_us, &node)) {
    node_consider(choosing, node, queued_s);
  }
}

/* An ancestor is asked for whenever its child is. */
static void items_reconcile(struct choosing *choosing) {
  double w = board_saved_second_usd(choosing->plan);
  for (uint32_t i = choosing->n; i-- > 0;) {
    const struct item *item = &choosing->items[i];
    if (item->parent < 0) continue;
    struct worth *above = &choosing->items[item->parent].worth;
    if (above->probability >= item->worth.probability) continue;
    uint64_t bytes = (uint64_t)(choosing->items[item->parent].to - choosing->items[item->parent].from) *
                     choosing->plan->config.bytes_per_token;
    double saved_s = above->cost_seconds - cost_restore_bytes_seconds(choosing->plan->cost, TIER_RAM, bytes);
    if (saved_s < 0) saved_s = 0;
    double more = item->worth.probability - above->probability;
    above->probability = item->worth.probability;
    above->predicted_seconds += more * saved_s;
    above->value_usd += more * saved_s * w;
    if (above->life_s < item->worth.life_s) above->life_s = item->worth.life_s;
    above->tier = TIER_RAM;
  }
}

/* Whether the item may be begun now; what may not is worth nothing in this slot. */
static bool item_is_open(struct choosing *choosing, const struct item *item) {
  if (item->worth.is_early) {
    observe_wake(choosing->plan, item->node, choosing->plan->now_us + EARLY_WAKE_US);
    return false;
  }
  return item->worth.tier != TIER_NONE && item->worth.probability >= probability_min;
}

/* Of the engine's sequences, one may hold what RAM does not take. */
static double sequence_bytes(const struct plan *plan) {
  return plan->config.sequences < 2 ? 0 : (double)plan->config.budget.device_bytes / plan->config.sequences;
}

enum { ROW_SECONDS = 0, ROW_UNPROVEN, ROW_ACCOUNT, ROWS };

/* choice[n]: 1 where the item is taken. */
static bool items_select(struct choosing *choosing, uint8_t *choice) {
  struct plan *plan = choosing->plan;
  uint32_t n = choosing->n;
  int32_t parent[ITEMS_MAX];
  double value[ITEMS_MAX], seconds[ITEMS_MAX], bytes[ITEMS_MAX], account[ITEMS_MAX], path_s[ITEMS_MAX], longest_s = 0;
  for (uint32_t i = 0; i < n; i++) {
    const struct item *item = &choosing->items[i];
    parent[i] = item->parent;
    value[i] = item_is_open(choosing, item) ? item->worth.value_usd : -item->worth.cost_seconds;
    seconds[i] = item->worth.cost_seconds;
    account[i] = item->worth.cost_seconds * TASK_BOOKING_MARGIN;
    bytes[i] = (double)(item->to - item->from) * (double)plan->config.bytes_per_token;
    path_s[i] = seconds[i] + (item->parent >= 0 ? path_s[item->parent] : 0);
    if (value[i] > 0 && path_s[i] > longest_s) longest_s = path_s[i];
  }
  struct selector_problem problem = {.n_nodes = n, .n_tiers = 1, .n_rows = ROWS, .parent = parent};
  problem.value[0] = value;
  problem.weight[0][ROW_SECONDS] = seconds;
  problem.weight[0][ROW_UNPROVEN] = bytes;
  problem.weight[0][ROW_ACCOUNT] = account;
  /* Work can be interrupted at any time, so that a single item longer than the slot may begin in it. */
  problem.budget[ROW_SECONDS] = longest_s > slot_s ? longest_s : slot_s;
  problem.budget[ROW_UNPROVEN] = room_unproven_left(plan) + sequence_bytes(plan);
  problem.budget[ROW_ACCOUNT] = plan->spending.balance;
  struct selector_result result = {.choice = choice};
  if (selector_solve(selector_find("macro"), &problem, NULL, &result) != STATUS_OK) return false;
  plan->second_usd = result.multiplier[ROW_SECONDS] + result.multiplier[ROW_ACCOUNT];
  return result.n_chosen > 0;
}

/* Adds the taken ancestors that nothing pays for yet to what the leaf-most item costs and brings. */
static struct task_spec spec_of_path(struct choosing *choosing, uint32_t leaf) {
  struct plan *plan = choosing->plan;
  const struct item *item = &choosing->items[leaf];
  const struct forest_node *at = forest_at(plan->forest, item->node);
  struct task_spec spec = {.kind = valuation_kind(plan, item->node),
                           .tenant = at->tenant,
                           .tier = TIER_RAM,
                           .tokens = item->to,
                           .material = at->pass_material,
                           .node = item->node,
                           .probability = item->worth.probability,
                           .expires_us = plan->now_us + (uint64_t)(item->worth.life_s * 1e6)};
  for (int32_t i = (int32_t)leaf; i >= 0; i = choosing->items[i].parent) {
    struct item *part = &choosing->items[i];
    if (part->is_paid) continue;
    part->is_paid = true;
    spec.tokens_new += part->to - part->from;
    spec.cost_seconds += part->worth.cost_seconds;
    spec.predicted_seconds += part->worth.predicted_seconds;
    spec.value_usd += part->worth.value_usd;
  }
  /* Worst case: every token that has to leave for it would have been asked for, and has to be computed again. */
  uint64_t bytes = (uint64_t)spec.tokens_new * plan->config.bytes_per_token;
  bool is_full = board_tier_bytes(plan, TIER_RAM) + bytes > plan->config.budget.ram_bytes;
  if (is_full) spec.displaced_seconds = spec.cost_seconds;
  return spec;
}

static void record_explain(struct task_record *record, const struct plan *plan, uint32_t depth) {
  const struct task *task = &record->task;
  double life_s = task->tier == TIER_DEVICE ? plan->config.horizons_s[0] : valuation_residence_s(plan);
  snprintf(record->task.reason, sizeof record->task.reason,
           "asked within %.0f s with p %.2f: to %s, saves %.2f s for %.2f s of %u tokens behind %u, worth %.2g USD",
           life_s, task->probability, tier_name(task->tier), task->predicted_seconds, task->cost_seconds,
           task->tokens_new, depth, record->value_usd);
}

/* A record that a user's document made before it was worth anything, else a new one. */
static struct task_record *record_for(struct plan *plan, const struct task_spec *spec) {
  struct task_record *record = taskbook_find(plan->taskbook, plan->notes[spec->node].task);
  if (record && record->task.state == TASK_PLANNED) {
    task_plan(plan, record, spec);
    return record;
  }
  return task_create(plan, spec, &record) == STATUS_OK ? record : NULL;
}

/* RAM has no room for it, but it will be asked for so soon that the engine's own sequence can hold it until then. */
static bool spec_move_to_device(struct plan *plan, struct task_spec *spec) {
  if ((double)spec->tokens * (double)plan->config.bytes_per_token > sequence_bytes(plan)) return false;
  struct forecast forecast;
  demand_forecast(plan->demand, plan->forest, spec->node, plan->now_us, plan->config.horizons_s, 1, &forecast);
  double probability = forecast.p_within[0] * task_yield(plan, spec->kind);
  if (probability < probability_min) return false;
  double shrink = spec->probability > 0 ? probability / spec->probability : 0;
  spec->tier = TIER_DEVICE;
  spec->predicted_seconds *= shrink;
  spec->value_usd *= shrink;
  spec->probability = probability;
  spec->displaced_seconds = 0;
  spec->expires_us = plan->now_us + (uint64_t)(plan->config.horizons_s[0] * 1e6);
  return true;
}

static void path_begin(struct choosing *choosing, uint32_t leaf) {
  struct plan *plan = choosing->plan;
  struct task_spec spec = spec_of_path(choosing, leaf);
  spec.n_blocks = board_prefix(plan, spec.node);
  spec.keys = plan->keys;
  if (!spec.n_blocks || spec.cost_seconds <= 0) return;
  uint64_t units[HOLDOUT_PATH_MAX];
  uint32_t n_units = valuation_units(plan, spec.node, units);
  struct holdout_verdict verdict = holdout_draw(plan->holdout, units, n_units, plan->now_us);
  if (!verdict.is_withheld && plan->n_launches - plan->n_order_launches + plan->n_flights >= SPECULATIVE_FLIGHTS_MAX) {
    observe_wake(plan, spec.node, plan->now_us + CROWDED_WAKE_US);
    return;
  }
  uint64_t bytes = (uint64_t)spec.tokens_new * plan->config.bytes_per_token;
  bool fits_ram = (double)bytes <= room_unproven_left(plan) && room_is_likely(plan, bytes, spec.value_usd);
  if (!fits_ram && !spec_move_to_device(plan, &spec)) {
    observe_wake(plan, spec.node, plan->now_us + NO_ROOM_WAKE_US);
    return;
  }
  if (!verdict.is_withheld && !task_is_covered(plan, &spec)) {
    observe_wake(plan, spec.node, plan->now_us + NO_ROOM_WAKE_US);
    return;
  }
  struct task_record *record = record_for(plan, &spec);
  if (!record) return;
  record_explain(record, plan, spec.tokens - spec.tokens_new);
  /* Not scored when too many are open: the verdict stands all the same. */
  (void)!holdout_plan(plan->holdout, units[n_units - 1], verdict, spec.predicted_seconds, plan->now_us);
  if (verdict.is_withheld) {
    uint32_t node = spec.node;
    task_move(plan, record, TASK_WITHHELD, NULL);
    plan->notes[node].rest_until_us = plan->now_us + (uint64_t)(plan->config.horizons_s[2] * 1e6);
    return;
  }
  if (!task_launch(plan, record)) task_move(plan, record, TASK_CANCELLED, "the spending account does not cover it");
}

static void paths_begin(struct choosing *choosing, const uint8_t *choice) {
  bool has_chosen_child[ITEMS_MAX] = {false};
  for (uint32_t i = 0; i < choosing->n; i++) {
    if (choice[i] && choosing->items[i].parent >= 0) has_chosen_child[choosing->items[i].parent] = true;
  }
  for (;;) { /* most valuable first; of equal ones the one found first */
    uint32_t best = choosing->n;
    for (uint32_t i = 0; i < choosing->n; i++) {
      if (!choice[i] || has_chosen_child[i] || choosing->items[i].is_paid) continue;
      bool is_better =
          best == choosing->n || choosing->items[i].worth.value_usd > choosing->items[best].worth.value_usd;
      if (is_better) best = i;
    }
    if (best == choosing->n) return;
    path_begin(choosing, best);
    choosing->items[best].is_paid = true;
  }
}

/* What was due and was not taken, though it would pay, is looked at again when the slot is over. */
static void items_leave(struct choosing *choosing, const uint8_t *choice) {
  for (uint32_t i = 0; i < choosing->n; i++) {
    const struct item *item = &choosing->items[i];
    choosing->index[item->node] = 0;
    bool would_pay = item->worth.value_usd > 0 && item->worth.probability >= probability_min;
    if (item->is_due && !choice[i] && would_pay) {
      observe_wake(choosing->plan, item->node, choosing->plan->now_us + (uint64_t)(slot_s * 1e6));
    }
  }
}

void candidates_choose(struct plan *plan) {
  struct choosing *choosing = malloc(sizeof *choosing);
  if (!choosing) return; /* nothing is begun in this tick; what is due stays due */
  choosing->plan = plan;
  choosing->n = 0;
  choosing->index = plan->items;
  nodes_gather(choosing);
  if (choosing->n) {
    uint8_t choice[ITEMS_MAX] = {0};
    items_reconcile(choosing);
    if (items_select(choosing, choice)) paths_begin(choosing, choice);
    items_leave(choosing, choice);
  }
  free(choosing);
}
