#include "store/traffic.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/map.h"
#include "os/clock.h"
#include "os/thread.h"
#include "store/depot_state.h"

enum {
  READS_MAX = 1024,
  WRITES_MAX = 64 /* each holds a RAM segment fast */
};

/* Work of a disk thread on one segment; lives on the heap until its completion has run on the loop. */
struct disk_job {
  struct disk_job *next, **link; /* in depot->jobs */
  struct depot *depot;           /* NULL once the depot is closed */
  struct tier_store *store;      /* the SSD tier; stays until the threads are joined */
  struct envelope envelope;
  uint64_t segment; /* pinned while it is worked on; 0: nothing to do but to tell a fetch so */
  bool is_write;
  struct tier_ticket *ticket; /* write: of the SSD, until written; read: of RAM */
  const void *source;         /* write: pinned RAM view */
  void *target;               /* read: RAM memory */
  struct waiting *waiting;    /* read: fetches that wait for it */
  enum status status;
  bool is_ended;   /* the disk thread is through with it; guarded by depot->mutex */
  bool is_settled; /* write: the index knows */
  bool is_lost;    /* its completion could not be posted and never runs */
};

/* One depot_fetch. */
struct fetch {
  uint32_t open; /* reads not completed */
  uint64_t bytes, begun_us;
  void (*done)(void *ctx, uint64_t bytes, uint64_t us);
  void *ctx;
};

struct waiting {
  struct waiting *next;
  struct fetch *fetch;
};

/* ── jobs ── */

static struct disk_job *new_job(struct depot *depot) {
  struct disk_job *job = calloc(1, sizeof *job);
  if (job == NULL) return NULL;
  job->depot = depot;
  job->store = depot->ssd;
  job->next = depot->jobs;
  job->link = &depot->jobs;
  if (job->next != NULL) job->next->link = &job->next;
  depot->jobs = job;
  return job;
}

/* Frees what waits for it too; nobody is told. */
static void free_job(struct disk_job *job) {
  while (job->waiting != NULL) {
    struct waiting *waiting = job->waiting;
    job->waiting = waiting->next;
    if (--waiting->fetch->open == 0) free(waiting->fetch);
    free(waiting);
  }
  if (job->depot != NULL) {
    *job->link = job->next;
    if (job->next != NULL) job->next->link = job->link;
  }
  free(job);
}

static struct disk_job *job_of(const struct map *jobs, uint64_t segment) {
  uint64_t found;
  return map_get(jobs, map_key_of(segment), &found) ? (struct disk_job *)(uintptr_t)found : NULL;
}

/* The index learns what became of a write, once. A file is of use only behind its parent's. */
static void settle_write(struct disk_job *job) {
  struct depot *depot = job->depot;
  struct index_entry entry;
  if (job->is_settled) return;
  job->is_settled = true;
  depot->ram->ops->unpin(depot->ram, job->envelope.key);
  (void)map_remove(depot->writing, map_key_of(job->segment), NULL);
  if (index_get(depot->index, job->segment, &entry) != STATUS_OK) return;
  if (job->status == STATUS_OK && (entry.parent == 0 || depot_is_on_disk(depot, entry.parent))) {
    depot_set_present(depot, job->segment, TIER_SSD, depot->ssd->ops->cost(depot->ssd, job->envelope.payload_bytes),
                      job->envelope.exact_tokens);
    (void)!index_get(depot->index, job->segment, &entry);
    depot_retire_shorter(depot, &entry, TIER_SSD);
  } else if (job->status == STATUS_OK) {
    (void)!depot->ssd->ops->drop(depot->ssd, entry.key);
  }
  depot_unpin(depot, job->segment);
  depot_unpin(depot, entry.parent);
}

/* ── reading ── */

/* On a disk thread. */
static void run_job(void *ctx) {
  struct disk_job *job = ctx;
  struct depot *depot = job->depot; /* stays until the threads are joined */
  enum status status = atomic_load(&depot->is_closing) ? STATUS_CANCELLED : STATUS_OK;
  if (!job->is_write) {
    if (status == STATUS_OK) status = job->store->ops->read(job->store, &job->envelope, job->target);
  } else {
    if (status == STATUS_OK) status = job->store->ops->write(job->store, job->ticket, &job->envelope, job->source);
    if (status == STATUS_OK)
      status = job->store->ops->commit(job->store, job->ticket, job->envelope.key);
    else
      job->store->ops->abort(job->store, job->ticket);
    job->ticket = NULL; /* gone either way */
  }
  pthread_mutex_lock(&depot->mutex);
  job->status = status;
  job->is_ended = true;
  pthread_cond_broadcast(&depot->ended);
  pthread_mutex_unlock(&depot->mutex);
}

