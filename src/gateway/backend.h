/* What the gateway needs of the program around it; the daemon implements it. All calls on the loop thread; none blocks.
 * Pointers are borrowed for the call. */
#ifndef FORELAY_GATEWAY_BACKEND_H
#define FORELAY_GATEWAY_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/status.h"
#include "domain/observation.h"
#include "domain/task.h"

/* A prompt has become tokens and is about to be served. */
struct backend_ask {
  uint64_t request;
  uint32_t tenant;
  uint64_t session; /* 0: none */
  uint32_t turn;
  const int32_t *tokens;
  uint32_t n_tokens;
  uint32_t head_tokens;     /* up to the end of the system part, 0: none */
  uint32_t document_tokens; /* up to the end of a document that was registered, 0: none */
  bool may_learn, may_prepare;
};

/* What a user wants prepared; tokens are what a request's prompt would begin with. */
struct backend_wish {
  uint32_t tenant;
  enum kind kind;
  enum tier tier; /* TIER_NONE: not said */
  const int32_t *tokens;
  uint32_t n_tokens;
  uint64_t by_us;           /* 0: not said */
  uint64_t every_us, count; /* announce */
  uint64_t until_us;        /* pin */
  uint64_t draft;           /* partial: number of the draft */
  const char *document;     /* id of the document, NULL: none */
};

/* Answers of questions: `json` is a complete JSON text, NULL with a status and error otherwise. Exactly once. */
typedef void backend_reply(void *reply_ctx, enum status status, const char *json, const struct error *error);

enum backend_question {
  QUESTION_STATUS,
  QUESTION_PREFIXES,
  QUESTION_TASKS,
  QUESTION_TASK, /* number: its id */
  QUESTION_STATES,
  QUESTION_LEDGER,
  QUESTION_BUDGET
};

enum backend_wish_kind { WISH_PREPARE, WISH_DOCUMENT, WISH_ANNOUNCE, WISH_PIN };

struct backend {
  void *ctx;
  void (*asked)(void *ctx, const struct backend_ask *ask);
  /* outcome->next_keys and next_material are unset; next tokens are handed beside it (may be NULL). */
  void (*ended)(void *ctx, const struct outcome *outcome, const int32_t *next_tokens, uint32_t n_next);
  /* A wish; the reply's JSON is {"id": N} (202). */
  void (*wish)(void *ctx, enum backend_wish_kind kind, const struct backend_wish *wish, backend_reply *reply,
               void *reply_ctx);
  /* tenant UINT32_MAX: the operator sees all. `number` as the question says. */
  void (*question)(void *ctx, enum backend_question question, uint32_t tenant, uint64_t number, backend_reply *reply,
                   void *reply_ctx);
  /* body: JSON of PUT budget. */
  void (*set_budget)(void *ctx, const char *body, size_t size, backend_reply *reply, void *reply_ctx);
  void (*delete_task)(void *ctx, uint32_t tenant, uint64_t task, backend_reply *reply, void *reply_ctx);
  void (*delete_state)(void *ctx, uint32_t tenant, uint64_t segment, backend_reply *reply, void *reply_ctx);
  /* Prometheus text of everything but the gateway's own metrics. */
  void (*metrics)(void *ctx, void (*reply)(void *reply_ctx, const char *text, size_t size), void *reply_ctx);
};

#endif
