#include "net/server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/http_struct.h>
#include <event2/keyvalq_struct.h>
#include <event2/listener.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/queue.h>
#include <sys/socket.h>

#include "net/loop.h"

enum {
  HEADER_BYTES_MAX = 32 << 10,
  BODY_BYTES_MAX = 32 << 20,
  IDLE_TIMEOUT_MS = 60000,
  BACKLOG = 128,
  PIPELINED_BYTES_MAX = 64 << 10 /* read ahead of a connection whose request is being served */
};

struct http_server {
  struct event_base *base;
  struct evhttp *http;
  struct evhttp_bound_socket *bound;
  struct timeval idle_timeout;
  size_t header_bytes_max;
  http_handler *handler;
  void *handler_ctx;
  uint16_t port;
  struct http_exchange *exchanges; /* open ones */
  size_t active;
};

struct http_exchange {
  struct http_server *server; /* NULL once the server is closed */
  struct http_exchange *next, **link;
  struct evhttp_request *request; /* never NULL; ours while the handler has it, libevent's again from the reply on */
  struct event *closed;           /* sees a client that leaves early */
  struct event *notify;           /* runs on_close outside of other calls */
  struct evkeyvalq query;
  char *path;
  const void *body;
  size_t body_size;
  char peer[64];
  void (*on_close)(void *ctx);
  void *on_close_ctx;
  bool is_gone; /* the client has left */
  bool is_cut;  /* the connection is freed: nothing can be sent, and the request is ours to free */
  bool is_streaming;
};

/* ── leaving clients ── */

static void tell_gone(evutil_socket_t fd, short what, void *ctx) {
  (void)fd;
  (void)what;
  struct http_exchange *exchange = ctx;
  void (*fn)(void *) = exchange->on_close;
  exchange->on_close = NULL;
  if (fn != NULL) fn(exchange->on_close_ctx);
}

static void mark_gone(struct http_exchange *exchange) {
  if (exchange->is_gone) return;
  exchange->is_gone = true;
  if (exchange->notify != NULL) event_active(exchange->notify, EV_TIMEOUT, 0);
}

static void peer_closed(evutil_socket_t fd, short what, void *ctx) {
  (void)fd;
  (void)what;
  mark_gone(ctx);
}

/* libevent frees the connection; the request stays, since it is owned. */
static void connection_closed(struct evhttp_connection *connection, void *ctx) {
  (void)connection;
  struct http_exchange *exchange = ctx;
  exchange->is_cut = true;
  if (exchange->closed != NULL) event_del(exchange->closed);
  mark_gone(exchange);
}

/* libevent has written the reply and waits for the next request: the client owes us bytes again. */
static void reply_completed(struct evhttp_request *request, void *ctx) {
  const struct http_server *server = ctx;
  struct bufferevent *stream = evhttp_connection_get_bufferevent(evhttp_request_get_connection(request));
  bufferevent_setwatermark(stream, EV_READ, 0, 0);
  bufferevent_set_timeouts(stream, &server->idle_timeout, &server->idle_timeout);
}

/* While the client waits for us it owes nothing, so only writing can time out; and since libevent reads on as soon as a
 * reply begins, what is read ahead has a limit. */
static void begin_serving(struct http_server *server, struct evhttp_request *request) {
  struct bufferevent *stream = evhttp_connection_get_bufferevent(evhttp_request_get_connection(request));
  bufferevent_setwatermark(stream, EV_READ, 0, PIPELINED_BYTES_MAX);
  bufferevent_set_timeouts(stream, NULL, &server->idle_timeout);
  evhttp_request_set_on_complete_cb(request, reply_completed, server);
  evhttp_request_own(request);
}

/* Reading stays off while a request is served (enabling it would let a pipelined request run into this one), so a
 * separate event on the descriptor looks for the other side's end. */
static void watch_peer(struct http_exchange *exchange) {
  struct evhttp_connection *connection = evhttp_request_get_connection(exchange->request);
  struct event_base *base = exchange->server->base;
  evhttp_connection_set_closecb(connection, connection_closed, exchange);
  exchange->notify = event_new(base, -1, 0, tell_gone, exchange);
  evutil_socket_t fd = bufferevent_getfd(evhttp_connection_get_bufferevent(connection));
  if (fd < 0) return;
  exchange->closed = event_new(base, fd, EV_CLOSED, peer_closed, exchange);
  if (exchange->closed != NULL) event_add(exchange->closed, NULL);
}

