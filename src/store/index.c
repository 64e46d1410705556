#include "store/index.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/map.h"

enum {
  SIBLINGS_MAX = 4096, /* looked at for a partial match, newest first; whole segments are found by hash */
  EXACT_REST_MIN = 64 /* tokens left before the last one so that no micro-batch is smaller (ENGINE's canonical split) */
};

struct segment {
  struct index_entry entry; /* tokens point to `tokens` below; children counts entries, present or not */
  struct segment *parent, *first_child, *next, *previous;
  struct segment **head; /* of the list of siblings it is in */
  struct map_key name;   /* in by_content */
  int32_t tokens[];
};

/* The roots of one tenant. */
struct tenant_roots {
  struct segment *first;
};

struct index {
  struct map *by_id, *by_content, *tenants;
  uint64_t next_id;
  uint64_t bytes, bytes_max;
};

static uint64_t cost_bytes(uint32_t n) {
  return sizeof(struct segment) + (uint64_t)n * sizeof(int32_t) + 4 * 24; /* and its places in two maps */
}

static struct segment *segment_of(const struct index *index, uint64_t id) {
  uint64_t found;
  return map_get(index->by_id, map_key_of(id), &found) ? (struct segment *)(uintptr_t)found : NULL;
}

static struct map_key content_name(uint32_t tenant, uint64_t parent, const int32_t *tokens, uint32_t n) {
  XXH128_hash_t hash = XXH3_128bits(tokens, (size_t)n * sizeof *tokens);
  struct map_key place = map_key_of(parent != 0 ? parent : ((uint64_t)1 << 63) | tenant);
  return (struct map_key){hash.high64 ^ place.hi, hash.low64 ^ place.lo};
}

/* NULL: out of memory (when it makes one) or none. */
static struct tenant_roots *roots_of(const struct index *index, uint32_t tenant, bool makes) {
  uint64_t found;
  if (map_get(index->tenants, map_key_of(tenant), &found)) return (struct tenant_roots *)(uintptr_t)found;
  if (!makes) return NULL;
  struct tenant_roots *roots = calloc(1, sizeof *roots);
  if (roots == NULL || map_set(index->tenants, map_key_of(tenant), (uint64_t)(uintptr_t)roots) != STATUS_OK) {
    free(roots);
    return NULL;
  }
  return roots;
}

static struct segment *first_of(const struct index *index, uint32_t tenant, const struct segment *parent) {
  if (parent != NULL) return parent->first_child;
  const struct tenant_roots *roots = roots_of(index, tenant, false);
  return roots != NULL ? roots->first : NULL;
}

static bool is_present(const struct segment *segment) {
  return segment->entry.bytes[TIER_RAM] > 0 || segment->entry.bytes[TIER_SSD] > 0;
}

static uint32_t length_of(const struct segment *segment) {
  return segment->entry.to - segment->entry.from;
}

enum status index_create(uint64_t bytes_max, struct index **ret_index) {
  struct index *index = calloc(1, sizeof *index);
  if (index == NULL) return STATUS_NO_MEMORY;
  index->next_id = 1;
  index->bytes_max = bytes_max;
  if (map_create(0, &index->by_id) != STATUS_OK || map_create(0, &index->by_content) != STATUS_OK ||
      map_create(0, &index->tenants) != STATUS_OK) {
    index_destroy(&index);
    return STATUS_NO_MEMORY;
  }
  *ret_index = index;
  return STATUS_OK;
}

static void free_values(struct map *map) {
  size_t cursor = 0;
  uint64_t value;
  while (map != NULL && map_next(map, &cursor, NULL, &value)) free((void *)(uintptr_t)value);
}

void index_destroy(struct index **reference) {
  struct index *index = *reference;
  if (index == NULL) return;
  free_values(index->by_id);
  free_values(index->tenants);
  map_destroy(&index->by_id);
  map_destroy(&index->by_content);
  map_destroy(&index->tenants);
  free(index);
  *reference = NULL;
}

/* ── finding ── */

static struct segment *find_whole(const struct index *index, uint32_t tenant, uint64_t parent, const int32_t *tokens,
                                  uint32_t n) {
  uint64_t id;
  if (!map_get(index->by_content, content_name(tenant, parent, tokens, n), &id)) return NULL;
  struct segment *segment = segment_of(index, id);
  bool is_same = segment != NULL && segment->entry.tenant == tenant && segment->entry.parent == parent &&
                 length_of(segment) == n && memcmp(segment->tokens, tokens, (size_t)n * sizeof *tokens) == 0;
  return is_same ? segment : NULL;
}

