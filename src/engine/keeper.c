#include "engine/keeper.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "engine/keys.h"
#include "engine/reuse_job.h"
#include "engine/split.h"
#include "store/depot.h"

enum { LOSS_TOKENS = SPLIT_MICRO_BATCH_MIN /* fewer are cheaper to compute again */ };

enum keep_phase {
  KEEP_FENCE = 0, /* asked for by reuse_save and not begun */
  KEEP_ROOM,      /* the listener makes room */
  KEEP_COPY,      /* the engine writes one segment */
  KEEP_PAUSED     /* real work came; goes on when nobody waits */
};

/* One chain on its way to RAM. */
struct keep {
  struct keep *next;
  struct reuse *reuse;
  enum keep_phase phase;
  uint32_t seq;
  uint32_t upto;         /* tokens to save */
  uint32_t exact_tokens; /* of them the first so many are canonical */
  uint32_t tenant;
  uint8_t salt[32];
  int32_t *tokens;      /* [upto] as they lay there at the beginning */
  block_key *keys;      /* [upto / BLOCK_TOKENS] */
  uint64_t task;        /* preparation that wants it kept, 0: none; for the listener */
  uint64_t computed_by; /* preparation that computed [computed_from, computed_to), 0: none */
  uint32_t computed_from, computed_to;
  uint64_t room_ticket;        /* while KEEP_ROOM */
  bool has_asked;              /* for room, once */
  struct depot_ticket *ticket; /* while KEEP_COPY */
  struct reuse_job *waiter;    /* needs the sequence; NULL: nobody does */
  reuse_saved *done;           /* may be NULL */
  void *done_ctx;
};

static void advance(struct keep *keep);

static bool is_quiet(const struct reuse *reuse) {
  return reuse->n_running == 0 && reuse->n_waiting == 0;
}

void keeper_look(struct reuse *reuse, uint32_t seq) {
  struct sequence *sequence = &reuse->table.items[seq];
  uint32_t savable = sequences_savable(&reuse->table, seq);
  struct index_range first;
  uint32_t n;

  if (reuse->depot == NULL || savable == 0) {
    sequence->ram_tokens = 0;
    return;
  }
  n = depot_missing(reuse->depot, sequence->tenant, sequence->tokens, savable, sequence->canonical_tokens, &first, 1);
  sequence->ram_tokens = n > 0 ? first.from : savable;
}

static void free_keep(struct keep *keep) {
  free(keep->tokens);
  free(keep->keys);
  free(keep);
}

static uint32_t ram_tokens_of(const struct keep *keep) {
  struct index_range first;

  return depot_missing(keep->reuse->depot, keep->tenant, keep->tokens, keep->upto, 0, &first, 1) > 0 ? first.from
                                                                                                     : keep->upto;
}

static void finish(struct keep *keep, enum status status) {
  struct reuse *reuse = keep->reuse;
  struct sequence *sequence = &reuse->table.items[keep->seq];
  struct reuse_job *waiter = keep->waiter;
  uint32_t ram_tokens = ram_tokens_of(keep);
  struct keep **link = &reuse->keeps;

  while (*link != keep) {
    link = &(*link)->next;
  }
  *link = keep->next;
  keeper_look(reuse, keep->seq);
  if (status != STATUS_OK) {
    sequence->refused_tokens = sequences_savable(&reuse->table, keep->seq);
  }
  if (waiter != NULL) {
    sequence->state = SEQUENCE_IDLE;
    waiter->has_cleared = true;
  }
  if (keep->done != NULL) {
    keep->done(keep->done_ctx, status, ram_tokens);
  }
  free_keep(keep);
  if (waiter != NULL) {
    reuse_job_place(waiter);
  }
  reuse_step(reuse);
}

static block_key key_of(const struct keep *keep, uint32_t upto) {
  uint32_t n_blocks = upto / BLOCK_TOKENS, rest = upto % BLOCK_TOKENS;
  const block_key *last = n_blocks > 0 ? &keep->keys[n_blocks - 1] : NULL;

  if (upto == 0) {
    return (block_key){0, 0};
  }
  if (rest == 0) {
    return *last;
  }
  return keys_extend(keep->reuse->keys, keep->salt, keep->reuse->options.compat, last, keep->tokens + upto - rest,
                     rest);
}

static void copied(void *ctx, enum status status, uint64_t bytes, uint64_t us) {
  struct keep *keep = ctx;
  struct depot_ticket *ticket = keep->ticket;

  (void)bytes;
  (void)us;
  keep->ticket = NULL;
  if (status != STATUS_OK) {
    depot_abort(keep->reuse->depot, ticket);
    finish(keep, status);
    return;
  }
  status = depot_commit(keep->reuse->depot, ticket, NULL);
  if (status != STATUS_OK) {
    finish(keep, status);
    return;
  }
  advance(keep);
}

