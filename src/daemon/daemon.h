/* The program that serves: composes all rooms, runs the loop until SIGTERM or SIGINT, then drains, saves and ends. */
#ifndef FORELAY_DAEMON_DAEMON_H
#define FORELAY_DAEMON_DAEMON_H

#include "base/status.h"
#include "daemon/settings.h"

/* Blocks until the program should end. STATUS_OK after a clean stop; otherwise `error` is one line that says what was
 * wrong and what to do, and everything opened so far is closed again. Main thread, before any other thread exists. */
MUST_USE enum status daemon_run(const struct settings *settings, struct error *error);

#endif
