#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "cli/command.h"
#include "cli/talk.h"

static void print_task(const json_t *task) {
  printf("%8.0f  %-9s  %-12s  %6.0f  %6.0f  %-6s  %s\n", talk_number(task, "id"), talk_text(task, "state"),
         talk_text(task, "kind"), talk_number(task, "tokens_done"), talk_number(task, "tokens"),
         talk_text(task, "tier"), talk_text(task, "reason"));
}

static void print_head(void) {
  printf("%8s  %-9s  %-12s  %6s  %6s  %-6s  %s\n", "id", "state", "kind", "done", "tokens", "tier", "why");
}

static void print_tasks(const json_t *answer) {
  const json_t *tasks = json_object_get(answer, "tasks");
  if (json_array_size(tasks) == 0) {
    puts("Nothing has been prepared yet.");
    return;
  }
  print_head();
  for (size_t i = 0; i < json_array_size(tasks); i++) print_task(json_array_get(tasks, i));
}

int tasks_run(int argc, char **argv) {
  struct talk talk;
  json_t *answer = NULL;
  int code;
  if (!talk_begin(&talk, argc, argv,
                  "usage: forelay tasks [ID | --cancel ID] [OPTION…]\n\nPreparations, newest first; one of them; or "
                  "stop one.\n",
                  &code))
    return code;
  const char *cancel = talk_option(&talk, "cancel"), *id = cancel != NULL  ? cancel
                                                           : talk.argc > 0 ? talk.argv[0]
                                                                           : NULL;
  if (talk.argc > (id != NULL && cancel == NULL ? 1 : 0)) return talk_unknown(&talk, "tasks");
  if (id != NULL && (id[0] == '\0' || strspn(id, "0123456789") != strlen(id) || strlen(id) > 19)) {
    fprintf(stderr, "forelay tasks: '%s' is not the number of a task\n", id);
    return EX_USAGE;
  }
  char path[64];
  snprintf(path, sizeof path, id != NULL ? "/forelay/v1/tasks/%s" : "/forelay/v1/tasks", id != NULL ? id : "");
  code = talk_call(&talk, cancel != NULL ? "DELETE" : "GET", path, NULL, 200, &answer);
  if (code != EX_OK) return code;
  if (talk.wants_json) {
    code = talk_print_json(answer);
  } else if (cancel != NULL) {
    printf("Task %s is stopped.\n", cancel);
  } else if (id != NULL) {
    print_head();
    print_task(answer);
  } else {
    print_tasks(answer);
  }
  json_decref(answer);
  return code;
}
