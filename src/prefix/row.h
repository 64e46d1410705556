/* Rows of saved state: lower-case hexadecimal numbers after a word, one space between them, so that every bit comes
 * back and reading is strict. Plain data in the caller's hands. Any thread. */
#ifndef FORELAY_PREFIX_ROW_H
#define FORELAY_PREFIX_ROW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "domain/block.h"

enum { ROW_SIZE = 3072 };

/* Fields past ROW_SIZE are asserted away: the caller knows how many it puts. */
struct row {
  size_t size;         /* characters, the closing 0 not counted */
  char text[ROW_SIZE]; /* always closed */
};

void row_begin(struct row *row, const char *word);
void row_put(struct row *row, uint64_t number);
void row_put_key(struct row *row, block_key key);
void row_put_double(struct row *row, double number);

/* Reads one field and moves *text behind it; false and nothing moved when the next field is not of that kind. */
bool row_take_word(const char **text, const char *word);
/* At most `max`. */
bool row_take(const char **text, uint64_t max, uint64_t *ret_number);
bool row_take_u32(const char **text, uint32_t *ret_number);
bool row_take_key(const char **text, block_key *ret_key);
/* Finite numbers only. */
bool row_take_double(const char **text, double *ret_number);
/* In [0, max]. */
bool row_take_amount(const char **text, double max, double *ret_number);
bool row_is_over(const char *text);

#endif
