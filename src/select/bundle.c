#include "select/bundle.h"

#include <stdlib.h>

#include "base/number.h"

enum { CUTS_MAX = 32, QP_ROUNDS = 60, QP_ROUNDS_PER_CUT = 10, LINE_STEPS = 20 };

/* Multipliers are scaled by their budgets: mu = lambda · budget, so that each is in the unit of values. */
struct cut {
  double at[SELECTOR_ROWS_MAX];
  double slope[SELECTOR_ROWS_MAX]; /* 1 − use / budget */
  double level;                    /* bound there */
  double error;                    /* e: how far the cut lies below the bound at the centre; ≥ 0 */
  double share;                    /* alpha: its part in the aggregate; Σ = 1 */
};

struct bundle {
  const struct core *core;
  double *total;
  uint8_t *choice;
  struct cut cuts[CUTS_MAX];
  uint32_t n_cuts, m;
  double centre[SELECTOR_ROWS_MAX], centre_level;
  double scale[SELECTOR_ROWS_MAX]; /* S: metric of the proximal term */
  double step;                     /* t */
  double direction[SELECTOR_ROWS_MAX];
  double slope[SELECTOR_ROWS_MAX], error; /* aggregate */
  struct bundle_result best;
};

static double dot(const double *a, const double *b, uint32_t m) {
  double sum = 0;
  for (uint32_t r = 0; r < m; r++) sum += a[r] * b[r];
  return sum;
}

static double positive(double x) {
  return x > 0 ? x : 0;
}

static struct cut bundle_evaluate(struct bundle *bundle, const double *mu) {
  double lambda[SELECTOR_ROWS_MAX] = {0};
  struct cut cut = {0};
  for (uint32_t r = 0; r < bundle->m; r++) {
    cut.at[r] = mu[r];
    lambda[r] = mu[r] / bundle->core->budget[r];
  }
  struct relaxation relaxation;
  core_relax(bundle->core, lambda, bundle->total, bundle->choice, &relaxation);
  cut.level = relaxation.bound;
  for (uint32_t r = 0; r < bundle->m; r++) cut.slope[r] = 1 - relaxation.use[r] / bundle->core->budget[r];
  if (bundle->best.evaluations++ == 0 || cut.level < bundle->best.bound) {
    bundle->best.bound = cut.level;
    for (uint32_t r = 0; r < bundle->m; r++) bundle->best.lambda[r] = lambda[r];
  }
  return cut;
}

static void cut_relocate(struct cut *cut, const struct bundle *bundle) {
  double below = bundle->centre_level - cut->level;
  for (uint32_t r = 0; r < bundle->m; r++) below -= cut->slope[r] * (bundle->centre[r] - cut->at[r]);
  cut->error = positive(below);
}

/* Adds a cut, in place of the least active one when all places are taken; of those the most distant. */
static void bundle_add(struct bundle *bundle, const struct cut *cut) {
  uint32_t place = bundle->n_cuts;
  double share = bundle->n_cuts == 0 ? 1 : 0;
  if (place < CUTS_MAX) {
    bundle->n_cuts++;
  } else {
    place = 0;
    for (uint32_t i = 1; i < CUTS_MAX; i++) {
      const struct cut *a = &bundle->cuts[i], *b = &bundle->cuts[place];
      if (a->share < b->share || (!(a->share > b->share) && a->error > b->error)) place = i;
    }
    share = bundle->cuts[place].share; /* shares keep their sum */
  }
  bundle->cuts[place] = *cut;
  bundle->cuts[place].share = share;
  cut_relocate(&bundle->cuts[place], bundle);
}

static void direction_of(const struct bundle *bundle, const double *slope, double *direction) {
  for (uint32_t r = 0; r < bundle->m; r++) {
    double free_step = -bundle->step * bundle->scale[r] * bundle->scale[r] * slope[r];
    direction[r] = free_step > -bundle->centre[r] ? free_step : -bundle->centre[r];
  }
}

