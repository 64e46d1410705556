#include "gateway/drafts.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct draft {
  uint64_t number;  /* 0: a free place */
  uint64_t touched; /* order of calls */
  uint32_t tenant;
  uint32_t head_tokens, n_tokens;
  int32_t *tokens; /* [n_tokens] */
};

struct drafts {
  size_t count_max;
  uint32_t tokens_max;
  uint64_t next_number;
  uint64_t calls;
  struct draft *places; /* [count_max] */
};

enum status drafts_create(size_t count_max, uint32_t tokens_max, struct drafts **ret_drafts) {
  assert(count_max >= 1);
  struct drafts *drafts = calloc(1, sizeof *drafts);
  if (drafts == NULL) return STATUS_NO_MEMORY;
  drafts->places = calloc(count_max, sizeof *drafts->places);
  if (drafts->places == NULL) {
    free(drafts);
    return STATUS_NO_MEMORY;
  }
  drafts->count_max = count_max;
  drafts->tokens_max = tokens_max;
  drafts->next_number = 1;
  *ret_drafts = drafts;
  return STATUS_OK;
}

void drafts_destroy(struct drafts **drafts) {
  if (drafts == NULL || *drafts == NULL) return;
  for (size_t i = 0; i < (*drafts)->count_max; i++) {
    free((*drafts)->places[i].tokens);
  }
  free((*drafts)->places);
  free(*drafts);
  *drafts = NULL;
}

/* Common tokens of the two where the new ones continue the draft, else 0. */
static uint32_t draft_common(const struct draft *draft, const int32_t *tokens, uint32_t n_tokens,
                             uint32_t head_tokens) {
  if (draft->head_tokens != head_tokens) return 0;
  uint32_t shorter = n_tokens < draft->n_tokens ? n_tokens : draft->n_tokens;
  uint32_t common = 0;
  while (common < shorter && draft->tokens[common] == tokens[common]) common++;
  if (common < head_tokens) return 0;
  return 2 * (common - head_tokens) >= shorter - head_tokens ? common : 0;
}

/* The place of the draft that is meant, else a free one, else the one untouched for longest. */
static struct draft *place_find(struct drafts *drafts, uint32_t tenant, const int32_t *tokens, uint32_t n_tokens,
                                uint32_t head_tokens, bool *ret_is_known) {
  struct draft *best = NULL, *oldest = &drafts->places[0];
  uint32_t best_common = 0;
  for (size_t i = 0; i < drafts->count_max; i++) {
    struct draft *draft = &drafts->places[i];
    if (draft->touched < oldest->touched) oldest = draft;
    if (draft->number == 0 || draft->tenant != tenant) continue;
    uint32_t common = draft_common(draft, tokens, n_tokens, head_tokens);
    if (common == 0) continue;
    if (common > best_common || (common == best_common && draft->touched > best->touched)) {
      best = draft;
      best_common = common;
    }
  }
  *ret_is_known = best != NULL;
  return best != NULL ? best : oldest;
}

enum status drafts_follow(struct drafts *drafts, uint32_t tenant, const int32_t *tokens, uint32_t n_tokens,
                          uint32_t head_tokens, uint64_t *ret_draft) {
  assert(head_tokens <= n_tokens);
  if (n_tokens > drafts->tokens_max) n_tokens = drafts->tokens_max;
  if (head_tokens > n_tokens) head_tokens = n_tokens;
  bool is_known = false;
  struct draft *draft = place_find(drafts, tenant, tokens, n_tokens, head_tokens, &is_known);
  int32_t *copy = realloc(draft->tokens, (n_tokens > 0 ? n_tokens : 1) * sizeof *copy);
  if (copy == NULL) return STATUS_NO_MEMORY;
  if (n_tokens > 0) memcpy(copy, tokens, n_tokens * sizeof *copy);
  draft->tokens = copy;
  draft->n_tokens = n_tokens;
  draft->head_tokens = head_tokens;
  draft->tenant = tenant;
  draft->touched = ++drafts->calls;
  if (!is_known) draft->number = drafts->next_number++;
  *ret_draft = draft->number;
  return STATUS_OK;
}

size_t drafts_count(const struct drafts *drafts) {
  size_t count = 0;
  for (size_t i = 0; i < drafts->count_max; i++) {
    if (drafts->places[i].number != 0) count++;
  }
  return count;
}
