/* Segments in memory: the cap with everything in it, read-only once visible, pins. */
#include "store/stage.h"

#include <signal.h>
#include <sys/wait.h>

#include "os/memory.h"

static const block_key no_key = {0, 0};

static struct tier_store *ram_new(uint64_t limit_bytes) {
  struct tier_store *store;
  assert_int_equal(ram_open(limit_bytes, &store), STATUS_OK);
  return store;
}

static block_key key_of(uint64_t number) {
  return map_key_of(number);
}

/* Stores an object of so many bytes, each the low byte of its number. */
static enum status object_put(struct tier_store *store, uint64_t number, uint64_t bytes) {
  struct tier_ticket *ticket;
  struct envelope envelope = {.payload_bytes = bytes};
  enum status status = store->ops->reserve(store, bytes, &ticket);
  if (status != STATUS_OK) return status;
  memset(store->ops->memory(ticket), (int)(number & 0xff), bytes);
  assert_int_equal(store->ops->write(store, ticket, &envelope, store->ops->memory(ticket)), STATUS_OK);
  return store->ops->commit(store, ticket, key_of(number));
}

static void what_is_stored_is_seen_without_a_copy(void **state) {
  (void)state;
  struct tier_store *store = ram_new(1 << 20);
  assert_int_equal(object_put(store, 1, 5000), STATUS_OK);
  const uint8_t *view = store->ops->pin(store, key_of(1));
  assert_non_null(view);
  for (int i = 0; i < 5000; i++) assert_int_equal(view[i], 1);
  for (int i = 5000; i < 8192; i++) assert_int_equal(view[i], 0);
  assert_ptr_equal(store->ops->pin(store, key_of(1)), view);
  assert_int_equal(store->ops->drop(store, key_of(1)), STATUS_BUSY);
  store->ops->unpin(store, key_of(1));
  assert_int_equal(store->ops->drop(store, key_of(1)), STATUS_BUSY);
  store->ops->unpin(store, key_of(1));
  assert_int_equal(store->ops->drop(store, key_of(1)), STATUS_OK);
  assert_int_equal(store->ops->drop(store, key_of(1)), STATUS_NOT_FOUND);
  assert_null(store->ops->pin(store, key_of(1)));
  store->ops->close(store);
}

/* Memory that was used before must not carry its old bytes into what is padded. */
static void used_memory_is_clean_behind_the_payload(void **state) {
  (void)state;
  struct tier_store *store = ram_new(1 << 20);
  assert_int_equal(object_put(store, 255, 8192), STATUS_OK);
  assert_int_equal(store->ops->drop(store, key_of(255)), STATUS_OK);
  assert_int_equal(object_put(store, 2, 5000), STATUS_OK);
  const uint8_t *view = store->ops->pin(store, key_of(2));
  for (int i = 5000; i < 8192; i++) assert_int_equal(view[i], 0);
  store->ops->unpin(store, key_of(2));
  store->ops->close(store);
}

static void visible_bytes_cannot_be_written(void **state) {
  (void)state;
  struct tier_store *store = ram_new(1 << 20);
  assert_int_equal(object_put(store, 1, 4096), STATUS_OK);
  union {
    const void *in;
    volatile uint8_t *out;
  } view = {.in = store->ops->pin(store, key_of(1))};
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    signal(SIGSEGV, SIG_DFL);
    view.out[0] = 9;
    _exit(0);
  }
  int how;
  assert_int_equal(waitpid(child, &how, 0), child);
  assert_true(WIFSIGNALED(how) && WTERMSIG(how) == SIGSEGV);
  store->ops->unpin(store, key_of(1));
  store->ops->close(store);
}

static void reservations_count(void **state) {
  (void)state;
  struct tier_store *store = ram_new(100000);
  struct tier_ticket *tickets[3];
  struct tier_usage usage;
  assert_int_equal(store->ops->reserve(store, 100000, &tickets[0]), STATUS_TOO_LONG);
  for (int i = 0; i < 2; i++) assert_int_equal(store->ops->reserve(store, 40000, &tickets[i]), STATUS_OK);
  assert_int_equal(store->ops->reserve(store, 40000, &tickets[2]), STATUS_FULL);
  store->ops->usage(store, &usage);
  assert_int_equal(usage.used_bytes, 2 * store->ops->cost(store, 40000));
  assert_int_equal(usage.reserved_bytes, usage.used_bytes);
  assert_true(usage.used_bytes > 80000 && usage.used_bytes <= usage.limit_bytes);
  store->ops->abort(store, tickets[0]);
  assert_int_equal(store->ops->reserve(store, 40000, &tickets[2]), STATUS_OK);
  store->ops->abort(store, tickets[1]);
  store->ops->abort(store, tickets[2]);
  store->ops->usage(store, &usage);
  assert_int_equal(usage.used_bytes, 0);
  assert_int_equal(usage.reserved_bytes, 0);
  store->ops->close(store);
}

static void a_key_is_stored_once(void **state) {
  (void)state;
  struct tier_store *store = ram_new(1 << 20);
  struct tier_usage usage;
  assert_int_equal(object_put(store, 1, 4096), STATUS_OK);
  assert_int_equal(object_put(store, 1, 4096), STATUS_BUSY);
  store->ops->usage(store, &usage);
  assert_int_equal(usage.objects, 1);
  assert_int_equal(usage.used_bytes, store->ops->cost(store, 4096));
  assert_true(store->ops->has(store, key_of(1)));
  assert_false(store->ops->has(store, no_key));
  store->ops->close(store);
}

/* Ten times the cap in objects of many sizes: what the process holds grows by the cap and a stated rest, no more. */
static void the_process_grows_by_the_cap_only(void **state) {
  (void)state;
  enum { LIMIT_BYTES = 64 << 20, REST_BYTES = 4 << 20 };
  struct tier_store *store = ram_new(LIMIT_BYTES);
  struct rng rng;
  rng_init(&rng, 11);
  uint64_t before = memory_resident_bytes(), oldest = 0, next = 0, volume = 0, most = 0;
  while (volume < 10ull * LIMIT_BYTES) {
    uint64_t bytes = 1 + rng_below(&rng, 3 << 20);
    enum status status = object_put(store, next, bytes);
    while (status == STATUS_FULL) {
      assert_int_equal(store->ops->drop(store, key_of(oldest++)), STATUS_OK);
      status = object_put(store, next, bytes);
    }
    assert_int_equal(status, STATUS_OK);
    struct tier_usage usage;
    store->ops->usage(store, &usage);
    assert_true(usage.used_bytes <= LIMIT_BYTES);
    uint64_t resident = memory_resident_bytes();
    if (resident > most) most = resident;
    volume += bytes;
    next++;
  }
#ifndef FORELAY_SANITIZED /* shadow memory grows too */
  if (most > before + LIMIT_BYTES + REST_BYTES)
    fail_msg("resident memory grew by %llu KiB under a cap of %u KiB", (unsigned long long)(most - before) >> 10,
             LIMIT_BYTES >> 10);
#endif
  assert_true(most >= before + LIMIT_BYTES / 2);
  store->ops->close(store);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_is_stored_is_seen_without_a_copy),
      cmocka_unit_test(used_memory_is_clean_behind_the_payload),
      cmocka_unit_test(visible_bytes_cannot_be_written),
      cmocka_unit_test(reservations_count),
      cmocka_unit_test(a_key_is_stored_once),
      cmocka_unit_test(the_process_grows_by_the_cap_only),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
