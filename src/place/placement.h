/* Which tier a node's state belongs in and how long it stays worth its place. Arithmetic on numbers that others
 * forecast and price; never looks them up. Any thread; owns nothing. */
#ifndef FORELAY_PLACE_PLACEMENT_H
#define FORELAY_PLACE_PLACEMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "domain/residence.h"

enum { PLACEMENT_HORIZONS_MAX = 8 };

/* What is expected of one node. Numbers that are not finite count as 0, probabilities are clamped to [0, 1]. */
struct placement_forecast {
  uint32_t n_horizons;                        /* 1 … PLACEMENT_HORIZONS_MAX */
  double horizon_s[PLACEMENT_HORIZONS_MAX];   /* ascending */
  double probability[PLACEMENT_HORIZONS_MAX]; /* P(asked again within it); made non-decreasing by running maximum */
  double asks;                                /* expected asks within the last horizon that an absent node would miss */
  double compatible;                          /* P(fingerprint still the same when asked) */
  double valid;                               /* P(the prefix still begins the prompts it is meant for) */
};

/* What one tier would cost and bring. */
struct placement_option {
  enum tier tier;
  double restore_seconds;           /* c_v,k, share of the path's base included where the caller wants it */
  double acquire_usd;               /* bringing it there from where it is now; 0 for where it is */
  double rent_usd_per_byte_s;       /* of the tier */
  double multiplier_usd_per_byte_s; /* λ of the tier's stock row, as a rent; 0 when the row is slack */
  bool is_open;                     /* false: the tier cannot take it (full for good, failed, too slow) */
};

struct placement_node {
  uint64_t bytes;
  double prefill_seconds;  /* s_v */
  double saved_second_usd; /* w */
};

struct placement {
  enum tier tier;      /* TIER_NONE: not worth having anywhere */
  double value_usd;    /* of that choice; 0 for TIER_NONE */
  double life_s;       /* how long it stays worth its place, from now; 0 for TIER_NONE */
  uint64_t expires_us; /* now_us + life; 0 for TIER_NONE */
};

/* value(v, k | j) = A_v(L) · w · (s_v − c_v,k) · P(compatible) · P(valid) − acquire(j → k) − rent_k over the expected
 * life. The multiplier is left out: in the selection the stock row itself prices displacement. */
double placement_value_usd(const struct placement_node *node, const struct placement_forecast *forecast,
                           const struct placement_option *option);

/* Seconds for which keeping it is worth more than its place: the τ among the horizons that maximises
 * P(T ≤ τ) · w · (s − c) − (rent + λ) · bytes · E min(T, τ), 0 when no τ makes it positive. P is linear between
 * horizons. */
double placement_life_s(const struct placement_node *node, const struct placement_forecast *forecast,
                        const struct placement_option *option);

/* The best of options[n]; of equal values the first one wins. */
struct placement placement_choose(const struct placement_node *node, const struct placement_forecast *forecast,
                                  const struct placement_option *options, uint32_t n, uint64_t now_us);

#endif
