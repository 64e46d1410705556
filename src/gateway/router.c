#include "gateway/router.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "gateway/backend.h"

/* One row a route; every row is reached by a test. */
static const struct route routes[] = {
    {METHOD_POST, "/v1/chat/completions", ROUTE_CHAT, RIGHT_TENANT, false, 0},
    {METHOD_POST, "/v1/completions", ROUTE_COMPLETION, RIGHT_TENANT, false, 0},
    {METHOD_GET, "/v1/models", ROUTE_MODELS, RIGHT_TENANT, false, 0},
    {METHOD_GET, "/v1/models/*", ROUTE_MODEL, RIGHT_TENANT, false, 0},
    {METHOD_POST, "/v1/embeddings", ROUTE_ABSENT, RIGHT_TENANT, false, 0},
    {METHOD_POST, "/v1/responses", ROUTE_ABSENT, RIGHT_TENANT, false, 0},
    {METHOD_POST, "/v1/messages", ROUTE_ABSENT, RIGHT_TENANT, false, 0},
    {METHOD_POST, "/tokenize", ROUTE_TOKENIZE, RIGHT_TENANT, false, 0},
    {METHOD_POST, "/detokenize", ROUTE_DETOKENIZE, RIGHT_TENANT, false, 0},
    {METHOD_POST, "/apply-template", ROUTE_APPLY_TEMPLATE, RIGHT_TENANT, false, 0},
    {METHOD_GET, "/props", ROUTE_PROPS, RIGHT_TENANT, false, 0},
    {METHOD_GET, "/health", ROUTE_HEALTH, RIGHT_OPEN, false, 0},
    {METHOD_GET, "/metrics", ROUTE_METRICS, RIGHT_OPERATOR, false, 0},
    {METHOD_GET, "/", ROUTE_ABSENT, RIGHT_OPERATOR, false, 0},
    {METHOD_GET, "/forelay/v1/status", ROUTE_QUESTION, RIGHT_TENANT, false, QUESTION_STATUS},
    {METHOD_GET, "/forelay/v1/prefixes", ROUTE_QUESTION, RIGHT_TENANT, false, QUESTION_PREFIXES},
    {METHOD_GET, "/forelay/v1/tasks", ROUTE_QUESTION, RIGHT_TENANT, false, QUESTION_TASKS},
    {METHOD_GET, "/forelay/v1/tasks/*", ROUTE_QUESTION, RIGHT_TENANT, true, QUESTION_TASK},
    {METHOD_DELETE, "/forelay/v1/tasks/*", ROUTE_DELETE_TASK, RIGHT_TENANT, true, 0},
    {METHOD_GET, "/forelay/v1/states", ROUTE_QUESTION, RIGHT_TENANT, false, QUESTION_STATES},
    {METHOD_DELETE, "/forelay/v1/states/*", ROUTE_DELETE_STATE, RIGHT_TENANT, true, 0},
    {METHOD_GET, "/forelay/v1/ledger", ROUTE_QUESTION, RIGHT_TENANT, false, QUESTION_LEDGER},
    {METHOD_GET, "/forelay/v1/budget", ROUTE_QUESTION, RIGHT_TENANT, false, QUESTION_BUDGET},
    {METHOD_PUT, "/forelay/v1/budget", ROUTE_PUT_BUDGET, RIGHT_OPERATOR, false, 0},
    {METHOD_POST, "/forelay/v1/prepare", ROUTE_WISH, RIGHT_TENANT, false, WISH_PREPARE},
    {METHOD_POST, "/forelay/v1/documents", ROUTE_WISH, RIGHT_TENANT, false, WISH_DOCUMENT},
    {METHOD_POST, "/forelay/v1/announce", ROUTE_WISH, RIGHT_TENANT, false, WISH_ANNOUNCE},
    {METHOD_POST, "/forelay/v1/pin", ROUTE_WISH, RIGHT_TENANT, false, WISH_PIN},
};

_Static_assert(sizeof routes / sizeof routes[0] == ROUTES_COUNT, "the table and its count in router.h agree");

static const struct {
  enum route_method method;
  const char *name;
} methods_named[] = {{METHOD_GET, "GET"}, {METHOD_POST, "POST"}, {METHOD_PUT, "PUT"}, {METHOD_DELETE, "DELETE"}};

enum route_method route_method_of_name(const char *name) {
  for (size_t i = 0; i < sizeof methods_named / sizeof methods_named[0]; i++) {
    if (strcmp(name, methods_named[i].name) == 0) return methods_named[i].method;
  }
  return strcmp(name, "HEAD") == 0 ? METHOD_GET : METHOD_OTHER;
}

/* A decimal number without sign, leading zeros or overflow. */
static bool number_read(const char *text, uint64_t *ret_number) {
  size_t size = strlen(text);
  if (size == 0 || size > 19 || (size > 1 && text[0] == '0')) return false;
  uint64_t number = 0;
  for (size_t i = 0; i < size; i++) {
    if (text[i] < '0' || text[i] > '9') return false;
    number = number * 10 + (uint64_t)(text[i] - '0');
  }
  *ret_number = number;
  return true;
}

static bool route_fits(const struct route *route, const char *path, const char **ret_name, uint64_t *ret_number) {
  size_t size = strlen(route->path);
  if (route->path[size - 1] != '*') {
    *ret_name = "";
    return strcmp(route->path, path) == 0;
  }
  if (strncmp(route->path, path, size - 1) != 0 || path[size - 1] == 0) return false;
  const char *name = path + size - 1;
  if (route->takes_number && !number_read(name, ret_number)) return false;
  *ret_name = name;
  return true;
}

void route_find(enum route_method method, const char *path, struct route_match *ret_match) {
  struct route_match match = {.name = ""};
  for (size_t i = 0; i < ROUTES_COUNT; i++) {
    const char *name = "";
    uint64_t number = 0;
    if (!route_fits(&routes[i], path, &name, &number)) continue;
    match.methods |= (unsigned)routes[i].method;
    if (routes[i].method != method || match.route != NULL) continue;
    match.route = &routes[i];
    match.name = name;
    match.number = number;
  }
  *ret_match = match;
}

void route_methods_print(unsigned methods, bool is_cors, char *into, unsigned size) {
  unsigned used = 0;
  into[0] = 0;
  for (size_t i = 0; i < sizeof methods_named / sizeof methods_named[0]; i++) {
    if ((methods & (unsigned)methods_named[i].method) == 0) continue;
    int n = snprintf(into + used, size - used, "%s%s", used > 0 ? ", " : "", methods_named[i].name);
    if (n < 0 || (unsigned)n >= size - used) return;
    used += (unsigned)n;
  }
  if (is_cors) snprintf(into + used, size - used, "%sOPTIONS", used > 0 ? ", " : "");
}

unsigned route_number(const struct route *route) {
  return route == NULL ? ROUTES_COUNT : (unsigned)(route - routes);
}

const char *route_label(unsigned number) {
  return number < ROUTES_COUNT ? routes[number].path : "other";
}

const char *route_method_label(unsigned number) {
  for (size_t i = 0; number < ROUTES_COUNT && i < sizeof methods_named / sizeof methods_named[0]; i++) {
    if (methods_named[i].method == routes[number].method) return methods_named[i].name;
  }
  return "";
}
