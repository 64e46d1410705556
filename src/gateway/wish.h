/* What a client wants prepared, announced, pinned or registered: its body parsed and made tokens. Runs on the worker;
 * owns everything but what it borrows from the prompt_source. */
#ifndef FORELAY_GATEWAY_WISH_H
#define FORELAY_GATEWAY_WISH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "domain/residence.h"
#include "domain/task.h"
#include "gateway/api_error.h"
#include "gateway/backend.h"
#include "gateway/prompt.h"

enum { DOCUMENT_ID_SIZE = 128 };

struct wish {
  enum backend_wish_kind wish_kind;
  enum kind kind;
  enum tier tier;                  /* TIER_NONE: not said */
  struct buffer tokens;            /* int32_t each; empty: a document without `before`, which is only counted */
  uint32_t head_tokens;            /* drafts: tokens before the text that is being typed */
  bool is_partial;                 /* a draft */
  uint64_t by_us;                  /* Unix microseconds, 0: not said; announce: the first time */
  uint64_t every_us;               /* 0: once */
  uint64_t count;                  /* announce: requests each time, ≥ 1 */
  uint64_t until_us;               /* pin; 0: for good */
  char document[DOCUMENT_ID_SIZE]; /* empty: none */
};

/* now_us: Unix. On failure nothing is left to release. */
MUST_USE enum status wish_parse(enum backend_wish_kind wish_kind, const struct prompt_source *source, const char *bytes,
                                size_t size, uint64_t now_us, struct wish *ret_wish, struct api_error *error);
void wish_release(struct wish *wish);

#endif
