#include <stdio.h>
#include <string.h>
#include <sysexits.h>

#include "cli/command.h"

const struct command commands[] = {
    {"serve", "serve a model and prepare what will be asked for", serve_run},
    {"status", "what a daemon is, holds and does", status_run},
    {"tasks", "preparations: planned, running, ready, used", tasks_run},
    {"states", "stored segments of KV state", states_run},
    {"ledger", "what preparation cost and brought", ledger_run},
    {"budget", "show or change the limits", budget_run},
    {"prepare", "make a prompt ready now", prepare_run},
    {NULL, NULL, NULL},
};

static void print_usage(FILE *into) {
  fputs("usage: forelay COMMAND [OPTION…]\n\n", into);
  for (const struct command *command = commands; command->name != NULL; command++)
    fprintf(into, "  %-10s %s\n", command->name, command->help);
  fputs("\n`forelay COMMAND --help` says more.\n", into);
}

int main(int argc, char **argv) {
  if (argc < 2) {
    print_usage(stderr);
    return EX_USAGE;
  }
  if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0) {
    print_usage(stdout);
    return EX_OK;
  }
  if (strcmp(argv[1], "--version") == 0) {
    puts("forelay " FORELAY_VERSION);
    return EX_OK;
  }
  for (const struct command *command = commands; command->name != NULL; command++)
    if (strcmp(command->name, argv[1]) == 0) return command->run(argc - 1, argv + 1);
  fprintf(stderr, "forelay: there is no command '%s' (see `forelay --help`)\n", argv[1]);
  return EX_USAGE;
}
