/* A table of metrics and their values, printed as Prometheus text. A row is a name, its series differ in their labels'
 * values; the number of series has a limit, so that no label from outside can grow it without end. Pure; one thread at
 * a time. Owns the series, not the rows. */
#ifndef FORELAY_BASE_METRIC_H
#define FORELAY_BASE_METRIC_H

#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/status.h"

enum { METRIC_LABELS_MAX = 4 };

enum metric_type { METRIC_COUNTER, METRIC_GAUGE, METRIC_HISTOGRAM };

struct metric {
  const char *name; /* without the prefix "forelay_", with its unit: "queue_seconds" */
  enum metric_type type;
  const char *help;                      /* one line */
  const char *labels[METRIC_LABELS_MAX]; /* their names, NULL behind the last */
  const double *bounds;                  /* histogram: [n_bounds], rising, +Inf not among them */
  size_t n_bounds;
};

struct metrics;

/* rows[n] must outlive the registry. STATUS_NO_MEMORY. */
MUST_USE enum status metrics_create(const struct metric *rows, size_t n, size_t series_max,
                                    struct metrics **ret_metrics);
void metrics_destroy(struct metrics **metrics);

/* In all three, `row` is an index of the table and labels[] has a value for each label's name (NULL where the row has
 * none). STATUS_FULL: a new series that finds no room; STATUS_NO_MEMORY. */
MUST_USE enum status metrics_set(struct metrics *metrics, size_t row, const char *const *labels, double value);
/* Of a counter or gauge; a counter only grows (asserted: by ≥ 0). */
MUST_USE enum status metrics_add(struct metrics *metrics, size_t row, const char *const *labels, double by);
/* Of a histogram. NaN is not counted. */
MUST_USE enum status metrics_observe(struct metrics *metrics, size_t row, const char *const *labels, double value);

/* Appends everything, rows in the order of the table, series in the order of their first value. On failure nothing is
 * appended. */
MUST_USE enum status metric_render(const struct metrics *metrics, struct buffer *into);

#endif
