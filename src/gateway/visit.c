#include "gateway/visit.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/cors.h"
#include "gateway/gateway_state.h"
#include "net/server.h"
#include "os/clock.h"

enum { CODE_CLIENT_LEFT = 499 };

void visit_id_make(char id[VISIT_ID_SIZE], const char *from_client, uint64_t number) {
  size_t size = from_client == NULL ? 0 : strlen(from_client);
  bool is_plain = size > 0 && size < VISIT_ID_SIZE;
  for (size_t i = 0; is_plain && i < size; i++) {
    char c = from_client[i];
    bool is_word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    is_plain = is_word || strchr("-_.:", c) != NULL;
  }
  if (is_plain) {
    memcpy(id, from_client, size + 1);
  } else {
    snprintf(id, VISIT_ID_SIZE, "req-%016llx", (unsigned long long)number);
  }
}

static void client_left(void *ctx) {
  struct visit *visit = ctx;
  visit->is_gone = true;
  http_stream_end(visit->http);
  visit->http = NULL;
  if (visit->left != NULL) visit->left(visit);
}

void visit_begin(struct visit *visit, struct gateway *gateway, struct http_exchange *http, unsigned route) {
  visit->gateway = gateway;
  visit->http = http;
  visit->route = route;
  visit->accepted_us = clock_monotonic_us();
  visit_id_make(visit->id, http_header(http, "x-request-id"), rng_next(&gateway->rng));
  visit->next = gateway->visits;
  visit->link = &gateway->visits;
  if (visit->next != NULL) visit->next->link = &visit->next;
  gateway->visits = visit;
  gateway->n_visits++;
  http_on_close(http, client_left, visit);
}

void visit_end(struct visit *visit) {
  if (visit->http != NULL) {
    http_stream_end(visit->http);
    visit->http = NULL;
  }
  int code = visit->http_status != 0 && !visit->is_gone ? visit->http_status : CODE_CLIENT_LEFT;
  meter_request(&visit->gateway->meter, visit->route, code);
  *visit->link = visit->next;
  if (visit->next != NULL) visit->next->link = visit->link;
  visit->gateway->n_visits--;
  gateway_visit_ended(visit->gateway);
}

void visit_free(struct visit *visit) {
  visit_end(visit);
  free(visit);
}

static size_t fields_join(const struct visit *visit, const char *type, const struct http_field *extra, size_t n,
                          struct http_field *into) {
  size_t count = 0;
  into[count++] = (struct http_field){"content-type", type};
  into[count++] = (struct http_field){"cache-control", "no-store"};
  into[count++] = (struct http_field){"x-request-id", visit->id};
  count += cors_fields(visit->gateway->config.cors_origin, into + count);
  assert(n <= VISIT_FIELDS_MAX);
  for (size_t i = 0; i < n; i++) {
    into[count++] = extra[i];
  }
  return count;
}

void visit_reply(struct visit *visit, int http_status, const char *type, const struct http_field *extra, size_t n,
                 const void *body, size_t size) {
  struct http_field fields[3 + CORS_FIELDS_MAX + VISIT_FIELDS_MAX];
  if (visit->http == NULL) return;
  size_t count = fields_join(visit, type, extra, n, fields);
  struct http_exchange *http = visit->http;
  visit->http = NULL;
  visit->http_status = http_status;
  http_reply(http, http_status, fields, count, body, size);
}

void visit_reply_json(struct visit *visit, int http_status, const char *json, size_t size) {
  visit_reply(visit, http_status, "application/json", NULL, 0, json, size);
}

void visit_refuse(struct visit *visit, const struct api_error *error) {
  static const char fallback[] = "{\"error\":{\"message\":\"no memory\",\"type\":\"server_error\",\"param\":null,"
                                 "\"code\":\"no_memory\"}}";
  struct http_field extra[1];
  struct buffer body;
  size_t n = 0;
  if (error->http_status == 401) extra[n++] = (struct http_field){"www-authenticate", "Bearer"};
  if (error->http_status == 429 || error->http_status == 503) extra[n++] = (struct http_field){"retry-after", "1"};
  buffer_init(&body, 0);
  bool is_printed = api_error_print(error, &body) == STATUS_OK;
  visit_reply(visit, error->http_status, "application/json", extra, n, is_printed ? (const char *)body.data : fallback,
              is_printed ? body.size : sizeof fallback - 1);
  buffer_release(&body);
}

void visit_stream_begin(struct visit *visit) {
  static const struct http_field extra[] = {{"x-accel-buffering", "no"}};
  struct http_field fields[3 + CORS_FIELDS_MAX + VISIT_FIELDS_MAX];
  if (visit->http == NULL) return;
  size_t count = fields_join(visit, "text/event-stream; charset=utf-8", extra, 1, fields);
  visit->http_status = 200;
  http_stream_start(visit->http, 200, fields, count);
}

void visit_stream_end(struct visit *visit) {
  if (visit->http == NULL) return;
  struct http_exchange *http = visit->http;
  visit->http = NULL;
  http_stream_end(http);
}

void visit_drop(struct visit *visit) {
  if (visit->http == NULL) return;
  visit->is_gone = true;
  visit_stream_end(visit);
}
