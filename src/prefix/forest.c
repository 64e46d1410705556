#include "prefix/forest.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "prefix/forest_state.h"

enum {
  SAMPLE = 16,     /* leaves looked at for each one that is pruned */
  SLOT_BYTES = 32, /* of the index, for each slot */
  NODE_BYTES =
      sizeof(struct twig) + 2 * sizeof(uint32_t) + 16, /* with its places in leaves and path, and malloc's own */
  CUTS = 4 /* ends of nodes that one insertion can ask for: head, document, branching, end */
};

/* ── limits ── */

static uint64_t slots_of(uint64_t blocks) {
  uint64_t slots = 16;
  while (blocks * 4 > slots * 3) slots *= 2;
  return slots;
}

/* Nodes get at most half of the bytes; blocks what remains. */
static bool limits_fit(struct forest_config *config) {
  if (config->bytes_max == 0) {
    if (config->blocks_max == 0) config->blocks_max = (uint64_t)config->nodes_max * 64;
    return true;
  }
  uint64_t fixed = sizeof(struct forest) + sizeof(struct twig) + SLOT_BYTES * 2;
  if (config->bytes_max <= fixed) return false;
  uint64_t bytes = config->bytes_max - fixed;
  if (config->nodes_max > bytes / 2 / NODE_BYTES) config->nodes_max = (uint32_t)(bytes / 2 / NODE_BYTES);
  bytes -= (uint64_t)config->nodes_max * NODE_BYTES;
  uint64_t slots = 16;
  while (slots * 2 * SLOT_BYTES + (slots + 1) * sizeof(block_key) <= bytes) slots *= 2;
  if (bytes < slots * SLOT_BYTES) return false;
  uint64_t blocks = (bytes - slots * SLOT_BYTES) / sizeof(block_key);
  if (blocks > slots * 3 / 4) blocks = slots * 3 / 4;
  if (config->blocks_max == 0 || config->blocks_max > blocks) config->blocks_max = blocks;
  return slots_of(config->blocks_max) <= slots && config->nodes_max >= 16 && config->blocks_max >= 16;
}

enum status forest_create(const struct forest_config *config, struct forest **ret_forest) {
  struct forest_config limits = *config;
  if (config->nodes_max < 16 || config->nodes_max >= UINT32_MAX / 2 || config->block_tokens == 0) return STATUS_INVALID;
  if (config->blocks_max != 0 && config->blocks_max < 16) return STATUS_INVALID;
  if (!limits_fit(&limits)) return STATUS_INVALID;
  if (limits.blocks_max > UINT32_MAX / 2) limits.blocks_max = UINT32_MAX / 2;
  struct forest *forest = calloc(1, sizeof *forest);
  if (!forest) return STATUS_NO_MEMORY;
  enum status status = map_create((size_t)limits.blocks_max, &forest->index);
  if (status != STATUS_OK) {
    free(forest);
    return status;
  }
  forest->config = limits;
  forest->ids = 1;
  rng_init(&forest->rng, limits.seed);
  *ret_forest = forest;
  return STATUS_OK;
}

void forest_destroy(struct forest **forest) {
  if (!*forest) return;
  for (uint32_t id = 1; id < (*forest)->ids; id++) free((*forest)->twigs[id].keys);
  free((*forest)->twigs);
  free((*forest)->leaves);
  free((*forest)->path);
  map_destroy(&(*forest)->index);
  free(*forest);
  *forest = NULL;
}

bool forest_has_room(const struct forest *forest, uint32_t nodes, uint64_t blocks) {
  return nodes <= forest->config.nodes_max - forest->count && blocks <= forest->config.blocks_max - forest->blocks;
}

/* ── ids ── */

static uint32_t size_doubled(uint32_t size, uint32_t size_max) {
  uint32_t doubled = size < 32 ? 64 : size * 2;
  return doubled < size_max ? doubled : size_max;
}

