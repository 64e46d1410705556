#include "engine/sequence.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "engine/split.h"

enum { LOSS_TOKENS = SPLIT_MICRO_BATCH_MIN }; /* fewer are cheaper to compute again than to wait for a copy */

enum status sequences_init(struct sequences *table, uint32_t count, uint32_t tokens_max, bool saves_near) {
  assert(count > 0 && tokens_max > 0);
  *table = (struct sequences){.count = count, .tokens_max = tokens_max, .saves_near = saves_near};
  table->items = calloc(count, sizeof(*table->items));
  if (table->items == NULL) {
    return STATUS_NO_MEMORY;
  }
  for (uint32_t i = 0; i < count; i++) {
    table->items[i].tokens = malloc(tokens_max * sizeof(*table->items[i].tokens));
    if (table->items[i].tokens == NULL) {
      sequences_release(table);
      return STATUS_NO_MEMORY;
    }
  }
  return STATUS_OK;
}

void sequences_release(struct sequences *table) {
  for (uint32_t i = 0; table->items != NULL && i < table->count; i++) {
    free(table->items[i].tokens);
  }
  free(table->items);
  *table = (struct sequences){0};
}

uint32_t tokens_common(const int32_t *a, uint32_t n_a, const int32_t *b, uint32_t n_b) {
  uint32_t n = n_a < n_b ? n_a : n_b;

  for (uint32_t i = 0; i < n; i++) {
    if (a[i] != b[i]) {
      return i;
    }
  }
  return n;
}

uint32_t sequence_common(const struct sequence *sequence, const uint8_t salt[32], const int32_t *tokens, uint32_t n) {
  if (sequence->n_tokens == 0 || memcmp(sequence->salt, salt, sizeof(sequence->salt)) != 0) {
    return 0;
  }
  return tokens_common(sequence->tokens, sequence->n_tokens, tokens, n);
}

uint32_t sequence_reusable(uint32_t common, uint32_t canonical, uint32_t n, bool is_exact, bool has_output) {
  uint32_t whole = has_output ? n - 1 : n; /* all that ordinary pieces compute */
  uint32_t reusable = common < whole ? common : whole;

  assert(n > 0);
  if (!is_exact) {
    return reusable;
  }
  reusable = reusable < canonical ? reusable : canonical;
  if (reusable == whole) {
    return reusable;
  }
  if (whole < SPLIT_MICRO_BATCH_MIN) {
    return 0;
  }
  return reusable < whole - SPLIT_MICRO_BATCH_MIN ? reusable : whole - SPLIT_MICRO_BATCH_MIN;
}

static uint32_t reusable_of(const struct sequence *sequence, const struct sequence_ask *ask) {
  uint32_t common = sequence_common(sequence, ask->salt, ask->tokens, ask->n);
  uint32_t reusable = sequence_reusable(common, sequence->canonical_tokens, ask->n, ask->is_exact, ask->has_output);

  return ask->needs_whole && reusable != sequence->n_tokens ? 0 : reusable;
}

uint32_t sequences_match(const struct sequences *table, const struct sequence_ask *ask, uint32_t *ret_reusable) {
  uint32_t best = SEQUENCE_NONE, best_reusable = 0;

  for (uint32_t i = 0; i < table->count; i++) {
    const struct sequence *sequence = &table->items[i];
    uint32_t reusable;

    if (sequence->state != SEQUENCE_IDLE) {
      continue;
    }
    reusable = reusable_of(sequence, ask);
    if (reusable > best_reusable ||
        (reusable == best_reusable && best != SEQUENCE_NONE && sequence->used_us > table->items[best].used_us)) {
      best = i;
      best_reusable = reusable;
    }
  }
  *ret_reusable = best_reusable;
  return best;
}

uint32_t sequences_savable(const struct sequences *table, uint32_t seq) {
  const struct sequence *sequence = &table->items[seq];

  return table->saves_near ? sequence->n_tokens : sequence->canonical_tokens;
}

uint32_t sequences_unsaved(const struct sequences *table, uint32_t seq, uint32_t keep_tokens) {
  uint32_t savable = sequences_savable(table, seq), ram = table->items[seq].ram_tokens;
  uint32_t safe = ram > keep_tokens ? ram : keep_tokens;

  return savable > safe ? savable - safe : 0;
}

uint32_t sequences_victim(const struct sequences *table) {
  uint32_t best = SEQUENCE_NONE, best_rank = UINT32_MAX;

  for (uint32_t i = 0; i < table->count; i++) {
    const struct sequence *sequence = &table->items[i];
    uint32_t rank;

    if (sequence->state != SEQUENCE_IDLE) {
      continue;
    }
    rank = sequence->n_tokens == 0 ? 0 : sequences_unsaved(table, i, 0) < LOSS_TOKENS ? 1 : 2;
    if (rank < best_rank || (rank == best_rank && sequence->used_us < table->items[best].used_us)) {
      best = i;
      best_rank = rank;
    }
  }
  return best;
}

void sequence_assign(struct sequence *sequence, uint32_t tenant, const uint8_t salt[32], const int32_t *tokens,
                     uint32_t n_tokens, uint32_t canonical_tokens) {
  assert(canonical_tokens <= n_tokens);
  sequence_cut(sequence, sequence_common(sequence, salt, tokens, n_tokens));
  sequence->tenant = tenant;
  memcpy(sequence->salt, salt, sizeof(sequence->salt));
  memmove(sequence->tokens, tokens, n_tokens * sizeof(*tokens));
  sequence->n_tokens = n_tokens;
  sequence->canonical_tokens = canonical_tokens;
  sequence->refused_tokens = 0;
}

void sequence_cut(struct sequence *sequence, uint32_t n_tokens) {
  if (n_tokens >= sequence->n_tokens) {
    return;
  }
  sequence->n_tokens = n_tokens;
  if (sequence->canonical_tokens > n_tokens) {
    sequence->canonical_tokens = n_tokens;
  }
  if (sequence->ram_tokens > n_tokens) {
    sequence->ram_tokens = n_tokens;
  }
  if (sequence->task_to > n_tokens) {
    sequence->task_to = n_tokens;
  }
  if (sequence->task_from >= sequence->task_to) {
    sequence->task = 0;
    sequence->task_from = sequence->task_to = 0;
  }
}
