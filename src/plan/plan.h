/* The planner: events in, decisions out. The only room that sees all deciding rooms, and the only face of the deciding
 * half that the daemon and the replay know. No clock, no I/O, no threads: `now_us` and `at_us` are Unix microseconds
 * handed in and never decrease (an earlier one is taken as the last one). One thread at a time; owns all its state.
 *
 * One request: plan_ask when its prompt is tokens, plan_outcome when it ended. One tick: plan_tick, then the actions
 * are carried out, and what came of them returns as plan_segment, plan_task_event and the samples. */
#ifndef FORELAY_PLAN_PLAN_H
#define FORELAY_PLAN_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "domain/observation.h"
#include "domain/price.h"
#include "domain/residence.h"
#include "domain/task.h"
#include "domain/totals.h"

struct plan;

enum policy {
  POLICY_FORELAY = 0, /* everything of DESIGN section 6 */
  POLICY_LRU,         /* reactive: nothing is prepared but orders, leaf-first least recently used */
  POLICY_FREQUENCY,   /* LRU retention; prepares the top prefixes by decayed frequency, ungated (baseline) */
  POLICY_WORKLOAD, /* workload-aware: exponential reuse model per category and turn, retention and prefetch (baseline)
                    */
  POLICY_COUNT
};
const char *policy_name(enum policy policy);
/* POLICY_COUNT when the name is none of them. */
enum policy policy_of_name(const char *name);

struct plan_config {
  enum policy policy;
  bool prepare;            /* false: reactive only (policy lru whatever `policy` says), orders answered but not begun */
  double holdout;          /* share of units withheld at random, 0 … 1 */
  uint8_t holdout_key[32]; /* secret of the draw: units by HMAC are drawn by the daemon's `draw` below */
  /* Uniform in [0,1) for (unit, day), the same every time: HMAC-SHA-256 lives outside the pure half. Required. */
  double (*draw)(void *draw_ctx, uint64_t unit, uint32_t day);
  void *draw_ctx;
  struct budget budget;
  struct price price;
  uint32_t block_tokens;    /* normally BLOCK_TOKENS */
  uint64_t bytes_per_token; /* KV bytes, > 0 */
  uint32_t sequences;       /* device sequences; device capacity in tokens is budget.device_bytes / bytes_per_token */
  uint32_t nodes_max;       /* prefix forest, e.g. 1 << 18 */
  uint32_t tasks_max;       /* records kept, oldest ended dropped first, e.g. 4096 */
  double horizons_s[3];     /* increasing, e.g. 60, 600, 3600 */
  uint64_t first_task;      /* smallest id to give, ≥ 1 */
  bool exact_reuse;         /* the engine reuses canonical tokens only; so do the caches that are simulated */
};

/* *ret_plan is the caller's to destroy. STATUS_INVALID names the field in `error` (may be NULL). */
MUST_USE enum status plan_create(const struct plan_config *config, struct plan **ret_plan, struct error *error);
void plan_destroy(struct plan **plan);

/* ── events ── all O(blocks) or O(log n); borrowed data is not kept. */
MUST_USE enum status plan_ask(struct plan *plan, const struct ask *ask);
void plan_outcome(struct plan *plan, const struct outcome *outcome);
void plan_segment(struct plan *plan, const struct segment_event *event);

struct task_event {
  uint64_t task;
  uint64_t at_us;
  enum task_state state; /* WAITING, RUNNING (also progress), READY, CANCELLED, FAILED */
  uint32_t tokens_done;  /* restored, found or computed so far */
  uint32_t tokens_computed;
  double spent_seconds; /* engine seconds so far */
  uint64_t bytes_moved;
  const char *reason; /* one line, may be NULL */
};
void plan_task_event(struct plan *plan, const struct task_event *event);

/* What the engine reported: n tokens computed behind `depth` others took `seconds`; feeds cost. */
void plan_prefill_sample(struct plan *plan, uint32_t n, uint32_t depth, double seconds);
void plan_restore_sample(struct plan *plan, enum tier tier, uint64_t bytes, double seconds);
void plan_decode_sample(struct plan *plan, uint32_t tokens, double seconds);

/* ── wishes of users ── */
struct order {
  uint64_t at_us;
  uint32_t tenant;
  enum kind kind;
  enum tier tier;  /* TIER_RAM where the caller did not say */
  uint32_t tokens; /* whole prefix to make ready */
  uint32_t n_blocks;
  const block_key *keys; /* [n_blocks] */
  uint64_t material;
  uint64_t by_us; /* wanted by; 0: now */
  uint64_t draft; /* > 0: a draft still growing; the next order with this number takes the place of this one */
};
/* An order is a task at once: never withheld, never gated by value; the next tick starts it.
 * STATUS_TOO_LONG: larger than the tier's budget; STATUS_FULL: too many open orders. `error` says which. */
MUST_USE enum status plan_order(struct plan *plan, const struct order *order, uint64_t *ret_task, struct error *error);

struct announcement {
  struct order prefix; /* what will be asked for; by_us: when (first time) */
  uint64_t every_us;   /* 0: once */
  uint32_t count;      /* requests expected each time, ≥ 1 */
};
MUST_USE enum status plan_announce(struct plan *plan, const struct announcement *announcement, uint64_t *ret_id,
                                   struct error *error);
/* A document that may be asked about: prepared when that is worth it. prefix.n_blocks 0: only counted. */
MUST_USE enum status plan_document(struct plan *plan, const struct order *prefix, uint64_t document, uint64_t *ret_task,
                                   struct error *error);
