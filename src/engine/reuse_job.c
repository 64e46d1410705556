#include "engine/reuse_job.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "engine/keeper.h"
#include "engine/sampler.h"
#include "os/clock.h"
#include "store/depot.h"

/* What depot_fetch reports to; outlives a job that ends before it is done. */
struct fetch_order {
  struct reuse_job *job; /* NULL: gone */
};

/* ── life ── */

static enum status copy_stops(const struct reuse_request *request, struct reuse_job *job) {
  const char **stops;

  if (request->n_stops == 0) {
    return STATUS_OK;
  }
  stops = calloc(request->n_stops, sizeof(*stops));
  if (stops == NULL) {
    return STATUS_NO_MEMORY;
  }
  job->request.stops = stops;
  for (uint32_t i = 0; i < request->n_stops; i++) {
    stops[i] = strdup(request->stops[i]);
    if (stops[i] == NULL) {
      return STATUS_NO_MEMORY;
    }
    job->request.n_stops = i + 1;
  }
  return STATUS_OK;
}

static enum status copy_request(const struct reuse_request *request, struct reuse_job *job) {
  int32_t *tokens = malloc((request->n_tokens + 1) * sizeof(*tokens));
  struct sampling *sampling = NULL;

  job->request = *request;
  job->request.tokens = tokens;
  job->request.sampling = NULL;
  job->request.stops = NULL;
  job->request.n_stops = 0;
  if (tokens == NULL) {
    return STATUS_NO_MEMORY;
  }
  memcpy(tokens, request->tokens, request->n_tokens * sizeof(*tokens));
  tokens[request->n_tokens] = -1; /* so that a match may reach the end of a prompt that is only prefilled */
  if (request->sampling != NULL) {
    enum status status = sampling_copy(request->sampling, &sampling);

    if (status != STATUS_OK) {
      return status;
    }
    job->request.sampling = sampling;
  }
  return copy_stops(request, job);
}

enum status reuse_job_create(struct reuse *reuse, const struct reuse_request *request, const struct reuse_sink *sink,
                             void *sink_ctx, struct reuse_job **ret_job) {
  struct reuse_job *job = calloc(1, sizeof(*job));
  enum status status;

  if (job == NULL) {
    return STATUS_NO_MEMORY;
  }
  status = copy_request(request, job);
  if (status != STATUS_OK) {
    reuse_job_destroy(&job);
    return status;
  }
  job->reuse = reuse;
  job->sink = *sink;
  job->sink_ctx = sink_ctx;
  job->phase = REUSE_ENDED;
  job->seq = SEQUENCE_NONE;
  job->submitted_us = clock_monotonic_us();
  job->previous = reuse->last;
  if (reuse->last != NULL) {
    reuse->last->next = job;
  } else {
    reuse->first = job;
  }
  reuse->last = job;
  *ret_job = job;
  return STATUS_OK;
}

static void unlink_job(struct reuse_job *job) {
  struct reuse *reuse = job->reuse;

  if (job->previous != NULL) {
    job->previous->next = job->next;
  } else {
    reuse->first = job->next;
  }
  if (job->next != NULL) {
    job->next->previous = job->previous;
  } else {
    reuse->last = job->previous;
  }
}

void reuse_job_destroy(struct reuse_job **job) {
  struct reuse_job *gone = *job;
  void *owned[2];
  struct sampling *sampling;

  *job = NULL;
  if (gone->order != NULL) {
    gone->order->job = NULL;
  }
  if (gone->reuse != NULL) {
    retrieval_release(&gone->retrieval, gone->reuse->depot);
    unlink_job(gone);
  }
  for (uint32_t i = 0; i < gone->request.n_stops; i++) {
    char *stop;

    memcpy(&stop, &gone->request.stops[i], sizeof(stop));
    free(stop);
  }
  /* The job owns these copies; the request's type only promises not to write through them. */
  memcpy(&owned[0], &gone->request.tokens, sizeof(owned[0]));
  memcpy(&owned[1], &gone->request.stops, sizeof(owned[1]));
  memcpy(&sampling, &gone->request.sampling, sizeof(sampling));
  free(owned[0]);
  free(owned[1]);
  sampling_free(&sampling);
  free(gone);
}

