#include "gateway/stream.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/gateway_state.h"
#include "net/loop.h"
#include "net/server.h"
#include "net/sse.h"

static void ping_rest(struct request *request) {
  loop_timer_start(request->ping, (uint64_t)request->visit.gateway->config.ping_interval_ms * 1000);
}

/* Sends bytes; a client that has not taken what was sent before is given up. */
static enum status bytes_send(struct request *request, const void *data, size_t size) {
  struct visit *visit = &request->visit;
  if (visit->http == NULL || !http_stream_send(visit->http, data, size)) return STATUS_CLOSED;
  if (http_stream_backlog_bytes(visit->http) > visit->gateway->config.stream_pending_bytes_max) return STATUS_CLOSED;
  if (request->ping != NULL) ping_rest(request);
  return STATUS_OK;
}

static void ping_due(void *ctx) {
  struct request *request = ctx;
  static const char ping[] = ": ping\n\n";
  if (bytes_send(request, ping, sizeof ping - 1) != STATUS_OK) ping_rest(request); /* on_close tells who left */
}

/* Sends what `chunk` holds as one event. */
static enum status chunk_send(struct request *request) {
  struct buffer event;
  buffer_init(&event, 0);
  enum status status = sse_data(&event, (const char *)request->chunk.data, request->chunk.size);
  if (status == STATUS_OK) status = bytes_send(request, event.data, event.size);
  buffer_release(&event);
  buffer_clear(&request->chunk);
  return status;
}

void stream_begin(struct request *request) {
  visit_stream_begin(&request->visit);
  request->is_streaming = true;
  if (loop_timer_create(request->visit.gateway->deps.loop, ping_due, request, &request->ping) == STATUS_OK) {
    ping_rest(request);
  }
}

static enum status role_send(struct request *request) {
  if (request->has_role) return STATUS_OK;
  request->has_role = true;
  if (!request->head.is_chat) return STATUS_OK;
  enum status status = answer_chunk_role(&request->chunk, &request->head, request->run);
  return status == STATUS_OK ? chunk_send(request) : status;
}

/* The tokens since the last chunk, as JSON text in `text`; NULL where none were asked for. */
static enum status logprobs_take(struct request *request, struct buffer *text, const char **ret_logprobs) {
  *ret_logprobs = NULL;
  if (!request->intake->fields->sampling.wants_logprobs || request->logprobs.n_tokens == 0) return STATUS_OK;
  enum status status = logprobs_print(&request->logprobs, text);
  logprobs_clear(&request->logprobs);
  if (status == STATUS_OK) *ret_logprobs = (const char *)text->data;
  return status;
}

/* One chunk for each delta of the list; log probabilities ride on the first. */
static enum status deltas_send(struct request *request, const struct buffer *deltas, const char *logprobs) {
  json_t *list = deltas->size == 0 ? NULL : json_loadb((const char *)deltas->data, deltas->size, 0, NULL);
  enum status status = STATUS_OK;
  for (size_t i = 0; i < json_array_size(list) && status == STATUS_OK; i++) {
    char *delta = json_dumps(json_array_get(list, i), JSON_COMPACT);
    status = delta == NULL ? STATUS_NO_MEMORY
                           : answer_chunk_delta(&request->chunk, &request->head, request->run, delta, strlen(delta),
                                                i == 0 ? logprobs : NULL);
    free(delta);
    if (status == STATUS_OK) status = chunk_send(request);
  }
  json_decref(list);
  return status;
}

static enum status parsed_send(struct request *request, const char *logprobs) {
  struct buffer deltas;
  struct error detail = {0};
  buffer_init(&deltas, 0);
  enum status status = chat_parse(request->parser, (const char *)request->text.data, request->text.size, true, NULL,
                                  &deltas, NULL, &detail);
  if (status == STATUS_OK) status = deltas_send(request, &deltas, logprobs);
  if (status == STATUS_INVALID) status = STATUS_OK; /* not readable yet; the end of the answer decides */
  buffer_release(&deltas);
  return status;
}

enum status stream_token(struct request *request, const struct engine_token *token) {
  struct buffer text;
  const char *logprobs = NULL;
  enum status status = role_send(request);
  if (status != STATUS_OK || (token->text_size == 0 && request->logprobs.n_tokens == 0)) return status;
  buffer_init(&text, 0);
  status = logprobs_take(request, &text, &logprobs);
  if (status == STATUS_OK && request->parser != NULL) {
    status = parsed_send(request, logprobs);
  } else if (status == STATUS_OK) {
    status = answer_chunk_text(&request->chunk, &request->head, request->run, token->text, token->text_size, logprobs);
    if (status == STATUS_OK) status = chunk_send(request);
  }
  buffer_release(&text);
  return status;
}

enum status stream_run_end(struct request *request, const struct buffer *deltas, enum stop_reason stop) {
  bool is_last = request->run + 1 == request->n_runs && !request->head.has_usage;
  enum status status = role_send(request);
  if (status == STATUS_OK) status = deltas_send(request, deltas, NULL);
  if (status == STATUS_OK) {
    status = answer_chunk_finish(&request->chunk, &request->head, request->run,
                                 answer_finish_reason(stop, request->has_calls), is_last ? &request->usage : NULL);
  }
  return status == STATUS_OK ? chunk_send(request) : status;
}

void stream_end(struct request *request) {
  static const char done[] = "data: [DONE]\n\n";
  enum status status = STATUS_OK;
  if (request->head.has_usage) {
    status = answer_chunk_usage(&request->chunk, &request->head, &request->usage);
    if (status == STATUS_OK) status = chunk_send(request);
  }
  if (status == STATUS_OK) (void)bytes_send(request, done, sizeof done - 1);
  loop_timer_destroy(&request->ping);
  visit_stream_end(&request->visit);
}

void stream_fail(struct request *request, const struct api_error *error) {
  buffer_clear(&request->chunk);
  if (api_error_print(error, &request->chunk) == STATUS_OK) (void)chunk_send(request);
  loop_timer_destroy(&request->ping);
  visit_stream_end(&request->visit);
}
