#include "place/retention.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "place/guard.h"
#include "place/roster.h"

static const double FOREVER = 1e300; /* worth of what has no value yet */

/* What is known of how one class of traffic comes back. */
struct traffic {
  double stored, reused; /* segments stored and uses of them, discounted */
  double gap_s;          /* mean time between uses */
};

struct retention {
  struct retention_settings settings;
  struct roster roster;
  struct guard *guard; /* only for policy value */
  struct traffic traffic[RETENTION_CLASSES];
  bool is_sized[TIER_COUNT]; /* the tier's shadow has its capacity */
  uint64_t by_prediction[TIER_COUNT], by_guard[TIER_COUNT], by_recency[TIER_COUNT];
};

static const char *const POLICY_NAMES[RETENTION_POLICY_COUNT] = {
    [RETENTION_LRU] = "lru",
    [RETENTION_VALUE] = "value",
    [RETENTION_FREQUENCY] = "frequency",
    [RETENTION_WORKLOAD] = "workload",
};

const char *retention_policy_name(enum retention_policy policy) {
  return POLICY_NAMES[policy];
}

enum retention_policy retention_policy_of_name(const char *name) {
  for (int policy = 0; policy < RETENTION_POLICY_COUNT; policy++) {
    if (strcmp(POLICY_NAMES[policy], name) == 0) return (enum retention_policy)policy;
  }
  return RETENTION_POLICY_COUNT;
}

void retention_settings_init(struct retention_settings *settings) {
  *settings = (struct retention_settings){.policy = RETENTION_VALUE,
                                          .epsilon = .003,
                                          .pin_fraction = .25,
                                          .grace_us = 10000000,
                                          .segments_max = 1000000,
                                          .requests_max = 1024};
}

static enum status settings_check(const struct retention_settings *settings, struct error *error) {
  if (settings->policy < 0 || settings->policy >= RETENTION_POLICY_COUNT) {
    return error_set(error, STATUS_INVALID, "retention: unknown policy %d", (int)settings->policy);
  }
  if (!(settings->epsilon >= 0 && settings->epsilon <= 1)) {
    return error_set(error, STATUS_INVALID, "retention: epsilon must be 0 to 1");
  }
  if (!(settings->pin_fraction >= 0 && settings->pin_fraction <= 1)) {
    return error_set(error, STATUS_INVALID, "retention: pin fraction must be 0 to 1");
  }
  if (settings->segments_max == 0 || settings->segments_max == ROSTER_NONE || settings->requests_max == 0) {
    return error_set(error, STATUS_INVALID, "retention: segments_max and requests_max must be at least 1");
  }
  return STATUS_OK;
}

static enum status tier_size(struct retention *retention, int tier, uint64_t block_bytes) {
  uint64_t blocks = retention->settings.capacity_bytes[tier] / block_bytes;
  if (blocks > UINT32_MAX / 2) blocks = UINT32_MAX / 2;
  enum status status = guard_set_capacity(retention->guard, (enum tier)tier, (uint32_t)blocks);
  if (status == STATUS_OK) retention->is_sized[tier] = true;
  return status;
}

enum status retention_create(const struct retention_settings *settings, struct error *error,
                             struct retention **ret_retention) {
  enum status status = settings_check(settings, error);
  if (status != STATUS_OK) return status;
  struct retention *retention = calloc(1, sizeof *retention);
  if (!retention) return error_set(error, STATUS_NO_MEMORY, "retention: no memory");
  retention->settings = *settings;
  status = roster_init(&retention->roster, settings->segments_max);
  if (status == STATUS_OK && settings->policy == RETENTION_VALUE) {
    status = guard_create(settings->epsilon, settings->requests_max, &retention->guard);
    for (int tier = TIER_DEVICE; tier < TIER_COUNT && status == STATUS_OK && settings->block_bytes > 0; tier++) {
      status = tier_size(retention, tier, settings->block_bytes);
    }
  }
  if (status != STATUS_OK) {
    retention_destroy(&retention);
    return error_set(error, status, "retention: no memory for %u requests in flight", settings->requests_max);
  }
  *ret_retention = retention;
  return STATUS_OK;
}

