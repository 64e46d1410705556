/* What every engine looks like to the rest of the program: jobs in, events out, and the KV bytes of a sequence where
 * the engine hands them over. Never decides what to reuse (reuse.h does) and never blocks: all calls are made on the
 * loop thread, and every callback comes on the loop thread, through the `post` given at open. */
#ifndef FORELAY_ENGINE_ENGINE_H
#define FORELAY_ENGINE_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "domain/observation.h"

struct engine;
struct engine_job;
struct sampling;          /* engine/sampler.h */
struct token_probability; /* engine/sampler.h */

enum lane {
  LANE_REAL = 0,   /* somebody waits for it */
  LANE_SPECULATIVE /* nobody does yet; yields to the real lane within one micro-batch */
};

/* In what form an engine lets its KV state out. */
enum engine_state { ENGINE_STATE_NONE = 0, ENGINE_STATE_BYTES, ENGINE_STATE_FILE };

struct engine_caps {
  uint32_t sequences;      /* places a job can be put into; 0: the engine places jobs itself */
  uint32_t context_tokens; /* of one sequence: prompt and answer together */
  enum engine_state state;
  bool cuts_state;             /* a range of a state can be taken out and put in; else only the whole of a sequence */
  bool drops_suffix;           /* a state of n tokens serves any shorter prefix of them */
  uint32_t aborts_within;      /* tokens that are still computed after a cancel, at most */
  uint32_t prefill_output_min; /* tokens it samples even when none are wanted */
  bool reports_cached;         /* started() tells what was really reused */
  bool is_exact;               /* is_exact of a request is honoured: bit for bit what a cold run gives */
  bool has_own_cache;          /* it keeps prefixes by itself, unseen by us */
};

/* Bytes of tokens [from, to) as the engine handed them out. Borrowed. */
struct engine_range {
  uint32_t from, to;
  const void *bytes;
  uint64_t size;
};

enum { ENGINE_STOPS_MAX = 8, ENGINE_STOP_SIZE_MAX = 128 };

/* One prompt to compute, and perhaps to continue. Borrowed for the call and copied, restore[].bytes excepted. */
struct engine_request {
  enum lane lane;
  uint32_t seq;         /* below caps.sequences, without another job */
  uint32_t keep_tokens; /* of what lies in seq the first so many stay, the rest is dropped; 0 when n_restore > 0 */
  const struct engine_range
      *restore; /* [n_restore], contiguous from token 0; bytes stay as they are until restored() or the end */
  uint32_t n_restore;
  uint32_t restore_tokens; /* of those the first so many are used (a longer state cut short) */
  uint32_t
      canonical_tokens;  /* of the kept or restored tokens the first so many were computed canonically, exactly here */
  const int32_t *tokens; /* the whole prompt */
  uint32_t n_tokens;     /* ≥ 1, > keep_tokens and > restore_tokens where output is wanted */
  bool is_exact;         /* decode steps in calls of their own where sharing a call would change bits */
  uint32_t output_tokens_max;      /* 0: prefill only, nothing is sampled, and the last token is not computed alone */
  const struct sampling *sampling; /* NULL: greedy */
  const char *const *stops;        /* [n_stops] texts that end the answer and are not part of it */
  uint32_t n_stops;                /* ≤ ENGINE_STOPS_MAX, each 1 … ENGINE_STOP_SIZE_MAX bytes */
  bool wants_logits;               /* first_logits() is called; for tests of exactness */
};

struct engine_prefill {
  uint32_t cached_tokens;    /* kept or restored */
  uint32_t computed_tokens;  /* computed by this job, the last prompt token included */
  uint32_t canonical_tokens; /* of the sequence from 0 on, computed by the canonical split without a gap */
  uint64_t restore_us;
  uint64_t prefill_us; /* engine time inside calls of this job; waiting between pieces excluded */
  uint64_t first_us;   /* engine clock (os/clock.h, monotonic) of the first call of this job */
  uint64_t end_us;     /* engine clock when the prompt was complete */
};

/* One step of an answer. Text is whole characters; bytes that may begin a stop text are held back. */
struct engine_token {
  int32_t id;       /* -1: only held back text is released */
  const char *text; /* [text_size], not terminated; may be empty */
  uint32_t text_size;
  float logprob;                       /* of id, NAN where not asked for */
  const struct token_probability *top; /* [n_top] the likeliest, best first; NULL where not asked for */
  uint32_t n_top;
};

struct engine_result {
  enum stop_reason stop;
  uint32_t output_tokens;
  uint32_t stop_index; /* which stop text, where stop is STOP_SEQUENCE */
  struct engine_prefill prefill;
  uint64_t decode_us; /* engine time of decode steps, shared calls counted in equal parts */
  /* What now lies in the sequence: tokens[0, seq_tokens) of prompt and output joined. */
  uint32_t seq_tokens;
  const int32_t *output; /* [output_tokens] sampled ids; the last of them may not lie in the sequence */
};

