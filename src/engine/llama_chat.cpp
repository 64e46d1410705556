/* The C++ border to llama.cpp: what can throw is called here (llama_guard.h), and the chat-template library is spoken
 * to here (chat.h). Nothing C++ leaves. */
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include <llama.h>

#ifdef FORELAY_LLAMA_COMMON
#include <chrono>
#include <memory>
#include <random>

#include <chat.h>
#include <common.h>
#include <json-schema-to-grammar.h>
#include <json.h>
#include <log.h>
#endif

extern "C" {
#include "engine/chat.h"
#include "engine/llama_guard.h"
#include "engine/llama_model.h"
}

namespace {

/* What an exception says, on one line; `e` is a std::exception thrown by value in places of llama.cpp, and then mute.
 */
enum status error_of(struct error *error, enum status status, const char *what, const std::exception &e) noexcept {
  const char *said = strcmp(e.what(), "std::exception") == 0 ? "cannot be used" : e.what();
  error_set(error, status, "%s%s%s", what, what[0] ? ": " : "", said);
  for (char *at = error ? error->text : nullptr; at && *at; at++)
    if (*at == '\n') *at = ' ';
  return status;
}

/* Runs call(), which returns a status; exceptions become `otherwise` and one line. */
template <typename F>
enum status guarded(struct error *error, enum status otherwise, const char *what, F &&call) noexcept {
  try {
    return call();
  } catch (const std::bad_alloc &) {
    return error_set(error, STATUS_NO_MEMORY, "%s: out of memory", what);
  } catch (const std::exception &e) {
    return error_of(error, otherwise, what, e);
  } catch (...) {
    return error_set(error, otherwise, "%s: failed without a reason", what);
  }
}

} // namespace

