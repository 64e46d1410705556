#include "plan/shelf.h"

#include <stdlib.h>
#include <string.h>

#include "base/map.h"

enum { WANTED_ASKS = 2, WANTED_TURN = 2 }; /* as in observe.c */
enum { VICTIMS_MAX = 256, SIBLINGS_MAX = 4096, PLACES_MIN = 64, DAY_S = 86400, PLACE_NONE = UINT32_MAX };

/* One run of tokens; its number in retention is its place + 1. */
struct held {
  uint32_t parent, first_child, next, previous; /* places; siblings newest first */
  uint32_t from, n_tokens, n_blocks;            /* n_blocks: full blocks inside */
  uint32_t node;                                /* of the forest, where it was last found */
  uint32_t asks;                                /* requests that were served through it */
  bool lies[TIER_COUNT];                        /* in RAM, on SSD: at least one of them */
  block_key *keys;                              /* [n_blocks], in the same allocation */
  int32_t *tokens;                              /* [n_tokens], likewise; NULL: not told */
};

struct shelf {
  struct shelf_config config;
  uint32_t unit_tokens; /* of a whole segment */
  struct retention *retention;
  struct map *index;    /* key of the end of a whole segment → place */
  struct held **places; /* [n_places]; NULL: free */
  uint32_t n_places, used_places, free_place;
  uint32_t *next_free; /* [n_places]: chains free places */
  uint32_t first_root;
  uint64_t bytes[TIER_COUNT];
  uint64_t written_bytes; /* to SSD, on written_day */
  uint64_t written_day;
  uint32_t revalued; /* place that shelf_revalue goes on from */
  uint32_t *nodes;   /* [nodes_size]: scratch */
  uint32_t nodes_size;
  block_key *units; /* [units_size]: scratch */
  uint32_t units_size;
};

enum status shelf_create(const struct shelf_config *config, struct shelf **ret_shelf) {
  struct shelf *shelf = calloc(1, sizeof *shelf);
  if (!shelf) return STATUS_NO_MEMORY;
  shelf->config = *config;
  shelf->unit_tokens = config->block_tokens < SEGMENT_TOKENS ? SEGMENT_TOKENS - SEGMENT_TOKENS % config->block_tokens
                                                             : config->block_tokens;
  shelf->free_place = shelf->first_root = PLACE_NONE;
  struct retention_settings settings;
  retention_settings_init(&settings);
  settings.policy = config->policy;
  settings.epsilon = config->epsilon;
  settings.capacity_bytes[TIER_RAM] = config->ram_bytes;
  settings.capacity_bytes[TIER_SSD] = config->ssd_bytes;
  settings.block_bytes = config->bytes_per_token * shelf->unit_tokens;
  settings.grace_us = 1; /* every segment is valued when it comes */
  settings.segments_max = config->segments_max;
  enum status status = retention_create(&settings, NULL, &shelf->retention);
  if (status == STATUS_OK) status = map_create(0, &shelf->index);
  if (status != STATUS_OK) {
    shelf_destroy(&shelf);
    return status;
  }
  *ret_shelf = shelf;
  return STATUS_OK;
}

void shelf_destroy(struct shelf **reference) {
  struct shelf *shelf = *reference;
  if (!shelf) return;
  for (uint32_t i = 0; i < shelf->used_places; i++) free(shelf->places[i]);
  if (shelf->retention) retention_destroy(&shelf->retention);
  if (shelf->index) map_destroy(&shelf->index);
  free(shelf->places);
  free(shelf->next_free);
  free(shelf->nodes);
  free(shelf->units);
  free(shelf);
  *reference = NULL;
}

/* ── matching ── */

/* Of the passage from held->from on, how many tokens the segment has. */
static uint32_t held_common(const struct shelf *shelf, const struct held *held, const struct passage *passage) {
  uint32_t first = held->from / shelf->config.block_tokens;
  struct passage own = passage_of(held->keys, held->tokens, held->n_tokens, shelf->config.block_tokens);
  struct passage rest = passage_of(passage->keys + first, passage->tokens ? passage->tokens + held->from : NULL,
                                   passage->n_tokens - held->from, shelf->config.block_tokens);
  return passage_common(&own, &rest);
}

