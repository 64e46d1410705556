#include "place/roster.h"

#include <assert.h>
#include <stdlib.h>

enum status roster_init(struct roster *roster, uint32_t segments_max) {
  *roster = (struct roster){.size_max = segments_max, .free = ROSTER_NONE};
  return map_create(segments_max, &roster->index);
}

void roster_release(struct roster *roster) {
  map_destroy(&roster->index);
  for (uint32_t i = 0; i < roster->size; i++) free(roster->segments[i].blocks);
  for (int tier = 0; tier < TIER_COUNT; tier++) free(roster->tiers[tier].leaves);
  free(roster->segments);
  *roster = (struct roster){0};
}

uint32_t roster_find(const struct roster *roster, uint64_t id) {
  uint64_t number;
  return map_get(roster->index, map_key_of(id), &number) ? (uint32_t)number : ROSTER_NONE;
}

/* Room for more records, and for each of them among the leaves of each tier. */
static enum status roster_grow(struct roster *roster) {
  if (roster->size == roster->size_max) return STATUS_FULL;
  uint32_t size = roster->size ? roster->size : 32;
  size = size > roster->size_max / 2 ? roster->size_max : size * 2;
  for (int tier = TIER_DEVICE; tier < TIER_COUNT; tier++) {
    uint32_t *leaves = realloc(roster->tiers[tier].leaves, (size_t)size * sizeof *leaves);
    if (!leaves) return STATUS_NO_MEMORY;
    roster->tiers[tier].leaves = leaves;
  }
  struct roster_segment *segments = realloc(roster->segments, (size_t)size * sizeof *segments);
  if (!segments) return STATUS_NO_MEMORY;
  roster->segments = segments;
  for (uint32_t i = size; i-- > roster->size;) {
    segments[i] = (struct roster_segment){.parent = roster->free};
    roster->free = i;
  }
  roster->size = size;
  return STATUS_OK;
}

enum status roster_require(struct roster *roster, uint64_t id, uint32_t *ret_segment) {
  uint32_t number = roster_find(roster, id);
  if (number == ROSTER_NONE) {
    enum status status = roster->free == ROSTER_NONE ? roster_grow(roster) : STATUS_OK;
    if (status == STATUS_OK) status = map_set(roster->index, map_key_of(id), roster->free);
    if (status != STATUS_OK) return status;
    number = roster->free;
    roster->free = roster->segments[number].parent;
    roster->segments[number] = (struct roster_segment){.id = id, .parent = ROSTER_NONE};
    for (int tier = 0; tier < TIER_COUNT; tier++) roster->segments[number].copies[tier].leaf = ROSTER_NONE;
    roster->count++;
  }
  *ret_segment = number;
  return STATUS_OK;
}

static void leaf_add(struct roster *roster, uint32_t segment, int tier) {
  struct roster_tier *place = &roster->tiers[tier];
  roster->segments[segment].copies[tier].leaf = place->n_leaves;
  place->leaves[place->n_leaves++] = segment;
}

static void leaf_remove(struct roster *roster, uint32_t segment, int tier) {
  struct roster_tier *place = &roster->tiers[tier];
  uint32_t at = roster->segments[segment].copies[tier].leaf, last = place->leaves[--place->n_leaves];
  place->leaves[at] = last;
  roster->segments[last].copies[tier].leaf = at;
  roster->segments[segment].copies[tier].leaf = ROSTER_NONE;
}

/* One child more (+1) or less (−1) of `parent` in the tier. */
static void child_count(struct roster *roster, uint32_t parent, int tier, int sign) {
  if (parent == ROSTER_NONE) return;
  struct roster_copy *copy = &roster->segments[parent].copies[tier];
  copy->n_children += (uint32_t)sign;
  if (!copy->is_present) return;
  if (sign > 0 && copy->n_children == 1) leaf_remove(roster, parent, tier);
  if (sign < 0 && copy->n_children == 0) leaf_add(roster, parent, tier);
}

