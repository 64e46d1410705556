/* The store as the engine sees it: states come back whole from memory, from disk and after a restart, or shorter, never
 * wrong; tenants and models stay apart; caps hold; what is broken goes and is counted. */
#include "store/stage.h"

#include <sched.h>
#include <sys/mount.h>

enum { N = 300 }; /* tokens of most chains: three segments, the last one partial */

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

static uint32_t match_tokens(struct stage *stage, uint32_t tenant, const int32_t *tokens, uint32_t n, bool is_exact) {
  struct index_match match;
  depot_match(stage->depot, tenant, tokens, n, is_exact, &match);
  depot_release(stage->depot, &match);
  return match.tokens;
}

static void count_entry(void *ctx, const struct index_entry *entry) {
  (void)entry;
  (*(size_t *)ctx)++;
}

static size_t count_segments(struct stage *stage) {
  size_t n = 0;
  depot_each(stage->depot, UINT32_MAX, count_entry, &n);
  return n;
}

static void segment_path(struct stage *stage, uint32_t tenant, const int32_t *tokens, uint32_t upto,
                         char path[PATH_MAX + 64]) {
  block_key key = stage_key(tenant, tokens, upto);
  snprintf(path, PATH_MAX + 64, "%.4000s/%016llx%016llx.fkv", stage->states, (unsigned long long)key.hi,
           (unsigned long long)key.lo);
}

/* Changes one payload byte of the file. */
static void break_file(struct stage *stage, uint32_t tenant, const int32_t *tokens, uint32_t upto) {
  char path[PATH_MAX + 64];
  uint8_t byte;
  segment_path(stage, tenant, tokens, upto, path);
  int fd = open(path, O_RDWR);
  assert_true(fd >= 0);
  assert_int_equal(pread(fd, &byte, 1, ENVELOPE_SIZE + 100), 1);
  byte ^= 1;
  assert_int_equal(pwrite(fd, &byte, 1, ENVELOPE_SIZE + 100), 1);
  close(fd);
}

/* ── there and back ── */

static void states_come_back_from_everywhere(void **state) {
  struct stage *stage = *state;
  int32_t tokens[N];
  stage_tokens(1, tokens, N);
  assert_int_equal(stage_restore(stage, 0, tokens, N, false), 0);
  assert_int_equal(stage_save(stage, 0, tokens, N), STATUS_OK);
  assert_int_equal(stage_restore(stage, 0, tokens, N, false), N - 1);
  assert_int_equal(stage_restore(stage, 0, tokens, N, true), N - 1);
  stage_demote(stage, 0, tokens, N);
  stage_evict(stage, 0, tokens, N, TIER_RAM);
  assert_int_equal(stage_restore(stage, 0, tokens, N, false), N - 1);
  stage_reopen(stage);
  assert_int_equal(stage_stats(stage).adopted, 3);
  assert_int_equal(stage_restore(stage, 0, tokens, N, true), N - 1);
  assert_int_equal(stage_stats(stage).tier[TIER_RAM].segments, 3);
}

static void a_long_state_serves_its_prefixes(void **state) {
  struct stage *stage = *state;
  int32_t tokens[N], other[N];
  stage_tokens(2, tokens, N);
  assert_int_equal(stage_save(stage, 0, tokens, N), STATUS_OK);
  for (uint32_t n = 2; n <= N; n += 7) assert_int_equal(stage_restore(stage, 0, tokens, n, false), n - 1);
  memcpy(other, tokens, sizeof other);
  for (uint32_t common = 0; common < N; common += 13) {
    other[common]++;
    assert_int_equal(stage_restore(stage, 0, other, N, false), common);
    other[common]--;
  }
}

static void a_new_branch_saves_only_itself(void **state) {
  struct stage *stage = *state;
  int32_t tokens[400], other[400];
  struct index_range ranges[8];
  stage_tokens(3, tokens, 400);
  memcpy(other, tokens, sizeof other);
  for (uint32_t i = 200; i < 400; i++) other[i] = tokens[i] + 1;
  assert_int_equal(stage_save(stage, 0, tokens, 400), STATUS_OK);
  assert_int_equal(depot_missing(stage->depot, 0, other, 400, 0, ranges, 8), 3);
  assert_int_equal(ranges[0].from, 128);
  assert_int_equal(stage_save(stage, 0, other, 400), STATUS_OK);
  assert_int_equal(count_segments(stage), 7);
  assert_int_equal(stage_restore(stage, 0, tokens, 400, false), 399);
  assert_int_equal(stage_restore(stage, 0, other, 400, false), 399);
}

/* ── partial leaves ── */

