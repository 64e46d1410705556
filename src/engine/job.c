#include "engine/job.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/model.h"
#include "engine/sampler.h"
#include "engine/split.h"

enum { PIECE_SIZE_MAX = 512 /* bytes of one token's text; longer ones are cut there */ };

/* An event of one sampled token; owns its text. */
struct token_event {
  struct outbox_event event;
  struct engine_job *job;
  struct engine_token token;
  struct token_probability top[SAMPLING_TOP_MAX];
  char text[]; /* [token.text_size] */
};

#define JOB_OF(event_pointer, member)                                                                                  \
  ((struct engine_job *)(void *)((char *)(event_pointer)-offsetof(struct engine_job, member)))

/* ── loop thread ── */

static enum status copy_bytes(const void *from, size_t size, void **ret_copy) {
  if (size == 0) {
    *ret_copy = NULL;
    return STATUS_OK;
  }
  *ret_copy = malloc(size);
  if (*ret_copy == NULL) {
    return STATUS_NO_MEMORY;
  }
  memcpy(*ret_copy, from, size);
  return STATUS_OK;
}

static enum status copy_request(struct engine_job *job, const struct engine_request *request) {
  struct sampling *sampling = NULL;
  void *tokens = NULL, *restore = NULL;
  enum status status = copy_bytes(request->tokens, request->n_tokens * sizeof(*request->tokens), &tokens);

  if (status == STATUS_OK) {
    status = copy_bytes(request->restore, request->n_restore * sizeof(*request->restore), &restore);
  }
  if (status == STATUS_OK && request->sampling != NULL && request->output_tokens_max > 0) {
    status = sampling_copy(request->sampling, &sampling);
  }
  job->request = *request;
  job->request.tokens = tokens;
  job->request.restore = restore;
  job->request.sampling = sampling;
  job->request.stops = NULL; /* the transcript has them */
  return status;
}

enum status job_create(const struct engine_request *request, const struct engine_sink *sink, void *sink_ctx,
                       struct engine_job **ret_job, struct error *error) {
  struct engine_job *job = calloc(1, sizeof(*job));
  enum status status;

  if (job == NULL) {
    return error_set(error, STATUS_NO_MEMORY, "engine: no memory for a job");
  }
  atomic_init(&job->is_cancelled, false);
  atomic_init(&job->progress, 0);
  job->sink = *sink;
  job->sink_ctx = sink_ctx;
  status = transcript_init(&job->transcript, request->stops, request->n_stops);
  if (status != STATUS_OK) {
    (void)error_set(error, status, "engine: at most %d stop texts of 1 to %d bytes each are served",
                    TRANSCRIPT_STOPS_MAX, TRANSCRIPT_STOP_SIZE_MAX);
    goto out;
  }
  status = copy_request(job, request);
  if (status == STATUS_OK && request->output_tokens_max > 0) {
    job->output = malloc(request->output_tokens_max * sizeof(*job->output));
    status = job->output == NULL ? STATUS_NO_MEMORY : STATUS_OK;
  }
  if (status != STATUS_OK) {
    (void)error_set(error, status, "engine: no memory for a job of %u tokens", (unsigned)request->n_tokens);
    goto out;
  }
  /* Until it has begun, nothing of the prompt lies in the sequence but what is to be kept there. */
  job->position = request->n_restore > 0 ? 0 : request->keep_tokens;
  job->result.prefill.cached_tokens = job->position;
  job->result.prefill.canonical_tokens =
      request->canonical_tokens < job->position ? request->canonical_tokens : job->position;
  job->result.output = job->output;
  job->result.stop = STOP_NONE;
  *ret_job = job;
  job = NULL;
out:
  job_destroy(&job);
  return status;
}

void job_destroy(struct engine_job **job) {
  struct engine_job *gone = *job;
  struct sampling *sampling;
  void *tokens, *restore;

  *job = NULL;
  if (gone == NULL) {
    return;
  }
  /* The job owns these copies; the request's type only promises not to write through them. */
  memcpy(&tokens, &gone->request.tokens, sizeof(tokens));
  memcpy(&restore, &gone->request.restore, sizeof(restore));
  memcpy(&sampling, &gone->request.sampling, sizeof(sampling));
  free(tokens);
  free(restore);
  sampling_free(&sampling);
  sampler_destroy(&gone->sampler);
  transcript_release(&gone->transcript);
  free(gone->output);
  free(gone->logits);
  free(gone);
}

static void deliver_restored(struct outbox_event *event) {
  struct engine_job *job = JOB_OF(event, restored_event);

  if (job->sink.restored != NULL) {
    job->sink.restored(job->sink_ctx, job->restored_tokens, job->restored_bytes, job->result.prefill.restore_us);
  }
}

