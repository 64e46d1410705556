/* Retention: leaf first, pins, tiers, policies, and random lives of many segments against plain definitions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "base/rng.h"
#include "place/retention.h"

static struct retention *retention_new(enum retention_policy policy) {
  struct retention_settings settings;
  retention_settings_init(&settings);
  settings.policy = policy;
  settings.capacity_bytes[TIER_RAM] = 1000;
  settings.capacity_bytes[TIER_SSD] = 4000;
  settings.segments_max = 64;
  struct retention *retention;
  assert_int_equal(retention_create(&settings, NULL, &retention), STATUS_OK);
  return retention;
}

/* A segment of two blocks, 100 bytes. */
static enum status tell(struct retention *retention, uint64_t segment, uint64_t parent, enum tier tier, uint64_t at_us,
                        uint32_t traffic) {
  block_key keys[2] = {map_key_of(2 * segment), map_key_of(2 * segment + 1)};
  struct segment_event event = {.at_us = at_us,
                                .segment = segment,
                                .parent = parent,
                                .tier = tier,
                                .is_present = true,
                                .to = 2 * BLOCK_TOKENS,
                                .bytes = 100,
                                .n_blocks = 2,
                                .keys = keys};
  return retention_stored(retention, &event, traffic);
}

static void put(struct retention *retention, uint64_t segment, uint64_t parent, enum tier tier, uint64_t at_us) {
  assert_int_equal(tell(retention, segment, parent, tier, at_us, 0), STATUS_OK);
}

static uint32_t victims_of(struct retention *retention, enum tier tier, uint64_t bytes, uint64_t now_us,
                           uint64_t *victims) {
  struct retention_need need = {.tier = tier, .bytes = bytes, .cause = RETENTION_FOR_REQUEST};
  uint32_t n;
  uint64_t freed;
  retention_choose_victims(retention, &need, now_us, victims, 16, &n, &freed);
  assert_int_equal(freed, 100 * n);
  return n;
}

/* 1 ─ 2 ─ 3
 *      └─ 4     5 alone */
static void plant(struct retention *retention) {
  put(retention, 1, 0, TIER_RAM, 1);
  put(retention, 2, 1, TIER_RAM, 2);
  put(retention, 3, 2, TIER_RAM, 3);
  put(retention, 4, 2, TIER_RAM, 4);
  put(retention, 5, 0, TIER_RAM, 5);
}

static void leaves_go_first_and_least_recent_among_them(void **state) {
  (void)state;
  struct retention *retention = retention_new(RETENTION_LRU);
  plant(retention);
  retention_touch(retention, 3, 10);
  uint64_t victims[16];
  assert_int_equal(victims_of(retention, TIER_RAM, 500, 20, victims), 5);
  const uint64_t expected[] = {4, 5, 3, 2, 1};
  assert_memory_equal(victims, expected, sizeof expected);
  /* Naming changes nothing. */
  assert_int_equal(retention_tier_bytes(retention, TIER_RAM), 500);
  assert_int_equal(victims_of(retention, TIER_RAM, 101, 20, victims), 2);
  assert_int_equal(victims[0], 4);
  assert_int_equal(victims_of(retention, TIER_RAM, 100000, 20, victims), 5);
  assert_int_equal(victims_of(retention, TIER_SSD, 1, 20, victims), 0);
  retention_destroy(&retention);
}

