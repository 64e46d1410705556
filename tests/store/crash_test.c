/* Fifty times killed in the middle of writing: after each, what is there is whole, nothing is left over, caps hold. */
#include "store/stage.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

enum { CRASHES = 50, CHAIN_TOKENS = 300, CHAINS = 20 };

static void chain_tokens(uint64_t number, int32_t tokens[CHAIN_TOKENS]) {
  stage_tokens(number % CHAINS, tokens, CHAIN_TOKENS);
}

/* Writes chains to disk and takes them off again, for ever; never returns. Asserts nothing: a failure is its exit
 * status. */
static void write_for_ever(struct stage *stage, uint64_t seed, int ready) {
  struct error error;
  struct rng rng;
  rng_init(&rng, seed);
  if (depot_open(&stage->config, &stage->depot, &error) != STATUS_OK) _exit(2);
  for (bool is_told = false;; is_told = true) {
    int32_t tokens[CHAIN_TOKENS];
    uint64_t ids[8];
    uint64_t number = rng_below(&rng, CHAINS);
    chain_tokens(number, tokens);
    (void)stage_save(stage, number % 2, tokens, CHAIN_TOKENS);
    uint32_t n = stage_chain(stage, number % 2, tokens, CHAIN_TOKENS, ids);
    uint32_t n_coming = 0;
    for (uint32_t i = 0; i < n; i++) {
      enum status status = depot_demote(stage->depot, ids[i]);
      n_coming += status == STATUS_OK && !stage_is_in(stage, ids[i], TIER_SSD);
      if (status != STATUS_OK && status != STATUS_FULL && status != STATUS_BUSY && status != STATUS_NOT_FOUND) _exit(3);
    }
    for (; n_coming > 0 && rng_below(&rng, 4) > 0; n_coming--) (void)stage_loop_step(&stage->loop, time(NULL) + 60);
    enum tier tier = rng_below(&rng, 2) == 0 ? TIER_RAM : TIER_SSD;
    for (uint32_t i = n; i > 0; i--) (void)!depot_evict(stage->depot, ids[i - 1], tier);
    if (!is_told && write(ready, "x", 1) != 1) _exit(4);
  }
}

static void kill_while_writing(struct stage *stage, uint64_t seed, struct rng *rng) {
  int ready[2], how;
  char byte;
  assert_int_equal(pipe(ready), 0);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) write_for_ever(stage, seed, ready[1]);
  close(ready[1]);
  assert_int_equal(read(ready[0], &byte, 1), 1);
  close(ready[0]);
  (void)poll(NULL, 0, (int)rng_below(rng, 60)); /* the moment of the crash, not a wait for anything */
  assert_int_equal(kill(child, SIGKILL), 0);
  assert_int_equal(waitpid(child, &how, 0), child);
  if (!WIFSIGNALED(how)) fail_msg("seed %llu: the writer ended by itself with %d", (unsigned long long)seed, how);
}

static void killed_while_writing(void **state) {
  (void)state;
  struct stage *stage = stage_create();
  struct rng rng;
  uint64_t adopted = 0, temporary = 0;
  stage->config.bytes_per_token = 4096;
  stage->config.ram_bytes = 64 << 20;
  stage->config.ssd_bytes = 16 << 20;
  rng_init(&rng, 50);
  for (uint64_t seed = 1; seed <= CRASHES; seed++) {
    struct depot_stats stats;
    unsigned n, n_temporary;
    uint32_t usable = 0;
    kill_while_writing(stage, seed, &rng);
    assert_true(stage_folder_bytes(stage->states, ".tmp", &n) <= stage->config.ssd_bytes);
    stage_open(stage);
    depot_stats(stage->depot, &stats);
    assert_true(stage_folder_bytes(stage->states, ".fkv", &n) <= stage->config.ssd_bytes);
    (void)stage_folder_bytes(stage->states, ".tmp", &n_temporary);
    /* writes.fkw.tmp is the record's own successor, replaced by the next. */
    assert_int_equal(stats.adopted, n);
    assert_true(n_temporary <= 1);
    assert_int_equal(stats.removed_broken, 0);
    assert_int_equal(stats.removed_incompatible, 0);
    for (uint64_t number = 0; number < CHAINS; number++) {
      int32_t tokens[CHAIN_TOKENS];
      chain_tokens(number, tokens);
      uint32_t tokens_usable = stage_restore(stage, number % 2, tokens, CHAIN_TOKENS, true);
      usable += (tokens_usable + 127) / 128;
      assert_int_equal(stage_restore(stage, 1 - number % 2, tokens, CHAIN_TOKENS, true), 0);
      if (tokens_usable > 0) stage_evict(stage, number % 2, tokens, CHAIN_TOKENS, TIER_RAM);
    }
    assert_int_equal(usable, n); /* every file that stayed serves */
    depot_stats(stage->depot, &stats);
    assert_int_equal(stats.rejected, 0);
    adopted += stats.adopted;
    temporary += stats.removed_temporary;
    stage_close(stage);
  }
  print_message("%d crashes: %llu files adopted, %llu half-written ones removed\n", CRASHES,
                (unsigned long long)adopted, (unsigned long long)temporary);
  assert_true(adopted > 0 && temporary > 0);
  stage_destroy(stage);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(killed_while_writing)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
