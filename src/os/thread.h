/* A small pool of threads with a bounded queue; what they finish is told on the loop thread. Owns its threads. */
#ifndef FORELAY_OS_THREAD_H
#define FORELAY_OS_THREAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

struct worker;

/* Runs fn(ctx) on the loop thread, in order; false: it cannot any more (then fn never runs). Any thread. */
typedef bool thread_post(void *post_ctx, void (*fn)(void *ctx), void *ctx);

/* `name` (at most 15 bytes) is shown by tools. threads ≥ 1, queue_max ≥ 1. */
MUST_USE enum status worker_create(const char *name, uint32_t threads, size_t queue_max, thread_post *post,
                                   void *post_ctx, struct worker **ret_worker);
/* Finishes what is queued, joins the threads; their `done`s are posted as usual. NULL is accepted; nulls the pointer.
 */
void worker_destroy(struct worker **worker);
/* run(ctx) on one of its threads, then done(ctx) on the loop thread, exactly once, never before this returns. done may
 * be NULL. STATUS_FULL: the queue is full; nothing will be called then. Any thread; never blocks. */
MUST_USE enum status worker_submit(struct worker *worker, void (*run)(void *ctx), void (*done)(void *ctx), void *ctx);

#endif
