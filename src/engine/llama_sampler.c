#include "engine/sampler.h"

#include <assert.h>
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <llama.h>

#include "base/buffer.h"
#include "engine/llama_guard.h"
#include "engine/llama_model.h"

struct sampler {
  struct sampling *sampling;     /* own copy */
  struct llama_sampler *chain;   /* NULL: plain greedy, the largest logit is the token */
  struct llama_sampler *grammar; /* NULL: none */
  llama_token_data *candidates;  /* [n_vocab], NULL for plain greedy */
  uint32_t n_vocab;
};

void sampling_init(struct sampling *sampling) {
  *sampling = (struct sampling){
      .temperature = 1.0f, .top_p = 1.0f, .typical_p = 1.0f, .penalty_repeat = 1.0f, .penalty_tokens = 64};
}

static bool is_within(float x, float low, float high) {
  return x >= low && x <= high; /* false for NaN */
}

static enum status tokens_check(const char *name, const int32_t *tokens, uint32_t n, uint32_t n_vocab,
                                struct error *error) {
  for (uint32_t i = 0; i < n; i++)
    if (n_vocab && (tokens[i] < 0 || (uint32_t)tokens[i] >= n_vocab))
      return error_set(error, STATUS_INVALID, "%s: token %d is not in the vocabulary of %u", name, tokens[i], n_vocab);
  return STATUS_OK;
}

enum status sampling_check(const struct sampling *sampling, uint32_t n_vocab, struct error *error) {
  const struct sampling *s = sampling;
  if (!is_within(s->temperature, -1e6f, 1e6f)) return error_set(error, STATUS_INVALID, "temperature: not a number");
  if (!is_within(s->top_p, 0, 1)) return error_set(error, STATUS_INVALID, "top_p: not in 0 … 1");
  if (!is_within(s->min_p, 0, 1)) return error_set(error, STATUS_INVALID, "min_p: not in 0 … 1");
  if (!is_within(s->typical_p, 0, 1)) return error_set(error, STATUS_INVALID, "typical_p: not in 0 … 1");
  if (!is_within(s->penalty_repeat, 1e-3f, 1e3f))
    return error_set(error, STATUS_INVALID, "repeat_penalty: not in 0.001 … 1000");
  if (!is_within(s->penalty_frequency, -2, 2))
    return error_set(error, STATUS_INVALID, "frequency_penalty: not in -2 … 2");
  if (!is_within(s->penalty_presence, -2, 2))
    return error_set(error, STATUS_INVALID, "presence_penalty: not in -2 … 2");
  if (s->penalty_tokens < -1) return error_set(error, STATUS_INVALID, "repeat_last_n: less than -1");
  if (s->n_top > SAMPLING_TOP_MAX)
    return error_set(error, STATUS_INVALID, "top_logprobs: more than %d", SAMPLING_TOP_MAX);
  if (s->n_biases > SAMPLING_BIASES_MAX)
    return error_set(error, STATUS_INVALID, "logit_bias: more than %d entries", SAMPLING_BIASES_MAX);
  for (uint32_t i = 0; i < s->n_biases; i++) {
    if (isnan(s->biases[i].bias)) return error_set(error, STATUS_INVALID, "logit_bias: not a number");
    enum status status = tokens_check("logit_bias", &s->biases[i].token, 1, n_vocab, error);
    if (status != STATUS_OK) return status;
  }
  if (s->n_triggers > SAMPLING_TRIGGERS_MAX || s->n_trigger_tokens > SAMPLING_TRIGGERS_MAX ||
      s->n_preserved > SAMPLING_PRESERVED_MAX)
    return error_set(error, STATUS_INVALID, "grammar: too many triggers or preserved tokens");
  if (s->is_grammar_lazy && s->grammar && s->n_triggers + s->n_trigger_tokens == 0)
    return error_set(error, STATUS_INVALID, "grammar: lazy without a trigger");
  enum status status = tokens_check("grammar trigger", s->trigger_tokens, s->n_trigger_tokens, n_vocab, error);
  return status == STATUS_OK ? tokens_check("preserved tokens", s->preserved, s->n_preserved, n_vocab, error) : status;
}

static size_t text_bytes(const char *text) {
  return text ? strlen(text) + 1 : 0;
}

static char *text_place(const char *text, char **at) {
  if (!text) return NULL;
  size_t size = text_bytes(text);
  char *placed = memcpy(*at, text, size);
  *at += size;
  return placed;
}

static void *array_place(const void *items, size_t size, char **at) {
  if (size == 0) return NULL;
  void *placed = memcpy(*at, items, size);
  *at += size;
  return placed;
}

