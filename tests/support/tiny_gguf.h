/* Small models with random weights, written as GGUF files: a recurrent one (mamba), one with a sliding window (gemma2)
 * and a plain one (llama), to see what the border makes of memories of each kind. Header only; for cmocka tests. */
#ifndef FORELAY_TESTS_SUPPORT_TINY_GGUF_H
#define FORELAY_TESTS_SUPPORT_TINY_GGUF_H

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/buffer.h"
#include "base/rng.h"

enum {
  TINY_BYTE_TOKENS = 256,
  TINY_VOCAB = 3 + TINY_BYTE_TOKENS,
  TINY_EMBD = 64,
  TINY_LAYERS = 2,
  TINY_WINDOW = 96,
  TINY_CONTEXT = 1024
};

struct tiny_gguf {
  struct buffer metadata, tensors, data;
  uint64_t n_metadata, n_tensors;
  struct rng rng;
  const char *architecture;
};

static inline void tiny_put(struct buffer *into, const void *bytes, size_t size) {
  assert_int_equal(buffer_append(into, bytes, size), STATUS_OK);
}

static inline void tiny_put_u32(struct buffer *into, uint32_t number) {
  tiny_put(into, &number, sizeof number);
}

static inline void tiny_put_u64(struct buffer *into, uint64_t number) {
  tiny_put(into, &number, sizeof number);
}

static inline void tiny_put_text(struct buffer *into, const char *text) {
  tiny_put_u64(into, strlen(text));
  tiny_put(into, text, strlen(text));
}

enum { TINY_U32 = 4, TINY_I32 = 5, TINY_F32 = 6, TINY_BOOL = 7, TINY_TEXT = 8, TINY_ARRAY = 9 };

/* A key; a leading '.' is behind the architecture's name. */
static inline void tiny_key(struct tiny_gguf *gguf, const char *key, uint32_t type) {
  char name[96];
  snprintf(name, sizeof name, "%s%s", key[0] == '.' ? gguf->architecture : "", key);
  tiny_put_text(&gguf->metadata, name);
  tiny_put_u32(&gguf->metadata, type);
  gguf->n_metadata++;
}

static inline void tiny_u32(struct tiny_gguf *gguf, const char *key, uint32_t number) {
  tiny_key(gguf, key, TINY_U32);
  tiny_put_u32(&gguf->metadata, number);
}

static inline void tiny_f32(struct tiny_gguf *gguf, const char *key, float number) {
  tiny_key(gguf, key, TINY_F32);
  tiny_put(&gguf->metadata, &number, sizeof number);
}

static inline void tiny_text(struct tiny_gguf *gguf, const char *key, const char *text) {
  tiny_key(gguf, key, TINY_TEXT);
  tiny_put_text(&gguf->metadata, text);
}

static inline void tiny_array(struct tiny_gguf *gguf, const char *key, uint32_t type) {
  tiny_key(gguf, key, TINY_ARRAY);
  tiny_put_u32(&gguf->metadata, type);
  tiny_put_u64(&gguf->metadata, TINY_VOCAB);
}

/* A tensor of n0 × n1 (n1 0: one dimension) numbers around `centre`. `layer` < 0: not of a layer. */
static inline void tiny_tensor(struct tiny_gguf *gguf, int layer, const char *name, uint64_t n0, uint64_t n1,
                               float centre, float spread) {
  char full[96];
  if (layer < 0)
    snprintf(full, sizeof full, "%s", name);
  else
    snprintf(full, sizeof full, "blk.%d.%s", layer, name);
  tiny_put_text(&gguf->tensors, full);
  tiny_put_u32(&gguf->tensors, n1 ? 2 : 1);
  tiny_put_u64(&gguf->tensors, n0);
  if (n1) tiny_put_u64(&gguf->tensors, n1);
  tiny_put_u32(&gguf->tensors, 0); /* f32 */
  tiny_put_u64(&gguf->tensors, gguf->data.size);
  for (uint64_t i = 0; i < n0 * (n1 ? n1 : 1); i++) {
    float number = centre + spread * (float)rng_normal(&gguf->rng);
    tiny_put(&gguf->data, &number, sizeof number);
  }
  static const uint8_t zeros[32];
  tiny_put(&gguf->data, zeros, (32 - gguf->data.size % 32) % 32);
  gguf->n_tensors++;
}

