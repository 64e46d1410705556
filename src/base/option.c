#include "base/option.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ── parsing ── */

/* Digits with at most one point; *end is behind them. Locale-free, unlike strtod. */
static enum status parse_decimal(const char *text, double *ret_number, const char **ret_end) {
  double number = 0, scale = 1;
  bool has_digit = false, has_point = false;
  const char *at = text;
  for (; (*at >= '0' && *at <= '9') || (*at == '.' && !has_point); at++) {
    if (*at == '.') {
      has_point = true;
      continue;
    }
    has_digit = true;
    number = number * 10 + (*at - '0');
    if (has_point) scale *= 10;
    if (number > 1e18 || scale > 1e15) return STATUS_INVALID;
  }
  if (!has_digit) return STATUS_INVALID;
  *ret_number = number / scale;
  *ret_end = at;
  return STATUS_OK;
}

enum status option_parse_number(const char *text, double *ret_number) {
  bool is_negative = text[0] == '-';
  const char *end;
  double number;
  if (parse_decimal(text + is_negative, &number, &end) != STATUS_OK || *end != '\0') return STATUS_INVALID;
  *ret_number = is_negative ? -number : number;
  return STATUS_OK;
}

struct unit {
  const char *name;
  double factor;
};

static enum status parse_with_unit(const char *text, const struct unit *units, size_t n, double *ret_number) {
  const char *end;
  double number;
  if (parse_decimal(text, &number, &end) != STATUS_OK) return STATUS_INVALID;
  for (size_t i = 0; i < n; i++) {
    if (strcmp(end, units[i].name) != 0) continue;
    *ret_number = number * units[i].factor;
    return STATUS_OK;
  }
  return STATUS_INVALID;
}

enum status option_parse_size(const char *text, uint64_t *ret_bytes) {
  static const struct unit units[] = {
      {"", 1}, {"B", 1}, {"KiB", 1024.0}, {"MiB", 1048576.0}, {"GiB", 1073741824.0}, {"TiB", 1099511627776.0}};
  double bytes;
  if (parse_with_unit(text, units, sizeof units / sizeof *units, &bytes) != STATUS_OK || bytes > 9e18)
    return STATUS_INVALID;
  *ret_bytes = (uint64_t)bytes;
  return STATUS_OK;
}

enum status option_parse_duration(const char *text, uint64_t *ret_us) {
  static const struct unit units[] = {{"", 1},     {"us", 1e-6}, {"ms", 1e-3}, {"s", 1},
                                      {"min", 60}, {"h", 3600},  {"d", 86400}};
  double seconds;
  if (parse_with_unit(text, units, sizeof units / sizeof *units, &seconds) != STATUS_OK || seconds > 1e10)
    return STATUS_INVALID;
  *ret_us = (uint64_t)(seconds * 1e6 + 0.5);
  return STATUS_OK;
}

static enum status parse_flag(const char *text, bool *ret_flag) {
  static const char *const yes[] = {"true", "on", "yes", "1"}, *const no[] = {"false", "off", "no", "0"};
  for (size_t i = 0; i < 4; i++) {
    if (strcasecmp(text, yes[i]) == 0 || strcasecmp(text, no[i]) == 0) {
      *ret_flag = strcasecmp(text, yes[i]) == 0;
      return STATUS_OK;
    }
  }
  return STATUS_INVALID;
}

static bool is_checked(const struct option *option) {
  return option->min != 0 || option->max != 0;
}

static enum status refuse(const struct option *option, const char *text, struct error *error) {
  static const char *const wanted[] = {[OPTION_FLAG] = "on or off",
                                       [OPTION_COUNT] = "a whole number",
                                       [OPTION_SIZE] = "a size such as 512MiB or 4GiB",
                                       [OPTION_DURATION] = "a time such as 500ms, 30s or 2h",
                                       [OPTION_NUMBER] = "a number"};
  if (option->type == OPTION_CHOICE) {
    char list[160] = "";
    for (size_t i = 0, size = 0; option->choices[i] != NULL && size < sizeof list; i++)
      size += (size_t)snprintf(list + size, sizeof list - size, "%s%s", i > 0 ? ", " : "", option->choices[i]);
    return error_set(error, STATUS_INVALID, "--%s: '%.64s' is none of: %s", option->name, text, list);
  }
  if (is_checked(option))
    return error_set(error, STATUS_INVALID, "--%s: '%.64s' is not %s from %.15g to %.15g", option->name, text,
                     wanted[option->type], option->min, option->max);
  return error_set(error, STATUS_INVALID, "--%s: '%.64s' is not %s", option->name, text, wanted[option->type]);
}

static enum status set_text(char **place, const char *text, struct error *error) {
  char *copy = strdup(text);
  if (copy == NULL) return error_set(error, STATUS_NO_MEMORY, "out of memory");
  free(*place);
  *place = copy;
  return STATUS_OK;
}

static enum status set_choice(const struct option *option, uint32_t *place, const char *text) {
  for (uint32_t i = 0; option->choices[i] != NULL; i++) {
    if (strcmp(option->choices[i], text) != 0) continue;
    *place = i;
    return STATUS_OK;
  }
  return STATUS_INVALID;
}

