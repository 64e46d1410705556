/* Inside of reuse: one request from its submit to its end, and what all parts of reuse share. Loop thread. */
#ifndef FORELAY_ENGINE_REUSE_JOB_H
#define FORELAY_ENGINE_REUSE_JOB_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "engine/keys.h"
#include "engine/retrieval.h"
#include "engine/reuse.h"
#include "engine/sequence.h"

enum {
  REUSE_GAIN_TOKENS = 64, /* a stored state must bring so many more tokens than the device has to be loaded; so many
                             that would be lost are worth another sequence */
  REUSE_LEAST_TOKENS = 16 /* a shorter match is not worth a copy, nor the sequence it lies in */
};

struct fetch_order;
struct keep;

enum reuse_phase {
  REUSE_WAITING = 0, /* in the queue */
  REUSE_FETCHING,    /* segments come from SSD to RAM */
  REUSE_TAKING_OVER, /* waits for the end of a preparation that holds its prefix, or its only sequence */
  REUSE_CLEARING,    /* waits until what its sequence holds is saved */
  REUSE_RUNNING,     /* in the engine */
  REUSE_ENDED
};

struct reuse_job {
  struct reuse *reuse;
  struct reuse_job *next, *previous; /* among all jobs, oldest first */
  struct reuse_request request;      /* its pointers lead into copies owned by the job; tokens[n_tokens] is −1 */
  struct reuse_sink sink;
  void *sink_ctx;
  enum reuse_phase phase;
  uint64_t submitted_us;
  bool is_cancelled;                        /* ends at the next step */
  bool is_taken_over;                       /* a request wants its sequence */
  bool is_submitting;                       /* still inside reuse_submit: nothing is told yet */
  bool has_found, has_fetched, has_cleared; /* each is tried once */
  uint64_t room_ticket;                     /* while FETCHING waits for room, else 0 */
  struct fetch_order *order;                /* while depot_fetch is under way */
  uint64_t fetch_us;
  uint32_t seq;               /* SEQUENCE_NONE: none yet */
  struct engine_job *job;     /* while RUNNING */
  struct retrieval retrieval; /* pinned from the match until restored */
  bool is_restored;           /* its cached tokens come from the retrieval, not from the device */
  enum status status;         /* of an end inside reuse_submit */
  struct error error;
  struct reuse_result result;
};

struct reuse {
  struct engine *engine;
  struct depot *depot; /* NULL: only device sequences */
  struct keys *keys;
  struct reuse_options options;
  struct sequences table;
  struct reuse_job *first, *last; /* all jobs, oldest first */
  uint32_t n_waiting, n_running;  /* real ones */
  struct reuse_job *speculative;  /* the one there may be, in whatever phase */
  struct keep *keeps;             /* copies on their way to RAM, newest first */
  uint64_t ticket_last;
  uint64_t idle_since_us;
  bool is_closing;
  bool is_stepping; /* inside reuse_step … */
  bool must_step;   /* … and asked to go round again */
};

/* Starts what can start: waiting requests while sequences are free, copies while nobody waits. Called after everything
 * that may have changed that; inside of itself it only asks for another round. */
void reuse_step(struct reuse *reuse);

/* STATUS_NO_MEMORY: nothing was made. */
MUST_USE enum status reuse_job_create(struct reuse *reuse, const struct reuse_request *request,
                                      const struct reuse_sink *sink, void *sink_ctx, struct reuse_job **ret_job);
void reuse_job_destroy(struct reuse_job **job);
/* Goes on with a job that has left the queue and is not in the engine: puts it there, or lets it wait for what it needs
 * first. The job may have ended when this returns. */
void reuse_job_place(struct reuse_job *job);
/* Goes on after the listener answered. */
void reuse_job_room_made(struct reuse_job *job, enum status status);
/* Ends a job that is not in the engine: failed() now, or, inside reuse_submit, told by that. */
void reuse_job_fail(struct reuse_job *job, enum status status, const char *text);
void reuse_job_tell_started(struct reuse_job *job);

/* Tells the listener what lies in the sequence. */
void reuse_tell_residence(struct reuse *reuse, uint32_t seq);
/* Keeps the counts of jobs in step with phases. */
void reuse_job_set_phase(struct reuse_job *job, enum reuse_phase phase);

#endif
