#include "gateway/request.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/chat.h"
#include "gateway/documents.h"
#include "gateway/gateway_state.h"
#include "gateway/stream.h"
#include "gateway/token_hash.h"
#include "net/loop.h"
#include "net/server.h"
#include "os/clock.h"
#include "os/thread.h"

enum { ANSWER_BYTES_MAX = 16 << 20 };

#define TO(state) (1u << (state))

static const unsigned followers[REQUEST_STATE_COUNT] = {
    [REQUEST_INTAKE] = TO(REQUEST_WAITING) | TO(REQUEST_ENDED),
    [REQUEST_WAITING] = TO(REQUEST_ANSWERING) | TO(REQUEST_CANCELLING) | TO(REQUEST_SETTLING) | TO(REQUEST_ENDED),
    [REQUEST_ANSWERING] = TO(REQUEST_WAITING) | TO(REQUEST_CANCELLING) | TO(REQUEST_SETTLING) | TO(REQUEST_ENDED),
    [REQUEST_CANCELLING] = TO(REQUEST_ENDED),
    [REQUEST_SETTLING] = TO(REQUEST_ENDED),
    [REQUEST_ENDED] = 0,
};

bool request_state_may_follow(enum request_state from, enum request_state to) {
  return (unsigned)from < REQUEST_STATE_COUNT && (unsigned)to < REQUEST_STATE_COUNT && (followers[from] & TO(to)) != 0;
}

static void request_set_state(struct request *request, enum request_state state) {
  assert(request_state_may_follow(request->state, state));
  request->state = state;
}

/* ── end ── */

static void request_free(struct request *request) {
  request_set_state(request, REQUEST_ENDED);
  loop_timer_destroy(&request->ping);
  loop_timer_destroy(&request->deadline);
  chat_parser_destroy(&request->parser);
  intake_destroy(&request->intake);
  logprobs_release(&request->logprobs);
  buffer_release(&request->text);
  buffer_release(&request->reply);
  buffer_release(&request->chunk);
  visit_free(&request->visit);
}

/* Tells the client, however far its reply has come; nobody there is no matter. */
static void refuse(struct request *request, const struct api_error *error) {
  if (request->is_streaming)
    stream_fail(request, error);
  else
    visit_refuse(&request->visit, error);
}

static void tell_ended(struct request *request, const struct buffer *next) {
  const struct backend *backend = &request->visit.gateway->deps.backend;
  if (request->number == 0) return;
  request->number = 0;
  if (next != NULL && next->size > 0)
    backend->ended(backend->ctx, &request->outcome, prompt_tokens(next), prompt_tokens_count(next));
  else
    backend->ended(backend->ctx, &request->outcome, NULL, 0);
}

void request_cancel(struct request *request, const struct api_error *failure) {
  if (failure != NULL) {
    request->failure = *failure;
    refuse(request, failure);
  }
  if (request->state != REQUEST_WAITING && request->state != REQUEST_ANSWERING) return;
  request_set_state(request, REQUEST_CANCELLING);
  if (request->job != NULL) reuse_cancel(request->visit.gateway->deps.reuse, request->job);
}

static void client_left(struct visit *visit) {
  request_cancel((struct request *)visit, NULL);
}

static void server_closes(struct visit *visit) {
  struct api_error error = {0};
  (void)api_error_set(&error, 503, "shutting_down", "The server is shutting down.");
  request_cancel((struct request *)visit, &error);
}

static void deadline_passed(void *ctx) {
  struct request *request = ctx;
  struct api_error error = {0};
  (void)api_error_set(&error, 408, "timeout", "The request took longer than the server allows (%u ms).",
                      request->visit.gateway->config.timeout_ms);
  request_cancel(request, &error);
}

/* ── the answer of one run ── */

/* The whole message as the template's form reads it; a text completion's is its text. deltas (NULL: nobody streams):
 * what a stream has not told of it yet. */
static enum status read_message(struct request *request, struct buffer *message, struct buffer *deltas) {
  struct error detail = {{0}};
  if (request->parser == NULL) return buffer_append(message, request->text.data, request->text.size);
  enum status status = chat_parse(request->parser, (const char *)request->text.data, request->text.size, false, message,
                                  deltas, &request->has_calls, &detail);
  return status == STATUS_INVALID ? STATUS_OK : status; /* given as far as it can be read */
}

