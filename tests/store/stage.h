/* What tests of the store stand on: a folder of their own, a loop that runs completions, chains of tokens with keys and
 * bytes that follow from them, so that any bytes can be checked against what they should be. Header only. */
#ifndef FORELAY_TESTS_STORE_STAGE_H
#define FORELAY_TESTS_STORE_STAGE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/rng.h"
#include "os/clock.h"
#include "store/depot.h"
#include "store/envelope.h"
#include "store/tier.h"

enum { STAGE_TENANTS = 3, STAGE_POSTS_MAX = 4096, STAGE_EVENTS_MAX = 1 << 16, STAGE_WAIT_S = 60 };

/* ── loop ── */

struct stage_post {
  void (*fn)(void *ctx);
  void *ctx;
};

struct stage_loop {
  pthread_mutex_t mutex; /* guards all below */
  pthread_cond_t more;
  struct stage_post ring[STAGE_POSTS_MAX];
  size_t first, count;
  bool is_deaf; /* refuses posts */
};

static inline bool stage_loop_post(void *ctx, void (*fn)(void *ctx), void *arg) {
  struct stage_loop *loop = ctx;
  pthread_mutex_lock(&loop->mutex);
  bool is_taken = !loop->is_deaf && loop->count < STAGE_POSTS_MAX;
  if (is_taken) {
    loop->ring[(loop->first + loop->count++) % STAGE_POSTS_MAX] = (struct stage_post){fn, arg};
    pthread_cond_signal(&loop->more);
  }
  pthread_mutex_unlock(&loop->mutex);
  return is_taken;
}

/* Runs the next post; waits for one at most until the deadline (0: not at all). false: there was none. */
static inline bool stage_loop_step(struct stage_loop *loop, time_t deadline_s) {
  struct stage_post post = {NULL, NULL};
  struct timespec until = {.tv_sec = deadline_s};
  pthread_mutex_lock(&loop->mutex);
  while (loop->count == 0 && deadline_s > 0 && pthread_cond_timedwait(&loop->more, &loop->mutex, &until) == 0) {
  }
  if (loop->count > 0) {
    post = loop->ring[loop->first];
    loop->first = (loop->first + 1) % STAGE_POSTS_MAX;
    loop->count--;
  }
  pthread_mutex_unlock(&loop->mutex);
  if (post.fn != NULL) post.fn(post.ctx);
  return post.fn != NULL;
}

/* ── folder ── */

/* Removes what is in the folder, and folders in it that are empty. */
static inline void stage_folder_clear(const char *path) {
  DIR *folder = opendir(path);
  for (struct dirent *file; folder != NULL && (file = readdir(folder)) != NULL;)
    if (unlinkat(dirfd(folder), file->d_name, 0) != 0) (void)unlinkat(dirfd(folder), file->d_name, AT_REMOVEDIR);
  if (folder != NULL) closedir(folder);
}

static inline void stage_folder_make(char path[PATH_MAX]) {
  const char *parent = getenv("TMPDIR");
  snprintf(path, PATH_MAX, "%s/forelay-store-XXXXXX", parent != NULL ? parent : "/var/tmp");
  assert_non_null(mkdtemp(path));
}

/* Bytes that the files of the folder take, and how many end in `ending`. */
static inline uint64_t stage_folder_bytes(const char *path, const char *ending, unsigned *ret_n) {
  uint64_t bytes = 0;
  *ret_n = 0;
  DIR *folder = opendir(path);
  for (struct dirent *file; folder != NULL && (file = readdir(folder)) != NULL;) {
    struct stat status_of;
    size_t length = strlen(file->d_name), tail = strlen(ending);
    if (file->d_name[0] == '.' || fstatat(dirfd(folder), file->d_name, &status_of, AT_SYMLINK_NOFOLLOW) != 0) continue;
    bytes += (uint64_t)status_of.st_blocks * 512;
    *ret_n += length >= tail && strcmp(file->d_name + length - tail, ending) == 0;
  }
  if (folder != NULL) closedir(folder);
  return bytes;
}

/* A small file system of its own over the folder, seen by this process only; false, and said why: this user may not. */
static inline bool stage_mount_small(const char *folder, unsigned size_mib) {
  char options[64];
  snprintf(options, sizeof options, "size=%um,mode=0700", size_mib);
  if (unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
      mount("tmpfs", folder, "tmpfs", 0, options) == 0)
    return true;
  print_message("skipped: mounting a small file system needs root (%s)\n", strerror(errno));
  return false;
}

static inline void stage_unmount(const char *folder) {
  assert_int_equal(umount2(folder, MNT_DETACH), 0);
}

/* ── chains ── */

static inline block_key stage_key_step(block_key key, int32_t token) {
  struct map_key mixed = map_key_of(key.hi ^ (key.lo * 0x9e3779b97f4a7c15u) ^ (uint32_t)token);
  return (block_key){mixed.hi ^ key.lo, mixed.lo + key.hi};
}

