/* Room in a tier: who leaves for whom, and in which order states deserve to be written at the end. */
#include <stdlib.h>
#include <string.h>

#include "plan/board.h"

enum { VICTIMS_MAX = 256 };

/* Most of RAM that may hold prepared states nobody has asked for yet; the second while RAM is not half full. */
static const double unproven_share = .3, unproven_share_warm_up = .8;
/* The running mean of displaced values forgets by this share a victim. */
static const double displaced_forgetting = .1;

const block_key *room_units(struct plan *plan, const block_key *keys, uint32_t n, uint32_t first, uint32_t *ret_n) {
  const uint32_t blocks = SEGMENT_TOKENS / plan->config.block_tokens;
  *ret_n = 0;
  if (n > plan->units_size) {
    block_key *units = realloc(plan->units, (size_t)n * sizeof *units);
    if (!units) return NULL;
    plan->units = units;
    plan->units_size = n;
  }
  for (uint32_t i = 0; i < n; i++) {
    bool is_end = blocks <= 1 || (first + i + 1) % blocks == 0 || i + 1 == n;
    if (is_end) plan->units[(*ret_n)++] = keys[i];
  }
  return plan->units;
}

enum status room_stored(struct plan *plan, const struct segment_event *event, uint32_t traffic) {
  struct segment_event told = *event;
  told.keys = room_units(plan, event->keys, event->n_blocks, event->from / plan->config.block_tokens, &told.n_blocks);
  return retention_stored(plan->retention, &told, traffic);
}

/* Victims for a preparation: what the retention guard lets go by prediction and is worth less a byte. Beyond that
 * nothing is displaced for speculation: what the guard does not cover would be the next to leave again. */
static bool preparation_victims(struct plan *plan, enum tier tier, uint64_t missing, double value_usd_per_byte,
                                uint64_t *victims, uint32_t max, uint32_t *ret_n) {
  struct retention_need need = {
      .tier = tier, .bytes = missing, .cause = RETENTION_FOR_PREPARATION, .value_usd_per_byte = value_usd_per_byte};
  uint64_t freed;
  retention_choose_victims(plan->retention, &need, plan->now_us, victims, max, ret_n, &freed);
  return freed >= missing;
}

bool room_is_likely(struct plan *plan, uint64_t bytes, double value_usd) {
  uint64_t limit = plan->config.budget.ram_bytes, used = board_tier_bytes(plan, TIER_RAM);
  if (bytes > limit) return false;
  if (used + bytes <= limit) return true;
  uint64_t victims[VICTIMS_MAX];
  uint32_t n;
  return preparation_victims(plan, TIER_RAM, used + bytes - limit, value_usd / (double)bytes, victims, VICTIMS_MAX, &n);
}

static void displaced_note(struct plan *plan, const uint64_t *victims, size_t n, struct task_record *record) {
  double w = board_saved_second_usd(plan);
  for (size_t i = 0; i < n; i++) {
    const struct held_segment *segment = presence_find(plan->presence, victims[i]);
    if (!segment) continue;
    plan->displaced_usd_per_byte += displaced_forgetting * (segment->value_usd_per_byte - plan->displaced_usd_per_byte);
    if (record && w > 0) {
      record->victims_seconds += segment->value_usd_per_byte * (double)segment->bytes[TIER_RAM] / w;
    }
  }
}

enum status plan_make_room(struct plan *plan, enum tier tier, uint64_t bytes, uint64_t task, uint64_t now_us,
                           uint64_t *ret_segments, size_t max, size_t *ret_n) {
  board_advance(plan, now_us);
  *ret_n = 0;
  uint64_t limit = board_tier_limit(plan, tier), used = board_tier_bytes(plan, tier);
  if (tier == TIER_DEVICE || bytes > limit) return STATUS_FULL;
  if (used + bytes <= limit) {
    if (tier == TIER_RAM) plan->displaced_usd_per_byte *= 1 - displaced_forgetting;
    return STATUS_OK;
  }
  struct task_record *record = taskbook_find(plan->taskbook, task);
  uint64_t missing = used + bytes - limit;
  uint32_t n, most = max > UINT32_MAX ? UINT32_MAX : (uint32_t)max;
  /* Orders are not weighed against what they displace, nor are requests. */
  if (record && !record->task.is_order && plan->policy == POLICY_FORELAY) {
    if (!preparation_victims(plan, tier, missing, record->value_usd_per_byte, ret_segments, most, &n)) {
      return STATUS_FULL;
    }
  } else {
    struct retention_need need = {.tier = tier, .bytes = missing, .cause = RETENTION_FOR_REQUEST};
    uint64_t freed;
    retention_choose_victims(plan->retention, &need, plan->now_us, ret_segments, most, &n, &freed);
    if (freed < missing) return STATUS_FULL;
  }
  if (tier == TIER_RAM) displaced_note(plan, ret_segments, n, record);
  *ret_n = n;
  return STATUS_OK;
}