/* Any of them but `done` and `failed` may be NULL. Order: restored? prefilled? first_logits? token* (done | failed);
 * the last exactly once, and never before submit has returned. */
struct engine_sink {
  void (*restored)(void *ctx, uint32_t tokens, uint64_t bytes, uint64_t us); /* restore[].bytes are no longer read */
  void (*prefilled)(void *ctx, const struct engine_prefill *prefill);
  void (*first_logits)(void *ctx, const float *logits, uint32_t n_vocab);
  void (*token)(void *ctx, const struct engine_token *token);
  void (*done)(void *ctx, const struct engine_result *result);
  /* result tells what lies in the sequence all the same. STATUS_CANCELLED after engine_cancel. is_retry_safe: nothing
   * of an answer was produced. */
  void (*failed)(void *ctx, enum status status, const struct error *error, bool is_retry_safe,
                 const struct engine_result *result);
};

/* One range of a state to copy out. `bytes` is written by the engine until done(). */
struct engine_target {
  uint32_t from, to;
  void *bytes;
  uint64_t size; /* engine_state_bytes(engine, from, to) */
};

typedef void engine_saved(void *ctx, enum status status, uint64_t bytes, uint64_t us);

struct engine_load {
  uint32_t real, speculative; /* jobs submitted and not ended */
  uint64_t idle_since_us;     /* engine clock; 0 while it works */
  double foreground_seconds;  /* engine time so far, by lane */
  double speculative_seconds;
  double save_seconds;
};

/* How an engine is made of functions; engine_…() below call through it. */
struct engine_ops {
  const char *name;
  void (*stop)(struct engine *engine);
  void (*close)(struct engine *engine); /* stopped already */
  enum status (*submit)(struct engine *engine, const struct engine_request *request, const struct engine_sink *sink,
                        void *sink_ctx, struct engine_job **ret_job, struct error *error);
  void (*cancel)(struct engine *engine, struct engine_job *job);
  uint32_t (*progress)(const struct engine_job *job);
  uint64_t (*state_bytes)(const struct engine *engine, uint32_t from, uint32_t to);
  enum status (*state_save)(struct engine *engine, uint32_t seq, const struct engine_target *targets, uint32_t n,
                            bool is_urgent, engine_saved *done, void *done_ctx);
  enum status (*state_drop)(struct engine *engine, uint32_t seq);
  void (*load)(const struct engine *engine, struct engine_load *ret_load);
};

/* First member of every engine. */
struct engine {
  const struct engine_ops *ops;
  struct engine_caps caps; /* fixed after open */
};

/* Ends all jobs and copies (failed with STATUS_CLOSED, before this returns) and joins the engine's threads. From then
 * on jobs and copies are refused with STATUS_CLOSED. Not from inside a callback. May be called twice. */
void engine_stop(struct engine *engine);
/* Stops and frees; NULLs the pointer; accepts NULL. */
void engine_close(struct engine **engine);
/* The job is valid until its done or failed returns. STATUS_FULL: too many jobs; STATUS_INVALID: a field out of its
 * range, named in `error` (may be NULL); nothing is called then. */
MUST_USE enum status engine_submit(struct engine *engine, const struct engine_request *request,
                                   const struct engine_sink *sink, void *sink_ctx, struct engine_job **ret_job,
                                   struct error *error);
/* Asks the job to end soon: failed(STATUS_CANCELLED), or done if it was already through. May be called twice. */
void engine_cancel(struct engine *engine, struct engine_job *job);
/* Tokens that lie in the job's sequence by now, as of the end of its last call. */
uint32_t engine_job_tokens(const struct engine *engine, const struct engine_job *job);
/* Bytes of tokens [from, to) in this engine's form; 0 where caps.state is ENGINE_STATE_NONE. */
uint64_t engine_state_bytes(const struct engine *engine, uint32_t from, uint32_t to);
/* Copies ranges of an idle sequence out. Waits for a moment without real work unless is_urgent. `done` exactly once,
 * never before this returns; if this fails, never. A job that is submitted to the sequence before that waits for the
 * copy only if it overwrites what is being copied. n 0: nothing is copied, `done` comes when what was asked before is
 * through. */
MUST_USE enum status engine_state_save(struct engine *engine, uint32_t seq, const struct engine_target *targets,
                                       uint32_t n, bool is_urgent, engine_saved *done, void *done_ctx);
/* Empties a sequence without a job. */
MUST_USE enum status engine_state_drop(struct engine *engine, uint32_t seq);
void engine_load(const struct engine *engine, struct engine_load *ret_load);

#endif
