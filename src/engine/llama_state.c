/* States of sequences, out and in: libllama's blob cut into ranges of tokens and joined again. A blob is
 *   u32 magic, i32 sequence, u32 streams, then for every stream u32 cells; the own stream's cells are
 *   {i32 position, u32 1, i32 sequence}, then u32 V lies across cells, u32 layers, K of every layer, V of every layer,
 * each part a head of 12 bytes and its rows (ENGINE.md, read off llama-kv-cache.cpp and proven at every open). */
#include "engine/llama_model.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "engine/llama_guard.h"

enum {
  HEAD_BYTES = 12,   /* magic, sequence, streams */
  CELL_BYTES = 12,   /* position, count of sequences, sequence */
  BODY_BYTES = 8,    /* V across cells, layers */
  PROBE_TOKENS = 64, /* of the self-test: the smallest canonical piece */
  LAYERS_MAX = 4096,
  STAGING_BYTES_MIN = 16 << 20,
  STAGING_BYTES_OPEN_MAX = 256 << 20, /* touched at open, so that the first request does not pay for it */
  PAGE_BYTES_HUGE = 2 << 20
};

static uint32_t word_at(const uint8_t *at) {
  uint32_t word;
  memcpy(&word, at, sizeof word);
  return word;
}

static uint8_t *word_put(uint8_t *at, uint32_t word) {
  memcpy(at, &word, sizeof word);
  return at + sizeof word;
}

static void sequence_empty(struct model *model, uint32_t seq) {
  bool is_empty = model_seq_remove(model, seq, 0); /* a whole one can always be removed */
  assert(is_empty);
  (void)is_empty;
}

/* Room for `size` bytes, pages touched: a fresh buffer costs more in page faults than the copy into it. */
static enum status staging_reserve(struct model *model, size_t size, struct error *error) {
  if (size <= model->staging_size) return STATUS_OK;
  size_t grown = model->staging_size ? model->staging_size + model->staging_size / 2 : STAGING_BYTES_MIN;
  if (grown < size) grown = size;
  grown = (grown + PAGE_BYTES_HUGE - 1) / PAGE_BYTES_HUGE * PAGE_BYTES_HUGE;
  uint8_t *staging = aligned_alloc(PAGE_BYTES_HUGE, grown);
  if (!staging) return error_set(error, STATUS_NO_MEMORY, "no memory for a state of %zu bytes", size);
  madvise(staging, grown, MADV_HUGEPAGE); /* only makes it faster */
  memset(staging, 0, grown);
  free(model->staging);
  model->staging = staging;
  model->staging_size = grown;
  return STATUS_OK;
}

void state_outdate(struct model *model, uint32_t seq) {
  if (model->staged_seq == seq) model->staged_bytes = 0;
}

/* The sequence's blob, in staging. A state that leaves in several saves is fetched once. */
static enum status blob_get(struct model *model, uint32_t seq, size_t *ret_size, struct error *error) {
  size_t size = 0, written = 0;
  if (model->staged_bytes > 0 && model->staged_seq == seq) {
    *ret_size = model->staged_bytes;
    return STATUS_OK;
  }
  model->staged_bytes = 0;
  enum status status = guard_state_size(model->context, (int32_t)seq, &size, error);
  if (status == STATUS_OK) status = staging_reserve(model, size, error);
  if (status == STATUS_OK)
    status = guard_state_get(model->context, (int32_t)seq, model->staging, size, &written, error);
  if (status != STATUS_OK) return status;
  if (written != size || size < HEAD_BYTES)
    return error_set(error, STATUS_UNSUPPORTED, "sequence %u: libllama gave %zu of %zu bytes of its state", seq,
                     written, size);
  model->staged_seq = seq;
  *ret_size = model->staged_bytes = size;
  return STATUS_OK;
}

/* libllama takes blob[size] for seq, or seq is empty. */
static enum status blob_set(struct model *model, uint32_t seq, const uint8_t *blob, size_t size, uint32_t n_tokens,
                            struct error *error) {
  size_t used = 0;
  llama_log_clear();
  enum status status = guard_state_set(model->context, (int32_t)seq, blob, size, &used, error);
  if (status == STATUS_OK && used != size)
    status = error_set(error, STATUS_INCOMPATIBLE, "libllama refused a state of %u tokens: %s", n_tokens,
                       llama_log_text()[0] ? llama_log_text() : "no reason given");
  if (status == STATUS_OK && model_seq_tokens(model, seq) != n_tokens)
    status = error_set(error, STATUS_CORRUPT, "a state of %u tokens came back as %u", n_tokens,
                       model_seq_tokens(model, seq));
  if (status != STATUS_OK) sequence_empty(model, seq);
  return status;
}