/* A segment is a preparation's where that computed its end. */
static uint64_t task_of(const struct keep *keep, struct index_range range) {
  return range.to > keep->computed_from && range.to <= keep->computed_to ? keep->computed_by : 0;
}

static uint32_t exact_of(const struct keep *keep, struct index_range range) {
  return range.to < keep->exact_tokens ? range.to : keep->exact_tokens;
}

/* STATUS_BUSY: another job has the sequence now, or the range went from it. */
static enum status copy_range(struct keep *keep, struct index_range range) {
  struct reuse *reuse = keep->reuse;
  const struct sequence *sequence = &reuse->table.items[keep->seq];
  struct engine_target target = {
      .from = range.from, .to = range.to, .size = engine_state_bytes(reuse->engine, range.from, range.to)};
  enum status status;

  if (sequence->state == SEQUENCE_BUSY || range.to > sequences_savable(&reuse->table, keep->seq) ||
      sequence_common(sequence, keep->salt, keep->tokens, range.to) < range.to) {
    return STATUS_BUSY;
  }
  status =
      depot_reserve(reuse->depot, keep->tenant, keep->tokens, range.from, range.to, exact_of(keep, range),
                    key_of(keep, range.to), key_of(keep, range.from), task_of(keep, range), &keep->ticket,
                    &target.bytes);
  if (status != STATUS_OK) {
    return status;
  }
  keep->phase = KEEP_COPY;
  status = engine_state_save(reuse->engine, keep->seq, &target, 1, keep->waiter != NULL, copied, keep);
  if (status != STATUS_OK) {
    depot_abort(reuse->depot, keep->ticket);
    keep->ticket = NULL;
  }
  return status;
}

static void ask_room(struct keep *keep, const struct index_range *ranges, uint32_t n) {
  struct reuse *reuse = keep->reuse;
  uint64_t bytes = 0;

  for (uint32_t i = 0; i < n; i++) {
    bytes += depot_segment_bytes(reuse->depot, ranges[i].to - ranges[i].from);
  }
  keep->has_asked = true;
  if (bytes <= depot_room(reuse->depot)) {
    advance(keep);
    return;
  }
  keep->phase = KEEP_ROOM;
  keep->room_ticket = ++reuse->ticket_last;
  reuse->options.listener.make_room(reuse->options.listener.ctx, keep->room_ticket, bytes, keep->tenant, keep->task);
}

/* The next segment, or the end. */
static void advance(struct keep *keep) {
  struct reuse *reuse = keep->reuse;
  struct index_range ranges[INDEX_MATCH_MAX];
  uint32_t n = depot_missing(reuse->depot, keep->tenant, keep->tokens, keep->upto, keep->exact_tokens, ranges,
                             INDEX_MATCH_MAX);
  enum status status;

  if (n == 0) {
    finish(keep, STATUS_OK);
    return;
  }
  if (keep->waiter != NULL && keep->waiter->is_cancelled) {
    finish(keep, STATUS_CANCELLED);
    return;
  }
  if (keep->waiter == NULL && !is_quiet(reuse)) {
    keep->phase = KEEP_PAUSED;
    return;
  }
  if (!keep->has_asked && reuse->options.listener.make_room != NULL) {
    ask_room(keep, ranges, n);
    return;
  }
  status = copy_range(keep, ranges[0]);
  if (status != STATUS_OK) {
    finish(keep, status == STATUS_BUSY || status == STATUS_TOO_LONG ? STATUS_NOT_FOUND : status);
  }
}

static struct keep *create_keep(struct reuse *reuse, uint32_t seq, uint32_t upto, uint64_t task) {
  const struct sequence *sequence = &reuse->table.items[seq];
  struct keep *keep = calloc(1, sizeof(*keep));

  if (keep == NULL) {
    return NULL;
  }
  keep->tokens = malloc(upto * sizeof(*keep->tokens));
  keep->keys = malloc((upto / BLOCK_TOKENS + 1) * sizeof(*keep->keys));
  if (keep->tokens == NULL || keep->keys == NULL) {
    free_keep(keep);
    return NULL;
  }
  keep->reuse = reuse;
  keep->seq = seq;
  keep->upto = upto;
  keep->exact_tokens = sequence->canonical_tokens < upto ? sequence->canonical_tokens : upto;
  keep->tenant = sequence->tenant;
  keep->task = task;
  keep->computed_by = sequence->task;
  keep->computed_from = sequence->task_from;
  keep->computed_to = sequence->task_to;
  memcpy(keep->salt, sequence->salt, sizeof(keep->salt));
  memcpy(keep->tokens, sequence->tokens, upto * sizeof(*keep->tokens));
  (void)keys_chain(reuse->keys, keep->salt, reuse->options.compat, NULL, keep->tokens, upto, BLOCK_TOKENS, keep->keys);
  keep->next = reuse->keeps;
  reuse->keeps = keep;
  return keep;
}

