/* What the doing half tells the deciding half about one request: at its arrival and at its end. Plain data, borrowed for
 * the call. Any thread. */
#ifndef FORELAY_DOMAIN_OBSERVATION_H
#define FORELAY_DOMAIN_OBSERVATION_H

#include <stdbool.h>
#include <stdint.h>

#include "domain/block.h"
#include "domain/residence.h"

enum stop_reason { STOP_NONE = 0, STOP_END_TURN, STOP_LENGTH, STOP_TOOL_CALL, STOP_SEQUENCE, STOP_ABORTED, STOP_ERROR };

/* A request has been tokenized. */
struct ask {
  uint64_t request;          /* id, > 0 */
  uint64_t at_us;
  uint32_t tenant;
  uint64_t session;          /* what names the conversation (hash of tenant and first user message, or a client's own id); 0: none */
  uint32_t turn;             /* user messages so far, ≥ 1; 0: not a conversation */
  uint32_t prompt_tokens;
  uint32_t n_blocks;         /* full blocks: prompt_tokens / block size */
  const block_key *keys;     /* [n_blocks] */
  const int32_t *token_ids;  /* [prompt_tokens]; NULL: not told. To compare with, never kept beyond the request's states */
  uint64_t material;         /* handle of the tokens, kept by the daemon */
  uint32_t head_tokens;      /* tokens up to the end of the system message, 0: none */
  uint32_t document_tokens;  /* tokens up to the end of a known document in the prompt, 0: none */
  bool may_learn;            /* false: x-forelay-store: no; counted in totals, never remembered */
  bool may_prepare;          /* false: x-forelay-prepare: off; learned from, nothing prepared for it */
};

/* A request has ended, however. Tokens sum up: hit[...] + computed ≤ prompt_tokens (equal unless it was aborted). */
struct outcome {
  uint64_t request;
  uint64_t at_us;
  enum stop_reason stop;
  uint32_t hit_tokens[TIER_COUNT]; /* by the tier they came from; engine-reported */
  uint32_t computed_tokens;
  uint32_t output_tokens;
  uint64_t queue_us, restore_us, prefill_us, decode_us, ttft_us; /* engine's own times; ttft from acceptance */
  /* What the next turn of this conversation will begin with, rendered canonically; n_next 0 where there is none. */
  uint32_t next_tokens, n_next;
  const block_key *next_keys;      /* [n_next] */
  const int32_t *next_token_ids;   /* [next_tokens]; NULL: not told */
  uint64_t next_material;
};

/* A segment has become present in a tier or has gone from it. */
struct segment_event {
  uint64_t at_us;
  uint64_t segment;         /* the store's id of it, > 0, same in all tiers */
  uint64_t parent;          /* 0: it begins at token 0 */
  enum tier tier;
  bool is_present;          /* false: gone */
  uint32_t tenant;
  uint32_t from, to;        /* tokens */
  uint64_t bytes;
  uint32_t n_blocks;        /* full blocks inside */
  const block_key *keys;    /* [n_blocks]: keys of blocks from/BLOCK_TOKENS … */
  uint64_t task;            /* preparation that computed it, 0: a request did */
};

#endif
