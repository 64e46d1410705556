/* What lies where: the segments that the store and the engine's sequences hold, as told by events, and from them the
 * tiers of every block. Metadata only; never decides what stays. One thread at a time. Owns copies of the keys. */
#ifndef FORELAY_PLAN_PRESENCE_H
#define FORELAY_PLAN_PRESENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "domain/observation.h"
#include "domain/residence.h"

struct presence;

struct held_segment {
  uint64_t id, parent, task;
  uint32_t tenant;
  uint32_t from, to; /* tokens */
  uint32_t n_blocks;
  block_key *keys;            /* [n_blocks], owned by presence */
  uint64_t bytes[TIER_COUNT]; /* 0 where it does not lie */
  uint32_t asks;              /* requests that were served through it */
  uint32_t turn;              /* highest turn of a conversation among them */
  bool is_wanted_on_ssd;      /* asked for twice, a conversation from turn 2, pinned or ordered */
  bool is_demoting;           /* a DEMOTE was handed out and has not been answered */
  uint32_t node;              /* of the forest, where its last block was last found; 0: not known */
  uint64_t used_us;           /* stored or last asked */
  double value_usd_per_byte;  /* as last valued */
  uint32_t heir;              /* scratch of presence: next free place */
};

/* A block came to lie somewhere, or lies nowhere any more. */
typedef void presence_change(void *ctx, const struct held_segment *segment, block_key key, bool is_held);

MUST_USE enum status presence_create(uint32_t segments_max, presence_change *change, void *change_ctx,
                                     struct presence **ret_presence);
void presence_destroy(struct presence **presence);

/* Telling the same twice is harmless; the bytes last told count. STATUS_FULL: segments_max, STATUS_INVALID: id 0 or a
 * tier out of range, STATUS_NO_MEMORY; nothing changed then. A segment that is not known cannot leave: STATUS_OK. */
MUST_USE enum status presence_tell(struct presence *presence, const struct segment_event *event);

/* Borrowed until the next presence_tell; NULL when unknown. The caller may change asks, turn and the two flags. */
struct held_segment *presence_find(struct presence *presence, uint64_t segment);
/* The segment in RAM or on SSD that ends with this block; NULL when none does. */
struct held_segment *presence_ending_in(struct presence *presence, block_key key);
/* Fastest tier of a block; TIER_NONE when it lies nowhere. */
enum tier presence_tier(const struct presence *presence, block_key key);
bool presence_holds(const struct presence *presence, enum tier tier, block_key key);
/* Leading blocks that lie in some tier not slower than `slowest`. */
uint32_t presence_match(const struct presence *presence, const block_key *keys, uint32_t n, enum tier slowest);

/* Places are small numbers below segments_max, for heaps; they stay for as long as the segment lies anywhere. */
uint32_t presence_place(const struct presence *presence, const struct held_segment *segment);
struct held_segment *presence_at(struct presence *presence, uint32_t place);
/* Keys of the whole prefix up to the segment's end, through its parents, at most max; 0 when a parent is not known. */
uint32_t presence_prefix(struct presence *presence, const struct held_segment *segment, block_key *ret_keys,
                         uint32_t max);
uint64_t presence_bytes(const struct presence *presence, enum tier tier);
uint32_t presence_count(const struct presence *presence);
/* Walks segments in a fixed order: start with *cursor = 0; NULL at the end. No presence_tell during a walk. */
struct held_segment *presence_next(struct presence *presence, uint32_t *cursor);

#endif
