#include "select/filling.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum status filling_init(struct filling *filling, const struct core *core) {
  *filling = (struct filling){.core = core,
                              .choice = malloc(core->n + (size_t)1),
                              .path = malloc((core->n + (size_t)1) * sizeof *filling->path)};
  if (!filling->choice || !filling->path) {
    filling_release(filling);
    return STATUS_NO_MEMORY;
  }
  filling_clear(filling);
  return STATUS_OK;
}

void filling_release(struct filling *filling) {
  free(filling->choice);
  free(filling->path);
  filling->choice = NULL;
  filling->path = NULL;
}

void filling_clear(struct filling *filling) {
  memset(filling->choice, CORE_NONE, filling->core->n);
  for (uint32_t r = 0; r < filling->core->n_rows; r++) filling->left[r] = filling->core->budget[r];
  filling->value = 0;
  filling->steps_left = 64 * (uint64_t)filling->core->n + 1000000;
}

bool filling_fits(const struct filling *filling, const double *weight) {
  for (uint32_t r = 0; r < filling->core->n_rows; r++) {
    if (weight[r] > filling->left[r]) return false;
  }
  return true;
}

void filling_add(struct filling *filling, uint32_t v, uint32_t k) {
  const double *weight = core_weight(filling->core, v, k);
  assert(filling->choice[v] == CORE_NONE && core_allows(filling->core, v, k) && filling_fits(filling, weight));
  for (uint32_t r = 0; r < filling->core->n_rows; r++) filling->left[r] -= weight[r];
  filling->value += core_value(filling->core, v, k);
  filling->choice[v] = (uint8_t)(k + 1);
}

bool filling_add_path(struct filling *filling, uint32_t v, const uint8_t *option) {
  const struct core *core = filling->core;
  double weight[SELECTOR_ROWS_MAX] = {0}, value = 0;
  uint32_t length = 0;
  for (int32_t u = (int32_t)v; u >= 0 && filling->choice[u] == CORE_NONE; u = core->parent[u]) {
    if (filling->steps_left == 0) return false;
    filling->steps_left--;
    const double *own = core_weight(core, (uint32_t)u, option[u]);
    for (uint32_t r = 0; r < core->n_rows; r++) weight[r] += own[r];
    value += core_value(core, (uint32_t)u, option[u]);
    filling->path[length++] = (uint32_t)u;
    if (!filling_fits(filling, weight)) return false;
  }
  if (length == 0) return true;
  if (!(value > 0)) return false;
  double left[SELECTOR_ROWS_MAX];
  memcpy(left, filling->left, sizeof left);
  double value_before = filling->value;
  for (uint32_t i = length; i-- > 0;) {
    uint32_t u = filling->path[i];
    if (!filling_fits(filling, core_weight(core, u, option[u]))) { /* the sums rounded the other way */
      for (uint32_t j = i + 1; j < length; j++) filling->choice[filling->path[j]] = CORE_NONE;
      memcpy(filling->left, left, sizeof left);
      filling->value = value_before;
      return false;
    }
    filling_add(filling, u, option[u]);
  }
  return true;
}

/* The best change of one node: its gain, or 0. Chosen nodes may switch tier, others may come in below a chosen parent.
 */
static double best_change(const struct filling *filling, uint32_t v, uint32_t *ret_k) {
  const struct core *core = filling->core;
  uint32_t now = filling->choice[v];
  double gain = 0;
  for (uint32_t k = 0; k < core->n_tiers; k++) {
    if (!core_allows(core, v, k) || k + 1 == now) continue;
    double difference = core_value(core, v, k) - (now ? core_value(core, v, now - 1) : 0);
    if (!(difference > gain)) continue;
    const double *weight = core_weight(core, v, k), *freed = now ? core_weight(core, v, now - 1) : NULL;
    bool fits = true;
    for (uint32_t r = 0; r < core->n_rows && fits; r++) fits = weight[r] - (freed ? freed[r] : 0) <= filling->left[r];
    if (!fits) continue;
    gain = difference;
    *ret_k = k;
  }
  return gain;
}

void filling_improve(struct filling *filling, uint32_t passes) {
  const struct core *core = filling->core;
  bool has_changed = true;
  while (has_changed && passes-- > 0) {
    has_changed = false;
    for (uint32_t v = 0; v < core->n; v++) {
      if (core->parent[v] >= 0 && filling->choice[core->parent[v]] == CORE_NONE) continue;
      uint32_t k = 0, now = filling->choice[v];
      if (!(best_change(filling, v, &k) > 0)) continue;
      if (now) {
        const double *freed = core_weight(core, v, now - 1);
        for (uint32_t r = 0; r < core->n_rows; r++) {
          filling->left[r] = filling->left[r] + freed[r] - core_weight(core, v, k)[r];
          if (filling->left[r] < 0) filling->left[r] = 0; /* rounding of the line above */
        }
        filling->value += core_value(core, v, k) - core_value(core, v, now - 1);
        filling->choice[v] = (uint8_t)(k + 1);
      } else {
        filling_add(filling, v, k);
      }
      has_changed = true;
    }
  }
}

void filling_export(const struct filling *filling, uint32_t n_nodes, uint8_t *choice) {
  for (uint32_t v = 0; v < n_nodes; v++) choice[v] = CORE_NONE;
  for (uint32_t v = 0; v < filling->core->n; v++) choice[filling->core->node[v]] = filling->choice[v];
}