static void send_whole(struct request *request) {
  struct buffer *reply = &request->reply;
  char cached[16], task[24];
  struct http_field fields[3];
  size_t n = 0;
  snprintf(cached, sizeof cached, "%u", request->usage.cached_tokens);
  fields[n++] = (struct http_field){"x-forelay-cached-tokens", cached};
  fields[n++] = (struct http_field){"x-forelay-tier", tier_name(request->usage.tier)};
  if (request->usage.task != 0) {
    snprintf(task, sizeof task, "%llu", (unsigned long long)request->usage.task);
    fields[n++] = (struct http_field){"x-forelay-prepared", task};
  }
  if (answer_close(reply, &request->usage) == STATUS_OK) {
    visit_reply(&request->visit, 200, "application/json", fields, n, reply->data, reply->size);
  } else {
    struct api_error error = {0};
    (void)api_error_of_status(&error, STATUS_NO_MEMORY, NULL);
    visit_refuse(&request->visit, &error);
  }
}

static enum status add_choice(struct request *request, const struct buffer *message) {
  struct buffer logprobs;
  buffer_init(&logprobs, 0);
  enum status status = STATUS_OK;
  if (request->intake->fields->sampling.wants_logprobs) status = logprobs_print(&request->logprobs, &logprobs);
  if (status == STATUS_OK)
    status = answer_choice(&request->reply, &request->head, request->run, (const char *)message->data, message->size,
                           logprobs.size > 0 ? (const char *)logprobs.data : NULL,
                           answer_finish_reason(request->outcome.stop, request->has_calls));
  buffer_release(&logprobs);
  return status;
}

static void settled(void *ctx) {
  struct request *request = ctx;
  tell_ended(request, &request->intake->next);
  request_free(request);
}

static void work(void *ctx) {
  struct request *request = ctx;
  intake_run(request->intake);
}

/* The client has everything. What the next turn begins with is looked up on the worker, where that makes sense. */
static void settle(struct request *request, const struct buffer *message) {
  struct intake *intake = request->intake;
  request_set_state(request, REQUEST_SETTLING);
  bool has_next = request->head.is_chat && request->may_learn && intake->has_chat && request->number != 0;
  if (has_next && buffer_append(&intake->reply, message->data, message->size) == STATUS_OK) {
    intake->kind = INTAKE_NEXT_TURN;
    if (worker_submit(request->visit.gateway->deps.worker, work, settled, request) == STATUS_OK) return;
  }
  tell_ended(request, NULL);
  request_free(request);
}

static void run_begin(struct request *request);

/* A prompt counts once, however many answers it gets. */
static void add_usage(struct request *request, const struct reuse_result *result) {
  struct answer_usage *usage = &request->usage;
  if (request->run % request->intake->fields->n_choices == 0) {
    usage->prompt_tokens += result->prefill.cached_tokens + result->prefill.computed_tokens;
    usage->cached_tokens += result->prefill.cached_tokens;
    usage->computed_tokens += result->prefill.computed_tokens;
  }
  usage->output_tokens += result->output_tokens;
  usage->queue_us += result->prefill.queue_us;
  usage->restore_us += result->prefill.restore_us;
  usage->prefill_us += result->prefill.prefill_us;
  usage->decode_us += result->decode_us;
  if (usage->tier == TIER_NONE) usage->tier = result->prefill.tier;
  if (usage->task == 0) usage->task = result->prefill.task;
  if (usage->ttft_us == 0) usage->ttft_us = request->outcome.ttft_us;
}

static void fill_outcome(struct request *request, enum stop_reason stop, const struct reuse_result *result) {
  uint64_t ttft_us = request->run_first_us != 0 ? request->run_first_us - request->run_begin_us : 0;
  request->outcome = (struct outcome){.request = request->number,
                                      .at_us = clock_unix_us(),
                                      .stop = stop,
                                      .computed_tokens = result->prefill.computed_tokens,
                                      .output_tokens = result->output_tokens,
                                      .queue_us = result->prefill.queue_us,
                                      .restore_us = result->prefill.restore_us,
                                      .prefill_us = result->prefill.prefill_us,
                                      .decode_us = result->decode_us,
                                      .ttft_us = ttft_us};
  memcpy(request->outcome.hit_tokens, result->prefill.hit_tokens, sizeof request->outcome.hit_tokens);
}