static uint32_t first_child(const struct shelf *shelf, uint32_t parent) {
  return parent == PLACE_NONE ? shelf->first_root : shelf->places[parent]->first_child;
}

/* Whole segments of the passage, from the root on; *ret_last: the deepest, PLACE_NONE. */
static uint32_t match_whole(const struct shelf *shelf, const struct passage *passage, uint32_t *ret_last) {
  uint32_t at = 0;
  *ret_last = PLACE_NONE;
  while (passage->n_tokens - at >= shelf->unit_tokens) {
    uint64_t place;
    uint32_t end = (at + shelf->unit_tokens) / shelf->config.block_tokens;
    if (!map_get(shelf->index, passage->keys[end - 1], &place)) break;
    *ret_last = (uint32_t)place;
    at += shelf->unit_tokens;
  }
  return at;
}

/* The child that shares most with the passage, PLACE_NONE; *ret_tokens: how much. */
static uint32_t match_part(const struct shelf *shelf, const struct passage *passage, uint32_t parent, uint32_t at,
                           uint32_t *ret_tokens) {
  uint32_t best = PLACE_NONE, looked = 0;
  *ret_tokens = 0;
  if (at >= passage->n_tokens) return PLACE_NONE;
  for (uint32_t i = first_child(shelf, parent); i != PLACE_NONE && looked++ < SIBLINGS_MAX;
       i = shelf->places[i]->next) {
    uint32_t common = held_common(shelf, shelf->places[i], passage);
    if (common <= *ret_tokens) continue;
    *ret_tokens = common;
    best = i;
  }
  /* Prefixes of different tenants share no block: where not even one is shared, tokens alone say nothing. */
  if (parent == PLACE_NONE && *ret_tokens < shelf->config.block_tokens) *ret_tokens = 0;
  return *ret_tokens ? best : PLACE_NONE;
}

uint32_t shelf_match(const struct shelf *shelf, const struct passage *passage) {
  uint32_t last, part, at = match_whole(shelf, passage, &last);
  (void)match_part(shelf, passage, last, at, &part);
  return at + part;
}

/* The deepest segment that has something of the passage, PLACE_NONE. */
static uint32_t match_last(const struct shelf *shelf, const struct passage *passage, uint32_t *ret_tokens) {
  uint32_t last, part, at = match_whole(shelf, passage, &last);
  uint32_t child = match_part(shelf, passage, last, at, &part);
  *ret_tokens = at + part;
  return child == PLACE_NONE ? last : child;
}

uint32_t shelf_kept(const struct shelf *shelf, const struct passage *passage) {
  uint32_t tokens, kept, at = match_last(shelf, passage, &tokens);
  kept = tokens == passage->n_tokens ? tokens : tokens - tokens % shelf->unit_tokens;
  for (; at != PLACE_NONE; at = shelf->places[at]->parent) {
    const struct held *held = shelf->places[at];
    if (!held->lies[TIER_RAM] && held->from < kept) kept = held->from;
  }
  return kept;
}

/* ── coming and going ── */

static enum status place_take(struct shelf *shelf, uint32_t *ret_place) {
  if (shelf->free_place != PLACE_NONE) {
    *ret_place = shelf->free_place;
    shelf->free_place = shelf->next_free[*ret_place];
    return STATUS_OK;
  }
  if (shelf->used_places == shelf->n_places) {
    uint32_t n = shelf->n_places ? shelf->n_places * 2 : PLACES_MIN;
    struct held **places = realloc(shelf->places, (size_t)n * sizeof *places);
    if (!places) return STATUS_NO_MEMORY;
    shelf->places = places;
    uint32_t *next_free = realloc(shelf->next_free, (size_t)n * sizeof *next_free);
    if (!next_free) return STATUS_NO_MEMORY;
    shelf->next_free = next_free;
    shelf->n_places = n;
  }
  *ret_place = shelf->used_places++;
  shelf->places[*ret_place] = NULL;
  return STATUS_OK;
}

