/* Who may ask: API keys and the tenants they name. Read once at start, never changed; never logs a key. Any thread may
 * read. Owns its copies of names and keys. */
#ifndef FORELAY_GATEWAY_TENANTS_H
#define FORELAY_GATEWAY_TENANTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum {
  TENANT_NAME_SIZE = 64,     /* longest name, the closing 0 included */
  TENANT_KEY_SIZE_MAX = 256, /* longest key in bytes */
  TENANTS_MAX = 1024         /* most tenants of one file */
};

struct tenants;

/* path NULL: no keys, one tenant "default" who is the operator. Otherwise a file of lines `tenant:key` (blank lines and
 * lines that begin with # are skipped; a tenant may have several keys), a regular file that only its owner may read or
 * write (0600 or stricter). Tenants are numbered from 0 in the order of their first lines; `admin` is the operator.
 * STATUS_DENIED: others may read the file; STATUS_INVALID: a line is wrong (its number is in the error, never its
 * text); STATUS_IO, STATUS_FULL, STATUS_NO_MEMORY. Blocks on the file. */
MUST_USE enum status tenants_open(const char *path, struct tenants **ret_tenants, struct error *error);
/* NULL is accepted; nulls the pointer. */
void tenants_close(struct tenants **tenants);

bool tenants_has_keys(const struct tenants *tenants);
uint32_t tenants_count(const struct tenants *tenants);
/* tenant < count. Static as long as the table lives. */
const char *tenants_name(const struct tenants *tenants, uint32_t tenant);
/* Sees every tenant's states, may change the budget and read /metrics. */
bool tenants_is_operator(const struct tenants *tenants, uint32_t tenant);
/* The tenant of an Authorization header's value ("Bearer KEY"; the scheme in any case). Every key is compared, each in
 * constant time. Without keys: always tenant 0, whatever is sent. authorization may be NULL.
 * STATUS_DENIED: no key, or none of ours. */
MUST_USE enum status tenants_find(const struct tenants *tenants, const char *authorization, uint32_t *ret_tenant);

#endif