static void free_exchange(struct http_exchange *exchange) {
  if (exchange->link != NULL) *exchange->link = exchange->next;
  if (exchange->next != NULL) exchange->next->link = exchange->link;
  if (exchange->server != NULL) exchange->server->active--;
  if (exchange->closed != NULL) event_free(exchange->closed);
  if (exchange->notify != NULL) event_free(exchange->notify);
  if (exchange->is_cut) evhttp_request_free(exchange->request);
  evhttp_clear_headers(&exchange->query);
  free(exchange->path);
  free(exchange);
}

/* ── checks ── */

static bool is_token(const char *text) {
  static const char more[] = "!#$%&'*+-.^_`|~";
  if (*text == '\0') return false;
  for (; *text != '\0'; text++) {
    bool is_letter = (*text >= 'a' && *text <= 'z') || (*text >= 'A' && *text <= 'Z') || (*text >= '0' && *text <= '9');
    if (!is_letter && strchr(more, *text) == NULL) return false;
  }
  return true;
}

static bool is_clean(const char *text) {
  for (; *text != '\0'; text++)
    if (((unsigned char)*text < ' ' && *text != '\t') || *text == 0x7f) return false;
  return true;
}

static bool is_digits(const char *text) {
  return *text != '\0' && strlen(text) <= 18 && strspn(text, "0123456789") == strlen(text);
}

/* What two servers might read in two ways; NULL: nothing. */
static const char *fault_of(const struct evhttp_request *request) {
  unsigned lengths = 0, encodings = 0, hosts = 0;
  bool has_body = false, is_1_1 = request->minor >= 1;
  const struct evkeyval *header;
  if (request->major != 1 || request->minor < 0) return "the protocol is not HTTP/1.0 or HTTP/1.1";
  TAILQ_FOREACH(header, request->input_headers, next) {
    if (!is_token(header->key)) return "a header's name is not a token";
    if (!is_clean(header->value)) return "a header's value has control characters";
    if (strcasecmp(header->key, "content-length") == 0) {
      lengths++;
      if (!is_digits(header->value)) return "content-length is not a plain number";
      if (strspn(header->value, "0") < strlen(header->value)) has_body = true;
    } else if (strcasecmp(header->key, "transfer-encoding") == 0) {
      encodings++;
      if (strcasecmp(header->value, "chunked") != 0) return "the only transfer-encoding understood is chunked";
    } else if (strcasecmp(header->key, "host") == 0) {
      hosts++;
    }
  }
  if (lengths > 1) return "content-length is given more than once";
  if (encodings > 1) return "transfer-encoding is given more than once";
  if (lengths > 0 && encodings > 0) return "content-length and transfer-encoding exclude each other";
  if (encodings > 0 && !is_1_1) return "HTTP/1.0 knows no transfer-encoding";
  if (request->type == EVHTTP_REQ_HEAD && (has_body || encodings > 0)) return "a HEAD request has no body";
  if (hosts > 1) return "host is given more than once";
  if (is_1_1 && hosts == 0) return "an HTTP/1.1 request needs a host header";
  return NULL;
}

static void reply_error(struct evhttp_request *request, int status, const char *message) {
  struct evbuffer *body = evbuffer_new();
  struct evkeyvalq *headers = evhttp_request_get_output_headers(request);
  evhttp_add_header(headers, "Content-Type", "application/json");
  evhttp_add_header(headers, "Connection", "close");
  if (body != NULL)
    evbuffer_add_printf(
        body, "{\"error\":{\"message\":\"%s\",\"type\":\"invalid_request_error\",\"param\":null,\"code\":null}}\n",
        message);
  evhttp_send_reply(request, status, NULL, body);
  if (body != NULL) evbuffer_free(body);
}

/* ── a request ── */

