#include "select/core.h"

#include <stdlib.h>
#include <string.h>

static const double FITS = 1 + 1e-12; /* rounding of sums along a path */

struct reduction {
  double *path;     /* [n · n_rows] least weight of the path down to the node */
  uint8_t *allowed; /* [n] */
  double *total;    /* [n] worth of the subtree when resources are free */
  int32_t *number;  /* [n] in the core, or −1 */
};

static void reduction_release(struct reduction *reduction) {
  free(reduction->path);
  free(reduction->allowed);
  free(reduction->total);
  free(reduction->number);
}

static enum status reduction_init(struct reduction *reduction, uint32_t n, uint32_t n_rows) {
  *reduction = (struct reduction){
      .path = malloc(((size_t)n * n_rows + 1) * sizeof *reduction->path),
      .allowed = malloc((size_t)n + 1),
      .total = malloc(((size_t)n + 1) * sizeof *reduction->total),
      .number = malloc(((size_t)n + 1) * sizeof *reduction->number),
  };
  if (reduction->path && reduction->allowed && reduction->total && reduction->number) return STATUS_OK;
  reduction_release(reduction);
  return STATUS_NO_MEMORY;
}

static double problem_weight(const struct selector_problem *problem, uint32_t v, uint32_t k, uint32_t r) {
  return problem->weight[k][r] ? problem->weight[k][r][v] : 0;
}

/* Which options of v fit below the lightest path to its parent; the lightest of them extends the path. */
static void reduction_fit(struct reduction *reduction, const struct selector_problem *problem, uint32_t v) {
  uint32_t m = problem->n_rows;
  int32_t parent = problem->parent[v];
  const double *above = parent >= 0 ? reduction->path + (size_t)parent * m : NULL;
  double *path = reduction->path + (size_t)v * m;
  reduction->allowed[v] = 0;
  if (parent >= 0 && !reduction->allowed[parent]) return;
  for (uint32_t k = 0; k < problem->n_tiers; k++) {
    bool fits = true;
    for (uint32_t r = 0; r < m && fits; r++) {
      fits = problem_weight(problem, v, k, r) + (above ? above[r] : 0) <= problem->budget[r] * FITS;
    }
    if (fits) reduction->allowed[v] |= (uint8_t)(1u << k);
  }
  for (uint32_t r = 0; r < m; r++) {
    double least = -1;
    for (uint32_t k = 0; k < problem->n_tiers; k++) {
      double weight = problem_weight(problem, v, k, r);
      if (reduction->allowed[v] >> k & 1 && (least < 0 || weight < least)) least = weight;
    }
    path[r] = (least < 0 ? 0 : least) + (above ? above[r] : 0);
  }
}

/* Numbers the nodes that stay; returns how many. */
static uint32_t reduction_number(struct reduction *reduction, const struct selector_problem *problem) {
  memset(reduction->total, 0, problem->n_nodes * sizeof *reduction->total);
  for (uint32_t v = problem->n_nodes; v-- > 0;) {
    if (!reduction->allowed[v]) continue;
    double best = 0;
    bool is_first = true;
    for (uint32_t k = 0; k < problem->n_tiers; k++) {
      if (!(reduction->allowed[v] >> k & 1)) continue;
      if (is_first || problem->value[k][v] > best) best = problem->value[k][v];
      is_first = false;
    }
    reduction->total[v] += best;
    if (reduction->total[v] > 0 && problem->parent[v] >= 0) reduction->total[problem->parent[v]] += reduction->total[v];
  }
  uint32_t n = 0;
  for (uint32_t v = 0; v < problem->n_nodes; v++) {
    int32_t parent = problem->parent[v];
    bool stays = reduction->allowed[v] && reduction->total[v] > 0 && (parent < 0 || reduction->number[parent] >= 0);
    reduction->number[v] = stays ? (int32_t)n++ : -1;
  }
  return n;
}

static void core_fill(struct core *core, const struct selector_problem *problem, const struct reduction *reduction) {
  for (uint32_t v = 0; v < problem->n_nodes; v++) {
    if (reduction->number[v] < 0) continue;
    uint32_t u = (uint32_t)reduction->number[v];
    core->node[u] = v;
    core->parent[u] = problem->parent[v] >= 0 ? reduction->number[problem->parent[v]] : SELECTOR_NO_PARENT;
    core->allowed[u] = reduction->allowed[v];
    for (uint32_t k = 0; k < core->n_tiers; k++) {
      core->value[(size_t)u * core->n_tiers + k] = problem->value[k][v];
      for (uint32_t r = 0; r < core->n_rows; r++) {
        core->weight[((size_t)u * core->n_tiers + k) * core->n_rows + r] = problem_weight(problem, v, k, core->row[r]);
      }
    }
  }
}

