/* Requests that two servers might read differently, or that are too large: refused, the connection closed, the handler
 * never called, and the next client served as if nothing had been. */
#include "net/wire.h"

#define HOST "Host: x\r\n"

struct fault {
  const char *name, *request, *answer; /* answer: begin of the status line behind the protocol */
  bool is_told_in_json;                /* false: some libevent refuses it itself, with a page of its own */
};

static const struct fault faults[] = {
    {"no host", "GET / HTTP/1.1\r\n\r\n", "400", true},
    {"two hosts", "GET / HTTP/1.1\r\n" HOST HOST "\r\n", "400", true},
    {"no host in 1.2", "GET / HTTP/1.2\r\n\r\n", "400", true},
    {"protocol 0.9", "GET / HTTP/0.9\r\n" HOST "\r\n", "400", true},
    {"protocol 1.-1", "GET / HTTP/1.-1\r\n" HOST "\r\n", "400", true},
    {"protocol 2.0", "GET / HTTP/2.0\r\n" HOST "\r\n", "400", false},
    {"equal lengths", "POST / HTTP/1.1\r\n" HOST "Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc", "400", true},
    {"other lengths", "POST / HTTP/1.1\r\n" HOST "Content-Length: 3\r\ncontent-length: 4\r\n\r\nabcd", "400", true},
    {"length +5", "POST / HTTP/1.1\r\n" HOST "Content-Length: +5\r\n\r\nabcde", "400", true},
    {"length behind a tab", "POST / HTTP/1.1\r\n" HOST "Content-Length:\t5\r\n\r\nabcde", "400", true},
    {"length -1", "POST / HTTP/1.1\r\n" HOST "Content-Length: -1\r\n\r\n", "400", false},
    {"length 0x5", "POST / HTTP/1.1\r\n" HOST "Content-Length: 0x5\r\n\r\nabcde", "400", false},
    {"length 5,5", "POST / HTTP/1.1\r\n" HOST "Content-Length: 5,5\r\n\r\nabcde", "400", false},
    {"length empty", "POST / HTTP/1.1\r\n" HOST "Content-Length: \r\n\r\n", "400", false},
    {"length folded", "POST / HTTP/1.1\r\n" HOST "Content-Length: 5\r\n 5\r\n\r\nabcde", "400", false},
    {"length and chunks", "POST / HTTP/1.1\r\n" HOST "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
     "400", false},
    {"chunks twice",
     "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400",
     false},
    {"coding unknown", "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: gzip\r\n\r\n", "400", true},
    {"coding listed", "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", "400", true},
    {"coding folded", "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n", "400", true},
    {"chunks in 1.0", "POST / HTTP/1.0\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400", true},
    {"chunk size no number", "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\nxyz\r\n", "413", false},
    {"HEAD with a body", "HEAD / HTTP/1.1\r\n" HOST "Content-Length: 30\r\n\r\nGET /b HTTP/1.1\r\n" HOST "\r\n", "400",
     true},
    {"name with a space", "GET / HTTP/1.1\r\n" HOST "X y: z\r\n\r\n", "400", true},
    {"space before the colon", "GET / HTTP/1.1\r\nHost : x\r\n\r\n", "400", true},
    {"name empty", "GET / HTTP/1.1\r\n" HOST ": z\r\n\r\n", "400", true},
    {"no colon", "GET / HTTP/1.1\r\n" HOST "nothing\r\n\r\n", "400", false},
    {"control in a value", "GET / HTTP/1.1\r\n" HOST "X-Y: a\001b\r\n\r\n", "400", true},
    {"bare return in a value", "GET / HTTP/1.1\r\n" HOST "X-Y: a\rX-Z: b\r\n\r\n", "400", false},
    {"space in the target", "GET /a b HTTP/1.1\r\n" HOST "\r\n", "400", true},
    {"control in the target", "GET /a\001 HTTP/1.1\r\n" HOST "\r\n", "400", true},
    {"NUL in the path", "GET /a%00b HTTP/1.1\r\n" HOST "\r\n", "400", true},
    {"line break in the path", "GET /a%0ab HTTP/1.1\r\n" HOST "\r\n", "400", true},
    {"target no path", "GET somewhere HTTP/1.1\r\n" HOST "\r\n", "400", true},
    {"no protocol", "GET /somewhere-without-it\r\n\r\n", "400", false},
    {"method unknown", "BREW / HTTP/1.1\r\n" HOST "\r\n", "501", false},
    {"method in small letters", "get / HTTP/1.1\r\n" HOST "\r\n", "501", false},
    {"method CONNECT", "CONNECT a:1 HTTP/1.1\r\n" HOST "\r\n", "501", false},
    {"expectation unknown", "POST / HTTP/1.1\r\n" HOST "Expect: cake\r\nContent-Length: 1\r\n\r\na", "417", false},
};

static void check_served(struct wire *wire) {
  int fd = wire_connect(wire);
  wire_say(fd, "GET /alive HTTP/1.1\r\n" HOST "\r\n");
  wire_expect(fd, "GET /alive q=- word=- body=0:");
  close(fd);
}

