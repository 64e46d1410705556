/* The whole store on a disk that is full, read-only or gone: it goes on in memory, says why, serves what is whole, and
 * takes over what is whole when it is opened again. */
#include "store/stage.h"

enum { N = 300, CHAINS = 24, SEGMENTS_EACH = 3, DISK_MIB = 1 };

static struct stage *stage_on_small_disk(void) {
  struct stage *stage = stage_create();
  if (stage_mount_small(stage->folder, DISK_MIB)) {
    stage_open(stage);
    return stage;
  }
  stage_destroy(stage);
  skip();
  return NULL;
}

static void leave_small_disk(struct stage *stage) {
  stage_close(stage);
  stage_unmount(stage->folder);
  stage_destroy(stage);
}

static void remount_read_only(const struct stage *stage) {
  assert_int_equal(mount(NULL, stage->folder, NULL, MS_REMOUNT | MS_RDONLY, NULL), 0);
}

/* Orders the chain to disk and runs completions until all writes have ended, well or not. */
static void demote_all(struct stage *stage, const int32_t *tokens) {
  uint64_t ids[INDEX_MATCH_MAX];
  uint32_t n = stage_chain(stage, 0, tokens, N, ids);
  for (uint32_t i = 0; i < n; i++) {
    enum status status = depot_demote(stage->depot, ids[i]);
    if (status != STATUS_OK && status != STATUS_UNSUPPORTED && status != STATUS_NOT_FOUND)
      fail_msg("demote said %s", status_name(status));
  }
  for (time_t deadline_s = time(NULL) + STAGE_WAIT_S; stage_stats(stage).tier[TIER_SSD].reserved_bytes > 0;)
    if (!stage_loop_step(&stage->loop, deadline_s)) fail_msg("writes do not end");
  while (stage_loop_step(&stage->loop, 0)) {
  }
}

static unsigned count_segments(struct stage *stage, const int32_t *tokens, enum tier tier) {
  uint64_t ids[INDEX_MATCH_MAX];
  unsigned count = 0;
  for (uint32_t i = 0, n = stage_chain(stage, 0, tokens, N, ids); i < n; i++) count += stage_is_in(stage, ids[i], tier);
  return count;
}

static void a_disk_that_fills_costs_only_what_does_not_fit(void **state) {
  (void)state;
  struct stage *stage = stage_on_small_disk();
  static int32_t tokens[CHAINS][N];
  unsigned n_on_disk = 0, n_files;
  for (uint64_t i = 0; i < CHAINS; i++) {
    stage_tokens(100 + i, tokens[i], N);
    assert_int_equal(stage_save(stage, 0, tokens[i], N), STATUS_OK);
    demote_all(stage, tokens[i]);
    n_on_disk += count_segments(stage, tokens[i], TIER_SSD);
  }
  struct depot_stats stats = stage_stats(stage);
  assert_true(n_on_disk > 6 && n_on_disk < CHAINS * SEGMENTS_EACH);
  assert_true(stats.tier[TIER_SSD].is_degraded);
  assert_non_null(strstr(stats.tier[TIER_SSD].condition, "No space"));
  (void)stage_folder_bytes(stage->states, ".tmp", &n_files);
  assert_int_equal(n_files, 0);
  (void)stage_folder_bytes(stage->states, ".fkv", &n_files);
  assert_int_equal(n_files, n_on_disk);
  for (uint64_t i = 0; i < CHAINS; i++) assert_int_equal(stage_restore(stage, 0, tokens[i], N, false), N - 1);
  /* Every file is whole: what is adopted serves, chain by chain, and nothing had to be thrown away. */
  stage_reopen(stage);
  stats = stage_stats(stage);
  assert_int_equal(stats.adopted, n_on_disk);
  assert_int_equal(stats.removed, 0);
  for (uint64_t i = 0; i < CHAINS; i++) {
    unsigned n = count_segments(stage, tokens[i], TIER_SSD);
    uint32_t expected = n == SEGMENTS_EACH ? N - 1 : n * SEGMENT_TOKENS;
    assert_int_equal(stage_restore(stage, 0, tokens[i], N, false), expected);
  }
  assert_int_equal(stage_stats(stage).rejected, 0);
  leave_small_disk(stage);
}

