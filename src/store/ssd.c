/* Segments as files: `<32 hex digits of the key>.fkv` in one folder, written beside as `.tmp`, synced and renamed.
 * Direct I/O where the file system has it. The cap holds for the whole folder, what is half-written included; the bytes
 * of a day are remembered in `writes.fkw`, ahead of being written, so that a crash can only count too many. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/map.h"
#include "os/clock.h"
#include "os/file.h"
#include "store/tier.h"

enum {
  NAME_DIGITS = 32,
  CHUNK_BYTES = 4 << 20,            /* of one pread or pwrite */
  GRANT_BYTES = 64 << 20,           /* of the day's writes, remembered at a time */
  FOLDER_OVERHEAD_BYTES = 2 * 4096, /* writes.fkw and its successor */
  DEGRADED_US = 60 * 1000000,       /* how long a failing disk is left alone */
  FILES_MAX = 1 << 20               /* looked at in one scan */
};

struct tier_ticket {
  uint64_t cost;
  char temporary[NAME_DIGITS + 8]; /* name of the file, empty: none yet */
};

struct ssd {
  struct tier_store store;
  char folder[PATH_MAX];
  int folder_fd; /* −1: unusable */
  uint64_t limit_bytes, writes_limit_bytes;
  pthread_mutex_t mutex; /* guards all below */
  struct map *objects;   /* key → bytes */
  uint64_t used_bytes, reserved_bytes;
  uint64_t day, written_bytes, granted_bytes; /* UTC day number; written today; what writes.fkw says */
  uint64_t next_temporary;
  uint64_t degraded_until_us; /* monotonic */
  char condition[160];
};

static void file_name(block_key key, char name[NAME_DIGITS + 8]) {
  snprintf(name, NAME_DIGITS + 8, "%016llx%016llx.fkv", (unsigned long long)key.hi, (unsigned long long)key.lo);
}

static uint64_t ssd_cost(const struct tier_store *store, uint64_t payload_bytes) {
  (void)store;
  return ENVELOPE_SIZE + envelope_padded(payload_bytes);
}

/* Called with the mutex held. */
static void degrade(struct ssd *ssd, const char *what, int code) {
  ssd->degraded_until_us = clock_monotonic_us() + DEGRADED_US;
  snprintf(ssd->condition, sizeof ssd->condition, "%.80s: %s: %.40s", ssd->folder, what, strerror(code));
}

/* ── the day's writes ── called with the mutex held. */

static uint64_t today(void) {
  return clock_unix_us() / 86400000000u;
}

static void load_writes(struct ssd *ssd) {
  char path[PATH_MAX];
  struct buffer text;
  buffer_init(&text, 256);
  unsigned long long day = 0, bytes = 0;
  if (snprintf(path, sizeof path, "%s/writes.fkw", ssd->folder) < (int)sizeof path &&
      file_read(path, 200, &text, NULL) == STATUS_OK && text.data != NULL &&
      sscanf((const char *)text.data, "%llu %llu", &day, &bytes) == 2 && day == today())
    ssd->written_bytes = ssd->granted_bytes = bytes;
  ssd->day = today();
  buffer_release(&text);
}

static enum status count_writes(struct ssd *ssd, uint64_t bytes) {
  if (ssd->day != today()) {
    ssd->day = today();
    ssd->written_bytes = ssd->granted_bytes = 0;
  }
  if (ssd->written_bytes + bytes > ssd->writes_limit_bytes) return STATUS_FULL;
  if (ssd->written_bytes + bytes > ssd->granted_bytes) {
    uint64_t granted = ssd->written_bytes + bytes + GRANT_BYTES;
    if (granted > ssd->writes_limit_bytes) granted = ssd->writes_limit_bytes;
    char path[PATH_MAX], text[64];
    int size = snprintf(text, sizeof text, "%llu %llu\n", (unsigned long long)ssd->day, (unsigned long long)granted);
    if (snprintf(path, sizeof path, "%s/writes.fkw", ssd->folder) >= (int)sizeof path ||
        file_write(path, text, (size_t)size, NULL) != STATUS_OK) {
      degrade(ssd, "remembering the day's writes", errno);
      return STATUS_UNSUPPORTED;
    }
    ssd->granted_bytes = granted;
  }
  ssd->written_bytes += bytes;
  return STATUS_OK;
}

