#include "store/depot.h"

#include <assert.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "store/depot_state.h"
#include "store/envelope.h"
#include "store/tier.h"
#include "store/traffic.h"

enum { INDEX_BYTES_MAX = 256 << 20 };

struct depot_ticket {
  struct tier_ticket *ram;
  uint32_t tenant, from, to, exact_tokens;
  block_key key, parent_key;
  uint64_t task;
  uint64_t parent; /* pinned while the ticket lives */
  int32_t tokens[SEGMENT_TOKENS];
};

/* ── small steps ── */

uint64_t depot_payload_bytes(const struct depot *depot, uint32_t from, uint32_t to) {
  return (uint64_t)(to - from) * depot->config.bytes_per_token;
}

static void tell(struct depot *depot, const struct index_entry *entry, enum tier tier, bool is_present) {
  if (depot->config.event == NULL) return;
  const struct depot_event event = {.segment = entry->id,
                                    .parent = entry->parent,
                                    .tier = tier,
                                    .is_present = is_present,
                                    .tenant = entry->tenant,
                                    .from = entry->from,
                                    .to = entry->to,
                                    .bytes = entry->bytes[tier],
                                    .task = entry->task,
                                    .parent_key = entry->parent_key,
                                    .tokens = entry->tokens};
  depot->config.event(depot->config.event_ctx, &event);
}

void depot_set_present(struct depot *depot, uint64_t segment, enum tier tier, uint64_t bytes, uint32_t exact_tokens) {
  struct index_entry entry;
  index_set_tier(depot->index, segment, tier, bytes, exact_tokens);
  if (index_get(depot->index, segment, &entry) == STATUS_OK) tell(depot, &entry, tier, true);
}

/* Forgets a segment that is nowhere and that nothing needs, and then those before it that only it kept. */
static void prune(struct depot *depot, uint64_t segment) {
  struct index_entry entry;
  while (segment != 0 && index_get(depot->index, segment, &entry) == STATUS_OK && index_remove(depot->index, segment))
    segment = entry.parent;
}

void depot_set_absent(struct depot *depot, uint64_t segment, enum tier tier) {
  struct index_entry entry;
  if (index_get(depot->index, segment, &entry) != STATUS_OK || entry.bytes[tier] == 0) return;
  index_set_tier(depot->index, segment, tier, 0, 0);
  tell(depot, &entry, tier, false);
  prune(depot, segment);
}

bool depot_is_somewhere(const struct depot *depot, uint64_t segment) {
  struct index_entry entry;
  return index_get(depot->index, segment, &entry) == STATUS_OK &&
         (entry.bytes[TIER_RAM] > 0 || entry.bytes[TIER_SSD] > 0);
}

bool depot_is_on_disk(const struct depot *depot, uint64_t segment) {
  struct index_entry entry;
  return index_get(depot->index, segment, &entry) == STATUS_OK && entry.bytes[TIER_SSD] > 0;
}

/* The segment and all behind it, children before parents, to be freed by the caller; NULL: out of memory. */
uint64_t *depot_list_subtree(const struct depot *depot, uint64_t segment, size_t *ret_n) {
  size_t max = index_count(depot->index);
  uint64_t *list = malloc((max > 0 ? max : 1) * sizeof *list);
  *ret_n = list != NULL ? index_subtree(depot->index, segment, list, max) : 0;
  return list;
}

/* What lies behind a segment that is nowhere cannot be reached any more: it goes too, unless it is pinned. */
void depot_drop_unreachable(struct depot *depot, uint64_t segment) {
  size_t n;
  if (segment == 0 || depot_is_somewhere(depot, segment)) return;
  uint64_t *list = depot_list_subtree(depot, segment, &n);
  for (size_t i = 0; i < n; i++) {
    for (int tier = TIER_RAM; tier <= TIER_SSD; tier++) (void)!depot_evict(depot, list[i], (enum tier)tier);
    prune(depot, list[i]); /* what was nowhere already */
  }
  free(list);
}

void depot_unpin(struct depot *depot, uint64_t segment) {
  if (segment == 0) return;
  index_unpin(depot->index, segment);
  depot_drop_unreachable(depot, segment);
}