static void deliver_prefilled(struct outbox_event *event) {
  struct engine_job *job = JOB_OF(event, prefilled_event);

  if (job->sink.prefilled != NULL) {
    job->sink.prefilled(job->sink_ctx, &job->prefilled);
  }
}

static void deliver_logits(struct outbox_event *event) {
  struct engine_job *job = JOB_OF(event, logits_event);

  if (job->sink.first_logits != NULL) {
    job->sink.first_logits(job->sink_ctx, job->logits, job->n_logits);
  }
}

static void deliver_token(struct outbox_event *event) {
  struct token_event *token = (struct token_event *)(void *)event;

  if (token->job->sink.token != NULL) {
    token->job->sink.token(token->job->sink_ctx, &token->token);
  }
  free(token);
}

static void deliver_end(struct outbox_event *event) {
  struct engine_job *job = JOB_OF(event, end_event);

  job->ended(job->ended_ctx, job);
  if (job->status == STATUS_OK) {
    job->sink.done(job->sink_ctx, &job->result);
  } else {
    job->sink.failed(job->sink_ctx, job->status, &job->error, job->result.output_tokens == 0, &job->result);
  }
  job_destroy(&job);
}

void job_abandon(struct engine_job *job) {
  job->phase = JOB_ENDED;
  job->status = error_set(&job->error, STATUS_CLOSED, "engine: closed before the request was done");
  job->result.stop = STOP_ABORTED;
  job->result.seq_tokens = job->position;
  deliver_end(&job->end_event);
}

/* ── engine thread ── */

void job_end(struct engine_job *job, enum status status) {
  assert(job->phase != JOB_ENDED);
  job->phase = JOB_ENDED;
  job->status = status;
  if (status != STATUS_OK) {
    job->result.stop = status == STATUS_CANCELLED ? STOP_ABORTED : STOP_ERROR;
  }
  if (status == STATUS_CANCELLED) {
    (void)error_set(&job->error, status, "engine: the request was cancelled");
  }
}

void job_part(struct engine_job *job, const struct job_place *place) {
  assert(job->phase == JOB_ENDED);
  job->result.seq_tokens = job->position;
  job->end_event.deliver = deliver_end;
  outbox_push(place->outbox, &job->end_event);
}

static void empty_sequence(const struct job_place *place, uint32_t seq) {
  bool is_empty = model_seq_remove(place->model, seq, 0);

  assert(is_empty);
  (void)is_empty;
}

static void account_prefill(struct engine_job *job, const struct job_place *place) {
  uint64_t now_us = place->now_us();

  job->result.prefill.prefill_us += now_us - job->turn_begin_us;
  job->turn_begin_us = now_us;
}

static void announce_prefilled(struct engine_job *job, const struct job_place *place) {
  account_prefill(job, place);
  job->result.prefill.end_us = job->turn_begin_us;
  job->prefilled = job->result.prefill;
  job->prefilled_event.deliver = deliver_prefilled;
  outbox_push(place->outbox, &job->prefilled_event);
}

/* How many of the ranges hold what is to be restored: a longer state is cut short. */
static uint32_t ranges_needed(const struct engine_request *request) {
  uint32_t n = 0;

  while (n < request->n_restore && request->restore[n].from < request->restore_tokens) {
    n++;
  }
  return n;
}

/* Without the restored state the prompt is computed; the request succeeds later, not never. */
static void restore(struct engine_job *job, const struct job_place *place) {
  struct engine_request *request = &job->request;
  uint32_t n = ranges_needed(request);
  uint64_t begin_us = place->now_us();
  struct error ignored;

  if (n > 0 && model_state_load(place->model, request->seq, request->restore, n, request->restore_tokens, &ignored) ==
                   STATUS_OK) {
    job->position = request->restore_tokens;
    for (uint32_t i = 0; i < n; i++) {
      job->restored_bytes += request->restore[i].size;
    }
  } else {
    empty_sequence(place, request->seq);
    job->position = 0;
  }
  job->restored_tokens = job->position;
  job->result.prefill.restore_us = place->now_us() - begin_us;
  job->restored_event.deliver = deliver_restored;
  outbox_push(place->outbox, &job->restored_event);
}

