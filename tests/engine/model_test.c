/* The border to libllama on the real model: facts, tokens, computing, states out and in, sampling, fingerprints.
 * FORELAY_MODEL names another model file; fails where there is none. FORELAY_FIGURES=1 also measures states. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/keys.h"
#include "engine/model.h"
#include "engine/sample_text.h"
#include "engine/sampler.h"
#include "engine/split.h"
#include "support/passive.h"

enum { CONTEXT = 1024, SEQUENCES = 3, PROMPT = 700 };

static struct model *model; /* flash attention off: V across cells */
static const char *model_path;
static int32_t prompt[8192];
static char folder[64];

static double seconds_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static struct model *open_model(uint32_t context, uint32_t sequences, enum model_flash flash) {
  struct model_config config = {
      .path = model_path, .context_tokens = context, .sequences = sequences, .threads = 2, .flash = flash};
  struct model *opened = NULL;
  struct error error = {0};
  enum status status = model_open(&config, &opened, &error);
  if (status != STATUS_OK) print_error("%s: %s\n", status_name(status), error.text);
  assert_int_equal(status, STATUS_OK);
  return opened;
}

/* Canonical prefill of tokens[from, n): the last token alone; its logits are wanted. */
static void prefill(struct model *on, uint32_t seq, uint32_t from, uint32_t n) {
  while (from + 1 < n) {
    uint32_t piece = split_next(n - 1 - from, MODEL_CALL_TOKENS_MAX);
    assert_int_equal(model_decode(on, seq, from, prompt + from, piece, false, NULL), STATUS_OK);
    from += piece;
  }
  assert_int_equal(model_decode(on, seq, from, prompt + from, 1, true, NULL), STATUS_OK);
}

static float *logits_copy(const struct model *on) {
  size_t bytes = model_facts(on)->n_vocab * sizeof(float);
  float *copy = malloc(bytes);
  assert_non_null(copy);
  assert_non_null(model_logits(on, 0));
  return memcpy(copy, model_logits(on, 0), bytes);
}

static void assert_logits(const struct model *on, const float *expected) {
  assert_non_null(model_logits(on, 0));
  assert_memory_equal(model_logits(on, 0), expected, model_facts(on)->n_vocab * sizeof(float));
}

static void test_facts(void **state) {
  (void)state;
  const struct model_facts *facts = model_facts(model);
  print_message("%s: %s, %s, %llu B a token, note \"%s\"\n", facts->name, facts->description, facts->architecture,
                (unsigned long long)facts->bytes_per_token, facts->note);
  assert_int_equal(facts->context_tokens, CONTEXT);
  assert_int_equal(facts->sequences, SEQUENCES);
  assert_int_equal(facts->micro_batch, SPLIT_MICRO_BATCH);
  assert_int_equal(facts->state, MODEL_STATE_CUT);
  assert_true(facts->drops_suffix);
  assert_false(facts->flash_attention);
  assert_false(facts->is_gpu);
  assert_string_equal(facts->note, "");
  if (getenv("FORELAY_MODEL") != NULL) return;
  assert_string_equal(facts->name, "SmolLM2-135M-Instruct.Q4_1");
  assert_string_equal(facts->architecture, "llama");
  assert_int_equal(facts->n_vocab, 49152);
  assert_int_equal(facts->n_layer, 30);
  assert_int_equal(facts->trained_tokens, 8192);
  assert_int_equal(facts->bytes_per_token, 2 * 30 * 192 * 2);
  assert_int_equal(facts->file_bytes, 98362432);
  assert_non_null(strstr(facts->chat_template, "im_start"));
}

static void expect_refusal(struct model_config config, enum status expected, const char *said) {
  struct model *opened = NULL;
  struct error error = {0};
  assert_int_equal(model_open(&config, &opened, &error), expected);
  assert_null(opened);
  print_message("refused: %s\n", error.text);
  assert_non_null(strstr(error.text, said));
}

