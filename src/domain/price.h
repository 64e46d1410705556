/* Prices and budgets: what the arithmetic of decisions is done in. Plain data; any thread. */
#ifndef FORELAY_DOMAIN_PRICE_H
#define FORELAY_DOMAIN_PRICE_H

#include <stdbool.h>
#include <stdint.h>

enum price_profile { PRICE_OWNED = 0, PRICE_HOURLY, PRICE_PER_SECOND };

struct price {
  enum price_profile profile; /* owned: idle seconds free, joules priced; hourly: both free; per-second: seconds cost */
  double compute_usd_per_s;   /* of engine time where it scales with use */
  double wait_usd_per_s;      /* worth of one second a user does not wait */
  double energy_usd_per_kwh;
  double watts;    /* drawn while computing, above idle */
  bool is_default; /* nobody configured these */
};

/* The defaults of DESIGN section 6 for the profile, marked as defaults. */
void price_init(struct price *price, enum price_profile profile);
/* Cash cost of one speculative engine second under the profile, in USD: compute where it scales, plus energy where
 * priced. */
double price_of_speculative_second(const struct price *price);

/* Hard limits. 0 means none of that resource. */
struct budget {
  uint64_t device_bytes; /* KV of the engine's own sequences */
  uint64_t ram_bytes;
  uint64_t ssd_bytes;
  uint64_t ssd_writes_bytes_per_day;
  double idle_fraction_max; /* share of engine time speculation may take when nobody waits, 0 … 1 */
  double money_usd_per_day; /* spending cap of preparation; the account of DESIGN section 6 starts at 0.5 % of a day's
                               compute */
  double joules_per_day;    /* 0: no cap */
};

#endif
