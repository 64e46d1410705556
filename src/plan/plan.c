/* The planner's life and the questions about it. */
#include "plan/plan.h"

#include <stdlib.h>
#include <string.h>

#include "plan/board.h"

/* Retention may lose this share of asked blocks to wrong predictions (DESIGN section 6). */
static const double guard_epsilon = .003;
/* The account of speculation, in engine seconds. Where compute is free it starts with two seconds and is capped at a
 * minute; where seconds cost money, .5 % of a day's and ten times that. */
static const double grant_s = 2, cap_s = 60, day_share = .005, cap_grants = 10;
static const double interval_confidence = .95;

enum { DAY_S = 86400, HOLDOUT_UNITS_OPEN = 1 << 16, PREPARED_BLOCKS_MAX = 1 << 22, FOREST_BYTES_MAX = 256 << 20 };
enum { FOREST_SEED = 1 };

static const char *const policy_names[POLICY_COUNT] = {"forelay", "lru", "frequency", "workload"};

const char *policy_name(enum policy policy) {
  return (unsigned)policy < POLICY_COUNT ? policy_names[policy] : "unknown";
}

enum policy policy_of_name(const char *name) {
  for (int i = 0; i < POLICY_COUNT; i++) {
    if (strcmp(policy_names[i], name) == 0) return (enum policy)i;
  }
  return POLICY_COUNT;
}

/* ── board ── */

uint64_t board_advance(struct plan *plan, uint64_t at_us) {
  if (at_us > plan->now_us) plan->now_us = at_us;
  return plan->now_us;
}

double board_saved_second_usd(const struct plan *plan) {
  return cost_saved_second_usd(&plan->config.price, plan->load.waiting);
}

/* alpha and beta of seconds(n, d) = alpha·n + beta·n·(d + n/2), from two points. */
static void prefill_coefficients(const struct cost *cost, double *ret_alpha, double *ret_beta) {
  const uint32_t far = 1 << 20;
  double near_s = cost_prefill_segment_seconds(cost, 1, 0), far_s = cost_prefill_segment_seconds(cost, 1, far);
  *ret_beta = (far_s - near_s) / far;
  *ret_alpha = near_s - *ret_beta / 2;
}

void board_update_rates(struct plan *plan) {
  struct accounts_rates rates = {.saved_second_usd = board_saved_second_usd(plan),
                                 .speculative_second_usd = price_of_speculative_second(&plan->config.price),
                                 .watts = plan->config.price.watts};
  prefill_coefficients(plan->cost, &rates.prefill_s_per_token, &rates.prefill_s_per_token2);
  accounts_set_rates(plan->accounts, &rates);
}

uint64_t board_tier_limit(const struct plan *plan, enum tier tier) {
  switch (tier) {
  case TIER_DEVICE:
    return plan->config.budget.device_bytes;
  case TIER_RAM:
    return plan->config.budget.ram_bytes;
  case TIER_SSD:
    return plan->config.budget.ssd_bytes;
  default:
    return 0;
  }
}

uint64_t board_tier_bytes(const struct plan *plan, enum tier tier) {
  return presence_bytes(plan->presence, tier) + plan->overhead_bytes[tier];
}

uint32_t board_prefix(struct plan *plan, uint32_t node) {
  const struct forest_node *at = forest_at(plan->forest, node);
  uint32_t n = at->depth_blocks + at->n_blocks;
  if (n > plan->keys_size) {
    block_key *keys = realloc(plan->keys, (size_t)n * sizeof *keys);
    if (!keys) return 0;
    plan->keys = keys;
    plan->keys_size = n;
  }
  return forest_prefix_keys(plan->forest, node, plan->keys, n);
}

/* ── creation ── */

static enum retention_policy retention_of_policy(enum policy policy) {
  switch (policy) {
  case POLICY_FORELAY:
    return RETENTION_VALUE;
  case POLICY_WORKLOAD:
    return RETENTION_WORKLOAD;
  default:
    return RETENTION_LRU;
  }
}

static enum status budget_check(const struct budget *budget, struct error *error) {
  if (!(budget->idle_fraction_max >= 0 && budget->idle_fraction_max <= 1)) {
    return error_set(error, STATUS_INVALID, "idle_fraction_max must be 0 to 1");
  }
  if (!(budget->money_usd_per_day >= 0) || !number_is_finite(budget->money_usd_per_day)) {
    return error_set(error, STATUS_INVALID, "money_usd_per_day must be a number of at least 0");
  }
  if (!(budget->joules_per_day >= 0) || !number_is_finite(budget->joules_per_day)) {
    return error_set(error, STATUS_INVALID, "joules_per_day must be a number of at least 0");
  }
  return STATUS_OK;
}

