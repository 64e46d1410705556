/* The imagined store and the imagined forelay, token by token. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "plan/rivals.h"

enum { BLOCK = 16, UNIT = 128, TOKENS_MAX = 640, TOKEN_BYTES = 10 };

/* A prompt and the chain keys of its blocks. */
struct text {
  uint32_t n;
  int32_t tokens[TOKENS_MAX];
  block_key keys[TOKENS_MAX / BLOCK];
};

static void text_key(struct text *text, uint64_t tenant) {
  struct map_key at = map_key_of(tenant);
  for (uint32_t i = 0; i < text->n / BLOCK * BLOCK; i++) {
    at = map_key_of(at.lo * 31 + (uint64_t)text->tokens[i]);
    if (i % BLOCK == BLOCK - 1) text->keys[i / BLOCK] = at;
  }
}

/* `n` tokens of text number `number` behind what is there. */
static void text_add(struct text *text, uint64_t number, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) text->tokens[text->n++] = (int32_t)(map_key_of(number * 1000 + i).lo % 50000);
  text_key(text, 1);
}

static struct passage passage(const struct text *text) {
  return passage_of(text->keys, text->tokens, text->n, BLOCK);
}

static struct shelf_config shelf_config(uint64_t ram_tokens, uint64_t ssd_tokens) {
  return (struct shelf_config){.policy = RETENTION_LRU,
                               .ram_bytes = ram_tokens * TOKEN_BYTES,
                               .ssd_bytes = ssd_tokens * TOKEN_BYTES,
                               .ssd_writes_bytes_per_day = UINT64_MAX,
                               .bytes_per_token = TOKEN_BYTES,
                               .block_tokens = BLOCK,
                               .segments_max = 4096};
}

/* ── the store against the plainest one that can be written ── */

struct plain_segment {
  int32_t path[TOKENS_MAX]; /* [to] */
  uint32_t from, to;
  uint64_t stamp;
  bool is_there;
};

struct plain {
  struct plain_segment segments[4096];
  uint32_t n;
  uint64_t clock, capacity, used;
};

/* Of the text, what the segment adds to a chain that reaches to its beginning. */
static uint32_t plain_common(const struct plain_segment *segment, const struct text *text) {
  uint32_t i = 0;
  while (i < segment->to && i < text->n && segment->path[i] == text->tokens[i]) i++;
  return i > segment->from ? i - segment->from : 0;
}

static uint32_t plain_match(const struct plain *plain, const struct text *text, uint32_t *path, uint32_t *ret_n) {
  uint32_t at = 0;
  for (*ret_n = 0;;) {
    uint32_t best = 0, found = 0;
    for (uint32_t i = 0; i < plain->n; i++) {
      const struct plain_segment *segment = &plain->segments[i];
      uint32_t common = segment->is_there && segment->from == at ? plain_common(segment, text) : 0;
      if (common > best || (common == best && common > 0)) { /* of equal ones the newest */
        best = common;
        found = i;
      }
    }
    if (!best) return at;
    path[(*ret_n)++] = found;
    at += best;
    if (best < UNIT) return at;
  }
}

static bool plain_is_leaf(const struct plain *plain, uint32_t i) {
  const struct plain_segment *parent = &plain->segments[i];
  for (uint32_t j = 0; j < plain->n; j++) {
    const struct plain_segment *segment = &plain->segments[j];
    if (segment->is_there && segment->from == parent->to && parent->to - parent->from == UNIT &&
        memcmp(segment->path, parent->path, parent->to * sizeof(int32_t)) == 0) {
      return false;
    }
  }
  return true;
}

static void plain_drop(struct plain *plain, uint32_t i) {
  plain->segments[i].is_there = false;
  plain->used -= plain->segments[i].to - plain->segments[i].from;
}

static void plain_touch(struct plain *plain, const struct text *text) {
  uint32_t path[TOKENS_MAX / UNIT + 1], n;
  (void)plain_match(plain, text, path, &n);
  for (uint32_t i = 0; i < n; i++) plain->segments[path[i]].stamp = plain->clock + n - i;
  plain->clock += n;
}