static inline block_key stage_key(uint32_t tenant, const int32_t *tokens, uint32_t upto) {
  block_key key = map_key_of(1000 + tenant);
  for (uint32_t i = 0; i < upto; i++) key = stage_key_step(key, tokens[i]);
  return key;
}

/* Bytes of tokens [from, to): each token's follow from the whole prefix up to it. true: they are what `bytes` holds. */
static inline bool stage_bytes(void *bytes, bool is_check, uint32_t tenant, const int32_t *tokens, uint32_t from,
                               uint32_t to, uint64_t bytes_per_token) {
  block_key key = stage_key(tenant, tokens, from);
  uint8_t *at = bytes;
  for (uint32_t i = from; i < to; i++) {
    key = stage_key_step(key, tokens[i]);
    for (uint64_t b = 0; b < bytes_per_token; b += 8, at += 8) {
      uint64_t word = key.lo + b * key.hi;
      if (!is_check)
        memcpy(at, &word, 8);
      else if (memcmp(at, &word, 8) != 0)
        return false;
    }
  }
  return true;
}

static inline void stage_tokens(uint64_t seed, int32_t *tokens, uint32_t n) {
  struct rng rng;
  rng_init(&rng, seed);
  for (uint32_t i = 0; i < n; i++) tokens[i] = (int32_t)rng_below(&rng, 50000);
}

/* ── depot ── */

struct stage {
  char folder[PATH_MAX], states[PATH_MAX + 8];
  uint8_t salts[STAGE_TENANTS][32];
  struct stage_loop loop;
  struct depot_config config;
  struct depot *depot;
  size_t n_events;
  struct depot_event events[STAGE_EVENTS_MAX];
};

static inline void stage_event(void *ctx, const struct depot_event *event) {
  struct stage *stage = ctx;
  if (stage->n_events < STAGE_EVENTS_MAX) stage->events[stage->n_events++] = *event;
}

/* A config with 256 bytes a token, 8 MiB of RAM, 8 MiB of SSD, no depot yet. */
static inline struct stage *stage_create(void) {
  struct stage *stage = calloc(1, sizeof *stage);
  assert_non_null(stage);
  stage_folder_make(stage->folder);
  snprintf(stage->states, sizeof stage->states, "%s/states", stage->folder);
  pthread_mutex_init(&stage->loop.mutex, NULL);
  pthread_cond_init(&stage->loop.more, NULL);
  for (int i = 0; i < STAGE_TENANTS; i++) memset(stage->salts[i], 'a' + i, 32);
  stage->config = (struct depot_config){.folder = stage->folder,
                                        .ram_bytes = 8 << 20,
                                        .ssd_bytes = 8 << 20,
                                        .ssd_writes_bytes_per_day = 1 << 30,
                                        .bytes_per_token = 256,
                                        .salts = (const uint8_t(*)[32])stage->salts,
                                        .n_tenants = STAGE_TENANTS,
                                        .post = stage_loop_post,
                                        .post_ctx = &stage->loop,
                                        .event = stage_event,
                                        .event_ctx = stage};
  memset(stage->config.fingerprint.compat, 0x11, 32);
  memset(stage->config.fingerprint.exact, 0x22, 32);
  return stage;
}

static inline void stage_open(struct stage *stage) {
  struct error error = {{0}};
  stage->n_events = 0;
  if (depot_open(&stage->config, &stage->depot, &error) != STATUS_OK) fail_msg("%s", error.text);
}

static inline void stage_close(struct stage *stage) {
  depot_close(&stage->depot);
  while (stage_loop_step(&stage->loop, 0)) {
  }
}

static inline void stage_reopen(struct stage *stage) {
  stage_close(stage);
  stage_open(stage);
}

static inline void stage_destroy(struct stage *stage) {
  stage_close(stage);
  stage_folder_clear(stage->states);
  stage_folder_clear(stage->folder);
  rmdir(stage->folder);
  pthread_cond_destroy(&stage->loop.more);
  pthread_mutex_destroy(&stage->loop.mutex);
  free(stage);
}

/* Runs completions until *flag is up. */
static inline void stage_wait(struct stage *stage, const bool *flag) {
  time_t deadline_s = time(NULL) + STAGE_WAIT_S;
  while (!*flag)
    if (!stage_loop_step(&stage->loop, deadline_s)) fail_msg("nothing came back from the disk in %d s", STAGE_WAIT_S);
}

static inline struct depot_stats stage_stats(struct stage *stage) {
  struct depot_stats stats;
  depot_stats(stage->depot, &stats);
  return stats;
}

static inline bool stage_is_in(struct stage *stage, uint64_t segment, enum tier tier) {
  struct index_entry entry;
  return depot_segment(stage->depot, segment, &entry) == STATUS_OK && entry.bytes[tier] > 0;
}

