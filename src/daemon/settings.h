/* What `forelay serve` can be told: one table of options for flags, the configuration file and every description of
 * them. Blocks on files; main thread only. Texts are owned by the settings. */
#ifndef FORELAY_DAEMON_SETTINGS_H
#define FORELAY_DAEMON_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/option.h"
#include "base/status.h"
#include "plan/plan.h"

struct settings {
  char *listen, *model, *data, *api_keys, *alias, *chat_template_file, *config, *cors_origin;
  uint32_t context_tokens; /* 0: min(trained, 8192) */
  uint32_t slots;
  uint64_t ram_bytes; /* UINT64_MAX: not said */
  uint64_t ssd_bytes;
  uint64_t ssd_writes_bytes; /* UINT64_MAX: not said */
  uint32_t threads;          /* 0: physical cores */
  double gpu_layers;         /* −1: all */
  uint32_t flash_attn;       /* enum model_flash */
  uint32_t reuse;            /* enum reuse_mode: near, exact, off */
  bool prepare;
  uint32_t policy; /* enum policy */
  double holdout;
  uint32_t queue;
  uint64_t timeout_us;
  uint32_t prices; /* enum price_profile */
  double idle_fraction;
  uint32_t log_level;
};

/* The table; *ret_n rows. Static storage. */
const struct option *settings_options(size_t *ret_n);
/* Defaults, then the file that --config names, then the flags in argv[0, argc) ("--name value" or "--name=value").
 * What is left unsaid and depends on the machine is filled in (data, ram, ssd_writes, threads).
 * STATUS_INVALID: one line says which word of the command line, or which line and column of the file. */
MUST_USE enum status settings_load(struct settings *settings, int argc, char **argv, struct error *error);
void settings_release(struct settings *settings);

/* What the settings say of the plan: policy, reuse, holdout, prices, and all of the budget but the device's. The rest
 * of *config stays as it is. */
void settings_plan(const struct settings *settings, struct plan_config *config);

#endif
