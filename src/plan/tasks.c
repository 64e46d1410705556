/* The life of a preparation's record: created, handed out, reported on, credited, ended. */
#include <stdio.h>
#include <string.h>

#include "plan/board.h"

enum { SILENCE_US_MAX = 60000000, REST_US = 10000000, DAY_S = 86400 };

static void reason_set(struct task_record *record, const char *reason) {
  if (reason) snprintf(record->task.reason, sizeof record->task.reason, "%s", reason);
}

/* Evidence fades within an hour or so, so that a kind that did not pay is tried again. */
static const double yield_fade_s = 3600, yield_prior_s = 10, yield_min = .05;

static double yield_fade(const struct plan *plan, const struct yield *yield) {
  return number_exp(-(double)(plan->now_us - yield->at_us) / 1e6 / yield_fade_s);
}

double task_yield(const struct plan *plan, enum kind kind) {
  const struct yield *yield = &plan->yields[kind];
  double fade = yield_fade(plan, yield);
  double ratio = (yield_prior_s + yield->realized_s * fade) / (yield_prior_s + yield->predicted_s * fade);
  return number_clamp(ratio, yield_min, 1, 1);
}

static void yield_add(struct plan *plan, enum kind kind, double predicted_s, double realized_s) {
  struct yield *yield = &plan->yields[kind];
  double fade = yield_fade(plan, yield);
  yield->predicted_s = yield->predicted_s * fade + predicted_s;
  yield->realized_s = yield->realized_s * fade + realized_s;
  yield->at_us = plan->now_us;
}

void task_plan(struct plan *plan, struct task_record *record, const struct task_spec *spec) {
  struct task *task = &record->task;
  task->kind = spec->kind;
  task->tenant = spec->tenant;
  task->is_order = spec->is_order;
  task->tier = spec->tier;
  task->material = spec->material;
  task->tokens = spec->tokens;
  task->tokens_new = spec->tokens_new;
  task->probability = spec->probability;
  task->predicted_seconds = spec->predicted_seconds;
  task->cost_seconds = spec->cost_seconds;
  task->deadline_us = spec->deadline_us;
  task->expires_us = spec->expires_us;
  record->forecast_seconds = spec->predicted_seconds / task_yield(plan, spec->kind);
  record->node = spec->node;
  record->draft = spec->draft;
  record->value_usd = spec->value_usd;
  record->displaced_seconds = spec->displaced_seconds;
  record->heard_us = plan->now_us;
  double bytes = (double)spec->tokens_new * (double)plan->config.bytes_per_token;
  record->value_usd_per_byte = bytes > 0 && spec->value_usd > 0 ? spec->value_usd / bytes : 0;
  if (spec->node != FOREST_NONE) plan->notes[spec->node].task = task->id;
}

enum status task_create(struct plan *plan, const struct task_spec *spec, struct task_record **ret_record) {
  enum status status = taskbook_add(plan->taskbook, spec->keys, spec->n_blocks, plan->now_us, ret_record);
  if (status == STATUS_OK) task_plan(plan, *ret_record, spec);
  return status;
}

bool task_is_covered(const struct plan *plan, const struct task_spec *spec) {
  return spending_can_commit(&plan->spending, spec->cost_seconds * TASK_BOOKING_MARGIN + spec->displaced_seconds);
}

bool task_launch(struct plan *plan, struct task_record *record) {
  if (plan->n_launches == LAUNCHES_MAX) return false;
  struct task *task = &record->task;
  enum status status = accounts_task_open(plan->accounts, task->id, task->kind, task->tenant, task->is_order);
  if (status != STATUS_OK) return false;
  if (!task->is_order && plan->policy == POLICY_FORELAY) {
    double amount = task->cost_seconds * TASK_BOOKING_MARGIN + record->displaced_seconds;
    if (!spending_commit(&plan->spending, amount)) {
      accounts_task_close(plan->accounts, task->id);
      return false;
    }
    record->booked_seconds = amount;
  }
  uint32_t place = task->is_order ? plan->n_order_launches++ : plan->n_launches;
  memmove(&plan->launches[place + 1 < LAUNCHES_MAX ? place + 1 : place], &plan->launches[place],
          (plan->n_launches - place) * sizeof plan->launches[0]);
  plan->launches[place] = task->id;
  plan->n_launches++;
  if (record->n_blocks) {
    /* Out of memory only costs that an ask in between goes unnoticed. */
    (void)!map_set(plan->task_ends, task->end_key, task->id);
  }
  return true;
}

static void launch_remove(struct plan *plan, uint64_t id) {
  for (uint32_t i = 0; i < plan->n_launches; i++) {
    if (plan->launches[i] != id) continue;
    memmove(&plan->launches[i], &plan->launches[i + 1], (plan->n_launches - i - 1) * sizeof plan->launches[0]);
    plan->n_launches--;
    if (i < plan->n_order_launches) plan->n_order_launches--;
    return;
  }
}

