#include "engine/transcript.h"

#include <assert.h>
#include <string.h>

static const char REPLACEMENT[] = "\xEF\xBF\xBD"; /* U+FFFD */

enum status transcript_init(struct transcript *transcript, const char *const *stops, uint32_t n_stops) {
  *transcript = (struct transcript){0};
  if (n_stops > TRANSCRIPT_STOPS_MAX) {
    return STATUS_INVALID;
  }
  for (uint32_t i = 0; i < n_stops; i++) {
    size_t size = strnlen(stops[i], TRANSCRIPT_STOP_SIZE_MAX + 1);

    if (size == 0 || size > TRANSCRIPT_STOP_SIZE_MAX) {
      return STATUS_INVALID;
    }
    memcpy(transcript->stops[i], stops[i], size);
    transcript->stop_sizes[i] = (uint8_t)size;
  }
  transcript->n_stops = n_stops;
  buffer_init(&transcript->held, 0);
  return STATUS_OK;
}

void transcript_release(struct transcript *transcript) {
  buffer_release(&transcript->held);
}

/* How many bytes a character has that begins with `lead`; 0 where none does. */
static size_t character_size(uint8_t lead) {
  if (lead < 0x80) {
    return 1;
  }
  if (lead >= 0xC2 && lead <= 0xDF) {
    return 2;
  }
  if (lead >= 0xE0 && lead <= 0xEF) {
    return 3;
  }
  return lead >= 0xF0 && lead <= 0xF4 ? 4 : 0;
}

/* Whether `byte` may follow at `index` of a character beginning with `lead` (Unicode 15, table 3-7). */
static bool may_follow(uint8_t lead, size_t index, uint8_t byte) {
  uint8_t low = 0x80, high = 0xBF;

  if (index == 1) {
    low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : low;
    high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : high;
  }
  return byte >= low && byte <= high;
}

static enum status take_byte(struct transcript *transcript, uint8_t byte) {
  size_t size;

  if (transcript->partial_size > 0) {
    if (may_follow(transcript->partial[0], transcript->partial_size, byte)) {
      transcript->partial[transcript->partial_size++] = byte;
      size = character_size(transcript->partial[0]);
      if (transcript->partial_size < size) {
        return STATUS_OK;
      }
      transcript->partial_size = 0;
      return buffer_append(&transcript->held, transcript->partial, size);
    }
    transcript->partial_size = 0;
    if (buffer_append_text(&transcript->held, REPLACEMENT) != STATUS_OK) {
      return STATUS_NO_MEMORY;
    }
  }
  size = character_size(byte);
  if (size == 0) {
    return buffer_append_text(&transcript->held, REPLACEMENT);
  }
  if (size == 1) {
    return buffer_append(&transcript->held, &byte, 1);
  }
  transcript->partial[0] = byte;
  transcript->partial_size = 1;
  return STATUS_OK;
}

/* Where the first stop text begins in what is held; false where none is complete. */
static bool find_stop(const struct transcript *transcript, uint32_t *ret_stop, size_t *ret_at) {
  bool is_found = false;

  for (uint32_t i = 0; i < transcript->n_stops && transcript->held.size > 0; i++) {
    const uint8_t *at =
        memmem(transcript->held.data, transcript->held.size, transcript->stops[i], transcript->stop_sizes[i]);

    if (at != NULL && (!is_found || (size_t)(at - transcript->held.data) < *ret_at)) {
      *ret_at = (size_t)(at - transcript->held.data);
      *ret_stop = i;
      is_found = true;
    }
  }
  return is_found;
}

/* Length of the longest end of what is held that begins a stop text. */
static size_t suspect_size(const struct transcript *transcript) {
  size_t longest = 0;

  for (uint32_t i = 0; i < transcript->n_stops; i++) {
    size_t size = transcript->stop_sizes[i] - 1U;

    if (size > transcript->held.size) {
      size = transcript->held.size;
    }
    for (; size > longest; size--) {
      if (memcmp(transcript->held.data + transcript->held.size - size, transcript->stops[i], size) == 0) {
        longest = size;
      }
    }
  }
  return longest;
}

static enum status show(struct transcript *transcript, size_t size, struct buffer *text) {
  enum status status;

  if (size == 0) {
    return STATUS_OK;
  }
  status = buffer_append(text, transcript->held.data, size);
  if (status == STATUS_OK) {
    buffer_consume(&transcript->held, size);
  }
  return status;
}

enum status transcript_feed(struct transcript *transcript, const char *piece, size_t size, struct buffer *text,
                            uint32_t *ret_stop) {
  uint32_t stop = TRANSCRIPT_NO_STOP;
  size_t at = 0;
  enum status status;

  for (size_t i = 0; i < size; i++) {
    status = take_byte(transcript, (uint8_t)piece[i]);
    if (status != STATUS_OK) {
      return status;
    }
  }
  if (!find_stop(transcript, &stop, &at)) {
    at = transcript->held.size - suspect_size(transcript);
  }
  status = show(transcript, at, text);
  if (status == STATUS_OK) {
    *ret_stop = stop;
  }
  return status;
}

enum status transcript_finish(struct transcript *transcript, struct buffer *text) {
  if (transcript->partial_size > 0) {
    transcript->partial_size = 0;
    if (buffer_append_text(&transcript->held, REPLACEMENT) != STATUS_OK) {
      return STATUS_NO_MEMORY;
    }
  }
  return show(transcript, transcript->held.size, text);
}
