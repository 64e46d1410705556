/* The result of every call that can fail, and the caller-owned text that explains it.
 * Never logs, never allocates. Any thread. Owns nothing. */
#ifndef FORELAY_BASE_STATUS_H
#define FORELAY_BASE_STATUS_H

#define MUST_USE __attribute__((warn_unused_result))
#define PRINTF_LIKE(fmt, args) __attribute__((format(printf, fmt, args)))

enum status {
  STATUS_OK = 0,
  STATUS_NO_MEMORY,    /* an allocation failed; nothing changed */
  STATUS_INVALID,      /* the caller's data is wrong: say where and what */
  STATUS_NOT_FOUND,    /* nothing under that name */
  STATUS_FULL,         /* a configured limit is reached; nothing changed */
  STATUS_IO,           /* the operating system refused */
  STATUS_CORRUPT,      /* bytes are not what was written */
  STATUS_INCOMPATIBLE, /* whole, but made by or for something else */
  STATUS_BUSY,         /* in use; try again after an event */
  STATUS_CANCELLED,    /* its owner withdrew it */
  STATUS_UNSUPPORTED,  /* this engine, tier or build cannot do it */
  STATUS_TOO_LONG,     /* more tokens or bytes than fit at all */
  STATUS_CLOSED,       /* the other side is gone */
  STATUS_TIMEOUT,      /* a deadline passed */
  STATUS_DENIED,       /* not yours */
  STATUS_COUNT
};

/* Detail of one failure: one line, says what, where, and what to do. */
struct error {
  char text[320]; /* NUL-terminated; empty when nothing was said */
};

/* Short lower-case name ("no memory"); static storage. */
const char *status_name(enum status status);

/* Writes the detail and returns `status`, so that a failure is one line. `error` may be NULL. */
enum status error_set(struct error *error, enum status status, const char *format, ...) PRINTF_LIKE(3, 4);

#endif
