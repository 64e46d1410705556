/* Bodies of chat completions: what is accepted, what is refused, and which field a refusal names. */
#include "gateway/chat_request.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gateway/completion_request.h"

enum { VOCAB = 1000 };

#define HELLO "\"messages\":[{\"role\":\"user\",\"content\":\"Hello\"}]"

static void refuses_and_names_the_field(void **state) {
  (void)state;
  static const struct {
    const char *body, *param, *code;
  } rows[] = {
      {"", "", "invalid_json"},
      {"{", "", "invalid_json"},
      {"[]", "", "invalid_json"},
      {"{\"messages\":[{\"role\":\"user\",\"content\":\"\xff\"}]}", "", "invalid_json"},
      {"{\"messages\":[{\"role\":\"user\",\"content\":\"\\u0000\"}]}", "", "invalid_json"},
      {"{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"seed\":99999999999999999999}", "", "invalid_json"},
      {"{} {}", "", "invalid_json"},
      {"{}", "messages", "missing_required_parameter"},
      {"{\"messages\":null}", "messages", "missing_required_parameter"},
      {"{\"messages\":\"hi\"}", "messages", "invalid_type"},
      {"{\"messages\":[]}", "messages", "array_below_min_length"},
      {"{\"messages\":[7]}", "messages[0]", "invalid_type"},
      {"{\"messages\":[{}]}", "messages[0].role", "missing_required_parameter"},
      {"{\"messages\":[{\"role\":1}]}", "messages[0].role", "invalid_type"},
      {"{\"messages\":[{\"role\":\"robot\",\"content\":\"a\"}]}", "messages[0].role", "invalid_value"},
      {"{\"messages\":[{\"role\":\"user\"}]}", "messages[0].content", "missing_required_parameter"},
      {"{\"messages\":[{\"role\":\"user\",\"content\":5}]}", "messages[0].content", "invalid_type"},
      {"{\"messages\":[{\"role\":\"user\",\"content\":\"a\",\"colour\":1}]}", "messages[0].colour",
       "unknown_parameter"},
      {"{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\",\"image_url\":{\"url\":\"x\"}}]}]}",
       "messages[0].content[0].type", "unsupported_value"},
      {"{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"input_audio\"}]}]"
       "}",
       "messages[0].content[1].type", "unsupported_value"},
      {"{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\"}]}]}", "messages[0].content[0].text",
       "missing_required_parameter"},
      {"{\"messages\":[{\"role\":\"user\",\"content\":\"a\",\"tool_calls\":[{\"type\":\"function\",\"function\":{"
       "\"name\":\"f\"}}]}]}",
       "messages[0].tool_calls", "invalid_value"},
      {"{\"messages\":[{\"role\":\"assistant\",\"tool_calls\":[{\"type\":\"function\"}]}]}",
       "messages[0].tool_calls[0].function", "missing_required_parameter"},
      {"{" HELLO ",\"temperature\":\"warm\"}", "temperature", "invalid_type"},
      {"{" HELLO ",\"temperature\":2.5}", "temperature", "invalid_value"},
      {"{" HELLO ",\"temperature\":-0.1}", "temperature", "invalid_value"},
      {"{" HELLO ",\"top_p\":1.01}", "top_p", "invalid_value"},
      {"{" HELLO ",\"top_k\":1.5}", "top_k", "invalid_type"},
      {"{" HELLO ",\"min_p\":-1}", "min_p", "invalid_value"},
      {"{" HELLO ",\"seed\":\"x\"}", "seed", "invalid_type"},
      {"{" HELLO ",\"frequency_penalty\":3}", "frequency_penalty", "invalid_value"},
      {"{" HELLO ",\"presence_penalty\":-3}", "presence_penalty", "invalid_value"},
      {"{" HELLO ",\"repeat_penalty\":0}", "repeat_penalty", "invalid_value"},
      {"{" HELLO ",\"logit_bias\":[]}", "logit_bias", "invalid_type"},
      {"{" HELLO ",\"logit_bias\":{\"1000\":1}}", "logit_bias", "invalid_value"},
      {"{" HELLO ",\"logit_bias\":{\"x\":1}}", "logit_bias", "invalid_value"},
      {"{" HELLO ",\"logit_bias\":{\"1\":101}}", "logit_bias", "invalid_value"},
      {"{" HELLO ",\"logit_bias\":{\"1\":\"5\"}}", "logit_bias", "invalid_value"},
      {"{" HELLO ",\"stop\":5}", "stop", "invalid_type"},
      {"{" HELLO ",\"stop\":\"\"}", "stop", "invalid_value"},
      {"{" HELLO ",\"stop\":[\"1\",\"2\",\"3\",\"4\",\"5\",\"6\",\"7\",\"8\",\"9\"]}", "stop",
       "array_above_max_length"},
      {"{" HELLO ",\"max_tokens\":0}", "max_tokens", "integer_below_min_value"},
      {"{" HELLO ",\"max_completion_tokens\":-1}", "max_completion_tokens", "integer_below_min_value"},
      {"{" HELLO ",\"n\":9}", "n", "integer_above_max_value"},
      {"{" HELLO ",\"n\":0}", "n", "integer_below_min_value"},
      {"{" HELLO ",\"stream\":1}", "stream", "invalid_type"},
      {"{" HELLO ",\"stream_options\":{\"include_usage\":true}}", "stream_options", "invalid_value"},
      {"{" HELLO ",\"stream\":true,\"stream_options\":{\"include_usage\":1}}", "stream_options.include_usage",
       "invalid_type"},
      {"{" HELLO ",\"stream\":true,\"stream_options\":{\"chunks\":1}}", "stream_options.chunks", "unknown_parameter"},
      {"{" HELLO ",\"logprobs\":2}", "logprobs", "invalid_type"},
      {"{" HELLO ",\"top_logprobs\":3}", "top_logprobs", "invalid_value"},
      {"{" HELLO ",\"logprobs\":true,\"top_logprobs\":21}", "top_logprobs", "integer_above_max_value"},
      {"{" HELLO ",\"response_format\":{}}", "response_format.type", "invalid_value"},
      {"{" HELLO ",\"response_format\":{\"type\":\"xml\"}}", "response_format.type", "invalid_value"},
      {"{" HELLO ",\"response_format\":{\"type\":\"json_schema\"}}", "response_format.json_schema",
       "missing_required_parameter"},
      {"{" HELLO ",\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"x\"}}}",
       "response_format.json_schema.schema", "missing_required_parameter"},
      {"{" HELLO ",\"tools\":{}}", "tools", "invalid_type"},
      {"{" HELLO ",\"tools\":[{\"type\":\"web\"}]}", "tools[0].type", "unsupported_value"},
      {"{" HELLO ",\"tools\":[{\"type\":\"function\"}]}", "tools[0].function", "missing_required_parameter"},
      {"{" HELLO ",\"tools\":[{\"type\":\"function\",\"function\":{}}]}", "tools[0].function.name",
       "missing_required_parameter"},
      {"{" HELLO ",\"tool_choice\":\"required\"}", "tool_choice", "invalid_value"},
      {"{" HELLO ",\"tool_choice\":7}", "tool_choice", "invalid_value"},
      {"{" HELLO ",\"audio\":{\"voice\":\"alloy\"}}", "audio", "unsupported_parameter"},
      {"{" HELLO ",\"prediction\":{}}", "prediction", "unsupported_parameter"},
      {"{" HELLO ",\"web_search_options\":{}}", "web_search_options", "unsupported_parameter"},
      {"{" HELLO ",\"functions\":[]}", "functions", "unsupported_parameter"},
      {"{" HELLO ",\"modalities\":[\"text\",\"audio\"]}", "modalities", "unsupported_value"},
      {"{" HELLO ",\"store\":true}", "store", "unsupported_value"},
      {"{" HELLO ",\"service_tier\":\"flex\"}", "service_tier", "unsupported_value"},
      {"{" HELLO ",\"reasoning_effort\":\"extreme\"}", "reasoning_effort", "invalid_value"},
      {"{" HELLO ",\"chat_template_kwargs\":[]}", "chat_template_kwargs", "invalid_type"},
      {"{" HELLO ",\"temprature\":1}", "temprature", "unknown_parameter"},
      {"{" HELLO ",\"prompt\":\"x\"}", "prompt", "unknown_parameter"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct chat_call call;
    struct api_error error = {0};
    enum status status = chat_call_parse(rows[i].body, strlen(rows[i].body), false, VOCAB, &call, &error);
    if (status == STATUS_OK) fail_msg("accepted: %s", rows[i].body);
    assert_int_equal(error.http_status, 400);
    if (strcmp(error.param, rows[i].param) != 0 || strcmp(error.code, rows[i].code) != 0) {
      fail_msg("%s\n  gives '%s' %s: %s", rows[i].body, error.param, error.code, error.message);
    }
  }
}

static void accepts_what_clients_send(void **state) {
  (void)state;
  static const char *const bodies[] = {
      "{" HELLO "}",
      "{" HELLO
      ",\"model\":\"gpt-4o\",\"user\":\"u\",\"metadata\":{\"a\":\"b\"},\"store\":false,\"service_tier\":\"auto\"}",
      "{" HELLO ",\"modalities\":[\"text\"],\"parallel_tool_calls\":true,\"n\":1,\"temperature\":null,\"stop\":null}",
      "{\"messages\":[{\"role\":\"developer\",\"content\":\"Be "
      "brief.\"},{\"role\":\"user\",\"name\":\"ann\",\"content\":["
      "{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"text\",\"text\":\"\"}]}]}",
      "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":null,\"refusal\":null,"
      "\"annotations\":[],\"audio\":null,\"function_call\":null,\"tool_calls\":[{\"id\":\"c\",\"type\":\"function\","
      "\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}}]},{\"role\":\"tool\",\"tool_call_id\":\"c\",\"content\":"
      "\"7\"}]}",
      "{" HELLO ",\"response_format\":{\"type\":\"text\"},\"tool_choice\":\"auto\",\"tools\":[]}",
      "{" HELLO ",\"temperature\":2,\"top_p\":0,\"top_k\":-1,\"min_p\":1,\"seed\":-9223372036854775808}",
  };
  for (size_t i = 0; i < sizeof bodies / sizeof bodies[0]; i++) {
    struct chat_call call;
    struct api_error error = {0};
    enum status status = chat_call_parse(bodies[i], strlen(bodies[i]), false, VOCAB, &call, &error);
    if (status != STATUS_OK) fail_msg("%s\n  refused: %s %s", bodies[i], error.param, error.message);
    chat_call_release(&call);
  }
}

static void reads_every_field(void **state) {
  (void)state;
  static const char body[] =
      "{" HELLO ",\"temperature\":0.5,\"top_p\":0.25,\"top_k\":40,\"min_p\":0.125,\"seed\":7,\"frequency_penalty\":0.5,"
      "\"presence_penalty\":-0.5,\"repeat_penalty\":1.25,\"logit_bias\":{\"5\":-100,\"999\":2.5},\"stop\":[\"x\","
      "\"yy\"],"
      "\"max_tokens\":9,\"max_completion_tokens\":12,\"ignore_eos\":true,\"logprobs\":true,\"top_logprobs\":3,"
      "\"stream\":true,\"stream_options\":{\"include_usage\":true},\"n\":2,\"cache_prompt\":false,"
      "\"tools\":[ {\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"z\":0.10,\"a\":1}}} ],"
      "\"tool_choice\":\"auto\",\"parallel_tool_calls\":false,\"chat_template_kwargs\":{\"b\": 1},"
      "\"reasoning_effort\":\"low\"}";
  struct chat_call call;
  struct api_error error = {0};
  assert_int_equal(chat_call_parse(body, sizeof body - 1, false, VOCAB, &call, &error), STATUS_OK);
  const struct sampling *sampling = &call.fields.sampling;
  assert_true(sampling->temperature == 0.5f && sampling->top_p == 0.25f && sampling->min_p == 0.125f);
  assert_int_equal(sampling->top_k, 40);
  assert_true(call.fields.has_seed);
  assert_int_equal(sampling->seed, 7);
  assert_true(sampling->penalty_frequency == 0.5f && sampling->penalty_presence == -0.5f);
  assert_true(sampling->penalty_repeat == 1.25f);
  assert_int_equal(sampling->n_biases, 2);
  assert_int_equal(sampling->biases[1].token, 999);
  assert_true(sampling->biases[1].bias == 2.5f);
  assert_int_equal(call.fields.n_stops, 2);
  assert_string_equal(call.fields.stops[1], "yy");
  assert_int_equal(call.fields.output_tokens_max, 12);
  assert_true(sampling->ignores_end && sampling->wants_logprobs);
  assert_int_equal(sampling->n_top, 3);
  assert_true(call.fields.is_stream && call.fields.wants_usage && !call.fields.caches_prompt);
  assert_int_equal(call.fields.n_choices, 2);
  /* a template sees tools in the client's order and spelling */
  assert_string_equal(call.chat.tools_json,
                      "[ {\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{\"z\":0.10,\"a\":1}}} ]");
  assert_string_equal(call.chat.tool_choice_json, "\"auto\"");
  assert_string_equal(call.chat.template_kwargs_json, "{\"b\": 1}");
  assert_string_equal(call.chat.reasoning_effort, "low");
  assert_int_equal(call.chat.parallel_tool_calls, 0);
  assert_null(call.chat.response_format_json);
  chat_call_release(&call);
}

static void tells_conversations_apart(void **state) {
  (void)state;
  static const char *const bodies[] = {
      "{\"messages\":[{\"role\":\"system\",\"content\":\"S\"},{\"role\":\"user\",\"content\":\"Hello\"}]}",
/* clang-format off */
      "{\"messages\":[{\"role\":\"system\",\"content\":\"S\"},{\"role\":\"user\",\"content\":\"Hello\"},{\"role\":\"assistant\",\"content\":\"Hi\"},{\"role\":\"user\",\"content\":\"More\"}]}",
/* clang-format on */
      "{\"messages\":[{\"role\":\"system\",\"content\":\"S\"},{\"role\":\"user\",\"content\":\"Hello!\"}]}",
      "{\"messages\":[{\"role\":\"system\",\"content\":\"SH\"},{\"role\":\"user\",\"content\":\"ello\"}]}",
  };
  uint64_t openings[4];
  for (size_t i = 0; i < 4; i++) {
    struct chat_call call;
    struct api_error error = {0};
    assert_int_equal(chat_call_parse(bodies[i], strlen(bodies[i]), false, VOCAB, &call, &error), STATUS_OK);
    openings[i] = call.facts.opening;
    assert_true(call.facts.has_head && call.facts.is_last_user);
    assert_int_equal(call.facts.user_messages, i == 1 ? 2 : 1);
    chat_call_release(&call);
  }
  assert_true(openings[0] != 0 && openings[0] == openings[1]);
  assert_true(openings[0] != openings[2] && openings[0] != openings[3]);
}

static void refuses_deep_nesting_without_recursion(void **state) {
  (void)state;
  enum { DEPTH = 1 << 20 };
  char *body = malloc(DEPTH);
  assert_non_null(body);
  memset(body, '[', DEPTH);
  memcpy(body, "{\"a\":", 5);
  struct chat_call call;
  struct api_error error = {0};
  assert_int_equal(chat_call_parse(body, DEPTH, false, VOCAB, &call, &error), STATUS_INVALID);
  assert_string_equal(error.code, "invalid_json");
  assert_non_null(strstr(error.message, "64 levels"));
  free(body);
}

static void reads_completions(void **state) {
  (void)state;
  static const struct {
    const char *body, *param;
    uint32_t prompts; /* 0: refused */
  } rows[] = {
      {"{\"prompt\":\"a\"}", "", 1},
      {"{\"prompt\":[1,2,999]}", "", 1},
      {"{\"prompt\":[\"a\",\"b\"]}", "", 2},
      {"{\"prompt\":[[1],[2,3],[4]]}", "", 3},
      {"{\"prompt\":\"a\",\"echo\":false,\"best_of\":1,\"logprobs\":0,\"suffix\":null}", "", 1},
      {"{}", "prompt", 0},
      {"{\"prompt\":\"\"}", "prompt", 0},
      {"{\"prompt\":[]}", "prompt", 0},
      {"{\"prompt\":[1000]}", "prompt", 0},
      {"{\"prompt\":[-1]}", "prompt", 0},
      {"{\"prompt\":[1,\"a\"]}", "prompt", 0},
      {"{\"prompt\":[\"a\",1]}", "prompt[1]", 0},
      {"{\"prompt\":[\"a\",\"\"]}", "prompt[1]", 0},
      {"{\"prompt\":[[1],\"a\"]}", "prompt[1]", 0},
      {"{\"prompt\":[[1],[]]}", "prompt[1]", 0},
      {"{\"prompt\":[1.5]}", "prompt", 0},
      {"{\"prompt\":{}}", "prompt", 0},
      {"{\"prompt\":\"a\",\"echo\":true}", "echo", 0},
      {"{\"prompt\":\"a\",\"suffix\":\"b\"}", "suffix", 0},
      {"{\"prompt\":\"a\",\"best_of\":2}", "best_of", 0},
      {"{\"prompt\":\"a\",\"logprobs\":true}", "logprobs", 0},
      {"{\"prompt\":\"a\",\"messages\":[]}", "messages", 0},
      {"{\"prompt\":\"a\",\"grammar\":\"root ::= \\\"a\\\"\",\"json_schema\":{}}", "json_schema", 0},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct completion_call call;
    struct api_error error = {0};
    enum status status = completion_call_parse(rows[i].body, strlen(rows[i].body), VOCAB, &call, &error);
    if ((status == STATUS_OK) != (rows[i].prompts > 0)) fail_msg("%s: %s", rows[i].body, error.message);
    assert_string_equal(error.param, rows[i].param);
    if (status != STATUS_OK) continue;
    assert_int_equal(call.n_prompts, rows[i].prompts);
    assert_int_equal(call.fields.output_tokens_max, OUTPUT_TOKENS_DEFAULT);
    completion_call_release(&call);
  }
}

static void prints_errors_as_openai_does(void **state) {
  (void)state;
  struct api_error error = {0};
  struct buffer into;
  buffer_init(&into, 0);
  api_error_field(&error, "messages[0].a\"b\n\xff", "unknown_parameter", "Unknown parameter: '%s'.", "a\"b");
  assert_int_equal(api_error_print(&error, &into), STATUS_OK);
  assert_string_equal((const char *)into.data,
                      "{\"error\":{\"message\":\"Unknown parameter: 'a\\\"b'.\",\"type\":\"invalid_request_error\","
                      "\"param\":\"messages[0].a\\\"b ?\",\"code\":\"unknown_parameter\"}}");
  buffer_clear(&into);
  api_error_of_status(&error, STATUS_FULL, NULL);
  assert_int_equal(error.http_status, 429);
  assert_int_equal(api_error_print(&error, &into), STATUS_OK);
  assert_string_equal(
      (const char *)into.data,
      "{\"error\":{\"message\":\"The server is full; try again shortly.\",\"type\":\"rate_limit_error\","
      "\"param\":null,\"code\":\"queue_full\"}}");
  /* what broke inside is not the client's to read */
  struct error detail = {.text = "/var/lib/secret: no such file"};
  api_error_of_status(&error, STATUS_IO, &detail);
  assert_int_equal(error.http_status, 500);
  assert_null(strstr(error.message, "secret"));
  buffer_release(&into);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(refuses_and_names_the_field),
      cmocka_unit_test(accepts_what_clients_send),
      cmocka_unit_test(reads_every_field),
      cmocka_unit_test(tells_conversations_apart),
      cmocka_unit_test(refuses_deep_nesting_without_recursion),
      cmocka_unit_test(reads_completions),
      cmocka_unit_test(prints_errors_as_openai_does),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
