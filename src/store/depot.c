#include "store/depot.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "os/clock.h"
#include "os/thread.h"
#include "store/envelope.h"
#include "store/tier.h"

enum { DISK_THREADS = 2, DISK_QUEUE_MAX = 1024, INDEX_BYTES_MAX = 256 << 20, SUBTREE_MAX = 4096 };

/* Work of a disk thread on one segment; lives on the heap until its completion has run on the loop. */
struct disk_job {
  struct disk_job *next, **link; /* in depot->jobs */
  struct depot *depot;           /* NULL once the depot is closed */
  struct tier_store *store;      /* the SSD tier; stays until the threads are joined */
  struct envelope envelope;
  uint64_t segment;
  bool is_write;
  struct tier_ticket *ticket; /* write: of the SSD; read: of RAM */
  struct tier_store *ticket_store;
  const void *source;  /* write: pinned RAM view */
  void *target;        /* read: RAM memory */
  struct fetch *fetch; /* read */
  enum status status;
};

/* One depot_fetch. */
struct fetch {
  uint32_t open; /* reads not completed */
  uint64_t bytes, begun_us;
  void (*done)(void *ctx, uint64_t bytes, uint64_t us);
  void *ctx;
};

struct depot_ticket {
  struct tier_ticket *ram;
  uint32_t tenant, from, to, exact_tokens;
  block_key key, parent_key;
  uint64_t task;
  uint64_t parent; /* pinned while the ticket lives */
  int32_t tokens[SEGMENT_TOKENS];
};

struct depot {
  struct depot_config config;
  uint8_t (*salts)[32];
  struct index *index;
  struct tier_store *ram, *ssd; /* ssd NULL: no such tier */
  struct worker *disk;
  struct disk_job *jobs;
  struct map
      *writing; /* segments on their way to the disk; while the folder is scanned: key → id of what was adopted */
  uint64_t adopted, removed, rejected;
};

/* ── small steps ── */

