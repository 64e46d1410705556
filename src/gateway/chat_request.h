/* A chat completion's body as parsed and checked, before its template is rendered. Any thread. Owns its JSON. */
#ifndef FORELAY_GATEWAY_CHAT_REQUEST_H
#define FORELAY_GATEWAY_CHAT_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/chat.h"
#include "gateway/chat_messages.h"
#include "gateway/sampling_fields.h"

/* The members that a template renders, as the client wrote them. */
enum chat_part {
  CHAT_MESSAGES = 0,
  CHAT_TOOLS,
  CHAT_TOOL_CHOICE,
  CHAT_RESPONSE_FORMAT,
  CHAT_JSON_SCHEMA,
  CHAT_TEMPLATE_KWARGS,
  CHAT_PARTS
};

struct chat_call {
  struct sampling_fields fields;
  json_t *root;             /* everything borrowed points here */
  char *parts[CHAT_PARTS];  /* JSON text, NULL where absent */
  struct chat_request chat; /* what chat_render takes; points at parts */
  const json_t *messages;
  struct message_facts facts;
  bool has_tools;
};

/* Parses and checks a body. `messages` alone (apply-template, wishes): is_render_only admits only what a template
 * reads. On failure `error` names the field and nothing is left to release. bytes are not needed afterwards. */
MUST_USE enum status chat_call_parse(const char *bytes, size_t size, bool is_render_only, uint32_t n_vocab,
                                     struct chat_call *ret_call, struct api_error *error);
void chat_call_release(struct chat_call *call);

#endif
