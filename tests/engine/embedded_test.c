/* The embedded engine on the real model: what it computes, in which order, and that everything ends exactly once.
 * FORELAY_PROMPTS sets how many prompts the exactness tests take, FORELAY_MODEL another model file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "engine/embedded.h"
#include "engine/engine.h"
#include "engine/model.h"
#include "engine/pump.h"
#include "engine/sample_text.h"
#include "os/clock.h"

enum { CONTEXT = 4096, SEQUENCES = 4, ANSWER = 8, TEXT_MAX = 4096 };

static struct model *model;
static struct pump pump;
static struct engine *engine;

/* What one job told. */
struct witness {
  bool is_prefilled, is_over;
  uint32_t ends;
  enum status status;
  struct engine_prefill prefill;
  struct engine_result result;
  char text[TEXT_MAX];
  size_t text_size;
  uint32_t n_tokens;
  float *logits;
  uint64_t prefilled_us, over_us;
  uint32_t restored_tokens;
};

static void on_restored(void *ctx, uint32_t tokens, uint64_t bytes, uint64_t us) {
  struct witness *witness = ctx;

  (void)us;
  assert_true(tokens == 0 || bytes > 0);
  witness->restored_tokens = tokens;
}

static void on_prefilled(void *ctx, const struct engine_prefill *prefill) {
  struct witness *witness = ctx;

  assert_false(witness->is_prefilled);
  witness->is_prefilled = true;
  witness->prefill = *prefill;
  witness->prefilled_us = clock_monotonic_us();
}

static void on_logits(void *ctx, const float *logits, uint32_t n) {
  struct witness *witness = ctx;

  assert_null(witness->logits);
  witness->logits = malloc(n * sizeof(*logits));
  assert_non_null(witness->logits);
  memcpy(witness->logits, logits, n * sizeof(*logits));
}

static void on_token(void *ctx, const struct engine_token *token) {
  struct witness *witness = ctx;

  assert_true(witness->is_prefilled && !witness->is_over);
  assert_true(witness->text_size + token->text_size < TEXT_MAX);
  memcpy(witness->text + witness->text_size, token->text, token->text_size);
  witness->text_size += token->text_size;
  witness->n_tokens++;
}

static void on_end(struct witness *witness, enum status status, const struct engine_result *result) {
  witness->ends++;
  witness->is_over = true;
  witness->status = status;
  witness->result = *result;
  witness->over_us = clock_monotonic_us();
}

static void on_done(void *ctx, const struct engine_result *result) {
  on_end(ctx, STATUS_OK, result);
}

static void on_failed(void *ctx, enum status status, const struct error *error, bool is_retry_safe,
                      const struct engine_result *result) {
  assert_true(status != STATUS_OK && error->text[0] != 0);
  assert_int_equal(is_retry_safe, result->output_tokens == 0);
  on_end(ctx, status, result);
}

static const struct engine_sink sink = {.restored = on_restored,
                                        .prefilled = on_prefilled,
                                        .first_logits = on_logits,
                                        .token = on_token,
                                        .done = on_done,
                                        .failed = on_failed};

static struct engine_job *submit(const struct engine_request *request, struct witness *witness) {
  struct engine_job *job = NULL;
  struct error error = {{0}};
  enum status status;

  memset(witness, 0, sizeof(*witness));
  status = engine_submit(engine, request, &sink, witness, &job, &error);
  if (status != STATUS_OK) {
    fail_msg("%s", error.text);
  }
  return job;
}

static void finish(struct witness *witness) {
  pump_until(&pump, &witness->is_over);
  assert_int_equal(witness->ends, 1);
}

static void run(const struct engine_request *request, struct witness *witness) {
  (void)submit(request, witness);
  finish(witness);
  assert_int_equal(witness->status, STATUS_OK);
}

static void drop_witness(struct witness *witness) {
  free(witness->logits);
  witness->logits = NULL;
}