static uint32_t common(const int32_t *a, uint32_t n_a, const int32_t *b, uint32_t n_b) {
  uint32_t n = n_a < n_b ? n_a : n_b, i = 0;
  while (i < n && a[i] == b[i]) i++;
  return i;
}

uint32_t index_exact_tokens(const struct index_entry *entry) {
  return entry->exact_tokens[entry->bytes[TIER_RAM] > 0 ? TIER_RAM : TIER_SSD];
}

/* Of the tokens that a segment shares with a prompt, those that may be used. */
static uint32_t serving(const struct segment *segment, uint32_t shared, bool is_exact) {
  uint32_t from = segment->entry.from, exact_tokens = index_exact_tokens(&segment->entry);
  if (!is_exact || exact_tokens >= from + shared) return shared;
  return exact_tokens > from ? exact_tokens - from : 0;
}

/* The present child of which most leading tokens serve; ties: RAM before SSD, then the one made last. */
static struct segment *find_longest(const struct index *index, uint32_t tenant, const struct segment *parent,
                                    const int32_t *tokens, uint32_t n, bool is_exact, uint32_t *ret_tokens) {
  struct segment *best = NULL;
  unsigned looked = 0;
  *ret_tokens = 0;
  for (struct segment *child = first_of(index, tenant, parent); child != NULL && looked < SIBLINGS_MAX;
       child = child->next, looked++) {
    if (!is_present(child)) continue;
    uint32_t shared = serving(child, common(child->tokens, length_of(child), tokens, n), is_exact);
    bool is_faster = best != NULL && best->entry.bytes[TIER_RAM] == 0 && child->entry.bytes[TIER_RAM] > 0;
    if (shared > *ret_tokens || (shared == *ret_tokens && is_faster)) {
      best = child;
      *ret_tokens = shared;
    }
  }
  return best;
}

static void add_use(struct index_match *match, const struct segment *segment, uint32_t tokens) {
  match->uses[match->n++] = (struct index_use){.segment = segment->entry.id,
                                               .from = segment->entry.from,
                                               .tokens = tokens,
                                               .tier = segment->entry.bytes[TIER_RAM] > 0 ? TIER_RAM : TIER_SSD};
  match->tokens += tokens;
  if (segment->entry.task > match->task) match->task = segment->entry.task;
}

static void cut_match(struct index_match *match, uint32_t tokens) {
  match->tokens = tokens;
  while (match->n > 0 && match->uses[match->n - 1].from >= tokens) match->n--;
  if (match->n > 0) match->uses[match->n - 1].tokens = tokens - match->uses[match->n - 1].from;
}

/* How much of `tokens` found ones may serve a prompt of n. */
static uint32_t usable(uint32_t tokens, uint32_t n, bool is_exact) {
  if (tokens + 1 >= n) return n - 1;
  if (!is_exact || tokens + 1 + EXACT_REST_MIN <= n) return tokens;
  return n > EXACT_REST_MIN ? n - 1 - EXACT_REST_MIN : 0;
}

void index_match(const struct index *index, uint32_t tenant, const int32_t *tokens, uint32_t n, bool is_exact,
                 struct index_match *ret_match) {
  ret_match->tokens = ret_match->n = 0;
  ret_match->task = 0;
  const struct segment *at = NULL;
  while (ret_match->n < INDEX_MATCH_MAX && ret_match->tokens < n) {
    const int32_t *rest = tokens + ret_match->tokens;
    uint32_t n_rest = n - ret_match->tokens, shared = SEGMENT_TOKENS;
    struct segment *next = NULL;
    if (n_rest >= SEGMENT_TOKENS) next = find_whole(index, tenant, at != NULL ? at->entry.id : 0, rest, SEGMENT_TOKENS);
    if (next != NULL && (!is_present(next) || serving(next, shared, is_exact) < shared)) next = NULL;
    if (next == NULL) next = find_longest(index, tenant, at, rest, n_rest, is_exact, &shared);
    if (next == NULL) break;
    add_use(ret_match, next, shared);
    if (shared < SEGMENT_TOKENS) break;
    at = next;
  }
  if (ret_match->tokens > 0) cut_match(ret_match, usable(ret_match->tokens, n, is_exact));
}

/* Present in `tier`, and as canonical as asked for up to `to`. */
static bool is_good(const struct segment *segment, enum tier tier, uint32_t exact_tokens, uint32_t to) {
  const struct index_entry *entry = &segment->entry;
  return entry->bytes[tier] > 0 && entry->exact_tokens[tier] >= (exact_tokens < to ? exact_tokens : to);
}

