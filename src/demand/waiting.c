#include "demand/waiting.h"

#include <assert.h>
#include <stdlib.h>

#include "base/heap.h"
#include "base/map.h"
#include "base/number.h"
#include "prefix/row.h"

#define EXPOSURE_MAX 4096. /* waits a curve remembers; then all its counts are halved */
#define SQRT2 1.4142135623730951

struct waiting_room {
  uint32_t waits_max, nodes_max, n_curves;
  struct waiting_curve *curves; /* [n_curves] */
  uint16_t *pools;              /* [n_curves] */
  struct wait *waits;           /* [waits_max]; name 0: free, chained by newer */
  uint32_t used, free;          /* places begun; first free place, + 1 */
  uint32_t oldest, newest;      /* places, + 1 */
  uint32_t *at_node;            /* [nodes_max + 1]: place of its wait, + 1 */
  struct map *names;            /* of those that have not come → place */
  struct heap *ends;            /* place → end of its bin, microseconds */
};

/* ── curves ── */

double waiting_bin_end_s(uint32_t bin) {
  double end = bin % 2 ? SQRT2 : 1;
  for (uint32_t i = 0; i < bin / 2; i++) end *= 2;
  return end;
}

static double bin_begin_s(uint32_t bin) {
  return bin == 0 ? 0 : waiting_bin_end_s(bin - 1);
}

void waiting_curve_init(struct waiting_curve *curve, double ever, double median_s, double sigma, double strength) {
  double before = 0;
  for (uint32_t i = 0; i < WAITING_BINS; i++) {
    double z = (number_log(waiting_bin_end_s(i)) - number_log(median_s)) / sigma;
    double after = ever * number_normal_cdf(z);
    curve->exposure[i] = strength * (1 - before);
    curve->came[i] = strength * (after > before ? after - before : 0);
    before = after;
  }
}

static void curve_count(struct waiting_curve *curve, uint32_t bin, bool has_come) {
  curve->exposure[bin] += 1;
  if (has_come) curve->came[bin] += 1;
  if (curve->exposure[bin] <= EXPOSURE_MAX) return;
  for (uint32_t i = 0; i < WAITING_BINS; i++) {
    curve->exposure[i] /= 2;
    curve->came[i] /= 2;
  }
}

/* Share of the bin's course that lies before t; hazard is even over log time, in the first bin over time. */
static double course(uint32_t bin, double t_s) {
  double begin = bin_begin_s(bin), end = waiting_bin_end_s(bin);
  if (t_s <= begin) return 0;
  if (t_s >= end) return 1;
  return bin == 0 ? t_s / end : (number_log(t_s) - number_log(begin)) / (number_log(end) - number_log(begin));
}

static double hazard_of(const struct waiting_curve *own, const struct waiting_curve *pool, double strength,
                        uint32_t bin) {
  double hazard = pool->exposure[bin] > 0 ? pool->came[bin] / pool->exposure[bin] : 0;
  if (own) {
    /* The pool speaks for as many waits as would have got this far. */
    double heard = pool->exposure[0] > 0 ? strength * pool->exposure[bin] / pool->exposure[0] : 0;
    double seen = own->exposure[bin] + heard;
    if (seen > 0) hazard = (own->came[bin] + heard * hazard) / seen;
  }
  return number_clamp(hazard, 0, .999, 0);
}

void waiting_within(const struct waiting_curve *own, const struct waiting_curve *pool, double strength, double idle_s,
                    const double *horizons_s, uint32_t n, double *ret_p) {
  uint32_t bin = 0, i = 0;
  while (bin < WAITING_BINS && waiting_bin_end_s(bin) <= idle_s) bin++;
  double log_survival = 0, from_s = idle_s;
  while (i < n) {
    double until_s = idle_s + horizons_s[i];
    bool reaches = bin >= WAITING_BINS || until_s <= waiting_bin_end_s(bin);
    if (bin < WAITING_BINS) {
      double to_s = reaches ? until_s : waiting_bin_end_s(bin);
      double share = course(bin, to_s) - course(bin, from_s);
      log_survival += share * number_log1p(-hazard_of(own, pool, strength, bin));
      from_s = to_s;
    }
    if (reaches) {
      ret_p[i++] = number_clamp(1 - number_exp(log_survival), 0, 1, 0);
    } else {
      bin++;
    }
  }
}

