/* Which nodes of the preparation forest are worth having, and in which tier, under budgets of several resources: the
 * problem, the answer, and the table of methods. Never knows what a node stands for. Reentrant; any thread; a call
 * owns only its own scratch memory. */
#ifndef FORELAY_SELECT_SELECTOR_H
#define FORELAY_SELECT_SELECTOR_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum { SELECTOR_TIERS_MAX = 3, SELECTOR_ROWS_MAX = 8, SELECTOR_NODES_MAX = 1 << 22, SELECTOR_NO_PARENT = -1 };

/* Maximise Σ value[choice] over choices (none or one tier for each node) such that a node is chosen only if its parent
 * is, and Σ weight ≤ budget in every row. All borrowed for the call. */
struct selector_problem {
  uint32_t n_nodes;
  uint32_t n_tiers;                        /* 1 … SELECTOR_TIERS_MAX options a node */
  uint32_t n_rows;                         /* 0 … SELECTOR_ROWS_MAX budget rows */
  const int32_t *parent;                   /* [n_nodes]: an index below the child's, or SELECTOR_NO_PARENT */
  const double *value[SELECTOR_TIERS_MAX]; /* [n_nodes] each, USD; finite, may be negative */
  const double *weight[SELECTOR_TIERS_MAX][SELECTOR_ROWS_MAX]; /* [n_nodes] each; finite, ≥ 0; NULL: none of that row */
  double budget[SELECTOR_ROWS_MAX];                            /* finite, ≥ 0 */
  const double *score; /* [n_nodes]: order of the methods that go by a given score; else NULL */
};

/* choice[] is the caller's, the rest is written on success. */
struct selector_result {
  uint8_t *choice;                      /* [n_nodes]: 0 none, k + 1 tier option k */
  double value;                         /* of the choice, summed in index order */
  double bound;                         /* no feasible choice has more; certified in double precision */
  double multiplier[SELECTOR_ROWS_MAX]; /* marginal worth of one more unit of each row's budget; ≥ 0 */
  double use[SELECTOR_ROWS_MAX];        /* of each row by the choice; ≤ budget, rounding (1e-9 of it) aside */
  uint32_t n_chosen;
  uint32_t oracle_calls; /* relaxations evaluated */
};

/* One way to choose. Limits of work are counts, never time: equal problems give equal answers. */
struct selector_ops {
  const char *name; /* as in --policy and reports */
  const char *help; /* one line */
  /* The problem has passed selector_check; multiplier[n_rows] is the relaxation's. Fills choice[n_nodes]. *bound comes
   * in as the relaxation's and may leave lower where the method has proved more. STATUS_NO_MEMORY: nothing written.
   * Ties go to the lower index. */
  enum status (*choose)(const struct selector_problem *problem, const double *multiplier, uint8_t *choice,
                        double *bound);
};

/* The registry, in fixed order; *ret_count rows. Static storage. */
const struct selector_ops *const *selector_table(size_t *ret_count);
/* NULL when no method has that name. */
const struct selector_ops *selector_find(const char *name);

/* STATUS_INVALID, with the first fault named, for counts out of range, a parent that does not precede its child, NaN or
 * infinite numbers, negative weights or budgets. */
MUST_USE enum status selector_check(const struct selector_problem *problem, struct error *error);

/* Checks the problem, computes bound and multipliers, lets `ops` choose and measures its choice. STATUS_INVALID,
 * STATUS_NO_MEMORY; result untouched then. A choice that breaks a budget or the precedence is a fault of the method
 * (asserted). error may be NULL. */
MUST_USE enum status selector_solve(const struct selector_ops *ops, const struct selector_problem *problem,
                                    struct error *error, struct selector_result *result);

#endif