static enum status config_check(const struct plan_config *config, struct error *error) {
  if ((unsigned)config->policy >= POLICY_COUNT)
    return error_set(error, STATUS_INVALID, "policy is not one of the four");
  if (!(config->holdout >= 0 && config->holdout <= .5)) {
    return error_set(error, STATUS_INVALID, "holdout must be 0 to 0.5");
  }
  if (!config->draw) return error_set(error, STATUS_INVALID, "draw must be given");
  if (!config->block_tokens) return error_set(error, STATUS_INVALID, "block_tokens must be at least 1");
  if (!config->bytes_per_token) return error_set(error, STATUS_INVALID, "bytes_per_token must be at least 1");
  if (config->nodes_max < 16) return error_set(error, STATUS_INVALID, "nodes_max must be at least 16");
  if (!config->tasks_max) return error_set(error, STATUS_INVALID, "tasks_max must be at least 1");
  const double *horizons = config->horizons_s;
  if (!(horizons[0] > 0 && horizons[1] > horizons[0] && horizons[2] > horizons[1] && horizons[2] <= 1e7)) {
    return error_set(error, STATUS_INVALID, "horizons_s must increase from above 0 to at most 1e7");
  }
  return budget_check(&config->budget, error);
}

static enum status retention_make(struct plan *plan, struct error *error) {
  struct retention_settings settings;
  retention_settings_init(&settings);
  settings.policy = retention_of_policy(plan->policy);
  settings.epsilon = guard_epsilon;
  settings.pin_fraction = .5;
  settings.capacity_bytes[TIER_DEVICE] = plan->config.budget.device_bytes;
  settings.capacity_bytes[TIER_RAM] = plan->config.budget.ram_bytes;
  settings.capacity_bytes[TIER_SSD] = plan->config.budget.ssd_bytes;
  uint32_t unit_tokens = plan->config.block_tokens < SEGMENT_TOKENS ? SEGMENT_TOKENS : plan->config.block_tokens;
  settings.block_bytes = plan->config.bytes_per_token * unit_tokens;
  settings.segments_max = SEGMENTS_MAX;
  settings.requests_max = REQUESTS_MAX;
  return retention_create(&settings, error, &plan->retention);
}

static void twin_nodes(void *ctx, const block_key *keys, uint32_t n, uint32_t *ret_nodes) {
  const struct plan *plan = ctx;
  uint32_t node, known;
  forest_find(plan->forest, keys, n, &node, &known);
  for (uint32_t i = n; i-- > 0;) {
    const struct forest_node *at = i < known ? forest_at(plan->forest, node) : NULL;
    while (at && i < at->depth_blocks) {
      node = at->parent;
      at = forest_at(plan->forest, node);
    }
    ret_nodes[i] = at ? node : FOREST_NONE;
  }
}

static double twin_value(void *ctx, uint32_t *node, block_key key, uint32_t n) {
  return worth_of_block(ctx, node, key, n);
}

/* What a forelay without preparation would have: as many sequences, as much RAM and SSD. */
static enum status rivals_make(struct plan *plan) {
  const struct plan_config *config = &plan->config;
  uint64_t device_tokens = config->budget.device_bytes / config->bytes_per_token;
  struct rivals_config rivals = {
      .requests_max = REQUESTS_MAX,
      .twin = {.sequences = config->sequences,
               .sequence_tokens = config->sequences ? (uint32_t)(device_tokens / config->sequences) : 0,
               .is_exact = config->exact_reuse,
               .shelf = {.policy = retention_of_policy(plan->policy),
                         .epsilon = guard_epsilon,
                         .ram_bytes = config->budget.ram_bytes,
                         .ssd_bytes = config->budget.ssd_bytes,
                         .ssd_writes_bytes_per_day = config->budget.ssd_writes_bytes_per_day,
                         .bytes_per_token = config->bytes_per_token,
                         .block_tokens = config->block_tokens,
                         .segments_max = SEGMENTS_MAX,
                         .nodes = twin_nodes,
                         .value = twin_value,
                         .value_ctx = plan}}};
  return rivals_create(&rivals, &plan->rivals);
}

