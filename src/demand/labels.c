#include "demand/labels.h"

#include <assert.h>
#include <stdlib.h>

struct labels {
  struct label *ring; /* [labels_max], oldest at `first` */
  uint32_t labels_max, first, count;
  uint32_t nodes_max;
  uint32_t *of_node; /* [nodes_max + 1]: place of the newest one that has not come, + 1 */
  uint64_t horizon_us;
};

enum status labels_create(uint32_t labels_max, uint32_t nodes_max, double horizon_s, struct labels **ret_labels) {
  struct labels *labels = calloc(1, sizeof *labels);
  if (!labels) return STATUS_NO_MEMORY;
  labels->labels_max = labels_max;
  labels->nodes_max = nodes_max;
  labels->horizon_us = (uint64_t)(horizon_s * 1e6);
  labels->ring = calloc(labels_max, sizeof *labels->ring);
  labels->of_node = calloc((size_t)nodes_max + 1, sizeof *labels->of_node);
  if (!labels->ring || !labels->of_node) {
    labels_destroy(&labels);
    return STATUS_NO_MEMORY;
  }
  *ret_labels = labels;
  return STATUS_OK;
}

void labels_destroy(struct labels **labels) {
  if (!*labels) return;
  free((*labels)->ring);
  free((*labels)->of_node);
  free(*labels);
  *labels = NULL;
}

static void unlink_label(struct labels *labels, uint32_t place) {
  struct label *label = &labels->ring[place];
  if (label->next) labels->ring[label->next - 1].previous = label->previous;
  if (label->previous) {
    labels->ring[label->previous - 1].next = label->next;
  } else if (labels->of_node[label->node] == place + 1) {
    labels->of_node[label->node] = label->next;
  }
  label->next = label->previous = 0;
}

void labels_add(struct labels *labels, uint32_t node, uint64_t made_us, const struct voices *voices, double p) {
  assert(node && node <= labels->nodes_max);
  if (labels->count == labels->labels_max) return;
  uint32_t place = (labels->first + labels->count) % labels->labels_max, next = labels->of_node[node];
  labels->ring[place] =
      (struct label){.made_us = made_us, .node = node, .voices = *voices, .p = (float)p, .next = next};
  if (next) labels->ring[next - 1].previous = place + 1;
  labels->of_node[node] = place + 1;
  labels->count++;
}

void labels_asked(struct labels *labels, uint32_t node) {
  if (node > labels->nodes_max) return;
  for (uint32_t place; (place = labels->of_node[node]) != 0;) {
    labels->ring[place - 1].has_come = true;
    unlink_label(labels, place - 1);
  }
}

void labels_forget(struct labels *labels, uint32_t node) {
  if (node > labels->nodes_max) return;
  for (uint32_t place; (place = labels->of_node[node]) != 0;) {
    unlink_label(labels, place - 1);
    labels->ring[place - 1].node = 0;
  }
}

bool labels_take_ripe(struct labels *labels, uint64_t now_us, struct label *ret_label) {
  if (labels->count == 0) return false;
  struct label *label = &labels->ring[labels->first];
  if (now_us < label->made_us || now_us - label->made_us < labels->horizon_us) return false;
  if (!label->has_come && label->node) unlink_label(labels, labels->first);
  *ret_label = *label;
  labels->first = (labels->first + 1) % labels->labels_max;
  labels->count--;
  return true;
}

size_t labels_bytes(const struct labels *labels) {
  return sizeof *labels + labels->labels_max * sizeof *labels->ring +
         ((size_t)labels->nodes_max + 1) * sizeof *labels->of_node;
}
