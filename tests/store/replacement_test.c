/* What is computed again canonically replaces what was written while generating, copy by copy. */
#include "store/stage.h"

enum { N = 128 };

static int stage_setup(void **state) {
  struct stage *stage = stage_create();
  stage_open(stage);
  *state = stage;
  return 0;
}

static int stage_teardown(void **state) {
  stage_destroy(*state);
  return 0;
}

static uint32_t exact_tokens(struct stage *stage, const int32_t *tokens) {
  struct index_match match;
  depot_match(stage->depot, 0, tokens, N + 100, true, &match);
  depot_release(stage->depot, &match);
  return match.tokens;
}

static void canonical_bytes_replace_others(void **state) {
  struct stage *stage = *state;
  int32_t tokens[N + 100];
  enum status status;
  stage_tokens(1, tokens, N + 100);
  uint64_t near = stage_save_range(stage, 0, tokens, 0, N, 50, &status);
  assert_int_equal(status, STATUS_OK);
  uint64_t used = stage_stats(stage).tier[TIER_RAM].used_bytes;
  assert_int_equal(exact_tokens(stage, tokens), 50);
  stage_demote(stage, 0, tokens, N);
  uint64_t better = stage_save_range(stage, 0, tokens, 0, N, N, &status);
  assert_int_equal(status, STATUS_OK);
  assert_int_equal(better, near);
  assert_int_equal(exact_tokens(stage, tokens), N);
  assert_int_equal(stage_stats(stage).tier[TIER_RAM].used_bytes, used);
  assert_int_equal(stage_stats(stage).tier[TIER_RAM].reserved_bytes, 0);
  /* The file on disk is what it was. */
  assert_int_equal(depot_evict(stage->depot, near, TIER_RAM), STATUS_OK);
  assert_int_equal(exact_tokens(stage, tokens), 50);
  assert_int_equal(stage_restore(stage, 0, tokens, N + 1, false), N);
  assert_int_equal(exact_tokens(stage, tokens), 50);
}

static void what_is_less_canonical_replaces_nothing(void **state) {
  struct stage *stage = *state;
  int32_t tokens[N + 100];
  enum status status;
  stage_tokens(2, tokens, N + 100);
  (void)stage_save_range(stage, 0, tokens, 0, N, N, &status);
  (void)stage_save_range(stage, 0, tokens, 0, N, 50, &status);
  assert_int_equal(status, STATUS_OK);
  assert_int_equal(exact_tokens(stage, tokens), N);
  assert_int_equal(stage_stats(stage).tier[TIER_RAM].segments, 1);
}

static void pinned_bytes_stay(void **state) {
  struct stage *stage = *state;
  int32_t tokens[N + 100];
  enum status status;
  struct index_match match;
  stage_tokens(3, tokens, N + 100);
  (void)stage_save_range(stage, 0, tokens, 0, N, 50, &status);
  depot_match(stage->depot, 0, tokens, N + 1, false, &match);
  const void *view = depot_view(stage->depot, match.uses[0].segment);
  (void)stage_save_range(stage, 0, tokens, 0, N, N, &status);
  assert_int_equal(status, STATUS_BUSY);
  assert_ptr_equal(depot_view(stage->depot, match.uses[0].segment), view);
  depot_release(stage->depot, &match);
  assert_int_equal(exact_tokens(stage, tokens), 50);
  assert_int_equal(stage_stats(stage).tier[TIER_RAM].reserved_bytes, 0);
  (void)stage_save_range(stage, 0, tokens, 0, N, N, &status);
  assert_int_equal(status, STATUS_OK);
  assert_int_equal(exact_tokens(stage, tokens), N);
}

#define STAGE_TEST(test) cmocka_unit_test_setup_teardown(test, stage_setup, stage_teardown)

int main(void) {
  const struct CMUnitTest tests[] = {
      STAGE_TEST(canonical_bytes_replace_others),
      STAGE_TEST(what_is_less_canonical_replaces_nothing),
      STAGE_TEST(pinned_bytes_stay),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
