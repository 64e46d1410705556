/* Coefficients come back from noisy samples with outliers; a changed machine is noticed; nothing odd gets in. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>

#include "base/rng.h"
#include "cost/cost.h"

static const double BASE_S = .004, ALPHA = 2.5e-4, BETA = 3e-8;

static double true_prefill(double n, double depth) {
  return BASE_S + ALPHA * n + BETA * n * (depth + n / 2);
}

/* Noise of 8 %, and one sample in twenty up to ten times too slow. */
static double noisy(struct rng *rng, double seconds) {
  double noise = 1 + .08 * rng_normal(rng);
  if (noise < .5) noise = .5;
  return seconds * noise * (rng_below(rng, 20) == 0 ? 1 + 9 * rng_uniform(rng) : 1);
}

static struct cost *cost_new(void) {
  struct cost_defaults defaults;
  cost_defaults_embedded(&defaults);
  struct cost *cost;
  assert_int_equal(cost_create(&defaults, NULL, &cost), STATUS_OK);
  return cost;
}

static void teach_prefill(struct cost *cost, struct rng *rng, int samples, double slower) {
  for (int i = 0; i < samples; i++) {
    uint32_t n = 16 + (uint32_t)rng_below(rng, 4000), depth = rng_below(rng, 2) ? (uint32_t)rng_below(rng, 30000) : 0;
    assert_true(cost_observe_prefill(cost, n, depth, slower * noisy(rng, true_prefill(n, depth))));
  }
}

static void assert_within(double actual, double expected, double share, const char *what, uint64_t seed) {
  if (actual > expected * (1 - share) && actual < expected * (1 + share)) return;
  fail_msg("seed %" PRIu64 ": %s is %g, should be %g", seed, what, actual, expected);
}

static void prefill_coefficients_come_back_from_noise(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= 40; seed++) {
    struct rng rng;
    rng_init(&rng, seed);
    struct cost *cost = cost_new();
    assert_true(cost_prefill_estimate(cost, 1000, 0).is_default);
    teach_prefill(cost, &rng, 400, 1);
    struct cost_estimate estimate = cost_prefill_estimate(cost, 1000, 0);
    assert_false(estimate.is_default);
    assert_int_equal(estimate.samples, 400);
    assert_within(estimate.seconds, true_prefill(1000, 0), .05, "prefill of 1,000", seed);
    assert_within(cost_prefill_seconds(cost, 4000, 20000), true_prefill(4000, 20000), .05, "prefill deep down", seed);
    assert_within(cost_prefill_seconds(cost, 100, 0), true_prefill(100, 0), .25, "short prefill", seed);
    assert_true(estimate.standard_error > 0 && estimate.standard_error < .05 * estimate.seconds);
    cost_destroy(&cost);
  }
}

static void segments_of_a_path_add_up(void **state) {
  (void)state;
  struct cost *cost = cost_new();
  double parts = 0;
  for (uint32_t depth = 0; depth < 4096; depth += 128) parts += cost_prefill_segment_seconds(cost, 128, depth);
  assert_float_equal(parts, cost_prefill_segment_seconds(cost, 4096, 0), 1e-9);
  cost_destroy(&cost);
}

static void one_probe_scales_the_default(void **state) {
  (void)state;
  struct cost *cost = cost_new();
  double before = cost_prefill_seconds(cost, 2048, 0);
  struct cost_estimate guess = cost_prefill_estimate(cost, 2048, 0);
  assert_true(guess.standard_error > .5 * guess.seconds);
  assert_true(cost_observe_prefill(cost, 512, 0, cost_prefill_seconds(cost, 512, 0) / 50));
  assert_within(cost_prefill_seconds(cost, 2048, 0), before / 50, .01, "prefill after a probe", 0);
  cost_destroy(&cost);
}