void depot_envelope(const struct depot *depot, const struct index_entry *entry, enum tier tier,
                    struct envelope *ret_envelope) {
  *ret_envelope = (struct envelope){.fingerprint = depot->config.fingerprint,
                                    .key = entry->key,
                                    .parent_key = entry->parent_key,
                                    .from = entry->from,
                                    .to = entry->to,
                                    .exact_tokens = entry->exact_tokens[tier],
                                    .payload_bytes = depot_payload_bytes(depot, entry->from, entry->to)};
  memcpy(ret_envelope->salt, depot->salts[entry->tenant], sizeof ret_envelope->salt);
  memcpy(ret_envelope->tokens, entry->tokens, (entry->to - entry->from) * sizeof *entry->tokens);
}

/* ── opening ── */

/* While the folder is scanned. */
struct adoption {
  struct depot *depot;
  struct map *ids; /* key → id of what was adopted */
};

static enum status adopt_chain(struct adoption *adoption, const struct envelope *envelope, uint32_t tenant) {
  struct depot *depot = adoption->depot;
  uint64_t parent = 0, id;
  struct index_entry entry;
  if (envelope->from > 0 && !map_get(adoption->ids, envelope->parent_key, &parent)) return STATUS_NOT_FOUND;
  uint32_t exact =
      fingerprint_is_exact(&envelope->fingerprint, &depot->config.fingerprint) ? envelope->exact_tokens : 0;
  enum status status = index_add(depot->index, tenant, parent, envelope->tokens, envelope->from, envelope->to,
                                 envelope->key, envelope->parent_key, 0, &id);
  if (status == STATUS_OK) status = index_get(depot->index, id, &entry);
  if (status != STATUS_OK) return status;
  if (!block_key_equal(entry.key, envelope->key)) return STATUS_INVALID; /* the same tokens under another name */
  status = map_set(adoption->ids, envelope->key, id);
  if (status == STATUS_OK)
    index_set_tier(depot->index, id, TIER_SSD, ENVELOPE_SIZE + envelope_padded(envelope->payload_bytes), exact);
  else
    (void)index_remove(depot->index, id);
  return status;
}

/* Takes over a file whose chain is complete; files come parents first. */
static bool adopt(void *ctx, const struct envelope *envelope) {
  struct adoption *adoption = ctx;
  struct depot *depot = adoption->depot;
  uint32_t tenant = 0;
  while (tenant < depot->config.n_tenants && memcmp(depot->salts[tenant], envelope->salt, 32) != 0) tenant++;
  if (!fingerprint_is_compatible(&envelope->fingerprint, &depot->config.fingerprint) ||
      envelope->payload_bytes != depot_payload_bytes(depot, envelope->from, envelope->to) ||
      tenant == depot->config.n_tenants) {
    depot->counts.removed_incompatible++;
    return false;
  }
  bool is_adopted = adopt_chain(adoption, envelope, tenant) == STATUS_OK;
  if (is_adopted)
    depot->counts.adopted++;
  else
    depot->counts.removed_orphans++;
  return is_adopted;
}

static enum status open_ssd(struct depot *depot) {
  char folder[PATH_MAX];
  struct adoption adoption = {.depot = depot};
  struct ssd_removed removed = {0};
  if (depot->config.folder == NULL || depot->config.ssd_bytes == 0) return STATUS_OK;
  if (snprintf(folder, sizeof folder, "%s/states", depot->config.folder) >= (int)sizeof folder) return STATUS_TOO_LONG;
  const struct ssd_config config = {.folder = folder,
                                    .limit_bytes = depot->config.ssd_bytes,
                                    .writes_bytes_per_day = depot->config.ssd_writes_bytes_per_day};
  enum status status = map_create(0, &adoption.ids);
  if (status == STATUS_OK) status = ssd_open(&config, adopt, &adoption, &removed, &depot->ssd);
  map_destroy(&adoption.ids);
  depot->counts.removed = removed.temporary + removed.broken + removed.over_cap + removed.unwanted;
  depot->counts.removed_temporary = removed.temporary;
  depot->counts.removed_broken = removed.broken;
  depot->counts.removed_over_cap = removed.over_cap;
  return status;
}

static void tell_adopted(void *ctx, const struct index_entry *entry) {
  tell(ctx, entry, TIER_SSD, true);
}

