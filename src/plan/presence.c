#include "plan/presence.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"

enum { PLACE_NONE = UINT32_MAX, COUNT_BITS = 16, COUNT_MASK = 0xffff };

struct presence {
  presence_change *change;
  void *change_ctx;
  uint32_t segments_max;
  struct held_segment *segments; /* [size]; id 0: free */
  uint32_t size, used;           /* places allocated; places ever used, all below it */
  uint32_t free, count;
  struct map *index;  /* id → place */
  struct map *ends;   /* last block's key → place, of segments in RAM or on SSD */
  struct map *blocks; /* key → how many segments hold it in each tier, 16 bits a tier */
  uint64_t bytes[TIER_COUNT];
};

enum status presence_create(uint32_t segments_max, presence_change *change, void *change_ctx,
                            struct presence **ret_presence) {
  struct presence *presence = calloc(1, sizeof *presence);
  if (!presence) return STATUS_NO_MEMORY;
  presence->segments_max = segments_max;
  presence->change = change;
  presence->change_ctx = change_ctx;
  presence->free = PLACE_NONE;
  enum status status = map_create(segments_max, &presence->index);
  if (status == STATUS_OK) status = map_create(segments_max, &presence->ends);
  if (status == STATUS_OK) status = map_create(0, &presence->blocks);
  if (status != STATUS_OK) {
    presence_destroy(&presence);
    return status;
  }
  *ret_presence = presence;
  return STATUS_OK;
}

void presence_destroy(struct presence **presence) {
  if (!*presence) return;
  struct presence *gone = *presence;
  for (uint32_t i = 0; i < gone->used; i++) free(gone->segments[i].keys);
  free(gone->segments);
  if (gone->index) map_destroy(&gone->index);
  if (gone->ends) map_destroy(&gone->ends);
  if (gone->blocks) map_destroy(&gone->blocks);
  free(gone);
  *presence = NULL;
}

static uint32_t tier_shift(enum tier tier) {
  return ((uint32_t)tier - 1) * COUNT_BITS;
}

static uint64_t block_counts(const struct presence *presence, block_key key) {
  uint64_t counts;
  return map_get(presence->blocks, key, &counts) ? counts : 0;
}

struct held_segment *presence_find(struct presence *presence, uint64_t segment) {
  uint64_t place;
  return map_get(presence->index, map_key_of(segment), &place) ? &presence->segments[place] : NULL;
}

struct held_segment *presence_ending_in(struct presence *presence, block_key key) {
  uint64_t place;
  return map_get(presence->ends, key, &place) ? &presence->segments[place] : NULL;
}

static bool segment_is_stored(const struct held_segment *segment) {
  return segment->bytes[TIER_RAM] || segment->bytes[TIER_SSD] || segment->bytes[TIER_REMOTE];
}

static bool segment_is_anywhere(const struct held_segment *segment) {
  return segment->bytes[TIER_DEVICE] || segment_is_stored(segment);
}

static enum status segment_take(struct presence *presence, const struct segment_event *event,
                                struct held_segment **ret_segment) {
  if (presence->count == presence->segments_max) return STATUS_FULL;
  if (presence->free == PLACE_NONE && presence->used == presence->size) {
    uint32_t size = presence->size ? presence->size * 2 : 256;
    struct held_segment *segments = realloc(presence->segments, (size_t)size * sizeof *segments);
    if (!segments) return STATUS_NO_MEMORY;
    presence->segments = segments;
    presence->size = size;
  }
  block_key *keys = NULL;
  if (event->n_blocks) {
    keys = malloc((size_t)event->n_blocks * sizeof *keys);
    if (!keys) return STATUS_NO_MEMORY;
    memcpy(keys, event->keys, (size_t)event->n_blocks * sizeof *keys);
  }
  uint32_t place = presence->free != PLACE_NONE ? presence->free : presence->used;
  enum status status = map_set(presence->index, map_key_of(event->segment), place);
  if (status != STATUS_OK) {
    free(keys);
    return status;
  }
  if (place == presence->used) {
    presence->used++;
  } else {
    presence->free = presence->segments[place].heir;
  }
  presence->count++;
  presence->segments[place] = (struct held_segment){.id = event->segment,
                                                    .parent = event->parent,
                                                    .task = event->task,
                                                    .tenant = event->tenant,
                                                    .from = event->from,
                                                    .to = event->to,
                                                    .n_blocks = event->n_blocks,
                                                    .keys = keys};
  *ret_segment = &presence->segments[place];
  return STATUS_OK;
}

