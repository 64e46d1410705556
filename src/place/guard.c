#include "place/guard.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "domain/shadow.h"

enum { BLOCK_NONE = UINT32_MAX };

struct block {
  block_key key;
  uint32_t held[TIER_COUNT]; /* copies in each tier */
  uint32_t refs;             /* taken by segments and requests; next free block while free */
  uint32_t coming;           /* requests on whose way it is */
  uint8_t in_shadow;         /* bit k: shadow k holds it */
};

struct arrival {
  uint64_t request; /* 0: free place */
  uint64_t order;   /* of arrival */
  uint32_t *blocks; /* [n], each taken once */
  uint32_t n;
};

struct guard {
  double epsilon;
  struct map *index; /* key → block; blocks that somebody has taken or a shadow holds */
  struct block *blocks;
  uint32_t blocks_size, free;
  struct shadow *shadows[TIER_COUNT]; /* NULL for TIER_NONE */
  struct guard_account accounts[TIER_COUNT];
  struct map *requests; /* id → place in arrivals */
  struct arrival *arrivals;
  uint32_t arrivals_size;
  uint64_t arrivals_order;
};

enum status guard_create(double epsilon, uint32_t requests_max, struct guard **ret_guard) {
  struct guard *guard = calloc(1, sizeof *guard);
  if (!guard) return STATUS_NO_MEMORY;
  guard->epsilon = epsilon;
  guard->free = BLOCK_NONE;
  guard->arrivals_size = requests_max;
  guard->arrivals = calloc(requests_max, sizeof *guard->arrivals);
  enum status status = guard->arrivals ? map_create(0, &guard->index) : STATUS_NO_MEMORY;
  if (status == STATUS_OK) status = map_create(requests_max, &guard->requests);
  for (int tier = TIER_DEVICE; tier < TIER_COUNT && status == STATUS_OK; tier++) {
    status = shadow_create(0, &guard->shadows[tier]);
  }
  if (status != STATUS_OK) {
    guard_destroy(&guard);
    return status;
  }
  *ret_guard = guard;
  return STATUS_OK;
}

void guard_destroy(struct guard **guard) {
  if (!*guard) return;
  for (uint32_t i = 0; (*guard)->arrivals && i < (*guard)->arrivals_size; i++) free((*guard)->arrivals[i].blocks);
  for (int tier = TIER_DEVICE; tier < TIER_COUNT; tier++) shadow_destroy(&(*guard)->shadows[tier]);
  map_destroy(&(*guard)->index);
  map_destroy(&(*guard)->requests);
  free((*guard)->arrivals);
  free((*guard)->blocks);
  free(*guard);
  *guard = NULL;
}

static bool block_is_held(const struct block *block, int tier) {
  for (int faster = TIER_DEVICE; faster <= tier; faster++) {
    if (block->held[faster] > 0) return true;
  }
  return false;
}

/* Adds (+1) or takes away (−1) what the block adds to each Φ: called around every change of a block. */
static void block_count(struct guard *guard, const struct block *block, int sign) {
  if (block->coming > 0 || block->in_shadow == 0) return;
  for (int tier = TIER_DEVICE; tier < TIER_COUNT; tier++) {
    if ((block->in_shadow >> tier & 1) && !block_is_held(block, tier)) {
      guard->accounts[tier].absent_blocks += (uint64_t)(int64_t)sign;
    }
  }
}

static enum status blocks_grow(struct guard *guard) {
  uint32_t size = guard->blocks_size ? guard->blocks_size * 2 : 64;
  if (size <= guard->blocks_size || size == BLOCK_NONE) return STATUS_NO_MEMORY;
  struct block *blocks = realloc(guard->blocks, (size_t)size * sizeof *blocks);
  if (!blocks) return STATUS_NO_MEMORY;
  guard->blocks = blocks;
  for (uint32_t i = size; i-- > guard->blocks_size;) {
    blocks[i] = (struct block){.refs = guard->free};
    guard->free = i;
  }
  guard->blocks_size = size;
  return STATUS_OK;
}