static void assert_same_answer(const struct witness *a, const struct witness *b) {
  size_t size = model_facts(model)->n_vocab * sizeof(float);

  assert_non_null(a->logits);
  assert_non_null(b->logits);
  assert_memory_equal(a->logits, b->logits, size);
  assert_int_equal(a->text_size, b->text_size);
  assert_memory_equal(a->text, b->text, a->text_size);
}

static uint32_t prompts_count(void) {
  const char *text = getenv("FORELAY_PROMPTS");

  return text != NULL ? (uint32_t)atoi(text) : 2;
}

static struct engine_request answer_request(uint32_t seq, const int32_t *tokens, uint32_t n) {
  return (struct engine_request){.lane = LANE_REAL,
                                 .seq = seq,
                                 .tokens = tokens,
                                 .n_tokens = n,
                                 .is_exact = true,
                                 .output_tokens_max = ANSWER,
                                 .wants_logits = true};
}

static struct engine_request prefill_request(enum lane lane, uint32_t seq, const int32_t *tokens, uint32_t n) {
  return (struct engine_request){.lane = lane, .seq = seq, .tokens = tokens, .n_tokens = n};
}

/* ── tests ── */

static void test_counts_add_up(void **state) {
  int32_t *tokens = sample_tokens(model, 1, 200);
  struct engine_request request = answer_request(0, tokens, 200);
  struct witness first, second;

  (void)state;
  run(&request, &first);
  assert_int_equal(first.prefill.cached_tokens, 0);
  assert_int_equal(first.prefill.computed_tokens, 200);
  assert_int_equal(first.prefill.canonical_tokens, 199);
  assert_true(first.result.output_tokens >= 1 && first.result.output_tokens <= ANSWER);
  assert_int_equal(first.result.seq_tokens, 200 + first.result.output_tokens - 1);
  assert_true(first.text_size > 0);
  request.keep_tokens = 199;
  request.canonical_tokens = 199;
  run(&request, &second);
  assert_int_equal(second.prefill.cached_tokens, 199);
  assert_int_equal(second.prefill.computed_tokens, 1);
  assert_same_answer(&first, &second);
  drop_witness(&first);
  drop_witness(&second);
  free(tokens);
}

/* Saves [0, n) of a sequence in ranges of 128 tokens; *ret_bytes is the caller's to free. */
struct saved {
  struct engine_range ranges[CONTEXT / 128 + 1];
  uint32_t n;
  void *bytes;
  bool is_over;
  enum status status;
};

static void on_saved(void *ctx, enum status status, uint64_t bytes, uint64_t us) {
  struct saved *saved = ctx;

  (void)bytes;
  (void)us;
  assert_false(saved->is_over);
  saved->is_over = true;
  saved->status = status;
}

static void save(uint32_t seq, uint32_t n, struct saved *saved) {
  struct engine_target targets[CONTEXT / 128 + 1];
  uint64_t size = engine_state_bytes(engine, 0, n), at = 0;

  *saved = (struct saved){.bytes = malloc(size)};
  assert_non_null(saved->bytes);
  for (uint32_t from = 0; from < n; from += 128) {
    uint32_t to = from + 128 < n ? from + 128 : n;
    struct engine_target *target = &targets[saved->n];

    *target = (struct engine_target){from, to, (uint8_t *)saved->bytes + at, engine_state_bytes(engine, from, to)};
    saved->ranges[saved->n++] = (struct engine_range){from, to, target->bytes, target->size};
    at += target->size;
  }
  assert_int_equal(at, size);
  assert_int_equal(engine_state_save(engine, seq, targets, saved->n, false, on_saved, saved), STATUS_OK);
  pump_until(&pump, &saved->is_over);
  assert_int_equal(saved->status, STATUS_OK);
}

/* A cold run, the same prompt restored whole, and a shorter prefix of the restored state under another end: the same
 * bits. */
