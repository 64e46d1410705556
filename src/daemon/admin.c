/* The gateway's backend: questions are answered on the plan thread, where the plan is, with what the loop thread knows
 * carried along; wishes become orders of the planner. Every reply comes exactly once, on the loop thread. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/composition.h"
#include "daemon/executor.h"
#include "daemon/observer.h"
#include "daemon/planner.h"
#include "daemon/report.h"
#include "engine/model.h"
#include "engine/reuse.h"
#include "gateway/gateway.h"
#include "gateway/tenants.h"
#include "history/history.h"
#include "net/loop.h"
#include "os/clock.h"
#include "store/depot.h"

/* ── the machine ── */

void admin_machine(const struct composition *composition, struct machine *ret_machine) {
  struct machine machine = {.started_us = composition->started_us,
                            .now_us = clock_unix_us(),
                            .slots = composition->settings->slots,
                            .prepares = composition->settings->prepare,
                            .policy = policy_name((enum policy)composition->settings->policy)};
  static const char *const modes[] = {"near", "exact", "off"};
  machine.reuse = modes[composition->settings->reuse];
  const struct model_facts *facts = model_facts(composition->model);
  snprintf(machine.version, sizeof machine.version, "%s", FORELAY_VERSION);
  snprintf(machine.model, sizeof machine.model, "%s",
           composition->settings->alias != NULL ? composition->settings->alias : facts->name);
  snprintf(machine.engine, sizeof machine.engine, "embedded");
  snprintf(machine.note, sizeof machine.note, "%s", facts->note);
  machine.context_tokens = facts->context_tokens;
  struct reuse_load load;
  reuse_load(composition->reuse, &load);
  machine.running = load.running;
  machine.waiting = load.waiting;
  machine.is_preparing = load.is_speculating;
  machine.foreground_seconds = load.foreground_seconds;
  machine.speculative_seconds = load.speculative_seconds;
  machine.save_seconds = load.save_seconds;
  struct depot_stats stats;
  depot_stats(composition->depot, &stats);
  for (int tier = TIER_RAM; tier <= TIER_SSD; tier++) {
    machine.tier[tier].limit_bytes = stats.tier[tier].limit_bytes;
    machine.tier[tier].used_bytes = stats.tier[tier].used_bytes;
    machine.tier[tier].reserved_bytes = stats.tier[tier].reserved_bytes;
    machine.tier[tier].segments = stats.tier[tier].segments;
    machine.tier[tier].is_degraded = stats.tier[tier].is_degraded;
    memcpy(machine.tier[tier].condition, stats.tier[tier].condition, sizeof stats.tier[tier].condition);
  }
  machine.tier[TIER_DEVICE].limit_bytes = (uint64_t)facts->sequences * facts->context_tokens * facts->bytes_per_token;
  machine.tier[TIER_DEVICE].used_bytes = load.device_tokens * facts->bytes_per_token;
  machine.ssd_written_today_bytes = stats.ssd_written_today_bytes;
  machine.ssd_writes_limit_bytes = composition->settings->ssd_writes_bytes;
  machine.states_adopted = stats.adopted;
  machine.states_removed = stats.removed;
  machine.states_rejected = stats.rejected;
  machine.observations_dropped = planner_dropped(composition->planner);
  if (composition->history != NULL) {
    struct history_stats history;
    history_stats(composition->history, &history);
    machine.history_dropped = history.dropped;
    if (history.is_degraded) memcpy(machine.history_condition, history.reason, sizeof history.reason);
  }
  *ret_machine = machine;
}

static const char *name_of_tenant(const void *ctx, uint32_t tenant) {
  return tenants_name(ctx, tenant);
}

/* ── questions: loop → plan → loop ── */

struct inquiry {
  struct composition *composition;
  struct tenant_names names;
  struct machine machine;
  enum backend_question question;
  bool is_metrics;
  uint32_t tenant;
  uint64_t number;
  struct order order; /* of a wish: keys come with the work */
  enum backend_wish_kind wish;
  uint64_t every_us, until_us, document;
  uint32_t count;
  bool sets_budget, deletes_task;
  backend_reply *reply;
  void (*metrics_reply)(void *reply_ctx, const char *text, size_t size);
  void *reply_ctx;
  enum status status; /* the answer */
  struct error error;
  char *json;
  struct buffer text; /* metrics; before: the body of PUT budget */
};