static char *file_make(const char *name, const void *bytes, size_t size) {
  static char path[128];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(bytes, 1, size, file), size);
  assert_int_equal(fclose(file), 0);
  return path;
}

static void test_refusals_say_why(void **state) {
  (void)state;
  struct model_config config = {.path = model_path, .sequences = 2, .threads = 1}, bad;
  bad = config;
  bad.path = "/nowhere/model.gguf";
  expect_refusal(bad, STATUS_NOT_FOUND, "/nowhere/model.gguf");
  bad.path = "/";
  expect_refusal(bad, STATUS_INVALID, "not a file");
  bad.path = file_make("text.gguf", "some text", 9);
  expect_refusal(bad, STATUS_INVALID, "not a GGUF file");
  bad.path = file_make("short.gguf", "GGUF\3\0\0\0", 8);
  expect_refusal(bad, STATUS_INVALID, "libllama cannot load it");
  bad = config;
  bad.context_tokens = model_facts(model)->trained_tokens + 1;
  expect_refusal(bad, STATUS_TOO_LONG, "was trained on");
  bad = config;
  bad.sequences = 0;
  expect_refusal(bad, STATUS_INVALID, "sequences");
  bad.sequences = MODEL_SEQUENCES_MAX + 1;
  expect_refusal(bad, STATUS_INVALID, "sequences");
  bad = config;
  bad.threads = 0;
  expect_refusal(bad, STATUS_INVALID, "threads");
}

/* A model file cut off in its weights is refused, not crashed on. */
static void test_truncated_file_is_refused(void **state) {
  (void)state;
  FILE *file = fopen(model_path, "rb");
  assert_non_null(file);
  enum { HEAD = 8 << 20 };
  uint8_t *bytes = malloc(HEAD);
  assert_non_null(bytes);
  assert_int_equal(fread(bytes, 1, HEAD, file), HEAD);
  fclose(file);
  struct model_config config = {.path = file_make("cut.gguf", bytes, HEAD), .sequences = 1, .threads = 1};
  free(bytes);
  expect_refusal(config, STATUS_INVALID, "libllama cannot load it");
}

static void test_text_to_tokens_and_back(void **state) {
  (void)state;
  static const char text[] = "Grüße, 世界! <|im_start|>user\n\xf0\x9f\x8d\x89 2+2<|im_end|>";
  struct buffer tokens, back;
  buffer_init(&tokens, 0);
  buffer_init(&back, 0);
  assert_int_equal(model_tokenize(model, text, sizeof text - 1, true, true, &tokens, NULL), STATUS_OK);
  size_t n = tokens.size / sizeof(int32_t);
  const int32_t *ids = (const int32_t *)(void *)tokens.data;
  assert_int_equal(model_detokenize(model, ids, n, &back, NULL), STATUS_OK);
  assert_string_equal((char *)back.data, text);
  assert_true(model_token_is_end(model, ids[n - 1]));
  assert_int_equal(model_token_piece(model, ids[n - 1], false, NULL, 0), 0);
  char piece[2];
  assert_int_equal(model_token_piece(model, ids[n - 1], true, piece, sizeof piece), strlen("<|im_end|>"));
  size_t plain = tokens.size;
  assert_int_equal(model_tokenize(model, text, sizeof text - 1, true, false, &tokens, NULL), STATUS_OK);
  assert_true(tokens.size - plain > plain); /* marks spelled out */
  buffer_release(&tokens);
  buffer_init(&tokens, 8 * sizeof(int32_t));
  struct error error = {0};
  assert_int_equal(model_tokenize(model, text, sizeof text - 1, true, true, &tokens, &error), STATUS_TOO_LONG);
  assert_int_equal(tokens.size, 0);
  assert_int_equal(model_token_piece(model, -1, true, piece, sizeof piece), 0);
  assert_int_equal(model_token_piece(model, INT32_MAX, true, piece, sizeof piece), 0);
  assert_false(model_token_is_end(model, -1));
  buffer_release(&tokens);
  buffer_release(&back);
}

