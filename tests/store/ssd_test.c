/* Segments as files: whatever was touched is refused, caps hold at every instant and across restarts, a disk that fails
 * is said and left alone, nobody else's files are. */
#include "store/stage.h"

#include <sys/mount.h>
#include <sys/wait.h>

enum { TOKEN_BYTES = 300, OBJECT_TOKENS = 100, OBJECT_BYTES = TOKEN_BYTES * OBJECT_TOKENS, LIMIT_BYTES = 2 << 20 };

struct disk {
  char folder[PATH_MAX];
  struct ssd_config config;
  struct ssd_removed removed;
  unsigned n_found; /* at the last open */
  bool is_picky;    /* found() says no */
  struct tier_store *store;
};

static bool disk_found(void *ctx, const struct envelope *envelope) {
  struct disk *disk = ctx;
  (void)envelope;
  disk->n_found++;
  return !disk->is_picky;
}

static void disk_open(struct disk *disk) {
  disk->n_found = 0;
  assert_int_equal(ssd_open(&disk->config, disk_found, disk, &disk->removed, &disk->store), STATUS_OK);
}

static void disk_close(struct disk *disk) {
  if (disk->store != NULL) disk->store->ops->close(disk->store);
  disk->store = NULL;
}

static int disk_setup(void **state) {
  struct disk *disk = calloc(1, sizeof *disk);
  assert_non_null(disk);
  stage_folder_make(disk->folder);
  disk->config = (struct ssd_config){
      .folder = disk->folder, .limit_bytes = LIMIT_BYTES, .writes_bytes_per_day = 1 << 30, .retry_us = 1};
  disk_open(disk);
  *state = disk;
  return 0;
}

static int disk_teardown(void **state) {
  struct disk *disk = *state;
  disk_close(disk);
  stage_folder_clear(disk->folder);
  rmdir(disk->folder);
  free(disk);
  return 0;
}

static struct envelope object(uint64_t number) {
  struct envelope envelope = {.key = map_key_of(number),
                              .parent_key = map_key_of(number + 1000000),
                              .to = OBJECT_TOKENS,
                              .exact_tokens = OBJECT_TOKENS,
                              .payload_bytes = OBJECT_BYTES};
  memset(envelope.fingerprint.compat, 0x11, 32);
  memset(envelope.fingerprint.exact, 0x22, 32);
  memset(envelope.salt, 0x33, 32);
  stage_tokens(number, envelope.tokens, OBJECT_TOKENS);
  return envelope;
}

/* Page-aligned, as the memory tier's are: direct I/O wants it. */
static uint8_t *object_bytes(uint64_t number) {
  uint8_t *bytes = aligned_alloc(4096, envelope_padded(OBJECT_BYTES));
  struct rng rng;
  assert_non_null(bytes);
  memset(bytes, 0, envelope_padded(OBJECT_BYTES));
  rng_init(&rng, number);
  for (int i = 0; i < OBJECT_BYTES; i++) bytes[i] = (uint8_t)rng_next(&rng);
  return bytes;
}

static enum status object_put(struct disk *disk, uint64_t number) {
  struct tier_ticket *ticket;
  const struct tier_ops *ops = disk->store->ops;
  struct envelope envelope = object(number);
  enum status status = ops->reserve(disk->store, OBJECT_BYTES, &ticket);
  if (status != STATUS_OK) return status;
  uint8_t *bytes = object_bytes(number);
  status = ops->write(disk->store, ticket, &envelope, bytes);
  if (status == STATUS_OK)
    status = ops->commit(disk->store, ticket, envelope.key);
  else
    ops->abort(disk->store, ticket);
  free(bytes);
  return status;
}

/* Reads the object as `expected` and compares its bytes where that succeeds. */
static enum status object_get(struct disk *disk, uint64_t number, const struct envelope *expected) {
  uint8_t *read = aligned_alloc(4096, envelope_padded(OBJECT_BYTES)), *bytes = object_bytes(number);
  assert_non_null(read);
  enum status status = disk->store->ops->read(disk->store, expected, read);
  if (status == STATUS_OK) assert_memory_equal(read, bytes, envelope_padded(OBJECT_BYTES));
  free(read);
  free(bytes);
  return status;
}