static enum status id_take(struct forest *forest, uint32_t *ret_id) {
  if (forest->free != FOREST_NONE) {
    *ret_id = forest->free;
    forest->free = forest->twigs[*ret_id].node.next_sibling;
    return STATUS_OK;
  }
  if (forest->ids >= forest->twigs_size) {
    uint32_t size = size_doubled(forest->twigs_size, forest->config.nodes_max + 1);
    if (size <= forest->ids) return STATUS_FULL;
    struct twig *twigs = realloc(forest->twigs, size * sizeof *twigs);
    if (!twigs) return STATUS_NO_MEMORY;
    forest->twigs = twigs;
    /* As many leaves as nodes at most: with room for all of them, becoming a leaf cannot fail. */
    uint32_t *leaves = realloc(forest->leaves, size * sizeof *leaves);
    if (!leaves) return STATUS_NO_MEMORY;
    forest->leaves = leaves;
    memset(twigs + forest->twigs_size, 0, (size - forest->twigs_size) * sizeof *twigs);
    forest->twigs_size = forest->leaves_size = size;
  }
  *ret_id = forest->ids++;
  return STATUS_OK;
}

static void id_return(struct forest *forest, uint32_t id) {
  forest->twigs[id] = (struct twig){.node.next_sibling = forest->free};
  forest->free = id;
}

/* ── leaves that may be pruned ── */

static void leaf_sync(struct forest *forest, uint32_t id) {
  struct twig *twig = &forest->twigs[id];
  bool is_leaf = twig->keys && twig->node.first_child == FOREST_NONE && twig->node.pins == 0;
  if (is_leaf == (twig->leaf_place != 0)) return;
  if (is_leaf) {
    forest->leaves[forest->n_leaves++] = id;
    twig->leaf_place = forest->n_leaves;
    return;
  }
  uint32_t last = forest->leaves[--forest->n_leaves];
  forest->leaves[twig->leaf_place - 1] = last;
  forest->twigs[last].leaf_place = twig->leaf_place;
  twig->leaf_place = 0;
}

/* ── links ── */

static void link_last(struct forest *forest, uint32_t parent, uint32_t id) {
  struct forest_node *node = &forest->twigs[id].node;
  uint32_t *first = parent == FOREST_NONE ? &forest->first_root : &forest->twigs[parent].node.first_child;
  uint32_t *last = parent == FOREST_NONE ? &forest->last_root : &forest->twigs[parent].last_child;
  node->parent = parent;
  node->previous_sibling = *last;
  node->next_sibling = FOREST_NONE;
  *(*last == FOREST_NONE ? first : &forest->twigs[*last].node.next_sibling) = id;
  *last = id;
  forest->n_roots += parent == FOREST_NONE;
  if (parent == FOREST_NONE) return;
  forest->twigs[parent].node.n_children++;
  forest->twigs[parent].node.branches += forest->twigs[parent].node.branches < UINT32_MAX;
  leaf_sync(forest, parent);
}

static void unlink_from_parent(struct forest *forest, uint32_t id) {
  struct forest_node *node = &forest->twigs[id].node;
  uint32_t parent = node->parent;
  uint32_t *first = parent == FOREST_NONE ? &forest->first_root : &forest->twigs[parent].node.first_child;
  uint32_t *last = parent == FOREST_NONE ? &forest->last_root : &forest->twigs[parent].last_child;
  uint32_t before = node->previous_sibling, after = node->next_sibling;
  *(before == FOREST_NONE ? first : &forest->twigs[before].node.next_sibling) = after;
  *(after == FOREST_NONE ? last : &forest->twigs[after].node.previous_sibling) = before;
  forest->n_roots -= parent == FOREST_NONE;
  if (parent == FOREST_NONE) return;
  forest->twigs[parent].node.n_children--;
  leaf_sync(forest, parent);
}

/* `heir` takes the place of `id` among its siblings. */
static void link_instead(struct forest *forest, uint32_t id, uint32_t heir) {
  struct forest_node *node = &forest->twigs[id].node;
  uint32_t parent = node->parent;
  uint32_t *first = parent == FOREST_NONE ? &forest->first_root : &forest->twigs[parent].node.first_child;
  uint32_t *last = parent == FOREST_NONE ? &forest->last_root : &forest->twigs[parent].last_child;
  struct forest_node *upper = &forest->twigs[heir].node;
  upper->parent = parent;
  upper->previous_sibling = node->previous_sibling;
  upper->next_sibling = node->next_sibling;
  *(upper->previous_sibling == FOREST_NONE ? first : &forest->twigs[upper->previous_sibling].node.next_sibling) = heir;
  *(upper->next_sibling == FOREST_NONE ? last : &forest->twigs[upper->next_sibling].node.previous_sibling) = heir;
}