static void a_grown_chain_replaces_its_partial_leaf(void **state) {
  struct stage *stage = *state;
  int32_t tokens[N];
  stage_tokens(4, tokens, N);
  assert_int_equal(stage_save(stage, 0, tokens, 200), STATUS_OK);
  stage_demote(stage, 0, tokens, 200);
  uint64_t used = stage_stats(stage).tier[TIER_RAM].used_bytes;
  assert_int_equal(stage_save(stage, 0, tokens, N), STATUS_OK);
  assert_true(stage_stats(stage).tier[TIER_RAM].used_bytes > used);
  assert_int_equal(stage_stats(stage).tier[TIER_RAM].segments, 3);
  assert_int_equal(stage_stats(stage).tier[TIER_SSD].segments, 2);
  stage_demote(stage, 0, tokens, N);
  assert_int_equal(stage_stats(stage).tier[TIER_SSD].segments, 3);
  assert_int_equal(count_segments(stage), 3);
  assert_int_equal(stage_restore(stage, 0, tokens, N, false), N - 1);
}

/* What was only made while generating does not replace what is canonical. */
static void a_canonical_leaf_stays(void **state) {
  struct stage *stage = *state;
  int32_t tokens[N];
  enum status status;
  stage_tokens(5, tokens, N);
  (void)stage_save_range(stage, 0, tokens, 0, 60, 60, &status);
  (void)stage_save_range(stage, 0, tokens, 0, 90, 40, &status);
  assert_int_equal(status, STATUS_OK);
  assert_int_equal(match_tokens(stage, 0, tokens, N, true), 60);
  assert_int_equal(match_tokens(stage, 0, tokens, N, false), 90);
  (void)stage_save_range(stage, 0, tokens, 0, 128, 128, &status);
  assert_int_equal(count_segments(stage), 1);
  assert_int_equal(match_tokens(stage, 0, tokens, N, true), 128);
}

/* ── apart ── */

static void tenants_never_share(void **state) {
  struct stage *stage = *state;
  int32_t tokens[N];
  stage_tokens(6, tokens, N);
  assert_int_equal(stage_save(stage, 0, tokens, N), STATUS_OK);
  stage_demote(stage, 0, tokens, N);
  for (int round = 0; round < 2; round++) {
    for (uint32_t tenant = 1; tenant < STAGE_TENANTS; tenant++) {
      struct index_range ranges[8];
      assert_int_equal(match_tokens(stage, tenant, tokens, N, false), 0);
      assert_int_equal(depot_missing(stage->depot, tenant, tokens, N, 0, ranges, 8), 3);
    }
    stage_reopen(stage);
  }
  /* The same words of another tenant are other segments, with other bytes. */
  assert_int_equal(stage_save(stage, 1, tokens, N), STATUS_OK);
  assert_int_equal(stage_restore(stage, 1, tokens, N, false), N - 1);
  assert_int_equal(stage_restore(stage, 0, tokens, N, false), N - 1);
  assert_int_equal(count_segments(stage), 6);
}

static void a_tenant_that_is_gone_leaves_no_files(void **state) {
  struct stage *stage = *state;
  int32_t tokens[N];
  unsigned n;
  stage_tokens(7, tokens, N);
  assert_int_equal(stage_save(stage, 2, tokens, N), STATUS_OK);
  stage_demote(stage, 2, tokens, N);
  stage_close(stage);
  stage->config.n_tenants = 2;
  stage_open(stage);
  assert_int_equal(stage_stats(stage).removed_incompatible, 3);
  (void)stage_folder_bytes(stage->states, ".fkv", &n);
  assert_int_equal(n, 0);
}

static void another_model_adopts_nothing(void **state) {
  struct stage *stage = *state;
  int32_t tokens[N];
  stage_tokens(8, tokens, N);
  for (int byte = 0; byte < 33; byte++) {
    assert_int_equal(stage_save(stage, 0, tokens, N), STATUS_OK);
    stage_demote(stage, 0, tokens, N);
    stage_close(stage);
    if (byte < 32)
      stage->config.fingerprint.compat[byte] ^= 0x80;
    else
      stage->config.bytes_per_token += 8;
    stage_open(stage);
    assert_int_equal(stage_stats(stage).adopted, 0);
    assert_int_equal(stage_stats(stage).removed_incompatible, 3);
    assert_int_equal(stage_stats(stage).removed, 3);
    assert_int_equal(stage_restore(stage, 0, tokens, N, false), 0);
  }
}

static void other_settings_serve_near_only(void **state) {
  struct stage *stage = *state;
  int32_t tokens[N];
  stage_tokens(9, tokens, N);
  assert_int_equal(stage_save(stage, 0, tokens, N), STATUS_OK);
  stage_demote(stage, 0, tokens, N);
  stage_close(stage);
  stage->config.fingerprint.exact[5] ^= 1;
  stage_open(stage);
  assert_int_equal(stage_stats(stage).adopted, 3);
  assert_int_equal(stage_restore(stage, 0, tokens, N, false), N - 1);
  assert_int_equal(match_tokens(stage, 0, tokens, N, true), 0);
}

