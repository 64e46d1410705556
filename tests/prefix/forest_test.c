/* The prefix forest against a plain trie of blocks with printed seeds, under its limits, and through saved rows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "base/rng.h"
#include "prefix/forest.h"

enum { CHAIN_MAX = 24, SYMBOLS = 3, BLOCKS_MAX = 4096, SECOND = 1000000 };

/* Key of a chain of symbols: what the one before was, and the symbol. */
static block_key key_after(block_key parent, uint32_t symbol) {
  struct map_key a = map_key_of(parent.hi ^ (symbol + 1)), b = map_key_of(parent.lo + 31 * (uint64_t)symbol + 7);
  return (block_key){a.hi ^ b.lo, a.lo ^ b.hi};
}

static uint32_t chain_random(struct rng *rng, block_key *keys, uint32_t max) {
  uint32_t n = 1 + (uint32_t)rng_below(rng, max);
  block_key parent = {0, 0};
  for (uint32_t i = 0; i < n; i++) parent = keys[i] = key_after(parent, (uint32_t)rng_below(rng, i < 6 ? SYMBOLS : 2));
  return n;
}

static struct ask ask_of(const block_key *keys, uint32_t n, uint64_t at_us) {
  return (struct ask){.request = 1,
                      .at_us = at_us,
                      .prompt_tokens = n * 16,
                      .n_blocks = n,
                      .keys = keys,
                      .material = 5,
                      .may_learn = true,
                      .may_prepare = true};
}

/* ── the plain trie: each block by itself ── */

struct plain_block {
  block_key key;
  uint32_t passes, ends;
  bool is_there;
};
struct plain {
  struct plain_block blocks[BLOCKS_MAX];
  uint32_t n;
  struct forest *forest;
};

static struct plain_block *plain_find(struct plain *plain, block_key key) {
  for (uint32_t i = 0; i < plain->n; i++) {
    if (block_key_equal(plain->blocks[i].key, key)) return &plain->blocks[i];
  }
  return NULL;
}

static struct plain_block *plain_make(struct plain *plain, block_key key) {
  struct plain_block *block = plain_find(plain, key);
  if (!block) {
    assert_true(plain->n < BLOCKS_MAX);
    block = &plain->blocks[plain->n++];
    *block = (struct plain_block){.key = key};
  }
  if (!block->is_there) *block = (struct plain_block){.key = key, .is_there = true};
  return block;
}

static void plain_prune(void *ctx, uint32_t node) {
  struct plain *plain = ctx;
  const struct forest_node *dead = forest_at(plain->forest, node);
  assert_non_null(dead);
  assert_int_equal(dead->first_child, FOREST_NONE);
  assert_int_equal(dead->pins, 0);
  for (uint32_t i = 0; i < dead->n_blocks; i++) {
    struct plain_block *block = plain_find(plain, forest_block_key(plain->forest, node, i));
    if (block) block->is_there = false;
  }
}

static uint32_t plain_match(struct plain *plain, const block_key *keys, uint32_t n) {
  uint32_t i = 0;
  for (struct plain_block *block; i < n && (block = plain_find(plain, keys[i])) && block->is_there;) i++;
  return i;
}

static void compare_blocks(struct plain *plain) {
  struct forest *forest = plain->forest;
  uint32_t there = 0;
  for (uint32_t i = 0; i < plain->n; i++) {
    const struct plain_block *block = &plain->blocks[i];
    uint32_t place, id = forest_holding(forest, block->key, &place);
    assert_int_equal(id != FOREST_NONE, block->is_there);
    if (!block->is_there) continue;
    there++;
    const struct forest_node *node = forest_at(forest, id);
    assert_int_equal(node->asks, block->passes);
    bool is_end = place + 1 == node->n_blocks;
    assert_int_equal(is_end ? node->ends : 0, block->ends);
    assert_true(block_key_equal(forest_block_key(forest, id, place), block->key));
  }
  assert_int_equal(there, forest_blocks(forest));
}