enum status depot_open(const struct depot_config *config, struct depot **ret_depot, struct error *error) {
  struct depot *depot = calloc(1, sizeof *depot);
  if (depot == NULL) return STATUS_NO_MEMORY;
  depot->config = *config;
  depot->salts = calloc(config->n_tenants, sizeof *depot->salts);
  enum status status = depot->salts != NULL ? STATUS_OK : STATUS_NO_MEMORY;
  if (status == STATUS_OK) memcpy(depot->salts, config->salts, config->n_tenants * sizeof *depot->salts);
  if (status == STATUS_OK)
    status = index_create(config->index_bytes_max > 0 ? config->index_bytes_max : INDEX_BYTES_MAX, &depot->index);
  if (status == STATUS_OK) status = ram_open(config->ram_bytes, &depot->ram);
  if (status == STATUS_OK) status = open_ssd(depot);
  if (status == STATUS_OK) status = traffic_open(depot);
  if (status != STATUS_OK) {
    depot_close(&depot);
    return error_set(error, status, "the store could not be opened: %s", status_name(status));
  }
  index_each(depot->index, UINT32_MAX, tell_adopted, depot);
  *ret_depot = depot;
  return STATUS_OK;
}

void depot_close(struct depot **reference) {
  struct depot *depot = *reference;
  if (depot == NULL) return;
  traffic_close(depot);
  if (depot->ssd != NULL) depot->ssd->ops->close(depot->ssd);
  if (depot->ram != NULL) depot->ram->ops->close(depot->ram);
  index_destroy(&depot->index);
  free(depot->salts);
  free(depot);
  *reference = NULL;
}

/* ── finding ── */

void depot_match(struct depot *depot, uint32_t tenant, const int32_t *tokens, uint32_t n, bool is_exact,
                 struct index_match *ret_match) {
  index_match(depot->index, tenant, tokens, n, is_exact, ret_match);
  for (uint32_t i = 0; i < ret_match->n; i++) index_pin(depot->index, ret_match->uses[i].segment);
}

const void *depot_view(struct depot *depot, uint64_t segment) {
  struct index_entry entry;
  if (index_get(depot->index, segment, &entry) != STATUS_OK || entry.bytes[TIER_RAM] == 0) return NULL;
  /* The index's pins keep it; the tier's own pin is only needed where threads use it. */
  const void *view = depot->ram->ops->pin(depot->ram, entry.key);
  depot->ram->ops->unpin(depot->ram, entry.key);
  return view;
}

void depot_release(struct depot *depot, const struct index_match *match) {
  uint64_t lost = 0; /* the first that is nowhere any more */
  for (uint32_t i = match->n; i > 0; i--) {
    index_unpin(depot->index, match->uses[i - 1].segment);
    if (!depot_is_somewhere(depot, match->uses[i - 1].segment)) lost = match->uses[i - 1].segment;
  }
  depot_drop_unreachable(depot, lost);
}

uint64_t depot_segment_bytes(const struct depot *depot, uint32_t tokens) {
  return depot->ram->ops->cost(depot->ram, (uint64_t)tokens * depot->config.bytes_per_token);
}

uint64_t depot_room(const struct depot *depot) {
  struct tier_usage usage;
  depot->ram->ops->usage(depot->ram, &usage);
  return usage.limit_bytes - usage.used_bytes;
}

uint64_t depot_fetch_bytes(const struct depot *depot, const struct index_match *match) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < match->n; i++) {
    struct index_entry entry;
    if (index_get(depot->index, match->uses[i].segment, &entry) == STATUS_OK && entry.bytes[TIER_RAM] == 0)
      bytes += depot_segment_bytes(depot, entry.to - entry.from);
  }
  return bytes;
}

uint32_t depot_missing(const struct depot *depot, uint32_t tenant, const int32_t *tokens, uint32_t n,
                       uint32_t exact_tokens, struct index_range *ret_ranges, uint32_t max) {
  return index_missing(depot->index, tenant, tokens, n, exact_tokens, TIER_RAM, ret_ranges, max);
}

/* ── writing into RAM ── */