static void count_rejected(struct depot *depot, enum status why) {
  depot->counts.rejected++;
  if (why == STATUS_NOT_FOUND)
    depot->counts.rejected_missing++;
  else if (why == STATUS_CORRUPT)
    depot->counts.rejected_broken++;
  else if (why == STATUS_INCOMPATIBLE)
    depot->counts.rejected_incompatible++;
  else
    depot->counts.rejected_unreadable++;
}

/* A broken file goes, and with it the files of everything behind it; then what cannot be reached any more. */
static void reject(struct depot *depot, uint64_t segment, enum status why) {
  size_t n;
  uint64_t *list = depot_list_subtree(depot, segment, &n);
  const uint64_t *ids = list != NULL ? list : &segment; /* without memory for a list, at least the file itself */
  count_rejected(depot, why);
  for (size_t i = 0; i < (list != NULL ? n : 1); i++) {
    struct index_entry entry;
    if (index_get(depot->index, ids[i], &entry) != STATUS_OK || entry.bytes[TIER_SSD] == 0) continue;
    (void)!depot->ssd->ops->drop(depot->ssd, entry.key);
    depot_set_absent(depot, ids[i], TIER_SSD);
  }
  free(list);
  depot_drop_unreachable(depot, segment);
}

/* Tells the fetches that waited for the job, which is gone then. */
static void tell_fetches(struct disk_job *job, uint64_t bytes) {
  struct waiting *waiting = job->waiting;
  job->waiting = NULL;
  free_job(job);
  while (waiting != NULL) {
    struct waiting *next = waiting->next;
    struct fetch *fetch = waiting->fetch;
    free(waiting);
    waiting = next;
    fetch->bytes += bytes;
    if (--fetch->open > 0) continue;
    fetch->done(fetch->ctx, fetch->bytes, clock_monotonic_us() - fetch->begun_us);
    free(fetch);
  }
}

static void finish_read(struct disk_job *job) {
  struct depot *depot = job->depot;
  uint64_t segment = job->segment, bytes = job->status == STATUS_OK ? job->envelope.payload_bytes : 0;
  struct index_entry entry;
  bool is_known = index_get(depot->index, segment, &entry) == STATUS_OK;
  (void)map_remove(depot->reading, map_key_of(segment), NULL);
  bool is_wanted =
      is_known && entry.bytes[TIER_RAM] == 0 && entry.bytes[TIER_SSD] > 0; /* else it came or went meanwhile */
  if (is_wanted && job->status == STATUS_OK) {
    if (depot->ram->ops->commit(depot->ram, job->ticket, entry.key) == STATUS_OK)
      depot_set_present(depot, segment, TIER_RAM, depot_segment_bytes(depot, entry.to - entry.from),
                        job->envelope.exact_tokens);
  } else {
    depot->ram->ops->abort(depot->ram, job->ticket);
    if (is_wanted && job->status != STATUS_BUSY) reject(depot, segment, job->status);
  }
  depot_unpin(depot, segment);
  tell_fetches(job, bytes);
}

static void finish_job(void *ctx) {
  struct disk_job *job = ctx;
  if (job->depot == NULL) {
    free_job(job);
  } else if (job->is_write) {
    settle_write(job);
    free_job(job);
  } else if (job->segment != 0) {
    finish_read(job);
  } else {
    tell_fetches(job, 0);
  }
}

/* Lets the fetch wait for the job. */
static bool wait_for(struct disk_job *job, struct fetch *fetch) {
  struct waiting *waiting = calloc(1, sizeof *waiting);
  if (waiting == NULL) return false;
  *waiting = (struct waiting){job->waiting, fetch};
  job->waiting = waiting;
  fetch->open++;
  return true;
}

