/* Announced work: somebody said what will be asked for, when and how often. Taken at its word as far as such words have
 * been kept: whether anything came around the announced time is counted, and so is how far off it was. */
#include <stdlib.h>

#include "base/heap.h"
#include "base/map.h"
#include "base/number.h"
#include "demand/forecaster.h"
#include "demand/tally.h"
#include "prefix/row.h"

enum { PLACE_NONE = UINT32_MAX };

struct promise {
  uint64_t id; /* 0: free */
  uint64_t at_us, every_us;
  uint32_t node, count;
  uint32_t came;           /* asks around at_us so far */
  uint32_t next, previous; /* of the same node, PLACE_NONE ends; next chains the free ones */
};

struct announced {
  struct promise *promises; /* [promises_max] */
  uint32_t promises_max, used, free, count;
  uint32_t *first; /* [nodes_max + 1]: place of the node's first, + 1 */
  uint32_t nodes_max;
  struct map *ids;    /* id → place */
  struct heap *ends;  /* place → when its time is over, microseconds */
  struct tally kept;  /* announcements of which something came */
  double deviation_s; /* mean distance of the first ask from the announced time */
};

static void announced_destroy(void *state) {
  struct announced *announced = state;
  if (!announced) return;
  map_destroy(&announced->ids);
  heap_destroy(&announced->ends);
  free(announced->promises);
  free(announced->first);
  free(announced);
}

static enum status announced_create(const struct demand_config *config, void **ret_state) {
  struct announced *announced = calloc(1, sizeof *announced);
  if (!announced) return STATUS_NO_MEMORY;
  announced->promises_max = config->announcements_max;
  announced->nodes_max = config->nodes_max;
  announced->free = PLACE_NONE;
  announced->deviation_s = 5;
  announced->promises = calloc(config->announcements_max, sizeof *announced->promises);
  announced->first = calloc((size_t)config->nodes_max + 1, sizeof *announced->first);
  enum status status = announced->promises && announced->first ? STATUS_OK : STATUS_NO_MEMORY;
  if (status == STATUS_OK) status = map_create(config->announcements_max, &announced->ids);
  if (status == STATUS_OK) status = heap_create(&announced->ends);
  if (status != STATUS_OK) {
    announced_destroy(announced);
    return status;
  }
  *ret_state = announced;
  return STATUS_OK;
}

/* Asks this far from the announced time belong to it. */
static double tolerance_s(const struct announced *announced, const struct promise *promise) {
  double wide = number_clamp(6 * announced->deviation_s, 30, 900, 30);
  double quarter = (double)promise->every_us / 4e6;
  return promise->every_us && wide > quarter ? quarter : wide;
}

static double end_us(const struct announced *announced, const struct promise *promise) {
  return (double)promise->at_us + tolerance_s(announced, promise) * 1e6;
}

static void promise_end(struct announced *announced, uint32_t place) {
  struct promise *promise = &announced->promises[place];
  map_remove(announced->ids, map_key_of(promise->id), NULL);
  heap_remove(announced->ends, place);
  if (promise->next != PLACE_NONE) announced->promises[promise->next].previous = promise->previous;
  if (promise->previous != PLACE_NONE) {
    announced->promises[promise->previous].next = promise->next;
  } else {
    announced->first[promise->node] = promise->next == PLACE_NONE ? 0 : promise->next + 1;
  }
  *promise = (struct promise){.next = announced->free};
  announced->free = place;
  announced->count--;
}

static enum status announced_announce(void *state, const struct forecaster_promise *said, uint64_t now_us) {
  struct announced *announced = state;
  (void)now_us;
  if (announced->count == announced->promises_max) return STATUS_FULL;
  uint32_t place = announced->free != PLACE_NONE ? announced->free : announced->used;
  enum status status = map_set(announced->ids, map_key_of(said->id), place);
  if (status != STATUS_OK) return status;
  if (place == announced->used) {
    announced->used++;
  } else {
    announced->free = announced->promises[place].next;
  }
  uint32_t first = announced->first[said->node];
  announced->promises[place] = (struct promise){.id = said->id,
                                                .at_us = said->at_us,
                                                .every_us = said->every_us,
                                                .node = said->node,
                                                .count = said->count,
                                                .next = first ? first - 1 : PLACE_NONE,
                                                .previous = PLACE_NONE};
  if (first) announced->promises[first - 1].previous = place;
  announced->first[said->node] = place + 1;
  announced->count++;
  status = heap_set(announced->ends, place, end_us(announced, &announced->promises[place]));
  if (status != STATUS_OK) promise_end(announced, place);
  return status;
}

