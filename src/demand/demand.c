#include "demand/demand.h"

#include <assert.h>
#include <stdlib.h>

#include "base/heap.h"
#include "base/number.h"
#include "base/rng.h"
#include "demand/demand_state.h"

#define HORIZON_S_MAX 1e7

void demand_config_init(struct demand_config *config, uint32_t nodes_max) {
  *config = (struct demand_config){.nodes_max = nodes_max,
                                   .sessions_max = 4096,
                                   .announcements_max = 1024,
                                   .labels_max = 4096,
                                   .n_horizons = 3,
                                   .horizons_s = {60, 600, 3600}};
}

static bool is_valid(const struct demand_config *config) {
  if (config->nodes_max == 0 || config->nodes_max == UINT32_MAX || config->sessions_max == 0) return false;
  if (config->sessions_max > UINT32_MAX / 4) return false;
  if (config->announcements_max == 0 || config->labels_max < 16) return false;
  if (config->n_horizons == 0 || config->n_horizons > DEMAND_HORIZONS_MAX) return false;
  for (uint32_t i = 0; i < config->n_horizons; i++) {
    double horizon_s = config->horizons_s[i];
    if (!number_is_finite(horizon_s) || horizon_s > HORIZON_S_MAX) return false;
    if (!(horizon_s > (i ? config->horizons_s[i - 1] : 0))) return false;
  }
  return true;
}

enum status demand_create(const struct demand_config *config, struct demand **ret_demand) {
  if (!is_valid(config)) return STATUS_INVALID;
  struct demand *demand = calloc(1, sizeof *demand);
  if (!demand) return STATUS_NO_MEMORY;
  demand->config = *config;
  demand->next_announcement = 1;
  rng_init(&demand->rng, config->seed);
  enum status status = heap_create(&demand->due);
  for (uint32_t i = 0; status == STATUS_OK && forecaster_at(i); i++) {
    status = forecaster_at(i)->create(config, &demand->states[i]);
    if (status == STATUS_OK) demand->n_forecasters++;
  }
  for (uint32_t h = 0; status == STATUS_OK && h < config->n_horizons; h++) {
    mixture_init(&demand->mixtures[h], demand->n_forecasters);
    status = labels_create(config->labels_max, config->nodes_max, config->horizons_s[h], &demand->labels[h]);
  }
  if (status != STATUS_OK) {
    demand_destroy(&demand);
    return status;
  }
  *ret_demand = demand;
  return STATUS_OK;
}

void demand_destroy(struct demand **demand) {
  struct demand *gone = *demand;
  if (!gone) return;
  for (uint32_t i = 0; i < gone->n_forecasters; i++) forecaster_at(i)->destroy(gone->states[i]);
  for (uint32_t h = 0; h < DEMAND_HORIZONS_MAX; h++) labels_destroy(&gone->labels[h]);
  heap_destroy(&gone->due);
  free(gone);
  *demand = NULL;
}

/* Time goes on: labels that have ripened are learned from. */
static uint64_t advance(struct demand *demand, uint64_t now_us) {
  if (now_us > demand->now_us) demand->now_us = now_us;
  for (uint32_t h = 0; h < demand->config.n_horizons; h++) {
    struct label label;
    while (labels_take_ripe(demand->labels[h], demand->now_us, &label)) {
      if (label.node == FOREST_NONE) continue;
      scorecard_add(&demand->scores[h], (double)label.p, label.has_come);
      mixture_learn(&demand->mixtures[h], &label.voices, label.has_come);
    }
  }
  for (uint32_t i = 0; i < demand->n_forecasters; i++) {
    if (forecaster_at(i)->update) forecaster_at(i)->update(demand->states[i], demand->now_us);
  }
  return demand->now_us;
}

static bool is_alive(const struct demand *demand, const struct forest *forest, uint32_t node) {
  return node <= demand->config.nodes_max && forest_at(forest, node) != NULL;
}

/* Without memory it is looked at when something else happens to it. */
static void make_due(struct demand *demand, uint32_t node, uint64_t due_us) {
  if (heap_set(demand->due, node, (double)due_us) != STATUS_OK) heap_remove(demand->due, node);
}

/* What each forecaster says of a node; false for those that are silent. */
struct hearing {
  bool is_said[FORECASTERS_MAX];
  struct forecaster_view view[FORECASTERS_MAX];
};