void reuse_job_set_phase(struct reuse_job *job, enum reuse_phase phase) {
  struct reuse *reuse = job->reuse;

  if (job->request.lane == LANE_REAL) {
    reuse->n_waiting -= job->phase == REUSE_WAITING;
    reuse->n_running -= job->phase != REUSE_WAITING && job->phase != REUSE_ENDED;
    reuse->n_waiting += phase == REUSE_WAITING;
    reuse->n_running += phase != REUSE_WAITING && phase != REUSE_ENDED;
    if (reuse->n_waiting + reuse->n_running > 0) {
      reuse->idle_since_us = 0;
    } else if (reuse->idle_since_us == 0) {
      reuse->idle_since_us = clock_monotonic_us();
    }
  } else {
    reuse->speculative = phase == REUSE_ENDED ? NULL : job;
  }
  job->phase = phase;
}

void reuse_job_tell_started(struct reuse_job *job) {
  if (job->sink.started != NULL) {
    job->sink.started(job->sink_ctx, job->result.prefill.cached_tokens, job->result.prefill.tier);
  }
}

void reuse_job_fail(struct reuse_job *job, enum status status, const char *text) {
  struct reuse *reuse = job->reuse;

  reuse_job_set_phase(job, REUSE_ENDED);
  retrieval_release(&job->retrieval, reuse->depot);
  if (job->error.text[0] == 0) {
    (void)error_set(&job->error, status, "%s", text);
  }
  job->status = status;
  if (job->is_submitting) {
    return;
  }
  job->result.stop = status == STATUS_CANCELLED ? STOP_ABORTED : STOP_ERROR;
  job->result.prefill = (struct reuse_prefill){.queue_us = clock_monotonic_us() - job->submitted_us};
  job->sink.failed(job->sink_ctx, status, &job->error, true, job->is_taken_over && !job->is_cancelled, &job->result);
  reuse_job_destroy(&job);
  reuse_step(reuse);
}

/* ── what the engine tells ── */

static void on_restored(void *ctx, uint32_t tokens, uint64_t bytes, uint64_t us) {
  struct reuse_job *job = ctx;
  const struct reuse_listener *listener = &job->reuse->options.listener;
  struct reuse_prefill *prefill = &job->result.prefill;

  retrieval_release(&job->retrieval, job->reuse->depot);
  if (tokens == 0) { /* refused: everything is computed */
    *prefill = (struct reuse_prefill){.queue_us = prefill->queue_us};
    job->is_restored = false;
  } else if (listener->restore_sample != NULL) {
    listener->restore_sample(listener->ctx, TIER_RAM, bytes, (double)us / 1e6);
  }
  prefill->restore_us = job->fetch_us + us;
}

static void take_prefill(struct reuse_job *job, const struct engine_prefill *prefill) {
  job->result.prefill.computed_tokens = prefill->computed_tokens;
  job->result.prefill.prefill_us = prefill->prefill_us;
}

static void on_prefilled(void *ctx, const struct engine_prefill *prefill) {
  struct reuse_job *job = ctx;

  take_prefill(job, prefill);
  if (job->sink.prefilled != NULL) {
    job->sink.prefilled(job->sink_ctx, &job->result.prefill);
  }
}

static void on_logits(void *ctx, const float *logits, uint32_t n_vocab) {
  struct reuse_job *job = ctx;

  if (job->sink.first_logits != NULL) {
    job->sink.first_logits(job->sink_ctx, logits, n_vocab);
  }
}

static void on_token(void *ctx, const struct engine_token *token) {
  struct reuse_job *job = ctx;

  if (job->sink.token != NULL) {
    job->sink.token(job->sink_ctx, token);
  }
}

