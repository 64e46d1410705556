/* How long something awaited takes, when it comes at all: hazards over bins of growing width, learned from waits that
 * are over and from those still open alike (the Kaplan-Meier estimator, online). Both the waits that came in a bin and
 * those that outlived it are counted at the end of that bin, so that early comers do not make everybody look early.
 * Knows no forest; nodes are numbers here. Pure; owns its waits. */
#ifndef FORELAY_DEMAND_WAITING_H
#define FORELAY_DEMAND_WAITING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

struct row;

enum { WAITING_BINS = 36 }; /* [0, 1 s), then each √2 wider than the one before, up to two days */

struct waiting_curve {
  double exposure[WAITING_BINS]; /* waits that began the bin, ≥ came */
  double came[WAITING_BINS];     /* of those, that came in it */
};

/* Counts as if `strength` waits had been seen of which the share `ever` comes at all, log-normally around the median.
 */
void waiting_curve_init(struct waiting_curve *curve, double ever, double median_s, double sigma, double strength);
/* P(it comes within horizons_s[i] | it has not within idle_s), n horizons ascending, each in [0, 1], non-decreasing.
 * `own` (may be NULL) counts for as much as it has seen, against `strength` waits of `pool`. */
void waiting_within(const struct waiting_curve *own, const struct waiting_curve *pool, double strength, double idle_s,
                    const double *horizons_s, uint32_t n, double *ret_p);
double waiting_bin_end_s(uint32_t bin);
/* As fields of a row; taking leaves *ret untouched and *text anywhere on failure. */
void waiting_curve_put(struct row *row, const struct waiting_curve *curve);
bool waiting_curve_take(const char **text, struct waiting_curve *ret);

/* ── open waits ── */
struct waiting_room;

struct wait {
  uint64_t name;  /* > 0: a session, a document */
  uint32_t node;  /* 0: it lost its node */
  uint32_t note;  /* the caller's: a turn */
  uint16_t curve; /* it teaches */
  uint16_t bin;   /* it is in */
  bool has_come;  /* in that bin: counted when the bin ends */
  bool teaches;   /* false: from before a restart, what happened meanwhile is not known */
  uint64_t since_us;
  uint32_t older, newer; /* by beginning; places, + 1 */
};

/* pools[n_curves]: the curve that is taught along with curve i, ≥ n_curves for none. Copied. */
MUST_USE enum status waiting_room_create(uint32_t waits_max, uint32_t nodes_max, uint32_t n_curves,
                                         const uint16_t *pools, struct waiting_room **ret_room);
void waiting_room_destroy(struct waiting_room **room);
/* i < n_curves. The caller may set it. */
struct waiting_curve *waiting_room_curve(struct waiting_room *room, uint32_t i);
const struct waiting_curve *waiting_room_see(const struct waiting_room *room, uint32_t i);

/* Lets time pass. Call before any of the below with the same time. */
void waiting_advance(struct waiting_room *room, uint64_t now_us);
/* An open wait of the same name ends untaught from here; the oldest makes room where waits_max are open. Without memory
 * nothing is waited for, nor for a node > nodes_max. */
void waiting_begin(struct waiting_room *room, uint64_t name, uint32_t node, uint16_t curve, uint32_t note,
                   uint64_t since_us, bool teaches);
/* NULL when nobody of this name is waited for. Borrowed until the next call that changes the room. */
const struct wait *waiting_named(const struct waiting_room *room, uint64_t name);
/* The last wait that began at this node and is still open, else NULL. */
const struct wait *waiting_at(const struct waiting_room *room, uint32_t node);
void waiting_came(struct waiting_room *room, uint64_t name);
void waiting_drop(struct waiting_room *room, uint64_t name);
/* The node is no more; its wait goes on without it. */
void waiting_forget(struct waiting_room *room, uint32_t node);
size_t waiting_room_bytes(const struct waiting_room *room);
/* Open waits that have not come, oldest first: start with NULL, ends with it. */
const struct wait *waiting_next(const struct waiting_room *room, const struct wait *wait);

#endif
