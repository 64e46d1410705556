/* The two disk threads of a depot and what goes over them: segments from disk to RAM and from RAM to disk. A thread for
 * each direction, so that a request's reads never stand behind writes. Loop thread; what is public of it is in depot.h.
 */
#ifndef FORELAY_STORE_TRAFFIC_H
#define FORELAY_STORE_TRAFFIC_H

#include "base/status.h"

struct depot;

/* Once, on a depot whose tiers are open. */
MUST_USE enum status traffic_open(struct depot *depot);
/* Waits for the job each thread is in the middle of; those behind it are cancelled. Also after a failed traffic_open,
 * or none. */
void traffic_close(struct depot *depot);

#endif
