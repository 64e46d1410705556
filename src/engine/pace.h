/* How many prompt tokens one call may hold so that it is predicted to end in time: seconds a token, measured by depth.
 * Pure; one thread at a time. */
#ifndef FORELAY_ENGINE_PACE_H
#define FORELAY_ENGINE_PACE_H

#include <stdint.h>

enum {
  PACE_BUCKETS = 64, /* of depth; the last one stands for everything deeper */
  PACE_BUCKET_TOKENS = 512,
  PACE_START_TOKENS = 128 /* before anything was measured */
};

struct pace {
  float token_us[PACE_BUCKETS]; /* moving average, 0: not measured */
};

void pace_init(struct pace *pace);
/* A call computed n tokens behind `depth` others in `us`. Calls under 64 tokens are not typical and are left out. */
void pace_record(struct pace *pace, uint32_t depth, uint32_t n, uint64_t us);
/* Most tokens of a call behind `depth` others that should take at most `us`; at least 1. Deeper than anything measured:
 * as at the deepest measured place before it. */
uint32_t pace_tokens(const struct pace *pace, uint32_t depth, uint64_t us);

#endif
