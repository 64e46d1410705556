/* Chat where libllama-common is not at hand: the templates that libllama itself knows, text only. Everything that would
 * take a guess is refused. Empty in builds that have the library: there llama_chat.cpp is chat.h's body. */
#include "engine/chat.h"

#ifndef FORELAY_LLAMA_COMMON

#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "engine/llama_guard.h"
#include "engine/model.h"

enum { PROMPT_BYTES_MAX = 64 << 20 };

struct chat {
  char *source;
  struct chat_facts facts;
};

struct chat_parser {
  size_t told; /* bytes of the answer that were deltas already */
};

struct conversation {
  json_t *json;
  size_t n;
  const char **roles;
  char **contents; /* parts joined by line breaks, as libllama's own templates expect one text */
};

static void conversation_release(struct conversation *conversation) {
  for (size_t i = 0; conversation->contents && i < conversation->n; i++) free(conversation->contents[i]);
  free(conversation->contents);
  free(conversation->roles);
  json_decref(conversation->json);
  *conversation = (struct conversation){0};
}

static enum status part_append(const json_t *part, size_t message, size_t index, struct buffer *text,
                               struct error *error) {
  const char *type = json_string_value(json_object_get(part, "type"));
  const char *words = json_string_value(json_object_get(part, "text"));
  if (!type || strcmp(type, "text") != 0 || !words)
    return error_set(error, STATUS_UNSUPPORTED, "messages[%zu].content[%zu].type: only text is served", message, index);
  enum status status = text->size ? buffer_append_text(text, "\n") : STATUS_OK;
  return status == STATUS_OK ? buffer_append_text(text, words) : status;
}

static enum status content_join(const json_t *content, size_t message, char **ret_text, struct error *error) {
  struct buffer text;
  buffer_init(&text, PROMPT_BYTES_MAX);
  enum status status = STATUS_OK;
  if (json_is_string(content))
    status = buffer_append_text(&text, json_string_value(content));
  else if (!json_is_array(content) && content && !json_is_null(content))
    status = error_set(error, STATUS_INVALID, "messages[%zu].content: neither text nor an array", message);
  for (size_t i = 0; status == STATUS_OK && json_is_array(content) && i < json_array_size(content); i++)
    status = part_append(json_array_get(content, i), message, i, &text, error);
  char *joined = status == STATUS_OK ? strdup(text.data ? (char *)text.data : "") : NULL;
  buffer_release(&text);
  if (status == STATUS_OK && !joined) status = STATUS_NO_MEMORY;
  *ret_text = joined;
  return status;
}

static enum status conversation_parse(const char *messages_json, struct conversation *conversation,
                                      struct error *error) {
  json_error_t why;
  conversation->json = messages_json ? json_loads(messages_json, 0, &why) : NULL;
  if (!conversation->json)
    return error_set(error, STATUS_INVALID, "messages: %s", messages_json ? why.text : "missing");
  if (!json_is_array(conversation->json)) return error_set(error, STATUS_INVALID, "messages: not an array");
  size_t n = json_array_size(conversation->json);
  conversation->roles = calloc(n + 1, sizeof *conversation->roles);
  conversation->contents = calloc(n + 1, sizeof *conversation->contents);
  if (!conversation->roles || !conversation->contents) return error_set(error, STATUS_NO_MEMORY, "messages: no memory");
  for (; conversation->n < n; conversation->n++) {
    size_t i = conversation->n;
    const json_t *message = json_array_get(conversation->json, i);
    conversation->roles[i] = json_string_value(json_object_get(message, "role"));
    if (!conversation->roles[i]) return error_set(error, STATUS_INVALID, "messages[%zu].role: missing", i);
    if (json_array_size(json_object_get(message, "tool_calls")) > 0)
      return error_set(error, STATUS_UNSUPPORTED, "messages[%zu].tool_calls: not served by this build", i);
    enum status status = content_join(json_object_get(message, "content"), i, &conversation->contents[i], error);
    if (status != STATUS_OK) return status;
  }
  return STATUS_OK;
}