/* Writes into the table what the job has left in its sequence. */
static void settle_sequence(struct reuse_job *job, const struct engine_result *result) {
  struct reuse *reuse = job->reuse;
  struct sequence *sequence = &reuse->table.items[job->seq];
  const struct reuse_request *request = &job->request;
  uint32_t prompt = result->seq_tokens < request->n_tokens ? result->seq_tokens : request->n_tokens;
  uint32_t canonical = result->prefill.canonical_tokens < prompt ? result->prefill.canonical_tokens : prompt;
  uint32_t cached = result->prefill.cached_tokens;

  assert(result->seq_tokens <= prompt + result->output_tokens);
  sequence_assign(sequence, request->tenant, request->salt, request->tokens, prompt, canonical);
  for (uint32_t i = prompt; i < result->seq_tokens; i++) {
    sequence->tokens[i] = result->output[i - prompt];
  }
  sequence->n_tokens = result->seq_tokens;
  if (request->task != 0 && prompt > cached) {
    sequence->task = request->task;
    sequence->task_from = cached;
    sequence->task_to = prompt;
  } else if (job->is_restored && job->result.prefill.task != 0) {
    sequence->task = job->result.prefill.task;
    sequence->task_from = 0;
    sequence->task_to = cached;
  }
  if (!request->wants_store && engine_state_drop(reuse->engine, job->seq) == STATUS_OK) {
    sequence_cut(sequence, 0);
  }
  if (!request->wants_store && sequence->n_tokens > 0) { /* not even the drop could be queued: never match it */
    sequence_cut(sequence, 0);
  }
  sequence->state = SEQUENCE_IDLE;
  sequence->used_us = clock_monotonic_us();
  job->result.ready_tokens = request->wants_store ? canonical : 0;
  reuse_tell_residence(reuse, job->seq);
}

static void tell_samples(const struct reuse_job *job, const struct engine_result *result) {
  const struct reuse_listener *listener = &job->reuse->options.listener;

  if (result->prefill.computed_tokens > 0 && listener->prefill_sample != NULL) {
    listener->prefill_sample(listener->ctx, job->request.lane, result->prefill.computed_tokens,
                             result->prefill.cached_tokens, (double)result->prefill.prefill_us / 1e6);
  }
  if (result->output_tokens > 1 && listener->decode_sample != NULL) {
    listener->decode_sample(listener->ctx, result->output_tokens - 1, (double)result->decode_us / 1e6);
  }
}

static void take_result(struct reuse_job *job, const struct engine_result *result) {
  retrieval_release(&job->retrieval, job->reuse->depot);
  take_prefill(job, &result->prefill);
  job->result.stop = result->stop;
  job->result.stop_index = result->stop_index;
  job->result.output_tokens = result->output_tokens;
  job->result.output = result->output;
  job->result.decode_us = result->decode_us;
  settle_sequence(job, result);
  tell_samples(job, result);
  reuse_job_set_phase(job, REUSE_ENDED);
}

static void on_done(void *ctx, const struct engine_result *result) {
  struct reuse_job *job = ctx;
  struct reuse *reuse = job->reuse;

  take_result(job, result);
  job->sink.done(job->sink_ctx, &job->result);
  reuse_job_destroy(&job);
  reuse_step(reuse);
}

static void on_failed(void *ctx, enum status status, const struct error *error, bool is_retry_safe,
                      const struct engine_result *result) {
  struct reuse_job *job = ctx;
  struct reuse *reuse = job->reuse;

  take_result(job, result);
  job->sink.failed(job->sink_ctx, status, error, is_retry_safe,
                   status == STATUS_CANCELLED && job->is_taken_over && !job->is_cancelled, &job->result);
  reuse_job_destroy(&job);
  reuse_step(reuse);
}

static const struct engine_sink sink = {.restored = on_restored,
                                        .prefilled = on_prefilled,
                                        .first_logits = on_logits,
                                        .token = on_token,
                                        .done = on_done,
                                        .failed = on_failed};

/* ── placing ── */

