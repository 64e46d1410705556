#include "select/ratio.h"

#include <stdlib.h>

#include "select/listing.h"

/* Density of the whole path down to each node, every resource weighed by 1 / budget. */
static void path_density(const struct core *core, const uint8_t *option, double *value, double *share, double *score) {
  for (uint32_t v = 0; v < core->n; v++) {
    int32_t parent = core->parent[v];
    value[v] = core_value(core, v, option[v]) + (parent >= 0 ? value[parent] : 0);
    share[v] = parent >= 0 ? share[parent] : 1e-12;
    for (uint32_t r = 0; r < core->n_rows; r++) share[v] += core_weight(core, v, option[v])[r] / core->budget[r];
    score[v] = value[v] / share[v];
  }
}

static enum status ratio_choose(const struct selector_problem *problem, const double *multiplier, uint8_t *choice,
                                double *bound) {
  (void)multiplier;
  (void)bound;
  struct core *core = NULL;
  enum status status = core_create(problem, &core);
  if (status != STATUS_OK) return status;
  double *numbers = malloc((3 * (size_t)core->n + 1) * sizeof *numbers);
  uint8_t *option = malloc(core->n + (size_t)1);
  status = STATUS_NO_MEMORY;
  if (numbers && option) {
    double *value = numbers, *share = numbers + core->n, *score = share + core->n;
    listing_fix_options(core, option);
    path_density(core, option, value, share, score);
    status = listing_choose(core, score, option, problem->n_nodes, choice);
  }
  free(option);
  free(numbers);
  core_destroy(&core);
  return status;
}

const struct selector_ops selector_ratio = {
    .name = "ratio",
    .help = "benefit per cost of each path, ancestors charged",
    .choose = ratio_choose,
};