/* A caller that gives one name to two contents cannot make one look like the other. */
static void a_name_given_twice_serves_neither_wrongly(void **state) {
  struct stage *stage = *state;
  int32_t one[100], other[100];
  struct depot_ticket *ticket;
  void *bytes;
  stage_tokens(10, one, 100);
  stage_tokens(11, other, 100);
  assert_int_equal(stage_save(stage, 0, one, 100), STATUS_OK);
  stage_demote(stage, 0, one, 100);
  stage_evict(stage, 0, one, 100, TIER_RAM);
  assert_int_equal(depot_reserve(stage->depot, 0, other, 0, 100, 100, stage_key(0, one, 100), stage_key(0, one, 0), 0,
                                 &ticket, &bytes),
                   STATUS_OK);
  (void)stage_bytes(bytes, false, 0, other, 0, 100, stage->config.bytes_per_token);
  assert_int_equal(depot_commit(stage->depot, ticket, NULL), STATUS_OK);
  stage_demote(stage, 0, other, 100);
  assert_int_equal(stage_restore(stage, 0, one, 100, false), 0);
  assert_int_equal(stage_stats(stage).rejected_incompatible, 1);
  assert_int_equal(stage_restore(stage, 0, other, 100, false), 99);
}

/* ── room ── */

static void full_memory_is_said_and_freed_leaf_first(void **state) {
  struct stage *stage = *state;
  int32_t tokens[N], next[N];
  uint64_t ids[8];
  uint32_t n = 0;
  enum status status;
  do {
    stage_tokens(1000 + n, tokens, N);
    status = stage_save(stage, 0, tokens, N);
    n++;
  } while (status == STATUS_OK);
  assert_int_equal(status, STATUS_FULL);
  struct depot_stats stats = stage_stats(stage);
  assert_true(n > 50 && stats.tier[TIER_RAM].used_bytes <= stage->config.ram_bytes);
  assert_int_equal(stats.tier[TIER_RAM].reserved_bytes, 0);
  stage_tokens(1000, next, N);
  assert_int_equal(stage_chain(stage, 0, next, N, ids), 3);
  assert_int_equal(depot_evict(stage->depot, ids[0], TIER_RAM), STATUS_BUSY);
  assert_int_equal(depot_evict(stage->depot, ids[1], TIER_RAM), STATUS_BUSY);
  assert_int_equal(depot_evict(stage->depot, ids[0], TIER_SSD), STATUS_NOT_FOUND);
  struct index_match match;
  depot_match(stage->depot, 0, next, N, false, &match);
  assert_int_equal(depot_evict(stage->depot, ids[2], TIER_RAM), STATUS_BUSY);
  assert_int_equal(depot_drop(stage->depot, ids[0]), STATUS_BUSY);
  depot_release(stage->depot, &match);
  stage_evict(stage, 0, next, N, TIER_RAM);
  assert_int_equal(depot_evict(stage->depot, ids[2], TIER_RAM), STATUS_NOT_FOUND);
  assert_int_equal(stage_save(stage, 0, tokens, N), STATUS_OK);
  assert_int_equal(stage_stats(stage).tier[TIER_RAM].evicted, 3);
}

static void what_is_larger_than_memory_is_refused(void **state) {
  struct stage *stage = *state;
  int32_t tokens[N];
  enum status status;
  stage_close(stage);
  stage->config.ram_bytes = 30000;
  stage_open(stage);
  stage_tokens(12, tokens, N);
  (void)stage_save_range(stage, 0, tokens, 0, 128, 128, &status);
  assert_int_equal(status, STATUS_TOO_LONG);
  (void)stage_save_range(stage, 0, tokens, 0, 50, 50, &status);
  assert_int_equal(status, STATUS_OK);
}

static void a_segment_needs_its_parent(void **state) {
  struct stage *stage = *state;
  int32_t tokens[N];
  enum status status;
  stage_tokens(13, tokens, N);
  (void)stage_save_range(stage, 0, tokens, 128, 256, 256, &status);
  assert_int_equal(status, STATUS_NOT_FOUND);
  assert_int_equal(stage_save(stage, 0, tokens, N), STATUS_OK);
  (void)stage_save_range(stage, 1, tokens, 128, 256, 256, &status);
  assert_int_equal(status, STATUS_NOT_FOUND);
}

static void a_reservation_that_is_given_up_leaves_nothing(void **state) {
  struct stage *stage = *state;
  int32_t tokens[N];
  struct depot_ticket *ticket;
  void *bytes;
  uint64_t ids[8];
  stage_tokens(14, tokens, N);
  assert_int_equal(stage_save(stage, 0, tokens, 128), STATUS_OK);
  assert_int_equal(depot_reserve(stage->depot, 0, tokens, 128, 256, 256, stage_key(0, tokens, 256),
                                 stage_key(0, tokens, 128), 0, &ticket, &bytes),
                   STATUS_OK);
  assert_int_equal(stage_chain(stage, 0, tokens, 128, ids), 1);
  assert_int_equal(depot_evict(stage->depot, ids[0], TIER_RAM), STATUS_BUSY);
  depot_abort(stage->depot, ticket);
  assert_int_equal(depot_evict(stage->depot, ids[0], TIER_RAM), STATUS_OK);
  assert_int_equal(stage_stats(stage).tier[TIER_RAM].used_bytes, 0);
  assert_int_equal(count_segments(stage), 0);
}

