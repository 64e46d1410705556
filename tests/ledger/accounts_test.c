#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/rng.h"
#include "ledger/accounts.h"

enum { BLOCK = 16 };

static block_key key_of(uint64_t path, uint32_t i) {
  return map_key_of(path * 1000003 + i + 1);
}

static void keys_fill(block_key *keys, uint64_t path, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) keys[i] = key_of(path, i);
}

static struct accounts *accounts_new(void) {
  struct accounts_config config = {
      .block_tokens = BLOCK, .requests_max = 8, .blocks_max = 4096, .tasks_max = 64, .tenants_max = 4};
  struct accounts *accounts;
  assert_int_equal(accounts_create(&config, &accounts), STATUS_OK);
  accounts_set_rates(accounts, &(struct accounts_rates){.prefill_s_per_token = .01,
                                                        .prefill_s_per_token2 = 1e-6,
                                                        .saved_second_usd = .002,
                                                        .speculative_second_usd = .0001,
                                                        .watts = 50});
  return accounts;
}

static struct totals totals_of(const struct accounts *accounts, enum account_axis axis, uint32_t index) {
  struct totals totals;
  accounts_totals(accounts, axis, index, &totals);
  return totals;
}

/* cmocka compares floats. */
static void assert_close(double a, double b) {
  double gap = a > b ? a - b : b - a, size = (a > 0 ? a : -a) + 1;
  assert_true(gap <= 1e-9 * size);
}

/* Every identity that the header promises. */
static void identities_hold(const struct accounts *accounts) {
  size_t n;
  const struct totals_field *fields = totals_fields(&n);
  struct totals all = totals_of(accounts, ACCOUNT_ALL, 0);
  const uint32_t counts[ACCOUNT_AXIS_COUNT] = {1, KIND_COUNT, LAYER_COUNT, accounts_tenants(accounts)};
  for (int axis = 0; axis < ACCOUNT_AXIS_COUNT; axis++) {
    struct totals sum = {0};
    for (uint32_t i = 0; i < counts[axis]; i++) {
      struct totals part = totals_of(accounts, (enum account_axis)axis, i);
      totals_add(&sum, &part);
      assert_close(part.hit_tokens + part.computed_tokens, part.prompt_tokens);
      assert_true(part.used_tokens + part.wasted_tokens <= part.prepared_tokens + 1e-6);
      assert_close(part.net_seconds, part.realized_seconds - part.speculative_seconds);
      assert_close(part.net_usd, part.realized_usd - part.spent_usd);
    }
    for (size_t f = 0; f < n; f++) {
      double a = *(const double *)(const void *)((const char *)&all + fields[f].offset);
      double b = *(const double *)(const void *)((const char *)&sum + fields[f].offset);
      assert_close(a, b);
    }
  }
  double hits[TIER_COUNT], sum = 0;
  accounts_hits(accounts, hits);
  for (int tier = 0; tier < TIER_COUNT; tier++) sum += hits[tier];
  assert_close(sum, all.hit_tokens);
}

struct credits {
  uint32_t calls, used;
  double seconds;
};

static const struct accounts_shadows no_hits = {0, 0};

static void credit_count(void *ctx, uint64_t task, uint32_t used_tokens, double realized_seconds) {
  struct credits *credits = ctx;
  assert_true(task > 0);
  credits->calls++;
  credits->used += used_tokens;
  credits->seconds += realized_seconds;
}

static void arrive(struct accounts *accounts, uint64_t request, uint64_t path, uint32_t tokens) {
  block_key keys[64];
  keys_fill(keys, path, tokens / BLOCK);
  struct accounts_arrival arrival = {
      .request = request, .kind = KIND_SHARED, .prompt_tokens = tokens, .n_blocks = tokens / BLOCK, .keys = keys};
  assert_int_equal(accounts_arrive(accounts, &arrival), STATUS_OK);
}

static void a_prepared_prefix_is_used_once_and_credited(void **state) {
  (void)state;
  struct accounts *accounts = accounts_new();
  assert_int_equal(accounts_task_open(accounts, 7, KIND_DOCUMENT, 0, false), STATUS_OK);
  accounts_task_spend(accounts, 7, 100, 1.1, 5000);
  accounts_task_ready(accounts, 7, .9);
  for (uint32_t i = 0; i < 6; i++) assert_int_equal(accounts_block_prepared(accounts, 7, key_of(1, i)), STATUS_OK);
  assert_int_equal(accounts_unproven_blocks(accounts), 6);
  arrive(accounts, 1, 1, 120);
  struct credits credits = {0};
  struct accounts_result result;
  struct outcome outcome = {.request = 1, .computed_tokens = 24, .prefill_us = 240000, .restore_us = 9600};
  outcome.hit_tokens[TIER_RAM] = 96;
  accounts_finish(accounts, &outcome, &no_hits, credit_count, &credits, &result);
  assert_true(result.is_booked);
  assert_int_equal(credits.calls, 1);
  assert_int_equal(credits.used, 96);
  /* 96 tokens at .01 s and 1e-6 · 96² / 2 s, less the restore. */
  assert_float_equal(credits.seconds, .96 + 1e-6 * 96 * 96 / 2 - .0096, 1e-9);
  assert_float_equal(result.realized_seconds, credits.seconds, 1e-9);
  struct totals document = totals_of(accounts, ACCOUNT_KIND, KIND_DOCUMENT);
  assert_float_equal(document.used_tokens, 96, 0);
  assert_float_equal(document.realized_seconds, credits.seconds, 1e-9);
  /* Asked again: the shadow has it now, nothing is counted twice. */
  arrive(accounts, 2, 1, 120);
  credits = (struct credits){0};
  outcome.request = 2;
  accounts_finish(accounts, &outcome, &(struct accounts_shadows){112, 112}, credit_count, &credits, &result);
  assert_int_equal(credits.used, 0);
  assert_true(result.realized_seconds < 0); /* 16 tokens less than the reactive cache */
  identities_hold(accounts);
  accounts_destroy(&accounts);
}

