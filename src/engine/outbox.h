/* Events on their way from the engine thread to the loop thread, in order. The engine pushes, one posted call on the
 * loop delivers all that are there. Owns no event: each deliver() disposes of its own. */
#ifndef FORELAY_ENGINE_OUTBOX_H
#define FORELAY_ENGINE_OUTBOX_H

#include <stdint.h>

#include "base/status.h"
#include "os/thread.h"

struct outbox_event {
  struct outbox_event *next;
  void (*deliver)(struct outbox_event *event); /* on the loop thread, exactly once; the event may be freed there */
};

struct outbox;

/* pending_max: events that may wait for the loop before outbox_wait_room() waits. */
MUST_USE enum status outbox_create(thread_post *post, void *post_ctx, uint32_t pending_max, struct outbox **ret_outbox);
/* Engine thread. Never waits. */
void outbox_push(struct outbox *outbox, struct outbox_event *event);
/* Engine thread: waits until the loop has caught up, so that a slow loop bounds what is in flight. */
void outbox_wait_room(struct outbox *outbox);
/* Loop thread: nobody waits for room any more. Call it before joining the engine thread. */
void outbox_stop(struct outbox *outbox);
/* Loop thread, after the engine thread has ended: delivers what is left, then releases. A call that was posted and has
 * not run yet finds nothing to do. NULLs the pointer. */
void outbox_close(struct outbox **outbox);

#endif
