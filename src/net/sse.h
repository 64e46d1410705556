/* Server-sent events as text. Pure; any thread. */
#ifndef FORELAY_NET_SSE_H
#define FORELAY_NET_SSE_H

#include <stddef.h>

#include "base/buffer.h"
#include "base/status.h"

/* Appends `data: …` and an empty line; line breaks inside become further data lines. */
MUST_USE enum status sse_data(struct buffer *into, const char *data, size_t size);
/* Appends a comment, which clients skip. */
MUST_USE enum status sse_comment(struct buffer *into, const char *text);

#endif
