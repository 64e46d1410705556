/* The option table: values, refusals and the three descriptions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/option.h"

struct settings {
  bool is_on;
  uint32_t slots, mode;
  uint64_t ram_bytes, timeout_us;
  double holdout;
  char *model;
};

static const char *const modes[] = {"near", "exact", "off", NULL};
static const struct option options[] = {
    {"prepare", OPTION_FLAG, "on|off", "on", 0, 0, NULL, offsetof(struct settings, is_on), "prepare at all", NULL},
    {"slots", OPTION_COUNT, "N", "4", 1, 64, NULL, offsetof(struct settings, slots), "requests at once", NULL},
    {"reuse", OPTION_CHOICE, "MODE", "near", 0, 0, modes, offsetof(struct settings, mode), "what may be reused", NULL},
    {"ram", OPTION_SIZE, "SIZE", "1GiB", 0, 0, NULL, offsetof(struct settings, ram_bytes), "memory", "an eighth"},
    {"timeout", OPTION_DURATION, "TIME", "30s", 1, 3600, NULL, offsetof(struct settings, timeout_us), "patience", NULL},
    {"holdout", OPTION_NUMBER, "P", ".05", 0, 1, NULL, offsetof(struct settings, holdout), "share held \"out\"", NULL},
    {"model", OPTION_TEXT, "FILE", NULL, 0, 0, NULL, offsetof(struct settings, model), "weights", NULL},
};
enum { N = sizeof options / sizeof *options };

static void test_defaults(void **state) {
  (void)state;
  struct settings settings = {0};
  struct error error = {0};
  assert_int_equal(option_set_defaults(options, N, &settings, &error), STATUS_OK);
  assert_true(settings.is_on);
  assert_int_equal(settings.slots, 4);
  assert_int_equal(settings.mode, 0);
  assert_int_equal(settings.ram_bytes, 1 << 30);
  assert_int_equal(settings.timeout_us, 30000000);
  assert_true(settings.holdout == 0.05);
  assert_null(settings.model);
  option_release(options, N, &settings);
}

static void test_values(void **state) {
  (void)state;
  struct settings settings = {0};
  const struct {
    const char *name, *text;
    bool is_good;
  } values[] = {
      {"prepare", "OFF", true},  {"prepare", "yes", true},       {"prepare", "maybe", false},
      {"prepare", "", false},    {"slots", "64", true},          {"slots", "65", false},
      {"slots", "0", false},     {"slots", "-1", false},         {"slots", "4.5", false},
      {"slots", "4 ", false},    {"slots", "4294967297", false}, {"reuse", "exact", true},
      {"reuse", "Exact", false}, {"reuse", "", false},           {"ram", "1.5GiB", true},
      {"ram", "1.5 GiB", false}, {"ram", "1GB", false},          {"ram", "1gib", false},
      {"ram", "-1", false},      {"ram", "9e9", false},          {"ram", "99999999TiB", false},
      {"timeout", "2min", true}, {"timeout", "500ms", false},    {"timeout", "2h", false},
      {"timeout", "1", true},    {"holdout", "1", true},         {"holdout", "1.01", false},
      {"holdout", "nan", false}, {"holdout", "inf", false},      {"holdout", "-0.1", false},
      {"holdout", "0x1", false}, {"holdout", "1e-3", false},     {"model", "", true},
      {"model", "a b", true},
  };
  struct error error;
  assert_int_equal(option_set_defaults(options, N, &settings, &error), STATUS_OK);
  for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
    const struct option *option = option_find(options, N, values[i].name);
    assert_non_null(option);
    error.text[0] = '\0';
    enum status status = option_set(option, &settings, values[i].text, &error);
    if ((status == STATUS_OK) != values[i].is_good)
      fail_msg("--%s %s: %s %s", values[i].name, values[i].text, status_name(status), error.text);
    if (!values[i].is_good) {
      assert_int_equal(status, STATUS_INVALID);
      assert_non_null(strstr(error.text, values[i].name));
    }
  }
  assert_true(settings.is_on);
  assert_int_equal(settings.slots, 64);
  assert_int_equal(settings.mode, 1);
  assert_int_equal(settings.ram_bytes, 3u << 29);
  assert_int_equal(settings.timeout_us, 1000000);
  assert_true(settings.holdout == 1);
  assert_string_equal(settings.model, "a b");
  assert_null(option_find(options, N, "nothing"));
  option_release(options, N, &settings);
  assert_null(settings.model);
}

/* What is allowed stands in the refusal. */
static void test_refusals(void **state) {
  (void)state;
  struct settings settings = {0};
  struct error error;
  assert_int_equal(option_set(&options[1], &settings, "many", &error), STATUS_INVALID);
  assert_string_equal(error.text, "--slots: 'many' is not a whole number from 1 to 64");
  assert_int_equal(option_set(&options[2], &settings, "far", &error), STATUS_INVALID);
  assert_string_equal(error.text, "--reuse: 'far' is none of: near, exact, off");
  assert_int_equal(option_set(&options[3], &settings, "1GB", &error), STATUS_INVALID);
  assert_string_equal(error.text, "--ram: '1GB' is not a size such as 512MiB or 4GiB");
  assert_int_equal(option_set(&options[0], &settings, "x", NULL), STATUS_INVALID);
}