/* Every node is reachable once, and links agree in both directions. */
static void check_links(const struct forest *forest) {
  uint32_t alive = 0, as_children = 0;
  uint64_t blocks = 0;
  for (uint32_t id = forest_next(forest, FOREST_NONE); id != FOREST_NONE; id = forest_next(forest, id)) {
    const struct forest_node *node = forest_at(forest, id);
    alive++;
    blocks += node->n_blocks;
    uint32_t before = FOREST_NONE, children = 0;
    for (uint32_t child = node->first_child; child != FOREST_NONE; child = forest_at(forest, child)->next_sibling) {
      assert_int_equal(forest_at(forest, child)->parent, id);
      assert_int_equal(forest_at(forest, child)->previous_sibling, before);
      assert_int_equal(forest_at(forest, child)->depth_blocks, node->depth_blocks + node->n_blocks);
      before = child;
      children++;
    }
    assert_int_equal(children, node->n_children);
    assert_true(node->branches >= children);
    as_children += children;
  }
  for (uint32_t root = forest_next_root(forest, FOREST_NONE); root; root = forest_next_root(forest, root))
    as_children++;
  assert_int_equal(alive, forest_count(forest));
  assert_int_equal(as_children, alive);
  assert_int_equal(blocks, forest_blocks(forest));
}

static void ask_both(struct plain *plain, struct rng *rng, uint64_t at_us) {
  block_key keys[CHAIN_MAX];
  uint32_t n = chain_random(rng, keys, CHAIN_MAX), known, node, found;
  struct ask ask = ask_of(keys, n, at_us);
  ask.head_tokens = (uint32_t)rng_below(rng, 3) == 0 ? (uint32_t)rng_below(rng, n * 16 + 40) : 0;
  ask.document_tokens = (uint32_t)rng_below(rng, 3) == 0 ? (uint32_t)rng_below(rng, n * 16 + 40) : 0;
  known = plain_match(plain, keys, n);
  forest_find(plain->forest, keys, n, &node, &found);
  assert_int_equal(found, known);
  struct forest_path path;
  assert_int_equal(forest_insert(plain->forest, &ask, &path), STATUS_OK);
  assert_int_equal(path.blocks_known, known);
  for (uint32_t i = 0; i < n; i++) plain_make(plain, keys[i])->passes++;
  plain_make(plain, keys[n - 1])->ends++;
  assert_int_equal(path.nodes[path.n_nodes - 1], path.end);
  for (uint32_t i = 0; i < path.n_nodes; i++) {
    assert_int_equal(forest_at(plain->forest, path.nodes[i])->parent, i ? path.nodes[i - 1] : FOREST_NONE);
  }
  assert_int_equal(forest_tokens(plain->forest, path.end), n * 16);
  uint32_t head = ask.head_tokens / 16 < n ? ask.head_tokens / 16 : n;
  if (head) assert_int_equal(forest_tokens(plain->forest, path.head), head * 16);
  uint32_t document = ask.document_tokens / 16 < n ? ask.document_tokens / 16 : n;
  if (document) assert_int_equal(forest_tokens(plain->forest, path.document), document * 16);
  block_key again[CHAIN_MAX];
  assert_int_equal(forest_prefix_keys(plain->forest, path.end, again, CHAIN_MAX), n);
  assert_memory_equal(again, keys, n * sizeof *keys);
  assert_int_equal(forest_ending_in(plain->forest, keys[n - 1]), path.end);
}

static void random_chains_equal_a_plain_trie(void **state) {
  (void)state;
  static struct plain plain;
  for (uint64_t seed = 1; seed <= 60; seed++) {
    print_message("seed %" PRIu64 "\n", seed);
    struct rng rng;
    rng_init(&rng, seed);
    memset(&plain, 0, sizeof plain);
    /* Half of the seeds are tight, so that pruning is part of it. */
    struct forest_config config = {.nodes_max = seed % 2 ? 4096 : 24,
                                   .blocks_max = seed % 2 ? 4096 : 60,
                                   .block_tokens = 16,
                                   .seed = seed,
                                   .ctx = &plain,
                                   .prune = plain_prune};
    assert_int_equal(forest_create(&config, &plain.forest), STATUS_OK);
    for (uint32_t i = 0; i < 120; i++) {
      ask_both(&plain, &rng, (i + 1) * SECOND);
      if (rng_below(&rng, 10) == 0) forest_prune(plain.forest, (uint32_t)rng_below(&rng, 4), (i + 1) * SECOND);
      if (i % 10 == 0) compare_blocks(&plain);
      check_links(plain.forest);
      assert_true(forest_count(plain.forest) <= config.nodes_max);
      assert_true(forest_blocks(plain.forest) <= config.blocks_max);
    }
    compare_blocks(&plain);
    forest_destroy(&plain.forest);
  }
}

