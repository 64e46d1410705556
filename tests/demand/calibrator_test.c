/* What forecasts are corrected and weighed with: calibrators, mixtures, labels that ripen, curves of waiting. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include "base/number.h"
#include "base/rng.h"
#include "demand/labels.h"
#include "demand/mixture.h"
#include "demand/waiting.h"

static void a_skewed_voice_is_set_right(void **state) {
  (void)state;
  struct calibrator calibrator;
  struct rng rng;
  calibrator_init(&calibrator);
  rng_init(&rng, 1);
  assert_float_equal(calibrator_apply(&calibrator, .3), .3, 1e-9);
  /* Says p, means p². */
  for (uint32_t i = 0; i < 60000; i++) {
    double p = rng_uniform(&rng);
    calibrator_learn(&calibrator, p, rng_uniform(&rng) < p * p);
    assert_true(calibrator_is_valid(&calibrator));
  }
  double before = 0;
  for (double p = .05; p < 1; p += .05) {
    double q = calibrator_apply(&calibrator, p);
    assert_float_equal(q, p * p, .05);
    assert_true(q >= before);
    before = q;
  }
  assert_true(calibrator_apply(&calibrator, 0) <= 0);
  assert_true(number_is_finite(calibrator_apply(&calibrator, NAN)));
  calibrator_learn(&calibrator, NAN, true);
  calibrator_learn(&calibrator, INFINITY, true);
  assert_true(calibrator_is_valid(&calibrator));
}

static void who_knows_more_weighs_more(void **state) {
  (void)state;
  struct mixture mixture;
  struct rng rng;
  mixture_init(&mixture, 3);
  rng_init(&rng, 2);
  double weight[FORECASTERS_MAX];
  struct voices silent = {{-1, -1, -1, -1, -1, -1, -1, -1}};
  assert_true(mixture_apply(&mixture, &silent, weight) <= 0);
  double asleep = mixture.weight[1];
  for (uint32_t i = 0; i < 2000; i++) {
    bool comes = rng_below(&rng, 2) == 0;
    /* The third knows, the first guesses, the second says nothing. */
    struct voices voices = silent;
    voices.p[0] = .5f;
    voices.p[2] = comes ? .9f : .1f;
    mixture_learn(&mixture, &voices, rng_below(&rng, 10) == 0 ? !comes : comes);
  }
  struct voices voices = silent;
  voices.p[0] = .5f;
  voices.p[2] = .9f;
  assert_float_equal(mixture_apply(&mixture, &voices, weight), .9, .05);
  assert_true(weight[2] > .9);
  assert_true(weight[1] <= 0);
  assert_float_equal(mixture.weight[1], asleep, 1e-9);
  assert_float_equal(mixture.weight[0] + mixture.weight[1] + mixture.weight[2], 1, 1e-9);
  /* Nobody is lost: when it turns around, so do the weights. */
  for (uint32_t i = 0; i < 3000; i++) {
    bool comes = rng_below(&rng, 2) == 0;
    voices.p[0] = comes ? .9f : .1f;
    voices.p[2] = .5f;
    mixture_learn(&mixture, &voices, comes);
  }
  mixture_apply(&mixture, &voices, weight);
  assert_true(weight[0] > .9);
}

static void labels_ripen_at_their_horizon_whatever_comes(void **state) {
  (void)state;
  struct labels *labels;
  assert_int_equal(labels_create(3, 10, 60, &labels), STATUS_OK);
  struct voices voices = {{0}};
  struct label label;
  uint64_t second = 1000000;
  labels_add(labels, 4, 100 * second, &voices, .5);
  labels_add(labels, 5, 110 * second, &voices, .5);
  labels_add(labels, 4, 120 * second, &voices, .5);
  labels_add(labels, 6, 120 * second, &voices, .5); /* no room */
  labels_asked(labels, 4);
  assert_false(labels_take_ripe(labels, 160 * second - 1, &label));
  assert_true(labels_take_ripe(labels, 160 * second, &label));
  assert_int_equal(label.node, 4);
  assert_true(label.has_come);
  labels_add(labels, 5, 165 * second, &voices, .5);
  assert_true(labels_take_ripe(labels, 171 * second, &label));
  assert_int_equal(label.node, 5);
  assert_false(label.has_come);
  /* A node that dies unasked teaches nothing; one that was asked before does. */
  labels_forget(labels, 4);
  labels_forget(labels, 5);
  assert_true(labels_take_ripe(labels, 300 * second, &label));
  assert_true(label.node == 4 && label.has_come);
  assert_true(labels_take_ripe(labels, 300 * second, &label));
  assert_int_equal(label.node, 0);
  assert_false(labels_take_ripe(labels, 9000 * second, &label));
  labels_destroy(&labels);
  assert_null(labels);
}

