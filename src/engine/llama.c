#include "engine/model.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <gguf.h>
#include <llama.h>
#include <openssl/evp.h>

#include "engine/llama_guard.h"
#include "engine/llama_model.h"
#include "engine/split.h"
#include "engine/weights.h"

static _Thread_local char log_text[192];

static void log_keep(enum ggml_log_level level, const char *text, void *ctx) {
  (void)ctx;
  if (level != GGML_LOG_LEVEL_ERROR || !text || log_text[0]) return;
  size_t size = strcspn(text, "\n");
  if (size == 0) return;
  if (size >= sizeof log_text) size = sizeof log_text - 1;
  memcpy(log_text, text, size);
  log_text[size] = 0;
}

const char *llama_log_text(void) {
  return log_text;
}

void llama_log_clear(void) {
  log_text[0] = 0;
}

/* What libllama said, or `otherwise`. */
static const char *log_or(const char *otherwise) {
  return log_text[0] ? log_text : otherwise;
}

static void backend_start(void) {
  llama_log_set(log_keep, NULL);
  setenv("GGML_NO_BACKTRACE", "1", 0); /* a failed assertion of theirs ends the process: quietly, without forking gdb */
  llama_backend_init();
  if (ggml_backend_dev_count() == 0) ggml_backend_load_all(); /* a build with backends as plug-ins */
}

static bool has_gpu(void) {
  for (size_t i = 0; i < ggml_backend_dev_count(); i++) {
    enum ggml_backend_dev_type type = ggml_backend_dev_type(ggml_backend_dev_get(i));
    if (type == GGML_BACKEND_DEVICE_TYPE_GPU || type == GGML_BACKEND_DEVICE_TYPE_IGPU) return true;
  }
  return false;
}

static enum status config_check(const struct model_config *config, struct error *error) {
  if (!config->path || !config->path[0]) return error_set(error, STATUS_INVALID, "no model file given");
  if (config->sequences < 1 || config->sequences > MODEL_SEQUENCES_MAX)
    return error_set(error, STATUS_INVALID, "sequences: %u is not in 1 … %d", config->sequences, MODEL_SEQUENCES_MAX);
  if (config->threads < 1 || config->threads > 512)
    return error_set(error, STATUS_INVALID, "threads: %u is not in 1 … 512", config->threads);
  if (config->micro_batch > MODEL_CALL_TOKENS_MAX)
    return error_set(error, STATUS_INVALID, "micro batch: %u is more than %d", config->micro_batch,
                     MODEL_CALL_TOKENS_MAX);
  return STATUS_OK;
}

/* Says what is wrong with the file before libllama does so in its own words. */
static enum status file_check(const char *path, struct error *error) {
  struct stat stat_of;
  if (stat(path, &stat_of) != 0)
    return error_set(error, errno == ENOENT ? STATUS_NOT_FOUND : STATUS_IO, "model %s: %s", path, strerror(errno));
  if (!S_ISREG(stat_of.st_mode)) return error_set(error, STATUS_INVALID, "model %s: not a file", path);
  FILE *file = fopen(path, "rb");
  if (!file) return error_set(error, STATUS_IO, "model %s: %s", path, strerror(errno));
  char magic[4] = {0};
  size_t n = fread(magic, 1, sizeof magic, file);
  fclose(file);
  if (n != sizeof magic || memcmp(magic, "GGUF", 4) != 0)
    return error_set(error, STATUS_INVALID, "model %s: not a GGUF file; convert it with llama.cpp's tools first", path);
  return STATUS_OK;
}

