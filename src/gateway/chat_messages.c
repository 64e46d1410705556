#include "gateway/chat_messages.h"

#include <stdio.h>
#include <string.h>

#include "gateway/json_field.h"
#include "gateway/token_hash.h"

static const struct field_rule message_rules[] = {
    {"role", FIELD_SERVED, NULL},
    {"content", FIELD_SERVED, NULL},
    {"name", FIELD_SERVED, NULL},
    {"tool_calls", FIELD_SERVED, NULL},
    {"tool_call_id", FIELD_SERVED, NULL},
    {"reasoning_content", FIELD_SERVED, NULL},
    /* what answers carry comes back with them */
    {"refusal", FIELD_HARMLESS, NULL},
    {"annotations", FIELD_HARMLESS, NULL},
    {"audio", FIELD_REFUSED, NULL},
    {"function_call", FIELD_REFUSED, NULL},
};

static const struct field_rule text_part_rules[] = {{"type", FIELD_SERVED, NULL}, {"text", FIELD_SERVED, NULL}};

static const struct field_rule call_rules[] = {{"id", FIELD_SERVED, NULL},
                                               {"type", FIELD_ONLY, "\"function\""},
                                               {"index", FIELD_HARMLESS, NULL},
                                               {"function", FIELD_SERVED, NULL}};

static const struct field_rule function_rules[] = {{"name", FIELD_SERVED, NULL}, {"arguments", FIELD_SERVED, NULL}};

#define RULES_COUNT(rules) (sizeof(rules) / sizeof(rules)[0])

static enum status part_check(const json_t *part, const char *prefix, struct api_error *error) {
  struct field_scope scope = {.object = part, .prefix = prefix, .error = error};
  const char *type = NULL, *text = NULL;
  if (!json_is_object(part)) {
    return api_error_field(error, prefix, "invalid_type", "Invalid type for '%s': expected an object.", prefix);
  }
  enum status status = field_string(&scope, "type", 64, &type);
  if (status != STATUS_OK) return status;
  if (type == NULL || strcmp(type, "text") != 0) {
    return field_refuse(&scope, "type", type == NULL ? "missing_required_parameter" : "unsupported_value",
                        "'%stype' is supported only as \"text\".", prefix);
  }
  status = fields_check(&scope, text_part_rules, RULES_COUNT(text_part_rules));
  if (status == STATUS_OK) status = field_string(&scope, "text", SIZE_MAX, &text);
  if (status == STATUS_OK && text == NULL) {
    status =
        field_refuse(&scope, "text", "missing_required_parameter", "Missing required parameter: '%stext'.", prefix);
  }
  return status;
}

static enum status content_check(const struct field_scope *scope, bool is_required) {
  const json_t *content = field_get(scope, "content");
  if (content == NULL) {
    if (!is_required) return STATUS_OK;
    return field_refuse(scope, "content", "missing_required_parameter", "Missing required parameter: '%scontent'.",
                        scope->prefix);
  }
  if (json_is_string(content)) return STATUS_OK;
  if (!json_is_array(content) || json_array_size(content) > CHAT_PARTS_MAX) {
    return field_refuse(scope, "content", "invalid_type",
                        "Invalid type for '%scontent': expected a string or an array of at most %d parts.",
                        scope->prefix, CHAT_PARTS_MAX);
  }
  for (size_t i = 0; i < json_array_size(content); i++) {
    char prefix[sizeof scope->error->param];
    snprintf(prefix, sizeof prefix, "%scontent[%zu].", scope->prefix, i);
    enum status status = part_check(json_array_get(content, i), prefix, scope->error);
    if (status != STATUS_OK) return status;
  }
  return STATUS_OK;
}

static enum status tool_call_check(const json_t *call, const char *prefix, struct api_error *error) {
  struct field_scope scope = {.object = call, .prefix = prefix, .error = error};
  const json_t *function = NULL;
  const char *id = NULL, *name = NULL;
  if (!json_is_object(call)) {
    return api_error_field(error, prefix, "invalid_type", "Invalid type for '%s': expected an object.", prefix);
  }
  enum status status = fields_check(&scope, call_rules, RULES_COUNT(call_rules));
  if (status == STATUS_OK) status = field_string(&scope, "id", 256, &id);
  if (status == STATUS_OK) status = field_object(&scope, "function", &function);
  if (status != STATUS_OK) return status;
  if (function == NULL) {
    return field_refuse(&scope, "function", "missing_required_parameter", "Missing required parameter: '%sfunction'.",
                        prefix);
  }
  char inner[sizeof error->param];
  snprintf(inner, sizeof inner, "%.64sfunction.", prefix);
  struct field_scope function_scope = {.object = function, .prefix = inner, .error = error};
  status = fields_check(&function_scope, function_rules, RULES_COUNT(function_rules));
  if (status == STATUS_OK) status = field_string(&function_scope, "name", 256, &name);
  if (status == STATUS_OK && name == NULL) {
    status = field_refuse(&function_scope, "name", "missing_required_parameter",
                          "Missing required parameter: '%sname'.", inner);
  }
  return status;
}

static enum status tool_calls_check(const struct field_scope *scope, bool *ret_has_calls) {
  const json_t *calls = NULL;
  enum status status = field_array(scope, "tool_calls", 0, CHAT_TOOL_CALLS_MAX, &calls);
  for (size_t i = 0; status == STATUS_OK && i < json_array_size(calls); i++) {
    char prefix[sizeof scope->error->param];
    snprintf(prefix, sizeof prefix, "%stool_calls[%zu].", scope->prefix, i);
    status = tool_call_check(json_array_get(calls, i), prefix, scope->error);
    *ret_has_calls = true;
  }
  return status;
}

