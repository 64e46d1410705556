/* Makes forecasts mean what they say: what came is compared with what was said, apart for each range of forecasts.
 * logit q = logit p + offset(logit p), the offset piecewise linear, learned online by AdaGrad on log loss (Duchi et al.
 * 2011) and drawn back to 0; q never falls where p rises. Plain data. */
#ifndef FORELAY_DEMAND_CALIBRATOR_H
#define FORELAY_DEMAND_CALIBRATOR_H

#include <stdbool.h>

enum { CALIBRATOR_KNOTS = 13 }; /* at logits −9, −7.5 … 9 */

struct calibrator {
  double offset[CALIBRATOR_KNOTS]; /* in [−5, 5]; knot + offset never falls */
  double sum2[CALIBRATOR_KNOTS];   /* of squared gradients, > 0 */
};

void calibrator_init(struct calibrator *calibrator);
/* p in [0, 1]; the answer too. 0 stays 0. */
double calibrator_apply(const struct calibrator *calibrator, double p);
/* p was said (before calibration), and this is what came. */
void calibrator_learn(struct calibrator *calibrator, double p, bool has_come);
/* Holds what the fields promise. */
bool calibrator_is_valid(const struct calibrator *calibrator);

#endif
