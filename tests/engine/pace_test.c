/* Sizes of calls follow what was measured at that depth. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/pace.h"

static void test_starts_small(void **state) {
  struct pace pace;

  (void)state;
  pace_init(&pace);
  assert_int_equal(pace_tokens(&pace, 0, 250000), PACE_START_TOKENS);
  assert_int_equal(pace_tokens(&pace, 100000, 250000), PACE_START_TOKENS);
}

static void test_follows_the_depth(void **state) {
  struct pace pace;

  (void)state;
  pace_init(&pace);
  pace_record(&pace, 0, 100, 200000);    /* 500 a second */
  pace_record(&pace, 4000, 100, 400000); /* 250 a second */
  assert_int_equal(pace_tokens(&pace, 100, 250000), 125);
  assert_int_equal(pace_tokens(&pace, 2000, 250000), 125);
  assert_int_equal(pace_tokens(&pace, 4000, 250000), 62);
  assert_int_equal(pace_tokens(&pace, 1000000, 250000), 62);
}

static void test_short_calls_do_not_count(void **state) {
  struct pace pace;

  (void)state;
  pace_init(&pace);
  pace_record(&pace, 0, 1, 50000);
  assert_int_equal(pace_tokens(&pace, 0, 250000), PACE_START_TOKENS);
  pace_record(&pace, 0, 128, 128000);
  for (int i = 0; i < 60; i++) {
    pace_record(&pace, 0, 128, 256000);
  }
  assert_in_range(pace_tokens(&pace, 0, 250000), 124, 126);
  assert_in_range(pace_tokens(&pace, 0, 1), 1, 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_starts_small),
      cmocka_unit_test(test_follows_the_depth),
      cmocka_unit_test(test_short_calls_do_not_count),
  };

  return cmocka_run_group_tests(tests, NULL, NULL);
}
