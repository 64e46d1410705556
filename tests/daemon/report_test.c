/* PUT budget's body: only names it knows, only numbers in range, all or nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "daemon/report.h"

static enum status parse(const char *body, struct budget *budget, struct error *error) {
  error->text[0] = '\0';
  return report_parse_budget(body, strlen(body), budget, error);
}

static void what_is_named_changes_and_nothing_else(void **state) {
  (void)state;
  struct budget budget = {.ram_bytes = 7, .ssd_bytes = 9, .idle_fraction_max = 1};
  struct error error;
  assert_int_equal(parse("{\"ram_bytes\": 1048576, \"idle_fraction_max\": 0.25}", &budget, &error), STATUS_OK);
  assert_int_equal(budget.ram_bytes, 1048576);
  assert_int_equal(budget.ssd_bytes, 9);
  assert_true(budget.idle_fraction_max > 0.24 && budget.idle_fraction_max < 0.26);
  assert_int_equal(parse("{}", &budget, &error), STATUS_OK);
}

static void what_is_wrong_is_named_and_nothing_changes(void **state) {
  (void)state;
  static const struct {
    const char *body, *words;
  } cases[] = {
      {"{\"ram_bytes\": 1, \"rum_bytes\": 2}", "rum_bytes"},
      {"{\"ram_bytes\": 1, \"idle_fraction_max\": 1.5}", "idle_fraction_max"},
      {"{\"ram_bytes\": -1}", "ram_bytes"},
      {"{\"ram_bytes\": \"1GiB\"}", "ram_bytes"},
      {"{\"ram_bytes\": 1, \"ram_bytes\": 2}", "JSON"},
      {"{\"ram_bytes\": 1e400}", "JSON"},
      {"[1]", "object"},
      {"", "JSON"},
      {"{\"ram_bytes\": 1", "JSON"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct budget budget = {.ram_bytes = 7};
    struct error error;
    assert_int_equal(parse(cases[i].body, &budget, &error), STATUS_INVALID);
    if (strstr(error.text, cases[i].words) == NULL) fail_msg("'%s' does not name %s", error.text, cases[i].words);
    assert_int_equal(budget.ram_bytes, 7);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_is_named_changes_and_nothing_else),
      cmocka_unit_test(what_is_wrong_is_named_and_nothing_changes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
