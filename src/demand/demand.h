/* Demand: how likely, how soon and how often the prefix that ends in a node of the forest is asked for again. Whether
 * can be predicted, when cannot: answers are probabilities within horizons, never timers. Several forecasters
 * (forecaster.h) each say what they can see; they are mixed by how well they did, and calibrated on labels that ripen
 * at t + horizon, positive and negative alike. Never decides what to prepare, never scans the forest. No number it
 * returns is ever NaN or infinite. Times are Unix microseconds; an earlier one is taken as the last one. One thread at
 * a time. Owns a row per node of a forest it does not own; memory is bounded by nodes_max. */
#ifndef FORELAY_DEMAND_DEMAND_H
#define FORELAY_DEMAND_DEMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "domain/observation.h"
#include "domain/task.h"
#include "prefix/forest.h"

struct demand;

enum {
  DEMAND_HORIZONS_MAX = 8,
  DEMAND_ROW_SIZE = 3072, /* most bytes of a saved row, the closing 0 included */
  CALIBRATION_BINS = 10
};

struct demand_config {
  uint32_t nodes_max;                     /* of the forest: forest_nodes_max */
  uint32_t sessions_max;                  /* conversations waited for at once; the oldest makes room. ≥ 1 */
  uint32_t announcements_max;             /* ≥ 1 */
  uint32_t labels_max;                    /* forecasts remembered until their labels ripen, for each horizon, ≥ 16 */
  uint32_t n_horizons;                    /* 1 … DEMAND_HORIZONS_MAX: those that are learned and scored */
  double horizons_s[DEMAND_HORIZONS_MAX]; /* increasing, > 0 */
  uint64_t seed;                          /* of the sample of nodes that are scored */
};
/* 4,096 sessions, 1,024 announcements, 4,096 labels, horizons 60, 600 and 3,600 s. */
void demand_config_init(struct demand_config *config, uint32_t nodes_max);

struct forecast {
  uint32_t n_horizons;
  double horizon_s[DEMAND_HORIZONS_MAX]; /* as asked for: increasing */
  double p_within[DEMAND_HORIZONS_MAX];  /* of at least one ask within it from now; non-decreasing */
  double asks;                           /* expected within the longest horizon; ≥ its p_within */
  double p_repeat;                       /* that the next ask ends here: the same whole prompt again */
  enum kind kind;                        /* as the forest sees it */
  const char *forecaster; /* who weighs most in it; "none" when nobody had anything to say. Static storage */
  bool is_announced;      /* somebody said so */
};

/* STATUS_INVALID: a field out of range. */
MUST_USE enum status demand_create(const struct demand_config *config, struct demand **ret_demand);
void demand_destroy(struct demand **demand);

/* ── events ── */
/* Right after forest_insert of the same ask. */
void demand_observe(struct demand *demand, const struct forest *forest, const struct ask *ask,
                    const struct forest_path *path);
/* A turn has ended. */
struct demand_turn {
  uint64_t at_us;
  uint64_t session; /* 0: nothing is waited for */
  uint32_t turn;    /* of the request that ended */
  enum stop_reason stop;
  uint32_t next; /* node in which the next turn's known beginning ends (forest_plant of outcome.next_keys); FOREST_NONE:
                    wherever the prompt ended */
};
void demand_outcome(struct demand *demand, const struct forest *forest, const struct demand_turn *turn);
/* Somebody said that `count` requests (≥ 1) for the prefix come at at_us and, where every_us is not 0, again each
 * every_us. The caller pins the node. STATUS_FULL: announcements_max; STATUS_INVALID: no such node. */
MUST_USE enum status demand_announce(struct demand *demand, const struct forest *forest, uint32_t node, uint64_t at_us,
                                     uint64_t every_us, uint32_t count, uint64_t now_us, uint64_t *ret_id);
/* STATUS_NOT_FOUND when it is over or was never made. */
MUST_USE enum status demand_withdraw(struct demand *demand, uint64_t announcement);
/* A document has been opened that ends in this node and may be asked about. */
void demand_document(struct demand *demand, const struct forest *forest, uint32_t node, uint64_t now_us);

/* To be called from the forest's callbacks of the same names. */
void demand_split(struct demand *demand, uint32_t upper, uint32_t lower);
void demand_forget(struct demand *demand, uint32_t node);

/* ── questions ── */
/* horizons_s[n] increasing, 1 ≤ n ≤ DEMAND_HORIZONS_MAX; those out of (0, 1e7] are clamped. A node that is not alive
 * has zeros. O(forecasters · n). */
void demand_forecast(struct demand *demand, const struct forest *forest, uint32_t node, uint64_t now_us,
                     const double *horizons_s, uint32_t n, struct forecast *ret);

/* Makes a parent agree with its children, all with the same horizons: expected asks at least those that end here plus
 * the children's, each probability at least the largest child's. ending_asks: expected asks that end in the parent
 * itself within the longest horizon. Never 1 − Π(1 − p): siblings arrive together. */
void demand_reconcile(struct forecast *parent, const struct forecast *children, uint32_t n_children,
                      double ending_asks);

/* When some node's forecast is worth looking at again; UINT64_MAX: none by itself. */
uint64_t demand_next_due(const struct demand *demand);
/* The next node that is due at now_us, each alive; false when none is. It comes up again by itself later if its
 * forecast will change. Nodes of an observed path, of an ended turn and of an announcement are due at once. */
bool demand_pop_due(struct demand *demand, const struct forest *forest, uint64_t now_us, uint32_t *ret_node);

/* How forecasts compared with what came, over all labels that have ripened. */
struct calibration {
  uint64_t scored;
  double brier;                      /* mean squared error; 0 while nothing is scored */
  double brier_base;                 /* of always saying the base rate */
  double error;                      /* expected calibration error over bins */
  double forecast[CALIBRATION_BINS]; /* mean forecast in [i/10, (i+1)/10); 0 where none */
  double observed[CALIBRATION_BINS]; /* share that came true */
  uint64_t count[CALIBRATION_BINS];
};
/* horizon: index into the configured ones, or DEMAND_HORIZONS_MAX for all together. */
void demand_calibration(const struct demand *demand, uint32_t horizon, struct calibration *ret);
size_t demand_bytes(const struct demand *demand);

/* ── memory across restarts ── nodes are named by their end keys, so load the forest first. */
void demand_save(const struct demand *demand, const struct forest *forest, bool (*row)(void *ctx, const char *text),
                 void *ctx);
/* STATUS_INVALID: not such a row; nothing changed. Rows of nodes that are no more are taken and dropped. */
MUST_USE enum status demand_load(struct demand *demand, const struct forest *forest, const char *text);

#endif
