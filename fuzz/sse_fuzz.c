// rooms: net
/* Server-sent events: what a client's parser joins from the data lines is what was put in, and nothing else appears. */
#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "net/sse.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct buffer out, joined;
  buffer_init(&out, 0);
  buffer_init(&joined, 0);
  if (sse_data(&out, (const char *)data, size) != STATUS_OK) goto end;
  bool is_ended = false;
  for (size_t at = 0; at < out.size;) {
    assert(!is_ended);
    size_t length = 0;
    while (at + length < out.size && out.data[at + length] != '\n' && out.data[at + length] != '\r') length++;
    assert(at + length < out.size);
    if (length == 0) {
      is_ended = true;
    } else {
      assert(length >= 6 && memcmp(out.data + at, "data: ", 6) == 0);
      if (at > 0) assert(buffer_append(&joined, "\n", 1) == STATUS_OK);
      assert(buffer_append(&joined, out.data + at + 6, length - 6) == STATUS_OK);
    }
    at += length + 1;
  }
  assert(is_ended);
  /* A carriage return ends a line too: it comes out as a line feed. */
  size_t in = 0;
  for (size_t i = 0; i < joined.size; i++, in++) {
    assert(in < size);
    bool is_break = data[in] == '\r' || data[in] == '\n';
    assert(is_break ? joined.data[i] == '\n' : joined.data[i] == data[in]);
    if (data[in] == '\r' && in + 1 < size && data[in + 1] == '\n') in++;
  }
  assert(in == size);
end:
  buffer_release(&out);
  buffer_release(&joined);
  return 0;
}