static enum status object_check(struct disk *disk, uint64_t number) {
  struct envelope expected = object(number);
  return object_get(disk, number, &expected);
}

static void object_path(const struct disk *disk, uint64_t number, char path[PATH_MAX + 64]) {
  block_key key = map_key_of(number);
  snprintf(path, PATH_MAX + 64, "%s/%016llx%016llx.fkv", disk->folder, (unsigned long long)key.hi,
           (unsigned long long)key.lo);
}

static struct tier_usage disk_usage(struct disk *disk) {
  struct tier_usage usage;
  disk->store->ops->usage(disk->store, &usage);
  return usage;
}

/* ── one object ── */

static void what_is_written_is_read(void **state) {
  struct disk *disk = *state;
  char path[PATH_MAX + 64];
  struct stat file;
  assert_int_equal(object_put(disk, 1), STATUS_OK);
  assert_int_equal(object_check(disk, 1), STATUS_OK);
  assert_int_equal(object_check(disk, 2), STATUS_NOT_FOUND);
  object_path(disk, 1, path);
  assert_int_equal(stat(path, &file), 0);
  assert_int_equal(file.st_mode & 07777, 0600);
  assert_int_equal(file.st_size, ENVELOPE_SIZE + envelope_padded(OBJECT_BYTES));
  struct tier_usage usage = disk_usage(disk);
  assert_true(usage.write_bytes > OBJECT_BYTES && usage.read_bytes > OBJECT_BYTES);
  disk_close(disk);
  disk_open(disk);
  assert_int_equal(disk->n_found, 1);
  assert_int_equal(object_check(disk, 1), STATUS_OK);
  assert_int_equal(disk->store->ops->drop(disk->store, map_key_of(1)), STATUS_OK);
  assert_int_equal(stat(path, &file), -1);
  assert_int_equal(object_check(disk, 1), STATUS_NOT_FOUND);
}

static void only_what_was_asked_for_is_given(void **state) {
  struct disk *disk = *state;
  assert_int_equal(object_put(disk, 1), STATUS_OK);
  for (int field = 0; field < 8; field++) {
    struct envelope expected = object(1);
    switch (field) {
    case 0:
      expected.fingerprint.compat[31] ^= 1;
      break;
    case 1:
      expected.salt[0] ^= 1;
      break;
    case 2:
      expected.parent_key.lo ^= 1;
      break;
    case 3:
      expected.tokens[OBJECT_TOKENS - 1] ^= 1;
      break;
    case 4:
      expected.tokens[0] ^= 1;
      break;
    case 5:
      expected.to--;
      break;
    case 6:
      expected.from = SEGMENT_TOKENS, expected.to += SEGMENT_TOKENS;
      break;
    default:
      expected.payload_bytes--;
      break;
    }
    assert_int_equal(object_get(disk, 1, &expected), STATUS_INCOMPATIBLE);
  }
  assert_int_equal(object_check(disk, 1), STATUS_OK);
}

/* ── touched files ── */

enum touch { TOUCH_FLIP = 0, TOUCH_CUT, TOUCH_GROW, TOUCH_ZERO, TOUCH_SWAP, TOUCH_COUNT };

static void touch_file(const char *path, enum touch touch, size_t at) {
  size_t size = ENVELOPE_SIZE + envelope_padded(OBJECT_BYTES);
  uint8_t *bytes = calloc(1, size + 4096), *half = calloc(1, size);
  assert_true(bytes != NULL && half != NULL);
  int fd = open(path, O_RDWR);
  assert_true(fd >= 0);
  assert_int_equal(read(fd, bytes, size), size);
  switch (touch) {
  case TOUCH_FLIP:
    bytes[at] ^= 0x40;
    break;
  case TOUCH_CUT:
    size = at;
    break;
  case TOUCH_GROW:
    size += at;
    break;
  case TOUCH_ZERO:
    memset(bytes, 0, size);
    break;
  default:
    memcpy(half, bytes, size / 2);
    memmove(bytes, bytes + size - size / 2, size / 2);
    memcpy(bytes + size - size / 2, half, size / 2);
    break;
  }
  assert_int_equal(ftruncate(fd, 0), 0);
  assert_int_equal(pwrite(fd, bytes, size, 0), size);
  close(fd);
  free(bytes);
  free(half);
}

