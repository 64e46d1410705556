/* Tokens of what is asked for, by a real model's tokenizer and templates: heads, next turns, drafts, documents, wishes,
 * and the small routes. FORELAY_MODEL names another model file. */
#include "gateway/prompt.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/model.h"
#include "gateway/text_routes.h"
#include "gateway/wish.h"

enum { CONTEXT = 1024 };
static const uint64_t now_us = 1800000000000000;

static struct model *model;
static struct chat *chat;        /* the model's own template */
static struct chat *chat_tools;  /* one that prints tools */
static struct chat *chat_thinks; /* one that prints a reply's thoughts only while it is the last message */
static struct prompt_source source;

static char *file_read(const char *path) {
  FILE *file = fopen(path, "rb");
  char *text = calloc(1, 1 << 16);
  assert_non_null(file);
  assert_non_null(text);
  assert_true(fread(text, 1, (1 << 16) - 1, file) > 0);
  fclose(file);
  return text;
}

static int model_make(void **state) {
  static const char thinks[] =
      "{%- for m in messages -%}<|im_start|>{{ m.role }}\n"
      "{%- if m.role == 'assistant' and loop.last -%}<think>{{ m.reasoning_content }}</think>{%- endif -%}"
      "{{ m.content }}<|im_end|>\n{%- endfor -%}"
      "{%- if add_generation_prompt -%}<|im_start|>assistant\n{%- endif -%}";
  const char *path = getenv("FORELAY_MODEL");
  struct model_config config = {.path = path != NULL ? path
                                                     : FORELAY_SOURCE_DIR "/build/deps/SmolLM2-135M-Instruct.Q4_1.gguf",
                                .context_tokens = CONTEXT,
                                .sequences = 1,
                                .threads = 1};
  struct error error = {{0}};
  (void)state;
  if (model_open(&config, &model, &error) != STATUS_OK) {
    fprintf(stderr, "%s\n", error.text);
    return -1;
  }
  char *tools = file_read(FORELAY_SOURCE_DIR "/tests/data/tools-template.jinja");
  enum status status = chat_open(model, NULL, &chat, &error);
  if (status == STATUS_OK) status = chat_open(model, tools, &chat_tools, &error);
  if (status == STATUS_OK) status = chat_open(model, thinks, &chat_thinks, &error);
  free(tools);
  if (status != STATUS_OK) {
    fprintf(stderr, "%s\n", error.text);
    return -1;
  }
  source = (struct prompt_source){.model = model, .chat = chat, .context_tokens = CONTEXT};
  return 0;
}

static int model_drop(void **state) {
  (void)state;
  chat_close(&chat);
  chat_close(&chat_tools);
  chat_close(&chat_thinks);
  model_close(&model);
  return 0;
}

static int source_reset(void **state) {
  (void)state;
  source.chat = chat;
  return 0;
}

/* A body in JSON, its messages rendered and tokenized. */
static void chat_take(const char *body, struct chat_call *call, struct buffer *tokens, uint32_t *head_tokens) {
  struct api_error error = {0};
  struct chat_prompt rendered;
  buffer_init(tokens, 0);
  enum status status = chat_call_parse(body, strlen(body), false, model_facts(model)->n_vocab, call, &error);
  if (status == STATUS_OK) status = prompt_of_chat(&source, call, tokens, &rendered, head_tokens, &error);
  if (status != STATUS_OK) fail_msg("%s: %s", body, error.message);
  chat_prompt_release(&rendered);
}

static uint32_t common_tokens(const struct buffer *a, const struct buffer *b) {
  uint32_t n = 0;
  while (n < prompt_tokens_count(a) && n < prompt_tokens_count(b) && prompt_tokens(a)[n] == prompt_tokens(b)[n]) n++;
  return n;
}

