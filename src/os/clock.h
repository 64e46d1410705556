/* The two clocks. Deciding rooms never call them: time is handed in. Any thread. */
#ifndef FORELAY_OS_CLOCK_H
#define FORELAY_OS_CLOCK_H

#include <stdint.h>

/* Microseconds that never go back; only differences mean anything. */
uint64_t clock_monotonic_us(void);
/* Unix microseconds. */
uint64_t clock_unix_us(void);

#endif
