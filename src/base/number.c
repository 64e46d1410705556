#include "base/number.h"

#include <stdint.h>
#include <string.h>

/* Only +, −, ×, ÷ on doubles, in a fixed order and without contraction (-ffp-contract=off): IEEE 754 makes them the
 * same everywhere. */

static double from_bits(uint64_t bits) {
  double x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

static uint64_t to_bits(double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

bool number_is_finite(double x) {
  return ((to_bits(x) >> 52) & 0x7ff) != 0x7ff;
}

/* 2^n for −1074 ≤ n ≤ 1023. */
static double power_of_two(int n) {
  return n >= -1022 ? from_bits((uint64_t)(n + 1023) << 52) : from_bits((uint64_t)1 << (n + 1074));
}

static const double LN2_HIGH = 6.93147180369123816490e-01, LN2_LOW = 1.90821492927058770002e-10;

double number_exp(double x) {
  if (x != x) return x;
  if (x < -745) return 0;
  if (x > 709) x = 709;
  /* x = k ln 2 + r, |r| ≤ ln 2 / 2; the series of e^r to r^14 leaves less than 1e-17. */
  double scaled = x * 1.44269504088896338700;
  int k = (int)(scaled < 0 ? scaled - 0.5 : scaled + 0.5);
  double r = (x - k * LN2_HIGH) - k * LN2_LOW, sum = 1;
  for (int i = 14; i >= 1; i--) sum = 1 + sum * r / i;
  if (k < -1022) return sum * power_of_two(k + 100) * power_of_two(-100);
  return k == 1024 ? sum * 2 * power_of_two(1023) : sum * power_of_two(k);
}

double number_log(double x) {
  if (x != x) return x;
  if (!(x > 0)) return -745;
  if (!number_is_finite(x)) return 709.782712893384;
  int exponent = 0;
  if (x < 0x1p-1022) {
    x *= 0x1p54;
    exponent = -54;
  }
  uint64_t bits = to_bits(x);
  exponent += (int)(bits >> 52) - 1023;
  double m = from_bits((bits & 0x000fffffffffffffu) | 0x3ff0000000000000u);
  if (m > 1.4142135623730951) {
    m /= 2;
    exponent++;
  }
  /* ln m = 2 artanh(s), s = (m − 1)/(m + 1), |s| ≤ 0.172: the series to s^21 leaves less than 1e-17. */
  double s = (m - 1) / (m + 1), square = s * s, sum = 0;
  for (int i = 21; i >= 1; i -= 2) sum = sum * square + 1.0 / i;
  return exponent * LN2_HIGH + (2 * s * sum + exponent * LN2_LOW);
}

double number_log1p(double x) {
  if (x > -1e-5 && x < 1e-5) return x - x * x / 2 + x * x * x / 3;
  double u = 1 + x;
  return u > 0 ? number_log(u) * (x / (u - 1)) : number_log(u);
}

double number_sqrt(double x) {
  if (!(x > 0)) return 0;
  if (!number_is_finite(x)) return x;
  if (x < 0x1p-1022) return number_sqrt(x * 0x1p108) * 0x1p-54; /* no exponent to halve */
  uint64_t bits = to_bits(x);
  double guess = from_bits((bits >> 1) + ((uint64_t)1023 << 51));
  for (int i = 0; i < 5; i++) guess = 0.5 * (guess + x / guess);
  return guess;
}

double number_sigmoid(double x) {
  if (x >= 0) return 1 / (1 + number_exp(-x));
  double e = number_exp(x);
  return e / (1 + e);
}

/* Series of Marsaglia (2004) near 0, the continued fraction of the Mills ratio in the tails. */
double number_normal_cdf(double x) {
  if (x != x) return 0.5;
  if (x > 38) return 1;
  if (x < -38) return 0;
  double density = 0.39894228040143267794 * number_exp(-x * x / 2);
  if (x > -3 && x < 3) {
    double term = x, sum = x;
    for (int i = 3; i < 200; i += 2) {
      term = term * x * x / i;
      sum += term;
    }
    return 0.5 + density * sum;
  }
  double tail = x < 0 ? -x : x, fraction = tail;
  for (int i = 120; i >= 1; i--) fraction = tail + i / fraction;
  return x < 0 ? density / fraction : 1 - density / fraction;
}

double number_clamp(double x, double low, double high, double fallback) {
  if (x != x) return fallback;
  return x < low ? low : x > high ? high : x;
}