enum status depot_reserve(struct depot *depot, uint32_t tenant, const int32_t *tokens, uint32_t from, uint32_t to,
                          uint32_t exact_tokens, block_key key, block_key parent_key, uint64_t task,
                          struct depot_ticket **ret_ticket, void **ret_bytes) {
  assert(tenant < depot->config.n_tenants);
  uint64_t parent = index_find(depot->index, tenant, tokens, from);
  if (from > 0 && !depot_is_somewhere(depot, parent)) return STATUS_NOT_FOUND;
  struct depot_ticket *ticket = calloc(1, sizeof *ticket);
  if (ticket == NULL) return STATUS_NO_MEMORY;
  enum status status = depot->ram->ops->reserve(depot->ram, depot_payload_bytes(depot, from, to), &ticket->ram);
  if (status != STATUS_OK) {
    free(ticket);
    return status;
  }
  ticket->tenant = tenant;
  ticket->from = from;
  ticket->to = to;
  ticket->exact_tokens = exact_tokens;
  ticket->key = key;
  ticket->parent_key = parent_key;
  ticket->task = task;
  ticket->parent = parent;
  memcpy(ticket->tokens, tokens + from, (to - from) * sizeof *tokens);
  if (parent != 0) index_pin(depot->index, parent);
  *ret_bytes = depot->ram->ops->memory(ticket->ram);
  *ret_ticket = ticket;
  return STATUS_OK;
}

static void release_ticket(struct depot *depot, struct depot_ticket *ticket) {
  depot_unpin(depot, ticket->parent);
  free(ticket);
}

/* Partial leaves that the new segment extends are of no use any more in that tier, unless more of them is canonical. */
void depot_retire_shorter(struct depot *depot, const struct index_entry *entry, enum tier tier) {
  struct index_entry shorter;
  uint32_t n = entry->to - entry->from;
  for (uint64_t id; (id = index_shorter(depot->index, entry->tenant, entry->parent, entry->tokens, n)) != 0;) {
    if (index_get(depot->index, id, &shorter) != STATUS_OK) break;
    n = shorter.to - shorter.from;
    uint32_t exact_tokens = shorter.exact_tokens[tier] < shorter.to ? shorter.exact_tokens[tier] : shorter.to;
    if (entry->exact_tokens[tier] >= exact_tokens) (void)!depot_evict(depot, id, tier);
  }
}

/* What the index knows of a ticket's segment after the RAM tier has, or has not, taken its bytes. */
static void show(struct depot *depot, const struct depot_ticket *ticket, uint64_t id, bool is_taken, bool is_known) {
  uint64_t bytes = depot_segment_bytes(depot, ticket->to - ticket->from);
  struct index_entry entry;
  if (!is_taken) {
    if (is_known) depot_set_absent(depot, id, TIER_RAM);
    (void)index_remove(depot->index, id);
    return;
  }
  if (is_known)
    index_set_tier(depot->index, id, TIER_RAM, bytes, ticket->exact_tokens);
  else
    depot_set_present(depot, id, TIER_RAM, bytes, ticket->exact_tokens);
  if (index_get(depot->index, id, &entry) == STATUS_OK) depot_retire_shorter(depot, &entry, TIER_RAM);
}

/* The visible half of a reservation: bytes are in the ticket's memory. */
static enum status publish(struct depot *depot, struct depot_ticket *ticket, uint64_t *ret_segment) {
  uint64_t id;
  struct index_entry entry;
  struct envelope sizes = {.payload_bytes = depot_payload_bytes(depot, ticket->from, ticket->to)};
  enum status status = ticket->parent == 0 || depot_is_somewhere(depot, ticket->parent) ? STATUS_OK : STATUS_NOT_FOUND;
  if (status == STATUS_OK)
    status = index_add(depot->index, ticket->tenant, ticket->parent, ticket->tokens, ticket->from, ticket->to,
                       ticket->key, ticket->parent_key, ticket->task, &id);
  if (status == STATUS_OK) status = index_get(depot->index, id, &entry);
  bool is_known = status == STATUS_OK && entry.bytes[TIER_RAM] > 0;
  bool is_better = is_known && ticket->exact_tokens > entry.exact_tokens[TIER_RAM];
  if (is_better) status = entry.pins > 0 ? STATUS_BUSY : depot->ram->ops->drop(depot->ram, entry.key);
  if (status != STATUS_OK || (is_known && !is_better)) {
    depot->ram->ops->abort(depot->ram, ticket->ram);
  } else {
    (void)!depot->ram->ops->write(depot->ram, ticket->ram, &sizes, depot->ram->ops->memory(ticket->ram));
    status = depot->ram->ops->commit(depot->ram, ticket->ram, entry.key);
    show(depot, ticket, id, status == STATUS_OK, is_known);
  }
  if (status == STATUS_OK && ret_segment != NULL) *ret_segment = id;
  return status;
}

