/* One HTTP exchange on the gateway's side: who asks, whether the client is still there, the reply and its headers, and
 * the count of it when it ends. First member of whatever serves it. Loop thread. */
#ifndef FORELAY_GATEWAY_VISIT_H
#define FORELAY_GATEWAY_VISIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gateway/api_error.h"

struct gateway;
struct http_exchange;
struct http_field;

enum { VISIT_ID_SIZE = 72, VISIT_FIELDS_MAX = 8 };

struct visit {
  struct gateway *gateway;
  struct http_exchange *http; /* NULL: answered, or the client has left */
  unsigned route;             /* number of router.h */
  uint32_t tenant;
  bool is_operator;
  bool is_gone;                       /* the client left before the reply had ended */
  int http_status;                    /* of the reply; 0: none yet */
  uint64_t accepted_us;               /* monotonic */
  char id[VISIT_ID_SIZE];             /* x-request-id */
  void (*left)(struct visit *visit);  /* the client has left, nothing can be sent any more; NULL: no matter */
  void (*abort)(struct visit *visit); /* the server closes down: end soon; NULL: it ends by itself */
  struct visit *next, **link;
};

/* The exchange is the visit's from now on. */
void visit_begin(struct visit *visit, struct gateway *gateway, struct http_exchange *http, unsigned route);
/* Counts it, ends the exchange where nobody answered. The structure around it is its owner's to free. */
void visit_end(struct visit *visit);
/* For visits that stand alone: visit_end and free. */
void visit_free(struct visit *visit);

/* All replies are no-ops when the client has left. extra[n]: further headers, n ≤ VISIT_FIELDS_MAX. */
void visit_reply(struct visit *visit, int http_status, const char *type, const struct http_field *extra, size_t n,
                 const void *body, size_t size);
void visit_reply_json(struct visit *visit, int http_status, const char *json, size_t size);
void visit_refuse(struct visit *visit, const struct api_error *error);
/* Head of a stream of server-sent events; chunks follow by http_stream_send on visit->http. */
void visit_stream_begin(struct visit *visit);
/* Ends a stream that was begun. */
void visit_stream_end(struct visit *visit);
/* Lets the client go without an answer: it takes too little. Counted as one that left. */
void visit_drop(struct visit *visit);

/* A client's own request id where it is short and plain, else one of ours. */
void visit_id_make(char id[VISIT_ID_SIZE], const char *from_client, uint64_t number);

#endif
