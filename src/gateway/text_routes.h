/* The small routes that turn text into tokens and back, as llama-server has them. Run on the worker; compute only. */
#ifndef FORELAY_GATEWAY_TEXT_ROUTES_H
#define FORELAY_GATEWAY_TEXT_ROUTES_H

#include <stddef.h>

#include "base/buffer.h"
#include "gateway/api_error.h"
#include "gateway/prompt.h"

/* {content, add_special: false, parse_special: true, with_pieces: false} → {tokens: […]}; a piece that is not text by
 * itself is an array of its bytes. */
MUST_USE enum status tokenize_answer(const struct prompt_source *source, const char *bytes, size_t size,
                                     struct buffer *reply, struct api_error *error);
/* {tokens} → {content}. */
MUST_USE enum status detokenize_answer(const struct prompt_source *source, const char *bytes, size_t size,
                                       struct buffer *reply, struct api_error *error);
/* {messages, …} → {prompt}. */
MUST_USE enum status template_answer(const struct prompt_source *source, const char *bytes, size_t size,
                                     struct buffer *reply, struct api_error *error);

#endif