/* Saves [0, n) in ranges of `step` tokens, loads `use` of them into `to`, computes the rest there. */
static void round_trip(struct model *on, uint32_t from_seq, uint32_t to_seq, uint32_t n, uint32_t step, uint32_t use,
                       uint32_t end, const float *expected) {
  enum { RANGES_MAX = 64 };
  struct engine_target targets[RANGES_MAX];
  struct engine_range ranges[RANGES_MAX];
  uint32_t count = 0;
  for (uint32_t from = 0; from < n; from += step) {
    uint32_t to = from + step < n ? from + step : n;
    uint64_t size = model_state_bytes(on, from, to);
    uint8_t *bytes = malloc(size);
    assert_non_null(bytes);
    memset(bytes, 0xa5, size);
    targets[count] = (struct engine_target){.from = from, .to = to, .bytes = bytes, .size = size};
    ranges[count] = (struct engine_range){.from = from, .to = to, .bytes = bytes, .size = size};
    count++;
  }
  struct error error = {0};
  assert_int_equal(model_state_save(on, from_seq, targets, count, &error), STATUS_OK);
  uint32_t needed = 0;
  while (ranges[needed].to < use) needed++;
  enum status status = model_state_load(on, to_seq, ranges, needed + 1, use, &error);
  if (status != STATUS_OK) print_error("%s\n", error.text);
  assert_int_equal(status, STATUS_OK);
  assert_int_equal(model_seq_tokens(on, to_seq), use);
  assert_null(model_logits(on, 0));
  for (uint32_t i = 0; i < count; i++) free(targets[i].bytes);
  prefill(on, to_seq, use, end);
  assert_logits(on, expected);
}

/* A state cut anywhere, joined, cut short, put into another sequence: the rest computes bit for bit as cold. */
static void states_come_back(struct model *on) {
  for (uint32_t i = 0; i < SEQUENCES; i++) assert_true(model_seq_remove(on, i, 0));
  prefill(on, 0, 0, PROMPT);
  float *cold = logits_copy(on);
  static const uint32_t steps[] = {1024, 128, 37};
  for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
    round_trip(on, 0, 2, PROMPT, steps[i], PROMPT - 1, PROMPT, cold);
  round_trip(on, 0, 1, PROMPT, 128, PROMPT - 65, PROMPT, cold);
  round_trip(on, 0, 1, PROMPT, 37, 300, PROMPT, cold);
  round_trip(on, 1, 0, PROMPT - 1, 128, 1, PROMPT, cold); /* a single token, into the sequence it came from */
  free(cold);
}

static void test_states_come_back_with_flash_attention_off(void **state) {
  (void)state;
  states_come_back(model);
}

static void test_states_come_back_with_flash_attention_on(void **state) {
  (void)state;
  struct model *with_flash = open_model(CONTEXT, SEQUENCES, MODEL_FLASH_ON);
  assert_true(model_facts(with_flash)->flash_attention);
  assert_int_equal(model_facts(with_flash)->state, MODEL_STATE_CUT);
  assert_int_equal(model_facts(with_flash)->bytes_per_token, model_facts(model)->bytes_per_token);
  for (uint32_t i = 0; i < SEQUENCES; i++) assert_true(model_seq_remove(with_flash, i, 0));
  prefill(with_flash, 0, 0, PROMPT);
  float *cold = logits_copy(with_flash);
  round_trip(with_flash, 0, 2, PROMPT, 128, PROMPT - 1, PROMPT, cold);
  round_trip(with_flash, 0, 1, PROMPT, 37, 3 * 128, PROMPT, cold);
  free(cold);
  model_close(&with_flash);
}

