/* Conversations rendered by us and by the llama-server of the same build, byte by byte; answers read back; what is not
 * served is refused. FORELAY_MODEL names another model file, FORELAY_DEPS another build/deps. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "engine/chat.h"
#include "engine/model.h"
#include "engine/sampler.h"
#include "support/llama_server.h"
#include "support/passive.h"

static struct model *model;
static struct chat *plain, *with_tools; /* the model's template; tests/data/tools-template.jinja */
static const char *model_path, *deps;
static char *tools_source;

#define TOOLS_PATH FORELAY_SOURCE_DIR "/tests/data/tools-template.jinja"
#define SYSTEM "{\"role\":\"system\",\"content\":\"You answer in one line.\"}"
#define USER(text) "{\"role\":\"user\",\"content\":\"" text "\"}"
#define ASSISTANT(text) "{\"role\":\"assistant\",\"content\":\"" text "\"}"

static const char *const conversations[] = {
    "[" USER("Hello") "]",
    "[" SYSTEM "," USER("Hello") "]",
    "[" SYSTEM "]",
    "[" USER("") "]",
    "[{\"role\":\"system\",\"content\":\"\"}," USER("empty instructions") "]",
    "[" USER("  leading and trailing blanks \\n\\n") "]",
    "[" USER("one") "," ASSISTANT("two") "," USER("three") "]",
    "[" SYSTEM "," USER("one") "," ASSISTANT("two") "," USER("three") "," ASSISTANT("four") "," USER(
        "five") "," ASSISTANT("six") "," USER("seven") "]",
    "[" USER("a") "," ASSISTANT("") "," USER("b") "]",
    "[" USER("a") "," USER("b") "," USER("c") "]",
    "[" USER("a") "," ASSISTANT("b") "," ASSISTANT("c") "," USER("d") "]",
    "[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"part one\"}]}]",
    "[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"part one\"},{\"type\":\"text\",\"text\":\"part "
    "two\"}]}]",
    "[{\"role\":\"user\",\"content\":[]}]",
    "[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"\"},{\"type\":\"text\",\"text\":\" x "
    "\"}]}," ASSISTANT("ok") "," USER("go on") "]",
    "[{\"role\":\"system\",\"content\":[{\"type\":\"text\",\"text\":\"Be\"},{\"type\":\"text\",\"text\":\"brief.\"}]}"
    "," USER("x") "]",
    "[{\"role\":\"user\",\"content\":null}," ASSISTANT("?") "," USER("x") "]",
    "[" USER("Gr\xc3\xbc\xc3\x9f"
             "e aus K\xc3\xb6ln, \xe4\xb8\x96\xe7\x95\x8c, \xd9\x85\xd8\xb1\xd8\xad\xd8\xa8\xd8\xa7") "]",
    "[" USER("\\ud83c\\udf49 \\ud83d\\udc68\\u200d\\ud83d\\udc69\\u200d\\ud83d\\udc67 e\\u0301 \\u202eabc\\u202c "
             "\\ufeff\\u2028\\u2029") "]",
    "[" USER("tabs\\tand\\r\\nlines\\u0001\\u001f\\u007f\\u0085") "]",
    "[" USER("<|im_start|>system\\nmarks in the text<|im_end|>") "]",
    "[" USER("{{ messages }} {% raw %} {# x #} \\\"quotes\\\" \\\\ back") "]",
    "[{\"role\":\"developer\",\"content\":\"As a developer says.\"}," USER("x") "]",
    "[" USER("x") "," SYSTEM "," USER("system in the middle") "]",
    "[" USER("Begin the answer") "," ASSISTANT("The answer begins") "]",
    "[" SYSTEM "," USER("q") "," ASSISTANT("  unfinished ") "]",
    "[{\"role\":\"user\",\"content\":\"named\",\"name\":\"Ada\"}]",
    "[{\"role\":\"critic\",\"content\":\"a role of its own\"}," USER("x") "]",
    "[" USER("x") ",{\"role\":\"assistant\",\"content\":\"y\",\"reasoning_content\":\"because\"}," USER("z") "]",
    "[" USER("numbers 1234567890 1e9 0x1f, \\u00bd \\u2460 \\ud835\\udfd9") "," ASSISTANT("\\n\\n") "," USER(
        "end\\n") "]",
};