static void pins_hold_what_they_pin(void **state) {
  (void)state;
  struct retention *retention = retention_new(RETENTION_LRU);
  plant(retention);
  uint64_t victims[16];
  assert_int_equal(retention_pin(retention, 3), STATUS_OK);
  assert_int_equal(retention_pin(retention, 3), STATUS_OK);
  assert_int_equal(victims_of(retention, TIER_RAM, 1000, 20, victims), 2); /* 4 and 5; 2 and 1 carry 3 */
  retention_unpin(retention, 3);
  assert_int_equal(victims_of(retention, TIER_RAM, 1000, 20, victims), 2);
  retention_unpin(retention, 3);
  assert_int_equal(victims_of(retention, TIER_RAM, 1000, 20, victims), 5);
  assert_int_equal(retention_pin(retention, 77), STATUS_NOT_FOUND);
  /* Orders: a quarter of 1,000 bytes is two segments. */
  struct error error;
  assert_int_equal(retention_pin_order(retention, 4, TIER_RAM, &error), STATUS_OK);
  assert_int_equal(retention_pin_order(retention, 4, TIER_RAM, &error), STATUS_OK);
  assert_int_equal(retention_pin_order(retention, 5, TIER_RAM, &error), STATUS_OK);
  assert_int_equal(retention_pinned_bytes(retention, TIER_RAM), 200);
  assert_int_equal(retention_pin_order(retention, 3, TIER_RAM, &error), STATUS_FULL);
  assert_non_null(strstr(error.text, "200 of 250 bytes"));
  assert_int_equal(retention_pin_order(retention, 3, TIER_SSD, &error), STATUS_NOT_FOUND);
  assert_int_equal(victims_of(retention, TIER_RAM, 1000, 20, victims), 1);
  assert_int_equal(victims[0], 3);
  retention_unpin_order(retention, 5, TIER_RAM);
  assert_int_equal(retention_pinned_bytes(retention, TIER_RAM), 100);
  assert_int_equal(retention_gone(retention, 4, TIER_RAM), STATUS_OK);
  assert_int_equal(retention_pinned_bytes(retention, TIER_RAM), 0);
  retention_destroy(&retention);
}

static void slower_copy_stays_while_a_faster_child_stands_on_it(void **state) {
  (void)state;
  struct retention *retention = retention_new(RETENTION_LRU);
  uint64_t victims[16];
  put(retention, 1, 0, TIER_SSD, 1);
  put(retention, 2, 1, TIER_RAM, 2);
  assert_int_equal(victims_of(retention, TIER_SSD, 1, 9, victims), 0);
  put(retention, 1, 0, TIER_RAM, 3);
  assert_int_equal(victims_of(retention, TIER_SSD, 1, 9, victims), 1);
  assert_int_equal(victims_of(retention, TIER_RAM, 1000, 9, victims), 2);
  assert_int_equal(victims[0], 2);
  retention_destroy(&retention);
}

static void parents_may_be_told_late_and_records_end(void **state) {
  (void)state;
  struct retention *retention = retention_new(RETENTION_VALUE);
  put(retention, 3, 2, TIER_RAM, 1);
  put(retention, 2, 1, TIER_RAM, 2);
  put(retention, 1, 0, TIER_RAM, 3);
  uint64_t victims[16];
  assert_int_equal(victims_of(retention, TIER_RAM, 1000, 9, victims), 3);
  assert_int_equal(victims[0], 3);
  assert_int_equal(retention_count(retention), 3);
  /* Out of order, and twice. */
  assert_int_equal(retention_gone(retention, 1, TIER_RAM), STATUS_OK);
  assert_int_equal(retention_gone(retention, 1, TIER_RAM), STATUS_OK);
  assert_int_equal(retention_count(retention), 3);
  assert_int_equal(retention_gone(retention, 2, TIER_RAM), STATUS_OK);
  assert_int_equal(retention_gone(retention, 3, TIER_RAM), STATUS_OK);
  assert_int_equal(retention_count(retention), 0);
  assert_int_equal(retention_tier_bytes(retention, TIER_RAM), 0);
  retention_destroy(&retention);
}

static void wrong_events_change_nothing(void **state) {
  (void)state;
  struct retention *retention = retention_new(RETENTION_VALUE);
  assert_int_equal(tell(retention, 0, 0, TIER_RAM, 1, 0), STATUS_INVALID);
  assert_int_equal(tell(retention, 1, 1, TIER_RAM, 1, 0), STATUS_INVALID);
  assert_int_equal(tell(retention, 1, 0, TIER_NONE, 1, 0), STATUS_INVALID);
  assert_int_equal(tell(retention, 1, 0, TIER_COUNT, 1, 0), STATUS_INVALID);
  assert_int_equal(tell(retention, 1, 0, TIER_RAM, 1, RETENTION_CLASSES), STATUS_INVALID);
  put(retention, 1, 2, TIER_RAM, 1);
  assert_int_equal(tell(retention, 2, 1, TIER_RAM, 1, 0), STATUS_INVALID); /* a circle */
  assert_int_equal(retention_count(retention), 2);
  for (uint64_t segment = 3; segment <= 64; segment++) put(retention, segment, 0, TIER_RAM, segment);
  assert_int_equal(tell(retention, 65, 0, TIER_RAM, 1, 0), STATUS_FULL);
  assert_int_equal(tell(retention, 64, 0, TIER_RAM, 1, 0), STATUS_OK);
  assert_int_equal(retention_arrival(retention, 0, NULL, 0), STATUS_INVALID);
  retention_destroy(&retention);
  struct retention_settings settings;
  struct error error;
  retention_settings_init(&settings);
  settings.epsilon = 2;
  assert_int_equal(retention_create(&settings, &error, &retention), STATUS_INVALID);
  assert_non_null(strstr(error.text, "epsilon"));
}