/* Where a job is to run and what it begins with. */
struct choice {
  uint32_t seq;      /* SEQUENCE_NONE: all have jobs */
  uint32_t keep;     /* tokens that stay in seq … */
  uint32_t load;     /* … or, > 0, that are loaded from RAM instead */
  uint32_t device;   /* most that any idle sequence has ready */
  uint32_t ram, all; /* ready in RAM; with what SSD has, too */
};

static bool is_exact(const struct reuse_job *job) {
  return job->request.mode == REUSE_EXACT || job->request.lane == LANE_SPECULATIVE;
}

static uint32_t stored_reusable(const struct reuse_job *job, uint32_t tokens) {
  return sequence_reusable(tokens, tokens, job->request.n_tokens, is_exact(job), job->request.output_tokens_max > 0);
}

/* Looks at the stores once; later only at what has been brought to RAM meanwhile. */
static void find_stored(struct reuse_job *job, struct choice *choice) {
  struct reuse *reuse = job->reuse;
  const struct reuse_request *request = &job->request;
  bool has_output = request->output_tokens_max > 0;

  if (reuse->depot == NULL || request->mode == REUSE_OFF) {
    return;
  }
  if (!job->has_found) {
    retrieval_find(&job->retrieval, reuse->depot, reuse->engine, request->tenant, request->tokens,
                   has_output ? request->n_tokens : request->n_tokens + 1, is_exact(job));
    job->has_found = true;
  } else if (job->retrieval.is_pinned) {
    retrieval_look(&job->retrieval, reuse->depot, reuse->engine);
  }
  choice->ram = stored_reusable(job, job->retrieval.ram_tokens);
  choice->all = stored_reusable(job, job->retrieval.match.tokens);
  choice->ram = choice->ram < REUSE_LEAST_TOKENS ? 0 : choice->ram;
}

static uint32_t find_victim(struct reuse *reuse) {
  for (uint32_t i = 0; i < reuse->table.count; i++) {
    if (reuse->table.items[i].state == SEQUENCE_IDLE) {
      keeper_look(reuse, i);
    }
  }
  return sequences_victim(&reuse->table);
}

/* From the device where it has about as much as RAM and losing the rest of that sequence costs nothing; else from RAM,
 * into the same sequence if that holds little else, or into the one that is missed least. */
static struct choice choose(struct reuse_job *job) {
  struct reuse *reuse = job->reuse;
  const struct reuse_request *request = &job->request;
  const struct sequence_ask ask = {.salt = request->salt,
                                   .tokens = request->tokens,
                                   .n = request->n_tokens,
                                   .is_exact = is_exact(job),
                                   .has_output = request->output_tokens_max > 0,
                                   .needs_whole = !reuse->engine->caps.drops_suffix};
  struct choice choice = {.seq = SEQUENCE_NONE};
  uint32_t match = SEQUENCE_NONE, victim, rest = 0;

  find_stored(job, &choice);
  if (request->mode != REUSE_OFF) {
    match = sequences_match(&reuse->table, &ask, &choice.device);
  }
  victim = find_victim(reuse);
  if (match != SEQUENCE_NONE) {
    rest = reuse->table.items[match].n_tokens - choice.device;
  }
  if (choice.device < REUSE_LEAST_TOKENS && rest >= REUSE_GAIN_TOKENS) {
    match = SEQUENCE_NONE;
    choice.device = 0;
  }
  if (choice.ram >= choice.device + REUSE_GAIN_TOKENS || (choice.device == 0 && choice.ram > 0)) {
    choice.seq = match != SEQUENCE_NONE && rest < REUSE_GAIN_TOKENS ? match : victim;
    choice.load = choice.ram;
  } else if (match != SEQUENCE_NONE && rest >= REUSE_GAIN_TOKENS && victim != match && choice.ram > 0 &&
             choice.ram + REUSE_GAIN_TOKENS > choice.device) {
    choice.seq = victim;
    choice.load = choice.ram;
  } else if (match != SEQUENCE_NONE) {
    choice.seq = match;
    choice.keep = choice.device;
  } else {
    choice.seq = victim;
  }
  return choice;
}

