#include "select/branching.h"

#include <stdlib.h>
#include <string.h>

#include "base/heap.h"

enum { OPTIONS_MAX = SELECTOR_TIERS_MAX + 1 };

struct decision {
  double above;                /* no completion of the decisions before this one is worth more */
  double value;                /* of the decisions before this one */
  uint8_t option[OPTIONS_MAX]; /* choices to try, least loss first */
  double loss[OPTIONS_MAX];
  uint8_t n_options, next;
};

struct branching {
  const struct core *core;
  const double *lambda, *total;
  uint32_t *order;            /* [n] decisions are taken in it */
  struct decision *decisions; /* [n] */
  double *left;               /* [(n + 1) · n_rows] budgets left before each decision */
  double *below;              /* [n] Σ of the positive totals of the children */
  uint8_t *choice;            /* [n] by node */
  double best, tolerance;
  double floor; /* completions worth no more than this are left for a later phase */
};

static double positive(double x) {
  return x > 0 ? x : 0;
}

static bool weight_fits(const double *weight, const double *left, uint32_t m) {
  for (uint32_t r = 0; r < m; r++) {
    if (weight[r] > left[r]) return false;
  }
  return true;
}

/* Fills decision `at` with the choices that fit, least loss first; ties keep tiers before leaving the node out. */
static void decision_open(struct branching *branching, uint32_t at, double above, double value) {
  const struct core *core = branching->core;
  uint32_t v = branching->order[at];
  struct decision *decision = &branching->decisions[at];
  *decision = (struct decision){.above = above, .value = value};
  const double *left = branching->left + (size_t)at * core->n_rows;
  bool is_open = core->parent[v] < 0 || branching->choice[core->parent[v]] != CORE_NONE;
  for (uint32_t k = 0; k <= core->n_tiers; k++) {
    bool is_out = k == core->n_tiers;
    double loss = 0;
    if (!is_out) {
      if (!is_open || !core_allows(core, v, k) || !weight_fits(core_weight(core, v, k), left, core->n_rows)) continue;
      loss = positive(branching->total[v]) - core_reduced(core, v, k, branching->lambda) - branching->below[v];
    } else if (is_open) {
      loss = positive(branching->total[v]);
    }
    uint32_t place = decision->n_options++;
    for (; place > 0 && decision->loss[place - 1] > loss; place--) {
      decision->loss[place] = decision->loss[place - 1];
      decision->option[place] = decision->option[place - 1];
    }
    decision->loss[place] = loss;
    decision->option[place] = is_out ? CORE_NONE : (uint8_t)(k + 1);
  }
}

/* Takes the next choice of decision `at` that can still beat the best; false when there is none. */
static bool decision_take(struct branching *branching, uint32_t at, double *ret_above, double *ret_value) {
  const struct core *core = branching->core;
  struct decision *decision = &branching->decisions[at];
  uint32_t v = branching->order[at];
  branching->choice[v] = CORE_NONE;
  if (decision->next == decision->n_options) return false;
  uint32_t option = decision->next++;
  double above = decision->above - decision->loss[option];
  if (above <= branching->best + branching->tolerance || above <= branching->floor) {
    decision->next = decision->n_options; /* the others lose more */
    return false;
  }
  const double *left = branching->left + (size_t)at * core->n_rows;
  double *left_after = branching->left + (size_t)(at + 1) * core->n_rows;
  memcpy(left_after, left, core->n_rows * sizeof *left);
  uint8_t choice = decision->option[option];
  *ret_value = decision->value;
  if (choice != CORE_NONE) {
    const double *weight = core_weight(core, v, choice - 1u);
    for (uint32_t r = 0; r < core->n_rows; r++) left_after[r] -= weight[r];
    *ret_value += core_value(core, v, choice - 1u);
  }
  branching->choice[v] = choice;
  *ret_above = above;
  return true;
}

static void branching_keep(struct branching *branching, double value, struct filling *filling) {
  uint32_t n = branching->core->n, m = branching->core->n_rows;
  branching->best = value;
  filling->value = value;
  memcpy(filling->choice, branching->choice, n);
  memcpy(filling->left, branching->left + (size_t)n * m, m * sizeof *filling->left);
}

/* true when all completions above the floor were seen; *steps counts down. */
static bool branching_search(struct branching *branching, double root, uint64_t *steps, struct filling *filling) {
  uint32_t at = 0, n = branching->core->n;
  double above = root;
  decision_open(branching, 0, above, 0);
  for (; *steps > 0; (*steps)--) {
    double value = 0;
    if (!decision_take(branching, at, &above, &value)) {
      if (at == 0) return true;
      at--;
    } else if (at + 1 == n) {
      if (value > branching->best) branching_keep(branching, value, filling);
    } else {
      at++;
      decision_open(branching, at, above, value);
    }
  }
  return false;
}

