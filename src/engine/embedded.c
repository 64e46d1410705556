#include "engine/embedded.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "engine/job.h"
#include "engine/model.h"
#include "engine/pace.h"
#include "os/clock.h"

enum { JOBS_MAX_DEFAULT = 256, EVENTS_PENDING_MAX = 4096, PIECE_US_MAX = 250000, PIECE_US_MAX_GPU = 50000 };

/* A copy of ranges of an idle sequence. */
struct copy {
  struct command command; /* first member */
  struct outbox_event event;
  struct copy *next; /* among the engine thread's copies, oldest first */
  struct embedded *embedded;
  uint32_t seq;
  uint32_t end; /* largest `to` of the targets */
  bool is_urgent;
  engine_saved *done;
  void *done_ctx;
  enum status status;
  uint64_t bytes, us;
  uint32_t n;
  struct engine_target targets[]; /* [n] */
};

struct drop {
  struct command command; /* first member */
  uint32_t seq;
};

struct embedded {
  struct engine engine; /* first member */
  struct job_place place;
  pthread_t thread;

  /* Loop thread's. */
  uint32_t jobs_max;
  uint32_t n_jobs; /* submitted and not ended, by lane in n_lane */
  uint32_t n_lane[2];
  uint32_t n_copies; /* asked for and not done */
  bool *has_job;     /* [sequences] */

  /* Between the threads. */
  pthread_mutex_t lock; /* guards the inbox and what `load` reads */
  pthread_cond_t has_work;
  struct command *inbox, **inbox_end;
  uint64_t idle_since_us, lane_us[2], save_us;
  atomic_bool is_stopping;
  atomic_uint real_pending; /* real jobs and urgent copies submitted and not ended: speculation gives way */

  /* Engine thread's. */
  struct engine_job **jobs; /* [n_active] in order of arrival, room for jobs_max */
  uint32_t n_active;
  struct copy *copies;
  struct pace pace;
  struct engine_job *running; /* whose call runs now, NULL for shared calls */
  uint64_t turns;
};

static struct embedded *embedded_of(struct engine *engine) {
  return (struct embedded *)(void *)engine;
}

/* ── engine thread ── */

/* Asked by libllama inside a call. */
static bool is_call_unwanted(void *ctx) {
  const struct embedded *embedded = ctx;
  const struct engine_job *running = embedded->running;

  if (running == NULL) {
    return false;
  }
  return atomic_load(&running->is_cancelled) || atomic_load(&embedded->is_stopping) ||
         (running->request.lane == LANE_SPECULATIVE && atomic_load(&embedded->real_pending) > 0);
}

static void add_time(struct embedded *embedded, uint64_t *sum_us, uint64_t us) {
  pthread_mutex_lock(&embedded->lock);
  *sum_us += us;
  pthread_mutex_unlock(&embedded->lock);
}

static void deliver_copy(struct outbox_event *event) {
  struct copy *copy = (struct copy *)(void *)((char *)event - offsetof(struct copy, event));

  copy->embedded->n_copies--;
  copy->done(copy->done_ctx, copy->status, copy->bytes, copy->us);
  free(copy);
}

static void run_copy(struct embedded *embedded, struct copy *copy) {
  uint64_t begin_us = clock_monotonic_us();
  struct error ignored;

  for (struct copy **link = &embedded->copies; *link != NULL; link = &(*link)->next) {
    if (*link == copy) {
      *link = copy->next;
      break;
    }
  }
  if (copy->n > 0) {
    copy->status = model_state_save(embedded->place.model, copy->seq, copy->targets, copy->n, &ignored);
  }
  for (uint32_t i = 0; copy->status == STATUS_OK && i < copy->n; i++) {
    copy->bytes += copy->targets[i].size;
  }
  copy->us = clock_monotonic_us() - begin_us;
  add_time(embedded, &embedded->save_us, copy->us);
  if (copy->is_urgent) {
    atomic_fetch_sub(&embedded->real_pending, 1);
  }
  copy->event.deliver = deliver_copy;
  outbox_push(embedded->place.outbox, &copy->event);
}

/* Does the copies that a job or a drop would otherwise destroy the source of. */
static void run_copies_beyond(struct embedded *embedded, uint32_t seq, uint32_t keep_tokens) {
  struct copy *copy = embedded->copies;

  while (copy != NULL) {
    struct copy *next = copy->next;

    if (copy->seq == seq && copy->end > keep_tokens) {
      run_copy(embedded, copy);
    }
    copy = next;
  }
}