static void test_bad_ranges_are_refused(void **state) {
  (void)state;
  assert_true(model_seq_remove(model, 0, 0) && model_seq_remove(model, 1, 0));
  prefill(model, 0, 0, 130);
  uint64_t size = model_state_bytes(model, 0, 130);
  uint8_t *bytes = malloc(size);
  struct engine_target target = {.from = 0, .to = 130, .bytes = bytes, .size = size};
  struct error error = {0};
  assert_int_equal(model_state_save(model, 0, &target, 1, &error), STATUS_OK);
  target.size--;
  assert_int_equal(model_state_save(model, 0, &target, 1, &error), STATUS_INVALID);
  target = (struct engine_target){.from = 0, .to = 131, .bytes = bytes, .size = size};
  assert_int_equal(model_state_save(model, 0, &target, 1, &error), STATUS_INVALID);
  prefill(model, 1, 0, 70);
  struct engine_range good = {.from = 0, .to = 130, .bytes = bytes, .size = size}, bad = good;
  bad.size++;
  assert_int_equal(model_state_load(model, 1, &bad, 1, 130, &error), STATUS_INVALID);
  bad = good;
  bad.from = 1;
  assert_int_equal(model_state_load(model, 1, &bad, 1, 130, &error), STATUS_INVALID);
  assert_int_equal(model_state_load(model, 1, &good, 1, 131, &error), STATUS_INVALID);
  assert_int_equal(model_state_load(model, 1, &good, 1, 0, &error), STATUS_INVALID);
  assert_int_equal(model_state_load(model, 1, &good, 0, 1, &error), STATUS_INVALID);
  assert_int_equal(model_seq_tokens(model, 1), 70); /* nothing of that touched it */
  assert_int_equal(model_state_load(model, 1, &good, 1, 130, &error), STATUS_OK);
  assert_int_equal(model_seq_tokens(model, 1), 130);
  free(bytes);
}

/* A sequence whose cells do not lie in the order of their positions still leaves in that order. */
static void test_refilled_sequence_leaves_in_order(void **state) {
  (void)state;
  assert_true(model_seq_remove(model, 0, 0));
  prefill(model, 0, 0, 400);
  assert_true(model_seq_remove(model, 0, 150));
  assert_int_equal(model_seq_tokens(model, 0), 150);
  prefill(model, 0, 150, 500);
  float *warm = logits_copy(model);
  round_trip(model, 0, 1, 500, 128, 499, 500, warm);
  free(warm);
}

static void test_full_context_is_full(void **state) {
  (void)state;
  assert_true(model_seq_remove(model, 0, 0));
  struct error error = {0};
  uint32_t at = 0, positions[1] = {CONTEXT}, seqs[1] = {0};
  for (; at < CONTEXT; at += 256)
    assert_int_equal(model_decode(model, 0, at, prompt + at, 256, false, &error), STATUS_OK);
  assert_int_equal(model_decode(model, 0, at, prompt, 1, true, &error), STATUS_FULL);
  assert_int_equal(model_decode_step(model, 1, seqs, prompt, positions, &error), STATUS_FULL);
  assert_int_equal(model_seq_tokens(model, 0), CONTEXT);
  assert_true(model_seq_remove(model, 0, CONTEXT - 1));
  assert_int_equal(model_decode(model, 0, CONTEXT - 1, prompt, 1, true, &error), STATUS_OK);
  assert_true(model_seq_remove(model, 0, 0));
}

static bool countdown(void *ctx) {
  int *left = ctx;
  return --*left <= 0;
}

/* An aborted call keeps its finished micro-batches, and going on from there is as if nothing had happened. */
static void test_abort_keeps_what_is_finished(void **state) {
  (void)state;
  assert_true(model_seq_remove(model, 0, 0));
  prefill(model, 0, 0, PROMPT);
  float *cold = logits_copy(model);
  assert_true(model_seq_remove(model, 0, 0));
  int left = 2500; /* nodes of the graph: somewhere in the third or fourth micro-batch */
  model_set_abort(model, countdown, &left);
  struct error error = {0};
  assert_int_equal(model_decode(model, 0, 0, prompt, 640, false, &error), STATUS_CANCELLED);
  model_set_abort(model, NULL, NULL);
  uint32_t kept = model_seq_tokens(model, 0);
  print_message("aborted: %u of 640 tokens are kept\n", kept);
  assert_true(kept > 0 && kept < 640 && kept % SPLIT_MICRO_BATCH == 0);
  prefill(model, 0, kept, PROMPT);
  assert_logits(model, cold);
  free(cold);
}

