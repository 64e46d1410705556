/* The commands of `forelay`: one row a command, one file a command. Each returns an exit code of sysexits.h; what is
 * wrong is one line on standard error. */
#ifndef FORELAY_CLI_COMMAND_H
#define FORELAY_CLI_COMMAND_H

struct command {
  const char *name;
  const char *help;                  /* one line */
  int (*run)(int argc, char **argv); /* argv[0] is the command's own name */
};

extern const struct command commands[]; /* ends with a NULL name */

int serve_run(int argc, char **argv);
int status_run(int argc, char **argv);
int tasks_run(int argc, char **argv);
int states_run(int argc, char **argv);
int ledger_run(int argc, char **argv);
int budget_run(int argc, char **argv);
int prepare_run(int argc, char **argv);

#endif