static void bundle_aggregate(struct bundle *bundle) {
  bundle->error = 0;
  for (uint32_t r = 0; r < bundle->m; r++) bundle->slope[r] = 0;
  for (uint32_t i = 0; i < bundle->n_cuts; i++) {
    const struct cut *cut = &bundle->cuts[i];
    bundle->error += cut->share * cut->error;
    for (uint32_t r = 0; r < bundle->m; r++) bundle->slope[r] += cut->share * cut->slope[r];
  }
  direction_of(bundle, bundle->slope, bundle->direction);
}

/* Moves weight from cut j to cut i as far as the concave dual rises: safeguarded Newton on its derivative, which falls
 * and is piecewise linear. */
static void bundle_shift(struct bundle *bundle, uint32_t i, uint32_t j) {
  struct cut *up = &bundle->cuts[i], *down = &bundle->cuts[j];
  double low = 0, high = down->share, shift = 0;
  for (int probe = 0; probe < LINE_STEPS; probe++) {
    double rise = down->error - up->error, bend = 0;
    for (uint32_t r = 0; r < bundle->m; r++) {
      double difference = up->slope[r] - down->slope[r];
      double stretch = bundle->step * bundle->scale[r] * bundle->scale[r];
      double direction = -stretch * (bundle->slope[r] + shift * difference);
      if (direction > -bundle->centre[r]) {
        bend += stretch * difference * difference;
      } else {
        direction = -bundle->centre[r];
      }
      rise += difference * direction;
    }
    *(rise >= 0 ? &low : &high) = shift;
    if (rise >= 0 && shift >= down->share) break; /* all of it */
    double next = bend > 0 ? shift + rise / bend : down->share;
    if (next > down->share) next = down->share;
    if (probe > 0 && (next <= low || next >= high) && !(next >= down->share && high >= down->share)) {
      next = (low + high) / 2;
    }
    double moved = next > shift ? next - shift : shift - next;
    shift = next;
    if (moved <= 1e-12 * down->share) break;
  }
  if (shift > down->share) shift = down->share;
  if (down->share - shift < 1e-14) shift = down->share;
  up->share += shift;
  down->share -= shift;
  bundle->error += shift * (up->error - down->error);
  for (uint32_t r = 0; r < bundle->m; r++) bundle->slope[r] += shift * (up->slope[r] - down->slope[r]);
  direction_of(bundle, bundle->slope, bundle->direction);
}

/* Maximises the dual over the simplex by pairwise ascent; returns the predicted decrease at the direction found. */
static double bundle_project(struct bundle *bundle) {
  bundle_aggregate(bundle);
  double predicted = 0;
  uint32_t rounds_max = QP_ROUNDS + QP_ROUNDS_PER_CUT * bundle->n_cuts;
  for (uint32_t round = 0; round < rounds_max; round++) {
    uint32_t high = 0, low = CUTS_MAX;
    double most = 0, least = 0;
    for (uint32_t i = 0; i < bundle->n_cuts; i++) {
      double model = dot(bundle->cuts[i].slope, bundle->direction, bundle->m) - bundle->cuts[i].error;
      if (i == 0 || model > most) {
        most = model;
        high = i;
      }
      if (bundle->cuts[i].share > 0 && (low == CUTS_MAX || model < least)) {
        least = model;
        low = i;
      }
    }
    predicted = -most;
    if (low == CUTS_MAX || high == low || most - least <= 1e-3 * (predicted > 0 ? predicted : -predicted) ||
        most - least <= 1e-15 * bundle->centre_level) {
      break;
    }
    bundle_shift(bundle, high, low);
  }
  bundle_aggregate(bundle); /* without the rounding of the steps */
  return predicted;
}

/* How far the centre can be above the optimum, by the aggregate cut. */
static double bundle_distance(const struct bundle *bundle) {
  double all = 0, distance = bundle->error;
  for (uint32_t r = 0; r < bundle->m; r++) all += bundle->centre[r];
  if (!(all > 0)) all = bundle->centre_level;
  for (uint32_t r = 0; r < bundle->m; r++) {
    distance += bundle->slope[r] > 0 ? bundle->slope[r] * bundle->centre[r] : -bundle->slope[r] * .5 * all;
  }
  return distance;
}

