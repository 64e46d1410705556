#include "demand/calibrator.h"

#include <stdint.h>

#include "base/number.h"

#define LOGIT_MAX 9.
#define STEP 1.5
#define OFFSET_MAX 5.
#define LEARNING_RATE .15
#define PULL .01 /* towards offset 0, for each label */

void calibrator_init(struct calibrator *calibrator) {
  *calibrator = (struct calibrator){.offset = {0}};
  for (uint32_t i = 0; i < CALIBRATOR_KNOTS; i++) calibrator->sum2[i] = 1;
}

static double logit(double p) {
  p = number_clamp(p, 1e-4, 1 - 1e-4, .5);
  return number_log(p) - number_log(1 - p);
}

static double knot(uint32_t i) {
  return STEP * i - LOGIT_MAX;
}

/* The knot at or below x and how far x is on the way to the next one. */
static uint32_t knot_below(double x, double *ret_way) {
  double at = (x + LOGIT_MAX) / STEP;
  uint32_t i = (uint32_t)at;
  if (i > CALIBRATOR_KNOTS - 2) i = CALIBRATOR_KNOTS - 2;
  *ret_way = at - i;
  return i;
}

static double corrected(const struct calibrator *calibrator, double x) {
  double way;
  uint32_t i = knot_below(x, &way);
  return x + (1 - way) * calibrator->offset[i] + way * calibrator->offset[i + 1];
}

double calibrator_apply(const struct calibrator *calibrator, double p) {
  return p > 0 ? number_sigmoid(corrected(calibrator, logit(p))) : 0;
}

static void knot_learn(struct calibrator *calibrator, uint32_t i, double error, double share) {
  double slope = share * (error + PULL * calibrator->offset[i]);
  calibrator->sum2[i] += slope * slope;
  double offset = calibrator->offset[i] - LEARNING_RATE * slope / number_sqrt(calibrator->sum2[i]);
  calibrator->offset[i] = number_clamp(offset, -OFFSET_MAX, OFFSET_MAX, 0);
}

/* Neighbours give way to the knot that was just learned. */
static void keep_order(struct calibrator *calibrator, uint32_t learned) {
  for (uint32_t i = learned; i + 1 < CALIBRATOR_KNOTS; i++) {
    double least = knot(i) + calibrator->offset[i] - knot(i + 1);
    if (calibrator->offset[i + 1] < least) calibrator->offset[i + 1] = least;
  }
  for (uint32_t i = learned; i > 0; i--) {
    double most = knot(i) + calibrator->offset[i] - knot(i - 1);
    if (calibrator->offset[i - 1] > most) calibrator->offset[i - 1] = most;
  }
}

void calibrator_learn(struct calibrator *calibrator, double p, bool has_come) {
  if (!(p > 0)) return;
  double x = logit(p), way, error = number_sigmoid(corrected(calibrator, x)) - (has_come ? 1 : 0);
  uint32_t i = knot_below(x, &way);
  knot_learn(calibrator, i, error, 1 - way);
  knot_learn(calibrator, i + 1, error, way);
  keep_order(calibrator, i);
  keep_order(calibrator, i + 1);
}

bool calibrator_is_valid(const struct calibrator *calibrator) {
  for (uint32_t i = 0; i < CALIBRATOR_KNOTS; i++) {
    if (!(calibrator->offset[i] >= -OFFSET_MAX && calibrator->offset[i] <= OFFSET_MAX)) return false;
    if (!(calibrator->sum2[i] > 0 && calibrator->sum2[i] < 1e18)) return false;
    if (i && knot(i) + calibrator->offset[i] < knot(i - 1) + calibrator->offset[i - 1] - 1e-9) return false;
  }
  return true;
}
