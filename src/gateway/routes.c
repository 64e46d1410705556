#include "gateway/routes.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "engine/chat.h"
#include "engine/model.h"
#include "gateway/documents.h"
#include "gateway/drafts.h"
#include "gateway/gateway_state.h"
#include "gateway/intake.h"
#include "gateway/tenants.h"
#include "gateway/visit.h"
#include "net/server.h"
#include "os/clock.h"
#include "os/thread.h"

/* A visit whose answer is made on the worker or by the program around. */
struct errand_visit {
  struct visit visit; /* first */
  struct intake *intake;
};

static void refuse_status(struct visit *visit, enum status status, const struct error *detail) {
  struct api_error error = {0};
  (void)api_error_of_status(&error, status, detail);
  visit_refuse(visit, &error);
}

static void reply_value(struct visit *visit, int http_status, json_t *value) {
  char *text = value != NULL ? json_dumps(value, JSON_COMPACT) : NULL;
  json_decref(value);
  if (text != NULL)
    visit_reply_json(visit, http_status, text, strlen(text));
  else
    refuse_status(visit, STATUS_NO_MEMORY, NULL);
  free(text);
}

/* ── models, properties, health ── */

static json_t *model_value(const struct gateway *gateway) {
  const struct model_facts *facts = model_facts(gateway->deps.model);
  return json_pack("{s:s, s:s, s:I, s:s, s:{s:I, s:I, s:I, s:I}}", "id", gateway->config.model_name, "object", "model",
                   "created", (json_int_t)gateway->started_s, "owned_by", "forelay", "meta", "n_vocab",
                   (json_int_t)facts->n_vocab, "n_ctx_train", (json_int_t)facts->trained_tokens, "n_params",
                   (json_int_t)facts->n_params, "size", (json_int_t)facts->file_bytes);
}

static void serve_models(struct visit *visit) {
  reply_value(visit, 200, json_pack("{s:s, s:[o]}", "object", "list", "data", model_value(visit->gateway)));
}

static void serve_model(struct visit *visit, const char *name) {
  if (strcmp(name, visit->gateway->config.model_name) == 0) {
    reply_value(visit, 200, model_value(visit->gateway));
    return;
  }
  struct api_error error = {0};
  (void)api_error_set(&error, 404, "model_not_found", "There is no model of that name; this server has '%.128s'.",
                      visit->gateway->config.model_name);
  visit_refuse(visit, &error);
}

static void serve_props(struct visit *visit) {
  const struct gateway *gateway = visit->gateway;
  const struct chat_facts *chat = gateway->deps.chat != NULL ? chat_facts(gateway->deps.chat) : NULL;
  int context = (int)gateway->config.context_tokens;
  json_t *value = json_pack(
      "{s:s, s:i, s:i, s:{s:i}, s:s, s:{s:b, s:b}, s:{s:b, s:b}, s:s, s:b}", "model_alias", gateway->config.model_name,
      "total_slots", (int)gateway->config.slots, "n_ctx", context, "default_generation_settings", "n_ctx", context,
      "chat_template", chat != NULL ? chat->source : "", "chat_template_caps", "supports_tools",
      chat != NULL && chat->has_tools, "supports_parallel_tool_calls", chat != NULL && chat->has_parallel_tools,
      "modalities", "vision", 0, "audio", 0, "build_info", "forelay " FORELAY_VERSION, "is_sleeping", 0);
  if (value != NULL && visit->is_operator && gateway->config.model_path != NULL)
    json_object_set_new(value, "model_path", json_string(gateway->config.model_path));
  reply_value(visit, 200, value);
}

static void serve_health(struct visit *visit) {
  static const char ready[] = "{\"status\":\"ok\"}";
  if (!visit->gateway->is_draining) {
    visit_reply_json(visit, 200, ready, sizeof ready - 1);
    return;
  }
  struct api_error error = {0};
  (void)api_error_set(&error, 503, "shutting_down", "The server is shutting down.");
  visit_refuse(visit, &error);
}

static void serve_absent(struct visit *visit) {
  struct api_error error = {0};
  (void)api_error_set(&error, 501, "not_built", "This route is not built yet.");
  visit_refuse(visit, &error);
}

/* ── answers of the program around ── */

static void answered(void *ctx, enum status status, const char *json, const struct error *error) {
  struct errand_visit *errand = ctx;
  if (status == STATUS_OK)
    visit_reply_json(&errand->visit, 200, json, strlen(json));
  else
    refuse_status(&errand->visit, status, error);
  intake_destroy(&errand->intake);
  visit_free(&errand->visit);
}

static void accepted(void *ctx, enum status status, const char *json, const struct error *error) {
  struct errand_visit *errand = ctx;
  if (status == STATUS_OK)
    visit_reply_json(&errand->visit, 202, json, strlen(json));
  else
    refuse_status(&errand->visit, status, error);
  intake_destroy(&errand->intake);
  visit_free(&errand->visit);
}

static void metrics_come(void *ctx, const char *text, size_t size) {
  struct errand_visit *errand = ctx;
  struct buffer all;
  buffer_init(&all, 0);
  if (buffer_append(&all, text, size) == STATUS_OK && gateway_metrics(errand->visit.gateway, &all) == STATUS_OK)
    visit_reply(&errand->visit, 200, "text/plain; version=0.0.4; charset=utf-8", NULL, 0, all.data, all.size);
  else
    refuse_status(&errand->visit, STATUS_NO_MEMORY, NULL);
  buffer_release(&all);
  visit_free(&errand->visit);
}