void retention_destroy(struct retention **retention) {
  if (!*retention) return;
  guard_destroy(&(*retention)->guard);
  roster_release(&(*retention)->roster);
  free(*retention);
  *retention = NULL;
}

enum status retention_arrival(struct retention *retention, uint64_t request, const block_key *keys, uint32_t n) {
  if (request == 0) return STATUS_INVALID;
  return retention->guard ? guard_arrival(retention->guard, request, keys, n) : STATUS_OK;
}

void retention_settle(struct retention *retention, uint64_t request) {
  if (retention->guard) guard_settle(retention->guard, request);
}

/* Forgets the segment, and what is above it, as far as nothing keeps them. */
static void retention_forget(struct retention *retention, uint32_t segment) {
  while (segment != ROSTER_NONE && roster_is_idle(&retention->roster, segment)) {
    struct roster_segment *record = &retention->roster.segments[segment];
    for (uint32_t i = 0; i < record->n_blocks; i++) guard_drop(retention->guard, record->blocks[i]);
    segment = roster_forget(&retention->roster, segment);
  }
}

/* Gives a record its blocks, once. Without a guard nobody asks for them. */
static enum status blocks_take(struct retention *retention, uint32_t segment, const struct segment_event *event) {
  struct roster_segment *record = &retention->roster.segments[segment];
  if (!retention->guard || record->blocks || event->n_blocks == 0) return STATUS_OK;
  uint32_t *blocks = malloc(event->n_blocks * sizeof *blocks);
  if (!blocks) return STATUS_NO_MEMORY;
  for (uint32_t i = 0; i < event->n_blocks; i++) {
    enum status status = guard_take(retention->guard, event->keys[i], &blocks[i]);
    if (status == STATUS_OK) continue;
    while (i-- > 0) guard_drop(retention->guard, blocks[i]);
    free(blocks);
    return status;
  }
  record->blocks = blocks;
  record->n_blocks = event->n_blocks;
  return STATUS_OK;
}

/* The copies of a segment's blocks follow the segment. */
static void segment_enter(struct retention *retention, uint32_t segment, enum tier tier, uint64_t bytes) {
  const struct roster_segment *record = &retention->roster.segments[segment];
  roster_enter(&retention->roster, segment, tier, bytes);
  for (uint32_t i = 0; i < record->n_blocks; i++) guard_enter(retention->guard, record->blocks[i], tier);
}

static void segment_leave(struct retention *retention, uint32_t segment, enum tier tier) {
  const struct roster_segment *record = &retention->roster.segments[segment];
  roster_leave(&retention->roster, segment, tier);
  for (uint32_t i = 0; i < record->n_blocks; i++) guard_leave(retention->guard, record->blocks[i], tier);
}

/* The first segment that consists of full blocks tells how many blocks a tier can hold. */
static enum status shadow_learn_size(struct retention *retention, const struct segment_event *event) {
  uint32_t tokens = event->to - event->from;
  if (!retention->guard || retention->is_sized[event->tier] || event->n_blocks == 0 || tokens % event->n_blocks != 0 ||
      event->bytes < event->n_blocks) {
    return STATUS_OK;
  }
  return tier_size(retention, event->tier, event->bytes / event->n_blocks);
}

static enum status segment_require(struct retention *retention, const struct segment_event *event,
                                   uint32_t *ret_segment) {
  uint32_t segment, parent = ROSTER_NONE;
  enum status status = roster_require(&retention->roster, event->segment, &segment);
  if (status != STATUS_OK) return status;
  status = blocks_take(retention, segment, event);
  if (status == STATUS_OK && event->parent && retention->roster.segments[segment].parent == ROSTER_NONE) {
    status = roster_require(&retention->roster, event->parent, &parent);
    if (status == STATUS_OK && !roster_link(&retention->roster, segment, parent)) status = STATUS_INVALID;
  }
  if (status != STATUS_OK) {
    retention_forget(retention, segment);
    if (parent != ROSTER_NONE) retention_forget(retention, parent);
    return status;
  }
  *ret_segment = segment;
  return STATUS_OK;
}

