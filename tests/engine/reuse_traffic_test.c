/* Many requests at once on the real model: queue, deadlines, preparations that give way; all end exactly once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/reuse_stage.h"

static void test_queue_is_bounded_and_in_order(void **state) {
  int32_t *tokens = sample_tokens(model, 4, 400);
  struct reuse_request requests[6];
  struct witness witnesses[6];
  struct reuse_load load;

  (void)state;
  for (uint32_t i = 0; i < 6; i++) {
    requests[i] = ask(i % 2, tokens + i, 200);
    requests[i].output_tokens_max = 1;
  }
  for (uint32_t i = 0; i < 4; i++) {
    submit(&requests[i], &witnesses[i]);
  }
  reuse_load(reuse, &load);
  assert_int_equal(load.running, SLOTS);
  assert_int_equal(load.waiting, QUEUE);
  assert_int_equal(load.idle_since_us, 0);
  assert_int_equal(try_submit(&requests[4], &witnesses[4]), STATUS_FULL);
  /* One that leaves the queue makes place for another. */
  reuse_cancel(reuse, witnesses[2].job);
  finish(&witnesses[2]);
  assert_int_equal(witnesses[2].status, STATUS_CANCELLED);
  assert_int_equal(witnesses[2].starts, 0);
  submit(&requests[5], &witnesses[5]);
  finish(&witnesses[3]);
  assert_true(witnesses[0].is_over || witnesses[1].is_over);
  finish(&witnesses[0]);
  finish(&witnesses[1]);
  finish(&witnesses[5]);
  assert_true(witnesses[5].prefill.queue_us >= witnesses[3].prefill.queue_us / 2);
  reuse_load(reuse, &load);
  assert_true(load.idle_since_us > 0);
  assert_true(load.foreground_seconds > 0);
  for (uint32_t i = 0; i < 6; i++) {
    if (i != 4) {
      drop_witness(&witnesses[i]);
    }
  }
  free(tokens);
}

static void test_deadline_of_waiting(void **state) {
  int32_t *tokens = sample_tokens(model, 5, 400);
  struct reuse_request requests[3];
  struct witness witnesses[3];

  (void)state;
  for (uint32_t i = 0; i < 3; i++) {
    requests[i] = ask(0, tokens + i, 200);
    requests[i].output_tokens_max = 1;
  }
  requests[2].deadline_us = 1;
  for (uint32_t i = 0; i < 3; i++) {
    submit(&requests[i], &witnesses[i]);
  }
  finish(&witnesses[2]);
  assert_int_equal(witnesses[2].status, STATUS_TIMEOUT);
  for (uint32_t i = 0; i < 2; i++) {
    finish(&witnesses[i]);
    drop_witness(&witnesses[i]);
  }
  free(tokens);
}

static void test_request_takes_over_a_preparation(void **state) {
  int32_t *tokens = sample_tokens(model, 7, 700);
  struct reuse_request prepare = preparation(0, tokens, 699, 5), request = ask(0, tokens, 700), cold_request = request;
  struct witness prepared, taken, cold;

  (void)state;
  cold_request.wants_store = false;
  run(&cold_request, &cold);
  submit(&prepare, &prepared);
  while (reuse_device_tokens(reuse, salts[0], tokens, 700) < 256) {
    (void)pump_run(&pump, 5);
    assert_false(prepared.is_over);
  }
  submit(&request, &taken);
  finish(&taken);
  assert_int_equal(prepared.ends, 1);
  assert_true(prepared.is_taken_over);
  assert_int_equal(prepared.status, STATUS_CANCELLED);
  assert_true(taken.prefill.cached_tokens >= 256);
  assert_int_equal(taken.prefill.cached_tokens, prepared.result.ready_tokens);
  assert_int_equal(taken.prefill.task, 5);
  assert_same_answer(&cold, &taken);
  drop_witness(&cold);
  drop_witness(&taken);
  free(tokens);
}

static void test_preparation_goes_on_after_a_request(void **state) {
  int32_t *tokens = sample_tokens(model, 8, 600), *other = sample_tokens(model, 9, 80);
  struct reuse_request prepare = preparation(0, tokens, 600, 6), request = ask(1, other, 80);
  struct witness prepared, idle, real;

  (void)state;
  request.wants_store = false;
  run(&request, &idle);
  submit(&prepare, &prepared);
  while (reuse_device_tokens(reuse, salts[0], tokens, 600) < 128) {
    (void)pump_run(&pump, 5);
  }
  run(&request, &real);
  assert_false(prepared.is_over);
  print_message("  real request during a preparation: first token after %.0f ms, %.0f ms on an idle engine\n",
                (double)(real.prefilled_us - real.submitted_us) / 1e3,
                (double)(idle.prefilled_us - idle.submitted_us) / 1e3);
  assert_same_answer(&idle, &real);
  finish(&prepared);
  assert_int_equal(prepared.status, STATUS_OK);
  assert_int_equal(prepared.result.prefill.computed_tokens, 600);
  assert_int_equal(prepared.result.ready_tokens, 600);
  drop_witness(&idle);
  drop_witness(&real);
  free(tokens);
  free(other);
}

