/* Several forecasters' words as one: each is calibrated by itself, then weighed by how well it did where it spoke
 * (specialists under fixed share: Freund et al. 1997, Herbster and Warmuth 1998). One of these for each learned
 * horizon. Plain data. */
#ifndef FORELAY_DEMAND_MIXTURE_H
#define FORELAY_DEMAND_MIXTURE_H

#include <stdbool.h>
#include <stdint.h>

#include "demand/calibrator.h"
#include "demand/forecaster.h"

/* What each forecaster said; a negative number: nothing. */
struct voices {
  float p[FORECASTERS_MAX];
};

struct mixture {
  uint32_t n;
  double prior[FORECASTERS_MAX];  /* sum 1 */
  double weight[FORECASTERS_MAX]; /* > 0, sum 1 */
  struct calibrator own[FORECASTERS_MAX];
};

/* Weights from forecaster_at(i)->prior_weight, i < n. */
void mixture_init(struct mixture *mixture, uint32_t n);
/* In [0, 1]; 0 when all are silent. ret_weight (may be NULL): share of each in the answer, 0 for the silent. */
double mixture_apply(const struct mixture *mixture, const struct voices *voices, double ret_weight[FORECASTERS_MAX]);
void mixture_learn(struct mixture *mixture, const struct voices *voices, bool has_come);

#endif
