/* Block keys, tenant salts and fingerprints: against OpenSSL by hand, and by mutation of every field. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>
#include <openssl/evp.h>

#include "base/rng.h"
#include "engine/keys.h"

static struct keys *keys;
static uint8_t salt[32], compat[32];

static void word_put(uint8_t *at, uint32_t word) {
  for (unsigned i = 0; i < 4; i++) at[i] = (uint8_t)(word >> (8 * i));
}

/* The definition of a key, written out for one block behind a parent. */
static void test_key_is_the_documented_digest(void **state) {
  (void)state;
  int32_t tokens[3] = {1, 70000, -1};
  block_key parent = {.hi = 0x0102030405060708, .lo = 0x1112131415161718};
  uint8_t message[4 + 32 + 4 + 32 + 4 + 16 + 4 + 12], *at = message, digest[32];
  word_put(at, 32);
  memcpy(at + 4, salt, 32);
  at += 36;
  word_put(at, 32);
  memcpy(at + 4, compat, 32);
  at += 36;
  word_put(at, 16);
  for (unsigned i = 0; i < 8; i++) at[4 + i] = (uint8_t)(i + 1), at[12 + i] = (uint8_t)(i + 0x11);
  at += 20;
  word_put(at, 3);
  for (unsigned i = 0; i < 3; i++) word_put(at + 4 + 4 * i, (uint32_t)tokens[i]);
  assert_true(EVP_Digest(message, sizeof message, digest, NULL, EVP_sha256(), NULL));
  uint64_t hi = 0, lo = 0;
  for (unsigned i = 0; i < 8; i++) hi = hi << 8 | digest[i], lo = lo << 8 | digest[8 + i];
  block_key key = keys_extend(keys, salt, compat, &parent, tokens, 3);
  assert_true(key.hi == hi && key.lo == lo);
}

static void test_chain_is_repeated_extension(void **state) {
  (void)state;
  int32_t tokens[100];
  block_key chain[6], parent;
  for (int i = 0; i < 100; i++) tokens[i] = i * 31;
  assert_int_equal(keys_chain(keys, salt, compat, NULL, tokens, 100, 16, chain), 6);
  for (uint32_t i = 0; i < 6; i++) {
    block_key key = keys_extend(keys, salt, compat, i ? &parent : NULL, tokens + 16 * i, 16);
    assert_true(block_key_equal(key, chain[i]));
    parent = key;
  }
  block_key behind[3];
  assert_int_equal(keys_chain(keys, salt, compat, &chain[2], tokens + 48, 48, 16, behind), 3);
  assert_memory_equal(behind, &chain[3], sizeof behind);
}

/* One bit of anything that goes in changes the key; moving a boundary does too. */
static void test_everything_matters(void **state) {
  (void)state;
  int32_t tokens[32] = {0};
  uint8_t other[32];
  block_key key = keys_extend(keys, salt, compat, NULL, tokens, 32), parent = {0};
  for (unsigned bit = 0; bit < 256; bit++) {
    memcpy(other, salt, 32);
    other[bit / 8] ^= (uint8_t)(1 << bit % 8);
    assert_false(block_key_equal(key, keys_extend(keys, other, compat, NULL, tokens, 32)));
    memcpy(other, compat, 32);
    other[bit / 8] ^= (uint8_t)(1 << bit % 8);
    assert_false(block_key_equal(key, keys_extend(keys, salt, other, NULL, tokens, 32)));
  }
  assert_false(block_key_equal(key, keys_extend(keys, compat, salt, NULL, tokens, 32)));
  assert_false(block_key_equal(key, keys_extend(keys, salt, compat, &parent, tokens, 32)));
  assert_false(block_key_equal(key, keys_extend(keys, salt, compat, NULL, tokens, 31)));
  for (unsigned i = 0; i < 32; i++) {
    tokens[i] = 1;
    assert_false(block_key_equal(key, keys_extend(keys, salt, compat, NULL, tokens, 32)));
    tokens[i] = 0;
  }
  block_key by_16[2], by_32[1];
  keys_chain(keys, salt, compat, NULL, tokens, 32, 16, by_16);
  keys_chain(keys, salt, compat, NULL, tokens, 32, 32, by_32);
  assert_false(block_key_equal(by_16[1], by_32[0]));
}

static void test_tenants_have_salts_of_their_own(void **state) {
  (void)state;
  uint8_t a[32], b[32], c[32];
  const uint8_t secret[32] = {7}, other[32] = {8};
  assert_int_equal(keys_salt(secret, 32, "a", a), STATUS_OK);
  assert_int_equal(keys_salt(secret, 32, "b", b), STATUS_OK);
  assert_int_equal(keys_salt(other, 32, "a", c), STATUS_OK);
  assert_memory_not_equal(a, b, 32);
  assert_memory_not_equal(a, c, 32);
  assert_int_equal(keys_salt(secret, 32, "a", b), STATUS_OK);
  assert_memory_equal(a, b, 32);
}

