#include "plan/ranking.h"

#include <stdio.h>

#include "plan/board.h"

enum { NODES_A_TICK = 64, AGAIN_US = 10000000 };

struct ranked {
  uint32_t node;
  double score, probability;
};

static bool is_absent(struct plan *plan, uint32_t node) {
  return presence_tier(plan->presence, forest_end_key(plan->forest, node)) == TIER_NONE;
}

/* Keeps the best two: more cannot be begun in one tick. */
static void ranked_put(struct ranked best[SPECULATIVE_FLIGHTS_MAX], struct ranked ranked) {
  for (int i = 0; i < SPECULATIVE_FLIGHTS_MAX; i++) {
    if (best[i].node != FOREST_NONE && best[i].score >= ranked.score) continue;
    struct ranked swap = best[i];
    best[i] = ranked;
    ranked = swap;
    if (ranked.node == FOREST_NONE) return;
  }
}

static void node_consider(struct plan *plan, uint32_t node, ranking_score *score, struct ranked *best) {
  const struct forest_node *at = forest_at(plan->forest, node);
  if (!at || !at->may_prepare || !at->pass_material || !plan->notes[node].has_tokens || !is_absent(plan, node)) return;
  if (plan->notes[node].rest_until_us > plan->now_us) {
    observe_wake(plan, node, plan->notes[node].rest_until_us);
    return;
  }
  const struct task_record *open = taskbook_find(plan->taskbook, plan->notes[node].task);
  if (open && !task_record_has_ended(open)) return;
  struct ranked ranked = {.node = node};
  ranked.score = score(plan, node, &ranked.probability);
  if (ranked.score <= 0) return;
  observe_wake(plan, node, plan->now_us + AGAIN_US);
  ranked_put(best, ranked);
}

static void ranked_begin(struct plan *plan, const struct ranked *ranked, const char *name) {
  if (!tick_may_speculate(plan)) return;
  const struct forest_node *at = forest_at(plan->forest, ranked->node);
  struct task_spec spec = {.kind = forest_kind(at),
                           .tenant = at->tenant,
                           .tier = TIER_RAM,
                           .tokens = forest_tokens(plan->forest, ranked->node),
                           .material = at->pass_material,
                           .node = ranked->node,
                           .probability = ranked->probability,
                           .value_usd = ranked->score,
                           .expires_us = plan->now_us + (uint64_t)(plan->config.horizons_s[2] * 1e6)};
  spec.n_blocks = board_prefix(plan, ranked->node);
  spec.keys = plan->keys;
  if (!spec.n_blocks) return;
  uint32_t matched = presence_match(plan->presence, spec.keys, spec.n_blocks, TIER_SSD) * plan->config.block_tokens;
  spec.tokens_new = spec.tokens - matched;
  spec.cost_seconds = cost_prefill_segment_seconds(plan->cost, spec.tokens_new, matched);
  spec.predicted_seconds = ranked->probability * spec.cost_seconds;
  if ((double)spec.tokens_new * (double)plan->config.bytes_per_token > room_unproven_left(plan)) return;
  struct task_record *record;
  if (task_create(plan, &spec, &record) != STATUS_OK) return;
  snprintf(record->task.reason, sizeof record->task.reason, "%s: score %.3g, %u tokens to compute", name, ranked->score,
           spec.tokens_new);
  if (!task_launch(plan, record)) task_move(plan, record, TASK_CANCELLED, "too many preparations are open");
}

void ranking_choose(struct plan *plan, ranking_score *score, const char *name) {
  struct ranked best[SPECULATIVE_FLIGHTS_MAX] = {{0}};
  uint32_t node;
  double due_us;
  for (uint32_t i = 0; i < NODES_A_TICK && heap_peek(plan->wakes, &node, &due_us) && due_us <= (double)plan->now_us;
       i++) {
    heap_remove(plan->wakes, node);
    node_consider(plan, node, score, best);
  }
  for (uint32_t i = 0; i < NODES_A_TICK && demand_pop_due(plan->demand, plan->forest, plan->now_us, &node); i++) {
    node_consider(plan, node, score, best);
  }
  for (int i = 0; i < SPECULATIVE_FLIGHTS_MAX && best[i].node != FOREST_NONE; i++) ranked_begin(plan, &best[i], name);
}
