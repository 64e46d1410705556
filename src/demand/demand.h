/* How likely, how soon, how often a prefix is asked for again: probabilities within horizons, never times. Joins the
 * forecasters (forecaster.h), calibrates them online and remembers how right they were. Pure; one thread at a time.
 * Owns its state, bounded by the forest's nodes. Source of the model: docs/design/deciding.md. */
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

enum { DEMAND_HORIZONS = 3 };

struct demand_config {
  double horizons_s[DEMAND_HORIZONS]; /* increasing */
  uint32_t nodes_max;                 /* of the forest */
};

/* What is asked about. */
struct demand_query {
  enum kind kind;
  uint32_t node; /* of the forest; FOREST_NONE: never asked, only told (a document, an announcement) */
  uint32_t tenant;
  uint32_t turn;         /* conversation: of the request to come, ≥ 2 */
  enum stop_reason stop; /* conversation: how the turn before ended */
  uint64_t since_us;     /* conversation: when it ended; document: when it was told; else 0 */
  bool is_told;          /* somebody said it may be asked about (POST documents) */
  uint64_t announced_us; /* next announced time, 0: none */
  uint64_t every_us;     /* of a repeated announcement, 0: once */
  uint32_t announced_count;
};

struct forecast {
  double p[DEMAND_HORIZONS];    /* of at least one ask within horizons_s[i]; not decreasing in i; in [0, 1] */
  double asks[DEMAND_HORIZONS]; /* expected number within horizons_s[i]; ≥ p */
  double p_low, p_high;         /* interval of p[1], about 90 % */
};

struct calibration {
  uint64_t scored;  /* forecasts whose horizon has passed */
  double base_rate; /* share of those that were asked */
  double brier;     /* mean squared error of p[1] */
  double error;     /* expected calibration error over 10 bins of p[1] */
};

MUST_USE enum status demand_create(const struct demand_config *config, struct demand **ret_demand);
void demand_destroy(struct demand **demand);

/* ── learning ── */
/* A request has come; path as forest_insert gave it. */
void demand_ask(struct demand *demand, const struct forest *forest, const struct ask *ask,
                const struct forest_path *path);
/* A turn has ended: the conversation is now silent. */
void demand_turn_ended(struct demand *demand, uint64_t session, uint32_t turn, enum stop_reason stop, uint64_t at_us);
/* A told document was asked about, or its time (the longest horizon) has passed. */
void demand_told_outcome(struct demand *demand, uint32_t tenant, double after_s, bool was_asked);
/* The forest's callbacks. */
void demand_split(struct demand *demand, uint32_t upper, uint32_t lower);
void demand_forget(struct demand *demand, uint32_t node);

/* ── asking ── O(1); no NaN whatever was learned. */
void demand_forecast(const struct demand *demand, const struct forest *forest, const struct demand_query *query,
                     uint64_t now_us, struct forecast *ret_forecast);
/* When the next burst of a periodic prefix is expected; 0: it is not periodic. */
uint64_t demand_next_burst_us(const struct demand *demand, uint32_t node, uint64_t now_us);
/* Mean time to the next ask given that one comes, in seconds; for the order of work only. */
double demand_typical_gap_s(const struct demand *demand, const struct forest *forest, const struct demand_query *query,
                            uint64_t now_us);

/* Makes the forecasts of a parent and its children agree: asks_parent ≥ ending + Σ asks_child, p_parent ≥ max p_child.
 */
void demand_reconcile(struct forecast *parent, const double ending_asks[DEMAND_HORIZONS],
                      const struct forecast *children, size_t n);

/* ── how right they were ── labels are applied when the horizon has passed, asked or not alike. */
/* Remembers a forecast of p[1] made for `name` (any 128-bit name); bounded, the oldest go. */
void demand_promise(struct demand *demand, block_key name, double p, uint64_t now_us);
/* `name` was asked for. */
void demand_kept(struct demand *demand, block_key name, uint64_t at_us);
/* Scores what is due. */
void demand_score(struct demand *demand, uint64_t now_us);
void demand_calibration(const struct demand *demand, struct calibration *ret_calibration);

#endif
