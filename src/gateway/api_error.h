/* One refusal in OpenAI's error format: HTTP status, code, the field it is about and a sentence. Plain data; never
 * holds more of a client's text than a field's name, cleaned of control bytes. Any thread. */
#ifndef FORELAY_GATEWAY_API_ERROR_H
#define FORELAY_GATEWAY_API_ERROR_H

#include "base/buffer.h"
#include "base/status.h"

struct api_error {
  int http_status;   /* 0: nothing is wrong */
  const char *code;  /* static text, NULL: none */
  char param[96];    /* the field, empty: none */
  char message[384]; /* one sentence or two */
};

/* Each returns STATUS_INVALID, so that a refusal is one line. Text is cut to fit and cleaned to valid UTF-8. */
enum status api_error_set(struct api_error *error, int http_status, const char *code, const char *message, ...)
    PRINTF_LIKE(4, 5);
/* 400 about a field. */
enum status api_error_field(struct api_error *error, const char *param, const char *code, const char *message, ...)
    PRINTF_LIKE(4, 5);
/* What a status from below means for a client: 429 full, 400 too long or invalid, 408 timeout, 501 unsupported, 503
 * closed, 404 not found, 403 denied, 409 busy, else 500. detail may be NULL or empty. */
enum status api_error_of_status(struct api_error *error, enum status status, const struct error *detail);
/* "invalid_request_error", "authentication_error", …, by HTTP status; static text. */
const char *api_error_type(int http_status);
/* Appends {"error":{"message","type","param","code"}}. */
MUST_USE enum status api_error_print(const struct api_error *error, struct buffer *into);

#endif