static void plain_keep(struct plain *plain, const struct text *text) {
  uint32_t path[TOKENS_MAX / UNIT + 1], n, matched = plain_match(plain, text, path, &n);
  if (matched == text->n) return;
  struct plain_segment *last = n ? &plain->segments[path[n - 1]] : NULL;
  if (last && last->to - last->from < UNIT) { /* a shorter end */
    n--;
    if (last->to == matched) plain_drop(plain, path[n]);
  } else if (last && last->to > matched) {
    n--; /* part of a whole one */
  }
  uint32_t at = n ? plain->segments[path[n - 1]].to : 0;
  while (plain->used + text->n - at > plain->capacity) {
    uint32_t victim = UINT32_MAX;
    for (uint32_t i = 0; i < plain->n; i++) {
      bool is_own = n && i == path[n - 1];
      if (!plain->segments[i].is_there || is_own || !plain_is_leaf(plain, i)) continue;
      if (victim == UINT32_MAX || plain->segments[i].stamp < plain->segments[victim].stamp) victim = i;
    }
    assert_true(victim != UINT32_MAX);
    plain_drop(plain, victim);
  }
  for (uint32_t to; at < text->n; at = to) {
    to = text->n - at < UNIT ? text->n : at + UNIT;
    assert_true(plain->n < 4096);
    struct plain_segment *segment = &plain->segments[plain->n++];
    *segment = (struct plain_segment){.from = at, .to = to, .stamp = ++plain->clock, .is_there = true};
    memcpy(segment->path, text->tokens, to * sizeof(int32_t));
    plain->used += to - at;
  }
}

static void the_store_is_a_plain_lru_of_segments(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= 10; seed++) {
    struct rng rng;
    rng_init(&rng, seed);
    struct plain *plain = calloc(1, sizeof *plain);
    assert_non_null(plain);
    plain->capacity = 1500 + rng_below(&rng, 1500);
    struct shelf_config config = shelf_config(plain->capacity, 0);
    struct shelf *shelf;
    assert_int_equal(shelf_create(&config, &shelf), STATUS_OK);
    uint64_t hits = 0, asked = 0;
    for (uint32_t step = 1; step <= 400; step++) {
      struct text text = {0};
      text_add(&text, 1 + rng_below(&rng, 2), 100 + (uint32_t)rng_below(&rng, 3) * 100);
      text_add(&text, 10 + rng_below(&rng, 6), (uint32_t)rng_below(&rng, 300));
      struct passage at = passage(&text);
      uint32_t path[8], n, expected = plain_match(plain, &text, path, &n);
      assert_int_equal(shelf_match(shelf, &at), expected);
      hits += expected;
      asked += text.n;
      plain_touch(plain, &text);
      assert_int_equal(shelf_ask(shelf, step, &at, step), STATUS_OK);
      plain_keep(plain, &text);
      assert_int_equal(shelf_keep(shelf, &at, TIER_RAM, step), STATUS_OK);
      shelf_settle(shelf, step);
      assert_int_equal(shelf_match(shelf, &at), text.n);
      assert_int_equal(shelf_bytes(shelf, TIER_RAM), plain->used * TOKEN_BYTES);
    }
    printf("seed %d: %.0f %% found in %d tokens\n", (int)seed, 100.0 * (double)hits / (double)asked,
           (int)plain->capacity);
    assert_true(hits > asked / 5);
    shelf_destroy(&shelf);
    free(plain);
  }
}

static void equal_tokens_of_another_tenant_are_not_found(void **state) {
  (void)state;
  struct shelf_config config = shelf_config(4000, 0);
  struct shelf *shelf;
  assert_int_equal(shelf_create(&config, &shelf), STATUS_OK);
  struct text text = {0};
  text_add(&text, 1, 200);
  struct passage at = passage(&text);
  assert_int_equal(shelf_keep(shelf, &at, TIER_RAM, 1), STATUS_OK);
  text_key(&text, 2);
  assert_int_equal(shelf_match(shelf, &at), 0);
  shelf_destroy(&shelf);
}