/* Flash attention off: a step shared by three sequences gives each the bits it has alone. */
static void test_shared_steps(void **state) {
  (void)state;
  float *alone[SEQUENCES];
  uint32_t seqs[SEQUENCES] = {2, 0, 1}, positions[SEQUENCES];
  int32_t tokens[SEQUENCES];
  for (uint32_t i = 0; i < SEQUENCES; i++) {
    positions[i] = 70 + 40 * i;
    tokens[i] = prompt[200 + i];
    assert_true(model_seq_remove(model, seqs[i], 0));
    prefill(model, seqs[i], 0, positions[i]);
    assert_int_equal(model_decode(model, seqs[i], positions[i], &tokens[i], 1, true, NULL), STATUS_OK);
    alone[i] = logits_copy(model);
    assert_true(model_seq_remove(model, seqs[i], positions[i]));
  }
  assert_int_equal(model_decode_step(model, SEQUENCES, seqs, tokens, positions, NULL), STATUS_OK);
  for (uint32_t i = 0; i < SEQUENCES; i++) {
    assert_memory_equal(model_logits(model, i), alone[i], model_facts(model)->n_vocab * sizeof(float));
    free(alone[i]);
  }
  assert_null(model_logits(model, SEQUENCES));
}

static void answer(const struct sampling *sampling, const char *question, uint32_t n, char *ret_text, size_t size) {
  struct buffer tokens;
  struct sampler *sampler = NULL;
  struct error error = {0};
  buffer_init(&tokens, 0);
  assert_int_equal(model_tokenize(model, question, strlen(question), true, true, &tokens, NULL), STATUS_OK);
  uint32_t count = (uint32_t)(tokens.size / sizeof(int32_t)), seq = 0;
  const int32_t *ids = (const int32_t *)(void *)tokens.data;
  enum status status = sampler_create(model, sampling, &sampler, &error);
  if (status != STATUS_OK) print_error("%s\n", error.text);
  assert_int_equal(status, STATUS_OK);
  sampler_accept_prompt(sampler, ids, count);
  assert_true(model_seq_remove(model, 0, 0));
  assert_int_equal(model_decode(model, 0, 0, ids, count, true, NULL), STATUS_OK);
  ret_text[0] = 0;
  for (uint32_t i = 0; i < n; i++) {
    int32_t token;
    assert_int_equal(sampler_sample(sampler, model, 0, &token, NULL, NULL, NULL, &error), STATUS_OK);
    if (model_token_is_end(model, token)) break;
    size_t used = strlen(ret_text), piece = model_token_piece(model, token, false, ret_text + used, size - used - 1);
    assert_true(used + piece < size);
    ret_text[used + piece] = 0;
    uint32_t position = count + i;
    assert_int_equal(model_decode_step(model, 1, &seq, &token, &position, NULL), STATUS_OK);
  }
  sampler_destroy(&sampler);
  buffer_release(&tokens);
}

#define ASK(text) "<|im_start|>user\n" text "<|im_end|>\n<|im_start|>assistant\n"

static void test_sampling(void **state) {
  (void)state;
  char greedy[512], first[512], second[512], other[512];
  struct sampling sampling;
  answer(NULL, ASK("What is the capital of France?"), 24, greedy, sizeof greedy);
  print_message("greedy: %s\n", greedy);
  assert_non_null(strstr(greedy, "Paris"));
  sampling_init(&sampling);
  sampling.temperature = 0;
  sampling.penalty_presence = 1e-30f; /* through the whole chain instead of the short way */
  answer(&sampling, ASK("What is the capital of France?"), 24, first, sizeof first);
  assert_string_equal(first, greedy);
  sampling_init(&sampling);
  sampling.temperature = 1.5f;
  sampling.seed = 11;
  answer(&sampling, ASK("Tell me a story."), 24, first, sizeof first);
  answer(&sampling, ASK("Tell me a story."), 24, second, sizeof second);
  assert_string_equal(first, second);
  sampling.seed = 12;
  answer(&sampling, ASK("Tell me a story."), 24, other, sizeof other);
  assert_string_not_equal(first, other);
  sampling.top_k = 1; /* whatever the temperature, the likeliest */
  answer(&sampling, ASK("What is the capital of France?"), 24, other, sizeof other);
  assert_string_equal(other, greedy);
}

