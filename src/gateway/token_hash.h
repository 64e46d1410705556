/* A running 128-bit digest of tokens for tables of statistics: two lanes of a multiply and xorshift mix (the finalizer
 * of splitmix64). Not for secrets, not for naming states. Any thread; plain data. */
#ifndef FORELAY_GATEWAY_TOKEN_HASH_H
#define FORELAY_GATEWAY_TOKEN_HASH_H

#include <stddef.h>
#include <stdint.h>

#include "base/map.h"

static inline uint64_t token_hash_mix(uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9u;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/* The digest of nothing, for one salt. */
static inline struct map_key token_hash_begin(uint64_t salt) {
  return (struct map_key){.hi = token_hash_mix(salt + 0x9e3779b97f4a7c15u), .lo = token_hash_mix(~salt)};
}

static inline struct map_key token_hash_add(struct map_key hash, uint64_t item) {
  hash.hi = token_hash_mix(hash.hi ^ (item + 0x9e3779b97f4a7c15u));
  hash.lo = token_hash_mix((hash.lo + 0xd1b54a32d192ed03u) ^ (item * 0xff51afd7ed558ccdu + 1));
  return hash;
}

static inline struct map_key token_hash_text(struct map_key hash, const char *text, size_t size) {
  hash = token_hash_add(hash, size);
  for (size_t i = 0; i < size; i++) {
    hash = token_hash_add(hash, (unsigned char)text[i]);
  }
  return hash;
}

#endif