/* Begins reading one segment; false: no room, no memory, or the disk's queue is full. */
static bool read_segment(struct depot *depot, const struct index_entry *entry, struct fetch *fetch) {
  struct disk_job *job = job_of(depot->reading, entry->id);
  struct tier_ticket *ticket;
  if (job != NULL) return wait_for(job, fetch);
  if (entry->bytes[TIER_SSD] == 0 ||
      depot->ram->ops->reserve(depot->ram, depot_payload_bytes(depot, entry->from, entry->to), &ticket) != STATUS_OK)
    return false;
  job = new_job(depot);
  if (job != NULL && wait_for(job, fetch)) {
    job->segment = entry->id;
    depot_envelope(depot, entry, TIER_SSD, &job->envelope);
    job->ticket = ticket;
    job->target = depot->ram->ops->memory(ticket);
    if (map_set(depot->reading, map_key_of(entry->id), (uint64_t)(uintptr_t)job) == STATUS_OK) {
      index_pin(depot->index, entry->id);
      if (worker_submit(depot->reader, run_job, finish_job, job) == STATUS_OK) return true;
      index_unpin(depot->index, entry->id);
      (void)map_remove(depot->reading, map_key_of(entry->id), NULL);
    }
    free(job->waiting);
    job->waiting = NULL;
    fetch->open--;
  }
  if (job != NULL) free_job(job);
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
  struct disk_job *job = new_job(depot);
  if (job != NULL && wait_for(job, fetch)) {
    if (depot->config.post(depot->config.post_ctx, finish_job, job)) return STATUS_OK;
    free(job->waiting);
    job->waiting = NULL;
  }
  if (job != NULL) free_job(job);
  free(fetch);
  return STATUS_BUSY;
}

/* ── writing ── */

/* Whether the segment can be written at all: in RAM, its parent on disk or on its way there. */
static enum status may_write(const struct depot *depot, uint64_t segment, struct index_entry *ret_entry) {
  if (depot->ssd == NULL) return STATUS_UNSUPPORTED;
  if (index_get(depot->index, segment, ret_entry) != STATUS_OK || ret_entry->bytes[TIER_RAM] == 0)
    return STATUS_NOT_FOUND;
  uint64_t parent = ret_entry->parent;
  bool is_possible = parent == 0 || depot_is_on_disk(depot, parent) || job_of(depot->writing, parent) != NULL;
  return is_possible ? STATUS_OK : STATUS_NOT_FOUND;
}

enum status depot_demote(struct depot *depot, uint64_t segment) {
  struct index_entry entry;
  enum status status = may_write(depot, segment, &entry);
  if (status != STATUS_OK) return status;
  if (entry.bytes[TIER_SSD] > 0 || job_of(depot->writing, segment) != NULL) return STATUS_OK;
  struct tier_ticket *ticket;
  status = depot->ssd->ops->reserve(depot->ssd, depot_payload_bytes(depot, entry.from, entry.to), &ticket);
  if (status != STATUS_OK) return status;
  struct disk_job *job = new_job(depot);
  status = job != NULL ? map_set(depot->writing, map_key_of(segment), (uint64_t)(uintptr_t)job) : STATUS_NO_MEMORY;
  if (status == STATUS_OK) {
    job->segment = segment;
    job->is_write = true;
    depot_envelope(depot, &entry, TIER_RAM, &job->envelope);
    job->ticket = ticket;
    job->source = depot->ram->ops->pin(depot->ram, entry.key);
    index_pin(depot->index, segment);
    if (entry.parent != 0) index_pin(depot->index, entry.parent);
    if (worker_submit(depot->writer, run_job, finish_job, job) == STATUS_OK) return STATUS_OK;
    status = STATUS_BUSY;
    if (entry.parent != 0) index_unpin(depot->index, entry.parent);
    index_unpin(depot->index, segment);
    depot->ram->ops->unpin(depot->ram, entry.key);
    (void)map_remove(depot->writing, map_key_of(segment), NULL);
  }
  if (job != NULL) free_job(job);
  depot->ssd->ops->abort(depot->ssd, ticket);
  return status;
}

/* Writes one segment on this thread. */
static bool write_now(struct depot *depot, const struct index_entry *entry) {
  struct tier_ticket *ticket;
  struct envelope envelope;
  if (depot->ssd->ops->reserve(depot->ssd, depot_payload_bytes(depot, entry->from, entry->to), &ticket) != STATUS_OK)
    return false;
  depot_envelope(depot, entry, TIER_RAM, &envelope);
  const void *bytes = depot->ram->ops->pin(depot->ram, entry->key);
  enum status status = bytes != NULL ? depot->ssd->ops->write(depot->ssd, ticket, &envelope, bytes) : STATUS_NOT_FOUND;
  if (bytes != NULL) depot->ram->ops->unpin(depot->ram, entry->key);
  if (status != STATUS_OK) {
    depot->ssd->ops->abort(depot->ssd, ticket);
    return false;
  }
  if (depot->ssd->ops->commit(depot->ssd, ticket, entry->key) != STATUS_OK) return false;
  depot_set_present(depot, entry->id, TIER_SSD, depot->ssd->ops->cost(depot->ssd, envelope.payload_bytes),
                    envelope.exact_tokens);
  struct index_entry written;
  if (index_get(depot->index, entry->id, &written) == STATUS_OK) depot_retire_shorter(depot, &written, TIER_SSD);
  return true;
}

