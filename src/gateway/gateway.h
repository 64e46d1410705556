/* The door: OpenAI-compatible routes, admin routes under /forelay/v1/, API keys, each request's life from its first
 * byte to its account. Decides nothing about preparation; never logs prompts, tokens or keys. Runs on the loop thread;
 * parsing of large bodies, templates and tokenizing run on the worker. Owns its requests; borrows everything in
 * gateway_deps. */
#ifndef FORELAY_GATEWAY_GATEWAY_H
#define FORELAY_GATEWAY_GATEWAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/status.h"
#include "gateway/backend.h"

struct chat;
struct gateway;
struct http_server;
struct loop;
struct model;
struct reuse;
struct tenants;
struct worker;

/* All borrowed, all outlive the gateway. */
struct gateway_deps {
  struct loop *loop;             /* net/loop.h */
  struct http_server *server;    /* net/server.h; the gateway installs its handler and expects to be the only one */
  struct worker *worker;         /* os/thread.h; the one worker of DESIGN section 4 */
  struct model *model;           /* engine/model.h: tokenizes */
  struct chat *chat;             /* engine/chat.h: renders; NULL: the model has no usable template, chat is refused */
  struct reuse *reuse;           /* engine/reuse.h: serves prompts */
  const struct tenants *tenants; /* gateway/tenants.h */
  const uint8_t (*salts)[32];    /* [tenants_count(tenants)]: what tells tenants' states apart; made by the server */
  struct backend backend;        /* copied; its ctx is borrowed */
};

struct gateway_config {
  const char *model_name;          /* what /v1/models calls it: --alias, else the file's name; copied */
  const char *model_path;          /* shown to the operator in /props; copied; NULL: not shown */
  const char *cors_origin;         /* value of access-control-allow-origin; NULL: no CORS headers; copied */
  uint32_t context_tokens;         /* one request's longest prompt and answer together */
  uint32_t slots;                  /* shown in /props */
  uint32_t reuse_mode;             /* enum reuse_mode of requests that do not say; 0: near */
  uint32_t timeout_ms;             /* a request's longest life from acceptance; 0: none */
  uint32_t ping_interval_ms;       /* silence after which a stream gets a comment; 0: 10,000 */
  uint32_t requests_max;           /* requests alive at once, waiting ones included; 0: 256. Past it: 429 */
  uint32_t documents_max;          /* registered documents of all tenants; 0: 4096. The oldest goes first */
  uint32_t drafts_max;             /* open drafts of all tenants; 0: 256. The oldest goes first */
  size_t stream_pending_bytes_max; /* unsent bytes of one stream after which its client counts as gone; 0: 1 MiB */
};

/* Installs the routes; requests are served from the next turn of the loop. STATUS_INVALID (with error),
 * STATUS_NO_MEMORY. */
MUST_USE enum status gateway_create(const struct gateway_config *config, const struct gateway_deps *deps,
                                    struct gateway **ret_gateway, struct error *error);
/* Only when nothing is alive: after gateway_drain's `done`, or before the first request. NULL is accepted; nulls it. */
void gateway_destroy(struct gateway **gateway);
/* From now on /health answers 503 and new requests 503 with retry-after; those alive go on, for grace_ms at most, then
 * they are cancelled. `done` runs exactly once, on the loop thread, never before this call returns, when none is left.
 */
void gateway_drain(struct gateway *gateway, uint32_t grace_ms, void (*done)(void *done_ctx), void *done_ctx);
/* Requests alive now. */
size_t gateway_requests_count(const struct gateway *gateway);
/* Appends the gateway's own metrics as Prometheus text: requests by route and code, time to first token, queue time,
 * requests in flight. Token counts come from the ledger, never from here. */
MUST_USE enum status gateway_metrics(const struct gateway *gateway, struct buffer *into);

#endif
