/* The engine inside this program: jobs on one libllama context, run by one thread that is the only caller of libllama.
 * Order of work: decode steps of all answers in one call, one piece of the real request that waited longest, copies of
 * finished states, one piece of speculation. Owns the thread; borrows the model. */
#ifndef FORELAY_ENGINE_EMBEDDED_H
#define FORELAY_ENGINE_EMBEDDED_H

#include <stdint.h>

#include "base/status.h"
#include "engine/engine.h"
#include "os/thread.h"

struct model;

struct embedded_options {
  struct model *model; /* borrowed until engine_close; its sequences and logits belong to the engine thread till then */
  uint32_t jobs_max;   /* submitted and not ended; 0: 256 */
  uint32_t piece_us_max; /* a prefill call is made as long as is predicted to end in that time; 0: 250,000 (50,000 on a
                            GPU, where a call cannot be aborted) */
  thread_post *post;     /* brings events to the loop thread */
  void *post_ctx;
};

/* *ret_engine is closed by engine_close, which must not be called from inside a callback. */
MUST_USE enum status embedded_open(const struct embedded_options *options, struct engine **ret_engine,
                                   struct error *error);

#endif