static bool json_is_given(const char *text) {
  return text && text[0] && strcmp(text, "null") != 0 && strcmp(text, "[]") != 0;
}

static enum status request_check(const struct chat_request *request, struct error *error) {
  static const char why[] = "not served by this build, which lacks libllama-common";
  if (json_is_given(request->tools_json)) return error_set(error, STATUS_UNSUPPORTED, "tools: %s", why);
  if (json_is_given(request->json_schema_json)) return error_set(error, STATUS_UNSUPPORTED, "json_schema: %s", why);
  if (json_is_given(request->template_kwargs_json))
    return error_set(error, STATUS_UNSUPPORTED, "chat_template_kwargs: %s", why);
  if (request->reasoning_effort && request->reasoning_effort[0])
    return error_set(error, STATUS_UNSUPPORTED, "reasoning_effort: %s", why);
  if (!json_is_given(request->response_format_json)) return STATUS_OK;
  json_t *format = json_loads(request->response_format_json, 0, NULL);
  const char *type = json_string_value(json_object_get(format, "type"));
  enum status status = STATUS_OK;
  if (!type || strcmp(type, "text") != 0) status = error_set(error, STATUS_UNSUPPORTED, "response_format: %s", why);
  json_decref(format);
  return status;
}

enum status chat_open(const struct model *model, const char *source, struct chat **ret_chat, struct error *error) {
  static const char *const roles[] = {"user"}, *const contents[] = {"x"};
  if (!source || !source[0]) source = model_facts(model)->chat_template;
  if (!source)
    return error_set(error, STATUS_NOT_FOUND, "model %s has no chat template; give one by --chat-template-file",
                     model_facts(model)->name);
  struct buffer text;
  buffer_init(&text, PROMPT_BYTES_MAX);
  enum status status = guard_template_apply(source, roles, contents, 1, true, &text, error);
  buffer_release(&text);
  if (status != STATUS_OK) return status;
  struct chat *chat = calloc(1, sizeof *chat);
  if (!chat || !(chat->source = strdup(source))) {
    free(chat);
    return error_set(error, STATUS_NO_MEMORY, "chat template: out of memory");
  }
  chat->facts.source = chat->source;
  *ret_chat = chat;
  return STATUS_OK;
}

void chat_close(struct chat **chat) {
  if (!*chat) return;
  free((*chat)->source);
  free(*chat);
  *chat = NULL;
}

const struct chat_facts *chat_facts(const struct chat *chat) {
  return &chat->facts;
}

enum status chat_render(const struct chat *chat, const struct chat_request *request, struct chat_prompt *ret_prompt,
                        struct error *error) {
  struct conversation conversation = {0};
  struct chat_prompt prompt = {0};
  struct buffer text;
  buffer_init(&text, PROMPT_BYTES_MAX);
  enum status status = request_check(request, error);
  if (status == STATUS_OK) status = conversation_parse(request->messages_json, &conversation, error);
  if (status == STATUS_OK)
    status = guard_template_apply(chat->source, conversation.roles, (const char *const *)conversation.contents,
                                  conversation.n, !request->omits_generation_prompt, &text, error);
  conversation_release(&conversation);
  if (status == STATUS_OK) {
    prompt.text = strdup(text.data ? (char *)text.data : "");
    prompt.size = text.size;
    prompt.parser = calloc(1, sizeof *prompt.parser);
    if (request->grammar && request->grammar[0]) prompt.grammar = strdup(request->grammar);
    bool is_whole = prompt.text && prompt.parser && (!request->grammar || !request->grammar[0] || prompt.grammar);
    if (!is_whole) status = error_set(error, STATUS_NO_MEMORY, "chat: out of memory");
  }
  buffer_release(&text);
  if (status == STATUS_OK)
    *ret_prompt = prompt;
  else
    chat_prompt_release(&prompt);
  return status;
}

void chat_parser_destroy(struct chat_parser **parser) {
  free(*parser);
  *parser = NULL;
}