void job_begin(struct engine_job *job, const struct job_place *place) {
  const struct engine_request *request = &job->request;

  job->phase = JOB_PREFILL;
  job->result.prefill.first_us = place->now_us();
  if (request->output_tokens_max > 0) {
    enum status status = sampler_create(place->model, request->sampling, &job->sampler, &job->error);

    if (status != STATUS_OK) {
      job_end(job, status);
      return;
    }
    sampler_accept_prompt(job->sampler, request->tokens, request->n_tokens);
  }
  if (request->n_restore > 0) {
    restore(job, place);
  } else if (model_seq_remove(place->model, request->seq, request->keep_tokens)) {
    job->position = model_seq_tokens(place->model, request->seq);
  } else {
    empty_sequence(place, request->seq);
    job->position = 0;
  }
  atomic_store(&job->progress, job->position);
  job->result.prefill.cached_tokens = job->position;
  job->result.prefill.canonical_tokens =
      request->canonical_tokens < job->position ? request->canonical_tokens : job->position;
}

/* Counts what one call added to the sequence, even where it was aborted. */
static void take_progress(struct engine_job *job, const struct job_place *place, bool is_canonical) {
  struct engine_prefill *prefill = &job->result.prefill;
  uint32_t position = model_seq_tokens(place->model, job->request.seq);

  assert(position >= job->position);
  prefill->computed_tokens += position - job->position;
  if (is_canonical && prefill->canonical_tokens == job->position) {
    prefill->canonical_tokens = position;
  }
  job->position = position;
  atomic_store(&job->progress, position);
}

static enum status append_token(struct engine_job *job, const struct job_place *place, int32_t id, float logprob,
                                const struct token_probability *top, uint32_t n_top, const struct buffer *text) {
  struct token_event *event = malloc(sizeof(*event) + text->size);

  if (event == NULL) {
    return error_set(&job->error, STATUS_NO_MEMORY, "engine: no memory for a token");
  }
  event->event.deliver = deliver_token;
  event->job = job;
  event->token = (struct engine_token){.id = id,
                                       .text = event->text,
                                       .text_size = (uint32_t)text->size,
                                       .logprob = logprob,
                                       .top = n_top > 0 ? event->top : NULL,
                                       .n_top = n_top};
  if (n_top > 0) {
    memcpy(event->top, top, n_top * sizeof(*top));
  }
  if (text->size > 0) {
    memcpy(event->text, text->data, text->size);
  }
  outbox_push(place->outbox, &event->event);
  return STATUS_OK;
}

/* Why the answer ends with the token just taken; STOP_NONE: it goes on. */
static enum stop_reason reason_to_stop(const struct engine_job *job, const struct job_place *place, int32_t token,
                                       uint32_t stop) {
  if (model_token_is_end(place->model, token)) {
    return STOP_END_TURN;
  }
  if (stop != TRANSCRIPT_NO_STOP) {
    return STOP_SEQUENCE;
  }
  if (job->result.output_tokens == job->request.output_tokens_max ||
      job->position >= model_facts(place->model)->context_tokens) {
    return STOP_LENGTH;
  }
  return STOP_NONE;
}

/* Takes the token that was sampled: shows its text, and ends the job where the answer ends. */
static enum status take_token(struct engine_job *job, const struct job_place *place, int32_t token, float logprob,
                              const struct token_probability *top, uint32_t n_top) {
  char piece[PIECE_SIZE_MAX];
  struct buffer text;
  uint32_t stop = TRANSCRIPT_NO_STOP;
  enum stop_reason reason;
  enum status status = STATUS_OK;
  bool is_shown;

  buffer_init(&text, 0);
  job->output[job->result.output_tokens++] = token;
  if (!model_token_is_end(place->model, token)) {
    bool shows_special = sampling_shows(job->request.sampling, token);
    size_t size = model_token_piece(place->model, token, shows_special, piece, sizeof(piece));

    status = transcript_feed(&job->transcript, piece, size < sizeof(piece) ? size : sizeof(piece), &text, &stop);
  }
  reason = reason_to_stop(job, place, token, stop);
  if (status == STATUS_OK && reason != STOP_NONE && reason != STOP_SEQUENCE) {
    status = transcript_finish(&job->transcript, &text);
  }
  is_shown = reason != STOP_END_TURN && reason != STOP_SEQUENCE;
  if (status == STATUS_OK && (is_shown || text.size > 0)) {
    status =
        append_token(job, place, is_shown ? token : -1, is_shown ? logprob : NAN, top, is_shown ? n_top : 0, &text);
  }
  buffer_release(&text);
  if (status != STATUS_OK) {
    return error_set(&job->error, status, "engine: no memory for the text of an answer");
  }
  if (reason != STOP_NONE) {
    job->result.stop = reason;
    job->result.stop_index = reason == STOP_SEQUENCE ? stop : 0;
    job_end(job, STATUS_OK);
  }
  job->token = token;
  return STATUS_OK;
}