/* Phases of growing loss: first only completions near the relaxation's bound, at last all that could beat the best.
 * Each phase that ends lowers the bound; the first one that does not leaves what remains of the steps to the last. */
static void branching_run(struct branching *branching, double root, uint64_t steps, struct filling *filling,
                          struct branching_result *ret) {
  ret->bound = root + branching->tolerance;
  bool has_ended = true;
  for (double share = 1. / 16; has_ended && share < 1; share *= 2) {
    uint64_t phase = steps / 2, unused = phase;
    branching->floor = root - share * (root - branching->best);
    has_ended = branching_search(branching, root, &unused, filling);
    steps -= phase - unused;
    if (!has_ended) break;
    ret->is_proven = branching->best >= branching->floor;
    ret->bound = (ret->is_proven ? branching->best : branching->floor) + 2 * branching->tolerance;
    if (ret->is_proven) return;
  }
  branching->floor = branching->best;
  ret->is_proven = branching_search(branching, root, &steps, filling);
  if (ret->is_proven) ret->bound = branching->best + 2 * branching->tolerance;
}

/* What leaving the relaxation's choice for each node loses at least (tree reduced costs). */
static void flip_losses(const struct core *core, const double *total, const uint8_t *relaxed, double *loss) {
  for (uint32_t v = 0; v < core->n; v++) {
    int32_t parent = core->parent[v];
    if (relaxed[v] != CORE_NONE) {
      loss[v] = parent >= 0 && loss[parent] < total[v] ? loss[parent] : total[v];
    } else {
      loss[v] = positive(-total[v]) + (parent >= 0 && relaxed[parent] == CORE_NONE ? loss[parent] : 0);
    }
  }
}

/* Greatest loss first among the nodes whose parent is placed already. */
static enum status branching_sort(struct branching *branching, const uint8_t *relaxed) {
  const struct core *core = branching->core;
  struct heap *open = NULL;
  double *loss = malloc(core->n * sizeof *loss);
  uint32_t *child = malloc(core->n * sizeof *child), *sibling = malloc(core->n * sizeof *sibling), at = 0;
  enum status status = loss && child && sibling ? heap_create(&open) : STATUS_NO_MEMORY;
  if (status != STATUS_OK) goto out;
  flip_losses(core, branching->total, relaxed, loss);
  for (uint32_t v = 0; v < core->n; v++) child[v] = core->n;
  for (uint32_t v = core->n; v-- > 0;) {
    if (core->parent[v] < 0) {
      status = heap_set(open, v, -loss[v]);
      if (status != STATUS_OK) goto out;
    } else {
      sibling[v] = child[core->parent[v]];
      child[core->parent[v]] = v;
    }
  }
  uint32_t v;
  while (heap_pop(open, &v, NULL)) {
    branching->order[at++] = v;
    for (uint32_t c = child[v]; c < core->n; c = sibling[c]) {
      status = heap_set(open, c, -loss[c]);
      if (status != STATUS_OK) goto out;
    }
  }
out:
  heap_destroy(&open);
  free(sibling);
  free(child);
  free(loss);
  return status;
}

enum status branching_improve(const struct core *core, const double *lambda, const double *total,
                              const uint8_t *relaxed, uint64_t steps_max, struct filling *filling,
                              struct branching_result *ret) {
  *ret = (struct branching_result){.is_proven = core->n == 0, .bound = filling->value};
  if (core->n == 0) return STATUS_OK;
  struct branching branching = {
      .core = core,
      .lambda = lambda,
      .total = total,
      .order = malloc(core->n * sizeof *branching.order),
      .decisions = malloc(core->n * sizeof *branching.decisions),
      .left = malloc(((size_t)core->n + 1) * (core->n_rows + (size_t)1) * sizeof *branching.left),
      .below = calloc(core->n, sizeof *branching.below),
      .choice = calloc(core->n, 1),
      .best = filling->value,
  };
  bool has_memory = branching.order && branching.decisions && branching.left && branching.below && branching.choice;
  enum status status = has_memory ? branching_sort(&branching, relaxed) : STATUS_NO_MEMORY;
  if (status != STATUS_OK) goto out;
  double above = 0;
  for (uint32_t v = 0; v < core->n; v++) {
    if (core->parent[v] >= 0) {
      branching.below[core->parent[v]] += positive(total[v]);
    } else {
      above += positive(total[v]);
    }
  }
  for (uint32_t r = 0; r < core->n_rows; r++) {
    above += lambda[r] * core->budget[r];
    branching.left[r] = core->budget[r];
  }
  /* Far above the rounding of at most n losses, far below any difference that matters. */
  branching.tolerance = 1e-10 * above;
  branching_run(&branching, above, steps_max, filling, ret);
out:
  free(branching.order);
  free(branching.decisions);
  free(branching.left);
  free(branching.below);
  free(branching.choice);
  return status;
}
