/* English-looking text of any length, equal for equal seeds, for prompts in tests. Header only. */
#ifndef FORELAY_TESTS_ENGINE_SAMPLE_TEXT_H
#define FORELAY_TESTS_ENGINE_SAMPLE_TEXT_H

#include "base/buffer.h"
#include "base/rng.h"
#include "engine/model.h"

static inline void sample_text_append(struct buffer *text, struct rng *rng, uint32_t sentences) {
  static const char *const who[] = {"The engineer", "A customer",   "Our printer",  "The night train",
                                    "Every user",   "The old mill", "My neighbour", "The second server"};
  static const char *const does[] = {"explains",  "repairs",  "forgets",  "delivers",
                                     "describes", "measures", "replaces", "waits for"};
  static const char *const what[] = {"the invoice", "a broken cable", "three letters", "the morning report",
                                     "an answer",   "the red lamp",   "warm bread",    "the next release"};
  static const char *const when[] = {"before noon", "without a word",  "in the harbour",  "twice a week",
                                     "by mistake",  "after the storm", "for the council", "as agreed"};

  for (uint32_t i = 0; i < sentences; i++) {
    assert_int_equal(buffer_append_format(text, "%s %s %s %s. ", who[rng_below(rng, 8)], does[rng_below(rng, 8)],
                                          what[rng_below(rng, 8)], when[rng_below(rng, 8)]),
                     STATUS_OK);
  }
}

/* Exactly n tokens, the caller's to free. */
static inline int32_t *sample_tokens(const struct model *model, uint64_t seed, uint32_t n) {
  struct buffer text, tokens;
  struct rng rng;
  struct error error;

  rng_init(&rng, seed);
  buffer_init(&text, 0);
  buffer_init(&tokens, 0);
  sample_text_append(&text, &rng, n / 5 + 8);
  assert_int_equal(model_tokenize(model, (const char *)text.data, text.size, false, false, &tokens, &error), STATUS_OK);
  assert_true(tokens.size >= n * sizeof(int32_t));
  buffer_release(&text);
  return (int32_t *)(void *)tokens.data;
}

#endif
