/* What this machine, or the control group this process lives in, has. Reads /proc and /sys; any thread. */
#ifndef FORELAY_OS_MEMORY_H
#define FORELAY_OS_MEMORY_H

#include <stdint.h>

/* Bytes of memory this process may use at most: the machine's, or the control group's limit where that is lower. */
uint64_t memory_total_bytes(void);
/* Bytes resident now. */
uint64_t memory_resident_bytes(void);
/* Physical cores, not hardware threads; at least 1, at most what the process may run on. */
uint32_t memory_cores(void);

#endif
