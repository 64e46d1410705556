#include "daemon/observer.h"

#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "daemon/materials.h"
#include "daemon/planner.h"
#include "engine/keys.h"
#include "history/history.h"
#include "os/clock.h"

/* What lies on the device has no id of the store's: these never meet its small numbers. */
static const uint64_t RESIDENCE_FIRST = (uint64_t)1 << 62;

struct observer {
  struct observer_config config;
  struct keys *keys;
  block_key *chain; /* scratch, [chain_max] */
  uint32_t chain_max;
  char *message; /* scratch, [message_max]: an event with its tokens behind it */
  size_t message_max;
  uint64_t *residences; /* [sequences]: id of what lies there, 0: nothing */
  uint64_t next_residence;
  struct map *open; /* request → tenant, and OPEN_LEARNS; from asked to ended */
};

/* The request may be remembered: without it no row of it is written, neither its ask nor its end. */
static const uint64_t OPEN_LEARNS = (uint64_t)1 << 32;

/* Requests under way, far beyond what a queue allows. */
enum { OPEN_MAX = 1 << 17 };

enum status observer_create(const struct observer_config *config, struct observer **ret_observer) {
  struct observer *observer = calloc(1, sizeof *observer);
  if (observer == NULL) return STATUS_NO_MEMORY;
  observer->config = *config;
  observer->next_residence = RESIDENCE_FIRST;
  observer->residences = calloc(config->sequences + 1, sizeof *observer->residences);
  if (observer->residences == NULL || keys_create(&observer->keys) != STATUS_OK ||
      map_create(OPEN_MAX, &observer->open) != STATUS_OK) {
    observer_destroy(&observer);
    return STATUS_NO_MEMORY;
  }
  *ret_observer = observer;
  return STATUS_OK;
}

void observer_destroy(struct observer **reference) {
  struct observer *observer = *reference;
  if (observer == NULL) return;
  keys_destroy(&observer->keys);
  map_destroy(&observer->open);
  free(observer->residences);
  free(observer->chain);
  free(observer->message);
  free(observer);
  *reference = NULL;
}

/* Keys of the full blocks of tokens[n] in observer->chain; their count. Out of memory: fewer blocks. */
static uint32_t chain_of(struct observer *observer, uint32_t tenant, const block_key *parent, const int32_t *tokens,
                         uint32_t n) {
  uint32_t blocks = n / BLOCK_TOKENS;
  if (blocks > observer->chain_max) {
    block_key *chain = realloc(observer->chain, blocks * sizeof *chain);
    if (chain != NULL) {
      observer->chain = chain;
      observer->chain_max = blocks;
    } else {
      blocks = observer->chain_max;
    }
  }
  return keys_chain(observer->keys, observer->config.salts[tenant], observer->config.compat, parent, tokens,
                    blocks * BLOCK_TOKENS, BLOCK_TOKENS, observer->chain);
}

/* A handle for the run, whose name is the key of all of it, its tail included; 0: not kept. Call after chain_of. */
static uint64_t keep(struct observer *observer, uint32_t tenant, const int32_t *tokens, uint32_t n, uint32_t n_blocks) {
  uint32_t tail = n - n_blocks * BLOCK_TOKENS;
  const block_key *last = n_blocks > 0 ? &observer->chain[n_blocks - 1] : NULL;
  block_key name = keys_extend(observer->keys, observer->config.salts[tenant], observer->config.compat, last,
                               tokens + n_blocks * BLOCK_TOKENS, tail);
  uint64_t handle = 0;
  (void)!materials_keep(observer->config.materials, tenant, name, tokens, n, &handle);
  return handle;
}

/* ── on the plan thread ── */

/* The tokens lie behind the event, the keys behind them. */
static void run_ask(struct plan *plan, void *ctx) {
  struct ask *ask = ctx;
  uint32_t n_tokens = ask->token_ids != NULL ? ask->prompt_tokens : 0;
  if (n_tokens > 0) ask->token_ids = (const int32_t *)(const void *)(ask + 1);
  ask->keys = planner_keys(ctx, sizeof *ask + n_tokens * sizeof(int32_t));
  (void)!plan_ask(plan, ask);
}

