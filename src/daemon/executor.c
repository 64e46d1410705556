#include "daemon/executor.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/materials.h"
#include "engine/reuse.h"
#include "store/depot.h"

/* One PREFILL action on its way: waiting → computing → saving → gone. */
enum errand_state { ERRAND_WAITING, ERRAND_COMPUTING, ERRAND_SAVING };

struct errand {
  struct errand *next;
  struct executor *executor; /* NULL once the executor is gone: callbacks then only free */
  enum errand_state state;
  struct action action;
  struct reuse_job *job; /* while computing */
  bool is_unwanted;      /* CANCEL came while saving or before the job could end */
  uint32_t tokens_done, tokens_computed;
  double spent_seconds;
};

struct executor {
  struct executor_config config;
  struct errand *errands; /* in order of work */
  uint32_t n;
  bool is_busy; /* inside poke */
};

static void report(const struct errand *errand, enum task_state state, const char *reason) {
  struct executor *executor = errand->executor;
  const struct task_event event = {.task = errand->action.task,
                                   .at_us = executor->config.now_us(),
                                   .state = state,
                                   .tokens_done = errand->tokens_done,
                                   .tokens_computed = errand->tokens_computed,
                                   .spent_seconds = errand->spent_seconds,
                                   .reason = reason};
  executor->config.task_event(executor->config.ctx, &event);
}

static void remove_errand(struct errand *errand) {
  struct executor *executor = errand->executor;
  struct errand **link = &executor->errands;
  while (*link != errand) link = &(*link)->next;
  *link = errand->next;
  executor->n--;
  free(errand);
}

static void end_errand(struct errand *errand, enum task_state state, const char *reason) {
  struct executor *executor = errand->executor;
  report(errand, state, reason);
  remove_errand(errand);
  executor_poke(executor);
}

/* ── callbacks of reuse ── */

static void errand_saved(void *ctx, enum status status, uint32_t ram_tokens) {
  struct errand *errand = ctx;
  if (errand->executor == NULL) {
    free(errand);
    return;
  }
  (void)ram_tokens;
  if (errand->is_unwanted)
    end_errand(errand, TASK_CANCELLED, "not wanted any more");
  else if (status == STATUS_OK)
    end_errand(errand, TASK_READY, "in memory");
  else if (status == STATUS_FULL)
    end_errand(errand, TASK_READY, "on the device only: memory holds what is worth more");
  else
    end_errand(errand, TASK_READY, "on the device");
}

static void errand_started(void *ctx, uint32_t cached_tokens, enum tier tier) {
  struct errand *errand = ctx;
  (void)tier;
  if (errand->executor == NULL) return;
  errand->tokens_done = cached_tokens;
  report(errand, TASK_RUNNING, NULL);
}

static void take_result(struct errand *errand, const struct reuse_result *result) {
  errand->tokens_computed = result->prefill.computed_tokens;
  errand->tokens_done = result->ready_tokens;
  errand->spent_seconds = (double)(result->prefill.prefill_us + result->prefill.restore_us) / 1e6;
}

static void save_errand(struct errand *errand) {
  struct executor *executor = errand->executor;
  uint32_t tenant, n;
  const int32_t *tokens;
  enum status status = materials_find(executor->config.materials, errand->action.material, &tenant, &tokens, &n);
  if (status == STATUS_OK && errand->action.tokens < n) n = errand->action.tokens;
  errand->state = ERRAND_SAVING;
  if (status == STATUS_OK)
    status = reuse_save(executor->config.reuse, executor->config.salts[tenant], tenant, tokens, n, errand->action.task,
                        errand_saved, errand);
  if (status != STATUS_OK) end_errand(errand, TASK_READY, "on the device");
}

static void errand_done(void *ctx, const struct reuse_result *result) {
  struct errand *errand = ctx;
  if (errand->executor == NULL) {
    free(errand);
    return;
  }
  errand->job = NULL;
  take_result(errand, result);
  if (errand->action.tier == TIER_DEVICE)
    end_errand(errand, TASK_READY, "on the device");
  else
    save_errand(errand);
}

static void errand_failed(void *ctx, enum status status, const struct error *error, bool is_retry_safe,
                          bool is_taken_over, const struct reuse_result *result) {
  struct errand *errand = ctx;
  (void)is_retry_safe;
  if (errand->executor == NULL) {
    free(errand);
    return;
  }
  errand->job = NULL;
  if (result != NULL) take_result(errand, result);
  if (is_taken_over)
    end_errand(errand, TASK_READY, "taken over by a request before it was finished");
  else if (status == STATUS_CANCELLED)
    end_errand(errand, TASK_CANCELLED, "not wanted any more");
  else
    end_errand(errand, TASK_FAILED, error != NULL && error->text[0] != '\0' ? error->text : status_name(status));
}

static const struct reuse_sink sink = {.started = errand_started, .done = errand_done, .failed = errand_failed};

/* ── work ── */

