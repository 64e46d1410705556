/* Forecasts that wait for their truth: what was said of a node, until the horizon has passed. A label ripens at
 * t + horizon and not before, whether somebody asked or not; applying those that come true early would teach that
 * everything comes (PREDICTOR section 4). One of these for each learned horizon. Bounded; owns its labels. */
#ifndef FORELAY_DEMAND_LABELS_H
#define FORELAY_DEMAND_LABELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "demand/mixture.h"

struct labels;

struct label {
  uint64_t made_us;
  uint32_t node; /* FOREST_NONE: died before anybody could ask for it: teaches nothing */
  bool has_come; /* somebody asked since */
  struct voices voices;
  float p;                 /* what the mixture said */
  uint32_t next, previous; /* of the same node that have not come; places, + 1 */
};

MUST_USE enum status labels_create(uint32_t labels_max, uint32_t nodes_max, double horizon_s,
                                   struct labels **ret_labels);
void labels_destroy(struct labels **labels);
/* Nothing happens when labels_max are waiting. made_us never decreases; 0 < node ≤ nodes_max. */
void labels_add(struct labels *labels, uint32_t node, uint64_t made_us, const struct voices *voices, double p);
/* Somebody asked for the node. Call after the ripe ones were taken. */
void labels_asked(struct labels *labels, uint32_t node);
void labels_forget(struct labels *labels, uint32_t node);
/* The oldest one whose horizon has passed, taken out; false when none has. */
bool labels_take_ripe(struct labels *labels, uint64_t now_us, struct label *ret_label);
size_t labels_bytes(const struct labels *labels);

#endif
