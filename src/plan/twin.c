#include "plan/twin.h"

#include <stdlib.h>
#include <string.h>

/* As in engine/reuse_job.h and engine/sequence.c, which a room that decides cannot include. */
enum { GAIN_TOKENS = 64, LEAST_TOKENS = 16, MICRO_BATCH_TOKENS = 64, SEQUENCE_NONE = UINT32_MAX };

struct twin_sequence {
  uint32_t n_tokens; /* 0: empty */
  uint32_t n_blocks;
  uint32_t canonical_tokens; /* ≤ n_tokens; what is copied to the store */
  uint64_t used;             /* order of use */
  block_key *keys;           /* [n_blocks] */
  int32_t *tokens;           /* [n_tokens]; says nothing unless has_tokens */
  bool has_tokens;
};

struct twin {
  struct twin_config config;
  struct shelf *shelf;
  struct twin_sequence *sequences; /* [config.sequences], each with room for sequence_tokens */
  uint64_t clock;                  /* of use */
};

enum status twin_create(const struct twin_config *config, struct twin **ret_twin) {
  struct twin *twin = calloc(1, sizeof *twin);
  if (!twin) return STATUS_NO_MEMORY;
  twin->config = *config;
  if (!config->sequence_tokens) twin->config.sequences = 0;
  enum status status = shelf_create(&config->shelf, &twin->shelf);
  if (status == STATUS_OK && twin->config.sequences) {
    twin->sequences = calloc(twin->config.sequences, sizeof *twin->sequences);
    if (!twin->sequences) status = STATUS_NO_MEMORY;
  }
  if (status != STATUS_OK) {
    twin_destroy(&twin);
    return status;
  }
  *ret_twin = twin;
  return STATUS_OK;
}

void twin_destroy(struct twin **reference) {
  struct twin *twin = *reference;
  if (!twin) return;
  for (uint32_t i = 0; twin->sequences && i < twin->config.sequences; i++) {
    free(twin->sequences[i].keys);
    free(twin->sequences[i].tokens);
  }
  if (twin->shelf) shelf_destroy(&twin->shelf);
  free(twin->sequences);
  free(twin);
  *reference = NULL;
}

struct shelf *twin_shelf(struct twin *twin) {
  return twin->shelf;
}

/* ── what may be reused ── */

static struct passage sequence_passage(const struct twin *twin, const struct twin_sequence *sequence) {
  return passage_of(sequence->keys, sequence->has_tokens ? sequence->tokens : NULL, sequence->n_tokens,
                    twin->config.shelf.block_tokens);
}

/* Of a match of `common` tokens, `canonical` of them canonical, what may serve. */
static uint32_t reusable_of(const struct twin *twin, uint32_t common, uint32_t canonical, uint32_t prompt_tokens) {
  uint32_t whole = prompt_tokens ? prompt_tokens - 1 : 0, reusable = common < whole ? common : whole;
  if (!twin->config.is_exact) return reusable;
  if (reusable > canonical) reusable = canonical;
  if (reusable == whole) return reusable;
  if (whole < MICRO_BATCH_TOKENS) return 0;
  return reusable < whole - MICRO_BATCH_TOKENS ? reusable : whole - MICRO_BATCH_TOKENS;
}

/* Tokens that would be lost if only the first `keep` stayed in the sequence. */
static uint32_t unsaved_tokens(const struct twin *twin, const struct twin_sequence *sequence, uint32_t keep) {
  struct passage own = sequence_passage(twin, sequence), canonical = passage_cut(&own, sequence->canonical_tokens);
  uint32_t safe = shelf_kept(twin->shelf, &canonical);
  if (safe < keep) safe = keep;
  return canonical.n_tokens > safe ? canonical.n_tokens - safe : 0;
}

static uint32_t victim_of(const struct twin *twin) {
  uint32_t best = SEQUENCE_NONE, best_rank = 3;
  for (uint32_t i = 0; i < twin->config.sequences; i++) {
    const struct twin_sequence *sequence = &twin->sequences[i];
    uint32_t rank = !sequence->n_tokens ? 0 : unsaved_tokens(twin, sequence, 0) < GAIN_TOKENS ? 1 : 2;
    if (rank < best_rank || (rank == best_rank && sequence->used < twin->sequences[best].used)) {
      best = i;
      best_rank = rank;
    }
  }
  return best;
}

/* Where a prompt would be computed and what it would begin with. */
struct choice {
  uint32_t sequence; /* SEQUENCE_NONE: there is none */
  uint32_t keep;     /* tokens that stay in it … */
  uint32_t load;     /* … or, > 0, that are loaded from the store instead */
};

static uint32_t match_of(const struct twin *twin, const struct passage *prompt, uint32_t prompt_tokens,
                         uint32_t *ret_reusable) {
  uint32_t best = SEQUENCE_NONE;
  *ret_reusable = 0;
  for (uint32_t i = 0; i < twin->config.sequences; i++) {
    const struct twin_sequence *sequence = &twin->sequences[i];
    struct passage own = sequence_passage(twin, sequence);
    uint32_t common = passage_common(&own, prompt);
    if (common < prompt->block_tokens) continue; /* perhaps another tenant's */
    uint32_t reusable = reusable_of(twin, common, sequence->canonical_tokens, prompt_tokens);
    bool is_newer = reusable == *ret_reusable && best != SEQUENCE_NONE && sequence->used > twin->sequences[best].used;
    if (reusable > *ret_reusable || is_newer) {
      best = i;
      *ret_reusable = reusable;
    }
  }
  return best;
}

