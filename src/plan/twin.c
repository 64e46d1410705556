#include "plan/twin.h"

#include <stdlib.h>

#include "base/map.h"

enum { VICTIMS_MAX = 256, PLACE_NONE = UINT32_MAX };

struct twin_block {
  block_key key;
  uint32_t depth; /* n-th block of its prefix, from 0 */
  uint32_t node;  /* of the forest, where it was last found */
  uint32_t next_free;
  bool is_held;
};

struct twin {
  struct twin_config config;
  struct retention *retention;
  struct map *index;         /* key → place */
  struct twin_block *blocks; /* [capacity]; its segment's number is place + 1 */
  uint32_t used, free, count;
  uint32_t revalued; /* place that twin_revalue goes on from */
  uint32_t *nodes;   /* [nodes_size]: scratch of one ask */
  uint32_t nodes_size;
};

enum status twin_create(const struct twin_config *config, struct twin **ret_twin) {
  struct twin *twin = calloc(1, sizeof *twin);
  if (!twin) return STATUS_NO_MEMORY;
  twin->config = *config;
  twin->free = PLACE_NONE;
  uint32_t capacity = config->capacity_blocks;
  struct retention_settings settings;
  retention_settings_init(&settings);
  settings.policy = config->policy;
  settings.epsilon = config->epsilon;
  settings.capacity_bytes[TIER_RAM] = (uint64_t)capacity * config->block_bytes;
  settings.block_bytes = config->block_bytes;
  settings.grace_us = 1; /* every block is valued when it comes */
  settings.segments_max = capacity ? capacity : 1;
  enum status status = retention_create(&settings, NULL, &twin->retention);
  if (status == STATUS_OK) status = map_create(0, &twin->index);
  if (status == STATUS_OK && capacity) {
    twin->blocks = calloc(capacity, sizeof *twin->blocks);
    if (!twin->blocks) status = STATUS_NO_MEMORY;
  }
  if (status != STATUS_OK) {
    twin_destroy(&twin);
    return status;
  }
  *ret_twin = twin;
  return STATUS_OK;
}

void twin_destroy(struct twin **twin) {
  if (!*twin) return;
  if ((*twin)->retention) retention_destroy(&(*twin)->retention);
  if ((*twin)->index) map_destroy(&(*twin)->index);
  free((*twin)->blocks);
  free((*twin)->nodes);
  free(*twin);
  *twin = NULL;
}

static bool block_find(const struct twin *twin, block_key key, uint32_t *ret_place) {
  uint64_t place;
  if (!map_get(twin->index, key, &place)) return false;
  *ret_place = (uint32_t)place;
  return true;
}

static void block_drop(struct twin *twin, uint32_t place) {
  (void)!retention_gone(twin->retention, (uint64_t)place + 1, TIER_RAM);
  map_remove(twin->index, twin->blocks[place].key, NULL);
  twin->blocks[place] = (struct twin_block){.next_free = twin->free};
  twin->free = place;
  twin->count--;
}

/* Room for as many of `blocks` as can be had. */
static void room_make(struct twin *twin, uint32_t blocks, uint64_t now_us) {
  uint32_t room = twin->config.capacity_blocks - twin->count;
  while (room < blocks) {
    uint64_t victims[VICTIMS_MAX], bytes;
    uint32_t n, missing = blocks - room;
    struct retention_need need = {.tier = TIER_RAM, .bytes = (uint64_t)missing * twin->config.block_bytes};
    retention_choose_victims(twin->retention, &need, now_us, victims, VICTIMS_MAX, &n, &bytes);
    if (!n) return;
    for (uint32_t i = 0; i < n; i++) block_drop(twin, (uint32_t)(victims[i] - 1));
    room += n;
  }
}