static void ask_backend(struct errand_visit *errand, const struct route_match *match, struct http_exchange *http) {
  const struct backend *backend = &errand->visit.gateway->deps.backend;
  uint32_t sees = errand->visit.is_operator ? UINT32_MAX : errand->visit.tenant;
  size_t size;
  const char *body;
  switch (match->route->target) {
  case ROUTE_METRICS:
    backend->metrics(backend->ctx, metrics_come, errand);
    break;
  case ROUTE_QUESTION:
    backend->question(backend->ctx, (enum backend_question)match->route->detail, sees, match->number, answered, errand);
    break;
  case ROUTE_DELETE_TASK:
    backend->delete_task(backend->ctx, sees, match->number, answered, errand);
    break;
  case ROUTE_DELETE_STATE:
    backend->delete_state(backend->ctx, sees, match->number, answered, errand);
    break;
  default:
    body = http_body(http, &size);
    backend->set_budget(backend->ctx, body, size, answered, errand);
    break;
  }
}

/* ── work for the worker ── */

static void work(void *ctx) {
  struct errand_visit *errand = ctx;
  intake_run(errand->intake);
}

/* A draft's number, and the memory of registered documents. */
static enum status note_wish(struct errand_visit *errand, struct backend_wish *told) {
  struct gateway *gateway = errand->visit.gateway;
  const struct wish *wish = &errand->intake->wish;
  if (wish->is_partial)
    return drafts_follow(gateway->drafts, told->tenant, told->tokens, told->n_tokens, wish->head_tokens, &told->draft);
  /* the last token may join with what follows the document */
  if (wish->wish_kind == WISH_DOCUMENT && told->n_tokens > 1)
    return documents_add(gateway->documents, told->tenant, told->tokens, told->n_tokens - 1);
  return STATUS_OK;
}

static void tell_wish(struct errand_visit *errand) {
  const struct backend *backend = &errand->visit.gateway->deps.backend;
  const struct wish *wish = &errand->intake->wish;
  struct backend_wish told = {.tenant = errand->visit.tenant,
                              .kind = wish->kind,
                              .tier = wish->tier,
                              .tokens = prompt_tokens(&wish->tokens),
                              .n_tokens = prompt_tokens_count(&wish->tokens),
                              .by_us = wish->by_us,
                              .every_us = wish->every_us,
                              .count = wish->count,
                              .until_us = wish->until_us,
                              .document = wish->document[0] != '\0' ? wish->document : NULL};
  enum status status = note_wish(errand, &told);
  if (status == STATUS_OK) {
    backend->wish(backend->ctx, wish->wish_kind, &told, accepted, errand);
    return;
  }
  refuse_status(&errand->visit, status, NULL);
  intake_destroy(&errand->intake);
  visit_free(&errand->visit);
}

static void worked(void *ctx) {
  struct errand_visit *errand = ctx;
  struct intake *intake = errand->intake;
  if (intake->error.http_status == 0 && intake->kind == INTAKE_WISH) {
    tell_wish(errand);
    return;
  }
  if (intake->error.http_status != 0)
    visit_refuse(&errand->visit, &intake->error);
  else
    visit_reply_json(&errand->visit, 200, (const char *)intake->reply.data, intake->reply.size);
  intake_destroy(&errand->intake);
  visit_free(&errand->visit);
}

static void give_work(struct errand_visit *errand, enum intake_kind kind, int wish_kind, struct http_exchange *http) {
  struct gateway *gateway = errand->visit.gateway;
  size_t size;
  const char *body = http_body(http, &size);
  enum status status = intake_create(kind, &gateway->source, body, size, &errand->intake);
  if (status == STATUS_OK) {
    errand->intake->wish_kind = (enum backend_wish_kind)wish_kind;
    errand->intake->now_us = clock_unix_us();
    status = worker_submit(gateway->deps.worker, work, worked, errand);
  }
  if (status == STATUS_OK) return;
  refuse_status(&errand->visit, status, NULL);
  intake_destroy(&errand->intake);
  visit_free(&errand->visit);
}

void routes_serve(struct gateway *gateway, struct http_exchange *http, const struct route_match *match, uint32_t tenant,
                  bool is_operator) {
  struct errand_visit *errand = calloc(1, sizeof *errand);
  if (errand == NULL) {
    http_reply(http, 503, NULL, 0, "", 0);
    return;
  }
  visit_begin(&errand->visit, gateway, http, route_number(match->route));
  errand->visit.tenant = tenant;
  errand->visit.is_operator = is_operator;
  switch (match->route->target) {
  case ROUTE_TOKENIZE:
    give_work(errand, INTAKE_TOKENIZE, 0, http);
    return;
  case ROUTE_DETOKENIZE:
    give_work(errand, INTAKE_DETOKENIZE, 0, http);
    return;
  case ROUTE_APPLY_TEMPLATE:
    give_work(errand, INTAKE_TEMPLATE, 0, http);
    return;
  case ROUTE_WISH:
    give_work(errand, INTAKE_WISH, match->route->detail, http);
    return;
  case ROUTE_METRICS:
  case ROUTE_QUESTION:
  case ROUTE_DELETE_TASK:
  case ROUTE_DELETE_STATE:
  case ROUTE_PUT_BUDGET:
    ask_backend(errand, match, http);
    return;
  case ROUTE_MODELS:
    serve_models(&errand->visit);
    break;
  case ROUTE_MODEL:
    serve_model(&errand->visit, match->name);
    break;
  case ROUTE_PROPS:
    serve_props(&errand->visit);
    break;
  case ROUTE_HEALTH:
    serve_health(&errand->visit);
    break;
  default:
    serve_absent(&errand->visit);
    break;
  }
  visit_free(&errand->visit);
}
