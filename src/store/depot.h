/* One place to ask for stored states: index, RAM and SSD behind one face. Finds the longest ready state of a prompt,
 * hands out room to write a segment into, brings segments from disk, writes them to disk, drops them. Decides nothing:
 * who is displaced is the caller's word. Loop thread only; the disk is worked on by two threads inside. Owns all stored
 * bytes.
 *
 * A segment is a run of at most SEGMENT_TOKENS tokens of one chain that begins at a multiple of SEGMENT_TOKENS; a state
 * is the chain of its segments. Its bytes are opaque: exactly (to − from) · bytes_per_token of them. */
#ifndef FORELAY_STORE_DEPOT_H
#define FORELAY_STORE_DEPOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "domain/block.h"
#include "domain/fingerprint.h"
#include "domain/residence.h"
#include "store/index.h"

struct depot;
struct depot_ticket;

/* A segment has become present in a tier or has gone from it. Borrowed for the call. */
struct depot_event {
  uint64_t segment, parent; /* ids; parent 0: begins at token 0 */
  enum tier tier;
  bool is_present;
  uint32_t tenant;
  uint32_t from, to;
  uint64_t bytes;
  uint64_t task;         /* preparation that computed it, 0: none */
  block_key parent_key;  /* of the prefix up to `from` */
  const int32_t *tokens; /* [to − from] */
};

struct depot_config {
  const char *folder;            /* states/ is made in it; NULL: no SSD tier */
  uint64_t ram_bytes, ssd_bytes; /* hard caps, rounding and reservations included; 0: no such tier */
  uint64_t ssd_writes_bytes_per_day;
  uint64_t index_bytes_max; /* of token ids and entries; 0: 256 MiB */
  uint64_t bytes_per_token;
  struct fingerprint fingerprint; /* of states made now */
  const uint8_t (*salts)[32];     /* [n_tenants], copied */
  uint32_t n_tenants;
  /* Runs fn(ctx) on the loop thread; for completions of the disk threads. */
  bool (*post)(void *post_ctx, void (*fn)(void *ctx), void *ctx);
  void *post_ctx;
  void (*event)(void *event_ctx, const struct depot_event *event); /* may be NULL; must not call the depot */
  void *event_ctx;
};

/* Scans states/: whole compatible chains are adopted, files of our own name pattern that are not are removed and
 * counted. A disk that cannot be used is no failure: the SSD tier is then degraded. Blocks while it scans. */
MUST_USE enum status depot_open(const struct depot_config *config, struct depot **ret_depot, struct error *error);
/* Waits for what the disk threads are in the middle of; what is queued behind it is not done any more, and no `done`
 * runs any more. Completions that are posted already must still run: they find nothing. NULL is accepted. */
void depot_close(struct depot **depot);

/* The longest ready state of the prompt; uses[] name RAM or SSD segments, `pinned` by this call until depot_release. */
void depot_match(struct depot *depot, uint32_t tenant, const int32_t *tokens, uint32_t n, bool is_exact,
                 struct index_match *ret_match);
/* Bytes of a RAM segment of a pinned match; NULL where it is not in RAM. */
const void *depot_view(struct depot *depot, uint64_t segment);
/* Unpins what a match pinned; once for each match. */
void depot_release(struct depot *depot, const struct index_match *match);
/* Brings the SSD segments of a pinned match into RAM. Room that is not free must have been made before (depot_room).
 * done(ctx, bytes, us) exactly once, on the loop thread, never before this returns; afterwards the leading segments
 * that have a view are usable, the rest is not (too little room, or a file was broken: removed and counted). A segment
 * that is on its way already is waited for, not read twice. STATUS_BUSY: too many reads at once; nothing is called
 * then. done must not close the depot. */
MUST_USE enum status depot_fetch(struct depot *depot, const struct index_match *match,
                                 void (*done)(void *ctx, uint64_t bytes, uint64_t us), void *ctx);
/* RAM bytes that fetching the match would take. */
uint64_t depot_fetch_bytes(const struct depot *depot, const struct index_match *match);

/* Which ranges of tokens[n] (from 0 up to n) are not in RAM yet, or less canonical there than the first exact_tokens of
 * them are where they come from, in order; at most `max`. Ranges begin at multiples of SEGMENT_TOKENS. */