static enum status block_add(struct twin *twin, const block_key *keys, uint32_t depth, uint64_t now_us) {
  uint32_t place = twin->free != PLACE_NONE ? twin->free : twin->used, parent = PLACE_NONE;
  if (depth > 0 && !block_find(twin, keys[depth - 1], &parent)) return STATUS_NOT_FOUND;
  enum status status = map_set(twin->index, keys[depth], place);
  if (status != STATUS_OK) return status;
  uint32_t next_free = place == twin->used ? PLACE_NONE : twin->blocks[place].next_free;
  struct segment_event event = {.at_us = now_us,
                                .segment = (uint64_t)place + 1,
                                .parent = depth > 0 ? (uint64_t)parent + 1 : 0,
                                .tier = TIER_RAM,
                                .is_present = true,
                                .from = depth,
                                .to = depth + 1,
                                .bytes = twin->config.block_bytes,
                                .n_blocks = 1,
                                .keys = &keys[depth]};
  status = retention_stored(twin->retention, &event, 0);
  if (status != STATUS_OK) {
    map_remove(twin->index, keys[depth], NULL);
    return status;
  }
  if (place == twin->used) {
    twin->used++;
  } else {
    twin->free = next_free;
  }
  twin->blocks[place] = (struct twin_block){.key = keys[depth], .depth = depth, .is_held = true};
  twin->count++;
  return STATUS_OK;
}

/* Values the held blocks of the path, one question for each node of the forest. */
static enum status path_value(struct twin *twin, const block_key *keys, uint32_t n) {
  if (!twin->config.value || twin->config.policy != RETENTION_VALUE || !n) return STATUS_OK;
  if (n > twin->nodes_size) {
    uint32_t *nodes = realloc(twin->nodes, (size_t)n * sizeof *nodes);
    if (!nodes) return STATUS_NO_MEMORY;
    twin->nodes = nodes;
    twin->nodes_size = n;
  }
  twin->config.nodes(twin->config.value_ctx, keys, n, twin->nodes);
  double value = 0;
  for (uint32_t i = n; i-- > 0;) {
    if (i + 1 == n || twin->nodes[i] != twin->nodes[i + 1]) {
      value = twin->config.value(twin->config.value_ctx, &twin->nodes[i], keys[i], i);
    }
    uint32_t place;
    if (!block_find(twin, keys[i], &place)) continue;
    twin->blocks[place].node = twin->nodes[i];
    (void)!retention_set_value(twin->retention, (uint64_t)place + 1, value);
  }
  return STATUS_OK;
}

enum status twin_ask(struct twin *twin, uint64_t request, const block_key *keys, uint32_t n, bool may_learn,
                     uint64_t now_us, uint32_t *ret_hits) {
  uint32_t hits = 0, place;
  while (hits < n && block_find(twin, keys[hits], &place)) hits++;
  *ret_hits = hits;
  if (!may_learn || !twin->config.capacity_blocks) return STATUS_OK;
  enum status status = retention_arrival(twin->retention, request, keys, n);
  if (status != STATUS_OK) return status;
  uint32_t kept = n < twin->config.capacity_blocks ? n : twin->config.capacity_blocks;
  if (hits > 0 && block_find(twin, keys[hits - 1], &place)) {
    retention_touch(twin->retention, (uint64_t)place + 1, now_us);
    /* What the request uses stays while room is made for the rest of it. */
    if ((status = retention_pin(twin->retention, (uint64_t)place + 1)) != STATUS_OK) return status;
  }
  if (kept > hits) room_make(twin, kept - hits, now_us);
  if (hits > 0) retention_unpin(twin->retention, (uint64_t)place + 1);
  for (uint32_t i = hits; i < kept && twin->count < twin->config.capacity_blocks && status == STATUS_OK; i++) {
    status = block_add(twin, keys, i, now_us);
  }
  retention_settle(twin->retention, request);
  enum status valued = path_value(twin, keys, kept);
  return status != STATUS_OK ? status : valued;
}

void twin_revalue(struct twin *twin, uint32_t n) {
  if (!twin->config.value || twin->config.policy != RETENTION_VALUE || !twin->used) return;
  for (uint32_t i = 0; i < n && i < twin->used; i++) {
    twin->revalued = (twin->revalued + 1) % twin->used;
    struct twin_block *block = &twin->blocks[twin->revalued];
    if (!block->is_held) continue;
    double value = twin->config.value(twin->config.value_ctx, &block->node, block->key, block->depth);
    (void)!retention_set_value(twin->retention, (uint64_t)twin->revalued + 1, value);
  }
}

uint32_t twin_count(const struct twin *twin) {
  return twin->count;
}
