/* Lines of the log as they appear on standard error; clocks, memory and signals beside it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "os/clock.h"
#include "os/log.h"
#include "os/memory.h"
#include "os/signal.h"

static char said[1 << 18];
static int kept_stderr = -1;
static FILE *caught;

static void catch_begin(void) {
  caught = tmpfile();
  assert_non_null(caught);
  fflush(stderr);
  kept_stderr = dup(STDERR_FILENO);
  assert_true(dup2(fileno(caught), STDERR_FILENO) >= 0);
}

static void catch_end(void) {
  fflush(stderr);
  assert_true(dup2(kept_stderr, STDERR_FILENO) >= 0);
  close(kept_stderr);
  rewind(caught);
  said[fread(said, 1, sizeof said - 1, caught)] = '\0';
  fclose(caught);
}

static size_t count_lines(const char *text) {
  size_t n = 0;
  for (; *text != '\0'; text++) n += *text == '\n';
  return n;
}

static void test_lines(void **state) {
  (void)state;
  catch_begin();
  log_line(LOG_INFO, "listening address=%s port=%d", "127.0.0.1", 8080);
  log_line(LOG_DEBUG, "not shown");
  log_line(LOG_ERROR, "two\nlines\r\nand\tmore");
  log_set_level(LOG_ERROR);
  log_line(LOG_WARNING, "not shown");
  log_set_level(LOG_DEBUG);
  log_line(LOG_DEBUG, "shown");
  log_set_level(LOG_INFO);
  catch_end();
  int year, used = 0;
  assert_int_equal(
      sscanf(said, "%d-%*2d-%*2dT%*2d:%*2d:%*2d.%*3dZ info listening address=127.0.0.1 port=8080%n", &year, &used), 1);
  assert_true(year >= 2026 && used > 0 && said[used] == '\n');
  assert_int_equal(count_lines(said), 3);
  assert_non_null(strstr(said, "Z error two lines  and more\n"));
  assert_non_null(strstr(said, "Z debug shown\n"));
  assert_null(strstr(said, "not shown"));
}

static void test_long_line(void **state) {
  (void)state;
  char text[5000];
  memset(text, 'a', sizeof text - 1);
  text[sizeof text - 1] = '\0';
  catch_begin();
  log_line(LOG_INFO, "%s", text);
  catch_end();
  assert_int_equal(count_lines(said), 1);
  assert_true(strlen(said) < 1200);
}

static void test_once(void **state) {
  (void)state;
  catch_begin();
  for (int i = 0; i < 3; i++) log_once(LOG_WARNING, "disk-full", "disk full i=%d", i);
  for (int i = 0; i < 3; i++) log_once(LOG_INFO, "disk-slow", "disk slow");
  catch_end();
  assert_int_equal(count_lines(said), 2);
  assert_non_null(strstr(said, "disk full i=0"));
}

/* More keys than are remembered: those are said each time. */
static void test_many_keys(void **state) {
  (void)state;
  enum { KEYS = 200, REMEMBERED_MAX = 64 };
  static char keys[KEYS][8];
  catch_begin();
  for (int round = 0; round < 2; round++) {
    for (int i = 0; i < KEYS; i++) {
      snprintf(keys[i], sizeof keys[i], "key-%d", i);
      log_once(LOG_WARNING, keys[i], "said");
    }
  }
  catch_end();
  assert_true(count_lines(said) >= 2 * KEYS - REMEMBERED_MAX && count_lines(said) < 2 * KEYS);
}

static void test_levels(void **state) {
  (void)state;
  enum log_level level = LOG_DEBUG;
  assert_true(log_level_of_name("error", &level));
  assert_int_equal(level, LOG_ERROR);
  assert_true(log_level_of_name("debug", &level));
  assert_int_equal(level, LOG_DEBUG);
  assert_false(log_level_of_name("loud", &level));
  assert_int_equal(level, LOG_DEBUG);
}

enum { TALKERS = 4, LINES_EACH = 200 };

static void *talk(void *ctx) {
  for (int i = 0; i < LINES_EACH; i++) log_line(LOG_INFO, "talker=%d line=%d end", (int)(intptr_t)ctx, i);
  return NULL;
}

static void test_threads(void **state) {
  (void)state;
  pthread_t threads[TALKERS];
  catch_begin();
  for (int i = 0; i < TALKERS; i++) assert_int_equal(pthread_create(&threads[i], NULL, talk, (void *)(intptr_t)i), 0);
  for (int i = 0; i < TALKERS; i++) pthread_join(threads[i], NULL);
  catch_end();
  assert_int_equal(count_lines(said), TALKERS * LINES_EACH);
  for (char *line = said, *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
    *end = '\0';
    assert_non_null(strstr(line, " info talker="));
    assert_string_equal(end - 4, " end");
  }
}

static void test_clocks(void **state) {
  (void)state;
  uint64_t last = clock_monotonic_us();
  for (int i = 0; i < 1000; i++) {
    uint64_t now = clock_monotonic_us();
    assert_true(now >= last);
    last = now;
  }
  assert_true(clock_unix_us() > 1760000000000000); /* microseconds: later than 2025 */
  assert_true(clock_unix_us() < 10000000000000000);
}

static void test_memory(void **state) {
  (void)state;
  enum { SOME = 64 << 20 };
  uint64_t total = memory_total_bytes(), before = memory_resident_bytes();
  assert_true(total > SOME && total <= (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE));
  assert_true(before > 0 && before < total);
  char *block = malloc(SOME);
  assert_non_null(block);
  memset(block, 1, SOME);
  assert_true(memory_resident_bytes() >= before + SOME / 2);
  free(block);
  assert_true(memory_cores() >= 1 && memory_cores() <= (uint32_t)sysconf(_SC_NPROCESSORS_CONF));
}

static void test_signals(void **state) {
  (void)state;
  int fd, ends[2];
  struct error error;
  assert_int_equal(signal_open(&fd, &error), STATUS_OK);
  assert_int_equal(signal_next(fd), 0);
  assert_int_equal(kill(getpid(), SIGTERM), 0);
  assert_int_equal(signal_next(fd), SIGTERM);
  assert_int_equal(signal_next(fd), 0);
  assert_int_equal(kill(getpid(), SIGINT), 0);
  assert_int_equal(signal_next(fd), SIGINT);
  assert_int_equal(pipe(ends), 0);
  close(ends[0]);
  assert_int_equal(write(ends[1], "x", 1), -1); /* would kill us */
  close(ends[1]);
  signal_close(fd);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_lines),     cmocka_unit_test(test_long_line), cmocka_unit_test(test_once),
      cmocka_unit_test(test_many_keys), cmocka_unit_test(test_levels),    cmocka_unit_test(test_threads),
      cmocka_unit_test(test_clocks),    cmocka_unit_test(test_memory),    cmocka_unit_test(test_signals),
  };
  return cmocka_run_group_tests_name("log", tests, NULL, NULL);
}
