// rooms: base
/* Values of options: any text is either refused, with a reason and without a change, or gives a value in range. */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "base/option.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct settings {
  bool flag;
  uint32_t count, choice;
  uint64_t bytes, duration_us;
  double number;
  char *text;
};

static const char *const choices[] = {"near", "exact", "off", NULL};
static const struct option options[] = {
    {"flag", OPTION_FLAG, "on|off", "on", 0, 0, NULL, offsetof(struct settings, flag), "a flag", NULL},
    {"count", OPTION_COUNT, "N", "4", 1, 64, NULL, offsetof(struct settings, count), "a count", NULL},
    {"choice", OPTION_CHOICE, "NAME", "near", 0, 0, choices, offsetof(struct settings, choice), "a \"choice\"", NULL},
    {"bytes", OPTION_SIZE, "SIZE", "4GiB", 0, 1e15, NULL, offsetof(struct settings, bytes), "a size", NULL},
    {"duration", OPTION_DURATION, "TIME", "30s", 0.001, 86400, NULL, offsetof(struct settings, duration_us), "a time",
     NULL},
    {"number", OPTION_NUMBER, "X", ".05", 0, 1, NULL, offsetof(struct settings, number), "a number", NULL},
    {"text", OPTION_TEXT, "FILE", NULL, 0, 0, NULL, offsetof(struct settings, text), "a text", "none"},
};
enum { N_OPTIONS = sizeof options / sizeof *options };

static void check_ranges(const struct settings *settings) {
  assert(settings->count >= 1 && settings->count <= 64);
  assert(settings->choice < 3);
  assert(settings->bytes <= 1000000000000000);
  assert(settings->duration_us >= 1000 && settings->duration_us <= 86400000000);
  assert(number_is_finite(settings->number) && settings->number >= 0 && settings->number <= 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct settings settings = {0};
  struct error error = {0};
  char *text = malloc(size + 1);
  if (text == NULL) return 0;
  if (size > 0) memcpy(text, data, size);
  text[size] = '\0';
  assert(option_set_defaults(options, N_OPTIONS, &settings, &error) == STATUS_OK);
  check_ranges(&settings);
  for (size_t i = 0; i < N_OPTIONS; i++) {
    struct settings before;
    memcpy(&before, &settings, sizeof before);
    error.text[0] = '\0';
    if (option_set(&options[i], &settings, text, &error) == STATUS_OK) {
      assert(options[i].type != OPTION_TEXT || strcmp(settings.text, text) == 0);
    } else {
      assert(strstr(error.text, options[i].name) != NULL);
      assert(memcmp(&before, &settings, sizeof before) == 0);
    }
    check_ranges(&settings);
  }
  option_release(options, N_OPTIONS, &settings);
  free(text);
  return 0;
}
