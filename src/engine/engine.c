#include "engine/engine.h"

#include <assert.h>

void engine_stop(struct engine *engine) {
  engine->ops->stop(engine);
}

void engine_close(struct engine **engine) {
  struct engine *gone = *engine;

  *engine = NULL;
  if (gone != NULL) {
    gone->ops->stop(gone);
    gone->ops->close(gone);
  }
}

/* Ranges must follow each other from token 0 and reach as far as they are to be used. */
static bool is_restore_whole(const struct engine_request *request) {
  uint32_t end = 0;

  for (uint32_t i = 0; i < request->n_restore; i++) {
    if (request->restore[i].from != end || request->restore[i].to <= end) {
      return false;
    }
    end = request->restore[i].to;
  }
  return request->restore_tokens <= end && (request->n_restore == 0 || request->keep_tokens == 0);
}

static enum status check_request(const struct engine *engine, const struct engine_request *request,
                                 struct error *error) {
  const struct engine_caps *caps = &engine->caps;
  uint32_t ready = request->n_restore > 0 ? request->restore_tokens : request->keep_tokens;

  if (caps->sequences > 0 && request->seq >= caps->sequences) {
    return error_set(error, STATUS_INVALID, "engine: sequence %u of %u", (unsigned)request->seq,
                     (unsigned)caps->sequences);
  }
  if (request->n_tokens == 0) {
    return error_set(error, STATUS_INVALID, "engine: the prompt is empty");
  }
  if (request->n_tokens > caps->context_tokens) {
    return error_set(error, STATUS_TOO_LONG, "engine: the prompt has %u tokens, the context %u",
                     (unsigned)request->n_tokens, (unsigned)caps->context_tokens);
  }
  if (!is_restore_whole(request)) {
    return error_set(error, STATUS_INVALID, "engine: ranges to restore have gaps or end before token %u",
                     (unsigned)request->restore_tokens);
  }
  if (ready > request->n_tokens || (request->output_tokens_max > 0 && ready == request->n_tokens)) {
    return error_set(error, STATUS_INVALID, "engine: %u ready tokens leave none of %u to compute", (unsigned)ready,
                     (unsigned)request->n_tokens);
  }
  return STATUS_OK;
}

enum status engine_submit(struct engine *engine, const struct engine_request *request, const struct engine_sink *sink,
                          void *sink_ctx, struct engine_job **ret_job, struct error *error) {
  enum status status = check_request(engine, request, error);

  assert(sink->done != NULL && sink->failed != NULL);
  if (status != STATUS_OK) {
    return status;
  }
  return engine->ops->submit(engine, request, sink, sink_ctx, ret_job, error);
}

void engine_cancel(struct engine *engine, struct engine_job *job) {
  engine->ops->cancel(engine, job);
}

uint32_t engine_job_tokens(const struct engine *engine, const struct engine_job *job) {
  return engine->ops->progress(job);
}

uint64_t engine_state_bytes(const struct engine *engine, uint32_t from, uint32_t to) {
  if (engine->caps.state == ENGINE_STATE_NONE || from >= to) {
    return 0;
  }
  return engine->ops->state_bytes(engine, from, to);
}

enum status engine_state_save(struct engine *engine, uint32_t seq, const struct engine_target *targets, uint32_t n,
                              bool is_urgent, engine_saved *done, void *done_ctx) {
  if (engine->caps.state != ENGINE_STATE_BYTES && n > 0) {
    return STATUS_UNSUPPORTED;
  }
  if (seq >= engine->caps.sequences) {
    return STATUS_INVALID;
  }
  return engine->ops->state_save(engine, seq, targets, n, is_urgent, done, done_ctx);
}

enum status engine_state_drop(struct engine *engine, uint32_t seq) {
  if (seq >= engine->caps.sequences) {
    return STATUS_INVALID;
  }
  return engine->ops->state_drop(engine, seq);
}

void engine_load(const struct engine *engine, struct engine_load *ret_load) {
  engine->ops->load(engine, ret_load);
}
