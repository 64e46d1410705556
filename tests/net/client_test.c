/* The command line's client against the real server, nobody, and somebody who never answers; events as text. */
#include "net/wire.h"

#include "net/client.h"
#include "net/sse.h"

static void url_of(const struct wire *wire, const char *path, char url[128]) {
  snprintf(url, 128, "http://127.0.0.1:%u%s", (unsigned)wire->port, path);
}

static void test_calls(void **state) {
  (void)state;
  struct wire *wire = wire_open();
  const struct {
    const char *method, *body, *answer;
  } calls[] = {{"GET", NULL, "GET /a q=- word=- body=0:"},
               {"POST", "{\"x\":1}", "POST /a q=- word=- body=7:{\"x\":1}"},
               {"PUT", "{}", "PUT /a q=- word=- body=2:{}"},
               {"DELETE", NULL, "DELETE /a q=- word=- body=0:"}};
  char url[128];
  url_of(wire, "/a", url);
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
    struct buffer into;
    struct error error = {0};
    int status = 0;
    buffer_init(&into, 0);
    const struct http_call call = {.method = calls[i].method, .url = url, .body = calls[i].body, .bearer = "key"};
    assert_int_equal(http_client_call(&call, &status, &into, &error), STATUS_OK);
    assert_int_equal(status, 200);
    assert_string_equal((const char *)into.data, calls[i].answer);
    buffer_release(&into);
  }
  wire_stop(wire);
  wire_close(wire);
}

/* The key is said where there is one, and that bodies are JSON. */
static void test_headers(void **state) {
  (void)state;
  struct wire *wire = wire_open();
  const struct {
    const char *bearer, *body, *answer;
  } calls[] = {{"sk-1", "{}", "authorization=Bearer sk-1 content-type=application/json"},
               {NULL, "{}", "authorization=- content-type=application/json"},
               {"sk-2", NULL, "authorization=Bearer sk-2 content-type=application/json"}};
  char url[128];
  url_of(wire, "/headers", url);
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
    struct buffer into;
    struct error error = {0};
    int status = 0;
    buffer_init(&into, 0);
    const struct http_call call = {
        .method = calls[i].body != NULL ? "POST" : "GET", .url = url, .body = calls[i].body, .bearer = calls[i].bearer};
    assert_int_equal(http_client_call(&call, &status, &into, &error), STATUS_OK);
    assert_int_equal(status, 200);
    assert_string_equal((const char *)into.data, calls[i].answer);
    buffer_release(&into);
  }
  wire_stop(wire);
  wire_close(wire);
}

static enum status call_once(const char *url, uint32_t timeout_ms, size_t size_max, struct error *error) {
  struct buffer into;
  int status = -1;
  buffer_init(&into, size_max);
  const struct http_call call = {.method = "GET", .url = url, .timeout_ms = timeout_ms};
  enum status result = http_client_call(&call, &status, &into, error);
  if (result != STATUS_OK) assert_int_equal(status, -1);
  buffer_release(&into);
  return result;
}

static void test_failures(void **state) {
  (void)state;
  struct wire *wire = wire_open();
  struct error error = {0};
  char url[128];
  url_of(wire, "/hold", url);
  assert_int_equal(call_once(url, 150, 0, &error), STATUS_TIMEOUT);
  assert_non_null(strstr(error.text, url));
  assert_int_equal(wire_wait(wire, &wire->n_left, 1), 1);
  url_of(wire, "/a", url);
  assert_int_equal(call_once(url, 0, 10, &error), STATUS_TOO_LONG);
  wire_stop(wire);
  wire_close(wire);
  assert_int_equal(call_once(url, 0, 0, &error), STATUS_CLOSED);
  assert_non_null(strstr(error.text, "is `forelay serve` running?"));
  assert_int_equal(call_once("ftp://127.0.0.1/x", 0, 0, &error), STATUS_INVALID);
  assert_int_equal(call_once("file:///etc/hostname", 0, 0, &error), STATUS_INVALID);
}

static void test_events(void **state) {
  (void)state;
  struct buffer into;
  buffer_init(&into, 40);
  assert_int_equal(sse_data(&into, "{\"a\":1}", 7), STATUS_OK);
  assert_int_equal(sse_comment(&into, "ping"), STATUS_OK);
  assert_string_equal((const char *)into.data, "data: {\"a\":1}\n\n: ping\n\n");
  size_t size = into.size;
  assert_int_equal(sse_data(&into, "far too long for what is left", 29), STATUS_TOO_LONG);
  assert_int_equal(into.size, size);
  assert_string_equal((const char *)into.data, "data: {\"a\":1}\n\n: ping\n\n");
  buffer_clear(&into);
  assert_int_equal(sse_data(&into, "a\nb\r\nc\r\n", 7), STATUS_OK);
  assert_string_equal((const char *)into.data, "data: a\ndata: b\ndata: c\ndata: \n\n");
  buffer_release(&into);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_calls),
      cmocka_unit_test(test_headers),
      cmocka_unit_test(test_failures),
      cmocka_unit_test(test_events),
  };
  return cmocka_run_group_tests_name("client", tests, NULL, NULL);
}