static bool announced_withdraw(void *state, uint64_t id) {
  struct announced *announced = state;
  uint64_t place;
  if (!map_get(announced->ids, map_key_of(id), &place)) return false;
  promise_end(announced, (uint32_t)place);
  return true;
}

/* Its time is over: what was kept is counted, and a repeating one looks to the next time that is not over yet. */
static void promise_pass(struct announced *announced, uint32_t place, uint64_t now_us) {
  struct promise *promise = &announced->promises[place];
  tally_add(&announced->kept, promise->came > 0);
  if (!promise->every_us) {
    promise_end(announced, place);
    return;
  }
  uint64_t rounds = now_us > promise->at_us ? (now_us - promise->at_us) / promise->every_us : 0;
  promise->at_us += (rounds ? rounds : 1) * promise->every_us;
  promise->came = 0;
}

static void announced_update(void *state, uint64_t now_us) {
  struct announced *announced = state;
  uint32_t place;
  double over_us;
  while (heap_peek(announced->ends, &place, &over_us) && over_us < (double)now_us) {
    struct promise *promise = &announced->promises[place];
    if (end_us(announced, promise) < (double)now_us) promise_pass(announced, place, now_us);
    if (!promise->id) continue;
    double next_us = end_us(announced, promise);
    if (next_us < (double)now_us) next_us = (double)now_us;
    if (heap_set(announced->ends, place, next_us) != STATUS_OK) promise_end(announced, place);
  }
}

/* PLACE_NONE: nothing is announced there. */
static uint32_t first_at(const struct announced *announced, uint32_t node) {
  uint32_t place = node <= announced->nodes_max ? announced->first[node] : 0;
  return place ? place - 1 : PLACE_NONE;
}

static void promise_ask(struct announced *announced, struct promise *promise, uint64_t at_us) {
  double off_s = ((double)at_us - (double)promise->at_us) / 1e6, far_s = off_s < 0 ? -off_s : off_s;
  if (far_s > tolerance_s(announced, promise)) return;
  if (promise->came++ == 0) announced->deviation_s = .9 * announced->deviation_s + .1 * far_s;
}

static void announced_observe(void *state, const struct forest *forest, const struct ask *ask,
                              const struct forest_path *path) {
  struct announced *announced = state;
  (void)forest;
  for (uint32_t i = 0; i < path->n_nodes; i++) {
    uint32_t place = first_at(announced, path->nodes[i]);
    for (; place != PLACE_NONE; place = announced->promises[place].next) {
      promise_ask(announced, &announced->promises[place], ask->at_us);
    }
  }
}

static void announced_forget(void *state, uint32_t node) {
  struct announced *announced = state;
  for (uint32_t place; (place = first_at(announced, node)) != PLACE_NONE;) promise_end(announced, place);
}

/* Adds what one announcement says. */
static void promise_forecast(const struct announced *announced, const struct promise *promise, uint64_t now_us,
                             const double *horizons_s, uint32_t n, struct forecaster_view *view) {
  double kept = tally_share(&announced->kept, 9, 1), spread_s = number_clamp(1.25 * announced->deviation_s, 1, 300, 5);
  double eta_s = ((double)promise->at_us - (double)now_us) / 1e6, every_s = (double)promise->every_us / 1e6;
  bool is_done = promise->came >= promise->count, has_begun = promise->came > 0 && !is_done;
  if (is_done && !promise->every_us) return;
  if (is_done) eta_s += every_s;
  uint32_t left = has_begun ? promise->count - promise->came : promise->count;
  double before = number_normal_cdf(-eta_s / spread_s), come = 0;
  for (uint32_t i = 0; i < n; i++) {
    come = kept * (number_normal_cdf((horizons_s[i] - eta_s) / spread_s) - before) / (1 - kept * before + 1e-9);
    /* Once some have come, the rest follows at once. */
    come = has_begun ? kept : number_clamp(come, 0, 1, 0);
    /* Announcements of one prefix know nothing of each other. */
    view->p_within[i] = 1 - (1 - view->p_within[i]) * (1 - come);
  }
  double rounds = promise->every_us ? number_clamp((horizons_s[n - 1] - eta_s) / every_s, 0, 1e6, 0) : 0;
  view->asks += come * left + kept * promise->count * (double)(uint64_t)rounds;
}

