/* Reuse on the real model: what is taken from where, that it changes nothing in the answer, and who may see it. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/reuse_stage.h"

struct demotions {
  uint32_t asked, present;
};

static void demote(void *ctx, const struct index_entry *entry) {
  struct demotions *demotions = ctx;

  demotions->asked++;
  demotions->present += entry->bytes[TIER_SSD] > 0;
}

struct segments {
  uint64_t ids[256];
  uint32_t n;
};

static void collect(void *ctx, const struct index_entry *entry) {
  struct segments *segments = ctx;

  segments->ids[segments->n++] = entry->id;
}

/* All segments to the disk, parents first, and everything but that forgotten. */
static void move_to_ssd_and_reopen(void) {
  struct segments segments = {.n = 0};
  struct demotions demotions = {0};

  settle();
  depot_each(depot, UINT32_MAX, collect, &segments);
  assert_true(segments.n > 0);
  assert_int_equal(depot_flush(depot, segments.ids, segments.n, clock_monotonic_us() + 60000000), segments.n);
  depot_each(depot, UINT32_MAX, demote, &demotions);
  assert_int_equal(demotions.present, demotions.asked);
  close_stack();
  open_stack(512 << 20);
}

/* The same bits from a cold run, the device, RAM, SSD after a restart, and as shorter prefix of a longer state. */
static void test_exact_from_every_tier(void **state) {
  uint32_t n_prompts = prompts_count();
  struct witness *colds = calloc(n_prompts, sizeof(*colds));
  struct witness *other_colds = calloc(n_prompts, sizeof(*other_colds));
  int32_t **prompts = calloc(n_prompts, sizeof(*prompts)), **others = calloc(n_prompts, sizeof(*others));
  struct witness warm;

  (void)state;
  assert_true(colds != NULL && other_colds != NULL && prompts != NULL && others != NULL);
  for (uint32_t i = 0; i < n_prompts; i++) {
    uint32_t n = 150 + i * 41 % 150;
    struct reuse_request request;

    prompts[i] = sample_tokens(model, 1000 + i, n);
    others[i] = sample_tokens(model, 2000 + i, n);
    memcpy(others[i], prompts[i], 75 * sizeof(*prompts[i])); /* shares a beginning */
    request = ask(0, others[i], n);
    request.wants_store = false;
    run(&request, &other_colds[i]);
    assert_int_equal(other_colds[i].prefill.cached_tokens, 0);
    request = ask(0, prompts[i], n);
    run(&request, &colds[i]);
    assert_int_equal(colds[i].prefill.cached_tokens, 0);
    run(&request, &warm);
    assert_int_equal(warm.prefill.hit_tokens[TIER_DEVICE], n - 1);
    assert_same_answer(&colds[i], &warm);
    drop_witness(&warm);
  }
  for (int round = 0; round < 2; round++) {
    enum tier tier = round == 0 ? TIER_RAM : TIER_SSD;

    for (uint32_t i = 0; i < n_prompts; i++) {
      uint32_t n = 150 + i * 41 % 150;
      struct reuse_request request = ask(0, prompts[i], n);

      settle();
      reuse_forget(reuse, NULL);
      run(&request, &warm);
      assert_int_equal(warm.prefill.hit_tokens[tier], n - 1);
      assert_int_equal(warm.prefill.tier, tier);
      assert_same_answer(&colds[i], &warm);
      drop_witness(&warm);
      settle();
      reuse_forget(reuse, NULL);
      request = ask(0, others[i], n);
      request.wants_store = false;
      run(&request, &warm);
      assert_in_range(warm.prefill.cached_tokens, 75, n - 65);
      assert_int_equal(warm.prefill.hit_tokens[TIER_RAM], warm.prefill.cached_tokens);
      assert_same_answer(&other_colds[i], &warm);
      drop_witness(&warm);
    }
    if (round == 0) {
      move_to_ssd_and_reopen();
    }
  }
  for (uint32_t i = 0; i < n_prompts; i++) {
    drop_witness(&colds[i]);
    drop_witness(&other_colds[i]);
    free(prompts[i]);
    free(others[i]);
  }
  free(prompts);
  free(others);
  free(colds);
  free(other_colds);
}

