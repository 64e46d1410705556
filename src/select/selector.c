#include "select/selector.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "select/bundle.h"
#include "select/macro.h"
#include "select/ratio.h"
#include "select/score.h"

static const double BUNDLE_TOLERANCE = 1e-6;
enum { BUNDLE_EVALUATIONS_MAX = 200 };

static const struct selector_ops *const TABLE[] = {
    &selector_macro, &selector_ratio, &selector_frequency, &selector_popularity, &selector_probability,
};

const struct selector_ops *const *selector_table(size_t *ret_count) {
  *ret_count = sizeof TABLE / sizeof *TABLE;
  return TABLE;
}

const struct selector_ops *selector_find(const char *name) {
  for (size_t i = 0; i < sizeof TABLE / sizeof *TABLE; i++) {
    if (strcmp(TABLE[i]->name, name) == 0) return TABLE[i];
  }
  return NULL;
}

static enum status check_sizes(const struct selector_problem *problem, struct error *error) {
  if (problem->n_nodes > SELECTOR_NODES_MAX) {
    return error_set(error, STATUS_INVALID, "selection: %u nodes, at most %d", problem->n_nodes, SELECTOR_NODES_MAX);
  }
  if (problem->n_tiers < 1 || problem->n_tiers > SELECTOR_TIERS_MAX) {
    return error_set(error, STATUS_INVALID, "selection: %u tiers, not 1 to %d", problem->n_tiers, SELECTOR_TIERS_MAX);
  }
  if (problem->n_rows > SELECTOR_ROWS_MAX) {
    return error_set(error, STATUS_INVALID, "selection: %u budget rows, at most %d", problem->n_rows,
                     SELECTOR_ROWS_MAX);
  }
  for (uint32_t r = 0; r < problem->n_rows; r++) {
    if (!number_is_finite(problem->budget[r]) || problem->budget[r] < 0) {
      return error_set(error, STATUS_INVALID, "selection: budget of row %u is not a finite number ≥ 0", r);
    }
  }
  return STATUS_OK;
}

enum status selector_check(const struct selector_problem *problem, struct error *error) {
  enum status status = check_sizes(problem, error);
  if (status != STATUS_OK) return status;
  for (uint32_t v = 0; v < problem->n_nodes; v++) {
    if (problem->parent[v] != SELECTOR_NO_PARENT && (problem->parent[v] < 0 || problem->parent[v] >= (int64_t)v)) {
      return error_set(error, STATUS_INVALID, "selection: parent %d of node %u does not precede it", problem->parent[v],
                       v);
    }
    if (problem->score && !number_is_finite(problem->score[v])) {
      return error_set(error, STATUS_INVALID, "selection: score of node %u is not finite", v);
    }
    for (uint32_t k = 0; k < problem->n_tiers; k++) {
      if (!number_is_finite(problem->value[k][v])) {
        return error_set(error, STATUS_INVALID, "selection: value of node %u, tier option %u is not finite", v, k);
      }
      for (uint32_t r = 0; r < problem->n_rows; r++) {
        if (!problem->weight[k][r]) continue;
        double weight = problem->weight[k][r][v];
        if (number_is_finite(weight) && weight >= 0) continue;
        return error_set(error, STATUS_INVALID,
                         "selection: weight of node %u, tier option %u, row %u is not a finite number ≥ 0", v, k, r);
      }
    }
  }
  return STATUS_OK;
}

/* Bound and multipliers, in the problem's rows. */
static enum status selector_relax(const struct selector_problem *problem, struct selector_result *result) {
  struct core *core = NULL;
  enum status status = core_create(problem, &core);
  if (status != STATUS_OK) return status;
  double *total = malloc((core->n + (size_t)1) * sizeof *total);
  uint8_t *choice = malloc(core->n + (size_t)1);
  struct bundle_result dual = {0};
  status = total && choice ? bundle_minimise(core, BUNDLE_TOLERANCE, BUNDLE_EVALUATIONS_MAX, total, choice, &dual)
                           : STATUS_NO_MEMORY;
  if (status == STATUS_OK) {
    result->bound = dual.bound;
    result->oracle_calls = dual.evaluations;
    for (uint32_t r = 0; r < core->n_rows; r++) result->multiplier[core->row[r]] = dual.lambda[r];
  }
  free(choice);
  free(total);
  core_destroy(&core);
  return status;
}

static void selector_measure(const struct selector_problem *problem, struct selector_result *result) {
  for (uint32_t v = 0; v < problem->n_nodes; v++) {
    if (result->choice[v] == 0) continue;
    uint32_t k = result->choice[v] - 1u;
    assert(k < problem->n_tiers);
    assert(problem->parent[v] < 0 || result->choice[problem->parent[v]] != 0);
    result->n_chosen++;
    result->value += problem->value[k][v];
    for (uint32_t r = 0; r < problem->n_rows; r++) {
      if (problem->weight[k][r]) result->use[r] += problem->weight[k][r][v];
    }
  }
  for (uint32_t r = 0; r < problem->n_rows; r++) assert(result->use[r] <= problem->budget[r] * (1 + 1e-9));
}

enum status selector_solve(const struct selector_ops *ops, const struct selector_problem *problem, struct error *error,
                           struct selector_result *result) {
  enum status status = selector_check(problem, error);
  if (status != STATUS_OK) return status;
  struct selector_result solved = {.choice = result->choice};
  status = selector_relax(problem, &solved);
  if (status == STATUS_OK) status = ops->choose(problem, solved.multiplier, result->choice, &solved.bound);
  if (status != STATUS_OK) return error_set(error, status, "selection of %u nodes: no memory", problem->n_nodes);
  selector_measure(problem, &solved);
  if (solved.bound < solved.value) solved.bound = solved.value; /* equal but for rounding: the choice is optimal */
  *result = solved;
  return STATUS_OK;
}
