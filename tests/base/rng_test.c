/* The generator against its authors' own first outputs, and the shape of what is drawn from it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/rng.h"

static void test_reference(void **state) {
  (void)state;
  struct rng rng = {{1, 2, 3, 4}};
  const uint64_t first[] = {11520u, 0u, 1509978240u, 1215971899390074240u, 1216172134540287360u};
  for (size_t i = 0; i < sizeof first / sizeof *first; i++) assert_int_equal(rng_next(&rng), first[i]);
  rng_init(&rng, 0);
  assert_int_equal(rng.state[0], 0xe220a8397b1dcdafu); /* splitmix64 of seed 0 */
  assert_int_equal(rng_next(&rng), 0x99ec5f36cb75f2b4u);
}

static void test_uniform(void **state) {
  (void)state;
  struct rng rng;
  double sum = 0;
  rng_init(&rng, 1);
  for (int i = 0; i < 100000; i++) {
    double x = rng_uniform(&rng);
    assert_true(x >= 0 && x < 1);
    sum += x;
  }
  assert_true(sum > 49500 && sum < 50500);
}

static void test_below(void **state) {
  (void)state;
  struct rng rng;
  int counts[7] = {0};
  rng_init(&rng, 2);
  for (int i = 0; i < 70000; i++) {
    uint64_t draw = rng_below(&rng, 7);
    assert_true(draw < 7);
    counts[draw]++;
  }
  for (int i = 0; i < 7; i++) assert_true(counts[i] > 9500 && counts[i] < 10500);
  for (int i = 0; i < 100; i++) assert_int_equal(rng_below(&rng, 1), 0);
  for (int i = 0; i < 100; i++) assert_true(rng_below(&rng, UINT64_MAX) < UINT64_MAX);
}

static void test_normal(void **state) {
  (void)state;
  enum { DRAWS = 100000 };
  struct rng rng;
  double sum = 0, squares = 0;
  int beyond = 0;
  rng_init(&rng, 3);
  for (int i = 0; i < DRAWS; i++) {
    double x = rng_normal(&rng);
    sum += x;
    squares += x * x;
    beyond += x > 1.959963984540054 || x < -1.959963984540054;
  }
  assert_true(sum / DRAWS > -0.02 && sum / DRAWS < 0.02);
  assert_true(squares / DRAWS > 0.98 && squares / DRAWS < 1.02);
  assert_true(beyond > DRAWS * 45 / 1000 && beyond < DRAWS * 55 / 1000);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_reference),
      cmocka_unit_test(test_uniform),
      cmocka_unit_test(test_below),
      cmocka_unit_test(test_normal),
  };
  return cmocka_run_group_tests_name("rng", tests, NULL, NULL);
}