/* What was asked for twice is on SSD, and outlives RAM; a copy back costs RAM its room again. */
static void what_is_used_twice_is_written(void **state) {
  (void)state;
  struct shelf_config config = shelf_config(600, 4000);
  struct shelf *shelf;
  assert_int_equal(shelf_create(&config, &shelf), STATUS_OK);
  struct text kept = {0}, once = {0};
  text_add(&kept, 1, 500);
  text_add(&once, 2, 500);
  struct passage at = passage(&kept), other = passage(&once);
  assert_int_equal(shelf_keep(shelf, &other, TIER_RAM, 1), STATUS_OK);
  assert_int_equal(shelf_use(shelf, &other, 0, 1), STATUS_OK);
  assert_int_equal(shelf_keep(shelf, &at, TIER_RAM, 2), STATUS_OK);
  assert_int_equal(shelf_use(shelf, &at, 0, 2), STATUS_OK);
  assert_int_equal(shelf_bytes(shelf, TIER_SSD), 0);
  assert_int_equal(shelf_use(shelf, &at, 0, 3), STATUS_OK);
  assert_int_equal(shelf_bytes(shelf, TIER_SSD), 500 * TOKEN_BYTES);
  assert_int_equal(shelf_match(shelf, &other), 0);
  assert_int_equal(shelf_keep(shelf, &other, TIER_RAM, 4), STATUS_OK);
  assert_int_equal(shelf_match(shelf, &at), 500);
  assert_int_equal(shelf_kept(shelf, &at), 0); /* not in RAM */
  assert_int_equal(shelf_keep(shelf, &at, TIER_RAM, 5), STATUS_OK);
  assert_int_equal(shelf_kept(shelf, &at), 500);
  assert_int_equal(shelf_match(shelf, &other), 0);
  shelf_destroy(&shelf);
}

/* ── requests ── */

static struct rivals *rivals_new(uint32_t sequences, uint64_t ram_tokens, bool is_exact) {
  struct rivals_config config = {.requests_max = 4,
                                 .twin = {.shelf = shelf_config(ram_tokens, 0),
                                          .sequences = sequences,
                                          .sequence_tokens = TOKENS_MAX,
                                          .is_exact = is_exact}};
  struct rivals *rivals;
  assert_int_equal(rivals_create(&config, &rivals), STATUS_OK);
  return rivals;
}

static void ask(struct rivals *rivals, uint64_t request, const struct text *text, uint64_t at_us) {
  struct ask ask = {.request = request,
                    .at_us = at_us,
                    .prompt_tokens = text->n,
                    .n_blocks = text->n / BLOCK,
                    .keys = text->keys,
                    .token_ids = text->tokens,
                    .may_learn = true};
  assert_int_equal(rivals_ask(rivals, &ask), STATUS_OK);
}

/* Its end, all of it computed; next: what the conversation goes on with. Returns what a reactive cache had of it. */
static uint32_t end(struct rivals *rivals, uint64_t request, const struct text *text, const struct text *next,
                    uint32_t output_tokens, uint64_t queue_us, uint64_t at_us) {
  struct outcome outcome = {.request = request,
                            .at_us = at_us,
                            .computed_tokens = text->n,
                            .output_tokens = output_tokens,
                            .queue_us = queue_us};
  if (next) {
    outcome.next_tokens = next->n;
    outcome.n_next = next->n / BLOCK;
    outcome.next_keys = next->keys;
    outcome.next_token_ids = next->tokens;
  }
  struct rivals_hits hits;
  assert_int_equal(rivals_finish(rivals, &outcome, &hits), STATUS_OK);
  assert_int_equal(hits.reactive_tokens, hits.retention_tokens);
  return hits.reactive_tokens;
}

