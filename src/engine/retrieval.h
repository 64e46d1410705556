/* What of a prompt lies in RAM and on SSD, pinned from the match until the engine has loaded it. Loop thread. Owns its
 * pins, not the bytes. */
#ifndef FORELAY_ENGINE_RETRIEVAL_H
#define FORELAY_ENGINE_RETRIEVAL_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/engine.h"
#include "store/index.h"

struct depot;

struct retrieval {
  bool is_pinned; /* `match` holds pins of the depot */
  struct index_match match;
  struct engine_range ranges[INDEX_MATCH_MAX]; /* [n_ranges] leading segments that are in RAM */
  uint32_t n_ranges;
  uint32_t ram_tokens;       /* of the match, as far as ranges reach */
  uint32_t canonical_tokens; /* ≤ ram_tokens: computed canonically, exactly as here */
};

/* All zero is an empty retrieval. Finds and pins the longest ready state of tokens[n], at most n − 1 of them. */
void retrieval_find(struct retrieval *retrieval, struct depot *depot, const struct engine *engine, uint32_t tenant,
                    const int32_t *tokens, uint32_t n, bool is_exact);
/* Looks again which of the pinned segments are in RAM, after a fetch. */
void retrieval_look(struct retrieval *retrieval, struct depot *depot, const struct engine *engine);
/* Unpins; the tiers of the match may still be asked for. */
void retrieval_release(struct retrieval *retrieval, struct depot *depot);
/* Of the first `tokens` tokens, how many lay in each tier when the match was made: added to into[TIER_COUNT]. */
void retrieval_count(const struct retrieval *retrieval, uint32_t tokens, uint32_t *into);

#endif