static void take_job(struct command *command, void *engine) {
  struct embedded *embedded = engine;

  embedded->jobs[embedded->n_active++] = (struct engine_job *)(void *)command;
}

static void take_copy(struct command *command, void *engine) {
  struct embedded *embedded = engine;
  struct copy **link = &embedded->copies;

  while (*link != NULL) {
    link = &(*link)->next;
  }
  *link = (struct copy *)(void *)command;
}

static void take_drop(struct command *command, void *engine) {
  struct embedded *embedded = engine;
  struct drop *drop = (struct drop *)(void *)command;
  bool is_empty;

  run_copies_beyond(embedded, drop->seq, 0);
  is_empty = model_seq_remove(embedded->place.model, drop->seq, 0);
  assert(is_empty);
  (void)is_empty;
  free(drop);
}

/* Sends the last events of ended jobs and forgets them, in order of arrival. */
static void part_ended(struct embedded *embedded) {
  uint32_t n = 0;

  for (uint32_t i = 0; i < embedded->n_active; i++) {
    struct engine_job *job = embedded->jobs[i];

    if (job->phase != JOB_ENDED) {
      embedded->jobs[n++] = job;
      continue;
    }
    if (job->request.lane == LANE_REAL) {
      atomic_fetch_sub(&embedded->real_pending, 1);
    }
    job_part(job, &embedded->place);
  }
  embedded->n_active = n;
}

static void end_cancelled(struct embedded *embedded) {
  for (uint32_t i = 0; i < embedded->n_active; i++) {
    struct engine_job *job = embedded->jobs[i];

    if (job->phase != JOB_ENDED && atomic_load(&job->is_cancelled)) {
      job_end(job, STATUS_CANCELLED);
    }
  }
}

/* Waits until there is something to do and takes it; false: stop. */
static bool take_work(struct embedded *embedded) {
  struct command *command;

  pthread_mutex_lock(&embedded->lock);
  while (embedded->inbox == NULL && embedded->n_active == 0 && embedded->copies == NULL &&
         !atomic_load(&embedded->is_stopping)) {
    if (embedded->idle_since_us == 0) {
      embedded->idle_since_us = clock_monotonic_us();
    }
    pthread_cond_wait(&embedded->has_work, &embedded->lock);
  }
  embedded->idle_since_us = 0;
  if (atomic_load(&embedded->is_stopping)) {
    pthread_mutex_unlock(&embedded->lock);
    return false;
  }
  command = embedded->inbox;
  embedded->inbox = NULL;
  embedded->inbox_end = &embedded->inbox;
  pthread_mutex_unlock(&embedded->lock);
  while (command != NULL) {
    struct command *next = command->next;

    command->take(command, embedded);
    command = next;
  }
  return true;
}

static void decode_jobs(struct embedded *embedded, struct engine_job *const *jobs, uint32_t n) {
  uint64_t begin_us = clock_monotonic_us(), us;
  uint32_t n_real = 0;

  jobs_decode(jobs, n, &embedded->place);
  us = clock_monotonic_us() - begin_us;
  for (uint32_t i = 0; i < n; i++) {
    n_real += jobs[i]->request.lane == LANE_REAL;
  }
  add_time(embedded, &embedded->lane_us[LANE_REAL], us * n_real / n);
  add_time(embedded, &embedded->lane_us[LANE_SPECULATIVE], us * (n - n_real) / n);
}

/* One decode step of every answer of the lane: in one call, but alone where sharing would change an exact one's bits.
 */
static void decode_lane(struct embedded *embedded, enum lane lane) {
  struct engine_job *shared[MODEL_SEQUENCES_MAX];
  bool sharing_changes_bits = model_facts(embedded->place.model)->flash_attention;
  uint32_t n = 0;

  for (uint32_t seq = 0; seq < embedded->engine.caps.sequences; seq++) {
    for (uint32_t i = 0; i < embedded->n_active; i++) {
      struct engine_job *job = embedded->jobs[i];

      if (job->request.seq != seq || job->request.lane != lane || job->phase != JOB_DECODE) {
        continue;
      }
      if (job->request.is_exact && sharing_changes_bits) {
        decode_jobs(embedded, &job, 1);
      } else {
        shared[n++] = job;
      }
    }
  }
  if (n > 0) {
    decode_jobs(embedded, shared, n);
  }
}