static void least_valued_leaf_goes_where_the_shadow_allows(void **state) {
  (void)state;
  struct retention *retention = retention_new(RETENTION_VALUE); /* shadow: 20 blocks, from the first segment */
  plant(retention);
  uint64_t victims[16];
  assert_int_equal(retention_guard_of(retention, TIER_RAM).shadow_capacity_blocks, 20);
  assert_int_equal(retention_set_value(retention, 3, 5), STATUS_OK);
  assert_int_equal(retention_set_value(retention, 4, 9), STATUS_OK);
  assert_int_equal(retention_set_value(retention, 5, 2), STATUS_OK);
  assert_int_equal(victims_of(retention, TIER_RAM, 1, 9, victims), 1);
  assert_int_equal(victims[0], 5);
  /* Now the shadow holds 5 too: it must not go before what the shadow does not hold. */
  block_key keys[2] = {map_key_of(10), map_key_of(11)};
  assert_int_equal(retention_arrival(retention, 1, keys, 2), STATUS_OK);
  retention_settle(retention, 1);
  assert_int_equal(victims_of(retention, TIER_RAM, 1, 9, victims), 1);
  /* ε · 2 and two hits that the shadow did not have are two of slack: 5 may still go, and then nothing more of it. */
  assert_int_equal(victims[0], 5);
  assert_int_equal(retention_arrival(retention, 2, keys, 2), STATUS_OK);
  assert_int_equal(retention_gone(retention, 5, TIER_RAM), STATUS_OK);
  struct retention_guard guard = retention_guard_of(retention, TIER_RAM);
  assert_int_equal(guard.absent_blocks, 2);
  retention_settle(retention, 2);
  put(retention, 5, 0, TIER_RAM, 9);
  assert_int_equal(retention_guard_of(retention, TIER_RAM).absent_blocks, 0);
  retention_destroy(&retention);
}

static void without_slack_what_the_shadow_holds_stays(void **state) {
  (void)state;
  struct retention *retention = retention_new(RETENTION_VALUE);
  block_key keys[2] = {map_key_of(10), map_key_of(11)};
  put(retention, 4, 0, TIER_RAM, 1); /* sizes the shadow */
  assert_int_equal(retention_arrival(retention, 1, keys, 2), STATUS_OK);
  put(retention, 5, 0, TIER_RAM, 2); /* computed because it was missed */
  retention_settle(retention, 1);
  assert_int_equal(retention_set_value(retention, 4, 9), STATUS_OK);
  assert_int_equal(retention_set_value(retention, 5, 2), STATUS_OK);
  uint64_t victims[16];
  assert_int_equal(victims_of(retention, TIER_RAM, 1, 3, victims), 1);
  assert_int_equal(victims[0], 4);
  assert_int_equal(retention_guard_of(retention, TIER_RAM).by_guard, 1);
  /* Speculation takes only what the guard allows and what is worth less than itself. */
  struct retention_need need = {
      .tier = TIER_RAM, .bytes = 1000, .cause = RETENTION_FOR_PREPARATION, .value_usd_per_byte = 9};
  uint32_t n;
  uint64_t bytes;
  retention_choose_victims(retention, &need, 3, victims, 16, &n, &bytes);
  assert_int_equal(n, 0);
  need.value_usd_per_byte = 9.5;
  retention_choose_victims(retention, &need, 3, victims, 16, &n, &bytes);
  assert_int_equal(n, 1);
  assert_int_equal(victims[0], 4);
  /* A request that must have room gets it. */
  assert_int_equal(victims_of(retention, TIER_RAM, 200, 3, victims), 2);
  assert_int_equal(retention_guard_of(retention, TIER_RAM).by_recency, 1);
  retention_destroy(&retention);
}

