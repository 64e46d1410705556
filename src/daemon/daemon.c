#include "daemon/daemon.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "daemon/composition.h"
#include "daemon/executor.h"
#include "daemon/materials.h"
#include "daemon/observer.h"
#include "daemon/planner.h"
#include "engine/chat.h"
#include "engine/embedded.h"
#include "engine/engine.h"
#include "engine/keys.h"
#include "engine/model.h"
#include "engine/reuse.h"
#include "gateway/gateway.h"
#include "gateway/tenants.h"
#include "history/history.h"
#include "net/loop.h"
#include "net/server.h"
#include "os/clock.h"
#include "os/file.h"
#include "os/log.h"
#include "os/memory.h"
#include "os/signal.h"
#include "os/thread.h"
#include "store/depot.h"

enum {
  WORKER_QUEUE_MAX = 4096,
  MATERIAL_BYTES_MAX = 64 << 20,
  EXECUTOR_WAITING_MAX = 256,
  NODES_MAX = 1 << 16,
  TASKS_MAX = 4096,
  TASKS_AHEAD = 4096, /* ids skipped at a start: more than can be given between two snapshots */
  BEAT_US = 1000000,
  SNAPSHOT_BEATS = 60,
  SNAPSHOT_TASKS_MAX = 512,
  SNAPSHOT_ROWS_MAX = 65536,
  FLUSH_MAX = 65536, /* segments written at the end */
  VICTIMS_MAX = 512,
  TEMPLATE_BYTES_MAX = 1 << 20,
  DRAIN_GRACE_MS = 30000,
  SAVE_GRACE_US = 5000000,
  FLUSH_US = 20000000
};

/* ── callbacks of the rooms below ── */

static void update_load(struct composition *composition) {
  struct reuse_load now;
  struct depot_stats stats;
  reuse_load(composition->reuse, &now);
  depot_stats(composition->depot, &stats);
  struct load load = {.running = now.running, .waiting = now.waiting, .idle_share = composition->idle_share};
  load.preparations = composition->executor != NULL ? executor_open_count(composition->executor) : 0;
  load.used_bytes[TIER_DEVICE] = now.device_tokens * model_facts(composition->model)->bytes_per_token;
  load.used_bytes[TIER_RAM] = stats.tier[TIER_RAM].used_bytes;
  load.used_bytes[TIER_SSD] = stats.tier[TIER_SSD].used_bytes;
  planner_set_load(composition->planner, &load);
}

static void actions_come(void *ctx, const struct action *actions, size_t n) {
  struct composition *composition = ctx;
  if (composition->executor == NULL) return; /* going down */
  executor_take(composition->executor, actions, n);
  update_load(composition);
}

struct told_task_event {
  struct task_event event;
  char reason[TASK_REASON_SIZE];
};

static void run_task_event(struct plan *plan, void *ctx) {
  struct told_task_event *told = ctx;
  told->event.reason = told->reason[0] != '\0' ? told->reason : NULL;
  plan_task_event(plan, &told->event);
}

static void task_event(void *ctx, const struct task_event *event) {
  struct composition *composition = ctx;
  struct told_task_event told = {.event = *event};
  if (event->reason != NULL) snprintf(told.reason, sizeof told.reason, "%s", event->reason);
  (void)!planner_run(composition->planner, run_task_event, &told, sizeof told, true);
  if (composition->executor != NULL) update_load(composition);
}

static void segment_event(void *ctx, const struct depot_event *event) {
  struct composition *composition = ctx;
  if (composition->observer != NULL) observer_segment(composition->observer, event);
}

static void residence(void *ctx, const struct reuse_residence *told) {
  struct composition *composition = ctx;
  if (composition->observer != NULL) observer_residence(composition->observer, told);
}

static void prefill_sample(void *ctx, enum lane lane, uint32_t n, uint32_t depth, double seconds) {
  struct composition *composition = ctx;
  (void)lane;
  observer_prefill_sample(composition->observer, n, depth, seconds);
}