static enum status weights_open(struct model *model, const struct model_config *config, struct error *error) {
  struct llama_model_params params = llama_model_default_params();
  params.n_gpu_layers = config->gpu_layers;
  llama_log_clear();
  enum status status = guard_model_load(config->path, &params, &model->weights, error);
  if (status != STATUS_OK) return status;
  if (!model->weights) {
    const char *said = log_or("no reason given");
    status = strstr(said, "architecture") ? STATUS_UNSUPPORTED : STATUS_INVALID;
    return error_set(error, status, "model %s: libllama cannot load it: %s", config->path, said);
  }
  model->vocab = llama_model_get_vocab(model->weights);
  if (!llama_model_has_decoder(model->weights) || llama_model_has_encoder(model->weights) ||
      llama_model_is_diffusion(model->weights) || llama_vocab_type(model->vocab) == LLAMA_VOCAB_TYPE_NONE)
    return error_set(error, STATUS_UNSUPPORTED, "model %s: not a model that continues text token by token",
                     config->path);
  return STATUS_OK;
}

static enum status context_tokens_choose(const struct model *model, const struct model_config *config,
                                         uint32_t *ret_tokens, struct error *error) {
  uint32_t trained = (uint32_t)llama_model_n_ctx_train(model->weights);
  uint32_t tokens = config->context_tokens;
  if (tokens == 0) tokens = trained < MODEL_CONTEXT_DEFAULT ? trained : MODEL_CONTEXT_DEFAULT;
  if (tokens > trained)
    return error_set(error, STATUS_TOO_LONG, "context of %u tokens: model %s was trained on %u; give at most that many",
                     tokens, config->path, trained);
  tokens = (tokens + 255) / 256 * 256;
  if ((uint64_t)tokens * config->sequences > INT32_MAX)
    return error_set(error, STATUS_TOO_LONG, "context of %u tokens in %u sequences: more than 2^31 together", tokens,
                     config->sequences);
  *ret_tokens = tokens;
  return STATUS_OK;
}

static enum status context_open(struct model *model, const struct model_config *config, struct error *error) {
  uint32_t tokens = 0;
  enum status status = context_tokens_choose(model, config, &tokens, error);
  if (status != STATUS_OK) return status;
  bool is_gpu = config->gpu_layers != 0 && llama_supports_gpu_offload() && has_gpu();
  struct llama_context_params params = llama_context_default_params();
  params.n_ctx = tokens * config->sequences;
  params.n_seq_max = config->sequences;
  params.n_batch = MODEL_CALL_TOKENS_MAX;
  params.n_ubatch = config->micro_batch ? config->micro_batch : SPLIT_MICRO_BATCH;
  params.n_outputs_max = config->sequences;
  params.n_threads = params.n_threads_batch = (int32_t)config->threads;
  params.kv_unified = false;
  params.no_perf = true;
  params.offload_kqv = params.op_offload = is_gpu;
  params.flash_attn_type = config->flash == MODEL_FLASH_ON    ? LLAMA_FLASH_ATTN_TYPE_ENABLED
                           : config->flash == MODEL_FLASH_OFF ? LLAMA_FLASH_ATTN_TYPE_DISABLED
                           : is_gpu                           ? LLAMA_FLASH_ATTN_TYPE_AUTO
                                                              : LLAMA_FLASH_ATTN_TYPE_DISABLED;
  llama_log_clear();
  status = guard_context_create(model->weights, &params, &model->context, error);
  if (status != STATUS_OK) return status;
  if (!model->context)
    return error_set(error, STATUS_NO_MEMORY, "context of %u sequences of %u tokens: %s; try fewer of either",
                     config->sequences, tokens, log_or("libllama cannot make it"));
  if (!llama_get_memory(model->context) || !llama_get_causal_attn(model->context))
    return error_set(error, STATUS_UNSUPPORTED, "model %s: not a model that continues text token by token",
                     config->path);
  struct model_facts *facts = &model->facts;
  facts->context_tokens = llama_n_ctx_seq(model->context);
  facts->sequences = llama_n_seq_max(model->context);
  facts->micro_batch = llama_n_ubatch(model->context);
  facts->threads = config->threads;
  facts->is_gpu = is_gpu;
  facts->flash_attention = params.flash_attn_type != LLAMA_FLASH_ATTN_TYPE_DISABLED;
  model->type_k = params.type_k;
  model->type_v = params.type_v;
  model->swa_full = params.swa_full;
  return STATUS_OK;
}

