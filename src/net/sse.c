#include "net/sse.h"

/* Bytes before the next line break: CR, LF or CRLF in an event stream. */
static size_t line_length(const char *data, size_t size) {
  size_t length = 0;
  while (length < size && data[length] != '\n' && data[length] != '\r') length++;
  return length;
}

enum status sse_data(struct buffer *into, const char *data, size_t size) {
  size_t begin = into->size;
  enum status status = STATUS_OK;
  for (size_t at = 0; status == STATUS_OK;) {
    size_t length = line_length(data + at, size - at);
    status = buffer_append(into, "data: ", 6);
    if (status == STATUS_OK) status = buffer_append(into, data + at, length);
    if (status == STATUS_OK) status = buffer_append(into, "\n", 1);
    at += length;
    if (at == size) break;
    at += data[at] == '\r' && at + 1 < size && data[at + 1] == '\n' ? 2 : 1;
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