static void run_done(void *ctx, const struct reuse_result *result) {
  struct request *request = ctx;
  struct buffer message, deltas;
  bool is_cancelled = request->state == REQUEST_CANCELLING; /* it was through before the engine heard of that */
  request->job = NULL;
  fill_outcome(request, is_cancelled ? STOP_ABORTED : result->stop, result);
  meter_queue(&request->visit.gateway->meter, result->prefill.queue_us);
  if (is_cancelled) {
    tell_ended(request, NULL);
    request_free(request);
    return;
  }
  buffer_init(&message, ANSWER_BYTES_MAX);
  buffer_init(&deltas, ANSWER_BYTES_MAX);
  add_usage(request, result);
  enum status status = read_message(request, &message, request->is_streaming ? &deltas : NULL);
  if (request->has_calls && result->stop != STOP_LENGTH) request->outcome.stop = STOP_TOOL_CALL;
  if (status == STATUS_OK)
    status =
        request->is_streaming ? stream_run_end(request, &deltas, request->outcome.stop) : add_choice(request, &message);
  bool is_last = request->run + 1 == request->n_runs || status != STATUS_OK;
  if (is_last && status == STATUS_OK) {
    if (request->is_streaming)
      stream_end(request);
    else
      send_whole(request);
  } else if (is_last) {
    struct api_error error = {0};
    (void)api_error_of_status(&error, status, NULL);
    if (status != STATUS_CLOSED) refuse(request, &error);
  }
  if (is_last) {
    settle(request, &message);
  } else {
    tell_ended(request, NULL);
    request->run++;
    run_begin(request);
  }
  buffer_release(&message);
  buffer_release(&deltas);
}

static void run_failed(void *ctx, enum status status, const struct error *detail, bool is_retry_safe,
                       bool is_taken_over, const struct reuse_result *result) {
  struct request *request = ctx;
  (void)is_retry_safe;
  (void)is_taken_over;
  request->job = NULL;
  bool is_cancelled = request->state == REQUEST_CANCELLING;
  fill_outcome(request, is_cancelled ? STOP_ABORTED : STOP_ERROR, result);
  if (!is_cancelled) {
    struct api_error error = {0};
    (void)api_error_of_status(&error, status, detail);
    refuse(request, &error);
  }
  tell_ended(request, NULL);
  request_free(request);
}

static void run_token(void *ctx, const struct engine_token *token) {
  struct request *request = ctx;
  if (request->state == REQUEST_CANCELLING) return;
  if (request->state == REQUEST_WAITING) {
    request_set_state(request, REQUEST_ANSWERING);
    request->run_first_us = clock_monotonic_us();
    meter_first_token(&request->visit.gateway->meter, request->run_first_us - request->run_begin_us);
  }
  enum status status = buffer_append(&request->text, token->text, token->text_size);
  if (status == STATUS_OK && token->id >= 0 && request->intake->fields->sampling.wants_logprobs)
    status = logprobs_add(&request->logprobs, request->visit.gateway->deps.model, token);
  if (status == STATUS_OK && request->is_streaming) status = stream_token(request, token);
  if (status == STATUS_OK) return;
  struct api_error error = {0};
  (void)api_error_of_status(&error, status, NULL);
  if (status == STATUS_CLOSED) visit_drop(&request->visit);
  request_cancel(request, status == STATUS_CLOSED ? NULL : &error);
}

static const struct reuse_sink sink = {.token = run_token, .done = run_done, .failed = run_failed};

/* ── beginning ── */

/* Every run reads its answer from the start. The first one's parser comes with the prompt. */
static enum status take_parser(struct request *request, struct api_error *error) {
  struct intake *intake = request->intake;
  chat_parser_destroy(&request->parser);
  if (!request->head.is_chat) return STATUS_OK;
  if (request->run == 0) {
    request->parser = chat_prompt_take_parser(&intake->rendered);
    return STATUS_OK;
  }
  struct chat_prompt again;
  enum status status = prompt_render(&intake->source, &intake->chat, &again, error);
  if (status != STATUS_OK) return status;
  request->parser = chat_prompt_take_parser(&again);
  chat_prompt_release(&again);
  return STATUS_OK;
}

