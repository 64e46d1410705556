/* The machine of tasks, spelled out arrow by arrow, and the names that users see. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "domain/task.h"

/* Rows: from; columns: to, in the order of the enum. */
static const char *const arrows[TASK_STATE_COUNT] = {
    [TASK_PLANNED] = ".xxx...xxx",  [TASK_WAITING] = "..xx...xx.",   [TASK_RUNNING] = "...x...xx.",
    [TASK_READY] = "....xxxxx.",    [TASK_USED] = "..........",      [TASK_EXPIRED] = "..........",
    [TASK_EVICTED] = "..........",  [TASK_CANCELLED] = "..........", [TASK_FAILED] = "..........",
    [TASK_WITHHELD] = "..........",
};

static void test_arrows(void **state) {
  (void)state;
  for (int from = 0; from < TASK_STATE_COUNT; from++)
    for (int to = 0; to < TASK_STATE_COUNT; to++)
      assert_int_equal(task_state_may_follow((enum task_state)from, (enum task_state)to), arrows[from][to] == 'x');
  assert_false(task_state_may_follow(TASK_PLANNED, TASK_STATE_COUNT));
  assert_false(task_state_may_follow(TASK_STATE_COUNT, TASK_READY));
}

static void test_stamps(void **state) {
  (void)state;
  struct task task = {.id = 1};
  task_set_state(&task, TASK_WAITING, 10);
  task_set_state(&task, TASK_RUNNING, 20);
  assert_int_equal(task.ready_us, 0);
  task_set_state(&task, TASK_READY, 30);
  assert_int_equal(task.ready_us, 30);
  assert_int_equal(task.ended_us, 0);
  task_set_state(&task, TASK_USED, 40);
  assert_int_equal(task.state, TASK_USED);
  assert_int_equal(task.ready_us, 30);
  assert_int_equal(task.ended_us, 40);
}

static void test_names(void **state) {
  (void)state;
  const char *const states[] = {"planned", "waiting", "running",   "ready",  "used",
                                "expired", "evicted", "cancelled", "failed", "withheld"};
  for (int i = 0; i < TASK_STATE_COUNT; i++) assert_string_equal(task_state_name((enum task_state)i), states[i]);
  const char *const kinds[] = {"complete", "shared", "conversation", "document"};
  for (int i = 0; i < KIND_COUNT; i++) assert_string_equal(kind_name((enum kind)i), kinds[i]);
  assert_string_equal(kind_name(KIND_COUNT), "unknown");
  assert_string_equal(task_state_name(TASK_STATE_COUNT), "unknown");
}

static void test_tiers(void **state) {
  (void)state;
  const char *const tiers[] = {"none", "device", "ram", "ssd", "remote"};
  for (int i = 0; i < TIER_COUNT; i++) {
    assert_string_equal(tier_name((enum tier)i), tiers[i]);
    assert_int_equal(tier_of_name(tiers[i]), i);
  }
  assert_int_equal(tier_of_name("disk"), TIER_COUNT);
  assert_int_equal(tier_of_name(""), TIER_COUNT);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_arrows),
      cmocka_unit_test(test_stamps),
      cmocka_unit_test(test_names),
      cmocka_unit_test(test_tiers),
  };
  return cmocka_run_group_tests_name("task", tests, NULL, NULL);
}
