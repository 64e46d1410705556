/* The canonical split of a prefill into decode calls: the same micro-batches of 64 tokens or more, cold or warm, so
 * that a restored run computes bit for bit what a cold one does. Pure functions. */
#ifndef FORELAY_ENGINE_SPLIT_H
#define FORELAY_ENGINE_SPLIT_H

#include <stdbool.h>
#include <stdint.h>

enum {
  SPLIT_RULE = 1,            /* version, part of the exact fingerprint: change it with the rule */
  SPLIT_MICRO_BATCH = 128,   /* n_ubatch: what the engine computes at once inside a call */
  SPLIT_MICRO_BATCH_MIN = 64 /* fewer tokens take another kernel, and other bits */
};

/* Whether a call of n tokens consists of micro-batches of 64 tokens or more. */
bool split_is_canonical(uint32_t n);

/* Size of the next call, where `rest` tokens (the last prompt token not counted, ≥ 1) are left and at most `limit`
 * tokens are wanted. The largest canonical size within the limit that leaves nothing or 64 tokens and more; where the
 * limit allows none, the smallest there is; all of it where fewer than 64 are left. */
uint32_t split_next(uint32_t rest, uint32_t limit);

#endif
