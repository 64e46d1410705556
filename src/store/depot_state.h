/* Inside of the depot: what its parts share. Loop thread, but for what says otherwise. */
#ifndef FORELAY_STORE_DEPOT_STATE_H
#define FORELAY_STORE_DEPOT_STATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/depot.h"
#include "store/envelope.h"
#include "store/tier.h"

struct disk_job; /* store/traffic.c */
struct map;
struct worker;

struct depot {
  struct depot_config config;
  uint8_t (*salts)[32];
  struct index *index;
  struct tier_store *ram, *ssd;   /* ssd NULL: no such tier */
  struct worker *reader, *writer; /* a thread each: a request's reads never stand behind writes */
  struct disk_job *jobs;
  struct map *reading, *writing; /* segment → its struct disk_job * */
  bool has_traffic;              /* traffic_open was called: what follows is initialised */
  atomic_bool is_closing;        /* queued jobs are not worked on any more */
  pthread_mutex_t mutex;         /* guards is_ended of jobs */
  pthread_cond_t ended;
  struct depot_stats counts; /* those that are counted here */
};

/* Bytes of the state of tokens [from, to). */
uint64_t depot_payload_bytes(const struct depot *depot, uint32_t from, uint32_t to);
/* What a segment's file says, but for its checksum: of the copy in `tier`. */
void depot_envelope(const struct depot *depot, const struct index_entry *entry, enum tier tier,
                    struct envelope *ret_envelope);
/* The index learns that a segment has come to a tier or has gone from it, and the listener with it. */
void depot_set_present(struct depot *depot, uint64_t segment, enum tier tier, uint64_t bytes, uint32_t exact_tokens);
void depot_set_absent(struct depot *depot, uint64_t segment, enum tier tier);
/* In RAM or on disk. */
bool depot_is_somewhere(const struct depot *depot, uint64_t segment);
bool depot_is_on_disk(const struct depot *depot, uint64_t segment);
/* The segment and all behind it, children before parents, to be freed by the caller; NULL: out of memory. */
uint64_t *depot_list_subtree(const struct depot *depot, uint64_t segment, size_t *ret_n);
/* What lies behind a segment that is nowhere cannot be reached any more: it goes too, unless it is pinned. 0: nothing.
 */
void depot_drop_unreachable(struct depot *depot, uint64_t segment);
/* Undoes one index_pin. 0: nothing. */
void depot_unpin(struct depot *depot, uint64_t segment);
/* Partial leaves that the new segment extends are of no use any more in that tier, unless more of them is canonical. */
void depot_retire_shorter(struct depot *depot, const struct index_entry *entry, enum tier tier);

#endif
