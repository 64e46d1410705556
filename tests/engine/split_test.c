/* The canonical split, for every length, start and limit that a short prompt can have. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/split.h"

enum { TOKENS_MAX = 2000 };

/* Splits `rest` tokens with calls of at most `limit`; fails the test where a micro-batch is short without need. */
static void check_split(uint32_t rest, uint32_t limit) {
  bool may_be_short = rest < SPLIT_MICRO_BATCH_MIN;
  uint32_t sum = 0;

  while (sum < rest) {
    uint32_t size = split_next(rest - sum, limit);

    assert_true(size >= 1 && size <= rest - sum);
    assert_true(may_be_short || split_is_canonical(size));
    /* Over the limit only where no canonical size is within it. */
    if (size > limit && !may_be_short) {
      assert_true(limit < SPLIT_MICRO_BATCH_MIN || rest - sum < 2 * SPLIT_MICRO_BATCH_MIN);
    }
    sum += size;
  }
  assert_int_equal(sum, rest);
}

static void test_every_length_and_start(void **state) {
  static const uint32_t limits[] = {1, 64, 100, 127, 128, 129, 137, 200, 256, 300, 512, 1000, 2048, UINT32_MAX};

  (void)state;
  for (uint32_t n = 2; n <= TOKENS_MAX; n++) {
    for (size_t limit = 0; limit < sizeof(limits) / sizeof(limits[0]); limit++) {
      /* A start only shortens what is left, so that every start of every n is some rest up to n − 1. */
      check_split(n - 1, limits[limit]);
    }
  }
}

static void test_changing_limits(void **state) {
  (void)state;
  for (uint32_t rest = SPLIT_MICRO_BATCH_MIN; rest <= TOKENS_MAX; rest++) {
    uint32_t sum = 0, limit = rest;

    while (sum < rest) {
      uint32_t size = split_next(rest - sum, limit);

      assert_true(split_is_canonical(size));
      sum += size;
      limit = (limit * 7 + 13) % 700;
    }
    assert_int_equal(sum, rest);
  }
}

static void test_an_abort_leaves_a_canonical_rest(void **state) {
  (void)state;
  /* After an abort the finished micro-batches stay; what is left must still split. */
  for (uint32_t rest = SPLIT_MICRO_BATCH_MIN; rest <= TOKENS_MAX; rest++) {
    uint32_t size = split_next(rest, 512);

    for (uint32_t done = 0; done < size; done += SPLIT_MICRO_BATCH) {
      assert_true(rest - done >= SPLIT_MICRO_BATCH_MIN);
    }
  }
}

static void test_known_sizes(void **state) {
  (void)state;
  assert_int_equal(split_next(137, 128), 73);
  assert_int_equal(split_next(64, 64), 64);
  assert_int_equal(split_next(137, 137), 73);
  assert_int_equal(split_next(128, 128), 128);
  assert_int_equal(split_next(100, 64), 100);
  assert_int_equal(split_next(39, 128), 39);
  assert_int_equal(split_next(4000, 128), 128);
  assert_int_equal(split_next(320, 4096), 320);
  assert_int_equal(split_next(300, 256), 236);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_every_length_and_start),
      cmocka_unit_test(test_changing_limits),
      cmocka_unit_test(test_an_abort_leaves_a_canonical_rest),
      cmocka_unit_test(test_known_sizes),
  };

  return cmocka_run_group_tests(tests, NULL, NULL);
}