static void test_restored_equals_cold(void **state) {
  (void)state;
  for (uint32_t i = 0; i < prompts_count(); i++) {
    uint32_t n = 160 + i * 37 % 140, shared = 70 + i * 11 % 20;
    int32_t *tokens = sample_tokens(model, 100 + i, n), *other = sample_tokens(model, 500 + i, n);
    struct engine_request request = answer_request(i % SEQUENCES, tokens, n);
    struct witness cold, restored, other_cold, other_restored;
    struct saved saved;

    run(&request, &cold);
    save(request.seq, n - 1, &saved);
    request.seq = (i + 1) % SEQUENCES;
    request.restore = saved.ranges;
    request.n_restore = saved.n;
    request.restore_tokens = request.canonical_tokens = n - 1;
    run(&request, &restored);
    assert_int_equal(restored.restored_tokens, n - 1);
    assert_int_equal(restored.prefill.computed_tokens, 1);
    assert_same_answer(&cold, &restored);

    memcpy(other, tokens, shared * sizeof(*tokens));
    request = answer_request((i + 2) % SEQUENCES, other, n);
    run(&request, &other_cold);
    request.seq = (i + 3) % SEQUENCES;
    request.restore = saved.ranges;
    request.n_restore = saved.n;
    request.restore_tokens = request.canonical_tokens = shared;
    run(&request, &other_restored);
    assert_int_equal(other_restored.prefill.cached_tokens, shared);
    assert_int_equal(other_restored.prefill.canonical_tokens, n - 1);
    assert_same_answer(&other_cold, &other_restored);

    drop_witness(&cold);
    drop_witness(&restored);
    drop_witness(&other_cold);
    drop_witness(&other_restored);
    free(saved.bytes);
    free(tokens);
    free(other);
  }
}

static void test_refused_bytes_are_computed_again(void **state) {
  int32_t *tokens = sample_tokens(model, 3, 150);
  struct engine_request request = answer_request(0, tokens, 150);
  struct engine_range range = {0, 149, tokens, 17};
  struct witness cold, restored;

  (void)state;
  run(&request, &cold);
  request.seq = 1;
  request.restore = &range;
  request.n_restore = 1;
  request.restore_tokens = request.canonical_tokens = 149;
  run(&request, &restored);
  assert_int_equal(restored.restored_tokens, 0);
  assert_int_equal(restored.prefill.cached_tokens, 0);
  assert_same_answer(&cold, &restored);
  drop_witness(&cold);
  drop_witness(&restored);
  free(tokens);
}

static void test_short_request_passes_a_long_one(void **state) {
  int32_t *tokens = sample_tokens(model, 4, 900), *few = sample_tokens(model, 5, 40);
  struct engine_request slow = prefill_request(LANE_REAL, 0, tokens, 900), quick = answer_request(1, few, 40);
  struct witness slow_witness, quick_witness;
  uint64_t begin_us;

  (void)state;
  quick.output_tokens_max = 1;
  (void)submit(&slow, &slow_witness);
  begin_us = clock_monotonic_us();
  (void)submit(&quick, &quick_witness);
  finish(&quick_witness);
  assert_false(slow_witness.is_over);
  print_message("  short request behind a long prefill: first token after %.0f ms\n",
                (double)(quick_witness.prefilled_us - begin_us) / 1e3);
  finish(&slow_witness);
  assert_int_equal(slow_witness.prefill.computed_tokens, 900);
  assert_int_equal(slow_witness.prefill.canonical_tokens, 900);
  drop_witness(&quick_witness);
  free(tokens);
  free(few);
}

