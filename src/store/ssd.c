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
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
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
  RETRY_US = 60 * 1000000,
  BLOCK_BYTES_MAX = 1 << 20,
  FILES_MAX = 1 << 20 /* adopted in one scan; what is more is over the cap */
};

struct tier_ticket {
  uint64_t cost;
  char temporary[NAME_DIGITS + 8]; /* name of the file, empty: none yet */
};

struct ssd {
  struct tier_store store;
  char folder[PATH_MAX];
  int folder_fd;        /* −1: unusable; locked against other programs */
  uint64_t block_bytes; /* files take whole ones */
  uint64_t limit_bytes, writes_limit_bytes, retry_us;
  pthread_mutex_t remembering; /* held while writes.fkw is written; taken before `mutex` */
  pthread_mutex_t mutex;       /* guards all below */
  struct map *objects;         /* key → bytes */
  uint64_t used_bytes, reserved_bytes;
  uint64_t day, written_bytes, granted_bytes; /* UTC day number; reserved or written today; what writes.fkw says */
  uint64_t read_bytes, read_us, write_bytes, write_us;
  uint64_t next_temporary;
  uint64_t degraded_until_us; /* monotonic */
  char condition[160];
};

static void file_name(block_key key, char name[NAME_DIGITS + 8]) {
  snprintf(name, NAME_DIGITS + 8, "%016llx%016llx.fkv", (unsigned long long)key.hi, (unsigned long long)key.lo);
}

static uint64_t round_up(const struct ssd *ssd, uint64_t bytes) {
  return (bytes + ssd->block_bytes - 1) / ssd->block_bytes * ssd->block_bytes;
}

static uint64_t ssd_cost(const struct tier_store *store, uint64_t payload_bytes) {
  return round_up((const struct ssd *)store, ENVELOPE_SIZE + envelope_padded(payload_bytes));
}

/* Called with the mutex held. */
static void degrade(struct ssd *ssd, const char *what, int code) {
  ssd->degraded_until_us = clock_monotonic_us() + ssd->retry_us;
  snprintf(ssd->condition, sizeof ssd->condition, "%.80s: %s: %.40s", ssd->folder, what, strerror(code));
}

static bool is_degraded(const struct ssd *ssd) {
  return ssd->folder_fd < 0 || clock_monotonic_us() < ssd->degraded_until_us;
}

/* ── the day's writes ── */

static uint64_t today(void) {
  return clock_unix_us() / 86400000000u;
}

/* Takes up what an earlier run wrote today: as its file says, and not less than the files of today in the folder, so
 * that a lost file gives no second budget. A day to come is a clock that was wrong: its bytes count for today. */
static void load_writes(struct ssd *ssd, uint64_t seen_today_bytes) {
  char path[PATH_MAX];
  struct buffer text;
  buffer_init(&text, 0); /* file_read bounds it; it wants room for a whole block first */
  unsigned long long day = 0, bytes = 0;
  ssd->day = today();
  if (snprintf(path, sizeof path, "%s/writes.fkw", ssd->folder) < (int)sizeof path &&
      file_read(path, 200, &text, NULL) == STATUS_OK && text.data != NULL &&
      sscanf((const char *)text.data, "%llu %llu", &day, &bytes) == 2 && day >= ssd->day)
    ssd->written_bytes = bytes;
  if (ssd->written_bytes < seen_today_bytes) ssd->written_bytes = seen_today_bytes;
  buffer_release(&text);
}

/* Called with the mutex held. A new day begins with what is reserved and not written yet. */
static void turn_day(struct ssd *ssd) {
  uint64_t day = today();
  if (day > ssd->day) ssd->written_bytes = ssd->reserved_bytes;
  if (day != ssd->day) ssd->granted_bytes = 0;
  ssd->day = day;
}

static enum status save_writes(const struct ssd *ssd, uint64_t day, uint64_t bytes, struct error *error) {
  char path[PATH_MAX], text[64];
  int size = snprintf(text, sizeof text, "%llu %llu\n", (unsigned long long)day, (unsigned long long)bytes);
  if (snprintf(path, sizeof path, "%s/writes.fkw", ssd->folder) >= (int)sizeof path) return STATUS_TOO_LONG;
  return file_write(path, text, (size_t)size, error);
}

