/* Events in: asks, outcomes, segments, samples. Everything that is learned from traffic is learned here. */
#include <stdlib.h>
#include <string.h>

#include "plan/board.h"

enum { DEMOTE_ASKS = 2, DEMOTE_TURN = 2, EVICTION_WAKE_US = 2000000 };

/* Of foreground seconds, and of the seconds that reuse of any kind saved: what speculation may risk. On traffic in
 * which nothing comes back the second part is zero, and speculation stays below the first. */
static const double earned_of_foreground = .04, earned_of_reuse = .2;

void observe_wake(struct plan *plan, uint32_t node, uint64_t due_us) {
  struct note *note = &plan->notes[node];
  if (heap_contains(plan->wakes, node) && note->wake_us <= due_us) return;
  if (heap_set(plan->wakes, node, (double)due_us) == STATUS_OK) note->wake_us = due_us;
}

void observe_split(void *ctx, uint32_t upper, uint32_t lower) {
  struct plan *plan = ctx;
  plan->notes[upper] = (struct note){.has_tokens = plan->notes[lower].has_tokens};
  demand_split(plan->demand, upper, lower);
}

void observe_materials(struct plan *plan, const struct forest_path *path) {
  for (uint32_t i = 0; i < path->n_nodes; i++) plan->notes[path->nodes[i]].has_tokens = true;
}

void observe_prune(void *ctx, uint32_t node) {
  struct plan *plan = ctx;
  struct task_record *record = taskbook_find(plan->taskbook, plan->notes[node].task);
  if (record) {
    record->node = FOREST_NONE;
    if (record->task.state == TASK_PLANNED && !record->task.is_order) {
      task_move(plan, record, TASK_CANCELLED, "its prefix was forgotten: too many others were asked for");
    }
  }
  heap_remove(plan->wakes, node);
  plan->notes[node] = (struct note){0};
  demand_forget(plan->demand, node);
}

static void block_gone(struct plan *plan, block_key key) {
  accounts_block_gone(plan->accounts, key);
  uint64_t id;
  if (map_get(plan->task_ends, key, &id)) {
    struct task_record *record = taskbook_find(plan->taskbook, id);
    if (record && record->task.state == TASK_READY) {
      task_move(plan, record, TASK_EVICTED, "displaced before anybody asked for it");
    }
  }
  uint32_t node = forest_ending_in(plan->forest, key);
  if (node != FOREST_NONE) observe_wake(plan, node, plan->now_us + EVICTION_WAKE_US);
}

void observe_gone(struct plan *plan) {
  for (uint32_t i = 0; i < plan->n_gone; i++) {
    bool is_gone = map_remove(plan->leaving, plan->gone[i], NULL);
    if (is_gone && presence_tier(plan->presence, plan->gone[i]) == TIER_NONE) block_gone(plan, plan->gone[i]);
  }
  plan->n_gone = 0;
}

/* Whether the preparation that the segment names is still at work on this block: what lies behind its prefix, or came
 * after it, was computed by others. */
static bool task_computed(const struct plan *plan, const struct held_segment *segment, block_key key) {
  const struct task_record *record = taskbook_read(plan->taskbook, segment->task);
  if (!record || task_record_has_ended(record)) return false;
  uint32_t first = segment->from / plan->config.block_tokens;
  for (uint32_t i = 0; i < segment->n_blocks && first + i < record->n_blocks; i++) {
    if (block_key_equal(segment->keys[i], key)) return block_key_equal(record->keys[first + i], key);
  }
  return false;
}

void observe_presence(void *ctx, const struct held_segment *segment, block_key key, bool is_held) {
  struct plan *plan = ctx;
  if (is_held) {
    /* A state that moves may be told as gone from one place before it is told as present in the next. */
    if (map_remove(plan->leaving, key, NULL)) return;
    if (task_computed(plan, segment, key)) (void)!accounts_block_prepared(plan->accounts, segment->task, key);
    return;
  }
  if (plan->n_gone == GONE_MAX) observe_gone(plan);
  if (map_set(plan->leaving, key, 1) == STATUS_OK) {
    plan->gone[plan->n_gone++] = key;
  } else {
    block_gone(plan, key);
  }
}

