/* What is ready where: matches against brute force, tenants apart, ranges to save, entries that go. */
#include "store/stage.h"

enum { CHAINS = 40, CHAIN_TOKENS = 420 };

static struct index *index_new(uint64_t bytes_max) {
  struct index *index;
  assert_int_equal(index_create(bytes_max, &index), STATUS_OK);
  return index;
}

/* Adds the segments of tokens[n], all present in `tier`; the last one's id. */
static uint64_t chain_add(struct index *index, uint32_t tenant, const int32_t *tokens, uint32_t n, uint32_t exact,
                          enum tier tier) {
  uint64_t parent = 0, id = 0;
  for (uint32_t from = 0; from < n; from += SEGMENT_TOKENS, parent = id) {
    uint32_t to = n - from < SEGMENT_TOKENS ? n : from + SEGMENT_TOKENS;
    assert_int_equal(index_add(index, tenant, parent, tokens + from, from, to, stage_key(tenant, tokens, to),
                               stage_key(tenant, tokens, from), 0, &id),
                     STATUS_OK);
    index_set_tier(index, id, tier, 4096, exact);
  }
  return id;
}

/* ── against brute force ── */

struct row {
  uint32_t tenant, n, exact;
  int32_t tokens[CHAIN_TOKENS];
};

static uint32_t row_common(const struct row *row, const int32_t *tokens, uint32_t n) {
  uint32_t i = 0;
  while (i < row->n && i < n && row->tokens[i] == tokens[i]) i++;
  return i;
}

/* Chains that branch from one another at random places, over few token values so that near misses are many. */
static void rows_draw(struct row *rows, struct rng *rng) {
  for (int i = 0; i < CHAINS; i++) {
    struct row *row = &rows[i];
    row->tenant = (uint32_t)rng_below(rng, 2);
    row->n = 1 + (uint32_t)rng_below(rng, CHAIN_TOKENS);
    row->exact = rng_below(rng, 2) == 0 ? row->n : (uint32_t)rng_below(rng, row->n + 1);
    uint32_t kept = 0;
    if (i > 0 && rng_below(rng, 5) > 0) {
      const struct row *origin = &rows[rng_below(rng, (uint64_t)i)];
      kept = (uint32_t)rng_below(rng, (origin->n < row->n ? origin->n : row->n) + 1);
      memcpy(row->tokens, origin->tokens, kept * sizeof *row->tokens);
    }
    for (uint32_t t = kept; t < row->n; t++) row->tokens[t] = (int32_t)rng_below(rng, 3);
  }
}

static void match_equals_brute_force(void **state) {
  (void)state;
  static struct row rows[CHAINS];
  for (uint64_t seed = 1; seed <= 300; seed++) {
    struct rng rng;
    rng_init(&rng, seed);
    rows_draw(rows, &rng);
    struct index *index = index_new(64 << 20);
    for (int i = 0; i < CHAINS; i++)
      (void)chain_add(index, rows[i].tenant, rows[i].tokens, rows[i].n, rows[i].n,
                      rng_below(&rng, 2) == 0 ? TIER_RAM : TIER_SSD);
    for (int probe = 0; probe < CHAINS; probe++) {
      int32_t prompt[CHAIN_TOKENS + 40];
      uint32_t n = rows[probe].n, longest = 0;
      memcpy(prompt, rows[probe].tokens, n * sizeof *prompt);
      for (uint32_t more = (uint32_t)rng_below(&rng, 40); more > 0; more--) prompt[n++] = (int32_t)rng_below(&rng, 3);
      if (n > 1) prompt[rng_below(&rng, n)] = (int32_t)rng_below(&rng, 3);
      uint32_t tenant = (uint32_t)rng_below(&rng, 2);
      for (int i = 0; i < CHAINS; i++) {
        uint32_t shared = rows[i].tenant == tenant ? row_common(&rows[i], prompt, n) : 0;
        if (shared > longest) longest = shared;
      }
      struct index_match match;
      index_match(index, tenant, prompt, n, false, &match);
      uint32_t expected = longest >= n ? n - 1 : longest, sum = 0;
      if (match.tokens != expected)
        fail_msg("seed %llu probe %d: %u tokens matched, %u are common", (unsigned long long)seed, probe, match.tokens,
                 expected);
      for (uint32_t i = 0; i < match.n; i++) {
        struct index_entry entry;
        assert_int_equal(index_get(index, match.uses[i].segment, &entry), STATUS_OK);
        assert_int_equal(entry.tenant, tenant);
        assert_int_equal(match.uses[i].from, sum);
        assert_memory_equal(entry.tokens, prompt + sum, match.uses[i].tokens * sizeof *prompt);
        assert_true(entry.bytes[match.uses[i].tier] > 0);
        sum += match.uses[i].tokens;
      }
      assert_int_equal(sum, match.tokens);
    }
    index_destroy(&index);
  }
}

