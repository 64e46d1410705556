#include "daemon/settings.h"

#include <libfyaml.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/reuse.h"
#include "os/memory.h"

enum { CONFIG_BYTES_MAX = 1 << 20 };

static const char *const flash_names[] = {"auto", "on", "off", NULL};
static const char *const reuse_names[] = {"near", "exact", "off", NULL};
static const char *const policy_names[] = {"forelay", "lru", "frequency", "workload", NULL};
static const char *const price_names[] = {"owned", "hourly", "per-second", NULL};
static const char *const level_names[] = {"error", "warning", "info", "debug", NULL};

#define AT(field) offsetof(struct settings, field)

static const struct option options[] = {
    {"listen", OPTION_TEXT, "HOST:PORT", "127.0.0.1:8080", 0, 0, NULL, AT(listen),
     "where to listen; another address than loopback only with --api-keys", NULL},
    {"model", OPTION_TEXT, "FILE", NULL, 0, 0, NULL, AT(model), "GGUF model to serve",
     "the demo's model if it is there"},
    {"data", OPTION_TEXT, "DIR", NULL, 0, 0, NULL, AT(data), "folder of states and history", "$XDG_STATE_HOME/forelay"},
    {"context", OPTION_COUNT, "TOKENS", "0", 0, 4194304, NULL, AT(context_tokens),
     "one request's longest prompt and answer together", "what the model was trained on, at most 8192"},
    {"slots", OPTION_COUNT, "N", "4", 1, 63, NULL, AT(slots), "requests computed at once", NULL},
    {"ram", OPTION_SIZE, "SIZE", NULL, 0, 1e15, NULL, AT(ram_bytes), "memory for states, beside the device's own",
     "an eighth of the machine's, at most 8GiB"},
    {"ssd", OPTION_SIZE, "SIZE", "4GiB", 0, 1e15, NULL, AT(ssd_bytes), "disk for states, 0 for none", NULL},
    {"ssd-writes", OPTION_SIZE, "SIZE", NULL, 0, 1e16, NULL, AT(ssd_writes_bytes),
     "bytes written to that disk in a day, at most", "ten times --ssd"},
    {"threads", OPTION_COUNT, "N", "0", 0, 512, NULL, AT(threads), "threads of the engine", "physical cores"},
    {"gpu-layers", OPTION_NUMBER, "N", "-1", -1, 10000, NULL, AT(gpu_layers),
     "layers to put on a GPU, -1 for all; without effect in a build without one", NULL},
    {"flash-attn", OPTION_CHOICE, "auto|on|off", "auto", 0, 0, flash_names, AT(flash_attn), "flash attention", NULL},
    {"reuse", OPTION_CHOICE, "near|exact|off", "near", 0, 0, reuse_names, AT(reuse),
     "which states may serve a request that does not say", NULL},
    {"prepare", OPTION_FLAG, "on|off", "on", 0, 0, NULL, AT(prepare), "off: reactive only, with the same caps", NULL},
    {"policy", OPTION_CHOICE, "NAME", "forelay", 0, 0, policy_names, AT(policy),
     "what decides: forelay, or a baseline to compare with (lru, frequency, workload)", NULL},
    {"holdout", OPTION_NUMBER, "SHARE", ".05", 0, .5, NULL, AT(holdout),
     "share of units deliberately not prepared, to measure what preparation brings", NULL},
    {"queue", OPTION_COUNT, "N", "64", 1, 65536, NULL, AT(queue),
     "requests that may wait; the next one is answered 429", NULL},
    {"timeout", OPTION_DURATION, "TIME", "10min", 0, 86400, NULL, AT(timeout_us),
     "a request's longest life, 0 for no limit", NULL},
    {"api-keys", OPTION_TEXT, "FILE", NULL, 0, 0, NULL, AT(api_keys), "keys: `tenant:key` a line, mode 0600",
     "no keys, one tenant"},
    {"alias", OPTION_TEXT, "NAME", NULL, 0, 0, NULL, AT(alias), "what /v1/models calls the model", "the file's name"},
    {"chat-template-file", OPTION_TEXT, "FILE", NULL, 0, 0, NULL, AT(chat_template_file),
     "a chat template in place of the model's own", "the model's"},
    {"cors-origin", OPTION_TEXT, "ORIGIN", NULL, 0, 0, NULL, AT(cors_origin),
     "origin that browsers may ask from, * for any", "none"},
    {"prices", OPTION_CHOICE, "owned|hourly|per-second", "owned", 0, 0, price_names, AT(prices), "what computing costs",
     NULL},
    {"idle-fraction", OPTION_NUMBER, "SHARE", "1", 0, 1, NULL, AT(idle_fraction),
     "share of idle engine time that preparation may take", NULL},
    {"log-level", OPTION_CHOICE, "LEVEL", "info", 0, 0, level_names, AT(log_level), "error, warning, info or debug",
     NULL},
    {"config", OPTION_TEXT, "FILE", NULL, 0, 0, NULL, AT(config),
     "YAML file with these options by the same names; flags win over it", "none"},
};