#define WEATHER                                                                                                        \
  "{\"type\":\"function\",\"function\":{\"name\":\"weather\",\"description\":\"Weather of a "                          \
  "town\",\"parameters\":{\"type\":\"object\",\"properties\":{\"town\":{\"type\":\"string\"},\"days\":{\"type\":"      \
  "\"integer\",\"minimum\":1}},\"required\":[\"town\"]}}}"
#define CLOCK "{\"type\":\"function\",\"function\":{\"name\":\"clock\"}}"
#define ORDER                                                                                                          \
  "{\"type\":\"function\",\"function\":{\"name\":\"order\",\"description\":\"Gr\xc3\xb6\xc3\x9f"                       \
  "e & \\\"quotes\\\" "                                                                                                \
  "<b>\",\"parameters\":{\"type\":\"object\",\"properties\":{\"lines\":{\"type\":\"array\",\"items\":{\"type\":"       \
  "\"object\",\"properties\":{\"id\":{\"type\":\"number\"},\"note\":{\"enum\":[\"a\",\"b\",null]}}}}}}}}"
#define CALL(id, name, arguments)                                                                                      \
  "{\"id\":\"" id "\",\"type\":\"function\",\"function\":{\"name\":\"" name "\",\"arguments\":" arguments "}}"
#define ANSWER(id, text) "{\"role\":\"tool\",\"tool_call_id\":\"" id "\",\"content\":\"" text "\"}"

static const struct {
  const char *messages, *tools, *choice;
} tool_conversations[] = {
    {"[" USER("Weather in Oslo?") "]", "[" WEATHER "]", NULL},
    {"[" SYSTEM "," USER("What time is it?") "]", "[" CLOCK "," WEATHER "]", "\"auto\""},
    {"[" USER("x") "]", "[" WEATHER "," CLOCK "," ORDER "]", "\"required\""},
    {"[" USER("x") "]", "[" WEATHER "]", "\"none\""},
    {"[" USER("x") "]", "[]", NULL},
    {"[" USER("w?") ",{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[" CALL(
         "c1", "weather", "\"{\\\"town\\\": \\\"Oslo\\\"}\"") "]}," ANSWER("c1", "{\\\"sky\\\":\\\"clear\\\"}") "]",
     "[" WEATHER "]", NULL},
    {"[" USER("w?") ",{\"role\":\"assistant\",\"content\":\"Let me see.\",\"tool_calls\":[" CALL("c1", "weather", "\"{\\\"town\\\":\\\"Oslo\\\",\\\"days\\\":2}\"") "," CALL(
         "c2", "clock",
         "\"{}\"") "]}," ANSWER("c1", "rain") "," ANSWER("c2",
                                                         "12:00") "," ASSISTANT("Rain at noon.") "," USER("Thanks") "]",
     "[" WEATHER "," CLOCK "]", NULL},
    {"[" USER("w?") ",{\"role\":\"assistant\",\"tool_calls\":[" CALL(
         "c9", "order", "{\"lines\":[{\"id\":1.5,\"note\":\"b\"}]}") "]}," ANSWER("c9", "done") "," USER("again") "]",
     "[" ORDER "]", NULL},
    {"[" SYSTEM "," USER("\\ud83c\\udf49 & <tools>") "]", "[" ORDER "," CLOCK "]", "\"auto\""},
    {"[" USER("no tools at all") "," ASSISTANT("right") "," USER("really?") "]", NULL, NULL},
};

/* Builds without libllama-common refuse most of this. */
static void need_library(void) {
  if (!chat_facts(plain)->has_schema) skip();
}

static struct chat_request request_of(const char *messages, const char *tools, const char *choice) {
  return (struct chat_request){.messages_json = messages,
                               .tools_json = tools,
                               .tool_choice_json = choice,
                               .parallel_tool_calls = -1,
                               .now_s = (uint64_t)time(NULL)};
}

static void render(const struct chat *chat, const struct chat_request *request, struct chat_prompt *prompt) {
  struct error error = {0};
  enum status status = chat_render(chat, request, prompt, &error);
  if (status != STATUS_OK) print_error("%s: %s\n", request->messages_json, error.text);
  assert_int_equal(status, STATUS_OK);
  assert_int_equal(strlen(prompt->text), prompt->size);
  assert_non_null(prompt->parser);
}

