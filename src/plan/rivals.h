/* The two caches that preparation and retention are measured against: S0, a forelay that keeps what was used last, and
 * S1, one with our retention. Neither prepares anything. Both see a request where it arrives, and again where it ended:
 * what it would have found is what they held when the engine began with it. Metadata only; one thread at a time. Owns
 * copies of the requests under way. */
#ifndef FORELAY_PLAN_RIVALS_H
#define FORELAY_PLAN_RIVALS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "domain/observation.h"
#include "plan/twin.h"

struct rivals;

struct rivals_config {
  struct twin_config twin; /* of S1; S0 differs in policy only, and is the same where that is LRU */
  uint32_t requests_max;   /* under way; past it the oldest is forgotten */
};

MUST_USE enum status rivals_create(const struct rivals_config *config, struct rivals **ret_rivals);
void rivals_destroy(struct rivals **rivals);
void rivals_resize(struct rivals *rivals, uint64_t ram_bytes, uint64_t ssd_bytes, uint64_t now_us);
/* A segment was found on SSD before anybody asked for something: the reactive cache would have it, too. keys[n] of its
 * whole prefix. */
MUST_USE enum status rivals_adopt(struct rivals *rivals, const block_key *keys, uint32_t n, uint64_t now_us);

MUST_USE enum status rivals_ask(struct rivals *rivals, const struct ask *ask);

/* What they had of one request; 0 for one that is not known. */
struct rivals_hits {
  uint32_t reactive_tokens;  /* S0 */
  uint32_t retention_tokens; /* S1 */
};
/* The request has ended. STATUS_NO_MEMORY: *ret_hits stands, what it left behind is not remembered. */
MUST_USE enum status rivals_finish(struct rivals *rivals, const struct outcome *outcome, struct rivals_hits *ret_hits);
void rivals_revalue(struct rivals *rivals, uint32_t n);

#endif
