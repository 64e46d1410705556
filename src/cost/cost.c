#include "cost/cost.h"

#include <stdlib.h>

#include "base/number.h"
#include "cost/regression.h"

static const double NEVER_SECONDS = 1e9;       /* from where nothing can be read */
static const double FORGETTING_COMPUTE = .995; /* the processor changes slowly: about 200 samples count */
static const double FORGETTING_TRANSFER = .97; /* disks and links change fast: about 30 */

struct cost {
  struct regression prefill;                               /* 1, n, n · (d + n/2) */
  struct regression decode;                                /* n, n · d */
  struct regression restore[TIER_COUNT], save[TIER_COUNT]; /* 1, bytes */
};

void cost_defaults_embedded(struct cost_defaults *defaults) {
  /* SmolLM2-135M Q4_1 on two cores, flash attention off, micro-batch 128: 435, 348 and 202 tokens a second to depth
   * 512, 2,048 and 7,680; decode 136 at depth 0 and 42 at 7,700; 94 MB leave in 35 ms and come back in 5.6 ms. */
  *defaults = (struct cost_defaults){
      .prefill_base_s = 1e-3,
      .prefill_s_per_token = 2.11e-3,
      .prefill_s_per_token2 = 7.4e-7,
      .decode_s_per_token = 7.35e-3,
      .decode_s_per_token2 = 2.15e-6,
      .restore_base_s = {[TIER_DEVICE] = 1e-4, [TIER_RAM] = 5e-4, [TIER_SSD] = 2e-3, [TIER_REMOTE] = 5e-3},
      .restore_bytes_per_s = {[TIER_DEVICE] = 1e12, [TIER_RAM] = 1.6e10, [TIER_SSD] = 1.3e9, [TIER_REMOTE] = 1e8},
      .save_base_s = {[TIER_DEVICE] = 1e-4, [TIER_RAM] = 1e-3, [TIER_SSD] = 5e-3, [TIER_REMOTE] = 5e-3},
      .save_bytes_per_s = {[TIER_DEVICE] = 1e12, [TIER_RAM] = 2.7e9, [TIER_SSD] = 1e9, [TIER_REMOTE] = 1e8},
  };
}

static bool is_seconds(double value) {
  return number_is_finite(value) && value >= 0 && value < 1e6;
}

static enum status defaults_check(const struct cost_defaults *defaults, struct error *error) {
  if (!is_seconds(defaults->prefill_base_s) || !is_seconds(defaults->prefill_s_per_token) ||
      !is_seconds(defaults->prefill_s_per_token2) || !(defaults->prefill_s_per_token > 0)) {
    return error_set(error, STATUS_INVALID, "cost: default prefill seconds must be finite, ≥ 0, and > 0 a token");
  }
  if (!is_seconds(defaults->decode_s_per_token) || !is_seconds(defaults->decode_s_per_token2) ||
      !(defaults->decode_s_per_token > 0)) {
    return error_set(error, STATUS_INVALID, "cost: default decode seconds must be finite, ≥ 0, and > 0 a token");
  }
  for (int tier = TIER_DEVICE; tier < TIER_COUNT; tier++) {
    double restore = defaults->restore_bytes_per_s[tier], save = defaults->save_bytes_per_s[tier];
    if (!is_seconds(defaults->restore_base_s[tier]) || !is_seconds(defaults->save_base_s[tier]) ||
        !number_is_finite(restore) || !number_is_finite(save) || !(restore > 0) || !(save > 0)) {
      return error_set(error, STATUS_INVALID, "cost: tier %d: default base seconds must be ≥ 0 and bandwidths > 0",
                       tier);
    }
  }
  return STATUS_OK;
}

enum status cost_create(const struct cost_defaults *defaults, struct error *error, struct cost **ret_cost) {
  enum status status = defaults_check(defaults, error);
  if (status != STATUS_OK) return status;
  struct cost *cost = calloc(1, sizeof *cost);
  if (!cost) return error_set(error, STATUS_NO_MEMORY, "cost: no memory for the fits");
  double prefill[3] = {defaults->prefill_base_s, defaults->prefill_s_per_token, defaults->prefill_s_per_token2};
  double decode[2] = {defaults->decode_s_per_token, defaults->decode_s_per_token2};
  regression_init(&cost->prefill, prefill, 3, FORGETTING_COMPUTE);
  regression_init(&cost->decode, decode, 2, FORGETTING_COMPUTE);
  for (int tier = TIER_DEVICE; tier < TIER_COUNT; tier++) {
    double restore[2] = {defaults->restore_base_s[tier], 1 / defaults->restore_bytes_per_s[tier]};
    double save[2] = {defaults->save_base_s[tier], 1 / defaults->save_bytes_per_s[tier]};
    regression_init(&cost->restore[tier], restore, 2, FORGETTING_TRANSFER);
    regression_init(&cost->save[tier], save, 2, FORGETTING_TRANSFER);
  }
  *ret_cost = cost;
  return STATUS_OK;
}

void cost_destroy(struct cost **cost) {
  free(*cost);
  *cost = NULL;
}

struct terms {
  double of[REGRESSION_TERMS_MAX];
};

static struct terms prefill_terms(uint32_t tokens, uint32_t depth) {
  return (struct terms){{1, tokens, (double)tokens * ((double)depth + (double)tokens / 2)}};
}

static struct terms decode_terms(uint32_t tokens, uint32_t depth) {
  return (struct terms){{tokens, (double)tokens * depth}};
}

