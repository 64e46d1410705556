#include "gateway/json_field.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/json_text.h"

enum status field_refuse(const struct field_scope *scope, const char *name, const char *code, const char *message,
                         ...) {
  char param[sizeof scope->error->param];
  char text[sizeof scope->error->message];
  va_list args;
  va_start(args, message);
  vsnprintf(text, sizeof text, message, args);
  va_end(args);
  snprintf(param, sizeof param, "%s%s", scope->prefix, name);
  return api_error_field(scope->error, param, code, "%s", text);
}

const json_t *field_get(const struct field_scope *scope, const char *name) {
  const json_t *value = json_object_get(scope->object, name);
  return value == NULL || json_is_null(value) ? NULL : value;
}

static const char *type_name(const json_t *value) {
  switch (json_typeof(value)) {
  case JSON_OBJECT:
    return "an object";
  case JSON_ARRAY:
    return "an array";
  case JSON_STRING:
    return "a string";
  case JSON_INTEGER:
    return "an integer";
  case JSON_REAL:
    return "a number";
  case JSON_TRUE:
  case JSON_FALSE:
    return "a boolean";
  default:
    return "null";
  }
}

static enum status type_refuse(const struct field_scope *scope, const char *name, const char *expected,
                               const json_t *value) {
  return field_refuse(scope, name, "invalid_type", "Invalid type for '%s%s': expected %s, but got %s instead.",
                      scope->prefix, name, expected, type_name(value));
}

/* Whether `text` is one of the blank-separated values of `accepts`. */
static bool value_is_among(const char *text, const char *accepts) {
  size_t size = strlen(text);
  for (const char *at = accepts; at != NULL && *at != 0;) {
    const char *end = strchr(at, ' ');
    size_t length = end == NULL ? strlen(at) : (size_t)(end - at);
    if (length == size && memcmp(at, text, size) == 0) return true;
    at = end == NULL ? NULL : end + 1;
  }
  return false;
}

static enum status rule_apply(const struct field_scope *scope, const struct field_rule *rule, const json_t *value) {
  if (json_is_null(value)) return STATUS_OK;
  if (rule->treatment == FIELD_REFUSED) {
    return field_refuse(scope, rule->name, "unsupported_parameter", "'%s%s' is not supported by this server.",
                        scope->prefix, rule->name);
  }
  if (rule->treatment != FIELD_ONLY) return STATUS_OK;
  char text[64];
  size_t size = json_dumpb(value, text, sizeof text - 1, JSON_COMPACT | JSON_ENCODE_ANY);
  text[size < sizeof text ? size : 0] = 0;
  if (value_is_among(text, rule->accepts)) return STATUS_OK;
  return field_refuse(scope, rule->name, "unsupported_value", "'%s%s' is supported only as %s.", scope->prefix,
                      rule->name, rule->accepts);
}

enum status fields_check(const struct field_scope *scope, const struct field_rule *rules, size_t n_rules) {
  const char *name = NULL;
  json_t *value = NULL;
  /* the iterator does not change the object */
  json_t *object = (json_t *)(uintptr_t)scope->object;
  json_object_foreach(object, name, value) {
    size_t i = 0;
    while (i < n_rules && strcmp(rules[i].name, name) != 0) i++;
    if (i == n_rules) {
      return field_refuse(scope, name, "unknown_parameter", "Unknown parameter: '%s%.64s'.", scope->prefix, name);
    }
    enum status status = rule_apply(scope, &rules[i], value);
    if (status != STATUS_OK) return status;
  }
  return STATUS_OK;
}

enum status field_number(const struct field_scope *scope, const char *name, double low, double high, double *value) {
  const json_t *member = field_get(scope, name);
  if (member == NULL) return STATUS_OK;
  if (!json_is_number(member)) return type_refuse(scope, name, "a number", member);
  double number = json_number_value(member);
  if (!isfinite(number) || number < low || number > high) {
    return field_refuse(scope, name, "invalid_value", "Invalid '%s%s': expected a number from %g to %g.", scope->prefix,
                        name, low, high);
  }
  *value = number;
  return STATUS_OK;
}

