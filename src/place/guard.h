/* The proven guard of retention: an LRU shadow for each tier, the account of hits against it, and the blocks that it
 * holds and we do not. Knows blocks, not segments. One thread at a time. Owns its metadata.
 *
 * Words: held_k(b): block b lies in tier k or a faster one. Φ_k: blocks of shadow k that are not held_k and not on
 * their way (asked by a request that has not settled yet). A_k = Σ(our leading run of held_k blocks − the shadow's
 * hits) + ε · blocks asked.
 *
 * Claim: if every eviction from tier k that takes c blocks of shadow k out of held_k happens only while A_k − Φ_k ≥ c,
 * then A_k ≥ Φ_k ≥ 0 at every moment, that is: hits ≥ the shadow's hits − ε · blocks asked.
 * Proof. At the start both are 0. An eviction lowers A − Φ by c and leaves it ≥ 0. A request's path is a chain, and
 * both caches are closed under parents (we evict leaf first), so each of their hits is a leading run: our run is
 * shorter than the shadow's by no more than the blocks of the path in Φ. The arrival thus lowers A by at most that
 * number, and raises it by ε · n; the same blocks leave Φ, being on their way. What the shadow drops can only lower Φ.
 * What it takes in is the path itself, on its way too. So A − Φ never falls below 0. A victim with c = 0 always exists
 * when room is needed for an asked block b, with one block a segment and equal sizes: our tier is full with C blocks,
 * the shadow holds at most C and b, which we lack, is among them; so one of our blocks is not in the shadow, and with
 * it none of its descendants (the shadow is closed under parents): a leaf below it has c = 0. Two things can break the
 * premises, and cost what they cost: larger segments and unequal sizes, where such a leaf may not exist (then the least
 * recent leaf goes), and requests that overlap in time, where the shadow counts a block as there that is still being
 * computed. The account then goes below Φ and only victims with c = 0 are free until it recovers. */
#ifndef FORELAY_PLACE_GUARD_H
#define FORELAY_PLACE_GUARD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "domain/block.h"
#include "domain/residence.h"

struct guard;

struct guard_account {
  uint64_t asked_blocks, our_hit_blocks, shadow_hit_blocks;
  uint64_t absent_blocks;   /* Φ */
  uint32_t capacity_blocks; /* of the shadow */
};

/* Shadows start with no capacity: see guard_set_capacity. */
MUST_USE enum status guard_create(double epsilon, uint32_t requests_max, struct guard **ret_guard);
void guard_destroy(struct guard **guard);

/* From now on the tier is compared with an LRU cache of this size that starts empty: the account begins anew. */
MUST_USE enum status guard_set_capacity(struct guard *guard, enum tier tier, uint32_t capacity_blocks);

/* A number for the block, valid until dropped as often as taken. */
MUST_USE enum status guard_take(struct guard *guard, block_key key, uint32_t *ret_block);
void guard_drop(struct guard *guard, uint32_t block);
/* One more or one less copy of a taken block in the tier. */
void guard_enter(struct guard *guard, uint32_t block, enum tier tier);
void guard_leave(struct guard *guard, uint32_t block, enum tier tier);
/* The block has really gone: if no copy is left anywhere, nobody's request will bring it back by itself. */
void guard_revoke(struct guard *guard, uint32_t block);

/* c: blocks of shadow `tier` among blocks[n] whose only copy in that tier or a faster one is the one to leave. */
uint32_t guard_price(const struct guard *guard, const uint32_t *blocks, uint32_t n, enum tier tier);
/* A − Φ. */
double guard_slack(const struct guard *guard, enum tier tier);
struct guard_account guard_account_of(const struct guard *guard, enum tier tier);

/* STATUS_NO_MEMORY: the request is counted for the tiers reached before it, each as a whole. */
MUST_USE enum status guard_arrival(struct guard *guard, uint64_t request, const block_key *keys, uint32_t n);
void guard_settle(struct guard *guard, uint64_t request);

#endif