static void place_return(struct shelf *shelf, uint32_t place) {
  free(shelf->places[place]);
  shelf->places[place] = NULL;
  shelf->next_free[place] = shelf->free_place;
  shelf->free_place = place;
}

static bool is_whole(const struct shelf *shelf, const struct held *held) {
  return held->n_tokens == shelf->unit_tokens;
}

static uint64_t held_bytes(const struct shelf *shelf, const struct held *held) {
  return (uint64_t)held->n_tokens * shelf->config.bytes_per_token;
}

static uint64_t capacity_of(const struct shelf *shelf, enum tier tier) {
  return tier == TIER_RAM ? shelf->config.ram_bytes : shelf->config.ssd_bytes;
}

static void held_leave(struct shelf *shelf, uint32_t place, enum tier tier) {
  struct held *held = shelf->places[place];
  (void)!retention_gone(shelf->retention, (uint64_t)place + 1, tier);
  shelf->bytes[tier] -= held->lies[tier] ? held_bytes(shelf, held) : 0;
  held->lies[tier] = false;
  if (held->lies[TIER_RAM] || held->lies[TIER_SSD]) return;
  if (is_whole(shelf, held)) map_remove(shelf->index, held->keys[held->n_blocks - 1], NULL);
  if (held->next != PLACE_NONE) shelf->places[held->next]->previous = held->previous;
  uint32_t *head = held->parent == PLACE_NONE ? &shelf->first_root : &shelf->places[held->parent]->first_child;
  *(held->previous == PLACE_NONE ? head : &shelf->places[held->previous]->next) = held->next;
  place_return(shelf, place);
}

/* False: so much room cannot be had. */
static bool room_make(struct shelf *shelf, enum tier tier, uint64_t bytes, uint64_t now_us) {
  uint64_t capacity = capacity_of(shelf, tier);
  if (bytes > capacity) return false;
  while (shelf->bytes[tier] + bytes > capacity) {
    uint64_t victims[VICTIMS_MAX], freed;
    uint32_t n;
    struct retention_need need = {.tier = tier, .bytes = shelf->bytes[tier] + bytes - capacity};
    retention_choose_victims(shelf->retention, &need, now_us, victims, VICTIMS_MAX, &n, &freed);
    if (!n || (n < VICTIMS_MAX && freed < need.bytes)) return false;
    for (uint32_t i = 0; i < n; i++) held_leave(shelf, (uint32_t)(victims[i] - 1), tier);
  }
  return true;
}

static enum status held_enter(struct shelf *shelf, uint32_t place, enum tier tier, uint64_t now_us) {
  struct held *held = shelf->places[place];
  struct segment_event event = {.at_us = now_us,
                                .segment = (uint64_t)place + 1,
                                .parent = held->parent == PLACE_NONE ? 0 : (uint64_t)held->parent + 1,
                                .tier = tier,
                                .is_present = true,
                                .from = held->from,
                                .to = held->from + held->n_tokens,
                                .bytes = held_bytes(shelf, held),
                                .n_blocks = held->n_blocks > 0,
                                .keys = held->keys + (held->n_blocks ? held->n_blocks - 1 : 0)};
  if (held->lies[tier]) return STATUS_OK;
  enum status status = retention_stored(shelf->retention, &event, 0);
  if (status != STATUS_OK) return status;
  held->lies[tier] = true;
  shelf->bytes[tier] += event.bytes;
  return STATUS_OK;
}

static struct held *held_copy(const struct shelf *shelf, const struct passage *passage, uint32_t from, uint32_t to) {
  uint32_t size = shelf->config.block_tokens, n_blocks = to / size - from / size, n_tokens = to - from;
  struct held *held = calloc(1, sizeof *held + n_blocks * sizeof(block_key) + n_tokens * sizeof(int32_t));
  if (!held) return NULL;
  *held = (struct held){.from = from, .n_tokens = n_tokens, .n_blocks = n_blocks, .keys = (block_key *)(held + 1)};
  memcpy(held->keys, passage->keys + from / size, n_blocks * sizeof(block_key));
  if (passage->tokens) {
    held->tokens = (int32_t *)(held->keys + n_blocks);
    memcpy(held->tokens, passage->tokens + from, n_tokens * sizeof(int32_t));
  }
  return held;
}