static void test_grammar_and_biases(void **state) {
  (void)state;
  char text[512];
  struct sampling sampling;
  sampling_init(&sampling);
  sampling.temperature = 0;
  sampling.grammar = "root ::= \"[\" (\"yes\" | \"no\") \"]\"";
  answer(&sampling, ASK("Is water wet?"), 24, text, sizeof text);
  assert_true(strcmp(text, "[yes]") == 0 || strcmp(text, "[no]") == 0);
  sampling.grammar = "root ::= (";
  struct sampler *sampler = NULL;
  struct error error = {0};
  assert_int_equal(sampler_create(model, &sampling, &sampler, &error), STATUS_INVALID);
  assert_null(sampler);
  sampling.grammar = NULL;
  struct buffer tokens;
  buffer_init(&tokens, 0);
  assert_int_equal(model_tokenize(model, "The", 3, false, false, &tokens, NULL), STATUS_OK);
  struct sampling_bias bias = {.token = *(int32_t *)(void *)tokens.data, .bias = -INFINITY};
  buffer_release(&tokens);
  answer(NULL, ASK("What is the capital of France?"), 1, text, sizeof text);
  assert_string_equal(text, "The");
  sampling.biases = &bias;
  sampling.n_biases = 1;
  answer(&sampling, ASK("What is the capital of France?"), 1, text, sizeof text);
  assert_string_not_equal(text, "The");
  bias.token = -5;
  assert_int_equal(sampler_create(model, &sampling, &sampler, &error), STATUS_INVALID);
  assert_non_null(strstr(error.text, "logit_bias"));
  sampling_init(&sampling);
  sampling.temperature = 0;
  sampling.ignores_end = true;
  answer(&sampling, ASK("Say yes."), 60, text, sizeof text);
  answer(NULL, ASK("Say yes."), 60, text, sizeof text);
}

static void test_logprobs(void **state) {
  (void)state;
  struct sampling sampling;
  struct sampler *sampler = NULL;
  struct token_probability top[SAMPLING_TOP_MAX];
  struct error error = {0};
  float logprob;
  uint32_t n_top;
  int32_t token;
  sampling_init(&sampling);
  sampling.temperature = 0;
  sampling.wants_logprobs = true;
  sampling.n_top = 5;
  assert_true(model_seq_remove(model, 0, 0));
  prefill(model, 0, 0, 100);
  assert_int_equal(sampler_create(model, &sampling, &sampler, &error), STATUS_OK);
  assert_int_equal(sampler_sample(sampler, model, 0, &token, &logprob, top, &n_top, &error), STATUS_OK);
  assert_int_equal(n_top, 5);
  assert_int_equal(top[0].id, token);
  assert_true(top[0].logprob == logprob && logprob < 0);
  for (uint32_t i = 1; i < n_top; i++) assert_true(top[i].logprob <= top[i - 1].logprob);
  const float *logits = model_logits(model, 0);
  double sum = 0;
  for (uint32_t i = 0; i < model_facts(model)->n_vocab; i++) sum += exp((double)logits[i]);
  assert_true(fabs((double)logits[token] - log(sum) - (double)logprob) < 1e-4);
  assert_int_equal(sampler_sample(sampler, model, 1, &token, &logprob, top, &n_top, &error), STATUS_INVALID);
  sampler_destroy(&sampler);
}