/* Two jobs save the same range at the same time: one of them is kept. */
static void the_same_saved_twice_is_kept_once(void **state) {
  struct stage *stage = *state;
  int32_t tokens[N];
  struct depot_ticket *tickets[2];
  uint64_t ids[2];
  stage_tokens(15, tokens, N);
  for (int i = 0; i < 2; i++) {
    void *bytes;
    assert_int_equal(depot_reserve(stage->depot, 0, tokens, 0, 128, 128, stage_key(0, tokens, 128),
                                   stage_key(0, tokens, 0), 0, &tickets[i], &bytes),
                     STATUS_OK);
    (void)stage_bytes(bytes, false, 0, tokens, 0, 128, stage->config.bytes_per_token);
  }
  for (int i = 0; i < 2; i++) assert_int_equal(depot_commit(stage->depot, tickets[i], &ids[i]), STATUS_OK);
  assert_int_equal(ids[0], ids[1]);
  assert_int_equal(stage_stats(stage).tier[TIER_RAM].segments, 1);
  assert_int_equal(stage_stats(stage).tier[TIER_RAM].used_bytes, depot_segment_bytes(stage->depot, 128));
}

static void a_full_index_refuses_and_leaks_nothing(void **state) {
  struct stage *stage = *state;
  int32_t tokens[128];
  enum status status = STATUS_OK;
  stage_close(stage);
  stage->config.index_bytes_max = 32 << 10;
  stage_open(stage);
  for (uint64_t seed = 0; status == STATUS_OK; seed++) {
    stage_tokens(2000 + seed, tokens, 128);
    (void)stage_save_range(stage, 0, tokens, 0, 128, 128, &status);
  }
  assert_int_equal(status, STATUS_FULL);
  struct depot_stats stats = stage_stats(stage);
  assert_true(stats.index_bytes <= 32 << 10);
  assert_int_equal(stats.tier[TIER_RAM].segments, count_segments(stage));
  assert_int_equal(stats.tier[TIER_RAM].reserved_bytes, 0);
}

/* ── disk ── */

static void writing_follows_the_rules(void **state) {
  struct stage *stage = *state;
  int32_t tokens[N];
  uint64_t ids[8];
  stage_tokens(16, tokens, N);
  assert_int_equal(stage_save(stage, 0, tokens, N), STATUS_OK);
  assert_int_equal(stage_chain(stage, 0, tokens, N, ids), 3);
  assert_int_equal(depot_demote(stage->depot, ids[1]), STATUS_NOT_FOUND);
  assert_int_equal(depot_demote(stage->depot, 999), STATUS_NOT_FOUND);
  /* Behind one another at once: the parent is on its way. */
  for (int i = 0; i < 3; i++) assert_int_equal(depot_demote(stage->depot, ids[i]), STATUS_OK);
  assert_int_equal(depot_evict(stage->depot, ids[2], TIER_RAM), STATUS_BUSY);
  stage_wait_ssd(stage, ids[2]);
  uint64_t written = stage_stats(stage).ssd_written_today_bytes;
  for (int i = 0; i < 3; i++) assert_int_equal(depot_demote(stage->depot, ids[i]), STATUS_OK);
  assert_int_equal(stage_stats(stage).ssd_written_today_bytes, written);
  assert_int_equal(depot_evict(stage->depot, ids[0], TIER_SSD), STATUS_BUSY);
  stage_evict(stage, 0, tokens, N, TIER_RAM);
  assert_int_equal(depot_evict(stage->depot, ids[1], TIER_SSD), STATUS_BUSY);
  stage_evict(stage, 0, tokens, N, TIER_SSD);
  assert_int_equal(count_segments(stage), 0);
}

static void a_days_budget_ends_writing_only(void **state) {
  struct stage *stage = *state;
  int32_t tokens[N];
  uint64_t ids[8];
  stage_close(stage);
  stage->config.ssd_writes_bytes_per_day = 80000;
  stage_open(stage);
  stage_tokens(17, tokens, N);
  assert_int_equal(stage_save(stage, 0, tokens, N), STATUS_OK);
  assert_int_equal(stage_chain(stage, 0, tokens, N, ids), 3);
  assert_int_equal(depot_demote(stage->depot, ids[0]), STATUS_OK);
  assert_int_equal(depot_demote(stage->depot, ids[1]), STATUS_OK);
  assert_int_equal(depot_demote(stage->depot, ids[2]), STATUS_FULL);
  stage_wait_ssd(stage, ids[1]);
  stage_reopen(stage);
  assert_int_equal(stage_restore(stage, 0, tokens, N, false), 256);
  assert_int_equal(stage_save(stage, 0, tokens, N), STATUS_OK);
  assert_int_equal(stage_chain(stage, 0, tokens, N, ids), 3);
  assert_int_equal(depot_demote(stage->depot, ids[2]), STATUS_FULL);
  assert_true(stage_stats(stage).ssd_written_today_bytes <= 80000);
}