/* Adds the run [from, to) behind `parent`, in one tier; its room is there. */
static enum status held_add(struct shelf *shelf, const struct passage *passage, uint32_t from, uint32_t to,
                            uint32_t parent, enum tier tier, uint64_t now_us, uint32_t *ret_place) {
  uint32_t place;
  struct held *held = held_copy(shelf, passage, from, to);
  enum status status = held ? place_take(shelf, &place) : STATUS_NO_MEMORY;
  if (status != STATUS_OK) {
    free(held);
    return status;
  }
  shelf->places[place] = held;
  held->parent = parent;
  held->first_child = held->previous = held->next = PLACE_NONE;
  if (is_whole(shelf, held)) status = map_set(shelf->index, held->keys[held->n_blocks - 1], place);
  if (status == STATUS_OK) status = held_enter(shelf, place, tier, now_us);
  if (status != STATUS_OK) {
    if (is_whole(shelf, held)) map_remove(shelf->index, held->keys[held->n_blocks - 1], NULL);
    place_return(shelf, place);
    return status;
  }
  uint32_t *head = parent == PLACE_NONE ? &shelf->first_root : &shelf->places[parent]->first_child;
  held->next = *head;
  if (held->next != PLACE_NONE) shelf->places[held->next]->previous = place;
  *head = place;
  *ret_place = place;
  return STATUS_OK;
}

/* Whether the segment's last full block is one of the passage's. */
static bool ends_in(const struct shelf *shelf, const struct held *held, const struct passage *passage) {
  uint32_t end = held->from / shelf->config.block_tokens + held->n_blocks;
  return held->n_blocks && end <= passage->n_blocks &&
         block_key_equal(passage->keys[end - 1], held->keys[held->n_blocks - 1]);
}

/* Values what lies here of the passage, one question for each segment. */
static enum status passage_value(struct shelf *shelf, const struct passage *passage) {
  const struct shelf_config *config = &shelf->config;
  if (!config->value || config->policy != RETENTION_VALUE || !passage->n_blocks) return STATUS_OK;
  if (passage->n_blocks > shelf->nodes_size) {
    uint32_t *nodes = realloc(shelf->nodes, (size_t)passage->n_blocks * sizeof *nodes);
    if (!nodes) return STATUS_NO_MEMORY;
    shelf->nodes = nodes;
    shelf->nodes_size = passage->n_blocks;
  }
  config->nodes(config->value_ctx, passage->keys, passage->n_blocks, shelf->nodes);
  uint32_t tokens, place = match_last(shelf, passage, &tokens);
  for (; place != PLACE_NONE; place = shelf->places[place]->parent) {
    struct held *held = shelf->places[place];
    uint32_t end = held->from / config->block_tokens + held->n_blocks;
    if (!ends_in(shelf, held, passage)) continue;
    held->node = shelf->nodes[end - 1];
    double value = config->value(config->value_ctx, &held->node, passage->keys[end - 1], end - 1);
    (void)!retention_set_value(shelf->retention, (uint64_t)place + 1, value);
  }
  return STATUS_OK;
}

/* The segment of the passage that begins at `at` behind `parent` and reaches to `to`, PLACE_NONE. */
static uint32_t held_find(const struct shelf *shelf, const struct passage *passage, uint32_t parent, uint32_t at,
                          uint32_t to) {
  uint64_t place;
  if (to - at == shelf->unit_tokens) {
    return map_get(shelf->index, passage->keys[to / shelf->config.block_tokens - 1], &place) ? (uint32_t)place
                                                                                             : PLACE_NONE;
  }
  uint32_t tokens, child = match_part(shelf, passage, parent, at, &tokens);
  return tokens == to - at ? child : PLACE_NONE;
}

