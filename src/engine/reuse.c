#include "engine/reuse.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "engine/keeper.h"
#include "engine/keys.h"
#include "engine/reuse_job.h"
#include "os/clock.h"

static const char *const mode_names[] = {[REUSE_NEAR] = "near", [REUSE_EXACT] = "exact", [REUSE_OFF] = "off"};

enum reuse_mode reuse_mode_of_name(const char *name) {
  int mode = REUSE_NEAR;

  while (mode <= REUSE_OFF && strcmp(mode_names[mode], name) != 0) {
    mode++;
  }
  return (enum reuse_mode)mode;
}

/* ── life ── */

static void release(struct reuse *reuse) {
  sequences_release(&reuse->table);
  keys_destroy(&reuse->keys);
  free(reuse);
}

enum status reuse_open(const struct reuse_options *options, struct reuse **ret_reuse, struct error *error) {
  const struct engine_caps *caps = &options->engine->caps;
  struct reuse *reuse;
  enum status status;

  if (options->slots == 0 || options->slots > caps->sequences) {
    return error_set(error, STATUS_INVALID, "reuse: %u slots, the engine has %u sequences", (unsigned)options->slots,
                     (unsigned)caps->sequences);
  }
  reuse = calloc(1, sizeof(*reuse));
  if (reuse == NULL) {
    return error_set(error, STATUS_NO_MEMORY, "reuse: no memory");
  }
  reuse->options = *options;
  reuse->engine = options->engine;
  /* Stored segments are ranges; an engine that cannot cut its states keeps them on the device. */
  reuse->depot = caps->state == ENGINE_STATE_BYTES && caps->cuts_state ? options->depot : NULL;
  reuse->idle_since_us = clock_monotonic_us();
  status = keys_create(&reuse->keys);
  if (status == STATUS_OK) {
    status = sequences_init(&reuse->table, caps->sequences, caps->context_tokens, options->saves_near);
  }
  if (status != STATUS_OK) {
    release(reuse);
    return error_set(error, status, "reuse: no memory for %u sequences", (unsigned)caps->sequences);
  }
  *ret_reuse = reuse;
  return STATUS_OK;
}

void reuse_close(struct reuse **reuse) {
  struct reuse *gone = *reuse;

  *reuse = NULL;
  if (gone == NULL) {
    return;
  }
  gone->is_closing = true;
  engine_stop(gone->engine);
  keeper_close(gone);
  while (gone->first != NULL) {
    reuse_job_fail(gone->first, STATUS_CLOSED, "closing");
  }
  release(gone);
}

/* ── steps ── */

static struct reuse_job *first_in(const struct reuse *reuse, enum reuse_phase phase) {
  for (struct reuse_job *job = reuse->first; job != NULL; job = job->next) {
    if (job->phase == phase && job->request.lane == LANE_REAL) {
      return job;
    }
  }
  return NULL;
}

static void start_jobs(struct reuse *reuse) {
  struct reuse_job *job;

  while (reuse->speculative == NULL && (job = first_in(reuse, REUSE_TAKING_OVER)) != NULL) {
    reuse_job_place(job);
  }
  while (reuse->n_running < reuse->options.slots && (job = first_in(reuse, REUSE_WAITING)) != NULL) {
    reuse_job_set_phase(job, REUSE_FETCHING); /* out of the queue; place() says what it really waits for */
    reuse_job_place(job);
  }
}

void reuse_step(struct reuse *reuse) {
  reuse->must_step = true;
  if (reuse->is_stepping) {
    return;
  }
  reuse->is_stepping = true;
  while (reuse->must_step && !reuse->is_closing) {
    reuse->must_step = false;
    start_jobs(reuse);
    keeper_step(reuse);
  }
  reuse->is_stepping = false;
}

void reuse_tell_residence(struct reuse *reuse, uint32_t seq) {
  const struct reuse_listener *listener = &reuse->options.listener;
  const struct sequence *sequence = &reuse->table.items[seq];
  const struct reuse_residence residence = {.seq = seq,
                                            .tenant = sequence->tenant,
                                            .salt = sequence->salt,
                                            .tokens = sequence->tokens,
                                            .n_tokens = sequence->n_tokens,
                                            .canonical_tokens = sequence->canonical_tokens,
                                            .task = sequence->task};

  if (listener->residence != NULL) {
    listener->residence(listener->ctx, &residence);
  }
}