static void heads_are_shared_by_other_questions(void **state) {
  (void)state;
  static const char *const bodies[] = {
      "{\"messages\":[{\"role\":\"system\",\"content\":\"You answer questions about tea.\"},"
      "{\"role\":\"user\",\"content\":\"Which is green?\"}]}",
      "{\"messages\":[{\"role\":\"system\",\"content\":\"You answer questions about tea.\"},"
      "{\"role\":\"user\",\"content\":\"\\n 17 cups?\"},{\"role\":\"assistant\",\"content\":\"No.\"},"
      "{\"role\":\"user\",\"content\":\"x\"}]}",
      "{\"messages\":[{\"role\":\"user\",\"content\":\"Which is green?\"}]}",
  };
  struct chat_call calls[3];
  struct buffer tokens[3];
  uint32_t heads[3];
  for (int i = 0; i < 3; i++) chat_take(bodies[i], &calls[i], &tokens[i], &heads[i]);
  assert_true(heads[0] >= 8 && heads[0] < prompt_tokens_count(&tokens[0]));
  assert_true(heads[1] == heads[0] ||
              heads[1] + 1 == heads[0]); /* its question's line break joins the head's last one */
  assert_int_equal(heads[2], 0);
  assert_true(common_tokens(&tokens[0], &tokens[1]) >= heads[1]);
  for (int i = 0; i < 3; i++) {
    chat_call_release(&calls[i]);
    buffer_release(&tokens[i]);
  }
}

/* The tokens told for the next turn are all in its prompt, and they hold the turn before it with its reply. */
static void next_turn_check(const char *body, const char *reply, const char *next_body, uint32_t unlike_max) {
  struct chat_call call, next_call;
  struct buffer tokens, next, told;
  struct api_error error = {0};
  uint32_t head;
  chat_take(body, &call, &tokens, &head);
  chat_take(next_body, &next_call, &next, &head);
  buffer_init(&told, 0);
  assert_int_equal(prompt_of_next_turn(&source, &call, reply, strlen(reply), &told, &error), STATUS_OK);
  uint32_t n = prompt_tokens_count(&told);
  if (common_tokens(&told, &next) != n)
    fail_msg("%s: %u of %u tokens come again", reply, common_tokens(&told, &next), n);
  assert_true(n < prompt_tokens_count(&next));
  assert_true(n + unlike_max >= prompt_tokens_count(&next));
  chat_call_release(&call);
  chat_call_release(&next_call);
  buffer_release(&tokens);
  buffer_release(&next);
  buffer_release(&told);
}

#define ASK "{\"role\":\"system\",\"content\":\"Be brief.\"},{\"role\":\"user\",\"content\":\"Two rivers?\"}"
#define ASK_NEXT "{\"role\":\"user\",\"content\":\"More\"}"

static void next_turns_begin_as_told(void **state) {
  (void)state;
  static const char *const replies[] = {"The Nile and the Rhine.",
                                        "  blanks around  ",
                                        "\\n\\nlines\\n",
                                        "gr\xc3\xbc\xc3\x9f\xf0\x9f\x99\x82",
                                        "<|im_end|>",
                                        "",
                                        "{\\\"a\\\": 1}"};
  for (size_t i = 0; i < sizeof replies / sizeof replies[0]; i++) {
    char reply[256], next[1024];
    snprintf(reply, sizeof reply, "{\"role\":\"assistant\",\"content\":\"%s\"}", replies[i]);
    snprintf(next, sizeof next, "{\"messages\":[" ASK ",%s," ASK_NEXT "]}", reply);
    next_turn_check("{\"messages\":[" ASK "]}", reply, next, 10);
  }
}

static void next_turns_follow_the_template(void **state) {
  (void)state;
  static const char reply[] =
      "{\"role\":\"assistant\",\"reasoning_content\":\"Long thoughts about rivers.\",\"content\":\"Nile.\"}";
  char next[1024];
  source.chat = chat_thinks;
  snprintf(next, sizeof next, "{\"messages\":[" ASK ",%s," ASK_NEXT "]}", reply);
  next_turn_check("{\"messages\":[" ASK "]}", reply, next, 10);

#define TOOLS                                                                                                          \
  "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"look\",\"parameters\":{\"type\":\"object\","             \
  "\"properties\":{\"city\":{\"type\":\"string\"}}}}}]"
  static const char calls[] =
      "{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[{\"type\":\"function\",\"function\":{\"name\":\"look\","
      "\"arguments\":\"{\\\"city\\\":\\\"Rome\\\"}\"},\"id\":\"c1\"}]}";
  source.chat = chat_tools;
  snprintf(next, sizeof next,
           "{" TOOLS ",\"messages\":[" ASK ",%s,{\"role\":\"tool\",\"tool_call_id\":\"c1\",\"content\":\"rain\"}]}",
           calls);
  next_turn_check("{" TOOLS ",\"messages\":[" ASK "]}", calls, next, 16);
}

