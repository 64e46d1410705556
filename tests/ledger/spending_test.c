#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/rng.h"
#include "ledger/spending.h"

static void nothing_beyond_the_account_is_committed(void **state) {
  (void)state;
  struct spending spending;
  spending_init(&spending, 2, 20);
  assert_true(spending_commit(&spending, 1.5));
  assert_false(spending_commit(&spending, .6));
  spending_settle(&spending, 1.5, -1.5);
  assert_float_equal(spending.balance, .5, 1e-12);
  spending_earn(&spending, 100);
  assert_float_equal(spending.balance, 20, 1e-12);
  double zero = 0;
  assert_false(spending_commit(&spending, 0 / zero));
  assert_false(spending_commit(&spending, 1 / zero));
  assert_false(spending_commit(&spending, -1));
  spending_earn(&spending, 0 / zero);
  assert_float_equal(spending.balance, 20, 1e-12);
}

/* Outcomes chosen against the account: whatever is committed is lost as soon as that hurts most. */
static void losses_stay_below_grant_and_earnings(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= 200; seed++) {
    struct rng rng;
    rng_init(&rng, seed);
    double grant = rng_uniform(&rng) * 5, open[32], net = 0, earned = 0;
    int n_open = 0;
    struct spending spending;
    spending_init(&spending, grant, grant * 10);
    for (int step = 0; step < 3000; step++) {
      double draw = rng_uniform(&rng);
      if (draw < .3) {
        double amount = rng_uniform(&rng) * .05;
        spending_earn(&spending, amount);
        earned += amount;
      } else if (draw < .7 && n_open < 32) {
        /* As large a bet as it allows, now and then one that it must refuse. */
        double amount = spending.balance * (rng_uniform(&rng) * 1.2);
        if (spending_commit(&spending, amount)) {
          open[n_open++] = amount;
        } else {
          assert_true(amount > spending.balance);
        }
      } else if (n_open > 0) {
        double amount = open[--n_open];
        double result = rng_uniform(&rng) < .9 ? -amount : (rng_uniform(&rng) - .5) * 2 * amount;
        spending_settle(&spending, amount, result);
        net += result;
      }
      assert_true(spending.balance >= 0);
      assert_true(-net <= grant + earned + 1e-9);
    }
    assert_float_equal(spending.overrun, 0, 0);
  }
}

static void a_loss_beyond_its_booking_is_cut_and_counted(void **state) {
  (void)state;
  struct spending spending;
  spending_init(&spending, 4, 40);
  assert_true(spending_commit(&spending, 1));
  spending_settle(&spending, 1, -3);
  assert_float_equal(spending.balance, 3, 1e-12);
  assert_float_equal(spending.overrun, 2, 1e-12);
  spending_restore(&spending, -3);
  assert_float_equal(spending.balance, 0, 0);
  spending_restore(&spending, 1e30);
  assert_float_equal(spending.balance, 40, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(nothing_beyond_the_account_is_committed),
      cmocka_unit_test(losses_stay_below_grant_and_earnings),
      cmocka_unit_test(a_loss_beyond_its_booking_is_cut_and_counted),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
