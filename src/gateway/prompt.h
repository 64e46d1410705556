/* Tokens of what is asked for: a chat's template rendered, a text tokenized, the beginning that a next turn, a draft or
 * a document will share. Computes only; runs on the worker. Borrows model and chat. */
#ifndef FORELAY_GATEWAY_PROMPT_H
#define FORELAY_GATEWAY_PROMPT_H

#include <stdint.h>

#include "base/buffer.h"
#include "base/status.h"
#include "engine/chat.h"
#include "gateway/api_error.h"
#include "gateway/chat_request.h"

struct model;

struct prompt_source {
  const struct model *model;
  const struct chat *chat; /* NULL: chat is refused */
  uint32_t context_tokens; /* of one request: prompt and at least one token of answer */
};

/* Tokens in a buffer: int32_t each. */
static inline const int32_t *prompt_tokens(const struct buffer *tokens) {
  return (const int32_t *)(const void *)tokens->data;
}
static inline uint32_t prompt_tokens_count(const struct buffer *tokens) {
  return (uint32_t)(tokens->size / sizeof(int32_t));
}

/* All append to `tokens` (empty, initialised by the caller) and say in `error` what a client did wrong. A prompt that
 * leaves no room for one token of answer is refused as context_length_exceeded. */
/* *ret_rendered is the caller's (chat_prompt_release). *ret_head_tokens: tokens up to the end of the system part. */
MUST_USE enum status prompt_of_chat(const struct prompt_source *source, const struct chat_call *call,
                                    struct buffer *tokens, struct chat_prompt *ret_rendered, uint32_t *ret_head_tokens,
                                    struct api_error *error);
MUST_USE enum status prompt_of_text(const struct prompt_source *source, const char *text, size_t size,
                                    const char *param, struct buffer *tokens, struct api_error *error);
/* What the conversation's next turn begins with: its messages and the reply, a JSON message, rendered. */
MUST_USE enum status prompt_of_next_turn(const struct prompt_source *source, const struct chat_call *call,
                                         const char *reply_json, size_t reply_size, struct buffer *tokens,
                                         struct api_error *error);
/* The conversation up to `text_size` bytes of its last user message, without that message's end marker.
 * *ret_head_tokens: tokens before that text. */
MUST_USE enum status prompt_of_draft(const struct prompt_source *source, const struct chat_call *call, size_t text_size,
                                     struct buffer *tokens, uint32_t *ret_head_tokens, struct api_error *error);
/* Length of the text up to its last whitespace, that and what precedes it of whitespace not counted. */
size_t prompt_settled_size(const char *text, size_t size);
/* STATUS_INVALID with context_length_exceeded about `param` unless n_tokens and one more fit. */
MUST_USE enum status prompt_fits(const struct prompt_source *source, uint32_t n_tokens, const char *param,
                                 struct api_error *error);
/* Renders without tokenizing. */
MUST_USE enum status prompt_render(const struct prompt_source *source, const struct chat_call *call,
                                   struct chat_prompt *ret_rendered, struct api_error *error);

#endif
