#include "gateway/wish.h"

#include <stdlib.h>
#include <string.h>

#include "engine/model.h"
#include "gateway/completion_request.h"

enum { DOCUMENT_TEXT_SIZE_MAX = 16 << 20 };

/* clang-format off */
#define WHEN_FIELD_RULES                                                                                               \
  {"tier", FIELD_SERVED, NULL}, {"by", FIELD_SERVED, NULL}, {"partial", FIELD_SERVED, NULL},                           \
  {"at", FIELD_SERVED, NULL}, {"every", FIELD_SERVED, NULL}, {"count", FIELD_SERVED, NULL},                            \
  {"until", FIELD_SERVED, NULL}
/* clang-format on */

static const struct field_rule prompt_rules[] = {
    {"prompt", FIELD_SERVED, NULL}, {"model", FIELD_SERVED, NULL}, WHEN_FIELD_RULES};

static const struct field_rule document_rules[] = {{"id", FIELD_SERVED, NULL},
                                                   {"before", FIELD_SERVED, NULL},
                                                   {"text", FIELD_SERVED, NULL},
                                                   {"tier", FIELD_SERVED, NULL},
                                                   {"model", FIELD_SERVED, NULL}};

/* Which of the members that say when belong to which wish. */
static const struct {
  const char *name;
  unsigned wishes; /* bits of enum backend_wish_kind */
} when_fields[] = {
    {"by", 1u << WISH_PREPARE},
    {"partial", 1u << WISH_PREPARE},
    {"tier", 1u << WISH_PREPARE | 1u << WISH_PIN | 1u << WISH_DOCUMENT},
    {"at", 1u << WISH_ANNOUNCE},
    {"every", 1u << WISH_ANNOUNCE},
    {"count", 1u << WISH_ANNOUNCE},
    {"until", 1u << WISH_PIN},
};

static const double unix_second_max = 253402300799.0; /* the year 9999 */

static enum status moment_read(const struct field_scope *scope, const char *name, uint64_t *value_us) {
  double seconds = -1;
  enum status status = field_number(scope, name, 0, unix_second_max, &seconds);
  if (status == STATUS_OK && seconds >= 0) *value_us = (uint64_t)(seconds * 1e6);
  return status;
}

static enum status tier_read(const struct field_scope *scope, enum tier *value) {
  const char *name = NULL;
  enum status status = field_string(scope, "tier", 16, &name);
  if (status != STATUS_OK || name == NULL) return status;
  enum tier tier = tier_of_name(name);
  if (tier != TIER_DEVICE && tier != TIER_RAM && tier != TIER_SSD) {
    return field_refuse(scope, "tier", "invalid_value", "Invalid 'tier': expected device, ram or ssd.");
  }
  *value = tier;
  return STATUS_OK;
}

static enum status announce_check(const struct field_scope *scope, struct wish *wish, uint64_t now_us) {
  bool has_at = field_get(scope, "at") != NULL, has_every = field_get(scope, "every") != NULL;
  if (has_at == has_every) {
    return field_refuse(scope, "at", "invalid_value", "Give either 'at' (Unix seconds) or 'every' (seconds).");
  }
  if (has_at) return STATUS_OK;
  wish->by_us = now_us + wish->every_us;
  return STATUS_OK;
}

