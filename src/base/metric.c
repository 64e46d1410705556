#include "base/metric.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"

struct series {
  struct series *next; /* of the same row */
  char *labels;        /* as printed: a="b",c="d"; empty without labels */
  double value;        /* histogram: the sum */
  uint64_t counts[];   /* histogram: [n_bounds + 1], by first bound that holds the value; the last is above all */
};

struct row_series {
  struct series *first, **last;
};

struct metrics {
  const struct metric *rows; /* [n] */
  size_t n, n_series, series_max;
  struct row_series *of_row; /* [n] */
  struct buffer key;         /* labels as printed, while a series is looked for */
};

enum { LABELS_BYTES_MAX = 1024 };

enum status metrics_create(const struct metric *rows, size_t n, size_t series_max, struct metrics **ret_metrics) {
  struct metrics *metrics = calloc(1, sizeof *metrics);
  struct row_series *of_row = calloc(n > 0 ? n : 1, sizeof *of_row);
  if (metrics == NULL || of_row == NULL) {
    free(metrics);
    free(of_row);
    return STATUS_NO_MEMORY;
  }
  *metrics = (struct metrics){.rows = rows, .n = n, .series_max = series_max, .of_row = of_row};
  for (size_t i = 0; i < n; i++) of_row[i].last = &of_row[i].first;
  buffer_init(&metrics->key, LABELS_BYTES_MAX);
  *ret_metrics = metrics;
  return STATUS_OK;
}

void metrics_destroy(struct metrics **reference) {
  struct metrics *metrics = *reference;
  if (metrics == NULL) return;
  for (size_t i = 0; i < metrics->n; i++) {
    for (struct series *series = metrics->of_row[i].first, *next; series != NULL; series = next) {
      next = series->next;
      free(series->labels);
      free(series);
    }
  }
  buffer_release(&metrics->key);
  free(metrics->of_row);
  free(metrics);
  *reference = NULL;
}

/* Backslash, line feed and, in label values, the quote are escaped; everything else stays. */
static enum status append_escaped(struct buffer *into, const char *text, const char *special) {
  enum status status = STATUS_OK;
  while (status == STATUS_OK && *text != '\0') {
    size_t plain = strcspn(text, special);
    status = buffer_append(into, text, plain);
    text += plain;
    if (status != STATUS_OK || *text == '\0') break;
    status = *text == '\n' ? buffer_append(into, "\\n", 2) : buffer_append_format(into, "\\%c", *text);
    text++;
  }
  return status;
}

static enum status print_labels(struct metrics *metrics, const struct metric *row, const char *const *labels) {
  buffer_clear(&metrics->key);
  enum status status = buffer_reserve(&metrics->key, 1);
  for (size_t i = 0; status == STATUS_OK && i < METRIC_LABELS_MAX && row->labels[i] != NULL; i++) {
    status = buffer_append_format(&metrics->key, "%s%s=\"", i > 0 ? "," : "", row->labels[i]);
    if (status == STATUS_OK) status = append_escaped(&metrics->key, labels[i], "\\\"\n");
    if (status == STATUS_OK) status = buffer_append(&metrics->key, "\"", 1);
  }
  return status == STATUS_TOO_LONG ? STATUS_FULL : status;
}

static enum status find_series(struct metrics *metrics, size_t at, const char *const *labels,
                               struct series **ret_series) {
  assert(at < metrics->n);
  const struct metric *row = &metrics->rows[at];
  struct row_series *of_row = &metrics->of_row[at];
  enum status status = print_labels(metrics, row, labels);
  if (status != STATUS_OK) return status;
  struct series *series = of_row->first;
  while (series != NULL && strcmp(series->labels, (const char *)metrics->key.data) != 0) series = series->next;
  if (series == NULL) {
    if (metrics->n_series == metrics->series_max) return STATUS_FULL;
    size_t n_counts = row->type == METRIC_HISTOGRAM ? row->n_bounds + 1 : 0;
    series = calloc(1, sizeof *series + n_counts * sizeof *series->counts);
    char *copy = strdup((const char *)metrics->key.data);
    if (series == NULL || copy == NULL) {
      free(series);
      free(copy);
      return STATUS_NO_MEMORY;
    }
    series->labels = copy;
    *of_row->last = series;
    of_row->last = &series->next;
    metrics->n_series++;
  }
  *ret_series = series;
  return STATUS_OK;
}

