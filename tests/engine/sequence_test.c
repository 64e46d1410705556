/* The table of device sequences: what may be reused, by whom, and what is given up first. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "engine/sequence.h"

enum { COUNT = 3, ROOM = 512 };

static const uint8_t mine[32] = {1}, theirs[32] = {2};
static int32_t prompt[ROOM];

static void open_table(struct sequences *table) {
  for (int32_t i = 0; i < ROOM; i++) {
    prompt[i] = i;
  }
  assert_int_equal(sequences_init(table, COUNT, ROOM, false), STATUS_OK);
}

static uint32_t match(const struct sequences *table, const uint8_t *salt, uint32_t n, bool is_exact, bool needs_whole,
                      uint32_t *ret_reusable) {
  const struct sequence_ask ask = {
      .salt = salt, .tokens = prompt, .n = n, .is_exact = is_exact, .has_output = true, .needs_whole = needs_whole};

  return sequences_match(table, &ask, ret_reusable);
}

static void test_what_may_be_reused(void **state) {
  (void)state;
  /* near: everything but the last token */
  assert_int_equal(sequence_reusable(500, 0, 300, false, true), 299);
  assert_int_equal(sequence_reusable(200, 0, 300, false, true), 200);
  assert_int_equal(sequence_reusable(300, 0, 300, false, false), 300);
  /* exact: canonical tokens, all but one or so few that 64 and the last one are left */
  assert_int_equal(sequence_reusable(299, 299, 300, true, true), 299);
  assert_int_equal(sequence_reusable(300, 298, 300, true, true), 235);
  assert_int_equal(sequence_reusable(235, 235, 300, true, true), 235);
  assert_int_equal(sequence_reusable(236, 236, 300, true, true), 235);
  assert_int_equal(sequence_reusable(100, 100, 300, true, true), 100);
  assert_int_equal(sequence_reusable(30, 30, 50, true, true), 0);
  assert_int_equal(sequence_reusable(220, 200, 220, true, false), 156);
  assert_int_equal(sequence_reusable(220, 220, 220, true, false), 220);
}

static void test_owners_and_ties(void **state) {
  struct sequences table;
  uint32_t reusable;

  (void)state;
  open_table(&table);
  assert_int_equal(match(&table, mine, 300, false, false, &reusable), SEQUENCE_NONE);
  sequence_assign(&table.items[0], 0, mine, prompt, 100, 100);
  sequence_assign(&table.items[1], 0, mine, prompt, 200, 100);
  sequence_assign(&table.items[2], 1, theirs, prompt, 300, 300);
  assert_int_equal(match(&table, mine, 300, false, false, &reusable), 1);
  assert_int_equal(reusable, 200);
  assert_int_equal(match(&table, theirs, 300, false, false, &reusable), 2);
  assert_int_equal(reusable, 299);
  /* canonical tokens are equally many: the one used last */
  table.items[0].used_us = 7;
  assert_int_equal(match(&table, mine, 300, true, false, &reusable), 0);
  assert_int_equal(reusable, 100);
  table.items[0].state = SEQUENCE_BUSY;
  assert_int_equal(match(&table, mine, 300, true, false, &reusable), 1);
  /* where no suffix can be dropped, the prompt must go on behind all of it */
  assert_int_equal(match(&table, mine, 150, false, true, &reusable), SEQUENCE_NONE);
  assert_int_equal(match(&table, mine, 201, false, true, &reusable), 1);
  sequences_release(&table);
}

static void test_victims(void **state) {
  struct sequences table;

  (void)state;
  open_table(&table);
  sequence_assign(&table.items[0], 0, mine, prompt, 200, 200);
  sequence_assign(&table.items[1], 0, mine, prompt, 150, 150);
  assert_int_equal(sequences_victim(&table), 2); /* empty */
  sequence_assign(&table.items[2], 0, mine, prompt, 100, 100);
  table.items[0].used_us = 3;
  table.items[1].used_us = 2;
  table.items[2].used_us = 4;
  assert_int_equal(sequences_victim(&table), 1); /* nothing is saved: the oldest */
  table.items[0].ram_tokens = 137;
  assert_int_equal(sequences_unsaved(&table, 0, 0), 63);
  assert_int_equal(sequences_victim(&table), 0); /* as good as saved */
  table.items[0].state = SEQUENCE_HELD;
  assert_int_equal(sequences_victim(&table), 1);
  table.items[1].state = table.items[2].state = SEQUENCE_BUSY;
  assert_int_equal(sequences_victim(&table), SEQUENCE_NONE);
  sequences_release(&table);
}

static void test_assigning_keeps_what_is_common(void **state) {
  struct sequences table;
  struct sequence *sequence;
  int32_t other[ROOM];

  (void)state;
  open_table(&table);
  sequence = &table.items[0];
  sequence_assign(sequence, 0, mine, prompt, 200, 200);
  sequence->ram_tokens = 180;
  sequence->task = 5;
  sequence->task_from = 100;
  sequence->task_to = 200;
  memcpy(other, prompt, sizeof(other));
  other[150] = -1;
  sequence_assign(sequence, 0, mine, other, 300, 300);
  assert_int_equal(sequence->ram_tokens, 150);
  assert_int_equal(sequence->task, 5);
  assert_int_equal(sequence->task_to, 150);
  sequence_cut(sequence, 90);
  assert_int_equal(sequence->task, 0);
  assert_int_equal(sequence->canonical_tokens, 90);
  assert_int_equal(sequence->ram_tokens, 90);
  sequence_assign(sequence, 1, theirs, prompt, 90, 50);
  assert_int_equal(sequence->ram_tokens, 0); /* another owner's */
  assert_int_equal(sequence_common(sequence, mine, prompt, 90), 0);
  sequences_release(&table);
}

static void test_near_reuse_saves_all(void **state) {
  struct sequences table;

  (void)state;
  open_table(&table);
  sequence_assign(&table.items[0], 0, mine, prompt, 200, 120);
  table.items[0].ram_tokens = 100;
  assert_int_equal(sequences_savable(&table, 0), 120);
  assert_int_equal(sequences_unsaved(&table, 0, 0), 20);
  table.saves_near = true;
  assert_int_equal(sequences_savable(&table, 0), 200);
  assert_int_equal(sequences_unsaved(&table, 0, 0), 100);
  assert_int_equal(sequences_unsaved(&table, 0, 150), 50);
  sequences_release(&table);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_what_may_be_reused),
      cmocka_unit_test(test_owners_and_ties),
      cmocka_unit_test(test_victims),
      cmocka_unit_test(test_near_reuse_saves_all),
      cmocka_unit_test(test_assigning_keeps_what_is_common),
  };

  return cmocka_run_group_tests(tests, NULL, NULL);
}