static void without_a_disk_memory_serves(void **state) {
  struct stage *stage = *state;
  int32_t tokens[N];
  uint64_t ids[8];
  stage_tokens(18, tokens, N);
  for (int round = 0; round < 3; round++) {
    stage_close(stage);
    if (round == 0) stage->config.ssd_bytes = 0;
    if (round == 1) stage->config.folder = NULL, stage->config.ssd_bytes = 8 << 20;
    if (round == 2) stage->config.folder = "/proc/self/no/such/folder";
    stage_open(stage);
    assert_int_equal(stage_save(stage, 0, tokens, N), STATUS_OK);
    assert_int_equal(stage_chain(stage, 0, tokens, N, ids), 3);
    assert_int_equal(depot_demote(stage->depot, ids[0]), STATUS_UNSUPPORTED);
    assert_int_equal(depot_flush(stage->depot, ids, 3, clock_monotonic_us() + 1000000), 0);
    assert_int_equal(stage_restore(stage, 0, tokens, N, false), N - 1);
    assert_true(stage_stats(stage).tier[TIER_SSD].is_degraded == (round == 2));
  }
  assert_true(strstr(stage_stats(stage).tier[TIER_SSD].condition, "/proc/self/no") != NULL);
}

static void the_end_writes_what_fits_in_time(void **state) {
  struct stage *stage = *state;
  int32_t tokens[4][N];
  uint64_t ids[4][8], last[4];
  for (int i = 0; i < 4; i++) {
    stage_tokens(20 + (uint64_t)i, tokens[i], N);
    assert_int_equal(stage_save(stage, 0, tokens[i], N), STATUS_OK);
    assert_int_equal(stage_chain(stage, 0, tokens[i], N, ids[i]), 3);
    last[i] = ids[i][2];
  }
  assert_int_equal(depot_flush(stage->depot, last, 4, clock_monotonic_us()), 0);
  /* The first is on its way already: waited for, not written twice. */
  for (int i = 0; i < 3; i++) assert_int_equal(depot_demote(stage->depot, ids[0][i]), STATUS_OK);
  assert_int_equal(depot_flush(stage->depot, last, 3, clock_monotonic_us() + 60000000), 3);
  uint64_t bytes = 3 * (2 * (ENVELOPE_SIZE + envelope_padded(128 * 256)) + ENVELOPE_SIZE + envelope_padded(44 * 256));
  assert_int_equal(stage_stats(stage).ssd_written_today_bytes, bytes);
  stage_reopen(stage);
  assert_int_equal(stage_stats(stage).adopted, 9);
  for (int i = 0; i < 4; i++) assert_int_equal(stage_restore(stage, 0, tokens[i], N, false), i < 3 ? N - 1 : 0);
}

/* While a child is written its parent stays: without it the file would be of no use. */
static void a_parent_stays_while_its_child_is_written(void **state) {
  struct stage *stage = *state;
  int32_t tokens[256];
  uint64_t ids[8];
  stage_tokens(37, tokens, 256);
  assert_int_equal(stage_save(stage, 0, tokens, 256), STATUS_OK);
  stage_demote(stage, 0, tokens, 128);
  assert_int_equal(stage_chain(stage, 0, tokens, 256, ids), 2);
  assert_int_equal(depot_demote(stage->depot, ids[1]), STATUS_OK);
  assert_int_equal(depot_evict(stage->depot, ids[0], TIER_SSD), STATUS_BUSY);
  stage_wait_ssd(stage, ids[1]);
  assert_int_equal(depot_evict(stage->depot, ids[1], TIER_SSD), STATUS_OK);
  assert_int_equal(depot_evict(stage->depot, ids[0], TIER_SSD), STATUS_OK);
}

/* On a disk where the parent does not fit and its child does, neither stays. */
static void a_child_does_not_stay_without_its_parent(void **state) {
  struct stage *stage = *state;
  int32_t tokens[172];
  uint64_t ids[8];
  char path[PATH_MAX + 64];
  unsigned n;
  stage_close(stage);
  if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
      mount("tmpfs", stage->states, "tmpfs", 0, "size=256k,mode=0700") != 0) {
    print_message("skipped: mounting a small file system needs root\n");
    skip();
  }
  snprintf(path, sizeof path, "%.4000s/filling", stage->states);
  int fd = open(path, O_WRONLY | O_CREAT, 0600);
  assert_int_equal(posix_fallocate(fd, 0, (256 - 28) << 10), 0);
  close(fd);
  stage_tokens(38, tokens, 172);
  /* The order meant is that the child is on its way before its parent fails: tried until it comes about. */
  enum status status = STATUS_UNSUPPORTED;
  for (int attempt = 0; attempt < 200 && status == STATUS_UNSUPPORTED; attempt++) {
    stage_close(stage);
    stage_open(stage);
    assert_int_equal(stage_save(stage, 0, tokens, 172), STATUS_OK);
    assert_int_equal(stage_chain(stage, 0, tokens, 172, ids), 2);
    assert_int_equal(depot_demote(stage->depot, ids[0]), STATUS_OK);
    status = depot_demote(stage->depot, ids[1]);
  }
  assert_int_equal(status, STATUS_OK);
  for (int i = 0; i < 2; i++) assert_true(stage_loop_step(&stage->loop, time(NULL) + STAGE_WAIT_S));
  assert_true(stage_stats(stage).tier[TIER_SSD].write_bytes > 0); /* the child was written … */
  assert_int_equal(stage_stats(stage).tier[TIER_SSD].segments, 0);
  (void)stage_folder_bytes(stage->states, ".fkv", &n);
  assert_int_equal(n, 0); /* … and did not stay */
  assert_true(strstr(stage_stats(stage).tier[TIER_SSD].condition, "No space") != NULL);
  assert_int_equal(stage_restore(stage, 0, tokens, 172, false), 171);
  stage_close(stage);
  assert_int_equal(umount2(stage->states, MNT_DETACH), 0);
}

