#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>

const char *status_name(enum status status) {
  static const char *const names[STATUS_COUNT] = {
      [STATUS_OK] = "ok",
      [STATUS_NO_MEMORY] = "no memory",
      [STATUS_INVALID] = "invalid",
      [STATUS_NOT_FOUND] = "not found",
      [STATUS_FULL] = "full",
      [STATUS_IO] = "input or output failed",
      [STATUS_CORRUPT] = "corrupt",
      [STATUS_INCOMPATIBLE] = "incompatible",
      [STATUS_BUSY] = "busy",
      [STATUS_CANCELLED] = "cancelled",
      [STATUS_UNSUPPORTED] = "unsupported",
      [STATUS_TOO_LONG] = "too long",
      [STATUS_CLOSED] = "closed",
      [STATUS_TIMEOUT] = "timed out",
      [STATUS_DENIED] = "denied",
  };
  return (unsigned)status < STATUS_COUNT ? names[status] : "unknown";
}

enum status error_set(struct error *error, enum status status, const char *format, ...) {
  if (error != NULL) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error->text, sizeof error->text, format, arguments);
    va_end(arguments);
  }
  return status;
}