static uint64_t payload_bytes(const struct depot *depot, uint32_t from, uint32_t to) {
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

static void set_present(struct depot *depot, uint64_t segment, enum tier tier, uint64_t bytes) {
  struct index_entry entry;
  index_set_tier(depot->index, segment, tier, bytes);
  if (index_get(depot->index, segment, &entry) == STATUS_OK) tell(depot, &entry, tier, true);
}

static void set_absent(struct depot *depot, uint64_t segment, enum tier tier) {
  struct index_entry entry;
  if (index_get(depot->index, segment, &entry) != STATUS_OK || entry.bytes[tier] == 0) return;
  index_set_tier(depot->index, segment, tier, 0);
  tell(depot, &entry, tier, false);
  (void)index_remove(depot->index, segment);
}

static void envelope_of(const struct depot *depot, const struct index_entry *entry, struct envelope *ret_envelope) {
  *ret_envelope = (struct envelope){.fingerprint = depot->config.fingerprint,
                                    .key = entry->key,
                                    .parent_key = entry->parent_key,
                                    .from = entry->from,
                                    .to = entry->to,
                                    .exact_tokens = entry->exact_tokens,
                                    .payload_bytes = payload_bytes(depot, entry->from, entry->to)};
  memcpy(ret_envelope->salt, depot->salts[entry->tenant], sizeof ret_envelope->salt);
  memcpy(ret_envelope->tokens, entry->tokens, (entry->to - entry->from) * sizeof *entry->tokens);
}

/* ── opening ── */

/* Takes over a file whose chain is complete; files come parents first. */
static bool adopt(void *ctx, const struct envelope *envelope) {
  struct depot *depot = ctx;
  uint32_t tenant = 0;
  uint64_t parent = 0, id;
  if (memcmp(envelope->fingerprint.compat, depot->config.fingerprint.compat, 32) != 0 ||
      envelope->payload_bytes != payload_bytes(depot, envelope->from, envelope->to))
    return false;
  while (tenant < depot->config.n_tenants && memcmp(depot->salts[tenant], envelope->salt, 32) != 0) tenant++;
  if (tenant == depot->config.n_tenants) return false;
  if (envelope->from > 0 && !map_get(depot->writing, envelope->parent_key, &parent)) return false;
  uint32_t exact =
      fingerprint_is_exact(&envelope->fingerprint, &depot->config.fingerprint) ? envelope->exact_tokens : 0;
  if (index_add(depot->index, tenant, parent, envelope->tokens, envelope->from, envelope->to, exact, envelope->key,
                envelope->parent_key, 0, &id) != STATUS_OK ||
      map_set(depot->writing, envelope->key, id) != STATUS_OK)
    return false;
  index_set_tier(depot->index, id, TIER_SSD, ENVELOPE_SIZE + envelope_padded(envelope->payload_bytes));
  depot->adopted++;
  return true;
}

static enum status open_ssd(struct depot *depot) {
  char folder[PATH_MAX];
  if (depot->config.folder == NULL || depot->config.ssd_bytes == 0) return STATUS_OK;
  if (snprintf(folder, sizeof folder, "%s/states", depot->config.folder) >= (int)sizeof folder) return STATUS_TOO_LONG;
  const struct ssd_config config = {.folder = folder,
                                    .limit_bytes = depot->config.ssd_bytes,
                                    .writes_bytes_per_day = depot->config.ssd_writes_bytes_per_day};
  enum status status = ssd_open(&config, adopt, depot, &depot->removed, &depot->ssd);
  map_destroy(&depot->writing);
  return status == STATUS_OK ? map_create(0, &depot->writing) : status;
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
  if (status == STATUS_OK) status = map_create(0, &depot->writing);
  if (status == STATUS_OK) status = ram_open(config->ram_bytes, &depot->ram);
  if (status == STATUS_OK) status = open_ssd(depot);
  if (status == STATUS_OK)
    status = worker_create("disk", DISK_THREADS, DISK_QUEUE_MAX, config->post, config->post_ctx, &depot->disk);
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
  worker_destroy(&depot->disk);
  /* Completions that wait on the loop find their depot gone; what they hold goes with the tiers. */
  for (struct disk_job *job = depot->jobs; job != NULL; job = job->next) {
    if (job->ticket != NULL) job->ticket_store->ops->abort(job->ticket_store, job->ticket);
    job->depot = NULL;
  }
  if (depot->ssd != NULL) depot->ssd->ops->close(depot->ssd);
  if (depot->ram != NULL) depot->ram->ops->close(depot->ram);
  index_destroy(&depot->index);
  map_destroy(&depot->writing);
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
  for (uint32_t i = 0; i < match->n; i++) index_unpin(depot->index, match->uses[i].segment);
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
                       struct index_range *ret_ranges, uint32_t max) {
  return index_missing(depot->index, tenant, tokens, n, TIER_RAM, ret_ranges, max);
}

/* ── writing into RAM ── */

enum status depot_reserve(struct depot *depot, uint32_t tenant, const int32_t *tokens, uint32_t from, uint32_t to,
                          uint32_t exact_tokens, block_key key, block_key parent_key, uint64_t task,
                          struct depot_ticket **ret_ticket, void **ret_bytes) {
  uint64_t parent = index_find(depot->index, tenant, tokens, from);
  if (from > 0 && parent == 0) return STATUS_NOT_FOUND;
  struct depot_ticket *ticket = calloc(1, sizeof *ticket);
  if (ticket == NULL) return STATUS_NO_MEMORY;
  enum status status = depot->ram->ops->reserve(depot->ram, payload_bytes(depot, from, to), &ticket->ram);
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
  if (ticket->parent != 0) index_unpin(depot->index, ticket->parent);
  free(ticket);
}

/* A partial leaf that the new segment extends is of no use any more in that tier. */
static void retire_shorter(struct depot *depot, const struct index_entry *entry, enum tier tier) {
  uint64_t shorter = index_shorter(depot->index, entry->tenant, entry->parent, entry->tokens, entry->to - entry->from);
  if (shorter != 0) (void)!depot_evict(depot, shorter, tier);
}

/* The visible half of a reservation: bytes are in the ticket's memory. */
static enum status publish(struct depot *depot, struct depot_ticket *ticket, uint64_t *ret_segment) {
  uint64_t id;
  struct index_entry entry;
  struct envelope sizes = {.payload_bytes = payload_bytes(depot, ticket->from, ticket->to)};
  enum status status = index_add(depot->index, ticket->tenant, ticket->parent, ticket->tokens, ticket->from, ticket->to,
                                 ticket->exact_tokens, ticket->key, ticket->parent_key, ticket->task, &id);
  if (status == STATUS_OK) status = index_get(depot->index, id, &entry);
  bool is_known = status == STATUS_OK && entry.bytes[TIER_RAM] > 0;
  if (status != STATUS_OK || is_known) {
    depot->ram->ops->abort(depot->ram, ticket->ram);
  } else {
    (void)!depot->ram->ops->write(depot->ram, ticket->ram, &sizes, depot->ram->ops->memory(ticket->ram));
    status = depot->ram->ops->commit(depot->ram, ticket->ram, entry.key);
    if (status == STATUS_OK) {
      set_present(depot, id, TIER_RAM, depot_segment_bytes(depot, ticket->to - ticket->from));
      retire_shorter(depot, &entry, TIER_RAM);
    } else {
      (void)index_remove(depot->index, id);
    }
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

/* ── disk jobs ── */

static struct disk_job *new_job(struct depot *depot, const struct index_entry *entry, bool is_write) {
  struct disk_job *job = calloc(1, sizeof *job);
  if (job == NULL) return NULL;
  job->depot = depot;
  job->store = depot->ssd;
  job->segment = entry->id;
  job->is_write = is_write;
  envelope_of(depot, entry, &job->envelope);
  job->next = depot->jobs;
  job->link = &depot->jobs;
  if (job->next != NULL) job->next->link = &job->next;
  depot->jobs = job;
  return job;
}

static void free_job(struct disk_job *job) {
  if (job->depot != NULL) {
    *job->link = job->next;
    if (job->next != NULL) job->next->link = job->link;
  }
  free(job);
}

static void run_job(void *ctx) {
  struct disk_job *job = ctx;
  if (job->is_write) {
    job->status = job->store->ops->write(job->store, job->ticket, &job->envelope, job->source);
    if (job->status == STATUS_OK)
      job->status = job->store->ops->commit(job->store, job->ticket, job->envelope.key);
    else
      job->store->ops->abort(job->store, job->ticket);
    job->ticket = NULL; /* gone either way */
  } else {
    job->status = job->store->ops->read(job->store, &job->envelope, job->target);
  }
}

static void finish_write(struct disk_job *job) {
  struct depot *depot = job->depot;
  struct index_entry entry;
  depot->ram->ops->unpin(depot->ram, job->envelope.key);
  index_unpin(depot->index, job->segment);
  (void)map_remove(depot->writing, map_key_of(job->segment), NULL);
  if (job->status != STATUS_OK || index_get(depot->index, job->segment, &entry) != STATUS_OK) return;
  set_present(depot, job->segment, TIER_SSD, depot->ssd->ops->cost(depot->ssd, job->envelope.payload_bytes));
  retire_shorter(depot, &entry, TIER_SSD);
}

/* A broken file goes, and everything that lies only behind it with it. */
static void reject(struct depot *depot, uint64_t segment) {
  uint64_t *below = malloc(SUBTREE_MAX * sizeof *below);
  size_t n = below != NULL ? index_subtree(depot->index, segment, below, SUBTREE_MAX) : 0;
  depot->rejected++;
  for (size_t i = 0; i < n; i++) {
    struct index_entry entry;
    if (index_get(depot->index, below[i], &entry) != STATUS_OK || entry.bytes[TIER_SSD] == 0) continue;
    (void)!depot->ssd->ops->drop(depot->ssd, entry.key);
    set_absent(depot, below[i], TIER_SSD);
  }
  free(below);
}

static void finish_read(struct disk_job *job) {
  struct depot *depot = job->depot;
  struct fetch *fetch = job->fetch;
  enum status status = job->status;
  struct index_entry entry;
  bool is_known = index_get(depot->index, job->segment, &entry) == STATUS_OK;
  if (status == STATUS_OK && is_known && entry.bytes[TIER_RAM] == 0) {
    status = job->ticket_store->ops->commit(depot->ram, job->ticket, entry.key);
    if (status == STATUS_OK)
      set_present(depot, job->segment, TIER_RAM, depot_segment_bytes(depot, entry.to - entry.from));
    fetch->bytes += job->envelope.payload_bytes;
  } else {
    job->ticket_store->ops->abort(depot->ram, job->ticket);
    if (status != STATUS_OK && status != STATUS_IO && is_known) reject(depot, job->segment);
  }
  job->ticket = NULL;
  if (--fetch->open > 0) return;
  fetch->done(fetch->ctx, fetch->bytes, clock_monotonic_us() - fetch->begun_us);
  free(fetch);
}

static void finish_job(void *ctx) {
  struct disk_job *job = ctx;
  if (job->depot != NULL) {
    if (job->is_write)
      finish_write(job);
    else
      finish_read(job);
  } else if (job->fetch != NULL && --job->fetch->open == 0) {
    free(job->fetch);
  }
  free_job(job);
}

static void fetch_was_empty(void *ctx) {
  struct disk_job *job = ctx;
  struct fetch *fetch = job->fetch;
  if (job->depot != NULL) fetch->done(fetch->ctx, 0, 0);
  free(fetch);
  free_job(job);
}

/* Begins reading one segment; false: no room, no memory, or the disk's queue is full. */
static bool read_segment(struct depot *depot, const struct index_entry *entry, struct fetch *fetch) {
  struct tier_ticket *ticket;
  if (depot->ram->ops->reserve(depot->ram, payload_bytes(depot, entry->from, entry->to), &ticket) != STATUS_OK)
    return false;
  struct disk_job *job = new_job(depot, entry, false);
  if (job != NULL) {
    job->ticket = ticket;
    job->ticket_store = depot->ram;
    job->target = depot->ram->ops->memory(ticket);
    job->fetch = fetch;
    if (worker_submit(depot->disk, run_job, finish_job, job) == STATUS_OK) {
      fetch->open++;
      return true;
    }
    free_job(job);
  }
  depot->ram->ops->abort(depot->ram, ticket);
  return false;
}

enum status depot_fetch(struct depot *depot, const struct index_match *match,
                        void (*done)(void *ctx, uint64_t bytes, uint64_t us), void *ctx) {
  struct fetch *fetch = calloc(1, sizeof *fetch);
  if (fetch == NULL) return STATUS_BUSY;
  *fetch = (struct fetch){.begun_us = clock_monotonic_us(), .done = done, .ctx = ctx};
  struct index_entry entry;
  for (uint32_t i = 0; i < match->n; i++) {
    if (index_get(depot->index, match->uses[i].segment, &entry) != STATUS_OK) break;
    if (entry.bytes[TIER_RAM] == 0 && !read_segment(depot, &entry, fetch)) break;
  }
  if (fetch->open > 0) return STATUS_OK;
  /* Nothing to read or no room for any of it: say so, but not before this returns. */
  struct disk_job *job = calloc(1, sizeof *job);
  if (job != NULL) {
    job->depot = depot;
    job->fetch = fetch;
    job->next = depot->jobs;
    job->link = &depot->jobs;
    if (job->next != NULL) job->next->link = &job->next;
    depot->jobs = job;
    if (depot->config.post(depot->config.post_ctx, fetch_was_empty, job)) return STATUS_OK;
    free_job(job);
  }
  free(fetch);
  return STATUS_BUSY;
}

/* ── disk, eviction ── */

/* Whether the segment can be written at all: in RAM, its parent on disk or on its way there. */
static enum status may_write(const struct depot *depot, uint64_t segment, struct index_entry *ret_entry) {
  struct index_entry parent;
  if (depot->ssd == NULL) return STATUS_UNSUPPORTED;
  if (index_get(depot->index, segment, ret_entry) != STATUS_OK || ret_entry->bytes[TIER_RAM] == 0)
    return STATUS_NOT_FOUND;
  if (ret_entry->parent == 0) return STATUS_OK;
  if (index_get(depot->index, ret_entry->parent, &parent) != STATUS_OK) return STATUS_NOT_FOUND;
  bool is_coming = map_get(depot->writing, map_key_of(ret_entry->parent), NULL);
  return parent.bytes[TIER_SSD] > 0 || is_coming ? STATUS_OK : STATUS_NOT_FOUND;
}

enum status depot_demote(struct depot *depot, uint64_t segment) {
  struct index_entry entry;
  enum status status = may_write(depot, segment, &entry);
  if (status != STATUS_OK) return status;
  if (entry.bytes[TIER_SSD] > 0 || map_get(depot->writing, map_key_of(segment), NULL)) return STATUS_OK;
  struct tier_ticket *ticket;
  status = depot->ssd->ops->reserve(depot->ssd, payload_bytes(depot, entry.from, entry.to), &ticket);
  if (status != STATUS_OK) return status;
  struct disk_job *job = new_job(depot, &entry, true);
  if (job != NULL && map_set(depot->writing, map_key_of(segment), 1) == STATUS_OK) {
    job->ticket = ticket;
    job->ticket_store = depot->ssd;
    job->source = depot->ram->ops->pin(depot->ram, entry.key);
    index_pin(depot->index, segment);
    if (worker_submit(depot->disk, run_job, finish_job, job) == STATUS_OK) return STATUS_OK;
    index_unpin(depot->index, segment);
    depot->ram->ops->unpin(depot->ram, entry.key);
    (void)map_remove(depot->writing, map_key_of(segment), NULL);
  }
  if (job != NULL) free_job(job);
  depot->ssd->ops->abort(depot->ssd, ticket);
  return STATUS_FULL;
}

enum status depot_evict(struct depot *depot, uint64_t segment, enum tier tier) {
  struct index_entry entry;
  if (tier != TIER_RAM && tier != TIER_SSD) return STATUS_NOT_FOUND;
  if (index_get(depot->index, segment, &entry) != STATUS_OK || entry.bytes[tier] == 0) return STATUS_NOT_FOUND;
  if (entry.pins > 0 || map_get(depot->writing, map_key_of(segment), NULL)) return STATUS_BUSY;
  if (index_children(depot->index, segment, tier) > 0) return STATUS_BUSY;
  /* What lies behind it in the other tier needs it in one of them. */
  enum tier other = tier == TIER_RAM ? TIER_SSD : TIER_RAM;
  if (entry.bytes[other] == 0 && entry.children > 0) return STATUS_BUSY;
  struct tier_store *store = tier == TIER_RAM ? depot->ram : depot->ssd;
  enum status status = store->ops->drop(store, entry.key);
  if (status == STATUS_BUSY) return status;
  set_absent(depot, segment, tier);
  return STATUS_OK;
}

enum status depot_drop(struct depot *depot, uint64_t segment) {
  struct index_entry entry;
  if (index_get(depot->index, segment, &entry) != STATUS_OK) return STATUS_NOT_FOUND;
  uint64_t *below = malloc(SUBTREE_MAX * sizeof *below);
  if (below == NULL) return STATUS_NO_MEMORY;
  size_t n = index_subtree(depot->index, segment, below, SUBTREE_MAX);
  enum status status = STATUS_OK;
  for (size_t i = 0; i < n && status == STATUS_OK; i++)
    for (int tier = TIER_RAM; tier <= TIER_SSD && status == STATUS_OK; tier++)
      if (depot_evict(depot, below[i], (enum tier)tier) == STATUS_BUSY) status = STATUS_BUSY;
  free(below);
  return status;
}

/* Writes one segment on this thread. */
static bool write_now(struct depot *depot, const struct index_entry *entry) {
  struct tier_ticket *ticket;
  struct envelope envelope;
  if (depot->ssd->ops->reserve(depot->ssd, payload_bytes(depot, entry->from, entry->to), &ticket) != STATUS_OK)
    return false;
  envelope_of(depot, entry, &envelope);
  const void *bytes = depot->ram->ops->pin(depot->ram, entry->key);
  enum status status = bytes != NULL ? depot->ssd->ops->write(depot->ssd, ticket, &envelope, bytes) : STATUS_NOT_FOUND;
  if (bytes != NULL) depot->ram->ops->unpin(depot->ram, entry->key);
  if (status != STATUS_OK) {
    depot->ssd->ops->abort(depot->ssd, ticket);
    return false;
  }
  if (depot->ssd->ops->commit(depot->ssd, ticket, entry->key) != STATUS_OK) return false;
  set_present(depot, entry->id, TIER_SSD, depot->ssd->ops->cost(depot->ssd, envelope.payload_bytes));
  retire_shorter(depot, entry, TIER_SSD);
  return true;
}

size_t depot_flush(struct depot *depot, const uint64_t *segments, size_t n, uint64_t deadline_us) {
  size_t done = 0;
  if (depot->ssd == NULL) return 0;
  for (size_t i = 0; i < n; i++) {
    uint64_t path[INDEX_MATCH_MAX];
    size_t depth = 0;
    struct index_entry entry;
    for (uint64_t id = segments[i]; id != 0 && depth < INDEX_MATCH_MAX; id = entry.parent) {
      if (index_get(depot->index, id, &entry) != STATUS_OK) break;
      path[depth++] = id;
    }
    bool is_whole = true;
    while (depth > 0 && is_whole) {
      if (clock_monotonic_us() >= deadline_us) return done;
      if (index_get(depot->index, path[--depth], &entry) != STATUS_OK) break;
      if (entry.bytes[TIER_SSD] > 0) continue;
      is_whole = entry.bytes[TIER_RAM] > 0 &&
                 (map_get(depot->writing, map_key_of(entry.id), NULL) || write_now(depot, &entry));
    }
    done += is_whole;
  }
  return done;
}

enum status depot_segment(const struct depot *depot, uint64_t segment, struct index_entry *ret_entry) {
  return index_get(depot->index, segment, ret_entry);
}

void depot_each(const struct depot *depot, uint32_t tenant, void (*each)(void *ctx, const struct index_entry *entry),
                void *ctx) {
  index_each(depot->index, tenant, each, ctx);
}

void depot_stats(const struct depot *depot, struct depot_stats *ret_stats) {
  *ret_stats = (struct depot_stats){.adopted = depot->adopted,
                                    .removed = depot->removed,
                                    .rejected = depot->rejected,
                                    .index_bytes = index_bytes(depot->index)};
  struct tier_store *const stores[TIER_COUNT] = {[TIER_RAM] = depot->ram, [TIER_SSD] = depot->ssd};
  for (int tier = 0; tier < TIER_COUNT; tier++) {
    struct tier_usage usage;
    if (stores[tier] == NULL) continue;
    stores[tier]->ops->usage(stores[tier], &usage);
    ret_stats->tier[tier].limit_bytes = usage.limit_bytes;
    ret_stats->tier[tier].used_bytes = usage.used_bytes;
    ret_stats->tier[tier].reserved_bytes = usage.reserved_bytes;
    ret_stats->tier[tier].segments = usage.objects;
    ret_stats->tier[tier].is_degraded = usage.is_degraded;
    memcpy(ret_stats->tier[tier].condition, usage.condition, sizeof usage.condition);
    if (tier == TIER_SSD) ret_stats->ssd_written_today_bytes = usage.written_today_bytes;
  }
}
