/* A text completion's body as parsed and checked, before its prompts are tokenized. Any thread. Owns its JSON. */
#ifndef FORELAY_GATEWAY_COMPLETION_REQUEST_H
#define FORELAY_GATEWAY_COMPLETION_REQUEST_H

#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "gateway/sampling_fields.h"

enum { PROMPTS_MAX = 64, OUTPUT_TOKENS_DEFAULT = 16 /* OpenAI's */ };

struct completion_call {
  struct sampling_fields fields;
  json_t *root;         /* everything borrowed points here */
  const json_t *prompt; /* a string, an array of tokens, or an array of either */
  uint32_t n_prompts;   /* 1 … PROMPTS_MAX */
  char *schema;         /* json_schema as the client wrote it, NULL: none */
};

MUST_USE enum status completion_call_parse(const char *bytes, size_t size, uint32_t n_vocab,
                                           struct completion_call *ret_call, struct api_error *error);
void completion_call_release(struct completion_call *call);

/* Checks a `prompt` member (wishes have one too): strings, or token ids below n_vocab. many_max 1: no lists of prompts.
 * *ret_count prompts are in it. */
MUST_USE enum status prompt_field_check(const struct field_scope *scope, uint32_t n_vocab, uint32_t many_max,
                                        const json_t **ret_prompt, uint32_t *ret_count);
/* Prompt number `index`: its text, or its tokens appended to `tokens` (int32_t each). Exactly one of *ret_text and
 * appended tokens; *ret_text is NULL for tokens. STATUS_TOO_LONG: past the limit of `tokens`; STATUS_NO_MEMORY. */
MUST_USE enum status prompt_field_get(const json_t *prompt, uint32_t index, const char **ret_text, size_t *ret_size,
                                      struct buffer *tokens);

#endif
