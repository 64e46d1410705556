/* Files and folders: whole or not at all, limits, locks between processes, errors that name the path. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "os/file.h"

enum { PATH_SIZE = 256 };

static char folder[] = "/tmp/forelay-file-XXXXXX";

static int make_folder(void **state) {
  (void)state;
  return mkdtemp(folder) != NULL ? 0 : -1;
}

static int remove_folder(void **state) {
  (void)state;
  char command[PATH_SIZE + 16];
  snprintf(command, sizeof command, "rm -rf '%s'", folder);
  return system(command);
}

static const char *inside(const char *name, char path[PATH_SIZE]) {
  snprintf(path, PATH_SIZE, "%s/%s", folder, name);
  return path;
}

static int files_inside(void) {
  int count = 0;
  DIR *opened = opendir(folder);
  assert_non_null(opened);
  for (const struct dirent *entry; (entry = readdir(opened)) != NULL;) count += entry->d_name[0] != '.';
  closedir(opened);
  return count;
}

static void test_round_trip(void **state) {
  (void)state;
  enum { SIZE = 200001 };
  char path[PATH_SIZE];
  struct buffer into;
  struct error error;
  struct stat found;
  char *data = malloc(SIZE);
  assert_non_null(data);
  for (int i = 0; i < SIZE; i++) data[i] = (char)(i * 31);
  inside("a", path);
  assert_int_equal(file_write(path, data, SIZE, &error), STATUS_OK);
  assert_int_equal(stat(path, &found), 0);
  assert_int_equal(found.st_mode & 07777, 0600);
  buffer_init(&into, 0);
  assert_int_equal(buffer_append_text(&into, "before"), STATUS_OK);
  assert_int_equal(file_read(path, SIZE, &into, &error), STATUS_OK);
  assert_int_equal(into.size, SIZE + 6);
  assert_memory_equal(into.data, "before", 6);
  assert_memory_equal(into.data + 6, data, SIZE);
  assert_int_equal(file_write(path, "", 0, &error), STATUS_OK);
  buffer_clear(&into);
  assert_int_equal(file_read(path, 0, &into, &error), STATUS_OK);
  assert_int_equal(into.size, 0);
  assert_int_equal(files_inside(), 1);
  buffer_release(&into);
  free(data);
}

/* What cannot be read leaves the buffer as it was and says which path it was. */
static void test_refused_reads(void **state) {
  (void)state;
  char path[PATH_SIZE];
  struct buffer into;
  struct error error = {0};
  buffer_init(&into, 100);
  assert_int_equal(buffer_append_text(&into, "kept"), STATUS_OK);
  assert_int_equal(file_read(inside("none", path), 10, &into, &error), STATUS_NOT_FOUND);
  assert_non_null(strstr(error.text, path));
  assert_int_equal(file_read(folder, 10, &into, &error), STATUS_INVALID);
  assert_int_equal(mkfifo(inside("pipe", path), 0600), 0);
  assert_int_equal(file_read(path, 10, &into, &error), STATUS_INVALID); /* and does not wait for a writer */
  inside("b", path);
  assert_int_equal(file_write(path, "0123456789", 10, &error), STATUS_OK);
  assert_int_equal(file_read(path, 9, &into, &error), STATUS_TOO_LONG);
  assert_non_null(strstr(error.text, path));
  assert_string_equal((const char *)into.data, "kept");
  assert_int_equal(into.size, 4);
  buffer_release(&into);
  buffer_init(&into, 5);
  assert_int_equal(file_read(path, 10, &into, &error), STATUS_TOO_LONG);
  buffer_release(&into);
  buffer_init(&into, 10);
  assert_int_equal(file_read(path, 10, &into, &error), STATUS_OK);
  buffer_release(&into);
  /* So large that parts of it were in the buffer already. */
  enum { SIZE = 100000 };
  char *data = calloc(1, SIZE);
  assert_non_null(data);
  assert_int_equal(file_write(path, data, SIZE, &error), STATUS_OK);
  free(data);
  for (int is_buffer_small = 0; is_buffer_small < 2; is_buffer_small++) {
    buffer_init(&into, is_buffer_small ? SIZE : 0);
    assert_int_equal(buffer_append_text(&into, "kept"), STATUS_OK);
    assert_int_equal(file_read(path, is_buffer_small ? SIZE : SIZE - 1, &into, &error), STATUS_TOO_LONG);
    assert_int_equal(into.size, 4);
    assert_string_equal((const char *)into.data, "kept");
    buffer_release(&into);
  }
  unlink(inside("pipe", path));
}

