/* A loop for tests: calls posted from other threads run when the test pumps. Header only, one test program each. */
#ifndef FORELAY_TESTS_ENGINE_PUMP_H
#define FORELAY_TESTS_ENGINE_PUMP_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

enum { PUMP_CALLS_MAX = 64 };

struct pump {
  pthread_mutex_t lock;
  pthread_cond_t has_call;
  struct {
    void (*fn)(void *arg);
    void *arg;
  } calls[PUMP_CALLS_MAX];
  uint32_t n;
};

static inline void pump_init(struct pump *pump) {
  *pump = (struct pump){0};
  pthread_mutex_init(&pump->lock, NULL);
  pthread_cond_init(&pump->has_call, NULL);
}

/* thread_post. */
static inline bool pump_post(void *ctx, void (*fn)(void *arg), void *arg) {
  struct pump *pump = ctx;

  pthread_mutex_lock(&pump->lock);
  assert_true(pump->n < PUMP_CALLS_MAX);
  pump->calls[pump->n].fn = fn;
  pump->calls[pump->n].arg = arg;
  pump->n++;
  pthread_cond_signal(&pump->has_call);
  pthread_mutex_unlock(&pump->lock);
  return true;
}

/* Runs what was posted, waiting for it up to wait_ms; false when nothing came. */
static inline bool pump_run(struct pump *pump, uint32_t wait_ms) {
  struct pump taken;
  struct timespec until;

  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += wait_ms / 1000;
  until.tv_nsec += (long)(wait_ms % 1000) * 1000000;
  if (until.tv_nsec >= 1000000000) {
    until.tv_nsec -= 1000000000;
    until.tv_sec++;
  }
  pthread_mutex_lock(&pump->lock);
  while (pump->n == 0 && pthread_cond_timedwait(&pump->has_call, &pump->lock, &until) == 0) {
  }
  taken.n = pump->n;
  for (uint32_t i = 0; i < pump->n; i++) {
    taken.calls[i] = pump->calls[i];
  }
  pump->n = 0;
  pthread_mutex_unlock(&pump->lock);
  for (uint32_t i = 0; i < taken.n; i++) {
    taken.calls[i].fn(taken.calls[i].arg);
  }
  return taken.n > 0;
}

/* Pumps until *flag; the test fails where nothing happens for two minutes. */
static inline void pump_until(struct pump *pump, const bool *flag) {
  while (!*flag) {
    assert_true(pump_run(pump, 120000));
  }
}

#endif