/* ── side rows follow splits and prunes ── */

struct side {
  uint32_t mark[64]; /* by node: the number of the chain whose end it is a beginning of */
};
static void side_split(void *ctx, uint32_t upper, uint32_t lower) {
  struct side *side = ctx;
  side->mark[upper] = side->mark[lower];
}
static void side_prune(void *ctx, uint32_t node) {
  ((struct side *)ctx)->mark[node] = 0;
}

static void an_end_keeps_its_id_when_it_is_split(void **state) {
  (void)state;
  struct side side = {{0}};
  struct forest_config config = {
      .nodes_max = 16, .blocks_max = 64, .block_tokens = 16, .ctx = &side, .split = side_split, .prune = side_prune};
  struct forest *forest;
  assert_int_equal(forest_create(&config, &forest), STATUS_OK);
  block_key keys[8], other[8];
  block_key parent = {0, 0};
  for (uint32_t i = 0; i < 8; i++) parent = keys[i] = key_after(parent, 1);
  memcpy(other, keys, sizeof keys);
  for (uint32_t i = 5; i < 8; i++) other[i] = key_after(other[i - 1], 2);
  struct ask ask = ask_of(keys, 8, SECOND);
  struct forest_path path;
  assert_int_equal(forest_insert(forest, &ask, &path), STATUS_OK);
  uint32_t end = path.end;
  side.mark[end] = 7;
  ask = ask_of(other, 8, 2 * SECOND);
  assert_int_equal(forest_insert(forest, &ask, &path), STATUS_OK);
  assert_int_equal(path.n_nodes, 2);
  assert_int_equal(forest_ending_in(forest, keys[7]), end);
  assert_int_equal(side.mark[path.nodes[0]], 7);
  assert_int_equal(forest_at(forest, path.nodes[0])->asks, 2);
  assert_int_equal(forest_at(forest, path.nodes[0])->ends, 0);
  assert_int_equal(forest_at(forest, end)->asks, 1);
  assert_int_equal(forest_at(forest, end)->ends, 1);
  assert_int_equal(forest_kind(forest_at(forest, path.nodes[0])), KIND_SHARED);
  forest_pin(forest, end);
  assert_int_equal(forest_prune(forest, 9, 3 * SECOND), 1);
  assert_int_equal(side.mark[end], 7);
  forest_unpin(forest, end);
  assert_int_equal(forest_prune(forest, 9, 3 * SECOND), 2);
  assert_int_equal(side.mark[end], 0);
  forest_destroy(&forest);
}