static void restore_sample(void *ctx, enum tier tier, uint64_t bytes, double seconds) {
  struct composition *composition = ctx;
  observer_restore_sample(composition->observer, tier, bytes, seconds);
}

static void decode_sample(void *ctx, uint32_t tokens, double seconds) {
  struct composition *composition = ctx;
  observer_decode_sample(composition->observer, tokens, seconds);
}

/* A question for room: loop → plan (who goes?) → loop (they go). */
struct room {
  struct composition *composition;
  uint64_t ticket, bytes, task, at_us;
  enum status status;
  size_t n;
  uint64_t victims[VICTIMS_MAX];
};

static void make_room_done(void *ctx) {
  struct room *room = ctx;
  struct composition *composition = room->composition;
  if (composition->reuse != NULL) {
    for (size_t i = 0; i < room->n; i++) (void)!depot_evict(composition->depot, room->victims[i], TIER_RAM);
    reuse_room_made(composition->reuse, room->ticket, room->status);
  }
  free(room);
}

static void run_make_room(struct plan *plan, void *ctx) {
  struct room *room = ctx;
  room->status =
      plan_make_room(plan, TIER_RAM, room->bytes, room->task, room->at_us, room->victims, VICTIMS_MAX, &room->n);
  if (!loop_post(room->composition->loop, make_room_done, room)) free(room);
}

static void make_room(void *ctx, uint64_t ticket, uint64_t bytes, uint32_t tenant, uint64_t task) {
  struct composition *composition = ctx;
  (void)tenant;
  struct room *room = calloc(1, sizeof *room);
  if (room != NULL) {
    room->composition = composition;
    room->ticket = ticket;
    room->bytes = bytes;
    room->task = task;
    room->at_us = clock_unix_us();
    if (planner_run(composition->planner, run_make_room, room, 0, false) == STATUS_OK) return;
    free(room);
  }
  reuse_room_made(composition->reuse, ticket, STATUS_FULL);
}

/* ── what is remembered ── */

struct rows {
  char **texts;
  size_t n;
};

static bool collect_row(void *ctx, const char *text) {
  struct rows *rows = ctx;
  rows->texts[rows->n] = strdup(text);
  return rows->texts[rows->n] != NULL && ++rows->n < SNAPSHOT_ROWS_MAX;
}

static void snapshot(const struct plan *plan, struct history *history) {
  struct rows rows = {.texts = calloc(SNAPSHOT_ROWS_MAX, sizeof *rows.texts)};
  struct task *tasks = malloc(SNAPSHOT_TASKS_MAX * sizeof *tasks);
  if (rows.texts != NULL) {
    plan_save(plan, collect_row, &rows);
    history_snapshot(history, (const char *const *)rows.texts, rows.n);
  }
  size_t n_tasks = tasks != NULL ? plan_tasks(plan, UINT32_MAX, tasks, SNAPSHOT_TASKS_MAX) : 0;
  for (size_t i = 0; i < n_tasks; i++) history_task(history, &tasks[i]);
  for (size_t i = 0; i < rows.n; i++) free(rows.texts[i]);
  free(rows.texts);
  free(tasks);
}

static void run_snapshot(struct plan *plan, void *ctx) {
  snapshot(plan, ctx);
}

struct loading {
  struct plan *plan;
  size_t taken, refused;
};

static bool load_row(void *ctx, const char *text) {
  struct loading *loading = ctx;
  if (plan_load(loading->plan, text) == STATUS_OK)
    loading->taken++;
  else
    loading->refused++;
  return true;
}

/* ── the beat ── */

static void say_conditions(struct composition *composition) {
  struct depot_stats stats;
  depot_stats(composition->depot, &stats);
  if (stats.tier[TIER_SSD].is_degraded)
    log_once(LOG_WARNING, "ssd", "event=disk_degraded condition=\"%s\" effect=\"states are kept in memory only\"",
             stats.tier[TIER_SSD].condition);
  if (composition->history == NULL) return;
  struct history_stats history;
  history_stats(composition->history, &history);
  if (history.is_degraded) log_once(LOG_WARNING, "history", "event=history_degraded condition=\"%s\"", history.reason);
}

