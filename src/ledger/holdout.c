#include "ledger/holdout.h"

#include <stdlib.h>

#include "base/map.h"
#include "base/number.h"

enum { SLOT_NONE = UINT32_MAX };
#define DAY_US (UINT64_C(86400) * 1000000)

struct open_unit {
  uint64_t unit;
  uint64_t due_us;
  uint32_t next; /* in order of due time, or of free places */
  struct holdout_verdict verdict;
  double expected_seconds, realized_seconds;
};

struct holdout {
  struct holdout_config config;
  struct map *index;       /* unit → place */
  struct open_unit *units; /* [units_max] */
  uint32_t first, last;    /* queue by due time: every record waits equally long */
  uint32_t free;
  uint64_t treated, withheld;
  double mean, squares; /* running mean of the scores and sum of squared deviations (Welford) */
};

enum status holdout_create(const struct holdout_config *config, struct holdout **ret_holdout) {
  bool is_valid = config->share >= 0 && config->share <= .5 && config->draw && config->horizon_us >= 1 &&
                  config->units_max >= 1 && config->units_max < SLOT_NONE && config->confidence > 0 &&
                  config->confidence < 1;
  if (!is_valid) return STATUS_INVALID;
  struct holdout *holdout = calloc(1, sizeof *holdout);
  if (!holdout) return STATUS_NO_MEMORY;
  holdout->config = *config;
  holdout->first = holdout->last = SLOT_NONE;
  holdout->units = calloc(config->units_max, sizeof *holdout->units);
  enum status status = holdout->units ? map_create(config->units_max, &holdout->index) : STATUS_NO_MEMORY;
  if (status != STATUS_OK) {
    holdout_destroy(&holdout);
    return status;
  }
  for (uint32_t i = 0; i < config->units_max; i++) {
    holdout->units[i].next = i + 1 < config->units_max ? i + 1 : SLOT_NONE;
  }
  *ret_holdout = holdout;
  return STATUS_OK;
}

void holdout_destroy(struct holdout **holdout) {
  if (!*holdout) return;
  if ((*holdout)->index) map_destroy(&(*holdout)->index);
  free((*holdout)->units);
  free(*holdout);
  *holdout = NULL;
}

struct holdout_verdict holdout_draw(const struct holdout *holdout, const uint64_t *units, uint32_t n, uint64_t now_us) {
  struct holdout_verdict verdict = {.propensity = 1};
  uint32_t day = (uint32_t)(now_us / DAY_US);
  for (uint32_t i = 0; i < n && i < HOLDOUT_PATH_MAX; i++) {
    if (i > 0 && units[i] == units[i - 1]) continue;
    if (holdout->config.draw(holdout->config.draw_ctx, units[i], day) < holdout->config.share) {
      verdict.is_withheld = true;
    }
    verdict.propensity *= 1 - holdout->config.share;
  }
  return verdict;
}

enum status holdout_plan(struct holdout *holdout, uint64_t unit, struct holdout_verdict verdict,
                         double expected_seconds, uint64_t now_us) {
  expected_seconds = number_clamp(expected_seconds, -1e6, 1e6, 0);
  uint64_t place;
  if (map_get(holdout->index, map_key_of(unit), &place)) {
    holdout->units[place].expected_seconds += expected_seconds;
    return STATUS_OK;
  }
  if (holdout->free == SLOT_NONE) return STATUS_FULL;
  uint32_t slot = holdout->free;
  enum status status = map_set(holdout->index, map_key_of(unit), slot);
  if (status != STATUS_OK) return status;
  holdout->free = holdout->units[slot].next;
  holdout->units[slot] = (struct open_unit){.unit = unit,
                                            .due_us = now_us + holdout->config.horizon_us,
                                            .next = SLOT_NONE,
                                            .verdict = verdict,
                                            .expected_seconds = expected_seconds};
  if (holdout->last == SLOT_NONE) {
    holdout->first = slot;
  } else {
    holdout->units[holdout->last].next = slot;
  }
  holdout->last = slot;
  return STATUS_OK;
}

void holdout_observe(struct holdout *holdout, uint64_t unit, double realized_seconds) {
  uint64_t place;
  if (!map_get(holdout->index, map_key_of(unit), &place)) return;
  holdout->units[place].realized_seconds += number_clamp(realized_seconds, -1e6, 1e6, 0);
}

static void unit_score(struct holdout *holdout, const struct open_unit *unit) {
  double e = unit->verdict.propensity, treated_model = unit->expected_seconds, y = unit->realized_seconds;
  double score = treated_model;
  if (unit->verdict.is_withheld) {
    if (e >= 1) return;
    score -= y / (1 - e);
    holdout->withheld++;
  } else {
    score += (y - treated_model) / e;
    holdout->treated++;
  }
  double n = (double)(holdout->treated + holdout->withheld), step = score - holdout->mean;
  holdout->mean += step / n;
  holdout->squares += step * (score - holdout->mean);
}

void holdout_settle(struct holdout *holdout, uint64_t now_us) {
  while (holdout->first != SLOT_NONE && holdout->units[holdout->first].due_us <= now_us) {
    uint32_t slot = holdout->first;
    struct open_unit *unit = &holdout->units[slot];
    unit_score(holdout, unit);
    map_remove(holdout->index, map_key_of(unit->unit), NULL);
    holdout->first = unit->next;
    if (holdout->first == SLOT_NONE) holdout->last = SLOT_NONE;
    unit->next = holdout->free;
    holdout->free = slot;
  }
}

uint64_t holdout_due_us(const struct holdout *holdout) {
  return holdout->first == SLOT_NONE ? UINT64_MAX : holdout->units[holdout->first].due_us;
}

struct holdout_estimate holdout_estimate(const struct holdout *holdout) {
  struct holdout_estimate estimate = {.treated = holdout->treated, .withheld = holdout->withheld};
  if (holdout->treated < HOLDOUT_UNITS_MIN || holdout->withheld < HOLDOUT_UNITS_MIN) return estimate;
  double n = (double)(holdout->treated + holdout->withheld), alpha = 1 - holdout->config.confidence;
  double variance = holdout->squares / (n - 1);
  /* rho² tightest near 100 units. */
  double rho2 = (-2 * number_log(alpha) + number_log(1 - 2 * number_log(alpha))) / 100;
  double width =
      number_sqrt(variance * 2 * (n * rho2 + 1) / (n * n * rho2) * number_log(number_sqrt(n * rho2 + 1) / alpha));
  estimate.effect_seconds = holdout->mean;
  estimate.lower_seconds = holdout->mean - width;
  estimate.upper_seconds = holdout->mean + width;
  return estimate;
}
