/* The shadow cache against a slow model, and against published figures of a real trace. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/rng.h"
#include "domain/shadow.h"

enum { TREE_NODES = 60 };

/* A cache that keeps a stamp per block and removes the smallest: O(n) everywhere. */
struct slow {
  uint64_t stamp[TREE_NODES]; /* 0: not held */
  uint64_t clock;
  uint32_t count, capacity;
};

static void slow_shrink(struct slow *slow) {
  while (slow->count > slow->capacity) {
    uint32_t oldest = TREE_NODES;
    for (uint32_t i = 0; i < TREE_NODES; i++) {
      if (slow->stamp[i] && (oldest == TREE_NODES || slow->stamp[i] < slow->stamp[oldest])) oldest = i;
    }
    slow->stamp[oldest] = 0;
    slow->count--;
  }
}

static uint32_t slow_ask(struct slow *slow, const uint32_t *path, uint32_t n) {
  uint32_t hits = 0;
  while (hits < n && slow->stamp[path[hits]]) hits++;
  for (uint32_t i = n; i-- > 0;) {
    if (!slow->stamp[path[i]]) slow->count++;
    slow->stamp[path[i]] = ++slow->clock;
  }
  slow_shrink(slow);
  return hits;
}

static block_key key_of(uint32_t node) {
  return map_key_of(node + 1);
}

static void compare(const struct shadow *shadow, const struct slow *slow) {
  assert_int_equal(shadow_count(shadow), slow->count);
  for (uint32_t i = 0; i < TREE_NODES; i++) assert_int_equal(shadow_contains(shadow, key_of(i)), slow->stamp[i] != 0);
  uint32_t cursor = 0, walked = 0;
  uint64_t before = 0;
  block_key key;
  while (shadow_next(shadow, &cursor, &key)) {
    uint32_t node = 0;
    while (!block_key_equal(key, key_of(node))) node++;
    assert_true(slow->stamp[node] > before);
    before = slow->stamp[node];
    walked++;
  }
  assert_int_equal(walked, slow->count);
}

static void random_streams_equal_the_slow_model(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= 300; seed++) {
    struct rng rng;
    rng_init(&rng, seed);
    int parent[TREE_NODES];
    for (int i = 0; i < TREE_NODES; i++) {
      parent[i] = i < 3 ? -1 : (int)rng_below(&rng, (uint64_t)i);
    }
    struct slow slow = {.capacity = (uint32_t)rng_below(&rng, 25)};
    struct shadow *shadow;
    assert_int_equal(shadow_create(slow.capacity, &shadow), STATUS_OK);
    for (int step = 0; step < 200; step++) {
      uint32_t path[TREE_NODES], n = 0;
      for (int node = (int)rng_below(&rng, TREE_NODES); node >= 0; node = parent[node]) path[n++] = (uint32_t)node;
      block_key keys[TREE_NODES];
      for (uint32_t i = 0; i < n / 2; i++) {
        uint32_t swap = path[i];
        path[i] = path[n - 1 - i];
        path[n - 1 - i] = swap;
      }
      for (uint32_t i = 0; i < n; i++) keys[i] = key_of(path[i]);
      bool held_before[TREE_NODES];
      for (uint32_t i = 0; i < TREE_NODES; i++) held_before[i] = slow.stamp[i] != 0;
      uint32_t hits;
      if (rng_below(&rng, 20) == 0) {
        slow.capacity = (uint32_t)rng_below(&rng, 25);
        slow_shrink(&slow);
        assert_int_equal(shadow_resize(shadow, slow.capacity), STATUS_OK);
      } else {
        uint32_t expected = slow_ask(&slow, path, n);
        assert_int_equal(shadow_match(shadow, keys, n), expected);
        assert_int_equal(shadow_ask(shadow, keys, n, &hits), STATUS_OK);
        if (hits != expected) fail_msg("seed %" PRIu64 " step %d: %u hits, not %u", seed, step, hits, expected);
      }
      uint32_t removed = 0, gone = 0;
      shadow_removed(shadow, &removed);
      for (uint32_t i = 0; i < TREE_NODES; i++) gone += held_before[i] && !slow.stamp[i];
      assert_int_equal(removed, gone);
      compare(shadow, &slow);
    }
    shadow_destroy(&shadow);
  }
}