static enum status wish_take(enum backend_wish_kind kind, const char *body, struct wish *wish,
                             struct api_error *error) {
  memset(error, 0, sizeof *error);
  return wish_parse(kind, &source, body, strlen(body), now_us, wish, error);
}

static void wish_must(enum backend_wish_kind kind, const char *body, struct wish *wish) {
  struct api_error error;
  if (wish_take(kind, body, wish, &error) != STATUS_OK) fail_msg("%s: %s", body, error.message);
}

static void settled_text_ends_before_its_last_word(void **state) {
  (void)state;
  static const struct {
    const char *text;
    size_t size;
  } rows[] = {{"", 0},        {"word", 0}, {"two words", 3}, {"two words ", 9},
              {"a  \n b", 1}, {" a", 0},   {"   ", 0},       {"a b\tc", 3}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    assert_int_equal(prompt_settled_size(rows[i].text, strlen(rows[i].text)), rows[i].size);
  }
}

static void drafts_begin_the_prompt_they_become(void **state) {
  (void)state;
  static const char text[] = "How do I return a kettle that I bought last week, please?";
  struct chat_call call;
  struct buffer whole;
  uint32_t head, before = 0;
  char body[512];
  snprintf(body, sizeof body,
           "{\"messages\":[{\"role\":\"system\",\"content\":\"Help.\"},{\"role\":\"user\",\"content\":\"%s\"}]}", text);
  chat_take(body, &call, &whole, &head);
  for (size_t typed = 0; typed <= sizeof text - 1; typed += 3) {
    struct wish wish;
    snprintf(body, sizeof body,
             "{\"partial\":true,\"messages\":[{\"role\":\"system\",\"content\":\"Help.\"},{\"role\":\"user\","
             "\"content\":\"%.*s\"}]}",
             (int)typed, text);
    wish_must(WISH_PREPARE, body, &wish);
    uint32_t n = prompt_tokens_count(&wish.tokens);
    assert_true(wish.is_partial && wish.kind == KIND_COMPLETE);
    assert_int_equal(common_tokens(&wish.tokens, &whole), n);
    assert_true(n >= before && wish.head_tokens >= head && wish.head_tokens <= n);
    before = n;
    wish_release(&wish);
  }
  assert_true(before + 12 > prompt_tokens_count(&whole)); /* the last word and the end of the turn are left */
  chat_call_release(&call);
  buffer_release(&whole);
}

static void documents_begin_the_question_about_them(void **state) {
  (void)state;
  struct wish wish;
  struct chat_call call;
  struct buffer whole;
  uint32_t head;
  wish_must(WISH_DOCUMENT,
            "{\"id\":\"d1\",\"before\":[{\"role\":\"system\",\"content\":\"Use the text.\"}],"
            "\"text\":\"Kettles come back within 30 days. \\n\"}",
            &wish);
  chat_take("{\"messages\":[{\"role\":\"system\",\"content\":\"Use the text.\"},{\"role\":\"user\",\"content\":"
            "\"Kettles come back within 30 days. \\n\\nWhen?\"}]}",
            &call, &whole, &head);
  uint32_t n = prompt_tokens_count(&wish.tokens);
  assert_int_equal(wish.kind, KIND_DOCUMENT);
  assert_string_equal(wish.document, "d1");
  assert_true(n > head);
  assert_true(common_tokens(&wish.tokens, &whole) + 1 >= n); /* the last token may join with what follows */
  wish_release(&wish);
  chat_call_release(&call);
  buffer_release(&whole);
  wish_must(WISH_DOCUMENT, "{\"id\":\"d2\",\"text\":\"only counted\"}", &wish);
  assert_int_equal(wish.tokens.size, 0);
  wish_release(&wish);
}

