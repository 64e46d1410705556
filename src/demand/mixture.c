#include "demand/mixture.h"

#include "base/number.h"

#define SHARE .005 /* of the weight that goes back to the prior with each label, so that nobody is ever lost */

void mixture_init(struct mixture *mixture, uint32_t n) {
  double sum = 0;
  *mixture = (struct mixture){.n = n};
  for (uint32_t i = 0; i < n; i++) sum += forecaster_at(i)->prior_weight;
  for (uint32_t i = 0; i < n; i++) {
    mixture->prior[i] = mixture->weight[i] = forecaster_at(i)->prior_weight / sum;
    calibrator_init(&mixture->own[i]);
  }
}

/* false when all are silent. */
static bool blend(const struct mixture *mixture, const struct voices *voices, double ret_weight[FORECASTERS_MAX],
                  double *ret_p) {
  double sum = 0, p = 0;
  for (uint32_t i = 0; i < mixture->n; i++) {
    ret_weight[i] = voices->p[i] >= 0 ? mixture->weight[i] : 0;
    sum += ret_weight[i];
  }
  if (!(sum > 0)) return false;
  for (uint32_t i = 0; i < mixture->n; i++) {
    ret_weight[i] /= sum;
    if (ret_weight[i] > 0) p += ret_weight[i] * calibrator_apply(&mixture->own[i], (double)voices->p[i]);
  }
  *ret_p = number_clamp(p, 0, 1, 0);
  return true;
}

double mixture_apply(const struct mixture *mixture, const struct voices *voices, double ret_weight[FORECASTERS_MAX]) {
  double weight[FORECASTERS_MAX] = {0}, p = 0;
  bool is_said = blend(mixture, voices, weight, &p);
  for (uint32_t i = 0; ret_weight && i < FORECASTERS_MAX; i++) ret_weight[i] = is_said ? weight[i] : 0;
  return p;
}

void mixture_learn(struct mixture *mixture, const struct voices *voices, bool has_come) {
  double weight[FORECASTERS_MAX] = {0}, p, awake = 0, prior = 0;
  if (!blend(mixture, voices, weight, &p)) return;
  double said = number_clamp(has_come ? p : 1 - p, 1e-3, 1, 1e-3);
  for (uint32_t i = 0; i < mixture->n; i++) {
    if (!(weight[i] > 0)) continue;
    awake += mixture->weight[i];
    prior += mixture->prior[i];
    double q = calibrator_apply(&mixture->own[i], (double)voices->p[i]);
    mixture->weight[i] *= number_clamp(has_come ? q : 1 - q, 1e-3, 1, 1e-3) / said;
  }
  /* Those who spoke share among themselves what they had together. */
  double sum = 0;
  for (uint32_t i = 0; i < mixture->n; i++) sum += weight[i] > 0 ? mixture->weight[i] : 0;
  for (uint32_t i = 0; i < mixture->n; i++) {
    if (!(weight[i] > 0)) continue;
    mixture->weight[i] = awake * ((1 - SHARE) * mixture->weight[i] / sum + SHARE * mixture->prior[i] / prior);
    calibrator_learn(&mixture->own[i], (double)voices->p[i], has_come);
  }
}