/* ── growing ── */

static uint64_t place_of(uint32_t id, uint32_t depth) {
  return (uint64_t)id << 32 | depth;
}

static enum status index_add(struct forest *forest, uint32_t id, uint32_t depth, const block_key *keys, uint32_t n) {
  enum status status = STATUS_OK;
  uint32_t i = 0;
  for (; i < n; i++) {
    status = map_get(forest->index, keys[i], NULL) ? STATUS_INVALID
                                                   : map_set(forest->index, keys[i], place_of(id, depth + i));
    if (status != STATUS_OK) break;
  }
  if (status == STATUS_OK) return STATUS_OK;
  while (i-- > 0) map_remove(forest->index, keys[i], NULL);
  return status;
}

static uint32_t end_depth(const struct forest *forest, uint32_t id) {
  return id == FOREST_NONE ? 0 : forest->twigs[id].node.depth_blocks + forest->twigs[id].node.n_blocks;
}

enum status twig_grow(struct forest *forest, uint32_t parent, const block_key *keys, uint32_t n, uint32_t *ret_node) {
  uint32_t id, depth = end_depth(forest, parent);
  block_key *copy = malloc(n * sizeof *copy);
  if (!copy) return STATUS_NO_MEMORY;
  enum status status = id_take(forest, &id);
  if (status != STATUS_OK) {
    free(copy);
    return status;
  }
  status = index_add(forest, id, depth, keys, n);
  if (status != STATUS_OK) {
    free(copy);
    id_return(forest, id);
    return status;
  }
  memcpy(copy, keys, n * sizeof *copy);
  forest->twigs[id] = (struct twig){.node = {.depth_blocks = depth, .n_blocks = n}, .keys = copy};
  forest->count++;
  forest->blocks += n;
  link_last(forest, parent, id);
  leaf_sync(forest, id);
  *ret_node = id;
  return STATUS_OK;
}

enum status twig_lengthen(struct forest *forest, uint32_t leaf, const block_key *keys, uint32_t n) {
  struct twig *twig = &forest->twigs[leaf];
  assert(twig->node.first_child == FOREST_NONE);
  enum status status = index_add(forest, leaf, end_depth(forest, leaf), keys, n);
  if (status != STATUS_OK) return status;
  block_key *longer = realloc(twig->keys, ((size_t)twig->node.n_blocks + n) * sizeof *longer);
  if (!longer) {
    for (uint32_t i = 0; i < n; i++) map_remove(forest->index, keys[i], NULL);
    return STATUS_NO_MEMORY;
  }
  twig->keys = longer;
  memcpy(longer + twig->node.n_blocks, keys, n * sizeof *keys);
  twig->node.n_blocks += n;
  forest->blocks += n;
  return STATUS_OK;
}

/* The statistics that belong to passing go to both parts, those of ending stay with the end. */
static struct forest_node upper_part(const struct forest_node *lower) {
  struct forest_node upper = *lower;
  upper.ends = upper.repeats = upper.continuations = upper.heads = upper.documents = 0;
  upper.end_session = upper.end_material = 0;
  upper.end_turn = upper.end_tokens = 0;
  upper.pins = 0;
  upper.n_children = upper.branches = 0;
  upper.first_child = FOREST_NONE;
  return upper;
}

/* The first `at` blocks of the node become a node of their own. */
static enum status node_split(struct forest *forest, uint32_t lower, uint32_t at, uint32_t *ret_upper) {
  block_key *keys = malloc(at * sizeof *keys);
  if (!keys) return STATUS_NO_MEMORY;
  uint32_t upper;
  enum status status = id_take(forest, &upper);
  if (status != STATUS_OK) {
    free(keys);
    return status;
  }
  struct twig *below = &forest->twigs[lower], *above = &forest->twigs[upper];
  memcpy(keys, below->keys, at * sizeof *keys);
  memmove(below->keys, below->keys + at, (below->node.n_blocks - at) * sizeof *keys);
  block_key *shorter = realloc(below->keys, (below->node.n_blocks - at) * sizeof *keys);
  if (shorter) below->keys = shorter;
  *above = (struct twig){.node = upper_part(&below->node), .keys = keys};
  above->node.n_blocks = at;
  below->node.n_blocks -= at;
  below->node.depth_blocks += at;
  for (uint32_t i = 0; i < at; i++) {
    status = map_set(forest->index, keys[i], place_of(upper, above->node.depth_blocks + i));
    assert(status == STATUS_OK); /* the key is there: replacing takes no memory */
  }
  forest->count++;
  link_instead(forest, lower, upper);
  link_last(forest, upper, lower);
  *ret_upper = upper;
  if (forest->config.split) forest->config.split(forest->config.ctx, upper, lower);
  return STATUS_OK;
}