enum status option_set(const struct option *option, void *settings, const char *text, struct error *error) {
  void *place = (char *)settings + option->offset;
  bool flag = false;
  double number = 0;
  uint64_t bytes = 0;
  enum status status = STATUS_OK;
  switch (option->type) {
  case OPTION_TEXT:
    return set_text(place, text, error);
  case OPTION_CHOICE:
    return set_choice(option, place, text) == STATUS_OK ? STATUS_OK : refuse(option, text, error);
  case OPTION_FLAG:
    status = parse_flag(text, &flag);
    break;
  case OPTION_NUMBER:
    status = option_parse_number(text, &number);
    break;
  case OPTION_COUNT:
    status = option_parse_number(text, &number);
    if (status == STATUS_OK && (number < 0 || number > 4294967295.0 || number != (double)(uint64_t)number))
      status = STATUS_INVALID;
    break;
  case OPTION_SIZE:
    status = option_parse_size(text, &bytes);
    number = (double)bytes;
    break;
  case OPTION_DURATION:
    status = option_parse_duration(text, &bytes);
    number = (double)bytes / 1e6;
    break;
  }
  if (status != STATUS_OK || (is_checked(option) && !(number >= option->min && number <= option->max)))
    return refuse(option, text, error);
  switch (option->type) {
  case OPTION_FLAG:
    memcpy(place, &flag, sizeof flag);
    break;
  case OPTION_NUMBER:
    memcpy(place, &number, sizeof number);
    break;
  case OPTION_COUNT:
    *(uint32_t *)place = (uint32_t)number;
    break;
  default:
    memcpy(place, &bytes, sizeof bytes);
    break;
  }
  return STATUS_OK;
}

const struct option *option_find(const struct option *options, size_t n, const char *name) {
  for (size_t i = 0; i < n; i++)
    if (strcmp(options[i].name, name) == 0) return &options[i];
  return NULL;
}

enum status option_set_defaults(const struct option *options, size_t n, void *settings, struct error *error) {
  for (size_t i = 0; i < n; i++) {
    if (options[i].fallback == NULL) continue;
    enum status status = option_set(&options[i], settings, options[i].fallback, error);
    if (status != STATUS_OK) return status;
  }
  return STATUS_OK;
}

void option_release(const struct option *options, size_t n, void *settings) {
  for (size_t i = 0; i < n; i++) {
    if (options[i].type != OPTION_TEXT) continue;
    char **place = (char **)(void *)((char *)settings + options[i].offset);
    free(*place);
    *place = NULL;
  }
}

/* ── describing ── */

static const char *shown_default(const struct option *option) {
  if (option->fallback_text != NULL) return option->fallback_text;
  return option->fallback != NULL ? option->fallback : "none";
}

enum status option_describe_text(const struct option *options, size_t n, struct buffer *into) {
  for (size_t i = 0; i < n; i++) {
    char head[64];
    snprintf(head, sizeof head, "--%s %s", options[i].name, options[i].argument);
    enum status status =
        buffer_append_format(into, "  %-28s %s (%s)\n", head, options[i].help, shown_default(&options[i]));
    if (status != STATUS_OK) return status;
  }
  return STATUS_OK;
}

enum status option_describe_yaml(const struct option *options, size_t n, struct buffer *into) {
  for (size_t i = 0; i < n; i++) {
    enum status status =
        buffer_append_format(into, "# %s\n# %s: %s\n", options[i].help, options[i].name, shown_default(&options[i]));
    if (status != STATUS_OK) return status;
  }
  return STATUS_OK;
}

static enum status append_json_text(struct buffer *into, const char *text) {
  enum status status = buffer_append(into, "\"", 1);
  for (; status == STATUS_OK && *text != '\0'; text++) {
    if (*text == '"' || *text == '\\')
      status = buffer_append_format(into, "\\%c", *text);
    else if ((unsigned char)*text < ' ')
      status = buffer_append_format(into, "\\u%04x", (unsigned)*text);
    else
      status = buffer_append(into, text, 1);
  }
  return status == STATUS_OK ? buffer_append(into, "\"", 1) : status;
}

static enum status append_json_option(struct buffer *into, const struct option *option) {
  static const char *const types[] = {"flag", "count", "size", "duration", "number", "text", "choice"};
  const struct {
    const char *name, *value;
  } fields[] = {{"name", option->name},
                {"type", types[option->type]},
                {"argument", option->argument},
                {"default", shown_default(option)},
                {"help", option->help}};
  enum status status = buffer_append(into, "{", 1);
  for (size_t i = 0; status == STATUS_OK && i < sizeof fields / sizeof *fields; i++) {
    status = buffer_append_format(into, "%s\"%s\":", i > 0 ? "," : "", fields[i].name);
    if (status == STATUS_OK) status = append_json_text(into, fields[i].value);
  }
  if (status == STATUS_OK && is_checked(option))
    status = buffer_append_format(into, ",\"min\":%.15g,\"max\":%.15g", option->min, option->max);
  return status == STATUS_OK ? buffer_append(into, "}", 1) : status;
}

enum status option_describe_json(const struct option *options, size_t n, struct buffer *into) {
  enum status status = buffer_append(into, "[", 1);
  for (size_t i = 0; status == STATUS_OK && i < n; i++) {
    if (i > 0) status = buffer_append(into, ",\n", 2);
    if (status == STATUS_OK) status = append_json_option(into, &options[i]);
  }
  return status == STATUS_OK ? buffer_append(into, "]\n", 2) : status;
}