static void reads_do_not_stand_behind_writes(void **state) {
  struct stage *stage = *state;
  int32_t tokens[N], other[128];
  uint64_t ids[50];
  size_t n_written = 0;
  stage_tokens(24, tokens, N);
  assert_int_equal(stage_save(stage, 0, tokens, N), STATUS_OK);
  stage_demote(stage, 0, tokens, N);
  stage_evict(stage, 0, tokens, N, TIER_RAM);
  for (int i = 0; i < 50; i++) {
    stage_tokens(3000 + (uint64_t)i, other, 128);
    enum status status;
    ids[i] = stage_save_range(stage, 0, other, 0, 128, 128, &status);
    assert_int_equal(depot_demote(stage->depot, ids[i]), STATUS_OK);
  }
  assert_int_equal(stage_restore(stage, 0, tokens, N, false), N - 1);
  for (int i = 0; i < 50; i++) n_written += stage_is_in(stage, ids[i], TIER_SSD);
  assert_true(n_written < 50);
}

/* ── what is broken ── */

static void a_broken_file_shortens_the_match(void **state) {
  struct stage *stage = *state;
  int32_t tokens[500];
  unsigned n;
  stage_tokens(25, tokens, 500);
  for (int round = 0; round < 3; round++) {
    assert_int_equal(stage_save(stage, 0, tokens, 500), STATUS_OK);
    stage_demote(stage, 0, tokens, 500);
    stage_reopen(stage);
    uint32_t upto = 128 * (uint32_t)(1 + round);
    break_file(stage, 0, tokens, upto);
    assert_int_equal(stage_restore(stage, 0, tokens, 500, false), upto - 128);
    assert_int_equal(stage_stats(stage).rejected, 1);
    assert_int_equal(stage_stats(stage).rejected_broken, 1);
    (void)stage_folder_bytes(stage->states, ".fkv", &n);
    assert_int_equal(n, round);
    assert_int_equal(count_segments(stage), round);
    assert_int_equal(match_tokens(stage, 0, tokens, 500, false), upto - 128);
  }
}

static void a_missing_file_shortens_the_match(void **state) {
  struct stage *stage = *state;
  int32_t tokens[500];
  char path[PATH_MAX + 64];
  stage_tokens(26, tokens, 500);
  assert_int_equal(stage_save(stage, 0, tokens, 500), STATUS_OK);
  stage_demote(stage, 0, tokens, 500);
  stage_evict(stage, 0, tokens, 500, TIER_RAM);
  segment_path(stage, 0, tokens, 256, path);
  assert_int_equal(unlink(path), 0);
  assert_int_equal(stage_restore(stage, 0, tokens, 500, false), 128);
  assert_int_equal(stage_stats(stage).rejected_missing, 1);
  assert_int_equal(count_segments(stage), 1);
}

/* Memory copies behind a broken file cannot be reached any more: they do not stay for ever. */
static void what_is_behind_a_broken_file_goes_from_memory_too(void **state) {
  struct stage *stage = *state;
  int32_t tokens[N];
  uint64_t ids[8];
  bool is_done = false;
  struct index_match match;
  stage_tokens(27, tokens, N);
  assert_int_equal(stage_save(stage, 0, tokens, N), STATUS_OK);
  stage_demote(stage, 0, tokens, N);
  stage_reopen(stage);
  /* Only the last is in memory, by a fetch that finds no room for the others any more … */
  assert_int_equal(stage_restore(stage, 0, tokens, N, false), N - 1);
  assert_int_equal(stage_chain(stage, 0, tokens, N, ids), 3);
  assert_int_equal(depot_evict(stage->depot, ids[2], TIER_RAM), STATUS_OK);
  assert_int_equal(depot_evict(stage->depot, ids[1], TIER_RAM), STATUS_OK);
  assert_int_equal(depot_evict(stage->depot, ids[0], TIER_RAM), STATUS_OK);
  break_file(stage, 0, tokens, 128);
  depot_match(stage->depot, 0, tokens, N, false, &match);
  assert_int_equal(depot_fetch(stage->depot, &match, stage_fetched, &is_done), STATUS_OK);
  stage_wait(stage, &is_done);
  assert_null(depot_view(stage->depot, match.uses[0].segment));
  depot_release(stage->depot, &match);
  assert_int_equal(count_segments(stage), 0);
  assert_int_equal(stage_stats(stage).tier[TIER_RAM].used_bytes, 0);
  assert_int_equal(stage_stats(stage).tier[TIER_SSD].segments, 0);
}