enum status sampling_copy(const struct sampling *sampling, struct sampling **ret_copy) {
  const struct sampling *s = sampling;
  /* Arrays first, pointers before 4-byte items, texts last: each is aligned where it falls. */
  size_t triggers_bytes = s->n_triggers * sizeof(char *);
  size_t size = sizeof *s + triggers_bytes + s->n_biases * sizeof *s->biases +
                s->n_trigger_tokens * sizeof *s->trigger_tokens + s->n_preserved * sizeof *s->preserved +
                text_bytes(s->grammar) + text_bytes(s->grammar_prefix);
  for (uint32_t i = 0; i < s->n_triggers; i++) size += text_bytes(s->triggers[i]);
  struct sampling *copy = malloc(size);
  if (!copy) return STATUS_NO_MEMORY;
  *copy = *s;
  char *at = (char *)(copy + 1);
  char **triggers = (char **)(void *)at;
  at += triggers_bytes;
  copy->biases = array_place(s->biases, s->n_biases * sizeof *s->biases, &at);
  copy->trigger_tokens = array_place(s->trigger_tokens, s->n_trigger_tokens * sizeof *s->trigger_tokens, &at);
  copy->preserved = array_place(s->preserved, s->n_preserved * sizeof *s->preserved, &at);
  copy->grammar = text_place(s->grammar, &at);
  copy->grammar_prefix = text_place(s->grammar_prefix, &at);
  for (uint32_t i = 0; i < s->n_triggers; i++) triggers[i] = text_place(s->triggers[i], &at);
  copy->triggers = s->n_triggers ? (const char *const *)triggers : NULL;
  *ret_copy = copy;
  return STATUS_OK;
}

void sampling_free(struct sampling **sampling) {
  free(*sampling);
  *sampling = NULL;
}

bool sampling_shows(const struct sampling *sampling, int32_t token) {
  for (uint32_t i = 0; sampling && i < sampling->n_preserved; i++)
    if (sampling->preserved[i] == token) return true;
  return false;
}

/* The request's biases, what the model itself forbids, and ends of answers where they are not wanted. */
static enum status biases_add(struct sampler *sampler, const struct model *model, bool *ret_has_any) {
  const struct sampling *s = sampler->sampling;
  int32_t n_suppressed = 0;
  const llama_token *suppressed = llama_vocab_get_suppress_tokens(model->vocab, &n_suppressed);
  size_t n = s->n_biases + (size_t)n_suppressed;
  for (uint32_t i = 0; s->ignores_end && i < sampler->n_vocab; i++)
    n += llama_vocab_is_eog(model->vocab, (llama_token)i);
  *ret_has_any = n > 0;
  if (n == 0) return STATUS_OK;
  llama_logit_bias *biases = malloc(n * sizeof *biases);
  if (!biases) return STATUS_NO_MEMORY;
  size_t at = 0;
  for (uint32_t i = 0; i < s->n_biases; i++)
    biases[at++] = (llama_logit_bias){.token = s->biases[i].token, .bias = s->biases[i].bias};
  for (int32_t i = 0; i < n_suppressed; i++)
    biases[at++] = (llama_logit_bias){.token = suppressed[i], .bias = -INFINITY};
  for (uint32_t i = 0; s->ignores_end && i < sampler->n_vocab; i++)
    if (llama_vocab_is_eog(model->vocab, (llama_token)i))
      biases[at++] = (llama_logit_bias){.token = (llama_token)i, .bias = -INFINITY};
  llama_sampler_chain_add(sampler->chain, llama_sampler_init_logit_bias((int32_t)sampler->n_vocab, (int32_t)n, biases));
  free(biases);
  return STATUS_OK;
}

/* llama-server's order: biases, penalties, top-k, typical, top-p, min-p, temperature, draw. */
static enum status chain_create(struct sampler *sampler, const struct model *model) {
  const struct sampling *s = sampler->sampling;
  struct llama_sampler_chain_params params = llama_sampler_chain_default_params();
  params.no_perf = true;
  sampler->chain = llama_sampler_chain_init(params);
  if (!sampler->chain) return STATUS_NO_MEMORY;
  bool has_biases = false;
  enum status status = biases_add(sampler, model, &has_biases);
  if (status != STATUS_OK) return status;
  int32_t last = s->penalty_tokens < 0 ? (int32_t)model->facts.context_tokens : s->penalty_tokens;
  bool has_penalties = last > 0 && (s->penalty_repeat != 1 || s->penalty_frequency != 0 || s->penalty_presence != 0);
  if (has_penalties)
    llama_sampler_chain_add(sampler->chain,
                            llama_sampler_init_penalties((int32_t)sampler->n_vocab, last, s->penalty_repeat,
                                                         s->penalty_frequency, s->penalty_presence));
  if (s->temperature <= 0) {
    if (!has_biases && !has_penalties && !s->grammar) {
      llama_sampler_free(sampler->chain);
      sampler->chain = NULL;
      return STATUS_OK;
    }
    llama_sampler_chain_add(sampler->chain, llama_sampler_init_greedy());
    return STATUS_OK;
  }
  if (s->top_k > 0) llama_sampler_chain_add(sampler->chain, llama_sampler_init_top_k(s->top_k));
  if (s->typical_p < 1) llama_sampler_chain_add(sampler->chain, llama_sampler_init_typical(s->typical_p, 1));
  if (s->top_p < 1) llama_sampler_chain_add(sampler->chain, llama_sampler_init_top_p(s->top_p, 1));
  if (s->min_p > 0) llama_sampler_chain_add(sampler->chain, llama_sampler_init_min_p(s->min_p, 1));
  llama_sampler_chain_add(sampler->chain, llama_sampler_init_temp(s->temperature));
  llama_sampler_chain_add(sampler->chain, llama_sampler_init_dist(s->seed));
  return STATUS_OK;
}

