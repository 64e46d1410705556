#include "engine/outbox.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

struct outbox {
  pthread_mutex_t lock; /* guards everything below */
  pthread_cond_t has_room;
  struct outbox_event *first, **end;
  uint32_t pending; /* events between first and end */
  uint32_t pending_max;
  bool is_posted; /* a call of drain() is on its way: it holds a reference */
  bool is_stopped;
  uint32_t references; /* the owner's and that call's */
  thread_post *post;
  void *post_ctx;
};

enum status outbox_create(thread_post *post, void *post_ctx, uint32_t pending_max, struct outbox **ret_outbox) {
  struct outbox *outbox = calloc(1, sizeof(*outbox));

  if (outbox == NULL) {
    return STATUS_NO_MEMORY;
  }
  pthread_mutex_init(&outbox->lock, NULL);
  pthread_cond_init(&outbox->has_room, NULL);
  outbox->end = &outbox->first;
  outbox->pending_max = pending_max;
  outbox->references = 1;
  outbox->post = post;
  outbox->post_ctx = post_ctx;
  *ret_outbox = outbox;
  return STATUS_OK;
}

static void drop_reference(struct outbox *outbox) {
  bool is_last;

  pthread_mutex_lock(&outbox->lock);
  is_last = --outbox->references == 0;
  pthread_mutex_unlock(&outbox->lock);
  if (is_last) {
    pthread_cond_destroy(&outbox->has_room);
    pthread_mutex_destroy(&outbox->lock);
    free(outbox);
  }
}

static void deliver_all(struct outbox *outbox) {
  struct outbox_event *event;

  pthread_mutex_lock(&outbox->lock);
  event = outbox->first;
  outbox->first = NULL;
  outbox->end = &outbox->first;
  outbox->pending = 0;
  pthread_cond_broadcast(&outbox->has_room);
  pthread_mutex_unlock(&outbox->lock);
  while (event != NULL) {
    struct outbox_event *next = event->next;

    event->deliver(event);
    event = next;
  }
}

static void drain(void *arg) {
  struct outbox *outbox = arg;

  pthread_mutex_lock(&outbox->lock);
  outbox->is_posted = false;
  pthread_mutex_unlock(&outbox->lock);
  deliver_all(outbox);
  drop_reference(outbox);
}

void outbox_push(struct outbox *outbox, struct outbox_event *event) {
  bool must_post;

  event->next = NULL;
  pthread_mutex_lock(&outbox->lock);
  *outbox->end = event;
  outbox->end = &event->next;
  outbox->pending++;
  must_post = !outbox->is_posted;
  if (must_post) {
    outbox->is_posted = true;
    outbox->references++;
  }
  pthread_mutex_unlock(&outbox->lock);
  if (must_post && !outbox->post(outbox->post_ctx, drain, outbox)) {
    drop_reference(outbox); /* the loop is ending: outbox_close delivers what waits here */
  }
}

void outbox_wait_room(struct outbox *outbox) {
  pthread_mutex_lock(&outbox->lock);
  while (outbox->pending >= outbox->pending_max && !outbox->is_stopped) {
    pthread_cond_wait(&outbox->has_room, &outbox->lock);
  }
  pthread_mutex_unlock(&outbox->lock);
}

void outbox_stop(struct outbox *outbox) {
  pthread_mutex_lock(&outbox->lock);
  outbox->is_stopped = true;
  pthread_cond_broadcast(&outbox->has_room);
  pthread_mutex_unlock(&outbox->lock);
}

void outbox_close(struct outbox **outbox) {
  deliver_all(*outbox);
  drop_reference(*outbox);
  *outbox = NULL;
}
