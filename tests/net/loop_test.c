/* The loop: order and limits of posted work from several threads, timers, watches, stopping, closing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "net/loop.h"
#include "os/clock.h"

enum { POSTERS = 4, POSTS_EACH = 5000, WAIT_US = 20000000 };

struct poster {
  struct loop *loop;
  pthread_t self, loop_thread;
  int next[POSTERS]; /* what this poster's next work must be */
  int n_run, n_wrong;
};

struct work {
  struct poster *of;
  int thread, number;
};

static void run_in_order(void *ctx) {
  struct work *work = ctx;
  struct poster *of = work->of;
  bool is_right = of->next[work->thread] == work->number && pthread_equal(pthread_self(), of->loop_thread) != 0;
  of->n_wrong += !is_right;
  of->next[work->thread]++;
  of->n_run++;
  free(work);
}

static struct poster shared;

static void *post_many(void *ctx) {
  int thread = (int)(intptr_t)ctx;
  for (int i = 0; i < POSTS_EACH; i++) {
    struct work *work = malloc(sizeof *work);
    if (work == NULL) abort();
    *work = (struct work){&shared, thread, i};
    while (!loop_post(shared.loop, run_in_order, work)) sched_yield();
  }
  return NULL;
}

static bool has_run_all(void *ctx) {
  return ((struct poster *)ctx)->n_run == POSTERS * POSTS_EACH;
}

/* The queue is far shorter than what is posted, so that it fills; every work runs once, each thread's in its order. */
static void test_posts_in_order(void **state) {
  (void)state;
  pthread_t threads[POSTERS];
  shared = (struct poster){.loop_thread = pthread_self()};
  assert_int_equal(loop_create(64, &shared.loop), STATUS_OK);
  for (int i = 0; i < POSTERS; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, post_many, (void *)(intptr_t)i), 0);
  assert_true(loop_run_until(shared.loop, has_run_all, &shared, WAIT_US));
  for (int i = 0; i < POSTERS; i++) pthread_join(threads[i], NULL);
  assert_int_equal(shared.n_wrong, 0);
  loop_destroy(&shared.loop);
  assert_null(shared.loop);
}

static void add_one(void *ctx) {
  ++*(int *)ctx;
}

static void test_posts_max(void **state) {
  (void)state;
  struct loop *loop;
  int count = 0;
  assert_int_equal(loop_create(3, &loop), STATUS_OK);
  for (int i = 0; i < 3; i++) assert_true(loop_post(loop, add_one, &count));
  assert_false(loop_post(loop, add_one, &count));
  assert_int_equal(count, 0);
  loop_destroy(&loop);
  assert_int_equal(count, 3);
}

struct chain {
  struct loop *loop;
  int left, n_run;
};

static void post_next(void *ctx) {
  struct chain *chain = ctx;
  chain->n_run++;
  if (chain->left-- > 0) (void)loop_post(chain->loop, post_next, chain);
}

/* Work posted by work that runs while the loop closes runs too. */
static void test_posts_while_closing(void **state) {
  (void)state;
  struct chain chain = {.left = 3};
  assert_int_equal(loop_create(0, &chain.loop), STATUS_OK);
  assert_true(loop_post(chain.loop, post_next, &chain));
  struct loop *loop = chain.loop;
  loop_destroy(&loop);
  assert_int_equal(chain.n_run, 4);
}

static void *stop_loop(void *ctx) {
  loop_stop(ctx);
  return NULL;
}

static void test_stop(void **state) {
  (void)state;
  struct loop *loop;
  pthread_t thread;
  int count = 0;
  assert_int_equal(loop_create(0, &loop), STATUS_OK);
  assert_true(loop_post(loop, add_one, &count));
  assert_int_equal(pthread_create(&thread, NULL, stop_loop, loop), 0);
  loop_run(loop);
  pthread_join(thread, NULL);
  assert_int_equal(count, 1);
  loop_destroy(&loop);
}