static enum status message_check(const struct field_scope *scope, const char **ret_role) {
  static const char *const roles[] = {"system", "developer", "user", "assistant", "tool"};
  const char *role = NULL, *text = NULL;
  bool has_calls = false;
  enum status status = fields_check(scope, message_rules, RULES_COUNT(message_rules));
  if (status == STATUS_OK) status = field_string(scope, "role", 64, &role);
  if (status != STATUS_OK) return status;
  if (role == NULL) {
    return field_refuse(scope, "role", "missing_required_parameter", "Missing required parameter: '%srole'.",
                        scope->prefix);
  }
  size_t i = 0;
  while (i < RULES_COUNT(roles) && strcmp(roles[i], role) != 0) i++;
  if (i == RULES_COUNT(roles)) {
    return field_refuse(scope, "role", "invalid_value",
                        "Invalid '%srole': expected system, developer, user, assistant or tool.", scope->prefix);
  }
  bool is_assistant = strcmp(role, "assistant") == 0;
  status = field_string(scope, "name", 256, &text);
  if (status == STATUS_OK) status = field_string(scope, "tool_call_id", 256, &text);
  if (status == STATUS_OK) status = field_string(scope, "reasoning_content", SIZE_MAX, &text);
  if (status == STATUS_OK) status = tool_calls_check(scope, &has_calls);
  if (status == STATUS_OK && has_calls && !is_assistant) {
    status = field_refuse(scope, "tool_calls", "invalid_value", "'%stool_calls' belong to an assistant's message.",
                          scope->prefix);
  }
  if (status == STATUS_OK) status = content_check(scope, !(is_assistant && has_calls));
  *ret_role = role;
  return status;
}

static struct map_key content_hash(struct map_key hash, const json_t *content) {
  if (json_is_string(content)) return token_hash_text(hash, json_string_value(content), json_string_length(content));
  for (size_t i = 0; i < json_array_size(content); i++) {
    const json_t *text = json_object_get(json_array_get(content, i), "text");
    hash = token_hash_text(hash, json_string_value(text), json_string_length(text));
  }
  return hash;
}

enum status chat_messages_check(const json_t *messages, const char *name, struct message_facts *ret_facts,
                                struct api_error *error) {
  struct message_facts facts = {0};
  struct map_key hash = token_hash_begin(0);
  size_t count = json_array_size(messages);
  for (size_t i = 0; i < count; i++) {
    const json_t *message = json_array_get(messages, i);
    char prefix[sizeof error->param];
    snprintf(prefix, sizeof prefix, "%s[%zu].", name, i);
    struct field_scope scope = {.object = message, .prefix = prefix, .error = error};
    const char *role = NULL;
    if (!json_is_object(message)) {
      prefix[strlen(prefix) - 1] = 0;
      return api_error_field(error, prefix, "invalid_type", "Invalid type for '%s': expected an object.", prefix);
    }
    enum status status = message_check(&scope, &role);
    if (status != STATUS_OK) return status;
    bool is_user = strcmp(role, "user") == 0;
    if (i == 0) facts.has_head = strcmp(role, "system") == 0 || strcmp(role, "developer") == 0;
    if (facts.user_messages == 0) {
      hash = token_hash_text(hash, role, strlen(role));
      hash = content_hash(hash, json_object_get(message, "content"));
      if (is_user) facts.opening = hash.hi | 1;
    }
    if (is_user) facts.user_messages++;
    facts.is_last_user = is_user;
  }
  *ret_facts = facts;
  return STATUS_OK;
}

/* Where the last message's text stands: the message's content, or the last part of it. NULL where it has none. */
static const json_t *last_text(const json_t *messages) {
  size_t count = json_array_size(messages);
  if (count == 0) return NULL;
  const json_t *content = json_object_get(json_array_get(messages, count - 1), "content");
  if (json_is_string(content)) return content;
  size_t parts = json_array_size(content);
  return parts == 0 ? NULL : json_object_get(json_array_get(content, parts - 1), "text");
}

const char *chat_messages_last_text(const json_t *messages, size_t *ret_size) {
  const json_t *text = last_text(messages);
  *ret_size = json_string_length(text);
  return json_string_value(text);
}

json_t *chat_messages_with_tail(const json_t *messages, size_t text_size, const char *tail) {
  json_t *copy = json_deep_copy(messages);
  const json_t *found = last_text(copy);
  size_t tail_size = strlen(tail);
  if (found == NULL || json_string_length(found) < text_size) {
    json_decref(copy);
    return NULL;
  }
  json_t *text = json_sprintf("%.*s%s", (int)text_size, json_string_value(found), tail);
  json_t *message = json_array_get(copy, json_array_size(copy) - 1);
  json_t *content = json_object_get(message, "content");
  int rc = -1;
  if (text != NULL && json_string_length(text) == text_size + tail_size) {
    rc = json_is_string(content) ? json_object_set(message, "content", text)
                                 : json_object_set(json_array_get(content, json_array_size(content) - 1), "text", text);
  }
  json_decref(text);
  if (rc == 0) return copy;
  json_decref(copy);
  return NULL;
}
