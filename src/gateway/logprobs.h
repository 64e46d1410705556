/* Log probabilities of an answer in OpenAI's two forms, gathered token by token. Writes into buffers. One thread at a
 * time; owns its text. */
#ifndef FORELAY_GATEWAY_LOGPROBS_H
#define FORELAY_GATEWAY_LOGPROBS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "engine/engine.h"

struct model;

struct logprobs {
  bool is_chat;
  uint32_t n_tokens;
  size_t text_offset; /* of the next token, in bytes; text completions */
  /* chat: `content`. Text: tokens, token_logprobs, top_logprobs, text_offset, without their brackets. */
  struct buffer columns[4];
};
void logprobs_init(struct logprobs *logprobs, bool is_chat, size_t size_max);
void logprobs_release(struct logprobs *logprobs);
/* Forgets the tokens so far, not the offset. */
void logprobs_clear(struct logprobs *logprobs);
MUST_USE enum status logprobs_add(struct logprobs *logprobs, const struct model *model,
                                  const struct engine_token *token);
/* Appends the JSON object of what was added. */
MUST_USE enum status logprobs_print(const struct logprobs *logprobs, struct buffer *into);

#endif
