/* What a prefix is worth: DESIGN section 6 applied to one node of the forest, one block, one held segment. */
#include <stdlib.h>
#include <string.h>

#include "place/placement.h"
#include "plan/board.h"

enum { WORTH_HORIZONS = 4, PREFIX_BLOCKS_MAX = 1 << 16, REVALUE_US_MIN = 5000000, REVALUE_US_MAX = 300000000 };

/* A full RAM keeps what is valued for about this many of its turnovers (PREDICTOR section 6: 2 to 3). */
static const double turnovers = 2.5, full_share = .9;
/* An ask that comes while its prefix is being computed earns about half of it. */
static const double share_of_overtaken = .5;
/* Announced and periodic work begins when it is expected within 1.5 times its own time and this. */
static const double lead_s = 20;

double valuation_residence_s(const struct plan *plan) {
  const double *horizons = plan->config.horizons_s;
  double capacity = (double)plan->config.budget.ram_bytes;
  bool has_room = (double)board_tier_bytes(plan, TIER_RAM) < full_share * capacity;
  if (has_room || plan->ram_rate_bytes_per_s <= 0) return horizons[2];
  return number_clamp(turnovers * capacity / plan->ram_rate_bytes_per_s, horizons[0], horizons[2], horizons[1]);
}

/* P(an ask within within_s). */
static double probability_within(struct plan *plan, uint32_t node, double within_s) {
  struct forecast forecast;
  demand_forecast(plan->demand, plan->forest, node, plan->now_us, &within_s, 1, &forecast);
  return forecast.p_within[0];
}

void worth_of_node(struct plan *plan, uint32_t node, uint32_t from, uint32_t to, double finish_s, struct worth *ret) {
  struct forecast forecast;
  /* Nothing is counted on that comes after RAM has turned over. */
  double life_s = valuation_residence_s(plan), horizons[WORTH_HORIZONS];
  for (int i = 0; i < WORTH_HORIZONS; i++) horizons[i] = life_s * (i + 1) / WORTH_HORIZONS;
  demand_forecast(plan->demand, plan->forest, node, plan->now_us, horizons, WORTH_HORIZONS, &forecast);
  double before = probability_within(plan, node, finish_s > .001 ? finish_s : .001);
  double w = board_saved_second_usd(plan), second_usd = price_of_speculative_second(&plan->config.price);
  uint64_t bytes = (uint64_t)(to - from) * plan->config.bytes_per_token;
  double prefill_s = cost_prefill_segment_seconds(plan->cost, to - from, from);
  double restore_s = cost_restore_bytes_seconds(plan->cost, TIER_RAM, bytes);
  double yield = task_yield(plan, valuation_kind(plan, node));
  struct placement_node item = {.bytes = bytes, .prefill_seconds = prefill_s, .saved_second_usd = w};
  struct placement_forecast expected = {.n_horizons = WORTH_HORIZONS, .compatible = 1, .valid = 1};
  for (int i = 0; i < WORTH_HORIZONS; i++) {
    expected.horizon_s[i] = horizons[i];
    double after = forecast.p_within[i] - before * share_of_overtaken;
    expected.probability[i] = after > 0 ? after * yield : 0;
  }
  /* An absent node is computed by its first ask; only that one is saved. */
  expected.asks = expected.probability[WORTH_HORIZONS - 1];
  struct placement_option ram = {.tier = TIER_RAM,
                                 .restore_seconds = restore_s,
                                 .acquire_usd = prefill_s * second_usd,
                                 .multiplier_usd_per_byte_s = plan->displaced_usd_per_byte / life_s,
                                 .is_open = plan->config.budget.ram_bytes > 0};
  struct placement placement = placement_choose(&item, &expected, &ram, 1, plan->now_us);
  double saved_s = prefill_s - restore_s;
  *ret = (struct worth){
      .probability = expected.probability[WORTH_HORIZONS - 1],
      .predicted_seconds = expected.probability[WORTH_HORIZONS - 1] * (saved_s > 0 ? saved_s : 0),
      .cost_seconds = prefill_s,
      .value_usd = placement.value_usd,
      .life_s = placement.life_s,
      .tier = placement.tier,
  };
  bool is_timed = forecast.is_announced || strcmp(forecast.forecaster, "periodic") == 0;
  if (is_timed && forecast.p_within[WORTH_HORIZONS - 1] > 0) {
    double lead = finish_s * 1.5 + lead_s;
    ret->is_early = probability_within(plan, node, lead) < .3 * forecast.p_within[WORTH_HORIZONS - 1];
  }
}

uint32_t valuation_node_of(const struct plan *plan, uint32_t hint, block_key key, uint32_t depth) {
  const struct forest_node *node = forest_at(plan->forest, hint);
  while (node && depth < node->depth_blocks) {
    hint = node->parent;
    node = forest_at(plan->forest, hint);
  }
  if (!node || depth >= node->depth_blocks + node->n_blocks) return FOREST_NONE;
  return block_key_equal(forest_block_key(plan->forest, hint, depth - node->depth_blocks), key) ? hint : FOREST_NONE;
}

/* What one block saves when it is asked for, in USD a byte: against computing it, or against reading the copy on SSD
 * where there is one. */