static void a_changed_machine_is_noticed(void **state) {
  (void)state;
  const double factors[] = {6, 1 / 6.};
  for (int i = 0; i < 2; i++) {
    struct rng rng;
    rng_init(&rng, 5);
    struct cost *cost = cost_new();
    teach_prefill(cost, &rng, 500, 1);
    teach_prefill(cost, &rng, 12, factors[i]);
    assert_within(cost_prefill_seconds(cost, 2000, 1000), factors[i] * true_prefill(2000, 1000), .25, "after", 5);
    cost_destroy(&cost);
  }
}

/* A model of 1.3 GB/s and 2 ms, then a disk throttled to 50 MB/s: within ten reads it no longer pays. */
static void slow_disk_stops_paying(void **state) {
  (void)state;
  struct rng rng;
  rng_init(&rng, 9);
  struct cost *cost = cost_new();
  teach_prefill(cost, &rng, 300, 1);
  const uint64_t bytes = 128 * 23052 * 8;
  for (int i = 0; i < 200; i++) {
    uint64_t size = (1 + rng_below(&rng, 40)) * 3000000;
    assert_true(cost_observe_restore(cost, TIER_SSD, size, noisy(&rng, .002 + (double)size / 1.3e9)));
  }
  assert_within(cost_restore_bandwidth(cost, TIER_SSD), 1.3e9, .06, "bandwidth", 9);
  assert_within(cost_restore_seconds(cost, TIER_SSD, 50000000), .002 + 50e6 / 1.3e9, .05, "restore", 9);
  assert_true(cost_restore_pays(cost, TIER_SSD, bytes, 1024, 0));
  int reads = 0;
  while (cost_restore_pays(cost, TIER_SSD, bytes, 1024, 0)) {
    uint64_t size = (1 + rng_below(&rng, 40)) * 3000000;
    assert_true(cost_observe_restore(cost, TIER_SSD, size, noisy(&rng, .002 + (double)size / 5e7)));
    assert_true(++reads <= 10);
  }
  assert_true(cost_restore_pays(cost, TIER_RAM, bytes, 1024, 0)); /* the other tier is not blamed */
  for (int i = 0; i < 30; i++) assert_true(cost_observe_restore(cost, TIER_SSD, bytes, .002 + (double)bytes / 1.3e9));
  assert_true(cost_restore_pays(cost, TIER_SSD, bytes, 1024, 0));
  cost_destroy(&cost);
}

static void decode_and_save_are_fitted_too(void **state) {
  (void)state;
  struct rng rng;
  rng_init(&rng, 3);
  struct cost *cost = cost_new();
  for (int i = 0; i < 300; i++) {
    uint32_t n = 1 + (uint32_t)rng_below(&rng, 300), depth = (uint32_t)rng_below(&rng, 8000);
    assert_true(cost_observe_decode(cost, n, depth, noisy(&rng, n * (.02 + 1e-6 * depth))));
    uint64_t bytes = 1000000 + rng_below(&rng, 90000000);
    assert_true(cost_observe_save(cost, TIER_RAM, bytes, noisy(&rng, .003 + (double)bytes / 5e9)));
  }
  assert_within(cost_decode_seconds(cost, 100, 4000), 100 * .024, .05, "decode", 3);
  assert_within(cost_save_seconds(cost, TIER_RAM, 50000000), .003 + .01, .07, "save", 3);
  assert_false(cost_save_estimate(cost, TIER_RAM, 1).is_default);
  assert_true(cost_save_estimate(cost, TIER_SSD, 1).is_default);
  cost_destroy(&cost);
}

