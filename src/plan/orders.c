/* Wishes of users: orders, announcements, documents, pins, and taking them back. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/board.h"

enum { OPEN_ORDERS_MAX = LAUNCHES_MAX / 2, DRAFT_LIFE_US = 60000000 };

static enum status order_check(const struct plan *plan, const struct order *order, struct error *error) {
  uint32_t size = plan->config.block_tokens;
  if (!order->tokens) return error_set(error, STATUS_INVALID, "the prefix has no tokens: give at least one");
  if (order->n_blocks > order->tokens / size || (order->n_blocks && !order->keys)) {
    return error_set(error, STATUS_INVALID, "%u block keys do not fit %u tokens", order->n_blocks, order->tokens);
  }
  if (order->tier == TIER_NONE || order->tier >= TIER_REMOTE || order->kind >= KIND_COUNT) {
    return error_set(error, STATUS_INVALID, "tier must be device, ram or ssd");
  }
  uint64_t bytes = (uint64_t)order->tokens * plan->config.bytes_per_token;
  uint64_t limit = order->tier == TIER_DEVICE ? plan->config.budget.device_bytes
                   : order->tier == TIER_RAM  ? plan->config.budget.ram_bytes
                                              : plan->config.budget.ssd_bytes;
  if (bytes > limit) {
    return error_set(
        error, STATUS_TOO_LONG,
        "%u tokens take %llu bytes, more than all of tier %s (%llu): shorten the prefix or raise the limit",
        order->tokens, (unsigned long long)bytes, tier_name(order->tier), (unsigned long long)limit);
  }
  return STATUS_OK;
}

/* The prefix becomes known to the forest, so that its state has a value; FOREST_NONE where there is no room. */
static uint32_t order_plant(struct plan *plan, const struct order *order, uint32_t document_tokens) {
  if (!order->n_blocks) return FOREST_NONE;
  struct forest_seed seed = {.at_us = plan->now_us,
                             .tenant = order->tenant,
                             .keys = order->keys,
                             .n_blocks = order->n_blocks,
                             .document_tokens = document_tokens,
                             .material = order->material};
  struct forest_path path;
  if (forest_plant(plan->forest, &seed, &path) != STATUS_OK || path.end == FOREST_NONE) return FOREST_NONE;
  observe_materials(plan, &path);
  plan->notes[path.end].tokens = order->tokens;
  plan->notes[path.end].is_unwanted = false;
  return path.end;
}

static struct task_spec spec_of_order(const struct plan *plan, const struct order *order) {
  uint32_t size = plan->config.block_tokens;
  uint32_t matched = presence_match(plan->presence, order->keys, order->n_blocks, TIER_SSD) * size;
  uint64_t bytes = (uint64_t)order->tokens * plan->config.bytes_per_token;
  double prefill_s = cost_prefill_segment_seconds(plan->cost, order->tokens - matched, matched);
  double saved_s =
      cost_prefill_segment_seconds(plan->cost, order->tokens, 0) - cost_restore_seconds(plan->cost, TIER_RAM, bytes);
  uint64_t from_us = order->by_us > plan->now_us ? order->by_us : plan->now_us;
  return (struct task_spec){.kind = order->kind,
                            .tenant = order->tenant,
                            .is_order = true,
                            .tier = order->tier,
                            .keys = order->keys,
                            .n_blocks = order->n_blocks,
                            .tokens = order->tokens,
                            .tokens_new = order->tokens - matched,
                            .material = order->material,
                            .probability = 1,
                            .predicted_seconds = saved_s > 0 ? saved_s : 0,
                            .cost_seconds = prefill_s,
                            .value_usd = saved_s > 0 ? saved_s * board_saved_second_usd(plan) : 0,
                            .deadline_us = order->by_us,
                            .expires_us = from_us + (uint64_t)(plan->config.horizons_s[1] * 1e6)};
}

