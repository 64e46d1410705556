/* The heap against an array that is searched for its least. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/heap.h"
#include "base/rng.h"

enum { IDS = 200 };

static bool is_there[IDS];
static double priorities[IDS];

/* IDS: none. */
static uint32_t least(void) {
  uint32_t best = IDS;
  for (uint32_t i = 0; i < IDS; i++)
    if (is_there[i] && (best == IDS || priorities[i] < priorities[best])) best = i;
  return best;
}

static void test_against_array(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= 20; seed++) {
    struct heap *heap;
    struct rng rng;
    size_t count = 0;
    print_message("seed %llu\n", (unsigned long long)seed);
    rng_init(&rng, seed);
    assert_int_equal(heap_create(&heap), STATUS_OK);
    for (uint32_t i = 0; i < IDS; i++) is_there[i] = false;
    for (int step = 0; step < 5000; step++) {
      uint32_t id = (uint32_t)rng_below(&rng, IDS), top = IDS;
      uint64_t what = rng_below(&rng, 10);
      double priority = (double)rng_below(&rng, 20) - 10, top_priority = 0; /* few values: many ties */
      if (what < 6) {
        assert_int_equal(heap_set(heap, id, priority), STATUS_OK);
        count += !is_there[id];
        is_there[id] = true;
        priorities[id] = priority;
      } else if (what < 8) {
        heap_remove(heap, id);
        count -= is_there[id];
        is_there[id] = false;
      } else {
        uint32_t expected = least();
        assert_int_equal(heap_pop(heap, &top, &top_priority), expected != IDS);
        if (expected != IDS) {
          assert_int_equal(top, expected);
          assert_true(top_priority == priorities[expected]);
          is_there[expected] = false;
          count--;
        }
      }
      assert_int_equal(heap_count(heap), count);
      assert_int_equal(heap_contains(heap, id), is_there[id]);
      if (heap_peek(heap, &top, NULL)) assert_int_equal(top, least());
    }
    heap_destroy(&heap);
    assert_null(heap);
    heap_destroy(&heap);
  }
}

static void test_edges(void **state) {
  (void)state;
  struct heap *heap;
  uint32_t id = 77;
  assert_int_equal(heap_create(&heap), STATUS_OK);
  assert_false(heap_peek(heap, &id, NULL));
  assert_false(heap_pop(heap, &id, NULL));
  assert_int_equal(id, 77);
  heap_remove(heap, 123456);
  assert_false(heap_contains(heap, UINT32_MAX));
  assert_int_equal(heap_set(heap, 100000, 1e308 * 10), STATUS_OK); /* infinity is a priority like others */
  assert_int_equal(heap_set(heap, 3, -1e308 * 10), STATUS_OK);
  assert_true(heap_pop(heap, &id, NULL));
  assert_int_equal(id, 3);
  assert_true(heap_pop(heap, &id, NULL));
  assert_int_equal(id, 100000);
  heap_destroy(&heap);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_against_array),
      cmocka_unit_test(test_edges),
  };
  return cmocka_run_group_tests_name("heap", tests, NULL, NULL);
}
