/* Answers as OpenAI's JSON: stream chunks, whole replies, usage. Writes into buffers, nothing else.
 * Any thread. */
#ifndef FORELAY_GATEWAY_ANSWER_H
#define FORELAY_GATEWAY_ANSWER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "domain/observation.h"
#include "domain/residence.h"

/* What every chunk of one answer repeats. */
struct answer_head {
  char id[48];       /* "chatcmpl-…", "cmpl-…" */
  const char *model; /* borrowed */
  uint64_t created_s;
  bool is_chat;
  bool has_usage; /* stream_options.include_usage: chunks before the last say "usage": null */
};

/* What an answer took, summed over the prompts of one request; all of it reported by the engine. */
struct answer_usage {
  uint32_t prompt_tokens, output_tokens;
  uint32_t cached_tokens, computed_tokens; /* cached + computed = prompt */
  enum tier tier;                          /* where most cached tokens came from */
  uint64_t task;                           /* the preparation that had computed some of them, 0: none */
  uint64_t queue_us, restore_us, prefill_us, decode_us, ttft_us;
};

/* "stop", "length", "tool_calls"; NULL for an answer that did not end by itself. */
const char *answer_finish_reason(enum stop_reason stop, bool has_calls);

/* One SSE event's data each, appended. delta_json: a chat delta, as JSON object. logprobs: the JSON object of
 * logprobs_print, NULL: none. */
MUST_USE enum status answer_chunk_role(struct buffer *into, const struct answer_head *head, uint32_t index);
MUST_USE enum status answer_chunk_delta(struct buffer *into, const struct answer_head *head, uint32_t index,
                                        const char *delta_json, size_t delta_size, const char *logprobs);
MUST_USE enum status answer_chunk_text(struct buffer *into, const struct answer_head *head, uint32_t index,
                                       const char *text, size_t size, const char *logprobs);
/* usage not NULL: it is the last chunk and carries `timings` and `forelay`. */
MUST_USE enum status answer_chunk_finish(struct buffer *into, const struct answer_head *head, uint32_t index,
                                         const char *finish_reason, const struct answer_usage *usage);
MUST_USE enum status answer_chunk_usage(struct buffer *into, const struct answer_head *head,
                                        const struct answer_usage *usage);

/* A whole reply: open, one choice each in order, close. message_json for chat, text otherwise. */
MUST_USE enum status answer_open(struct buffer *into, const struct answer_head *head);
MUST_USE enum status answer_choice(struct buffer *into, const struct answer_head *head, uint32_t index,
                                   const char *message_json_or_text, size_t size, const char *logprobs,
                                   const char *finish_reason);
MUST_USE enum status answer_close(struct buffer *into, const struct answer_usage *usage);

#endif