static void baselines_follow_their_own_rank(void **state) {
  (void)state;
  struct retention *retention = retention_new(RETENTION_FREQUENCY);
  uint64_t victims[16];
  for (uint64_t segment = 1; segment <= 3; segment++) put(retention, segment, 0, TIER_RAM, segment);
  retention_touch(retention, 1, 10);
  retention_touch(retention, 1, 11);
  retention_touch(retention, 3, 12);
  retention_touch(retention, 2, 13);
  assert_int_equal(victims_of(retention, TIER_RAM, 300, 20, victims), 3);
  const uint64_t by_asks[] = {3, 2, 1};
  assert_memory_equal(victims, by_asks, sizeof by_asks);
  retention_destroy(&retention);
  /* Class 1 comes back within seconds, class 0 never. */
  retention = retention_new(RETENTION_WORKLOAD);
  for (uint64_t segment = 1; segment <= 20; segment++) {
    assert_int_equal(tell(retention, segment, 0, TIER_RAM, segment * 1000000, (uint32_t)(segment % 2)), STATUS_OK);
    if (segment % 2) retention_touch(retention, segment, segment * 1000000 + 5000000);
  }
  assert_int_equal(victims_of(retention, TIER_RAM, 100, 26000000, victims), 1);
  assert_int_equal(victims[0] % 2, 0);
  assert_int_equal(retention_policy_of_name("workload"), RETENTION_WORKLOAD);
  assert_int_equal(retention_policy_of_name("none such"), RETENTION_POLICY_COUNT);
  retention_destroy(&retention);
}

/* Many segments of several blocks in three tiers, random events: what is named may always leave, and the books agree
 * with a plain table. */
enum { LIVES = 60 };

struct life {
  bool is_present[TIER_COUNT];
  uint64_t parent;
  uint64_t bytes;
  uint32_t pins;
};

static bool life_may_leave(const struct life *lives, uint64_t segment, int tier, const bool *is_leaving) {
  if (!lives[segment].is_present[tier] || lives[segment].pins) return false;
  bool has_other = false, has_faster_child = false;
  for (int other = TIER_DEVICE; other < TIER_COUNT; other++) {
    if (other != tier) has_other = has_other || lives[segment].is_present[other];
  }
  for (uint64_t child = 1; child < LIVES; child++) {
    if (lives[child].parent != segment) continue;
    if (lives[child].is_present[tier] && !is_leaving[child]) return false;
    for (int faster = TIER_DEVICE; faster < tier; faster++) {
      has_faster_child = has_faster_child || lives[child].is_present[faster];
    }
  }
  return has_other || !has_faster_child;
}

