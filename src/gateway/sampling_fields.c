#include "gateway/sampling_fields.h"

#include <stdlib.h>
#include <string.h>

enum { GRAMMAR_SIZE_MAX = 256 << 10, NAME_SIZE_MAX = 1024 };

static enum status number_read(const struct field_scope *scope, const char *name, double low, double high,
                               float *value) {
  double number = (double)*value;
  enum status status = field_number(scope, name, low, high, &number);
  if (status == STATUS_OK) *value = (float)number;
  return status;
}

static enum status seed_read(const struct field_scope *scope, struct sampling_fields *fields) {
  int64_t seed = 0;
  if (field_get(scope, "seed") == NULL) return STATUS_OK;
  enum status status = field_integer(scope, "seed", INT64_MIN, INT64_MAX, &seed);
  if (status != STATUS_OK || seed == -1) return status; /* −1 is llama-server's way to say "any" */
  fields->sampling.seed = (uint32_t)((uint64_t)seed ^ ((uint64_t)seed >> 32));
  fields->has_seed = true;
  return STATUS_OK;
}

static enum status numbers_read(const struct field_scope *scope, struct sampling *sampling) {
  const struct {
    const char *name;
    double low, high;
    float *value;
  } rows[] = {
      {"temperature", 0, 2, &sampling->temperature},
      {"top_p", 0, 1, &sampling->top_p},
      {"min_p", 0, 1, &sampling->min_p},
      {"typical_p", 0, 1, &sampling->typical_p},
      {"repeat_penalty", 0.01, 10, &sampling->penalty_repeat},
      {"frequency_penalty", -2, 2, &sampling->penalty_frequency},
      {"presence_penalty", -2, 2, &sampling->penalty_presence},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    enum status status = number_read(scope, rows[i].name, rows[i].low, rows[i].high, rows[i].value);
    if (status != STATUS_OK) return status;
  }
  int64_t top_k = sampling->top_k, last_n = sampling->penalty_tokens;
  enum status status = field_integer(scope, "top_k", -1, INT32_MAX, &top_k);
  if (status == STATUS_OK) status = field_integer(scope, "repeat_last_n", -1, INT32_MAX, &last_n);
  sampling->top_k = (int32_t)top_k;
  sampling->penalty_tokens = (int32_t)last_n;
  return status;
}

static enum status bias_refuse(const struct field_scope *scope, const char *what) {
  return field_refuse(scope, "logit_bias", "invalid_value", "Invalid 'logit_bias': %s.", what);
}

static enum status biases_read(const struct field_scope *scope, uint32_t n_vocab, struct sampling_fields *fields) {
  const json_t *object = NULL;
  enum status status = field_object(scope, "logit_bias", &object);
  if (status != STATUS_OK || object == NULL) return status;
  if (json_object_size(object) > SAMPLING_BIASES_MAX) return bias_refuse(scope, "at most 1024 tokens");
  const char *name = NULL;
  json_t *value = NULL;
  /* the iterator does not change the object */
  json_t *walked = (json_t *)(uintptr_t)object;
  json_object_foreach(walked, name, value) {
    char *end = NULL;
    bool is_digits = name[0] >= '0' && name[0] <= '9' && strlen(name) <= 9;
    unsigned long token = is_digits ? strtoul(name, &end, 10) : 0;
    if (!is_digits || *end != 0 || token >= n_vocab) return bias_refuse(scope, "a name is not a token of this model");
    double bias = json_number_value(value);
    if (!json_is_number(value) || !(bias >= -100 && bias <= 100)) {
      return bias_refuse(scope, "a bias is a number from -100 to 100");
    }
    fields->biases[fields->sampling.n_biases++] = (struct sampling_bias){.token = (int32_t)token, .bias = (float)bias};
  }
  fields->sampling.biases = fields->biases;
  return STATUS_OK;
}

