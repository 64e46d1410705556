/* One tick: let time pass, choose, and hand out actions. */
#include <string.h>

#include "plan/board.h"

enum { REVALUED_A_TICK = 256, RIVALS_REVALUED_A_TICK = 64, DAY_S = 86400, OVERHEAD_PART = 32 };

/* Speculative seconds that may be saved up while nothing is worth doing. */
static const double idle_bucket_s_max = 30;

/* Headers, reservations: what the store counts and no event tells. Told numbers lag behind each other, so it is kept
 * small. */
static void overhead_update(struct plan *plan, enum tier tier) {
  uint64_t told = presence_bytes(plan->presence, tier), used = plan->load.used_bytes[tier];
  uint64_t most = board_tier_limit(plan, tier) / OVERHEAD_PART, over = used > told ? used - told : 0;
  plan->overhead_bytes[tier] = over < most ? over : most;
}

static void time_pass(struct plan *plan, const struct load *load) {
  plan->load = *load;
  plan->load.idle_share = number_clamp(load->idle_share, 0, 1, 0);
  if (plan->ticked_us) {
    double passed_s = (double)(plan->now_us - plan->ticked_us) / 1e6;
    plan->idle_bucket_s += passed_s * plan->config.budget.idle_fraction_max;
  } else {
    plan->idle_bucket_s = plan->config.budget.idle_fraction_max * idle_bucket_s_max;
  }
  if (plan->idle_bucket_s > idle_bucket_s_max) plan->idle_bucket_s = idle_bucket_s_max;
  plan->ticked_us = plan->now_us;
  overhead_update(plan, TIER_RAM);
  overhead_update(plan, TIER_SSD);
  observe_gone(plan);
  holdout_settle(plan->holdout, plan->now_us);
  tasks_expire(plan);
  pins_expire(plan);
  promises_expire(plan);
  board_update_rates(plan);
  valuation_refresh(plan, REVALUED_A_TICK);
  rivals_revalue(plan->rivals, RIVALS_REVALUED_A_TICK);
}

bool tick_may_speculate(const struct plan *plan) {
  uint32_t open = plan->n_launches - plan->n_order_launches + plan->n_flights;
  return plan->policy != POLICY_LRU && open < SPECULATIVE_FLIGHTS_MAX && plan->idle_bucket_s > 0 &&
         plan->config.budget.idle_fraction_max > 0 && task_day_allows(plan);
}

static void choose(struct plan *plan) {
  if (!tick_may_speculate(plan)) return;
  switch (plan->policy) {
  case POLICY_FORELAY:
    candidates_choose(plan);
    break;
  case POLICY_FREQUENCY:
    frequency_choose(plan);
    break;
  case POLICY_WORKLOAD:
    workload_choose(plan);
    break;
  case POLICY_LRU:
  case POLICY_COUNT:
    break;
  }
}

struct handing {
  struct action *actions;
  size_t n, max;
};

static void hand_cancels(struct plan *plan, struct handing *out) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < plan->n_cancels; i++) {
    struct task_record *record = taskbook_find(plan->taskbook, plan->cancels[i]);
    bool is_open = record && (record->task.state == TASK_WAITING || record->task.state == TASK_RUNNING);
    if (!is_open) continue;
    if (out->n == out->max) {
      plan->cancels[kept++] = plan->cancels[i];
      continue;
    }
    out->actions[out->n++] =
        (struct action){.kind = ACTION_CANCEL, .task = record->task.id, .tenant = record->task.tenant};
  }
  plan->n_cancels = kept;
}

/* A budget was lowered below what lies there. */
static void hand_evictions(struct plan *plan, struct handing *out, enum tier tier) {
  uint64_t limit = board_tier_limit(plan, tier), used = board_tier_bytes(plan, tier);
  if (used <= limit) return;
  uint64_t victims[64], freed;
  uint32_t n, most = out->max - out->n < 64 ? (uint32_t)(out->max - out->n) : 64;
  struct retention_need need = {.tier = tier, .bytes = used - limit};
  retention_choose_victims(plan->retention, &need, plan->now_us, victims, most, &n, &freed);
  for (uint32_t i = 0; i < n; i++) {
    const struct held_segment *segment = presence_find(plan->presence, victims[i]);
    out->actions[out->n++] = (struct action){
        .kind = ACTION_EVICT, .segment = victims[i], .tier = tier, .tenant = segment ? segment->tenant : 0};
  }
}