/* Touched while the program runs: the read refuses. Touched while it is down: the scan removes it, or adopts a whole
 * head and then the read refuses. Never are the bytes given. */
static void touched_is_never_given(struct disk *disk, enum touch touch, size_t at) {
  char path[PATH_MAX + 64];
  object_path(disk, 1, path);
  assert_int_equal(object_put(disk, 1), STATUS_OK);
  touch_file(path, touch, at);
  enum status status = object_check(disk, 1);
  if (status != STATUS_CORRUPT && status != STATUS_INCOMPATIBLE)
    fail_msg("touch %d at %zu: %s when read", touch, at, status_name(status));
  disk_close(disk);
  disk_open(disk);
  assert_int_equal(disk->n_found + disk->removed.broken, 1);
  assert_int_not_equal(object_check(disk, 1), STATUS_OK);
  if (disk->n_found == 1) assert_int_equal(disk->store->ops->drop(disk->store, map_key_of(1)), STATUS_OK);
}

static void touched_files_are_refused(void **state) {
  struct disk *disk = *state;
  const size_t size = ENVELOPE_SIZE + envelope_padded(OBJECT_BYTES);
  /* magic, version, size, compat, exact, salt, key, parent, from, to, exact, spare, payload size, checksum, tokens,
   * padding of the head, its checksum, payload, padding of the payload */
  static const size_t regions[] = {0,
                                   8,
                                   12,
                                   16,
                                   48,
                                   80,
                                   112,
                                   128,
                                   144,
                                   148,
                                   152,
                                   156,
                                   160,
                                   168,
                                   184,
                                   3000,
                                   ENVELOPE_SIZE - 16,
                                   ENVELOPE_SIZE,
                                   ENVELOPE_SIZE + OBJECT_BYTES / 2,
                                   ENVELOPE_SIZE + OBJECT_BYTES - 1,
                                   ENVELOPE_SIZE + OBJECT_BYTES};
  for (size_t i = 0; i < sizeof regions / sizeof *regions; i++) touched_is_never_given(disk, TOUCH_FLIP, regions[i]);
  touched_is_never_given(disk, TOUCH_FLIP, size - 1);
  for (size_t i = 0; i < 16; i++) touched_is_never_given(disk, TOUCH_CUT, size * i / 16);
  touched_is_never_given(disk, TOUCH_GROW, 1);
  touched_is_never_given(disk, TOUCH_GROW, 4096);
  touched_is_never_given(disk, TOUCH_ZERO, 0);
  touched_is_never_given(disk, TOUCH_SWAP, 0);
}

/* A whole file of another segment under this one's name. */
static void another_files_bytes_are_refused(void **state) {
  struct disk *disk = *state;
  char one[PATH_MAX + 64], other[PATH_MAX + 64];
  object_path(disk, 1, one);
  object_path(disk, 2, other);
  assert_int_equal(object_put(disk, 1), STATUS_OK);
  assert_int_equal(object_put(disk, 2), STATUS_OK);
  assert_int_equal(rename(other, one), 0);
  assert_int_equal(object_check(disk, 1), STATUS_INCOMPATIBLE);
  disk_close(disk);
  disk_open(disk);
  assert_int_equal(disk->n_found, 0);
  assert_int_equal(disk->removed.broken, 1);
}

/* ── caps ── */