static uint32_t match_tokens(const struct index *index, uint32_t tenant, const int32_t *tokens, uint32_t n,
                             bool is_exact) {
  struct index_match match;
  index_match(index, tenant, tokens, n, is_exact, &match);
  return match.tokens;
}

static void two_wordings_share_their_common_tokens(void **state) {
  (void)state;
  int32_t one[300], other[300];
  for (uint32_t common = 0; common <= 300; common += 7) {
    struct index *index = index_new(64 << 20);
    stage_tokens(common + 1, one, 300);
    stage_tokens(common + 1, other, 300);
    for (uint32_t i = common; i < 300; i++) other[i] = one[i] + 1;
    (void)chain_add(index, 0, one, 300, 300, TIER_RAM);
    assert_int_equal(match_tokens(index, 0, other, 300, false), common >= 300 ? 299 : common);
    index_destroy(&index);
  }
}

static void tenants_never_match(void **state) {
  (void)state;
  struct index *index = index_new(64 << 20);
  int32_t tokens[300];
  stage_tokens(3, tokens, 300);
  (void)chain_add(index, 0, tokens, 300, 300, TIER_RAM);
  assert_int_equal(match_tokens(index, 0, tokens, 300, false), 299);
  assert_int_equal(match_tokens(index, 1, tokens, 300, false), 0);
  assert_int_equal(index_find(index, 1, tokens, 128), 0);
  struct index_range ranges[8];
  assert_int_equal(index_missing(index, 1, tokens, 300, 0, TIER_RAM, ranges, 8), 3);
  index_destroy(&index);
}

/* ── exact mode ── */

static void exact_matches_leave_whole_micro_batches(void **state) {
  (void)state;
  struct index *index = index_new(64 << 20);
  int32_t tokens[400];
  stage_tokens(4, tokens, 400);
  (void)chain_add(index, 0, tokens, 256, 256, TIER_RAM);
  for (uint32_t n = 1; n <= 400; n++) {
    uint32_t shared = n < 256 ? n : 256;
    uint32_t tokens_max = n > 65 ? n - 65 : 0, expected = shared < tokens_max ? shared : tokens_max;
    if (shared >= n - 1) expected = n - 1;
    assert_int_equal(match_tokens(index, 0, tokens, n, true), expected);
  }
  index_destroy(&index);
}

static void exact_matches_end_with_what_is_canonical(void **state) {
  (void)state;
  struct index *index = index_new(64 << 20);
  int32_t tokens[400];
  stage_tokens(5, tokens, 400);
  (void)chain_add(index, 0, tokens, 300, 200, TIER_RAM);
  assert_int_equal(match_tokens(index, 0, tokens, 400, true), 200);
  assert_int_equal(match_tokens(index, 0, tokens, 400, false), 300);
  index_destroy(&index);
}

/* A longer branch made while generating must not hide a shorter one that is canonical. */
static void exact_matches_take_the_canonical_branch(void **state) {
  (void)state;
  struct index *index = index_new(64 << 20);
  int32_t tokens[400];
  stage_tokens(6, tokens, 400);
  (void)chain_add(index, 0, tokens, 100, 20, TIER_RAM);
  (void)chain_add(index, 0, tokens, 80, 80, TIER_RAM);
  assert_int_equal(match_tokens(index, 0, tokens, 400, true), 80);
  assert_int_equal(match_tokens(index, 0, tokens, 400, false), 100);
  index_destroy(&index);
}