/* Keeps a prefix in its tier until `until_us`; refused (STATUS_FULL) beyond half of the tier. */
MUST_USE enum status plan_pin(struct plan *plan, const struct order *prefix, uint64_t until_us, struct error *error);
/* STATUS_NOT_FOUND for another tenant's task too; `any_tenant` for the operator. */
MUST_USE enum status plan_cancel(struct plan *plan, uint64_t task, uint32_t tenant, bool any_tenant, uint64_t now_us);

/* ── decisions ── */
enum action_kind {
  ACTION_PREFILL = 0, /* compute tokens [0, tokens) of material in the speculative lane, then keep them in `tier` */
  ACTION_PROMOTE,     /* bring the prefix's segments from SSD to RAM */
  ACTION_DEMOTE,      /* write `segment` to SSD; RAM keeps it until evicted */
  ACTION_EVICT,       /* drop `segment` from `tier` */
  ACTION_CANCEL,      /* stop `task` if it has not finished */
  ACTION_KIND_COUNT
};

struct action {
  enum action_kind kind;
  uint64_t task;    /* the record it belongs to, 0: none */
  uint64_t segment; /* DEMOTE, EVICT */
  enum tier tier;
  uint32_t tenant;
  uint64_t material; /* PREFILL, PROMOTE */
  uint32_t tokens;
  bool is_order;
  double value; /* expected net benefit, for order of work: larger first */
};

/* What the machine is doing, as the doing half sees it. */
struct load {
  uint32_t running;      /* real requests in the engine */
  uint32_t waiting;      /* real requests queued */
  uint32_t preparations; /* PREFILL actions handed over and not ended */
  double idle_share;     /* of engine time over the last minute, 0 … 1 */
  uint64_t used_bytes[TIER_COUNT];
};

/* At most `max` actions, in the order they should be carried out. Actions not returned come at the next tick. */
MUST_USE enum status plan_tick(struct plan *plan, const struct load *load, uint64_t now_us, struct action *ret_actions,
                               size_t max, size_t *ret_n);
/* When plan_tick next has something to do by itself; UINT64_MAX: only after events. */
uint64_t plan_next_due_us(const struct plan *plan, uint64_t now_us);
/* Which segments to drop so that `bytes` fit into `tier`: leaves first, by value under the proven guard. `task` is the
 * preparation that needs the room (its value is compared with what would be displaced), 0 for a real request's state.
 * STATUS_FULL: not worth it or impossible; the newcomer is not kept. */
MUST_USE enum status plan_make_room(struct plan *plan, enum tier tier, uint64_t bytes, uint64_t task, uint64_t now_us,
                                    uint64_t *ret_segments, size_t max, size_t *ret_n);
/* Segments in the order in which they deserve to be written at shutdown; at most max. */
size_t plan_flush_order(const struct plan *plan, uint64_t *ret_segments, size_t max);

/* ── questions ── valid until the next call that changes the plan. */
MUST_USE enum status plan_task(const struct plan *plan, uint64_t id, struct task *ret_task);
/* Newest first; returns how many were written. tenant UINT32_MAX: all. */
size_t plan_tasks(const struct plan *plan, uint32_t tenant, struct task *ret_tasks, size_t max);
/* axis ACCOUNT_ALL: index 0; KIND: enum kind; LAYER: enum layer; TENANT: tenant index. Zeros where nothing happened. */
void plan_totals(const struct plan *plan, enum account_axis axis, uint32_t index, struct totals *ret_totals);
/* Hit tokens by tier of real requests (their sum is totals.hit_tokens). */
void plan_hits(const struct plan *plan, double ret_hit_tokens[TIER_COUNT]);

struct plan_prefix {
  uint32_t tenant;
  enum kind kind;
  uint32_t from_tokens, tokens; /* of its parent; of the whole prefix */
  double asks;                  /* discounted count */
  double probability;           /* of an ask within horizons_s[1] */
  uint64_t last_us;
  enum tier tier; /* fastest in which all of it lies, TIER_NONE */
  uint64_t material;
};
/* The most valuable prefixes, best first. tenant UINT32_MAX: all. */
size_t plan_prefixes(const struct plan *plan, uint32_t tenant, uint64_t now_us, struct plan_prefix *ret, size_t max);

struct plan_status {
  uint64_t asks, ticks, actions, nodes, segments;
  double prefill_alpha_s, prefill_beta_s; /* seconds a token; seconds a token squared */
  double restore_bytes_per_s[TIER_COUNT];
  bool cost_is_default;
  double account_usd, account_cap_usd; /* what may be spent now; its cap */
  double multipliers[TIER_COUNT];      /* USD a byte and hour of a tier; index 0: USD a speculative second */
  double calibration_error, brier;     /* expected calibration error of forecasts so far; 0 while too few */
  uint64_t forecasts_scored;
  double guard_credit; /* A − Φ of the retention guard of RAM */
  double holdout_effect_seconds, holdout_lower_seconds, holdout_upper_seconds; /* per asked unit; 0 while too few */
  uint64_t holdout_units;
};
void plan_status(const struct plan *plan, struct plan_status *ret_status);
void plan_budget(const struct plan *plan, struct budget *ret_budget);
/* STATUS_INVALID names the field. Takes effect at the next tick. */
MUST_USE enum status plan_set_budget(struct plan *plan, const struct budget *budget, struct error *error);

/* ── memory across restarts ── one row at a time, opaque text of at most PLAN_ROW_SIZE bytes without newline. */
enum { PLAN_ROW_SIZE = 4096 };
/* Calls row() for each; stops early when it returns false. Ledger totals, learned parameters and prefixes worth
 * keeping. */
void plan_save(const struct plan *plan, bool (*row)(void *ctx, const char *text), void *ctx);
/* Takes rows in the order they were saved. A row of another version or a broken one is STATUS_INVALID and changes
 * nothing. */
MUST_USE enum status plan_load(struct plan *plan, const char *text);

#endif