enum { N_OPTIONS = sizeof options / sizeof *options };

const struct option *settings_options(size_t *ret_n) {
  *ret_n = N_OPTIONS;
  return options;
}

/* ── configuration file ── */

static enum status take_pair(struct settings *settings, const char *path, const struct fy_node_pair *pair,
                             struct error *error) {
  struct fy_node *key = fy_node_pair_key((struct fy_node_pair *)(uintptr_t)pair);
  struct fy_node *value = fy_node_pair_value((struct fy_node_pair *)(uintptr_t)pair);
  struct fy_token *token = key != NULL && fy_node_is_scalar(key) ? fy_node_get_scalar_token(key) : NULL;
  const struct fy_mark *mark = token != NULL ? fy_token_start_mark(token) : NULL;
  int line = mark != NULL ? mark->line + 1 : 0, column = mark != NULL ? mark->column + 1 : 0;
  const char *name = token != NULL ? fy_node_get_scalar0(key) : NULL;
  const char *text = value != NULL && fy_node_is_scalar(value) ? fy_node_get_scalar0(value) : NULL;
  const struct option *option = name != NULL ? option_find(options, N_OPTIONS, name) : NULL;
  if (option == NULL || strcmp(option->name, "config") == 0)
    return error_set(error, STATUS_INVALID,
                     "%s: line %d, column %d: there is no option '%.64s' (see `forelay serve --describe-options`)",
                     path, line, column, name != NULL ? name : "?");
  if (text == NULL)
    return error_set(error, STATUS_INVALID, "%s: line %d, column %d: '%s' needs one plain value", path, line, column,
                     name);
  struct error inner = {{0}};
  enum status status = option_set(option, settings, text, &inner);
  return status == STATUS_OK
             ? STATUS_OK
             : error_set(error, status, "%s: line %d, column %d: %.200s", path, line, column, inner.text);
}

static enum status load_file(struct settings *settings, const char *path, struct error *error) {
  char *diagnosis = NULL;
  size_t size = 0;
  FILE *sink = open_memstream(&diagnosis, &size);
  struct fy_diag_cfg diagnose;
  fy_diag_cfg_default(&diagnose);
  diagnose.fp = sink;
  diagnose.colorize = false;
  struct fy_diag *diag = sink != NULL ? fy_diag_create(&diagnose) : NULL;
  const struct fy_parse_cfg parse = {.flags = FYPCF_QUIET, .diag = diag};
  struct fy_document *document = fy_document_build_from_file(&parse, path);
  enum status status = STATUS_OK;
  if (sink != NULL) fflush(sink);
  if (document == NULL) {
    char *line_end = diagnosis != NULL ? strchr(diagnosis, '\n') : NULL;
    if (line_end != NULL) *line_end = '\0';
    status = error_set(error, STATUS_INVALID, "%s is not readable YAML: %.200s", path,
                       diagnosis != NULL && diagnosis[0] != '\0' ? diagnosis : "cannot be read");
  } else {
    struct fy_node *root = fy_document_root(document);
    if (root != NULL && !fy_node_is_mapping(root))
      status = error_set(error, STATUS_INVALID, "%s: the file must be a list of `option: value` lines", path);
    void *iterator = NULL;
    struct fy_node_pair *pair;
    while (status == STATUS_OK && root != NULL && (pair = fy_node_mapping_iterate(root, &iterator)) != NULL)
      status = take_pair(settings, path, pair, error);
  }
  fy_document_destroy(document);
  fy_diag_destroy(diag);
  if (sink != NULL) fclose(sink);
  free(diagnosis);
  return status;
}

/* ── command line ── */

