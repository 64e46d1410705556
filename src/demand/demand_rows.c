/* Demand as rows of text: what was learned, then each forecaster's own rows behind its name, then the nodes that are to
 * be looked at. */
#include <stdio.h>
#include <string.h>

#include "demand/demand_state.h"
#include "prefix/row.h"

_Static_assert((int)ROW_SIZE == (int)DEMAND_ROW_SIZE, "a row of demand is a row");

static void put_calibrator(struct row *row, const struct calibrator *calibrator) {
  for (uint32_t i = 0; i < CALIBRATOR_KNOTS; i++) {
    row_put_double(row, calibrator->offset[i]);
    row_put_double(row, calibrator->sum2[i]);
  }
}

static bool take_calibrator(const char **text, struct calibrator *calibrator) {
  for (uint32_t i = 0; i < CALIBRATOR_KNOTS; i++) {
    if (!row_take_double(text, &calibrator->offset[i]) || !row_take_double(text, &calibrator->sum2[i])) return false;
  }
  return calibrator_is_valid(calibrator);
}

static bool save_learned(const struct demand *demand, bool (*row)(void *ctx, const char *text), void *ctx) {
  struct row line;
  row_begin(&line, "announcements");
  row_put(&line, demand->next_announcement);
  if (!row(ctx, line.text)) return false;
  for (uint32_t h = 0; h < demand->config.n_horizons; h++) {
    const struct mixture *mixture = &demand->mixtures[h];
    row_begin(&line, "mixture");
    row_put(&line, h);
    row_put_double(&line, demand->config.horizons_s[h]);
    row_put(&line, mixture->n);
    for (uint32_t i = 0; i < mixture->n; i++) {
      row_put_double(&line, mixture->weight[i]);
      put_calibrator(&line, &mixture->own[i]);
    }
    if (!row(ctx, line.text)) return false;
    const struct scorecard *card = &demand->scores[h];
    row_begin(&line, "score");
    row_put(&line, h);
    row_put_double(&line, demand->config.horizons_s[h]);
    row_put_double(&line, card->squares);
    for (uint32_t i = 0; i < CALIBRATION_BINS; i++) {
      row_put_double(&line, card->forecast[i]);
      row_put_double(&line, card->come[i]);
      row_put(&line, card->count[i]);
    }
    if (!row(ctx, line.text)) return false;
  }
  return true;
}

/* Puts the forecaster's name before its rows. */
struct named_rows {
  const char *name;
  bool (*row)(void *ctx, const char *text);
  void *ctx;
};

static bool named_row(void *ctx, const char *text) {
  const struct named_rows *rows = ctx;
  char line[DEMAND_ROW_SIZE];
  int size = snprintf(line, sizeof line, "%s %s", rows->name, text);
  return size < 0 || (size_t)size >= sizeof line || rows->row(rows->ctx, line);
}

void demand_save(const struct demand *demand, const struct forest *forest, bool (*row)(void *ctx, const char *text),
                 void *ctx) {
  if (!save_learned(demand, row, ctx)) return;
  for (uint32_t i = 0; i < demand->n_forecasters; i++) {
    const struct forecaster_ops *ops = forecaster_at(i);
    struct named_rows rows = {.name = ops->name, .row = row, .ctx = ctx};
    if (ops->save && !ops->save(demand->states[i], forest, named_row, &rows)) return;
  }
  for (uint32_t id = forest_next(forest, FOREST_NONE); id != FOREST_NONE; id = forest_next(forest, id)) {
    if (!heap_contains(demand->due, id)) continue;
    struct row line;
    row_begin(&line, "due");
    row_put_key(&line, forest_end_key(forest, id));
    if (!row(ctx, line.text)) return;
  }
}

/* The number of a horizon and its seconds; a row of a horizon that is not learned any more is taken and dropped. */
static bool take_horizon(const struct demand *demand, const char **text, uint32_t *ret_horizon, bool *ret_is_learned) {
  uint64_t horizon;
  double horizon_s;
  if (!row_take(text, DEMAND_HORIZONS_MAX - 1, &horizon) || !row_take_double(text, &horizon_s)) return false;
  *ret_horizon = (uint32_t)horizon;
  *ret_is_learned = horizon < demand->config.n_horizons && !(demand->config.horizons_s[horizon] < horizon_s) &&
                    !(demand->config.horizons_s[horizon] > horizon_s);
  return true;
}

static enum status load_mixture(struct demand *demand, const char *text) {
  uint32_t h, n;
  bool is_learned;
  struct mixture mixture;
  double sum = 0;
  mixture_init(&mixture, demand->n_forecasters);
  if (!take_horizon(demand, &text, &h, &is_learned) || !row_take_u32(&text, &n)) return STATUS_INVALID;
  if (n != mixture.n) return STATUS_INVALID;
  for (uint32_t i = 0; i < n; i++) {
    if (!row_take_amount(&text, 1, &mixture.weight[i]) || !take_calibrator(&text, &mixture.own[i])) {
      return STATUS_INVALID;
    }
    sum += mixture.weight[i];
  }
  if (!row_is_over(text)) return STATUS_INVALID;
  if (!(sum > .99 && sum < 1.01)) return STATUS_INVALID;
  if (is_learned) demand->mixtures[h] = mixture;
  return STATUS_OK;
}

static enum status load_score(struct demand *demand, const char *text) {
  uint32_t h;
  bool is_learned;
  struct scorecard card = {0};
  if (!take_horizon(demand, &text, &h, &is_learned)) return STATUS_INVALID;
  if (!row_take_amount(&text, 1e18, &card.squares)) return STATUS_INVALID;
  for (uint32_t i = 0; i < CALIBRATION_BINS; i++) {
    if (!row_take_amount(&text, 1e18, &card.forecast[i]) || !row_take_amount(&text, 1e18, &card.come[i]) ||
        !row_take(&text, UINT64_MAX / 16, &card.count[i])) {
      return STATUS_INVALID;
    }
  }
  if (!row_is_over(text)) return STATUS_INVALID;
  if (is_learned) demand->scores[h] = card;
  return STATUS_OK;
}

static enum status load_announcements(struct demand *demand, const char *text) {
  uint64_t next;
  if (!row_take(&text, UINT64_MAX, &next) || next == 0 || !row_is_over(text)) return STATUS_INVALID;
  if (next > demand->next_announcement) demand->next_announcement = next;
  return STATUS_OK;
}

static enum status load_due(struct demand *demand, const struct forest *forest, const char *text) {
  block_key end;
  if (!row_take_key(&text, &end) || !row_is_over(text)) return STATUS_INVALID;
  uint32_t node = forest_ending_in(forest, end);
  if (node == FOREST_NONE || node > demand->config.nodes_max) return STATUS_OK;
  return heap_set(demand->due, node, 0);
}

enum status demand_load(struct demand *demand, const struct forest *forest, const char *text) {
  if (row_take_word(&text, "announcements")) return load_announcements(demand, text);
  if (row_take_word(&text, "mixture")) return load_mixture(demand, text);
  if (row_take_word(&text, "score")) return load_score(demand, text);
  if (row_take_word(&text, "due")) return load_due(demand, forest, text);
  for (uint32_t i = 0; i < demand->n_forecasters; i++) {
    const struct forecaster_ops *ops = forecaster_at(i);
    if (!ops->load || !row_take_word(&text, ops->name)) continue;
    return *text == ' ' ? ops->load(demand->states[i], forest, text + 1) : STATUS_INVALID;
  }
  return STATUS_INVALID;
}