enum status retention_stored(struct retention *retention, const struct segment_event *event, uint32_t traffic) {
  if (event->tier <= TIER_NONE || event->tier >= TIER_COUNT || event->segment == 0 || event->segment == event->parent ||
      traffic >= RETENTION_CLASSES || event->n_blocks > SEGMENT_TOKENS || event->to < event->from) {
    return STATUS_INVALID;
  }
  if (!event->is_present) return retention_gone(retention, event->segment, event->tier);
  enum status status = shadow_learn_size(retention, event);
  if (status != STATUS_OK) return status;
  uint32_t segment = ROSTER_NONE;
  status = segment_require(retention, event, &segment);
  if (status != STATUS_OK) return status;
  struct roster_segment *record = &retention->roster.segments[segment];
  if (record->copies[event->tier].is_present) return STATUS_OK;
  if (!roster_is_present(&retention->roster, segment)) {
    record->used_us = event->at_us;
    record->stamp = ++retention->roster.clock;
    record->traffic = traffic;
    record->has_value = false;
    retention->traffic[traffic].stored += 1;
  }
  segment_enter(retention, segment, event->tier, event->bytes);
  return STATUS_OK;
}

enum status retention_gone(struct retention *retention, uint64_t segment, enum tier tier) {
  uint32_t number = roster_find(&retention->roster, segment);
  if (tier <= TIER_NONE || tier >= TIER_COUNT) return STATUS_INVALID;
  if (number == ROSTER_NONE || !retention->roster.segments[number].copies[tier].is_present) return STATUS_OK;
  struct roster_segment *record = &retention->roster.segments[number];
  segment_leave(retention, number, tier);
  record->copies[tier].is_pinned = false;
  for (uint32_t i = 0; i < record->n_blocks; i++) guard_revoke(retention->guard, record->blocks[i]);
  retention_forget(retention, number);
  return STATUS_OK;
}

/* Discounts by a thousandth a use, so that old habits fade. */
static void traffic_note(struct retention *retention, const struct roster_segment *record, uint64_t now_us) {
  struct traffic *traffic = &retention->traffic[record->traffic];
  double gap_s = now_us > record->used_us ? (double)(now_us - record->used_us) / 1e6 : 0;
  traffic->stored *= .999;
  traffic->reused = traffic->reused * .999 + 1;
  double weight = 1 / (traffic->reused < 100 ? traffic->reused : 100);
  traffic->gap_s += (gap_s - traffic->gap_s) * weight;
}

void retention_touch(struct retention *retention, uint64_t segment, uint64_t now_us) {
  uint32_t number = roster_find(&retention->roster, segment);
  if (number == ROSTER_NONE) return;
  traffic_note(retention, &retention->roster.segments[number], now_us);
  roster_touch(&retention->roster, number, now_us);
}

enum status retention_set_value(struct retention *retention, uint64_t segment, double value_usd_per_byte) {
  uint32_t number = roster_find(&retention->roster, segment);
  if (number == ROSTER_NONE) return STATUS_NOT_FOUND;
  struct roster_segment *record = &retention->roster.segments[number];
  record->value = number_clamp(value_usd_per_byte, -FOREVER / 2, FOREVER / 2, 0);
  record->has_value = true;
  return STATUS_OK;
}

enum status retention_pin(struct retention *retention, uint64_t segment) {
  uint32_t number = roster_find(&retention->roster, segment);
  if (number == ROSTER_NONE) return STATUS_NOT_FOUND;
  retention->roster.segments[number].pins++;
  return STATUS_OK;
}

void retention_unpin(struct retention *retention, uint64_t segment) {
  uint32_t number = roster_find(&retention->roster, segment);
  assert(number != ROSTER_NONE && retention->roster.segments[number].pins > 0);
  if (number == ROSTER_NONE || retention->roster.segments[number].pins == 0) return;
  retention->roster.segments[number].pins--;
  retention_forget(retention, number);
}

