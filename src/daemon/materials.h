/* The tokens behind prefixes that the planner only knows by key: handles to bounded, least-recently-used token runs.
 * Never shared between tenants. Loop thread only. Owns copies of the tokens. */
#ifndef FORELAY_DAEMON_MATERIALS_H
#define FORELAY_DAEMON_MATERIALS_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "domain/block.h"

struct materials;

/* bytes_max: of tokens and bookkeeping together. */
MUST_USE enum status materials_create(size_t bytes_max, struct materials **ret_materials);
void materials_destroy(struct materials **materials);
/* Keeps a copy under a handle > 0; equal (tenant, key, n) gives the handle it has already. `key` names the whole run
 * (its tail included). Makes room by dropping the least recently used. STATUS_TOO_LONG: larger than everything allowed.
 */
MUST_USE enum status materials_keep(struct materials *materials, uint32_t tenant, block_key key, const int32_t *tokens,
                                    uint32_t n, uint64_t *ret_handle);
/* STATUS_NOT_FOUND once dropped. tokens[n] borrowed until the next keep. */
MUST_USE enum status materials_find(struct materials *materials, uint64_t handle, uint32_t *ret_tenant,
                                    const int32_t **ret_tokens, uint32_t *ret_n);
size_t materials_bytes(const struct materials *materials);

#endif
