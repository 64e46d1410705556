/* The file of API keys: who is who, what is refused, what a refusal says. */
#include "gateway/tenants.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char path[] = "/tmp/forelay-tenants-XXXXXX";

static int file_make(void **state) {
  (void)state;
  int fd = mkstemp(path);
  if (fd < 0) return -1;
  return close(fd);
}

static int file_remove(void **state) {
  (void)state;
  return unlink(path);
}

static enum status open_text(const char *text, mode_t mode, struct tenants **ret_tenants, struct error *error) {
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
  assert_int_equal(fclose(file), 0);
  assert_int_equal(chmod(path, mode), 0);
  memset(error, 0, sizeof *error);
  return tenants_open(path, ret_tenants, error);
}

static void names_tenants_by_their_keys(void **state) {
  (void)state;
  struct tenants *tenants = NULL;
  struct error error;
  assert_int_equal(open_text("# keys\n\nadmin:root-key\r\nacme:a1\nbeta:b:1\nacme:a2\n", 0600, &tenants, &error),
                   STATUS_OK);
  assert_true(tenants_has_keys(tenants));
  assert_int_equal(tenants_count(tenants), 3);
  static const struct {
    const char *header, *name;
  } rows[] = {
      {"Bearer root-key", "admin"},
      {"bearer a1", "acme"},
      {"BEARER  a2 ", "acme"},
      {"Bearer b:1", "beta"},
      {"Bearer a", NULL},
      {"Bearer a11", NULL},
      {"a1", NULL},
      {"", NULL},
      {NULL, NULL},
      {"Basic a1", NULL},
      {"Bearer ", NULL},
      {"Bearer", NULL},
      {"Bearer b", NULL},
      {"Bearer ROOT-KEY", NULL},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    uint32_t tenant = 99;
    enum status status = tenants_find(tenants, rows[i].header, &tenant);
    if (rows[i].name == NULL) {
      assert_int_equal(status, STATUS_DENIED);
      assert_int_equal(tenant, 99);
    } else {
      assert_int_equal(status, STATUS_OK);
      assert_string_equal(tenants_name(tenants, tenant), rows[i].name);
      assert_int_equal(tenants_is_operator(tenants, tenant), strcmp(rows[i].name, "admin") == 0);
    }
  }
  tenants_close(&tenants);
  assert_null(tenants);
}

static void knows_one_operator_without_keys(void **state) {
  (void)state;
  struct tenants *tenants = NULL;
  struct error error = {0};
  uint32_t tenant = 99;
  assert_int_equal(tenants_open(NULL, &tenants, &error), STATUS_OK);
  assert_false(tenants_has_keys(tenants));
  assert_int_equal(tenants_count(tenants), 1);
  assert_string_equal(tenants_name(tenants, 0), "default");
  assert_true(tenants_is_operator(tenants, 0));
  assert_int_equal(tenants_find(tenants, "Bearer whatever", &tenant), STATUS_OK);
  assert_int_equal(tenant, 0);
  tenants_close(&tenants);
}

static void refuses_files_that_others_may_read(void **state) {
  (void)state;
  static const mode_t modes[] = {0640, 0604, 0644, 0660, 0666, 0610, 0601};
  for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
    struct tenants *tenants = NULL;
    struct error error;
    assert_int_equal(open_text("acme:a1\n", modes[i], &tenants, &error), STATUS_DENIED);
    assert_non_null(strstr(error.text, "chmod 600"));
    assert_null(tenants);
  }
  struct tenants *tenants = NULL;
  struct error error = {0};
  assert_int_equal(open_text("acme:a1\n", 0400, &tenants, &error), STATUS_OK);
  tenants_close(&tenants);
  assert_int_equal(tenants_open("/nonexistent/keys", &tenants, &error), STATUS_IO);
  assert_int_equal(tenants_open("/tmp", &tenants, &error), STATUS_INVALID);
}

static void says_which_line_is_wrong_and_never_its_key(void **state) {
  (void)state;
  static const struct {
    const char *text, *says;
  } rows[] = {
      {"", "no key"},
      {"# only a comment\n", "no key"},
      {"acme:a1\nsecretkey\n", "line 2: no colon"},
      {":secretkey\n", "line 1: a tenant's name"},
      {"a b:secretkey\n", "line 1: a tenant's name"},
      {"acme:\n", "line 1: a key"},
      {"acme:secretkey with blanks\n", "line 1: a key"},
      {"acme:secretkey\nbeta:secretkey\n", "line 2: this key already names another tenant"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct tenants *tenants = NULL;
    struct error error;
    assert_int_equal(open_text(rows[i].text, 0600, &tenants, &error), STATUS_INVALID);
    if (strstr(error.text, rows[i].says) == NULL) fail_msg("row %zu says: %s", i, error.text);
    assert_null(strstr(error.text, "secretkey"));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(names_tenants_by_their_keys),
      cmocka_unit_test(knows_one_operator_without_keys),
      cmocka_unit_test(refuses_files_that_others_may_read),
      cmocka_unit_test(says_which_line_is_wrong_and_never_its_key),
  };
  return cmocka_run_group_tests(tests, file_make, file_remove);
}
