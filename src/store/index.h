/* What is ready where: a tree of segments for each tenant, compared token by token. Metadata only; never touches bytes.
 * Loop thread only. Owns copies of the token ids, bounded. */
#ifndef FORELAY_STORE_INDEX_H
#define FORELAY_STORE_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "domain/block.h"
#include "domain/residence.h"

struct index;

enum { INDEX_MATCH_MAX = 512 }; /* segments of one match: 65,536 tokens */

struct index_range {
  uint32_t from, to; /* tokens */
};

struct index_use {
  uint64_t segment;
  uint32_t from, tokens; /* of its tokens the first so many are used */
  enum tier tier;        /* fastest that has it: RAM or SSD */
};

struct index_match {
  uint32_t tokens; /* usable in all */
  uint32_t n;      /* of uses */
  uint64_t task;   /* newest preparation among them, 0: none */
  struct index_use uses[INDEX_MATCH_MAX];
};

/* One segment as others see it. tokens borrowed until the index changes. */
struct index_entry {
  uint64_t id, parent, task;
  uint32_t tenant, from, to;
  block_key key, parent_key;
  const int32_t *tokens;      /* [to − from] */
  uint64_t bytes[TIER_COUNT]; /* 0: absent */
  uint32_t exact_tokens[TIER_COUNT]; /* of the chain up to `to`, so many are canonical in that tier's copy */
  uint32_t pins, children;
};

MUST_USE enum status index_create(uint64_t bytes_max, struct index **ret_index);
void index_destroy(struct index **index);

/* Longest chain of present segments that the prompt begins with, every token compared. At most n − 1 tokens; is_exact:
 * canonical tokens only, and at most n − 65 of them or exactly n − 1. Does not pin. */
void index_match(const struct index *index, uint32_t tenant, const int32_t *tokens, uint32_t n, bool is_exact,
                 struct index_match *ret_match);
/* Ranges of tokens[n] that `tier` lacks, or has less canonical than the first exact_tokens of them. */
uint32_t index_missing(const struct index *index, uint32_t tenant, const int32_t *tokens, uint32_t n, uint32_t exact_tokens,
                       enum tier tier, struct index_range *ret_ranges, uint32_t max);
/* The segment whose chain is exactly tokens[0, upto), upto a multiple of SEGMENT_TOKENS; 0: none (or upto is 0). */
uint64_t index_find(const struct index *index, uint32_t tenant, const int32_t *tokens, uint32_t upto);
/* Adds a segment behind `parent` (0: from is 0), present nowhere yet; tokens[to − from] are its own, copied. Equal
 * content gives the id it has. STATUS_INVALID: no such parent, or one that does not end at `from`; STATUS_FULL: past
 * bytes_max; STATUS_NO_MEMORY. */
MUST_USE enum status index_add(struct index *index, uint32_t tenant, uint64_t parent, const int32_t *tokens,
                               uint32_t from, uint32_t to, block_key key, block_key parent_key, uint64_t task,
                               uint64_t *ret_id);
MUST_USE enum status index_get(const struct index *index, uint64_t id, struct index_entry *ret_entry);
/* bytes 0: gone from the tier. exact_tokens: of what came. */
void index_set_tier(struct index *index, uint64_t id, enum tier tier, uint64_t bytes, uint32_t exact_tokens);
/* Canonical tokens of the copy that a match would use: RAM's, else SSD's. */
uint32_t index_exact_tokens(const struct index_entry *entry);
/* Removes an entry without tiers, pins and children; false: it has some. */
bool index_remove(struct index *index, uint64_t id);
void index_pin(struct index *index, uint64_t id);
void index_unpin(struct index *index, uint64_t id);
/* Children of `parent` (0 with `tenant`: roots) that are present in `tier`. */
uint32_t index_children(const struct index *index, uint64_t parent, enum tier tier);
/* The longest leaf without pins behind `parent` that is a true prefix of tokens[n], 0: none. */
uint64_t index_shorter(const struct index *index, uint32_t tenant, uint64_t parent, const int32_t *tokens, uint32_t n);
/* The segments of a subtree, children before parents, at most max. */
size_t index_subtree(const struct index *index, uint64_t id, uint64_t *ret_ids, size_t max);
/* Parents before children. each() must not change the index. */
void index_each(const struct index *index, uint32_t tenant, void (*each)(void *ctx, const struct index_entry *entry),
                void *ctx);
size_t index_count(const struct index *index);
uint64_t index_bytes(const struct index *index);

#endif