static void kinds_show_in_the_traffic(void **state) {
  (void)state;
  struct forest_config config = {.nodes_max = 256, .block_tokens = 16};
  struct forest *forest;
  assert_int_equal(forest_create(&config, &forest), STATUS_OK);
  block_key keys[20];
  block_key parent = {0, 0};
  for (uint32_t i = 0; i < 20; i++) parent = keys[i] = key_after(parent, 1);
  struct forest_path path;
  /* Turns of one session: 8, 12, 16 blocks, behind a head of 4. */
  for (uint32_t turn = 1; turn <= 3; turn++) {
    struct ask ask = ask_of(keys, 4 + 4 * turn, turn * 30 * SECOND);
    ask.session = 99;
    ask.turn = turn;
    ask.head_tokens = 70;
    assert_int_equal(forest_insert(forest, &ask, &path), STATUS_OK);
    assert_int_equal(path.continued != FOREST_NONE, turn > 1);
    assert_int_equal(forest_tokens(forest, path.head), 64);
  }
  assert_int_equal(forest_kind(forest_at(forest, path.continued)), KIND_CONVERSATION);
  assert_int_equal(forest_tokens(forest, path.continued), 12 * 16);
  assert_int_equal(forest_at(forest, path.head)->heads, 3);
  assert_float_equal(forest_sessions(forest_at(forest, path.head)), 1, .1);
  /* Other sessions behind the same head. */
  for (uint32_t s = 0; s < 40; s++) {
    block_key mine[8];
    memcpy(mine, keys, 4 * sizeof *keys);
    for (uint32_t i = 4; i < 8; i++) mine[i] = key_after(mine[i - 1], 100 + s);
    struct ask ask = ask_of(mine, 8, (100 + s) * SECOND);
    ask.session = 1000 + s;
    ask.turn = 1;
    ask.head_tokens = 70;
    assert_int_equal(forest_insert(forest, &ask, &path), STATUS_OK);
  }
  const struct forest_node *head = forest_at(forest, path.nodes[0]);
  assert_int_equal(forest_kind(head), KIND_SHARED);
  assert_int_equal(head->branches, 41);
  assert_in_range((int)forest_sessions(head), 30, 55);
  /* The same whole prompt, twice. */
  for (uint32_t i = 0; i < 3; i++) {
    struct ask ask = ask_of(keys, 20, (200 + 10 * i) * SECOND);
    assert_int_equal(forest_insert(forest, &ask, &path), STATUS_OK);
    assert_int_equal(path.is_repeat, i > 0);
  }
  const struct forest_node *end = forest_at(forest, path.end);
  assert_int_equal(forest_kind(end), KIND_COMPLETE);
  assert_int_equal(end->repeats, 2);
  assert_float_equal(end->gap_s, 10, 1e-3);
  assert_float_equal(forest_fade(end, 0, 220 * (uint64_t)SECOND), 1 + number_exp(-1. / 6) + number_exp(-1. / 3), 1e-5);
  /* A document behind the head, planted before anybody asks. */
  block_key with[10];
  memcpy(with, keys, 4 * sizeof *keys);
  for (uint32_t i = 4; i < 10; i++) with[i] = key_after(with[i - 1], 9);
  struct forest_seed seed = {
      .at_us = 300 * (uint64_t)SECOND, .keys = with, .n_blocks = 10, .document_tokens = 165, .material = 3};
  assert_int_equal(forest_plant(forest, &seed, &path), STATUS_OK);
  assert_int_equal(forest_kind(forest_at(forest, path.end)), KIND_DOCUMENT);
  assert_int_equal(forest_at(forest, path.end)->asks, 0);
  assert_int_equal(forest_at(forest, path.end)->last_us, 0);
  assert_int_equal(forest_at(forest, path.end)->pass_material, 3);
  forest_destroy(&forest);
}

/* ── limits ── */

static void a_million_asks_stay_within_bounds(void **state) {
  (void)state;
  struct forest_config config = {.nodes_max = 20000, .bytes_max = 8 << 20, .block_tokens = 16, .seed = 3};
  struct forest *forest;
  assert_int_equal(forest_create(&config, &forest), STATUS_OK);
  struct rng rng;
  rng_init(&rng, 17);
  block_key keys[8];
  struct forest_path path;
#ifdef FORELAY_SANITIZED
  uint32_t asks = 100000;
#else
  uint32_t asks = 1000000;
#endif
  for (uint32_t i = 0; i < asks; i++) {
    uint64_t which = rng_below(&rng, 400000);
    keys[0] = map_key_of(which % 97);
    keys[1] = map_key_of(1000 + which % 9973);
    keys[2] = map_key_of(100000 + which);
    keys[1].hi ^= which % 97; /* one parent for each */
    keys[2].hi ^= which % 97 * 9973 + which % 9973;
    struct ask ask = ask_of(keys, 3, (uint64_t)i * 1000);
    assert_int_equal(forest_insert(forest, &ask, &path), STATUS_OK);
    if (i % 4096 == 0) assert_true(forest_bytes(forest) <= config.bytes_max);
  }
  assert_true(forest_bytes(forest) <= config.bytes_max);
  assert_true(forest_count(forest) <= config.nodes_max);
  assert_true(forest_count(forest) > 5000);
  check_links(forest);
  forest_destroy(&forest);
}

static void what_is_asked_often_outlives_what_is_not(void **state) {
  (void)state;
  struct forest_config config = {.nodes_max = 200, .block_tokens = 16, .seed = 5};
  struct forest *forest;
  assert_int_equal(forest_create(&config, &forest), STATUS_OK);
  struct forest_path path;
  uint32_t misses = 0;
  for (uint32_t i = 1; i <= 5000; i++) {
    block_key key = i % 10 == 0 ? map_key_of(i / 10 % 20) : map_key_of(1000 + i);
    struct ask ask = ask_of(&key, 1, (uint64_t)i * SECOND);
    assert_int_equal(forest_insert(forest, &ask, &path), STATUS_OK);
    if (i % 10 == 0 && i > 500 && path.blocks_known == 0) misses++;
  }
  assert_true(misses < 45); /* of 450 */
  forest_destroy(&forest);
}

