#include "domain/price.h"

/* A small rented machine; a person's waiting second at 3.60 USD an hour of patience; household electricity. */
void price_init(struct price *price, enum price_profile profile) {
  *price = (struct price){.profile = profile,
                          .compute_usd_per_s = 0.10 / 3600,
                          .wait_usd_per_s = 0.001,
                          .energy_usd_per_kwh = 0.30,
                          .watts = 30,
                          .is_default = true};
}

double price_of_speculative_second(const struct price *price) {
  double energy = price->watts * price->energy_usd_per_kwh / 3.6e6;
  switch (price->profile) {
  case PRICE_OWNED:
    return energy;
  case PRICE_HOURLY:
    return 0;
  case PRICE_PER_SECOND:
    return price->compute_usd_per_s;
  }
  return energy;
}