static void facts_fill(struct model *model, const char *path) {
  struct model_facts *facts = &model->facts;
  const char *name = strrchr(path, '/');
  name = name ? name + 1 : path;
  size_t size = strlen(name);
  if (size > 5 && strcmp(name + size - 5, ".gguf") == 0) size -= 5;
  snprintf(facts->name, sizeof facts->name, "%.*s", (int)(size < sizeof facts->name ? size : sizeof facts->name - 1),
           name);
  llama_model_desc(model->weights, facts->description, sizeof facts->description);
  llama_model_meta_val_str(model->weights, "general.architecture", facts->architecture, sizeof facts->architecture);
  facts->chat_template = llama_model_chat_template(model->weights, NULL);
  facts->file_bytes = weights_bytes(path);
  facts->n_params = llama_model_n_params(model->weights);
  facts->n_vocab = (uint32_t)llama_vocab_n_tokens(model->vocab);
  facts->n_layer = (uint32_t)llama_model_n_layer(model->weights);
  facts->trained_tokens = (uint32_t)llama_model_n_ctx_train(model->weights);
  facts->bos = llama_vocab_bos(model->vocab);
  facts->eos = llama_vocab_eos(model->vocab);
  facts->adds_bos = llama_vocab_get_add_bos(model->vocab);
  facts->drops_suffix = !llama_model_is_recurrent(model->weights) && !llama_model_is_hybrid(model->weights) &&
                        llama_model_n_swa(model->weights) == 0;
}

static enum status batch_open(struct model *model) {
  enum { N = MODEL_CALL_TOKENS_MAX };
  model->batch_tokens = malloc(N * sizeof *model->batch_tokens);
  model->batch_positions = malloc(N * sizeof *model->batch_positions);
  model->batch_n_seqs = malloc(N * sizeof *model->batch_n_seqs);
  model->batch_seqs = malloc(N * sizeof *model->batch_seqs);
  model->batch_seq_of = malloc(N * sizeof *model->batch_seq_of);
  model->batch_wants = malloc(N);
  model->cell_of = malloc(model->facts.context_tokens * sizeof *model->cell_of);
  if (!model->batch_tokens || !model->batch_positions || !model->batch_n_seqs || !model->batch_seqs ||
      !model->batch_seq_of || !model->batch_wants || !model->cell_of)
    return STATUS_NO_MEMORY;
  for (uint32_t i = 0; i < N; i++) {
    model->batch_n_seqs[i] = 1;
    model->batch_seq_of[i] = &model->batch_seqs[i];
  }
  return STATUS_OK;
}

enum status model_open(const struct model_config *config, struct model **ret_model, struct error *error) {
  if (error) error->text[0] = 0;
  enum status status = config_check(config, error);
  if (status != STATUS_OK) return status;
  status = file_check(config->path, error);
  if (status != STATUS_OK) return status;
  struct model *model = calloc(1, sizeof *model);
  if (!model) return error_set(error, STATUS_NO_MEMORY, "model %s: out of memory", config->path);
  backend_start();
  model->path = strdup(config->path);
  status = model->path ? weights_open(model, config, error) : STATUS_NO_MEMORY;
  if (status != STATUS_OK) goto out;
  status = context_open(model, config, error);
  if (status != STATUS_OK) goto out;
  facts_fill(model, config->path);
  status = batch_open(model);
  if (status != STATUS_OK) goto out;
  status = state_probe(model, error);
out:
  if (status == STATUS_NO_MEMORY && error && !error->text[0])
    error_set(error, STATUS_NO_MEMORY, "model %s: out of memory", config->path);
  if (status != STATUS_OK) {
    model_close(&model);
    return status;
  }
  *ret_model = model;
  return STATUS_OK;
}

void model_close(struct model **model_at) {
  struct model *model = *model_at;
  if (!model) return;
  state_release(model);
  if (model->context) llama_free(model->context);
  if (model->weights) llama_model_free(model->weights);
  free(model->batch_tokens);
  free(model->batch_positions);
  free(model->batch_n_seqs);
  free(model->batch_seqs);
  free(model->batch_seq_of);
  free(model->batch_wants);
  free(model->cell_of);
  free(model->path);
  free(model);
  *model_at = NULL;
}

