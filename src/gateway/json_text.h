/* Text into JSON, and where a member's own bytes lie inside a JSON object. Never parses values. Any thread. Owns
 * nothing. */
#ifndef FORELAY_GATEWAY_JSON_TEXT_H
#define FORELAY_GATEWAY_JSON_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "base/status.h"

/* Appends `text` as a JSON string, quotes included. Bytes that are not UTF-8 become U+FFFD. */
MUST_USE enum status json_text_append(struct buffer *into, const char *text, size_t size);
/* In place: control bytes become spaces, a broken character (cut by a limit, say) becomes '?'. */
void json_text_clean(char *text);
/* Length of the UTF-8 character that begins at text[0], 1 to 4; 0 when it is broken or longer than `size`. */
size_t json_text_character(const char *text, size_t size);
/* Deepest nesting of arrays and objects in a JSON text, strings skipped; stops counting past `depth_max`. */
size_t json_text_depth(const char *json, size_t size, size_t depth_max);
/* The bytes of the value of top-level member `name` in a valid JSON object, as the client wrote them; the last one
 * where a name comes twice, as parsers do. false when there is none, or its name is written with escapes. */
bool json_text_member(const char *json, size_t size, const char *name, const char **ret_value, size_t *ret_size);

#endif