static uint64_t part_bytes(const struct state_part *part, uint32_t n) {
  return (uint64_t)part->lanes * part->lane_bytes * n;
}

static size_t blob_bytes(const struct model *model, uint32_t n) {
  return HEAD_BYTES + 4 * (size_t)model->facts.sequences + (size_t)n * CELL_BYTES + BODY_BYTES +
         model->layout.n_parts * sizeof model->layout.parts->head + (size_t)n * model->facts.bytes_per_token;
}

/* Where the cells of a blob of seq begin, NULL where it is not laid out so. */
static const uint8_t *blob_cells(const struct model *model, const uint8_t *blob, size_t size, uint32_t seq,
                                 uint32_t n) {
  size_t before = HEAD_BYTES + 4 * (size_t)seq;
  if (size < before + 4 + (size_t)n * CELL_BYTES + BODY_BYTES) return NULL;
  if (word_at(blob + 4) != seq || word_at(blob + 8) != model->facts.sequences) return NULL;
  for (uint32_t i = 0; i < seq; i++)
    if (word_at(blob + HEAD_BYTES + 4 * i) != 0) return NULL;
  return word_at(blob + before) == n ? blob + before + 4 : NULL;
}

/* Fills cell_of; *ret_is_plain: cell i holds position i. false: a position is missing, doubled or shared. */
static bool blob_positions(struct model *model, const uint8_t *cells, uint32_t seq, uint32_t n, bool *ret_is_plain) {
  bool is_plain = true;
  for (uint32_t i = 0; i < n; i++) model->cell_of[i] = UINT32_MAX;
  for (uint32_t i = 0; i < n; i++) {
    const uint8_t *cell = cells + (size_t)i * CELL_BYTES;
    uint32_t position = word_at(cell);
    if (position >= n || model->cell_of[position] != UINT32_MAX || word_at(cell + 4) != 1 || word_at(cell + 8) != seq)
      return false;
    model->cell_of[position] = i;
    is_plain = is_plain && position == i;
  }
  *ret_is_plain = is_plain;
  return true;
}

/* Reads heads off a blob of n tokens into the layout: its K parts, then V parts up to the counts of later streams. */
static bool layout_read(struct model *model, const uint8_t *blob, size_t size, uint32_t seq, uint32_t n) {
  struct state_layout *layout = &model->layout;
  const uint8_t *cells = blob_cells(model, blob, size, seq, n);
  bool is_plain;
  if (!cells || !blob_positions(model, cells, seq, n, &is_plain)) return false;
  const uint8_t *at = cells + (size_t)n * CELL_BYTES;
  const uint8_t *end = blob + size - 4 * (size_t)(model->facts.sequences - 1 - seq);
  layout->magic = word_at(blob);
  layout->is_transposed = word_at(at) != 0;
  layout->n_layers = word_at(at + 4);
  if (word_at(at) > 1 || layout->n_layers < 1 || layout->n_layers > LAYERS_MAX) return false;
  layout->parts = calloc(2 * layout->n_layers, sizeof *layout->parts);
  if (!layout->parts) return false;
  uint64_t bytes_per_token = 0;
  uint32_t i = 0;
  for (at += BODY_BYTES; at < end; i++) {
    if (i == 2 * layout->n_layers || end - at < (ptrdiff_t)sizeof layout->parts->head) return false;
    struct state_part *part = &layout->parts[i];
    memcpy(part->head, at, sizeof part->head);
    bool is_across = i >= layout->n_layers && layout->is_transposed;
    part->lanes = is_across ? word_at(at + 8) : 1;
    part->lane_bytes = word_at(at + 4);
    if (!is_across && word_at(at + 8) != 0) return false; /* high half of a row's bytes */
    at += sizeof part->head;
    if (part->lanes == 0 || part->lane_bytes == 0 || part_bytes(part, n) > (uint64_t)(end - at)) return false;
    at += part_bytes(part, n);
    bytes_per_token += part_bytes(part, 1);
  }
  if (i < layout->n_layers) return false;
  layout->n_parts = i;
  model->facts.bytes_per_token = bytes_per_token;
  return true;
}

