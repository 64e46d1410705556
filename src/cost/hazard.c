#include "cost/hazard.h"

#include <stdlib.h>

#include "base/map.h"
#include "base/number.h"

struct source {
  uint64_t id;
  uint64_t seen_us;  /* last observation */
  double changes;    /* discounted to seen_us */
  double exposure_s; /* discounted seconds watched */
};

struct hazard {
  struct hazard_settings settings;
  struct map *index;      /* source → number */
  struct source *sources; /* [count] of [sources_max] */
  uint32_t count;
};

void hazard_settings_init(struct hazard_settings *settings) {
  const uint64_t week_s = 7 * 86400;
  *settings = (struct hazard_settings){
      .sources_max = 4096, .half_life_us = week_s * 1000000, .prior_changes = .5, .prior_seconds = .5 * (double)week_s};
}

enum status hazard_create(const struct hazard_settings *settings, struct hazard **ret_hazard) {
  if (settings->sources_max == 0 || settings->half_life_us == 0 || !number_is_finite(settings->prior_changes) ||
      !number_is_finite(settings->prior_seconds) || settings->prior_changes <= 0 || settings->prior_seconds <= 0) {
    return STATUS_INVALID;
  }
  struct hazard *hazard = calloc(1, sizeof *hazard);
  if (!hazard) return STATUS_NO_MEMORY;
  hazard->settings = *settings;
  hazard->sources = calloc(settings->sources_max, sizeof *hazard->sources);
  enum status status = hazard->sources ? map_create(settings->sources_max, &hazard->index) : STATUS_NO_MEMORY;
  if (status != STATUS_OK) {
    hazard_destroy(&hazard);
    return status;
  }
  *ret_hazard = hazard;
  return STATUS_OK;
}

void hazard_destroy(struct hazard **hazard) {
  if (!*hazard) return;
  map_destroy(&(*hazard)->index);
  free((*hazard)->sources);
  free(*hazard);
  *hazard = NULL;
}

static const struct source *source_find(const struct hazard *hazard, uint64_t id) {
  uint64_t number;
  return map_get(hazard->index, map_key_of(id), &number) ? &hazard->sources[number] : NULL;
}

static const double LN2 = 0.69314718055994531;

/* Share of the evidence that is left after the time since it was seen. */
static double remaining(const struct hazard *hazard, const struct source *source, uint64_t now_us) {
  if (now_us <= source->seen_us) return 1;
  return number_exp(-LN2 * (double)(now_us - source->seen_us) / (double)hazard->settings.half_life_us);
}

static uint32_t longest_unseen(const struct hazard *hazard) {
  uint32_t oldest = 0;
  for (uint32_t i = 1; i < hazard->count; i++) {
    if (hazard->sources[i].seen_us < hazard->sources[oldest].seen_us) oldest = i;
  }
  return oldest;
}

/* A new source in a free place or in that of the one unseen for longest. */
static enum status source_add(struct hazard *hazard, uint64_t id, uint64_t now_us) {
  uint32_t number = hazard->count;
  struct source leaving = {0};
  bool is_replacing = hazard->count == hazard->settings.sources_max;
  if (is_replacing) {
    number = longest_unseen(hazard);
    leaving = hazard->sources[number];
    map_remove(hazard->index, map_key_of(leaving.id), NULL);
  }
  enum status status = map_set(hazard->index, map_key_of(id), number);
  if (status != STATUS_OK) {
    if (is_replacing) {
      /* The table keeps no hole: the last source moves into the place. */
      hazard->count--;
      if (number != hazard->count) {
        hazard->sources[number] = hazard->sources[hazard->count];
        enum status moved = map_set(hazard->index, map_key_of(hazard->sources[number].id), number);
        (void)moved; /* replacing a value allocates nothing */
      }
    }
    return status;
  }
  hazard->sources[number] = (struct source){.id = id, .seen_us = now_us};
  if (!is_replacing) hazard->count++;
  return STATUS_OK;
}

enum status hazard_observe(struct hazard *hazard, uint64_t source, bool has_changed, uint64_t now_us) {
  uint64_t number;
  if (!map_get(hazard->index, map_key_of(source), &number)) {
    enum status status = source_add(hazard, source, now_us);
    if (status != STATUS_OK) return status;
    map_get(hazard->index, map_key_of(source), &number);
  }
  struct source *known = &hazard->sources[number];
  double kept = remaining(hazard, known, now_us);
  /* Watched seconds, each discounted by its age: the integral of the discount over the gap. */
  double watched = (1 - kept) * (double)hazard->settings.half_life_us / 1e6 / LN2;
  known->changes = known->changes * kept + (has_changed ? 1 : 0);
  known->exposure_s = known->exposure_s * kept + watched;
  if (now_us > known->seen_us) known->seen_us = now_us;
  return STATUS_OK;
}

static void posterior(const struct hazard *hazard, uint64_t id, uint64_t now_us, double *ret_changes,
                      double *ret_seconds) {
  *ret_changes = hazard->settings.prior_changes;
  *ret_seconds = hazard->settings.prior_seconds;
  const struct source *source = source_find(hazard, id);
  if (!source) return;
  double kept = remaining(hazard, source, now_us);
  *ret_changes += source->changes * kept;
  *ret_seconds += source->exposure_s * kept;
}

double hazard_valid_probability(const struct hazard *hazard, uint64_t source, uint64_t horizon_us, uint64_t now_us) {
  double changes, seconds;
  posterior(hazard, source, now_us, &changes, &seconds);
  return number_exp(-changes * number_log1p((double)horizon_us / 1e6 / seconds));
}

double hazard_rate_per_s(const struct hazard *hazard, uint64_t source, uint64_t now_us) {
  double changes, seconds;
  posterior(hazard, source, now_us, &changes, &seconds);
  return changes / seconds;
}
