/* Mathematics of decisions: values computed with 60 digits elsewhere, and one sum over the bits of many results that
 * must be the same for every compiler, flag and machine. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "base/rng.h"

struct pair {
  double x, y;
};

static const struct pair exps[] = {{-745.0, 5e-324},
                                   {-744.4400719213812, 5e-324},
                                   {-708.5, 2.006132305331306e-308},
                                   {-100.25, 2.897198083210148e-44},
                                   {-1.0, 0.36787944117144233},
                                   {-1e-09, 0.999999999},
                                   {0.0, 1.0},
                                   {1e-300, 1.0},
                                   {0.3465735902799726, 1.414213562373095},
                                   {0.5, 1.6487212707001282},
                                   {1.0, 2.718281828459045},
                                   {2.718281828459045, 15.154262241479262},
                                   {10.0, 22026.465794806718},
                                   {123.456, 4.132944352778106e+53},
                                   {700.0, 1.0142320547350045e+304},
                                   {708.9, 7.436322587880697e+307}};
static const struct pair logs[] = {{5e-324, -744.4400719213812},
                                   {1e-310, -713.8013788281542},
                                   {2.2250738585072014e-308, -708.3964185322641},
                                   {1e-05, -11.512925464970229},
                                   {0.1, -2.3025850929940455},
                                   {0.5, -0.6931471805599453},
                                   {0.7071067811865475, -0.34657359027997275},
                                   {0.999999999, -9.999999722180686e-10},
                                   {1.0, 0.0},
                                   {1.0000000000000002, 2.2204460492503128e-16},
                                   {1.4142135623730951, 0.3465735902799727},
                                   {2.0, 0.6931471805599453},
                                   {3.0, 1.0986122886681098},
                                   {10000000000.0, 23.025850929940457},
                                   {1.7976931348623157e+308, 709.782712893384}};
static const struct pair log1ps[] = {{-0.999, -6.907755278982136},
                                     {-0.5, -0.6931471805599453},
                                     {-1e-05, -1.0000050000333337e-05},
                                     {-1e-06, -1.0000005000003334e-06},
                                     {-1e-12, -1.0000000000005e-12},
                                     {0.0, 0.0},
                                     {1e-300, 1e-300},
                                     {1e-12, 9.999999999995e-13},
                                     {9.9e-06, 9.89995099532343e-06},
                                     {1e-05, 9.999950000333332e-06},
                                     {0.001, 0.0009995003330835331},
                                     {0.5, 0.4054651081081644},
                                     {3.0, 1.3862943611198906},
                                     {1000000000000000.0, 34.538776394910684}};
static const struct pair roots[] = {{5e-324, 2.2227587494850775e-162},
                                    {1e-310, 9.999999999999986e-156},
                                    {1e-300, 1e-150},
                                    {1e-08, 0.0001},
                                    {0.25, 0.5},
                                    {2.0, 1.4142135623730951},
                                    {3.0, 1.7320508075688772},
                                    {144.0, 12.0},
                                    {10000000000.0, 100000.0},
                                    {1.7976931348623157e+308, 1.3407807929942596e+154}};
static const struct pair cdfs[] = {{-37.5, 4.605353009581955e-308},
                                   {-10.0, 7.619853024160525e-24},
                                   {-6.0, 9.86587645037698e-10},
                                   {-3.0000001, 0.0013498975884453205},
                                   {-3.0, 0.0013498980316300946},
                                   {-2.9999999, 0.0013498984748150015},
                                   {-1.0, 0.15865525393145705},
                                   {-0.1, 0.460172162722971},
                                   {0.0, 0.5},
                                   {0.5, 0.6914624612740131},
                                   {1.0, 0.8413447460685429},
                                   {1.959963984540054, 0.975},
                                   {2.9999, 0.998649658717045},
                                   {3.0, 0.9986501019683699},
                                   {5.0, 0.9999997133484281},
                                   {8.0, 0.9999999999999993}};

static double absolute(double x) {
  return x < 0 ? -x : x;
}

#define CHECK(table, function, relative) check(table, sizeof table / sizeof *table, function, relative, #function)

/* One last place of a subnormal is allowed beside the relative error. */
static void check(const struct pair *pairs, size_t n, double (*function)(double), double relative, const char *name) {
  for (size_t i = 0; i < n; i++) {
    double y = function(pairs[i].x), off = absolute(y - pairs[i].y);
    if (!(off <= relative * absolute(pairs[i].y) + 5e-324))
      fail_msg("%s(%.17g) = %.17g, not %.17g", name, pairs[i].x, y, pairs[i].y);
  }
}