/* The task before of a draft that goes on: what it has finished serves the longer one. */
static void draft_replace(struct plan *plan, const struct order *order, uint64_t task) {
  struct map_key key = map_key_of(order->draft);
  key.lo ^= order->tenant;
  uint64_t before;
  if (map_get(plan->drafts, key, &before)) {
    struct task_record *record = taskbook_find(plan->taskbook, before);
    if (record && record->task.state == TASK_READY) {
      record->task.expires_us = plan->now_us + DRAFT_LIFE_US;
      (void)!heap_set(plan->expiries, taskbook_place(plan->taskbook, record), (double)record->task.expires_us);
    } else if (record && !task_record_has_ended(record)) {
      task_withdraw(plan, record, "the draft went on");
    }
  }
  if (map_count(plan->drafts) >= DRAFTS_MAX && !map_get(plan->drafts, key, NULL)) {
    size_t cursor = 0;
    struct map_key oldest = {0, 0}, at;
    uint64_t lowest = UINT64_MAX, id;
    while (map_next(plan->drafts, &cursor, &at, &id)) {
      if (id < lowest) {
        lowest = id;
        oldest = at;
      }
    }
    map_remove(plan->drafts, oldest, NULL);
  }
  (void)!map_set(plan->drafts, key, task);
}

enum status plan_order(struct plan *plan, const struct order *order, uint64_t *ret_task, struct error *error) {
  board_advance(plan, order->at_us);
  enum status status = order_check(plan, order, error);
  if (status != STATUS_OK) return status;
  if (!order->material) return error_set(error, STATUS_INVALID, "the tokens of the prefix are not known");
  if (plan->n_order_launches >= OPEN_ORDERS_MAX) {
    return error_set(error, STATUS_FULL, "%u orders wait already: try again when some have been done",
                     plan->n_order_launches);
  }
  struct task_spec spec = spec_of_order(plan, order);
  spec.draft = order->draft;
  uint32_t node = order_plant(plan, order, 0);
  /* A preparation that the planner had begun itself for this prefix goes on: the order finds what it has done. */
  spec.node = node != FOREST_NONE && plan->notes[node].task ? FOREST_NONE : node;
  struct task_record *record;
  status = task_create(plan, &spec, &record);
  if (status != STATUS_OK) return error_set(error, status, "all %u task records are open", plan->config.tasks_max);
  snprintf(record->task.reason, sizeof record->task.reason, "ordered: %u of %u tokens to compute, about %.2f s",
           spec.tokens_new, spec.tokens, spec.cost_seconds);
  *ret_task = record->task.id;
  if (!plan->config.prepare) {
    task_move(plan, record, TASK_CANCELLED, "preparation is switched off (--prepare off)");
    return STATUS_OK;
  }
  if (order->draft) draft_replace(plan, order, record->task.id);
  if (!task_launch(plan, record)) {
    task_move(plan, record, TASK_FAILED, "too many preparations are open");
    return error_set(error, STATUS_FULL, "too many preparations are open: try again when some have been done");
  }
  return STATUS_OK;
}

enum status plan_announce(struct plan *plan, const struct announcement *announcement, uint64_t *ret_id,
                          struct error *error) {
  const struct order *order = &announcement->prefix;
  board_advance(plan, order->at_us);
  enum status status = order_check(plan, order, error);
  if (status != STATUS_OK) return status;
  if (!announcement->count) return error_set(error, STATUS_INVALID, "count must be at least 1");
  if (!order->n_blocks) return error_set(error, STATUS_INVALID, "the prefix is shorter than a block of tokens");
  struct promise *promise = NULL;
  for (uint32_t i = 0; i < ANNOUNCEMENTS_MAX && !promise; i++) {
    if (!plan->promises[i].id) promise = &plan->promises[i];
  }
  if (!promise) return error_set(error, STATUS_FULL, "%d announcements are open already", ANNOUNCEMENTS_MAX);
  uint32_t node = order_plant(plan, order, 0);
  if (node == FOREST_NONE) return error_set(error, STATUS_FULL, "the prefix forest is full");
  uint64_t first_us = order->by_us > plan->now_us ? order->by_us : plan->now_us + announcement->every_us;
  status = demand_announce(plan->demand, plan->forest, node, first_us, announcement->every_us, announcement->count,
                           plan->now_us, ret_id);
  if (status != STATUS_OK) return error_set(error, status, "the announcement was not taken: %s", status_name(status));
  forest_pin(plan->forest, node);
  *promise = (struct promise){.id = *ret_id, .node = node, .last_us = announcement->every_us ? UINT64_MAX : first_us};
  return STATUS_OK;
}

