/* Open drafts: prompts whose last user text is still being typed, so that the next call about the same text is known as
 * its continuation. Bounded; the one untouched for longest goes first. Owns copies of tokens. Loop thread. */
#ifndef FORELAY_GATEWAY_DRAFTS_H
#define FORELAY_GATEWAY_DRAFTS_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

struct drafts;

/* count_max ≥ 1: most open drafts of all tenants. tokens_max: tokens kept of one; what comes behind is not compared. */
MUST_USE enum status drafts_create(size_t count_max, uint32_t tokens_max, struct drafts **ret_drafts);
void drafts_destroy(struct drafts **drafts);
/* The number of the draft that these tokens go on with, a new one where there is none. head_tokens ≤ n_tokens: tokens
 * before the text that is being typed. Of the tenant's drafts with the same head the one with the longest common prefix
 * is meant, if at least half of the shorter text is common to both (or one of them has no text yet). Numbers are > 0
 * and never come again. STATUS_NO_MEMORY: nothing changed. */
MUST_USE enum status drafts_follow(struct drafts *drafts, uint32_t tenant, const int32_t *tokens, uint32_t n_tokens,
                                   uint32_t head_tokens, uint64_t *ret_draft);
size_t drafts_count(const struct drafts *drafts);

#endif