/* A blob's own heads must be those of the layout: only then are its bytes where we cut. */
static bool blob_agrees(const struct model *model, const uint8_t *blob, size_t size, const uint8_t *body, uint32_t n) {
  const struct state_layout *layout = &model->layout;
  if (size != blob_bytes(model, n) || word_at(blob) != layout->magic || word_at(body) != layout->is_transposed ||
      word_at(body + 4) != layout->n_layers)
    return false;
  const uint8_t *at = body + BODY_BYTES;
  for (uint32_t i = 0; i < layout->n_parts; i++) {
    if (memcmp(at, layout->parts[i].head, sizeof layout->parts[i].head) != 0) return false;
    at += sizeof layout->parts[i].head + part_bytes(&layout->parts[i], n);
  }
  return true;
}

/* Tokens from … to of one lane, in the order of positions. */
static uint8_t *lane_cut(const struct model *model, const uint8_t *lane, uint32_t lane_bytes, bool is_plain,
                         uint32_t from, uint32_t to, uint8_t *into) {
  if (is_plain) {
    memcpy(into, lane + (size_t)from * lane_bytes, (size_t)(to - from) * lane_bytes);
    return into + (size_t)(to - from) * lane_bytes;
  }
  for (uint32_t i = from; i < to; i++, into += lane_bytes)
    memcpy(into, lane + (size_t)model->cell_of[i] * lane_bytes, lane_bytes);
  return into;
}

static void blob_cut(const struct model *model, const uint8_t *body, uint32_t n, bool is_plain, uint32_t from,
                     uint32_t to, uint8_t *into) {
  const uint8_t *at = body + BODY_BYTES;
  for (uint32_t i = 0; i < model->layout.n_parts; i++) {
    const struct state_part *part = &model->layout.parts[i];
    at += sizeof part->head;
    for (uint32_t lane = 0; lane < part->lanes; lane++, at += (size_t)n * part->lane_bytes)
      into = lane_cut(model, at, part->lane_bytes, is_plain, from, to, into);
  }
}

uint64_t model_state_bytes(const struct model *model, uint32_t from, uint32_t to) {
  const struct model_facts *facts = &model->facts;
  if (facts->state == MODEL_STATE_CUT) return (uint64_t)(to - from) * facts->bytes_per_token;
  if (facts->state == MODEL_STATE_NONE || from != 0) return 0;
  return sizeof(uint64_t) + model->layout.whole_bytes + to * facts->bytes_per_token;
}

static enum status targets_check(const struct model *model, uint32_t seq, const struct engine_target *targets,
                                 uint32_t n, struct error *error) {
  uint32_t tokens = model_seq_tokens(model, seq);
  if (model->facts.state == MODEL_STATE_NONE)
    return error_set(error, STATUS_UNSUPPORTED, "states of this model do not leave the engine");
  for (uint32_t i = 0; i < n; i++) {
    const struct engine_target *target = &targets[i];
    bool is_whole = model->facts.state != MODEL_STATE_WHOLE || (target->from == 0 && target->to == tokens);
    if (target->from >= target->to || target->to > tokens || !is_whole)
      return error_set(error, STATUS_INVALID, "tokens %u … %u of sequence %u: it holds %u", target->from, target->to,
                       seq, tokens);
    if (target->size != model_state_bytes(model, target->from, target->to))
      return error_set(error, STATUS_INVALID, "tokens %u … %u take %llu bytes, not %llu", target->from, target->to,
                       (unsigned long long)model_state_bytes(model, target->from, target->to),
                       (unsigned long long)target->size);
  }
  return STATUS_OK;
}

enum status model_state_save(struct model *model, uint32_t seq, const struct engine_target *targets, uint32_t n,
                             struct error *error) {
  assert(seq < model->facts.sequences);
  enum status status = targets_check(model, seq, targets, n, error);
  if (status != STATUS_OK || n == 0) return status;
  size_t size;
  status = blob_get(model, seq, &size, error);
  if (status != STATUS_OK) return status;
  if (model->facts.state == MODEL_STATE_WHOLE) {
    for (uint32_t i = 0; i < n; i++) {
      uint64_t blob_size = size;
      uint8_t *into = targets[i].bytes;
      if (targets[i].size < sizeof blob_size + size)
        return error_set(error, STATUS_UNSUPPORTED, "a state of %u tokens grew to %zu bytes", targets[i].to, size);
      memcpy(into, &blob_size, sizeof blob_size);
      memcpy(into + sizeof blob_size, model->staging, size);
      memset(into + sizeof blob_size + size, 0, targets[i].size - sizeof blob_size - size);
    }
    return STATUS_OK;
  }
  uint32_t tokens = model_seq_tokens(model, seq);
  const uint8_t *cells = blob_cells(model, model->staging, size, seq, tokens);
  bool is_plain = false;
  if (!cells || !blob_positions(model, cells, seq, tokens, &is_plain) ||
      !blob_agrees(model, model->staging, size, cells + (size_t)tokens * CELL_BYTES, tokens))
    return error_set(error, STATUS_UNSUPPORTED, "sequence %u: libllama's state is not laid out as it was at the start",
                     seq);
  for (uint32_t i = 0; i < n; i++)
    blob_cut(model, cells + (size_t)tokens * CELL_BYTES, tokens, is_plain, targets[i].from, targets[i].to,
             targets[i].bytes);
  return STATUS_OK;
}

