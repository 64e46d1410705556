#include "prefix/forest.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/heap.h"
#include "base/map.h"
#include "base/number.h"

const double forest_decay_s[FOREST_DECAYS] = {60, 300, 1800};

enum { LEAF_DECAY = 2 /* which fading count values a leaf */ };

struct node {
  struct forest_node seen; /* what others read */
  block_key *keys;         /* [seen.n_blocks] */
  bool is_used;
};

/* Where the block of a key lies: node number and offset in one map value. */
struct place {
  uint32_t node, offset;
};

struct forest {
  struct forest_config config;
  struct node *nodes;                             /* [capacity]; number 0 is none */
  uint32_t capacity, count, node_max, first_free; /* free ones are linked by next_sibling */
  struct map *places;                             /* key → place */
  struct heap *leaves;                            /* of nodes without children and pins, by worth */
  uint64_t blocks;
  uint64_t now_us;
  uint32_t in_use; /* node that must not be dropped while a path grows from it */
};

static uint64_t pack(struct place place) {
  return (uint64_t)place.node << 32 | place.offset;
}

static struct place unpack(uint64_t value) {
  return (struct place){(uint32_t)(value >> 32), (uint32_t)value};
}

static struct forest_node *seen_of(struct forest *forest, uint32_t node) {
  return &forest->nodes[node].seen;
}

enum status forest_create(const struct forest_config *config, struct forest **ret_forest) {
  struct forest *forest = calloc(1, sizeof *forest);
  if (forest == NULL) return STATUS_NO_MEMORY;
  forest->config = *config;
  if (config->blocks_max == 0) forest->config.blocks_max = (uint64_t)config->nodes_max * 16;
  if (map_create(0, &forest->places) != STATUS_OK || heap_create(&forest->leaves) != STATUS_OK) {
    forest_destroy(&forest);
    return STATUS_NO_MEMORY;
  }
  *ret_forest = forest;
  return STATUS_OK;
}

void forest_destroy(struct forest **reference) {
  struct forest *forest = *reference;
  if (forest == NULL) return;
  for (uint32_t i = 1; i <= forest->node_max; i++)
    if (forest->nodes[i].is_used) free(forest->nodes[i].keys);
  free(forest->nodes);
  map_destroy(&forest->places);
  heap_destroy(&forest->leaves);
  free(forest);
  *reference = NULL;
}

/* ── nodes ── */

/* With exponential fading the order of leaves never changes while nobody asks: ln(count) + t/τ says it once and for
 * all. */
static void rank_leaf(struct forest *forest, uint32_t node) {
  const struct forest_node *seen = seen_of(forest, node);
  if (seen->first_child != FOREST_NONE || seen->pins > 0) {
    heap_remove(forest->leaves, node);
    return;
  }
  double worth = number_log(seen->decayed[LEAF_DECAY]) + (double)seen->last_us / 1e6 / forest_decay_s[LEAF_DECAY];
  (void)!heap_set(forest->leaves, node, worth); /* out of memory: this leaf is not found when room is made */
}

static void unlink_child(struct forest *forest, uint32_t node) {
  struct forest_node *seen = seen_of(forest, node);
  if (seen->parent == FOREST_NONE) return;
  struct forest_node *parent = seen_of(forest, seen->parent);
  uint32_t *link = &parent->first_child;
  while (*link != node) link = &seen_of(forest, *link)->next_sibling;
  *link = seen->next_sibling;
  parent->children--;
}

static void link_child(struct forest *forest, uint32_t parent, uint32_t node) {
  struct forest_node *seen = seen_of(forest, node);
  seen->parent = parent;
  seen->next_sibling = FOREST_NONE;
  if (parent == FOREST_NONE) return;
  seen->next_sibling = seen_of(forest, parent)->first_child;
  seen_of(forest, parent)->first_child = node;
  seen_of(forest, parent)->children++;
}