static enum status ledger_make(struct plan *plan) {
  const struct plan_config *config = &plan->config;
  struct accounts_config accounts = {.block_tokens = config->block_tokens,
                                     .requests_max = REQUESTS_MAX,
                                     .blocks_max = PREPARED_BLOCKS_MAX,
                                     .tasks_max = config->tasks_max,
                                     .tenants_max = TENANTS_MAX};
  enum status status = accounts_create(&accounts, &plan->accounts);
  if (status != STATUS_OK) return status;
  struct holdout_config holdout = {.share = config->holdout,
                                   .draw = config->draw,
                                   .draw_ctx = config->draw_ctx,
                                   .horizon_us = (uint64_t)(config->horizons_s[2] * 1e6),
                                   .units_max = HOLDOUT_UNITS_OPEN,
                                   .confidence = interval_confidence};
  if ((status = holdout_create(&holdout, &plan->holdout)) != STATUS_OK) return status;
  if (config->price.profile == PRICE_PER_SECOND) {
    spending_init(&plan->spending, day_share * DAY_S, cap_grants * day_share * DAY_S);
  } else {
    spending_init(&plan->spending, grant_s, cap_s);
  }
  return STATUS_OK;
}

static enum status learning_make(struct plan *plan, struct error *error) {
  struct forest_config forest = {.nodes_max = plan->config.nodes_max,
                                 .bytes_max = FOREST_BYTES_MAX,
                                 .block_tokens = plan->config.block_tokens,
                                 .seed = FOREST_SEED,
                                 .ctx = plan,
                                 .split = observe_split,
                                 .prune = observe_prune};
  enum status status = forest_create(&forest, &plan->forest);
  if (status != STATUS_OK) return status;
  plan->n_notes = forest_nodes_max(plan->forest) + 1;
  plan->notes = calloc(plan->n_notes, sizeof *plan->notes);
  plan->items = calloc(plan->n_notes, sizeof *plan->items);
  if (!plan->notes || !plan->items) return STATUS_NO_MEMORY;
  struct demand_config demand;
  demand_config_init(&demand, forest_nodes_max(plan->forest));
  demand.announcements_max = ANNOUNCEMENTS_MAX;
  demand.n_horizons = 3;
  memcpy(demand.horizons_s, plan->config.horizons_s, sizeof plan->config.horizons_s);
  if ((status = demand_create(&demand, &plan->demand)) != STATUS_OK) return status;
  struct cost_defaults defaults;
  cost_defaults_embedded(&defaults);
  if ((status = cost_create(&defaults, error, &plan->cost)) != STATUS_OK) return status;
  return plan->policy == POLICY_WORKLOAD ? workload_create(&plan->workload) : STATUS_OK;
}

enum status plan_create(const struct plan_config *config, struct plan **ret_plan, struct error *error) {
  enum status status = config_check(config, error);
  if (status != STATUS_OK) return status;
  struct plan *plan = calloc(1, sizeof *plan);
  if (!plan) return error_set(error, STATUS_NO_MEMORY, "no memory for the plan");
  plan->config = *config;
  plan->policy = config->prepare ? config->policy : POLICY_LRU;
  if ((status = learning_make(plan, error)) != STATUS_OK) goto out;
  if ((status = ledger_make(plan)) != STATUS_OK) goto out;
  if ((status = retention_make(plan, error)) != STATUS_OK) goto out;
  if ((status = rivals_make(plan)) != STATUS_OK) goto out;
  if ((status = presence_create(SEGMENTS_MAX, observe_presence, plan, &plan->presence)) != STATUS_OK) goto out;
  if ((status = taskbook_create(config->tasks_max, config->first_task, &plan->taskbook)) != STATUS_OK) goto out;
  if ((status = docket_create(REQUESTS_MAX, &plan->docket)) != STATUS_OK) goto out;
  if ((status = map_create(0, &plan->task_ends)) != STATUS_OK) goto out;
  if ((status = map_create(DRAFTS_MAX, &plan->drafts)) != STATUS_OK) goto out;
  if ((status = map_create(0, &plan->leaving)) != STATUS_OK) goto out;
  if ((status = heap_create(&plan->expiries)) != STATUS_OK) goto out;
  if ((status = heap_create(&plan->wakes)) != STATUS_OK) goto out;
  if ((status = heap_create(&plan->revalues)) != STATUS_OK) goto out;
  board_update_rates(plan);
  *ret_plan = plan;
  return STATUS_OK;
out:
  plan_destroy(&plan);
  return status == STATUS_NO_MEMORY ? error_set(error, status, "no memory for the plan") : status;
}

