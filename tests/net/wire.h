/* A server on a loop thread with a few paths, and a client that speaks bytes. For the tests of net/ only. */
#ifndef FORELAY_TESTS_NET_WIRE_H
#define FORELAY_TESTS_NET_WIRE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "net/loop.h"
#include "net/server.h"

enum { WIRE_WAIT_MS = 10000, WIRE_IDLE_MS = 400, WIRE_TICKS = 12, WIRE_TICK_US = 60000, WIRE_FLOOD_BYTES = 16 << 20 };

struct wire {
  struct loop *loop;
  struct http_server *server;
  uint16_t port;
  pthread_t thread;
  struct http_exchange *held; /* loop thread: of /hold, /ticks, /flood and /quiet, until it is ended */
  struct loop_timer *timer;   /* loop thread: the next tick of /ticks */
  int ticks;
  pthread_mutex_t mutex; /* guards what the test reads */
  pthread_cond_t changed;
  int n_handled, n_left, n_ended, n_refused; /* handler calls, on_close calls, exchanges ended, sends that said false */
  size_t backlog_bytes;                      /* of /flood after all was sent */
};

static inline void wire_count(struct wire *wire, int *counter) {
  pthread_mutex_lock(&wire->mutex);
  ++*counter;
  pthread_cond_broadcast(&wire->changed);
  pthread_mutex_unlock(&wire->mutex);
}

/* Waits until the counter has at least this value; the value it has in the end. */
static inline int wire_wait(struct wire *wire, const int *counter, int value) {
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += WIRE_WAIT_MS / 1000;
  pthread_mutex_lock(&wire->mutex);
  while (*counter < value && pthread_cond_timedwait(&wire->changed, &wire->mutex, &until) == 0) continue;
  int result = *counter;
  pthread_mutex_unlock(&wire->mutex);
  return result;
}

static inline void wire_end(struct wire *wire) {
  http_stream_end(wire->held);
  wire->held = NULL;
  wire_count(wire, &wire->n_ended);
}

static inline void wire_left(void *ctx) {
  struct wire *wire = ctx;
  wire_count(wire, &wire->n_left);
}

static inline void wire_tick(void *ctx) {
  struct wire *wire = ctx;
  if (wire->ticks == WIRE_TICKS) {
    wire_end(wire);
    return;
  }
  wire->ticks++;
  if (http_stream_send(wire->held, "tick\n", 5)) {
    loop_timer_start(wire->timer, WIRE_TICK_US);
  } else {
    wire_count(wire, &wire->n_refused);
    wire_end(wire);
  }
}

/* Loop thread: answers what /hold keeps. */
static inline void wire_answer_held(void *ctx) {
  struct wire *wire = ctx;
  http_reply(wire->held, 200, NULL, 0, "released", 8);
  wire->held = NULL;
  wire_count(wire, &wire->n_ended);
}

static inline void wire_end_held(void *ctx) {
  wire_end(ctx);
}

static inline void wire_echo(struct http_exchange *exchange) {
  char text[512];
  size_t size;
  const char *body = http_body(exchange, &size);
  const char *query = http_query(exchange, "q"), *header = http_header(exchange, "X-Word");
  snprintf(text, sizeof text, "%s %s q=%s word=%s body=%zu:%.*s", http_method(exchange), http_path(exchange),
           query != NULL ? query : "-", header != NULL ? header : "-", size, (int)(size < 100 ? size : 100), body);
  const struct http_field fields[] = {
      {"content-type", "text/plain"}, {"x-bad", "a\r\nx-forged: b"}, {"x-bell", "a\ab"}, {"x bad", "c"}};
  http_reply(exchange, 200, fields, 4, text, strlen(text));
}

static inline void wire_tell_headers(struct http_exchange *exchange) {
  char text[256];
  const char *key = http_header(exchange, "authorization"), *type = http_header(exchange, "content-type");
  snprintf(text, sizeof text, "authorization=%s content-type=%s", key != NULL ? key : "-", type != NULL ? type : "-");
  http_reply(exchange, 200, NULL, 0, text, strlen(text));
}

static inline void wire_flood(struct wire *wire) {
  static char block[65536];
  http_stream_start(wire->held, 200, NULL, 0);
  for (size_t sent = 0; sent < WIRE_FLOOD_BYTES; sent += sizeof block)
    (void)http_stream_send(wire->held, block, sizeof block);
  pthread_mutex_lock(&wire->mutex);
  wire->backlog_bytes = http_stream_backlog_bytes(wire->held);
  pthread_mutex_unlock(&wire->mutex);
}

