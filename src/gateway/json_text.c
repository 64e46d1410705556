#include "gateway/json_text.h"

#include <stdint.h>
#include <string.h>

size_t json_text_character(const char *text, size_t size) {
  if (size == 0) return 0;
  const uint8_t *bytes = (const uint8_t *)text;
  uint8_t first = bytes[0];
  if (first < 0x80) return 1;
  size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || length > size) return 0;
  for (size_t i = 1; i < length; i++) {
    if ((bytes[i] & 0xc0) != 0x80) return 0;
  }
  if (first == 0xe0 && bytes[1] < 0xa0) return 0;  /* overlong */
  if (first == 0xed && bytes[1] >= 0xa0) return 0; /* surrogates */
  if (first == 0xf0 && bytes[1] < 0x90) return 0;  /* overlong */
  if (first == 0xf4 && bytes[1] >= 0x90) return 0; /* above U+10FFFF */
  return length;
}

static enum status text_escape(struct buffer *into, unsigned char c) {
  switch (c) {
  case '"':
    return buffer_append(into, "\\\"", 2);
  case '\\':
    return buffer_append(into, "\\\\", 2);
  case '\n':
    return buffer_append(into, "\\n", 2);
  case '\r':
    return buffer_append(into, "\\r", 2);
  case '\t':
    return buffer_append(into, "\\t", 2);
  default:
    return buffer_append_format(into, "\\u%04x", (unsigned)c);
  }
}

enum status json_text_append(struct buffer *into, const char *text, size_t size) {
  enum status status = buffer_append(into, "\"", 1);
  size_t plain = 0; /* text[plain, at) is copied as it is */
  size_t at = 0;
  while (status == STATUS_OK && at < size) {
    unsigned char c = (unsigned char)text[at];
    size_t length = json_text_character(text + at, size - at);
    if (length > 0 && c >= 0x20 && c != '"' && c != '\\' && c != 0x7f) {
      at += length;
      continue;
    }
    status = buffer_append(into, text + plain, at - plain);
    if (status == STATUS_OK) {
      status = length == 0 ? buffer_append(into, "\xef\xbf\xbd", 3) : text_escape(into, c);
    }
    plain = ++at;
  }
  if (status == STATUS_OK) status = buffer_append(into, text + plain, at - plain);
  if (status == STATUS_OK) status = buffer_append(into, "\"", 1);
  return status;
}

void json_text_clean(char *text) {
  size_t size = strlen(text);
  for (size_t at = 0; at < size;) {
    size_t length = json_text_character(text + at, size - at);
    if (length == 0) {
      text[at++] = '?';
      continue;
    }
    if (length == 1 && ((unsigned char)text[at] < 0x20 || text[at] == 0x7f)) text[at] = ' ';
    at += length;
  }
}

/* json[at] is a quote; the index behind the closing one, or size. */
static size_t string_end(const char *json, size_t size, size_t at) {
  for (at++; at < size; at++) {
    if (json[at] == '\\') {
      at++;
    } else if (json[at] == '"') {
      return at + 1;
    }
  }
  return size;
}

size_t json_text_depth(const char *json, size_t size, size_t depth_max) {
  size_t depth = 0, deepest = 0;
  for (size_t at = 0; at < size;) {
    char c = json[at];
    if (c == '"') {
      at = string_end(json, size, at);
      continue;
    }
    if (c == '[' || c == '{') {
      if (++depth > deepest) deepest = depth;
      if (deepest > depth_max) return deepest;
    } else if ((c == ']' || c == '}') && depth > 0) {
      depth--;
    }
    at++;
  }
  return deepest;
}

static size_t space_end(const char *json, size_t size, size_t at) {
  while (at < size && (json[at] == ' ' || json[at] == '\t' || json[at] == '\n' || json[at] == '\r')) at++;
  return at;
}

/* The index behind the value that begins at json[at]. */
static size_t value_end(const char *json, size_t size, size_t at) {
  size_t depth = 0;
  while (at < size) {
    char c = json[at];
    if (c == '"') {
      at = string_end(json, size, at);
      if (depth == 0) return at;
      continue;
    }
    if (c == '[' || c == '{') {
      depth++;
    } else if (c == ']' || c == '}') {
      if (depth == 0) return at;
      if (--depth == 0) return at + 1;
    } else if (depth == 0 && (c == ',' || c == ' ' || c == '\t' || c == '\n' || c == '\r')) {
      return at;
    }
    at++;
  }
  return at;
}

bool json_text_member(const char *json, size_t size, const char *name, const char **ret_value, size_t *ret_size) {
  size_t name_size = strlen(name);
  bool is_found = false;
  size_t at = space_end(json, size, 0);
  if (at >= size || json[at] != '{') return false;
  at++;
  while (at < size) {
    at = space_end(json, size, at);
    if (at >= size || json[at] != '"') break;
    size_t key = at + 1;
    at = string_end(json, size, at);
    bool is_it = at >= key + 1 && at - 1 - key == name_size && memcmp(json + key, name, name_size) == 0;
    at = space_end(json, size, at);
    if (at >= size || json[at] != ':') break;
    size_t value = space_end(json, size, at + 1);
    at = value_end(json, size, value);
    if (is_it) {
      *ret_value = json + value;
      *ret_size = at - value;
      is_found = true;
    }
    at = space_end(json, size, at);
    if (at >= size || json[at] != ',') break;
    at++;
  }
  return is_found;
}
