#include "base/buffer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIZE_MAX_DEFAULT = 1 << 30, CAPACITY_MIN = 256 };

void buffer_init(struct buffer *buffer, size_t size_max) {
  *buffer = (struct buffer){.size_max = size_max > 0 ? size_max : SIZE_MAX_DEFAULT};
}

void buffer_release(struct buffer *buffer) {
  free(buffer->data);
  *buffer = (struct buffer){.size_max = buffer->size_max};
}

void buffer_clear(struct buffer *buffer) {
  buffer->size = 0;
  if (buffer->data != NULL) buffer->data[0] = 0;
}

enum status buffer_reserve(struct buffer *buffer, size_t more) {
  if (more > buffer->size_max - buffer->size) return STATUS_TOO_LONG;
  size_t needed = buffer->size + more;
  if (buffer->data != NULL && needed <= buffer->capacity) return STATUS_OK;
  size_t capacity = buffer->capacity < CAPACITY_MIN ? CAPACITY_MIN : buffer->capacity;
  while (capacity < needed) capacity *= 2;
  uint8_t *data = realloc(buffer->data, capacity + 1);
  if (data == NULL) return STATUS_NO_MEMORY;
  data[buffer->size] = 0;
  buffer->data = data;
  buffer->capacity = capacity;
  return STATUS_OK;
}

enum status buffer_append(struct buffer *buffer, const void *data, size_t size) {
  enum status status = buffer_reserve(buffer, size);
  if (status != STATUS_OK) return status;
  if (size > 0) memcpy(buffer->data + buffer->size, data, size);
  buffer->size += size;
  buffer->data[buffer->size] = 0;
  return STATUS_OK;
}

enum status buffer_append_text(struct buffer *buffer, const char *text) {
  return buffer_append(buffer, text, strlen(text));
}

enum status buffer_append_format(struct buffer *buffer, const char *format, ...) {
  va_list arguments, again;
  va_start(arguments, format);
  va_copy(again, arguments);
  int size = vsnprintf(NULL, 0, format, arguments);
  va_end(arguments);
  enum status status = size < 0 ? STATUS_INVALID : buffer_reserve(buffer, (size_t)size);
  if (status == STATUS_OK) {
    vsnprintf((char *)buffer->data + buffer->size, (size_t)size + 1, format, again);
    buffer->size += (size_t)size;
  }
  va_end(again);
  return status;
}

void buffer_consume(struct buffer *buffer, size_t size) {
  if (size > buffer->size) size = buffer->size;
  if (size == 0) return;
  memmove(buffer->data, buffer->data + size, buffer->size - size + 1);
  buffer->size -= size;
}
