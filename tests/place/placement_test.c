/* Tier and life of a node from given numbers: signs, limits, and hand-computed cases. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>

#include "place/placement.h"

static const struct placement_node NODE = {.bytes = 1000, .prefill_seconds = 10, .saved_second_usd = 2};
static const struct placement_forecast FORECAST = {
    .n_horizons = 2, .horizon_s = {100, 1000}, .probability = {.4, .5}, .asks = .6, .compatible = 1, .valid = .5};

static void value_is_gain_less_acquisition_and_rent(void **state) {
  (void)state;
  struct placement_option option = {.tier = TIER_RAM, .restore_seconds = 2, .acquire_usd = 1, .is_open = true};
  assert_float_equal(placement_value_usd(&NODE, &FORECAST, &option), .6 * 2 * 8 * .5 - 1, 1e-12);
  /* Free room is kept for as long as anybody may come. */
  assert_float_equal(placement_life_s(&NODE, &FORECAST, &option), 1000, 1e-12);
  /* E min(T, 100) = 80, E min(T, 1000) = 80 + 900 · .55 = 575; a gain of 8 · P. */
  option.rent_usd_per_byte_s = 1e-6;
  assert_float_equal(placement_value_usd(&NODE, &FORECAST, &option), 4.8 - 1 - 1e-3 * 575, 1e-12);
  option.rent_usd_per_byte_s = 1e-5; /* 3.2 − .8 at 100 s, 4 − 5.75 at 1,000 s */
  assert_float_equal(placement_life_s(&NODE, &FORECAST, &option), 100, 1e-12);
  assert_float_equal(placement_value_usd(&NODE, &FORECAST, &option), 4.8 - 1 - .8, 1e-12);
  option.rent_usd_per_byte_s = 1e-4;
  assert_float_equal(placement_life_s(&NODE, &FORECAST, &option), 0, 0);
}

static void scarce_room_shortens_life_but_not_value(void **state) {
  (void)state;
  struct placement_option option = {.tier = TIER_RAM, .restore_seconds = 2, .is_open = true};
  double value = placement_value_usd(&NODE, &FORECAST, &option);
  option.multiplier_usd_per_byte_s = 1e-5;
  assert_float_equal(placement_value_usd(&NODE, &FORECAST, &option), value, 1e-12);
  assert_float_equal(placement_life_s(&NODE, &FORECAST, &option), 100, 1e-12);
}

static void best_open_tier_wins(void **state) {
  (void)state;
  struct placement_option options[] = {
      {.tier = TIER_DEVICE, .restore_seconds = 0, .is_open = false},
      {.tier = TIER_RAM, .restore_seconds = 1, .acquire_usd = 4, .is_open = true},
      {.tier = TIER_SSD, .restore_seconds = 3, .acquire_usd = .5, .is_open = true},
      {.tier = TIER_REMOTE, .restore_seconds = 12, .is_open = true},
  };
  struct placement placement = placement_choose(&NODE, &FORECAST, options, 4, 7000000);
  assert_int_equal(placement.tier, TIER_SSD);
  assert_float_equal(placement.value_usd, .6 * 2 * 7 * .5 - .5, 1e-12);
  assert_int_equal(placement.expires_us, 7000000 + 1000000000ULL);
  placement = placement_choose(&NODE, &FORECAST, options + 3, 1, 0); /* slower than computing */
  assert_int_equal(placement.tier, TIER_NONE);
  assert_int_equal(placement.expires_us, 0);
  assert_int_equal(placement_choose(&NODE, &FORECAST, options, 0, 0).tier, TIER_NONE);
}

static void odd_numbers_are_worth_nothing(void **state) {
  (void)state;
  volatile double zero = 0;
  struct placement_option option = {.tier = TIER_RAM, .restore_seconds = zero / zero, .is_open = true};
  assert_int_equal(placement_choose(&NODE, &FORECAST, &option, 1, 0).tier, TIER_NONE);
  option.restore_seconds = 0;
  struct placement_forecast forecast = FORECAST;
  forecast.valid = zero / zero;
  assert_int_equal(placement_choose(&NODE, &forecast, &option, 1, 0).tier, TIER_NONE);
  forecast = FORECAST;
  forecast.asks = 1 / zero;
  double value = placement_value_usd(&NODE, &forecast, &option);
  assert_true(value >= 0 && value < 1e300);
  /* A probability that falls with the horizon is read as its running maximum. */
  forecast = FORECAST;
  forecast.probability[1] = .1;
  assert_float_equal(placement_life_s(&NODE, &forecast, &option), 100, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(value_is_gain_less_acquisition_and_rent),
      cmocka_unit_test(scarce_room_shortens_life_but_not_value),
      cmocka_unit_test(best_open_tier_wins),
      cmocka_unit_test(odd_numbers_are_worth_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