static void saved_order_rebuilds_the_shadow(void **state) {
  (void)state;
  struct shadow *shadow, *copy;
  assert_int_equal(shadow_create(5, &shadow), STATUS_OK);
  assert_int_equal(shadow_create(5, &copy), STATUS_OK);
  block_key first[4] = {key_of(0), key_of(1), key_of(2), key_of(3)}, second[3] = {key_of(0), key_of(1), key_of(4)};
  uint32_t hits;
  assert_int_equal(shadow_ask(shadow, first, 4, &hits), STATUS_OK);
  assert_int_equal(shadow_ask(shadow, second, 3, &hits), STATUS_OK);
  assert_int_equal(hits, 2);
  block_key key;
  for (uint32_t cursor = 0; shadow_next(shadow, &cursor, &key);) {
    assert_int_equal(shadow_restore(copy, key), STATUS_OK);
  }
  assert_int_equal(shadow_restore(copy, key_of(9)), STATUS_FULL);
  block_key third[1] = {key_of(5)};
  uint32_t n_removed, n_removed_copy;
  assert_int_equal(shadow_ask(shadow, third, 1, &hits), STATUS_OK);
  assert_int_equal(shadow_ask(copy, third, 1, &hits), STATUS_OK);
  const block_key *removed = shadow_removed(shadow, &n_removed), *removed_copy = shadow_removed(copy, &n_removed_copy);
  assert_int_equal(n_removed, 1);
  assert_int_equal(n_removed_copy, 1);
  assert_true(block_key_equal(removed[0], key_of(3)));
  assert_true(block_key_equal(removed_copy[0], key_of(3)));
  shadow_destroy(&shadow);
  shadow_destroy(&copy);
}

static void nothing_is_held_in_no_room(void **state) {
  (void)state;
  struct shadow *shadow;
  assert_int_equal(shadow_create(0, &shadow), STATUS_OK);
  block_key keys[2] = {key_of(0), key_of(1)};
  uint32_t hits = 7;
  for (int i = 0; i < 3; i++) {
    assert_int_equal(shadow_ask(shadow, keys, 2, &hits), STATUS_OK);
    assert_int_equal(hits, 0);
    assert_int_equal(shadow_count(shadow), 0);
  }
  assert_int_equal(shadow_ask(shadow, NULL, 0, &hits), STATUS_OK);
  shadow_destroy(&shadow);
  shadow_destroy(&shadow);
}

/* Reads one trace line's chain ids. */
static uint32_t line_keys(const char *line, block_key *keys, uint32_t max) {
  const char *at = strstr(line, "\"hash_ids\"");
  if (!at || !(at = strchr(at, '['))) return 0;
  uint32_t n = 0;
  for (at++; n < max && *at && *at != ']';) {
    char *end;
    unsigned long long id = strtoull(at, &end, 10);
    if (end == at) break;
    keys[n++] = map_key_of(id + 1);
    at = end + strspn(end, ", ");
  }
  return n;
}

static void block_hit_rates_of_a_real_trace(void **state) {
  (void)state;
  const char *data = getenv("FORELAY_DATA");
  char path[1024], command[1200];
  snprintf(path, sizeof path, "%s/traces/mooncake_conversation.jsonl.zst",
           data ? data : FORELAY_SOURCE_DIR "/../shared");
  snprintf(command, sizeof command, "zstd -dc '%s'", path);
  if (access(path, R_OK) != 0) {
    print_message("skipped: no trace at %s (FORELAY_DATA names its folder)\n", path);
    skip();
  }
  const struct {
    uint32_t capacity;
    double rate;
  } figures[] = {{1828, .0525}, {9140, .1958}, {36558, .3453}, {1u << 30, .3664}};
  struct shadow *shadows[4];
  for (int i = 0; i < 4; i++) assert_int_equal(shadow_create(figures[i].capacity, &shadows[i]), STATUS_OK);
  FILE *stream = popen(command, "r");
  assert_non_null(stream);
  char *line = NULL;
  size_t size = 0;
  block_key keys[1024];
  uint64_t blocks = 0, hits[4] = {0};
  while (getline(&line, &size, stream) > 0) {
    uint32_t n = line_keys(line, keys, 1024);
    blocks += n;
    for (int i = 0; i < 4; i++) {
      uint32_t hit;
      assert_int_equal(shadow_ask(shadows[i], keys, n, &hit), STATUS_OK);
      hits[i] += hit;
    }
  }
  free(line);
  assert_int_equal(pclose(stream), 0);
  for (int i = 0; i < 4; i++) {
    double rate = (double)hits[i] / (double)blocks;
    print_message("%" PRIu64 " blocks, capacity %u: hit rate %.4f (published %.4f)\n", blocks, figures[i].capacity,
                  rate, figures[i].rate);
    assert_float_equal(rate, figures[i].rate, .00006);
    shadow_destroy(&shadows[i]);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(random_streams_equal_the_slow_model), cmocka_unit_test(saved_order_rebuilds_the_shadow),
      cmocka_unit_test(nothing_is_held_in_no_room), cmocka_unit_test(block_hit_rates_of_a_real_trace)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
