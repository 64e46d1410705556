/* How often what a source sends changes under a prepared prefix: a template edited, a model swapped, a tool list
 * regenerated. One discounted rate per source. Never decides anything. One thread at a time. Owns its table. */
#ifndef FORELAY_COST_HAZARD_H
#define FORELAY_COST_HAZARD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

struct hazard;

struct hazard_settings {
  uint32_t sources_max;  /* ≥ 1; the source unseen for longest makes room for a new one */
  uint64_t half_life_us; /* ≥ 1: evidence this old counts half */
  double prior_changes;  /* > 0: strength of the prior, in changes */
  double prior_seconds;  /* > 0: over which those would be seen */
};

/* A change a week as the prior, worth half a change; evidence halves in a week; 4,096 sources. */
void hazard_settings_init(struct hazard_settings *settings);
MUST_USE enum status hazard_create(const struct hazard_settings *settings, struct hazard **ret_hazard);
void hazard_destroy(struct hazard **hazard);

/* The source was seen at now_us, unchanged or changed since it was seen last. Time that goes backwards counts as no
 * time. */
MUST_USE enum status hazard_observe(struct hazard *hazard, uint64_t source, bool has_changed, uint64_t now_us);

/* P(the source does not change within horizon_us), in (0, 1]; gamma posterior over the rate: (b / (b + horizon))^a.
 * An unknown source answers with the prior. */
double hazard_valid_probability(const struct hazard *hazard, uint64_t source, uint64_t horizon_us, uint64_t now_us);
/* Changes a second, posterior mean. */
double hazard_rate_per_s(const struct hazard *hazard, uint64_t source, uint64_t now_us);

#endif