/* The grammar begins where the prompt has already begun it. */
static enum status prefix_accept(struct sampler *sampler, const struct model *model, struct error *error) {
  const char *prefix = sampler->sampling->grammar_prefix;
  struct buffer tokens;
  buffer_init(&tokens, 1 << 20);
  enum status status = model_tokenize(model, prefix, strlen(prefix), false, true, &tokens, error);
  const int32_t *ids = (const int32_t *)(const void *)tokens.data;
  for (size_t i = 0; status == STATUS_OK && i < tokens.size / sizeof *ids; i++) {
    char piece[8];
    size_t size = model_token_piece(model, ids[i], true, piece, sizeof piece);
    bool is_added_space = i == 0 && size > 0 && size <= sizeof piece && isspace((unsigned char)piece[0]) &&
                          !isspace((unsigned char)prefix[0]); /* some tokenizers put one before a first special token */
    if (!is_added_space) status = guard_sampler_accept(sampler->grammar, ids[i], error);
  }
  buffer_release(&tokens);
  return status;
}

static enum status grammar_create(struct sampler *sampler, const struct model *model, struct error *error) {
  const struct sampling *s = sampler->sampling;
  if (!s->grammar) return STATUS_OK;
  enum status status = guard_grammar_create(model->vocab, s->grammar, s->is_grammar_lazy, s->triggers, s->n_triggers,
                                            s->trigger_tokens, s->n_trigger_tokens, &sampler->grammar, error);
  if (status != STATUS_OK || s->is_grammar_lazy || !s->grammar_prefix || !s->grammar_prefix[0]) return status;
  return prefix_accept(sampler, model, error);
}

enum status sampler_create(const struct model *model, const struct sampling *sampling, struct sampler **ret_sampler,
                           struct error *error) {
  struct sampling greedy;
  if (!sampling) {
    sampling_init(&greedy);
    greedy.temperature = 0;
    sampling = &greedy;
  }
  enum status status = sampling_check(sampling, model->facts.n_vocab, error);
  if (status != STATUS_OK) return status;
  struct sampler *sampler = calloc(1, sizeof *sampler);
  if (!sampler) return error_set(error, STATUS_NO_MEMORY, "no memory for a sampler");
  sampler->n_vocab = model->facts.n_vocab;
  status = sampling_copy(sampling, &sampler->sampling);
  if (status == STATUS_OK) status = chain_create(sampler, model);
  if (status == STATUS_OK && sampler->chain) {
    sampler->candidates = malloc(sampler->n_vocab * sizeof *sampler->candidates);
    if (!sampler->candidates) status = STATUS_NO_MEMORY;
  }
  if (status == STATUS_NO_MEMORY) error_set(error, status, "no memory for a sampler");
  if (status == STATUS_OK) status = grammar_create(sampler, model, error);
  if (status != STATUS_OK) {
    sampler_destroy(&sampler);
    return status;
  }
  *ret_sampler = sampler;
  return STATUS_OK;
}

void sampler_destroy(struct sampler **sampler_at) {
  struct sampler *sampler = *sampler_at;
  if (!sampler) return;
  if (sampler->chain) llama_sampler_free(sampler->chain);
  if (sampler->grammar) llama_sampler_free(sampler->grammar);
  free(sampler->candidates);
  sampling_free(&sampler->sampling);
  free(sampler);
  *sampler_at = NULL;
}

void sampler_accept_prompt(struct sampler *sampler, const int32_t *tokens, uint32_t n) {
  for (uint32_t i = 0; sampler->chain && i < n; i++)
    if (tokens[i] >= 0 && (uint32_t)tokens[i] < sampler->n_vocab) llama_sampler_accept(sampler->chain, tokens[i]);
}

static int32_t largest(const float *logits, uint32_t n) {
  uint32_t best = 0;
  for (uint32_t i = 1; i < n; i++)
    if (logits[i] > logits[best]) best = i;
  return (int32_t)best;
}