enum status retention_pin_order(struct retention *retention, uint64_t segment, enum tier tier, struct error *error) {
  uint32_t number = roster_find(&retention->roster, segment);
  if (tier <= TIER_NONE || tier >= TIER_COUNT || number == ROSTER_NONE ||
      !retention->roster.segments[number].copies[tier].is_present) {
    return error_set(error, STATUS_NOT_FOUND, "pin: nothing of that prefix lies in tier %s; prepare it first",
                     tier_name(tier));
  }
  struct roster_copy *copy = &retention->roster.segments[number].copies[tier];
  if (copy->is_pinned) return STATUS_OK;
  uint64_t allowed = (uint64_t)((double)retention->settings.capacity_bytes[tier] * retention->settings.pin_fraction);
  uint64_t pinned = retention->roster.tiers[tier].pinned_bytes;
  if (copy->bytes > allowed || pinned > allowed - copy->bytes) {
    return error_set(error, STATUS_FULL,
                     "pin: %llu bytes more than the pin budget of tier %s takes (%llu of %llu bytes pinned); "
                     "delete a pin or raise the tier's size",
                     (unsigned long long)copy->bytes, tier_name(tier), (unsigned long long)pinned,
                     (unsigned long long)allowed);
  }
  copy->is_pinned = true;
  retention->roster.tiers[tier].pinned_bytes += copy->bytes;
  return STATUS_OK;
}

void retention_unpin_order(struct retention *retention, uint64_t segment, enum tier tier) {
  uint32_t number = roster_find(&retention->roster, segment);
  if (number == ROSTER_NONE || tier <= TIER_NONE || tier >= TIER_COUNT) return;
  struct roster_copy *copy = &retention->roster.segments[number].copies[tier];
  if (!copy->is_pinned) return;
  copy->is_pinned = false;
  retention->roster.tiers[tier].pinned_bytes -= copy->bytes;
}

uint64_t retention_pinned_bytes(const struct retention *retention, enum tier tier) {
  return retention->roster.tiers[tier].pinned_bytes;
}

/* What ranks a leaf: the lowest leaves first. */
static double leaf_score(const struct retention *retention, const struct roster_segment *record, uint64_t now_us) {
  switch (retention->settings.policy) {
  case RETENTION_VALUE:
    if (record->has_value) return record->value;
    return now_us < record->used_us + retention->settings.grace_us ? FOREVER : 0;
  case RETENTION_FREQUENCY:
    return (double)record->asks;
  case RETENTION_WORKLOAD: {
    const struct traffic *traffic = &retention->traffic[record->traffic];
    double age_s = now_us > record->used_us ? (double)(now_us - record->used_us) / 1e6 : 0;
    double reuse = (traffic->reused + 1) / (traffic->stored + traffic->reused + 2);
    return reuse * number_exp(-age_s / (traffic->gap_s > 1e-3 ? traffic->gap_s : 1e-3));
  }
  default:
    return 0;
  }
}

struct pick {
  uint32_t segment; /* ROSTER_NONE: none yet */
  double score;
};

static bool pick_is_before(const struct retention *retention, uint32_t segment, double score, struct pick pick) {
  if (pick.segment == ROSTER_NONE || score < pick.score) return true;
  if (score > pick.score) return false;
  const struct roster_segment *a = &retention->roster.segments[segment];
  const struct roster_segment *b = &retention->roster.segments[pick.segment];
  return a->stamp < b->stamp || (a->stamp == b->stamp && a->id < b->id);
}

struct ballot {
  struct pick free;    /* lowest score of all leaves */
  struct pick allowed; /* lowest score of those whose price the slack covers */
  struct pick recent;  /* least recent of all leaves */
};

