/* What preparing, keeping and recomputing state costs, per engine: coefficients fitted online from what really took how
 * long. Never measures anything itself. One thread at a time. Owns its fits.
 *
 * Prefill of n tokens at depth d takes base + alpha·n + beta·n·(d + n/2) seconds; moving bytes from or to tier k takes
 * base_k + bytes / bandwidth_k; decoding n tokens at depth d takes (gamma + delta·d)·n. Coefficients are never
 * negative. Until the first sample each fit stands on its default and says so; the first sample scales the default as a
 * whole. */
#ifndef FORELAY_COST_COST_H
#define FORELAY_COST_COST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "domain/price.h"
#include "domain/residence.h"

struct cost;

/* Where the fits start. */
struct cost_defaults {
  double prefill_base_s;             /* per call */
  double prefill_s_per_token;        /* alpha */
  double prefill_s_per_token2;       /* beta */
  double decode_s_per_token;         /* gamma, at depth 0 */
  double decode_s_per_token2;        /* delta */
  double restore_base_s[TIER_COUNT]; /* per restored path and tier */
  double restore_bytes_per_s[TIER_COUNT];
  double save_base_s[TIER_COUNT];
  double save_bytes_per_s[TIER_COUNT];
};

/* The embedded engine with a small model on two cores, and ordinary local disks. */
void cost_defaults_embedded(struct cost_defaults *defaults);

struct cost_estimate {
  double seconds;        /* ≥ 0, finite */
  double standard_error; /* of the mean, seconds; the spread of single runs is wider */
  uint64_t samples;      /* accepted so far */
  bool is_default;       /* no sample yet */
};

/* STATUS_INVALID when a default is NaN, infinite or negative, or a bandwidth is 0. `defaults` is borrowed for the call.
 */
MUST_USE enum status cost_create(const struct cost_defaults *defaults, struct error *error, struct cost **ret_cost);
void cost_destroy(struct cost **cost);

/* Samples. false: refused (not finite, negative or zero work, seconds below 0), nothing learned. Outliers count little;
 * four in a row on the same side count as a changed machine, and the fit starts again from its scaled self. */
bool cost_observe_prefill(struct cost *cost, uint32_t tokens, uint32_t depth, double seconds);
bool cost_observe_decode(struct cost *cost, uint32_t tokens, uint32_t depth, double seconds);
bool cost_observe_restore(struct cost *cost, enum tier tier, uint64_t bytes, double seconds);
bool cost_observe_save(struct cost *cost, enum tier tier, uint64_t bytes, double seconds);

/* Expected seconds. TIER_NONE and tiers out of range cost a very large finite number of seconds to restore from or save
 * to; no bytes cost nothing. */
double cost_prefill_seconds(const struct cost *cost, uint32_t tokens, uint32_t depth);
double cost_decode_seconds(const struct cost *cost, uint32_t tokens, uint32_t depth);
double cost_restore_seconds(const struct cost *cost, enum tier tier, uint64_t bytes);
double cost_save_seconds(const struct cost *cost, enum tier tier, uint64_t bytes);
/* The two parts of a restore: base once per path and tier, bytes for each segment. */
double cost_restore_base_seconds(const struct cost *cost, enum tier tier);
double cost_restore_bytes_seconds(const struct cost *cost, enum tier tier, uint64_t bytes);
/* The part of prefill that belongs to the segment itself, without the per-call base: adds up over a path exactly. */
double cost_prefill_segment_seconds(const struct cost *cost, uint32_t tokens, uint32_t depth);

/* The same with their uncertainty. */
struct cost_estimate cost_prefill_estimate(const struct cost *cost, uint32_t tokens, uint32_t depth);
struct cost_estimate cost_decode_estimate(const struct cost *cost, uint32_t tokens, uint32_t depth);
struct cost_estimate cost_restore_estimate(const struct cost *cost, enum tier tier, uint64_t bytes);
struct cost_estimate cost_save_estimate(const struct cost *cost, enum tier tier, uint64_t bytes);

/* Whether reading `bytes` back from the tier is expected to be faster than computing `tokens` at `depth`. A disk that
 * got slow answers no, and then neither reads nor writes there pay. */
bool cost_restore_pays(const struct cost *cost, enum tier tier, uint64_t bytes, uint32_t tokens, uint32_t depth);

/* Bytes per second fitted for restoring from the tier, without the base. */
double cost_restore_bandwidth(const struct cost *cost, enum tier tier);

/* USD that speculative engine seconds cost, and joules that engine seconds take above idle. Seconds that are not finite
 * or below 0 count as 0. */
double cost_speculative_usd(const struct price *price, double engine_seconds);
double cost_joules(const struct price *price, double engine_seconds);
/* Worth in USD of one prefill second saved in front of a waiting user with `queue_behind` requests expected behind it
 * (w of the design): scalable cash + wait · (1 + queue). */
double cost_saved_second_usd(const struct price *price, double queue_behind);

#endif
