#include <stdio.h>
#include <string.h>
#include <sysexits.h>

#include "base/option.h"
#include "cli/command.h"
#include "cli/talk.h"

static void print_budget(const json_t *answer) {
  const char *name;
  json_t *value;
  char size[32];
  json_object_foreach((json_t *)(uintptr_t)answer, name, value) {
    if (!json_is_number(value)) continue;
    if (strstr(name, "bytes") != NULL)
      printf("%-26s %s\n", name, talk_size(json_number_value(value), size));
    else
      printf("%-26s %g\n", name, json_number_value(value));
  }
  const json_t *account = json_object_get(answer, "account");
  printf("%-26s %.6f of %.6f USD\n", "account", talk_number(account, "balance_usd"), talk_number(account, "cap_usd"));
}

/* NAME=VALUE words as a JSON object; NULL: one was wrong and a line was printed. */
static json_t *changes_of(int argc, char **argv) {
  json_t *changes = json_object();
  for (int i = 0; i < argc; i++) {
    char name[64];
    const char *equals = strchr(argv[i], '=');
    uint64_t bytes;
    double number;
    if (equals == NULL || equals == argv[i] || equals - argv[i] >= (long)sizeof name) {
      fprintf(stderr, "forelay budget: '%s' is not NAME=VALUE\n", argv[i]);
      json_decref(changes);
      return NULL;
    }
    snprintf(name, sizeof name, "%.*s", (int)(equals - argv[i]), argv[i]);
    if (strstr(name, "bytes") != NULL && option_parse_size(equals + 1, &bytes) == STATUS_OK) {
      json_object_set_new(changes, name, json_integer((json_int_t)bytes));
    } else if (option_parse_number(equals + 1, &number) == STATUS_OK) {
      json_object_set_new(changes, name, json_real(number));
    } else {
      fprintf(stderr, "forelay budget: %s: '%s' is not a number or a size such as 512MiB\n", name, equals + 1);
      json_decref(changes);
      return NULL;
    }
  }
  return changes;
}

int budget_run(int argc, char **argv) {
  struct talk talk;
  json_t *answer = NULL, *changes = NULL;
  int code;
  if (!talk_begin(&talk, argc, argv,
                  "usage: forelay budget [NAME=VALUE…] [OPTION…]\n\nShows the limits, or changes some: ram_bytes=2GiB "
                  "idle_fraction_max=0.5\n",
                  &code))
    return code;
  if (talk.argc > 0 && strncmp(talk.argv[0], "--", 2) == 0) return talk_unknown(&talk, "budget");
  if (talk.argc > 0 && (changes = changes_of(talk.argc, talk.argv)) == NULL) return EX_USAGE;
  code = talk_call(&talk, changes != NULL ? "PUT" : "GET", "/forelay/v1/budget", changes, 200, &answer);
  if (code != EX_OK) return code;
  if (talk.wants_json)
    code = talk_print_json(answer);
  else
    print_budget(answer);
  json_decref(answer);
  return code;
}
