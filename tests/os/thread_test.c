/* The worker pool: every work once, told once and on the right thread, the queue bounded, closing finishes what waits.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdlib.h>

#include "os/thread.h"

enum { WORKS = 2000, TOLD_MAX = WORKS + 8 };

/* Stands for the loop: what is posted waits until this thread takes it. */
static struct {
  pthread_mutex_t mutex;
  pthread_cond_t more;
  void (*fns[TOLD_MAX])(void *ctx);
  void *ctxs[TOLD_MAX];
  size_t n_posted, n_taken;
} board = {.mutex = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER};

static bool post(void *ctx, void (*fn)(void *ctx), void *fn_ctx) {
  (void)ctx;
  pthread_mutex_lock(&board.mutex);
  board.fns[board.n_posted] = fn;
  board.ctxs[board.n_posted++] = fn_ctx;
  pthread_cond_signal(&board.more);
  pthread_mutex_unlock(&board.mutex);
  return true;
}

static void take(size_t n) {
  for (; n > 0; n--) {
    pthread_mutex_lock(&board.mutex);
    while (board.n_taken == board.n_posted) pthread_cond_wait(&board.more, &board.mutex);
    size_t at = board.n_taken++;
    void (*fn)(void *) = board.fns[at];
    void *ctx = board.ctxs[at];
    pthread_mutex_unlock(&board.mutex);
    fn(ctx);
  }
}

static void clear_board(void) {
  assert_int_equal(board.n_taken, board.n_posted);
  board.n_taken = board.n_posted = 0;
}

struct job {
  pthread_t ran_on;
  int n_run, n_done;
};

static pthread_t main_thread;

static void run(void *ctx) {
  struct job *job = ctx;
  job->n_run++;
  job->ran_on = pthread_self();
}

static void done(void *ctx) {
  struct job *job = ctx;
  assert_int_equal(job->n_run, 1);
  assert_true(pthread_equal(pthread_self(), main_thread));
  job->n_done++;
}

static void test_each_once(void **state) {
  (void)state;
  static struct job jobs[WORKS];
  struct worker *worker;
  size_t taken = 0;
  main_thread = pthread_self();
  assert_int_equal(worker_create("test", 3, 16, post, NULL, &worker), STATUS_OK);
  for (size_t i = 0; i < WORKS; i++) {
    while (worker_submit(worker, run, done, &jobs[i]) == STATUS_FULL) {
      take(1);
      taken++;
    }
  }
  take(WORKS - taken);
  for (size_t i = 0; i < WORKS; i++) {
    assert_int_equal(jobs[i].n_run, 1);
    assert_int_equal(jobs[i].n_done, 1);
    assert_false(pthread_equal(jobs[i].ran_on, main_thread));
  }
  worker_destroy(&worker);
  assert_null(worker);
  worker_destroy(&worker);
  clear_board();
}

static pthread_barrier_t gate;

static void wait_at_gate(void *ctx) {
  (void)ctx;
  pthread_barrier_wait(&gate); /* the thread is busy now */
  pthread_barrier_wait(&gate); /* and may go on */
}

static void test_bounded(void **state) {
  (void)state;
  enum { QUEUE = 4 };
  struct job jobs[QUEUE + 1] = {{0}};
  struct worker *worker;
  pthread_barrier_init(&gate, NULL, 2);
  assert_int_equal(worker_create("test", 1, QUEUE, post, NULL, &worker), STATUS_OK);
  assert_int_equal(worker_submit(worker, wait_at_gate, NULL, NULL), STATUS_OK);
  pthread_barrier_wait(&gate);
  for (int i = 0; i < QUEUE; i++) assert_int_equal(worker_submit(worker, run, done, &jobs[i]), STATUS_OK);
  assert_int_equal(worker_submit(worker, run, done, &jobs[QUEUE]), STATUS_FULL);
  pthread_barrier_wait(&gate);
  worker_destroy(&worker); /* finishes what is queued */
  for (int i = 0; i < QUEUE; i++) assert_int_equal(jobs[i].n_run, 1);
  take(QUEUE);
  for (int i = 0; i < QUEUE; i++) assert_int_equal(jobs[i].n_done, 1);
  assert_int_equal(jobs[QUEUE].n_run, 0);
  clear_board();
  pthread_barrier_destroy(&gate);
}

static void meet(void *ctx) {
  (void)ctx;
  pthread_barrier_wait(&gate); /* passes only when all threads are in it */
}

static void test_side_by_side(void **state) {
  (void)state;
  struct worker *worker;
  pthread_barrier_init(&gate, NULL, 3);
  assert_int_equal(worker_create("test", 3, 8, post, NULL, &worker), STATUS_OK);
  for (int i = 0; i < 3; i++) assert_int_equal(worker_submit(worker, meet, NULL, NULL), STATUS_OK);
  worker_destroy(&worker);
  pthread_barrier_destroy(&gate);
  clear_board();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_each_once),
      cmocka_unit_test(test_bounded),
      cmocka_unit_test(test_side_by_side),
  };
  return cmocka_run_group_tests_name("thread", tests, NULL, NULL);
}