/* Whether a child that is good in `tier` begins with tokens[n], the chain's `from` up to `to`. */
static bool is_covered(const struct index *index, uint32_t tenant, const struct segment *parent,
                       const struct segment *whole, const int32_t *tokens, struct index_range range,
                       uint32_t exact_tokens, enum tier tier) {
  uint32_t n = range.to - range.from;
  if (whole != NULL && is_good(whole, tier, exact_tokens, range.to)) return true;
  if (n == SEGMENT_TOKENS) return false;
  unsigned looked = 0;
  for (const struct segment *child = first_of(index, tenant, parent); child != NULL && looked < SIBLINGS_MAX;
       child = child->next, looked++)
    if (is_good(child, tier, exact_tokens, range.to) && common(child->tokens, length_of(child), tokens, n) == n)
      return true;
  return false;
}

uint32_t index_missing(const struct index *index, uint32_t tenant, const int32_t *tokens, uint32_t n,
                       uint32_t exact_tokens, enum tier tier, struct index_range *ret_ranges, uint32_t max) {
  const struct segment *at = NULL;
  uint32_t n_ranges = 0;
  bool is_known = true; /* up to `from` */
  for (uint32_t from = 0; from < n && n_ranges < max; from += SEGMENT_TOKENS) {
    uint32_t length = n - from < SEGMENT_TOKENS ? n - from : SEGMENT_TOKENS;
    struct index_range range = {from, from + length};
    const struct segment *whole =
        is_known ? find_whole(index, tenant, at != NULL ? at->entry.id : 0, tokens + from, length) : NULL;
    if (!is_known || !is_covered(index, tenant, at, whole, tokens + from, range, exact_tokens, tier))
      ret_ranges[n_ranges++] = range;
    is_known = whole != NULL;
    at = whole;
  }
  return n_ranges;
}

uint64_t index_find(const struct index *index, uint32_t tenant, const int32_t *tokens, uint32_t upto) {
  uint64_t id = 0;
  for (uint32_t from = 0; from < upto; from += SEGMENT_TOKENS) {
    const struct segment *segment = find_whole(index, tenant, id, tokens + from, SEGMENT_TOKENS);
    if (segment == NULL) return 0;
    id = segment->entry.id;
  }
  return id;
}

/* ── changing ── */

static void link_segment(struct segment *segment, struct segment **head) {
  segment->head = head;
  segment->next = *head;
  segment->previous = NULL;
  if (*head != NULL) (*head)->previous = segment;
  *head = segment;
}

static void unlink_segment(struct segment *segment) {
  if (segment->previous != NULL)
    segment->previous->next = segment->next;
  else
    *segment->head = segment->next;
  if (segment->next != NULL) segment->next->previous = segment->previous;
}

enum status index_add(struct index *index, uint32_t tenant, uint64_t parent_id, const int32_t *tokens, uint32_t from,
                      uint32_t to, block_key key, block_key parent_key, uint64_t task, uint64_t *ret_id) {
  assert(from % SEGMENT_TOKENS == 0 && from < to && to - from <= SEGMENT_TOKENS);
  uint32_t n = to - from;
  struct segment *known = find_whole(index, tenant, parent_id, tokens, n);
  if (known != NULL) {
    if (!is_present(known)) known->entry.task = task; /* it comes back */
    *ret_id = known->entry.id;
    return STATUS_OK;
  }
  struct segment *parent = parent_id != 0 ? segment_of(index, parent_id) : NULL;
  if (parent_id != 0 && (parent == NULL || parent->entry.to != from || parent->entry.tenant != tenant))
    return STATUS_INVALID;
  if (index->bytes + cost_bytes(n) > index->bytes_max) return STATUS_FULL;
  struct tenant_roots *roots = parent == NULL ? roots_of(index, tenant, true) : NULL;
  struct segment *segment = calloc(1, sizeof *segment + (size_t)n * sizeof *tokens);
  if (segment == NULL || (parent == NULL && roots == NULL)) {
    free(segment);
    return STATUS_NO_MEMORY;
  }
  memcpy(segment->tokens, tokens, (size_t)n * sizeof *tokens);
  segment->entry = (struct index_entry){.id = index->next_id,
                                        .parent = parent_id,
                                        .task = task,
                                        .tenant = tenant,
                                        .from = from,
                                        .to = to,
                                        .key = key,
                                        .parent_key = parent_key,
                                        .tokens = segment->tokens};
  segment->parent = parent;
  segment->name = content_name(tenant, parent_id, tokens, n);
  if (map_set(index->by_id, map_key_of(segment->entry.id), (uint64_t)(uintptr_t)segment) != STATUS_OK ||
      map_set(index->by_content, segment->name, segment->entry.id) != STATUS_OK) {
    (void)map_remove(index->by_id, map_key_of(segment->entry.id), NULL);
    free(segment);
    return STATUS_NO_MEMORY;
  }
  link_segment(segment, parent != NULL ? &parent->first_child : &roots->first);
  if (parent != NULL) parent->entry.children++;
  index->next_id++;
  index->bytes += cost_bytes(n);
  *ret_id = segment->entry.id;
  return STATUS_OK;
}