/* One flag at argv[*at], which moves behind it. */
static enum status take_flag(struct settings *settings, int argc, char **argv, int *at,
                             const struct option **ret_option, const char **ret_text, struct error *error) {
  (void)settings;
  const char *word = argv[*at];
  if (strncmp(word, "--", 2) != 0)
    return error_set(error, STATUS_INVALID, "'%.64s' is not an option (see `forelay serve --help`)", word);
  char name[64];
  const char *equals = strchr(word, '=');
  size_t length = equals != NULL ? (size_t)(equals - word) - 2 : strlen(word) - 2;
  snprintf(name, sizeof name, "%.*s", (int)(length < 63 ? length : 63), word + 2);
  *ret_option = option_find(options, N_OPTIONS, name);
  if (*ret_option == NULL)
    return error_set(error, STATUS_INVALID, "there is no option --%s (see `forelay serve --help`)", name);
  (*at)++;
  if (equals != NULL) {
    *ret_text = equals + 1;
    return STATUS_OK;
  }
  if (*at >= argc) return error_set(error, STATUS_INVALID, "--%s needs a value: %s", name, (*ret_option)->argument);
  *ret_text = argv[(*at)++];
  return STATUS_OK;
}

/* Flags of the command line; only_config: just --config, which comes before all others. */
static enum status take_flags(struct settings *settings, int argc, char **argv, bool only_config, struct error *error) {
  for (int at = 0; at < argc;) {
    const struct option *option = NULL;
    const char *text = NULL;
    enum status status = take_flag(settings, argc, argv, &at, &option, &text, error);
    if (status == STATUS_OK && (strcmp(option->name, "config") == 0) == only_config)
      status = option_set(option, settings, text, error);
    if (status != STATUS_OK) return status;
  }
  return STATUS_OK;
}

static enum status fill_data(struct settings *settings, struct error *error) {
  if (settings->data != NULL) return STATUS_OK;
  const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
  char path[4096];
  if (state != NULL && state[0] == '/')
    snprintf(path, sizeof path, "%s/forelay", state);
  else if (home != NULL && home[0] == '/')
    snprintf(path, sizeof path, "%s/.local/state/forelay", home);
  else
    return error_set(error, STATUS_INVALID, "neither XDG_STATE_HOME nor HOME is set: say --data DIR");
  settings->data = strdup(path);
  return settings->data != NULL ? STATUS_OK : STATUS_NO_MEMORY;
}

enum status settings_load(struct settings *settings, int argc, char **argv, struct error *error) {
  *settings = (struct settings){.ram_bytes = UINT64_MAX, .ssd_writes_bytes = UINT64_MAX};
  enum status status = option_set_defaults(options, N_OPTIONS, settings, error);
  if (status == STATUS_OK) status = take_flags(settings, argc, argv, true, error);
  if (status == STATUS_OK && settings->config != NULL) status = load_file(settings, settings->config, error);
  if (status == STATUS_OK) status = take_flags(settings, argc, argv, false, error);
  if (status == STATUS_OK) status = fill_data(settings, error);
  if (status != STATUS_OK) {
    settings_release(settings);
    return status;
  }
  if (settings->ram_bytes == UINT64_MAX) {
    settings->ram_bytes = memory_total_bytes() / 8;
    if (settings->ram_bytes > (uint64_t)8 << 30) settings->ram_bytes = (uint64_t)8 << 30;
  }
  if (settings->ssd_writes_bytes == UINT64_MAX) settings->ssd_writes_bytes = settings->ssd_bytes * 10;
  if (settings->threads == 0) settings->threads = memory_cores();
  return STATUS_OK;
}

void settings_release(struct settings *settings) {
  option_release(options, N_OPTIONS, settings);
}

void settings_plan(const struct settings *settings, struct plan_config *config) {
  price_init(&config->price, (enum price_profile)settings->prices);
  config->policy = (enum policy)settings->policy;
  config->prepare = settings->prepare;
  config->holdout = settings->holdout;
  config->exact_reuse = settings->reuse == REUSE_EXACT;
  config->budget.ram_bytes = settings->ram_bytes;
  config->budget.ssd_bytes = settings->ssd_bytes;
  config->budget.ssd_writes_bytes_per_day = settings->ssd_writes_bytes;
  config->budget.idle_fraction_max = settings->idle_fraction;
  config->budget.money_usd_per_day = config->price.compute_usd_per_s * 86400;
}