static void what_leaves_unasked_is_wasted(void **state) {
  (void)state;
  struct accounts *accounts = accounts_new();
  assert_int_equal(accounts_task_open(accounts, 1, KIND_SHARED, 2, true), STATUS_OK);
  accounts_task_spend(accounts, 1, 40, .4, 0);
  assert_int_equal(accounts_block_prepared(accounts, 1, key_of(3, 0)), STATUS_OK);
  assert_int_equal(accounts_block_prepared(accounts, 1, key_of(3, 1)), STATUS_OK);
  assert_int_equal(accounts_unproven_blocks(accounts), 0); /* an order is no speculation */
  accounts_block_gone(accounts, key_of(3, 1));
  accounts_task_close(accounts, 1);
  assert_float_equal(totals_of(accounts, ACCOUNT_ALL, 0).wasted_tokens, 16, 0);
  accounts_block_gone(accounts, key_of(3, 0));
  /* The tail of 8 tokens went with the rest. */
  assert_float_equal(totals_of(accounts, ACCOUNT_ALL, 0).wasted_tokens, 40, 0);
  assert_float_equal(totals_of(accounts, ACCOUNT_TENANT, 2).wasted_tokens, 40, 0);
  /* Its place is free again. */
  assert_int_equal(accounts_task_open(accounts, 1, KIND_SHARED, 2, true), STATUS_OK);
  accounts_task_close(accounts, 1);
  identities_hold(accounts);
  accounts_destroy(&accounts);
}

/* The shadows never have the last token of a prompt, nor more of one that was given up than was begun of it; what S1
 * had beyond S0 is retention's, the rest preparation's. */
static void shadows_are_cut_to_the_prompt(void **state) {
  (void)state;
  struct accounts *accounts = accounts_new();
  struct accounts_result result;
  struct accounts_shadows all = {.reactive_hit_tokens = 500, .retention_hit_tokens = 500};
  arrive(accounts, 1, 5, 100);
  accounts_finish(accounts, &(struct outcome){.request = 1, .computed_tokens = 100}, &all, NULL, NULL, &result);
  assert_int_equal(result.shadow_hit_tokens, 99);
  arrive(accounts, 2, 5, 100);
  accounts_finish(accounts, &(struct outcome){.request = 2, .computed_tokens = 30}, &all, NULL, NULL, &result);
  assert_int_equal(result.shadow_hit_tokens, 30);
  double before = totals_of(accounts, ACCOUNT_LAYER, LAYER_RETENTION).realized_seconds;
  double before_prepared = totals_of(accounts, ACCOUNT_LAYER, LAYER_PREPARATION).realized_seconds;
  arrive(accounts, 3, 5, 100);
  struct outcome outcome = {.request = 3, .computed_tokens = 10};
  outcome.hit_tokens[TIER_DEVICE] = 90;
  accounts_finish(accounts, &outcome, &(struct accounts_shadows){20, 50}, NULL, NULL, &result);
  double retention = totals_of(accounts, ACCOUNT_LAYER, LAYER_RETENTION).realized_seconds - before;
  double preparation = totals_of(accounts, ACCOUNT_LAYER, LAYER_PREPARATION).realized_seconds - before_prepared;
  assert_close(retention, .3 + 1e-6 * (50 * 50 - 20 * 20) / 2);
  assert_close(preparation, .4 + 1e-6 * (90 * 90 - 50 * 50) / 2);
  identities_hold(accounts);
  accounts_destroy(&accounts);
}

