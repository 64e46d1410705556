#include "gateway/completion_request.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/json_text.h"

static const struct field_rule completion_rules[] = {
    SAMPLING_FIELD_RULES,         {"prompt", FIELD_SERVED, NULL},  {"echo", FIELD_ONLY, "false"},
    {"best_of", FIELD_ONLY, "1"}, {"suffix", FIELD_REFUSED, NULL},
};

static enum status token_refuse(const struct field_scope *scope, const char *name) {
  return field_refuse(scope, name, "invalid_value", "Invalid '%s%s': an item is not a token of this model.",
                      scope->prefix, name);
}

static enum status tokens_check(const struct field_scope *scope, const char *name, const json_t *tokens,
                                uint32_t n_vocab) {
  size_t count = json_array_size(tokens);
  if (count == 0) {
    return field_refuse(scope, name, "invalid_value", "Invalid '%s%s': it is empty.", scope->prefix, name);
  }
  for (size_t i = 0; i < count; i++) {
    const json_t *token = json_array_get(tokens, i);
    json_int_t id = json_integer_value(token);
    if (!json_is_integer(token) || id < 0 || id >= (json_int_t)n_vocab) return token_refuse(scope, name);
  }
  return STATUS_OK;
}

enum status prompt_field_check(const struct field_scope *scope, uint32_t n_vocab, uint32_t many_max,
                               const json_t **ret_prompt, uint32_t *ret_count) {
  const json_t *prompt = field_get(scope, "prompt");
  if (prompt == NULL) {
    return field_refuse(scope, "prompt", "missing_required_parameter", "Missing required parameter: '%sprompt'.",
                        scope->prefix);
  }
  const json_t *first = json_array_get(prompt, 0);
  uint32_t count = 1;
  enum status status = STATUS_OK;
  if (json_is_string(prompt)) {
    if (json_string_length(prompt) == 0) {
      status = field_refuse(scope, "prompt", "invalid_value", "Invalid '%sprompt': it is empty.", scope->prefix);
    }
  } else if (json_is_array(prompt) && (first == NULL || json_is_number(first))) {
    status = tokens_check(scope, "prompt", prompt, n_vocab);
  } else if (json_is_array(prompt) && many_max > 1) {
    if (json_array_size(prompt) > many_max) {
      return field_refuse(scope, "prompt", "array_above_max_length", "Invalid '%sprompt': at most %u prompts.",
                          scope->prefix, many_max);
    }
    count = (uint32_t)json_array_size(prompt);
    for (uint32_t i = 0; status == STATUS_OK && i < count; i++) {
      const json_t *one = json_array_get(prompt, i);
      char name[32];
      snprintf(name, sizeof name, "prompt[%u]", i);
      if (json_is_array(one) && json_is_array(first)) {
        status = tokens_check(scope, name, one, n_vocab);
      } else if (!json_is_string(one) || !json_is_string(first) || json_string_length(one) == 0) {
        status = field_refuse(scope, name, "invalid_type",
                              "Invalid '%s%s': all prompts are strings, or all are arrays of tokens, none empty.",
                              scope->prefix, name);
      }
    }
  } else {
    status = field_refuse(scope, "prompt", "invalid_type",
                          "Invalid type for '%sprompt': expected a string or an array of tokens%s.", scope->prefix,
                          many_max > 1 ? ", or an array of either" : "");
  }
  if (status != STATUS_OK) return status;
  *ret_prompt = prompt;
  *ret_count = count;
  return STATUS_OK;
}

enum status prompt_field_get(const json_t *prompt, uint32_t index, const char **ret_text, size_t *ret_size,
                             struct buffer *tokens) {
  const json_t *one = prompt;
  if (json_is_array(prompt) && !json_is_number(json_array_get(prompt, 0))) one = json_array_get(prompt, index);
  if (json_is_string(one)) {
    *ret_text = json_string_value(one);
    *ret_size = json_string_length(one);
    return STATUS_OK;
  }
  size_t count = json_array_size(one);
  enum status status = buffer_reserve(tokens, count * sizeof(int32_t));
  for (size_t i = 0; status == STATUS_OK && i < count; i++) {
    int32_t id = (int32_t)json_integer_value(json_array_get(one, i));
    status = buffer_append(tokens, &id, sizeof id);
  }
  if (status != STATUS_OK) return status;
  *ret_text = NULL;
  *ret_size = 0;
  return STATUS_OK;
}

static enum status call_read(const char *bytes, size_t size, uint32_t n_vocab, struct completion_call *call,
                             struct api_error *error) {
  struct field_scope scope = {.object = call->root, .prefix = "", .error = error};
  int64_t n_top = -1;
  const json_t *schema = NULL;
  enum status status = fields_check(&scope, completion_rules, sizeof completion_rules / sizeof completion_rules[0]);
  if (status == STATUS_OK) status = sampling_fields_read(&scope, OUTPUT_TOKENS_DEFAULT, n_vocab, &call->fields);
  if (status == STATUS_OK) status = field_integer(&scope, "logprobs", 0, SAMPLING_TOP_MAX, &n_top);
  if (status == STATUS_OK) status = prompt_field_check(&scope, n_vocab, PROMPTS_MAX, &call->prompt, &call->n_prompts);
  if (status == STATUS_OK) status = field_object(&scope, "json_schema", &schema);
  if (status == STATUS_OK && schema != NULL && call->fields.sampling.grammar != NULL) {
    status = field_refuse(&scope, "json_schema", "invalid_value", "'json_schema' and 'grammar' exclude each other.");
  }
  if (status != STATUS_OK) return status;
  call->fields.sampling.wants_logprobs = n_top >= 0;
  call->fields.sampling.n_top = n_top > 0 ? (uint32_t)n_top : 0;
  if (schema != NULL) {
    const char *value = NULL;
    size_t value_size = 0;
    call->schema = json_text_member(bytes, size, "json_schema", &value, &value_size) ? strndup(value, value_size)
                                                                                     : json_dumps(schema, JSON_COMPACT);
    if (call->schema == NULL) return api_error_of_status(error, STATUS_NO_MEMORY, NULL);
  }
  return STATUS_OK;
}

enum status completion_call_parse(const char *bytes, size_t size, uint32_t n_vocab, struct completion_call *ret_call,
                                  struct api_error *error) {
  memset(ret_call, 0, sizeof *ret_call);
  enum status status = body_parse(bytes, size, &ret_call->root, error);
  if (status == STATUS_OK) status = call_read(bytes, size, n_vocab, ret_call, error);
  if (status != STATUS_OK) completion_call_release(ret_call);
  return status;
}

void completion_call_release(struct completion_call *call) {
  free(call->schema);
  call->schema = NULL;
  json_decref(call->root);
  call->root = NULL;
}
