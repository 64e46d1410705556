/* Joins a token request with the states it may reuse: waits for a sequence, finds the longest ready state of its tenant
 * (device, RAM, SSD), restores it, runs the engine, keeps what was computed. Gateway uses it for real requests, the
 * daemon's executor for preparations. Never decides what is worth keeping: the listener does.
 *
 * Loop thread only; never blocks. Owns the table of device sequences and copies of the tokens of waiting requests. */
#ifndef FORELAY_ENGINE_REUSE_H
#define FORELAY_ENGINE_REUSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "domain/observation.h"
#include "domain/residence.h"
#include "engine/engine.h"

struct depot; /* store/depot.h */
struct reuse;
struct reuse_job;

enum reuse_mode {
  REUSE_NEAR = 0, /* the longest match, KV written while generating included */
  REUSE_EXACT,    /* canonical tokens only, at most n − 65 of them or n − 1: bit for bit a cold run */
  REUSE_OFF       /* nothing is reused */
};
/* REUSE_OFF + 1 when the text is none of "near", "exact", "off". */
enum reuse_mode reuse_mode_of_name(const char *name);

/* Borrowed for the call; everything is copied. */
struct reuse_request {
  enum lane lane;
  uint64_t id; /* of the request or the task, for the listener */
  uint32_t tenant;
  uint8_t salt[32]; /* of the tenant: states of other salts do not exist for it */
  const int32_t *tokens;
  uint32_t n_tokens;               /* 1 … reuse_prompt_tokens_max() */
  enum reuse_mode mode;            /* a speculative job is always computed canonically, whatever stands here */
  uint32_t output_tokens_max;      /* 0 for preparations */
  const struct sampling *sampling; /* NULL: greedy */
  const char *const *stops;        /* [n_stops] */
  uint32_t n_stops;
  uint64_t deadline_us; /* monotonic (os/clock.h); fails with STATUS_TIMEOUT if not begun by then; 0: none */
  bool wants_store;     /* false: nothing of it is kept in any tier, its sequence is emptied at the end */
  bool wants_logits;    /* tests */
  uint64_t task;        /* preparation this job is the work of, 0: none */
};

/* What a request's prompt came from. hit_tokens sum up to cached_tokens; cached + computed = n_tokens. */
struct reuse_prefill {
  uint32_t hit_tokens[TIER_COUNT];
  uint32_t cached_tokens, computed_tokens;
  enum tier tier;      /* where most cached tokens came from, TIER_NONE when none */
  uint64_t task;       /* a preparation that had computed some of them, 0: none */
  uint64_t queue_us;   /* from submit until a sequence was free */
  uint64_t restore_us; /* reading and loading states */
  uint64_t prefill_us; /* engine time of the computed tokens */
};

struct reuse_result {
  enum stop_reason stop;
  uint32_t stop_index;
  uint32_t output_tokens;
  const int32_t *output; /* [output_tokens] */
  struct reuse_prefill prefill;
  uint64_t decode_us;
  uint32_t ready_tokens; /* tokens of the prompt that a later request can reuse from where this job left them */
};

/* `started`, `prefilled`, `first_logits`, `token` may be NULL. Exactly one of done and failed, once, never before
 * reuse_submit returned. The job is gone when it returns. */
struct reuse_sink {
  void (*started)(void *ctx, uint32_t cached_tokens, enum tier tier); /* left the queue; a restore may still follow */
  void (*prefilled)(void *ctx, const struct reuse_prefill *prefill);
  void (*first_logits)(void *ctx, const float *logits, uint32_t n_vocab);
  void (*token)(void *ctx, const struct engine_token *token);
  void (*done)(void *ctx, const struct reuse_result *result);
  /* STATUS_CANCELLED after reuse_cancel, or when a request took over a preparation's sequence (is_taken_over: its
   * finished tokens serve that request). result counts what was done all the same. */
  void (*failed)(void *ctx, enum status status, const struct error *error, bool is_retry_safe, bool is_taken_over,
                 const struct reuse_result *result);
};

/* What lies in a device sequence now. Borrowed for the call. */
struct reuse_residence {
  uint32_t seq;
  uint32_t tenant;
  const uint8_t *salt;       /* [32] */
  const int32_t *tokens;     /* [n_tokens] */
  uint32_t n_tokens;         /* 0: the sequence is empty now */
  uint32_t canonical_tokens; /* ≤ n_tokens */
  uint64_t task;             /* preparation that computed some of it, 0: none */
};

/* The daemon implements it. Calls come from inside reuse_… calls and engine events; they may call reuse_submit,
 * reuse_save and reuse_room_made, but not reuse_close. */