static void hear(const struct demand *demand, const struct forest *forest, uint32_t node, const double *horizons_s,
                 uint32_t n, struct hearing *ret) {
  for (uint32_t i = 0; i < demand->n_forecasters; i++) {
    ret->is_said[i] =
        forecaster_at(i)->forecast(demand->states[i], forest, node, demand->now_us, horizons_s, n, &ret->view[i]);
    if (!ret->is_said[i]) continue;
    double least = 0;
    for (uint32_t h = 0; h < n; h++) {
      least = number_clamp(ret->view[i].p_within[h], least, 1, least);
      ret->view[i].p_within[h] = least;
    }
    ret->view[i].asks = number_clamp(ret->view[i].asks, 0, 1e9, 0);
  }
}

static struct voices voices_at(const struct demand *demand, const struct hearing *hearing, uint32_t horizon) {
  struct voices voices;
  for (uint32_t i = 0; i < FORECASTERS_MAX; i++) {
    bool is_said = i < demand->n_forecasters && hearing->is_said[i];
    voices.p[i] = is_said ? (float)hearing->view[i].p_within[horizon] : -1;
  }
  return voices;
}

/* Remembers what is said of the node now, to be compared with what will have come. */
static void sample(struct demand *demand, const struct forest *forest, uint32_t node) {
  struct hearing hearing;
  uint32_t n = demand->config.n_horizons;
  hear(demand, forest, node, demand->config.horizons_s, n, &hearing);
  double least = 0;
  for (uint32_t h = 0; h < n; h++) {
    struct voices voices = voices_at(demand, &hearing, h);
    double p = mixture_apply(&demand->mixtures[h], &voices, NULL);
    if (p > least) least = p;
    labels_add(demand->labels[h], node, demand->now_us, &voices, least);
  }
}

static void sample_if_young(struct demand *demand, const struct forest *forest, uint32_t node) {
  if (!is_alive(demand, forest, node)) return;
  const struct forest_node *row = forest_at(forest, node);
  uint64_t used_us = row->last_us > row->born_us ? row->last_us : row->born_us;
  double age_s_max = 6 * demand->config.horizons_s[demand->config.n_horizons - 1];
  if (span_s(used_us, demand->now_us) < age_s_max) sample(demand, forest, node);
}

/* One node that was asked for a while ago and one of any age, at a moment that has nothing to do with them; seldom one
 * that was asked for just now. Looking at nodes only when they are asked for would teach that all are busy. */
static void sample_some(struct demand *demand, const struct forest *forest, const struct forest_path *path) {
  uint32_t node = path->nodes[rng_below(&demand->rng, path->n_nodes)];
  uint32_t *recent = &demand->recent[rng_below(&demand->rng, RECENT)];
  if (rng_below(&demand->rng, 4) == 0) sample(demand, forest, node);
  sample_if_young(demand, forest, *recent);
  *recent = node;
  sample_if_young(demand, forest, (uint32_t)rng_below(&demand->rng, forest_ids(forest)));
}

void demand_observe(struct demand *demand, const struct forest *forest, const struct ask *ask,
                    const struct forest_path *path) {
  advance(demand, ask->at_us);
  struct ask now = *ask;
  now.at_us = demand->now_us;
  for (uint32_t i = 0; i < path->n_nodes; i++) {
    if (!is_alive(demand, forest, path->nodes[i])) return; /* a forest larger than this was made for */
  }
  for (uint32_t i = 0; i < demand->n_forecasters; i++) {
    if (forecaster_at(i)->observe) forecaster_at(i)->observe(demand->states[i], forest, &now, path);
  }
  for (uint32_t i = 0; i < path->n_nodes; i++) {
    for (uint32_t h = 0; h < demand->config.n_horizons; h++) labels_asked(demand->labels[h], path->nodes[i]);
    make_due(demand, path->nodes[i], demand->now_us);
  }
  if (path->n_nodes) sample_some(demand, forest, path);
}

void demand_outcome(struct demand *demand, const struct forest *forest, const struct demand_turn *turn) {
  struct demand_turn now = *turn;
  now.at_us = advance(demand, turn->at_us);
  if (!is_alive(demand, forest, now.next)) now.next = FOREST_NONE;
  for (uint32_t i = 0; i < demand->n_forecasters; i++) {
    if (forecaster_at(i)->outcome) forecaster_at(i)->outcome(demand->states[i], forest, &now);
  }
  if (now.next == FOREST_NONE) return;
  make_due(demand, now.next, demand->now_us);
  sample(demand, forest, now.next);
}

