#include "gateway/api_error.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "gateway/json_text.h"

__attribute__((format(printf, 3, 0))) static void text_format(char *into, size_t size, const char *format,
                                                              va_list args) {
  int n = vsnprintf(into, size, format, args);
  if (n < 0) into[0] = 0;
  json_text_clean(into);
}

enum status api_error_set(struct api_error *error, int http_status, const char *code, const char *message, ...) {
  va_list args;
  error->http_status = http_status;
  error->code = code;
  error->param[0] = 0;
  va_start(args, message);
  text_format(error->message, sizeof error->message, message, args);
  va_end(args);
  return STATUS_INVALID;
}

enum status api_error_field(struct api_error *error, const char *param, const char *code, const char *message, ...) {
  va_list args;
  error->http_status = 400;
  error->code = code;
  /* param may be error->param's own text */
  char name[sizeof error->param];
  snprintf(name, sizeof name, "%s", param);
  memcpy(error->param, name, sizeof name);
  json_text_clean(error->param);
  va_start(args, message);
  text_format(error->message, sizeof error->message, message, args);
  va_end(args);
  return STATUS_INVALID;
}

enum status api_error_of_status(struct api_error *error, enum status status, const struct error *detail) {
  static const struct {
    enum status status;
    int http_status;
    const char *code;
    const char *message;
  } rows[] = {
      {STATUS_INVALID, 400, "invalid_value", "The request was refused."},
      {STATUS_NOT_FOUND, 404, "not_found", "There is nothing of that name."},
      {STATUS_FULL, 429, "queue_full", "The server is full; try again shortly."},
      {STATUS_BUSY, 409, "busy", "It is in use; try again shortly."},
      {STATUS_CANCELLED, 503, "cancelled", "The request was cancelled by the server."},
      {STATUS_UNSUPPORTED, 501, "not_implemented", "This server does not do that."},
      {STATUS_TOO_LONG, 400, "context_length_exceeded", "The prompt and its answer do not fit the context."},
      {STATUS_CLOSED, 503, "shutting_down", "The server is shutting down."},
      {STATUS_TIMEOUT, 408, "timeout", "The request took longer than the server allows."},
      {STATUS_DENIED, 403, "permission_denied", "This key may not do that."},
      {STATUS_NO_MEMORY, 503, "no_memory", "The server has no memory for this now; try again shortly."},
  };
  const char *text = detail != NULL && detail->text[0] != 0 ? detail->text : NULL;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    if (rows[i].status != status) continue;
    return api_error_set(error, rows[i].http_status, rows[i].code, "%s", text != NULL ? text : rows[i].message);
  }
  /* what went wrong inside is the operator's to read, not the client's */
  return api_error_set(error, 500, "internal_error", "The server failed (%s).", status_name(status));
}

const char *api_error_type(int http_status) {
  switch (http_status) {
  case 401:
    return "authentication_error";
  case 403:
    return "permission_error";
  case 404:
    return "not_found_error";
  case 429:
    return "rate_limit_error";
  case 501:
    return "not_supported_error";
  case 503:
    return "unavailable_error";
  default:
    return http_status >= 500 ? "server_error" : "invalid_request_error";
  }
}

enum status api_error_print(const struct api_error *error, struct buffer *into) {
  enum status status = buffer_append_text(into, "{\"error\":{\"message\":");
  if (status == STATUS_OK) status = json_text_append(into, error->message, strlen(error->message));
  if (status == STATUS_OK) status = buffer_append_format(into, ",\"type\":\"%s\"", api_error_type(error->http_status));
  if (status == STATUS_OK) status = buffer_append_text(into, ",\"param\":");
  if (status == STATUS_OK) {
    status = error->param[0] != 0 ? json_text_append(into, error->param, strlen(error->param))
                                  : buffer_append_text(into, "null");
  }
  if (status == STATUS_OK) {
    status = error->code != NULL ? buffer_append_format(into, ",\"code\":\"%s\"}}", error->code)
                                 : buffer_append_text(into, ",\"code\":null}}");
  }
  return status;
}
