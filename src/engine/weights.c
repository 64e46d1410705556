#include "engine/weights.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/evp.h>

enum { READ_BYTES = 1 << 20, PARTS_MAX = 9999, NOTE_BYTES_MAX = PATH_MAX + 256 };

/* How many parts the model has: 1 unless its name ends in "-00001-of-0000N.gguf" (then *ret_stem bytes precede that).
 */
static unsigned parts_count(const char *path, size_t *ret_stem) {
  static const char shape[] = "-00001-of-00001.gguf";
  size_t size = strlen(path), tail = sizeof shape - 1;
  if (size <= tail || strncmp(path + size - tail, shape, 10) != 0 || strcmp(path + size - 5, ".gguf") != 0) return 1;
  unsigned n = 0;
  for (const char *at = path + size - 10; at < path + size - 5; at++) {
    if (*at < '0' || *at > '9') return 1;
    n = n * 10 + (unsigned)(*at - '0');
  }
  *ret_stem = size - tail;
  return n >= 1 && n <= PARTS_MAX ? n : 1;
}

static bool part_path(const char *path, size_t stem, unsigned part, unsigned n_parts, char ret_path[PATH_MAX]) {
  int n = n_parts == 1 ? snprintf(ret_path, PATH_MAX, "%s", path)
                       : snprintf(ret_path, PATH_MAX, "%.*s-%05u-of-%05u.gguf", (int)stem, path, part + 1, n_parts);
  return n > 0 && n < PATH_MAX;
}

uint64_t weights_bytes(const char *path) {
  size_t stem = 0;
  unsigned n_parts = parts_count(path, &stem);
  uint64_t bytes = 0;
  for (unsigned i = 0; i < n_parts; i++) {
    char part[PATH_MAX];
    struct stat stat_of;
    if (part_path(path, stem, i, n_parts, part) && stat(part, &stat_of) == 0) bytes += (uint64_t)stat_of.st_size;
  }
  return bytes;
}

static enum status file_digest(const char *path, int fd, uint8_t ret_digest[32], struct error *error) {
  enum status status = STATUS_OK;
  uint8_t *bytes = malloc(READ_BYTES);
  EVP_MD_CTX *digest = EVP_MD_CTX_new();
  if (!bytes || !digest || !EVP_DigestInit_ex(digest, EVP_sha256(), NULL)) {
    status = error_set(error, STATUS_NO_MEMORY, "model %s: out of memory", path);
    goto out;
  }
  for (;;) {
    ssize_t n = read(fd, bytes, READ_BYTES);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      status = error_set(error, STATUS_IO, "model %s: %s", path, strerror(errno));
      goto out;
    }
    if (n == 0) break;
    EVP_DigestUpdate(digest, bytes, (size_t)n);
  }
  EVP_DigestFinal_ex(digest, ret_digest, NULL);
out:
  EVP_MD_CTX_free(digest);
  free(bytes);
  return status;
}

/* What must be the same for a note to be believed; its last line is the digest. */
static int note_head(const char *path, const struct stat *stat_of, char *ret_text, size_t size) {
  return snprintf(ret_text, size, "forelay weights 1\n%s\n%jd %jd.%09ld %jd.%09ld %ju %ju\n", path,
                  (intmax_t)stat_of->st_size, (intmax_t)stat_of->st_mtim.tv_sec, stat_of->st_mtim.tv_nsec,
                  (intmax_t)stat_of->st_ctim.tv_sec, stat_of->st_ctim.tv_nsec, (uintmax_t)stat_of->st_dev,
                  (uintmax_t)stat_of->st_ino);
}

static bool note_path(const char *cache_dir, const char *path, char ret_path[PATH_MAX]) {
  uint8_t digest[32];
  if (!EVP_Digest(path, strlen(path), digest, NULL, EVP_sha256(), NULL)) return false;
  int n = snprintf(ret_path, PATH_MAX, "%s/weights-", cache_dir);
  for (unsigned i = 0; i < 8 && n > 0 && n < PATH_MAX - 3; i++) n += snprintf(ret_path + n, 3, "%02x", digest[i]);
  return n > 0 && n < PATH_MAX - 16;
}

