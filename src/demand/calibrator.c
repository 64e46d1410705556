#include "demand/calibrator.h"

#include "base/number.h"

#define LEARNING_RATE .3
#define PULL .002 /* towards bias 0 and scale 1, for each label */

void calibrator_init(struct calibrator *calibrator) {
  *calibrator = (struct calibrator){.scale = 1, .bias_sum2 = 1, .scale_sum2 = 1};
}

static double logit(double p) {
  p = number_clamp(p, 1e-4, 1 - 1e-4, .5);
  return number_log(p) - number_log(1 - p);
}

double calibrator_apply(const struct calibrator *calibrator, double p) {
  if (!(p > 0)) return 0;
  return number_sigmoid(calibrator->bias + calibrator->scale * logit(p));
}

void calibrator_learn(struct calibrator *calibrator, double p, bool has_come) {
  if (!(p > 0)) return;
  double x = logit(p), error = number_sigmoid(calibrator->bias + calibrator->scale * x) - (has_come ? 1 : 0);
  double bias_slope = error + PULL * calibrator->bias, scale_slope = error * x + PULL * (calibrator->scale - 1);
  calibrator->bias_sum2 += bias_slope * bias_slope;
  calibrator->scale_sum2 += scale_slope * scale_slope;
  calibrator->bias -= LEARNING_RATE * bias_slope / number_sqrt(calibrator->bias_sum2);
  calibrator->scale -= LEARNING_RATE * scale_slope / number_sqrt(calibrator->scale_sum2);
  calibrator->bias = number_clamp(calibrator->bias, -4, 4, 0);
  calibrator->scale = number_clamp(calibrator->scale, .2, 3, 1);
}