static void compare_with_server(const struct chat *chat, const struct llama_server *server, const char *messages,
                                const char *tools, const char *choice) {
  struct chat_request request = request_of(messages, tools, choice);
  struct chat_prompt prompt;
  struct buffer body, reply, text;
  buffer_init(&body, 0);
  buffer_init(&reply, LLAMA_SERVER_REPLY_BYTES_MAX);
  buffer_init(&text, 0);
  assert_int_equal(buffer_append_format(&body, "{\"messages\":%s", messages), STATUS_OK);
  if (tools) assert_int_equal(buffer_append_format(&body, ",\"tools\":%s", tools), STATUS_OK);
  if (choice) assert_int_equal(buffer_append_format(&body, ",\"tool_choice\":%s", choice), STATUS_OK);
  assert_int_equal(buffer_append_text(&body, "}"), STATUS_OK);
  int code = llama_server_ask(server, "/apply-template", (char *)body.data, &reply);
  if (code != 200) print_error("%s\n%d %s\n", body.data, code, reply.data);
  assert_int_equal(code, 200);
  llama_server_text((char *)reply.data, "prompt", &text);
  render(chat, &request, &prompt);
  if (prompt.size != text.size || memcmp(prompt.text, text.data, text.size) != 0)
    print_error("%s\n--- ours\n%s\n--- llama-server's\n%s\n", messages, prompt.text, (char *)text.data);
  assert_int_equal(prompt.size, text.size);
  assert_memory_equal(prompt.text, text.data, text.size);
  chat_prompt_release(&prompt);
  buffer_release(&body);
  buffer_release(&reply);
  buffer_release(&text);
}

static void test_thirty_conversations(void **state) {
  (void)state;
  need_library();
  enum { N = sizeof conversations / sizeof *conversations };
  assert_int_equal(N, 30);
  struct llama_server server = llama_server_start(deps, model_path, NULL);
  for (size_t i = 0; i < N; i++) compare_with_server(plain, &server, conversations[i], NULL, NULL);
  llama_server_stop(&server);
}

static void test_ten_conversations_with_tools(void **state) {
  (void)state;
  need_library();
  enum { N = sizeof tool_conversations / sizeof *tool_conversations };
  assert_int_equal(N, 10);
  struct llama_server server = llama_server_start(deps, model_path, TOOLS_PATH);
  for (size_t i = 0; i < N; i++)
    compare_with_server(with_tools, &server, tool_conversations[i].messages, tool_conversations[i].tools,
                        tool_conversations[i].choice);
  for (size_t i = 0; i < sizeof conversations / sizeof *conversations; i++)
    if (!strstr(conversations[i], "null")) compare_with_server(with_tools, &server, conversations[i], NULL, NULL);
  llama_server_stop(&server);
}

static void refuse(const struct chat *chat, struct chat_request request, enum status expected, const char *said) {
  struct chat_prompt prompt = {0};
  struct error error = {0};
  assert_int_equal(chat_render(chat, &request, &prompt, &error), expected);
  print_message("refused: %s\n", error.text);
  assert_non_null(strstr(error.text, said));
  assert_null(prompt.text);
}

