#include "daemon/planner.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "os/clock.h"

enum {
  QUEUE_MAX_DEFAULT = 65536,
  ACTIONS_MAX = 64,          /* of one tick */
  TICK_US = 1000000,         /* without events */
  TICK_AFTER_EVENT_US = 5000 /* gathers events that belong together */
};

struct work {
  struct work *next;
  planner_work *run;
  void *ctx; /* points behind the struct, or what the caller handed over */
  bool is_event;
};

struct planner {
  struct planner_config config;
  struct plan *plan; /* the plan thread's between start and stop */
  pthread_t thread;
  bool is_started;
  pthread_mutex_t mutex; /* guards all below */
  pthread_cond_t more;
  struct work *first, *last;
  size_t queued;
  uint64_t dropped;
  struct load load;
  bool is_stopping;
};

/* Actions on their way to the loop. */
struct batch {
  struct planner *planner;
  size_t n;
  struct action actions[ACTIONS_MAX];
};

static void deliver(void *ctx) {
  struct batch *batch = ctx;
  batch->planner->config.actions(batch->planner->config.actions_ctx, batch->actions, batch->n);
  free(batch);
}

/* Ticks once; true when more actions wait than one batch carries. */
static bool tick(struct planner *planner, const struct load *load) {
  struct batch *batch = malloc(sizeof *batch);
  if (batch == NULL) return false;
  *batch = (struct batch){.planner = planner};
  enum status status = plan_tick(planner->plan, load, clock_unix_us(), batch->actions, ACTIONS_MAX, &batch->n);
  size_t n = status == STATUS_OK ? batch->n : 0; /* the batch is the loop's once it is posted */
  if (n == 0 || !planner->config.post(planner->config.post_ctx, deliver, batch)) {
    free(batch);
    return false;
  }
  return n == ACTIONS_MAX;
}

static struct timespec timespec_of(uint64_t unix_us) {
  return (struct timespec){.tv_sec = (time_t)(unix_us / 1000000), .tv_nsec = (long)(unix_us % 1000000) * 1000};
}

/* Waits for work or for `until_us`; returns the whole queue, the caller's to run and free. Called with the mutex held.
 */
static struct work *wait_for_work(struct planner *planner, uint64_t until_us) {
  struct timespec until = timespec_of(until_us);
  while (planner->first == NULL && !planner->is_stopping && clock_unix_us() < until_us)
    if (pthread_cond_timedwait(&planner->more, &planner->mutex, &until) != 0) break;
  struct work *works = planner->first;
  planner->first = planner->last = NULL;
  planner->queued = 0;
  return works;
}

static void *planner_main(void *argument) {
  struct planner *planner = argument;
  uint64_t tick_at_us = clock_unix_us();
  pthread_mutex_lock(&planner->mutex);
  for (;;) {
    struct work *works = wait_for_work(planner, tick_at_us);
    bool is_last = planner->is_stopping && works == NULL;
    struct load load = planner->load;
    pthread_mutex_unlock(&planner->mutex);
    if (is_last) break;
    bool had_event = false;
    for (struct work *next; works != NULL; works = next) {
      next = works->next;
      works->run(planner->plan, works->ctx);
      had_event |= works->is_event;
      free(works);
    }
    uint64_t now_us = clock_unix_us();
    if (had_event && tick_at_us > now_us + TICK_AFTER_EVENT_US) tick_at_us = now_us + TICK_AFTER_EVENT_US;
    if (now_us >= tick_at_us) {
      bool has_more = tick(planner, &load);
      uint64_t due_us = plan_next_due_us(planner->plan, now_us);
      tick_at_us = now_us + (has_more ? TICK_AFTER_EVENT_US : TICK_US);
      if (due_us < tick_at_us)
        tick_at_us = due_us > now_us + TICK_AFTER_EVENT_US ? due_us : now_us + TICK_AFTER_EVENT_US;
    } else if (tick_at_us > now_us + TICK_US) {
      tick_at_us = now_us + TICK_US; /* the wall clock was set back */
    }
    pthread_mutex_lock(&planner->mutex);
  }
  return NULL;
}

