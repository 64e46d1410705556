/* The plan thread: owns the plan, runs work handed to it in order, ticks every second and after events, and hands the
 * actions back to the loop thread. The only caller of plan/. Decides nothing itself. */
#ifndef FORELAY_DAEMON_PLANNER_H
#define FORELAY_DAEMON_PLANNER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "plan/plan.h"

struct planner;

/* Runs `fn(ctx)` on the loop thread; any thread may call it. */
typedef bool planner_post_fn(void *post_ctx, void (*fn)(void *ctx), void *ctx);

struct planner_config {
  struct plan_config plan;
  size_t queue_max;      /* works waiting; 0: 65,536 */
  planner_post_fn *post; /* to the loop */
  void *post_ctx;
  /* On the loop thread; actions are borrowed for the call. */
  void (*actions)(void *actions_ctx, const struct action *actions, size_t n);
  void *actions_ctx;
};

/* Creates the plan; works may be posted, none runs before planner_start. */
MUST_USE enum status planner_open(const struct planner_config *config, struct planner **ret_planner,
                                  struct error *error);
/* The plan itself, for loading rows before planner_start. */
struct plan *planner_plan(struct planner *planner);
MUST_USE enum status planner_start(struct planner *planner, struct error *error);
/* Runs what is queued, then joins the thread; the plan can then be read through planner_plan. */
void planner_stop(struct planner *planner);
void planner_close(struct planner **planner);

/* Runs work(plan, ctx) on the plan thread, in order. `ctx` of ctx_size bytes is copied; ctx_size 0: the pointer itself
 * is handed over. `is_event`: a tick should follow soon. STATUS_FULL: dropped and counted (then nothing is called). Any
 * thread; never blocks. */
typedef void planner_work(struct plan *plan, void *ctx);
MUST_USE enum status planner_run(struct planner *planner, planner_work *work, const void *ctx, size_t ctx_size,
                                 bool is_event);
/* The same with a copy of keys[n] behind ctx; work finds it with planner_keys(ctx, ctx_size). */
MUST_USE enum status planner_run_keys(struct planner *planner, planner_work *work, const void *ctx, size_t ctx_size,
                                      const block_key *keys, uint32_t n, bool is_event);
static inline const block_key *planner_keys(const void *ctx, size_t ctx_size) {
  return (const block_key *)(const void *)((const char *)ctx + ((ctx_size + 15) & ~(size_t)15));
}
/* What the machine is doing now; read by the next tick. */
void planner_set_load(struct planner *planner, const struct load *load);
uint64_t planner_dropped(struct planner *planner);

#endif
