#include "os/thread.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

struct work {
  void (*run)(void *ctx);
  void (*done)(void *ctx);
  void *ctx;
};

struct worker {
  thread_post *post;
  void *post_ctx;
  pthread_t *threads;
  uint32_t n_threads;
  pthread_mutex_t mutex; /* guards all below */
  pthread_cond_t more;
  struct work *ring; /* [ring_size] */
  size_t ring_size, first, count;
  bool is_closing;
};

static void *worker_run(void *argument) {
  struct worker *worker = argument;
  pthread_mutex_lock(&worker->mutex);
  for (;;) {
    while (worker->count == 0 && !worker->is_closing) pthread_cond_wait(&worker->more, &worker->mutex);
    if (worker->count == 0) break;
    struct work work = worker->ring[worker->first];
    worker->first = (worker->first + 1) % worker->ring_size;
    worker->count--;
    pthread_mutex_unlock(&worker->mutex);
    work.run(work.ctx);
    if (work.done != NULL) (void)worker->post(worker->post_ctx, work.done, work.ctx);
    pthread_mutex_lock(&worker->mutex);
  }
  pthread_mutex_unlock(&worker->mutex);
  return NULL;
}

enum status worker_create(const char *name, uint32_t threads, size_t queue_max, thread_post *post, void *post_ctx,
                          struct worker **ret_worker) {
  struct worker *worker = calloc(1, sizeof *worker);
  if (worker == NULL) return STATUS_NO_MEMORY;
  worker->post = post;
  worker->post_ctx = post_ctx;
  worker->ring_size = queue_max;
  worker->ring = calloc(queue_max, sizeof *worker->ring);
  worker->threads = calloc(threads, sizeof *worker->threads);
  pthread_mutex_init(&worker->mutex, NULL);
  pthread_cond_init(&worker->more, NULL);
  bool is_started = worker->ring != NULL && worker->threads != NULL;
  while (is_started && worker->n_threads < threads) {
    is_started = pthread_create(&worker->threads[worker->n_threads], NULL, worker_run, worker) == 0;
    if (is_started) pthread_setname_np(worker->threads[worker->n_threads++], name);
  }
  if (!is_started) {
    worker_destroy(&worker);
    return STATUS_NO_MEMORY;
  }
  *ret_worker = worker;
  return STATUS_OK;
}

void worker_destroy(struct worker **reference) {
  struct worker *worker = *reference;
  if (worker == NULL) return;
  pthread_mutex_lock(&worker->mutex);
  worker->is_closing = true;
  pthread_cond_broadcast(&worker->more);
  pthread_mutex_unlock(&worker->mutex);
  for (uint32_t i = 0; i < worker->n_threads; i++) pthread_join(worker->threads[i], NULL);
  pthread_cond_destroy(&worker->more);
  pthread_mutex_destroy(&worker->mutex);
  free(worker->threads);
  free(worker->ring);
  free(worker);
  *reference = NULL;
}

enum status worker_submit(struct worker *worker, void (*run)(void *ctx), void (*done)(void *ctx), void *ctx) {
  pthread_mutex_lock(&worker->mutex);
  bool fits = worker->count < worker->ring_size && !worker->is_closing;
  if (fits) {
    worker->ring[(worker->first + worker->count) % worker->ring_size] = (struct work){run, done, ctx};
    worker->count++;
    pthread_cond_signal(&worker->more);
  }
  pthread_mutex_unlock(&worker->mutex);
  return fits ? STATUS_OK : STATUS_FULL;
}