enum status guard_take(struct guard *guard, block_key key, uint32_t *ret_block) {
  uint64_t number;
  if (map_get(guard->index, key, &number)) {
    guard->blocks[number].refs++;
    *ret_block = (uint32_t)number;
    return STATUS_OK;
  }
  enum status status = guard->free == BLOCK_NONE ? blocks_grow(guard) : STATUS_OK;
  if (status == STATUS_OK) status = map_set(guard->index, key, guard->free);
  if (status != STATUS_OK) return status;
  *ret_block = guard->free;
  struct block *block = &guard->blocks[guard->free];
  guard->free = block->refs;
  *block = (struct block){.key = key, .refs = 1};
  return STATUS_OK;
}

/* Frees a block that neither anybody has taken nor a shadow holds. */
static void block_return(struct guard *guard, uint32_t number) {
  struct block *block = &guard->blocks[number];
  if (block->refs > 0 || block->in_shadow) return;
  map_remove(guard->index, block->key, NULL);
  block->refs = guard->free;
  guard->free = number;
}

void guard_drop(struct guard *guard, uint32_t block) {
  assert(guard->blocks[block].refs > 0);
  guard->blocks[block].refs--;
  block_return(guard, block);
}

void guard_enter(struct guard *guard, uint32_t block, enum tier tier) {
  block_count(guard, &guard->blocks[block], -1);
  guard->blocks[block].held[tier]++;
  block_count(guard, &guard->blocks[block], 1);
}

void guard_leave(struct guard *guard, uint32_t block, enum tier tier) {
  assert(guard->blocks[block].held[tier] > 0);
  block_count(guard, &guard->blocks[block], -1);
  guard->blocks[block].held[tier]--;
  block_count(guard, &guard->blocks[block], 1);
}

void guard_revoke(struct guard *guard, uint32_t number) {
  struct block *block = &guard->blocks[number];
  if (block->coming == 0 || block_is_held(block, TIER_COUNT - 1)) return;
  block->coming = 0;
  block_count(guard, block, 1);
}

uint32_t guard_price(const struct guard *guard, const uint32_t *blocks, uint32_t n, enum tier tier) {
  uint32_t price = 0;
  for (uint32_t i = 0; i < n; i++) {
    const struct block *block = &guard->blocks[blocks[i]];
    uint32_t copies = 0;
    for (int faster = TIER_DEVICE; faster <= (int)tier; faster++) copies += block->held[faster];
    price += (block->in_shadow >> tier & 1) && copies == 1;
  }
  return price;
}

double guard_slack(const struct guard *guard, enum tier tier) {
  const struct guard_account *account = &guard->accounts[tier];
  return (double)account->our_hit_blocks - (double)account->shadow_hit_blocks +
         guard->epsilon * (double)account->asked_blocks - (double)account->absent_blocks;
}

struct guard_account guard_account_of(const struct guard *guard, enum tier tier) {
  return guard->accounts[tier];
}

static void block_leave_shadow(struct guard *guard, block_key key, int tier) {
  uint64_t number;
  bool is_known = map_get(guard->index, key, &number);
  assert(is_known);
  if (!is_known) return;
  struct block *block = &guard->blocks[number];
  block_count(guard, block, -1);
  block->in_shadow &= (uint8_t) ~(1u << tier);
  block_count(guard, block, 1);
  block_return(guard, (uint32_t)number);
}

static void shadow_apply_removed(struct guard *guard, int tier) {
  uint32_t n;
  const block_key *removed = shadow_removed(guard->shadows[tier], &n);
  for (uint32_t i = 0; i < n; i++) block_leave_shadow(guard, removed[i], tier);
}

enum status guard_set_capacity(struct guard *guard, enum tier tier, uint32_t capacity_blocks) {
  enum status status = shadow_resize(guard->shadows[tier], 0);
  if (status != STATUS_OK) return status;
  shadow_apply_removed(guard, tier);
  status = shadow_resize(guard->shadows[tier], capacity_blocks);
  if (status != STATUS_OK) return status;
  guard->accounts[tier] = (struct guard_account){.capacity_blocks = capacity_blocks};
  return STATUS_OK;
}

