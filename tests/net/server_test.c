/* The HTTP server as a well-behaved client sees it, and clients that leave, wait, pipeline or do not read. */
#include "net/wire.h"

#include <fcntl.h>

#define HOST "Host: x\r\n"

static void close_all(struct wire *wire, int fd) {
  if (fd >= 0) close(fd);
  wire_stop(wire);
  wire_close(wire);
}

static void test_requests(void **state) {
  (void)state;
  struct wire *wire = wire_open();
  int fd = wire_connect(wire);
  wire_say(fd, "GET /a%20b/%C3%BC?x=1&q=2%2B2+c HTTP/1.1\r\n" HOST "x-wOrD:  hi  \r\n\r\n");
  wire_expect(fd, "GET /a b/\xC3\xBC q=2+2 c word=hi body=0:");
  wire_say(fd, "POST /p HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\nhello");
  wire_expect(fd, "POST /p q=- word=- body=5:hello");
  wire_say(fd, "POST /c HTTP/1.1\r\n" HOST "Transfer-Encoding: Chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n");
  wire_expect(fd, "POST /c q=- word=- body=5:hello");
  wire_say(fd, "PUT /u HTTP/1.1\r\n" HOST "Content-Length: 0\r\n\r\n");
  wire_expect(fd, "PUT /u q=- word=- body=0:");
  wire_say(fd, "DELETE /d HTTP/1.1\r\n" HOST "\r\n");
  wire_expect(fd, "DELETE /d q=- word=- body=0:");
  wire_say(fd, "OPTIONS /o HTTP/1.1\r\n" HOST "\r\n");
  wire_expect(fd, "OPTIONS /o q=- word=- body=0:");
  assert_int_equal(wire_wait(wire, &wire->n_handled, 6), 6);
  close_all(wire, fd);
}

static void test_forged_field(void **state) {
  (void)state;
  struct wire *wire = wire_open();
  int fd = wire_connect(wire);
  wire_say(fd, "GET / HTTP/1.1\r\n" HOST "\r\n");
  char *text = wire_hear(fd, "body=0:", NULL);
  assert_non_null(strstr(text, "content-type: text/plain\r\n"));
  assert_null(strstr(text, "x-forged"));
  assert_null(strstr(text, "x-bell"));
  assert_null(strstr(text, "x bad"));
  free(text);
  close_all(wire, fd);
}

static void test_continue(void **state) {
  (void)state;
  struct wire *wire = wire_open();
  int fd = wire_connect(wire);
  wire_say(fd, "POST /e HTTP/1.1\r\n" HOST "Expect: 100-continue\r\nContent-Length: 5\r\n\r\n");
  wire_expect(fd, "100 Continue\r\n\r\n");
  assert_int_equal(wire_wait(wire, &wire->n_handled, 0), 0);
  wire_say(fd, "hello");
  wire_expect(fd, "POST /e q=- word=- body=5:hello");
  close_all(wire, fd);
}

/* The answer to HEAD has the length of the body that GET would have, and no body: the next answer follows at once. */
static void test_head(void **state) {
  (void)state;
  struct wire *wire = wire_open();
  int fd = wire_connect(wire);
  wire_say(fd, "HEAD /h HTTP/1.1\r\n" HOST "\r\n");
  char *text = wire_hear(fd, "\r\n\r\n", NULL);
  assert_int_equal(strncmp(text, "HTTP/1.1 200", 12), 0);
  assert_non_null(strstr(text, "Content-Length: 26\r\n"));
  assert_string_equal(strstr(text, "\r\n\r\n"), "\r\n\r\n");
  free(text);
  wire_say(fd, "GET /g HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n");
  text = wire_hear(fd, NULL, NULL);
  assert_int_equal(strncmp(text, "HTTP/1.1 200", 12), 0);
  assert_non_null(strstr(text, "GET /g"));
  free(text);
  close_all(wire, fd);
}