/* Before bytes go to the disk, writes.fkw must say at least as many as are reserved and written today. */
static enum status remember_writes(struct ssd *ssd) {
  enum status status = STATUS_OK;
  pthread_mutex_lock(&ssd->remembering);
  pthread_mutex_lock(&ssd->mutex);
  turn_day(ssd);
  uint64_t day = ssd->day, granted = ssd->written_bytes + GRANT_BYTES;
  bool is_remembered = ssd->written_bytes <= ssd->granted_bytes;
  pthread_mutex_unlock(&ssd->mutex);
  if (granted > ssd->writes_limit_bytes) granted = ssd->writes_limit_bytes;
  if (!is_remembered) {
    struct error error = {{0}};
    status = save_writes(ssd, day, granted, &error);
    pthread_mutex_lock(&ssd->mutex);
    if (status != STATUS_OK) {
      degrade(ssd, "remembering the day's writes", 0);
      snprintf(ssd->condition, sizeof ssd->condition, "%.150s", error.text);
    } else if (ssd->day == day) {
      ssd->granted_bytes = granted;
    }
    pthread_mutex_unlock(&ssd->mutex);
  }
  pthread_mutex_unlock(&ssd->remembering);
  return status == STATUS_OK ? STATUS_OK : STATUS_IO;
}

static enum status ssd_reserve(struct tier_store *store, uint64_t payload_bytes, struct tier_ticket **ret_ticket) {
  struct ssd *ssd = (struct ssd *)store;
  uint64_t cost = ssd_cost(store, payload_bytes);
  if (cost + FOLDER_OVERHEAD_BYTES > ssd->limit_bytes) return STATUS_TOO_LONG;
  struct tier_ticket *ticket = calloc(1, sizeof *ticket);
  if (ticket == NULL) return STATUS_NO_MEMORY;
  pthread_mutex_lock(&ssd->mutex);
  enum status status = STATUS_OK;
  turn_day(ssd);
  if (is_degraded(ssd)) {
    status = STATUS_UNSUPPORTED;
  } else if (ssd->used_bytes + cost > ssd->limit_bytes || ssd->written_bytes + cost > ssd->writes_limit_bytes) {
    status = STATUS_FULL;
  } else {
    ticket->cost = cost;
    ssd->used_bytes += cost;
    ssd->reserved_bytes += cost;
    ssd->written_bytes += cost;
  }
  pthread_mutex_unlock(&ssd->mutex);
  if (status == STATUS_OK)
    *ret_ticket = ticket;
  else
    free(ticket);
  return status;
}

/* ── bytes ── */

/* Whether the call that failed is worth another try: interrupted, or direct I/O that the file system takes at open and
 * refuses here. */
static bool may_retry(int fd) {
  if (errno == EINTR) return true;
  int flags = errno == EINVAL ? fcntl(fd, F_GETFL) : -1;
  return flags >= 0 && (flags & O_DIRECT) != 0 && fcntl(fd, F_SETFL, flags & ~O_DIRECT) == 0;
}

static bool write_at(int fd, const void *bytes, uint64_t size, uint64_t offset) {
  for (uint64_t done = 0; done < size;) {
    size_t part = size - done < CHUNK_BYTES ? (size_t)(size - done) : CHUNK_BYTES;
    ssize_t n = pwrite(fd, (const char *)bytes + done, part, (off_t)(offset + done));
    if (n < 0 && may_retry(fd)) continue;
    if (n == 0) errno = ENOSPC;
    if (n <= 0) return false;
    done += (uint64_t)n;
  }
  return true;
}