static void tell_asked(struct request *request, const int32_t *tokens, uint32_t n) {
  struct gateway *gateway = request->visit.gateway;
  const struct intake *intake = request->intake;
  request->number = ++gateway->next_request;
  const struct backend_ask ask = {.request = request->number,
                                  .tenant = request->visit.tenant,
                                  .session = request->session,
                                  .turn = request->head.is_chat ? intake->chat.facts.user_messages : 0,
                                  .tokens = tokens,
                                  .n_tokens = n,
                                  .head_tokens = intake->head_tokens,
                                  .document_tokens =
                                      documents_match(gateway->documents, request->visit.tenant, tokens, n),
                                  .may_learn = request->may_learn,
                                  .may_prepare = request->may_prepare};
  gateway->deps.backend.asked(gateway->deps.backend.ctx, &ask);
}

static enum status submit(struct request *request, struct error *detail) {
  struct gateway *gateway = request->visit.gateway;
  const struct sampling_fields *fields = request->intake->fields;
  const struct buffer *prompt = &request->intake->prompts[request->run / fields->n_choices];
  struct sampling sampling = fields->sampling;
  sampling.seed += request->run % fields->n_choices; /* other choices, other draws */
  uint32_t n = prompt_tokens_count(prompt),
           room = gateway->config.context_tokens > n ? gateway->config.context_tokens - n : 0;
  struct reuse_request reuse = {.lane = LANE_REAL,
                                .id = gateway->next_request + 1,
                                .tenant = request->visit.tenant,
                                .tokens = prompt_tokens(prompt),
                                .n_tokens = n,
                                .mode = request->mode,
                                .output_tokens_max =
                                    fields->output_tokens_max < room ? fields->output_tokens_max : room,
                                .sampling = &sampling,
                                .stops = fields->stops,
                                .n_stops = fields->n_stops,
                                .wants_store = request->may_learn};
  memcpy(reuse.salt, gateway->deps.salts[reuse.tenant], sizeof reuse.salt);
  enum status status = reuse_submit(gateway->deps.reuse, &reuse, &sink, request, &request->job, detail);
  if (status == STATUS_OK) tell_asked(request, reuse.tokens, n);
  return status;
}

/* The next prompt, or the next answer to the same one, goes into the engine's hands. */
static void run_begin(struct request *request) {
  struct api_error error = {0};
  struct error detail = {{0}};
  bool is_first = request->run == 0;
  buffer_clear(&request->text);
  logprobs_clear(&request->logprobs);
  request->has_role = request->has_calls = false;
  request->run_first_us = 0;
  request->run_begin_us = is_first ? request->visit.accepted_us : clock_monotonic_us();
  enum status status = take_parser(request, &error);
  if (status == STATUS_OK) {
    status = submit(request, &detail);
    if (status != STATUS_OK) (void)api_error_of_status(&error, status, &detail);
  }
  if (status != STATUS_OK) {
    refuse(request, &error);
    request_free(request);
    return;
  }
  request_set_state(request, REQUEST_WAITING);
  if (is_first && request->intake->fields->is_stream) stream_begin(request);
}

static void begin_head(struct request *request) {
  struct gateway *gateway = request->visit.gateway;
  struct answer_head *head = &request->head;
  head->is_chat = request->intake->has_chat;
  snprintf(head->id, sizeof head->id, "%s-%016llx", head->is_chat ? "chatcmpl" : "cmpl",
           (unsigned long long)rng_next(&gateway->rng));
  head->model = gateway->config.model_name;
  head->created_s = clock_unix_us() / 1000000;
  head->has_usage = request->intake->fields->wants_usage;
  logprobs_init(&request->logprobs, head->is_chat, ANSWER_BYTES_MAX);
}

/* A client's own name for the conversation, else its opening. */
static uint64_t session_of(const struct request *request) {
  const char *name = request->visit.http != NULL ? http_header(request->visit.http, "x-session-id") : NULL;
  struct map_key hash = token_hash_begin(request->visit.tenant);
  if (name != NULL && name[0] != '\0') return token_hash_text(hash, name, strlen(name)).lo | 1;
  uint64_t opening = request->intake->has_chat ? request->intake->chat.facts.opening : 0;
  return opening != 0 ? token_hash_add(hash, opening).lo | 1 : 0;
}