/* ── pruning ── */

static double leaf_value(const struct forest *forest, uint32_t id) {
  const struct forest_node *node = &forest->twigs[id].node;
  double value = forest->config.value ? forest->config.value(forest->config.ctx, id, forest->now_us) : 0;
  if (forest->config.value && number_is_finite(value)) return value;
  uint64_t used_us = node->last_us > node->born_us ? node->last_us : node->born_us;
  double idle_s = forest->now_us > used_us ? (double)(forest->now_us - used_us) / 1e6 : 0;
  return (1 + forest_fade(node, FOREST_FADES - 1, forest->now_us)) / (60 + idle_s);
}

/* Less worth keeping first; of equal ones the deeper, then the lower id. */
static bool goes_first(const struct forest *forest, uint32_t a, double value_a, uint32_t b, double value_b) {
  if (value_a != value_b) return value_a < value_b;
  uint32_t depth_a = end_depth(forest, a), depth_b = end_depth(forest, b);
  return depth_a != depth_b ? depth_a > depth_b : a < b;
}

static uint32_t victim(struct forest *forest) {
  uint32_t chosen = FOREST_NONE, n = forest->n_leaves < SAMPLE ? forest->n_leaves : SAMPLE;
  double chosen_value = 0;
  for (uint32_t i = 0; i < n; i++) {
    uint32_t id = forest->leaves[n < SAMPLE ? i : rng_below(&forest->rng, forest->n_leaves)];
    double value = leaf_value(forest, id);
    if (chosen == FOREST_NONE || goes_first(forest, id, value, chosen, chosen_value)) {
      chosen = id;
      chosen_value = value;
    }
  }
  return chosen;
}

static void leaf_drop(struct forest *forest, uint32_t id) {
  struct twig *twig = &forest->twigs[id];
  if (forest->config.prune) forest->config.prune(forest->config.ctx, id);
  for (uint32_t i = 0; i < twig->node.n_blocks; i++) map_remove(forest->index, twig->keys[i], NULL);
  forest->blocks -= twig->node.n_blocks;
  forest->count--;
  unlink_from_parent(forest, id);
  free(twig->keys);
  twig->keys = NULL;
  leaf_sync(forest, id);
  id_return(forest, id);
}

uint32_t forest_prune(struct forest *forest, uint32_t n, uint64_t now_us) {
  if (now_us > forest->now_us) forest->now_us = now_us;
  uint32_t dropped = 0;
  for (uint32_t id; dropped < n && (id = victim(forest)) != FOREST_NONE; dropped++) leaf_drop(forest, id);
  return dropped;
}

void forest_pin(struct forest *forest, uint32_t node) {
  struct twig *twig = &forest->twigs[node];
  assert(twig->keys);
  twig->node.pins += twig->node.pins < UINT16_MAX;
  leaf_sync(forest, node);
}

void forest_unpin(struct forest *forest, uint32_t node) {
  struct twig *twig = &forest->twigs[node];
  assert(twig->keys && twig->node.pins > 0);
  if (twig->node.pins < UINT16_MAX) twig->node.pins--;
  leaf_sync(forest, node);
}

/* Leaves make room for new nodes and blocks; `spared` stays, and all above it with it. */
static enum status make_room(struct forest *forest, uint32_t nodes, uint64_t blocks, uint32_t spared) {
  if (nodes > forest->config.nodes_max || blocks > forest->config.blocks_max) return STATUS_FULL;
  if (spared != FOREST_NONE) forest_pin(forest, spared);
  enum status status = STATUS_OK;
  while (status == STATUS_OK && !forest_has_room(forest, nodes, blocks)) {
    if (forest_prune(forest, 1, forest->now_us) == 0) status = STATUS_FULL;
  }
  if (spared != FOREST_NONE) forest_unpin(forest, spared);
  return status;
}

