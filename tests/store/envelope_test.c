/* The head of a state file: what is written is read back, and nothing that was touched is accepted. */
#include "store/stage.h"

static void envelope_draw(struct envelope *envelope, uint64_t seed) {
  struct rng rng;
  rng_init(&rng, seed);
  *envelope = (struct envelope){0};
  for (int i = 0; i < 32; i++) {
    envelope->fingerprint.compat[i] = (uint8_t)rng_next(&rng);
    envelope->fingerprint.exact[i] = (uint8_t)rng_next(&rng);
    envelope->salt[i] = (uint8_t)rng_next(&rng);
  }
  envelope->key = (block_key){rng_next(&rng), rng_next(&rng)};
  envelope->parent_key = (block_key){rng_next(&rng), rng_next(&rng)};
  envelope->from = SEGMENT_TOKENS * (uint32_t)rng_below(&rng, 500);
  envelope->to = envelope->from + 1 + (uint32_t)rng_below(&rng, SEGMENT_TOKENS);
  envelope->exact_tokens = (uint32_t)rng_below(&rng, envelope->to + 1);
  envelope->payload_bytes = 1 + rng_below(&rng, 1 << 22);
  envelope->checksum[0] = rng_next(&rng);
  envelope->checksum[1] = rng_next(&rng);
  for (uint32_t i = 0; i < envelope->to - envelope->from; i++) envelope->tokens[i] = (int32_t)rng_next(&rng);
}

static uint64_t file_bytes(const struct envelope *envelope) {
  return ENVELOPE_SIZE + envelope_padded(envelope->payload_bytes);
}

static void written_is_read_back(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= 500; seed++) {
    struct envelope written, read;
    uint8_t head[ENVELOPE_SIZE];
    envelope_draw(&written, seed);
    envelope_write(&written, head);
    assert_int_equal(envelope_parse(head, sizeof head, file_bytes(&written), &read), STATUS_OK);
    assert_memory_equal(&read, &written, sizeof read);
  }
}

static void any_changed_bit_is_refused(void **state) {
  (void)state;
  struct envelope written, read;
  uint8_t head[ENVELOPE_SIZE];
  envelope_draw(&written, 7);
  envelope_write(&written, head);
  for (unsigned bit = 0; bit < ENVELOPE_SIZE * 8; bit++) {
    head[bit / 8] ^= (uint8_t)(1u << bit % 8);
    if (envelope_parse(head, sizeof head, file_bytes(&written), &read) == STATUS_OK)
      fail_msg("bit %u of the head was changed and it was accepted", bit);
    head[bit / 8] ^= (uint8_t)(1u << bit % 8);
  }
  assert_int_equal(envelope_parse(head, sizeof head, file_bytes(&written), &read), STATUS_OK);
}

static void wrong_sizes_are_refused(void **state) {
  (void)state;
  struct envelope written, read;
  uint8_t head[ENVELOPE_SIZE];
  envelope_draw(&written, 8);
  envelope_write(&written, head);
  for (size_t size = 0; size < ENVELOPE_SIZE; size++)
    assert_int_equal(envelope_parse(head, size, file_bytes(&written), &read), STATUS_CORRUPT);
  for (uint64_t sixteenth = 0; sixteenth < 16; sixteenth++)
    assert_int_equal(envelope_parse(head, sizeof head, file_bytes(&written) * sixteenth / 16, &read), STATUS_CORRUPT);
  assert_int_equal(envelope_parse(head, sizeof head, file_bytes(&written) + 1, &read), STATUS_CORRUPT);
  assert_int_equal(envelope_parse(head, sizeof head, UINT64_MAX, &read), STATUS_CORRUPT);
}

static void zeroes_and_noise_are_refused(void **state) {
  (void)state;
  struct envelope read;
  struct rng rng;
  uint8_t head[ENVELOPE_SIZE] = {0};
  rng_init(&rng, 9);
  assert_int_equal(envelope_parse(head, sizeof head, 2 * ENVELOPE_SIZE, &read), STATUS_CORRUPT);
  for (int i = 0; i < 200; i++) {
    for (size_t b = 0; b < sizeof head; b++) head[b] = (uint8_t)rng_next(&rng);
    assert_int_not_equal(envelope_parse(head, sizeof head, 2 * ENVELOPE_SIZE, &read), STATUS_OK);
  }
}

/* A head that lies, but with a right checksum: only the checks of each field stand between it and the reader. */
static void lies_with_a_right_checksum_are_refused(void **state) {
  (void)state;
  struct envelope lie, read;
  uint8_t head[ENVELOPE_SIZE];
  static const struct {
    uint32_t from, length;
    uint64_t payload_bytes;
  } lies[] = {{1, 10, 100},  {127, 1, 100},        {128, 0, 100},
              {0, 128, 0},   {128, 5, UINT64_MAX}, {0, 1, UINT64_MAX / 4 + 1},
              {64, 64, 4096}};
  for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
    envelope_draw(&lie, 10);
    lie.from = lies[i].from;
    lie.to = lies[i].from + lies[i].length;
    lie.payload_bytes = lies[i].payload_bytes;
    envelope_write(&lie, head);
    uint64_t padded = envelope_padded(lie.payload_bytes);
    assert_int_equal(envelope_parse(head, sizeof head, ENVELOPE_SIZE + padded, &read), STATUS_CORRUPT);
  }
}

