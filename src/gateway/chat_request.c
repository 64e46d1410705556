#include "gateway/chat_request.h"

#include <stdlib.h>
#include <string.h>

#include "gateway/json_text.h"

enum { TOOLS_MAX = 128, TOOL_NAME_SIZE_MAX = 64 };

static const char *const part_names[CHAT_PARTS] = {
    [CHAT_MESSAGES] = "messages",       [CHAT_TOOLS] = "tools",
    [CHAT_TOOL_CHOICE] = "tool_choice", [CHAT_RESPONSE_FORMAT] = "response_format",
    [CHAT_JSON_SCHEMA] = "json_schema", [CHAT_TEMPLATE_KWARGS] = "chat_template_kwargs",
};

/* clang-format off */
#define RENDER_FIELD_RULES                                                                                             \
  {"messages", FIELD_SERVED, NULL}, {"tools", FIELD_SERVED, NULL}, {"tool_choice", FIELD_SERVED, NULL},                \
  {"parallel_tool_calls", FIELD_SERVED, NULL}, {"response_format", FIELD_SERVED, NULL},                                \
  {"chat_template_kwargs", FIELD_SERVED, NULL}, {"reasoning_effort", FIELD_SERVED, NULL},                              \
  {"add_generation_prompt", FIELD_SERVED, NULL}

static const struct field_rule chat_rules[] = {
    RENDER_FIELD_RULES,
    SAMPLING_FIELD_RULES,
    {"top_logprobs", FIELD_SERVED, NULL},
    {"max_completion_tokens", FIELD_SERVED, NULL},
    {"modalities", FIELD_ONLY, "[\"text\"]"},
    {"verbosity", FIELD_ONLY, "\"medium\""},
    {"audio", FIELD_REFUSED, NULL},
    {"prediction", FIELD_REFUSED, NULL},
    {"web_search_options", FIELD_REFUSED, NULL},
    {"functions", FIELD_REFUSED, NULL},
    {"function_call", FIELD_REFUSED, NULL},
    {"continue_final_message", FIELD_ONLY, "false"},
};

/* Wishes: what a template reads, and the wish's own members. */
static const struct field_rule render_rules[] = {
    RENDER_FIELD_RULES,
    {"model", FIELD_SERVED, NULL},
    {"json_schema", FIELD_SERVED, NULL},
    {"grammar", FIELD_SERVED, NULL},
    {"tier", FIELD_SERVED, NULL},
    {"by", FIELD_SERVED, NULL},
    {"partial", FIELD_SERVED, NULL},
    {"at", FIELD_SERVED, NULL},
    {"every", FIELD_SERVED, NULL},
    {"count", FIELD_SERVED, NULL},
    {"until", FIELD_SERVED, NULL},
};
/* clang-format on */

static enum status tools_check(const struct field_scope *scope, bool *ret_has_tools) {
  const json_t *tools = NULL;
  enum status status = field_array(scope, "tools", 0, TOOLS_MAX, &tools);
  for (size_t i = 0; status == STATUS_OK && i < json_array_size(tools); i++) {
    static const struct field_rule rules[] = {{"type", FIELD_ONLY, "\"function\""}, {"function", FIELD_SERVED, NULL}};
    static const struct field_rule function_rules[] = {{"name", FIELD_SERVED, NULL},
                                                       {"description", FIELD_SERVED, NULL},
                                                       {"parameters", FIELD_SERVED, NULL},
                                                       {"strict", FIELD_HARMLESS, NULL}};
    char prefix[64];
    const json_t *tool = json_array_get(tools, i), *function = NULL, *parameters = NULL;
    const char *name = NULL, *description = NULL;
    snprintf(prefix, sizeof prefix, "tools[%zu].", i);
    struct field_scope inner = {.object = tool, .prefix = prefix, .error = scope->error};
    if (!json_is_object(tool)) {
      return api_error_field(scope->error, "tools", "invalid_type",
                             "Invalid type for 'tools[%zu]': expected an object.", i);
    }
    status = fields_check(&inner, rules, sizeof rules / sizeof rules[0]);
    if (status == STATUS_OK) status = field_object(&inner, "function", &function);
    if (status == STATUS_OK && function == NULL) {
      status = field_refuse(&inner, "function", "missing_required_parameter",
                            "Missing required parameter: '%sfunction'.", prefix);
    }
    if (status != STATUS_OK) return status;
    snprintf(prefix, sizeof prefix, "tools[%zu].function.", i);
    inner.object = function;
    status = fields_check(&inner, function_rules, sizeof function_rules / sizeof function_rules[0]);
    if (status == STATUS_OK) status = field_string(&inner, "name", TOOL_NAME_SIZE_MAX, &name);
    if (status == STATUS_OK) status = field_string(&inner, "description", SIZE_MAX, &description);
    if (status == STATUS_OK) status = field_object(&inner, "parameters", &parameters);
    if (status == STATUS_OK && (name == NULL || name[0] == 0)) {
      status =
          field_refuse(&inner, "name", "missing_required_parameter", "Missing required parameter: '%sname'.", prefix);
    }
    *ret_has_tools = true;
  }
  return status;
}