struct alarm {
  struct loop_timer *timer;
  uint64_t fired_us;
  int n_fired;
};

static void fire(void *ctx) {
  struct alarm *alarm = ctx;
  alarm->n_fired++;
  alarm->fired_us = clock_monotonic_us();
}

static void fire_and_go(void *ctx) {
  struct alarm *alarm = ctx;
  fire(ctx);
  loop_timer_destroy(&alarm->timer);
}

static bool has_fired(void *ctx) {
  return ((struct alarm *)ctx)->n_fired > 0;
}

static bool never(void *ctx) {
  (void)ctx;
  return false;
}

static void test_timers(void **state) {
  (void)state;
  struct loop *loop;
  struct alarm kept = {0}, stopped = {0}, gone = {0};
  assert_int_equal(loop_create(0, &loop), STATUS_OK);
  assert_int_equal(loop_timer_create(loop, fire, &kept, &kept.timer), STATUS_OK);
  assert_int_equal(loop_timer_create(loop, fire, &stopped, &stopped.timer), STATUS_OK);
  assert_int_equal(loop_timer_create(loop, fire_and_go, &gone, &gone.timer), STATUS_OK);
  uint64_t begin_us = clock_monotonic_us();
  loop_timer_start(kept.timer, 1000);
  loop_timer_start(kept.timer, 60000); /* again from now: the first start is forgotten */
  loop_timer_start(stopped.timer, 1000);
  loop_timer_stop(stopped.timer);
  loop_timer_start(gone.timer, 1000);
  assert_true(loop_run_until(loop, has_fired, &kept, WAIT_US));
  assert_true(kept.fired_us - begin_us >= 50000);
  assert_int_equal(gone.n_fired, 1);
  assert_null(gone.timer);
  assert_false(loop_run_until(loop, never, NULL, 80000));
  assert_int_equal(kept.n_fired, 1);
  assert_int_equal(stopped.n_fired, 0);
  loop_timer_start(kept.timer, 0);
  kept.n_fired = 0;
  assert_true(loop_run_until(loop, has_fired, &kept, WAIT_US));
  loop_timer_destroy(&kept.timer);
  loop_timer_destroy(&stopped.timer);
  loop_timer_destroy(&gone.timer);
  loop_destroy(&loop);
}

struct reader {
  int fd, n_bytes;
};

static void read_one(void *ctx) {
  struct reader *reader = ctx;
  char byte;
  if (read(reader->fd, &byte, 1) == 1) reader->n_bytes++;
}

static bool has_three(void *ctx) {
  return ((struct reader *)ctx)->n_bytes == 3;
}

static void test_watches(void **state) {
  (void)state;
  struct loop *loop;
  struct loop_watch *watch;
  int ends[2];
  assert_int_equal(pipe(ends), 0);
  struct reader reader = {.fd = ends[0]};
  assert_int_equal(loop_create(0, &loop), STATUS_OK);
  assert_int_equal(loop_watch_create(loop, ends[0], read_one, &reader, &watch), STATUS_OK);
  assert_int_equal(write(ends[1], "abc", 3), 3); /* one byte a call: told again while more is there */
  assert_true(loop_run_until(loop, has_three, &reader, WAIT_US));
  loop_watch_destroy(&watch);
  assert_null(watch);
  assert_int_equal(write(ends[1], "d", 1), 1);
  assert_false(loop_run_until(loop, never, NULL, 30000));
  assert_int_equal(reader.n_bytes, 3);
  loop_destroy(&loop);
  close(ends[0]);
  close(ends[1]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_posts_in_order),
      cmocka_unit_test(test_posts_max),
      cmocka_unit_test(test_posts_while_closing),
      cmocka_unit_test(test_stop),
      cmocka_unit_test(test_timers),
      cmocka_unit_test(test_watches),
  };
  return cmocka_run_group_tests_name("loop", tests, NULL, NULL);
}