const struct model_facts *model_facts(const struct model *model) {
  return &model->facts;
}

void model_set_abort(struct model *model, bool (*is_unwanted)(void *ctx), void *ctx) {
  llama_set_abort_callback(model->context, is_unwanted, ctx);
}

static enum status batch_run(struct model *model, uint32_t n, uint32_t n_rows, struct error *error) {
  struct llama_batch batch = {.n_tokens = (int32_t)n,
                              .token = model->batch_tokens,
                              .pos = model->batch_positions,
                              .n_seq_id = model->batch_n_seqs,
                              .seq_id = model->batch_seq_of,
                              .logits = model->batch_wants};
  int32_t code = 0;
  model->n_rows = 0;
  llama_log_clear();
  enum status status = guard_decode(model->context, &batch, &code, error);
  if (status != STATUS_OK) return status;
  switch (code) {
  case 0:
    model->n_rows = n_rows;
    return STATUS_OK;
  case 1:
    return error_set(error, STATUS_FULL, "no room for %u more tokens in the KV cache", n);
  case 2:
    return error_set(error, STATUS_CANCELLED, "computing was called off");
  default:
    return error_set(error, STATUS_IO, "computing failed (%d): %s", code, log_or("no reason given"));
  }
}

/* After a call that ended inside: memory that cannot drop a suffix may have taken half a micro-batch in for good. */
static void sequence_mend(struct model *model, uint32_t seq) {
  if (model->facts.drops_suffix) return;
  bool is_empty = model_seq_remove(model, seq, 0);
  assert(is_empty);
  (void)is_empty;
}

enum status model_decode(struct model *model, uint32_t seq, uint32_t first, const int32_t *tokens, uint32_t n,
                         bool wants_logits, struct error *error) {
  assert(n >= 1 && n <= MODEL_CALL_TOKENS_MAX && seq < model->facts.sequences);
  assert(first == model_seq_tokens(model, seq));
  if (n > model->facts.context_tokens - first)
    return error_set(error, STATUS_FULL, "%u tokens behind %u do not fit a context of %u", n, first,
                     model->facts.context_tokens);
  state_outdate(model, seq);
  for (uint32_t i = 0; i < n; i++) {
    model->batch_tokens[i] = tokens[i];
    model->batch_positions[i] = (int32_t)(first + i);
    model->batch_seqs[i] = (int32_t)seq;
    model->batch_wants[i] = 0;
  }
  model->batch_wants[n - 1] = wants_logits;
  enum status status = batch_run(model, n, wants_logits ? 1 : 0, error);
  if (status != STATUS_OK && status != STATUS_FULL) sequence_mend(model, seq);
  return status;
}

enum status model_decode_step(struct model *model, uint32_t n, const uint32_t *seqs, const int32_t *tokens,
                              const uint32_t *positions, struct error *error) {
  assert(n >= 1 && n <= model->facts.sequences);
  for (uint32_t i = 0; i < n; i++) {
    assert(seqs[i] < model->facts.sequences);
    if (positions[i] >= model->facts.context_tokens)
      return error_set(error, STATUS_FULL, "sequence %u: its context of %u tokens is full", seqs[i],
                       model->facts.context_tokens);
    state_outdate(model, seqs[i]);
    model->batch_tokens[i] = tokens[i];
    model->batch_positions[i] = (int32_t)positions[i];
    model->batch_seqs[i] = (int32_t)seqs[i];
    model->batch_wants[i] = 1;
  }
  enum status status = batch_run(model, n, n, error);
  if (status != STATUS_OK && status != STATUS_FULL)
    for (uint32_t i = 0; i < n; i++) sequence_mend(model, seqs[i]);
  return status;
}

const float *model_logits(const struct model *model, uint32_t row) {
  if (row >= model->n_rows) return NULL;
  return llama_get_logits_ith(model->context, (int32_t)row - (int32_t)model->n_rows);
}