static void run_outcome(struct plan *plan, void *ctx) {
  struct outcome *outcome = ctx;
  uint32_t n_tokens = outcome->next_token_ids != NULL ? outcome->next_tokens : 0;
  if (n_tokens > 0) outcome->next_token_ids = (const int32_t *)(const void *)(outcome + 1);
  outcome->next_keys = planner_keys(ctx, sizeof *outcome + n_tokens * sizeof(int32_t));
  plan_outcome(plan, outcome);
}

static void run_segment(struct plan *plan, void *ctx) {
  struct segment_event *event = ctx;
  event->keys = planner_keys(ctx, sizeof *event);
  plan_segment(plan, event);
}

struct sample {
  enum { SAMPLE_PREFILL, SAMPLE_RESTORE, SAMPLE_DECODE } kind;
  uint32_t n, depth;
  enum tier tier;
  uint64_t bytes;
  double seconds;
};

static void run_sample(struct plan *plan, void *ctx) {
  const struct sample *sample = ctx;
  switch (sample->kind) {
  case SAMPLE_PREFILL:
    plan_prefill_sample(plan, sample->n, sample->depth, sample->seconds);
    break;
  case SAMPLE_RESTORE:
    plan_restore_sample(plan, sample->tier, sample->bytes, sample->seconds);
    break;
  case SAMPLE_DECODE:
    plan_decode_sample(plan, sample->n, sample->seconds);
    break;
  }
}

/* ── on the loop thread ── what the planner cannot take it counts itself. */

/* The event and the tokens behind it, in observer->message; NULL: no memory. */
static void *message_of(struct observer *observer, const void *event, size_t size, const int32_t *tokens,
                        uint32_t n_tokens) {
  size_t needed = size + n_tokens * sizeof *tokens;
  if (needed > observer->message_max) {
    char *message = realloc(observer->message, needed);
    if (message == NULL) return NULL;
    observer->message = message;
    observer->message_max = needed;
  }
  memcpy(observer->message, event, size);
  if (n_tokens > 0) memcpy(observer->message + size, tokens, n_tokens * sizeof *tokens);
  return observer->message;
}

void observer_asked(struct observer *observer, const struct backend_ask *ask) {
  struct ask told = {.request = ask->request,
                     .at_us = clock_unix_us(),
                     .tenant = ask->tenant,
                     .session = ask->session,
                     .turn = ask->turn,
                     .prompt_tokens = ask->n_tokens,
                     .head_tokens = ask->head_tokens,
                     .document_tokens = ask->document_tokens,
                     .may_learn = ask->may_learn,
                     .may_prepare = ask->may_prepare};
  told.n_blocks = chain_of(observer, ask->tenant, NULL, ask->tokens, ask->n_tokens);
  if (ask->may_learn) told.material = keep(observer, ask->tenant, ask->tokens, ask->n_tokens, told.n_blocks);
  told.keys = observer->chain;
  (void)!map_set(observer->open, map_key_of(ask->request), ask->tenant | (ask->may_learn ? OPEN_LEARNS : 0));
  if (observer->config.history != NULL && ask->may_learn) history_ask(observer->config.history, &told);
  told.token_ids = ask->n_tokens > 0 ? ask->tokens : NULL;
  uint32_t n_tokens = told.token_ids != NULL ? ask->n_tokens : 0;
  const void *message = message_of(observer, &told, sizeof told, ask->tokens, n_tokens);
  if (message == NULL) return;
  (void)!planner_run_keys(observer->config.planner, run_ask, message, sizeof told + n_tokens * sizeof *ask->tokens,
                          observer->chain, told.n_blocks, true);
}