static enum status when_read(const struct field_scope *scope, struct wish *wish, uint64_t now_us) {
  int64_t count = 1;
  double every_s = 0;
  for (size_t i = 0; i < sizeof when_fields / sizeof when_fields[0]; i++) {
    if (field_get(scope, when_fields[i].name) == NULL || (when_fields[i].wishes & 1u << wish->wish_kind) != 0) continue;
    return field_refuse(scope, when_fields[i].name, "unknown_parameter", "Unknown parameter: '%s'.",
                        when_fields[i].name);
  }
  enum status status = tier_read(scope, &wish->tier);
  if (status == STATUS_OK) status = moment_read(scope, "by", &wish->by_us);
  if (status == STATUS_OK) status = moment_read(scope, "at", &wish->by_us);
  if (status == STATUS_OK) status = moment_read(scope, "until", &wish->until_us);
  if (status == STATUS_OK) status = field_number(scope, "every", 1, 366.0 * 86400, &every_s);
  if (status == STATUS_OK) status = field_integer(scope, "count", 1, 1000000, &count);
  if (status == STATUS_OK) status = field_bool(scope, "partial", &wish->is_partial);
  if (status != STATUS_OK) return status;
  wish->every_us = (uint64_t)(every_s * 1e6);
  wish->count = (uint64_t)count;
  if (wish->wish_kind == WISH_ANNOUNCE) return announce_check(scope, wish, now_us);
  if (wish->wish_kind == WISH_PIN && wish->until_us != 0 && wish->until_us <= now_us) {
    return field_refuse(scope, "until", "invalid_value", "Invalid 'until': this moment has passed.");
  }
  return STATUS_OK;
}

static enum status prompt_read(const struct prompt_source *source, const struct field_scope *scope, struct wish *wish) {
  const json_t *prompt = NULL;
  const char *text = NULL;
  size_t size = 0;
  uint32_t count = 0;
  enum status status = fields_check(scope, prompt_rules, sizeof prompt_rules / sizeof prompt_rules[0]);
  if (status == STATUS_OK) {
    status = prompt_field_check(scope, model_facts(source->model)->n_vocab, 1, &prompt, &count);
  }
  if (status != STATUS_OK) return status;
  if (wish->is_partial && !json_is_string(prompt)) {
    return field_refuse(scope, "partial", "invalid_value", "'partial' needs a 'prompt' of text, or 'messages'.");
  }
  status = prompt_field_get(prompt, 0, &text, &size, &wish->tokens);
  if (status != STATUS_OK) return api_error_of_status(scope->error, status, NULL);
  if (text == NULL) return prompt_fits(source, prompt_tokens_count(&wish->tokens), "prompt", scope->error);
  if (wish->is_partial) size = prompt_settled_size(text, size);
  if (size == 0) {
    return field_refuse(scope, "prompt", "invalid_value", "Invalid 'prompt': nothing before its last whitespace.");
  }
  return prompt_of_text(source, text, size, "prompt", &wish->tokens, scope->error);
}

static enum status messages_read(const struct prompt_source *source, const char *bytes, size_t size, struct wish *wish,
                                 struct api_error *error) {
  struct chat_call call;
  struct chat_prompt rendered;
  size_t text_size = 0;
  enum status status = chat_call_parse(bytes, size, true, model_facts(source->model)->n_vocab, &call, error);
  if (status != STATUS_OK) return status;
  const char *text = chat_messages_last_text(call.messages, &text_size);
  if (wish->is_partial && (!call.facts.is_last_user || text == NULL)) {
    status =
        api_error_field(error, "messages", "invalid_value", "'partial' needs a last message of role user with a text.");
  } else if (wish->is_partial) {
    text_size = prompt_settled_size(text, text_size);
    status = prompt_of_draft(source, &call, text_size, &wish->tokens, &wish->head_tokens, error);
  } else {
    call.chat.omits_generation_prompt = !call.facts.is_last_user;
    wish->kind = call.facts.user_messages == 0 ? KIND_SHARED : KIND_COMPLETE;
    status = prompt_of_chat(source, &call, &wish->tokens, &rendered, &wish->head_tokens, error);
    if (status == STATUS_OK) chat_prompt_release(&rendered);
  }
  chat_call_release(&call);
  return status;
}

/* {"messages": [before…, {"role": "user", "content": text}]} in a call of its own. */
static enum status document_call(const json_t *before, const char *text, uint32_t n_vocab, struct chat_call *ret_call,
                                 struct api_error *error) {
  json_t *messages = json_copy((json_t *)(uintptr_t)before); /* shallow: the list is new, its items are shared */
  json_t *user = json_pack("{s:s, s:s}", "role", "user", "content", text);
  json_t *root = NULL;
  char *body = NULL;
  if (messages != NULL && user != NULL && json_array_append(messages, user) == 0) {
    root = json_pack("{s:O}", "messages", messages);
  }
  if (root != NULL) body = json_dumps(root, JSON_COMPACT);
  json_decref(root);
  json_decref(user);
  json_decref(messages);
  if (body == NULL) return api_error_of_status(error, STATUS_NO_MEMORY, NULL);
  enum status status = chat_call_parse(body, strlen(body), true, n_vocab, ret_call, error);
  free(body);
  return status;
}

