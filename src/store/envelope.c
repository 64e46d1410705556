#include "store/envelope.h"

#include <stdbool.h>

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

static const char magic[8] = {'F', 'O', 'R', 'E', 'L', 'A', 'Y', 'S'};

enum { CHECKSUM_BYTES = 16 };

/* ── little-endian fields, written and read in one order ── */

struct cursor {
  uint8_t *at;
};

static void put_bytes(struct cursor *cursor, const void *bytes, size_t size) {
  memcpy(cursor->at, bytes, size);
  cursor->at += size;
}

static void put_number(struct cursor *cursor, uint64_t number, int size) {
  for (int i = 0; i < size; i++) *cursor->at++ = (uint8_t)(number >> (8 * i));
}

struct reader {
  const uint8_t *at;
};

static void get_bytes(struct reader *reader, void *bytes, size_t size) {
  memcpy(bytes, reader->at, size);
  reader->at += size;
}

static uint64_t get_number(struct reader *reader, int size) {
  uint64_t number = 0;
  for (int i = 0; i < size; i++) number |= (uint64_t)*reader->at++ << (8 * i);
  return number;
}

uint64_t envelope_padded(uint64_t payload_bytes) {
  return (payload_bytes + ENVELOPE_SIZE - 1) / ENVELOPE_SIZE * ENVELOPE_SIZE;
}

void envelope_checksum(const void *payload, uint64_t padded_bytes, uint64_t ret_checksum[2]) {
  XXH128_hash_t hash = XXH3_128bits(payload, padded_bytes);
  ret_checksum[0] = hash.high64;
  ret_checksum[1] = hash.low64;
}

void envelope_write(const struct envelope *envelope, uint8_t ret_head[ENVELOPE_SIZE]) {
  struct cursor cursor = {ret_head};
  memset(ret_head, 0, ENVELOPE_SIZE);
  put_bytes(&cursor, magic, sizeof magic);
  put_number(&cursor, ENVELOPE_VERSION, 4);
  put_number(&cursor, ENVELOPE_SIZE, 4);
  put_bytes(&cursor, envelope->fingerprint.compat, 32);
  put_bytes(&cursor, envelope->fingerprint.exact, 32);
  put_bytes(&cursor, envelope->salt, 32);
  put_number(&cursor, envelope->key.hi, 8);
  put_number(&cursor, envelope->key.lo, 8);
  put_number(&cursor, envelope->parent_key.hi, 8);
  put_number(&cursor, envelope->parent_key.lo, 8);
  put_number(&cursor, envelope->from, 4);
  put_number(&cursor, envelope->to, 4);
  put_number(&cursor, envelope->exact_tokens, 4);
  put_number(&cursor, 0, 4);
  put_number(&cursor, envelope->payload_bytes, 8);
  put_number(&cursor, envelope->checksum[0], 8);
  put_number(&cursor, envelope->checksum[1], 8);
  for (uint32_t i = 0; i < envelope->to - envelope->from; i++) put_number(&cursor, (uint32_t)envelope->tokens[i], 4);
  XXH128_hash_t hash = XXH3_128bits(ret_head, ENVELOPE_SIZE - CHECKSUM_BYTES);
  cursor.at = ret_head + ENVELOPE_SIZE - CHECKSUM_BYTES;
  put_number(&cursor, hash.high64, 8);
  put_number(&cursor, hash.low64, 8);
}

enum status envelope_parse(const uint8_t *head, size_t size, uint64_t file_bytes, struct envelope *ret_envelope) {
  if (size < ENVELOPE_SIZE || memcmp(head, magic, sizeof magic) != 0) return STATUS_CORRUPT;
  struct reader reader = {head + ENVELOPE_SIZE - CHECKSUM_BYTES};
  XXH128_hash_t hash = XXH3_128bits(head, ENVELOPE_SIZE - CHECKSUM_BYTES);
  if (get_number(&reader, 8) != hash.high64 || get_number(&reader, 8) != hash.low64) return STATUS_CORRUPT;
  reader.at = head + sizeof magic;
  if (get_number(&reader, 4) != ENVELOPE_VERSION || get_number(&reader, 4) != ENVELOPE_SIZE) return STATUS_INCOMPATIBLE;
  struct envelope envelope = {0};
  get_bytes(&reader, envelope.fingerprint.compat, 32);
  get_bytes(&reader, envelope.fingerprint.exact, 32);
  get_bytes(&reader, envelope.salt, 32);
  envelope.key.hi = get_number(&reader, 8);
  envelope.key.lo = get_number(&reader, 8);
  envelope.parent_key.hi = get_number(&reader, 8);
  envelope.parent_key.lo = get_number(&reader, 8);
  envelope.from = (uint32_t)get_number(&reader, 4);
  envelope.to = (uint32_t)get_number(&reader, 4);
  envelope.exact_tokens = (uint32_t)get_number(&reader, 4);
  if (get_number(&reader, 4) != 0) return STATUS_INCOMPATIBLE;
  envelope.payload_bytes = get_number(&reader, 8);
  envelope.checksum[0] = get_number(&reader, 8);
  envelope.checksum[1] = get_number(&reader, 8);
  bool is_range = envelope.from % SEGMENT_TOKENS == 0 && envelope.from < envelope.to &&
                  envelope.to - envelope.from <= SEGMENT_TOKENS;
  if (!is_range || envelope.payload_bytes == 0 || envelope.payload_bytes > UINT64_MAX / 4) return STATUS_CORRUPT;
  if (file_bytes != ENVELOPE_SIZE + envelope_padded(envelope.payload_bytes)) return STATUS_CORRUPT;
  for (uint32_t i = 0; i < envelope.to - envelope.from; i++) envelope.tokens[i] = (int32_t)get_number(&reader, 4);
  *ret_envelope = envelope;
  return STATUS_OK;
}
