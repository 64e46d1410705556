/* The prefix forest: which prefixes were asked for, where they branch, and what is known of each. A radix forest over
 * block keys; one node is a run of blocks between two branchings, ends of prompts, ends of system messages or ends of
 * documents. Tenants have trees of their own, because keys are salted. Bounded in nodes, blocks and bytes; leaves of
 * least value make room. Never looks at tokens, never decides what to prepare. Equal calls give equal ids. One thread
 * at a time; owns its nodes and copies of all keys.
 *
 * A node is its end: splitting gives the upper part a new id, the lower part keeps the old one, and so the end keeps
 * its id for as long as it lives. What others keep per node they copy from lower to upper in `split`, and drop in
 * `prune`. */
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
  FOREST_NONE = 0,        /* no node */
  FOREST_ROW_SIZE = 3072, /* most bytes of a saved row, the closing 0 included */
  FOREST_FADES = 3        /* discounted counters of a node */
};

/* Time constants of the discounted counters, in seconds: 60, 300, 1800. */
extern const double forest_fade_s[FOREST_FADES];

struct forest_config {
  uint32_t nodes_max;    /* ≥ 16 */
  uint64_t blocks_max;   /* blocks in all nodes together, ≥ 16; 0: as many as bytes_max allows */
  uint64_t bytes_max;    /* of memory between calls; lowers the two above where they would exceed it. 0: no limit */
  uint32_t block_tokens; /* ≥ 1 */
  uint64_t seed;         /* of the sample of leaves that pruning looks at */
  /* All three may be NULL, run inside forest_insert and forest_plant (prune also in forest_prune), and must not call a
   * function that changes the forest. */
  void *ctx;
  /* `upper` has come to be: the beginning of what `lower` was. Both are valid, statistics are copied already. */
  void (*split)(void *ctx, uint32_t upper, uint32_t lower);
  /* The node dies; it is readable until this returns, then its id may be given again. */
  void (*prune)(void *ctx, uint32_t node);
  /* What the leaf is worth keeping for, any unit; not finite: the default, discounted asks over idle time. */
  double (*value)(void *ctx, uint32_t node, uint64_t now_us);
};

/* Read only. Counts saturate. An ask passes all nodes of its path and ends in the last. */
struct forest_node {
  uint32_t parent, first_child, next_sibling, previous_sibling; /* FOREST_NONE where there is none */
  uint32_t n_children;
  uint32_t depth_blocks; /* before its first one: end of its parent */
  uint32_t n_blocks;     /* ≥ 1 */
  uint32_t tenant;
  uint64_t born_us;           /* when it was inserted or planted, upper parts as their lower part */
  uint64_t first_us, last_us; /* asks that passed; 0: none yet */
  uint32_t asks;              /* that passed, the one that made it included */
  uint32_t ends;              /* of them, that ended here */
  uint32_t branches;          /* children it ever got */
  float fades[FOREST_FADES];  /* discounted asks as of last_us: read with forest_fade */
  float gap_s;                /* between asks, .7 old + .3 new; 0 before the second ask */
  uint64_t pass_session;      /* of the last ask that passed and had one, 0: none */
  uint64_t session_bits;      /* linear counting sketch: read with forest_sessions */
  uint64_t end_session;       /* of the last ask that ended here, 0: none */
  uint32_t end_turn;
  uint32_t end_tokens;    /* of the whole prompt of that ask, 0: none ended here */
  uint64_t end_material;  /* of that ask */
  uint64_t pass_material; /* of the last ask that passed, or of the planting: its tokens begin with this prefix */
  /* Evidence of kinds. */
  uint32_t repeats;       /* a prompt of the same length ended here again */
  uint32_t continuations; /* a session that had ended here went on with a later turn */
  uint32_t heads;         /* asks whose system message ends here */
  uint32_t documents;     /* asks or plantings with a document that ends here */
  uint16_t pins;          /* > 0: never pruned */
  bool may_prepare;       /* of the last ask that passed */
};

/* What an insertion met. Borrowed until the next call that changes the forest. */
struct forest_path {
  uint32_t n_nodes;      /* 0: the prompt is shorter than a block */
  const uint32_t *nodes; /* [n_nodes], root first, each the parent of the next */
  uint32_t end;          /* the last of them, or FOREST_NONE */
  uint32_t blocks_known; /* leading blocks that were there before */
  uint32_t head;         /* node in which the system message ends, or FOREST_NONE */
  uint32_t document;     /* node in which the document ends, or FOREST_NONE */
  uint32_t continued;    /* deepest node in which an earlier turn of this session ended, or FOREST_NONE */
  bool is_repeat;        /* the same whole prompt had ended there before */
};