static void sample(struct engine_job *job, const struct job_place *place, uint32_t row) {
  struct token_probability top[SAMPLING_TOP_MAX];
  uint32_t n_top = 0;
  int32_t token = 0;
  float logprob = NAN;
  enum status status = sampler_sample(job->sampler, place->model, row, &token, &logprob, top, &n_top, &job->error);

  if (status == STATUS_OK) {
    status = take_token(job, place, token, logprob, top, n_top);
  }
  if (status != STATUS_OK) {
    job_end(job, status);
  }
}

static void show_logits(struct engine_job *job, const struct job_place *place) {
  const float *logits = model_logits(place->model, 0);
  uint32_t n = model_facts(place->model)->n_vocab;

  job->logits = logits != NULL ? malloc(n * sizeof(*logits)) : NULL;
  if (job->logits == NULL) {
    return;
  }
  memcpy(job->logits, logits, n * sizeof(*logits));
  job->n_logits = n;
  job->logits_event.deliver = deliver_logits;
  outbox_push(place->outbox, &job->logits_event);
}

/* The last prompt token, in a call of its own, and the first token of the answer. */
static enum status finish_prompt(struct engine_job *job, const struct job_place *place) {
  const struct engine_request *request = &job->request;
  enum status status =
      model_decode(place->model, request->seq, job->position, request->tokens + job->position, 1, true, &job->error);

  take_progress(job, place, false);
  if (status != STATUS_OK) {
    return status;
  }
  job->phase = JOB_DECODE;
  announce_prefilled(job, place);
  if (request->wants_logits) {
    show_logits(job, place);
  }
  sample(job, place, 0);
  return STATUS_OK;
}

static enum status compute_piece(struct engine_job *job, const struct job_place *place, uint32_t whole) {
  const struct engine_request *request = &job->request;
  uint32_t depth = job->position;
  uint32_t limit = pace_tokens(place->pace, depth, place->piece_us_max);
  uint32_t n = split_next(whole - depth, limit < MODEL_CALL_TOKENS_MAX ? limit : MODEL_CALL_TOKENS_MAX);
  uint64_t begin_us = place->now_us();
  enum status status = model_decode(place->model, request->seq, depth, request->tokens + depth, n, false, &job->error);

  take_progress(job, place, split_is_canonical(n));
  if (status == STATUS_OK) {
    pace_record(place->pace, depth, n, place->now_us() - begin_us);
  }
  return status;
}

void job_prefill(struct engine_job *job, const struct job_place *place) {
  const struct engine_request *request = &job->request;
  bool has_output = request->output_tokens_max > 0;
  uint32_t whole = has_output ? request->n_tokens - 1 : request->n_tokens;
  enum status status = STATUS_OK;

  assert(job->phase == JOB_PREFILL);
  job->turn_begin_us = place->now_us();
  if (job->position < whole) {
    status = compute_piece(job, place, whole);
  }
  if (status == STATUS_OK && job->position == whole) {
    if (has_output) {
      status = finish_prompt(job, place);
    } else {
      announce_prefilled(job, place);
      job_end(job, STATUS_OK);
    }
  }
  if (job->phase == JOB_PREFILL) {
    account_prefill(job, place);
  } else {
    job->result.decode_us += place->now_us() - job->turn_begin_us; /* the first sample */
  }
  /* An aborted call is ordinary: what it finished stays, the job goes on from there unless its own owner has gone. */
  if (status != STATUS_OK && (status != STATUS_CANCELLED || atomic_load(&job->is_cancelled))) {
    job_end(job, status);
  }
}

void jobs_decode(struct engine_job *const *jobs, uint32_t n, const struct job_place *place) {
  uint32_t seqs[MODEL_SEQUENCES_MAX], positions[MODEL_SEQUENCES_MAX];
  int32_t tokens[MODEL_SEQUENCES_MAX];
  uint64_t begin_us = place->now_us(), us;
  struct error error = {{0}};
  enum status status;

  assert(n > 0 && n <= MODEL_SEQUENCES_MAX);
  for (uint32_t i = 0; i < n; i++) {
    seqs[i] = jobs[i]->request.seq;
    positions[i] = jobs[i]->position;
    tokens[i] = jobs[i]->token;
  }
  status = model_decode_step(place->model, n, seqs, tokens, positions, &error);
  for (uint32_t i = 0; i < n; i++) {
    jobs[i]->position = model_seq_tokens(place->model, seqs[i]);
    atomic_store(&jobs[i]->progress, jobs[i]->position);
    if (status == STATUS_OK) {
      sample(jobs[i], place, i);
    } else {
      jobs[i]->error = error;
      job_end(jobs[i], status);
    }
  }
  us = place->now_us() - begin_us;
  for (uint32_t i = 0; i < n; i++) {
    jobs[i]->result.decode_us += us / n;
  }
}