void plan_destroy(struct plan **reference) {
  struct plan *plan = *reference;
  if (!plan) return;
  pins_release(plan);
  if (plan->presence) presence_destroy(&plan->presence);
  if (plan->taskbook) taskbook_destroy(&plan->taskbook);
  if (plan->docket) docket_destroy(&plan->docket);
  if (plan->rivals) rivals_destroy(&plan->rivals);
  if (plan->retention) retention_destroy(&plan->retention);
  if (plan->accounts) accounts_destroy(&plan->accounts);
  if (plan->holdout) holdout_destroy(&plan->holdout);
  if (plan->demand) demand_destroy(&plan->demand);
  if (plan->forest) forest_destroy(&plan->forest);
  if (plan->cost) cost_destroy(&plan->cost);
  if (plan->workload) workload_destroy(&plan->workload);
  if (plan->task_ends) map_destroy(&plan->task_ends);
  if (plan->drafts) map_destroy(&plan->drafts);
  if (plan->leaving) map_destroy(&plan->leaving);
  if (plan->expiries) heap_destroy(&plan->expiries);
  if (plan->wakes) heap_destroy(&plan->wakes);
  if (plan->revalues) heap_destroy(&plan->revalues);
  free(plan->notes);
  free(plan->items);
  free(plan->keys);
  free(plan->units);
  free(plan);
  *reference = NULL;
}

/* ── budget ── */

void plan_budget(const struct plan *plan, struct budget *ret_budget) {
  *ret_budget = plan->config.budget;
}

/* What lies where, told to a retention of the new size. */
static enum status retention_refill(struct plan *plan) {
  uint32_t cursor = 0;
  for (struct held_segment *segment; (segment = presence_next(plan->presence, &cursor));) {
    for (int tier = TIER_DEVICE; tier < TIER_COUNT; tier++) {
      if (!segment->bytes[tier]) continue;
      struct segment_event event = {.at_us = plan->now_us,
                                    .segment = segment->id,
                                    .parent = segment->parent,
                                    .tier = (enum tier)tier,
                                    .is_present = true,
                                    .tenant = segment->tenant,
                                    .from = segment->from,
                                    .to = segment->to,
                                    .bytes = segment->bytes[tier],
                                    .n_blocks = segment->n_blocks,
                                    .keys = segment->keys,
                                    .task = segment->task};
      enum status status = room_stored(plan, &event, workload_class_of(plan, segment));
      if (status != STATUS_OK) return status;
    }
    (void)!retention_set_value(plan->retention, segment->id, segment->value_usd_per_byte);
    pins_apply(plan, segment);
  }
  return STATUS_OK;
}

/* Holds of ready preparations, in a new retention. */
static void retention_hold(struct plan *plan) {
  for (const struct task_record *record = NULL; (record = taskbook_older(plan->taskbook, record));) {
    if (record->held_segment) (void)!retention_pin(plan->retention, record->held_segment);
  }
}

enum status plan_set_budget(struct plan *plan, const struct budget *budget, struct error *error) {
  enum status status = budget_check(budget, error);
  if (status != STATUS_OK) return status;
  struct budget before = plan->config.budget;
  plan->config.budget = *budget;
  bool is_same_size = before.device_bytes == budget->device_bytes && before.ram_bytes == budget->ram_bytes &&
                      before.ssd_bytes == budget->ssd_bytes;
  if (is_same_size) return STATUS_OK;
  struct retention *retention = plan->retention;
  plan->retention = NULL;
  status = retention_make(plan, error);
  if (status == STATUS_OK) status = retention_refill(plan);
  if (status != STATUS_OK) { /* everything as before */
    if (plan->retention) retention_destroy(&plan->retention);
    plan->retention = retention;
    plan->config.budget = before;
    return error_set(error, status, "the new budget was not taken: %s", status_name(status));
  }
  rivals_resize(plan->rivals, budget->ram_bytes, budget->ssd_bytes, plan->now_us);
  retention_hold(plan);
  retention_destroy(&retention);
  return STATUS_OK;
}

/* ── questions ── */

enum status plan_task(const struct plan *plan, uint64_t id, struct task *ret_task) {
  const struct task_record *record = taskbook_read(plan->taskbook, id);
  if (!record) return STATUS_NOT_FOUND;
  *ret_task = record->task;
  return STATUS_OK;
}

size_t plan_tasks(const struct plan *plan, uint32_t tenant, struct task *ret_tasks, size_t max) {
  size_t n = 0;
  for (const struct task_record *record = NULL; n < max && (record = taskbook_older(plan->taskbook, record));) {
    if (tenant == UINT32_MAX || record->task.tenant == tenant) ret_tasks[n++] = record->task;
  }
  return n;
}

void plan_totals(const struct plan *plan, enum account_axis axis, uint32_t index, struct totals *ret_totals) {
  accounts_totals(plan->accounts, axis, index, ret_totals);
}

void plan_hits(const struct plan *plan, double ret_hit_tokens[TIER_COUNT]) {
  accounts_hits(plan->accounts, ret_hit_tokens);
}

