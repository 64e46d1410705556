/* Which segments lie in which tiers, as a forest: who is whose parent, who is a leaf where, who is pinned, who was used
 * when. Decides nothing. One thread at a time. Owns its metadata; numbers of segments stay valid while they are known.
 */
#ifndef FORELAY_PLACE_ROSTER_H
#define FORELAY_PLACE_ROSTER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/map.h"
#include "base/status.h"
#include "domain/residence.h"

enum { ROSTER_NONE = UINT32_MAX };

struct roster_copy {
  uint64_t bytes;
  uint32_t n_children; /* present in the same tier */
  uint32_t leaf;       /* place among the tier's leaves, ROSTER_NONE: not a leaf there */
  bool is_present;
  bool is_pinned; /* by order */
};

struct roster_segment {
  uint64_t id;         /* > 0; 0: free */
  uint32_t parent;     /* ROSTER_NONE: begins at token 0, or not told yet */
  uint32_t n_children; /* known ones, wherever they lie */
  uint32_t pins;       /* in flight */
  uint32_t traffic;    /* class of what made it */
  uint32_t n_blocks;
  uint32_t *blocks; /* [n_blocks] numbers that belong to the owner of the roster; NULL while none are known */
  uint64_t stamp;   /* order of last use, roster-wide */
  uint64_t used_us; /* last use, or when it was stored */
  uint64_t asks;    /* uses told */
  double value;     /* as set; meaningful while has_value */
  bool has_value;
  struct roster_copy copies[TIER_COUNT];
};

struct roster_tier {
  uint32_t *leaves; /* [n_leaves]: present, no child present; in no order that may decide anything */
  uint32_t n_leaves;
  uint64_t bytes, pinned_bytes;
};

struct roster {
  struct map *index;               /* id → number */
  struct roster_segment *segments; /* [size] */
  uint32_t size, size_max, free, count;
  uint64_t clock; /* last stamp given */
  struct roster_tier tiers[TIER_COUNT];
};

MUST_USE enum status roster_init(struct roster *roster, uint32_t segments_max);
/* Calls nothing for the blocks: their owner drops them first. */
void roster_release(struct roster *roster);

/* ROSTER_NONE when unknown. */
uint32_t roster_find(const struct roster *roster, uint64_t id);
/* Finds or makes the record. STATUS_FULL, STATUS_NO_MEMORY. */
MUST_USE enum status roster_require(struct roster *roster, uint64_t id, uint32_t *ret_segment);
/* Sets the parent of a segment that has none; false (nothing changed) where that would close a circle. */
bool roster_link(struct roster *roster, uint32_t segment, uint32_t parent);
/* Present or absent in the tier; each only after the other. */
void roster_enter(struct roster *roster, uint32_t segment, enum tier tier, uint64_t bytes);
void roster_leave(struct roster *roster, uint32_t segment, enum tier tier);
/* Lies in any tier. */
bool roster_is_present(const struct roster *roster, uint32_t segment);
/* A record that nothing keeps any more (absent, no known child, no pin) or ROSTER_NONE, looking at the segment itself.
 */
bool roster_is_idle(const struct roster *roster, uint32_t segment);
/* Forgets an idle segment; returns its parent, which may be idle now, or ROSTER_NONE. The caller has dropped its
 * blocks. */
uint32_t roster_forget(struct roster *roster, uint32_t segment);
/* The segment and all above it were used now. */
void roster_touch(struct roster *roster, uint32_t segment, uint64_t now_us);
/* May leave the tier: a leaf there, not pinned, and no child in a faster tier stands on this copy alone. */
bool roster_may_leave(const struct roster *roster, uint32_t segment, enum tier tier);

#endif