static void beat(void *ctx) {
  struct composition *composition = ctx;
  struct reuse_load load;
  reuse_load(composition->reuse, &load);
  uint64_t now_us = clock_monotonic_us();
  double busy = load.foreground_seconds + load.speculative_seconds + load.save_seconds;
  double passed = (double)(now_us - composition->beat_us) / 1e6;
  double idle = passed > 0 ? 1 - (busy - composition->busy_seconds_before) / passed : 1;
  idle = idle < 0 ? 0 : idle > 1 ? 1 : idle;
  composition->idle_share += (idle - composition->idle_share) / 60;
  composition->busy_seconds_before = busy;
  composition->beat_us = now_us;
  update_load(composition);
  executor_poke(composition->executor);
  say_conditions(composition);
  if (++composition->beats % SNAPSHOT_BEATS == 0 && composition->history != NULL)
    (void)!planner_run(composition->planner, run_snapshot, composition->history, 0, false);
  loop_timer_start(composition->beat, BEAT_US);
}

/* ── opening, in the order of dependence ── */

static enum status open_secret(struct composition *composition, struct error *error) {
  char path[PATH_MAX];
  struct buffer text;
  if (snprintf(path, sizeof path, "%s/secret", composition->settings->data) >= (int)sizeof path)
    return error_set(error, STATUS_TOO_LONG, "--data: the path is too long");
  buffer_init(&text, 4096);
  enum status status = file_read(path, 64, &text, error);
  if (status == STATUS_OK && text.size != sizeof composition->secret)
    status =
        error_set(error, STATUS_CORRUPT,
                  "%s is not what forelay wrote: remove it (states made before are then not found any more)", path);
  if (status == STATUS_OK) memcpy(composition->secret, text.data, sizeof composition->secret);
  if (status == STATUS_NOT_FOUND) {
    bool is_drawn =
        getrandom(composition->secret, sizeof composition->secret, 0) == (ssize_t)sizeof composition->secret;
    status = is_drawn ? file_write(path, composition->secret, sizeof composition->secret, error)
                      : error_set(error, STATUS_IO, "no random bytes from the system");
  }
  buffer_release(&text);
  return status;
}

static enum status open_folder(struct composition *composition, struct error *error) {
  char path[PATH_MAX];
  enum status status = file_make_folder(composition->settings->data, error);
  if (status != STATUS_OK) return status;
  if (snprintf(path, sizeof path, "%s/lock", composition->settings->data) >= (int)sizeof path)
    return error_set(error, STATUS_TOO_LONG, "--data: the path is too long");
  status = file_lock(path, &composition->lock_fd, error);
  return status == STATUS_OK ? open_secret(composition, error) : status;
}

static bool is_loopback(const char *listen) {
  return strncmp(listen, "127.", 4) == 0 || strncmp(listen, "localhost:", 10) == 0 || strncmp(listen, "[::1]:", 6) == 0;
}

static enum status open_tenants(struct composition *composition, struct error *error) {
  const struct settings *settings = composition->settings;
  if (settings->api_keys == NULL && !is_loopback(settings->listen))
    return error_set(error, STATUS_INVALID, "--listen %.64s can be reached from outside: that needs --api-keys FILE",
                     settings->listen);
  enum status status = tenants_open(settings->api_keys, &composition->tenants, error);
  if (status != STATUS_OK) return status;
  composition->n_tenants = tenants_count(composition->tenants);
  composition->salts = calloc(composition->n_tenants, sizeof *composition->salts);
  if (composition->salts == NULL) return STATUS_NO_MEMORY;
  for (uint32_t i = 0; i < composition->n_tenants && status == STATUS_OK; i++)
    status = keys_salt(composition->secret, sizeof composition->secret, tenants_name(composition->tenants, i),
                       composition->salts[i]);
  return status;
}