enum status index_get(const struct index *index, uint64_t id, struct index_entry *ret_entry) {
  const struct segment *segment = segment_of(index, id);
  if (segment == NULL) return STATUS_NOT_FOUND;
  *ret_entry = segment->entry;
  return STATUS_OK;
}

void index_set_tier(struct index *index, uint64_t id, enum tier tier, uint64_t bytes, uint32_t exact_tokens) {
  struct segment *segment = segment_of(index, id);
  if (segment == NULL) return;
  segment->entry.bytes[tier] = bytes;
  segment->entry.exact_tokens[tier] = exact_tokens;
}

bool index_remove(struct index *index, uint64_t id) {
  struct segment *segment = segment_of(index, id);
  if (segment == NULL || is_present(segment) || segment->entry.pins > 0 || segment->entry.children > 0) return false;
  uint64_t named;
  if (map_get(index->by_content, segment->name, &named) && named == id)
    (void)map_remove(index->by_content, segment->name, NULL);
  (void)map_remove(index->by_id, map_key_of(id), NULL);
  unlink_segment(segment);
  if (segment->parent != NULL) segment->parent->entry.children--;
  index->bytes -= cost_bytes(length_of(segment));
  free(segment);
  return true;
}

void index_pin(struct index *index, uint64_t id) {
  struct segment *segment = segment_of(index, id);
  if (segment != NULL) segment->entry.pins++;
}

void index_unpin(struct index *index, uint64_t id) {
  struct segment *segment = segment_of(index, id);
  if (segment != NULL && segment->entry.pins > 0) segment->entry.pins--;
}

uint32_t index_children(const struct index *index, uint64_t parent, enum tier tier) {
  const struct segment *segment = segment_of(index, parent);
  uint32_t n = 0;
  for (const struct segment *child = segment != NULL ? segment->first_child : NULL; child != NULL; child = child->next)
    n += child->entry.bytes[tier] > 0;
  return n;
}

uint64_t index_shorter(const struct index *index, uint32_t tenant, uint64_t parent, const int32_t *tokens, uint32_t n) {
  const struct segment *at = parent != 0 ? segment_of(index, parent) : NULL;
  if (parent != 0 && at == NULL) return 0;
  unsigned looked = 0;
  uint32_t longest = 0;
  uint64_t found = 0;
  for (const struct segment *child = first_of(index, tenant, at); child != NULL && looked < SIBLINGS_MAX;
       child = child->next, looked++) {
    uint32_t length = length_of(child);
    if (length < longest || length >= n || child->entry.children > 0 || child->entry.pins > 0 ||
        common(child->tokens, length, tokens, n) < length)
      continue;
    longest = length;
    found = child->entry.id;
  }
  return found;
}

/* ── walking, without recursion ── */

static struct segment *next_in_order(struct segment *segment, const struct segment *top) {
  if (segment->first_child != NULL) return segment->first_child;
  while (segment != top && segment->next == NULL) segment = segment->parent;
  return segment == top ? NULL : segment->next;
}

size_t index_subtree(const struct index *index, uint64_t id, uint64_t *ret_ids, size_t max) {
  struct segment *top = segment_of(index, id);
  size_t n = 0;
  for (struct segment *at = top; at != NULL && n < max; at = next_in_order(at, top)) ret_ids[n++] = at->entry.id;
  for (size_t i = 0; i < n / 2; i++) { /* parents came first: turn round */
    uint64_t kept = ret_ids[i];
    ret_ids[i] = ret_ids[n - 1 - i];
    ret_ids[n - 1 - i] = kept;
  }
  return n;
}

void index_each(const struct index *index, uint32_t tenant, void (*each)(void *ctx, const struct index_entry *entry),
                void *ctx) {
  size_t cursor = 0;
  uint64_t value;
  while (map_next(index->tenants, &cursor, NULL, &value))
    for (struct segment *root = ((struct tenant_roots *)(uintptr_t)value)->first; root != NULL; root = root->next) {
      if (tenant != UINT32_MAX && root->entry.tenant != tenant) break; /* all of this list are one tenant's */
      for (struct segment *at = root; at != NULL; at = next_in_order(at, root)) each(ctx, &at->entry);
    }
}

size_t index_count(const struct index *index) {
  return map_count(index->by_id);
}

uint64_t index_bytes(const struct index *index) {
  return index->bytes;
}
