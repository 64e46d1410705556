/* The random holdout: which units get no preparation, and what the difference shows. A unit is a session, else the
 * first node below the last shared branching; a shared head is a unit of its own. Whoever lies below several units is
 * treated only if none of them is withheld: propensities multiply along the path. Only units for which something was
 * planned are scored, in cohorts by decision time, all of them `horizon_us` later, withheld or not. Never draws by
 * itself: the keyed draw is handed in. One thread at a time. Owns its open records, at most units_max.
 *
 * Estimate: augmented inverse propensity weighting (Robins, Rotnitzky, Zhao 1994) of realized seconds a unit. Limits:
 * the asymptotic confidence sequence of Waudby-Smith, Arbour, Sinha, Kennedy, Ramdas (Annals of Statistics 2024), valid
 * at all times together as counts grow, not for few units: nothing is reported below HOLDOUT_UNITS_MIN in each arm. */
#ifndef FORELAY_LEDGER_HOLDOUT_H
#define FORELAY_LEDGER_HOLDOUT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

enum { HOLDOUT_PATH_MAX = 4, HOLDOUT_UNITS_MIN = 8 };

struct holdout_config {
  double share;                                                /* h, 0 … .5 of units withheld */
  double (*draw)(void *draw_ctx, uint64_t unit, uint32_t day); /* uniform in [0, 1), the same every time */
  void *draw_ctx;
  uint64_t horizon_us; /* ≥ 1: from decision to scoring */
  uint32_t units_max;  /* ≥ 1: open records; past it new units are treated alike but not scored */
  double confidence;   /* of the interval, e.g. .95 */
};

struct holdout;

/* STATUS_INVALID for numbers out of range. */
MUST_USE enum status holdout_create(const struct holdout_config *config, struct holdout **ret_holdout);
void holdout_destroy(struct holdout **holdout);

struct holdout_verdict {
  bool is_withheld;
  double propensity; /* of being treated, > 0 */
};
/* units[n], from the root down, n ≤ HOLDOUT_PATH_MAX; equal neighbours count once. The day is that of now_us (UTC). */
struct holdout_verdict holdout_draw(const struct holdout *holdout, const uint64_t *units, uint32_t n, uint64_t now_us);

/* Something was planned for the unit (the deepest of its path). expected_seconds: outcome model of the treated arm;
 * that of the withheld arm is 0, as its requests should do what the shadow does. A unit with an open record keeps it,
 * with the expectations added up. STATUS_FULL: not scored. */
MUST_USE enum status holdout_plan(struct holdout *holdout, uint64_t unit, struct holdout_verdict verdict,
                                  double expected_seconds, uint64_t now_us);
/* A request of the unit brought this against the shadow; ignored where nothing is open. */
void holdout_observe(struct holdout *holdout, uint64_t unit, double realized_seconds);
/* Scores every record whose time has come. */
void holdout_settle(struct holdout *holdout, uint64_t now_us);
/* When the next record is due; UINT64_MAX: none. */
uint64_t holdout_due_us(const struct holdout *holdout);

struct holdout_estimate {
  uint64_t treated, withheld; /* units scored */
  double effect_seconds;      /* of preparation, a unit; 0 like its limits while too few */
  double lower_seconds, upper_seconds;
};
struct holdout_estimate holdout_estimate(const struct holdout *holdout);

#endif
