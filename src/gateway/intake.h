/* A body on its way to tokens: what the worker makes of it, in one step, so that the loop only moves it there and back.
 * Computes only; one thread at a time. Owns its copy of the body and everything made of it. */
#ifndef FORELAY_GATEWAY_INTAKE_H
#define FORELAY_GATEWAY_INTAKE_H

#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "gateway/api_error.h"
#include "gateway/chat_request.h"
#include "gateway/completion_request.h"
#include "gateway/prompt.h"
#include "gateway/wish.h"

enum intake_kind {
  INTAKE_CHAT = 0,
  INTAKE_COMPLETION,
  INTAKE_TOKENIZE,
  INTAKE_DETOKENIZE,
  INTAKE_TEMPLATE,
  INTAKE_WISH,
  INTAKE_NEXT_TURN /* the answer is out: what will the conversation's next turn begin with? Follows INTAKE_CHAT */
};

struct intake {
  enum intake_kind kind;
  enum backend_wish_kind wish_kind;
  struct prompt_source source;
  char *body; /* [body_size], owned; freed as soon as it is parsed */
  size_t body_size;
  uint64_t now_us; /* Unix */
  uint32_t seed;   /* of an answer whose request names none */

  struct api_error error; /* http_status 0 after success */
  struct chat_call chat;
  struct completion_call completion;
  struct wish wish;
  struct chat_prompt rendered;                           /* of chat; its parser belongs to it */
  bool has_chat, has_completion, has_wish, has_rendered; /* which of these are to be released */
  struct sampling_fields *fields;     /* the call's, ready to submit: seed, grammar, marks and stops are joined in */
  struct buffer prompts[PROMPTS_MAX]; /* [n_prompts] int32_t each */
  uint32_t n_prompts;
  uint32_t head_tokens;
  struct buffer grammar; /* of a text completion's schema */
  struct buffer reply;   /* JSON of the small routes; INTAKE_NEXT_TURN: the reply's message, set by the caller */
  struct buffer next;    /* INTAKE_NEXT_TURN: int32_t each, empty when it cannot be told */
};

/* body[size] is copied. STATUS_NO_MEMORY. */
MUST_USE enum status intake_create(enum intake_kind kind, const struct prompt_source *source, const char *body,
                                   size_t size, struct intake **ret_intake);
void intake_destroy(struct intake **intake);
/* Does the work of intake->kind; its result lies in the intake. */
void intake_run(struct intake *intake);

#endif
