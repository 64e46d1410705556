/* Clients that come back on a beat: a report every hour, a digest every minute, each a burst of asks. Follows bursts
 * per node (PREDICTOR section 6) and speaks once three have come at even distances. How often a predicted burst really
 * came is counted, missed ones included, and is the probability it speaks with. */
#include <stdlib.h>

#include "base/number.h"
#include "demand/forecaster.h"
#include "demand/span.h"
#include "demand/tally.h"
#include "prefix/row.h"

enum { GAPS_MIN = 2, MISSES_MAX = 3, STRAYS_MAX = 3 };

#define PERIOD_S_MIN 20.

struct beat {
  uint64_t burst_us; /* when the current burst began; 0: none seen */
  uint64_t last_us;  /* last ask */
  float gap_s;       /* mean distance of bursts, .6 old + .4 new */
  float deviation_s; /* mean distance from what was expected, half old, half new */
  float burst_asks;  /* asks in a burst, .6 old + .4 new */
  uint32_t asks;     /* in the current burst */
  uint32_t gaps;     /* distances seen since the beat began */
  uint32_t strays;   /* bursts since burst_us that came far too early to be of the beat */
  struct tally hits; /* predicted bursts that came */
};

struct periodic {
  struct beat *beats; /* [nodes_max + 1], by node; pages nobody touched take no memory */
  uint32_t nodes_max;
};

static void periodic_destroy(void *state) {
  struct periodic *periodic = state;
  if (!periodic) return;
  free(periodic->beats);
  free(periodic);
}

static enum status periodic_create(const struct demand_config *config, void **ret_state) {
  struct periodic *periodic = calloc(1, sizeof *periodic);
  if (!periodic) return STATUS_NO_MEMORY;
  periodic->nodes_max = config->nodes_max;
  periodic->beats = calloc((size_t)config->nodes_max + 1, sizeof *periodic->beats);
  if (!periodic->beats) {
    free(periodic);
    return STATUS_NO_MEMORY;
  }
  *ret_state = periodic;
  return STATUS_OK;
}

/* Silence that ends a burst. */
static double silence_s(const struct beat *beat) {
  return beat->gaps ? number_clamp((double)beat->gap_s / 3, 10, 90, 90) : 15;
}

static bool is_even(const struct beat *beat) {
  double slack_s = (double)beat->gap_s * .1;
  return beat->gaps >= GAPS_MIN && (double)beat->gap_s >= PERIOD_S_MIN &&
         (double)beat->deviation_s < (double)beat->gap_s * .1 + (slack_s < 30 ? slack_s : 30);
}

/* How far from its time a burst may come and still be the predicted one. */
static double tolerance_s(const struct beat *beat) {
  double wide = number_clamp((double)beat->gap_s * .2, 3, 90, 90), spread = 3 * (double)beat->deviation_s;
  return spread > wide ? spread : wide;
}

static double distance(double a, double b) {
  return a > b ? a - b : b - a;
}

/* A burst `gap_s` after the last one of an even beat, which it confirms or not. */
static void beat_check(struct beat *beat, double gap_s) {
  double rounds = (double)(uint64_t)(gap_s / (double)beat->gap_s + .5);
  for (double missed = 1; missed < rounds && missed <= MISSES_MAX; missed++) tally_add(&beat->hits, false);
  tally_add(&beat->hits, rounds >= 1 && rounds <= MISSES_MAX + 1 &&
                             distance(gap_s, rounds * (double)beat->gap_s) <= tolerance_s(beat));
}

/* A burst has begun `gap_s` after the last one of the beat; false when it is one in between. */
static bool beat_burst(struct beat *beat, double gap_s) {
  if (is_even(beat)) {
    if (gap_s < (double)beat->gap_s - tolerance_s(beat) && beat->strays < STRAYS_MAX) {
      beat->strays++;
      return false;
    }
    beat_check(beat, gap_s);
    /* It left some out: no new distance. */
    if (gap_s > 1.5 * (double)beat->gap_s && gap_s < (MISSES_MAX + 1.5) * (double)beat->gap_s) return true;
  }
  /* Far longer than before: what came before was inside one burst, or the beat is over. */
  if (beat->gaps == 0 || gap_s > 3 * (double)beat->gap_s) {
    beat->gap_s = (float)gap_s;
    beat->deviation_s = 0;
    beat->gaps = 1;
    return true;
  }
  double off_s = distance(gap_s, (double)beat->gap_s);
  beat->deviation_s = (float)(.5 * (double)beat->deviation_s + .5 * off_s);
  beat->gap_s = (float)(.6 * (double)beat->gap_s + .4 * gap_s);
  if (beat->gaps < UINT32_MAX) beat->gaps++;
  return true;
}

