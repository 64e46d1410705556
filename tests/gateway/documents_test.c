/* Registered documents and open drafts: what continues what, for whom, and what is forgotten first. */
#include "gateway/documents.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "gateway/drafts.h"

enum { TOKENS = 64 };

static void tokens_fill(int32_t *tokens, int32_t first) {
  for (int32_t i = 0; i < TOKENS; i++) {
    tokens[i] = first + i;
  }
}

static void finds_the_longest_registered_beginning(void **state) {
  (void)state;
  struct documents *documents = NULL;
  int32_t tokens[TOKENS];
  tokens_fill(tokens, 100);
  assert_int_equal(documents_create(8, &documents), STATUS_OK);
  assert_int_equal(documents_match(documents, 0, tokens, TOKENS), 0);
  assert_int_equal(documents_add(documents, 0, tokens, 20), STATUS_OK);
  assert_int_equal(documents_add(documents, 0, tokens, 40), STATUS_OK);
  assert_int_equal(documents_match(documents, 0, tokens, TOKENS), 40);
  assert_int_equal(documents_match(documents, 0, tokens, 40), 40);
  assert_int_equal(documents_match(documents, 0, tokens, 39), 20);
  assert_int_equal(documents_match(documents, 0, tokens, 19), 0);
  assert_int_equal(documents_match(documents, 1, tokens, TOKENS), 0);
  tokens[30] = 7;
  assert_int_equal(documents_match(documents, 0, tokens, TOKENS), 20);
  tokens[0] = 7;
  assert_int_equal(documents_match(documents, 0, tokens, TOKENS), 0);
  documents_destroy(&documents);
  assert_null(documents);
}

static void forgets_the_oldest_document(void **state) {
  (void)state;
  struct documents *documents = NULL;
  int32_t tokens[TOKENS];
  assert_int_equal(documents_create(3, &documents), STATUS_OK);
  for (int32_t i = 0; i < 3; i++) {
    tokens_fill(tokens, i * 1000);
    assert_int_equal(documents_add(documents, 0, tokens, 10), STATUS_OK);
  }
  tokens_fill(tokens, 0);
  assert_int_equal(documents_add(documents, 0, tokens, 10), STATUS_OK); /* renews document 0 */
  assert_int_equal(documents_count(documents), 3);
  tokens_fill(tokens, 3000);
  assert_int_equal(documents_add(documents, 0, tokens, 10), STATUS_OK);
  static const uint32_t known[] = {10, 0, 10, 10}; /* document 1 was the oldest */
  for (int32_t i = 0; i < 4; i++) {
    tokens_fill(tokens, i * 1000);
    assert_int_equal(documents_match(documents, 0, tokens, TOKENS), known[i]);
  }
  for (int32_t i = 10; i < 1000; i++) {
    tokens_fill(tokens, i * 1000);
    assert_int_equal(documents_add(documents, 0, tokens, 10), STATUS_OK);
    assert_true(documents_count(documents) <= 3);
  }
  documents_destroy(&documents);
}

/* A draft of `common` tokens of one text and then `own` others, behind a head of 10. */
static uint64_t follow(struct drafts *drafts, uint32_t tenant, uint32_t common, uint32_t own, int32_t own_first) {
  int32_t tokens[TOKENS];
  uint64_t draft = 0;
  tokens_fill(tokens, 1);
  for (uint32_t i = 0; i < own; i++) {
    tokens[10 + common + i] = own_first + (int32_t)i;
  }
  assert_int_equal(drafts_follow(drafts, tenant, tokens, 10 + common + own, 10, &draft), STATUS_OK);
  assert_true(draft > 0);
  return draft;
}

static void follows_a_text_that_grows(void **state) {
  (void)state;
  struct drafts *drafts = NULL;
  assert_int_equal(drafts_create(4, 1000, &drafts), STATUS_OK);
  uint64_t first = follow(drafts, 0, 0, 0, 0);
  assert_int_equal(follow(drafts, 0, 1, 0, 0), first);
  assert_int_equal(follow(drafts, 0, 12, 0, 0), first);
  assert_int_equal(follow(drafts, 0, 20, 0, 0), first);
  assert_int_equal(follow(drafts, 0, 12, 2, 900), first); /* the end was rewritten: 12 of 14 are common */
  uint64_t second = follow(drafts, 0, 0, 6, 500);         /* the same head, another text */
  assert_int_not_equal(second, first);
  assert_int_equal(follow(drafts, 0, 0, 9, 500), second);
  assert_int_equal(follow(drafts, 0, 14, 0, 0), first);
  assert_int_not_equal(follow(drafts, 1, 14, 0, 0), first); /* another tenant */
  assert_int_equal(drafts_count(drafts), 3);
  drafts_destroy(&drafts);
  assert_null(drafts);
}

static void gives_up_the_draft_untouched_for_longest(void **state) {
  (void)state;
  struct drafts *drafts = NULL;
  assert_int_equal(drafts_create(2, 1000, &drafts), STATUS_OK);
  uint64_t first = follow(drafts, 0, 0, 4, 100);
  uint64_t second = follow(drafts, 0, 0, 4, 200);
  assert_int_equal(follow(drafts, 0, 0, 5, 100), first);
  uint64_t third = follow(drafts, 0, 0, 4, 300);
  assert_int_equal(drafts_count(drafts), 2);
  assert_int_equal(follow(drafts, 0, 0, 6, 100), first);
  assert_int_equal(follow(drafts, 0, 0, 6, 300), third);
  assert_true(follow(drafts, 0, 0, 6, 200) > third); /* the second one is a new draft now */
  assert_int_not_equal(second, third);
  drafts_destroy(&drafts);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(finds_the_longest_registered_beginning),
      cmocka_unit_test(forgets_the_oldest_document),
      cmocka_unit_test(follows_a_text_that_grows),
      cmocka_unit_test(gives_up_the_draft_untouched_for_longest),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