static void hand_prefills(struct plan *plan, struct handing *out) {
  while (plan->n_launches && out->n < out->max) {
    bool is_order = plan->n_order_launches > 0;
    if (plan->n_flights >= (is_order ? FLIGHTS_MAX : SPECULATIVE_FLIGHTS_MAX)) return;
    struct task_record *record = taskbook_find(plan->taskbook, plan->launches[0]);
    const struct task *task = &record->task;
    out->actions[out->n++] = (struct action){.kind = ACTION_PREFILL,
                                             .task = task->id,
                                             .tier = task->tier,
                                             .tenant = task->tenant,
                                             .material = task->material,
                                             .tokens = task->tokens,
                                             .is_order = task->is_order,
                                             .value = record->value_usd};
    record->heard_us = plan->now_us;
    task_move(plan, record, TASK_WAITING, NULL);
  }
}

static void hand_promotions(struct plan *plan, struct handing *out) {
  uint32_t n = 0;
  while (n < plan->n_promotions && out->n < out->max) out->actions[out->n++] = plan->promotions[n++];
  memmove(plan->promotions, plan->promotions + n, (plan->n_promotions - n) * sizeof plan->promotions[0]);
  plan->n_promotions -= n;
}

/* Within the bytes that may be written a day; what does not fit waits for the next one. */
static void hand_demotions(struct plan *plan, struct handing *out) {
  uint32_t day = (uint32_t)(plan->now_us / 1000000 / DAY_S);
  if (day != plan->demotion_day) {
    plan->demotion_day = day;
    plan->demoted_bytes = 0;
  }
  while (plan->n_demotions && out->n < out->max) {
    struct held_segment *segment = presence_find(plan->presence, plan->demotions[plan->first_demotion]);
    bool is_needed = segment && segment->bytes[TIER_RAM] && !segment->bytes[TIER_SSD] && !segment->is_demoting;
    if (is_needed) {
      uint64_t bytes = segment->bytes[TIER_RAM];
      if (plan->demoted_bytes + bytes > plan->config.budget.ssd_writes_bytes_per_day) return;
      plan->demoted_bytes += bytes;
      segment->is_demoting = true;
      out->actions[out->n++] =
          (struct action){.kind = ACTION_DEMOTE, .segment = segment->id, .tier = TIER_SSD, .tenant = segment->tenant};
    }
    plan->first_demotion = (plan->first_demotion + 1) % DEMOTIONS_MAX;
    plan->n_demotions--;
  }
}

enum status plan_tick(struct plan *plan, const struct load *load, uint64_t now_us, struct action *ret_actions,
                      size_t max, size_t *ret_n) {
  board_advance(plan, now_us);
  plan->n_ticks++;
  time_pass(plan, load);
  choose(plan);
  struct handing out = {.actions = ret_actions, .max = max};
  hand_cancels(plan, &out);
  hand_evictions(plan, &out, TIER_RAM);
  hand_evictions(plan, &out, TIER_SSD);
  hand_prefills(plan, &out);
  hand_promotions(plan, &out);
  hand_demotions(plan, &out);
  plan->n_actions += out.n;
  *ret_n = out.n;
  return STATUS_OK;
}

static uint64_t heap_due_us(const struct heap *heap) {
  uint32_t id;
  double due_us;
  return heap_peek(heap, &id, &due_us) ? (uint64_t)due_us : UINT64_MAX;
}

static void due_take(uint64_t *due, uint64_t candidate) {
  if (candidate < *due) *due = candidate;
}

uint64_t plan_next_due_us(const struct plan *plan, uint64_t now_us) {
  uint64_t due = heap_due_us(plan->expiries);
  due_take(&due, holdout_due_us(plan->holdout));
  due_take(&due, heap_due_us(plan->revalues));
  if (tick_may_speculate(plan)) {
    due_take(&due, heap_due_us(plan->wakes));
    due_take(&due, demand_next_due(plan->demand));
  }
  if (plan->n_cancels || plan->n_promotions) due = 0;
  if (plan->n_launches && plan->n_flights < (plan->n_order_launches ? FLIGHTS_MAX : SPECULATIVE_FLIGHTS_MAX)) due = 0;
  return due < now_us ? now_us : due;
}
