/* Block keys: what a prefix of tokens is called wherever tokens themselves are not needed. Plain data; any thread. */
#ifndef FORELAY_DOMAIN_BLOCK_H
#define FORELAY_DOMAIN_BLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/map.h"

enum {
  BLOCK_TOKENS = 16,     /* tokens of one block where a trace does not bring its own size */
  SEGMENT_TOKENS = 128   /* most tokens of one stored segment; segments start at multiples of it (a multiple of BLOCK_TOKENS) */
};

/* First 128 bits of the salted SHA-256 chain over (tenant salt, compat digest, parent key, tokens). A key names the whole
 * prefix up to and including its block. It never stands for the tokens: those are compared in full before any reuse. */
typedef struct map_key block_key;

static inline bool block_key_equal(block_key a, block_key b) {
  return a.hi == b.hi && a.lo == b.lo;
}

#endif
