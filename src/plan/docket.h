/* Requests between arrival and end: what the planner has to remember of them until the engine reports. Bounded: the
 * oldest makes room. Plain bookkeeping; one thread at a time. */
#ifndef FORELAY_PLAN_DOCKET_H
#define FORELAY_PLAN_DOCKET_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "domain/task.h"

struct docket;

enum { DOCKET_UNITS = 4 };

struct docket_entry {
  uint64_t request; /* 0: the place is free */
  uint64_t session;
  uint64_t units[DOCKET_UNITS]; /* of the holdout, that it belongs to: head, document, end, session; 0: none */
  uint64_t at_us;
  uint32_t tenant, turn, prompt_tokens;
  enum kind kind;
  bool may_learn, may_prepare;
};

MUST_USE enum status docket_create(uint32_t requests_max, struct docket **ret_docket);
void docket_destroy(struct docket **docket);
/* Replaces one with the same number. `pushed_out` gets the number of the request that made room, else 0. */
MUST_USE enum status docket_add(struct docket *docket, const struct docket_entry *entry, uint64_t *pushed_out);
/* false when unknown. */
bool docket_take(struct docket *docket, uint64_t request, struct docket_entry *ret_entry);

#endif
