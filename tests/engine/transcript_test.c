/* What of an answer may be shown, and when. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "engine/transcript.h"

struct reading {
  struct transcript transcript;
  struct buffer text;
  uint32_t stop;
};

static void open_reading(struct reading *reading, const char *const *stops, uint32_t n_stops) {
  assert_int_equal(transcript_init(&reading->transcript, stops, n_stops), STATUS_OK);
  buffer_init(&reading->text, 0);
  reading->stop = TRANSCRIPT_NO_STOP;
}

static void close_reading(struct reading *reading) {
  transcript_release(&reading->transcript);
  buffer_release(&reading->text);
}

static void feed(struct reading *reading, const char *piece) {
  assert_int_equal(transcript_feed(&reading->transcript, piece, strlen(piece), &reading->text, &reading->stop),
                   STATUS_OK);
}

static void assert_shown(const struct reading *reading, const char *text) {
  assert_int_equal(reading->text.size, strlen(text));
  if (reading->text.size > 0) {
    assert_memory_equal(reading->text.data, text, reading->text.size);
  }
}

static void test_stop_in_parts(void **state) {
  const char *stops[] = {"\nUser:", "END"};
  struct reading reading;

  (void)state;
  open_reading(&reading, stops, 2);
  feed(&reading, "Hello\n");
  assert_shown(&reading, "Hello");
  feed(&reading, "Us");
  assert_shown(&reading, "Hello");
  feed(&reading, "ual E");
  assert_shown(&reading, "Hello\nUsual ");
  assert_int_equal(reading.stop, TRANSCRIPT_NO_STOP);
  feed(&reading, "ND of");
  assert_int_equal(reading.stop, 1);
  assert_shown(&reading, "Hello\nUsual ");
  close_reading(&reading);
}

static void test_first_stop_wins(void **state) {
  const char *stops[] = {"cd", "bc"};
  struct reading reading;

  (void)state;
  open_reading(&reading, stops, 2);
  feed(&reading, "abcd");
  assert_int_equal(reading.stop, 1);
  assert_shown(&reading, "a");
  close_reading(&reading);
}

static void test_held_text_is_released_at_the_end(void **state) {
  const char *stops[] = {"<|im_end|>"};
  struct reading reading;

  (void)state;
  open_reading(&reading, stops, 1);
  feed(&reading, "a<|im_");
  assert_shown(&reading, "a");
  assert_int_equal(transcript_finish(&reading.transcript, &reading.text), STATUS_OK);
  assert_shown(&reading, "a<|im_");
  close_reading(&reading);
}

static void test_characters_are_whole(void **state) {
  struct reading reading;

  (void)state;
  open_reading(&reading, NULL, 0);
  feed(&reading, "\xF0\x9F");
  assert_shown(&reading, "");
  feed(&reading, "\x98\x80!");
  assert_shown(&reading, "\xF0\x9F\x98\x80!");
  feed(&reading, "\xE2\x82"
                 "x\xFF");
  assert_shown(&reading, "\xF0\x9F\x98\x80!\xEF\xBF\xBDx\xEF\xBF\xBD");
  feed(&reading, "\xC3");
  assert_int_equal(transcript_finish(&reading.transcript, &reading.text), STATUS_OK);
  assert_shown(&reading, "\xF0\x9F\x98\x80!\xEF\xBF\xBDx\xEF\xBF\xBD\xEF\xBF\xBD");
  close_reading(&reading);
}

static void test_surrogates_and_overlong_forms_are_broken(void **state) {
  struct reading reading;

  (void)state;
  open_reading(&reading, NULL, 0);
  feed(&reading, "\xED\xA0\x80");
  assert_shown(&reading, "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
  buffer_clear(&reading.text);
  feed(&reading, "\xC0\xAF");
  assert_shown(&reading, "\xEF\xBF\xBD\xEF\xBF\xBD");
  close_reading(&reading);
}

static void test_limits(void **state) {
  struct transcript transcript;
  char text[TRANSCRIPT_STOP_SIZE_MAX + 2];
  const char *stops[TRANSCRIPT_STOPS_MAX + 1];

  (void)state;
  memset(text, 'x', sizeof(text));
  text[sizeof(text) - 1] = 0;
  for (size_t i = 0; i < TRANSCRIPT_STOPS_MAX + 1; i++) {
    stops[i] = "x";
  }
  assert_int_equal(transcript_init(&transcript, stops, TRANSCRIPT_STOPS_MAX + 1), STATUS_INVALID);
  stops[0] = text;
  assert_int_equal(transcript_init(&transcript, stops, 1), STATUS_INVALID);
  stops[0] = "";
  assert_int_equal(transcript_init(&transcript, stops, 1), STATUS_INVALID);
  stops[0] = text + 1;
  assert_int_equal(transcript_init(&transcript, stops, 1), STATUS_OK);
  transcript_release(&transcript);
}

/* However a text is cut into pieces, what is shown is the same: all before the first stop text. */
static void test_any_cut_shows_the_same(void **state) {
  const char *stops[] = {"aba", "bb"};
  struct rng rng;

  (void)state;
  rng_init(&rng, 7);
  for (int round = 0; round < 2000; round++) {
    char text[24] = {0}, whole[24] = {0};
    const char *first, *second, *end;
    struct reading reading;
    size_t at = 0;

    for (size_t i = 0; i + 1 < sizeof(text); i++) {
      text[i] = (char)('a' + rng_below(&rng, 3));
    }
    first = strstr(text, stops[0]);
    second = strstr(text, stops[1]);
    open_reading(&reading, stops, 2);
    while (at < strlen(text) && reading.stop == TRANSCRIPT_NO_STOP) {
      char piece[4] = {0};

      memcpy(piece, text + at, at + 3 < sizeof(text) ? 1 + rng_below(&rng, 3) : 1);
      at += strlen(piece);
      feed(&reading, piece);
    }
    if (reading.stop == TRANSCRIPT_NO_STOP) {
      assert_int_equal(transcript_finish(&reading.transcript, &reading.text), STATUS_OK);
    }
    /* The stop text that is complete first ends the answer; of two in one piece, the one that begins first. */
    end = first == NULL ? second : second == NULL ? first : first < second ? first : second;
    memcpy(whole, text, end != NULL ? (size_t)(end - text) : strlen(text));
    if (end == NULL || first == NULL || second == NULL) {
      assert_shown(&reading, whole);
    } else {
      assert_true(reading.stop != TRANSCRIPT_NO_STOP);
      assert_true(reading.text.size == 0 || memmem(reading.text.data, reading.text.size, "bb", 2) == NULL);
      assert_true(reading.text.size == 0 || memmem(reading.text.data, reading.text.size, "aba", 3) == NULL);
    }
    close_reading(&reading);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_stop_in_parts),
      cmocka_unit_test(test_first_stop_wins),
      cmocka_unit_test(test_held_text_is_released_at_the_end),
      cmocka_unit_test(test_characters_are_whole),
      cmocka_unit_test(test_surrogates_and_overlong_forms_are_broken),
      cmocka_unit_test(test_limits),
      cmocka_unit_test(test_any_cut_shows_the_same),
  };

  return cmocka_run_group_tests(tests, NULL, NULL);
}