extern "C" {

enum status guard_model_load(const char *path, const struct llama_model_params *params, struct llama_model **ret_model,
                             struct error *error) {
  return guarded(error, STATUS_INVALID, "loading the model", [&] {
    *ret_model = llama_model_load_from_file(path, *params);
    return STATUS_OK;
  });
}

enum status guard_context_create(struct llama_model *model, const struct llama_context_params *params,
                                 struct llama_context **ret_context, struct error *error) {
  return guarded(error, STATUS_UNSUPPORTED, "making a context", [&] {
    *ret_context = llama_init_from_model(model, *params);
    return STATUS_OK;
  });
}

enum status guard_gguf_open(const char *path, struct gguf_context **ret_gguf, struct error *error) {
  return guarded(error, STATUS_INVALID, "reading the model's metadata", [&] {
    struct gguf_init_params params = {};
    params.no_alloc = true;
    *ret_gguf = gguf_init_from_file(path, params);
    return STATUS_OK;
  });
}

enum status guard_decode(struct llama_context *context, const struct llama_batch *batch, int32_t *ret_code,
                         struct error *error) {
  return guarded(error, STATUS_IO, "computing", [&] {
    *ret_code = llama_decode(context, *batch);
    return STATUS_OK;
  });
}

enum status guard_tokenize(const struct llama_vocab *vocab, const char *text, int32_t size, int32_t *tokens,
                           int32_t max, bool adds_special, bool parses_special, int32_t *ret_count,
                           struct error *error) {
  return guarded(error, STATUS_INVALID, "tokenizing", [&] {
    *ret_count = llama_tokenize(vocab, text, size, tokens, max, adds_special, parses_special);
    return STATUS_OK;
  });
}

enum status guard_state_size(struct llama_context *context, int32_t seq, size_t *ret_size, struct error *error) {
  return guarded(error, STATUS_UNSUPPORTED, "measuring a state", [&] {
    *ret_size = llama_state_seq_get_size(context, seq);
    return STATUS_OK;
  });
}

enum status guard_state_get(struct llama_context *context, int32_t seq, uint8_t *bytes, size_t size, size_t *ret_size,
                            struct error *error) {
  return guarded(error, STATUS_UNSUPPORTED, "saving a state", [&] {
    *ret_size = llama_state_seq_get_data(context, bytes, size, seq);
    return STATUS_OK;
  });
}

enum status guard_state_set(struct llama_context *context, int32_t seq, const uint8_t *bytes, size_t size,
                            size_t *ret_size, struct error *error) {
  return guarded(error, STATUS_INCOMPATIBLE, "restoring a state", [&] {
    *ret_size = llama_state_seq_set_data(context, bytes, size, seq);
    return STATUS_OK;
  });
}

enum status guard_grammar_create(const struct llama_vocab *vocab, const char *grammar, bool is_lazy,
                                 const char *const *patterns, size_t n_patterns, const int32_t *tokens, size_t n_tokens,
                                 struct llama_sampler **ret_grammar, struct error *error) {
  return guarded(error, STATUS_INVALID, "grammar", [&] {
    struct llama_sampler *made;
    if (is_lazy)
      made = llama_sampler_init_grammar_lazy_patterns(vocab, grammar, "root", const_cast<const char **>(patterns),
                                                      n_patterns, tokens, n_tokens);
    else
      made = llama_sampler_init_grammar(vocab, grammar, "root");
    if (!made) throw std::invalid_argument("does not parse, or has no rule \"root\"");
    *ret_grammar = made;
    return STATUS_OK;
  });
}

enum status guard_sampler_apply(struct llama_sampler *sampler, struct llama_token_data_array *candidates,
                                struct error *error) {
  return guarded(error, STATUS_INVALID, "drawing a token", [&] {
    llama_sampler_apply(sampler, candidates);
    return STATUS_OK;
  });
}

enum status guard_sampler_accept(struct llama_sampler *sampler, int32_t token, struct error *error) {
  return guarded(error, STATUS_INVALID, "following the grammar", [&] {
    llama_sampler_accept(sampler, token);
    return STATUS_OK;
  });
}

enum status guard_template_apply(const char *source, const char *const *roles, const char *const *contents, size_t n,
                                 bool adds_generation_prompt, struct buffer *text, struct error *error) {
  return guarded(
      error, STATUS_INVALID, "rendering the conversation", [&]() -> enum status {
        std::vector<llama_chat_message> messages(n);
        size_t size = 256;
        for (size_t i = 0; i < n; i++) {
          messages[i] = {roles[i], contents[i]};
          size += 64 + 2 * (strlen(roles[i]) + strlen(contents[i]));
        }
        std::vector<char> rendered(size);
        for (int attempt = 0; attempt < 2; attempt++) {
          int32_t needed = llama_chat_apply_template(source, messages.data(), n, adds_generation_prompt,
                                                     rendered.data(), static_cast<int32_t>(rendered.size()));
          if (needed < 0)
            return error_set(error, STATUS_UNSUPPORTED,
                             "chat template: not one that this build can render without guessing");
          if (static_cast<size_t>(needed) <= rendered.size())
            return buffer_append(text, rendered.data(), static_cast<size_t>(needed));
          rendered.resize(static_cast<size_t>(needed));
        }
        throw std::runtime_error("the template changes its length");
      });
}

} // extern "C"

#ifdef FORELAY_LLAMA_COMMON

struct chat {
  const struct model *model;
  common_chat_templates_ptr templates;
  std::map<std::string, bool> caps;
  std::string source;
  struct chat_facts facts;
};

struct chat_parser {
  common_chat_parser_params params;
  common_chat_msg message; /* as of the last call */
  std::vector<std::string> call_ids;
};