bool model_seq_remove(struct model *model, uint32_t seq, uint32_t from) {
  assert(seq < model->facts.sequences);
  if (from > 0 && from < model_seq_tokens(model, seq) && !model->facts.drops_suffix) return false;
  state_outdate(model, seq);
  return llama_memory_seq_rm(llama_get_memory(model->context), (int32_t)seq, from ? (int32_t)from : -1, -1);
}

uint32_t model_seq_tokens(const struct model *model, uint32_t seq) {
  return (uint32_t)(llama_memory_seq_pos_max(llama_get_memory(model->context), (int32_t)seq) + 1);
}

enum status model_tokenize(const struct model *model, const char *text, size_t size, bool adds_special,
                           bool parses_special, struct buffer *tokens, struct error *error) {
  if (size > INT32_MAX / 8) return error_set(error, STATUS_TOO_LONG, "text of %zu bytes is too long", size);
  size_t room = (tokens->size_max - tokens->size) / sizeof(int32_t);
  size_t max = size + 8 < room ? size + 8 : room;
  for (;;) {
    enum status status = buffer_reserve(tokens, max * sizeof(int32_t));
    if (status != STATUS_OK) return error_set(error, status, "no room for the tokens of %zu bytes of text", size);
    int32_t count = 0;
    status = guard_tokenize(model->vocab, text, (int32_t)size, (int32_t *)(void *)(tokens->data + tokens->size),
                            (int32_t)max, adds_special, parses_special, &count, error);
    if (status != STATUS_OK) return status;
    if (count >= 0) {
      tokens->size += (size_t)count * sizeof(int32_t);
      tokens->data[tokens->size] = 0;
      return STATUS_OK;
    }
    if (count == INT32_MIN || (size_t)-count > room)
      return error_set(error, STATUS_TOO_LONG, "text of %zu bytes is more than %zu tokens", size, room);
    max = (size_t)-count;
  }
}

size_t model_token_piece(const struct model *model, int32_t token, bool shows_special, char *piece, size_t size) {
  if (token < 0 || (uint32_t)token >= model->facts.n_vocab) return 0;
  int32_t n =
      llama_token_to_piece(model->vocab, token, piece, size > INT32_MAX ? INT32_MAX : (int32_t)size, 0, shows_special);
  return (size_t)(n < 0 ? -n : n);
}

enum status model_detokenize(const struct model *model, const int32_t *tokens, size_t n, struct buffer *text,
                             struct error *error) {
  size_t start = text->size;
  enum status status = STATUS_OK;
  for (size_t i = 0; i < n && status == STATUS_OK; i++) {
    char piece[256];
    size_t size = model_token_piece(model, tokens[i], true, piece, sizeof piece);
    if (size <= sizeof piece) {
      status = buffer_append(text, piece, size);
      continue;
    }
    status = buffer_reserve(text, size);
    if (status == STATUS_OK) {
      text->size += model_token_piece(model, tokens[i], true, (char *)text->data + text->size, size);
      text->data[text->size] = 0;
    }
  }
  if (status == STATUS_OK) return STATUS_OK;
  text->size = start;
  if (text->data) text->data[start] = 0;
  return error_set(error, status, "no room for the text of %zu tokens", n);
}

bool model_token_is_end(const struct model *model, int32_t token) {
  return token >= 0 && (uint32_t)token < model->facts.n_vocab && llama_vocab_is_eog(model->vocab, token);
}

/* A metadata number of this architecture ("rope.freq_base"), or `otherwise`. */
static double metadata_number(const struct model *model, const char *key, double otherwise) {
  char name[128], value[64];
  snprintf(name, sizeof name, "%s.%s", model->facts.architecture, key);
  if (llama_model_meta_val_str(model->weights, name, value, sizeof value) <= 0) return otherwise;
  char *end;
  double number = strtod(value, &end);
  return end == value ? otherwise : number;
}

static void digest_text(EVP_MD_CTX *digest, const void *bytes, size_t size) {
  uint64_t size_first = size;
  EVP_DigestUpdate(digest, &size_first, sizeof size_first);
  EVP_DigestUpdate(digest, bytes, size);
}