/* The job of the lane whose prompt waited longest for its turn; new ones come first. */
static struct engine_job *next_prompt(const struct embedded *embedded, enum lane lane) {
  struct engine_job *best = NULL;

  for (uint32_t i = 0; i < embedded->n_active; i++) {
    struct engine_job *job = embedded->jobs[i];

    if (job->request.lane == lane && (job->phase == JOB_SUBMITTED || job->phase == JOB_PREFILL) &&
        (best == NULL || job->turn < best->turn)) {
      best = job;
    }
  }
  return best;
}

static void run_piece(struct embedded *embedded, struct engine_job *job) {
  uint64_t begin_us = clock_monotonic_us();

  job->turn = ++embedded->turns;
  if (job->phase == JOB_SUBMITTED) {
    run_copies_beyond(embedded, job->request.seq, job->request.n_restore > 0 ? 0 : job->request.keep_tokens);
    begin_us = clock_monotonic_us();
    job_begin(job, &embedded->place);
  }
  embedded->running = job;
  if (job->phase == JOB_PREFILL) {
    job_prefill(job, &embedded->place);
  }
  embedded->running = NULL;
  add_time(embedded, &embedded->lane_us[job->request.lane], clock_monotonic_us() - begin_us);
}

static bool has_real_jobs(const struct embedded *embedded) {
  for (uint32_t i = 0; i < embedded->n_active; i++) {
    if (embedded->jobs[i]->request.lane == LANE_REAL && embedded->jobs[i]->phase != JOB_ENDED) {
      return true;
    }
  }
  return false;
}

static struct copy *next_copy(const struct embedded *embedded, bool only_urgent) {
  for (struct copy *copy = embedded->copies; copy != NULL; copy = copy->next) {
    if (copy->is_urgent || !only_urgent) {
      return copy;
    }
  }
  return NULL;
}

/* One round in the order of DESIGN section 4: decode steps, one piece, then a copy, then speculation. */
static void run_round(struct embedded *embedded) {
  struct engine_job *prompt;
  struct copy *urgent = next_copy(embedded, true);

  if (urgent != NULL) {
    run_copy(embedded, urgent);
  }
  decode_lane(embedded, LANE_REAL);
  prompt = next_prompt(embedded, LANE_REAL);
  if (prompt != NULL) {
    run_piece(embedded, prompt);
    return;
  }
  if (has_real_jobs(embedded) || atomic_load(&embedded->real_pending) > 0) {
    return;
  }
  if (embedded->copies != NULL) {
    run_copy(embedded, embedded->copies);
    return;
  }
  decode_lane(embedded, LANE_SPECULATIVE);
  prompt = next_prompt(embedded, LANE_SPECULATIVE);
  if (prompt != NULL) {
    run_piece(embedded, prompt);
  }
}

static void *run(void *ctx) {
  struct embedded *embedded = ctx;

  while (take_work(embedded)) {
    end_cancelled(embedded);
    part_ended(embedded);
    run_round(embedded);
    part_ended(embedded);
    outbox_wait_room(embedded->place.outbox);
  }
  return NULL;
}

/* ── loop thread ── */

static void send_command(struct embedded *embedded, struct command *command,
                         void (*take)(struct command *command, void *engine)) {
  command->take = take;
  command->next = NULL;
  pthread_mutex_lock(&embedded->lock);
  *embedded->inbox_end = command;
  embedded->inbox_end = &command->next;
  pthread_cond_signal(&embedded->has_work);
  pthread_mutex_unlock(&embedded->lock);
}

static void job_has_ended(void *ctx, struct engine_job *job) {
  struct embedded *embedded = ctx;

  embedded->n_jobs--;
  embedded->n_lane[job->request.lane]--;
  embedded->has_job[job->request.seq] = false;
}