static void test_refusals_name_the_field(void **state) {
  (void)state;
  need_library();
  const char *hello = "[" USER("Hello") "]";
  assert_false(chat_facts(plain)->has_tools);
  assert_true(chat_facts(with_tools)->has_tools);
  refuse(plain, request_of(hello, "[" WEATHER "]", NULL), STATUS_UNSUPPORTED, "tools");
  refuse(with_tools, request_of(hello, "[" WEATHER "]", "\"sometimes\""), STATUS_INVALID, "tool_choice");
  refuse(with_tools, request_of(hello, "[" WEATHER "]", "{\"type\":\"function\",\"function\":{\"name\":\"weather\"}}"),
         STATUS_UNSUPPORTED, "tool_choice");
  refuse(with_tools, request_of(hello, "[{\"type\":\"magic\"}]", NULL), STATUS_INVALID, "tool");
  refuse(plain, request_of(NULL, NULL, NULL), STATUS_INVALID, "messages");
  refuse(plain, request_of("{}", NULL, NULL), STATUS_INVALID, "messages");
  refuse(plain, request_of("[7]", NULL, NULL), STATUS_INVALID, "messages[0]");
  refuse(plain, request_of("[" USER("a") ",{\"role\":\"user\"}]", NULL, NULL), STATUS_INVALID, "messages[1].content");
  refuse(plain, request_of("[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\",\"image_url\":{}}]}]", NULL, NULL),
         STATUS_UNSUPPORTED, "messages[0].content[0].type");
  refuse(plain, request_of("[" USER("a"), NULL, NULL), STATUS_INVALID, "messages");
  struct chat_request request = request_of(hello, NULL, NULL);
  request.response_format_json = "{\"type\":\"xml\"}";
  refuse(plain, request, STATUS_INVALID, "response_format.type");
  request.response_format_json = "{\"type\":\"json_schema\"}";
  refuse(plain, request, STATUS_INVALID, "response_format.json_schema");
  struct chat *chat = NULL;
  struct error error = {0};
  assert_int_equal(chat_open(model, "{% if %}", &chat, &error), STATUS_INVALID);
  print_message("refused: %s\n", error.text);
  assert_null(chat);
}

static void test_where_the_system_part_and_messages_end(void **state) {
  (void)state;
  need_library();
  const char *messages = "[" SYSTEM "," USER("first") "," ASSISTANT("second") "," USER("third") "]";
  struct chat_request request = request_of(messages, NULL, NULL);
  struct chat_prompt prompt;
  struct error error = {0};
  size_t head = 0, end = 0;
  render(plain, &request, &prompt);
  assert_int_equal(chat_head_bytes(plain, &request, &prompt, &head, &error), STATUS_OK);
  static const char expected[] = "<|im_start|>system\nYou answer in one line.<|im_end|>\n<|im_start|>user\n";
  assert_int_equal(head, sizeof expected - 1);
  assert_memory_equal(prompt.text, expected, head);
  size_t last = 0;
  for (uint32_t n = 1; n <= 4; n++) {
    assert_int_equal(chat_prefix_bytes(plain, &request, &prompt, n, &end, &error), STATUS_OK);
    assert_true(end > last);
    assert_memory_equal(prompt.text + end - 11, "<|im_end|>\n", 11);
    last = end;
  }
  assert_string_equal(prompt.text + end, "<|im_start|>assistant\n");
  chat_prompt_release(&prompt);
  /* No system message: what the template itself prints is shared all the same. */
  request = request_of("[" USER("a longer first question") "]", NULL, NULL);
  render(plain, &request, &prompt);
  assert_int_equal(chat_head_bytes(plain, &request, &prompt, &head, &error), STATUS_OK);
  assert_memory_equal(prompt.text + head - 17, "<|im_start|>user\n", 17);
  chat_prompt_release(&prompt);
  /* Tools belong to the head. */
  request = request_of("[" SYSTEM "," USER("x") "]", "[" WEATHER "]", NULL);
  render(with_tools, &request, &prompt);
  assert_int_equal(chat_head_bytes(with_tools, &request, &prompt, &head, &error), STATUS_OK);
  const char *tools_end = strstr(prompt.text, "</tools>");
  assert_non_null(tools_end);
  assert_true(prompt.text + head > tools_end);
  chat_prompt_release(&prompt);
}