bool roster_link(struct roster *roster, uint32_t segment, uint32_t parent) {
  uint32_t above = parent;
  if (roster->segments[segment].n_children > 0) { /* else nothing above it can be below it */
    while (above != ROSTER_NONE && above != segment) above = roster->segments[above].parent;
  }
  if (above == segment) return false;
  assert(roster->segments[segment].parent == ROSTER_NONE);
  roster->segments[segment].parent = parent;
  roster->segments[parent].n_children++;
  for (int tier = TIER_DEVICE; tier < TIER_COUNT; tier++) {
    if (roster->segments[segment].copies[tier].is_present) child_count(roster, parent, tier, 1);
  }
  return true;
}

void roster_enter(struct roster *roster, uint32_t segment, enum tier tier, uint64_t bytes) {
  struct roster_copy *copy = &roster->segments[segment].copies[tier];
  assert(!copy->is_present);
  copy->is_present = true;
  copy->bytes = bytes;
  roster->tiers[tier].bytes += bytes;
  if (copy->is_pinned) roster->tiers[tier].pinned_bytes += bytes;
  if (copy->n_children == 0) leaf_add(roster, segment, tier);
  child_count(roster, roster->segments[segment].parent, tier, 1);
}

void roster_leave(struct roster *roster, uint32_t segment, enum tier tier) {
  struct roster_copy *copy = &roster->segments[segment].copies[tier];
  assert(copy->is_present);
  copy->is_present = false;
  roster->tiers[tier].bytes -= copy->bytes;
  if (copy->is_pinned) roster->tiers[tier].pinned_bytes -= copy->bytes;
  if (copy->leaf != ROSTER_NONE) leaf_remove(roster, segment, tier);
  child_count(roster, roster->segments[segment].parent, tier, -1);
}

bool roster_is_present(const struct roster *roster, uint32_t segment) {
  for (int tier = TIER_DEVICE; tier < TIER_COUNT; tier++) {
    if (roster->segments[segment].copies[tier].is_present) return true;
  }
  return false;
}

bool roster_is_idle(const struct roster *roster, uint32_t segment) {
  const struct roster_segment *record = &roster->segments[segment];
  return record->n_children == 0 && record->pins == 0 && !roster_is_present(roster, segment);
}

uint32_t roster_forget(struct roster *roster, uint32_t segment) {
  struct roster_segment *record = &roster->segments[segment];
  assert(roster_is_idle(roster, segment));
  uint32_t parent = record->parent;
  if (parent != ROSTER_NONE) roster->segments[parent].n_children--;
  map_remove(roster->index, map_key_of(record->id), NULL);
  free(record->blocks);
  *record = (struct roster_segment){.parent = roster->free};
  roster->free = segment;
  roster->count--;
  return parent;
}

void roster_touch(struct roster *roster, uint32_t segment, uint64_t now_us) {
  uint64_t stamp = ++roster->clock;
  for (uint32_t at = segment; at != ROSTER_NONE; at = roster->segments[at].parent) {
    roster->segments[at].stamp = stamp;
    roster->segments[at].used_us = now_us;
    roster->segments[at].asks++;
  }
}

bool roster_may_leave(const struct roster *roster, uint32_t segment, enum tier tier) {
  const struct roster_segment *record = &roster->segments[segment];
  const struct roster_copy *copy = &record->copies[tier];
  if (copy->leaf == ROSTER_NONE || copy->is_pinned || record->pins > 0) return false;
  bool has_faster_child = false, has_other_copy = false;
  for (int other = TIER_DEVICE; other < TIER_COUNT; other++) {
    if (other < (int)tier) has_faster_child = has_faster_child || record->copies[other].n_children > 0;
    if (other != (int)tier) has_other_copy = has_other_copy || record->copies[other].is_present;
  }
  return has_other_copy || !has_faster_child;
}
