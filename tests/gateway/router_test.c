/* Routes: every row, unknown paths, wrong methods, numbers that are none. */
#include "gateway/router.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "gateway/backend.h"

static void finds_every_route(void **state) {
  (void)state;
  static const struct {
    const char *method, *path;
    enum route_target target;
    enum route_right right;
    int detail;
  } rows[] = {
      {"POST", "/v1/chat/completions", ROUTE_CHAT, RIGHT_TENANT, 0},
      {"POST", "/v1/completions", ROUTE_COMPLETION, RIGHT_TENANT, 0},
      {"GET", "/v1/models", ROUTE_MODELS, RIGHT_TENANT, 0},
      {"GET", "/v1/models/owner/name", ROUTE_MODEL, RIGHT_TENANT, 0},
      {"POST", "/v1/embeddings", ROUTE_ABSENT, RIGHT_TENANT, 0},
      {"POST", "/v1/responses", ROUTE_ABSENT, RIGHT_TENANT, 0},
      {"POST", "/v1/messages", ROUTE_ABSENT, RIGHT_TENANT, 0},
      {"POST", "/tokenize", ROUTE_TOKENIZE, RIGHT_TENANT, 0},
      {"POST", "/detokenize", ROUTE_DETOKENIZE, RIGHT_TENANT, 0},
      {"POST", "/apply-template", ROUTE_APPLY_TEMPLATE, RIGHT_TENANT, 0},
      {"GET", "/props", ROUTE_PROPS, RIGHT_TENANT, 0},
      {"GET", "/health", ROUTE_HEALTH, RIGHT_OPEN, 0},
      {"HEAD", "/health", ROUTE_HEALTH, RIGHT_OPEN, 0},
      {"GET", "/metrics", ROUTE_METRICS, RIGHT_OPERATOR, 0},
      {"GET", "/", ROUTE_ABSENT, RIGHT_OPERATOR, 0},
      {"GET", "/forelay/v1/status", ROUTE_QUESTION, RIGHT_TENANT, QUESTION_STATUS},
      {"GET", "/forelay/v1/prefixes", ROUTE_QUESTION, RIGHT_TENANT, QUESTION_PREFIXES},
      {"GET", "/forelay/v1/tasks", ROUTE_QUESTION, RIGHT_TENANT, QUESTION_TASKS},
      {"GET", "/forelay/v1/tasks/17", ROUTE_QUESTION, RIGHT_TENANT, QUESTION_TASK},
      {"DELETE", "/forelay/v1/tasks/17", ROUTE_DELETE_TASK, RIGHT_TENANT, 0},
      {"GET", "/forelay/v1/states", ROUTE_QUESTION, RIGHT_TENANT, QUESTION_STATES},
      {"DELETE", "/forelay/v1/states/17", ROUTE_DELETE_STATE, RIGHT_TENANT, 0},
      {"GET", "/forelay/v1/ledger", ROUTE_QUESTION, RIGHT_TENANT, QUESTION_LEDGER},
      {"GET", "/forelay/v1/budget", ROUTE_QUESTION, RIGHT_TENANT, QUESTION_BUDGET},
      {"PUT", "/forelay/v1/budget", ROUTE_PUT_BUDGET, RIGHT_OPERATOR, 0},
      {"POST", "/forelay/v1/prepare", ROUTE_WISH, RIGHT_TENANT, WISH_PREPARE},
      {"POST", "/forelay/v1/documents", ROUTE_WISH, RIGHT_TENANT, WISH_DOCUMENT},
      {"POST", "/forelay/v1/announce", ROUTE_WISH, RIGHT_TENANT, WISH_ANNOUNCE},
      {"POST", "/forelay/v1/pin", ROUTE_WISH, RIGHT_TENANT, WISH_PIN},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct route_match match;
    route_find(route_method_of_name(rows[i].method), rows[i].path, &match);
    if (match.route == NULL) fail_msg("%s %s: not found", rows[i].method, rows[i].path);
    assert_int_equal(match.route->target, rows[i].target);
    assert_int_equal(match.route->right, rows[i].right);
    assert_int_equal(match.route->detail, rows[i].detail);
    assert_string_equal(route_label(route_number(match.route)), match.route->path);
  }
}

static void reads_names_and_numbers(void **state) {
  (void)state;
  struct route_match match;
  route_find(METHOD_GET, "/v1/models/owner/name", &match);
  assert_string_equal(match.name, "owner/name");
  route_find(METHOD_DELETE, "/forelay/v1/states/9223372036854775807", &match);
  assert_true(match.number == 9223372036854775807u);
  static const char *const wrong[] = {"/forelay/v1/tasks/",
                                      "/forelay/v1/tasks/x",
                                      "/forelay/v1/tasks/-1",
                                      "/forelay/v1/tasks/01",
                                      "/forelay/v1/tasks/1/",
                                      "/forelay/v1/tasks/1 ",
                                      "/forelay/v1/tasks/99999999999999999999"};
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    route_find(METHOD_GET, wrong[i], &match);
    assert_null(match.route);
    assert_int_equal(match.methods, 0);
  }
}

static void tells_unknown_paths_from_wrong_methods(void **state) {
  (void)state;
  struct route_match match;
  char allowed[64];
  static const char *const unknown[] = {"",        "/v1", "/v1/chat/completions/", "/V1/models", "//", "/forelay/v1/",
                                        "/healthz"};
  for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++) {
    route_find(METHOD_GET, unknown[i], &match);
    assert_null(match.route);
    assert_int_equal(match.methods, 0);
    assert_string_equal(route_label(route_number(match.route)), "other");
  }
  route_find(METHOD_GET, "/v1/chat/completions", &match);
  assert_null(match.route);
  route_methods_print(match.methods, false, allowed, sizeof allowed);
  assert_string_equal(allowed, "POST");
  route_find(route_method_of_name("PATCH"), "/forelay/v1/tasks/3", &match);
  assert_null(match.route);
  route_methods_print(match.methods, true, allowed, sizeof allowed);
  assert_string_equal(allowed, "GET, DELETE, OPTIONS");
  route_find(METHOD_POST, "/forelay/v1/budget", &match);
  route_methods_print(match.methods, false, allowed, sizeof allowed);
  assert_string_equal(allowed, "GET, PUT");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(finds_every_route),
      cmocka_unit_test(reads_names_and_numbers),
      cmocka_unit_test(tells_unknown_paths_from_wrong_methods),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
