/* Signals as something a loop can wait for. Main thread, before any other thread is started. */
#ifndef FORELAY_OS_SIGNAL_H
#define FORELAY_OS_SIGNAL_H

#include "base/status.h"

/* SIGTERM and SIGINT are blocked in this and all later threads and readable from *ret_fd instead; SIGPIPE is ignored.
 */
MUST_USE enum status signal_open(int *ret_fd, struct error *error);
/* The number of the next signal waiting in fd, 0: none. */
int signal_next(int fd);
void signal_close(int fd);

#endif