struct reuse_listener {
  void *ctx;
  void (*residence)(void *ctx, const struct reuse_residence *residence);
  /* `bytes` are wanted in RAM for a state of `tenant` (of `task`, 0: a request's). Answer by reuse_room_made(ticket,
   * …), now or later. */
  void (*make_room)(void *ctx, uint64_t ticket, uint64_t bytes, uint32_t tenant, uint64_t task);
  /* Samples for cost: n tokens computed behind depth others; bytes loaded from a tier; tokens decoded. Any may be NULL.
   */
  void (*prefill_sample)(void *ctx, enum lane lane, uint32_t n, uint32_t depth, double seconds);
  void (*restore_sample)(void *ctx, enum tier tier, uint64_t bytes, double seconds);
  void (*decode_sample)(void *ctx, uint32_t tokens, double seconds);
};

struct reuse_options {
  struct engine *engine; /* borrowed, outlives it */
  struct depot *depot;   /* borrowed; NULL: only device sequences */
  uint32_t slots;        /* most real requests at once, ≥ 1, < sequences of the engine where it has one to spare */
  uint32_t queue_max;    /* most waiting real requests */
  uint8_t compat[32];    /* fingerprint of states made here */
  bool saves_near;       /* copies to RAM also what is not canonical, for REUSE_NEAR; false: canonical tokens only */
  struct reuse_listener listener; /* copied */
};

MUST_USE enum status reuse_open(const struct reuse_options *options, struct reuse **ret_reuse, struct error *error);
/* Stops the engine and fails all jobs with STATUS_CLOSED, now. Call it before engine_close and depot_close. */
void reuse_close(struct reuse **reuse);

/* Longest prompt that fits beside `output_tokens` of answer. */
uint32_t reuse_prompt_tokens_max(const struct reuse *reuse, uint32_t output_tokens);

/* STATUS_FULL: the queue is full (429); STATUS_TOO_LONG: does not fit the context; STATUS_INVALID; STATUS_CLOSED. At
 * most one speculative job at a time: STATUS_BUSY while there is one, while finished states are being copied to RAM, or
 * while real requests leave no sequence for it. `started` may come before this returns, after *ret_job is set. */
MUST_USE enum status reuse_submit(struct reuse *reuse, const struct reuse_request *request,
                                  const struct reuse_sink *sink, void *sink_ctx, struct reuse_job **ret_job,
                                  struct error *error);
/* The client has left, or the preparation is not wanted any more. failed(STATUS_CANCELLED) follows within a
 * micro-batch; where the engine has not begun, perhaps before this returns. */
void reuse_cancel(struct reuse *reuse, struct reuse_job *job);

/* Saves to RAM what of these tokens' savable state (options.saves_near) lies in an idle sequence and not in RAM yet. `done` exactly once,
 * never before this returns: STATUS_OK with the tokens of the prefix that are now in RAM; STATUS_FULL when the listener
 * refused room; STATUS_NOT_FOUND when no sequence holds them. */
typedef void reuse_saved(void *ctx, enum status status, uint32_t ram_tokens);
MUST_USE enum status reuse_save(struct reuse *reuse, const uint8_t salt[32], uint32_t tenant, const int32_t *tokens,
                                uint32_t n_tokens, uint64_t task, reuse_saved *done, void *done_ctx);
/* Answer to make_room: STATUS_OK (try again, there should be room) or STATUS_FULL (skip). */
void reuse_room_made(struct reuse *reuse, uint64_t ticket, enum status status);
/* Empties idle sequences of that salt, or all for NULL. */
void reuse_forget(struct reuse *reuse, const uint8_t salt[32]);
/* How many leading tokens an idle or busy device sequence of that salt holds. */
uint32_t reuse_device_tokens(const struct reuse *reuse, const uint8_t salt[32], const int32_t *tokens,
                             uint32_t n_tokens);
/* Calls each() for every device sequence that is not empty. */
void reuse_residences(const struct reuse *reuse, void (*each)(void *ctx, const struct reuse_residence *residence),
                      void *ctx);

struct reuse_load {
  uint32_t running; /* real jobs in the engine */
  uint32_t waiting; /* real jobs in the queue */
  bool is_speculating;
  uint32_t saving;        /* sequences being copied out */
  uint64_t idle_since_us; /* monotonic: since when no real request runs or waits; 0 while one does */
  uint64_t device_tokens; /* tokens lying in sequences */
  double foreground_seconds, speculative_seconds, save_seconds; /* engine time so far */
};
void reuse_load(const struct reuse *reuse, struct reuse_load *ret_load);

#endif
