/* The body of demand, shared by demand.c and demand_rows.c. Internal. */
#ifndef FORELAY_DEMAND_DEMAND_STATE_H
#define FORELAY_DEMAND_DEMAND_STATE_H

#include "base/heap.h"
#include "base/rng.h"
#include "demand/demand.h"
#include "demand/forecaster.h"
#include "demand/labels.h"
#include "demand/mixture.h"
#include "demand/scorecard.h"
#include "demand/span.h"

enum { RECENT = 64 };

struct demand {
  struct demand_config config;
  uint64_t now_us; /* largest time told so far */
  void *states[FORECASTERS_MAX];
  uint32_t n_forecasters; /* with a state */
  struct mixture mixtures[DEMAND_HORIZONS_MAX];
  struct labels *labels[DEMAND_HORIZONS_MAX];
  struct scorecard scores[DEMAND_HORIZONS_MAX];
  struct heap *due; /* node → microseconds */
  struct rng rng;
  uint32_t recent[RECENT]; /* nodes asked for lately, some may have died */
  uint64_t next_announcement;
};

#endif
