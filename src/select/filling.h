/* A choice under construction on a core: what is chosen, what is left of each budget. Budgets and precedence hold at
 * every moment. Owns its arrays; one thread at a time. */
#ifndef FORELAY_SELECT_FILLING_H
#define FORELAY_SELECT_FILLING_H

#include "select/core.h"

struct filling {
  const struct core *core;        /* borrowed */
  uint8_t *choice;                /* [n]: CORE_NONE or option + 1; a chosen node's parent is chosen */
  uint32_t *path;                 /* [n] scratch */
  double left[SELECTOR_ROWS_MAX]; /* ≥ 0 */
  double value;
  uint64_t steps_left; /* walks along paths stop when it is used up */
};

MUST_USE enum status filling_init(struct filling *filling, const struct core *core);
void filling_release(struct filling *filling);
/* Back to nothing chosen. */
void filling_clear(struct filling *filling);

bool filling_fits(const struct filling *filling, const double *weight);
/* Chooses option k of a node that is out and whose parent is in; the weight must fit (asserted). */
void filling_add(struct filling *filling, uint32_t v, uint32_t k);
/* Adds v and what is missing above it, with options option[] (k, by node), if together they are worth more than nothing
 * and fit. true when v is chosen afterwards. */
bool filling_add_path(struct filling *filling, uint32_t v, const uint8_t *option);
/* Switches of tier and additions of single nodes that raise the value and fit, best gain first within a node, node
 * after node, at most `passes` times over all. */
void filling_improve(struct filling *filling, uint32_t passes);
/* Writes the choice into the problem's numbering; choice[n_nodes]. */
void filling_export(const struct filling *filling, uint32_t n_nodes, uint8_t *choice);

#endif
