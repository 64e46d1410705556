/* Text into JSON and members' own bytes out of it. */
#include "gateway/json_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

static void writes_strings(void **state) {
  (void)state;
  static const struct {
    const char *text, *json;
  } rows[] = {
      {"", "\"\""},
      {"plain", "\"plain\""},
      {"a\"b\\c\n\r\t", "\"a\\\"b\\\\c\\n\\r\\t\""},
      {"\x01\x1f\x7f", "\"\\u0001\\u001f\\u007f\""},
      {"gr\xc3\xbc\xc3\x9f \xf0\x9f\x99\x82", "\"gr\xc3\xbc\xc3\x9f \xf0\x9f\x99\x82\""},
      {"cut \xc3", "\"cut \xef\xbf\xbd\""},
      {"\xed\xa0\x80|", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd|\""},
      {"\xc0\xaf", "\"\xef\xbf\xbd\xef\xbf\xbd\""},
      {"\xf4\x90\x80\x80", "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct buffer into;
    buffer_init(&into, 0);
    assert_int_equal(json_text_append(&into, rows[i].text, strlen(rows[i].text)), STATUS_OK);
    assert_string_equal((const char *)into.data, rows[i].json);
    json_t *value = json_loads((const char *)into.data, JSON_DECODE_ANY, NULL);
    assert_non_null(value);
    json_decref(value);
    buffer_release(&into);
  }
}

static void cleans_text_in_place(void **state) {
  (void)state;
  char text[] = "a\nb\x7f \xc3\xbc \xc3";
  json_text_clean(text);
  assert_string_equal(text, "a b  \xc3\xbc ?");
}

static void counts_depth_outside_strings(void **state) {
  (void)state;
  static const struct {
    const char *json;
    size_t depth;
  } rows[] = {{"1", 0},       {"{}", 1},    {"[[{}],[]]", 3}, {"\"[[[[\"", 0}, {"[\"\\\"[[\",[]]", 2},
              {"[[[[[[[", 7}, {"]]]][", 1}, {"\"open [[", 0}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    assert_int_equal(json_text_depth(rows[i].json, strlen(rows[i].json), 100), rows[i].depth);
  }
  assert_int_equal(json_text_depth("[[[[[[[[", 8, 3), 4);
}

static void finds_members_as_they_were_written(void **state) {
  (void)state;
  static const struct {
    const char *json, *name, *value;
  } rows[] = {
      {"{\"a\":1}", "a", "1"},
      {" { \"a\" : 0.10 , \"b\":[1, 2] } ", "a", "0.10"},
      {" { \"a\" : 0.10 , \"b\":[1, 2] } ", "b", "[1, 2]"},
      {"{\"a\":{\"b\":1},\"b\":2}", "b", "2"},
      {"{\"a\":1,\"a\":\"x,}\"}", "a", "\"x,}\""},
      {"{\"a\":\"\\\"b\\\":7\",\"b\":null}", "b", "null"},
      {"{\"x\":[{\"a\":1}],\"a\":true}", "a", "true"},
      {"{\"ab\":1}", "a", NULL},
      {"{\"\\u0061\":1}", "a", NULL},
      {"[\"a\",1]", "a", NULL},
      {"{}", "a", NULL},
      {"", "a", NULL},
      {"{\"a\"", "a", NULL},
      {"{\"a\":", "a", ""},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    const char *value = NULL;
    size_t size = 0;
    bool is_found = json_text_member(rows[i].json, strlen(rows[i].json), rows[i].name, &value, &size);
    assert_int_equal(is_found, rows[i].value != NULL);
    if (!is_found) continue;
    assert_int_equal(size, strlen(rows[i].value));
    assert_memory_equal(value, rows[i].value, size);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(writes_strings),
      cmocka_unit_test(cleans_text_in_place),
      cmocka_unit_test(counts_depth_outside_strings),
      cmocka_unit_test(finds_members_as_they_were_written),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