/* What the engine generated lies in its sequence, all but the last token; it is found to the token. */
static void replies_are_found_to_the_token(void **state) {
  (void)state;
  for (int is_exact = 0; is_exact < 2; is_exact++) {
    struct rivals *rivals = rivals_new(2, 4000, is_exact);
    struct text prompt = {0}, next, again;
    text_add(&prompt, 1, 201);
    next = prompt;
    text_add(&next, 2, 40);
    ask(rivals, 1, &prompt, 1000);
    assert_int_equal(end(rivals, 1, &prompt, &next, 30, 0, 2000), 0);
    again = next;
    text_add(&again, 3, 100);
    ask(rivals, 2, &again, 3000);
    assert_int_equal(end(rivals, 2, &again, NULL, 1, 0, 4000), is_exact ? 200 : 230);
    /* The whole prompt again: all but the last token; with one token less behind it, exact reuse stops 64 before. */
    ask(rivals, 3, &prompt, 5000);
    assert_int_equal(end(rivals, 3, &prompt, NULL, 1, 0, 6000), 200);
    struct text other = prompt;
    other.n = 190;
    text_add(&other, 4, 11);
    ask(rivals, 4, &other, 7000);
    assert_int_equal(end(rivals, 4, &other, NULL, 1, 0, 8000), is_exact ? 136 : 190);
    rivals_destroy(&rivals);
  }
}

/* A request finds what had ended when the engine began with it, not what came before its own end. */
static void what_is_still_computed_is_not_found(void **state) {
  (void)state;
  struct rivals *rivals = rivals_new(3, 4000, false);
  struct text prompt = {0};
  text_add(&prompt, 1, 300);
  ask(rivals, 1, &prompt, 1000000);
  ask(rivals, 2, &prompt, 1100000); /* begun at once, beside the first */
  ask(rivals, 3, &prompt, 1200000); /* waits until that has ended */
  assert_int_equal(end(rivals, 1, &prompt, NULL, 1, 0, 2000000), 0);
  assert_int_equal(end(rivals, 2, &prompt, NULL, 1, 0, 2100000), 0);
  assert_int_equal(end(rivals, 3, &prompt, NULL, 1, 800000, 3000000), 299);
  rivals_destroy(&rivals);
}

/* Without a store, as many prompts are found as there are sequences; with one, those it has room for as well. */
static void sequences_and_store_add_up(void **state) {
  (void)state;
  for (int has_store = 0; has_store < 2; has_store++) {
    struct rivals *rivals = rivals_new(3, has_store ? 2000 : 0, false);
    uint64_t now_us = 0, request = 0;
    uint32_t found = 0;
    for (int round = 0; round < 2; round++) {
      for (uint64_t i = 0; i < 6; i++) { /* the last ones first */
        struct text prompt = {0};
        text_add(&prompt, round ? 5 - i : i, 400);
        ask(rivals, ++request, &prompt, now_us += 1000000);
        found += end(rivals, request, &prompt, NULL, 1, 0, now_us += 1000000) == 399;
      }
    }
    print_message("found %u of 6\n", found);
    assert_int_equal(found, has_store ? 5 : 3);
    rivals_destroy(&rivals);
  }
}

/* More requests than can be remembered, and ends of unknown ones: nothing is found, nothing breaks. */
static void the_oldest_request_is_forgotten(void **state) {
  (void)state;
  struct rivals *rivals = rivals_new(2, 1000, false);
  struct text prompt = {0};
  text_add(&prompt, 1, 100);
  for (uint64_t i = 1; i <= 5; i++) ask(rivals, i, &prompt, i);
  assert_int_equal(end(rivals, 1, &prompt, NULL, 1, 0, 10), 0); /* leaves nothing behind, too */
  assert_int_equal(end(rivals, 2, &prompt, NULL, 1, 0, 20), 0);
  assert_int_equal(end(rivals, 2, &prompt, NULL, 1, 0, 20), 0);
  ask(rivals, 6, &prompt, 30);
  assert_int_equal(end(rivals, 6, &prompt, NULL, 1, 0, 40), 99);
  rivals_destroy(&rivals);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_store_is_a_plain_lru_of_segments),
      cmocka_unit_test(equal_tokens_of_another_tenant_are_not_found),
      cmocka_unit_test(what_is_used_twice_is_written),
      cmocka_unit_test(replies_are_found_to_the_token),
      cmocka_unit_test(what_is_still_computed_is_not_found),
      cmocka_unit_test(sequences_and_store_add_up),
      cmocka_unit_test(the_oldest_request_is_forgotten),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