enum status demand_announce(struct demand *demand, const struct forest *forest, uint32_t node, uint64_t at_us,
                            uint64_t every_us, uint32_t count, uint64_t now_us, uint64_t *ret_id) {
  advance(demand, now_us);
  if (!is_alive(demand, forest, node) || count == 0) return STATUS_INVALID;
  if (at_us > UINT64_MAX / 4 || every_us > UINT64_MAX / 4) return STATUS_INVALID;
  struct forecaster_promise promise = {
      .id = demand->next_announcement, .node = node, .at_us = at_us, .every_us = every_us, .count = count};
  enum status status = STATUS_UNSUPPORTED;
  for (uint32_t i = 0; i < demand->n_forecasters; i++) {
    if (forecaster_at(i)->announce) status = forecaster_at(i)->announce(demand->states[i], &promise, demand->now_us);
    if (status != STATUS_OK && status != STATUS_UNSUPPORTED) return status;
  }
  if (status != STATUS_OK) return status;
  demand->next_announcement++;
  make_due(demand, node, demand->now_us);
  *ret_id = promise.id;
  return STATUS_OK;
}

enum status demand_withdraw(struct demand *demand, uint64_t announcement) {
  bool was_there = false;
  for (uint32_t i = 0; i < demand->n_forecasters; i++) {
    if (forecaster_at(i)->withdraw) was_there |= forecaster_at(i)->withdraw(demand->states[i], announcement);
  }
  return was_there ? STATUS_OK : STATUS_NOT_FOUND;
}

void demand_document(struct demand *demand, const struct forest *forest, uint32_t node, uint64_t now_us) {
  advance(demand, now_us);
  if (!is_alive(demand, forest, node)) return;
  for (uint32_t i = 0; i < demand->n_forecasters; i++) {
    if (forecaster_at(i)->document) forecaster_at(i)->document(demand->states[i], forest, node, demand->now_us);
  }
  make_due(demand, node, demand->now_us);
  sample(demand, forest, node);
}

void demand_split(struct demand *demand, uint32_t upper, uint32_t lower) {
  for (uint32_t i = 0; i < demand->n_forecasters; i++) {
    if (forecaster_at(i)->split) forecaster_at(i)->split(demand->states[i], upper, lower);
  }
}

void demand_forget(struct demand *demand, uint32_t node) {
  for (uint32_t i = 0; i < demand->n_forecasters; i++) {
    if (forecaster_at(i)->forget) forecaster_at(i)->forget(demand->states[i], node);
  }
  for (uint32_t h = 0; h < demand->config.n_horizons; h++) labels_forget(demand->labels[h], node);
  heap_remove(demand->due, node);
}

/* ── questions ── */

/* The learned horizon that is nearest, as a ratio. */
static uint32_t nearest_horizon(const struct demand *demand, double horizon_s) {
  uint32_t nearest = 0;
  double least = 0;
  for (uint32_t h = 0; h < demand->config.n_horizons; h++) {
    double learned_s = demand->config.horizons_s[h];
    double ratio = learned_s > horizon_s ? learned_s / horizon_s : horizon_s / learned_s;
    if (h == 0 || ratio < least) {
      nearest = h;
      least = ratio;
    }
  }
  return nearest;
}

static void blend_asks(const struct demand *demand, const struct hearing *hearing, const double weight[FORECASTERS_MAX],
                       struct forecast *forecast) {
  uint32_t last = forecast->n_horizons - 1;
  double largest = 0;
  for (uint32_t i = 0; i < demand->n_forecasters; i++) {
    if (!hearing->is_said[i]) continue;
    forecast->asks += weight[i] * hearing->view[i].asks;
    forecast->is_announced |= forecaster_at(i)->announce != NULL;
    double share = weight[i] * (hearing->view[i].p_within[last] + 1e-6);
    if (share <= largest) continue;
    largest = share;
    forecast->forecaster = forecaster_at(i)->name;
  }
  if (forecast->asks < forecast->p_within[last]) forecast->asks = forecast->p_within[last];
}

