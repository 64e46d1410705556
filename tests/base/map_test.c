/* The map against an array that is searched from end to end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/map.h"
#include "base/rng.h"

enum { KEYS = 300 };

static struct {
  bool is_there;
  uint64_t value;
} expected[KEYS];

/* Half of the keys share their home slot, so that runs grow and shift. */
static struct map_key key_of(unsigned number) {
  return number % 2 == 0 ? map_key_of(number) : (struct map_key){.hi = number, .lo = 7};
}

static size_t check_all(const struct map *map) {
  size_t count = 0, walked = 0, cursor = 0;
  for (unsigned i = 0; i < KEYS; i++) {
    uint64_t value = 0;
    assert_int_equal(map_get(map, key_of(i), &value), expected[i].is_there);
    if (expected[i].is_there) assert_int_equal(value, expected[i].value);
    count += expected[i].is_there;
  }
  uint64_t sum = 0, value;
  struct map_key key;
  while (map_next(map, &cursor, &key, &value)) {
    walked++;
    sum += value;
  }
  for (unsigned i = 0; i < KEYS; i++)
    if (expected[i].is_there) sum -= expected[i].value;
  assert_int_equal(sum, 0);
  assert_int_equal(walked, count);
  assert_int_equal(map_count(map), count);
  return count;
}

static void test_against_array(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= 20; seed++) {
    struct map *map;
    struct rng rng;
    print_message("seed %llu\n", (unsigned long long)seed);
    rng_init(&rng, seed);
    assert_int_equal(map_create(0, &map), STATUS_OK);
    for (unsigned i = 0; i < KEYS; i++) expected[i].is_there = false;
    for (int step = 0; step < 3000; step++) {
      unsigned i = (unsigned)rng_below(&rng, KEYS);
      uint64_t value = rng_next(&rng), old = 0;
      if (rng_below(&rng, 5) < (step < 1500 ? 3u : 2u)) {
        assert_int_equal(map_set(map, key_of(i), value), STATUS_OK);
        expected[i].is_there = true;
        expected[i].value = value;
      } else {
        assert_int_equal(map_remove(map, key_of(i), &old), expected[i].is_there);
        if (expected[i].is_there) assert_int_equal(old, expected[i].value);
        expected[i].is_there = false;
      }
      if (step % 100 == 0) (void)check_all(map);
    }
    (void)check_all(map);
    map_destroy(&map);
    assert_null(map);
    map_destroy(&map);
  }
}

static void test_limit(void **state) {
  (void)state;
  struct map *map;
  assert_int_equal(map_create(3, &map), STATUS_OK);
  for (uint64_t i = 0; i < 3; i++) assert_int_equal(map_set(map, map_key_of(i), i), STATUS_OK);
  assert_int_equal(map_set(map, map_key_of(3), 3), STATUS_FULL);
  assert_false(map_get(map, map_key_of(3), NULL));
  assert_int_equal(map_set(map, map_key_of(1), 10), STATUS_OK); /* replacing needs no room */
  uint64_t value;
  assert_true(map_get(map, map_key_of(1), &value));
  assert_int_equal(value, 10);
  assert_true(map_remove(map, map_key_of(0), NULL));
  assert_false(map_remove(map, map_key_of(0), NULL));
  assert_int_equal(map_set(map, map_key_of(3), 3), STATUS_OK);
  assert_int_equal(map_count(map), 3);
  map_destroy(&map);
}

/* What it says it takes has room for every entry, and not for many more. */
static void test_bytes(void **state) {
  (void)state;
  struct map *map;
  const size_t entry_bytes = sizeof(struct map_key) + sizeof(uint64_t);
  assert_int_equal(map_create(0, &map), STATUS_OK);
  for (uint64_t i = 0; i < 3000; i++) {
    assert_int_equal(map_set(map, map_key_of(i), i), STATUS_OK);
    assert_true(map_bytes(map) >= (i + 1) * entry_bytes);
  }
  assert_true(map_bytes(map) <= 3000 * entry_bytes * 8);
  map_destroy(&map);
}

static void test_same_walk(void **state) {
  (void)state;
  struct map *maps[2];
  size_t cursors[2] = {0, 0};
  for (int m = 0; m < 2; m++) {
    assert_int_equal(map_create(0, &maps[m]), STATUS_OK);
    for (uint64_t i = 0; i < 500; i++) assert_int_equal(map_set(maps[m], map_key_of(i), i), STATUS_OK);
  }
  uint64_t a, b;
  struct map_key key;
  for (int i = 0; i < 500; i++) {
    assert_true(map_next(maps[0], &cursors[0], &key, &a) && map_next(maps[1], &cursors[1], &key, &b));
    assert_int_equal(a, b);
  }
  assert_false(map_next(maps[0], &cursors[0], &key, &a));
  map_destroy(&maps[0]);
  map_destroy(&maps[1]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_against_array),
      cmocka_unit_test(test_limit),
      cmocka_unit_test(test_bytes),
      cmocka_unit_test(test_same_walk),
  };
  return cmocka_run_group_tests_name("map", tests, NULL, NULL);
}
