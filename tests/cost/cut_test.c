/* The restore cut against trying every cut. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <stdbool.h>

#include "base/rng.h"
#include "cost/cut.h"

static void best_cut_of_random_paths(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= 2000; seed++) {
    struct rng rng;
    rng_init(&rng, seed);
    struct cut_segment segments[10];
    double base[TIER_COUNT] = {0, .1, .2, 1, 2};
    uint32_t n = (uint32_t)rng_below(&rng, 11), end = n;
    for (uint32_t i = 0; i < n; i++) {
      segments[i] = (struct cut_segment){rng_uniform(&rng), rng_uniform(&rng), (enum tier)rng_below(&rng, TIER_COUNT)};
      if (rng_below(&rng, 4)) segments[i].tier = TIER_RAM;
      if (segments[i].tier == TIER_NONE && i < end) end = i;
    }
    double best = 0;
    uint32_t best_n = 0;
    for (uint32_t cut = 1; cut <= end; cut++) {
      double gain = 0;
      bool is_used[TIER_COUNT] = {false};
      for (uint32_t i = 0; i < cut; i++) {
        gain += segments[i].prefill_seconds - segments[i].restore_seconds;
        is_used[segments[i].tier] = true;
      }
      for (int tier = 0; tier < TIER_COUNT; tier++) gain -= is_used[tier] ? base[tier] : 0;
      if (gain > best + 1e-12) {
        best = gain;
        best_n = cut;
      }
    }
    struct cut chosen = cut_choose(segments, n, base);
    if (chosen.n_segments != best_n) fail_msg("seed %" PRIu64 ": cut %u, best %u", seed, chosen.n_segments, best_n);
    assert_float_equal(chosen.gain_seconds, best, 1e-9);
  }
}

static void numbers_that_are_not_finite_end_the_path(void **state) {
  (void)state;
  volatile double zero = 0;
  double base[TIER_COUNT] = {0};
  struct cut_segment segments[3] = {{1, .1, TIER_RAM}, {zero / zero, .1, TIER_RAM}, {5, .1, TIER_RAM}};
  assert_int_equal(cut_choose(segments, 3, base).n_segments, 1);
  assert_int_equal(cut_choose(NULL, 0, base).n_segments, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(best_cut_of_random_paths),
                                     cmocka_unit_test(numbers_that_are_not_finite_end_the_path)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
