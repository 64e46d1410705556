#include "cli/talk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "net/client.h"

enum { ANSWER_BYTES_MAX = 256 << 20, URL_SIZE = 1024 };

bool talk_begin(struct talk *talk, int argc, char **argv, const char *usage, int *ret_code) {
  const char *url = getenv("FORELAY_URL"), *key = getenv("FORELAY_API_KEY");
  *talk =
      (struct talk){.url = url != NULL ? url : "http://127.0.0.1:8080", .key = key, .argc = argc - 1, .argv = argv + 1};
  for (int i = 0; i < talk->argc; i++) {
    if (strcmp(talk->argv[i], "--help") != 0) continue;
    printf("%s\n  --json         the daemon's answer as it is\n  --url URL      where the daemon is (FORELAY_URL, else "
           "http://127.0.0.1:8080)\n"
           "  --key KEY      API key (FORELAY_API_KEY)\n",
           usage);
    *ret_code = EX_OK;
    return false;
  }
  int kept = 0;
  for (int i = 0; i < talk->argc; i++) {
    if (strcmp(talk->argv[i], "--json") == 0)
      talk->wants_json = true;
    else
      talk->argv[kept++] = talk->argv[i];
  }
  talk->argc = kept;
  const char *said = talk_option(talk, "url");
  if (said != NULL) talk->url = said;
  said = talk_option(talk, "key");
  if (said != NULL) talk->key = said;
  return true;
}

const char *talk_option(struct talk *talk, const char *name) {
  size_t length = strlen(name);
  for (int i = 0; i < talk->argc; i++) {
    const char *word = talk->argv[i];
    if (strncmp(word, "--", 2) != 0 || strncmp(word + 2, name, length) != 0) continue;
    const char *value = NULL;
    int taken = 1;
    if (word[2 + length] == '=')
      value = word + 3 + length;
    else if (word[2 + length] == '\0' && i + 1 < talk->argc)
      value = talk->argv[i + 1], taken = 2;
    if (value == NULL) continue;
    memmove(talk->argv + i, talk->argv + i + taken, (size_t)(talk->argc - i - taken) * sizeof *talk->argv);
    talk->argc -= taken;
    return value;
  }
  return NULL;
}

int talk_unknown(const struct talk *talk, const char *command) {
  fprintf(stderr, "forelay %s: '%s' is not understood (see `forelay %s --help`)\n", command, talk->argv[0], command);
  return EX_USAGE;
}

/* The daemon's own words where it has some. */
static int explain(const char *path, int status, const json_t *answer) {
  const char *message = json_string_value(json_object_get(json_object_get(answer, "error"), "message"));
  fprintf(stderr, "forelay: %s: %s (status %d)\n", path, message != NULL ? message : "the daemon refused", status);
  switch (status) {
  case 400:
    return EX_USAGE;
  case 401:
  case 403:
    return EX_NOPERM;
  case 404:
    return EX_NOINPUT;
  case 429:
  case 503:
    return EX_TEMPFAIL;
  default:
    return EX_UNAVAILABLE;
  }
}

int talk_call(const struct talk *talk, const char *method, const char *path, json_t *body, int expected,
              json_t **ret_answer) {
  char url[URL_SIZE];
  size_t length = strlen(talk->url);
  while (length > 0 && talk->url[length - 1] == '/') length--;
  if (snprintf(url, sizeof url, "%.*s%s", (int)length, talk->url, path) >= (int)sizeof url) {
    fprintf(stderr, "forelay: the URL is too long\n");
    json_decref(body);
    return EX_USAGE;
  }
  char *text = body != NULL ? json_dumps(body, JSON_COMPACT) : NULL;
  json_decref(body);
  struct buffer answer;
  struct error error = {{0}};
  int status = 0;
  buffer_init(&answer, ANSWER_BYTES_MAX);
  const struct http_call call = {.method = method, .url = url, .bearer = talk->key, .body = text};
  enum status outcome = http_client_call(&call, &status, &answer, &error);
  free(text);
  if (outcome != STATUS_OK) {
    fprintf(stderr, "forelay: %s\n", error.text);
    buffer_release(&answer);
    return outcome == STATUS_INVALID ? EX_USAGE : EX_UNAVAILABLE;
  }
  json_error_t where;
  json_t *parsed = json_loadb((const char *)answer.data, answer.size, 0, &where);
  buffer_release(&answer);
  if (status != expected) {
    int code = explain(path, status, parsed);
    json_decref(parsed);
    return code;
  }
  if (parsed == NULL) {
    fprintf(stderr, "forelay: %s answered something that is not JSON: is it a forelay?\n", url);
    return EX_PROTOCOL;
  }
  *ret_answer = parsed;
  return EX_OK;
}

int talk_print_json(const json_t *answer) {
  char *text = json_dumps(answer, JSON_INDENT(1) | JSON_REAL_PRECISION(15));
  if (text == NULL) return EX_OSERR;
  puts(text);
  free(text);
  return EX_OK;
}

double talk_number(const json_t *object, const char *name) {
  return json_number_value(json_object_get(object, name));
}

const char *talk_text(const json_t *object, const char *name) {
  const char *text = json_string_value(json_object_get(object, name));
  return text != NULL ? text : "";
}

const char *talk_size(double bytes, char buffer[32]) {
  static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  for (; bytes >= 1024 && unit < 4; unit++) bytes /= 1024;
  snprintf(buffer, 32, unit == 0 ? "%.0f %s" : "%.1f %s", bytes, units[unit]);
  return buffer;
}
