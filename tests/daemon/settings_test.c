/* Flags and the configuration file: the same names, flags win, what is wrong is named with its place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/settings.h"

static char path[64];

static void write_config(const char *text) {
  snprintf(path, sizeof path, "/tmp/settings-test-XXXXXX");
  int fd = mkstemp(path);
  assert_true(fd >= 0);
  assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
  close(fd);
}

static enum status load(struct settings *settings, struct error *error, int argc, const char **argv) {
  return settings_load(settings, argc, (char **)(uintptr_t)argv, error);
}

static void defaults_are_the_documented_ones(void **state) {
  (void)state;
  struct settings settings;
  struct error error = {{0}};
  assert_int_equal(load(&settings, &error, 0, NULL), STATUS_OK);
  assert_string_equal(settings.listen, "127.0.0.1:8080");
  assert_int_equal(settings.slots, 4);
  assert_int_equal(settings.ssd_bytes, (uint64_t)4 << 30);
  assert_int_equal(settings.ssd_writes_bytes, (uint64_t)40 << 30);
  assert_true(settings.ram_bytes > 0 && settings.ram_bytes <= (uint64_t)8 << 30);
  assert_true(settings.threads >= 1);
  assert_true(settings.prepare);
  assert_int_equal(settings.queue, 64);
  assert_true(settings.holdout > 0.049 && settings.holdout < 0.051);
  settings_release(&settings);
}

static void flags_win_over_the_file(void **state) {
  (void)state;
  struct settings settings;
  struct error error = {{0}};
  write_config("ram: 512MiB\nprepare: off\nslots: 2\npolicy: lru\n");
  const char *argv[] = {"--slots", "7", "--config", path, "--ssd=0"};
  assert_int_equal(load(&settings, &error, 5, argv), STATUS_OK);
  assert_int_equal(settings.ram_bytes, 512 << 20);
  assert_false(settings.prepare);
  assert_int_equal(settings.slots, 7);
  assert_int_equal(settings.policy, 1);
  assert_int_equal(settings.ssd_bytes, 0);
  assert_int_equal(settings.ssd_writes_bytes, 0);
  settings_release(&settings);
  unlink(path);
}

static void refuse_file(const char *text, const char *place) {
  struct settings settings;
  struct error error = {{0}};
  write_config(text);
  const char *argv[] = {"--config", path};
  assert_int_equal(load(&settings, &error, 2, argv), STATUS_INVALID);
  if (strstr(error.text, place) == NULL || strstr(error.text, path) == NULL)
    fail_msg("'%s' does not name %s", error.text, place);
  unlink(path);
}

static void a_wrong_file_is_named_with_line_and_column(void **state) {
  (void)state;
  refuse_file("ram: 1GiB\nrum: 2GiB\n", "line 2, column 1");
  refuse_file("slots: many\n", "line 1, column 1");
  refuse_file("slots: [1, 2]\n", "line 1, column 1");
  refuse_file("slots: 2\nslots: 3\n", "duplicate key");
  refuse_file("- slots\n", "option: value");
  refuse_file("slots: 'x\n", "");
}

static void refuse_flags(int argc, const char **argv, const char *words) {
  struct settings settings;
  struct error error = {{0}};
  assert_int_equal(load(&settings, &error, argc, argv), STATUS_INVALID);
  if (strstr(error.text, words) == NULL) fail_msg("'%s' does not say '%s'", error.text, words);
}

static void a_wrong_flag_is_named(void **state) {
  (void)state;
  refuse_flags(2, (const char *[]){"--rum", "1GiB"}, "--rum");
  refuse_flags(1, (const char *[]){"--ram"}, "--ram needs a value");
  refuse_flags(2, (const char *[]){"--ram", "lots"}, "--ram: 'lots'");
  refuse_flags(2, (const char *[]){"--holdout", "1.5"}, "from 0 to 0.5");
  refuse_flags(2, (const char *[]){"--slots", "0"}, "--slots");
  refuse_flags(2, (const char *[]){"--reuse", "fuzzy"}, "near, exact, off");
  refuse_flags(1, (const char *[]){"model.gguf"}, "'model.gguf'");
}

/* What the planner is told: which states may be reused decides what a reactive cache is credited with. */
static void the_plan_is_told(void **state) {
  (void)state;
  static const char *const modes[] = {"near", "exact", "off"};
  for (int i = 0; i < 3; i++) {
    struct settings settings;
    struct error error = {{0}};
    struct plan_config config = {.block_tokens = 16, .budget = {.device_bytes = 7}};
    const char *argv[] = {"--reuse", modes[i], "--policy", "lru",  "--prepare", "off",    "--holdout",       "0.2",
                          "--ram",   "3MiB",   "--ssd",    "2MiB", "--prices",  "hourly", "--idle-fraction", "0.5"};
    assert_int_equal(load(&settings, &error, 16, argv), STATUS_OK);
    settings_plan(&settings, &config);
    assert_int_equal(config.exact_reuse, i == 1);
    assert_int_equal(config.policy, POLICY_LRU);
    assert_false(config.prepare);
    assert_float_equal(config.holdout, .2, 1e-6);
    assert_int_equal(config.price.profile, PRICE_HOURLY);
    assert_int_equal(config.budget.ram_bytes, 3 << 20);
    assert_int_equal(config.budget.ssd_bytes, 2 << 20);
    assert_int_equal(config.budget.ssd_writes_bytes_per_day, 20 << 20);
    assert_float_equal(config.budget.idle_fraction_max, .5, 1e-6);
    assert_int_equal(config.budget.device_bytes, 7); /* not the settings' to say */
    assert_int_equal(config.block_tokens, 16);
    settings_release(&settings);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(defaults_are_the_documented_ones),
      cmocka_unit_test(flags_win_over_the_file),
      cmocka_unit_test(a_wrong_file_is_named_with_line_and_column),
      cmocka_unit_test(the_plan_is_told),
      cmocka_unit_test(a_wrong_flag_is_named),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