static enum status tool_choice_check(const struct field_scope *scope, bool has_tools) {
  const json_t *choice = field_get(scope, "tool_choice");
  if (choice == NULL) return STATUS_OK;
  const char *text = json_string_value(choice);
  const char *type = json_string_value(json_object_get(choice, "type"));
  const char *name = json_string_value(json_object_get(json_object_get(choice, "function"), "name"));
  bool is_named = json_is_object(choice) && type != NULL && strcmp(type, "function") == 0 && name != NULL;
  bool is_none = text != NULL && strcmp(text, "none") == 0;
  bool is_auto = text != NULL && strcmp(text, "auto") == 0;
  bool is_required = text != NULL && strcmp(text, "required") == 0;
  if (!is_named && !is_none && !is_auto && !is_required) {
    return field_refuse(scope, "tool_choice", "invalid_value",
                        "Invalid 'tool_choice': expected none, auto, required or a function's name.");
  }
  if (!has_tools && !is_none && !is_auto) {
    return field_refuse(scope, "tool_choice", "invalid_value",
                        "'tool_choice' is only allowed when 'tools' are specified.");
  }
  return STATUS_OK;
}

/* *ret_is_plain: the answer is ordinary text. */
static enum status response_format_check(const struct field_scope *scope, bool *ret_is_plain) {
  const json_t *format = NULL, *schema = NULL;
  const char *type = NULL;
  *ret_is_plain = true;
  enum status status = field_object(scope, "response_format", &format);
  if (status != STATUS_OK || format == NULL) return status;
  struct field_scope inner = {.object = format, .prefix = "response_format.", .error = scope->error};
  status = field_string(&inner, "type", 64, &type);
  if (status != STATUS_OK) return status;
  if (type == NULL ||
      (strcmp(type, "text") != 0 && strcmp(type, "json_object") != 0 && strcmp(type, "json_schema") != 0)) {
    return field_refuse(&inner, "type", "invalid_value",
                        "Invalid 'response_format.type': expected text, json_object or json_schema.");
  }
  *ret_is_plain = strcmp(type, "text") == 0;
  if (strcmp(type, "json_schema") != 0) return STATUS_OK;
  status = field_object(&inner, "json_schema", &schema);
  if (status != STATUS_OK) return status;
  if (schema == NULL) {
    return field_refuse(&inner, "json_schema", "missing_required_parameter",
                        "Missing required parameter: 'response_format.json_schema'.");
  }
  inner = (struct field_scope){.object = schema, .prefix = "response_format.json_schema.", .error = scope->error};
  schema = NULL;
  status = field_object(&inner, "schema", &schema);
  if (status == STATUS_OK && schema == NULL) {
    status = field_refuse(&inner, "schema", "missing_required_parameter",
                          "Missing required parameter: 'response_format.json_schema.schema'.");
  }
  return status;
}

static enum status logprobs_read(const struct field_scope *scope, struct sampling *sampling) {
  bool wants = false;
  int64_t n_top = 0;
  enum status status = field_bool(scope, "logprobs", &wants);
  if (status == STATUS_OK) status = field_integer(scope, "top_logprobs", 0, SAMPLING_TOP_MAX, &n_top);
  if (status == STATUS_OK && n_top > 0 && !wants) {
    status =
        field_refuse(scope, "top_logprobs", "invalid_value", "'top_logprobs' is only allowed when 'logprobs' is true.");
  }
  sampling->wants_logprobs = wants;
  sampling->n_top = (uint32_t)n_top;
  return status;
}

static enum status effort_read(const struct field_scope *scope, const char **value) {
  static const char *const efforts[] = {"none", "minimal", "low", "medium", "high", "xhigh"};
  enum status status = field_string(scope, "reasoning_effort", 32, value);
  if (status != STATUS_OK || *value == NULL) return status;
  for (size_t i = 0; i < sizeof efforts / sizeof efforts[0]; i++) {
    if (strcmp(*value, efforts[i]) == 0) return STATUS_OK;
  }
  return field_refuse(scope, "reasoning_effort", "invalid_value",
                      "Invalid 'reasoning_effort': expected none, minimal, low, medium, high or xhigh.");
}

