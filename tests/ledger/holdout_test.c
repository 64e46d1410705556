#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/map.h"
#include "base/rng.h"
#include "ledger/holdout.h"

static double draw_of_hash(void *ctx, uint64_t unit, uint32_t day) {
  (void)ctx;
  return (double)(map_key_of(unit * 1000 + day).hi >> 11) / 9007199254740992.0;
}

static struct holdout *holdout_new(double share, uint32_t units_max) {
  struct holdout_config config = {
      .share = share, .draw = draw_of_hash, .horizon_us = 60000000, .units_max = units_max, .confidence = .95};
  struct holdout *holdout;
  assert_int_equal(holdout_create(&config, &holdout), STATUS_OK);
  return holdout;
}

static void about_the_share_is_withheld_and_paths_multiply(void **state) {
  (void)state;
  struct holdout *holdout = holdout_new(.05, 16);
  uint32_t single = 0, path = 0, n = 40000;
  for (uint64_t unit = 1; unit <= n; unit++) {
    single += holdout_draw(holdout, &unit, 1, 0).is_withheld;
    uint64_t units[3] = {unit + 1000000, unit + 1000000, unit + 2000000};
    struct holdout_verdict verdict = holdout_draw(holdout, units, 3, 0);
    path += verdict.is_withheld;
    assert_float_equal(verdict.propensity, .95 * .95, 1e-12);
    /* Same day, same verdict. */
    assert_int_equal(verdict.is_withheld, holdout_draw(holdout, units, 3, 86399999999).is_withheld);
  }
  printf("withheld %.4f of units, %.4f of paths of two\n", single / (double)n, path / (double)n);
  assert_true(single > n * .045 && single < n * .055);
  assert_true(path > n * .09 && path < n * .105);
  /* A withheld head withholds everything below it. */
  uint64_t head = 1;
  while (!holdout_draw(holdout, &head, 1, 0).is_withheld) head++;
  for (uint64_t unit = 1; unit < 100; unit++) {
    uint64_t units[2] = {head, unit};
    assert_true(holdout_draw(holdout, units, 2, 0).is_withheld);
  }
  holdout_destroy(&holdout);
}

static void records_are_scored_at_their_time_and_bounded(void **state) {
  (void)state;
  struct holdout *holdout = holdout_new(.5, 4);
  struct holdout_verdict treated = {.propensity = .5}, withheld = {.is_withheld = true, .propensity = .5};
  for (uint64_t unit = 1; unit <= 4; unit++) {
    assert_int_equal(holdout_plan(holdout, unit, unit % 2 ? treated : withheld, 1, unit), STATUS_OK);
  }
  assert_int_equal(holdout_plan(holdout, 5, treated, 1, 5), STATUS_FULL);
  assert_int_equal(holdout_plan(holdout, 2, withheld, 1, 5), STATUS_OK);
  assert_int_equal(holdout_due_us(holdout), 60000001);
  holdout_settle(holdout, 60000002);
  assert_int_equal(holdout_estimate(holdout).treated, 1);
  assert_int_equal(holdout_estimate(holdout).withheld, 1);
  assert_int_equal(holdout_plan(holdout, 5, treated, 1, 60000003), STATUS_OK);
  holdout_settle(holdout, UINT64_MAX);
  assert_int_equal(holdout_due_us(holdout), UINT64_MAX);
  assert_float_equal(holdout_estimate(holdout).effect_seconds, 0, 0); /* too few to say */
  holdout_destroy(&holdout);
}

/* Known effects are found, and the interval covers them in nearly every run, also where the outcome model is wrong. */
static void known_effects_are_covered(void **state) {
  (void)state;
  int covered = 0, runs = 60, positive = 0;
  for (uint64_t seed = 1; seed <= (uint64_t)runs; seed++) {
    struct rng rng;
    rng_init(&rng, seed);
    struct holdout *holdout = holdout_new(.1, 4096);
    double effect = seed % 2 ? .5 : 0;
    for (uint64_t i = 0; i < 3000; i++) {
      uint64_t unit = seed * 100000 + i;
      struct holdout_verdict verdict = holdout_draw(holdout, &unit, 1, i);
      assert_int_equal(holdout_plan(holdout, unit, verdict, .8, i), STATUS_OK);
      double y = rng_normal(&rng) * .3;
      if (!verdict.is_withheld) y += effect * (rng_uniform(&rng) < .5 ? 2 : 0);
      holdout_observe(holdout, unit, y);
    }
    holdout_settle(holdout, UINT64_MAX);
    struct holdout_estimate estimate = holdout_estimate(holdout);
    covered += estimate.lower_seconds <= effect && effect <= estimate.upper_seconds;
    positive += effect > 0 && estimate.lower_seconds > 0;
    if (seed <= 2) {
      printf("seed %d: effect %.2f, estimate %.3f in [%.3f, %.3f]\n", (int)seed, effect, estimate.effect_seconds,
             estimate.lower_seconds, estimate.upper_seconds);
    }
    holdout_destroy(&holdout);
  }
  printf("covered %d of %d, effect shown in %d of %d\n", covered, runs, positive, runs / 2);
  assert_true(covered >= runs - 3);
  assert_true(positive >= runs / 2 - 2);
}

static void settings_out_of_range_are_refused(void **state) {
  (void)state;
  struct holdout_config config = {
      .share = .6, .draw = draw_of_hash, .horizon_us = 1, .units_max = 1, .confidence = .95};
  struct holdout *holdout = NULL;
  assert_int_equal(holdout_create(&config, &holdout), STATUS_INVALID);
  config.share = 0;
  config.draw = NULL;
  assert_int_equal(holdout_create(&config, &holdout), STATUS_INVALID);
  assert_null(holdout);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(about_the_share_is_withheld_and_paths_multiply),
      cmocka_unit_test(records_are_scored_at_their_time_and_bounded),
      cmocka_unit_test(known_effects_are_covered),
      cmocka_unit_test(settings_out_of_range_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
