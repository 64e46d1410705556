/* Rates of change are learned per source, forgotten with time, bounded in number. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>

#include "cost/hazard.h"

static const uint64_t HOUR_US = 3600ULL * 1000000;

static void rates_are_learned_per_source(void **state) {
  (void)state;
  struct hazard_settings settings;
  hazard_settings_init(&settings);
  struct hazard *hazard;
  assert_int_equal(hazard_create(&settings, &hazard), STATUS_OK);
  double prior = hazard_valid_probability(hazard, 99, 24 * HOUR_US, 0);
  assert_true(prior > .85 && prior < .9);
  for (uint64_t hour = 0; hour < 100; hour++) {
    assert_int_equal(hazard_observe(hazard, 1, false, hour * HOUR_US), STATUS_OK);
    assert_int_equal(hazard_observe(hazard, 2, hour % 2 == 0, hour * HOUR_US), STATUS_OK);
  }
  uint64_t now = 100 * HOUR_US;
  double calm = hazard_valid_probability(hazard, 1, 24 * HOUR_US, now);
  double restless = hazard_valid_probability(hazard, 2, 24 * HOUR_US, now);
  assert_true(calm > prior);
  assert_true(restless < .01);
  assert_true(hazard_valid_probability(hazard, 2, HOUR_US / 60, now) > .98);
  assert_true(hazard_rate_per_s(hazard, 2, now) > 10 * hazard_rate_per_s(hazard, 1, now));
  assert_float_equal(hazard_valid_probability(hazard, 2, 0, now), 1, 1e-15);
  /* A year later what was seen counts for nothing. */
  double later = hazard_valid_probability(hazard, 2, 24 * HOUR_US, now + 365 * 24 * HOUR_US);
  assert_float_equal(later, prior, .001);
  hazard_destroy(&hazard);
}

static void the_table_is_bounded(void **state) {
  (void)state;
  struct hazard_settings settings;
  hazard_settings_init(&settings);
  settings.sources_max = 3;
  struct hazard *hazard;
  assert_int_equal(hazard_create(&settings, &hazard), STATUS_OK);
  for (uint64_t source = 0; source < 50; source++) {
    assert_int_equal(hazard_observe(hazard, source, true, source * HOUR_US), STATUS_OK);
    assert_int_equal(hazard_observe(hazard, 0, true, source * HOUR_US + 1), STATUS_OK);
  }
  double prior = hazard_rate_per_s(hazard, 1000, 50 * HOUR_US);
  assert_true(hazard_rate_per_s(hazard, 0, 50 * HOUR_US) > 10 * prior);
  assert_true(hazard_rate_per_s(hazard, 49, 50 * HOUR_US) > prior);
  assert_float_equal(hazard_rate_per_s(hazard, 7, 50 * HOUR_US), prior, 0);
  hazard_destroy(&hazard);
  settings.sources_max = 0;
  assert_int_equal(hazard_create(&settings, &hazard), STATUS_INVALID);
  hazard_destroy(&hazard);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(rates_are_learned_per_source),
                                     cmocka_unit_test(the_table_is_bounded)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