static bool read_at(int fd, void *bytes, uint64_t size, uint64_t offset) {
  for (uint64_t done = 0; done < size;) {
    size_t part = size - done < CHUNK_BYTES ? (size_t)(size - done) : CHUNK_BYTES;
    ssize_t n = pread(fd, (char *)bytes + done, part, (off_t)(offset + done));
    if (n < 0 && may_retry(fd)) continue;
    if (n == 0) errno = 0; /* shorter than its head says */
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
  uint64_t begun_us = clock_monotonic_us();
  enum status status = remember_writes(ssd);
  if (status != STATUS_OK) return status;
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
  pthread_mutex_lock(&ssd->mutex);
  if (is_written) {
    ssd->write_bytes += ENVELOPE_SIZE + padded;
    ssd->write_us += clock_monotonic_us() - begun_us;
  } else {
    degrade(ssd, "writing", code);
  }
  pthread_mutex_unlock(&ssd->mutex);
  return is_written ? STATUS_OK : STATUS_IO;
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
    int code = errno;
    pthread_mutex_lock(&ssd->mutex);
    degrade(ssd, "renaming", code);
    pthread_mutex_unlock(&ssd->mutex);
    ssd_abort(store, ticket);
    return STATUS_IO;
  }
  (void)!fsync(ssd->folder_fd); /* a name that is lost in a crash costs the segment, nothing else */
  pthread_mutex_lock(&ssd->mutex);
  uint64_t before = 0;
  (void)map_get(ssd->objects, key, &before);
  enum status status = map_set(ssd->objects, key, ticket->cost);
  ssd->reserved_bytes -= ticket->cost;
  ssd->used_bytes -= before;
  if (!is_degraded(ssd)) ssd->condition[0] = '\0';
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

/* What a read that did not give all its bytes means. */
static enum status failed_read(void) {
  return errno == 0 ? STATUS_CORRUPT : errno == ENOMEM ? STATUS_BUSY : STATUS_IO;
}

static enum status read_checked(int fd, uint8_t *head, const struct envelope *expected, void *bytes) {
  struct stat file;
  struct envelope found;
  uint64_t padded = envelope_padded(expected->payload_bytes), checksum[2];
  if (fstat(fd, &file) != 0) return STATUS_IO;
  if (!S_ISREG(file.st_mode) || file.st_size < ENVELOPE_SIZE) return STATUS_CORRUPT;
  if (!read_at(fd, head, ENVELOPE_SIZE, 0)) return failed_read();
  enum status status = envelope_parse(head, ENVELOPE_SIZE, (uint64_t)file.st_size, &found);
  if (status != STATUS_OK) return status;
  if (!is_expected(&found, expected)) return STATUS_INCOMPATIBLE;
  if (!read_at(fd, bytes, padded, ENVELOPE_SIZE)) return failed_read();
  envelope_checksum(bytes, padded, checksum);
  return checksum[0] == found.checksum[0] && checksum[1] == found.checksum[1] ? STATUS_OK : STATUS_CORRUPT;
}

static enum status ssd_read(struct tier_store *store, const struct envelope *expected, void *bytes) {
  struct ssd *ssd = (struct ssd *)store;
  char name[NAME_DIGITS + 8];
  uint64_t begun_us = clock_monotonic_us();
  file_name(expected->key, name);
  int fd = open_direct(ssd->folder_fd, name, O_RDONLY);
  if (fd < 0)
    return errno == ENOENT                                         ? STATUS_NOT_FOUND
           : errno == EMFILE || errno == ENFILE || errno == ENOMEM ? STATUS_BUSY
                                                                   : STATUS_IO;
  uint8_t *head = NULL;
  enum status status = STATUS_BUSY;
  if (posix_memalign((void **)&head, ENVELOPE_SIZE, ENVELOPE_SIZE) == 0)
    status = read_checked(fd, head, expected, bytes);
  int code = errno;
  free(head);
  close(fd);
  pthread_mutex_lock(&ssd->mutex);
  if (status == STATUS_OK) {
    ssd->read_bytes += ENVELOPE_SIZE + envelope_padded(expected->payload_bytes);
    ssd->read_us += clock_monotonic_us() - begun_us;
  } else if (status == STATUS_IO) {
    degrade(ssd, "reading", code);
  }
  pthread_mutex_unlock(&ssd->mutex);
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
  int code = errno;
  pthread_mutex_lock(&ssd->mutex);
  if (is_gone)
    ssd->used_bytes -= bytes; /* else the bytes are still there and still count */
  else
    degrade(ssd, "removing", code);
  pthread_mutex_unlock(&ssd->mutex);
  return STATUS_OK;
}

static void ssd_usage(struct tier_store *store, struct tier_usage *ret_usage) {
  struct ssd *ssd = (struct ssd *)store;
  pthread_mutex_lock(&ssd->mutex);
  turn_day(ssd);
  *ret_usage = (struct tier_usage){.limit_bytes = ssd->limit_bytes,
                                   .used_bytes = ssd->used_bytes,
                                   .reserved_bytes = ssd->reserved_bytes,
                                   .written_today_bytes = ssd->written_bytes,
                                   .objects = map_count(ssd->objects),
                                   .read_bytes = ssd->read_bytes,
                                   .read_us = ssd->read_us,
                                   .write_bytes = ssd->write_bytes,
                                   .write_us = ssd->write_us,
                                   .is_degraded = is_degraded(ssd)};
  memcpy(ret_usage->condition, ssd->condition, sizeof ssd->condition);
  pthread_mutex_unlock(&ssd->mutex);
}

static void ssd_close(struct tier_store *store) {
  struct ssd *ssd = (struct ssd *)store;
  if (ssd->folder_fd >= 0) {
    turn_day(ssd);
    if (ssd->granted_bytes > 0) (void)!save_writes(ssd, ssd->day, ssd->written_bytes, NULL);
    close(ssd->folder_fd);
  }
  map_destroy(&ssd->objects);
  pthread_mutex_destroy(&ssd->mutex);
  pthread_mutex_destroy(&ssd->remembering);
  free(ssd);
}

/* ── scanning ── */

static bool is_name(const char *name, const char *ending) {
  return strspn(name, "0123456789abcdef") == NAME_DIGITS && strcmp(name + NAME_DIGITS, ending) == 0;
}

/* STATUS_OK: the head of a file that is as long as it says, under its own name. STATUS_IO: it cannot be looked at now.
 */
static enum status read_head(const struct ssd *ssd, const char *name, struct envelope *ret_envelope) {
  int fd = openat(ssd->folder_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return errno == ELOOP || errno == ENXIO ? STATUS_CORRUPT : STATUS_IO;
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

/* A whole file, until it is its turn to be offered. */
struct found_file {
  uint32_t from;
  block_key key;
};

struct scan {
  struct found_file *files;
  size_t n, capacity;
  uint64_t today_bytes; /* of all of our name pattern that were written today */
  struct ssd_removed removed;
};

static int by_depth(const void *a, const void *b) {
  const struct found_file *x = a, *y = b;
  if (x->from != y->from) return x->from < y->from ? -1 : 1;
  if (x->key.hi != y->key.hi) return x->key.hi < y->key.hi ? -1 : 1;
  return x->key.lo < y->key.lo ? -1 : x->key.lo > y->key.lo;
}

static uint64_t size_of(const struct ssd *ssd, const struct stat *file) {
  uint64_t blocks = (uint64_t)file->st_blocks * 512, size = round_up(ssd, (uint64_t)file->st_size);
  return blocks > size ? blocks : size;
}

/* What cannot be removed stays and counts. */
static void remove_file(struct ssd *ssd, const char *name, uint64_t *count) {
  struct stat file;
  if (unlinkat(ssd->folder_fd, name, 0) == 0)
    (*count)++;
  else if (fstatat(ssd->folder_fd, name, &file, AT_SYMLINK_NOFOLLOW) == 0)
    ssd->used_bytes += size_of(ssd, &file);
}

static bool note_file(struct scan *scan, const struct envelope *envelope) {
  if (scan->n == FILES_MAX) return false;
  if (scan->n == scan->capacity) {
    size_t capacity = scan->capacity > 0 ? scan->capacity * 2 : 64;
    struct found_file *more = realloc(scan->files, capacity * sizeof *more);
    if (more == NULL) return false;
    scan->files = more;
    scan->capacity = capacity;
  }
  scan->files[scan->n++] = (struct found_file){envelope->from, envelope->key};
  return true;
}

/* A file with a segment's name. */
static void judge(struct ssd *ssd, const char *name, const struct stat *file, struct scan *scan) {
  struct envelope envelope;
  enum status status = read_head(ssd, name, &envelope);
  if (status == STATUS_IO)
    ssd->used_bytes += size_of(ssd, file);
  else if (status != STATUS_OK)
    remove_file(ssd, name, &scan->removed.broken);
  else if (!note_file(scan, &envelope))
    remove_file(ssd, name, &scan->removed.over_cap);
}

static void look_at(struct ssd *ssd, const char *name, struct scan *scan) {
  struct stat file;
  bool is_temporary = is_name(name, ".tmp"), is_segment = is_name(name, ".fkv");
  if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) return;
  if (strcmp(name, "writes.fkw") == 0 || strcmp(name, "writes.fkw.tmp") == 0)
    return; /* the overhead, counted already */
  if (fstatat(ssd->folder_fd, name, &file, AT_SYMLINK_NOFOLLOW) != 0) return;
  if (!is_temporary && !is_segment) {
    ssd->used_bytes += size_of(ssd, &file);
    return;
  }
  if ((uint64_t)file.st_mtime / 86400 == today()) scan->today_bytes += size_of(ssd, &file);
  if (is_temporary)
    remove_file(ssd, name, &scan->removed.temporary);
  else
    judge(ssd, name, &file, scan);
}

/* Offers the whole files, parents first. */
static void offer(struct ssd *ssd, struct scan *scan, ssd_found *found, void *found_ctx) {
  if (scan->n > 0) qsort(scan->files, scan->n, sizeof *scan->files, by_depth);
  for (size_t i = 0; i < scan->n; i++) {
    struct envelope envelope;
    char name[NAME_DIGITS + 8];
    file_name(scan->files[i].key, name);
    if (read_head(ssd, name, &envelope) != STATUS_OK) {
      remove_file(ssd, name, &scan->removed.broken);
      continue;
    }
    uint64_t cost = ssd_cost(&ssd->store, envelope.payload_bytes);
    if (ssd->used_bytes + cost > ssd->limit_bytes || map_set(ssd->objects, envelope.key, cost) != STATUS_OK) {
      remove_file(ssd, name, &scan->removed.over_cap);
    } else if (!found(found_ctx, &envelope)) {
      (void)map_remove(ssd->objects, envelope.key, NULL);
      remove_file(ssd, name, &scan->removed.unwanted);
    } else {
      ssd->used_bytes += cost;
    }
  }
}

static void scan_folder(struct ssd *ssd, ssd_found *found, void *found_ctx, struct ssd_removed *ret_removed) {
  struct scan scan = {.files = NULL};
  struct statvfs system;
  if (fstatvfs(ssd->folder_fd, &system) == 0 && system.f_frsize > ENVELOPE_SIZE && system.f_frsize <= BLOCK_BYTES_MAX)
    ssd->block_bytes = system.f_frsize;
  int fd = dup(ssd->folder_fd);
  DIR *folder = fd >= 0 ? fdopendir(fd) : NULL;
  if (folder == NULL && fd >= 0) close(fd);
  for (const struct dirent *file; folder != NULL && (file = readdir(folder)) != NULL;)
    look_at(ssd, file->d_name, &scan);
  if (folder != NULL) closedir(folder);
  offer(ssd, &scan, found, found_ctx);
  free(scan.files);
  load_writes(ssd, scan.today_bytes);
  *ret_removed = scan.removed;
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
  } else if (flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) { /* some file systems have no locks */
    snprintf(condition, size, "%.100s is used by another forelay", path);
  } else {
    return fd;
  }
  if (fd >= 0) close(fd);
  return -1;
}

enum status ssd_open(const struct ssd_config *config, ssd_found *found, void *found_ctx,
                     struct ssd_removed *ret_removed, struct tier_store **ret_store) {
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
  ssd->retry_us = config->retry_us > 0 ? config->retry_us : RETRY_US;
  ssd->block_bytes = ENVELOPE_SIZE;
  ssd->next_temporary = clock_unix_us();
  pthread_mutex_init(&ssd->mutex, NULL);
  pthread_mutex_init(&ssd->remembering, NULL);
  ssd->folder_fd = open_folder(config->folder, ssd->condition, sizeof ssd->condition);
  ssd->used_bytes = FOLDER_OVERHEAD_BYTES;
  ssd->day = today();
  *ret_removed = (struct ssd_removed){0};
  if (ssd->folder_fd >= 0) scan_folder(ssd, found, found_ctx, ret_removed);
  *ret_store = &ssd->store;
  return STATUS_OK;
}
