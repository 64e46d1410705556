/* The baselines' choice: due nodes that lie nowhere, ordered by a score of the node itself, prepared into idle time
 * without account, holdout or selection. Internal to plan/. */
#ifndef FORELAY_PLAN_RANKING_H
#define FORELAY_PLAN_RANKING_H

#include <stdint.h>

struct plan;

/* Larger first; 0 or less: not at all. *ret_probability goes into the record. */
typedef double ranking_score(struct plan *plan, uint32_t node, double *ret_probability);
void ranking_choose(struct plan *plan, ranking_score *score, const char *name);

#endif
