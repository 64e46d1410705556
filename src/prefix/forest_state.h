/* The body of the forest, shared by the files of prefix/. Internal. */
#ifndef FORELAY_PREFIX_FOREST_STATE_H
#define FORELAY_PREFIX_FOREST_STATE_H

#include "base/map.h"
#include "base/rng.h"
#include "prefix/forest.h"

/* A node and what only the forest needs of it. */
struct twig {
  struct forest_node node; /* of a free one, next_sibling chains the free list */
  block_key *keys;         /* [node.n_blocks]; NULL: not alive */
  uint32_t last_child;
  uint32_t leaf_place; /* in leaves, + 1; 0: not there. There are the leaves without pins */
};

struct forest {
  struct forest_config config; /* limits as lowered by bytes_max */
  struct twig *twigs;          /* [twigs_size]; [0] is never alive */
  uint32_t twigs_size;
  uint32_t ids;  /* ids given at least once are below it; ≥ 1 */
  uint32_t free; /* FOREST_NONE: none below ids */
  uint32_t count;
  uint64_t blocks;
  struct map *index; /* every block key → id << 32 | depth of the block; no key occurs twice */
  uint32_t first_root, last_root, n_roots;
  uint32_t *leaves; /* [leaves_size] */
  uint32_t n_leaves, leaves_size;
  uint32_t *path; /* [path_size], of the last insertion */
  uint32_t path_size;
  struct rng rng;
  uint64_t now_us; /* largest time told so far */
};

/* A leaf below `parent` (FOREST_NONE: a root) with these keys, nothing known of it. Room must have been made.
 * STATUS_INVALID when a key is known already. Nothing changed on failure. */
MUST_USE enum status twig_grow(struct forest *forest, uint32_t parent, const block_key *keys, uint32_t n,
                               uint32_t *ret_node);
/* More keys at the end of a leaf; the same failures. */
MUST_USE enum status twig_lengthen(struct forest *forest, uint32_t leaf, const block_key *keys, uint32_t n);
bool forest_has_room(const struct forest *forest, uint32_t nodes, uint64_t blocks);
/* Counts the ask on one node. */
void node_pass(struct forest_node *node, const struct ask *ask, uint64_t at_us);
void node_end(struct forest_node *node, const struct ask *ask, bool is_repeat);

#endif
