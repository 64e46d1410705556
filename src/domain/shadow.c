#include "domain/shadow.h"

#include <assert.h>
#include <stdlib.h>

enum { NODE_NONE = UINT32_MAX };

struct node {
  block_key key;
  uint32_t newer, older; /* neighbours in order of use, NODE_NONE at the ends; older chains the free nodes */
  bool is_linked;        /* false only inside shadow_ask, and while free */
};

struct shadow {
  struct map *index;   /* key → number of its node; one entry for each node in use */
  struct node *nodes;  /* [nodes_size] */
  uint32_t nodes_size; /* allocated */
  uint32_t free;       /* first free node, NODE_NONE when none */
  uint32_t newest, oldest;
  uint32_t count; /* linked nodes; ≤ capacity outside of calls */
  uint32_t capacity;
  block_key *removed; /* [removed_size] */
  uint32_t removed_count, removed_size;
};

enum status shadow_create(uint32_t capacity_blocks, struct shadow **ret_shadow) {
  struct shadow *shadow = calloc(1, sizeof *shadow);
  if (!shadow) return STATUS_NO_MEMORY;
  enum status status = map_create(0, &shadow->index);
  if (status != STATUS_OK) {
    free(shadow);
    return status;
  }
  shadow->free = shadow->newest = shadow->oldest = NODE_NONE;
  shadow->capacity = capacity_blocks;
  *ret_shadow = shadow;
  return STATUS_OK;
}

void shadow_destroy(struct shadow **shadow) {
  if (!*shadow) return;
  map_destroy(&(*shadow)->index);
  free((*shadow)->nodes);
  free((*shadow)->removed);
  free(*shadow);
  *shadow = NULL;
}

static uint32_t shadow_find(const struct shadow *shadow, block_key key) {
  uint64_t number;
  return map_get(shadow->index, key, &number) ? (uint32_t)number : NODE_NONE;
}

static void list_unlink(struct shadow *shadow, uint32_t number) {
  struct node *node = &shadow->nodes[number];
  *(node->newer == NODE_NONE ? &shadow->newest : &shadow->nodes[node->newer].older) = node->older;
  *(node->older == NODE_NONE ? &shadow->oldest : &shadow->nodes[node->older].newer) = node->newer;
  node->is_linked = false;
  shadow->count--;
}

/* Links the node as the next older one after `newer`, or as the newest of all for NODE_NONE. */
static void list_link(struct shadow *shadow, uint32_t number, uint32_t newer) {
  struct node *node = &shadow->nodes[number];
  node->newer = newer;
  node->older = newer == NODE_NONE ? shadow->newest : shadow->nodes[newer].older;
  *(newer == NODE_NONE ? &shadow->newest : &shadow->nodes[newer].older) = number;
  *(node->older == NODE_NONE ? &shadow->oldest : &shadow->nodes[node->older].newer) = number;
  node->is_linked = true;
  shadow->count++;
}

static enum status node_take(struct shadow *shadow, block_key key, uint32_t *ret_number) {
  if (shadow->free == NODE_NONE) {
    uint32_t size = shadow->nodes_size ? shadow->nodes_size * 2 : 64;
    if (size <= shadow->nodes_size || size == NODE_NONE) return STATUS_NO_MEMORY;
    struct node *nodes = realloc(shadow->nodes, (size_t)size * sizeof *nodes);
    if (!nodes) return STATUS_NO_MEMORY;
    shadow->nodes = nodes;
    for (uint32_t i = size; i-- > shadow->nodes_size;) {
      nodes[i] = (struct node){.newer = NODE_NONE, .older = shadow->free};
      shadow->free = i;
    }
    shadow->nodes_size = size;
  }
  uint32_t number = shadow->free;
  enum status status = map_set(shadow->index, key, number);
  if (status != STATUS_OK) return status;
  shadow->free = shadow->nodes[number].older;
  shadow->nodes[number] = (struct node){.key = key, .newer = NODE_NONE, .older = NODE_NONE};
  *ret_number = number;
  return STATUS_OK;
}

/* An unlinked node goes back. */
static void node_return(struct shadow *shadow, uint32_t number) {
  bool was_there = map_remove(shadow->index, shadow->nodes[number].key, NULL);
  assert(was_there);
  (void)was_there;
  shadow->nodes[number].older = shadow->free;
  shadow->free = number;
}