static inline void tiny_vocabulary(struct tiny_gguf *gguf) {
  tiny_text(gguf, "tokenizer.ggml.model", "llama");
  tiny_array(gguf, "tokenizer.ggml.tokens", TINY_TEXT);
  tiny_put_text(&gguf->metadata, "<unk>");
  tiny_put_text(&gguf->metadata, "<s>");
  tiny_put_text(&gguf->metadata, "</s>");
  for (unsigned i = 0; i < TINY_BYTE_TOKENS; i++) {
    char text[8];
    snprintf(text, sizeof text, "<0x%02X>", i);
    tiny_put_text(&gguf->metadata, text);
  }
  tiny_array(gguf, "tokenizer.ggml.scores", TINY_F32);
  for (unsigned i = 0; i < TINY_VOCAB; i++) tiny_put_u32(&gguf->metadata, 0);
  tiny_array(gguf, "tokenizer.ggml.token_type", TINY_I32);
  for (unsigned i = 0; i < TINY_VOCAB; i++) tiny_put_u32(&gguf->metadata, i == 0 ? 2 : i < 3 ? 3 : 6);
  tiny_u32(gguf, "tokenizer.ggml.unknown_token_id", 0);
  tiny_u32(gguf, "tokenizer.ggml.bos_token_id", 1);
  tiny_u32(gguf, "tokenizer.ggml.eos_token_id", 2);
}

static inline void tiny_attention_layer(struct tiny_gguf *gguf, int layer, bool has_post_norms) {
  tiny_tensor(gguf, layer, "attn_norm.weight", TINY_EMBD, 0, 1, 0.1f);
  tiny_tensor(gguf, layer, "attn_q.weight", TINY_EMBD, TINY_EMBD, 0, 0.1f);
  tiny_tensor(gguf, layer, "attn_k.weight", TINY_EMBD, TINY_EMBD / 2, 0, 0.1f);
  tiny_tensor(gguf, layer, "attn_v.weight", TINY_EMBD, TINY_EMBD / 2, 0, 0.1f);
  tiny_tensor(gguf, layer, "attn_output.weight", TINY_EMBD, TINY_EMBD, 0, 0.1f);
  if (has_post_norms) tiny_tensor(gguf, layer, "post_attention_norm.weight", TINY_EMBD, 0, 1, 0.1f);
  tiny_tensor(gguf, layer, "ffn_norm.weight", TINY_EMBD, 0, 1, 0.1f);
  tiny_tensor(gguf, layer, "ffn_gate.weight", TINY_EMBD, 128, 0, 0.1f);
  tiny_tensor(gguf, layer, "ffn_up.weight", TINY_EMBD, 128, 0, 0.1f);
  tiny_tensor(gguf, layer, "ffn_down.weight", 128, TINY_EMBD, 0, 0.1f);
  if (has_post_norms) tiny_tensor(gguf, layer, "post_ffw_norm.weight", TINY_EMBD, 0, 1, 0.1f);
}

static inline void tiny_recurrent_layer(struct tiny_gguf *gguf, int layer) {
  enum { INNER = 2 * TINY_EMBD, STATE = 16, RANK = 4, KERNEL = 4 };
  tiny_tensor(gguf, layer, "attn_norm.weight", TINY_EMBD, 0, 1, 0.1f);
  tiny_tensor(gguf, layer, "ssm_in.weight", TINY_EMBD, 2 * INNER, 0, 0.1f);
  tiny_tensor(gguf, layer, "ssm_conv1d.weight", KERNEL, INNER, 0, 0.3f);
  tiny_tensor(gguf, layer, "ssm_conv1d.bias", INNER, 0, 0, 0.1f);
  tiny_tensor(gguf, layer, "ssm_x.weight", INNER, RANK + 2 * STATE, 0, 0.1f);
  tiny_tensor(gguf, layer, "ssm_dt.weight", RANK, INNER, 0, 0.1f);
  tiny_tensor(gguf, layer, "ssm_dt.bias", INNER, 0, -2, 0.1f);
  tiny_tensor(gguf, layer, "ssm_a", STATE, INNER, -1, 0.1f);
  tiny_tensor(gguf, layer, "ssm_d", INNER, 0, 1, 0.1f);
  tiny_tensor(gguf, layer, "ssm_out.weight", INNER, TINY_EMBD, 0, 0.1f);
}