/* The demo's model lies beside the build that this program is in. */
static enum status find_model(const struct settings *settings, char path[PATH_MAX], struct error *error) {
  if (settings->model != NULL) {
    snprintf(path, PATH_MAX, "%s", settings->model);
    return STATUS_OK;
  }
  ssize_t size = readlink("/proc/self/exe", path, PATH_MAX - 1);
  if (size > 0) {
    static const char beside[] = "../deps/SmolLM2-135M-Instruct.Q4_1.gguf";
    path[size] = '\0';
    char *slash = strrchr(path, '/');
    if (slash != NULL && (size_t)(slash + 1 - path) + sizeof beside <= PATH_MAX) {
      memcpy(slash + 1, beside, sizeof beside);
      if (access(path, R_OK) == 0) return STATUS_OK;
    }
  }
  return error_set(error, STATUS_INVALID, "no model: say --model FILE (a GGUF file)");
}

static enum status open_chat(struct composition *composition, struct error *error) {
  const char *file = composition->settings->chat_template_file;
  struct buffer text;
  buffer_init(&text, TEMPLATE_BYTES_MAX + 1);
  enum status status = file != NULL ? file_read(file, TEMPLATE_BYTES_MAX, &text, error) : STATUS_OK;
  if (status == STATUS_OK) status = chat_open(composition->model, (const char *)text.data, &composition->chat, error);
  buffer_release(&text);
  if (status == STATUS_OK || file != NULL || status == STATUS_NO_MEMORY) return status;
  log_line(LOG_WARNING, "event=no_chat_template reason=\"%s\" effect=\"chat is refused, text completions work\"",
           error->text);
  return STATUS_OK;
}

static enum status open_model(struct composition *composition, struct error *error) {
  const struct settings *settings = composition->settings;
  char path[PATH_MAX];
  enum status status = find_model(settings, path, error);
  if (status != STATUS_OK) return status;
  const struct model_config config = {.path = path,
                                      .context_tokens = settings->context_tokens,
                                      .sequences = settings->slots + 1,
                                      .threads = settings->threads,
                                      .gpu_layers = (int32_t)settings->gpu_layers,
                                      .flash = (enum model_flash)settings->flash_attn};
  status = model_open(&config, &composition->model, error);
  if (status != STATUS_OK) return status;
  const struct model_facts *facts = model_facts(composition->model);
  if (facts->note[0] != '\0') log_line(LOG_WARNING, "event=model_note note=\"%s\"", facts->note);
  struct fingerprint_compat compat;
  struct fingerprint_exact exact;
  status = model_fingerprint(composition->model, settings->data, &compat, &exact, error);
  struct keys *keys = NULL;
  if (status == STATUS_OK) status = keys_create(&keys);
  if (status == STATUS_OK) composition->fingerprint = keys_fingerprint(keys, &compat, &exact);
  keys_destroy(&keys);
  return status == STATUS_OK ? open_chat(composition, error) : status;
}

static enum status open_history(struct composition *composition, struct error *error) {
  char path[PATH_MAX];
  if (snprintf(path, sizeof path, "%s/history.sqlite", composition->settings->data) >= (int)sizeof path)
    return error_set(error, STATUS_TOO_LONG, "--data: the path is too long");
  enum status status = history_open(&(struct history_config){.path = path}, &composition->history, error);
  if (status != STATUS_IO) return status;
  /* A full or read-only disk: serve without a memory of the past. */
  log_once(LOG_WARNING, "history", "event=history_degraded condition=\"%s\"", error->text);
  return STATUS_OK;
}

static double draw(void *ctx, uint64_t unit, uint32_t day) {
  const struct composition *composition = ctx;
  char text[64];
  uint8_t digest[32];
  uint64_t number = 0;
  snprintf(text, sizeof text, "holdout %llu %u", (unsigned long long)unit, day);
  if (keys_salt(composition->secret, sizeof composition->secret, text, digest) != STATUS_OK)
    return 1; /* not withheld */
  for (int i = 0; i < 8; i++) number = number << 8 | digest[i];
  return (double)(number >> 11) * 0x1p-53;
}