/* The account that a request is booked under. */
static enum kind kind_of_ask(const struct ask *ask, const struct forest_path *path) {
  if (ask->turn >= 2) return KIND_CONVERSATION;
  if (ask->document_tokens > 0) return KIND_DOCUMENT;
  if (path->is_repeat) return KIND_COMPLETE;
  return ask->head_tokens > 0 ? KIND_SHARED : KIND_COMPLETE;
}

static uint64_t unit_of_node(const struct plan *plan, uint32_t node) {
  return forest_at(plan->forest, node) ? forest_end_key(plan->forest, node).lo : 0;
}

/* Open preparations of prefixes of this prompt: what is not finished will not be in time. */
static void ask_overtake(struct plan *plan, const struct ask *ask) {
  for (uint32_t i = 0; i < ask->n_blocks; i++) {
    uint64_t id;
    if (!map_get(plan->task_ends, ask->keys[i], &id)) continue;
    struct task_record *record = taskbook_find(plan->taskbook, id);
    if (record) task_overtake(plan, record);
  }
}

/* What the request is about to use becomes most recent before room is made for the rest of it. */
static void ask_touch(struct plan *plan, const struct ask *ask) {
  for (uint32_t i = ask->n_blocks; i-- > 0;) {
    const struct held_segment *segment = presence_ending_in(plan->presence, ask->keys[i]);
    if (!segment) continue;
    retention_touch(plan->retention, segment->id, plan->now_us);
    return;
  }
}

static void ask_learn(struct plan *plan, const struct ask *ask, struct forest_path *path) {
  if (forest_insert(plan->forest, ask, path) != STATUS_OK) {
    *path = (struct forest_path){0};
    return;
  }
  demand_observe(plan->demand, plan->forest, ask, path);
  observe_materials(plan, path);
  if (path->end != FOREST_NONE) plan->notes[path->end].tokens = ask->prompt_tokens;
  for (uint32_t i = 0; ask->session && i < path->n_nodes; i++) { /* the turn that was waited for has come */
    struct note *note = &plan->notes[path->nodes[i]];
    if (note->session == ask->session) note->session = 0;
  }
}

enum status plan_ask(struct plan *plan, const struct ask *ask) {
  board_advance(plan, ask->at_us);
  if (!ask->request || ask->n_blocks > ask->prompt_tokens / plan->config.block_tokens ||
      (ask->n_blocks && !ask->keys)) {
    return STATUS_INVALID;
  }
  plan->n_asks++;
  struct ask told = *ask;
  told.at_us = plan->now_us;
  struct forest_path path = {0};
  if (ask->may_learn && ask->n_blocks) ask_learn(plan, &told, &path);
  workload_ask(plan, &told);
  enum status status = rivals_ask(plan->rivals, &told);
  if (status != STATUS_OK) return status;
  if (ask->may_learn) {
    uint32_t n_units;
    const block_key *units = room_units(plan, ask->keys, ask->n_blocks, 0, &n_units);
    status = retention_arrival(plan->retention, ask->request, units, n_units);
    if (status != STATUS_OK) return status;
    ask_touch(plan, ask);
  }
  struct accounts_arrival arrival = {.request = ask->request,
                                     .tenant = ask->tenant,
                                     .kind = kind_of_ask(ask, &path),
                                     .prompt_tokens = ask->prompt_tokens,
                                     .n_blocks = ask->n_blocks,
                                     .keys = ask->keys};
  status = accounts_arrive(plan->accounts, &arrival);
  if (status != STATUS_OK) return status;
  struct docket_entry entry = {.request = ask->request,
                               .session = ask->session,
                               .at_us = plan->now_us,
                               .tenant = ask->tenant,
                               .turn = ask->turn,
                               .prompt_tokens = ask->prompt_tokens,
                               .kind = arrival.kind,
                               .may_learn = ask->may_learn,
                               .may_prepare = ask->may_prepare};
  entry.units[0] = unit_of_node(plan, path.head);
  entry.units[1] = unit_of_node(plan, path.document);
  entry.units[2] = unit_of_node(plan, path.end);
  entry.units[3] = ask->session;
  ask_overtake(plan, ask);
  uint64_t pushed_out;
  status = docket_add(plan->docket, &entry, &pushed_out);
  if (pushed_out) retention_settle(plan->retention, pushed_out);
  return status;
}

