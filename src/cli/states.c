#include <stdio.h>
#include <sysexits.h>

#include "cli/command.h"
#include "cli/talk.h"

static void print_states(const json_t *answer) {
  const json_t *states = json_object_get(answer, "states");
  double ram = 0, ssd = 0;
  char size[32];
  if (json_array_size(states) > 0)
    printf("%8s  %8s  %-12s  %13s  %10s  %10s\n", "id", "behind", "tenant", "tokens", "ram", "ssd");
  for (size_t i = 0; i < json_array_size(states); i++) {
    const json_t *state = json_array_get(states, i);
    char range[32], in_ram[32], on_ssd[32];
    snprintf(range, sizeof range, "%.0f-%.0f", talk_number(state, "from"), talk_number(state, "to"));
    printf("%8.0f  %8.0f  %-12s  %13s  %10s  %10s\n", talk_number(state, "id"), talk_number(state, "parent"),
           talk_text(state, "tenant"), range, talk_size(talk_number(state, "ram_bytes"), in_ram),
           talk_size(talk_number(state, "ssd_bytes"), on_ssd));
    ram += talk_number(state, "ram_bytes");
    ssd += talk_number(state, "ssd_bytes");
  }
  printf("%zu segments, %s in memory", json_array_size(states), talk_size(ram, size));
  printf(", %s on disk\n", talk_size(ssd, size));
}

int states_run(int argc, char **argv) {
  struct talk talk;
  json_t *answer = NULL;
  int code;
  if (!talk_begin(&talk, argc, argv,
                  "usage: forelay states [OPTION…]\n\nStored segments of KV state, each behind the one it continues.\n",
                  &code))
    return code;
  if (talk.argc > 0) return talk_unknown(&talk, "states");
  code = talk_call(&talk, "GET", "/forelay/v1/states", NULL, 200, &answer);
  if (code != EX_OK) return code;
  if (talk.wants_json)
    code = talk_print_json(answer);
  else
    print_states(answer);
  json_decref(answer);
  return code;
}
