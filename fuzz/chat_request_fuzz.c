// rooms: gateway
/* Bodies of chat and text completions: whatever arrives is accepted or refused with a field's name, never worse. */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "gateway/chat_request.h"
#include "gateway/completion_request.h"
#include "gateway/json_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void refusal_check(const struct api_error *error) {
  struct buffer text;
  assert(error->http_status >= 400 && error->message[0] != 0);
  buffer_init(&text, 0);
  if (api_error_print(error, &text) == STATUS_OK) {
    json_t *parsed = json_loadb((const char *)text.data, text.size, 0, NULL);
    assert(parsed != NULL);
    json_decref(parsed);
  }
  buffer_release(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  enum { VOCAB = 49152 };
  const char *bytes = (const char *)data;
  for (int is_render_only = 0; is_render_only < 2; is_render_only++) {
    struct chat_call chat;
    struct api_error error = {0};
    if (chat_call_parse(bytes, size, is_render_only != 0, VOCAB, &chat, &error) != STATUS_OK) {
      refusal_check(&error);
      continue;
    }
    assert(chat.chat.messages_json != NULL && chat.chat.messages_json[0] == '[');
    size_t text_size = 0;
    if (chat.facts.is_last_user && chat_messages_last_text(chat.messages, &text_size) != NULL) {
      json_decref(chat_messages_with_tail(chat.messages, text_size, "a"));
    }
    chat_call_release(&chat);
  }
  struct completion_call completion;
  struct api_error error = {0};
  if (completion_call_parse(bytes, size, VOCAB, &completion, &error) != STATUS_OK) {
    refusal_check(&error);
    return 0;
  }
  for (uint32_t i = 0; i < completion.n_prompts; i++) {
    const char *text = NULL;
    size_t text_size = 0;
    struct buffer tokens;
    buffer_init(&tokens, 0);
    assert(prompt_field_get(completion.prompt, i, &text, &text_size, &tokens) == STATUS_OK);
    assert((text == NULL) == (tokens.size > 0));
    buffer_release(&tokens);
  }
  completion_call_release(&completion);
  return 0;
}