static enum status stop_add(const struct field_scope *scope, const json_t *text, struct sampling_fields *fields) {
  size_t size = json_string_length(text);
  if (!json_is_string(text)) {
    return field_refuse(scope, "stop", "invalid_type",
                        "Invalid type for 'stop': expected a string or an array of them.");
  }
  if (size == 0 || size > ENGINE_STOP_SIZE_MAX) {
    return field_refuse(scope, "stop", "invalid_value", "Invalid 'stop': each text has 1 to %d bytes.",
                        ENGINE_STOP_SIZE_MAX);
  }
  fields->stops[fields->n_stops++] = json_string_value(text);
  return STATUS_OK;
}

static enum status stops_read(const struct field_scope *scope, struct sampling_fields *fields) {
  const json_t *stop = field_get(scope, "stop");
  if (stop == NULL) return STATUS_OK;
  if (!json_is_array(stop)) return stop_add(scope, stop, fields);
  if (json_array_size(stop) > ENGINE_STOPS_MAX) {
    return field_refuse(scope, "stop", "array_above_max_length", "Invalid 'stop': at most %d texts.", ENGINE_STOPS_MAX);
  }
  for (size_t i = 0; i < json_array_size(stop); i++) {
    enum status status = stop_add(scope, json_array_get(stop, i), fields);
    if (status != STATUS_OK) return status;
  }
  return STATUS_OK;
}

static enum status stream_read(const struct field_scope *scope, struct sampling_fields *fields) {
  static const struct field_rule rules[] = {{"include_usage", FIELD_SERVED, NULL},
                                            {"include_obfuscation", FIELD_HARMLESS, NULL}};
  const json_t *options = NULL;
  enum status status = field_bool(scope, "stream", &fields->is_stream);
  if (status == STATUS_OK) status = field_object(scope, "stream_options", &options);
  if (status != STATUS_OK || options == NULL) return status;
  if (!fields->is_stream) {
    return field_refuse(scope, "stream_options", "invalid_value",
                        "'stream_options' is only allowed when 'stream' is true.");
  }
  struct field_scope inner = {.object = options, .prefix = "stream_options.", .error = scope->error};
  status = fields_check(&inner, rules, sizeof rules / sizeof rules[0]);
  return status == STATUS_OK ? field_bool(&inner, "include_usage", &fields->wants_usage) : status;
}

enum status sampling_fields_read(const struct field_scope *scope, uint32_t output_default, uint32_t n_vocab,
                                 struct sampling_fields *ret_fields) {
  struct sampling_fields *fields = ret_fields;
  const char *text = NULL;
  int64_t output_max = 0, n = 1;
  *fields = (struct sampling_fields){.output_tokens_max = output_default, .caches_prompt = true};
  sampling_init(&fields->sampling);
  enum status status = field_string(scope, "model", NAME_SIZE_MAX, &text);
  if (status == STATUS_OK) status = numbers_read(scope, &fields->sampling);
  if (status == STATUS_OK) status = seed_read(scope, fields);
  if (status == STATUS_OK) status = biases_read(scope, n_vocab, fields);
  if (status == STATUS_OK) status = stops_read(scope, fields);
  if (status == STATUS_OK) status = field_bool(scope, "ignore_eos", &fields->sampling.ignores_end);
  if (status == STATUS_OK) status = field_bool(scope, "cache_prompt", &fields->caches_prompt);
  if (status == STATUS_OK) status = field_integer(scope, "max_tokens", 1, INT32_MAX, &output_max);
  if (status == STATUS_OK) status = field_integer(scope, "n", 1, CHOICES_MAX, &n);
  if (status == STATUS_OK) status = stream_read(scope, fields);
  if (status == STATUS_OK) status = field_string(scope, "grammar", GRAMMAR_SIZE_MAX, &fields->sampling.grammar);
  if (output_max > 0) fields->output_tokens_max = (uint32_t)output_max;
  fields->n_choices = (uint32_t)n;
  return status;
}
