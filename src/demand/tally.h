/* How often something came true: counts with a prior, the older half fading when they grow, so that what changes is
 * noticed. Plain data. */
#ifndef FORELAY_DEMAND_TALLY_H
#define FORELAY_DEMAND_TALLY_H

#include <stdbool.h>

struct tally {
  double yes, no; /* ≥ 0, together at most TALLY_MAX + 1 */
};

#define TALLY_MAX 256.

static inline void tally_add(struct tally *tally, bool is_yes) {
  *(is_yes ? &tally->yes : &tally->no) += 1;
  if (tally->yes + tally->no <= TALLY_MAX) return;
  tally->yes /= 2;
  tally->no /= 2;
}

/* Mean of the beta posterior; prior_yes and prior_no > 0. */
static inline double tally_share(const struct tally *tally, double prior_yes, double prior_no) {
  return (tally->yes + prior_yes) / (tally->yes + tally->no + prior_yes + prior_no);
}

#endif