static void random_lives_keep_the_books(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= 60; seed++) {
    struct rng rng;
    rng_init(&rng, seed);
    struct retention_settings settings;
    retention_settings_init(&settings);
    settings.policy = (enum retention_policy)rng_below(&rng, RETENTION_POLICY_COUNT);
    for (int tier = TIER_DEVICE; tier < TIER_COUNT; tier++) settings.capacity_bytes[tier] = 2000;
    settings.block_bytes = seed % 2 ? 10 : 0;
    settings.segments_max = LIVES;
    settings.requests_max = 3;
    struct retention *retention;
    assert_int_equal(retention_create(&settings, NULL, &retention), STATUS_OK);
    struct life lives[LIVES] = {{{0}, 0, 0, 0}};
    for (uint64_t i = 1; i < LIVES; i++) lives[i].parent = rng_below(&rng, i);
    for (uint64_t step = 1; step <= 2000; step++) {
      uint64_t segment = 1 + rng_below(&rng, LIVES - 1), now_us = step * 100000;
      int tier = TIER_DEVICE + (int)rng_below(&rng, 3);
      uint32_t n_blocks = 1 + (uint32_t)(segment % 8);
      block_key keys[400];
      for (uint32_t i = 0; i < n_blocks; i++) keys[i] = map_key_of(segment * 10 + i);
      struct segment_event event = {.at_us = now_us,
                                    .segment = segment,
                                    .parent = lives[segment].parent,
                                    .tier = (enum tier)tier,
                                    .is_present = true,
                                    .to = n_blocks,
                                    .bytes = 10 * n_blocks,
                                    .n_blocks = n_blocks,
                                    .keys = keys};
      switch (rng_below(&rng, 8)) {
      case 0:
      case 1:
        assert_int_equal(retention_stored(retention, &event, (uint32_t)(segment % 3)), STATUS_OK);
        lives[segment].is_present[tier] = true;
        lives[segment].bytes = event.bytes;
        break;
      case 2:
        event.is_present = false;
        assert_int_equal(retention_stored(retention, &event, 0), STATUS_OK);
        lives[segment].is_present[tier] = false;
        break;
      case 3:
        retention_touch(retention, segment, now_us);
        break;
      case 4:
        if (retention_set_value(retention, segment, rng_uniform(&rng)) == STATUS_OK && lives[segment].pins < 3 &&
            retention_pin(retention, segment) == STATUS_OK) {
          lives[segment].pins++;
        }
        break;
      case 5:
        if (lives[segment].pins) {
          retention_unpin(retention, segment);
          lives[segment].pins--;
        }
        break;
      case 6: {
        uint32_t n = 0;
        uint64_t path[LIVES], length = 0;
        for (uint64_t at = segment; at; at = lives[at].parent) path[length++] = at;
        while (length-- > 0) {
          for (uint32_t i = 0; i < 1 + path[length] % 8 && n < 400; i++) keys[n++] = map_key_of(path[length] * 10 + i);
        }
        assert_int_equal(retention_arrival(retention, step, keys, n), STATUS_OK);
        if (step % 2) retention_settle(retention, step);
        break;
      }
      default: {
        struct retention_need need = {.tier = (enum tier)tier,
                                      .bytes = 1 + rng_below(&rng, 500),
                                      .cause = rng_below(&rng, 2) ? RETENTION_FOR_REQUEST : RETENTION_FOR_PREPARATION,
                                      .value_usd_per_byte = .5};
        uint64_t victims[LIVES], bytes, sum = 0;
        bool is_leaving[LIVES] = {false};
        uint32_t n;
        struct retention_guard before = retention_guard_of(retention, need.tier);
        retention_choose_victims(retention, &need, now_us, victims, LIVES, &n, &bytes);
        for (uint32_t i = 0; i < n; i++) {
          assert_true(sum < need.bytes);
          if (!life_may_leave(lives, victims[i], tier, is_leaving)) {
            fail_msg("seed %" PRIu64 " step %" PRIu64 ": segment %" PRIu64 " may not leave", seed, step, victims[i]);
          }
          is_leaving[victims[i]] = true;
          sum += lives[victims[i]].bytes;
        }
        assert_int_equal(sum, bytes);
        assert_int_equal(retention_guard_of(retention, need.tier).absent_blocks, before.absent_blocks);
        if (need.cause == RETENTION_FOR_REQUEST && bytes < need.bytes) {
          for (uint64_t other = 1; other < LIVES; other++) {
            assert_false(!is_leaving[other] && life_may_leave(lives, other, tier, is_leaving));
          }
        }
        for (uint32_t i = 0; i < n; i++) {
          assert_int_equal(retention_gone(retention, victims[i], need.tier), STATUS_OK);
          lives[victims[i]].is_present[tier] = false;
        }
      }
      }
      uint64_t bytes_in[TIER_COUNT] = {0};
      for (uint64_t i = 1; i < LIVES; i++) {
        for (int at = TIER_DEVICE; at < TIER_COUNT; at++) bytes_in[at] += lives[i].is_present[at] ? lives[i].bytes : 0;
      }
      for (int at = TIER_DEVICE; at < TIER_COUNT; at++) {
        assert_int_equal(retention_tier_bytes(retention, (enum tier)at), bytes_in[at]);
      }
    }
    for (uint64_t i = 1; i < LIVES; i++) {
      while (lives[i].pins-- > 0) retention_unpin(retention, i);
      for (int tier = TIER_DEVICE; tier < TIER_COUNT; tier++) {
        assert_int_equal(retention_gone(retention, i, (enum tier)tier), STATUS_OK);
      }
    }
    assert_int_equal(retention_count(retention), 0);
    retention_destroy(&retention);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(leaves_go_first_and_least_recent_among_them),
      cmocka_unit_test(pins_hold_what_they_pin),
      cmocka_unit_test(slower_copy_stays_while_a_faster_child_stands_on_it),
      cmocka_unit_test(parents_may_be_told_late_and_records_end),
      cmocka_unit_test(wrong_events_change_nothing),
      cmocka_unit_test(least_valued_leaf_goes_where_the_shadow_allows),
      cmocka_unit_test(without_slack_what_the_shadow_holds_stays),
      cmocka_unit_test(baselines_follow_their_own_rank),
      cmocka_unit_test(random_lives_keep_the_books),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
