/* One prompt on its way through the embedded engine, and the events it sends. Inside of embedded.c; the engine thread
 * works on it between the submit and its last event, the loop thread owns it before and after. */
#ifndef FORELAY_ENGINE_JOB_H
#define FORELAY_ENGINE_JOB_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/status.h"
#include "engine/engine.h"
#include "engine/outbox.h"
#include "engine/pace.h"
#include "engine/transcript.h"

struct model;
struct sampler;

enum job_phase {
  JOB_SUBMITTED = 0, /* nothing done yet */
  JOB_PREFILL,
  JOB_DECODE,
  JOB_ENDED /* only its last event is left to do */
};

/* Something for the engine thread to take from its inbox. */
struct command {
  struct command *next;
  void (*take)(struct command *command, void *engine); /* engine thread */
};

struct engine_job {
  struct command command; /* first member */
  /* Fixed by job_create. */
  struct engine_request request; /* its pointers lead into copies owned by the job, restore[].bytes excepted */
  struct engine_sink sink;
  void *sink_ctx;
  void (*ended)(void *ended_ctx, struct engine_job *job); /* loop thread, before the sink hears of the end */
  void *ended_ctx;

  atomic_bool is_cancelled; /* set by the loop thread, read by the engine thread and inside a running call */

  atomic_uint progress; /* position after the last call, for the loop thread */

  /* Engine thread's. */
  struct engine_job *next; /* in the inbox */
  enum job_phase phase;
  uint64_t turn;           /* number of its last piece; the lowest is served first */
  uint32_t position;       /* tokens that lie in the sequence */
  int32_t token;           /* sampled, lies at position after the next decode step */
  struct sampler *sampler; /* NULL: prefill only */
  struct transcript transcript;
  struct engine_result result; /* result.output has room for output_tokens_max */
  int32_t *output;
  uint64_t turn_begin_us; /* engine time from here on is not accounted yet */
  enum status status;     /* of the end */
  struct error error;

  /* Each is pushed once at most. */
  struct outbox_event restored_event, prefilled_event, logits_event, end_event;
  uint32_t restored_tokens; /* 0: the engine refused the bytes */
  uint64_t restored_bytes;
  struct engine_prefill prefilled; /* what the event tells; result.prefill goes on changing */
  float *logits;                   /* [n_logits] copied for first_logits, NULL */
  uint32_t n_logits;
};

/* What a job needs of the engine around it. */
struct job_place {
  struct model *model;
  struct outbox *outbox;
  struct pace *pace;
  uint32_t piece_us_max;
  uint64_t (*now_us)(void);
};

/* Copies the request. STATUS_INVALID: a stop text out of its limits. */
MUST_USE enum status job_create(const struct engine_request *request, const struct engine_sink *sink, void *sink_ctx,
                                struct engine_job **ret_job, struct error *error);
void job_destroy(struct engine_job **job);

/* ── engine thread ── each leaves the job in phase JOB_ENDED where it cannot or need not go on. */

/* Restores or keeps what the request says. */
void job_begin(struct engine_job *job, const struct job_place *place);
/* One piece; where only the last prompt token is left then, that one and the first sample too. */
void job_prefill(struct engine_job *job, const struct job_place *place);
/* One decode step of jobs[n], all in phase JOB_DECODE and in ascending order of sequence. */
void jobs_decode(struct engine_job *const *jobs, uint32_t n, const struct job_place *place);
void job_end(struct engine_job *job, enum status status);
/* Sends the last event of an ended job. The job is not the engine thread's any more. */
void job_part(struct engine_job *job, const struct job_place *place);

/* Loop thread, engine thread gone: ends a job that was never or not wholly worked on. */
void job_abandon(struct engine_job *job);

#endif