static void deliver(void *ctx) {
  struct inquiry *inquiry = ctx;
  if (inquiry->is_metrics)
    inquiry->metrics_reply(inquiry->reply_ctx, inquiry->text.data != NULL ? (const char *)inquiry->text.data : "",
                           inquiry->text.size);
  else
    inquiry->reply(inquiry->reply_ctx, inquiry->status, inquiry->json, &inquiry->error);
  buffer_release(&inquiry->text);
  free(inquiry->json);
  free(inquiry);
}

static void answer_question(struct plan *plan, struct inquiry *inquiry) {
  switch (inquiry->question) {
  case QUESTION_STATUS:
    inquiry->json = report_status(plan, &inquiry->machine, inquiry->tenant);
    break;
  case QUESTION_PREFIXES:
    inquiry->json = report_prefixes(plan, &inquiry->names, inquiry->tenant, inquiry->machine.now_us);
    break;
  case QUESTION_TASKS:
    inquiry->json = report_tasks(plan, &inquiry->names, inquiry->tenant);
    break;
  case QUESTION_TASK:
    inquiry->json = report_task(plan, &inquiry->names, inquiry->number, inquiry->tenant, &inquiry->status);
    if (inquiry->status != STATUS_OK)
      (void)error_set(&inquiry->error, inquiry->status, "there is no task %llu", (unsigned long long)inquiry->number);
    return;
  case QUESTION_LEDGER:
    inquiry->json = report_ledger(plan, &inquiry->names, inquiry->tenant);
    break;
  case QUESTION_BUDGET:
    inquiry->json = report_budget(plan);
    break;
  case QUESTION_STATES:
    break; /* answered on the loop thread */
  }
  inquiry->status = inquiry->json != NULL ? STATUS_OK : error_set(&inquiry->error, STATUS_NO_MEMORY, "out of memory");
}

static void answer_wish(struct plan *plan, struct inquiry *inquiry) {
  uint64_t id = 0;
  struct announcement announcement = {.prefix = inquiry->order, .every_us = inquiry->every_us, .count = inquiry->count};
  switch (inquiry->wish) {
  case WISH_PREPARE:
    inquiry->status = plan_order(plan, &inquiry->order, &id, &inquiry->error);
    break;
  case WISH_DOCUMENT:
    inquiry->status = plan_document(plan, &inquiry->order, inquiry->document, &id, &inquiry->error);
    break;
  case WISH_ANNOUNCE:
    inquiry->status = plan_announce(plan, &announcement, &id, &inquiry->error);
    break;
  case WISH_PIN:
    inquiry->status = plan_pin(plan, &inquiry->order, inquiry->until_us, &inquiry->error);
    break;
  }
  if (inquiry->status == STATUS_OK && asprintf(&inquiry->json, "{\"id\":%llu}", (unsigned long long)id) < 0) {
    inquiry->json = NULL;
    inquiry->status = STATUS_NO_MEMORY;
  }
}

static void answer_change(struct plan *plan, struct inquiry *inquiry) {
  bool is_operator = inquiry->tenant == UINT32_MAX;
  if (inquiry->deletes_task) {
    inquiry->status = plan_cancel(plan, inquiry->number, inquiry->tenant, is_operator, inquiry->machine.now_us);
    if (inquiry->status == STATUS_OK)
      inquiry->json = strdup("{}");
    else
      (void)error_set(&inquiry->error, inquiry->status, "there is no open task %llu",
                      (unsigned long long)inquiry->number);
    return;
  }
  struct budget budget;
  plan_budget(plan, &budget);
  inquiry->status = report_parse_budget((const char *)inquiry->text.data, inquiry->text.size, &budget, &inquiry->error);
  if (inquiry->status == STATUS_OK) inquiry->status = plan_set_budget(plan, &budget, &inquiry->error);
  if (inquiry->status == STATUS_OK) inquiry->json = report_budget(plan);
}

static void answer(struct plan *plan, void *ctx) {
  struct inquiry *inquiry = ctx;
  if (inquiry->is_metrics)
    inquiry->status = report_metrics(plan, &inquiry->machine, &inquiry->text);
  else if (inquiry->sets_budget || inquiry->deletes_task)
    answer_change(plan, inquiry);
  else
    answer_question(plan, inquiry);
  if (!loop_post(inquiry->composition->loop, deliver, inquiry)) {
    free(inquiry->json); /* the loop is going down and answers nobody */
    buffer_release(&inquiry->text);
    free(inquiry);
  }
}