static void no_room_changes_nothing(void **state) {
  (void)state;
  struct forest_config config = {.nodes_max = 16, .blocks_max = 16, .block_tokens = 16};
  struct forest *forest;
  assert_int_equal(forest_create(&config, &forest), STATUS_OK);
  block_key keys[20];
  block_key parent = {0, 0};
  for (uint32_t i = 0; i < 20; i++) parent = keys[i] = key_after(parent, 1);
  struct forest_path path = {.end = 12345};
  struct ask ask = ask_of(keys, 17, SECOND);
  assert_int_equal(forest_insert(forest, &ask, &path), STATUS_FULL);
  assert_int_equal(path.end, 12345);
  ask = ask_of(keys, 16, SECOND);
  assert_int_equal(forest_insert(forest, &ask, &path), STATUS_OK);
  forest_pin(forest, path.end);
  block_key other = map_key_of(8);
  struct ask second = ask_of(&other, 1, 2 * SECOND);
  assert_int_equal(forest_insert(forest, &second, &path), STATUS_FULL);
  assert_int_equal(forest_count(forest), 1);
  assert_int_equal(forest_at(forest, forest_ending_in(forest, keys[15]))->asks, 1);
  /* A path that is known needs no room. */
  assert_int_equal(forest_insert(forest, &ask, &path), STATUS_OK);
  forest_unpin(forest, path.end);
  assert_int_equal(forest_insert(forest, &second, &path), STATUS_OK);
  assert_int_equal(forest_blocks(forest), 1);
  /* Keys that are no chain. */
  block_key twice[2] = {map_key_of(70), map_key_of(70)}, moved[2] = {map_key_of(71), other};
  ask = ask_of(twice, 2, 3 * SECOND);
  assert_int_equal(forest_insert(forest, &ask, &path), STATUS_INVALID);
  ask = ask_of(moved, 2, 3 * SECOND);
  assert_int_equal(forest_insert(forest, &ask, &path), STATUS_INVALID);
  check_links(forest);
  assert_int_equal(forest_count(forest), 1);
  ask = ask_of(keys, 0, 3 * SECOND);
  assert_int_equal(forest_insert(forest, &ask, &path), STATUS_OK);
  assert_int_equal(path.n_nodes, 0);
  forest_destroy(&forest);
}

static void impossible_limits_are_refused(void **state) {
  (void)state;
  struct forest *forest = NULL;
  struct forest_config few = {.nodes_max = 15, .block_tokens = 16}, none = {.nodes_max = 64},
                       small = {.nodes_max = 64, .bytes_max = 1000, .block_tokens = 16};
  assert_int_equal(forest_create(&few, &forest), STATUS_INVALID);
  assert_int_equal(forest_create(&none, &forest), STATUS_INVALID);
  assert_int_equal(forest_create(&small, &forest), STATUS_INVALID);
  assert_null(forest);
}

/* ── rows ── */

struct rows {
  char *text[4096];
  uint32_t n;
};
static bool rows_add(void *ctx, const char *text) {
  struct rows *rows = ctx;
  assert_true(rows->n < 4096 && strlen(text) < FOREST_ROW_SIZE);
  rows->text[rows->n++] = strdup(text);
  return true;
}
static void rows_release(struct rows *rows) {
  for (uint32_t i = 0; i < rows->n; i++) free(rows->text[i]);
  rows->n = 0;
}

static struct forest *forest_grown(uint64_t seed) {
  struct forest_config config = {.nodes_max = 2048, .block_tokens = 16, .seed = seed};
  struct forest *forest;
  assert_int_equal(forest_create(&config, &forest), STATUS_OK);
  struct rng rng;
  rng_init(&rng, seed);
  static block_key keys[300];
  struct forest_path path;
  for (uint32_t i = 0; i < 80; i++) {
    uint32_t n = chain_random(&rng, keys, i % 8 == 0 ? 300 : 20);
    struct ask ask = ask_of(keys, n, (i + 1) * 1234567ull);
    ask.session = 1 + rng_below(&rng, 9);
    ask.turn = 1 + i % 3;
    ask.head_tokens = 33;
    assert_int_equal(forest_insert(forest, &ask, &path), STATUS_OK);
  }
  return forest;
}