static void test_tenants_never_share(void **state) {
  int32_t *tokens = sample_tokens(model, 1, 150);
  struct reuse_request mine = ask(0, tokens, 150), theirs = ask(1, tokens, 150);
  struct witness first, second, third;

  (void)state;
  run(&mine, &first);
  settle();
  assert_int_equal(missing_in_ram(0, tokens, 149), 0);
  run(&theirs, &second);
  assert_int_equal(second.prefill.cached_tokens, 0);
  assert_int_equal(reuse_device_tokens(reuse, salts[1], tokens, 150), 150);
  assert_same_answer(&first, &second);
  settle();
  reuse_forget(reuse, salts[0]);
  assert_int_equal(reuse_device_tokens(reuse, salts[0], tokens, 150), 0);
  assert_true(reuse_device_tokens(reuse, salts[1], tokens, 150) > 0);
  run(&mine, &third);
  assert_int_equal(third.prefill.hit_tokens[TIER_RAM], 149);
  drop_witness(&first);
  drop_witness(&second);
  drop_witness(&third);
  free(tokens);
}

static void test_unwanted_storage_leaves_nothing(void **state) {
  int32_t *tokens = sample_tokens(model, 2, 150);
  struct reuse_request request = ask(0, tokens, 150);
  struct reuse_load load;
  struct depot_stats stats;
  struct witness first, second;

  (void)state;
  request.wants_store = false;
  run(&request, &first);
  assert_int_equal(first.result.ready_tokens, 0);
  settle();
  reuse_load(reuse, &load);
  depot_stats(depot, &stats);
  assert_int_equal(load.device_tokens, 0);
  assert_int_equal(stats.tier[TIER_RAM].segments, 0);
  assert_int_equal(stats.tier[TIER_SSD].segments, 0);
  run(&request, &second);
  assert_int_equal(second.prefill.cached_tokens, 0);
  drop_witness(&first);
  drop_witness(&second);
  free(tokens);
}

static void test_near_takes_what_was_generated(void **state) {
  int32_t *tokens = sample_tokens(model, 3, 260);
  struct reuse_request first_turn = ask(0, tokens, 140), next_turn;
  struct witness first, exact, near;
  uint32_t generated;

  (void)state;
  run(&first_turn, &first);
  generated = first.result.output_tokens - 1; /* the last token sampled lies nowhere */
  memcpy(tokens + 140, first.output, first.result.output_tokens * sizeof(*tokens));
  next_turn = ask(0, tokens, 260);
  next_turn.mode = REUSE_NEAR;
  next_turn.wants_store = false;
  settle();
  run(&next_turn, &near);
  assert_int_equal(near.prefill.cached_tokens, 140 + generated);
  next_turn.mode = REUSE_EXACT;
  settle();
  run(&next_turn, &exact);
  assert_int_equal(exact.prefill.cached_tokens, 139);
  next_turn.mode = REUSE_OFF;
  drop_witness(&near);
  run(&next_turn, &near);
  assert_int_equal(near.prefill.cached_tokens, 0);
  assert_same_answer(&exact, &near);
  drop_witness(&first);
  drop_witness(&exact);
  drop_witness(&near);
  free(tokens);
}

/* A turn's answer lies in RAM and on SSD like its prompt; exact reuse ends where that begins, until it is computed
 * canonically: then the better copy replaces the other in RAM. */
static void test_answers_are_stored_too(void **state) {
  int32_t *tokens = sample_tokens(model, 4, 450);
  struct reuse_request first_turn = ask(0, tokens, 350), next_turn, prepare;
  struct witness first, warm, prepared;
  uint32_t all;

  (void)state;
  run(&first_turn, &first);
  all = 350 + first.result.output_tokens - 1;
  assert_true(first.result.output_tokens > 1);
  memcpy(tokens + 350, first.output, first.result.output_tokens * sizeof(*tokens));
  next_turn = ask(0, tokens, 450);
  next_turn.mode = REUSE_NEAR;
  next_turn.wants_store = false;
  move_to_ssd_and_reopen();
  run(&next_turn, &warm);
  assert_int_equal(warm.prefill.hit_tokens[TIER_SSD], all);
  drop_witness(&warm);
  settle();
  run(&next_turn, &warm);
  assert_int_equal(warm.prefill.hit_tokens[TIER_RAM], all);
  drop_witness(&warm);
  next_turn.mode = REUSE_EXACT;
  settle();
  run(&next_turn, &warm);
  assert_in_range(warm.prefill.hit_tokens[TIER_RAM], 256, 349);
  drop_witness(&warm);
  settle();
  prepare = preparation(0, tokens, all, 12);
  run(&prepare, &prepared);
  settle();
  reuse_forget(reuse, NULL);
  run(&next_turn, &warm);
  assert_int_equal(warm.prefill.hit_tokens[TIER_RAM], all);
  drop_witness(&warm);
  drop_witness(&first);
  free(tokens);
}

