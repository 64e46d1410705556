/* What a model is by content: the digest of its weight files. Blocks while it reads. Any thread. */
#ifndef FORELAY_ENGINE_WEIGHTS_H
#define FORELAY_ENGINE_WEIGHTS_H

#include <stdint.h>

#include "base/status.h"

/* Bytes of the file, or of all parts where its name ends in "-00001-of-0000N.gguf"; what cannot be read counts 0. */
uint64_t weights_bytes(const char *path);
/* SHA-256 of the file; of a split model SHA-256 over its parts' digests in order. cache_dir (NULL: none) is a folder
 * for notes of ours, `weights-…`: a note that agrees in path, size, times and inode is believed instead of reading the
 * file. A note that cannot be read or written is no error. STATUS_IO: a part cannot be read. */
MUST_USE enum status weights_digest(const char *path, const char *cache_dir, uint8_t ret_digest[32],
                                    struct error *error);

#endif