/* What streams out in deltas is what the whole message says at the end. */
static void test_answers_are_read_back(void **state) {
  (void)state;
  need_library();
  static const char answer[] =
      "I will look.\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"town\": \"Oslo\"}}\n"
      "</tool_call>";
  struct chat_request request = request_of("[" USER("Weather in Oslo?") "]", "[" WEATHER "]", NULL);
  struct chat_prompt prompt;
  struct buffer message, deltas;
  struct error error = {0};
  bool has_calls = false;
  render(with_tools, &request, &prompt);
  assert_non_null(prompt.grammar);
  assert_true(prompt.is_grammar_lazy && prompt.n_triggers + prompt.n_trigger_tokens > 0);
  struct chat_parser *parser = chat_prompt_take_parser(&prompt);
  assert_null(prompt.parser);
  buffer_init(&message, 0);
  buffer_init(&deltas, 0);
  for (size_t size = 1; size < sizeof answer; size++) {
    buffer_clear(&message);
    enum status status =
        chat_parse(parser, answer, size, size + 1 < sizeof answer, &message, &deltas, &has_calls, &error);
    if (status != STATUS_OK) print_error("%zu: %s\n", size, error.text);
    assert_int_equal(status, STATUS_OK);
  }
  print_message("message: %s\n", message.data);
  assert_true(has_calls);
  assert_non_null(strstr((char *)message.data, "\"name\":\"weather\""));
  assert_non_null(strstr((char *)message.data, "I will look."));
  assert_null(strstr((char *)message.data, "<tool_call>"));
  char *id = strstr((char *)message.data, "\"id\":\"call_");
  assert_non_null(id);
  id[6 + 29] = 0;
  assert_non_null(strstr((char *)deltas.data, id + 6));
  assert_non_null(strstr((char *)deltas.data, "\"name\":\"weather\""));
  chat_parser_destroy(&parser);
  chat_prompt_release(&prompt);
  /* Plain text is content. */
  request = request_of("[" USER("Hi") "]", NULL, NULL);
  render(plain, &request, &prompt);
  buffer_clear(&message);
  assert_int_equal(chat_parse(prompt.parser, "Hello.", 6, false, &message, NULL, &has_calls, &error), STATUS_OK);
  assert_false(has_calls);
  assert_non_null(strstr((char *)message.data, "\"content\":\"Hello.\""));
  chat_prompt_release(&prompt);
  buffer_release(&message);
  buffer_release(&deltas);
}

/* At most n tokens; false: the model wanted to go on. */
static bool answer_generate(const struct chat_prompt *prompt, uint32_t n, struct buffer *text) {
  struct buffer tokens;
  struct sampling sampling;
  struct sampler *sampler = NULL;
  struct error error = {0};
  sampling_init(&sampling);
  sampling.temperature = 0;
  sampling.grammar = prompt->grammar;
  sampling.grammar_prefix = prompt->generation_prompt;
  sampling.is_grammar_lazy = prompt->is_grammar_lazy;
  sampling.triggers = (const char *const *)prompt->triggers;
  sampling.n_triggers = prompt->n_triggers;
  sampling.trigger_tokens = prompt->trigger_tokens;
  sampling.n_trigger_tokens = prompt->n_trigger_tokens;
  sampling.preserved = prompt->preserved;
  sampling.n_preserved = prompt->n_preserved;
  enum status status = sampler_create(model, &sampling, &sampler, &error);
  if (status != STATUS_OK) print_error("%s\n%s\n", error.text, prompt->grammar);
  assert_int_equal(status, STATUS_OK);
  buffer_init(&tokens, 0);
  assert_int_equal(model_tokenize(model, prompt->text, prompt->size, true, true, &tokens, NULL), STATUS_OK);
  uint32_t count = (uint32_t)(tokens.size / sizeof(int32_t));
  assert_true(model_seq_remove(model, 0, 0));
  assert_int_equal(model_decode(model, 0, 0, (int32_t *)(void *)tokens.data, count, true, NULL), STATUS_OK);
  bool has_ended = false;
  for (uint32_t i = 0; i < n; i++) {
    int32_t token;
    char piece[256];
    assert_int_equal(sampler_sample(sampler, model, 0, &token, NULL, NULL, NULL, &error), STATUS_OK);
    has_ended = model_token_is_end(model, token);
    if (has_ended) break;
    size_t size = model_token_piece(model, token, sampling_shows(&sampling, token), piece, sizeof piece);
    assert_int_equal(buffer_append(text, piece, size), STATUS_OK);
    assert_int_equal(model_decode(model, 0, count + i, &token, 1, true, NULL), STATUS_OK);
  }
  sampler_destroy(&sampler);
  buffer_release(&tokens);
  return has_ended;
}

