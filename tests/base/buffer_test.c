/* Buffers and the words of errors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"

static void test_growth(void **state) {
  (void)state;
  struct buffer buffer;
  buffer_init(&buffer, 0);
  assert_null(buffer.data);
  for (int i = 0; i < 10000; i++) {
    uint8_t byte = (uint8_t)(i * 7);
    assert_int_equal(buffer_append(&buffer, &byte, 1), STATUS_OK);
    assert_int_equal(buffer.data[buffer.size], 0);
    assert_true(buffer.size <= buffer.capacity);
  }
  for (int i = 0; i < 10000; i++) assert_int_equal(buffer.data[i], (uint8_t)(i * 7));
  size_t capacity = buffer.capacity;
  buffer_clear(&buffer);
  assert_int_equal(buffer.size, 0);
  assert_int_equal(buffer.capacity, capacity);
  assert_string_equal((const char *)buffer.data, "");
  buffer_release(&buffer);
  assert_null(buffer.data);
}

static void test_limit(void **state) {
  (void)state;
  struct buffer buffer;
  buffer_init(&buffer, 10);
  assert_int_equal(buffer_append_text(&buffer, "0123456"), STATUS_OK);
  assert_int_equal(buffer_append_text(&buffer, "7890"), STATUS_TOO_LONG);
  assert_int_equal(buffer_append_format(&buffer, "%s", "7890"), STATUS_TOO_LONG);
  assert_int_equal(buffer_reserve(&buffer, SIZE_MAX), STATUS_TOO_LONG);
  assert_string_equal((const char *)buffer.data, "0123456");
  assert_int_equal(buffer_append_format(&buffer, "%d%c", 78, '9'), STATUS_OK);
  assert_string_equal((const char *)buffer.data, "0123456789");
  assert_int_equal(buffer_append(&buffer, NULL, 0), STATUS_OK);
  assert_int_equal(buffer_append_text(&buffer, "x"), STATUS_TOO_LONG);
  buffer_release(&buffer);
  buffer_release(&buffer);
}

static void test_consume(void **state) {
  (void)state;
  struct buffer buffer;
  buffer_init(&buffer, 0);
  buffer_consume(&buffer, 5);
  assert_int_equal(buffer_append_text(&buffer, "hello world"), STATUS_OK);
  buffer_consume(&buffer, 0);
  buffer_consume(&buffer, 6);
  assert_string_equal((const char *)buffer.data, "world");
  buffer_consume(&buffer, 99);
  assert_int_equal(buffer.size, 0);
  assert_string_equal((const char *)buffer.data, "");
  buffer_release(&buffer);
}

static void test_status(void **state) {
  (void)state;
  for (int i = 0; i < STATUS_COUNT; i++) {
    const char *name = status_name((enum status)i);
    assert_non_null(name);
    assert_string_not_equal(name, "unknown");
    for (int j = 0; j < i; j++) assert_string_not_equal(name, status_name((enum status)j));
  }
  assert_string_equal(status_name(STATUS_COUNT), "unknown");
  assert_string_equal(status_name((enum status)999), "unknown");
  struct error error = {"before"};
  assert_int_equal(error_set(&error, STATUS_FULL, "%s holds %d", "queue", 3), STATUS_FULL);
  assert_string_equal(error.text, "queue holds 3");
  assert_int_equal(error_set(NULL, STATUS_BUSY, "%d", 1), STATUS_BUSY);
  char long_text[1000];
  memset(long_text, 'a', sizeof long_text - 1);
  long_text[sizeof long_text - 1] = '\0';
  (void)error_set(&error, STATUS_FULL, "%s", long_text);
  assert_int_equal(strlen(error.text), sizeof error.text - 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_growth),
      cmocka_unit_test(test_limit),
      cmocka_unit_test(test_consume),
      cmocka_unit_test(test_status),
  };
  return cmocka_run_group_tests_name("buffer", tests, NULL, NULL);
}
