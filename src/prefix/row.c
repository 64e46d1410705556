#include "prefix/row.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/number.h"

void row_begin(struct row *row, const char *word) {
  int size = snprintf(row->text, sizeof row->text, "%s", word);
  assert(size > 0 && (size_t)size < sizeof row->text);
  row->size = (size_t)size;
}

void row_put(struct row *row, uint64_t number) {
  int size = snprintf(row->text + row->size, sizeof row->text - row->size, " %" PRIx64, number);
  assert(size > 0 && row->size + (size_t)size < sizeof row->text);
  row->size += (size_t)size;
}

void row_put_key(struct row *row, block_key key) {
  row_put(row, key.hi);
  row_put(row, key.lo);
}

void row_put_double(struct row *row, double number) {
  uint64_t bits;
  memcpy(&bits, &number, sizeof bits);
  row_put(row, bits);
}

bool row_take_word(const char **text, const char *word) {
  size_t size = strlen(word);
  if (strncmp(*text, word, size) != 0 || ((*text)[size] != ' ' && (*text)[size] != '\0')) return false;
  *text += size;
  return true;
}

static int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool row_take(const char **text, uint64_t max, uint64_t *ret_number) {
  const char *at = *text;
  if (*at++ != ' ') return false;
  uint64_t number = 0;
  int digits = 0;
  for (; digit_of(*at) >= 0; at++, digits++) number = number << 4 | (uint64_t)digit_of(*at);
  if (digits == 0 || digits > 16 || number > max || (*at != ' ' && *at != '\0')) return false;
  *ret_number = number;
  *text = at;
  return true;
}

bool row_take_u32(const char **text, uint32_t *ret_number) {
  uint64_t number;
  if (!row_take(text, UINT32_MAX, &number)) return false;
  *ret_number = (uint32_t)number;
  return true;
}

bool row_take_key(const char **text, block_key *ret_key) {
  const char *at = *text;
  block_key key;
  if (!row_take(&at, UINT64_MAX, &key.hi) || !row_take(&at, UINT64_MAX, &key.lo)) return false;
  *ret_key = key;
  *text = at;
  return true;
}

bool row_take_double(const char **text, double *ret_number) {
  const char *at = *text;
  uint64_t bits;
  double number;
  if (!row_take(&at, UINT64_MAX, &bits)) return false;
  memcpy(&number, &bits, sizeof number);
  if (!number_is_finite(number)) return false;
  *ret_number = number;
  *text = at;
  return true;
}

bool row_take_amount(const char **text, double max, double *ret_number) {
  const char *at = *text;
  double number;
  if (!row_take_double(&at, &number) || number < 0 || number > max) return false;
  *ret_number = number;
  *text = at;
  return true;
}

bool row_is_over(const char *text) {
  return *text == '\0';
}
