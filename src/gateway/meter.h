/* The gateway's own counts: requests by route and code, time to first token, time in the queue. Never counts tokens:
 * the ledger does. Loop thread; plain data. */
#ifndef FORELAY_GATEWAY_METER_H
#define FORELAY_GATEWAY_METER_H

#include <stdint.h>

#include "base/buffer.h"
#include "gateway/router.h"

enum { METER_CODES = 24, METER_BOUNDS = 14 };

struct histogram {
  uint64_t counts[METER_BOUNDS + 1]; /* by bound; the last is above all */
  uint64_t n;
  double sum_s;
};

struct meter {
  uint16_t codes[METER_CODES];                      /* HTTP statuses seen, in order of appearance; 0: free */
  uint64_t requests[ROUTES_COUNT + 1][METER_CODES]; /* by route number and place in codes */
  uint64_t dropped;                                 /* requests that found no place in codes */
  struct histogram first_token, queue;
};

/* A request has ended with this status; 499 stands for a client that left. */
void meter_request(struct meter *meter, unsigned route, int http_status);
void meter_first_token(struct meter *meter, uint64_t ttft_us);
void meter_queue(struct meter *meter, uint64_t queue_us);
/* Prometheus text, appended. */
MUST_USE enum status meter_print(const struct meter *meter, uint64_t requests_alive, struct buffer *into);

#endif
