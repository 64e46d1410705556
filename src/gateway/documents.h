/* Registered documents: after which tokens of a tenant's prompts a document has just ended. Bounded; the oldest goes
 * first. Keeps digests of token runs, no tokens. What it says is a statistic for the planner, never a licence for
 * reuse. Loop thread. */
#ifndef FORELAY_GATEWAY_DOCUMENTS_H
#define FORELAY_GATEWAY_DOCUMENTS_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

struct documents;

/* count_max ≥ 1: most registered documents of all tenants. */
MUST_USE enum status documents_create(size_t count_max, struct documents **ret_documents);
void documents_destroy(struct documents **documents);
/* A prompt of this tenant that begins with these tokens has the document in it. n_tokens ≥ 1. Registering again renews
 * its place in the order. */
MUST_USE enum status documents_add(struct documents *documents, uint32_t tenant, const int32_t *tokens,
                                   uint32_t n_tokens);
/* Tokens up to the end of the longest registered run of this tenant that `tokens` begin with; 0 for none. */
uint32_t documents_match(const struct documents *documents, uint32_t tenant, const int32_t *tokens, uint32_t n_tokens);
size_t documents_count(const struct documents *documents);

#endif
