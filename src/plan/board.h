/* What the files of plan/ share: the planner's whole state, and the steps they ask of each other. Internal to plan/. */
#ifndef FORELAY_PLAN_BOARD_H
#define FORELAY_PLAN_BOARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/heap.h"
#include "base/map.h"
#include "base/number.h"
#include "cost/cost.h"
#include "demand/demand.h"
#include "ledger/accounts.h"
#include "ledger/holdout.h"
#include "ledger/spending.h"
#include "place/retention.h"
#include "plan/docket.h"
#include "plan/plan.h"
#include "plan/presence.h"
#include "plan/rivals.h"
#include "plan/taskbook.h"
#include "prefix/forest.h"

enum {
  REQUESTS_MAX = 1024,    /* under way */
  SEGMENTS_MAX = 1 << 18, /* known in all tiers */
  TENANTS_MAX = 4096,
  PINS_MAX = 256,
  ANNOUNCEMENTS_MAX = 1024,
  GONE_MAX = 8192,
  PROMOTIONS_MAX = 16,
  DRAFTS_MAX = 256,
  LAUNCHES_MAX = 256, /* preparations that wait for being handed out */
  FLIGHTS_MAX = 8,    /* PREFILL actions handed out and not ended; of those that are no orders: */
  SPECULATIVE_FLIGHTS_MAX = 2,
  DEMOTIONS_MAX = 1024 /* segments waiting to be written to SSD */
};

struct pin {
  block_key *keys; /* [n_blocks], owned; NULL: free */
  uint32_t n_blocks;
  uint64_t bytes;
  uint64_t until_us;
  enum tier tier;
};

/* A node kept in the forest for as long as somebody announced it. */
struct promise {
  uint64_t id; /* of the announcement; 0: free */
  uint32_t node;
  uint64_t last_us; /* UINT64_MAX: repeats */
};

/* Bookings leave room for estimates that were too low; work beyond them is cancelled. */
#define TASK_BOOKING_MARGIN 1.5

/* What the planner remembers of a node of the forest beside its statistics. */
struct note {
  uint64_t task;          /* open preparation of exactly this prefix, 0: none */
  uint64_t session;       /* of the conversation that is expected to go on here, 0: none */
  uint64_t rest_until_us; /* not looked at before */
  uint64_t wake_us;       /* while it is in plan.wakes: its time there */
  uint32_t tokens;        /* of the prefix with its tail below a block, 0: full blocks only */
  bool has_tokens;        /* the forest's material of it was told in this life, so that the daemon knows it */
  bool is_unwanted;       /* x-forelay-prepare: off in the turn before */
};

struct workload;

/* What preparations of a kind brought against what was expected of them, discounted. */
struct yield {
  double predicted_s, realized_s;
  uint64_t at_us; /* of the discount */
};

