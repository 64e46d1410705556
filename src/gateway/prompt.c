#include "gateway/prompt.h"

#include <stdlib.h>
#include <string.h>

#include "engine/model.h"

/* What the border says of a conversation it cannot render is the client's to read. */
static enum status render_refuse(struct api_error *error, enum status status, const struct chat_call *call,
                                 const struct error *detail) {
  const char *param = call->has_tools ? "tools" : "messages";
  if (status == STATUS_UNSUPPORTED) {
    if (!call->has_tools && (call->chat.response_format_json != NULL || call->chat.json_schema_json != NULL)) {
      param = "response_format";
    }
    return api_error_field(error, param, "unsupported_parameter", "%s", detail->text);
  }
  if (status == STATUS_INVALID) return api_error_field(error, param, "invalid_value", "%s", detail->text);
  return api_error_of_status(error, status, detail);
}

enum status prompt_fits(const struct prompt_source *source, uint32_t n_tokens, const char *param,
                        struct api_error *error) {
  if (n_tokens < source->context_tokens) return STATUS_OK;
  return api_error_field(error, param, "context_length_exceeded",
                         "This server's context is %u tokens; the prompt has %u and leaves no room for an answer. "
                         "Shorten the prompt.",
                         source->context_tokens, n_tokens);
}

enum status prompt_render(const struct prompt_source *source, const struct chat_call *call,
                          struct chat_prompt *ret_rendered, struct api_error *error) {
  struct error detail = {0};
  if (source->chat == NULL) {
    return api_error_field(error, "messages", "unsupported_parameter",
                           "This model has no chat template that the server can run; use /v1/completions.");
  }
  enum status status = chat_render(source->chat, &call->chat, ret_rendered, &detail);
  return status == STATUS_OK ? STATUS_OK : render_refuse(error, status, call, &detail);
}

static enum status text_tokenize(const struct prompt_source *source, const char *text, size_t size,
                                 struct buffer *tokens, struct api_error *error) {
  struct error detail = {0};
  enum status status = model_tokenize(source->model, text, size, true, true, tokens, &detail);
  return status == STATUS_OK ? STATUS_OK : api_error_of_status(error, status, &detail);
}

/* How many leading tokens of `tokens` are those of text[0, size). */
static enum status leading_tokens(const struct prompt_source *source, const char *text, size_t size,
                                  const struct buffer *tokens, uint32_t *ret_count, struct api_error *error) {
  struct buffer lead;
  uint32_t common = 0;
  buffer_init(&lead, 0);
  enum status status = text_tokenize(source, text, size, &lead, error);
  if (status == STATUS_OK) {
    uint32_t n = prompt_tokens_count(&lead), all = prompt_tokens_count(tokens);
    while (common < n && common < all && prompt_tokens(&lead)[common] == prompt_tokens(tokens)[common]) common++;
    *ret_count = common;
  }
  buffer_release(&lead);
  return status;
}

enum status prompt_of_text(const struct prompt_source *source, const char *text, size_t size, const char *param,
                           struct buffer *tokens, struct api_error *error) {
  enum status status = text_tokenize(source, text, size, tokens, error);
  return status == STATUS_OK ? prompt_fits(source, prompt_tokens_count(tokens), param, error) : status;
}

enum status prompt_of_chat(const struct prompt_source *source, const struct chat_call *call, struct buffer *tokens,
                           struct chat_prompt *ret_rendered, uint32_t *ret_head_tokens, struct api_error *error) {
  struct chat_prompt rendered;
  struct error detail = {0};
  size_t head_bytes = 0;
  uint32_t head_tokens = 0;
  enum status status = prompt_render(source, call, &rendered, error);
  if (status != STATUS_OK) return status;
  status = prompt_of_text(source, rendered.text, rendered.size, "messages", tokens, error);
  if (status == STATUS_OK && call->facts.has_head) {
    enum status asked = chat_head_bytes(source->chat, &call->chat, &rendered, &head_bytes, &detail);
    if (asked == STATUS_OK && head_bytes > 0) {
      status = leading_tokens(source, rendered.text, head_bytes, tokens, &head_tokens, error);
    }
  }
  if (status != STATUS_OK) {
    chat_prompt_release(&rendered);
    return status;
  }
  *ret_rendered = rendered;
  *ret_head_tokens = head_tokens;
  return STATUS_OK;
}

/* The leading text that two renderings share, whole characters of it, appended. */
static enum status shared_append(const struct chat_prompt *first, const struct chat_prompt *second,
                                 struct buffer *text) {
  size_t common = 0;
  while (common < first->size && common < second->size && first->text[common] == second->text[common]) common++;
  while (common > 0 && common < first->size && ((unsigned char)first->text[common] & 0xc0) == 0x80) common--;
  return buffer_append(text, first->text, common);
}

/* The list of messages, the reply and what follows it: results where the reply calls tools, else a question. */
static enum status turn_print(const char *messages_json, const json_t *reply, const char *content,
                              struct buffer *into) {
  const char *end = strrchr(messages_json, ']');
  const json_t *call = json_array_get(json_object_get(reply, "tool_calls"), 0);
  const char *id = json_string_value(json_object_get(call, "id"));
  json_t *next = call == NULL ? json_pack("{s:s, s:s}", "role", "user", "content", content)
                              : json_pack("{s:s, s:s*, s:s}", "role", "tool", "tool_call_id", id, "content", content);
  char *reply_text = json_dumps(reply, JSON_COMPACT), *next_text = json_dumps(next, JSON_COMPACT);
  enum status status = reply_text == NULL || next_text == NULL ? STATUS_NO_MEMORY : STATUS_OK;
  if (status == STATUS_OK) status = buffer_append(into, messages_json, end == NULL ? 0 : (size_t)(end - messages_json));
  if (status == STATUS_OK) status = buffer_append_format(into, ",%s,%s]", reply_text, next_text);
  json_decref(next);
  free(reply_text);
  free(next_text);
  return status;
}