enum status planner_open(const struct planner_config *config, struct planner **ret_planner, struct error *error) {
  struct planner *planner = calloc(1, sizeof *planner);
  if (planner == NULL) return STATUS_NO_MEMORY;
  planner->config = *config;
  if (planner->config.queue_max == 0) planner->config.queue_max = QUEUE_MAX_DEFAULT;
  enum status status = plan_create(&config->plan, &planner->plan, error);
  if (status != STATUS_OK) {
    free(planner);
    return status;
  }
  pthread_mutex_init(&planner->mutex, NULL);
  pthread_cond_init(&planner->more, NULL);
  *ret_planner = planner;
  return STATUS_OK;
}

struct plan *planner_plan(struct planner *planner) {
  return planner->plan;
}

enum status planner_start(struct planner *planner, struct error *error) {
  if (pthread_create(&planner->thread, NULL, planner_main, planner) != 0)
    return error_set(error, STATUS_NO_MEMORY, "the plan thread could not be started");
  planner->is_started = true;
  return STATUS_OK;
}

void planner_stop(struct planner *planner) {
  if (!planner->is_started) return;
  pthread_mutex_lock(&planner->mutex);
  planner->is_stopping = true;
  pthread_cond_signal(&planner->more);
  pthread_mutex_unlock(&planner->mutex);
  pthread_join(planner->thread, NULL);
  planner->is_started = false;
}

void planner_close(struct planner **reference) {
  struct planner *planner = *reference;
  if (planner == NULL) return;
  planner_stop(planner);
  for (struct work *work = planner->first, *next; work != NULL; work = next) {
    next = work->next;
    free(work);
  }
  plan_destroy(&planner->plan);
  pthread_cond_destroy(&planner->more);
  pthread_mutex_destroy(&planner->mutex);
  free(planner);
  *reference = NULL;
}

static size_t aligned(size_t size) {
  return (size + 15) & ~(size_t)15;
}

enum status planner_run_keys(struct planner *planner, planner_work *run, const void *ctx, size_t ctx_size,
                             const block_key *keys, uint32_t n, bool is_event) {
  size_t keys_at = aligned(ctx_size);
  struct work *work = malloc(aligned(sizeof *work) + keys_at + (size_t)n * sizeof *keys);
  if (work == NULL) return STATUS_NO_MEMORY;
  char *copy = (char *)work + aligned(sizeof *work);
  *work = (struct work){.run = run, .ctx = copy, .is_event = is_event};
  if (ctx_size > 0)
    memcpy(copy, ctx, ctx_size);
  else
    memcpy(&work->ctx, &ctx, sizeof ctx); /* handed over as it is */
  if (n > 0) memcpy(copy + keys_at, keys, (size_t)n * sizeof *keys);
  pthread_mutex_lock(&planner->mutex);
  bool fits = planner->queued < planner->config.queue_max;
  if (fits) {
    *(planner->last != NULL ? &planner->last->next : &planner->first) = work;
    planner->last = work;
    planner->queued++;
    pthread_cond_signal(&planner->more);
  } else {
    planner->dropped++;
  }
  pthread_mutex_unlock(&planner->mutex);
  if (fits) return STATUS_OK;
  free(work);
  return STATUS_FULL;
}

enum status planner_run(struct planner *planner, planner_work *work, const void *ctx, size_t ctx_size, bool is_event) {
  return planner_run_keys(planner, work, ctx, ctx_size, NULL, 0, is_event);
}

void planner_set_load(struct planner *planner, const struct load *load) {
  pthread_mutex_lock(&planner->mutex);
  planner->load = *load;
  pthread_mutex_unlock(&planner->mutex);
}

uint64_t planner_dropped(struct planner *planner) {
  pthread_mutex_lock(&planner->mutex);
  uint64_t dropped = planner->dropped;
  pthread_mutex_unlock(&planner->mutex);
  return dropped;
}