struct plan {
  struct plan_config config; /* the budget inside is the current one */
  enum policy policy;        /* lru where prepare is off */
  uint64_t now_us;           /* largest time told so far */
  struct cost *cost;
  struct retention *retention;
  struct accounts *accounts;
  struct holdout *holdout;
  struct spending spending; /* in engine seconds */
  struct presence *presence;
  struct taskbook *taskbook;
  struct docket *docket;
  struct forest *forest;
  struct demand *demand;
  struct note *notes; /* [n_notes]: by node */
  uint32_t *items;    /* [n_notes]: scratch of candidates.c, all 0 between calls */
  uint32_t n_notes;
  struct heap *wakes;        /* node → microseconds: looked at again then */
  struct heap *revalues;     /* place of a held segment → microseconds: valued anew then */
  struct rivals *rivals;     /* S0 and S1 */
  struct workload *workload; /* NULL under other policies */
  struct promise promises[ANNOUNCEMENTS_MAX];
  double ram_rate_bytes_per_s; /* entering RAM, discounted; sets how far ahead retention looks */
  uint64_t ram_entered_us;
  block_key gone[GONE_MAX]; /* blocks that were seen leaving, until it is sure that they did not only move */
  uint32_t n_gone;
  struct map *leaving; /* those of gone[] that have not come back */
  block_key *keys;     /* [keys_size]: scratch for one prefix */
  uint32_t keys_size;
  block_key *units; /* [units_size]: scratch of room.c */
  uint32_t units_size;
  struct map *task_ends; /* end key → number of the open or ready preparation that is to reach it */
  struct map *drafts;    /* draft and tenant → number of its newest task */
  struct heap *expiries; /* place of a ready preparation → microseconds */
  struct load load;      /* as of the last tick */
  struct pin pins[PINS_MAX];
  uint64_t pinned_bytes[TIER_COUNT];
  uint64_t held_bytes;             /* of RAM, by preparations that are ready and wait to be asked for */
  uint64_t launches[LAUNCHES_MAX]; /* numbers of planned tasks: orders first, each in order of arrival */
  uint32_t n_launches, n_order_launches;
  uint64_t flights[FLIGHTS_MAX]; /* numbers of tasks that the executor has */
  uint32_t n_flights;
  uint64_t cancels[LAUNCHES_MAX]; /* numbers of tasks whose CANCEL has to be handed out */
  uint32_t n_cancels;
  struct action promotions[PROMOTIONS_MAX]; /* to be handed out */
  uint32_t n_promotions;
  uint64_t demotions[DEMOTIONS_MAX]; /* ring of segment ids */
  uint32_t first_demotion, n_demotions;
  uint64_t demoted_bytes; /* handed out on demotion_day */
  uint32_t demotion_day;
  struct yield yields[KIND_COUNT];
  uint64_t overhead_bytes[TIER_COUNT]; /* what a tier uses beyond the segments told, as of the last tick */
  double idle_bucket_s;                /* speculative seconds that the idle fraction allows now */
  uint32_t spent_day;                  /* of spent_day_seconds */
  double spent_day_seconds;            /* speculative, orders included */
  uint64_t ticked_us;                  /* last tick, 0: none */
  double displaced_usd_per_byte;       /* running mean of what victims were worth: the multiplier of RAM */
  double second_usd;                   /* multiplier of a speculative second, of the last selection */
  uint64_t n_ticks, n_actions, n_asks;
};

/* Time never runs backwards: an earlier one is taken as the last one. */
uint64_t board_advance(struct plan *plan, uint64_t at_us);
/* w: USD of a second that a user does not wait, with the queue as it is. */
double board_saved_second_usd(const struct plan *plan);
/* The newest coefficients and prices, for the ledger. */
void board_update_rates(struct plan *plan);
/* Bytes that the budget allows in a tier. */
uint64_t board_tier_limit(const struct plan *plan, enum tier tier);
uint64_t board_tier_bytes(const struct plan *plan, enum tier tier);

/* Keys of the node's whole prefix into plan->keys; 0: out of memory. */
uint32_t board_prefix(struct plan *plan, uint32_t node);

/* ── room.c ── */
/* Retention and its guard reckon in stored segments: of keys[n], the n blocks from block `first` of a prefix on, those
 * that end a segment or end the run. Borrowed until the next call; *ret_n of them, 0 when out of memory. */
const block_key *room_units(struct plan *plan, const block_key *keys, uint32_t n, uint32_t first, uint32_t *ret_n);
/* Tells retention of a segment as presence has it. */
MUST_USE enum status room_stored(struct plan *plan, const struct segment_event *event, uint32_t traffic);
/* Bytes that may still be prepared before somebody asks for some. */
double room_unproven_left(struct plan *plan);
/* Whether a preparation of so many bytes and such a value would find room in RAM now. */
bool room_is_likely(struct plan *plan, uint64_t bytes, double value_usd);

/* ── tasks.c: the life of a record ── */
/* What a new preparation is to be; keys are copied. */
struct task_spec {
  enum kind kind;
  uint32_t tenant;
  bool is_order;
  enum tier tier;
  const block_key *keys;
  uint32_t n_blocks, tokens, tokens_new;
  uint64_t material;
  uint32_t node; /* of the forest, FOREST_NONE: none */
  uint64_t draft;
  double probability, predicted_seconds, cost_seconds, displaced_seconds, value_usd;
  uint64_t deadline_us, expires_us;
};
/* A record in state PLANNED that is in nobody's queue yet. */
MUST_USE enum status task_create(struct plan *plan, const struct task_spec *spec, struct task_record **ret_record);
/* Sets what a planned record is to be anew; its keys stay. */
void task_plan(struct plan *plan, struct task_record *record, const struct task_spec *spec);
/* Whether the spending account covers it. */
bool task_is_covered(const struct plan *plan, const struct task_spec *spec);
/* Books what it may cost and queues it for the executor; false when too many wait or the account does not cover it. */
bool task_launch(struct plan *plan, struct task_record *record);
/* Moves a record, keeps ledger, account and prospect in step; an arrow that does not exist changes nothing. reason may
 * be NULL: stays. */