static bool split_target(struct http_exchange *exchange) {
  const char *target = evhttp_request_get_uri(exchange->request);
  bool is_one_word = target != NULL && is_clean(target) && strpbrk(target, " \t") == NULL;
  struct evhttp_uri *uri = is_one_word ? evhttp_uri_parse_with_flags(target, EVHTTP_URI_NONCONFORMANT) : NULL;
  if (uri == NULL) return false;
  const char *path = evhttp_uri_get_path(uri), *query = evhttp_uri_get_query(uri);
  size_t size = 0;
  exchange->path = evhttp_uridecode(path != NULL && path[0] != '\0' ? path : "/", 0, &size);
  bool is_good = exchange->path != NULL && strlen(exchange->path) == size && exchange->path[0] == '/' &&
                 is_clean(exchange->path) && (query == NULL || evhttp_parse_query_str(query, &exchange->query) == 0);
  evhttp_uri_free(uri);
  return is_good;
}

static const char *method_name(enum evhttp_cmd_type type) {
  switch (type) {
  case EVHTTP_REQ_GET:
    return "GET";
  case EVHTTP_REQ_POST:
    return "POST";
  case EVHTTP_REQ_HEAD:
    return "HEAD";
  case EVHTTP_REQ_PUT:
    return "PUT";
  case EVHTTP_REQ_DELETE:
    return "DELETE";
  case EVHTTP_REQ_OPTIONS:
    return "OPTIONS";
  case EVHTTP_REQ_PATCH:
    return "PATCH";
  default:
    return "OTHER";
  }
}

static void serve(struct evhttp_request *request, void *ctx) {
  struct http_server *server = ctx;
  struct evhttp_connection *connection = evhttp_request_get_connection(request);
  if (request->headers_size > server->header_bytes_max) {
    reply_error(request, 431, "the request's headers are too large");
    return;
  }
  const char *fault = fault_of(request);
  if (fault != NULL) {
    reply_error(request, 400, fault);
    return;
  }
  struct http_exchange *exchange = server->handler != NULL ? calloc(1, sizeof *exchange) : NULL;
  if (exchange == NULL) {
    reply_error(request, 503, "not ready");
    return;
  }
  TAILQ_INIT(&exchange->query);
  exchange->server = server;
  exchange->request = request;
  exchange->next = server->exchanges;
  exchange->link = &server->exchanges;
  if (exchange->next != NULL) exchange->next->link = &exchange->next;
  server->exchanges = exchange;
  server->active++;
  char *address = NULL;
  ev_uint16_t port = 0;
  evhttp_connection_get_peer(connection, &address, &port);
  snprintf(exchange->peer, sizeof exchange->peer, "%s", address != NULL ? address : "");
  if (!split_target(exchange)) {
    free_exchange(exchange);
    reply_error(request, 400, "the request's target is not a path");
    return;
  }
  begin_serving(server, request);
  struct evbuffer *input = evhttp_request_get_input_buffer(request);
  exchange->body_size = evbuffer_get_length(input);
  exchange->body = exchange->body_size > 0 ? evbuffer_pullup(input, -1) : (const void *)"";
  watch_peer(exchange);
  server->handler(server->handler_ctx, exchange);
}

const char *http_method(const struct http_exchange *exchange) {
  return method_name(evhttp_request_get_command(exchange->request));
}

const char *http_path(const struct http_exchange *exchange) {
  return exchange->path;
}

const char *http_query(const struct http_exchange *exchange, const char *name) {
  return evhttp_find_header(&exchange->query, name);
}

const char *http_header(const struct http_exchange *exchange, const char *name) {
  return evhttp_find_header(evhttp_request_get_input_headers(exchange->request), name);
}

const void *http_body(const struct http_exchange *exchange, size_t *ret_size) {
  *ret_size = exchange->body_size;
  return exchange->body;
}

const char *http_peer(const struct http_exchange *exchange) {
  return exchange->peer;
}

void http_on_close(struct http_exchange *exchange, void (*fn)(void *ctx), void *ctx) {
  exchange->on_close = fn;
  exchange->on_close_ctx = ctx;
  if (exchange->is_gone && exchange->notify != NULL) event_active(exchange->notify, EV_TIMEOUT, 0);
}

/* ── a reply ── */