static void test_a_client_that_leaves_frees_the_engine(void **state) {
  int32_t *tokens = sample_tokens(model, 6, 3000), *few = sample_tokens(model, 7, 40);
  struct engine_request slow = prefill_request(LANE_REAL, 0, tokens, 3000), quick = answer_request(1, few, 40);
  struct witness warm_witness, slow_witness, quick_witness;
  struct engine_job *job;
  uint64_t begin_us;

  (void)state;
  run(&quick, &warm_witness);
  job = submit(&slow, &slow_witness);
  assert_false(pump_run(&pump, 400)); /* the long one computes */
  begin_us = clock_monotonic_us();
  engine_cancel(engine, job);
  finish(&slow_witness);
  print_message("  cancelled prefill ended after %.0f ms\n", (double)(slow_witness.over_us - begin_us) / 1e3);
  assert_int_equal(slow_witness.status, STATUS_CANCELLED);
  assert_true(slow_witness.result.seq_tokens < 3000);
  assert_int_equal(slow_witness.result.seq_tokens, slow_witness.result.prefill.canonical_tokens);
  run(&quick, &quick_witness);
  assert_same_answer(&warm_witness, &quick_witness);
  drop_witness(&warm_witness);
  drop_witness(&quick_witness);
  free(tokens);
  free(few);
}

static void test_speculation_yields_and_goes_on(void **state) {
  int32_t *tokens = sample_tokens(model, 8, 700), *few = sample_tokens(model, 9, 100);
  struct engine_request cold = answer_request(0, tokens, 700), after = cold;
  struct engine_request preparation = prefill_request(LANE_SPECULATIVE, 1, tokens, 699);
  struct engine_request real = answer_request(2, few, 100);
  struct witness cold_witness, prepared, real_witness, after_witness;
  uint32_t interruptions = 0;

  (void)state;
  run(&cold, &cold_witness);
  (void)submit(&preparation, &prepared);
  while (!prepared.is_over && interruptions < 2) {
    uint64_t begin_us;

    (void)pump_run(&pump, 300);
    begin_us = clock_monotonic_us();
    (void)submit(&real, &real_witness);
    finish(&real_witness);
    print_message("  real request inside a preparation: first token after %.0f ms\n",
                  (double)(real_witness.prefilled_us - begin_us) / 1e3);
    drop_witness(&real_witness);
    interruptions++;
  }
  assert_false(prepared.is_over);
  finish(&prepared);
  assert_int_equal(prepared.status, STATUS_OK);
  /* Nothing was computed twice, and what came of it is what a cold run would have made. */
  assert_int_equal(prepared.prefill.computed_tokens, 699);
  assert_int_equal(prepared.prefill.canonical_tokens, 699);
  after.seq = 1;
  after.keep_tokens = after.canonical_tokens = 699;
  run(&after, &after_witness);
  assert_same_answer(&cold_witness, &after_witness);
  drop_witness(&cold_witness);
  drop_witness(&after_witness);
  free(tokens);
  free(few);
}

/* What lay in the sequence before is not the prompt of a job that never began. */
static void test_cancelled_before_it_began(void **state) {
  int32_t *old = sample_tokens(model, 14, 150), *tokens = sample_tokens(model, 15, 600);
  struct engine_request first = prefill_request(LANE_REAL, 1, old, 150);
  struct engine_request slow = prefill_request(LANE_REAL, 0, tokens, 600), never = answer_request(1, old, 100);
  struct witness first_witness, slow_witness, never_witness;

  (void)state;
  run(&first, &first_witness);
  never.keep_tokens = 10;
  never.canonical_tokens = 9;
  (void)submit(&slow, &slow_witness);
  assert_false(pump_run(&pump, 50)); /* its first call runs */
  engine_cancel(engine, submit(&never, &never_witness));
  finish(&never_witness);
  assert_int_equal(never_witness.status, STATUS_CANCELLED);
  assert_int_equal(never_witness.result.prefill.computed_tokens, 0);
  assert_int_equal(never_witness.result.seq_tokens, 10);
  assert_int_equal(never_witness.result.prefill.canonical_tokens, 9);
  finish(&slow_witness);
  free(old);
  free(tokens);
}