static bool announced_forecast(const void *state, const struct forest *forest, uint32_t node, uint64_t now_us,
                               const double *horizons_s, uint32_t n, struct forecaster_view *ret) {
  const struct announced *announced = state;
  (void)forest;
  uint32_t place = first_at(announced, node);
  if (place == PLACE_NONE) return false;
  struct forecaster_view view = {.asks = 0};
  for (; place != PLACE_NONE; place = announced->promises[place].next) {
    promise_forecast(announced, &announced->promises[place], now_us, horizons_s, n, &view);
  }
  *ret = view;
  return true;
}

/* Half of the way to its time later, and every five seconds around it. */
static uint64_t announced_due(const void *state, const struct forest *forest, uint32_t node, uint64_t now_us) {
  const struct announced *announced = state;
  (void)forest;
  uint64_t due_us = UINT64_MAX;
  for (uint32_t place = first_at(announced, node); place != PLACE_NONE; place = announced->promises[place].next) {
    uint64_t at_us = announced->promises[place].at_us;
    uint64_t half_us = at_us > now_us ? (at_us - now_us) / 2 : 0, step_us = half_us > 5000000 ? half_us : 5000000;
    if (now_us + step_us < due_us) due_us = now_us + step_us;
  }
  return due_us;
}

static size_t announced_bytes(const void *state) {
  const struct announced *announced = state;
  return sizeof *announced + announced->promises_max * sizeof *announced->promises +
         ((size_t)announced->nodes_max + 1) * sizeof *announced->first + map_bytes(announced->ids);
}

static bool announced_save(const void *state, const struct forest *forest, bool (*row)(void *ctx, const char *text),
                           void *ctx) {
  const struct announced *announced = state;
  struct row line;
  row_begin(&line, "kept");
  row_put_double(&line, announced->kept.yes);
  row_put_double(&line, announced->kept.no);
  row_put_double(&line, announced->deviation_s);
  if (!row(ctx, line.text)) return false;
  for (uint32_t place = 0; place < announced->used; place++) {
    const struct promise *promise = &announced->promises[place];
    if (!promise->id) continue;
    row_begin(&line, "promise");
    row_put(&line, promise->id);
    row_put_key(&line, forest_end_key(forest, promise->node));
    row_put(&line, promise->at_us);
    row_put(&line, promise->every_us);
    row_put(&line, promise->count);
    if (!row(ctx, line.text)) return false;
  }
  return true;
}

static enum status load_promise(struct announced *announced, const struct forest *forest, const char *text) {
  struct forecaster_promise said = {0};
  block_key end;
  if (!row_take(&text, UINT64_MAX, &said.id) || !row_take_key(&text, &end) ||
      !row_take(&text, UINT64_MAX / 4, &said.at_us) || !row_take(&text, UINT64_MAX / 4, &said.every_us) ||
      !row_take_u32(&text, &said.count) || !row_is_over(text) || said.id == 0 || said.count == 0) {
    return STATUS_INVALID;
  }
  said.node = forest_ending_in(forest, end);
  if (said.node == FOREST_NONE || said.node > announced->nodes_max) return STATUS_OK;
  if (map_get(announced->ids, map_key_of(said.id), NULL)) return STATUS_INVALID;
  return announced_announce(announced, &said, 0);
}

static enum status announced_load(void *state, const struct forest *forest, const char *text) {
  struct announced *announced = state;
  if (row_take_word(&text, "promise")) return load_promise(announced, forest, text);
  struct tally kept;
  double deviation_s;
  if (!row_take_word(&text, "kept") || !row_take_double(&text, &kept.yes) || !row_take_double(&text, &kept.no) ||
      !row_take_double(&text, &deviation_s) || !row_is_over(text)) {
    return STATUS_INVALID;
  }
  if (kept.yes < 0 || kept.no < 0 || kept.yes + kept.no > TALLY_MAX + 1 || deviation_s < 0) return STATUS_INVALID;
  announced->kept = kept;
  announced->deviation_s = number_clamp(deviation_s, 0, 3600, 5);
  return STATUS_OK;
}

const struct forecaster_ops forecaster_announced = {
    .name = "announced",
    .prior_weight = 8,
    .create = announced_create,
    .destroy = announced_destroy,
    .observe = announced_observe,
    .announce = announced_announce,
    .withdraw = announced_withdraw,
    .forget = announced_forget,
    .update = announced_update,
    .forecast = announced_forecast,
    .due = announced_due,
    .bytes = announced_bytes,
    .save = announced_save,
    .load = announced_load,
};
