// rooms: store
/* Heads of state files: whatever lies on the disk is refused, or is a head that says the same when it is written again.
 */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "store/envelope.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { PAYLOAD_AT = 160, CHECKSUM_BYTES = 16 };

static uint64_t number_at(const uint8_t *bytes) {
  uint64_t number = 0;
  for (int i = 0; i < 8; i++) number |= (uint64_t)bytes[i] << (8 * i);
  return number;
}

static void accepted_check(const struct envelope *envelope, uint64_t file_bytes) {
  struct envelope again;
  uint8_t head[ENVELOPE_SIZE];
  assert(envelope->from % SEGMENT_TOKENS == 0 && envelope->from < envelope->to);
  assert(envelope->to - envelope->from <= SEGMENT_TOKENS && envelope->payload_bytes > 0);
  assert(file_bytes == ENVELOPE_SIZE + envelope_padded(envelope->payload_bytes));
  envelope_write(envelope, head);
  assert(envelope_parse(head, sizeof head, file_bytes, &again) == STATUS_OK);
  assert(memcmp(&again, envelope, sizeof again) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct envelope envelope;
  uint8_t head[ENVELOPE_SIZE] = {0};
  uint64_t checksum[2];
  /* As it is, of any length. */
  if (envelope_parse(data, size, size, &envelope) == STATUS_OK) accepted_check(&envelope, size);
  /* With a right checksum and a file as long as it says, so that what is behind those checks is reached. */
  memcpy(head, data, size < sizeof head ? size : sizeof head);
  envelope_checksum(head, sizeof head - CHECKSUM_BYTES, checksum);
  for (int i = 0; i < CHECKSUM_BYTES; i++)
    head[ENVELOPE_SIZE - CHECKSUM_BYTES + i] = (uint8_t)(checksum[i / 8] >> (8 * (i % 8)));
  uint64_t file_bytes = ENVELOPE_SIZE + envelope_padded(number_at(head + PAYLOAD_AT));
  if (envelope_parse(head, sizeof head, file_bytes, &envelope) == STATUS_OK) accepted_check(&envelope, file_bytes);
  return 0;
}