/* ── inserting ── */

static uint32_t child_beginning_with(const struct forest *forest, uint32_t parent, block_key key) {
  uint64_t place;
  if (!map_get(forest->index, key, &place)) return FOREST_NONE;
  uint32_t id = (uint32_t)(place >> 32);
  const struct forest_node *node = &forest->twigs[id].node;
  return node->parent == parent && node->depth_blocks == (uint32_t)place ? id : FOREST_NONE;
}

void forest_find(const struct forest *forest, const block_key *keys, uint32_t n, uint32_t *ret_node,
                 uint32_t *ret_blocks) {
  uint32_t at = 0, id = FOREST_NONE;
  while (at < n) {
    uint32_t child = child_beginning_with(forest, id, keys[at]);
    if (child == FOREST_NONE) break;
    id = child;
    const struct twig *twig = &forest->twigs[id];
    uint32_t i = 0;
    while (i < twig->node.n_blocks && at < n && block_key_equal(twig->keys[i], keys[at])) i++, at++;
    if (i < twig->node.n_blocks) break;
  }
  *ret_node = id;
  *ret_blocks = at;
}

/* Ends of nodes that the new path wants, ascending, without repetition, the end of the path among them. */
struct cuts {
  uint32_t n;
  uint32_t at[CUTS];
};

static void cut_add(struct cuts *cuts, uint32_t at) {
  uint32_t i = cuts->n;
  for (uint32_t k = 0; k < cuts->n; k++) {
    if (cuts->at[k] == at) return;
  }
  for (; i > 0 && cuts->at[i - 1] > at; i--) cuts->at[i] = cuts->at[i - 1];
  cuts->at[i] = at;
  cuts->n++;
}

static enum status path_reserve(struct forest *forest, uint32_t size) {
  if (size <= forest->path_size) return STATUS_OK;
  uint32_t larger = size_doubled(forest->path_size, forest->config.nodes_max);
  if (larger < size) larger = size;
  uint32_t *path = realloc(forest->path, larger * sizeof *path);
  if (!path) return STATUS_NO_MEMORY;
  forest->path = path;
  forest->path_size = larger;
  return STATUS_OK;
}

/* The nodes of keys[0 … n) into forest->path; every block must be known and n be the end of a node. */
static enum status path_collect(struct forest *forest, uint32_t end, uint32_t *ret_n) {
  uint32_t n = 0;
  for (uint32_t id = end; id != FOREST_NONE; id = forest->twigs[id].node.parent) n++;
  enum status status = path_reserve(forest, n);
  if (status != STATUS_OK) return status;
  *ret_n = n;
  for (uint32_t id = end; id != FOREST_NONE; id = forest->twigs[id].node.parent) forest->path[--n] = id;
  return STATUS_OK;
}

/* The block before `at`, a known one, ends a node already. */
static bool is_cut(const struct forest *forest, block_key key) {
  return forest_ending_in(forest, key) != FOREST_NONE;
}

/* Makes `at` the end of a node, which it is found in by its key. */
static enum status cut_known(struct forest *forest, block_key key, uint32_t at) {
  uint64_t place;
  bool is_known = map_get(forest->index, key, &place);
  assert(is_known);
  (void)is_known;
  uint32_t id = (uint32_t)(place >> 32), upper;
  if (end_depth(forest, id) == at) return STATUS_OK;
  return node_split(forest, id, at - forest->twigs[id].node.depth_blocks, &upper);
}

/* Grows what is not known yet below `parent`, a node for each cut. Undone on failure. */
static enum status tail_grow(struct forest *forest, const struct cuts *cuts, const block_key *keys, uint32_t known,
                             uint32_t *end) {
  uint32_t grown = 0, parent = *end;
  enum status status = STATUS_OK;
  for (uint32_t i = 0; i < cuts->n && status == STATUS_OK; i++) {
    if (cuts->at[i] <= known) continue;
    status = twig_grow(forest, parent, keys + known, cuts->at[i] - known, &parent);
    if (status != STATUS_OK) break;
    known = cuts->at[i];
    grown++;
  }
  if (status == STATUS_OK) {
    *end = parent;
    return STATUS_OK;
  }
  while (grown-- > 0) {
    uint32_t above = forest->twigs[parent].node.parent;
    if (above != FOREST_NONE && forest->twigs[above].node.branches > 0) forest->twigs[above].node.branches--;
    leaf_drop(forest, parent);
    parent = above;
  }
  return status;
}

