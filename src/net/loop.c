#include "net/loop.h"

#include <event2/event.h>
#include <event2/thread.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "os/clock.h"

enum { POSTS_MAX_DEFAULT = 65536 };

struct post {
  struct post *next;
  void (*fn)(void *ctx);
  void *ctx;
};

struct loop {
  struct event_base *base;
  struct event *wake;
  int wake_fd;
  pthread_mutex_t mutex; /* guards all below */
  struct post *first, *last;
  size_t count, posts_max;
  bool is_stopping;
};

struct loop_timer {
  struct event *event;
  void (*fn)(void *ctx);
  void *ctx;
};

struct loop_watch {
  struct event *event;
  void (*fn)(void *ctx);
  void *ctx;
};

static void run_posts(struct loop *loop) {
  pthread_mutex_lock(&loop->mutex);
  struct post *post = loop->first;
  loop->first = loop->last = NULL;
  loop->count = 0;
  pthread_mutex_unlock(&loop->mutex);
  for (struct post *next; post != NULL; post = next) {
    next = post->next;
    post->fn(post->ctx);
    free(post);
  }
}

static void woken(evutil_socket_t fd, short what, void *ctx) {
  (void)what;
  struct loop *loop = ctx;
  uint64_t count;
  (void)!read((int)fd, &count, sizeof count);
  run_posts(loop);
  pthread_mutex_lock(&loop->mutex);
  bool is_stopping = loop->is_stopping;
  pthread_mutex_unlock(&loop->mutex);
  if (is_stopping) event_base_loopbreak(loop->base);
}

enum status loop_create(size_t posts_max, struct loop **ret_loop) {
  struct loop *loop = calloc(1, sizeof *loop);
  if (loop == NULL) return STATUS_NO_MEMORY;
  loop->posts_max = posts_max > 0 ? posts_max : POSTS_MAX_DEFAULT;
  pthread_mutex_init(&loop->mutex, NULL);
  loop->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  loop->base = event_base_new();
  if (loop->wake_fd >= 0 && loop->base != NULL)
    loop->wake = event_new(loop->base, loop->wake_fd, EV_READ | EV_PERSIST, woken, loop);
  if (loop->wake == NULL || event_add(loop->wake, NULL) != 0) {
    loop_destroy(&loop);
    return STATUS_NO_MEMORY;
  }
  *ret_loop = loop;
  return STATUS_OK;
}

void loop_destroy(struct loop **reference) {
  struct loop *loop = *reference;
  if (loop == NULL) return;
  while (loop->first != NULL) run_posts(loop); /* nobody else posts any more; those that run may */
  if (loop->wake != NULL) event_free(loop->wake);
  if (loop->base != NULL) event_base_free(loop->base);
  if (loop->wake_fd >= 0) close(loop->wake_fd);
  pthread_mutex_destroy(&loop->mutex);
  free(loop);
  *reference = NULL;
}

static void wake(struct loop *loop) {
  const uint64_t one = 1;
  (void)!write(loop->wake_fd, &one, sizeof one);
}

void loop_run(struct loop *loop) {
  event_base_loop(loop->base, EVLOOP_NO_EXIT_ON_EMPTY);
}

static void do_nothing(evutil_socket_t fd, short what, void *ctx) {
  (void)fd;
  (void)what;
  (void)ctx;
}

bool loop_run_until(struct loop *loop, bool (*is_done)(void *ctx), void *ctx, uint64_t timeout_us) {
  const struct timeval pause = {.tv_usec = 20000};
  struct event *tick = event_new(loop->base, -1, EV_PERSIST, do_nothing, NULL);
  if (tick == NULL) return is_done(ctx);
  event_add(tick, &pause);
  uint64_t until_us = clock_monotonic_us() + timeout_us;
  while (!is_done(ctx) && clock_monotonic_us() < until_us) event_base_loop(loop->base, EVLOOP_ONCE);
  event_free(tick);
  return is_done(ctx);
}

void loop_stop(struct loop *loop) {
  pthread_mutex_lock(&loop->mutex);
  loop->is_stopping = true;
  pthread_mutex_unlock(&loop->mutex);
  wake(loop);
}

bool loop_post(void *ctx_loop, void (*fn)(void *ctx), void *ctx) {
  struct loop *loop = ctx_loop;
  struct post *post = malloc(sizeof *post);
  if (post == NULL) return false;
  *post = (struct post){.fn = fn, .ctx = ctx};
  pthread_mutex_lock(&loop->mutex);
  bool fits = loop->count < loop->posts_max;
  if (fits) {
    *(loop->last != NULL ? &loop->last->next : &loop->first) = post;
    loop->last = post;
    loop->count++;
  }
  pthread_mutex_unlock(&loop->mutex);
  if (fits)
    wake(loop);
  else
    free(post);
  return fits;
}

static void timer_fired(evutil_socket_t fd, short what, void *ctx) {
  (void)fd;
  (void)what;
  struct loop_timer *timer = ctx;
  timer->fn(timer->ctx);
}

enum status loop_timer_create(struct loop *loop, void (*fn)(void *ctx), void *ctx, struct loop_timer **ret_timer) {
  struct loop_timer *timer = calloc(1, sizeof *timer);
  if (timer == NULL) return STATUS_NO_MEMORY;
  *timer = (struct loop_timer){.event = evtimer_new(loop->base, timer_fired, timer), .fn = fn, .ctx = ctx};
  if (timer->event == NULL) {
    free(timer);
    return STATUS_NO_MEMORY;
  }
  *ret_timer = timer;
  return STATUS_OK;
}

void loop_timer_start(struct loop_timer *timer, uint64_t after_us) {
  const struct timeval after = {.tv_sec = (time_t)(after_us / 1000000), .tv_usec = (suseconds_t)(after_us % 1000000)};
  evtimer_add(timer->event, &after);
}

void loop_timer_stop(struct loop_timer *timer) {
  evtimer_del(timer->event);
}

void loop_timer_destroy(struct loop_timer **timer) {
  if (*timer == NULL) return;
  event_free((*timer)->event);
  free(*timer);
  *timer = NULL;
}

static void watch_fired(evutil_socket_t fd, short what, void *ctx) {
  (void)fd;
  (void)what;
  struct loop_watch *watch = ctx;
  watch->fn(watch->ctx);
}

enum status loop_watch_create(struct loop *loop, int fd, void (*fn)(void *ctx), void *ctx,
                              struct loop_watch **ret_watch) {
  struct loop_watch *watch = calloc(1, sizeof *watch);
  if (watch == NULL) return STATUS_NO_MEMORY;
  *watch = (struct loop_watch){
      .event = event_new(loop->base, fd, EV_READ | EV_PERSIST, watch_fired, watch), .fn = fn, .ctx = ctx};
  if (watch->event == NULL || event_add(watch->event, NULL) != 0) {
    if (watch->event != NULL) event_free(watch->event);
    free(watch);
    return STATUS_NO_MEMORY;
  }
  *ret_watch = watch;
  return STATUS_OK;
}

void loop_watch_destroy(struct loop_watch **watch) {
  if (*watch == NULL) return;
  event_free((*watch)->event);
  free(*watch);
  *watch = NULL;
}

struct event_base *loop_base(struct loop *loop) {
  return loop->base;
}