static void segment_wants_ssd(struct plan *plan, struct held_segment *segment) {
  if (segment->is_wanted_on_ssd || !plan->config.budget.ssd_bytes) return;
  segment->is_wanted_on_ssd = true;
  if (segment->bytes[TIER_SSD] || !segment->bytes[TIER_RAM] || plan->n_demotions == DEMOTIONS_MAX) return;
  plan->demotions[(plan->first_demotion + plan->n_demotions++) % DEMOTIONS_MAX] = segment->id;
}

/* Segments on the request's path: who was served from them, and with them what deserves the SSD. */
static void outcome_touch(struct plan *plan, const struct docket_entry *entry, const block_key *keys, uint32_t n) {
  struct held_segment *deepest = NULL;
  for (uint32_t i = 0; i < n; i++) {
    struct held_segment *segment = presence_ending_in(plan->presence, keys[i]);
    if (!segment) continue;
    segment->asks++;
    segment->used_us = plan->now_us;
    if (entry->turn > segment->turn) segment->turn = entry->turn;
    if (segment->asks >= DEMOTE_ASKS || segment->turn >= DEMOTE_TURN) segment_wants_ssd(plan, segment);
    valuation_of_segment(plan, segment);
    deepest = segment;
  }
  if (deepest) retention_touch(plan->retention, deepest->id, plan->now_us);
}

static void outcome_credit(void *ctx, uint64_t task, uint32_t used_tokens, double realized_seconds) {
  struct plan *plan = ctx;
  struct task_record *record = taskbook_find(plan->taskbook, task);
  if (record) task_credit(plan, record, used_tokens, realized_seconds);
}

/* Preparations that found everything there already computed nothing that could be credited; being asked ends them too.
 */
static void outcome_use(struct plan *plan, const block_key *keys, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) {
    uint64_t id;
    if (!map_get(plan->task_ends, keys[i], &id)) continue;
    struct task_record *record = taskbook_find(plan->taskbook, id);
    if (record && record->task.state == TASK_READY) task_credit(plan, record, 0, 0);
  }
}

/* The next turn's known beginning becomes a node that demand waits for. */
static void outcome_expect(struct plan *plan, const struct docket_entry *entry, const struct outcome *outcome) {
  struct demand_turn turn = {
      .at_us = plan->now_us, .session = entry->session, .turn = entry->turn, .stop = outcome->stop};
  if (outcome->n_next && entry->session) {
    struct forest_seed seed = {.at_us = plan->now_us,
                               .tenant = entry->tenant,
                               .keys = outcome->next_keys,
                               .n_blocks = outcome->n_next,
                               .material = outcome->next_material};
    struct forest_path path;
    if (forest_plant(plan->forest, &seed, &path) == STATUS_OK && path.end != FOREST_NONE) {
      observe_materials(plan, &path);
      turn.next = path.end;
      plan->notes[path.end].tokens = outcome->next_tokens;
      plan->notes[path.end].session = entry->session;
      plan->notes[path.end].is_unwanted = !entry->may_prepare;
    }
  }
  demand_outcome(plan->demand, plan->forest, &turn);
}

void plan_outcome(struct plan *plan, const struct outcome *outcome) {
  board_advance(plan, outcome->at_us);
  struct docket_entry entry;
  if (!docket_take(plan->docket, outcome->request, &entry)) return;
  uint32_t n_keys;
  const block_key *keys = accounts_request_keys(plan->accounts, outcome->request, &n_keys);
  uint64_t hit_tokens = 0;
  for (int tier = 0; tier < TIER_COUNT; tier++) hit_tokens += outcome->hit_tokens[tier];
  uint64_t hit_blocks = hit_tokens / plan->config.block_tokens;
  uint32_t n_hit = hit_blocks < n_keys ? (uint32_t)hit_blocks : n_keys;
  outcome_touch(plan, &entry, keys, entry.may_learn ? n_keys : 0);
  board_update_rates(plan);
  outcome_use(plan, keys, n_hit);
  struct rivals_hits rival_hits;
  /* Out of memory for what it left behind: the rivals have a little less, once. */
  (void)!rivals_finish(plan->rivals, outcome, &rival_hits);
  struct accounts_shadows shadows = {.reactive_hit_tokens = rival_hits.reactive_tokens,
                                     .retention_hit_tokens = rival_hits.retention_tokens};
  struct accounts_result result;
  accounts_finish(plan->accounts, outcome, &shadows, outcome_credit, plan, &result);
  if (entry.may_learn) retention_settle(plan->retention, outcome->request);
  if (result.is_booked) {
    spending_earn(&plan->spending, earned_of_foreground * result.foreground_seconds);
    spending_earn(&plan->spending, earned_of_reuse * result.reuse_seconds);
    for (uint32_t i = 0; i < DOCKET_UNITS; i++) {
      bool is_repeated = false;
      for (uint32_t j = 0; j < i; j++) is_repeated |= entry.units[j] == entry.units[i];
      if (entry.units[i] && !is_repeated) {
        holdout_observe(plan->holdout, entry.units[i], result.realized_seconds);
      }
    }
  }
  bool is_over = outcome->stop == STOP_ABORTED || outcome->stop == STOP_ERROR;
  if (entry.may_learn && !is_over) outcome_expect(plan, &entry, outcome);
  workload_outcome(plan, &entry, outcome);
}