void task_move(struct plan *plan, struct task_record *record, enum task_state state, const char *reason);
/* A request was served by it. */
void task_credit(struct plan *plan, struct task_record *record, uint32_t used_tokens, double realized_seconds);
/* Its prefix was asked for by a request before it was finished: not worth doing any more. */
void task_overtake(struct plan *plan, struct task_record *record);
/* Has its CANCEL handed out, or ends it where the executor has not seen it. */
void task_withdraw(struct plan *plan, struct task_record *record, const char *reason);
/* Factor between what preparations of this kind bring and what forecasts say, 1 while nothing is known. */
double task_yield(const struct plan *plan, enum kind kind);
/* Ends what has outlived its time, or its executor. */
void tasks_expire(struct plan *plan);

/* ── orders.c ── */
/* Pins what a user's pin covers, for a segment that came to lie somewhere. */
void pins_apply(struct plan *plan, const struct held_segment *segment);
void pins_expire(struct plan *plan);
void pins_release(struct plan *plan);
void promises_expire(struct plan *plan);

/* ── observe.c ── */
void observe_presence(void *ctx, const struct held_segment *segment, block_key key, bool is_held);
/* Blocks that left and did not come back since are gone: their preparations are told. */
void observe_gone(struct plan *plan);
void observe_split(void *ctx, uint32_t upper, uint32_t lower);
void observe_prune(void *ctx, uint32_t node);
/* The tokens of these nodes were told just now. */
void observe_materials(struct plan *plan, const struct forest_path *path);
/* The node is to be looked at not later than due_us. */
void observe_wake(struct plan *plan, uint32_t node, uint64_t due_us);

/* ── valuation.c: what a prefix is worth ── */
struct worth {
  double probability;       /* of an ask after it is finished, within its life */
  double predicted_seconds; /* expected benefit to requests */
  double cost_seconds;      /* engine seconds of its own tokens */
  double value_usd;         /* net of everything but multipliers */
  double life_s;
  enum tier tier;
  bool is_early; /* announced or periodic, and its time has not come */
};
/* Of preparing the node's own missing tokens [from, to): finish_s until they and what they stand on are ready. */
void worth_of_node(struct plan *plan, uint32_t node, uint32_t from, uint32_t to, double finish_s, struct worth *ret);
/* Worth of keeping one block that lies at block `depth` of its prefix, in USD a byte. *node: where it was last found,
 * corrected; FOREST_NONE: not known, worth 0. */
double worth_of_block(struct plan *plan, uint32_t *node, block_key key, uint32_t depth);
/* Node that holds the block, starting from where it was last found; FOREST_NONE. */
uint32_t valuation_node_of(const struct plan *plan, uint32_t hint, block_key key, uint32_t depth);
/* Values a held segment now and says when to do it again. */
void valuation_of_segment(struct plan *plan, struct held_segment *segment);
/* Values those segments whose time has come, at most n. */
void valuation_refresh(struct plan *plan, uint32_t n);
/* How far ahead keeping looks, in seconds. */
double valuation_residence_s(const struct plan *plan);
/* What the node is prepared as. */
enum kind valuation_kind(const struct plan *plan, uint32_t node);
/* Of the holdout: the node's own unit last, shared heads it lies behind first; returns how many, ≤ HOLDOUT_PATH_MAX. */
uint32_t valuation_units(const struct plan *plan, uint32_t node, uint64_t *ret_units);

/* ── candidates.c: due nodes → tasks ── */
void candidates_choose(struct plan *plan);
/* Whether money and joules of the day allow more. */
bool task_day_allows(const struct plan *plan);
/* Whether a further speculative preparation may begin now. */
bool tick_may_speculate(const struct plan *plan);

/* ── frequency.c, workload.c: the baselines' way of the same ── */
void frequency_choose(struct plan *plan);
void workload_choose(struct plan *plan);
MUST_USE enum status workload_create(struct workload **ret_workload);
void workload_destroy(struct workload **workload);
void workload_ask(struct plan *plan, const struct ask *ask);
void workload_outcome(struct plan *plan, const struct docket_entry *entry, const struct outcome *outcome);
/* Class of traffic that a segment came from, below RETENTION_CLASSES. */
uint32_t workload_class_of(const struct plan *plan, const struct held_segment *segment);

#endif