static void intake_done(void *ctx) {
  struct request *request = ctx;
  if (request->visit.http == NULL) { /* left meanwhile; nothing has been told of it */
    request_free(request);
    return;
  }
  if (request->intake->error.http_status != 0) {
    visit_refuse(&request->visit, &request->intake->error);
    request_free(request);
    return;
  }
  begin_head(request);
  request->session = session_of(request);
  if (!request->intake->fields->caches_prompt) request->mode = REUSE_OFF;
  request->n_runs = request->intake->n_prompts * request->intake->fields->n_choices;
  if (!request->intake->fields->is_stream && answer_open(&request->reply, &request->head) != STATUS_OK) {
    struct api_error error = {0};
    (void)api_error_of_status(&error, STATUS_NO_MEMORY, NULL);
    visit_refuse(&request->visit, &error);
    request_free(request);
    return;
  }
  run_begin(request);
}

/* What the client's own headers ask for. */
static enum status read_headers(struct request *request, struct http_exchange *http, struct api_error *error) {
  const char *prepare = http_header(http, "x-forelay-prepare"), *store = http_header(http, "x-forelay-store");
  const char *reuse = http_header(http, "x-forelay-reuse");
  request->may_learn = request->may_prepare = true;
  request->mode = (enum reuse_mode)request->visit.gateway->config.reuse_mode;
  if (prepare != NULL && strcmp(prepare, "off") != 0 && strcmp(prepare, "on") != 0)
    return api_error_field(error, "x-forelay-prepare", "invalid_value", "The header x-forelay-prepare is on or off.");
  if (store != NULL && strcmp(store, "no") != 0 && strcmp(store, "yes") != 0)
    return api_error_field(error, "x-forelay-store", "invalid_value", "The header x-forelay-store is yes or no.");
  if (reuse != NULL && reuse_mode_of_name(reuse) > REUSE_OFF)
    return api_error_field(error, "x-forelay-reuse", "invalid_value",
                           "The header x-forelay-reuse is near, exact or off.");
  if (reuse != NULL) request->mode = reuse_mode_of_name(reuse);
  if (prepare != NULL && strcmp(prepare, "off") == 0) request->may_prepare = false;
  if (store != NULL && strcmp(store, "no") == 0) request->may_learn = request->may_prepare = false;
  return STATUS_OK;
}

static enum status begin_work(struct request *request, enum intake_kind kind, struct http_exchange *http) {
  struct gateway *gateway = request->visit.gateway;
  size_t size;
  const char *body = http_body(http, &size);
  enum status status = intake_create(kind, &gateway->source, body, size, &request->intake);
  if (status != STATUS_OK) return status;
  request->intake->now_us = clock_unix_us();
  request->intake->seed = (uint32_t)rng_next(&gateway->rng);
  if (gateway->config.timeout_ms > 0) {
    status = loop_timer_create(gateway->deps.loop, deadline_passed, request, &request->deadline);
    if (status != STATUS_OK) return status;
    loop_timer_start(request->deadline, (uint64_t)gateway->config.timeout_ms * 1000);
  }
  return worker_submit(gateway->deps.worker, work, intake_done, request);
}

void request_begin(struct gateway *gateway, struct http_exchange *http, const struct route *route, uint32_t tenant) {
  struct request *request = calloc(1, sizeof *request);
  struct api_error error = {0};
  if (request == NULL) {
    http_reply(http, 503, NULL, 0, "", 0);
    return;
  }
  buffer_init(&request->text, ANSWER_BYTES_MAX);
  buffer_init(&request->reply, 0);
  buffer_init(&request->chunk, 0);
  visit_begin(&request->visit, gateway, http, route_number(route));
  request->visit.tenant = tenant;
  request->visit.left = client_left;
  request->visit.abort = server_closes;
  enum status status = read_headers(request, http, &error);
  if (status == STATUS_OK) {
    status = begin_work(request, route->target == ROUTE_CHAT ? INTAKE_CHAT : INTAKE_COMPLETION, http);
    if (status == STATUS_OK) return;
    (void)api_error_of_status(&error, status, NULL);
  }
  visit_refuse(&request->visit, &error);
  request_free(request);
}