/* What has gone and comes back is only as canonical as what came back. */
static void exactness_is_of_the_bytes_that_are_there(void **state) {
  (void)state;
  struct index *index = index_new(64 << 20);
  int32_t tokens[200];
  stage_tokens(7, tokens, 200);
  uint64_t id = chain_add(index, 0, tokens, 100, 100, TIER_RAM);
  index_pin(index, id);
  index_set_tier(index, id, TIER_RAM, 0, 0);
  assert_int_equal(match_tokens(index, 0, tokens, 200, false), 0);
  (void)chain_add(index, 0, tokens, 100, 30, TIER_RAM);
  assert_int_equal(match_tokens(index, 0, tokens, 200, true), 30);
  index_unpin(index, id);
  index_destroy(&index);
}

/* Each tier's copy is as canonical as it was when it came; a match takes RAM's. */
static void each_copy_has_its_own_exactness(void **state) {
  (void)state;
  struct index *index = index_new(64 << 20);
  int32_t tokens[200];
  stage_tokens(9, tokens, 200);
  uint64_t id = chain_add(index, 0, tokens, 100, 30, TIER_SSD);
  assert_int_equal(match_tokens(index, 0, tokens, 200, true), 30);
  index_set_tier(index, id, TIER_RAM, 4096, 100);
  assert_int_equal(match_tokens(index, 0, tokens, 200, true), 100);
  index_set_tier(index, id, TIER_RAM, 0, 0);
  assert_int_equal(match_tokens(index, 0, tokens, 200, true), 30);
  index_destroy(&index);
}

static void what_is_less_canonical_is_missing(void **state) {
  (void)state;
  struct index *index = index_new(64 << 20);
  int32_t tokens[300];
  struct index_range ranges[8];
  stage_tokens(10, tokens, 300);
  (void)chain_add(index, 0, tokens, 300, 140, TIER_RAM);
  assert_int_equal(index_missing(index, 0, tokens, 300, 0, TIER_RAM, ranges, 8), 0);
  assert_int_equal(index_missing(index, 0, tokens, 300, 140, TIER_RAM, ranges, 8), 0);
  assert_int_equal(index_missing(index, 0, tokens, 300, 200, TIER_RAM, ranges, 8), 2);
  assert_int_equal(ranges[0].from, 128);
  assert_int_equal(index_missing(index, 0, tokens, 280, 300, TIER_RAM, ranges, 8), 2);
  assert_int_equal(ranges[1].to, 280);
  index_destroy(&index);
}

/* ── choosing among equals ── */

static void memory_is_taken_before_disk(void **state) {
  (void)state;
  for (int order = 0; order < 2; order++) {
    struct index *index = index_new(64 << 20);
    struct index_match match;
    int32_t one[128], other[128];
    stage_tokens(8, one, 128);
    stage_tokens(8, other, 128);
    for (uint32_t i = 60; i < 128; i++) other[i] = one[i] + 1;
    (void)chain_add(index, 0, order == 0 ? one : other, 128, 128, TIER_RAM);
    (void)chain_add(index, 0, order == 0 ? other : one, 128, 128, TIER_SSD);
    int32_t prompt[128];
    memcpy(prompt, one, sizeof prompt);
    for (uint32_t i = 60; i < 128; i++) prompt[i] = 60000;
    index_match(index, 0, prompt, 128, false, &match);
    assert_int_equal(match.tokens, 60);
    assert_int_equal(match.uses[0].tier, TIER_RAM);
    index_destroy(&index);
  }
}

static void a_gap_ends_the_match(void **state) {
  (void)state;
  struct index *index = index_new(64 << 20);
  int32_t tokens[400];
  stage_tokens(9, tokens, 400);
  (void)chain_add(index, 0, tokens, 384, 384, TIER_RAM);
  index_set_tier(index, index_find(index, 0, tokens, 256), TIER_RAM, 0, 0);
  assert_int_equal(match_tokens(index, 0, tokens, 400, false), 128);
  index_destroy(&index);
}

/* ── ranges to save ── */

