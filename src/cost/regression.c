#include "cost/regression.h"

#include <assert.h>
#include <string.h>

#include "base/number.h"

enum { FITTED_SAMPLES = 20 }; /* from so many on, the fit's own shape is believed */

static const double PRIOR_DEFAULT = .01;  /* each coefficient known to a factor 2, at 10 % noise */
static const double PRIOR_FITTED = 1;     /* as much as one sample: the shape held before the machine changed */
static const double SPREAD_START = .0675; /* median of |noise| at 10 % of standard deviation */
static const double SPREAD_MIN = .002, SPREAD_MAX = 1;
static const double DEVIATIONS_OF_SPREAD = 1.4826; /* standard deviation over median absolute deviation, normal noise */
static const double HUBER = 1.5;                   /* residuals beyond so many deviations pull with constant force */
static const double FLOOR = .05;                   /* of the default shape: a term that fitted to 0 may come back */
static const double FAR_DEVIATIONS = 3, FAR_MIN = .25;

/* Inverts the symmetric positive definite a[n][n] by Gauss-Jordan without pivoting (the prior keeps the diagonal away
 * from 0). Rows and columns outside of `mask` stay zero. */
static void matrix_invert(double a[REGRESSION_TERMS_MAX][REGRESSION_TERMS_MAX],
                          double inverse[REGRESSION_TERMS_MAX][REGRESSION_TERMS_MAX], uint32_t n, uint32_t mask) {
  double work[REGRESSION_TERMS_MAX][REGRESSION_TERMS_MAX];
  memcpy(work, a, sizeof work);
  memset(inverse, 0, sizeof work);
  for (uint32_t i = 0; i < n; i++) inverse[i][i] = mask >> i & 1 ? 1 : 0;
  for (uint32_t pivot = 0; pivot < n; pivot++) {
    if (!(mask >> pivot & 1)) continue;
    double scale = 1 / work[pivot][pivot];
    for (uint32_t j = 0; j < n; j++) {
      work[pivot][j] *= scale;
      inverse[pivot][j] *= scale;
    }
    for (uint32_t i = 0; i < n; i++) {
      if (i == pivot || !(mask >> i & 1)) continue;
      double factor = work[i][pivot];
      for (uint32_t j = 0; j < n; j++) {
        work[i][j] -= factor * work[pivot][j];
        inverse[i][j] -= factor * inverse[pivot][j];
      }
    }
  }
}

/* Non-negative least squares by trying every set of positive coefficients: at most 7 of them, so the optimum is exact.
 */
static void regression_solve(struct regression *regression) {
  uint32_t n = regression->n_terms;
  double total[REGRESSION_TERMS_MAX][REGRESSION_TERMS_MAX], right[REGRESSION_TERMS_MAX];
  for (uint32_t i = 0; i < n; i++) {
    for (uint32_t j = 0; j < n; j++) {
      total[i][j] = regression->information[i][j] + (i == j ? regression->prior_information : 0);
    }
    right[i] = regression->moment[i] + regression->prior_information;
  }
  double best = 0;
  bool is_found = false;
  for (uint32_t mask = (1u << n) - 1; mask > 0; mask--) {
    double inverse[REGRESSION_TERMS_MAX][REGRESSION_TERMS_MAX], factor[REGRESSION_TERMS_MAX];
    matrix_invert(total, inverse, n, mask);
    if (mask == (1u << n) - 1) memcpy(regression->inverse, inverse, sizeof inverse);
    bool is_feasible = true;
    double gain = 0;
    for (uint32_t i = 0; i < n; i++) {
      factor[i] = 0;
      for (uint32_t j = 0; j < n; j++) factor[i] += inverse[i][j] * right[j];
      is_feasible = is_feasible && factor[i] >= 0;
      gain += factor[i] * right[i];
    }
    if (!is_feasible || (is_found && gain <= best)) continue;
    is_found = true;
    best = gain;
    memcpy(regression->factor, factor, n * sizeof *factor);
    if (mask == (1u << n) - 1) return; /* the unconstrained optimum */
  }
}

/* Forgets the samples; what is expected from then on is prior[]. */
static void regression_restart(struct regression *regression, const double *prior, double information) {
  regression->prior_information = information;
  memset(regression->information, 0, sizeof regression->information);
  memset(regression->moment, 0, sizeof regression->moment);
  for (uint32_t i = 0; i < regression->n_terms; i++) regression->prior[i] = prior[i];
  regression->streak = 0;
  regression->fresh = 0;
  regression_solve(regression);
}

void regression_init(struct regression *regression, const double *shape, uint32_t n_terms, double forgetting) {
  assert(n_terms >= 1 && n_terms <= REGRESSION_TERMS_MAX);
  *regression = (struct regression){.n_terms = n_terms, .forgetting = forgetting, .spread = SPREAD_START};
  for (uint32_t i = 0; i < n_terms; i++) regression->shape[i] = shape[i];
  regression_restart(regression, shape, PRIOR_DEFAULT);
}

double regression_coefficient(const struct regression *regression, uint32_t term) {
  return regression->prior[term] * regression->factor[term];
}

double regression_expect(const struct regression *regression, const double *terms) {
  double sum = 0;
  for (uint32_t i = 0; i < regression->n_terms; i++) sum += regression_coefficient(regression, i) * terms[i];
  return sum;
}

double regression_standard_error(const struct regression *regression, const double *terms) {
  double variance = 0;
  for (uint32_t i = 0; i < regression->n_terms; i++) {
    for (uint32_t j = 0; j < regression->n_terms; j++) {
      variance += terms[i] * regression->prior[i] * regression->inverse[i][j] * terms[j] * regression->prior[j];
    }
  }
  double deviation = regression->spread * DEVIATIONS_OF_SPREAD;
  return variance > 0 ? deviation * number_sqrt(variance) : 0;
}