static void reports_beyond_the_prompt_are_cut(void **state) {
  (void)state;
  struct accounts *accounts = accounts_new();
  struct accounts_result result;
  arrive(accounts, 1, 1, 50);
  struct outcome outcome = {.request = 1, .computed_tokens = 4000};
  outcome.hit_tokens[TIER_DEVICE] = 40;
  outcome.hit_tokens[TIER_SSD] = UINT32_MAX;
  accounts_finish(accounts, &outcome, &no_hits, NULL, NULL, &result);
  assert_int_equal(result.hit_tokens, 50);
  identities_hold(accounts);
  /* Twice, unknown, and never begun: nothing is booked. */
  accounts_finish(accounts, &outcome, &no_hits, NULL, NULL, &result);
  assert_false(result.is_booked);
  arrive(accounts, 2, 1, 50);
  accounts_finish(accounts, &(struct outcome){.request = 2, .stop = STOP_ABORTED}, &no_hits, NULL, NULL, &result);
  assert_false(result.is_booked);
  assert_float_equal(totals_of(accounts, ACCOUNT_ALL, 0).requests, 1, 0);
  accounts_destroy(&accounts);
}

static void identities_hold_on_random_days(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= 20; seed++) {
    struct rng rng;
    rng_init(&rng, seed);
    struct accounts *accounts = accounts_new();
    uint64_t request = 0, task = 0;
    for (int step = 0; step < 2000; step++) {
      uint64_t path = rng_below(&rng, 12);
      uint32_t n = (uint32_t)rng_below(&rng, 24);
      switch (rng_below(&rng, 5)) {
      case 0: {
        block_key keys[32];
        keys_fill(keys, path, n);
        uint32_t tail = (uint32_t)rng_below(&rng, BLOCK);
        struct accounts_arrival arrival = {.request = ++request,
                                           .tenant = (uint32_t)rng_below(&rng, 7),
                                           .kind = (enum kind)rng_below(&rng, KIND_COUNT),
                                           .prompt_tokens = n * BLOCK + tail,
                                           .n_blocks = n,
                                           .keys = keys};
        assert_int_equal(accounts_arrive(accounts, &arrival), STATUS_OK);
        break;
      }
      case 1: {
        struct outcome outcome = {.request = request - rng_below(&rng, 12),
                                  .computed_tokens = (uint32_t)rng_below(&rng, 400),
                                  .restore_us = rng_below(&rng, 100000),
                                  .prefill_us = rng_below(&rng, 4000000)};
        for (int tier = TIER_DEVICE; tier < TIER_COUNT; tier++) {
          outcome.hit_tokens[tier] = (uint32_t)rng_below(&rng, 200);
        }
        struct accounts_shadows shadows = {(uint32_t)rng_below(&rng, 400), (uint32_t)rng_below(&rng, 400)};
        struct accounts_result result;
        accounts_finish(accounts, &outcome, &shadows, NULL, NULL, &result);
        assert_true(result.hit_tokens + outcome.computed_tokens > 0 || !result.is_booked);
        break;
      }
      case 2:
        if (accounts_task_open(accounts, ++task, (enum kind)rng_below(&rng, KIND_COUNT), (uint32_t)rng_below(&rng, 7),
                               rng_below(&rng, 2)) == STATUS_OK) {
          accounts_task_spend(accounts, task, (uint32_t)rng_below(&rng, 300), rng_uniform(&rng), 10);
          for (uint32_t i = 0; i < n; i++) {
            assert_int_equal(accounts_block_prepared(accounts, task, key_of(path, i)), STATUS_OK);
          }
          accounts_task_ready(accounts, task, rng_uniform(&rng) - .2);
        }
        break;
      case 3:
        accounts_block_gone(accounts, key_of(path, n));
        break;
      default:
        accounts_task_close(accounts, rng_below(&rng, task + 1));
      }
    }
    identities_hold(accounts);
    if (seed == 1) printf("seed 1: %.0f requests\n", totals_of(accounts, ACCOUNT_ALL, 0).requests);
    accounts_destroy(&accounts);
  }
}

static void earlier_totals_are_added(void **state) {
  (void)state;
  struct accounts *accounts = accounts_new();
  struct totals earlier = {.requests = 3, .prompt_tokens = 30, .computed_tokens = 30};
  assert_int_equal(accounts_restore(accounts, ACCOUNT_ALL, 0, &earlier), STATUS_OK);
  assert_int_equal(accounts_restore(accounts, ACCOUNT_TENANT, 2, &earlier), STATUS_OK);
  assert_int_equal(accounts_restore(accounts, ACCOUNT_KIND, KIND_COUNT, &earlier), STATUS_INVALID);
  assert_int_equal(accounts_restore(accounts, ACCOUNT_TENANT, 4, &earlier), STATUS_INVALID);
  double zero = 0;
  earlier.joules = 1 / zero;
  assert_int_equal(accounts_restore(accounts, ACCOUNT_ALL, 0, &earlier), STATUS_INVALID);
  assert_float_equal(totals_of(accounts, ACCOUNT_ALL, 0).requests, 3, 0);
  accounts_destroy(&accounts);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_prepared_prefix_is_used_once_and_credited),
      cmocka_unit_test(what_leaves_unasked_is_wasted),
      cmocka_unit_test(shadows_are_cut_to_the_prompt),
      cmocka_unit_test(reports_beyond_the_prompt_are_cut),
      cmocka_unit_test(identities_hold_on_random_days),
      cmocka_unit_test(earlier_totals_are_added),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
