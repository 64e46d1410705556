#include "plan/small_world.h"

enum { ROWS_MAX = 200000 };

struct rows {
  char **texts;
  size_t n;
};

static bool rows_keep(void *ctx, const char *text) {
  struct rows *rows = ctx;
  assert_true(rows->n < ROWS_MAX && strlen(text) < PLAN_ROW_SIZE && !strchr(text, '\n'));
  rows->texts[rows->n] = strdup(text);
  assert_non_null(rows->texts[rows->n]);
  rows->n++;
  return true;
}

static void rows_release(struct rows *rows) {
  for (size_t i = 0; i < rows->n; i++) free(rows->texts[i]);
  free(rows->texts);
}

/* The planner is saved, thrown away and loaded into a new one, which is told what lies where. */
static void world_restart(struct world *world) {
  struct rows rows = {.texts = calloc(ROWS_MAX, sizeof(char *))};
  assert_non_null(rows.texts);
  plan_save(world->plan, rows_keep, &rows);
  plan_destroy(&world->plan);
  world->n_jobs = 0;
  assert_int_equal(plan_create(&world->config, &world->plan, NULL), STATUS_OK);
  for (size_t i = 0; i < rows.n; i++) assert_int_equal(plan_load(world->plan, rows.texts[i]), STATUS_OK);
  for (uint32_t i = 0; i < world->n_segments; i++) {
    if (world->segments[i].in_ram) segment_tell(world, &world->segments[i], TIER_RAM, true);
    if (world->segments[i].on_ssd) segment_tell(world, &world->segments[i], TIER_SSD, true);
  }
  rows_release(&rows);
}

/* A mixed day, every choice from one seed: conversations, documents, a digest, one-shot prompts, orders, cancels. */
static void day_run(struct world *world, uint64_t seed, uint32_t steps, uint32_t restart_at) {
  struct rng rng;
  rng_init(&rng, seed);
  static struct world_prefix digest, sessions[8];
  uint32_t turns[8] = {0};
  uint64_t numbers[8] = {0};
  prefix_clear(&digest);
  prefix_add(&digest, 77, 640);
  for (uint32_t step = 0; step < steps; step++) {
    if (step == restart_at) world_restart(world);
    static struct world_prefix prompt, next;
    uint64_t pick = rng_below(&rng, 10), s = rng_below(&rng, 8);
    prefix_clear(&prompt);
    uint64_t id;
    if (pick < 5) {
      if (!turns[s] || turns[s] > 8 || rng_below(&rng, 6) == 0) {
        turns[s] = 0;
        numbers[s] = rng_next(&rng) | 1;
        prefix_clear(&sessions[s]);
        prefix_add(&sessions[s], 1 + numbers[s] % 3, 320);
      }
      turns[s]++;
      prompt = sessions[s];
      prefix_add(&prompt, rng_next(&rng), 48);
      next = prompt;
      prefix_add(&next, rng_next(&rng), 64);
      sessions[s] = next;
      (void)world_ask(world, &(struct world_request){.prompt = &prompt,
                                                     .next = &next,
                                                     .session = numbers[s],
                                                     .turn = turns[s],
                                                     .head_tokens = 320,
                                                     .tenant = (uint32_t)(numbers[s] % 3)});
    } else if (pick == 5) {
      prefix_add(&prompt, 1, 320);
      prefix_add(&prompt, 9000 + rng_below(&rng, 40), 240);
      struct order order = world_order(world, &prompt, KIND_DOCUMENT);
      assert_int_equal(plan_document(world->plan, &order, 1, &id, NULL), STATUS_OK);
    } else if (pick == 6) {
      prefix_add(&prompt, 1, 320);
      uint32_t document = (uint32_t)rng_below(&rng, 40);
      prefix_add(&prompt, 9000 + document, 240);
      prefix_add(&prompt, rng_next(&rng), 32);
      (void)world_ask(world, &(struct world_request){.prompt = &prompt, .head_tokens = 320, .document_tokens = 560});
    } else if (pick == 7) {
      (void)world_ask(world, &(struct world_request){.prompt = &digest});
    } else if (pick == 8) {
      prefix_add(&prompt, rng_next(&rng), 160);
      (void)world_ask(world, &(struct world_request){.prompt = &prompt});
    } else {
      prefix_add(&prompt, rng_next(&rng), 240);
      struct order order = world_order(world, &prompt, KIND_COMPLETE);
      assert_int_equal(plan_order(world->plan, &order, &id, NULL), STATUS_OK);
      if (rng_below(&rng, 3) == 0) (void)!plan_cancel(world->plan, id, 0, true, world->now_us);
    }
    world_run(world, 1 + (uint32_t)rng_below(&rng, 20));
    assert_true(world->ram_bytes <= world->config.budget.ram_bytes);
    assert_true(world->ssd_bytes <= world->config.budget.ssd_bytes);
  }
}