static void check_refused(const char *name, int fd, const char *answer, bool is_told_in_json) {
  bool is_closed;
  char *text = wire_hear(fd, NULL, &is_closed);
  const char *status = strchr(text, ' ');
  if (strncmp(text, "HTTP/", 5) != 0 || status == NULL || strncmp(status + 1, answer, 3) != 0)
    fail_msg("%s: expected %s, got:\n%s", name, answer, text);
  if (!is_closed) fail_msg("%s: the connection was left open", name);
  const char *body = strstr(text, "\r\n\r\n{\"error\":{\"message\":\"");
  bool is_json = body != NULL && strstr(text, "Content-Type: application/json\r\n") != NULL &&
                 strstr(body, "\",\"type\":\"invalid_request_error\",\"param\":null,\"code\":null}}\n") != NULL;
  if (is_told_in_json && !is_json) fail_msg("%s: told by the wrong side:\n%s", name, text);
  if (strstr(text, "\nHTTP/") != NULL) fail_msg("%s: more than one answer:\n%s", name, text);
  free(text);
  close(fd);
}

static void test_faults(void **state) {
  (void)state;
  struct wire *wire = wire_open();
  for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
    int fd = wire_connect(wire);
    wire_say(fd, faults[i].request);
    check_refused(faults[i].name, fd, faults[i].answer, faults[i].is_told_in_json);
    assert_int_equal(wire_wait(wire, &wire->n_handled, 0), 0);
  }
  check_served(wire);
  assert_int_equal(wire_wait(wire, &wire->n_handled, 1), 1);
  wire_stop(wire);
  wire_close(wire);
}

/* A head of about `size` bytes. */
static void say_large_head(int fd, size_t size) {
  char *head = malloc(size + 256);
  assert_non_null(head);
  int begin = snprintf(head, 256, "GET /large HTTP/1.1\r\n" HOST "X-Long: ");
  memset(head + begin, 'a', size);
  memcpy(head + begin + size, "\r\n\r\n", 4);
  wire_send(fd, head, (size_t)begin + size + 4);
  free(head);
}

static void test_large_heads(void **state) {
  (void)state;
  struct wire *wire = wire_open();
  int fd = wire_connect(wire);
  say_large_head(fd, 3900);
  wire_expect(fd, "GET /large");
  close(fd);
  fd = wire_connect(wire);
  say_large_head(fd, 5000);
  check_refused("head above the limit", fd, "431", true);
  fd = wire_connect(wire);
  say_large_head(fd, 20000);
  check_refused("head far above the limit", fd, "400", false);
  check_served(wire);
  assert_int_equal(wire_wait(wire, &wire->n_handled, 0), 2);
  wire_stop(wire);
  wire_close(wire);
}

static void say_large_body(int fd, const char *head, size_t size) {
  char *body = calloc(1, size);
  assert_non_null(body);
  wire_say(fd, head);
  wire_send(fd, body, size);
  free(body);
}

static void test_large_bodies(void **state) {
  (void)state;
  struct wire *wire = wire_open();
  int fd = wire_connect(wire);
  say_large_body(fd, "POST /most HTTP/1.1\r\n" HOST "Content-Length: 1048576\r\n\r\n", 1048576);
  wire_expect(fd, "POST /most q=- word=- body=1048576:");
  close(fd);
  fd = wire_connect(wire);
  say_large_body(fd, "POST / HTTP/1.1\r\n" HOST "Content-Length: 1048577\r\n\r\n", 1048577);
  check_refused("body above the limit", fd, "413", false);
  fd = wire_connect(wire);
  say_large_body(fd, "POST / HTTP/1.1\r\n" HOST "Content-Length: 8388608\r\n\r\n", 8388608);
  check_refused("body far above the limit", fd, "413", false);
  fd = wire_connect(wire);
  wire_say(fd, "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n200000\r\n");
  check_refused("chunk above the limit", fd, "413", false);
  fd = wire_connect(wire);
  wire_say(fd, "POST / HTTP/1.1\r\n" HOST "Content-Length: 99999999999999999999\r\n\r\n");
  bool is_closed;
  free(wire_hear(fd, NULL, &is_closed));
  assert_true(is_closed);
  close(fd);
  check_served(wire);
  assert_int_equal(wire_wait(wire, &wire->n_handled, 0), 2);
  wire_stop(wire);
  wire_close(wire);
}

static void test_half_bodies(void **state) {
  (void)state;
  struct wire *wire = wire_open();
  for (int i = 0; i < 3; i++) {
    int fd = wire_connect(wire);
    wire_say(fd, i == 0   ? "POST / HTTP/1.1\r\n" HOST "Content-Length: 50\r\n\r\nabc"
                 : i == 1 ? "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n5\r\nabc"
                          : "POST / HT");
    if (i != 1) shutdown(fd, SHUT_WR);
    if (i != 1) free(wire_hear(fd, NULL, NULL));
    close(fd);
  }
  check_served(wire);
  assert_int_equal(wire_wait(wire, &wire->n_handled, 0), 1);
  wire_stop(wire);
  wire_close(wire);
}

static void test_silent_clients(void **state) {
  (void)state;
  struct wire *wire = wire_open();
  const char *const begins[] = {"", "GET / HT", "GET / HTTP/1.1\r\n" HOST,
                                "POST / HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\nabc"};
  for (size_t i = 0; i < sizeof begins / sizeof *begins; i++) {
    int fd = wire_connect(wire);
    bool is_closed;
    wire_say(fd, begins[i]);
    free(wire_hear(fd, NULL, &is_closed));
    assert_true(is_closed);
    close(fd);
  }
  check_served(wire);
  assert_int_equal(wire_wait(wire, &wire->n_handled, 0), 1);
  wire_stop(wire);
  wire_close(wire);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_faults),      cmocka_unit_test(test_large_heads),    cmocka_unit_test(test_large_bodies),
      cmocka_unit_test(test_half_bodies), cmocka_unit_test(test_silent_clients),
  };
  return cmocka_run_group_tests_name("server faults", tests, NULL, NULL);
}
