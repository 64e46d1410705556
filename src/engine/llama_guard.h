/* Calls of libllama that can throw, caught: implemented in llama_chat.cpp, called from the C files of the border. Every
 * function turns any exception into a status and one line of text, and nothing else. libllama's types are named here,
 * never defined: this header needs none of theirs. */
#ifndef FORELAY_ENGINE_LLAMA_GUARD_H
#define FORELAY_ENGINE_LLAMA_GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct buffer;
struct gguf_context;
struct llama_batch;
struct llama_context;
struct llama_context_params;
struct llama_model;
struct llama_model_params;
struct llama_sampler;
struct llama_token_data_array;
struct llama_vocab;

/* *ret_model, *ret_context, *ret_gguf: NULL with STATUS_OK where libllama itself said no (and logged why). */
MUST_USE enum status guard_model_load(const char *path, const struct llama_model_params *params,
                                      struct llama_model **ret_model, struct error *error);
MUST_USE enum status guard_context_create(struct llama_model *model, const struct llama_context_params *params,
                                          struct llama_context **ret_context, struct error *error);
MUST_USE enum status guard_gguf_open(const char *path, struct gguf_context **ret_gguf, struct error *error);

/* *ret_code: llama_decode's. */
MUST_USE enum status guard_decode(struct llama_context *context, const struct llama_batch *batch, int32_t *ret_code,
                                  struct error *error);
/* *ret_count: llama_tokenize's: negative where `max` is too small. */
MUST_USE enum status guard_tokenize(const struct llama_vocab *vocab, const char *text, int32_t size, int32_t *tokens,
                                    int32_t max, bool adds_special, bool parses_special, int32_t *ret_count,
                                    struct error *error);

/* *ret_size: bytes of the sequence's state; written; read (0: refused). */
MUST_USE enum status guard_state_size(struct llama_context *context, int32_t seq, size_t *ret_size,
                                      struct error *error);
MUST_USE enum status guard_state_get(struct llama_context *context, int32_t seq, uint8_t *bytes, size_t size,
                                     size_t *ret_size, struct error *error);
MUST_USE enum status guard_state_set(struct llama_context *context, int32_t seq, const uint8_t *bytes, size_t size,
                                     size_t *ret_size, struct error *error);

/* A grammar with the root rule "root"; lazy where is_lazy. STATUS_INVALID: it does not parse. */
MUST_USE enum status guard_grammar_create(const struct llama_vocab *vocab, const char *grammar, bool is_lazy,
                                          const char *const *patterns, size_t n_patterns, const int32_t *tokens,
                                          size_t n_tokens, struct llama_sampler **ret_grammar, struct error *error);
MUST_USE enum status guard_sampler_apply(struct llama_sampler *sampler, struct llama_token_data_array *candidates,
                                         struct error *error);
MUST_USE enum status guard_sampler_accept(struct llama_sampler *sampler, int32_t token, struct error *error);

/* Appends what libllama's own list of templates makes of the conversation roles[n], contents[n]. STATUS_UNSUPPORTED:
 * the template is none of them. */
MUST_USE enum status guard_template_apply(const char *source, const char *const *roles, const char *const *contents,
                                          size_t n, bool adds_generation_prompt, struct buffer *text,
                                          struct error *error);

#ifdef __cplusplus
}
#endif

#endif