/* Keeps the members a template renders as the client wrote them: key order and numbers' spelling reach the prompt. */
static enum status parts_copy(const char *bytes, size_t size, struct chat_call *call, struct api_error *error) {
  for (int i = 0; i < CHAT_PARTS; i++) {
    const char *value = NULL;
    size_t value_size = 0;
    const json_t *member = json_object_get(call->root, part_names[i]);
    if (member == NULL || json_is_null(member)) continue;
    if (json_text_member(bytes, size, part_names[i], &value, &value_size)) {
      call->parts[i] = strndup(value, value_size);
    } else {
      call->parts[i] = json_dumps(member, JSON_COMPACT | JSON_ENCODE_ANY); /* its name was written with escapes */
    }
    if (call->parts[i] == NULL) return api_error_of_status(error, STATUS_NO_MEMORY, NULL);
  }
  return STATUS_OK;
}

static enum status render_fields_read(const struct field_scope *scope, struct chat_call *call, bool *ret_is_plain) {
  const json_t *kwargs = NULL, *schema = NULL;
  bool adds_generation_prompt = true, is_parallel = false;
  enum status status = field_array(scope, "messages", 1, CHAT_MESSAGES_MAX, &call->messages);
  if (status == STATUS_OK && call->messages == NULL) {
    status = field_refuse(scope, "messages", "missing_required_parameter", "Missing required parameter: 'messages'.");
  }
  if (status == STATUS_OK) status = chat_messages_check(call->messages, "messages", &call->facts, scope->error);
  if (status == STATUS_OK) status = tools_check(scope, &call->has_tools);
  if (status == STATUS_OK) status = tool_choice_check(scope, call->has_tools);
  if (status == STATUS_OK) status = response_format_check(scope, ret_is_plain);
  if (status == STATUS_OK) status = field_object(scope, "json_schema", &schema);
  if (status == STATUS_OK) status = field_object(scope, "chat_template_kwargs", &kwargs);
  if (status == STATUS_OK) status = effort_read(scope, &call->chat.reasoning_effort);
  if (status == STATUS_OK) status = field_bool(scope, "add_generation_prompt", &adds_generation_prompt);
  if (status == STATUS_OK) status = field_bool(scope, "parallel_tool_calls", &is_parallel);
  call->chat.omits_generation_prompt = !adds_generation_prompt;
  call->chat.parallel_tool_calls = field_get(scope, "parallel_tool_calls") == NULL ? -1 : is_parallel;
  return status;
}

static enum status call_read(const char *bytes, size_t size, bool is_render_only, uint32_t n_vocab,
                             struct chat_call *call, struct api_error *error) {
  struct field_scope scope = {.object = call->root, .prefix = "", .error = error};
  bool is_plain = true;
  enum status status = is_render_only ? fields_check(&scope, render_rules, sizeof render_rules / sizeof render_rules[0])
                                      : fields_check(&scope, chat_rules, sizeof chat_rules / sizeof chat_rules[0]);
  if (status == STATUS_OK && !is_render_only) {
    int64_t output_max = 0;
    status = sampling_fields_read(&scope, UINT32_MAX, n_vocab, &call->fields);
    if (status == STATUS_OK) status = logprobs_read(&scope, &call->fields.sampling);
    if (status == STATUS_OK) status = field_integer(&scope, "max_completion_tokens", 1, INT32_MAX, &output_max);
    if (status == STATUS_OK && output_max > 0) call->fields.output_tokens_max = (uint32_t)output_max;
  }
  if (status == STATUS_OK) status = render_fields_read(&scope, call, &is_plain);
  if (status == STATUS_OK) status = parts_copy(bytes, size, call, error);
  if (status != STATUS_OK) return status;
  struct chat_request *chat = &call->chat;
  chat->messages_json = call->parts[CHAT_MESSAGES];
  chat->tools_json = call->has_tools ? call->parts[CHAT_TOOLS] : NULL;
  chat->tool_choice_json = call->has_tools ? call->parts[CHAT_TOOL_CHOICE] : NULL;
  chat->response_format_json = is_plain ? NULL : call->parts[CHAT_RESPONSE_FORMAT];
  chat->json_schema_json = call->parts[CHAT_JSON_SCHEMA];
  chat->template_kwargs_json = call->parts[CHAT_TEMPLATE_KWARGS];
  chat->grammar = call->fields.sampling.grammar;
  call->fields.sampling.grammar = NULL; /* comes back from the template, with what tools add */
  return STATUS_OK;
}

enum status chat_call_parse(const char *bytes, size_t size, bool is_render_only, uint32_t n_vocab,
                            struct chat_call *ret_call, struct api_error *error) {
  struct chat_call *call = ret_call;
  memset(call, 0, sizeof *call);
  enum status status = body_parse(bytes, size, &call->root, error);
  if (status == STATUS_OK) status = call_read(bytes, size, is_render_only, n_vocab, call, error);
  if (status != STATUS_OK) chat_call_release(call);
  return status;
}

void chat_call_release(struct chat_call *call) {
  for (int i = 0; i < CHAT_PARTS; i++) {
    free(call->parts[i]);
    call->parts[i] = NULL;
  }
  json_decref(call->root);
  call->root = NULL;
}