static void test_units(void **state) {
  (void)state;
  const struct {
    const char *text;
    uint64_t bytes;
  } sizes[] = {{"0", 0}, {"1B", 1}, {"4096", 4096}, {"64KiB", 65536}, {".5MiB", 524288}, {"2TiB", 2199023255552}};
  const struct {
    const char *text;
    uint64_t us;
  } durations[] = {{"0", 0},          {"1us", 1},          {"1.5ms", 1500},      {".25", 250000},
                   {"90s", 90000000}, {"2min", 120000000}, {"1.5h", 5400000000}, {"1d", 86400000000}};
  uint64_t number;
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    assert_int_equal(option_parse_size(sizes[i].text, &number), STATUS_OK);
    assert_int_equal(number, sizes[i].bytes);
  }
  for (size_t i = 0; i < sizeof durations / sizeof *durations; i++) {
    assert_int_equal(option_parse_duration(durations[i].text, &number), STATUS_OK);
    assert_int_equal(number, durations[i].us);
  }
  const char *const bad[] = {"", ".", "-", "K", "1KB", "1..2", "1.2.3KiB", "1s2", "1m", " 1", "1\n"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    number = 5;
    assert_int_equal(option_parse_size(bad[i], &number), STATUS_INVALID);
    assert_int_equal(option_parse_duration(bad[i], &number), STATUS_INVALID);
    assert_int_equal(number, 5);
  }
}

static void test_descriptions(void **state) {
  (void)state;
  struct buffer text, yaml, json;
  buffer_init(&text, 0);
  buffer_init(&yaml, 0);
  buffer_init(&json, 0);
  assert_int_equal(option_describe_text(&options[1], 1, &text), STATUS_OK);
  assert_string_equal((const char *)text.data, "  --slots N                    requests at once (4)\n");
  assert_int_equal(option_describe_yaml(&options[3], 1, &yaml), STATUS_OK);
  assert_string_equal((const char *)yaml.data, "# memory\n# ram: an eighth\n");
  assert_int_equal(option_describe_json(&options[5], 2, &json), STATUS_OK);
  assert_string_equal(
      (const char *)json.data,
      "[{\"name\":\"holdout\",\"type\":\"number\",\"argument\":\"P\",\"default\":\".05\",\"help\":\"share held "
      "\\\"out\\\"\",\"min\":0,\"max\":1},\n"
      "{\"name\":\"model\",\"type\":\"text\",\"argument\":\"FILE\",\"default\":\"none\",\"help\":\"weights\"}]\n");
  buffer_release(&text);
  buffer_release(&yaml);
  buffer_init(&text, 20);
  assert_int_equal(option_describe_text(options, N, &text), STATUS_TOO_LONG);
  buffer_release(&text);
  buffer_release(&json);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_defaults), cmocka_unit_test(test_values),       cmocka_unit_test(test_refusals),
      cmocka_unit_test(test_units),    cmocka_unit_test(test_descriptions),
  };
  return cmocka_run_group_tests_name("option", tests, NULL, NULL);
}