static void drop(struct forest *forest, uint32_t node) {
  if (forest->config.dropped != NULL) forest->config.dropped(forest->config.ctx, node);
  struct forest_node *seen = seen_of(forest, node);
  heap_remove(forest->leaves, node);
  for (uint32_t i = 0; i < seen->n_blocks; i++) {
    uint64_t value;
    if (map_get(forest->places, forest->nodes[node].keys[i], &value) && unpack(value).node == node)
      (void)map_remove(forest->places, forest->nodes[node].keys[i], NULL);
  }
  forest->blocks -= seen->n_blocks;
  unlink_child(forest, node);
  uint32_t parent = seen->parent;
  free(forest->nodes[node].keys);
  forest->nodes[node] = (struct node){.seen.next_sibling = forest->first_free};
  forest->first_free = node;
  forest->count--;
  if (parent != FOREST_NONE && seen_of(forest, parent)->first_child == FOREST_NONE) rank_leaf(forest, parent);
}

static bool make_room(struct forest *forest, uint32_t n_nodes, uint64_t n_blocks) {
  uint32_t kept = FOREST_NONE, leaf;
  bool fits;
  while (!(fits = forest->count + n_nodes <= forest->config.nodes_max &&
                  forest->blocks + n_blocks <= forest->config.blocks_max) &&
         heap_pop(forest->leaves, &leaf, NULL)) {
    if (leaf == forest->in_use)
      kept = leaf;
    else
      drop(forest, leaf);
  }
  if (kept != FOREST_NONE) rank_leaf(forest, kept);
  return fits;
}

static enum status take_number(struct forest *forest, uint32_t *ret_node) {
  if (forest->first_free != FOREST_NONE) {
    *ret_node = forest->first_free;
    forest->first_free = seen_of(forest, *ret_node)->next_sibling;
  } else {
    if (forest->node_max + 1 >= forest->capacity) {
      uint32_t capacity = forest->capacity < 64 ? 64 : forest->capacity * 2;
      struct node *nodes = realloc(forest->nodes, capacity * sizeof *nodes);
      if (nodes == NULL) return STATUS_NO_MEMORY;
      memset(nodes + forest->capacity, 0, (capacity - forest->capacity) * sizeof *nodes);
      forest->nodes = nodes;
      forest->capacity = capacity;
    }
    *ret_node = ++forest->node_max;
  }
  forest->nodes[*ret_node] = (struct node){.is_used = true};
  forest->count++;
  return STATUS_OK;
}

/* A node with a copy of keys[n] behind `parent`; room has been made. */
static enum status add_node(struct forest *forest, uint32_t parent, const block_key *keys, uint32_t n, uint32_t tenant,
                            uint32_t *ret_node) {
  uint32_t node;
  block_key *copy = malloc(n * sizeof *copy);
  if (copy == NULL) return STATUS_NO_MEMORY;
  enum status status = take_number(forest, &node);
  if (status != STATUS_OK) {
    free(copy);
    return status;
  }
  memcpy(copy, keys, n * sizeof *copy);
  forest->nodes[node].keys = copy;
  forest->blocks += n;
  struct forest_node *seen = seen_of(forest, node);
  seen->n_blocks = n;
  seen->tenant = tenant;
  if (parent != FOREST_NONE)
    seen->from_blocks = seen_of(forest, parent)->from_blocks + seen_of(forest, parent)->n_blocks;
  link_child(forest, parent, node);
  if (parent != FOREST_NONE) heap_remove(forest->leaves, parent);
  for (uint32_t i = 0; i < n; i++)
    if (map_set(forest->places, copy[i], pack((struct place){node, i})) != STATUS_OK) {
      drop(forest, node);
      return STATUS_NO_MEMORY;
    }
  *ret_node = node;
  return STATUS_OK;
}