static uint64_t number_at(const uint8_t *head, size_t at, int size) {
  uint64_t number = 0;
  for (int i = 0; i < size; i++) number |= (uint64_t)head[at + (size_t)i] << (8 * i);
  return number;
}

/* Gives a head that was changed a right checksum again. */
static void reseal(uint8_t head[ENVELOPE_SIZE]) {
  uint64_t checksum[2];
  envelope_checksum(head, ENVELOPE_SIZE - 16, checksum);
  for (int i = 0; i < 16; i++) head[ENVELOPE_SIZE - 16 + i] = (uint8_t)(checksum[i / 8] >> (8 * (i % 8)));
}

/* Byte by byte what docs/formats/state-file.md says: files outlive the program that wrote them. */
static void the_layout_is_as_documented(void **state) {
  (void)state;
  struct envelope written;
  uint8_t head[ENVELOPE_SIZE];
  envelope_draw(&written, 11);
  envelope_write(&written, head);
  uint32_t n = written.to - written.from;
  assert_memory_equal(head, "FORELAYS", 8);
  assert_int_equal(number_at(head, 8, 4), 1);
  assert_int_equal(number_at(head, 12, 4), 4096);
  assert_memory_equal(head + 16, written.fingerprint.compat, 32);
  assert_memory_equal(head + 48, written.fingerprint.exact, 32);
  assert_memory_equal(head + 80, written.salt, 32);
  assert_true(number_at(head, 112, 8) == written.key.hi && number_at(head, 120, 8) == written.key.lo);
  assert_true(number_at(head, 128, 8) == written.parent_key.hi && number_at(head, 136, 8) == written.parent_key.lo);
  assert_int_equal(number_at(head, 144, 4), written.from);
  assert_int_equal(number_at(head, 148, 4), written.to);
  assert_int_equal(number_at(head, 152, 4), written.exact_tokens);
  assert_int_equal(number_at(head, 156, 4), 0);
  assert_int_equal(number_at(head, 160, 8), written.payload_bytes);
  assert_true(number_at(head, 168, 8) == written.checksum[0] && number_at(head, 176, 8) == written.checksum[1]);
  for (uint32_t i = 0; i < n; i++) assert_int_equal((int32_t)number_at(head, 184 + 4 * i, 4), written.tokens[i]);
  for (size_t at = 184 + 4 * n; at < 4080; at++) assert_int_equal(head[at], 0);
  uint8_t sealed[ENVELOPE_SIZE];
  memcpy(sealed, head, sizeof sealed);
  reseal(sealed);
  assert_memory_equal(head, sealed, sizeof sealed);
}

/* Other versions, heads of another size and a spare field in use, each under a right checksum. */
static void other_versions_are_incompatible(void **state) {
  (void)state;
  static const struct {
    size_t at;
    uint8_t value;
  } changes[] = {{8, 0}, {8, 2}, {9, 1}, {11, 0x80}, {13, 0x20}, {12, 1}, {156, 1}, {159, 0x80}};
  for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
    struct envelope written, read;
    uint8_t head[ENVELOPE_SIZE];
    envelope_draw(&written, 12);
    envelope_write(&written, head);
    head[changes[i].at] = changes[i].value;
    reseal(head);
    if (envelope_parse(head, sizeof head, file_bytes(&written), &read) != STATUS_INCOMPATIBLE)
      fail_msg("byte %zu = %u was not refused as another version", changes[i].at, changes[i].value);
  }
}

/* A range of more tokens than a head holds would be read past its end. */
static void a_range_too_long_is_refused(void **state) {
  (void)state;
  for (uint32_t length = SEGMENT_TOKENS; length <= SEGMENT_TOKENS + 2000; length++) {
    struct envelope written, read;
    uint8_t head[ENVELOPE_SIZE];
    envelope_draw(&written, 13);
    written.to = written.from + 1;
    envelope_write(&written, head);
    for (int i = 0; i < 4; i++) head[148 + i] = (uint8_t)((written.from + length) >> (8 * i));
    reseal(head);
    enum status expected = length == SEGMENT_TOKENS ? STATUS_OK : STATUS_CORRUPT;
    assert_int_equal(envelope_parse(head, sizeof head, file_bytes(&written), &read), expected);
  }
}

static void sums_see_every_byte(void **state) {
  (void)state;
  enum { BYTES = 3 * ENVELOPE_SIZE };
  uint8_t *payload = calloc(1, BYTES);
  uint64_t before[2], after[2];
  assert_non_null(payload);
  envelope_checksum(payload, BYTES, before);
  for (unsigned i = 0; i < BYTES; i++) {
    payload[i] ^= 0x10;
    envelope_checksum(payload, BYTES, after);
    payload[i] ^= 0x10;
    assert_false(before[0] == after[0] && before[1] == after[1]);
  }
  free(payload);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(written_is_read_back),
      cmocka_unit_test(any_changed_bit_is_refused),
      cmocka_unit_test(wrong_sizes_are_refused),
      cmocka_unit_test(zeroes_and_noise_are_refused),
      cmocka_unit_test(lies_with_a_right_checksum_are_refused),
      cmocka_unit_test(the_layout_is_as_documented),
      cmocka_unit_test(other_versions_are_incompatible),
      cmocka_unit_test(a_range_too_long_is_refused),
      cmocka_unit_test(sums_see_every_byte),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