enum status field_integer(const struct field_scope *scope, const char *name, int64_t low, int64_t high,
                          int64_t *value) {
  const json_t *member = field_get(scope, name);
  if (member == NULL) return STATUS_OK;
  if (!json_is_integer(member)) return type_refuse(scope, name, "an integer", member);
  int64_t number = json_integer_value(member);
  if (number < low) {
    return field_refuse(scope, name, "integer_below_min_value",
                        "Invalid '%s%s': expected a value >= %lld, but got %lld instead.", scope->prefix, name,
                        (long long)low, (long long)number);
  }
  if (number > high) {
    return field_refuse(scope, name, "integer_above_max_value",
                        "Invalid '%s%s': expected a value <= %lld, but got %lld instead.", scope->prefix, name,
                        (long long)high, (long long)number);
  }
  *value = number;
  return STATUS_OK;
}

enum status field_bool(const struct field_scope *scope, const char *name, bool *value) {
  const json_t *member = field_get(scope, name);
  if (member == NULL) return STATUS_OK;
  if (!json_is_boolean(member)) return type_refuse(scope, name, "a boolean", member);
  *value = json_is_true(member);
  return STATUS_OK;
}

enum status field_string(const struct field_scope *scope, const char *name, size_t size_max, const char **value) {
  const json_t *member = field_get(scope, name);
  if (member == NULL) return STATUS_OK;
  if (!json_is_string(member)) return type_refuse(scope, name, "a string", member);
  if (json_string_length(member) > size_max) {
    return field_refuse(scope, name, "string_above_max_length", "Invalid '%s%s': at most %zu bytes.", scope->prefix,
                        name, size_max);
  }
  *value = json_string_value(member);
  return STATUS_OK;
}

enum status field_object(const struct field_scope *scope, const char *name, const json_t **value) {
  const json_t *member = field_get(scope, name);
  if (member == NULL) return STATUS_OK;
  if (!json_is_object(member)) return type_refuse(scope, name, "an object", member);
  *value = member;
  return STATUS_OK;
}

enum status field_array(const struct field_scope *scope, const char *name, size_t count_min, size_t count_max,
                        const json_t **value) {
  const json_t *member = field_get(scope, name);
  if (member == NULL) return STATUS_OK;
  if (!json_is_array(member)) return type_refuse(scope, name, "an array", member);
  size_t count = json_array_size(member);
  if (count < count_min || count > count_max) {
    return field_refuse(scope, name, count < count_min ? "array_below_min_length" : "array_above_max_length",
                        "Invalid '%s%s': expected %zu to %zu items, but got %zu.", scope->prefix, name, count_min,
                        count_max, count);
  }
  *value = member;
  return STATUS_OK;
}

enum status body_parse(const char *bytes, size_t size, json_t **ret_root, struct api_error *error) {
  if (size == 0) return api_error_set(error, 400, "invalid_json", "The body is empty; send a JSON object.");
  if (json_text_depth(bytes, size, BODY_DEPTH_MAX) > BODY_DEPTH_MAX) {
    return api_error_set(error, 400, "invalid_json", "The body is nested deeper than %d levels.", BODY_DEPTH_MAX);
  }
  json_error_t fault;
  json_t *root = json_loadb(bytes, size, 0, &fault);
  if (root == NULL) {
    const char *what = "is not valid JSON";
    switch (json_error_code(&fault)) {
    case json_error_out_of_memory:
      return api_error_of_status(error, STATUS_NO_MEMORY, NULL);
    case json_error_invalid_utf8:
      what = "is not valid UTF-8";
      break;
    case json_error_null_character:
    case json_error_null_byte_in_key:
      what = "holds a zero character, which is not supported";
      break;
    case json_error_numeric_overflow:
      what = "holds a number that is too large";
      break;
    case json_error_invalid_format:
      what = "is not a JSON object";
      break;
    default:
      break;
    }
    return api_error_set(error, 400, "invalid_json", "The body %s (line %d, column %d).", what, fault.line,
                         fault.column);
  }
  if (!json_is_object(root)) {
    json_decref(root);
    return api_error_set(error, 400, "invalid_json", "The body is not a JSON object.");
  }
  *ret_root = root;
  return STATUS_OK;
}
