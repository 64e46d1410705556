/* A table of a program's options: parsing, defaults, and the three forms in which they are described (text for --help,
 * a sample configuration, JSON), all from the same rows. Pure; any thread. Texts in the settings are owned by them. */
#ifndef FORELAY_BASE_OPTION_H
#define FORELAY_BASE_OPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/status.h"

enum option_type {
  OPTION_FLAG,     /* bool: true false on off yes no */
  OPTION_COUNT,    /* uint32_t */
  OPTION_SIZE,     /* uint64_t bytes: 4096, 64KiB, 1.5GiB */
  OPTION_DURATION, /* uint64_t microseconds: 500ms, 30s, 5min, 2h; a plain number is seconds */
  OPTION_NUMBER,   /* double */
  OPTION_TEXT,     /* char *, NULL: not given */
  OPTION_CHOICE    /* uint32_t: index into choices */
};

struct option {
  const char *name; /* as on the command line, without dashes */
  enum option_type type;
  const char *argument;       /* what --help shows for the value: "SIZE" */
  const char *fallback;       /* default as text; NULL: none */
  double min, max;            /* of COUNT, SIZE, DURATION (seconds), NUMBER; both 0: not checked */
  const char *const *choices; /* CHOICE: ends with NULL */
  size_t offset;              /* of the value in the settings */
  const char *help;           /* one line */
  const char *fallback_text;  /* how the default is described where it is computed; NULL: `fallback` */
};

/* Zeroes nothing: sets every value that has a default. The settings must be zeroed before. STATUS_NO_MEMORY. */
MUST_USE enum status option_set_defaults(const struct option *options, size_t n, void *settings, struct error *error);
/* Frees texts. */
void option_release(const struct option *options, size_t n, void *settings);
/* NULL: there is no such option. */
const struct option *option_find(const struct option *options, size_t n, const char *name);
/* STATUS_INVALID: `error` names the option, the text and what is allowed; the value is unchanged. */
MUST_USE enum status option_set(const struct option *option, void *settings, const char *text, struct error *error);

/* Appended: one line an option, for people. */
MUST_USE enum status option_describe_text(const struct option *options, size_t n, struct buffer *into);
/* A configuration file with every default, commented out. */
MUST_USE enum status option_describe_yaml(const struct option *options, size_t n, struct buffer *into);
MUST_USE enum status option_describe_json(const struct option *options, size_t n, struct buffer *into);

/* The parsers by themselves. STATUS_INVALID. */
MUST_USE enum status option_parse_size(const char *text, uint64_t *ret_bytes);
MUST_USE enum status option_parse_duration(const char *text, uint64_t *ret_us);
/* A decimal number and nothing else. */
MUST_USE enum status option_parse_number(const char *text, double *ret_number);

#endif