static void flight_remove(struct plan *plan, uint64_t id) {
  for (uint32_t i = 0; i < plan->n_flights; i++) {
    if (plan->flights[i] != id) continue;
    memmove(&plan->flights[i], &plan->flights[i + 1], (plan->n_flights - i - 1) * sizeof plan->flights[0]);
    plan->n_flights--;
    return;
  }
}

static void end_forget(struct plan *plan, const struct task_record *record) {
  uint64_t id;
  if (record->n_blocks && map_get(plan->task_ends, record->task.end_key, &id) && id == record->task.id) {
    map_remove(plan->task_ends, record->task.end_key, NULL);
  }
}

/* The work is over: what was booked for it beyond what it took goes back. */
static void booking_settle_work(struct plan *plan, struct task_record *record) {
  double work = record->booked_seconds - record->displaced_seconds;
  if (work <= 0) return;
  spending_settle(&plan->spending, work, -record->task.spent_seconds);
  record->booked_seconds -= work;
}

static void booking_settle_displaced(struct plan *plan, struct task_record *record) {
  if (record->booked_seconds <= 0) return;
  spending_settle(&plan->spending, record->booked_seconds, -record->victims_seconds);
  record->booked_seconds = 0;
}

/* How long a node is left alone after this end: what was prepared and lost unasked is not worth doing again at once.
 * The baselines have no account that would teach them so, and wait longer. */
static uint64_t rest_us(const struct plan *plan, enum task_state state) {
  switch (state) {
  case TASK_EXPIRED:
  case TASK_EVICTED:
    return (uint64_t)(plan->config.horizons_s[plan->policy == POLICY_FORELAY ? 0 : 1] * 1e6);
  case TASK_USED:
  case TASK_WITHHELD:
    return 0;
  default:
    return REST_US;
  }
}

/* The node it was for is free for the next one. */
static void node_release(struct plan *plan, struct task_record *record) {
  if (record->node == FOREST_NONE) return;
  struct note *note = &plan->notes[record->node];
  if (note->task == record->task.id) {
    note->task = 0;
    note->rest_until_us = plan->now_us + rest_us(plan, record->task.state);
    observe_wake(plan, record->node, note->rest_until_us);
  }
  record->node = FOREST_NONE;
}

/* Of RAM, what orders that are ready and not asked for yet may hold. */
static const double held_share = .3;

/* A state that nobody has asked for yet is not in the shadow of a reactive cache, so that the guard of retention lets
 * it go first. What speculation prepared has to live with that; what somebody ordered stays for its life. Ancestors
 * stay as its parents. */
static void task_hold(struct plan *plan, struct task_record *record) {
  const struct task *task = &record->task;
  double limit = held_share * (double)plan->config.budget.ram_bytes;
  uint64_t bytes = (uint64_t)task->tokens_new * plan->config.bytes_per_token;
  if (!task->is_order || (double)(plan->held_bytes + bytes) > limit) return;
  for (uint32_t i = record->n_blocks; i-- > 0;) {
    const struct held_segment *segment = presence_ending_in(plan->presence, record->keys[i]);
    if (!segment || !segment->bytes[TIER_RAM]) continue;
    if (retention_pin(plan->retention, segment->id) != STATUS_OK) return;
    record->held_segment = segment->id;
    record->held_bytes = bytes;
    plan->held_bytes += bytes;
    return;
  }
}

static void task_let_go(struct plan *plan, struct task_record *record) {
  if (!record->held_segment) return;
  if (presence_find(plan->presence, record->held_segment)) retention_unpin(plan->retention, record->held_segment);
  plan->held_bytes -= record->held_bytes;
  record->held_segment = record->held_bytes = 0;
}

void task_move(struct plan *plan, struct task_record *record, enum task_state state, const char *reason) {
  struct task *task = &record->task;
  if (task->state == state) {
    reason_set(record, reason);
    return;
  }
  if (!task_state_may_follow(task->state, state)) return;
  bool was_handed = task->state == TASK_WAITING || task->state == TASK_RUNNING;
  bool was_planned = task->state == TASK_PLANNED, was_ready = task->state == TASK_READY;
  if (was_planned) launch_remove(plan, task->id);
  task_set_state(task, state, plan->now_us);
  reason_set(record, reason);
  if (state == TASK_WAITING || state == TASK_RUNNING) {
    if (was_planned && plan->n_flights < FLIGHTS_MAX) plan->flights[plan->n_flights++] = task->id;
    return;
  }
  if (was_handed) flight_remove(plan, task->id);
  booking_settle_work(plan, record);
  if (state == TASK_READY) {
    accounts_task_ready(plan->accounts, task->id, task->predicted_seconds);
    task_hold(plan, record);
    if (task->expires_us) {
      (void)!heap_set(plan->expiries, taskbook_place(plan->taskbook, record), (double)task->expires_us);
    }
    return;
  }
  if (was_ready && !task->is_order && state != TASK_CANCELLED) {
    yield_add(plan, task->kind, record->forecast_seconds, 0);
  }
  task_let_go(plan, record);
  booking_settle_displaced(plan, record);
  heap_remove(plan->expiries, taskbook_place(plan->taskbook, record));
  end_forget(plan, record);
  accounts_task_close(plan->accounts, task->id);
  node_release(plan, record);
}