static void add_fields(struct http_exchange *exchange, const struct http_field *fields, size_t n) {
  struct evkeyvalq *headers = evhttp_request_get_output_headers(exchange->request);
  for (size_t i = 0; i < n; i++)
    if (is_token(fields[i].name) && is_clean(fields[i].value))
      evhttp_add_header(headers, fields[i].name, fields[i].value);
  if (exchange->is_gone) evhttp_add_header(headers, "Connection", "close");
}

/* The connection and the request go back to libevent, which must not call us about this exchange any more; NULL where
 * there is no connection left. The exchange is freed. */
static struct evhttp_request *let_go(struct http_exchange *exchange) {
  struct evhttp_request *request = exchange->is_cut ? NULL : exchange->request;
  if (request != NULL) {
    evhttp_connection_set_closecb(evhttp_request_get_connection(request), NULL, NULL);
    request->flags &= ~EVHTTP_USER_OWNED;
  }
  free_exchange(exchange);
  return request;
}

void http_reply(struct http_exchange *exchange, int status, const struct http_field *fields, size_t n, const void *body,
                size_t size) {
  if (!exchange->is_cut) add_fields(exchange, fields, n);
  struct evbuffer *buffer = evbuffer_new();
  struct evhttp_request *request = exchange->is_cut ? NULL : exchange->request;
  if (request != NULL && request->type == EVHTTP_REQ_HEAD) {
    /* libevent would send the body along; the next reply would be read behind it. */
    char length[24];
    snprintf(length, sizeof length, "%zu", size);
    evhttp_add_header(evhttp_request_get_output_headers(request), "Content-Length", length);
  } else if (buffer != NULL) {
    evbuffer_add(buffer, body, size);
  }
  request = let_go(exchange);
  if (request != NULL) evhttp_send_reply(request, status, NULL, buffer);
  if (buffer != NULL) evbuffer_free(buffer);
}

void http_stream_start(struct http_exchange *exchange, int status, const struct http_field *fields, size_t n) {
  exchange->is_streaming = true;
  if (exchange->is_cut) return;
  add_fields(exchange, fields, n);
  /* HTTP/1.0 has no chunks: the end of the connection is the end of the body, whatever the client asked for. */
  if (exchange->request->minor == 0) evhttp_remove_header(exchange->request->input_headers, "Connection");
  evhttp_send_reply_start(exchange->request, status, NULL);
}

bool http_stream_send(struct http_exchange *exchange, const void *data, size_t size) {
  if (exchange->is_cut || exchange->is_gone) return false;
  struct evbuffer *buffer = evbuffer_new();
  bool is_copied = buffer != NULL && evbuffer_add(buffer, data, size) == 0;
  if (is_copied) evhttp_send_reply_chunk(exchange->request, buffer);
  if (buffer != NULL) evbuffer_free(buffer);
  return is_copied;
}

size_t http_stream_backlog_bytes(const struct http_exchange *exchange) {
  if (exchange->is_cut) return 0;
  struct evhttp_connection *connection = evhttp_request_get_connection(exchange->request);
  return evbuffer_get_length(bufferevent_get_output(evhttp_connection_get_bufferevent(connection)));
}

void http_stream_end(struct http_exchange *exchange) {
  bool is_streaming = exchange->is_streaming;
  struct evhttp_request *request = let_go(exchange);
  if (request == NULL) return;
  if (is_streaming)
    evhttp_send_reply_end(request);
  else
    reply_error(request, 503, "the request was dropped");
}

/* ── the server ── */

