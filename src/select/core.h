/* The part of a selection problem that can matter: nodes and options that fit at all and whose subtree is worth
 * something when every resource is free, renumbered densely with parents before children. Exact: an optimum of the core
 * is an optimum of the problem. Plain data, owns its arrays; read-only after creation, so any thread. */
#ifndef FORELAY_SELECT_CORE_H
#define FORELAY_SELECT_CORE_H

#include <stdbool.h>
#include <stdint.h>

#include "select/selector.h"

enum { CORE_NONE = 0 }; /* choice of a node that stays out; k + 1 is tier option k */

struct core {
  uint32_t n, n_tiers, n_rows;      /* rows with a budget above 0; options that need another row are not allowed */
  uint32_t row[SELECTOR_ROWS_MAX];  /* the problem's number of each row */
  double budget[SELECTOR_ROWS_MAX]; /* > 0 */
  uint32_t *node;                   /* [n] the problem's number, ascending */
  int32_t *parent;                  /* [n] in the core, below the child's, or SELECTOR_NO_PARENT */
  uint8_t *allowed;                 /* [n] bit k: option k may be chosen; never 0 */
  double *value;                    /* [n · n_tiers] */
  double *weight;                   /* [(n · n_tiers) · n_rows] */
};

static inline double core_value(const struct core *core, uint32_t v, uint32_t k) {
  return core->value[(size_t)v * core->n_tiers + k];
}

/* [n_rows] of option k of node v. */
static inline const double *core_weight(const struct core *core, uint32_t v, uint32_t k) {
  return core->weight + ((size_t)v * core->n_tiers + k) * core->n_rows;
}

static inline bool core_allows(const struct core *core, uint32_t v, uint32_t k) {
  return core->allowed[v] >> k & 1;
}

MUST_USE enum status core_create(const struct selector_problem *problem, struct core **ret_core);
void core_destroy(struct core **core);

/* One evaluation of the Lagrangian relaxation at multipliers lambda[n_rows] ≥ 0 (in the core's rows). */
struct relaxation {
  double bound;                  /* no feasible choice has more; rounding added on top */
  double use[SELECTOR_ROWS_MAX]; /* of the closure that attains it */
  double value;                  /* of that closure */
};

/* Bottom-up: total[v] = best reduced value of v's options plus the positive totals of its children; top-down: choice[v]
 * = k + 1 where v and all above it have a positive total, else CORE_NONE. total and choice: [n], filled. */
void core_relax(const struct core *core, const double *lambda, double *total, uint8_t *choice, struct relaxation *ret);

/* Reduced value of one option. */
double core_reduced(const struct core *core, uint32_t v, uint32_t k, const double *lambda);

#endif