static void the_folder_never_outgrows_its_cap(void **state) {
  struct disk *disk = *state;
  uint64_t oldest = 0;
  unsigned n;
  for (uint64_t number = 0; number < 10 * LIMIT_BYTES / OBJECT_BYTES; number++) {
    enum status status;
    while ((status = object_put(disk, number)) == STATUS_FULL)
      assert_int_equal(disk->store->ops->drop(disk->store, map_key_of(oldest++)), STATUS_OK);
    assert_int_equal(status, STATUS_OK);
    assert_true(stage_folder_bytes(disk->folder, ".fkv", &n) <= LIMIT_BYTES);
    assert_true(disk_usage(disk).used_bytes <= LIMIT_BYTES);
    if (number % 300 == 299) {
      disk_close(disk);
      disk_open(disk);
      assert_int_equal(disk->n_found, n);
    }
  }
  assert_true(oldest > 100);
}

static void reservations_count(void **state) {
  struct disk *disk = *state;
  struct tier_ticket *tickets[LIMIT_BYTES / OBJECT_BYTES + 1];
  size_t n = 0;
  const struct tier_ops *ops = disk->store->ops;
  assert_int_equal(ops->reserve(disk->store, LIMIT_BYTES, &tickets[0]), STATUS_TOO_LONG);
  while (n < LIMIT_BYTES / OBJECT_BYTES && ops->reserve(disk->store, OBJECT_BYTES, &tickets[n]) == STATUS_OK) n++;
  assert_int_equal(ops->reserve(disk->store, OBJECT_BYTES, &tickets[n]), STATUS_FULL);
  struct tier_usage usage = disk_usage(disk);
  assert_true(n > 50 && usage.used_bytes <= LIMIT_BYTES);
  assert_int_equal(usage.reserved_bytes, n * ops->cost(disk->store, OBJECT_BYTES));
  while (n > 0) ops->abort(disk->store, tickets[--n]);
  assert_int_equal(disk_usage(disk).reserved_bytes, 0);
}

/* An object written again takes the place of the old one, in the folder and in the count. */
static void a_replaced_object_counts_once(void **state) {
  struct disk *disk = *state;
  unsigned n;
  assert_int_equal(object_put(disk, 1), STATUS_OK);
  uint64_t used_bytes = disk_usage(disk).used_bytes;
  for (int i = 0; i < 3; i++) assert_int_equal(object_put(disk, 1), STATUS_OK);
  assert_int_equal(disk_usage(disk).used_bytes, used_bytes);
  assert_int_equal(disk_usage(disk).objects, 1);
  assert_int_equal(disk_usage(disk).reserved_bytes, 0);
  (void)stage_folder_bytes(disk->folder, ".fkv", &n);
  assert_int_equal(n, 1);
  assert_int_equal(object_check(disk, 1), STATUS_OK);
}

static void a_smaller_cap_is_kept_at_once(void **state) {
  struct disk *disk = *state;
  unsigned n;
  for (uint64_t number = 0; number < 40; number++) assert_int_equal(object_put(disk, number), STATUS_OK);
  disk_close(disk);
  disk->config.limit_bytes = LIMIT_BYTES / 8;
  disk_open(disk);
  assert_true(stage_folder_bytes(disk->folder, ".fkv", &n) <= LIMIT_BYTES / 8);
  assert_int_equal(n + disk->removed.over_cap, 40);
  assert_true(n > 0 && disk->removed.over_cap > 0);
}

static void a_days_writes_are_bounded_across_restarts(void **state) {
  struct disk *disk = *state;
  disk_close(disk);
  disk->config.writes_bytes_per_day = 10 * OBJECT_BYTES + 20 * 4096;
  disk_open(disk);
  uint64_t cost = disk->store->ops->cost(disk->store, OBJECT_BYTES), n = 0;
  for (uint64_t number = 0; number < 100; number++) {
    enum status status = object_put(disk, number);
    if (status == STATUS_OK) n++;
    if (status == STATUS_OK) assert_int_equal(disk->store->ops->drop(disk->store, map_key_of(number)), STATUS_OK);
    if (number % 3 == 2) {
      disk_close(disk);
      disk_open(disk);
    }
    assert_true(disk_usage(disk).written_today_bytes <= disk->config.writes_bytes_per_day);
  }
  assert_true(n >= 1 && n * cost <= disk->config.writes_bytes_per_day);
  assert_int_equal(object_put(disk, 1), STATUS_FULL);
}

