#include "place/placement.h"

#include "base/number.h"

static double amount(double value) {
  return number_clamp(value, 0, 1e18, 0);
}

static double share(double value) {
  return number_clamp(value, 0, 1, 0);
}

/* Seconds an ask saves when it comes from this tier, after the chance that the state no longer fits it. */
static double saved_usd(const struct placement_node *node, const struct placement_forecast *forecast,
                        const struct placement_option *option) {
  double saved = number_clamp(node->prefill_seconds, 0, 1e12, 0) - number_clamp(option->restore_seconds, 0, 1e12, 1e12);
  return saved * amount(node->saved_second_usd) * share(forecast->compatible) * share(forecast->valid);
}

struct hold {
  double best_net_usd; /* at the best τ */
  double life_s;       /* that τ; 0: none is positive */
  double held_s;       /* E min(T, τ) */
};

/* Walks the horizons with P(T ≤ τ) linear between them, so that E min(T, τ) = ∫ (1 − P) is exact. Between two horizons
 * the net is convex in τ, so its maximum is at one of them. */
static struct hold hold_of(const struct placement_node *node, const struct placement_forecast *forecast,
                           const struct placement_option *option) {
  struct hold best = {0};
  double gain = saved_usd(node, forecast, option);
  double place =
      (amount(option->rent_usd_per_byte_s) + amount(option->multiplier_usd_per_byte_s)) * (double)node->bytes;
  double horizon = 0, probability = 0, held = 0;
  uint32_t n = forecast->n_horizons < PLACEMENT_HORIZONS_MAX ? forecast->n_horizons : PLACEMENT_HORIZONS_MAX;
  for (uint32_t i = 0; i < n; i++) {
    double next_horizon = amount(forecast->horizon_s[i]), next_probability = share(forecast->probability[i]);
    if (next_horizon <= horizon) continue;
    if (next_probability < probability) next_probability = probability;
    held += (next_horizon - horizon) * (1 - (probability + next_probability) / 2);
    horizon = next_horizon;
    probability = next_probability;
    double net = probability * gain - place * held;
    if (net > best.best_net_usd) best = (struct hold){.best_net_usd = net, .life_s = horizon, .held_s = held};
  }
  return best;
}

double placement_value_usd(const struct placement_node *node, const struct placement_forecast *forecast,
                           const struct placement_option *option) {
  struct placement_option unpriced = *option;
  unpriced.multiplier_usd_per_byte_s = 0;
  struct hold hold = hold_of(node, forecast, &unpriced);
  double rent = amount(option->rent_usd_per_byte_s) * (double)node->bytes * hold.held_s;
  return amount(forecast->asks) * saved_usd(node, forecast, option) - amount(option->acquire_usd) - rent;
}

double placement_life_s(const struct placement_node *node, const struct placement_forecast *forecast,
                        const struct placement_option *option) {
  return hold_of(node, forecast, option).life_s;
}

struct placement placement_choose(const struct placement_node *node, const struct placement_forecast *forecast,
                                  const struct placement_option *options, uint32_t n, uint64_t now_us) {
  struct placement best = {.tier = TIER_NONE};
  for (uint32_t i = 0; i < n; i++) {
    if (!options[i].is_open) continue;
    double value = placement_value_usd(node, forecast, &options[i]);
    double life_s = placement_life_s(node, forecast, &options[i]);
    if (!(life_s > 0) || !(value > best.value_usd)) continue;
    uint64_t life_us = (uint64_t)(number_clamp(life_s, 0, 1e12, 0) * 1e6);
    best = (struct placement){
        .tier = options[i].tier, .value_usd = value, .life_s = life_s, .expires_us = now_us + life_us};
  }
  return best;
}