/* A preparation that has more of this prompt than anything else gives up its sequence, with all it has finished; so
 * does one whose sequence is the only one left. */
static bool takes_over(struct reuse_job *job, const struct choice *choice) {
  struct reuse *reuse = job->reuse;
  struct reuse_job *preparation = reuse->speculative;
  uint32_t common = 0, best = choice->device > choice->all ? choice->device : choice->all;

  if (job->request.lane != LANE_REAL || preparation == NULL) {
    return false;
  }
  if (preparation->phase == REUSE_RUNNING && job->request.mode != REUSE_OFF &&
      memcmp(preparation->request.salt, job->request.salt, sizeof(job->request.salt)) == 0) {
    uint32_t done = engine_job_tokens(reuse->engine, preparation->job);

    common = tokens_common(preparation->request.tokens, preparation->request.n_tokens, job->request.tokens,
                           job->request.n_tokens);
    common = stored_reusable(job, common < done ? common : done);
  }
  if (common >= best + REUSE_GAIN_TOKENS) {
    preparation->is_taken_over = true;
  } else if (choice->seq != SEQUENCE_NONE) {
    return false;
  } else {
    preparation->is_cancelled = true;
  }
  reuse_job_set_phase(job, REUSE_TAKING_OVER);
  if (preparation->phase == REUSE_RUNNING) {
    engine_cancel(reuse->engine, preparation->job);
  }
  return true;
}

static void on_fetched(void *ctx, uint64_t bytes, uint64_t us) {
  struct fetch_order *order = ctx;
  struct reuse_job *job = order->job;
  const struct reuse_listener *listener;

  free(order);
  if (job == NULL) {
    return;
  }
  listener = &job->reuse->options.listener;
  job->order = NULL;
  job->has_fetched = true;
  job->fetch_us = us;
  if (bytes > 0 && listener->restore_sample != NULL) {
    listener->restore_sample(listener->ctx, TIER_SSD, bytes, (double)us / 1e6);
  }
  reuse_job_place(job);
}

static bool begins_fetch(struct reuse_job *job) {
  struct fetch_order *order = malloc(sizeof(*order));

  job->has_fetched = true;
  if (order == NULL) {
    return false;
  }
  order->job = job;
  if (depot_fetch(job->reuse->depot, &job->retrieval.match, on_fetched, order) != STATUS_OK) {
    free(order);
    return false;
  }
  job->order = order;
  reuse_job_set_phase(job, REUSE_FETCHING);
  return true;
}

/* What SSD has beyond everything faster comes to RAM first, if there is room. */
static bool fetches(struct reuse_job *job, const struct choice *choice) {
  struct reuse *reuse = job->reuse;
  const struct reuse_listener *listener = &reuse->options.listener;
  uint32_t best = choice->device > choice->ram ? choice->device : choice->ram;
  uint64_t bytes;

  if (job->has_fetched || choice->all < best + REUSE_GAIN_TOKENS) {
    return false;
  }
  bytes = depot_fetch_bytes(reuse->depot, &job->retrieval.match);
  if (bytes <= depot_room(reuse->depot) || listener->make_room == NULL) {
    return begins_fetch(job);
  }
  reuse_job_set_phase(job, REUSE_FETCHING);
  job->room_ticket = ++reuse->ticket_last;
  listener->make_room(listener->ctx, job->room_ticket, bytes, job->request.tenant, job->request.task);
  return true;
}

void reuse_job_room_made(struct reuse_job *job, enum status status) {
  job->room_ticket = 0;
  if (status != STATUS_OK) {
    job->has_fetched = true;
  }
  if (status != STATUS_OK || !begins_fetch(job)) {
    reuse_job_place(job);
  }
}