static inline void tiny_architecture(struct tiny_gguf *gguf) {
  bool is_recurrent = strcmp(gguf->architecture, "mamba") == 0;
  tiny_text(gguf, "general.architecture", gguf->architecture);
  tiny_u32(gguf, ".vocab_size", TINY_VOCAB);
  tiny_u32(gguf, ".context_length", TINY_CONTEXT);
  tiny_u32(gguf, ".embedding_length", TINY_EMBD);
  tiny_u32(gguf, ".block_count", TINY_LAYERS);
  tiny_u32(gguf, ".feed_forward_length", is_recurrent ? 0 : 128);
  tiny_u32(gguf, ".attention.head_count", is_recurrent ? 0 : 4);
  tiny_f32(gguf, ".attention.layer_norm_rms_epsilon", 1e-5f);
  if (is_recurrent) {
    tiny_u32(gguf, ".ssm.conv_kernel", 4);
    tiny_u32(gguf, ".ssm.inner_size", 2 * TINY_EMBD);
    tiny_u32(gguf, ".ssm.state_size", 16);
    tiny_u32(gguf, ".ssm.time_step_rank", 4);
    return;
  }
  tiny_u32(gguf, ".attention.head_count_kv", 2);
  tiny_u32(gguf, ".attention.key_length", 16);
  tiny_u32(gguf, ".attention.value_length", 16);
  tiny_u32(gguf, ".rope.dimension_count", 16);
  if (strcmp(gguf->architecture, "gemma2") == 0) tiny_u32(gguf, ".attention.sliding_window", TINY_WINDOW);
}

/* architecture: "mamba", "gemma2" or "llama". Equal seeds, equal files. */
static inline void tiny_gguf_write(const char *path, const char *architecture, uint64_t seed) {
  struct tiny_gguf gguf = {.architecture = architecture};
  buffer_init(&gguf.metadata, 0);
  buffer_init(&gguf.tensors, 0);
  buffer_init(&gguf.data, 0);
  rng_init(&gguf.rng, seed);
  tiny_architecture(&gguf);
  tiny_vocabulary(&gguf);
  tiny_tensor(&gguf, -1, "token_embd.weight", TINY_EMBD, TINY_VOCAB, 0, 0.5f);
  tiny_tensor(&gguf, -1, "output_norm.weight", TINY_EMBD, 0, 1, 0.1f);
  if (strcmp(architecture, "llama") == 0) tiny_tensor(&gguf, -1, "output.weight", TINY_EMBD, TINY_VOCAB, 0, 0.5f);
  for (int i = 0; i < TINY_LAYERS; i++) {
    if (strcmp(architecture, "mamba") == 0)
      tiny_recurrent_layer(&gguf, i);
    else
      tiny_attention_layer(&gguf, i, strcmp(architecture, "gemma2") == 0);
  }
  struct buffer head;
  buffer_init(&head, 0);
  tiny_put(&head, "GGUF", 4);
  tiny_put_u32(&head, 3);
  tiny_put_u64(&head, gguf.n_tensors);
  tiny_put_u64(&head, gguf.n_metadata);
  tiny_put(&head, gguf.metadata.data, gguf.metadata.size);
  tiny_put(&head, gguf.tensors.data, gguf.tensors.size);
  static const uint8_t zeros[32];
  tiny_put(&head, zeros, (32 - head.size % 32) % 32);
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(head.data, 1, head.size, file), head.size);
  assert_int_equal(fwrite(gguf.data.data, 1, gguf.data.size, file), gguf.data.size);
  assert_int_equal(fclose(file), 0);
  buffer_release(&head);
  buffer_release(&gguf.metadata);
  buffer_release(&gguf.tensors);
  buffer_release(&gguf.data);
}

#endif