static void ranges_are_what_the_tier_lacks(void **state) {
  (void)state;
  struct index *index = index_new(64 << 20);
  struct index_range ranges[8];
  int32_t tokens[500];
  stage_tokens(10, tokens, 500);
  (void)chain_add(index, 0, tokens, 200, 200, TIER_RAM);
  assert_int_equal(index_missing(index, 0, tokens, 300, 0, TIER_RAM, ranges, 8), 2);
  assert_int_equal(ranges[0].from, 128);
  assert_int_equal(ranges[0].to, 256);
  assert_int_equal(ranges[1].from, 256);
  assert_int_equal(ranges[1].to, 300);
  assert_int_equal(index_missing(index, 0, tokens, 200, 0, TIER_RAM, ranges, 8), 0);
  assert_int_equal(index_missing(index, 0, tokens, 180, 0, TIER_RAM, ranges, 8), 0);
  assert_int_equal(index_missing(index, 0, tokens, 300, 0, TIER_SSD, ranges, 8), 3);
  assert_int_equal(index_missing(index, 0, tokens, 300, 0, TIER_SSD, ranges, 1), 1);
  index_destroy(&index);
}

/* A hole in a tier is one range, not the whole rest. */
static void a_hole_is_one_range(void **state) {
  (void)state;
  struct index *index = index_new(64 << 20);
  struct index_range ranges[8];
  int32_t tokens[512];
  stage_tokens(11, tokens, 512);
  (void)chain_add(index, 0, tokens, 512, 512, TIER_RAM);
  uint64_t hole = index_find(index, 0, tokens, 256);
  index_set_tier(index, hole, TIER_SSD, 4096, 512);
  index_set_tier(index, hole, TIER_RAM, 0, 0);
  assert_int_equal(index_missing(index, 0, tokens, 512, 0, TIER_RAM, ranges, 8), 1);
  assert_int_equal(ranges[0].from, 128);
  assert_int_equal(ranges[0].to, 256);
  index_destroy(&index);
}

static void a_shorter_leaf_is_found(void **state) {
  (void)state;
  struct index *index = index_new(64 << 20);
  int32_t tokens[128], other[128];
  stage_tokens(12, tokens, 128);
  uint64_t shorter = chain_add(index, 0, tokens, 50, 50, TIER_RAM);
  memcpy(other, tokens, sizeof other);
  other[60]++;
  (void)chain_add(index, 0, other, 70, 70, TIER_RAM);
  (void)chain_add(index, 0, tokens, 128, 128, TIER_RAM);
  assert_int_equal(index_shorter(index, 0, 0, tokens, 128), shorter);
  assert_int_equal(index_shorter(index, 0, 0, tokens, 50), 0);
  assert_int_equal(index_shorter(index, 1, 0, tokens, 128), 0);
  index_pin(index, shorter);
  assert_int_equal(index_shorter(index, 0, 0, tokens, 128), 0);
  index_unpin(index, shorter);
  index_destroy(&index);
}

/* ── entries ── */

static void memory_of_the_index_is_bounded(void **state) {
  (void)state;
  struct index *index = index_new(64 << 10);
  int32_t tokens[128];
  uint64_t id, ids[1000];
  size_t n = 0;
  enum status status = STATUS_OK;
  while (n < 1000) {
    stage_tokens(100 + n, tokens, 128);
    status = index_add(index, 0, 0, tokens, 0, 128, stage_key(0, tokens, 128), stage_key(0, tokens, 0), 0, &id);
    if (status != STATUS_OK) break;
    ids[n++] = id;
  }
  assert_int_equal(status, STATUS_FULL);
  assert_true(n > 20 && index_bytes(index) <= 64 << 10);
  while (n > 0) assert_true(index_remove(index, ids[--n]));
  assert_int_equal(index_bytes(index), 0);
  assert_int_equal(index_count(index), 0);
  index_destroy(&index);
}