static void ram_rate_update(struct plan *plan, uint64_t bytes) {
  /* Half of it is forgotten in about ten minutes. */
  double idle_s = (double)(plan->now_us - plan->ram_entered_us) / 1e6, constant_s = 900;
  plan->ram_rate_bytes_per_s =
      plan->ram_rate_bytes_per_s * number_exp(-idle_s / constant_s) + (double)bytes / constant_s;
  plan->ram_entered_us = plan->now_us;
}

/* What lies on SSD before anybody has asked for something was written in an earlier life; a reactive cache would have
 * written it, too. */
static void segment_adopt(struct plan *plan, const struct held_segment *segment) {
  uint32_t n = segment->to / plan->config.block_tokens;
  if (n > plan->keys_size) {
    block_key *keys = realloc(plan->keys, (size_t)n * sizeof *keys);
    if (!keys) return;
    plan->keys = keys;
    plan->keys_size = n;
  }
  n = presence_prefix(plan->presence, segment, plan->keys, n);
  /* Out of memory: it is not credited to them. */
  if (n) (void)!rivals_adopt(plan->rivals, plan->keys, n, plan->now_us);
}

void plan_segment(struct plan *plan, const struct segment_event *event) {
  board_advance(plan, event->at_us);
  struct held_segment *segment = presence_find(plan->presence, event->segment);
  bool was_known = segment != NULL;
  uint32_t place = was_known ? presence_place(plan->presence, segment) : 0;
  bool was_there = segment && event->tier > TIER_NONE && event->tier < TIER_COUNT && segment->bytes[event->tier];
  uint32_t turn = segment ? segment->turn : 0;
  if (presence_tell(plan->presence, event) != STATUS_OK) return;
  segment = presence_find(plan->presence, event->segment);
  if (!event->is_present) {
    (void)!retention_gone(plan->retention, event->segment, event->tier);
    if (!segment && was_known) heap_remove(plan->revalues, place);
    if (segment) valuation_of_segment(plan, segment); /* a copy less makes the others worth more */
    return;
  }
  if (room_stored(plan, event, workload_class_of(plan, segment)) != STATUS_OK) return;
  if (was_there) return;
  if (!was_known) segment->used_us = plan->now_us;
  segment->turn = turn;
  if (event->tier == TIER_RAM) ram_rate_update(plan, event->bytes);
  if (event->tier == TIER_SSD && !plan->n_asks) segment_adopt(plan, segment);
  valuation_of_segment(plan, segment);
  pins_apply(plan, segment);
  struct task_record *record = taskbook_find(plan->taskbook, segment->task);
  if (event->tier == TIER_RAM && record && record->task.is_order) segment_wants_ssd(plan, segment);
}

void plan_prefill_sample(struct plan *plan, uint32_t n, uint32_t depth, double seconds) {
  (void)cost_observe_prefill(plan->cost, n, depth, seconds);
}

void plan_restore_sample(struct plan *plan, enum tier tier, uint64_t bytes, double seconds) {
  (void)cost_observe_restore(plan->cost, tier, bytes, seconds);
}

void plan_decode_sample(struct plan *plan, uint32_t tokens, double seconds) {
  /* The depth is not reported; at depth 0 the sample still sets the level of the fit. */
  (void)cost_observe_decode(plan->cost, tokens, 0, seconds);
}