/* What the sequence holds beyond what is kept is copied to RAM first, if it would be lost. */
static bool clears(struct reuse_job *job, const struct choice *choice) {
  struct sequences *table = &job->reuse->table;

  if (job->has_cleared || job->reuse->depot == NULL ||
      sequences_unsaved(table, choice->seq, choice->load > 0 ? 0 : choice->keep) < REUSE_GAIN_TOKENS) {
    return false;
  }
  if (table->items[choice->seq].refused_tokens == sequences_savable(table, choice->seq)) {
    return false;
  }
  reuse_job_set_phase(job, REUSE_CLEARING);
  keeper_clear(job->reuse, choice->seq, job);
  return true;
}

static void count_cached(struct reuse_job *job, const struct choice *choice, const struct sequence *sequence) {
  struct reuse_prefill *prefill = &job->result.prefill;

  *prefill = (struct reuse_prefill){.queue_us = clock_monotonic_us() - job->submitted_us - job->fetch_us,
                                    .restore_us = job->fetch_us,
                                    .cached_tokens = choice->load > 0 ? choice->load : choice->keep};
  if (choice->load > 0) {
    retrieval_count(&job->retrieval, choice->load, prefill->hit_tokens);
    prefill->task = job->retrieval.match.task;
  } else {
    prefill->hit_tokens[TIER_DEVICE] = choice->keep;
    prefill->task = sequence->task_from < choice->keep ? sequence->task : 0;
  }
  for (int tier = 0; tier < TIER_COUNT; tier++) {
    if (prefill->hit_tokens[tier] > prefill->hit_tokens[prefill->tier]) {
      prefill->tier = (enum tier)tier;
    }
  }
}

static void launch(struct reuse_job *job, const struct choice *choice) {
  struct reuse *reuse = job->reuse;
  struct sequence *sequence = &reuse->table.items[choice->seq];
  const struct reuse_request *request = &job->request;
  struct engine_request work = {.lane = request->lane,
                                .seq = choice->seq,
                                .keep_tokens = choice->keep,
                                .tokens = request->tokens,
                                .n_tokens = request->n_tokens,
                                .is_exact = is_exact(job),
                                .output_tokens_max = request->output_tokens_max,
                                .sampling = request->sampling,
                                .stops = request->stops,
                                .n_stops = request->n_stops,
                                .wants_logits = request->wants_logits};
  enum status status;

  if (choice->load > 0) {
    work.restore = job->retrieval.ranges;
    work.n_restore = job->retrieval.n_ranges;
    work.restore_tokens = choice->load;
    work.canonical_tokens = job->retrieval.canonical_tokens;
  } else {
    retrieval_release(&job->retrieval, reuse->depot);
    work.canonical_tokens = sequence->canonical_tokens < choice->keep ? sequence->canonical_tokens : choice->keep;
  }
  count_cached(job, choice, sequence);
  status = engine_submit(reuse->engine, &work, &sink, job, &job->job, &job->error);
  if (status != STATUS_OK) {
    reuse_job_fail(job, status, "engine: refused the request");
    return;
  }
  job->seq = choice->seq;
  job->is_restored = choice->load > 0;
  sequence->state = SEQUENCE_BUSY;
  sequence->used_us = clock_monotonic_us();
  sequence_cut(sequence, choice->keep);
  reuse_job_set_phase(job, REUSE_RUNNING);
  reuse_tell_residence(reuse, choice->seq);
  if (!job->is_submitting) {
    reuse_job_tell_started(job);
  }
}

void reuse_job_place(struct reuse_job *job) {
  struct choice choice;

  if (job->is_cancelled || job->is_taken_over) {
    reuse_job_fail(job, STATUS_CANCELLED, "the request was cancelled");
    return;
  }
  if (job->request.deadline_us > 0 && clock_monotonic_us() > job->request.deadline_us) {
    reuse_job_fail(job, STATUS_TIMEOUT, "no sequence was free in time");
    return;
  }
  choice = choose(job);
  if (takes_over(job, &choice) || fetches(job, &choice)) {
    return;
  }
  if (choice.seq == SEQUENCE_NONE) {
    reuse_job_fail(job, STATUS_BUSY, "all sequences have jobs");
    return;
  }
  if (clears(job, &choice)) {
    return;
  }
  launch(job, &choice);
}