/* Bytes of one value of a metadata type that has a fixed size. */
static size_t metadata_bytes(enum gguf_type type) {
  switch (type) {
  case GGUF_TYPE_UINT8:
  case GGUF_TYPE_INT8:
  case GGUF_TYPE_BOOL:
    return 1;
  case GGUF_TYPE_UINT16:
  case GGUF_TYPE_INT16:
    return 2;
  case GGUF_TYPE_UINT32:
  case GGUF_TYPE_INT32:
  case GGUF_TYPE_FLOAT32:
    return 4;
  case GGUF_TYPE_UINT64:
  case GGUF_TYPE_INT64:
  case GGUF_TYPE_FLOAT64:
    return 8;
  default:
    return 0;
  }
}

static void digest_metadata(EVP_MD_CTX *digest, const struct gguf_context *gguf, int64_t key) {
  enum gguf_type type = gguf_get_kv_type(gguf, key);
  digest_text(digest, &type, sizeof type);
  if (type == GGUF_TYPE_STRING) {
    const char *text = gguf_get_val_str(gguf, key);
    digest_text(digest, text, strlen(text));
    return;
  }
  if (type != GGUF_TYPE_ARRAY) {
    digest_text(digest, gguf_get_val_data(gguf, key), metadata_bytes(type));
    return;
  }
  enum gguf_type element = gguf_get_arr_type(gguf, key);
  size_t n = gguf_get_arr_n(gguf, key);
  digest_text(digest, &element, sizeof element);
  if (element != GGUF_TYPE_STRING) {
    digest_text(digest, gguf_get_arr_data(gguf, key), n * metadata_bytes(element));
    return;
  }
  digest_text(digest, &n, sizeof n);
  for (size_t i = 0; i < n; i++) {
    const char *text = gguf_get_arr_str(gguf, key, i);
    digest_text(digest, text, strlen(text));
  }
}

/* Everything the file says about its tokenizer, merges included; the chat template is not part of it. */
static enum status tokenizer_digest(const struct model *model, uint8_t ret_digest[32], struct error *error) {
  struct gguf_context *gguf = NULL;
  enum status status = guard_gguf_open(model->path, &gguf, error);
  if (status != STATUS_OK) return status;
  if (!gguf) return error_set(error, STATUS_IO, "model %s: cannot be read again", model->path);
  EVP_MD_CTX *digest = EVP_MD_CTX_new();
  if (!digest || !EVP_DigestInit_ex(digest, EVP_sha256(), NULL)) {
    status = error_set(error, STATUS_NO_MEMORY, "model %s: out of memory", model->path);
  } else {
    for (int64_t i = 0; i < gguf_get_n_kv(gguf); i++) {
      const char *name = gguf_get_key(gguf, i);
      if (strncmp(name, "tokenizer.", 10) != 0 || strncmp(name, "tokenizer.chat_template", 23) == 0) continue;
      digest_text(digest, name, strlen(name));
      digest_metadata(digest, gguf, i);
    }
    EVP_DigestFinal_ex(digest, ret_digest, NULL);
  }
  EVP_MD_CTX_free(digest);
  gguf_free(gguf);
  return status;
}

/* Names of what is on ("AVX2,FMA,…") out of "AVX2 = 1 | FMA = 1 | …". */
static void cpu_features(char *ret_text, size_t size) {
  size_t used = 0;
  ret_text[0] = 0;
  for (const char *at = llama_print_system_info(); at && *at;) {
    size_t item = strcspn(at, "|");
    const char *equals = memchr(at, '=', item);
    if (equals && strtol(equals + 1, NULL, 10) != 0) {
      const char *colon = memchr(at, ':', item), *name = colon ? colon + 1 : at;
      while (name < equals && *name == ' ') name++;
      const char *end = equals;
      while (end > name && end[-1] == ' ') end--;
      int n = snprintf(ret_text + used, size - used, "%s%.*s", used ? "," : "", (int)(end - name), name);
      if (n < 0 || (size_t)n >= size - used) return;
      used += (size_t)n;
    }
    at += item;
    if (*at == '|') at++;
  }
}