/* A shorter end that the passage extends, in that tier, makes place for it. */
static void shorter_retire(struct shelf *shelf, const struct passage *passage, uint32_t parent, uint32_t at,
                           enum tier tier) {
  uint32_t tokens, child = match_part(shelf, passage, parent, at, &tokens);
  if (child == PLACE_NONE) return;
  const struct held *held = shelf->places[child];
  bool is_shorter = tokens == held->n_tokens && at + tokens < passage->n_tokens && held->first_child == PLACE_NONE;
  if (is_shorter && held->lies[tier] && !is_whole(shelf, held)) held_leave(shelf, child, tier);
}

static uint32_t run_end(const struct shelf *shelf, const struct passage *passage, uint32_t at) {
  return passage->n_tokens - at < shelf->unit_tokens ? passage->n_tokens : at + shelf->unit_tokens;
}

/* Bytes of the passage that the tier lacks; *ret_first: the segment before the first of them, PLACE_NONE. */
static uint64_t missing_bytes(const struct shelf *shelf, const struct passage *passage, enum tier tier,
                              uint32_t *ret_before) {
  uint64_t tokens = 0;
  uint32_t parent = PLACE_NONE;
  *ret_before = PLACE_NONE;
  for (uint32_t at = 0, to; at < passage->n_tokens; at = to) {
    to = run_end(shelf, passage, at);
    bool is_known = at == 0 || parent != PLACE_NONE;
    uint32_t place = is_known ? held_find(shelf, passage, parent, at, to) : PLACE_NONE;
    if (place != PLACE_NONE && shelf->places[place]->lies[tier]) {
      if (!tokens) *ret_before = place;
    } else {
      tokens += to - at;
    }
    parent = place;
  }
  return tokens * shelf->config.bytes_per_token;
}

/* Whether so much may still be written to SSD today; then it is counted. */
static bool writes_allow(struct shelf *shelf, uint64_t bytes, uint64_t now_us) {
  uint64_t day = now_us / 1000000 / DAY_S;
  if (day != shelf->written_day) shelf->written_bytes = 0;
  shelf->written_day = day;
  if (shelf->written_bytes + bytes > shelf->config.ssd_writes_bytes_per_day) return false;
  shelf->written_bytes += bytes;
  return true;
}

enum status shelf_keep(struct shelf *shelf, const struct passage *passage, enum tier tier, uint64_t now_us) {
  uint32_t before, parent = PLACE_NONE;
  uint64_t bytes = missing_bytes(shelf, passage, tier, &before);
  enum status status = STATUS_OK;
  if (!bytes || bytes > capacity_of(shelf, tier)) return STATUS_OK;
  if (tier == TIER_SSD && !writes_allow(shelf, bytes, now_us)) return STATUS_OK;
  shorter_retire(shelf, passage, before, before == PLACE_NONE ? 0 : shelf->places[before]->from + shelf->unit_tokens,
                 tier);
  if (before != PLACE_NONE) {
    if ((status = retention_pin(shelf->retention, (uint64_t)before + 1)) != STATUS_OK) return status;
  }
  bool has_room = room_make(shelf, tier, bytes, now_us);
  if (before != PLACE_NONE) retention_unpin(shelf->retention, (uint64_t)before + 1);
  for (uint32_t at = 0, to; has_room && at < passage->n_tokens && status == STATUS_OK; at = to) {
    to = run_end(shelf, passage, at);
    uint32_t place = held_find(shelf, passage, parent, at, to);
    if (place == PLACE_NONE) {
      status = held_add(shelf, passage, at, to, parent, tier, now_us, &parent);
    } else {
      status = held_enter(shelf, place, tier, now_us);
      parent = place;
    }
  }
  if (status == STATUS_FULL) status = STATUS_OK; /* more segments than it can count: the rest is not kept */
  enum status valued = passage_value(shelf, passage);
  return status != STATUS_OK ? status : valued;
}