/* The grammars that come with prompts hold the real model to their form. */
static void test_schemas_and_required_tools_bind_the_model(void **state) {
  (void)state;
  need_library();
  struct chat_request request = request_of("[" USER("Describe a cat.") "]", NULL, NULL);
  struct chat_prompt prompt;
  struct buffer text, message;
  struct error error = {0};
  bool has_calls = false;
  buffer_init(&text, 0);
  buffer_init(&message, 0);
  request.response_format_json =
      "{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"cat\",\"schema\":{\"type\":\"object\",\"properties\":{"
      "\"legs\":{\"type\":\"integer\"},\"colour\":{\"enum\":[\"black\",\"white\"]}},\"required\":[\"legs\",\"colour\"],"
      "\"additionalProperties\":false}}}";
  render(plain, &request, &prompt);
  assert_non_null(prompt.grammar);
  assert_true(answer_generate(&prompt, 90, &text));
  assert_int_equal(chat_parse(prompt.parser, (char *)text.data, text.size, false, &message, NULL, &has_calls, &error),
                   STATUS_OK);
  print_message("schema: %s\n%s\n", text.data, message.data);
  assert_non_null(strstr((char *)message.data, "\\\"legs\\\""));
  assert_non_null(strstr((char *)message.data, "\\\"colour\\\""));
  chat_prompt_release(&prompt);
  request.response_format_json = "{\"type\":\"json_object\"}";
  render(plain, &request, &prompt);
  assert_non_null(prompt.grammar);
  chat_prompt_release(&prompt);
  request = request_of("[" USER("Weather in Oslo?") "]", "[" WEATHER "]", "\"required\"");
  render(with_tools, &request, &prompt);
  assert_false(prompt.is_grammar_lazy);
  buffer_clear(&text);
  buffer_clear(&message);
  bool has_ended = answer_generate(&prompt, 150, &text); /* it may talk first, but not end without a call */
  enum status status =
      chat_parse(prompt.parser, (char *)text.data, text.size, !has_ended, &message, NULL, &has_calls, &error);
  print_message("tool call: %s\n%s\n", text.data, message.data);
  assert_int_equal(status, STATUS_OK);
  assert_true(has_calls || !has_ended);
  chat_prompt_release(&prompt);
  buffer_clear(&text);
  assert_int_equal(chat_schema_grammar("{\"type\":\"integer\"}", &text, &error), STATUS_OK);
  assert_non_null(strstr((char *)text.data, "root"));
  assert_int_equal(chat_schema_grammar("{\"type\":", &text, &error), STATUS_INVALID);
  buffer_release(&text);
  buffer_release(&message);
}

/* A template that asks for the date is told today's. */
static void test_the_day_is_todays(void **state) {
  (void)state;
  need_library();
  static const char source[] =
      "{{- '<|im_start|>system\\nToday is ' + strftime_now('%Y-%m-%d') + '.<|im_end|>\\n' -}}"
      "{%- for m in messages -%}{{- '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' "
      "-}}{%- endfor -%}{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif "
      "-%}";
  struct chat *chat = NULL;
  struct error error = {0};
  struct chat_prompt prompt;
  char before[32], after[32];
  assert_int_equal(chat_open(model, source, &chat, &error), STATUS_OK);
  struct chat_request request = request_of("[" USER("x") "]", NULL, NULL);
  time_t now = time(NULL);
  strftime(before, sizeof before, "Today is %Y-%m-%d.", localtime(&now));
  render(chat, &request, &prompt);
  now = time(NULL);
  strftime(after, sizeof after, "Today is %Y-%m-%d.", localtime(&now));
  assert_true(strstr(prompt.text, before) != NULL || strstr(prompt.text, after) != NULL);
  chat_prompt_release(&prompt);
  chat_close(&chat);
}