static void segment_return(struct presence *presence, struct held_segment *segment) {
  uint32_t place = (uint32_t)(segment - presence->segments);
  map_remove(presence->index, map_key_of(segment->id), NULL);
  free(segment->keys);
  *segment = (struct held_segment){.heir = presence->free};
  presence->free = place;
  presence->count--;
}

/* Adds a segment's blocks to a tier; false: out of memory, those added before are taken out again. */
static bool blocks_enter(struct presence *presence, const struct held_segment *segment, enum tier tier) {
  for (uint32_t i = 0; i < segment->n_blocks; i++) {
    uint64_t counts = block_counts(presence, segment->keys[i]);
    assert(((counts >> tier_shift(tier)) & COUNT_MASK) < COUNT_MASK);
    if (map_set(presence->blocks, segment->keys[i], counts + ((uint64_t)1 << tier_shift(tier))) == STATUS_OK) continue;
    while (i-- > 0) {
      counts = block_counts(presence, segment->keys[i]) - ((uint64_t)1 << tier_shift(tier));
      if (!counts) {
        map_remove(presence->blocks, segment->keys[i], NULL);
      } else if (map_set(presence->blocks, segment->keys[i], counts) != STATUS_OK) {
        assert(false); /* replacing needs no memory */
      }
    }
    return false;
  }
  return true;
}

static void blocks_leave(struct presence *presence, const struct held_segment *segment, enum tier tier) {
  for (uint32_t i = segment->n_blocks; i-- > 0;) { /* leaf first, as everything leaves */
    uint64_t counts = block_counts(presence, segment->keys[i]) - ((uint64_t)1 << tier_shift(tier));
    if (counts) {
      enum status status = map_set(presence->blocks, segment->keys[i], counts);
      assert(status == STATUS_OK); /* replacing needs no memory */
      (void)status;
    } else {
      map_remove(presence->blocks, segment->keys[i], NULL);
      if (presence->change) presence->change(presence->change_ctx, segment, segment->keys[i], false);
    }
  }
}

static void blocks_report(struct presence *presence, const struct held_segment *segment, enum tier tier) {
  for (uint32_t i = 0; presence->change && i < segment->n_blocks; i++) {
    bool is_first = block_counts(presence, segment->keys[i]) == (uint64_t)1 << tier_shift(tier);
    if (is_first) presence->change(presence->change_ctx, segment, segment->keys[i], true);
  }
}

static enum status segment_enter(struct presence *presence, const struct segment_event *event) {
  struct held_segment *segment = presence_find(presence, event->segment);
  bool is_new = !segment;
  if (is_new) {
    enum status status = segment_take(presence, event, &segment);
    if (status != STATUS_OK) return status;
  }
  uint64_t bytes = event->bytes ? event->bytes : 1;
  if (segment->bytes[event->tier]) {
    presence->bytes[event->tier] += bytes - segment->bytes[event->tier];
    segment->bytes[event->tier] = bytes;
    return STATUS_OK;
  }
  bool is_entered = blocks_enter(presence, segment, event->tier);
  if (is_entered && event->tier != TIER_DEVICE && segment->n_blocks) {
    uint32_t place = (uint32_t)(segment - presence->segments);
    if (map_set(presence->ends, segment->keys[segment->n_blocks - 1], place) != STATUS_OK) {
      blocks_leave(presence, segment, event->tier);
      is_entered = false;
    }
  }
  if (!is_entered) {
    if (is_new) segment_return(presence, segment);
    return STATUS_NO_MEMORY;
  }
  segment->bytes[event->tier] = bytes;
  presence->bytes[event->tier] += bytes;
  if (event->tier == TIER_SSD) segment->is_demoting = false;
  blocks_report(presence, segment, event->tier);
  return STATUS_OK;
}