static enum status open_planner(struct composition *composition, struct error *error) {
  const struct model_facts *facts = model_facts(composition->model);
  struct planner_config config = {
      .post = loop_post, .post_ctx = composition->loop, .actions = actions_come, .actions_ctx = composition};
  settings_plan(composition->settings, &config.plan);
  config.plan.draw = draw;
  config.plan.draw_ctx = composition;
  config.plan.budget.device_bytes = (uint64_t)facts->sequences * facts->context_tokens * facts->bytes_per_token;
  config.plan.block_tokens = BLOCK_TOKENS;
  config.plan.bytes_per_token = facts->bytes_per_token;
  config.plan.sequences = facts->sequences;
  config.plan.nodes_max = NODES_MAX;
  config.plan.tasks_max = TASKS_MAX;
  static const double horizons_s[] = {60, 600, 3600};
  memcpy(config.plan.horizons_s, horizons_s, sizeof horizons_s);
  config.plan.first_task = 1;
  if (composition->history != NULL) {
    uint64_t largest = history_task_max(composition->history);
    config.plan.first_task = largest > 0 ? largest + TASKS_AHEAD : 1;
  }
  enum status status = planner_open(&config, &composition->planner, error);
  if (status != STATUS_OK || composition->history == NULL) return status;
  struct loading loading = {.plan = planner_plan(composition->planner)};
  if (history_rows(composition->history, load_row, &loading) == STATUS_OK && loading.taken + loading.refused > 0)
    log_line(LOG_INFO, "event=memory_loaded rows=%zu refused=%zu", loading.taken, loading.refused);
  return STATUS_OK;
}

static enum status open_observer(struct composition *composition) {
  const struct model_facts *facts = model_facts(composition->model);
  enum status status = materials_create(MATERIAL_BYTES_MAX, &composition->materials);
  if (status != STATUS_OK) return status;
  struct observer_config config = {.planner = composition->planner,
                                   .history = composition->history,
                                   .materials = composition->materials,
                                   .salts = (const uint8_t(*)[32])composition->salts,
                                   .n_tenants = composition->n_tenants,
                                   .bytes_per_token = facts->bytes_per_token,
                                   .sequences = facts->sequences};
  memcpy(config.compat, composition->fingerprint.compat, sizeof config.compat);
  return observer_create(&config, &composition->observer);
}

static enum status open_store(struct composition *composition, struct error *error) {
  const struct settings *settings = composition->settings;
  const struct depot_config config = {.folder = settings->data,
                                      .ram_bytes = settings->ram_bytes,
                                      .ssd_bytes = settings->ssd_bytes,
                                      .ssd_writes_bytes_per_day = settings->ssd_writes_bytes,
                                      .bytes_per_token = model_facts(composition->model)->bytes_per_token,
                                      .fingerprint = composition->fingerprint,
                                      .salts = (const uint8_t(*)[32])composition->salts,
                                      .n_tenants = composition->n_tenants,
                                      .post = loop_post,
                                      .post_ctx = composition->loop,
                                      .event = segment_event,
                                      .event_ctx = composition};
  enum status status = depot_open(&config, &composition->depot, error);
  if (status != STATUS_OK) return status;
  struct depot_stats stats;
  depot_stats(composition->depot, &stats);
  if (stats.adopted + stats.removed > 0)
    log_line(LOG_INFO, "event=states_scanned adopted=%llu removed=%llu", (unsigned long long)stats.adopted,
             (unsigned long long)stats.removed);
  return STATUS_OK;
}

