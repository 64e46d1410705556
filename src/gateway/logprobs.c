#include "gateway/logprobs.h"

#include <math.h>
#include <string.h>

#include "engine/model.h"
#include "engine/sampler.h"
#include "gateway/json_text.h"

enum { PIECE_SIZE_MAX = 256, COLUMN_TOKENS = 0, COLUMN_LOGPROBS, COLUMN_TOP, COLUMN_OFFSETS, COLUMNS };

void logprobs_init(struct logprobs *logprobs, bool is_chat, size_t size_max) {
  memset(logprobs, 0, sizeof *logprobs);
  logprobs->is_chat = is_chat;
  for (int i = 0; i < COLUMNS; i++) {
    buffer_init(&logprobs->columns[i], size_max);
  }
}

void logprobs_release(struct logprobs *logprobs) {
  for (int i = 0; i < COLUMNS; i++) {
    buffer_release(&logprobs->columns[i]);
  }
}

void logprobs_clear(struct logprobs *logprobs) {
  logprobs->n_tokens = 0;
  for (int i = 0; i < COLUMNS; i++) {
    buffer_clear(&logprobs->columns[i]);
  }
}

static size_t piece_of(const struct model *model, int32_t token, char piece[PIECE_SIZE_MAX]) {
  size_t size = model_token_piece(model, token, true, piece, PIECE_SIZE_MAX);
  return size > PIECE_SIZE_MAX ? 0 : size;
}

/* JSON knows no infinity: a forbidden token's logarithm is written as OpenAI does. */
static enum status number_append(struct buffer *into, float logprob) {
  if (isnan(logprob)) return buffer_append_text(into, "null");
  return buffer_append_format(into, "%.6g", logprob < -9999.0f ? -9999.0 : (double)logprob);
}

/* "token": …, "logprob": …, "bytes": […] */
static enum status entry_append(struct buffer *into, const struct model *model, int32_t token, float logprob) {
  char piece[PIECE_SIZE_MAX];
  size_t size = piece_of(model, token, piece);
  enum status status = buffer_append_text(into, "{\"token\":");
  if (status == STATUS_OK) status = json_text_append(into, piece, size);
  if (status == STATUS_OK) status = buffer_append_text(into, ",\"logprob\":");
  if (status == STATUS_OK) status = number_append(into, logprob);
  if (status == STATUS_OK) status = buffer_append_text(into, ",\"bytes\":[");
  for (size_t i = 0; i < size && status == STATUS_OK; i++) {
    status = buffer_append_format(into, "%s%u", i > 0 ? "," : "", (unsigned)(unsigned char)piece[i]);
  }
  return status == STATUS_OK ? buffer_append(into, "]", 1) : status;
}

static enum status chat_entry_append(struct buffer *into, const struct model *model, const struct engine_token *token) {
  enum status status = entry_append(into, model, token->id, token->logprob);
  if (status == STATUS_OK) status = buffer_append_text(into, ",\"top_logprobs\":[");
  for (uint32_t i = 0; i < token->n_top && status == STATUS_OK; i++) {
    if (i > 0) status = buffer_append(into, ",", 1);
    if (status == STATUS_OK) status = entry_append(into, model, token->top[i].id, token->top[i].logprob);
    if (status == STATUS_OK) status = buffer_append(into, "}", 1);
  }
  return status == STATUS_OK ? buffer_append_text(into, "]}") : status;
}

static enum status text_entry_append(struct logprobs *logprobs, const struct model *model,
                                     const struct engine_token *token) {
  char piece[PIECE_SIZE_MAX];
  struct buffer *columns = logprobs->columns;
  size_t size = piece_of(model, token->id, piece);
  enum status status = json_text_append(&columns[COLUMN_TOKENS], piece, size);
  if (status == STATUS_OK) status = number_append(&columns[COLUMN_LOGPROBS], token->logprob);
  if (status == STATUS_OK) status = buffer_append_format(&columns[COLUMN_OFFSETS], "%zu", logprobs->text_offset);
  if (status == STATUS_OK) status = buffer_append(&columns[COLUMN_TOP], "{", 1);
  logprobs->text_offset += size;
  for (uint32_t i = 0; i < token->n_top && status == STATUS_OK; i++) {
    size = piece_of(model, token->top[i].id, piece);
    if (i > 0) status = buffer_append(&columns[COLUMN_TOP], ",", 1);
    if (status == STATUS_OK) status = json_text_append(&columns[COLUMN_TOP], piece, size);
    if (status == STATUS_OK) status = buffer_append(&columns[COLUMN_TOP], ":", 1);
    if (status == STATUS_OK) status = number_append(&columns[COLUMN_TOP], token->top[i].logprob);
  }
  return status == STATUS_OK ? buffer_append(&columns[COLUMN_TOP], "}", 1) : status;
}

enum status logprobs_add(struct logprobs *logprobs, const struct model *model, const struct engine_token *token) {
  enum status status = STATUS_OK;
  if (token->id < 0) return STATUS_OK;
  for (int i = 0; i < (logprobs->is_chat ? 1 : COLUMNS) && logprobs->n_tokens > 0 && status == STATUS_OK; i++) {
    status = buffer_append(&logprobs->columns[i], ",", 1);
  }
  if (status != STATUS_OK) return status;
  logprobs->n_tokens++;
  return logprobs->is_chat ? chat_entry_append(&logprobs->columns[0], model, token)
                           : text_entry_append(logprobs, model, token);
}

enum status logprobs_print(const struct logprobs *logprobs, struct buffer *into) {
  static const char *const openings[COLUMNS] = {"{\"tokens\":[", "],\"token_logprobs\":[", "],\"top_logprobs\":[",
                                                "],\"text_offset\":["};
  const struct buffer *columns = logprobs->columns;
  if (logprobs->is_chat) {
    enum status status = buffer_append_text(into, "{\"content\":[");
    if (status == STATUS_OK && columns[0].size > 0) status = buffer_append(into, columns[0].data, columns[0].size);
    return status == STATUS_OK ? buffer_append_text(into, "],\"refusal\":null}") : status;
  }
  enum status status = STATUS_OK;
  for (int i = 0; i < COLUMNS && status == STATUS_OK; i++) {
    status = buffer_append_text(into, openings[i]);
    if (status == STATUS_OK && columns[i].size > 0) status = buffer_append(into, columns[i].data, columns[i].size);
  }
  return status == STATUS_OK ? buffer_append_text(into, "]}") : status;
}