void promises_expire(struct plan *plan) {
  uint64_t life_us = (uint64_t)(plan->config.horizons_s[2] * 1e6);
  for (uint32_t i = 0; i < ANNOUNCEMENTS_MAX; i++) {
    struct promise *promise = &plan->promises[i];
    if (!promise->id || promise->last_us == UINT64_MAX || promise->last_us + life_us > plan->now_us) continue;
    forest_unpin(plan->forest, promise->node);
    (void)!demand_withdraw(plan->demand, promise->id);
    *promise = (struct promise){0};
  }
}

enum status plan_document(struct plan *plan, const struct order *prefix, uint64_t document, uint64_t *ret_task,
                          struct error *error) {
  board_advance(plan, prefix->at_us);
  *ret_task = 0;
  (void)document; /* its prefix names it */
  if (!prefix->n_blocks) return STATUS_OK;
  enum status status = order_check(plan, prefix, error);
  if (status != STATUS_OK) return status;
  uint32_t node = order_plant(plan, prefix, prefix->tokens);
  if (node == FOREST_NONE) return error_set(error, STATUS_FULL, "the prefix forest is full");
  demand_document(plan->demand, plan->forest, node, plan->now_us);
  const struct task_record *open = taskbook_find(plan->taskbook, plan->notes[node].task);
  if (open && !task_record_has_ended(open)) {
    *ret_task = open->task.id;
    return STATUS_OK;
  }
  struct task_spec spec = spec_of_order(plan, prefix);
  spec.kind = KIND_DOCUMENT;
  spec.is_order = false;
  spec.probability = spec.predicted_seconds = spec.value_usd = 0;
  spec.node = node;
  struct task_record *record;
  status = task_create(plan, &spec, &record);
  if (status != STATUS_OK) return error_set(error, status, "all %u task records are open", plan->config.tasks_max);
  *ret_task = record->task.id;
  if (!plan->config.prepare) {
    task_move(plan, record, TASK_CANCELLED, "preparation is switched off (--prepare off)");
    return STATUS_OK;
  }
  snprintf(record->task.reason, sizeof record->task.reason,
           "document behind %u tokens: prepared when it is likely enough to be asked about",
           spec.tokens - spec.tokens_new);
  /* Given up when nobody asked and it never became worth it. */
  (void)!heap_set(plan->expiries, taskbook_place(plan->taskbook, record), (double)spec.expires_us);
  observe_wake(plan, node, plan->now_us);
  return STATUS_OK;
}

enum status plan_cancel(struct plan *plan, uint64_t task, uint32_t tenant, bool any_tenant, uint64_t now_us) {
  board_advance(plan, now_us);
  struct task_record *record = taskbook_find(plan->taskbook, task);
  if (!record || (!any_tenant && record->task.tenant != tenant)) return STATUS_NOT_FOUND;
  task_withdraw(plan, record, "cancelled by its user");
  return STATUS_OK;
}

/* ── pins ── */

static bool pin_covers(const struct pin *pin, const struct held_segment *segment, uint32_t block_tokens) {
  if (!pin->keys || !segment->n_blocks) return false;
  uint32_t last = segment->to / block_tokens;
  return last >= 1 && last <= pin->n_blocks &&
         block_key_equal(pin->keys[last - 1], segment->keys[segment->n_blocks - 1]);
}