static void saved_rows_bring_everything_back(void **state) {
  (void)state;
  static struct rows rows, again;
  for (uint64_t seed = 1; seed <= 10; seed++) {
    struct forest *forest = forest_grown(seed), *loaded;
    struct forest_config config = {.nodes_max = 2048, .block_tokens = 16, .seed = seed};
    assert_int_equal(forest_create(&config, &loaded), STATUS_OK);
    forest_save(forest, rows_add, &rows);
    for (uint32_t i = 0; i < rows.n; i++) assert_int_equal(forest_load(loaded, rows.text[i]), STATUS_OK);
    forest_save(loaded, rows_add, &again);
    assert_int_equal(rows.n, again.n);
    for (uint32_t i = 0; i < rows.n; i++) assert_string_equal(rows.text[i], again.text[i]);
    check_links(loaded);
    assert_int_equal(forest_blocks(loaded), forest_blocks(forest));
    rows_release(&rows);
    rows_release(&again);
    forest_destroy(&forest);
    forest_destroy(&loaded);
  }
}

static void broken_rows_change_nothing(void **state) {
  (void)state;
  static struct rows rows;
  struct forest *forest = forest_grown(4), *loaded;
  forest_save(forest, rows_add, &rows);
  struct forest_config config = {.nodes_max = 2048, .block_tokens = 16};
  assert_int_equal(forest_create(&config, &loaded), STATUS_OK);
  assert_int_equal(forest_load(loaded, ""), STATUS_INVALID);
  assert_int_equal(forest_load(loaded, "node"), STATUS_INVALID);
  assert_int_equal(forest_load(loaded, "nodes 1"), STATUS_INVALID);
  assert_int_equal(forest_load(loaded, rows.text[rows.n - 1]), STATUS_INVALID); /* its parent is not there */
  char text[FOREST_ROW_SIZE];
  size_t size = strlen(rows.text[0]);
  for (size_t cut = 0; cut < size; cut++) {
    memcpy(text, rows.text[0], cut);
    text[cut] = '\0';
    if (rows.text[0][cut] != ' ' && cut + 40 > size) continue; /* a shorter last number is a number */
    enum status status = forest_load(loaded, text);
    assert_int_equal(status, STATUS_INVALID);
    assert_int_equal(forest_count(loaded), 0);
  }
  assert_int_equal(forest_load(loaded, rows.text[0]), STATUS_OK);
  assert_int_equal(forest_load(loaded, rows.text[0]), STATUS_INVALID); /* twice */
  assert_int_equal(forest_count(loaded), 1);
  rows_release(&rows);
  forest_destroy(&forest);
  forest_destroy(&loaded);
}

static void equal_calls_give_equal_ids(void **state) {
  (void)state;
  uint32_t ends[2][400];
  for (int run = 0; run < 2; run++) {
    struct forest_config config = {.nodes_max = 40, .block_tokens = 16, .seed = 9};
    struct forest *forest;
    assert_int_equal(forest_create(&config, &forest), STATUS_OK);
    struct rng rng;
    rng_init(&rng, 2);
    for (uint32_t i = 0; i < 400; i++) {
      block_key keys[CHAIN_MAX];
      struct forest_path path;
      struct ask ask = ask_of(keys, chain_random(&rng, keys, CHAIN_MAX), (i + 1) * SECOND);
      assert_int_equal(forest_insert(forest, &ask, &path), STATUS_OK);
      ends[run][i] = path.end;
    }
    forest_destroy(&forest);
  }
  assert_memory_equal(ends[0], ends[1], sizeof ends[0]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(random_chains_equal_a_plain_trie),
      cmocka_unit_test(an_end_keeps_its_id_when_it_is_split),
      cmocka_unit_test(kinds_show_in_the_traffic),
      cmocka_unit_test(a_million_asks_stay_within_bounds),
      cmocka_unit_test(what_is_asked_often_outlives_what_is_not),
      cmocka_unit_test(no_room_changes_nothing),
      cmocka_unit_test(impossible_limits_are_refused),
      cmocka_unit_test(saved_rows_bring_everything_back),
      cmocka_unit_test(broken_rows_change_nothing),
      cmocka_unit_test(equal_calls_give_equal_ids),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
