/* The order in which segments enter a selection as a resource's price falls: macro-items of a tree (Sidney 1975, Horn
 * 1972; for precedence-constrained knapsacks Dose, Furini, Locatelli 2026). Owns its arrays; one thread at a time. */
#ifndef FORELAY_SELECT_MACROITEM_H
#define FORELAY_SELECT_MACROITEM_H

#include "select/core.h"

struct macroitem_order {
  uint32_t n;
  uint32_t *member; /* [n] nodes, item after item; a node comes after its parent */
  uint32_t n_items;
  uint32_t
      *first; /* [n_items + 1] into member[]; worth of items: ratio falling, ties by first node, then the worthless */
  uint32_t n_worthy; /* leading items whose value is above 0 */
  /* scratch of the build, [n] each */
  double *value, *weight;
  uint32_t *next, *last, *child, *sibling, *inner;
  bool *is_absorbed;
};

MUST_USE enum status macroitem_init(struct macroitem_order *order, uint32_t n);
void macroitem_release(struct macroitem_order *order);

/* Orders the core's nodes, each with option option[v], by value over price[n_rows] · weight + floor; floor > 0. O(n log
 * n). */
MUST_USE enum status macroitem_build(struct macroitem_order *order, const struct core *core, const uint8_t *option,
                                     const double *price, double floor);

#endif