/* Read-only from one moment on, then already when the program starts. */
static void a_read_only_disk_is_read(void **state) {
  (void)state;
  struct stage *stage = stage_on_small_disk();
  int32_t kept[N], lost[N], later[N];
  stage_tokens(1, kept, N);
  stage_tokens(2, lost, N);
  stage_tokens(3, later, N);
  assert_int_equal(stage_save(stage, 0, kept, N), STATUS_OK);
  stage_demote(stage, 0, kept, N);
  remount_read_only(stage);
  assert_int_equal(stage_save(stage, 0, lost, N), STATUS_OK);
  demote_all(stage, lost);
  assert_int_equal(count_segments(stage, lost, TIER_SSD), 0);
  assert_int_equal(stage_restore(stage, 0, lost, N, false), N - 1);
  struct depot_stats stats = stage_stats(stage);
  assert_true(stats.tier[TIER_SSD].is_degraded);
  assert_non_null(strstr(stats.tier[TIER_SSD].condition, "ead-only"));
  stage_evict(stage, 0, kept, N, TIER_RAM);
  assert_int_equal(stage_restore(stage, 0, kept, N, false), N - 1);

  stage_reopen(stage);
  assert_int_equal(stage_stats(stage).adopted, SEGMENTS_EACH);
  assert_int_equal(stage_restore(stage, 0, kept, N, false), N - 1);
  assert_int_equal(stage_save(stage, 0, later, N), STATUS_OK);
  demote_all(stage, later);
  assert_int_equal(count_segments(stage, later, TIER_SSD), 0);
  assert_int_equal(stage_restore(stage, 0, later, N, false), N - 1);
  leave_small_disk(stage);
}

/* The folder is removed under the running program; what was only there is lost, and said so, and memory serves. */
static void a_folder_that_goes_is_survived(void **state) {
  (void)state;
  struct stage *stage = stage_create();
  int32_t both[N], disk_only[N], later[N];
  stage_open(stage);
  stage_tokens(4, both, N);
  stage_tokens(5, disk_only, N);
  stage_tokens(6, later, N);
  assert_int_equal(stage_save(stage, 0, both, N), STATUS_OK);
  assert_int_equal(stage_save(stage, 0, disk_only, N), STATUS_OK);
  stage_demote(stage, 0, both, N);
  stage_demote(stage, 0, disk_only, N);
  stage_evict(stage, 0, disk_only, N, TIER_RAM);
  stage_folder_clear(stage->states);
  assert_int_equal(rmdir(stage->states), 0);
  assert_int_equal(stage_restore(stage, 0, both, N, false), N - 1);
  assert_int_equal(stage_restore(stage, 0, disk_only, N, false), 0);
  assert_true(stage_stats(stage).rejected_missing >= 1);
  assert_int_equal(stage_save(stage, 0, later, N), STATUS_OK);
  demote_all(stage, later);
  assert_int_equal(stage_restore(stage, 0, later, N, false), N - 1);
  assert_true(stage_stats(stage).tier[TIER_SSD].is_degraded);
  /* With the next start the folder is made again. */
  stage_reopen(stage);
  assert_int_equal(stage_stats(stage).adopted, 0);
  assert_int_equal(stage_save(stage, 0, later, N), STATUS_OK);
  stage_demote(stage, 0, later, N);
  stage_evict(stage, 0, later, N, TIER_RAM);
  assert_int_equal(stage_restore(stage, 0, later, N, false), N - 1);
  stage_destroy(stage);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_disk_that_fills_costs_only_what_does_not_fit),
      cmocka_unit_test(a_read_only_disk_is_read),
      cmocka_unit_test(a_folder_that_goes_is_survived),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