static struct fingerprint_compat compat_sample(void) {
  struct fingerprint_compat sample;
  memset(&sample, 0, sizeof sample);
  memset(sample.weights, 1, sizeof sample.weights);
  snprintf(sample.architecture, sizeof sample.architecture, "llama");
  sample.n_layer = 30;
  sample.rope_freq_base = 10000;
  sample.rope_freq_scale = 1;
  sample.yarn_ext_factor = -1;
  sample.type_k = sample.type_v = 1;
  sample.attention_rotation = 1;
  return sample;
}

static struct fingerprint_exact exact_sample(void) {
  struct fingerprint_exact sample;
  memset(&sample, 0, sizeof sample);
  snprintf(sample.cpu_features, sizeof sample.cpu_features, "AVX2,FMA");
  snprintf(sample.engine_build, sizeof sample.engine_build, "1");
  sample.threads = 2;
  sample.micro_batch = 128;
  sample.split_rule = 1;
  return sample;
}

/* Every byte of the structure that is not padding or behind a text's end: flip it, and see which digests follow. */
static void test_each_field_is_in_its_digest(void **state) {
  (void)state;
  struct fingerprint_compat compat_fields = compat_sample();
  struct fingerprint_exact exact_fields = exact_sample();
  struct fingerprint before = keys_fingerprint(keys, &compat_fields, &exact_fields);
  size_t text = offsetof(struct fingerprint_compat, architecture);
  for (size_t i = 0; i < sizeof compat_fields; i++) {
    if (i >= text + 5 && i < text + sizeof compat_fields.architecture) continue; /* behind "llama" */
    ((uint8_t *)&compat_fields)[i] ^= 0x40;
    struct fingerprint after = keys_fingerprint(keys, &compat_fields, &exact_fields);
    ((uint8_t *)&compat_fields)[i] ^= 0x40;
    assert_false(fingerprint_is_compatible(&before, &after));
    assert_false(fingerprint_is_exact(&before, &after));
  }
  size_t build = offsetof(struct fingerprint_exact, engine_build),
         threads = offsetof(struct fingerprint_exact, threads);
  for (size_t i = 0; i < sizeof exact_fields; i++) {
    if ((i >= 8 && i < build) || (i >= build + 1 && i < threads)) continue;
    ((uint8_t *)&exact_fields)[i] ^= 0x40;
    struct fingerprint after = keys_fingerprint(keys, &compat_fields, &exact_fields);
    ((uint8_t *)&exact_fields)[i] ^= 0x40;
    assert_true(fingerprint_is_compatible(&before, &after));
    assert_false(fingerprint_is_exact(&before, &after));
  }
  struct fingerprint again = keys_fingerprint(keys, &compat_fields, &exact_fields);
  assert_true(fingerprint_is_compatible(&before, &again) && fingerprint_is_exact(&before, &again));
}

/* What lies behind a text's closing 0 is not part of it. */
static void test_text_ends_at_its_nul(void **state) {
  (void)state;
  struct fingerprint_compat a = compat_sample(), b = compat_sample();
  struct fingerprint_exact exact_fields = exact_sample();
  b.architecture[20] = 'x';
  struct fingerprint of_a = keys_fingerprint(keys, &a, &exact_fields), of_b = keys_fingerprint(keys, &b, &exact_fields);
  assert_true(fingerprint_is_compatible(&of_a, &of_b));
}

static void test_speed(void **state) {
  (void)state;
  enum { N = 1 << 18 };
  static int32_t tokens[N];
  static block_key chain[N / BLOCK_TOKENS];
  struct timespec from, to;
  for (int i = 0; i < N; i++) tokens[i] = i;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
  keys_chain(keys, salt, compat, NULL, tokens, N, BLOCK_TOKENS, chain);
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
  double seconds = (double)(to.tv_sec - from.tv_sec) + 1e-9 * (double)(to.tv_nsec - from.tv_nsec);
  print_message("block keys: %.1f million tokens a second\n", N / seconds / 1e6);
}

static int open_keys(void **state) {
  (void)state;
  struct rng rng;
  rng_init(&rng, 5);
  for (unsigned i = 0; i < 32; i++) salt[i] = (uint8_t)rng_next(&rng), compat[i] = (uint8_t)rng_next(&rng);
  return keys_create(&keys) == STATUS_OK ? 0 : -1;
}

static int close_keys(void **state) {
  (void)state;
  keys_destroy(&keys);
  return keys != NULL;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_key_is_the_documented_digest),
      cmocka_unit_test(test_chain_is_repeated_extension),
      cmocka_unit_test(test_everything_matters),
      cmocka_unit_test(test_tenants_have_salts_of_their_own),
      cmocka_unit_test(test_each_field_is_in_its_digest),
      cmocka_unit_test(test_text_ends_at_its_nul),
      cmocka_unit_test(test_speed),
  };
  return cmocka_run_group_tests(tests, open_keys, close_keys);
}