static void test_stop_text_and_length(void **state) {
  int32_t *tokens = sample_tokens(model, 10, 80);
  struct engine_request request = answer_request(0, tokens, 80);
  struct witness whole, cut;
  char stop[4] = {0};
  const char *stops[] = {stop};
  size_t at;

  (void)state;
  run(&request, &whole);
  assert_true(whole.text_size > 8);
  /* A stop text that spans what several tokens brought; its first place in the answer counts. */
  memcpy(stop, whole.text + 5, 3);
  at = (size_t)((const char *)memmem(whole.text, whole.text_size, stop, 3) - whole.text);
  request.stops = stops;
  request.n_stops = 1;
  run(&request, &cut);
  assert_int_equal(cut.result.stop, STOP_SEQUENCE);
  assert_int_equal(cut.text_size, at);
  assert_memory_equal(cut.text, whole.text, at);
  assert_true(whole.result.stop == STOP_LENGTH || whole.result.stop == STOP_END_TURN);
  drop_witness(&whole);
  drop_witness(&cut);
  free(tokens);
}

static void test_wrong_requests_are_refused(void **state) {
  int32_t *tokens = sample_tokens(model, 11, 10);
  struct engine_request request = answer_request(SEQUENCES, tokens, 10);
  struct engine_job *job = NULL;
  struct witness witness = {0};
  struct error error;

  (void)state;
  assert_int_equal(engine_submit(engine, &request, &sink, &witness, &job, &error), STATUS_INVALID);
  request.seq = 0;
  request.n_tokens = 0;
  assert_int_equal(engine_submit(engine, &request, &sink, &witness, &job, &error), STATUS_INVALID);
  request.n_tokens = 10;
  request.keep_tokens = 10;
  assert_int_equal(engine_submit(engine, &request, &sink, &witness, &job, &error), STATUS_INVALID);
  request.keep_tokens = 0;
  request.n_tokens = engine->caps.context_tokens + 1;
  assert_int_equal(engine_submit(engine, &request, &sink, &witness, &job, &error), STATUS_TOO_LONG);
  request.n_tokens = 10;
  (void)submit(&request, &witness);
  assert_int_equal(engine_submit(engine, &request, &sink, &witness, &job, &error), STATUS_BUSY);
  finish(&witness);
  drop_witness(&witness);
  free(tokens);
}

/* 200 jobs in all sequences, cancelled at random moments: each ends exactly once, and the engine is as good as before.
 */
static void test_random_cancels_end_once(void **state) {
  enum { JOBS = 200 };
  int32_t *tokens = sample_tokens(model, 12, 600);
  struct engine_request check = answer_request(0, tokens, 150);
  struct witness before, after, *witnesses = calloc(JOBS, sizeof(*witnesses));
  struct witness *active[SEQUENCES] = {NULL};
  struct engine_job *jobs[SEQUENCES] = {NULL};
  uint32_t started = 0, cancelled = 0, prompts[SEQUENCES] = {0};
  struct rng rng;

  (void)state;
  assert_non_null(witnesses);
  rng_init(&rng, 12);
  run(&check, &before);
  while (started < JOBS) {
    uint32_t seq = (uint32_t)rng_below(&rng, SEQUENCES);

    if (active[seq] != NULL && !active[seq]->is_over) {
      if (rng_below(&rng, 3) > 0) {
        engine_cancel(engine, jobs[seq]);
        cancelled++;
        finish(active[seq]);
      } else {
        (void)pump_run(&pump, 3);
      }
      continue;
    }
    uint32_t n = (uint32_t)(20 + rng_below(&rng, 120)), left = 0;
    struct engine_request request =
        prefill_request(rng_below(&rng, 2) > 0 ? LANE_REAL : LANE_SPECULATIVE, seq, tokens, n);

    if (active[seq] != NULL && rng_below(&rng, 4) > 0) { /* goes on from what the last one left, mostly */
      left = active[seq]->result.seq_tokens < prompts[seq] ? active[seq]->result.seq_tokens : prompts[seq];
    }
    request.keep_tokens = left < n ? left : n - 1;
    prompts[seq] = n;
    active[seq] = &witnesses[started++];
    request.output_tokens_max = (uint32_t)rng_below(&rng, 3);
    jobs[seq] = submit(&request, active[seq]);
  }
  for (uint32_t seq = 0; seq < SEQUENCES; seq++) {
    if (active[seq] != NULL) {
      if (!active[seq]->is_over) {
        engine_cancel(engine, jobs[seq]);
      }
      finish(active[seq]);
    }
  }
  for (uint32_t i = 0; i < JOBS; i++) {
    assert_int_equal(witnesses[i].ends, 1);
    assert_true(witnesses[i].status == STATUS_OK || witnesses[i].status == STATUS_CANCELLED);
  }
  assert_true(cancelled > 0);
  run(&check, &after);
  assert_same_answer(&before, &after);
  drop_witness(&before);
  drop_witness(&after);
  free(witnesses);
  free(tokens);
}