void pins_apply(struct plan *plan, const struct held_segment *segment) {
  for (uint32_t i = 0; i < PINS_MAX; i++) {
    const struct pin *pin = &plan->pins[i];
    if (pin_covers(pin, segment, plan->config.block_tokens) && segment->bytes[pin->tier]) {
      (void)!retention_pin_order(plan->retention, segment->id, pin->tier, NULL);
    }
  }
}

/* Pins are few and ends of segments are found by key, so that nothing is scanned. */
static void pin_end(struct plan *plan, struct pin *pin) {
  for (uint32_t i = 0; i < pin->n_blocks; i++) {
    const struct held_segment *segment = presence_ending_in(plan->presence, pin->keys[i]);
    bool is_shared = false;
    for (uint32_t j = 0; segment && j < PINS_MAX; j++) {
      is_shared |= &plan->pins[j] != pin && plan->pins[j].tier == pin->tier &&
                   pin_covers(&plan->pins[j], segment, plan->config.block_tokens);
    }
    if (segment && !is_shared) retention_unpin_order(plan->retention, segment->id, pin->tier);
  }
  plan->pinned_bytes[pin->tier] -= pin->bytes;
  free(pin->keys);
  *pin = (struct pin){0};
}

enum status plan_pin(struct plan *plan, const struct order *prefix, uint64_t until_us, struct error *error) {
  board_advance(plan, prefix->at_us);
  enum status status = order_check(plan, prefix, error);
  if (status != STATUS_OK) return status;
  if (prefix->tier == TIER_DEVICE) return error_set(error, STATUS_INVALID, "tier must be ram or ssd");
  if (!prefix->n_blocks) return error_set(error, STATUS_INVALID, "the prefix is shorter than a block of tokens");
  uint64_t bytes = (uint64_t)prefix->tokens * plan->config.bytes_per_token;
  uint64_t allowed = board_tier_limit(plan, prefix->tier) / 2, pinned = plan->pinned_bytes[prefix->tier];
  if (pinned + bytes > allowed) {
    return error_set(error, STATUS_FULL, "%llu bytes of tier %s are pinned; %llu more would exceed half of it (%llu)",
                     (unsigned long long)pinned, tier_name(prefix->tier), (unsigned long long)bytes,
                     (unsigned long long)allowed);
  }
  struct pin *pin = NULL;
  for (uint32_t i = 0; i < PINS_MAX && !pin; i++) {
    if (!plan->pins[i].keys) pin = &plan->pins[i];
  }
  if (!pin) return error_set(error, STATUS_FULL, "%d prefixes are pinned already", PINS_MAX);
  block_key *keys = malloc((size_t)prefix->n_blocks * sizeof *keys);
  if (!keys) return error_set(error, STATUS_NO_MEMORY, "no memory for the pin");
  memcpy(keys, prefix->keys, (size_t)prefix->n_blocks * sizeof *keys);
  *pin = (struct pin){
      .keys = keys, .n_blocks = prefix->n_blocks, .bytes = bytes, .until_us = until_us, .tier = prefix->tier};
  plan->pinned_bytes[prefix->tier] += bytes;
  for (uint32_t i = 0; i < prefix->n_blocks; i++) {
    const struct held_segment *segment = presence_ending_in(plan->presence, keys[i]);
    if (segment && segment->bytes[pin->tier]) {
      (void)!retention_pin_order(plan->retention, segment->id, pin->tier, NULL);
    }
  }
  return STATUS_OK;
}

void pins_expire(struct plan *plan) {
  for (uint32_t i = 0; i < PINS_MAX; i++) {
    if (plan->pins[i].keys && plan->pins[i].until_us <= plan->now_us) pin_end(plan, &plan->pins[i]);
  }
}

void pins_release(struct plan *plan) {
  for (uint32_t i = 0; i < PINS_MAX; i++) free(plan->pins[i].keys);
}
