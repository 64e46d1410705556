#include "net/sse.h"

#include <string.h>

enum status sse_data(struct buffer *into, const char *data, size_t size) {
  size_t begin = into->size;
  enum status status = STATUS_OK;
  for (size_t at = 0; status == STATUS_OK;) {
    const char *line_end = size > at ? memchr(data + at, '\n', size - at) : NULL;
    size_t length = line_end != NULL ? (size_t)(line_end - data) - at : size - at;
    status = buffer_append(into, "data: ", 6);
    if (status == STATUS_OK) status = buffer_append(into, data + at, length);
    if (status == STATUS_OK) status = buffer_append(into, "\n", 1);
    if (line_end == NULL) break;
    at += length + 1;
  }
  if (status == STATUS_OK) status = buffer_append(into, "\n", 1);
  if (status != STATUS_OK && into->data != NULL) {
    into->size = begin;
    into->data[begin] = 0;
  }
  return status;
}

enum status sse_comment(struct buffer *into, const char *text) {
  return buffer_append_format(into, ": %s\n\n", text);
}