static void test_old_protocol(void **state) {
  (void)state;
  struct wire *wire = wire_open();
  bool is_closed;
  int fd = wire_connect(wire);
  wire_say(fd, "GET /old HTTP/1.0\r\n\r\n");
  char *text = wire_hear(fd, NULL, &is_closed);
  assert_true(is_closed);
  assert_non_null(strstr(text, "GET /old"));
  free(text);
  close(fd);
  /* No chunks, and the connection ends with the body although it was asked to stay. */
  fd = wire_connect(wire);
  wire_say(fd, "GET /ticks HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  text = wire_hear(fd, NULL, &is_closed);
  assert_true(is_closed);
  assert_null(strstr(text, "chunked"));
  assert_null(strstr(text, "Content-Length"));
  assert_int_equal(strncmp(strstr(text, "\r\n\r\n"), "\r\n\r\ntick\ntick\n", 14), 0);
  free(text);
  close_all(wire, fd);
}

/* Both of one segment are answered, in order; while the first is served the second waits and does no harm. */
static void test_pipelined(void **state) {
  (void)state;
  struct wire *wire = wire_open();
  int fd = wire_connect(wire);
  wire_say(fd, "GET /one HTTP/1.1\r\n" HOST "\r\nPOST /two HTTP/1.1\r\n" HOST "Content-Length: 3\r\n\r\nabc");
  char *text = wire_hear(fd, "POST /two", NULL);
  assert_non_null(strstr(text, "GET /one"));
  assert_true(strstr(text, "GET /one") < strstr(text, "POST /two q=- word=- body=3:abc"));
  free(text);

  wire_say(fd, "GET /hold HTTP/1.1\r\n" HOST "\r\nGET /three HTTP/1.1\r\n" HOST "\r\n");
  assert_int_equal(wire_wait(wire, &wire->n_handled, 3), 3);
  wire_say(fd, "GET /four HTTP/1.1\r\n" HOST "\r\n");
  assert_true(loop_post(wire->loop, wire_answer_held, wire));
  text = wire_hear(fd, "GET /four", NULL);
  assert_true(strstr(text, "released") < strstr(text, "GET /three"));
  assert_true(strstr(text, "GET /three") < strstr(text, "GET /four"));
  free(text);

  wire_say(fd, "GET /ticks HTTP/1.1\r\n" HOST "\r\nGET /five HTTP/1.1\r\n" HOST "\r\n");
  text = wire_hear(fd, "GET /five", NULL);
  assert_non_null(strstr(text, "\r\n0\r\n\r\nHTTP/1.1 200"));
  free(text);
  assert_int_equal(wire_wait(wire, &wire->n_handled, 7), 7);
  assert_int_equal(wire_wait(wire, &wire->n_left, 0), 0);
  close_all(wire, fd);
}

/* A client that closes, and one that only ends its side, have left; the reply to either does no harm. */
static void test_leaving(void **state) {
  (void)state;
  struct wire *wire = wire_open();
  for (int i = 0; i < 4; i++) {
    int fd = wire_connect(wire);
    wire_say(fd, "GET /hold HTTP/1.1\r\n" HOST "\r\n");
    assert_int_equal(wire_wait(wire, &wire->n_handled, i + 1), i + 1);
    assert_int_equal(wire_wait(wire, &wire->n_left, 0), i);
    if (i % 2 == 0)
      close(fd);
    else
      shutdown(fd, SHUT_WR);
    assert_int_equal(wire_wait(wire, &wire->n_left, i + 1), i + 1);
    assert_true(loop_post(wire->loop, i < 2 ? wire_answer_held : wire_end_held, wire));
    assert_int_equal(wire_wait(wire, &wire->n_ended, i + 1), i + 1);
    if (i % 2 != 0) {
      bool is_closed;
      free(wire_hear(fd, NULL, &is_closed));
      assert_true(is_closed);
      close(fd);
    }
  }
  assert_int_equal(wire_wait(wire, &wire->n_left, 0), 4);
  close_all(wire, -1);
}

static void test_leaving_stream(void **state) {
  (void)state;
  struct wire *wire = wire_open();
  for (int i = 0; i < 2; i++) {
    int fd = wire_connect(wire);
    wire_say(fd, "GET /ticks HTTP/1.1\r\n" HOST "\r\n");
    wire_expect(fd, "tick");
    if (i == 0)
      close(fd);
    else
      shutdown(fd, SHUT_WR);
    assert_int_equal(wire_wait(wire, &wire->n_left, i + 1), i + 1);
    assert_int_equal(wire_wait(wire, &wire->n_refused, i + 1), i + 1);
    assert_int_equal(wire_wait(wire, &wire->n_ended, i + 1), i + 1);
    if (i == 1) close(fd);
  }
  assert_int_equal(wire_wait(wire, &wire->n_left, 0), 2);
  close_all(wire, -1);
}

/* Served for longer than the idle timeout, waiting and streaming: neither is cut. */
static void test_long_serving(void **state) {
  (void)state;
  struct wire *wire = wire_open();
  int fd = wire_connect(wire);
  _Static_assert(WIRE_TICKS * WIRE_TICK_US > WIRE_IDLE_MS * 1000 * 3 / 2, "outlasts the idle timeout");
  wire_say(fd, "GET /ticks HTTP/1.1\r\n" HOST "\r\n");
  char *text = wire_hear(fd, "\r\n0\r\n\r\n", NULL);
  assert_non_null(strstr(text, "\r\n0\r\n\r\n"));
  free(text);
  wire_say(fd, "GET /hold HTTP/1.1\r\n" HOST "\r\n");
  assert_int_equal(wire_wait(wire, &wire->n_handled, 2), 2);
  struct pollfd ready = {.fd = fd, .events = POLLIN};
  assert_int_equal(poll(&ready, 1, WIRE_IDLE_MS * 2), 0);
  assert_true(loop_post(wire->loop, wire_answer_held, wire));
  wire_expect(fd, "released");
  assert_int_equal(wire_wait(wire, &wire->n_left, 0), 0);
  /* A stream that has begun and has nothing to say for long is not cut either. */
  wire_say(fd, "GET /quiet HTTP/1.1\r\n" HOST "\r\n");
  assert_int_equal(wire_wait(wire, &wire->n_handled, 3), 3);
  wire_expect(fd, "\r\n\r\n");
  assert_int_equal(poll(&ready, 1, WIRE_IDLE_MS * 2), 0);
  assert_true(loop_post(wire->loop, wire_end_held, wire));
  wire_expect(fd, "0\r\n\r\n");
  assert_int_equal(wire_wait(wire, &wire->n_left, 0), 0);
  /* Between requests the timeout holds again. */
  bool is_closed;
  free(wire_hear(fd, NULL, &is_closed));
  assert_true(is_closed);
  close_all(wire, fd);
}

/* A client that sends on while it is served is read only so far. */
static void test_read_ahead(void **state) {
  (void)state;
  enum { MOST = 64 << 20, FAIR = 24 << 20 };
  struct wire *wire = wire_open();
  int fd = wire_connect(wire);
  static char block[65536];
  size_t sent = 0;
  wire_say(fd, "GET /flood HTTP/1.1\r\n" HOST "\r\n");
  assert_int_equal(wire_wait(wire, &wire->n_handled, 1), 1);
  assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
  for (struct pollfd ready = {.fd = fd, .events = POLLOUT}; sent < MOST && poll(&ready, 1, 150) == 1;) {
    ssize_t n = send(fd, block, sizeof block, MSG_NOSIGNAL);
    if (n <= 0) break;
    sent += (size_t)n;
  }
  assert_true(sent < FAIR);
  close(fd);
  assert_int_equal(wire_wait(wire, &wire->n_left, 1), 1);
  assert_true(loop_post(wire->loop, wire_end_held, wire));
  assert_int_equal(wire_wait(wire, &wire->n_ended, 1), 1);
  close_all(wire, -1);
}

/* Who does not read is visible as backlog, and is dropped after the timeout. */
static void test_backlog(void **state) {
  (void)state;
  struct wire *wire = wire_open();
  int fd = wire_connect(wire);
  wire_say(fd, "GET /flood HTTP/1.1\r\n" HOST "\r\n");
  assert_int_equal(wire_wait(wire, &wire->n_handled, 1), 1);
  assert_true(wire->backlog_bytes >= WIRE_FLOOD_BYTES);
  assert_int_equal(wire_wait(wire, &wire->n_left, 1), 1);
  assert_true(loop_post(wire->loop, wire_end_held, wire));
  assert_int_equal(wire_wait(wire, &wire->n_ended, 1), 1);
  close_all(wire, fd);
}

static void stop_accepting(void *ctx) {
  struct wire *wire = ctx;
  http_server_stop_accepting(wire->server);
  wire_count(wire, &wire->n_ended);
}

static void test_drain(void **state) {
  (void)state;
  struct wire *wire = wire_open();
  int fd = wire_connect(wire);
  wire_say(fd, "GET /hold HTTP/1.1\r\n" HOST "\r\n");
  assert_int_equal(wire_wait(wire, &wire->n_handled, 1), 1);
  assert_true(loop_post(wire->loop, stop_accepting, wire));
  assert_int_equal(wire_wait(wire, &wire->n_ended, 1), 1);
  assert_int_equal(wire_connect(wire), -1);
  assert_int_equal(http_server_active(wire->server), 1);
  assert_true(loop_post(wire->loop, wire_answer_held, wire));
  wire_expect(fd, "released");
  assert_int_equal(wire_wait(wire, &wire->n_ended, 2), 2);
  wire_stop(wire);
  assert_int_equal(http_server_active(wire->server), 0);
  close(fd);
  wire_close(wire);
}

static bool has_left(void *ctx) {
  const struct wire *wire = ctx;
  return wire->n_left > 0;
}

/* The owner of an exchange hears of the closing server, and its request can still be read until it ends it. */
static void test_close_while_served(void **state) {
  (void)state;
  struct wire *wire = wire_open();
  int fd = wire_connect(wire);
  wire_say(fd, "POST /hold HTTP/1.1\r\n" HOST "X-Word: kept\r\nContent-Length: 5\r\n\r\nhello");
  assert_int_equal(wire_wait(wire, &wire->n_handled, 1), 1);
  wire_stop(wire);
  http_server_close(&wire->server);
  assert_int_equal(wire_wait(wire, &wire->n_left, 0), 0);
  assert_true(loop_run_until(wire->loop, has_left, wire, 1000000));
  size_t size;
  assert_memory_equal(http_body(wire->held, &size), "hello", 5);
  assert_int_equal(size, 5);
  assert_string_equal(http_header(wire->held, "x-word"), "kept");
  assert_string_equal(http_method(wire->held), "POST");
  assert_false(http_stream_send(wire->held, "x", 1));
  wire_answer_held(wire);
  assert_int_equal(wire_wait(wire, &wire->n_left, 0), 1);
  close(fd);
  wire_close(wire);
}

static void test_addresses(void **state) {
  (void)state;
  struct loop *loop;
  struct http_server *server = NULL, *second = NULL;
  struct error error = {0};
  assert_int_equal(loop_create(0, &loop), STATUS_OK);
  const char *const bad[] = {
      "", "localhost", ":80", "127.0.0.1:", "127.0.0.1:http", "127.0.0.1:99999999", "[]:1", "no.such.host.invalid:1"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    const struct http_server_config config = {.listen = bad[i]};
    error.text[0] = '\0';
    assert_int_equal(http_server_open(loop, &config, &server, &error), STATUS_INVALID);
    assert_int_not_equal(error.text[0], '\0');
    assert_null(server);
  }
  const struct http_server_config any = {.listen = "127.0.0.1:0"};
  assert_int_equal(http_server_open(loop, &any, &server, &error), STATUS_OK);
  char taken[32];
  snprintf(taken, sizeof taken, "127.0.0.1:%u", (unsigned)http_server_port(server));
  const struct http_server_config same = {.listen = taken};
  assert_int_equal(http_server_open(loop, &same, &second, &error), STATUS_IO);
  assert_non_null(strstr(error.text, taken));
  http_server_close(&server);
  const struct http_server_config six = {.listen = "[::1]:0"};
  if (http_server_open(loop, &six, &server, &error) == STATUS_OK) assert_true(http_server_port(server) > 0);
  http_server_close(&server);
  loop_destroy(&loop);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_requests),
      cmocka_unit_test(test_forged_field),
      cmocka_unit_test(test_continue),
      cmocka_unit_test(test_head),
      cmocka_unit_test(test_old_protocol),
      cmocka_unit_test(test_pipelined),
      cmocka_unit_test(test_leaving),
      cmocka_unit_test(test_leaving_stream),
      cmocka_unit_test(test_long_serving),
      cmocka_unit_test(test_read_ahead),
      cmocka_unit_test(test_backlog),
      cmocka_unit_test(test_drain),
      cmocka_unit_test(test_close_while_served),
      cmocka_unit_test(test_addresses),
  };
  return cmocka_run_group_tests_name("server", tests, NULL, NULL);
}
