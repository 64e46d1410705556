/* Digests of the reuse rules: block keys, tenant salts, fingerprints. SHA-256 by OpenSSL. Pure but for its scratch
 * state; a struct keys belongs to one thread at a time. Never stands for a comparison of tokens. */
#ifndef FORELAY_ENGINE_KEYS_H
#define FORELAY_ENGINE_KEYS_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "domain/block.h"
#include "domain/fingerprint.h"

struct keys;

MUST_USE enum status keys_create(struct keys **ret_keys);
void keys_destroy(struct keys **keys);

/* Key of a prefix that goes on behind `parent` (NULL: from token 0) by tokens[n]: the first 128 bits of
 * SHA-256(len ‖ salt ‖ len ‖ compat ‖ len ‖ parent ‖ len ‖ tokens), lengths and tokens in 4 bytes little endian, no
 * parent as length 0. */
block_key keys_extend(struct keys *keys, const uint8_t salt[32], const uint8_t compat[32], const block_key *parent,
                      const int32_t *tokens, uint32_t n);
/* Keys of the n / block_tokens full blocks of tokens[n] behind `parent` (NULL: from token 0): ret_keys[n /
 * block_tokens]. Returns their count. block_tokens ≥ 1. */
uint32_t keys_chain(struct keys *keys, const uint8_t salt[32], const uint8_t compat[32], const block_key *parent,
                    const int32_t *tokens, uint32_t n, uint32_t block_tokens, block_key *ret_keys);

/* Salt of a tenant: HMAC-SHA256(secret, "forelay tenant" ‖ 0 ‖ name). secret[secret_size] is at least 1 byte. */
MUST_USE enum status keys_salt(const uint8_t *secret, size_t secret_size, const char *tenant, uint8_t ret_salt[32]);

/* Both digests over the fields in the order of their structures, each preceded by its length. Texts are taken up to
 * their NUL. */
struct fingerprint keys_fingerprint(struct keys *keys, const struct fingerprint_compat *compat,
                                    const struct fingerprint_exact *exact);

#endif