/* More prompts than sequences, without a quiet moment between them: each is saved before its place is taken. */
static void test_victims_are_saved_first(void **state) {
  enum { PROMPTS = 5, TOKENS = 140 };
  int32_t *prompts[PROMPTS];
  struct witness witnesses[PROMPTS], back;
  struct reuse_request request;

  (void)state;
  for (uint32_t i = 0; i < PROMPTS; i++) {
    prompts[i] = sample_tokens(model, 20 + i, TOKENS);
    request = ask(0, prompts[i], TOKENS);
    submit(&request, &witnesses[i]);
    if (i + 1 >= SLOTS + QUEUE) {
      finish(&witnesses[i + 1 - (SLOTS + QUEUE)]);
    }
  }
  for (uint32_t i = 0; i < PROMPTS; i++) {
    finish(&witnesses[i]);
    assert_int_equal(witnesses[i].status, STATUS_OK);
  }
  settle();
  for (uint32_t i = 0; i < PROMPTS; i++) {
    assert_int_equal(missing_in_ram(0, prompts[i], TOKENS - 1), 0);
    request = ask(0, prompts[i], TOKENS);
    run(&request, &back);
    assert_int_equal(back.prefill.cached_tokens, TOKENS - 1);
    assert_same_answer(&witnesses[i], &back);
    drop_witness(&witnesses[i]);
    drop_witness(&back);
    free(prompts[i]);
  }
}

/* Requests and preparations of two tenants, cancelled at random: all end exactly once, whatever they waited for. */
static void test_random_traffic_ends_once(void **state) {
  enum { ROUNDS = 120, BASES = 4 };
  struct witness *witnesses = calloc(ROUNDS, sizeof(*witnesses));
  int32_t *bases[BASES];
  uint32_t accepted = 0, cancelled = 0;
  struct reuse_load load;
  struct rng rng;

  (void)state;
  assert_non_null(witnesses);
  rng_init(&rng, 99);
  for (uint32_t i = 0; i < BASES; i++) {
    bases[i] = sample_tokens(model, 40 + i, 400);
  }
  for (uint32_t i = 0; i < ROUNDS; i++) {
    const int32_t *tokens = bases[rng_below(&rng, BASES)];
    uint32_t n = (uint32_t)(10 + rng_below(&rng, 300)), tenant = (uint32_t)rng_below(&rng, TENANTS);
    struct reuse_request request =
        rng_below(&rng, 3) > 0 ? ask(tenant, tokens, n) : preparation(tenant, tokens, n, i + 1);
    enum status status;

    request.mode = (enum reuse_mode)rng_below(&rng, 3);
    request.wants_store = rng_below(&rng, 4) > 0;
    request.wants_logits = false;
    refuses_room = rng_below(&rng, 2) > 0;
    status = try_submit(&request, &witnesses[accepted]);
    assert_true(status == STATUS_OK || status == STATUS_FULL || status == STATUS_BUSY);
    accepted += status == STATUS_OK;
    if (rng_below(&rng, 4) == 0) {
      reuse_forget(reuse, salts[rng_below(&rng, TENANTS)]);
    }
    for (uint32_t j = 0; j < accepted; j++) {
      if (!witnesses[j].is_over && rng_below(&rng, 4) == 0) {
        reuse_cancel(reuse, witnesses[j].job);
        cancelled++;
      }
    }
    (void)pump_run(&pump, (uint32_t)rng_below(&rng, 60));
  }
  for (uint32_t i = 0; i < accepted; i++) {
    finish(&witnesses[i]);
    assert_true(witnesses[i].status == STATUS_OK || witnesses[i].status == STATUS_CANCELLED);
  }
  assert_true(accepted > 10 && cancelled > 5);
  settle();
  reuse_load(reuse, &load);
  assert_int_equal(load.running + load.waiting + load.saving, 0);
  for (uint32_t i = 0; i < BASES; i++) {
    /* Whatever is believed to lie somewhere does: a reused answer is a cold one. */
    struct reuse_request request = ask(i % TENANTS, bases[i], 200);
    struct witness reused, cold;

    run(&request, &reused);
    request.mode = REUSE_OFF;
    run(&request, &cold);
    assert_same_answer(&cold, &reused);
    drop_witness(&reused);
    drop_witness(&cold);
    free(bases[i]);
  }
  free(witnesses);
}

static void test_close_ends_everything(void **state) {
  int32_t *tokens = sample_tokens(model, 60, 700);
  struct witness witnesses[4], prepared;
  struct reuse_request prepare = preparation(0, tokens, 700, 3);

  (void)state;
  submit(&prepare, &prepared);
  for (uint32_t i = 0; i < 4; i++) {
    struct reuse_request request = ask(1, tokens + i + 1, 600);

    submit(&request, &witnesses[i]);
  }
  (void)pump_run(&pump, 50);
  reuse_close(&reuse);
  for (uint32_t i = 0; i < 4; i++) {
    assert_int_equal(witnesses[i].ends, 1);
    assert_int_equal(witnesses[i].status, STATUS_CLOSED);
  }
  assert_int_equal(prepared.ends, 1);
  free(tokens);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_queue_is_bounded_and_in_order, open_test, close_test),
      cmocka_unit_test_setup_teardown(test_deadline_of_waiting, open_test, close_test),
      cmocka_unit_test_setup_teardown(test_request_takes_over_a_preparation, open_test, close_test),
      cmocka_unit_test_setup_teardown(test_preparation_goes_on_after_a_request, open_test, close_test),
      cmocka_unit_test_setup_teardown(test_victims_are_saved_first, open_test, close_test),
      cmocka_unit_test_setup_teardown(test_random_traffic_ends_once, open_test, close_test),
      cmocka_unit_test_setup_teardown(test_close_ends_everything, open_test, close_test),
  };

  return cmocka_run_group_tests(tests, open_model, close_model);
}