void keeper_clear(struct reuse *reuse, uint32_t seq, struct reuse_job *waiter) {
  struct sequence *sequence = &reuse->table.items[seq];
  struct keep *keep = create_keep(reuse, seq, sequences_savable(&reuse->table, seq), sequence->task);

  if (keep == NULL) {
    waiter->has_cleared = true;
    reuse_job_place(waiter);
    return;
  }
  sequence->state = SEQUENCE_HELD;
  keep->waiter = waiter;
  advance(keep);
}

static void fence_passed(void *ctx, enum status status, uint64_t bytes, uint64_t us) {
  struct keep *keep = ctx;

  (void)bytes;
  (void)us;
  if (status != STATUS_OK) {
    finish(keep, status);
  } else {
    advance(keep);
  }
}

enum status keeper_save(struct reuse *reuse, uint32_t seq, uint32_t upto, uint64_t task, reuse_saved *done,
                        void *done_ctx) {
  struct keep *keep = create_keep(reuse, seq, upto, task);
  enum status status;

  if (keep == NULL) {
    return STATUS_NO_MEMORY;
  }
  /* Through the engine even where there is nothing to copy: `done` must not come before this returns. */
  status = engine_state_save(reuse->engine, seq, NULL, 0, false, fence_passed, keep);
  if (status != STATUS_OK) {
    reuse->keeps = keep->next;
    free_keep(keep);
    return status;
  }
  keep->done = done;
  keep->done_ctx = done_ctx;
  return STATUS_OK;
}

/* The idle sequence used last of which most would be lost; SEQUENCE_NONE: none is worth a copy. */
static uint32_t next_unsaved(struct reuse *reuse) {
  uint32_t best = SEQUENCE_NONE;

  for (uint32_t i = 0; i < reuse->table.count; i++) {
    const struct sequence *sequence = &reuse->table.items[i];

    uint32_t savable = sequences_savable(&reuse->table, i);

    if (sequence->state != SEQUENCE_IDLE || savable < LOSS_TOKENS || sequence->refused_tokens == savable) {
      continue;
    }
    keeper_look(reuse, i);
    if (sequences_unsaved(&reuse->table, i, 0) >= LOSS_TOKENS &&
        (best == SEQUENCE_NONE || sequence->used_us > reuse->table.items[best].used_us)) {
      best = i;
    }
  }
  return best;
}

void keeper_step(struct reuse *reuse) {
  uint32_t seq;
  struct keep *keep;

  if (reuse->depot == NULL || !is_quiet(reuse)) {
    return;
  }
  for (keep = reuse->keeps; keep != NULL; keep = keep->next) {
    if (keep->phase == KEEP_PAUSED) {
      keep->phase = KEEP_FENCE;
      advance(keep);
      return; /* its end steps again */
    }
  }
  if (reuse->keeps != NULL) {
    return;
  }
  seq = next_unsaved(reuse);
  if (seq == SEQUENCE_NONE) {
    return;
  }
  keep = create_keep(reuse, seq, sequences_savable(&reuse->table, seq), reuse->table.items[seq].task);
  if (keep != NULL) {
    advance(keep);
  }
}

bool keeper_room_made(struct reuse *reuse, uint64_t ticket, enum status status) {
  for (struct keep *keep = reuse->keeps; keep != NULL; keep = keep->next) {
    if (keep->phase == KEEP_ROOM && keep->room_ticket == ticket) {
      keep->phase = KEEP_FENCE;
      if (status == STATUS_OK) {
        advance(keep);
      } else {
        finish(keep, status);
      }
      return true;
    }
  }
  return false;
}

uint32_t keeper_count(const struct reuse *reuse) {
  uint32_t n = 0;

  for (const struct keep *keep = reuse->keeps; keep != NULL; keep = keep->next) {
    n++;
  }
  return n;
}

void keeper_close(struct reuse *reuse) {
  while (reuse->keeps != NULL) {
    assert(reuse->keeps->ticket == NULL);
    finish(reuse->keeps, STATUS_CLOSED);
  }
}
