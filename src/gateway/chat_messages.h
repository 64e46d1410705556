/* The list of messages of a chat: checked member by member, and what the rest of the gateway wants to know of it.
 * Any thread; borrows the JSON. */
#ifndef FORELAY_GATEWAY_CHAT_MESSAGES_H
#define FORELAY_GATEWAY_CHAT_MESSAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/status.h"
#include "gateway/api_error.h"

enum { CHAT_MESSAGES_MAX = 4096, CHAT_PARTS_MAX = 1024, CHAT_TOOL_CALLS_MAX = 128 };

struct message_facts {
  uint32_t user_messages;
  bool is_last_user; /* the last message is a user's */
  bool has_head;     /* it begins with a system or developer message */
  uint64_t opening;  /* digest of everything up to the first user message, that one included; 0 without one */
};

/* Refuses roles, members and content parts that are not served, naming them as "messages[2].content[0].type".
 * name: the member the messages came under, for those refusals. */
MUST_USE enum status chat_messages_check(const json_t *messages, const char *name, struct message_facts *ret_facts,
                                         struct api_error *error);
/* A new list (the caller's) with the text of the last message, which must be a user's with string or text-part content,
 * cut to its first `text_size` bytes and followed by `tail`. NULL without memory. */
json_t *chat_messages_with_tail(const json_t *messages, size_t text_size, const char *tail);
/* The text that chat_messages_with_tail cuts: the last user message's own, the last part of it where there are several.
 */
const char *chat_messages_last_text(const json_t *messages, size_t *ret_size);

#endif