void observer_ended(struct observer *observer, const struct outcome *outcome, const int32_t *next_tokens,
                    uint32_t n_next) {
  struct outcome told = *outcome;
  uint64_t open = 0;
  bool learns = map_remove(observer->open, map_key_of(outcome->request), &open) && (open & OPEN_LEARNS) != 0;
  uint32_t tenant = (uint32_t)open;
  told.next_material = 0;
  told.next_tokens = 0;
  told.n_next = 0;
  if (learns && next_tokens != NULL && n_next > 0) {
    told.n_next = chain_of(observer, tenant, NULL, next_tokens, n_next);
    told.next_tokens = n_next;
    told.next_material = keep(observer, tenant, next_tokens, n_next, told.n_next);
  }
  if (observer->config.history != NULL && learns) history_outcome(observer->config.history, &told);
  told.next_token_ids = told.next_tokens > 0 ? next_tokens : NULL;
  const void *message = message_of(observer, &told, sizeof told, next_tokens, told.next_tokens);
  if (message == NULL) return;
  (void)!planner_run_keys(observer->config.planner, run_outcome, message,
                          sizeof told + told.next_tokens * sizeof *next_tokens, observer->chain, told.n_next, true);
}

void observer_segment(struct observer *observer, const struct depot_event *event) {
  struct segment_event told = {.at_us = clock_unix_us(),
                               .segment = event->segment,
                               .parent = event->parent,
                               .tier = event->tier,
                               .is_present = event->is_present,
                               .tenant = event->tenant,
                               .from = event->from,
                               .to = event->to,
                               .bytes = event->bytes,
                               .task = event->task};
  told.n_blocks = chain_of(observer, event->tenant, event->from > 0 ? &event->parent_key : NULL, event->tokens,
                           event->to - event->from);
  (void)!planner_run_keys(observer->config.planner, run_segment, &told, sizeof told, observer->chain, told.n_blocks,
                          true);
}

void observer_residence(struct observer *observer, const struct reuse_residence *residence) {
  uint64_t *place = &observer->residences[residence->seq];
  struct segment_event told = {.at_us = clock_unix_us(), .tier = TIER_DEVICE, .tenant = residence->tenant};
  if (*place != 0) {
    told.segment = *place;
    (void)!planner_run_keys(observer->config.planner, run_segment, &told, sizeof told, NULL, 0, false);
    *place = 0;
  }
  if (residence->n_tokens == 0) return;
  told.segment = *place = observer->next_residence++;
  told.is_present = true;
  told.to = residence->n_tokens;
  told.bytes = residence->n_tokens * observer->config.bytes_per_token;
  told.task = residence->task;
  told.n_blocks = chain_of(observer, residence->tenant, NULL, residence->tokens, residence->n_tokens);
  (void)!planner_run_keys(observer->config.planner, run_segment, &told, sizeof told, observer->chain, told.n_blocks,
                          false);
}

static void tell_sample(struct observer *observer, struct sample sample) {
  (void)!planner_run(observer->config.planner, run_sample, &sample, sizeof sample, false);
}

void observer_prefill_sample(struct observer *observer, uint32_t n, uint32_t depth, double seconds) {
  tell_sample(observer, (struct sample){.kind = SAMPLE_PREFILL, .n = n, .depth = depth, .seconds = seconds});
}

void observer_restore_sample(struct observer *observer, enum tier tier, uint64_t bytes, double seconds) {
  tell_sample(observer, (struct sample){.kind = SAMPLE_RESTORE, .tier = tier, .bytes = bytes, .seconds = seconds});
}

void observer_decode_sample(struct observer *observer, uint32_t tokens, double seconds) {
  tell_sample(observer, (struct sample){.kind = SAMPLE_DECODE, .n = tokens, .seconds = seconds});
}

enum status observer_wish(struct observer *observer, uint32_t tenant, const int32_t *tokens, uint32_t n,
                          struct order *ctx, size_t ctx_size, void (*work)(struct plan *plan, void *ctx)) {
  ctx->tenant = tenant;
  ctx->tokens = n;
  ctx->n_blocks = chain_of(observer, tenant, NULL, tokens, n);
  ctx->material = keep(observer, tenant, tokens, n, ctx->n_blocks);
  return planner_run_keys(observer->config.planner, work, ctx, ctx_size, observer->chain, ctx->n_blocks, true);
}
