/* How forecasts compared with what came: running sums behind `struct calibration`. Plain data. */
#ifndef FORELAY_DEMAND_SCORECARD_H
#define FORELAY_DEMAND_SCORECARD_H

#include <stdbool.h>

#include "demand/demand.h"

struct scorecard {
  double squares;                                            /* of errors, summed */
  double forecast[CALIBRATION_BINS], come[CALIBRATION_BINS]; /* sums */
  uint64_t count[CALIBRATION_BINS];
};

void scorecard_add(struct scorecard *card, double p, bool has_come);
void scorecard_join(struct scorecard *card, const struct scorecard *other);
void scorecard_read(const struct scorecard *card, struct calibration *ret);

#endif
