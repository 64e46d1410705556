/* The table of routes: which path and method is served by what, who may use it. Pure look-ups. Any thread. */
#ifndef FORELAY_GATEWAY_ROUTER_H
#define FORELAY_GATEWAY_ROUTER_H

#include <stdbool.h>
#include <stdint.h>

enum route_target {
  ROUTE_CHAT = 0,
  ROUTE_COMPLETION,
  ROUTE_MODELS,
  ROUTE_MODEL,
  ROUTE_TOKENIZE,
  ROUTE_DETOKENIZE,
  ROUTE_APPLY_TEMPLATE,
  ROUTE_PROPS,
  ROUTE_HEALTH,
  ROUTE_METRICS,
  ROUTE_QUESTION, /* GET under /forelay/v1/: `question` says which */
  ROUTE_PUT_BUDGET,
  ROUTE_WISH, /* POST under /forelay/v1/: `wish` says which */
  ROUTE_DELETE_TASK,
  ROUTE_DELETE_STATE,
  ROUTE_ABSENT, /* known, but not built: 501 */
  ROUTE_TARGET_COUNT
};

enum route_right {
  RIGHT_OPEN = 0, /* no key needed */
  RIGHT_TENANT,   /* any tenant */
  RIGHT_OPERATOR  /* tenant admin, or anybody where there are no keys */
};

enum route_method { METHOD_GET = 1, METHOD_POST = 2, METHOD_PUT = 4, METHOD_DELETE = 8, METHOD_OTHER = 16 };

struct route {
  enum route_method method;
  const char *path; /* a closing slash-star takes one more part: a name, or a number where takes_number */
  enum route_target target;
  enum route_right right;
  bool takes_number;
  int detail; /* enum backend_question, enum backend_wish_kind */
};

struct route_match {
  const struct route *route; /* NULL: none serves this method, or none knows the path */
  unsigned methods;          /* bits of enum route_method that the path knows; 0: the path is unknown */
  const char *name;          /* the starred part, inside the given path; empty without one */
  uint64_t number;           /* of it, where the route takes a number */
};

/* "GET", "POST", "PUT", "DELETE"; HEAD counts as GET; METHOD_OTHER for all else. */
enum route_method route_method_of_name(const char *name);
/* path: without query, as sent. */
void route_find(enum route_method method, const char *path, struct route_match *ret_match);
/* "GET, POST": value of an Allow header; writes at most `size` bytes. OPTIONS is named where is_cors. */
void route_methods_print(unsigned methods, bool is_cors, char *into, unsigned size);
/* Routes have numbers 0 … ROUTES_COUNT − 1, `other` (NULL) has ROUTES_COUNT; a label is a path of the table, or
 * "other". */
enum { ROUTES_COUNT = 28 };
unsigned route_number(const struct route *route);
const char *route_label(unsigned number);
/* "GET", …; "" for `other`. */
const char *route_method_label(unsigned number);

#endif
