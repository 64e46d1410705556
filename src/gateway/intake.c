#include "gateway/intake.h"

#include <stdlib.h>
#include <string.h>

#include "engine/model.h"
#include "gateway/text_routes.h"

enum status intake_create(enum intake_kind kind, const struct prompt_source *source, const char *body, size_t size,
                          struct intake **ret_intake) {
  struct intake *intake = calloc(1, sizeof *intake);
  if (intake == NULL) return STATUS_NO_MEMORY;
  intake->body = malloc(size + 1);
  if (intake->body == NULL) {
    free(intake);
    return STATUS_NO_MEMORY;
  }
  if (size > 0) memcpy(intake->body, body, size);
  intake->body[size] = 0;
  intake->body_size = size;
  intake->kind = kind;
  intake->source = *source;
  for (int i = 0; i < PROMPTS_MAX; i++) {
    buffer_init(&intake->prompts[i], 0);
  }
  buffer_init(&intake->grammar, 0);
  buffer_init(&intake->reply, 0);
  buffer_init(&intake->next, 0);
  *ret_intake = intake;
  return STATUS_OK;
}

void intake_destroy(struct intake **ref) {
  if (ref == NULL || *ref == NULL) return;
  struct intake *intake = *ref;
  if (intake->has_rendered) chat_prompt_release(&intake->rendered);
  if (intake->has_chat) chat_call_release(&intake->chat);
  if (intake->has_completion) completion_call_release(&intake->completion);
  if (intake->has_wish) wish_release(&intake->wish);
  for (int i = 0; i < PROMPTS_MAX; i++) {
    buffer_release(&intake->prompts[i]);
  }
  buffer_release(&intake->grammar);
  buffer_release(&intake->reply);
  buffer_release(&intake->next);
  free(intake->body);
  free(intake);
  *ref = NULL;
}

/* What the template says of the answer goes into the way it is drawn. */
static enum status chat_sampling_join(struct intake *intake) {
  struct sampling *sampling = &intake->chat.fields.sampling;
  const struct chat_prompt *rendered = &intake->rendered;
  sampling->grammar = rendered->grammar;
  sampling->grammar_prefix = rendered->generation_prompt;
  sampling->is_grammar_lazy = rendered->is_grammar_lazy;
  sampling->triggers = (const char *const *)rendered->triggers;
  sampling->n_triggers = rendered->n_triggers;
  sampling->trigger_tokens = rendered->trigger_tokens;
  sampling->n_trigger_tokens = rendered->n_trigger_tokens;
  sampling->preserved = rendered->preserved;
  sampling->n_preserved = rendered->n_preserved;
  for (uint32_t i = 0; i < rendered->n_stops; i++) {
    if (intake->chat.fields.n_stops == ENGINE_STOPS_MAX) {
      return api_error_field(&intake->error, "stop", "array_above_max_length",
                             "Invalid 'stop': this model's template needs %u of the %d texts itself.",
                             rendered->n_stops, ENGINE_STOPS_MAX);
    }
    intake->chat.fields.stops[intake->chat.fields.n_stops++] = rendered->stops[i];
  }
  return STATUS_OK;
}

static enum status fields_finish(struct intake *intake, struct sampling_fields *fields) {
  struct error detail = {0};
  if (!fields->has_seed) fields->sampling.seed = intake->seed;
  intake->fields = fields;
  enum status status = sampling_check(&fields->sampling, model_facts(intake->source.model)->n_vocab, &detail);
  return status == STATUS_OK ? STATUS_OK : api_error_of_status(&intake->error, status, &detail);
}

static enum status chat_take(struct intake *intake) {
  struct api_error *error = &intake->error;
  enum status status = chat_call_parse(intake->body, intake->body_size, false,
                                       model_facts(intake->source.model)->n_vocab, &intake->chat, error);
  if (status != STATUS_OK) return status;
  intake->has_chat = true;
  intake->chat.chat.now_s = intake->now_us / 1000000;
  status = prompt_of_chat(&intake->source, &intake->chat, &intake->prompts[0], &intake->rendered, &intake->head_tokens,
                          error);
  if (status != STATUS_OK) return status;
  intake->has_rendered = true;
  intake->n_prompts = 1;
  status = chat_sampling_join(intake);
  return status == STATUS_OK ? fields_finish(intake, &intake->chat.fields) : status;
}

static enum status completion_take(struct intake *intake) {
  struct api_error *error = &intake->error;
  struct completion_call *call = &intake->completion;
  struct error detail = {0};
  enum status status =
      completion_call_parse(intake->body, intake->body_size, model_facts(intake->source.model)->n_vocab, call, error);
  if (status != STATUS_OK) return status;
  intake->has_completion = true;
  for (uint32_t i = 0; i < call->n_prompts; i++) {
    const char *text = NULL;
    size_t size = 0;
    struct buffer *tokens = &intake->prompts[i];
    status = prompt_field_get(call->prompt, i, &text, &size, tokens);
    if (status != STATUS_OK) return api_error_of_status(error, status, NULL);
    status = text != NULL ? prompt_of_text(&intake->source, text, size, "prompt", tokens, error)
                          : prompt_fits(&intake->source, prompt_tokens_count(tokens), "prompt", error);
    if (status == STATUS_OK && tokens->size == 0) {
      status = api_error_field(error, "prompt", "invalid_value", "Invalid 'prompt': it has no tokens.");
    }
    if (status != STATUS_OK) return status;
  }
  intake->n_prompts = call->n_prompts;
  if (call->schema != NULL) {
    status = chat_schema_grammar(call->schema, &intake->grammar, &detail);
    if (status != STATUS_OK) return api_error_field(error, "json_schema", "invalid_value", "%s", detail.text);
    call->fields.sampling.grammar = (const char *)intake->grammar.data;
  }
  return fields_finish(intake, &call->fields);
}

void intake_run(struct intake *intake) {
  struct api_error *error = &intake->error;
  const struct prompt_source *source = &intake->source;
  enum status status = STATUS_OK;
  switch (intake->kind) {
  case INTAKE_CHAT:
    status = chat_take(intake);
    break;
  case INTAKE_COMPLETION:
    status = completion_take(intake);
    break;
  case INTAKE_TOKENIZE:
    status = tokenize_answer(source, intake->body, intake->body_size, &intake->reply, error);
    break;
  case INTAKE_DETOKENIZE:
    status = detokenize_answer(source, intake->body, intake->body_size, &intake->reply, error);
    break;
  case INTAKE_TEMPLATE:
    status = template_answer(source, intake->body, intake->body_size, &intake->reply, error);
    break;
  case INTAKE_WISH:
    status =
        wish_parse(intake->wish_kind, source, intake->body, intake->body_size, intake->now_us, &intake->wish, error);
    intake->has_wish = status == STATUS_OK;
    break;
  case INTAKE_NEXT_TURN:
    status = prompt_of_next_turn(source, &intake->chat, (const char *)intake->reply.data, intake->reply.size,
                                 &intake->next, error);
    if (status != STATUS_OK) buffer_clear(&intake->next);
    break;
  }
  if (status != STATUS_OK && error->http_status == 0) api_error_of_status(error, status, NULL);
  free(intake->body);
  intake->body = NULL;
  intake->body_size = 0;
}
