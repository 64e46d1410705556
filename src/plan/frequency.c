/* Baseline: the prefixes most often asked for, discounted over half an hour, prefetched into idle time. */
#include "plan/board.h"
#include "plan/ranking.h"

enum { FADE = 2 }; /* of forest_fade_s: 1,800 s */

static double frequency_score(struct plan *plan, uint32_t node, double *ret_probability) {
  double asks = forest_fade(forest_at(plan->forest, node), FADE, plan->now_us);
  *ret_probability = number_clamp(asks, 0, 1, 0);
  return asks >= 1 ? asks : 0;
}

void frequency_choose(struct plan *plan) {
  ranking_choose(plan, frequency_score, "frequency");
}
