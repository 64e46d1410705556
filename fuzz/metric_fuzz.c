// rooms: base
/* Labels of metrics: whatever a label says, the text stays a line a series and the label reads back as it was. */
#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/metric.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct metric rows[] = {{"seen_total", METRIC_COUNTER, "seen", {"word"}, NULL, 0}};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const char head[] = "# HELP forelay_seen_total seen\n# TYPE forelay_seen_total counter\n"
                             "forelay_seen_total{word=\"";
  struct metrics *metrics = NULL;
  struct buffer into;
  char *text = malloc(size + 1);
  buffer_init(&into, 0);
  if (text == NULL || metrics_create(rows, 1, 1, &metrics) != STATUS_OK) goto out;
  if (size > 0) memcpy(text, data, size);
  text[size] = '\0';
  const char *const labels[] = {text};
  if (metrics_add(metrics, 0, labels, 1) != STATUS_OK) goto out;
  assert(metrics_add(metrics, 0, labels, 1) == STATUS_OK); /* the same series again: one is the limit */
  assert(metric_render(metrics, &into) == STATUS_OK);
  const char *at = (const char *)into.data, *expected = text;
  assert(strncmp(at, head, sizeof head - 1) == 0);
  for (at += sizeof head - 1; *at != '"'; at++) {
    bool is_escaped = *at == '\\';
    at += is_escaped;
    assert(*at != '\0' && *at != '\n');
    assert(*expected++ == (is_escaped && *at == 'n' ? '\n' : *at));
  }
  assert(*expected == '\0');
  assert(strcmp(at, "\"} 2\n") == 0);
out:
  metrics_destroy(&metrics);
  buffer_release(&into);
  free(text);
  return 0;
}
