/* Bounded exact search over a core at fixed multipliers: depth first, each decision charged with what it loses against
 * the relaxation, O(1) a step. Improves a choice, and proves it best where the search ends. Owns its scratch only. */
#ifndef FORELAY_SELECT_BRANCHING_H
#define FORELAY_SELECT_BRANCHING_H

#include "select/filling.h"

struct branching_result {
  bool is_proven; /* the choice is the best there is */
  double bound;   /* no feasible choice has more */
};

/* total[n] and relaxed[n]: of core_relax at lambda. `filling` holds the incumbent and leaves with the best choice seen.
 * At most steps_max decisions. Nodes whose flip would lose most are decided first, parents before children, so that the
 * steps go to the doubtful ones. */
MUST_USE enum status branching_improve(const struct core *core, const double *lambda, const double *total,
                                       const uint8_t *relaxed, uint64_t steps_max, struct filling *filling,
                                       struct branching_result *ret);

#endif
