/* Chains that lie in two tiers, are taken over at the start, cannot be read just now, or are in the folder under two
 * names: what is whole is told and serves, and nothing stays that cannot be reached. */
#include "store/stage.h"

#include <sys/resource.h>

enum { N = 300 };

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

static void count_one(void *ctx, const struct index_entry *entry) {
  (void)entry;
  ++*(unsigned *)ctx;
}

static unsigned count_segments(const struct stage *stage) {
  unsigned count = 0;
  depot_each(stage->depot, UINT32_MAX, count_one, &count);
  return count;
}

/* The parent is on disk only, its child in memory only: the parent stays until the child has gone. */
static void a_parent_on_disk_stays_for_a_child_in_memory(void **state) {
  struct stage *stage = *state;
  int32_t tokens[N];
  uint64_t ids[8];
  stage_tokens(1, tokens, N);
  assert_int_equal(stage_save(stage, 0, tokens, SEGMENT_TOKENS), STATUS_OK);
  stage_demote(stage, 0, tokens, SEGMENT_TOKENS);
  stage_evict(stage, 0, tokens, SEGMENT_TOKENS, TIER_RAM);
  enum status status;
  uint64_t child = stage_save_range(stage, 0, tokens, SEGMENT_TOKENS, N - 50, N, &status);
  assert_int_equal(status, STATUS_OK);
  assert_int_equal(stage_chain(stage, 0, tokens, N, ids), 2);
  assert_int_equal(ids[1], child);
  assert_int_equal(depot_evict(stage->depot, ids[0], TIER_SSD), STATUS_BUSY);
  assert_int_equal(stage_restore(stage, 0, tokens, N, false), N - 50);
  /* The restore has brought the parent into memory; so it may leave the disk, and only that. */
  assert_int_equal(depot_evict(stage->depot, ids[0], TIER_SSD), STATUS_OK);
  assert_int_equal(depot_evict(stage->depot, ids[0], TIER_RAM), STATUS_BUSY);
  assert_int_equal(depot_evict(stage->depot, child, TIER_RAM), STATUS_OK);
  assert_int_equal(depot_evict(stage->depot, ids[0], TIER_RAM), STATUS_OK);
  assert_int_equal(count_segments(stage), 0);
}

static bool take_all(void *ctx, const struct envelope *envelope) {
  (void)ctx;
  (void)envelope;
  return true;
}

/* Writes one more file for tokens[n], whole and ours, under another key. */
static void write_second_name(struct stage *stage, const int32_t *tokens, uint32_t n) {
  const struct ssd_config config = {
      .folder = stage->states, .limit_bytes = stage->config.ssd_bytes, .writes_bytes_per_day = 1 << 30};
  struct envelope envelope = {.fingerprint = stage->config.fingerprint,
                              .key = {0, 0x5ec04d},
                              .parent_key = stage_key(0, tokens, 0),
                              .to = n,
                              .exact_tokens = n,
                              .payload_bytes = n * stage->config.bytes_per_token};
  struct ssd_removed removed;
  struct tier_store *store;
  struct tier_ticket *ticket;
  void *bytes = NULL;
  uint64_t padded = envelope_padded(envelope.payload_bytes);
  memcpy(envelope.salt, stage->salts[0], sizeof envelope.salt);
  memcpy(envelope.tokens, tokens, n * sizeof *tokens);
  assert_int_equal(posix_memalign(&bytes, ENVELOPE_SIZE, padded), 0);
  memset(bytes, 0, padded);
  (void)stage_bytes(bytes, false, 0, tokens, 0, n, stage->config.bytes_per_token);
  assert_int_equal(ssd_open(&config, take_all, NULL, &removed, &store), STATUS_OK);
  assert_int_equal(store->ops->reserve(store, envelope.payload_bytes, &ticket), STATUS_OK);
  assert_int_equal(store->ops->write(store, ticket, &envelope, bytes), STATUS_OK);
  assert_int_equal(store->ops->commit(store, ticket, envelope.key), STATUS_OK);
  store->ops->close(store);
  free(bytes);
}

/* Two whole files with the same tokens: one is taken over, the other goes and is counted. */
static void a_second_file_of_the_same_tokens_goes(void **state) {
  struct stage *stage = *state;
  int32_t tokens[100];
  unsigned n;
  stage_tokens(2, tokens, 100);
  assert_int_equal(stage_save(stage, 0, tokens, 100), STATUS_OK);
  stage_demote(stage, 0, tokens, 100);
  stage_close(stage);
  write_second_name(stage, tokens, 100);
  stage_open(stage);
  assert_int_equal(stage_stats(stage).adopted, 1);
  assert_int_equal(stage_stats(stage).removed_orphans, 1);
  (void)stage_folder_bytes(stage->states, ".fkv", &n);
  assert_int_equal(n, 1);
  assert_int_equal(stage_stats(stage).tier[TIER_SSD].segments, 1);
  assert_int_equal(stage_restore(stage, 0, tokens, 100, false), 99);
}

