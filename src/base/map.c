#include "base/map.h"

#include <stdlib.h>

/* Linear probing with backward-shift deletion: no tombstones, so a table that lives long stays as fast as a new one. */
struct slot {
  struct map_key key;
  uint64_t value;
  bool is_used;
};

struct map {
  struct slot *slots; /* [mask + 1] */
  size_t mask, count, count_max;
};

enum { SLOTS_MIN = 16 };

struct map_key map_key_of(uint64_t number) {
  /* Two rounds of splitmix64. */
  uint64_t parts[2];
  for (int i = 0; i < 2; i++) {
    uint64_t z = (number += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    parts[i] = z ^ (z >> 31);
  }
  return (struct map_key){parts[0], parts[1]};
}

static bool is_equal(struct map_key a, struct map_key b) {
  return a.hi == b.hi && a.lo == b.lo;
}

static size_t home_of(const struct map *map, struct map_key key) {
  return (size_t)(key.lo ^ (key.hi >> 32)) & map->mask;
}

enum status map_create(size_t count_max, struct map **ret_map) {
  struct map *map = calloc(1, sizeof *map);
  struct slot *slots = calloc(SLOTS_MIN, sizeof *slots);
  if (map == NULL || slots == NULL) {
    free(map);
    free(slots);
    return STATUS_NO_MEMORY;
  }
  *map = (struct map){.slots = slots, .mask = SLOTS_MIN - 1, .count_max = count_max};
  *ret_map = map;
  return STATUS_OK;
}

void map_destroy(struct map **map) {
  if (*map == NULL) return;
  free((*map)->slots);
  free(*map);
  *map = NULL;
}

/* The slot that holds the key, or the free one where it belongs. */
static size_t find(const struct map *map, struct map_key key) {
  size_t at = home_of(map, key);
  while (map->slots[at].is_used && !is_equal(map->slots[at].key, key)) at = (at + 1) & map->mask;
  return at;
}

static enum status grow(struct map *map) {
  size_t slots_count = (map->mask + 1) * 2;
  struct map larger = {.slots = calloc(slots_count, sizeof *map->slots), .mask = slots_count - 1};
  if (larger.slots == NULL) return STATUS_NO_MEMORY;
  for (size_t i = 0; i <= map->mask; i++)
    if (map->slots[i].is_used) larger.slots[find(&larger, map->slots[i].key)] = map->slots[i];
  free(map->slots);
  map->slots = larger.slots;
  map->mask = larger.mask;
  return STATUS_OK;
}

enum status map_set(struct map *map, struct map_key key, uint64_t value) {
  size_t at = find(map, key);
  if (map->slots[at].is_used) {
    map->slots[at].value = value;
    return STATUS_OK;
  }
  if (map->count_max > 0 && map->count >= map->count_max) return STATUS_FULL;
  if ((map->count + 1) * 4 > (map->mask + 1) * 3) {
    enum status status = grow(map);
    if (status != STATUS_OK) return status;
    at = find(map, key);
  }
  map->slots[at] = (struct slot){key, value, true};
  map->count++;
  return STATUS_OK;
}

bool map_get(const struct map *map, struct map_key key, uint64_t *ret_value) {
  const struct slot *slot = &map->slots[find(map, key)];
  if (slot->is_used && ret_value != NULL) *ret_value = slot->value;
  return slot->is_used;
}

bool map_remove(struct map *map, struct map_key key, uint64_t *ret_value) {
  size_t hole = find(map, key);
  if (!map->slots[hole].is_used) return false;
  if (ret_value != NULL) *ret_value = map->slots[hole].value;
  for (size_t at = (hole + 1) & map->mask; map->slots[at].is_used; at = (at + 1) & map->mask) {
    size_t home = home_of(map, map->slots[at].key);
    /* Whoever would be found from `home` through the hole moves into it. */
    if (((at - home) & map->mask) >= ((at - hole) & map->mask)) {
      map->slots[hole] = map->slots[at];
      hole = at;
    }
  }
  map->slots[hole].is_used = false;
  map->count--;
  return true;
}

size_t map_count(const struct map *map) {
  return map->count;
}

size_t map_bytes(const struct map *map) {
  return sizeof *map + (map->mask + 1) * sizeof *map->slots;
}

bool map_next(const struct map *map, size_t *cursor, struct map_key *ret_key, uint64_t *ret_value) {
  for (; *cursor <= map->mask; (*cursor)++) {
    const struct slot *slot = &map->slots[*cursor];
    if (!slot->is_used) continue;
    if (ret_key != NULL) *ret_key = slot->key;
    if (ret_value != NULL) *ret_value = slot->value;
    (*cursor)++;
    return true;
  }
  return false;
}