static struct ballot ballot_hold(const struct retention *retention, enum tier tier, double slack, uint64_t now_us) {
  struct ballot ballot = {{ROSTER_NONE, 0}, {ROSTER_NONE, 0}, {ROSTER_NONE, 0}};
  const struct roster_tier *place = &retention->roster.tiers[tier];
  for (uint32_t i = 0; i < place->n_leaves; i++) {
    uint32_t segment = place->leaves[i];
    if (!roster_may_leave(&retention->roster, segment, tier)) continue;
    const struct roster_segment *record = &retention->roster.segments[segment];
    double score = leaf_score(retention, record, now_us);
    if (pick_is_before(retention, segment, 0, ballot.recent)) ballot.recent = (struct pick){segment, 0};
    if (pick_is_before(retention, segment, score, ballot.free)) ballot.free = (struct pick){segment, score};
    if (retention->guard && pick_is_before(retention, segment, score, ballot.allowed)) {
      uint32_t price = guard_price(retention->guard, record->blocks, record->n_blocks, tier);
      if (price == 0 || price <= slack) ballot.allowed = (struct pick){segment, score};
    }
  }
  if (!retention->guard) ballot.allowed = ballot.free;
  return ballot;
}

/* One victim, or ROSTER_NONE; counts how it was found. */
static uint32_t victim_choose(struct retention *retention, const struct retention_need *need, double slack,
                              uint64_t now_us) {
  struct ballot ballot = ballot_hold(retention, need->tier, slack, now_us);
  if (need->cause == RETENTION_FOR_PREPARATION) {
    if (ballot.allowed.segment == ROSTER_NONE) return ROSTER_NONE;
    bool is_ranked_by_value = retention->settings.policy == RETENTION_VALUE;
    if (is_ranked_by_value && !(ballot.allowed.score < need->value_usd_per_byte)) return ROSTER_NONE;
  }
  if (ballot.allowed.segment == ROSTER_NONE) {
    if (ballot.recent.segment != ROSTER_NONE) retention->by_recency[need->tier]++;
    return ballot.recent.segment;
  }
  uint64_t *counter = retention->settings.policy == RETENTION_LRU     ? retention->by_recency
                      : ballot.allowed.segment == ballot.free.segment ? retention->by_prediction
                                                                      : retention->by_guard;
  counter[need->tier]++;
  return ballot.allowed.segment;
}

void retention_choose_victims(struct retention *retention, const struct retention_need *need, uint64_t now_us,
                              uint64_t *victims, uint32_t max, uint32_t *ret_n, uint64_t *ret_bytes) {
  uint32_t n = 0;
  uint64_t bytes = 0;
  assert(need->tier > TIER_NONE && need->tier < TIER_COUNT);
  double slack = retention->guard ? guard_slack(retention->guard, need->tier) : 0;
  /* Victims leave for the length of this call, so that their parents become leaves and shared blocks lose a copy. */
  while (n < max && bytes < need->bytes) {
    uint32_t victim = victim_choose(retention, need, slack, now_us);
    if (victim == ROSTER_NONE) break;
    const struct roster_segment *record = &retention->roster.segments[victim];
    if (retention->guard) slack -= guard_price(retention->guard, record->blocks, record->n_blocks, need->tier);
    bytes += record->copies[need->tier].bytes;
    victims[n++] = record->id;
    segment_leave(retention, victim, need->tier);
  }
  for (uint32_t i = n; i-- > 0;) {
    uint32_t victim = roster_find(&retention->roster, victims[i]);
    segment_enter(retention, victim, need->tier, retention->roster.segments[victim].copies[need->tier].bytes);
  }
  *ret_n = n;
  *ret_bytes = bytes;
}

struct retention_guard retention_guard_of(const struct retention *retention, enum tier tier) {
  struct retention_guard guard = {.by_prediction = retention->by_prediction[tier],
                                  .by_guard = retention->by_guard[tier],
                                  .by_recency = retention->by_recency[tier]};
  if (!retention->guard) return guard;
  struct guard_account account = guard_account_of(retention->guard, tier);
  guard.asked_blocks = account.asked_blocks;
  guard.our_hit_blocks = account.our_hit_blocks;
  guard.shadow_hit_blocks = account.shadow_hit_blocks;
  guard.absent_blocks = account.absent_blocks;
  guard.shadow_capacity_blocks = account.capacity_blocks;
  guard.account = guard_slack(retention->guard, tier) + (double)account.absent_blocks;
  return guard;
}

uint64_t retention_tier_bytes(const struct retention *retention, enum tier tier) {
  return retention->roster.tiers[tier].bytes;
}

uint32_t retention_count(const struct retention *retention) {
  return retention->roster.count;
}
