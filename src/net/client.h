/* A blocking HTTP client for the command line. Any thread; one call at a time each. */
#ifndef FORELAY_NET_CLIENT_H
#define FORELAY_NET_CLIENT_H

#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/status.h"

struct http_call {
  const char *method; /* "GET", "POST", "PUT", "DELETE" */
  const char *url;
  const char *bearer;  /* API key; NULL: none */
  const char *body;    /* JSON text; NULL: none */
  uint32_t timeout_ms; /* 0: 30,000 */
};

/* Appends the answer's body to `into` (its limit holds). STATUS_CLOSED: nobody answers there; STATUS_TIMEOUT;
 * STATUS_TOO_LONG; `error` says what to do. */
MUST_USE enum status http_client_call(const struct http_call *call, int *ret_status, struct buffer *into,
                                      struct error *error);

#endif
