/* The order in which stored segments leave when a tier needs room. Leaf first in every tier; by prediction only as far
 * as the proven guard allows, so that hits never fall below what LRU of the same size would have had, less ε of the
 * blocks asked. Never removes anything itself: it is told what came and went, and names victims. One thread at a time.
 * Owns its metadata only. Memory is bounded by segments_max, the shadows' capacities and requests_max.
 *
 * The guard works per tier. Held in tier k means: lies in tier k or a faster one. Φ_k counts blocks that the shadow of
 * tier k holds and we do not; A_k = Σ(our hits − its hits) + ε · blocks asked. A victim may take c held blocks that the
 * shadow also holds only while A_k − Φ_k ≥ c (see retention.c for the proof). */
#ifndef FORELAY_PLACE_RETENTION_H
#define FORELAY_PLACE_RETENTION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "domain/observation.h"
#include "domain/residence.h"

enum retention_policy {
  RETENTION_LRU = 0,   /* least recently used leaf; no shadow needed */
  RETENTION_VALUE,     /* lowest value a byte that plan set, under the guard: the policy that ships */
  RETENTION_FREQUENCY, /* fewest asks, then least recent: a baseline, unguarded */
  RETENTION_WORKLOAD,  /* by reuse probability of the segment's class at its age: a baseline, unguarded */
  RETENTION_POLICY_COUNT
};
/* "lru", "value", "frequency", "workload"; static storage. */
const char *retention_policy_name(enum retention_policy policy);
/* RETENTION_POLICY_COUNT when the name is none of them. */
enum retention_policy retention_policy_of_name(const char *name);

enum { RETENTION_CLASSES = 8 };

struct retention_settings {
  enum retention_policy policy;
  double epsilon;                      /* 0 … 1: share of asked blocks that may be lost to wrong predictions */
  uint64_t capacity_bytes[TIER_COUNT]; /* 0: no such tier */
  uint64_t block_bytes;  /* stored bytes of one block, to size the shadows; 0: from the first full segment */
  double pin_fraction;   /* 0 … 1: most of a tier that orders may pin */
  uint64_t grace_us;     /* a segment without a value is kept this long after its last use, then it counts as worth 0 */
  uint32_t segments_max; /* ≥ 1, known segments in all tiers */
  uint32_t requests_max; /* ≥ 1, requests between arrival and settlement; past it the oldest is settled */
};

/* Policy value, ε = .003, a quarter of a tier for pins, 10 s of grace, 1,000,000 segments, 1,024 requests, no tier. */
void retention_settings_init(struct retention_settings *settings);

struct retention;

/* STATUS_INVALID names the setting at fault. settings are copied. */
MUST_USE enum status retention_create(const struct retention_settings *settings, struct error *error,
                                      struct retention **ret_retention);
void retention_destroy(struct retention **retention);

/* A request for the path keys[n] has arrived: feeds the shadows and settles hits against them (both by metadata:
 * leading blocks held). Its blocks count as on their way into the cache until retention_settle(request). */
MUST_USE enum status retention_arrival(struct retention *retention, uint64_t request, const block_key *keys,
                                       uint32_t n);
/* The request has ended and what it stored has been told. Unknown requests are ignored. */
void retention_settle(struct retention *retention, uint64_t request);

/* A segment lies in a tier (event->is_present) or has left it. A parent not known yet may come later. traffic: 0 …
 * RETENTION_CLASSES − 1, what kind of traffic made it (policy workload). STATUS_INVALID: tier, id 0, own parent or
 * class out of range; STATUS_FULL: segments_max; nothing changed then. Telling the same twice is harmless. */
MUST_USE enum status retention_stored(struct retention *retention, const struct segment_event *event, uint32_t traffic);
MUST_USE enum status retention_gone(struct retention *retention, uint64_t segment, enum tier tier);

/* A request used the state up to and including this segment: it and its ancestors become most recent. */
void retention_touch(struct retention *retention, uint64_t segment, uint64_t now_us);

/* Worth of keeping, in USD a byte; ranks victims of policy value. NaN counts as 0. Plan sets it for every segment
 * within grace_us of its last use and again whenever its forecast changes. */
MUST_USE enum status retention_set_value(struct retention *retention, uint64_t segment, double value_usd_per_byte);

/* In flight: this segment may not leave any tier until each pin is undone. Unpinning what is not pinned is asserted. */
MUST_USE enum status retention_pin(struct retention *retention, uint64_t segment);
void retention_unpin(struct retention *retention, uint64_t segment);
/* By order, in one tier, within pin_fraction of its capacity: STATUS_FULL (error says how much is pinned and allowed),
 * STATUS_NOT_FOUND. Pinning twice is one pin. Leaving the tier ends the pin. */
MUST_USE enum status retention_pin_order(struct retention *retention, uint64_t segment, enum tier tier,
                                         struct error *error);
void retention_unpin_order(struct retention *retention, uint64_t segment, enum tier tier);
uint64_t retention_pinned_bytes(const struct retention *retention, enum tier tier);

enum retention_cause {
  RETENTION_FOR_REQUEST = 0, /* room for what a request asked for: a victim is found wherever an unpinned leaf is */
  RETENTION_FOR_PREPARATION  /* room for speculation: only victims that the guard allows and that are worth less */
};

struct retention_need {
  enum tier tier;
  uint64_t bytes; /* to be freed, ≥ 1 */
  enum retention_cause cause;
  double value_usd_per_byte; /* of what is to come in; victims of a preparation are worth less than this. Ignored for
                                requests */
};

/* Names victims, in the order in which they are to leave (children before parents), until their bytes reach need->bytes
 * or victims[max] is full or nothing may leave; *ret_n of them with *ret_bytes together. Names only: tell
 * retention_gone when they are gone. Never pinned, never the parent of a segment in the same tier, nor of one in a
 * faster tier that has no other copy of it. */
void retention_choose_victims(struct retention *retention, const struct retention_need *need, uint64_t now_us,
                              uint64_t *victims, uint32_t max, uint32_t *ret_n, uint64_t *ret_bytes);

/* The guard of one tier, for the ledger and for tests. */
struct retention_guard {
  uint64_t asked_blocks;
  uint64_t our_hit_blocks, shadow_hit_blocks;
  uint64_t absent_blocks;          /* Φ */
  double account;                  /* A */
  uint32_t shadow_capacity_blocks; /* 0: size not known yet, or no such tier */
  /* Victims named so far: as predicted; the best that the guard allowed; the least recent. */
  uint64_t by_prediction, by_guard, by_recency;
};
struct retention_guard retention_guard_of(const struct retention *retention, enum tier tier);

uint64_t retention_tier_bytes(const struct retention *retention, enum tier tier);
uint32_t retention_count(const struct retention *retention);

#endif