static llama_token_data_array candidates_fill(struct sampler *sampler, const float *logits) {
  for (uint32_t i = 0; i < sampler->n_vocab; i++)
    sampler->candidates[i] = (llama_token_data){.id = (llama_token)i, .logit = logits[i]};
  return (llama_token_data_array){.data = sampler->candidates, .size = sampler->n_vocab, .selected = -1};
}

static enum status chain_draw(struct sampler *sampler, llama_token_data_array *candidates, int32_t *ret_token,
                              struct error *error) {
  enum status status = guard_sampler_apply(sampler->chain, candidates, error);
  if (status != STATUS_OK) return status;
  if (candidates->selected < 0 || (size_t)candidates->selected >= candidates->size)
    return error_set(error, STATUS_INVALID, "nothing can be drawn from these settings");
  *ret_token = candidates->data[candidates->selected].id;
  return STATUS_OK;
}

/* Draws freely first: a grammar is far dearer to ask about the whole vocabulary than about one token. */
static enum status grammar_draw(struct sampler *sampler, const float *logits, int32_t *ret_token, struct error *error) {
  llama_token_data one = {.id = *ret_token, .logit = 1.0f};
  llama_token_data_array alone = {.data = &one, .size = 1, .selected = -1};
  enum status status = guard_sampler_apply(sampler->grammar, &alone, error);
  if (status != STATUS_OK || one.logit != -INFINITY) return status;
  llama_token_data_array candidates = candidates_fill(sampler, logits);
  status = guard_sampler_apply(sampler->grammar, &candidates, error);
  if (status != STATUS_OK) return status;
  bool has_any = false;
  for (size_t i = 0; i < candidates.size && !has_any; i++) has_any = candidates.data[i].logit != -INFINITY;
  if (!has_any) return error_set(error, STATUS_INVALID, "grammar: no token can follow");
  return chain_draw(sampler, &candidates, ret_token, error);
}

static void top_find(const float *logits, uint32_t n_vocab, struct token_probability *top, uint32_t n_top) {
  uint32_t held = 0;
  for (uint32_t i = 0; i < n_vocab; i++) {
    if (held == n_top && !(logits[i] > top[held - 1].logprob)) continue;
    uint32_t at = held < n_top ? held++ : held - 1;
    for (; at > 0 && logits[i] > top[at - 1].logprob; at--) top[at] = top[at - 1];
    top[at] = (struct token_probability){.id = (int32_t)i, .logprob = logits[i]};
  }
}

static void logprobs_report(const struct sampler *sampler, const float *logits, int32_t token, float *ret_logprob,
                            struct token_probability *ret_top, uint32_t *ret_n_top) {
  float high = logits[largest(logits, sampler->n_vocab)];
  double sum = 0;
  for (uint32_t i = 0; i < sampler->n_vocab; i++) sum += (double)expf(logits[i] - high);
  double log_sum = (double)high + log(sum);
  if (ret_logprob) *ret_logprob = (float)((double)logits[token] - log_sum);
  uint32_t n_top = sampler->sampling->n_top < sampler->n_vocab ? sampler->sampling->n_top : sampler->n_vocab;
  if (!ret_top || !ret_n_top) return;
  if (n_top > 0) top_find(logits, sampler->n_vocab, ret_top, n_top);
  for (uint32_t i = 0; i < n_top; i++) ret_top[i].logprob = (float)((double)ret_top[i].logprob - log_sum);
  *ret_n_top = n_top;
}

enum status sampler_sample(struct sampler *sampler, struct model *model, uint32_t row, int32_t *ret_token,
                           float *ret_logprob, struct token_probability *ret_top, uint32_t *ret_n_top,
                           struct error *error) {
  const float *logits = model_logits(model, row);
  if (!logits) return error_set(error, STATUS_INVALID, "there are no logits to draw from in row %u", row);
  int32_t token = 0;
  if (!sampler->chain) {
    token = largest(logits, sampler->n_vocab);
  } else {
    llama_token_data_array candidates = candidates_fill(sampler, logits);
    enum status status = chain_draw(sampler, &candidates, &token, error);
    if (status == STATUS_OK && sampler->grammar) status = grammar_draw(sampler, logits, &token, error);
    if (status == STATUS_OK && sampler->grammar) status = guard_sampler_accept(sampler->grammar, token, error);
    if (status != STATUS_OK) return status;
    llama_sampler_accept(sampler->chain, token);
  }
  if (ret_logprob) *ret_logprob = NAN;
  if (ret_n_top) *ret_n_top = 0;
  if (sampler->sampling->wants_logprobs) logprobs_report(sampler, logits, token, ret_logprob, ret_top, ret_n_top);
  *ret_token = token;
  return STATUS_OK;
}
