/* Asks of many passers-by: shared heads, documents and whole prompts that come back at a rate. Gamma-Poisson with
 * discounted counts: the last half hour says how often, leaning on the parent's rate times the share of its asks that
 * go where somebody went before; the last five minutes lean on the half hour. */
#include <stdlib.h>

#include "base/number.h"
#include "demand/forecaster.h"
#include "demand/span.h"
#include "prefix/row.h"

enum { FADE_SHORT = 1, FADE_LONG = 2 };

#define PRIOR_S 900.       /* seconds of watching that the parent's word is worth, */
#define PRIOR_ASKS_MAX .5  /* but never more asks than this */
#define SHORT_PRIOR_S 300. /* that the half hour is worth to the five minutes */
#define SHORT_HORIZON_S 300.

struct rate {
  double asks, roots; /* discounted like a node's counter: all asks, and those that began a tree of their own */
  uint64_t first_us, last_us;
};

static enum status rate_create(const struct demand_config *config, void **ret_state) {
  (void)config;
  struct rate *rate = calloc(1, sizeof *rate);
  if (!rate) return STATUS_NO_MEMORY;
  *ret_state = rate;
  return STATUS_OK;
}

static void rate_observe(void *state, const struct forest *forest, const struct ask *ask,
                         const struct forest_path *path) {
  struct rate *rate = state;
  (void)forest;
  double fade = number_exp(-span_s(rate->last_us, ask->at_us) / forest_fade_s[FADE_LONG]);
  rate->asks = rate->asks * fade + 1;
  rate->roots = rate->roots * fade + (path->blocks_known == 0);
  if (!rate->first_us) rate->first_us = ask->at_us;
  if (ask->at_us > rate->last_us) rate->last_us = ask->at_us;
}

/* How long a counter with this time constant has watched, as discounted as the counter. */
static double watched_s(double fade_s, uint64_t first_us, uint64_t now_us) {
  return fade_s * (1 - number_exp(-span_s(first_us, now_us) / fade_s));
}

/* Posterior of a rate: gamma with this shape over this many seconds. */
struct gamma {
  double shape, seconds;
};

/* The ask that made the node is why it exists and says nothing about how often it comes. */
static struct gamma posterior(const struct forest_node *node, uint32_t which, uint64_t now_us, struct gamma prior) {
  double fade_s = forest_fade_s[which];
  double first = number_exp(-span_s(node->first_us, now_us) / fade_s);
  double count = forest_fade(node, which, now_us) - first;
  return (struct gamma){prior.shape + (count > 0 ? count : 0),
                        prior.seconds + watched_s(fade_s, node->first_us, now_us)};
}

static struct gamma prior_of(double per_s, double seconds, double asks_max) {
  double asks = per_s * seconds;
  if (asks > asks_max) return (struct gamma){asks_max, asks_max / per_s};
  return (struct gamma){asks, seconds};
}

/* What the parent's traffic alone says about one of its children. */
static double prior_per_s(const struct rate *rate, const struct forest *forest, const struct forest_node *node,
                          uint64_t now_us) {
  const struct forest_node *parent = forest_at(forest, node->parent);
  double asks, fresh, known, watched;
  if (parent) {
    asks = forest_fade(parent, FADE_LONG, now_us);
    fresh = parent->asks ? (double)parent->branches / parent->asks : 1;
    known = parent->n_children;
    watched = watched_s(forest_fade_s[FADE_LONG], parent->first_us, now_us);
  } else {
    double fade = number_exp(-span_s(rate->last_us, now_us) / forest_fade_s[FADE_LONG]);
    asks = rate->asks * fade;
    fresh = rate->asks > 0 ? rate->roots / rate->asks : 1;
    known = forest_roots(forest);
    watched = watched_s(forest_fade_s[FADE_LONG], rate->first_us, now_us);
  }
  double again = number_clamp(1 - fresh, .02, 1, .02);
  return asks / (watched + PRIOR_S) * again / (known > 1 ? known : 1);
}

static double within(struct gamma gamma, double horizon_s) {
  return 1 - number_exp(-gamma.shape * number_log1p(horizon_s / gamma.seconds));
}

static bool is_a_thread(const struct forest_node *node) {
  return forest_kind(node) == KIND_CONVERSATION && node->branches <= 1 && node->repeats == 0;
}

static bool rate_forecast(const void *state, const struct forest *forest, uint32_t node, uint64_t now_us,
                          const double *horizons_s, uint32_t n, struct forecaster_view *ret) {
  const struct rate *rate = state;
  const struct forest_node *row = forest_at(forest, node);
  if (row->asks == 0 || is_a_thread(row)) return false;
  struct gamma slow =
      posterior(row, FADE_LONG, now_us, prior_of(prior_per_s(rate, forest, row, now_us), PRIOR_S, PRIOR_ASKS_MAX));
  struct gamma fast =
      posterior(row, FADE_SHORT, now_us, prior_of(slow.shape / slow.seconds, SHORT_PRIOR_S, slow.shape));
  for (uint32_t i = 0; i < n; i++) {
    ret->p_within[i] = within(horizons_s[i] <= SHORT_HORIZON_S ? fast : slow, horizons_s[i]);
  }
  ret->asks = slow.shape / slow.seconds * horizons_s[n - 1];
  return true;
}

/* A quarter of the expected gap later; what comes less than once a day is looked at when it comes. */
static uint64_t rate_due(const void *state, const struct forest *forest, uint32_t node, uint64_t now_us) {
  static const double day_s[1] = {86400};
  struct forecaster_view view;
  if (!rate_forecast(state, forest, node, now_us, day_s, 1, &view) || view.asks < 1) return UINT64_MAX;
  return now_us + (uint64_t)(number_clamp(day_s[0] / view.asks / 4, 15, 1800, 1800) * 1e6);
}

static size_t rate_bytes(const void *state) {
  return sizeof *(const struct rate *)state;
}

static bool rate_save(const void *state, const struct forest *forest, bool (*row)(void *ctx, const char *text),
                      void *ctx) {
  const struct rate *rate = state;
  (void)forest;
  struct row line;
  row_begin(&line, "traffic");
  row_put_double(&line, rate->asks);
  row_put_double(&line, rate->roots);
  row_put(&line, rate->first_us);
  row_put(&line, rate->last_us);
  return row(ctx, line.text);
}

static enum status rate_load(void *state, const struct forest *forest, const char *text) {
  struct rate *rate = state;
  (void)forest;
  double asks, roots;
  uint64_t first_us, last_us;
  if (!row_take_word(&text, "traffic") || !row_take_amount(&text, 1e12, &asks) ||
      !row_take_amount(&text, 1e12, &roots) || !row_take(&text, UINT64_MAX / 4, &first_us) ||
      !row_take(&text, UINT64_MAX / 4, &last_us) || !row_is_over(text)) {
    return STATUS_INVALID;
  }
  rate->asks = asks;
  rate->roots = roots;
  rate->first_us = first_us;
  rate->last_us = last_us;
  return STATUS_OK;
}

const struct forecaster_ops forecaster_rate = {
    .name = "rate",
    .prior_weight = 1,
    .create = rate_create,
    .destroy = free,
    .observe = rate_observe,
    .forecast = rate_forecast,
    .due = rate_due,
    .bytes = rate_bytes,
    .save = rate_save,
    .load = rate_load,
};
