/* What preparation is measured against: without preparation nothing is realized, with it what the same day without it
 * would have cost more. */
#include "plan/small_world.h"

enum { SESSIONS = 8, ROUNDS = 30 };

/* Conversations behind two heads, a digest now and then, and prompts that never come back. The same for equal seeds,
 * whatever the planner does. */
static void day_play(struct world *world, uint64_t seed) {
  static struct world_prefix histories[SESSIONS], prompt, next;
  static uint32_t turns[SESSIONS];
  uint64_t sessions = 0, ids[SESSIONS] = {0};
  struct rng rng;
  rng_init(&rng, seed);
  for (uint32_t i = 0; i < 64; i++) { /* prefill takes no longer deeper down: the ledger has to know that, too */
    plan_prefill_sample(world->plan, 64 + 16 * (i % 8), 128 * (i % 16), (64 + 16 * (i % 8)) * world_token_s);
  }
  memset(turns, 0, sizeof turns);
  for (uint32_t step = 0; step < SESSIONS * ROUNDS; step++) {
    uint32_t s = (uint32_t)rng_below(&rng, SESSIONS);
    if (turns[s] == 0 || turns[s] == 6) {
      ids[s] = ++sessions;
      turns[s] = 0;
      prefix_clear(&histories[s]);
      prefix_add(&histories[s], 1 + s % 2, 384);
    }
    prompt = histories[s];
    prefix_add(&prompt, rng_next(&rng), 96);
    next = prompt;
    prefix_add(&next, rng_next(&rng), 64);
    (void)world_ask(world,
                    &(struct world_request){
                        .prompt = &prompt, .next = &next, .session = ids[s], .turn = ++turns[s], .head_tokens = 384});
    histories[s] = next;
    world_run(world, 3 + (uint32_t)rng_below(&rng, 6));
    prefix_clear(&prompt);
    prefix_add(&prompt, step % 20 == 19 ? 42 : rng_next(&rng), 256);
    if (step % 4 == 3) (void)world_ask(world, &(struct world_request){.prompt = &prompt});
    world_run(world, 3);
  }
}

static struct plan_config day_config(uint64_t ram_tokens, uint64_t ssd_tokens, uint32_t sequences, bool prepare) {
  struct plan_config config = world_config(POLICY_FORELAY, ram_tokens, ssd_tokens);
  config.prepare = prepare;
  config.exact_reuse = true; /* as this world's engine: what it generates is not kept */
  config.sequences = sequences;
  config.budget.device_bytes = (uint64_t)sequences * 2048 * WORLD_TOKEN_BYTES;
  return config;
}

static const struct {
  uint64_t ram_tokens, ssd_tokens;
  uint32_t sequences;
  double writes; /* of the SSD's size, a day */
} machines[] = {{2000, 0, 0, 0},     {6000, 0, 0, 0},      {2000, 0, 3, 0},     {6000, 0, 3, 0},
                {1500, 3000, 0, 10}, {1500, 3000, 0, 1e6}, {1500, 3000, 3, 1e6}};

static void nothing_is_realized_without_preparation(void **state) {
  (void)state;
  for (size_t m = 0; m < sizeof machines / sizeof *machines; m++) {
    for (uint64_t seed = 1; seed <= 3; seed++) {
      struct world world;
      struct plan_config config =
          day_config(machines[m].ram_tokens, machines[m].ssd_tokens, machines[m].sequences, false);
      config.budget.ssd_writes_bytes_per_day = (uint64_t)(machines[m].writes * (double)config.budget.ssd_bytes);
      world_open(&world, &config);
      day_play(&world, seed);
      struct totals totals = world_totals(&world), retention;
      plan_totals(world.plan, ACCOUNT_LAYER, LAYER_RETENTION, &retention);
      double share = totals.realized_seconds / totals.foreground_seconds;
      print_message(
          "reactive, RAM %d SSD %d sequences %u seed %d: hit %.0f shadow %.0f, realized %.2f %% of foreground\n",
          (int)machines[m].ram_tokens, (int)machines[m].ssd_tokens, machines[m].sequences, (int)seed, totals.hit_tokens,
          totals.shadow_hit_tokens, 100 * share);
      assert_true(totals.hit_tokens > .2 * totals.prompt_tokens);
      assert_true(share <= .02 && share >= -.05);
      assert_true(retention.realized_seconds == 0);
      if (machines[m].ssd_tokens == 0) assert_true(share >= -.02);
      world_close(&world);
    }
  }
}

static void what_is_realized_is_what_the_day_without_would_have_cost(void **state) {
  (void)state;
  double all_realized = 0, all_gain = 0;
  for (size_t m = 0; m < sizeof machines / sizeof *machines; m++) {
    if (machines[m].ssd_tokens) continue; /* there the shadow is the larger cache, see above */
    for (uint64_t seed = 1; seed <= 3; seed++) {
      double foreground_s[2], realized_s = 0;
      for (int prepare = 0; prepare < 2; prepare++) {
        struct world world;
        struct plan_config config = day_config(machines[m].ram_tokens, 0, machines[m].sequences, prepare);
        world_open(&world, &config);
        day_play(&world, seed);
        struct totals totals = world_totals(&world);
        foreground_s[prepare] = totals.foreground_seconds;
        realized_s = totals.realized_seconds;
        if (prepare) assert_true(totals.prepared_tokens > 0);
        world_close(&world);
      }
      double gain_s = foreground_s[0] - foreground_s[1], error = (realized_s - gain_s) / foreground_s[0];
      print_message("prepared, RAM %d sequences %u seed %d: realized %.2f s, the day without took %.2f s longer\n",
                    (int)machines[m].ram_tokens, machines[m].sequences, (int)seed, realized_s, gain_s);
      assert_true(error <= .02 && error >= -.02);
      all_realized += realized_s;
      all_gain += gain_s;
    }
  }
  assert_true(all_gain > 10); /* there was something to measure */
  assert_true(all_realized <= 1.05 * all_gain && all_realized >= .9 * all_gain);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(nothing_is_realized_without_preparation),
      cmocka_unit_test(what_is_realized_is_what_the_day_without_would_have_cost),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
