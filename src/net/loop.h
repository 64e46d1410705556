/* The one event loop: timers, file descriptors, and work posted from other threads. Everything but loop_post and
 * loop_stop belongs to the loop's thread. Owns its events; decides nothing. */
#ifndef FORELAY_NET_LOOP_H
#define FORELAY_NET_LOOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

struct event_base; /* libevent's; for net/ only */
struct loop;
struct loop_timer;
struct loop_watch;

/* posts_max: works posted and not yet run, at most; 0: 65,536. */
MUST_USE enum status loop_create(size_t posts_max, struct loop **ret_loop);
/* Runs what is still posted, then frees; timers and watches must be gone. NULL is accepted; nulls the pointer. */
void loop_destroy(struct loop **loop);
/* Until loop_stop. */
void loop_run(struct loop *loop);
/* Turns the loop until `is_done(ctx)` is true or timeout_us have passed; for tests and for closing down. */
bool loop_run_until(struct loop *loop, bool (*is_done)(void *ctx), void *ctx, uint64_t timeout_us);
/* Any thread. */
void loop_stop(struct loop *loop);
/* Runs fn(ctx) on the loop's thread, in the order of posting. false: too many are waiting, or out of memory; fn never
 * runs then. Any thread. Usable as thread_post with the loop as post_ctx. */
bool loop_post(void *loop, void (*fn)(void *ctx), void *ctx);

/* One shot; fires at most once for each start. */
MUST_USE enum status loop_timer_create(struct loop *loop, void (*fn)(void *ctx), void *ctx,
                                       struct loop_timer **ret_timer);
/* Starts, or starts again from now. */
void loop_timer_start(struct loop_timer *timer, uint64_t after_us);
void loop_timer_stop(struct loop_timer *timer);
/* NULL is accepted; nulls the pointer. May be called from its own fn. */
void loop_timer_destroy(struct loop_timer **timer);

/* fn(ctx) whenever fd is readable. The fd stays the caller's. */
MUST_USE enum status loop_watch_create(struct loop *loop, int fd, void (*fn)(void *ctx), void *ctx,
                                       struct loop_watch **ret_watch);
void loop_watch_destroy(struct loop_watch **watch);

/* For net/server.c. */
struct event_base *loop_base(struct loop *loop);

#endif