double room_unproven_left(struct plan *plan) {
  double capacity = (double)plan->config.budget.ram_bytes, token = (double)plan->config.bytes_per_token;
  double share = (double)board_tier_bytes(plan, TIER_RAM) < capacity / 2 ? unproven_share_warm_up : unproven_share;
  double left = share * capacity - (double)accounts_unproven_blocks(plan->accounts) * plan->config.block_tokens * token;
  for (uint32_t i = 0; i < plan->n_flights + plan->n_launches; i++) {
    uint64_t id = i < plan->n_flights ? plan->flights[i] : plan->launches[i - plan->n_flights];
    const struct task_record *record = taskbook_find(plan->taskbook, id);
    if (record && !record->task.is_order) left -= (double)record->task.tokens_new * token;
  }
  return left > 0 ? left : 0;
}

struct flush_row {
  const struct held_segment *segment;
  double value;
};

static int flush_compare(const void *left, const void *right) {
  const struct flush_row *a = left, *b = right;
  if (a->value != b->value) return a->value > b->value ? -1 : 1;
  if (a->segment->from != b->segment->from) return a->segment->from < b->segment->from ? -1 : 1;
  return a->segment->id < b->segment->id ? -1 : a->segment->id > b->segment->id;
}

/* Writes the segment behind those of its parents that were not written yet, or nothing when they do not all fit. */
static size_t flush_put(const struct plan *plan, const struct held_segment *segment, struct map *written,
                        uint64_t *ret_segments, size_t n, size_t max) {
  size_t chain = 0;
  for (const struct held_segment *at = segment; at; at = presence_find(plan->presence, at->parent)) {
    if (at->bytes[TIER_SSD] || !at->bytes[TIER_RAM] || map_get(written, map_key_of(at->id), NULL)) break;
    if (n + chain == max) return n;
    ret_segments[n + chain++] = at->id;
  }
  for (size_t i = 0; i < chain / 2; i++) { /* parents first */
    uint64_t swap = ret_segments[n + i];
    ret_segments[n + i] = ret_segments[n + chain - 1 - i];
    ret_segments[n + chain - 1 - i] = swap;
  }
  for (size_t i = 0; i < chain; i++) {
    if (map_set(written, map_key_of(ret_segments[n + i]), 1) != STATUS_OK) return n;
  }
  return n + chain;
}

size_t plan_flush_order(const struct plan *plan, uint64_t *ret_segments, size_t max) {
  uint32_t count = presence_count(plan->presence), n_rows = 0, cursor = 0;
  struct flush_row *rows = malloc(((size_t)count + 1) * sizeof *rows);
  struct map *written = NULL;
  size_t n = 0;
  if (!rows || map_create(0, &written) != STATUS_OK) {
    free(rows);
    return 0;
  }
  for (const struct held_segment *at; (at = presence_next(plan->presence, &cursor)) && n_rows < count;) {
    if (at->bytes[TIER_SSD] || !at->bytes[TIER_RAM]) continue;
    rows[n_rows++] = (struct flush_row){.segment = at, .value = at->value_usd_per_byte};
  }
  qsort(rows, n_rows, sizeof *rows, flush_compare);
  for (uint32_t i = 0; i < n_rows && n < max; i++) n = flush_put(plan, rows[i].segment, written, ret_segments, n, max);
  map_destroy(&written);
  free(rows);
  return n;
}
