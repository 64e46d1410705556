/* A store of states that is only imagined: which segments RAM and SSD would hold after what was kept and what had to
 * leave, by the retention order that ships. Metadata only; cut, matched and extended as store/ does it: runs of at most
 * a segment's tokens, every token compared. One thread at a time. Owns its segments and its retention. */
#ifndef FORELAY_PLAN_SHELF_H
#define FORELAY_PLAN_SHELF_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "domain/block.h"
#include "domain/residence.h"
#include "place/retention.h"
#include "plan/passage.h"

struct shelf;

struct shelf_config {
  enum retention_policy policy;
  double epsilon;
  uint64_t ram_bytes, ssd_bytes; /* capacities; may be 0 */
  uint64_t ssd_writes_bytes_per_day;
  uint64_t bytes_per_token;
  uint32_t block_tokens;
  uint32_t segments_max;
  /* Both may be NULL: then nothing has a value. Node of the forest of each of keys[n], 0 where there is none. */
  void (*nodes)(void *value_ctx, const block_key *keys, uint32_t n, uint32_t *ret_nodes);
  /* Worth of keeping this block (the n-th of its prefix, from 0) in USD a byte; corrects *node. */
  double (*value)(void *value_ctx, uint32_t *node, block_key key, uint32_t n);
  void *value_ctx;
};

MUST_USE enum status shelf_create(const struct shelf_config *config, struct shelf **ret_shelf);
void shelf_destroy(struct shelf **shelf);
/* What no longer fits leaves. The guard of its retention keeps the size that it began with. */
void shelf_resize(struct shelf *shelf, uint64_t ram_bytes, uint64_t ssd_bytes, uint64_t now_us);

/* Leading tokens that lie here. */
uint32_t shelf_match(const struct shelf *shelf, const struct passage *passage);
/* Leading tokens of it that RAM has in whole segments: what a copy would not have to bring again. */
uint32_t shelf_kept(const struct shelf *shelf, const struct passage *passage);
/* A request for it has come: settles the guard's account, and makes what lies here of it most recent. */
MUST_USE enum status shelf_ask(struct shelf *shelf, uint64_t request, const struct passage *passage, uint64_t now_us);
/* It has been served, in this turn of a conversation (0: none): what lies here of it becomes most recent, and what was
 * asked for twice or is a conversation from its second turn on is written to SSD. */
MUST_USE enum status shelf_use(struct shelf *shelf, const struct passage *passage, uint32_t turn, uint64_t now_us);
/* The request has ended. */
void shelf_settle(struct shelf *shelf, uint64_t request);
/* Keeps all of it in TIER_RAM or TIER_SSD, or what of it is there already where the rest cannot find room. */
MUST_USE enum status shelf_keep(struct shelf *shelf, const struct passage *passage, enum tier tier, uint64_t now_us);
/* As shelf_keep on SSD, of what an earlier life wrote there. */
MUST_USE enum status shelf_adopt(struct shelf *shelf, const struct passage *passage, uint64_t now_us);
/* Values n more segments anew, in turn. */
void shelf_revalue(struct shelf *shelf, uint32_t n);
uint64_t shelf_bytes(const struct shelf *shelf, enum tier tier);

#endif
