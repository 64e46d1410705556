/* An open-addressing hash map from a 128-bit key to a 64-bit value, of bounded size and deterministic order of work.
 * Never calls back. One thread at a time. Owns its table, not what values point at. */
#ifndef FORELAY_BASE_MAP_H
#define FORELAY_BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

struct map_key {
  uint64_t hi, lo; /* keys are taken as well mixed already (digests); map_key_of() mixes a plain number */
};

struct map;

/* count_max: most entries, 0 for no limit but memory. */
MUST_USE enum status map_create(size_t count_max, struct map **ret_map);
void map_destroy(struct map **map);
struct map_key map_key_of(uint64_t number);
/* Inserts or replaces. STATUS_FULL past count_max, STATUS_NO_MEMORY; nothing changed then. */
MUST_USE enum status map_set(struct map *map, struct map_key key, uint64_t value);
/* true and *ret_value when present; ret_value may be NULL. */
bool map_get(const struct map *map, struct map_key key, uint64_t *ret_value);
/* true when it was there; ret_value may be NULL. */
bool map_remove(struct map *map, struct map_key key, uint64_t *ret_value);
size_t map_count(const struct map *map);
size_t map_bytes(const struct map *map);
/* Walks entries in table order: start with *cursor = 0, false at the end. The map must not change during a walk. */
bool map_next(const struct map *map, size_t *cursor, struct map_key *ret_key, uint64_t *ret_value);

#endif
