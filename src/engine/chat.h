/* Conversations to prompt text and answers back to messages, by the model's own template: the C side of llama_chat.cpp,
 * the only C++ in the tree. What it renders is, byte for byte, what the llama-server of the same build renders. Never
 * guesses: a template it cannot run is refused.
 *
 * A struct chat is read-only once open: any thread, several at once. A chat_parser belongs to one thread at a time. */
#ifndef FORELAY_ENGINE_CHAT_H
#define FORELAY_ENGINE_CHAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct model;
struct chat;
struct chat_parser; /* how the answer to one prompt is read */

struct chat_facts {
  bool has_tools;          /* the template prints tools and tool calls */
  bool has_parallel_tools; /* and several calls in one message */
  bool has_thinking;       /* enable_thinking makes a difference */
  bool has_schema;         /* JSON schemas become grammars (libllama-common is there) */
  const char *source;      /* the template's text; lives as long as the chat */
};

/* The model's template, or `source` (Jinja text, NULL: the model's) in its place. The model must outlive the chat.
 * STATUS_NOT_FOUND: the model has none; STATUS_INVALID: it does not parse; STATUS_UNSUPPORTED: this build can render
 * listed templates only, and this is none of them. */
MUST_USE enum status chat_open(const struct model *model, const char *source, struct chat **ret_chat,
                               struct error *error);
/* Accepts NULL; NULLs the pointer. */
void chat_close(struct chat **chat);
const struct chat_facts *chat_facts(const struct chat *chat);

/* Fields of an OpenAI chat request. Each *_json is JSON text (NUL-terminated, borrowed) or NULL where it was absent. */
struct chat_request {
  const char *messages_json;        /* array */
  const char *tools_json;           /* array */
  const char *tool_choice_json;     /* string or object */
  const char *response_format_json; /* object */
  const char *json_schema_json;     /* object; llama-server's own field */
  const char *template_kwargs_json; /* chat_template_kwargs: object */
  const char *reasoning_effort;     /* plain text, not JSON */
  const char *grammar;              /* GBNF of the user's own, plain text */
  int parallel_tool_calls;          /* 0, 1; −1: as the template can */
  bool omits_generation_prompt;     /* add_generation_prompt: false */
  uint64_t now_s; /* Unix seconds; some templates print the date. strftime_now() of this build asks the clock itself */
};

/* Everything here is owned by the prompt; chat_prompt_release frees it. */
struct chat_prompt {
  char *text; /* [size], and a NUL behind it. Tokenize with adds_special and parses_special */
  size_t size;
  char *grammar;           /* GBNF for sampling.grammar; NULL: none */
  char *generation_prompt; /* for sampling.grammar_prefix; NULL: none, or the grammar is the user's own */
  bool is_grammar_lazy;
  char **triggers; /* [n_triggers] for sampling.triggers */
  uint32_t n_triggers;
  int32_t *trigger_tokens; /* [n_trigger_tokens] */
  uint32_t n_trigger_tokens;
  int32_t *preserved; /* [n_preserved] for sampling.preserved */
  uint32_t n_preserved;
  char **stops; /* [n_stops] texts that end the answer besides the request's own */
  uint32_t n_stops;
  struct chat_parser *parser; /* never NULL after success */
};

/* STATUS_INVALID: the request is wrong, or the template refuses it; `error` says where. STATUS_UNSUPPORTED: tools for a
 * template that knows none, content that is not text, a JSON schema without libllama-common. *ret_prompt is untouched
 * on failure. */
MUST_USE enum status chat_render(const struct chat *chat, const struct chat_request *request,
                                 struct chat_prompt *ret_prompt, struct error *error);
void chat_prompt_release(struct chat_prompt *prompt);
/* Takes the parser out of the prompt, which may be released then. Free it with chat_parser_destroy. */
struct chat_parser *chat_prompt_take_parser(struct chat_prompt *prompt);
void chat_parser_destroy(struct chat_parser **parser);

/* Reads the answer so far, from its first byte, text[size]; is_partial: more will come. Appends to `message` the whole
 * message as JSON object ({"role", "content", "reasoning_content", "tool_calls"}; OpenAI's names, ids of calls stay the
 * same from call to call), and to `deltas` a JSON array of what has come since the last call, each one `delta` of a
 * streamed chunk. Either may be NULL. `*ret_has_calls` (may be NULL): the message calls tools.
 * STATUS_INVALID: a finished answer that breaks the template's form; what can be read of it is given as content. */
MUST_USE enum status chat_parse(struct chat_parser *parser, const char *text, size_t size, bool is_partial,
                                struct buffer *message, struct buffer *deltas, bool *ret_has_calls,
                                struct error *error);

/* How many leading bytes of prompt->text (rendered from the same request) any conversation shares that begins with the
 * same system messages and tools, whatever its first question; 0: none, or the template does not tell. Renders twice.
 */
MUST_USE enum status chat_head_bytes(const struct chat *chat, const struct chat_request *request,
                                     const struct chat_prompt *prompt, size_t *ret_bytes, struct error *error);
/* How many leading bytes of prompt->text any conversation shares that begins with the request's first n_messages
 * messages; 0 where the template does not tell. Renders once. */
MUST_USE enum status chat_prefix_bytes(const struct chat *chat, const struct chat_request *request,
                                       const struct chat_prompt *prompt, uint32_t n_messages, size_t *ret_bytes,
                                       struct error *error);

/* GBNF of a JSON schema (JSON text), appended to `grammar`; "{}" is any object. STATUS_INVALID, STATUS_UNSUPPORTED. */
MUST_USE enum status chat_schema_grammar(const char *schema_json, struct buffer *grammar, struct error *error);

#ifdef __cplusplus
}
#endif

#endif
