/* Cross-origin headers, by the operator's setting. Loop thread; owns nothing. */
#ifndef FORELAY_GATEWAY_CORS_H
#define FORELAY_GATEWAY_CORS_H

#include <stddef.h>

struct http_field;

enum { CORS_FIELDS_MAX = 4 };

/* Headers of every reply: returns how many were written to fields[CORS_FIELDS_MAX]; none where origin is NULL. Values
 * are borrowed from the arguments. */
size_t cors_fields(const char *origin, struct http_field *fields);
/* Headers of the answer to a preflight; `methods` is the value of an Allow header. */
size_t cors_preflight_fields(const char *methods, struct http_field *fields);

#endif
