/* Turns the bytes of sampled tokens into text that may be shown: whole UTF-8 characters only (broken ones become
 * U+FFFD), and nothing of a stop text, even when it arrives in parts. Pure; one thread at a time. Owns its copies. */
#ifndef FORELAY_ENGINE_TRANSCRIPT_H
#define FORELAY_ENGINE_TRANSCRIPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/status.h"

enum { TRANSCRIPT_STOPS_MAX = 8, TRANSCRIPT_STOP_SIZE_MAX = 128, TRANSCRIPT_NO_STOP = UINT32_MAX };

struct transcript {
  uint32_t n_stops;
  uint8_t stop_sizes[TRANSCRIPT_STOPS_MAX];
  char stops[TRANSCRIPT_STOPS_MAX][TRANSCRIPT_STOP_SIZE_MAX];
  uint8_t partial[4]; /* bytes of a character that is not complete yet */
  uint8_t partial_size;
  struct buffer held; /* whole characters that may begin a stop text */
};

/* stops[n_stops], each 1 … TRANSCRIPT_STOP_SIZE_MAX bytes; STATUS_INVALID where one is not, or where there are too
 * many. */
MUST_USE enum status transcript_init(struct transcript *transcript, const char *const *stops, uint32_t n_stops);
void transcript_release(struct transcript *transcript);

/* Takes the bytes of one token and appends to `text` what may be shown now. *ret_stop is the stop text that is complete
 * (the one that begins first; TRANSCRIPT_NO_STOP while there is none): `text` then ends before it. */
MUST_USE enum status transcript_feed(struct transcript *transcript, const char *piece, size_t size, struct buffer *text,
                                     uint32_t *ret_stop);
/* The answer has ended without a stop text: appends what was held back. */
MUST_USE enum status transcript_finish(struct transcript *transcript, struct buffer *text);

#endif