static enum status ranges_check(const struct model *model, const struct engine_range *ranges, uint32_t n,
                                uint32_t tokens, struct error *error) {
  if (model->facts.state == MODEL_STATE_NONE)
    return error_set(error, STATUS_UNSUPPORTED, "states of this model do not come back");
  if (tokens < 1 || tokens > model->facts.context_tokens)
    return error_set(error, STATUS_INVALID, "a state of %u tokens: the context has %u", tokens,
                     model->facts.context_tokens);
  uint32_t reached = 0;
  for (uint32_t i = 0; i < n; i++) {
    if (ranges[i].from != reached || ranges[i].to <= reached || reached >= tokens)
      return error_set(error, STATUS_INVALID, "state range %u: tokens %u … %u do not follow %u", i, ranges[i].from,
                       ranges[i].to, reached);
    if (ranges[i].size != model_state_bytes(model, ranges[i].from, ranges[i].to) || !ranges[i].bytes)
      return error_set(error, STATUS_INVALID, "state range %u: %llu bytes are not those of tokens %u … %u", i,
                       (unsigned long long)ranges[i].size, ranges[i].from, ranges[i].to);
    reached = ranges[i].to;
  }
  if (reached < tokens || (model->facts.state == MODEL_STATE_WHOLE && n != 1))
    return error_set(error, STATUS_INVALID, "%u state ranges end at token %u, before %u", n, reached, tokens);
  return STATUS_OK;
}

/* Fills one part of a joined blob from the ranges: source[i] is where range i goes on. */
static uint8_t *part_join(const struct state_part *part, const struct engine_range *ranges, uint32_t n, uint32_t tokens,
                          size_t *offset_token, uint8_t *at) {
  memcpy(at, part->head, sizeof part->head);
  at += sizeof part->head;
  for (uint32_t lane = 0; lane < part->lanes; lane++) {
    for (uint32_t i = 0; i < n; i++) {
      uint32_t count = ranges[i].to - ranges[i].from, to = ranges[i].to < tokens ? ranges[i].to : tokens;
      const uint8_t *source = ranges[i].bytes;
      source += *offset_token * count + (size_t)lane * part->lane_bytes * count;
      size_t bytes = (size_t)(to - ranges[i].from) * part->lane_bytes;
      memcpy(at, source, bytes);
      at += bytes;
    }
  }
  *offset_token += part_bytes(part, 1);
  return at;
}

static void blob_join(const struct model *model, uint32_t seq, const struct engine_range *ranges, uint32_t n,
                      uint32_t tokens, uint8_t *blob) {
  const struct state_layout *layout = &model->layout;
  uint8_t *at = word_put(blob, layout->magic);
  at = word_put(at, seq);
  at = word_put(at, model->facts.sequences);
  for (uint32_t i = 0; i < seq; i++) at = word_put(at, 0);
  at = word_put(at, tokens);
  for (uint32_t i = 0; i < tokens; i++) at = word_put(word_put(word_put(at, i), 1), seq);
  at = word_put(at, layout->is_transposed);
  at = word_put(at, layout->n_layers);
  size_t offset_token = 0;
  for (uint32_t i = 0; i < layout->n_parts; i++)
    at = part_join(&layout->parts[i], ranges, n, tokens, &offset_token, at);
  for (uint32_t i = seq + 1; i < model->facts.sequences; i++) at = word_put(at, 0);
  assert((size_t)(at - blob) == blob_bytes(model, tokens));
}