/* ── requests ── */

uint32_t reuse_prompt_tokens_max(const struct reuse *reuse, uint32_t output_tokens) {
  uint32_t context = reuse->engine->caps.context_tokens;

  return output_tokens < context ? context - output_tokens : 0;
}

static enum status check(const struct reuse *reuse, const struct reuse_request *request, struct error *error) {
  uint32_t tokens_max = reuse_prompt_tokens_max(reuse, request->output_tokens_max);

  if (reuse->is_closing) {
    return error_set(error, STATUS_CLOSED, "closing");
  }
  if (request->n_tokens == 0) {
    return error_set(error, STATUS_INVALID, "the prompt is empty");
  }
  if (request->n_tokens > tokens_max) {
    return error_set(error, STATUS_TOO_LONG, "the prompt has %u tokens; with %u of answer at most %u fit the context",
                     (unsigned)request->n_tokens, (unsigned)request->output_tokens_max, (unsigned)tokens_max);
  }
  if (request->lane == LANE_SPECULATIVE && (reuse->speculative != NULL || first_in(reuse, REUSE_TAKING_OVER) != NULL)) {
    return error_set(error, STATUS_BUSY, "a preparation is running");
  }
  if (request->lane == LANE_SPECULATIVE && reuse->keeps != NULL) { /* its pieces would stretch the copy */
    return error_set(error, STATUS_BUSY, "finished states are being copied");
  }
  if (request->lane == LANE_SPECULATIVE && sequences_victim(&reuse->table) == SEQUENCE_NONE) {
    return error_set(error, STATUS_BUSY, "requests have all sequences");
  }
  if (request->lane == LANE_REAL && reuse->n_running + reuse->n_waiting >= reuse->options.slots &&
      reuse->n_waiting >= reuse->options.queue_max) {
    return error_set(error, STATUS_FULL, "%u requests are waiting", (unsigned)reuse->n_waiting);
  }
  return STATUS_OK;
}

enum status reuse_submit(struct reuse *reuse, const struct reuse_request *request, const struct reuse_sink *sink,
                         void *sink_ctx, struct reuse_job **ret_job, struct error *error) {
  struct reuse_job *job = NULL;
  enum status status = check(reuse, request, error);

  assert(sink->done != NULL && sink->failed != NULL);
  if (status != STATUS_OK) {
    return status;
  }
  status = reuse_job_create(reuse, request, sink, sink_ctx, &job);
  if (status != STATUS_OK) {
    return error_set(error, status, "no memory for a request of %u tokens", (unsigned)request->n_tokens);
  }
  job->is_submitting = true;
  if (request->lane == LANE_REAL) {
    reuse_job_set_phase(job, REUSE_WAITING);
    reuse_step(reuse);
  } else {
    reuse_job_set_phase(job, REUSE_FETCHING);
    reuse_job_place(job);
  }
  job->is_submitting = false;
  if (job->phase == REUSE_ENDED) {
    status = error_set(error, job->status, "%s", job->error.text);
    reuse_job_destroy(&job);
    reuse_step(reuse);
    return status;
  }
  *ret_job = job;
  if (job->phase == REUSE_RUNNING) {
    reuse_job_tell_started(job);
  }
  return STATUS_OK;
}

void reuse_cancel(struct reuse *reuse, struct reuse_job *job) {
  job->is_cancelled = true;
  if (job->phase == REUSE_RUNNING) {
    engine_cancel(reuse->engine, job->job);
  } else if (job->phase == REUSE_WAITING || job->phase == REUSE_TAKING_OVER || job->room_ticket != 0) {
    reuse_job_fail(job, STATUS_CANCELLED, "the request was cancelled");
  } /* else: what it waits for comes soon, and ends it */
}

void reuse_room_made(struct reuse *reuse, uint64_t ticket, enum status status) {
  if (keeper_room_made(reuse, ticket, status)) {
    return;
  }
  for (struct reuse_job *job = reuse->first; job != NULL; job = job->next) {
    if (job->room_ticket == ticket) {
      reuse_job_room_made(job, status);
      return;
    }
  }
}

