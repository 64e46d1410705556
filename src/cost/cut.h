/* Up to which segment a path of stored state is worth restoring. Pure arithmetic; any thread; owns nothing. */
#ifndef FORELAY_COST_CUT_H
#define FORELAY_COST_CUT_H

#include <stdint.h>

#include "domain/residence.h"

struct cut_segment {
  double prefill_seconds; /* s_v: computing it instead, without the per-call base */
  double restore_seconds; /* c_v,k: reading it from its tier, without the tier's base */
  enum tier tier;         /* where it would be read from; TIER_NONE ends the path here */
};

struct cut {
  uint32_t n_segments; /* leading segments to restore; 0: compute everything */
  double gain_seconds; /* Σ(s − c) − base of each tier used, of that cut; ≥ 0 */
};

/* The cut that maximises Σ(s − c) − Σ base of the tiers used; of equal ones the shortest. base_seconds[TIER_COUNT] is
 * paid once per tier. Numbers that are not finite end the path before their segment. */
struct cut cut_choose(const struct cut_segment *segments, uint32_t n, const double base_seconds[TIER_COUNT]);

#endif