static void test_sampling_copies_are_whole(void **state) {
  (void)state;
  static const char *const triggers[] = {"one", "two"};
  static const int32_t trigger_tokens[] = {3}, preserved[] = {7, 9};
  static const struct sampling_bias biases[] = {{.token = 1, .bias = 2}};
  struct sampling sampling, *copy = NULL;
  sampling_init(&sampling);
  assert_int_equal(sampling_check(&sampling, 10, NULL), STATUS_OK);
  sampling.grammar = "root ::= \"x\"";
  sampling.triggers = triggers;
  sampling.n_triggers = 2;
  sampling.trigger_tokens = trigger_tokens;
  sampling.n_trigger_tokens = 1;
  sampling.preserved = preserved;
  sampling.n_preserved = 2;
  sampling.biases = biases;
  sampling.n_biases = 1;
  assert_int_equal(sampling_copy(&sampling, &copy), STATUS_OK);
  assert_string_equal(copy->grammar, sampling.grammar);
  assert_string_equal(copy->triggers[1], "two");
  assert_int_equal(copy->trigger_tokens[0], 3);
  assert_true(sampling_shows(copy, 9) && !sampling_shows(copy, 8) && !sampling_shows(NULL, 9));
  assert_int_equal(copy->biases[0].token, 1);
  sampling_free(&copy);
  assert_null(copy);
  struct error error;
  sampling.temperature = NAN;
  assert_int_equal(sampling_check(&sampling, 10, &error), STATUS_INVALID);
  sampling.temperature = 1;
  sampling.top_p = 1.5f;
  assert_int_equal(sampling_check(&sampling, 10, &error), STATUS_INVALID);
  assert_non_null(strstr(error.text, "top_p"));
}

static void test_fingerprint(void **state) {
  (void)state;
  struct fingerprint_compat first, second;
  struct fingerprint_exact exact, again;
  struct error error = {0};
  double from = seconds_now();
  assert_int_equal(model_fingerprint(model, folder, &first, &exact, &error), STATUS_OK);
  double between = seconds_now();
  assert_int_equal(model_fingerprint(model, folder, &second, &again, &error), STATUS_OK);
  print_message("fingerprint: %.0f ms, %.0f ms with a note; %s; %s\n", 1e3 * (between - from),
                1e3 * (seconds_now() - between), exact.engine_build, exact.cpu_features);
  assert_memory_equal(&first, &second, sizeof first);
  assert_memory_equal(&exact, &again, sizeof exact);
  assert_int_equal(first.flash_attention, 0);
  assert_int_equal(exact.micro_batch, SPLIT_MICRO_BATCH);
  assert_true(exact.cpu_features[0] && exact.engine_build[0]);
  if (getenv("FORELAY_MODEL") != NULL) return;
  static const uint8_t weights[4] = {0xb1, 0x79, 0xc9, 0x52}; /* ENGINE: sha256 b179c952… */
  assert_memory_equal(first.weights, weights, sizeof weights);
  assert_int_equal(first.n_embd_k, 192);
  assert_int_equal(first.n_embd_v, 192);
}

/* A note of another file, or a damaged one, is not believed. */
static void test_damaged_note_is_not_believed(void **state) {
  (void)state;
  struct fingerprint_compat first, second;
  struct fingerprint_exact exact;
  assert_int_equal(model_fingerprint(model, folder, &first, &exact, NULL), STATUS_OK);
  char command[160];
  snprintf(command, sizeof command, "sed -i '$s/^./z/' %s/weights-*", folder);
  assert_int_equal(system(command), 0);
  assert_int_equal(model_fingerprint(model, folder, &second, &exact, NULL), STATUS_OK);
  assert_memory_equal(&first, &second, sizeof first);
}