static enum status document_read(const struct prompt_source *source, const struct field_scope *scope,
                                 struct wish *wish) {
  struct chat_call call;
  struct message_facts facts;
  const char *id = NULL, *text = NULL;
  const json_t *before = NULL;
  uint32_t head_tokens = 0;
  wish->kind = KIND_DOCUMENT;
  enum status status = fields_check(scope, document_rules, sizeof document_rules / sizeof document_rules[0]);
  if (status == STATUS_OK) status = field_string(scope, "id", DOCUMENT_ID_SIZE - 1, &id);
  if (status == STATUS_OK) status = field_string(scope, "text", DOCUMENT_TEXT_SIZE_MAX, &text);
  if (status == STATUS_OK) status = field_array(scope, "before", 0, CHAT_MESSAGES_MAX - 1, &before);
  if (status == STATUS_OK) status = tier_read(scope, &wish->tier);
  if (status != STATUS_OK) return status;
  if (id == NULL || id[0] == 0) {
    return field_refuse(scope, "id", "missing_required_parameter", "Missing required parameter: 'id'.");
  }
  if (text == NULL || text[0] == 0) {
    return field_refuse(scope, "text", "missing_required_parameter", "Missing required parameter: 'text'.");
  }
  memcpy(wish->document, id, strlen(id) + 1);
  if (before == NULL) return STATUS_OK;
  status = chat_messages_check(before, "before", &facts, scope->error);
  if (status != STATUS_OK) return status;
  status = document_call(before, text, model_facts(source->model)->n_vocab, &call, scope->error);
  if (status != STATUS_OK) return status;
  status = prompt_of_draft(source, &call, strlen(text), &wish->tokens, &head_tokens, scope->error);
  chat_call_release(&call);
  return status;
}

static enum status wish_read(const struct prompt_source *source, const json_t *root, const char *bytes, size_t size,
                             uint64_t now_us, struct wish *wish, struct api_error *error) {
  struct field_scope scope = {.object = root, .prefix = "", .error = error};
  if (wish->wish_kind == WISH_DOCUMENT) return document_read(source, &scope, wish);
  bool has_messages = field_get(&scope, "messages") != NULL, has_prompt = field_get(&scope, "prompt") != NULL;
  if (has_messages == has_prompt) {
    return field_refuse(&scope, "messages", "missing_required_parameter", "Give either 'messages' or 'prompt'.");
  }
  enum status status = when_read(&scope, wish, now_us);
  if (status == STATUS_OK) {
    status = has_prompt ? prompt_read(source, &scope, wish) : messages_read(source, bytes, size, wish, error);
  }
  if (status == STATUS_OK && prompt_tokens_count(&wish->tokens) == 0) {
    status = field_refuse(&scope, has_prompt ? "prompt" : "messages", "invalid_value", "There is nothing to prepare.");
  }
  return status;
}

enum status wish_parse(enum backend_wish_kind wish_kind, const struct prompt_source *source, const char *bytes,
                       size_t size, uint64_t now_us, struct wish *ret_wish, struct api_error *error) {
  json_t *root = NULL;
  memset(ret_wish, 0, sizeof *ret_wish);
  ret_wish->wish_kind = wish_kind;
  ret_wish->kind = KIND_COMPLETE;
  buffer_init(&ret_wish->tokens, 0);
  enum status status = body_parse(bytes, size, &root, error);
  if (status == STATUS_OK) status = wish_read(source, root, bytes, size, now_us, ret_wish, error);
  json_decref(root);
  if (status != STATUS_OK) wish_release(ret_wish);
  return status;
}

void wish_release(struct wish *wish) {
  buffer_release(&wish->tokens);
}
