#include "gateway/cors.h"

#include <string.h>

#include "net/server.h"

size_t cors_fields(const char *origin, struct http_field *fields) {
  if (origin == NULL) return 0;
  size_t n = 0;
  fields[n++] = (struct http_field){"access-control-allow-origin", origin};
  fields[n++] = (struct http_field){"access-control-expose-headers",
                                    "x-request-id, x-forelay-cached-tokens, x-forelay-tier, x-forelay-prepared"};
  if (strcmp(origin, "*") != 0) fields[n++] = (struct http_field){"vary", "origin"};
  return n;
}

size_t cors_preflight_fields(const char *methods, struct http_field *fields) {
  size_t n = 0;
  fields[n++] = (struct http_field){"access-control-allow-methods", methods};
  fields[n++] = (struct http_field){"access-control-allow-headers",
                                    "authorization, content-type, x-request-id, x-session-id, x-forelay-prepare, "
                                    "x-forelay-store, x-forelay-reuse"};
  fields[n++] = (struct http_field){"access-control-max-age", "600"};
  return n;
}
