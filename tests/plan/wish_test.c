#include "plan/small_world.h"

static void traffic(struct world *world, uint32_t requests, uint64_t seed) {
  struct rng rng;
  rng_init(&rng, seed);
  for (uint32_t i = 0; i < requests; i++) {
    struct world_prefix prompt;
    prefix_clear(&prompt);
    prefix_add(&prompt, rng_next(&rng), 320);
    (void)world_ask(world, &(struct world_request){.prompt = &prompt});
    world_run(world, 3);
  }
}

/* What is pinned survives any traffic until its time is over; more than half of a tier is refused. */
static void pins_hold(void **state) {
  (void)state;
  struct world world;
  struct plan_config config = world_config(POLICY_LRU, 4000, 0);
  world_open(&world, &config);
  static struct world_prefix prefix, other;
  prefix_clear(&prefix);
  prefix_add(&prefix, 1, 640);
  (void)world_ask(&world, &(struct world_request){.prompt = &prefix});
  struct order order = world_order(&world, &prefix, KIND_COMPLETE);
  uint64_t until_us = world.now_us + UINT64_C(400) * 1000000;
  struct error error = {{0}};
  assert_int_equal(plan_pin(world.plan, &order, until_us, &error), STATUS_OK);
  prefix_clear(&other);
  prefix_add(&other, 2, 1600);
  order = world_order(&world, &other, KIND_COMPLETE);
  assert_int_equal(plan_pin(world.plan, &order, until_us, &error), STATUS_FULL);
  assert_non_null(strstr(error.text, "exceed half"));
  traffic(&world, 100, 5);
  assert_int_equal(world_ask(&world, &(struct world_request){.prompt = &prefix}), 640);
  world_run(&world, 200);
  traffic(&world, 200, 6);
  uint32_t slow;
  assert_true(world_match(&world, &prefix, &slow) < prefix.n);
  assert_int_equal(plan_pin(world.plan, &order, world.now_us + 1, &error), STATUS_OK); /* the room is free again */
  world_close(&world);
}

/* A lowered budget is met by evictions, leaf first, and what is refused changes nothing. */
static void budgets_are_met(void **state) {
  (void)state;
  struct world world;
  struct plan_config config = world_config(POLICY_FORELAY, 8000, 0);
  world_open(&world, &config);
  traffic(&world, 40, 1);
  assert_true(world.ram_bytes > 7000 * WORLD_TOKEN_BYTES);
  struct budget budget = config.budget, now;
  struct error error = {{0}};
  budget.idle_fraction_max = 1.5;
  assert_int_equal(plan_set_budget(world.plan, &budget, &error), STATUS_INVALID);
  assert_non_null(strstr(error.text, "idle_fraction_max"));
  budget = config.budget;
  budget.ram_bytes = 3000 * WORLD_TOKEN_BYTES;
  assert_int_equal(plan_set_budget(world.plan, &budget, &error), STATUS_OK);
  world_run(&world, 10);
  assert_true(world.actions[ACTION_EVICT] > 0);
  assert_true(world.ram_bytes <= budget.ram_bytes);
  plan_budget(world.plan, &now);
  assert_int_equal(now.ram_bytes, budget.ram_bytes);
  world.config.budget = budget;
  traffic(&world, 40, 2);
  world_close(&world);
}

/* States are written at the end most valuable first, each behind its parent. */
static void flush_order_is_parents_first(void **state) {
  (void)state;
  struct world world;
  struct plan_config config = world_config(POLICY_FORELAY, 8000, 8000);
  world_open(&world, &config);
  for (uint32_t i = 0; i < 12; i++) { /* the head is asked again and again, the rest once */
    struct world_prefix prompt;
    prefix_clear(&prompt);
    prefix_add(&prompt, 1, 256);
    prefix_add(&prompt, 100 + i, 256);
    (void)world_ask(&world, &(struct world_request){.prompt = &prompt, .head_tokens = 256});
    world_second(&world);
  }
  uint64_t segments[1000];
  size_t n = plan_flush_order(world.plan, segments, 1000);
  assert_true(n > 10);
  for (size_t i = 0; i < n; i++) {
    const struct world_segment *segment = &world.segments[segments[i] - 1];
    assert_true(segment->in_ram && !segment->on_ssd);
    bool is_behind = segment->parent == 0 || world.segments[segment->parent - 1].on_ssd;
    for (size_t j = 0; j < i; j++) is_behind |= segments[j] == segment->parent;
    assert_true(is_behind);
  }
  assert_int_equal(plan_flush_order(world.plan, segments, 3), 3);
  /* The head was asked for more than once and has been written already. */
  assert_true(world.actions[ACTION_DEMOTE] >= 2);
  world_close(&world);
}

/* Bytes written to SSD stay within the day's budget. */
static void writes_stay_within_the_day(void **state) {
  (void)state;
  struct world world;
  struct plan_config config = world_config(POLICY_FORELAY, 8000, 8000);
  config.budget.ssd_writes_bytes_per_day = 1000 * WORLD_TOKEN_BYTES;
  world_open(&world, &config);
  for (uint32_t i = 0; i < 40; i++) {
    struct world_prefix prompt;
    prefix_clear(&prompt);
    prefix_add(&prompt, 1 + i / 2, 256);
    (void)world_ask(&world, &(struct world_request){.prompt = &prompt});
    world_second(&world);
  }
  assert_true(world.actions[ACTION_DEMOTE] > 0);
  assert_true(world.actions[ACTION_DEMOTE] * 128 <= 1000);
  world_close(&world);
}

/* Requests that may not be learned from leave nothing behind but their counts. */
static void unlearned_requests_leave_nothing(void **state) {
  (void)state;
  struct world world;
  struct plan_config config = world_config(POLICY_FORELAY, 8000, 0);
  world_open(&world, &config);
  static struct world_prefix prompt;
  prefix_clear(&prompt);
  prefix_add(&prompt, 1, 320);
  struct ask ask = {.request = 1,
                    .at_us = world.now_us,
                    .prompt_tokens = 330,
                    .n_blocks = prompt.n,
                    .keys = prompt.keys,
                    .material = 1,
                    .may_prepare = true};
  assert_int_equal(plan_ask(world.plan, &ask), STATUS_OK);
  struct outcome outcome = {.request = 1, .at_us = world.now_us, .computed_tokens = 330, .prefill_us = 1000000};
  plan_outcome(world.plan, &outcome);
  struct plan_prefix prefixes[4];
  assert_int_equal(plan_prefixes(world.plan, UINT32_MAX, world.now_us, prefixes, 4), 0);
  assert_true(world_totals(&world).prompt_tokens == 330);
  ask.n_blocks = 21; /* more blocks than tokens */
  assert_int_equal(plan_ask(world.plan, &ask), STATUS_INVALID);
  world_close(&world);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(pins_hold),
      cmocka_unit_test(budgets_are_met),
      cmocka_unit_test(flush_order_is_parents_first),
      cmocka_unit_test(writes_stay_within_the_day),
      cmocka_unit_test(unlearned_requests_leave_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
