/* The forest as rows of text, parents before children. A node is a `node` row with its first keys, then as many `more`
 * rows as the rest needs. */
#include <assert.h>

#include "prefix/forest_state.h"
#include "prefix/row.h"

enum { KEYS_IN_ROW = 64 };

_Static_assert((int)ROW_SIZE == (int)FOREST_ROW_SIZE, "a row of the forest is a row");

/* Numbers of a node in the order they are written; keys and links are not among them. */
static void put_numbers(struct row *row, const struct forest_node *node) {
  row_put(row, node->tenant);
  row_put(row, node->born_us);
  row_put(row, node->first_us);
  row_put(row, node->last_us);
  row_put(row, node->asks);
  row_put(row, node->ends);
  row_put(row, node->branches);
  for (uint32_t i = 0; i < FOREST_FADES; i++) row_put_double(row, (double)node->fades[i]);
  row_put_double(row, (double)node->gap_s);
  row_put(row, node->pass_session);
  row_put(row, node->session_bits);
  row_put(row, node->end_session);
  row_put(row, node->end_turn);
  row_put(row, node->end_tokens);
  row_put(row, node->end_material);
  row_put(row, node->pass_material);
  row_put(row, node->repeats);
  row_put(row, node->continuations);
  row_put(row, node->heads);
  row_put(row, node->documents);
  row_put(row, node->may_prepare);
}

static bool take_float(const char **text, float *ret_number) {
  double number;
  if (!row_take_amount(text, 1e30, &number)) return false;
  *ret_number = (float)number;
  return true;
}

static bool take_numbers(const char **text, struct forest_node *node) {
  uint64_t may_prepare;
  bool is_good = row_take_u32(text, &node->tenant) && row_take(text, UINT64_MAX, &node->born_us) &&
                 row_take(text, UINT64_MAX, &node->first_us) && row_take(text, UINT64_MAX, &node->last_us) &&
                 row_take_u32(text, &node->asks) && row_take_u32(text, &node->ends) &&
                 row_take_u32(text, &node->branches);
  for (uint32_t i = 0; i < FOREST_FADES && is_good; i++) is_good = take_float(text, &node->fades[i]);
  is_good = is_good && take_float(text, &node->gap_s) && row_take(text, UINT64_MAX, &node->pass_session) &&
            row_take(text, UINT64_MAX, &node->session_bits) && row_take(text, UINT64_MAX, &node->end_session) &&
            row_take_u32(text, &node->end_turn) && row_take_u32(text, &node->end_tokens) &&
            row_take(text, UINT64_MAX, &node->end_material) && row_take(text, UINT64_MAX, &node->pass_material) &&
            row_take_u32(text, &node->repeats) && row_take_u32(text, &node->continuations) &&
            row_take_u32(text, &node->heads) && row_take_u32(text, &node->documents) && row_take(text, 1, &may_prepare);
  if (is_good) node->may_prepare = may_prepare != 0;
  return is_good && node->last_us >= node->first_us;
}

static void put_keys(struct row *row, const struct twig *twig, uint32_t from) {
  uint32_t n = twig->node.n_blocks - from < KEYS_IN_ROW ? twig->node.n_blocks - from : KEYS_IN_ROW;
  row_put(row, n);
  for (uint32_t i = from; i < from + n; i++) row_put_key(row, twig->keys[i]);
}

static bool save_node(const struct forest *forest, uint32_t id, bool (*row)(void *ctx, const char *text), void *ctx) {
  const struct twig *twig = &forest->twigs[id];
  struct row line;
  row_begin(&line, "node");
  row_put(&line, twig->node.parent != FOREST_NONE);
  row_put_key(&line, twig->node.parent ? forest_end_key(forest, twig->node.parent) : (block_key){0, 0});
  put_numbers(&line, &twig->node);
  put_keys(&line, twig, 0);
  bool goes_on = row(ctx, line.text);
  for (uint32_t from = KEYS_IN_ROW; from < twig->node.n_blocks && goes_on; from += KEYS_IN_ROW) {
    row_begin(&line, "more");
    row_put_key(&line, twig->keys[from - 1]);
    put_keys(&line, twig, from);
    goes_on = row(ctx, line.text);
  }
  return goes_on;
}

void forest_save(const struct forest *forest, bool (*row)(void *ctx, const char *text), void *ctx) {
  uint32_t id = forest->first_root;
  while (id != FOREST_NONE && save_node(forest, id, row, ctx)) {
    const struct forest_node *node = &forest->twigs[id].node;
    uint32_t next = node->first_child;
    /* Up until somebody has a younger sibling. */
    while (next == FOREST_NONE && id != FOREST_NONE) {
      next = forest->twigs[id].node.next_sibling;
      id = forest->twigs[id].node.parent;
    }
    id = next;
  }
}

struct keys {
  uint32_t n;
  block_key at[KEYS_IN_ROW];
};

static bool take_keys(const char **text, struct keys *keys) {
  uint64_t n;
  if (!row_take(text, KEYS_IN_ROW, &n) || n == 0) return false;
  keys->n = (uint32_t)n;
  for (uint32_t i = 0; i < keys->n; i++) {
    if (!row_take_key(text, &keys->at[i])) return false;
  }
  return row_is_over(*text);
}

static enum status load_node(struct forest *forest, const char *text) {
  uint64_t has_parent;
  block_key above;
  struct forest_node numbers = {0};
  struct keys keys;
  if (!row_take(&text, 1, &has_parent) || !row_take_key(&text, &above) || !take_numbers(&text, &numbers) ||
      !take_keys(&text, &keys)) {
    return STATUS_INVALID;
  }
  uint32_t parent = has_parent ? forest_ending_in(forest, above) : FOREST_NONE, id;
  if (has_parent && parent == FOREST_NONE) return STATUS_INVALID;
  if (!forest_has_room(forest, 1, keys.n)) return STATUS_FULL;
  uint32_t branches = parent == FOREST_NONE ? 0 : forest->twigs[parent].node.branches;
  enum status status = twig_grow(forest, parent, keys.at, keys.n, &id);
  if (status != STATUS_OK) return status;
  if (parent != FOREST_NONE) forest->twigs[parent].node.branches = branches;
  struct forest_node *node = &forest->twigs[id].node;
  numbers.parent = node->parent;
  numbers.next_sibling = node->next_sibling;
  numbers.previous_sibling = node->previous_sibling;
  numbers.depth_blocks = node->depth_blocks;
  numbers.n_blocks = node->n_blocks;
  *node = numbers;
  uint64_t seen_us = node->last_us > node->born_us ? node->last_us : node->born_us;
  if (seen_us > forest->now_us) forest->now_us = seen_us;
  return STATUS_OK;
}

static enum status load_more(struct forest *forest, const char *text) {
  block_key end;
  struct keys keys;
  if (!row_take_key(&text, &end) || !take_keys(&text, &keys)) return STATUS_INVALID;
  uint32_t id = forest_ending_in(forest, end);
  if (id == FOREST_NONE || forest->twigs[id].node.first_child != FOREST_NONE) return STATUS_INVALID;
  if (!forest_has_room(forest, 0, keys.n)) return STATUS_FULL;
  return twig_lengthen(forest, id, keys.at, keys.n);
}

enum status forest_load(struct forest *forest, const char *text) {
  if (row_take_word(&text, "node")) return load_node(forest, text);
  if (row_take_word(&text, "more")) return load_more(forest, text);
  return STATUS_INVALID;
}
