/* A linear model of a few non-negative coefficients, fitted online to positive measurements with multiplicative noise:
 * recursive least squares on relative residuals with forgetting, Huber weights against outliers, and a fresh start when
 * the machine itself has changed. Plain data, in place; one thread at a time. */
#ifndef FORELAY_COST_REGRESSION_H
#define FORELAY_COST_REGRESSION_H

#include <stdbool.h>
#include <stdint.h>

enum { REGRESSION_TERMS_MAX = 3, REGRESSION_STREAK = 4 };

struct regression {
  uint32_t n_terms;
  double forgetting;                   /* 0 … 1: weight that a sample keeps when the next one comes */
  double shape[REGRESSION_TERMS_MAX];  /* default coefficients; a term whose default is 0 stays out of the model */
  double prior[REGRESSION_TERMS_MAX];  /* the shape at the level last seen; unit of the factors */
  double prior_information;            /* > 0: how much the prior counts, in samples, for each coefficient */
  double factor[REGRESSION_TERMS_MAX]; /* ≥ 0; coefficient = prior · factor */
  double information[REGRESSION_TERMS_MAX][REGRESSION_TERMS_MAX]; /* Σ of weighted outer products, discounted */
  double moment[REGRESSION_TERMS_MAX];
  double inverse[REGRESSION_TERMS_MAX][REGRESSION_TERMS_MAX]; /* of information plus the prior's */
  double spread;                                              /* running median of |ln(measured / expected)| */
  uint64_t fresh;                                             /* samples learned since the last fresh start */
  uint64_t samples;                                           /* accepted */
  int32_t streak;                                             /* run of far-off samples, signed by their side */
  double streak_terms[REGRESSION_STREAK][REGRESSION_TERMS_MAX], streak_measured[REGRESSION_STREAK];
};

/* shape[n_terms]: finite, ≥ 0, at least one above 0. */
void regression_init(struct regression *regression, const double *shape, uint32_t n_terms, double forgetting);

/* terms[n_terms] ≥ 0 of one measurement > 0. false: refused, nothing learned. */
bool regression_observe(struct regression *regression, const double *terms, double measured);

/* Expected measurement; finite, ≥ 0. */
double regression_expect(const struct regression *regression, const double *terms);
double regression_coefficient(const struct regression *regression, uint32_t term);
/* Of the expectation, not of a single measurement. */
double regression_standard_error(const struct regression *regression, const double *terms);

#endif
