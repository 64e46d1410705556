/* The ring: order and limit with one thread; nothing lost, doubled or torn with several. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <sched.h>

#include "base/ring.h"

static void test_one_thread(void **state) {
  (void)state;
  struct ring *ring;
  const size_t element_sizes[] = {1, 4, 8, 24};
  for (size_t s = 0; s < sizeof element_sizes / sizeof *element_sizes; s++) {
    unsigned char in[24] = {0}, out[24];
    assert_int_equal(ring_create(element_sizes[s], 5, &ring), STATUS_OK);
    assert_false(ring_pop(ring, out));
    size_t capacity = 0;
    for (in[0] = 0; ring_push(ring, in); in[0]++) capacity++;
    assert_int_equal(capacity, 8);
    for (int round = 0; round < 100; round++) {
      assert_true(ring_pop(ring, out));
      assert_int_equal(out[0], round);
      assert_true(ring_push(ring, in));
      in[0]++;
      assert_false(ring_push(ring, in));
    }
    for (size_t i = 0; i < capacity; i++) assert_true(ring_pop(ring, out));
    assert_false(ring_pop(ring, out));
    ring_destroy(&ring);
    assert_null(ring);
    ring_destroy(&ring);
  }
  assert_int_equal(ring_create(8, SIZE_MAX, &ring), STATUS_NO_MEMORY);
  assert_int_equal(ring_create(SIZE_MAX, 2, &ring), STATUS_NO_MEMORY);
}

enum { PRODUCERS = 3, ELEMENTS_EACH = 40000 };

struct element {
  uint32_t producer, number, check;
};

struct producer {
  struct ring *ring;
  uint32_t id;
};

static void *produce(void *ctx) {
  const struct producer *producer = ctx;
  for (uint32_t i = 0; i < ELEMENTS_EACH; i++) {
    const struct element element = {producer->id, i, producer->id * 7919 + i};
    while (!ring_push(producer->ring, &element)) sched_yield();
  }
  return NULL;
}

static void test_many_threads(void **state) {
  (void)state;
  struct ring *ring;
  pthread_t threads[PRODUCERS];
  struct producer producers[PRODUCERS];
  uint32_t next[PRODUCERS] = {0};
  assert_int_equal(ring_create(sizeof(struct element), 64, &ring), STATUS_OK);
  for (uint32_t i = 0; i < PRODUCERS; i++) {
    producers[i] = (struct producer){ring, i};
    assert_int_equal(pthread_create(&threads[i], NULL, produce, &producers[i]), 0);
  }
  for (uint32_t taken = 0; taken < PRODUCERS * ELEMENTS_EACH;) {
    struct element element;
    if (!ring_pop(ring, &element)) {
      sched_yield();
      continue;
    }
    taken++;
    assert_true(element.producer < PRODUCERS);
    assert_int_equal(element.number, next[element.producer]);
    assert_int_equal(element.check, element.producer * 7919 + element.number);
    next[element.producer]++;
  }
  for (int i = 0; i < PRODUCERS; i++) pthread_join(threads[i], NULL);
  struct element element;
  assert_false(ring_pop(ring, &element));
  ring_destroy(&ring);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_one_thread),
      cmocka_unit_test(test_many_threads),
  };
  return cmocka_run_group_tests_name("ring", tests, NULL, NULL);
}