/* Waits are counted while some are still open, and the estimate is that of all of them. */
static void open_waits_do_not_skew_the_curve(void **state) {
  (void)state;
  static const uint16_t pools[] = {1, 2};
  struct waiting_room *room;
  assert_int_equal(waiting_room_create(5000, 10, 2, pools, &room), STATUS_OK);
  waiting_curve_init(waiting_room_curve(room, 1), .5, 10, 1, 4);
  struct rng rng;
  rng_init(&rng, 3);
  static double comes_s[4000];
  uint64_t second = 1000000;
  uint32_t begun = 0;
  /* One begins each second; half never come, the others after 200 s on average. */
  for (uint64_t now = 0; now < 4000; now++) {
    waiting_advance(room, now * second);
    for (uint32_t i = 0; i < begun; i++) {
      if (comes_s[i] > (double)now || comes_s[i] < 0) continue;
      waiting_came(room, i + 1);
      comes_s[i] = -1;
    }
    comes_s[begun] = rng_below(&rng, 2) ? -1 : (double)now - 200 * number_log(1 - rng_uniform(&rng));
    waiting_begin(room, ++begun, 0, 0, 0, now * second, true);
  }
  static const double horizon_s[] = {50, 200, 1000};
  double p[3];
  for (double idle_s = 0; idle_s < 500; idle_s += 100) {
    waiting_within(waiting_room_see(room, 0), waiting_room_see(room, 1), 8, idle_s, horizon_s, 3, p);
    for (uint32_t i = 0; i < 3; i++) {
      double before = .5 * (1 - number_exp(-idle_s / 200)),
             after = .5 * (1 - number_exp(-(idle_s + horizon_s[i]) / 200));
      assert_float_equal(p[i], (after - before) / (1 - before), .05);
    }
  }
  waiting_within(waiting_room_see(room, 0), waiting_room_see(room, 1), 8, 1e12, horizon_s, 3, p);
  assert_true(p[2] <= 0);
  waiting_room_destroy(&room);
}

static void the_oldest_wait_makes_room(void **state) {
  (void)state;
  static const uint16_t pools[] = {1};
  struct waiting_room *room;
  assert_int_equal(waiting_room_create(2, 10, 1, pools, &room), STATUS_OK);
  waiting_begin(room, 1, 5, 0, 7, 0, true);
  waiting_begin(room, 2, 6, 0, 0, 1, true);
  waiting_begin(room, 3, 7, 0, 0, 2, true);
  assert_null(waiting_named(room, 1));
  assert_null(waiting_at(room, 5));
  assert_non_null(waiting_at(room, 6));
  waiting_begin(room, 2, 8, 0, 0, 3, true);
  assert_null(waiting_at(room, 6));
  assert_int_equal(waiting_at(room, 8)->name, 2);
  waiting_forget(room, 8);
  assert_null(waiting_at(room, 8));
  assert_non_null(waiting_named(room, 2));
  waiting_begin(room, 9, 11, 0, 0, 3, true); /* no such node */
  assert_null(waiting_named(room, 9));
  waiting_came(room, 3);
  assert_null(waiting_named(room, 3));
  assert_int_equal(waiting_next(room, NULL)->name, 2);
  assert_null(waiting_next(room, waiting_next(room, NULL)));
  waiting_advance(room, UINT64_MAX / 4);
  assert_null(waiting_next(room, NULL));
  waiting_room_destroy(&room);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_skewed_voice_is_set_right),
      cmocka_unit_test(who_knows_more_weighs_more),
      cmocka_unit_test(labels_ripen_at_their_horizon_whatever_comes),
      cmocka_unit_test(open_waits_do_not_skew_the_curve),
      cmocka_unit_test(the_oldest_wait_makes_room),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