static void segment_leave(struct presence *presence, const struct segment_event *event) {
  struct held_segment *segment = presence_find(presence, event->segment);
  if (!segment || !segment->bytes[event->tier]) return;
  presence->bytes[event->tier] -= segment->bytes[event->tier];
  segment->bytes[event->tier] = 0;
  blocks_leave(presence, segment, event->tier);
  if (!segment_is_stored(segment) && segment->n_blocks) {
    uint64_t place;
    block_key end = segment->keys[segment->n_blocks - 1];
    if (map_get(presence->ends, end, &place) && place == (uint64_t)(segment - presence->segments)) {
      map_remove(presence->ends, end, NULL);
    }
  }
  if (!segment_is_anywhere(segment)) segment_return(presence, segment);
}

enum status presence_tell(struct presence *presence, const struct segment_event *event) {
  if (!event->segment || event->tier <= TIER_NONE || event->tier >= TIER_COUNT) return STATUS_INVALID;
  if (event->is_present) return segment_enter(presence, event);
  segment_leave(presence, event);
  return STATUS_OK;
}

enum tier presence_tier(const struct presence *presence, block_key key) {
  uint64_t counts = block_counts(presence, key);
  for (int tier = TIER_DEVICE; tier < TIER_COUNT; tier++) {
    if ((counts >> tier_shift((enum tier)tier)) & COUNT_MASK) return (enum tier)tier;
  }
  return TIER_NONE;
}

bool presence_holds(const struct presence *presence, enum tier tier, block_key key) {
  return (block_counts(presence, key) >> tier_shift(tier)) & COUNT_MASK;
}

uint32_t presence_match(const struct presence *presence, const block_key *keys, uint32_t n, enum tier slowest) {
  uint32_t matched = 0;
  while (matched < n) {
    enum tier tier = presence_tier(presence, keys[matched]);
    if (tier == TIER_NONE || tier > slowest) break;
    matched++;
  }
  return matched;
}

uint32_t presence_place(const struct presence *presence, const struct held_segment *segment) {
  return (uint32_t)(segment - presence->segments);
}

struct held_segment *presence_at(struct presence *presence, uint32_t place) {
  return &presence->segments[place];
}

uint32_t presence_prefix(struct presence *presence, const struct held_segment *segment, block_key *ret_keys,
                         uint32_t max) {
  uint32_t total = 0, steps = 0;
  const struct held_segment *at = segment;
  for (; at; at = at->parent ? presence_find(presence, at->parent) : NULL) {
    total += at->n_blocks;
    if (total > max || ++steps > max) return 0;
    if (!at->parent) break;
  }
  if (!at) return 0;
  uint32_t end = total;
  for (at = segment; at && end > 0; at = at->parent ? presence_find(presence, at->parent) : NULL) {
    end -= at->n_blocks;
    if (at->n_blocks) memcpy(&ret_keys[end], at->keys, (size_t)at->n_blocks * sizeof *ret_keys);
  }
  return total;
}

uint64_t presence_bytes(const struct presence *presence, enum tier tier) {
  return presence->bytes[tier];
}

uint32_t presence_count(const struct presence *presence) {
  return presence->count;
}

struct held_segment *presence_next(struct presence *presence, uint32_t *cursor) {
  while (*cursor < presence->used) {
    struct held_segment *segment = &presence->segments[(*cursor)++];
    if (segment->id) return segment;
  }
  return NULL;
}
