#include "select/macroitem.h"

#include <stdlib.h>

enum { NO_ITEM = UINT32_MAX };

enum status macroitem_init(struct macroitem_order *order, uint32_t n) {
  size_t size = n + (size_t)1;
  *order = (struct macroitem_order){
      .n = n,
      .member = malloc(size * sizeof *order->member),
      .first = malloc(size * sizeof *order->first),
      .value = malloc(size * sizeof *order->value),
      .weight = malloc(size * sizeof *order->weight),
      .next = malloc(size * sizeof *order->next),
      .last = malloc(size * sizeof *order->last),
      .child = malloc(size * sizeof *order->child),
      .sibling = malloc(size * sizeof *order->sibling),
      .inner = malloc(size * sizeof *order->inner),
      .is_absorbed = malloc(size * sizeof *order->is_absorbed),
  };
  if (order->member && order->first && order->value && order->weight && order->next && order->last && order->child &&
      order->sibling && order->inner && order->is_absorbed) {
    return STATUS_OK;
  }
  macroitem_release(order);
  return STATUS_NO_MEMORY;
}

void macroitem_release(struct macroitem_order *order) {
  free(order->member);
  free(order->first);
  free(order->value);
  free(order->weight);
  free(order->next);
  free(order->last);
  free(order->child);
  free(order->sibling);
  free(order->inner);
  free(order->is_absorbed);
  *order = (struct macroitem_order){0};
}

/* Items are named by their topmost node. Each node keeps a pairing heap (root in inner[]) of the items directly below
 * its own; child[] and sibling[] are the heap's links. */

static double ratio(const struct macroitem_order *order, uint32_t item) {
  return order->value[item] / order->weight[item];
}

static bool is_better(const struct macroitem_order *order, uint32_t a, uint32_t b) {
  double ratio_a = ratio(order, a), ratio_b = ratio(order, b);
  return ratio_a > ratio_b || (!(ratio_a < ratio_b) && a < b);
}

static uint32_t heap_meld(struct macroitem_order *order, uint32_t a, uint32_t b) {
  if (a == NO_ITEM) return b;
  if (b == NO_ITEM) return a;
  if (!is_better(order, a, b)) {
    uint32_t swap = a;
    a = b;
    b = swap;
  }
  order->sibling[b] = order->child[a];
  order->child[a] = b;
  return a;
}

/* Takes the top away: its heap children melded in pairs, then from the last pair back. */
static uint32_t heap_drop_top(struct macroitem_order *order, uint32_t top) {
  uint32_t pairs = NO_ITEM, at = order->child[top];
  order->child[top] = NO_ITEM;
  while (at != NO_ITEM) {
    uint32_t a = at, b = order->sibling[a];
    at = b == NO_ITEM ? NO_ITEM : order->sibling[b];
    order->sibling[a] = NO_ITEM;
    if (b != NO_ITEM) order->sibling[b] = NO_ITEM;
    uint32_t pair = heap_meld(order, a, b);
    order->sibling[pair] = pairs;
    pairs = pair;
  }
  uint32_t melded = NO_ITEM;
  while (pairs != NO_ITEM) {
    uint32_t rest = order->sibling[pairs];
    order->sibling[pairs] = NO_ITEM;
    melded = heap_meld(order, melded, pairs);
    pairs = rest;
  }
  return melded;
}

/* Lets v's item swallow the best items below it while they are at least as good as itself. */
static void item_absorb(struct macroitem_order *order, uint32_t v) {
  for (uint32_t top = order->inner[v]; top != NO_ITEM; top = order->inner[v]) {
    if (!(order->value[top] > 0) || ratio(order, top) < ratio(order, v)) return;
    order->inner[v] = heap_meld(order, heap_drop_top(order, top), order->inner[top]);
    order->inner[top] = NO_ITEM;
    order->value[v] += order->value[top];
    order->weight[v] += order->weight[top];
    order->next[order->last[v]] = top;
    order->last[v] = order->last[top];
    order->is_absorbed[top] = true;
  }
}

struct ranked {
  double value, ratio;
  uint32_t item;
};

static int ranked_compare(const void *left, const void *right) {
  const struct ranked *a = left, *b = right;
  bool is_a_worthy = a->value > 0, is_b_worthy = b->value > 0;
  if (is_a_worthy != is_b_worthy) return is_a_worthy ? -1 : 1;
  if (is_a_worthy && a->ratio != b->ratio) return a->ratio > b->ratio ? -1 : 1;
  return a->item < b->item ? -1 : a->item > b->item;
}

/* Lists the items: the worthy by ratio, the others by their first node, so that nobody precedes a parent. */
static void order_list(struct macroitem_order *order, struct ranked *items) {
  uint32_t n = 0;
  for (uint32_t v = 0; v < order->n; v++) {
    if (order->is_absorbed[v]) continue;
    items[n++] = (struct ranked){order->value[v], ratio(order, v), v};
  }
  qsort(items, n, sizeof *items, ranked_compare);
  order->n_items = n;
  order->n_worthy = 0;
  uint32_t at = 0;
  for (uint32_t i = 0; i < n; i++) {
    order->first[i] = at;
    if (items[i].value > 0) order->n_worthy++;
    for (uint32_t v = items[i].item; v != NO_ITEM; v = order->next[v]) order->member[at++] = v;
  }
  order->first[n] = at;
}

enum status macroitem_build(struct macroitem_order *order, const struct core *core, const uint8_t *option,
                            const double *price, double floor) {
  struct ranked *items = malloc((order->n + (size_t)1) * sizeof *items);
  if (!items) return STATUS_NO_MEMORY;
  for (uint32_t v = 0; v < order->n; v++) {
    const double *weight = core_weight(core, v, option[v]);
    order->value[v] = core_value(core, v, option[v]);
    order->weight[v] = floor;
    for (uint32_t r = 0; r < core->n_rows; r++) order->weight[v] += price[r] * weight[r];
    order->next[v] = order->child[v] = order->sibling[v] = order->inner[v] = NO_ITEM;
    order->last[v] = v;
    order->is_absorbed[v] = false;
  }
  for (uint32_t v = order->n; v-- > 0;) {
    item_absorb(order, v);
    if (core->parent[v] >= 0) {
      uint32_t parent = (uint32_t)core->parent[v];
      order->inner[parent] = heap_meld(order, order->inner[parent], v);
    }
  }
  order_list(order, items);
  free(items);
  return STATUS_OK;
}
