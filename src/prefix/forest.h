/* The prefix forest: every prefix that was asked for, as a radix forest over block keys with counters on each node;
 * path compression makes a node a run of blocks between two branchings. Bounded: the leaf worth least makes room. Holds
 * no tokens, no opinion on the future. Pure; one thread at a time. Owns its nodes. */
#ifndef FORELAY_PREFIX_FOREST_H
#define FORELAY_PREFIX_FOREST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "domain/observation.h"
#include "domain/task.h"

struct forest;

enum {
  FOREST_NONE = 0,       /* no node */
  FOREST_PATH_MAX = 512, /* nodes of one path; deeper ones are not kept */
  FOREST_DECAYS = 3
};

/* Decay times of forest_node.decayed, in seconds. */
extern const double forest_decay_s[FOREST_DECAYS];

/* Read only for others. */
struct forest_node {
  uint32_t parent, first_child, next_sibling; /* FOREST_NONE: none */
  uint32_t from_blocks;                       /* blocks above it */
  uint32_t n_blocks;                          /* its own, ≥ 1 */
  uint32_t children;
  uint32_t tenant;
  uint32_t asks;              /* requests that passed through its last block */
  uint32_t ends;              /* of those, ended in it */
  uint32_t sessions;          /* changes of session seen; a lower bound of distinct ones + 1 */
  uint32_t kinds[KIND_COUNT]; /* evidence: what each ask looked like */
  uint64_t first_us, last_us;
  double decayed[FOREST_DECAYS]; /* asks, each fading with forest_decay_s; as of last_us */
  double gap_s;                  /* moving average of the gap between asks, 0: fewer than two */
  uint64_t last_session;
  uint32_t last_turn;
  uint64_t material;        /* handle of the tokens of the last prompt through it */
  uint32_t material_tokens; /* that prompt's length */
  uint32_t pins;
};

struct forest_config {
  uint32_t nodes_max;  /* ≥ 2 */
  uint64_t blocks_max; /* keys kept in all; 0: 16 · nodes_max */
  /* Told before a node goes (its number may be given again), may be NULL. */
  void (*dropped)(void *ctx, uint32_t node);
  /* A node was cut: `upper` is new and has the beginning, `lower` keeps its number and the rest; may be NULL. */
  void (*split)(void *ctx, uint32_t upper, uint32_t lower);
  void *ctx;
};

/* Nodes of one chain from its root. */
struct forest_path {
  uint32_t n;
  uint32_t nodes[FOREST_PATH_MAX];
  uint32_t known_blocks; /* leading blocks that were there before */
};

MUST_USE enum status forest_create(const struct forest_config *config, struct forest **ret_forest);
void forest_destroy(struct forest **forest);

/* Adds the chain, splitting where it branches and at the ends of ask->head_tokens and ask->document_tokens, and counts
 * the ask on every node of the path. O(blocks). An earlier time counts as the last one. ask->n_blocks 0: an empty path.
 * STATUS_FULL: nothing could make room (all pinned); STATUS_NO_MEMORY; the forest is whole all the same, the path as
 * far as it came. */
MUST_USE enum status forest_insert(struct forest *forest, const struct ask *ask, struct forest_path *ret_path);
/* The node that holds the last of the leading known blocks of keys[n]; FOREST_NONE: none known. Changes nothing. */
uint32_t forest_find(const struct forest *forest, const block_key *keys, uint32_t n, uint32_t *ret_blocks);
/* Borrowed until the next insert. */
const struct forest_node *forest_node(const struct forest *forest, uint32_t node);
/* Key of its block i, 0 ≤ i < n_blocks. */
block_key forest_key(const struct forest *forest, uint32_t node, uint32_t i);
/* Asks fading with forest_decay_s[decay], as of now_us. */
double forest_decayed(const struct forest *forest, uint32_t node, unsigned decay, uint64_t now_us);
/* What most of its traffic looked like. */
enum kind forest_kind(const struct forest *forest, uint32_t node);
/* Pinned nodes, and those above them, are not dropped. */
void forest_pin(struct forest *forest, uint32_t node);
void forest_unpin(struct forest *forest, uint32_t node);
uint32_t forest_count(const struct forest *forest);
/* Largest number a node has had. */
uint32_t forest_node_max(const struct forest *forest);

#endif
