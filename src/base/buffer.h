/* A growable run of bytes with a hard limit. Never shrinks by itself. One thread at a time. Owns its bytes. */
#ifndef FORELAY_BASE_BUFFER_H
#define FORELAY_BASE_BUFFER_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

struct buffer {
  uint8_t *data; /* NULL until the first byte; data[size] is always 0 once allocated, so text can be read as a string */
  size_t size;   /* bytes in use */
  size_t capacity; /* bytes allocated, the closing 0 not counted */
  size_t size_max; /* hard limit of size */
};

/* In place; allocates nothing. size_max 0 means 1 GiB. */
void buffer_init(struct buffer *buffer, size_t size_max);
void buffer_release(struct buffer *buffer);
void buffer_clear(struct buffer *buffer);
/* All of these leave the content untouched on failure: STATUS_NO_MEMORY, STATUS_TOO_LONG. */
MUST_USE enum status buffer_reserve(struct buffer *buffer, size_t more);
MUST_USE enum status buffer_append(struct buffer *buffer, const void *data, size_t size);
MUST_USE enum status buffer_append_text(struct buffer *buffer, const char *text);
MUST_USE enum status buffer_append_format(struct buffer *buffer, const char *format, ...) PRINTF_LIKE(2, 3);
/* Removes the first `size` bytes (at most all). */
void buffer_consume(struct buffer *buffer, size_t size);

#endif