static struct terms transfer_terms(uint64_t bytes) {
  return (struct terms){{1, (double)bytes}};
}

static bool is_tier(enum tier tier) {
  return tier > TIER_NONE && tier < TIER_COUNT;
}

bool cost_observe_prefill(struct cost *cost, uint32_t tokens, uint32_t depth, double seconds) {
  return tokens > 0 && regression_observe(&cost->prefill, prefill_terms(tokens, depth).of, seconds);
}

bool cost_observe_decode(struct cost *cost, uint32_t tokens, uint32_t depth, double seconds) {
  return tokens > 0 && regression_observe(&cost->decode, decode_terms(tokens, depth).of, seconds);
}

bool cost_observe_restore(struct cost *cost, enum tier tier, uint64_t bytes, double seconds) {
  return is_tier(tier) && bytes > 0 && regression_observe(&cost->restore[tier], transfer_terms(bytes).of, seconds);
}

bool cost_observe_save(struct cost *cost, enum tier tier, uint64_t bytes, double seconds) {
  return is_tier(tier) && bytes > 0 && regression_observe(&cost->save[tier], transfer_terms(bytes).of, seconds);
}

static struct cost_estimate estimate_of(const struct regression *regression, struct terms terms) {
  return (struct cost_estimate){.seconds = regression_expect(regression, terms.of),
                                .standard_error = regression_standard_error(regression, terms.of),
                                .samples = regression->samples,
                                .is_default = regression->samples == 0};
}

static struct cost_estimate estimate_transfer(const struct regression *tiers, enum tier tier, uint64_t bytes) {
  if (!is_tier(tier)) return (struct cost_estimate){.seconds = bytes ? NEVER_SECONDS : 0, .is_default = true};
  struct cost_estimate estimate = estimate_of(&tiers[tier], transfer_terms(bytes));
  if (bytes == 0) estimate.seconds = estimate.standard_error = 0;
  return estimate;
}

struct cost_estimate cost_prefill_estimate(const struct cost *cost, uint32_t tokens, uint32_t depth) {
  struct cost_estimate estimate = estimate_of(&cost->prefill, prefill_terms(tokens, depth));
  if (tokens == 0) estimate.seconds = estimate.standard_error = 0;
  return estimate;
}

struct cost_estimate cost_decode_estimate(const struct cost *cost, uint32_t tokens, uint32_t depth) {
  return estimate_of(&cost->decode, decode_terms(tokens, depth));
}

struct cost_estimate cost_restore_estimate(const struct cost *cost, enum tier tier, uint64_t bytes) {
  return estimate_transfer(cost->restore, tier, bytes);
}

struct cost_estimate cost_save_estimate(const struct cost *cost, enum tier tier, uint64_t bytes) {
  return estimate_transfer(cost->save, tier, bytes);
}

double cost_prefill_seconds(const struct cost *cost, uint32_t tokens, uint32_t depth) {
  return tokens ? regression_expect(&cost->prefill, prefill_terms(tokens, depth).of) : 0;
}

double cost_decode_seconds(const struct cost *cost, uint32_t tokens, uint32_t depth) {
  return regression_expect(&cost->decode, decode_terms(tokens, depth).of);
}

double cost_restore_seconds(const struct cost *cost, enum tier tier, uint64_t bytes) {
  return cost_restore_estimate(cost, tier, bytes).seconds;
}

double cost_save_seconds(const struct cost *cost, enum tier tier, uint64_t bytes) {
  return cost_save_estimate(cost, tier, bytes).seconds;
}

double cost_restore_base_seconds(const struct cost *cost, enum tier tier) {
  return is_tier(tier) ? regression_coefficient(&cost->restore[tier], 0) : NEVER_SECONDS;
}

double cost_restore_bytes_seconds(const struct cost *cost, enum tier tier, uint64_t bytes) {
  if (bytes == 0) return 0;
  return is_tier(tier) ? regression_coefficient(&cost->restore[tier], 1) * (double)bytes : NEVER_SECONDS;
}

double cost_prefill_segment_seconds(const struct cost *cost, uint32_t tokens, uint32_t depth) {
  struct terms terms = prefill_terms(tokens, depth);
  terms.of[0] = 0;
  return regression_expect(&cost->prefill, terms.of);
}

bool cost_restore_pays(const struct cost *cost, enum tier tier, uint64_t bytes, uint32_t tokens, uint32_t depth) {
  return cost_restore_seconds(cost, tier, bytes) < cost_prefill_seconds(cost, tokens, depth);
}

double cost_restore_bandwidth(const struct cost *cost, enum tier tier) {
  if (!is_tier(tier)) return 0;
  double seconds_per_byte = regression_coefficient(&cost->restore[tier], 1);
  return seconds_per_byte > 1e-15 ? 1 / seconds_per_byte : 1e15;
}

static double seconds_clamp(double seconds) {
  return number_clamp(seconds, 0, 1e15, 0);
}

double cost_speculative_usd(const struct price *price, double engine_seconds) {
  return price_of_speculative_second(price) * seconds_clamp(engine_seconds);
}

double cost_joules(const struct price *price, double engine_seconds) {
  return number_clamp(price->watts, 0, 1e9, 0) * seconds_clamp(engine_seconds);
}

double cost_saved_second_usd(const struct price *price, double queue_behind) {
  double wait = number_clamp(price->wait_usd_per_s, 0, 1e9, 0);
  return price_of_speculative_second(price) + wait * (1 + number_clamp(queue_behind, 0, 1e6, 0));
}