void waiting_curve_put(struct row *row, const struct waiting_curve *curve) {
  for (uint32_t bin = 0; bin < WAITING_BINS; bin++) {
    row_put_double(row, curve->exposure[bin]);
    row_put_double(row, curve->came[bin]);
  }
}

bool waiting_curve_take(const char **text, struct waiting_curve *ret) {
  struct waiting_curve curve;
  for (uint32_t bin = 0; bin < WAITING_BINS; bin++) {
    if (!row_take_amount(text, EXPOSURE_MAX + 1, &curve.exposure[bin])) return false;
    if (!row_take_amount(text, curve.exposure[bin], &curve.came[bin])) return false;
  }
  *ret = curve;
  return true;
}

/* ── the room ── */

enum status waiting_room_create(uint32_t waits_max, uint32_t nodes_max, uint32_t n_curves, const uint16_t *pools,
                                struct waiting_room **ret_room) {
  struct waiting_room *room = calloc(1, sizeof *room);
  if (!room) return STATUS_NO_MEMORY;
  room->waits_max = waits_max;
  room->nodes_max = nodes_max;
  room->n_curves = n_curves;
  room->curves = calloc(n_curves, sizeof *room->curves);
  room->pools = calloc(n_curves, sizeof *room->pools);
  room->waits = calloc(waits_max, sizeof *room->waits);
  room->at_node = calloc((size_t)nodes_max + 1, sizeof *room->at_node);
  enum status status = room->curves && room->pools && room->waits && room->at_node ? STATUS_OK : STATUS_NO_MEMORY;
  if (status == STATUS_OK) status = map_create(waits_max, &room->names);
  if (status == STATUS_OK) status = heap_create(&room->ends);
  if (status != STATUS_OK) {
    waiting_room_destroy(&room);
    return status;
  }
  for (uint32_t i = 0; i < n_curves; i++) room->pools[i] = pools[i];
  *ret_room = room;
  return STATUS_OK;
}

void waiting_room_destroy(struct waiting_room **room) {
  struct waiting_room *gone = *room;
  if (!gone) return;
  map_destroy(&gone->names);
  heap_destroy(&gone->ends);
  free(gone->curves);
  free(gone->pools);
  free(gone->waits);
  free(gone->at_node);
  free(gone);
  *room = NULL;
}

struct waiting_curve *waiting_room_curve(struct waiting_room *room, uint32_t i) {
  assert(i < room->n_curves);
  return &room->curves[i];
}

const struct waiting_curve *waiting_room_see(const struct waiting_room *room, uint32_t i) {
  assert(i < room->n_curves);
  return &room->curves[i];
}

static uint64_t bin_end_us(const struct wait *wait) {
  return wait->since_us + (uint64_t)(waiting_bin_end_s(wait->bin) * 1e6);
}

static void detach(struct waiting_room *room, uint32_t place) {
  struct wait *wait = &room->waits[place];
  if (wait->node && room->at_node[wait->node] == place + 1) room->at_node[wait->node] = 0;
  wait->node = 0;
  uint64_t named;
  if (map_get(room->names, map_key_of(wait->name), &named) && named == place) {
    map_remove(room->names, map_key_of(wait->name), NULL);
  }
}

static void leave(struct waiting_room *room, uint32_t place) {
  struct wait *wait = &room->waits[place];
  detach(room, place);
  heap_remove(room->ends, place);
  *(wait->older ? &room->waits[wait->older - 1].newer : &room->oldest) = wait->newer;
  *(wait->newer ? &room->waits[wait->newer - 1].older : &room->newest) = wait->older;
  *wait = (struct wait){.newer = room->free};
  room->free = place + 1;
}