/* What the default shape alone would say. */
static double shape_expect(const struct regression *regression, const double *terms) {
  double sum = 0;
  for (uint32_t i = 0; i < regression->n_terms; i++) sum += regression->shape[i] * terms[i];
  return sum;
}

/* One sample with its Huber weight against what is expected now. */
static void regression_learn(struct regression *regression, const double *terms, double measured) {
  double expected = 0, share[REGRESSION_TERMS_MAX];
  for (uint32_t i = 0; i < regression->n_terms; i++) {
    share[i] = regression->prior[i] * terms[i];
    expected += share[i] * regression->factor[i];
  }
  if (!(expected > 0)) expected = measured;
  double residual = measured / expected - 1, force = HUBER * DEVIATIONS_OF_SPREAD * regression->spread;
  if (residual < 0) residual = -residual;
  double weight = residual > force ? force / residual : 1;
  regression->fresh++;
  for (uint32_t i = 0; i < regression->n_terms; i++) share[i] /= expected;
  for (uint32_t i = 0; i < regression->n_terms; i++) {
    for (uint32_t j = 0; j < regression->n_terms; j++) {
      regression->information[i][j] =
          regression->information[i][j] * regression->forgetting + weight * share[i] * share[j];
    }
    regression->moment[i] = regression->moment[i] * regression->forgetting + weight * share[i] * (measured / expected);
  }
  regression_solve(regression);
}

static double streak_median(const double *values) {
  double sorted[REGRESSION_STREAK];
  for (int i = 0; i < REGRESSION_STREAK; i++) {
    int at = i;
    for (; at > 0 && sorted[at - 1] > values[i]; at--) sorted[at] = sorted[at - 1];
    sorted[at] = values[i];
  }
  return (sorted[REGRESSION_STREAK / 2 - 1] + sorted[REGRESSION_STREAK / 2]) / 2;
}

/* Four far-off samples on the same side: the machine is another one now. What was fitted (while that is little: the
 * default shape) is put to their level, and they are the first samples of the new fit. */
static void regression_change(struct regression *regression) {
  double by_fit[REGRESSION_STREAK], by_shape[REGRESSION_STREAK], prior[REGRESSION_TERMS_MAX];
  for (int i = 0; i < REGRESSION_STREAK; i++) {
    by_fit[i] = regression->streak_measured[i] / regression_expect(regression, regression->streak_terms[i]);
    by_shape[i] = regression->streak_measured[i] / shape_expect(regression, regression->streak_terms[i]);
  }
  bool is_fitted = regression->samples >= FITTED_SAMPLES;
  double fit_level = streak_median(by_fit), shape_level = streak_median(by_shape);
  for (uint32_t i = 0; i < regression->n_terms; i++) {
    double fitted = regression_coefficient(regression, i) * fit_level,
           least = FLOOR * regression->shape[i] * shape_level;
    prior[i] = !is_fitted ? regression->shape[i] * shape_level : fitted > least ? fitted : least;
  }
  regression_restart(regression, prior, is_fitted ? PRIOR_FITTED : PRIOR_DEFAULT);
  regression->spread = SPREAD_START;
  for (int i = 0; i < REGRESSION_STREAK; i++) {
    regression_learn(regression, regression->streak_terms[i], regression->streak_measured[i]);
  }
}

/* Notes a sample's side when it is far off; true when the streak is full. */
static bool streak_note(struct regression *regression, const double *terms, double measured, double log_ratio) {
  double far = FAR_DEVIATIONS * DEVIATIONS_OF_SPREAD * regression->spread;
  if (far < FAR_MIN) far = FAR_MIN;
  int32_t side = log_ratio > far ? 1 : log_ratio < -far ? -1 : 0;
  if (side == 0 || regression->streak * side < 0) regression->streak = 0;
  if (side == 0) return false;
  int32_t at = regression->streak * side;
  memcpy(regression->streak_terms[at], terms, regression->n_terms * sizeof *terms);
  regression->streak_measured[at] = measured;
  regression->streak += side;
  return at + 1 == REGRESSION_STREAK;
}

bool regression_observe(struct regression *regression, const double *terms, double measured) {
  if (!number_is_finite(measured) || measured <= 0 || measured > 1e12) return false;
  for (uint32_t i = 0; i < regression->n_terms; i++) {
    if (!number_is_finite(terms[i]) || terms[i] < 0 || terms[i] > 1e18) return false;
  }
  double shape = shape_expect(regression, terms);
  if (!(shape > 0)) return false;
  regression->samples++;
  if (regression->samples == 1) {
    double prior[REGRESSION_TERMS_MAX];
    for (uint32_t i = 0; i < regression->n_terms; i++) prior[i] = regression->shape[i] * (measured / shape);
    regression_restart(regression, prior, PRIOR_DEFAULT);
    regression_learn(regression, terms, measured);
    return true;
  }
  double expected = regression_expect(regression, terms);
  double log_ratio = expected > 0 ? number_log(measured / expected) : 0;
  double distance = log_ratio < 0 ? -log_ratio : log_ratio;
  if (streak_note(regression, terms, measured, log_ratio)) {
    regression_change(regression);
    return true;
  }
  regression_learn(regression, terms, measured);
  /* A step towards the median from either side, quick at first. */
  double step = regression->fresh < 50 ? 1.1 : 1.03;
  regression->spread *= distance > regression->spread ? step : 1 / step;
  regression->spread = number_clamp(regression->spread, SPREAD_MIN, SPREAD_MAX, SPREAD_START);
  return true;
}