static enum status json_append(struct buffer *into, json_t *taken) {
  char *text = taken ? json_dumps(taken, JSON_COMPACT) : NULL;
  json_decref(taken);
  enum status status = !text ? STATUS_NO_MEMORY : into ? buffer_append_text(into, text) : STATUS_OK;
  free(text);
  return status;
}

enum status chat_parse(struct chat_parser *parser, const char *text, size_t size, bool is_partial,
                       struct buffer *message, struct buffer *deltas, bool *ret_has_calls, struct error *error) {
  (void)is_partial;
  size_t told = parser->told < size ? parser->told : size;
  json_t *whole = json_pack("{s:s,s:s%}", "role", "assistant", "content", text, size);
  json_t *list = told < size ? json_pack("[{s:s%}]", "content", text + told, size - told) : json_array();
  enum status status = json_append(message, whole), after = json_append(deltas, list);
  if (status == STATUS_OK) status = after;
  if (status != STATUS_OK) return error_set(error, status, "no room for the parsed answer");
  parser->told = size;
  if (ret_has_calls) *ret_has_calls = false;
  return STATUS_OK;
}

/* Leading bytes of the prompt that the first n messages, and `question` behind them where it is given, render to. */
static enum status shared_find(const struct chat *chat, const struct conversation *conversation, size_t n,
                               const char *question, const struct chat_prompt *prompt, size_t *ret_bytes,
                               struct error *error) {
  const char **roles = calloc(n + 1, sizeof *roles), **contents = calloc(n + 1, sizeof *contents);
  struct buffer text;
  buffer_init(&text, PROMPT_BYTES_MAX);
  enum status status = STATUS_NO_MEMORY;
  if (roles && contents) {
    for (size_t i = 0; i < n; i++) roles[i] = conversation->roles[i], contents[i] = conversation->contents[i];
    roles[n] = "user";
    contents[n] = question;
    status = guard_template_apply(chat->source, roles, contents, n + (question ? 1 : 0), false, &text, error);
  }
  size_t at = 0;
  while (status == STATUS_OK && at < text.size && at < *ret_bytes && text.data[at] == (uint8_t)prompt->text[at]) at++;
  while (at > 0 && at < prompt->size && ((uint8_t)prompt->text[at] & 0xc0) == 0x80) at--; /* not inside a character */
  free(roles);
  free(contents);
  buffer_release(&text);
  if (status == STATUS_OK) *ret_bytes = at;
  return status;
}

enum status chat_head_bytes(const struct chat *chat, const struct chat_request *request,
                            const struct chat_prompt *prompt, size_t *ret_bytes, struct error *error) {
  struct conversation conversation = {0};
  size_t n = 0, bytes = prompt->size;
  enum status status = conversation_parse(request->messages_json, &conversation, error);
  while (status == STATUS_OK && n < conversation.n && strcmp(conversation.roles[n], "system") == 0) n++;
  if (status == STATUS_OK) status = shared_find(chat, &conversation, n, "a", prompt, &bytes, error);
  if (status == STATUS_OK) status = shared_find(chat, &conversation, n, "0", prompt, &bytes, error);
  conversation_release(&conversation);
  if (status == STATUS_OK) *ret_bytes = bytes;
  return status;
}

enum status chat_prefix_bytes(const struct chat *chat, const struct chat_request *request,
                              const struct chat_prompt *prompt, uint32_t n_messages, size_t *ret_bytes,
                              struct error *error) {
  struct conversation conversation = {0};
  size_t bytes = prompt->size;
  enum status status = conversation_parse(request->messages_json, &conversation, error);
  if (status == STATUS_OK) {
    size_t n = n_messages < conversation.n ? n_messages : conversation.n;
    status = shared_find(chat, &conversation, n, NULL, prompt, &bytes, error);
  }
  conversation_release(&conversation);
  if (status == STATUS_OK) *ret_bytes = bytes;
  return status;
}

enum status chat_schema_grammar(const char *schema_json, struct buffer *grammar, struct error *error) {
  (void)schema_json;
  (void)grammar;
  return error_set(error, STATUS_UNSUPPORTED, "json_schema: not served by this build, which lacks libllama-common");
}

#endif