static void odd_samples_are_refused(void **state) {
  (void)state;
  volatile double zero = 0;
  double not_a_number = zero / zero, infinite = 1 / zero;
  struct cost *cost = cost_new();
  double before = cost_prefill_seconds(cost, 1000, 0);
  assert_false(cost_observe_prefill(cost, 100, 0, not_a_number));
  assert_false(cost_observe_prefill(cost, 100, 0, infinite));
  assert_false(cost_observe_prefill(cost, 100, 0, -1));
  assert_false(cost_observe_prefill(cost, 100, 0, 0));
  assert_false(cost_observe_prefill(cost, 0, 0, 1));
  assert_false(cost_observe_restore(cost, TIER_NONE, 100, 1));
  assert_false(cost_observe_restore(cost, TIER_COUNT, 100, 1));
  assert_false(cost_observe_restore(cost, TIER_SSD, 0, 1));
  assert_true(cost_prefill_estimate(cost, 1000, 0).is_default);
  assert_float_equal(cost_prefill_seconds(cost, 1000, 0), before, 0);
  assert_true(cost_restore_seconds(cost, TIER_NONE, 1) > 1e6);
  assert_float_equal(cost_restore_seconds(cost, TIER_RAM, 0), 0, 0);
  assert_float_equal(cost_prefill_seconds(cost, 0, 500), 0, 0);
  struct cost_defaults defaults;
  struct cost *none = NULL;
  cost_defaults_embedded(&defaults);
  defaults.restore_bytes_per_s[TIER_SSD] = 0;
  assert_int_equal(cost_create(&defaults, NULL, &none), STATUS_INVALID);
  cost_defaults_embedded(&defaults);
  defaults.prefill_s_per_token = not_a_number;
  assert_int_equal(cost_create(&defaults, NULL, &none), STATUS_INVALID);
  assert_null(none);
  cost_destroy(&cost);
}

/* Whatever comes in, expectations stay finite and not negative. */
static void hostile_samples_keep_estimates_finite(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= 50; seed++) {
    struct rng rng;
    rng_init(&rng, seed);
    struct cost *cost = cost_new();
    for (int i = 0; i < 300; i++) {
      double seconds = 1e-9;
      for (uint64_t up = rng_below(&rng, 18); up > 0; up--) seconds *= 10;
      cost_observe_prefill(cost, 1 + (uint32_t)rng_below(&rng, 100000), (uint32_t)rng_below(&rng, 100000), seconds);
      struct cost_estimate estimate = cost_prefill_estimate(cost, 777, 3333);
      if (!(estimate.seconds >= 0 && estimate.seconds < 1e15 && estimate.standard_error >= 0 &&
            estimate.standard_error < 1e15)) {
        fail_msg("seed %" PRIu64 " step %d: %g ± %g", seed, i, estimate.seconds, estimate.standard_error);
      }
    }
    cost_destroy(&cost);
  }
}

static void money_follows_the_profile(void **state) {
  (void)state;
  struct price price = {.profile = PRICE_OWNED,
                        .compute_usd_per_s = 1e-3,
                        .wait_usd_per_s = 1e-4,
                        .energy_usd_per_kwh = .36,
                        .watts = 100};
  assert_float_equal(cost_joules(&price, 30), 3000, 1e-9);
  assert_float_equal(cost_speculative_usd(&price, 10), 10 * 100 * .36 / 3.6e6, 1e-12);
  double owned = cost_saved_second_usd(&price, 0);
  assert_float_equal(cost_saved_second_usd(&price, 3) - owned, 3 * 1e-4, 1e-12);
  price.profile = PRICE_PER_SECOND;
  assert_true(cost_saved_second_usd(&price, 0) > owned);
  volatile double zero = 0;
  assert_float_equal(cost_speculative_usd(&price, zero / zero), 0, 0);
  assert_float_equal(cost_joules(&price, -5), 0, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(prefill_coefficients_come_back_from_noise),
      cmocka_unit_test(segments_of_a_path_add_up),
      cmocka_unit_test(one_probe_scales_the_default),
      cmocka_unit_test(a_changed_machine_is_noticed),
      cmocka_unit_test(slow_disk_stops_paying),
      cmocka_unit_test(decode_and_save_are_fitted_too),
      cmocka_unit_test(odd_samples_are_refused),
      cmocka_unit_test(hostile_samples_keep_estimates_finite),
      cmocka_unit_test(money_follows_the_profile),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
