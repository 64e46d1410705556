/* What the simple methods share: take nodes in the order of a score, each with the path it lacks, as long as the path
 * is worth more than nothing and fits. Reentrant; owns its scratch only. */
#ifndef FORELAY_SELECT_LISTING_H
#define FORELAY_SELECT_LISTING_H

#include "select/core.h"

/* Each node's option of best value over Σ weight / budget (of equal ones the lower); option[n]. */
void listing_fix_options(const struct core *core, uint8_t *option);
/* Highest score[n] first, ties by index; result in the problem's numbering. */
MUST_USE enum status listing_choose(const struct core *core, const double *score, const uint8_t *option,
                                    uint32_t n_nodes, uint8_t *choice);

#endif
