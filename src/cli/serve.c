#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "cli/command.h"
#include "daemon/daemon.h"
#include "daemon/settings.h"

enum { DESCRIPTION_BYTES_MAX = 1 << 20 };

static int describe(const char *format) {
  struct buffer text;
  size_t n;
  const struct option *options = settings_options(&n);
  buffer_init(&text, DESCRIPTION_BYTES_MAX);
  enum status status = strcmp(format, "yaml") == 0   ? option_describe_yaml(options, n, &text)
                       : strcmp(format, "json") == 0 ? option_describe_json(options, n, &text)
                                                     : option_describe_text(options, n, &text);
  if (status == STATUS_OK) fwrite(text.data, 1, text.size, stdout);
  buffer_release(&text);
  return status == STATUS_OK ? EX_OK : EX_OSERR;
}

static int help(void) {
  puts("usage: forelay serve [OPTION VALUE]…\n\n"
       "Serves a model behind an OpenAI-compatible endpoint and lays down its KV state before the request that needs "
       "it\n"
       "arrives. Everything is optional. Ends with SIGTERM: answers what it has begun, saves states, exits 0.\n");
  int code = describe("text");
  puts("\n  --describe-options           the same as JSON (--describe-options=yaml: a sample configuration file)");
  return code;
}

/* ggml's threads spin while they wait for each other, which on shared cores costs many times the throughput; threads
 * that sleep at once cost two thirds of the decode speed on cores of one's own. A short spin keeps both
 * (docs/design/engine.md has the figures). OpenMP reads how to wait once, before main: say it and start again. */
static void wait_briefly(char **argv) {
  if (getenv("OMP_WAIT_POLICY") != NULL || getenv("GOMP_SPINCOUNT") != NULL || getenv("FORELAY_STARTED_AGAIN") != NULL)
    return;
  if (setenv("GOMP_SPINCOUNT", "1000", 0) != 0 || setenv("FORELAY_STARTED_AGAIN", "1", 1) != 0) return;
  execv("/proc/self/exe", argv); /* where that fails we go on as we are */
}

static int exit_code(enum status status) {
  switch (status) {
  case STATUS_OK:
    return EX_OK;
  case STATUS_INVALID:
    return EX_USAGE;
  case STATUS_NOT_FOUND:
    return EX_NOINPUT;
  case STATUS_CORRUPT:
  case STATUS_INCOMPATIBLE:
    return EX_DATAERR;
  case STATUS_BUSY:
    return EX_TEMPFAIL;
  case STATUS_DENIED:
    return EX_NOPERM;
  case STATUS_UNSUPPORTED:
  case STATUS_TOO_LONG:
    return EX_CONFIG;
  case STATUS_IO:
    return EX_IOERR;
  default:
    return EX_OSERR;
  }
}

int serve_run(int argc, char **argv) {
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--help") == 0) return help();
    if (strcmp(argv[i], "--describe-options") == 0) return describe("json");
    if (strcmp(argv[i], "--describe-options=yaml") == 0) return describe("yaml");
    if (strcmp(argv[i], "--describe-options=json") == 0) return describe("json");
  }
  wait_briefly(argv - 1); /* argv[-1] is the program's own name */
  struct settings settings;
  struct error error = {{0}};
  enum status status = settings_load(&settings, argc - 1, argv + 1, &error);
  if (status == STATUS_OK) {
    status = daemon_run(&settings, &error);
    settings_release(&settings);
  }
  if (status != STATUS_OK) fprintf(stderr, "forelay: %s\n", error.text);
  return exit_code(status);
}