static enum status ssd_reserve(struct tier_store *store, uint64_t payload_bytes, struct tier_ticket **ret_ticket) {
  struct ssd *ssd = (struct ssd *)store;
  uint64_t cost = ssd_cost(store, payload_bytes);
  if (cost > ssd->limit_bytes) return STATUS_TOO_LONG;
  struct tier_ticket *ticket = calloc(1, sizeof *ticket);
  if (ticket == NULL) return STATUS_NO_MEMORY;
  pthread_mutex_lock(&ssd->mutex);
  enum status status = STATUS_OK;
  if (ssd->folder_fd < 0 || clock_monotonic_us() < ssd->degraded_until_us)
    status = STATUS_UNSUPPORTED;
  else if (ssd->used_bytes + cost > ssd->limit_bytes)
    status = STATUS_FULL;
  else
    status = count_writes(ssd, cost);
  if (status == STATUS_OK) {
    ticket->cost = cost;
    ssd->used_bytes += cost;
    ssd->reserved_bytes += cost;
  }
  pthread_mutex_unlock(&ssd->mutex);
  if (status == STATUS_OK)
    *ret_ticket = ticket;
  else
    free(ticket);
  return status;
}

/* ── bytes ── */

static bool write_at(int fd, const void *bytes, uint64_t size, uint64_t offset) {
  for (uint64_t done = 0; done < size;) {
    size_t part = size - done < CHUNK_BYTES ? (size_t)(size - done) : CHUNK_BYTES;
    ssize_t n = pwrite(fd, (const char *)bytes + done, part, (off_t)(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    done += (uint64_t)n;
  }
  return true;
}

static bool read_at(int fd, void *bytes, uint64_t size, uint64_t offset) {
  for (uint64_t done = 0; done < size;) {
    size_t part = size - done < CHUNK_BYTES ? (size_t)(size - done) : CHUNK_BYTES;
    ssize_t n = pread(fd, (char *)bytes + done, part, (off_t)(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    done += (uint64_t)n;
  }
  return true;
}

static int open_direct(int folder_fd, const char *name, int flags) {
  int fd = openat(folder_fd, name, flags | O_DIRECT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0 && errno == EINVAL) fd = openat(folder_fd, name, flags | O_CLOEXEC | O_NOFOLLOW, 0600);
  return fd;
}

static enum status ssd_write(struct tier_store *store, struct tier_ticket *ticket, const struct envelope *envelope,
                             const void *bytes) {
  struct ssd *ssd = (struct ssd *)store;
  uint8_t *head = NULL;
  if (posix_memalign((void **)&head, ENVELOPE_SIZE, ENVELOPE_SIZE) != 0) return STATUS_NO_MEMORY;
  uint64_t padded = envelope_padded(envelope->payload_bytes);
  struct envelope sealed = *envelope;
  envelope_checksum(bytes, padded, sealed.checksum);
  envelope_write(&sealed, head);
  pthread_mutex_lock(&ssd->mutex);
  snprintf(ticket->temporary, sizeof ticket->temporary, "%032llx.tmp", (unsigned long long)ssd->next_temporary++);
  pthread_mutex_unlock(&ssd->mutex);
  int fd = open_direct(ssd->folder_fd, ticket->temporary, O_WRONLY | O_CREAT | O_EXCL);
  bool is_written = fd >= 0 && write_at(fd, head, ENVELOPE_SIZE, 0) && write_at(fd, bytes, padded, ENVELOPE_SIZE) &&
                    fdatasync(fd) == 0;
  int code = errno;
  if (fd >= 0 && close(fd) != 0 && is_written) {
    is_written = false;
    code = errno;
  }
  free(head);
  if (is_written) return STATUS_OK;
  pthread_mutex_lock(&ssd->mutex);
  degrade(ssd, "writing", code);
  pthread_mutex_unlock(&ssd->mutex);
  return STATUS_IO;
}

static void ssd_abort(struct tier_store *store, struct tier_ticket *ticket) {
  struct ssd *ssd = (struct ssd *)store;
  if (ticket->temporary[0] != '\0') (void)!unlinkat(ssd->folder_fd, ticket->temporary, 0);
  pthread_mutex_lock(&ssd->mutex);
  ssd->used_bytes -= ticket->cost;
  ssd->reserved_bytes -= ticket->cost;
  pthread_mutex_unlock(&ssd->mutex);
  free(ticket);
}

static enum status ssd_commit(struct tier_store *store, struct tier_ticket *ticket, block_key key) {
  struct ssd *ssd = (struct ssd *)store;
  char name[NAME_DIGITS + 8];
  file_name(key, name);
  if (renameat(ssd->folder_fd, ticket->temporary, ssd->folder_fd, name) != 0) {
    pthread_mutex_lock(&ssd->mutex);
    degrade(ssd, "renaming", errno);
    pthread_mutex_unlock(&ssd->mutex);
    ssd_abort(store, ticket);
    return STATUS_IO;
  }
  (void)!fsync(ssd->folder_fd);
  pthread_mutex_lock(&ssd->mutex);
  uint64_t before = 0;
  (void)map_get(ssd->objects, key, &before);
  enum status status = map_set(ssd->objects, key, ticket->cost);
  ssd->reserved_bytes -= ticket->cost;
  ssd->used_bytes -= before;
  if (ssd->degraded_until_us == 0) ssd->condition[0] = '\0';
  pthread_mutex_unlock(&ssd->mutex);
  free(ticket);
  return status;
}

static bool is_expected(const struct envelope *found, const struct envelope *expected) {
  size_t n = expected->to - expected->from;
  return fingerprint_is_compatible(&found->fingerprint, &expected->fingerprint) &&
         memcmp(found->salt, expected->salt, sizeof found->salt) == 0 && block_key_equal(found->key, expected->key) &&
         block_key_equal(found->parent_key, expected->parent_key) && found->from == expected->from &&
         found->to == expected->to && found->payload_bytes == expected->payload_bytes &&
         memcmp(found->tokens, expected->tokens, n * sizeof *found->tokens) == 0;
}

static enum status read_checked(int fd, uint8_t *head, const struct envelope *expected, void *bytes) {
  struct stat file;
  struct envelope found;
  uint64_t padded = envelope_padded(expected->payload_bytes), checksum[2];
  if (fstat(fd, &file) != 0 || !S_ISREG(file.st_mode)) return STATUS_CORRUPT;
  if ((uint64_t)file.st_size < ENVELOPE_SIZE || !read_at(fd, head, ENVELOPE_SIZE, 0)) return STATUS_CORRUPT;
  enum status status = envelope_parse(head, ENVELOPE_SIZE, (uint64_t)file.st_size, &found);
  if (status != STATUS_OK) return status;
  if (!is_expected(&found, expected)) return STATUS_INCOMPATIBLE;
  if (!read_at(fd, bytes, padded, ENVELOPE_SIZE)) return STATUS_IO;
  envelope_checksum(bytes, padded, checksum);
  return checksum[0] == found.checksum[0] && checksum[1] == found.checksum[1] ? STATUS_OK : STATUS_CORRUPT;
}

static enum status ssd_read(struct tier_store *store, const struct envelope *expected, void *bytes) {
  struct ssd *ssd = (struct ssd *)store;
  char name[NAME_DIGITS + 8];
  file_name(expected->key, name);
  int fd = open_direct(ssd->folder_fd, name, O_RDONLY);
  if (fd < 0) return errno == ENOENT ? STATUS_NOT_FOUND : STATUS_IO;
  uint8_t *head = NULL;
  enum status status = STATUS_NO_MEMORY;
  if (posix_memalign((void **)&head, ENVELOPE_SIZE, ENVELOPE_SIZE) == 0)
    status = read_checked(fd, head, expected, bytes);
  free(head);
  close(fd);
  return status;
}

static const void *ssd_pin(struct tier_store *store, block_key key) {
  (void)store;
  (void)key;
  return NULL;
}

static void ssd_unpin(struct tier_store *store, block_key key) {
  (void)store;
  (void)key;
}

static void *ssd_memory(struct tier_ticket *ticket) {
  (void)ticket;
  return NULL;
}

static bool ssd_has(struct tier_store *store, block_key key) {
  struct ssd *ssd = (struct ssd *)store;
  pthread_mutex_lock(&ssd->mutex);
  bool has = map_get(ssd->objects, key, NULL);
  pthread_mutex_unlock(&ssd->mutex);
  return has;
}

static enum status ssd_drop(struct tier_store *store, block_key key) {
  struct ssd *ssd = (struct ssd *)store;
  char name[NAME_DIGITS + 8];
  file_name(key, name);
  pthread_mutex_lock(&ssd->mutex);
  uint64_t bytes = 0;
  bool was_there = map_remove(ssd->objects, key, &bytes);
  pthread_mutex_unlock(&ssd->mutex);
  if (!was_there) return STATUS_NOT_FOUND;
  bool is_gone = unlinkat(ssd->folder_fd, name, 0) == 0 || errno == ENOENT;
  pthread_mutex_lock(&ssd->mutex);
  if (is_gone)
    ssd->used_bytes -= bytes; /* else the bytes are still there and still count */
  else
    degrade(ssd, "removing", errno);
  pthread_mutex_unlock(&ssd->mutex);
  return STATUS_OK;
}

static void ssd_usage(struct tier_store *store, struct tier_usage *ret_usage) {
  struct ssd *ssd = (struct ssd *)store;
  pthread_mutex_lock(&ssd->mutex);
  *ret_usage = (struct tier_usage){.limit_bytes = ssd->limit_bytes,
                                   .used_bytes = ssd->used_bytes,
                                   .reserved_bytes = ssd->reserved_bytes,
                                   .written_today_bytes = ssd->day == today() ? ssd->written_bytes : 0,
                                   .objects = map_count(ssd->objects),
                                   .is_degraded = ssd->folder_fd < 0 || clock_monotonic_us() < ssd->degraded_until_us};
  memcpy(ret_usage->condition, ssd->condition, sizeof ssd->condition);
  pthread_mutex_unlock(&ssd->mutex);
}

static void ssd_close(struct tier_store *store) {
  struct ssd *ssd = (struct ssd *)store;
  if (ssd->folder_fd >= 0) {
    char path[PATH_MAX], text[64];
    int size = snprintf(text, sizeof text, "%llu %llu\n", (unsigned long long)ssd->day,
                        (unsigned long long)ssd->written_bytes);
    if (ssd->granted_bytes > 0 && snprintf(path, sizeof path, "%s/writes.fkw", ssd->folder) < (int)sizeof path)
      (void)!file_write(path, text, (size_t)size, NULL);
    close(ssd->folder_fd);
  }
  map_destroy(&ssd->objects);
  pthread_mutex_destroy(&ssd->mutex);
  free(ssd);
}

/* ── scanning ── */

static bool is_name(const char *name, const char *ending) {
  return strspn(name, "0123456789abcdef") == NAME_DIGITS && strcmp(name + NAME_DIGITS, ending) == 0;
}

static enum status read_head(struct ssd *ssd, const char *name, struct envelope *ret_envelope) {
  int fd = openat(ssd->folder_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return STATUS_CORRUPT;
  uint8_t head[ENVELOPE_SIZE];
  struct stat file;
  char own[NAME_DIGITS + 8];
  enum status status = STATUS_CORRUPT;
  if (fstat(fd, &file) == 0 && S_ISREG(file.st_mode) && file.st_size >= ENVELOPE_SIZE &&
      read_at(fd, head, sizeof head, 0))
    status = envelope_parse(head, sizeof head, (uint64_t)file.st_size, ret_envelope);
  close(fd);
  if (status != STATUS_OK) return status;
  file_name(ret_envelope->key, own);
  return strcmp(own, name) == 0 ? STATUS_OK : STATUS_CORRUPT;
}

static int by_depth(const void *a, const void *b) {
  const struct envelope *x = a, *y = b;
  if (x->from != y->from) return x->from < y->from ? -1 : 1;
  if (x->key.hi != y->key.hi) return x->key.hi < y->key.hi ? -1 : 1;
  return x->key.lo < y->key.lo ? -1 : x->key.lo > y->key.lo;
}

static void remove_file(struct ssd *ssd, const char *name, uint64_t *removed) {
  if (unlinkat(ssd->folder_fd, name, 0) == 0) (*removed)++;
}

/* Heads of all files that are whole; the others of our pattern are removed. */
static struct envelope *collect(struct ssd *ssd, size_t *ret_n, uint64_t *removed) {
  struct envelope *found = NULL;
  size_t n = 0, capacity = 0;
  int fd = dup(ssd->folder_fd);
  DIR *folder = fd >= 0 ? fdopendir(fd) : NULL;
  const struct dirent *file;
  while (folder != NULL && n < FILES_MAX && (file = readdir(folder)) != NULL) {
    if (is_name(file->d_name, ".tmp")) remove_file(ssd, file->d_name, removed);
    if (!is_name(file->d_name, ".fkv")) continue;
    if (n == capacity) {
      capacity = capacity > 0 ? capacity * 2 : 64;
      struct envelope *more = realloc(found, capacity * sizeof *found);
      if (more == NULL) break;
      found = more;
    }
    if (read_head(ssd, file->d_name, &found[n]) == STATUS_OK)
      n++;
    else
      remove_file(ssd, file->d_name, removed);
  }
  if (folder != NULL) closedir(folder);
  if (n > 0) qsort(found, n, sizeof *found, by_depth);
  *ret_n = n;
  return found;
}

static void scan(struct ssd *ssd, ssd_found *found, void *found_ctx, uint64_t *removed) {
  size_t n = 0;
  struct envelope *heads = collect(ssd, &n, removed);
  for (size_t i = 0; i < n; i++) {
    uint64_t cost = ssd_cost(&ssd->store, heads[i].payload_bytes);
    char name[NAME_DIGITS + 8];
    file_name(heads[i].key, name);
    if (ssd->used_bytes + cost > ssd->limit_bytes || map_set(ssd->objects, heads[i].key, cost) != STATUS_OK) {
      remove_file(ssd, name, removed);
    } else if (!found(found_ctx, &heads[i])) {
      (void)map_remove(ssd->objects, heads[i].key, NULL);
      remove_file(ssd, name, removed);
    } else {
      ssd->used_bytes += cost;
    }
  }
  free(heads);
}

/* The folder, ours alone. */
static int open_folder(const char *path, char *condition, size_t size) {
  struct error error = {{0}};
  struct stat folder;
  if (file_make_folder(path, &error) != STATUS_OK) {
    snprintf(condition, size, "%.150s", error.text);
    return -1;
  }
  int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0 || fstat(fd, &folder) != 0) {
    snprintf(condition, size, "%.100s: %.40s", path, strerror(errno));
  } else if (folder.st_uid != geteuid() || (folder.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    snprintf(condition, size, "%.90s belongs to another user or others may write to it", path);
  } else {
    return fd;
  }
  if (fd >= 0) close(fd);
  return -1;
}

enum status ssd_open(const struct ssd_config *config, ssd_found *found, void *found_ctx, uint64_t *ret_removed,
                     struct tier_store **ret_store) {
  static const struct tier_ops ops = {.name = "ssd",
                                      .close = ssd_close,
                                      .cost = ssd_cost,
                                      .reserve = ssd_reserve,
                                      .write = ssd_write,
                                      .commit = ssd_commit,
                                      .abort = ssd_abort,
                                      .read = ssd_read,
                                      .pin = ssd_pin,
                                      .unpin = ssd_unpin,
                                      .memory = ssd_memory,
                                      .has = ssd_has,
                                      .drop = ssd_drop,
                                      .usage = ssd_usage};
  struct ssd *ssd = calloc(1, sizeof *ssd);
  if (ssd == NULL || map_create(0, &ssd->objects) != STATUS_OK ||
      snprintf(ssd->folder, sizeof ssd->folder, "%s", config->folder) >= (int)sizeof ssd->folder) {
    if (ssd != NULL) map_destroy(&ssd->objects);
    free(ssd);
    return STATUS_NO_MEMORY;
  }
  ssd->store.ops = &ops;
  ssd->limit_bytes = config->limit_bytes;
  ssd->writes_limit_bytes = config->writes_bytes_per_day;
  ssd->next_temporary = clock_unix_us();
  pthread_mutex_init(&ssd->mutex, NULL);
  ssd->folder_fd = open_folder(config->folder, ssd->condition, sizeof ssd->condition);
  ssd->used_bytes = FOLDER_OVERHEAD_BYTES;
  *ret_removed = 0;
  if (ssd->folder_fd >= 0) {
    load_writes(ssd);
    scan(ssd, found, found_ctx, ret_removed);
  }
  *ret_store = &ssd->store;
  return STATUS_OK;
}
