/* The beginning of a prompt as the simulated caches compare it: block keys, and, where they were told, the tokens one
 * by one. Plain data, borrowed. */
#ifndef FORELAY_PLAN_PASSAGE_H
#define FORELAY_PLAN_PASSAGE_H

#include <stdint.h>

#include "domain/block.h"

struct passage {
  uint32_t n_tokens;     /* where they were not told: those of the full blocks */
  uint32_t n_blocks;     /* n_tokens / block size */
  const block_key *keys; /* [n_blocks] */
  const int32_t *tokens; /* [n_tokens]; NULL: not told, then whole blocks only are compared */
  uint32_t block_tokens; /* ≥ 1 */
};

/* `keys` name at least n_tokens / block_tokens blocks. */
struct passage passage_of(const block_key *keys, const int32_t *tokens, uint32_t n_tokens, uint32_t block_tokens);
/* Its first n_tokens, or all of it. */
struct passage passage_cut(const struct passage *passage, uint32_t n_tokens);
/* Leading tokens in common; of passages of different tenants less than a block. */
uint32_t passage_common(const struct passage *a, const struct passage *b);

#endif