enum status metrics_set(struct metrics *metrics, size_t row, const char *const *labels, double value) {
  struct series *series;
  assert(row < metrics->n && metrics->rows[row].type != METRIC_HISTOGRAM);
  enum status status = find_series(metrics, row, labels, &series);
  if (status == STATUS_OK) series->value = value;
  return status;
}

enum status metrics_add(struct metrics *metrics, size_t row, const char *const *labels, double by) {
  struct series *series;
  assert(row < metrics->n && metrics->rows[row].type != METRIC_HISTOGRAM);
  assert(metrics->rows[row].type == METRIC_GAUGE || by >= 0);
  enum status status = find_series(metrics, row, labels, &series);
  if (status == STATUS_OK) series->value += by;
  return status;
}

enum status metrics_observe(struct metrics *metrics, size_t row, const char *const *labels, double value) {
  struct series *series;
  assert(row < metrics->n && metrics->rows[row].type == METRIC_HISTOGRAM);
  if (value != value) return STATUS_OK;
  enum status status = find_series(metrics, row, labels, &series);
  if (status != STATUS_OK) return status;
  size_t at = 0;
  while (at < metrics->rows[row].n_bounds && value > metrics->rows[row].bounds[at]) at++;
  series->counts[at]++;
  series->value += value;
  return STATUS_OK;
}

/* ── printing ── */

static enum status append_number(struct buffer *into, double value) {
  if (value != value) return buffer_append_text(into, "NaN\n");
  if (!number_is_finite(value)) return buffer_append_text(into, value > 0 ? "+Inf\n" : "-Inf\n");
  return buffer_append_format(into, "%.17g\n", value);
}

static enum status print_value(struct buffer *into, const struct metric *row, const char *suffix, const char *labels,
                               double value) {
  bool has_labels = labels[0] != '\0';
  enum status status = buffer_append_format(into, "forelay_%s%s%s%s%s ", row->name, suffix, has_labels ? "{" : "",
                                            labels, has_labels ? "}" : "");
  return status == STATUS_OK ? append_number(into, value) : status;
}

static enum status print_histogram(struct buffer *into, const struct metric *row, const struct series *series) {
  const char *comma = series->labels[0] != '\0' ? "," : "";
  uint64_t count = 0;
  enum status status = STATUS_OK;
  for (size_t i = 0; status == STATUS_OK && i < row->n_bounds; i++) {
    count += series->counts[i];
    status = buffer_append_format(into, "forelay_%s_bucket{%s%sle=\"%.15g\"} %llu\n", row->name, series->labels, comma,
                                  row->bounds[i], (unsigned long long)count);
  }
  count += series->counts[row->n_bounds];
  if (status == STATUS_OK)
    status = buffer_append_format(into, "forelay_%s_bucket{%s%sle=\"+Inf\"} %llu\n", row->name, series->labels, comma,
                                  (unsigned long long)count);
  if (status == STATUS_OK) status = print_value(into, row, "_sum", series->labels, series->value);
  return status == STATUS_OK ? print_value(into, row, "_count", series->labels, (double)count) : status;
}

static enum status print_row(struct buffer *into, const struct metric *row, const struct series *series) {
  static const char *const types[] = {"counter", "gauge", "histogram"};
  enum status status = buffer_append_format(into, "# HELP forelay_%s ", row->name);
  if (status == STATUS_OK) status = append_escaped(into, row->help, "\\\n");
  if (status == STATUS_OK) status = buffer_append_format(into, "\n# TYPE forelay_%s %s\n", row->name, types[row->type]);
  for (; status == STATUS_OK && series != NULL; series = series->next)
    status = row->type == METRIC_HISTOGRAM ? print_histogram(into, row, series)
                                           : print_value(into, row, "", series->labels, series->value);
  return status;
}

enum status metric_render(const struct metrics *metrics, struct buffer *into) {
  size_t begin = into->size;
  enum status status = STATUS_OK;
  for (size_t i = 0; status == STATUS_OK && i < metrics->n; i++)
    status = print_row(into, &metrics->rows[i], metrics->of_row[i].first);
  if (status != STATUS_OK && into->data != NULL) {
    into->size = begin;
    into->data[begin] = 0;
  }
  return status;
}