static void nothing_is_hung_behind_a_file_that_broke(void **state) {
  struct stage *stage = *state;
  int32_t tokens[N];
  struct depot_ticket *ticket;
  void *bytes;
  stage_tokens(28, tokens, N);
  assert_int_equal(stage_save(stage, 0, tokens, 128), STATUS_OK);
  stage_demote(stage, 0, tokens, 128);
  stage_evict(stage, 0, tokens, 128, TIER_RAM);
  assert_int_equal(depot_reserve(stage->depot, 0, tokens, 128, 256, 256, stage_key(0, tokens, 256),
                                 stage_key(0, tokens, 128), 0, &ticket, &bytes),
                   STATUS_OK);
  break_file(stage, 0, tokens, 128);
  assert_int_equal(stage_restore(stage, 0, tokens, N, false), 0);
  assert_int_equal(depot_commit(stage->depot, ticket, NULL), STATUS_NOT_FOUND);
  assert_int_equal(count_segments(stage), 0);
  assert_int_equal(stage_stats(stage).tier[TIER_RAM].used_bytes, 0);
}

static void orphans_are_removed_at_the_start(void **state) {
  struct stage *stage = *state;
  int32_t tokens[N];
  char path[PATH_MAX + 64];
  unsigned n;
  stage_tokens(29, tokens, N);
  assert_int_equal(stage_save(stage, 0, tokens, N), STATUS_OK);
  stage_demote(stage, 0, tokens, N);
  stage_close(stage);
  segment_path(stage, 0, tokens, 128, path);
  assert_int_equal(unlink(path), 0);
  stage_open(stage);
  assert_int_equal(stage_stats(stage).adopted, 0);
  assert_int_equal(stage_stats(stage).removed_orphans, 2);
  (void)stage_folder_bytes(stage->states, ".fkv", &n);
  assert_int_equal(n, 0);
}

/* ── fetching ── */

static void a_segment_is_read_once_for_all_who_wait(void **state) {
  struct stage *stage = *state;
  int32_t tokens[N];
  struct index_match match[4];
  bool is_done[4] = {false};
  stage_tokens(30, tokens, N);
  assert_int_equal(stage_save(stage, 0, tokens, N), STATUS_OK);
  stage_demote(stage, 0, tokens, N);
  stage_evict(stage, 0, tokens, N, TIER_RAM);
  for (int i = 0; i < 4; i++) {
    depot_match(stage->depot, 0, tokens, N, false, &match[i]);
    assert_int_equal(depot_fetch(stage->depot, &match[i], stage_fetched, &is_done[i]), STATUS_OK);
  }
  assert_true(stage_stats(stage).tier[TIER_RAM].used_bytes <= 3 * depot_segment_bytes(stage->depot, 128));
  for (int i = 0; i < 4; i++) {
    stage_wait(stage, &is_done[i]);
    for (uint32_t u = 0; u < match[i].n; u++) assert_non_null(depot_view(stage->depot, match[i].uses[u].segment));
    depot_release(stage->depot, &match[i]);
  }
  uint64_t bytes = 2 * (ENVELOPE_SIZE + envelope_padded(128 * 256)) + ENVELOPE_SIZE + envelope_padded(44 * 256);
  assert_int_equal(stage_stats(stage).tier[TIER_SSD].read_bytes, bytes);
}

static void a_fetch_takes_only_the_room_there_is(void **state) {
  struct stage *stage = *state;
  int32_t tokens[N], other[128];
  struct index_match match;
  stage_tokens(31, tokens, N);
  assert_int_equal(stage_save(stage, 0, tokens, N), STATUS_OK);
  stage_demote(stage, 0, tokens, N);
  stage->config.ram_bytes = 3 * depot_segment_bytes(stage->depot, 128) - 1;
  stage_reopen(stage);
  enum status status;
  stage_tokens(32, other, 128);
  (void)stage_save_range(stage, 0, other, 0, 128, 128, &status);
  assert_int_equal(status, STATUS_OK);
  depot_match(stage->depot, 0, tokens, N, false, &match);
  assert_int_equal(match.tokens, N - 1);
  assert_true(depot_fetch_bytes(stage->depot, &match) > depot_room(stage->depot));
  depot_release(stage->depot, &match);
  assert_int_equal(stage_restore(stage, 0, tokens, N, false), 128);
  assert_true(stage_stats(stage).tier[TIER_RAM].used_bytes <= stage->config.ram_bytes);
  assert_int_equal(stage_stats(stage).rejected, 0);
  /* No room at all: told so, all the same. */
  stage_evict(stage, 0, tokens, 128, TIER_RAM);
  stage_tokens(33, other, 128);
  (void)stage_save_range(stage, 0, other, 0, 128, 128, &status);
  assert_int_equal(status, STATUS_OK);
  assert_int_equal(stage_restore(stage, 0, tokens, N, false), 0);
  assert_int_equal(match_tokens(stage, 0, tokens, N, false), N - 1);
}

static void what_is_in_memory_is_told_after_the_call(void **state) {
  struct stage *stage = *state;
  int32_t tokens[N];
  stage_tokens(34, tokens, N);
  assert_int_equal(stage_save(stage, 0, tokens, N), STATUS_OK);
  assert_int_equal(stage_restore(stage, 0, tokens, N, false), N - 1); /* checks that done is not early */
}

