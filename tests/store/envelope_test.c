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
      cmocka_unit_test(sums_see_every_byte),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