static void beat_ask(struct beat *beat, uint64_t at_us) {
  bool is_new = span_s(beat->last_us, at_us) > silence_s(beat);
  if (!beat->burst_us) {
    *beat = (struct beat){.burst_us = at_us, .burst_asks = 1};
  } else if (is_new && beat_burst(beat, span_s(beat->burst_us, at_us))) {
    beat->burst_asks = (float)(.6 * (double)beat->burst_asks + .4 * beat->asks);
    beat->burst_us = at_us;
    beat->asks = beat->strays = 0;
  }
  if (at_us > beat->last_us) beat->last_us = at_us;
  if (beat->strays == 0 && beat->asks < UINT32_MAX) beat->asks++;
}

static void periodic_observe(void *state, const struct forest *forest, const struct ask *ask,
                             const struct forest_path *path) {
  struct periodic *periodic = state;
  (void)forest;
  for (uint32_t i = 0; i < path->n_nodes; i++) {
    if (path->nodes[i] <= periodic->nodes_max) beat_ask(&periodic->beats[path->nodes[i]], ask->at_us);
  }
}

static void periodic_split(void *state, uint32_t upper, uint32_t lower) {
  struct periodic *periodic = state;
  if (upper <= periodic->nodes_max && lower <= periodic->nodes_max) periodic->beats[upper] = periodic->beats[lower];
}

static void periodic_forget(void *state, uint32_t node) {
  struct periodic *periodic = state;
  if (node <= periodic->nodes_max) periodic->beats[node] = (struct beat){0};
}

/* The next burst: how far away its time is (negative: late, within tolerance), and how likely it comes at all. */
static bool next_burst(const struct beat *beat, uint64_t now_us, double *ret_eta_s, double *ret_p) {
  if (!is_even(beat)) return false;
  double p = tally_share(&beat->hits, 4, .5), since_s = span_s(beat->burst_us, now_us);
  double eta_s = (double)beat->gap_s - since_s;
  /* Each one that did not come makes it less likely that the beat goes on. */
  for (int missed = 0; eta_s < -tolerance_s(beat); missed++) {
    if (missed == MISSES_MAX) return false;
    eta_s += (double)beat->gap_s;
    p *= .5;
  }
  *ret_eta_s = eta_s;
  *ret_p = p;
  return true;
}

static const struct beat *beat_of(const struct periodic *periodic, uint32_t node) {
  static const struct beat none = {0};
  return node <= periodic->nodes_max ? &periodic->beats[node] : &none;
}

/* That a burst which may still be going on brings another ask. */
static double more_of_burst(const struct beat *beat, uint64_t now_us) {
  double left = (double)beat->burst_asks - beat->asks, silence = span_s(beat->last_us, now_us) / silence_s(beat);
  if (left <= 0 || silence >= 1) return 0;
  return number_clamp(left / (left + .5), 0, .95, 0) * (1 - silence);
}

static bool periodic_forecast(const void *state, const struct forest *forest, uint32_t node, uint64_t now_us,
                              const double *horizons_s, uint32_t n, struct forecaster_view *ret) {
  const struct beat *beat = beat_of(state, node);
  double eta_s, p;
  (void)forest;
  if (!next_burst(beat, now_us, &eta_s, &p)) return false;
  double spread_s = 1.25 * (double)beat->deviation_s, least_s = .01 * (double)beat->gap_s;
  if (spread_s < least_s) spread_s = least_s;
  if (spread_s < 1) spread_s = 1;
  double before = number_normal_cdf(-eta_s / spread_s), more = more_of_burst(beat, now_us);
  for (uint32_t i = 0; i < n; i++) {
    double come = p * (number_normal_cdf((horizons_s[i] - eta_s) / spread_s) - before);
    come = number_clamp(come / (1 - p * before + 1e-9), 0, 1, 0);
    ret->p_within[i] = 1 - (1 - come) * (1 - more);
    if (i + 1 < n) continue;
    double rounds = number_clamp((horizons_s[i] - eta_s) / (double)beat->gap_s, 0, 1e6, 0);
    ret->asks = come * (double)beat->burst_asks * (1 + p * rounds) + more * (double)beat->burst_asks;
  }
  return true;
}