/* Cuts `lower` so that its first n blocks become a node of their own above it: 0 < n < n_blocks. */
static enum status split(struct forest *forest, uint32_t lower, uint32_t n, uint32_t *ret_upper) {
  uint32_t upper, kept = forest->in_use;
  block_key *head = malloc(n * sizeof *head);
  forest->in_use = lower;
  bool fits = head != NULL && make_room(forest, 1, 0);
  forest->in_use = kept;
  enum status status = head == NULL ? STATUS_NO_MEMORY : fits ? take_number(forest, &upper) : STATUS_FULL;
  if (status != STATUS_OK) {
    free(head);
    return status;
  }
  struct node *low = &forest->nodes[lower], *up = &forest->nodes[upper];
  uint32_t parent = low->seen.parent;
  unlink_child(forest, lower);
  up->seen = low->seen;
  up->seen.first_child = FOREST_NONE;
  up->seen.children = 0;
  up->seen.ends = 0; /* what ended, ended below */
  up->seen.pins = 0;
  up->seen.n_blocks = n;
  up->keys = head;
  memcpy(head, low->keys, n * sizeof *head);
  low->seen.n_blocks -= n;
  low->seen.from_blocks += n;
  memmove(low->keys, low->keys + n, low->seen.n_blocks * sizeof *low->keys);
  for (uint32_t i = 0; i < n; i++)
    (void)!map_set(forest->places, head[i], pack((struct place){upper, i})); /* replaces: cannot fail */
  for (uint32_t i = 0; i < low->seen.n_blocks; i++)
    (void)!map_set(forest->places, low->keys[i], pack((struct place){lower, i}));
  link_child(forest, parent, upper);
  link_child(forest, upper, lower);
  rank_leaf(forest, lower);
  if (forest->config.split != NULL) forest->config.split(forest->config.ctx, upper, lower);
  *ret_upper = upper;
  return STATUS_OK;
}

/* ── a request ── */

static void fade(struct forest_node *seen, uint64_t now_us) {
  double passed_s = (double)(now_us - seen->last_us) / 1e6;
  for (int i = 0; i < FOREST_DECAYS; i++) seen->decayed[i] *= number_exp(-passed_s / forest_decay_s[i]);
}

static enum kind kind_of_ask(const struct forest_node *seen, const struct ask *ask, bool ends_here, bool is_known) {
  uint32_t end_tokens =
      ask->n_blocks > 0 ? (seen->from_blocks + seen->n_blocks) * (ask->prompt_tokens / ask->n_blocks) : 0;
  if (ends_here && is_known && ask->turn <= 1) return KIND_COMPLETE;
  if (ask->document_tokens > ask->head_tokens && end_tokens > ask->head_tokens && end_tokens <= ask->document_tokens)
    return KIND_DOCUMENT;
  if (ask->turn > 1 && seen->last_session == ask->session && ask->session != 0) return KIND_CONVERSATION;
  return KIND_SHARED;
}

static void count_ask(struct forest *forest, uint32_t node, const struct ask *ask, bool ends_here) {
  struct forest_node *seen = seen_of(forest, node);
  bool is_known = seen->asks > 0;
  seen->kinds[kind_of_ask(seen, ask, ends_here, is_known && seen->ends > 0)]++;
  if (is_known) {
    double gap_s = (double)(forest->now_us - seen->last_us) / 1e6;
    seen->gap_s = seen->asks == 1 ? gap_s : 0.7 * seen->gap_s + 0.3 * gap_s;
    fade(seen, forest->now_us);
  } else {
    seen->first_us = forest->now_us;
  }
  if (!is_known || seen->last_session != ask->session) seen->sessions++;
  for (int i = 0; i < FOREST_DECAYS; i++) seen->decayed[i] += 1;
  seen->asks++;
  seen->ends += ends_here;
  seen->last_us = forest->now_us;
  seen->last_session = ask->session;
  seen->last_turn = ask->turn;
  if (ask->material != 0) {
    seen->material = ask->material;
    seen->material_tokens = ask->prompt_tokens;
  }
  rank_leaf(forest, node);
}

/* Blocks at which a node must end even where nothing branches: the head, the document, the whole. Ascending, no
 * repeats. */
static uint32_t boundaries(const struct ask *ask, uint32_t ret_blocks[3]) {
  uint32_t block_tokens = ask->n_blocks > 0 ? ask->prompt_tokens / ask->n_blocks : 1, n = 0;
  const uint32_t wanted[3] = {ask->head_tokens / block_tokens, ask->document_tokens / block_tokens, ask->n_blocks};
  for (int i = 0; i < 3; i++)
    if (wanted[i] <= ask->n_blocks && wanted[i] > (n > 0 ? ret_blocks[n - 1] : 0)) ret_blocks[n++] = wanted[i];
  return n;
}

/* The node that ends exactly at block `upto`, walking down from `at` (which ends at *done blocks); splits where need
 * be. */