/* Waits for a write that is on its way; false: not before the deadline. */
static bool await_write(struct depot *depot, struct disk_job *job, uint64_t deadline_us) {
  const struct timespec until = {.tv_sec = (time_t)(deadline_us / 1000000),
                                 .tv_nsec = (long)(deadline_us % 1000000 * 1000)};
  pthread_mutex_lock(&depot->mutex);
  while (!job->is_ended && pthread_cond_timedwait(&depot->ended, &depot->mutex, &until) == 0) {
  }
  bool is_ended = job->is_ended;
  pthread_mutex_unlock(&depot->mutex);
  if (is_ended) settle_write(job);
  return is_ended;
}

/* Brings one segment whose parent is on disk there too; true: it is there. */
static bool flush_segment(struct depot *depot, uint64_t segment, uint64_t deadline_us) {
  struct disk_job *job = job_of(depot->writing, segment);
  struct index_entry entry;
  if (job != NULL && !await_write(depot, job, deadline_us)) return false;
  if (index_get(depot->index, segment, &entry) != STATUS_OK) return false;
  return entry.bytes[TIER_SSD] > 0 || (entry.bytes[TIER_RAM] > 0 && write_now(depot, &entry));
}

size_t depot_flush(struct depot *depot, const uint64_t *segments, size_t n, uint64_t deadline_us) {
  size_t done = 0;
  if (depot->ssd == NULL) return 0;
  for (size_t i = 0; i < n; i++) {
    uint64_t path[INDEX_MATCH_MAX], id = segments[i];
    size_t depth = 0;
    struct index_entry entry;
    for (; id != 0 && depth < INDEX_MATCH_MAX; id = entry.parent) {
      if (index_get(depot->index, id, &entry) != STATUS_OK) break;
      path[depth++] = id;
    }
    bool is_whole = id == 0 && depth > 0;
    while (is_whole && depth > 0) {
      if (clock_monotonic_us() >= deadline_us) return done;
      is_whole = flush_segment(depot, path[--depth], deadline_us);
    }
    done += is_whole;
  }
  return done;
}

/* ── opening and closing ── */

/* A completion that cannot be posted is remembered, for the end. Any thread. */
static bool post_job(void *ctx, void (*fn)(void *ctx), void *job) {
  struct depot *depot = ctx;
  if (depot->config.post(depot->config.post_ctx, fn, job)) return true;
  ((struct disk_job *)job)->is_lost = true;
  return false;
}

enum status traffic_open(struct depot *depot) {
  pthread_condattr_t monotonic;
  pthread_mutex_init(&depot->mutex, NULL);
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_cond_init(&depot->ended, &monotonic);
  pthread_condattr_destroy(&monotonic);
  depot->has_traffic = true;
  enum status status = map_create(0, &depot->reading);
  if (status == STATUS_OK) status = map_create(0, &depot->writing);
  if (status == STATUS_OK) status = worker_create("disk-read", 1, READS_MAX, post_job, depot, &depot->reader);
  if (status == STATUS_OK) status = worker_create("disk-write", 1, WRITES_MAX, post_job, depot, &depot->writer);
  return status;
}

void traffic_close(struct depot *depot) {
  if (!depot->has_traffic) return;
  atomic_store(&depot->is_closing, true);
  worker_destroy(&depot->reader);
  worker_destroy(&depot->writer);
  for (struct disk_job *job = depot->jobs, *next; job != NULL; job = next) {
    next = job->next;
    if (job->ticket != NULL) depot->ram->ops->abort(depot->ram, job->ticket);
    job->depot = NULL; /* its completion waits on the loop and finds so */
    if (job->is_lost) free_job(job);
  }
  map_destroy(&depot->reading);
  map_destroy(&depot->writing);
  pthread_cond_destroy(&depot->ended);
  pthread_mutex_destroy(&depot->mutex);
}