void demand_forecast(struct demand *demand, const struct forest *forest, uint32_t node, uint64_t now_us,
                     const double *horizons_s, uint32_t n, struct forecast *ret) {
  assert(n >= 1 && n <= DEMAND_HORIZONS_MAX);
  advance(demand, now_us);
  struct forecast forecast = {.n_horizons = n, .forecaster = "none"};
  for (uint32_t h = 0; h < n; h++) forecast.horizon_s[h] = number_clamp(horizons_s[h], 1e-3, HORIZON_S_MAX, 1e-3);
  const struct forest_node *row = is_alive(demand, forest, node) ? forest_at(forest, node) : NULL;
  if (!row) {
    *ret = forecast;
    return;
  }
  forecast.kind = forest_kind(row);
  forecast.p_repeat = ((double)row->repeats + .25) / ((double)row->asks + 1);
  if (forecast.p_repeat > 1) forecast.p_repeat = 1;
  struct hearing hearing;
  hear(demand, forest, node, forecast.horizon_s, n, &hearing);
  double weight[FORECASTERS_MAX] = {0}, least = 0;
  for (uint32_t h = 0; h < n; h++) {
    struct voices voices = voices_at(demand, &hearing, h);
    uint32_t learned = nearest_horizon(demand, forecast.horizon_s[h]);
    least = number_clamp(mixture_apply(&demand->mixtures[learned], &voices, weight), least, 1, least);
    forecast.p_within[h] = least;
  }
  blend_asks(demand, &hearing, weight, &forecast);
  *ret = forecast;
}

void demand_reconcile(struct forecast *parent, const struct forecast *children, uint32_t n_children,
                      double ending_asks) {
  double asks = number_clamp(ending_asks, 0, 1e9, 0);
  for (uint32_t i = 0; i < n_children; i++) {
    const struct forecast *child = &children[i];
    asks += number_clamp(child->asks, 0, 1e9, 0);
    for (uint32_t h = 0; h < parent->n_horizons && h < child->n_horizons; h++) {
      if (child->p_within[h] > parent->p_within[h]) parent->p_within[h] = child->p_within[h];
    }
  }
  for (uint32_t h = 0; h < parent->n_horizons; h++) {
    double least = h ? parent->p_within[h - 1] : 0;
    parent->p_within[h] = number_clamp(parent->p_within[h], least, 1, least);
  }
  /* What it expects beyond them are asks of children nobody has seen yet. */
  parent->asks = number_clamp(parent->asks, asks, 1e9 + asks, asks);
  double p = parent->n_horizons ? parent->p_within[parent->n_horizons - 1] : 0;
  if (parent->asks < p) parent->asks = p;
}

uint64_t demand_next_due(const struct demand *demand) {
  uint32_t node;
  double due_us;
  return heap_peek(demand->due, &node, &due_us) ? (uint64_t)due_us : UINT64_MAX;
}

bool demand_pop_due(struct demand *demand, const struct forest *forest, uint64_t now_us, uint32_t *ret_node) {
  advance(demand, now_us);
  uint32_t node;
  double due_us;
  while (heap_peek(demand->due, &node, &due_us) && due_us <= (double)demand->now_us) {
    heap_remove(demand->due, node);
    if (!is_alive(demand, forest, node)) continue;
    uint64_t next_us = UINT64_MAX;
    for (uint32_t i = 0; i < demand->n_forecasters; i++) {
      const struct forecaster_ops *ops = forecaster_at(i);
      uint64_t own_us = ops->due ? ops->due(demand->states[i], forest, node, demand->now_us) : UINT64_MAX;
      if (own_us < next_us) next_us = own_us;
    }
    if (next_us <= demand->now_us) next_us = demand->now_us + 1000000;
    if (next_us != UINT64_MAX) make_due(demand, node, next_us);
    *ret_node = node;
    return true;
  }
  return false;
}

void demand_calibration(const struct demand *demand, uint32_t horizon, struct calibration *ret) {
  struct scorecard all = {0};
  for (uint32_t h = 0; h < demand->config.n_horizons; h++) {
    if (horizon == h || horizon >= demand->config.n_horizons) scorecard_join(&all, &demand->scores[h]);
  }
  scorecard_read(&all, ret);
}

size_t demand_bytes(const struct demand *demand) {
  size_t bytes = sizeof *demand + heap_count(demand->due) * (sizeof(double) + 2 * sizeof(uint32_t));
  for (uint32_t i = 0; i < demand->n_forecasters; i++) {
    if (forecaster_at(i)->bytes) bytes += forecaster_at(i)->bytes(demand->states[i]);
  }
  for (uint32_t h = 0; h < demand->config.n_horizons; h++) bytes += labels_bytes(demand->labels[h]);
  return bytes;
}
