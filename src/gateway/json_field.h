/* Strict reading of members of a JSON object: type and range are checked, a refusal names the field. A member that is
 * absent or null leaves the value as it was. Any thread; borrows the object. */
#ifndef FORELAY_GATEWAY_JSON_FIELD_H
#define FORELAY_GATEWAY_JSON_FIELD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/status.h"
#include "gateway/api_error.h"

/* Where members are read from, and where refusals go. */
struct field_scope {
  const json_t *object;
  const char *prefix; /* before a name in refusals: "stream_options." or "" */
  struct api_error *error;
};

enum field_treatment {
  FIELD_SERVED = 0, /* read by its reader */
  FIELD_HARMLESS,   /* accepted, changes nothing */
  FIELD_ONLY,       /* accepted with the values of `accepts`, refused otherwise */
  FIELD_REFUSED     /* known, would change the answer, not served */
};

struct field_rule {
  const char *name;
  enum field_treatment treatment;
  const char *accepts; /* compact JSON values, one blank between them */
};

/* Every member must have a rule. STATUS_INVALID names the first that has none or is refused. */
MUST_USE enum status fields_check(const struct field_scope *scope, const struct field_rule *rules, size_t n_rules);
/* Always STATUS_INVALID: 400 about scope's member `name`. */
enum status field_refuse(const struct field_scope *scope, const char *name, const char *code, const char *message, ...)
    PRINTF_LIKE(4, 5);

/* The member, NULL where it is absent or null. */
const json_t *field_get(const struct field_scope *scope, const char *name);
MUST_USE enum status field_number(const struct field_scope *scope, const char *name, double low, double high,
                                  double *value);
MUST_USE enum status field_integer(const struct field_scope *scope, const char *name, int64_t low, int64_t high,
                                   int64_t *value);
MUST_USE enum status field_bool(const struct field_scope *scope, const char *name, bool *value);
/* *value is borrowed from the object. size_max counts bytes. */
MUST_USE enum status field_string(const struct field_scope *scope, const char *name, size_t size_max,
                                  const char **value);
MUST_USE enum status field_object(const struct field_scope *scope, const char *name, const json_t **value);
MUST_USE enum status field_array(const struct field_scope *scope, const char *name, size_t count_min, size_t count_max,
                                 const json_t **value);

/* A request's body: one JSON object in UTF-8, nested at most BODY_DEPTH_MAX deep, no U+0000. The caller owns *ret_root
 * (json_decref). Refusals say line and column, never the text. */
enum { BODY_DEPTH_MAX = 64 };
MUST_USE enum status body_parse(const char *bytes, size_t size, json_t **ret_root, struct api_error *error);

#endif
