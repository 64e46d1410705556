/* The books: the only place where counts of tokens, seconds and money are made. Each request is booked against the
 * reactive shadow S0 and against S1, our retention without preparation, both of the full capacity; the caller simulates
 * them and hands in what they had. Each preparation is booked with what it was expected to bring, what it cost, and
 * which of its tokens a request asked for. Never decides anything, never sees state bytes. One thread at a time. Owns
 * its records.
 *
 * Identities that hold after every call, in every account: hit + computed = prompt, hit ≤ prompt, used + wasted ≤
 * prepared, net = realized − speculative; the accounts of an axis add up to ACCOUNT_ALL. */
#ifndef FORELAY_LEDGER_ACCOUNTS_H
#define FORELAY_LEDGER_ACCOUNTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "domain/block.h"
#include "domain/observation.h"
#include "domain/task.h"
#include "domain/totals.h"

struct accounts;

struct accounts_config {
  uint32_t block_tokens; /* ≥ 1 */
  uint32_t requests_max; /* between arrival and end; past it the oldest is forgotten and never booked */
  uint32_t blocks_max;   /* prepared blocks remembered with their task; past it a block counts as never asked for */
  uint32_t tasks_max;    /* preparations with open tokens */
  uint32_t tenants_max;  /* accounts of tenants; later ones share the last */
};

/* What seconds are worth, as fitted and configured now. All finite, ≥ 0. */
struct accounts_rates {
  double prefill_s_per_token, prefill_s_per_token2; /* alpha, beta of the cost model */
  double saved_second_usd;                          /* of a prefill second that a user does not wait for */
  double speculative_second_usd;                    /* cash of a speculative engine second */
  double watts;                                     /* drawn above idle while computing */
};

/* STATUS_INVALID for a limit of 0. */
MUST_USE enum status accounts_create(const struct accounts_config *config, struct accounts **ret_accounts);
void accounts_destroy(struct accounts **accounts);
void accounts_set_rates(struct accounts *accounts, const struct accounts_rates *rates);

/* Seconds to compute tokens [from, to) of one prefix at the current rates; negative when to < from. */
double accounts_prefill_seconds(const struct accounts *accounts, uint32_t from, uint32_t to);

struct accounts_arrival {
  uint64_t request;
  uint32_t tenant;
  enum kind kind; /* account that the request itself goes to */
  uint32_t prompt_tokens;
  uint32_t n_blocks;
  const block_key *keys; /* [n_blocks] */
};
/* Opens a request. STATUS_NO_MEMORY: nothing was booked. */
MUST_USE enum status accounts_arrive(struct accounts *accounts, const struct accounts_arrival *arrival);

/* Block keys of an open request, borrowed until it is closed; NULL when there is none or it has none. */
const block_key *accounts_request_keys(const struct accounts *accounts, uint64_t request, uint32_t *ret_n);

/* What one request turned out to be. */
struct accounts_result {
  bool is_booked; /* false: unknown request, or nothing of it was ever computed or found */
  uint32_t tenant;
  enum kind kind;
  uint32_t hit_tokens, shadow_hit_tokens;
  double reuse_seconds;    /* prefill seconds that hits saved against no cache at all, less restore; ≥ 0 */
  double realized_seconds; /* signed, against S0 */
  double foreground_seconds;
};
/* A preparation's share in one request: tokens first asked for now, seconds it brought against S0. */
typedef void accounts_credit(void *ctx, uint64_t task, uint32_t used_tokens, double realized_seconds);
/* What the shadows had of a request. Counted below prompt_tokens always, since the last token is computed in any case.
 */
struct accounts_shadows {
  uint32_t reactive_hit_tokens;  /* S0's */
  uint32_t retention_hit_tokens; /* S1's */
};
/* Closes the request with what the engine reported. Restoring is charged for the tokens beyond S0's at the pace of this
 * request's own restore: a reactive cache would have restored the rest too. Of an aborted request only what was found
 * or computed counts as prompt. credit (may be NULL) runs once for each preparation with a share, during the call. */
void accounts_finish(struct accounts *accounts, const struct outcome *outcome, const struct accounts_shadows *shadows,
                     accounts_credit *credit, void *credit_ctx, struct accounts_result *ret_result);

/* A preparation is about to begin; is_order: somebody asked for it, its tokens are no speculation. STATUS_FULL past
 * tasks_max, STATUS_INVALID for a known id. */
MUST_USE enum status accounts_task_open(struct accounts *accounts, uint64_t task, enum kind kind, uint32_t tenant,
                                        bool is_order);
/* Further work of it; unknown tasks are booked under complete, tenant 0. seconds ≥ 0. */
void accounts_task_spend(struct accounts *accounts, uint64_t task, uint32_t tokens, double seconds, uint64_t bytes);
/* It is ready, with what it was expected to bring when planned. */
void accounts_task_ready(struct accounts *accounts, uint64_t task, double predicted_seconds);
/* Nothing more will be computed. Tokens computed for it that never became blocks of its own count as wasted when
 * nothing of it was kept; the record goes when its last block is settled. */
void accounts_task_close(struct accounts *accounts, uint64_t task);

/* A block computed by this preparation lies somewhere now; the first to claim a block keeps it. */
MUST_USE enum status accounts_block_prepared(struct accounts *accounts, uint64_t task, block_key key);
/* A block lies nowhere any more: unasked prepared tokens become wasted. Unknown blocks are ignored. */
void accounts_block_gone(struct accounts *accounts, block_key key);
/* Preparation that computed the block, 0: none known. */
uint64_t accounts_block_task(const struct accounts *accounts, block_key key);
/* Blocks prepared on speculation that nobody has asked for yet. */
uint32_t accounts_unproven_blocks(const struct accounts *accounts);

/* Zeros where nothing happened. */
void accounts_totals(const struct accounts *accounts, enum account_axis axis, uint32_t index,
                     struct totals *ret_totals);
/* Adds totals of an earlier life to one account; STATUS_INVALID for numbers that are not finite or an unknown account.
 */
MUST_USE enum status accounts_restore(struct accounts *accounts, enum account_axis axis, uint32_t index,
                                      const struct totals *totals);
/* Hit tokens by the tier they came from; they add up to hit_tokens of ACCOUNT_ALL. */
void accounts_hits(const struct accounts *accounts, double ret_hit_tokens[TIER_COUNT]);
MUST_USE enum status accounts_restore_hits(struct accounts *accounts, const double hit_tokens[TIER_COUNT]);
/* How many tenants have an account. */
uint32_t accounts_tenants(const struct accounts *accounts);

#endif