/* Lets shadow `tier` see the path, whose blocks are all known and on their way. */
static enum status guard_ask(struct guard *guard, int tier, const struct arrival *arrival, const block_key *keys) {
  struct guard_account *account = &guard->accounts[tier];
  if (account->capacity_blocks == 0) return STATUS_OK;
  uint32_t ours = 0, theirs;
  while (ours < arrival->n && block_is_held(&guard->blocks[arrival->blocks[ours]], tier)) ours++;
  enum status status = shadow_ask(guard->shadows[tier], keys, arrival->n, &theirs);
  if (status != STATUS_OK) return status;
  account->asked_blocks += arrival->n;
  account->our_hit_blocks += ours;
  account->shadow_hit_blocks += theirs;
  shadow_apply_removed(guard, tier);
  for (uint32_t i = theirs; i < arrival->n && i < account->capacity_blocks; i++) {
    struct block *block = &guard->blocks[arrival->blocks[i]];
    block_count(guard, block, -1);
    block->in_shadow |= (uint8_t)(1u << tier);
    block_count(guard, block, 1);
  }
  return STATUS_OK;
}

static void arrival_settle(struct guard *guard, struct arrival *arrival) {
  for (uint32_t i = 0; i < arrival->n; i++) {
    struct block *block = &guard->blocks[arrival->blocks[i]];
    if (block->coming > 0) {
      block_count(guard, block, -1);
      block->coming--;
      block_count(guard, block, 1);
    }
    guard_drop(guard, arrival->blocks[i]);
  }
  free(arrival->blocks);
  *arrival = (struct arrival){0};
}

void guard_settle(struct guard *guard, uint64_t request) {
  uint64_t place;
  if (!map_remove(guard->requests, map_key_of(request), &place)) return;
  arrival_settle(guard, &guard->arrivals[place]);
}

/* A free place; the oldest request is settled when there is none. */
static uint32_t arrival_place(struct guard *guard) {
  uint32_t oldest = 0;
  for (uint32_t i = 0; i < guard->arrivals_size; i++) {
    if (guard->arrivals[i].request == 0) return i;
    if (guard->arrivals[i].order < guard->arrivals[oldest].order) oldest = i;
  }
  guard_settle(guard, guard->arrivals[oldest].request);
  return oldest;
}

/* Takes all blocks of the path. On failure none is taken. */
static enum status arrival_take(struct guard *guard, struct arrival *arrival, const block_key *keys, uint32_t n) {
  arrival->blocks = malloc(((size_t)n + 1) * sizeof *arrival->blocks);
  if (!arrival->blocks) return STATUS_NO_MEMORY;
  for (uint32_t i = 0; i < n; i++) {
    enum status status = guard_take(guard, keys[i], &arrival->blocks[i]);
    if (status == STATUS_OK) continue;
    while (i-- > 0) guard_drop(guard, arrival->blocks[i]);
    free(arrival->blocks);
    arrival->blocks = NULL;
    return status;
  }
  arrival->n = n;
  return STATUS_OK;
}

enum status guard_arrival(struct guard *guard, uint64_t request, const block_key *keys, uint32_t n) {
  guard_settle(guard, request);
  uint32_t place = arrival_place(guard);
  struct arrival *arrival = &guard->arrivals[place];
  enum status status = map_set(guard->requests, map_key_of(request), place);
  if (status != STATUS_OK) return status;
  status = arrival_take(guard, arrival, keys, n);
  if (status != STATUS_OK) {
    map_remove(guard->requests, map_key_of(request), NULL);
    return status;
  }
  arrival->request = request;
  arrival->order = ++guard->arrivals_order;
  for (uint32_t i = 0; i < n; i++) {
    struct block *block = &guard->blocks[arrival->blocks[i]];
    block_count(guard, block, -1);
    block->coming++;
  }
  for (int tier = TIER_DEVICE; tier < TIER_COUNT && status == STATUS_OK; tier++) {
    status = guard_ask(guard, tier, arrival, keys);
  }
  return status;
}