static void test_values(void **state) {
  (void)state;
  CHECK(exps, number_exp, 4e-16);
  CHECK(logs, number_log, 4e-16);
  CHECK(log1ps, number_log1p, 1e-15);
  CHECK(roots, number_sqrt, 3e-16);
  CHECK(cdfs, number_normal_cdf, 1e-9);
}

static void test_edges(void **state) {
  (void)state;
  volatile double zero = 0;
  double infinity = 1 / zero, nan = infinity - infinity;
  assert_true(number_exp(-746) == 0 && number_exp(-infinity) == 0);
  assert_true(number_is_finite(number_exp(710)) && number_exp(infinity) == number_exp(710));
  assert_true(number_exp(710) > 8e307);
  assert_true(number_log(0) == -745 && number_log(-1) == -745 && number_log(-infinity) == -745);
  assert_true(number_is_finite(number_log(infinity)));
  assert_true(number_log1p(-1) == -745);
  assert_true(number_sqrt(0) == 0 && number_sqrt(-1) == 0 && number_sqrt(infinity) == infinity);
  assert_true(number_sigmoid(0) == 0.5 && number_sigmoid(800) == 1 && number_sigmoid(-800) == 0);
  assert_true(number_normal_cdf(100) == 1 && number_normal_cdf(-100) == 0 && number_normal_cdf(nan) == 0.5);
  assert_true(number_clamp(nan, 1, 2, 1.5) == 1.5 && number_clamp(infinity, 1, 2, 1.5) == 2);
  assert_true(number_clamp(-infinity, 1, 2, 1.5) == 1 && number_clamp(1.25, 1, 2, 1.5) == 1.25);
  assert_false(number_is_finite(nan) || number_is_finite(infinity) || number_is_finite(-infinity));
  assert_true(number_is_finite(DBL_MAX) && number_is_finite(-DBL_MAX) && number_is_finite(0));
}

/* What the decisions rely on: order is kept, and the functions undo each other. */
static void test_shape(void **state) {
  (void)state;
  double last_exp = 0, last_cdf = 0, last_sigmoid = 0;
  for (int i = -8000; i <= 8000; i++) {
    double x = i / 1000.0;
    assert_true(number_exp(x) > last_exp);
    assert_true(number_normal_cdf(x) >= last_cdf);
    assert_true(number_sigmoid(x) > last_sigmoid);
    assert_true(absolute(number_log(number_exp(x)) - x) <= 1e-15 * (1 + absolute(x)));
    assert_true(absolute(number_normal_cdf(x) + number_normal_cdf(-x) - 1) <= 1e-12);
    last_exp = number_exp(x);
    last_cdf = number_normal_cdf(x);
    last_sigmoid = number_sigmoid(x);
  }
}

static const uint64_t SUM_OF_BITS = 0x7835b461bde5b71cu;

static uint64_t mix(uint64_t sum, double y) {
  uint64_t bits;
  memcpy(&bits, &y, sizeof bits);
  return (sum ^ bits) * 0x9e3779b97f4a7c15u + (sum >> 29);
}

static void test_same_bits(void **state) {
  (void)state;
  struct rng rng;
  uint64_t sum = 0;
  rng_init(&rng, 2026);
  for (int i = 0; i < 20000; i++) {
    double x = (rng_uniform(&rng) - 0.5) * (i % 2 == 0 ? 20 : 1400), positive = number_exp(x);
    sum = mix(sum, positive);
    sum = mix(sum, number_log(positive));
    sum = mix(sum, number_log1p(positive));
    sum = mix(sum, number_sqrt(positive));
    sum = mix(sum, number_sigmoid(x));
    sum = mix(sum, number_normal_cdf(x));
    sum = mix(sum, rng_normal(&rng));
  }
  assert_int_equal(sum, SUM_OF_BITS);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_values),
      cmocka_unit_test(test_edges),
      cmocka_unit_test(test_shape),
      cmocka_unit_test(test_same_bits),
  };
  return cmocka_run_group_tests_name("number", tests, NULL, NULL);
}