/* Without the library: listed templates, text only, and clear refusals of the rest. */
static void test_without_the_library(void **state) {
  (void)state;
  if (chat_facts(plain)->has_schema) skip();
  struct chat_request request = request_of("[" SYSTEM "," USER("first") "]", NULL, NULL);
  struct chat_prompt prompt;
  struct buffer message, deltas;
  struct error error = {0};
  struct chat *chat = NULL;
  size_t bytes = 0;
  bool has_calls = true;
  render(plain, &request, &prompt);
  assert_string_equal(prompt.text, "<|im_start|>system\nYou answer in one line.<|im_end|>\n<|im_start|>user\nfirst"
                                   "<|im_end|>\n<|im_start|>assistant\n");
  assert_int_equal(chat_head_bytes(plain, &request, &prompt, &bytes, &error), STATUS_OK);
  assert_memory_equal(prompt.text + bytes, "first", 5);
  assert_int_equal(chat_prefix_bytes(plain, &request, &prompt, 2, &bytes, &error), STATUS_OK);
  assert_string_equal(prompt.text + bytes, "<|im_start|>assistant\n");
  buffer_init(&message, 0);
  buffer_init(&deltas, 0);
  assert_int_equal(chat_parse(prompt.parser, "He", 2, true, NULL, &deltas, NULL, &error), STATUS_OK);
  assert_int_equal(chat_parse(prompt.parser, "Hey", 3, false, &message, &deltas, &has_calls, &error), STATUS_OK);
  assert_string_equal(message.data, "{\"role\":\"assistant\",\"content\":\"Hey\"}");
  assert_string_equal(deltas.data, "[{\"content\":\"He\"}][{\"content\":\"y\"}]");
  assert_false(has_calls);
  chat_prompt_release(&prompt);
  refuse(plain, request_of("[" USER("x") "]", "[" WEATHER "]", NULL), STATUS_UNSUPPORTED, "tools");
  request.response_format_json = "{\"type\":\"json_object\"}";
  refuse(plain, request, STATUS_UNSUPPORTED, "response_format");
  refuse(plain, request_of("[7]", NULL, NULL), STATUS_INVALID, "messages[0]");
  refuse(plain, request_of("[", NULL, NULL), STATUS_INVALID, "messages");
  assert_int_equal(chat_schema_grammar("{}", &message, &error), STATUS_UNSUPPORTED);
  assert_int_equal(chat_open(model, "{{ messages[0].content }}", &chat, &error), STATUS_UNSUPPORTED);
  buffer_release(&message);
  buffer_release(&deltas);
}

static void test_times(void **state) {
  (void)state;
  need_library();
  enum { RUNS = 20 };
  const struct chat *chats[] = {plain, with_tools};
  for (size_t i = 0; i < 2; i++) {
    struct timespec from, to;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
    for (int run = 0; run < RUNS; run++) {
      struct chat_request request = request_of(conversations[7], NULL, NULL);
      struct chat_prompt prompt;
      render(chats[i], &request, &prompt);
      chat_prompt_release(&prompt);
    }
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
    double seconds = (double)(to.tv_sec - from.tv_sec) + 1e-9 * (double)(to.tv_nsec - from.tv_nsec);
    print_message("rendering 8 messages: %.2f ms (%s template)\n", 1e3 * seconds / RUNS, i ? "tools" : "own");
  }
}

static char *file_text(const char *path) {
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  char *text = calloc(1, 1 << 16);
  assert_non_null(text);
  assert_true(fread(text, 1, (1 << 16) - 1, file) > 0);
  fclose(file);
  return text;
}

static int open_all(void **state) {
  (void)state;
  struct error error = {0};
  model_path = getenv("FORELAY_MODEL");
  if (model_path == NULL) model_path = FORELAY_SOURCE_DIR "/build/deps/SmolLM2-135M-Instruct.Q4_1.gguf";
  deps = getenv("FORELAY_DEPS");
  if (deps == NULL) deps = FORELAY_SOURCE_DIR "/build/deps";
  struct model_config config = {.path = model_path, .context_tokens = 1024, .sequences = 1, .threads = 2};
  tools_source = file_text(TOOLS_PATH);
  if (model_open(&config, &model, &error) == STATUS_OK && chat_open(model, NULL, &plain, &error) == STATUS_OK &&
      (!chat_facts(plain)->has_schema || chat_open(model, tools_source, &with_tools, &error) == STATUS_OK))
    return 0;
  print_error("%s\n", error.text);
  return -1;
}

static int close_all(void **state) {
  (void)state;
  chat_close(&plain);
  chat_close(&with_tools);
  model_close(&model);
  free(tools_source);
  return 0;
}

int main(int argc, char **argv) {
  (void)argc;
  passive_start(argv);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_thirty_conversations),
      cmocka_unit_test(test_ten_conversations_with_tools),
      cmocka_unit_test(test_refusals_name_the_field),
      cmocka_unit_test(test_where_the_system_part_and_messages_end),
      cmocka_unit_test(test_answers_are_read_back),
      cmocka_unit_test(test_schemas_and_required_tools_bind_the_model),
      cmocka_unit_test(test_the_day_is_todays),
      cmocka_unit_test(test_without_the_library),
      cmocka_unit_test(test_times),
  };
  return cmocka_run_group_tests(tests, open_all, close_all);
}
