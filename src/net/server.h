/* An HTTP/1.1 server on the loop's thread: whole requests in, whole or streamed replies out. Hardened: what another
 * server might read differently is refused before a handler sees it. The only room that knows libevent. */
#ifndef FORELAY_NET_SERVER_H
#define FORELAY_NET_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

struct http_exchange; /* one request and its reply */
struct http_server;
struct loop;

struct http_server_config {
  const char *listen;       /* "host:port"; "[::1]:port"; port 0: any free one */
  size_t header_bytes_max;  /* 0: 32 KiB */
  size_t body_bytes_max;    /* 0: 32 MiB */
  uint32_t idle_timeout_ms; /* of a connection that owes us bytes; 0: 60,000 */
};

struct http_field {
  const char *name, *value;
};

/* Runs on the loop thread for each whole request. The exchange is the handler's until it calls exactly one of
 * http_reply and http_stream_end, now or later; after that the pointer is dead. */
typedef void http_handler(void *ctx, struct http_exchange *exchange);

/* STATUS_INVALID: no such address; STATUS_IO: it is taken or not ours; `error` says what to do. */
MUST_USE enum status http_server_open(struct loop *loop, const struct http_server_config *config,
                                      struct http_server **ret_server, struct error *error);
/* Until it is set, requests are answered 503. */
void http_server_set_handler(struct http_server *server, http_handler *handler, void *ctx);
uint16_t http_server_port(const struct http_server *server);
/* New connections are refused; those that are open go on. */
void http_server_stop_accepting(struct http_server *server);
/* Exchanges that a handler has and has not ended. */
size_t http_server_active(const struct http_server *server);
/* Drops all connections. Exchanges still open are told through on_close, must still be ended by their owners before the
 * loop is destroyed, and reach nobody. NULL is accepted; nulls the pointer. */
void http_server_close(struct http_server **server);

/* ── the request ── texts are valid until the exchange ends. */
const char *http_method(const struct http_exchange *exchange);
/* Percent-decoded, without the query; begins with '/'. */
const char *http_path(const struct http_exchange *exchange);
/* Decoded value of the first such parameter, NULL: none. */
const char *http_query(const struct http_exchange *exchange, const char *name);
/* Value of the first such header, name in any case; NULL: none. */
const char *http_header(const struct http_exchange *exchange, const char *name);
/* Never NULL; not terminated. */
const void *http_body(const struct http_exchange *exchange, size_t *ret_size);
/* Address of the other side. */
const char *http_peer(const struct http_exchange *exchange);

/* fn(ctx) exactly once if the client leaves before the reply has ended (a half-close counts as leaving), on the loop
 * thread, never from inside another call of this header. The exchange must still be ended. One fn an exchange. */
void http_on_close(struct http_exchange *exchange, void (*fn)(void *ctx), void *ctx);

/* ── the reply ── names and values are copied; a value with control characters is dropped whole. */
void http_reply(struct http_exchange *exchange, int status, const struct http_field *fields, size_t n, const void *body,
                size_t size);
/* Sends the head at once; the body follows in chunks. */
void http_stream_start(struct http_exchange *exchange, int status, const struct http_field *fields, size_t n);
/* false: the client is gone; the bytes went nowhere. */
bool http_stream_send(struct http_exchange *exchange, const void *data, size_t size);
/* Bytes sent by us and not yet taken by the client's side. */
size_t http_stream_backlog_bytes(const struct http_exchange *exchange);
void http_stream_end(struct http_exchange *exchange);

#endif