namespace {

using json = common_json;

bool is_given(const char *text) {
  return text && text[0];
}

/* The JSON value of a request's field, null where it is absent. */
json field_parse(const char *name, const char *text) {
  if (!is_given(text)) return nullptr;
  try {
    return json::parse(text);
  } catch (const std::exception &e) {
    throw std::invalid_argument(std::string(name) + ": " + e.what());
  }
}

/* A string under `key`, or "" (absent, null, another type), as llama-server reads it. */
std::string text_of(const json &object, const char *key) {
  if (!object.contains(key) || !object.at(key).is_string()) return "";
  return object.at(key).get<std::string>();
}

/* What a schema-bearing request asks for: null, or a schema that is not empty. */
json schema_of(const struct chat_request &request) {
  json schema = field_parse("json_schema", request.json_schema_json);
  if (!schema.is_null() && is_given(request.grammar))
    throw std::invalid_argument("json_schema and grammar cannot be used together");
  json format = field_parse("response_format", request.response_format_json);
  if (!format.is_null()) {
    if (!format.is_object()) throw std::invalid_argument("response_format: not an object");
    std::string type = text_of(format, "type");
    if (type == "json_object") {
      if (format.contains("schema") && !format.at("schema").is_null())
        schema = format.at("schema");
      else if (schema.is_null() || schema.empty())
        schema = json::object();
    } else if (type == "json_schema") {
      if (!format.contains("json_schema") || !format.at("json_schema").is_object())
        throw std::invalid_argument("response_format.json_schema: missing");
      const json &wrapper = format.at("json_schema");
      schema = wrapper.contains("schema") && !wrapper.at("schema").is_null() ? wrapper.at("schema") : json::object();
    } else if (!type.empty() && type != "text") {
      throw std::invalid_argument("response_format.type: not one of text, json_object, json_schema");
    }
  }
  if (schema.is_object() && schema.empty()) schema["type"] = "object"; /* any object */
  return schema;
}

void messages_check(const json &messages) {
  if (messages.is_null()) throw std::invalid_argument("messages: missing");
  if (!messages.is_array()) throw std::invalid_argument("messages: not an array");
  for (size_t i = 0; i < messages.size(); i++) {
    std::string where = "messages[" + std::to_string(i) + "]";
    const json &message = messages.at(i);
    if (!message.is_object()) throw std::invalid_argument(where + ": not an object");
    bool has_content = message.contains("content");
    if (!has_content && text_of(message, "role") != "assistant")
      throw std::invalid_argument(where + ".content: missing");
    if (!has_content && !message.contains("tool_calls"))
      throw std::invalid_argument(where + ": neither content nor tool_calls");
    if (!has_content) continue;
    const json &content = message.at("content");
    if (content.is_string() || content.is_null()) continue;
    if (!content.is_array()) throw std::invalid_argument(where + ".content: neither text nor an array");
    for (size_t part = 0; part < content.size(); part++)
      if (text_of(content.at(part), "type") != "text")
        throw std::domain_error(where + ".content[" + std::to_string(part) + "].type: only text is served");
  }
}

void continuation_choose(common_chat_templates_inputs &inputs) {
  size_t n = inputs.messages.size();
  if (n == 0 || inputs.messages.back().role != "assistant") return;
  if (n >= 2 && inputs.messages[n - 2].role == "assistant")
    throw std::invalid_argument("messages: ends with two assistant messages");
  if (!inputs.messages.back().tool_calls.empty())
    throw std::invalid_argument("messages: ends with tool calls that nothing answers");
  inputs.continue_final_message = COMMON_CHAT_CONTINUATION_AUTO;
  inputs.add_generation_prompt = false;
}

void thinking_choose(const struct chat_request &request, common_chat_templates_inputs &inputs) {
  inputs.chat_template_kwargs["preserve_reasoning"] = "true"; /* llama-server's default */
  json kwargs = field_parse("chat_template_kwargs", request.template_kwargs_json);
  if (!kwargs.is_null() && !kwargs.is_object()) throw std::invalid_argument("chat_template_kwargs: not an object");
  if (kwargs.is_object())
    for (const auto &item : kwargs.items()) inputs.chat_template_kwargs[item.key()] = item.value().dump();
  auto thinking = inputs.chat_template_kwargs.find("enable_thinking");
  if (thinking != inputs.chat_template_kwargs.end()) {
    if (thinking->second == "true")
      inputs.enable_thinking = true;
    else if (thinking->second == "false")
      inputs.enable_thinking = false;
    else if (!thinking->second.empty() && thinking->second[0] == '"')
      throw std::invalid_argument("chat_template_kwargs.enable_thinking: not a boolean");
  }
  if (!is_given(request.reasoning_effort)) return;
  if (strcmp(request.reasoning_effort, "none") == 0) {
    inputs.enable_thinking = false;
    inputs.chat_template_kwargs.erase("reasoning_effort");
  } else {
    inputs.chat_template_kwargs["reasoning_effort"] = json::make(request.reasoning_effort).dump();
  }
}

common_chat_tool_choice tool_choice_parse(const struct chat_request &request) {
  json choice = field_parse("tool_choice", request.tool_choice_json);
  if (choice.is_null()) return COMMON_CHAT_TOOL_CHOICE_AUTO;
  if (!choice.is_string())
    throw std::domain_error("tool_choice: a named tool is not served; use auto, none or required");
  std::string text = choice.get<std::string>();
  if (text != "auto" && text != "none" && text != "required")
    throw std::invalid_argument("tool_choice: not one of auto, none, required");
  return common_chat_tool_choice_parse_oaicompat(text);
}

std::vector<common_chat_tool> tools_parse(const json &tools) {
  try {
    return common_chat_tools_parse_oaicompat(tools);
  } catch (const std::exception &e) {
    throw std::invalid_argument(std::string("tools: ") + e.what());
  }
}

std::vector<common_chat_msg> messages_parse(const json &messages) {
  messages_check(messages);
  try {
    return common_chat_msgs_parse_oaicompat(messages);
  } catch (const std::exception &e) {
    throw std::invalid_argument(std::string("messages: ") + e.what());
  }
}

/* The request as llama-server would hand it to the template library. */
common_chat_templates_inputs inputs_make(const struct chat &chat, const struct chat_request &request) {
  common_chat_templates_inputs inputs;
  inputs.use_jinja = true;
  inputs.messages = messages_parse(field_parse("messages", request.messages_json));
  inputs.tools = tools_parse(field_parse("tools", request.tools_json));
  inputs.tool_choice = tool_choice_parse(request);
  if (!inputs.tools.empty() && !chat.facts.has_tools)
    throw std::domain_error("tools: this model's chat template knows none; give one that does by --chat-template-file");
  json schema = schema_of(request);
  if (!schema.is_null()) inputs.json_schema = schema.dump();
  if (is_given(request.grammar)) inputs.grammar = request.grammar;
  if (!inputs.tools.empty() && inputs.tool_choice != COMMON_CHAT_TOOL_CHOICE_NONE && is_given(request.grammar))
    throw std::invalid_argument("grammar: cannot be used together with tools");
  inputs.parallel_tool_calls =
      request.parallel_tool_calls < 0 ? chat.facts.has_parallel_tools : request.parallel_tool_calls != 0;
  inputs.add_generation_prompt = !request.omits_generation_prompt;
  inputs.reasoning_format = COMMON_REASONING_FORMAT_DEEPSEEK;
  inputs.enable_thinking = chat.facts.has_thinking;
  inputs.now = std::chrono::system_clock::time_point(std::chrono::seconds(request.now_s));
  thinking_choose(request, inputs);
  return inputs;
}

std::vector<int32_t> tokens_of(const struct chat &chat, const std::string &text) {
  std::vector<int32_t> tokens(text.size() + 4);
  int32_t n = llama_tokenize(chat.model->vocab, text.data(), static_cast<int32_t>(text.size()), tokens.data(),
                             static_cast<int32_t>(tokens.size()), false, true);
  tokens.resize(n > 0 ? static_cast<size_t>(n) : 0);
  return tokens;
}

std::vector<int32_t> preserved_of(const struct chat &chat, const common_chat_params &params) {
  std::vector<int32_t> preserved;
  for (const auto &text : params.preserved_tokens) {
    std::vector<int32_t> tokens = tokens_of(chat, text);
    if (tokens.size() == 1) preserved.push_back(tokens[0]);
  }
  return preserved;
}

/* Triggers in the two forms that a lazy grammar of libllama knows: patterns and tokens. */
void triggers_sort(const struct chat &chat, const common_chat_params &params, std::vector<std::string> &patterns,
                   std::vector<int32_t> &tokens) {
  for (const auto &trigger : params.grammar_triggers) {
    const std::string &text = trigger.value;
    switch (trigger.type) {
    case COMMON_GRAMMAR_TRIGGER_TYPE_TOKEN:
      tokens.push_back(trigger.token);
      break;
    case COMMON_GRAMMAR_TRIGGER_TYPE_WORD: {
      std::vector<int32_t> ids = tokens_of(chat, text);
      if (ids.size() == 1)
        tokens.push_back(ids[0]);
      else
        patterns.push_back(regex_escape(text));
      break;
    }
    case COMMON_GRAMMAR_TRIGGER_TYPE_PATTERN:
      patterns.push_back(text);
      break;
    case COMMON_GRAMMAR_TRIGGER_TYPE_PATTERN_FULL:
      if (text.empty())
        patterns.push_back("^$");
      else
        patterns.push_back((text.front() == '^' ? "" : "^") + text + (text.back() == '$' ? "" : "$"));
      break;
    }
  }
}

void *memory_need(void *memory) {
  if (!memory) throw std::bad_alloc();
  return memory;
}

char *text_give(const std::string &text) {
  return static_cast<char *>(memcpy(memory_need(malloc(text.size() + 1)), text.c_str(), text.size() + 1));
}

/* Fills as it goes, so that what is there can be freed when memory ends. */
void texts_give(const std::vector<std::string> &texts, char ***ret_texts, uint32_t *ret_count) {
  if (texts.empty()) return;
  *ret_texts = static_cast<char **>(memory_need(calloc(texts.size(), sizeof **ret_texts)));
  for (const auto &text : texts) {
    (*ret_texts)[*ret_count] = text_give(text);
    ++*ret_count;
  }
}

int32_t *tokens_give(const std::vector<int32_t> &tokens, uint32_t *ret_count) {
  if (tokens.empty()) return nullptr;
  void *given = memory_need(malloc(tokens.size() * sizeof(int32_t)));
  *ret_count = static_cast<uint32_t>(tokens.size());
  return static_cast<int32_t *>(memcpy(given, tokens.data(), tokens.size() * sizeof(int32_t)));
}

void grammar_give(const struct chat &chat, const struct chat_request &request, const common_chat_params &params,
                  struct chat_prompt *prompt) {
  if (params.grammar.empty()) {
    if (is_given(request.grammar)) prompt->grammar = text_give(request.grammar);
    return;
  }
  prompt->grammar = text_give(params.grammar);
  prompt->is_grammar_lazy = params.grammar_lazy;
  if (!params.generation_prompt.empty()) prompt->generation_prompt = text_give(params.generation_prompt);
  std::vector<std::string> patterns;
  std::vector<int32_t> tokens;
  triggers_sort(chat, params, patterns, tokens);
  texts_give(patterns, &prompt->triggers, &prompt->n_triggers);
  prompt->trigger_tokens = tokens_give(tokens, &prompt->n_trigger_tokens);
}

void prompt_fill(const struct chat &chat, const struct chat_request &request, const common_chat_params &params,
                 struct chat_prompt *prompt) {
  std::unique_ptr<chat_parser> parser(new chat_parser());
  parser->params = common_chat_parser_params(params);
  parser->params.reasoning_format = COMMON_REASONING_FORMAT_DEEPSEEK;
  if (!params.parser.empty()) parser->params.parser.load(params.parser);
  prompt->parser = parser.release();
  prompt->text = text_give(params.prompt);
  prompt->size = params.prompt.size();
  grammar_give(chat, request, params, prompt);
  prompt->preserved = tokens_give(preserved_of(chat, params), &prompt->n_preserved);
  texts_give(params.additional_stops, &prompt->stops, &prompt->n_stops);
}

/* Of the exceptions that a request can cause, domain_error is this file's sign for what is right but not served; those
 * of invalid_argument name the field. */
template <typename F> enum status chat_guarded(struct error *error, F &&call) noexcept {
  return guarded(error, STATUS_INVALID, "chat template", [&] {
    try {
      return call();
    } catch (const std::domain_error &e) {
      return error_of(error, STATUS_UNSUPPORTED, "", e);
    } catch (const std::invalid_argument &e) {
      return error_of(error, STATUS_INVALID, "", e);
    }
  });
}

size_t shared_bytes(const std::string &text, const char *other, size_t size) {
  size_t n = std::min(text.size(), size), i = 0;
  while (i < n && text[i] == other[i]) i++;
  return i;
}

/* Never inside a character. */
size_t whole_characters(const char *text, size_t size, size_t n) {
  while (n > 0 && n < size && (static_cast<unsigned char>(text[n]) & 0xc0) == 0x80) n--;
  return n;
}

std::string call_id_make() {
  static const char letters[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  std::random_device device;
  std::uniform_int_distribution<size_t> any(0, sizeof letters - 2);
  std::string id = "call_";
  for (int i = 0; i < 24; i++) id += letters[any(device)];
  return id;
}

json delta_json(const common_chat_msg_diff &diff) {
  json delta = json::object();
  if (!diff.reasoning_content_delta.empty()) delta["reasoning_content"] = diff.reasoning_content_delta;
  if (!diff.content_delta.empty()) delta["content"] = diff.content_delta;
  if (diff.tool_call_index == std::string::npos) return delta;
  json call = json::object();
  call["index"] = diff.tool_call_index;
  if (!diff.tool_call_delta.id.empty()) {
    call["id"] = diff.tool_call_delta.id;
    call["type"] = "function";
  }
  json function = json::object();
  if (!diff.tool_call_delta.name.empty()) function["name"] = diff.tool_call_delta.name;
  if (!diff.tool_call_delta.arguments.empty()) function["arguments"] = diff.tool_call_delta.arguments;
  if (!function.empty()) call["function"] = function;
  json calls = json::array();
  calls.push_back(call);
  delta["tool_calls"] = calls;
  return delta;
}

enum status json_append(struct buffer *into, const json &value) {
  if (!into) return STATUS_OK;
  std::string text = value.dump();
  return buffer_append(into, text.data(), text.size());
}

} // namespace

extern "C" {

enum status chat_open(const struct model *model, const char *source, struct chat **ret_chat, struct error *error) {
  return guarded(
      error, STATUS_INVALID, "chat template", [&]() -> enum status {
        bool has_own =
            llama_model_chat_template(model->weights, nullptr) || llama_model_chat_template(model->weights, "tool_use");
        if (!is_given(source) && !has_own)
          return error_set(error, STATUS_NOT_FOUND, "model %s has no chat template; give one by --chat-template-file",
                           model->facts.name);
        common_log_pause(common_log_main()); /* what it says is said again in the exceptions */
        std::unique_ptr<chat> made(new chat());
        made->model = model;
        made->templates = common_chat_templates_init(model->weights, is_given(source) ? source : "");
        made->caps = common_chat_templates_get_caps(made->templates.get());
        made->source = common_chat_templates_source(made->templates.get());
        common_chat_format_example(made->templates.get(), true,
                                   {}); /* throws where the template cannot render at all */
        made->facts.has_tools = made->caps["supports_tools"];
        made->facts.has_parallel_tools = made->caps["supports_parallel_tool_calls"];
        made->facts.has_thinking = common_chat_templates_support_enable_thinking(made->templates.get());
        made->facts.has_schema = true;
        made->facts.source = made->source.c_str();
        *ret_chat = made.release();
        return STATUS_OK;
      });
}

void chat_close(struct chat **chat) {
  delete *chat;
  *chat = nullptr;
}

const struct chat_facts *chat_facts(const struct chat *chat) {
  return &chat->facts;
}

enum status chat_render(const struct chat *chat, const struct chat_request *request, struct chat_prompt *ret_prompt,
                        struct error *error) {
  struct chat_prompt prompt = {};
  enum status status = chat_guarded(error, [&] {
    common_chat_templates_inputs inputs = inputs_make(*chat, *request);
    continuation_choose(inputs);
    prompt_fill(*chat, *request, common_chat_templates_apply(chat->templates.get(), inputs), &prompt);
    return STATUS_OK;
  });
  if (status != STATUS_OK) {
    chat_prompt_release(&prompt);
    return status;
  }
  *ret_prompt = prompt;
  return STATUS_OK;
}

void chat_parser_destroy(struct chat_parser **parser) {
  delete *parser;
  *parser = nullptr;
}

enum status chat_parse(struct chat_parser *parser, const char *text, size_t size, bool is_partial,
                       struct buffer *message, struct buffer *deltas, bool *ret_has_calls, struct error *error) {
  return chat_guarded(
      error, [&]() -> enum status {
        std::string input(text, size);
        common_chat_msg parsed;
        enum status status = STATUS_OK;
        try {
          parsed = common_chat_parse(input, is_partial, parser->params);
        } catch (const std::runtime_error &e) {
          if (is_partial) { /* more text will decide */
            parsed = parser->message;
          } else {
            status = error_set(error, STATUS_INVALID, "%s", e.what());
            parsed.role = "assistant";
            parsed.content = input;
          }
        }
        if (parsed.empty() && is_partial) parsed = parser->message;
        parsed.set_tool_call_ids(parser->call_ids, call_id_make);
        json list = json::array();
        if (status == STATUS_OK)
          for (const auto &diff : common_chat_msg_diff::compute_diffs(parser->message, parsed))
            list.push_back(delta_json(diff));
        parsed.role = "assistant";
        parser->message = parsed;
        if (ret_has_calls) *ret_has_calls = !parsed.tool_calls.empty();
        enum status kept = json_append(message, parsed.to_json_oaicompat());
        if (kept == STATUS_OK) kept = json_append(deltas, list);
        return kept == STATUS_OK ? status : error_set(error, kept, "no room for the parsed answer");
      });
}

enum status chat_head_bytes(const struct chat *chat, const struct chat_request *request,
                            const struct chat_prompt *prompt, size_t *ret_bytes, struct error *error) {
  return chat_guarded(error, [&] {
    common_chat_templates_inputs inputs = inputs_make(*chat, *request);
    size_t n = 0, bytes = prompt->size;
    while (n < inputs.messages.size() &&
           (inputs.messages[n].role == "system" || inputs.messages[n].role == "developer"))
      n++;
    inputs.messages.resize(n);
    for (const char *text :
         {"a", "0"}) { /* whatever both share with the prompt does not depend on the first question */
      common_chat_msg question;
      question.role = "user";
      question.content = text;
      inputs.messages.resize(n);
      inputs.messages.push_back(question);
      try {
        bytes = shared_bytes(common_chat_templates_apply(chat->templates.get(), inputs).prompt, prompt->text, bytes);
      } catch (const std::exception &) {
        bytes = 0;
      }
    }
    *ret_bytes = whole_characters(prompt->text, prompt->size, bytes);
    return STATUS_OK;
  });
}

enum status chat_prefix_bytes(const struct chat *chat, const struct chat_request *request,
                              const struct chat_prompt *prompt, uint32_t n_messages, size_t *ret_bytes,
                              struct error *error) {
  return chat_guarded(error, [&] {
    common_chat_templates_inputs inputs = inputs_make(*chat, *request);
    if (n_messages < inputs.messages.size()) inputs.messages.resize(n_messages);
    inputs.add_generation_prompt = false;
    size_t bytes = 0;
    try {
      std::string text = common_chat_templates_apply(chat->templates.get(), inputs).prompt;
      bytes = shared_bytes(text, prompt->text, prompt->size);
    } catch (const std::exception &) {
      bytes = 0; /* a template may refuse a conversation that ends there */
    }
    *ret_bytes = whole_characters(prompt->text, prompt->size, bytes);
    return STATUS_OK;
  });
}

enum status chat_schema_grammar(const char *schema_json, struct buffer *grammar, struct error *error) {
  return guarded(error, STATUS_INVALID, "json_schema", [&] {
    json schema = json::parse(schema_json);
    if (schema.is_object() && schema.empty()) schema["type"] = "object";
    std::string text = json_schema_to_grammar(schema);
    return buffer_append(grammar, text.data(), text.size());
  });
}

} // extern "C"

#endif