/* What near reuse changes: reported, and small. The next turn on the answer as it was generated against a cold run. */
static void test_near_is_close(void **state) {
  uint32_t n_prompts = prompts_count(), equal = 0;
  float largest = 0;

  (void)state;
  for (uint32_t i = 0; i < n_prompts; i++) {
    uint32_t n = 150 + i * 41 % 150;
    int32_t *tokens = sample_tokens(model, 3000 + i, n + ANSWER + 70);
    struct reuse_request first_turn = ask(0, tokens, n), next_turn;
    struct witness first, near, cold;

    run(&first_turn, &first);
    memcpy(tokens + n, first.output, first.result.output_tokens * sizeof(*tokens));
    next_turn = ask(0, tokens, n + ANSWER + 70);
    next_turn.wants_store = false;
    next_turn.mode = REUSE_OFF;
    run(&next_turn, &cold);
    next_turn.mode = REUSE_NEAR;
    run(&next_turn, &near);
    assert_int_equal(near.prefill.cached_tokens, n + first.result.output_tokens - 1);
    equal += near.text_size == cold.text_size && memcmp(near.text, cold.text, cold.text_size) == 0;
    for (uint32_t k = 0; k < model_facts(model)->n_vocab; k++) {
      float difference = fabsf(near.logits[k] - cold.logits[k]);

      largest = difference > largest ? difference : largest;
    }
    drop_witness(&first);
    drop_witness(&near);
    drop_witness(&cold);
    free(tokens);
    settle();
    reuse_forget(reuse, NULL);
  }
  print_message("  near: %u of %u texts equal, largest logit difference %.2f\n", (unsigned)equal, (unsigned)n_prompts,
                (double)largest);
  assert_true(largest < 3); /* another state's KV differs by ten and more */
}

struct save {
  bool is_over;
  enum status status;
  uint32_t ram_tokens;
};

static void on_saved(void *ctx, enum status status, uint32_t ram_tokens) {
  struct save *save = ctx;

  assert_false(save->is_over);
  save->is_over = true;
  save->status = status;
  save->ram_tokens = ram_tokens;
}

static void test_preparation_serves_from_ram(void **state) {
  int32_t *tokens = sample_tokens(model, 6, 300);
  struct reuse_request prepare = preparation(0, tokens, 200, 77), again = preparation(0, tokens, 220, 78);
  struct reuse_request request = ask(0, tokens, 300), cold_request = request;
  struct witness prepared, extended, warm, cold, busy;
  struct save save = {0}, none = {0};

  (void)state;
  cold_request.wants_store = false;
  run(&cold_request, &cold);
  submit(&prepare, &prepared);
  assert_int_equal(try_submit(&again, &busy), STATUS_BUSY); /* one at a time */
  finish(&prepared);
  assert_int_equal(prepared.status, STATUS_OK);
  assert_int_equal(prepared.result.ready_tokens, 200);
  assert_int_equal(prepared.result.prefill.computed_tokens, 200);
  /* 20 tokens more: as many are computed again as keep the micro-batches long. */
  settle();
  run(&again, &extended);
  assert_int_equal(extended.result.ready_tokens, 220);
  assert_int_equal(extended.result.prefill.computed_tokens, 64);
  assert_int_equal(reuse_save(reuse, salts[0], 0, tokens, 220, 78, on_saved, &save), STATUS_OK);
  assert_false(save.is_over);
  pump_until(&pump, &save.is_over);
  assert_int_equal(save.status, STATUS_OK);
  assert_int_equal(save.ram_tokens, 220);
  assert_true(rooms_asked == 0); /* there is plenty */
  assert_int_equal(reuse_save(reuse, salts[1], 1, tokens, 220, 78, on_saved, &none), STATUS_NOT_FOUND);
  settle();
  reuse_forget(reuse, NULL);
  run(&request, &warm);
  assert_int_equal(warm.prefill.hit_tokens[TIER_RAM], 220);
  assert_true(warm.prefill.task == 77 || warm.prefill.task == 78);
  assert_same_answer(&cold, &warm);
  assert_true(seconds_restored > 0);
  drop_witness(&cold);
  drop_witness(&warm);
  free(tokens);
}