/* Without the file that remembers, what lies in the folder from today counts; with a day to come, its bytes. */
static void a_lost_record_gives_no_second_budget(void **state) {
  struct disk *disk = *state;
  char path[PATH_MAX + 64];
  snprintf(path, sizeof path, "%s/writes.fkw", disk->folder);
  for (uint64_t number = 0; number < 5; number++) assert_int_equal(object_put(disk, number), STATUS_OK);
  uint64_t cost = disk->store->ops->cost(disk->store, OBJECT_BYTES);
  for (int round = 0; round < 3; round++) {
    disk_close(disk);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    if (round == 1) fputs("rubbish", file);
    if (round == 2) fprintf(file, "99999999 %llu\n", (unsigned long long)(7 * cost));
    fclose(file);
    if (round == 0) unlink(path);
    disk_open(disk);
    assert_int_equal(disk_usage(disk).written_today_bytes, (round == 2 ? 7 : 5) * cost);
  }
}

/* Ended without a word: the record is ahead of what was written, never behind. */
static void a_crash_counts_too_much_rather_than_too_little(void **state) {
  struct disk *disk = *state;
  disk_close(disk);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    disk_open(disk);
    for (uint64_t number = 0; number < 9; number++) {
      if (object_put(disk, number) != STATUS_OK) _exit(1);
      if (disk->store->ops->drop(disk->store, map_key_of(number)) != STATUS_OK) _exit(1);
    }
    _exit(0);
  }
  int how;
  assert_int_equal(waitpid(child, &how, 0), child);
  assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
  disk_open(disk);
  assert_true(disk_usage(disk).written_today_bytes >= 9 * disk->store->ops->cost(disk->store, OBJECT_BYTES));
}

/* ── whose files ── */

static void make_file(const char *folder, const char *name, size_t size) {
  char path[PATH_MAX + 64];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  assert_true(fd >= 0);
  for (; size > 0; size -= size < 4096 ? size : 4096) {
    char bytes[4096] = {1};
    assert_true(write(fd, bytes, size < 4096 ? size : 4096) > 0);
  }
  close(fd);
}

static bool has_file(const char *folder, const char *name) {
  char path[PATH_MAX + 64];
  struct stat file;
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return lstat(path, &file) == 0;
}

static void only_files_with_our_names_are_removed(void **state) {
  struct disk *disk = *state;
  static const char *const ours[] = {"0123456789abcdef0123456789abcdef.fkv", "0123456789abcdef0123456789abcdef.tmp",
                                     "00000000000000000000000000000000.fkv"};
  static const char *const others[] = {"notes.txt",
                                       "0123456789abcdef.fkv",
                                       "0123456789ABCDEF0123456789ABCDEF.fkv",
                                       "0123456789abcdef0123456789abcdef.fkv.bak",
                                       "0123456789abcdef0123456789abcdef0.tmp",
                                       ".fkv",
                                       "writes.fkw.bak"};
  disk_close(disk);
  for (size_t i = 0; i < sizeof ours / sizeof *ours; i++) make_file(disk->folder, ours[i], 10000);
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) make_file(disk->folder, others[i], 10000);
  disk_open(disk);
  assert_int_equal(disk->removed.broken, 2);
  assert_int_equal(disk->removed.temporary, 1);
  for (size_t i = 0; i < sizeof ours / sizeof *ours; i++) assert_false(has_file(disk->folder, ours[i]));
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) assert_true(has_file(disk->folder, others[i]));
  /* They take room of the folder all the same. */
  assert_true(disk_usage(disk).used_bytes >= sizeof others / sizeof *others * 12288);
}

