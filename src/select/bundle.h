/* The best multipliers: minimises the Lagrangian bound of a core by a proximal bundle method with a small dual
 * quadratic program (OPTIMIZER.md section 3; Kiwiel 1990). Work is limited in evaluations. Reentrant; owns its scratch
 * only. */
#ifndef FORELAY_SELECT_BUNDLE_H
#define FORELAY_SELECT_BUNDLE_H

#include "select/core.h"

struct bundle_result {
  double lambda[SELECTOR_ROWS_MAX]; /* of the lowest bound seen, ≥ 0, in the core's rows */
  double bound;                     /* that bound, certified */
  uint32_t evaluations;
};

/* Stops at a relative distance of `tolerance` from the optimum (by its own test) or after evaluations_max ≥ 1. total
 * and choice: [core->n], scratch; hold the relaxation at lambda afterwards. */
MUST_USE enum status bundle_minimise(const struct core *core, double tolerance, uint32_t evaluations_max, double *total,
                                     uint8_t *choice, struct bundle_result *ret);

#endif
