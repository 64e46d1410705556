#include "demand/forecaster.h"

extern const struct forecaster_ops forecaster_continuation, forecaster_rate, forecaster_periodic, forecaster_announced,
    forecaster_unread;

/* Their order breaks ties. */
static const struct forecaster_ops *const registry[] = {
    &forecaster_announced, &forecaster_periodic, &forecaster_continuation, &forecaster_unread, &forecaster_rate,
};

const struct forecaster_ops *forecaster_at(uint32_t i) {
  return i < sizeof registry / sizeof registry[0] ? registry[i] : NULL;
}
