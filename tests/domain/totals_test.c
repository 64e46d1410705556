/* The table of totals covers the structure exactly; sums, prices and fingerprints. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "domain/fingerprint.h"
#include "domain/price.h"
#include "domain/totals.h"

/* Every double of the structure has one row, in order: a new field without a row fails here. */
static void test_table(void **state) {
  (void)state;
  size_t n;
  const struct totals_field *fields = totals_fields(&n);
  assert_int_equal(n * sizeof(double), sizeof(struct totals));
  for (size_t i = 0; i < n; i++) {
    assert_int_equal(fields[i].offset, i * sizeof(double));
    assert_true(strlen(fields[i].name) > 0 && strlen(fields[i].help) > 0);
    assert_null(strchr(fields[i].help, '\n'));
    for (size_t j = 0; j < i; j++) assert_string_not_equal(fields[i].name, fields[j].name);
  }
}

static void test_sum(void **state) {
  (void)state;
  size_t n;
  (void)totals_fields(&n);
  struct totals into, from;
  double into_values[64], from_values[64];
  for (size_t i = 0; i < n; i++) {
    into_values[i] = (double)i;
    from_values[i] = 100.0 * (double)i + 0.5;
  }
  memcpy(&into, into_values, sizeof into);
  memcpy(&from, from_values, sizeof from);
  totals_add(&into, &from);
  memcpy(into_values, &into, sizeof into);
  for (size_t i = 0; i < n; i++) assert_true(into_values[i] == 101.0 * (double)i + 0.5);
  assert_true(memcmp(&from, from_values, sizeof from) == 0);
  assert_string_equal(layer_name(LAYER_RETENTION), "retention");
  assert_string_equal(layer_name(LAYER_PREPARATION), "preparation");
  assert_string_equal(layer_name(LAYER_COUNT), "unknown");
}

static void test_prices(void **state) {
  (void)state;
  struct price price;
  for (int profile = PRICE_OWNED; profile <= PRICE_PER_SECOND; profile++) {
    price_init(&price, (enum price_profile)profile);
    assert_true(price.is_default);
    assert_int_equal(price.profile, profile);
    assert_true(price.wait_usd_per_s > 0 && price.compute_usd_per_s > 0);
  }
  /* 100 W at 0.36 USD a kWh: 36 mUSD an hour, 10 µUSD a second. */
  price.watts = 100;
  price.energy_usd_per_kwh = 0.36;
  price.compute_usd_per_s = 0.002;
  price.profile = PRICE_OWNED;
  assert_true(price_of_speculative_second(&price) > 0.99e-5 && price_of_speculative_second(&price) < 1.01e-5);
  price.profile = PRICE_HOURLY;
  assert_true(price_of_speculative_second(&price) == 0);
  price.profile = PRICE_PER_SECOND;
  assert_true(price_of_speculative_second(&price) == 0.002);
}

/* Each byte of either digest counts. */
static void test_fingerprints(void **state) {
  (void)state;
  struct fingerprint a, b;
  memset(&a, 0x5a, sizeof a);
  b = a;
  assert_true(fingerprint_is_compatible(&a, &b) && fingerprint_is_exact(&a, &b));
  for (size_t i = 0; i < sizeof a.compat; i++) {
    b = a;
    b.compat[i] ^= 1;
    assert_false(fingerprint_is_compatible(&a, &b));
    assert_false(fingerprint_is_exact(&a, &b));
    b = a;
    b.exact[i] ^= 0x80;
    assert_true(fingerprint_is_compatible(&a, &b));
    assert_false(fingerprint_is_exact(&a, &b));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_table),
      cmocka_unit_test(test_sum),
      cmocka_unit_test(test_prices),
      cmocka_unit_test(test_fingerprints),
  };
  return cmocka_run_group_tests_name("totals", tests, NULL, NULL);
}