static void teach(struct waiting_room *room, const struct wait *wait) {
  curve_count(&room->curves[wait->curve], wait->bin, wait->has_come);
  uint16_t pool = room->pools[wait->curve];
  if (pool < room->n_curves) curve_count(&room->curves[pool], wait->bin, wait->has_come);
}

void waiting_advance(struct waiting_room *room, uint64_t now_us) {
  uint32_t place;
  double end_us;
  while (heap_peek(room->ends, &place, &end_us) && end_us <= (double)now_us) {
    struct wait *wait = &room->waits[place];
    if (wait->teaches) teach(room, wait);
    wait->bin++;
    if (wait->has_come || wait->bin == WAITING_BINS ||
        heap_set(room->ends, place, (double)bin_end_us(wait)) != STATUS_OK) {
      leave(room, place);
    }
  }
}

static uint32_t place_take(struct waiting_room *room) {
  if (!room->free && room->used == room->waits_max) leave(room, room->oldest - 1);
  if (!room->free) return room->used++;
  uint32_t place = room->free - 1;
  room->free = room->waits[place].newer;
  return place;
}

void waiting_begin(struct waiting_room *room, uint64_t name, uint32_t node, uint16_t curve, uint32_t note,
                   uint64_t since_us, bool teaches) {
  assert(name && curve < room->n_curves);
  if (node > room->nodes_max) return;
  waiting_drop(room, name);
  uint32_t place = place_take(room);
  struct wait *wait = &room->waits[place];
  *wait =
      (struct wait){.name = name, .node = node, .note = note, .curve = curve, .teaches = teaches, .since_us = since_us};
  if (!teaches) wait->bin = WAITING_BINS - 1; /* until then it may come */
  wait->older = room->newest;
  *(room->newest ? &room->waits[room->newest - 1].newer : &room->oldest) = place + 1;
  room->newest = place + 1;
  if (node) room->at_node[node] = place + 1;
  if (map_set(room->names, map_key_of(name), place) != STATUS_OK ||
      heap_set(room->ends, place, (double)bin_end_us(wait)) != STATUS_OK) {
    leave(room, place);
  }
}

const struct wait *waiting_named(const struct waiting_room *room, uint64_t name) {
  uint64_t place;
  return name && map_get(room->names, map_key_of(name), &place) ? &room->waits[place] : NULL;
}

const struct wait *waiting_at(const struct waiting_room *room, uint32_t node) {
  uint32_t place = node <= room->nodes_max ? room->at_node[node] : 0;
  return place ? &room->waits[place - 1] : NULL;
}

void waiting_came(struct waiting_room *room, uint64_t name) {
  const struct wait *wait = waiting_named(room, name);
  if (!wait) return;
  uint32_t place = (uint32_t)(wait - room->waits);
  room->waits[place].has_come = true;
  detach(room, place);
}

void waiting_drop(struct waiting_room *room, uint64_t name) {
  const struct wait *wait = waiting_named(room, name);
  if (wait) leave(room, (uint32_t)(wait - room->waits));
}

void waiting_forget(struct waiting_room *room, uint32_t node) {
  uint32_t place = node <= room->nodes_max ? room->at_node[node] : 0;
  if (!place) return;
  room->waits[place - 1].node = 0;
  room->at_node[node] = 0;
}

size_t waiting_room_bytes(const struct waiting_room *room) {
  return sizeof *room + room->n_curves * (sizeof *room->curves + sizeof *room->pools) +
         room->waits_max * (sizeof *room->waits + sizeof(double) + 2 * sizeof(uint32_t)) +
         ((size_t)room->nodes_max + 1) * sizeof *room->at_node + map_bytes(room->names);
}

const struct wait *waiting_next(const struct waiting_room *room, const struct wait *wait) {
  uint32_t place = wait ? wait->newer : room->oldest;
  while (place && room->waits[place - 1].has_come) place = room->waits[place - 1].newer;
  return place ? &room->waits[place - 1] : NULL;
}
