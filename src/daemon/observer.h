/* Turns what the loop thread sees into events for the planner and rows for the history: requests, outcomes, segments
 * that come and go, samples of cost. Computes block keys; keeps the tokens behind them. Loop thread only; never blocks.
 */
#ifndef FORELAY_DAEMON_OBSERVER_H
#define FORELAY_DAEMON_OBSERVER_H

#include <stdint.h>

#include "base/status.h"
#include "domain/observation.h"
#include "engine/engine.h"
#include "engine/reuse.h"
#include "gateway/backend.h"
#include "plan/plan.h"
#include "store/depot.h"

struct history;
struct keys;
struct materials;
struct observer;
struct planner;

struct observer_config {
  struct planner *planner; /* borrowed, as everything here */
  struct history *history; /* NULL: none */
  struct materials *materials;
  const uint8_t (*salts)[32]; /* [n_tenants] */
  uint32_t n_tenants;
  uint8_t compat[32];
  uint64_t bytes_per_token;
  uint32_t sequences;
};

MUST_USE enum status observer_create(const struct observer_config *config, struct observer **ret_observer);
void observer_destroy(struct observer **observer);

void observer_asked(struct observer *observer, const struct backend_ask *ask);
void observer_ended(struct observer *observer, const struct outcome *outcome, const int32_t *next_tokens,
                    uint32_t n_next);
void observer_segment(struct observer *observer, const struct depot_event *event);
void observer_residence(struct observer *observer, const struct reuse_residence *residence);
void observer_prefill_sample(struct observer *observer, uint32_t n, uint32_t depth, double seconds);
void observer_restore_sample(struct observer *observer, enum tier tier, uint64_t bytes, double seconds);
void observer_decode_sample(struct observer *observer, uint32_t tokens, double seconds);

/* Keeps the tokens of a wish and runs work(plan, ctx) with their keys on the plan thread: ctx must begin with a struct
 * order, in which tenant, tokens, n_blocks and material are filled in; its keys are planner_keys(ctx, ctx_size). */
MUST_USE enum status observer_wish(struct observer *observer, uint32_t tenant, const int32_t *tokens, uint32_t n,
                                   struct order *ctx, size_t ctx_size, void (*work)(struct plan *plan, void *ctx));

#endif