static bool digest_parse(const char *hex, uint8_t ret_digest[32]) {
  uint8_t digest[32];
  for (unsigned i = 0; i < 32; i++) {
    unsigned byte = 0;
    for (unsigned j = 0; j < 2; j++) {
      char c = hex[2 * i + j];
      if (c >= '0' && c <= '9')
        byte = byte * 16 + (unsigned)(c - '0');
      else if (c >= 'a' && c <= 'f')
        byte = byte * 16 + (unsigned)(c - 'a') + 10;
      else
        return false;
    }
    digest[i] = (uint8_t)byte;
  }
  if (strcmp(hex + 64, "\n") != 0) return false;
  memcpy(ret_digest, digest, sizeof digest);
  return true;
}

static bool note_read(const char *note, const char *head, uint8_t ret_digest[32]) {
  int fd = open(note, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return false;
  char text[NOTE_BYTES_MAX];
  ssize_t n = read(fd, text, sizeof text - 1);
  close(fd);
  if (n < 0) return false;
  text[n] = 0;
  size_t head_size = strlen(head);
  return (size_t)n > head_size && memcmp(text, head, head_size) == 0 && digest_parse(text + head_size, ret_digest);
}

static void note_write(const char *note, const char *head, const uint8_t digest[32]) {
  char temporary[PATH_MAX + 16], text[NOTE_BYTES_MAX];
  snprintf(temporary, sizeof temporary, "%s.%ld", note, (long)getpid());
  int n = snprintf(text, sizeof text, "%s", head);
  if (n < 0 || (size_t)n + 66 > sizeof text) return;
  for (unsigned i = 0; i < 32; i++) n += snprintf(text + n, 3, "%02x", digest[i]);
  text[n++] = '\n';
  int fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return;
  bool is_whole = write(fd, text, (size_t)n) == n;
  if (close(fd) != 0 || !is_whole || rename(temporary, note) != 0) unlink(temporary);
}

static enum status part_digest(const char *path, const char *cache_dir, uint8_t ret_digest[32], struct error *error) {
  char real[PATH_MAX], note[PATH_MAX], head[NOTE_BYTES_MAX];
  int fd = realpath(path, real) ? open(real, O_RDONLY | O_CLOEXEC) : -1;
  struct stat before, after;
  if (fd < 0 || fstat(fd, &before) != 0) {
    int code = errno;
    if (fd >= 0) close(fd);
    return error_set(error, STATUS_IO, "model %s: %s", path, strerror(code));
  }
  int n = note_head(real, &before, head, sizeof head);
  bool has_note = cache_dir && n > 0 && (size_t)n < sizeof head && note_path(cache_dir, real, note);
  enum status status = STATUS_OK;
  if (!has_note || !note_read(note, head, ret_digest)) {
    status = file_digest(path, fd, ret_digest, error);
    bool is_still = fstat(fd, &after) == 0 && after.st_size == before.st_size &&
                    after.st_mtim.tv_sec == before.st_mtim.tv_sec && after.st_mtim.tv_nsec == before.st_mtim.tv_nsec;
    if (status == STATUS_OK && has_note && is_still) note_write(note, head, ret_digest);
  }
  close(fd);
  return status;
}

enum status weights_digest(const char *path, const char *cache_dir, uint8_t ret_digest[32], struct error *error) {
  size_t stem = 0;
  unsigned n_parts = parts_count(path, &stem);
  if (n_parts == 1) return part_digest(path, cache_dir, ret_digest, error);
  uint8_t *digests = malloc((size_t)n_parts * 32);
  if (!digests) return error_set(error, STATUS_NO_MEMORY, "model %s: out of memory", path);
  enum status status = STATUS_OK;
  for (unsigned i = 0; i < n_parts && status == STATUS_OK; i++) {
    char part[PATH_MAX];
    status = part_path(path, stem, i, n_parts, part) ? part_digest(part, cache_dir, digests + 32 * i, error)
                                                     : error_set(error, STATUS_IO, "model %s: name too long", path);
  }
  if (status == STATUS_OK && !EVP_Digest(digests, (size_t)n_parts * 32, ret_digest, NULL, EVP_sha256(), NULL))
    status = error_set(error, STATUS_NO_MEMORY, "model %s: out of memory", path);
  free(digests);
  return status;
}