static enum status open_engine(struct composition *composition, struct error *error) {
  const struct settings *settings = composition->settings;
  const struct embedded_options engine = {
      .model = composition->model, .post = loop_post, .post_ctx = composition->loop};
  enum status status = embedded_open(&engine, &composition->engine, error);
  if (status != STATUS_OK) return status;
  struct reuse_options options = {.engine = composition->engine,
                                  .depot = composition->depot,
                                  .slots = settings->slots,
                                  .queue_max = settings->queue,
                                  .saves_near = settings->reuse == REUSE_NEAR,
                                  .listener = {.ctx = composition,
                                               .residence = residence,
                                               .make_room = make_room,
                                               .prefill_sample = prefill_sample,
                                               .restore_sample = restore_sample,
                                               .decode_sample = decode_sample}};
  memcpy(options.compat, composition->fingerprint.compat, sizeof options.compat);
  status = reuse_open(&options, &composition->reuse, error);
  if (status != STATUS_OK) return status;
  const struct executor_config executor = {.reuse = composition->reuse,
                                           .depot = composition->depot,
                                           .materials = composition->materials,
                                           .salts = (const uint8_t(*)[32])composition->salts,
                                           .n_tenants = composition->n_tenants,
                                           .waiting_max = EXECUTOR_WAITING_MAX,
                                           .task_event = task_event,
                                           .ctx = composition,
                                           .now_us = clock_unix_us};
  return executor_create(&executor, &composition->executor);
}

static enum status open_gateway(struct composition *composition, struct error *error) {
  const struct settings *settings = composition->settings;
  const struct model_facts *facts = model_facts(composition->model);
  enum status status = worker_create("worker", 1, WORKER_QUEUE_MAX, loop_post, composition->loop, &composition->worker);
  if (status != STATUS_OK) return status;
  status = http_server_open(composition->loop, &(struct http_server_config){.listen = settings->listen},
                            &composition->server, error);
  if (status != STATUS_OK) return status;
  const struct gateway_config config = {.model_name = settings->alias != NULL ? settings->alias : facts->name,
                                        .model_path = settings->model,
                                        .cors_origin = settings->cors_origin,
                                        .context_tokens = facts->context_tokens,
                                        .slots = settings->slots,
                                        .timeout_ms = (uint32_t)(settings->timeout_us / 1000),
                                        .reuse_mode = (enum reuse_mode)settings->reuse};
  const struct gateway_deps deps = {.loop = composition->loop,
                                    .server = composition->server,
                                    .worker = composition->worker,
                                    .model = composition->model,
                                    .chat = composition->chat,
                                    .reuse = composition->reuse,
                                    .tenants = composition->tenants,
                                    .salts = (const uint8_t(*)[32])composition->salts,
                                    .backend = admin_backend(composition)};
  return gateway_create(&config, &deps, &composition->gateway, error);
}

/* ── stopping ── */

static void drained(void *ctx) {
  struct composition *composition = ctx;
  loop_stop(composition->loop);
}

static void signalled(void *ctx) {
  struct composition *composition = ctx;
  int number = signal_next(composition->signal_fd);
  if (number == 0 || composition->is_stopping) return;
  composition->is_stopping = true;
  log_line(LOG_INFO, "event=stopping signal=%d", number);
  http_server_stop_accepting(composition->server);
  gateway_drain(composition->gateway, DRAIN_GRACE_MS, drained, composition);
}

static void kept(void *ctx, enum status status, uint32_t ram_tokens) {
  (void)ctx;
  (void)status;
  (void)ram_tokens;
}

/* What the last requests left in the engine's sequences may not have been copied yet. */
static void keep_residence(void *ctx, const struct reuse_residence *told) {
  struct composition *composition = ctx;
  (void)!reuse_save(composition->reuse, told->salt, told->tenant, told->tokens, told->n_tokens, told->task, kept, NULL);
}

static bool is_saved(void *ctx) {
  const struct composition *composition = ctx;
  struct reuse_load load;
  reuse_load(composition->reuse, &load);
  return load.saving == 0;
}

/* What deserves it goes to disk, best first. The plan thread has ended. */
static void save_states(struct composition *composition) {
  uint64_t *order = malloc(FLUSH_MAX * sizeof *order), deadline_us = clock_monotonic_us() + FLUSH_US;
  size_t n = order != NULL ? plan_flush_order(planner_plan(composition->planner), order, FLUSH_MAX) : 0;
  size_t written = depot_flush(composition->depot, order, n, deadline_us);
  log_line(LOG_INFO, "event=states_saved segments=%zu of=%zu", written, n);
  free(order);
}

