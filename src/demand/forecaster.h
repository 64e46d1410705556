/* A forecaster: one way of seeing that a prefix will be asked for. One file each with one `const struct
 * forecaster_ops` and one row in forecaster.c; demand.c mixes and calibrates what they say. Pure: no clock, no I/O.
 * Each owns its state and what it keeps per node; all memory is bounded by the configuration. */
#ifndef FORELAY_DEMAND_FORECASTER_H
#define FORELAY_DEMAND_FORECASTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "demand/demand.h"

enum { FORECASTERS_MAX = 8 };

/* What one of them says of one node. */
struct forecaster_view {
  double p_within[DEMAND_HORIZONS_MAX]; /* for each horizon asked for; need not be calibrated or monotone */
  double asks;                          /* expected within the longest horizon */
};

/* An announcement as demand_announce took it. */
struct forecaster_promise {
  uint64_t id;
  uint32_t node;
  uint64_t at_us, every_us;
  uint32_t count;
};

/* Any but name, prior_weight, create, destroy and forecast may be NULL. Times never decrease from call to call. Nodes
 * are alive unless said otherwise. */
struct forecaster_ops {
  const char *name;    /* one word, in reports and saved rows */
  double prior_weight; /* in the mixture before anything is learned, > 0 */
  enum status (*create)(const struct demand_config *config, void **ret_state);
  void (*destroy)(void *state);
  void (*observe)(void *state, const struct forest *forest, const struct ask *ask, const struct forest_path *path);
  void (*outcome)(void *state, const struct forest *forest, const struct demand_turn *turn);
  /* STATUS_FULL, STATUS_NO_MEMORY: not taken. */
  enum status (*announce)(void *state, const struct forecaster_promise *promise, uint64_t now_us);
  bool (*withdraw)(void *state, uint64_t announcement);
  void (*document)(void *state, const struct forest *forest, uint32_t node, uint64_t now_us);
  void (*split)(void *state, uint32_t upper, uint32_t lower);
  void (*forget)(void *state, uint32_t node);
  /* Lets time pass: labels that have ripened are applied, waits that are over end. */
  void (*update)(void *state, uint64_t now_us);
  /* false: nothing to say about this node now; *ret is untouched then. */
  bool (*forecast)(const void *state, const struct forest *forest, uint32_t node, uint64_t now_us,
                   const double *horizons_s, uint32_t n, struct forecaster_view *ret);
  /* When what it says of the node will have changed enough to look again; UINT64_MAX: not by itself. */
  uint64_t (*due)(const void *state, const struct forest *forest, uint32_t node, uint64_t now_us);
  size_t (*bytes)(const void *state);
  /* Rows of at most `DEMAND_ROW_SIZE − 32` bytes; false when row() said stop. */
  bool (*save)(const void *state, const struct forest *forest, bool (*row)(void *ctx, const char *text), void *ctx);
  enum status (*load)(void *state, const struct forest *forest, const char *text);
};

/* NULL past the last one; i < FORECASTERS_MAX. */
const struct forecaster_ops *forecaster_at(uint32_t i);

#endif
