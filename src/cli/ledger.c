#include <stdio.h>
#include <sysexits.h>

#include "cli/command.h"
#include "cli/talk.h"

static void print_ledger(const json_t *answer) {
  const json_t *totals = json_object_get(answer, "totals");
  double prompt = talk_number(totals, "prompt_tokens"), share = prompt > 0 ? 100 / prompt : 0;
  printf("requests        %12.0f\n", talk_number(totals, "requests"));
  printf("prompt tokens   %12.0f\n", prompt);
  printf("  reused        %12.0f  %5.1f %%\n", talk_number(totals, "hit_tokens"),
         talk_number(totals, "hit_tokens") * share);
  printf("  reactive cache%12.0f  %5.1f %%  (what a plain cache of this size would have had)\n",
         talk_number(totals, "shadow_hit_tokens"), talk_number(totals, "shadow_hit_tokens") * share);
  printf("  computed      %12.0f  %5.1f %%\n", talk_number(totals, "computed_tokens"),
         talk_number(totals, "computed_tokens") * share);
  printf("prepared tokens %12.0f\n", talk_number(totals, "prepared_tokens"));
  printf("  used          %12.0f\n  wasted        %12.0f\n", talk_number(totals, "used_tokens"),
         talk_number(totals, "wasted_tokens"));
  printf("engine seconds  %12.1f for requests, %.1f for preparation\n", talk_number(totals, "foreground_seconds"),
         talk_number(totals, "speculative_seconds"));
  printf("benefit         %+12.1f s realized, %.1f s predicted\n", talk_number(totals, "realized_seconds"),
         talk_number(totals, "predicted_seconds"));
  printf("net             %+12.1f s, %+.6f USD\n", talk_number(totals, "net_seconds"), talk_number(totals, "net_usd"));
}

int ledger_run(int argc, char **argv) {
  struct talk talk;
  json_t *answer = NULL;
  int code;
  if (!talk_begin(
          &talk, argc, argv,
          "usage: forelay ledger [OPTION…]\n\nWhat preparation cost and brought, against a plain reactive cache.\n",
          &code))
    return code;
  if (talk.argc > 0) return talk_unknown(&talk, "ledger");
  code = talk_call(&talk, "GET", "/forelay/v1/ledger", NULL, 200, &answer);
  if (code != EX_OK) return code;
  if (talk.wants_json)
    code = talk_print_json(answer);
  else
    print_ledger(answer);
  json_decref(answer);
  return code;
}