enum status core_create(const struct selector_problem *problem, struct core **ret_core) {
  struct reduction reduction;
  enum status status = reduction_init(&reduction, problem->n_nodes, problem->n_rows);
  if (status != STATUS_OK) return status;
  for (uint32_t v = 0; v < problem->n_nodes; v++) reduction_fit(&reduction, problem, v);
  uint32_t n = reduction_number(&reduction, problem);
  struct core *core = calloc(1, sizeof *core);
  if (!core) {
    status = STATUS_NO_MEMORY;
    goto out;
  }
  core->n = n;
  core->n_tiers = problem->n_tiers;
  for (uint32_t r = 0; r < problem->n_rows; r++) {
    if (!(problem->budget[r] > 0)) continue;
    core->row[core->n_rows] = r;
    core->budget[core->n_rows++] = problem->budget[r];
  }
  size_t options = (size_t)n * core->n_tiers;
  core->node = malloc((n + (size_t)1) * sizeof *core->node);
  core->parent = malloc((n + (size_t)1) * sizeof *core->parent);
  core->allowed = malloc(n + (size_t)1);
  core->value = malloc((options + 1) * sizeof *core->value);
  core->weight = malloc((options * core->n_rows + 1) * sizeof *core->weight);
  if (!core->node || !core->parent || !core->allowed || !core->value || !core->weight) {
    core_destroy(&core);
    status = STATUS_NO_MEMORY;
    goto out;
  }
  core_fill(core, problem, &reduction);
  *ret_core = core;
out:
  reduction_release(&reduction);
  return status;
}

void core_destroy(struct core **core) {
  if (!*core) return;
  free((*core)->node);
  free((*core)->parent);
  free((*core)->allowed);
  free((*core)->value);
  free((*core)->weight);
  free(*core);
  *core = NULL;
}

double core_reduced(const struct core *core, uint32_t v, uint32_t k, const double *lambda) {
  const double *weight = core_weight(core, v, k);
  double reduced = core_value(core, v, k);
  for (uint32_t r = 0; r < core->n_rows; r++) reduced -= lambda[r] * weight[r];
  return reduced;
}

void core_relax(const struct core *core, const double *lambda, double *total, uint8_t *choice, struct relaxation *ret) {
  double magnitude = 0, bound = 0;
  memset(total, 0, core->n * sizeof *total);
  for (uint32_t v = core->n; v-- > 0;) {
    double most = 0;
    bool is_first = true;
    for (uint32_t k = 0; k < core->n_tiers; k++) {
      if (!core_allows(core, v, k)) continue;
      double reduced = core_reduced(core, v, k, lambda);
      if (is_first || reduced > most) {
        most = reduced;
        choice[v] = (uint8_t)(k + 1);
      }
      is_first = false;
      double value = core_value(core, v, k);
      magnitude += value < 0 ? -reduced : 2 * value - reduced; /* |value| + λ · weight */
    }
    total[v] += most;
    if (total[v] > 0) {
      if (core->parent[v] >= 0) {
        total[core->parent[v]] += total[v];
      } else {
        bound += total[v];
      }
    }
  }
  *ret = (struct relaxation){0};
  for (uint32_t r = 0; r < core->n_rows; r++) {
    bound += lambda[r] * core->budget[r];
    magnitude += lambda[r] * core->budget[r];
  }
  for (uint32_t v = 0; v < core->n; v++) {
    int32_t parent = core->parent[v];
    if (!(total[v] > 0) || (parent >= 0 && choice[parent] == CORE_NONE)) {
      choice[v] = CORE_NONE;
      continue;
    }
    const double *weight = core_weight(core, v, choice[v] - 1u);
    ret->value += core_value(core, v, choice[v] - 1u);
    for (uint32_t r = 0; r < core->n_rows; r++) ret->use[r] += weight[r];
  }
  /* Every number entered at most n + n_rows additions, each with a relative error of 2^-53. */
  ret->bound = bound + magnitude * 1.2e-16 * ((double)core->n + 16);
}
