/* Handles to tokens: equal runs share one, tenants never do, the least recently used go first, the bound holds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "daemon/materials.h"

static const int32_t tokens[64] = {1, 2, 3, 4, 5};

static uint64_t keep(struct materials *materials, uint32_t tenant, uint64_t name, uint32_t n) {
  uint64_t handle = 0;
  assert_int_equal(materials_keep(materials, tenant, map_key_of(name), tokens, n, &handle), STATUS_OK);
  assert_true(handle > 0);
  return handle;
}

static void equal_runs_share_a_handle(void **state) {
  (void)state;
  struct materials *materials = NULL;
  assert_int_equal(materials_create(1 << 20, &materials), STATUS_OK);
  uint64_t first = keep(materials, 0, 7, 10);
  assert_int_equal(keep(materials, 0, 7, 10), first);
  assert_int_not_equal(keep(materials, 1, 7, 10), first);
  assert_int_not_equal(keep(materials, 0, 7, 11), first);
  uint32_t tenant, n;
  const int32_t *found;
  assert_int_equal(materials_find(materials, first, &tenant, &found, &n), STATUS_OK);
  assert_int_equal(n, 10);
  assert_int_equal(tenant, 0);
  assert_memory_equal(found, tokens, 10 * sizeof *found);
  assert_int_equal(materials_find(materials, 12345, &tenant, &found, &n), STATUS_NOT_FOUND);
  assert_int_equal(materials_find(materials, 0, &tenant, &found, &n), STATUS_NOT_FOUND);
  materials_destroy(&materials);
}

static void the_least_recently_used_goes_first(void **state) {
  (void)state;
  struct materials *materials = NULL;
  assert_int_equal(materials_create(4096, &materials), STATUS_OK);
  uint64_t kept = keep(materials, 0, 1, 64), lost = keep(materials, 0, 2, 64), handle = 0;
  uint32_t tenant, n;
  const int32_t *found;
  for (uint64_t name = 3; name < 100; name++) {
    assert_int_equal(materials_find(materials, kept, &tenant, &found, &n), STATUS_OK);
    (void)keep(materials, 0, name, 64);
    assert_true(materials_bytes(materials) <= 4096);
  }
  assert_int_equal(materials_find(materials, lost, &tenant, &found, &n), STATUS_NOT_FOUND);
  static const int32_t huge[2000];
  assert_int_equal(materials_keep(materials, 0, map_key_of(1000), huge, 2000, &handle), STATUS_TOO_LONG);
  assert_int_equal(materials_find(materials, kept, &tenant, &found, &n), STATUS_OK);
  materials_destroy(&materials);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(equal_runs_share_a_handle),
      cmocka_unit_test(the_least_recently_used_goes_first),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