static enum status descend(struct forest *forest, const struct ask *ask, uint32_t upto, struct forest_path *path,
                           uint32_t *done) {
  while (*done < upto) {
    if (path->n == FOREST_PATH_MAX) return STATUS_FULL;
    uint32_t parent = path->n > 0 ? path->nodes[path->n - 1] : FOREST_NONE, node;
    uint64_t value;
    enum status status = STATUS_OK;
    forest->in_use = parent;
    if (map_get(forest->places, ask->keys[*done], &value)) {
      node = unpack(value).node;
      const struct node *known = &forest->nodes[node];
      /* A key names its whole prefix, so a known first block starts this node unless keys are broken. */
      if (unpack(value).offset != 0 || known->seen.parent != parent) return STATUS_INVALID;
      uint32_t shared = 1, limit = upto - *done < known->seen.n_blocks ? upto - *done : known->seen.n_blocks;
      while (shared < limit && block_key_equal(known->keys[shared], ask->keys[*done + shared])) shared++;
      if (shared < known->seen.n_blocks) status = split(forest, node, shared, &node);
      if (status == STATUS_OK) *done += shared;
      if (path->known_blocks + shared == *done) path->known_blocks = *done;
    } else {
      uint32_t n = upto - *done;
      if (!make_room(forest, 1, n)) return STATUS_FULL;
      status = add_node(forest, parent, ask->keys + *done, n, ask->tenant, &node);
      if (status == STATUS_OK) *done += n;
    }
    if (status != STATUS_OK) return status;
    path->nodes[path->n++] = node;
  }
  return STATUS_OK;
}

enum status forest_insert(struct forest *forest, const struct ask *ask, struct forest_path *ret_path) {
  if (ask->at_us > forest->now_us) forest->now_us = ask->at_us;
  ret_path->n = ret_path->known_blocks = 0;
  uint32_t upto[3], n = boundaries(ask, upto), done = 0;
  enum status status = STATUS_OK;
  for (uint32_t i = 0; i < n && status == STATUS_OK; i++) status = descend(forest, ask, upto[i], ret_path, &done);
  forest->in_use = FOREST_NONE;
  for (uint32_t i = 0; i < ret_path->n; i++)
    count_ask(forest, ret_path->nodes[i], ask, i + 1 == ret_path->n && done == ask->n_blocks);
  return status;
}

uint32_t forest_find(const struct forest *forest, const block_key *keys, uint32_t n, uint32_t *ret_blocks) {
  uint32_t low = 0, high = n; /* a known block has all blocks before it known */
  while (low < high) {
    uint32_t middle = low + (high - low + 1) / 2;
    if (map_get(forest->places, keys[middle - 1], NULL))
      low = middle;
    else
      high = middle - 1;
  }
  *ret_blocks = low;
  uint64_t value;
  return low > 0 && map_get(forest->places, keys[low - 1], &value) ? unpack(value).node : FOREST_NONE;
}

const struct forest_node *forest_node(const struct forest *forest, uint32_t node) {
  assert(node > 0 && node <= forest->node_max && forest->nodes[node].is_used);
  return &forest->nodes[node].seen;
}

block_key forest_key(const struct forest *forest, uint32_t node, uint32_t i) {
  assert(i < forest_node(forest, node)->n_blocks);
  return forest->nodes[node].keys[i];
}

double forest_decayed(const struct forest *forest, uint32_t node, unsigned decay, uint64_t now_us) {
  const struct forest_node *seen = forest_node(forest, node);
  double passed_s = now_us > seen->last_us ? (double)(now_us - seen->last_us) / 1e6 : 0;
  return seen->decayed[decay] * number_exp(-passed_s / forest_decay_s[decay]);
}

enum kind forest_kind(const struct forest *forest, uint32_t node) {
  const struct forest_node *seen = forest_node(forest, node);
  int best = 0;
  for (int kind = 1; kind < KIND_COUNT; kind++)
    if (seen->kinds[kind] > seen->kinds[best]) best = kind;
  return (enum kind)best;
}

void forest_pin(struct forest *forest, uint32_t node) {
  seen_of(forest, node)->pins++;
  rank_leaf(forest, node);
}

void forest_unpin(struct forest *forest, uint32_t node) {
  if (seen_of(forest, node)->pins > 0) seen_of(forest, node)->pins--;
  rank_leaf(forest, node);
}

uint32_t forest_count(const struct forest *forest) {
  return forest->count;
}

uint32_t forest_node_max(const struct forest *forest) {
  return forest->node_max;
}