static enum status removed_reserve(struct shadow *shadow, uint32_t size) {
  if (size <= shadow->removed_size) return STATUS_OK;
  block_key *removed = realloc(shadow->removed, (size_t)size * sizeof *removed);
  if (!removed) return STATUS_NO_MEMORY;
  shadow->removed = removed;
  shadow->removed_size = size;
  return STATUS_OK;
}

static void shadow_shrink(struct shadow *shadow) {
  shadow->removed_count = 0;
  while (shadow->count > shadow->capacity) {
    uint32_t number = shadow->oldest;
    shadow->removed[shadow->removed_count++] = shadow->nodes[number].key;
    list_unlink(shadow, number);
    node_return(shadow, number);
  }
}

/* Gives every key of the path a node; on failure the new ones are returned again. */
static enum status path_take(struct shadow *shadow, const block_key *keys, uint32_t n) {
  enum status status = removed_reserve(shadow, n);
  uint32_t i = 0;
  for (; i < n && status == STATUS_OK; i++) {
    uint32_t number;
    if (shadow_find(shadow, keys[i]) == NODE_NONE) status = node_take(shadow, keys[i], &number);
  }
  if (status == STATUS_OK) return STATUS_OK;
  while (i-- > 0) {
    uint32_t number = shadow_find(shadow, keys[i]);
    if (number != NODE_NONE && !shadow->nodes[number].is_linked) node_return(shadow, number);
  }
  return status;
}

enum status shadow_ask(struct shadow *shadow, const block_key *keys, uint32_t n, uint32_t *ret_hits) {
  uint32_t hits = shadow_match(shadow, keys, n);
  uint32_t kept = n < shadow->capacity ? n : shadow->capacity;
  enum status status = path_take(shadow, keys, kept);
  if (status != STATUS_OK) return status;
  uint32_t newer = NODE_NONE;
  for (uint32_t i = 0; i < kept; i++) {
    uint32_t number = shadow_find(shadow, keys[i]);
    if (number == newer) continue; /* a key given twice in a row */
    if (shadow->nodes[number].is_linked) list_unlink(shadow, number);
    list_link(shadow, number, newer);
    newer = number;
  }
  shadow_shrink(shadow);
  *ret_hits = hits;
  return STATUS_OK;
}

uint32_t shadow_match(const struct shadow *shadow, const block_key *keys, uint32_t n) {
  uint32_t hits = 0;
  while (hits < n && shadow_find(shadow, keys[hits]) != NODE_NONE) hits++;
  return hits;
}

bool shadow_contains(const struct shadow *shadow, block_key key) {
  return shadow_find(shadow, key) != NODE_NONE;
}

enum status shadow_resize(struct shadow *shadow, uint32_t capacity_blocks) {
  uint32_t leaving = shadow->count > capacity_blocks ? shadow->count - capacity_blocks : 0;
  enum status status = removed_reserve(shadow, leaving);
  if (status != STATUS_OK) return status;
  shadow->capacity = capacity_blocks;
  shadow_shrink(shadow);
  return STATUS_OK;
}

const block_key *shadow_removed(const struct shadow *shadow, uint32_t *ret_count) {
  *ret_count = shadow->removed_count;
  return shadow->removed;
}

uint32_t shadow_count(const struct shadow *shadow) {
  return shadow->count;
}

uint32_t shadow_capacity(const struct shadow *shadow) {
  return shadow->capacity;
}

size_t shadow_bytes(const struct shadow *shadow) {
  return sizeof *shadow + map_bytes(shadow->index) + (size_t)shadow->nodes_size * sizeof(struct node) +
         (size_t)shadow->removed_size * sizeof(block_key);
}

bool shadow_next(const struct shadow *shadow, uint32_t *cursor, block_key *ret_key) {
  uint32_t number = *cursor == 0 ? shadow->oldest : shadow->nodes[*cursor - 1].newer;
  if (number == NODE_NONE) return false;
  *ret_key = shadow->nodes[number].key;
  *cursor = number + 1;
  return true;
}

enum status shadow_restore(struct shadow *shadow, block_key key) {
  uint32_t number = shadow_find(shadow, key);
  if (number == NODE_NONE) {
    if (shadow->count == shadow->capacity) return STATUS_FULL;
    enum status status = node_take(shadow, key, &number);
    if (status != STATUS_OK) return status;
  } else {
    list_unlink(shadow, number);
  }
  list_link(shadow, number, NODE_NONE);
  return STATUS_OK;
}