/* When the next burst's time is near, as far as one can tell. */
static uint64_t periodic_due(const void *state, const struct forest *forest, uint32_t node, uint64_t now_us) {
  const struct beat *beat = beat_of(state, node);
  double eta_s, p;
  (void)forest;
  if (!next_burst(beat, now_us, &eta_s, &p)) return UINT64_MAX;
  double step_s = eta_s > 60 ? eta_s / 2 : eta_s / 4;
  return now_us + (uint64_t)(number_clamp(step_s, 2, 43200, 43200) * 1e6);
}

static size_t periodic_bytes(const void *state) {
  const struct periodic *periodic = state;
  return sizeof *periodic + ((size_t)periodic->nodes_max + 1) * sizeof *periodic->beats;
}

static bool periodic_save(const void *state, const struct forest *forest, bool (*row)(void *ctx, const char *text),
                          void *ctx) {
  const struct periodic *periodic = state;
  struct row line;
  for (uint32_t id = forest_next(forest, FOREST_NONE); id != FOREST_NONE; id = forest_next(forest, id)) {
    const struct beat *beat = beat_of(periodic, id);
    if (beat->gaps == 0) continue;
    row_begin(&line, "beat");
    row_put_key(&line, forest_end_key(forest, id));
    row_put(&line, beat->burst_us);
    row_put(&line, beat->last_us);
    row_put_double(&line, (double)beat->gap_s);
    row_put_double(&line, (double)beat->deviation_s);
    row_put_double(&line, (double)beat->burst_asks);
    row_put(&line, beat->asks);
    row_put(&line, beat->gaps);
    row_put_double(&line, beat->hits.yes);
    row_put_double(&line, beat->hits.no);
    if (!row(ctx, line.text)) return false;
  }
  return true;
}

static enum status periodic_load(void *state, const struct forest *forest, const char *text) {
  struct periodic *periodic = state;
  struct beat beat = {0};
  block_key end;
  double gap_s, deviation_s, burst_asks;
  if (!row_take_word(&text, "beat") || !row_take_key(&text, &end) || !row_take(&text, UINT64_MAX / 4, &beat.burst_us) ||
      !row_take(&text, UINT64_MAX / 4, &beat.last_us) || !row_take_amount(&text, 1e12, &gap_s) ||
      !row_take_amount(&text, 1e12, &deviation_s) || !row_take_amount(&text, 1e12, &burst_asks) ||
      !row_take_u32(&text, &beat.asks) || !row_take_u32(&text, &beat.gaps) ||
      !row_take_amount(&text, TALLY_MAX, &beat.hits.yes) || !row_take_amount(&text, TALLY_MAX, &beat.hits.no) ||
      !row_is_over(text)) {
    return STATUS_INVALID;
  }
  beat.gap_s = (float)gap_s;
  beat.deviation_s = (float)deviation_s;
  beat.burst_asks = (float)burst_asks;
  uint32_t node = forest_ending_in(forest, end);
  if (node != FOREST_NONE && node <= periodic->nodes_max) periodic->beats[node] = beat;
  return STATUS_OK;
}

const struct forecaster_ops forecaster_periodic = {
    .name = "periodic",
    .prior_weight = 4,
    .create = periodic_create,
    .destroy = periodic_destroy,
    .observe = periodic_observe,
    .split = periodic_split,
    .forget = periodic_forget,
    .forecast = periodic_forecast,
    .due = periodic_due,
    .bytes = periodic_bytes,
    .save = periodic_save,
    .load = periodic_load,
};
