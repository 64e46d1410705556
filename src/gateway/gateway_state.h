/* What the gateway's own files share: its settings, tables and the visits that are alive. Loop thread only; no other
 * room includes this. */
#ifndef FORELAY_GATEWAY_GATEWAY_STATE_H
#define FORELAY_GATEWAY_GATEWAY_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rng.h"
#include "gateway/gateway.h"
#include "gateway/meter.h"
#include "gateway/prompt.h"

struct documents;
struct drafts;
struct loop_timer;
struct visit;

struct gateway {
  struct gateway_config config; /* texts are ours; every 0 is replaced by its default */
  struct gateway_deps deps;
  struct prompt_source source;
  struct documents *documents;
  struct drafts *drafts;
  struct meter meter;
  struct rng rng;       /* ids and seeds; seeded by the system */
  struct visit *visits; /* alive */
  size_t n_visits;
  uint64_t next_request; /* number of the next prompt, > 0 */
  uint64_t started_s;    /* Unix */
  bool is_draining;
  bool is_drained; /* done has been posted */
  struct loop_timer *grace;
  void (*drained)(void *ctx);
  void *drained_ctx;
};

/* A visit has ended: tells a drain that waits for the last one. */
void gateway_visit_ended(struct gateway *gateway);

#endif