/* Not a check but figures: what a 4,096-token state costs on its way out and in. Only when asked for: it prefills. */
static void test_state_times(void **state) {
  (void)state;
  enum { N = 4096, STEP = 128, RANGES = N / STEP };
  if (getenv("FORELAY_FIGURES") == NULL) skip();
  for (int flash = 0; flash < 2; flash++) {
    struct model *on = open_model(N + 256, 2, flash ? MODEL_FLASH_ON : MODEL_FLASH_OFF);
    struct engine_target targets[RANGES];
    struct engine_range ranges[RANGES];
    for (uint32_t at = 0; at < N; at += 2048)
      assert_int_equal(model_decode(on, 0, at, prompt + at, 2048, false, NULL), STATUS_OK);
    for (uint32_t i = 0; i < RANGES; i++) {
      uint64_t size = model_state_bytes(on, i * STEP, (i + 1) * STEP);
      uint8_t *bytes = malloc(size);
      memset(bytes, 1, size);
      targets[i] = (struct engine_target){.from = i * STEP, .to = (i + 1) * STEP, .bytes = bytes, .size = size};
      ranges[i] = (struct engine_range){.from = i * STEP, .to = (i + 1) * STEP, .bytes = bytes, .size = size};
    }
    for (int run = 0; run < 3; run++) {
      double from = seconds_now();
      assert_int_equal(model_state_save(on, 0, targets, RANGES, NULL), STATUS_OK);
      double between = seconds_now();
      assert_int_equal(model_state_load(on, 1, ranges, RANGES, N, NULL), STATUS_OK);
      print_message("flash attention %s, run %d: %d tokens, %.0f MB: out %.1f ms, in %.1f ms\n", flash ? "on" : "off",
                    run, N, 1e-6 * (double)model_state_bytes(on, 0, N), 1e3 * (between - from),
                    1e3 * (seconds_now() - between));
    }
    for (uint32_t i = 0; i < RANGES; i++) free(targets[i].bytes);
    model_close(&on);
  }
}

static int open_all(void **state) {
  (void)state;
  struct rng rng;
  struct buffer text, tokens;
  model_path = getenv("FORELAY_MODEL");
  if (model_path == NULL) model_path = FORELAY_SOURCE_DIR "/build/deps/SmolLM2-135M-Instruct.Q4_1.gguf";
  snprintf(folder, sizeof folder, "/tmp/forelay-model-test-XXXXXX");
  if (mkdtemp(folder) == NULL) return -1;
  model = open_model(CONTEXT, SEQUENCES, MODEL_FLASH_AUTO);
  rng_init(&rng, 3);
  buffer_init(&text, 0);
  buffer_init(&tokens, 0);
  sample_text_append(&text, &rng, 900);
  enum status status = model_tokenize(model, (char *)text.data, text.size, false, false, &tokens, NULL);
  if (status != STATUS_OK || tokens.size < sizeof prompt) return -1;
  memcpy(prompt, tokens.data, sizeof prompt);
  buffer_release(&text);
  buffer_release(&tokens);
  return 0;
}

static int close_all(void **state) {
  (void)state;
  char command[96];
  model_close(&model);
  snprintf(command, sizeof command, "rm -rf %s", folder);
  return system(command);
}

int main(int argc, char **argv) {
  (void)argc;
  passive_start(argv);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_facts),
      cmocka_unit_test(test_refusals_say_why),
      cmocka_unit_test(test_truncated_file_is_refused),
      cmocka_unit_test(test_text_to_tokens_and_back),
      cmocka_unit_test(test_states_come_back_with_flash_attention_off),
      cmocka_unit_test(test_states_come_back_with_flash_attention_on),
      cmocka_unit_test(test_bad_ranges_are_refused),
      cmocka_unit_test(test_refilled_sequence_leaves_in_order),
      cmocka_unit_test(test_full_context_is_full),
      cmocka_unit_test(test_abort_keeps_what_is_finished),
      cmocka_unit_test(test_shared_steps),
      cmocka_unit_test(test_sampling),
      cmocka_unit_test(test_grammar_and_biases),
      cmocka_unit_test(test_logprobs),
      cmocka_unit_test(test_sampling_copies_are_whole),
      cmocka_unit_test(test_fingerprint),
      cmocka_unit_test(test_damaged_note_is_not_believed),
      cmocka_unit_test(test_state_times),
  };
  return cmocka_run_group_tests(tests, open_all, close_all);
}
