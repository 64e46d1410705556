#include "cost/cut.h"

#include <stdbool.h>

#include "base/number.h"

struct cut cut_choose(const struct cut_segment *segments, uint32_t n, const double base_seconds[TIER_COUNT]) {
  struct cut best = {0};
  bool is_used[TIER_COUNT] = {false};
  double gain = 0;
  for (uint32_t i = 0; i < n; i++) {
    const struct cut_segment *segment = &segments[i];
    if (segment->tier <= TIER_NONE || segment->tier >= TIER_COUNT) break;
    gain += segment->prefill_seconds - segment->restore_seconds;
    if (!is_used[segment->tier]) gain -= base_seconds[segment->tier];
    is_used[segment->tier] = true;
    if (!number_is_finite(gain)) break;
    if (gain > best.gain_seconds) best = (struct cut){.n_segments = i + 1, .gain_seconds = gain};
  }
  return best;
}
