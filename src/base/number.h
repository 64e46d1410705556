/* Mathematics of decisions: the same bits on every machine (fixed polynomials, no libm), NaN and infinity guarded.
 * Deciding rooms use these and never <math.h>. */
#ifndef FORELAY_BASE_NUMBER_H
#define FORELAY_BASE_NUMBER_H

#include <stdbool.h>

/* e^x; 0 below −745, a large finite number above 709. Relative error ≤ 4e-16. */
double number_exp(double x);
/* ln x for x > 0; −745 for x ≤ 0. Relative error ≤ 4e-16. */
double number_log(double x);
double number_log1p(double x);
double number_sqrt(double x);
/* 1 / (1 + e^−x). */
double number_sigmoid(double x);
/* Cumulative distribution of the standard normal (Abramowitz and Stegun 7.1.26 is not enough: relative error ≤ 1e-9).
 */
double number_normal_cdf(double x);
/* x where it is finite and in [low, high], else the nearer bound; NaN gives `fallback`. */
double number_clamp(double x, double low, double high, double fallback);
bool number_is_finite(double x);

#endif
