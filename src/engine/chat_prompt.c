/* What every build does with a rendered prompt, whichever library rendered it. */
#include "engine/chat.h"

#include <stdlib.h>

static void texts_free(char **texts, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) free(texts[i]);
  free(texts);
}

void chat_prompt_release(struct chat_prompt *prompt) {
  free(prompt->text);
  free(prompt->grammar);
  free(prompt->generation_prompt);
  texts_free(prompt->triggers, prompt->n_triggers);
  free(prompt->trigger_tokens);
  free(prompt->preserved);
  texts_free(prompt->stops, prompt->n_stops);
  if (prompt->parser) chat_parser_destroy(&prompt->parser);
  *prompt = (struct chat_prompt){0};
}

struct chat_parser *chat_prompt_take_parser(struct chat_prompt *prompt) {
  struct chat_parser *parser = prompt->parser;
  prompt->parser = NULL;
  return parser;
}