static struct inquiry *new_inquiry(struct composition *composition, uint32_t tenant, backend_reply *reply,
                                   void *reply_ctx) {
  struct inquiry *inquiry = calloc(1, sizeof *inquiry);
  if (inquiry == NULL) {
    struct error error;
    reply(reply_ctx, error_set(&error, STATUS_NO_MEMORY, "out of memory"), NULL, &error);
    return NULL;
  }
  inquiry->composition = composition;
  inquiry->names = (struct tenant_names){name_of_tenant, composition->tenants, composition->n_tenants};
  inquiry->tenant = tenant;
  inquiry->reply = reply;
  inquiry->reply_ctx = reply_ctx;
  buffer_init(&inquiry->text, 1 << 20);
  admin_machine(composition, &inquiry->machine);
  return inquiry;
}

/* The planner takes the inquiry, or it is answered here: too much waits. */
static void hand_over(struct inquiry *inquiry) {
  enum status status =
      planner_run(inquiry->composition->planner, answer, inquiry, 0, inquiry->sets_budget || inquiry->deletes_task);
  if (status == STATUS_OK) return;
  inquiry->status = error_set(&inquiry->error, STATUS_FULL, "the planner is busy: try again");
  deliver(inquiry);
}

/* ── states ── */

struct state_list {
  const struct composition *composition;
  json_t *array;
};

static void add_state(void *ctx, const struct index_entry *entry) {
  struct state_list *list = ctx;
  json_array_append_new(list->array,
                        json_pack("{s:I, s:I, s:s, s:i, s:i, s:i, s:I, s:I}", "id", (json_int_t)entry->id, "parent",
                                  (json_int_t)entry->parent, "tenant",
                                  tenants_name(list->composition->tenants, entry->tenant), "from", (int)entry->from,
                                  "to", (int)entry->to, "exact_tokens", (int)index_exact_tokens(entry), "ram_bytes",
                                  (json_int_t)entry->bytes[TIER_RAM], "ssd_bytes", (json_int_t)entry->bytes[TIER_SSD]));
}

static void answer_states(struct composition *composition, uint32_t tenant, backend_reply *reply, void *reply_ctx) {
  struct state_list list = {composition, json_array()};
  depot_each(composition->depot, tenant, add_state, &list);
  json_t *root = json_pack("{s:o}", "states", list.array);
  char *text = root != NULL ? json_dumps(root, JSON_COMPACT) : NULL;
  json_decref(root);
  struct error error = {{0}};
  reply(reply_ctx, text != NULL ? STATUS_OK : error_set(&error, STATUS_NO_MEMORY, "out of memory"), text, &error);
  free(text);
}

/* ── the backend ── */

static void asked(void *ctx, const struct backend_ask *ask) {
  struct composition *composition = ctx;
  observer_asked(composition->observer, ask);
}

static void ended(void *ctx, const struct outcome *outcome, const int32_t *next_tokens, uint32_t n_next) {
  struct composition *composition = ctx;
  observer_ended(composition->observer, outcome, next_tokens, n_next);
  executor_poke(composition->executor);
}

static void question(void *ctx, enum backend_question what, uint32_t tenant, uint64_t number, backend_reply *reply,
                     void *reply_ctx) {
  struct composition *composition = ctx;
  if (what == QUESTION_STATES) {
    answer_states(composition, tenant, reply, reply_ctx);
    return;
  }
  struct inquiry *inquiry = new_inquiry(composition, tenant, reply, reply_ctx);
  if (inquiry == NULL) return;
  inquiry->question = what;
  inquiry->number = number;
  hand_over(inquiry);
}

/* A wish on its way to the plan thread: the order first, as observer_wish wants it, then whom to answer. */
struct wish_work {
  struct order order;
  struct inquiry *inquiry;
};

static void run_wish(struct plan *plan, void *ctx) {
  struct wish_work *work = ctx;
  struct inquiry *inquiry = work->inquiry;
  inquiry->order = work->order;
  inquiry->order.keys = planner_keys(ctx, sizeof *work);
  answer_wish(plan, inquiry);
  if (!loop_post(inquiry->composition->loop, deliver, inquiry)) {
    free(inquiry->json);
    free(inquiry);
  }
}