static void only_free_leaves_go(void **state) {
  (void)state;
  struct index *index = index_new(64 << 20);
  int32_t tokens[256];
  stage_tokens(13, tokens, 256);
  uint64_t leaf = chain_add(index, 0, tokens, 256, 256, TIER_RAM), root = index_find(index, 0, tokens, 128);
  index_set_tier(index, root, TIER_RAM, 0, 0);
  assert_false(index_remove(index, root));
  assert_false(index_remove(index, leaf));
  index_set_tier(index, leaf, TIER_RAM, 0, 0);
  index_pin(index, leaf);
  assert_false(index_remove(index, leaf));
  index_unpin(index, leaf);
  assert_true(index_remove(index, leaf));
  assert_true(index_remove(index, root));
  assert_false(index_remove(index, root));
  index_destroy(&index);
}

struct walk {
  uint64_t seen[64];
  size_t n;
};

static void walk_note(void *ctx, const struct index_entry *entry) {
  struct walk *walk = ctx;
  bool is_parent_seen = entry->parent == 0;
  for (size_t i = 0; i < walk->n; i++) {
    assert_true(walk->seen[i] != entry->id);
    is_parent_seen |= walk->seen[i] == entry->parent;
  }
  assert_true(is_parent_seen);
  walk->seen[walk->n++] = entry->id;
}

/* A segment hangs only where its parent ends, and only below its own tenant's. */
static void a_wrong_parent_is_refused(void **state) {
  (void)state;
  struct index *index = index_new(64 << 20);
  int32_t tokens[400];
  uint64_t id;
  stage_tokens(3, tokens, 400);
  uint64_t whole = chain_add(index, 0, tokens, 128, 128, TIER_RAM);
  uint64_t partial = chain_add(index, 0, tokens, 100, 100, TIER_RAM);
  uint64_t others = chain_add(index, 1, tokens, 128, 128, TIER_RAM);
  const struct {
    uint64_t parent;
    uint32_t from;
  } wrong[] = {{partial, 128}, {whole, 256}, {others, 128}, {999, 128}};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    uint32_t from = wrong[i].from;
    assert_int_equal(index_add(index, 0, wrong[i].parent, tokens + from, from, from + 100,
                               stage_key(0, tokens, from + 100), stage_key(0, tokens, from), 0, &id),
                     STATUS_INVALID);
  }
  assert_int_equal(index_count(index), 3);
  index_destroy(&index);
}

static void walks_see_all_once_parents_first(void **state) {
  (void)state;
  struct index *index = index_new(64 << 20);
  int32_t tokens[400];
  for (uint64_t seed = 0; seed < 6; seed++) {
    stage_tokens(seed, tokens, 400);
    (void)chain_add(index, seed % 2, tokens, 380, 380, TIER_RAM);
    tokens[200]++;
    (void)chain_add(index, seed % 2, tokens, 250, 250, TIER_RAM);
  }
  struct walk all = {.n = 0}, one = {.n = 0};
  index_each(index, UINT32_MAX, walk_note, &all);
  assert_int_equal(all.n, index_count(index));
  index_each(index, 1, walk_note, &one);
  assert_int_equal(one.n * 2, all.n);
  uint64_t below[16], root = index_find(index, 1, tokens, 128);
  assert_int_equal(index_subtree(index, root, below, 16), 4);
  assert_int_equal(below[3], root);
  index_destroy(&index);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(match_equals_brute_force),
      cmocka_unit_test(two_wordings_share_their_common_tokens),
      cmocka_unit_test(tenants_never_match),
      cmocka_unit_test(exact_matches_leave_whole_micro_batches),
      cmocka_unit_test(exact_matches_end_with_what_is_canonical),
      cmocka_unit_test(exact_matches_take_the_canonical_branch),
      cmocka_unit_test(exactness_is_of_the_bytes_that_are_there),
      cmocka_unit_test(each_copy_has_its_own_exactness),
      cmocka_unit_test(what_is_less_canonical_is_missing),
      cmocka_unit_test(memory_is_taken_before_disk),
      cmocka_unit_test(a_gap_ends_the_match),
      cmocka_unit_test(ranges_are_what_the_tier_lacks),
      cmocka_unit_test(a_hole_is_one_range),
      cmocka_unit_test(a_shorter_leaf_is_found),
      cmocka_unit_test(memory_of_the_index_is_bounded),
      cmocka_unit_test(only_free_leaves_go),
      cmocka_unit_test(a_wrong_parent_is_refused),
      cmocka_unit_test(walks_see_all_once_parents_first),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
