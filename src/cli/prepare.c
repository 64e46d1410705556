#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

#include "base/buffer.h"
#include "cli/command.h"
#include "cli/talk.h"
#include "os/file.h"

enum { INPUT_BYTES_MAX = 32 << 20, LOOK_EVERY_US = 100000 };

static const char usage[] =
    "usage: forelay prepare (--prompt TEXT | --messages FILE | FILE) [--tier ram|ssd|device] [--wait] [OPTION…]\n\n"
    "Makes a prompt ready now. FILE holds plain text; with --messages it is a JSON array of chat messages.\n"
    "  --wait         until it is ready, with progress on a terminal\n";

static bool take_flag(struct talk *talk, const char *flag) {
  for (int i = 0; i < talk->argc; i++) {
    if (strcmp(talk->argv[i], flag) != 0) continue;
    memmove(talk->argv + i, talk->argv + i + 1, (size_t)(talk->argc - i - 1) * sizeof *talk->argv);
    talk->argc--;
    return true;
  }
  return false;
}

/* What is to be prepared, from a file; NULL: a line was printed. */
static json_t *read_input(const char *path, bool is_messages) {
  struct buffer text;
  struct error error = {{0}};
  json_t *value = NULL;
  json_error_t where;
  buffer_init(&text, INPUT_BYTES_MAX + 1);
  if (file_read(path, INPUT_BYTES_MAX, &text, &error) != STATUS_OK) {
    fprintf(stderr, "forelay prepare: %s\n", error.text);
  } else if (!is_messages) {
    value = json_stringn(text.data != NULL ? (const char *)text.data : "", text.size);
    if (value == NULL) fprintf(stderr, "forelay prepare: %s is not UTF-8 text\n", path);
  } else {
    value = json_loadb((const char *)text.data, text.size, 0, &where);
    if (value == NULL) fprintf(stderr, "forelay prepare: %s: line %d: %s\n", path, where.line, where.text);
  }
  buffer_release(&text);
  return value;
}

/* Until the task ends; the last answer in *ret_task. */
static int wait_for(const struct talk *talk, double id, json_t **ret_task) {
  char path[64];
  bool shows = isatty(STDERR_FILENO) != 0;
  snprintf(path, sizeof path, "/forelay/v1/tasks/%.0f", id);
  for (;;) {
    json_t *task = NULL;
    int code = talk_call(talk, "GET", path, NULL, 200, &task);
    if (code != EX_OK) return code;
    const char *state = talk_text(task, "state");
    bool is_open = strcmp(state, "planned") == 0 || strcmp(state, "waiting") == 0 || strcmp(state, "running") == 0;
    if (shows)
      fprintf(stderr, "\r%s: %.0f of %.0f tokens   %s", state, talk_number(task, "tokens_done"),
              talk_number(task, "tokens"), is_open ? "" : "\n");
    if (!is_open) {
      *ret_task = task;
      return EX_OK;
    }
    json_decref(task);
    nanosleep(&(struct timespec){.tv_nsec = LOOK_EVERY_US * 1000L}, NULL); /* between two looks */
  }
}

int prepare_run(int argc, char **argv) {
  struct talk talk;
  json_t *answer = NULL, *value = NULL;
  int code;
  if (!talk_begin(&talk, argc, argv, usage, &code)) return code;
  const char *prompt = talk_option(&talk, "prompt"), *messages = talk_option(&talk, "messages"),
             *tier = talk_option(&talk, "tier");
  bool waits = take_flag(&talk, "--wait");
  const char *file = prompt == NULL && messages == NULL && talk.argc == 1 ? talk.argv[0] : NULL;
  if ((prompt != NULL) + (messages != NULL) + (file != NULL) != 1 || talk.argc > (file != NULL)) {
    fprintf(stderr, "forelay prepare: say what: --prompt TEXT, --messages FILE, or a FILE of text\n");
    return EX_USAGE;
  }
  if (prompt != NULL)
    value = json_string(prompt);
  else
    value = read_input(messages != NULL ? messages : file, messages != NULL);
  if (value == NULL) return EX_DATAERR;
  json_t *body = json_pack("{s:o}", messages != NULL ? "messages" : "prompt", value);
  if (tier != NULL) json_object_set_new(body, "tier", json_string(tier));
  code = talk_call(&talk, "POST", "/forelay/v1/prepare", body, 202, &answer);
  if (code != EX_OK) return code;
  double id = talk_number(answer, "id");
  if (waits) {
    json_decref(answer);
    answer = NULL;
    code = wait_for(&talk, id, &answer);
    if (code != EX_OK) return code;
  }
  if (talk.wants_json)
    code = talk_print_json(answer);
  else if (waits)
    printf("Task %.0f is %s: %s\n", id, talk_text(answer, "state"), talk_text(answer, "reason"));
  else
    printf("Task %.0f (see `forelay tasks %.0f`)\n", id, id);
  if (waits && strcmp(talk_text(answer, "state"), "failed") == 0) code = EX_UNAVAILABLE;
  json_decref(answer);
  return code;
}