static enum status whole_load(struct model *model, uint32_t seq, const struct engine_range *range, uint32_t tokens,
                              struct error *error) {
  uint64_t size;
  memcpy(&size, range->bytes, sizeof size);
  if (size > range->size - sizeof size || size < HEAD_BYTES)
    return error_set(error, STATUS_CORRUPT, "a state of %u tokens says it has %llu bytes", range->to,
                     (unsigned long long)size);
  enum status status =
      blob_set(model, seq, (const uint8_t *)range->bytes + sizeof size, (size_t)size, range->to, error);
  if (status != STATUS_OK || model_seq_remove(model, seq, tokens)) return status;
  return error_set(error, STATUS_UNSUPPORTED, "a state of %u tokens cannot be cut to %u: this model's memory does not",
                   range->to, tokens);
}

enum status model_state_load(struct model *model, uint32_t seq, const struct engine_range *ranges, uint32_t n,
                             uint32_t use_tokens, struct error *error) {
  assert(seq < model->facts.sequences);
  enum status status = ranges_check(model, ranges, n, use_tokens, error);
  if (status != STATUS_OK) return status;
  model->n_rows = 0;
  model->staged_bytes = 0;
  if (model->facts.state == MODEL_STATE_WHOLE) {
    status = whole_load(model, seq, &ranges[0], use_tokens, error);
  } else {
    size_t size = blob_bytes(model, use_tokens);
    status = staging_reserve(model, size, error);
    if (status == STATUS_OK) {
      blob_join(model, seq, ranges, n, use_tokens, model->staging);
      status = blob_set(model, seq, model->staging, size, use_tokens, error);
    }
  }
  if (status != STATUS_OK) sequence_empty(model, seq);
  return status;
}

/* The self-test. */

struct probe {
  int32_t tokens[PROBE_TOKENS + 1];
  float *logits;  /* [n_vocab] of the last token, behind the others as computed */
  uint8_t *bytes; /* [size] where a state goes and comes back from */
  uint64_t size;
};

static void sequences_empty(struct model *model) {
  for (uint32_t i = 0; i < model->facts.sequences; i++) sequence_empty(model, i);
}

/* Reads layout and sizes off the state of seq 0, which holds PROBE_TOKENS tokens (1 before that: empty_bytes). */
static enum status probe_layout(struct model *model, size_t one_bytes, struct error *error) {
  size_t size;
  enum status status = blob_get(model, 0, &size, error);
  if (status != STATUS_OK) return status;
  uint64_t grown = size > one_bytes ? size - one_bytes : 0;
  bool is_known = model->facts.drops_suffix && layout_read(model, model->staging, size, 0, PROBE_TOKENS);
  if (is_known) {
    model->facts.flash_attention = !model->layout.is_transposed;
  } else {
    free(model->layout.parts);
    model->layout.parts = NULL;
    model->layout.n_parts = 0;
  }
  /* A second size to fall back on, where cutting fails its test. */
  model->layout.whole_bytes = one_bytes;
  if (!is_known) model->facts.bytes_per_token = (grown + PROBE_TOKENS - 2) / (PROBE_TOKENS - 1);
  return STATUS_OK;
}

static enum status probe_start(struct model *model, struct probe *probe, struct error *error) {
  size_t one_bytes = 0;
  for (uint32_t i = 0; i <= PROBE_TOKENS; i++) probe->tokens[i] = (int32_t)((i * 7919u + 13u) % model->facts.n_vocab);
  enum status status = model_decode(model, 0, 0, probe->tokens, 1, false, error);
  if (status == STATUS_OK) status = blob_get(model, 0, &one_bytes, error);
  sequence_empty(model, 0);
  if (status == STATUS_OK) status = model_decode(model, 0, 0, probe->tokens, PROBE_TOKENS, false, error);
  if (status == STATUS_OK) status = probe_layout(model, one_bytes, error);
  return status;
}

/* Saves seq 0 in the current form, in three parts where states are cut. */
static enum status probe_save(struct model *model, struct probe *probe, struct engine_range ranges[3], uint32_t *ret_n,
                              struct error *error) {
  static const uint32_t cuts[] = {0, 1, 23, PROBE_TOKENS};
  struct engine_target targets[3];
  bool is_cut = model->facts.state == MODEL_STATE_CUT;
  uint32_t n = is_cut ? 3 : 1;
  probe->size = model_state_bytes(model, 0, PROBE_TOKENS);
  free(probe->bytes);
  probe->bytes = malloc(probe->size);
  if (!probe->bytes) return error_set(error, STATUS_NO_MEMORY, "no memory for the test of states");
  uint8_t *at = probe->bytes;
  for (uint32_t i = 0; i < n; i++) {
    uint32_t from = is_cut ? cuts[i] : 0, to = is_cut ? cuts[i + 1] : PROBE_TOKENS;
    uint64_t size = model_state_bytes(model, from, to);
    targets[i] = (struct engine_target){.from = from, .to = to, .bytes = at, .size = size};
    ranges[i] = (struct engine_range){.from = from, .to = to, .bytes = at, .size = size};
    at += size;
  }
  *ret_n = n;
  return model_state_save(model, 0, targets, n, error);
}