static enum status turn_render(const struct prompt_source *source, const struct chat_call *call, const json_t *reply,
                               const char *content, struct chat_prompt *ret_rendered, struct api_error *error) {
  struct buffer messages;
  struct error detail = {0};
  struct chat_request chat = call->chat;
  buffer_init(&messages, 0);
  enum status status = turn_print(chat.messages_json, reply, content, &messages);
  if (status == STATUS_OK) {
    chat.messages_json = (const char *)messages.data;
    chat.omits_generation_prompt = true;
    chat.response_format_json = NULL;
    chat.json_schema_json = NULL;
    chat.grammar = NULL;
    status = chat_render(source->chat, &chat, ret_rendered, &detail);
  }
  buffer_release(&messages);
  return status == STATUS_OK ? STATUS_OK : render_refuse(error, status, call, &detail);
}

enum status prompt_of_next_turn(const struct prompt_source *source, const struct chat_call *call,
                                const char *reply_json, size_t reply_size, struct buffer *tokens,
                                struct api_error *error) {
  struct chat_prompt first, second;
  struct buffer text;
  json_t *reply = json_loadb(reply_json, reply_size, 0, NULL);
  if (reply == NULL) return api_error_of_status(error, STATUS_INVALID, NULL);
  buffer_init(&text, 0);
  /* what both share holds for any next message: templates print a reply otherwise once it is not the last one */
  enum status status = turn_render(source, call, reply, "a", &first, error);
  if (status == STATUS_OK) {
    status = turn_render(source, call, reply, "0", &second, error);
    if (status == STATUS_OK) {
      status = shared_append(&first, &second, &text);
      if (status != STATUS_OK) api_error_of_status(error, status, NULL);
      chat_prompt_release(&second);
    }
    chat_prompt_release(&first);
  }
  if (status == STATUS_OK && text.size > 0) {
    status = text_tokenize(source, (const char *)text.data, text.size, tokens, error);
  }
  buffer_release(&text);
  json_decref(reply);
  return status;
}

size_t prompt_settled_size(const char *text, size_t size) {
  static const char blanks[] = " \t\r\n";
  while (size > 0 && memchr(blanks, text[size - 1], sizeof blanks - 1) == NULL) size--;
  while (size > 0 && memchr(blanks, text[size - 1], sizeof blanks - 1) != NULL) size--;
  return size;
}

/* The conversation rendered with its last user text cut and followed by `tail`. */
static enum status tail_render(const struct prompt_source *source, const struct chat_call *call, size_t text_size,
                               const char *tail, struct chat_prompt *ret_rendered, struct api_error *error) {
  struct error detail = {0};
  struct chat_request chat = call->chat;
  json_t *messages = chat_messages_with_tail(call->messages, text_size, tail);
  char *text = messages == NULL ? NULL : json_dumps(messages, JSON_COMPACT);
  json_decref(messages);
  if (text == NULL) return api_error_of_status(error, STATUS_NO_MEMORY, NULL);
  chat.messages_json = text;
  chat.omits_generation_prompt = true;
  enum status status = chat_render(source->chat, &chat, ret_rendered, &detail);
  free(text);
  return status == STATUS_OK ? STATUS_OK : render_refuse(error, status, call, &detail);
}

/* Appends what two renderings have in common that differ right behind the cut, whatever a template does with texts. */
static enum status cut_render(const struct prompt_source *source, const struct chat_call *call, size_t text_size,
                              struct buffer *text, struct api_error *error) {
  struct chat_prompt first, second;
  enum status status = tail_render(source, call, text_size, "a", &first, error);
  if (status != STATUS_OK) return status;
  status = tail_render(source, call, text_size, "b", &second, error);
  if (status == STATUS_OK) {
    status = shared_append(&first, &second, text);
    if (status != STATUS_OK) api_error_of_status(error, status, NULL);
    chat_prompt_release(&second);
  }
  chat_prompt_release(&first);
  return status;
}

enum status prompt_of_draft(const struct prompt_source *source, const struct chat_call *call, size_t text_size,
                            struct buffer *tokens, uint32_t *ret_head_tokens, struct api_error *error) {
  struct buffer text, head;
  buffer_init(&text, 0);
  buffer_init(&head, 0);
  enum status status = STATUS_OK;
  if (source->chat == NULL) {
    status = api_error_field(error, "messages", "unsupported_parameter",
                             "This model has no chat template that the server can run; send a 'prompt'.");
  }
  if (status == STATUS_OK) status = cut_render(source, call, text_size, &text, error);
  if (status == STATUS_OK) status = cut_render(source, call, 0, &head, error);
  if (status == STATUS_OK)
    status = prompt_of_text(source, (const char *)text.data, text.size, "messages", tokens, error);
  if (status == STATUS_OK) {
    size_t head_size = head.size < text.size ? head.size : text.size;
    status = leading_tokens(source, (const char *)text.data, head_size, tokens, ret_head_tokens, error);
  }
  buffer_release(&text);
  buffer_release(&head);
  return status;
}
