/* Without memory: forest and demand fail as they say, keep what they have, and go on when there is memory again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/rng.h"
#include "demand/demand.h"
#include "support/scarce.h"

enum { CHAIN = 12, ASKS = 300 };

static block_key key_after(block_key parent, uint64_t name) {
  struct map_key a = map_key_of(parent.hi ^ name), b = map_key_of(parent.lo + 31 * name + 7);
  return (block_key){a.hi ^ b.lo, a.lo ^ b.hi};
}

static struct ask ask_random(struct rng *rng, block_key *keys, uint64_t at_us) {
  uint32_t n = 1 + (uint32_t)rng_below(rng, CHAIN);
  block_key parent = {0, 0};
  for (uint32_t i = 0; i < n; i++) parent = keys[i] = key_after(parent, 1 + rng_below(rng, 2));
  return (struct ask){.request = at_us,
                      .at_us = at_us,
                      .session = 1 + rng_below(rng, 50),
                      .turn = 1 + (uint32_t)rng_below(rng, 4),
                      .prompt_tokens = n * 16,
                      .n_blocks = n,
                      .keys = keys,
                      .head_tokens = 32,
                      .may_learn = true,
                      .may_prepare = true};
}

/* What would be found for every chain that can be asked for, down to four blocks. */
static uint64_t known_of(const struct forest *forest) {
  uint64_t known = 0;
  for (uint32_t bits = 0; bits < 16; bits++) {
    block_key keys[4];
    block_key parent = {0, 0};
    for (uint32_t i = 0; i < 4; i++) parent = keys[i] = key_after(parent, 1 + (bits >> i & 1));
    uint32_t node, blocks;
    forest_find(forest, keys, 4, &node, &blocks);
    known = known * 7 + blocks;
  }
  return known;
}

static uint64_t asks_of(const struct forest *forest) {
  uint64_t asks = 0;
  for (uint32_t id = forest_next(forest, FOREST_NONE); id != FOREST_NONE; id = forest_next(forest, id)) {
    asks += forest_at(forest, id)->ends;
  }
  return asks;
}

static void creation_fails_cleanly_at_every_step(void **state) {
  (void)state;
  struct demand_config config;
  demand_config_init(&config, 256);
  struct forest_config trees = {.nodes_max = 256, .block_tokens = 16};
  uint32_t failures = 0;
  for (uint64_t step = 0;; step++) {
    struct forest *forest = NULL;
    struct demand *demand = NULL;
    scarce_after = step;
    enum status first = forest_create(&trees, &forest);
    enum status second = first == STATUS_OK ? demand_create(&config, &demand) : first;
    scarce_after = UINT64_MAX;
    assert_true(first == STATUS_OK || (first == STATUS_NO_MEMORY && forest == NULL));
    assert_true(second == STATUS_OK || (second == STATUS_NO_MEMORY && demand == NULL));
    forest_destroy(&forest);
    demand_destroy(&demand);
    if (second == STATUS_OK) break;
    failures++;
  }
#ifndef FORELAY_SANITIZED
  assert_true(failures > 20);
#endif
}

static void asks_fail_without_being_counted(void **state) {
  (void)state;
  struct demand_config config;
  demand_config_init(&config, 4096);
  struct forest_config trees = {.nodes_max = 4096, .block_tokens = 16};
  struct forest *forest;
  struct demand *demand;
  assert_int_equal(forest_create(&trees, &forest), STATUS_OK);
  assert_int_equal(demand_create(&config, &demand), STATUS_OK);
  struct rng rng;
  rng_init(&rng, 1);
  uint32_t failures = 0, counted = 0;
  for (uint32_t i = 0; i < ASKS; i++) {
    block_key keys[CHAIN];
    struct ask ask = ask_random(&rng, keys, (i + 1) * 1000000ull);
    struct forest_path path;
    uint32_t before = forest_count(forest);
    scarce_after = rng_below(&rng, 6);
    enum status status = forest_insert(forest, &ask, &path);
    assert_true(status == STATUS_OK || status == STATUS_NO_MEMORY);
    if (status == STATUS_OK) {
      counted++;
      demand_observe(demand, forest, &ask, &path); /* may learn less, without saying so */
      struct forecast forecast;
      static const double horizon_s[] = {60};
      demand_forecast(demand, forest, path.end, ask.at_us, horizon_s, 1, &forecast);
      assert_true(forecast.p_within[0] >= 0 && forecast.p_within[0] <= 1);
    } else {
      failures++;
      assert_true(forest_count(forest) <= before + 4);
    }
    scarce_after = UINT64_MAX;
    assert_int_equal(asks_of(forest), counted);
    uint64_t known = known_of(forest);
    /* What failed can be asked again. */
    if (status != STATUS_OK) {
      assert_int_equal(forest_insert(forest, &ask, &path), STATUS_OK);
      counted++;
      demand_observe(demand, forest, &ask, &path);
      assert_true(known_of(forest) >= known);
    }
  }
#ifndef FORELAY_SANITIZED
  assert_true(failures > 10);
#else
  (void)failures;
#endif
  while (forest_prune(forest, 1000, ASKS * 1000000ull)) continue;
  assert_int_equal(forest_count(forest), 0);
  assert_int_equal(forest_blocks(forest), 0);
  forest_destroy(&forest);
  demand_destroy(&demand);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(creation_fails_cleanly_at_every_step),
      cmocka_unit_test(asks_fail_without_being_counted),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
