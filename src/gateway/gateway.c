#include "gateway/gateway.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "gateway/cors.h"
#include "gateway/documents.h"
#include "gateway/drafts.h"
#include "gateway/gateway_state.h"
#include "gateway/request.h"
#include "gateway/routes.h"
#include "gateway/tenants.h"
#include "net/loop.h"
#include "net/server.h"
#include "os/clock.h"

enum {
  PING_INTERVAL_MS = 10000,
  REQUESTS_MAX = 256,
  DOCUMENTS_MAX = 4096,
  DRAFTS_MAX = 256,
  STREAM_PENDING_BYTES_MAX = 1 << 20,
  ALLOW_SIZE = 64
};

/* ── before a visit begins ── */

/* Refuses without a handler of its own. */
static void refuse(struct gateway *gateway, struct http_exchange *http, const struct route *route,
                   const struct api_error *error) {
  struct visit *visit = calloc(1, sizeof *visit);
  if (visit == NULL) {
    http_reply(http, 503, NULL, 0, "", 0);
    return;
  }
  visit_begin(visit, gateway, http, route_number(route));
  visit_refuse(visit, error);
  visit_free(visit);
}

static void refuse_method(struct gateway *gateway, struct http_exchange *http, unsigned methods) {
  char allow[ALLOW_SIZE];
  struct http_field fields[1 + CORS_FIELDS_MAX];
  struct visit *visit = calloc(1, sizeof *visit);
  bool is_cors = gateway->config.cors_origin != NULL,
       is_preflight = is_cors && strcmp(http_method(http), "OPTIONS") == 0;
  if (visit == NULL) {
    http_reply(http, 503, NULL, 0, "", 0);
    return;
  }
  route_methods_print(methods, is_cors, allow, sizeof allow);
  visit_begin(visit, gateway, http, ROUTES_COUNT);
  size_t n = 0;
  if (is_preflight) {
    n = cors_preflight_fields(allow, fields);
    visit_reply(visit, 204, "text/plain", fields, n, "", 0);
  } else {
    struct api_error error = {0};
    struct buffer body;
    buffer_init(&body, 0);
    fields[n++] = (struct http_field){"allow", allow};
    (void)api_error_set(&error, 405, "method_not_allowed", "This path is served by %s.", allow);
    if (api_error_print(&error, &body) == STATUS_OK)
      visit_reply(visit, 405, "application/json", fields, n, body.data, body.size);
    buffer_release(&body);
  }
  visit_free(visit);
}

/* Who asks, and whether they may; *ret_tenant is set on success. */
static enum status admit(const struct gateway *gateway, struct http_exchange *http, const struct route *route,
                         uint32_t *ret_tenant, struct api_error *error) {
  *ret_tenant = 0;
  if (route->right == RIGHT_OPEN) return STATUS_OK;
  if (tenants_find(gateway->deps.tenants, http_header(http, "authorization"), ret_tenant) != STATUS_OK)
    return api_error_set(error, 401, "invalid_api_key", "A valid API key is needed: Authorization: Bearer KEY.");
  if (route->right == RIGHT_OPERATOR && !tenants_is_operator(gateway->deps.tenants, *ret_tenant))
    return api_error_set(error, 403, "not_operator", "Only the tenant admin may use this.");
  bool is_work = route->target == ROUTE_CHAT || route->target == ROUTE_COMPLETION || route->target == ROUTE_WISH;
  if (gateway->is_draining && is_work)
    return api_error_set(error, 503, "shutting_down", "The server is shutting down.");
  if (is_work && gateway->n_visits >= gateway->config.requests_max)
    return api_error_set(error, 429, "too_many_requests", "%u requests are being served already: try again soon.",
                         gateway->config.requests_max);
  return STATUS_OK;
}

static void handle(void *ctx, struct http_exchange *http) {
  struct gateway *gateway = ctx;
  struct route_match match;
  struct api_error error = {0};
  uint32_t tenant;
  route_find(route_method_of_name(http_method(http)), http_path(http), &match);
  if (match.route == NULL && match.methods != 0) {
    refuse_method(gateway, http, match.methods);
    return;
  }
  if (match.route == NULL) {
    (void)api_error_set(&error, 404, "not_found", "There is nothing at this path.");
    refuse(gateway, http, NULL, &error);
    return;
  }
  if (admit(gateway, http, match.route, &tenant, &error) != STATUS_OK) {
    refuse(gateway, http, match.route, &error);
    return;
  }
  if (match.route->target == ROUTE_CHAT || match.route->target == ROUTE_COMPLETION)
    request_begin(gateway, http, match.route, tenant);
  else
    routes_serve(gateway, http, &match, tenant, tenants_is_operator(gateway->deps.tenants, tenant));
}