/* Runs completions until the segment lies on disk. */
static inline void stage_wait_ssd(struct stage *stage, uint64_t segment) {
  time_t deadline_s = time(NULL) + STAGE_WAIT_S;
  while (!stage_is_in(stage, segment, TIER_SSD))
    if (!stage_loop_step(&stage->loop, deadline_s))
      fail_msg("segment %llu was not written in %d s", (unsigned long long)segment, STAGE_WAIT_S);
}

/* Saves one segment; its id, or 0 and *ret_status. */
static inline uint64_t stage_save_range(struct stage *stage, uint32_t tenant, const int32_t *tokens, uint32_t from,
                                        uint32_t to, uint32_t exact_tokens, enum status *ret_status) {
  struct depot_ticket *ticket;
  void *bytes;
  uint64_t segment = 0;
  *ret_status = depot_reserve(stage->depot, tenant, tokens, from, to, exact_tokens, stage_key(tenant, tokens, to),
                              stage_key(tenant, tokens, from), 0, &ticket, &bytes);
  if (*ret_status != STATUS_OK) return 0;
  (void)stage_bytes(bytes, false, tenant, tokens, from, to, stage->config.bytes_per_token);
  *ret_status = depot_commit(stage->depot, ticket, &segment);
  return segment;
}

/* Saves what of tokens[n] RAM lacks. */
static inline enum status stage_save(struct stage *stage, uint32_t tenant, const int32_t *tokens, uint32_t n) {
  struct index_range ranges[INDEX_MATCH_MAX];
  enum status status = STATUS_OK;
  uint32_t n_ranges = depot_missing(stage->depot, tenant, tokens, n, 0, ranges, INDEX_MATCH_MAX);
  for (uint32_t i = 0; i < n_ranges && status == STATUS_OK; i++)
    (void)stage_save_range(stage, tenant, tokens, ranges[i].from, ranges[i].to, n, &status);
  return status;
}

/* The segments of tokens[n], ids in order; how many. */
static inline uint32_t stage_chain(struct stage *stage, uint32_t tenant, const int32_t *tokens, uint32_t n,
                                   uint64_t *ret_ids) {
  struct index_match match;
  depot_match(stage->depot, tenant, tokens, n, false, &match);
  for (uint32_t i = 0; i < match.n; i++) ret_ids[i] = match.uses[i].segment;
  depot_release(stage->depot, &match);
  return match.n;
}

/* Writes the chain of tokens[n] to disk and waits for it. */
static inline void stage_demote(struct stage *stage, uint32_t tenant, const int32_t *tokens, uint32_t n) {
  uint64_t ids[INDEX_MATCH_MAX];
  uint32_t n_ids = stage_chain(stage, tenant, tokens, n, ids);
  for (uint32_t i = 0; i < n_ids; i++) {
    assert_int_equal(depot_demote(stage->depot, ids[i]), STATUS_OK);
    stage_wait_ssd(stage, ids[i]);
  }
}

/* Takes the chain of tokens[n] out of a tier, last first. */
static inline void stage_evict(struct stage *stage, uint32_t tenant, const int32_t *tokens, uint32_t n,
                               enum tier tier) {
  uint64_t ids[INDEX_MATCH_MAX];
  for (uint32_t i = stage_chain(stage, tenant, tokens, n, ids); i > 0; i--)
    assert_int_equal(depot_evict(stage->depot, ids[i - 1], tier), STATUS_OK);
}

static inline void stage_fetched(void *ctx, uint64_t bytes, uint64_t us) {
  (void)bytes;
  (void)us;
  *(bool *)ctx = true;
}

/* Tokens of the prompt that can be used now, brought from disk where need be; every byte of them is checked. */
static inline uint32_t stage_restore(struct stage *stage, uint32_t tenant, const int32_t *tokens, uint32_t n,
                                     bool is_exact) {
  struct index_match match;
  bool is_done = false;
  uint32_t usable = 0;
  depot_match(stage->depot, tenant, tokens, n, is_exact, &match);
  if (match.n > 0) {
    assert_int_equal(depot_fetch(stage->depot, &match, stage_fetched, &is_done), STATUS_OK);
    assert_false(is_done);
    stage_wait(stage, &is_done);
  }
  for (uint32_t i = 0; i < match.n; i++) {
    const void *view = depot_view(stage->depot, match.uses[i].segment);
    if (view == NULL) break;
    union {
      const void *in;
      void *out;
    } bytes = {.in = view};
    uint32_t from = match.uses[i].from, to = from + match.uses[i].tokens;
    if (!stage_bytes(bytes.out, true, tenant, tokens, from, to, stage->config.bytes_per_token))
      fail_msg("bytes of tokens [%u, %u) are not what was stored", from, to);
    usable = to;
  }
  depot_release(stage->depot, &match);
  return usable;
}

#endif