static uint64_t hash_of(const char *text) {
  uint64_t hash = 1469598103934665603u; /* FNV-1a: a name, not a secret */
  for (; *text != '\0'; text++) hash = (hash ^ (unsigned char)*text) * 1099511628211u;
  return hash;
}

static void wish(void *ctx, enum backend_wish_kind kind, const struct backend_wish *told, backend_reply *reply,
                 void *reply_ctx) {
  struct composition *composition = ctx;
  struct inquiry *inquiry = new_inquiry(composition, told->tenant, reply, reply_ctx);
  if (inquiry == NULL) return;
  inquiry->wish = kind;
  inquiry->every_us = told->every_us;
  inquiry->count = told->count > 0 ? (uint32_t)told->count : 1;
  inquiry->until_us = told->until_us;
  inquiry->document = told->document != NULL ? hash_of(told->document) : 0;
  struct wish_work work = {.order = {.at_us = clock_unix_us(),
                                     .kind = told->kind,
                                     .tier = told->tier != TIER_NONE ? told->tier : TIER_RAM,
                                     .by_us = told->by_us,
                                     .draft = told->draft},
                           .inquiry = inquiry};
  enum status status = observer_wish(composition->observer, told->tenant, told->tokens, told->n_tokens, &work.order,
                                     sizeof work, run_wish);
  if (status == STATUS_OK) return;
  inquiry->status = error_set(&inquiry->error, status, "the planner is busy: try again");
  deliver(inquiry);
}

static void set_budget(void *ctx, const char *body, size_t size, backend_reply *reply, void *reply_ctx) {
  struct composition *composition = ctx;
  struct inquiry *inquiry = new_inquiry(composition, UINT32_MAX, reply, reply_ctx);
  if (inquiry == NULL) return;
  inquiry->sets_budget = true;
  inquiry->status = buffer_append(&inquiry->text, body, size);
  if (inquiry->status == STATUS_OK)
    hand_over(inquiry);
  else
    deliver(inquiry);
}

static void delete_task(void *ctx, uint32_t tenant, uint64_t task, backend_reply *reply, void *reply_ctx) {
  struct inquiry *inquiry = new_inquiry(ctx, tenant, reply, reply_ctx);
  if (inquiry == NULL) return;
  inquiry->deletes_task = true;
  inquiry->number = task;
  hand_over(inquiry);
}

static void delete_state(void *ctx, uint32_t tenant, uint64_t segment, backend_reply *reply, void *reply_ctx) {
  struct composition *composition = ctx;
  struct index_entry entry;
  struct error error = {{0}};
  enum status status = depot_segment(composition->depot, segment, &entry);
  if (status == STATUS_OK && tenant != UINT32_MAX && entry.tenant != tenant) status = STATUS_NOT_FOUND;
  if (status == STATUS_OK) status = depot_drop(composition->depot, segment);
  if (status == STATUS_NOT_FOUND)
    (void)error_set(&error, status, "there is no state %llu", (unsigned long long)segment);
  if (status == STATUS_BUSY)
    (void)error_set(&error, status, "state %llu is in use: try again", (unsigned long long)segment);
  reply(reply_ctx, status, status == STATUS_OK ? "{}" : NULL, &error);
}

static void nobody(void *reply_ctx, enum status status, const char *json, const struct error *error) {
  (void)reply_ctx;
  (void)status;
  (void)json;
  (void)error;
}

static void metrics(void *ctx, void (*reply)(void *reply_ctx, const char *text, size_t size), void *reply_ctx) {
  struct inquiry *inquiry = new_inquiry(ctx, UINT32_MAX, nobody, reply_ctx);
  if (inquiry == NULL) {
    reply(reply_ctx, "", 0);
    return;
  }
  inquiry->is_metrics = true;
  inquiry->metrics_reply = reply;
  hand_over(inquiry);
}

struct backend admin_backend(struct composition *composition) {
  return (struct backend){.ctx = composition,
                          .asked = asked,
                          .ended = ended,
                          .wish = wish,
                          .question = question,
                          .set_budget = set_budget,
                          .delete_task = delete_task,
                          .delete_state = delete_state,
                          .metrics = metrics};
}