struct ranked_prefix {
  uint32_t node;
  double score;
};

/* Slowest tier of its blocks: the fastest in which, or in faster ones, all of it lies. */
static enum tier prefix_tier(const struct plan *plan, uint32_t node) {
  enum tier slowest = TIER_DEVICE;
  for (uint32_t up = node; up != FOREST_NONE; up = forest_at(plan->forest, up)->parent) {
    const struct forest_node *at = forest_at(plan->forest, up);
    for (uint32_t i = at->n_blocks; i-- > 0;) {
      enum tier tier = presence_tier(plan->presence, forest_block_key(plan->forest, up, i));
      if (tier == TIER_NONE) return TIER_NONE;
      if (tier > slowest) slowest = tier;
    }
  }
  return slowest;
}

size_t plan_prefixes(const struct plan *plan, uint32_t tenant, uint64_t now_us, struct plan_prefix *ret, size_t max) {
  struct ranked_prefix *ranked = malloc((max ? max : 1) * sizeof *ranked);
  if (!ranked) return 0;
  size_t n = 0;
  if (now_us < plan->now_us) now_us = plan->now_us;
  for (uint32_t node = forest_next(plan->forest, FOREST_NONE); node != FOREST_NONE;
       node = forest_next(plan->forest, node)) {
    const struct forest_node *at = forest_at(plan->forest, node);
    if (tenant != UINT32_MAX && at->tenant != tenant) continue;
    struct ranked_prefix row = {.node = node,
                                .score = (forest_fade(at, FOREST_FADES - 1, now_us) + 1e-9) * (double)at->n_blocks};
    size_t place = n;
    while (place > 0 && ranked[place - 1].score < row.score) place--;
    if (place >= max) continue;
    if (n < max) n++;
    memmove(&ranked[place + 1], &ranked[place], (n - place - 1) * sizeof *ranked);
    ranked[place] = row;
  }
  for (size_t i = 0; i < n; i++) {
    uint32_t node = ranked[i].node;
    const struct forest_node *at = forest_at(plan->forest, node);
    struct forecast forecast;
    demand_forecast(plan->demand, plan->forest, node, now_us, plan->config.horizons_s, 3, &forecast);
    ret[i] = (struct plan_prefix){.tenant = at->tenant,
                                  .kind = valuation_kind(plan, node),
                                  .from_tokens = at->depth_blocks * plan->config.block_tokens,
                                  .tokens = forest_tokens(plan->forest, node),
                                  .asks = forest_fade(at, FOREST_FADES - 1, now_us),
                                  .probability = forecast.p_within[1],
                                  .last_us = at->last_us,
                                  .tier = prefix_tier(plan, node),
                                  .material = at->pass_material};
  }
  free(ranked);
  return n;
}

void plan_status(const struct plan *plan, struct plan_status *ret_status) {
  double w = board_saved_second_usd(plan);
  *ret_status = (struct plan_status){.asks = plan->n_asks,
                                     .ticks = plan->n_ticks,
                                     .actions = plan->n_actions,
                                     .nodes = forest_count(plan->forest),
                                     .segments = presence_count(plan->presence),
                                     .cost_is_default = cost_prefill_estimate(plan->cost, 1, 0).is_default,
                                     .account_usd = plan->spending.balance * w,
                                     .account_cap_usd = plan->spending.cap * w};
  prefill_coefficients(plan->cost, &ret_status->prefill_alpha_s, &ret_status->prefill_beta_s);
  for (int tier = TIER_DEVICE; tier < TIER_COUNT; tier++) {
    ret_status->restore_bytes_per_s[tier] = cost_restore_bandwidth(plan->cost, (enum tier)tier);
  }
  ret_status->multipliers[0] = plan->second_usd;
  ret_status->multipliers[TIER_RAM] = plan->displaced_usd_per_byte / valuation_residence_s(plan) * 3600;
  struct calibration calibration;
  demand_calibration(plan->demand, DEMAND_HORIZONS_MAX, &calibration);
  ret_status->calibration_error = calibration.error;
  ret_status->brier = calibration.brier;
  ret_status->forecasts_scored = calibration.scored;
  struct retention_guard guard = retention_guard_of(plan->retention, TIER_RAM);
  ret_status->guard_credit = guard.account - (double)guard.absent_blocks;
  struct holdout_estimate estimate = holdout_estimate(plan->holdout);
  ret_status->holdout_effect_seconds = estimate.effect_seconds;
  ret_status->holdout_lower_seconds = estimate.lower_seconds;
  ret_status->holdout_upper_seconds = estimate.upper_seconds;
  ret_status->holdout_units = estimate.treated + estimate.withheld;
}