static inline void wire_handle(void *ctx, struct http_exchange *exchange) {
  struct wire *wire = ctx;
  const char *path = http_path(exchange);
  static const char *const kept[] = {"/hold", "/ticks", "/flood", "/quiet"};
  bool is_kept = false;
  for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) is_kept = is_kept || strcmp(path, kept[i]) == 0;
  if (is_kept) {
    wire->held = exchange;
    http_on_close(exchange, wire_left, wire);
  }
  if (strcmp(path, "/ticks") == 0) {
    http_stream_start(exchange, 200, NULL, 0);
    wire->ticks = 0;
    wire_tick(wire);
  } else if (strcmp(path, "/flood") == 0) {
    wire_flood(wire);
  } else if (strcmp(path, "/quiet") == 0) {
    http_stream_start(exchange, 200, NULL, 0);
  } else if (strcmp(path, "/headers") == 0) {
    wire_tell_headers(exchange);
  } else if (!is_kept) {
    wire_echo(exchange);
  }
  wire_count(wire, &wire->n_handled);
}

static inline void *wire_run(void *ctx) {
  struct wire *wire = ctx;
  loop_run(wire->loop);
  return NULL;
}

static inline struct wire *wire_open(void) {
  struct wire *wire = calloc(1, sizeof *wire);
  struct error error = {0};
  const struct http_server_config config = {
      .listen = "127.0.0.1:0", .header_bytes_max = 4096, .body_bytes_max = 1 << 20, .idle_timeout_ms = WIRE_IDLE_MS};
  assert_non_null(wire);
  pthread_mutex_init(&wire->mutex, NULL);
  pthread_cond_init(&wire->changed, NULL);
  assert_int_equal(loop_create(0, &wire->loop), STATUS_OK);
  assert_int_equal(loop_timer_create(wire->loop, wire_tick, wire, &wire->timer), STATUS_OK);
  assert_int_equal(http_server_open(wire->loop, &config, &wire->server, &error), STATUS_OK);
  http_server_set_handler(wire->server, wire_handle, wire);
  wire->port = http_server_port(wire->server);
  assert_int_equal(pthread_create(&wire->thread, NULL, wire_run, wire), 0);
  return wire;
}

/* After it the loop's thread is gone and the test may use the server itself. */
static inline void wire_stop(struct wire *wire) {
  loop_stop(wire->loop);
  pthread_join(wire->thread, NULL);
}

static inline void wire_close(struct wire *wire) {
  http_server_close(&wire->server);
  if (wire->held != NULL) wire_end(wire);
  loop_timer_destroy(&wire->timer);
  loop_destroy(&wire->loop);
  pthread_cond_destroy(&wire->changed);
  pthread_mutex_destroy(&wire->mutex);
  free(wire);
}

/* ── the client ── */

static inline int wire_connect(const struct wire *wire) {
  const struct sockaddr_in address = {
      .sin_family = AF_INET, .sin_port = htons(wire->port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_true(fd >= 0);
  if (connect(fd, (const struct sockaddr *)&address, sizeof address) != 0) {
    close(fd);
    return -1;
  }
  return fd;
}

static inline void wire_send(int fd, const char *data, size_t size) {
  for (size_t done = 0; done < size;) {
    ssize_t n = send(fd, data + done, size - done, MSG_NOSIGNAL);
    if (n <= 0) return; /* the other side has closed: what it said before counts */
    done += (size_t)n;
  }
}

static inline void wire_say(int fd, const char *text) {
  wire_send(fd, text, strlen(text));
}

/* Reads until `needle` stands in the text (NULL: until the other side closes), at most WIRE_WAIT_MS. The text, owned by
 * the caller; *ret_is_closed: whether the end was reached. */
static inline char *wire_hear(int fd, const char *needle, bool *ret_is_closed) {
  size_t size = 0, capacity = 1 << 16;
  char *text = calloc(1, capacity + 1);
  bool is_closed = false;
  assert_non_null(text);
  while (needle == NULL || strstr(text, needle) == NULL) {
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    if (size == capacity || poll(&ready, 1, WIRE_WAIT_MS) != 1) break;
    ssize_t n = recv(fd, text + size, capacity - size, 0);
    is_closed = n <= 0;
    if (is_closed) break;
    size += (size_t)n;
    text[size] = '\0';
  }
  if (ret_is_closed != NULL) *ret_is_closed = is_closed;
  return text;
}

static inline void wire_expect(int fd, const char *needle) {
  char *text = wire_hear(fd, needle, NULL);
  if (strstr(text, needle) == NULL) fail_msg("expected '%s' in:\n%s", needle, text);
  free(text);
}

#endif
