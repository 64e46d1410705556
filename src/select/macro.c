#include "select/macro.h"

#include <stdlib.h>
#include <string.h>

#include "select/branching.h"
#include "select/filling.h"
#include "select/macroitem.h"

static const uint64_t SEARCH_STEPS = 2000000; /* decisions of the exact search, besides four descents */
enum { IMPROVE_PASSES = 3 };

struct macro {
  const struct core *core;
  const double *lambda; /* [n_rows] in the core's rows */
  struct macroitem_order order;
  struct filling filling, best;
  uint8_t *option;  /* [n] */
  uint32_t *failed; /* [n] items that did not fit whole */
};

/* Each node's best option at multipliers scaled by `factor`; of equal ones the lower. */
static void macro_fix_options(struct macro *macro, double factor) {
  double lambda[SELECTOR_ROWS_MAX];
  for (uint32_t r = 0; r < macro->core->n_rows; r++) lambda[r] = macro->lambda[r] * factor;
  for (uint32_t v = 0; v < macro->core->n; v++) {
    double most = 0;
    bool is_first = true;
    for (uint32_t k = 0; k < macro->core->n_tiers; k++) {
      if (!core_allows(macro->core, v, k)) continue;
      double reduced = core_reduced(macro->core, v, k, lambda);
      if (is_first || reduced > most) {
        most = reduced;
        macro->option[v] = (uint8_t)k;
      }
      is_first = false;
    }
  }
}

static bool item_fits(const struct macro *macro, uint32_t item) {
  double weight[SELECTOR_ROWS_MAX] = {0};
  for (uint32_t at = macro->order.first[item]; at < macro->order.first[item + 1]; at++) {
    uint32_t v = macro->order.member[at];
    const double *own = core_weight(macro->core, v, macro->option[v]);
    for (uint32_t r = 0; r < macro->core->n_rows; r++) weight[r] += own[r];
  }
  for (uint32_t r = 0; r < macro->core->n_rows; r++) {
    /* Members are subtracted one by one: leave room for the rounding. */
    if (weight[r] > macro->filling.left[r] - 1e-12 * macro->core->budget[r] && weight[r] != macro->filling.left[r]) {
      return false;
    }
  }
  return true;
}

/* Whole items in order, then single members of those that did not fit, each with the path it lacks. */
static void macro_fill(struct macro *macro) {
  const struct macroitem_order *order = &macro->order;
  struct filling *filling = &macro->filling;
  filling_clear(filling);
  uint32_t n_failed = 0;
  for (uint32_t item = 0; item < order->n_worthy; item++) {
    int32_t parent = macro->core->parent[order->member[order->first[item]]];
    if ((parent >= 0 && filling->choice[parent] == CORE_NONE) || !item_fits(macro, item)) {
      macro->failed[n_failed++] = item;
      continue;
    }
    for (uint32_t at = order->first[item]; at < order->first[item + 1]; at++) {
      uint32_t v = order->member[at];
      if (!filling_fits(filling, core_weight(macro->core, v, macro->option[v]))) break;
      filling_add(filling, v, macro->option[v]);
    }
  }
  for (uint32_t i = 0; i < n_failed; i++) {
    for (uint32_t at = order->first[macro->failed[i]]; at < order->first[macro->failed[i] + 1]; at++) {
      filling_add_path(filling, order->member[at], macro->option);
    }
  }
  filling_improve(filling, IMPROVE_PASSES);
}

static void macro_keep(struct macro *macro) {
  if (!(macro->filling.value > macro->best.value)) return;
  memcpy(macro->best.choice, macro->filling.choice, macro->core->n);
  memcpy(macro->best.left, macro->filling.left, sizeof macro->best.left);
  macro->best.value = macro->filling.value;
}

/* One greedy pass: options at lambda · factor, prices lambda plus `share` of all multipliers spread over the rows, so
 * that no resource is free. */
static enum status macro_pass(struct macro *macro, double factor, double share) {
  const struct core *core = macro->core;
  double all = 0, price[SELECTOR_ROWS_MAX], value = 0;
  for (uint32_t r = 0; r < core->n_rows; r++) all += macro->lambda[r] * core->budget[r];
  for (uint32_t v = 0; v < core->n; v++) value += core_value(core, v, 0) > 0 ? core_value(core, v, 0) : 0;
  if (!(all > 0)) all = value > 0 ? value : 1;
  for (uint32_t r = 0; r < core->n_rows; r++) {
    price[r] = macro->lambda[r] + share * all / (core->n_rows * core->budget[r]);
  }
  macro_fix_options(macro, factor);
  enum status status = macroitem_build(&macro->order, core, macro->option, price, 1e-12 * all);
  if (status != STATUS_OK) return status;
  macro_fill(macro);
  macro_keep(macro);
  return STATUS_OK;
}

static enum status macro_run(struct macro *macro, double *bound) {
  static const struct { double factor, share; } passes[] = {{1, .12}, {1, .02}, {1.1, .02}, {.9, .02}, {1, 1e-4}};
  for (size_t i = 0; i < sizeof passes / sizeof *passes; i++) {
    if (macro->core->n_tiers == 1 && (passes[i].factor < 1 || passes[i].factor > 1)) continue;
    enum status status = macro_pass(macro, passes[i].factor, passes[i].share);
    if (status != STATUS_OK) return status;
  }
  double *total = malloc((macro->core->n + (size_t)1) * sizeof *total);
  if (!total) return STATUS_NO_MEMORY;
  struct relaxation relaxation;
  core_relax(macro->core, macro->lambda, total, macro->option, &relaxation);
  struct branching_result proof;
  enum status status = branching_improve(macro->core, macro->lambda, total, macro->option,
                                         SEARCH_STEPS + 4 * (uint64_t)macro->core->n, &macro->best, &proof);
  if (status == STATUS_OK && proof.bound < *bound) *bound = proof.bound;
  free(total);
  return status;
}

static enum status macro_choose(const struct selector_problem *problem, const double *multiplier, uint8_t *choice,
                                double *bound) {
  struct core *core = NULL;
  struct macro macro = {0};
  double lambda[SELECTOR_ROWS_MAX] = {0}, proven = *bound;
  enum status status = core_create(problem, &core);
  if (status != STATUS_OK) return status;
  for (uint32_t r = 0; r < core->n_rows; r++) lambda[r] = multiplier[core->row[r]];
  macro.core = core;
  macro.lambda = lambda;
  macro.option = malloc(core->n + (size_t)1);
  macro.failed = malloc((core->n + (size_t)1) * sizeof *macro.failed);
  status = macro.option && macro.failed ? macroitem_init(&macro.order, core->n) : STATUS_NO_MEMORY;
  if (status == STATUS_OK) status = filling_init(&macro.filling, core);
  if (status == STATUS_OK) status = filling_init(&macro.best, core);
  if (status == STATUS_OK) status = macro_run(&macro, &proven);
  if (status == STATUS_OK) {
    filling_export(&macro.best, problem->n_nodes, choice);
    *bound = proven;
  }
  filling_release(&macro.best);
  filling_release(&macro.filling);
  macroitem_release(&macro.order);
  free(macro.failed);
  free(macro.option);
  core_destroy(&core);
  return status;
}

const struct selector_ops selector_macro = {
    .name = "macro",
    .help = "macro-items of the forest under the relaxation's prices, then a bounded exact search",
    .choose = macro_choose,
};