/* A number of the kind of GPU, never 0: its description decides which kernels run. */
static uint32_t gpu_number(void) {
  uint32_t number = 2166136261u;
  for (size_t i = 0; i < ggml_backend_dev_count(); i++) {
    ggml_backend_dev_t device = ggml_backend_dev_get(i);
    if (ggml_backend_dev_type(device) != GGML_BACKEND_DEVICE_TYPE_GPU) continue;
    for (const char *at = ggml_backend_dev_description(device); *at; at++) number = (number ^ (uint8_t)*at) * 16777619u;
  }
  return number ? number : 1;
}

enum status model_fingerprint(const struct model *model, const char *cache_dir, struct fingerprint_compat *ret_compat,
                              struct fingerprint_exact *ret_exact, struct error *error) {
  const struct model_facts *facts = &model->facts;
  struct llama_context_params defaults = llama_context_default_params();
  struct fingerprint_compat compat;
  struct fingerprint_exact exact;
  memset(&compat, 0, sizeof compat);
  memset(&exact, 0, sizeof exact);
  enum status status = weights_digest(model->path, cache_dir, compat.weights, error);
  if (status != STATUS_OK) return status;
  status = tokenizer_digest(model, compat.tokenizer, error);
  if (status != STATUS_OK) return status;
  memcpy(compat.architecture, facts->architecture, sizeof compat.architecture - 1);
  compat.n_layer = facts->n_layer;
  if (model->layout.n_parts) {
    const struct state_part *k = &model->layout.parts[0], *v = &model->layout.parts[model->layout.n_parts - 1];
    compat.n_embd_k = (uint32_t)((uint64_t)k->lanes * k->lane_bytes / ggml_type_size(model->type_k) *
                                 (uint64_t)ggml_blck_size(model->type_k));
    compat.n_embd_v = (uint32_t)((uint64_t)v->lanes * v->lane_bytes / ggml_type_size(model->type_v) *
                                 (uint64_t)ggml_blck_size(model->type_v));
  }
  compat.rope_freq_base = (float)metadata_number(model, "rope.freq_base", 10000);
  compat.rope_freq_scale = llama_model_rope_freq_scale_train(model->weights);
  compat.yarn_ext_factor = (float)metadata_number(model, "rope.scaling.yarn_ext_factor", defaults.yarn_ext_factor);
  compat.yarn_attn_factor = (float)metadata_number(model, "rope.scaling.attn_factor", defaults.yarn_attn_factor);
  compat.yarn_beta_fast = (float)metadata_number(model, "rope.scaling.yarn_beta_fast", defaults.yarn_beta_fast);
  compat.yarn_beta_slow = (float)metadata_number(model, "rope.scaling.yarn_beta_slow", defaults.yarn_beta_slow);
  compat.yarn_orig_ctx =
      (uint32_t)metadata_number(model, "rope.scaling.original_context_length", facts->trained_tokens);
  compat.rope_type = llama_model_rope_type(model->weights);
  compat.type_k = model->type_k;
  compat.type_v = model->type_v;
  compat.flash_attention = facts->flash_attention;
  compat.swa_full = model->swa_full;
  const char *no_rotation = getenv("LLAMA_ATTN_ROT_DISABLE");
  compat.attention_rotation = !(no_rotation && atoi(no_rotation));
  compat.layout_version = MODEL_LAYOUT + (facts->state == MODEL_STATE_CUT ? 0 : 0x100);
  compat.engine_state_version = LLAMA_STATE_SEQ_VERSION;
  cpu_features(exact.cpu_features, sizeof exact.cpu_features);
  snprintf(exact.engine_build, sizeof exact.engine_build, "llama.cpp %s ggml %s %s", llama_version(), ggml_version(),
           ggml_commit());
  exact.threads = facts->threads;
  exact.micro_batch = facts->micro_batch;
  exact.split_rule = SPLIT_RULE;
  exact.backend = facts->is_gpu ? gpu_number() : 0;
  *ret_compat = compat;
  *ret_exact = exact;
  return STATUS_OK;
}
