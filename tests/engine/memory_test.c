/* Memories of other kinds than full attention, on small random models: recognised at load, their states reused whole or
 * not at all, never wrong; and fingerprints of models that differ. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/keys.h"
#include "engine/model.h"
#include "support/passive.h"
#include "support/tiny_gguf.h"

enum { PROMPT = 200 };

static char folder[64], path[128];
static int32_t prompt[PROMPT + 1];

static struct model *open_tiny(const char *architecture, uint64_t seed) {
  struct model *model = NULL;
  struct error error = {0};
  snprintf(path, sizeof path, "%s/%s-%u.gguf", folder, architecture, (unsigned)seed);
  tiny_gguf_write(path, architecture, seed);
  struct model_config config = {.path = path, .context_tokens = 512, .sequences = 2, .threads = 1};
  enum status status = model_open(&config, &model, &error);
  if (status != STATUS_OK) print_error("%s: %s\n", architecture, error.text);
  assert_int_equal(status, STATUS_OK);
  return model;
}

static void decode(struct model *model, uint32_t seq, uint32_t from, uint32_t n, bool wants_logits) {
  assert_int_equal(model_decode(model, seq, from, prompt + from, n, wants_logits, NULL), STATUS_OK);
}

static bool always(void *ctx) {
  (void)ctx;
  return true;
}

static void whole_states(const char *architecture) {
  struct model *model = open_tiny(architecture, 1);
  const struct model_facts *facts = model_facts(model);
  struct error error = {0};
  size_t logits_bytes = facts->n_vocab * sizeof(float);
  float *cold = malloc(logits_bytes);
  print_message("%s: %s\n", architecture, facts->note);
  assert_false(facts->drops_suffix);
  assert_int_equal(facts->state, MODEL_STATE_WHOLE);
  assert_non_null(strstr(facts->note, "whole or not at all"));
  decode(model, 0, 0, PROMPT, false);
  uint64_t size = model_state_bytes(model, 0, PROMPT);
  assert_int_equal(model_state_bytes(model, 1, PROMPT), 0);
  uint8_t *bytes = malloc(size);
  assert_true(cold && bytes);
  struct engine_target target = {.from = 0, .to = PROMPT, .bytes = bytes, .size = size}, part = target;
  part.to = PROMPT - 1;
  part.size = model_state_bytes(model, 0, PROMPT - 1);
  assert_int_equal(model_state_save(model, 0, &part, 1, &error), STATUS_INVALID);
  assert_int_equal(model_state_save(model, 0, &target, 1, &error), STATUS_OK);
  decode(model, 0, PROMPT, 1, true);
  memcpy(cold, model_logits(model, 0), logits_bytes);
  struct engine_range range = {.from = 0, .to = PROMPT, .bytes = bytes, .size = size};
  assert_int_equal(model_state_load(model, 1, &range, 1, PROMPT, &error), STATUS_OK);
  decode(model, 1, PROMPT, 1, true);
  assert_memory_equal(model_logits(model, 0), cold, logits_bytes);
  /* Not cut short: neither a state nor a sequence. */
  assert_int_equal(model_state_load(model, 1, &range, 1, PROMPT - 70, &error), STATUS_UNSUPPORTED);
  assert_int_equal(model_seq_tokens(model, 1), 0);
  assert_false(model_seq_remove(model, 0, 100));
  assert_int_equal(model_seq_tokens(model, 0), PROMPT + 1);
  /* An ended call leaves nothing half done. */
  model_set_abort(model, always, NULL);
  assert_int_equal(model_decode(model, 1, 0, prompt, PROMPT, false, &error), STATUS_CANCELLED);
  model_set_abort(model, NULL, NULL);
  assert_int_equal(model_seq_tokens(model, 1), 0);
  /* Damaged bytes are refused, or at least end in an empty sequence. */
  bytes[0] ^= 0xff;
  bytes[6] ^= 0xff;
  assert_int_not_equal(model_state_load(model, 1, &range, 1, PROMPT, &error), STATUS_OK);
  assert_int_equal(model_seq_tokens(model, 1), 0);
  free(bytes);
  free(cold);
  model_close(&model);
}

static void test_recurrent_memory(void **state) {
  (void)state;
  whole_states("mamba");
}

static void test_sliding_window(void **state) {
  (void)state;
  whole_states("gemma2");
}

static struct fingerprint fingerprint_of(struct model *model) {
  struct fingerprint_compat compat;
  struct fingerprint_exact exact;
  struct keys *keys = NULL;
  assert_int_equal(model_fingerprint(model, NULL, &compat, &exact, NULL), STATUS_OK);
  assert_int_equal(keys_create(&keys), STATUS_OK);
  struct fingerprint fingerprint = keys_fingerprint(keys, &compat, &exact);
  keys_destroy(&keys);
  return fingerprint;
}

/* Same shape, other weights; and the same file on another day. */
static void test_other_weights_are_incompatible(void **state) {
  (void)state;
  struct model *one = open_tiny("llama", 1), *two = open_tiny("llama", 2), *again = open_tiny("llama", 1);
  struct fingerprint of_one = fingerprint_of(one), of_two = fingerprint_of(two), of_again = fingerprint_of(again);
  assert_int_equal(model_facts(one)->state, MODEL_STATE_CUT);
  assert_false(fingerprint_is_compatible(&of_one, &of_two));
  assert_true(fingerprint_is_compatible(&of_one, &of_again) && fingerprint_is_exact(&of_one, &of_again));
  model_close(&one);
  model_close(&two);
  model_close(&again);
}

static int open_all(void **state) {
  (void)state;
  for (uint32_t i = 0; i <= PROMPT; i++) prompt[i] = (int32_t)(3 + (i * 37 + i / 11) % TINY_BYTE_TOKENS);
  snprintf(folder, sizeof folder, "/tmp/forelay-memory-test-XXXXXX");
  return mkdtemp(folder) == NULL;
}

static int close_all(void **state) {
  (void)state;
  char command[96];
  snprintf(command, sizeof command, "rm -rf %s", folder);
  return system(command);
}

int main(int argc, char **argv) {
  (void)argc;
  passive_start(argv);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_recurrent_memory),
      cmocka_unit_test(test_sliding_window),
      cmocka_unit_test(test_other_weights_are_incompatible),
  };
  return cmocka_run_group_tests(tests, open_all, close_all);
}
