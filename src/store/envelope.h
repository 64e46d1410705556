/* The head of a state file: what its payload is, for whom, and checksums over every byte. docs/formats/state-file.md is
 * the byte-by-byte page. Pure; any thread. */
#ifndef FORELAY_STORE_ENVELOPE_H
#define FORELAY_STORE_ENVELOPE_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "domain/block.h"
#include "domain/fingerprint.h"

enum {
  ENVELOPE_VERSION = 1,
  ENVELOPE_SIZE = 4096 /* of the head, padding included; also what the payload is padded to */
};

struct envelope {
  struct fingerprint fingerprint;
  uint8_t salt[32]; /* of the tenant */
  block_key key, parent_key;
  uint32_t from, to;
  uint32_t exact_tokens; /* canonical tokens of the chain */
  uint64_t payload_bytes;
  uint64_t checksum[2];           /* XXH3-128 of the payload and its padding: high, low */
  int32_t tokens[SEGMENT_TOKENS]; /* [to − from] */
};

/* Payload size with its padding. */
uint64_t envelope_padded(uint64_t payload_bytes);
/* XXH3-128 of the padded payload. */
void envelope_checksum(const void *payload, uint64_t padded_bytes, uint64_t ret_checksum[2]);
void envelope_write(const struct envelope *envelope, uint8_t ret_head[ENVELOPE_SIZE]);
/* head[size] is the beginning of a file of file_bytes. STATUS_CORRUPT: not what envelope_write made, or the file's size
 * does not agree; STATUS_INCOMPATIBLE: of another version. Untrusted bytes are welcome. */
MUST_USE enum status envelope_parse(const uint8_t *head, size_t size, uint64_t file_bytes,
                                    struct envelope *ret_envelope);

#endif