static void wishes_are_read(void **state) {
  (void)state;
  struct wish wish;
  wish_must(WISH_PREPARE, "{\"messages\":[" ASK "],\"tier\":\"ssd\",\"by\":1800000100.5}", &wish);
  assert_int_equal(wish.kind, KIND_COMPLETE);
  assert_int_equal(wish.tier, TIER_SSD);
  assert_true(wish.by_us == 1800000100500000);
  wish_release(&wish);
  wish_must(WISH_PREPARE, "{\"messages\":[{\"role\":\"system\",\"content\":\"Only instructions.\"}]}", &wish);
  assert_int_equal(wish.kind, KIND_SHARED);
  wish_release(&wish);
  wish_must(WISH_ANNOUNCE, "{\"prompt\":[1,2,3],\"every\":60,\"count\":5}", &wish);
  assert_true(wish.every_us == 60000000 && wish.by_us == now_us + 60000000 && wish.count == 5);
  assert_int_equal(prompt_tokens_count(&wish.tokens), 3);
  wish_release(&wish);
  wish_must(WISH_PIN, "{\"prompt\":\"keep this\",\"tier\":\"ram\",\"until\":1800000001}", &wish);
  assert_true(wish.until_us == 1800000001000000);
  wish_release(&wish);
}

static void wishes_are_refused_by_field(void **state) {
  (void)state;
  static const struct {
    enum backend_wish_kind kind;
    const char *body, *param;
  } rows[] = {
      {WISH_PREPARE, "{}", "messages"},
      {WISH_PREPARE, "{\"prompt\":\"a\",\"messages\":[" ASK "]}", "messages"},
      {WISH_PREPARE, "{\"prompt\":\"\"}", "prompt"},
      {WISH_PREPARE, "{\"prompt\":[\"a\",\"b\"]}", "prompt"},
      {WISH_PREPARE, "{\"prompt\":\"a\",\"tier\":\"remote\"}", "tier"},
      {WISH_PREPARE, "{\"prompt\":\"a\",\"by\":\"soon\"}", "by"},
      {WISH_PREPARE, "{\"prompt\":\"a\",\"by\":-1}", "by"},
      {WISH_PREPARE, "{\"prompt\":\"a\",\"until\":1}", "until"},
      {WISH_PREPARE, "{\"prompt\":\"a\",\"temperature\":1}", "temperature"},
      {WISH_PREPARE, "{\"prompt\":[1],\"partial\":true}", "partial"},
      {WISH_PREPARE, "{\"prompt\":\"word\",\"partial\":true}", "prompt"},
      {WISH_PREPARE, "{\"partial\":true,\"messages\":[{\"role\":\"assistant\",\"content\":\"a b\"}]}", "messages"},
      {WISH_ANNOUNCE, "{\"prompt\":\"a\"}", "at"},
      {WISH_ANNOUNCE, "{\"prompt\":\"a\",\"at\":1,\"every\":1}", "at"},
      {WISH_ANNOUNCE, "{\"prompt\":\"a\",\"every\":0}", "every"},
      {WISH_ANNOUNCE, "{\"prompt\":\"a\",\"every\":1,\"count\":0}", "count"},
      {WISH_ANNOUNCE, "{\"prompt\":\"a\",\"every\":1,\"partial\":true}", "partial"},
      {WISH_PIN, "{\"prompt\":\"a\",\"until\":1}", "until"},
      {WISH_DOCUMENT, "{\"text\":\"a\"}", "id"},
      {WISH_DOCUMENT, "{\"id\":\"d\"}", "text"},
      {WISH_DOCUMENT, "{\"id\":\"d\",\"text\":\"a\",\"before\":[{\"role\":\"user\"}]}", "before[0].content"},
      {WISH_DOCUMENT, "{\"id\":\"d\",\"text\":\"a\",\"at\":1}", "at"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct wish wish;
    struct api_error error;
    if (wish_take(rows[i].kind, rows[i].body, &wish, &error) == STATUS_OK) fail_msg("accepted: %s", rows[i].body);
    assert_int_equal(error.http_status, 400);
    if (strcmp(error.param, rows[i].param) != 0)
      fail_msg("%s names '%s': %s", rows[i].body, error.param, error.message);
  }
}

static void long_prompts_are_refused_with_numbers(void **state) {
  (void)state;
  struct buffer tokens;
  struct api_error error = {0};
  enum { SIZE = 4096 };
  char text[SIZE + 1];
  for (size_t i = 0; i < SIZE; i++) text[i] = "a "[i % 2];
  text[SIZE] = 0;
  buffer_init(&tokens, 0);
  assert_int_equal(prompt_of_text(&source, text, SIZE, "prompt", &tokens, &error), STATUS_INVALID);
  assert_int_equal(error.http_status, 400);
  assert_string_equal(error.code, "context_length_exceeded");
  assert_string_equal(error.param, "prompt");
  char number[16];
  snprintf(number, sizeof number, "%u", prompt_tokens_count(&tokens));
  assert_non_null(strstr(error.message, number));
  assert_non_null(strstr(error.message, "1024"));
  assert_int_equal(prompt_fits(&source, CONTEXT - 1, "prompt", &error), STATUS_OK);
  assert_int_equal(prompt_fits(&source, CONTEXT, "prompt", &error), STATUS_INVALID);
  buffer_release(&tokens);
}

static void tools_need_a_template_that_prints_them(void **state) {
  (void)state;
  static const char body[] = "{" TOOLS ",\"messages\":[" ASK "]}";
  struct chat_call call;
  struct chat_prompt rendered;
  struct api_error error = {0};
  assert_int_equal(chat_call_parse(body, sizeof body - 1, false, 100, &call, &error), STATUS_OK);
  assert_int_equal(prompt_render(&source, &call, &rendered, &error), STATUS_INVALID);
  assert_int_equal(error.http_status, 400);
  assert_string_equal(error.param, "tools");
  source.chat = NULL;
  assert_int_equal(prompt_render(&source, &call, &rendered, &error), STATUS_INVALID);
  assert_string_equal(error.param, "messages");
  chat_call_release(&call);
}

static void small_routes_answer(void **state) {
  (void)state;
  struct buffer reply, back;
  struct api_error error = {0};
  buffer_init(&reply, 0);
  buffer_init(&back, 0);
  static const char ask[] = "{\"content\":\"gr\xc3\xbc\xc3\x9f \xf0\x9f\x99\x82<|im_end|>\"}";
  assert_int_equal(tokenize_answer(&source, ask, sizeof ask - 1, &reply, &error), STATUS_OK);
  assert_int_equal(detokenize_answer(&source, (const char *)reply.data, reply.size, &back, &error), STATUS_OK);
  assert_string_equal((const char *)back.data, ask);
  buffer_clear(&reply);
  /* a smiley's bytes lie in several tokens: such a piece is bytes, not text */
  static const char pieces[] = "{\"content\":\"\xf0\x9f\x99\x82\",\"with_pieces\":true}";
  assert_int_equal(tokenize_answer(&source, pieces, sizeof pieces - 1, &reply, &error), STATUS_OK);
  assert_non_null(strstr((const char *)reply.data, "\"piece\":[240"));
  buffer_clear(&reply);
  static const char conversation[] = "{\"messages\":[" ASK "],\"temperature\":0}";
  assert_int_equal(template_answer(&source, conversation, sizeof conversation - 1, &reply, &error), STATUS_OK);
  assert_string_equal((const char *)reply.data,
                      "{\"prompt\":\"<|im_start|>system\\nBe brief.<|im_end|>\\n<|im_start|>user\\nTwo "
                      "rivers?<|im_end|>\\n<|im_start|>assistant\\n\"}");
  static const char *const wrong[] = {"{}", "{\"tokens\":[-1]}", "{\"tokens\":[1.5]}", "{\"tokens\":7}",
                                      "{\"tokens\":[99999999]}"};
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    assert_int_equal(detokenize_answer(&source, wrong[i], strlen(wrong[i]), &reply, &error), STATUS_INVALID);
    assert_string_equal(error.param, "tokens");
  }
  buffer_release(&reply);
  buffer_release(&back);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(heads_are_shared_by_other_questions, source_reset),
      cmocka_unit_test_setup(next_turns_begin_as_told, source_reset),
      cmocka_unit_test_setup(next_turns_follow_the_template, source_reset),
      cmocka_unit_test(settled_text_ends_before_its_last_word),
      cmocka_unit_test_setup(drafts_begin_the_prompt_they_become, source_reset),
      cmocka_unit_test_setup(documents_begin_the_question_about_them, source_reset),
      cmocka_unit_test_setup(wishes_are_read, source_reset),
      cmocka_unit_test_setup(wishes_are_refused_by_field, source_reset),
      cmocka_unit_test_setup(long_prompts_are_refused_with_numbers, source_reset),
      cmocka_unit_test_setup(tools_need_a_template_that_prints_them, source_reset),
      cmocka_unit_test_setup(small_routes_answer, source_reset),
  };
  return cmocka_run_group_tests(tests, model_make, model_drop);
}