/* What the folder held is told once each when it is opened, parents first, as if it had just come. */
static void what_is_adopted_is_told(void **state) {
  struct stage *stage = *state;
  int32_t tokens[N], branch[N];
  stage_tokens(3, tokens, N);
  memcpy(branch, tokens, sizeof branch);
  branch[200]++;
  assert_int_equal(stage_save(stage, 0, tokens, N), STATUS_OK);
  assert_int_equal(stage_save(stage, 0, branch, N), STATUS_OK);
  stage_demote(stage, 0, tokens, N);
  stage_demote(stage, 0, branch, N);
  stage_reopen(stage);
  assert_int_equal(stage_stats(stage).adopted, 5);
  assert_true(stage_stats(stage).index_bytes > 5 * SEGMENT_TOKENS);
  assert_int_equal(stage->n_events, 5);
  for (size_t i = 0; i < stage->n_events; i++) {
    const struct depot_event *event = &stage->events[i];
    bool is_parent_told = event->parent == 0;
    for (size_t j = 0; j < i; j++) {
      is_parent_told = is_parent_told || stage->events[j].segment == event->parent;
      assert_true(stage->events[j].segment != event->segment);
    }
    assert_true(is_parent_told && event->is_present);
    assert_int_equal(event->tier, TIER_SSD);
    assert_true(event->bytes >= ENVELOPE_SIZE + (event->to - event->from) * stage->config.bytes_per_token);
    assert_int_equal(event->parent == 0, event->from == 0);
  }
}

struct fetched {
  uint64_t bytes;
  bool is_done;
};

static void note_fetched(void *ctx, uint64_t bytes, uint64_t us) {
  (void)us;
  *(struct fetched *)ctx = (struct fetched){bytes, true};
}

/* The bytes a fetch says it brought are those of the segments that were on disk only: transfers are reckoned by them.
 */
static void a_fetch_says_what_it_brought(void **state) {
  struct stage *stage = *state;
  int32_t tokens[N];
  uint64_t ids[8];
  stage_tokens(5, tokens, N);
  assert_int_equal(stage_save(stage, 0, tokens, N), STATUS_OK);
  stage_demote(stage, 0, tokens, N);
  assert_int_equal(stage_chain(stage, 0, tokens, N, ids), 3);
  for (uint32_t n_absent = 0; n_absent <= 3; n_absent++) {
    struct index_match match;
    struct fetched fetched = {0};
    for (uint32_t i = 0; i < n_absent; i++)
      assert_int_equal(depot_evict(stage->depot, ids[2 - i], TIER_RAM), STATUS_OK);
    uint32_t kept_tokens = (3 - n_absent) * SEGMENT_TOKENS;
    depot_match(stage->depot, 0, tokens, N, false, &match);
    assert_int_equal(depot_fetch(stage->depot, &match, note_fetched, &fetched), STATUS_OK);
    stage_wait(stage, &fetched.is_done);
    uint64_t expected = n_absent > 0 ? (N - kept_tokens) * stage->config.bytes_per_token : 0;
    assert_int_equal(fetched.bytes, expected);
    depot_release(stage->depot, &match);
  }
}

/* The program has no descriptor left: that says nothing about the file, which is read once there is one. */
static void a_file_that_cannot_be_opened_now_stays(void **state) {
  struct stage *stage = *state;
  int32_t tokens[N];
  struct rlimit kept, none;
  stage_tokens(4, tokens, N);
  assert_int_equal(stage_save(stage, 0, tokens, N), STATUS_OK);
  stage_demote(stage, 0, tokens, N);
  stage_evict(stage, 0, tokens, N, TIER_RAM);
  assert_int_equal(getrlimit(RLIMIT_NOFILE, &kept), 0);
  none = (struct rlimit){.rlim_cur = 0, .rlim_max = kept.rlim_max};
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
  uint32_t usable = stage_restore(stage, 0, tokens, N, false);
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &kept), 0);
  assert_int_equal(usable, 0);
  assert_int_equal(stage_stats(stage).rejected, 0);
  assert_false(stage_stats(stage).tier[TIER_SSD].is_degraded);
  assert_int_equal(stage_restore(stage, 0, tokens, N, false), N - 1);
}

#define STAGE_TEST(test) cmocka_unit_test_setup_teardown(test, stage_setup, stage_teardown)

int main(void) {
  const struct CMUnitTest tests[] = {
      STAGE_TEST(a_parent_on_disk_stays_for_a_child_in_memory),
      STAGE_TEST(what_is_adopted_is_told),
      STAGE_TEST(a_fetch_says_what_it_brought),
      STAGE_TEST(a_file_that_cannot_be_opened_now_stays),
      STAGE_TEST(a_second_file_of_the_same_tokens_goes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