static void bundle_move(struct bundle *bundle, const struct cut *cut) {
  double all = 0;
  for (uint32_t r = 0; r < bundle->m; r++) {
    bundle->centre[r] = cut->at[r];
    all += cut->at[r];
  }
  bundle->centre_level = cut->level;
  for (uint32_t r = 0; r < bundle->m; r++) {
    bundle->scale[r] = bundle->centre[r] > .02 * all ? bundle->centre[r] : .02 * all;
    if (!(all > 0)) bundle->scale[r] = bundle->centre_level / (bundle->m + 1);
  }
  for (uint32_t i = 0; i < bundle->n_cuts; i++) cut_relocate(&bundle->cuts[i], bundle);
}

static void bundle_start(struct bundle *bundle) {
  double origin[SELECTOR_ROWS_MAX] = {0}, length = 0;
  struct cut first = bundle_evaluate(bundle, origin);
  bundle->centre_level = first.level;
  for (uint32_t r = 0; r < bundle->m; r++) {
    bundle->scale[r] = first.level / (bundle->m + 1);
    length += bundle->scale[r] * first.slope[r] * bundle->scale[r] * first.slope[r];
  }
  bundle_add(bundle, &first);
  bundle->step = length > 0 ? .3 * number_sqrt((double)bundle->m) / number_sqrt(length) : 1;
}

/* One evaluation at centre + direction: a serious step or a null step. */
static void bundle_step(struct bundle *bundle, double predicted, uint32_t *nulls) {
  double mu[SELECTOR_ROWS_MAX];
  for (uint32_t r = 0; r < bundle->m; r++) mu[r] = positive(bundle->centre[r] + bundle->direction[r]);
  struct cut cut = bundle_evaluate(bundle, mu);
  double decrease = bundle->centre_level - cut.level;
  bundle_add(bundle, &cut);
  if (decrease >= .1 * predicted) {
    if (decrease >= .6 * predicted) {
      bundle->step *= 2;
    } else if (*nulls == 0) {
      bundle->step *= 1.3;
    }
    *nulls = 0;
    bundle_move(bundle, &cut);
    return;
  }
  (*nulls)++;
  if (decrease < -2 * predicted || (*nulls >= 2 && *nulls % 2 == 0)) bundle->step *= .5;
}

static void bundle_run(struct bundle *bundle, double tolerance, uint32_t evaluations_max) {
  bundle_start(bundle);
  uint32_t nulls = 0;
  for (uint32_t round = 0; round < 4 * evaluations_max && bundle->best.evaluations < evaluations_max; round++) {
    if (!(bundle->centre_level > 0)) return;
    double predicted = bundle_project(bundle);
    if (bundle_distance(bundle) <= tolerance * bundle->centre_level) return;
    if (!(predicted > 0)) {
      bundle->step *= .15;
      continue;
    }
    double reach = 0;
    for (uint32_t r = 0; r < bundle->m; r++) {
      reach += bundle->direction[r] < 0 ? -bundle->direction[r] : bundle->direction[r];
    }
    if (predicted <= .05 * tolerance * bundle->centre_level && reach <= .5 * bundle->centre_level) {
      bundle->step *= 5;
      continue;
    }
    bundle_step(bundle, predicted, &nulls);
  }
}

enum status bundle_minimise(const struct core *core, double tolerance, uint32_t evaluations_max, double *total,
                            uint8_t *choice, struct bundle_result *ret) {
  struct bundle *bundle = calloc(1, sizeof *bundle);
  if (!bundle) return STATUS_NO_MEMORY;
  bundle->core = core;
  bundle->total = total;
  bundle->choice = choice;
  bundle->m = core->n_rows;
  bundle_run(bundle, tolerance, evaluations_max);
  struct relaxation relaxation;
  core_relax(core, bundle->best.lambda, total, choice, &relaxation);
  bundle->best.evaluations++;
  *ret = bundle->best;
  free(bundle);
  return STATUS_OK;
}