static void test_stop_ends_everything(void **state) {
  int32_t *tokens = sample_tokens(model, 13, 900);
  struct engine_request requests[3] = {prefill_request(LANE_REAL, 0, tokens, 900),
                                       prefill_request(LANE_REAL, 1, tokens, 900),
                                       prefill_request(LANE_SPECULATIVE, 2, tokens, 900)};
  struct witness witnesses[3], late = {0};
  struct engine_job *job;
  struct error error;

  (void)state;
  for (int i = 0; i < 3; i++) {
    (void)submit(&requests[i], &witnesses[i]);
  }
  engine_stop(engine);
  for (int i = 0; i < 3; i++) {
    assert_int_equal(witnesses[i].ends, 1);
    assert_int_equal(witnesses[i].status, STATUS_CLOSED);
  }
  assert_int_equal(engine_submit(engine, &requests[0], &sink, &late, &job, &error), STATUS_CLOSED);
  while (pump_run(&pump, 0)) {
  }
  free(tokens);
}

static int open_engine(void **state) {
  const char *path = getenv("FORELAY_MODEL"), *threads = getenv("FORELAY_THREADS");
  struct model_config config = {.path = path != NULL ? path
                                                     : FORELAY_SOURCE_DIR "/build/deps/SmolLM2-135M-Instruct.Q4_1.gguf",
                                .context_tokens = CONTEXT,
                                .sequences = SEQUENCES,
                                .threads = threads != NULL ? (uint32_t)atoi(threads) : 2};
  struct embedded_options options = {.post = pump_post, .post_ctx = &pump};
  struct error error;

  (void)state;
  pump_init(&pump);
  if (model_open(&config, &model, &error) != STATUS_OK) {
    print_error("%s\n", error.text);
    return -1;
  }
  options.model = model;
  return embedded_open(&options, &engine, &error) == STATUS_OK ? 0 : -1;
}

static int close_engine(void **state) {
  (void)state;
  engine_close(&engine);
  while (pump_run(&pump, 0)) {
  }
  model_close(&model);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_counts_add_up),
      cmocka_unit_test(test_restored_equals_cold),
      cmocka_unit_test(test_refused_bytes_are_computed_again),
      cmocka_unit_test(test_short_request_passes_a_long_one),
      cmocka_unit_test(test_a_client_that_leaves_frees_the_engine),
      cmocka_unit_test(test_speculation_yields_and_goes_on),
      cmocka_unit_test(test_cancelled_before_it_began),
      cmocka_unit_test(test_stop_text_and_length),
      cmocka_unit_test(test_wrong_requests_are_refused),
      cmocka_unit_test(test_random_cancels_end_once),
      cmocka_unit_test(test_stop_ends_everything),
  };

  return cmocka_run_group_tests(tests, open_engine, close_engine);
}
