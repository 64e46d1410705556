/* From logits to the next token of one answer, as llama-server does it: biases, penalties, top-k, typical, top-p,
 * min-p, temperature, a seeded draw, and a grammar that is asked only where the draw breaks it. Implemented at the
 * border (llama_sampler.c). Owns its copies of everything given.
 *
 * sampler_create and sampling_copy may be called from any thread; one sampler belongs to one thread at a time, and
 * sampler_sample to the engine's. */
#ifndef FORELAY_ENGINE_SAMPLER_H
#define FORELAY_ENGINE_SAMPLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

struct model;
struct sampler;

enum {
  SAMPLING_TOP_MAX = 20,      /* most alternatives of one token that are reported */
  SAMPLING_BIASES_MAX = 1024, /* most logit biases */
  SAMPLING_TRIGGERS_MAX = 64, /* most texts and tokens that wake a lazy grammar, of each */
  SAMPLING_PRESERVED_MAX = 256
};

struct token_probability {
  int32_t id;
  float logprob; /* natural logarithm, of the softmax over the model's own logits */
};

struct sampling_bias {
  int32_t token;
  float bias; /* added to its logit; −INFINITY forbids it */
};

/* How an answer is drawn. sampling_init gives OpenAI's defaults. Texts and arrays are borrowed. */
struct sampling {
  float temperature;                  /* ≤ 0: greedy */
  float top_p;                        /* 0 … 1; 1: off */
  float min_p;                        /* 0 … 1; 0: off */
  float typical_p;                    /* 0 … 1; 1: off */
  int32_t top_k;                      /* ≤ 0: off */
  uint32_t seed;                      /* of the draws; equal seeds, equal answers */
  float penalty_repeat;               /* > 0; 1: off */
  float penalty_frequency;            /* −2 … 2; 0: off */
  float penalty_presence;             /* −2 … 2; 0: off */
  int32_t penalty_tokens;             /* how many of the last tokens the penalties look at; −1: the whole context */
  const struct sampling_bias *biases; /* [n_biases] */
  uint32_t n_biases;
  bool ignores_end;    /* end-of-answer tokens are forbidden */
  bool wants_logprobs; /* sampler_sample reports them */
  uint32_t n_top;      /* alternatives reported besides, ≤ SAMPLING_TOP_MAX */
  /* GBNF that the answer must follow; NULL: none. */
  const char *grammar;
  const char *grammar_prefix;  /* what the prompt already holds of it (chat_prompt.generation_prompt); NULL: none */
  bool is_grammar_lazy;        /* it holds from the first trigger on */
  const char *const *triggers; /* [n_triggers] patterns over the answer so far */
  uint32_t n_triggers;
  const int32_t *trigger_tokens; /* [n_trigger_tokens] */
  uint32_t n_trigger_tokens;
  /* Special tokens whose text belongs to the answer (marks of tool calls); all others are silent. */
  const int32_t *preserved; /* [n_preserved] */
  uint32_t n_preserved;
};

void sampling_init(struct sampling *sampling);
/* Checks ranges: STATUS_INVALID, `error` names the field as OpenAI does. n_vocab 0: token ids are not checked. */
MUST_USE enum status sampling_check(const struct sampling *sampling, uint32_t n_vocab, struct error *error);
/* A copy that owns its texts and arrays, in one allocation: free it with sampling_free. */
MUST_USE enum status sampling_copy(const struct sampling *sampling, struct sampling **ret_copy);
void sampling_free(struct sampling **sampling);
/* Whether the token's text is shown although it is special. `sampling` may be NULL. */
bool sampling_shows(const struct sampling *sampling, int32_t token);

/* sampling NULL: greedy. STATUS_INVALID: sampling_check's reasons, or a grammar that cannot be parsed. Keeps its own
 * copy. A grammar costs milliseconds to parse. */
MUST_USE enum status sampler_create(const struct model *model, const struct sampling *sampling,
                                    struct sampler **ret_sampler, struct error *error);
void sampler_destroy(struct sampler **sampler);
/* Tells the penalties what precedes the answer: the last tokens of the prompt, in order. The grammar does not see them.
 */
void sampler_accept_prompt(struct sampler *sampler, const int32_t *tokens, uint32_t n);
/* Draws from row `row` of the model's last call and accepts what it drew. *ret_logprob: of that token, NAN where not
 * wanted. ret_top[SAMPLING_TOP_MAX] and *ret_n_top: the likeliest, best first. The last three may be NULL.
 * STATUS_INVALID: there are no such logits, or the grammar allows no token. */
MUST_USE enum status sampler_sample(struct sampler *sampler, struct model *model, uint32_t row, int32_t *ret_token,
                                    float *ret_logprob, struct token_probability *ret_top, uint32_t *ret_n_top,
                                    struct error *error);

#endif