/* "host:port" or "[host]:port" → a bound, listening socket. */
static enum status listen_on(struct http_server *server, const char *listen, struct error *error) {
  char host[256];
  const char *colon = strrchr(listen, ':');
  size_t length = colon != NULL ? (size_t)(colon - listen) : 0;
  if (colon == NULL || length == 0 || length >= sizeof host || !is_digits(colon + 1) || strlen(colon + 1) > 5)
    return error_set(error, STATUS_INVALID, "'%.64s' is not an address like 127.0.0.1:8080", listen);
  bool is_bracketed = listen[0] == '[' && listen[length - 1] == ']';
  snprintf(host, sizeof host, "%.*s", (int)(length - 2 * is_bracketed), listen + is_bracketed);
  const struct addrinfo hints = {.ai_flags = AI_PASSIVE | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM};
  struct addrinfo *found = NULL;
  int code = getaddrinfo(host, colon + 1, &hints, &found);
  if (code != 0) return error_set(error, STATUS_INVALID, "'%.64s': %s", listen, gai_strerror(code));
  struct evconnlistener *listener = evconnlistener_new_bind(
      server->base, NULL, NULL, LEV_OPT_CLOSE_ON_FREE | LEV_OPT_REUSEABLE | LEV_OPT_CLOSE_ON_EXEC, BACKLOG,
      found->ai_addr, (int)found->ai_addrlen);
  freeaddrinfo(found);
  if (listener == NULL)
    return error_set(error, STATUS_IO, "cannot listen on %s: %s: another program has it? choose another --listen",
                     listen, strerror(errno));
  server->bound = evhttp_bind_listener(server->http, listener);
  struct sockaddr_storage address;
  socklen_t size = sizeof address;
  if (getsockname(evconnlistener_get_fd(listener), (struct sockaddr *)&address, &size) == 0)
    server->port = ntohs(address.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&address)->sin6_port
                                                       : ((struct sockaddr_in *)&address)->sin_port);
  return server->bound != NULL ? STATUS_OK : error_set(error, STATUS_NO_MEMORY, "out of memory");
}

enum status http_server_open(struct loop *loop, const struct http_server_config *config,
                             struct http_server **ret_server, struct error *error) {
  struct http_server *server = calloc(1, sizeof *server);
  if (server == NULL) return STATUS_NO_MEMORY;
  server->base = loop_base(loop);
  server->http = evhttp_new(server->base);
  enum status status = server->http != NULL ? listen_on(server, config->listen, error) : STATUS_NO_MEMORY;
  if (status != STATUS_OK) {
    http_server_close(&server);
    return status;
  }
  uint32_t timeout_ms = config->idle_timeout_ms > 0 ? config->idle_timeout_ms : IDLE_TIMEOUT_MS;
  server->idle_timeout =
      (struct timeval){.tv_sec = timeout_ms / 1000, .tv_usec = (suseconds_t)(timeout_ms % 1000) * 1000};
  evhttp_set_timeout_tv(server->http, &server->idle_timeout);
  server->header_bytes_max = config->header_bytes_max > 0 ? config->header_bytes_max : HEADER_BYTES_MAX;
  /* Up to twice the limit is read, so that it can be refused in our own words; libevent's are 400 and a page. */
  evhttp_set_max_headers_size(server->http, (ev_ssize_t)(2 * server->header_bytes_max));
  /* A body past the limit is read and dropped: a client that is still sending would not see the answer. */
  evhttp_set_flags(server->http, EVHTTP_SERVER_LINGERING_CLOSE);
  evhttp_set_max_body_size(server->http,
                           (ev_ssize_t)(config->body_bytes_max > 0 ? config->body_bytes_max : BODY_BYTES_MAX));
  evhttp_set_allowed_methods(server->http, EVHTTP_REQ_GET | EVHTTP_REQ_POST | EVHTTP_REQ_HEAD | EVHTTP_REQ_PUT |
                                               EVHTTP_REQ_DELETE | EVHTTP_REQ_OPTIONS | EVHTTP_REQ_PATCH);
  evhttp_set_gencb(server->http, serve, server);
  *ret_server = server;
  return STATUS_OK;
}

void http_server_set_handler(struct http_server *server, http_handler *handler, void *ctx) {
  server->handler = handler;
  server->handler_ctx = ctx;
}

uint16_t http_server_port(const struct http_server *server) {
  return server->port;
}

void http_server_stop_accepting(struct http_server *server) {
  if (server->bound != NULL) evhttp_del_accept_socket(server->http, server->bound);
  server->bound = NULL;
}

size_t http_server_active(const struct http_server *server) {
  return server->active;
}

void http_server_close(struct http_server **reference) {
  struct http_server *server = *reference;
  if (server == NULL) return;
  if (server->http != NULL) evhttp_free(server->http);
  /* What is still open has lost its connection and only waits for its owner, outside of any list. */
  for (struct http_exchange *exchange = server->exchanges, *next; exchange != NULL; exchange = next) {
    next = exchange->next;
    exchange->server = NULL;
    exchange->next = NULL;
    exchange->link = NULL;
  }
  free(server);
  *reference = NULL;
}