/* Seconds of preparation today, against the day's money and energy. */
static void day_book(struct plan *plan, double seconds) {
  uint32_t day = (uint32_t)(plan->now_us / 1000000 / DAY_S);
  if (day != plan->spent_day) {
    plan->spent_day = day;
    plan->spent_day_seconds = 0;
  }
  plan->spent_day_seconds += seconds;
}

bool task_day_allows(const struct plan *plan) {
  if (plan->spent_day != (uint32_t)(plan->now_us / 1000000 / DAY_S)) return true;
  const struct budget *budget = &plan->config.budget;
  double usd = plan->spent_day_seconds * price_of_speculative_second(&plan->config.price);
  double joules = plan->spent_day_seconds * plan->config.price.watts;
  bool is_money_left = usd <= 0 || usd < budget->money_usd_per_day;
  return is_money_left && (budget->joules_per_day <= 0 || joules < budget->joules_per_day);
}

void plan_task_event(struct plan *plan, const struct task_event *event) {
  board_advance(plan, event->at_us);
  struct task_record *record = taskbook_find(plan->taskbook, event->task);
  if (!record || task_record_has_ended(record)) return;
  struct task *task = &record->task;
  record->heard_us = plan->now_us;
  uint32_t tokens = event->tokens_computed > task->tokens_computed ? event->tokens_computed - task->tokens_computed : 0;
  double seconds = event->spent_seconds > task->spent_seconds ? event->spent_seconds - task->spent_seconds : 0;
  if (tokens || seconds > 0 || event->bytes_moved) {
    accounts_task_spend(plan->accounts, task->id, tokens, seconds, event->bytes_moved);
    plan->idle_bucket_s -= task->is_order ? 0 : seconds;
    day_book(plan, seconds);
  }
  task->tokens_computed += tokens;
  task->spent_seconds += seconds;
  if (event->tokens_done > task->tokens_done) {
    task->tokens_done = event->tokens_done < task->tokens ? event->tokens_done : task->tokens;
  }
  if (event->state == TASK_READY && task->tokens_done < task->tokens && task->tokens_computed == 0) {
    task_move(plan, record, TASK_CANCELLED, event->reason);
    return;
  }
  task_move(plan, record, event->state, event->reason);
  double work = record->booked_seconds - record->displaced_seconds;
  if (task->state == TASK_RUNNING && work > 0 && task->spent_seconds > work) {
    task_withdraw(plan, record, "took longer than was booked for it");
  }
}

void task_credit(struct plan *plan, struct task_record *record, uint32_t used_tokens, double realized_seconds) {
  record->task.tokens_used += used_tokens;
  record->task.realized_seconds += realized_seconds;
  if (!record->task.is_order) yield_add(plan, record->task.kind, 0, realized_seconds);
  if (plan->policy == POLICY_FORELAY && !record->task.is_order && realized_seconds > 0)
    spending_settle(&plan->spending, 0, realized_seconds);
  if (record->task.state == TASK_READY) task_move(plan, record, TASK_USED, NULL);
}

void task_withdraw(struct plan *plan, struct task_record *record, const char *reason) {
  switch (record->task.state) {
  case TASK_PLANNED:
  case TASK_READY:
    task_move(plan, record, TASK_CANCELLED, reason);
    return;
  case TASK_WAITING:
  case TASK_RUNNING:
    reason_set(record, reason);
    if (record->is_cancel_wanted || plan->n_cancels == LAUNCHES_MAX) return;
    record->is_cancel_wanted = true;
    plan->cancels[plan->n_cancels++] = record->task.id;
    return;
  default:
    return;
  }
}

void task_overtake(struct plan *plan, struct task_record *record) {
  if (record->task.is_order || record->task.state == TASK_READY) return;
  task_withdraw(plan, record, "asked for before it was finished");
}

void tasks_expire(struct plan *plan) {
  uint32_t place;
  double due_us;
  while (heap_peek(plan->expiries, &place, &due_us) && due_us <= (double)plan->now_us) {
    heap_remove(plan->expiries, place);
    struct task_record *record = taskbook_at(plan->taskbook, place);
    if (record->task.state == TASK_PLANNED) {
      task_move(plan, record, TASK_CANCELLED, "it never became likely enough to be asked for");
      continue;
    }
    if (record->task.state != TASK_READY) continue; /* under way: its life begins when it is ready */
    for (uint32_t i = 0; i < record->n_blocks; i++) {
      struct held_segment *segment = presence_ending_in(plan->presence, record->keys[i]);
      if (segment && segment->task == record->task.id) {
        (void)!retention_set_value(plan->retention, segment->id, 0);
      }
    }
    task_move(plan, record, TASK_EXPIRED, "nobody asked for it within its life");
  }
  if (plan->load.preparations > 0) return;
  for (uint32_t i = plan->n_flights; i-- > 0;) {
    struct task_record *record = taskbook_find(plan->taskbook, plan->flights[i]);
    if (record && plan->now_us - record->heard_us > SILENCE_US_MAX) {
      task_move(plan, record, TASK_FAILED, "no word from the executor for a minute");
    }
  }
}
