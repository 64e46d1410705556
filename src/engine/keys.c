#include "engine/keys.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/evp.h>
#include <openssl/hmac.h>

struct keys {
  EVP_MD *method;
  EVP_MD_CTX *digest; /* initialised once: later starts of the same method allocate nothing and cannot fail */
};

enum status keys_create(struct keys **ret_keys) {
  struct keys *keys = calloc(1, sizeof *keys);
  if (!keys) return STATUS_NO_MEMORY;
  keys->method = EVP_MD_fetch(NULL, "SHA256", NULL);
  keys->digest = EVP_MD_CTX_new();
  if (!keys->method || !keys->digest || !EVP_DigestInit_ex2(keys->digest, keys->method, NULL)) {
    keys_destroy(&keys);
    return STATUS_NO_MEMORY;
  }
  *ret_keys = keys;
  return STATUS_OK;
}

void keys_destroy(struct keys **keys_at) {
  struct keys *keys = *keys_at;
  if (!keys) return;
  EVP_MD_CTX_free(keys->digest);
  EVP_MD_free(keys->method);
  free(keys);
  *keys_at = NULL;
}

static uint8_t *little_put(uint8_t *at, uint64_t number, unsigned bytes) {
  for (unsigned i = 0; i < bytes; i++) at[i] = (uint8_t)(number >> (8 * i));
  return at + bytes;
}

static uint64_t big_get(const uint8_t *at) {
  uint64_t number = 0;
  for (unsigned i = 0; i < 8; i++) number = number << 8 | at[i];
  return number;
}

static uint8_t *big_put(uint8_t *at, uint64_t number) {
  for (unsigned i = 0; i < 8; i++) at[i] = (uint8_t)(number >> (56 - 8 * i));
  return at + 8;
}

/* None of these can fail once keys_create has started the digest. */
static void digest_start(EVP_MD_CTX *digest) {
  int is_started = EVP_DigestInit_ex2(digest, NULL, NULL);
  assert(is_started);
  (void)is_started;
}

static void digest_end(EVP_MD_CTX *digest, uint8_t ret_digest[32]) {
  int is_ended = EVP_DigestFinal_ex(digest, ret_digest, NULL);
  assert(is_ended);
  (void)is_ended;
}

static void feed(EVP_MD_CTX *digest, const void *bytes, size_t size) {
  int is_fed = EVP_DigestUpdate(digest, bytes, size);
  assert(is_fed);
  (void)is_fed;
}

static void feed_tokens(EVP_MD_CTX *digest, const int32_t *tokens, uint32_t n) {
  enum { CHUNK = 64 };
  uint8_t bytes[CHUNK * 4];
  for (uint32_t from = 0; from < n; from += CHUNK) {
    uint32_t count = n - from < CHUNK ? n - from : CHUNK;
    uint8_t *at = bytes;
    for (uint32_t i = 0; i < count; i++) at = little_put(at, (uint32_t)tokens[from + i], 4);
    feed(digest, bytes, count * 4u);
  }
}

block_key keys_extend(struct keys *keys, const uint8_t salt[32], const uint8_t compat[32], const block_key *parent,
                      const int32_t *tokens, uint32_t n) {
  uint8_t head[4 + 32 + 4 + 32 + 4 + 16 + 4], *at = head, full[32];
  at = little_put(at, 32, 4);
  memcpy(at, salt, 32);
  at = little_put(at + 32, 32, 4);
  memcpy(at, compat, 32);
  at = little_put(at + 32, parent ? 16 : 0, 4);
  if (parent) at = big_put(big_put(at, parent->hi), parent->lo);
  at = little_put(at, n, 4);
  digest_start(keys->digest);
  feed(keys->digest, head, (size_t)(at - head));
  feed_tokens(keys->digest, tokens, n);
  digest_end(keys->digest, full);
  return (block_key){.hi = big_get(full), .lo = big_get(full + 8)};
}

uint32_t keys_chain(struct keys *keys, const uint8_t salt[32], const uint8_t compat[32], const block_key *parent,
                    const int32_t *tokens, uint32_t n, uint32_t block_tokens, block_key *ret_keys) {
  assert(block_tokens >= 1);
  uint32_t count = n / block_tokens;
  for (uint32_t i = 0; i < count; i++) {
    ret_keys[i] = keys_extend(keys, salt, compat, parent, tokens + (size_t)i * block_tokens, block_tokens);
    parent = &ret_keys[i];
  }
  return count;
}