static enum status submit(struct engine *engine, const struct engine_request *request, const struct engine_sink *sink,
                          void *sink_ctx, struct engine_job **ret_job, struct error *error) {
  struct embedded *embedded = embedded_of(engine);
  struct engine_job *job;
  enum status status;

  if (atomic_load(&embedded->is_stopping)) {
    return error_set(error, STATUS_CLOSED, "engine: closing");
  }
  if (embedded->has_job[request->seq]) {
    return error_set(error, STATUS_BUSY, "engine: sequence %u has a job", (unsigned)request->seq);
  }
  if (embedded->n_jobs >= embedded->jobs_max) {
    return error_set(error, STATUS_FULL, "engine: %u jobs are the limit", (unsigned)embedded->jobs_max);
  }
  status = job_create(request, sink, sink_ctx, &job, error);
  if (status != STATUS_OK) {
    return status;
  }
  job->ended = job_has_ended;
  job->ended_ctx = embedded;
  embedded->n_jobs++;
  embedded->n_lane[request->lane]++;
  embedded->has_job[request->seq] = true;
  if (request->lane == LANE_REAL) {
    atomic_fetch_add(&embedded->real_pending, 1);
  }
  *ret_job = job;
  send_command(embedded, &job->command, take_job);
  return STATUS_OK;
}

static void cancel(struct engine *engine, struct engine_job *job) {
  (void)engine;
  atomic_store(&job->is_cancelled, true);
}

static uint32_t progress(const struct engine_job *job) {
  return atomic_load(&job->progress);
}

static uint64_t state_bytes(const struct engine *engine, uint32_t from, uint32_t to) {
  const struct embedded *embedded = (const struct embedded *)(const void *)engine;

  return model_state_bytes(embedded->place.model, from, to);
}

static enum status state_save(struct engine *engine, uint32_t seq, const struct engine_target *targets, uint32_t n,
                              bool is_urgent, engine_saved *done, void *done_ctx) {
  struct embedded *embedded = embedded_of(engine);
  struct copy *copy;

  if (atomic_load(&embedded->is_stopping)) {
    return STATUS_CLOSED;
  }
  if (embedded->has_job[seq]) {
    return STATUS_BUSY;
  }
  if (embedded->n_copies >= embedded->jobs_max) {
    return STATUS_FULL;
  }
  copy = calloc(1, sizeof(*copy) + n * sizeof(*targets));
  if (copy == NULL) {
    return STATUS_NO_MEMORY;
  }
  copy->embedded = embedded;
  copy->seq = seq;
  copy->is_urgent = is_urgent;
  copy->done = done;
  copy->done_ctx = done_ctx;
  copy->n = n;
  for (uint32_t i = 0; i < n; i++) {
    copy->targets[i] = targets[i];
    copy->end = targets[i].to > copy->end ? targets[i].to : copy->end;
  }
  embedded->n_copies++;
  if (is_urgent) {
    atomic_fetch_add(&embedded->real_pending, 1);
  }
  send_command(embedded, &copy->command, take_copy);
  return STATUS_OK;
}

static enum status state_drop(struct engine *engine, uint32_t seq) {
  struct embedded *embedded = embedded_of(engine);
  struct drop *drop;

  if (atomic_load(&embedded->is_stopping)) {
    return STATUS_CLOSED;
  }
  if (embedded->has_job[seq]) {
    return STATUS_BUSY;
  }
  drop = calloc(1, sizeof(*drop));
  if (drop == NULL) {
    return STATUS_NO_MEMORY;
  }
  drop->seq = seq;
  send_command(embedded, &drop->command, take_drop);
  return STATUS_OK;
}

static void load(const struct engine *engine, struct engine_load *ret_load) {
  struct embedded *embedded;

  memcpy(&embedded, &engine, sizeof(embedded)); /* its lock is taken, nothing else of it is changed */
  pthread_mutex_lock(&embedded->lock);
  *ret_load = (struct engine_load){.real = embedded->n_lane[LANE_REAL],
                                   .speculative = embedded->n_lane[LANE_SPECULATIVE],
                                   .idle_since_us = embedded->idle_since_us,
                                   .foreground_seconds = (double)embedded->lane_us[LANE_REAL] / 1e6,
                                   .speculative_seconds = (double)embedded->lane_us[LANE_SPECULATIVE] / 1e6,
                                   .save_seconds = (double)embedded->save_us / 1e6};
  pthread_mutex_unlock(&embedded->lock);
}

static void release(struct embedded *embedded) {
  pthread_cond_destroy(&embedded->has_work);
  pthread_mutex_destroy(&embedded->lock);
  free(embedded->has_job);
  free(embedded->jobs);
  free(embedded);
}

