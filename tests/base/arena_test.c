/* Pieces of an arena: apart, aligned, within the limit, gone together. */
#include <setjmp.h>
#include <stdalign.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/arena.h"
#include "base/rng.h"

static void test_pieces(void **state) {
  (void)state;
  enum { PIECES = 2000, SIZE_MAX_EACH = 20000 };
  static unsigned char *pieces[PIECES];
  static size_t sizes[PIECES];
  struct arena arena;
  struct rng rng;
  size_t sum = 0;
  rng_init(&rng, 5);
  arena_init(&arena, 64 << 20);
  for (int i = 0; i < PIECES; i++) {
    sizes[i] = (size_t)rng_below(&rng, i % 50 == 0 ? SIZE_MAX_EACH : 200);
    pieces[i] = arena_allocate(&arena, sizes[i]);
    assert_non_null(pieces[i]);
    assert_int_equal((uintptr_t)pieces[i] % alignof(max_align_t), 0);
    memset(pieces[i], i & 255, sizes[i]);
    sum += sizes[i];
    assert_true(arena.bytes >= sum && arena.bytes <= sum + ((size_t)i + 1) * alignof(max_align_t));
  }
  for (int i = 0; i < PIECES; i++)
    for (size_t j = 0; j < sizes[i]; j++) assert_int_equal(pieces[i][j], i & 255);
  arena_release(&arena);
  assert_int_equal(arena.bytes, 0);
  arena_release(&arena);
}

static void test_limit(void **state) {
  (void)state;
  struct arena arena;
  arena_init(&arena, 1024);
  assert_null(arena_allocate(&arena, 1025));
  assert_null(arena_allocate(&arena, SIZE_MAX));
  assert_int_equal(arena.bytes, 0);
  size_t given = 0;
  while (arena_allocate(&arena, 100) != NULL) given++;
  assert_true(given >= 7 && given <= 10);
  assert_true(arena.bytes <= 1024);
  arena_release(&arena);
  assert_non_null(arena_allocate(&arena, 1024));
  assert_null(arena_allocate(&arena, 0));
  arena_release(&arena);
}

static void test_text(void **state) {
  (void)state;
  struct arena arena;
  arena_init(&arena, 4096);
  char *text = arena_copy_text(&arena, "hello world", 5), *empty = arena_copy_text(&arena, NULL, 0);
  assert_string_equal(text, "hello");
  assert_string_equal(empty, "");
  assert_ptr_not_equal(text, empty);
  assert_null(arena_copy_text(&arena, "x", SIZE_MAX));
  arena_release(&arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_pieces),
      cmocka_unit_test(test_limit),
      cmocka_unit_test(test_text),
  };
  return cmocka_run_group_tests_name("arena", tests, NULL, NULL);
}