/* ── life ── */

static enum status copy_text(const char **text, struct error *error) {
  if (*text == NULL) return STATUS_OK;
  *text = strdup(*text);
  return *text != NULL ? STATUS_OK : error_set(error, STATUS_NO_MEMORY, "out of memory");
}

static void set_defaults(struct gateway_config *config) {
  if (config->ping_interval_ms == 0) config->ping_interval_ms = PING_INTERVAL_MS;
  if (config->requests_max == 0) config->requests_max = REQUESTS_MAX;
  if (config->documents_max == 0) config->documents_max = DOCUMENTS_MAX;
  if (config->drafts_max == 0) config->drafts_max = DRAFTS_MAX;
  if (config->stream_pending_bytes_max == 0) config->stream_pending_bytes_max = STREAM_PENDING_BYTES_MAX;
}

enum status gateway_create(const struct gateway_config *config, const struct gateway_deps *deps,
                           struct gateway **ret_gateway, struct error *error) {
  if (config->model_name == NULL || config->context_tokens == 0)
    return error_set(error, STATUS_INVALID, "the gateway needs a model's name and context");
  struct gateway *gateway = calloc(1, sizeof *gateway);
  if (gateway == NULL) return error_set(error, STATUS_NO_MEMORY, "out of memory");
  uint64_t seed = clock_unix_us();
  (void)!getrandom(&seed, sizeof seed, 0);
  rng_init(&gateway->rng, seed);
  gateway->deps = *deps;
  gateway->config = *config;
  gateway->config.model_name = gateway->config.model_path = gateway->config.cors_origin = NULL;
  set_defaults(&gateway->config);
  gateway->source =
      (struct prompt_source){.model = deps->model, .chat = deps->chat, .context_tokens = config->context_tokens};
  gateway->started_s = clock_unix_us() / 1000000;
  const char *texts[] = {config->model_name, config->model_path, config->cors_origin};
  enum status status = STATUS_OK;
  for (int i = 0; i < 3; i++)
    if (status == STATUS_OK)
      status = copy_text(&texts[i], error);
    else
      texts[i] = NULL;
  gateway->config.model_name = texts[0];
  gateway->config.model_path = texts[1];
  gateway->config.cors_origin = texts[2];
  if (status == STATUS_OK) status = documents_create(gateway->config.documents_max, &gateway->documents);
  if (status == STATUS_OK) status = drafts_create(gateway->config.drafts_max, config->context_tokens, &gateway->drafts);
  if (status != STATUS_OK) {
    gateway_destroy(&gateway);
    return status;
  }
  http_server_set_handler(deps->server, handle, gateway);
  *ret_gateway = gateway;
  return STATUS_OK;
}

void gateway_destroy(struct gateway **reference) {
  struct gateway *gateway = *reference;
  if (gateway == NULL) return;
  if (gateway->deps.server != NULL) http_server_set_handler(gateway->deps.server, NULL, NULL);
  loop_timer_destroy(&gateway->grace);
  documents_destroy(&gateway->documents);
  drafts_destroy(&gateway->drafts);
  free((char *)(uintptr_t)gateway->config.model_name);
  free((char *)(uintptr_t)gateway->config.model_path);
  free((char *)(uintptr_t)gateway->config.cors_origin);
  free(gateway);
  *reference = NULL;
}

/* ── draining ── */

static void tell_drained(void *ctx) {
  struct gateway *gateway = ctx;
  gateway->drained(gateway->drained_ctx);
}

void gateway_visit_ended(struct gateway *gateway) {
  if (!gateway->is_draining || gateway->n_visits > 0 || gateway->is_drained) return;
  gateway->is_drained = loop_post(gateway->deps.loop, tell_drained, gateway);
}

static void grace_over(void *ctx) {
  struct gateway *gateway = ctx;
  for (struct visit *visit = gateway->visits, *next; visit != NULL; visit = next) {
    next = visit->next;
    if (visit->abort != NULL) visit->abort(visit);
  }
}

void gateway_drain(struct gateway *gateway, uint32_t grace_ms, void (*done)(void *done_ctx), void *done_ctx) {
  gateway->is_draining = true;
  gateway->drained = done;
  gateway->drained_ctx = done_ctx;
  if (loop_timer_create(gateway->deps.loop, grace_over, gateway, &gateway->grace) == STATUS_OK)
    loop_timer_start(gateway->grace, (uint64_t)grace_ms * 1000);
  gateway_visit_ended(gateway);
}

size_t gateway_requests_count(const struct gateway *gateway) {
  return gateway->n_visits;
}

enum status gateway_metrics(const struct gateway *gateway, struct buffer *into) {
  return meter_print(&gateway->meter, gateway->n_visits, into);
}
