#include "select/listing.h"

#include <stdlib.h>

#include "select/filling.h"

void listing_fix_options(const struct core *core, uint8_t *option) {
  for (uint32_t v = 0; v < core->n; v++) {
    double most = 0;
    bool is_first = true;
    for (uint32_t k = 0; k < core->n_tiers; k++) {
      if (!core_allows(core, v, k)) continue;
      double share = 1e-12, value = core_value(core, v, k);
      for (uint32_t r = 0; r < core->n_rows; r++) share += core_weight(core, v, k)[r] / core->budget[r];
      double rank = value > 0 ? value / share : value;
      if (is_first || rank > most) {
        most = rank;
        option[v] = (uint8_t)k;
      }
      is_first = false;
    }
  }
}

struct listed {
  double score;
  uint32_t v;
};

static int listed_compare(const void *left, const void *right) {
  const struct listed *a = left, *b = right;
  if (a->score != b->score) return a->score > b->score ? -1 : 1;
  return a->v < b->v ? -1 : a->v > b->v;
}

enum status listing_choose(const struct core *core, const double *score, const uint8_t *option, uint32_t n_nodes,
                           uint8_t *choice) {
  struct filling filling;
  enum status status = filling_init(&filling, core);
  if (status != STATUS_OK) return status;
  struct listed *list = malloc((core->n + (size_t)1) * sizeof *list);
  if (!list) {
    filling_release(&filling);
    return STATUS_NO_MEMORY;
  }
  for (uint32_t v = 0; v < core->n; v++) list[v] = (struct listed){score[v], v};
  qsort(list, core->n, sizeof *list, listed_compare);
  for (uint32_t i = 0; i < core->n; i++) filling_add_path(&filling, list[i].v, option);
  filling_export(&filling, n_nodes, choice);
  free(list);
  filling_release(&filling);
  return STATUS_OK;
}