static void a_released_match_does_not_stop_its_fetch(void **state) {
  struct stage *stage = *state;
  int32_t tokens[N];
  struct index_match match;
  bool is_done = false;
  uint64_t ids[8];
  stage_tokens(35, tokens, N);
  assert_int_equal(stage_save(stage, 0, tokens, N), STATUS_OK);
  stage_demote(stage, 0, tokens, N);
  stage_evict(stage, 0, tokens, N, TIER_RAM);
  depot_match(stage->depot, 0, tokens, N, false, &match);
  assert_int_equal(depot_fetch(stage->depot, &match, stage_fetched, &is_done), STATUS_OK);
  depot_release(stage->depot, &match);
  assert_int_equal(stage_chain(stage, 0, tokens, N, ids), 3);
  assert_int_equal(depot_evict(stage->depot, ids[2], TIER_SSD), STATUS_BUSY);
  stage_wait(stage, &is_done);
  assert_int_equal(stage_restore(stage, 0, tokens, N, false), N - 1);
}

/* Closing with work on its way: nothing is told, nothing leaks, nothing half-written stays, and it does not take long.
 */
static void closing_drops_what_is_queued(void **state) {
  struct stage *stage = *state;
  int32_t tokens[N], other[128];
  struct index_match match;
  bool is_done = false;
  unsigned n;
  for (int round = 0; round < 2; round++) {
    stage_tokens(36, tokens, N);
    assert_int_equal(stage_save(stage, 0, tokens, N), STATUS_OK);
    stage_demote(stage, 0, tokens, N);
    stage_evict(stage, 0, tokens, N, TIER_RAM);
    stage->loop.is_deaf = round == 1;
    for (uint64_t i = 0; i < 50; i++) {
      stage_tokens(4000 + i, other, 128);
      enum status status;
      uint64_t id = stage_save_range(stage, 0, other, 0, 128, 128, &status);
      assert_int_equal(depot_demote(stage->depot, id), STATUS_OK);
    }
    depot_match(stage->depot, 0, tokens, N, false, &match);
    assert_int_equal(depot_fetch(stage->depot, &match, stage_fetched, &is_done), STATUS_OK);
    stage_close(stage);
    stage->loop.is_deaf = false;
    assert_false(is_done);
    (void)stage_folder_bytes(stage->states, ".tmp", &n);
    assert_int_equal(n, 0);
    (void)stage_folder_bytes(stage->states, ".fkv", &n);
    assert_true(n < 40);
    stage_open(stage);
    assert_int_equal(stage_stats(stage).removed, 0);
    assert_int_equal(stage_restore(stage, 0, tokens, N, false), N - 1);
  }
}

#define STAGE_TEST(test) cmocka_unit_test_setup_teardown(test, stage_setup, stage_teardown)

int main(void) {
  const struct CMUnitTest tests[] = {
      STAGE_TEST(states_come_back_from_everywhere),
      STAGE_TEST(a_long_state_serves_its_prefixes),
      STAGE_TEST(a_new_branch_saves_only_itself),
      STAGE_TEST(a_grown_chain_replaces_its_partial_leaf),
      STAGE_TEST(a_canonical_leaf_stays),
      STAGE_TEST(tenants_never_share),
      STAGE_TEST(a_tenant_that_is_gone_leaves_no_files),
      STAGE_TEST(another_model_adopts_nothing),
      STAGE_TEST(other_settings_serve_near_only),
      STAGE_TEST(a_name_given_twice_serves_neither_wrongly),
      STAGE_TEST(full_memory_is_said_and_freed_leaf_first),
      STAGE_TEST(what_is_larger_than_memory_is_refused),
      STAGE_TEST(a_segment_needs_its_parent),
      STAGE_TEST(a_reservation_that_is_given_up_leaves_nothing),
      STAGE_TEST(the_same_saved_twice_is_kept_once),
      STAGE_TEST(a_full_index_refuses_and_leaks_nothing),
      STAGE_TEST(writing_follows_the_rules),
      STAGE_TEST(a_days_budget_ends_writing_only),
      STAGE_TEST(without_a_disk_memory_serves),
      STAGE_TEST(the_end_writes_what_fits_in_time),
      STAGE_TEST(a_parent_stays_while_its_child_is_written),
      STAGE_TEST(a_child_does_not_stay_without_its_parent),
      STAGE_TEST(reads_do_not_stand_behind_writes),
      STAGE_TEST(a_broken_file_shortens_the_match),
      STAGE_TEST(a_missing_file_shortens_the_match),
      STAGE_TEST(what_is_behind_a_broken_file_goes_from_memory_too),
      STAGE_TEST(nothing_is_hung_behind_a_file_that_broke),
      STAGE_TEST(orphans_are_removed_at_the_start),
      STAGE_TEST(a_segment_is_read_once_for_all_who_wait),
      STAGE_TEST(a_fetch_takes_only_the_room_there_is),
      STAGE_TEST(what_is_in_memory_is_told_after_the_call),
      STAGE_TEST(a_released_match_does_not_stop_its_fetch),
      STAGE_TEST(closing_drops_what_is_queued),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