/* A write that fails half-way leaves the old file and no temporary one. */
static void test_failed_write(void **state) {
  (void)state;
  enum { LIMIT = 4096 };
  char path[PATH_SIZE];
  struct buffer into;
  struct error error = {0};
  char *large = calloc(1, LIMIT * 4);
  assert_non_null(large);
  inside("c", path);
  assert_int_equal(file_write(path, "old", 3, &error), STATUS_OK);
  int files = files_inside();
  struct rlimit before, small;
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
  small = before;
  small.rlim_cur = LIMIT;
  signal(SIGXFSZ, SIG_IGN);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
  enum status status = file_write(path, large, LIMIT * 4, &error);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
  assert_int_equal(status, STATUS_IO);
  assert_non_null(strstr(error.text, path));
  assert_int_equal(files_inside(), files);
  buffer_init(&into, 0);
  assert_int_equal(file_read(path, 100, &into, &error), STATUS_OK);
  assert_string_equal((const char *)into.data, "old");
  buffer_release(&into);
  free(large);
  assert_int_equal(file_write(inside("no/such/folder", path), "x", 1, &error), STATUS_NOT_FOUND);
}

static void test_folders(void **state) {
  (void)state;
  char path[PATH_SIZE];
  struct error error = {0};
  struct stat found;
  inside("x/y//z", path);
  assert_int_equal(file_make_folder(path, &error), STATUS_OK);
  assert_int_equal(file_make_folder(path, &error), STATUS_OK);
  assert_int_equal(stat(path, &found), 0);
  assert_int_equal(found.st_mode & 07777, 0700);
  assert_int_equal(stat(inside("x", path), &found), 0);
  assert_int_equal(found.st_mode & 07777, 0700);
  assert_int_equal(chmod(path, 0755), 0);
  assert_int_equal(file_make_folder(path, &error), STATUS_OK);
  assert_int_equal(stat(path, &found), 0);
  assert_int_equal(found.st_mode & 07777, 0755);
  assert_int_equal(file_write(inside("x/file", path), "x", 1, &error), STATUS_OK);
  assert_int_equal(file_make_folder(path, &error), STATUS_INVALID);
  assert_int_not_equal(file_make_folder(inside("x/file/below", path), &error), STATUS_OK);
  assert_int_equal(file_make_folder("", &error), STATUS_INVALID);
}

/* What another process gets when it wants the lock. */
static enum status lock_elsewhere(const char *path) {
  pid_t child = fork();
  if (child == 0) {
    int fd;
    _exit((int)file_lock(path, &fd, NULL));
  }
  int code = 0;
  assert_int_equal(waitpid(child, &code, 0), child);
  assert_true(WIFEXITED(code));
  return (enum status)WEXITSTATUS(code);
}

static void test_lock(void **state) {
  (void)state;
  char path[PATH_SIZE];
  struct error error = {0};
  int fd, second;
  inside("lock", path);
  assert_int_equal(lock_elsewhere(path), STATUS_OK); /* ends with its process */
  assert_int_equal(file_lock(path, &fd, &error), STATUS_OK);
  assert_int_equal(lock_elsewhere(path), STATUS_BUSY);
  assert_int_equal(file_lock(path, &second, &error), STATUS_BUSY);
  assert_non_null(strstr(error.text, path));
  assert_non_null(strstr(error.text, "--data"));
  file_unlock(fd);
  assert_int_equal(lock_elsewhere(path), STATUS_OK);
}

static void test_free_bytes(void **state) {
  (void)state;
  uint64_t bytes = 0;
  assert_int_equal(file_free_bytes(folder, &bytes), STATUS_OK);
  assert_true(bytes > 0);
  assert_int_equal(file_free_bytes("/no/such/place", &bytes), STATUS_IO);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_round_trip), cmocka_unit_test(test_refused_reads), cmocka_unit_test(test_failed_write),
      cmocka_unit_test(test_folders),    cmocka_unit_test(test_lock),          cmocka_unit_test(test_free_bytes),
  };
  return cmocka_run_group_tests_name("file", tests, make_folder, remove_folder);
}