/* Whether what was saved continues in another sequence as it does where it was computed, bit for bit. */
static enum status probe_form(struct model *model, struct probe *probe, bool *ret_is_same, struct error *error) {
  struct engine_range ranges[3];
  uint32_t n = 0, last = model->facts.sequences - 1;
  size_t logits_bytes = model->facts.n_vocab * sizeof(float);
  *ret_is_same = false;
  sequences_empty(model);
  enum status status = model_decode(model, 0, 0, probe->tokens, PROBE_TOKENS, false, error);
  if (status != STATUS_OK) return status;
  status = probe_save(model, probe, ranges, &n, error);
  if (status == STATUS_NO_MEMORY) return status;
  if (status != STATUS_OK) return STATUS_OK;
  status = model_decode(model, 0, PROBE_TOKENS, &probe->tokens[PROBE_TOKENS], 1, true, error);
  if (status != STATUS_OK) return status;
  memcpy(probe->logits, model_logits(model, 0), logits_bytes);
  status = model_state_load(model, last, ranges, n, PROBE_TOKENS, error);
  if (status == STATUS_NO_MEMORY) return status;
  if (status != STATUS_OK) return STATUS_OK;
  status = model_decode(model, last, PROBE_TOKENS, &probe->tokens[PROBE_TOKENS], 1, true, error);
  if (status != STATUS_OK) return status;
  *ret_is_same = memcmp(probe->logits, model_logits(model, 0), logits_bytes) == 0;
  return STATUS_OK;
}

static enum status probe_forms(struct model *model, struct probe *probe, struct error *error) {
  struct model_facts *facts = &model->facts;
  bool is_same = false;
  enum status status = STATUS_OK;
  if (model->layout.n_parts) {
    facts->state = MODEL_STATE_CUT;
    status = probe_form(model, probe, &is_same, error);
    if (status != STATUS_OK || is_same) return status;
    facts->bytes_per_token += CELL_BYTES; /* opaque ones hold the cells too */
    model->layout.n_parts = 0;
  }
  facts->state = MODEL_STATE_WHOLE;
  status = probe_form(model, probe, &is_same, error);
  if (status == STATUS_OK && !is_same) facts->state = MODEL_STATE_NONE;
  return status;
}

/* Room for the longest state, as far as that may cost memory before it is needed. */
static enum status staging_start(struct model *model, struct error *error) {
  const struct model_facts *facts = &model->facts;
  uint64_t bytes = facts->state == MODEL_STATE_CUT ? blob_bytes(model, facts->context_tokens)
                                                   : model_state_bytes(model, 0, facts->context_tokens);
  return staging_reserve(model, bytes < STAGING_BYTES_OPEN_MAX ? bytes : STAGING_BYTES_OPEN_MAX, error);
}

enum status state_probe(struct model *model, struct error *error) {
  struct probe probe = {.logits = malloc(model->facts.n_vocab * sizeof(float))};
  enum status status = STATUS_NO_MEMORY;
  if (!probe.logits) return status;
  status = probe_start(model, &probe, error);
  if (status == STATUS_OK) status = probe_forms(model, &probe, error);
  if (status == STATUS_OK) status = staging_start(model, error);
  if (status == STATUS_OK) {
    sequences_empty(model);
    model->n_rows = 0;
    if (error) error->text[0] = 0;
    struct model_facts *facts = &model->facts;
    const char *why = facts->drops_suffix ? "they do not come back bit for bit when cut"
                                          : "sliding window, recurrent or hybrid memory";
    if (facts->state == MODEL_STATE_WHOLE)
      snprintf(facts->note, sizeof facts->note, "states of this model are reused whole or not at all (%s)", why);
    else if (facts->state == MODEL_STATE_NONE)
      snprintf(facts->note, sizeof facts->note,
               "states of this model are not reused: they do not come back bit for bit");
  }
  free(probe.logits);
  free(probe.bytes);
  return status;
}

void state_release(struct model *model) {
  free(model->layout.parts);
  free(model->staging);
  model->layout.parts = NULL;
  model->staging = NULL;
}
