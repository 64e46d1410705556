/* One model and its context, as the rest of engine/ sees libllama: tokens in, logits and KV bytes out. This is the
 * border: llama.c, llama_sampler.c and llama_chat.cpp alone include llama.cpp's headers, and none of its types shows
 * here. Never decides what to compute or keep.
 *
 * Threads: model_open, model_close and everything that names a sequence or logits belong to one thread (the engine's);
 * facts, fingerprint and tokenizing are read-only and may be called from any. Owns the weights, the KV cache and one
 * staging buffer for states: room for a whole context, at most 256 MiB at first, more when a longer state needs it. */
#ifndef FORELAY_ENGINE_MODEL_H
#define FORELAY_ENGINE_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/status.h"
#include "domain/fingerprint.h"
#include "engine/engine.h"

struct model;

enum {
  MODEL_CALL_TOKENS_MAX = 2048, /* most tokens of one model_decode */
  MODEL_SEQUENCES_MAX = 64,     /* most sequences of one model, and rows of one model_decode_step */
  MODEL_CONTEXT_DEFAULT = 8192, /* tokens of a sequence where nothing was said, if the model was trained on as many */
  MODEL_LAYOUT = 1              /* version of our segments' layout, part of the compat fingerprint */
};

enum model_flash { MODEL_FLASH_AUTO = 0 /* on where layers lie on a GPU, else off */, MODEL_FLASH_ON, MODEL_FLASH_OFF };

struct model_config {
  const char *path;        /* of a GGUF file (the first one of a split model) */
  uint32_t context_tokens; /* of one sequence, prompt and answer together; 0: min(trained, MODEL_CONTEXT_DEFAULT) */
  uint32_t sequences;      /* 1 … MODEL_SEQUENCES_MAX */
  uint32_t threads;        /* ≥ 1 */
  uint32_t micro_batch;    /* 0: SPLIT_MICRO_BATCH */
  int32_t gpu_layers;      /* 0: none, −1: all; ignored by a build without a GPU */
  enum model_flash flash;
};

/* In what form states leave. */
enum model_state {
  MODEL_STATE_CUT = 0, /* ranges of tokens, (to − from) × bytes_per_token bytes each, joined at will */
  MODEL_STATE_WHOLE,   /* one range from token 0 to the sequence's end, opaque */
  MODEL_STATE_NONE     /* they do not come back unchanged: nothing leaves */
};

/* Fixed after open. Texts live as long as the model. */
struct model_facts {
  char name[128];            /* the file's name without folder and ".gguf" */
  char description[128];     /* libllama's own line: family, size, quantisation */
  char architecture[32];     /* general.architecture */
  char note[192];            /* one line for the log where states are not cut, or not by any token; "" otherwise */
  const char *chat_template; /* source text; NULL: the file has none */
  uint64_t file_bytes;       /* of weights on disk, all parts */
  uint64_t n_params;
  uint64_t bytes_per_token; /* of KV state; where states are whole: of a further token, at most */
  uint32_t n_vocab, n_layer;
  uint32_t trained_tokens; /* context it was trained on */
  uint32_t context_tokens; /* of one sequence, in force: ≥ what was asked for, a multiple of 256 */
  uint32_t sequences, threads, micro_batch;
  int32_t bos, eos;     /* token ids, −1: none */
  bool adds_bos;        /* model_tokenize(adds_special) puts bos first */
  bool is_gpu;          /* layers lie on a GPU: no abort inside a call */
  bool flash_attention; /* in force */
  bool drops_suffix;    /* a sequence can be cut back to any length: neither sliding window nor recurrent nor hybrid */
  enum model_state state; /* proven by a self-test at open */
};

/* Loads weights, makes the context and tests that states leave and come back bit for bit (get, cut in three, join into
 * another sequence, decode, compare logits). Blocks for that long. `error` says in one line what is wrong with the file
 * or the settings: STATUS_NOT_FOUND, STATUS_INVALID (no GGUF, a setting out of range), STATUS_UNSUPPORTED (a model that
 * does not generate text, an unknown architecture), STATUS_TOO_LONG (context beyond what it was trained on),
 * STATUS_NO_MEMORY. */
MUST_USE enum status model_open(const struct model_config *config, struct model **ret_model, struct error *error);
/* Accepts NULL; NULLs the pointer. */
void model_close(struct model **model);
const struct model_facts *model_facts(const struct model *model);
/* What states of this model depend on. Hashes the weight files (seconds a gigabyte) unless `cache_dir` (NULL: none) has
 * a note of ours for the same path, size, times and inode; writes one there. STATUS_IO: a weight file cannot be read.
 */