/* STATUS_INVALID: a field out of range, or bytes_max too small for 16 nodes and 16 blocks. */
MUST_USE enum status forest_create(const struct forest_config *config, struct forest **ret_forest);
void forest_destroy(struct forest **forest);

/* Inserts the ask's blocks and counts it on every node of the path, O(blocks). Ends, branchings and the block boundary
 * at or before head_tokens and document_tokens become ends of nodes. Asks out of order in time count as simultaneous
 * with the last one of each node. STATUS_FULL: no room could be made (pinned, or longer than the limits);
 * STATUS_NO_MEMORY. In both cases nothing is counted, though leaves may have been pruned. Whether an ask may be
 * learned from is the caller's to check. STATUS_INVALID: a key occurs elsewhere in the forest, or twice (no chain). */
MUST_USE enum status forest_insert(struct forest *forest, const struct ask *ask, struct forest_path *ret_path);

/* What is expected to be asked, but was not. */
struct forest_seed {
  uint64_t at_us;
  uint32_t tenant;
  const block_key *keys; /* [n_blocks] */
  uint32_t n_blocks;
  uint32_t document_tokens; /* 0: no document ends in it */
  uint64_t material;
};
/* Like forest_insert, but no ask is counted. Of the path, is_repeat, head and continued stay empty. */
MUST_USE enum status forest_plant(struct forest *forest, const struct forest_seed *seed, struct forest_path *ret_path);

/* The leading blocks of keys[n] that are known, and the node that holds the last of them (not necessarily its last
 * block); 0 and FOREST_NONE when none is. Changes nothing. */
void forest_find(const struct forest *forest, const block_key *keys, uint32_t n, uint32_t *ret_node,
                 uint32_t *ret_blocks);
/* The node that holds this block and the block's place in it; FOREST_NONE when it is not known. */
uint32_t forest_holding(const struct forest *forest, block_key key, uint32_t *ret_place);
/* The node that ends with this block, else FOREST_NONE. */
uint32_t forest_ending_in(const struct forest *forest, block_key end);

/* NULL for FOREST_NONE and for ids not alive. Borrowed until the next call that changes the forest. */
const struct forest_node *forest_at(const struct forest *forest, uint32_t node);
/* i < n_blocks (asserted). */
block_key forest_block_key(const struct forest *forest, uint32_t node, uint32_t i);
block_key forest_end_key(const struct forest *forest, uint32_t node);
/* Whole prefix up to the node's end: depth_blocks + n_blocks keys, root first, at most `max`; returns how many. */
uint32_t forest_prefix_keys(const struct forest *forest, uint32_t node, block_key *ret_keys, uint32_t max);
uint32_t forest_tokens(const struct forest *forest, uint32_t node); /* of the whole prefix, full blocks */

/* Discounted asks as of now_us. */
double forest_fade(const struct forest_node *node, uint32_t which, uint64_t now_us);
/* Estimated number of distinct sessions that passed; reliable up to about 150. */
double forest_sessions(const struct forest_node *node);
/* What the node is, from its traffic alone: document where one ends, conversation where sessions go on or a session
 * passed that no other shares, complete where whole prompts repeat, shared where it branches. */
enum kind forest_kind(const struct forest_node *node);

/* A pinned node is never pruned, and so are its ancestors. Pins count. */
void forest_pin(struct forest *forest, uint32_t node);
void forest_unpin(struct forest *forest, uint32_t node);
/* Drops up to n leaves of least value (sampled); returns how many. */
uint32_t forest_prune(struct forest *forest, uint32_t n, uint64_t now_us);

uint32_t forest_count(const struct forest *forest);     /* nodes alive */
uint32_t forest_roots(const struct forest *forest);     /* of them, without parent */
uint32_t forest_ids(const struct forest *forest);       /* largest id given so far, +1: size for side arrays */
uint32_t forest_nodes_max(const struct forest *forest); /* after bytes_max */
uint64_t forest_blocks(const struct forest *forest);
size_t forest_bytes(const struct forest *forest);
/* Walks nodes by id: start with FOREST_NONE, ends with it. */
uint32_t forest_next(const struct forest *forest, uint32_t node);
/* Walks the trees: first root with FOREST_NONE, then the next one. */
uint32_t forest_next_root(const struct forest *forest, uint32_t root);

/* Calls row() for each, parents before children, until it returns false. A row is printable text without newline. */
void forest_save(const struct forest *forest, bool (*row)(void *ctx, const char *text), void *ctx);
/* Takes rows in the order they were saved, into a forest with the same block_tokens. Ids may differ from before; pins
 * are not saved. STATUS_INVALID: not such a row or out of order; STATUS_FULL: no room, the rest can be dropped.
 * Nothing changed then. */
MUST_USE enum status forest_load(struct forest *forest, const char *text);

#endif