static double block_usd_per_byte(const struct plan *plan, uint32_t depth, enum tier tier, bool has_slower_copy) {
  uint32_t size = plan->config.block_tokens;
  uint64_t bytes = (uint64_t)size * plan->config.bytes_per_token;
  double without_s = cost_prefill_segment_seconds(plan->cost, size, depth * size);
  if (has_slower_copy) {
    double slower_s = cost_restore_bytes_seconds(plan->cost, TIER_SSD, bytes);
    if (slower_s < without_s) without_s = slower_s;
  }
  double saved_s = without_s - cost_restore_bytes_seconds(plan->cost, tier, bytes);
  return saved_s > 0 ? board_saved_second_usd(plan) * saved_s / (double)bytes : 0;
}

static double probability_of_block(struct plan *plan, uint32_t *node, block_key key, uint32_t depth) {
  *node = valuation_node_of(plan, *node, key, depth);
  return *node == FOREST_NONE ? 0 : probability_within(plan, *node, valuation_residence_s(plan));
}

double worth_of_block(struct plan *plan, uint32_t *node, block_key key, uint32_t depth) {
  double probability = probability_of_block(plan, node, key, depth);
  return probability > 0 ? probability * block_usd_per_byte(plan, depth, TIER_RAM, false) : 0;
}

/* A preparation that waits to be asked for was made for a reason that its segments share. */
static double probability_of_task(struct plan *plan, uint64_t id) {
  const struct task_record *record = taskbook_find(plan->taskbook, id);
  if (!record || task_record_has_ended(record)) return 0;
  return record->task.is_order ? 1 : record->task.probability;
}

static uint32_t segment_find_node(struct plan *plan, struct held_segment *segment) {
  uint32_t depth = segment->to / plan->config.block_tokens - 1;
  block_key end = segment->keys[segment->n_blocks - 1];
  uint32_t node = valuation_node_of(plan, segment->node, end, depth);
  if (node != FOREST_NONE) return node;
  uint32_t n = depth + 1, known;
  if (n > plan->keys_size) {
    if (n > PREFIX_BLOCKS_MAX) return FOREST_NONE;
    block_key *keys = realloc(plan->keys, (size_t)n * sizeof *keys);
    if (!keys) return FOREST_NONE;
    plan->keys = keys;
    plan->keys_size = n;
  }
  n = presence_prefix(plan->presence, segment, plan->keys, plan->keys_size);
  if (!n) return FOREST_NONE;
  forest_find(plan->forest, plan->keys, n, &node, &known);
  return known == n ? node : FOREST_NONE;
}

void valuation_of_segment(struct plan *plan, struct held_segment *segment) {
  if (!segment->bytes[TIER_RAM] && !segment->bytes[TIER_SSD]) return;
  double value = 0;
  if (segment->n_blocks && segment->to >= plan->config.block_tokens) {
    uint32_t depth = segment->to / plan->config.block_tokens - 1;
    segment->node = segment_find_node(plan, segment);
    double probability = 0, promised = probability_of_task(plan, segment->task);
    if (segment->node != FOREST_NONE) {
      probability = probability_of_block(plan, &segment->node, segment->keys[segment->n_blocks - 1], depth);
    }
    if (promised > probability) probability = promised;
    enum tier tier = segment->bytes[TIER_RAM] ? TIER_RAM : TIER_SSD;
    bool has_slower_copy = tier == TIER_RAM && segment->bytes[TIER_SSD];
    value = probability * block_usd_per_byte(plan, depth, tier, has_slower_copy);
  }
  segment->value_usd_per_byte = value;
  (void)!retention_set_value(plan->retention, segment->id, value);
  uint64_t age_us = (plan->now_us - segment->used_us) / 4;
  uint64_t after_us = age_us < REVALUE_US_MIN ? REVALUE_US_MIN : age_us > REVALUE_US_MAX ? REVALUE_US_MAX : age_us;
  (void)!heap_set(plan->revalues, presence_place(plan->presence, segment), (double)(plan->now_us + after_us));
}

void valuation_refresh(struct plan *plan, uint32_t n) {
  uint32_t place;
  double due_us;
  while (n-- > 0 && heap_peek(plan->revalues, &place, &due_us) && due_us <= (double)plan->now_us) {
    heap_remove(plan->revalues, place);
    struct held_segment *segment = presence_at(plan->presence, place);
    if (segment->id) valuation_of_segment(plan, segment);
  }
}

enum kind valuation_kind(const struct plan *plan, uint32_t node) {
  return plan->notes[node].session ? KIND_CONVERSATION : forest_kind(forest_at(plan->forest, node));
}

uint32_t valuation_units(const struct plan *plan, uint32_t node, uint64_t *ret_units) {
  uint64_t heads[HOLDOUT_PATH_MAX - 1];
  uint32_t n_heads = 0, n = 0;
  const struct forest_node *at = forest_at(plan->forest, node);
  for (uint32_t up = at ? at->parent : FOREST_NONE; up != FOREST_NONE && n_heads < HOLDOUT_PATH_MAX - 1;) {
    const struct forest_node *ancestor = forest_at(plan->forest, up);
    if (ancestor->heads > 0 && forest_sessions(ancestor) >= 1.5) {
      heads[n_heads++] = forest_end_key(plan->forest, up).lo;
    }
    up = ancestor->parent;
  }
  while (n_heads > 0) ret_units[n++] = heads[--n_heads];
  uint64_t session = plan->notes[node].session;
  ret_units[n++] = session ? session : forest_end_key(plan->forest, node).lo;
  return n;
}
