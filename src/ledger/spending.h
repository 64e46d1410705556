/* The guard on spending. An account in one unit (engine seconds, or money) starts with a grant, earns what it is told
 * to earn, and is capped. Committing takes the whole booked amount out; settling puts back what was booked, plus the
 * signed net. Nothing is committed that the account cannot cover, so that the sum of all losses is at most the grant
 * plus what was earned, on every path, whatever the forecasts said:
 *
 *   balance = grant + earned + Σ settled net − Σ open bookings − (what the cap cut off) ≥ 0
 *
 * provided that no loss exceeds its booking; spending_settle cuts a larger loss off and counts it in overrun, which the
 * caller keeps at 0 by cancelling work that exceeds its booking. Plain data, in place; one thread at a time. */
#ifndef FORELAY_LEDGER_SPENDING_H
#define FORELAY_LEDGER_SPENDING_H

#include <stdbool.h>

struct spending {
  double balance; /* ≥ 0, ≤ cap */
  double cap;
  double grant;   /* at the start */
  double earned;  /* so far, before the cap */
  double booked;  /* of open commitments, ≥ 0 */
  double settled; /* Σ of signed net */
  double overrun; /* Σ of losses beyond their booking */
};

/* grant and cap: finite, ≥ 0; the balance starts at the smaller of them. */
void spending_init(struct spending *spending, double grant, double cap);
/* amounts that are not finite or not positive change nothing. */
void spending_earn(struct spending *spending, double amount);
bool spending_can_commit(const struct spending *spending, double amount);
/* false: not covered, nothing changed. amount ≥ 0; NaN and infinity are refused. */
bool spending_commit(struct spending *spending, double amount);
/* Ends a commitment of `amount` with its net result (negative: a loss; NaN counts as the loss of all of it). */
void spending_settle(struct spending *spending, double amount, double net);
/* Restores balance of an earlier life; out of range values are cut to [0, cap]. */
void spending_restore(struct spending *spending, double balance);

#endif
