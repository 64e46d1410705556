#include "engine/split.h"

#include <assert.h>

bool split_is_canonical(uint32_t n) {
  uint32_t tail = n % SPLIT_MICRO_BATCH;

  return n > 0 && (tail == 0 || tail >= SPLIT_MICRO_BATCH_MIN);
}

static bool is_allowed(uint32_t size, uint32_t rest) {
  return split_is_canonical(size) && (rest == size || rest - size >= SPLIT_MICRO_BATCH_MIN);
}

uint32_t split_next(uint32_t rest, uint32_t limit) {
  assert(rest > 0);
  if (rest < SPLIT_MICRO_BATCH_MIN) {
    return rest;
  }
  for (uint32_t size = limit < rest ? limit : rest; size >= SPLIT_MICRO_BATCH_MIN; size--) {
    if (is_allowed(size, rest)) {
      return size;
    }
  }
  /* The limit is too small: 64 leaves enough, unless fewer than 128 are left, and those are one micro-batch. */
  return rest < 2 * SPLIT_MICRO_BATCH_MIN ? rest : SPLIT_MICRO_BATCH_MIN;
}
