#include "plan/passage.h"

#include <stddef.h>

struct passage passage_of(const block_key *keys, const int32_t *tokens, uint32_t n_tokens, uint32_t block_tokens) {
  uint32_t n_blocks = n_tokens / block_tokens;
  return (struct passage){.n_tokens = tokens ? n_tokens : n_blocks * block_tokens,
                          .n_blocks = n_blocks,
                          .keys = keys,
                          .tokens = tokens,
                          .block_tokens = block_tokens};
}

struct passage passage_cut(const struct passage *passage, uint32_t n_tokens) {
  if (n_tokens >= passage->n_tokens) return *passage;
  return passage_of(passage->keys, passage->tokens, n_tokens, passage->block_tokens);
}

uint32_t passage_common(const struct passage *a, const struct passage *b) {
  uint32_t block = 0, n_blocks = a->n_blocks < b->n_blocks ? a->n_blocks : b->n_blocks;
  while (block < n_blocks && block_key_equal(a->keys[block], b->keys[block])) block++;
  uint32_t at = block * a->block_tokens, n = a->n_tokens < b->n_tokens ? a->n_tokens : b->n_tokens;
  if (!a->tokens || !b->tokens) return at;
  /* Unequal keys over equal tokens are two tenants'. */
  if (block < n_blocks && n >= at + a->block_tokens) n = at + a->block_tokens - 1;
  while (at < n && a->tokens[at] == b->tokens[at]) at++;
  return at;
}