MUST_USE enum status model_fingerprint(const struct model *model, const char *cache_dir,
                                       struct fingerprint_compat *ret_compat, struct fingerprint_exact *ret_exact,
                                       struct error *error);

/* Asked at every node of the graph while a call runs, on a thread of libllama's: answer true to end the call. NULL for
 * none. Ineffective where facts.is_gpu. */
void model_set_abort(struct model *model, bool (*is_unwanted)(void *ctx), void *ctx);

/* One piece: tokens[n] become positions first … first + n − 1 of seq. n in 1 … MODEL_CALL_TOKENS_MAX; first must be the
 * sequence's length (asserted). wants_logits: of the last token, then model_logits(model, 0).
 * STATUS_CANCELLED: aborted, finished micro-batches stay; STATUS_FULL: no room, nothing changed; STATUS_IO: computing
 * failed. Ask model_seq_tokens how far the sequence came: where drops_suffix is false, such a sequence is empty now. */
MUST_USE enum status model_decode(struct model *model, uint32_t seq, uint32_t first, const int32_t *tokens, uint32_t n,
                                  bool wants_logits, struct error *error);
/* One decode step: tokens[i] becomes position positions[i] of seqs[i], 0 ≤ i < n ≤ facts.sequences, all seqs different;
 * logits of row i are model_logits(model, i). Results as of model_decode, for all rows together. */
MUST_USE enum status model_decode_step(struct model *model, uint32_t n, const uint32_t *seqs, const int32_t *tokens,
                                       const uint32_t *positions, struct error *error);
/* Row `row` of the last successful call: [facts.n_vocab], borrowed until the next call; NULL: there is none. */
const float *model_logits(const struct model *model, uint32_t row);

/* Drops positions from … of seq; false: this memory cannot (drops_suffix is false and from > 0), and nothing changed.
 */
MUST_USE bool model_seq_remove(struct model *model, uint32_t seq, uint32_t from);
/* Tokens that lie in seq. */
uint32_t model_seq_tokens(const struct model *model, uint32_t seq);

/* Room for the state of tokens [from, to): exact where states are cut; else at most that much (from must be 0, or 0 is
 * returned). 0 for MODEL_STATE_NONE. */
uint64_t model_state_bytes(const struct model *model, uint32_t from, uint32_t to);
/* Copies ranges of seq out; each target has size model_state_bytes(from, to). MODEL_STATE_WHOLE: one target from 0 to
 * the sequence's length. STATUS_INVALID: a range or size is wrong, nothing was written; STATUS_NO_MEMORY (staging);
 * STATUS_UNSUPPORTED: libllama's blob is not laid out as tested. */
MUST_USE enum status model_state_save(struct model *model, uint32_t seq, const struct engine_target *targets,
                                      uint32_t n, struct error *error);
/* Replaces what lies in seq by the first use_tokens tokens of the ranges, which follow each other from token 0 and
 * reach at least that far. Positions are verified afterwards. There are no logits then: decode the last token again.
 * STATUS_INVALID: nothing changed. STATUS_UNSUPPORTED (a whole state cannot be cut short), STATUS_CORRUPT,
 * STATUS_INCOMPATIBLE (libllama refused), STATUS_NO_MEMORY: seq is empty now. */
MUST_USE enum status model_state_load(struct model *model, uint32_t seq, const struct engine_range *ranges, uint32_t n,
                                      uint32_t use_tokens, struct error *error);

/* Tokens of text[size] appended to `tokens` (a buffer of int32_t; buffer->size / 4 of them). adds_special: bos and eos
 * as the model wants them; parses_special: texts of special tokens become those. STATUS_TOO_LONG: past the buffer's
 * limit, STATUS_INVALID: libllama refused the text. */
MUST_USE enum status model_tokenize(const struct model *model, const char *text, size_t size, bool adds_special,
                                    bool parses_special, struct buffer *tokens, struct error *error);
/* Text of tokens[n] appended to `text`, special tokens shown. */
MUST_USE enum status model_detokenize(const struct model *model, const int32_t *tokens, size_t n, struct buffer *text,
                                      struct error *error);
/* Bytes of one token, which may end or begin inside a character: written to piece[size], the count returned; the needed
 * count, more than size, where it does not fit. 0 for special tokens unless shows_special, and for ids out of range. */
size_t model_token_piece(const struct model *model, int32_t token, bool shows_special, char *piece, size_t size);
/* Ends an answer (end of text, end of turn …). */
bool model_token_is_end(const struct model *model, int32_t token);

#endif