/* What the engine thread did not come to, told to its owners now. */
static void abandon_all(struct embedded *embedded) {
  while (embedded->copies != NULL) {
    struct copy *copy = embedded->copies;

    embedded->copies = copy->next;
    copy->status = STATUS_CLOSED;
    deliver_copy(&copy->event);
  }
  for (uint32_t i = 0; i < embedded->n_active; i++) {
    job_abandon(embedded->jobs[i]);
  }
  embedded->n_active = 0;
}

static void stop(struct engine *engine) {
  struct embedded *embedded = embedded_of(engine);
  struct command *command;

  if (atomic_load(&embedded->is_stopping)) {
    return;
  }
  outbox_stop(embedded->place.outbox);
  pthread_mutex_lock(&embedded->lock);
  atomic_store(&embedded->is_stopping, true);
  pthread_cond_signal(&embedded->has_work);
  pthread_mutex_unlock(&embedded->lock);
  pthread_join(embedded->thread, NULL);
  model_set_abort(embedded->place.model, NULL, NULL);
  command = embedded->inbox;
  embedded->inbox = NULL;
  while (command != NULL) {
    struct command *next = command->next;

    command->take(command, embedded);
    command = next;
  }
  outbox_close(&embedded->place.outbox);
  abandon_all(embedded);
}

static void close_engine(struct engine *engine) {
  release(embedded_of(engine));
}

static const struct engine_ops embedded_ops = {
    .name = "embedded",
    .stop = stop,
    .close = close_engine,
    .submit = submit,
    .cancel = cancel,
    .progress = progress,
    .state_bytes = state_bytes,
    .state_save = state_save,
    .state_drop = state_drop,
    .load = load,
};

static void set_caps(struct engine_caps *caps, const struct model_facts *facts) {
  *caps = (struct engine_caps){
      .sequences = facts->sequences,
      .context_tokens = facts->context_tokens,
      .state = facts->state == MODEL_STATE_NONE ? ENGINE_STATE_NONE : ENGINE_STATE_BYTES,
      .cuts_state = facts->state == MODEL_STATE_CUT,
      .drops_suffix = facts->drops_suffix,
      .aborts_within = facts->is_gpu ? MODEL_CALL_TOKENS_MAX : facts->micro_batch,
      .prefill_output_min = 0,
      .reports_cached = true,
      .is_exact = facts->drops_suffix,
      .has_own_cache = false,
  };
}

enum status embedded_open(const struct embedded_options *options, struct engine **ret_engine, struct error *error) {
  const struct model_facts *facts = model_facts(options->model);
  struct embedded *embedded = calloc(1, sizeof(*embedded));
  enum status status = STATUS_NO_MEMORY;

  if (embedded == NULL) {
    return error_set(error, STATUS_NO_MEMORY, "engine: no memory");
  }
  pthread_mutex_init(&embedded->lock, NULL);
  pthread_cond_init(&embedded->has_work, NULL);
  embedded->engine.ops = &embedded_ops;
  set_caps(&embedded->engine.caps, facts);
  embedded->inbox_end = &embedded->inbox;
  embedded->jobs_max = options->jobs_max > 0 ? options->jobs_max : JOBS_MAX_DEFAULT;
  embedded->jobs = calloc(embedded->jobs_max, sizeof(*embedded->jobs));
  embedded->has_job = calloc(facts->sequences, sizeof(*embedded->has_job));
  embedded->place.model = options->model;
  embedded->place.pace = &embedded->pace;
  embedded->place.piece_us_max = options->piece_us_max > 0 ? options->piece_us_max
                                 : facts->is_gpu           ? PIECE_US_MAX_GPU
                                                           : PIECE_US_MAX;
  embedded->place.now_us = clock_monotonic_us;
  pace_init(&embedded->pace);
  if (embedded->jobs != NULL && embedded->has_job != NULL) {
    status = outbox_create(options->post, options->post_ctx, EVENTS_PENDING_MAX, &embedded->place.outbox);
  }
  if (status != STATUS_OK) {
    release(embedded);
    return error_set(error, status, "engine: no memory for %u jobs", (unsigned)options->jobs_max);
  }
  model_set_abort(options->model, is_call_unwanted, embedded);
  if (pthread_create(&embedded->thread, NULL, run, embedded) != 0) {
    model_set_abort(options->model, NULL, NULL);
    outbox_close(&embedded->place.outbox);
    release(embedded);
    return error_set(error, STATUS_IO, "engine: the operating system gives no further thread");
  }
  *ret_engine = &embedded->engine;
  return STATUS_OK;
}
