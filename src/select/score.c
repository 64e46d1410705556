#include "select/score.h"

#include <stdlib.h>

#include "select/listing.h"

static enum status score_choose(const struct selector_problem *problem, const double *multiplier, uint8_t *choice,
                                double *bound) {
  (void)multiplier;
  (void)bound;
  struct core *core = NULL;
  enum status status = core_create(problem, &core);
  if (status != STATUS_OK) return status;
  double *score = malloc((core->n + (size_t)1) * sizeof *score);
  uint8_t *option = malloc(core->n + (size_t)1);
  status = STATUS_NO_MEMORY;
  if (score && option) {
    for (uint32_t v = 0; v < core->n; v++) score[v] = problem->score ? problem->score[core->node[v]] : 0;
    listing_fix_options(core, option);
    status = listing_choose(core, score, option, problem->n_nodes, choice);
  }
  free(option);
  free(score);
  core_destroy(&core);
  return status;
}

const struct selector_ops selector_frequency = {
    .name = "frequency",
    .help = "most asks so far first",
    .choose = score_choose,
};

const struct selector_ops selector_popularity = {
    .name = "popularity",
    .help = "highest long-run rate of asks first",
    .choose = score_choose,
};

const struct selector_ops selector_probability = {
    .name = "probability",
    .help = "likeliest to be asked again first",
    .choose = score_choose,
};
