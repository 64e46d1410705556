#include <stdio.h>
#include <sysexits.h>

#include "cli/command.h"
#include "cli/talk.h"

static void print_tier(const char *name, const json_t *tier) {
  char used[32], limit[32];
  printf("  %-8s %10s of %-10s %6.0f segments%s%s\n", name, talk_size(talk_number(tier, "used_bytes"), used),
         talk_size(talk_number(tier, "limit_bytes"), limit), talk_number(tier, "segments"),
         talk_text(tier, "condition")[0] != '\0' ? "  " : "", talk_text(tier, "condition"));
}

static void print_status(const json_t *answer) {
  printf("forelay %s serves %s (%s), up %.0f s\n", talk_text(answer, "version"), talk_text(answer, "model"),
         talk_text(answer, "engine"), talk_number(answer, "uptime_seconds"));
  printf("requests  %.0f running, %.0f waiting; %.0f slots of %.0f tokens\n", talk_number(answer, "running"),
         talk_number(answer, "waiting"), talk_number(answer, "slots"), talk_number(answer, "context_tokens"));
  printf("prepare   %s, policy %s, reuse %s%s\n", json_is_true(json_object_get(answer, "prepare")) ? "on" : "off",
         talk_text(answer, "policy"), talk_text(answer, "reuse"),
         json_is_true(json_object_get(answer, "is_preparing")) ? "; preparing now" : "");
  if (talk_text(answer, "note")[0] != '\0') printf("note      %s\n", talk_text(answer, "note"));
  const char *name;
  json_t *tier, *tiers = json_object_get(answer, "tiers");
  if (tiers != NULL) puts("states");
  json_object_foreach(tiers, name, tier) print_tier(name, tier);
  const json_t *seconds = json_object_get(answer, "engine_seconds");
  if (seconds != NULL)
    printf("engine    %.1f s for requests, %.1f s for preparation, %.1f s for saving\n",
           talk_number(seconds, "foreground"), talk_number(seconds, "speculative"), talk_number(seconds, "save"));
}

int status_run(int argc, char **argv) {
  struct talk talk;
  json_t *answer = NULL;
  int code;
  if (!talk_begin(&talk, argc, argv, "usage: forelay status [OPTION…]\n\nWhat a daemon is, holds and does.\n", &code))
    return code;
  if (talk.argc > 0) return talk_unknown(&talk, "status");
  code = talk_call(&talk, "GET", "/forelay/v1/status", NULL, 200, &answer);
  if (code != EX_OK) return code;
  if (talk.wants_json)
    code = talk_print_json(answer);
  else
    print_status(answer);
  json_decref(answer);
  return code;
}