/* STATUS_BUSY: not now. Anything else has ended or begun the errand. */
static enum status begin(struct errand *errand) {
  struct executor *executor = errand->executor;
  uint32_t tenant, n;
  const int32_t *tokens;
  if (materials_find(executor->config.materials, errand->action.material, &tenant, &tokens, &n) != STATUS_OK ||
      tenant >= executor->config.n_tenants) {
    end_errand(errand, TASK_FAILED, "its tokens are not known any more");
    return STATUS_OK;
  }
  struct reuse_request request = {.lane = LANE_SPECULATIVE,
                                  .id = errand->action.task,
                                  .tenant = tenant,
                                  .tokens = tokens,
                                  .n_tokens = errand->action.tokens < n ? errand->action.tokens : n,
                                  .mode = REUSE_NEAR,
                                  .wants_store = true,
                                  .task = errand->action.task};
  memcpy(request.salt, executor->config.salts[tenant], sizeof request.salt);
  struct error error = {{0}};
  errand->state = ERRAND_COMPUTING;
  enum status status = reuse_submit(executor->config.reuse, &request, &sink, errand, &errand->job, &error);
  if (status == STATUS_BUSY) {
    errand->state = ERRAND_WAITING;
    return status;
  }
  if (status != STATUS_OK) end_errand(errand, TASK_FAILED, error.text[0] != '\0' ? error.text : status_name(status));
  return STATUS_OK;
}

static struct errand *next_waiting(const struct executor *executor) {
  for (struct errand *errand = executor->errands; errand != NULL; errand = errand->next)
    if (errand->state == ERRAND_WAITING) return errand;
  return NULL;
}

void executor_poke(struct executor *executor) {
  if (executor->is_busy) return;
  executor->is_busy = true;
  struct errand *errand;
  while ((errand = next_waiting(executor)) != NULL && begin(errand) != STATUS_BUSY) {
  }
  executor->is_busy = false;
}

static bool goes_before(const struct action *a, const struct action *b) {
  if (a->is_order != b->is_order) return a->is_order;
  return a->value > b->value;
}

static void take_prefill(struct executor *executor, const struct action *action) {
  struct errand *errand = calloc(1, sizeof *errand);
  if (errand == NULL || executor->n >= executor->config.waiting_max) {
    free(errand);
    const struct task_event event = {.task = action->task,
                                     .at_us = executor->config.now_us(),
                                     .state = TASK_FAILED,
                                     .reason = "too many preparations are waiting"};
    executor->config.task_event(executor->config.ctx, &event);
    return;
  }
  errand->executor = executor;
  errand->action = *action;
  struct errand **link = &executor->errands;
  while (*link != NULL && !goes_before(action, &(*link)->action)) link = &(*link)->next;
  errand->next = *link;
  *link = errand;
  executor->n++;
  report(errand, TASK_WAITING, NULL);
}

static void take_cancel(struct executor *executor, uint64_t task) {
  struct errand *errand = executor->errands;
  while (errand != NULL && errand->action.task != task) errand = errand->next;
  if (errand == NULL) return;
  errand->is_unwanted = true;
  if (errand->state == ERRAND_WAITING)
    end_errand(errand, TASK_CANCELLED, "not wanted any more");
  else if (errand->job != NULL)
    reuse_cancel(executor->config.reuse, errand->job);
}

/* One PROMOTE on its way; the match stays pinned until the disk has answered. */
struct promotion {
  struct depot *depot;
  struct index_match match;
};

static void promoted(void *ctx, uint64_t bytes, uint64_t us) {
  struct promotion *promotion = ctx;
  (void)bytes;
  (void)us;
  depot_release(promotion->depot, &promotion->match);
  free(promotion);
}

static void take_promote(struct executor *executor, const struct action *action) {
  uint32_t tenant, n;
  const int32_t *tokens;
  struct promotion *promotion = malloc(sizeof *promotion);
  if (promotion == NULL ||
      materials_find(executor->config.materials, action->material, &tenant, &tokens, &n) != STATUS_OK) {
    free(promotion);
    return;
  }
  promotion->depot = executor->config.depot;
  if (action->tokens < n) n = action->tokens;
  depot_match(promotion->depot, tenant, tokens, n, false, &promotion->match);
  if (depot_fetch(promotion->depot, &promotion->match, promoted, promotion) != STATUS_OK) promoted(promotion, 0, 0);
}

void executor_take(struct executor *executor, const struct action *actions, size_t n) {
  for (size_t i = 0; i < n; i++) {
    const struct action *action = &actions[i];
    switch (action->kind) {
    case ACTION_PREFILL:
      take_prefill(executor, action);
      break;
    case ACTION_PROMOTE:
      take_promote(executor, action);
      break;
    case ACTION_DEMOTE:
      (void)!depot_demote(executor->config.depot, action->segment);
      break;
    case ACTION_EVICT:
      (void)!depot_evict(executor->config.depot, action->segment, action->tier);
      break;
    case ACTION_CANCEL:
      take_cancel(executor, action->task);
      break;
    case ACTION_KIND_COUNT:
      break;
    }
  }
  executor_poke(executor);
}

uint32_t executor_open_count(const struct executor *executor) {
  return executor->n;
}

enum status executor_create(const struct executor_config *config, struct executor **ret_executor) {
  struct executor *executor = calloc(1, sizeof *executor);
  if (executor == NULL) return STATUS_NO_MEMORY;
  executor->config = *config;
  *ret_executor = executor;
  return STATUS_OK;
}

void executor_destroy(struct executor **reference) {
  struct executor *executor = *reference;
  if (executor == NULL) return;
  for (struct errand *errand = executor->errands, *next; errand != NULL; errand = next) {
    next = errand->next;
    errand->executor = NULL;
    if (errand->state == ERRAND_WAITING)
      free(errand);
    else if (errand->job != NULL)
      reuse_cancel(executor->config.reuse, errand->job); /* freed by its callback */
  }
  free(executor);
  *reference = NULL;
}
