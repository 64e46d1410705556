#include "gateway/answer.h"

#include <string.h>

#include "gateway/json_text.h"

const char *answer_finish_reason(enum stop_reason stop, bool has_calls) {
  switch (stop) {
  case STOP_LENGTH:
    return "length";
  case STOP_END_TURN:
  case STOP_SEQUENCE:
  case STOP_TOOL_CALL:
    return has_calls || stop == STOP_TOOL_CALL ? "tool_calls" : "stop";
  default:
    return NULL;
  }
}

static enum status head_print(struct buffer *into, const struct answer_head *head, const char *object) {
  enum status status =
      buffer_append_format(into, "{\"id\":\"%s\",\"object\":\"%s\",\"created\":%llu,\"model\":", head->id, object,
                           (unsigned long long)head->created_s);
  if (status == STATUS_OK) status = json_text_append(into, head->model, strlen(head->model));
  return status == STATUS_OK ? buffer_append_text(into, ",\"choices\":[") : status;
}

static enum status chunk_open(struct buffer *into, const struct answer_head *head, uint32_t index) {
  enum status status = head_print(into, head, head->is_chat ? "chat.completion.chunk" : "text_completion");
  return status == STATUS_OK ? buffer_append_format(into, "{\"index\":%u,", index) : status;
}

static enum status logprobs_and_reason(struct buffer *into, const char *logprobs, const char *finish_reason) {
  enum status status = buffer_append_text(into, ",\"logprobs\":");
  if (status == STATUS_OK) status = buffer_append_text(into, logprobs == NULL ? "null" : logprobs);
  if (status == STATUS_OK && finish_reason == NULL) status = buffer_append_text(into, ",\"finish_reason\":null}");
  if (status == STATUS_OK && finish_reason != NULL) {
    status = buffer_append_format(into, ",\"finish_reason\":\"%s\"}", finish_reason);
  }
  return status;
}

static enum status chunk_close(struct buffer *into, const struct answer_head *head, const char *logprobs) {
  enum status status = logprobs_and_reason(into, logprobs, NULL);
  return status == STATUS_OK ? buffer_append_text(into, head->has_usage ? "],\"usage\":null}" : "]}") : status;
}

enum status answer_chunk_role(struct buffer *into, const struct answer_head *head, uint32_t index) {
  static const char delta[] = "{\"role\":\"assistant\",\"content\":\"\"}";
  return answer_chunk_delta(into, head, index, delta, sizeof delta - 1, NULL);
}

enum status answer_chunk_delta(struct buffer *into, const struct answer_head *head, uint32_t index,
                               const char *delta_json, size_t delta_size, const char *logprobs) {
  enum status status = chunk_open(into, head, index);
  if (status == STATUS_OK) status = buffer_append_text(into, "\"delta\":");
  if (status == STATUS_OK) status = buffer_append(into, delta_json, delta_size);
  return status == STATUS_OK ? chunk_close(into, head, logprobs) : status;
}

enum status answer_chunk_text(struct buffer *into, const struct answer_head *head, uint32_t index, const char *text,
                              size_t size, const char *logprobs) {
  enum status status = chunk_open(into, head, index);
  if (status == STATUS_OK) status = buffer_append_text(into, head->is_chat ? "\"delta\":{\"content\":" : "\"text\":");
  if (status == STATUS_OK) status = json_text_append(into, text, size);
  if (status == STATUS_OK && head->is_chat) status = buffer_append(into, "}", 1);
  return status == STATUS_OK ? chunk_close(into, head, logprobs) : status;
}

static enum status usage_print(struct buffer *into, const struct answer_usage *usage) {
  return buffer_append_format(into,
                              "\"usage\":{\"prompt_tokens\":%u,\"completion_tokens\":%u,\"total_tokens\":%llu,"
                              "\"prompt_tokens_details\":{\"cached_tokens\":%u}}",
                              usage->prompt_tokens, usage->output_tokens,
                              (unsigned long long)usage->prompt_tokens + usage->output_tokens, usage->cached_tokens);
}

static double per_second(uint32_t tokens, uint64_t us) {
  return us == 0 ? 0 : tokens * 1e6 / (double)us;
}

