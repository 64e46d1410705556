/* The history on a real file: rows come back after a restart, a broken file is refused, a full queue drops and counts.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "history/history.h"

static char folder[64];
static char path[96];

static int set_up(void **state) {
  (void)state;
  snprintf(folder, sizeof folder, "/tmp/history-test-XXXXXX");
  if (mkdtemp(folder) == NULL) return -1;
  snprintf(path, sizeof path, "%s/history.sqlite", folder);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  static const char *const names[] = {"history.sqlite", "history.sqlite-wal", "history.sqlite-shm"};
  for (size_t i = 0; i < 3; i++) {
    char name[128];
    snprintf(name, sizeof name, "%s/%s", folder, names[i]);
    unlink(name);
  }
  return rmdir(folder);
}

static struct history *open_history(size_t queue_max) {
  struct history *history = NULL;
  struct error error = {{0}};
  const struct history_config config = {.path = path, .queue_max = queue_max};
  enum status status = history_open(&config, &history, &error);
  if (status != STATUS_OK) fail_msg("%s", error.text);
  return history;
}

struct rows {
  char text[8][32];
  size_t n;
};

static bool collect(void *ctx, const char *text) {
  struct rows *rows = ctx;
  snprintf(rows->text[rows->n++], sizeof rows->text[0], "%s", text);
  return rows->n < 8;
}

static void snapshot_survives_restart_and_is_replaced_whole(void **state) {
  (void)state;
  struct history *history = open_history(0);
  history_snapshot(history, (const char *const[]){"one", "two", "three"}, 3);
  history_snapshot(history, (const char *const[]){"four", "five"}, 2);
  history_close(&history);
  assert_null(history);
  history = open_history(0);
  struct rows rows = {0};
  assert_int_equal(history_rows(history, collect, &rows), STATUS_OK);
  assert_int_equal(rows.n, 2);
  assert_string_equal(rows.text[0], "four");
  assert_string_equal(rows.text[1], "five");
  history_close(&history);
}

static void rows_of_every_kind_are_written(void **state) {
  (void)state;
  struct history *history = open_history(0);
  const block_key keys[2] = {{1, 2}, {3, 4}};
  for (uint64_t i = 1; i <= 2500; i++) {
    history_ask(history, &(struct ask){.request = i, .at_us = i, .prompt_tokens = 40, .n_blocks = 2, .keys = keys});
    history_outcome(history, &(struct outcome){.request = i, .at_us = i, .computed_tokens = 40});
  }
  struct task task = {.id = 77, .state = TASK_READY, .kind = KIND_DOCUMENT, .tokens = 40};
  snprintf(task.reason, sizeof task.reason, "because");
  history_task(history, &task);
  history_close(&history);
  history = open_history(0);
  assert_int_equal(history_task_max(history), 77);
  struct history_stats stats;
  history_stats(history, &stats);
  assert_int_equal(stats.written, 0); /* counts since open */
  history_close(&history);
  struct stat file;
  assert_int_equal(stat(path, &file), 0);
  assert_int_equal(file.st_mode & 0777, 0600);
  assert_true(file.st_size > 2500 * 40);
}

static void a_full_queue_drops_and_counts(void **state) {
  (void)state;
  struct history *history = open_history(16);
  for (uint64_t i = 1; i <= 5000; i++) history_outcome(history, &(struct outcome){.request = i, .at_us = i});
  struct history_stats stats;
  do history_stats(history, &stats);
  while (stats.written + stats.dropped < 5000);
  assert_true(stats.dropped > 0);
  assert_true(stats.written > 0);
  assert_false(stats.is_degraded);
  history_close(&history);
}

static void a_file_that_is_not_ours_is_refused_and_kept(void **state) {
  (void)state;
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  for (int i = 0; i < 1000; i++) fputs("not a database\n", file);
  fclose(file);
  struct history *history = NULL;
  struct error error = {{0}};
  const struct history_config config = {.path = path};
  assert_int_equal(history_open(&config, &history, &error), STATUS_CORRUPT);
  assert_null(history);
  assert_non_null(strstr(error.text, path));
  struct stat status;
  assert_int_equal(stat(path, &status), 0);
  assert_int_equal(status.st_size, 15000);
}

static void an_unwritable_place_is_one_clear_error(void **state) {
  (void)state;
  struct history *history = NULL;
  struct error error = {{0}};
  const struct history_config config = {.path = "/nonexistent-folder/history.sqlite"};
  assert_int_equal(history_open(&config, &history, &error), STATUS_IO);
  assert_non_null(strstr(error.text, "/nonexistent-folder/history.sqlite"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(snapshot_survives_restart_and_is_replaced_whole, set_up, tear_down),
      cmocka_unit_test_setup_teardown(rows_of_every_kind_are_written, set_up, tear_down),
      cmocka_unit_test_setup_teardown(a_full_queue_drops_and_counts, set_up, tear_down),
      cmocka_unit_test_setup_teardown(a_file_that_is_not_ours_is_refused_and_kept, set_up, tear_down),
      cmocka_unit_test(an_unwritable_place_is_one_clear_error),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