struct trace {
  const block_key *keys;
  uint32_t n, known, end;
  uint64_t at_us;
  uint32_t tenant;
};

/* Makes the chain a path of nodes; new ones know their tenant and when they were born. */
static enum status path_make(struct forest *forest, struct trace *trace, struct cuts *cuts, uint32_t *ret_n) {
  uint32_t holder;
  if (trace->at_us > forest->now_us) forest->now_us = trace->at_us;
  forest_find(forest, trace->keys, trace->n, &holder, &trace->known);
  cut_add(cuts, trace->n);
  if (trace->known > 0) cut_add(cuts, trace->known);
  uint32_t nodes = 0;
  for (uint32_t i = 0; i < cuts->n; i++) {
    nodes += cuts->at[i] > trace->known || !is_cut(forest, trace->keys[cuts->at[i] - 1]);
  }
  enum status status = make_room(forest, nodes, trace->n - trace->known, holder);
  for (uint32_t i = 0; i < cuts->n && status == STATUS_OK && cuts->at[i] <= trace->known; i++) {
    status = cut_known(forest, trace->keys[cuts->at[i] - 1], cuts->at[i]);
  }
  if (status != STATUS_OK) return status;
  uint32_t parent = trace->known ? forest_ending_in(forest, trace->keys[trace->known - 1]) : FOREST_NONE;
  trace->end = parent;
  status = tail_grow(forest, cuts, trace->keys, trace->known, &trace->end);
  if (status != STATUS_OK) return status;
  for (uint32_t id = trace->end; id != parent; id = forest->twigs[id].node.parent) {
    forest->twigs[id].node.tenant = trace->tenant;
    forest->twigs[id].node.born_us = forest->now_us;
    forest->twigs[id].node.may_prepare = true;
  }
  return path_collect(forest, trace->end, ret_n);
}

static uint32_t boundary_of(const struct forest *forest, uint32_t tokens, uint32_t n_blocks) {
  uint32_t blocks = tokens / forest->config.block_tokens;
  return blocks < n_blocks ? blocks : n_blocks;
}

enum status forest_insert(struct forest *forest, const struct ask *ask, struct forest_path *ret_path) {
  uint32_t n = ask->n_blocks, n_nodes = 0;
  struct trace trace = {.keys = ask->keys, .n = n, .at_us = ask->at_us, .tenant = ask->tenant};
  struct forest_path path = {.end = FOREST_NONE};
  if (n == 0) {
    *ret_path = path;
    return STATUS_OK;
  }
  struct cuts cuts = {0};
  uint32_t head = boundary_of(forest, ask->head_tokens, n), document = boundary_of(forest, ask->document_tokens, n);
  if (head) cut_add(&cuts, head);
  if (document) cut_add(&cuts, document);
  enum status status = path_make(forest, &trace, &cuts, &n_nodes);
  if (status != STATUS_OK) return status;
  path = (struct forest_path){.n_nodes = n_nodes, .nodes = forest->path, .end = trace.end, .blocks_known = trace.known};
  for (uint32_t i = 0; i < n_nodes; i++) {
    struct forest_node *node = &forest->twigs[forest->path[i]].node;
    if (ask->session && node->end_session == ask->session && node->end_turn < ask->turn) {
      path.continued = forest->path[i];
    }
    if (head && end_depth(forest, forest->path[i]) == head) path.head = forest->path[i];
    if (document && end_depth(forest, forest->path[i]) == document) path.document = forest->path[i];
    node_pass(node, ask, forest->now_us);
  }
  struct forest_node *end = &forest->twigs[trace.end].node;
  path.is_repeat = end->ends > 0 && end->end_tokens == ask->prompt_tokens;
  node_end(end, ask, path.is_repeat);
  if (path.continued) forest->twigs[path.continued].node.continuations++;
  if (path.head) forest->twigs[path.head].node.heads++;
  if (path.document) forest->twigs[path.document].node.documents++;
  *ret_path = path;
  return STATUS_OK;
}

