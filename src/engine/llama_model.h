/* The inside of a struct model, for the files of the border only: llama.c, llama_state.c, llama_sampler.c,
 * llama_chat.cpp. Plain data; owned by llama.c. */
#ifndef FORELAY_ENGINE_LLAMA_MODEL_H
#define FORELAY_ENGINE_LLAMA_MODEL_H

#include "engine/model.h"

struct llama_context;
struct llama_model;
struct llama_vocab;

/* One run of a state: K or V of one layer. n tokens are `lanes` lanes of n × lane_bytes bytes, behind a fixed head. */
struct state_part {
  uint8_t head[12];    /* as libllama writes it: type and sizes */
  uint32_t lanes;      /* 1: a row is a token; else a row is one element of all tokens */
  uint32_t lane_bytes; /* of one token in one lane */
};

/* How libllama lays a sequence's state out; n_parts 0: not known, states are opaque. */
struct state_layout {
  uint32_t n_layers; /* K parts; the rest are V parts */
  uint32_t n_parts;
  struct state_part *parts; /* [n_parts] */
  uint32_t magic;           /* first word of a state */
  bool is_transposed;       /* V lies across cells */
  uint64_t whole_bytes;     /* opaque states: of one token, at most */
};

struct model {
  struct llama_model *weights;
  struct llama_context *context;
  const struct llama_vocab *vocab; /* of weights */
  struct model_facts facts;
  char *path;
  int32_t type_k, type_v; /* of the cache */
  bool swa_full;
  /* One batch, [MODEL_CALL_TOKENS_MAX] each. */
  int32_t *batch_tokens, *batch_positions, *batch_n_seqs, *batch_seqs;
  int32_t **batch_seq_of; /* [i] points at batch_seqs[i] */
  int8_t *batch_wants;
  uint32_t n_rows; /* rows of logits of the last call, 0: none */
  struct state_layout layout;
  uint32_t *cell_of; /* [facts.context_tokens] scratch: where a position lies in a state */
  uint8_t *staging;  /* [staging_size], all pages touched */
  size_t staging_size;
  uint32_t staged_seq; /* staging holds this sequence's state as it is now … */
  size_t staged_bytes; /* … so long; 0: it does not */
};

/* Finds out how states leave and whether they come back: sets facts.state, note, bytes_per_token, flash_attention and
 * the layout. Leaves all sequences empty. STATUS_NO_MEMORY, STATUS_IO: not even computing works. */
MUST_USE enum status state_probe(struct model *model, struct error *error);
void state_release(struct model *model);
/* The sequence is about to change: what is staged of it is not its state any more. */
void state_outdate(struct model *model, uint32_t seq);

/* The first line that libllama logged as an error on this thread since llama_log_clear; "" when none. */
const char *llama_log_text(void);
void llama_log_clear(void);

#endif