enum status depot_commit(struct depot *depot, struct depot_ticket *ticket, uint64_t *ret_segment) {
  enum status status = publish(depot, ticket, ret_segment);
  release_ticket(depot, ticket);
  return status;
}

void depot_abort(struct depot *depot, struct depot_ticket *ticket) {
  depot->ram->ops->abort(depot->ram, ticket->ram);
  release_ticket(depot, ticket);
}

/* ── eviction ── */

enum status depot_evict(struct depot *depot, uint64_t segment, enum tier tier) {
  struct index_entry entry;
  if (tier != TIER_RAM && tier != TIER_SSD) return STATUS_NOT_FOUND;
  if (index_get(depot->index, segment, &entry) != STATUS_OK || entry.bytes[tier] == 0) return STATUS_NOT_FOUND;
  if (entry.pins > 0) return STATUS_BUSY;
  if (index_children(depot->index, segment, tier) > 0) return STATUS_BUSY;
  /* What lies behind it in the other tier needs it in one of them. */
  enum tier other = tier == TIER_RAM ? TIER_SSD : TIER_RAM;
  if (entry.bytes[other] == 0 && entry.children > 0) return STATUS_BUSY;
  struct tier_store *store = tier == TIER_RAM ? depot->ram : depot->ssd;
  enum status status = store->ops->drop(store, entry.key);
  if (status == STATUS_BUSY) return status;
  depot->counts.tier[tier].evicted++;
  depot_set_absent(depot, segment, tier);
  return STATUS_OK;
}

enum status depot_drop(struct depot *depot, uint64_t segment) {
  struct index_entry entry;
  if (index_get(depot->index, segment, &entry) != STATUS_OK) return STATUS_NOT_FOUND;
  size_t n;
  uint64_t *below = depot_list_subtree(depot, segment, &n);
  if (below == NULL) return STATUS_NO_MEMORY;
  enum status status = STATUS_OK;
  for (size_t i = 0; i < n && status == STATUS_OK; i++)
    for (int tier = TIER_RAM; tier <= TIER_SSD && status == STATUS_OK; tier++)
      if (depot_evict(depot, below[i], (enum tier)tier) == STATUS_BUSY) status = STATUS_BUSY;
  free(below);
  return status;
}

enum status depot_segment(const struct depot *depot, uint64_t segment, struct index_entry *ret_entry) {
  return index_get(depot->index, segment, ret_entry);
}

void depot_each(const struct depot *depot, uint32_t tenant, void (*each)(void *ctx, const struct index_entry *entry),
                void *ctx) {
  index_each(depot->index, tenant, each, ctx);
}

void depot_stats(const struct depot *depot, struct depot_stats *ret_stats) {
  *ret_stats = depot->counts;
  ret_stats->index_bytes = index_bytes(depot->index);
  struct tier_store *const stores[TIER_COUNT] = {[TIER_RAM] = depot->ram, [TIER_SSD] = depot->ssd};
  for (int tier = 0; tier < TIER_COUNT; tier++) {
    struct tier_usage usage;
    if (stores[tier] == NULL) continue;
    stores[tier]->ops->usage(stores[tier], &usage);
    ret_stats->tier[tier].limit_bytes = usage.limit_bytes;
    ret_stats->tier[tier].used_bytes = usage.used_bytes;
    ret_stats->tier[tier].reserved_bytes = usage.reserved_bytes;
    ret_stats->tier[tier].segments = usage.objects;
    ret_stats->tier[tier].read_bytes = usage.read_bytes;
    ret_stats->tier[tier].read_us = usage.read_us;
    ret_stats->tier[tier].write_bytes = usage.write_bytes;
    ret_stats->tier[tier].write_us = usage.write_us;
    ret_stats->tier[tier].is_degraded = usage.is_degraded;
    memcpy(ret_stats->tier[tier].condition, usage.condition, sizeof usage.condition);
    if (tier == TIER_SSD) ret_stats->ssd_written_today_bytes = usage.written_today_bytes;
  }
}
