/* Distance of two moments. Plain arithmetic. */
#ifndef FORELAY_DEMAND_SPAN_H
#define FORELAY_DEMAND_SPAN_H

#include <stdint.h>

/* Seconds from one to the other; 0 when it is not later. */
static inline double span_s(uint64_t from_us, uint64_t to_us) {
  return to_us > from_us ? (double)(to_us - from_us) / 1e6 : 0;
}

#endif
