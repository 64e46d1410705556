/* Makes forecasts mean what they say: q = 1 / (1 + e^−(bias + scale · logit p)), bias and scale learned online by
 * AdaGrad on log loss (Platt 1999; Duchi et al. 2011), drawn back to bias 0 and scale 1. Plain data. */
#ifndef FORELAY_DEMAND_CALIBRATOR_H
#define FORELAY_DEMAND_CALIBRATOR_H

#include <stdbool.h>

struct calibrator {
  double bias, scale;           /* in [−4, 4], [.2, 3] */
  double bias_sum2, scale_sum2; /* of squared gradients */
};

void calibrator_init(struct calibrator *calibrator);
/* p in [0, 1]; the answer lies in (0, 1), and 0 stays 0. */
double calibrator_apply(const struct calibrator *calibrator, double p);
/* p was said (before calibration), and this is what came. */
void calibrator_learn(struct calibrator *calibrator, double p, bool has_come);

#endif
