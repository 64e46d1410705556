/* S1: what our retention would have held without any preparation, simulated over metadata. Fed by arrivals only, of the
 * full capacity, with the same retention order and the same values as the real cache, one block a segment. Never
 * touches real state. One thread at a time. Owns its own retention. */
#ifndef FORELAY_PLAN_TWIN_H
#define FORELAY_PLAN_TWIN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "domain/block.h"
#include "place/retention.h"

struct twin;

struct twin_config {
  enum retention_policy policy;
  double epsilon;
  uint64_t block_bytes;     /* ≥ 1 */
  uint32_t capacity_blocks; /* may be 0 */
  /* Both may be NULL: then nothing has a value. Node of the forest of each of keys[n], 0 where there is none. */
  void (*nodes)(void *value_ctx, const block_key *keys, uint32_t n, uint32_t *ret_nodes);
  /* Worth of keeping this block (the n-th of its prefix, from 0) in USD a byte; corrects *node. */
  double (*value)(void *value_ctx, uint32_t *node, block_key key, uint32_t n);
  void *value_ctx;
};

MUST_USE enum status twin_create(const struct twin_config *config, struct twin **ret_twin);
void twin_destroy(struct twin **twin);
/* A request asks for keys[n]; *ret_hits: leading blocks it would have found. may_learn false: nothing is kept. */
MUST_USE enum status twin_ask(struct twin *twin, uint64_t request, const block_key *keys, uint32_t n, bool may_learn,
                              uint64_t now_us, uint32_t *ret_hits);
/* Values n more blocks anew, in turn. */
void twin_revalue(struct twin *twin, uint32_t n);
uint32_t twin_count(const struct twin *twin);

#endif
