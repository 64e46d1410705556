/* What the commands that talk to a daemon share: its address and key, one call, JSON in and out, tables. */
#ifndef FORELAY_CLI_TALK_H
#define FORELAY_CLI_TALK_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

struct talk {
  const char *url; /* FORELAY_URL, else http://127.0.0.1:8080 */
  const char *key; /* FORELAY_API_KEY, else none */
  bool wants_json;
  int argc; /* words that are left */
  char **argv;
};

/* Reads --url, --key, --json and --help (prints `usage` and returns EX_OK through *ret_code). false: the command ends
 * with *ret_code. Words it does not know stay in argv. */
bool talk_begin(struct talk *talk, int argc, char **argv, const char *usage, int *ret_code);
/* "--name VALUE" or "--name=VALUE" among the words left, taken out; NULL: not there. */
const char *talk_option(struct talk *talk, const char *name);
/* Ends with EX_USAGE when words are left. */
int talk_unknown(const struct talk *talk, const char *command);
/* One call. EX_OK and *ret_answer (json_decref it), else a line was printed and a code is returned. `expected`: status.
 */
int talk_call(const struct talk *talk, const char *method, const char *path, json_t *body, int expected,
              json_t **ret_answer);
/* Prints JSON as it is. */
int talk_print_json(const json_t *answer);
double talk_number(const json_t *object, const char *name);
const char *talk_text(const json_t *object, const char *name);
/* "12.3 MiB". Returns buffer. */
const char *talk_size(double bytes, char buffer[32]);

#endif