static void finish(struct composition *composition) {
  loop_timer_stop(composition->beat);
  executor_destroy(&composition->executor);
  reuse_residences(composition->reuse, keep_residence, composition);
  (void)loop_run_until(composition->loop, is_saved, composition, SAVE_GRACE_US);
  planner_stop(composition->planner);
  save_states(composition);
  if (composition->history != NULL) snapshot(planner_plan(composition->planner), composition->history);
}

static bool never(void *ctx) {
  (void)ctx;
  return false;
}

/* In reverse order; accepts whatever has been opened. */
static void close_all(struct composition *composition) {
  gateway_destroy(&composition->gateway);
  http_server_close(&composition->server);
  executor_destroy(&composition->executor);
  if (composition->reuse != NULL) reuse_close(&composition->reuse);
  if (composition->engine != NULL) engine_close(&composition->engine);
  worker_destroy(&composition->worker);
  if (composition->planner != NULL) planner_stop(composition->planner);
  depot_close(&composition->depot);
  if (composition->loop != NULL)
    (void)loop_run_until(composition->loop, never, NULL, 1); /* what was posted meanwhile */
  observer_destroy(&composition->observer);
  planner_close(&composition->planner);
  materials_destroy(&composition->materials);
  history_close(&composition->history);
  chat_close(&composition->chat);
  model_close(&composition->model);
  tenants_close(&composition->tenants);
  free(composition->salts);
  loop_timer_destroy(&composition->beat);
  loop_watch_destroy(&composition->signals);
  loop_destroy(&composition->loop);
  if (composition->signal_fd >= 0) signal_close(composition->signal_fd);
  if (composition->lock_fd >= 0) file_unlock(composition->lock_fd);
}

static enum status open_all(struct composition *composition, struct error *error) {
  enum status status = signal_open(&composition->signal_fd, error);
  if (status == STATUS_OK) status = loop_create(0, &composition->loop);
  if (status == STATUS_OK) status = loop_timer_create(composition->loop, beat, composition, &composition->beat);
  if (status == STATUS_OK)
    status =
        loop_watch_create(composition->loop, composition->signal_fd, signalled, composition, &composition->signals);
  if (status == STATUS_OK) status = open_folder(composition, error);
  if (status == STATUS_OK) status = open_tenants(composition, error);
  if (status == STATUS_OK) status = open_model(composition, error);
  if (status == STATUS_OK) status = open_history(composition, error);
  if (status == STATUS_OK) status = open_planner(composition, error);
  if (status == STATUS_OK) status = open_observer(composition);
  if (status == STATUS_OK) status = open_store(composition, error);
  if (status == STATUS_OK) status = open_engine(composition, error);
  if (status == STATUS_OK) status = open_gateway(composition, error);
  if (status == STATUS_OK) status = planner_start(composition->planner, error);
  return status;
}

enum status daemon_run(const struct settings *settings, struct error *error) {
  struct composition composition = {
      .settings = settings, .lock_fd = -1, .signal_fd = -1, .idle_share = 1, .started_us = clock_unix_us()};
  log_set_level((enum log_level)settings->log_level);
  error->text[0] = '\0';
  enum status status = open_all(&composition, error);
  if (status == STATUS_OK) {
    const struct model_facts *facts = model_facts(composition.model);
    log_line(LOG_INFO,
             "event=ready address=\"%s\" port=%u model=\"%s\" context_tokens=%u slots=%u ram_bytes=%llu ssd_bytes=%llu "
             "threads=%u",
             settings->listen, http_server_port(composition.server), facts->name, facts->context_tokens,
             settings->slots, (unsigned long long)settings->ram_bytes, (unsigned long long)settings->ssd_bytes,
             facts->threads);
    composition.beat_us = clock_monotonic_us();
    loop_timer_start(composition.beat, BEAT_US);
    loop_run(composition.loop);
    finish(&composition);
  } else if (error->text[0] == '\0') {
    (void)error_set(error, status, "could not start: %s", status_name(status));
  }
  close_all(&composition);
  if (status == STATUS_OK) log_line(LOG_INFO, "event=stopped");
  return status;
}