static void a_link_in_the_folder_is_not_followed(void **state) {
  struct disk *disk = *state;
  char target[PATH_MAX + 64], link[PATH_MAX + 64];
  assert_int_equal(object_put(disk, 1), STATUS_OK);
  object_path(disk, 1, link);
  snprintf(target, sizeof target, "%s/kept", disk->folder);
  assert_int_equal(rename(link, target), 0);
  assert_int_equal(symlink(target, link), 0);
  assert_int_not_equal(object_check(disk, 1), STATUS_OK);
  disk_close(disk);
  disk_open(disk);
  assert_int_equal(disk->n_found, 0);
  assert_int_equal(disk->removed.broken, 1);
  assert_true(has_file(disk->folder, "kept"));
}

static void folder_is_refused(struct disk *disk, const char *folder, const char *why) {
  disk_close(disk);
  const char *kept = disk->config.folder;
  disk->config.folder = folder;
  disk_open(disk);
  struct tier_usage usage = disk_usage(disk);
  assert_true(usage.is_degraded);
  if (strstr(usage.condition, why) == NULL) fail_msg("'%s' does not say '%s'", usage.condition, why);
  assert_int_equal(object_put(disk, 1), STATUS_UNSUPPORTED);
  disk->config.folder = kept;
}

static void a_folder_that_is_not_ours_alone_is_refused(void **state) {
  struct disk *disk = *state;
  char path[PATH_MAX + 64];
  snprintf(path, sizeof path, "%s/link", disk->folder);
  assert_int_equal(symlink(disk->folder, path), 0);
  folder_is_refused(disk, path, path);
  unlink(path);
  assert_int_equal(chmod(disk->folder, 0777), 0);
  folder_is_refused(disk, disk->folder, "others may write");
  assert_int_equal(chmod(disk->folder, 0700), 0);
  make_file(disk->folder, "plain", 1);
  snprintf(path, sizeof path, "%s/plain", disk->folder);
  folder_is_refused(disk, path, "no folder");
}

static void a_second_program_is_refused(void **state) {
  struct disk *disk = *state;
  struct disk second = *disk;
  assert_int_equal(object_put(disk, 1), STATUS_OK);
  disk_open(&second);
  struct tier_usage usage = disk_usage(&second);
  assert_true(usage.is_degraded && strstr(usage.condition, "another forelay") != NULL);
  assert_int_equal(second.n_found, 0);
  disk_close(&second);
  assert_int_equal(object_check(disk, 1), STATUS_OK);
}

static void what_is_not_wanted_is_removed(void **state) {
  struct disk *disk = *state;
  unsigned n;
  assert_int_equal(object_put(disk, 1), STATUS_OK);
  disk_close(disk);
  disk->is_picky = true;
  disk_open(disk);
  assert_int_equal(disk->removed.unwanted, 1);
  (void)stage_folder_bytes(disk->folder, ".fkv", &n);
  assert_int_equal(n, 0);
  disk->is_picky = false;
}

/* ── disks that fail ── */

/* The folder on a small file system of its own; false: this user may not. */
static bool mount_small(struct disk *disk) {
  disk_close(disk);
  bool is_mounted = stage_mount_small(disk->folder, 1);
  disk_open(disk);
  return is_mounted;
}

static void a_full_disk_is_said_and_survived(void **state) {
  struct disk *disk = *state;
  if (!mount_small(disk)) skip();
  uint64_t n = 0;
  unsigned n_files;
  enum status status;
  while ((status = object_put(disk, n)) == STATUS_OK) n++;
  assert_int_equal(status, STATUS_IO);
  assert_true(n > 10 && n < 40);
  struct tier_usage usage = disk_usage(disk);
  assert_true(strstr(usage.condition, "No space") != NULL);
  assert_int_equal(usage.reserved_bytes, 0);
  (void)stage_folder_bytes(disk->folder, ".tmp", &n_files);
  assert_int_equal(n_files, 0);
  for (uint64_t number = 0; number < n; number++) assert_int_equal(object_check(disk, number), STATUS_OK);
  /* Room again, and the time to leave it alone is over: it works, and says nothing any more. */
  for (uint64_t number = 0; number < 3; number++)
    assert_int_equal(disk->store->ops->drop(disk->store, map_key_of(number)), STATUS_OK);
  assert_int_equal(object_put(disk, n), STATUS_OK);
  usage = disk_usage(disk);
  assert_false(usage.is_degraded);
  assert_string_equal(usage.condition, "");
  disk_close(disk);
  stage_unmount(disk->folder);
  disk_open(disk);
}