static double memcpy_seconds(uint64_t bytes) {
  void *from = malloc(bytes), *to = malloc(bytes);
  uint64_t best_us = UINT64_MAX;

  assert_true(from != NULL && to != NULL);
  memset(from, 1, bytes);
  memset(to, 2, bytes);
  for (int i = 0; i < 5; i++) {
    uint64_t begin_us = clock_monotonic_us(), us;

    memcpy(to, from, bytes);
    us = clock_monotonic_us() - begin_us;
    best_us = us < best_us ? us : best_us;
  }
  free(from);
  free(to);
  return (double)best_us / 1e6;
}

/* A prepared prompt comes from RAM in a small part of the time of a cold one. FORELAY_LONG tokens, at most 4,500. */
static void test_prepared_prompt_is_quick(void **state) {
  const char *text = getenv("FORELAY_LONG");
  uint32_t n = text != NULL ? (uint32_t)atoi(text) : 500;
  int32_t *tokens = sample_tokens(model, 70, n);
  struct reuse_request prepare = preparation(0, tokens, n, 4), request = ask(0, tokens, n);
  struct witness prepared, warm, step;
  uint64_t cold_us, warm_us, best_us = UINT64_MAX;
  double limit_s;

  (void)state;
  request.output_tokens_max = 1;
  run(&prepare, &prepared);
  cold_us = prepared.result.prefill.prefill_us;
  settle();
  limit_s = memcpy_seconds((uint64_t)n * model_facts(model)->bytes_per_token);
  for (int i = 0; i < 5; i++) {
    reuse_forget(reuse, NULL);
    run(&request, &warm);
    assert_int_equal(warm.prefill.hit_tokens[TIER_RAM], n - 1);
    warm_us = warm.prefilled_us - warm.submitted_us;
    best_us = warm_us < best_us ? warm_us : best_us;
    drop_witness(&warm);
    settle();
  }
  run(&request, &step); /* from the device: one decode */
  print_message("  %u prepared tokens: %.1f ms from RAM, cold %.0f ms; memcpy %.1f ms, device %.1f ms\n", (unsigned)n,
                (double)best_us / 1e3, (double)cold_us / 1e3, limit_s * 1e3,
                (double)(step.prefilled_us - step.submitted_us) / 1e3);
  assert_true(best_us * 3 < cold_us);
  drop_witness(&step);
  free(tokens);
}

static void test_without_room_nothing_is_kept(void **state) {
  int32_t *tokens = sample_tokens(model, 10, 150);
  struct reuse_request prepare = preparation(0, tokens, 150, 9);
  struct witness prepared;
  struct save save = {0};
  struct depot_stats stats;

  (void)state;
  close_stack();
  open_stack(1 << 20); /* less than a segment */
  refuses_room = true;
  run(&prepare, &prepared);
  settle();
  assert_true(rooms_asked > 0);
  assert_int_equal(reuse_save(reuse, salts[0], 0, tokens, 150, 9, on_saved, &save), STATUS_OK);
  pump_until(&pump, &save.is_over);
  assert_int_equal(save.status, STATUS_FULL);
  assert_int_equal(save.ram_tokens, 0);
  depot_stats(depot, &stats);
  assert_int_equal(stats.tier[TIER_RAM].segments, 0);
  assert_int_equal(stats.tier[TIER_RAM].reserved_bytes, 0);
  /* It asks again only when something has changed. */
  rooms_asked = 0;
  settle();
  assert_int_equal(rooms_asked, 0);
  free(tokens);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_exact_from_every_tier, open_test, close_test),
      cmocka_unit_test_setup_teardown(test_tenants_never_share, open_test, close_test),
      cmocka_unit_test_setup_teardown(test_unwanted_storage_leaves_nothing, open_test, close_test),
      cmocka_unit_test_setup_teardown(test_near_takes_what_was_generated, open_test, close_test),
      cmocka_unit_test_setup_teardown(test_near_is_close, open_test, close_test),
      cmocka_unit_test_setup_teardown(test_answers_are_stored_too, open_test, close_test),
      cmocka_unit_test_setup_teardown(test_preparation_serves_from_ram, open_test, close_test),
      cmocka_unit_test_setup_teardown(test_prepared_prompt_is_quick, open_test, close_test),
      cmocka_unit_test_setup_teardown(test_without_room_nothing_is_kept, open_test, close_test),
  };

  return cmocka_run_group_tests(tests, open_model, close_model);
}
