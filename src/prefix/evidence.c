/* What one ask tells of the nodes that it passes, and what a node's traffic says about its kind. */
#include "base/number.h"
#include "prefix/forest_state.h"

const double forest_fade_s[FOREST_FADES] = {60, 300, 1800};

static void count_up(uint32_t *count) {
  *count += *count < UINT32_MAX;
}

void node_pass(struct forest_node *node, const struct ask *ask, uint64_t at_us) {
  double gap_s = node->asks && at_us > node->last_us ? (double)(at_us - node->last_us) / 1e6 : 0;
  for (uint32_t i = 0; i < FOREST_FADES; i++) {
    node->fades[i] = (float)(node->fades[i] * number_exp(-gap_s / forest_fade_s[i]) + 1);
  }
  if (node->asks) node->gap_s = (float)(node->gap_s > 0 ? .7 * node->gap_s + .3 * gap_s : gap_s);
  if (!node->asks) node->first_us = at_us;
  node->last_us = at_us;
  count_up(&node->asks);
  if (ask->session) {
    node->session_bits |= (uint64_t)1 << (map_key_of(ask->session).lo & 63);
    node->pass_session = ask->session;
  }
  node->pass_material = ask->material;
  node->may_prepare = ask->may_prepare;
}

void node_end(struct forest_node *node, const struct ask *ask, bool is_repeat) {
  count_up(&node->ends);
  if (is_repeat) count_up(&node->repeats);
  node->end_session = ask->session;
  node->end_turn = ask->turn;
  node->end_tokens = ask->prompt_tokens;
  node->end_material = ask->material;
}

double forest_fade(const struct forest_node *node, uint32_t which, uint64_t now_us) {
  double idle_s = now_us > node->last_us ? (double)(now_us - node->last_us) / 1e6 : 0;
  return node->asks ? node->fades[which] * number_exp(-idle_s / forest_fade_s[which]) : 0;
}

/* Whang et al. 1990, "A linear-time probabilistic counting algorithm": −m ln(empty / m). */
double forest_sessions(const struct forest_node *node) {
  int empty = 64;
  for (uint64_t bits = node->session_bits; bits; bits &= bits - 1) empty--;
  return empty ? -64 * number_log(empty / 64.) : 64 * number_log(128.);
}

enum kind forest_kind(const struct forest_node *node) {
  if (node->documents) return KIND_DOCUMENT;
  if (node->branches >= 2 && node->branches > node->repeats && node->branches > node->continuations) return KIND_SHARED;
  if (node->continuations && node->continuations >= node->repeats) return KIND_CONVERSATION;
  if (node->repeats) return KIND_COMPLETE;
  if (node->heads) return KIND_SHARED;
  /* One session only, bits & (bits − 1) = 0: its own thread so far. */
  if (node->session_bits && (node->session_bits & (node->session_bits - 1)) == 0) return KIND_CONVERSATION;
  return node->ends ? KIND_COMPLETE : KIND_SHARED;
}