/* ── states ── */

enum status reuse_save(struct reuse *reuse, const uint8_t salt[32], uint32_t tenant, const int32_t *tokens,
                       uint32_t n_tokens, uint64_t task, reuse_saved *done, void *done_ctx) {
  uint32_t best = SEQUENCE_NONE, best_tokens = 0;

  (void)tenant;
  if (reuse->is_closing) {
    return STATUS_CLOSED;
  }
  if (reuse->depot == NULL) {
    return STATUS_UNSUPPORTED;
  }
  for (uint32_t i = 0; i < reuse->table.count; i++) {
    const struct sequence *sequence = &reuse->table.items[i];
    uint32_t common = sequence_common(sequence, salt, tokens, n_tokens);

    if (common > sequences_savable(&reuse->table, i)) {
      common = sequences_savable(&reuse->table, i);
    }
    if (sequence->state == SEQUENCE_IDLE && common > best_tokens) {
      best = i;
      best_tokens = common;
    }
  }
  if (best == SEQUENCE_NONE) {
    return STATUS_NOT_FOUND;
  }
  return keeper_save(reuse, best, best_tokens, task, done, done_ctx);
}

void reuse_forget(struct reuse *reuse, const uint8_t salt[32]) {
  for (uint32_t i = 0; i < reuse->table.count; i++) {
    struct sequence *sequence = &reuse->table.items[i];

    if (sequence->state != SEQUENCE_IDLE || sequence->n_tokens == 0 ||
        (salt != NULL && memcmp(sequence->salt, salt, sizeof(sequence->salt)) != 0)) {
      continue;
    }
    (void)!engine_state_drop(reuse->engine, i); /* without memory for it the bytes stay, but nothing points at them */
    sequence_cut(sequence, 0);
    reuse_tell_residence(reuse, i);
  }
}

uint32_t reuse_device_tokens(const struct reuse *reuse, const uint8_t salt[32], const int32_t *tokens,
                             uint32_t n_tokens) {
  uint32_t best = 0;

  for (uint32_t i = 0; i < reuse->table.count; i++) {
    uint32_t common = sequence_common(&reuse->table.items[i], salt, tokens, n_tokens);

    best = common > best ? common : best;
  }
  for (const struct reuse_job *job = reuse->first; job != NULL; job = job->next) {
    if (job->phase == REUSE_RUNNING && memcmp(job->request.salt, salt, sizeof(job->request.salt)) == 0) {
      uint32_t done = engine_job_tokens(reuse->engine, job->job);
      uint32_t common = tokens_common(job->request.tokens, job->request.n_tokens, tokens, n_tokens);

      common = common < done ? common : done;
      best = common > best ? common : best;
    }
  }
  return best;
}

void reuse_residences(const struct reuse *reuse, void (*each)(void *ctx, const struct reuse_residence *residence),
                      void *ctx) {
  for (uint32_t i = 0; i < reuse->table.count; i++) {
    const struct sequence *sequence = &reuse->table.items[i];
    const struct reuse_residence residence = {.seq = i,
                                              .tenant = sequence->tenant,
                                              .salt = sequence->salt,
                                              .tokens = sequence->tokens,
                                              .n_tokens = sequence->n_tokens,
                                              .canonical_tokens = sequence->canonical_tokens,
                                              .task = sequence->task};

    if (sequence->n_tokens > 0) {
      each(ctx, &residence);
    }
  }
}

void reuse_load(const struct reuse *reuse, struct reuse_load *ret_load) {
  struct engine_load engine;
  struct reuse_load load = {.running = reuse->n_running,
                            .waiting = reuse->n_waiting,
                            .is_speculating = reuse->speculative != NULL,
                            .saving = keeper_count(reuse),
                            .idle_since_us = reuse->idle_since_us};

  engine_load(reuse->engine, &engine);
  load.foreground_seconds = engine.foreground_seconds;
  load.speculative_seconds = engine.speculative_seconds;
  load.save_seconds = engine.save_seconds;
  for (uint32_t i = 0; i < reuse->table.count; i++) {
    load.device_tokens += reuse->table.items[i].n_tokens;
  }
  *ret_load = load;
}
