#include "os/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { READ_BYTES = 16384 };

static enum status io_error(struct error *error, const char *path, const char *what) {
  enum status status = errno == ENOENT                     ? STATUS_NOT_FOUND
                       : errno == EACCES || errno == EPERM ? STATUS_DENIED
                                                           : STATUS_IO;
  return error_set(error, status, "%s: %s: %s", path, what, strerror(errno));
}

static enum status read_all(int fd, const char *path, size_t size_max, struct buffer *into, struct error *error) {
  size_t left = size_max;
  char piece[READ_BYTES];
  for (;;) {
    ssize_t n = read(fd, piece, sizeof piece);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return io_error(error, path, "reading");
    if (n == 0) return STATUS_OK;
    if ((size_t)n > left) return error_set(error, STATUS_TOO_LONG, "%s is larger than %zu bytes", path, size_max);
    left -= (size_t)n;
    enum status status = buffer_append(into, piece, (size_t)n);
    if (status != STATUS_OK) return error_set(error, status, "%s is too large", path);
  }
}

enum status file_read(const char *path, size_t size_max, struct buffer *into, struct error *error) {
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return io_error(error, path, "opening");
  struct stat status_of;
  enum status status;
  size_t begin = into->size;
  if (fstat(fd, &status_of) != 0)
    status = io_error(error, path, "reading");
  else if (!S_ISREG(status_of.st_mode))
    status = error_set(error, STATUS_INVALID, "%s is not a regular file", path);
  else
    status = read_all(fd, path, size_max, into, error);
  if (status != STATUS_OK) {
    into->size = begin;
    if (into->data != NULL) into->data[begin] = 0;
  }
  close(fd);
  return status;
}

static enum status write_all(int fd, const void *data, size_t size) {
  for (size_t done = 0; done < size;) {
    ssize_t n = write(fd, (const char *)data + done, size - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return STATUS_IO;
    done += (size_t)n;
  }
  return fdatasync(fd) == 0 ? STATUS_OK : STATUS_IO;
}

static void sync_folder_of(const char *path) {
  char folder[PATH_MAX];
  const char *slash = strrchr(path, '/');
  size_t length = slash == NULL ? 1 : slash == path ? 1 : (size_t)(slash - path);
  memcpy(folder, slash == NULL ? "." : path, length);
  folder[length] = '\0';
  int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  (void)!fsync(fd); /* some file systems refuse: the rename is then as durable as they make it */
  close(fd);
}

enum status file_write(const char *path, const void *data, size_t size, struct error *error) {
  char temporary[PATH_MAX];
  if (snprintf(temporary, sizeof temporary, "%s.tmp", path) >= (int)sizeof temporary)
    return error_set(error, STATUS_TOO_LONG, "the path %.64s… is too long", path);
  int fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return io_error(error, temporary, "creating");
  enum status status = write_all(fd, data, size);
  if (status != STATUS_OK) (void)io_error(error, temporary, "writing");
  if (close(fd) != 0 && status == STATUS_OK) status = io_error(error, temporary, "closing");
  if (status == STATUS_OK && rename(temporary, path) != 0) status = io_error(error, path, "renaming into place");
  if (status != STATUS_OK) {
    unlink(temporary);
    return status;
  }
  sync_folder_of(path);
  return STATUS_OK;
}

enum status file_make_folder(const char *path, struct error *error) {
  char part[PATH_MAX];
  size_t length = strlen(path);
  if (length == 0 || length >= sizeof part)
    return error_set(error, STATUS_INVALID, "'%.64s' is no path of a folder", path);
  memcpy(part, path, length + 1);
  for (size_t i = 1; i <= length; i++) {
    if (part[i] != '/' && part[i] != '\0') continue;
    char kept = part[i];
    part[i] = '\0';
    if (mkdir(part, 0700) != 0 && errno != EEXIST) return io_error(error, part, "making the folder");
    part[i] = kept;
  }
  struct stat status_of;
  if (stat(path, &status_of) != 0) return io_error(error, path, "looking at the folder");
  if (!S_ISDIR(status_of.st_mode)) return error_set(error, STATUS_INVALID, "%s is there but is no folder", path);
  return STATUS_OK;
}

enum status file_lock(const char *path, int *ret_fd, struct error *error) {
  int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return io_error(error, path, "opening the lock file");
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    enum status status =
        errno == EWOULDBLOCK
            ? error_set(error, STATUS_BUSY, "%s is held by another forelay: stop it or use another --data", path)
            : io_error(error, path, "locking");
    close(fd);
    return status;
  }
  *ret_fd = fd;
  return STATUS_OK;
}

void file_unlock(int fd) {
  close(fd);
}

enum status file_free_bytes(const char *path, uint64_t *ret_bytes) {
  struct statvfs status_of;
  if (statvfs(path, &status_of) != 0) return STATUS_IO;
  *ret_bytes = (uint64_t)status_of.f_bavail * status_of.f_frsize;
  return STATUS_OK;
}
