/* Metadata-only LRU cache over block keys: what a reactive cache of a given size would hold after the same asks. Leaf
 * first: an ask makes its whole path most recent, the deepest block oldest among them, so that a block never outlives
 * its parent. Never sees state bytes, never calls back. One thread at a time. Owns its blocks. */
#ifndef FORELAY_DOMAIN_SHADOW_H
#define FORELAY_DOMAIN_SHADOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "domain/block.h"

struct shadow;

/* Holds at most capacity_blocks (0 holds nothing and hits nothing). Memory grows with what is held. */
MUST_USE enum status shadow_create(uint32_t capacity_blocks, struct shadow **ret_shadow);
void shadow_destroy(struct shadow **shadow);

/* One request asks for the path keys[n] (root to leaf, chain keys: equal keys have equal parents). *ret_hits: length of
 * the leading run that was held before the call. Afterwards the leading min(n, capacity) blocks are held and are the
 * most recent ones. STATUS_NO_MEMORY leaves the shadow as it was. */
MUST_USE enum status shadow_ask(struct shadow *shadow, const block_key *keys, uint32_t n, uint32_t *ret_hits);

/* Length of the leading run of keys[n] that is held; changes nothing. */
uint32_t shadow_match(const struct shadow *shadow, const block_key *keys, uint32_t n);
bool shadow_contains(const struct shadow *shadow, block_key key);

/* Sets the capacity; what no longer fits leaves in LRU order. STATUS_NO_MEMORY leaves the shadow as it was. */
MUST_USE enum status shadow_resize(struct shadow *shadow, uint32_t capacity_blocks);

/* Blocks that the last shadow_ask or shadow_resize made leave, in the order they left; none of them is held now.
 * Borrowed until the next of those calls. The blocks that an ask brought in are keys[hits … min(n, capacity) − 1]. */
const block_key *shadow_removed(const struct shadow *shadow, uint32_t *ret_count);

uint32_t shadow_count(const struct shadow *shadow);
uint32_t shadow_capacity(const struct shadow *shadow);
size_t shadow_bytes(const struct shadow *shadow);

/* Walks what is held, least recent first: start with *cursor = 0; false at the end. The shadow must not change during a
 * walk. Feeding the keys to shadow_restore in this order rebuilds it. */
bool shadow_next(const struct shadow *shadow, uint32_t *cursor, block_key *ret_key);
/* Makes `key` the most recent block, inserting it where there is room (else STATUS_FULL, nothing changed). */
MUST_USE enum status shadow_restore(struct shadow *shadow, block_key key);

#endif
