/* One line an event on standard error: time, level, message, key=value pairs written by the caller. Never prompts,
 * tokens or keys. Used by gateway, daemon and cli only; below them errors are returned. Any thread. */
#ifndef FORELAY_OS_LOG_H
#define FORELAY_OS_LOG_H

#include <stdbool.h>

#include "base/status.h"

enum log_level { LOG_ERROR = 0, LOG_WARNING, LOG_INFO, LOG_DEBUG };

/* Lines above the level are dropped; LOG_INFO at start. */
void log_set_level(enum log_level level);
/* "error", "warning", "info", "debug"; false: none of them. */
bool log_level_of_name(const char *name, enum log_level *ret_level);
void log_line(enum log_level level, const char *format, ...) PRINTF_LIKE(2, 3);
/* The same, but at most once for each `key` (static text) in the life of the process. */
void log_once(enum log_level level, const char *key, const char *format, ...) PRINTF_LIKE(3, 4);

#endif
