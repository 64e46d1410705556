#include "gateway/text_routes.h"

#include <string.h>

#include "engine/model.h"
#include "gateway/json_text.h"

enum { TOKENS_MAX = 1 << 20, PIECE_SIZE_MAX = 512 };

static enum status piece_append(const struct model *model, int32_t token, struct buffer *reply) {
  char piece[PIECE_SIZE_MAX];
  size_t size = model_token_piece(model, token, true, piece, sizeof piece);
  if (size > sizeof piece) size = 0;
  bool is_text = true;
  for (size_t at = 0; at < size && is_text;) {
    size_t length = json_text_character(piece + at, size - at);
    is_text = length > 0;
    at += length;
  }
  enum status status = buffer_append_format(reply, "{\"id\":%d,\"piece\":", (int)token);
  if (status == STATUS_OK && is_text) status = json_text_append(reply, piece, size);
  if (status == STATUS_OK && !is_text) {
    for (size_t i = 0; i < size && status == STATUS_OK; i++) {
      status = buffer_append_format(reply, "%c%u", i == 0 ? '[' : ',', (unsigned)(unsigned char)piece[i]);
    }
    if (status == STATUS_OK) status = buffer_append(reply, "]", 1);
  }
  return status == STATUS_OK ? buffer_append(reply, "}", 1) : status;
}

static enum status tokens_print(const struct model *model, const struct buffer *tokens, bool has_pieces,
                                struct buffer *reply) {
  enum status status = buffer_append_text(reply, "{\"tokens\":[");
  for (uint32_t i = 0; i < prompt_tokens_count(tokens) && status == STATUS_OK; i++) {
    int32_t token = prompt_tokens(tokens)[i];
    if (i > 0) status = buffer_append(reply, ",", 1);
    if (status != STATUS_OK) break;
    status = has_pieces ? piece_append(model, token, reply) : buffer_append_format(reply, "%d", (int)token);
  }
  return status == STATUS_OK ? buffer_append_text(reply, "]}") : status;
}

enum status tokenize_answer(const struct prompt_source *source, const char *bytes, size_t size, struct buffer *reply,
                            struct api_error *error) {
  static const struct field_rule rules[] = {{"content", FIELD_SERVED, NULL},
                                            {"add_special", FIELD_SERVED, NULL},
                                            {"parse_special", FIELD_SERVED, NULL},
                                            {"with_pieces", FIELD_SERVED, NULL}};
  json_t *root = NULL;
  const char *content = NULL;
  bool adds_special = false, parses_special = true, has_pieces = false;
  struct buffer tokens;
  enum status status = body_parse(bytes, size, &root, error);
  if (status != STATUS_OK) return status;
  struct field_scope scope = {.object = root, .prefix = "", .error = error};
  struct error detail = {0};
  buffer_init(&tokens, 0);
  status = fields_check(&scope, rules, sizeof rules / sizeof rules[0]);
  if (status == STATUS_OK) status = field_string(&scope, "content", SIZE_MAX, &content);
  if (status == STATUS_OK) status = field_bool(&scope, "add_special", &adds_special);
  if (status == STATUS_OK) status = field_bool(&scope, "parse_special", &parses_special);
  if (status == STATUS_OK) status = field_bool(&scope, "with_pieces", &has_pieces);
  if (status == STATUS_OK && content == NULL) {
    status = field_refuse(&scope, "content", "missing_required_parameter", "Missing required parameter: 'content'.");
  }
  if (status == STATUS_OK) {
    status = model_tokenize(source->model, content, strlen(content), adds_special, parses_special, &tokens, &detail);
    if (status == STATUS_OK) status = tokens_print(source->model, &tokens, has_pieces, reply);
    if (status != STATUS_OK) api_error_of_status(error, status, &detail);
  }
  buffer_release(&tokens);
  json_decref(root);
  return status;
}

static enum status tokens_read(const struct field_scope *scope, uint32_t n_vocab, struct buffer *tokens) {
  const json_t *list = NULL;
  enum status status = field_array(scope, "tokens", 0, TOKENS_MAX, &list);
  if (status == STATUS_OK && list == NULL) {
    status = field_refuse(scope, "tokens", "missing_required_parameter", "Missing required parameter: 'tokens'.");
  }
  for (size_t i = 0; status == STATUS_OK && i < json_array_size(list); i++) {
    const json_t *item = json_array_get(list, i);
    int32_t token = (int32_t)json_integer_value(item);
    if (!json_is_integer(item) || json_integer_value(item) < 0 || json_integer_value(item) >= (json_int_t)n_vocab) {
      return field_refuse(scope, "tokens", "invalid_value", "Invalid 'tokens[%zu]': not a token of this model.", i);
    }
    status = buffer_append(tokens, &token, sizeof token);
    if (status != STATUS_OK) api_error_of_status(scope->error, status, NULL);
  }
  return status;
}

enum status detokenize_answer(const struct prompt_source *source, const char *bytes, size_t size, struct buffer *reply,
                              struct api_error *error) {
  static const struct field_rule rules[] = {{"tokens", FIELD_SERVED, NULL}};
  json_t *root = NULL;
  struct buffer tokens, text;
  enum status status = body_parse(bytes, size, &root, error);
  if (status != STATUS_OK) return status;
  struct field_scope scope = {.object = root, .prefix = "", .error = error};
  struct error detail = {0};
  buffer_init(&tokens, 0);
  buffer_init(&text, 0);
  status = fields_check(&scope, rules, 1);
  if (status == STATUS_OK) status = tokens_read(&scope, model_facts(source->model)->n_vocab, &tokens);
  if (status == STATUS_OK) {
    status = model_detokenize(source->model, prompt_tokens(&tokens), prompt_tokens_count(&tokens), &text, &detail);
    if (status == STATUS_OK) status = buffer_append_text(reply, "{\"content\":");
    if (status == STATUS_OK) status = json_text_append(reply, (const char *)text.data, text.size);
    if (status == STATUS_OK) status = buffer_append(reply, "}", 1);
    if (status != STATUS_OK) api_error_of_status(error, status, &detail);
  }
  buffer_release(&text);
  buffer_release(&tokens);
  json_decref(root);
  return status;
}

enum status template_answer(const struct prompt_source *source, const char *bytes, size_t size, struct buffer *reply,
                            struct api_error *error) {
  struct chat_call call;
  struct chat_prompt rendered;
  enum status status = chat_call_parse(bytes, size, false, model_facts(source->model)->n_vocab, &call, error);
  if (status != STATUS_OK) return status;
  status = prompt_render(source, &call, &rendered, error);
  if (status == STATUS_OK) {
    status = buffer_append_text(reply, "{\"prompt\":");
    if (status == STATUS_OK) status = json_text_append(reply, rendered.text, rendered.size);
    if (status == STATUS_OK) status = buffer_append(reply, "}", 1);
    if (status != STATUS_OK) api_error_of_status(error, status, NULL);
    chat_prompt_release(&rendered);
  }
  chat_call_release(&call);
  return status;
}
