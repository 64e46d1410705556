/* The table of device sequences: whose tokens lie where, how many of them were computed canonically, what RAM has of
 * them, and which one to give up next. Pure bookkeeping; never calls the engine. Loop thread. Owns the token arrays. */
#ifndef FORELAY_ENGINE_SEQUENCE_H
#define FORELAY_ENGINE_SEQUENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum sequence_state {
  SEQUENCE_IDLE = 0, /* perhaps empty */
  SEQUENCE_BUSY,     /* a job has it */
  SEQUENCE_HELD      /* its content is being copied out to make place for a job that already owns it */
};

enum { SEQUENCE_NONE = UINT32_MAX };

struct sequence {
  enum sequence_state state;
  uint32_t n_tokens;         /* 0: empty; while busy: what was kept for the job */
  uint32_t canonical_tokens; /* ≤ n_tokens */
  uint32_t ram_tokens;       /* ≤ n_tokens: so many were in RAM when last looked at */
  uint32_t tenant;
  uint8_t salt[32];
  uint64_t task; /* preparation that computed [task_from, task_to), 0: none */
  uint32_t task_from, task_to;
  uint32_t refused_tokens; /* savable tokens for which there was no room in RAM: not asked again until they change */
  uint64_t used_us;        /* last begin or end of a job */
  int32_t *tokens;         /* [n_tokens], room for tokens_max */
};

struct sequences {
  struct sequence *items; /* [count] */
  uint32_t count;
  uint32_t tokens_max;
  bool saves_near; /* what was generated is worth a copy, too */
};

/* count ≥ 1 sequences of at most tokens_max tokens, all empty. */
MUST_USE enum status sequences_init(struct sequences *table, uint32_t count, uint32_t tokens_max, bool saves_near);
void sequences_release(struct sequences *table);

/* Leading tokens that both arrays have in common. */
uint32_t tokens_common(const int32_t *a, uint32_t n_a, const int32_t *b, uint32_t n_b);
/* Leading tokens of the prompt that lie in the sequence; 0 for another salt. */
uint32_t sequence_common(const struct sequence *sequence, const uint8_t salt[32], const int32_t *tokens, uint32_t n);
/* Of a match of `common` tokens with a prompt of n, how many may be reused: all but the last token of the prompt, and
 * where the run must equal a cold one, canonical ones only, leaving no micro-batch under 64 tokens. `has_output`: the
 * last prompt token is computed alone. */
uint32_t sequence_reusable(uint32_t common, uint32_t canonical, uint32_t n, bool is_exact, bool has_output);

/* What a prompt asks of a sequence. */
struct sequence_ask {
  const uint8_t *salt;   /* [32] */
  const int32_t *tokens; /* [n] */
  uint32_t n;
  bool is_exact, has_output;
  bool needs_whole; /* the engine cannot drop a suffix: all that lies there or nothing */
};

/* The idle sequence with most reusable tokens (SEQUENCE_NONE where none has any); ties: used last, then lower number.
 */
uint32_t sequences_match(const struct sequences *table, const struct sequence_ask *ask, uint32_t *ret_reusable);
/* Tokens of the sequence that a copy should have: the canonical ones, or all where near reuse takes those, too. */
uint32_t sequences_savable(const struct sequences *table, uint32_t seq);
/* Tokens that would be lost for good if only the first `keep_tokens` stayed: savable and not in RAM. */
uint32_t sequences_unsaved(const struct sequences *table, uint32_t seq, uint32_t keep_tokens);
/* The idle sequence to overwrite: an empty one, else one of which fewer than 64 tokens would be lost (used longest
 * ago), else the one used longest ago; SEQUENCE_NONE when none is idle. */
uint32_t sequences_victim(const struct sequences *table);

/* Makes the sequence hold these tokens (≤ tokens_max) of that owner; ram_tokens and the task's range are cut to what is
 * common with what lay there. */
void sequence_assign(struct sequence *sequence, uint32_t tenant, const uint8_t salt[32], const int32_t *tokens,
                     uint32_t n_tokens, uint32_t canonical_tokens);
/* Drops all but the first n_tokens. */
void sequence_cut(struct sequence *sequence, uint32_t n_tokens);

#endif