uint32_t depot_missing(const struct depot *depot, uint32_t tenant, const int32_t *tokens, uint32_t n,
                       uint32_t exact_tokens, struct index_range *ret_ranges, uint32_t max);
/* RAM bytes that a segment of so many tokens takes, rounding and overhead included. */
uint64_t depot_segment_bytes(const struct depot *depot, uint32_t tokens);
/* Bytes free in RAM now. */
uint64_t depot_room(const struct depot *depot);
/* Room to write tokens [from, to) of a chain into: *ret_bytes has (to − from) · bytes_per_token bytes, written by any
 * thread until commit or abort. keys: of the chain's block ends is the caller's matter; here `key` names the whole
 * prefix up to `to` and parent_key the one up to `from`. STATUS_FULL: no room (ask the planner for victims, try again);
 * STATUS_NOT_FOUND: its parent is not stored in RAM or SSD; STATUS_TOO_LONG: larger than the tier. */
MUST_USE enum status depot_reserve(struct depot *depot, uint32_t tenant, const int32_t *tokens, uint32_t from,
                                   uint32_t to, uint32_t exact_tokens, block_key key, block_key parent_key,
                                   uint64_t task, struct depot_ticket **ret_ticket, void **ret_bytes);
/* Makes it visible; read-only from now on. Where RAM has these tokens already, the more canonical copy stays
 * (STATUS_BUSY: the old one is pinned, and stays). A shorter partial segment that it extends, and nothing hangs on, goes.
 * *ret_segment its id (may be NULL). STATUS_NOT_FOUND: its parent went meanwhile, the bytes are dropped. The ticket is
 * gone either way. */
MUST_USE enum status depot_commit(struct depot *depot, struct depot_ticket *ticket, uint64_t *ret_segment);
void depot_abort(struct depot *depot, struct depot_ticket *ticket);

/* Writes a RAM segment to disk, in the background; RAM keeps it. STATUS_OK also where it is there or on its way.
 * STATUS_FULL: disk cap or the day's writes; STATUS_NOT_FOUND: not in RAM, or its parent is not on disk;
 * STATUS_UNSUPPORTED: no disk tier, or it is degraded; STATUS_BUSY: too many writes at once. */
MUST_USE enum status depot_demote(struct depot *depot, uint64_t segment);
/* STATUS_BUSY: pinned, being written, or something behind it lies in the same tier or has no other home;
 * STATUS_NOT_FOUND. */
MUST_USE enum status depot_evict(struct depot *depot, uint64_t segment, enum tier tier);
/* Drops a segment and all behind it from every tier, unless pinned. */
MUST_USE enum status depot_drop(struct depot *depot, uint64_t segment);
/* Writes segments[n] to disk in this order (parents are written before their children) until deadline_us (monotonic);
 * blocks; waits for those on their way. For the end of the program. Returns how many are on disk. */
size_t depot_flush(struct depot *depot, const uint64_t *segments, size_t n, uint64_t deadline_us);

/* One stored segment, for lists. */
MUST_USE enum status depot_segment(const struct depot *depot, uint64_t segment, struct index_entry *ret_entry);
/* Calls each() for every segment, parents before children; tenant UINT32_MAX: all. */
void depot_each(const struct depot *depot, uint32_t tenant, void (*each)(void *ctx, const struct index_entry *entry),
                void *ctx);

struct depot_stats {
  struct {
    uint64_t limit_bytes, used_bytes, reserved_bytes, segments;
    uint64_t evicted;                                    /* segments, since it was opened */
    uint64_t read_bytes, read_us, write_bytes, write_us; /* of the disk's own work, since it was opened */
    bool is_degraded;
    char condition[160]; /* why; empty: healthy */
  } tier[TIER_COUNT];
  uint64_t ssd_written_today_bytes;
  uint64_t adopted, removed; /* at open: segments taken over; files removed, by reason: */
  uint64_t removed_temporary, removed_broken, removed_over_cap;
  uint64_t removed_incompatible; /* another model's, engine's or tenant's */
  uint64_t removed_orphans;      /* what they follow is not there */
  uint64_t rejected;             /* files that failed when read, by reason: */
  uint64_t rejected_missing, rejected_broken, rejected_incompatible, rejected_unreadable;
  uint64_t index_bytes;
};
void depot_stats(const struct depot *depot, struct depot_stats *ret_stats);

#endif