static const enum policy policies[] = {POLICY_FORELAY, POLICY_LRU, POLICY_FREQUENCY, POLICY_WORKLOAD};

static void equal_days_give_equal_actions(void **state) {
  (void)state;
  for (size_t p = 0; p < sizeof policies / sizeof *policies; p++) {
    struct world worlds[2];
    for (int run = 0; run < 2; run++) {
      struct plan_config config = world_config(policies[p], 9000, 6000);
      config.holdout = .1;
      config.exact_reuse = true; /* this world's engine keeps no generated tokens */
      world_open(&worlds[run], &config);
      day_run(&worlds[run], 2026, 500, UINT32_MAX);
    }
    world_report(policy_name(policies[p]), &worlds[0]);
    print_message("  prefill %u promote %u demote %u evict %u cancel %u, digest %016llx\n",
                  worlds[0].actions[ACTION_PREFILL], worlds[0].actions[ACTION_PROMOTE],
                  worlds[0].actions[ACTION_DEMOTE], worlds[0].actions[ACTION_EVICT], worlds[0].actions[ACTION_CANCEL],
                  (unsigned long long)worlds[0].digest);
    assert_true(worlds[0].digest == worlds[1].digest);
    struct totals a = world_totals(&worlds[0]), b = world_totals(&worlds[1]);
    assert_memory_equal(&a, &b, sizeof a);
    if (policies[p] == POLICY_LRU) assert_true(a.used_tokens == 0 || a.prepared_tokens > 0);
    world_close(&worlds[0]);
    world_close(&worlds[1]);
  }
}

/* A restart in the middle keeps what was learned: the rest of the day goes about as it would have gone. */
static void a_restart_changes_little(void **state) {
  (void)state;
  struct world plain, restarted;
  struct plan_config config = world_config(POLICY_FORELAY, 9000, 6000);
  config.exact_reuse = true;
  world_open(&plain, &config);
  world_open(&restarted, &config);
  day_run(&plain, 5, 500, UINT32_MAX);
  day_run(&restarted, 5, 500, 250);
  world_report("plain", &plain);
  world_report("restarted", &restarted);
  struct totals a = world_totals(&plain), b = world_totals(&restarted);
  assert_true(b.requests == a.requests && b.prompt_tokens == a.prompt_tokens);
  assert_true(b.hit_tokens > .9 * a.hit_tokens && b.hit_tokens < 1.1 * a.hit_tokens);
  struct plan_status status;
  plan_status(restarted.plan, &status);
  struct task task;
  assert_int_equal(plan_tasks(restarted.plan, UINT32_MAX, &task, 1), 1);
  assert_true(task.id > 100); /* numbers are not given twice */
  world_close(&plain);
  world_close(&restarted);
}

static void broken_rows_change_nothing(void **state) {
  (void)state;
  struct world world;
  struct plan_config config = world_config(POLICY_FORELAY, 9000, 6000);
  world_open(&world, &config);
  day_run(&world, 9, 60, UINT32_MAX);
  struct rows rows = {.texts = calloc(ROWS_MAX, sizeof(char *))};
  plan_save(world.plan, rows_keep, &rows);
  assert_true(rows.n > 20);
  struct plan *fresh;
  assert_int_equal(plan_create(&config, &fresh, NULL), STATUS_OK);
  struct rng rng;
  rng_init(&rng, 1);
  uint32_t refused = 0;
  for (size_t i = 0; i < rows.n; i++) {
    char text[PLAN_ROW_SIZE];
    snprintf(text, sizeof text, "%s", rows.texts[i]);
    size_t size = strlen(text);
    text[rng_below(&rng, size)] ^= (char)(1 + rng_below(&rng, 127));
    refused += plan_load(fresh, text) != STATUS_OK;
    snprintf(text, sizeof text, "%s", rows.texts[i]);
    text[rng_below(&rng, size)] = '\0';
    refused += plan_load(fresh, text) != STATUS_OK;
  }
  print_message("%u of %zu broken rows refused\n", refused, 2 * rows.n);
  assert_int_equal(plan_load(fresh, ""), STATUS_INVALID);
  assert_int_equal(plan_load(fresh, "p2.totals 0 0"), STATUS_INVALID);
  assert_int_equal(plan_load(fresh, "p1.totals 0 0 1"), STATUS_INVALID);
  assert_int_equal(plan_load(fresh, "p1.task"), STATUS_INVALID);
  plan_destroy(&fresh);
  rows_release(&rows);
  world_close(&world);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(equal_days_give_equal_actions),
      cmocka_unit_test(a_restart_changes_little),
      cmocka_unit_test(broken_rows_change_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