enum status forest_plant(struct forest *forest, const struct forest_seed *seed, struct forest_path *ret_path) {
  uint32_t n_nodes = 0;
  struct trace trace = {.keys = seed->keys, .n = seed->n_blocks, .at_us = seed->at_us, .tenant = seed->tenant};
  struct forest_path path = {.end = FOREST_NONE};
  if (seed->n_blocks == 0) {
    *ret_path = path;
    return STATUS_OK;
  }
  struct cuts cuts = {0};
  uint32_t document = boundary_of(forest, seed->document_tokens, seed->n_blocks);
  if (document) cut_add(&cuts, document);
  enum status status = path_make(forest, &trace, &cuts, &n_nodes);
  if (status != STATUS_OK) return status;
  path = (struct forest_path){.n_nodes = n_nodes, .nodes = forest->path, .end = trace.end, .blocks_known = trace.known};
  for (uint32_t i = 0; i < n_nodes; i++) {
    struct forest_node *node = &forest->twigs[forest->path[i]].node;
    node->pass_material = seed->material;
    if (document && end_depth(forest, forest->path[i]) == document) {
      path.document = forest->path[i];
      node->documents++;
    }
  }
  *ret_path = path;
  return STATUS_OK;
}

/* ── looking ── */

uint32_t forest_holding(const struct forest *forest, block_key key, uint32_t *ret_place) {
  uint64_t place;
  if (!map_get(forest->index, key, &place)) return FOREST_NONE;
  uint32_t id = (uint32_t)(place >> 32);
  if (ret_place) *ret_place = (uint32_t)place - forest->twigs[id].node.depth_blocks;
  return id;
}

uint32_t forest_ending_in(const struct forest *forest, block_key end) {
  uint32_t place, id = forest_holding(forest, end, &place);
  return id != FOREST_NONE && place + 1 == forest->twigs[id].node.n_blocks ? id : FOREST_NONE;
}

const struct forest_node *forest_at(const struct forest *forest, uint32_t node) {
  return node < forest->ids && node != FOREST_NONE && forest->twigs[node].keys ? &forest->twigs[node].node : NULL;
}

block_key forest_block_key(const struct forest *forest, uint32_t node, uint32_t i) {
  assert(forest_at(forest, node) && i < forest->twigs[node].node.n_blocks);
  return forest->twigs[node].keys[i];
}

block_key forest_end_key(const struct forest *forest, uint32_t node) {
  return forest_block_key(forest, node, forest->twigs[node].node.n_blocks - 1);
}

uint32_t forest_prefix_keys(const struct forest *forest, uint32_t node, block_key *ret_keys, uint32_t max) {
  uint32_t n = end_depth(forest, node);
  for (uint32_t id = node; id != FOREST_NONE; id = forest->twigs[id].node.parent) {
    const struct twig *twig = &forest->twigs[id];
    for (uint32_t i = 0; i < twig->node.n_blocks; i++) {
      if (twig->node.depth_blocks + i < max) ret_keys[twig->node.depth_blocks + i] = twig->keys[i];
    }
  }
  return n < max ? n : max;
}

uint32_t forest_tokens(const struct forest *forest, uint32_t node) {
  return end_depth(forest, node) * forest->config.block_tokens;
}

uint32_t forest_count(const struct forest *forest) {
  return forest->count;
}

uint32_t forest_roots(const struct forest *forest) {
  return forest->n_roots;
}

uint32_t forest_ids(const struct forest *forest) {
  return forest->ids;
}

uint32_t forest_nodes_max(const struct forest *forest) {
  return forest->config.nodes_max;
}

uint64_t forest_blocks(const struct forest *forest) {
  return forest->blocks;
}

size_t forest_bytes(const struct forest *forest) {
  return sizeof *forest + forest->twigs_size * (sizeof *forest->twigs + sizeof *forest->leaves) +
         forest->path_size * sizeof *forest->path + map_bytes(forest->index) +
         (size_t)forest->blocks * sizeof(block_key) + (size_t)forest->count * 16;
}

uint32_t forest_next(const struct forest *forest, uint32_t node) {
  for (uint32_t id = node + 1; id < forest->ids; id++) {
    if (forest->twigs[id].keys) return id;
  }
  return FOREST_NONE;
}

uint32_t forest_next_root(const struct forest *forest, uint32_t root) {
  return root == FOREST_NONE ? forest->first_root : forest->twigs[root].node.next_sibling;
}