static struct choice choose(const struct twin *twin, const struct passage *prompt, uint32_t prompt_tokens) {
  uint32_t device, rest = 0, match = match_of(twin, prompt, prompt_tokens, &device);
  uint32_t stored = shelf_match(twin->shelf, prompt), victim = victim_of(twin);
  stored = reusable_of(twin, stored, stored, prompt_tokens);
  if (stored < LEAST_TOKENS) stored = 0;
  if (match != SEQUENCE_NONE) rest = twin->sequences[match].n_tokens - device;
  if (device < LEAST_TOKENS && rest >= GAIN_TOKENS) {
    match = SEQUENCE_NONE;
    device = 0;
  }
  if (stored >= device + GAIN_TOKENS || (device == 0 && stored > 0)) {
    uint32_t sequence = match != SEQUENCE_NONE && rest < GAIN_TOKENS ? match : victim;
    return (struct choice){.sequence = sequence, .load = stored};
  }
  if (match != SEQUENCE_NONE && rest >= GAIN_TOKENS && victim != match && stored > 0 && stored + GAIN_TOKENS > device) {
    return (struct choice){.sequence = victim, .load = stored};
  }
  if (match != SEQUENCE_NONE) return (struct choice){.sequence = match, .keep = device};
  return (struct choice){.sequence = victim};
}

uint32_t twin_find(const struct twin *twin, const struct passage *prompt, uint32_t prompt_tokens) {
  struct choice choice = choose(twin, prompt, prompt_tokens);
  return choice.load > 0 ? choice.load : choice.keep;
}

/* ── what a request leaves behind ── */

static enum status sequence_save(struct twin *twin, const struct twin_sequence *sequence, uint64_t now_us) {
  struct passage own = sequence_passage(twin, sequence), canonical = passage_cut(&own, sequence->canonical_tokens);
  return shelf_keep(twin->shelf, &canonical, TIER_RAM, now_us);
}

static enum status sequence_assign(struct twin *twin, struct twin_sequence *sequence, const struct passage *held,
                                   uint32_t canonical_tokens) {
  uint32_t n_tokens = held->n_tokens < twin->config.sequence_tokens ? held->n_tokens : twin->config.sequence_tokens;
  struct passage kept = passage_cut(held, n_tokens);
  if (!sequence->keys) {
    uint32_t blocks = twin->config.sequence_tokens / held->block_tokens + 1;
    sequence->keys = malloc(blocks * sizeof *sequence->keys);
    if (!sequence->keys) return STATUS_NO_MEMORY;
  }
  if (kept.tokens && !sequence->tokens) {
    sequence->tokens = malloc(twin->config.sequence_tokens * sizeof *sequence->tokens);
    if (!sequence->tokens) return STATUS_NO_MEMORY;
  }
  sequence->n_tokens = kept.n_tokens;
  sequence->n_blocks = kept.n_blocks;
  sequence->canonical_tokens = canonical_tokens < kept.n_tokens ? canonical_tokens : kept.n_tokens;
  sequence->has_tokens = kept.tokens != NULL;
  sequence->used = ++twin->clock;
  if (kept.n_blocks) memcpy(sequence->keys, kept.keys, kept.n_blocks * sizeof *sequence->keys);
  if (kept.tokens) memcpy(sequence->tokens, kept.tokens, kept.n_tokens * sizeof *sequence->tokens);
  return STATUS_OK;
}

/* The idle engine copies what would be lost, what was used last first; each sequence once. */
static enum status sequences_save(struct twin *twin, uint64_t now_us) {
  uint64_t below = UINT64_MAX;
  for (;;) {
    const struct twin_sequence *next = NULL;
    for (uint32_t i = 0; i < twin->config.sequences; i++) {
      const struct twin_sequence *sequence = &twin->sequences[i];
      if (!sequence->n_tokens || sequence->used >= below) continue;
      if (!next || sequence->used > next->used) next = sequence;
    }
    if (!next) return STATUS_OK;
    below = next->used;
    if (unsaved_tokens(twin, next, 0) < GAIN_TOKENS) continue;
    enum status status = sequence_save(twin, next, now_us);
    if (status != STATUS_OK) return status;
  }
}

/* Computes the prompt where it would have been computed, and copies what has to be copied. */
static enum status run_place(struct twin *twin, const struct twin_run *run, uint64_t now_us) {
  uint32_t whole = run->prompt_tokens ? run->prompt_tokens - 1 : 0; /* the last one is not computed canonically */
  struct passage canonical = passage_cut(&run->prompt, whole);
  struct choice choice = choose(twin, &run->prompt, run->prompt_tokens);
  if (choice.sequence == SEQUENCE_NONE) return shelf_keep(twin->shelf, &canonical, TIER_RAM, now_us);
  struct twin_sequence *sequence = &twin->sequences[choice.sequence];
  enum status status = STATUS_OK;
  if (unsaved_tokens(twin, sequence, choice.load > 0 ? 0 : choice.keep) >= GAIN_TOKENS) {
    status = sequence_save(twin, sequence, now_us);
  }
  if (status == STATUS_OK) status = sequence_assign(twin, sequence, &run->held, canonical.n_tokens);
  if (status == STATUS_OK && run->is_quiet) status = sequences_save(twin, now_us);
  return status;
}

enum status twin_serve(struct twin *twin, const struct twin_run *run, uint64_t now_us) {
  enum status status = run_place(twin, run, now_us);
  return status == STATUS_OK ? shelf_use(twin->shelf, &run->prompt, run->turn, now_us) : status;
}