static enum status timings_print(struct buffer *into, const struct answer_usage *usage) {
  enum status status = buffer_append_format(
      into,
      "\"timings\":{\"cache_n\":%u,\"prompt_n\":%u,\"prompt_ms\":%.3f,\"prompt_per_second\":%.3f,\"predicted_n\":%u,"
      "\"predicted_ms\":%.3f,\"predicted_per_second\":%.3f}",
      usage->cached_tokens, usage->computed_tokens, (double)usage->prefill_us / 1e3,
      per_second(usage->computed_tokens, usage->prefill_us), usage->output_tokens, (double)usage->decode_us / 1e3,
      per_second(usage->output_tokens, usage->decode_us));
  if (status != STATUS_OK) return status;
  status = buffer_append_format(into,
                                ",\"forelay\":{\"cached_tokens\":%u,\"tier\":\"%s\",\"queue_ms\":%.3f,"
                                "\"restore_ms\":%.3f,\"ttft_ms\":%.3f,\"prepared\":",
                                usage->cached_tokens, tier_name(usage->tier), (double)usage->queue_us / 1e3,
                                (double)usage->restore_us / 1e3, (double)usage->ttft_us / 1e3);
  if (status != STATUS_OK) return status;
  if (usage->task == 0) return buffer_append_text(into, "null}");
  return buffer_append_format(into, "%llu}", (unsigned long long)usage->task);
}

enum status answer_chunk_finish(struct buffer *into, const struct answer_head *head, uint32_t index,
                                const char *finish_reason, const struct answer_usage *usage) {
  enum status status = chunk_open(into, head, index);
  if (status == STATUS_OK) status = buffer_append_text(into, head->is_chat ? "\"delta\":{}" : "\"text\":\"\"");
  if (status == STATUS_OK) status = logprobs_and_reason(into, NULL, finish_reason);
  if (status == STATUS_OK) status = buffer_append_text(into, head->has_usage ? "],\"usage\":null" : "]");
  if (status == STATUS_OK && usage != NULL) status = buffer_append(into, ",", 1);
  if (status == STATUS_OK && usage != NULL) status = timings_print(into, usage);
  return status == STATUS_OK ? buffer_append(into, "}", 1) : status;
}

enum status answer_chunk_usage(struct buffer *into, const struct answer_head *head, const struct answer_usage *usage) {
  enum status status = head_print(into, head, head->is_chat ? "chat.completion.chunk" : "text_completion");
  if (status == STATUS_OK) status = buffer_append_text(into, "],");
  if (status == STATUS_OK) status = usage_print(into, usage);
  if (status == STATUS_OK) status = buffer_append(into, ",", 1);
  if (status == STATUS_OK) status = timings_print(into, usage);
  return status == STATUS_OK ? buffer_append(into, "}", 1) : status;
}

enum status answer_open(struct buffer *into, const struct answer_head *head) {
  return head_print(into, head, head->is_chat ? "chat.completion" : "text_completion");
}

enum status answer_choice(struct buffer *into, const struct answer_head *head, uint32_t index,
                          const char *message_json_or_text, size_t size, const char *logprobs,
                          const char *finish_reason) {
  enum status status = buffer_append_format(into, "%s{\"index\":%u,", index > 0 ? "," : "", index);
  if (status == STATUS_OK) status = buffer_append_text(into, head->is_chat ? "\"message\":" : "\"text\":");
  if (status == STATUS_OK) {
    status = head->is_chat ? buffer_append(into, message_json_or_text, size)
                           : json_text_append(into, message_json_or_text, size);
  }
  return status == STATUS_OK ? logprobs_and_reason(into, logprobs, finish_reason) : status;
}

enum status answer_close(struct buffer *into, const struct answer_usage *usage) {
  enum status status = buffer_append_text(into, "],");
  if (status == STATUS_OK) status = usage_print(into, usage);
  if (status == STATUS_OK) status = buffer_append(into, ",", 1);
  if (status == STATUS_OK) status = timings_print(into, usage);
  return status == STATUS_OK ? buffer_append(into, "}", 1) : status;
}