enum status keys_salt(const uint8_t *secret, size_t secret_size, const char *tenant, uint8_t ret_salt[32]) {
  static const char purpose[] = "forelay tenant"; /* its closing 0 is part of the message */
  size_t size = strlen(tenant);
  uint8_t *message = malloc(sizeof purpose + size);
  if (!message) return STATUS_NO_MEMORY;
  memcpy(message, purpose, sizeof purpose);
  memcpy(message + sizeof purpose, tenant, size);
  uint8_t *salt = HMAC(EVP_sha256(), secret, (int)secret_size, message, sizeof purpose + size, ret_salt, NULL);
  free(message);
  return salt ? STATUS_OK : STATUS_NO_MEMORY;
}

static void feed_field(EVP_MD_CTX *digest, const void *bytes, size_t size) {
  uint8_t length[4];
  little_put(length, size, 4);
  feed(digest, length, sizeof length);
  feed(digest, bytes, size);
}

static void feed_text(EVP_MD_CTX *digest, const char *text, size_t size_max) {
  feed_field(digest, text, strnlen(text, size_max));
}

static void feed_number(EVP_MD_CTX *digest, uint32_t number) {
  uint8_t bytes[4];
  little_put(bytes, number, 4);
  feed_field(digest, bytes, sizeof bytes);
}

/* By its bits: equal settings have equal bits, and −0 or NaN are settings of their own. */
static void feed_float(EVP_MD_CTX *digest, float number) {
  uint32_t bits;
  memcpy(&bits, &number, sizeof bits);
  feed_number(digest, bits);
}

static void feed_compat(EVP_MD_CTX *digest, const struct fingerprint_compat *compat) {
  feed_text(digest, "forelay compat 1", 64);
  feed_field(digest, compat->weights, sizeof compat->weights);
  feed_text(digest, compat->architecture, sizeof compat->architecture);
  feed_field(digest, compat->tokenizer, sizeof compat->tokenizer);
  feed_field(digest, compat->lora, sizeof compat->lora);
  feed_number(digest, compat->n_layer);
  feed_number(digest, compat->n_embd_k);
  feed_number(digest, compat->n_embd_v);
  feed_float(digest, compat->rope_freq_base);
  feed_float(digest, compat->rope_freq_scale);
  feed_float(digest, compat->yarn_ext_factor);
  feed_float(digest, compat->yarn_attn_factor);
  feed_float(digest, compat->yarn_beta_fast);
  feed_float(digest, compat->yarn_beta_slow);
  feed_number(digest, compat->yarn_orig_ctx);
  feed_number(digest, (uint32_t)compat->rope_type);
  feed_number(digest, (uint32_t)compat->type_k);
  feed_number(digest, (uint32_t)compat->type_v);
  feed_number(digest, (uint32_t)compat->flash_attention);
  feed_number(digest, (uint32_t)compat->swa_full);
  feed_number(digest, (uint32_t)compat->attention_rotation);
  feed_number(digest, compat->layout_version);
  feed_number(digest, compat->engine_state_version);
}

struct fingerprint keys_fingerprint(struct keys *keys, const struct fingerprint_compat *compat,
                                    const struct fingerprint_exact *exact) {
  struct fingerprint fingerprint;
  digest_start(keys->digest);
  feed_compat(keys->digest, compat);
  digest_end(keys->digest, fingerprint.compat);
  digest_start(keys->digest);
  feed_text(keys->digest, "forelay exact 1", 64);
  feed_field(keys->digest, fingerprint.compat, sizeof fingerprint.compat);
  feed_text(keys->digest, exact->cpu_features, sizeof exact->cpu_features);
  feed_text(keys->digest, exact->engine_build, sizeof exact->engine_build);
  feed_number(keys->digest, exact->threads);
  feed_number(keys->digest, exact->micro_batch);
  feed_number(keys->digest, exact->split_rule);
  feed_number(keys->digest, exact->backend);
  digest_end(keys->digest, fingerprint.exact);
  return fingerprint;
}