static void a_failing_disk_is_left_alone(void **state) {
  struct disk *disk = *state;
  disk->config.retry_us = 3600000000u;
  if (!mount_small(disk)) skip();
  uint64_t n = 0;
  while (object_put(disk, n) == STATUS_OK) n++;
  assert_true(disk_usage(disk).is_degraded);
  assert_int_equal(object_put(disk, n), STATUS_UNSUPPORTED);
  assert_int_equal(object_check(disk, 0), STATUS_OK);
  disk_close(disk);
  stage_unmount(disk->folder);
  disk_open(disk);
}

static void a_read_only_disk_still_serves(void **state) {
  struct disk *disk = *state;
  if (!mount_small(disk)) skip();
  assert_int_equal(object_put(disk, 1), STATUS_OK);
  assert_int_equal(mount(NULL, disk->folder, NULL, MS_REMOUNT | MS_RDONLY, NULL), 0);
  assert_int_equal(object_put(disk, 2), STATUS_IO);
  assert_true(strstr(disk_usage(disk).condition, "Read-only") != NULL);
  assert_int_equal(object_check(disk, 1), STATUS_OK);
  /* What cannot be removed goes on counting. */
  uint64_t used = disk_usage(disk).used_bytes;
  assert_int_equal(disk->store->ops->drop(disk->store, map_key_of(1)), STATUS_OK);
  assert_int_equal(disk_usage(disk).used_bytes, used);
  disk_close(disk);
  stage_unmount(disk->folder);
  disk_open(disk);
}

static void a_folder_that_goes_away_is_survived(void **state) {
  struct disk *disk = *state;
  assert_int_equal(object_put(disk, 1), STATUS_OK);
  stage_folder_clear(disk->folder);
  assert_int_equal(rmdir(disk->folder), 0);
  assert_int_equal(object_check(disk, 1), STATUS_NOT_FOUND);
  assert_int_equal(object_put(disk, 2), STATUS_IO);
  assert_int_equal(disk_usage(disk).reserved_bytes, 0);
  disk_close(disk);
  disk_open(disk);
  assert_int_equal(object_put(disk, 2), STATUS_OK);
}

#define DISK_TEST(test) cmocka_unit_test_setup_teardown(test, disk_setup, disk_teardown)

int main(void) {
  const struct CMUnitTest tests[] = {
      DISK_TEST(what_is_written_is_read),
      DISK_TEST(only_what_was_asked_for_is_given),
      DISK_TEST(touched_files_are_refused),
      DISK_TEST(another_files_bytes_are_refused),
      DISK_TEST(the_folder_never_outgrows_its_cap),
      DISK_TEST(reservations_count),
      DISK_TEST(a_replaced_object_counts_once),
      DISK_TEST(a_smaller_cap_is_kept_at_once),
      DISK_TEST(a_days_writes_are_bounded_across_restarts),
      DISK_TEST(a_lost_record_gives_no_second_budget),
      DISK_TEST(a_crash_counts_too_much_rather_than_too_little),
      DISK_TEST(only_files_with_our_names_are_removed),
      DISK_TEST(a_link_in_the_folder_is_not_followed),
      DISK_TEST(a_folder_that_is_not_ours_alone_is_refused),
      DISK_TEST(a_second_program_is_refused),
      DISK_TEST(what_is_not_wanted_is_removed),
      DISK_TEST(a_full_disk_is_said_and_survived),
      DISK_TEST(a_failing_disk_is_left_alone),
      DISK_TEST(a_read_only_disk_still_serves),
      DISK_TEST(a_folder_that_goes_away_is_survived),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
