/* Documents that were opened and not asked about yet: whether anybody will, and how soon after, as it was with those
 * before them. */
#include <stdlib.h>

#include "demand/forecaster.h"
#include "demand/span.h"
#include "demand/waiting.h"
#include "prefix/row.h"

struct unread {
  struct waiting_room *documents; /* waits by node; one curve */
};

static void unread_destroy(void *state) {
  struct unread *unread = state;
  if (!unread) return;
  waiting_room_destroy(&unread->documents);
  free(unread);
}

static enum status unread_create(const struct demand_config *config, void **ret_state) {
  static const uint16_t no_pool[1] = {1};
  struct unread *unread = calloc(1, sizeof *unread);
  if (!unread) return STATUS_NO_MEMORY;
  enum status status = waiting_room_create(config->sessions_max, config->nodes_max, 1, no_pool, &unread->documents);
  if (status != STATUS_OK) {
    free(unread);
    return status;
  }
  /* Six of ten opened documents are asked about, half of those within two minutes: a guess until learned. */
  waiting_curve_init(waiting_room_curve(unread->documents, 0), .6, 120, 1.6, 4);
  *ret_state = unread;
  return STATUS_OK;
}

static void unread_update(void *state, uint64_t now_us) {
  waiting_advance(((struct unread *)state)->documents, now_us);
}

static void unread_observe(void *state, const struct forest *forest, const struct ask *ask,
                           const struct forest_path *path) {
  struct unread *unread = state;
  (void)forest;
  (void)ask;
  for (uint32_t i = 0; i < path->n_nodes; i++) {
    if (waiting_at(unread->documents, path->nodes[i])) waiting_came(unread->documents, path->nodes[i]);
  }
}

/* One that was asked about before has a rate. Opening it again begins the wait anew. */
static void unread_document(void *state, const struct forest *forest, uint32_t node, uint64_t now_us) {
  struct unread *unread = state;
  if (forest_at(forest, node)->asks == 0) waiting_begin(unread->documents, node, node, 0, 0, now_us, true);
}

static void unread_forget(void *state, uint32_t node) {
  waiting_drop(((struct unread *)state)->documents, node);
}

static bool unread_forecast(const void *state, const struct forest *forest, uint32_t node, uint64_t now_us,
                            const double *horizons_s, uint32_t n, struct forecaster_view *ret) {
  const struct unread *unread = state;
  (void)forest;
  const struct wait *wait = waiting_at(unread->documents, node);
  if (!wait) return false;
  waiting_within(NULL, waiting_room_see(unread->documents, 0), 0, span_s(wait->since_us, now_us), horizons_s, n,
                 ret->p_within);
  ret->asks = ret->p_within[n - 1];
  return true;
}

/* Half as long again as it has waited. */
static uint64_t unread_due(const void *state, const struct forest *forest, uint32_t node, uint64_t now_us) {
  const struct unread *unread = state;
  (void)forest;
  const struct wait *wait = waiting_at(unread->documents, node);
  if (!wait) return UINT64_MAX;
  uint64_t half_us = (now_us - wait->since_us) / 2;
  return now_us + (half_us > 5000000 ? half_us : 5000000);
}

static size_t unread_bytes(const void *state) {
  const struct unread *unread = state;
  return sizeof *unread + waiting_room_bytes(unread->documents);
}

static bool unread_save(const void *state, const struct forest *forest, bool (*row)(void *ctx, const char *text),
                        void *ctx) {
  const struct unread *unread = state;
  struct row line;
  row_begin(&line, "curve");
  waiting_curve_put(&line, waiting_room_see(unread->documents, 0));
  if (!row(ctx, line.text)) return false;
  for (const struct wait *wait = waiting_next(unread->documents, NULL); wait;
       wait = waiting_next(unread->documents, wait)) {
    row_begin(&line, "wait");
    row_put_key(&line, forest_end_key(forest, wait->node));
    row_put(&line, wait->since_us);
    if (!row(ctx, line.text)) return false;
  }
  return true;
}

static enum status unread_load(void *state, const struct forest *forest, const char *text) {
  struct unread *unread = state;
  if (row_take_word(&text, "curve")) {
    struct waiting_curve curve;
    if (!waiting_curve_take(&text, &curve) || !row_is_over(text)) return STATUS_INVALID;
    *waiting_room_curve(unread->documents, 0) = curve;
    return STATUS_OK;
  }
  block_key end;
  uint64_t since_us;
  if (!row_take_word(&text, "wait") || !row_take_key(&text, &end) || !row_take(&text, UINT64_MAX / 4, &since_us) ||
      !row_is_over(text)) {
    return STATUS_INVALID;
  }
  uint32_t node = forest_ending_in(forest, end);
  if (node != FOREST_NONE) waiting_begin(unread->documents, node, node, 0, 0, since_us, false);
  return STATUS_OK;
}

const struct forecaster_ops forecaster_unread = {
    .name = "unread",
    .prior_weight = 4,
    .create = unread_create,
    .destroy = unread_destroy,
    .observe = unread_observe,
    .document = unread_document,
    .forget = unread_forget,
    .update = unread_update,
    .forecast = unread_forecast,
    .due = unread_due,
    .bytes = unread_bytes,
    .save = unread_save,
    .load = unread_load,
};