enum status shelf_adopt(struct shelf *shelf, const struct passage *passage, uint64_t now_us) {
  uint64_t allowed = shelf->config.ssd_writes_bytes_per_day;
  shelf->config.ssd_writes_bytes_per_day = UINT64_MAX;
  enum status status = shelf_keep(shelf, passage, TIER_SSD, now_us);
  shelf->config.ssd_writes_bytes_per_day = allowed;
  shelf->written_bytes = 0;
  return status;
}

/* ── requests ── */

static void passage_touch(struct shelf *shelf, const struct passage *passage, uint64_t now_us) {
  uint32_t tokens, last = match_last(shelf, passage, &tokens);
  if (last != PLACE_NONE) retention_touch(shelf->retention, (uint64_t)last + 1, now_us);
}

enum status shelf_use(struct shelf *shelf, const struct passage *passage, uint32_t turn, uint64_t now_us) {
  uint32_t tokens, wanted_to = 0;
  passage_touch(shelf, passage, now_us);
  for (uint32_t at = match_last(shelf, passage, &tokens); at != PLACE_NONE; at = shelf->places[at]->parent) {
    struct held *held = shelf->places[at];
    if (!ends_in(shelf, held, passage)) continue;
    bool is_wanted = ++held->asks >= WANTED_ASKS || turn >= WANTED_TURN;
    /* Of a shorter end only what the passage has of it can be named. */
    bool is_all = held->from + held->n_tokens <= passage->n_tokens;
    if (is_wanted && is_all && held->lies[TIER_RAM] && !wanted_to) wanted_to = held->from + held->n_tokens;
  }
  if (!wanted_to) return STATUS_OK;
  struct passage wanted = passage_cut(passage, wanted_to);
  return shelf_keep(shelf, &wanted, TIER_SSD, now_us);
}

enum status shelf_ask(struct shelf *shelf, uint64_t request, const struct passage *passage, uint64_t now_us) {
  uint32_t n = 0, blocks = shelf->unit_tokens / shelf->config.block_tokens;
  if (passage->n_blocks > shelf->units_size) {
    block_key *units = realloc(shelf->units, (size_t)passage->n_blocks * sizeof *units);
    if (!units) return STATUS_NO_MEMORY;
    shelf->units = units;
    shelf->units_size = passage->n_blocks;
  }
  for (uint32_t i = 0; i < passage->n_blocks; i++) {
    if ((i + 1) % blocks == 0 || i + 1 == passage->n_blocks) shelf->units[n++] = passage->keys[i];
  }
  enum status status = retention_arrival(shelf->retention, request, shelf->units, n);
  if (status != STATUS_OK) return status;
  passage_touch(shelf, passage, now_us);
  return passage_value(shelf, passage);
}

void shelf_settle(struct shelf *shelf, uint64_t request) {
  retention_settle(shelf->retention, request);
}

void shelf_revalue(struct shelf *shelf, uint32_t n) {
  const struct shelf_config *config = &shelf->config;
  if (!config->value || config->policy != RETENTION_VALUE || !shelf->used_places) return;
  for (uint32_t i = 0; i < n && i < shelf->used_places; i++) {
    shelf->revalued = (shelf->revalued + 1) % shelf->used_places;
    struct held *held = shelf->places[shelf->revalued];
    if (!held || !held->n_blocks) continue;
    uint32_t depth = held->from / config->block_tokens + held->n_blocks - 1;
    double value = config->value(config->value_ctx, &held->node, held->keys[held->n_blocks - 1], depth);
    (void)!retention_set_value(shelf->retention, (uint64_t)shelf->revalued + 1, value);
  }
}

void shelf_resize(struct shelf *shelf, uint64_t ram_bytes, uint64_t ssd_bytes, uint64_t now_us) {
  shelf->config.ram_bytes = ram_bytes;
  shelf->config.ssd_bytes = ssd_bytes;
  (void)room_make(shelf, TIER_RAM, 0, now_us);
  (void)room_make(shelf, TIER_SSD, 0, now_us);
}

uint64_t shelf_bytes(const struct shelf *shelf, enum tier tier) {
  return shelf->bytes[tier];
}
