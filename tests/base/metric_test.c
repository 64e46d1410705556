/* Metrics as a scraper reads them: text, escapes, buckets that add up, series within their limit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/metric.h"

enum { TOKENS, DEPTH, WAIT };

static const double bounds[] = {0.1, 1, 10};
static const struct metric rows[] = {
    [TOKENS] = {"prompt_tokens_total", METRIC_COUNTER, "tokens, by\nsource \\", {"source", "tenant"}, NULL, 0},
    [DEPTH] = {"queue_depth", METRIC_GAUGE, "waiting now", {NULL}, NULL, 0},
    [WAIT] = {"wait_seconds", METRIC_HISTOGRAM, "time waited", {"lane"}, bounds, 3},
};

static const char *const ram[] = {"ram", "a"}, *const odd[] = {"q\"uo\\te\n", "b"}, *const fast[] = {"fast"};

static void test_text(void **state) {
  (void)state;
  struct metrics *metrics;
  struct buffer into;
  buffer_init(&into, 0);
  assert_int_equal(metrics_create(rows, 3, 10, &metrics), STATUS_OK);
  assert_int_equal(metrics_add(metrics, TOKENS, ram, 40), STATUS_OK);
  assert_int_equal(metrics_add(metrics, TOKENS, odd, 1), STATUS_OK);
  assert_int_equal(metrics_add(metrics, TOKENS, ram, 2), STATUS_OK);
  assert_int_equal(metrics_set(metrics, DEPTH, NULL, 3), STATUS_OK);
  assert_int_equal(metrics_add(metrics, DEPTH, NULL, -1.5), STATUS_OK);
  const double waits[] = {0.05, 0.1, 0.2, 10, 11, 1000};
  for (size_t i = 0; i < sizeof waits / sizeof *waits; i++)
    assert_int_equal(metrics_observe(metrics, WAIT, fast, waits[i]), STATUS_OK);
  assert_int_equal(metric_render(metrics, &into), STATUS_OK);
  assert_string_equal((const char *)into.data,
                      "# HELP forelay_prompt_tokens_total tokens, by\\nsource \\\\\n"
                      "# TYPE forelay_prompt_tokens_total counter\n"
                      "forelay_prompt_tokens_total{source=\"ram\",tenant=\"a\"} 42\n"
                      "forelay_prompt_tokens_total{source=\"q\\\"uo\\\\te\\n\",tenant=\"b\"} 1\n"
                      "# HELP forelay_queue_depth waiting now\n"
                      "# TYPE forelay_queue_depth gauge\n"
                      "forelay_queue_depth 1.5\n"
                      "# HELP forelay_wait_seconds time waited\n"
                      "# TYPE forelay_wait_seconds histogram\n"
                      "forelay_wait_seconds_bucket{lane=\"fast\",le=\"0.1\"} 2\n"
                      "forelay_wait_seconds_bucket{lane=\"fast\",le=\"1\"} 3\n"
                      "forelay_wait_seconds_bucket{lane=\"fast\",le=\"10\"} 4\n"
                      "forelay_wait_seconds_bucket{lane=\"fast\",le=\"+Inf\"} 6\n"
                      "forelay_wait_seconds_sum{lane=\"fast\"} 1021.35\n"
                      "forelay_wait_seconds_count{lane=\"fast\"} 6\n");
  metrics_destroy(&metrics);
  assert_null(metrics);
  metrics_destroy(&metrics);
  buffer_release(&into);
}

static void test_limits(void **state) {
  (void)state;
  struct metrics *metrics;
  char long_text[3000];
  memset(long_text, 'a', sizeof long_text - 1);
  long_text[sizeof long_text - 1] = '\0';
  const char *const long_label[] = {long_text, "a"};
  assert_int_equal(metrics_create(rows, 3, 2, &metrics), STATUS_OK);
  assert_int_equal(metrics_add(metrics, TOKENS, long_label, 1), STATUS_FULL);
  assert_int_equal(metrics_add(metrics, TOKENS, ram, 1), STATUS_OK);
  assert_int_equal(metrics_observe(metrics, WAIT, fast, 1), STATUS_OK);
  assert_int_equal(metrics_set(metrics, DEPTH, NULL, 1), STATUS_FULL);
  assert_int_equal(metrics_add(metrics, TOKENS, ram, 1), STATUS_OK);
  struct buffer into;
  buffer_init(&into, 60);
  assert_int_equal(buffer_append_text(&into, "before"), STATUS_OK);
  assert_int_equal(metric_render(metrics, &into), STATUS_TOO_LONG);
  assert_string_equal((const char *)into.data, "before");
  buffer_release(&into);
  metrics_destroy(&metrics);
}

static void test_odd_numbers(void **state) {
  (void)state;
  struct metrics *metrics;
  struct buffer into;
  volatile double zero = 0;
  double infinity = 1 / zero, nan = infinity - infinity;
  buffer_init(&into, 0);
  assert_int_equal(metrics_create(rows, 3, 10, &metrics), STATUS_OK);
  assert_int_equal(metrics_set(metrics, DEPTH, NULL, nan), STATUS_OK);
  assert_int_equal(metrics_observe(metrics, WAIT, fast, nan), STATUS_OK);
  assert_int_equal(metric_render(metrics, &into), STATUS_OK);
  assert_non_null(strstr((const char *)into.data, "forelay_queue_depth NaN\n"));
  assert_null(strstr((const char *)into.data, "wait_seconds_bucket"));
  buffer_clear(&into);
  assert_int_equal(metrics_set(metrics, DEPTH, NULL, -infinity), STATUS_OK);
  assert_int_equal(metrics_observe(metrics, WAIT, fast, infinity), STATUS_OK);
  assert_int_equal(metric_render(metrics, &into), STATUS_OK);
  assert_non_null(strstr((const char *)into.data, "forelay_queue_depth -Inf\n"));
  assert_non_null(strstr((const char *)into.data, "le=\"10\"} 0\n"));
  assert_non_null(strstr((const char *)into.data, "le=\"+Inf\"} 1\n"));
  assert_non_null(strstr((const char *)into.data, "_sum{lane=\"fast\"} +Inf\n"));
  buffer_clear(&into);
  assert_int_equal(metrics_set(metrics, DEPTH, NULL, 9007199254740992), STATUS_OK);
  assert_int_equal(metric_render(metrics, &into), STATUS_OK);
  assert_non_null(strstr((const char *)into.data, "forelay_queue_depth 9007199254740992\n"));
  buffer_release(&into);
  metrics_destroy(&metrics);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_text),
      cmocka_unit_test(test_limits),
      cmocka_unit_test(test_odd_numbers),
  };
  return cmocka_run_group_tests_name("metric", tests, NULL, NULL);
}
